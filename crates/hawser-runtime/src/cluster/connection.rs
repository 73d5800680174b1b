//! Access to a control plane: a server, a base path, credentials, and a lane.
//!
//! Every HTTP response is a [`Reply`], whatever its status; the caller interprets it. Calls are bounded in number and
//! in time. Nothing is retried here.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::{ACCEPT, CONTENT_TYPE, USER_AGENT};
use http::{Method, Request, Response, Uri};
use kube::client::Body;
use serde_json::{Value, json};
use tokio::time::Instant;

mod call;
mod departure;
mod lane;
mod limits;
mod page;
mod refusal;
mod servers;
mod stream;
mod trust;

use super::trace;
use crate::errors::chain;
pub use call::{Call, CallClass, CallError, REQUEST_TIMEOUT, Reply, RequestError};
use call::{bytes, whole, within};
use departure::Departure;
pub use limits::{FIELD_MANAGER, Guard, Limits, Observer, WriteGuard};
pub use page::{Page, PageEnd};
pub use refusal::{Refusal, StatusCause};
use servers::{Account, Server};
pub use servers::{ConnectError, host, without_user};
pub use stream::Streamed;
pub use trust::{CONNECT_TIMEOUT, SkippedTlsChecks};

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
    /// Asked right before each call is sent, if there is one, and once more when a write is put on the wire.
    guard: Option<Arc<Guard<'static>>>,
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
            guard: None,
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

    /// The same connection for calls that may no longer be wanted when their turn comes: the guard is asked right
    /// before each call is sent. Lists and watches are not calls.
    #[must_use]
    pub fn guarded_by(&self, guard: Arc<Guard<'static>>) -> Self {
        Self {
            guard: Some(guard),
            ..self.clone()
        }
    }

    /// Waits until the server has had no calls of this process for a moment, or until the deadline.
    pub async fn quiet(&self, deadline: Instant) {
        self.server.lane.quiet(deadline).await;
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
        let departure = self.departure(&call);
        departure.ask().map_err(CallError::Withheld)?;
        let begun = Instant::now();
        let (method, sent) = (call.method.clone(), call.body.len());
        let exchange = async { whole(self.send(call, Some(&departure)).await?).await };
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
        answered.map_err(|error| match departure.refusal() {
            Some(why) => CallError::Withheld(why.clone()),
            None => error,
        })
    }

    /// What the guards of this connection say about a call.
    fn departure(&self, call: &Call) -> Departure {
        let (own, tenant) = (self.guard.clone(), self.tenant.clone());
        let is_guarded = call.method != Method::GET
            && !matches!(call.class, CallClass::Lease | CallClass::DryRun);
        let of_writes = self.account.limits.guard.clone().filter(|_| is_guarded);
        Departure::new(move || {
            own.as_ref().map_or(Ok(()), |guard| guard())?;
            of_writes
                .as_ref()
                .map_or(Ok(()), |guard| guard(tenant.as_deref()))
        })
    }

    /// Sends a call and reads the document in the response.
    pub async fn ask(&self, call: Call) -> Result<Value, RequestError> {
        Ok(self.call(call).await?.ok()?)
    }

    /// Requests a list, whose items are read as they arrive. The whole response may take any time, but no single read
    /// may take longer than `patience`.
    pub async fn page(&self, call: Call, patience: Duration) -> Result<Page, RequestError> {
        let (tenant, class) = (&self.tenant, call.class);
        let lane = &self.server.lane;
        let resource = call.path.split('?').next().unwrap_or_default();
        let list = tenant.is_none().then(|| format!("{}{resource}", self.base));
        if let Some(list) = &list {
            lane.list_is_free(list)?;
        }
        let turn = lane.turn(tenant, class).await?;
        let begun = Instant::now();
        let answered = within(begun + patience, patience, self.send(call, None)).await;
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
        let answered = within(
            begun + REQUEST_TIMEOUT,
            REQUEST_TIMEOUT,
            self.send(call, None),
        )
        .await;
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

    async fn send(
        &self,
        call: Call,
        departure: Option<&Departure>,
    ) -> Result<Response<Body>, CallError> {
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
        if self.account.limits.traces
            && let Some(context) = trace::current().and_then(|context| context.header())
        {
            request = request.header(trace::TRACEPARENT, context);
        }
        if let Some(departure) = departure {
            request = request.extension(departure.clone());
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

#[cfg(test)]
mod tests;
