//! A page of a list, read item by item: only one item is in memory.

use std::collections::VecDeque;
use std::time::Duration;

use bytes::Bytes;
use http::Response;
use http_body_util::BodyExt as _;
use kube::client::Body;
use serde::Deserialize;
use tokio::time::Instant;

use super::call::{CallError, within};
use crate::errors::chain;

/// The largest item: no object has more than a few megabytes.
const LONGEST_ITEM: usize = 64 << 20;

/// The response to a list.
pub struct Page {
    body: Body,
    /// The longest wait for more data.
    patience: Duration,
    splitter: Splitter,
}

/// The fields of a page beside its items.
#[derive(Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PageEnd {
    pub resource_version: String,
    /// The token for the next page; empty after the last one.
    #[serde(rename = "continue")]
    pub next: String,
}

impl Page {
    pub(super) fn new(response: Response<Body>, patience: Duration) -> Self {
        Self {
            body: response.into_body(),
            patience,
            splitter: Splitter::default(),
        }
    }

    /// The next item; `None` after the last one.
    pub async fn item(&mut self) -> Result<Option<Bytes>, CallError> {
        loop {
            if let Some(item) = self.splitter.items.pop_front() {
                return Ok(Some(item));
            }
            let frame = async { Ok(self.body.frame().await) };
            let deadline = Instant::now() + self.patience;
            match within(deadline, self.patience, frame).await? {
                None => return Ok(None),
                Some(Err(error)) => return Err(CallError::Broken(chain(&error))),
                Some(Ok(frame)) => {
                    if let Some(data) = frame.data_ref() {
                        self.splitter.take(data);
                    }
                }
            }
            if self.splitter.held() > LONGEST_ITEM {
                return Err(CallError::Broken(
                    "an item of the list is larger than 64 MiB".to_owned(),
                ));
            }
        }
    }

    /// The other fields of the page, known once all items are read.
    pub fn end(self) -> Result<PageEnd, CallError> {
        self.splitter.end()
    }
}

/// Separates the items of a list from the rest of it. It follows brackets and strings only: parsing an item shows
/// whether it is valid.
#[derive(Default)]
struct Splitter {
    /// The list without its items.
    rest: Vec<u8>,
    item: Vec<u8>,
    items: VecDeque<Bytes>,
    depth: usize,
    in_text: bool,
    is_escaped: bool,
    /// The last string at the top level of the list, as far as it may be `items"`.
    field: Vec<u8>,
    in_items: bool,
}

/// The name of the field, with the closing quote.
const ITEMS: &[u8] = b"items\"";
/// The number of open brackets between items.
const BETWEEN: usize = 2;

impl Splitter {
    fn held(&self) -> usize {
        self.rest.len() + self.item.len()
    }

    fn take(&mut self, data: &[u8]) {
        for byte in data {
            self.byte(*byte);
        }
    }

    fn byte(&mut self, byte: u8) {
        if self.in_text {
            self.keep(byte);
            if self.depth == 1 && self.field.len() <= ITEMS.len() {
                self.field.push(byte);
            }
            self.in_text = self.is_escaped || byte != b'"';
            self.is_escaped = byte == b'\\' && !self.is_escaped;
            return;
        }
        match byte {
            b'"' => {
                self.in_text = true;
                if self.depth == 1 {
                    self.field.clear();
                }
                self.keep(byte);
            }
            b'{' | b'[' => {
                let begins = self.depth == 1 && byte == b'[' && self.field == ITEMS;
                self.depth += 1;
                self.keep(byte);
                self.in_items |= begins;
            }
            b'}' | b']' => {
                if self.depth <= BETWEEN {
                    self.in_items = false;
                }
                self.keep(byte);
                self.depth = self.depth.saturating_sub(1);
                if self.in_items && self.depth == BETWEEN {
                    self.items.push_back(std::mem::take(&mut self.item).into());
                }
            }
            _ => self.keep(byte),
        }
    }

    fn keep(&mut self, byte: u8) {
        if !self.in_items {
            self.rest.push(byte);
        } else if self.depth > BETWEEN {
            self.item.push(byte);
        }
    }

    fn end(self) -> Result<PageEnd, CallError> {
        #[derive(Deserialize)]
        struct List {
            #[serde(default)]
            metadata: PageEnd,
        }
        let list: Result<List, _> = serde_json::from_slice(&self.rest);
        let said = |error| CallError::Broken(format!("the response is not a list: {error}"));
        Ok(list.map_err(said)?.metadata)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::*;

    fn split(text: &[u8], piece: usize) -> (Vec<Bytes>, Result<PageEnd, CallError>) {
        let mut splitter = Splitter::default();
        text.chunks(piece).for_each(|piece| splitter.take(piece));
        (splitter.items.drain(..).collect(), splitter.end())
    }

    fn value() -> impl Strategy<Value = Value> {
        let text = r#"[a"\\{}\[\],:]{0,6}|items"#;
        let leaf = prop_oneof![
            text.prop_map(Value::from),
            any::<i32>().prop_map(Value::from)
        ];
        leaf.prop_recursive(4, 16, 4, move |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                prop::collection::btree_map(text, inner, 0..4)
                    .prop_map(|map| Value::Object(map.into_iter().collect())),
            ]
        })
    }

    fn object() -> impl Strategy<Value = Value> {
        prop::collection::btree_map("[a-c]|items", value(), 0..4)
            .prop_map(|map| Value::Object(map.into_iter().collect()))
    }

    proptest! {
        #[test]
        fn items_are_what_a_parser_finds_however_the_list_is_cut(
            items in prop::collection::vec(object(), 0..5),
            other in value(),
            is_pretty: bool,
            piece in 1_usize..40,
        ) {
            let list = json!({
                "apiVersion": "v1", "kind": "items", "a": other, "items": items, "z": other,
                "metadata": {"resourceVersion": "7", "continue": "c"},
            });
            let text = if is_pretty { serde_json::to_vec_pretty(&list) } else { serde_json::to_vec(&list) };
            let (found, end) = split(&text.unwrap(), piece);
            let found: Vec<Value> = found.iter().map(|i| serde_json::from_slice(i).unwrap()).collect();
            prop_assert_eq!(found, items);
            let wanted = PageEnd { resource_version: "7".to_owned(), next: "c".to_owned() };
            prop_assert_eq!(end, Ok(wanted));
        }

        #[test]
        fn fuzz_no_answer_breaks_the_splitter(text in r#"([{}\[\]:,"\\ a]|"items":|"metadata":){0,40}"#) {
            let _ = split(text.as_bytes(), 3);
        }
    }

    #[test]
    fn a_list_that_was_cut_off_has_no_end() {
        let (items, end) = split(br#"{"metadata":{},"items":[{"a":1},{"#, 5);
        assert_eq!(items, [&br#"{"a":1}"#[..]]);
        assert!(matches!(end, Err(CallError::Broken(_))), "{end:?}");
        let (items, end) = split(br#"{"items":null,"metadata":{"resourceVersion":"1"}}"#, 5);
        assert!(items.is_empty());
        assert_eq!(end.unwrap().next, "");
    }
}
