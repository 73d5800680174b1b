//! `hawser explain --consumer`: what somebody finds out who has rights in one workspace only.

use anyhow::{Result, ensure};
use kcp_playground::server::{Action, Fault, Matcher, When};
use serde_json::{Value, json};
use testbed::eventually;

use super::SOON;
use super::pause::{annotations, soon};
use super::stage::Stage;
use super::world::{CONSUMER, World};

on_the_playground!(
    a_consumer_learns_what_blocks_an_object_from_the_workspace_alone,
    what_a_consumer_may_not_read_is_said,
);

/// What `hawser explain --consumer` prints.
async fn ask(stage: &Stage<'_>, name: &str, more: &[&str]) -> Result<(bool, String, String)> {
    let kubeconfig = stage.world.consumer_kubeconfig(&stage.team)?;
    let consumer = format!("--consumer={}", kubeconfig.display());
    let args = [&["explain", &*consumer, "gadget", name], more].concat();
    World::run_alone(&args).await
}

/// Awaits that an object is explained like this.
async fn until(stage: &Stage<'_>, name: &str, in_step: Value, code: &str) -> Value {
    eventually(SOON, &format!("{name} has {code}"), async || {
        let (succeeds, stdout, stderr) = ask(stage, name, &["--output=json"]).await?;
        ensure!(succeeds, "{stderr}");
        let answer: Value = serde_json::from_str(&stdout)?;
        let object = &answer["objects"][0];
        let found = (&object["inStep"], &object["reason"]["code"]);
        ensure!(found == (&in_step, &json!(code)), "{object:#}");
        ensure!(object["object"]["cluster"] == *stage.team.cluster);
        Ok(object.clone())
    })
    .await
}

async fn a_consumer_learns_what_blocks_an_object_from_the_workspace_alone(
    world: &World,
) -> Result<()> {
    let mutation =
        json!({"spec": [{"cel": {"path": "spec.size", "expression": "int(value) + 1"}}]});
    let stage = world.stage(json!({"mutation": mutation})).await?;
    let (team, kind) = (&stage.team, &stage.kind);
    let (_, copy) = stage.made("lamp", json!({"size": 1})).await;
    until(&stage, "lamp", Value::Null, "NoProblemReported").await;
    team.make(kind, "wrong", json!({"size": "x"})).await;
    let wrong = until(&stage, "wrong", false.into(), "MutationFailed").await;
    ensure!(
        wrong["since"].is_string() && wrong["provider"].is_string(),
        "{wrong:#}"
    );
    let mark = world.requests().mark();
    let (succeeds, stdout, stderr) = ask(&stage, "wrong", &[]).await?;
    ensure!(
        succeeds && stdout.contains("  in sync       no\n"),
        "{stdout}{stderr}"
    );
    ensure!(
        stdout.contains("  provider      correct the mutation"),
        "{stdout}"
    );
    let own = world.requests().since(mark).into_iter();
    let own: Vec<_> = own.filter(|request| request.user == CONSUMER).collect();
    ensure!(!own.is_empty(), "the command asked nothing");
    let path = format!("root:org:{}", team.name);
    for request in own {
        let reads = ["get", "list"].contains(&&*request.verb);
        ensure!(reads && request.cluster == path, "{request:?}");
    }
    let better = json!({"spec": {"size": 5}});
    team.patch(kind, "wrong", better).await?;
    let told = |object: &Value| object["reason"]["code"] != "MutationFailed";
    eventually(SOON, "it is no longer refused", async || -> Result<()> {
        let (_, stdout, _) = ask(&stage, "wrong", &["--output=json"]).await?;
        let answer: Value = serde_json::from_str(&stdout)?;
        ensure!(told(&answer["objects"][0]), "{answer:#}");
        Ok(())
    })
    .await;

    let mut pause = annotations(soon(3_600).into());
    pause["spec"] = json!({"size": 6});
    team.patch(kind, "wrong", pause).await?;
    let paused = until(&stage, "wrong", false.into(), "Paused").await;
    let text = paused["reason"]["explanation"].as_str();
    ensure!(
        text.is_some_and(|text| text.contains("by anna")),
        "{paused:#}"
    );
    let reports = json!({"spec": {"synced": {"when": "Copied"}}});
    world.change_published(&stage.published, reports).await?;
    until(&stage, "lamp", true.into(), "InStep").await;
    let hold = json!({"metadata": {"finalizers": ["example.org/hold"]}});
    stage.patch_copy(&copy, hold).await?;
    team.delete(kind, "lamp").await?;
    until(&stage, "lamp", false.into(), "WaitingForDeletion").await;
    let (succeeds, _, stderr) = ask(&stage, "nobody", &[]).await?;
    ensure!(!succeeds && stderr.contains("Gadget nobody"), "{stderr}");
    Ok(())
}

async fn what_a_consumer_may_not_read_is_said(world: &World) -> Result<()> {
    let stage = world.stage(json!({})).await?;
    stage.made("lamp", json!({"size": 1})).await;
    until(&stage, "lamp", Value::Null, "NoProblemReported").await;
    for resource in ["events", "apibindings", "namespaces"] {
        let matcher = Matcher {
            cluster: Some(format!("root:org:{}", stage.team.name)),
            resource: Some(resource.to_owned()),
            ..Matcher::default()
        };
        let status = Action::Status {
            code: 403,
            when: When::Before,
        };
        world.playground.faults().add(Fault::new(matcher, status));
    }
    let lamp = until(&stage, "lamp", Value::Null, "NotReported").await;
    let unknown = lamp["unknown"].to_string();
    for part in ["the events", "the APIBindings", "the namespace"] {
        ensure!(unknown.contains(part), "{lamp:#}");
    }
    let (_, stdout, _) = ask(&stage, "lamp", &[]).await?;
    ensure!(
        stdout.contains("  in sync       cannot be known from here\n"),
        "{stdout}"
    );
    world.playground.faults().clear();

    // As behind an agent that reports nothing.
    stage.agent.stop(SOON).await?;
    let mut object = stage.kind.object("silent", json!({"size": 1}));
    object["metadata"]["finalizers"] = json!(["syncagent.kcp.io/cleanup"]);
    let place = stage.kind.within("default");
    stage.team.plane.create(&place, &object).await?;
    until(&stage, "silent", Value::Null, "NotReported").await;
    stage
        .team
        .plane
        .create(&place, &stage.kind.object("new", json!({})))
        .await?;
    until(&stage, "new", false.into(), "NotAccepted").await;
    world.unbind(&stage.team).await?;
    eventually(
        SOON,
        "it is deleted and not bound",
        async || -> Result<()> {
            let silent = until(&stage, "silent", false.into(), "NotBound").await;
            let also = &silent["also"][0]["reason"]["code"];
            ensure!(*also == "WaitingForDeletion", "{silent:#}");
            Ok(())
        },
    )
    .await;
    let left = json!({"metadata": {"finalizers": null}});
    stage.team.patch(&stage.kind, "silent", left).await?;
    Ok(())
}
