//! Admission webhooks of a workspace that change, refuse or delay what the agent writes there, for one verb and resource
//! at a time. Faults act for them: they strike the agent's requests to this workspace.

use std::time::Duration;

use anyhow::Result;
use kcp_playground::server::{Action, When};
use serde_json::{Value, json};

use super::{Scene, secrets};

/// Objects with Secrets in both directions.
const OBJECTS: usize = 10;

fn name(round: usize, number: usize) -> String {
    format!("hook{round}-{number}")
}

pub(super) async fn attacks(scene: &mut Scene<'_>) -> Result<()> {
    let kind = scene.kind().plural.clone();
    let finalizers = json!({"metadata": {"finalizers": null}});
    let foreign = json!({"metadata": {"finalizers": ["example.com/held"]}});
    let owner = json!({"metadata": {"ownerReferences": [{
        "apiVersion": "v1", "kind": "ConfigMap", "name": "none", "uid": "none"}]}});
    let data = json!({"data": {"password": "bWluZQ=="}, "stringData": {"password": "mine"}});
    let marks = json!({"metadata": {"labels": null, "annotations": null}});
    let labels: Value = (0..200).map(|n| (format!("l{n}"), json!("v"))).collect();
    let changes: [(&str, &str, Value); 10] = [
        ("patch", &kind, finalizers.clone()),
        ("patch", "secrets", finalizers),
        ("patch", &kind, foreign.clone()),
        ("create", "secrets", foreign),
        ("create", "secrets", owner),
        ("create", "secrets", data.clone()),
        ("patch", "secrets", data),
        ("create", "secrets", marks),
        (
            "create",
            "secrets",
            json!({"metadata": {"labels": labels}, "type": "example.com/other"}),
        ),
        ("update", &kind, json!({"status": {"phase": "Mine"}})),
    ];
    let changes = changes.map(|(verb, of, patch)| (verb, of, Action::Mutate(patch)));
    let denied = |verb, of| {
        let denial = Action::Status {
            code: 403,
            when: When::Before,
        };
        (verb, of, denial)
    };
    let lost = |verb, of| {
        let timeout = Action::Status {
            code: 504,
            when: When::After,
        };
        (verb, of, timeout)
    };
    let hangs = |verb, of| (verb, of, Action::Latency(Duration::from_secs(29)));
    let others = [
        denied("create", "secrets"),
        denied("delete", "secrets"),
        denied("patch", &*kind),
        denied("update", &*kind),
        lost("create", "secrets"),
        lost("patch", &*kind),
        lost("update", &*kind),
        hangs("create", "secrets"),
        hangs("delete", "secrets"),
        hangs("update", &*kind),
    ];
    for (round, (verb, of, action)) in changes.into_iter().chain(others).enumerate() {
        webhook(scene, round, verb, of, action).await?;
    }
    Ok(())
}

/// A life of some objects of the hostile workspace under a webhook, up to their deletion.
async fn webhook(
    scene: &mut Scene<'_>,
    round: usize,
    verb: &str,
    of: &str,
    action: Action,
) -> Result<()> {
    let attack = format!("a webhook for {verb} of {of}: {action:?}");
    scene
        .attack(&attack, async |scene| {
            scene.strike(verb, of, action);
            let all = (0..OBJECTS).map(|number| live(scene, name(round, number)));
            futures::future::join_all(all).await;
            Ok(())
        })
        .await?;
    scene.calm();
    for number in 0..OBJECTS {
        scene.remove(&name(round, number)).await;
    }
    Ok(())
}

async fn live(scene: &Scene<'_>, name: String) {
    let (up, down) = (format!("{name}-up"), format!("{name}-down"));
    scene.put_secret(&up, json!({"k": "v"})).await;
    scene.put(&name, json!({"up": up, "down": down})).await;
    scene.serve_secret(&down, json!({"password": "s"})).await;
    let place = secrets().at("default", &up);
    let change = json!({"stringData": {"k": "w"}});
    let _refused = scene.bad.plane.merge(&place, change).await;
    scene.patch(&name, json!({"spec": {"size": 2}})).await;
    let _refused = scene.bad.plane.delete(&place).await;
}
