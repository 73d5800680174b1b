//! Compiles a checked schema into the form that objects are processed with. It cannot fail, since the schema has been
//! checked.

use kube_lang::go_regex::GoRegex;
use serde_json::Value;

use super::{
    formats::{Format, Formats},
    keywords::{Type, flag, keyword_value, list, properties, text},
    node::{Additional, ListType, SchemaNode},
    numbers::Bounds,
};

pub(super) fn node(schema: &Value, formats: Formats) -> SchemaNode {
    let node = |schema: &Value| node(schema, formats);
    let types = if flag(schema, "x-kubernetes-int-or-string") {
        vec![Type::Integer, Type::String]
    } else {
        Type::parse(text(schema, "type")).into_iter().collect()
    };
    let boxed = |keyword: &str| {
        keyword_value(schema, keyword)
            .filter(|inner| inner.is_object())
            .map(|inner| Box::new(node(inner)))
    };
    let nodes = |keyword: &str| list(schema, keyword).iter().map(node).collect();
    let count = |keyword: &str| schema.get(keyword).and_then(Value::as_i64);
    let texts = |keyword: &str| {
        list(schema, keyword)
            .iter()
            .filter_map(Value::as_str)
            .map(str::to_owned)
            .collect::<Vec<_>>()
    };
    let pattern = text(schema, "pattern");
    let mut node = SchemaNode {
        format: Format::of(text(schema, "format"), &types, formats),
        numbers: Bounds::of(schema, &types),
        types,
        nullable: flag(schema, "nullable"),
        preserve: flag(schema, "x-kubernetes-preserve-unknown-fields"),
        embedded: flag(schema, "x-kubernetes-embedded-resource"),
        default: keyword_value(schema, "default").cloned(),
        properties: properties(schema)
            .map(|(name, property)| (name.to_owned(), node(property)))
            .collect(),
        additional: match keyword_value(schema, "additionalProperties") {
            None => None,
            Some(Value::Bool(true)) => Some(Additional::Anything),
            Some(Value::Bool(false)) => Some(Additional::Nothing),
            Some(inner) => Some(Additional::Schema(Box::new(node(inner)))),
        },
        items: boxed("items"),
        list: match text(schema, "x-kubernetes-list-type") {
            "set" => ListType::Set,
            "map" => ListType::Map(texts("x-kubernetes-list-map-keys")),
            _ => ListType::Atomic,
        },
        required: texts("required"),
        allowed: list(schema, "enum").to_vec(),
        min_length: count("minLength"),
        max_length: count("maxLength"),
        pattern: (!pattern.is_empty())
            .then(|| GoRegex::compile(pattern).ok())
            .flatten(),
        min_items: count("minItems"),
        max_items: count("maxItems"),
        unique_items: flag(schema, "uniqueItems"),
        min_properties: count("minProperties"),
        max_properties: count("maxProperties"),
        all_of: nodes("allOf"),
        any_of: nodes("anyOf"),
        one_of: nodes("oneOf"),
        not: boxed("not"),
        has_embedded: false,
        has_lists: false,
    };
    node.has_embedded = node.embedded || node.members().any(|member| member.has_embedded);
    node.has_lists = node.list != ListType::Atomic || node.members().any(|member| member.has_lists);
    node
}
