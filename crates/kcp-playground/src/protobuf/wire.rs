//! The wire format: numbered fields, each with a number or bytes.

use kube_schema::json;

/// The reason why a body cannot be decoded; answered with 400, or with 415 for a kind without a table.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProtobufError {
    #[error(
        "request body of {size} bytes is larger than the limit of {} bytes",
        json::MAX_BODY
    )]
    TooLarge { size: usize },
    #[error("request body does not begin with the four bytes that mark Kubernetes protobuf")]
    NoMagic,
    #[error("request body ends in the middle of {0}")]
    Truncated(&'static str),
    #[error("number in the protobuf body takes more than ten bytes")]
    LongVarint,
    #[error("field number 0 in the protobuf body")]
    FieldZero,
    #[error("wire type {0} in the protobuf body is not supported")]
    WireType(u8),
    #[error("field {field} of the protobuf body has wire type {wire} instead of {wanted}")]
    WrongWire {
        field: &'static str,
        wire: u8,
        wanted: u8,
    },
    #[error("field {0} of the protobuf body is not valid UTF-8")]
    NotUtf8(&'static str),
    #[error("field {0} of the protobuf body is not a time between the years 0 and 9999")]
    Time(&'static str),
    #[error("field {field} of the protobuf body does not hold JSON: {source}")]
    Json {
        field: &'static str,
        source: json::JsonError,
    },
    #[error("content encoding {0:?} in the protobuf envelope is not supported")]
    Encoding(String),
    #[error("protobuf is not supported for apiVersion {api_version:?}, kind {kind:?}: send JSON")]
    UnknownKind { api_version: String, kind: String },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Payload<'a> {
    Varint(u64),
    Bytes(&'a [u8]),
    /// Eight bytes; not used by our kinds.
    Fixed64,
    /// Four bytes; not used by our kinds.
    Fixed32,
}

impl Payload<'_> {
    pub(super) fn wire_type(&self) -> u8 {
        match self {
            Self::Varint(_) => 0,
            Self::Bytes(_) => 2,
            Self::Fixed64 => 1,
            Self::Fixed32 => 5,
        }
    }
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Field<'a> {
    pub(super) number: u64,
    pub(super) payload: Payload<'a>,
}

pub(super) struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    /// The next field; `None` at the end.
    pub(super) fn field(&mut self) -> Result<Option<Field<'a>>, ProtobufError> {
        if self.rest.is_empty() {
            return Ok(None);
        }
        let tag = self.varint()?;
        let number = tag >> 3;
        if number == 0 {
            return Err(ProtobufError::FieldZero);
        }
        let payload = match tag & 7 {
            0 => Payload::Varint(self.varint()?),
            1 => {
                self.take(8)?;
                Payload::Fixed64
            }
            2 => {
                let length = self.varint()?;
                Payload::Bytes(self.take(length)?)
            }
            5 => {
                self.take(4)?;
                Payload::Fixed32
            }
            #[expect(clippy::cast_possible_truncation, reason = "three bits")]
            wire => return Err(ProtobufError::WireType(wire as u8)),
        };
        Ok(Some(Field { number, payload }))
    }

    fn varint(&mut self) -> Result<u64, ProtobufError> {
        let mut value = 0;
        for shift in (0..70).step_by(7) {
            let (byte, rest) = self
                .rest
                .split_first()
                .ok_or(ProtobufError::Truncated("a number"))?;
            self.rest = rest;
            // The tenth byte has only one valid bit; the others are lost by shifting, as in every decoder.
            value |= u64::from(byte & 0x7f).checked_shl(shift).unwrap_or(0);
            if byte & 0x80 == 0 {
                return Ok(value);
            }
        }
        Err(ProtobufError::LongVarint)
    }

    fn take(&mut self, length: u64) -> Result<&'a [u8], ProtobufError> {
        let split = usize::try_from(length)
            .ok()
            .and_then(|length| self.rest.split_at_checked(length));
        let (taken, rest) = split.ok_or(ProtobufError::Truncated("a field"))?;
        self.rest = rest;
        Ok(taken)
    }
}
