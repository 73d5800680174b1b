//! Validation of values against a schema, with the messages and in the order of the server's validator.
//!
//! Each check that a value passes counts as a match. If several alternatives all fail, the errors of the one with the
//! most matches are shown.

use std::{borrow::Cow, collections::HashSet};

use kube_lang::go_text::quote;
use serde_json::Value;

use super::{
    keywords::Type,
    lists,
    node::{Additional, SchemaNode},
    numbers::Broken,
};
use crate::field::{ErrorKind, FieldError, Path};

/// The maximum number of errors that are reported for an object.
pub(super) const MAX_ERRORS: usize = 500;

/// Validates a value on its own; paths in errors begin at its root.
pub(super) fn value(node: &SchemaNode, value: &Value) -> Vec<FieldError> {
    let mut outcome = Outcome::default();
    node.check(value, &Path::Root, &mut outcome);
    let mut seen = HashSet::new();
    outcome
        .errors
        .retain(|error| seen.insert(error.to_string()));
    outcome.errors
}

#[derive(Default)]
struct Outcome {
    errors: Vec<FieldError>,
    matches: u64,
}

impl Outcome {
    fn add(&mut self, error: FieldError) {
        if self.errors.len() < MAX_ERRORS {
            self.errors.push(error);
        }
    }

    fn merge(&mut self, other: Self) {
        self.matches += other.matches;
        for error in other.errors {
            self.add(error);
        }
    }

    /// A failed rule of one field: `spec.a in body should …`.
    fn rule(&mut self, path: &Path<'_>, bad: Value, rule: &str) {
        let detail = format!("{} in body {rule}", name(path));
        self.add(FieldError::invalid(path, bad, &detail));
    }

    /// A message that names no field, as in the server.
    fn at_root(&mut self, message: &str) {
        self.add(FieldError::invalid(Path::Root, "", message));
    }
}

/// The name of a field in messages; the root has none.
fn name(path: &Path<'_>) -> String {
    match path {
        Path::Root => String::new(),
        path => path.to_string(),
    }
}

/// The type of a value, and the format of its representation.
fn type_of(value: &Value) -> (Option<Type>, &'static str) {
    match value {
        Value::Null => (None, ""),
        Value::Bool(_) => (Some(Type::Boolean), ""),
        Value::Number(number) if number.is_f64() => (Some(Type::Number), "float64"),
        Value::Number(_) => (Some(Type::Integer), "int64"),
        Value::String(_) => (Some(Type::String), ""),
        Value::Array(_) => (Some(Type::Array), ""),
        Value::Object(_) => (Some(Type::Object), ""),
    }
}

impl SchemaNode {
    fn check(&self, value: &Value, path: &Path<'_>, out: &mut Outcome) {
        if value.is_null() {
            self.check_null(path, out);
            self.check_allowed(value, path, out);
            return;
        }
        if !self.types.is_empty() || self.format.is_some() {
            if self.check_type(value, path, out) {
                out.matches += 1;
            }
            out.matches += 1;
        }
        self.check_combined(value, path, out);
        match value {
            Value::String(text) => self.check_text(text, path, out),
            Value::Number(number) => {
                for broken in self.numbers.check(number, &name(path)) {
                    match broken {
                        Broken::Rule(bad, rule) => out.rule(path, bad, &rule),
                        Broken::Range(message) => out.at_root(&message),
                        Broken::Factor(factor, message) => {
                            out.add(FieldError::invalid(path, factor, &message));
                        }
                    }
                }
                out.matches += 2;
            }
            Value::Array(list) => self.check_list(list, path, out),
            _ => {}
        }
        self.check_allowed(value, path, out);
        out.matches += 1;
        if let Value::Object(map) = value {
            self.check_object(map, path, out);
            out.matches += 1;
        }
        out.matches += 1;
    }

    fn type_names(&self) -> String {
        let names: Vec<&str> = self.types.iter().map(|t| t.name()).collect();
        names.join(",")
    }

    fn check_null(&self, path: &Path<'_>, out: &mut Outcome) {
        if self.types.is_empty() || self.nullable {
            out.matches += 1;
        } else {
            wrong_type(path, &self.type_names(), "null", out);
        }
    }

    fn check_type(&self, value: &Value, path: &Path<'_>, out: &mut Outcome) -> bool {
        let (found, found_format) = type_of(value);
        let has = |wanted| self.types.contains(&wanted);
        let numeric = has(Type::Number) || has(Type::Integer);
        let converts = match found {
            Some(Type::Integer) => has(Type::Number),
            Some(Type::Number) => {
                has(Type::Integer) && value.as_f64().is_some_and(super::numbers::is_whole)
            }
            _ => false,
        };
        let fits = found.is_some_and(has) || converts;
        let flat = matches!(found, Some(Type::String | Type::Array));
        if let Some(format) = &self.format {
            if !flat && !fits && found_format != format.name {
                wrong_type(path, &format.name, found_format, out);
                return false;
            }
            // The server does not check strings or lists with a format any further.
            if !numeric && flat {
                return true;
            }
        }
        if fits {
            return true;
        }
        wrong_type(path, &self.type_names(), found.map_or("", Type::name), out);
        false
    }

    fn check_combined(&self, value: &Value, path: &Path<'_>, out: &mut Outcome) {
        let judge = |node: &Self| {
            let mut outcome = Outcome::default();
            node.check(value, path, &mut outcome);
            outcome
        };
        if !self.any_of.is_empty() {
            match best(self.any_of.iter().map(judge), Stop::AtFirst) {
                Best::Valid(one, _) => out.merge(one),
                Best::Invalid(nearest) => {
                    out.at_root(&format!(
                        "{} must validate at least one schema (anyOf)",
                        quote(&name(path))
                    ));
                    out.merge(nearest);
                }
            }
        }
        if !self.one_of.is_empty() {
            let must = |what: &str| {
                format!(
                    "{} must validate one and only one schema (oneOf). {what}",
                    quote(&name(path))
                )
            };
            match best(self.one_of.iter().map(judge), Stop::Never) {
                Best::Valid(one, 1) => out.merge(one),
                Best::Valid(_, count) => {
                    out.at_root(&must(&format!("Found {count} valid alternatives")));
                }
                Best::Invalid(nearest) => {
                    out.at_root(&must("Found none valid"));
                    out.merge(nearest);
                }
            }
        }
        let mut valid = 0;
        for node in &self.all_of {
            let outcome = judge(node);
            valid += usize::from(outcome.errors.is_empty());
            out.merge(outcome);
        }
        if valid < self.all_of.len() {
            let none = if valid == 0 { ". None validated" } else { "" };
            out.at_root(&format!(
                "{} must validate all the schemas (allOf){none}",
                quote(&name(path))
            ));
        }
        if self
            .not
            .as_ref()
            .is_some_and(|not| judge(not).errors.is_empty())
        {
            out.at_root(&format!(
                "{} must not validate the schema (not)",
                quote(&name(path))
            ));
        }
        out.matches += 2;
    }

    fn check_text(&self, text: &str, path: &Path<'_>, out: &mut Outcome) {
        out.matches += 1;
        let length = i64::try_from(text.chars().count()).unwrap_or(i64::MAX);
        // Only the first of these three that fails is reported.
        if let Some(max) = self.max_length.filter(|max| length > *max) {
            out.add(FieldError::too_long(path, max.try_into().unwrap_or(0)));
        } else if let Some(min) = self.min_length.filter(|min| length < *min) {
            let rule = format!("should be at least {min} chars long");
            out.rule(path, text.into(), &rule);
        } else if let Some(pattern) = self.pattern.as_ref().filter(|p| !p.is_match(text)) {
            let rule = format!("should match '{}'", pattern.as_str());
            out.rule(path, text.into(), &rule);
        }
        if let Some(format) = &self.format {
            out.matches += 1;
            if !format.accepts(text) {
                wrong_type(path, &format.name, text, out);
            }
        }
    }

    fn check_list(&self, list: &[Value], path: &Path<'_>, out: &mut Outcome) {
        if let Some(items) = &self.items {
            for (nth, value) in list.iter().enumerate() {
                items.check(value, &path.index(nth), out);
            }
        }
        let size = i64::try_from(list.len()).unwrap_or(i64::MAX);
        if let Some(min) = self.min_items.filter(|min| size < *min) {
            let rule = format!("should have at least {min} items");
            out.rule(path, size.into(), &rule);
        }
        if let Some(max) = self.max_items.filter(|max| size > *max) {
            out.add(too_many(path, size, max));
        }
        if self.unique_items && !lists::repeated(list).is_empty() {
            out.rule(path, "".into(), "shouldn't contain duplicates");
        }
        out.matches += 2;
    }

    fn check_allowed(&self, value: &Value, path: &Path<'_>, out: &mut Outcome) {
        // Null is never an allowed value, even if it is listed.
        let listed = || self.allowed.iter().any(|allowed| equal(value, allowed));
        if self.allowed.is_empty() || (!value.is_null() && listed()) {
            return;
        }
        let allowed: Vec<Cow<'_, str>> = self
            .allowed
            .iter()
            .map(|allowed| match allowed {
                Value::String(text) => text.into(),
                other => other.to_string().into(),
            })
            .collect();
        out.add(FieldError::not_supported(
            path,
            value.clone(),
            allowed.iter().map(AsRef::as_ref),
        ));
    }

    fn check_object(
        &self,
        map: &serde_json::Map<String, Value>,
        path: &Path<'_>,
        out: &mut Outcome,
    ) {
        let size = i64::try_from(map.len()).unwrap_or(i64::MAX);
        if let Some(min) = self.min_properties.filter(|min| size < *min) {
            let rule = format!("should have at least {min} properties");
            out.rule(path, size.into(), &rule);
        }
        if let Some(max) = self.max_properties.filter(|max| size > *max) {
            out.add(too_many(path, size, max));
        }
        for (key, value) in map {
            if let Some(member) = self.member(key) {
                member.check(value, &path.field(key), out);
            } else if matches!(self.additional, Some(Additional::Nothing)) {
                let detail = format!("{}.{key} in body is a forbidden property", name(path));
                out.add(FieldError::invalid(path, key.as_str(), &detail));
            }
        }
        for field in &self.required {
            if !map.contains_key(field) {
                out.add(FieldError::required(path.field(field), ""));
            }
        }
    }
}

fn too_many(path: &Path<'_>, actual: i64, max: i64) -> FieldError {
    FieldError::too_many(
        path,
        actual.try_into().unwrap_or(0),
        max.try_into().unwrap_or(0),
    )
}

fn wrong_type(path: &Path<'_>, wanted: &str, found: &str, out: &mut Outcome) {
    let detail = format!(
        "{} in body must be of type {wanted}: {}",
        name(path),
        quote(found)
    );
    out.add(FieldError::new(
        ErrorKind::TypeInvalid,
        path,
        found.into(),
        &detail,
    ));
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Stop {
    AtFirst,
    Never,
}

enum Best {
    /// The first valid outcome, and the number of valid ones.
    Valid(Outcome, usize),
    /// The outcome with the most matches.
    Invalid(Outcome),
}

fn best(outcomes: impl Iterator<Item = Outcome>, stop: Stop) -> Best {
    let mut valid: Option<(Outcome, usize)> = None;
    let mut nearest: Option<Outcome> = None;
    for outcome in outcomes {
        if outcome.errors.is_empty() {
            match &mut valid {
                Some((_, count)) => *count += 1,
                None => valid = Some((outcome, 1)),
            }
            if stop == Stop::AtFirst {
                break;
            }
        } else if nearest
            .as_ref()
            .is_none_or(|nearest| outcome.matches > nearest.matches)
        {
            nearest = Some(outcome);
        }
    }
    match valid {
        Some((outcome, count)) => Best::Valid(outcome, count),
        None => Best::Invalid(nearest.unwrap_or_default()),
    }
}

/// Equality of enum values: the value is converted to the type of the allowed one, and a double loses its fraction.
fn equal(value: &Value, allowed: &Value) -> bool {
    match (value, allowed) {
        (Value::Number(a), Value::Number(b)) => match (a.is_f64(), b.is_f64()) {
            (true, false) => a.as_f64().map(f64::trunc) == b.as_f64(),
            (false, true) => a.as_f64() == b.as_f64(),
            _ => a == b,
        },
        _ => value == allowed,
    }
}
