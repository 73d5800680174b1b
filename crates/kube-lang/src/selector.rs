//! Label selectors, as strings and as objects.
//!
//! Knows the grammar of Kubernetes selector strings, the meaning of `LabelSelector` objects, and how both match
//! labels. Does not know what is labelled, nor how a selector travels to an API server.

mod parse;
#[cfg(test)]
mod tests;

use std::{collections::BTreeMap, fmt};

use serde::{Deserialize, Serialize};
use thiserror::Error;

/// The longest selector text that is read; an API server refuses a URL long before.
pub(crate) const MAX_SELECTOR_BYTES: usize = 256 * 1024;

/// A compiled selector: all requirements must hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Selector(Inner);

/// A selector object as it stands in manifests.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct LabelSelector {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub match_labels: Option<BTreeMap<String, String>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub match_expressions: Option<Vec<LabelExpression>>,
}

/// One entry of `matchExpressions`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LabelExpression {
    #[serde(default)]
    pub key: String,
    #[serde(default)]
    pub operator: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub values: Option<Vec<String>>,
}

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
enum Inner {
    Nothing,
    All(Vec<Requirement>),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Requirement {
    key: String,
    operator: Operator,
    /// In the order they were written; sorted and without duplicates when they come from a string.
    values: Vec<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Operator {
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

// === impl Selector ===

impl Selector {
    /// Matches every object, labelled or not.
    pub fn everything() -> Self {
        Self(Inner::All(Vec::new()))
    }

    /// Matches no object.
    pub fn nothing() -> Self {
        Self(Inner::Nothing)
    }

    /// Reads a selector string such as `app=web,tier in (front,back),!canary`.
    pub fn parse(text: &str) -> Result<Self, SelectorError> {
        if text.len() > MAX_SELECTOR_BYTES {
            return Err(SelectorError::TooLong);
        }
        parse::parse(text).map(Self::all)
    }

    /// Compiles a selector object. No object matches nothing, an empty one matches everything.
    pub fn from_object(selector: Option<&LabelSelector>) -> Result<Self, SelectorError> {
        let Some(selector) = selector else {
            return Ok(Self::nothing());
        };
        let mut requirements = Vec::new();
        for (key, value) in selector.match_labels.iter().flatten() {
            requirements.push(Requirement::new(
                key.clone(),
                Operator::Equals,
                vec![value.clone()],
            )?);
        }
        for expression in selector.match_expressions.iter().flatten() {
            let operator = match expression.operator.as_str() {
                "In" => Operator::In,
                "NotIn" => Operator::NotIn,
                "Exists" => Operator::Exists,
                "DoesNotExist" => Operator::DoesNotExist,
                other => {
                    return Err(SelectorError::Operator {
                        operator: other.to_owned(),
                    });
                }
            };
            let values = expression.values.clone().unwrap_or_default();
            requirements.push(Requirement::new(expression.key.clone(), operator, values)?);
        }
        Ok(Self::all(requirements))
    }

    /// Compiles a selector object given as JSON; `null` counts as no object.
    pub fn from_value(selector: &serde_json::Value) -> Result<Self, SelectorError> {
        let selector: Option<LabelSelector> =
            Deserialize::deserialize(selector).map_err(|e| SelectorError::Shape(e.to_string()))?;
        Self::from_object(selector.as_ref())
    }

    /// True if the labels satisfy every requirement.
    #[allow(clippy::needless_pass_by_value)] // A borrowed iterator would be awkward for every caller.
    pub fn matches<'a, L>(&self, labels: L) -> bool
    where
        L: IntoIterator<Item = (&'a str, &'a str)> + Clone,
    {
        match &self.0 {
            Inner::Nothing => false,
            Inner::All(requirements) => requirements.iter().all(|requirement| {
                let found = labels
                    .clone()
                    .into_iter()
                    .find(|(key, _)| *key == requirement.key);
                requirement.matches(found.map(|(_, value)| value))
            }),
        }
    }

    /// True if there is no requirement, so that everything matches.
    pub fn is_empty(&self) -> bool {
        matches!(&self.0, Inner::All(requirements) if requirements.is_empty())
    }

    fn all(mut requirements: Vec<Requirement>) -> Self {
        requirements.sort_by(|a, b| a.key.cmp(&b.key));
        Self(Inner::All(requirements))
    }
}

impl fmt::Display for Selector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Inner::All(requirements) = &self.0 else {
            return Ok(());
        };
        for (i, requirement) in requirements.iter().enumerate() {
            if i > 0 {
                f.write_str(",")?;
            }
            requirement.fmt(f)?;
        }
        Ok(())
    }
}

// === impl Requirement ===

impl Requirement {
    fn new(key: String, operator: Operator, values: Vec<String>) -> Result<Self, SelectorError> {
        parse::check_key(&key)?;
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
                _ => parse::value_problem(value),
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

    fn matches(&self, label: Option<&str>) -> bool {
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

// === impl Operator ===

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

/// A decimal 64-bit integer, with an optional sign.
fn go_int(text: &str) -> Option<i64> {
    text.parse().ok()
}
