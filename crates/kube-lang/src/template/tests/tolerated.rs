//! What differs from the original on purpose, with its reason.

pub(super) const GO: &[(&str, &str)] = &[
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
        "date-in-zone-named",
        "zones other than UTC are refused: what is known of them differs from machine to machine",
    ),
    (
        "date-in-zone-unknown",
        "zones other than UTC are refused: what is known of them differs from machine to machine",
    ),
    ("dict-set-data", "changing the data is refused"),
];
pub(super) const HTML: &[(&str, &str)] = &[];

/// Of our own cases.
pub(super) const MORE: &[(&str, &str)] = &[
    ("more-192", "a repetition without a lower bound is refused"),
    ("more-230", "one letter of Turkish: Unicode's own rule"),
];

/// Of the cases about edges.
pub(super) const EDGES: &[(&str, &str)] = &[
    (
        "edge-97",
        "bytes that are no UTF-8 are refused: no object can hold them",
    ),
    ("edge-100", "two halves of one character are replaced each"),
    (
        "edge-103",
        "bytes that are no UTF-8 are refused: no object can hold them",
    ),
    (
        "edge-104",
        "bytes that are no UTF-8 are refused: no object can hold them",
    ),
    (
        "edge-105",
        "bytes that are no UTF-8 are refused: no object can hold them",
    ),
    (
        "edge-106",
        "bytes that are no UTF-8 are refused: no object can hold them",
    ),
    (
        "edge-107",
        "bytes that are no UTF-8 are refused: no object can hold them",
    ),
    (
        "edge-108",
        "bytes that are no UTF-8 are refused: no object can hold them",
    ),
    (
        "edge-109",
        "bytes that are no UTF-8 are refused: no object can hold them",
    ),
    (
        "edge-110",
        "bytes that are no UTF-8 are refused: no object can hold them",
    ),
    (
        "edge-246",
        "bytes that are no UTF-8 are refused: no object can hold them",
    ),
    (
        "edge-265",
        "bytes that are no UTF-8 are refused: no object can hold them",
    ),
    (
        "edge-312",
        "a list or a map has one type here, whatever its elements",
    ),
    (
        "edge-313",
        "a list or a map has one type here, whatever its elements",
    ),
    (
        "edge-314",
        "a list or a map has one type here, whatever its elements",
    ),
    (
        "edge-315",
        "a list or a map has one type here, whatever its elements",
    ),
    (
        "edge-342",
        "integers of the template and of an object in one value are not told from each other",
    ),
    (
        "edge-350",
        "integers of the template and of an object in one value are not told from each other",
    ),
    (
        "edge-384",
        "integers of the template and of an object in one value are not told from each other",
    ),
    (
        "edge-399",
        "methods that make another version are not offered",
    ),
    (
        "edge-400",
        "methods that make another version are not offered",
    ),
    (
        "edge-401",
        "methods that make another version are not offered",
    ),
    (
        "edge-402",
        "methods with arguments are refused; semverCompare compares",
    ),
    ("edge-403", "a method that is none is absent, like a field"),
    ("edge-407", "accepted where the original refuses to parse"),
    ("edge-412", "accepted where the original refuses to parse"),
    ("edge-425", "accepted where the original refuses to parse"),
    ("edge-659", "accepted where the original refuses to parse"),
    ("edge-426", "complex numbers are refused"),
];
