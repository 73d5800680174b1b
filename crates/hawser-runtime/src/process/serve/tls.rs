//! HTTPS for API servers that call this process: they post a small document and get a small document.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::future::BoxFuture;
use http::header::CONTENT_TYPE;
use http::{HeaderValue, Method, Request, Response, StatusCode};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::{Error as PemError, PemObject as _};
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::{Error as TlsError, ServerConfig};
use tokio_util::sync::CancellationToken;

use super::{Bound, HEADERS};

/// The largest document that is read: an object and its former state, of 1.5 MiB each.
const LARGEST: usize = 4 << 20;
/// The time limit of a handshake.
const HANDSHAKE: Duration = Duration::from_secs(10);

/// The handler of requests.
pub trait HttpsEndpoint: Send + Sync {
    /// Status and JSON for a document at a path; a request without a body has an empty one.
    fn answer<'a>(
        &'a self,
        method: &'a Method,
        path: &'a str,
        body: &'a [u8],
    ) -> BoxFuture<'a, (StatusCode, String)>;
}

/// A certificate or key that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum TlsProblem {
    #[error("the file is not in PEM format")]
    Pem(#[from] PemError),
    #[error(transparent)]
    Tls(#[from] TlsError),
}

/// The configuration of a server with this chain of certificates and this key, in PEM.
pub fn server_config(chain: &[u8], key: &[u8]) -> Result<ServerConfig, TlsProblem> {
    let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(chain).collect();
    let key = PrivateKeyDer::from_pem_slice(key)?;
    let provider = Arc::new(ring::default_provider());
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_no_client_auth()
        .with_single_cert(chain?, key)?;
    Ok(config)
}

impl Bound {
    /// Serves HTTPS until the token is cancelled. Each connection begins with the configuration of that time.
    pub async fn serve_tls(
        self,
        config: watch::Receiver<Arc<ServerConfig>>,
        endpoint: Arc<dyn HttpsEndpoint>,
        stop: CancellationToken,
    ) {
        self.each(stop, |stream| {
            let acceptor = TlsAcceptor::from(Arc::clone(&config.borrow()));
            serve_connection(stream, acceptor, Arc::clone(&endpoint))
        })
        .await;
    }
}

async fn serve_connection(
    stream: TcpStream,
    acceptor: TlsAcceptor,
    endpoint: Arc<dyn HttpsEndpoint>,
) {
    let shaken = tokio::time::timeout(HANDSHAKE, acceptor.accept(stream)).await;
    let stream = match shaken {
        Ok(Ok(stream)) => stream,
        Ok(Err(error)) => return tracing::debug!(%error, "a client did not use TLS"),
        Err(_) => return,
    };
    let service = service_fn(|request: Request<Incoming>| {
        let endpoint = Arc::clone(&endpoint);
        async move { Ok::<_, Infallible>(answer(&*endpoint, request).await) }
    });
    let ended = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEADERS)
        .serve_connection(TokioIo::new(stream), service)
        .await;
    if let Err(error) = ended {
        tracing::debug!(%error, "a client of the webhook disconnected early");
    }
}

async fn answer(endpoint: &dyn HttpsEndpoint, request: Request<Incoming>) -> Response<Full<Bytes>> {
    let (head, body) = request.into_parts();
    let (status, text) = match Limited::new(body, LARGEST).collect().await {
        Ok(body) => {
            let body = body.to_bytes();
            endpoint.answer(&head.method, head.uri.path(), &body).await
        }
        Err(error) => (StatusCode::PAYLOAD_TOO_LARGE, error.to_string()),
    };
    let mut response = Response::new(Full::from(text));
    *response.status_mut() = status;
    let json = HeaderValue::from_static("application/json");
    response.headers_mut().insert(CONTENT_TYPE, json);
    response
}
