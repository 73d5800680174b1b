//! What objects contain is told to nobody: not by the log at its most verbose, not by events, conditions or
//! metrics. Every value that the test writes has one word in it, which is looked for afterwards.

use anyhow::{Result, ensure};
use serde_json::{Value, json};
use testbed::{Port, eventually};

use super::plane::Kind;
use super::process::page;
use super::service::{self, Ground};
use super::world::{PUBLISHED, World};
use super::{SOON, gadgets};
use crate::canary::{CANARY, assert_untold};

on_both_grounds!(nothing_that_objects_contain_is_told_by_log_event_condition_or_metric,);

on_the_playground!(nothing_that_objects_contain_is_told_by_log_event_condition_or_metric,);

/// Gadgets that are published free, and strict where they are stored.
fn strict(group: &str) -> Value {
    let mut crd = gadgets(group);
    let mut strict = crd["spec"]["versions"][0].clone();
    strict["name"] = "v2".into();
    crd["spec"]["versions"][0]["storage"] = false.into();
    strict["schema"]["openAPIV3Schema"]["properties"]["spec"] = json!({
        "type": "object", "x-kubernetes-preserve-unknown-fields": true,
        "properties": {
            "code": {"type": "string", "pattern": "^[0-9]*$"},
            "tier": {"type": "string", "enum": ["small", "large"]},
            "size": {"type": "integer"},
            "token": {"type": "string"},
            "list": {"type": "array", "items": {"type": "string", "maxLength": 3}},
        },
        "x-kubernetes-validations": [{
            "rule": "!has(self.token) || self.token == 'right'",
            "messageExpression": "'the token ' + self.token + ' is wrong'",
        }],
    });
    if let Some(versions) = crd["spec"]["versions"].as_array_mut() {
        versions.push(strict);
    }
    crd
}

async fn nothing_that_objects_contain_is_told_by_log_event_condition_or_metric(
    world: &World,
) -> Result<()> {
    if world.ground != Ground::Playground {
        let rule = json!({"apiGroups": [""], "resources": ["secrets", "configmaps"],
            "verbs": ["get", "list", "watch", "create", "update", "patch", "delete"]});
        service::bind(&world.service, &world.user(), None, &[rule]).await?;
    }
    let local = world.install(&strict(&world.group)).await?;
    let entry = |identifier: &str, origin: &str, kind: &str, path: &str| {
        json!({"identifier": identifier, "origin": origin, "kind": kind,
            "object": {"reference": {"path": path}}})
    };
    let more = json!({
        "resource": {"version": "v1"},
        "mutation": {"spec": [
            {"cel": {"path": "spec.number", "expression": "has(self.spec.cel) ? int(self.spec.cel) : 0"}},
            {"template": {"path": "spec.text",
                "template": "{{ with .RemoteObject.spec.fail }}{{ fail . }}{{ end }}"}},
        ]},
        "related": [
            entry("up", "kcp", "Secret", "spec.up"),
            entry("map", "kcp", "ConfigMap", "spec.map"),
            entry("down", "service", "Secret", "spec.down"),
        ],
    });
    let published = world.publish(&local, more.clone()).await?;
    let metrics = Port::reserve()?;
    let _agent = world
        .launch()?
        .arg(format!("--metrics-address=127.0.0.1:{}", metrics.number()))
        .spawn()?;
    world.await_published(&published).await;
    world.await_claimed(&more).await;
    let team = world.team("team").await?;
    let kind = Kind::new(&world.group, "v1", "gadgets", "Gadget");

    let secret = Kind::new("", "v1", "secrets", "Secret");
    let map = Kind::new("", "v1", "configmaps", "ConfigMap");
    let text = format!("{CANARY}-and-more\nof it");
    let make = async |name: &str, spec: Value| {
        let mut object = kind.object(name, spec);
        object["metadata"]["annotations"] = json!({"example.com/note": text});
        object["metadata"]["labels"] = json!({"example.com/label": CANARY});
        team.make_at(&kind.within("default"), &object).await;
    };
    let own = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "up"},
        "stringData": {"k": text}});
    team.plane.create(&secret.within("default"), &own).await?;
    let own = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "map"},
        "data": {"k": text}});
    team.plane.create(&map.within("default"), &own).await?;
    make(
        "fine",
        json!({
            "note": text, "up": "up", "map": "map", "down": "down", "code": "1", CANARY: CANARY,
            "list": ["1"], "nested": {CANARY: [{CANARY: [text]}]},
        }),
    )
    .await;
    let copy = world.await_copy(&local, team.of("fine")).await;
    let namespace = copy["metadata"]["namespace"].as_str().unwrap_or_default();
    let theirs = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "down"},
        "stringData": {"k": text}});
    world
        .service
        .create(&secret.within(namespace), &theirs)
        .await?;
    let name = copy["metadata"]["name"].as_str().unwrap_or_default();
    world
        .service
        .merge(
            &format!("{}/status", local.at(namespace, name)),
            json!({"status": {"said": text, CANARY: [{"inner": CANARY}]}}),
        )
        .await?;
    for (field, value) in [
        ("code", json!(CANARY)),
        ("tier", json!(CANARY)),
        ("size", json!(CANARY)),
        ("token", json!(CANARY)),
        ("list", json!(["1", CANARY])),
        ("cel", json!(CANARY)),
        ("fail", json!(text)),
        ("up", json!(format!("{CANARY} is no name"))),
    ] {
        make(field, json!({field: value})).await;
    }

    let events = async || team.plane.list("/api/v1/namespaces/default/events").await;
    eventually(SOON, "each of them is refused", async || -> Result<()> {
        let events = events().await?;
        for name in ["code", "tier", "size", "token", "list", "cel", "fail"] {
            let told = events.iter().any(|event| {
                event["involvedObject"]["name"] == name && event["reason"] == "ReconcilingError"
            });
            ensure!(told, "{name}: {events:?}");
        }
        Ok(())
    })
    .await;
    eventually(SOON, "all of it has travelled", async || -> Result<()> {
        let fine = team.get(&kind, "fine").await?;
        ensure!(fine["status"]["said"] == text, "{fine}");
        ensure!(
            team.plane
                .find(&secret.at("default", "down"))
                .await?
                .is_some()
        );
        for (kind, name) in [(&secret, "up"), (&map, "map")] {
            let at = kind.at(namespace, name);
            ensure!(world.service.find(&at).await?.is_some(), "{at}");
        }
        Ok(())
    })
    .await;

    // The log is looked through when the test ends; that it says why is looked at here.
    let log = world.logged()?;
    for said in [
        "spec.code: Invalid value: \"…\"",
        "spec.tier: Unsupported value: \"…\"",
        "spec: Invalid value: \"…\"",
        "MutationFailed",
    ] {
        ensure!(log.contains(said), "{said:?} is not in {log}");
    }
    let condition = world
        .service
        .get(&format!("{PUBLISHED}/{published}"))
        .await?;
    let (_, page) = page(&metrics, "/metrics").await?;
    for (what, told) in [
        ("events", json!(events().await?).to_string()),
        ("the condition", condition.to_string()),
        ("metrics", page),
    ] {
        assert_untold(what, &told);
    }
    Ok(())
}
