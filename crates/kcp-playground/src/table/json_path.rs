//! Paths into objects, for columns: fields, indexes, slices, filters, `..` and `*`.
//!
//! It has the quirks that people may rely on: a missing key finds nothing, an index out of bounds is an error, and
//! numbers are compared only with numbers of the same type.

use std::cmp::Ordering;

use serde_json::Value;

mod parse;
#[cfg(test)]
mod tests;

/// A compiled path.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct JsonPath(Vec<Step>);

/// The path is invalid; the message is for its author.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a path: {0}")]
pub(super) struct PathError(String);

/// The path does not fit the object.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Unfit;

#[derive(Clone, Debug, PartialEq)]
enum Step {
    Field(String),
    /// A string or number, which finds itself.
    Literal(Value),
    Slice(Slice),
    Wildcard,
    Recursive,
    Union(Vec<JsonPath>),
    Filter(PathFilter),
    /// An unknown word.
    Unknown,
}

/// A part of a list; negative ends count from the end.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Slice {
    from: Option<i64>,
    to: Option<i64>,
    step: Option<i64>,
    /// A single index: the end follows from the beginning.
    single: bool,
}

#[derive(Clone, Debug, PartialEq)]
struct PathFilter {
    left: JsonPath,
    /// `None`: the left side only has to find something.
    compared: Option<(FilterOperator, JsonPath)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FilterOperator {
    Less,
    LessOrEqual,
    Equal,
    NotEqual,
    GreaterOrEqual,
    Greater,
    Unknown,
}

type Matches<'v> = Result<Vec<&'v Value>, Unfit>;

impl JsonPath {
    /// The values at the path, in order. None if a key is missing.
    pub(super) fn find<'v>(&'v self, root: &'v Value) -> Matches<'v> {
        self.walk(vec![root])
    }

    fn walk<'v>(&'v self, start: Vec<&'v Value>) -> Matches<'v> {
        self.0.iter().try_fold(start, |at, step| {
            let found = step.take(at)?;
            (found.len() <= MAX_FOUND).then_some(found).ok_or(Unfit)
        })
    }
}

/// The limit for paths that multiply their results (`..a..a`, `['a','a']`): one cell must not block a server.
const MAX_FOUND: usize = 16_384;

impl Step {
    fn take<'v>(&'v self, at: Vec<&'v Value>) -> Matches<'v> {
        match self {
            Self::Field(name) => Ok(at.iter().filter_map(|value| value.get(name)).collect()),
            Self::Literal(text @ Value::String(_)) => Ok(vec![text]),
            Self::Literal(literal) => Ok(vec![literal; at.len()]),
            Self::Wildcard => Ok(at.into_iter().flat_map(children).collect()),
            Self::Recursive => {
                let mut found = Vec::new();
                for value in at {
                    descend(value, &mut found);
                    if found.len() > MAX_FOUND {
                        return Err(Unfit);
                    }
                }
                Ok(found)
            }
            Self::Slice(slice) => {
                let mut found = Vec::new();
                for value in at.into_iter().filter(|value| !value.is_null()) {
                    found.extend(slice.of(value.as_array().ok_or(Unfit)?)?);
                }
                Ok(found)
            }
            Self::Union(paths) => {
                let mut found = Vec::new();
                for path in paths {
                    found.extend(path.walk(at.clone())?);
                    if found.len() > MAX_FOUND {
                        return Err(Unfit);
                    }
                }
                Ok(found)
            }
            Self::Filter(filter) => {
                let mut found = Vec::new();
                for value in at {
                    for item in value.as_array().ok_or(Unfit)? {
                        if filter.passes(item)? {
                            found.push(item);
                        }
                    }
                }
                Ok(found)
            }
            Self::Unknown => Err(Unfit),
        }
    }
}

fn children(value: &Value) -> Vec<&Value> {
    match value {
        Value::Object(map) => map.values().collect(),
        Value::Array(list) => list.iter().collect(),
        _ => Vec::new(),
    }
}

/// All nested objects and lists, the outer ones first.
fn descend<'v>(value: &'v Value, found: &mut Vec<&'v Value>) {
    let children = children(value);
    if !children.is_empty() {
        found.push(value);
        for child in children {
            descend(child, found);
        }
    }
}

impl Slice {
    fn of<'v>(&self, list: &'v [Value]) -> Matches<'v> {
        let length = i64::try_from(list.len()).map_err(|_| Unfit)?;
        let mut from = self.from.unwrap_or(0);
        let mut to = match self.to {
            Some(to) => to,
            None if self.single => from.saturating_add(1),
            None => length,
        };
        if from < 0 {
            from = from.saturating_add(length);
        }
        if to < 0 || (to == 0 && self.single) {
            to = to.saturating_add(length);
        }
        if from == to {
            return Ok(Vec::new());
        }
        if from < 0 || from >= length || to < 0 || to > length || from > to {
            return Err(Unfit);
        }
        let step = match self.step {
            None => 1,
            Some(step) => usize::try_from(step).ok().filter(|s| *s > 0).ok_or(Unfit)?,
        };
        let index = |at: i64| usize::try_from(at).map_err(|_| Unfit);
        Ok(list[index(from)?..index(to)?]
            .iter()
            .step_by(step)
            .collect())
    }
}

impl PathFilter {
    fn passes(&self, item: &Value) -> Result<bool, Unfit> {
        let left = self.left.find(item);
        let Some((operator, right)) = &self.compared else {
            return Ok(left.is_ok_and(|left| !left.is_empty()));
        };
        let (left, right) = (left?, right.find(item)?);
        match (left.as_slice(), right.as_slice()) {
            ([], _) | (_, []) => Ok(false),
            ([left], [right]) => operator.holds(left, right),
            _ => Err(Unfit),
        }
    }
}

impl FilterOperator {
    fn holds(self, left: &Value, right: &Value) -> Result<bool, Unfit> {
        let ordering = match (left, right) {
            (Value::Bool(left), Value::Bool(right)) => match self {
                Self::Equal | Self::NotEqual => Some(left.cmp(right)),
                _ => None,
            },
            (Value::String(left), Value::String(right)) => Some(left.cmp(right)),
            (Value::Number(left), Value::Number(right)) => match (left.as_i64(), right.as_i64()) {
                (Some(left), Some(right)) => Some(left.cmp(&right)),
                (None, None) => left.as_f64().partial_cmp(&right.as_f64()),
                // An integer is not compared with a number that is not an integer.
                _ => None,
            },
            _ => None,
        };
        let ordering = ordering.ok_or(Unfit)?;
        match self {
            Self::Less => Ok(ordering == Ordering::Less),
            Self::LessOrEqual => Ok(ordering != Ordering::Greater),
            Self::Equal => Ok(ordering == Ordering::Equal),
            Self::NotEqual => Ok(ordering != Ordering::Equal),
            Self::GreaterOrEqual => Ok(ordering != Ordering::Less),
            Self::Greater => Ok(ordering == Ordering::Greater),
            Self::Unknown => Err(Unfit),
        }
    }
}
