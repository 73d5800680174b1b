//! The playground and the real kube-apiserver are asked the same and have to answer the same: code,
//! reason, details and causes of refusals, and objects without what differs from server to server.

use std::fmt::Write as _;
use std::io::{self, Write as _};
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use hawser::playground::{Playground, PlaygroundOptions};
use http::{Method, Request};
use kube::Client;
use kube::config::{KubeConfigOptions, Kubeconfig};
use serde_json::{Map, Value, json};
use testbed::cluster::Controllers;
use testbed::{Options, ServiceCluster};

mod script;

/// One request of the script. `$ns` stands for a namespace, `$rv(KEY)` and `$uid(KEY)` for those of an
/// earlier answer that was kept under that key.
pub(crate) struct Ask {
    pub(crate) method: Method,
    pub(crate) path: String,
    pub(crate) media_type: &'static str,
    pub(crate) body: Value,
    pub(crate) keep: Option<&'static str>,
}

/// An answer without what differs from server to server.
#[derive(Clone, Debug, PartialEq)]
struct Answer {
    code: u16,
    body: Value,
    message: String,
}

struct Asked {
    client: Client,
    kept: Map<String, Value>,
}

impl Asked {
    fn new(client: Client) -> Self {
        Self {
            client,
            kept: Map::new(),
        }
    }

    fn filled(&self, text: &str) -> String {
        let mut text = text.replace("$ns", "diff");
        for (key, object) in &self.kept {
            for (name, field) in [("rv", "resourceVersion"), ("uid", "uid")] {
                let value = object["metadata"][field].as_str().unwrap_or_default();
                text = text.replace(&format!("${name}({key})"), value);
            }
        }
        text
    }

    async fn ask(&mut self, ask: &Ask) -> Result<Answer> {
        let body = match &ask.body {
            Value::Null => Vec::new(),
            // Text that is no JSON is sent as it stands.
            Value::String(text) => self.filled(text).into_bytes(),
            other => self.filled(&other.to_string()).into_bytes(),
        };
        let request = Request::builder()
            .method(ask.method.clone())
            .uri(self.filled(&ask.path))
            .header("Content-Type", ask.media_type)
            .header("Accept", "application/json")
            .body(kube::client::Body::from(body))?;
        let response = self.client.send(request).await?;
        let code = response.status().as_u16();
        let bytes = response.into_body().collect_bytes().await?;
        let mut body: Value = serde_json::from_slice(&bytes)
            .unwrap_or_else(|_| json!({"text": String::from_utf8_lossy(&bytes)}));
        if let Some(key) = ask.keep {
            self.kept.insert(key.to_owned(), body.clone());
        }
        let message = body["message"].as_str().unwrap_or_default().to_owned();
        normalise(&mut body);
        Ok(Answer {
            code,
            body,
            message,
        })
    }
}

/// Takes out what differs from server to server.
fn normalise(value: &mut Value) {
    if value["kind"] == "Status" {
        if value["status"] == "Failure"
            && let Some(root) = value.as_object_mut()
        {
            root.remove("message");
        }
        if let Some(causes) = value["details"]["causes"].as_array_mut() {
            for cause in causes {
                if let Some(cause) = cause.as_object_mut() {
                    cause.remove("message");
                }
            }
        }
        if let Some(details) = value["details"].as_object_mut() {
            details.remove("uid");
            // The real server's order is that of a hash map.
            if let Some(Value::Array(causes)) = details.get_mut("causes") {
                causes.sort_by_key(Value::to_string);
            }
        }
    }
    // A controller of the real cluster puts this one into every namespace, sooner or later.
    if let Some(Value::Array(items)) = value.get_mut("items") {
        items.retain(|item| item["metadata"]["name"] != "kube-root-ca.crt");
    }
    // Items of built-in lists need not repeat what they are.
    for item in value["items"].as_array_mut().into_iter().flatten() {
        if let Some(item) = item.as_object_mut() {
            item.remove("apiVersion");
            item.remove("kind");
        }
    }
    strip(value);
}

fn strip(value: &mut Value) {
    match value {
        Value::Object(map) => {
            for field in [
                "uid",
                "resourceVersion",
                "creationTimestamp",
                "deletionTimestamp",
                "managedFields",
                "lastTransitionTime",
                "storageVersionHash",
                "continue",
            ] {
                if let Some(found) = map.get_mut(field) {
                    if field == "managedFields" || found.is_null() {
                        map.remove(field);
                    } else {
                        *found = "…".into();
                    }
                }
            }
            map.values_mut().for_each(strip);
        }
        Value::Array(list) => list.iter_mut().for_each(strip),
        _ => {}
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_playground_answers_as_kube_apiserver() -> Result<()> {
    let playground = Playground::start(PlaygroundOptions::default()).await?;
    let kubeconfig: Kubeconfig = serde_json::from_value(playground.service_kubeconfig())?;
    let config =
        kube::Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?;
    let mut ours = Asked::new(Client::try_from(config)?);
    let cluster = ServiceCluster::start_with(Options {
        controllers: Controllers::All,
        ..Options::default()
    })
    .await?;
    let mut theirs = Asked::new(cluster.admin().client()?);
    let mut differences = String::new();
    let (mut compared, mut tolerated) = (0, 0);
    for (number, ask) in script::asks().iter().enumerate() {
        if ask.path.starts_with("await ") {
            script::awaited(&ours.client, &ask.path).await?;
            script::awaited(&theirs.client, &ask.path).await?;
            continue;
        }
        let patience = Duration::from_secs(20);
        let asked = async { anyhow::Ok((ours.ask(ask).await?, theirs.ask(ask).await?)) };
        let (mine, real) = tokio::time::timeout(patience, asked)
            .await
            .with_context(|| format!("no answer to {} {}", ask.method, ask.path))??;
        compared += 1;
        if (mine.code, &mine.body) == (real.code, &real.body) {
            continue;
        }
        let title = format!(
            "{} {} {} {}",
            ask.method, ask.path, ask.media_type, ask.body
        );
        if script::TOLERATED
            .iter()
            .any(|(text, _)| title.contains(text))
        {
            tolerated += 1;
            continue;
        }
        let _ = writeln!(
            differences,
            "#{number} {title:.300}\n  ours {} {:.700} {}\n  real {} {:.700} {}",
            mine.code,
            mine.body.to_string(),
            mine.message,
            real.code,
            real.body.to_string(),
            real.message
        );
    }
    playground.stop().await;
    // A line that is not captured is there whether the test fails or not.
    let _ = writeln!(
        io::stderr(),
        "differential: {compared} answers compared, {tolerated} differences tolerated"
    );
    ensure!(differences.is_empty(), "\n{differences}");
    Ok(())
}
