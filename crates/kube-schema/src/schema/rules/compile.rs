//! Compiles rules, and checks them as the server does when a definition is written.

use std::{collections::BTreeMap, sync::Arc};

use kube_cel::{Library, Program, Shape, Type};
use serde_json::Value;

use super::{
    field_path,
    shape::{Root, shape},
};
use crate::field::{ErrorKind, FieldError, Path};
use crate::schema::keywords::{flag, keyword_value, list, properties, text};

const RULES: &str = "x-kubernetes-validations";

/// A compiled rule.
#[derive(Debug)]
pub(super) struct Rule {
    pub(super) expression: Program,
    pub(super) message_expression: Option<Program>,
    /// The rule as written.
    pub(super) text: String,
    pub(super) message: String,
    pub(super) reason: ErrorKind,
    /// The path from the value to the invalid field, as in errors: `.a[b]`.
    pub(super) field_path: String,
    pub(super) uses_old: bool,
    pub(super) old_is_optional: bool,
}

/// One level of a schema, if there are rules at it or below.
#[derive(Debug)]
pub(super) struct RuleNode {
    /// The name of the value in errors.
    pub(super) kind: String,
    pub(super) shape: Arc<Shape>,
    pub(super) rules: Vec<Rule>,
    pub(super) properties: BTreeMap<String, Self>,
    pub(super) additional: Option<Box<Self>>,
    pub(super) items: Option<Box<Self>>,
    /// The keys by which items of an old list are found.
    pub(super) keys: Option<Vec<String>>,
    pub(super) has_deep_rules: bool,
}

impl RuleNode {
    pub(super) fn of(schema: &Value, seen: &Arc<Shape>) -> Option<Self> {
        if !has_rules(schema) {
            return None;
        }
        // Built only for levels with rules, which are few and small.
        let below = |schema: &Value| Self::of(schema, &shape(schema, Root::of(schema)));
        let rules = rules(schema, seen);
        let properties: BTreeMap<String, Self> = properties(schema)
            .filter_map(|(name, property)| Some((name.to_owned(), below(property)?)))
            .collect();
        let inner = |keyword: &str| {
            keyword_value(schema, keyword)
                .filter(|inner| inner.is_object())
                .and_then(below)
                .map(Box::new)
        };
        let keys = (text(schema, "x-kubernetes-list-type") == "map").then(|| {
            list(schema, "x-kubernetes-list-map-keys")
                .iter()
                .filter_map(|key| key.as_str().map(str::to_owned))
                .collect()
        });
        Some(Self {
            kind: text(schema, "type").to_owned(),
            shape: Arc::clone(seen),
            has_deep_rules: rules.iter().any(Rule::is_deep),
            rules,
            properties,
            additional: inner("additionalProperties"),
            items: inner("items"),
            keys,
        })
    }

    pub(super) fn is_deep(&self) -> bool {
        self.has_deep_rules
            || self.properties.values().any(Self::is_deep)
            || self.additional.as_deref().is_some_and(Self::is_deep)
            || self.items.as_deref().is_some_and(Self::is_deep)
    }
}

impl Rule {
    pub(super) fn is_deep(&self) -> bool {
        let message = self.message_expression.as_ref();
        self.expression.is_deep() || message.is_some_and(Program::is_deep)
    }
}

/// The name of the old value.
const OLD: &str = "oldSelf";

/// The two kinds of expressions in rules.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Wanted {
    Rule,
    Message,
}

fn compile(
    source: &str,
    shape: &Arc<Shape>,
    old_is_optional: bool,
    wanted: Wanted,
) -> Result<Program, String> {
    let this = shape.type_of().unwrap_or(Type::Dyn);
    let old = if old_is_optional {
        Type::optional(this.clone())
    } else {
        this.clone()
    };
    let variables = [("self", this), (OLD, old)];
    let program =
        Program::compile(source, Library::Kubernetes, &variables).map_err(|problems| {
            let shown = kube_cel::show(problems, source);
            match wanted {
                Wanted::Rule => format!("compilation failed: {shown}"),
                Wanted::Message => format!("messageExpression compilation failed: {shown}"),
            }
        })?;
    match (wanted, program.kind()) {
        (Wanted::Rule, Type::Bool) | (Wanted::Message, Type::Text) => {}
        (Wanted::Rule, _) => return Err("cel expression must evaluate to a bool".to_owned()),
        (Wanted::Message, _) => {
            return Err("messageExpression must evaluate to a string".to_owned());
        }
    }
    program.check_constants().map_err(|why| match wanted {
        Wanted::Rule => format!("program instantiation failed: {why}"),
        Wanted::Message => format!("messageExpression instantiation failed: {why}"),
    })?;
    Ok(program)
}

/// The rules of one level. Rules that do not compile are left out: they were refused earlier.
pub(super) fn rules(schema: &Value, shape: &Arc<Shape>) -> Vec<Rule> {
    let rule = |written: &Value| {
        let source = text(written, "rule").trim();
        let old_is_optional = flag(written, "optionalOldSelf");
        let compiled = compile(source, shape, old_is_optional, Wanted::Rule).ok()?;
        let message = text(written, "messageExpression").trim();
        let message = (!message.is_empty())
            .then(|| compile(message, shape, old_is_optional, Wanted::Message).ok())
            .flatten();
        Some(Rule {
            uses_old: compiled.uses(OLD),
            expression: compiled,
            message_expression: message,
            text: source.to_owned(),
            message: text(written, "message").trim().to_owned(),
            reason: match text(written, "reason") {
                "FieldValueForbidden" => ErrorKind::Forbidden,
                "FieldValueRequired" => ErrorKind::Required,
                "FieldValueDuplicate" => ErrorKind::Duplicate,
                _ => ErrorKind::Invalid,
            },
            field_path: field_path::resolve(text(written, "fieldPath"), schema).unwrap_or_default(),
            old_is_optional,
        })
    };
    list(schema, RULES).iter().filter_map(rule).collect()
}

/// The errors of the expressions in an otherwise valid schema.
pub(crate) fn check(schema: &Value, path: &Path<'_>) -> Vec<FieldError> {
    let mut errors = Vec::new();
    if has_rules(schema) {
        let at = RuleContext {
            shape: shape(schema, Root::Resource),
            uncorrelatable: None,
        };
        walk(schema, path, &at, &mut errors);
    }
    errors
}

struct RuleContext {
    shape: Arc<Shape>,
    /// The innermost place whose old value cannot be found.
    uncorrelatable: Option<String>,
}

fn walk(schema: &Value, path: &Path<'_>, within: &RuleContext, errors: &mut Vec<FieldError>) {
    let below = |schema: &Value, uncorrelatable: Option<String>| RuleContext {
        shape: shape(schema, Root::of(schema)),
        uncorrelatable,
    };
    let of_members = within.uncorrelatable.clone();
    if let Some(additional) = keyword_value(schema, "additionalProperties").filter(|a| has_rules(a))
    {
        let at = path.field("additionalProperties");
        walk(
            additional,
            &at,
            &below(additional, of_members.clone()),
            errors,
        );
    }
    let all = path.field("properties");
    for (name, property) in properties(schema).filter(|(_, property)| has_rules(property)) {
        let at = all.key(name);
        walk(property, &at, &below(property, of_members.clone()), errors);
    }
    if let Some(items) = keyword_value(schema, "items").filter(|items| has_rules(items)) {
        let correlates = text(schema, "x-kubernetes-list-type") == "map";
        let of_items = if correlates {
            within.uncorrelatable.clone()
        } else {
            Some(path.to_string())
        };
        walk(items, &path.field("items"), &below(items, of_items), errors);
    }
    let rules = path.field(RULES);
    if !list(schema, RULES).is_empty() && within.shape.type_of().is_none() {
        errors.push(FieldError::new(
            ErrorKind::Internal,
            rules,
            Value::Null,
            "internal error: failed to construct type information for x-kubernetes-validations rules: unable to convert structural schema to CEL declarations",
        ));
        return;
    }
    for (nth, rule) in list(schema, RULES).iter().enumerate() {
        compile_rule(rule, &rules.index(nth), within, errors);
    }
}

/// A rule as messages show it.
fn shown(rule: &Value) -> String {
    let written = |keyword: &str| Value::from(text(rule, keyword));
    let other = |keyword: &str| rule.get(keyword).unwrap_or(&Value::Null);
    format!(
        r#"{{"Rule":{},"Message":{},"MessageExpression":{},"Reason":{},"FieldPath":{},"OptionalOldSelf":{}}}"#,
        written("rule"),
        written("message"),
        written("messageExpression"),
        other("reason"),
        written("fieldPath"),
        other("optionalOldSelf"),
    )
}

fn compile_rule(rule: &Value, path: &Path<'_>, within: &RuleContext, errors: &mut Vec<FieldError>) {
    let old_is_optional = flag(rule, "optionalOldSelf");
    let source = text(rule, "rule").trim();
    let uses_old = match compile(source, &within.shape, old_is_optional, Wanted::Rule) {
        Ok(compiled) => compiled.uses(OLD),
        Err(detail) => {
            errors.push(FieldError::invalid_shown(
                path.field("rule"),
                shown(rule),
                &detail,
            ));
            false
        }
    };
    let message = text(rule, "messageExpression").trim();
    if !message.is_empty()
        && let Err(detail) = compile(message, &within.shape, old_is_optional, Wanted::Message)
    {
        let at = path.field("messageExpression");
        errors.push(FieldError::invalid_shown(at, shown(rule), &detail));
    }
    if uses_old {
        if let Some(place) = &within.uncorrelatable {
            errors.push(FieldError::invalid(
                path.field("rule"),
                text(rule, "rule"),
                &format!(
                    "oldSelf cannot be used on the uncorrelatable portion of the schema within {place}"
                ),
            ));
        }
    } else if let Some(optional) = keyword_value(rule, "optionalOldSelf") {
        errors.push(FieldError::invalid(
            path.field("optionalOldSelf"),
            optional.clone(),
            "may not be set if oldSelf is not used in rule",
        ));
    }
}

/// Whether a schema has rules, at its top or below.
fn has_rules(schema: &Value) -> bool {
    !list(schema, "x-kubernetes-validations").is_empty()
        || properties(schema).any(|(_, property)| has_rules(property))
        || ["items", "additionalProperties"]
            .iter()
            .any(|keyword| keyword_value(schema, keyword).is_some_and(has_rules))
}
