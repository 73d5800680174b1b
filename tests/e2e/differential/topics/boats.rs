//! Custom resources: definitions that are refused, and boats of one that is not.

use serde_json::{Value, json};

use super::super::step::{
    Condition, MERGE, PATCH, STRATEGIC, Script, Topic, delete, get, patch, post, put, script, until,
};

pub(super) fn topic() -> Topic {
    Topic::new("boats", definitions()).then(boats())
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
        "metadata": {"name": "boats.$group"},
        "spec": {
            "group": "$group", "scope": "Namespaced",
            "names": {"plural": "boats", "kind": "Boat", "shortNames": ["bt"]},
            "versions": [version("v1", true), version("v1beta1", false)],
        },
    })
}

#[expect(clippy::needless_pass_by_value, reason = "the script reads better so")]
fn boat(name: &str, spec: Value) -> Value {
    json!({"apiVersion": "$group/v1", "kind": "Boat", "metadata": {"name": name}, "spec": spec})
}

fn definitions() -> Script {
    let crds = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    let one = format!("{crds}/boats.$group");
    let broken = |pointer: &str, value: Value| {
        let mut crd = crd();
        if let Some(slot) = crd.pointer_mut(pointer) {
            *slot = value;
        }
        crd
    };
    script![
        post(crds, broken("/metadata/name", json!("wrong.$group")),),
        post(crds, broken("/spec/group", json!(""))),
        post(crds, broken("/spec/scope", json!("Galaxy"))),
        post(crds, broken("/spec/names/plural", json!("Boats"))),
        post(crds, broken("/spec/versions", json!([])))
            .tolerate("a CRD without a version has no second error for stored versions")
            .only_in(&["/body/details/causes", "/body/message"]),
        post(crds, broken("/spec/versions/1/storage", json!(true)))
            .free_text()
            .tolerate("stored versions are not reported as a second error")
            .only_in(&["/body/details/causes"]),
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
        )
        .free_text(),
        post(
            crds,
            broken(
                "/spec/versions/0/schema/openAPIV3Schema/properties/spec/type",
                json!("nothing"),
            ),
        ),
        post(crds, crd())
            .tolerate("accepted names and conditions of a CRD are set at once")
            .only_in(&["/body/status/acceptedNames", "/body/status/conditions"]),
        until(
            &one,
            Condition::At("/status/acceptedNames/kind", json!("Boat"))
        ),
        until(&one, Condition::Established),
        until("/apis/$group/v1/boats", Condition::Code(200)),
        until("/apis/$group/v1beta1/boats", Condition::Code(200)),
        patch(&one, MERGE, json!({"spec": {"scope": "Cluster"}})),
        patch(&one, MERGE, json!({"spec": {"group": "other.com"}})),
        get("/apis/$group/v1beta1/boats"),
    ]
}

fn boats() -> Script {
    let boats = "/apis/$group/v1/namespaces/$ns/boats";
    let one = "/apis/$group/v1/namespaces/$ns/boats/a";
    script![
        post(
                boats,
                boat(
                    "a",
                    json!({"masts": 2, "colour": "red", "free": {"x": 1}, "any": "5"}),
                ),
            ).keep("boat"),
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
        ).free_text(),
        post(
            boats,
            json!({"apiVersion": "$group/v1", "kind": "Ship", "metadata": {"name": "b"}}),
        ),
        post(
            boats,
            json!({"apiVersion": "$group/v1beta1", "kind": "Boat", "metadata": {"name": "b"}}),
        ),
        post(boats, boat("Bad_Name", json!({"masts": 1}))),
        post(
            &format!("{boats}?fieldValidation=Strict"),
            boat("b", json!({"masts": 1, "colour": "red"})),
        ),
        put(one, boat("a", json!({"masts": 3}))),
        put(
            one,
            json!({"apiVersion": "$group/v1", "kind": "Boat", "metadata": {"name": "a", "resourceVersion": "1"}, "spec": {"masts": 3}}),
        ),
        put(
                one,
                json!({"apiVersion": "$group/v1", "kind": "Boat", "metadata": {"name": "a", "resourceVersion": "$rv(boat)"}, "spec": {"masts": 3}, "status": {"afloat": true}}),
            ).keep("boat"),
        put(
            &format!("{boats}/missing"),
            json!({"apiVersion": "$group/v1", "kind": "Boat", "metadata": {"name": "missing", "resourceVersion": "1"}, "spec": {"masts": 3}}),
        ),
        put(
                &format!("{one}/status"),
                json!({"apiVersion": "$group/v1", "kind": "Boat", "metadata": {"name": "a", "resourceVersion": "$rv(boat)", "labels": {"x": "y"}}, "spec": {"masts": 4}, "status": {"afloat": true, "more": 1}}),
            ).keep("boat"),
        patch(
            &format!("{one}/status"),
            MERGE,
            json!({"status": {"afloat": "no"}}),
        ).free_text(),
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
        patch(one, STRATEGIC, json!({})).free_text(),
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
        get("/apis/$group/v1beta1/namespaces/$ns/boats/a"),
        get(&format!("{boats}?labelSelector=tier%3Dgold")),
        get("/apis/$group/v1/boats"),
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
