//! The format of a schema: a check for strings, or bounds for numbers.

use kube_lang::formats;

use super::keywords::Type;

/// A format that values are checked against, with its name in the schema.
#[derive(Clone, Debug)]
pub(super) struct Format {
    pub(super) name: String,
    /// `None` for formats of numbers, which only bound them.
    check: Option<fn(&str) -> bool>,
}

/// The set of formats that are checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Formats {
    /// Formats that apply to the types of their schema. For objects.
    Meaningful,
    /// All formats of the schema, even if they only exclude numbers. For defaults, because the server is stricter with
    /// these.
    Written,
}

impl Format {
    /// The format of a schema, if it is checked.
    pub(super) fn of(name: &str, types: &[Type], formats: Formats) -> Option<Self> {
        if formats == Formats::Written {
            return (!name.is_empty()).then(|| Self {
                name: name.to_owned(),
                check: formats::checker(name),
            });
        }
        let check = match types {
            [Type::Integer] => matches!(name, "int32" | "int64").then_some(None),
            [Type::Number] => matches!(name, "float" | "double").then_some(None),
            [Type::Array | Type::Boolean | Type::Object] => None,
            _ => formats::checker(name).map(Some),
        }?;
        Some(Self {
            name: name.to_owned(),
            check,
        })
    }

    pub(super) fn accepts(&self, text: &str) -> bool {
        self.check.is_none_or(|check| check(text))
    }
}

/// Whether strings of this format are checked.
pub(super) fn checks(name: &str) -> bool {
    formats::checker(name).is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats_of_other_types_and_unknown_ones_mean_nothing() {
        let counts = |name, kind| Format::of(name, &[kind], Formats::Meaningful).is_some();
        assert!(!counts("date", Type::Object));
        assert!(!counts("int32", Type::String));
        assert!(!counts("wishful", Type::String));
        assert!(counts("int64", Type::Integer));
    }
}
