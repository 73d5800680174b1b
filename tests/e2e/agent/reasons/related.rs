//! What stands in the way of objects that belong to others.

use anyhow::{Context as _, Result};
use hawser_sync::Code;
use serde_json::{Value, json};

use super::super::plane::Kind;
use super::super::related::kinds::Parts;
use super::super::world::{EXPORT, Team, World};
use super::{Scene, Shown, Ware, name_of, start};
use crate::agent::reasons::faults::beside;
use crate::agent::{definition, service};

on_the_playground!(what_stands_in_the_way_of_related_objects_is_explained_and_mended);

fn secrets() -> Kind {
    Kind::new("", "v1", "secrets", "Secret")
}

fn secret(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}, "stringData": {"k": "v"}})
}

fn entry(identifier: &str, origin: &str, object: Value) -> Value {
    json!({"identifier": identifier, "origin": origin, "kind": "Secret", "object": object})
}

fn by_path(path: &str) -> Value {
    json!({"reference": {"path": path}})
}

async fn what_stands_in_the_way_of_related_objects_is_explained_and_mended(
    world: &World,
) -> Result<()> {
    let mut linked = entry("linked", "service", by_path("spec.linked"));
    linked["requireLink"] = true.into();
    let mut many = entry("many", "service", by_path("spec.many"));
    many["maxObjects"] = 1.into();
    let second = "{{ if .Object.spec.refs }}{{ index .Object.spec.refs 1 }}{{ end }}";
    let related = json!({"related": [
        linked,
        many,
        entry("second", "service", json!({"template": {"template": second}})),
        entry("down", "service", by_path("spec.down")),
        entry("up", "kcp", by_path("spec.up")),
    ]});
    let host = world.ware("Host", related.clone()).await?;
    let crd = definition(&format!("parts.{}", world.agent), "parts", "Part");
    let parts = Parts::install(world, crd.clone(), &Parts::served_with_status(&crd)).await?;
    let mut up = parts.entry("up", "kcp", by_path("spec.up"));
    up["syncStatus"] = true.into();
    let parted = world.ware("Parted", json!({"related": [up]})).await?;
    // The service cluster does not have the kind yet.
    let at = service::crd_at(&parts.kind.to_string());
    world.service.delete(&at).await?;
    let _agent = start(world, &[])?;
    let scene = world.scene(&[&host, &parted], &related).await?;
    parts.bind(&scene.team).await?;

    kinds(&scene, &parted, &parts.kind, &crd).await?;
    references(&scene, &host).await?;
    links(&scene, &host).await?;
    claims(&scene, &host).await?;
    waves(&scene, &host).await?;
    scene.has_shown(Shown::Related)
}

async fn kinds(scene: &Scene<'_>, parted: &Ware, part: &Kind, crd: &Value) -> Result<()> {
    let spec = json!({"up": "bulb"});
    let (_, ends) = scene.made(parted, "lamp", spec).await;
    let advice = "install the CRD of the kind";
    scene.blocks(Code::KindNotServed, advice, &ends).await;
    service::install(&scene.world.service, crd).await?;
    scene.mended(&ends).await;

    let team = &scene.team;
    let status = format!("{}/status", part.at("default", "bulb"));
    let count = std::cell::Cell::new(0);
    let bulb = part.object("bulb", json!({"watts": 5}));
    let changes = async || -> Result<()> {
        count.set(count.get() + 1);
        if count.get() == 1 {
            team.plane.create(&part.within("default"), &bulb).await?;
        }
        let status_now = json!({"status": {"count": count.get()}});
        team.plane.merge(&status, status_now).await?;
        Ok(())
    };
    let advice = "wait until the object has not been changed for a moment";
    let blocked = scene.blocks(Code::SourceNotQuiet, advice, &ends);
    beside(changes, blocked).await;
    // Nobody changes it any more. Its kind has a status in workspaces only.
    scene.settles(Code::StatusNotServed, &ends).await;
    Ok(())
}

async fn references(scene: &Scene<'_>, host: &Ware) -> Result<()> {
    for (name, code, wrong, right, advice) in [
        (
            "stray",
            Code::ReferenceInvalid,
            json!({"refs": ["one"]}),
            json!({"refs": ["one", "two"]}),
            "correct the reference in the object",
        ),
        (
            "greedy",
            Code::TooManyRelated,
            json!({"many": ["one", "two"]}),
            json!({"many": ["one"]}),
            "refer to fewer objects",
        ),
    ] {
        let (_, ends) = scene.made(host, name, wrong).await;
        scene.blocks(code, advice, &ends).await;
        let patch = json!({"spec": right});
        scene.team.patch(&host.kind, name, patch).await?;
        scene.mended(&ends).await;
    }
    Ok(())
}

async fn links(scene: &Scene<'_>, host: &Ware) -> Result<()> {
    let (copy, ends) = scene.made(host, "linked", json!({"linked": "creds"})).await;
    let service = &scene.world.service;
    let place = secrets().within(&scene.team.cluster);
    service.create(&place, &secret("creds")).await?;
    let advice = "add what the related entry requires to the object";
    scene.blocks(Code::NotLinked, advice, &ends).await;
    let owner = json!({
        "apiVersion": host.kind.api_version(), "kind": host.kind.name,
        "name": name_of(&copy)?, "uid": copy["metadata"]["uid"],
    });
    let at = secrets().at(&scene.team.cluster, "creds");
    let owned = json!({"metadata": {"ownerReferences": [owner]}});
    service.merge(&at, owned).await?;
    scene.mended(&ends).await;
    Ok(())
}

/// A workspace that accepts no claim but that on events.
async fn claims(scene: &Scene<'_>, host: &Ware) -> Result<()> {
    let world = scene.world;
    let poor: Team = world.workspace("poor").await?;
    let events = json!([{"group": "", "resource": "events", "all": true, "state": "Accepted"}]);
    world.bind_accepting(&poor, events).await?;
    poor.make(&host.kind, "one", json!({"down": "given"})).await;
    let copy = world.await_copy(&host.kind, poor.of("one")).await;
    let place = secrets().within(&poor.cluster);
    world.service.create(&place, &secret("given")).await?;
    let ends = [host.of(&poor, "one"), host.copy(&copy)];
    let advice = "accept the permission claim in the APIBinding";
    scene.blocks(Code::Forbidden, advice, &ends).await;
    let export = world.export().await?;
    let mut claims = export["spec"]["permissionClaims"].clone();
    for claim in claims.as_array_mut().context("no claims")? {
        claim["state"] = "Accepted".into();
    }
    let at = format!("/apis/apis.kcp.io/v1alpha1/apibindings/{EXPORT}");
    let accepted = json!({"spec": {"permissionClaims": claims}});
    poor.plane.merge(&at, accepted).await?;
    scene.mended(&ends).await;
    Ok(())
}

/// What waits for others never comes first: what it waits for does.
async fn waves(scene: &Scene<'_>, host: &Ware) -> Result<()> {
    let world = scene.world;
    let place = secrets().within("default");
    scene.team.plane.create(&place, &secret("ca")).await?;
    let (_, ends) = scene.made(host, "tied", json!({"up": "ca"})).await;
    scene.mended(&ends).await;
    let at = secrets().at(&scene.team.cluster, "ca");
    let held = |by: Value| json!({"metadata": {"finalizers": by}});
    world
        .service
        .merge(&at, held(json!(["example.org/hold"])))
        .await?;
    scene.team.delete(&host.kind, "tied").await?;
    for end in &ends {
        let waits = |object: &Value| {
            let links = object["links"].as_array().into_iter().flatten();
            let mut own = links.filter(|link| link["relatedEntry"].is_null());
            object["reason"]["code"] == "WaitingForDeletion"
                && own.any(|link| {
                    link["reason"]["code"] == "WaitingForOthers"
                        && link["reason"]["advice"]
                            .as_str()
                            .is_some_and(|advice| advice.contains("solve the problems"))
                })
        };
        scene.until("its copy waits", end, waits).await;
    }
    scene.shown.borrow_mut().insert(Code::WaitingForOthers);
    world.service.merge(&at, held(Value::Null)).await?;
    scene.team.await_gone(&host.kind, "tied").await;
    scene.is_gone(&ends[0]).await;
    Ok(())
}
