//! The playground's server: TLS and HTTP, authentication, faults, the request log, kubeconfigs.
//!
//! A [`Server`] serves an `Api` through one or more listeners on loopback, each with a [`Router`] of its own. The API
//! interprets the requests.

use std::io::Write;
use std::net::Ipv4Addr;
use std::sync::Arc;

use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

mod auth;
mod exchange;
mod faults;
mod gather;
mod gzip;
mod impersonation;
mod kubeconfig;
mod request_info;
mod request_log;
mod serve;
mod tls;
mod watch_faults;

pub use auth::{Identity, TokenFileError, Tokens};
pub use exchange::Router;
pub use faults::{Action, Fault, FaultError, Faults, Matcher, When, duration};
pub use kubeconfig::{Context, kubeconfig};
pub use request_info::{Address, Front, RequestInfo};
pub use request_log::{LoggedRequest, RequestLog};
pub use tls::TlsError;

use super::api::Api;
use exchange::Exchange;
use serve::{Handler, Serving};
use tls::Certificates;

/// The settings of a server.
pub struct ServerOptions {
    pub tokens: Tokens,
    pub faults: Vec<Fault>,
    /// The seed of random faults.
    pub seed: u64,
    /// The number of requests in the log.
    pub log_capacity: usize,
    /// A file to which each request is also written as a line of JSON.
    pub log_sink: Option<Box<dyn Write + Send>>,
}

impl ServerOptions {
    /// Settings for these users: no faults, and a log large enough for a large test.
    pub fn new(tokens: Tokens) -> Self {
        Self {
            tokens,
            faults: Vec::new(),
            seed: 1,
            log_capacity: 250_000,
            log_sink: None,
        }
    }
}

#[derive(Debug, thiserror::Error)]
pub enum StartError {
    #[error(transparent)]
    Tls(#[from] TlsError),
    #[error("listening on 127.0.0.1:{port}: choose another port, or 0 for any free one")]
    Listen {
        port: u16,
        #[source]
        source: std::io::Error,
    },
}

/// A running server. It stops on request or when it is dropped.
pub struct Server {
    ca_pem: String,
    certificates: Certificates,
    tokens: Arc<Tokens>,
    faults: Arc<Faults>,
    log: Arc<RequestLog>,
    stop: CancellationToken,
    serving: Vec<Serving>,
}

impl Server {
    /// Creates certificates; nothing listens before [`Self::open`].
    pub fn new(options: ServerOptions) -> Result<Self, StartError> {
        let certificates = Certificates::generate()?;
        Ok(Self {
            ca_pem: certificates.ca_pem.clone(),
            certificates,
            tokens: Arc::new(options.tokens),
            faults: Arc::new(Faults::new(options.faults, options.seed)),
            log: Arc::new(RequestLog::new(options.log_capacity, options.log_sink)),
            stop: CancellationToken::new(),
            serving: Vec::new(),
        })
    }

    /// Opens a listener on loopback; port 0 takes a free port. Returns its URL, such as `https://127.0.0.1:6443`, which
    /// is served from now on.
    pub async fn open(
        &mut self,
        port: u16,
        api: Arc<dyn Api>,
        router: Box<dyn Router>,
    ) -> Result<String, StartError> {
        let failed = |source| StartError::Listen { port, source };
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port))
            .await
            .map_err(failed)?;
        let exchange: Arc<dyn Handler> = Arc::new(Exchange {
            api,
            router,
            tokens: Arc::clone(&self.tokens),
            faults: Arc::clone(&self.faults),
            log: Arc::clone(&self.log),
            stop: self.stop.clone(),
        });
        let tls = Arc::clone(&self.certificates.server);
        let serving = Serving::start(listener, tls, exchange, self.stop.clone()).map_err(failed)?;
        let url = format!("https://{}", serving.address);
        self.serving.push(serving);
        Ok(url)
    }

    /// The CA certificate of the server, in PEM.
    pub fn ca_pem(&self) -> &str {
        &self.ca_pem
    }

    pub fn faults(&self) -> &Arc<Faults> {
        &self.faults
    }

    pub fn requests(&self) -> &Arc<RequestLog> {
        &self.log
    }

    /// Ends watches, waits a moment for running requests, and closes everything.
    pub async fn stop(mut self) {
        self.stop.cancel();
        for serving in self.serving.drain(..) {
            serving.stopped().await;
        }
        self.log.flush();
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

#[cfg(test)]
mod tests;
