//! The JSON of objects, compressed.
//!
//! Objects of one table resemble each other: the same fields, controllers and owners. So each is compressed with the
//! text of an earlier one as dictionary, the *pattern*. It stays in memory as long as a body needs it.

use std::borrow::Cow;
use std::sync::{Arc, Weak};

use lz4_flex::block::{compress_with_dict, decompress_with_dict};

/// The minimum number of bodies that use a pattern, so that all patterns together take little memory compared with
/// them.
const LEAST_USES: usize = 64;
/// The number of patterns at a time. Each stays while a body needs it.
const MOST_PATTERNS: usize = 64;
/// The largest text that becomes a pattern.
const LARGEST_PATTERN: usize = 16 << 10;

/// Compresses the bodies of a table.
#[derive(Default)]
pub(super) struct Packer {
    pattern: Option<Arc<Box<[u8]>>>,
    /// The number of bodies since it was chosen.
    uses: usize,
    /// The patterns that bodies need.
    needed: Vec<Weak<Box<[u8]>>>,
}

/// The size of an object.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ObjectSize {
    /// The bytes of its JSON.
    pub text: usize,
    /// About the memory that it takes as a tree: up to a hundred times as much.
    pub tree: usize,
}

#[derive(Debug, Default)]
pub(in crate::cluster::cache) struct Body {
    kept: Box<[u8]>,
    /// The number of bytes of the text; 0 if `kept` is the text.
    packed_from: u32,
    /// See [`ObjectSize::tree`].
    tree: u32,
    pattern: Option<Arc<Box<[u8]>>>,
}

impl Packer {
    pub(super) fn pack(&mut self, text: Vec<u8>) -> Body {
        let pattern = self.pattern.as_ref();
        let kept = compress_with_dict(&text, pattern.map_or(&[], |pattern| pattern));
        self.uses += 1;
        let body = match u32::try_from(text.len()) {
            Ok(packed_from) if kept.len() < text.len() => Body {
                kept: kept.into(),
                packed_from,
                tree: tree_bytes(&text),
                pattern: pattern.map(Arc::clone),
            },
            _ => Body::plain(text.clone()),
        };
        let is_outdated = pattern.is_none() || self.uses > LEAST_USES;
        if is_outdated && text.len() <= LARGEST_PATTERN && body.len() > text.len() / 3 {
            self.choose(text);
        }
        body
    }

    fn choose(&mut self, text: Vec<u8>) {
        self.uses = 0;
        self.needed.retain(|pattern| pattern.strong_count() > 0);
        if self.needed.len() < MOST_PATTERNS {
            let pattern = Arc::new(text.into());
            self.needed.push(Arc::downgrade(&pattern));
            self.pattern = Some(pattern);
        }
    }
}

impl Body {
    pub(super) fn plain(text: Vec<u8>) -> Self {
        Self {
            tree: tree_bytes(&text),
            kept: text.into(),
            ..Self::default()
        }
    }

    /// The JSON.
    pub(in crate::cluster::cache) fn text(&self) -> Cow<'_, [u8]> {
        if self.packed_from == 0 {
            return Cow::Borrowed(&self.kept);
        }
        let pattern: &[u8] = self.pattern.as_ref().map_or(&[], |pattern| pattern);
        let text = decompress_with_dict(&self.kept, self.text_len(), pattern);
        Cow::Owned(text.expect("packed with the same pattern, and never changed since"))
    }

    /// The number of bytes that are kept.
    pub(super) fn len(&self) -> usize {
        self.kept.len()
    }

    /// The number of bytes of the JSON.
    pub(in crate::cluster::cache) fn text_len(&self) -> usize {
        if self.packed_from == 0 {
            self.kept.len()
        } else {
            self.packed_from as usize
        }
    }

    pub(super) fn size(&self) -> ObjectSize {
        ObjectSize {
            text: self.text_len(),
            tree: self.tree as usize,
        }
    }
}

/// An estimate of the memory that a text takes once it is parsed. Punctuation within strings counts too.
fn tree_bytes(text: &[u8]) -> u32 {
    let after = |place: usize| text.get(place + 1);
    text.iter()
        .enumerate()
        .fold(0, |bytes: u32, (place, byte)| {
            bytes.saturating_add(match byte {
                // A node of a map has room for several fields. An empty map has none.
                b'{' if after(place) == Some(&b'"') => 640,
                // The name of a field, and its part of further nodes.
                b':' => 96,
                // A value.
                b',' => 32,
                _ => 1,
            })
        })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn object(name: usize) -> Vec<u8> {
        let text = serde_json::json!({
            "apiVersion": "example.org/v1", "kind": "Bucket",
            "metadata": {"name": format!("bucket-{name}"), "labels": {"app": "storage", "team": "a"}},
            "spec": {"region": "eu-west-1", "versioning": true, "lifecycle": [{"days": name, "action": "expire"}]},
        });
        text.to_string().into_bytes()
    }

    #[test]
    fn an_object_like_the_others_takes_a_fraction_of_its_text() {
        let mut packer = Packer::default();
        packer.pack(object(0));
        for name in 1..200 {
            let text = object(name);
            let body = packer.pack(text.clone());
            assert_eq!((&*body.text(), body.text_len()), (&*text, text.len()));
            assert!(body.len() < text.len() / 3, "{} bytes", body.len());
        }
    }

    #[test]
    fn objects_that_resemble_nothing_add_one_pattern_for_many() {
        let mut packer = Packer::default();
        let noise = |seed: u64| -> Vec<u8> {
            let hash = |n: u64| (seed << 32 | n).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            (0..500).flat_map(|n| hash(n).to_be_bytes()).collect()
        };
        let bodies: Vec<Body> = (0..1_000).map(|n| packer.pack(noise(n))).collect();
        let mut patterns: Vec<_> = bodies
            .iter()
            .filter_map(|body| body.pattern.as_ref())
            .map(Arc::as_ptr)
            .collect();
        patterns.sort_unstable();
        patterns.dedup();
        assert!(
            patterns.len() <= 1_000 / LEAST_USES + 1,
            "{}",
            patterns.len()
        );
        for (n, body) in (0..).zip(&bodies) {
            assert_eq!(&*body.text(), noise(n));
        }
        let pinned = (1_000..10_000).filter_map(|n| {
            let body = packer.pack(noise(n));
            (n % 32 == 0).then_some(body)
        });
        let pinned: Vec<Body> = pinned.collect();
        assert!(pinned.len() > 2 * MOST_PATTERNS && packer.needed.len() <= MOST_PATTERNS);
    }

    #[test]
    fn the_tree_of_many_small_values_is_much_larger_than_their_text() {
        let small = vec![serde_json::json!({"a": 1}); 1_000];
        for (value, least, most) in [
            (serde_json::json!(small), 80, 110),
            (serde_json::json!(vec![1; 1_000]), 10, 20),
            (serde_json::json!("x".repeat(1_000)), 1, 2),
        ] {
            let text = value.to_string().into_bytes();
            let ObjectSize { text, tree } = Body::plain(text).size();
            assert!(
                (least * text..most * text).contains(&tree),
                "{tree} of {text}"
            );
        }
    }

    proptest! {
        #[test]
        fn what_is_packed_is_read_back(texts in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..600), 1..150)) {
            let mut packer = Packer::default();
            let bodies: Vec<Body> = texts.iter().map(|text| packer.pack(text.clone())).collect();
            for (text, body) in texts.iter().zip(&bodies) {
                prop_assert_eq!((&*body.text(), body.text_len()), (&**text, text.len()));
            }
        }
    }
}
