//! Encodes the stored JSON of an object as protobuf, in one pass over the text.

use std::fmt;

use base64::{Engine as _, engine::general_purpose::STANDARD};
use jiff::civil::DateTime;
use jiff::fmt::temporal::Pieces;
use serde::de::{Deserialize as _, DeserializeSeed, Deserializer, Error, IgnoredAny};
use serde::de::{MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;

use super::convert::EPOCH;
use super::kinds::{Entry, FieldShape, Kind, Message};

const VARINT: u32 = 0;
const BYTES: u32 = 2;

/// Encodes the fields of a JSON object. Fields that the message does not have are refused, because they would be lost.
pub(super) fn object(
    json: &[u8],
    message: &'static Message,
    out: &mut Vec<u8>,
) -> Result<(), serde_json::Error> {
    let mut text = serde_json::Deserializer::from_slice(json);
    let fields = ObjectWriter {
        message,
        is_root: true,
        out,
    };
    fields.deserialize(&mut text)?;
    text.end()
}

/// The bytes of a field, after its number and length.
pub(super) fn bytes(number: u32, bytes: &[u8], out: &mut Vec<u8>) {
    tag(number, BYTES, out);
    varint(bytes.len() as u64, out);
    out.extend_from_slice(bytes);
}

pub(super) fn varint(mut value: u64, out: &mut Vec<u8>) {
    while value >= 0x80 {
        out.push((value & 0x7f) as u8 | 0x80);
        value >>= 7;
    }
    #[expect(clippy::cast_possible_truncation, reason = "seven bits")]
    out.push(value as u8);
}

pub(super) fn tag(number: u32, wire: u32, out: &mut Vec<u8>) {
    varint(u64::from(number << 3 | wire), out);
}

/// A field with a message, whose length comes before it.
pub(super) fn nested<E>(
    number: u32,
    out: &mut Vec<u8>,
    write: impl FnOnce(&mut Vec<u8>) -> Result<(), E>,
) -> Result<(), E> {
    tag(number, BYTES, out);
    let start = out.len();
    write(out)?;
    let end = out.len();
    // The length is known only now, so the encoded bytes are moved.
    varint((end - start) as u64, out);
    out[start..].rotate_left(end - start);
    Ok(())
}

fn number(number: u32, value: u64, out: &mut Vec<u8>) {
    tag(number, VARINT, out);
    varint(value, out);
}

/// The fields of an object.
struct ObjectWriter<'o> {
    message: &'static Message,
    /// Whether this is the root, whose kind belongs to the envelope.
    is_root: bool,
    out: &'o mut Vec<u8>,
}

/// The name of a field.
struct FieldName<'o>(&'o ObjectWriter<'o>);

enum Named {
    Field(&'static Entry),
    Kind,
}

impl Visitor<'_> for FieldName<'_> {
    type Value = Named;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a field of a message")
    }

    fn visit_str<E: Error>(self, name: &str) -> Result<Named, E> {
        let Self(ObjectWriter {
            message, is_root, ..
        }) = self;
        match message.fields.iter().find(|entry| entry.name == name) {
            Some(entry) => Ok(Named::Field(entry)),
            None if *is_root && matches!(name, "apiVersion" | "kind") => Ok(Named::Kind),
            None => Err(E::custom(format!("no number is known of field {name:?}"))),
        }
    }
}

impl<'de> DeserializeSeed<'de> for FieldName<'_> {
    type Value = Named;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Named, D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl<'de> DeserializeSeed<'de> for ObjectWriter<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for ObjectWriter<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        while let Some(named) = map.next_key_seed(FieldName(&self))? {
            match named {
                Named::Kind => drop(map.next_value::<IgnoredAny>()?),
                Named::Field(entry) => map.next_value_seed(FieldWriter {
                    name: entry.name,
                    number: entry.number,
                    kind: entry.kind,
                    shape: entry.shape,
                    out: self.out,
                })?,
            }
        }
        Ok(())
    }
}

/// The value of a field, or of an item of a list or a map.
struct FieldWriter<'o> {
    name: &'static str,
    number: u32,
    kind: Kind,
    shape: FieldShape,
    out: &'o mut Vec<u8>,
}

impl FieldWriter<'_> {
    fn item(&mut self) -> FieldWriter<'_> {
        FieldWriter {
            shape: FieldShape::Kept,
            out: self.out,
            ..*self
        }
    }

    fn text<E: Error>(self, text: &str) -> Result<(), E> {
        let Self { number, out, .. } = self;
        match self.kind {
            Kind::Text => bytes(number, text.as_bytes(), out),
            Kind::Bytes => {
                let decoded = STANDARD.decode(text).map_err(E::custom)?;
                bytes(number, &decoded, out);
            }
            Kind::Quantity => nested(number, out, |out| {
                bytes(1, text.as_bytes(), out);
                Ok(())
            })?,
            Kind::Time | Kind::MicroTime => {
                // A text that is not a time is left out, like the zero time.
                let Some((seconds, nanos)) = time(text) else {
                    return Ok(());
                };
                nested(number, out, |out| {
                    self::number(1, seconds.cast_unsigned(), out);
                    self::number(2, nanos, out);
                    Ok(())
                })?;
            }
            _ => return Err(self::misfit(self.name, "a string")),
        }
        Ok(())
    }
}

fn misfit<E: Error>(name: &str, found: &str) -> E {
    E::custom(format!("field {name:?} is {found}"))
}

/// Seconds since 1970, and nanoseconds; `None` if the text is not a time. Up to the end of the year 9999, which is
/// beyond the range of a system clock here.
fn time(text: &str) -> Option<(i64, u64)> {
    let (date, seconds) = if let Some(date) = text.strip_suffix('Z') {
        (date.parse::<DateTime>().ok()?, 0)
    } else {
        let offset = Pieces::parse(text).ok()?.to_numeric_offset()?;
        (text.parse::<DateTime>().ok()?, i64::from(offset.seconds()))
    };
    let since = date.duration_since(EPOCH);
    let nanos = u64::try_from(date.subsec_nanosecond()).ok()?;
    let whole = since.as_secs() - i64::from(since.subsec_nanos() < 0);
    Some((whole - seconds, nanos))
}

impl<'de> DeserializeSeed<'de> for FieldWriter<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        if !matches!(
            (self.kind, self.shape),
            (Kind::RawJson, FieldShape::Kept | FieldShape::OmittedEmpty)
        ) {
            return deserializer.deserialize_any(self);
        }
        let json = <&RawValue>::deserialize(deserializer)?.get();
        if json == "null" {
            return Ok(());
        }
        nested(self.number, self.out, |out| {
            bytes(1, json.as_bytes(), out);
            Ok(())
        })
    }
}

impl<'de> Visitor<'de> for FieldWriter<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the value of field {:?}", self.name)
    }

    /// A null is left out.
    fn visit_unit<E: Error>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<(), E> {
        match self.kind {
            Kind::Bool => number(self.number, u64::from(value), self.out),
            _ => return Err(misfit(self.name, "a boolean")),
        }
        Ok(())
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<(), E> {
        match self.kind {
            Kind::Int32 | Kind::Int64 => number(self.number, value.cast_unsigned(), self.out),
            Kind::Quantity => return self.text(&value.to_string()),
            _ => return Err(misfit(self.name, "an integer")),
        }
        Ok(())
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<(), E> {
        match i64::try_from(value) {
            Ok(value) => self.visit_i64(value),
            Err(_) => Err(misfit(self.name, "too large an integer")),
        }
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<(), E> {
        match self.kind {
            Kind::Quantity => self.text(&value.to_string()),
            _ => Err(misfit(self.name, "a number with a fraction")),
        }
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<(), E> {
        match self.shape {
            FieldShape::Kept | FieldShape::OmittedEmpty => self.text(text),
            FieldShape::List | FieldShape::Map => Err(misfit(self.name, "a string")),
        }
    }

    fn visit_seq<A: SeqAccess<'de>>(mut self, mut items: A) -> Result<(), A::Error> {
        match (self.shape, self.kind) {
            (FieldShape::List, _) => while items.next_element_seed(self.item())?.is_some() {},
            (FieldShape::Kept, Kind::Texts) => nested(self.number, self.out, |out| {
                let mut texts = FieldWriter {
                    name: self.name,
                    number: 1,
                    kind: Kind::Text,
                    shape: FieldShape::Kept,
                    out,
                };
                while items.next_element_seed(texts.item())?.is_some() {}
                Ok(())
            })?,
            _ => return Err(misfit(self.name, "a list")),
        }
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let Self {
            name,
            number,
            kind,
            shape,
            out,
        } = self;
        match (shape, kind) {
            (FieldShape::Map, _) => {
                while let Some(key) = map.next_key::<String>()? {
                    nested(number, out, |out| {
                        bytes(1, key.as_bytes(), out);
                        map.next_value_seed(FieldWriter {
                            name,
                            number: 2,
                            kind,
                            shape: FieldShape::Kept,
                            out,
                        })
                    })?;
                }
                Ok(())
            }
            (FieldShape::Kept | FieldShape::OmittedEmpty, Kind::Message(message)) => {
                nested(number, out, |out| {
                    let fields = ObjectWriter {
                        message,
                        is_root: false,
                        out,
                    };
                    fields.visit_map(map)
                })
            }
            _ => Err(misfit(name, "an object")),
        }
    }
}
