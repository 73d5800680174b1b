//! Members that answer some requests and not others.

use anyhow::Result;
use kcp_playground::server::{Action, Fault, Matcher, When};
use serde_json::{Value, json};
use testbed::unique;

use super::played::PlayedFleet;
use super::world::{
    AwaitWork as _, INTERNAL, NAME, WORKS, condition, config_map, config_maps, manifest_reason,
    work,
};

#[tokio::test]
async fn a_manifest_whose_kind_is_out_of_order_holds_up_no_other() -> Result<()> {
    let fleet = PlayedFleet::start().await?;
    let [hub, member] = &fleet.ways;
    let name = unique("answers");
    let fault = |verb: &str| {
        let text = |text: &str| Some(text.to_owned());
        let matcher = Matcher {
            verb: text(verb),
            resource: text("secrets"),
            name: text(&name),
            ..Matcher::default()
        };
        let code = 503;
        let when = When::Before;
        Fault::new(matcher, Action::Status { code, when })
    };
    fleet.playgrounds[1].faults().add(fault("patch"));
    let secret = json!({
        "apiVersion": "v1", "kind": "Secret", "metadata": {"name": name, "namespace": "default"},
    });
    // Of a later wave than the Secret.
    let role = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": name}, "rules": [],
    });
    let manifests = [
        secret,
        config_map("default", &name, &json!({"a": "1"})),
        role,
    ];
    hub.create(WORKS, &work(&name, &manifests, &json!(null)))
        .await?;
    let said = hub
        .until_work(&name, "Applied", "SomeManifestsAreNotApplied")
        .await;
    let reasons = [0, 1, 2].map(|ordinal| manifest_reason(&said, ordinal, "Applied"));
    assert_eq!(reasons, ["ManifestApplyFailed", "Applied", "Applied"]);
    let why = condition(&said["status"]["manifestConditions"][0], "Applied");
    assert!(
        why["message"]
            .as_str()
            .is_some_and(|why| why.contains("503")),
        "{why}"
    );
    // It is tried again by itself.
    fleet.playgrounds[1].faults().clear();
    hub.until_work(&name, "Applied", "AllManifestsApplied")
        .await;
    let path = format!("{}/{name}", config_maps("default"));
    let live: Option<Value> = member.get(&path).await?;
    assert_eq!(live.unwrap()["data"]["a"], "1");
    Ok(())
}

#[tokio::test]
async fn a_dry_run_that_fails_is_repeated_and_reports_no_difference() -> Result<()> {
    let fleet = PlayedFleet::start().await?;
    let [hub, member] = &fleet.ways;
    let cases = [
        (
            json!({"type": "ReportDiff"}),
            ("DiffReported", "FailedToReportDiff", "FoundDiff"),
        ),
        (
            json!({"whenToTakeOver": "IfNoDiff"}),
            ("Applied", "FailedToTakeOver", "FailedToTakeOver"),
        ),
    ];
    for (strategy, (type_, failed, found)) in cases {
        let name = unique("rehearsed");
        let text = |text: &str| Some(text.to_owned());
        let matcher = Matcher {
            verb: text("patch"),
            resource: text("configmaps"),
            name: text(&name),
            ..Matcher::default()
        };
        let (code, when) = (500, When::Before);
        let fault = Fault::new(matcher, Action::Status { code, when });
        fleet.playgrounds[1].faults().add(fault);
        let foreign = config_map("default", &name, &json!({"a": "2"}));
        member.create(&config_maps("default"), &foreign).await?;
        let manifest = config_map("default", &name, &json!({"a": "1"}));
        hub.create(WORKS, &work(&name, &[manifest], &strategy))
            .await?;
        let path = format!("{WORKS}/{name}");
        let has = |work: &Value, reason: &str| manifest_reason(work, 0, type_) == reason;
        let diffs = |work: &Value| work["status"]["manifestConditions"][0]["diffDetails"].clone();
        let said = hub.until(&path, |work| has(work, failed)).await;
        assert_eq!(diffs(&said), Value::Null, "{said:#}");
        // Nothing but the time wakes the Work.
        fleet.playgrounds[1].faults().clear();
        let compared = |work: &Value| has(work, found) && !diffs(work).is_null();
        hub.until(&path, compared).await;
    }
    Ok(())
}

#[tokio::test]
async fn an_object_that_a_webhook_changes_is_not_applied_over_and_over() -> Result<()> {
    let mut fleet = PlayedFleet::start().await?;
    let name = unique("hooked");
    let text = |text: &str| Some(text.to_owned());
    let matcher = Matcher {
        verb: text("patch"),
        resource: text("configmaps"),
        name: text(&name),
        ..Matcher::default()
    };
    let action = Action::Mutate(json!({"data": {"a": "hooked"}}));
    fleet.playgrounds[1]
        .faults()
        .add(Fault::new(matcher, action));
    let mark = fleet.playgrounds[1].requests().mark();
    let manifest = config_map("default", &name, &json!({"a": "1"}));
    let [hub, member] = fleet.ways.clone();
    // Its manifest is repeated below.
    hub.create(WORKS, &work(&name, &[manifest], &json!(null)))
        .await?;
    hub.until_work(&name, "Available", "AllManifestsAvailable")
        .await;
    // Each pass looks at it again, the first one of another process among them.
    let at = format!("{WORKS}/{name}");
    for round in 0..5 {
        if round == 3 {
            fleet.kill().await?;
            fleet.launch()?;
        }
        let data = json!({"round": round.to_string()});
        let beside = config_map("default", &format!("{name}-beside"), &data);
        let hooked = config_map("default", &name, &json!({"a": "1"}));
        let manifests = json!({"spec": {"workload": {"manifests": [hooked, beside]}}});
        hub.patch(&at, &manifests).await?;
        hub.until_work(&name, "Available", "AllManifestsAvailable")
            .await;
    }
    let path = format!("{}/{name}", config_maps("default"));
    let live = member.get(&path).await?.unwrap_or_default();
    assert_eq!(live["data"]["a"], "hooked");
    let sent = fleet.playgrounds[1].requests().since(mark);
    let applies = sent
        .iter()
        .filter(|one| one.name == name && one.verb == "patch");
    // One by each process.
    assert_eq!(applies.count(), 2, "{sent:#?}");
    Ok(())
}

#[tokio::test]
async fn a_hub_that_refuses_the_state_of_a_member_has_events_about_it() -> Result<()> {
    let mut fleet = PlayedFleet::start().await?;
    let hub = &fleet.ways[0];
    let at = format!("{INTERNAL}/{NAME}");
    let joined = |truth: &'static str| {
        move |one: &Value| condition(&one["status"]["agentStatus"][0], "Joined")["status"] == truth
    };
    hub.until(&at, joined("True")).await;
    for (state, truth, reason) in [
        ("Leave", "False", "InternalMemberClusterFailedToLeave"),
        ("Join", "True", "InternalMemberClusterFailedToJoin"),
    ] {
        let matcher = Matcher {
            resource: Some("internalmemberclusters".to_owned()),
            subresource: Some("status".to_owned()),
            ..Matcher::default()
        };
        let (code, when) = (503, When::Before);
        let fault = Fault::new(matcher, Action::Status { code, when }).once();
        fleet.playgrounds[0].faults().add(fault);
        hub.patch(&at, &json!({"spec": {"state": state}})).await?;
        hub.until("/api/v1/namespaces/fleet-member-m1/events", |events| {
            let events = events["items"].as_array();
            events.is_some_and(|all| {
                all.iter().any(|one| {
                    let source = &one["source"]["component"];
                    one["reason"] == reason && *source == "internalmembercluster-controller"
                })
            })
        })
        .await;
        hub.until(&at, joined(truth)).await;
    }
    fleet.kill().await
}
