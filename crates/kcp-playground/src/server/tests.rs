use std::time::Duration;

use base64::Engine as _;
use bytes::Bytes;
use futures::future::BoxFuture;
use futures::{AsyncBufReadExt as _, StreamExt as _, TryStreamExt as _, stream};
use http::{HeaderMap, Request};
use kube::{Client, Config};

use super::*;
use crate::api::{ApiBody, ApiRequest, ApiResponse};
use crate::catalog::{Scope, User};
use crate::pieces::{Item, Pieces};
use crate::status::Status;

const ITEM: &[u8] = b"\"item\"";

/// Answers with what it was asked; watches never end by themselves.
struct Echo;

impl Api for Echo {
    fn handle(&self, request: ApiRequest) -> BoxFuture<'_, ApiResponse> {
        Box::pin(async move {
            let query = request.query.unwrap_or_default();
            let body = if query.contains("watch=true") {
                let first = stream::once(async { Bytes::from_static(b"{\"type\":\"ADDED\"}\n") });
                ApiBody::Stream(first.chain(stream::pending()).boxed())
            } else if query.contains("large=true") {
                let items = vec![Item::whole(Bytes::from_static(ITEM)); 30_000];
                ApiBody::Pieces(Pieces::new(b"[".to_vec(), items, b"]"))
            } else {
                let said = serde_json::json!({
                    "user": request.user.name,
                    "groups": request.user.groups,
                    "scope": format!("{:?}", request.scope),
                    "path": request.path,
                    "query": query,
                    "body": request.body.len(),
                });
                ApiBody::Full(Bytes::from(said.to_string()))
            };
            ApiResponse {
                status: 200,
                headers: HeaderMap::new(),
                body,
            }
        })
    }

    fn revision(&self) -> u64 {
        42
    }
}

/// Every cluster is known by the name in the address.
struct ByName;

impl Router for ByName {
    fn route(&self, address: &Address, _user: &User) -> Result<Scope, Status> {
        match &address.front {
            Front::Cluster(name) => Ok(Scope::Cluster(name.as_str().into())),
            _ => Err(Status::no_such_path()),
        }
    }
}

struct Ground {
    server: Server,
    url: String,
}

async fn ground() -> Ground {
    let mut tokens = Tokens::default();
    tokens
        .insert_csv("secret,agent,1,\"agents\"")
        .expect("a good line");
    let mut server = Server::new(ServerOptions::new(tokens)).unwrap();
    let url = server
        .open(0, Arc::new(Echo), Box::new(ByName))
        .await
        .unwrap();
    Ground { server, url }
}

impl Ground {
    async fn client(&self, token: &str) -> Client {
        let context = Context {
            name: "root",
            server: format!("{}/clusters/root", self.url),
        };
        let text = kubeconfig(self.server.ca_pem(), "agent", token, &[context]).to_string();
        let file = kube::config::Kubeconfig::from_yaml(&text).unwrap();
        let mut config =
            Config::from_custom_kubeconfig(file, &kube::config::KubeConfigOptions::default())
                .await
                .unwrap();
        config.read_timeout = Some(Duration::from_secs(30));
        Client::try_from(config).unwrap()
    }
}

fn get(path: &str) -> Request<Vec<u8>> {
    Request::get(path).body(Vec::new()).unwrap()
}

#[tokio::test]
async fn a_known_token_gets_through_with_its_groups_and_the_path_below_its_cluster() {
    let ground = ground().await;
    let said: serde_json::Value = ground
        .client("secret")
        .await
        .request(get("/api/v1/secrets?limit=1"))
        .await
        .unwrap();
    assert_eq!(said["user"], "agent");
    assert_eq!(
        said["groups"],
        serde_json::json!(["agents", "system:authenticated"])
    );
    assert_eq!(said["scope"], "Cluster(\"root\")");
    assert_eq!(said["path"], "/api/v1/secrets");
    assert_eq!(said["query"], "limit=1");
    let logged = ground.server.requests().since(0);
    assert_eq!(logged.len(), 1);
    assert_eq!(
        (
            logged[0].verb.as_str(),
            logged[0].cluster.as_str(),
            logged[0].resource.as_str(),
            logged[0].code
        ),
        ("list", "root", "secrets", 200)
    );
    ground.server.stop().await;
}

#[tokio::test]
async fn a_request_may_be_made_for_somebody_else_and_the_log_says_who_sent_it() {
    let ground = ground().await;
    let request = Request::get("/api/v1/secrets")
        .header("Impersonate-User", "alice")
        .header("Impersonate-Group", "a")
        .body(Vec::new())
        .unwrap();
    let said: serde_json::Value = ground
        .client("secret")
        .await
        .request(request)
        .await
        .unwrap();
    assert_eq!(said["user"], "alice");
    assert_eq!(
        said["groups"],
        serde_json::json!(["a", "system:authenticated"])
    );
    assert_eq!(ground.server.requests().since(0)[0].user, "agent");
    ground.server.stop().await;
}

#[tokio::test]
async fn who_speaks_http_is_told_that_https_is_spoken() {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    let ground = ground().await;
    let address = ground.url.strip_prefix("https://").unwrap();
    let mut stream = tokio::net::TcpStream::connect(address).await.unwrap();
    stream
        .write_all(b"GET /api HTTP/1.1\r\nHost: playground\r\n\r\n")
        .await
        .unwrap();
    let mut said = String::new();
    stream.read_to_string(&mut said).await.unwrap();
    assert!(said.starts_with("HTTP/1.0 400 "), "{said}");
    assert!(said.contains("HTTP request to an HTTPS server"), "{said}");
    drop(stream);
    ground.server.stop().await;
}

#[tokio::test]
async fn an_unknown_token_is_refused_with_401() {
    let ground = ground().await;
    let error = ground
        .client("wrong")
        .await
        .request::<serde_json::Value>(get("/api"))
        .await
        .unwrap_err();
    let kube::Error::Api(status) = error else {
        panic!("expected a status, found {error}");
    };
    assert_eq!((status.code, status.reason.as_str()), (401, "Unauthorized"));
    assert_eq!(ground.server.requests().since(0)[0].code, 401);
}

#[tokio::test]
async fn a_body_beyond_the_limit_is_refused_with_413() {
    let ground = ground().await;
    let request = Request::post("/api/v1/namespaces/a/secrets")
        .body(vec![b' '; kube_schema::json::MAX_BODY + 1])
        .unwrap();
    let error = ground
        .client("secret")
        .await
        .request::<serde_json::Value>(request)
        .await
        .unwrap_err();
    assert!(error.to_string().contains("too large"), "{error}");
    assert_eq!(ground.server.requests().since(0)[0].code, 413);
}

#[tokio::test]
async fn a_body_that_nobody_reads_is_taken_in_or_ends_the_connection() {
    let ground = ground().await;
    let connection = async |token: &'static str, size: usize| {
        let request = Request::post("/api/v1/namespaces/a/secrets")
            .body(kube::client::Body::from(vec![b' '; size]))
            .unwrap();
        // Who still sends when the connection ends may not come to read the answer.
        let Ok(answer) = ground.client(token).await.send(request).await else {
            return Some("close".to_owned());
        };
        let header = answer.headers().get("connection");
        header.map(|value| value.to_str().unwrap().to_owned())
    };
    let close = Some("close".to_owned());
    let limit = kube_schema::json::MAX_BODY;
    assert_eq!(connection("wrong", 0).await, None);
    assert_eq!(connection("wrong", 1).await, None);
    assert_eq!(connection("secret", limit).await, None);
    let much = super::exchange::MAX_DRAINED + 2 * limit;
    assert_eq!(connection("wrong", much).await, close);
    assert_eq!(connection("secret", much).await, close);
}

#[tokio::test]
async fn faults_strike_before_and_after_and_cut_connections() {
    let ground = ground().await;
    let client = ground.client("secret").await;
    let answer = async || {
        client
            .request::<serde_json::Value>(get("/api/v1/secrets/x"))
            .await
    };
    ground
        .server
        .faults()
        .add("status=409 times=1".parse().unwrap());
    assert!(answer().await.unwrap_err().to_string().contains("Conflict"));
    ground
        .server
        .faults()
        .add("reset when=after times=1".parse().unwrap());
    let error = answer().await.unwrap_err();
    assert!(!matches!(error, kube::Error::Api(_)), "{error}");
    assert!(answer().await.is_ok(), "faults are over");
    let codes: Vec<u16> = ground
        .server
        .requests()
        .since(0)
        .iter()
        .map(|r| r.code)
        .collect();
    assert_eq!(codes, [409, 0, 200]);
}

#[tokio::test]
async fn a_stale_list_is_asked_for_as_an_earlier_state() {
    let ground = ground().await;
    ground.server.faults().add("stale=10".parse().unwrap());
    let said: serde_json::Value = ground
        .client("secret")
        .await
        .request(get("/api/v1/secrets"))
        .await
        .unwrap();
    assert_eq!(
        said["query"],
        "resourceVersion=32&resourceVersionMatch=Exact"
    );
}

#[tokio::test]
async fn a_watch_answers_at_once_and_ends_when_the_server_stops() {
    let ground = ground().await;
    let client = ground.client("secret").await;
    let lines = client
        .request_stream(get("/api/v1/secrets?watch=true"))
        .await
        .unwrap();
    let mut lines = Box::pin(lines.lines());
    assert_eq!(
        lines.try_next().await.unwrap().unwrap(),
        "{\"type\":\"ADDED\"}"
    );
    ground.server.stop().await;
    assert_eq!(
        lines.try_next().await.unwrap(),
        None,
        "it ends without an error"
    );
}

#[tokio::test]
async fn a_document_in_pieces_arrives_whole_and_says_how_long_it_is() {
    let ground = ground().await;
    let client = ground.client("secret").await;
    let plain = Request::get("/api/v1/secrets?large=true")
        .header("accept-encoding", "identity")
        .body(Vec::new().into())
        .unwrap();
    let answer = client.send(plain).await.unwrap();
    let length = 30_000 * (ITEM.len() + 1) + 1;
    assert_eq!(answer.headers()["content-length"], length.to_string());
    let text = client
        .request_text(get("/api/v1/secrets?large=true"))
        .await
        .unwrap();
    let items: Vec<String> = serde_json::from_str(&text).unwrap();
    assert_eq!((text.len(), items.len()), (length, 30_000));
    ground.server.stop().await;
}

#[tokio::test]
async fn an_address_outside_of_every_cluster_is_not_found() {
    let ground = ground().await;
    let mut config = Config::new(ground.url.parse().unwrap());
    config.root_cert = Some(vec![pem_to_der(ground.server.ca_pem())]);
    config.auth_info.token = Some("secret".to_owned().into());
    let client = Client::try_from(config).unwrap();
    let error = client
        .request_text(get("/services/nothing"))
        .await
        .unwrap_err();
    assert!(error.to_string().contains("404"), "{error:?}");
}

fn pem_to_der(pem: &str) -> Vec<u8> {
    let body: String = pem
        .lines()
        .filter(|line| !line.starts_with("-----"))
        .collect();
    base64::engine::general_purpose::STANDARD
        .decode(body)
        .unwrap()
}
