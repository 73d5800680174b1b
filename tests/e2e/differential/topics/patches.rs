//! Patches: every operation on custom and built-in kinds, and what is wrong with one.

use serde_json::{Value, json};

use super::super::step::{
    APPLY, MERGE, PATCH, STRATEGIC, Script, Topic, definition, done, get, install, patch, post,
    script,
};

const BUOYS: &str = "/apis/$group/v1/namespaces/$ns/buoys";
const BUOY: &str = "/apis/$group/v1/namespaces/$ns/buoys/a";
const MAP: &str = "/api/v1/namespaces/$ns/configmaps/a";

pub(super) fn topic() -> Topic {
    let free = json!({"spec": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}});
    Topic::new("patches", install(definition("buoys", "Buoy", free)))
        .then(merged())
        .then(operations())
        .then(wrong_operations(BUOY))
        .then(wrong_operations(MAP))
        .then(strategic())
        .then(locks())
}

fn merged() -> Script {
    script![
        post(
            BUOYS,
            json!({"apiVersion": "$group/v1", "kind": "Buoy", "metadata": {"name": "a"}, "spec": {"a": {"b": 1, "c": [1, 2]}, "d": "e"}})
        ),
        patch(
            BUOY,
            MERGE,
            json!({"spec": {"a": {"b": null, "c": [3]}, "f": {"g": null, "h": 1}}})
        ),
        patch(BUOY, MERGE, json!({"spec": {"a": "text"}})),
        patch(BUOY, MERGE, json!({"spec": {"a": {"new": true}}})),
        patch(BUOY, MERGE, json!({"spec": null})),
        patch(BUOY, MERGE, json!({"metadata": null})),
        patch(BUOY, MERGE, json!({"metadata": {"name": null}})),
        patch(
            BUOY,
            MERGE,
            json!({"metadata": {"labels": {"a": "b"}, "annotations": {"a": "b", "n": null}}})
        ),
        patch(BUOY, MERGE, json!({"metadata": {"labels": null}})),
        patch(BUOY, MERGE, json!({"metadata": {"labels": {"a": 1}}})).free_text(),
        patch(BUOY, MERGE, json!({"apiVersion": "$group/v2"})).free_text(),
        patch(BUOY, MERGE, json!({"kind": "Ship"})).free_text(),
        patch(BUOY, MERGE, json!({"kind": ""})).free_text(),
        patch(BUOY, MERGE, json!({"metadata": {"name": "b"}})),
        patch(BUOY, MERGE, json!({"metadata": {"namespace": "b"}})),
        patch(BUOY, MERGE, json!({"metadata": {"uid": "b"}})),
        patch(
            BUOY,
            MERGE,
            json!({"metadata": {"creationTimestamp": null, "generation": 99, "selfLink": "x"}})
        ),
        patch(
            BUOY,
            MERGE,
            json!({"metadata": {"creationTimestamp": "2020-01-01T00:00:00Z"}})
        ),
        patch(
            BUOY,
            MERGE,
            json!({"metadata": {"deletionTimestamp": "2020-01-01T00:00:00Z"}})
        ),
        patch(BUOY, MERGE, json!({"metadata": {"unknown": "x"}})),
        patch(BUOY, MERGE, json!({"spec": 5})),
        patch(BUOY, MERGE, json!({})),
        patch(BUOY, MERGE, json!("{\"spec\": {\"x\": 1, \"x\": 2}}")),
        patch(BUOY, MERGE, json!("null")).free_text(),
        patch(BUOY, MERGE, json!("\"text\"")).free_text(),
        patch(BUOY, MERGE, json!("{]")).free_text(),
        patch(
            &format!("{BUOY}?dryRun=All"),
            MERGE,
            json!({"spec": {"dry": true}})
        ),
        patch(
            &format!("{BUOY}?dryRun=All&fieldManager={}", "x".repeat(129)),
            MERGE,
            json!({"spec": {"dry": true}})
        ),
        patch(
            &format!("{BUOY}?dryRun=All&force=true"),
            MERGE,
            json!({"spec": {"dry": true}})
        ),
        patch(
            &format!("{BUOY}?dryRun=Other"),
            MERGE,
            json!({"spec": {"dry": true}})
        ),
        get(BUOY),
    ]
}

fn operations() -> Script {
    let operate = |operations: Value| patch(BUOY, PATCH, operations);
    script![
        operate(
            json!([{"op": "add", "path": "/spec", "value": {"list": [1, 2, 3], "map": {"a~b/c": 1}}}])
        ),
        operate(json!([{"op": "add", "path": "/spec/list/0", "value": 0}])),
        operate(json!([{"op": "add", "path": "/spec/list/-", "value": 4}])),
        operate(json!([{"op": "add", "path": "/spec/list/5", "value": 5}])),
        operate(json!([{"op": "replace", "path": "/spec/list/1", "value": "one"}])),
        operate(json!([{"op": "remove", "path": "/spec/list/1"}])),
        operate(json!([{"op": "move", "from": "/spec/list/0", "path": "/spec/moved"}])),
        operate(json!([{"op": "copy", "from": "/spec/map", "path": "/spec/copied"}])),
        operate(
            json!([{"op": "test", "path": "/spec/map/a~0b~1c", "value": 1}, {"op": "replace", "path": "/spec/map/a~0b~1c", "value": 2}])
        ),
        operate(json!([{"op": "test", "path": "/spec/map", "value": {"a~b/c": 2}}])),
        operate(json!([{"op": "test", "path": "/spec/none", "value": null}])),
        operate(json!([{"op": "add", "path": "/spec/null", "value": null}])),
        operate(json!([{"op": "replace", "path": "/spec/moved", "value": {"x": [{"y": 1}]}}])),
        operate(json!([{"op": "remove", "path": "/spec/moved/x/0/y"}])),
        operate(json!([{"op": "add", "path": "/metadata/labels", "value": {"a": "b"}}])),
        operate(json!([{"op": "replace", "path": "/metadata/labels/a", "value": "c"}])),
        operate(json!([{"op": "remove", "path": "/metadata/labels"}])),
        operate(json!([])),
        // Whole or not at all.
        operate(
            json!([{"op": "add", "path": "/spec/half", "value": 1}, {"op": "test", "path": "/spec/half", "value": 2}])
        ),
        get(BUOY),
    ]
}

fn wrong_operations(one: &str) -> Script {
    let operate = |operations: Value| {
        let named = operations.to_string();
        let ask = patch(one, PATCH, operations).free_text();
        if named.contains("/metadata/none") && named.contains("copy") {
            ask.tolerate("no warning of unknown metadata that is null")
                .only_in(&["/headers/warning"])
        } else {
            ask
        }
    };
    let mut script = Script::default();
    if one == MAP {
        script.push(done(post(
            "/api/v1/namespaces/$ns/configmaps",
            json!({"metadata": {"name": "a"}, "data": {"k": "v"}}),
        )));
    }
    script.push(script![
        operate(json!([{"op": "test", "path": "/spec/none", "value": 1}])),
        operate(json!([{"op": "test", "path": "/metadata/name", "value": "z"}])),
        operate(json!([{"op": "remove", "path": "/metadata/none"}])),
        operate(json!([{"op": "replace", "path": "/metadata/none", "value": 1}])),
        operate(json!([{"op": "add", "path": "/metadata/none/deep", "value": 1}])),
        operate(json!([{"op": "move", "from": "/metadata/none", "path": "/metadata/x"}])),
        operate(json!([{"op": "copy", "from": "/metadata/none", "path": "/metadata/x"}])),
        operate(json!([{"op": "sideways", "path": "/metadata/none"}])),
        operate(json!([{"path": "/metadata/none"}])),
        operate(json!([{"op": "add", "value": 1}])),
        operate(json!([{"op": "add", "path": "no-slash", "value": 1}])),
        operate(json!([{"op": "replace", "path": "/metadata/name", "value": "b"}])),
        operate(json!([{"op": "remove", "path": "/metadata/name"}])),
        operate(json!([{"op": "remove", "path": "/kind"}])),
        operate(json!({})),
        operate(json!("5")),
        operate(json!("[{\"op\"")),
        patch(one, PATCH, Value::Null)
            .header("content-type", PATCH)
            .free_text(),
        patch(one, "application/json", json!({})).free_text(),
        patch(one, "text/plain", json!({})).free_text(),
        patch(one, APPLY, json!({}))
            .without("content-type")
            .free_text(),
    ]);
    script
}

fn strategic() -> Script {
    let account = "/api/v1/namespaces/$ns/serviceaccounts/a";
    let apply = |patched: Value| patch(account, STRATEGIC, patched);
    script![
        post(
            "/api/v1/namespaces/$ns/serviceaccounts",
            json!({"metadata": {"name": "a", "labels": {"a": "b"}}, "secrets": [{"name": "x"}, {"name": "y"}], "imagePullSecrets": [{"name": "p"}]})
        ),
        apply(json!({"secrets": [{"name": "z"}]})),
        apply(json!({"secrets": [{"name": "x", "$patch": "delete"}]})),
        apply(json!({"imagePullSecrets": [{"$patch": "replace"}, {"name": "only"}]})),
        apply(json!({"metadata": {"labels": {"c": "d"}}})),
        apply(json!({"metadata": {"labels": {"a": null}}})),
        apply(json!({"metadata": {"labels": null}})),
        apply(json!({"automountServiceAccountToken": false})),
        apply(json!({"automountServiceAccountToken": null})),
        apply(json!([])).free_text(),
        apply(json!("{")).free_text(),
        patch(BUOY, STRATEGIC, json!({"spec": {}})).free_text(),
    ]
}

fn locks() -> Script {
    script![
        get(BUOY).keep("buoy"),
        patch(
            BUOY,
            MERGE,
            json!({"metadata": {"resourceVersion": "$rv(buoy)"}, "spec": {"locked": 1}})
        ),
        patch(
            BUOY,
            MERGE,
            json!({"metadata": {"resourceVersion": "$rv(buoy)"}, "spec": {"locked": 2}})
        ),
        patch(
            BUOY,
            MERGE,
            json!({"metadata": {"resourceVersion": "abc"}, "spec": {"locked": 2}})
        )
        .free_text(),
        patch(
            BUOY,
            MERGE,
            json!({"metadata": {"uid": "$uid(buoy)"}, "spec": {"locked": 3}})
        ),
        patch(
            &format!("{BUOYS}/missing"),
            MERGE,
            json!({"metadata": {"resourceVersion": "1"}})
        ),
        patch(&format!("{BUOYS}/missing"), PATCH, json!([])),
        patch(BUOYS, MERGE, json!({})),
        patch("/apis/$group/v1/buoys", MERGE, json!({})),
        patch("/apis/$group/v1/buoys/a", MERGE, json!({})),
    ]
}
