//! What the original left in its exact format is taken over, and left as the original reads it.

use anyhow::{Context as _, Result, ensure};
use serde_json::{Value, json};

use super::plane::Kind;
use super::service::{self, Agency};
use super::state::lay_down_state;
use super::world::{EXPORT, EXPORTS, PUBLISHED, SCHEMAS, Team, World, has};
use super::{SOON, crontabs, sha3_short};

on_both_grounds!(what_the_original_left_is_taken_over_without_a_single_write);

/// The name that the original gives the schema of crontabs.
const SCHEMA: &str = "v0595d221.crontabs.example.com";
const NAMES: [&str; 3] = ["lamp", "sofa", "desk"];

/// Publishes crontabs as the original does: the schema, the export, the status.
async fn lay_down_publication(world: &World, kind: &Kind) -> Result<String> {
    let crd = crontabs();
    let version = &crd["spec"]["versions"][0];
    let agent = json!({"syncagent.kcp.io/agent-name": world.agent});
    let schema = json!({
        "apiVersion": "apis.kcp.io/v1alpha1", "kind": "APIResourceSchema",
        "metadata": {
            "name": SCHEMA, "labels": agent,
            "annotations": {"syncagent.kcp.io/agent-name": world.agent, "syncagent.kcp.io/source-generation": "1"},
        },
        "spec": {
            "group": "example.com", "names": crd["spec"]["names"], "scope": "Namespaced",
            "versions": [{
                "name": "v1", "served": true, "storage": true, "subresources": {},
                "schema": version["schema"]["openAPIV3Schema"],
            }],
        },
    });
    world.org.create(SCHEMAS, &schema).await?;
    let export = json!({
        "metadata": {"annotations": agent},
        "spec": {
            "latestResourceSchemas": [SCHEMA],
            "permissionClaims": [{"group": "", "resource": "events", "all": true}],
        },
    });
    world
        .org
        .merge(&format!("{EXPORTS}/{EXPORT}"), export)
        .await?;
    let published = world.publish(kind, json!({})).await?;
    let status = json!({"status": {"resourceSchemaName": SCHEMA}});
    let at = format!("{PUBLISHED}/{published}/status");
    world.service.merge(&at, status).await?;
    Ok(published)
}

/// An object with finalizer, copy and state.
async fn lay_down(world: &World, kind: &Kind, team: &Team, name: &str) -> Result<()> {
    let of = team.of(name);
    let spec = json!({"cronSpec": "a<b", "replicas": 3});
    let mut source = kind.object(name, spec.clone());
    source["metadata"]["finalizers"] = json!(["syncagent.kcp.io/cleanup"]);
    source["metadata"]["labels"] = json!({"colour": "red"});
    team.make_at(&kind.within("default"), &source).await;
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
    let state = format!(
        "{{\"apiVersion\":\"example.com/v1\",\"kind\":\"CronTab\",\"metadata\":{{\"labels\":{{\"colour\":\"red\"}},\
         \"name\":\"{name}\",\"namespace\":\"default\"}},\"spec\":{{\"cronSpec\":\"a\\u003cb\",\"replicas\":3}}}}"
    );
    lay_down_state(world, kind, of, &state).await
}

/// How everything is that must not be written to.
async fn versions(world: &World, kind: &Kind, team: &Team) -> Result<Vec<(String, String)>> {
    let schema = world.org.get(&format!("{SCHEMAS}/{SCHEMA}")).await?;
    let mut all = vec![
        ("export".to_owned(), world.export().await?),
        ("schema".to_owned(), schema),
    ];
    for name in NAMES {
        let of = team.of(name);
        let copy = world.copy(kind, of).await?.context("no copy")?;
        let state = world.service.get(&world.secret_at(kind, of)).await?;
        all.push((format!("object {name}"), team.get(kind, name).await?));
        all.push((format!("copy of {name}"), copy));
        all.push((format!("state of {name}"), state));
    }
    let version = |object: Value| {
        let version = object["metadata"]["resourceVersion"].as_str();
        version.unwrap_or_default().to_owned()
    };
    Ok(all
        .into_iter()
        .map(|(name, object)| (name, version(object)))
        .collect())
}

async fn what_the_original_left_is_taken_over_without_a_single_write(world: &World) -> Result<()> {
    // The one test that has this group to itself on the shared clusters.
    let user = world.user();
    let agency = Agency {
        user: &user,
        namespace: &world.namespace,
        groups: vec!["example.com"],
    };
    service::grant(&world.service, &agency).await?;
    let kind = world.install(&crontabs()).await?;
    let published = lay_down_publication(world, &kind).await?;
    let team = world.team("team").await?;
    world.service.namespace(&team.cluster, json!({})).await?;
    for name in NAMES {
        lay_down(world, &kind, &team, name).await?;
    }

    let before = versions(world, &kind, &team).await?;
    let agent = world.start_agent()?;
    world.await_marker(&kind, &team).await;
    world.await_marker(&kind, &team).await;
    let after = versions(world, &kind, &team).await?;
    ensure!(after == before, "{after:#?} after {before:#?}");
    let found = world
        .service
        .get(&format!("{PUBLISHED}/{published}"))
        .await?;
    has(&found, "/status/resourceSchemaName", &json!(SCHEMA))?;

    // From here on the objects are Hawser's as they were the original's.
    let patch = json!({"spec": {"replicas": 4, "cronSpec": null}});
    team.patch(&kind, "lamp", patch).await?;
    let copy = world
        .await_in_copy(&kind, team.of("lamp"), "/spec", json!({"replicas": 4}))
        .await;
    has(&copy, "/metadata/labels/colour", &json!("red"))?;
    team.delete(&kind, "sofa").await?;
    team.await_gone(&kind, "sofa").await;
    ensure!(world.copy(&kind, team.of("sofa")).await?.is_none());
    agent.stop(SOON).await?;
    Ok(())
}
