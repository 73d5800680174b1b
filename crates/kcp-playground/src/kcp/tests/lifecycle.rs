use super::*;

const LC: &str = "/apis/core.kcp.io/v1alpha1/logicalclusters";
const TYPES: &str = "/apis/tenancy.kcp.io/v1alpha1/workspacetypes";

async fn held(world: &World, team: &str) {
    let mut h = tab("a");
    h["metadata"]["finalizers"] = json!(["example.com/x"]);
    world.post(&format!("/clusters/{team}{TABS}"), h).await.ok();
}

fn free() -> Value {
    json!({"metadata": {"finalizers": null}})
}

#[tokio::test]
async fn a_namespace_stays_as_long_as_anything_in_it_is_held() {
    let world = World::new();
    let (_org, team) = world.bound(&json!([])).await;
    held(&world, &team).await;
    world
        .delete(&format!("/clusters/root:org{WORKSPACES}/team"))
        .await
        .ok();
    assert_eq!(
        world
            .get(&format!("/clusters/{team}/api/v1/namespaces/default"))
            .await
            .code,
        200
    );
    world
        .patch(&format!("/clusters/{team}{TABS}/a"), free())
        .await
        .ok();
    assert_eq!(
        world
            .get(&format!("/clusters/root:org{WORKSPACES}/team"))
            .await
            .code,
        404
    );
    assert_eq!(world.get(&format!("/clusters/{team}{LC}")).await.code, 403);
}

#[tokio::test]
async fn a_provider_frees_what_it_holds_in_a_workspace_that_goes() {
    let world = World::new();
    let (org, team) = world.bound(&json!([])).await;
    held(&world, &team).await;
    world
        .delete(&format!("/clusters/root:org{WORKSPACES}/team"))
        .await
        .ok();
    let r = world
        .patch(
            &format!("/services/apiexport/{org}/tabs/clusters/{team}{TABS}/a"),
            free(),
        )
        .await;
    assert_eq!(r.code, 200, "{}", r.body);
    assert_eq!(
        world
            .get(&format!("/clusters/root:org{WORKSPACES}/team"))
            .await
            .code,
        404
    );
    assert_eq!(world.get(&format!("/clusters/{team}{LC}")).await.code, 403);
}

#[tokio::test]
async fn an_object_outlives_the_export_it_comes_from_until_it_is_freed() {
    let world = World::new();
    let (_org, team) = world.bound(&json!([])).await;
    held(&world, &team).await;
    world
        .delete(&format!("/clusters/root{WORKSPACES}/org"))
        .await
        .ok();
    let r = world
        .patch(&format!("/clusters/{team}{TABS}/a"), free())
        .await;
    assert_eq!(r.code, 200, "{}", r.body);
    assert_eq!(
        world
            .get(&format!("/clusters/root{WORKSPACES}/org"))
            .await
            .code,
        404
    );
}

#[tokio::test]
async fn a_workspace_never_goes_without_its_cluster() {
    let world = World::new();
    let org = world.workspace("root", "org").await;
    let at = format!("/clusters/root{WORKSPACES}/org");
    world.patch(&at, free()).await.ok();
    world.delete(&at).await;
    assert_eq!(world.get(&at).await.code, 404);
    assert_eq!(
        world.get(&format!("/clusters/{org}{LC}")).await.code,
        403,
        "orphaned cluster"
    );
}

#[tokio::test]
async fn nobody_names_the_cluster_of_a_workspace_that_waits_for_one() {
    let world = World::new();
    let at = format!("/clusters/root{WORKSPACES}");
    let mut w = workspace("x");
    w["metadata"]["finalizers"] = json!(["example.com/x"]);
    world.post(&at, w).await.ok();
    let r = world
        .patch(&format!("{at}/x"), json!({"spec": {"cluster": "root"}}))
        .await;
    assert_eq!(r.code, 403);
    world.delete(&format!("{at}/x")).await;
    assert_eq!(
        world.get(&format!("/clusters/root{TYPES}")).await.body["items"]
            .as_array()
            .map(Vec::len),
        Some(5),
        "patch answered {}: the types of root are gone",
        r.code
    );
    assert_eq!(
        world
            .get("/clusters/root/api/v1/namespaces/default")
            .await
            .code,
        200,
        "default of root is gone"
    );
}

#[tokio::test]
async fn the_path_of_a_cluster_is_not_for_users_to_change() {
    let world = World::new();
    world.workspace("root", "org").await;
    let r = world
        .patch(
            &format!("/clusters/root:org{LC}/cluster"),
            json!({"metadata": {"annotations": {"kcp.io/path": "root:evil"}}}),
        )
        .await;
    let path = world
        .get(&format!("/clusters/root:org{LC}/cluster"))
        .await
        .ok()["metadata"]["annotations"]["kcp.io/path"]
        .clone();
    assert_eq!(path, "root:org", "patch answered {}", r.code);
}

#[tokio::test]
async fn a_cluster_that_is_ready_at_once_says_so_in_its_conditions() {
    let world = World::new();
    world.workspace("root", "org").await;
    let lc = world
        .get(&format!("/clusters/root:org{LC}/cluster"))
        .await
        .ok();
    assert!(lc["status"]["conditions"].is_array(), "{}", lc["status"]);
}

#[tokio::test]
async fn the_label_of_the_phase_cannot_be_taken_off() {
    let world = World::new();
    world.workspace("root", "org").await;
    let at = format!("/clusters/root{WORKSPACES}/org");
    world
        .patch(
            &at,
            json!({"metadata": {"labels": {"tenancy.kcp.io/phase": null}}}),
        )
        .await
        .ok();
    assert_eq!(
        world.get(&at).await.ok()["metadata"]["labels"]["tenancy.kcp.io/phase"],
        "Ready"
    );
}

#[tokio::test]
async fn logical_clusters_are_not_deleted_as_a_collection_either() {
    let world = World::new();
    world.workspace("root", "org").await;
    let r = world.delete(&format!("/clusters/root:org{LC}")).await;
    assert_eq!(
        world
            .get(&format!("/clusters/root:org{LC}/cluster"))
            .await
            .code,
        200,
        "{}",
        r.code
    );
    assert_eq!(r.code, 403);
}

#[tokio::test]
async fn a_workspace_waits_for_its_type_without_being_written_again() {
    let world = World::new();
    let t = json!({"apiVersion": "tenancy.kcp.io/v1alpha1", "kind": "WorkspaceType", "metadata": {"name": "t"}, "spec": {"extend": {"with": [{"name": "universal", "path": "root"}]}}});
    let types = format!("/clusters/root{TYPES}");
    world.post(&types, t.clone()).await.ok();
    let at = format!("/clusters/root{WORKSPACES}");
    let mut w = workspace("x");
    w["spec"] = json!({"type": {"name": "t"}});
    world.post(&at, w).await.ok();
    world.delete(&format!("{types}/t")).await.ok();
    world.kcp.schedule();
    let one = world.get(&format!("{at}/x")).await.ok();
    world.kcp.schedule();
    let two = world.get(&format!("{at}/x")).await.ok();
    assert_eq!(condition(&one, "WorkspaceScheduled")["status"], "False");
    assert_eq!(
        one["metadata"]["resourceVersion"],
        two["metadata"]["resourceVersion"]
    );
    world.post(&types, t).await.ok();
    world.kcp.schedule();
    assert_eq!(
        world.get(&format!("{at}/x")).await.ok()["status"]["phase"],
        "Ready"
    );
}

#[tokio::test]
async fn initializers_do_not_come_back() {
    let world = World::new();
    world.workspace("root", "org").await;
    let r = world
        .patch(
            &format!("/clusters/root:org{LC}/cluster/status"),
            json!({"status": {"initializers": ["root:slow"]}}),
        )
        .await;
    let ws = world
        .get(&format!("/clusters/root{WORKSPACES}/org"))
        .await
        .ok()["status"]["phase"]
        .clone();
    let lc = world
        .get(&format!("/clusters/root:org{LC}/cluster"))
        .await
        .ok()["status"]["phase"]
        .clone();
    assert_eq!((r.code, ws), (403, lc));
}

#[tokio::test]
async fn the_owner_of_a_workspace_cannot_be_taken_off() {
    let world = World::new();
    world.workspace("root", "org").await;
    let at = format!("/clusters/root{WORKSPACES}/org");
    world
        .patch(&at, json!({"metadata": {"annotations": null}}))
        .await;
    world
        .patch(
            &format!("/clusters/root:org{LC}/cluster"),
            json!({"metadata": {"labels": {"x": "y"}}}),
        )
        .await;
    let a = world.get(&at).await.ok()["metadata"]["annotations"].clone();
    assert_ne!(
        a["experimental.tenancy.kcp.io/owner"], "{\"username\":null}",
        "{a}"
    );
}

#[tokio::test]
async fn an_object_of_a_definition_in_a_workspace_that_goes_can_be_freed() {
    let world = World::new();
    let ws = world.workspace("root", "org").await;
    let s = schema("v1");
    let mut v = s["spec"]["versions"][0].clone();
    v["schema"] = json!({"openAPIV3Schema": v["schema"]});
    let crd = json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": "crontabs.example.com"},
        "spec": {"group": "example.com", "scope": "Namespaced", "names": s["spec"]["names"], "versions": [v]}});
    world
        .post(
            &format!("/clusters/{ws}/apis/apiextensions.k8s.io/v1/customresourcedefinitions"),
            crd,
        )
        .await
        .ok();
    held(&world, &ws).await;
    let at = format!("/clusters/root{WORKSPACES}/org");
    world.delete(&at).await.ok();
    let r = world
        .patch(&format!("/clusters/{ws}{TABS}/a"), free())
        .await;
    assert_eq!(r.code, 200, "{}", r.body);
    assert_eq!(world.get(&at).await.code, 404);
}
