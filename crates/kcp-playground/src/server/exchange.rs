//! One request and its answer: authentication, routing, faults, the API, and the line in the log.

use std::convert::Infallible;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use bytes::Bytes;
use futures::stream::{self, BoxStream};
use futures::{Stream, StreamExt as _};
use http::header::{
    AUTHORIZATION, CACHE_CONTROL, CONNECTION, CONTENT_ENCODING, CONTENT_TYPE, USER_AGENT, VARY,
};
use http::{HeaderMap, HeaderValue, Request, Response, StatusCode, Version};
use http_body_util::{BodyExt as _, Full, LengthLimitError, Limited, StreamBody};
use hyper::body::{Body as _, Frame, Incoming};
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use super::auth::{Identity, Tokens};
use super::faults::{Action, Faults, When};
use super::gzip::{self, Coding};
use super::impersonation;
use super::request_info::{Address, RequestInfo};
use super::request_log::RequestLog;
use super::serve::{Body, Handler};
use super::watch_faults;
use crate::api::{Api, ApiBody, ApiRequest, ApiResponse};
use crate::catalog::{Scope, User};
use crate::status::Status;
use kube_lang::object::merge_patch;
use kube_schema::json::MAX_BODY;

/// Maps paths to scopes. One for each listener.
pub trait Router: Send + Sync + 'static {
    fn route(&self, address: &Address, user: &User) -> Result<Scope, Status>;
}

/// The common state of all requests of a listener.
pub(crate) struct Exchange {
    pub(crate) api: Arc<dyn Api>,
    pub(crate) router: Box<dyn Router>,
    pub(crate) tokens: Arc<Tokens>,
    pub(crate) faults: Arc<Faults>,
    pub(crate) log: Arc<RequestLog>,
    /// Ends the watches when the playground stops.
    pub(crate) stop: CancellationToken,
}

/// The number of bytes that are read of an unused body.
pub(super) const MAX_DRAINED: usize = 32 * 1024 * 1024;
const DRAINED_WITHIN: Duration = Duration::from_secs(10);

/// A request whose body has not been read.
struct Incomplete<'a> {
    method: http::Method,
    query: Option<String>,
    headers: HeaderMap,
    body: &'a mut Arriving,
    /// A fault's change of the document.
    mutation: Option<Value>,
}

/// A body, and whether it was read to its end.
struct Arriving {
    body: Incoming,
    ended: bool,
}

impl Arriving {
    fn new(body: Incoming) -> Self {
        let ended = body.is_end_stream();
        Self { body, ended }
    }

    async fn whole(&mut self) -> Result<Bytes, Status> {
        match Limited::new(&mut self.body, MAX_BODY).collect().await {
            Ok(body) => {
                self.ended = true;
                Ok(body.to_bytes())
            }
            Err(error) if error.is::<LengthLimitError>() => Err(Status::too_large(MAX_BODY)),
            Err(error) => Err(Status::bad_request(format!(
                "reading the request's body: {error}"
            ))),
        }
    }

    /// Reads the rest of an unused body, up to a limit: a client whose connection is closed while it sends may not read
    /// the answer.
    async fn drain(&mut self) {
        let mut left = MAX_DRAINED;
        let rest = async {
            while let Some(frame) = self.body.frame().await {
                let Ok(frame) = frame else { return false };
                let size = frame.data_ref().map_or(0, Bytes::len);
                if size > left {
                    return false;
                }
                left -= size;
            }
            true
        };
        self.ended = tokio::time::timeout(DRAINED_WITHIN, rest).await == Ok(true);
    }
}

impl Handler for Exchange {
    fn handle(
        self: Arc<Self>,
        request: Request<Incoming>,
    ) -> Pin<Box<dyn Future<Output = Option<Response<Body>>> + Send>> {
        Box::pin(async move {
            let (parts, body) = request.into_parts();
            let address = Address::parse(parts.uri.path());
            let query = parts.uri.query().map(str::to_owned);
            let info = RequestInfo::new(&parts.method, &address, query.as_deref());
            let agent = text(&parts.headers, &USER_AGENT);
            let coding = Coding::accepted(&parts.headers);
            let fault = self.faults.strike(&info, &agent);
            let user = self
                .tokens
                .authenticate(parts.headers.get(AUTHORIZATION).map(HeaderValue::as_bytes));
            let name = user.map_or("", |user| user.name.as_str());

            let mut asked = query.clone();
            if let Some(Action::StaleList(back)) = fault {
                let revision = self.api.revision().saturating_sub(back);
                asked = Some(stale_query(query.as_deref(), revision));
            }
            let head = parts.method == http::Method::HEAD;
            let mut body = Arriving::new(body);
            let request = Incomplete {
                method: parts.method,
                query: asked,
                headers: parts.headers,
                body: &mut body,
                mutation: match &fault {
                    Some(Action::Mutate(patch)) => Some(patch.clone()),
                    _ => None,
                },
            };
            let answer = self.answer(user, &address, request);
            let response = self.faulty(fault, answer).await;
            let code = response.as_ref().map_or(0, |response| response.status);
            self.log.push(&info, query.as_deref(), code, name, &agent);
            if !body.ended && parts.version < Version::HTTP_2 {
                body.drain().await;
            }
            response.map(|mut response| {
                if head {
                    // The answer to HEAD has no body. Over HTTP/2, nothing else enforces that.
                    response.body = ApiBody::Full(Bytes::new());
                }
                if !body.ended && parts.version < Version::HTTP_2 {
                    // The connection closes after this answer, because the rest of the body precedes any next request.
                    // The client has to be told, as it may be sending one.
                    let close = HeaderValue::from_static("close");
                    response.headers.insert(CONNECTION, close);
                }
                self.to_http(response, coding)
            })
        })
    }
}

impl Exchange {
    /// Applies a fault to the real answer. `None` closes the connection.
    async fn faulty(
        &self,
        fault: Option<Action>,
        answer: impl Future<Output = ApiResponse>,
    ) -> Option<ApiResponse> {
        match fault {
            // A stale list changes the query before the request, and a mutation changes the document, so neither is
            // applied here.
            None | Some(Action::StaleList(_) | Action::Mutate(_)) => Some(answer.await),
            Some(Action::Latency(latency)) => {
                tokio::time::sleep(latency).await;
                Some(answer.await)
            }
            Some(Action::Status { code, when }) => {
                if when == When::After {
                    answer.await;
                }
                Some(ApiResponse::from(injected(code)))
            }
            Some(Action::Reset(when)) => {
                if when == When::After {
                    answer.await;
                }
                None
            }
            Some(Action::CutWatch(after)) => {
                Some(on_stream(answer.await, |s| watch_faults::cut(s, after)))
            }
            Some(Action::FailWatch(after)) => {
                Some(on_stream(answer.await, |s| watch_faults::fail(s, after)))
            }
            Some(Action::DelayWatch(by)) => {
                Some(on_stream(answer.await, |s| watch_faults::delay(s, by)))
            }
            Some(Action::StallWatch(after)) => {
                Some(on_stream(answer.await, |s| watch_faults::stall(s, after)))
            }
        }
    }

    async fn answer(
        &self,
        user: Option<&Identity>,
        address: &Address,
        request: Incomplete<'_>,
    ) -> ApiResponse {
        let Some(identity) = user else {
            return Status::unauthorized().into();
        };
        let user = match impersonation::acting(identity, &request.headers) {
            Ok(user) => user,
            Err(status) => return status.into(),
        };
        let scope = match self.router.route(address, &user) {
            Ok(scope) => scope,
            Err(status) => return status.into(),
        };
        let body = match request.body.whole().await {
            Ok(body) => mutated(body, request.mutation.as_ref()),
            Err(status) => return status.into(),
        };
        self.api
            .handle(ApiRequest {
                user,
                method: request.method,
                scope,
                path: address.path.clone(),
                query: request.query,
                headers: request.headers,
                body,
            })
            .await
    }

    fn to_http(&self, mut answer: ApiResponse, coding: Coding) -> Response<Body> {
        let body = match answer.body {
            ApiBody::Full(bytes) if coding.packs(bytes.len()) => {
                say_packed(&mut answer.headers);
                streamed(gzip::pack(gzip::cut(bytes)))
            }
            ApiBody::Full(bytes) => Full::new(bytes).boxed_unsync(),
            ApiBody::Pieces(pieces) if coding.packs(pieces.left()) => {
                say_packed(&mut answer.headers);
                streamed(gzip::pack(pieces))
            }
            ApiBody::Pieces(pieces) => pieces.boxed_unsync(),
            ApiBody::Stream(events) => streamed(until(events, self.stop.clone().cancelled_owned())),
        };
        let mut response = Response::new(body);
        *response.status_mut() =
            StatusCode::from_u16(answer.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        *response.headers_mut() = answer.headers;
        let headers = response.headers_mut();
        for (name, usual) in [
            (CONTENT_TYPE, "application/json"),
            (CACHE_CONTROL, "no-cache, private"),
        ] {
            headers
                .entry(name)
                .or_insert(HeaderValue::from_static(usual));
        }
        response
    }
}

/// A stream that ends on a signal while it has no data. The signal is polled only then, because all watches share it.
fn until(
    mut events: BoxStream<'static, Bytes>,
    end: impl Future<Output = ()> + Send + 'static,
) -> impl Stream<Item = Bytes> + Send {
    let mut end = Box::pin(end);
    stream::poll_fn(move |cx| match events.poll_next_unpin(cx) {
        Poll::Pending => end.as_mut().poll(cx).map(|()| None),
        told @ Poll::Ready(_) => told,
    })
    .fuse()
}

fn say_packed(headers: &mut HeaderMap) {
    headers.insert(CONTENT_ENCODING, HeaderValue::from_static("gzip"));
    headers.append(VARY, HeaderValue::from_static("Accept-Encoding"));
}

fn streamed(texts: impl Stream<Item = Bytes> + Send + 'static) -> Body {
    StreamBody::new(texts.map(|bytes| Ok::<_, Infallible>(Frame::data(bytes)))).boxed_unsync()
}

fn text(headers: &HeaderMap, name: &http::HeaderName) -> String {
    headers
        .get(name)
        .map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned())
        .unwrap_or_default()
}

fn on_stream(
    response: ApiResponse,
    change: impl FnOnce(BoxStream<'static, Bytes>) -> BoxStream<'static, Bytes>,
) -> ApiResponse {
    ApiResponse {
        body: match response.body {
            ApiBody::Stream(events) => ApiBody::Stream(change(events)),
            whole @ (ApiBody::Full(_) | ApiBody::Pieces(_)) => whole,
        },
        ..response
    }
}

/// A document after a mutation; a document that is not JSON stays as it is.
fn mutated(body: Bytes, mutation: Option<&Value>) -> Bytes {
    let Some(mutation) = mutation else {
        return body;
    };
    let Ok(mut document) = serde_json::from_slice(&body) else {
        return body;
    };
    merge_patch::apply(&mut document, mutation);
    document.to_string().into()
}

fn injected(code: u16) -> Status {
    let message = "this answer was asked for by a fault";
    match code {
        409 => Status::new(409, "Conflict", message),
        410 => Status::expired(message),
        429 => Status::too_many_requests(message, 1),
        500 => Status::internal(message),
        503 => Status::new(503, "ServiceUnavailable", message),
        504 => Status::new(504, "Timeout", message),
        other => Status::new(other, "", message),
    }
}

/// The query of a list, changed to ask for the state of some revisions ago. The next page of a paginated list is not
/// changed: its first page has determined the state.
fn stale_query(query: Option<&str>, revision: u64) -> String {
    let pairs = || form_urlencoded::parse(query.unwrap_or_default().as_bytes());
    if pairs().any(|(key, value)| key == "continue" && !value.is_empty()) {
        return query.unwrap_or_default().to_owned();
    }
    let mut stale = form_urlencoded::Serializer::new(String::new());
    for (key, value) in pairs() {
        if key != "resourceVersion" && key != "resourceVersionMatch" {
            stale.append_pair(&key, &value);
        }
    }
    stale.append_pair("resourceVersion", &revision.max(1).to_string());
    stale.append_pair("resourceVersionMatch", "Exact");
    stale.finish()
}

#[cfg(test)]
mod tests;
