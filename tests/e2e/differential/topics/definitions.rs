//! Definitions of custom resources: what is refused, how they live and end.

use serde_json::{Value, json};

use super::super::step::{
    Ask, Condition, MERGE, Script, Topic, definition, delete, done, get, install, patch, post, put,
    script, until,
};

const ALL: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const SETTLED: &str = "accepted names and conditions of a CRD are set at once";

const STORED: &str = "a CRD without a (storage) version has fewer errors";
const ENDS: &str = "a CRD is deleted at once";

pub(super) fn topic() -> Topic {
    Topic::new("definitions", refused())
        .then(schemas())
        .then(life())
        .then(versions())
        .then(other_versions())
        .then(names())
        .then(instances())
}

fn buoys() -> Value {
    definition(
        "buoys",
        "Buoy",
        json!({"spec": {"type": "object", "properties": {"depth": {"type": "integer"}}}}),
    )
}

fn broken(pointer: &str, value: Value) -> Value {
    let mut new = buoys();
    let (parent, last) = pointer.rsplit_once('/').unwrap_or_default();
    if let Some(Value::Object(parent)) = new.pointer_mut(parent) {
        parent.insert(last.to_owned(), value);
    }
    new
}

fn refused() -> Script {
    let mut script = Script::default();
    for (pointer, value) in [
        ("/metadata/name", json!("other.$group")),
        ("/spec/group", json!("")),
        ("/spec/group", json!("Not.A.Group")),
        ("/spec/scope", json!("Galaxy")),
        ("/spec/scope", json!("")),
        ("/spec/names/plural", json!("Buoys")),
        ("/spec/names/kind", json!("")),
        ("/spec/names/kind", json!("bad kind")),
        ("/spec/names/singular", json!("Bad")),
        ("/spec/names/listKind", json!("Buoy")),
        ("/spec/names/shortNames", json!(["Bad"])),
        ("/spec/names/categories", json!(["Bad"])),
        ("/spec/conversion", json!({"strategy": "Webhook"})),
        ("/spec/conversion", json!({"strategy": "Magic"})),
        ("/spec/preserveUnknownFields", json!(true)),
        ("/spec/versions/0/name", json!("V1")),
        ("/spec/versions/0/name", json!("")),
        ("/spec/versions/0/storage", json!(false)),
        ("/spec/versions/0/served", json!("yes")),
        ("/spec/versions/0/schema", json!(null)),
        ("/spec/versions/0/subresources", json!({"scale": {}})),
        (
            "/spec/versions/0/subresources",
            json!({"scale": {"specReplicasPath": ".status.x", "statusReplicasPath": ".spec.x"}}),
        ),
        (
            "/spec/versions/0/additionalPrinterColumns",
            json!([{"name": "A", "type": "odd", "jsonPath": ".spec"}]),
        ),
        (
            "/spec/versions/0/additionalPrinterColumns",
            json!([{"name": "A", "type": "string", "jsonPath": "spec"}]),
        ),
        (
            "/spec/versions/0/additionalPrinterColumns",
            json!([{"name": "", "type": "string", "jsonPath": ".spec"}]),
        ),
        (
            "/spec/versions/0/selectableFields",
            json!([{"jsonPath": ".spec.none"}]),
        ),
        ("/spec/unknown", json!(1)),
    ] {
        let stored = pointer.ends_with("/storage");
        let kept = pointer == "/spec/unknown";
        let ask = post(&format!("{ALL}?dryRun=All"), broken(pointer, value)).free_text();
        script.push(if stored {
            ask.tolerate(STORED)
        } else if kept {
            settled(ask)
        } else {
            ask
        });
    }
    script.push(script![
        post(ALL, json!({})).free_text().tolerate(STORED),
        post(ALL, json!({"metadata": {"name": "x"}}))
            .free_text()
            .tolerate(STORED),
        post(ALL, json!({"metadata": {"name": "x"}, "spec": {}}))
            .free_text()
            .tolerate(STORED),
        post(ALL, json!({"metadata": {"name": "x"}, "spec": 7})).free_text(),
        post(
            "/apis/apiextensions.k8s.io/v1beta1/customresourcedefinitions",
            json!({})
        ),
    ]);
    script
}

/// A definition in the answer to its creation.
fn settled(ask: Ask) -> Ask {
    ask.tolerate(SETTLED)
        .only_in(&["/body/status/acceptedNames", "/body/status/conditions"])
}

/// Schemas that are not structural, or make no sense.
fn schemas() -> Script {
    let mut script = Script::default();
    for spec in [
        json!({"type": "nothing"}),
        json!({"properties": {"a": {"type": "string"}}}),
        json!({"type": "array"}),
        json!({"type": "array", "items": [{"type": "string"}]}),
        json!({"type": "object", "additionalProperties": false}),
        json!({"type": "object", "additionalProperties": {"type": "string"}, "properties": {"a": {"type": "string"}}}),
        json!({"type": "object", "additionalProperties": {}}),
        json!({"type": "object", "properties": {"a": {}}}),
        json!({"type": "object", "required": ["a", "a"]}),
        json!({"type": "string", "default": 5}),
        json!({"type": "string", "pattern": "("}),
        json!({"type": "string", "enum": []}),
        json!({"type": "string", "enum": ["a", "a"]}),
        json!({"type": "integer", "minimum": "x"}),
        json!({"type": "object", "uniqueItems": true}),
        json!({"type": "array", "uniqueItems": true, "items": {"type": "string"}}),
        json!({"$ref": "#/definitions/x"}),
        json!({"type": "object", "patternProperties": {"a": {"type": "string"}}}),
        json!({"type": "object", "definitions": {}}),
        json!({"type": "object", "dependencies": {}}),
        json!({"type": "object", "allOf": [{"type": "object"}]}),
        json!({"type": "object", "anyOf": [{"properties": {"a": {"type": "string"}}}]}),
        json!({"type": "object", "not": {"properties": {"a": {"minimum": 1}}}}),
        json!({"type": "object", "properties": {"a": {"type": "string"}}, "anyOf": [{"required": ["a"]}]}),
        json!({"x-kubernetes-int-or-string": true, "type": "string"}),
        json!({"x-kubernetes-int-or-string": true, "anyOf": [{"type": "integer"}, {"type": "string"}]}),
        json!({"x-kubernetes-preserve-unknown-fields": false}),
        json!({"type": "object", "x-kubernetes-embedded-resource": true}),
        json!({"type": "object", "x-kubernetes-embedded-resource": true, "x-kubernetes-preserve-unknown-fields": true}),
        json!({"type": "string", "x-kubernetes-list-type": "set"}),
        json!({"type": "array", "x-kubernetes-list-type": "odd", "items": {"type": "string"}}),
        json!({"type": "array", "x-kubernetes-list-type": "map", "items": {"type": "object"}}),
        json!({"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["a"], "items": {"type": "object"}}),
        json!({"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["a"], "items": {"type": "object", "properties": {"a": {"type": "string"}}}}),
        json!({"type": "array", "x-kubernetes-list-map-keys": ["a"], "items": {"type": "object", "properties": {"a": {"type": "string"}}}}),
        json!({"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "object"}}),
        json!({"type": "object", "x-kubernetes-map-type": "odd"}),
        json!({"type": "object", "properties": {"a": {"type": "string", "default": "b"}}, "default": {"a": 5}}),
        json!({"type": "object", "properties": {"a": {"type": "string"}}, "default": {"b": "pruned"}}),
        json!({"type": "object", "nullable": true, "default": null}),
        json!({"type": "string", "default": null}),
        json!({"type": "string", "maxLength": -1}),
        json!({"type": "string", "format": "odd"}),
    ] {
        let told = known(&spec);
        let new = definition("buoys", "Buoy", json!({"spec": spec}));
        let ask = post(&format!("{ALL}?dryRun=All"), new)
            .free_text()
            .settle(unsettled);
        script.push(match told {
            Some(reason) => ask.tolerate(reason),
            None => ask,
        });
    }
    for (top, value) in [
        ("type", json!("string")),
        ("nullable", json!(true)),
        ("x-kubernetes-preserve-unknown-fields", json!(true)),
        ("x-kubernetes-embedded-resource", json!(true)),
        ("properties", json!({"metadata": {"type": "string"}})),
        (
            "properties",
            json!({"metadata": {"type": "object", "properties": {"labels": {"type": "object"}}}}),
        ),
        (
            "properties",
            json!({"metadata": {"type": "object", "properties": {"name": {"type": "string", "maxLength": 5}}}}),
        ),
        ("properties", json!({"apiVersion": {"type": "integer"}})),
        ("required", json!(["spec"])),
        ("default", json!({})),
    ] {
        let mut new = buoys();
        let default = top == "default";
        new["spec"]["versions"][0]["schema"]["openAPIV3Schema"][top] = value;
        let ask = post(&format!("{ALL}?dryRun=All"), new)
            .free_text()
            .settle(unsettled);
        script.push(if default {
            ask.tolerate("a default for the whole object has one error")
                .only_in(&["/body/details/causes"])
        } else {
            ask
        });
    }
    script
}

/// Schemas about which the two do not agree.
fn known(schema: &Value) -> Option<&'static str> {
    if schema["minimum"] == "x" {
        Some("a schema with wrong types is invalid, not a bad request")
    } else {
        None
    }
}

/// What the real server's controllers do a moment later.
fn unsettled(body: &mut Value) {
    if body["kind"] == "CustomResourceDefinition" {
        body["status"] = json!("…");
    }
}

fn life() -> Script {
    let one = format!("{ALL}/buoys.$group");
    let served = |path: &str| get(&format!("/apis/$group/v1{path}"));
    script![
        get(&one),
        get("/apis/$group"),
        get("/apis/$group/v1"),
        get("/apis/$group/v1/buoys"),
        get("/apis/$group/v1/namespaces/$ns/buoys/a"),
        install(buoys()),
        shown(get(&one)),
        shown(get(&format!("{one}/status"))),
        post(ALL, buoys()),
        get("/apis/$group"),
        served(""),
        served("/buoys"),
        served("/others"),
        served("/buoys/a"),
        served("/namespaces/$ns/buoys/a"),
        served("/namespaces/$ns/buoys/a/status"),
        served("/namespaces/$ns/buoys/a/scale"),
        served("/namespaces/$ns/buoys/a/other"),
        get("/apis/$group/v2"),
        get("/apis/$group/v2/buoys"),
        put(&one, buoys()).free_text(),
        patch(&one, MERGE, json!({"spec": {"scope": "Cluster"}})),
        patch(
            &one,
            MERGE,
            json!({"spec": {"names": {"kind": "Float", "listKind": "FloatList"}}})
        ),
        shown(patch(
            &one,
            MERGE,
            json!({"spec": {"names": {"shortNames": ["by"], "categories": ["all"]}}})
        ))
        .may_differ(SETTLED),
        until(
            &one,
            Condition::At("/status/acceptedNames/shortNames/0", json!("by"))
        ),
        shown(get(&one)),
        patch(&one, MERGE, json!({"spec": {"versions": []}})).free_text(),
        shown(patch(
            &one,
            MERGE,
            json!({"metadata": {"labels": {"a": "b"}}})
        )),
        patch(
            &format!("{one}/status"),
            MERGE,
            json!({"status": {"storedVersions": []}})
        )
        .tolerate("stored versions from clients are checked")
        .free_text(),
        patch(
            &format!("{one}/status"),
            MERGE,
            json!({"status": {"storedVersions": ["v1", "v9"]}})
        )
        .tolerate("stored versions from clients are checked")
        .free_text(),
        post(
            "/apis/$group/v1/namespaces/$ns/buoys",
            json!({"apiVersion": "$group/v1", "kind": "Buoy", "metadata": {"name": "a"}, "spec": {"depth": 1}})
        ),
        post(
            "/apis/$group/v1/buoys",
            json!({"apiVersion": "$group/v1", "kind": "Buoy", "metadata": {"name": "a"}})
        ),
        delete(&one).settle(sorted_conditions).may_differ(ENDS),
        until(&one, Condition::Code(404)),
        until("/apis/$group/v1/buoys", Condition::Code(404)),
        get("/apis/$group/v1/namespaces/$ns/buoys/a"),
        delete(&one),
        // The instances are gone for good.
        install(buoys()),
        get("/apis/$group/v1/namespaces/$ns/buoys"),
    ]
}

/// A definition in its place.
fn shown(ask: Ask) -> Ask {
    ask.settle(sorted_conditions)
}

fn sorted_conditions(body: &mut Value) {
    if let Some(conditions) = body
        .pointer_mut("/status/conditions")
        .and_then(Value::as_array_mut)
    {
        conditions.sort_by_key(|condition| condition["type"].to_string());
    }
}

/// Versions that know different fields: what is kept is what the stored one knows, with its defaults.
fn other_versions() -> Script {
    let fields = |properties: Value| json!({"spec": {"type": "object", "properties": properties}});
    let mut rafts = definition(
        "rafts",
        "Raft",
        fields(
            json!({"a": {"type": "integer", "maximum": 5}, "both": {"type": "string"}, "b": {"type": "string", "default": "x"}}),
        ),
    );
    let mut other = rafts["spec"]["versions"][0].clone();
    other["name"] = json!("v2");
    other["storage"] = json!(false);
    other["schema"]["openAPIV3Schema"]["properties"] = fields(
        json!({"a": {"type": "integer"}, "both": {"type": "string", "default": "y"}, "c": {"type": "string"}}),
    );
    if let Some(versions) = rafts["spec"]["versions"].as_array_mut() {
        versions.push(other);
    }
    let one =
        |version: &str, name: &str| format!("/apis/$group/{version}/namespaces/$ns/rafts{name}");
    let raft = |version: &str, name: &str, spec: Value| json!({"apiVersion": format!("$group/{version}"), "kind": "Raft", "metadata": {"name": name}, "spec": spec});
    script![
        install(rafts),
        until("/apis/$group/v2/rafts", Condition::Code(200)),
        post(
            &one("v2", ""),
            raft("v2", "a", json!({"a": 9, "c": "lost"}))
        ),
        get(&one("v1", "/a")),
        get(&one("v2", "/a")),
        post(&one("v1", ""), raft("v1", "b", json!({"a": 1}))),
        get(&one("v2", "/b")),
        get(&one("v2", "")),
        patch(
            &one("v2", "/b"),
            MERGE,
            json!({"spec": {"a": 2, "c": "lost"}})
        ),
        get(&one("v1", "/b")),
        patch(&one("v1", "/a"), MERGE, json!({"spec": {"both": "z"}})),
        delete(&one("v2", "/a")),
    ]
}

fn versions() -> Script {
    let one = format!("{ALL}/floats.$group");
    let mut floats = definition(
        "floats",
        "Float",
        json!({"spec": {"type": "object", "properties": {"a": {"type": "string"}, "b": {"type": "string", "default": "x"}}}}),
    );
    let mut old = floats["spec"]["versions"][0].clone();
    old["name"] = json!("v1beta1");
    old["storage"] = json!(false);
    old["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"] =
        json!({"a": {"type": "string"}});
    if let Some(versions) = floats["spec"]["versions"].as_array_mut() {
        versions.push(old);
    }
    let new = "/apis/$group/v1/namespaces/$ns/floats";
    let old = "/apis/$group/v1beta1/namespaces/$ns/floats";
    script![
        install(floats),
        get("/apis/$group"),
        get("/apis/$group/v1beta1"),
        post(
            old,
            json!({"apiVersion": "$group/v1beta1", "kind": "Float", "metadata": {"name": "a"}, "spec": {"a": "1", "b": "2"}})
        ),
        get(&format!("{new}/a")).keep("a"),
        post(
            new,
            json!({"apiVersion": "$group/v1", "kind": "Float", "metadata": {"name": "b"}, "spec": {"a": "1", "b": "2"}})
        ),
        get(&format!("{old}/b")),
        get(old),
        get(new),
        put(
            &format!("{old}/b"),
            json!({"apiVersion": "$group/v1", "kind": "Float", "metadata": {"name": "b"}})
        )
        .free_text(),
        patch(&format!("{old}/b"), MERGE, json!({"spec": {"a": "2"}})),
        delete(&format!("{old}/b")),
        patch(
            &one,
            "application/json-patch+json",
            json!([{"op": "replace", "path": "/spec/versions/1/served", "value": false}])
        )
        .settle(sorted_conditions),
        until("/apis/$group/v1beta1/floats", Condition::Code(404)),
        get("/apis/$group/v1beta1/floats"),
        patch(
            &one,
            "application/json-patch+json",
            json!([{"op": "remove", "path": "/spec/versions/1"}])
        )
        .settle(sorted_conditions),
        patch(
            &one,
            "application/json-patch+json",
            json!([{"op": "replace", "path": "/spec/versions/0/name", "value": "v2"}])
        )
        .free_text(),
    ]
}

/// Two definitions that want the same names.
fn names() -> Script {
    let mut rival = definition("rivals", "Float", json!({"spec": {"type": "object"}}));
    rival["spec"]["names"]["shortNames"] = json!(["floats"]);
    let one = format!("{ALL}/rivals.$group");
    script![
        done(post(ALL, rival)),
        until(
            &one,
            Condition::At("/status/conditions/0/status", json!("False"))
        ),
        shown(get(&one)),
        get("/apis/$group/v1/rivals"),
        delete(&format!("{ALL}/floats.$group")).may_differ(ENDS),
        until(
            &one,
            Condition::At("/status/acceptedNames/kind", json!("Float"))
        ),
        until("/apis/$group/v1/rivals", Condition::Code(200)),
        shown(get(&one)),
    ]
}

/// A definition ends when its instances have.
fn instances() -> Script {
    let one = format!("{ALL}/rivals.$group");
    let held = "/apis/$group/v1/namespaces/$ns/rivals/held";
    script![
        done(post(
            "/apis/$group/v1/namespaces/$ns/rivals",
            json!({"apiVersion": "$group/v1", "kind": "Float", "metadata": {"name": "held", "finalizers": ["e.com/x"]}})
        )),
        delete(&one).may_differ(ENDS),
        until(
            held,
            Condition::At("/metadata/deletionGracePeriodSeconds", json!(0))
        ),
        post(
            "/apis/$group/v1/namespaces/$ns/rivals",
            json!({"apiVersion": "$group/v1", "kind": "Float", "metadata": {"name": "late"}})
        )
        .free_text(),
        get(held),
        patch(held, MERGE, json!({"metadata": {"finalizers": null}})),
        until(&one, Condition::Code(404)),
    ]
}
