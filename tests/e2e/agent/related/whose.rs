//! Whose a related object is: what is refused and how both sides learn of it, what several share, and by
//! what originals are held.

use anyhow::{Context as _, Result, ensure};
use serde_json::{Value, json};
use testbed::eventually;

use super::super::SOON;
use super::super::plane::Plane;
use super::super::stage::Stage;
use super::super::world::World;
use super::{
    FINALIZER, await_held, await_released, both_ways, entry, finalizers, held, put, secrets,
};

on_both_grounds!(
    an_original_without_the_link_asked_for_is_refused_until_it_shows_one,
    what_stands_in_the_place_of_a_copy_stays_unless_the_owner_says_adopt,
    what_belongs_to_another_tenants_copy_is_refused_whichever_resource_published_it,
    what_several_objects_share_outlives_restarts_and_goes_with_the_last,
);

on_our_ground!(originals_are_held_as_the_owner_says_and_none_hangs_where_that_changes);

on_the_playground!(
    an_original_without_the_link_asked_for_is_refused_until_it_shows_one,
    what_stands_in_the_place_of_a_copy_stays_unless_the_owner_says_adopt,
    what_belongs_to_another_tenants_copy_is_refused_whichever_resource_published_it,
    what_several_objects_share_outlives_restarts_and_goes_with_the_last,
    originals_are_held_as_the_owner_says_and_none_hangs_where_that_changes,
);

impl Stage<'_> {
    /// Waits until the consumer reads this about an object, and the owner finds the reason with the name.
    pub(super) async fn await_refused(&self, name: &str, told: &str, reason: &str) {
        eventually(SOON, "both sides are told", async || {
            let events = self.team.plane.list("/api/v1/events").await?;
            let about = |event: &&Value| {
                event["involvedObject"]["name"] == name && event["reason"] == "ReconcilingError"
            };
            let texts = events.iter().filter(about).map(|event| &event["message"]);
            let texts: Vec<_> = texts.filter_map(Value::as_str).collect();
            ensure!(texts.iter().any(|text| text.contains(told)), "{texts:?}");
            let log = self.agent.log();
            let lines = log.lines();
            let mut lines = lines.filter(|line| line.contains(reason) && line.contains(name));
            ensure!(lines.next().is_some(), "no line has {reason} for {name}");
            Ok(())
        })
        .await;
    }

    async fn restart(&mut self) -> Result<()> {
        self.agent.kill().await?;
        self.agent = self.world.start_agent()?;
        Ok(())
    }

    /// Other rules from now on.
    pub(super) async fn republish(&self, spec: Value) -> Result<()> {
        let patch = json!({"spec": spec});
        self.world.change_published(&self.published, patch).await?;
        Ok(())
    }
}

async fn await_finalizers(plane: &Plane, name: &str, wanted: &str) {
    eventually(SOON, "the original is held so", async || {
        let found = finalizers(plane, name).await?;
        ensure!(found == json!([wanted]), "it has {found}");
        Ok(())
    })
    .await;
}

async fn an_original_without_the_link_asked_for_is_refused_until_it_shows_one(
    world: &World,
) -> Result<()> {
    let mut linked = entry(
        "down",
        "service",
        json!({"reference": {"path": "spec.down"}}),
    );
    linked["requireLink"] = true.into();
    let stage = world.related(json!({"related": [linked]})).await?;
    let (team, service) = (&stage.team.plane, &world.service);
    let (_, copy) = stage.made("lamp", json!({"down": "creds"})).await;
    put(service, stage.home(), "creds", "gold").await?;
    let told = "does not allow that namespace";
    stage.await_refused("lamp", told, "NotLinked").await;
    ensure!(held(team, "default", "creds").await?.is_none());

    let at = secrets().at(stage.home(), "creds");
    let owned = |by: Value| json!({"metadata": {"ownerReferences": by}});
    let meta = &copy["metadata"];
    let owner = json!([{"apiVersion": copy["apiVersion"], "kind": copy["kind"],
        "name": meta["name"], "uid": meta["uid"]}]);
    service.merge(&at, owned(owner.clone())).await?;
    await_held(team, "default", "creds", Some("gold")).await;
    service.merge(&at, owned(Value::Null)).await?;
    await_held(team, "default", "creds", None).await;
    // The agent's labels say the same.
    let labels = json!({"metadata": {"labels": stage.of("lamp").labels()}});
    service.merge(&at, labels).await?;
    await_held(team, "default", "creds", Some("gold")).await;
    stage.await_told("lamp", &[("down.0", "creds")]).await;
    // Those of another object of the same consumer are not this one's.
    let labels = json!({"metadata": {"labels": stage.of("other").labels()}});
    service.merge(&at, labels).await?;
    await_held(team, "default", "creds", None).await;
    ensure!(!stage.agent.log().contains("Z29sZA"), "no value is logged");
    Ok(())
}

async fn what_stands_in_the_place_of_a_copy_stays_unless_the_owner_says_adopt(
    world: &World,
) -> Result<()> {
    let adopting = |identifier: &str, origin: &str, path: &str| {
        let mut one = entry(identifier, origin, json!({"reference": {"path": path}}));
        one["adopt"] = true.into();
        one
    };
    let mut more = both_ways();
    let entries = more["related"].as_array_mut().context("no entries")?;
    entries.push(adopting("down-over", "service", "spec.downOver"));
    entries.push(adopting("up-over", "kcp", "spec.upOver"));
    let stage = world.related(more).await?;
    let (team, service, home) = (&stage.team.plane, &world.service, stage.home());
    stage.marker("first").await;
    for name in ["down", "down-over", "down-equal"] {
        put(service, home, name, "theirs").await?;
        let mine = if name == "down-equal" {
            "theirs"
        } else {
            "mine"
        };
        put(team, "default", name, mine).await?;
    }
    for name in ["up", "up-over", "up-equal"] {
        put(team, "default", name, "mine").await?;
        let theirs = if name == "up-equal" { "mine" } else { "theirs" };
        put(service, home, name, theirs).await?;
    }
    let taken = "of this name";
    for (name, spec) in [
        ("downwards", json!({"down": "down"})),
        ("upwards", json!({"up": "up"})),
    ] {
        stage.made(name, spec).await;
        stage.await_refused(name, taken, "AdoptionRefused").await;
    }
    let spec = json!({"down": "down-equal", "downOver": "down-over", "upOver": "up-over"});
    stage.made("over", spec).await;
    await_held(team, "default", "down-over", Some("theirs")).await;
    await_held(service, home, "up-over", Some("mine")).await;
    let told = [("down-over.0", "down-over"), ("down.0", "down-equal")];
    stage.await_told("over", &told).await;
    ensure!(held(team, "default", "down").await?.as_deref() == Some("mine"));
    ensure!(held(service, home, "up").await?.as_deref() == Some("theirs"));
    // What is refused is not held; what says the same already is.
    ensure!(finalizers(team, "up").await?.is_null(), "up is held");
    stage.made("equal", json!({"up": "up-equal"})).await;
    eventually(SOON, "up-equal is held", async || {
        ensure!(finalizers(team, "up-equal").await? == json!([FINALIZER]));
        Ok(())
    })
    .await;

    // Where the place becomes free, the copy comes.
    team.delete(&secrets().at("default", "down")).await?;
    await_held(team, "default", "down", Some("theirs")).await;
    service.delete(&secrets().at(home, "up")).await?;
    await_held(service, home, "up", Some("mine")).await;
    ensure!(finalizers(team, "up").await? == json!([FINALIZER]));
    for name in ["downwards", "upwards", "equal", "over"] {
        stage.team.delete(&stage.kind, name).await?;
        stage.team.await_gone(&stage.kind, name).await;
    }
    // What was there before stays, and what the agent made of an original in a workspace goes.
    ensure!(held(service, home, "up").await?.is_none());
    for name in ["up-over", "up-equal"] {
        ensure!(held(service, home, name).await?.as_deref() == Some("mine"));
    }
    for name in ["down", "down-over", "down-equal"] {
        ensure!(held(team, "default", name).await?.as_deref() == Some("theirs"));
    }
    for name in ["up", "up-over", "up-equal"] {
        await_released(team, name).await;
    }
    Ok(())
}

async fn what_belongs_to_another_tenants_copy_is_refused_whichever_resource_published_it(
    world: &World,
) -> Result<()> {
    let mut widgets = super::definition(&world.group, "widgets", "Widget");
    widgets["spec"]["versions"][0]["subresources"] = json!({"status": {}});
    let widget = world.install(&widgets).await?;
    // One namespace for all, which the owner opened.
    let vault = format!("{}-vault", world.agent);
    let naming = json!({"naming": {"namespace": vault}});
    let widgets = world.publish(&widget, naming).await?;
    let namespace =
        format!("{{{{ if eq .Side \"kcp\" }}}}default{{{{ else }}}}{vault}{{{{ end }}}}");
    let object = json!({"reference": {"path": "spec.down"}, "namespace": {"template": {"template": namespace}}});
    let down = json!({"related": [entry("down", "service", object)]});
    let mut stage = world.related(down).await?;
    world.await_published(&widgets).await;
    let victim = world.team("victim").await?;
    victim.make(&widget, "jewel", json!({})).await;
    let jewel = world.await_copy(&widget, victim.of("jewel")).await;
    ensure!(jewel["metadata"]["namespace"] == vault.as_str(), "{jewel}");
    let mut treasure = super::secret("treasure", "gold", json!({}));
    let meta = &jewel["metadata"];
    treasure["metadata"]["ownerReferences"] = json!([{"apiVersion": jewel["apiVersion"],
        "kind": jewel["kind"], "name": meta["name"], "uid": meta["uid"]}]);
    let place = secrets().within(&vault);
    world.service.create(&place, &treasure).await?;
    stage.made("thief", json!({"down": "treasure"})).await;
    let told = "does not allow that namespace";
    stage.await_refused("thief", told, "NotLinked").await;
    // Not even while an agent begins and has not heard of everybody.
    stage.restart().await?;
    stage.marker("after").await;
    stage.await_refused("thief", told, "NotLinked").await;
    ensure!(
        held(&stage.team.plane, "default", "treasure")
            .await?
            .is_none()
    );
    let log = stage.agent.log();
    ensure!(!log.contains("Z29sZA"), "no value is logged");
    Ok(())
}

async fn what_several_objects_share_outlives_restarts_and_goes_with_the_last(
    world: &World,
) -> Result<()> {
    let mut more = both_ways();
    more["related"][0]["cleanup"] = true.into();
    let mut stage = world.related(more).await?;
    let (team, service) = (stage.team.plane.clone(), &world.service);
    let home = stage.home().to_owned();
    stage.marker("first").await;
    put(&team, "default", "up", "u1").await?;
    put(service, &home, "down", "d1").await?;
    let all = ["lamp", "lantern", "torch", "candle"];
    for name in all {
        stage.made(name, json!({"up": "up", "down": "down"})).await;
        stage.await_told(name, &[("down.0", "down")]).await;
    }
    await_held(service, &home, "up", Some("u1")).await;
    let change = async |value: &str| -> Result<()> {
        let patch = |side: &str| json!({"stringData": {"k": format!("{side}{value}")}});
        team.merge(&secrets().at("default", "up"), patch("u"))
            .await?;
        service
            .merge(&secrets().at(&home, "down"), patch("d"))
            .await?;
        Ok(())
    };
    // One goes while nobody is at work, one leads elsewhere, one goes just before a restart.
    stage.agent.kill().await?;
    stage.team.delete(&stage.kind, "lamp").await?;
    change("2").await?;
    stage.agent = world.start_agent()?;
    stage.team.await_gone(&stage.kind, "lamp").await;
    await_held(service, &home, "up", Some("u2")).await;
    await_held(&team, "default", "down", Some("d2")).await;
    stage.agent.kill().await?;
    let elsewhere = json!({"spec": {"up": null, "down": null}});
    stage.team.patch(&stage.kind, "lantern", elsewhere).await?;
    stage.agent = world.start_agent()?;
    stage.await_told("lantern", &[]).await;
    stage.team.delete(&stage.kind, "torch").await?;
    stage.restart().await?;
    stage.team.await_gone(&stage.kind, "torch").await;
    stage.marker("second").await;
    change("3").await?;
    await_held(service, &home, "up", Some("u3")).await;
    await_held(&team, "default", "down", Some("d3")).await;
    ensure!(finalizers(&team, "up").await? == json!([FINALIZER]));
    // The last one.
    stage.agent.kill().await?;
    stage.team.delete(&stage.kind, "candle").await?;
    stage.agent = world.start_agent()?;
    stage.team.await_gone(&stage.kind, "candle").await;
    ensure!(held(service, &home, "up").await?.is_none());
    ensure!(held(&team, "default", "down").await?.is_none());
    await_released(&team, "up").await;
    ensure!(held(service, &home, "down").await?.as_deref() == Some("d3"));
    Ok(())
}

async fn originals_are_held_as_the_owner_says_and_none_hangs_where_that_changes(
    world: &World,
) -> Result<()> {
    let hold = |how: &str| json!({"safety": {"relatedFinalizer": how}});
    let mut more = both_ways();
    more["safety"] = hold("Own")["safety"].clone();
    let mut stage = world.related(more).await?;
    let (team, service) = (stage.team.plane.clone(), &world.service);
    let home = stage.home().to_owned();
    let own = format!("{FINALIZER}-{}", world.agent);
    for (object, original) in [("lamp", "one"), ("lantern", "two"), ("torch", "three")] {
        put(&team, "default", original, "1").await?;
        stage.made(object, json!({"up": original})).await;
        await_held(service, &home, original, Some("1")).await;
        await_finalizers(&team, original, &own).await;
    }
    // There and back, while at work.
    for (how, finalizer) in [("Shared", FINALIZER), ("Own", own.as_str())] {
        stage.republish(hold(how)).await?;
        for original in ["one", "two", "three"] {
            await_finalizers(&team, original, finalizer).await;
        }
    }
    // Back to the default while nobody is at work, and an original and an object are deleted meanwhile.
    stage.agent.kill().await?;
    stage.republish(json!({"safety": null})).await?;
    team.delete(&secrets().at("default", "one")).await?;
    stage.team.delete(&stage.kind, "lantern").await?;
    stage.agent = world.start_agent()?;
    await_held(&team, "default", "one", None).await;
    await_held(service, &home, "one", None).await;
    stage.team.await_gone(&stage.kind, "lantern").await;
    await_released(&team, "two").await;
    ensure!(held(service, &home, "two").await?.is_none());
    await_finalizers(&team, "three", FINALIZER).await;
    // Held by its own again, and the entry is taken away.
    stage.republish(hold("Own")).await?;
    await_finalizers(&team, "three", &own).await;
    stage
        .republish(json!({"related": [], "safety": null}))
        .await?;
    await_released(&team, "three").await;
    await_held(service, &home, "three", None).await;
    for object in ["lamp", "torch"] {
        stage.team.delete(&stage.kind, object).await?;
        stage.team.await_gone(&stage.kind, object).await;
    }
    Ok(())
}
