//! What both servers are asked.

use std::time::Duration;

use anyhow::{Result, ensure};
use http::{Method, Request};
use kube::Client;
use serde_json::{Value, json};

use testbed::eventually;

use super::Ask;

const JSON: &str = "application/json";
const MERGE: &str = "application/merge-patch+json";
const PATCH: &str = "application/json-patch+json";
const STRATEGIC: &str = "application/strategic-merge-patch+json";

/// Differences that are meant, by a part of their request, with the reason.
pub(super) const TOLERATED: &[(&str, &str)] = &[
    ("GET /api ", "no address by the client's network is told"),
    (
        "none.example.com",
        "an unknown group is a Status, not a page of text",
    ),
    ("\"Bad_\"", "the generated name is another one each time"),
    ("bad finalizer!", "told once, by the field"),
    (
        "POST /api/v1/namespaces/$ns/configmaps application/json \"null\"",
        "null is no object",
    ),
    (
        "\"$patch\":\"bad\"",
        "an unknown directive is refused, not ignored",
    ),
    ("longlong", "the names of events are held to 253 characters"),
    (
        "\"involvedObject\":{\"namespace\":\"diff\"},\"metadata\":{\"name\":\"long",
        "the same",
    ),
    (
        "GET /apis/events.k8s.io/v1/namespaces/$ns/events/a",
        "empty reporters are shown in both views",
    ),
    (
        "POST /apis/events.k8s.io/v1",
        "the details name the group of the address",
    ),
    (
        "\"versions\":[]",
        "what has no version is not told of its stored ones",
    ),
    (
        "customresourcedefinitions application/json",
        "definitions are settled with the write: finalizer and conditions are there; stored versions are no second complaint",
    ),
    (
        "{\"spec\":{\"group\":\"other.com\"}}",
        "the name is compared with the group that was sent",
    ),
    (
        "DELETE /api/v1/namespaces/$ns ",
        "the content is dealt with before the answer",
    ),
    (
        "configmaps/held",
        "the content is dealt with before the answer",
    ),
];

fn ask(method: Method, path: &str, media_type: &'static str, body: Value) -> Ask {
    Ask {
        method,
        path: path.to_owned(),
        media_type,
        body,
        keep: None,
    }
}

fn get(path: &str) -> Ask {
    ask(Method::GET, path, JSON, Value::Null)
}

fn post(path: &str, body: Value) -> Ask {
    ask(Method::POST, path, JSON, body)
}

fn put(path: &str, body: Value) -> Ask {
    ask(Method::PUT, path, JSON, body)
}

fn patch(path: &str, media_type: &'static str, body: Value) -> Ask {
    ask(Method::PATCH, path, media_type, body)
}

fn delete(path: &str) -> Ask {
    ask(Method::DELETE, path, JSON, Value::Null)
}

fn kept(mut ask: Ask, key: &'static str) -> Ask {
    ask.keep = Some(key);
    ask
}

/// `await PATH POINTER VALUE`, or `await PATH gone`.
pub(super) async fn awaited(client: &Client, words: &str) -> Result<()> {
    let words: Vec<&str> = words.split(' ').collect();
    let path = words[1].replace("$ns", "diff");
    eventually(Duration::from_mins(1), &path, async || {
        let request = Request::get(&path).body(kube::client::Body::empty())?;
        let response = client.send(request).await?;
        let code = response.status().as_u16();
        let bytes = response.into_body().collect_bytes().await?;
        let body: Value = serde_json::from_slice(&bytes).unwrap_or_default();
        let done = match words[2] {
            "gone" => code == 404,
            "served" => code == 200,
            pointer => body.pointer(pointer).and_then(Value::as_str) == Some(words[3]),
        };
        ensure!(done, "{words:?}: {code}");
        Ok(())
    })
    .await;
    Ok(())
}

fn crd() -> Value {
    let schema = json!({
        "type": "object",
        "properties": {
            "spec": {
                "type": "object", "required": ["masts"],
                "properties": {
                    "masts": {"type": "integer", "minimum": 0, "maximum": 5},
                    "rig": {"type": "string", "default": "sloop", "enum": ["sloop", "ketch"]},
                    "crew": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string", "maxLength": 3}},
                    "ports": {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"],
                        "items": {"type": "object", "required": ["name"], "properties": {"name": {"type": "string"}, "n": {"type": "integer"}}}},
                    "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
                    "any": {"x-kubernetes-int-or-string": true},
                    "opt": {"type": "string", "nullable": true},
                    "when": {"type": "string", "format": "date-time"},
                    "named": {"type": "string", "pattern": "^[a-z]+$"},
                },
            },
            "status": {"type": "object", "properties": {"afloat": {"type": "boolean"}}},
        },
    });
    let version = |name: &str, storage: bool| json!({"name": name, "served": true, "storage": storage, "subresources": {"status": {}}, "schema": {"openAPIV3Schema": schema}});
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "boats.diff.example.com"},
        "spec": {
            "group": "diff.example.com", "scope": "Namespaced",
            "names": {"plural": "boats", "kind": "Boat", "shortNames": ["bt"]},
            "versions": [version("v1", true), version("v1beta1", false)],
        },
    })
}

#[expect(clippy::needless_pass_by_value, reason = "the script reads better so")]
fn boat(name: &str, spec: Value) -> Value {
    json!({"apiVersion": "diff.example.com/v1", "kind": "Boat", "metadata": {"name": name}, "spec": spec})
}

/// All of it, in order.
pub(super) fn asks() -> Vec<Ask> {
    let mut all = vec![
        post(
            "/api/v1/namespaces",
            json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "diff"}}),
        ),
        post(
            "/api/v1/namespaces",
            json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "diff"}}),
        ),
        post(
            "/api/v1/namespaces",
            json!({"metadata": {"name": "Bad_Name"}}),
        ),
        post(
            "/api/v1/namespaces",
            json!({"metadata": {"name": "a".repeat(64)}}),
        ),
        get("/api/v1/namespaces/missing"),
        delete("/api/v1/namespaces/default"),
        delete("/api/v1/namespaces"),
    ];
    all.extend(paths());
    all.extend(config_maps());
    all.extend(secrets());
    all.extend(rbac());
    all.extend(events());
    all.extend(definitions());
    all.extend(boats());
    all.extend(namespaces());
    all
}

fn paths() -> Vec<Ask> {
    let maps = "/api/v1/namespaces/$ns/configmaps";
    vec![
        get("/api"),
        get("/apis/none.example.com"),
        get("/apis/none.example.com/v1"),
        get("/apis/none.example.com/v1/things"),
        get("/api/v1/nothings"),
        get("/api/v1/namespaces/$ns/nothings"),
        get("/apis/rbac.authorization.k8s.io/v1/namespaces/$ns/clusterroles"),
        get("/api/v1/configmaps/x"),
        post("/api/v1/configmaps", json!({})),
        put(maps, json!({})),
        post(&format!("{maps}/x"), json!({})),
        patch(maps, MERGE, json!({})),
        delete("/api/v1/configmaps"),
        get(&format!("{maps}/x/status")),
        get(&format!("{maps}?labelSelector=a%20b")),
        get(&format!("{maps}?fieldSelector=data.x%3Dy")),
        get(&format!("{maps}?fieldSelector=x")),
        get(&format!("{maps}?limit=-1")),
        get(&format!("{maps}?limit=x")),
        get(&format!("{maps}?resourceVersion=abc")),
        get(&format!("{maps}?resourceVersionMatch=Exact")),
        get(&format!(
            "{maps}?resourceVersionMatch=Exact&resourceVersion=0"
        )),
        get(&format!(
            "{maps}?resourceVersionMatch=Bad&resourceVersion=1"
        )),
        get(&format!("{maps}?continue=nonsense")),
        get(&format!(
            "{maps}?watch=true&timeoutSeconds=1&sendInitialEvents=true"
        )),
        get(&format!(
            "{maps}?watch=true&timeoutSeconds=1&resourceVersionMatch=NotOlderThan"
        )),
    ]
}

fn config_maps() -> Vec<Ask> {
    let maps = "/api/v1/namespaces/$ns/configmaps";
    let one = "/api/v1/namespaces/$ns/configmaps/a";
    let map = |name: &str| json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"k": "v"}});
    vec![
        get(one),
        kept(post(maps, map("a")), "a"),
        post(maps, map("a")),
        post(
            maps,
            json!({"metadata": {"name": "untyped"}, "data": {"k": "v"}}),
        ),
        post(
            maps,
            json!({"kind": "Secret", "apiVersion": "v1", "metadata": {"name": "b"}}),
        ),
        post(
            maps,
            json!({"kind": "ConfigMap", "apiVersion": "v2", "metadata": {"name": "b"}}),
        ),
        post(
            maps,
            json!({"metadata": {"name": "b", "namespace": "other"}}),
        ),
        post(maps, json!({"metadata": {}})),
        post(maps, json!({"metadata": {"generateName": "Bad_"}})),
        post(
            maps,
            json!({"metadata": {"name": "b", "labels": {"bad key!": "v"}}}),
        ),
        post(
            maps,
            json!({"metadata": {"name": "b", "labels": {"k": "bad value!"}}}),
        ),
        post(
            maps,
            json!({"metadata": {"name": "b", "annotations": {"bad key!": "v"}}}),
        ),
        post(
            maps,
            json!({"metadata": {"name": "b", "finalizers": ["bad finalizer!"]}}),
        ),
        post(
            maps,
            json!({"metadata": {"name": "b", "ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": "p"}]}}),
        ),
        post(
            maps,
            json!({"metadata": {"name": "b"}, "data": {"bad key!": "v"}}),
        ),
        post(maps, json!({"metadata": {"name": "b"}, "data": {"k": 1}})),
        post(
            maps,
            json!({"metadata": {"name": "b"}, "data": {"k": "v"}, "binaryData": {"k": "AA=="}}),
        ),
        post(
            maps,
            json!({"metadata": {"name": "b"}, "binaryData": {"k": "!"}}),
        ),
        post(
            maps,
            json!({"metadata": {"name": "b", "resourceVersion": "5"}}),
        ),
        post(maps, json!("{")),
        post(maps, json!("[]")),
        post(maps, json!("null")),
        post(maps, json!("")),
        ask(Method::POST, maps, "text/plain", map("b")),
        post(&format!("{maps}?dryRun=All"), map("dry")),
        post(&format!("{maps}?dryRun=Some"), map("dry")),
        post(
            &format!("{maps}?fieldValidation=Strict"),
            json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "strict"}, "unknown": 1}),
        ),
        post(
            &format!("{maps}?fieldValidation=Strict"),
            json!("{\"metadata\":{\"name\":\"strict\"},\"data\":{\"a\":\"1\",\"a\":\"2\"}}"),
        ),
        post(&format!("{maps}?fieldValidation=Maybe"), map("strict")),
        post("/api/v1/namespaces/missing/configmaps", map("a")),
        put(one, json!({"metadata": {"name": "a"}, "data": {"k": "w"}})),
        put(
            one,
            json!({"metadata": {"name": "a", "resourceVersion": "$rv(a)"}, "data": {"k": "x"}}),
        ),
        put(one, json!({"metadata": {"name": "a", "uid": "other"}})),
        put(one, json!({"metadata": {"name": "b"}})),
        put(one, json!({"metadata": {}})),
        put(
            one,
            json!({"metadata": {"name": "a", "namespace": "other"}}),
        ),
        put(&format!("{maps}/missing"), map("missing")),
        patch(one, MERGE, json!({"data": {"k": null, "l": "m"}})),
        patch(one, MERGE, json!({"metadata": {"name": "b"}})),
        patch(one, MERGE, json!({"metadata": {"uid": "other"}})),
        patch(one, MERGE, json!({"metadata": {"resourceVersion": "1"}})),
        patch(one, MERGE, json!({"metadata": {"namespace": "other"}})),
        patch(one, MERGE, json!({"kind": "Secret"})),
        patch(one, MERGE, json!("[")),
        patch(one, MERGE, json!("[]")),
        patch(one, MERGE, json!({"data": {"k": 7}})),
        patch(
            one,
            PATCH,
            json!([{"op": "add", "path": "/data/x", "value": "y"}]),
        ),
        patch(
            one,
            PATCH,
            json!([{"op": "test", "path": "/data/x", "value": "z"}]),
        ),
        patch(one, PATCH, json!([{"op": "remove", "path": "/data/none"}])),
        patch(one, PATCH, json!([{"op": "bad", "path": "/data/none"}])),
        patch(one, PATCH, json!({"op": "add"})),
        patch(
            one,
            STRATEGIC,
            json!({"metadata": {"finalizers": ["e.com/a", "e.com/b"]}}),
        ),
        patch(
            one,
            STRATEGIC,
            json!({"metadata": {"$deleteFromPrimitiveList/finalizers": ["e.com/a"]}}),
        ),
        patch(
            one,
            STRATEGIC,
            json!({"data": {"$patch": "replace", "only": "this"}}),
        ),
        patch(
            one,
            STRATEGIC,
            json!({"metadata": {"ownerReferences": [{"$patch": "bad"}]}}),
        ),
        patch(one, "application/unknown", json!({})),
        patch(&format!("{maps}/missing"), MERGE, json!({})),
        ask(
            Method::DELETE,
            one,
            JSON,
            json!({"preconditions": {"uid": "other"}}),
        ),
        ask(
            Method::DELETE,
            one,
            JSON,
            json!({"preconditions": {"resourceVersion": "1"}}),
        ),
        ask(Method::DELETE, one, JSON, json!({"kind": "Pod"})),
        ask(
            Method::DELETE,
            one,
            JSON,
            json!({"propagationPolicy": "Sideways"}),
        ),
        ask(Method::DELETE, one, JSON, json!({"dryRun": ["All"]})),
        ask(Method::DELETE, one, JSON, json!({"dryRun": ["Some"]})),
        delete(one),
        delete(one),
        post(maps, map("a")),
        patch(
            one,
            MERGE,
            json!({"metadata": {"finalizers": ["e.com/b", "e.com/c"]}}),
        ),
        patch(one, MERGE, json!({"metadata": {"deletionTimestamp": null}})),
        put(one, json!({"metadata": {"name": "a", "finalizers": []}})),
        get(one),
        delete(&format!("{maps}/missing")),
        delete(&format!("{maps}/untyped")),
        post(
            maps,
            json!({"metadata": {"name": "sealed"}, "immutable": true, "data": {"k": "v"}}),
        ),
        patch(
            &format!("{maps}/sealed"),
            MERGE,
            json!({"data": {"k": "w"}}),
        ),
        patch(
            &format!("{maps}/sealed"),
            MERGE,
            json!({"immutable": false}),
        ),
        get(&format!("{maps}?fieldSelector=metadata.name%3Dsealed")),
        delete(&format!("{maps}?fieldSelector=metadata.name%3Dsealed")),
    ]
}

fn secrets() -> Vec<Ask> {
    let secrets = "/api/v1/namespaces/$ns/secrets";
    let secret = |name: &str, more: Value| {
        let mut secret = json!({"metadata": {"name": name}});
        for (key, value) in more.as_object().into_iter().flatten() {
            secret[key] = value.clone();
        }
        secret
    };
    vec![
        post(
            secrets,
            secret(
                "a",
                json!({"stringData": {"k": "v"}, "data": {"k": "AAAA", "l": "AAAA"}}),
            ),
        ),
        patch(&format!("{secrets}/a"), MERGE, json!({"type": "Other"})),
        post(secrets, secret("b", json!({"data": {"k": "not base64!"}}))),
        post(secrets, secret("b", json!({"data": {"k": 1}}))),
        post(secrets, secret("b", json!({"type": "kubernetes.io/tls"}))),
        post(
            secrets,
            secret(
                "b",
                json!({"type": "kubernetes.io/dockerconfigjson", "stringData": {".dockerconfigjson": "x"}}),
            ),
        ),
        post(
            secrets,
            secret("b", json!({"type": "kubernetes.io/basic-auth"})),
        ),
        post(
            secrets,
            secret("b", json!({"type": "kubernetes.io/ssh-auth"})),
        ),
        post(
            secrets,
            secret("b", json!({"type": "kubernetes.io/service-account-token"})),
        ),
        get(&format!("{secrets}?fieldSelector=type%3DOpaque")),
    ]
}

fn rbac() -> Vec<Ask> {
    let roles = "/apis/rbac.authorization.k8s.io/v1/namespaces/$ns/roles";
    let bindings = "/apis/rbac.authorization.k8s.io/v1/namespaces/$ns/rolebindings";
    vec![
        post(
            roles,
            json!({"metadata": {"name": "a:b"}, "rules": [{"verbs": ["get"], "apiGroups": [""], "resources": ["pods"]}]}),
        ),
        post(
            roles,
            json!({"metadata": {"name": "bad"}, "rules": [{"verbs": [], "apiGroups": [""], "resources": ["pods"]}]}),
        ),
        post(
            roles,
            json!({"metadata": {"name": "bad"}, "rules": [{"verbs": ["get"], "nonResourceURLs": ["/x"]}]}),
        ),
        post(roles, json!({"metadata": {"name": "a/b"}})),
        post(
            bindings,
            json!({"metadata": {"name": "a"}, "roleRef": {"kind": "Role", "name": "a:b"}, "subjects": [{"kind": "User", "name": "u"}, {"kind": "Group", "name": "g"}, {"kind": "ServiceAccount", "name": "s", "namespace": "n"}]}),
        ),
        post(
            bindings,
            json!({"metadata": {"name": "bad"}, "roleRef": {"kind": "Other", "name": "x"}}),
        ),
        post(
            bindings,
            json!({"metadata": {"name": "bad"}, "roleRef": {"kind": "Role", "name": "a:b"}, "subjects": [{"kind": "ServiceAccount", "name": "s"}]}),
        ),
        patch(
            &format!("{bindings}/a"),
            MERGE,
            json!({"roleRef": {"name": "other"}}),
        ),
    ]
}

fn events() -> Vec<Ask> {
    let core = "/api/v1/namespaces/$ns/events";
    let view = "/apis/events.k8s.io/v1/namespaces/$ns/events";
    vec![
        post(
            core,
            json!({"metadata": {"name": "a"}, "involvedObject": {"namespace": "diff", "name": "x"}, "reason": "R", "message": "M", "type": "Normal", "count": 1}),
        ),
        get(&format!("{view}/a")),
        post(
            core,
            json!({"metadata": {"name": "b"}, "involvedObject": {"namespace": "elsewhere"}}),
        ),
        post(
            view,
            json!({"metadata": {"name": "c"}, "regarding": {"namespace": "diff"}}),
        ),
        post(
            core,
            json!({"metadata": {"name": "long".repeat(64)}, "involvedObject": {"namespace": "diff"}}),
        ),
        delete(&format!("{core}/a")),
    ]
}

fn definitions() -> Vec<Ask> {
    let crds = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    let one = format!("{crds}/boats.diff.example.com");
    let broken = |pointer: &str, value: Value| {
        let mut crd = crd();
        if let Some(slot) = crd.pointer_mut(pointer) {
            *slot = value;
        }
        crd
    };
    vec![
        post(
            crds,
            broken("/metadata/name", json!("wrong.diff.example.com")),
        ),
        post(crds, broken("/spec/group", json!(""))),
        post(crds, broken("/spec/scope", json!("Galaxy"))),
        post(crds, broken("/spec/names/plural", json!("Boats"))),
        post(crds, broken("/spec/versions", json!([]))),
        post(crds, broken("/spec/versions/1/storage", json!(true))),
        post(crds, broken("/spec/versions/0/schema", json!({}))),
        post(
            crds,
            broken(
                "/spec/versions/0/schema/openAPIV3Schema/type",
                json!("string"),
            ),
        ),
        post(
            crds,
            broken(
                "/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties/rig/default",
                json!(7),
            ),
        ),
        post(
            crds,
            broken(
                "/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties/named/pattern",
                json!("("),
            ),
        ),
        post(
            crds,
            broken(
                "/spec/versions/0/schema/openAPIV3Schema/properties/spec/type",
                json!("nothing"),
            ),
        ),
        post(crds, crd()),
        ask(
            Method::GET,
            &format!("await {one} /status/acceptedNames/kind Boat"),
            JSON,
            Value::Null,
        ),
        ask(
            Method::GET,
            "await /apis/diff.example.com/v1/boats served",
            JSON,
            Value::Null,
        ),
        patch(&one, MERGE, json!({"spec": {"scope": "Cluster"}})),
        patch(&one, MERGE, json!({"spec": {"group": "other.com"}})),
        get("/apis/diff.example.com/v1beta1/boats"),
    ]
}

fn boats() -> Vec<Ask> {
    let boats = "/apis/diff.example.com/v1/namespaces/$ns/boats";
    let one = "/apis/diff.example.com/v1/namespaces/$ns/boats/a";
    vec![
        kept(
            post(
                boats,
                boat(
                    "a",
                    json!({"masts": 2, "colour": "red", "free": {"x": 1}, "any": "5"}),
                ),
            ),
            "boat",
        ),
        post(boats, boat("a", json!({"masts": 2}))),
        post(boats, boat("b", json!({}))),
        post(
            boats,
            boat(
                "b",
                json!({"masts": -1, "rig": "raft", "crew": ["x", "x", "long"], "named": "A1", "when": "now"}),
            ),
        ),
        post(boats, boat("b", json!({"masts": "two"}))),
        post(boats, boat("b", json!({"masts": 1.5}))),
        post(
            boats,
            boat(
                "b",
                json!({"masts": 1, "ports": [{"name": "a"}, {"name": "a"}]}),
            ),
        ),
        post(boats, boat("b", json!({"masts": 1, "ports": [{"n": 1}]}))),
        post(boats, boat("b", json!({"masts": 1, "any": true}))),
        post(boats, boat("b", json!({"masts": null}))),
        post(
            boats,
            boat(
                "nulls",
                json!({"masts": 1, "opt": null, "rig": null, "free": {"n": null}}),
            ),
        ),
        post(
            boats,
            json!({"metadata": {"name": "b"}, "spec": {"masts": 1}}),
        ),
        post(
            boats,
            json!({"apiVersion": "diff.example.com/v1", "kind": "Ship", "metadata": {"name": "b"}}),
        ),
        post(
            boats,
            json!({"apiVersion": "diff.example.com/v1beta1", "kind": "Boat", "metadata": {"name": "b"}}),
        ),
        post(boats, boat("Bad_Name", json!({"masts": 1}))),
        post(
            &format!("{boats}?fieldValidation=Strict"),
            boat("b", json!({"masts": 1, "colour": "red"})),
        ),
        put(one, boat("a", json!({"masts": 3}))),
        put(
            one,
            json!({"apiVersion": "diff.example.com/v1", "kind": "Boat", "metadata": {"name": "a", "resourceVersion": "1"}, "spec": {"masts": 3}}),
        ),
        kept(
            put(
                one,
                json!({"apiVersion": "diff.example.com/v1", "kind": "Boat", "metadata": {"name": "a", "resourceVersion": "$rv(boat)"}, "spec": {"masts": 3}, "status": {"afloat": true}}),
            ),
            "boat",
        ),
        put(
            &format!("{boats}/missing"),
            json!({"apiVersion": "diff.example.com/v1", "kind": "Boat", "metadata": {"name": "missing", "resourceVersion": "1"}, "spec": {"masts": 3}}),
        ),
        kept(
            put(
                &format!("{one}/status"),
                json!({"apiVersion": "diff.example.com/v1", "kind": "Boat", "metadata": {"name": "a", "resourceVersion": "$rv(boat)", "labels": {"x": "y"}}, "spec": {"masts": 4}, "status": {"afloat": true, "more": 1}}),
            ),
            "boat",
        ),
        patch(
            &format!("{one}/status"),
            MERGE,
            json!({"status": {"afloat": "no"}}),
        ),
        patch(
            &format!("{one}/status"),
            MERGE,
            json!({"status": {"afloat": false}, "metadata": {"annotations": {"a": "b"}}}),
        ),
        get(&format!("{one}/status")),
        get(&format!("{one}/scale")),
        patch(one, MERGE, json!({"spec": {"masts": 9}})),
        patch(one, MERGE, json!({"spec": {"rig": null}})),
        patch(
            one,
            MERGE,
            json!({"metadata": {"labels": {"tier": "gold"}}}),
        ),
        patch(one, STRATEGIC, json!({})),
        patch(
            one,
            PATCH,
            json!([{"op": "replace", "path": "/spec/masts", "value": 9_007_199_254_740_993_i64}]),
        ),
        patch(
            one,
            PATCH,
            json!([{"op": "add", "path": "/spec/crew", "value": ["a", "b"]}]),
        ),
        get("/apis/diff.example.com/v1beta1/namespaces/$ns/boats/a"),
        get(&format!("{boats}?labelSelector=tier%3Dgold")),
        get("/apis/diff.example.com/v1/boats"),
        patch(one, MERGE, json!({"metadata": {"finalizers": ["e.com/x"]}})),
        delete(one),
        patch(
            one,
            MERGE,
            json!({"metadata": {"finalizers": ["e.com/x", "e.com/y"]}}),
        ),
        post(boats, boat("a", json!({"masts": 1}))),
        patch(one, MERGE, json!({"metadata": {"finalizers": null}})),
        get(one),
        delete(&format!("{boats}/nulls")),
        delete(boats),
        delete("/apis/apiextensions.k8s.io/v1/customresourcedefinitions/missing.example.com"),
    ]
}

fn namespaces() -> Vec<Ask> {
    let held = "/api/v1/namespaces/$ns/configmaps/held";
    vec![
        post(
            "/api/v1/namespaces/$ns/configmaps",
            json!({"metadata": {"name": "held", "finalizers": ["e.com/x"]}}),
        ),
        delete("/api/v1/namespaces/$ns"),
        post(
            "/api/v1/namespaces/$ns/configmaps",
            json!({"metadata": {"name": "late"}}),
        ),
        patch(held, MERGE, json!({"metadata": {"finalizers": null}})),
        ask(
            Method::GET,
            "await /api/v1/namespaces/$ns gone",
            JSON,
            Value::Null,
        ),
    ]
}
