//! Objects that travel with others: credentials, configurations, whatever an entry leads to.

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use kcp_playground::server::{Action, Fault, Matcher, When};
use serde_json::{Value, json};
use testbed::eventually;

use super::explain::only_explained;
use super::plane::{Kind, Plane};
use super::service::{self, Ground};
use super::stage::Stage;
use super::world::{Counted as _, World, has, shown};
use super::{SOON, definition};

mod deletion;
pub(super) mod kinds;
mod matrix;
mod neighbours;
mod whose;
mod words;

on_both_grounds!(
    credentials_come_change_and_are_revoked,
    what_a_consumer_provides_goes_along_and_is_taken_back,
    what_happens_while_nobody_is_at_work_is_caught_up_with,
    what_is_immutable_and_made_anew_gets_a_new_copy,
    an_empty_secret_takes_no_other_over,
);

on_the_playground!(
    credentials_come_change_and_are_revoked,
    what_a_consumer_provides_goes_along_and_is_taken_back,
    what_happens_while_nobody_is_at_work_is_caught_up_with,
    what_is_immutable_and_made_anew_gets_a_new_copy,
    an_empty_secret_takes_no_other_over,
    six_secrets_of_a_new_object_take_sixteen_requests,
    objects_found_by_labels_come_and_go_with_them,
    any_kind_travels_and_its_status_with_it,
    what_several_objects_share_goes_with_the_last,
    a_copy_whose_creation_is_recorded_late_goes_with_the_last,
    a_circle_of_copies_comes_to_rest,
    no_consumer_reads_or_writes_where_nothing_was_opened,
    the_example_with_credentials_does_what_it_says,
    what_the_agent_makes_for_one_object_reaches_another_that_refers_to_it,
);

const FINALIZER: &str = "syncagent.kcp.io/cleanup";

fn secrets() -> Kind {
    Kind::new("", "v1", "secrets", "Secret")
}

/// Secrets either way, by what the object says.
fn both_ways() -> Value {
    json!({"related": [
        entry("down", "service", json!({"reference": {"path": "spec.down"}})),
        entry("up", "kcp", json!({"reference": {"path": "spec.up"}})),
    ]})
}

fn entry(identifier: &str, origin: &str, object: Value) -> Value {
    json!({"identifier": identifier, "origin": origin, "kind": "Secret", "object": object})
}

fn secret(name: &str, value: &str, labels: Value) -> Value {
    json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name, "labels": labels},
        "stringData": {"k": value}})
}

async fn put(plane: &Plane, namespace: &str, name: &str, value: &str) -> Result<()> {
    put_labelled(plane, namespace, name, value, json!({})).await
}

async fn put_labelled(
    plane: &Plane,
    namespace: &str,
    name: &str,
    value: &str,
    labels: Value,
) -> Result<()> {
    let object = secret(name, value, labels);
    plane.create(&secrets().within(namespace), &object).await?;
    Ok(())
}

/// What a Secret has; nothing where there is none.
async fn held(plane: &Plane, namespace: &str, name: &str) -> Result<Option<String>> {
    use base64::Engine as _;
    let Some(found) = plane.find(&secrets().at(namespace, name)).await? else {
        return Ok(None);
    };
    let text = found["data"]["k"].as_str().context("it has no data")?;
    let bytes = base64::engine::general_purpose::STANDARD.decode(text)?;
    Ok(Some(String::from_utf8(bytes)?))
}

async fn await_held(plane: &Plane, namespace: &str, name: &str, wanted: Option<&str>) {
    let what = format!("{namespace}/{name} has {wanted:?}");
    eventually(SOON, &what, async || {
        let found = held(plane, namespace, name).await?;
        ensure!(found.as_deref() == wanted, "it has {found:?}");
        Ok(())
    })
    .await;
}

async fn finalizers(plane: &Plane, name: &str) -> Result<Value> {
    let found = plane.get(&secrets().at("default", name)).await?;
    Ok(found["metadata"]["finalizers"].clone())
}

async fn await_released(plane: &Plane, name: &str) {
    eventually(SOON, "the Secret is let go", async || {
        let found = finalizers(plane, name).await?;
        ensure!(found.is_null(), "it has {found}");
        Ok(())
    })
    .await;
}

impl World {
    /// Gadgets with related Secrets, and the rights for them.
    pub(super) async fn related(&self, more: Value) -> Result<Stage<'_>> {
        if self.ground != Ground::Playground {
            let rule = json!({"apiGroups": [""], "resources": ["secrets"],
                "verbs": ["get", "list", "watch", "create", "update", "patch", "delete"]});
            service::bind(&self.service, &self.user(), None, &[rule]).await?;
        }
        self.stage(more).await
    }
}

impl Stage<'_> {
    /// Where copies of this workspace's objects are.
    fn home(&self) -> &str {
        &self.team.cluster
    }

    async fn told(&self, name: &str) -> Result<Vec<(String, Value)>> {
        let found = self.team.get(&self.kind, name).await?;
        let all = found["metadata"]["annotations"].as_object();
        let all = all.into_iter().flatten().filter_map(|(key, value)| {
            let key = key.strip_prefix("related-resources.syncagent.kcp.io/")?;
            let value = serde_json::from_str(value.as_str()?).ok()?;
            Some((key.to_owned(), value))
        });
        Ok(all.collect())
    }

    async fn await_told(&self, name: &str, wanted: &[(&str, &str)]) {
        let wanted: Vec<_> = wanted
            .iter()
            .map(|(key, secret)| {
                let value = json!({"namespace": "default", "name": secret, "apiVersion": "v1", "kind": "Secret"});
                ((*key).to_owned(), value)
            })
            .collect();
        eventually(SOON, "the object tells of what came with it", async || {
            let found = self.told(name).await?;
            ensure!(found == wanted, "it tells {found:?}");
            Ok(())
        })
        .await;
    }
}

async fn credentials_come_change_and_are_revoked(world: &World) -> Result<()> {
    let stage = world.related(both_ways()).await?;
    let (team, service) = (&stage.team.plane, &world.service);
    stage.made("lamp", json!({"down": "creds"})).await;
    // Long after the object: nothing but the Secret itself is heard of.
    stage.marker("first").await;
    put(service, stage.home(), "creds", "1").await?;
    await_held(team, "default", "creds", Some("1")).await;
    stage.await_told("lamp", &[("down.0", "creds")]).await;
    let copy = team.get(&secrets().at("default", "creds")).await?;
    // The label is kcp's own, by which it knows what was claimed.
    ensure!(
        !copy["metadata"].to_string().contains("syncagent"),
        "{copy}"
    );
    for field in ["finalizers", "ownerReferences"] {
        ensure!(copy["metadata"][field].is_null(), "{copy}");
    }
    let patch = json!({"stringData": {"k": "2"}});
    let at = secrets().at(stage.home(), "creds");
    service.merge(&at, patch.clone()).await?;
    await_held(team, "default", "creds", Some("2")).await;
    // The provider says what it is, whatever the consumer does with it.
    let own = secrets().at("default", "creds");
    team.merge(&own, json!({"stringData": {"k": "mine"}}))
        .await?;
    await_held(team, "default", "creds", Some("2")).await;
    service.delete(&at).await?;
    await_held(team, "default", "creds", None).await;
    stage.await_told("lamp", &[]).await;
    put(service, stage.home(), "creds", "3").await?;
    await_held(team, "default", "creds", Some("3")).await;
    // With the object the original goes by its provider's will alone, and the copy stays.
    stage.team.delete(&stage.kind, "lamp").await?;
    stage.team.await_gone(&stage.kind, "lamp").await;
    ensure!(held(service, stage.home(), "creds").await?.is_some());
    ensure!(held(team, "default", "creds").await?.is_some());
    Ok(())
}

async fn what_is_immutable_and_made_anew_gets_a_new_copy(world: &World) -> Result<()> {
    let stage = world.related(both_ways()).await?;
    let (team, service) = (&stage.team.plane, &world.service);
    let sealed = |value: &str| {
        let mut object = secret("s", value, json!({}));
        object["immutable"] = true.into();
        object
    };
    stage.made("lamp", json!({"down": "s"})).await;
    let originals = secrets().within(stage.home());
    service.create(&originals, &sealed("old")).await?;
    await_held(team, "default", "s", Some("old")).await;
    // Nobody sees that it was gone in between.
    stage.agent.stop(SOON).await?;
    service.delete(&secrets().at(stage.home(), "s")).await?;
    service.create(&originals, &sealed("new")).await?;
    let _agent = world.start_agent()?;
    await_held(team, "default", "s", Some("new")).await;
    let copy = team.get(&secrets().at("default", "s")).await?;
    ensure!(copy["immutable"] == true, "{copy}");
    service.delete(&secrets().at(stage.home(), "s")).await?;
    await_held(team, "default", "s", None).await;
    Ok(())
}

async fn an_empty_secret_takes_no_other_over(world: &World) -> Result<()> {
    let stage = world.related(both_ways()).await?;
    let (team, service) = (&stage.team.plane, &world.service);
    // The namespace of the workspace is there with its first copy.
    stage.marker("first").await;
    put(service, stage.home(), "s", "treasure").await?;
    let empty = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}});
    team.create(&secrets().within("default"), &empty).await?;
    stage.made("lamp", json!({"up": "s"})).await;
    stage.agent.await_log(SOON, "AdoptionRefused").await?;
    let original = secrets().at("default", "s");
    let poison = json!({"stringData": {"k": "poison"}});
    team.merge(&original, poison).await?;
    stage.marker("second").await;
    stage.team.delete(&stage.kind, "lamp").await?;
    stage.team.await_gone(&stage.kind, "lamp").await;
    let kept = held(service, stage.home(), "s").await?;
    ensure!(kept.as_deref() == Some("treasure"), "it has {kept:?}");
    Ok(())
}

async fn what_a_consumer_provides_goes_along_and_is_taken_back(world: &World) -> Result<()> {
    let stage = world.related(both_ways()).await?;
    let (team, service) = (&stage.team.plane, &world.service);
    put(team, "default", "one", "1").await?;
    put(team, "default", "two", "2").await?;
    stage.made("lamp", json!({"up": "one"})).await;
    await_held(service, stage.home(), "one", Some("1")).await;
    ensure!(finalizers(team, "one").await? == json!([FINALIZER]));
    let one = secrets().at("default", "one");
    team.merge(&one, json!({"stringData": {"k": "new"}}))
        .await?;
    await_held(service, stage.home(), "one", Some("new")).await;
    let elsewhere = json!({"spec": {"up": "two"}});
    stage.team.patch(&stage.kind, "lamp", elsewhere).await?;
    await_held(service, stage.home(), "two", Some("2")).await;
    await_held(service, stage.home(), "one", None).await;
    await_released(team, "one").await;
    // Deleted by its owner, it goes on both sides.
    team.delete(&secrets().at("default", "two")).await?;
    await_held(service, stage.home(), "two", None).await;
    await_held(team, "default", "two", None).await;
    put(team, "default", "two", "3").await?;
    await_held(service, stage.home(), "two", Some("3")).await;
    stage.team.delete(&stage.kind, "lamp").await?;
    stage.team.await_gone(&stage.kind, "lamp").await;
    ensure!(held(service, stage.home(), "two").await?.is_none());
    ensure!(finalizers(team, "two").await?.is_null());
    ensure!(held(team, "default", "two").await?.is_some());
    Ok(())
}

async fn what_happens_while_nobody_is_at_work_is_caught_up_with(world: &World) -> Result<()> {
    let mut stage = world.related(both_ways()).await?;
    let (team, service) = (stage.team.plane.clone(), &world.service);
    let home = stage.home().to_owned();
    put(&team, "default", "up1", "u").await?;
    put(&team, "default", "up2", "u").await?;
    for name in ["lamp", "lantern"] {
        stage.made(name, json!({"up": "up1", "down": name})).await;
        put(service, &home, name, "d").await?;
        await_held(&team, "default", name, Some("d")).await;
    }
    await_held(service, &home, "up1", Some("u")).await;
    stage.agent.kill().await?;
    let elsewhere = json!({"spec": {"up": "up2"}});
    stage.team.patch(&stage.kind, "lamp", elsewhere).await?;
    stage.team.delete(&stage.kind, "lantern").await?;
    service.delete(&secrets().at(&home, "lamp")).await?;
    stage.agent = world.start_agent()?;
    stage.team.await_gone(&stage.kind, "lantern").await;
    await_held(service, &home, "up2", Some("u")).await;
    await_held(service, &home, "up1", None).await;
    await_released(&team, "up1").await;
    await_held(&team, "default", "lamp", None).await;
    Ok(())
}

async fn six_secrets_of_a_new_object_take_sixteen_requests(world: &World) -> Result<()> {
    let stage = world
        .related(json!({"related": [
            entry("down", "service", json!({"reference": {"path": "spec.down"}})),
            entry("up", "kcp", json!({"reference": {"path": "spec.up"}})),
        ]}))
        .await?;
    stage.made("first", json!({})).await;
    world.await_conditions(&stage.published).await;
    let (team, service) = (&stage.team.plane, &world.service);
    for n in 0..3 {
        put(team, "default", &format!("up{n}"), "u").await?;
        put(service, stage.home(), &format!("down{n}"), "d").await?;
    }
    stage.marker("second").await;
    let mark = world.requests().mark();
    let spec = json!({"up": ["up0", "up1", "up2"], "down": ["down0", "down1", "down2"]});
    stage.team.make(&stage.kind, "lamp", spec).await;
    let told = [
        ("down.0", "down0"),
        ("down.1", "down1"),
        ("down.2", "down2"),
    ];
    stage.await_told("lamp", &told).await;
    for n in 0..3 {
        await_held(service, stage.home(), &format!("up{n}"), Some("u")).await;
        await_held(team, "default", &format!("down{n}"), Some("d")).await;
    }
    let mut spent = world.agents_requests(mark);
    spent.retain(|request| request.resource != "events" && request.verb != "watch");
    let lines = spent.iter().map(shown).collect::<Vec<_>>().join("\n");
    ensure!(spent.len() <= 16, "{} requests:\n{lines}", spent.len());
    ensure!(spent.iter().all(super::world::Counted::is_write), "{lines}");
    Ok(())
}

async fn objects_found_by_labels_come_and_go_with_them(world: &World) -> Result<()> {
    let selector = json!({"selector": {
        "matchLabels": {"of": "{{ .RemoteObject.metadata.name }}"},
        "rewrite": {"template": {"template": "{{ .Value }}-{{ .RelatedObject.metadata.labels.of }}"}}}});
    let stage = world
        .related(json!({"related": [entry("e", "service", selector)]}))
        .await?;
    let (team, service) = (&stage.team.plane, &world.service);
    stage.made("lamp", json!({})).await;
    stage.marker("first").await;
    let at = secrets().at(stage.home(), "a");
    put_labelled(service, stage.home(), "a", "1", json!({"of": "lamp"})).await?;
    await_held(team, "default", "a-lamp", Some("1")).await;
    put(service, stage.home(), "b", "2").await?;
    let label = |value: Value| json!({"metadata": {"labels": {"of": value}}});
    let other = secrets().at(stage.home(), "b");
    service.merge(&other, label("lamp".into())).await?;
    await_held(team, "default", "b-lamp", Some("2")).await;
    stage
        .await_told("lamp", &[("e.0", "a-lamp"), ("e.1", "b-lamp")])
        .await;
    service.merge(&at, label(Value::Null)).await?;
    await_held(team, "default", "a-lamp", None).await;
    stage.await_told("lamp", &[("e.0", "b-lamp")]).await;
    Ok(())
}

async fn any_kind_travels_and_its_status_with_it(world: &World) -> Result<()> {
    let mut crd = definition(&world.group, "parts", "Part");
    crd["spec"]["versions"][0]["subresources"] = json!({"status": {}});
    let part = world.install(&crd).await?;
    // Served in workspaces by the same export, whose objects of it nobody copies.
    let schema_only = json!({"synchronization": {"enabled": false}});
    let parts = world.publish(&part, schema_only).await?;
    let more = json!({"related": [{
        "identifier": "part", "origin": "kcp", "group": part.group, "version": "v1", "resource": "parts",
        "syncStatus": true, "object": {"reference": {"path": "spec.part"}},
    }]});
    let stage = world.related(more).await?;
    world.await_published(&parts).await;
    stage.made("lamp", json!({"part": "bulb"})).await;
    stage.team.make(&part, "bulb", json!({"watts": 5})).await;
    let status = format!("{}/status", part.at("default", "bulb"));
    let patch = json!({"status": {"lit": true}});
    stage.team.plane.merge(&status, patch).await?;
    let copy = part.at(stage.home(), "bulb");
    eventually(SOON, "the part is copied", async || {
        let found = world.service.get(&copy).await?;
        has(&found, "/spec", &json!({"watts": 5}))?;
        has(&found, "/status", &json!({"lit": true}))?;
        anyhow::Ok(())
    })
    .await;
    stage.team.delete(&part, "bulb").await?;
    stage.team.await_gone(&part, "bulb").await;
    ensure!(world.service.find(&copy).await?.is_none());
    Ok(())
}

async fn what_several_objects_share_goes_with_the_last(world: &World) -> Result<()> {
    let stage = world.related(both_ways()).await?;
    let (team, service) = (&stage.team.plane, &world.service);
    put(team, "default", "shared", "1").await?;
    for name in ["lamp", "lantern"] {
        stage.made(name, json!({"up": "shared"})).await;
    }
    await_held(service, stage.home(), "shared", Some("1")).await;
    stage.marker("first").await;
    stage.team.delete(&stage.kind, "lamp").await?;
    stage.team.await_gone(&stage.kind, "lamp").await;
    stage.marker("second").await;
    await_held(service, stage.home(), "shared", Some("1")).await;
    ensure!(finalizers(team, "shared").await? == json!([FINALIZER]));
    stage.team.delete(&stage.kind, "lantern").await?;
    stage.team.await_gone(&stage.kind, "lantern").await;
    await_held(service, stage.home(), "shared", None).await;
    await_released(team, "shared").await;
    Ok(())
}

/// The other object takes it for somebody else's, until the record of its creation is there.
async fn a_copy_whose_creation_is_recorded_late_goes_with_the_last(world: &World) -> Result<()> {
    let stage = world.related(both_ways()).await?;
    let (team, service) = (&stage.team.plane, &world.service);
    put(team, "default", "shared", "1").await?;
    let states = secrets().within(&world.namespace);
    stage.made("lamp", json!({})).await;
    let known = service.list(&states).await?;
    let state = known.iter().map(|one| &one["metadata"]["name"]);
    let state = state
        .filter_map(Value::as_str)
        .find(|name| name.starts_with("obj-state-"));
    let state = state.context("the lamp has no state")?;
    // After the change of the spec and the intention.
    let confirmations = Fault {
        skip: 2,
        ..Fault::new(
            Matcher {
                verb: Some("update".to_owned()),
                name: Some(state.to_owned()),
                ..Matcher::default()
            },
            Action::Status {
                code: 503,
                when: When::Before,
            },
        )
    };
    world.playground.faults().add(confirmations);
    let patch = json!({"spec": {"up": "shared"}});
    stage.team.patch(&stage.kind, "lamp", patch).await?;
    await_held(service, stage.home(), "shared", Some("1")).await;
    stage.made("lantern", json!({"up": "shared"})).await;
    stage.marker("first").await;
    world.playground.faults().clear();
    eventually(SOON, "both are in sync", async || {
        for name in ["lamp", "lantern"] {
            let object = only_explained(world, &["gadget", name]).await?;
            ensure!(object["inStep"] == true, "{object:#}");
        }
        Ok(())
    })
    .await;
    for name in ["lamp", "lantern"] {
        await_held(service, stage.home(), "shared", Some("1")).await;
        stage.team.delete(&stage.kind, name).await?;
        stage.team.await_gone(&stage.kind, name).await;
    }
    await_held(service, stage.home(), "shared", None).await;
    await_released(team, "shared").await;
    Ok(())
}

/// The workspace's `a` becomes `x`, that becomes the workspace's `b`, that becomes `y`, and that would become `a`.
async fn a_circle_of_copies_comes_to_rest(world: &World) -> Result<()> {
    let link = |identifier: &str, origin: &str, kcp: &str, service: &str| {
        let name =
            format!("{{{{ if eq .Side \"kcp\" }}}}{kcp}{{{{ else }}}}{service}{{{{ end }}}}");
        // The objects that only mark a time have none.
        let template = format!("{{{{ if .Object.spec.circle }}}}{name}{{{{ end }}}}");
        entry(
            identifier,
            origin,
            json!({"template": {"template": template}}),
        )
    };
    let circle = json!([
        link("first", "kcp", "a", "x"),
        link("second", "service", "b", "x"),
        link("third", "kcp", "b", "y"),
        link("fourth", "service", "a", "y"),
    ]);
    let stage = world.related(json!({"related": circle})).await?;
    let (team, service) = (&stage.team.plane, &world.service);
    put(team, "default", "a", "1").await?;
    stage.made("lamp", json!({"circle": true})).await;
    await_held(service, stage.home(), "y", Some("1")).await;
    stage.agent.await_log(SOON, "AdoptionRefused").await?;
    let changed = json!({"stringData": {"k": "2"}});
    team.merge(&secrets().at("default", "a"), changed).await?;
    await_held(service, stage.home(), "y", Some("2")).await;
    let mark = world.requests().mark();
    world.await_still(&stage.kind, &stage.team).await;
    let requests = world.agents_requests(mark);
    let mut writes = requests.iter().filter(|one| one.is_write());
    let written = writes.find(|one| ["a", "b", "x", "y"].contains(&&*one.name));
    ensure!(
        written.is_none(),
        "{}",
        written.map(shown).unwrap_or_default()
    );
    await_held(team, "default", "a", Some("2")).await;
    Ok(())
}

async fn no_consumer_reads_or_writes_where_nothing_was_opened(world: &World) -> Result<()> {
    let namespace = json!({"reference": {"path": "spec.ns"}});
    let object = |path: &str| json!({"reference": {"path": path}, "namespace": namespace});
    let stage = world
        .related(json!({"related": [
            entry("down", "service", object("spec.down")),
            entry("up", "kcp", object("spec.up")),
        ]}))
        .await?;
    let (team, service) = (&stage.team.plane, &world.service);
    let places = ["kube-system", "default", "vault", &world.namespace];
    for place in places {
        // Some of them are there already.
        let _ = service.namespace(place, json!({})).await;
        if place != "default" {
            team.namespace(place, json!({})).await.ok();
        }
        put(service, place, "treasure", "gold").await?;
        put(team, place, "poison", "p").await?;
        let spec = json!({"ns": place, "down": "treasure", "up": "poison"});
        stage.made(&format!("thief-{place}"), spec).await;
        eventually(SOON, "the consumer is told", async || {
            let events = team.list("/api/v1/events").await?;
            let about = |event: &&Value| {
                event["involvedObject"]["name"] == format!("thief-{place}")
                    && event["reason"] == "ReconcilingError"
            };
            ensure!(events.iter().any(|event| about(&event)), "{events:?}");
            Ok(())
        })
        .await;
        ensure!(held(team, place, "treasure").await?.is_none());
        ensure!(held(service, place, "poison").await?.is_none());
    }
    let log = stage.agent.log();
    ensure!(log.contains("NamespaceClosed"), "the owner finds why");
    ensure!(!log.contains("gold") && !log.contains("Z29sZA"), "{log}");
    Ok(())
}

async fn the_example_with_credentials_does_what_it_says(world: &World) -> Result<()> {
    let example = testbed::binaries::repository().join("examples/credentials");
    let read = |file: &str| -> Result<Value> {
        Ok(serde_saphyr::from_str(&std::fs::read_to_string(
            example.join(file),
        )?)?)
    };
    let manifest = read("published-resource.yaml")?;
    let crd = read("crd.yaml")?;
    let stage = world.stage_with(&crd, manifest["spec"].clone()).await?;
    let (team, service) = (&stage.team.plane, &world.service);
    put(team, "default", "my-ca", "ca").await?;
    let object = read("object.yaml")?;
    // It has a group of its own in workspaces.
    let queues = Kind::new("messaging.example.org", "v1", "queues", "Queue");
    let place = queues.within("default");
    stage.team.make_at(&place, &object).await;
    let copy = stage.copy("orders").await;
    await_held(service, stage.home(), "my-ca", Some("ca")).await;
    // What the operator does: credentials beside the Queue, which own them.
    let name = copy["metadata"]["name"].as_str().context("no name")?;
    let mut credentials = secret(&format!("{name}-credentials"), "pass", json!({}));
    credentials["stringData"]["admin-password"] = "gold".into();
    credentials["metadata"]["ownerReferences"] = json!([{
        "apiVersion": copy["apiVersion"], "kind": copy["kind"], "name": name,
        "uid": copy["metadata"]["uid"],
    }]);
    service
        .create(&secrets().within(stage.home()), &credentials)
        .await?;
    await_held(team, "default", "orders-credentials", Some("pass")).await;
    let given = team
        .get(&secrets().at("default", "orders-credentials"))
        .await?;
    ensure!(given["data"].get("admin-password").is_none(), "{given}");
    stage.team.delete(&queues, "orders").await?;
    stage.team.await_gone(&queues, "orders").await;
    ensure!(
        held(team, "default", "orders-credentials").await?.is_none()
            && held(service, stage.home(), "my-ca").await?.is_none()
    );
    Ok(())
}

/// One object's credentials are another one's configuration.
async fn what_the_agent_makes_for_one_object_reaches_another_that_refers_to_it(
    world: &World,
) -> Result<()> {
    // Answers come before the events that tell of the same.
    let late = Matcher {
        verb: Some("watch".to_owned()),
        resource: Some("secrets".to_owned()),
        ..Matcher::default()
    };
    let late = Fault::new(late, Action::DelayWatch(Duration::from_millis(300)));
    world.playground.faults().add(late);
    let template = "{{ if eq .Side \"kcp\" }}{{ .Object.spec.down }}-back{{ else }}{{ .Object.spec.down }}{{ end }}";
    let stage = world
        .related(json!({"related": [
            entry("down", "service", json!({"template": {"template": template}})),
            entry("up", "kcp", json!({"reference": {"path": "spec.up"}})),
        ]}))
        .await?;
    let (team, service) = (&stage.team.plane, &world.service);
    let (_, copy) = stage.made("app", json!({"up": "s-back"})).await;
    let namespace = copy["metadata"]["namespace"]
        .as_str()
        .context("no namespace")?;
    stage.made("database", json!({"down": "s"})).await;
    stage.marker("ready").await;
    put(service, namespace, "s", "first").await?;
    await_held(team, "default", "s-back", Some("first")).await;
    await_held(service, namespace, "s-back", Some("first")).await;
    let change = json!({"stringData": {"k": "second"}});
    service.merge(&secrets().at(namespace, "s"), change).await?;
    await_held(team, "default", "s-back", Some("second")).await;
    await_held(service, namespace, "s-back", Some("second")).await;
    service.delete(&secrets().at(namespace, "s")).await?;
    await_held(team, "default", "s-back", None).await;
    await_held(service, namespace, "s-back", None).await;
    Ok(())
}
