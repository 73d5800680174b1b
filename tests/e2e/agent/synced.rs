//! `spec.synced`: consumers wait with kubectl until the service has seen their change.

use std::fs;

use anyhow::{Context as _, Result, ensure};
use serde_json::{Value, json};
use testbed::{Launch, SOON, binaries, eventually};

use super::explain::only_explained;
use super::gadgets;
use super::stage::Stage;
use super::world::{Counted as _, PUBLISHED, World, shown};

on_our_ground!(
    kubectl_waits_until_the_service_has_observed_a_change,
    annotations_serve_types_without_conditions,
    a_refused_object_names_its_reason,
);

on_the_playground!(what_the_report_costs);

const SYNCED: &str = "syncagent.kcp.io/synced";

impl Stage<'_> {
    /// Runs `kubectl wait` in the workspace of the team.
    async fn wait(&self, args: &[&str]) -> Result<()> {
        let directory = self.world.directory.path();
        let config = directory.join("consumer.kubeconfig");
        let playground = &self.world.playground;
        fs::write(&config, playground.kcp_kubeconfig().to_string())?;
        let workspace = &self.team.cluster;
        let server = format!("--server={}/clusters/{workspace}", playground.kcp_url());
        let timeout = format!("--timeout={}s", SOON.as_secs());
        let output = Launch::new("wait", binaries::find("kubectl")?)
            .args(["wait", "--namespace=default", &server, &timeout])
            .args(args)
            .env("KUBECONFIG", config.as_os_str())
            .env("HOME", directory.as_os_str())
            .run(directory, SOON * 2)
            .await?;
        ensure!(output.exit.success(), "{}", output.stderr);
        Ok(())
    }

    /// The service's controller writes a status.
    async fn observes(&self, name: &str, status: Value) -> Result<()> {
        let copy = self.copy(name).await;
        let at = format!("{}/status", self.place(&copy));
        self.world
            .service
            .merge(&at, json!({"status": status}))
            .await?;
        Ok(())
    }

    async fn await_condition(&self, name: &str, status: &str, generation: i64) -> Value {
        eventually(SOON, "the condition is there", async || {
            let object = self.team.get(&self.kind, name).await?;
            let condition = condition(&object).context("no condition")?;
            let is_it =
                condition["status"] == status && condition["observedGeneration"] == generation;
            ensure!(is_it, "{object:#}");
            anyhow::Ok(object)
        })
        .await
    }
}

fn condition(object: &Value) -> Option<Value> {
    let conditions = object["status"]["conditions"].as_array()?;
    conditions
        .iter()
        .find(|one| one["type"] == "Synced")
        .cloned()
}

fn synced() -> Value {
    json!({"synced": {"condition": "Synced"}})
}

async fn kubectl_waits_until_the_service_has_observed_a_change(world: &World) -> Result<()> {
    let stage = world.stage(synced()).await?;
    stage.made("lamp", json!({"size": 1})).await;
    let object = stage.await_condition("lamp", "False", 1).await;
    ensure!(
        condition(&object).is_some_and(|one| one["reason"] == "NotObserved"),
        "{object:#}"
    );
    let ready = json!({"type": "Ready", "status": "True", "reason": "Lit", "message": ""});
    let status = json!({"observedGeneration": 1, "conditions": [ready]});
    stage.observes("lamp", status).await?;
    let wait = ["--for=condition=Synced", "gadget/lamp"];
    stage.wait(&wait).await?;
    let object = stage.team.get(&stage.kind, "lamp").await?;
    ensure!(object["status"]["conditions"][0] == ready, "{object:#}");

    // What was true of the last generation is not true of the next.
    let edit = json!({"spec": {"size": 2}});
    stage.team.patch(&stage.kind, "lamp", edit).await?;
    stage.await_condition("lamp", "False", 2).await;
    let waited = stage.wait(&wait);
    let serves = async {
        stage.await_in_copy("lamp", "/spec/size", json!(2)).await;
        stage
            .observes("lamp", json!({"observedGeneration": 2}))
            .await
    };
    let (waited, served) = tokio::join!(waited, serves);
    served?;
    waited?;
    let object = stage.await_condition("lamp", "True", 2).await;

    // A consumer who edits it gets it back, and so does another process.
    let mut forged = object.clone();
    forged["status"] = json!({});
    let at = format!("{}/status", stage.kind.at("default", "lamp"));
    stage.team.plane.replace(&at, &forged).await?;
    let restored = stage.await_condition("lamp", "True", 2).await;
    ensure!(
        restored["status"] == object["status"],
        "{restored:#}\n{object:#}"
    );
    stage.agent.kill().await?;
    let agent = world.start_agent()?;
    stage.marker("after").await;
    let after = stage.team.get(&stage.kind, "lamp").await?;
    ensure!(after["status"] == object["status"], "{after:#}");

    // The status is the service's alone again when the owner no longer wants the condition.
    let published = format!("{PUBLISHED}/{}", stage.published);
    let without = json!({"spec": {"synced": null}});
    world.service.merge(&published, without).await?;
    eventually(SOON, "the condition is gone", async || {
        let object = stage.team.get(&stage.kind, "lamp").await?;
        ensure!(condition(&object).is_none(), "{object:#}");
        Ok(())
    })
    .await;
    drop(agent);
    Ok(())
}

async fn annotations_serve_types_without_conditions(world: &World) -> Result<()> {
    let mut crd = gadgets(&world.group);
    let schema = &mut crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"];
    schema["properties"]["status"] = json!({
        "type": "object", "properties": {"observedGeneration": {"type": "integer"}},
    });
    // The schema has no place for the condition that is asked for.
    let stage = world.stage_with(&crd, synced()).await?;
    let published = format!("{PUBLISHED}/{}", stage.published);
    eventually(SOON, "the owner is warned", async || {
        let object = world.service.get(&published).await?;
        let said = object["status"].to_string();
        ensure!(said.contains("spec.synced.condition"), "{object:#}");
        Ok(())
    })
    .await;
    stage.made("lamp", json!({"size": 1})).await;
    stage
        .observes("lamp", json!({"observedGeneration": 1}))
        .await?;
    let wait = |generation: i64| {
        let path = "{.metadata.annotations.syncagent\\.kcp\\.io/synced-generation}";
        format!("--for=jsonpath={path}={generation}")
    };
    stage.wait(&[&wait(1), "gadget/lamp"]).await?;
    let edit = json!({"spec": {"size": 2}});
    let object = stage.team.patch(&stage.kind, "lamp", edit).await?;
    ensure!(object["metadata"]["generation"] == 2, "{object:#}");
    stage.await_in_copy("lamp", "/spec/size", json!(2)).await;
    stage
        .observes("lamp", json!({"observedGeneration": 2}))
        .await?;
    stage.wait(&[&wait(2), "gadget/lamp"]).await?;
    let object = stage.team.get(&stage.kind, "lamp").await?;
    let said = object["metadata"]["annotations"][SYNCED].as_str();
    let said: Value = serde_json::from_str(said.context("no annotation")?)?;
    ensure!(
        said["status"] == "True" && said["generation"] == 2 && said["copyGeneration"] == 2,
        "{said:#}"
    );
    // None of it reaches the copy.
    let copy = stage.copy("lamp").await;
    ensure!(
        copy["metadata"]["annotations"][SYNCED].is_null(),
        "{copy:#}"
    );
    Ok(())
}

async fn a_refused_object_names_its_reason(world: &World) -> Result<()> {
    let mut more = synced();
    more["naming"] = json!({"name": "{{ .Object.spec.nothing.at.all }}"});
    let stage = world.stage(more).await?;
    stage
        .team
        .make(&stage.kind, "lamp", json!({"size": 1}))
        .await;
    let object = stage.await_condition("lamp", "False", 1).await;
    let explained = only_explained(world, &["gadget", "lamp"]).await?;
    let reason = &explained["reason"]["code"];
    ensure!(
        condition(&object).is_some_and(|one| one["reason"] == *reason),
        "{object:#}\n{explained:#}"
    );
    Ok(())
}

async fn what_the_report_costs(world: &World) -> Result<()> {
    let stage = world.stage(synced()).await?;
    stage.made("lamp", json!({"size": 1})).await;
    stage.await_condition("lamp", "False", 1).await;
    stage
        .observes("lamp", json!({"observedGeneration": 1}))
        .await?;
    stage.await_condition("lamp", "True", 1).await;
    stage.marker("first").await;
    stage.await_condition("first", "False", 1).await;
    world.await_conditions(&stage.published).await;
    let about_lamp = |mark| {
        let mut all = world.agents_requests(mark);
        all.retain(|request| {
            request.is_write() && request.resource != "events" && request.resource != "secrets"
        });
        all.iter().map(shown).collect::<Vec<_>>()
    };
    // A change costs one request more, and that it was observed none: the status is written anyway.
    let mark = world.requests().mark();
    let edit = json!({"spec": {"size": 2}});
    stage.team.patch(&stage.kind, "lamp", edit).await?;
    stage.await_condition("lamp", "False", 2).await;
    let asked = about_lamp(mark);
    ensure!(asked.len() == 2, "{asked:#?}");
    let mark = world.requests().mark();
    let status = json!({"observedGeneration": 2, "lit": true});
    stage.observes("lamp", status).await?;
    stage.await_condition("lamp", "True", 2).await;
    stage.marker("second").await;
    stage.await_condition("second", "False", 1).await;
    let asked = about_lamp(mark);
    // One for the lamp, and three for the new object: its finalizer, its copy, its condition.
    ensure!(asked.len() == 1 + 3, "{asked:#?}");
    // The service changes what it has: nothing is written for that.
    let mark = world.requests().mark();
    let copy = stage.copy("lamp").await;
    stage
        .patch_copy(&copy, json!({"spec": {"own": true}}))
        .await?;
    stage.marker("third").await;
    stage.await_condition("third", "False", 1).await;
    let asked = about_lamp(mark);
    ensure!(asked.len() == 3, "{asked:#?}");
    Ok(())
}
