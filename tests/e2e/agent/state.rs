//! State Secrets as the original keeps them, byte by byte; and what it left behind is taken over.

use anyhow::{Context as _, Result, ensure};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use testbed::eventually;

use super::plane::Kind;
use super::service::Ground;
use super::world::{EXPORT, EXPORTS, Of, PUBLISHED, SCHEMAS, Team, World, has};
use super::{SOON, gadgets, sha1_hex, sha3_short};

on_both_grounds!(
    the_state_is_kept_byte_for_byte_as_the_original_keeps_it,
    the_state_follows_what_the_source_says,
    the_state_goes_with_its_object_where_that_is_allowed,
    foreign_keys_of_a_state_secret_stay,
    a_lost_state_is_made_again_from_the_source,
    what_the_original_left_is_taken_over_without_a_single_write,
    what_the_original_left_behind_of_gone_objects_is_cleaned_up_or_left,
);

/// The Secret of an object, as the contract names it.
fn secret_name(kind: &Kind, of: Of<'_>) -> String {
    let identity = format!(
        "{{\"apiVersion\":\"{}\",\"kind\":\"{}\",\"name\":\"{}\",\"namespace\":\"{}\"}}\n",
        kind.api_version(),
        kind.kind,
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
    fn secret_at(&self, kind: &Kind, of: Of<'_>) -> String {
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
    ensure!(keys.len() == 1, "{keys:?}");
    Ok(())
}

async fn the_state_follows_what_the_source_says(world: &World) -> Result<()> {
    let stage = world.stage(json!({})).await?;
    let (_, copy) = stage.made("lamp", json!({"a": 1})).await;
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
    stage.made("lamp", json!({"a": 1})).await;
    world.service.get(&at).await?;
    stage.team.delete(&stage.kind, "lamp").await?;
    stage.team.await_gone(&stage.kind, "lamp").await;
    let left = world.service.find(&at).await?;
    ensure!(
        left.is_some() == (world.ground == Ground::Original),
        "{left:?}"
    );
    // One that had to stay does no harm to the next object of the name.
    let (_, copy) = stage.made("lamp", json!({"b": 2})).await;
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
    stage.made("lamp", json!({"a": 1})).await;
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
    let (_, copy) = stage.made("lamp", json!({"a": 1})).await;
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

/// Lays down what the original leaves: an object in step, with everything around it.
struct Legacy {
    kind: Kind,
    published: String,
    schema: String,
    team: Team,
}

/// What the agent must not have written to, and how it was.
async fn versions(world: &World, legacy: &Legacy, names: &[&str]) -> Result<Vec<(String, String)>> {
    let kind = &legacy.kind;
    let version = |object: Value| {
        object["metadata"]["resourceVersion"]
            .as_str()
            .unwrap_or_default()
            .to_owned()
    };
    let mut found = Vec::new();
    for (at, object) in [
        (format!("{EXPORTS}/{EXPORT}"), world.export().await?),
        (
            legacy.schema.clone(),
            world
                .org
                .get(&format!("{SCHEMAS}/{}", legacy.schema))
                .await?,
        ),
    ] {
        found.push((at, version(object)));
    }
    for name in names {
        let of = legacy.team.of(name);
        let object = legacy.team.get(kind, name).await?;
        found.push((format!("object {name}"), version(object)));
        let copy = world.copy(kind, of).await?.context("no copy")?;
        found.push((format!("copy of {name}"), version(copy)));
        let secret = world.service.get(&world.secret_at(kind, of)).await?;
        found.push((format!("state of {name}"), version(secret)));
    }
    Ok(found)
}

/// An object with finalizer, copy and state as the original leaves them; at the end a status.
async fn lay_down(world: &World, kind: &Kind, team: &Team, name: &str) -> Result<()> {
    let of = team.of(name);
    let spec = json!({"size": 3, "text": "a<b"});
    let mut source = kind.object(name, spec.clone());
    source["metadata"]["finalizers"] = json!(["syncagent.kcp.io/cleanup"]);
    source["metadata"]["labels"] = json!({"colour": "red"});
    team.make_at(&kind.within("default"), &source).await;
    let status = json!({"status": {"lit": true}});
    team.plane
        .merge(
            &format!("{}/status", kind.at("default", name)),
            status.clone(),
        )
        .await?;
    let place = format!("{}-{}", sha3_short("default"), sha3_short(name));
    let mut copy = kind.object(&place, spec);
    let mut labels = of.labels();
    labels.insert("colour".into(), "red".into());
    labels.insert(
        "syncagent.kcp.io/agent-name".into(),
        world.agent.as_str().into(),
    );
    copy["metadata"]["labels"] = labels.into();
    copy["metadata"]["annotations"] = json!({
        "syncagent.kcp.io/remote-object-name": name,
        "syncagent.kcp.io/remote-object-namespace": "default",
    });
    world
        .service
        .create(&kind.within(&team.cluster), &copy)
        .await?;
    let at = format!("{}/status", kind.at(&team.cluster, &place));
    world.service.merge(&at, status).await?;
    let state = format!(
        "{{\"apiVersion\":\"{}\",\"kind\":\"{}\",\"metadata\":{{\"labels\":{{\"colour\":\"red\"}},\"name\":\"{name}\",\
         \"namespace\":\"default\"}},\"spec\":{{\"size\":3,\"text\":\"a\\u003cb\"}}}}",
        kind.api_version(),
        kind.kind,
    );
    lay_down_state(world, kind, of, &state).await
}

async fn lay_down_state(world: &World, kind: &Kind, of: Of<'_>, state: &str) -> Result<()> {
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

/// Everything that the original leaves of a published kind with some objects, and no agent at work.
async fn legacy(world: &World, names: &[&str]) -> Result<Legacy> {
    let kind = world.install(&gadgets(&world.group)).await?;
    let published = world.publish(&kind, json!({})).await?;
    // The name of the schema is a hash that a test of its own compares with the contract's.
    let agent = world.start_agent()?;
    let schema = world.await_published(&published).await;
    agent.stop(SOON).await?;
    let team = world.team("team").await?;
    world.service.namespace(&team.cluster, json!({})).await?;
    for name in names {
        lay_down(world, &kind, &team, name).await?;
    }
    Ok(Legacy {
        kind,
        published,
        schema,
        team,
    })
}

async fn what_the_original_left_is_taken_over_without_a_single_write(world: &World) -> Result<()> {
    let legacy = legacy(world, &["lamp", "sofa"]).await?;
    let (kind, team) = (&legacy.kind, &legacy.team);
    // What the original has written of the resource itself.
    let at = format!("{PUBLISHED}/{}", legacy.published);
    let status = json!({"status": {"resourceSchemaName": legacy.schema, "conditions": null, "observedGeneration": null}});
    world.service.merge(&format!("{at}/status"), status).await?;
    let schema = world
        .org
        .get(&format!("{SCHEMAS}/{}", legacy.schema))
        .await?;
    let meta = &schema["metadata"];
    ensure!(
        meta["labels"] == json!({"syncagent.kcp.io/agent-name": world.agent}),
        "{meta}"
    );

    let before = versions(world, &legacy, &["lamp", "sofa"]).await?;
    let agent = world.start_agent()?;
    world.await_marker(kind, team).await;
    world.await_marker(kind, team).await;
    let after = versions(world, &legacy, &["lamp", "sofa"]).await?;
    ensure!(after == before, "{after:#?} after {before:#?}");
    // From here on it is ours as it was the original's.
    team.patch(kind, "lamp", json!({"spec": {"size": 4}}))
        .await?;
    let copy = world
        .await_in_copy(kind, team.of("lamp"), "/spec/size", json!(4))
        .await;
    has(&copy, "/metadata/labels/colour", &json!("red"))?;
    team.delete(kind, "sofa").await?;
    team.await_gone(kind, "sofa").await;
    ensure!(world.copy(kind, team.of("sofa")).await?.is_none());
    agent.stop(SOON).await?;
    Ok(())
}

async fn what_the_original_left_behind_of_gone_objects_is_cleaned_up_or_left(
    world: &World,
) -> Result<()> {
    let legacy = legacy(world, &["lamp"]).await?;
    let (kind, team) = (&legacy.kind, &legacy.team);
    let state = |name: &str, kind_name: &str| {
        format!(
            "{{\"apiVersion\":\"{}\",\"kind\":\"{kind_name}\",\"metadata\":{{\"name\":\"{name}\",\"namespace\":\"default\"}},\"spec\":{{}}}}",
            kind.api_version()
        )
    };
    lay_down_state(world, kind, team.of("ghost"), &state("ghost", "Gadget")).await?;
    // Of a kind that is not ours to judge: another agent may share the namespace.
    let foreign = Kind::new(&world.group, "v1", "widgets", "Widget");
    lay_down_state(world, &foreign, team.of("other"), &state("other", "Widget")).await?;
    let _agent = world.start_agent()?;
    world.await_marker(kind, team).await;
    let ghost = world.secret_at(kind, team.of("ghost"));
    if world.ground == Ground::Ours {
        eventually(SOON, "the state of the ghost is gone", async || {
            ensure!(world.service.find(&ghost).await?.is_none(), "it is there");
            Ok(())
        })
        .await;
    } else {
        world.await_marker(kind, team).await;
        world.service.get(&ghost).await?;
    }
    world
        .service
        .get(&world.secret_at(&foreign, team.of("other")))
        .await?;
    world
        .service
        .get(&world.secret_at(kind, team.of("lamp")))
        .await?;
    Ok(())
}
