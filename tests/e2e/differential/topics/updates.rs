//! What is told of updates and patches that are wrong, cause by cause and kind by kind; and what of an
//! update counts although it looks like nothing.

use serde_json::{Value, json};

use super::super::step::{
    APPLY, Ask, MERGE, PATCH, STRATEGIC, Script, Topic, definition, delete, delete_with, done, get,
    install, patch, post, put, script,
};

const SKIFFS: &str = "/apis/$group/v1/namespaces/$ns/skiffs";
const SKIFF: &str = "/apis/$group/v1/namespaces/$ns/skiffs/a";

pub(super) fn topic() -> Topic {
    let free = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    let properties = json!({"spec": free, "status": free});
    Topic::new(
        "updates",
        install(definition("skiffs", "Skiff", properties)),
    )
    .then(causes())
    .then(custom())
    .then(namespaces())
    .then(pages())
    .then(typed())
}

fn skiff(metadata: Value) -> Value {
    json!({"apiVersion": "$group/v1", "kind": "Skiff", "metadata": metadata, "spec": {"a": 1, "o": {}}})
}

/// One object of each kind, by its collection.
fn kinds() -> Vec<(String, Value)> {
    let role = json!({"roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "x"}});
    let event = json!({"involvedObject": {"kind": "Pod", "namespace": "$ns", "name": "p"}, "reason": "R", "type": "Normal"});
    [
        ("/api/v1", "configmaps", json!({})),
        ("/api/v1", "secrets", json!({})),
        ("/api/v1", "serviceaccounts", json!({})),
        ("/api/v1", "resourcequotas", json!({})),
        ("/api/v1", "events", event),
        ("/apis/rbac.authorization.k8s.io/v1", "roles", json!({})),
        ("/apis/rbac.authorization.k8s.io/v1", "rolebindings", role),
        ("/apis/coordination.k8s.io/v1", "leases", json!({})),
        ("/apis/$group/v1", "skiffs", skiff(json!({}))),
    ]
    .into_iter()
    .map(|(version, plural, object)| (format!("{version}/namespaces/$ns/{plural}"), object))
    .collect()
}

/// How often one thing is told.
fn causes() -> Script {
    let mut script = Script::default();
    for (all, mut object) in kinds() {
        object["metadata"] = json!({"name": "told"});
        let dry = format!("{all}/told?dryRun=All");
        script.push(done(post(&all, object.clone())));
        for metadata in [
            json!({"labels": {"a": "b!"}}),
            json!({"annotations": {"a b": "c"}}),
            json!({"ownerReferences": [{"apiVersion": "v1", "kind": "X", "name": "", "uid": "u"}]}),
            json!({"finalizers": ["nobodys"]}),
            json!({"uid": "other"}),
            json!({"deletionTimestamp": "2001-01-01T00:00:00Z"}),
            json!({"labels": {"a": "b!"}, "annotations": {"a b": "c"}}),
        ] {
            let mut named = metadata.clone();
            named["name"] = json!("new");
            object["metadata"] = named;
            // A time that is in the past for some is no news.
            if metadata.get("uid").is_none() && metadata.get("deletionTimestamp").is_none() {
                script.push(post(&format!("{all}?dryRun=All"), object.clone()));
            }
            script.push(patch(&dry, MERGE, json!({"metadata": metadata})));
        }
    }
    script
}

/// What a patch may make of a custom object.
fn custom() -> Script {
    let merge = |body: Value| patch(SKIFF, MERGE, body);
    let status = |body: Value| patch(&format!("{SKIFF}/status"), MERGE, body);
    let operate = |operations: Value| patch(SKIFF, PATCH, operations);
    let whole = |metadata: Value| put(&format!("{SKIFF}?fieldManager=whole"), skiff(metadata));
    script![
        post(
            SKIFFS,
            skiff(json!({"name": "a", "finalizers": ["mine", "orphan"]}))
        ),
        merge(json!({"metadata": {"resourceVersion": null}})),
        merge(json!({"metadata": {"resourceVersion": "0"}})),
        status(json!({"metadata": {"resourceVersion": null}})),
        status(json!({"metadata": {"uid": "z"}, "status": {"a": 1}})),
        status(json!({"metadata": {"finalizers": ["x"]}, "status": {"a": 2}})),
        operate(json!([{"op": "remove", "path": "/metadata/resourceVersion"}])),
        merge(json!({"metadata": {"finalizers": ["mine", "yours", "e.com/x", "kubernetes"]}})),
        merge(json!({"metadata": {"finalizers": null}})),
        merge(json!({"apiVersion": "other.com/v1", "kind": "Ship"})),
        merge(json!({"apiVersion": "other.com/v1"})),
        merge(json!({"apiVersion": null})),
        merge(json!({"kind": null})).free_text(),
        merge(json!({"metadata": {"labels": []}})).free_text(),
        operate(json!([{"op": "copy", "from": "/spec/none", "path": "/spec/s"}])),
        operate(json!([{"op": "copy", "from": "/spec/none/x", "path": "/spec/s"}])),
        operate(
            json!([{"op": "copy", "from": "/metadata/labels", "path": "/metadata/annotations"}])
        ),
        // Who owns what is not forgotten by an empty list, and by an empty entry it is.
        merge(json!({"metadata": {"managedFields": []}})).owned(),
        get(SKIFF).keep("a").owned(),
        whole(json!({"name": "a", "resourceVersion": "$rv(a)", "managedFields": []}))
            .keep("a")
            .owned(),
        whole(json!({"name": "a", "resourceVersion": "$rv(a)", "managedFields": [{}]})).owned(),
        patch(
            &format!("{SKIFFS}/b?fieldManager=m"),
            APPLY,
            skiff(json!({"name": "b", "finalizers": ["x"]}))
        ),
        delete_with(SKIFF, json!({"preconditions": {"uid": "other"}})),
    ]
}

fn namespaces() -> Script {
    let one = "/api/v1/namespaces/$ns-more";
    let all = "/api/v1/namespaces";
    let status = |body: Value| patch(&format!("{one}/status"), MERGE, body);
    script![
        post(
            all,
            json!({"metadata": {"name": "$ns-bad"}, "spec": {"finalizers": ["bad", "a b"]}})
        ),
        post(all, json!({"metadata": {"name": "$ns-more"}})),
        status(json!({"status": {"phase": "Terminating"}})),
        status(json!({"status": {"phase": "Resting"}})),
        status(json!({"status": {"phase": "Active"}})),
        put(
            &format!("{one}/finalize"),
            json!({"metadata": {"name": "$ns-more"}, "spec": {"finalizers": ["bad"]}})
        ),
        delete_with(one, json!({"preconditions": {"uid": "other"}})),
        delete_with(one, json!({"preconditions": {"resourceVersion": "1"}})).free_text(),
    ]
}

/// Tokens that nobody gave, and the order of what is in several namespaces.
fn pages() -> Script {
    let (one, two) = ("/api/v1/namespaces/$ns-1", "/api/v1/namespaces/$ns-1-2");
    let named = |name: &str| json!({"metadata": {"name": name}});
    let sorted = "/api/v1/configmaps?labelSelector=order%3D$ns";
    let page = |token: &str| get(&format!("{SKIFFS}?limit=1&continue={token}"));
    script![
        done(post("/api/v1/namespaces", named("$ns-1"))),
        done(post("/api/v1/namespaces", named("$ns-1-2"))),
        done(post(
            &format!("{one}/configmaps"),
            json!({"metadata": {"name": "a", "labels": {"order": "$ns"}}})
        )),
        done(post(
            &format!("{two}/configmaps"),
            json!({"metadata": {"name": "a", "labels": {"order": "$ns"}}})
        )),
        get(sorted),
        get(&format!("{sorted}&limit=1")).keep("page"),
        get(&format!("{sorted}&limit=1&continue=$continue(page)")),
        page("aQ"),
        page("!"),
        // {"v":"meta.k8s.io/v2","rv":1,"start":"a"}, without a revision, without a start, out of the range
        page("eyJ2IjoibWV0YS5rOHMuaW8vdjIiLCJydiI6MSwic3RhcnQiOiJhIn0"),
        page("eyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJydiI6MCwic3RhcnQiOiJhIn0"),
        page("eyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJydiI6MSwic3RhcnQiOiIifQ"),
        page("eyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJydiI6MSwic3RhcnQiOiIuLi9hIn0"),
        // {"v":"meta.k8s.io/v1","rv":-1,"start":"b"}: what is there now, from there on
        page("eyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJydiI6LTEsInN0YXJ0IjoiYiJ9"),
        delete(one).settle(going),
        delete(two).settle(going),
    ]
}

/// What controllers do to a namespace in the meantime.
fn going(body: &mut Value) {
    body["status"] = json!("…");
    body["spec"] = json!("…");
}

fn typed() -> Script {
    let map = "/api/v1/namespaces/$ns/configmaps/told";
    let rbac = "/apis/rbac.authorization.k8s.io/v1/namespaces/$ns";
    let binding = |name: &str, role: Value| -> Ask {
        post(
            &format!("{rbac}/rolebindings?dryRun=All"),
            json!({"metadata": {"name": name}, "roleRef": role}),
        )
    };
    script![
        patch(
            map,
            STRATEGIC,
            json!({"kind": "Secret", "apiVersion": "v2"})
        ),
        patch(map, STRATEGIC, json!({"kind": null})),
        binding("none", json!({})),
        binding("slash", json!({"kind": "Role", "name": "a/b"})),
        patch(
            &format!("{rbac}/rolebindings/told"),
            MERGE,
            json!({"roleRef": {"name": "other"}})
        ),
        post(
            &format!("{rbac}/roles?dryRun=All"),
            json!({"metadata": {"name": "urls"}, "rules": [
                {"verbs": ["get"], "apiGroups": [""], "resources": ["pods"], "nonResourceURLs": ["/x"]},
            ]})
        ),
        post(
            "/apis/coordination.k8s.io/v1/namespaces/$ns/leases?dryRun=All",
            json!({"metadata": {"name": "zone"}, "spec": {"renewTime": "2020-01-01T01:00:00.000001+01:00", "strategy": "x"}})
        ),
    ]
}
