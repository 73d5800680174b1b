//! Server-side apply and strategic merge: owners of fields, conflicts, list keys.

use serde_json::{Value, json};

use super::super::step::{
    APPLY, Ask, MERGE, PATCH, STRATEGIC, Script, Topic, ask, definition, delete, get, install,
    patch, post, put, script,
};

pub(super) fn topic() -> Topic {
    Topic::new("apply", config_maps())
        .then(refusals())
        .then(accounts())
        .then(custom())
        .then(versions())
        .then(migration())
        .then(strategic())
}

/// An apply by a manager; `query` are more parameters.
pub(super) fn apply(path: &str, manager: &str, query: &str, body: Value) -> Ask {
    let path = format!("{path}?fieldManager={manager}{query}");
    patch(&path, APPLY, body).owned()
}

fn map(name: &str, data: Value) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data})
}

fn config_maps() -> Script {
    let maps = "/api/v1/namespaces/$ns/configmaps";
    let one = "/api/v1/namespaces/$ns/configmaps/one";
    script![
        post(maps, map("owner", json!({}))).keep("owner"),
        post(maps, map("other", json!({}))).keep("other"),
        apply(one, "a", "&dryRun=All", map("one", json!({"k": "1"}))),
        get(one),
        apply(one, "a", "", map("one", json!({"k": "1", "l": "1"}))),
        apply(one, "a", "", map("one", json!({"k": "1", "l": "1"}))),
        apply(one, "b", "", map("one", json!({"k": "1"}))),
        apply(one, "b", "", map("one", json!({"k": "2"}))),
        apply(one, "b", "", map("one", json!({"k": "2", "l": "2"}))),
        apply(one, "b", "&force=true", map("one", json!({"k": "2", "m": "2"}))),
        apply(one, "a", "&force=false", map("one", json!({"k": "1"}))),
        apply(one, "a", "", map("one", json!({}))),
        apply(one, "b", "", json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "one", "labels": {"x": "y"}}})),
        patch(one, MERGE, json!({"data": {"n": "3"}})).owned(),
        patch(one, MERGE, json!({"data": {"n": "3"}})).owned(),
        patch(&format!("{one}?fieldManager=c"), MERGE, json!({"data": {"n": "4"}, "metadata": {"labels": {"x": "z"}}})).owned(),
        apply(one, "b", "", json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "one", "labels": {"x": "y"}}})),
        apply(one, "b", "&force=true", json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "one", "labels": {"x": "y"}}})),
        put(&format!("{one}?fieldManager=d"), map("one", json!({"n": "4", "o": "5"}))).owned(),
        put(one, map("one", json!({"n": "4", "o": "5"}))).owned(),
        get(one).owned(),
        patch(one, MERGE, json!({"metadata": {"managedFields": []}})).owned(),
        patch(one, MERGE, json!({"data": {"p": "1"}})).owned(),
        apply(one, "a", "", map("one", json!({"p": "2"}))),
        apply(one, "a", "&force=true", map("one", json!({"p": "2"}))),
        patch(one, PATCH, json!([{"op": "replace", "path": "/metadata/managedFields", "value": [{}]}])).owned(),
        post(maps, json!({"metadata": {"name": "two", "finalizers": ["e.com/x"], "annotations": {}}, "data": {}})).owned(),
        apply(&format!("{maps}/two"), "a", "", json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"finalizers": ["e.com/y"], "ownerReferences": [{"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": "$uid(owner)"}]}})),
        apply(&format!("{maps}/two"), "a", "", json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "two", "finalizers": ["e.com/y"]}})),
        apply(&format!("{maps}/two"), "a", "", json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "two", "finalizers": ["e.com/x"]}})),
        patch(&format!("{maps}/two"), MERGE, json!({"metadata": {"finalizers": null}})).owned(),
        delete(one),
    ]
}

fn refusals() -> Script {
    let one = "/api/v1/namespaces/$ns/configmaps/refused";
    let text = |query: &str, text: &str| {
        let path = format!("{one}?{query}");
        ask(http::Method::PATCH, &path, APPLY, text)
    };
    let long = "x".repeat(129);
    script![
        patch(one, APPLY, map("refused", json!({}))),
        patch(
            &format!("{one}?fieldManager={long}"),
            APPLY,
            map("refused", json!({}))
        ),
        patch(
            &format!("{one}?fieldManager=a%07"),
            APPLY,
            map("refused", json!({}))
        ),
        patch(&format!("{one}?fieldManager={long}"), MERGE, json!({})),
        post(
            &format!("/api/v1/namespaces/$ns/configmaps?fieldManager={long}"),
            map("refused", json!({}))
        ),
        patch(
            &format!("{one}?fieldManager=a&force=true"),
            MERGE,
            json!({})
        ),
        patch(&format!("{one}?force=false"), MERGE, json!({})),
        apply(
            one,
            "a",
            "",
            json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "refused"}})
        ),
        apply(one, "a", "", json!({"metadata": {"name": "refused"}})),
        apply(one, "a", "", map("other", json!({}))),
        apply(
            one,
            "a",
            "",
            json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "refused", "namespace": "other"}})
        ),
        apply(
            one,
            "a",
            "",
            json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "refused", "uid": "u"}})
        ),
        apply(
            one,
            "a",
            "",
            json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "refused", "managedFields": [{}]}})
        ),
        apply(
            one,
            "a",
            "",
            json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "refused"}, "unheard": 1})
        ),
        apply(one, "a", "", map("refused", json!({"k": 1}))).free_text(),
        apply(
            one,
            "a",
            "",
            json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "refused", "finalizers": ["e.com/a", "e.com/a"]}})
        ),
        apply(
            one,
            "a",
            "",
            json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "refused", "labels": {"bad key!": "v"}}})
        ),
        text(
            "fieldManager=a",
            "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: refused\ndata: {k: v, m: \"1\"}\n"
        )
        .owned(),
        text(
            "fieldManager=a",
            "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: refused}\ndata: {k: v"
        )
        .free_text(),
        text("fieldManager=a", "- a\n").free_text(),
        text(
            "fieldManager=a&fieldValidation=Strict",
            "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: refused}\ndata: {k: v, k: w}"
        )
        .free_text(),
        apply(
            one,
            "a",
            "",
            json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "refused", "resourceVersion": "1"}, "data": {"k": "x"}})
        ),
        apply(
            one,
            "a",
            "",
            json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "refused", "uid": "other"}, "data": {"k": "x"}})
        ),
        apply(
            "/api/v1/namespaces/missing/configmaps/a",
            "a",
            "",
            map("a", json!({}))
        ),
        apply(
            "/api/v1/namespaces/$ns/configmaps/late",
            "a",
            "",
            json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "late", "resourceVersion": "7"}})
        ),
        apply(
            "/api/v1/namespaces/$ns/configmaps/immutable",
            "a",
            "",
            json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "immutable"}, "immutable": true, "data": {"k": "v"}})
        ),
        apply(
            "/api/v1/namespaces/$ns/configmaps/immutable",
            "a",
            "",
            json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "immutable"}, "immutable": true, "data": {"k": "w"}})
        ),
    ]
}

/// Accounts of other built-in kinds, and who is taken for the writer.
fn accounts() -> Script {
    let rbac = "/apis/rbac.authorization.k8s.io/v1/namespaces/$ns";
    let core = "/api/v1/namespaces/$ns";
    let rule = |verb: &str| json!([{"apiGroups": [""], "resources": ["pods"], "verbs": [verb]}]);
    let role = |rules: Value| json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": {"name": "r"}, "rules": rules});
    let account = |secrets: Value, pull: Value| json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "s"}, "secrets": secrets, "imagePullSecrets": pull});
    let mut script = script![
        post(&format!("{core}/configmaps"), map("agent", json!({"k": "v"}))).header("user-agent", "kubectl/v1.36 (linux)").owned(),
        patch(&format!("{core}/configmaps/agent"), MERGE, json!({"data": {"l": "v"}})).header("user-agent", "agent with words/1").owned(),
        patch(&format!("{core}/configmaps/agent?fieldManager=named"), MERGE, json!({"data": {"l": "w"}})).header("user-agent", "kubectl/v1.36 (linux)").owned(),
        post(&format!("{core}/secrets"), json!({"metadata": {"name": "x"}, "stringData": {"a": "b"}})).owned(),
        apply(&format!("{core}/secrets/x"), "a", "", json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "x"}, "stringData": {"a": "c"}})),
        apply(&format!("{core}/secrets/x"), "a", "", json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "x"}, "data": {"d": "ZQ=="}})),
        apply(&format!("{rbac}/roles/r"), "a", "", role(rule("get"))),
        apply(&format!("{rbac}/roles/r"), "b", "", role(rule("list"))),
        apply(&format!("{rbac}/roles/r"), "b", "&force=true", role(rule("list"))),
        patch(&format!("{rbac}/roles/r"), STRATEGIC, json!({"rules": rule("watch")})).owned(),
        post(&format!("{rbac}/rolebindings"), json!({"metadata": {"name": "b"}, "roleRef": {"kind": "Role", "name": "r"}, "subjects": [{"kind": "User", "name": "u"}]})).owned(),
        apply(&format!("{rbac}/rolebindings/b"), "a", "&force=true", json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding", "metadata": {"name": "b"}, "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "r"}, "subjects": [{"kind": "User", "name": "v", "apiGroup": "rbac.authorization.k8s.io"}]})),
        apply(&format!("{core}/serviceaccounts/s"), "a", "", account(json!([{"name": "x"}]), json!([{"name": "p"}]))),
        apply(&format!("{core}/serviceaccounts/s"), "b", "", account(json!([{"name": "y"}, {"name": "x"}]), json!([{"name": "p"}]))),
        apply(&format!("{core}/serviceaccounts/s"), "b", "", account(json!([{"name": "y"}]), json!([{"name": "q"}]))),
        apply(&format!("{core}/serviceaccounts/s"), "a", "", account(json!([]), json!([{"name": "p"}]))),
        post("/api/v1/namespaces", json!({"metadata": {"name": "diff-apply-more", "labels": {"a": "b"}}})).owned(),
        apply("/api/v1/namespaces/diff-apply-more", "a", "", json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "diff-apply-more", "labels": {"a": "b", "c": "d"}}})),
        post("/apis/coordination.k8s.io/v1/namespaces/$ns/leases", json!({"metadata": {"name": "l"}, "spec": {"holderIdentity": "me", "leaseDurationSeconds": 5}})).owned(),
        apply("/apis/coordination.k8s.io/v1/namespaces/$ns/leases/l", "a", "", json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "l"}, "spec": {"holderIdentity": "you"}})),
    ];
    // More managers by update than are kept apart. The oldest are gathered, those of one second by name. So the
    // names are in the order of time: it does not matter where a second ends.
    for number in 0..14 {
        let key = format!("k{number}");
        let path = format!("{core}/configmaps/agent?fieldManager=z{number:02}");
        script.push(patch(&path, MERGE, json!({"data": {key: "v"}})).owned());
    }
    script
}

/// A definition with every type of list and map.
pub(super) fn thing() -> Value {
    let item = json!({"type": "object", "required": ["name"], "properties": {
        "name": {"type": "string"}, "port": {"type": "integer", "default": 80}, "value": {"type": "string"},
        "tags": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}}}});
    let mut thing = definition(
        "things",
        "Thing",
        json!({
            "spec": {"type": "object", "properties": {
                "size": {"type": "integer"}, "color": {"type": "string", "default": "red"},
                "maybe": {"type": "string", "nullable": true},
                "either": {"x-kubernetes-int-or-string": true},
                "set": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}},
                "numbers": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "integer"}},
                "plain": {"type": "array", "items": {"type": "string"}},
                "atoms": {"type": "array", "x-kubernetes-list-type": "atomic", "items": item.clone()},
                "items": {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name", "port"], "items": item},
                "pieces": {"type": "object", "properties": {"a": {"type": "string"}, "b": {"type": "string"}}},
                "whole": {"type": "object", "x-kubernetes-map-type": "atomic", "properties": {"a": {"type": "string"}, "b": {"type": "string"}}},
                "words": {"type": "object", "additionalProperties": {"type": "string"}},
                "nested": {"type": "object", "additionalProperties": {"type": "object", "properties": {"x": {"type": "string"}}}},
                "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
                "object": {"type": "object", "x-kubernetes-embedded-resource": true, "x-kubernetes-preserve-unknown-fields": true},
            }},
            "status": {"type": "object", "properties": {
                "ready": {"type": "boolean"},
                "conditions": {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["type"],
                    "items": {"type": "object", "required": ["type"], "properties": {"type": {"type": "string"}, "status": {"type": "string"}}}},
            }},
        }),
    );
    let mut beta = thing["spec"]["versions"][0].clone();
    beta["name"] = "v1beta1".into();
    beta["storage"] = false.into();
    thing["spec"]["versions"] = json!([thing["spec"]["versions"][0], beta]);
    thing
}

/// A thing of `v1` as a body; `more` is what it holds beside its name.
pub(super) fn body(name: &str, more: &Value) -> Value {
    let mut body = json!({"apiVersion": "$group/v1", "kind": "Thing", "metadata": {"name": name}});
    for (field, value) in more.as_object().into_iter().flatten() {
        body[field] = value.clone();
    }
    body
}

fn spec(value: Value) -> Value {
    body("t", &json!({"spec": value}))
}

fn custom() -> Script {
    let things = "/apis/$group/v1/namespaces/$ns/things";
    let one = "/apis/$group/v1/namespaces/$ns/things/t";
    let status = "/apis/$group/v1/namespaces/$ns/things/t/status";
    script![
        install(thing()),
        apply(one, "a", "", spec(json!({"size": 1, "set": ["a", "b"], "items": [{"name": "x"}, {"name": "x", "port": 81, "value": "v"}]}))),
        get(one).owned(),
        apply(one, "b", "", spec(json!({"set": ["c", "a"], "items": [{"name": "y", "tags": ["t"]}, {"name": "x", "tags": ["u"]}]}))),
        apply(one, "b", "", spec(json!({"set": ["c"], "items": [{"name": "x", "value": "mine"}]}))),
        apply(one, "a", "", spec(json!({"size": 1, "set": ["b"], "items": [{"name": "x", "value": "theirs"}]}))),
        apply(one, "a", "&force=true", spec(json!({"size": 2, "set": ["b"], "items": [{"name": "x", "value": "theirs"}]}))),
        apply(one, "b", "", spec(json!({"plain": ["x"], "atoms": [{"name": "m"}], "whole": {"a": "1"}, "pieces": {"a": "1"}, "words": {"w": "1"}, "nested": {"n": {"x": "1"}}}))),
        apply(one, "c", "", spec(json!({"plain": ["x"], "atoms": [{"name": "m"}], "whole": {"a": "1"}, "pieces": {"b": "1"}, "words": {"v": "1"}, "nested": {"n": {}}}))),
        apply(one, "c", "", spec(json!({"whole": {"b": "1"}, "plain": ["y"]}))),
        apply(one, "c", "", spec(json!({"pieces": {}, "words": {}, "free": {}, "plain": [], "set": [], "items": []}))),
        apply(one, "d", "", spec(json!({"free": {"deep": {"list": [1, {"a": 2}], "map": {"x": 1}}, "n": null}, "maybe": null, "either": 5}))),
        apply(one, "d", "", spec(json!({"free": {"deep": {"list": [2], "map": {"y": 1}}}, "either": "5%"}))),
        apply(one, "e", "", spec(json!({"free": {"deep": "scalar"}}))),
        apply(one, "e", "&force=true", spec(json!({"free": {"deep": "scalar"}}))),
        apply(one, "d", "", spec(json!({"object": {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "in", "labels": {"a": "b"}}, "data": {"x": "y"}}}))),
        apply(one, "d", "", spec(json!({"unheard": 1}))),
        apply(one, "d", "", spec(json!({"size": "text"}))).free_text(),
        apply(one, "d", "", spec(json!({"set": ["a", "a"]}))),
        apply(one, "d", "", spec(json!({"items": [{"value": "nameless"}]}))),
        apply(one, "d", "", spec(json!({"items": [{"name": "x"}, {"name": "x", "port": 80}]}))),
        apply(one, "s", "", body("t", &json!({"status": {"ready": true}}))),
        apply(status, "s", "", body("t", &json!({"status": {"ready": true, "conditions": [{"type": "A", "status": "True"}]}}))),
        apply(status, "s", "", body("t", &json!({"metadata": {"name": "t", "labels": {"no": "no"}}, "spec": {"size": 9}, "status": {"ready": false}}))),
        patch(status, MERGE, json!({"status": {"conditions": [{"type": "B", "status": "True"}]}})).owned(),
        apply(status, "t", "", body("t", &json!({"status": {"conditions": [{"type": "B", "status": "False"}]}}))),
        apply("/apis/$group/v1/namespaces/$ns/things/none/status", "s", "", body("none", &json!({"status": {}}))),
        patch(one, MERGE, json!({"spec": {"set": null, "items": [{"name": "z"}]}, "metadata": {"labels": {"l": "1"}}})).owned().keep("t"),
        put(one, body("t", &json!({"metadata": {"name": "t", "resourceVersion": "$rv(t)"}, "spec": {"size": 3}}))).owned(),
        get(&format!("{things}?limit=1")),
        delete(one),
    ]
}

/// Managers that speak of an object in several versions.
fn versions() -> Script {
    let old = "/apis/$group/v1beta1/namespaces/$ns/things/v";
    let new = "/apis/$group/v1/namespaces/$ns/things/v";
    let beta = |value: Value| {
        let mut body = body("v", &json!({"spec": value}));
        body["apiVersion"] = "$group/v1beta1".into();
        body
    };
    let v1 = |value: Value| body("v", &json!({"spec": value}));
    script![
        apply(old, "a", "", beta(json!({"size": 1, "set": ["a"]}))),
        apply(new, "b", "", v1(json!({"size": 2, "set": ["b"]}))),
        apply(
            new,
            "b",
            "&force=true",
            v1(json!({"size": 2, "set": ["b"]}))
        ),
        patch(old, MERGE, json!({"spec": {"words": {"a": "b"}}})).owned(),
        patch(new, MERGE, json!({"spec": {"words": {"a": "c"}}})).owned(),
        apply(new, "a", "", v1(json!({"words": {"d": "e"}}))),
        apply(old, "a", "", beta(json!({"pieces": {"a": "x"}}))),
        apply(old, "a", "", v1(json!({"pieces": {"a": "x"}}))),
        get(new).owned(),
        delete(new),
    ]
}

/// From `kubectl apply` to `kubectl apply --server-side`.
fn migration() -> Script {
    let maps = "/api/v1/namespaces/$ns/configmaps";
    let one = "/api/v1/namespaces/$ns/configmaps/migrated";
    let applied = "{\"apiVersion\":\"v1\",\"data\":{\"k\":\"v\",\"l\":\"v\"},\"kind\":\"ConfigMap\",\"metadata\":{\"name\":\"migrated\"}}\n";
    let mut first = map("migrated", json!({"k": "v", "l": "v"}));
    first["metadata"]["annotations"] =
        json!({"kubectl.kubernetes.io/last-applied-configuration": applied});
    script![
        post(
            &format!("{maps}?fieldManager=kubectl-client-side-apply"),
            first
        )
        .owned(),
        apply(one, "other", "", map("migrated", json!({"k": "w"}))),
        apply(one, "kubectl", "", map("migrated", json!({"k": "w"}))),
        patch(
            &format!("{one}?fieldManager=x"),
            MERGE,
            json!({"data": {"k": "x"}})
        )
        .owned(),
        apply(one, "kubectl", "", map("migrated", json!({"k": "y"}))),
        apply(one, "kubectl", "", map("migrated", json!({"l": "y"}))),
    ]
}

fn strategic() -> Script {
    let core = "/api/v1/namespaces/$ns";
    let hooks = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations";
    let accounts = format!("{core}/serviceaccounts");
    let one = format!("{accounts}/strategic");
    let map_one = format!("{core}/configmaps/strategic");
    let sa = |body: Value| patch(&one, STRATEGIC, body).owned();
    let cm = |body: Value| patch(&map_one, STRATEGIC, body).owned();
    let meta = |value: Value| json!({"metadata": value});
    script![
        post(&accounts, json!({"metadata": {"name": "strategic", "finalizers": ["e.com/a"], "labels": {"a": "1", "b": "2"}}, "secrets": [{"name": "x"}, {"name": "y", "kind": "k"}], "imagePullSecrets": [{"name": "p"}]})).owned(),
        sa(json!({"secrets": [{"name": "z"}]})),
        sa(json!({"secrets": [{"name": "y", "kind": "l"}]})),
        sa(json!({"secrets": [{"name": "x", "$patch": "delete"}]})),
        sa(json!({"secrets": [{"name": "missing", "$patch": "delete"}]})),
        sa(json!({"imagePullSecrets": [{"name": "q"}]})),
        sa(json!({"secrets": [{"name": "n"}, {"$patch": "replace"}]})),
        sa(json!({"secrets": [{"name": "n", "$patch": "merge", "kind": "m"}]})),
        sa(json!({"secrets": [{"name": "n", "$patch": "bad"}]})).free_text(),
        sa(json!({"secrets": [{"kind": "nameless"}]})).free_text(),
        sa(json!({"$setElementOrder/secrets": [{"name": "b"}, {"name": "n"}, {"name": "a"}], "secrets": [{"name": "a"}, {"name": "b"}]})),
        sa(json!({"$setElementOrder/secrets": [{"name": "a"}], "secrets": [{"name": "o"}]})).free_text(),
        sa(json!({"$setElementOrder/secrets": [{"name": "a"}, {"name": "b"}]})),
        sa(meta(json!({"finalizers": ["e.com/b", "e.com/a"]}))),
        sa(meta(json!({"$deleteFromPrimitiveList/finalizers": ["e.com/a"]}))),
        sa(meta(json!({"$setElementOrder/finalizers": ["e.com/c", "e.com/b"], "finalizers": ["e.com/c"]}))),
        sa(meta(json!({"$deleteFromPrimitiveList/finalizers": ["e.com/b", "e.com/c"]}))),
        sa(meta(json!({"labels": {"$patch": "replace", "c": "3"}}))),
        sa(meta(json!({"labels": {"$retainKeys": ["d"], "d": "4"}}))),
        sa(meta(json!({"labels": {"$retainKeys": ["x"], "e": "4"}}))).free_text(),
        sa(meta(json!({"labels": {"$patch": "delete"}}))),
        sa(meta(json!({"annotations": {"a": null, "b": "c"}}))),
        sa(meta(json!({"ownerReferences": [{"uid": "$uid(owner)", "apiVersion": "v1", "kind": "ConfigMap", "name": "owner"}]}))),
        sa(meta(json!({"ownerReferences": [{"uid": "$uid(other)", "apiVersion": "v1", "kind": "ConfigMap", "name": "other"}, {"uid": "$uid(owner)", "controller": true}]}))),
        sa(meta(json!({"ownerReferences": [{"uid": "$uid(owner)", "$patch": "delete"}]}))),
        sa(meta(json!({"ownerReferences": null}))),
        sa(json!({"secrets": null, "automountServiceAccountToken": true})),
        sa(json!({"secrets": "text"})).free_text(),
        sa(json!({"$patch": "replace", "metadata": {"name": "strategic"}, "secrets": [{"name": "r"}]})),
        sa(json!({"$patch": "other"})).free_text(),
        post(&format!("{core}/configmaps"), map("strategic", json!({"a": "1", "b": "2"}))),
        cm(json!({"data": {"a": null, "c": "3"}})),
        cm(json!({"data": {"$patch": "replace", "d": "4"}})),
        cm(json!({"data": {"$patch": "delete"}})),
        cm(json!({"data": {"e": "5"}, "binaryData": {"f": "Zg=="}})),
        cm(json!({"data": {"$retainKeys": ["g"], "g": "7"}})),
        post(hooks, json!({"metadata": {"name": "diff-apply"}, "webhooks": [hook("a.e.com"), hook("b.e.com")]})).owned(),
        patch(&format!("{hooks}/diff-apply"), STRATEGIC, json!({"webhooks": [{"name": "b.e.com", "timeoutSeconds": 3}, hook("c.e.com")]})).owned(),
        patch(&format!("{hooks}/diff-apply"), STRATEGIC, json!({"$setElementOrder/webhooks": [{"name": "c.e.com"}, {"name": "a.e.com"}], "webhooks": [{"name": "b.e.com", "$patch": "delete"}, {"name": "a.e.com", "matchConditions": [{"name": "m", "expression": "true"}]}]})).owned(),
        apply(&format!("{hooks}/diff-apply"), "a", "", json!({"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration", "metadata": {"name": "diff-apply"}, "webhooks": [hook("d.e.com")]})),
        delete(&format!("{hooks}/diff-apply")),
    ]
}

/// A webhook that is called for nothing that is there.
fn hook(name: &str) -> Value {
    json!({
        "name": name, "sideEffects": "None", "admissionReviewVersions": ["v1"], "failurePolicy": "Ignore",
        "matchPolicy": "Equivalent", "timeoutSeconds": 10, "namespaceSelector": {}, "objectSelector": {},
        "clientConfig": {"url": "https://127.0.0.1:1/"},
        "rules": [{"apiGroups": ["none.example.com"], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["nothings"], "scope": "*"}],
    })
}
