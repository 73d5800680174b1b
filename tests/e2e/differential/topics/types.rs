//! What is told of types: `OpenAPI` documents, and the three levels of field validation.

use http::Method;
use serde_json::{Value, json};

use super::super::step::{
    Ask, Condition, MERGE, PATCH, STRATEGIC, Script, Topic, YAML, ask, definition, get, install,
    patch, post, put, script, until,
};

const MAPS: &str = "/api/v1/namespaces/$ns/configmaps";
const GROVES: &str = "/apis/$group/v1/namespaces/$ns/groves";

const EMPTY: &str = "a missing document has a body";

/// The levels, and words that are none.
const LEVELS: [&str; 6] = ["Strict", "Warn", "Ignore", "", "strict", "Bogus"];

pub(super) fn topic() -> Topic {
    Topic::new("types", built_in())
        .then(other_kinds())
        .then(install(groves()))
        .then(custom())
        .then(patches())
        .then(yaml())
        .then(documents())
}

fn groves() -> Value {
    let mut crd = definition(
        "groves",
        "Grove",
        json!({
            "spec": {
                "type": "object", "description": "What is wanted.", "required": ["species"],
                "properties": {
                    "species": {"type": "string", "enum": ["oak", "elm"], "default": "oak", "description": "Which it is."},
                    "count": {"type": "integer", "format": "int32", "minimum": 0},
                    "height": {"x-kubernetes-int-or-string": true},
                    "tags": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}},
                    "birds": {
                        "type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"],
                        "items": {"type": "object", "required": ["name"], "properties": {"name": {"type": "string"}, "age": {"type": "integer", "nullable": true}}},
                    },
                    "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
                    "half": {"type": "object", "x-kubernetes-preserve-unknown-fields": true, "properties": {"known": {"type": "object", "properties": {"a": {"type": "string"}}}}},
                    "pod": {"type": "object", "x-kubernetes-embedded-resource": true, "x-kubernetes-preserve-unknown-fields": true},
                    "inner": {"type": "object", "x-kubernetes-embedded-resource": true, "required": ["spec"], "properties": {"metadata": {"type": "object", "description": "Own words."}, "spec": {"type": "object", "properties": {"a": {"type": "string"}}}}},
                    "labels": {"type": "object", "additionalProperties": {"type": "object", "properties": {"v": {"type": "string"}}}},
                    "maybe": {"type": "string", "nullable": true, "default": "x"},
                    "choice": {"type": "object", "properties": {"a": {"type": "string"}, "b": {"type": "string"}}, "oneOf": [{"required": ["a"]}, {"required": ["b"]}]},
                    "nested": {"type": "object", "default": {}, "properties": {"k": {"type": "string", "default": "v"}}},
                },
            },
            "status": {"type": "object", "properties": {"count": {"type": "integer"}}},
        }),
    );
    let version = &mut crd["spec"]["versions"][0];
    version["schema"]["openAPIV3Schema"]["description"] = "A grove grows.".into();
    version["selectableFields"] = json!([{"jsonPath": ".spec.species"}]);
    let mut second = version.clone();
    second["name"] = "v1alpha1".into();
    second["storage"] = false.into();
    second["schema"]["openAPIV3Schema"] =
        json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    if let Some(second) = second.as_object_mut() {
        second.remove("selectableFields");
        second.remove("subresources");
    }
    let mut third = second.clone();
    third["name"] = "v1beta1".into();
    third["schema"]["openAPIV3Schema"] = json!({
        "type": "object",
        "x-kubernetes-validations": [{"rule": "self.ruled >= 0"}],
        "properties": {"ruled": {"type": "integer", "default": 1, "title": "Ruled", "x-kubernetes-validations": [{"rule": "self >= 0", "message": "less than nothing"}]}},
    });
    if let Some(versions) = crd["spec"]["versions"].as_array_mut() {
        versions.extend([second, third]);
    }
    crd
}

/// A dry create at each level.
fn levels(of: &str, body: &str) -> Script {
    let mut script = Script::default();
    for level in LEVELS {
        let path = format!("{of}?dryRun=All&fieldValidation={level}");
        script.push(post(&path, body.into()));
    }
    script.push(post(&format!("{of}?dryRun=All"), body.into()));
    script
}

fn strictly(of: &str, body: &str) -> Ask {
    post(
        &format!("{of}?dryRun=All&fieldValidation=Strict"),
        body.into(),
    )
}

fn built_in() -> Script {
    script![
        levels(
            MAPS,
            r#"{"metadata":{"name":"a","foo":1},"x":1,"data":{"a":"b","a":"c"}}"#
        ),
        strictly(
            MAPS,
            r#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a","name":"b","labels":{"a":"1","a":"2"},"ownerReferences":[{"apiVersion":"v1","kind":"x","name":"n","uid":"u","zz":1}]},"x":{"y":1,"y":2},"data":{"a":"b"}}"#
        ),
        strictly(MAPS, r#"{"metadata":{"name":"a"},"Data":{"a":"b"}}"#),
        strictly(
            MAPS,
            r#"{"metadata":{"name":"a"},"z":1,"immutable":true,"a":2}"#
        ),
        strictly(MAPS, r#"{"metadata":{"name":"a"},"x":1,"x":2,"x":3}"#),
        strictly(MAPS, r#"{"metadata":{"name":"a"},"x":1,"data":{"a":5}}"#).free_text(),
        strictly(
            MAPS,
            r#"{"metadata":{"name":"a","annotations":null},"data":null}"#
        ),
        post(
            &format!("{MAPS}?dryRun=All&fieldValidation=Strict&fieldValidation=Ignore"),
            r#"{"metadata":{"name":"a"},"x":1}"#.into()
        ),
        post(
            &format!("{MAPS}?dryRun=All"),
            r#"{"metadata":{"name":"A_B"},"x":1}"#.into()
        ),
        post(
            MAPS,
            json!({"metadata": {"name": "there"}, "data": {"a": "b"}})
        ),
        put(
            &format!("{MAPS}/there?dryRun=All&fieldValidation=Strict"),
            json!({"metadata": {"name": "there"}, "x": 1})
        ),
        put(
            &format!("{MAPS}/there?dryRun=All"),
            json!({"metadata": {"name": "there"}, "x": 1})
        ),
        put(
            &format!("{MAPS}/there?dryRun=All&fieldValidation=Bogus"),
            json!({"metadata": {"name": "there"}})
        ),
        put(
            &format!("{MAPS}/there"),
            json!({"metadata": {"name": "there"}, "data": {"a": "b"}, "dropped": {"b": 1}})
        ),
        get(&format!("{MAPS}/there")),
    ]
}

/// Kinds whose fields lie deeper.
fn other_kinds() -> Script {
    let rbac = "/apis/rbac.authorization.k8s.io/v1";
    let admission = "/apis/admissionregistration.k8s.io/v1";
    let reviews = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews";
    let events = "/apis/events.k8s.io/v1/namespaces/$ns/events";
    let mut script = script![
        strictly(
            &format!("{rbac}/clusterroles"),
            r#"{"metadata":{"name":"$ns"},"rules":[{"verbs":["get"],"bad":1,"apiGroups":[""],"verbs":["x"]}],"aggregationRule":{"clusterRoleSelectors":[{"matchLabels":{"a":"b"},"oops":1,"matchExpressions":[{"key":"a","operator":"In","values":["a"],"q":1}]}]}}"#
        ),
        strictly(
            &format!("{rbac}/namespaces/$ns/rolebindings"),
            r#"{"metadata":{"name":"b"},"subjects":[{"kind":"User","name":"x","who":1}],"roleRef":{"kind":"Role","name":"r","scope":"x"}}"#
        ),
        strictly(
            "/api/v1/namespaces/$ns/serviceaccounts",
            r#"{"metadata":{"name":"b"},"secrets":[{"name":"x","z":1}],"imagePullSecrets":[{"name":"y","kind":"Secret"}]}"#
        ),
        strictly(
            "/api/v1/namespaces/$ns/resourcequotas",
            r#"{"metadata":{"name":"q"},"spec":{"hard":{"configmaps":"1"},"soft":{},"scopeSelector":{"matchExpressions":[{"scopeName":"x","operator":"Exists","y":1}]}}}"#
        ),
        strictly(
            &format!("{admission}/validatingwebhookconfigurations"),
            r#"{"metadata":{"name":"$ns"},"webhooks":[{"name":"a.b.c","nope":1,"admissionReviewVersions":["v1"],"sideEffects":"None","clientConfig":{"url":"https://a.b","u":2},"rules":[{"operations":["*"],"apiGroups":["*"],"apiVersions":["*"],"resources":["*"],"z":1}]}]}"#
        ),
        strictly(
            "/apis/coordination.k8s.io/v1/namespaces/$ns/leases",
            r#"{"metadata":{"name":"l","managedFields":[{"manager":"x","zz":1,"operation":"Update","fieldsType":"FieldsV1","apiVersion":"v1","fieldsV1":{"f:x":{}}}]},"spec":{"holderIdentity":"a","Foo":null}}"#
        ),
        strictly(
            events,
            r#"{"metadata":{"name":"e"},"involvedObject":{},"note":"x","regarding":{"kind":"x","z":1},"reportingController":"a/b","reportingInstance":"x","action":"a","reason":"r","type":"Normal","eventTime":"2026-01-01T00:00:00.000000Z","foo":1}"#
        ),
        strictly(
            "/api/v1/namespaces/$ns/events",
            r#"{"metadata":{"name":"e"},"involvedObject":{"namespace":"$ns","z":1},"note":"x","source":{"component":"c","x":1}}"#
        ),
        strictly(
            "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
            r#"{"metadata":{"name":"as.$group"},"spec":{"group":"$group","zap":1,"scope":"Cluster","names":{"plural":"as","kind":"A","z":1},"versions":[{"name":"v1","served":true,"storage":true,"u":1,"schema":{"openAPIV3Schema":{"type":"object","flop":1,"properties":{"a":{"type":"string","x-foo":1,"default":{"b":1}}}}}}]}}"#
        ),
    ];
    for level in ["Strict", "Warn", "Ignore"] {
        let review = post(
            &format!("{reviews}?fieldValidation={level}"),
            r#"{"spec":{"resourceAttributes":{"verb":"get","foo":1},"bar":1}}"#.into(),
        );
        script.push(review.settle(|body| {
            // Who allows, and why, is each server's own affair.
            if let Some(Value::Object(status)) = body.get_mut("status") {
                status.remove("reason");
            }
        }));
    }
    script
}

fn grove(rest: &str) -> String {
    format!(r#"{{"apiVersion":"$group/v1","kind":"Grove","metadata":{{"name":"g"}},{rest}}}"#)
}

fn custom() -> Script {
    script![
        levels(
            GROVES,
            r#"{"apiVersion":"$group/v1","kind":"Grove","metadata":{"name":"t","foo":1,"name":"t"},"top":1,"spec":{"species":"oak","zz":1,"birds":[{"name":"a","wing":2,"name":"a"}],"free":{"any":1},"half":{"x":{"y":1},"known":{"a":"1","b":1}},"pod":{"apiVersion":"v1","kind":"P","metadata":{"name":"q","bad":1},"z":1},"inner":{"apiVersion":"v1","kind":"P","metadata":{"name":"q"},"spec":{"a":"1","b":2},"other":1},"labels":{"a":{"v":"1","w":2}}},"status":{"no":1}}"#
        ),
        strictly(GROVES, &grove(r#""spec":{"species":"bad","zz":1}"#)),
        post(
            &format!("{GROVES}?dryRun=All"),
            grove(r#""spec":{"species":"bad","zz":1}"#).into()
        ),
        strictly(
            GROVES,
            r#"{"apiVersion":"$group/v1","kind":"Grove","metadata":{"name":"t","ownerReferences":[{"apiVersion":"v1","kind":"x","name":"n","uid":"u","zz":1}]},"spec":{"species":"oak","zz":1}}"#
        ),
        strictly(
            GROVES,
            &grove(r#""spec":{"species":"oak"},"zzz":{"a":1,"a":2}"#)
        ),
        strictly(
            GROVES,
            &grove(r#""spec":{"species":"oak","species":"elm"}"#)
        ),
        strictly(
            GROVES,
            &grove(r#""spec":{"species":"oak","free":{"a":1,"a":2}}"#)
        ),
        post(
            GROVES,
            grove(r#""spec":{"species":"oak","count":1}"#).into()
        )
        .keep("g"),
        put(
            &format!("{GROVES}/g/status?dryRun=All&fieldValidation=Strict"),
            json!({"apiVersion": "$group/v1", "kind": "Grove", "metadata": {"name": "g", "resourceVersion": "$rv(g)"}, "spec": {"species": "oak", "q": 1}, "status": {"q": 1}})
        ),
        put(
            &format!("{GROVES}/g?dryRun=All&fieldValidation=Warn"),
            json!({"apiVersion": "$group/v1", "kind": "Grove", "metadata": {"name": "g", "resourceVersion": "$rv(g)"}, "spec": {"species": "oak", "q": 1}, "status": {"q": 1}})
        ),
    ]
}

fn patches() -> Script {
    let mut script = Script::default();
    for one in [format!("{MAPS}/there"), format!("{GROVES}/g")] {
        for level in ["Strict", "Warn", "Ignore", "Bogus"] {
            let path = format!("{one}?dryRun=All&fieldValidation={level}");
            let merge =
                r#"{"x":1,"data":{"z":"1","z":"2"},"spec":{"zz":1,"zz":2},"metadata":{"foo":1}}"#;
            // The text quotes the object that was made, with all of its managed fields.
            script.push(patch(&path, MERGE, merge.into()).free_text());
            let json = r#"[{"op":"add","path":"/x","value":{"a":1}},{"op":"add","path":"/metadata/foo","value":1,"op":"add"}]"#;
            script.push(patch(&path, PATCH, json.into()).free_text());
        }
    }
    let there = format!("{MAPS}/there?dryRun=All&fieldValidation");
    let strategic = r#"{"x":1,"data":{"z":"1","z":"2"},"metadata":{"foo":1}}"#;
    for level in ["Strict", "Warn"] {
        script.push(patch(
            &format!("{there}={level}"),
            STRATEGIC,
            strategic.into(),
        ));
    }
    script
}

fn yaml() -> Script {
    let map = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: a\n  name: b\n  foo: 1\ndata:\n  a: b\n  a: c\nx: 1\n";
    let grove = "apiVersion: $group/v1\nkind: Grove\nmetadata:\n  name: a\n  name: b\n  foo: 1\nspec:\n  species: oak\n  zz: c\nx: 1\n";
    let mut script = Script::default();
    for (of, body) in [(MAPS, map), (GROVES, grove)] {
        for level in ["Strict", "Warn", "Ignore"] {
            let path = format!("{of}?dryRun=All&fieldValidation={level}");
            script.push(ask(Method::POST, &path, YAML, body));
        }
    }
    script
}

fn documents() -> Script {
    let of = |version: &str| format!("/openapi/v3/apis/$group/{version}");
    script![
        get("/openapi/v3/nothing").tolerate(EMPTY),
        get("/openapi/v3/apis/$group/v2").tolerate(EMPTY),
        until(&of("v1"), Condition::Code(200)),
        until(&of("v1alpha1"), Condition::Code(200)),
        get(&of("v1")).settle(own_words),
        get(&of("v1alpha1")).settle(own_words),
        until(&of("v1beta1"), Condition::Code(200)),
        get(&of("v1beta1")).settle(own_words),
        get("/openapi/v3/api/v1").settle(config_maps),
        get("/openapi/v3/apis/rbac.authorization.k8s.io/v1").settle(types_of_group),
        get("/openapi/v3/apis/coordination.k8s.io/v1").settle(types_of_group),
        get("/openapi/v3/apis/certificates.k8s.io/v1").settle(types_of_group),
        get("/openapi/v3/apis/authorization.k8s.io/v1").settle(types_of_group),
        get("/openapi/v3/apis/events.k8s.io/v1").settle(types_of_group),
    ]
}

/// What of a document is compared: the definitions of its own kinds, and its paths without the texts
/// and the forms of answers. The real server answers in YAML and selects by shards, and describes what
/// all kinds share in versions of its own.
fn own_words(document: &mut Value) {
    let schemas = &document["components"]["schemas"];
    let own: Value = schemas
        .as_object()
        .into_iter()
        .flatten()
        .filter(|(name, _)| name.contains("Grove"))
        .map(|(name, schema)| json!([name, schema]))
        .collect();
    let shared: Value = schemas
        .as_object()
        .into_iter()
        .flatten()
        .map(|(name, _)| name.as_str())
        .filter(|name| !name.ends_with("ShardInfo"))
        .collect();
    let paths: Value = document["paths"]
        .as_object()
        .into_iter()
        .flatten()
        .map(|(path, item)| json!([path, outline(item)]))
        .collect();
    *document = json!({"own": own, "shared": shared, "paths": paths});
}

/// Of a built-in kind what is described of it, and what can be done. The real server's document has
/// defaults that mean nothing.
fn config_maps(document: &mut Value) {
    let mut schemas = document["components"]["schemas"].take();
    without_defaults(&mut schemas);
    without_values(&mut schemas);
    let names = [
        "io.k8s.api.core.v1.ConfigMap",
        "io.k8s.api.core.v1.Secret",
        "io.k8s.api.core.v1.ServiceAccount",
        "io.k8s.api.core.v1.Event",
        "io.k8s.api.core.v1.EventSeries",
        "io.k8s.api.core.v1.Namespace",
        "io.k8s.api.core.v1.NamespaceCondition",
        "io.k8s.api.core.v1.NamespaceSpec",
        "io.k8s.api.core.v1.NamespaceStatus",
        "io.k8s.api.core.v1.ObjectReference",
        "io.k8s.api.core.v1.ResourceQuota",
        "io.k8s.api.core.v1.ResourceQuotaSpec",
        "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta",
        "io.k8s.apimachinery.pkg.apis.meta.v1.OwnerReference",
        "io.k8s.apimachinery.pkg.apis.meta.v1.StatusDetails",
    ];
    let schemas: Value = names
        .iter()
        .map(|name| json!([name, schemas[name]]))
        .collect();
    let paths: Value = [
        "/api/v1/configmaps",
        "/api/v1/namespaces",
        "/api/v1/namespaces/{name}",
        "/api/v1/namespaces/{name}/finalize",
        "/api/v1/namespaces/{name}/status",
        "/api/v1/namespaces/{namespace}/configmaps",
        "/api/v1/namespaces/{namespace}/configmaps/{name}",
    ]
    .iter()
    .map(|path| json!([path, outline(&document["paths"][path])]))
    .collect();
    *document = json!({"schemas": schemas, "paths": paths});
}

fn without_defaults(value: &mut Value) {
    match value {
        Value::Object(map) => {
            map.remove("default");
            map.values_mut().for_each(without_defaults);
            // A reference with nothing beside it needs no wrapping.
            if map.len() == 1
                && let Some(Value::Array(all)) = map.get("allOf")
                && let [Value::Object(one)] = all.as_slice()
            {
                *map = one.clone();
            }
        }
        Value::Array(list) => list.iter_mut().for_each(without_defaults),
        _ => {}
    }
}

/// Without the values of enumerations, and what is required in any order.
fn without_values(value: &mut Value) {
    match value {
        Value::Object(map) => {
            map.remove("enum");
            if let Some(Value::Array(required)) = map.get_mut("required") {
                required.sort_by_key(Value::to_string);
            }
            // They are told in the description as well.
            if let Some(Value::String(text)) = map.get_mut("description")
                && let Some(end) = text.find("\n\nPossible enum values:")
            {
                text.truncate(end);
            }
            map.values_mut().for_each(without_values);
        }
        Value::Array(list) => list.iter_mut().for_each(without_values),
        _ => {}
    }
}

/// All that is described of the kinds of a group, without what all groups share, and without the values of
/// enumerations.
fn types_of_group(document: &mut Value) {
    let mut schemas = document["components"]["schemas"].take();
    without_defaults(&mut schemas);
    without_values(&mut schemas);
    if let Some(schemas) = schemas.as_object_mut() {
        // Lists are described in words of their own.
        schemas.retain(|name, _| name.starts_with("io.k8s.api.") && !name.ends_with("List"));
    }
    *document = schemas;
}

/// Operations with the names of their parameters and the forms of their bodies.
fn outline(item: &Value) -> Value {
    let names = |parameters: &Value| -> Value {
        let all = parameters.as_array().into_iter().flatten();
        all.map(|parameter| {
            json!([
                parameter["name"],
                parameter["in"],
                parameter["required"],
                parameter["schema"]
            ])
        })
        .filter(|parameter| parameter[0] != "shardSelector")
        .collect()
    };
    let mut out = json!({});
    for (key, value) in item.as_object().into_iter().flatten() {
        if key == "parameters" {
            out["parameters"] = names(value);
            continue;
        }
        let responses: Value = value["responses"]
            .as_object()
            .into_iter()
            .flatten()
            .map(|(code, response)| {
                let schema = &response["content"]["application/json"];
                json!([code, response["description"], schema])
            })
            .collect();
        out[key] = json!({
            "tags": value["tags"],
            "description": value["description"],
            "operationId": value["operationId"],
            "action": value["x-kubernetes-action"],
            "gvk": value["x-kubernetes-group-version-kind"],
            "parameters": names(&value["parameters"]),
            "body": value["requestBody"],
            "responses": responses,
        });
    }
    out
}
