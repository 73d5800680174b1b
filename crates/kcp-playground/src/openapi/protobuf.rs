//! The v2 document in protobuf, the only form that clients of v2 request: to validate lists before they are applied,
//! and to learn the types of built-in kinds.
//!
//! The tables contain the field numbers of the published format, and one function encodes by them. Parts with a special
//! form (a type, items, additional properties) have a rule.

use serde_json::{Map, Value};

/// The media type of the answer.
pub(in super::super) const MEDIA_TYPE: &str =
    "application/com.github.proto-openapi.spec.v2.v1.0+protobuf";
/// The media type in requests; it is not valid as a content type.
pub(in super::super) const ASKED: &str =
    "application/com.github.proto-openapi.spec.v2@v1.0+protobuf";

/// How a member is encoded.
#[derive(Clone, Copy)]
enum MemberForm {
    /// A string, or each one of a list of strings.
    Text,
    Flag,
    Integer,
    Number,
    /// Any value, as text.
    Any,
    /// Each value of a list, as text.
    Each,
    /// A message, or each one of a list of messages.
    Message(&'static MessageShape),
    /// A message that contains only one message of this shape, at this number.
    Within(u32, &'static MessageShape),
    /// A message with an entry for each member, at this number.
    Entries(u32, &'static MessageShape),
    /// A string or a list of strings, in a message.
    Type,
    /// A schema or a boolean, in a message.
    Additional,
    /// Each one of a list of parameters.
    Parameters,
}

/// The members of a message.
struct MessageShape {
    members: &'static [(&'static str, u32, MemberForm)],
    /// The field for members whose names begin with `x-`.
    extensions: u32,
}

/// A whole document.
pub(super) fn document(document: &Value) -> Vec<u8> {
    let mut out = Vec::new();
    message(&mut out, &DOCUMENT, document);
    out
}

static DOCUMENT: MessageShape = MessageShape {
    members: &[
        ("swagger", 1, MemberForm::Text),
        ("info", 2, MemberForm::Message(&INFO)),
        ("paths", 8, MemberForm::Entries(2, &PATH_ITEM)),
        ("definitions", 9, MemberForm::Entries(1, &SCHEMA)),
    ],
    extensions: 16,
};

static INFO: MessageShape = MessageShape {
    members: &[
        ("title", 1, MemberForm::Text),
        ("version", 2, MemberForm::Text),
        ("description", 3, MemberForm::Text),
    ],
    extensions: 7,
};

static PATH_ITEM: MessageShape = MessageShape {
    members: &[
        ("get", 2, MemberForm::Message(&OPERATION)),
        ("put", 3, MemberForm::Message(&OPERATION)),
        ("post", 4, MemberForm::Message(&OPERATION)),
        ("delete", 5, MemberForm::Message(&OPERATION)),
        ("patch", 8, MemberForm::Message(&OPERATION)),
        ("parameters", 9, MemberForm::Parameters),
    ],
    extensions: 10,
};

static OPERATION: MessageShape = MessageShape {
    members: &[
        ("tags", 1, MemberForm::Text),
        ("summary", 2, MemberForm::Text),
        ("description", 3, MemberForm::Text),
        ("operationId", 5, MemberForm::Text),
        ("produces", 6, MemberForm::Text),
        ("consumes", 7, MemberForm::Text),
        ("parameters", 8, MemberForm::Parameters),
        ("responses", 9, MemberForm::Entries(1, &RESPONSE_VALUE)),
        ("schemes", 10, MemberForm::Text),
        ("deprecated", 11, MemberForm::Flag),
    ],
    extensions: 13,
};

/// A response is in a message of its own, which could contain a reference instead.
static RESPONSE_VALUE: MessageShape = MessageShape {
    members: &[("", 1, MemberForm::Message(&RESPONSE))],
    extensions: 0,
};

static RESPONSE: MessageShape = MessageShape {
    members: &[
        ("description", 1, MemberForm::Text),
        ("schema", 2, MemberForm::Within(1, &SCHEMA)),
    ],
    extensions: 5,
};

static BODY_PARAMETER: MessageShape = MessageShape {
    members: &[
        ("description", 1, MemberForm::Text),
        ("name", 2, MemberForm::Text),
        ("in", 3, MemberForm::Text),
        ("required", 4, MemberForm::Flag),
        ("schema", 5, MemberForm::Message(&SCHEMA)),
    ],
    extensions: 6,
};

static QUERY_PARAMETER: MessageShape = MessageShape {
    members: &[
        ("required", 1, MemberForm::Flag),
        ("in", 2, MemberForm::Text),
        ("description", 3, MemberForm::Text),
        ("name", 4, MemberForm::Text),
        ("type", 6, MemberForm::Text),
        ("format", 7, MemberForm::Text),
        ("default", 10, MemberForm::Any),
        ("uniqueItems", 20, MemberForm::Flag),
    ],
    extensions: 23,
};

static PATH_PARAMETER: MessageShape = MessageShape {
    members: &[
        ("required", 1, MemberForm::Flag),
        ("in", 2, MemberForm::Text),
        ("description", 3, MemberForm::Text),
        ("name", 4, MemberForm::Text),
        ("type", 5, MemberForm::Text),
        ("format", 6, MemberForm::Text),
        ("default", 9, MemberForm::Any),
        ("uniqueItems", 19, MemberForm::Flag),
    ],
    extensions: 22,
};

static SCHEMA: MessageShape = MessageShape {
    members: &[
        ("$ref", 1, MemberForm::Text),
        ("format", 2, MemberForm::Text),
        ("title", 3, MemberForm::Text),
        ("description", 4, MemberForm::Text),
        ("default", 5, MemberForm::Any),
        ("multipleOf", 6, MemberForm::Number),
        ("maximum", 7, MemberForm::Number),
        ("exclusiveMaximum", 8, MemberForm::Flag),
        ("minimum", 9, MemberForm::Number),
        ("exclusiveMinimum", 10, MemberForm::Flag),
        ("maxLength", 11, MemberForm::Integer),
        ("minLength", 12, MemberForm::Integer),
        ("pattern", 13, MemberForm::Text),
        ("maxItems", 14, MemberForm::Integer),
        ("minItems", 15, MemberForm::Integer),
        ("uniqueItems", 16, MemberForm::Flag),
        ("maxProperties", 17, MemberForm::Integer),
        ("minProperties", 18, MemberForm::Integer),
        ("required", 19, MemberForm::Text),
        ("enum", 20, MemberForm::Each),
        ("additionalProperties", 21, MemberForm::Additional),
        ("type", 22, MemberForm::Type),
        ("items", 23, MemberForm::Within(1, &SCHEMA)),
        ("allOf", 24, MemberForm::Message(&SCHEMA)),
        ("properties", 25, MemberForm::Entries(1, &SCHEMA)),
        ("readOnly", 27, MemberForm::Flag),
        ("example", 30, MemberForm::Any),
    ],
    extensions: 31,
};

/// Encodes the members of a message; members that its shape does not know are left out.
fn message(out: &mut Vec<u8>, shape: &MessageShape, value: &Value) {
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

fn member(out: &mut Vec<u8>, number: u32, form: MemberForm, value: &Value) {
    match (form, value) {
        (MemberForm::Type, _) => nested(out, number, |out| member(out, 1, MemberForm::Text, value)),
        (MemberForm::Within(inner, shape), _) => nested(out, number, |out| {
            nested(out, inner, |out| message(out, shape, value));
        }),
        (MemberForm::Entries(inner, shape), Value::Object(map)) => {
            nested(out, number, |out| entries(out, inner, shape, map));
        }
        (MemberForm::Additional, Value::Bool(allowed)) => nested(out, number, |out| {
            // A oneof, so `false` is encoded too.
            key(out, 2, 0);
            varint(out, u64::from(*allowed));
        }),
        (MemberForm::Additional, _) => nested(out, number, |out| {
            nested(out, 1, |out| message(out, &SCHEMA, value));
        }),
        (MemberForm::Any, _) => any(out, number, value),
        (_, Value::Array(list)) => list.iter().for_each(|one| member(out, number, form, one)),
        (MemberForm::Message(shape), _) => nested(out, number, |out| message(out, shape, value)),
        (MemberForm::Parameters, _) => nested(out, number, |out| parameter(out, value)),
        (MemberForm::Each, _) => any(out, number, value),
        (MemberForm::Text, Value::String(said)) => text(out, number, said),
        (MemberForm::Flag, Value::Bool(true)) => {
            key(out, number, 0);
            varint(out, 1);
        }
        (MemberForm::Integer, Value::Number(count)) => {
            key(out, number, 0);
            varint(out, count.as_u64().unwrap_or_default());
        }
        (MemberForm::Number, Value::Number(amount)) => {
            key(out, number, 1);
            out.extend(amount.as_f64().unwrap_or_default().to_le_bytes());
        }
        _ => {}
    }
}

fn entries(out: &mut Vec<u8>, number: u32, shape: &MessageShape, map: &Map<String, Value>) {
    for (name, value) in map {
        nested(out, number, |out| {
            text(out, 1, name);
            nested(out, 2, |out| message(out, shape, value));
        });
    }
}

/// A parameter by its location, each kind in a message of its own.
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

/// A value as one line of YAML, of which JSON is a subset.
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
