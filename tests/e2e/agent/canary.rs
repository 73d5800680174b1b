//! What objects contain is told to nobody: not by the log at its most verbose, not by events, conditions or
//! metrics. Every value that the test writes has one word in it, which is looked for afterwards.

use anyhow::{Result, ensure};
use serde_json::{Value, json};
use testbed::{Port, eventually};

use super::plane::Kind;
use super::process::page;
use super::related::kinds::Parts;
use super::service::{self, Ground};
use super::world::{PUBLISHED, World};
use super::{SOON, definition, gadgets};
use crate::canary::{self, CANARY, WHOLE_ENCODED, assert_untold};

on_both_grounds!(
    nothing_that_objects_contain_is_told_by_log_event_condition_or_metric,
    nothing_that_related_objects_contain_is_told_whatever_their_kind,
);

on_the_playground!(
    nothing_that_objects_contain_is_told_by_log_event_condition_or_metric,
    nothing_that_related_objects_contain_is_told_whatever_their_kind,
);

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

/// Related objects of both origins and of several kinds, with a status on both sides. Each has the word wherever it can.
async fn nothing_that_related_objects_contain_is_told_whatever_their_kind(
    world: &World,
) -> Result<()> {
    if world.ground != Ground::Playground {
        let rule = json!({"apiGroups": [""], "resources": ["secrets", "configmaps"],
            "verbs": ["get", "list", "watch", "create", "update", "patch", "delete"]});
        service::bind(&world.service, &world.user(), None, &[rule]).await?;
    }
    let local = world.gadgets().await?;
    let group = format!("parts.{}", world.agent);
    let free = Parts::served_with_status(&definition(&group, "parts", "Part"));
    let strict = canary::strict(&group, "Part", "parts");
    let parts = Parts::install(world, strict, &free).await?;
    let path = |path: &str| json!({"reference": {"path": path}});
    let entry = |identifier: &str, origin: &str, kind: &str| {
        json!({"identifier": identifier, "origin": origin, "kind": kind,
            "object": path(&format!("spec.{identifier}"))})
    };
    let part = |identifier: &str, origin: &str| {
        let mut entry = parts.entry(identifier, origin, path(&format!("spec.{identifier}")));
        if origin == "kcp" {
            entry["syncStatus"] = true.into();
        }
        entry
    };
    let more = json!({"related": [
        entry("upSecret", "kcp", "Secret"), entry("downSecret", "service", "Secret"),
        entry("upMap", "kcp", "ConfigMap"), entry("downMap", "service", "ConfigMap"),
        part("upPart", "kcp"), part("downPart", "service"),
    ]});
    let published = world.publish(&local, more.clone()).await?;
    let _agent = world.start_agent()?;
    world.await_published(&published).await;
    world.await_claimed(&more).await;
    let team = world.team("team").await?;
    parts.bind(&team).await?;

    let text = format!("{CANARY}-and-more\nof it");
    let within = |mut object: Value, content: Value| {
        object["metadata"]["labels"] = json!({"example.com/label": CANARY});
        object["metadata"]["annotations"] = json!({"example.com/note": text});
        for (field, value) in content.as_object().into_iter().flatten() {
            object[field] = value.clone();
        }
        object
    };
    let secret = Kind::new("", "v1", "secrets", "Secret");
    let map = Kind::new("", "v1", "configmaps", "ConfigMap");
    let core = |kind: &Kind, name: &str, content: Value| {
        let object = json!({"apiVersion": "v1", "kind": kind.name, "metadata": {"name": name}});
        within(object, content)
    };
    let secret_of = |name: &str| {
        core(
            &secret,
            name,
            json!({"data": {CANARY: WHOLE_ENCODED}, "stringData": {"k": text}}),
        )
    };
    let map_of = |name: &str| {
        core(
            &map,
            name,
            json!({"data": {CANARY: text}, "binaryData": {"b": WHOLE_ENCODED}}),
        )
    };
    let part_of = |name: &str, spec: Value| within(parts.kind.object(name, spec), json!({}));
    let spec = || json!({"note": text, "list": ["1"], CANARY: CANARY, "nested": {CANARY: [{CANARY: [text]}]}});
    for (kind, object) in [
        (&secret, secret_of("up-secret")),
        (&map, map_of("up-map")),
        (&parts.kind, part_of("up-part", spec())),
    ] {
        team.make_at(&kind.within("default"), &object).await;
    }
    let named = json!({
        "upSecret": "up-secret", "upMap": "up-map", "upPart": "up-part",
        "downSecret": "down-secret", "downMap": "down-map", "downPart": "down-part",
    });
    team.make(&local, "fine", named).await;
    let copy = world.await_copy(&local, team.of("fine")).await;
    let namespace = copy["metadata"]["namespace"].as_str().unwrap_or_default();
    for (kind, object) in [
        (&secret, secret_of("down-secret")),
        (&map, map_of("down-map")),
        (&parts.kind, part_of("down-part", spec())),
    ] {
        world
            .service
            .create(&kind.within(namespace), &object)
            .await?;
    }
    // Each is on both sides.
    for (kind, what) in [(&secret, "secret"), (&map, "map"), (&parts.kind, "part")] {
        let (up, down) = (format!("up-{what}"), format!("down-{what}"));
        for (plane, at) in [
            (&world.service, kind.at(namespace, &up)),
            (&team.plane, kind.at("default", &down)),
        ] {
            eventually(SOON, &format!("{at} is there"), async || -> Result<()> {
                ensure!(plane.find(&at).await?.is_some(), "it is not");
                Ok(())
            })
            .await;
        }
    }
    let said = json!({"status": {"said": text, CANARY: [{"inner": CANARY}]}});
    let at = parts.kind.at(namespace, "up-part");
    world.service.merge(&format!("{at}/status"), said).await?;
    let there = parts.kind.at("default", "up-part");
    eventually(SOON, "the status is copied", async || -> Result<()> {
        let found = team.plane.get(&there).await?;
        ensure!(found["status"]["said"] == text, "{found}");
        Ok(())
    })
    .await;
    // What the service cluster refuses of a consumer.
    let wrong = [
        ("code", json!({"code": CANARY})),
        ("tier", json!({"tier": CANARY})),
        ("size", json!({"size": CANARY})),
        ("token", json!({"token": CANARY})),
        ("list", json!({"list": ["1", CANARY]})),
    ];
    for (name, spec) in &wrong {
        team.make_at(&parts.kind.within("default"), &part_of(name, spec.clone()))
            .await;
        team.make(&local, name, json!({"upPart": name})).await;
    }
    let events = async || team.plane.list("/api/v1/namespaces/default/events").await;
    eventually(SOON, "each of them is refused", async || -> Result<()> {
        let events = events().await?;
        for (name, _) in &wrong {
            let told = events.iter().any(|event| {
                event["involvedObject"]["name"] == *name && event["reason"] == "ReconcilingError"
            });
            ensure!(told, "{name}: {events:?}");
        }
        Ok(())
    })
    .await;
    let log = world.logged()?;
    for said in [
        "spec.code: Invalid value: \"…\"",
        "spec.tier: Unsupported value: \"…\"",
    ] {
        ensure!(log.contains(said), "{said:?} is not in {log}");
    }
    // Logs, conditions and metrics are looked through when the test ends.
    assert_untold("events", &json!(events().await?).to_string());
    Ok(())
}
