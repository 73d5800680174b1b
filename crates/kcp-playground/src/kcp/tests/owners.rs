//! Garbage collection in logical clusters.

use std::collections::BTreeSet;

use super::*;
use crate::collect::Collector;

fn owned(name: &str, owner: &Value) -> Value {
    json!({"metadata": {"name": name, "ownerReferences": [{
        "apiVersion": owner["apiVersion"], "kind": owner["kind"],
        "name": owner["metadata"]["name"], "uid": owner["metadata"]["uid"], "blockOwnerDeletion": true,
    }]}})
}

#[tokio::test]
async fn objects_of_bound_apis_own_what_is_in_their_cluster_and_nothing_elsewhere() {
    let world = World::new();
    let (org, team) = world.bound(&json!([])).await;
    let collector = Collector::new(Arc::clone(&world.store), world.kcp.scopes());
    let collect = || collector.collect(&mut BTreeSet::new());
    let tabs = format!("/clusters/{team}{TABS}");
    let made = world.post(&tabs, tab("t")).await.ok();
    let secrets = format!("/clusters/{team}{SECRETS}");
    world.post(&secrets, owned("s", &made)).await.ok();
    // There are no crontabs in this cluster: what they are there nobody knows.
    let far = format!("/clusters/{org}{SECRETS}");
    world.post(&far, owned("far", &made)).await.ok();
    collect();
    world.get(&format!("{secrets}/s")).await.ok();
    let foreground = format!("{tabs}/t?propagationPolicy=Foreground");
    let answer = world.delete(&foreground).await.ok();
    assert_eq!(
        answer["metadata"]["finalizers"],
        json!(["foregroundDeletion"])
    );
    collect();
    assert_eq!(world.get(&format!("{secrets}/s")).await.code, 404);
    assert_eq!(world.get(&format!("{tabs}/t")).await.code, 404);
}

#[tokio::test]
async fn a_workspace_that_goes_takes_along_what_waits_for_its_dependents() {
    let world = World::new();
    let org = world.workspace("root", "org").await;
    let collector = Collector::new(Arc::clone(&world.store), world.kcp.scopes());
    let secrets = format!("/clusters/{org}{SECRETS}");
    let owner = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "o"}});
    let owner = world.post(&secrets, owner).await.ok();
    world.post(&secrets, owned("s", &owner)).await.ok();
    world
        .delete(&format!("{secrets}/o?propagationPolicy=Foreground"))
        .await
        .ok();
    let at = format!("/clusters/root{WORKSPACES}/org");
    world.delete(&at).await.ok();
    collector.collect(&mut BTreeSet::new());
    assert_eq!(world.get(&at).await.code, 404);
}
