//! Requests and answers of the Kubernetes API, independent of HTTP connections.
//!
//! The server turns what arrives into an [`ApiRequest`], whatever implements [`Api`] answers it.

use bytes::Bytes;
use futures::future::BoxFuture;
use futures::stream::BoxStream;
use http::header::{CONTENT_TYPE, RETRY_AFTER, WARNING, X_CONTENT_TYPE_OPTIONS};
use http::{HeaderMap, HeaderValue, Method};

use super::catalog::{Scope, User};
use super::pieces::Pieces;
use super::status::Status;

/// A request whose user and scope are known.
#[derive(Clone, Debug)]
pub struct ApiRequest {
    pub user: User,
    pub method: Method,
    pub scope: Scope,
    /// Below the scope, starting with a slash, percent-encoding untouched.
    pub path: String,
    pub query: Option<String>,
    pub headers: HeaderMap,
    pub body: Bytes,
}

/// The answer. Where its headers name no content type it is JSON.
pub struct ApiResponse {
    pub status: u16,
    pub headers: HeaderMap,
    pub body: ApiBody,
}

impl ApiResponse {
    /// With a content type, where it is another than the usual one.
    pub(super) fn of(mut self, media_type: Option<&'static str>) -> Self {
        if let Some(media_type) = media_type {
            let media_type = HeaderValue::from_static(media_type);
            self.headers.insert(CONTENT_TYPE, media_type);
        }
        self
    }
}

/// A whole document, or the events of a watch as they come.
pub enum ApiBody {
    Full(Bytes),
    /// A large document, put together while it is sent.
    Pieces(Pieces),
    Stream(BoxStream<'static, Bytes>),
}

impl ApiBody {
    /// The document, at once; none if it has no end.
    pub fn whole(self) -> Option<Bytes> {
        match self {
            Self::Full(document) => Some(document),
            Self::Pieces(pieces) => Some(pieces.whole()),
            Self::Stream(_) => None,
        }
    }
}

/// What answers requests.
pub trait Api: Send + Sync + 'static {
    fn handle(&self, request: ApiRequest) -> BoxFuture<'_, ApiResponse>;

    /// The revision of the newest write, for faults that answer with an earlier state.
    fn revision(&self) -> u64;
}

impl From<Status> for ApiResponse {
    fn from(status: Status) -> Self {
        let mut headers = HeaderMap::new();
        if status.plain {
            let plain = HeaderValue::from_static("text/plain; charset=utf-8");
            headers.insert(CONTENT_TYPE, plain);
            headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
            return Self {
                status: status.code,
                headers,
                body: ApiBody::Full(Bytes::from(status.message)),
            };
        }
        let seconds = status.details.as_ref().and_then(|d| d.retry_after_seconds);
        if let Some(seconds) = seconds {
            headers.insert(RETRY_AFTER, HeaderValue::from(seconds));
        }
        warn(&mut headers, &status.warnings);
        Self {
            status: status.code,
            headers,
            body: ApiBody::Full(Bytes::from(status.to_json().to_string())),
        }
    }
}

/// Writes warnings into the headers of an answer.
pub(super) fn warn(headers: &mut HeaderMap, warnings: &[String]) {
    for warning in warnings {
        let quoted = warning.replace('\\', "\\\\").replace('"', "\\\"");
        // What is no header text is not worth a warning.
        if let Ok(value) = HeaderValue::from_str(&format!("299 - \"{quoted}\"")) {
            headers.append(WARNING, value);
        }
    }
}
