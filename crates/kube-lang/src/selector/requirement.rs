//! One requirement of a selector, and the syntax of label keys and values.

use std::fmt;

use thiserror::Error;

/// The longest selector text that is read; an API server refuses a URL long before.
pub(crate) const MAX_SELECTOR_BYTES: usize = 256 * 1024;

#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum SelectorError {
    #[error("unable to parse selector: found '{found}', expected: {expected}")]
    Unexpected {
        found: String,
        expected: &'static str,
    },
    #[error("invalid label key '{key}': {problem}")]
    Key { key: String, problem: &'static str },
    #[error("invalid value '{value}' for label key '{key}': {problem}")]
    Value {
        key: String,
        value: String,
        problem: &'static str,
    },
    #[error("operator '{operator}' on key '{key}' needs {needs}")]
    Values {
        key: String,
        operator: &'static str,
        needs: &'static str,
    },
    #[error(
        "'{operator}' is not a valid label selector operator, use In, NotIn, Exists or DoesNotExist"
    )]
    Operator { operator: String },
    #[error("selector is longer than {MAX_SELECTOR_BYTES} bytes")]
    TooLong,
    #[error("not a label selector object: {0}")]
    Shape(String),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Requirement {
    pub(super) key: String,
    pub(super) operator: Operator,
    /// In the order they were written; sorted and without duplicates when they come from a string.
    pub(super) values: Vec<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Operator {
    In,
    NotIn,
    Equals,
    DoubleEquals,
    NotEquals,
    Exists,
    DoesNotExist,
    GreaterThan,
    LessThan,
}

impl Requirement {
    pub(super) fn new(
        key: String,
        operator: Operator,
        values: Vec<String>,
    ) -> Result<Self, SelectorError> {
        check_key(&key)?;
        let needs = match operator {
            Operator::In | Operator::NotIn => values.is_empty().then_some("at least one value"),
            Operator::Exists | Operator::DoesNotExist => {
                (!values.is_empty()).then_some("an empty list of values")
            }
            _ => (values.len() != 1).then_some("exactly one value"),
        };
        if let Some(needs) = needs {
            return Err(SelectorError::Values {
                key,
                operator: operator.name(),
                needs,
            });
        }
        for value in &values {
            let problem = match operator {
                Operator::GreaterThan | Operator::LessThan if go_int(value).is_none() => {
                    Some("must be an integer to be compared")
                }
                _ => value_problem(value),
            };
            if let Some(problem) = problem {
                return Err(SelectorError::Value {
                    key,
                    value: value.clone(),
                    problem,
                });
            }
        }
        Ok(Self {
            key,
            operator,
            values,
        })
    }

    pub(super) fn matches(&self, label: Option<&str>) -> bool {
        let is_listed = |label: &str| self.values.iter().any(|value| value == label);
        match self.operator {
            Operator::In | Operator::Equals | Operator::DoubleEquals => {
                label.is_some_and(is_listed)
            }
            Operator::NotIn | Operator::NotEquals => !label.is_some_and(is_listed),
            Operator::Exists => label.is_some(),
            Operator::DoesNotExist => label.is_none(),
            Operator::GreaterThan => self.compare(label, |label, bound| label > bound),
            Operator::LessThan => self.compare(label, |label, bound| label < bound),
        }
    }

    fn compare(&self, label: Option<&str>, holds: fn(i64, i64) -> bool) -> bool {
        let bound = self.values.first().and_then(|value| go_int(value));
        label
            .and_then(go_int)
            .zip(bound)
            .is_some_and(|(label, bound)| holds(label, bound))
    }
}

impl fmt::Display for Requirement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut values: Vec<&str> = self.values.iter().map(String::as_str).collect();
        values.sort_unstable();
        let (key, values) = (&self.key, values.join(","));
        match self.operator {
            Operator::Exists => write!(f, "{key}"),
            Operator::DoesNotExist => write!(f, "!{key}"),
            Operator::In | Operator::NotIn => {
                write!(f, "{key} {} ({values})", self.operator.name())
            }
            _ => write!(f, "{key}{}{values}", self.operator.name()),
        }
    }
}

impl Operator {
    fn name(self) -> &'static str {
        match self {
            Self::In => "in",
            Self::NotIn => "notin",
            Self::Equals => "=",
            Self::DoubleEquals => "==",
            Self::NotEquals => "!=",
            Self::Exists => "exists",
            Self::DoesNotExist => "!",
            Self::GreaterThan => ">",
            Self::LessThan => "<",
        }
    }
}

pub(super) fn check_key(key: &str) -> Result<(), SelectorError> {
    match key_problem(key) {
        None => Ok(()),
        Some(problem) => Err(SelectorError::Key {
            key: key.to_owned(),
            problem,
        }),
    }
}

fn value_problem(value: &str) -> Option<&'static str> {
    if value.len() > 63 {
        return Some("must be no more than 63 bytes");
    }
    (!value.is_empty() && !is_name(value)).then_some(
        "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character",
    )
}

fn key_problem(key: &str) -> Option<&'static str> {
    let (prefix, name) = match key.split_once('/') {
        None => (None, key),
        Some((_, name)) if name.contains('/') => return Some("must have at most one '/'"),
        Some((prefix, name)) => (Some(prefix), name),
    };
    if let Some(prefix) = prefix {
        if prefix.is_empty() {
            return Some("the prefix must not be empty");
        }
        if prefix.len() > 253 || !prefix.split('.').all(is_dns_label) {
            return Some("the prefix must be a lower-case DNS name of at most 253 bytes");
        }
    }
    match name {
        "" => Some("the name must not be empty"),
        _ if name.len() > 63 => Some("the name must be no more than 63 bytes"),
        _ if !is_name(name) => Some(
            "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character",
        ),
        _ => None,
    }
}

fn is_name(text: &str) -> bool {
    let bytes = text.as_bytes();
    let edge = |byte: Option<&u8>| byte.is_some_and(u8::is_ascii_alphanumeric);
    edge(bytes.first())
        && edge(bytes.last())
        && bytes
            .iter()
            .all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.'))
}

fn is_dns_label(text: &str) -> bool {
    let bytes = text.as_bytes();
    let lower = |b: &u8| b.is_ascii_lowercase() || b.is_ascii_digit();
    bytes.first().is_some_and(lower)
        && bytes.last().is_some_and(lower)
        && bytes.iter().all(|b| lower(b) || *b == b'-')
}

/// A decimal 64-bit integer, with an optional sign.
fn go_int(text: &str) -> Option<i64> {
    text.parse().ok()
}
