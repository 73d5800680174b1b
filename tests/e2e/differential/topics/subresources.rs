//! Subresources: status and scale of custom resources, and of those that have none.

use serde_json::{Value, json};

use super::super::step::{
    MERGE, PATCH, Script, Topic, definition, delete, get, install, patch, post, put, script,
};

const BUOY: &str = "/apis/$group/v1/namespaces/$ns/buoys/a";
const SCALE: &str = "scale of custom resources is not served";
const FLOAT: &str = "/apis/$group/v1/namespaces/$ns/floats/a";

pub(super) fn topic() -> Topic {
    let free = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    let scaled = json!({
        "spec": {"type": "object", "properties": {"replicas": {"type": "integer"}, "x": {"type": "string"}}},
        "status": {"type": "object", "properties": {"replicas": {"type": "integer"}, "selector": {"type": "string"}, "phase": {"type": "string", "default": "New"}}},
    });
    let mut buoys = definition("buoys", "Buoy", scaled);
    buoys["spec"]["versions"][0]["subresources"]["scale"] = json!({"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas", "labelSelectorPath": ".status.selector"});
    let mut floats = definition("floats", "Float", json!({"spec": free, "status": free}));
    floats["spec"]["versions"][0]["subresources"] = json!({});
    Topic::new("subresources", install(buoys))
        .then(install(floats))
        .then(status())
        .then(scale())
        .then(none())
        .then(built_in())
}

fn status() -> Script {
    let own = format!("{BUOY}/status");
    let whole = |metadata: Value| {
        put(
            &own,
            json!({"apiVersion": "$group/v1", "kind": "Buoy", "metadata": metadata, "spec": {"replicas": 9}, "status": {"replicas": 3, "selector": "a=b", "odd": 1}}),
        )
    };
    script![
        get("/apis/$group/v1")
            .settle(|body| {
                if let Some(all) = body.pointer_mut("/resources").and_then(Value::as_array_mut) {
                    all.retain(|resource| resource["name"] != "buoys/scale");
                    all.sort_by_key(|resource| resource["name"].to_string());
                }
            }),
        post("/apis/$group/v1/namespaces/$ns/buoys", json!({"apiVersion": "$group/v1", "kind": "Buoy", "metadata": {"name": "a"}, "spec": {"replicas": 2}, "status": {"replicas": 7, "phase": "Old"}})).keep("a"),
        get(&own),
        whole(json!({"name": "a"})),
        whole(json!({"name": "a", "resourceVersion": "1"})),
        whole(json!({"name": "a", "resourceVersion": "$rv(a)", "labels": {"a": "b"}, "finalizers": ["e.com/x"], "annotations": {"a": "b"}})),
        whole(json!({"name": "b", "resourceVersion": "$rv(a)"})),
        put(&own, json!({"apiVersion": "$group/v1", "kind": "Float", "metadata": {"name": "a"}})).tolerate("of two errors in a status, the other one is reported"),
        patch(&own, MERGE, json!({"status": {"replicas": 4}})),
        patch(&own, MERGE, json!({"status": {"replicas": "x"}})).tolerate("a wrong number of replicas has one error").only_in(&["/body/details/causes"]).free_text(),
        patch(&own, MERGE, json!({"spec": {"replicas": 4}})),
        patch(&own, MERGE, json!({"status": null})),
        patch(&own, PATCH, json!([{"op": "add", "path": "/status/replicas", "value": 5}])),
        patch(&format!("{own}?dryRun=All"), MERGE, json!({"status": {"replicas": 6}})),
        put("/apis/$group/v1/namespaces/$ns/buoys/missing/status", json!({"apiVersion": "$group/v1", "kind": "Buoy", "metadata": {"name": "missing", "resourceVersion": "1"}})),
        get("/apis/$group/v1/namespaces/$ns/buoys/missing/status"),
        post(&own, json!({})),
        delete(&own),
        get(&format!("{BUOY}/status/more")).tolerate("a path behind a subresource is not ignored"),
        get(BUOY),
    ]
}

fn scale() -> Script {
    let own = format!("{BUOY}/scale");
    script![
        get(&own).keep("scale").tolerate(SCALE),
        put(
            &own,
            json!({"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": {"name": "a", "namespace": "$ns"}, "spec": {"replicas": 5}})
        ).tolerate(SCALE),
        put(
            &own,
            json!({"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": {"name": "a", "namespace": "$ns", "resourceVersion": "1"}, "spec": {"replicas": 6}})
        ).tolerate(SCALE),
        put(
            &own,
            json!({"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": {"name": "a", "namespace": "$ns"}, "spec": {"replicas": -1}})
        ).tolerate(SCALE),
        patch(&own, MERGE, json!({"spec": {"replicas": 7}})).tolerate(SCALE),
        patch(&own, MERGE, json!({"spec": {"replicas": "x"}})).free_text().tolerate(SCALE),
        get(BUOY).tolerate(SCALE),
        get("/apis/$group/v1/namespaces/$ns/buoys/missing/scale"),
        delete(&own).tolerate(SCALE),
    ]
}

fn none() -> Script {
    script![
        post(
            "/apis/$group/v1/namespaces/$ns/floats",
            json!({"apiVersion": "$group/v1", "kind": "Float", "metadata": {"name": "a"}, "spec": {"x": 1}, "status": {"y": 1}})
        ),
        patch(FLOAT, MERGE, json!({"status": {"y": 2}})),
        get(&format!("{FLOAT}/status")),
        patch(
            &format!("{FLOAT}/status"),
            MERGE,
            json!({"status": {"y": 2}})
        ),
        get(&format!("{FLOAT}/scale")),
        get(&format!("{FLOAT}/log")),
    ]
}

fn built_in() -> Script {
    script![
        get("/api/v1/namespaces/$ns/status"),
        patch(
            "/api/v1/namespaces/$ns/status",
            MERGE,
            json!({"metadata": {"labels": {"a": "b"}}})
        ),
        put(
            "/api/v1/namespaces/$ns/finalize",
            json!({"metadata": {"name": "$ns"}, "spec": {"finalizers": ["kubernetes", "e.com/x"]}})
        )
        .tolerate("finalize of a namespace keeps its labels")
        .only_in(&["/body/metadata/labels/a"]),
        get("/api/v1/namespaces/$ns")
            .tolerate("finalize of a namespace keeps its labels")
            .only_in(&["/body/metadata/labels/a"]),
        put(
            "/api/v1/namespaces/$ns/finalize",
            json!({"metadata": {"name": "$ns"}, "spec": {"finalizers": ["kubernetes"]}})
        )
        .tolerate("finalize of a namespace keeps its labels")
        .only_in(&["/body/metadata/labels/a"]),
        get("/api/v1/namespaces/$ns/finalize"),
        get("/api/v1/namespaces/$ns/configmaps/none/status"),
        get("/apis/rbac.authorization.k8s.io/v1/clusterroles/none/status"),
    ]
}
