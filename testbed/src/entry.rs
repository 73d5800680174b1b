//! The way into a cluster from outside: a proxy with TLS below a path, as one user of the cluster for
//! everybody who comes. It records every request, and answers some of them itself where it was told to.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;

use anyhow::{Context as _, Result};
use bytes::Bytes;
use futures::StreamExt as _;
use http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, USER_AGENT};
use http::{Method, Request, Response, StatusCode};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt as _, Full, StreamBody};
use hyper::body::{Frame, Incoming};
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use kube::client::Body;
use parking_lot::Mutex;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::pki_types::pem::PemObject as _;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::{self, ServerConfig};
use tokio_util::task::AbortOnDropHandle;

use crate::access::Access;
use crate::cluster::ServiceCluster;
use crate::link::Link;

/// A request as it arrived.
#[derive(Debug, Clone)]
pub struct Recorded {
    pub method: Method,
    /// Below the prefix; as it arrived where it was not there.
    pub path: String,
    /// As it arrived, encoded.
    pub query: String,
    pub headers: BTreeMap<String, String>,
    pub body: Bytes,
    /// The status of the answer; none where there was none yet.
    pub code: Option<u16>,
}

/// What becomes of a request that a fault is meant for.
#[derive(Debug, Clone)]
pub enum What {
    /// It is answered here, and never gets to the cluster.
    Answer(u16, String),
    /// Likewise, by these lines one after the other; then nothing more is said.
    Lines(Vec<String>),
    /// It is not answered.
    Nothing,
    /// The cluster does it; its answer is lost, and this status comes in its place.
    Lost(u16),
}

/// Which requests a fault is meant for.
pub type Meant = Box<dyn Fn(&Recorded) -> bool + Send + Sync>;

type Answer = UnsyncBoxBody<Bytes, kube::Error>;

struct Fault {
    meant: Meant,
    what: What,
    times: Option<usize>,
}

/// See the module.
pub struct Entry {
    link: Link,
    authority: String,
    prefix: String,
    inner: Arc<Inner>,
    _serving: AbortOnDropHandle<()>,
}

struct Inner {
    prefix: String,
    cluster: kube::Client,
    tokens: Mutex<Option<Vec<String>>>,
    record: Mutex<Vec<Recorded>>,
    faults: Mutex<Vec<Fault>>,
}

impl Entry {
    /// Before a cluster, where all that come are one user.
    pub async fn start(cluster: &ServiceCluster, user: &Access, prefix: &str) -> Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let inner = Arc::new(Inner {
            prefix: prefix.to_owned(),
            cluster: user.client()?,
            tokens: Mutex::default(),
            record: Mutex::default(),
            faults: Mutex::default(),
        });
        let link = Link::start(listener.local_addr()?).await?;
        let tls = TlsAcceptor::from(Arc::new(server(cluster)?));
        let serving = tokio::spawn(Arc::clone(&inner).serve(listener, tls));
        Ok(Self {
            link,
            authority: cluster.certificate_authority(),
            prefix: prefix.to_owned(),
            inner,
            _serving: AbortOnDropHandle::new(serving),
        })
    }

    /// Host and port.
    pub fn address(&self) -> SocketAddr {
        self.link.address()
    }

    /// The path below which the cluster is.
    pub fn prefix(&self) -> &str {
        &self.prefix
    }

    /// The certificate authority, PEM.
    pub fn certificate_authority(&self) -> &str {
        &self.authority
    }

    /// The link by which everybody comes.
    pub fn link(&self) -> &Link {
        &self.link
    }

    /// From now on only these bearer tokens are taken.
    pub fn take_tokens(&self, tokens: &[&str]) {
        let tokens = tokens.iter().map(|token| format!("Bearer {token}"));
        *self.inner.tokens.lock() = Some(tokens.collect());
    }

    /// Everything that arrived, in its order.
    pub fn record(&self) -> Vec<Recorded> {
        self.inner.record.lock().clone()
    }

    /// What arrived after so many.
    pub fn since(&self, mark: usize) -> Vec<Recorded> {
        self.inner.record.lock()[mark..].to_vec()
    }

    /// How many have arrived.
    pub fn mark(&self) -> usize {
        self.inner.record.lock().len()
    }

    /// Does something else with requests, so many times or until it is told otherwise.
    pub fn fault(
        &self,
        what: What,
        times: Option<usize>,
        meant: impl Fn(&Recorded) -> bool + Send + Sync + 'static,
    ) {
        let meant = Box::new(meant);
        self.inner.faults.lock().push(Fault { meant, what, times });
    }

    pub fn clear_faults(&self) {
        self.inner.faults.lock().clear();
    }
}

fn server(cluster: &ServiceCluster) -> Result<ServerConfig> {
    let own = cluster.serving()?;
    let chain = CertificateDer::from_pem_slice(own.certificate.as_bytes())?;
    let key = PrivateKeyDer::from_pem_slice(own.key.as_bytes())?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_no_client_auth()
        .with_single_cert(vec![chain], key)
        .context("serving with a certificate of the cluster's")
}

impl Inner {
    async fn serve(self: Arc<Self>, listener: TcpListener, tls: TlsAcceptor) {
        let mut open = JoinSet::new();
        while let Ok((stream, _)) = listener.accept().await {
            while open.try_join_next().is_some() {}
            open.spawn(Arc::clone(&self).connection(tls.clone(), stream));
        }
    }

    async fn connection(self: Arc<Self>, tls: TlsAcceptor, stream: TcpStream) {
        let Ok(stream) = tls.accept(stream).await else {
            return;
        };
        let service = service_fn(|request| {
            let inner = Arc::clone(&self);
            async move { Ok::<_, Infallible>(inner.answer(request).await) }
        });
        let http = hyper::server::conn::http1::Builder::new();
        // Clients come and go.
        let _ = http.serve_connection(TokioIo::new(stream), service).await;
    }

    async fn answer(&self, request: Request<Incoming>) -> Response<Answer> {
        let (parts, body) = request.into_parts();
        let Ok(body) = body.collect().await else {
            return own(StatusCode::BAD_REQUEST, "the request broke off");
        };
        let below = parts.uri.path().strip_prefix(&self.prefix);
        let known = parts.headers.iter().map(|(name, value)| {
            let value = String::from_utf8_lossy(value.as_bytes()).into_owned();
            (name.to_string(), value)
        });
        let recorded = Recorded {
            method: parts.method,
            path: below.unwrap_or(parts.uri.path()).to_owned(),
            query: parts.uri.query().unwrap_or_default().to_owned(),
            headers: known.collect(),
            body: body.to_bytes(),
            code: None,
        };
        let index = {
            let mut record = self.record.lock();
            record.push(recorded.clone());
            record.len() - 1
        };
        let response = if below.is_none() {
            own(StatusCode::NOT_FOUND, "not below the prefix")
        } else if !self.knows(&recorded) {
            own(StatusCode::UNAUTHORIZED, "No valid credentials provided")
        } else {
            self.faulty(&recorded).await
        };
        self.record.lock()[index].code = Some(response.status().as_u16());
        response
    }

    fn knows(&self, request: &Recorded) -> bool {
        let token = request.headers.get(AUTHORIZATION.as_str());
        let tokens = self.tokens.lock();
        let known = tokens.as_ref();
        known.is_none_or(|known| token.is_some_and(|token| known.contains(token)))
    }

    fn fault(&self, request: &Recorded) -> Option<What> {
        let mut faults = self.faults.lock();
        let found = faults
            .iter_mut()
            .find(|fault| fault.times.is_none_or(|times| times > 0) && (fault.meant)(request))?;
        found.times = found.times.map(|times| times - 1);
        Some(found.what.clone())
    }

    async fn faulty(&self, request: &Recorded) -> Response<Answer> {
        match self.fault(request) {
            None => self.pass(request).await,
            Some(What::Answer(code, said)) => own(status(code), &said),
            Some(What::Lines(lines)) => said(lines),
            Some(What::Nothing) => std::future::pending().await,
            Some(What::Lost(code)) => {
                self.pass(request).await;
                own(status(code), "the answer was lost")
            }
        }
    }

    async fn pass(&self, request: &Recorded) -> Response<Answer> {
        let uri = match &*request.query {
            "" => request.path.clone(),
            query => format!("{}?{query}", request.path),
        };
        let mut onwards = Request::builder().method(request.method.clone()).uri(uri);
        for name in [USER_AGENT, ACCEPT, CONTENT_TYPE] {
            if let Some(value) = request.headers.get(name.as_str()) {
                onwards = onwards.header(name, value);
            }
        }
        let Ok(request) = onwards.body(Body::from(request.body.to_vec())) else {
            return own(StatusCode::BAD_REQUEST, "no request");
        };
        match self.cluster.send(request).await {
            Ok(answered) => answered.map(http_body_util::BodyExt::boxed_unsync),
            Err(error) => own(StatusCode::BAD_GATEWAY, &error.to_string()),
        }
    }
}

fn status(code: u16) -> StatusCode {
    StatusCode::from_u16(code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR)
}

fn own(status: StatusCode, said: &str) -> Response<Answer> {
    let body = Full::new(Bytes::from(said.to_owned()));
    let mut response = Response::new(body.map_err(|never| match never {}).boxed_unsync());
    *response.status_mut() = status;
    response
}

/// Lines that are said at once, and an answer that does not end.
fn said(lines: Vec<String>) -> Response<Answer> {
    let lines = lines.into_iter().map(|line| Bytes::from(line + "\n"));
    let frames = lines.map(|line| Ok(Frame::data(line)));
    let frames = futures::stream::iter(frames).chain(futures::stream::pending());
    Response::new(StreamBody::new(frames).boxed_unsync())
}
