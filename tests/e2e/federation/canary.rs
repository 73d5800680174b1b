//! What objects contain is told to nobody: not by the log at its most verbose, not by events, the status of any object,
//! or pages. Every value that the test writes has one word in it, which is looked for afterwards.
//!
//! The status that a member gives a copy is reported where its type asks for it: this is a content, too, and is found in
//! the federated object alone.

use anyhow::{Context as _, Result, ensure};
use serde_json::{Value, json};

use super::world::{SYSTEM, Way, World, config_maps, core, everywhere, federated, target};
use crate::canary::{CANARY, WHOLE_ENCODED, assert_untold, is_told, strict};

const NAMESPACE: &str = "canary";
const GROUP: &str = "vaults.example.com";

/// A federated object that has the word wherever it can.
fn object(kind: &str, name: &str, template: &Value) -> Value {
    let mut template = template.clone();
    template["metadata"]["labels"]["example.com/label"] = CANARY.into();
    template["metadata"]["annotations"]["example.com/note"] = format!("{CANARY} and\nmore").into();
    json!({
        "apiVersion": "types.kubefed.io/v1beta1", "kind": format!("Federated{kind}"),
        "metadata": {"name": name}, "spec": {"template": template, "placement": everywhere()},
    })
}

/// What the member refuses, by what it says of it.
fn refused() -> Vec<(&'static str, &'static str, Value, &'static str)> {
    let vault = |spec: Value| json!({"spec": spec});
    vec![
        (
            "Vault",
            "code",
            vault(json!({"code": CANARY})),
            "spec.code: Invalid value",
        ),
        (
            "Vault",
            "tier",
            vault(json!({"tier": CANARY})),
            "spec.tier: Unsupported value",
        ),
        (
            "Vault",
            "size",
            vault(json!({"size": CANARY})),
            "spec.size: Invalid value",
        ),
        (
            "Vault",
            "token",
            vault(json!({"token": CANARY})),
            "spec: Invalid value",
        ),
        (
            "Vault",
            "list",
            vault(json!({"list": ["1", CANARY]})),
            "spec.list[1]",
        ),
        (
            "ConfigMap",
            "no-text",
            json!({"data": {"k": {"inner": [CANARY]}}}),
            "refused as invalid",
        ),
    ]
}

fn all(kind: &str) -> String {
    federated(NAMESPACE, &format!("federated{}s", kind.to_lowercase()))
}

/// Host and members are played: they quote values in the words of a kube-apiserver.
#[tokio::test]
async fn nothing_that_objects_contain_is_told_by_log_event_status_or_page() -> Result<()> {
    let mut world = World::played().await?;
    let (host, member) = (world.host().await?, world.member(0).await?);
    for number in 0..world.members.len() {
        let member = world.member(number).await?;
        member.define(&strict(GROUP, "Vault", "vaults")).await?;
    }
    for of in [
        target(GROUP, "Vault", "vaults", "Namespaced"),
        target("", "Secret", "secrets", "Namespaced"),
    ] {
        world.enable(&of).await?;
    }
    let collects = json!({"spec": {"statusCollection": "Enabled"}});
    let config = format!("{}/vaults.{GROUP}", core("federatedtypeconfigs"));
    host.patch(&config, &collects).await?;
    world.flags = vec!["--federate-annotations"];
    world.start().await?;
    world.namespace_on(NAMESPACE, world.members.len()).await?;

    lives(&host, &member).await?;
    let rows = refused();
    for (kind, name, template, _) in &rows {
        host.create_planted(&all(kind), &object(kind, name, template))
            .await?;
    }
    overrides(&host).await?;
    for (kind, name, _, said) in &rows {
        let path = format!("{}/{name}", all(kind));
        let told = host.until_reason(&path, Some("CheckClusters")).await;
        ensure!(!is_told(&told["status"].to_string()), "{told:#}");
        host.until_event(NAMESPACE, "CreateInClusterFailed", said)
            .await;
    }
    changes(&host).await?;

    let mut told = Vec::new();
    for path in [
        &*format!("/api/v1/namespaces/{NAMESPACE}/events"),
        &*format!("/api/v1/namespaces/{SYSTEM}/events"),
        &*core("kubefedclusters"),
        &*core("federatedtypeconfigs"),
        &*format!("/apis/core.kubefed.io/v1alpha1/namespaces/{NAMESPACE}/propagatedversions"),
    ] {
        let found = host.get(path).await?.with_context(|| path.to_owned())?;
        let items = found["items"].as_array().cloned().unwrap_or_default();
        // What a test has made has the word among its annotations.
        told.extend(items.into_iter().map(|mut item| {
            item["metadata"]["annotations"] = Value::Null;
            (path.to_owned(), item.to_string())
        }));
    }
    for (flag, path) in [
        ("--metrics-addr", "/metrics"),
        ("--healthz-addr", "/readyz"),
        ("--healthz-addr", "/debug/pprof/goroutine"),
    ] {
        told.push((path.to_owned(), world.page(flag, path).await?));
    }
    for (what, text) in &told {
        assert_untold(what, text);
    }
    // The log is looked through with the world.
    Ok(())
}

/// Objects that travel, with a status that comes back.
async fn lives(host: &Way, member: &Way) -> Result<()> {
    let spec = json!({"spec": {
        "note": CANARY, "list": ["1"], "map": {CANARY: {"inner": [CANARY]}}, CANARY: CANARY,
    }});
    host.create_planted(&all("Vault"), &object("Vault", "fine", &spec))
        .await?;
    let data = json!({"data": {CANARY: CANARY}});
    host.create_planted(&all("ConfigMap"), &object("ConfigMap", "fine", &data))
        .await?;
    let data = json!({"data": {CANARY: WHOLE_ENCODED}});
    host.create_planted(&all("Secret"), &object("Secret", "fine", &data))
        .await?;
    let copy = format!("/apis/{GROUP}/v1/namespaces/{NAMESPACE}/vaults/fine");
    member.until_there(&copy).await;
    let status = json!({"status": {"said": CANARY, "list": [{"inner": CANARY}]}});
    member.patch(&format!("{copy}/status"), &status).await?;
    host.until(&format!("{}/fine", all("Vault")), |found| {
        found["status"]["clusters"][0]["remoteStatus"]["said"] == CANARY
    })
    .await;
    for path in [
        format!("{}/fine", config_maps(NAMESPACE)),
        format!("/api/v1/namespaces/{NAMESPACE}/secrets/fine"),
    ] {
        let copy = member.until_there(&path).await;
        ensure!(
            copy["metadata"]["labels"]["example.com/label"] == CANARY,
            "{copy:#}"
        );
    }
    Ok(())
}

/// Overrides that cannot be applied, or whose result is refused.
async fn overrides(host: &Way) -> Result<()> {
    let steps = [
        (
            "nowhere",
            json!({"path": "/data/none/none", "value": CANARY}),
            "ApplyOverridesFailed",
        ),
        (
            "renamed",
            json!({"path": "/metadata/name", "value": CANARY}),
            "ApplyOverridesFailed",
        ),
        (
            "no-map",
            json!({"op": "replace", "path": "/data", "value": CANARY}),
            "CreationFailed",
        ),
        (
            "labelled",
            json!({"op": "add", "path": "/metadata/labels/l", "value": format!("{CANARY} and more!")}),
            "CreationFailed",
        ),
    ];
    for (name, step, _) in &steps {
        let mut map = object("ConfigMap", name, &json!({"data": {"k": CANARY}}));
        map["spec"]["overrides"] = json!([{"clusterName": "cluster1", "clusterOverrides": [step]}]);
        host.create_planted(&all("ConfigMap"), &map).await?;
    }
    for (name, _, status) in &steps {
        let path = format!("{}/{name}", all("ConfigMap"));
        let told = host.until_reason(&path, Some("CheckClusters")).await;
        ensure!(
            told["status"]["clusters"][0]["status"] == *status,
            "{told:#}"
        );
        ensure!(!is_told(&told["status"].to_string()), "{told:#}");
    }
    Ok(())
}

/// A deletion whose options cannot be read.
async fn changes(host: &Way) -> Result<()> {
    let path = format!("{}/fine", all("ConfigMap"));
    let options =
        |text: &str| json!({"metadata": {"annotations": {"kubefed.io/deleteoption": text}}});
    host.patch(&path, &options(&format!("\"{CANARY}\"")))
        .await?;
    host.delete(&path).await?;
    host.until_event(NAMESPACE, "InvalidDeleteOptions", "invalid type")
        .await;
    host.patch(&path, &options("{}")).await?;
    host.until_gone(&path).await;
    Ok(())
}
