use super::*;

#[tokio::test]
async fn root_is_there_with_its_types_and_its_bindings() {
    let world = World::new();
    let cluster = world
        .get("/clusters/root/apis/core.kcp.io/v1alpha1/logicalclusters/cluster")
        .await
        .ok();
    let annotations = &cluster["metadata"]["annotations"];
    assert_eq!(
        (&annotations["kcp.io/path"], &annotations["kcp.io/cluster"]),
        (&json!("root"), &json!("root"))
    );
    let types = world
        .get("/clusters/root/apis/tenancy.kcp.io/v1alpha1/workspacetypes")
        .await
        .ok();
    assert_eq!(types["items"].as_array().unwrap().len(), 5);
    let shard = world
        .get("/clusters/root/apis/core.kcp.io/v1alpha1/shards/root")
        .await
        .ok();
    assert_eq!(shard["spec"]["virtualWorkspaceURL"], URL);
    let bindings = world.get(&format!("/clusters/root{BINDINGS}")).await.ok();
    for binding in bindings["items"].as_array().unwrap() {
        assert_eq!(binding["status"]["phase"], "Bound", "{binding}");
    }
    assert_eq!(bindings["items"].as_array().unwrap().len(), 2);
    world.store.write(|tx| world.kcp.bootstrap(tx)).unwrap();
}

#[tokio::test]
async fn a_workspace_is_scheduled_then_ready_and_found_by_path_and_by_id() {
    let world = World::new();
    let id = world.workspace("root", "org").await;
    assert_eq!(id.len(), 16);
    assert!(
        id.bytes()
            .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit())
    );
    let at = format!("/clusters/root{WORKSPACES}/org");
    let ready = world.get(&at).await.ok();
    assert_eq!(ready["spec"]["URL"], format!("{URL}/clusters/root:org"));
    assert_eq!(
        ready["spec"]["type"],
        json!({"name": "organization", "path": "root"})
    );
    assert_eq!(ready["metadata"]["labels"]["tenancy.kcp.io/phase"], "Ready");
    let annotations = &ready["metadata"]["annotations"];
    assert_eq!(annotations["internal.tenancy.kcp.io/shard"], "1pfxsevk");
    assert_eq!(annotations["internal.tenancy.kcp.io/cluster"], *id);
    assert_eq!(
        annotations["experimental.tenancy.kcp.io/owner"],
        "{\"username\":\"ann\"}"
    );
    assert_eq!(
        ready["metadata"]["finalizers"],
        json!(["core.kcp.io/logicalcluster"])
    );
    for kind in ["WorkspaceScheduled", "WorkspaceInitialized"] {
        assert_eq!(condition(&ready, kind)["status"], "True");
    }
    for cluster in ["root:org", id.as_str()] {
        let own = world
            .get(&format!(
                "/clusters/{cluster}/apis/core.kcp.io/v1alpha1/logicalclusters/cluster"
            ))
            .await
            .ok();
        assert_eq!(own["metadata"]["annotations"]["kcp.io/path"], "root:org");
        assert_eq!(own["metadata"]["annotations"]["kcp.io/cluster"], *id);
        assert_eq!(own["status"]["URL"], format!("{URL}/clusters/{id}"));
        assert_eq!(own["spec"]["owner"]["name"], "org");
        let namespaces = world
            .get(&format!("/clusters/{cluster}/api/v1/namespaces/default"))
            .await;
        assert_eq!(namespaces.code, 200);
    }
    let bindings = world
        .get(&format!("/clusters/root:org{BINDINGS}"))
        .await
        .ok();
    assert_eq!(bindings["items"].as_array().unwrap().len(), 2);
    assert_eq!(bindings["items"][0]["status"]["phase"], "Bound");
}

#[tokio::test]
async fn a_child_gets_the_type_that_its_parent_says_and_stands_below_its_id_too() {
    let world = World::new();
    let org = world.workspace("root", "org").await;
    world.workspace("root:org", "team").await;
    let team = world
        .get(&format!("/clusters/{org}{WORKSPACES}/team"))
        .await
        .ok();
    assert_eq!(team["spec"]["type"]["name"], "universal");
    for cluster in ["root:org:team".to_owned(), format!("{org}:team")] {
        assert_eq!(
            world
                .get(&format!("/clusters/{cluster}/api/v1/namespaces/default"))
                .await
                .code,
            200
        );
    }
}

#[tokio::test]
async fn names_collide_freely_between_workspaces() {
    let world = World::new();
    for org in ["a", "b"] {
        world.workspace("root", org).await;
        world.workspace(&format!("root:{org}"), "team").await;
        let secret = json!({"metadata": {"name": "s"}, "stringData": {"org": org}});
        let made = world
            .post(&format!("/clusters/root:{org}:team{SECRETS}"), secret)
            .await
            .ok();
        assert!(made["metadata"]["annotations"]["kcp.io/cluster"].is_string());
    }
    let list = world
        .get(&format!("/clusters/root:a:team{SECRETS}"))
        .await
        .ok();
    assert_eq!(list["items"].as_array().unwrap().len(), 1);
}

#[tokio::test]
async fn types_that_may_not_be_there_are_refused() {
    let world = World::new();
    let at = format!("/clusters/root{WORKSPACES}");
    let with_type = |of_type: Value| {
        let mut sent = workspace("x");
        sent["spec"] = json!({"type": of_type});
        sent
    };
    for (of_type, why) in [
        (json!({"name": "team"}), "cannot be used"),
        (json!({"name": "nothing"}), "cannot be resolved"),
        (
            json!({"name": "universal", "path": "root:nowhere"}),
            "cannot be resolved",
        ),
    ] {
        world
            .post(&at, with_type(of_type))
            .await
            .refused(403, "Forbidden", why);
    }
    let mut sent = workspace("x");
    sent["spec"] = json!({"cluster": "mine"});
    world
        .post(&at, sent)
        .await
        .refused(403, "Forbidden", "spec.cluster cannot be set");
    assert_eq!(world.post(&at, workspace("Not-A-Name")).await.code, 422);
    world.workspace("root", "org").await;
    let fixed = json!({"spec": {"type": {"name": "universal", "path": "root"}}});
    assert_eq!(world.patch(&format!("{at}/org"), fixed).await.code, 422);
    assert_eq!(
        world
            .patch(&format!("{at}/org"), json!({"spec": {"URL": null}}))
            .await
            .code,
        422
    );
}

#[tokio::test]
async fn addresses_that_lead_nowhere_are_refused_each_in_its_way() {
    let world = World::new();
    let code = |cluster: &'static str| {
        let target = format!("/clusters/{cluster}/api/v1/namespaces");
        let world = &world;
        async move { world.get(&target).await.code }
    };
    assert_eq!(code("root:nowhere").await, 404);
    assert_eq!(code("nowhere").await, 403);
    assert_eq!(code("Not_A_Path").await, 400);
    assert_eq!(code("system:admin").await, 400);
    let missing = world.get("/clusters/root:nowhere/api/v1/namespaces").await;
    assert_eq!(
        missing.body["details"],
        json!({"group": "tenancy.kcp.io", "kind": "workspaces", "name": "root:nowhere"})
    );
    assert_eq!(world.get("/api/v1/namespaces").await.code, 404);
    assert_eq!(world.get("/readyz").await.code, 200);
    assert_eq!(world.get("/version").await.code, 200);
}

#[tokio::test]
async fn a_workspace_goes_with_everything_in_it() {
    let world = World::new();
    let org = world.workspace("root", "org").await;
    let team = world.workspace("root:org", "team").await;
    let held = json!({"metadata": {"name": "s", "finalizers": ["example.com/x"]}});
    world
        .post(&format!("/clusters/{team}{SECRETS}"), held)
        .await
        .ok();
    let at = format!("/clusters/root{WORKSPACES}/org");
    let going = world.delete(&at).await.ok();
    assert_eq!(going["status"]["phase"], "Deleting");
    assert_eq!(
        condition(&going, "WorkspaceContentDeleted")["status"],
        "False"
    );
    let free = json!({"metadata": {"finalizers": null}});
    world
        .patch(&format!("/clusters/{team}{SECRETS}/s"), free)
        .await
        .ok();
    assert_eq!(world.get(&at).await.code, 404);
    for cluster in [org, team] {
        assert_eq!(
            world
                .get(&format!("/clusters/{cluster}/api/v1/namespaces"))
                .await
                .code,
            403
        );
    }
    assert_eq!(
        world.get("/clusters/root:org/api/v1/namespaces").await.code,
        404
    );
    let again = world.workspace("root", "org").await;
    assert_eq!(again.len(), 16);
}

#[tokio::test]
async fn a_type_with_an_initializer_waits_for_it() {
    let world = World::new();
    let custom = json!({
        "apiVersion": "tenancy.kcp.io/v1alpha1", "kind": "WorkspaceType", "metadata": {"name": "slow"},
        "spec": {"initializer": true, "extend": {"with": [{"name": "universal", "path": "root"}]}},
    });
    world
        .post(
            "/clusters/root/apis/tenancy.kcp.io/v1alpha1/workspacetypes",
            custom,
        )
        .await
        .ok();
    let at = format!("/clusters/root{WORKSPACES}");
    let mut sent = workspace("ws");
    sent["spec"] = json!({"type": {"name": "slow"}});
    world.post(&at, sent).await.ok();
    world.kcp.schedule();
    let waiting = world.get(&format!("{at}/ws")).await.ok();
    assert_eq!(waiting["status"]["phase"], "Initializing");
    assert_eq!(waiting["status"]["initializers"], json!(["root:slow"]));
    let cluster = "/clusters/root:ws/apis/core.kcp.io/v1alpha1/logicalclusters/cluster";
    world
        .patch(
            &format!("{cluster}/status"),
            json!({"status": {"initializers": null}}),
        )
        .await
        .ok();
    let ready = world.get(&format!("{at}/ws")).await.ok();
    assert_eq!(ready["status"]["phase"], "Ready");
    assert_eq!(world.get(cluster).await.ok()["status"]["phase"], "Ready");
}

#[tokio::test]
async fn logical_clusters_are_made_and_deleted_by_nobody_else() {
    let world = World::new();
    let at = "/clusters/root/apis/core.kcp.io/v1alpha1/logicalclusters";
    let sent = json!({"apiVersion": "core.kcp.io/v1alpha1", "kind": "LogicalCluster", "metadata": {"name": "cluster"}});
    assert_eq!(world.post(at, sent).await.code, 403);
    assert_eq!(world.delete(&format!("{at}/cluster")).await.code, 403);
}

#[tokio::test]
async fn a_hundred_workspaces_stand_beside_each_other() {
    let world = World::new();
    world.workspace("root", "org").await;
    let at = format!("/clusters/root:org{WORKSPACES}");
    for index in 0..100 {
        world.post(&at, workspace(&format!("w{index}"))).await.ok();
    }
    world.kcp.schedule();
    let list = world.get(&at).await.ok();
    let ids: std::collections::HashSet<&str> = list["items"]
        .as_array()
        .unwrap()
        .iter()
        .map(|item| {
            assert_eq!(item["status"]["phase"], "Ready");
            item["spec"]["cluster"].as_str().unwrap()
        })
        .collect();
    assert_eq!(ids.len(), 100);
}

#[tokio::test]
async fn who_names_no_workspace_is_told_that_there_is_one_to_name() {
    let world = World::new();
    for path in ["/api", "/apis", "/api/v1/namespaces"] {
        let answer = world.get(path).await;
        assert_eq!(answer.code, 404, "{path}");
        assert_eq!(answer.body["reason"], "NotFound", "{path}");
        let message = answer.body["message"].as_str().unwrap();
        assert!(message.contains("/clusters/root"), "{path}: {message}");
    }
    world.get("/version").await.ok();
}
