//! What is in metadata: names, generated ones, labels, annotations, generations, what cannot be set.

use serde_json::{Value, json};

use super::super::step::{
    Ask, MERGE, Script, Topic, definition, get, install, patch, post, put, script,
};

const BUOYS: &str = "/apis/$group/v1/namespaces/$ns/buoys";
const MAPS: &str = "/api/v1/namespaces/$ns/configmaps";

pub(super) fn topic() -> Topic {
    let free = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    Topic::new(
        "metadata",
        install(definition(
            "buoys",
            "Buoy",
            json!({"spec": free, "status": free}),
        )),
    )
    .then(names(BUOYS))
    .then(names(MAPS))
    .then(rules(BUOYS))
    .then(rules(MAPS))
    .then(generations())
    .then(updates())
}

fn create(of: &str, metadata: Value) -> Ask {
    let mut object = json!({"metadata": metadata});
    if of == BUOYS {
        object["apiVersion"] = json!("$group/v1");
        object["kind"] = json!("Buoy");
    }
    post(of, object)
}

/// Names that were made up by the server, told apart from their base.
fn generated(body: &mut Value) {
    let base = body["metadata"]["generateName"].as_str().map(str::len);
    if let (Some(base), Some(name)) = (base, body["metadata"]["name"].as_str()) {
        body["metadata"]["name"] = json!(format!(
            "{} and {}",
            &name[..base.min(name.len())],
            name.len() - base.min(name.len())
        ));
    }
}

fn names(of: &str) -> Script {
    let mut script = Script::default();
    for name in [
        "", "-a", "a-", "A", "a_b", "a.b", "a..b", ".", "..", "a/b", "a%2fb", "a b", "é", "1",
        "x:y",
    ] {
        script.push(create(of, json!({"name": name})));
    }
    script.push(script![
        create(of, json!({"name": "a".repeat(253)})),
        create(of, json!({"name": "a".repeat(254)})),
        create(of, json!({"name": 5})).free_text(),
        create(of, json!({"name": "typed", "labels": {"a": true}})),
        create(of, json!({"name": "typed", "annotations": {"a": 1}})),
        create(of, json!({"name": "typed", "labels": ["a"]})),
        create(of, json!({"name": "typed", "finalizers": "e.com/x"})),
        create(of, json!({"generateName": "gen-"})).settle(generated),
        create(of, json!({"generateName": "gen-", "name": "named"})),
        create(of, json!({"generateName": "x".repeat(70)})).settle(|body| {
            body["metadata"]["name"] = json!(body["metadata"]["name"].as_str().map(str::len));
        }),
        create(of, json!({"generateName": "", "name": ""})),
        create(of, json!({"name": "a", "namespace": ""})),
        create(of, json!({"name": "b", "namespace": "$ns"})),
        create(of, json!({"name": "c", "namespace": "default"})),
        create(
            "/api/v1/namespaces/bad_name/configmaps",
            json!({"name": "c"})
        ),
        get(&format!("{of}/UPPER")),
        get(&format!("{of}/a%20b")),
        get(&format!("{of}/a%2Fb")).tolerate("an escaped slash in a name is no separator"),
    ]);
    script
}

fn rules(of: &str) -> Script {
    let mut script = Script::default();
    for (number, more) in [
        json!({"labels": {"a": "b", "e.com/x": "", "e.com/y": "a_b.c-d"}}),
        json!({"labels": {"": "b"}}),
        json!({"labels": {"a b": "b"}}),
        json!({"labels": {"E.com/x": "b"}}),
        json!({"labels": {"e.com/": "b"}}),
        json!({"labels": {"a": "b/c"}}),
        json!({"labels": {"a": "x".repeat(64)}}),
        json!({"labels": {"x".repeat(64): "a"}}),
        json!({"labels": {"a": "-b"}}),
        json!({"annotations": {"a": "any Text, é\n", "e.com/x": ""}}),
        json!({"annotations": {"A_b/c": ""}}),
        json!({"annotations": {"UPPER": "", "e.com/UPPER": ""}}),
        json!({"annotations": {"big": "x".repeat(256 * 1024)}}),
        json!({"annotations": {"big": "x".repeat(256 * 1024 - 3)}}),
        json!({"finalizers": ["e.com/x", "e.com/y"]}),
        json!({"finalizers": ["e.com/x", "e.com/x"]}),
        json!({"finalizers": ["orphan", "foregroundDeletion"]}),
        json!({"ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "u"}]}),
        json!({"ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": "", "uid": ""}]}),
        json!({"ownerReferences": [{"apiVersion": "", "kind": "", "name": "p", "uid": "u"}]}),
        json!({"ownerReferences": [{"apiVersion": "a/b/c", "kind": "Pod", "name": "p", "uid": "u"}]}),
        json!({"ownerReferences": [{"apiVersion": "v1", "kind": "Event", "name": "p", "uid": "u"}]}),
        json!({"ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "u", "controller": true}, {"apiVersion": "v1", "kind": "Pod", "name": "q", "uid": "w", "controller": true}]}),
        json!({"uid": "mine", "resourceVersion": "", "generation": 7, "selfLink": "/x", "creationTimestamp": "2001-01-01T00:00:00Z", "deletionTimestamp": "2001-01-01T00:00:00Z", "deletionGracePeriodSeconds": 5}),
        json!({"resourceVersion": "7"}),
        json!({"creationTimestamp": "never"}),
        json!({"clusterName": "x", "unknown": {"a": 1}}),
        json!({"labels": {"a": null}}),
        json!({"labels": null, "annotations": null, "finalizers": null, "ownerReferences": null}),
        json!({"labels": {}, "annotations": {}, "finalizers": [], "ownerReferences": []}),
        json!({"managedFields": [{"manager": "x", "operation": "Update", "apiVersion": "v1", "time": "2001-01-01T00:00:00Z", "fieldsType": "FieldsV1", "fieldsV1": {"f:data": {}}}]}),
        json!({"labels": {"a": 1}}),
        json!({"labels": ["a"]}),
        json!({"annotations": {"a": {"b": 1}}}),
        json!({"finalizers": "x"}),
    ]
    .into_iter()
    .enumerate()
    {
        let mut metadata = more;
        metadata["name"] = json!(format!("rule{number}"));
        let ask = create(of, metadata.clone());
        // The texts of these are those of Go's decoder.
        let decoded = metadata.to_string();
        let decoded = ["\"a\":1", "[\"a\"]", "{\"b\":1}", "\"finalizers\":\"x\"", "never"].iter().any(|text| decoded.contains(text));
        let ask = if decoded { ask.free_text() } else { ask };
        script.push(tolerated(number, ask));
    }
    script
}

/// What is known of some of them.
fn tolerated(number: usize, ask: Ask) -> Ask {
    match number {
        22 => ask.free_text(),
        23 => ask
            .may_differ("kinds without generations ignore a sent one")
            .only_in(&["/body/metadata/generation"]),
        25 => ask.tolerate("fields that the server sets are not checked"),
        27 => ask
            .tolerate("a null label is kept; the real server makes it empty")
            .only_in(&["/body/metadata/labels"]),
        _ => ask,
    }
}

fn generations() -> Script {
    let one = format!("{BUOYS}/gen");
    script![
        post(
            BUOYS,
            json!({"apiVersion": "$group/v1", "kind": "Buoy", "metadata": {"name": "gen"}, "spec": {"a": 1}, "status": {"b": 1}, "other": 1})
        ),
        patch(&one, MERGE, json!({"spec": {"a": 2}})),
        patch(&one, MERGE, json!({"spec": {"a": 2}})),
        patch(&one, MERGE, json!({"metadata": {"labels": {"a": "b"}}})),
        patch(&one, MERGE, json!({"status": {"b": 2}})),
        patch(
            &format!("{one}/status"),
            MERGE,
            json!({"status": {"b": 3}, "spec": {"a": 9}, "metadata": {"labels": {"x": "y"}, "finalizers": ["e.com/x"]}})
        ),
        patch(
            &one,
            MERGE,
            json!({"metadata": {"generation": 99, "finalizers": ["e.com/x"]}})
        ),
        super::super::step::delete(&one),
        patch(&one, MERGE, json!({"spec": {"a": 3}})),
        patch(&one, MERGE, json!({"metadata": {"finalizers": []}})),
    ]
}

fn updates() -> Script {
    let one = format!("{BUOYS}/upd");
    let whole = |metadata: Value| {
        put(
            &one,
            json!({"apiVersion": "$group/v1", "kind": "Buoy", "metadata": metadata, "spec": {"a": 1}}),
        )
    };
    let map = |metadata: Value| {
        put(
            &format!("{MAPS}/upd"),
            json!({"metadata": metadata, "data": {"a": "1"}}),
        )
    };
    script![
        create(BUOYS, json!({"name": "upd", "labels": {"a": "b"}})).keep("b"),
        whole(json!({"name": "upd"})),
        whole(json!({"name": "upd", "resourceVersion": "0"})),
        whole(json!({"name": "upd", "resourceVersion": "abc"})).free_text(),
        whole(json!({"name": "upd", "resourceVersion": "$rv(b)", "uid": "other"})).free_text(),
        whole(json!({"name": "upd", "resourceVersion": "$rv(b)", "namespace": "other"})),
        whole(json!({"name": "other", "resourceVersion": "$rv(b)"})),
        whole(json!({"resourceVersion": "$rv(b)"})),
        whole(json!({"name": "upd", "resourceVersion": "$rv(b)", "creationTimestamp": "2001-01-01T00:00:00Z", "generation": 50, "selfLink": "x", "deletionTimestamp": "2001-01-01T00:00:00Z"})).keep("b2"),
        whole(json!({"name": "upd", "resourceVersion": "$rv(b)"})),
        whole(json!({"name": "upd", "resourceVersion": "$rv(b2)", "uid": "$uid(b)", "generateName": "x"})),
        put(&format!("{BUOYS}/none"), json!({"apiVersion": "$group/v1", "kind": "Buoy", "metadata": {"name": "none", "resourceVersion": "1"}})),
        put(&format!("{BUOYS}/none"), json!({"apiVersion": "$group/v1", "kind": "Buoy", "metadata": {"name": "none"}})),
        create(MAPS, json!({"name": "upd", "labels": {"a": "b"}})).keep("m"),
        map(json!({"name": "upd"})),
        map(json!({"name": "upd", "resourceVersion": "0"})),
        map(json!({"name": "upd", "resourceVersion": "abc"})).free_text(),
        map(json!({"name": "upd", "resourceVersion": "$rv(m)"})),
        map(json!({"name": "upd", "uid": "other"})).free_text(),
        map(json!({"name": "upd", "uid": "$uid(m)", "creationTimestamp": "2001-01-01T00:00:00Z"})),
        put(&format!("{MAPS}/none"), json!({"metadata": {"name": "none", "resourceVersion": "1"}})),
        put(&format!("{MAPS}/none"), json!({"metadata": {"name": "none", "uid": "x"}})),
    ]
}
