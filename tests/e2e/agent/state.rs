//! State Secrets as the original keeps them, byte by byte.

use anyhow::{Context as _, Result, ensure};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::json;
use testbed::eventually;

use super::plane::Kind;
use super::service::Ground;
use super::world::{Of, World, has};
use super::{SOON, sha1_hex};

on_both_grounds!(
    the_state_is_kept_byte_for_byte_as_the_original_keeps_it,
    the_state_follows_what_the_source_says,
    the_state_goes_with_its_object_where_that_is_allowed,
    foreign_keys_of_a_state_secret_stay,
    a_lost_state_is_made_again_from_the_source,
    what_is_left_of_gone_objects_is_cleaned_up_where_that_is_ours_and_allowed,
);

/// The Secret of an object, as the contract names it.
pub(super) fn secret_name(kind: &Kind, of: Of<'_>) -> String {
    let identity = format!(
        "{{\"apiVersion\":\"{}\",\"kind\":\"{}\",\"name\":\"{}\",\"namespace\":\"{}\"}}\n",
        kind.api_version(),
        kind.name,
        of.name,
        of.namespace
    );
    format!(
        "obj-state-{}-{}",
        of.team.cluster,
        &sha1_hex(&identity)[..20]
    )
}

/// The key of its state.
fn state_key(of: Of<'_>) -> String {
    let key = format!(
        "{{\"ClusterName\":\"{}\",\"WorkspacePath\":\"\",\"Namespace\":\"{}\",\"Name\":\"{}\"}}\n",
        of.team.cluster, of.namespace, of.name
    );
    sha1_hex(&key)
}

impl World {
    pub(super) fn secret_at(&self, kind: &Kind, of: Of<'_>) -> String {
        let name = secret_name(kind, of);
        format!("/api/v1/namespaces/{}/secrets/{name}", self.namespace)
    }

    /// The text of an object's state.
    async fn state(&self, kind: &Kind, of: Of<'_>) -> Result<String> {
        let secret = self.service.get(&self.secret_at(kind, of)).await?;
        let data = secret["data"][state_key(of)].as_str();
        let data = data.with_context(|| format!("the keys are {}", secret["data"]))?;
        Ok(String::from_utf8(STANDARD.decode(data)?)?)
    }

    async fn await_state(&self, kind: &Kind, of: Of<'_>, wanted: &str) {
        eventually(SOON, "the state is kept", async || {
            let found = self.state(kind, of).await?;
            ensure!(found == wanted, "it is {found} instead of {wanted}");
            Ok(())
        })
        .await;
    }
}

async fn the_state_is_kept_byte_for_byte_as_the_original_keeps_it(world: &World) -> Result<()> {
    let stage = world.stage(json!({})).await?;
    let mut lamp = stage.kind.object(
        "lamp",
        json!({"z": 1, "a": "<&>", "n": 2.5, "l": [true, null]}),
    );
    lamp["metadata"]["labels"] = json!({"colour": "red"});
    lamp["metadata"]["annotations"] =
        json!({"kubectl.kubernetes.io/last-applied-configuration": "{}"});
    stage
        .team
        .make_at(&stage.kind.within("default"), &lamp)
        .await;
    let of = stage.of("lamp");
    world.await_copy(&stage.kind, of).await;
    let api_version = stage.kind.api_version();
    let wanted = format!(
        "{{\"apiVersion\":\"{api_version}\",\"kind\":\"Gadget\",\"metadata\":{{\"labels\":{{\"colour\":\"red\"}},\
         \"name\":\"lamp\",\"namespace\":\"default\"}},\"spec\":{{\"a\":\"\\u003c\\u0026\\u003e\",\"l\":[true,null],\
         \"n\":2.5,\"z\":1}}}}"
    );
    world.await_state(&stage.kind, of, &wanted).await;
    let secret = world.service.get(&world.secret_at(&stage.kind, of)).await?;
    let mut labels = of.labels();
    labels.insert("syncagent.kcp.io/object-state".into(), "true".into());
    let mut found = secret["metadata"]["labels"]
        .as_object()
        .cloned()
        .context("labels")?;
    // Ours are told apart from another agent's in the same namespace.
    if let Some(agent) = found.remove("syncagent.kcp.io/agent-name") {
        ensure!(agent == world.agent.as_str());
    }
    ensure!(found == labels, "{found:?}");
    for absent in ["annotations", "ownerReferences", "finalizers"] {
        ensure!(
            secret["metadata"].get(absent).is_none(),
            "{}",
            secret["metadata"]
        );
    }
    has(&secret, "/type", &json!("Opaque"))?;
    let keys = secret["data"].as_object().context("data")?;
    // What else we remember stands under names that the original never has.
    let others = keys.keys().filter(|key| !key.starts_with("hawser."));
    ensure!(others.count() == 1, "{keys:?}");
    Ok(())
}

async fn the_state_follows_what_the_source_says(world: &World) -> Result<()> {
    let stage = world.stage(json!({})).await?;
    let (_, copy) = stage.made_bare("lamp", json!({"a": 1})).await;
    let status = format!("{}/status", stage.place(&copy));
    world
        .service
        .merge(&status, json!({"status": {"lit": true}}))
        .await?;
    stage
        .team
        .await_in(&stage.kind, "lamp", "/status/lit", json!(true))
        .await;
    stage
        .team
        .patch(&stage.kind, "lamp", json!({"spec": {"a": null, "b": 2}}))
        .await?;
    let wanted = format!(
        "{{\"apiVersion\":\"{}\",\"kind\":\"Gadget\",\"metadata\":{{\"name\":\"lamp\",\"namespace\":\"default\"}},\
         \"spec\":{{\"b\":2}}}}",
        stage.kind.api_version()
    );
    world
        .await_state(&stage.kind, stage.of("lamp"), &wanted)
        .await;
    Ok(())
}

async fn the_state_goes_with_its_object_where_that_is_allowed(world: &World) -> Result<()> {
    let stage = world.stage(json!({})).await?;
    let at = world.secret_at(&stage.kind, stage.of("lamp"));
    stage.made_bare("lamp", json!({"a": 1})).await;
    world.service.get(&at).await?;
    stage.team.delete(&stage.kind, "lamp").await?;
    stage.team.await_gone(&stage.kind, "lamp").await;
    let left = world.service.find(&at).await?;
    ensure!(
        left.is_some() == (world.ground == Ground::Original),
        "{left:?}"
    );
    // One that had to stay does no harm to the next object of the name.
    let (_, copy) = stage.made_bare("lamp", json!({"b": 2})).await;
    has(&copy, "/spec", &json!({"b": 2}))?;
    stage
        .team
        .patch(&stage.kind, "lamp", json!({"spec": {"b": null, "c": 3}}))
        .await?;
    stage.await_in_copy("lamp", "/spec", json!({"c": 3})).await;
    Ok(())
}

async fn foreign_keys_of_a_state_secret_stay(world: &World) -> Result<()> {
    let stage = world.stage(json!({})).await?;
    stage.made_bare("lamp", json!({"a": 1})).await;
    let at = world.secret_at(&stage.kind, stage.of("lamp"));
    world.service.get(&at).await?;
    world
        .service
        .merge(&at, json!({"data": {"0123": "e30="}}))
        .await?;
    stage
        .team
        .patch(&stage.kind, "lamp", json!({"spec": {"a": 2}}))
        .await?;
    let wanted = format!(
        "{{\"apiVersion\":\"{}\",\"kind\":\"Gadget\",\"metadata\":{{\"name\":\"lamp\",\"namespace\":\"default\"}},\
         \"spec\":{{\"a\":2}}}}",
        stage.kind.api_version()
    );
    world
        .await_state(&stage.kind, stage.of("lamp"), &wanted)
        .await;
    has(&world.service.get(&at).await?, "/data/0123", &json!("e30="))
}

async fn a_lost_state_is_made_again_from_the_source(world: &World) -> Result<()> {
    let stage = world.stage(json!({})).await?;
    let (_, copy) = stage.made_bare("lamp", json!({"a": 1})).await;
    stage
        .patch_copy(&copy, json!({"spec": {"a": 7, "extra": true}}))
        .await?;
    let at = world.secret_at(&stage.kind, stage.of("lamp"));
    world.service.delete(&at).await?;
    stage
        .team
        .patch(&stage.kind, "lamp", json!({"spec": {"b": 2}}))
        .await?;
    // What the source has counts, what only the copy has stays.
    let wanted = json!({"a": 1, "b": 2, "extra": true});
    stage.await_in_copy("lamp", "/spec", wanted).await;
    eventually(SOON, "there is a state again", async || {
        world.state(&stage.kind, stage.of("lamp")).await
    })
    .await;
    Ok(())
}

/// A state Secret as the original leaves it.
pub(super) async fn lay_down_state(
    world: &World,
    kind: &Kind,
    of: Of<'_>,
    state: &str,
) -> Result<()> {
    let mut labels = of.labels();
    labels.insert("syncagent.kcp.io/object-state".into(), "true".into());
    let secret = json!({
        "apiVersion": "v1", "kind": "Secret",
        "metadata": {"name": secret_name(kind, of), "labels": labels},
        "data": {state_key(of): STANDARD.encode(state)},
    });
    let secrets = format!("/api/v1/namespaces/{}/secrets", world.namespace);
    world.service.create(&secrets, &secret).await?;
    Ok(())
}

async fn what_is_left_of_gone_objects_is_cleaned_up_where_that_is_ours_and_allowed(
    world: &World,
) -> Result<()> {
    let stage = world.stage(json!({})).await?;
    let (kind, team) = (&stage.kind, &stage.team);
    stage.made_bare("lamp", json!({})).await;
    stage.agent.stop(SOON).await?;
    let state = |name: &str, kind_name: &str| {
        format!(
            "{{\"apiVersion\":\"{}\",\"kind\":\"{kind_name}\",\"metadata\":{{\"name\":\"{name}\",\
             \"namespace\":\"default\"}},\"spec\":{{}}}}",
            kind.api_version()
        )
    };
    lay_down_state(world, kind, team.of("ghost"), &state("ghost", "Gadget")).await?;
    // Of a kind that is not ours to judge: another agent may share the namespace.
    let foreign = Kind::new(&world.group, "v1", "widgets", "Widget");
    lay_down_state(world, &foreign, team.of("other"), &state("other", "Widget")).await?;
    let _agent = world.start_agent()?;
    stage.marker("marker").await;
    let ghost = world.secret_at(kind, team.of("ghost"));
    if world.ground == Ground::Ours {
        eventually(SOON, "the state of the ghost is gone", async || {
            ensure!(world.service.find(&ghost).await?.is_none(), "it is there");
            Ok(())
        })
        .await;
    } else {
        stage.marker("marker2").await;
        world.service.get(&ghost).await?;
    }
    for (kind, name) in [(&foreign, "other"), (kind, "lamp")] {
        world
            .service
            .get(&world.secret_at(kind, team.of(name)))
            .await?;
    }
    Ok(())
}
