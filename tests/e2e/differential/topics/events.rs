//! Events in both views.

use serde_json::json;

use super::super::step::{Script, Topic, delete, get, post, script};

pub(super) fn topic() -> Topic {
    Topic::new("events", events())
}

fn events() -> Script {
    let core = "/api/v1/namespaces/$ns/events";
    let view = "/apis/events.k8s.io/v1/namespaces/$ns/events";
    script![
        post(
            core,
            json!({"metadata": {"name": "a"}, "involvedObject": {"namespace": "$ns", "name": "x"}, "reason": "R", "message": "M", "type": "Normal", "count": 1}),
        ),
        get(&format!("{view}/a")),
        post(
            core,
            json!({"metadata": {"name": "b"}, "involvedObject": {"namespace": "elsewhere"}}),
        ),
        post(
            view,
            json!({"metadata": {"name": "c"}, "regarding": {"namespace": "$ns"}}),
        ),
        post(
            core,
            json!({"metadata": {"name": "long".repeat(64)}, "involvedObject": {"namespace": "$ns"}}),
        ),
        delete(&format!("{core}/a")),
    ]
}
