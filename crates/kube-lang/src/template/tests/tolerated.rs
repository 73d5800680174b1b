//! What differs from the original on purpose, with its reason.

pub(super) const GO: &[(&str, &str)] = &[
    (
        "lang-nil-value-field",
        "a field of null is absent instead of an error: nothing that rendered changes",
    ),
    (
        "lang-nil-object-field",
        "a field of null is absent instead of an error: nothing that rendered changes",
    ),
    (
        "lang-var-assign-undefined",
        "accepted where the original refuses to parse",
    ),
    (
        "misc-var-in-define",
        "accepted where the original refuses to parse",
    ),
    (
        "lang-comment-space",
        "accepted where the original refuses to parse",
    ),
    ("lang-complex", "complex numbers are refused"),
    (
        "builtin-printf-sharp-v",
        "rare verbs are refused at rendering",
    ),
    (
        "str-trunc-unicode",
        "the original's answer is no valid UTF-8",
    ),
    (
        "semver-methods",
        "methods are refused; semverCompare compares",
    ),
    (
        "date-duration",
        "integer literals here are refused: int and int64 are one type",
    ),
    (
        "date-in-zone-named",
        "zones other than UTC are refused: what is known of them differs from machine to machine",
    ),
    (
        "date-in-zone-unknown",
        "zones other than UTC are refused: what is known of them differs from machine to machine",
    ),
    (
        "list-has",
        "integer literals here are refused: int and int64 are one type",
    ),
    (
        "type-kindof",
        "integer literals here are refused: int and int64 are one type",
    ),
    (
        "type-typeis",
        "integer literals here are refused: int and int64 are one type",
    ),
    (
        "type-deepequal",
        "integer literals here are refused: int and int64 are one type",
    ),
    ("dict-set-data", "changing the data is refused"),
];
pub(super) const HTML: &[(&str, &str)] = &[];

/// Of our own cases.
pub(super) const MORE: &[(&str, &str)] = &[
    (
        "more-155",
        "text that is no base64 is an error, not an answer that says so",
    ),
    ("more-177", "a list of no matches is null, as in JSON"),
    ("more-192", "a repetition without a lower bound is refused"),
    ("more-230", "one letter of Turkish: Unicode's own rule"),
];
