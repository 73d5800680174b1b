//! A control plane that is limited to its namespace, with the rights that `kubefedctl join` gives it in a member.

use anyhow::{Result, ensure};
use serde_json::json;
use testbed::SOON;
use testbed::cluster::Controllers;

use super::kubefedctl::Ctl;
use super::world::{SYSTEM, World, config_map, config_maps, core, everywhere, federated};

#[tokio::test]
async fn a_control_plane_of_a_namespace_works_there_alone() -> Result<()> {
    let world = World::bare(Controllers::None, 1, Controllers::All).await?;
    let (host, member) = (world.host().await?, world.member(0).await?);
    for (name, zone) in [("one", "b"), ("two", "a")] {
        let labels =
            json!({"topology.kubernetes.io/zone": zone, "topology.kubernetes.io/region": "r"});
        let node = json!({"metadata": {"name": name, "labels": labels}});
        member.create("/api/v1/nodes", &node).await?;
    }
    let logs = tempfile::tempdir()?;
    // The configuration has another scope, which cannot be changed.
    let before = host.until_there(&core("kubefedconfigs/kubefed")).await;
    let control_plane = world
        .launching("federate", &logs.path().join("federate.log"))
        .env("DEFAULT_KUBEFED_SCOPE", "Namespaced")
        .spawn()?;
    let is_limited = |config: &serde_json::Value| config["spec"]["scope"] == "Namespaced";
    let after = host
        .until(&core("kubefedconfigs/kubefed"), is_limited)
        .await;
    let delays = "controllerDuration";
    assert_eq!(after["spec"][delays], before["spec"][delays]);
    let ctl = Ctl::new(&world)?;
    ctl.ok("join cluster1").await?;
    ctl.ok("enable namespaces").await?;
    ctl.ok("enable configmaps").await?;
    let role =
        "/apis/rbac.authorization.k8s.io/v1/clusterroles/kubefed-controller-manager:cluster1-host";
    ensure!(member.get(role).await?.is_none(), "it may do everything");

    let other = federated("default", "federatedconfigmaps");
    host.until_served(&other).await;
    host.create(&other, &config_map("m", &everywhere())).await?;
    let own = federated(SYSTEM, "federatedconfigmaps");
    host.create(&own, &config_map("m", &everywhere())).await?;
    let copy = member
        .until_there(&format!("{}/m", config_maps(SYSTEM)))
        .await;
    assert_eq!(copy["data"], json!({"A": "ala ma kota"}));
    host.until_reason(&format!("{own}/m"), None).await;
    // The rights are enough to see where its nodes are.
    host.until(&core("kubefedclusters/cluster1"), |cluster| {
        cluster["status"]["zones"] == json!(["a", "b"]) && cluster["status"]["region"] == "r"
    })
    .await;
    let is = |running: &'static str| {
        move |config: &serde_json::Value| config["status"]["propagationController"] == running
    };
    let configs = |name: &str| core(&format!("federatedtypeconfigs/{name}"));
    host.until(&configs("configmaps"), is("Running")).await;
    host.until(&configs("namespaces"), is("NotRunning")).await;
    let untouched = host.until_there(&format!("{other}/m")).await;
    assert_eq!(untouched["metadata"]["finalizers"], json!(null));

    host.delete(&format!("{own}/m")).await?;
    host.until_gone(&format!("{own}/m")).await;
    ensure!(
        member
            .get(&format!("{}/m", config_maps(SYSTEM)))
            .await?
            .is_none(),
        "a copy is left"
    );
    let log = control_plane.log();
    ensure!(!log.contains("status 403"), "{log}");
    control_plane.stop(SOON).await?;
    Ok(())
}
