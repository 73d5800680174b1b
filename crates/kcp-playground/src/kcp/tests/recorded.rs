//! What a running kcp answered, where agents would notice.

use super::*;

const ACROSS: &str = "/apis/example.com/v1/crontabs";

fn view(org: &str, cluster: &str) -> String {
    format!("/services/apiexport/{org}/tabs/clusters/{cluster}")
}

/// An export that claims secrets and configmaps, and a team that accepts it with these selectors.
async fn selected(selector: Value) -> (World, String, String) {
    let world = World::new();
    let (org, team) = world.provider().await;
    let claim = |resource: &str| json!({"group": "", "resource": resource, "verbs": ["*"]});
    let asked = json!([claim("secrets"), claim("configmaps")]);
    let exported = json!({"spec": {"permissionClaims": asked}});
    world
        .patch(&format!("/clusters/{org}{EXPORTS2}/tabs"), exported)
        .await
        .ok();
    let accepted: Vec<Value> = ["secrets", "configmaps"]
        .map(|resource| {
            let mut accepted = claim(resource);
            accepted["state"] = "Accepted".into();
            accepted["selector"] = selector.clone();
            accepted
        })
        .into();
    let sent = json!({
        "apiVersion": "apis.kcp.io/v1alpha2", "kind": "APIBinding", "metadata": {"name": "tabs"},
        "spec": {"reference": {"export": {"name": "tabs", "path": org}}, "permissionClaims": accepted},
    });
    world
        .post(&format!("/clusters/{team}{BINDINGS2}"), sent)
        .await
        .ok();
    (world, org, team)
}

#[tokio::test(start_paused = true)]
async fn an_api_is_missing_in_the_view_until_the_first_binding_is_bound() {
    let world = World::with_delays(Duration::from_secs(5));
    let (org, team) = world.bound(&json!([])).await;
    let across = format!("{}{ACROSS}", view(&org, "*"));
    let binding = format!("/clusters/{team}{BINDINGS}/tabs");
    let later = async {
        let waits = world.get(&binding).await.ok();
        assert_eq!(
            condition(&waits, "Ready")["reason"],
            "WaitingForEstablished"
        );
        assert_eq!(waits["status"]["phase"], "Binding");
        for query in ["", "?watch=true"] {
            assert_eq!(world.get(&format!("{across}{query}")).await.code, 404);
        }
        let found = world.get(&format!("{}/apis", view(&org, "*"))).await.ok();
        assert_eq!(found["groups"][1]["name"], "example.com");
        tokio::time::sleep(Duration::from_secs(6)).await;
        let bound = world.get(&binding).await.ok();
        assert_eq!(bound["status"]["phase"], "Bound", "{bound}");
        assert_eq!(world.get(&across).await.code, 200);
        // Once established, it stays so.
        world.delete(&binding).await.ok();
        assert_eq!(world.get(&across).await.code, 200);
    };
    tokio::select! {
        () = later => {}
        () = world.kcp.run() => {}
    }
}

#[tokio::test(start_paused = true)]
async fn claims_reach_objects_that_exist_a_moment_later() {
    let world = World::with_delays(Duration::from_secs(5));
    let (_, team) = world.provider().await;
    let secrets = format!("/clusters/{team}{SECRETS}");
    let made = json!({"metadata": {"name": "s"}});
    world.post(&secrets, made).await.ok();
    let claim = json!([{"group": "", "resource": "secrets", "all": true, "state": "Accepted"}]);
    world
        .post(
            &format!("/clusters/{team}{BINDINGS}"),
            binding("tabs", "root:org", &claim),
        )
        .await
        .ok();
    let is_claimed = async || {
        let found = world.get(&format!("{secrets}/s")).await.ok();
        found["metadata"]["labels"].is_object()
    };
    let later = async {
        assert!(!is_claimed().await);
        tokio::time::sleep(Duration::from_secs(2)).await;
        assert!(is_claimed().await);
    };
    tokio::select! {
        () = later => {}
        () = world.kcp.run() => {}
    }
}

#[tokio::test]
async fn watches_fail_when_the_export_becomes_another() {
    let (world, org, _) = selected(json!({"matchAll": true})).await;
    let at = view(&org, "*");
    let mut tabs = world.watch(&format!("{at}{ACROSS}?watch=true")).await;
    let mut secrets = world
        .watch(&format!("{at}/api/v1/secrets?watch=true"))
        .await;
    let failed = async |events: &mut Events| {
        while let Some(event) = events.next().await {
            if event["type"] == "ERROR" {
                assert_eq!(event["object"]["code"], 500);
                let said = event["object"]["message"].as_str().unwrap();
                assert!(said.contains("context canceled"), "{said}");
                assert!(events.next().await.is_none());
                return true;
            }
        }
        false
    };
    world
        .post(&format!("/clusters/{org}{SCHEMAS}"), schema("v2"))
        .await
        .ok();
    let export = format!("/clusters/{org}{EXPORTS2}/tabs");
    let mut next = world.get(&export).await.ok();
    next["spec"]["resources"][0]["schema"] = "v2.crontabs.example.com".into();
    world.put(&export, next).await.ok();
    assert!(failed(&mut tabs).await);
    world
        .patch(&export, json!({"spec": {"permissionClaims": []}}))
        .await
        .ok();
    assert!(failed(&mut secrets).await);
}

#[tokio::test]
async fn a_selector_of_one_key_finds_nothing_across_clusters() {
    let world = World::new();
    let (org, team) = world.bound(&json!([])).await;
    let bindings = "/apis/apis.kcp.io/v1alpha1/apibindings";
    for (cluster, found) in [("*", 0), (team.as_str(), 1)] {
        let at = format!("{}{bindings}", view(&org, cluster));
        let list = world
            .get(&format!("{at}?fieldSelector=metadata.name%3Dtabs"))
            .await
            .ok();
        assert_eq!(list["items"].as_array().unwrap().len(), found);
    }
    world
        .post(&format!("/clusters/{team}{TABS}"), tab("a"))
        .await
        .ok();
    let across = format!("{}{ACROSS}", view(&org, "*"));
    let list = world
        .get(&format!(
            "{across}?fieldSelector=metadata.namespace%3Ddefault"
        ))
        .await
        .ok();
    assert_eq!(list["items"], json!([]));
    let list = world
        .get(&format!("{across}?fieldSelector=metadata.name%3Da"))
        .await
        .ok();
    assert_eq!(list["items"].as_array().unwrap().len(), 1);
    let within = format!("{}{TABS}", view(&org, "*"));
    assert_eq!(world.get(&within).await.code, 400);
}

#[tokio::test]
async fn a_view_adds_the_labels_that_a_claim_asks_for_and_refuses_others() {
    let (world, org, team) = selected(json!({"matchLabels": {"for": "us"}})).await;
    let at = format!("{}{SECRETS}", view(&org, &team));
    let made = world
        .post(&at, json!({"metadata": {"name": "s"}}))
        .await
        .ok();
    assert_eq!(made["metadata"]["labels"]["for"], "us");
    let one = format!("{at}/s");
    let bare = json!({"metadata": {"labels": {"for": null}}});
    let now = world.patch(&one, bare).await.ok();
    assert_eq!(now["metadata"]["labels"]["for"], "us");
    let other = json!({"metadata": {"labels": {"for": "them"}}});
    world
        .patch(&one, other)
        .await
        .refused(403, "Forbidden", "them");
}

#[tokio::test]
async fn what_a_claim_does_not_cover_is_forbidden_rather_than_missing() {
    let (world, org, team) = selected(json!({"matchLabels": {"for": "us"}})).await;
    let own = format!("/clusters/{team}{SECRETS}");
    world
        .post(&own, json!({"metadata": {"name": "theirs"}}))
        .await
        .ok();
    let at = format!("{}{SECRETS}", view(&org, &team));
    assert_eq!(world.get(&format!("{at}/theirs")).await.code, 404);
    assert_eq!(world.delete(&format!("{at}/theirs")).await.code, 403);
    assert_eq!(world.delete(&format!("{at}/none")).await.code, 404);
    let none = json!({"spec": {"permissionClaims": []}});
    world
        .patch(&format!("/clusters/{org}{EXPORTS2}/tabs"), none)
        .await
        .ok();
    assert_eq!(world.get(&format!("{at}/theirs")).await.code, 403);
}

#[tokio::test(start_paused = true)]
async fn the_view_of_no_export_fails_in_words_and_its_watches_fall_silent() {
    let world = World::new();
    let (org, team) = world.bound(&json!([])).await;
    let across = format!("{}{ACROSS}", view(&org, "*"));
    let mut events = world.watch(&format!("{across}?watch=true")).await;
    world
        .delete(&format!("/clusters/{org}{EXPORTS}/tabs"))
        .await
        .ok();
    world
        .post(&format!("/clusters/{team}{TABS}"), tab("a"))
        .await
        .ok();
    let heard = tokio::time::timeout(Duration::from_mins(10), events.next());
    assert!(heard.await.is_err());
    for (owner, code) in [(org.as_str(), 500), ("root:org", 500), ("nowhere", 403)] {
        let at = format!("{}{ACROSS}", view(owner, "*"));
        let answer = world.raw(Method::GET, &at, "", &json!(null)).await;
        assert_eq!(answer.status, code, "{owner}");
        let plain = answer.headers.get(CONTENT_TYPE);
        assert_eq!(plain.is_some(), code == 500, "{owner}");
    }
}

#[tokio::test]
async fn every_namespace_has_the_certificate_of_the_server() {
    let (world, org, team) = selected(json!({"matchAll": true})).await;
    let maps = format!("{}/api/v1/configmaps", view(&org, "*"));
    let list = world.get(&maps).await.ok();
    let namespaces: Vec<&str> = list["items"]
        .as_array()
        .unwrap()
        .iter()
        .map(|item| item["metadata"]["namespace"].as_str().unwrap())
        .collect();
    assert_eq!(namespaces, ["default", "kube-system"]);
    let one = format!("/clusters/{team}/api/v1/namespaces/default/configmaps/kube-root-ca.crt");
    world.delete(&one).await.ok();
    let again = world.get(&one).await.ok();
    assert_eq!(again["data"]["ca.crt"], "certificate");
}

#[tokio::test]
async fn nothing_is_created_of_an_api_whose_binding_goes() {
    let world = World::new();
    let (_, team) = world.bound(&json!([])).await;
    let tabs = format!("/clusters/{team}{TABS}");
    let mut held = tab("held");
    held["metadata"]["finalizers"] = json!(["example.com/held"]);
    world.post(&tabs, held).await.ok();
    world
        .delete(&format!("/clusters/{team}{BINDINGS}/tabs"))
        .await
        .ok();
    let refused = world.post(&tabs, tab("late")).await;
    refused.refused(403, "Forbidden", "terminating");
}

#[tokio::test]
async fn an_object_that_is_applied_through_the_view_is_new_without_a_word() {
    let world = World::new();
    let (org, team) = world.bound(&json!([])).await;
    for (at, code) in [(view(&org, &team), 200), (format!("/clusters/{team}"), 201)] {
        let at = format!("{at}{TABS}/t{code}?fieldManager=m");
        let sent = tab(&format!("t{code}"));
        let answer = world
            .ask(Method::PATCH, &at, "application/apply-patch+yaml", sent)
            .await;
        assert_eq!(answer.code, code);
    }
}

#[tokio::test]
async fn discovery_of_the_view_is_as_kcp_has_it() {
    let (world, org, _) = selected(json!({"matchAll": true})).await;
    let at = view(&org, "*");
    let core = world.get(&format!("{at}/api/v1")).await.ok();
    assert_eq!(core.get("apiVersion"), None);
    assert_eq!(core["resources"][0]["name"], "configmaps");
    assert_eq!(core["resources"][0].get("shortNames"), None);
    let apis = world
        .get(&format!("{at}/apis/apis.kcp.io/v1alpha2"))
        .await
        .ok();
    let status: Vec<&Value> = apis["resources"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|one| one["name"] == "apibindings/status")
        .collect();
    assert_eq!(status.len(), 2);
    assert_eq!(status[0]["verbs"], Value::Null);
}

#[tokio::test]
async fn metadata_across_clusters_says_the_version_of_the_object() {
    let world = World::new();
    let (org, team) = world.bound(&json!([])).await;
    world
        .post(&format!("/clusters/{team}{TABS}"), tab("a"))
        .await
        .ok();
    let partial = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1";
    for (at, wanted) in [
        (
            format!("{}{ACROSS}", view(&org, "*")),
            json!("example.com/v1"),
        ),
        (format!("{}{TABS}", view(&org, &team)), Value::Null),
    ] {
        let sent = world.sent(Method::GET, &at, (ACCEPT, partial), &json!(null));
        let list = Answer::of(sent.await).ok();
        let annotations = &list["items"][0]["metadata"]["annotations"];
        assert_eq!(annotations["kcp.io/original-api-version"], wanted);
    }
}

#[tokio::test]
async fn what_belongs_to_the_server_is_refused_from_administrators() {
    let (world, org, team) = selected(json!({"matchAll": true})).await;
    let binding = format!("/clusters/{team}{BINDINGS2}/tabs");
    for selector in [
        json!({}),
        json!({"matchAll": true, "matchLabels": {"a": "b"}}),
    ] {
        let mut claims = world.get(&binding).await.ok()["spec"]["permissionClaims"].clone();
        claims[0]["selector"] = selector;
        let sent = json!({"spec": {"permissionClaims": claims}});
        assert_eq!(world.patch(&binding, sent).await.code, 403);
    }
    let workspaces = format!("/clusters/{org}{WORKSPACES}");
    world.post(&workspaces, workspace("brief")).await.ok();
    world.kcp.schedule();
    let one = format!("{workspaces}/brief");
    for (at, change) in [
        (
            format!("{one}/status"),
            json!({"status": {"phase": "Unavailable"}}),
        ),
        (one, json!({"spec": {"URL": "https://127.0.0.1/elsewhere"}})),
    ] {
        assert_eq!(world.patch(&at, change).await.code, 403);
    }
    let account = format!("/clusters/{team}/api/v1/namespaces/default/serviceaccounts/default");
    assert_eq!(world.get(&account).await.code, 200);
    let cluster = format!("/clusters/{team}/apis/core.kcp.io/v1alpha1/logicalclusters/cluster");
    let cluster = world.get(&cluster).await.ok();
    assert!(cluster["metadata"]["finalizers"].is_array());
    assert_eq!(
        condition(&cluster, "APIBindingsReconciled")["status"],
        "True"
    );
}

/// What a running kcp does otherwise, as the table in DIFFERENCES.md says, and that it still is otherwise here.
#[tokio::test]
async fn the_docs_have_what_differs_from_a_running_kcp() {
    let (world, org, team) = selected(json!({"matchAll": true})).await;
    let at = |path: &str| format!("/clusters/{team}{path}");
    let mut events = world.watch(&at("/api/v1/namespaces?watch=true")).await;
    let namespace = json!({"metadata": {"name": "brief"}});
    world.post(&at("/api/v1/namespaces"), namespace).await.ok();
    world.delete(&at("/api/v1/namespaces/brief")).await.ok();
    let mut told = Vec::new();
    while told.last().is_none_or(|last| *last != json!("DELETED")) {
        let event = events.next().await.unwrap();
        if event["object"]["metadata"]["name"] == "brief" {
            told.push(event["type"].clone());
        }
    }
    let bound = world.get(&at(&format!("{BINDINGS2}/tabs"))).await.ok();
    let none = json!({"spec": {"permissionClaims": []}});
    let withdrawn = world
        .patch(&at(&format!("{BINDINGS2}/tabs")), none)
        .await
        .ok();
    let secret = json!({"metadata": {"name": "s"}});
    let dry = world
        .post(&at(&format!("{SECRETS}?dryRun=All")), secret)
        .await
        .ok();
    let clusters = at("/apis/core.kcp.io/v1alpha1/logicalclusters/cluster");
    let workspaces = format!("/clusters/{org}{WORKSPACES}");
    world.post(&workspaces, workspace("brief")).await.ok();
    world.kcp.schedule();
    let home = world.get("/clusters/root/apis/tenancy.kcp.io/v1alpha1/workspaces/~");
    let home = home.await.code;
    world.delete(&format!("{workspaces}/brief")).await.ok();
    let rows = [
        (
            "a deleted namespace",
            "two `MODIFIED` events (`Terminating`), then `DELETED`",
            "`DELETED` alone",
            told == ["ADDED", "DELETED"],
        ),
        (
            "bindings in responses to writes",
            "without a status yet; withdrawn claims stay in `appliedPermissionClaims` for a moment",
            "settled",
            bound["status"]["appliedPermissionClaims"] != json!(null)
                && withdrawn["status"]["appliedPermissionClaims"]
                    .as_array()
                    .is_none_or(Vec::is_empty),
        ),
        (
            "a dry run of a create",
            "without `kcp.io/cluster`",
            "with it",
            dry["metadata"]["annotations"]["kcp.io/cluster"] == *team,
        ),
        (
            "discovery of a group version that is not served",
            "200, empty",
            "404",
            world.get(&at("/apis/none.example.com/v1")).await.code == 404,
        ),
        (
            "a workspace in deletion",
            "the label `tenancy.kcp.io/phase` lags behind, one event for each phase, gone after about 6 s",
            "gone with the deletion",
            world.get(&format!("{workspaces}/brief")).await.code == 404,
        ),
        (
            "the LogicalCluster",
            "has the annotation `resource-bindings`",
            "has none",
            world.get(&clusters).await.ok()["metadata"]["annotations"]["resource-bindings"]
                .is_null(),
        ),
        (
            "the initial namespaces of a workspace",
            "have the mark `create-only`",
            "do not have it",
            !world
                .get(&at("/api/v1/namespaces/default"))
                .await
                .ok()
                .to_string()
                .contains("create-only"),
        ),
        (
            "the home workspace `~` while it is created",
            "429 in plain text",
            "200: the first request creates it",
            home == 200,
        ),
    ];
    let docs = include_str!("../../../DIFFERENCES.md");
    let wrong: Vec<_> = rows
        .iter()
        .filter(|(what, kcp, here, still)| {
            !still || !docs.contains(&format!("| {what} | {kcp} | {here} |\n"))
        })
        .collect();
    assert!(wrong.is_empty(), "{wrong:#?} {home}");
}
