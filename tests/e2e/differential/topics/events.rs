//! Events in both views: `v1` and `events.k8s.io/v1` show one object.

use serde_json::{Value, json};

use super::super::step::{
    JSON, MERGE, STRATEGIC, Script, Topic, Until, ask, delete, events as told, get, patch, post,
    put, script, watch,
};

const CORE: &str = "/api/v1/namespaces/$ns/events";
const VIEW: &str = "/apis/events.k8s.io/v1/namespaces/$ns/events";

pub(super) fn topic() -> Topic {
    Topic::new("events", of_core())
        .then(of_view())
        .then(times())
        .then(refusals())
        .then(selectors())
        .then(watches())
        .then(ends())
}

fn of_core() -> Script {
    script![
        post(
            CORE,
            json!({"metadata": {"name": "a"}, "involvedObject": {"namespace": "$ns", "name": "x", "kind": "Pod", "uid": "u-1", "apiVersion": "v1", "fieldPath": "spec.a"}, "reason": "R", "message": "M", "type": "Normal", "count": 1, "source": {"component": "kubelet", "host": "h"}, "firstTimestamp": "2026-01-02T03:04:05Z"}),
        )
        .keep("a"),
        get(&format!("{CORE}/a")),
        get(&format!("{VIEW}/a")),
        patch(
            &format!("{CORE}/a"),
            STRATEGIC,
            json!({"count": 2, "lastTimestamp": "2026-01-02T03:05:05Z"}),
        ),
        get(&format!("{VIEW}/a")),
        patch(
            &format!("{CORE}/a"),
            STRATEGIC,
            json!({"count": 2, "lastTimestamp": "2026-01-02T03:05:05Z"}),
        ),
        patch(
            &format!("{VIEW}/a"),
            MERGE,
            json!({"metadata": {"labels": {"l": "v"}}}),
        ),
        patch(&format!("{VIEW}/a"), MERGE, json!({"note": "other"})),
        get(&format!("{CORE}/a")),
        put(
            &format!("{CORE}/a"),
            json!({"metadata": {"name": "a", "resourceVersion": "$rv(a)"}, "involvedObject": {"namespace": "$ns"}}),
        ),
        put(
            &format!("{CORE}/a"),
            json!({"metadata": {"name": "a"}, "involvedObject": {"namespace": "$ns"}, "message": ""}),
        ),
        get(&format!("{VIEW}/a")),
        post(CORE, json!({"metadata": {"name": "plain"}, "involvedObject": {"namespace": "$ns"}})),
        post(CORE, json!({"metadata": {"name": "plain"}, "involvedObject": {"namespace": "$ns"}})),
        post(VIEW, json!({"metadata": {"name": "plain"}, "regarding": {"namespace": "$ns"}, "eventTime": "2026-01-02T03:04:05.000001Z", "reportingController": "c", "reportingInstance": "i", "action": "A", "reason": "R", "type": "Normal"})),
        get(&format!("{VIEW}/missing")),
        get(&format!("{CORE}/missing")),
        delete(&format!("{VIEW}/missing")),
    ]
}

fn of_view() -> Script {
    let event = json!({
        "metadata": {"name": "n"}, "regarding": {"namespace": "$ns", "name": "y", "kind": "Pod"},
        "related": {"namespace": "$ns", "name": "z", "kind": "Node"},
        "eventTime": "2026-01-02T03:04:05.000001Z", "reportingController": "example.com/c",
        "reportingInstance": "c-1", "action": "Bound", "reason": "R", "note": "N", "type": "Warning",
    });
    let mut changed = event.clone();
    changed["note"] = "other".into();
    changed["reason"] = "Other".into();
    let mut all = changed.clone();
    for (field, value) in [
        ("regarding", json!({"namespace": "$ns", "name": "other"})),
        ("related", json!(null)),
        ("eventTime", json!("2026-01-02T03:04:06.000001Z")),
        ("reportingController", json!("other")),
        ("reportingInstance", json!("other")),
        ("action", json!("Other")),
        ("type", json!("Normal")),
        ("deprecatedCount", json!(2)),
        ("deprecatedSource", json!({"component": "x"})),
        ("deprecatedFirstTimestamp", json!("2026-01-02T03:04:06Z")),
        ("deprecatedLastTimestamp", json!("2026-01-02T03:04:06Z")),
    ] {
        all[field] = value;
    }
    let mut counted = event.clone();
    counted["series"] = json!({"count": 2, "lastObservedTime": "2026-01-02T03:05:05.000002Z"});
    script![
        post(VIEW, event).keep("n"),
        get(&format!("{CORE}/n")),
        get(&format!("{VIEW}/n")),
        put(&format!("{VIEW}/n"), changed),
        put(&format!("{VIEW}/n"), all).free_text(),
        put(&format!("{VIEW}/n"), counted),
        get(&format!("{CORE}/n")),
        patch(
            &format!("{VIEW}/n"),
            MERGE,
            json!({"series": {"count": 3, "lastObservedTime": "2026-01-02T03:05:06.000002Z"}}),
        ),
        patch(
            &format!("{VIEW}/n"),
            STRATEGIC,
            json!({"series": {"count": 4}}),
        ),
        get(&format!("{CORE}/n")),
        patch(&format!("{VIEW}/n"), MERGE, json!({"series": null})),
        patch(&format!("{CORE}/n"), MERGE, json!({"message": "by core"})),
        get(&format!("{VIEW}/n")),
    ]
}

fn times() -> Script {
    let of_core = |name: &str, fields: Value| {
        let mut event = json!({"metadata": {"name": name}, "involvedObject": {"namespace": "$ns"}});
        for (field, value) in fields.as_object().into_iter().flatten() {
            event[field] = value.clone();
        }
        post(CORE, event)
    };
    script![
        of_core(
            "t1",
            json!({"firstTimestamp": "2026-01-02T03:04:05+02:00", "lastTimestamp": "2026-01-02T03:04:05.6789Z"}),
        ),
        of_core(
            "t2",
            json!({"firstTimestamp": null, "eventTime": null, "series": null})
        ),
        of_core("t3", json!({"eventTime": "2026-01-02T03:04:05Z"})).free_text(),
        of_core("t4", json!({"firstTimestamp": "yesterday"})).free_text(),
        of_core(
            "t5",
            json!({"eventTime": "2026-01-02T03:04:05.000001+02:00", "reportingComponent": "c", "reportingInstance": "i", "action": "A", "reason": "R"})
        ),
        of_core("t6", json!({"count": "two"})).free_text(),
        of_core(
            "t7",
            json!({"unknown": "field", "note": "of the other view", "count": 0})
        ),
    ]
}

fn refusals() -> Script {
    let long = "x".repeat(1025);
    script![
        post(
            CORE,
            json!({"metadata": {"name": "b"}, "involvedObject": {"namespace": "elsewhere"}})
        ),
        post(
            CORE,
            json!({"metadata": {"name": "b"}, "involvedObject": {}})
        ),
        post(
            VIEW,
            json!({"metadata": {"name": "c"}, "regarding": {"namespace": "$ns"}})
        ),
        post(
            VIEW,
            json!({"metadata": {"name": "c"}, "regarding": {"namespace": "$ns"}, "type": "Odd", "eventTime": "2026-01-02T03:04:05.000001Z"})
        ),
        post(
            VIEW,
            json!({"metadata": {"name": "c"}, "regarding": {"namespace": "$ns"}, "type": "Normal", "eventTime": "2026-01-02T03:04:05.000001Z", "reportingController": "no name!", "reportingInstance": "i".repeat(129), "action": "a".repeat(129), "reason": "r".repeat(129), "note": long})
        ),
        post(
            VIEW,
            json!({"metadata": {"name": "c"}, "regarding": {"namespace": "$ns"}, "type": "Normal", "eventTime": "2026-01-02T03:04:05.000001Z", "reportingController": "c", "reportingInstance": "i", "action": "a", "reason": "r", "deprecatedCount": 1, "deprecatedFirstTimestamp": "2026-01-02T03:04:05Z", "deprecatedLastTimestamp": "2026-01-02T03:04:05Z", "deprecatedSource": {"component": "x"}})
        ),
        post(
            CORE,
            json!({"metadata": {"name": "d"}, "involvedObject": {"namespace": "$ns"}, "eventTime": "2026-01-02T03:04:05.000001Z"})
        ),
        post(
            "/apis/events.k8s.io/v1/namespaces/$ns/events",
            json!({"apiVersion": "v1", "kind": "Event", "metadata": {"name": "d"}})
        ),
        ask(http::Method::POST, CORE, JSON, "{").free_text(),
    ]
}

fn selectors() -> Script {
    let list = |path: &str, selector: &str| {
        let selector = selector.replace('=', "%3D");
        get(&format!("{path}?fieldSelector={selector}"))
    };
    script![
        post(
            CORE,
            json!({"metadata": {"name": "s"}, "involvedObject": {"namespace": "$ns", "kind": "Pod", "name": "p", "uid": "u"}, "source": {"component": "me"}, "reason": "Because", "type": "Warning"})
        ),
        post(
            CORE,
            json!({"metadata": {"name": "s2"}, "involvedObject": {"namespace": "$ns"}, "reportingComponent": "me"})
        ),
        list(CORE, "involvedObject.kind=Pod,reason=Because"),
        list(CORE, "involvedObject.uid=u"),
        list(CORE, "source=me"),
        list(CORE, "reportingComponent=me"),
        list(CORE, "type=Warning"),
        list(CORE, "regarding.kind=Pod"),
        list(CORE, "message=x"),
        list(VIEW, "regarding.kind=Pod,reason=Because"),
        list(VIEW, "regarding.name!=p"),
        list(VIEW, "reportingController=me"),
        list(VIEW, "involvedObject.kind=Pod"),
        list(VIEW, "source=me"),
        list(VIEW, "metadata.name=s,metadata.namespace=$ns"),
    ]
}

fn watches() -> Script {
    script![
        get(&format!("{VIEW}?limit=1")).keep("list"),
        watch(
            "core",
            &format!("{CORE}?watch=true&resourceVersion=$rv(list)")
        ),
        watch(
            "view",
            &format!(
                "{VIEW}?watch=true&resourceVersion=$rv(list)&fieldSelector=regarding.kind%3DPod"
            ),
        ),
        post(
            CORE,
            json!({"metadata": {"name": "w"}, "involvedObject": {"namespace": "$ns", "kind": "Pod"}, "message": "m"})
        ),
        patch(&format!("{CORE}/w"), MERGE, json!({"count": 7})),
        patch(
            &format!("{CORE}/w"),
            MERGE,
            json!({"involvedObject": {"kind": "Node"}})
        ),
        delete(&format!("{VIEW}/w")),
        told("core", Until::Seen("DELETED", "w")),
        told("view", Until::Seen("DELETED", "w")),
    ]
}

fn ends() -> Script {
    script![
        delete(&format!("{CORE}/a?propagationPolicy=Foreground")),
        delete(&format!("{VIEW}/plain?propagationPolicy=Orphan")),
        delete(&format!("{VIEW}?labelSelector=none%3Dof")),
        delete(&format!("{VIEW}?fieldSelector=type%3DWarning")),
        get(CORE),
        post(
            CORE,
            json!({"metadata": {"name": "long".repeat(64)}, "involvedObject": {"namespace": "$ns"}}),
        )
        .tolerate("names of events have at most 253 characters"),
    ]
}
