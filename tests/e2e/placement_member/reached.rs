//! How hub and members are reached: members by Secrets of the hub, the hub by a token that changes.

use anyhow::{Context as _, Result, ensure};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use testbed::{SOON, eventually, unique};

use super::world::{
    AwaitWork as _, INTERNAL, NAME, WORKS, Way, World, condition, config_map, config_maps, metrics,
    work,
};

const NAMESPACES: &str = "/api/v1/namespaces";

fn secret(member: &str, kubeconfig: &str) -> Value {
    json!({
        "metadata": {"name": member, "labels": {"hawser.dev/member": member}},
        "stringData": {"kubeconfig": kubeconfig},
    })
}

fn joined(internal: &Value) -> bool {
    condition(&internal["status"]["agentStatus"][0], "Joined")["status"] == "True"
}

#[tokio::test]
async fn one_agent_acts_for_the_members_whose_kubeconfigs_are_in_secrets() -> Result<()> {
    let mut world = World::new().await?;
    let (hub, member) = (world.hub()?, world.member()?);
    // The second member is the hub itself.
    let works = WORKS.replace("-m1", "-m2");
    let internals = INTERNAL.replace("-m1", "-m2");
    let namespace = json!({"metadata": {"name": "fleet-member-m2"}});
    hub.create(NAMESPACES, &namespace).await?;
    let internal = json!({
        "apiVersion": "cluster.kubernetes-fleet.io/v1beta1", "kind": "InternalMemberCluster",
        "metadata": {"name": "m2"}, "spec": {"state": "Join", "heartbeatPeriodSeconds": 1},
    });
    hub.create(&internals, &internal).await?;
    let system = json!({"metadata": {"name": "members"}});
    hub.create(NAMESPACES, &system).await?;
    let secrets = format!("{NAMESPACES}/members/secrets");
    let broken = "users: [{name: u, user: {exec: {command: /bin/true}}}]";
    hub.create(&secrets, &secret("broken", broken)).await?;
    let of_member = std::fs::read_to_string(world.member.admin().kubeconfig_file())?;
    hub.create(&secrets, &secret(NAME, &of_member)).await?;

    let launch = world.launch().args([
        "--kubeconfig-secrets=members",
        "--hub-metrics-bind-address=127.0.0.1:0",
    ]);
    let kubeconfig = world.hub.admin().kubeconfig_file();
    let agent = launch.arg("--hub-kubeconfig").arg(kubeconfig).spawn()?;
    hub.until(&format!("{INTERNAL}/{NAME}"), joined).await;
    hub.until_event(
        "fleet-member-m1",
        "InternalMemberClusterJoined",
        "the member has joined",
    )
    .await;
    agent.await_log(SOON, "uses a command").await?;

    // Another one comes while it runs.
    let of_hub = std::fs::read_to_string(kubeconfig)?;
    hub.create(&secrets, &secret("m2", &of_hub)).await?;
    hub.until(&format!("{internals}/m2"), joined).await;
    let name = unique("pushed");
    let manifest = config_map("default", &name, &json!({"a": "1"}));
    for all in [WORKS, &*works] {
        let object = work(&name, std::slice::from_ref(&manifest), &json!(null));
        hub.create(all, &object).await?;
    }
    let path = format!("{}/{name}", config_maps("default"));
    for way in [&hub, &member] {
        way.until(&path, |live| live["data"]["a"] == "1").await;
    }
    hub.until_work(&name, "Applied", "AllManifestsApplied")
        .await;
    let is_applied = |work: &Value| condition(&work["status"], "Applied")["status"] == "True";
    hub.until(&format!("{works}/{name}"), is_applied).await;
    let told = metrics(&agent, "--metrics-bind-address").await?;
    let second = metrics(&agent, "--hub-metrics-bind-address").await?;
    assert!(second.contains("fleet_work_processing_requests_total"));
    let counted = r#"fleet_work_processing_requests_total{apply_status="AllManifestsApplied",availability_status="AllManifestsAvailable",diff_reporting_status="Skipped"}"#;
    assert!(told.contains(counted), "{told}");
    assert!(told.contains("work_apply_time_seconds_count"), "{told}");
    assert!(
        told.contains("fleet_manifest_processing_requests_total{apply_status=\"Applied\""),
        "{told}"
    );

    // One goes; the other does not notice.
    hub.delete(&format!("{secrets}/m2")).await?;
    agent
        .await_log(SOON, "the Secret of the member is gone")
        .await?;
    member.patch(&path, &json!({"data": {"a": "2"}})).await?;
    hub.patch(&path, &json!({"data": {"a": "2"}})).await?;
    member.until(&path, |live| live["data"]["a"] == "1").await;
    assert_eq!(hub.get(&path).await?.unwrap()["data"]["a"], "2");
    Ok(())
}

/// A token of an account that may do everything, which ends with this Secret.
async fn token(hub: &Way, secret: &str) -> Result<String> {
    let all = format!("{NAMESPACES}/default/secrets");
    let bound = hub
        .create(&all, &json!({"metadata": {"name": secret}}))
        .await?;
    let request = json!({"spec": {"expirationSeconds": 3600, "boundObjectRef": {
        "apiVersion": "v1", "kind": "Secret", "name": secret, "uid": bound["metadata"]["uid"],
    }}});
    let path = format!("{NAMESPACES}/default/serviceaccounts/agent/token");
    let granted = hub.create(&path, &request).await?;
    let token = granted["status"]["token"].as_str();
    Ok(token.context("a token")?.to_owned())
}

#[tokio::test]
async fn a_token_that_is_replaced_in_its_file_is_read_anew() -> Result<()> {
    let mut world = World::new().await?;
    let (hub, member) = (world.hub()?, world.member()?);
    let accounts = format!("{NAMESPACES}/default/serviceaccounts");
    let account = json!({"metadata": {"name": "agent"}});
    hub.create(&accounts, &account).await?;
    let binding = json!({
        "metadata": {"name": "agent"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
        "subjects": [{"kind": "ServiceAccount", "name": "agent", "namespace": "default"}],
    });
    let bindings = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings";
    hub.create(bindings, &binding).await?;
    let directory = tempfile::tempdir()?;
    let file = directory.path().join("token");
    let first = token(&hub, "first").await?;
    std::fs::write(&file, &first)?;
    let authority = STANDARD.encode(world.hub.certificate_authority());
    let _agent = world
        .launch()
        .env("MEMBER_CLUSTER_NAME", NAME)
        .env("HUB_SERVER_URL", world.hub.url())
        .env("HUB_CERTIFICATE_AUTHORITY", authority)
        .env("CONFIG_PATH", &file)
        .arg("--kubeconfig")
        .arg(world.member.admin().kubeconfig_file())
        .spawn()?;
    hub.until(&format!("{INTERNAL}/{NAME}"), joined).await;
    std::fs::write(&file, token(&hub, "second").await?)?;
    hub.delete(&format!("{NAMESPACES}/default/secrets/first"))
        .await?;
    let review = json!({"spec": {"token": first}});
    eventually(SOON, "the first token is refused", async || {
        let reviewed = hub.create("/apis/authentication.k8s.io/v1/tokenreviews", &review);
        let status = &reviewed.await?["status"];
        ensure!(status["authenticated"] != true, "{status}");
        anyhow::Ok(())
    })
    .await;
    let name = unique("renewed");
    let manifest = |value: &str| config_map("default", &name, &json!({"a": value}));
    hub.create(WORKS, &work(&name, &[manifest("1")], &json!(null)))
        .await?;
    let path = format!("{}/{name}", config_maps("default"));
    member.until(&path, |live| live["data"]["a"] == "1").await;
    hub.until_work(&name, "Applied", "AllManifestsApplied")
        .await;
    Ok(())
}
