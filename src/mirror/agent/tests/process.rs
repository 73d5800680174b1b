//! The whole process, with the cloud behind a proxy as it is in the world: TLS, a path prefix, tokens.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, USER_AGENT};
use http::{Request, Response, StatusCode};
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use jiff::Timestamp;
use kube::client::Body;
use parking_lot::Mutex;
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use serde_json::json;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;

use super::*;
use crate::mirror::agent::process;
use crate::mirror::options::{Cloud, MirrorOptions, Tokens};
use hawser_runtime::cluster::connection::{Call, Connection, Limits};

const PREFIX: &str = "/apis/core.kubernetes";
/// What is asked for to find out whether credentials are taken.
const HEALTH: &str = "/apis/core.kubernetes/apis/registry.cloudrobotics.com/v1alpha1/robottypes";

/// What the proxy saw: method, path, and the token.
type Seen = (String, String, String);

struct Proxy {
    address: SocketAddr,
    authority: String,
    seen: Mutex<Vec<Seen>>,
    /// Tokens that are known.
    valid: Mutex<Vec<String>>,
    cloud: kube::Client,
    /// What is answered to whoever asks how it is, and how often that was asked.
    health: Mutex<u16>,
    asked: Mutex<usize>,
}

impl Proxy {
    /// Before a cloud, in a task of the set.
    async fn start(clusters: &Clusters, tasks: &mut JoinSet<()>) -> Arc<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let made = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()]).unwrap();
        let key = PrivatePkcs8KeyDer::from(made.signing_key.serialize_der());
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let tls = rustls::ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![made.cert.der().clone()], PrivateKeyDer::Pkcs8(key))
            .unwrap();
        let proxy = Arc::new(Self {
            address: listener.local_addr().unwrap(),
            authority: made.cert.pem(),
            seen: Mutex::default(),
            valid: Mutex::default(),
            cloud: clusters.client(CLOUD).await,
            health: Mutex::new(200),
            asked: Mutex::default(),
        });
        let acceptor = TlsAcceptor::from(Arc::new(tls));
        let serving = Arc::clone(&proxy);
        tasks.spawn(async move {
            let mut served = JoinSet::new();
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                served.spawn(Arc::clone(&serving).serve(acceptor.clone(), stream));
            }
        });
        proxy
    }

    async fn serve(self: Arc<Self>, acceptor: TlsAcceptor, stream: TcpStream) {
        let Ok(stream) = acceptor.accept(stream).await else {
            return;
        };
        let service = service_fn(|request| {
            let proxy = Arc::clone(&self);
            async move { Ok::<_, Infallible>(proxy.pass(request).await) }
        });
        let http = hyper::server::conn::http1::Builder::new();
        // Clients come and go.
        let _ = http.serve_connection(TokioIo::new(stream), service).await;
    }

    async fn pass(&self, request: Request<Incoming>) -> Response<Body> {
        let (parts, body) = request.into_parts();
        let header = |name| {
            parts
                .headers
                .get(name)
                .and_then(|value| value.to_str().ok())
        };
        let token = header(AUTHORIZATION).unwrap_or_default().to_owned();
        let path = parts.uri.path_and_query().unwrap().as_str().to_owned();
        if parts.uri.path() == HEALTH {
            *self.asked.lock() += 1;
            let answer = *self.health.lock();
            let mut response = Response::new(Body::empty());
            *response.status_mut() = StatusCode::from_u16(answer).unwrap();
            return response;
        }
        let seen = (parts.method.to_string(), path.clone(), token.clone());
        self.seen.lock().push(seen);
        let refuse = |status: StatusCode| {
            let mut response = Response::new(Body::empty());
            *response.status_mut() = status;
            response
        };
        if !self.valid.lock().contains(&token) {
            return refuse(StatusCode::UNAUTHORIZED);
        }
        let Some(path) = path.strip_prefix(PREFIX) else {
            return refuse(StatusCode::NOT_FOUND);
        };
        let mut onwards = Request::builder().method(parts.method.clone()).uri(path);
        for name in [USER_AGENT, ACCEPT, CONTENT_TYPE] {
            if let Some(value) = parts.headers.get(&name) {
                onwards = onwards.header(name, value);
            }
        }
        let body = body.collect().await.unwrap().to_bytes();
        let request = onwards.body(Body::from(body)).unwrap();
        let answered = self.cloud.send(request).await;
        answered.unwrap_or_else(|_| refuse(StatusCode::BAD_GATEWAY))
    }
}

/// A token that lasts for so long.
fn token(name: &str, seconds: i64) -> String {
    let ends = Timestamp::now().as_second() + seconds;
    let claims = json!({"sub": name, "exp": ends}).to_string();
    format!("e30.{}.c2ln", URL_SAFE_NO_PAD.encode(claims))
}

/// Answers one token after the other, the last one for ever.
async fn tell_tokens(tokens: Vec<String>, tasks: &mut JoinSet<()>) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tasks.spawn(async move {
        let left = Mutex::new(tokens);
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            let service = service_fn(|request: Request<Incoming>| {
                assert!(request.uri().path().ends_with("/identity"));
                let mut left = left.lock();
                let token = if left.len() > 1 {
                    left.remove(0)
                } else {
                    left[0].clone()
                };
                async move { Ok::<_, Infallible>(Response::new(token)) }
            });
            let http = hyper::server::conn::http1::Builder::new();
            let _ = http.serve_connection(TokioIo::new(stream), service).await;
        }
    });
    address
}

struct Running {
    pages: Connection,
    stop: CancellationToken,
    ended: tokio::task::JoinHandle<Result<(), process::MirrorError>>,
    directory: tempfile::TempDir,
}

/// An address that nobody listens at.
async fn free() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    listener.local_addr().unwrap()
}

async fn run(
    clusters: &Clusters,
    proxy: &Proxy,
    tokens: impl FnOnce(&std::path::Path) -> Tokens,
) -> Running {
    let listens = free().await;
    let (options, directory) = options(clusters, proxy, tokens, listens);
    let stop = CancellationToken::new();
    let config = kube::Config::new(format!("http://{listens}").parse().unwrap());
    Running {
        pages: Connection::new(config, Limits::default()).unwrap(),
        ended: tokio::spawn(process::run(options, stop.clone())),
        stop,
        directory,
    }
}

fn options(
    clusters: &Clusters,
    proxy: &Proxy,
    tokens: impl FnOnce(&std::path::Path) -> Tokens,
    listens: SocketAddr,
) -> (MirrorOptions, tempfile::TempDir) {
    let directory = tempfile::tempdir().unwrap();
    let kubeconfig = directory.path().join("kubeconfig");
    let text = clusters.robot.service_kubeconfig().to_string();
    std::fs::write(&kubeconfig, text).unwrap();
    let authority = directory.path().join("ca.pem");
    std::fs::write(&authority, &proxy.authority).unwrap();
    let options = MirrorOptions {
        cloud: Cloud::Server {
            url: format!("https://{}{PREFIX}", proxy.address),
            ca_file: Some(authority),
            tokens: tokens(directory.path()),
        },
        kubeconfig: Some(kubeconfig),
        listen_address: Some(listens.to_string()),
        page_address: None,
        conflict_limit: 5,
        watch_seconds: 300,
        in_flight: 8,
        per_second: None,
        brake: Some(50),
        trace_context: false,
        settings: r1(),
    };
    (options, directory)
}

impl Running {
    async fn until_page(&self, path: &str, status: u16) -> String {
        let asking = async {
            loop {
                if let Ok(reply) = self.pages.call(Call::get(path)).await
                    && reply.status == status
                {
                    return String::from_utf8(reply.body.to_vec()).unwrap();
                }
                pause().await;
            }
        };
        let page = tokio::time::timeout(Duration::from_mins(1), asking).await;
        page.unwrap_or_else(|_| panic!("{path} never answers {status}"))
    }

    async fn end(self) {
        self.stop.cancel();
        self.ended.await.unwrap().unwrap();
    }
}

fn bearer(token: &str) -> String {
    format!("Bearer {token}")
}

#[tokio::test]
async fn tokens_of_the_robot_are_renewed_and_everything_goes_below_the_prefix() {
    let clusters = Clusters::with(true, &filtered()).await;
    let mut tasks = JoinSet::new();
    let proxy = Proxy::start(&clusters, &mut tasks).await;
    // The first one is renewed a second later, as it lasts hardly longer than the margin.
    let tokens = vec![token("first", 61), token("second", 900)];
    *proxy.valid.lock() = tokens.iter().map(|token| bearer(token)).collect();
    let address = tell_tokens(tokens.clone(), &mut tasks).await;
    let url =
        format!("http://{address}/computeMetadata/v1/instance/service-accounts/default/identity");
    let mirror = run(&clusters, &proxy, |_| Tokens::RobotJwt(url)).await;
    clusters.create(CLOUD, "a", &labelled("r1")).await;
    clusters.until(ROBOT, "a", |_| true).await;
    let with = |token: &str| {
        let bearer = bearer(token);
        let seen = proxy.seen.lock();
        seen.iter()
            .any(|(method, _, by)| method == "PUT" && *by == bearer)
    };
    // Whoever writes for long enough uses the second one.
    let mut step = 0;
    while !with(&tokens[1]) {
        step += 1;
        clusters
            .patch_status(ROBOT, "a", &json!({"step": step}))
            .await;
        clusters
            .until(CLOUD, "a", |o| o["status"]["step"] == step)
            .await;
        assert!(step < 100, "the token is never renewed");
    }
    for (method, path, _) in &*proxy.seen.lock() {
        assert!(
            path.starts_with("/apis/core.kubernetes/apis/example.com/v1/"),
            "{path}"
        );
        assert!(["GET", "PUT"].contains(&method.as_str()), "{method} {path}");
    }
    clusters.check_cloud(Some("cloudrobotics.com/robot-name=r1"));
    assert_eq!(mirror.until_page("/healthz", 200).await, "ok\n");
    assert_eq!(mirror.until_page("/readyz", 200).await, "ok\n");
    assert_eq!(mirror.until_page("/health", 200).await, "");
    mirror.until_page("/else", 404).await;
    let metrics = mirror.until_page("/metrics", 200).await;
    for name in [
        "cr_syncer_cloudrobotics_com_syncs_total{event_source=\"upstream\",otel_scope_name=\"hawser\",",
        "http_client_request_duration_seconds_bucket{location=\"remote\"",
        "http_client_request_duration_seconds_bucket{location=\"local\"",
    ] {
        assert!(metrics.contains(name), "{name} is not in\n{metrics}");
    }
    mirror.end().await;
}

#[tokio::test]
async fn only_a_cloud_that_does_not_take_our_credentials_makes_the_process_unhealthy() {
    // Nothing is followed: the cloud is asked all the same.
    let clusters = Clusters::start().await;
    let mut tasks = JoinSet::new();
    let proxy = Proxy::start(&clusters, &mut tasks).await;
    let mirror = run(&clusters, &proxy, |directory| {
        let file = directory.join("token");
        std::fs::write(&file, "secret").unwrap();
        Tokens::File(file)
    })
    .await;
    mirror.until_page("/readyz", 200).await;
    for (answer, status, said) in [
        (200, 200, ""),
        (401, 500, "unhealthy"),
        (403, 200, ""),
        (401, 500, "unhealthy"),
        (404, 200, ""),
        (400, 200, ""),
        (500, 200, ""),
    ] {
        *proxy.health.lock() = answer;
        let asked = *proxy.asked.lock();
        let reply = mirror.pages.call(Call::get("/health")).await.unwrap();
        let found = (reply.status, &*reply.body);
        assert_eq!(found, (status, said.as_bytes()), "{answer}");
        assert_eq!(*proxy.asked.lock(), asked + 1, "{answer}");
    }
    // A cloud that is away is no reason to begin anew.
    tasks.shutdown().await;
    mirror.until_page("/health", 200).await;
    mirror.end().await;
}

#[tokio::test]
async fn nothing_is_sent_to_the_cloud_before_there_are_credentials() {
    let clusters = Clusters::with(true, &json!({})).await;
    clusters.create(CLOUD, "a", &json!({})).await;
    let mut tasks = JoinSet::new();
    let proxy = Proxy::start(&clusters, &mut tasks).await;
    let place = tempfile::tempdir().unwrap();
    let file = place.path().join("token");
    let mirror = run(&clusters, &proxy, |_| Tokens::File(file.clone())).await;
    let waits = async {
        loop {
            let page = mirror.until_page("/readyz", 503).await;
            if page.starts_with("credentials: reading ") && !page.contains("robot") {
                return;
            }
            pause().await;
        }
    };
    let waits = tokio::time::timeout(Duration::from_mins(1), waits).await;
    waits.expect("it says what it waits for");
    assert_eq!(mirror.until_page("/health", 200).await, "");
    assert_eq!(mirror.until_page("/healthz", 200).await, "ok\n");
    let reads = |r: &kcp_playground::server::LoggedRequest| {
        r.resource == "customresourcedefinitions" && r.verb == "get"
    };
    clusters.until_sent(ROBOT, 0, reads).await;
    assert_eq!((proxy.seen.lock().len(), *proxy.asked.lock()), (0, 0));
    proxy.valid.lock().push(bearer("late"));
    std::fs::write(&file, "late").unwrap();
    clusters.until(ROBOT, "a", |_| true).await;
    mirror.until_page("/readyz", 200).await;
    for (_, path, token) in &*proxy.seen.lock() {
        assert_eq!(*token, bearer("late"), "{path}");
    }
    mirror.end().await;
}

/// Answers everybody the same.
async fn tell_all(status: u16, text: &'static str, tasks: &mut JoinSet<()>) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tasks.spawn(async move {
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            let service = service_fn(|_: Request<Incoming>| async move {
                let mut response = Response::new(text.to_owned());
                *response.status_mut() = StatusCode::from_u16(status).unwrap();
                Ok::<_, Infallible>(response)
            });
            let http = hyper::server::conn::http1::Builder::new();
            let _ = http.serve_connection(TokioIo::new(stream), service).await;
        }
    });
    address
}

#[tokio::test]
async fn without_any_credentials_to_be_found_it_ends_and_says_what_there_could_be() {
    let clusters = Clusters::with(true, &json!({})).await;
    clusters.create(CLOUD, "a", &json!({})).await;
    let mut tasks = JoinSet::new();
    let proxy = Proxy::start(&clusters, &mut tasks).await;
    let at = |address| {
        format!("http://{address}/computeMetadata/v1/instance/service-accounts/default/token")
    };
    let nobody = at(free().await);
    let guard = at(tell_all(403, "no", &mut tasks).await);
    let ends = async |url: String| {
        let (options, _directory) =
            options(&clusters, &proxy, |_| Tokens::Machine(url), free().await);
        let ended = process::run(options, CancellationToken::new()).await;
        let said = ended.unwrap_err().to_string();
        for part in ["no metadata server answers", "--use-robot-jwt"] {
            assert!(said.contains(part), "{said}");
        }
    };
    tokio::join!(ends(nobody), ends(guard));
    assert_eq!(proxy.seen.lock().len(), 0);

    let token = r#"{"access_token": "machine", "expires_in": 3600, "token_type": "Bearer"}"#;
    let machine = at(tell_all(200, token, &mut tasks).await);
    proxy.valid.lock().push(bearer("machine"));
    let mirror = run(&clusters, &proxy, |_| Tokens::Machine(machine)).await;
    clusters.until(ROBOT, "a", |_| true).await;
    mirror.end().await;
}

#[tokio::test]
async fn a_token_that_the_cloud_does_not_take_deletes_nothing_and_is_tried_again() {
    let clusters = Clusters::with(true, &json!({})).await;
    clusters.create(ROBOT, "local", &json!({})).await;
    let mut tasks = JoinSet::new();
    let proxy = Proxy::start(&clusters, &mut tasks).await;
    let mirror = run(&clusters, &proxy, |directory| {
        let file = directory.join("token");
        std::fs::write(&file, "secret").unwrap();
        Tokens::File(file)
    })
    .await;
    let refused = async {
        while proxy.seen.lock().is_empty() {
            pause().await;
        }
    };
    let refused = tokio::time::timeout(Duration::from_mins(1), refused).await;
    refused.expect("it asks");
    assert!(clusters.get(ROBOT, "local").await.is_some());
    assert!(mirror.directory.path().join("token").exists());
    proxy.valid.lock().push(bearer("secret"));
    clusters.until_gone(ROBOT, "local").await;
    mirror.end().await;
}
