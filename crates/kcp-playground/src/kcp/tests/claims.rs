use super::*;

fn all(resource: &str) -> Value {
    json!({"group": "", "resource": resource, "all": true, "state": "Accepted"})
}

fn secret(name: &str) -> Value {
    json!({"metadata": {"name": name}})
}

/// Claim labels of an object.
fn labels(object: &Value) -> Vec<String> {
    let labels = object["metadata"]["labels"]
        .as_object()
        .into_iter()
        .flatten();
    labels
        .filter(|(key, _)| key.starts_with(ids::CLAIM_LABEL_PREFIX))
        .map(|(_, value)| value.as_str().unwrap().to_owned())
        .collect()
}

#[tokio::test]
async fn the_label_of_an_accepted_claim_is_in_the_same_write_as_the_object() {
    let world = World::new();
    let (_, team) = world.bound(&json!([all("secrets")])).await;
    let before = world.store.revision();
    let made = world
        .post(&format!("/clusters/{team}{SECRETS}"), secret("s"))
        .await
        .ok();
    assert_eq!(labels(&made), ["ctwrJRvMX7cX8wwk40Lz00UjJhYxPWE3TpN1lu"]);
    assert_eq!(world.store.revision(), before + 1);
    let stripped = json!({"metadata": {"labels": null}});
    let patched = world
        .patch(&format!("/clusters/{team}{SECRETS}/s"), stripped)
        .await
        .ok();
    assert_eq!(labels(&patched).len(), 1);
    let other = world
        .post(
            &format!("/clusters/{team}/api/v1/namespaces/default/configmaps"),
            secret("c"),
        )
        .await
        .ok();
    assert_eq!(labels(&other).len(), 0);
}

#[tokio::test]
async fn what_is_accepted_or_withdrawn_later_changes_what_is_there() {
    let world = World::new();
    let (org, team) = world.provider().await;
    let at = format!("/clusters/{team}{SECRETS}");
    let made = world.post(&at, secret("s")).await.ok();
    assert_eq!(labels(&made).len(), 0);
    world
        .post(
            &format!("/clusters/{team}{BINDINGS}"),
            binding("tabs", &org, &json!([all("secrets")])),
        )
        .await
        .ok();
    let labelled = world.get(&format!("{at}/s")).await.ok();
    assert_eq!(labels(&labelled).len(), 1);
    let binding_at = format!("/clusters/{team}{BINDINGS}/tabs");
    let mut rejected = world.get(&binding_at).await.ok();
    rejected["spec"]["permissionClaims"][0]["state"] = "Rejected".into();
    world.put(&binding_at, rejected).await.ok();
    assert_eq!(labels(&world.get(&format!("{at}/s")).await.ok()).len(), 0);
}

#[tokio::test]
async fn labels_that_a_user_invents_are_taken_off() {
    let world = World::new();
    let team = world.workspace("root", "org").await;
    let mut sent = secret("s");
    sent["metadata"]["labels"] = json!({"claimed.internal.apis.kcp.io/x": "y", "mine": "z"});
    let made = world
        .post(&format!("/clusters/{team}{SECRETS}"), sent)
        .await
        .ok();
    assert_eq!(made["metadata"]["labels"], json!({"mine": "z"}));
}

#[tokio::test]
async fn a_selector_of_the_newer_version_narrows_a_claim_and_can_be_changed() {
    let world = World::new();
    let (org, team) = world.provider().await;
    let claim = json!({
        "group": "", "resource": "secrets", "verbs": ["*"], "state": "Accepted",
        "selector": {"matchLabels": {"for": "us"}},
    });
    let sent = json!({
        "apiVersion": "apis.kcp.io/v1alpha2", "kind": "APIBinding", "metadata": {"name": "tabs"},
        "spec": {"reference": {"export": {"name": "tabs", "path": org}}, "permissionClaims": [claim]},
    });
    let made = world
        .post(&format!("/clusters/{team}{BINDINGS2}"), sent)
        .await
        .ok();
    let changed = json!({"spec": {"permissionClaims": [{
        "group": "", "resource": "secrets", "verbs": ["*"], "state": "Accepted", "selector": {"matchAll": true},
    }]}});
    assert_eq!(made["status"]["phase"], "Bound");
    let at = format!("/clusters/{team}{SECRETS}");
    assert_eq!(labels(&world.post(&at, secret("a")).await.ok()).len(), 0);
    let mut ours = secret("b");
    ours["metadata"]["labels"] = json!({"for": "us"});
    assert_eq!(labels(&world.post(&at, ours).await.ok()).len(), 1);
    let binding = format!("/clusters/{team}{BINDINGS2}/tabs");
    world.patch(&binding, changed).await.ok();
    let now = world.get(&format!("{at}/a")).await.ok();
    assert_eq!(labels(&now).len(), 1);
}

#[tokio::test]
async fn claims_that_are_not_exported_are_said_to_be_invalid_and_labelled_nevertheless() {
    let world = World::new();
    let (org, team) = world.bound(&json!([all("secrets")])).await;
    let at = format!("/clusters/{team}{BINDINGS}/tabs");
    let found = world.get(&at).await.ok();
    assert_eq!(
        condition(&found, "PermissionClaimsValid")["reason"],
        "InvalidPermissionClaims"
    );
    assert_eq!(found["status"].get("appliedPermissionClaims"), None);
    let claims =
        json!({"spec": {"permissionClaims": [{"group": "", "resource": "secrets", "all": true}]}});
    world
        .patch(&format!("/clusters/{org}{EXPORTS}/tabs"), claims)
        .await
        .ok();
    let found = world.get(&at).await.ok();
    assert_eq!(condition(&found, "PermissionClaimsValid")["status"], "True");
    assert_eq!(
        found["status"]["appliedPermissionClaims"][0]["resource"],
        "secrets"
    );
}

#[tokio::test]
async fn a_binding_is_labelled_for_its_own_export() {
    let world = World::new();
    let (org, team) = world.bound(&json!([])).await;
    let found = world
        .get(&format!("/clusters/{team}{BINDINGS}/tabs"))
        .await
        .ok();
    let key = ids::claim_label_key(&org, "tabs");
    assert_eq!(
        found["metadata"]["labels"][&key],
        ids::reflexive_claim_value()
    );
    assert_eq!(
        found["metadata"]["labels"][ids::EXPORT_LABEL],
        ids::export_hash(&org, "tabs")
    );
}

#[tokio::test]
async fn an_export_that_is_gone_claims_nothing_until_it_is_back() {
    let world = World::new();
    let (org, team) = world.bound(&json!([all("secrets")])).await;
    let at = format!("/clusters/{team}{SECRETS}");
    world.post(&at, secret("s")).await.ok();
    world
        .delete(&format!("/clusters/{org}{EXPORTS}/tabs"))
        .await
        .ok();
    assert_eq!(labels(&world.get(&format!("{at}/s")).await.ok()).len(), 0);
    assert_eq!(labels(&world.post(&at, secret("t")).await.ok()).len(), 0);
    world
        .post(
            &format!("/clusters/{org}{EXPORTS}"),
            export("tabs", &["v1"]),
        )
        .await
        .ok();
    for name in ["s", "t"] {
        let found = world.get(&format!("{at}/{name}")).await.ok();
        assert_eq!(labels(&found).len(), 1, "{name}");
    }
}
