//! Deletion: finalizers, preconditions, options, dry runs, whole collections.

use serde_json::{Value, json};

use super::super::step::{
    Condition, MERGE, Script, Topic, definition, delete, delete_with, done, get, install, patch,
    post, put, script, until,
};

const BUOYS: &str = "/apis/$group/v1/namespaces/$ns/buoys";
const MAPS: &str = "/api/v1/namespaces/$ns/configmaps";

pub(super) fn topic() -> Topic {
    let free = json!({"spec": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}});
    Topic::new("deletion", install(definition("buoys", "Buoy", free)))
        .then(held(BUOYS))
        .then(held(MAPS))
        .then(options(BUOYS))
        .then(options(MAPS))
        .then(collections())
        .then(dry(BUOYS))
        .then(dry(MAPS))
        .then(owned())
}

fn object(of: &str, name: &str) -> Value {
    let mut object = json!({"metadata": {"name": name}});
    if of == BUOYS {
        object["apiVersion"] = json!("$group/v1");
        object["kind"] = json!("Buoy");
    }
    object
}

fn held(of: &str) -> Script {
    let one = format!("{of}/held");
    let mut new = object(of, "held");
    new["metadata"]["finalizers"] = json!(["e.com/a", "e.com/b"]);
    let mut bare = object(of, "held");
    bare["metadata"]["resourceVersion"] = json!("$rv(held)");
    let finalizers = |value: Value| patch(&one, MERGE, json!({"metadata": {"finalizers": value}}));
    script![
        post(of, new.clone()),
        delete(&one),
        delete(&one),
        delete_with(&one, json!({"preconditions": {"uid": "other"}})),
        get(&one).keep("held"),
        post(of, new),
        finalizers(json!(["e.com/a", "e.com/b", "e.com/c"])),
        finalizers(json!(["e.com/c"])),
        finalizers(json!(["e.com/b", "e.com/a"])),
        patch(&one, MERGE, json!({"metadata": {"labels": {"a": "b"}}})),
        patch(
            &one,
            MERGE,
            json!({"metadata": {"deletionTimestamp": null}})
        ),
        patch(
            &one,
            MERGE,
            json!({"metadata": {"deletionGracePeriodSeconds": 77}})
        ),
        finalizers(json!(["e.com/a"])),
        put(&one, bare.clone()),
        get(&one).keep("held"),
        put(&one, bare),
        get(&one),
        finalizers(json!(null)),
        delete(&one),
    ]
}

fn options(of: &str) -> Script {
    let one = format!("{of}/a");
    let with = |options: Value| delete_with(&one, options);
    let again = || done(post(of, object(of, "a")));
    script![
        post(of, object(of, "a")).keep("a"),
        with(json!({"preconditions": {"uid": "$uid(a)", "resourceVersion": "1"}})),
        with(json!({"preconditions": {"uid": "other", "resourceVersion": "$rv(a)"}})),
        with(json!({"preconditions": {"uid": "$uid(a)", "resourceVersion": "$rv(a)"}})),
        again(),
        with(json!({"gracePeriodSeconds": 30})),
        again(),
        with(json!({"gracePeriodSeconds": 0})),
        again(),
        with(json!({"gracePeriodSeconds": -1})),
        until(&one, Condition::Code(404)),
        again(),
        with(json!({"propagationPolicy": "Background"})),
        again(),
        with(json!({"propagationPolicy": "Sideways"})),
        with(json!({"orphanDependents": true, "propagationPolicy": "Background"})),
        with(json!({"kind": "DeleteOptions", "apiVersion": "v1"})),
        again(),
        with(json!({"kind": "DeleteOptions", "apiVersion": "meta.k8s.io/v1"})),
        again(),
        with(json!({"kind": "DeleteOptions", "apiVersion": "$group/v1"})).free_text(),
        done(delete(&format!("{of}?labelSelector=!none"))),
        again(),
        with(json!({"kind": "Other", "apiVersion": "v1"})).free_text(),
        with(json!({"unknown": 1})),
        with(json!("{")).free_text(),
        with(json!("[]")).free_text(),
        with(json!({"gracePeriodSeconds": "x"})).free_text(),
        done(delete(&format!("{of}?labelSelector=!none"))),
        again(),
        delete(&format!(
            "{one}?propagationPolicy=Background&gracePeriodSeconds=0"
        )),
        again(),
        delete(&format!("{one}?propagationPolicy=Sideways")),
        delete(&format!("{one}?gracePeriodSeconds=abc")).free_text(),
        done(delete(&format!("{of}?labelSelector=!none"))),
        again(),
        delete(&format!("{one}/status")),
        delete(&format!("{of}/missing")),
        delete_with(
            &format!("{of}/missing"),
            json!({"preconditions": {"uid": "x"}})
        ),
    ]
}

fn collections() -> Script {
    let mut script = Script::default();
    for of in [BUOYS, MAPS] {
        for (name, colour) in [("a", "red"), ("b", "red"), ("c", "blue"), ("d", "blue")] {
            let mut new = object(of, name);
            new["metadata"]["labels"] = json!({"colour": colour});
            if name == "d" {
                new["metadata"]["finalizers"] = json!(["e.com/x"]);
            }
            let _ = &new;
            script.push(done(delete(&format!(
                "{of}?fieldSelector=metadata.name%3D{name}"
            ))));
            script.push(done(post(of, new)));
        }
        script.push(script![
            delete(&format!("{of}?labelSelector=colour%3Dgreen")),
            delete(&format!("{of}?labelSelector=colour%20red")),
            delete(&format!("{of}?fieldSelector=x%3Dred")),
            delete(&format!("{of}?dryRun=All&labelSelector=colour%3Dred")),
            get(&format!("{of}?labelSelector=colour%3Dred")),
            delete(&format!("{of}?labelSelector=colour%3Dred")),
            get(&format!("{of}?labelSelector=colour")),
            delete_with(
                &format!("{of}?labelSelector=colour"),
                json!({"preconditions": {"uid": "x"}})
            ),
            delete(&format!("{of}?labelSelector=colour&limit=1")),
            get(&format!("{of}?labelSelector=colour")),
            delete(&format!("{of}?labelSelector=colour")),
            patch(
                &format!("{of}/d"),
                MERGE,
                json!({"metadata": {"finalizers": null}})
            ),
            get(&format!("{of}?labelSelector=colour")),
        ]);
    }
    script
}

fn dry(of: &str) -> Script {
    let one = format!("{of}/dry");
    let mut changed = object(of, "dry");
    changed["metadata"]["labels"] = json!({"a": "b"});
    changed["metadata"]["resourceVersion"] = json!("$rv(dry)");
    script![
        post(&format!("{of}?dryRun=All"), object(of, "dry")),
        get(&one),
        post(of, object(of, "dry")).keep("dry"),
        post(&format!("{of}?dryRun=All"), object(of, "dry")),
        put(&format!("{one}?dryRun=All"), changed),
        patch(
            &format!("{one}?dryRun=All"),
            MERGE,
            json!({"metadata": {"labels": {"c": "d"}}})
        ),
        delete(&format!("{one}?dryRun=All")),
        delete_with(&one, json!({"dryRun": ["All"]})),
        delete_with(&one, json!({"dryRun": ["All", "All"]})),
        delete_with(&one, json!({"dryRun": ["None"]})),
        post(&format!("{of}?dryRun="), object(of, "dry2")),
        post(&format!("{of}?dryRun=all"), object(of, "dry2")),
        post(&format!("{of}?dryRun=true"), object(of, "dry2")),
        put(&format!("{one}?dryRun=no"), object(of, "dry")),
        get(&one),
    ]
}

/// Options that a collector of garbage acts upon.
fn owned() -> Script {
    let one = format!("{MAPS}/owner");
    script![
        done(post(MAPS, object(MAPS, "owner")).keep("owner")),
        done(post(
            MAPS,
            json!({"metadata": {"name": "owned", "ownerReferences": [{"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": "$uid(owner)", "blockOwnerDeletion": true}]}})
        )),
        delete_with(&one, json!({"propagationPolicy": "Background"})),
        until(&format!("{MAPS}/owned"), Condition::Code(404)),
    ]
}
