use super::*;

const TYPES: &str = "/apis/tenancy.kcp.io/v1alpha1/workspacetypes";

fn typed(name: &str, spec: &Value) -> Value {
    json!({"apiVersion": "tenancy.kcp.io/v1alpha1", "kind": "WorkspaceType", "metadata": {"name": name}, "spec": spec})
}

#[tokio::test]
async fn a_type_says_where_its_initializer_and_its_terminator_work() {
    let world = World::new();
    let org = world.workspace("root", "org").await;
    let own = typed("slow", &json!({"initializer": true}));
    let made = world
        .post(&format!("/clusters/{org}{TYPES}"), own)
        .await
        .ok();
    let universal = world.get(&format!("/clusters/root{TYPES}/universal")).await;
    for (found, name) in [
        (made, format!("{org}:slow")),
        (universal.ok(), "root:universal".into()),
    ] {
        assert_eq!(
            found["status"]["virtualWorkspaces"],
            json!([
                {"url": format!("{URL}/services/initializingworkspaces/{name}"), "type": "initializing"},
                {"url": format!("{URL}/services/terminatingworkspaces/{name}"), "type": "terminating"},
            ])
        );
        assert_eq!(condition(&found, "Ready")["status"], "True");
    }
}

#[tokio::test]
async fn a_type_labels_its_workspaces_unless_they_say_otherwise() {
    let world = World::new();
    let labels = json!({"additionalWorkspaceLabels": {"tier": "gold", "region": "north"}});
    world
        .post(&format!("/clusters/root{TYPES}"), typed("gold", &labels))
        .await
        .ok();
    let mut sent = workspace("w");
    sent["spec"] = json!({"type": {"name": "gold", "path": "root"}});
    sent["metadata"]["labels"] = json!({"region": "south"});
    let made = world
        .post(&format!("/clusters/root{WORKSPACES}"), sent)
        .await
        .ok();
    assert_eq!(made["metadata"]["labels"]["tier"], "gold");
    assert_eq!(made["metadata"]["labels"]["region"], "south");
}

#[tokio::test]
async fn a_type_that_maintains_its_bindings_brings_them_to_workspaces_that_are_there() {
    let world = World::new();
    let (org, _) = world.provider().await;
    for (name, lifecycle, maintained) in [
        ("kept", "Maintain", true),
        ("begun", "InitializeOnly", false),
    ] {
        let spec = json!({
            "defaultAPIBindingLifecycle": lifecycle, "extend": {"with": [{"name": "universal", "path": "root"}]},
        });
        world
            .post(&format!("/clusters/root{TYPES}"), typed(name, &spec))
            .await
            .ok();
        let mut sent = workspace(name);
        sent["spec"] = json!({"type": {"name": name, "path": "root"}});
        world
            .post(&format!("/clusters/root{WORKSPACES}"), sent)
            .await
            .ok();
        world.kcp.schedule();
        let more = json!({"spec": {"defaultAPIBindings": [{"path": org, "export": "tabs"}]}});
        world
            .patch(&format!("/clusters/root{TYPES}/{name}"), more)
            .await
            .ok();
        let bindings = format!("/clusters/root:{name}{BINDINGS}");
        let bound = async || {
            let list = world.get(&bindings).await.ok();
            let items = list["items"].as_array().unwrap().clone();
            let name = |item: &Value| item["metadata"]["name"].as_str().unwrap().to_owned();
            items
                .iter()
                .map(name)
                .find(|name| name.starts_with("tabs-"))
        };
        let found = bound().await;
        assert_eq!(found.is_some(), maintained, "{name}");
        if let Some(found) = found {
            world.delete(&format!("{bindings}/{found}")).await.ok();
            assert_eq!(bound().await, Some(found), "it comes back");
        }
    }
}

#[tokio::test]
async fn root_exports_what_a_kcp_exports() {
    let world = World::new();
    let exports = world.get(&format!("/clusters/root{EXPORTS2}")).await.ok();
    let names: Vec<&str> = exports["items"]
        .as_array()
        .unwrap()
        .iter()
        .map(|export| export["metadata"]["name"].as_str().unwrap())
        .collect();
    assert_eq!(
        names,
        [
            "cache.kcp.io",
            "shards.core.kcp.io",
            "tenancy.kcp.io",
            "topology.kcp.io"
        ]
    );
    for export in exports["items"].as_array().unwrap() {
        assert_eq!(export["status"]["identityHash"].as_str().unwrap().len(), 64);
    }
    let shards = &exports["items"][1]["spec"]["resources"];
    assert_eq!(shards.as_array().unwrap().len(), 1);
    assert_eq!(shards[0]["name"], "shards");
}
