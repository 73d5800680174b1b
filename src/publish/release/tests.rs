use std::sync::Arc;

use kube_lang::object::{Gvk, merge_patch};
use serde_json::json;

use super::*;
use crate::publish::marks::{Remote, marks};
use hawser_sync::{CopyOrigin, Scope, Side};

/// An object with metadata that others made.
fn live(name: &str, change: impl FnOnce(&mut Object)) -> LiveObject {
    let mut object = Object::new(json!({
        "apiVersion": "v1", "kind": "Thing", "spec": {"size": 1},
        "metadata": {"name": name, "uid": "u", "resourceVersion": "7"},
    }))
    .unwrap();
    change(&mut object);
    let kind = Arc::new(Gvk::new("", "v1", "Thing"));
    LiveObject {
        key: Scope::new(&Side::new("service"), &kind, "").key(None, name),
        resource: "things".to_owned(),
        object,
    }
}

fn mark(copy: &mut Object, made: CopyOrigin) {
    let remote = Remote {
        cluster: "abc".into(),
        namespace: Some("default".into()),
        name: "lamp".into(),
    };
    let marks = marks(&remote, "agent", Some("root:org"), made);
    for (key, value) in marks.labels() {
        copy.set_label(key, value);
    }
    for (key, value) in marks.annotations() {
        copy.set_annotation(key, value);
    }
}

fn annotate(object: &mut Object) {
    object.set_annotation("related-resources.syncagent.kcp.io/creds.0", "{}");
    object.set_annotation("syncagent.kcp.io/synced", "True");
    object.set_annotation("syncagent.kcp.io/synced-generation", "3");
}

fn hold(object: &mut Object, finalizers: &[&str]) {
    let metadata = object.metadata_mut();
    metadata.insert("finalizers".to_owned(), json!(finalizers));
}

/// What is left of an object after the only write to it.
fn after(marked: &Marked, live: &LiveObject) -> Value {
    let writes = marked.writes();
    assert_eq!(writes.len(), 1, "{writes:#?}");
    let patch = writes[0].patch.as_ref().unwrap();
    assert_eq!(patch["metadata"]["uid"], "u");
    assert_eq!(patch["metadata"]["resourceVersion"], "7");
    let mut value = live.object.as_value().clone();
    merge_patch::apply(&mut value, patch);
    value
}

#[test]
fn the_state_follows_the_originals_that_only_it_records_and_the_object_comes_last() {
    let finalizer = marks::FINALIZER;
    let marked = Marked {
        originals: vec![(
            live("original", |one| hold(one, &[finalizer])),
            finalizer.to_owned(),
        )],
        state: Some(live("state", |_| {})),
        copies: vec![live("copy", |copy| mark(copy, CopyOrigin::Created))],
        object: Some(live("lamp", |one| hold(one, &[finalizer]))),
    };
    let writes = marked.writes();
    let order: Vec<_> = writes
        .iter()
        .map(|write| (write.verb(), &*write.key.name))
        .collect();
    assert_eq!(
        order,
        [
            ("patch", "original"),
            ("delete", "state"),
            ("patch", "copy"),
            ("patch", "lamp")
        ]
    );
    let state = &writes[1];
    assert_eq!(state.uid.as_deref(), Some("u"));
    assert_eq!(state.version.as_deref(), Some("7"));
}

#[test]
fn without_its_marks_a_copy_is_what_it_was() {
    for made in [CopyOrigin::Created, CopyOrigin::Adopted] {
        let bare = live("copy", |_| {});
        let with_others = live("copy", |copy| {
            copy.set_label("colour", "red");
            copy.set_annotation("syncagent.kcp.io/pause-by", "anna");
            hold(copy, &["example.com/keep"]);
        });
        for before in [bare, with_others] {
            let mut copy = before.clone();
            mark(&mut copy.object, made);
            let marked = Marked {
                copies: vec![copy.clone()],
                ..Marked::default()
            };
            assert_eq!(after(&marked, &copy), *before.object.as_value());
        }
    }
}

#[test]
fn without_its_marks_an_object_is_what_it_was() {
    let bare = live("lamp", |_| {});
    let with_others = live("lamp", |one| {
        one.set_annotation("note", "mine");
        hold(one, &["example.com/keep"]);
    });
    for before in [bare, with_others] {
        let mut object = before.clone();
        annotate(&mut object.object);
        let others: Vec<_> = before.object.finalizers().collect();
        hold(
            &mut object.object,
            &[&[marks::FINALIZER], &*others].concat(),
        );
        let marked = Marked {
            object: Some(object.clone()),
            ..Marked::default()
        };
        assert_eq!(after(&marked, &object), *before.object.as_value());
    }
}

#[test]
fn nothing_is_left_to_do_without_marks() {
    let marked = Marked {
        originals: vec![(live("original", |_| {}), marks::FINALIZER.to_owned())],
        state: None,
        copies: vec![live("copy", |copy| copy.set_label("colour", "red"))],
        object: Some(live("lamp", |one| hold(one, &["example.com/keep"]))),
    };
    assert_eq!(marked.writes(), []);
}
