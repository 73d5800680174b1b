//! Answers in protobuf, as typed clients of Go ask for them. They are compared by what they say.

use http::Method;
use serde_json::{Value, json};

use super::super::packed::PROTOBUF;
use super::super::step::{
    APPLY, Ask, JSON, MERGE, PATCH, STRATEGIC, Script, Topic, Until, ask, definition, delete, done,
    events, get, install, patch, post, put, script, watch_with,
};

const MAPS: &str = "/api/v1/namespaces/$ns/configmaps";
const ROLES: &str = "/apis/rbac.authorization.k8s.io/v1/namespaces/$ns/roles";
const LEASES: &str = "/apis/coordination.k8s.io/v1/namespaces/$ns/leases";
const BUOYS: &str = "/apis/$group/v1/namespaces/$ns/buoys";

/// As typed clients of Go ask.
const EITHER: &str = "application/vnd.kubernetes.protobuf,application/json";

const REFUSALS: &str = "errors and answers to deletions are JSON";
const DISCOVERY: &str = "discovery is JSON";
const PARTS: &str = "`PartialObjectMetadata` is JSON";
const DEFINITIONS: &str = "admission configurations and certificate requests are JSON";

const TYPE: &[&str] = &["/headers/content-type"];
const TYPE_AND_BODY: &[&str] = &["/headers/content-type", "/body"];

pub(super) fn topic() -> Topic {
    let free = json!({"spec": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}});
    Topic::new("packed", install(definition("buoys", "Buoy", free)))
        .then(written())
        .then(read())
        .then(custom())
        .then(refused())
        .then(watched())
        .then(other_forms())
        .then(discovered())
        .then(deleted())
}

fn map(name: &str) -> Value {
    json!({"metadata": {"name": name, "labels": {"is": "packed"}, "annotations": {"a": ""}},
        "data": {"k": "v", "empty": "", "e": "\u{e9}"}, "binaryData": {"b": "AAE="}})
}

fn written() -> Script {
    let a = format!("{MAPS}/a");
    let role = json!({"metadata": {"name": "a"}, "rules": [
        {"apiGroups": [""], "resources": ["pods", "secrets"], "verbs": ["get"], "resourceNames": ["x"]},
        {"apiGroups": ["apps"], "resources": ["*"], "verbs": ["*"]},
    ]});
    let lease = json!({"metadata": {"name": "a"}, "spec": {"holderIdentity": "me", "leaseDurationSeconds": 15,
        "leaseTransitions": 0, "acquireTime": "2026-03-01T12:00:00.123456Z"}});
    let secret = json!({"metadata": {"name": "a"}, "stringData": {"password": "x"}});
    let applied = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "applied"}, "data": {"k": "v"}});
    let review = json!({"spec": {"resourceAttributes": {"verb": "get", "resource": "pods", "namespace": "$ns"}}});
    let accepting = |ask: Ask| ask.accept(EITHER);
    script![
        accepting(post(MAPS, map("a"))).owned(),
        post(MAPS, map("b")).accept(PROTOBUF),
        accepting(post(&format!("{MAPS}?dryRun=All"), map("c"))),
        accepting(post(ROLES, role)),
        accepting(post(LEASES, lease)),
        accepting(post("/api/v1/namespaces/$ns/secrets", secret)),
        accepting(post(
            "/api/v1/namespaces/$ns/serviceaccounts",
            json!({"metadata": {"name": "a"}})
        )),
        accepting(post(
            "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews",
            review
        ))
        .settle(|body| *body = body["status"]["allowed"].clone()),
        accepting(patch(&a, MERGE, json!({"data": {"m": "merged"}}))),
        accepting(patch(
            &a,
            STRATEGIC,
            json!({"data": {"m": null, "s": "strategic"}})
        ))
        .keep("a"),
        accepting(patch(
            &a,
            PATCH,
            json!([{"op": "add", "path": "/metadata/finalizers", "value": ["example.com/x"]}])
        )),
        accepting(patch(
            &format!("{MAPS}/applied?fieldManager=me"),
            APPLY,
            applied
        ))
        .owned(),
        accepting(put(&format!("{MAPS}/b"), map("b"))),
        accepting(put(
            &format!("{MAPS}/b?fieldValidation=Warn"),
            json!({"metadata": {"name": "b"}, "nope": 1})
        )),
    ]
}

/// Every way of asking for what is there.
fn read() -> Script {
    let mut script = Script::default();
    for types in [
        PROTOBUF,
        EITHER,
        "application/vnd.kubernetes.protobuf, */*",
        "*/*, application/vnd.kubernetes.protobuf",
        "application/json, application/vnd.kubernetes.protobuf",
        "application/vnd.kubernetes.protobuf;q=0.5, application/json",
        "application/json;q=0.5, application/vnd.kubernetes.protobuf",
        "text/html, application/vnd.kubernetes.protobuf",
        "application/vnd.kubernetes.protobuf;charset=utf-8",
    ] {
        script.push(get(&format!("{MAPS}/a")).accept(types));
        script.push(get(&format!("{MAPS}?labelSelector=is%3Dpacked")).accept(types));
    }
    for path in [
        &format!("{ROLES}/a"),
        ROLES,
        &format!("{LEASES}/a"),
        LEASES,
        "/api/v1/namespaces/$ns/secrets/a",
        "/api/v1/namespaces/$ns/secrets?fieldSelector=metadata.name%3Da",
        "/api/v1/namespaces/$ns/serviceaccounts/a",
        "/api/v1/namespaces/$ns",
        "/api/v1/namespaces?fieldSelector=metadata.name%3D$ns",
        "/api/v1/namespaces/$ns/events",
        "/apis/events.k8s.io/v1/namespaces/$ns/events",
        "/api/v1/namespaces/$ns/resourcequotas",
        "/apis/rbac.authorization.k8s.io/v1/namespaces/$ns/rolebindings",
        "/apis/rbac.authorization.k8s.io/v1/clusterroles?fieldSelector=metadata.name%3Da",
        "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings?fieldSelector=metadata.name%3Da",
        &format!("{MAPS}?labelSelector=is%3Dnothing"),
        &format!("{MAPS}?labelSelector=is%3Dpacked&limit=1"),
    ] {
        script.push(get(path).accept(EITHER));
        script.push(get(path).accept(PROTOBUF).http2());
    }
    script.push(
        ask(Method::HEAD, &format!("{MAPS}/a"), JSON, "")
            .accept(EITHER)
            .tolerate(REFUSALS)
            .only_in(TYPE),
    );
    script
}

/// Of custom resources there is none.
fn custom() -> Script {
    let buoy = |name: &str| json!({"apiVersion": "$group/v1", "kind": "Buoy", "metadata": {"name": name}, "spec": {"a": 1}});
    let one = format!("{BUOYS}/a");
    let refused = |ask: Ask| ask.free_text().tolerate(REFUSALS).only_in(TYPE);
    let mut script = script![
        post(BUOYS, buoy("a")).accept(EITHER),
        refused(post(BUOYS, buoy("b")).accept(PROTOBUF)),
    ];
    let any = "application/vnd.kubernetes.protobuf, */*";
    for path in [&*one, BUOYS] {
        script.push(get(path).accept(EITHER));
        script.push(get(path).accept(any));
        script.push(refused(get(path).accept(PROTOBUF)));
    }
    for types in [EITHER, any, PROTOBUF] {
        script.push(refused(get(&format!("{BUOYS}/missing")).accept(types)));
    }
    script.push(script![
        refused(patch(&one, MERGE, json!({"spec": {"b": 2}})).accept(PROTOBUF)),
        refused(put(&one, buoy("a")).accept(PROTOBUF)),
        refused(delete(&one).accept(PROTOBUF)),
        refused(delete(BUOYS).accept(PROTOBUF)),
        get(&one),
        get(BUOYS).settle(|body| *body = body["items"].as_array().map(Vec::len).into()),
    ]);
    for path in [
        "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations?fieldSelector=metadata.name%3Da",
        "/apis/certificates.k8s.io/v1/certificatesigningrequests?fieldSelector=metadata.name%3Da",
    ] {
        script.push(get(path).accept(EITHER).tolerate(DEFINITIONS).only_in(TYPE));
        script.push(get(path).accept(PROTOBUF).tolerate(DEFINITIONS));
    }
    script
}

fn refused() -> Script {
    let mut script = Script::default();
    let a = format!("{MAPS}/a");
    let behind = json!({"metadata": {"name": "b", "resourceVersion": "1"}});
    for types in [EITHER, PROTOBUF] {
        for asked in [
            get(&format!("{MAPS}/missing")),
            get("/api/v1/namespaces/$ns/nothings"),
            get(&format!("{MAPS}?labelSelector=%21%21")),
            get(&format!("{MAPS}?limit=x")).free_text(),
            get(&format!("{MAPS}?continue=nonsense")),
            post(MAPS, map("a")),
            post(
                MAPS,
                json!({"metadata": {"name": "No_Name"}, "data": {"no/key": "x"}}),
            ),
            post(MAPS, json!("{")).free_text(),
            post(
                &format!("{MAPS}?fieldValidation=Strict"),
                json!({"metadata": {"name": "x"}, "nope": 1}),
            ),
            put(&format!("{MAPS}/b"), behind.clone()),
            put(&a, map("other")),
            patch(&a, "text/plain", json!({})).free_text(),
            patch(
                &a,
                PATCH,
                json!([{"op": "test", "path": "/data/k", "value": "w"}]),
            )
            .free_text(),
            post(&a, map("a")).free_text(),
            delete(&format!("{MAPS}/missing")),
        ] {
            script.push(asked.accept(types).tolerate(REFUSALS).only_in(TYPE));
        }
    }
    script
}

fn watched() -> Script {
    let one = format!("{MAPS}/w");
    let query = "watch=true&labelSelector=is%3Dwatched";
    let from = |name, accept: &str| {
        let initial =
            "sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true";
        watch_with(
            name,
            get(&format!("{MAPS}?{query}&{initial}")).accept(accept),
        )
    };
    let watched = |value: &str| json!({"metadata": {"name": "w", "labels": {"is": "watched"}}, "data": {"k": value}});
    let mut script = script![
        from("either", EITHER),
        from("packed", PROTOBUF),
        from("any", "application/vnd.kubernetes.protobuf, */*"),
        from("stream", "application/vnd.kubernetes.protobuf;stream=watch"),
        from(
            "json",
            "application/json, application/vnd.kubernetes.protobuf"
        ),
        done(post(MAPS, watched("1"))),
        done(put(&one, watched("2"))),
        done(patch(
            &one,
            MERGE,
            json!({"metadata": {"labels": {"is": "gone"}}})
        )),
        done(patch(
            &one,
            MERGE,
            json!({"metadata": {"labels": {"is": "watched"}}})
        )),
        done(delete(&one)),
    ];
    for name in ["either", "packed", "any", "stream", "json"] {
        script.push(events(name, Until::Count(6)));
    }
    script.push(script![
        watch_with(
            "custom",
            get(&format!("{BUOYS}?watch=true&timeoutSeconds=1")).accept(EITHER)
        ),
        watch_with(
            "none",
            get(&format!("{BUOYS}?watch=true&timeoutSeconds=1"))
                .accept(PROTOBUF)
                .free_text()
                .tolerate(REFUSALS)
                .only_in(TYPE)
        ),
        watch_with(
            "wrong",
            get(&format!("{MAPS}?watch=true&resourceVersion=x"))
                .accept(EITHER)
                .tolerate(REFUSALS)
                .only_in(TYPE)
        ),
    ]);
    script
}

fn other_forms() -> Script {
    let mut script = Script::default();
    let listed = format!("{MAPS}?labelSelector=is%3Dpacked");
    for (kind, path) in [
        ("Table", listed.clone()),
        ("PartialObjectMetadata", format!("{MAPS}/a")),
        ("PartialObjectMetadataList", listed),
    ] {
        let form = format!("as={kind};g=meta.k8s.io;v=v1");
        let alone = format!("{PROTOBUF};{form}");
        let either = format!("{alone},application/json;{form},application/json");
        let either = get(&path).accept(&either).settle(kind_of);
        let alone = get(&path).accept(&alone).settle(kind_of);
        if kind == "Table" {
            script.push(script![either, alone]);
        } else {
            script.push(either.tolerate(PARTS).only_in(TYPE_AND_BODY));
            script.push(alone.tolerate(PARTS));
        }
    }
    script
}

/// What a document says it is.
fn kind_of(body: &mut Value) {
    *body = body["kind"].clone();
}

fn discovered() -> Script {
    let mut script = Script::default();
    for path in [
        "/api",
        "/apis",
        "/api/v1",
        "/apis/rbac.authorization.k8s.io",
        "/apis/rbac.authorization.k8s.io/v1",
        "/apis/$group",
        "/apis/$group/v1",
    ] {
        script.push(
            get(path)
                .accept(EITHER)
                .tolerate(DISCOVERY)
                .only_in(TYPE_AND_BODY),
        );
        script.push(get(path).accept(PROTOBUF).tolerate(DISCOVERY));
    }
    script.push(script![
        get("/nothing").accept(EITHER),
        get("/nothing").accept(PROTOBUF),
        get("/readyz").accept(PROTOBUF),
        get("/version")
            .accept(PROTOBUF)
            .tolerate(REFUSALS)
            .only_in(TYPE),
    ]);
    script
}

fn deleted() -> Script {
    let a = format!("{MAPS}/a");
    script![
        delete(&a).accept(EITHER),
        delete(&format!("{MAPS}/b"))
            .accept(EITHER)
            .tolerate(REFUSALS)
            .only_in(TYPE),
        delete("/api/v1/namespaces/$ns/serviceaccounts/a").accept(EITHER),
        delete(&format!("{LEASES}/a"))
            .accept(PROTOBUF)
            .tolerate(REFUSALS)
            .only_in(TYPE),
        done(patch(&a, MERGE, json!({"metadata": {"finalizers": null}}))),
        done(post(MAPS, map("c"))),
        delete(&format!("{MAPS}?labelSelector=is%3Dpacked")).accept(EITHER),
        delete(ROLES).accept(PROTOBUF),
    ]
}
