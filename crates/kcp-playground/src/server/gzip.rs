//! Compression of large answers for clients that accept it: at the lowest level, piece by piece, so that a client can
//! unpack the beginning while the rest is compressed.

use std::io::{self, Write as _};
use std::iter;

use bytes::Bytes;
use flate2::Compression;
use flate2::write::GzEncoder;
use futures::Stream;
use futures::stream;
use http::HeaderMap;
use http::header::ACCEPT_ENCODING;

/// The minimum size of a compressed body, as in kube-apiserver.
const WORTH_IT: usize = 128 * 1024;
/// The size of a piece. Large enough that switching threads does not matter.
const PIECE: usize = 256 * 1024;

/// The encoding that a client accepts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Coding {
    Plain,
    Gzip,
}

impl Coding {
    pub(super) fn accepted(headers: &HeaderMap) -> Self {
        let gzip = headers.get_all(ACCEPT_ENCODING).iter().any(|value| {
            let text = String::from_utf8_lossy(value.as_bytes());
            text.split(',').any(|coding| coding.trim() == "gzip")
        });
        if gzip { Self::Gzip } else { Self::Plain }
    }

    /// Whether a body of this size is compressed.
    pub(super) fn packs(self, size: usize) -> bool {
        self == Self::Gzip && size > WORTH_IT
    }
}

/// The rest of the body.
struct GzipState<I> {
    encoder: GzEncoder<Vec<u8>>,
    left: I,
}

impl<I: Iterator<Item = Bytes>> GzipState<I> {
    fn next(mut self) -> io::Result<(Bytes, Option<Self>)> {
        let Some(piece) = self.left.next() else {
            return Ok((self.encoder.finish()?.into(), None));
        };
        self.encoder.write_all(&piece)?;
        let packed = std::mem::take(self.encoder.get_mut());
        Ok((packed.into(), Some(self)))
    }
}

/// A text to compress, in pieces.
pub(super) fn cut(mut text: Bytes) -> impl Iterator<Item = Bytes> + Send {
    iter::from_fn(move || {
        let piece = text.split_to(PIECE.min(text.len()));
        (!piece.is_empty()).then_some(piece)
    })
}

/// A compressed body. A client notices by itself if it ends early.
pub(super) fn pack(
    pieces: impl Iterator<Item = Bytes> + Send + 'static,
) -> impl Stream<Item = Bytes> + Send {
    let start = GzipState {
        encoder: GzEncoder::new(Vec::new(), Compression::fast()),
        left: pieces,
    };
    stream::unfold(Some(start), |packing| async move {
        let packing = packing?;
        let packed = tokio::task::spawn_blocking(move || packing.next()).await;
        match packed {
            Ok(Ok((bytes, rest))) => Some((bytes, rest)),
            Ok(Err(error)) => {
                tracing::warn!(%error, "an answer could not be compressed");
                None
            }
            Err(_) => None,
        }
    })
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;

    use flate2::read::GzDecoder;
    use futures::StreamExt as _;

    use super::*;

    #[track_caller]
    fn check(accept: Option<&'static str>, size: usize, expected: bool) {
        let mut headers = HeaderMap::new();
        if let Some(accept) = accept {
            headers.insert(ACCEPT_ENCODING, accept.parse().unwrap());
        }
        assert_eq!(
            Coding::accepted(&headers).packs(size),
            expected,
            "{accept:?} {size}"
        );
    }

    #[test]
    fn only_large_bodies_are_packed_and_only_for_who_takes_them() {
        check(None, 1 << 20, false);
        check(Some("gzip"), WORTH_IT, false);
        check(Some("gzip"), WORTH_IT + 1, true);
        check(Some("deflate, gzip"), 1 << 20, true);
        check(Some("br"), 1 << 20, false);
        check(Some("identity"), 1 << 20, false);
    }

    #[tokio::test]
    async fn what_is_unpacked_is_what_was_packed() {
        for size in [0, 1, PIECE, PIECE * 3 + 7] {
            let body: Bytes = (0..=250).cycle().take(size).collect();
            let packed: Vec<Bytes> = pack(cut(body.clone())).collect().await;
            let mut unpacked = Vec::new();
            let packed = packed.concat();
            let mut decoder = GzDecoder::new(packed.as_slice());
            decoder.read_to_end(&mut unpacked).unwrap();
            assert_eq!(unpacked, body, "{size}");
        }
    }
}
