//! Evaluation of rules over an object: the rules that apply, their results, and the messages.

use kube_cel::{Fault, Meter, Val};
use serde_json::Value;

use super::{
    compile::{Rule, RuleNode},
    correlation::{Correlated, same_keys},
};
use crate::field::{ErrorKind, FieldError, Path};

/// The cost limits of all rules over one object, and of one rule, as in the server.
const ALL: u64 = 10_000_000;
const ONE: u64 = 1_000_000;

const LONGEST_MESSAGE: usize = 5120;

const OUT_OF_BUDGET: &str =
    "validation failed due to running out of cost budget, no further validation rules will be run";

pub(super) fn judge(root: &RuleNode, object: &Value, old: Option<&Value>) -> Vec<FieldError> {
    let mut judge = Judge {
        errors: Vec::new(),
        left: ALL,
        is_over: false,
    };
    judge.level(root, object, Correlated::new(object, old), &Path::Root);
    judge.errors
}

struct Judge {
    errors: Vec<FieldError>,
    left: u64,
    is_over: bool,
}

impl Judge {
    fn level(&mut self, level: &RuleNode, value: &Value, was: Correlated<'_>, path: &Path<'_>) {
        if value.is_null() || self.is_over {
            return;
        }
        self.rules(level, value, was, path);
        match value {
            Value::Array(list) => {
                let Some(items) = &level.items else { return };
                for (nth, item) in list.iter().enumerate() {
                    let old = level
                        .keys
                        .as_ref()
                        .and_then(|keys| same_keys(keys, item, was.old()));
                    self.level(items, item, was.part(item, old), &path.index(nth));
                }
            }
            Value::Object(map) => {
                let old = was.old().and_then(Value::as_object);
                for (name, value) in map {
                    let old = old.and_then(|old| old.get(name));
                    if let Some(property) = level.properties.get(name) {
                        self.level(property, value, was.part(value, old), &path.field(name));
                    } else if let Some(additional) = &level.additional {
                        self.level(additional, value, was.part(value, old), &path.key(name));
                    }
                }
            }
            _ => {}
        }
    }

    fn rules(&mut self, level: &RuleNode, value: &Value, was: Correlated<'_>, path: &Path<'_>) {
        if level.rules.is_empty() {
            return;
        }
        let this = Val::of(value, &level.shape);
        let old = was
            .old()
            .filter(|old| !old.is_null())
            .map(|old| Val::of(old, &level.shape));
        for rule in &level.rules {
            if rule.uses_old && old.is_none() && !rule.old_is_optional {
                continue;
            }
            let meter = Meter::new(ONE.min(self.left));
            let told = self::evaluate_rule(rule, (&this, old.as_ref()), &meter);
            self.left = self.left.saturating_sub(ONE.min(self.left) - meter.left());
            let is_told = told.is_ok();
            let (kind, suffix, detail) = match told {
                Ok(None) => continue,
                Ok(Some(message)) => (rule.reason, rule.field_path.as_str(), message),
                Err(Fault::Error(why)) => (ErrorKind::Invalid, "", explained(rule, &why)),
                Err(Fault::Exhausted) => {
                    self.is_over = true;
                    (ErrorKind::Invalid, "", exhausted(rule, self.left))
                }
            };
            if is_told && !rule.uses_old && was.is_unchanged() {
                continue;
            }
            let mut field = match path {
                Path::Root => String::new(),
                path => path.to_string(),
            };
            field.push_str(suffix);
            let field = if field.is_empty() {
                "<nil>"
            } else {
                field.trim_start_matches('.')
            };
            self.errors.push(if is_told {
                told_of(kind, field, value, &detail)
            } else {
                FieldError::invalid(field, level.kind.as_str(), &detail)
            });
            if self.is_over {
                return;
            }
        }
    }
}

/// An error shows scalar values only. A duplicate has no further detail.
fn told_of(kind: ErrorKind, field: &str, value: &Value, detail: &str) -> FieldError {
    let detail = if kind == ErrorKind::Duplicate {
        ""
    } else {
        detail
    };
    match value {
        Value::Object(_) | Value::Array(_) => FieldError::without_value(kind, field, detail),
        scalar => FieldError::new(kind, field, scalar.clone(), detail),
    }
}

fn named(rule: &Rule) -> &str {
    if rule.message.is_empty() {
        &rule.text
    } else {
        &rule.message
    }
}

fn explained(rule: &Rule, why: &str) -> String {
    if why.starts_with("no such overload") {
        return format!(
            "'{why}': call arguments did not match a supported operator, function or macro signature for rule: {}",
            named(rule)
        );
    }
    format!("{why} evaluating rule: {}", named(rule))
}

fn exhausted(rule: &Rule, left: u64) -> String {
    if left == 0 {
        return OUT_OF_BUDGET.to_owned();
    }
    format!(
        "'operation cancelled: actual cost limit exceeded': no further validation rules will be run due to call cost exceeds limit for rule: {}",
        named(rule)
    )
}

/// Evaluates a rule; the answer is its error, if it has one.
fn evaluate_rule<'a>(
    rule: &'a Rule,
    (this, old): (&Result<Val<'a>, Fault>, Option<&Result<Val<'a>, Fault>>),
    meter: &Meter,
) -> Result<Option<String>, Fault> {
    let this = this.clone()?;
    let old = old.cloned().transpose()?;
    let mut plain = vec![("self", this)];
    plain.extend(old.clone().map(|old| ("oldSelf", old)));
    let mut variables = plain.clone();
    if rule.old_is_optional {
        variables.truncate(1);
        variables.push(("oldSelf", old.map_or(Val::Optional(None), Val::some)));
    }
    if matches!(
        rule.expression.evaluate(&variables, meter)?,
        Val::Bool(true)
    ) {
        return Ok(None);
    }
    if let Some(expression) = &rule.message_expression {
        // Messages see the old value itself, even if the rule sees it as an optional value.
        let made = match expression.evaluate(&plain, meter) {
            Err(Fault::Exhausted) => return Err(Fault::Exhausted),
            made => made.ok(),
        };
        let usable = made
            .as_ref()
            .and_then(Val::as_text)
            .map(str::trim)
            .filter(|text| {
                !text.is_empty() && text.len() <= LONGEST_MESSAGE && !text.contains(['\n', '\r'])
            });
        if let Some(message) = usable {
            return Ok(Some(message.to_owned()));
        }
    }
    Ok(Some(if rule.message.is_empty() {
        format!("failed rule: {}", rule.text)
    } else {
        rule.message.clone()
    }))
}
