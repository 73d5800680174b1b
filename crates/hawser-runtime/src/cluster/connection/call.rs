//! A call to a server, and its response.

use std::future::Future;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::header::{DATE, HeaderValue, RETRY_AFTER};
use http::{Method, Response};
use http_body_util::BodyExt as _;
use jiff::Timestamp;
use jiff::fmt::rfc2822::DateTimeParser;
use kube::client::Body;
use serde_json::Value;
use tokio::time::{Instant, timeout_at};

use super::refusal::Refusal;
use crate::errors::chain;

/// The time limit of a call, from sending it to the last byte of its response.
pub const REQUEST_TIMEOUT: Duration = Duration::from_secs(30);
/// The largest response that is read in one piece. Lists are read item by item.
pub(super) const LARGEST_ANSWER: usize = 64 << 20;
/// The number of bytes that are read of a refusal: a webhook of a workspace may write it.
pub(super) const LARGEST_REFUSAL: usize = 1 << 20;

/// A request below the base path of a connection.
#[derive(Clone, Debug, PartialEq)]
pub struct Call {
    pub method: Method,
    /// Path and query, beginning with a slash.
    pub path: String,
    pub body: Bytes,
    pub content_type: &'static str,
    pub accept: &'static str,
    pub class: CallClass,
}

/// The priority of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallClass {
    /// Waits for its turn; fails if the server asked for a pause.
    Work,
    /// Has a few separate places, and is dropped rather than queued.
    Event,
    /// Never waits, and no guard stops it: it decides who may write.
    Lease,
    /// Waits for its turn like work, and changes nothing: the server makes a dry run. No guard stops it.
    DryRun,
}

const JSON: &str = "application/json";
const MERGE_PATCH: &str = "application/merge-patch+json";

impl Call {
    fn new(
        method: Method,
        path: impl Into<String>,
        body: Bytes,
        content_type: &'static str,
    ) -> Self {
        Self {
            method,
            path: path.into(),
            body,
            content_type,
            accept: JSON,
            class: CallClass::Work,
        }
    }

    pub fn get(path: impl Into<String>) -> Self {
        Self::new(Method::GET, path, Bytes::new(), JSON)
    }

    pub fn post(path: impl Into<String>, body: &Value) -> Self {
        Self::new(Method::POST, path, bytes(body), JSON)
    }

    pub fn put(path: impl Into<String>, body: &Value) -> Self {
        Self::new(Method::PUT, path, bytes(body), JSON)
    }

    pub fn merge_patch(path: impl Into<String>, patch: &Value) -> Self {
        Self::new(Method::PATCH, path, bytes(patch), MERGE_PATCH)
    }

    /// A deletion with options such as preconditions.
    pub fn delete(path: impl Into<String>, options: &Value) -> Self {
        Self::new(Method::DELETE, path, bytes(options), JSON)
    }

    #[must_use]
    pub fn class(self, class: CallClass) -> Self {
        Self { class, ..self }
    }

    /// Requests another representation of the response.
    #[must_use]
    pub fn accept(self, accept: &'static str) -> Self {
        Self { accept, ..self }
    }
}

/// The response of a server.
#[derive(Clone, Debug, PartialEq)]
pub struct Reply {
    pub status: u16,
    pub body: Bytes,
    pub retry_after: Option<Duration>,
    pub date: Option<HeaderValue>,
}

impl Reply {
    pub fn is_success(&self) -> bool {
        (200..300).contains(&self.status)
    }

    /// The time by the clock of the server.
    pub fn time(&self) -> Option<Timestamp> {
        let date = self.date.as_ref()?.as_bytes();
        DateTimeParser::new().parse_timestamp(date).ok()
    }

    /// The document of a successful response, or the refusal.
    pub fn ok(&self) -> Result<Value, Refusal> {
        if !self.is_success() {
            return Err(self.refusal());
        }
        serde_json::from_slice(&self.body).map_err(|error| Refusal::not_json(self.status, &error))
    }

    pub fn refusal(&self) -> Refusal {
        Refusal::read(self.status, &self.body)
    }

    /// Whether the response is a document of the API, perhaps only its beginning, and not plain text from a proxy.
    pub(super) fn is_status(&self) -> bool {
        #[derive(serde::Deserialize)]
        struct Kind {
            kind: String,
        }
        match serde_json::from_slice::<Kind>(&self.body) {
            Ok(found) => found.kind == "Status",
            Err(error) => error.is_eof() && self.body.starts_with(b"{"),
        }
    }
}

/// The reason for a missing response. Only of a call that was not sent is it known that it had no effect.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CallError {
    #[error("no answer within {} seconds", .0.as_secs())]
    Timeout(Duration),
    #[error("unreachable: {0}")]
    Unreachable(String),
    /// The response began, but is incomplete.
    #[error("the response was incomplete: {0}")]
    Broken(String),
    /// Not sent: the server asked for a pause of this length.
    #[error("not sent: the server asked for a pause of {} ms more", .0.as_millis())]
    Held(Duration),
    #[error("not sent: too many requests to the server are unanswered")]
    NoTurn,
    /// Not sent: a guard refused it.
    #[error("not sent: {0}")]
    Withheld(String),
    #[error("not sent: {0:?} is not a URL")]
    Address(String),
}

/// A call that failed, or that was refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RequestError {
    #[error(transparent)]
    Call(#[from] CallError),
    #[error(transparent)]
    Refused(#[from] Refusal),
}

impl RequestError {
    /// The status of the response, if there was one.
    pub fn code(&self) -> Option<u16> {
        match self {
            Self::Refused(refusal) => Some(refusal.code),
            Self::Call(_) => None,
        }
    }
}

/// A document as bytes. Twice as fast as `Display`, which checks every piece.
pub(super) fn bytes(document: &Value) -> Bytes {
    let text = serde_json::to_vec(document);
    text.expect("a JSON value has no keys but strings").into()
}

/// Reads a response to its last byte, and no more of a refusal than can be of use.
pub(super) async fn whole(response: Response<Body>) -> Result<Reply, CallError> {
    let status = response.status();
    let retry_after = retry_after(&response);
    let date = response.headers().get(DATE).cloned();
    let mut body = response.into_body();
    let body = if status.is_success() {
        let whole = http_body_util::Limited::new(body, LARGEST_ANSWER).collect();
        let whole = whole.await;
        whole
            .map_err(|error| CallError::Unreachable(chain(&*error)))?
            .to_bytes()
    } else {
        let mut text = BytesMut::new();
        read_refusal(&mut body, &mut text).await?;
        text.freeze()
    };
    Ok(Reply {
        status: status.as_u16(),
        body,
        retry_after,
        date,
    })
}

/// Adds the beginning of a refusal to a text.
pub(super) async fn read_refusal(body: &mut Body, text: &mut BytesMut) -> Result<(), CallError> {
    while text.len() < LARGEST_REFUSAL
        && let Some(frame) = body.frame().await
    {
        let frame = frame.map_err(|error| CallError::Unreachable(chain(&error)))?;
        if let Some(data) = frame.data_ref() {
            text.extend_from_slice(data);
        }
    }
    Ok(())
}

pub(super) async fn within<T>(
    deadline: Instant,
    patience: Duration,
    work: impl Future<Output = Result<T, CallError>>,
) -> Result<T, CallError> {
    let late = |_| Err(CallError::Timeout(patience));
    timeout_at(deadline, work).await.unwrap_or_else(late)
}

fn retry_after<B>(response: &Response<B>) -> Option<Duration> {
    let seconds = response.headers().get(RETRY_AFTER)?.to_str().ok()?;
    seconds.trim().parse().ok().map(Duration::from_secs)
}
