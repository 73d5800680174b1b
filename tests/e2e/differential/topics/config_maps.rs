//! Config maps: every verb on a built-in kind, and what their objects may hold.

use serde_json::json;

use super::super::step::{
    MERGE, PATCH, STRATEGIC, Script, Topic, delete, delete_with, get, patch, post, put, script,
};

pub(super) fn topic() -> Topic {
    Topic::new("configmaps", config_maps())
}

fn config_maps() -> Script {
    let maps = "/api/v1/namespaces/$ns/configmaps";
    let one = "/api/v1/namespaces/$ns/configmaps/a";
    let map = |name: &str| json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"k": "v"}});
    script![
        get(one),
        post(maps, map("a")).keep("a"),
        post(maps, map("a")),
        post(
            maps,
            json!({"metadata": {"name": "untyped"}, "data": {"k": "v"}}),
        ),
        post(
            maps,
            json!({"kind": "Secret", "apiVersion": "v1", "metadata": {"name": "b"}}),
        )
        .free_text(),
        post(
            maps,
            json!({"kind": "ConfigMap", "apiVersion": "v2", "metadata": {"name": "b"}}),
        )
        .free_text(),
        post(
            maps,
            json!({"metadata": {"name": "b", "namespace": "other"}}),
        ),
        post(maps, json!({"metadata": {}})),
        post(maps, json!({"metadata": {"generateName": "Bad_"}}))
            .may_differ("generated names are random")
            .only_in(&[
                "/body/details/name",
                "/body/details/causes/1",
                "/body/details/causes/0"
            ]),
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
        post(maps, json!({"metadata": {"name": "b"}, "data": {"k": 1}})).free_text(),
        post(
            maps,
            json!({"metadata": {"name": "b"}, "data": {"k": "v"}, "binaryData": {"k": "AA=="}}),
        ),
        post(
            maps,
            json!({"metadata": {"name": "b"}, "binaryData": {"k": "!"}}),
        )
        .free_text(),
        post(
            maps,
            json!({"metadata": {"name": "b", "resourceVersion": "5"}}),
        ),
        post(maps, json!("{")).free_text(),
        post(maps, json!("[]")).free_text(),
        post(maps, json!("null")).tolerate("null is not an object"),
        post(maps, json!("")).free_text(),
        post(maps, map("b"))
            .header("content-type", "text/plain")
            .free_text(),
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
        put(one, json!({"metadata": {"name": "a", "uid": "other"}})).free_text(),
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
        patch(one, MERGE, json!({"kind": "Secret"})).free_text(),
        patch(one, MERGE, json!("[")).free_text(),
        patch(one, MERGE, json!("[]")).free_text(),
        patch(one, MERGE, json!({"data": {"k": 7}})).free_text(),
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
        patch(one, PATCH, json!({"op": "add"})).free_text(),
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
        patch(one, "application/unknown", json!({})).free_text(),
        patch(&format!("{maps}/missing"), MERGE, json!({})),
        delete_with(one, json!({"preconditions": {"uid": "other"}})),
        delete_with(one, json!({"preconditions": {"resourceVersion": "1"}})),
        delete_with(one, json!({"kind": "Pod"})).free_text(),
        delete_with(one, json!({"propagationPolicy": "Sideways"})),
        delete_with(one, json!({"dryRun": ["All"]})),
        delete_with(one, json!({"dryRun": ["Some"]})),
        delete(one),
        delete(one),
        post(maps, map("a")),
        patch(
            one,
            MERGE,
            json!({"metadata": {"finalizers": ["e.com/b", "e.com/c"]}})
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
