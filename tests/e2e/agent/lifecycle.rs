//! Published resources that change, stop and go while objects are in step.

use anyhow::{Result, ensure};
use serde_json::{Value, json};

use super::definition;
use super::stage::Stage;
use super::world::{PUBLISHED, World, has};

on_both_grounds!(
    without_synchronization_the_schema_alone_is_published,
    synchronization_is_switched_off_and_on,
    nothing_is_written_any_more_for_what_was_deleted,
    a_deleted_and_recreated_resource_goes_on_with_its_copies,
    edited_rules_replace_the_old_ones,
    rules_that_are_no_good_do_not_replace_working_ones_halfway,
    what_cannot_be_published_as_asked_stops_what_was_asked_before,
    two_resources_on_one_kind_share_its_objects_by_filters,
);

on_the_playground!(a_change_without_meaning_sends_nothing);

impl Stage<'_> {
    async fn edit(&self, patch: Value) -> Result<()> {
        self.world.change_published(&self.published, patch).await?;
        Ok(())
    }
}

/// Another kind beside gadgets, to see that the agent is at work.
async fn widgets(stage: &Stage<'_>) -> Result<super::plane::Kind> {
    let crd = definition(&stage.world.group, "widgets", "Widget");
    let kind = stage.world.install(&crd).await?;
    let name = stage.world.publish(&kind, json!({})).await?;
    stage.world.await_published(&name).await;
    stage.world.await_marker(&kind, &stage.team).await;
    Ok(kind)
}

async fn without_synchronization_the_schema_alone_is_published(world: &World) -> Result<()> {
    let stage = world
        .stage(json!({"synchronization": {"enabled": false}}))
        .await?;
    stage.team.make(&stage.kind, "lamp", json!({})).await;
    widgets(&stage).await?;
    let lamp = stage.team.get(&stage.kind, "lamp").await?;
    has(&lamp, "/metadata/finalizers", &Value::Null)?;
    ensure!(world.copy(&stage.kind, stage.of("lamp")).await?.is_none());
    Ok(())
}

async fn synchronization_is_switched_off_and_on(world: &World) -> Result<()> {
    let stage = world.stage(json!({})).await?;
    let widgets = widgets(&stage).await?;
    stage.made("lamp", json!({"size": 1})).await;
    stage
        .edit(json!({"spec": {"synchronization": {"enabled": false}}}))
        .await?;
    world.await_noticed(&widgets, &stage.team).await?;
    stage
        .team
        .patch(&stage.kind, "lamp", json!({"spec": {"size": 2}}))
        .await?;
    world.await_marker(&widgets, &stage.team).await;
    has(&stage.copy("lamp").await, "/spec/size", &json!(1))?;
    stage
        .edit(json!({"spec": {"synchronization": null}}))
        .await?;
    stage.await_in_copy("lamp", "/spec/size", json!(2)).await;
    Ok(())
}

async fn nothing_is_written_any_more_for_what_was_deleted(world: &World) -> Result<()> {
    let stage = world.stage(json!({})).await?;
    let widgets = widgets(&stage).await?;
    let (_, copy) = stage.made("lamp", json!({"size": 1})).await;
    world
        .service
        .delete(&format!("{PUBLISHED}/{}", stage.published))
        .await?;
    world.await_noticed(&widgets, &stage.team).await?;
    stage
        .team
        .patch(&stage.kind, "lamp", json!({"spec": {"size": 2}}))
        .await?;
    let status = format!("{}/status", stage.place(&copy));
    world
        .service
        .merge(&status, json!({"status": {"lit": true}}))
        .await?;
    stage.team.make(&stage.kind, "sofa", json!({})).await;
    world.await_marker(&widgets, &stage.team).await;
    has(&stage.copy("lamp").await, "/spec/size", &json!(1))?;
    ensure!(world.copy(&stage.kind, stage.of("sofa")).await?.is_none());
    let lamp = stage.team.get(&stage.kind, "lamp").await?;
    has(&lamp, "/status", &Value::Null)?;
    has(
        &lamp,
        "/metadata/finalizers",
        &json!(["syncagent.kcp.io/cleanup"]),
    )
}

async fn a_deleted_and_recreated_resource_goes_on_with_its_copies(world: &World) -> Result<()> {
    let stage = world.stage(json!({})).await?;
    let (_, copy) = stage.made("lamp", json!({"size": 1})).await;
    world
        .service
        .delete(&format!("{PUBLISHED}/{}", stage.published))
        .await?;
    stage
        .team
        .patch(&stage.kind, "lamp", json!({"spec": {"size": 2}}))
        .await?;
    let again = world.published(&stage.published, &stage.kind, json!({}));
    world.create_published(&stage.published, again).await?;
    let after = stage.await_in_copy("lamp", "/spec/size", json!(2)).await;
    ensure!(after["metadata"]["uid"] == copy["metadata"]["uid"]);
    Ok(())
}

async fn edited_rules_replace_the_old_ones(world: &World) -> Result<()> {
    let class = |class: &str| json!({"spec": {"mutation": {"spec": [{"regex": {"path": "spec.class", "replacement": class}}]}}});
    let stage = world.stage(class("silver")["spec"].clone()).await?;
    let (_, copy) = stage.made("lamp", json!({"size": 1})).await;
    has(&copy, "/spec/class", &json!("silver"))?;
    for wanted in ["gold", "iron"] {
        stage.edit(class(wanted)).await?;
        stage
            .await_in_copy("lamp", "/spec/class", json!(wanted))
            .await;
    }
    // Nobody works by the old rules any more.
    for size in 2..6 {
        stage
            .team
            .patch(&stage.kind, "lamp", json!({"spec": {"size": size}}))
            .await?;
        let copy = stage.await_in_copy("lamp", "/spec/size", json!(size)).await;
        has(&copy, "/spec/class", &json!("iron"))?;
    }
    stage.marker("marker").await;
    has(&stage.copy("lamp").await, "/spec/class", &json!("iron"))
}

async fn rules_that_are_no_good_do_not_replace_working_ones_halfway(world: &World) -> Result<()> {
    let stage = world.stage(json!({})).await?;
    let widgets = widgets(&stage).await?;
    let (_, copy) = stage.made("lamp", json!({"size": 1})).await;
    let broken = json!([{"cel": {"path": "spec.size", "expression": "value +"}}]);
    stage
        .edit(json!({"spec": {"mutation": {"spec": broken}}}))
        .await?;
    // Others go on, and so does this one when it is right again.
    world.await_marker(&widgets, &stage.team).await;
    stage.edit(json!({"spec": {"mutation": null}})).await?;
    stage
        .team
        .patch(&stage.kind, "lamp", json!({"spec": {"size": 2}}))
        .await?;
    let after = stage.await_in_copy("lamp", "/spec/size", json!(2)).await;
    ensure!(after["metadata"]["uid"] == copy["metadata"]["uid"]);
    Ok(())
}

async fn what_cannot_be_published_as_asked_stops_what_was_asked_before(
    world: &World,
) -> Result<()> {
    let stage = world.stage(json!({})).await?;
    let widgets = widgets(&stage).await?;
    stage.made("lamp", json!({"size": 1})).await;
    let mistakes = [
        json!({"resource": {"versions": ["v9"]}}),
        json!({"resource": {"kind": "Nothing"}}),
        json!({"resource": {"kind": "Nothing"}, "synchronization": {"enabled": false}}),
    ];
    for (mistake, size) in mistakes.into_iter().zip(2..) {
        stage.edit(json!({"spec": mistake})).await?;
        world.await_noticed(&widgets, &stage.team).await?;
        stage
            .team
            .patch(&stage.kind, "lamp", json!({"spec": {"size": size}}))
            .await?;
        world.await_marker(&widgets, &stage.team).await;
        has(&stage.copy("lamp").await, "/spec/size", &json!(size - 1))?;
        let right = json!({
            "resource": {"kind": stage.kind.name, "versions": null}, "synchronization": null,
        });
        stage.edit(json!({"spec": right})).await?;
        stage.await_in_copy("lamp", "/spec/size", json!(size)).await;
    }
    Ok(())
}

async fn two_resources_on_one_kind_share_its_objects_by_filters(world: &World) -> Result<()> {
    let tier = |tier: &str| {
        json!({
            "filter": {"resource": {"matchLabels": {"tier": tier}}},
            "naming": {"name": format!("{tier}-{{{{ .Object.metadata.name }}}}")},
        })
    };
    let stage = world.stage(tier("gold")).await?;
    let other = world.publish(&stage.kind, tier("iron")).await?;
    world.await_published(&other).await;
    for (name, tier) in [("ring", "gold"), ("nail", "iron")] {
        let mut object = stage.kind.object(name, json!({"size": 1}));
        object["metadata"]["labels"] = json!({"tier": tier});
        stage
            .team
            .make_at(&stage.kind.within("default"), &object)
            .await;
        let copy = stage.copy(name).await;
        has(&copy, "/metadata/name", &json!(format!("{tier}-{name}")))?;
        stage
            .team
            .patch(&stage.kind, name, json!({"spec": {"size": 2}}))
            .await?;
        stage.await_in_copy(name, "/spec/size", json!(2)).await;
    }
    // One of them goes; the other's objects stay in step.
    world
        .service
        .delete(&format!("{PUBLISHED}/{}", stage.published))
        .await?;
    stage
        .team
        .patch(&stage.kind, "nail", json!({"spec": {"size": 3}}))
        .await?;
    stage.await_in_copy("nail", "/spec/size", json!(3)).await;
    stage.team.delete(&stage.kind, "nail").await?;
    stage.team.await_gone(&stage.kind, "nail").await;
    has(&stage.copy("ring").await, "/spec/size", &json!(2))
}

async fn a_change_without_meaning_sends_nothing(world: &World) -> Result<()> {
    use super::world::Counted as _;
    let stage = world.stage(json!({})).await?;
    let widgets = widgets(&stage).await?;
    stage.made("lamp", json!({"size": 1})).await;
    // What follows the publication comes to its end first: conditions are written two seconds later.
    world.await_conditions(&stage.published).await;
    let mark = world.requests().mark();
    let note = json!({"metadata": {"annotations": {"note": "x"}, "labels": {"colour": "red"}}});
    stage.edit(note).await?;
    stage
        .edit(json!({"metadata": {"annotations": {"note": null}}}))
        .await?;
    world.await_still(&widgets, &stage.team).await;
    let about_gadgets: Vec<_> = world
        .agents_requests(mark)
        .into_iter()
        .filter(|request| {
            // What there is about widgets comes in its own time.
            let ours = [
                stage.kind.plural.as_str(),
                "apiresourceschemas",
                "apiexports",
            ];
            ours.contains(&request.resource.as_str()) || request.name == stage.published
        })
        .filter(|request| request.is_write() || request.verb != "watch")
        .collect();
    ensure!(about_gadgets.is_empty(), "{about_gadgets:#?}");
    Ok(())
}
