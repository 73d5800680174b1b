use std::sync::Arc;

use kube_lang::object::{Gvk, merge_patch};
use serde_json::json;

use super::*;
use crate::publish::marks::{FINALIZER, Remote, marks};
use hawser_sync::{CopyOrigin, Scope, Side};

fn agent(name: &str, namespace: &str) -> AgentIdentity {
    AgentIdentity {
        name: name.to_owned(),
        namespace: namespace.to_owned(),
    }
}

fn own() -> AgentIdentity {
    agent("agent", "hawser")
}

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
    let marks = marks(&remote, &remote.marked(), "agent", Some("root:org"), made);
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

/// A lamp with a state, a copy and a related original.
fn synced() -> Marked {
    Marked {
        originals: vec![(
            live("original", |one| hold(one, &[FINALIZER])),
            FINALIZER.to_owned(),
        )],
        states: vec![live("state", |_| {})],
        copies: vec![live("copy", |copy| mark(copy, CopyOrigin::Created))],
        object: Some(live("lamp", |one| hold(one, &[FINALIZER]))),
        is_held: false,
    }
}

fn all_of(marked: &mut Marked) -> Vec<&mut LiveObject> {
    let originals = marked.originals.iter_mut().map(|(one, _)| one);
    let others = marked.states.iter_mut().chain(&mut marked.copies);
    originals.chain(others).chain(&mut marked.object).collect()
}

/// The same after a write, as the next look finds it.
fn after_write(mut marked: Marked, write: &ReleaseWrite) -> Marked {
    let name = write.key.name.clone();
    match &write.patch {
        Some(patch) => {
            let all = all_of(&mut marked).into_iter();
            for live in all.filter(|live| live.key.name == name) {
                let mut value = live.object.as_value().clone();
                merge_patch::apply(&mut value, patch);
                live.object = Object::new(value).unwrap();
            }
        }
        None => marked.states.retain(|state| state.key.name != name),
    }
    // Only the state leads to originals, and copies are found by their labels.
    if marked.states.is_empty() {
        marked.originals.clear();
    }
    marked
        .copies
        .retain(|copy| copy.object.label(crate::publish::marks::CLUSTER).is_some());
    marked
}

fn order(writes: &[ReleaseWrite]) -> Vec<(&'static str, &str)> {
    let all = writes.iter();
    all.map(|write| (write.verb(), &*write.key.name)).collect()
}

#[test]
fn the_state_follows_the_originals_that_only_it_records_and_the_object_comes_last() {
    let writes = synced().writes(&own());
    let wanted = [
        ("patch", "lamp"),
        ("patch", "original"),
        ("delete", "state"),
        ("patch", "copy"),
        ("patch", "lamp"),
    ];
    assert_eq!(order(&writes), wanted);
    let options = writes[2].body(None);
    assert_eq!(
        options["preconditions"],
        json!({"uid": "u", "resourceVersion": "7"})
    );
    let last = writes[4].body(Some("8"));
    assert_eq!(last["metadata"]["resourceVersion"], "8");
    assert_eq!(last["metadata"]["uid"], "u");
    assert_eq!(last["metadata"]["finalizers"], Value::Null);
}

#[test]
fn a_release_that_ends_after_any_write_is_finished_by_the_next() {
    for has_object in [true, false] {
        let mut begun = synced();
        begun.object = begun.object.filter(|_| has_object);
        let writes = begun.writes(&own());
        for made in 0..=writes.len() {
            let left = writes[..made].iter().fold(begun.clone(), after_write);
            assert_eq!(left.copy_without_state(&own()), None, "{made}");
            let rest = left.writes(&own());
            assert_eq!(order(&rest), order(&writes[made..]), "{made}");
            let mut last = rest.iter().fold(left, after_write);
            for live in all_of(&mut last) {
                let text = live.object.as_value().to_string();
                assert!(!text.contains("syncagent.kcp.io"), "{made}: {text}");
            }
            assert_eq!(last.writes(&own()), []);
        }
    }
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
            let begun = Marked {
                copies: vec![copy],
                ..synced()
            };
            let mut value = begun.copies[0].object.as_value().clone();
            for write in begun
                .writes(&own())
                .iter()
                .filter(|write| &*write.key.name == "copy")
            {
                merge_patch::apply(&mut value, write.patch.as_ref().unwrap());
            }
            assert_eq!(value, *before.object.as_value());
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
        hold(&mut object.object, &[&[FINALIZER], &*others].concat());
        let begun = Marked {
            object: Some(object),
            ..synced()
        };
        let writes = begun.writes(&own());
        let last = writes.iter().fold(begun, after_write);
        assert_eq!(last.object.unwrap().object, before.object);
    }
}

#[test]
fn an_object_without_a_state_or_copy_of_this_agent_keeps_its_marks() {
    let of_others = Marked {
        object: synced().object,
        ..Marked::default()
    };
    assert_eq!(of_others.writes(&own()), []);
    // Nor does the release of another agent, or of one with other states, say whose they are.
    for other in [agent("other", "hawser"), agent("agent", "elsewhere")] {
        let writes = synced().writes(&other);
        let left = writes[..4].iter().fold(synced(), after_write);
        assert_eq!(order(&left.writes(&other)), [("patch", "lamp")]);
        assert_eq!(left.writes(&own()), []);
    }
}

#[test]
fn the_states_of_a_copy_without_one_are_elsewhere_unless_its_release_has_begun() {
    let misplaced = Marked {
        states: Vec::new(),
        ..synced()
    };
    assert_eq!(&*misplaced.copy_without_state(&own()).unwrap().name, "copy");
    let elsewhere = agent("agent", "elsewhere");
    let begun = after_write(misplaced, &synced().writes(&own())[0]);
    assert_eq!(begun.copy_without_state(&own()), None);
    assert!(begun.copy_without_state(&elsewhere).is_some());
}

#[test]
fn an_object_that_something_else_needs_keeps_its_finalizer_only() {
    let mut shared = Marked {
        is_held: true,
        ..synced()
    };
    annotate(&mut shared.object.as_mut().unwrap().object);
    let writes = shared.writes(&own());
    let last = writes.iter().fold(shared, after_write);
    let object = last.object.unwrap().object;
    assert!(object.has_finalizer(FINALIZER));
    assert_eq!(object.annotations().count(), 0);
}

#[test]
fn the_name_of_a_copy_without_marks_leads_to_its_object() {
    let mut begun = synced();
    let key = &mut begun.copies[0].key;
    *key = key.scope().key(Some("ns"), &key.name);
    let writes = begun.writes(&own());
    let left = writes[..4].iter().fold(begun, after_write);
    let object = left.object.unwrap().object;
    let text = object.annotation(crate::publish::marks::RELEASING).unwrap();
    assert!(!text.contains("copy") && !text.contains("agent"), "{text}");
    let witness = Witness::read(&object, &own()).unwrap();
    for (namespace, name, is_it) in [
        (None, "copy", true),
        (Some("ns"), "copy", true),
        (Some("other"), "copy", false),
        (None, "lamp", false),
    ] {
        assert_eq!(
            witness.names(namespace, name),
            is_it,
            "{namespace:?} {name}"
        );
    }
}
