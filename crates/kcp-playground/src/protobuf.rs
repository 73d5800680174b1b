//! Kubernetes' protobuf: decodes bodies of requests to the JSON of the same object, and encodes answers. Typed clients
//! send only this for built-in kinds, without a fallback. Answers in protobuf save them most of the work of parsing.
//!
//! The tables contain the field numbers of the published API, and one loop decodes by them. Unknown fields are skipped,
//! because newer clients may send them.

use serde_json::{Map, Value};

use kube_schema::json;

mod convert;
mod kinds;
mod pack;
#[cfg(test)]
mod tests;
mod wire;
mod write;

pub use pack::Packing;
pub use wire::ProtobufError;
use wire::{Payload, Reader};

/// The first bytes of a body in this encoding.
const MAGIC: &[u8] = b"k8s\0";

/// The media type of these bodies.
pub const MEDIA_TYPE: &str = "application/vnd.kubernetes.protobuf";

/// The media type of watch events.
pub const EVENTS: &str = "application/vnd.kubernetes.protobuf;stream=watch";

/// Whether a body begins like this encoding.
pub fn is_protobuf(body: &[u8]) -> bool {
    body.starts_with(MAGIC)
}

/// Decodes a body to the JSON of the object, with `apiVersion` and `kind` from the envelope.
pub fn decode(body: &[u8]) -> Result<Value, ProtobufError> {
    if body.len() > json::MAX_BODY {
        return Err(ProtobufError::TooLarge { size: body.len() });
    }
    let envelope = body.strip_prefix(MAGIC).ok_or(ProtobufError::NoMagic)?;
    let envelope = Envelope::read(envelope)?;
    let Some(message) = envelope.message() else {
        return Err(ProtobufError::UnknownKind {
            api_version: envelope.api_version.to_owned(),
            kind: envelope.kind.to_owned(),
        });
    };
    let mut object = Map::new();
    convert::message(envelope.raw, message, &mut object)?;
    object.insert("apiVersion".into(), envelope.api_version.into());
    object.insert("kind".into(), envelope.kind.into());
    Ok(Value::Object(object))
}

/// The metadata and the objects of a list, as clients read them.
#[cfg(test)]
pub(crate) fn decode_list(body: &[u8]) -> (Value, Vec<Value>) {
    let envelope = Envelope::read(body.strip_prefix(MAGIC).unwrap()).unwrap();
    let item = envelope.kind.strip_suffix("List").unwrap();
    let message = Envelope {
        kind: item,
        ..envelope
    };
    let message = message.message().unwrap();
    let (mut meta, mut items) = (Map::new(), Vec::new());
    let mut reader = Reader::new(envelope.raw);
    while let Some(field) = reader.field().unwrap() {
        let Payload::Bytes(bytes) = field.payload else {
            panic!("a list has only messages");
        };
        if field.number == 1 {
            convert::message(bytes, &kinds::LIST_META, &mut meta).unwrap();
        } else {
            let mut object = Map::new();
            convert::message(bytes, message, &mut object).unwrap();
            items.push(Value::Object(object));
        }
    }
    (Value::Object(meta), items)
}

/// The kind and the document of a framed event.
#[cfg(test)]
pub(crate) fn decode_event(frame: &[u8]) -> (String, Vec<u8>) {
    let (size, rest) = frame.split_first_chunk().unwrap();
    assert_eq!(u32::from_be_bytes(*size) as usize, rest.len());
    let bytes = |message: &mut Reader<'_>| match message.field().unwrap().unwrap().payload {
        Payload::Bytes(bytes) => bytes.to_vec(),
        other => panic!("{other:?}"),
    };
    let mut event = Reader::new(rest);
    let kind = String::from_utf8(bytes(&mut event)).unwrap();
    let object = bytes(&mut event);
    (kind, bytes(&mut Reader::new(&object)))
}

#[derive(Default)]
struct Envelope<'a> {
    api_version: &'a str,
    kind: &'a str,
    raw: &'a [u8],
}

impl<'a> Envelope<'a> {
    /// The message of its content, if it has a table.
    fn message(&self) -> Option<&'static kinds::Message> {
        let api_version = self.api_version;
        let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
        kinds::find(group, version, self.kind)
    }

    fn read(bytes: &'a [u8]) -> Result<Self, ProtobufError> {
        let mut envelope = Self::default();
        let mut reader = Reader::new(bytes);
        while let Some(field) = reader.field()? {
            match (field.number, field.payload) {
                (1, Payload::Bytes(bytes)) => {
                    let mut types = Reader::new(bytes);
                    while let Some(field) = types.field()? {
                        match (field.number, field.payload) {
                            (1, Payload::Bytes(b)) => {
                                envelope.api_version = convert::text(b, "apiVersion")?;
                            }
                            (2, Payload::Bytes(b)) => envelope.kind = convert::text(b, "kind")?,
                            _ => {}
                        }
                    }
                }
                (2, Payload::Bytes(bytes)) => envelope.raw = bytes,
                (3, Payload::Bytes(bytes)) if !bytes.is_empty() => {
                    let encoding = String::from_utf8_lossy(bytes).into_owned();
                    return Err(ProtobufError::Encoding(encoding));
                }
                _ => {}
            }
        }
        Ok(envelope)
    }
}
