//! Answers as tables and as metadata only, discovery in one document, gzip, selectable fields.

use std::sync::LazyLock;

use regex::Regex;
use serde_json::{Value, json};

use super::super::step::{
    Ask, MERGE, Script, Topic, Until, definition, delete, done, events, get, install, patch, post,
    put, script, watch, watch_with,
};

const TABLE: &str = "application/json;as=Table;v=v1;g=meta.k8s.io";
const PARTIAL: &str = "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io";
const PARTIALS: &str = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io";
const AGGREGATED: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";

const YACHTS: &str = "/apis/$group/v1/namespaces/$ns/yachts";
const MAPS: &str = "/api/v1/namespaces/$ns/configmaps";
const SECRETS: &str = "/api/v1/namespaces/$ns/secrets";
const EVENTS: &str = "/api/v1/namespaces/$ns/events";
const RBAC: &str = "/apis/rbac.authorization.k8s.io/v1";
const ADMISSION: &str = "/apis/admissionregistration.k8s.io/v1";
/// Cluster-wide objects of this topic.
const MINE: &str = "labelSelector=topic%3D$ns";

pub(super) fn topic() -> Topic {
    Topic::new("tables", install(yachts()))
        .then(built_in())
        .then(cluster_wide())
        .then(custom())
        .then(forms())
        .then(writes())
        .then(watches())
        .then(discovery())
        .then(compressed())
        .then(fields())
}

/// Ages go on while both are asked.
fn ageless(body: &mut Value) {
    static AGE: LazyLock<Regex> = LazyLock::new(|| {
        Regex::new(r"^([0-9]+[smhdy]){1,2}$|^20\d\d-\d\d-\d\dT").expect("well formed")
    });
    for cell in body["rows"]
        .as_array_mut()
        .into_iter()
        .flatten()
        .filter_map(|row| row["cells"].as_array_mut())
        .flatten()
    {
        if cell.as_str().is_some_and(|text| AGE.is_match(text)) {
            *cell = "age".into();
        }
    }
}

fn table(path: &str) -> Ask {
    get(path).accept(TABLE).settle(ageless)
}

fn yachts() -> Value {
    let column =
        |name: &str, kind: &str, path: &str| json!({"name": name, "type": kind, "jsonPath": path});
    let mut definition = definition(
        "yachts",
        "Yacht",
        json!({
            "spec": {"type": "object", "properties": {
                "size": {"type": "integer"}, "mode": {"type": "string", "default": "slow"},
                "ratio": {"type": "number"}, "on": {"type": "boolean"},
                "free": {"x-kubernetes-preserve-unknown-fields": true, "nullable": true},
                "tags": {"type": "array", "items": {"type": "string"}},
                "map": {"type": "object", "additionalProperties": {"type": "string"}},
                "deep": {"type": "string"},
            }},
            "status": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
        }),
    );
    let spec = &mut definition["spec"];
    spec["names"]["shortNames"] = json!(["yt"]);
    spec["names"]["categories"] = json!(["all", "boats"]);
    let first = &mut spec["versions"][0];
    first["selectableFields"] =
        json!([{"jsonPath": ".spec.mode"}, {"jsonPath": ".spec.size"}, {"jsonPath": ".spec.on"}]);
    let schema = json!({"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}});
    first["additionalPrinterColumns"] = json!([
        column("Size", "integer", ".spec.size"),
        {"name": "Mode", "type": "string", "jsonPath": ".spec.mode", "description": "How it goes", "priority": 1},
        {"name": "Ratio", "type": "number", "jsonPath": ".spec.ratio", "format": "double"},
        column("On", "boolean", ".spec.on"),
        column("Free", "string", ".spec.free"),
        column("Tags", "string", ".spec.tags"),
        column("Tag", "string", ".spec.tags[1]"),
        column("First", "string", ".spec.tags[]"),
        column("AllTags", "string", ".spec.tags[*]"),
        column("Slice", "string", ".spec.tags[0:2]"),
        column("Open", "string", ".spec.tags[1:]"),
        column("Last", "string", ".spec.tags[-1]"),
        column("Stepped", "string", ".spec.tags[::2]"),
        column("Label", "string", ".metadata.labels['a\\.b/c']"),
        column(
            "Ready",
            "string",
            ".status.conditions[?(@.type==\"Ready\")].status",
        ),
        column(
            "Single",
            "string",
            ".status.conditions[?(@.type=='Ready')].status",
        ),
        column("Big", "string", ".status.conditions[?(@.n>2)].type"),
        column("Most", "string", ".status.conditions[?(@.n>=2)].type"),
        column(
            "Other",
            "string",
            ".status.conditions[?(@.type!=\"Ready\")].type",
        ),
        column(
            "Bare",
            "string",
            ".status.conditions[?(@.type==Ready)].status",
        ),
        column("Exists", "string", ".status.conditions[?(@.n)].type"),
        column("Bool", "string", ".status.conditions[?(@.ok==true)].type"),
        column("Since", "date", ".status.since"),
        column("SizeText", "string", ".spec.size"),
        column("RatioText", "string", ".spec.ratio"),
        column("OnText", "string", ".spec.on"),
        column("Deep", "string", "..deep"),
        column("Union", "string", ".spec['mode','size']"),
        column("RatioInt", "integer", ".spec.ratio"),
        column("SizeNum", "number", ".spec.size"),
        column("WrongBool", "boolean", ".spec.mode"),
        column("WrongDate", "date", ".spec.mode"),
        column("WrongInt", "integer", ".spec.mode"),
        column("Whole", "string", ".spec.map"),
        column("Wild", "string", ".spec.map.*"),
        column("Dollar", "string", ".spec.$.mode"),
        column("Age", "date", ".metadata.creationTimestamp"),
    ]);
    let versions = spec["versions"].as_array_mut().expect("a list");
    versions.push(json!({"name": "v2", "served": true, "storage": false, "schema": schema}));
    versions.push(json!({
        "name": "v3", "served": true, "storage": false, "schema": schema,
        "additionalPrinterColumns": [
            column("A", "integer", ".spec.size"), column("B", "integer", ".spec[?(@.x"),
            column("C", "integer", ".spec.size"),
        ],
    }));
    versions.push(json!({
        "name": "v4", "served": true, "storage": false, "schema": schema,
        "additionalPrinterColumns": [
            column("Mode", "string", ".spec.mode"), column("Quoted", "string", ".spec[\"mode\"]"),
        ],
    }));
    // No ages: for watches, whose events are compared as they come.
    versions.push(json!({
        "name": "v5", "served": true, "storage": false, "schema": schema,
        "selectableFields": [],
        "additionalPrinterColumns": [column("Mode", "string", ".spec.mode")],
    }));
    definition
}

fn yacht(name: &str, spec: &Value) -> Value {
    json!({"apiVersion": "$group/v1", "kind": "Yacht", "metadata": {"name": name}, "spec": spec})
}

fn built_in() -> Script {
    let data = json!({"a": "b", "c": "d"});
    let event = |name: &str, more: Value| {
        let mut event = json!({
            "metadata": {"name": name, "namespace": "$ns"},
            "involvedObject": {"kind": "Secret", "name": "s", "namespace": "$ns", "fieldPath": "data.x"},
            "reason": "Written", "message": "  it is there\n", "type": "Normal",
        });
        for (field, value) in more.as_object().into_iter().flatten() {
            event[field] = value.clone();
        }
        done(post(EVENTS, event))
    };
    let subjects = json!([
        {"kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": "ann"},
        {"kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": "bob"},
        {"kind": "Group", "apiGroup": "rbac.authorization.k8s.io", "name": "devs"},
        {"kind": "ServiceAccount", "namespace": "$ns", "name": "robot"},
    ]);
    let role =
        json!({"kind": "ClusterRole", "apiGroup": "rbac.authorization.k8s.io", "name": "view"});
    script![
        table(&format!("{SECRETS}?labelSelector=none")),
        table(&format!("{RBAC}/namespaces/$ns/roles")),
        table("/apis/certificates.k8s.io/v1/certificatesigningrequests?labelSelector=none"),
        table("/api/v1/namespaces/$ns/resourcequotas"),
        done(post(
            MAPS,
            json!({"metadata": {"name": "a", "labels": {"t": "x"}}, "data": data, "binaryData": {"e": "Zg=="}})
        )),
        done(post(
            MAPS,
            json!({"metadata": {"name": "b", "labels": {"t": "x"}}})
        )),
        done(post(
            SECRETS,
            json!({"metadata": {"name": "s"}, "stringData": data})
        )),
        done(post(
            SECRETS,
            json!({"metadata": {"name": "typed"}, "type": "e.com/t"})
        )),
        done(post(
            "/api/v1/namespaces/$ns/serviceaccounts",
            json!({"metadata": {"name": "robot"}})
        )),
        done(post(
            &format!("{RBAC}/namespaces/$ns/roles"),
            json!({"metadata": {"name": "r"}})
        )),
        done(post(
            &format!("{RBAC}/namespaces/$ns/rolebindings"),
            json!({"metadata": {"name": "rb"}, "roleRef": role, "subjects": subjects})
        )),
        done(post(
            &format!("{RBAC}/namespaces/$ns/rolebindings"),
            json!({"metadata": {"name": "none"}, "roleRef": role})
        )),
        done(post(
            "/apis/coordination.k8s.io/v1/namespaces/$ns/leases",
            json!({"metadata": {"name": "l"}, "spec": {"holderIdentity": "me"}})
        )),
        event(
            "a",
            json!({"count": 3, "firstTimestamp": "2026-03-01T11:00:00Z", "lastTimestamp": "2026-03-01T11:59:00Z", "source": {"component": "kubelet", "host": "n1"}})
        ),
        event("b", json!({"source": {"component": "kubelet"}})),
        event(
            "c",
            json!({
                "eventTime": "2026-03-01T11:00:00.000000Z", "reportingComponent": "e.com/me", "reportingInstance": "i",
                "action": "Write", "series": {"count": 7, "lastObservedTime": "2026-03-01T11:59:30.000000Z"},
            })
        ),
        table(&format!("{MAPS}?labelSelector=t%3Dx")),
        table(SECRETS),
        table(&format!("{SECRETS}/s")),
        table("/api/v1/namespaces/$ns/serviceaccounts/robot"),
        table("/api/v1/namespaces/$ns"),
        table("/api/v1/namespaces?fieldSelector=metadata.name%3D$ns"),
        table(&format!("{RBAC}/namespaces/$ns/roles")),
        table(&format!("{RBAC}/namespaces/$ns/rolebindings")),
        table("/apis/coordination.k8s.io/v1/namespaces/$ns/leases"),
        table(EVENTS),
        table("/apis/events.k8s.io/v1/namespaces/$ns/events"),
        table(&format!("{RBAC}/namespaces/$ns/rolebindings?limit=1")).keep("page"),
        table(&format!(
            "{RBAC}/namespaces/$ns/rolebindings?limit=1&continue=$continue(page)"
        )),
        table(&format!("{MAPS}?fieldSelector=metadata.name%3Db")),
    ]
}

fn cluster_wide() -> Script {
    let metadata = json!({"name": "$ns-tables", "labels": {"topic": "$ns"}});
    let role =
        json!({"kind": "ClusterRole", "apiGroup": "rbac.authorization.k8s.io", "name": "view"});
    let subject =
        json!({"kind": "Group", "apiGroup": "rbac.authorization.k8s.io", "name": "nobody"});
    let hook = json!({
        "name": "h.e.com", "sideEffects": "None", "admissionReviewVersions": ["v1"],
        "clientConfig": {"url": "https://127.0.0.1:1/hook"}, "failurePolicy": "Ignore",
        "rules": [{"apiGroups": ["none.e.com"], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["nones"]}],
    });
    let mut script = script![
        done(post(
            &format!("{RBAC}/clusterroles"),
            json!({"metadata": metadata})
        )),
        done(post(
            &format!("{RBAC}/clusterrolebindings"),
            json!({"metadata": metadata, "roleRef": role, "subjects": [subject]})
        )),
        done(post(
            &format!("{ADMISSION}/validatingwebhookconfigurations"),
            json!({"metadata": metadata, "webhooks": [hook]})
        )),
        done(post(
            &format!("{ADMISSION}/mutatingwebhookconfigurations"),
            json!({"metadata": metadata, "webhooks": [hook]})
        )),
        done(post(
            &format!("{ADMISSION}/validatingadmissionpolicies"),
            json!({"metadata": metadata, "spec": {
                "paramKind": {"apiVersion": "v1", "kind": "ConfigMap"},
                "matchConstraints": {"resourceRules": [{"apiGroups": ["none.e.com"], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["nones"]}]},
                "validations": [{"expression": "true"}, {"expression": "!false"}],
            }})
        )),
        done(post(
            &format!("{ADMISSION}/validatingadmissionpolicybindings"),
            json!({"metadata": metadata, "spec": {
                "policyName": "$ns-tables", "validationActions": ["Deny"],
                "paramRef": {"name": "p", "namespace": "$ns", "parameterNotFoundAction": "Allow"},
            }})
        )),
    ];
    for kind in [
        format!("{RBAC}/clusterroles"),
        format!("{RBAC}/clusterrolebindings"),
        format!("{ADMISSION}/validatingwebhookconfigurations"),
        format!("{ADMISSION}/mutatingwebhookconfigurations"),
        format!("{ADMISSION}/validatingadmissionpolicies"),
        format!("{ADMISSION}/validatingadmissionpolicybindings"),
    ] {
        script.push(table(&format!("{kind}?{MINE}")));
        script.push(done(delete(&format!("{kind}/$ns-tables"))));
        script.push(table(&format!("{kind}?{MINE}")));
    }
    script.push(table(
        "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/yachts.$group?includeObject=None",
    ));
    script
}

fn custom() -> Script {
    let mut labelled = yacht(
        "a",
        &json!({
            "size": 3, "mode": "slow", "ratio": 2.5, "on": true, "free": null,
            "tags": ["x", "y<z", "w"], "map": {"k": "v"}, "deep": "down",
        }),
    );
    labelled["metadata"]["labels"] = json!({"a.b/c": "yes"});
    let conditions = json!([
        {"type": "Ready", "status": "True", "n": 3, "ok": true},
        {"type": "Other", "status": "False", "n": 2},
    ]);
    let mut script = script![
        table(YACHTS),
        done(post(YACHTS, labelled)),
        done(post(YACHTS, yacht("b", &json!({})))),
        done(post(
            YACHTS,
            yacht(
                "c",
                &json!({
                    "size": 7, "ratio": 3, "free": {"b": [1, 2.50], "a": "<&>"}, "tags": ["only"], "mode": "",
                })
            )
        )),
        done(post(
            YACHTS,
            yacht(
                "d",
                &json!({"free": 1.0e21, "ratio": -0.25, "size": -1, "on": false})
            )
        )),
        done(patch(
            &format!("{YACHTS}/a/status"),
            MERGE,
            json!({"status": {"since": "2020-01-01T00:00:00Z", "conditions": conditions}})
        )),
        done(patch(
            &format!("{YACHTS}/c/status"),
            MERGE,
            json!({"status": {"since": "soon", "conditions": [{"type": "Ready", "n": 2.5}]}})
        )),
        table(&format!("{YACHTS}/a/status")),
    ];
    for version in ["v1", "v2", "v3", "v4", "v5"] {
        let list = YACHTS.replace("v1", version);
        script.push(table(&list));
        script.push(table(&format!("{list}/a?includeObject=Object")));
    }
    script
}

fn forms() -> Script {
    let beta = TABLE.replace("v=v1", "v=v1beta1");
    let mut script = script![
        get(&format!("{YACHTS}/b")).accept(&beta).settle(ageless),
        get(&format!("{YACHTS}/b")).accept(PARTIAL),
        get(&format!("{YACHTS}/b")).accept(&PARTIAL.replace("v=v1", "v=v1beta1")),
        get(&format!("{YACHTS}/b")).accept(PARTIALS),
        get(YACHTS).accept(PARTIALS),
        get(YACHTS).accept(PARTIAL),
        get(SECRETS).accept(PARTIALS),
        get(SECRETS).accept(PARTIAL),
        get(&format!("{SECRETS}/s")).accept(PARTIAL),
        get(&format!("{SECRETS}/s")).accept(PARTIALS),
        get("/apis/coordination.k8s.io/v1/namespaces/$ns/leases").accept(PARTIAL),
        get(&format!("{SECRETS}/none")).accept(TABLE),
        table(&format!("{SECRETS}/s?includeObject=None")),
        table(&format!("{SECRETS}?includeObject=Metadata")),
        table(&format!("{SECRETS}/s?includeObject=Object")),
        table(&format!("{YACHTS}?includeObject=Everything")),
        get(&format!("{YACHTS}/b?includeObject=Everything")),
    ];
    for accept in [
        "application/json;as=Table;v=v1",
        "application/json;as=Table;g=meta.k8s.io",
        "application/json;as=Table;v=v2;g=meta.k8s.io",
        "application/json;as=Nope;v=v1;g=meta.k8s.io",
        "application/json;as=Nope;v=v1;g=meta.k8s.io,application/json",
        "application/vnd.kubernetes.protobuf;as=Table;v=v1;g=meta.k8s.io",
        "application/json;q=0.5,application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io;q=0.9",
        "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io;q=0.5,application/json",
        "text/html",
        "text/html,*/*",
        "application/*",
    ] {
        script.push(get(&format!("{YACHTS}/b")).accept(accept).free_text());
    }
    let reviews = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews";
    let review = json!({"spec": {"resourceAttributes": {"verb": "get", "resource": "pods"}}});
    script.push(post(reviews, review.clone()).accept(TABLE).free_text());
    script.push(
        post(reviews, review)
            .accept(&format!("{TABLE},application/json"))
            .settle(|body| body["status"] = json!(null)),
    );
    script
}

fn writes() -> Script {
    let write = |ask: Ask| ask.accept(TABLE).settle(ageless);
    let map = |name: &str| json!({"metadata": {"name": name}, "data": {"a": "b"}});
    let held = json!({"metadata": {"finalizers": ["e.com/f"]}});
    let free = json!({"metadata": {"finalizers": null}});
    script![
        write(post(
            SECRETS,
            json!({"metadata": {"name": "w"}, "stringData": {"a": "b"}})
        )),
        write(patch(&format!("{SECRETS}/w"), MERGE, held)),
        write(put(
            &format!("{SECRETS}/w"),
            json!({"metadata": {"name": "w", "finalizers": ["e.com/f"]}})
        )),
        write(delete(&format!("{SECRETS}/w"))),
        write(patch(&format!("{SECRETS}/w"), MERGE, free)),
        write(post(SECRETS, json!({"metadata": {"name": "w"}}))),
        write(delete(&format!("{SECRETS}/w"))),
        write(post(YACHTS, yacht("w", &json!({"size": 1})))),
        write(post(YACHTS, yacht("w", &json!({"size": 1})))),
        write(patch(
            &format!("{YACHTS}/w"),
            MERGE,
            json!({"spec": {"size": 2}})
        )),
        write(patch(
            &format!("{YACHTS}/w/status"),
            MERGE,
            json!({"status": {"since": ""}})
        )),
        patch(&format!("{YACHTS}/w"), MERGE, json!({"spec": {"size": 3}})).accept(PARTIAL),
        write(delete(&format!("{YACHTS}/w"))),
        done(post(MAPS, map("gone"))),
        write(delete(&format!(
            "{MAPS}?fieldSelector=metadata.name%3Dgone"
        ))),
        write(delete(&format!(
            "{MAPS}?fieldSelector=metadata.name%3Dgone"
        ))),
    ]
}

fn watches() -> Script {
    let ageless = YACHTS.replace("v1", "v5");
    let list = "watch=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true";
    let open =
        |name: &'static str, path: &str, accept: &str| watch_with(name, get(path).accept(accept));
    script![
        open("table", &format!("{ageless}?{list}"), TABLE),
        events("table", Until::Count(5)).with_bookmarks(),
        open(
            "none",
            &format!("{ageless}?{list}&labelSelector=none"),
            TABLE
        ),
        events("none", Until::Count(1)).with_bookmarks(),
        open(
            "whole",
            &format!("{ageless}?{list}&labelSelector=none&includeObject=Object"),
            TABLE
        ),
        events("whole", Until::Count(1)).with_bookmarks(),
        open(
            "bare",
            &format!("{EVENTS}?{list}&labelSelector=none&includeObject=None"),
            TABLE
        ),
        events("bare", Until::Count(1)).with_bookmarks(),
        open(
            "roles",
            &format!("{RBAC}/namespaces/$ns/roles?{list}&labelSelector=none"),
            TABLE
        ),
        events("roles", Until::Count(1)).with_bookmarks(),
        open("metadata", &format!("{YACHTS}?{list}"), PARTIAL),
        events("metadata", Until::Synced).with_bookmarks(),
        open(
            "plain",
            &format!("{YACHTS}?{list}&labelSelector=none"),
            "application/json"
        ),
        events("plain", Until::Synced).with_bookmarks(),
        open(
            "maps",
            &format!("{MAPS}?{list}&labelSelector=none"),
            "application/json"
        ),
        events("maps", Until::Synced).with_bookmarks(),
        open(
            "refused",
            &format!("{YACHTS}?watch=true&includeObject=Everything"),
            TABLE
        ),
        done(post(YACHTS, yacht("z", &json!({"mode": "fast"})))),
        done(patch(
            &format!("{YACHTS}/z"),
            MERGE,
            json!({"spec": {"mode": "slow"}})
        )),
        done(delete(&format!("{YACHTS}/z"))),
        events("table", Until::Count(3)),
        events("metadata", Until::Count(3)),
    ]
}

/// Of what both serve; neither serves all that the other does.
fn shared(body: &mut Value) {
    const KINDS: [&str; 9] = [
        "yachts",
        "configmaps",
        "secrets",
        "namespaces",
        "leases",
        "customresourcedefinitions",
        "clusterroles",
        "selfsubjectaccessreviews",
        "events",
    ];
    let known = |resource: &Value| {
        let name = resource["resource"].as_str().unwrap_or_default();
        KINDS.contains(&name)
    };
    let Some(groups) = body["items"].as_array_mut() else {
        return;
    };
    for version in groups
        .iter_mut()
        .filter_map(|group| group["versions"].as_array_mut())
        .flatten()
    {
        if let Some(resources) = version["resources"].as_array_mut() {
            resources.retain(known);
        }
    }
    groups.retain(|group| {
        let versions = group["versions"].as_array();
        let mut versions = versions.into_iter().flatten();
        // Definitions of other topics come and go.
        versions.any(|version| version["resources"] != json!([]))
    });
    groups.sort_by_key(|group| group["metadata"]["name"].to_string());
}

/// Some handlers of the real server add an empty one to their refusals.
fn bare(body: &mut Value) {
    if let Some(body) = body.as_object_mut() {
        body.remove("details");
    }
}

fn discovery() -> Script {
    let mut script = Script::default();
    for path in ["/api", "/apis"] {
        for accept in [
            AGGREGATED.to_owned(),
            format!("application/json,{AGGREGATED}"),
            format!("{AGGREGATED};profile=nopeer,application/json"),
        ] {
            script.push(get(path).accept(&accept).settle(shared).with_header("vary"));
        }
        script.push(get(path).accept("text/html").free_text().settle(bare));
        script.push(get(path).accept(TABLE).free_text());
        script.push(
            get(path)
                .accept(&AGGREGATED.replace("v2", "v2beta1"))
                .free_text(),
        );
    }
    for path in [
        "/apis/$group",
        "/apis/$group/v1",
        "/apis/coordination.k8s.io/v1",
    ] {
        script.push(get(path).accept(AGGREGATED).free_text());
        script.push(get(path).accept(&format!("{AGGREGATED},application/json")));
        script.push(get(path).accept("text/html").free_text().settle(bare));
    }
    script
}

fn compressed() -> Script {
    let large = "the same again ".repeat(10_000);
    let small = "the same again ".repeat(8_000);
    let packed = |body: &mut Value| {
        if body.get("bytes").is_some() {
            *body = "packed".into();
        }
    };
    let ask = |name: &str, coding: &str| {
        get(&format!("{MAPS}/{name}"))
            .header("accept-encoding", coding)
            .with_header("content-encoding")
            .with_header("vary")
            .settle(packed)
    };
    script![
        done(post(
            MAPS,
            json!({"metadata": {"name": "large"}, "data": {"a": large}})
        )),
        done(post(
            MAPS,
            json!({"metadata": {"name": "small"}, "data": {"a": small}})
        )),
        ask("large", "gzip"),
        ask("large", "deflate, gzip"),
        ask("large", "br"),
        ask("large", "identity"),
        ask("small", "gzip"),
        get(&format!("{MAPS}?fieldSelector=metadata.name%3Dlarge"))
            .header("accept-encoding", "gzip")
            .with_header("content-encoding")
            .settle(packed),
        get(&format!("{MAPS}/large"))
            .accept(TABLE)
            .header("accept-encoding", "gzip")
            .with_header("content-encoding")
            .settle(ageless),
        patch(&format!("{MAPS}/large"), MERGE, json!({"data": {"b": "c"}}))
            .header("accept-encoding", "gzip")
            .with_header("content-encoding")
            .settle(packed),
        done(delete(&format!("{MAPS}/large"))),
        done(delete(&format!("{MAPS}/small"))),
    ]
}

fn fields() -> Script {
    let mut script = Script::default();
    for selector in [
        "spec.mode=slow",
        "spec.mode==slow",
        "spec.mode!=slow",
        "spec.mode=",
        "spec.size=3",
        "spec.size=03",
        "spec.size!=3",
        "spec.on=true",
        "spec.on=false",
        "spec.on=",
        "spec.mode=slow,spec.size=3",
        "spec.mode=slow,metadata.name=b",
        "metadata.name=a,metadata.namespace=$ns",
        "metadata.namespace=other",
        "spec.ratio=3",
        "spec.nope=3",
        "status.phase=x",
    ] {
        let selector = selector.replace('=', "%3D");
        script.push(get(&format!("{YACHTS}?fieldSelector={selector}")));
    }
    for path in [
        "/apis/$group/v2/namespaces/$ns/yachts?fieldSelector=spec.mode%3Dslow",
        "/api/v1/namespaces/$ns/secrets?fieldSelector=type%3De.com/t",
        "/api/v1/namespaces/$ns/secrets?fieldSelector=type!%3DOpaque",
        "/api/v1/namespaces/$ns/secrets?fieldSelector=spec.nope%3D1",
        "/api/v1/namespaces/$ns/configmaps?fieldSelector=data.a%3Db",
        "/api/v1/namespaces/$ns/serviceaccounts?fieldSelector=spec.nope%3D1",
        "/api/v1/namespaces?fieldSelector=status.phase%3DActive,metadata.name%3D$ns",
        "/api/v1/namespaces?fieldSelector=status.phase%3DTerminating,metadata.name%3D$ns",
        "/api/v1/namespaces?fieldSelector=metadata.namespace%3D$ns",
        "/api/v1/namespaces?fieldSelector=name%3D$ns",
        "/apis/rbac.authorization.k8s.io/v1/clusterroles?fieldSelector=metadata.namespace%3D$ns",
        "/apis/rbac.authorization.k8s.io/v1/clusterroles?fieldSelector=rules%3D$ns",
        "/apis/certificates.k8s.io/v1/certificatesigningrequests?fieldSelector=spec.signerName%3De.com/none",
        "/apis/certificates.k8s.io/v1/certificatesigningrequests?fieldSelector=metadata.namespace%3D$ns",
        "/apis/apiextensions.k8s.io/v1/customresourcedefinitions?fieldSelector=spec.group%3D$group",
    ] {
        script.push(get(path));
    }
    for field in [
        "involvedObject.kind=Secret",
        "involvedObject.name=s",
        "involvedObject.name!=s",
        "involvedObject.namespace=$ns",
        "involvedObject.fieldPath=data.x",
        "involvedObject.uid=",
        "reason=Written",
        "type=Warning",
        "source=kubelet",
        "source=e.com/me",
        "reportingComponent=e.com/me",
        "reportingController=e.com/me",
        "regarding.name=s",
        "note=x",
    ] {
        let field = field.replace('=', "%3D");
        script.push(get(&format!("{EVENTS}?fieldSelector={field}")));
        script.push(get(&format!(
            "/apis/events.k8s.io/v1/namespaces/$ns/events?fieldSelector={field}"
        )));
    }
    // Objects come into what is selected and leave it.
    script.push(watch(
        "slow",
        &format!("{YACHTS}?watch=true&fieldSelector=spec.mode%3Dlate"),
    ));
    script.push(watch(
        "typed",
        &format!("{SECRETS}?watch=true&fieldSelector=type%3De.com/late"),
    ));
    script.push(done(post(YACHTS, yacht("m", &json!({"mode": "early"})))));
    for mode in ["late", "late", "early", "late"] {
        let change = json!({"spec": {"mode": mode}, "metadata": {"labels": {"n": mode}}});
        script.push(done(patch(&format!("{YACHTS}/m"), MERGE, change)));
    }
    script.push(done(patch(
        &format!("{YACHTS}/m"),
        MERGE,
        json!({"spec": {"size": 9}}),
    )));
    script.push(done(delete(&format!("{YACHTS}/m"))));
    script.push(events("slow", Until::Count(5)));
    script.push(done(post(
        SECRETS,
        json!({"metadata": {"name": "late"}, "type": "e.com/late"}),
    )));
    script.push(done(delete(&format!("{SECRETS}/late"))));
    script.push(events("typed", Until::Count(2)));
    script
}
