use std::collections::BTreeSet;

use super::*;

fn claims(resources: &[&str]) -> (Value, Value) {
    let exported: Vec<Value> = resources
        .iter()
        .map(|resource| json!({"group": "", "resource": resource, "all": true}))
        .collect();
    let accepted: Vec<Value> = resources
        .iter()
        .map(
            |resource| json!({"group": "", "resource": resource, "all": true, "state": "Accepted"}),
        )
        .collect();
    (
        json!({"spec": {"permissionClaims": exported}}),
        json!(accepted),
    )
}

/// A provider that claims secrets and namespaces, and a team that accepts it; the base of the view.
async fn claimed() -> (World, String, String) {
    let world = World::new();
    let (exported, accepted) = claims(&["secrets", "namespaces"]);
    let (org, team) = world.bound(&accepted).await;
    world
        .patch(&format!("/clusters/{org}{EXPORTS}/tabs"), exported)
        .await
        .ok();
    (
        world,
        format!("/services/apiexport/{org}/tabs/clusters"),
        team,
    )
}

#[tokio::test]
async fn the_view_serves_what_is_exported_and_what_is_claimed() {
    let (world, view, team) = claimed().await;
    for cluster in ["*", team.as_str()] {
        let groups = world.get(&format!("{view}/{cluster}/apis")).await.ok();
        let names: Vec<&str> = groups["groups"]
            .as_array()
            .unwrap()
            .iter()
            .map(|g| g["name"].as_str().unwrap())
            .collect();
        assert_eq!(names, ["apis.kcp.io", "example.com"]);
        let core = world.get(&format!("{view}/{cluster}/api/v1")).await.ok();
        let names: Vec<&str> = core["resources"]
            .as_array()
            .unwrap()
            .iter()
            .map(|r| r["name"].as_str().unwrap())
            .collect();
        assert_eq!(
            names,
            [
                "namespaces",
                "namespaces/finalize",
                "namespaces/status",
                "secrets"
            ]
        );
    }
    assert_eq!(
        world.get(&format!("{view}/*/apis/none.com/v1")).await.code,
        404
    );
    let org = view.split('/').nth(3).unwrap();
    assert_eq!(
        world
            .get(&format!("/services/apiexport/{org}/none/clusters/*/apis"))
            .await
            .code,
        500
    );
}

#[tokio::test]
async fn each_shard_has_an_endpoint_for_its_own_clusters() {
    let world = World::with(Duration::ZERO, NonZeroUsize::new(3).unwrap());
    let (org, team) = world.bound(&json!([])).await;
    let slice = async || {
        let slice = world
            .get(&format!("/clusters/{org}{SLICES}/tabs"))
            .await
            .ok();
        let endpoints = slice["status"]["endpoints"].as_array().unwrap();
        let path = |one: &Value| {
            one["url"]
                .as_str()
                .unwrap()
                .strip_prefix(URL)
                .unwrap()
                .to_owned()
        };
        endpoints.iter().map(path).collect::<Vec<_>>()
    };
    assert_eq!(slice().await.len(), 1);
    let mut teams = vec![team];
    while slice().await.len() < 3 {
        let team = world
            .workspace("root:org", &format!("team{}", teams.len()))
            .await;
        let bound = binding("tabs", &org, &json!([]));
        world
            .post(&format!("/clusters/{team}{BINDINGS}"), bound)
            .await
            .ok();
        teams.push(team);
    }
    for (number, endpoint) in slice().await.iter().enumerate() {
        assert_eq!(
            *endpoint,
            format!("/shards/{number}/services/apiexport/{org}/tabs")
        );
    }
    let mut seen = Vec::new();
    for endpoint in slice().await {
        let all = format!("{endpoint}/clusters/*/apis/example.com/v1/crontabs");
        let mut events = world.watch(&format!("{all}?watch=true")).await;
        for team in &teams {
            let name = format!("on{}", endpoint.split('/').nth(2).unwrap());
            world
                .post(&format!("/clusters/{team}{TABS}"), tab(&name))
                .await
                .ok();
        }
        let list = world.get(&all).await.ok();
        let cluster = |object: &Value| {
            let cluster = &object["metadata"]["annotations"]["kcp.io/cluster"];
            cluster.as_str().unwrap().to_owned()
        };
        let clusters = list["items"].as_array().unwrap().iter().map(cluster);
        let clusters: BTreeSet<String> = clusters.collect();
        for _ in &clusters {
            assert!(clusters.contains(&cluster(&events.next().await.unwrap()["object"])));
        }
        for team in &teams {
            let found = world
                .get(&format!("{endpoint}/clusters/{team}{TABS}"))
                .await;
            assert_eq!(found.code, if clusters.contains(team) { 200 } else { 403 });
        }
        seen.extend(clusters);
    }
    seen.sort();
    teams.sort();
    assert_eq!(seen, teams);
    let none = format!("/shards/3/services/apiexport/{org}/tabs/clusters/*/apis");
    assert_eq!(world.get(&none).await.code, 404);
}

#[tokio::test]
async fn without_claims_the_core_group_is_empty() {
    let world = World::new();
    let (org, _) = world.bound(&json!([])).await;
    let view = format!("/services/apiexport/{org}/tabs/clusters/*");
    assert_eq!(
        world.get(&format!("{view}/api")).await.ok()["versions"],
        json!(["v1"])
    );
    assert_eq!(world.get(&format!("{view}/api/v1")).await.code, 404);
}

#[tokio::test]
async fn objects_are_seen_and_stated_through_the_view() {
    let (world, view, team) = claimed().await;
    let mut events = world
        .watch(&format!("{view}/*/apis/example.com/v1/crontabs?watch=true"))
        .await;
    world
        .post(&format!("/clusters/root:org:team{TABS}"), tab("a"))
        .await
        .ok();
    let event = events.next().await.unwrap();
    assert_eq!(
        event["object"]["metadata"]["annotations"]["kcp.io/cluster"],
        *team
    );
    let list = world
        .get(&format!("{view}/*/apis/example.com/v1/crontabs"))
        .await
        .ok();
    assert_eq!(list["items"][0]["metadata"]["name"], "a");
    let at = format!("{view}/{team}{TABS}/a");
    let mut next = world.get(&at).await.ok();
    next["status"] = json!({"ready": true});
    world.put(&format!("{at}/status"), next).await.ok();
    let seen = world
        .get(&format!("/clusters/root:org:team{TABS}/a"))
        .await
        .ok();
    assert_eq!(seen["status"]["ready"], true);
    let finalizer = json!({"metadata": {"finalizers": ["syncagent.kcp.io/cleanup"]}});
    world.patch(&at, finalizer).await.ok();
    world
        .post(&format!("{view}/{team}{TABS}"), tab("b"))
        .await
        .ok();
    world.delete(&format!("{view}/{team}{TABS}/b")).await.ok();
    assert_eq!(
        world.post(&format!("{view}/*{TABS}"), tab("c")).await.code,
        404
    );
    assert_eq!(world.get(&format!("{view}/*{TABS}/a")).await.code, 404);
}

#[tokio::test]
async fn claimed_objects_are_seen_only_where_they_are_labelled() {
    let (world, view, team) = claimed().await;
    let other = world.workspace("root:org", "other").await;
    for cluster in [&team, &other] {
        let secret = json!({"metadata": {"name": "s"}});
        world
            .post(&format!("/clusters/{cluster}{SECRETS}"), secret)
            .await
            .ok();
    }
    let list = world.get(&format!("{view}/*/api/v1/secrets")).await.ok();
    let items = list["items"].as_array().unwrap();
    assert_eq!(items.len(), 1);
    assert_eq!(items[0]["metadata"]["annotations"]["kcp.io/cluster"], *team);
    let created = json!({"metadata": {"name": "via-view"}});
    let made = world
        .post(&format!("{view}/{team}{SECRETS}"), created)
        .await
        .ok();
    assert!(
        made["metadata"]["labels"]
            .as_object()
            .unwrap()
            .keys()
            .any(|k| k.starts_with(ids::CLAIM_LABEL_PREFIX))
    );
    let refused = world.get(&format!("{view}/{other}{SECRETS}/s")).await;
    refused.refused(403, "Forbidden", "not granted");
    assert_eq!(
        world.get(&format!("{view}/nowhere{SECRETS}/s")).await.code,
        403
    );
    let ns = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "n"}});
    world
        .post(&format!("{view}/{team}/api/v1/namespaces"), ns)
        .await
        .ok();
    let unclaimed = format!("{view}/{team}/api/v1/namespaces/default/configmaps");
    assert_eq!(world.get(&unclaimed).await.code, 403);
}

#[tokio::test]
async fn a_claim_that_is_withdrawn_takes_objects_out_of_the_view() {
    let (world, view, team) = claimed().await;
    world
        .post(
            &format!("/clusters/{team}{SECRETS}"),
            json!({"metadata": {"name": "s"}}),
        )
        .await
        .ok();
    let mut events = world
        .watch(&format!("{view}/*/api/v1/secrets?watch=true"))
        .await;
    assert_eq!(events.brief().await, ("ADDED".into(), "s".into()));
    let at = format!("/clusters/{team}{BINDINGS}/tabs");
    let mut next = world.get(&at).await.ok();
    next["spec"]["permissionClaims"][0]["state"] = "Rejected".into();
    world.put(&at, next).await.ok();
    assert_eq!(events.brief().await, ("DELETED".into(), "s".into()));
    let refused = world.get(&format!("{view}/{team}{SECRETS}/s")).await;
    assert_eq!(refused.code, 403);
}

#[tokio::test]
async fn bindings_of_the_export_are_there_to_read() {
    let (world, view, team) = claimed().await;
    for version in ["v1alpha1", "v1alpha2"] {
        let at = format!("{view}/*/apis/apis.kcp.io/{version}/apibindings");
        let list = world.get(&at).await.ok();
        let items = list["items"].as_array().unwrap();
        assert_eq!(items.len(), 1, "{list}");
        assert_eq!(items[0]["apiVersion"], format!("apis.kcp.io/{version}"));
        assert_eq!(items[0]["metadata"]["annotations"]["kcp.io/cluster"], *team);
        let one = format!("{view}/{team}/apis/apis.kcp.io/{version}/apibindings/tabs");
        assert_eq!(world.get(&one).await.code, 200);
        assert_eq!(world.delete(&one).await.code, 405);
    }
}

#[tokio::test]
async fn verbs_are_granted_only_where_both_sides_name_them() {
    let world = World::new();
    let (org, team) = world.provider().await;
    let exported = json!({"spec": {"permissionClaims": [{"group": "", "resource": "secrets", "verbs": ["get", "list"]}]}});
    world
        .patch(&format!("/clusters/{org}{EXPORTS2}/tabs"), exported)
        .await
        .ok();
    let claim = |verbs: Value| json!({"group": "", "resource": "secrets", "verbs": verbs, "state": "Accepted", "selector": {"matchAll": true}});
    let sent = json!({
        "apiVersion": "apis.kcp.io/v1alpha2", "kind": "APIBinding", "metadata": {"name": "tabs"},
        "spec": {"reference": {"export": {"name": "tabs", "path": org}}, "permissionClaims": [claim(json!(["get", "delete"]))]},
    });
    world
        .post(&format!("/clusters/{team}{BINDINGS2}"), sent)
        .await
        .ok();
    world
        .post(
            &format!("/clusters/{team}{SECRETS}"),
            json!({"metadata": {"name": "s"}}),
        )
        .await
        .ok();
    let at = format!("/services/apiexport/{org}/tabs/clusters/{team}{SECRETS}");
    assert_eq!(world.get(&format!("{at}/s")).await.code, 200);
    assert_eq!(world.get(&at).await.code, 403);
    assert_eq!(world.delete(&format!("{at}/s")).await.code, 403);
}

#[tokio::test]
async fn logical_clusters_are_claimed_like_anything_else() {
    let world = World::new();
    let accepted = json!([{"group": "core.kcp.io", "resource": "logicalclusters", "all": true, "state": "Accepted"}]);
    let (org, team) = world.bound(&accepted).await;
    let exported = json!({"spec": {"permissionClaims": [{"group": "core.kcp.io", "resource": "logicalclusters", "all": true}]}});
    world
        .patch(&format!("/clusters/{org}{EXPORTS}/tabs"), exported)
        .await
        .ok();
    let list = world
        .get(&format!(
            "/services/apiexport/{org}/tabs/clusters/*/apis/core.kcp.io/v1alpha1/logicalclusters"
        ))
        .await
        .ok();
    let items = list["items"].as_array().unwrap();
    assert_eq!(items.len(), 1);
    assert_eq!(
        items[0]["metadata"]["annotations"]["kcp.io/path"],
        "root:org:team"
    );
    assert_eq!(items[0]["metadata"]["annotations"]["kcp.io/cluster"], *team);
}

#[tokio::test]
async fn a_resource_of_another_export_is_claimed_by_its_identity() {
    let world = World::new();
    let (org, team) = world.bound(&json!([])).await;
    let owner = world
        .get(&format!("/clusters/{org}{EXPORTS}/tabs"))
        .await
        .ok();
    let identity = owner["status"]["identityHash"].clone();
    let claim = |state: bool| {
        let mut claim = json!({"group": "example.com", "resource": "crontabs", "identityHash": identity, "all": true});
        if state {
            claim["state"] = "Accepted".into();
        }
        json!([claim])
    };
    let reader = json!({
        "apiVersion": "apis.kcp.io/v1alpha1", "kind": "APIExport", "metadata": {"name": "reader"},
        "spec": {"permissionClaims": claim(false)},
    });
    world
        .post(&format!("/clusters/{org}{EXPORTS}"), reader)
        .await
        .ok();
    world
        .post(
            &format!("/clusters/{team}{BINDINGS}"),
            binding("reader", &org, &claim(true)),
        )
        .await
        .ok();
    world
        .post(&format!("/clusters/{team}{TABS}"), tab("a"))
        .await
        .ok();
    let list = world
        .get(&format!(
            "/services/apiexport/{org}/reader/clusters/*/apis/example.com/v1/crontabs"
        ))
        .await
        .ok();
    assert_eq!(list["items"].as_array().unwrap().len(), 1);
}

#[tokio::test]
async fn events_of_either_group_are_claimed_as_one() {
    let world = World::new();
    let (exported, accepted) = claims(&["events"]);
    let (org, team) = world.bound(&accepted).await;
    world
        .patch(&format!("/clusters/{org}{EXPORTS}/tabs"), exported)
        .await
        .ok();
    let view = format!("/services/apiexport/{org}/tabs/clusters/{team}");
    assert_eq!(
        world
            .get(&format!("{view}/apis/events.k8s.io/v1"))
            .await
            .code,
        200
    );
    let event = json!({"metadata": {"name": "e"}, "involvedObject": {"namespace": "default"}});
    world
        .post(&format!("{view}/api/v1/namespaces/default/events"), event)
        .await
        .ok();
    assert_eq!(
        world
            .get(&format!(
                "{view}/apis/events.k8s.io/v1/namespaces/default/events/e"
            ))
            .await
            .code,
        200
    );
}

#[tokio::test]
async fn a_claimed_api_whose_schema_comes_late_is_served_then() {
    let world = World::new();
    let (org, _) = world.bound(&json!([])).await;
    let at_schema = format!("/clusters/{org}{SCHEMAS}/v1.crontabs.example.com");
    world.delete(&at_schema).await.ok();
    let owner = world
        .get(&format!("/clusters/{org}{EXPORTS}/tabs"))
        .await
        .ok();
    let reader = json!({
        "apiVersion": "apis.kcp.io/v1alpha1", "kind": "APIExport", "metadata": {"name": "reader"},
        "spec": {"permissionClaims": [{
            "group": "example.com", "resource": "crontabs", "all": true,
            "identityHash": owner["status"]["identityHash"],
        }]},
    });
    world
        .post(&format!("/clusters/{org}{EXPORTS}"), reader)
        .await
        .ok();
    let at = format!("/services/apiexport/{org}/reader/clusters/*/apis/example.com/v1/crontabs");
    assert_eq!(world.get(&at).await.code, 404);
    world
        .post(&format!("/clusters/{org}{SCHEMAS}"), schema("v1"))
        .await
        .ok();
    assert_eq!(world.get(&at).await.code, 200);
}

#[tokio::test]
async fn of_a_workspace_only_built_in_kinds_are_protobuf_and_of_a_virtual_one_nothing_is() {
    const PACKED: &str = "application/vnd.kubernetes.protobuf";
    let (world, view, team) = claimed().await;
    let secret = json!({"metadata": {"name": "s"}});
    let secrets = format!("/clusters/{team}{SECRETS}");
    world.post(&secrets, secret).await.ok();
    let tabs = format!("/clusters/{team}{TABS}");
    world.post(&tabs, tab("t")).await.ok();

    for (target, is_packed) in [
        (format!("{secrets}/s"), true),
        (secrets.clone(), true),
        (format!("/clusters/{team}/api/v1/namespaces"), true),
        (format!("{tabs}/t"), false),
        (format!("/clusters/root:org{EXPORTS}"), false),
        (format!("/clusters/{team}{BINDINGS2}"), false),
        (format!("/clusters/root{WORKSPACES}"), false),
        (format!("{view}/{team}{SECRETS}/s"), false),
        (format!("{view}/*/api/v1/secrets"), false),
        (format!("{view}/*/apis/example.com/v1/crontabs"), false),
    ] {
        let asked = async |accept: &str| {
            let sent = world.sent(Method::GET, &target, (ACCEPT, accept), &json!(null));
            let answer = sent.await;
            let media_type = answer.headers.get(CONTENT_TYPE);
            let is_packed = media_type.is_some_and(|media_type| media_type == PACKED);
            (answer.status, is_packed)
        };
        let either = format!("{PACKED},application/json");
        assert_eq!(asked(&either).await, (200, is_packed), "{target}");
        let alone = if is_packed { 200 } else { 406 };
        assert_eq!(asked(PACKED).await, (alone, is_packed), "{target}");
    }
}
