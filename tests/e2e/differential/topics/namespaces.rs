//! Namespaces end with what is in them.

use serde_json::json;

use super::super::step::{
    Condition, MERGE, Script, Topic, delete, get, patch, post, script, until,
};

pub(super) fn topic() -> Topic {
    Topic::new("namespaces", names()).then(namespaces())
}

/// Names and what cannot be deleted.
fn names() -> Script {
    script![
        post(
            "/api/v1/namespaces",
            json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "$ns"}})
        ),
        post(
            "/api/v1/namespaces",
            json!({"metadata": {"name": "Bad_Name"}})
        ),
        post(
            "/api/v1/namespaces",
            json!({"metadata": {"name": "a".repeat(64)}})
        ),
        get("/api/v1/namespaces/missing"),
        delete("/api/v1/namespaces/default"),
        delete("/api/v1/namespaces"),
    ]
}

fn namespaces() -> Script {
    let held = "/api/v1/namespaces/$ns/configmaps/held";
    script![
        post(
            "/api/v1/namespaces/$ns/configmaps",
            json!({"metadata": {"name": "held", "finalizers": ["e.com/x"]}}),
        ),
        delete("/api/v1/namespaces/$ns")
            .tolerate("contents of a namespace are deleted before the answer")
            .only_in(&[
                "/body/metadata/deletionGracePeriodSeconds",
                "/body/status/conditions"
            ]),
        post(
            "/api/v1/namespaces/$ns/configmaps",
            json!({"metadata": {"name": "late"}}),
        ),
        patch(held, MERGE, json!({"metadata": {"finalizers": null}}))
            .may_differ("contents of a namespace are deleted before the answer")
            .only_in(&[
                "/body/metadata/deletionGracePeriodSeconds",
                "/body/metadata/deletionTimestamp"
            ]),
        until("/api/v1/namespaces/$ns", Condition::Code(404)),
    ]
}
