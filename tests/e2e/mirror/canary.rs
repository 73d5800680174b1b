//! What objects contain is told to nobody: not by the log at its most verbose, not by metrics or pages.
//! Every value that the test writes has one word in it, which is looked for afterwards.

use anyhow::{Result, ensure};
use serde_json::{Value, json};
use testbed::{SOON, eventually};

use super::world::{MAPS, MISSIONS, Type, World};
use crate::canary::CANARY;

/// Makes the definition of one cluster strict about one part of its objects.
async fn restrict(cluster: &testbed::ServiceCluster, of: &Type, part: &str) -> Result<()> {
    let strict = json!({
        "type": "object", "x-kubernetes-preserve-unknown-fields": true,
        "properties": {
            "code": {"type": "string", "pattern": "^[0-9]*$"},
            "token": {"type": "string"},
        },
        "x-kubernetes-validations": [{
            "rule": "!has(self.token) || self.token == 'right'",
            "messageExpression": "'the token ' + self.token + ' is wrong'",
        }],
    });
    let path = format!("/spec/versions/0/schema/openAPIV3Schema/properties/{part}");
    let patch = json!([{"op": "replace", "path": path, "value": strict}]).to_string();
    let name = of.name();
    let args = ["patch", "crd", &name, "--type=json", "-p", &patch];
    cluster.admin().kubectl(&args).await?;
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_that_objects_contain_is_told_by_log_metric_or_page() -> Result<()> {
    let types = [MISSIONS, MAPS];
    let world = World::with(&types).await?;
    let text = format!("{CANARY}-and-more\nof it");
    for of in &types {
        restrict(&world.robot, of, "spec").await?;
        restrict(&world.cloud, of, "status").await?;
    }
    let mirror = world.mirror(&[])?;
    for of in types {
        let on = world.objects(of)?;
        let nested = json!({CANARY: [{CANARY: [text]}]});
        let note = json!({
            "metadata": {
                "annotations": {"example.com/note": text},
                "labels": {"example.com/label": CANARY},
            },
            "spec": {"note": text, CANARY: CANARY, "nested": nested},
        });
        on.cloud.create("fine", note.clone()).await?;
        on.robot.has("fine", "/spec/note", json!(text)).await;
        on.robot
            .status(
                "fine",
                json!({"said": text, CANARY: CANARY, "nested": nested}),
            )
            .await?;
        on.cloud.has("fine", "/status/said", json!(text)).await;
        on.robot
            .patch("fine", json!({"spec": {"drift": text}}))
            .await?;
        on.robot.has("fine", "/spec/drift", Value::Null).await;
        // What the robot refuses, and what the cloud does.
        for field in ["code", "token"] {
            on.cloud
                .create(field, json!({"spec": {field: CANARY}}))
                .await?;
            let name = format!("status-{field}");
            on.cloud.create(&name, note.clone()).await?;
            on.robot.has(&name, "/spec/note", json!(text)).await;
            on.robot.status(&name, json!({field: CANARY})).await?;
        }
    }
    let message = "Syncing key from queue failed";
    eventually(SOON, "what is refused is told", async || -> Result<()> {
        let lines = mirror.lines(message);
        for name in ["code", "token", "status-code", "status-token"] {
            let key = format!("default/{name}");
            let told = lines.iter().filter(|line| line["Key"] == key.as_str());
            ensure!(told.count() >= types.len(), "{name}: {lines:?}");
        }
        Ok(())
    })
    .await;
    let log = mirror.log();
    for said in [
        "spec.code: Invalid value",
        "status.code: Invalid value",
        "spec: Invalid value",
    ] {
        ensure!(log.contains(said), "{said:?} is not in {log}");
    }
    // Its pages and its log are looked through as it ends.
    mirror.stop().await
}
