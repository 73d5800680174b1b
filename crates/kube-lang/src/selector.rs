//! Label selectors, as strings and as objects.
//!
//! Knows the grammar of Kubernetes selector strings, the meaning of `LabelSelector` objects, and how both match
//! labels. Does not know what is labelled, nor how a selector travels to an API server.

mod parse;
mod requirement;
#[cfg(test)]
mod tests;

use std::{collections::BTreeMap, fmt};

use serde::{Deserialize, Serialize};

pub use requirement::SelectorError;

use requirement::{MAX_SELECTOR_BYTES, Operator, Requirement};

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

#[derive(Clone, Debug, PartialEq, Eq)]
enum Inner {
    Nothing,
    All(Vec<Requirement>),
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
