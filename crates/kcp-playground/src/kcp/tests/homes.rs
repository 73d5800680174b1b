use super::*;

const HOME: &str = "/clusters/root/apis/tenancy.kcp.io/v1alpha1/workspaces/~";
const LC: &str = "/apis/core.kcp.io/v1alpha1/logicalclusters/cluster";

#[tokio::test]
async fn everybody_has_a_home_as_soon_as_he_asks_for_it() {
    let world = World::new();
    let id = ids::home_cluster("ann");
    let early = world.get(&format!("/clusters/user:ann{LC}")).await;
    assert_eq!(early.code, 404);
    let home = world.get(HOME).await.ok();
    assert_eq!(home["kind"], "Workspace");
    assert_eq!(home["spec"]["URL"], format!("{URL}/clusters/{id}"));
    assert_eq!(home["status"]["phase"], "Ready");
    assert_eq!(world.get(HOME).await.ok(), home, "it is made once");
    for address in ["user:ann", &id] {
        let cluster = world.get(&format!("/clusters/{address}{LC}")).await.ok();
        let annotations = &cluster["metadata"]["annotations"];
        assert_eq!(annotations["kcp.io/cluster"], *id);
        assert_eq!(annotations["kcp.io/path"], "user:ann");
        assert_eq!(annotations["internal.tenancy.kcp.io/type"], "root:home");
    }
    let listed = world.get(&format!("/clusters/root{WORKSPACES}")).await.ok();
    assert_eq!(
        listed["items"],
        json!([]),
        "no object of root stands for it"
    );
}

#[tokio::test]
async fn workspaces_stand_in_a_home_and_have_its_path() {
    let world = World::new();
    world.get(HOME).await.ok();
    world.workspace("user:ann", "mine").await;
    let mine = format!("/clusters/user:ann{WORKSPACES}/mine");
    let mine = world.get(&mine).await.ok();
    assert_eq!(mine["spec"]["type"]["name"], "universal");
    assert_eq!(mine["spec"]["URL"], format!("{URL}/clusters/user:ann:mine"));
    let below = world
        .get(&format!("/clusters/user:ann:mine{LC}"))
        .await
        .ok();
    assert_eq!(
        below["metadata"]["annotations"]["kcp.io/path"],
        "user:ann:mine"
    );
    let elsewhere = world
        .get(&format!("/clusters/user:ann{WORKSPACES}/~"))
        .await;
    assert_eq!(elsewhere.code, 404, "only root knows who is at home");
}
