//! Consumers' objects and their copies: made, changed, deleted.

use anyhow::{Context as _, Result, ensure};
use serde_json::{Value, json};
use testbed::eventually;

use super::world::{World, has};
use super::{SOON, sha1_hex, sha3_short};

on_both_grounds!(
    a_copy_carries_exactly_the_marks_of_the_contract,
    what_belongs_to_one_side_never_travels,
    changes_and_removals_and_arrays_are_carried_over,
    what_the_provider_changed_and_the_consumer_did_not_stays,
    labels_and_annotations_travel_key_by_key,
    the_status_comes_back_and_spec_fields_do_not,
    a_copy_that_the_provider_deletes_is_made_again,
    an_object_goes_only_after_its_copy,
    an_object_waits_for_a_copy_that_is_held,
    foreign_finalizers_of_the_object_stay,
    marks_that_were_taken_off_are_put_back,
    an_object_of_a_megabyte_travels,
    a_null_and_big_numbers_travel_unchanged,
);

async fn a_copy_carries_exactly_the_marks_of_the_contract(world: &World) -> Result<()> {
    let stage = world.stage(json!({})).await?;
    let (_, copy) = stage.made("lamp", json!({"size": 3})).await;
    let meta = &copy["metadata"];
    let cluster = &stage.team.cluster;
    ensure!(meta["namespace"] == cluster.as_str(), "{meta}");
    let name = format!("{}-{}", sha3_short("default"), sha3_short("lamp"));
    ensure!(meta["name"] == name.as_str(), "{meta}");
    let labels = json!({
        "syncagent.kcp.io/remote-object-cluster": cluster,
        "syncagent.kcp.io/remote-object-name-hash": sha1_hex("lamp"),
        "syncagent.kcp.io/remote-object-namespace-hash": "7505d64a54e061b7acd54ccd58b49dc43500b635",
        "syncagent.kcp.io/agent-name": world.agent,
    });
    ensure!(meta["labels"] == labels, "{}", meta["labels"]);
    let annotations = json!({
        "syncagent.kcp.io/remote-object-name": "lamp",
        "syncagent.kcp.io/remote-object-namespace": "default",
    });
    has(&copy, "/metadata/annotations", &annotations)?;
    has(&copy, "/spec", &json!({"size": 3}))?;
    for absent in ["finalizers", "ownerReferences"] {
        ensure!(meta.get(absent).is_none(), "{meta}");
    }
    // The namespace is made bare.
    let namespace = world
        .service
        .get(&format!("/api/v1/namespaces/{cluster}"))
        .await?;
    let labels = json!({"kubernetes.io/metadata.name": cluster});
    ensure!(namespace["metadata"]["labels"] == labels, "{namespace}");
    ensure!(namespace["metadata"].get("annotations").is_none());
    let source = stage.team.get(&stage.kind, "lamp").await?;
    has(
        &source,
        "/metadata/finalizers",
        &json!(["syncagent.kcp.io/cleanup"]),
    )
}

async fn what_belongs_to_one_side_never_travels(world: &World) -> Result<()> {
    let stage = world.stage(json!({})).await?;
    let mut lamp = stage.kind.object("lamp", json!({}));
    lamp["metadata"]["labels"] = json!({
        "colour": "red",
        "claimed.internal.apis.kcp.io/abc": "def",
        "syncagent.kcp.io/remote-object-cluster": "forged",
    });
    lamp["metadata"]["annotations"] = json!({
        "note": "mine",
        "kubectl.kubernetes.io/last-applied-configuration": "{}",
        "syncagent.kcp.io/remote-object-name": "forged",
        "related-resources.syncagent.kcp.io/x.0": "{}",
    });
    // An owner that exists: what belongs to none is collected.
    let owner = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "owner"}});
    let owners = "/api/v1/namespaces/default/configmaps";
    let owner = stage.team.plane.create(owners, &owner).await?;
    lamp["metadata"]["ownerReferences"] = json!([{"apiVersion": "v1", "kind": "ConfigMap",
        "name": "owner", "uid": owner["metadata"]["uid"]}]);
    let source = stage
        .team
        .make_at(&stage.kind.within("default"), &lamp)
        .await;
    let copy = stage.copy("lamp").await;
    let meta = &copy["metadata"];
    let mut labels = stage.of("lamp").labels();
    labels.insert("colour".into(), "red".into());
    labels.insert(
        "syncagent.kcp.io/agent-name".into(),
        world.agent.as_str().into(),
    );
    ensure!(
        meta["labels"] == Value::Object(labels),
        "{}",
        meta["labels"]
    );
    let annotations = json!({
        "note": "mine",
        "syncagent.kcp.io/remote-object-name": "lamp",
        "syncagent.kcp.io/remote-object-namespace": "default",
    });
    has(&copy, "/metadata/annotations", &annotations)?;
    ensure!(meta.get("ownerReferences").is_none(), "{meta}");
    ensure!(meta["uid"] != source["metadata"]["uid"]);
    ensure!(meta.get("finalizers").is_none(), "{meta}");
    Ok(())
}

async fn changes_and_removals_and_arrays_are_carried_over(world: &World) -> Result<()> {
    let stage = world.stage(json!({})).await?;
    let spec =
        json!({"size": 3, "gone": {"a": 1}, "list": [1, 2, 3], "deep": {"keep": 1, "drop": 2}});
    stage.made("lamp", spec).await;
    let change =
        json!({"size": 4, "gone": null, "list": [3], "deep": {"drop": null}, "new": ["x"]});
    stage
        .team
        .patch(&stage.kind, "lamp", json!({"spec": change}))
        .await?;
    let wanted = json!({"size": 4, "list": [3], "deep": {"keep": 1}, "new": ["x"]});
    stage.await_in_copy("lamp", "/spec", wanted).await;
    // Empty and absent are not the same.
    let change = json!({"list": [], "deep": {"keep": null}});
    stage
        .team
        .patch(&stage.kind, "lamp", json!({"spec": change}))
        .await?;
    let wanted = json!({"size": 4, "list": [], "deep": {}, "new": ["x"]});
    stage.await_in_copy("lamp", "/spec", wanted).await;
    Ok(())
}

async fn what_the_provider_changed_and_the_consumer_did_not_stays(world: &World) -> Result<()> {
    let stage = world.stage(json!({})).await?;
    let (_, copy) = stage
        .made("lamp", json!({"size": 3, "colour": "red"}))
        .await;
    let local =
        json!({"spec": {"colour": "blue", "extra": true}, "metadata": {"labels": {"team": "ops"}}});
    stage.patch_copy(&copy, local).await?;
    stage
        .team
        .patch(&stage.kind, "lamp", json!({"spec": {"size": 4}}))
        .await?;
    let wanted = json!({"size": 4, "colour": "blue", "extra": true});
    let copy = stage.await_in_copy("lamp", "/spec", wanted).await;
    has(&copy, "/metadata/labels/team", &json!("ops"))?;
    // Now the consumer has a say in it.
    stage
        .team
        .patch(&stage.kind, "lamp", json!({"spec": {"colour": "green"}}))
        .await?;
    stage
        .await_in_copy("lamp", "/spec/colour", json!("green"))
        .await;
    let source = stage.team.get(&stage.kind, "lamp").await?;
    has(&source, "/spec", &json!({"size": 4, "colour": "green"}))
}

async fn labels_and_annotations_travel_key_by_key(world: &World) -> Result<()> {
    let stage = world.stage(json!({})).await?;
    let (_, copy) = stage.made("lamp", json!({})).await;
    let local = json!({"metadata": {"labels": {"ops": "1"}, "annotations": {"ops": "2"}}});
    stage.patch_copy(&copy, local).await?;
    let ours = json!({"metadata": {"labels": {"a": "1", "b": "2"}, "annotations": {"c": "3"}}});
    stage.team.patch(&stage.kind, "lamp", ours).await?;
    stage
        .await_in_copy("lamp", "/metadata/labels/a", json!("1"))
        .await;
    stage
        .await_in_copy("lamp", "/metadata/annotations/c", json!("3"))
        .await;
    let ours = json!({"metadata": {"labels": {"a": null, "b": "x"}, "annotations": {"c": null}}});
    stage.team.patch(&stage.kind, "lamp", ours).await?;
    stage
        .await_in_copy("lamp", "/metadata/labels/b", json!("x"))
        .await;
    let copy = stage
        .await_in_copy("lamp", "/metadata/annotations/c", Value::Null)
        .await;
    has(&copy, "/metadata/labels/a", &Value::Null)?;
    has(&copy, "/metadata/labels/ops", &json!("1"))?;
    has(&copy, "/metadata/annotations/ops", &json!("2"))?;
    has(
        &copy,
        "/metadata/labels/syncagent.kcp.io~1agent-name",
        &json!(world.agent),
    )
}

async fn the_status_comes_back_and_spec_fields_do_not(world: &World) -> Result<()> {
    let stage = world.stage(json!({})).await?;
    let (_, copy) = stage.made("lamp", json!({"size": 3})).await;
    let status = format!("{}/status", stage.place(&copy));
    world
        .service
        .merge(
            &status,
            json!({"status": {"phase": "Lit", "bulbs": [1, 2]}}),
        )
        .await?;
    stage
        .patch_copy(&copy, json!({"spec": {"serial": "x"}}))
        .await?;
    let wanted = json!({"phase": "Lit", "bulbs": [1, 2]});
    let source = stage
        .team
        .await_in(&stage.kind, "lamp", "/status", wanted)
        .await;
    has(&source, "/spec", &json!({"size": 3}))?;
    // What leaves the status leaves it on the other side too.
    world
        .service
        .merge(&status, json!({"status": {"phase": "Off", "bulbs": null}}))
        .await?;
    stage
        .team
        .await_in(&stage.kind, "lamp", "/status", json!({"phase": "Off"}))
        .await;
    // A status that a consumer invents is put right.
    let own = format!("{}/status", stage.kind.at("default", "lamp"));
    stage
        .team
        .plane
        .merge(&own, json!({"status": {"phase": "Mine"}}))
        .await?;
    stage
        .team
        .await_in(&stage.kind, "lamp", "/status", json!({"phase": "Off"}))
        .await;
    let copy = stage.copy("lamp").await;
    has(&copy, "/status", &json!({"phase": "Off"}))
}

async fn a_copy_that_the_provider_deletes_is_made_again(world: &World) -> Result<()> {
    let stage = world.stage(json!({})).await?;
    let (_, first) = stage.made("lamp", json!({"size": 3})).await;
    world.service.delete(&stage.place(&first)).await?;
    let second = eventually(SOON, "another copy is there", async || {
        let copy = world.copy(&stage.kind, stage.of("lamp")).await?;
        let copy = copy.context("there is none")?;
        ensure!(
            copy["metadata"]["uid"] != first["metadata"]["uid"],
            "it is the old one"
        );
        Ok(copy)
    })
    .await;
    has(&second, "/spec", &json!({"size": 3}))?;
    stage
        .team
        .patch(&stage.kind, "lamp", json!({"spec": {"size": 4}}))
        .await?;
    stage.await_in_copy("lamp", "/spec/size", json!(4)).await;
    Ok(())
}

async fn an_object_goes_only_after_its_copy(world: &World) -> Result<()> {
    let stage = world.stage(json!({})).await?;
    let (_, copy) = stage.made("lamp", json!({})).await;
    stage.team.delete(&stage.kind, "lamp").await?;
    stage.team.await_gone(&stage.kind, "lamp").await;
    // The finalizer was the last thing to go.
    let found = world.service.find(&stage.place(&copy)).await?;
    ensure!(
        found.is_none(),
        "the object went before its copy: {found:?}"
    );
    // And the same name can be used again.
    let (_, again) = stage.made("lamp", json!({"size": 9})).await;
    has(&again, "/spec", &json!({"size": 9}))?;
    ensure!(again["metadata"]["uid"] != copy["metadata"]["uid"]);
    Ok(())
}

async fn an_object_waits_for_a_copy_that_is_held(world: &World) -> Result<()> {
    let stage = world.stage(json!({})).await?;
    let (_, copy) = stage.made("lamp", json!({})).await;
    let held = json!({"metadata": {"finalizers": ["example.com/operator"]}});
    stage.patch_copy(&copy, held).await?;
    stage.team.delete(&stage.kind, "lamp").await?;
    eventually(SOON, "the copy is in deletion", async || {
        let copy = world.service.get(&stage.place(&copy)).await?;
        ensure!(
            copy["metadata"].get("deletionTimestamp").is_some(),
            "it is not"
        );
        Ok(())
    })
    .await;
    stage.marker("marker").await;
    let source = stage.team.get(&stage.kind, "lamp").await?;
    has(
        &source,
        "/metadata/finalizers",
        &json!(["syncagent.kcp.io/cleanup"]),
    )?;
    // What the operator still says of it is shown.
    let status = format!("{}/status", stage.place(&copy));
    world
        .service
        .merge(&status, json!({"status": {"phase": "Ending"}}))
        .await?;
    stage
        .patch_copy(&copy, json!({"metadata": {"finalizers": null}}))
        .await?;
    stage.team.await_gone(&stage.kind, "lamp").await;
    Ok(())
}

async fn foreign_finalizers_of_the_object_stay(world: &World) -> Result<()> {
    let stage = world.stage(json!({})).await?;
    let mut lamp = stage.kind.object("lamp", json!({}));
    lamp["metadata"]["finalizers"] = json!(["example.com/consumer"]);
    stage
        .team
        .make_at(&stage.kind.within("default"), &lamp)
        .await;
    stage.copy("lamp").await;
    let source = stage.team.get(&stage.kind, "lamp").await?;
    let both = json!(["example.com/consumer", "syncagent.kcp.io/cleanup"]);
    has(&source, "/metadata/finalizers", &both)?;
    stage.team.delete(&stage.kind, "lamp").await?;
    world.await_no_copy(&stage.kind, stage.of("lamp")).await;
    let left = json!(["example.com/consumer"]);
    stage
        .team
        .await_in(&stage.kind, "lamp", "/metadata/finalizers", left.clone())
        .await;
    // Nothing is begun again with an object in deletion.
    stage
        .team
        .patch(&stage.kind, "lamp", json!({"spec": {"size": 1}}))
        .await?;
    stage.marker("marker").await;
    let source = stage.team.get(&stage.kind, "lamp").await?;
    has(&source, "/metadata/finalizers", &left)?;
    ensure!(world.copy(&stage.kind, stage.of("lamp")).await?.is_none());
    stage
        .team
        .patch(
            &stage.kind,
            "lamp",
            json!({"metadata": {"finalizers": null}}),
        )
        .await?;
    stage.team.await_gone(&stage.kind, "lamp").await;
    Ok(())
}

async fn marks_that_were_taken_off_are_put_back(world: &World) -> Result<()> {
    let stage = world.stage(json!({})).await?;
    let (_, copy) = stage.made("lamp", json!({"size": 3})).await;
    let name = "syncagent.kcp.io/remote-object-name";
    let wrong = json!({"metadata": {"annotations": {name: "other"}}});
    stage.patch_copy(&copy, wrong).await?;
    stage
        .team
        .patch(&stage.kind, "lamp", json!({"spec": {"size": 4}}))
        .await?;
    stage.await_in_copy("lamp", "/spec/size", json!(4)).await;
    let at = "/metadata/annotations/syncagent.kcp.io~1remote-object-name";
    stage.await_in_copy("lamp", at, json!("lamp")).await;
    Ok(())
}

async fn an_object_of_a_megabyte_travels(world: &World) -> Result<()> {
    let stage = world.stage(json!({})).await?;
    let text = "0123456789abcdef".repeat(60_000);
    let (_, copy) = stage.made("lamp", json!({"text": text})).await;
    ensure!(copy["spec"]["text"] == text.as_str(), "the text is another");
    stage
        .team
        .patch(&stage.kind, "lamp", json!({"spec": {"size": 1}}))
        .await?;
    let copy = stage.await_in_copy("lamp", "/spec/size", json!(1)).await;
    ensure!(copy["spec"]["text"] == text.as_str(), "the text is another");
    stage.team.delete(&stage.kind, "lamp").await?;
    stage.team.await_gone(&stage.kind, "lamp").await;
    Ok(())
}

async fn a_null_and_big_numbers_travel_unchanged(world: &World) -> Result<()> {
    let stage = world.stage(json!({})).await?;
    let spec = json!({
        "big": 9_007_199_254_740_993_i64, "half": 0.5, "negative": -7, "text": "<a>&\u{2028}\"",
        "empty": {}, "none": [], "mixed": [null, {"a": null}, ""],
    });
    let (source, copy) = stage.made("lamp", spec).await;
    ensure!(
        copy["spec"] == source["spec"],
        "{} for {}",
        copy["spec"],
        source["spec"]
    );
    stage
        .team
        .patch(
            &stage.kind,
            "lamp",
            json!({"spec": {"big": 9_007_199_254_740_995_i64}}),
        )
        .await?;
    stage
        .await_in_copy("lamp", "/spec/big", json!(9_007_199_254_740_995_i64))
        .await;
    Ok(())
}
