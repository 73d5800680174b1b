//! Whose a copy is: adoption, refusal, collisions, two agents.

use anyhow::{Context as _, Result, ensure};
use serde_json::{Value, json};
use testbed::{eventually, unique};

use super::SOON;
use super::stage::Stage;
use super::world::{EXPORT, World, has};

on_both_grounds!(
    an_object_that_nobody_owns_is_adopted_and_keeps_its_content,
    an_object_of_another_agent_is_not_taken,
    the_copy_of_another_source_is_not_taken,
    two_workspaces_have_the_same_names_and_separate_copies,
    what_somebody_makes_with_the_labels_of_a_copy_is_left_alone,
    two_agents_of_different_names_share_a_service_cluster,
    names_of_consumers_lead_neither_to_the_system_nor_to_the_agent,
    names_of_consumers_lead_to_default_and_to_what_nobody_owns,
);

on_our_ground!(guarded_names_of_consumers_take_nothing_over_and_stay_out_of_default);

on_the_playground!(
    names_of_consumers_lead_neither_to_the_system_nor_to_the_agent,
    names_of_consumers_lead_to_default_and_to_what_nobody_owns,
    guarded_names_of_consumers_take_nothing_over_and_stay_out_of_default,
);

const PLAIN: &str = "{{ .Object.metadata.name }}";

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

async fn an_object_that_nobody_owns_is_adopted_and_keeps_its_content(world: &World) -> Result<()> {
    let namespace = unique("plain");
    world.service.namespace(&namespace, json!({})).await?;
    let naming = json!({"naming": {"namespace": namespace, "name": PLAIN}});
    let stage = world.stage(naming).await?;
    let mut existing = stage.kind.object("lamp", json!({"size": 1, "serial": "x"}));
    existing["metadata"]["labels"] = json!({"made": "by-hand"});
    let existing = world
        .service
        .create(&stage.kind.within(&namespace), &existing)
        .await?;
    let (_, copy) = stage.made("lamp", json!({"size": 2})).await;
    ensure!(copy["metadata"]["uid"] == existing["metadata"]["uid"]);
    // The next marker is made after everything about the lamp has been done.
    stage.marker("marker").await;
    let copy = stage.copy("lamp").await;
    has(&copy, "/spec", &json!({"size": 1, "serial": "x"}))?;
    has(&copy, "/metadata/labels/made", &json!("by-hand"))?;
    has(
        &copy,
        "/metadata/labels/syncagent.kcp.io~1agent-name",
        &json!(world.agent),
    )?;
    has(
        &copy,
        "/metadata/annotations/syncagent.kcp.io~1remote-object-name",
        &json!("lamp"),
    )?;
    // What the source changes from now on counts.
    stage
        .team
        .patch(&stage.kind, "lamp", json!({"spec": {"size": 3}}))
        .await?;
    let copy = stage.await_in_copy("lamp", "/spec/size", json!(3)).await;
    has(&copy, "/spec/serial", &json!("x"))
}

async fn an_object_of_another_agent_is_not_taken(world: &World) -> Result<()> {
    let namespace = unique("plain");
    world.service.namespace(&namespace, json!({})).await?;
    let naming = json!({"naming": {"namespace": namespace, "name": PLAIN}});
    let stage = world.stage(naming).await?;
    let mut foreign = stage.kind.object("lamp", json!({"size": 1}));
    foreign["metadata"]["labels"] = json!({
        "syncagent.kcp.io/agent-name": "another",
        "syncagent.kcp.io/remote-object-cluster": "abc",
        "syncagent.kcp.io/remote-object-name-hash": super::sha1_hex("other"),
    });
    foreign["metadata"]["annotations"] = json!({"syncagent.kcp.io/remote-object-name": "other"});
    let foreign = world
        .service
        .create(&stage.kind.within(&namespace), &foreign)
        .await?;
    stage
        .team
        .make(&stage.kind, "lamp", json!({"size": 2}))
        .await;
    stage.marker("marker").await;
    stage.marker("marker2").await;
    let found = world
        .service
        .get(&stage.kind.at(&namespace, "lamp"))
        .await?;
    ensure!(
        found["metadata"]["resourceVersion"] == foreign["metadata"]["resourceVersion"],
        "{found}"
    );
    // The consumer can take back what was refused, and the other's object stays.
    stage.team.delete(&stage.kind, "lamp").await?;
    stage.team.await_gone(&stage.kind, "lamp").await;
    let found = world
        .service
        .get(&stage.kind.at(&namespace, "lamp"))
        .await?;
    ensure!(
        found["metadata"]["resourceVersion"] == foreign["metadata"]["resourceVersion"],
        "{found}"
    );
    Ok(())
}

async fn the_copy_of_another_source_is_not_taken(world: &World) -> Result<()> {
    let namespace = unique("plain");
    let naming = json!({"naming": {"namespace": namespace, "name": PLAIN}});
    let stage = world.stage(naming).await?;
    let (_, first) = stage.made("lamp", json!({"of": "team"})).await;
    let other = world.team("other").await?;
    other
        .make(&stage.kind, "lamp", json!({"of": "other"}))
        .await;
    other.make(&stage.kind, "marker", json!({})).await;
    world.await_copy(&stage.kind, other.of("marker")).await;
    let found = world.service.get(&stage.place(&first)).await?;
    has(&found, "/spec", &json!({"of": "team"}))?;
    has(
        &found,
        "/metadata/labels/syncagent.kcp.io~1remote-object-cluster",
        &json!(stage.team.cluster),
    )?;
    // The one that was refused leaves without taking the other's copy with it.
    other.delete(&stage.kind, "lamp").await?;
    other.await_gone(&stage.kind, "lamp").await;
    world.service.get(&stage.place(&first)).await?;
    // Where the place becomes free, the next one that tries gets it.
    other
        .make(&stage.kind, "lamp", json!({"of": "other"}))
        .await;
    stage.team.delete(&stage.kind, "lamp").await?;
    stage.team.await_gone(&stage.kind, "lamp").await;
    other
        .patch(&stage.kind, "lamp", json!({"spec": {"tries": "again"}}))
        .await?;
    let copy = eventually(SOON, "the other has its copy", async || {
        world
            .copy(&stage.kind, other.of("lamp"))
            .await?
            .context("it has none")
    })
    .await;
    has(&copy, "/spec/of", &json!("other"))
}

async fn two_workspaces_have_the_same_names_and_separate_copies(world: &World) -> Result<()> {
    let stage = world.stage(json!({})).await?;
    let other = world.team("other").await?;
    let (_, one) = stage.made("lamp", json!({"of": "team"})).await;
    other
        .make(&stage.kind, "lamp", json!({"of": "other"}))
        .await;
    let two = world.await_copy(&stage.kind, other.of("lamp")).await;
    ensure!(one["metadata"]["name"] == two["metadata"]["name"]);
    ensure!(text(&two["metadata"]["namespace"]) == other.cluster);
    has(&two, "/spec", &json!({"of": "other"}))?;
    other.delete(&stage.kind, "lamp").await?;
    other.await_gone(&stage.kind, "lamp").await;
    let still = stage.copy("lamp").await;
    ensure!(still["metadata"]["resourceVersion"] == one["metadata"]["resourceVersion"]);
    stage
        .team
        .patch(&stage.kind, "lamp", json!({"spec": {"size": 1}}))
        .await?;
    stage.await_in_copy("lamp", "/spec/size", json!(1)).await;
    Ok(())
}

async fn what_somebody_makes_with_the_labels_of_a_copy_is_left_alone(world: &World) -> Result<()> {
    let stage = world.stage(json!({})).await?;
    let (_, copy) = stage.made("lamp", json!({"size": 1})).await;
    let mut clone = stage.kind.object("clone", json!({"size": 9}));
    for field in ["labels", "annotations"] {
        clone["metadata"][field] = copy["metadata"][field].clone();
    }
    let home = text(&copy["metadata"]["namespace"]).to_owned();
    let clone = world
        .service
        .create(&stage.kind.within(&home), &clone)
        .await?;
    let place = stage.kind.at(&home, "clone");
    world.service.delete(&stage.place(&copy)).await?;
    let again = stage.place(&copy);
    eventually(SOON, "the copy is made again", async || -> Result<()> {
        let found = world
            .service
            .find(&again)
            .await?
            .context("it is not there")?;
        ensure!(found["metadata"]["uid"] != copy["metadata"]["uid"]);
        Ok(())
    })
    .await;
    stage.team.delete(&stage.kind, "lamp").await?;
    stage.team.await_gone(&stage.kind, "lamp").await;
    ensure!(world.service.find(&again).await?.is_none());
    let now = world.service.get(&place).await?;
    ensure!(
        now["metadata"]["resourceVersion"] == clone["metadata"]["resourceVersion"],
        "{now}"
    );
    Ok(())
}

async fn two_agents_of_different_names_share_a_service_cluster(world: &World) -> Result<()> {
    // Both work for the same export: each with the kinds that its selector gives it.
    let stage = world.stage(json!({})).await?;
    let widgets = world
        .install(&super::definition(&world.group, "widgets", "Widget"))
        .await?;
    let name = unique("pr");
    let mut second = world.published(&name, &widgets, json!({}));
    second["metadata"]["labels"]["agent"] = "second".into();
    world.create_published(&name, second).await?;
    let own = unique("agent");
    let _second = world
        .launch()?
        .arg(format!("--agent-name={own}"))
        .arg(format!(
            "--published-resource-selector=agent=second,agent!={EXPORT}"
        ))
        .spawn()?;
    world.await_published(&name).await;
    world.await_published(&stage.published).await;
    let (_, lamp) = stage.made("lamp", json!({})).await;
    stage.team.make(&widgets, "lamp", json!({})).await;
    let widget = world.await_copy(&widgets, stage.team.of("lamp")).await;
    let label = "/metadata/labels/syncagent.kcp.io~1agent-name";
    has(&lamp, label, &json!(world.agent))?;
    has(&widget, label, &json!(own))?;
    for kind in [&stage.kind, &widgets] {
        stage.team.delete(kind, "lamp").await?;
        stage.team.await_gone(kind, "lamp").await;
    }
    Ok(())
}

/// Copies are where consumers say.
fn as_consumers_say() -> Value {
    json!({"naming": {"namespace": "$remoteNamespace", "name": "$remoteName"}})
}

impl Stage<'_> {
    /// An object in a namespace of the workspace, with the same of the same name on the service cluster.
    async fn meets(&self, namespace: &str, name: &str) -> Result<Value> {
        // Some of them are there already.
        self.world
            .service
            .namespace(namespace, json!({}))
            .await
            .ok();
        self.team.plane.namespace(namespace, json!({})).await.ok();
        let place = self.kind.within(namespace);
        let theirs = self.kind.object(name, json!({"of": "provider"}));
        let theirs = self.world.service.create(&place, &theirs).await?;
        let object = self.kind.object(name, json!({"of": "consumer"}));
        self.team.make_at(&place, &object).await;
        Ok(theirs)
    }

    async fn await_said(&self, name: &str, told: &str, reason: &str) {
        eventually(SOON, "both sides are told", async || -> Result<()> {
            let events = self.team.plane.list("/api/v1/events").await?;
            let about = |event: &&Value| event["involvedObject"]["name"] == name;
            let texts: Vec<_> = events.iter().filter(about).collect();
            let told = |event: &&Value| text(&event["message"]).contains(told);
            ensure!(texts.iter().any(told), "{texts:?}");
            let log = self.agent.log();
            let mut lines = log.lines();
            ensure!(lines.any(|line| line.contains(reason) && line.contains(name)));
            Ok(())
        })
        .await;
    }

    /// Waits until all that happened before has been taken care of.
    async fn settled(&self) -> Result<()> {
        let place = unique("marker");
        self.team.plane.namespace(&place, json!({})).await?;
        let marker = self.kind.object("marker", json!({}));
        self.team.make_at(&self.kind.within(&place), &marker).await;
        let of = self.team.within(&place, "marker");
        self.world.await_copy(&self.kind, of).await;
        Ok(())
    }

    /// The object goes, and what it met stays as it was.
    async fn leaves(&self, namespace: &str, met: &Value) -> Result<()> {
        let at = self.kind.at(namespace, text(&met["metadata"]["name"]));
        let patch = json!({"spec": {"of": "consumer", "again": true}});
        self.team.plane.merge(&at, patch).await?;
        self.settled().await?;
        self.team.plane.delete(&at).await?;
        eventually(SOON, "the object is gone", async || -> Result<()> {
            ensure!(self.team.plane.find(&at).await?.is_none());
            Ok(())
        })
        .await;
        let found = self.world.service.get(&at).await?;
        ensure!(found == *met, "{found}");
        self.world.service.delete(&at).await?;
        Ok(())
    }
}

async fn names_of_consumers_lead_neither_to_the_system_nor_to_the_agent(
    world: &World,
) -> Result<()> {
    let stage = world.stage(as_consumers_say()).await?;
    for (namespace, name) in [("kube-system", "lamp"), (&world.namespace, "lantern")] {
        let met = stage.meets(namespace, name).await?;
        let told = "does not allow that namespace";
        stage.await_said(name, told, "NamespaceClosed").await;
        stage.leaves(namespace, &met).await?;
    }
    // Neither is a namespace made that could become the system's.
    let namespace = format!("kube-{}", unique("own"));
    stage.team.plane.namespace(&namespace, json!({})).await?;
    let object = stage.kind.object("torch", json!({}));
    let place = stage.kind.within(&namespace);
    stage.team.make_at(&place, &object).await;
    let told = "does not allow that namespace";
    stage.await_said("torch", told, "NamespaceClosed").await;
    let at = format!("/api/v1/namespaces/{namespace}");
    ensure!(world.service.find(&at).await?.is_none());
    Ok(())
}

async fn names_of_consumers_lead_to_default_and_to_what_nobody_owns(world: &World) -> Result<()> {
    let stage = world.stage(as_consumers_say()).await?;
    for namespace in ["default", &unique("shared")] {
        let met = stage.meets(namespace, "lamp").await?;
        let of = stage.team.within(namespace, "lamp");
        let copy = world.await_copy(&stage.kind, of).await;
        ensure!(copy["metadata"]["uid"] == met["metadata"]["uid"], "{copy}");
        has(&copy, "/spec/of", &json!("provider"))?;
        stage
            .team
            .plane
            .delete(&stage.kind.at(namespace, "lamp"))
            .await?;
        world
            .await_no_copy(&stage.kind, stage.team.within(namespace, "lamp"))
            .await;
    }
    // What is not there yet is made in either.
    stage.made("lantern", json!({})).await;
    // The owner is warned.
    let message = "consumers influence the namespace of copies";
    ensure!(stage.agent.log().contains(message), "no warning");
    Ok(())
}

async fn guarded_names_of_consumers_take_nothing_over_and_stay_out_of_default(
    world: &World,
) -> Result<()> {
    let mut guarded = as_consumers_say();
    guarded["safety"] = json!({"consumerNames": "Guarded"});
    let stage = world.stage(guarded).await?;
    let shared = unique("shared");
    let met = stage.meets(&shared, "lamp").await?;
    let told = "an object of this name already exists in the service";
    stage.await_said("lamp", told, "AdoptionRefused").await;
    let object = stage.kind.object("lantern", json!({"of": "consumer"}));
    stage
        .team
        .make_at(&stage.kind.within(&shared), &object)
        .await;
    world
        .await_copy(&stage.kind, stage.team.within(&shared, "lantern"))
        .await;
    stage.leaves(&shared, &met).await?;
    let met = stage.meets("default", "torch").await?;
    let told = "does not allow that namespace";
    stage.await_said("torch", told, "NamespaceClosed").await;
    stage.leaves("default", &met).await
}
