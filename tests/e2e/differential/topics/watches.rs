//! Watches in every mode, and what their events are.

use serde_json::{Value, json};

use super::super::step::{
    Condition, MERGE, Script, Topic, Until, definition, delete, done, events, get, install, patch,
    post, put, script, until, watch,
};

const BUOYS: &str = "/apis/$group/v1/namespaces/$ns/buoys";

pub(super) fn topic() -> Topic {
    Topic::new("watches", install(definition("buoys", "Buoy", json!({"spec": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}, "status": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}))))
        .then(starts())
        .then(selections())
        .then(single())
        .then(initial())
        .then(refused())
        .then(ends())
        .then(built_in())
        .then(namespaces())
}

fn buoy(name: &str, labels: Value) -> Value {
    json!({"apiVersion": "$group/v1", "kind": "Buoy", "metadata": {"name": name, "labels": labels}, "spec": {"name": name}})
}

/// From a revision, from now, from anywhere.
fn starts() -> Script {
    let one = format!("{BUOYS}/a");
    script![
        done(post(BUOYS, buoy("a", json!({"lit": "yes"}))).keep("a")),
        watch("unset", &format!("{BUOYS}?watch=true")),
        watch("zero", &format!("{BUOYS}?watch=true&resourceVersion=0")),
        watch(
            "exact",
            &format!("{BUOYS}?watch=true&resourceVersion=$rv(a)")
        ),
        watch(
            "everywhere",
            "/apis/$group/v1/buoys?watch=1&resourceVersion=$rv(a)"
        ),
        post(BUOYS, buoy("b", json!({}))),
        patch(&one, MERGE, json!({"spec": {"depth": 5}})),
        // Nothing changes, so nothing is told.
        patch(&one, MERGE, json!({"spec": {"depth": 5}})),
        patch(
            &format!("{one}/status"),
            MERGE,
            json!({"status": {"afloat": true}})
        ),
        patch(
            &one,
            MERGE,
            json!({"metadata": {"finalizers": ["e.com/x"]}})
        ),
        delete(&one),
        delete(&one),
        patch(&one, MERGE, json!({"metadata": {"finalizers": null}})),
        delete(&format!("{BUOYS}/b")),
        events("unset", Until::Seen("DELETED", "b")),
        events("zero", Until::Seen("DELETED", "b")),
        events("exact", Until::Seen("DELETED", "b")),
        events("everywhere", Until::Seen("DELETED", "b")),
        watch(
            "again",
            &format!("{BUOYS}?watch=true&resourceVersion=$rv(a)")
        ),
        events("again", Until::Seen("DELETED", "b")),
        get(BUOYS),
    ]
}

/// Objects that come into a selection and leave it.
fn selections() -> Script {
    let one = format!("{BUOYS}/c");
    let label = |value: Value| patch(&one, MERGE, json!({"metadata": {"labels": {"lit": value}}}));
    script![
        done(get(BUOYS).keep("list")),
        watch(
            "lit",
            &format!("{BUOYS}?watch=true&labelSelector=lit%3Dyes&resourceVersion=$rv(list)")
        ),
        watch(
            "dark",
            &format!("{BUOYS}?watch=true&labelSelector=lit!%3Dyes&resourceVersion=$rv(list)")
        ),
        watch(
            "set",
            &format!(
                "{BUOYS}?watch=true&labelSelector=lit%20in%20(yes,no),x&resourceVersion=$rv(list)"
            )
        ),
        watch(
            "named",
            &format!(
                "{BUOYS}?watch=true&fieldSelector=metadata.name!%3Dd&resourceVersion=$rv(list)"
            )
        ),
        post(BUOYS, buoy("c", json!({"lit": "no"}))),
        label(json!("yes")),
        patch(&one, MERGE, json!({"metadata": {"labels": {"x": "1"}}})),
        patch(&one, MERGE, json!({"spec": {"depth": 1}})),
        label(json!("no")),
        label(json!(null)),
        label(json!("yes")),
        post(BUOYS, buoy("d", json!({"lit": "yes", "x": ""}))),
        delete(&one),
        delete(&format!("{BUOYS}/d")),
        post(BUOYS, buoy("end", json!({"lit": "yes", "x": ""}))),
        delete(&format!("{BUOYS}/end")),
        events("lit", Until::Seen("DELETED", "end")),
        events("set", Until::Seen("DELETED", "end")),
        events("named", Until::Seen("DELETED", "end")),
        done(post(BUOYS, buoy("last", json!({})))),
        events("dark", Until::Seen("ADDED", "last")),
        delete(&format!("{BUOYS}/last")),
    ]
}

fn single() -> Script {
    script![
        done(get(BUOYS).keep("list")),
        watch(
            "byname",
            &format!(
                "{BUOYS}?watch=true&fieldSelector=metadata.name%3De&resourceVersion=$rv(list)"
            )
        ),
        watch(
            "both",
            "/apis/$group/v1/buoys?watch=true&fieldSelector=metadata.name%3De,metadata.namespace%3D$ns&resourceVersion=$rv(list)"
        ),
        watch(
            "path",
            &format!("{BUOYS}/e?watch=true&resourceVersion=$rv(list)")
        ),
        post(BUOYS, buoy("f", json!({}))),
        post(BUOYS, buoy("e", json!({}))),
        delete(&format!("{BUOYS}/f")),
        delete(&format!("{BUOYS}/e")),
        events("byname", Until::Seen("DELETED", "e")),
        events("both", Until::Seen("DELETED", "e")),
    ]
}

/// Lists within watches.
fn initial() -> Script {
    let begin = "watch=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true";
    script![
        done(post(BUOYS, buoy("i1", json!({"lit": "yes"})))),
        done(post(BUOYS, buoy("i2", json!({})))),
        done(post(BUOYS, buoy("i3", json!({"lit": "yes"})))),
        watch("initial", &format!("{BUOYS}?{begin}")),
        events("initial", Until::Synced).in_any_order(),
        watch("initial0", &format!("{BUOYS}?{begin}&resourceVersion=0")),
        events("initial0", Until::Synced).in_any_order(),
        watch("selected", &format!("{BUOYS}?{begin}&labelSelector=lit")),
        events("selected", Until::Synced).in_any_order(),
        watch("none", &format!("{BUOYS}?{begin}&labelSelector=none")),
        events("none", Until::Synced),
        watch(
            "plain",
            &format!("{BUOYS}?watch=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan")
        ),
        events("plain", Until::Count(3)).in_any_order(),
        watch(
            "unwanted",
            &format!(
                "{BUOYS}?watch=true&sendInitialEvents=false&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true"
            )
        ),
        watch(
            "anywhere",
            &format!("{BUOYS}?watch=true&resourceVersion=0&labelSelector=lit")
        ),
        events("anywhere", Until::Count(2)).in_any_order(),
        delete(&format!("{BUOYS}/i1")),
        put(&format!("{BUOYS}/i2"), buoy("i2", json!({}))),
        events("initial", Until::Seen("DELETED", "i1")),
        events("initial0", Until::Seen("DELETED", "i1")),
        events("selected", Until::Seen("DELETED", "i1")),
        events("unwanted", Until::Seen("DELETED", "i1")),
        events("anywhere", Until::Seen("DELETED", "i1")),
    ]
}

fn refused() -> Script {
    let refuse = |query: &str| {
        watch(
            "refused",
            &format!("{BUOYS}?watch=true&timeoutSeconds=1&{query}"),
        )
    };
    script![
        refuse("sendInitialEvents=true"),
        refuse("sendInitialEvents=true&resourceVersionMatch=Exact"),
        refuse("sendInitialEvents=true&resourceVersionMatch=Sideways"),
        refuse("resourceVersionMatch=NotOlderThan"),
        refuse("resourceVersionMatch=NotOlderThan&resourceVersion=1"),
        refuse("resourceVersionMatch=Exact&resourceVersion=1"),
        refuse("resourceVersion=abc"),
        refuse("resourceVersion=-1"),
        refuse("labelSelector=a%20b"),
        refuse("fieldSelector=spec.name%3Dx"),
        refuse("continue=abc"),
        refuse("limit=-5"),
        watch("refused", &format!("{BUOYS}?watch=true&timeoutSeconds=abc")),
        watch("refused", &format!("{BUOYS}?watch=maybe")),
        watch(
            "refused",
            "/apis/$group/v1/namespaces/$ns/nothings?watch=true"
        ),
        watch("refused", "/api/v1/namespaces/$ns/nothings?watch=true"),
        watch(
            "empty",
            "/api/v1/namespaces/missing/configmaps?watch=true&timeoutSeconds=1"
        ),
        events("empty", Until::End),
    ]
}

fn ends() -> Script {
    script![
        done(get(BUOYS).keep("list")),
        watch(
            "short",
            &format!("{BUOYS}?watch=true&timeoutSeconds=1&resourceVersion=$rv(list)")
        ),
        events("short", Until::End),
        watch(
            "past",
            &format!("{BUOYS}?watch=true&timeoutSeconds=1&resourceVersion=1")
        ),
        events("past", Until::End).tolerate("the watch cache has 131,072 changes"),
        watch(
            "future",
            &format!("{BUOYS}?watch=true&timeoutSeconds=1&resourceVersion=999999999")
        ),
        events("future", Until::End),
    ]
}

fn built_in() -> Script {
    let maps = "/api/v1/namespaces/$ns/configmaps";
    let map = |name: &str| json!({"metadata": {"name": name}, "data": {"k": "v"}});
    script![
        done(get(maps).keep("list")),
        watch(
            "maps",
            &format!(
                "{maps}?watch=true&resourceVersion=$rv(list)&fieldSelector=metadata.name!%3Dkube-root-ca.crt"
            )
        ),
        watch(
            "secrets",
            "/api/v1/namespaces/$ns/secrets?watch=true&resourceVersion=$rv(list)&fieldSelector=type%3Dgood"
        ),
        post(maps, map("a")),
        post(maps, map("b")),
        put(&format!("{maps}/a"), map("a")),
        put(&format!("{maps}/a"), json!({"metadata": {"name": "a"}})),
        delete(&format!("{maps}?labelSelector=none")),
        delete(&format!(
            "{maps}?fieldSelector=metadata.name!%3Dkube-root-ca.crt"
        )),
        post(maps, map("end")),
        events("maps", Until::Seen("ADDED", "end")),
        post(
            "/api/v1/namespaces/$ns/secrets",
            json!({"metadata": {"name": "a"}, "type": "bad"})
        ),
        post(
            "/api/v1/namespaces/$ns/secrets",
            json!({"metadata": {"name": "b"}, "type": "good"})
        ),
        events("secrets", Until::Count(1)),
    ]
}

fn namespaces() -> Script {
    let all = "/api/v1/namespaces";
    script![
        done(get("/api/v1/namespaces/$ns").keep("own")),
        watch(
            "namespace",
            "/api/v1/namespaces?watch=true&resourceVersion=$rv(own)&fieldSelector=metadata.name%3D$ns-other"
        ),
        post(all, json!({"metadata": {"name": "$ns-other"}})),
        delete("/api/v1/namespaces/$ns-other")
            .tolerate("contents of a namespace are deleted before the answer")
            .only_in(&["/body/metadata/deletionGracePeriodSeconds", "/body/status"]),
        until("/api/v1/namespaces/$ns-other", Condition::Code(404)),
    ]
}
