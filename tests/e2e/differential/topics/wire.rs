//! The wire: media types, odd addresses, methods, bodies that are too big or no JSON, HTTP/2, credentials.

use http::Method;
use serde_json::{Value, json};

use super::super::step::{
    Ask, JSON, MERGE, Script, Topic, YAML, ask, definition, delete, get, install, patch, post, put,
    script,
};

const MAPS: &str = "/api/v1/namespaces/$ns/configmaps";
const BUOYS: &str = "/apis/$group/v1/namespaces/$ns/buoys";
const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";

const JSON_ONLY: &str = "errors and answers to deletions are JSON";
const CATALOG: &str = "other kinds are served";
const NO_ADDRESS: &str = "no server addresses by client network";
const READ_ONLY: &str = "discovery allows GET only";
const STRANGERS: &str = "requests without a token are refused";

pub(super) fn topic() -> Topic {
    let free = json!({"spec": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}});
    Topic::new("wire", install(definition("buoys", "Buoy", free)))
        .then(accepted())
        .then(sent())
        .then(addresses())
        .then(methods())
        .then(sizes())
        .then(credentials())
        .then(second_version())
}

fn accepted() -> Script {
    let mut script = script![post(
        MAPS,
        json!({"metadata": {"name": "a"}, "data": {"k": "v"}})
    )];
    for types in [
        "*/*",
        "application/*",
        "application/json",
        "application/json;charset=utf-8",
        "application/json;q=0.5,text/plain",
        "text/plain",
        "text/html",
        "application/xml",
        "",
        "nonsense",
        "application/json;pretty=1",
        "application/json;as=Nothing;g=meta.k8s.io;v=v1",
        "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v2",
        "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1",
        "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json",
        "application/json;as=Nothing;g=meta.k8s.io;v=v1,application/json",
        "text/plain,application/json",
    ] {
        let map = get(&format!("{MAPS}/a")).accept(types).free_text();
        script.push(match types {
            "" => map.may_differ("JSON is the default"),
            _ => map,
        });
        script.push(get(&format!("{BUOYS}/a")).accept(types).free_text());
    }
    script.push(script![
        get(&format!("{MAPS}/a")).without("accept"),
        get(&format!("{MAPS}/a?pretty=true")),
        get(&format!("{BUOYS}/a"))
            .accept(PROTOBUF)
            .free_text()
            .tolerate(JSON_ONLY)
            .only_in(&["/headers/content-type"]),
        get(&format!("{BUOYS}?watch=true&timeoutSeconds=1"))
            .accept("text/plain")
            .free_text(),
        delete(&format!("{MAPS}/missing"))
            .accept("text/plain")
            .free_text(),
        get("/api/v1").accept("text/plain").free_text(),
        get("/apis").accept("text/plain").free_text(),
        get("/version").accept("text/plain").free_text(),
    ]);
    script
}

fn sent() -> Script {
    let map = |name: &str| json!({"metadata": {"name": name}});
    let buoy =
        |name: &str| json!({"apiVersion": "$group/v1", "kind": "Buoy", "metadata": {"name": name}});
    let text = |of: &str, text: &str| post(of, Value::String(text.to_owned())).free_text();
    script![
        post(MAPS, map("s1")).without("content-type"),
        post(BUOYS, buoy("s1")).without("content-type"),
        post(MAPS, map("s2")).header("content-type", "application/json; charset=utf-8"),
        post(MAPS, map("s3"))
            .header("content-type", "text/json")
            .free_text(),
        post(MAPS, map("s4"))
            .header("content-type", "application/xml")
            .free_text(),
        post(&format!("{MAPS}?dryRun=All"), map("s5"))
            .header("content-type", ";;")
            .free_text()
            .tolerate("an invalid media type means JSON"),
        ask(
            Method::POST,
            MAPS,
            YAML,
            "metadata:\n  name: yaml\ndata:\n  k: v\n"
        ),
        ask(
            Method::POST,
            BUOYS,
            YAML,
            "apiVersion: $group/v1\nkind: Buoy\nmetadata:\n  name: yaml\nspec:\n  a: [1, 'x', 1.5, null, true]\n  b: 0o17\n"
        ),
        ask(
            Method::POST,
            MAPS,
            YAML,
            "metadata:\n  name: yaml\n name: x\n"
        )
        .free_text(),
        ask(Method::POST, MAPS, YAML, "metadata: {name: json}\n"),
        ask(
            Method::PUT,
            &format!("{MAPS}/yaml"),
            YAML,
            "metadata:\n  name: yaml\ndata:\n  k: w\n"
        ),
        ask(
            Method::POST,
            MAPS,
            "application/json",
            "metadata:\n  name: noyaml\n"
        )
        .free_text(),
        text(
            MAPS,
            "{\"metadata\": {\"name\": \"dup\"}, \"data\": {\"k\": \"1\", \"k\": \"2\"}}"
        ),
        text(
            BUOYS,
            "{\"apiVersion\": \"$group/v1\", \"kind\": \"Buoy\", \"metadata\": {\"name\": \"dup\"}, \"spec\": {\"k\": \"1\", \"k\": \"2\"}}"
        ),
        text(MAPS, "{\"metadata\": {\"name\": \"trailing\"}} x"),
        text(
            BUOYS,
            "{\"apiVersion\": \"$group/v1\", \"kind\": \"Buoy\", \"metadata\": {\"name\": \"trailing\"}} x"
        ),
        text(MAPS, "{\"metadata\": {\"name\": \"x\",}}"),
        text(MAPS, "not json"),
        text(MAPS, "5"),
        text(MAPS, "\"text\""),
        text(BUOYS, "[]"),
        text(BUOYS, "null"),
        text(BUOYS, "{}"),
        text(
            MAPS,
            "{\"Metadata\": {\"Name\": \"case\"}, \"DATA\": {\"k\": \"v\"}}"
        ),
        text(MAPS, "  \n{\"metadata\": {\"name\": \"space\"}}\n\n"),
        text(
            MAPS,
            "{\"metadata\": {\"name\": \"escape\\u0064\"}, \"data\": {\"k\": \"\\ud83d\\ude00 \\\\ \\/\"}}"
        ),
        text(
            BUOYS,
            "{\"apiVersion\": \"$group/v1\", \"kind\": \"Buoy\", \"metadata\": {\"name\": \"num\"}, \"spec\": {\"a\": 1e2, \"b\": 1.0, \"c\": -0, \"e\": 0.1}}"
        ),
        put(&format!("{MAPS}/a"), Value::Null)
            .header("content-type", JSON)
            .free_text(),
        post(
            MAPS,
            json!({"apiVersion": "v1", "kind": "ConfigMapList", "items": []})
        )
        .free_text(),
        post(
            BUOYS,
            json!({"apiVersion": "$group/v1", "kind": "BuoyList", "items": []})
        )
        .free_text(),
        post(
            BUOYS,
            json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x"}})
        )
        .free_text(),
        post(
            BUOYS,
            json!({"apiVersion": "a/b/c", "kind": "Buoy", "metadata": {"name": "x"}})
        )
        .free_text(),
        post(BUOYS, json!({"kind": "Buoy", "metadata": {"name": "x"}})).free_text(),
        post(
            BUOYS,
            json!({"apiVersion": "$group/v1", "kind": "Buoy", "metadata": "x"})
        )
        .free_text(),
        post(
            BUOYS,
            json!({"apiVersion": "$group/v1", "kind": "Buoy", "metadata": null})
        )
        .free_text(),
        post(BUOYS, json!({"apiVersion": "$group/v1", "kind": "Buoy"})),
    ]
}

fn addresses() -> Script {
    let mut script = Script::default();
    for path in [
        "/nothing",
        "/api/",
        "/apis/",
        "/api/v1/",
        "/api/v2",
        "/api/v1/namespaces/",
        "/api/v1/namespaces/$ns/",
        "//api/v1",
        "/api//v1",
        "/api/v1/namespaces/$ns/configmaps/",
        "/api/v1/namespaces/$ns//configmaps",
        "/api/v1/namespaces//configmaps",
        "/api/v1/namespaces/$ns/configmaps/a/",
        "/api/v1/namespaces/$ns/configmaps/a/b/c/d",
        "/api/v1/./namespaces/$ns",
        "/api/v1/namespaces/$ns/../$ns",
        "/api/v1/namespaces/%24ns",
        "/api/v1/namespaces/$ns/config%6Daps/a",
        "/api/v1/namespaces/$ns/configmaps/%61",
        "/apis/apps",
        "/apis/rbac.authorization.k8s.io",
        "/apis/rbac.authorization.k8s.io/v2",
        "/apis/rbac.authorization.k8s.io/v2/roles",
        "/apis/rbac.authorization.k8s.io/v1/nothings",
        "/apis/$group/v1/nothings",
        "/apis/$group/v2/buoys",
        "/apis/$group/v1/",
        "/apis/$group/",
        "/apis//v1/buoys",
        "/API/v1",
        "/api/V1",
        "/api/v1/ConfigMaps",
        "/clusters/x/api/v1",
        "/services/x",
        "/logs2",
        "/metricsx",
        "/healthz/nothing",
        "/livez/nothing",
        "/api/v1/namespaces/$ns/configmaps/a?unknown=1",
        "/api/v1/namespaces/$ns/configmaps/a?",
        "/api/v1/namespaces/$ns/configmaps/a?&&=",
        "/api/v1/namespaces/$ns/configmaps/a?a=%zz",
        "/api/v1/namespaces/$ns/configmaps?limit=1;x=2",
    ] {
        let ask = get(path);
        script.push(match path {
            "/api/" => ask
                .tolerate(NO_ADDRESS)
                .only_in(&["/body/serverAddressByClientCIDRs"]),
            "/apis/" | "/api/v1/" | "/apis/apps" => ask.tolerate(CATALOG),
            "/api/v1/namespaces/" => ask.may_differ("other topics run concurrently"),
            "/api/v1/namespaces//configmaps" => {
                ask.tolerate("an empty path segment is not a missing one")
            }
            path if path.ends_with("configmaps/") || path.contains(';') => ask.settle(names),
            _ => ask,
        });
    }
    script.push(script![
        get("/healthz"),
        get("/livez"),
        get("/readyz"),
        get("/api/v1").settle(|body| *body = body["kind"].clone()),
        get("/apis/rbac.authorization.k8s.io/v1"),
        get("/apis/coordination.k8s.io/v1").settle(|body| *body = body["groupVersion"].clone()),
    ]);
    script
}

/// Of a list only the names.
fn names(body: &mut Value) {
    let items = body.get("items").and_then(Value::as_array);
    let names: Vec<Value> = items
        .into_iter()
        .flatten()
        .map(|item| item["metadata"]["name"].clone())
        .collect();
    *body = names.into();
}

fn methods() -> Script {
    let one = format!("{MAPS}/a");
    let with = |method: &str, path: &str| -> Ask {
        ask(
            Method::from_bytes(method.as_bytes()).unwrap_or(Method::GET),
            path,
            JSON,
            "",
        )
    };
    script![
        with("HEAD", &one),
        with("HEAD", &format!("{MAPS}/missing")),
        with("HEAD", MAPS)
            .with_header("content-length")
            .may_differ("lengths differ with revisions")
            .only_in(&["/headers/content-length"]),
        with("HEAD", &format!("{BUOYS}/missing")),
        with("HEAD", "/nothing"),
        with("HEAD", "/version"),
        with("OPTIONS", &one),
        with("OPTIONS", MAPS),
        with("OPTIONS", BUOYS),
        with("OPTIONS", "/").tolerate("no list of paths at `/`"),
        with("TRACE", &one),
        with("PROPFIND", &one),
        with("PROPFIND", BUOYS),
        with("POST", &one),
        with("POST", &format!("{BUOYS}/a"))
            .tolerate("a create at an object's path is refused before the body is read"),
        with("PUT", MAPS),
        with("PUT", BUOYS),
        with("DELETE", "/api/v1"),
        with("POST", "/api"),
        with("PUT", "/apis").tolerate(READ_ONLY),
        with("POST", "/version"),
        with("POST", "/apis/$group").tolerate(READ_ONLY),
        with("DELETE", "/apis/$group/v1").tolerate(READ_ONLY),
        with("POST", "/healthz"),
        with("DELETE", "/nothing"),
        with("PUT", "/api/v1/nothings"),
        with("DELETE", "/apis/$group/v1/buoys"),
        with("POST", &format!("{BUOYS}?watch=true")).free_text(),
    ]
}

fn sizes() -> Script {
    let big = |size: usize| json!({"metadata": {"name": "big"}, "data": {"k": "x".repeat(size)}});
    let buoy = |size: usize| json!({"apiVersion": "$group/v1", "kind": "Buoy", "metadata": {"name": "big"}, "spec": {"k": "x".repeat(size)}});
    script![
        post(MAPS, big(1024 * 1024)),
        post(MAPS, big(1024 * 1024 + 1)),
        post(&format!("{MAPS}?dryRun=All"), big(900 * 1024))
            .settle(|body| *body = body["kind"].clone()),
        post(MAPS, big(4 * 1024 * 1024)),
        post(BUOYS, buoy(4 * 1024 * 1024)),
        post(BUOYS, buoy(1_800_000)),
        post(BUOYS, buoy(1_400_000)).settle(|body| *body = body["kind"].clone()),
        patch(
            &format!("{BUOYS}/big"),
            MERGE,
            json!({"spec": {"l": "x".repeat(400_000)}})
        ),
        delete(&format!("{BUOYS}/big")).settle(|body| *body = body["status"].clone()),
        patch(&format!("{MAPS}/a"), MERGE, big(4 * 1024 * 1024)),
        put(&format!("{MAPS}/a"), big(4 * 1024 * 1024)),
    ]
}

fn credentials() -> Script {
    script![
        get(MAPS).nobody().tolerate(STRANGERS),
        get(MAPS)
            .nobody()
            .header("authorization", "Bearer nonsense"),
        get(MAPS)
            .nobody()
            .header("authorization", "Basic nonsense")
            .tolerate(STRANGERS),
        get("/api")
            .nobody()
            .header("authorization", "Bearer nonsense"),
        get("/nothing")
            .nobody()
            .header("authorization", "Bearer nonsense"),
        get("/readyz").nobody().tolerate(STRANGERS),
        get("/readyz")
            .nobody()
            .header("authorization", "Bearer nonsense"),
    ]
}

fn second_version() -> Script {
    script![
        get(&format!("{MAPS}/a")).http2(),
        get(&format!("{MAPS}/missing")).http2(),
        post(MAPS, json!({"metadata": {"name": "h2"}})).http2(),
        post(
            MAPS,
            json!({"metadata": {"name": "h2"}, "data": {"k": "x".repeat(4 * 1024 * 1024)}})
        )
        .http2(),
        get("/nothing").http2(),
        ask(Method::HEAD, &format!("{MAPS}/a"), JSON, "").http2(),
        delete(&format!("{MAPS}/h2")).http2(),
        get(&format!(
            "{BUOYS}?watch=true&timeoutSeconds=1&resourceVersion=abc"
        ))
        .http2(),
    ]
}
