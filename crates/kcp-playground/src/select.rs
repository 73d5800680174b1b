//! Label selectors and field selectors of list and watch requests: parsed once, matched often.
//!
//! Labels follow apimachinery's grammar exactly, with case-sensitive keywords. The caller knows which fields a resource
//! can be selected by.

use std::{collections::BTreeSet, fmt};

mod field_terms;
mod label_grammar;
#[cfg(test)]
mod tests;

pub(crate) use field_terms::FieldSelector;

/// A problem of a selector, with the message of the server's 400.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum SelectError {
    /// A label selector with invalid syntax, or with keys or values that labels cannot have.
    #[error("{0}")]
    Labels(String),
    /// A field selector with invalid syntax.
    #[error("{0}")]
    Fields(String),
    #[error("field label not supported: {0}")]
    UnsupportedField(String),
    #[error("selector of {size} bytes is longer than {MAX_SELECTOR} bytes")]
    TooLong { size: usize },
}

/// Longer than any request line that proxies accept.
const MAX_SELECTOR: usize = 64 * 1024;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Operator {
    DoesNotExist,
    Equals,
    DoubleEquals,
    In,
    NotEquals,
    NotIn,
    Exists,
    GreaterThan,
    LessThan,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Requirement {
    key: String,
    operator: Operator,
    values: BTreeSet<String>,
}

/// A conjunction of requirements on labels.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct LabelSelector {
    requirements: Vec<Requirement>,
}

impl LabelSelector {
    /// Selects everything.
    pub(crate) fn is_empty(&self) -> bool {
        self.requirements.is_empty()
    }

    /// Matches against labels, which are looked up by their keys.
    pub(crate) fn matches_by<'l>(&self, label: impl Fn(&str) -> Option<&'l str>) -> bool {
        self.requirements.iter().all(|r| r.matches(label(&r.key)))
    }
}

impl Requirement {
    fn matches(&self, label: Option<&str>) -> bool {
        match self.operator {
            Operator::In | Operator::Equals | Operator::DoubleEquals => {
                label.is_some_and(|l| self.values.contains(l))
            }
            Operator::NotIn | Operator::NotEquals => label.is_none_or(|l| !self.values.contains(l)),
            Operator::Exists => label.is_some(),
            Operator::DoesNotExist => label.is_none(),
            Operator::GreaterThan => self.compare(label).is_some_and(|(l, v)| l > v),
            Operator::LessThan => self.compare(label).is_some_and(|(l, v)| l < v),
        }
    }

    fn compare(&self, label: Option<&str>) -> Option<(i64, i64)> {
        Some((label?.parse().ok()?, self.values.first()?.parse().ok()?))
    }
}

impl fmt::Display for LabelSelector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (nth, requirement) in self.requirements.iter().enumerate() {
            if nth > 0 {
                f.write_str(",")?;
            }
            requirement.fmt(f)?;
        }
        Ok(())
    }
}

impl fmt::Display for Requirement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let key = &self.key;
        let values = self.values.iter().map(String::as_str).collect::<Vec<_>>();
        let values = values.join(",");
        match self.operator {
            Operator::Exists => f.write_str(key),
            Operator::DoesNotExist => write!(f, "!{key}"),
            Operator::Equals => write!(f, "{key}={values}"),
            Operator::DoubleEquals => write!(f, "{key}=={values}"),
            Operator::NotEquals => write!(f, "{key}!={values}"),
            Operator::In => write!(f, "{key} in ({values})"),
            Operator::NotIn => write!(f, "{key} notin ({values})"),
            Operator::GreaterThan => write!(f, "{key}>{values}"),
            Operator::LessThan => write!(f, "{key}<{values}"),
        }
    }
}
