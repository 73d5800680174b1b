//! Small HTTP servers for operators: metrics, probes and pages.
//!
//! Knows addresses in Go's syntax, pages and their limits. [`MetricsPage`] and [`Health`] provide the content of the pages.

use std::convert::Infallible;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::FutureExt as _;
use futures::future::BoxFuture;
use http::header::{CONTENT_TYPE, HOST};
use http::{HeaderValue, Method, Request, Response, StatusCode};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;
use tracing::info;

mod health;
mod tls;

pub use health::Health;
pub use tls::{HttpsEndpoint, TlsProblem, server_config};

use super::metrics;

/// The time limit for the headers of a request.
const HEADERS: Duration = Duration::from_secs(10);
/// The time limit of a connection.
const LONGEST: Duration = Duration::from_mins(2);
/// The number of concurrent connections; others wait.
const CLIENTS: usize = 64;
/// The pause after a failed accept.
const PAUSE: Duration = Duration::from_millis(50);

/// The content of a server.
#[derive(Clone)]
pub enum Pages {
    /// `/healthz` and `/readyz`.
    Probes(Arc<Health>),
    /// Pages of a dialect.
    Site(Arc<dyn Site>),
    /// Pages that name objects. At a loopback address they are only for clients that ask for one, so that a name that
    /// leads a browser here by mistake or on purpose gets nothing.
    Private(Arc<dyn Site>),
}

/// Pages that are rendered on request, within the time limit of a connection.
pub trait Site: Send + Sync {
    /// Status, content type and text of the page at a path, if there is one.
    fn page<'a>(&'a self, path: &'a str) -> BoxFuture<'a, Option<SitePage>>;
}

/// Status, content type and text.
pub type SitePage = (StatusCode, &'static str, String);

/// The page `/metrics`, with a text that is rendered on request.
pub struct MetricsPage<F>(pub F);

impl<F: Fn() -> String + Send + Sync> Site for MetricsPage<F> {
    fn page<'a>(&'a self, path: &'a str) -> BoxFuture<'a, Option<SitePage>> {
        let found =
            (path == "/metrics").then(|| (StatusCode::OK, metrics::CONTENT_TYPE, (self.0)()));
        std::future::ready(found).boxed()
    }
}

/// Serves pages at the addresses of their flags until stopped, or until the handles are dropped. Pages without an
/// address are not served.
pub async fn serve_at(
    wanted: [(&'static str, &Option<String>, Pages); 2],
    stop: &CancellationToken,
) -> Result<Vec<AbortOnDropHandle<()>>, ServeError> {
    let mut served = Vec::new();
    for (flag, address, pages) in wanted {
        if let Some(address) = address {
            let bound = bind(flag, address).await?;
            info!(address = %bound.address(), "serving pages of {flag}");
            let serving = bound.serve(pages, stop.clone());
            served.push(AbortOnDropHandle::new(tokio::spawn(serving)));
        }
    }
    Ok(served)
}

/// A listening socket that is not served yet.
#[derive(Debug)]
pub struct Bound {
    listener: TcpListener,
    address: SocketAddr,
}

#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    #[error("{flag}={address:?} is not an address: use host:port, or :port for all interfaces")]
    Address { flag: &'static str, address: String },
    #[error("{flag}: cannot listen on {address:?}")]
    Listen {
        flag: &'static str,
        address: String,
        source: io::Error,
    },
}

struct TextResponse {
    status: StatusCode,
    content_type: &'static str,
    text: String,
}

/// Listens on the address of a flag.
pub async fn bind(flag: &'static str, address: &str) -> Result<Bound, ServeError> {
    let places = match address.rsplit_once(':') {
        // Both families where there are both.
        Some(("", port)) if is_port(port) => {
            vec![format!("[::]:{port}"), format!("0.0.0.0:{port}")]
        }
        Some((_, port)) if is_port(port) => vec![address.to_owned()],
        _ => {
            return Err(ServeError::Address {
                flag,
                address: address.to_owned(),
            });
        }
    };
    let failed = |source| ServeError::Listen {
        flag,
        address: address.to_owned(),
        source,
    };
    let mut problem = io::Error::from(io::ErrorKind::AddrNotAvailable);
    for place in places {
        match TcpListener::bind(&place).await {
            Ok(listener) => {
                let address = listener.local_addr().map_err(failed)?;
                return Ok(Bound { listener, address });
            }
            // The other family would hide that somebody else is here.
            Err(error) if error.kind() == io::ErrorKind::AddrInUse => return Err(failed(error)),
            Err(error) => problem = error,
        }
    }
    Err(failed(problem))
}

fn is_port(text: &str) -> bool {
    text.parse::<u16>().is_ok()
}

// === impl Bound ===

impl Bound {
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Serves the pages until the token is cancelled.
    pub async fn serve(self, pages: Pages, stop: CancellationToken) {
        let is_loopback = self.address.ip().is_loopback();
        self.each(stop, |stream| {
            serve_connection(stream, pages.clone(), is_loopback)
        })
        .await;
    }

    /// Has a conversation with each client until the token is cancelled.
    async fn each<F>(self, stop: CancellationToken, serve_connection: impl Fn(TcpStream) -> F)
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let free = Arc::new(Semaphore::new(CLIENTS));
        let mut clients = JoinSet::new();
        loop {
            let accepted = tokio::select! {
                () = stop.cancelled() => break,
                Some(_) = clients.join_next(), if !clients.is_empty() => continue,
                accepted = accept(&self.listener, &free) => accepted,
            };
            match accepted {
                Ok((stream, place)) => {
                    let conversation = serve_connection(stream);
                    clients.spawn(async move {
                        let _place = place;
                        // Who takes longer is cut off; whoever measures comes again.
                        let _ = tokio::time::timeout(LONGEST, conversation).await;
                    });
                }
                Err(error) => {
                    tracing::warn!(%error, "cannot accept a connection");
                    tokio::time::sleep(PAUSE).await;
                }
            }
        }
        // Nobody waits for probes once the process ends.
        clients.shutdown().await;
    }
}

type ConnectionPermit = tokio::sync::OwnedSemaphorePermit;

async fn accept(
    listener: &TcpListener,
    free: &Arc<Semaphore>,
) -> io::Result<(TcpStream, ConnectionPermit)> {
    // The semaphore is never closed.
    let place = Arc::clone(free)
        .acquire_owned()
        .await
        .map_err(io::Error::other)?;
    let (stream, _) = listener.accept().await?;
    Ok((stream, place))
}

async fn serve_connection(stream: TcpStream, pages: Pages, is_loopback: bool) {
    let service = service_fn(|request: Request<Incoming>| {
        let pages = pages.clone();
        async move {
            let is_foreign = is_loopback
                && matches!(pages, Pages::Private(_))
                && !names_loopback(request.headers().get(HOST));
            if is_foreign {
                let page = TextResponse::plain(StatusCode::FORBIDDEN, "ask for localhost\n");
                return Ok::<_, Infallible>(page.into_response());
            }
            Ok(answer(&pages, &request).await)
        }
    });
    let ended = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEADERS)
        .serve_connection(TokioIo::new(stream), service)
        .await;
    if let Err(error) = ended {
        tracing::debug!(%error, "a client disconnected early");
    }
}

async fn answer(pages: &Pages, request: &Request<Incoming>) -> Response<Full<Bytes>> {
    let page = if matches!(*request.method(), Method::GET | Method::HEAD) {
        pages.page(request.uri().path()).await
    } else {
        TextResponse::plain(StatusCode::METHOD_NOT_ALLOWED, "only GET is allowed\n")
    };
    page.into_response()
}

/// Whether a `Host` header names this machine only.
fn names_loopback(host: Option<&HeaderValue>) -> bool {
    let host = host.and_then(|host| host.to_str().ok()).unwrap_or_default();
    let name = match host.rsplit_once(':') {
        Some((name, port)) if is_port(port) => name,
        _ => host,
    };
    let address = name.trim_start_matches('[').trim_end_matches(']');
    let is_loopback = |address: IpAddr| address.is_loopback();
    name.eq_ignore_ascii_case("localhost") || address.parse().is_ok_and(is_loopback)
}

// === impl Pages ===

impl Pages {
    async fn page(&self, path: &str) -> TextResponse {
        let path = path.trim_end_matches('/');
        match (self, path) {
            (Self::Site(site) | Self::Private(site), path) => match site.page(path).await {
                Some((status, content_type, text)) => TextResponse {
                    status,
                    content_type,
                    text,
                },
                None => TextResponse::plain(StatusCode::NOT_FOUND, "page not found\n"),
            },
            (Self::Probes(health), "/healthz") => {
                TextResponse::check(health.not_alive().into_iter())
            }
            (Self::Probes(health), "/readyz") => {
                TextResponse::check(health.not_ready().into_iter())
            }
            _ => TextResponse::plain(StatusCode::NOT_FOUND, "page not found\n"),
        }
    }
}

// === impl Page ===

impl TextResponse {
    fn plain(status: StatusCode, text: &str) -> Self {
        Self {
            status,
            content_type: "text/plain; charset=utf-8",
            text: text.to_owned(),
        }
    }

    fn into_response(self) -> Response<Full<Bytes>> {
        let mut response = Response::new(Full::from(self.text));
        *response.status_mut() = self.status;
        let content_type = HeaderValue::from_static(self.content_type);
        response.headers_mut().insert(CONTENT_TYPE, content_type);
        response
    }

    /// Status 200 if there is no complaint.
    fn check(problems: impl Iterator<Item = String>) -> Self {
        let text: String = problems.map(|problem| problem + "\n").collect();
        if text.is_empty() {
            Self::plain(StatusCode::OK, "ok\n")
        } else {
            Self::plain(StatusCode::SERVICE_UNAVAILABLE, &text)
        }
    }
}

#[cfg(test)]
mod tests;
