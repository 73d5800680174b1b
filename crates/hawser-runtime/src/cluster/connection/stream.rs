//! A long response, line by line.

use bytes::{Buf as _, Bytes, BytesMut};
use http::Response;
use http_body_util::BodyExt as _;
use kube::client::Body;
use tokio::time::timeout;

use super::call::{CallError, REQUEST_TIMEOUT, read_refusal};
use super::refusal::Refusal;
use crate::errors::chain;

/// The longest line: no object has more than a few megabytes.
const LONGEST_LINE: usize = 64 << 20;

/// The response to a watch: its status, then lines as they come.
pub struct Streamed {
    pub status: u16,
    body: Body,
    rest: BytesMut,
    /// The length of the prefix of `rest` that has no line end.
    searched: usize,
}

impl Streamed {
    pub(super) fn new(response: Response<Body>) -> Self {
        Self {
            status: response.status().as_u16(),
            body: response.into_body(),
            rest: BytesMut::new(),
            searched: 0,
        }
    }

    /// The next line, without its end; `None` when the server ended the response. Cancel-safe.
    pub async fn line(&mut self) -> Result<Option<Bytes>, CallError> {
        loop {
            if let Some(end) = self.rest[self.searched..].iter().position(|b| *b == b'\n') {
                let line = self.rest.split_to(self.searched + end).freeze();
                self.rest.advance(1);
                self.searched = 0;
                return Ok(Some(line));
            }
            self.searched = self.rest.len();
            if self.rest.len() > LONGEST_LINE {
                return Err(CallError::Unreachable(
                    "an event of the watch is larger than 64 MiB".to_owned(),
                ));
            }
            match self.body.frame().await {
                Some(Ok(frame)) => {
                    if let Some(data) = frame.data_ref() {
                        self.rest.extend_from_slice(data);
                    }
                }
                Some(Err(error)) => return Err(CallError::Unreachable(chain(&error))),
                None if self.rest.is_empty() => return Ok(None),
                None => {
                    self.searched = 0;
                    return Ok(Some(self.rest.split().freeze()));
                }
            }
        }
    }

    /// The refusal, if the status is not a success: as much of it as arrives in time.
    pub async fn refusal(mut self) -> Refusal {
        let rest = read_refusal(&mut self.body, &mut self.rest);
        // The status says enough.
        let _ = timeout(REQUEST_TIMEOUT, rest).await;
        Refusal::read(self.status, &self.rest)
    }
}
