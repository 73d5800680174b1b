use serde_json::json;

use super::*;

fn remote() -> Remote {
    Remote {
        cluster: "abc123".into(),
        namespace: Some("default".into()),
        name: "my-test-thing".into(),
    }
}

#[allow(clippy::needless_pass_by_value, reason = "called with json!")]
fn object(metadata: Value) -> Object {
    Object::new(json!({"apiVersion": "v1", "kind": "Thing", "metadata": metadata})).unwrap()
}

fn marked(change: impl FnOnce(&mut Marks)) -> Object {
    let mut marks = marks(
        &remote(),
        &remote().marked(),
        "agent",
        None,
        CopyOrigin::Created,
    );
    change(&mut marks);
    let mut copy = object(json!({"name": "copy"}));
    for (key, value) in marks.labels() {
        copy.set_label(key, value);
    }
    for (key, value) in marks.annotations() {
        copy.set_annotation(key, value);
    }
    copy
}

fn owner_of(live: &Object) -> Owner {
    owner(live, &remote(), &remote().marked(), "agent")
}

#[test]
fn a_copy_carries_exactly_the_labels_and_annotations_of_the_contract() {
    let copy = marked(|_| {});
    assert_eq!(
        copy.as_value()["metadata"],
        json!({
            "name": "copy",
            "labels": {
                "syncagent.kcp.io/agent-name": "agent",
                "syncagent.kcp.io/remote-object-cluster": "abc123",
                "syncagent.kcp.io/remote-object-name-hash": "c346c8ceb5d104cc783d09b95e8ea7032c190948",
                "syncagent.kcp.io/remote-object-namespace-hash": "7505d64a54e061b7acd54ccd58b49dc43500b635",
            },
            "annotations": {
                "syncagent.kcp.io/remote-object-name": "my-test-thing",
                "syncagent.kcp.io/remote-object-namespace": "default",
            },
        })
    );
    let with_path = marks(
        &remote(),
        &remote().marked(),
        "agent",
        Some("root:org"),
        CopyOrigin::Adopted,
    );
    assert_eq!(with_path.identity.annotations[WORKSPACE_PATH], "root:org");
    assert_eq!(with_path.extra.annotations[ADOPTED], "true");
}

#[test]
fn a_cluster_scoped_object_has_no_namespace_in_its_marks() {
    let remote = Remote {
        namespace: None,
        ..remote()
    };
    let marks = marks(
        &remote,
        &remote.marked(),
        "agent",
        Some(""),
        CopyOrigin::Created,
    );
    assert_eq!(marks.identity.labels.len(), 2);
    assert_eq!(marks.identity.annotations.len(), 1);
}

#[test]
fn an_object_without_marks_belongs_to_nobody() {
    let live = object(json!({"name": "copy", "labels": {"app": "db"}}));
    assert_eq!(owner_of(&live), Owner::Nobody);
}

#[test]
fn a_copy_of_this_source_is_ours_even_where_a_label_was_lost() {
    assert_eq!(owner_of(&marked(|_| {})), Owner::Ours(CopyOrigin::Created));
    let lost = marked(|marks| {
        marks.identity.labels.remove(NAME_HASH);
        marks.extra.labels.remove(AGENT_NAME);
    });
    assert_eq!(owner_of(&lost), Owner::Ours(CopyOrigin::Created));
    let adopted = marked(|marks| {
        marks
            .extra
            .annotations
            .insert(ADOPTED.into(), "true".into());
    });
    assert_eq!(owner_of(&adopted), Owner::Ours(CopyOrigin::Adopted));
}

#[test]
fn an_object_of_another_source_tenant_or_agent_is_not_ours() {
    #[track_caller]
    fn check(who: &str, change: impl FnOnce(&mut Marks)) {
        match owner_of(&marked(change)) {
            Owner::Other(found) => assert!(found.contains(who), "{found}"),
            other => panic!("{other:?}"),
        }
    }
    check("the agent other", |m| {
        m.extra.labels.insert(AGENT_NAME.into(), "other".into());
    });
    check("xyz|default/my-test-thing", |m| {
        m.identity.labels.insert(CLUSTER.into(), "xyz".into());
    });
    check("the state of an agent", |m| {
        m.extra.labels.insert(OBJECT_STATE.into(), "true".into());
    });
}

#[test]
fn all_labels_together_say_whose_a_copy_is_and_names_only_where_one_is_missing() {
    let renamed = |labels: bool| {
        marked(|marks| {
            let annotations = &mut marks.identity.annotations;
            annotations.insert(NAME.into(), "other-thing".into());
            if !labels {
                marks.identity.labels.remove(NAME_HASH);
            }
        })
    };
    let ours = owner_of(&renamed(true));
    assert_eq!(ours, Owner::Ours(CopyOrigin::Created));
    let others = owner_of(&renamed(false));
    let who = "the object abc123|default/other-thing".into();
    assert_eq!(others, Owner::Other(who));
}

#[test]
fn what_never_travels_is_taken_out_and_everything_else_stays() {
    let mut source = object(json!({
        "name": "a", "namespace": "b", "uid": "1", "resourceVersion": "2", "generation": 3,
        "creationTimestamp": "now", "finalizers": ["x"], "ownerReferences": [{}],
        "managedFields": [], "selfLink": "/",
        "labels": {
            "app": "db", "claimed.internal.apis.kcp.io/1": "2",
            "syncagent.kcp.io/agent-name": "spoof", "syncagent.kcp.io/object-state": "true",
            "syncagent.kcp.io/remote-object-cluster": "spoof",
        },
        "annotations": {
            "note": "hi", "kcp.io/cluster": "c", "syncagent.kcp.io/adopted": "spoof",
            "kubectl.kubernetes.io/last-applied-configuration": "{}",
            "related-resources.syncagent.kcp.io/creds.0": "{}",
        },
    }));
    strip(&mut source);
    assert_eq!(
        source.as_value()["metadata"],
        json!({"name": "a", "namespace": "b", "labels": {"app": "db"}, "annotations": {"note": "hi"}})
    );
}

#[test]
fn maps_that_become_empty_are_removed() {
    let mut source = object(json!({
        "name": "a", "labels": {"syncagent.kcp.io/agent-name": "spoof"}, "annotations": null,
    }));
    strip(&mut source);
    assert_eq!(source.as_value()["metadata"], json!({"name": "a"}));
}
