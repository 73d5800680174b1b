use std::time::Duration;

use super::*;
use hawser_sync::{Scope, Side};
use kube_lang::object::Gvk;

fn about(namespace: Option<&str>, name: &str) -> InvolvedObject {
    let kind = Arc::new(Gvk::new("a.b", "v1", "Thing"));
    InvolvedObject {
        key: Scope::new(&Side::new("kcp"), &kind, "cluster").key(namespace, name),
        uid: Some("uid-1".into()),
    }
}

fn event(about: &InvolvedObject, first: Duration) -> Value {
    let text = EventText {
        component: "some-agent".into(),
        kind: "Warning",
        reason: "ReconcilingError".into(),
        message: "No.".to_owned(),
    };
    let draft = Draft {
        about,
        text: &text,
        counted: Counted { count: 3, first },
        now: "2026-01-02T12:00:00.999Z".parse().unwrap(),
        unique: "0123",
    };
    draft.object()
}

#[test]
fn an_event_is_what_the_original_writes() {
    assert_eq!(
        event(&about(Some("ns"), "thing"), Duration::from_mins(10)),
        json!({
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": { "namespace": "ns", "name": "thing.0123" },
            "involvedObject": {
                "apiVersion": "a.b/v1", "kind": "Thing", "namespace": "ns", "name": "thing",
                "uid": "uid-1",
            },
            "reason": "ReconcilingError",
            "message": "No.",
            "type": "Warning",
            "source": { "component": "some-agent" },
            "reportingComponent": "some-agent",
            "reportingInstance": "",
            "firstTimestamp": "2026-01-02T11:50:00Z",
            "lastTimestamp": "2026-01-02T12:00:00Z",
            "count": 3,
        })
    );
}

#[test]
fn events_of_cluster_scoped_objects_are_in_the_default_namespace() {
    let event = event(&about(None, "thing"), Duration::ZERO);
    assert_eq!(event["metadata"]["namespace"], "default");
    assert_eq!(event["involvedObject"].get("namespace"), None);
}

#[test]
fn a_time_before_all_time_is_now() {
    let event = event(&about(None, "thing"), Duration::MAX);
    assert_eq!(event["firstTimestamp"], event["lastTimestamp"]);
}

#[track_caller]
fn check_name(object: &str, expected: &str) {
    assert_eq!(name(object, "0123"), expected);
}

#[test]
fn the_name_of_an_event_is_a_name_whatever_the_object_is_called() {
    check_name("thing", "thing.0123");
    check_name("a.b-c", "a.b-c.0123");
    check_name("system:thing", "object.0123");
    check_name("Thing", "object.0123");
    check_name("", "object.0123");
    check_name("a..b", "object.0123");
    check_name(&"x".repeat(253), &format!("{}.0123", "x".repeat(248)));
    let dots = format!("{}.-{}", "x".repeat(246), "y".repeat(5));
    check_name(&dots, &format!("{}.0123", "x".repeat(246)));
    check_name(&"ä".repeat(200), "object.0123");
}
