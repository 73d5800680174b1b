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

#[derive(Debug, Default)]
pub(in crate::cluster::cache) struct Body {
    kept: Box<[u8]>,
    /// The number of bytes of the text; 0 if `kept` is the text.
    packed_from: usize,
    pattern: Option<Arc<Box<[u8]>>>,
}

impl Packer {
    pub(super) fn pack(&mut self, text: Vec<u8>) -> Body {
        let pattern = self.pattern.as_ref();
        let kept = compress_with_dict(&text, pattern.map_or(&[], |pattern| pattern));
        self.uses += 1;
        let body = if kept.len() < text.len() {
            Body {
                kept: kept.into(),
                packed_from: text.len(),
                pattern: pattern.map(Arc::clone),
            }
        } else {
            Body::plain(text.clone())
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
        let text = decompress_with_dict(&self.kept, self.packed_from, pattern);
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
            self.packed_from
        }
    }
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
