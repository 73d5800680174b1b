//! What becomes of objects whose owners go.

use std::collections::BTreeSet;

use super::*;
use crate::collect::Collector;

/// A plain cluster with a collector that works when it is told to.
struct Estate {
    ground: Ground,
    collector: Collector,
    unresolved: BTreeSet<crate::store::Key>,
}

impl Estate {
    fn new() -> Self {
        let ground = Ground::new();
        let collector = Collector::new(Arc::clone(&ground.store), Arc::clone(&ground.rest.scopes));
        Self {
            ground,
            collector,
            unresolved: BTreeSet::new(),
        }
    }

    fn collect(&mut self) {
        self.collector.collect(&mut self.unresolved);
    }

    async fn own(&self, name: &str, owners: &[Value]) -> Value {
        let mut sent = map(name);
        sent["metadata"]["ownerReferences"] = json!(owners);
        self.ground.post(MAPS, sent).await.ok()
    }

    async fn delete(&self, name: &str, policy: &str) -> Value {
        let target = format!("{MAPS}/{name}?propagationPolicy={policy}");
        self.ground.delete(&target).await.ok()
    }

    async fn left(&self) -> Vec<String> {
        let list = self.ground.get(MAPS).await.ok();
        names(&list).into_iter().map(str::to_owned).collect()
    }
}

fn owner(object: &Value) -> Value {
    json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "name": object["metadata"]["name"], "uid": object["metadata"]["uid"],
    })
}

fn blocking(object: &Value) -> Value {
    let mut owner = owner(object);
    owner["blockOwnerDeletion"] = true.into();
    owner
}

#[tokio::test]
async fn what_an_owner_leaves_goes_after_it_down_to_the_last() {
    let mut estate = Estate::new();
    let a = estate.own("a", &[]).await;
    let b = estate.own("b", &[owner(&a)]).await;
    estate.own("c", &[owner(&b)]).await;
    estate.own("d", &[]).await;
    estate.collect();
    assert_eq!(estate.left().await, ["a", "b", "c", "d"]);
    estate.delete("a", "Background").await;
    assert_eq!(estate.left().await, ["b", "c", "d"], "not with the answer");
    estate.collect();
    assert_eq!(estate.left().await, ["d"]);
}

#[tokio::test]
async fn in_the_foreground_watchers_see_the_owner_marked_then_dependents_go_then_the_owner() {
    let mut estate = Estate::new();
    let a = estate.own("a", &[]).await;
    estate.own("b", &[blocking(&a)]).await;
    let list = estate.ground.get(MAPS).await.ok();
    let watch = format!("{MAPS}?watch=true&resourceVersion={}", version(&list));
    let mut events = estate.ground.watch(&watch).await;
    let answer = estate.delete("a", "Foreground").await;
    assert_eq!(
        answer["metadata"]["finalizers"],
        json!(["foregroundDeletion"])
    );
    assert_ne!(answer["metadata"]["deletionTimestamp"], Value::Null);
    estate.collect();
    for (kind, name) in [("MODIFIED", "a"), ("DELETED", "b"), ("DELETED", "a")] {
        assert_eq!(events.brief().await, (kind.into(), name.into()));
    }
    events.is_silent();
}

#[tokio::test]
async fn a_dependent_that_something_holds_holds_its_owner_only_if_it_blocks_it() {
    for (blocks, left) in [(true, vec!["a", "b"]), (false, vec!["b"])] {
        let mut estate = Estate::new();
        let a = estate.own("a", &[]).await;
        let reference = if blocks { blocking(&a) } else { owner(&a) };
        estate.own("b", &[reference]).await;
        let held = json!({"metadata": {"finalizers": ["example.com/held"]}});
        let b = format!("{MAPS}/b");
        estate.ground.patch(&b, MERGE, held).await.ok();
        estate.delete("a", "Foreground").await;
        estate.collect();
        assert_eq!(estate.left().await, left, "blocks: {blocks}");
        let freed = json!({"metadata": {"finalizers": null}});
        estate.ground.patch(&b, MERGE, freed).await.ok();
        estate.collect();
        assert!(estate.left().await.is_empty());
    }
}

#[tokio::test]
async fn orphans_forget_their_owner_and_stay() {
    let mut estate = Estate::new();
    let a = estate.own("a", &[]).await;
    let other = estate.own("other", &[]).await;
    estate.own("b", &[owner(&a), owner(&other)]).await;
    estate.own("c", &[blocking(&a)]).await;
    let answer = estate.delete("a", "Orphan").await;
    assert_eq!(answer["metadata"]["finalizers"], json!(["orphan"]));
    estate.collect();
    assert_eq!(estate.left().await, ["b", "c", "other"]);
    let b = estate.ground.get(&format!("{MAPS}/b")).await.ok();
    assert_eq!(b["metadata"]["ownerReferences"], json!([owner(&other)]));
    let c = estate.ground.get(&format!("{MAPS}/c")).await.ok();
    assert_eq!(c["metadata"].get("ownerReferences"), None);
}

#[tokio::test]
async fn one_owner_that_stays_keeps_an_object_which_forgets_the_others() {
    let mut estate = Estate::new();
    let a = estate.own("a", &[]).await;
    let b = estate.own("b", &[]).await;
    estate.own("c", &[blocking(&a), owner(&b)]).await;
    estate.delete("a", "Foreground").await;
    estate.collect();
    assert_eq!(estate.left().await, ["b", "c"]);
    let c = estate.ground.get(&format!("{MAPS}/c")).await.ok();
    assert_eq!(c["metadata"]["ownerReferences"], json!([owner(&b)]));
}

#[tokio::test]
async fn an_owner_that_is_not_there_is_as_good_as_gone_if_its_kind_can_be_looked_for() {
    let mut estate = Estate::new();
    let a = estate.own("a", &[]).await;
    let mut impostor = owner(&a);
    impostor["uid"] = "00000000-0000-4000-8000-000000000000".into();
    estate.own("impostor", &[impostor]).await;
    let gone = json!({"apiVersion": "v1", "kind": "Secret", "name": "x", "uid": "1"});
    estate.own("late", &[gone]).await;
    let thing = json!({"apiVersion": "example.com/v1", "kind": "Thing", "name": "x", "uid": "2"});
    estate.own("unknown", &[thing]).await;
    estate.collect();
    assert_eq!(estate.left().await, ["a", "unknown"]);
    assert_eq!(estate.unresolved.len(), 1);
}

#[tokio::test]
async fn owners_are_in_the_namespace_of_what_they_own_or_in_none() {
    let mut estate = Estate::new();
    let namespaces = "/api/v1/namespaces";
    let away = json!({"metadata": {"name": "away"}});
    let away = estate.ground.post(namespaces, away).await.ok();
    let a = estate.own("a", &[]).await;
    let of_a_namespace = json!({
        "apiVersion": "v1", "kind": "Namespace", "name": "away", "uid": away["metadata"]["uid"],
    });
    estate.own("b", &[of_a_namespace]).await;
    let mut far = map("far");
    far["metadata"]["ownerReferences"] = json!([owner(&a)]);
    let there = "/api/v1/namespaces/away/configmaps";
    estate.ground.post(there, far).await.ok();
    let roles = "/apis/rbac.authorization.k8s.io/v1/clusterroles";
    let role = json!({"metadata": {"name": "r", "ownerReferences": [owner(&a)]}, "rules": []});
    estate.ground.post(roles, role).await.ok();
    estate.collect();
    assert!(names(&estate.ground.get(there).await.ok()).is_empty());
    assert_eq!(estate.left().await, ["a", "b"]);
    estate.delete("a", "").await;
    estate
        .ground
        .delete(&format!("{namespaces}/away"))
        .await
        .ok();
    estate.collect();
    assert!(estate.left().await.is_empty());
    let roles = estate.ground.get(roles).await.ok();
    assert_eq!(
        names(&roles),
        ["r"],
        "nothing in a namespace owns a role of all"
    );
}

#[tokio::test]
async fn owners_in_a_ring_do_not_wait_for_each_other() {
    let mut estate = Estate::new();
    let a = estate.own("a", &[]).await;
    let b = estate.own("b", &[blocking(&a)]).await;
    let ring = json!({"metadata": {"ownerReferences": [blocking(&b)]}});
    estate
        .ground
        .patch(&format!("{MAPS}/a"), MERGE, ring)
        .await
        .ok();
    estate.collect();
    assert_eq!(estate.left().await, ["a", "b"]);
    estate.delete("a", "Foreground").await;
    estate.collect();
    assert!(estate.left().await.is_empty());
}

#[tokio::test]
async fn custom_resources_that_go_with_their_definition_take_what_they_own_along() {
    let mut estate = Estate::new();
    estate.ground.post(CRDS, things()).await.ok();
    let thing = estate
        .ground
        .post(THINGS, thing("t", &json!({})))
        .await
        .ok();
    let mut reference = owner(&thing);
    reference["apiVersion"] = "example.com/v2".into();
    reference["kind"] = "Thing".into();
    estate.own("b", &[reference]).await;
    estate.collect();
    assert_eq!(estate.left().await, ["b"]);
    estate
        .ground
        .delete(&format!("{CRDS}/things.example.com"))
        .await
        .ok();
    estate.collect();
    assert!(estate.left().await.is_empty());
}

#[tokio::test]
async fn a_second_deletion_can_change_how_the_first_was_meant() {
    let mut estate = Estate::new();
    let a = estate.own("a", &[]).await;
    estate.own("b", &[blocking(&a)]).await;
    estate.delete("a", "Foreground").await;
    let again = estate.delete("a", "").await;
    assert_eq!(
        again["metadata"]["finalizers"],
        json!(["foregroundDeletion"])
    );
    let now = estate.delete("a", "Background").await;
    assert_eq!(now["status"], "Success");
    estate.collect();
    assert!(estate.left().await.is_empty());
}

#[tokio::test]
async fn options_that_contradict_each_other_are_refused() {
    let estate = Estate::new();
    estate.own("a", &[]).await;
    let target = format!("{MAPS}/a");
    for (query, body, code) in [
        (
            "?propagationPolicy=Orphan&orphanDependents=true",
            Value::Null,
            422,
        ),
        (
            "",
            json!({"propagationPolicy": "Orphan", "orphanDependents": false}),
            422,
        ),
        ("", json!({"propagationPolicy": "Sideways"}), 422),
        ("?uid=1", Value::Null, 409),
        (
            "?propagationPolicy=Sideways",
            json!({"propagationPolicy": "Orphan"}),
            200,
        ),
    ] {
        let target = format!("{target}{query}");
        let answer = estate
            .ground
            .ask(Method::DELETE, &target, "application/json", body.clone());
        assert_eq!(answer.await.code, code, "{query} {body}");
    }
}
