//! Encodes whole documents: an object in its envelope, a list, a watch event.

use std::convert::Infallible;
use std::fmt;

use bytes::Bytes;

use super::kinds::{self, Message};
use super::{MAGIC, write};

/// The field number of an envelope's content, and of the items of every list.
const CONTENT: u32 = 2;

/// The end of an envelope: empty content encoding and content type.
const END: &[u8] = &[3 << 3 | 2, 0, 4 << 3 | 2, 0];

/// The reason why an object cannot be encoded.
#[derive(Debug, thiserror::Error)]
#[error("an object cannot be written as protobuf: {0}")]
pub struct Unwritable(#[from] serde_json::Error);

/// The encoder of one kind.
pub struct Packing {
    message: &'static Message,
    /// The beginning of a document: the magic bytes, and the type of the content.
    head: Vec<u8>,
}

impl Packing {
    /// `None` if the kind cannot be encoded.
    pub fn of(group: &str, version: &str, kind: &str) -> Option<Self> {
        let message = kinds::find(group, version, kind)?;
        Some(Self {
            message,
            head: head(group, version, kind),
        })
    }

    /// Whether the kind can be encoded.
    pub fn exists(group: &str, version: &str, kind: &str) -> bool {
        kinds::find(group, version, kind).is_some()
    }

    /// An object as it is in an envelope and in a list; `json` is its text.
    pub fn object(&self, json: &[u8]) -> Result<Bytes, Unwritable> {
        let mut out = Vec::with_capacity(json.len());
        write::nested(CONTENT, &mut out, |out| {
            write::object(json, self.message, out)
        })?;
        // Stored for long, so without spare capacity.
        Ok(Bytes::from(out.into_boxed_slice()))
    }

    /// The document of an object.
    pub fn document(&self, object: &[u8]) -> Bytes {
        [&self.head, object, END].concat().into()
    }

    /// The bytes before and after the objects of a list; `size` is that of the objects.
    pub fn list(
        (group, version, kind): (&str, &str, &str),
        meta: &[u8],
        size: usize,
    ) -> Result<(Vec<u8>, &'static [u8]), Unwritable> {
        let mut metadata = Vec::new();
        write::nested(1, &mut metadata, |out| {
            write::object(meta, &kinds::LIST_META, out)
        })?;
        let mut out = head(group, version, kind);
        write::tag(CONTENT, 2, &mut out);
        write::varint((metadata.len() + size) as u64, &mut out);
        out.extend_from_slice(&metadata);
        Ok((out, END))
    }

    /// The document of an error.
    pub fn status(json: &[u8]) -> Result<Bytes, Unwritable> {
        let status = Self {
            message: &kinds::STATUS,
            head: head("", "v1", "Status"),
        };
        Ok(status.document(&status.object(json)?))
    }

    /// A watch event with a document: a frame that begins with its length.
    pub fn event(kind: &str, document: &[u8]) -> Bytes {
        let mut frame = Vec::with_capacity(document.len() + kind.len() + 24);
        frame.extend_from_slice(&[0; 4]);
        write::bytes(1, kind.as_bytes(), &mut frame);
        let Ok(()) = write::nested::<Infallible>(2, &mut frame, |out| {
            write::bytes(1, document, out);
            Ok(())
        });
        let size = frame.len() - 4;
        let size = u32::try_from(size).expect("what is stored is no larger than some megabytes");
        frame[..4].copy_from_slice(&size.to_be_bytes());
        frame.into()
    }
}

impl fmt::Debug for Packing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Packing").finish_non_exhaustive()
    }
}

fn head(group: &str, version: &str, kind: &str) -> Vec<u8> {
    let mut out = Vec::with_capacity(MAGIC.len() + group.len() + version.len() + kind.len() + 12);
    out.extend_from_slice(MAGIC);
    let api_version = if group.is_empty() {
        version.to_owned()
    } else {
        [group, "/", version].concat()
    };
    let Ok(()) = write::nested::<Infallible>(1, &mut out, |out| {
        write::bytes(1, api_version.as_bytes(), out);
        write::bytes(2, kind.as_bytes(), out);
        Ok(())
    });
    out
}
