//! Selectors of labels and fields, good and bad.

use serde_json::json;

use super::super::step::{Script, Topic, definition, done, get, install, post, script};

const BUOYS: &str = "/apis/$group/v1/namespaces/$ns/buoys";
const SECRETS: &str = "/api/v1/namespaces/$ns/secrets";

pub(super) fn topic() -> Topic {
    let free = json!({"spec": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}});
    Topic::new("selectors", install(definition("buoys", "Buoy", free)))
        .then(filled())
        .then(labels())
        .then(fields())
}

fn filled() -> Script {
    let mut script = Script::default();
    for (name, labels) in [
        ("a", json!({})),
        ("b", json!({"x": "1", "e.com/y": "z"})),
        ("c", json!({"x": "", "tier": "gold"})),
        ("d", json!({"x": "20", "tier": "silver"})),
    ] {
        script.push(done(post(
            SECRETS,
            json!({"metadata": {"name": name, "labels": labels}}),
        )));
        script.push(done(post(BUOYS, json!({"apiVersion": "$group/v1", "kind": "Buoy", "metadata": {"name": name, "labels": labels}}))));
    }
    script
}

fn labels() -> Script {
    let mut script = Script::default();
    for (number, selector) in [
        "x",
        "!x",
        "x=",
        "x==1",
        "x!=1",
        "x in (1,20)",
        "x notin (1)",
        "x in ()",
        "x in (1,)",
        "x>3",
        "x<3",
        "x gt 3",
        "e.com/y=z",
        "x=1,tier",
        "x,tier=gold",
        " x = 1 ",
        "x=1,",
        ",",
        "x=1,,tier",
        "",
        "x in (1",
        "x=(1)",
        "=1",
        "x=-",
        "x = a b",
        "-x",
        "x/y/z",
        "x notin ()",
        "!x=1",
        "in",
        "in in (in)",
        "x in(1)",
        "x!",
        "x=1 tier",
        "X=1",
        "x=%",
        "é=1",
    ]
    .into_iter()
    .enumerate()
    {
        let of = if number % 2 == 0 { BUOYS } else { SECRETS };
        let encoded: String = form_urlencoded::byte_serialize(selector.as_bytes()).collect();
        script.push(get(&format!("{of}?labelSelector={encoded}")));
    }
    script
}

fn fields() -> Script {
    let mut script = Script::default();
    for selector in [
        "metadata.name=a",
        "metadata.name==a",
        "metadata.name!=a",
        "metadata.namespace=$ns",
        "metadata.namespace!=$ns",
        "metadata.name=a,metadata.namespace=$ns",
        "metadata.name=",
        "metadata.name",
        "metadata.name=a,",
        "metadata.uid=x",
        "spec.x=1",
        "metadata.labels.x=1",
        "=a",
        "",
        "metadata.name=a\\,b",
        "metadata.name=a\\x",
        "metadata.name>a",
    ] {
        let encoded: String = form_urlencoded::byte_serialize(selector.as_bytes()).collect();
        let encoded = encoded.replace("%24ns", "$ns");
        script.push(get(&format!("{BUOYS}?fieldSelector={encoded}")));
        script.push(get(&format!("{SECRETS}?fieldSelector={encoded}")));
    }
    script.push(script![
        get(&format!("{SECRETS}?fieldSelector=type%3DOpaque&labelSelector=x")),
        get(&format!("{SECRETS}?fieldSelector=type!%3DOpaque")),
        get("/api/v1/namespaces?fieldSelector=metadata.name%3D$ns,status.phase%3DActive"),
        get("/api/v1/namespaces?fieldSelector=metadata.name%3D$ns,status.phase%3DTerminating"),
        get("/api/v1/namespaces?fieldSelector=name%3D$ns"),
        get("/api/v1/namespaces/$ns/events?fieldSelector=involvedObject.kind%3DPod,reason%3DX,type%3DNormal,source%3Ds"),
        get("/api/v1/namespaces/$ns/events?fieldSelector=message%3DX"),
        get("/apis/rbac.authorization.k8s.io/v1/namespaces/$ns/roles?fieldSelector=metadata.name%3DX"),
        get("/apis/rbac.authorization.k8s.io/v1/clusterroles?fieldSelector=metadata.namespace%3DX"),
        get("/apis/apiextensions.k8s.io/v1/customresourcedefinitions?fieldSelector=metadata.name%3DX"),
        get("/apis/apiextensions.k8s.io/v1/customresourcedefinitions?fieldSelector=spec.group%3DX"),
        get(&format!("{SECRETS}?labelSelector=x&labelSelector=tier")),
    ]);
    script
}
