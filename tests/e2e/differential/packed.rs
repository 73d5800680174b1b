//! Answers in Kubernetes' protobuf, as the JSON of the same thing, so that they are compared by what they say.
//!
//! Objects are read by the playground's own reader of bodies. What has an envelope, but is no object that a client
//! sends, is read here: lists, refusals, the events of watches.

use anyhow::{Context as _, Result, ensure};
use kcp_playground::protobuf;
use serde_json::{Map, Value, json};

pub(super) const PROTOBUF: &str = protobuf::MEDIA_TYPE;

/// What every document begins with.
const MAGIC: &[u8] = b"k8s\0";

/// A field of a message.
enum Field<'a> {
    Number(u64),
    Bytes(&'a [u8]),
}

/// The fields of a message with their numbers.
fn fields(mut message: &[u8]) -> Result<Vec<(u64, Field<'_>)>> {
    let mut found = Vec::new();
    while !message.is_empty() {
        let tag = number(&mut message)?;
        let field = match tag & 7 {
            0 => Field::Number(number(&mut message)?),
            2 => {
                let size = usize::try_from(number(&mut message)?)?;
                let (bytes, rest) = message.split_at_checked(size).context("it ends early")?;
                message = rest;
                Field::Bytes(bytes)
            }
            other => anyhow::bail!("wire type {other}"),
        };
        found.push((tag >> 3, field));
    }
    Ok(found)
}

fn number(message: &mut &[u8]) -> Result<u64> {
    let mut value = 0;
    for shift in (0..64).step_by(7) {
        let (byte, rest) = message.split_first().context("it ends within a number")?;
        *message = rest;
        value |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Ok(value);
        }
    }
    anyhow::bail!("a number is too long")
}

/// The names of a message's plain fields, by their numbers; other fields are left out.
fn plain(message: &[u8], names: &[(u64, &str)]) -> Result<Map<String, Value>> {
    let mut found = Map::new();
    for (number, field) in fields(message)? {
        let Some((_, name)) = names.iter().find(|(known, _)| *known == number) else {
            continue;
        };
        // What is empty is left out of JSON.
        let value = match field {
            Field::Number(0) | Field::Bytes([]) => continue,
            Field::Number(number) => json!(number),
            Field::Bytes(text) => json!(std::str::from_utf8(text)?),
        };
        found.insert((*name).to_owned(), value);
    }
    Ok(found)
}

/// The messages that a field has, in their order.
fn messages(message: &[u8], wanted: u64) -> Result<Vec<&[u8]>> {
    let all = fields(message)?.into_iter();
    let bytes = all.filter_map(|(number, field)| match field {
        Field::Bytes(bytes) if number == wanted => Some(bytes),
        _ => None,
    });
    Ok(bytes.collect())
}

pub(super) fn is_packed(document: &[u8]) -> bool {
    document.starts_with(MAGIC)
}

/// The JSON of a document. What nobody can read is compared like anything else, and found.
pub(super) fn read(document: &[u8]) -> Value {
    or_unreadable(document_of(document))
}

fn or_unreadable(read: Result<Value>) -> Value {
    read.unwrap_or_else(|error| json!({"unreadable": error.to_string()}))
}

fn document_of(document: &[u8]) -> Result<Value> {
    let envelope = document.strip_prefix(MAGIC).context("no envelope")?;
    let types = messages(envelope, 1)?.concat();
    let types = plain(&types, &[(1, "apiVersion"), (2, "kind")])?;
    let raw = messages(envelope, 2)?.concat();
    let kind = types
        .get("kind")
        .and_then(Value::as_str)
        .unwrap_or_default();
    let mut said = match kind {
        "Status" => status(&raw)?,
        _ => match kind.strip_suffix("List") {
            Some(item) => list(&raw, &types, item)?,
            None => return Ok(protobuf::decode(document)?),
        },
    };
    said.extend(types);
    Ok(said.into())
}

fn list_meta(meta: &[u8]) -> Result<Value> {
    let names = [
        (2, "resourceVersion"),
        (3, "continue"),
        (4, "remainingItemCount"),
    ];
    Ok(plain(meta, &names)?.into())
}

fn list(raw: &[u8], types: &Map<String, Value>, item: &str) -> Result<Map<String, Value>> {
    let mut items = Vec::new();
    for raw in messages(raw, 2)? {
        items.push(protobuf::decode(&enveloped(types, item, raw))?);
    }
    let meta = list_meta(&messages(raw, 1)?.concat())?;
    let fields = [("metadata", meta), ("items", items.into())];
    Ok(fields
        .map(|(name, value)| (name.to_owned(), value))
        .into_iter()
        .collect())
}

/// An item of a list as if it stood alone.
fn enveloped(types: &Map<String, Value>, kind: &str, raw: &[u8]) -> Vec<u8> {
    let put = |message: &mut Vec<u8>, number: u8, bytes: &[u8]| {
        message.push(number << 3 | 2);
        let mut left = bytes.len();
        while left >= 0x80 {
            message.push(left.to_le_bytes()[0] | 0x80);
            left >>= 7;
        }
        message.push(left.to_le_bytes()[0]);
        message.extend_from_slice(bytes);
    };
    let api_version = types.get("apiVersion").and_then(Value::as_str);
    let mut said = Vec::new();
    put(&mut said, 1, api_version.unwrap_or_default().as_bytes());
    put(&mut said, 2, kind.as_bytes());
    let mut document = MAGIC.to_vec();
    put(&mut document, 1, &said);
    put(&mut document, 2, raw);
    document
}

fn status(raw: &[u8]) -> Result<Map<String, Value>> {
    let names = [(2, "status"), (3, "message"), (4, "reason"), (6, "code")];
    let mut status = plain(raw, &names)?;
    status.insert(
        "metadata".to_owned(),
        list_meta(&messages(raw, 1)?.concat())?,
    );
    if let Some(raw) = messages(raw, 5)?.first() {
        let names = [
            (1, "name"),
            (2, "group"),
            (3, "kind"),
            (5, "retryAfterSeconds"),
            (6, "uid"),
        ];
        let mut details = plain(raw, &names)?;
        let mut causes = Vec::new();
        for cause in messages(raw, 4)? {
            let names = [(1, "reason"), (2, "message"), (3, "field")];
            causes.push(Value::from(plain(cause, &names)?));
        }
        if !causes.is_empty() {
            details.insert("causes".to_owned(), causes.into());
        }
        status.insert("details".to_owned(), details.into());
    }
    Ok(status)
}

/// Takes the events that are there as a whole from the beginning of a stream.
pub(super) fn take_events(pending: &mut Vec<u8>) -> Vec<Value> {
    let mut found = Vec::new();
    while let Some((size, rest)) = pending.split_first_chunk::<4>() {
        let size = u32::from_be_bytes(*size) as usize;
        let Some(frame) = rest.get(..size) else {
            break;
        };
        found.push(or_unreadable(event(frame)));
        pending.drain(..4 + size);
    }
    found
}

fn event(frame: &[u8]) -> Result<Value> {
    let mut event = plain(frame, &[(1, "type")])?;
    let object = messages(frame, 2)?.concat();
    let documents = messages(&object, 1)?;
    ensure!(
        documents.len() == 1,
        "{} documents in an event",
        documents.len()
    );
    event.insert("object".to_owned(), document_of(documents[0])?);
    Ok(event.into())
}
