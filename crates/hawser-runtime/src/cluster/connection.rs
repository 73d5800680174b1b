//! Access to a control plane: a server, a base path, credentials, and a lane.
//!
//! Every HTTP response is a [`Reply`], whatever its status; the caller interprets it. Calls are bounded in number and
//! in time. Nothing is retried here.

use std::fmt;
use std::future::Future;
use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::header::{ACCEPT, CONTENT_TYPE, RETRY_AFTER, USER_AGENT};
use http::{Method, Request, Response, Uri};
use http_body_util::BodyExt as _;
use kube::client::Body;
use parking_lot::RwLock;
use serde_json::{Value, json};
use tokio::time::{Instant, timeout_at};

mod lane;
mod page;
mod refusal;
mod servers;
mod stream;
mod trust;

use crate::errors::chain;
use lane::Lane;
pub use page::{Page, PageEnd};
pub use refusal::{Refusal, StatusCause};
use servers::Account;
pub use servers::ConnectError;
pub use stream::Streamed;
pub use trust::Unchecked;

/// The time limit for opening a connection.
pub const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// The time limit of a call, from sending it to the last byte of its response.
pub const REQUEST_TIMEOUT: Duration = Duration::from_secs(30);
/// The largest response that is read in one piece. Lists are read item by item.
const LARGEST_ANSWER: usize = 64 << 20;
/// The number of bytes that are read of a refusal: a webhook of a workspace may write it.
const LARGEST_REFUSAL: usize = 1 << 20;

/// Observes every call.
pub trait Observer: Send + Sync {
    /// `code` is `None` if there was no response.
    fn answered(&self, call: &Method, code: Option<u16>);
    /// The duration of a call until its response, and the number of bytes sent.
    fn measured(&self, _call: &Method, _code: Option<u16>, _took: Duration, _sent: usize) {}
}

/// Decides whether a call may be sent now; otherwise says why not.
pub type Guard<'g> = dyn Fn() -> Result<(), String> + Send + Sync + 'g;

/// The limits of a connection.
#[derive(Clone)]
pub struct Limits {
    /// Concurrent calls to one server; leases and watches are not counted.
    pub in_flight: usize,
    /// Calls a second to one server; watches are counted, leases are not. `None` is unlimited.
    pub per_second: Option<NonZeroU32>,
    pub observer: Option<Arc<dyn Observer>>,
    /// Asked right before each write is sent, except for writes of leases.
    pub guard: Option<Arc<Guard<'static>>>,
    /// The `User-Agent` header.
    pub agent: &'static str,
    /// Checks of the server's certificate that are skipped.
    pub unchecked: Unchecked,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            in_flight: 64,
            per_second: None,
            observer: None,
            guard: None,
            agent: AGENT,
            unchecked: Unchecked::default(),
        }
    }
}

/// A server and a base path. Cheap to clone. Connections that are derived from one share its credentials; those to the
/// same server also share its sockets and its lane.
#[derive(Clone)]
pub struct Connection {
    account: Arc<Account>,
    server: Arc<Server>,
    /// Without a trailing slash.
    base: Arc<str>,
    /// The tenant on whose behalf calls are sent, if any.
    tenant: Option<Arc<str>>,
}

/// One origin, as one account reaches it.
struct Server {
    client: RwLock<kube::Client>,
    lane: Lane,
}

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

/// The default `User-Agent`.
const AGENT: &str = concat!("hawser/", env!("CARGO_PKG_VERSION"));

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
}

impl Reply {
    pub fn is_success(&self) -> bool {
        (200..300).contains(&self.status)
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
    fn is_status(&self) -> bool {
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
pub enum AskError {
    #[error(transparent)]
    Call(#[from] CallError),
    #[error(transparent)]
    Refused(#[from] Refusal),
}

impl AskError {
    /// The status of the response, if there was one.
    pub fn code(&self) -> Option<u16> {
        match self {
            Self::Refused(refusal) => Some(refusal.code),
            Self::Call(_) => None,
        }
    }
}

impl Connection {
    /// Connects to the server and path of a configuration.
    pub fn new(config: kube::Config, limits: Limits) -> Result<Self, ConnectError> {
        let account = Arc::new(Account::new(config, limits));
        let url = account.url();
        Self::within(account, &url)
    }

    fn within(account: Arc<Account>, url: &str) -> Result<Self, ConnectError> {
        let (server, base) = account.server(url)?;
        Ok(Self {
            account,
            server,
            base: base.into(),
            tenant: None,
        })
    }

    /// A second connection to the same place with the current credentials, but with separate sockets and a separate
    /// lane.
    pub fn another(&self) -> Result<Self, ConnectError> {
        Self::within(Arc::new(self.account.another()), &self.url())
    }

    /// Replaces the credentials of this connection and of everything derived from it. Servers and paths stay.
    pub fn renew(&self, config: kube::Config) -> Result<(), ConnectError> {
        self.account.renew(config)
    }

    /// The URL, without a trailing slash.
    pub fn url(&self) -> String {
        format!("{}{}", self.server.lane.origin(), self.base)
    }

    /// The same server with a longer base path.
    #[must_use]
    pub fn below(&self, path: &str) -> Self {
        let path = path.trim_matches('/');
        Self {
            base: format!("{}/{path}", self.base).into(),
            ..self.clone()
        }
    }

    /// Another address with the same credentials.
    pub fn at(&self, url: &str) -> Result<Self, ConnectError> {
        Self::within(Arc::clone(&self.account), url)
    }

    /// The same connection on behalf of a tenant. The tenant has a share of the concurrent calls, and its pauses do not
    /// affect others.
    #[must_use]
    pub fn of(&self, tenant: &Arc<str>) -> Self {
        Self {
            tenant: Some(Arc::clone(tenant)),
            ..self.clone()
        }
    }

    /// Sends a call and reads the whole response.
    pub async fn call(&self, call: Call) -> Result<Reply, CallError> {
        self.call_if(&|| Ok(()), call).await
    }

    /// Sends a call unless the guard refuses it when its turn has come.
    pub(crate) async fn call_if(&self, guard: &Guard<'_>, call: Call) -> Result<Reply, CallError> {
        let (tenant, class) = (&self.tenant, call.class);
        let mut turn = self.server.lane.turn(tenant, class).await?;
        guard().map_err(CallError::Withheld)?;
        if let Some(guard) = &self.account.limits.guard
            && call.method != Method::GET
            && !matches!(class, CallClass::Lease | CallClass::DryRun)
        {
            guard().map_err(CallError::Withheld)?;
        }
        let begun = Instant::now();
        let (method, sent) = (call.method.clone(), call.body.len());
        let exchange = async { whole(self.send(call).await?).await };
        let answered = tokio::select! {
            answered = within(begun + REQUEST_TIMEOUT, REQUEST_TIMEOUT, exchange) => answered,
            // As after a timeout, it is unknown whether the call took effect.
            () = turn.given_up() => Err(CallError::Timeout(begun.elapsed())),
        };
        let code = answered.as_ref().ok().map(|reply| reply.status);
        self.observe(&method, code, begun, sent);
        if let Ok(reply) = &answered {
            self.server.lane.answered(tenant, class, reply);
        }
        answered
    }

    /// Sends a call and reads the document in the response.
    pub async fn ask(&self, call: Call) -> Result<Value, AskError> {
        Ok(self.call(call).await?.ok()?)
    }

    /// Requests a list, whose items are read as they arrive. The whole response may take any time, but no single read
    /// may take longer than `patience`.
    pub async fn page(&self, call: Call, patience: Duration) -> Result<Page, AskError> {
        let (tenant, class) = (&self.tenant, call.class);
        let lane = &self.server.lane;
        let resource = call.path.split('?').next().unwrap_or_default();
        let list = tenant.is_none().then(|| format!("{}{resource}", self.base));
        if let Some(list) = &list {
            lane.list_is_free(list)?;
        }
        let turn = lane.turn(tenant, class).await?;
        let begun = Instant::now();
        let answered = within(begun + patience, patience, self.send(call)).await;
        let code = answered.as_ref().ok().map(|r| r.status().as_u16());
        self.observe(&Method::GET, code, begun, 0);
        let response = answered?;
        if response.status().is_success() {
            // What is left is the network's work, not the server's.
            drop(turn);
            return Ok(Page::new(response, patience));
        }
        let reply = within(begun + REQUEST_TIMEOUT, REQUEST_TIMEOUT, whole(response)).await?;
        match &list {
            Some(list) => lane.listed(list, class, &reply),
            None => lane.answered(tenant, class, &reply),
        }
        Err(reply.refusal().into())
    }

    /// Opens a watch. The reader has to notice when the watch falls silent.
    pub async fn stream(&self, call: Call) -> Result<Streamed, CallError> {
        self.server.lane.paced().await;
        let begun = Instant::now();
        let answered = within(begun + REQUEST_TIMEOUT, REQUEST_TIMEOUT, self.send(call)).await;
        let code = answered.as_ref().ok().map(|r| r.status().as_u16());
        self.observe(&Method::GET, code, begun, 0);
        Ok(Streamed::new(answered?))
    }

    fn observe(&self, call: &Method, code: Option<u16>, begun: Instant, sent: usize) {
        if let Some(observer) = &self.account.limits.observer {
            observer.answered(call, code);
            observer.measured(call, code, begun.elapsed(), sent);
        }
    }

    async fn send(&self, call: Call) -> Result<Response<Body>, CallError> {
        let mut path = format!("{}{}", self.base, call.path);
        if call.class == CallClass::DryRun && call.method != Method::GET {
            let begins = if call.path.contains('?') { '&' } else { '?' };
            path.extend([begins]);
            path.push_str("dryRun=All");
        }
        let mut body = call.body;
        if call.class == CallClass::DryRun && call.method == Method::DELETE && !body.is_empty() {
            // A server that gets options in the body reads none in the query.
            body = dry_deletion(&body)?;
        }
        let uri: Uri = path.parse().map_err(|_| CallError::Address(path))?;
        let mut request = Request::builder()
            .method(call.method)
            .uri(uri)
            .header(ACCEPT, call.accept)
            .header(USER_AGENT, self.account.limits.agent);
        if !body.is_empty() {
            request = request.header(CONTENT_TYPE, call.content_type);
        }
        let request = request
            .body(Body::from(body))
            .map_err(|error| CallError::Address(error.to_string()))?;
        let client = self.server.client.read().clone();
        let answered = client.send(request).await;
        answered.map_err(|error| CallError::Unreachable(chain(&error)))
    }
}

impl fmt::Debug for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Connection").field(&self.url()).finish()
    }
}

/// A document as bytes. Twice as fast as `Display`, which checks every piece.
fn bytes(document: &Value) -> Bytes {
    let text = serde_json::to_vec(document);
    text.expect("a JSON value has no keys but strings").into()
}

/// The options of a deletion that is only tried.
fn dry_deletion(options: &[u8]) -> Result<Bytes, CallError> {
    let unread = |why: String| {
        CallError::Withheld(format!("the deletion cannot be tried as a dry run: {why}"))
    };
    let mut options: Value =
        serde_json::from_slice(options).map_err(|error| unread(error.to_string()))?;
    let fields = options.as_object_mut();
    let fields = fields.ok_or_else(|| unread("its options are not an object".to_owned()))?;
    fields.insert("dryRun".to_owned(), json!(["All"]));
    Ok(bytes(&options))
}

/// Reads a response to its last byte, and no more of a refusal than can be of use.
async fn whole(response: Response<Body>) -> Result<Reply, CallError> {
    let status = response.status();
    let retry_after = retry_after(&response);
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
    })
}

/// Adds the beginning of a refusal to a text.
async fn read_refusal(body: &mut Body, text: &mut BytesMut) -> Result<(), CallError> {
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

async fn within<T>(
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

#[cfg(test)]
mod tests;
