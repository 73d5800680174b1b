//! Paths that lead nowhere, and what queries may say.

use serde_json::json;

use super::super::step::{MERGE, Script, Topic, delete, get, patch, post, put, script};

pub(super) fn topic() -> Topic {
    Topic::new("paths", paths())
}

fn paths() -> Script {
    let maps = "/api/v1/namespaces/$ns/configmaps";
    script![
        get("/api")
            .tolerate("no server addresses by client network")
            .only_in(&["/body/serverAddressByClientCIDRs"]),
        get("/apis/none.example.com"),
        get("/apis/none.example.com/v1"),
        get("/apis/none.example.com/v1/things"),
        get("/api/v1/nothings"),
        get("/api/v1/namespaces/$ns/nothings"),
        get("/apis/rbac.authorization.k8s.io/v1/namespaces/$ns/clusterroles"),
        get("/api/v1/configmaps/x"),
        post("/api/v1/configmaps", json!({})),
        put(maps, json!({})),
        post(&format!("{maps}/x"), json!({})),
        patch(maps, MERGE, json!({})),
        delete("/api/v1/configmaps"),
        get(&format!("{maps}/x/status")),
        get(&format!("{maps}?labelSelector=a%20b")),
        get(&format!("{maps}?fieldSelector=data.x%3Dy")),
        get(&format!("{maps}?fieldSelector=x")),
        get(&format!("{maps}?limit=-1")),
        get(&format!("{maps}?limit=x")),
        get(&format!("{maps}?resourceVersion=abc")),
        get(&format!("{maps}?resourceVersionMatch=Exact")),
        get(&format!(
            "{maps}?resourceVersionMatch=Exact&resourceVersion=0"
        )),
        get(&format!(
            "{maps}?resourceVersionMatch=Bad&resourceVersion=1"
        )),
        get(&format!("{maps}?continue=nonsense")).free_text(),
        get(&format!(
            "{maps}?watch=true&timeoutSeconds=1&sendInitialEvents=true"
        )),
        get(&format!(
            "{maps}?watch=true&timeoutSeconds=1&resourceVersionMatch=NotOlderThan"
        )),
    ]
}
