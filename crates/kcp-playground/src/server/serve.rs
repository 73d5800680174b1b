//! Connections: accepting, TLS, HTTP/1.1 and HTTP/2, and closing.
//!
//! This module does not know Kubernetes. The [`Handler`] interprets requests; this module passes them on, returns the
//! answers, and closes connections if the handler asks for that.

use std::convert::Infallible;
use std::future::Future;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::combinators::UnsyncBoxBody;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use rustls::ServerConfig;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;

use super::gather::Gathered;

pub(crate) type Body = UnsyncBoxBody<Bytes, Infallible>;

/// The time limit for a client's TLS handshake.
const HANDSHAKE: Duration = Duration::from_secs(30);
/// The message of a Go server to a client that sends HTTP to an HTTPS port.
const PLAIN: &[u8] =
    b"HTTP/1.0 400 Bad Request\r\n\r\nClient sent an HTTP request to an HTTPS server.\n";
/// The number of bytes that are read of such a request.
const PLAIN_READ: u64 = 64 * 1024;

/// The time that running requests have once the server is told to stop.
const DRAIN: Duration = Duration::from_millis(500);

/// One Go client sends all its watches over one connection; kube-apiserver allows 250 streams.
const CONCURRENT_STREAMS: u32 = 1000;

/// The size of flow-control windows, so large that a list of some megabytes does not wait for round trips.
const STREAM_WINDOW: u32 = 1 << 20;
const CONNECTION_WINDOW: u32 = 16 << 20;

/// Answers requests. `None` closes the connection without an answer.
pub(crate) trait Handler: Send + Sync + 'static {
    fn handle(
        self: Arc<Self>,
        request: Request<Incoming>,
    ) -> Pin<Box<dyn Future<Output = Option<Response<Body>>> + Send>>;
}

/// A listener that is served until its token is cancelled.
pub(crate) struct Serving {
    pub(crate) address: SocketAddr,
    task: tokio::task::JoinHandle<()>,
}

impl Serving {
    pub(crate) fn start(
        listener: TcpListener,
        tls: Arc<ServerConfig>,
        handler: Arc<dyn Handler>,
        stop: CancellationToken,
    ) -> std::io::Result<Self> {
        let address = listener.local_addr()?;
        let task = tokio::spawn(accept(listener, TlsAcceptor::from(tls), handler, stop));
        Ok(Self { address, task })
    }

    /// Waits until the last connection is closed; the token must have been cancelled.
    pub(crate) async fn stopped(self) {
        if let Err(error) = self.task.await
            && error.is_panic()
        {
            tracing::error!(%error, "the accept loop of the playground failed");
        }
    }
}

async fn accept(
    listener: TcpListener,
    tls: TlsAcceptor,
    handler: Arc<dyn Handler>,
    stop: CancellationToken,
) {
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            () = stop.cancelled() => break,
            Some(_) = connections.join_next(), if !connections.is_empty() => {}
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) => {
                    connections.spawn(connection(
                        stream,
                        tls.clone(),
                        Arc::clone(&handler),
                        stop.clone(),
                    ));
                }
                Err(error) => {
                    // Most likely, there are no file descriptors left: waits until connections close.
                    tracing::warn!(%error, "cannot accept a connection");
                    tokio::time::sleep(Duration::from_millis(50)).await;
                }
            },
        }
    }
    drop(listener);
    let drained = tokio::time::timeout(DRAIN, async {
        while connections.join_next().await.is_some() {}
    })
    .await;
    if drained.is_err() {
        connections.shutdown().await;
    }
}

/// Whether the first byte is one of an HTTP method. TLS begins with another byte.
async fn speaks_plainly(stream: &TcpStream) -> std::io::Result<bool> {
    let mut first = [0; 1];
    let read = stream.peek(&mut first).await?;
    Ok(read == 1 && first[0].is_ascii_uppercase())
}

/// Answers in HTTP, because an HTTP client does not understand a TLS alert.
async fn refuse_plain(mut stream: TcpStream) -> std::io::Result<()> {
    stream.write_all(PLAIN).await?;
    stream.shutdown().await?;
    // If a connection is closed with unread data, the answer may be lost.
    let mut rest = stream.take(PLAIN_READ);
    tokio::io::copy(&mut rest, &mut tokio::io::sink()).await?;
    Ok(())
}

async fn connection(
    stream: TcpStream,
    tls: TlsAcceptor,
    handler: Arc<dyn Handler>,
    stop: CancellationToken,
) {
    if let Err(error) = stream.set_nodelay(true) {
        tracing::debug!(%error, "small packets of a connection may wait");
    }
    let handshake = async {
        if speaks_plainly(&stream).await? {
            return refuse_plain(stream).await.map(|()| None);
        }
        tls.accept(stream).await.map(Some)
    };
    let stream = match tokio::time::timeout(HANDSHAKE, handshake).await {
        Ok(Ok(Some(stream))) => stream,
        Ok(Err(error)) => {
            tracing::debug!(%error, "a TLS handshake failed");
            return;
        }
        Ok(Ok(None)) | Err(_) => return,
    };
    let cut = CancellationToken::new();
    let service = service_fn(|request: Request<Incoming>| {
        let answer = Arc::clone(&handler).handle(request);
        let cut = cut.clone();
        async move {
            if let Some(response) = answer.await {
                return Ok::<_, Infallible>(response);
            }
            cut.cancel();
            std::future::pending().await
        }
    });
    let mut builder = auto::Builder::new(TokioExecutor::new());
    builder
        .http2()
        .max_concurrent_streams(CONCURRENT_STREAMS)
        .initial_stream_window_size(STREAM_WINDOW)
        .initial_connection_window_size(CONNECTION_WINDOW);
    let stream = Gathered::new(stream);
    let connection = builder.serve_connection(TokioIo::new(stream.share()), service);
    tokio::pin!(connection);
    let ended = tokio::select! {
        ended = stream.run(connection.as_mut()) => ended,
        () = cut.cancelled() => return,
        () = stop.cancelled() => {
            connection.as_mut().graceful_shutdown();
            stream.run(connection).await
        }
    };
    if let Err(error) = ended {
        tracing::debug!(error, "a connection ended early");
    }
}
