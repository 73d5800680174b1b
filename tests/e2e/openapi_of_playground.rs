//! What the playground says about its types, to those who read it: kubectl, and the agent.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, ensure};
use hawser::testing::{Served, ServedVersion, definition};
use http::Request;
use kcp_playground::Playground;
use kube::Client;
use kube::config::{KubeConfigOptions, Kubeconfig};
use serde_json::{Value, json};
use testbed::{Launch, SOON, ServiceCluster, binaries, eventually, unique};

/// kubectl at one server.
struct Kubectl {
    scratch: tempfile::TempDir,
    kubeconfig: PathBuf,
}

struct Said {
    success: bool,
    /// Both streams, errors last.
    text: String,
}

impl Kubectl {
    fn new(kubeconfig: &Value) -> Result<Self> {
        let scratch = tempfile::tempdir()?;
        let file = scratch.path().join("kubeconfig");
        fs::write(&file, kubeconfig.to_string())?;
        Ok(Self {
            scratch,
            kubeconfig: file,
        })
    }

    fn at(file: &Path) -> Result<Self> {
        Ok(Self {
            scratch: tempfile::tempdir()?,
            kubeconfig: file.to_owned(),
        })
    }

    fn file(&self, name: &str, content: &str) -> Result<String> {
        let file = self.scratch.path().join(name);
        fs::write(&file, content)?;
        Ok(file.display().to_string())
    }

    async fn run(&self, args: &[&str]) -> Result<Said> {
        let said = Launch::new("kubectl", binaries::find("kubectl")?)
            .args(args)
            .env("KUBECONFIG", self.kubeconfig.as_os_str())
            .env("HOME", self.scratch.path().as_os_str())
            .env("KUBE_EDITOR", "sed -i s/count:.*/count:\\ 7/")
            .run(self.scratch.path(), SOON)
            .await?;
        Ok(Said {
            success: said.exit.success(),
            text: format!("{}{}", said.stdout, said.stderr),
        })
    }

    /// Runs it and expects it to succeed.
    async fn does(&self, args: &[&str]) -> Result<String> {
        let said = self.run(args).await?;
        ensure!(said.success, "kubectl {}: {}", args.join(" "), said.text);
        Ok(said.text)
    }

    /// Runs it and expects it to be refused.
    async fn fails(&self, args: &[&str]) -> Result<String> {
        let said = self.run(args).await?;
        ensure!(!said.success, "kubectl {}: {}", args.join(" "), said.text);
        Ok(said.text)
    }
}

async fn client(kubeconfig: &Value) -> Result<Client> {
    let kubeconfig: Kubeconfig = serde_json::from_value(kubeconfig.clone())?;
    let options = KubeConfigOptions::default();
    let config = kube::Config::from_custom_kubeconfig(kubeconfig, &options).await?;
    Ok(Client::try_from(config)?)
}

async fn document(client: &Client, path: &str) -> Result<Value> {
    Ok(client.request(Request::get(path).body(Vec::new())?).await?)
}

/// A definition whose kind no other test of the shared cluster explains.
fn crd(group: &str, plural: &str, kind: &str) -> Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("{plural}.{group}")},
        "spec": {
            "group": group, "scope": "Namespaced",
            "names": {"plural": plural, "kind": kind, "singular": kind.to_lowercase(), "listKind": format!("{kind}List")},
            "versions": [{
                "name": "v1", "served": true, "storage": true, "subresources": {"status": {}},
                "schema": {"openAPIV3Schema": {
                    "type": "object", "description": "An orchard bears fruit.", "required": ["spec"],
                    "properties": {
                        "spec": {
                            "type": "object", "description": "What is wanted.", "required": ["fruit"],
                            "properties": {
                                "fruit": {"type": "string", "enum": ["apple", "pear"], "default": "apple", "description": "What grows."},
                                "count": {"type": "integer", "minimum": 0},
                                "port": {"x-kubernetes-int-or-string": true, "description": "A number or a name."},
                                "trees": {"type": "array", "items": {"type": "object", "required": ["name"], "properties": {"name": {"type": "string"}, "age": {"type": "integer", "nullable": true}}}},
                                "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
                                "inner": {"type": "object", "x-kubernetes-embedded-resource": true, "x-kubernetes-preserve-unknown-fields": true},
                                "maybe": {"type": "string", "nullable": true},
                                "labels": {"type": "object", "additionalProperties": {"type": "string"}},
                            },
                        },
                        "status": {"type": "object", "properties": {"ripe": {"type": "boolean"}}},
                    },
                }},
            }],
        },
    })
}

fn orchard(group: &str, name: &str, more: &str) -> String {
    format!(
        "apiVersion: {group}/v1\nkind: Orchard\nmetadata:\n  name: {name}\nspec:\n  fruit: pear\n  count: 1\n{more}"
    )
}

/// The group reversed, as definitions are named.
fn definition_name(group: &str) -> String {
    let mut parts: Vec<&str> = group.split('.').collect();
    parts.reverse();
    format!("{}.v1.Vineyard", parts.join("."))
}

#[tokio::test(flavor = "multi_thread")]
async fn kubectl_explains_kinds_as_with_a_real_server() -> Result<()> {
    let playground = Playground::start().await?;
    let real = ServiceCluster::shared().await?;
    let ours = Kubectl::new(&playground.service_kubeconfig())?;
    let real = Kubectl::at(real.admin().kubeconfig_file())?;
    let group = format!("{}.example.com", unique("explain"));
    for server in [&ours, &real] {
        let file = server.file("crd.json", &crd(&group, "orchards", "Orchard").to_string())?;
        server.does(&["apply", "-f", &file]).await?;
        eventually(SOON, "kubectl explains it", async || {
            let said = server.run(&["explain", "orchards.spec.trees"]).await?;
            ensure!(said.success && said.text.contains("age"), "{}", said.text);
            Ok::<_, anyhow::Error>(())
        })
        .await;
    }
    for args in [
        vec!["orchards".into()],
        vec!["orchards.spec".into()],
        vec!["orchards.spec.trees".into()],
        vec!["orchards.spec.inner".into()],
        vec!["orchards.metadata.ownerReferences".into()],
        vec!["orchards".into(), "--recursive".into()],
        vec!["configmap".into()],
        vec!["configmap".into(), "--recursive".into()],
        vec!["secret".into()],
        vec!["serviceaccounts.secrets".into()],
        vec!["clusterrole.rules".into()],
        vec!["lease.spec".into()],
        vec!["event".into()],
        vec!["namespace.metadata".into()],
        vec!["resourcequota.spec".into()],
    ] {
        let mut all = vec!["explain"];
        all.extend(args.iter().map(String::as_str));
        let (ours, real) = (ours.does(&all).await?, real.does(&all).await?);
        assert_eq!(ours, real, "{args:?}");
    }
    playground.stop().await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn kubectl_leaves_validation_to_the_server_in_every_scope() -> Result<()> {
    let playground = Playground::start().await?;
    let group = "orchards.example.com";
    for kubeconfig in [playground.service_kubeconfig(), playground.kcp_kubeconfig()] {
        let kubectl = Kubectl::new(&kubeconfig)?;
        let crds = kubectl.file("crd.json", &crd(group, "orchards", "Orchard").to_string())?;
        kubectl.does(&["create", "-f", &crds]).await?;
        let wrong = kubectl.file("wrong.yaml", &orchard(group, "a", "  colour: red\n"))?;
        for verb in ["create", "apply"] {
            let refused = kubectl.fails(&[verb, "-f", &wrong]).await?;
            ensure!(
                refused.contains("strict decoding error: unknown field \"spec.colour\""),
                "{refused}"
            );
        }
        let warned = kubectl
            .does(&["apply", "--validate=warn", "-f", &wrong])
            .await?;
        ensure!(
            warned.contains("Warning: unknown field \"spec.colour\""),
            "{warned}"
        );
        let right = kubectl.file("right.yaml", &orchard(group, "a", "  free: {x: 1}\n"))?;
        let diff = kubectl.fails(&["diff", "-f", &right]).await?;
        ensure!(diff.contains("+  free:"), "{diff}");
        kubectl.does(&["apply", "-f", &right]).await?;
        let again = kubectl.does(&["apply", "-f", &right]).await?;
        ensure!(again.contains("unchanged"), "{again}");
        kubectl.does(&["edit", "orchard", "a"]).await?;
        let count = kubectl
            .does(&["get", "orchard", "a", "-o", "jsonpath={.spec.count}"])
            .await?;
        assert_eq!(count, "7");
        let map = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: m}\ndata: {a: b}\n";
        let map = kubectl.file("map.yaml", map)?;
        kubectl.does(&["apply", "-f", &map]).await?;
        kubectl
            .does(&["patch", "configmap", "m", "-p", r#"{"data":{"c":"d"}}"#])
            .await?;
        let bad = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: m}\nspec: {a: b}\n";
        let bad = kubectl.file("bad.yaml", bad)?;
        let refused = kubectl.fails(&["create", "-f", &bad]).await?;
        ensure!(refused.contains("unknown field \"spec\""), "{refused}");
    }
    // kcp's own kinds are described where they are served.
    let kubectl = Kubectl::new(&playground.kcp_kubeconfig())?;
    for (kind, word) in [("workspace.spec", "type"), ("apiexport.spec", "resources")] {
        let told = kubectl.does(&["explain", kind]).await?;
        ensure!(told.contains(word), "{told}");
    }
    playground.stop().await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_definition_is_published_in_v2_as_by_a_real_server() -> Result<()> {
    let playground = Playground::start().await?;
    let ours = client(&playground.service_kubeconfig()).await?;
    let real = ServiceCluster::shared().await?.admin().client()?;
    let group = format!("{}.example.com", unique("swagger"));
    let name = definition_name(&group);
    let mut found = Vec::new();
    for client in [&ours, &real] {
        let crds = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
        let request = Request::post(crds)
            .header("content-type", "application/json")
            .body(
                crd(&group, "vineyards", "Vineyard")
                    .to_string()
                    .into_bytes(),
            )?;
        client.request::<Value>(request).await?;
        let definitions = eventually(SOON, "it is described", async || {
            let mut document = document(client, "/openapi/v2").await?;
            let kind = document["definitions"][&name].take();
            let list = document["definitions"][format!("{name}List")].take();
            ensure!(
                kind.is_object() && list.is_object(),
                "{name} is not described yet"
            );
            Ok::<_, anyhow::Error>((kind, list))
        })
        .await;
        found.push(definitions);
    }
    let real = found.pop().context("no answer")?;
    let ours = found.pop().context("no answer")?;
    assert_eq!(ours, real);
    playground.stop().await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn the_agent_reads_built_in_types_of_the_playground_as_of_a_real_server() -> Result<()> {
    let playground = Playground::start().await?;
    let ours = document(
        &client(&playground.service_kubeconfig()).await?,
        "/openapi/v2",
    )
    .await?;
    let real = ServiceCluster::shared().await?.admin().client()?;
    let real = document(&real, "/openapi/v2").await?;
    for (group, kind) in [
        ("", "ConfigMap"),
        ("", "Secret"),
        ("", "ServiceAccount"),
        ("", "ResourceQuota"),
        ("", "Event"),
        ("rbac.authorization.k8s.io", "Role"),
        ("rbac.authorization.k8s.io", "RoleBinding"),
        ("coordination.k8s.io", "Lease"),
    ] {
        let served = Served {
            group: group.into(),
            plural: format!("{}s", kind.to_lowercase()),
            kind: kind.into(),
            namespaced: true,
            versions: vec![ServedVersion {
                name: "v1".into(),
                ..ServedVersion::default()
            }],
            preferred: "v1".into(),
            ..Served::default()
        };
        let schema = |document: &Value| -> Result<Value> {
            let crd = definition(&served, document).context(kind)?;
            let schema = crd.spec.versions[0].schema.as_ref().context("no schema")?;
            let schema = schema.open_api.as_ref().context("no schema")?;
            let mut schema: Value = serde_json::from_str(schema.get())?;
            undescribed(&mut schema);
            Ok(schema)
        };
        let (ours, real) = (schema(&ours)?, schema(&real)?);
        assert_eq!(ours, real, "{kind}");
    }
    playground.stop().await;
    Ok(())
}

/// Texts change from one version to the next, and the order of names means nothing.
fn undescribed(value: &mut Value) {
    match value {
        Value::Object(map) => {
            map.retain(|key, value| key != "description" || !value.is_string());
            if let Some(Value::Array(required)) = map.get_mut("required") {
                required.sort_by_key(Value::to_string);
            }
            map.values_mut().for_each(undescribed);
        }
        Value::Array(list) => list.iter_mut().for_each(undescribed),
        _ => {}
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn documents_are_sent_once_and_change_with_what_is_served() -> Result<()> {
    let playground = Playground::start().await?;
    let client = client(&playground.service_kubeconfig()).await?;
    let index = document(&client, "/openapi/v3").await?;
    let address = |index: &Value, path: &str| {
        index["paths"][path]["serverRelativeURL"]
            .as_str()
            .map(str::to_owned)
    };
    let core = address(&index, "api/v1").context("core is not described")?;
    assert_eq!(address(&index, "apis/orchards.example.com/v1"), None);
    let send = |url: &str, header: &str, value: &str| {
        let request = Request::get(url)
            .header(header, value)
            .body(kube::client::Body::empty());
        let client = client.clone();
        async move { Ok::<_, anyhow::Error>(client.send(request?).await?) }
    };
    let first = send(&core, "accept", "application/json").await?;
    assert_eq!(first.status(), 200);
    let caching = first.headers()["cache-control"].to_str()?;
    ensure!(caching.contains("immutable"), "{caching}");
    let tag = first.headers()["etag"].to_str()?.to_owned();
    assert_eq!(send(&core, "if-none-match", &tag).await?.status(), 304);
    assert_eq!(
        send(&core, "if-none-match", "\"other\"").await?.status(),
        200
    );
    let protobuf = "application/com.github.proto-openapi.spec.v3.v1.0+protobuf";
    assert_eq!(send(&core, "accept", protobuf).await?.status(), 406);
    let either = format!("{protobuf},application/json");
    assert_eq!(send(&core, "accept", &either).await?.status(), 200);
    let whole = send("/openapi/v2", "accept", "application/json").await?;
    let crds = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    let request = Request::post(crds)
        .header("content-type", "application/json")
        .body(
            crd("orchards.example.com", "orchards", "Orchard")
                .to_string()
                .into_bytes(),
        )?;
    client.request::<Value>(request).await?;
    let index = document(&client, "/openapi/v3").await?;
    assert_eq!(address(&index, "api/v1"), Some(core));
    ensure!(
        address(&index, "apis/orchards.example.com/v1").is_some(),
        "{index}"
    );
    let changed = send("/openapi/v2", "accept", "application/json").await?;
    assert_ne!(changed.headers()["etag"], whole.headers()["etag"]);
    playground.stop().await;
    Ok(())
}
