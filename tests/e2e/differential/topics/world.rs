//! What happens by itself: options of deletion, and garbage collection by owners.

use serde_json::{Value, json};

use super::super::step::{
    Condition, JSON, MERGE, Script, Topic, Until, ask, definition, delete, delete_with, done,
    events, get, install, patch, post, script, until, watch,
};

const MAPS: &str = "/api/v1/namespaces/$ns/configmaps";

pub(super) fn topic() -> Topic {
    Topic::new("world", options())
        .then(finalizers())
        .then(background())
        .then(foreground())
        .then(blocked())
        .then(orphans())
        .then(several())
        .then(absent())
        .then(scopes())
        .then(ring())
        .then(custom())
        .then(collections())
}

fn map(name: &str, metadata: Value) -> Value {
    let mut map = json!({"metadata": {"name": name}, "data": {"k": "v"}});
    for (field, value) in metadata.as_object().into_iter().flatten() {
        map["metadata"][field] = value.clone();
    }
    map
}

fn owned(name: &str, owners: &[(&str, bool)]) -> Value {
    let owners: Vec<Value> = owners
        .iter()
        .map(|(owner, blocks)| {
            let uid = format!("$uid({owner})");
            let mut reference =
                json!({"apiVersion": "v1", "kind": "ConfigMap", "name": owner, "uid": uid});
            if *blocks {
                reference["blockOwnerDeletion"] = true.into();
            }
            reference
        })
        .collect();
    map(name, json!({"ownerReferences": owners}))
}

fn one(name: &str) -> String {
    format!("{MAPS}/{name}")
}

fn gone(name: &str) -> Script {
    until(&one(name), Condition::Code(404)).into()
}

fn options() -> Script {
    let a = one("options");
    script![
        done(post(MAPS, map("options", json!({})))),
        delete_with(&a, json!({"propagationPolicy": "Sideways"})),
        delete_with(
            &a,
            json!({"propagationPolicy": "Orphan", "orphanDependents": true})
        ),
        delete_with(
            &a,
            json!({"propagationPolicy": "Sideways", "orphanDependents": true})
        ),
        delete_with(&a, json!({"dryRun": ["Some"]})),
        delete_with(
            &a,
            json!({"dryRun": ["All"], "propagationPolicy": "Foreground"})
        ),
        delete_with(&a, json!({"dryRun": ["All"]})),
        delete_with(
            &a,
            json!({"preconditions": {"uid": "00000000-0000-4000-8000-000000000000"}})
        ),
        delete_with(&a, json!({"preconditions": {"resourceVersion": "1"}})).free_text(),
        delete_with(
            &a,
            json!({"kind": "DeleteOptions", "apiVersion": "v1", "dryRun": ["All"]})
        ),
        delete_with(
            &a,
            json!({"kind": "DeleteOptions", "apiVersion": "meta.k8s.io/v1", "dryRun": ["All"]})
        ),
        delete_with(&a, json!({"kind": "ConfigMap", "apiVersion": "v1"})).free_text(),
        ask(http::Method::DELETE, &a, JSON, "[]").free_text(),
        ask(http::Method::DELETE, &a, JSON, "{").free_text(),
        ask(http::Method::DELETE, &a, "text/plain", "{}").free_text(),
        delete(&format!("{a}?propagationPolicy=Sideways")),
        delete(&format!(
            "{a}?propagationPolicy=Orphan&orphanDependents=true"
        )),
        delete(&format!("{a}?dryRun=Some")),
        delete(&format!("{a}?dryRun=All")),
        delete(&format!("{a}?dryRun=All&gracePeriodSeconds=5")),
        delete(&format!("{a}?gracePeriodSeconds=soon")).free_text(),
        delete_with(
            &format!("{a}?propagationPolicy=Sideways&dryRun=Some"),
            json!({"dryRun": ["All"], "propagationPolicy": "Background"}),
        ),
        delete_with(
            &a,
            json!({"gracePeriodSeconds": 0, "dryRun": ["All"], "unknown": "x"})
        ),
        get(&a),
        delete_with(
            &a,
            json!({"orphanDependents": false, "gracePeriodSeconds": 10})
        ),
        get(&a),
    ]
}

fn finalizers() -> Script {
    let held = json!({"finalizers": ["example.com/held"]});
    let a = one("fin");
    script![
        done(post(MAPS, map("fin", held.clone()))),
        delete_with(&a, json!({"propagationPolicy": "Foreground"})),
        until(
            &a,
            Condition::At("/metadata/finalizers", json!(["example.com/held"]))
        ),
        delete(&a),
        delete_with(&a, json!({"propagationPolicy": "Background"})),
        patch(
            &a,
            MERGE,
            json!({"metadata": {"finalizers": ["example.com/held", "foregroundDeletion"]}})
        ),
        patch(&a, MERGE, json!({"metadata": {"finalizers": null}})),
        get(&a),
        post(
            MAPS,
            map("said", json!({"finalizers": ["foregroundDeletion"]}))
        ),
        delete(&one("said")),
        gone("said"),
        post(
            MAPS,
            map(
                "said",
                json!({"finalizers": ["orphan", "foregroundDeletion"]})
            )
        )
        .keep("said"),
        delete(&one("said")),
        gone("said"),
    ]
}

fn background() -> Script {
    script![
        done(post(MAPS, map("b1", json!({}))).keep("b1")),
        done(post(MAPS, owned("b2", &[("b1", false)])).keep("b2")),
        done(post(MAPS, owned("b3", &[("b2", true)]))),
        delete(&one("b1")),
        gone("b2"),
        gone("b3"),
    ]
}

fn foreground() -> Script {
    script![
        done(post(MAPS, map("f1", json!({}))).keep("f1")),
        done(post(MAPS, owned("f2", &[("f1", true)]))),
        watch("f", &format!("{MAPS}?watch=true&resourceVersion=$rv(f1)")),
        delete_with(&one("f1"), json!({"propagationPolicy": "Foreground"})),
        gone("f2"),
        gone("f1"),
        events("f", Until::Seen("DELETED", "f1")),
    ]
}

fn blocked() -> Script {
    let held = json!({"metadata": {"finalizers": ["example.com/held"]}});
    script![
        done(post(MAPS, map("h1", json!({}))).keep("h1")),
        done(post(MAPS, owned("h2", &[("h1", true)]))),
        done(post(MAPS, owned("h3", &[("h1", false)]))),
        done(patch(&one("h2"), MERGE, held.clone())),
        done(patch(&one("h3"), MERGE, held)),
        delete_with(&one("h1"), json!({"propagationPolicy": "Foreground"})),
        until(
            &one("h2"),
            Condition::At("/metadata/deletionGracePeriodSeconds", json!(0))
        ),
        until(
            &one("h3"),
            Condition::At("/metadata/deletionGracePeriodSeconds", json!(0))
        ),
        get(&one("h1")),
        get(&one("h2")),
        done(patch(
            &one("h2"),
            MERGE,
            json!({"metadata": {"finalizers": null}})
        )),
        gone("h1"),
        get(&one("h3")),
        patch(&one("h3"), MERGE, json!({"metadata": {"finalizers": null}})),
    ]
}

fn orphans() -> Script {
    script![
        done(post(MAPS, map("o1", json!({}))).keep("o1")),
        done(post(MAPS, map("o2", json!({}))).keep("o2")),
        done(post(MAPS, owned("o3", &[("o1", true), ("o2", false)]))),
        done(post(MAPS, owned("o4", &[("o1", true)]))),
        // What a collector has not seen yet it cannot orphan.
        done(post(MAPS, owned("o5", &[("b1", false)]))),
        gone("o5"),
        delete_with(&one("o1"), json!({"propagationPolicy": "Orphan"})),
        gone("o1"),
        get(&one("o3")),
        get(&one("o4")),
        delete(&format!("{}?orphanDependents=true", one("o2"))),
        gone("o2"),
        get(&one("o3")),
    ]
}

fn several() -> Script {
    script![
        done(post(MAPS, map("s1", json!({}))).keep("s1")),
        done(post(MAPS, map("s2", json!({}))).keep("s2")),
        done(post(MAPS, owned("s3", &[("s1", true), ("s2", true)]))),
        delete_with(&one("s1"), json!({"propagationPolicy": "Foreground"})),
        gone("s1"),
        until(
            &one("s3"),
            Condition::Nothing("/metadata/ownerReferences/1")
        ),
        get(&one("s3")),
        delete(&one("s2")),
        gone("s3"),
    ]
}

fn absent() -> Script {
    let reference = |api_version: &str, kind: &str, name: &str, uid: &str| json!({"ownerReferences": [{"apiVersion": api_version, "kind": kind, "name": name, "uid": uid}]});
    let unknown = "00000000-0000-4000-8000-000000000001";
    script![
        done(post(MAPS, map("n1", json!({}))).keep("n1")),
        done(post(
            MAPS,
            map("impostor", reference("v1", "ConfigMap", "n1", unknown))
        )),
        gone("impostor"),
        done(post(
            MAPS,
            map("late", reference("v1", "Secret", "none", unknown))
        )),
        gone("late"),
        done(post(
            MAPS,
            map(
                "odd",
                reference("none.example.com/v1", "Thing", "x", unknown)
            )
        )),
        done(post(
            MAPS,
            map("last", reference("v1", "Secret", "none", unknown))
        )),
        gone("last"),
        get(&one("odd")),
        post(MAPS, map("bad", reference("", "", "", ""))),
        post(MAPS, map("bad", reference("v1", "Event", "e", unknown))),
        post(
            MAPS,
            map(
                "bad",
                json!({"ownerReferences": [
                    {"apiVersion": "v1", "kind": "ConfigMap", "name": "a", "uid": "1", "controller": true},
                    {"apiVersion": "v1", "kind": "ConfigMap", "name": "b", "uid": "2", "controller": true},
                ]})
            )
        )
        .free_text(),
        done(patch(
            &one("n1"),
            MERGE,
            json!({"metadata": reference("v1", "Secret", "none", unknown)})
        )),
        gone("n1"),
    ]
}

fn scopes() -> Script {
    let roles = "/apis/rbac.authorization.k8s.io/v1/clusterroles";
    let role = |name: &str, owners: Value| json!({"metadata": {"name": name, "labels": {"topic": "world"}, "ownerReferences": owners}, "rules": [{"verbs": ["get"], "apiGroups": [""], "resources": ["pods"]}]});
    let of = |key: &str, kind: &str, api_version: &str, name: &str| json!([{"apiVersion": api_version, "kind": kind, "name": name, "uid": format!("$uid({key})")}]);
    script![
        done(post(MAPS, map("c1", json!({}))).keep("c1")),
        done(post(roles, role("world-root", json!([]))).keep("root")),
        done(post(
            MAPS,
            map(
                "c2",
                json!({"ownerReferences": of("root", "ClusterRole", "rbac.authorization.k8s.io/v1", "world-root")})
            ),
        )),
        done(post(
            roles,
            role("world-leaf", of("c1", "ConfigMap", "v1", "c1"))
        )),
        // In another namespace the owner is none.
        done(post(
            "/api/v1/namespaces/default/configmaps",
            map(
                "world-far",
                json!({"ownerReferences": of("c1", "ConfigMap", "v1", "c1")})
            ),
        )),
        until(
            "/api/v1/namespaces/default/configmaps/world-far",
            Condition::Code(404)
        ),
        get(&one("c2")),
        get(&format!("{roles}/world-leaf")),
        delete(&format!("{roles}/world-root")),
        gone("c2"),
        delete(&one("c1")),
        done(post(MAPS, owned("c3", &[("b1", false)]))),
        gone("c3"),
        get(&format!("{roles}/world-leaf")),
        delete(&format!("{roles}/world-leaf")),
    ]
}

fn ring() -> Script {
    script![
        done(post(MAPS, map("r1", json!({}))).keep("r1")),
        done(post(MAPS, owned("r2", &[("r1", true)])).keep("r2")),
        done(patch(
            &one("r1"),
            MERGE,
            json!({"metadata": {"ownerReferences": [
                {"apiVersion": "v1", "kind": "ConfigMap", "name": "r2", "uid": "$uid(r2)", "blockOwnerDeletion": true}
            ]}})
        )),
        done(post(MAPS, owned("r3", &[("b1", false)]))),
        gone("r3"),
        delete_with(&one("r1"), json!({"propagationPolicy": "Foreground"})),
        gone("r1"),
        gone("r2"),
    ]
}

fn custom() -> Script {
    let sails = "/apis/$group/v1/namespaces/$ns/sails";
    let sail = |name: &str| json!({"apiVersion": "$group/v1", "kind": "Sail", "metadata": {"name": name}, "spec": {}});
    let of_sail = |key: &str, name: &str| json!({"ownerReferences": [{"apiVersion": "$group/v1", "kind": "Sail", "name": name, "uid": format!("$uid({key})"), "blockOwnerDeletion": true, "controller": true}]});
    script![
        install(definition(
            "sails",
            "Sail",
            json!({"spec": {"type": "object"}})
        )),
        post(sails, sail("main")).keep("main"),
        done(post(MAPS, map("x1", of_sail("main", "main")))),
        // The collector of a real cluster learns of new kinds every half minute.
        delete_with(
            &format!("{sails}/main"),
            json!({"propagationPolicy": "Background"})
        ),
        gone("x1"),
        post(sails, sail("jib")).keep("jib"),
        done(post(MAPS, map("x2", of_sail("jib", "jib")))),
        delete_with(
            &format!("{sails}/jib"),
            json!({"propagationPolicy": "Foreground"})
        ),
        gone("x2"),
        until(&format!("{sails}/jib"), Condition::Code(404)),
    ]
}

fn collections() -> Script {
    script![
        done(post(MAPS, map("d1", json!({"labels": {"of": "d"}}))).keep("d1")),
        done(post(MAPS, map("d2", json!({"labels": {"of": "d"}})))),
        done(post(MAPS, owned("d3", &[("d1", true)]))),
        delete_with(
            &format!("{MAPS}?labelSelector=of%3Dd"),
            json!({"propagationPolicy": "Sideways"})
        ),
        delete_with(
            &format!("{MAPS}?labelSelector=of%3Dd"),
            json!({"propagationPolicy": "Orphan"})
        )
        .settle(|body| {
            if let Some(metadata) = body["metadata"].as_object_mut() {
                metadata.remove("remainingItemCount");
            }
        }),
        gone("d1"),
        gone("d2"),
        get(&one("d3")),
    ]
}
