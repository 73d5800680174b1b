//! What manifests contain is told to nobody: not by the log at its most verbose, not by events, or conditions.
//! Every value that the test writes has one word in it, which is looked for afterwards.
//!
//! The contract has the status of a Work list differences with their values, except those of Secrets, and the status of
//! objects where the Work asks for it. Whoever reads these may read the manifests beside them.

use anyhow::{Context as _, Result, ensure};
use serde_json::{Value, json};
use testbed::unique;

use super::played::PlayedFleet;
use super::world::{APPLIED, AwaitWork as _, INTERNAL, WORKS, condition, work};
use crate::canary::{CANARY, WHOLE_ENCODED, assert_untold, strict};

const GROUP: &str = "placed-vaults.example.com";

/// A manifest that has the word wherever it can.
fn manifest(api_version: &str, kind: &str, name: &str, content: &Value) -> Value {
    let mut manifest = json!({
        "apiVersion": api_version, "kind": kind,
        "metadata": {
            "name": name, "namespace": "default",
            "labels": {"example.com/label": CANARY},
            "annotations": {"example.com/note": format!("{CANARY} and\nmore")},
        },
    });
    for (field, value) in content.as_object().into_iter().flatten() {
        manifest[field] = value.clone();
    }
    manifest
}

/// What the member refuses, by what it says of it.
fn refused(name: &str) -> Vec<(&'static str, Value, &'static str)> {
    let vault = |spec: Value| {
        manifest(
            &format!("{GROUP}/v1"),
            "Vault",
            name,
            &json!({"spec": spec}),
        )
    };
    vec![
        (
            "code",
            vault(json!({"code": CANARY})),
            "spec.code: Invalid value",
        ),
        (
            "tier",
            vault(json!({"tier": CANARY})),
            "spec.tier: Unsupported value",
        ),
        ("size", vault(json!({"size": CANARY})), "spec.size"),
        (
            "token",
            vault(json!({"token": CANARY})),
            "spec: Invalid value",
        ),
        (
            "list",
            vault(json!({"list": ["1", CANARY]})),
            "spec.list[1]",
        ),
        (
            "no-text",
            manifest(
                "v1",
                "ConfigMap",
                name,
                &json!({"data": {"k": {"inner": [CANARY]}}}),
            ),
            "data",
        ),
    ]
}

/// A status without the differences and observations that the contract asks for.
fn without_values(work: &Value) -> Value {
    let mut status = work["status"].clone();
    let manifests = status["manifestConditions"].as_array_mut();
    for one in manifests
        .into_iter()
        .flatten()
        .filter_map(Value::as_object_mut)
    {
        for field in ["diffDetails", "driftDetails", "backReportedStatus"] {
            one.remove(field);
        }
    }
    status
}

/// Hub and member are played: they quote values in the words of a kube-apiserver.
#[tokio::test]
async fn nothing_that_manifests_contain_is_told_by_log_event_or_condition() -> Result<()> {
    let fleet = PlayedFleet::start().await?;
    let [hub, member] = &fleet.ways;
    member.define(&strict(GROUP, "Vault", "vaults")).await?;
    let name = unique("canary");

    // What is taken, with a status that comes back.
    let vault = json!({"spec": {
        "note": CANARY, "list": ["1"], "map": {CANARY: {"inner": [CANARY]}}, CANARY: CANARY,
    }});
    let fine = [
        manifest("v1", "ConfigMap", &name, &json!({"data": {CANARY: CANARY}})),
        manifest(
            "v1",
            "Secret",
            &name,
            &json!({"data": {CANARY: WHOLE_ENCODED}}),
        ),
        manifest(&format!("{GROUP}/v1"), "Vault", &name, &vault),
    ];
    let mut placed = work(&name, &fine, &json!(null));
    placed["spec"]["reportBackStrategy"] =
        json!({"type": "Mirror", "destination": "OriginalResource"});
    hub.create_planted(WORKS, &placed).await?;
    hub.until_work(&name, "Applied", "AllManifestsApplied")
        .await;
    let copy = format!("/apis/{GROUP}/v1/namespaces/default/vaults/{name}");
    let status = json!({"status": {"said": CANARY, "list": [{"inner": CANARY}]}});
    member.patch(&format!("{copy}/status"), &status).await?;
    let reported = hub
        .until(&format!("{WORKS}/{name}"), |work| {
            work["status"].to_string().contains(CANARY)
        })
        .await;
    assert_untold("the conditions", &without_values(&reported).to_string());

    // What is refused, by both ways of applying.
    for strategy in ["ClientSideApply", "ServerSideApply"] {
        let begin = format!("{name}-{}", strategy.to_lowercase());
        let strategy = json!({"type": strategy});
        for (what, manifest, _) in refused(&begin) {
            let work = work(&format!("{begin}-{what}"), &[manifest], &strategy);
            hub.create_planted(WORKS, &work).await?;
        }
        for (what, _, said) in refused(&begin) {
            let found = hub
                .until_work(
                    &format!("{begin}-{what}"),
                    "Applied",
                    "SomeManifestsAreNotApplied",
                )
                .await;
            let told = condition(&found["status"]["manifestConditions"][0], "Applied");
            let message = told["message"].as_str().context("a message")?;
            ensure!(message.contains(said), "{what} says {message}, not {said}");
            assert_untold(what, &found["status"].to_string());
        }
    }
    // Differences: of a Secret, no value is in them either.
    let foreign = format!("{name}-foreign");
    let theirs = json!({"metadata": {"name": foreign}, "data": {"k": "dGhlaXJz"}});
    member
        .create_planted("/api/v1/namespaces/default/secrets", &theirs)
        .await?;
    let data = json!({"data": {"k": WHOLE_ENCODED}});
    let ours = manifest("v1", "Secret", &foreign, &data);
    let strategy = json!({"whenToTakeOver": "IfNoDiff"});
    hub.create_planted(WORKS, &work(&foreign, &[ours], &strategy))
        .await?;
    let found = hub
        .until_work(&foreign, "Applied", "SomeManifestsAreNotApplied")
        .await;
    let diffs = &found["status"]["manifestConditions"][0]["diffDetails"]["observedDiffs"];
    let is_of_data = |one: &&Value| {
        let path = one["path"].as_str();
        path.is_some_and(|path| path.starts_with("/data"))
    };
    let of_data: Vec<&Value> = diffs
        .as_array()
        .into_iter()
        .flatten()
        .filter(is_of_data)
        .collect();
    ensure!(!of_data.is_empty(), "{diffs:?}");
    for one in of_data {
        assert_untold("a difference of a Secret", &one.to_string());
    }
    assert_untold("the conditions", &without_values(&found).to_string());

    for (way, path) in [(hub, "/api/v1/events"), (hub, INTERNAL), (member, APPLIED)] {
        let found = way.get(path).await?.with_context(|| path.to_owned())?;
        for item in found["items"].as_array().into_iter().flatten() {
            let mut item = item.clone();
            // What a test has made has the word among its annotations.
            item["metadata"]["annotations"] = Value::Null;
            assert_untold(path, &item.to_string());
        }
    }
    // The log is looked through with the fleet.
    let log = fleet.log()?;
    ensure!(log.contains("applying a wave"), "{log}");
    Ok(())
}
