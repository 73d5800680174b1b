//! Clusters that wait for initializers and terminators.

use super::*;

const TYPES: &str = "/apis/tenancy.kcp.io/v1alpha1/workspacetypes";
const LC: &str = "/apis/core.kcp.io/v1alpha1/logicalclusters";
const MAPS: &str = "/api/v1/namespaces/default/configmaps";

/// A workspace of a type with an initializer, a terminator or both; its cluster.
async fn slow(world: &World, name: &str, spec: &Value) -> String {
    let mut sent = json!({"extend": {"with": [{"name": "universal", "path": "root"}]}});
    for (field, value) in spec.as_object().unwrap() {
        sent[field] = value.clone();
    }
    let of_type = json!({
        "apiVersion": "tenancy.kcp.io/v1alpha1", "kind": "WorkspaceType", "metadata": {"name": name}, "spec": sent,
    });
    world
        .post(&format!("/clusters/root{TYPES}"), of_type)
        .await
        .ok();
    let mut sent = workspace(name);
    sent["spec"] = json!({"type": {"name": name, "path": "root"}});
    world
        .post(&format!("/clusters/root{WORKSPACES}"), sent)
        .await
        .ok();
    world.kcp.schedule();
    let made = world
        .get(&format!("/clusters/root{WORKSPACES}/{name}"))
        .await
        .ok();
    made["spec"]["cluster"].as_str().unwrap().to_owned()
}

async fn phase(world: &World, name: &str) -> Value {
    let at = format!("/clusters/root{WORKSPACES}/{name}");
    world.get(&at).await.ok()["status"]["phase"].clone()
}

#[tokio::test]
async fn an_initializer_sees_the_clusters_that_wait_for_it_works_in_them_and_lets_them_go() {
    let world = World::new();
    let service = "/services/initializingworkspaces/root:slow/clusters";
    let everywhere = format!("{service}/*{LC}");
    let waiting = slow(&world, "slow", &json!({"initializer": true})).await;
    slow(&world, "other", &json!({"initializer": true})).await;
    assert_eq!(phase(&world, "slow").await, "Initializing");
    let list = world.get(&everywhere).await.ok();
    assert_eq!(list["items"].as_array().unwrap().len(), 1);
    let found = &list["items"][0];
    assert_eq!(found["metadata"]["annotations"]["kcp.io/cluster"], *waiting);
    assert_eq!(found["status"]["initializers"], json!(["root:slow"]));
    let list_version = list["metadata"]["resourceVersion"].as_str().unwrap();
    let watch = format!("{everywhere}?watch=true&resourceVersion={list_version}");
    let mut events = world.watch(&watch).await;

    let inside = format!("{service}/{waiting}");
    let map = json!({"metadata": {"name": "prepared"}});
    world.post(&format!("{inside}{MAPS}"), map).await.ok();
    let one = format!("{inside}{LC}/cluster");
    world.get(&one).await.ok();
    assert_eq!(
        world
            .patch(&one, json!({"metadata": {"labels": {"a": "b"}}}))
            .await
            .code,
        405
    );
    let done = json!({"status": {"initializers": []}});
    world.patch(&format!("{one}/status"), done).await.ok();

    assert_eq!(phase(&world, "slow").await, "Ready");
    assert_eq!(events.brief().await, ("DELETED".into(), "cluster".into()));
    let list = world.get(&everywhere).await.ok();
    assert_eq!(list["items"], json!([]));
    assert_eq!(
        world.get(&format!("{inside}{MAPS}/prepared")).await.code,
        403
    );
    world
        .get(&format!("/clusters/{waiting}{MAPS}/prepared"))
        .await
        .ok();
}

#[tokio::test]
async fn an_initializer_takes_nobody_but_itself_away() {
    let world = World::new();
    let both = json!({
        "initializer": true, "extend": {"with": [{"name": "first", "path": "root"}]},
    });
    slow(&world, "first", &json!({"initializer": true})).await;
    let waiting = slow(&world, "second", &both).await;
    let status = format!(
        "/services/initializingworkspaces/root:first/clusters/{waiting}{LC}/cluster/status"
    );
    let nobody = json!({"status": {"initializers": []}});
    assert_eq!(world.patch(&status, nobody).await.code, 403);
    let other = json!({"status": {"initializers": ["root:second"]}});
    world.patch(&status, other).await.ok();
    assert_eq!(phase(&world, "second").await, "Initializing");
    assert_eq!(
        world.get(&status).await.code,
        403,
        "it waits for another one only"
    );
}

#[tokio::test]
async fn nothing_but_waiting_clusters_is_served_across_clusters() {
    let world = World::new();
    let org = world.workspace("root", "org").await;
    let service = "/services/initializingworkspaces/root:universal/clusters";
    assert_eq!(
        world
            .get(&format!("{service}/*/api/v1/configmaps"))
            .await
            .code,
        404
    );
    assert_eq!(
        world
            .get(&format!("{service}/{org}/api/v1/configmaps"))
            .await
            .code,
        403
    );
    assert_eq!(
        world
            .get(&format!("{service}/none/api/v1/configmaps"))
            .await
            .code,
        403
    );
    let groups = world.get(&format!("{service}/*/apis")).await.ok();
    assert_eq!(groups["groups"].as_array().unwrap().len(), 1);
}

#[tokio::test]
async fn a_workspace_stays_until_its_terminators_have_done_their_work() {
    let world = World::new();
    let cluster = slow(&world, "held", &json!({"terminator": true})).await;
    assert_eq!(phase(&world, "held").await, "Ready");
    let map = json!({"metadata": {"name": "precious"}});
    world
        .post(&format!("/clusters/{cluster}{MAPS}"), map)
        .await
        .ok();
    world
        .delete(&format!("/clusters/root{WORKSPACES}/held"))
        .await
        .ok();
    assert_eq!(phase(&world, "held").await, "Terminating");
    let service = "/services/terminatingworkspaces/root:held/clusters";
    let list = world.get(&format!("{service}/*{LC}")).await.ok();
    assert_eq!(
        list["items"][0]["status"]["terminators"],
        json!(["root:held"])
    );
    let inside = format!("{service}/{cluster}");
    world.get(&format!("{inside}{MAPS}/precious")).await.ok();
    let one = format!("/clusters/{cluster}{LC}/cluster");
    let stripped = json!({"metadata": {"finalizers": null}});
    world.patch(&one, stripped).await.ok();
    world.get(&one).await.ok();
    let done = json!({"status": {"terminators": null}});
    world
        .patch(&format!("{inside}{LC}/cluster/status"), done)
        .await
        .ok();
    let gone = world.get(&format!("/clusters/root{WORKSPACES}/held")).await;
    assert_eq!(gone.code, 404);
}
