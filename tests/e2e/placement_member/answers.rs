//! Members that answer some requests and not others.

use anyhow::Result;
use kcp_playground::server::{Action, Fault, Matcher, When};
use serde_json::{Value, json};
use testbed::unique;

use super::played::PlayedFleet;
use super::world::{
    AwaitWork as _, WORKS, condition, config_map, config_maps, manifest_reason, work,
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
    let service = json!({
        "apiVersion": "v1", "kind": "Service", "metadata": {"name": name, "namespace": "default"},
        "spec": {"type": "ExternalName", "externalName": "example.com"},
    });
    let manifests = [
        secret,
        config_map("default", &name, &json!({"a": "1"})),
        service,
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
