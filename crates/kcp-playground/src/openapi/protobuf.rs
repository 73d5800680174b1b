//! The v2 document in protobuf: the one form in which clients of v2 ask for it, to check lists before
//! they are applied and to learn the types of built-in kinds.
//!
//! Field numbers are facts of the published format; they stand in tables, and one function writes by
//! them. What a document says by a shape of its own (a type, items, additional properties) has a rule.

use serde_json::{Map, Value};

/// The media type that is answered.
pub(in super::super) const MEDIA_TYPE: &str =
    "application/com.github.proto-openapi.spec.v2.v1.0+protobuf";
/// How clients ask for it; no header could say it in an answer.
pub(in super::super) const ASKED: &str =
    "application/com.github.proto-openapi.spec.v2@v1.0+protobuf";

/// How a member is written.
#[derive(Clone, Copy)]
enum Form {
    /// A text, or each of a list of them.
    Text,
    Flag,
    Integer,
    Number,
    /// Any value, as text.
    Any,
    /// Each of a list of any values.
    Each,
    /// A message, or each of a list of them.
    Message(&'static Shape),
    /// A message that holds one of this shape alone, at this number.
    Within(u32, &'static Shape),
    /// A message with an entry for each member, at this number.
    Entries(u32, &'static Shape),
    /// A text or a list of them, in a message.
    Type,
    /// A schema or a truth value, in a message.
    Additional,
    /// Each of a list of parameters.
    Parameters,
}

/// The members of a message.
struct Shape {
    members: &'static [(&'static str, u32, Form)],
    /// Where members go whose names begin with `x-`.
    extensions: u32,
}

/// A whole document.
pub(super) fn document(document: &Value) -> Vec<u8> {
    let mut out = Vec::new();
    message(&mut out, &DOCUMENT, document);
    out
}

static DOCUMENT: Shape = Shape {
    members: &[
        ("swagger", 1, Form::Text),
        ("info", 2, Form::Message(&INFO)),
        ("paths", 8, Form::Entries(2, &PATH_ITEM)),
        ("definitions", 9, Form::Entries(1, &SCHEMA)),
    ],
    extensions: 16,
};

static INFO: Shape = Shape {
    members: &[
        ("title", 1, Form::Text),
        ("version", 2, Form::Text),
        ("description", 3, Form::Text),
    ],
    extensions: 7,
};

static PATH_ITEM: Shape = Shape {
    members: &[
        ("get", 2, Form::Message(&OPERATION)),
        ("put", 3, Form::Message(&OPERATION)),
        ("post", 4, Form::Message(&OPERATION)),
        ("delete", 5, Form::Message(&OPERATION)),
        ("patch", 8, Form::Message(&OPERATION)),
        ("parameters", 9, Form::Parameters),
    ],
    extensions: 10,
};

static OPERATION: Shape = Shape {
    members: &[
        ("tags", 1, Form::Text),
        ("summary", 2, Form::Text),
        ("description", 3, Form::Text),
        ("operationId", 5, Form::Text),
        ("produces", 6, Form::Text),
        ("consumes", 7, Form::Text),
        ("parameters", 8, Form::Parameters),
        ("responses", 9, Form::Entries(1, &RESPONSE_VALUE)),
        ("schemes", 10, Form::Text),
        ("deprecated", 11, Form::Flag),
    ],
    extensions: 13,
};

/// A response stands in a message of its own, which could hold a reference instead.
static RESPONSE_VALUE: Shape = Shape {
    members: &[("", 1, Form::Message(&RESPONSE))],
    extensions: 0,
};

static RESPONSE: Shape = Shape {
    members: &[
        ("description", 1, Form::Text),
        ("schema", 2, Form::Within(1, &SCHEMA)),
    ],
    extensions: 5,
};

static BODY_PARAMETER: Shape = Shape {
    members: &[
        ("description", 1, Form::Text),
        ("name", 2, Form::Text),
        ("in", 3, Form::Text),
        ("required", 4, Form::Flag),
        ("schema", 5, Form::Message(&SCHEMA)),
    ],
    extensions: 6,
};

static QUERY_PARAMETER: Shape = Shape {
    members: &[
        ("required", 1, Form::Flag),
        ("in", 2, Form::Text),
        ("description", 3, Form::Text),
        ("name", 4, Form::Text),
        ("type", 6, Form::Text),
        ("format", 7, Form::Text),
        ("default", 10, Form::Any),
        ("uniqueItems", 20, Form::Flag),
    ],
    extensions: 23,
};

static PATH_PARAMETER: Shape = Shape {
    members: &[
        ("required", 1, Form::Flag),
        ("in", 2, Form::Text),
        ("description", 3, Form::Text),
        ("name", 4, Form::Text),
        ("type", 5, Form::Text),
        ("format", 6, Form::Text),
        ("default", 9, Form::Any),
        ("uniqueItems", 19, Form::Flag),
    ],
    extensions: 22,
};

static SCHEMA: Shape = Shape {
    members: &[
        ("$ref", 1, Form::Text),
        ("format", 2, Form::Text),
        ("title", 3, Form::Text),
        ("description", 4, Form::Text),
        ("default", 5, Form::Any),
        ("multipleOf", 6, Form::Number),
        ("maximum", 7, Form::Number),
        ("exclusiveMaximum", 8, Form::Flag),
        ("minimum", 9, Form::Number),
        ("exclusiveMinimum", 10, Form::Flag),
        ("maxLength", 11, Form::Integer),
        ("minLength", 12, Form::Integer),
        ("pattern", 13, Form::Text),
        ("maxItems", 14, Form::Integer),
        ("minItems", 15, Form::Integer),
        ("uniqueItems", 16, Form::Flag),
        ("maxProperties", 17, Form::Integer),
        ("minProperties", 18, Form::Integer),
        ("required", 19, Form::Text),
        ("enum", 20, Form::Each),
        ("additionalProperties", 21, Form::Additional),
        ("type", 22, Form::Type),
        ("items", 23, Form::Within(1, &SCHEMA)),
        ("allOf", 24, Form::Message(&SCHEMA)),
        ("properties", 25, Form::Entries(1, &SCHEMA)),
        ("readOnly", 27, Form::Flag),
        ("example", 30, Form::Any),
    ],
    extensions: 31,
};

/// Writes the members of a message; what its shape does not know is not said.
fn message(out: &mut Vec<u8>, shape: &Shape, value: &Value) {
    if let [("", number, form)] = shape.members {
        member(out, *number, *form, value);
        return;
    }
    let Some(map) = value.as_object() else { return };
    for (name, number, form) in shape.members {
        if let Some(value) = map.get(*name) {
            member(out, *number, *form, value);
        }
    }
    for (name, value) in map.iter().filter(|(name, _)| name.starts_with("x-")) {
        nested(out, shape.extensions, |out| {
            text(out, 1, name);
            any(out, 2, value);
        });
    }
}

fn member(out: &mut Vec<u8>, number: u32, form: Form, value: &Value) {
    match (form, value) {
        (Form::Type, _) => nested(out, number, |out| member(out, 1, Form::Text, value)),
        (Form::Within(inner, shape), _) => nested(out, number, |out| {
            nested(out, inner, |out| message(out, shape, value));
        }),
        (Form::Entries(inner, shape), Value::Object(map)) => {
            nested(out, number, |out| entries(out, inner, shape, map));
        }
        (Form::Additional, Value::Bool(allowed)) => nested(out, number, |out| {
            // One of two, so that also `false` is said.
            key(out, 2, 0);
            varint(out, u64::from(*allowed));
        }),
        (Form::Additional, _) => nested(out, number, |out| {
            nested(out, 1, |out| message(out, &SCHEMA, value));
        }),
        (Form::Any, _) => any(out, number, value),
        (_, Value::Array(list)) => list.iter().for_each(|one| member(out, number, form, one)),
        (Form::Message(shape), _) => nested(out, number, |out| message(out, shape, value)),
        (Form::Parameters, _) => nested(out, number, |out| parameter(out, value)),
        (Form::Each, _) => any(out, number, value),
        (Form::Text, Value::String(said)) => text(out, number, said),
        (Form::Flag, Value::Bool(true)) => {
            key(out, number, 0);
            varint(out, 1);
        }
        (Form::Integer, Value::Number(count)) => {
            key(out, number, 0);
            varint(out, count.as_u64().unwrap_or_default());
        }
        (Form::Number, Value::Number(amount)) => {
            key(out, number, 1);
            out.extend(amount.as_f64().unwrap_or_default().to_le_bytes());
        }
        _ => {}
    }
}

fn entries(out: &mut Vec<u8>, number: u32, shape: &Shape, map: &Map<String, Value>) {
    for (name, value) in map {
        nested(out, number, |out| {
            text(out, 1, name);
            nested(out, 2, |out| message(out, shape, value));
        });
    }
}

/// A parameter by where it stands, each kind in a message of its own.
fn parameter(out: &mut Vec<u8>, value: &Value) {
    nested(out, 1, |out| match value["in"].as_str() {
        Some("body") => nested(out, 1, |out| message(out, &BODY_PARAMETER, value)),
        Some("path") => nested(out, 2, |out| {
            nested(out, 4, |out| message(out, &PATH_PARAMETER, value));
        }),
        _ => nested(out, 2, |out| {
            nested(out, 3, |out| message(out, &QUERY_PARAMETER, value));
        }),
    });
}

/// A value as a line of YAML, which JSON is.
fn any(out: &mut Vec<u8>, number: u32, value: &Value) {
    nested(out, number, |out| text(out, 2, &format!("{value}\n")));
}

fn text(out: &mut Vec<u8>, number: u32, text: &str) {
    key(out, number, 2);
    varint(out, text.len() as u64);
    out.extend(text.as_bytes());
}

fn nested(out: &mut Vec<u8>, number: u32, write: impl FnOnce(&mut Vec<u8>)) {
    let mut inner = Vec::new();
    write(&mut inner);
    key(out, number, 2);
    varint(out, inner.len() as u64);
    out.append(&mut inner);
}

fn key(out: &mut Vec<u8>, number: u32, wire: u32) {
    varint(out, u64::from((number << 3) | wire));
}

fn varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value.to_le_bytes()[0] | 0x80);
        value >>= 7;
    }
    out.push(value.to_le_bytes()[0]);
}
