//! A large document, as the texts that it consists of. The texts are shared with the store and are joined while they
//! are sent, so the whole document is never in memory.

use std::convert::Infallible;
use std::iter::Peekable;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::vec::IntoIter;

use bytes::Bytes;
use hyper::body::{Body, Frame, SizeHint};

/// The number of bytes that are joined at once.
const CHUNK: usize = 64 * 1024;

/// A JSON text in a list. It may have lost its beginning, and may have an insertion in the middle.
#[derive(Clone, Debug)]
pub struct Item {
    opened: bool,
    parts: [Bytes; 2],
}

impl Item {
    pub fn whole(text: Bytes) -> Self {
        Self {
            opened: false,
            parts: [text, Bytes::new()],
        }
    }

    /// With an opening brace before the parts.
    pub fn opened(parts: [Bytes; 2]) -> Self {
        Self {
            opened: true,
            parts,
        }
    }

    pub fn size(&self) -> usize {
        let [first, second] = &self.parts;
        usize::from(self.opened) + first.len() + second.len()
    }

    fn write(&self, text: &mut Vec<u8>) {
        if self.opened {
            text.push(b'{');
        }
        for part in &self.parts {
            text.extend_from_slice(part);
        }
    }
}

/// A document whose last field is a list of texts.
#[derive(Debug)]
pub struct Pieces {
    head: Vec<u8>,
    items: Peekable<IntoIter<Item>>,
    /// Whether commas separate the items.
    commas: bool,
    tail: &'static [u8],
    left: usize,
}

impl Pieces {
    /// The text before the list, its items, and the text after it.
    pub fn new(head: Vec<u8>, items: Vec<Item>, tail: &'static [u8]) -> Self {
        let commas = items.len().saturating_sub(1);
        let mut pieces = Self::joined(head, items, tail);
        pieces.commas = true;
        pieces.left += commas;
        pieces
    }

    /// Like [`new`](Self::new), without separators.
    pub fn joined(head: Vec<u8>, items: Vec<Item>, tail: &'static [u8]) -> Self {
        let size: usize = items.iter().map(Item::size).sum();
        Self {
            left: head.len() + size + tail.len(),
            head,
            items: items.into_iter().peekable(),
            commas: false,
            tail,
        }
    }

    /// The bytes that are left to send.
    pub fn left(&self) -> usize {
        self.left
    }

    /// The rest of the document.
    pub fn whole(mut self) -> Bytes {
        self.chunk(usize::MAX)
    }

    /// The next part, of about this size; empty at the end.
    fn chunk(&mut self, wanted: usize) -> Bytes {
        let mut chunk = std::mem::take(&mut self.head);
        let next = self.items.peek().map_or(0, Item::size);
        let room = wanted.saturating_add(next).min(self.left);
        chunk.reserve_exact(room.saturating_sub(chunk.len()));
        while chunk.len() < wanted
            && let Some(item) = self.items.next()
        {
            item.write(&mut chunk);
            if self.commas && self.items.peek().is_some() {
                chunk.push(b',');
            }
        }
        if self.items.peek().is_none() {
            chunk.extend_from_slice(std::mem::take(&mut self.tail));
        }
        self.left -= chunk.len();
        chunk.into()
    }
}

impl Iterator for Pieces {
    type Item = Bytes;

    fn next(&mut self) -> Option<Bytes> {
        (self.left > 0).then(|| self.chunk(CHUNK))
    }
}

impl Body for Pieces {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        Poll::Ready(self.next().map(|chunk| Ok(Frame::data(chunk))))
    }

    fn is_end_stream(&self) -> bool {
        self.left == 0
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.left as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pieces(sizes: &[usize]) -> Pieces {
        let items = sizes.iter().map(|size| match size.checked_sub(3) {
            // Some items are cut, so that both cases occur.
            Some(rest) if rest % 2 == 1 => {
                Item::opened([vec![b'x'; rest].into(), Bytes::from_static(b"yz")])
            }
            _ => Item::whole(vec![b'x'; *size].into()),
        });
        Pieces::new(b"{[".to_vec(), items.collect(), b"]}")
    }

    #[test]
    fn the_chunks_are_the_document() {
        for sizes in [
            vec![],
            vec![0],
            vec![3],
            vec![1, 0, 2],
            vec![CHUNK],
            vec![CHUNK - 2, 1],
            vec![CHUNK - 3, 0, 0, 1],
            vec![1000; 1000],
            vec![5, 3 * CHUNK, 5],
        ] {
            let text = |size: &usize| match size.checked_sub(3) {
                Some(rest) if rest % 2 == 1 => format!("{{{}yz", "x".repeat(rest)),
                _ => "x".repeat(*size),
            };
            let items: Vec<String> = sizes.iter().map(text).collect();
            let document = format!("{{[{}]}}", items.join(","));
            assert_eq!(pieces(&sizes).left(), document.len());
            assert_eq!(pieces(&sizes).whole(), document);
            let mut left = pieces(&sizes);
            let mut told = Vec::new();
            while let Some(chunk) = left.next() {
                assert!(!chunk.is_empty());
                told.extend_from_slice(&chunk);
                let rest = (document.len() - told.len()) as u64;
                assert_eq!(Body::size_hint(&left).exact(), Some(rest));
            }
            assert_eq!(told, document.as_bytes());
            assert!(left.is_end_stream());
        }
    }

    #[test]
    fn a_chunk_is_no_larger_than_it_has_to_be() {
        let largest = pieces(&[1000; 1000]).map(|chunk| chunk.len()).max();
        assert!(largest.unwrap() < CHUNK + 1003);
    }
}
