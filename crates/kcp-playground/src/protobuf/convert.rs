//! Converts numbered fields to named fields.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use jiff::civil::DateTime;
use serde_json::{Map, Value};

use super::{
    kinds::{Entry, FieldShape, Kind, Message},
    wire::{Payload, ProtobufError, Reader},
};
use kube_schema::json;

/// The seconds of Go's zero time, which stands for a missing time.
const ZERO_TIME: i64 = -62_135_596_800;

pub(super) const EPOCH: DateTime = DateTime::constant(1970, 1, 1, 0, 0, 0, 0);

/// Decodes a message into an object. A message may come in several parts, which are merged.
pub(super) fn message(
    bytes: &[u8],
    message: &Message,
    object: &mut Map<String, Value>,
) -> Result<(), ProtobufError> {
    let mut reader = Reader::new(bytes);
    while let Some(field) = reader.field()? {
        let entry = message
            .fields
            .iter()
            .find(|entry| u64::from(entry.number) == field.number);
        if let Some(entry) = entry {
            put(object, entry, field.payload)?;
        }
    }
    Ok(())
}

fn put(
    object: &mut Map<String, Value>,
    entry: &Entry,
    payload: Payload<'_>,
) -> Result<(), ProtobufError> {
    match entry.shape {
        FieldShape::Kept | FieldShape::OmittedEmpty => {
            let old = object.remove(entry.name);
            if let Some(value) = value(entry, payload, old)?
                && (entry.shape == FieldShape::Kept || !is_empty(&value))
            {
                object.insert(entry.name.into(), value);
            }
        }
        FieldShape::List => {
            let value = value(entry, payload, None)?.unwrap_or_default();
            let list = object
                .entry(entry.name)
                .or_insert_with(|| Value::Array(Vec::new()));
            if let Value::Array(list) = list {
                list.push(value);
            }
        }
        FieldShape::Map => {
            let (key, value) = map_entry(entry, payload)?;
            let map = object
                .entry(entry.name)
                .or_insert_with(|| Value::Object(Map::new()));
            if let Value::Object(map) = map {
                map.insert(key, value);
            }
        }
    }
    Ok(())
}

/// The values that Go omits from JSON with `omitempty`.
fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(false) => true,
        Value::String(text) => text.is_empty(),
        Value::Number(number) => number.as_i64() == Some(0),
        _ => false,
    }
}

fn map_entry(entry: &Entry, payload: Payload<'_>) -> Result<(String, Value), ProtobufError> {
    let mut key = String::new();
    let mut found = None;
    let mut reader = Reader::new(bytes(entry.name, payload)?);
    while let Some(field) = reader.field()? {
        match field.number {
            1 => text(bytes(entry.name, field.payload)?, entry.name)?.clone_into(&mut key),
            2 => found = value(entry, field.payload, None)?,
            _ => {}
        }
    }
    let value = match found {
        Some(value) => value,
        // A missing value is the zero value of its type.
        None => value(entry, Payload::Bytes(&[]), None)?.unwrap_or_default(),
    };
    Ok((key, value))
}

/// One value of an entry; `None` for an unset time.
fn value(
    entry: &Entry,
    payload: Payload<'_>,
    old: Option<Value>,
) -> Result<Option<Value>, ProtobufError> {
    let name = entry.name;
    Ok(Some(match entry.kind {
        Kind::Text => text(bytes(name, payload)?, name)?.into(),
        Kind::Bytes => STANDARD.encode(bytes(name, payload)?).into(),
        Kind::Bool => (varint(name, payload)? != 0).into(),
        #[expect(clippy::cast_possible_wrap, reason = "two's complement on the wire")]
        Kind::Int64 => (varint(name, payload)? as i64).into(),
        #[expect(clippy::cast_possible_truncation, reason = "sign-extended on the wire")]
        Kind::Int32 => (varint(name, payload)? as i32).into(),
        Kind::Time => return time(name, bytes(name, payload)?, Precision::Seconds),
        Kind::MicroTime => return time(name, bytes(name, payload)?, Precision::Micros),
        Kind::Quantity => first_text(name, bytes(name, payload)?)?.into(),
        Kind::RawJson => raw_json(name, bytes(name, payload)?)?,
        Kind::Texts => texts(name, bytes(name, payload)?)?,
        Kind::Message(inner) => {
            let mut object = match old {
                Some(Value::Object(object)) => object,
                _ => Map::new(),
            };
            message(bytes(name, payload)?, inner, &mut object)?;
            Value::Object(object)
        }
    }))
}

fn bytes<'a>(field: &'static str, payload: Payload<'a>) -> Result<&'a [u8], ProtobufError> {
    match payload {
        Payload::Bytes(bytes) => Ok(bytes),
        other => Err(ProtobufError::WrongWire {
            field,
            wire: other.wire_type(),
            wanted: 2,
        }),
    }
}

fn varint(field: &'static str, payload: Payload<'_>) -> Result<u64, ProtobufError> {
    match payload {
        Payload::Varint(value) => Ok(value),
        other => Err(ProtobufError::WrongWire {
            field,
            wire: other.wire_type(),
            wanted: 0,
        }),
    }
}

pub(super) fn text<'a>(bytes: &'a [u8], field: &'static str) -> Result<&'a str, ProtobufError> {
    std::str::from_utf8(bytes).map_err(|_| ProtobufError::NotUtf8(field))
}

/// A message with only a string, such as a quantity.
fn first_text<'a>(field: &'static str, message: &'a [u8]) -> Result<&'a str, ProtobufError> {
    let mut found = "";
    let mut reader = Reader::new(message);
    while let Some(inner) = reader.field()? {
        if inner.number == 1 {
            found = text(bytes(field, inner.payload)?, field)?;
        }
    }
    Ok(found)
}

/// A message with only a list of strings, which is that list in JSON.
fn texts(field: &'static str, message: &[u8]) -> Result<Value, ProtobufError> {
    let mut list = Vec::new();
    let mut reader = Reader::new(message);
    while let Some(inner) = reader.field()? {
        if inner.number == 1 {
            list.push(text(bytes(field, inner.payload)?, field)?.into());
        }
    }
    Ok(Value::Array(list))
}

/// A message with only JSON in bytes.
fn raw_json(field: &'static str, message: &[u8]) -> Result<Value, ProtobufError> {
    let mut raw: &[u8] = b"null";
    let mut reader = Reader::new(message);
    while let Some(inner) = reader.field()? {
        if inner.number == 1 {
            raw = bytes(field, inner.payload)?;
        }
    }
    let document = json::parse(raw).map_err(|source| ProtobufError::Json { field, source })?;
    Ok(document.value)
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Precision {
    Seconds,
    Micros,
}

fn time(
    field: &'static str,
    message: &[u8],
    precision: Precision,
) -> Result<Option<Value>, ProtobufError> {
    let mut seconds = None;
    let mut nanos = 0;
    let mut reader = Reader::new(message);
    while let Some(inner) = reader.field()? {
        let number = varint(field, inner.payload)?;
        match inner.number {
            #[expect(clippy::cast_possible_wrap, reason = "two's complement on the wire")]
            1 => seconds = Some(number as i64),
            #[expect(clippy::cast_possible_truncation, reason = "sign-extended on the wire")]
            2 => nanos = number as i32,
            _ => {}
        }
    }
    let seconds = match (seconds, nanos) {
        (None, 0) => return Ok(None),
        (seconds, _) => seconds.unwrap_or(0),
    };
    if seconds == ZERO_TIME && nanos == 0 {
        return Ok(None);
    }
    let out_of_range = ProtobufError::Time(field);
    let nanos = u32::try_from(nanos)
        .ok()
        .filter(|nanos| *nanos < 1_000_000_000)
        .ok_or(out_of_range.clone())?;
    let since = jiff::SignedDuration::from_secs(seconds);
    let date = EPOCH.checked_add(since).map_err(|_| out_of_range.clone())?;
    if date.year() < 0 {
        return Err(out_of_range);
    }
    let (day, clock) = (date.date(), date.time());
    let fraction = match precision {
        Precision::Seconds => String::new(),
        Precision::Micros => format!(".{:06}", nanos / 1000),
    };
    let text = format!(
        "{:04}-{:02}-{:02}T{:02}:{:02}:{:02}{fraction}Z",
        day.year(),
        day.month(),
        day.day(),
        clock.hour(),
        clock.minute(),
        clock.second(),
    );
    Ok(Some(text.into()))
}
