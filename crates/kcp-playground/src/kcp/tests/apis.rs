use super::*;

#[tokio::test]
async fn an_export_gets_its_identity_with_the_answer_to_its_create() {
    let world = World::new();
    let (org, _) = world.provider().await;
    let found = world
        .get(&format!("/clusters/{org}{EXPORTS}/tabs"))
        .await
        .ok();
    assert_eq!(
        found["spec"]["identity"]["secretRef"],
        json!({"namespace": "kcp-system", "name": "tabs"})
    );
    let hash = found["status"]["identityHash"].as_str().unwrap();
    assert_eq!(hash.len(), 64);
    assert_eq!(found["metadata"]["generation"], 2);
    assert_eq!(found["metadata"]["annotations"]["kcp.io/path"], "root:org");
    assert_eq!(condition(&found, "IdentityValid")["status"], "True");
    assert_eq!(
        found["spec"]["latestResourceSchemas"],
        json!(["v1.crontabs.example.com"])
    );
    let newer = world
        .get(&format!("/clusters/{org}{EXPORTS2}/tabs"))
        .await
        .ok();
    assert_eq!(
        newer["spec"]["resources"],
        json!([{"name": "crontabs", "group": "example.com", "schema": "v1.crontabs.example.com", "storage": {"crd": {}}}])
    );
    let secret = world
        .get(&format!(
            "/clusters/{org}/api/v1/namespaces/kcp-system/secrets/tabs"
        ))
        .await
        .ok();
    assert!(secret["data"]["key"].is_string());
    let slice = world
        .get(&format!("/clusters/{org}{SLICES}/tabs"))
        .await
        .ok();
    assert_eq!(
        slice["spec"]["export"],
        json!({"name": "tabs", "path": "root:org"})
    );
    assert_eq!(slice["status"].get("endpoints"), None);
    let twice = json!({
        "apiVersion": "apis.kcp.io/v1alpha1", "kind": "APIExportEndpointSlice",
        "metadata": {"name": "tabs"}, "spec": {"export": {"name": "tabs"}},
    });
    assert_eq!(
        world
            .post(&format!("/clusters/{org}{SLICES}"), twice)
            .await
            .code,
        409
    );
}

#[tokio::test]
async fn the_older_version_makes_an_exact_round_trip() {
    let world = World::new();
    let (org, _) = world.provider().await;
    let at = format!("/clusters/{org}{EXPORTS}/tabs");
    let mut next = world.get(&at).await.ok();
    let claims = json!([
        {"group": "", "resource": "secrets", "all": true},
        {"group": "", "resource": "configmaps", "all": true},
    ]);
    next["spec"]["permissionClaims"] = claims.clone();
    next["spec"]["latestResourceSchemas"] =
        json!(["v2.crontabs.example.com", "v1.others.example.com"]);
    let written = world.put(&at, next.clone()).await.ok();
    assert_eq!(written["spec"], next["spec"]);
    assert_eq!(world.put(&at, written.clone()).await.ok(), written);
    let newer = world
        .get(&format!("/clusters/{org}{EXPORTS2}/tabs"))
        .await
        .ok();
    assert_eq!(newer["spec"]["permissionClaims"][0]["verbs"], json!(["*"]));
}

#[tokio::test]
async fn what_an_export_may_not_say_is_forbidden() {
    let world = World::new();
    let (org, _) = world.provider().await;
    let at = format!("/clusters/{org}{EXPORTS}/tabs");
    let claim = |claim: Value| json!({"spec": {"permissionClaims": [claim]}});
    let foreign = claim(json!({"group": "other.com", "resource": "things", "all": true}));
    world
        .patch(&at, foreign)
        .await
        .refused(403, "Forbidden", "needs an identityHash");
    let neither = claim(json!({"group": "", "resource": "secrets"}));
    world
        .patch(&at, neither)
        .await
        .refused(422, "Invalid", "either");
    let twice = claim(json!({"group": "", "resource": "secrets", "all": true}));
    let mut twice = twice;
    let one = twice["spec"]["permissionClaims"][0].clone();
    twice["spec"]["permissionClaims"]
        .as_array_mut()
        .unwrap()
        .push(one);
    assert_eq!(world.patch(&at, twice).await.code, 422);
}

#[tokio::test]
async fn a_schema_is_checked_and_then_fixed() {
    let world = World::new();
    let (org, _) = world.provider().await;
    let at = format!("/clusters/{org}{SCHEMAS}");
    let mut wrong = schema("v2");
    wrong["metadata"]["name"] = "v2.others.example.com".into();
    world
        .post(&at, wrong)
        .await
        .refused(422, "Invalid", "must end in .crontabs.example.com");
    let change = json!({"spec": {"scope": "Cluster"}});
    world
        .patch(&format!("{at}/v1.crontabs.example.com"), change)
        .await
        .refused(422, "Invalid", "immutable");
    let label = json!({"metadata": {"labels": {"a": "b"}}});
    world
        .patch(&format!("{at}/v1.crontabs.example.com"), label)
        .await
        .ok();
}

#[tokio::test]
async fn a_binding_is_ready_at_once_and_serves_the_api() {
    let world = World::new();
    let (org, team) = world.bound(&json!([])).await;
    let found = world
        .get(&format!("/clusters/{team}{BINDINGS}/tabs"))
        .await
        .ok();
    let status = &found["status"];
    assert_eq!(
        (&status["phase"], &status["apiExportClusterName"]),
        (&json!("Bound"), &json!(org))
    );
    assert_eq!(condition(&found, "Ready")["status"], "True");
    assert_eq!(status["conditions"][0]["type"], "Ready");
    assert_eq!(
        found["metadata"]["finalizers"],
        json!(["apis.kcp.io/apibinding-finalizer"])
    );
    assert_eq!(
        found["metadata"]["annotations"]["kcp.io/path"],
        "root:org:team"
    );
    let export = world
        .get(&format!("/clusters/{org}{EXPORTS}/tabs"))
        .await
        .ok();
    let bound = &status["boundResources"][0];
    assert_eq!(
        (&bound["group"], &bound["resource"]),
        (&json!("example.com"), &json!("crontabs"))
    );
    assert_eq!(
        bound["schema"]["identityHash"],
        export["status"]["identityHash"]
    );
    assert_eq!(bound["storageVersions"], json!(["v1"]));
    let made = world
        .post(&format!("/clusters/root:org:team{TABS}"), tab("a"))
        .await
        .ok();
    assert_eq!(made["metadata"]["annotations"]["kcp.io/cluster"], *team);
    assert_eq!(made["metadata"].get("labels"), None);
    assert_eq!(
        world
            .get("/clusters/root:org:team/apis/example.com/v1")
            .await
            .code,
        200
    );
    assert_eq!(
        world
            .get("/clusters/root:org/apis/example.com/v1")
            .await
            .code,
        404
    );
    let slice = world
        .get(&format!("/clusters/{org}{SLICES}/tabs"))
        .await
        .ok();
    let url = format!("{URL}/services/apiexport/{org}/tabs");
    assert_eq!(slice["status"]["endpoints"], json!([{"url": url}]));
    let crds = world
        .get(&format!(
            "/clusters/{team}/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
        ))
        .await
        .ok();
    assert_eq!(crds["items"], json!([]));
}

#[tokio::test]
async fn a_slice_in_another_workspace_names_the_cluster_of_the_export() {
    let world = World::new();
    let (org, _) = world.bound(&json!([])).await;
    world.workspace("root", "other").await;
    let slice = json!({
        "apiVersion": "apis.kcp.io/v1alpha1", "kind": "APIExportEndpointSlice",
        "metadata": {"name": "elsewhere"}, "spec": {"export": {"name": "tabs", "path": "root:org"}},
    });
    let made = world
        .post(&format!("/clusters/root:other{SLICES}"), slice.clone())
        .await
        .ok();
    let url = format!("{URL}/services/apiexport/{org}/tabs");
    assert_eq!(made["status"]["endpoints"], json!([{"url": url}]));
    let mut wrong = slice;
    wrong["metadata"]["name"] = "wrong".into();
    wrong["spec"]["export"]["name"] = "none".into();
    assert_eq!(
        world
            .post(&format!("/clusters/root:other{SLICES}"), wrong)
            .await
            .code,
        403
    );
}

#[tokio::test]
async fn a_binding_to_nothing_is_refused_or_waits() {
    let world = World::new();
    let (org, team) = world.provider().await;
    let at = format!("/clusters/{team}{BINDINGS}");
    world
        .post(&at, binding("none", &org, &json!([])))
        .await
        .refused(
            403,
            "Forbidden",
            "unable to create APIBinding: no permission to bind to export",
        );
    let mut local = binding("later", "", &json!([]));
    local["spec"]["reference"]["export"] = json!({"name": "later"});
    let waiting = world.post(&at, local).await.ok();
    assert_eq!(waiting["status"]["phase"], "Binding");
    assert_eq!(
        condition(&waiting, "APIExportValid")["reason"],
        "APIExportNotFound"
    );
    let empty = json!({"apiVersion": "apis.kcp.io/v1alpha1", "kind": "APIExport", "metadata": {"name": "later"}, "spec": {}});
    world
        .post(&format!("/clusters/{team}{EXPORTS}"), empty)
        .await
        .ok();
    let bound = world.get(&format!("{at}/later")).await.ok();
    assert_eq!(condition(&bound, "Ready")["status"], "True");
    let moved = json!({"spec": {"reference": {"export": {"name": "other"}}}});
    assert_eq!(world.patch(&format!("{at}/later"), moved).await.code, 422);
}

#[tokio::test]
async fn a_change_of_an_export_reaches_every_binding_with_one_write() {
    let world = World::new();
    let (org, _) = world.provider().await;
    let mut teams = Vec::new();
    for index in 0..10 {
        let team = world.workspace("root:org", &format!("t{index}")).await;
        world
            .post(
                &format!("/clusters/{team}{BINDINGS}"),
                binding("tabs", &org, &json!([])),
            )
            .await
            .ok();
        teams.push(team);
    }
    let table = tree::BINDINGS.clone();
    let mut watch = world.store.watch(
        crate::store::Range::everywhere(&table),
        None,
        world.store.revision(),
    );
    world
        .post(&format!("/clusters/{org}{SCHEMAS}"), schema("v2"))
        .await
        .ok();
    let next = json!({"spec": {"latestResourceSchemas": ["v2.crontabs.example.com"]}});
    world
        .patch(&format!("/clusters/{org}{EXPORTS}/tabs"), next)
        .await
        .ok();
    let events = watch.poll(1000).unwrap();
    assert_eq!(events.len(), teams.len());
    for team in teams {
        let found = world
            .get(&format!("/clusters/{team}{BINDINGS}/tabs"))
            .await
            .ok();
        assert_eq!(
            found["status"]["boundResources"][0]["schema"]["name"],
            "v2.crontabs.example.com"
        );
    }
}

#[tokio::test]
async fn objects_survive_an_exchange_of_their_schema() {
    let world = World::new();
    let (org, team) = world.bound(&json!([])).await;
    let at = format!("/clusters/{team}{TABS}");
    world.post(&at, tab("a")).await.ok();
    let mut events = world.watch(&format!("{at}?watch=true")).await;
    assert_eq!(events.brief().await, ("ADDED".into(), "a".into()));
    let mut next = schema("v2");
    next["spec"]["versions"][0]["schema"]["properties"]["spec"]["properties"]["more"] =
        json!({"type": "string", "default": "yes"});
    world
        .post(&format!("/clusters/{org}{SCHEMAS}"), next)
        .await
        .ok();
    let exchange = json!({"spec": {"latestResourceSchemas": ["v2.crontabs.example.com"]}});
    world
        .patch(&format!("/clusters/{org}{EXPORTS}/tabs"), exchange)
        .await
        .ok();
    let seen = world.get(&format!("{at}/a")).await.ok();
    assert_eq!(seen["spec"], json!({"cron": "* *", "more": "yes"}));
    world.post(&at, tab("b")).await.ok();
    assert_eq!(events.brief().await, ("ADDED".into(), "b".into()));
}

#[tokio::test]
async fn a_change_of_scope_ends_watches_and_serves_the_new_one() {
    let world = World::new();
    let (org, team) = world.bound(&json!([])).await;
    let mut events = world
        .watch(&format!("/clusters/{team}{TABS}?watch=true"))
        .await;
    let mut next = schema("v2");
    next["spec"]["scope"] = "Cluster".into();
    world
        .post(&format!("/clusters/{org}{SCHEMAS}"), next)
        .await
        .ok();
    let exchange = json!({"spec": {"latestResourceSchemas": ["v2.crontabs.example.com"]}});
    world
        .patch(&format!("/clusters/{org}{EXPORTS}/tabs"), exchange)
        .await
        .ok();
    assert_eq!(events.next().await, None);
    world
        .post(
            &format!("/clusters/{team}/apis/example.com/v1/crontabs"),
            tab("c"),
        )
        .await
        .ok();
}

#[tokio::test]
async fn an_export_goes_on_serving_what_is_not_missing() {
    let world = World::new();
    let (org, team) = world.provider().await;
    let both = json!({"spec": {"latestResourceSchemas": ["v1.crontabs.example.com", "v1.others.example.com"]}});
    world
        .patch(&format!("/clusters/{org}{EXPORTS}/tabs"), both)
        .await
        .ok();
    world
        .post(
            &format!("/clusters/{team}{BINDINGS}"),
            binding("tabs", &org, &json!([])),
        )
        .await
        .ok();
    let found = world
        .get(&format!("/clusters/{team}{BINDINGS}/tabs"))
        .await
        .ok();
    assert_eq!(
        condition(&found, "APIExportValid")["reason"],
        "InternalError"
    );
    assert_eq!(condition(&found, "Ready")["status"], "True");
    world
        .post(&format!("/clusters/{team}{TABS}"), tab("a"))
        .await
        .ok();
    let view = format!("/services/apiexport/{org}/tabs/clusters/*/apis/example.com/v1/crontabs");
    assert_eq!(
        world.get(&view).await.ok()["items"]
            .as_array()
            .unwrap()
            .len(),
        1
    );
}

#[tokio::test]
async fn who_comes_second_to_a_resource_waits() {
    let world = World::new();
    let (org, team) = world.bound(&json!([])).await;
    world
        .post(
            &format!("/clusters/{org}{EXPORTS}"),
            export("more", &["v1"]),
        )
        .await
        .ok();
    let second = world
        .post(
            &format!("/clusters/{team}{BINDINGS}"),
            binding("more", &org, &json!([])),
        )
        .await
        .ok();
    assert_eq!(
        condition(&second, "BindingUpToDate")["reason"],
        "NamingConflicts"
    );
    assert_eq!(second["status"]["phase"], "Binding");
    world
        .delete(&format!("/clusters/{team}{BINDINGS}/tabs"))
        .await
        .ok();
    let free = world
        .get(&format!("/clusters/{team}{BINDINGS}/more"))
        .await
        .ok();
    assert_eq!(free["status"]["phase"], "Bound");
}

#[tokio::test]
async fn unbinding_takes_the_objects_along() {
    let world = World::new();
    let (org, team) = world.bound(&json!([])).await;
    let mut held = tab("a");
    held["metadata"]["finalizers"] = json!(["example.com/x"]);
    world
        .post(&format!("/clusters/{team}{TABS}"), held)
        .await
        .ok();
    let at = format!("/clusters/{team}{BINDINGS}/tabs");
    world.delete(&at).await.ok();
    let going = world.get(&at).await.ok();
    assert_eq!(
        condition(&going, "BindingResourceDeleteSuccess")["status"],
        "False"
    );
    let free = json!({"metadata": {"finalizers": null}});
    world
        .patch(&format!("/clusters/{team}{TABS}/a"), free)
        .await
        .ok();
    assert_eq!(world.get(&at).await.code, 404);
    assert_eq!(
        world
            .get(&format!("/clusters/{team}/apis/example.com/v1"))
            .await
            .code,
        404
    );
    let slice = world
        .get(&format!("/clusters/{org}{SLICES}/tabs"))
        .await
        .ok();
    assert_eq!(slice["status"].get("endpoints"), None);
}

#[tokio::test]
async fn definitions_of_a_workspace_are_its_own() {
    let world = World::new();
    world.workspace("root", "org").await;
    let crd = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "things.example.com"},
        "spec": {
            "group": "example.com", "scope": "Cluster", "names": {"plural": "things", "kind": "Thing"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {"type": "object"}}}],
        },
    });
    world
        .post(
            "/clusters/root:org/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
            crd,
        )
        .await
        .ok();
    assert_eq!(
        world
            .get("/clusters/root:org/apis/example.com/v1/things")
            .await
            .code,
        200
    );
    assert_eq!(
        world
            .get("/clusters/root/apis/example.com/v1/things")
            .await
            .code,
        404
    );
}

#[tokio::test]
async fn discovery_prefers_the_newer_version_of_apis() {
    let world = World::new();
    let group = world.get("/clusters/root/apis/apis.kcp.io").await.ok();
    assert_eq!(group["preferredVersion"]["version"], "v1alpha2");
    assert_eq!(group["versions"].as_array().unwrap().len(), 2);
}

#[tokio::test]
async fn an_object_that_the_older_version_could_not_show_is_refused() {
    let world = World::new();
    let (org, team) = world.bound(&json!([])).await;
    let broken = json!({"metadata": {"annotations": {
        "apis.v1alpha2.kcp.io/v1alpha1-permission-claims": "[{",
    }}});
    for at in [
        format!("/clusters/{org}{EXPORTS2}/tabs"),
        format!("/clusters/{team}{BINDINGS2}/tabs"),
    ] {
        world.patch(&at, broken.clone()).await.refused(
            400,
            "BadRequest",
            "v1alpha1-permission-claims",
        );
    }
    assert_eq!(
        world.get(&format!("/clusters/{org}{EXPORTS}")).await.code,
        200
    );
    let view =
        format!("/services/apiexport/{org}/tabs/clusters/*/apis/apis.kcp.io/v1alpha1/apibindings");
    assert_eq!(world.get(&view).await.code, 200);
}

#[tokio::test]
async fn a_binding_follows_its_path_to_a_workspace_made_anew() {
    let world = World::new();
    let (old, _) = world.provider().await;
    let consumer = world.workspace("root", "consumer").await;
    let bindings = format!("/clusters/{consumer}{BINDINGS}");
    world
        .post(&bindings, binding("tabs", "root:org", &json!([])))
        .await
        .ok();
    let at = format!("/clusters/root{WORKSPACES}/org");
    world.delete(&at).await.ok();
    while world.get(&at).await.code != 404 {
        world.kcp.schedule();
    }
    let waiting = world.get(&format!("{bindings}/tabs")).await.ok();
    assert_eq!(condition(&waiting, "APIExportValid")["status"], "False");
    let (new, _) = world.provider().await;
    assert_ne!(old, new);
    let found = world.get(&format!("{bindings}/tabs")).await.ok();
    assert_eq!(found["status"]["apiExportClusterName"], *new);
    assert_eq!(condition(&found, "APIExportValid")["status"], "True");
}
