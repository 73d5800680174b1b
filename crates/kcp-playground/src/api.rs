//! Requests and answers of the Kubernetes API, independent of HTTP connections.
//!
//! The server parses each HTTP request into an [`ApiRequest`]; an implementation of [`Api`] answers it.

use bytes::Bytes;
use futures::future::BoxFuture;
use futures::stream::BoxStream;
use http::header::{CONTENT_TYPE, RETRY_AFTER, WARNING, X_CONTENT_TYPE_OPTIONS};
use http::{HeaderMap, HeaderValue, Method};

use super::catalog::{Scope, User};
use super::pieces::Pieces;
use super::status::Status;

/// A request with its user and scope.
#[derive(Clone, Debug)]
pub struct ApiRequest {
    pub user: User,
    pub method: Method,
    pub scope: Scope,
    /// The path below the scope: begins with a slash, still percent-encoded.
    pub path: String,
    pub query: Option<String>,
    pub headers: HeaderMap,
    pub body: Bytes,
}

/// The answer. It is JSON unless its headers name another content type.
pub struct ApiResponse {
    pub status: u16,
    pub headers: HeaderMap,
    pub body: ApiBody,
}

impl ApiResponse {
    /// A body, with its content type if that is not the usual one.
    pub(super) fn of(mut self, media_type: Option<&'static str>) -> Self {
        if let Some(media_type) = media_type {
            let media_type = HeaderValue::from_static(media_type);
            self.headers.insert(CONTENT_TYPE, media_type);
        }
        self
    }
}

/// A whole document, or the events of a watch.
pub enum ApiBody {
    Full(Bytes),
    /// A large document, built while it is sent.
    Pieces(Pieces),
    Stream(BoxStream<'static, Bytes>),
}

impl ApiBody {
    /// The whole document; `None` for a stream without an end.
    pub fn whole(self) -> Option<Bytes> {
        match self {
            Self::Full(document) => Some(document),
            Self::Pieces(pieces) => Some(pieces.whole()),
            Self::Stream(_) => None,
        }
    }
}

/// Answers requests.
pub trait Api: Send + Sync + 'static {
    fn handle(&self, request: ApiRequest) -> BoxFuture<'_, ApiResponse>;

    /// The revision of the newest write. Faults that answer with an earlier state need it.
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

/// Adds warnings to the headers of an answer.
pub(super) fn warn(headers: &mut HeaderMap, warnings: &[String]) {
    for warning in warnings {
        let quoted = warning.replace('\\', "\\\\").replace('"', "\\\"");
        // A warning that is not a valid header value is left out.
        if let Ok(value) = HeaderValue::from_str(&format!("299 - \"{quoted}\"")) {
            headers.append(WARNING, value);
        }
    }
}
