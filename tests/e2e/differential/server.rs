//! One of the two servers, as one topic sees it: requests, what was kept of their answers, watches.

use std::collections::BTreeMap;
use std::sync::Arc;

use anyhow::{Context as _, Result, bail, ensure};
use bytes::Bytes;
use http::{HeaderMap, Request, Response, Uri};
use http_body_util::{BodyExt as _, Full};
use hyper_util::rt::{TokioExecutor, TokioIo};
use kube::client::{Body, ConfigExt as _};
use kube::{Client, Config};
use serde_json::{Map, Value, json};
use testbed::SOON;
use tokio::net::TcpStream;
use tokio::sync::mpsc;
use tokio_rustls::TlsConnector;

use super::step::{Ask, Bookmarks, Condition, Events, Managers, Order, Protocol, Until, Who};
use super::{normal, packed};

/// Headers that always have to be the same.
const HEADERS: [&str; 7] = [
    "content-type",
    "cache-control",
    "warning",
    "retry-after",
    "allow",
    "location",
    "content-encoding",
];

/// How to reach a server; topics share its connections.
#[derive(Clone)]
pub(super) struct Reach {
    admin: Client,
    nobody: Client,
    config: Config,
    token: Option<String>,
}

impl Reach {
    pub(super) fn new(mut config: Config, token: Option<String>) -> Result<Self> {
        // An answer is an answer, also one that says to come again.
        config.default_retry = false;
        let mut nobody = config.clone();
        nobody.auth_info = kube::config::AuthInfo::default();
        Ok(Self {
            admin: Client::try_from(config.clone())?,
            nobody: Client::try_from(nobody)?,
            config,
            token,
        })
    }

    /// A connection of HTTP/2 for one request; the rest is HTTP/1.1.
    async fn send_by_http2(&self, request: Request<Vec<u8>>) -> Result<Response<Vec<u8>>> {
        let url = &self.config.cluster_url;
        let (host, port) = (
            url.host().context("no host")?.to_owned(),
            url.port_u16().context("no port")?,
        );
        let mut tls = self.config.rustls_client_config()?;
        tls.alpn_protocols = vec![b"h2".to_vec()];
        let tcp = TcpStream::connect((host.as_str(), port)).await?;
        let stream = TlsConnector::from(Arc::new(tls))
            .connect(host.clone().try_into()?, tcp)
            .await?;
        let (mut sender, connection) =
            hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(stream))
                .await?;
        let driven = tokio::spawn(connection);
        let (mut parts, body) = request.into_parts();
        parts.uri = Uri::builder()
            .scheme("https")
            .authority(format!("{host}:{port}"))
            .path_and_query(parts.uri.to_string())
            .build()?;
        if let Some(token) = &self.token {
            let value = format!("Bearer {token}");
            parts.headers.insert("authorization", value.parse()?);
        }
        let response = sender
            .send_request(Request::from_parts(parts, Full::new(Bytes::from(body))))
            .await?;
        let (parts, body) = response.into_parts();
        let bytes = body.collect().await?.to_bytes().to_vec();
        driven.abort();
        Ok(Response::from_parts(parts, bytes))
    }
}

/// An answer without what differs from server to server.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Answer {
    pub(super) code: u16,
    /// `code`, `headers`, `body`: all that is compared.
    pub(super) whole: Value,
}

pub(super) struct Server {
    reach: Reach,
    namespace: String,
    group: String,
    kept: Map<String, Value>,
    watches: BTreeMap<&'static str, Opened>,
}

struct Opened {
    events: mpsc::UnboundedReceiver<Value>,
}

impl Server {
    pub(super) fn new(reach: Reach, topic: &str) -> Self {
        Self {
            reach,
            namespace: format!("diff-{topic}"),
            group: format!("{topic}.diff.example.com"),
            kept: Map::new(),
            watches: BTreeMap::new(),
        }
    }

    /// `$ns`, `$group` and what was kept, filled in.
    fn filled(&self, text: &str) -> String {
        let mut text = text
            .replace("$ns", &self.namespace)
            .replace("$group", &self.group);
        for (key, object) in &self.kept {
            for (name, field) in [
                ("rv", "resourceVersion"),
                ("uid", "uid"),
                ("continue", "continue"),
            ] {
                let value = object["metadata"][field].as_str().unwrap_or_default();
                text = text.replace(&format!("${name}({key})"), value);
            }
            let begin = format!("$at({key},");
            while let Some((before, rest)) = text.split_once(&begin) {
                let Some((pointer, after)) = rest.split_once(')') else {
                    break;
                };
                let value = match object.pointer(pointer) {
                    Some(Value::String(text)) => text.clone(),
                    Some(other) => other.to_string(),
                    None => String::new(),
                };
                text = format!("{before}{value}{after}");
            }
        }
        text
    }

    fn request(&self, ask: &Ask) -> Result<Request<Vec<u8>>> {
        let body = match std::str::from_utf8(&ask.body) {
            Ok(text) => self.filled(text).into_bytes(),
            Err(_) => ask.body.clone(),
        };
        let mut request = Request::builder()
            .method(ask.method.clone())
            .uri(self.filled(&ask.path));
        for (name, value) in &ask.headers {
            request = request.header(*name, self.filled(value));
        }
        Ok(request.body(body)?)
    }

    async fn send(&self, ask: &Ask) -> Result<Response<Body>> {
        let client = match ask.who {
            Who::Admin => &self.reach.admin,
            Who::Nobody => &self.reach.nobody,
        };
        let request = self.request(ask)?.map(Body::from);
        Ok(tokio::time::timeout(SOON, client.send(request))
            .await
            .context("no answer")??)
    }

    async fn collected(&self, ask: &Ask) -> Result<Response<Vec<u8>>> {
        if ask.protocol == Protocol::Http2 {
            let answer = self.reach.send_by_http2(self.request(ask)?);
            return tokio::time::timeout(SOON, answer)
                .await
                .context("no answer")?;
        }
        let (parts, body) = self.send(ask).await?.into_parts();
        let bytes = tokio::time::timeout(SOON, body.collect_bytes())
            .await
            .context("no end of the answer")??;
        Ok(Response::from_parts(parts, bytes.to_vec()))
    }

    pub(super) async fn ask(&mut self, ask: &Ask) -> Result<Answer> {
        // The real one asks for patience while it prepares to store a kind.
        let ready = testbed::within(SOON, async || {
            let answer = self.collected(ask).await;
            let busy = answer.as_ref().is_ok_and(|answer| {
                answer.status().as_u16() == 429
                    && String::from_utf8_lossy(answer.body()).contains("(re)initializing")
            });
            ensure!(!busy, "storage is being initialized");
            anyhow::Ok(answer)
        });
        let ready = ready.await.map_err(|last| anyhow::anyhow!("{last}"))?;
        let (parts, bytes) = ready?.into_parts();
        let mut body = document(&bytes);
        if let Some(key) = ask.keep {
            self.kept.insert(key.to_owned(), body.clone());
        }
        let managers = (ask.managers == Managers::Compared).then(|| normal::managers(&body));
        normal::normalise(&mut body);
        if let Some(managers) = managers
            && let Some(body) = body.as_object_mut()
        {
            body.insert("(managers)".to_owned(), managers);
        }
        if let Some(change) = ask.settle {
            change(&mut body);
        }
        Ok(answer(parts.status.as_u16(), &parts.headers, ask, body))
    }

    /// The condition is looked at again and again.
    pub(super) async fn wait(&mut self, ask: &Ask, condition: &Condition) -> Result<()> {
        let met = testbed::within(SOON, async || {
            let (parts, bytes) = self.collected(ask).await?.into_parts();
            let body = read(&bytes);
            let met = match condition {
                Condition::Code(code) => parts.status.as_u16() == *code,
                Condition::At(pointer, value) => body.pointer(pointer) == Some(value),
                Condition::Names(name) => {
                    let named = json!({"name": name}).to_string();
                    body.to_string().contains(named.trim_matches(['{', '}']))
                }
                Condition::Established => {
                    let conditions = body["status"]["conditions"].as_array();
                    conditions.is_some_and(|all| {
                        all.iter()
                            .any(|one| one["type"] == "Established" && one["status"] == "True")
                    })
                }
                Condition::Version(version) => {
                    let wanted = self.filled(version);
                    let versions = body["versions"].as_array();
                    versions.is_some_and(|all| all.iter().any(|one| one["groupVersion"] == *wanted))
                }
                Condition::Nothing(pointer) => body.pointer(pointer).is_none(),
            };
            ensure!(met, "{} {body}", parts.status);
            anyhow::Ok(())
        });
        met.await
            .map_err(|last| anyhow::anyhow!("awaited in vain at {}: {last:.2000}", ask.path))
    }

    /// Opens a watch; what is answered to it, and the body if it is no stream.
    pub(super) async fn watch(&mut self, name: &'static str, ask: &Ask) -> Result<Answer> {
        let (parts, mut body) = self.send(ask).await?.into_parts();
        let code = parts.status.as_u16();
        if code != 200 {
            let bytes = body.collect_bytes().await?;
            let mut body = document(&bytes);
            normal::normalise(&mut body);
            return Ok(answer(code, &parts.headers, ask, body));
        }
        let (sender, events) = mpsc::unbounded_channel();
        let media_type = parts.headers.get("content-type");
        let take = match media_type.and_then(|media_type| media_type.to_str().ok()) {
            Some(media_type) if media_type.starts_with(packed::PROTOBUF) => packed::take_events,
            _ => take_lines,
        };
        tokio::spawn(async move {
            let mut pending = Vec::new();
            while let Some(Ok(frame)) = body.frame().await {
                let Ok(data) = frame.into_data() else {
                    continue;
                };
                pending.extend_from_slice(&data);
                for event in take(&mut pending) {
                    if sender.send(event).is_err() {
                        return;
                    }
                }
            }
        });
        self.watches.insert(name, Opened { events });
        Ok(answer(code, &parts.headers, ask, Value::Null))
    }

    pub(super) async fn events(&mut self, wanted: &Events) -> Result<Value> {
        let Some(opened) = self.watches.get_mut(wanted.watch) else {
            bail!("no watch {} is open", wanted.watch);
        };
        let mut found = Vec::new();
        let read = async {
            loop {
                if matches!(wanted.until, Until::Count(count) if count <= found.len()) {
                    return;
                }
                let Some(event) = opened.events.recv().await else {
                    return;
                };
                let synced = event
                    .pointer("/object/metadata/annotations/k8s.io~1initial-events-end")
                    .is_some();
                let bookmark = event["type"] == "BOOKMARK";
                let done = match &wanted.until {
                    Until::Count(_) | Until::End => false,
                    Until::Synced => synced && bookmark,
                    Until::Seen(kind, name) => {
                        event["type"] == *kind && event["object"]["metadata"]["name"] == *name
                    }
                };
                if !bookmark || synced || wanted.bookmarks == Bookmarks::Compared {
                    found.push(normalised(event));
                }
                if done {
                    return;
                }
            }
        };
        let ended = tokio::time::timeout(SOON, read).await;
        ensure!(
            ended.is_ok(),
            "watch {}: what is awaited does not come; so far {found:?}",
            wanted.watch
        );
        if wanted.order == Order::Any {
            found.sort_by_key(|event| {
                (
                    event["type"] == "BOOKMARK",
                    event["object"]["metadata"]["namespace"].to_string(),
                    event["object"]["metadata"]["name"].to_string(),
                )
            });
        }
        Ok(found.into())
    }
}

/// What an answer says, whatever it is written in.
fn document(bytes: &[u8]) -> Value {
    if packed::is_packed(bytes) {
        packed::read(bytes)
    } else {
        read(bytes)
    }
}

/// Takes the events that are there as a whole from the beginning of a stream.
fn take_lines(pending: &mut Vec<u8>) -> Vec<Value> {
    let mut found = Vec::new();
    while let Some(end) = pending.iter().position(|byte| *byte == b'\n') {
        let line: Vec<u8> = pending.drain(..=end).collect();
        found.push(read(&line));
    }
    found
}

fn read(bytes: &[u8]) -> Value {
    serde_json::from_slice(bytes).unwrap_or_else(|_| match std::str::from_utf8(bytes) {
        Ok(text) => json!({"text": text}),
        Err(_) => json!({"bytes": bytes.len()}),
    })
}

fn normalised(mut event: Value) -> Value {
    if let Some(object) = event.get_mut("object") {
        normal::normalise(object);
    }
    event
}

fn answer(code: u16, headers: &HeaderMap, ask: &Ask, body: Value) -> Answer {
    let mut shown = Map::new();
    for name in HEADERS.iter().chain(&ask.compared_headers) {
        let values: Vec<Value> = headers
            .get_all(*name)
            .iter()
            .map(|value| String::from_utf8_lossy(value.as_bytes()).into())
            .collect();
        if !values.is_empty() {
            shown.insert((*name).to_owned(), values.into());
        }
    }
    Answer {
        code,
        whole: json!({"code": code, "headers": shown, "body": body}),
    }
}
