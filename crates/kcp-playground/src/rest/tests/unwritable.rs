//! Objects that are hard to write as protobuf: what is taken from a client can be shown to each.

use super::*;
use crate::openapi::builtin::{referred, types};
use crate::protobuf::decode;
use crate::store::Table;

const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";

/// Where objects of a kind are, its group and its name, and an object of it.
fn kinds() -> Vec<(&'static str, &'static str, &'static str, Value)> {
    const RBAC: &str = "rbac.authorization.k8s.io";
    let role_ref = json!({"apiGroup": RBAC, "kind": "ClusterRole", "name": "r"});
    vec![
        ("/api/v1/namespaces", "", "Namespace", json!({})),
        (MAPS, "", "ConfigMap", json!({"data": {"a": "b"}})),
        (
            "/api/v1/namespaces/default/secrets",
            "",
            "Secret",
            json!({}),
        ),
        (
            "/api/v1/namespaces/default/serviceaccounts",
            "",
            "ServiceAccount",
            json!({}),
        ),
        (
            "/api/v1/namespaces/default/resourcequotas",
            "",
            "ResourceQuota",
            json!({"spec": {}}),
        ),
        (
            "/api/v1/namespaces/default/events",
            "",
            "Event",
            json!({"involvedObject": {"namespace": "default"}}),
        ),
        (
            "/apis/events.k8s.io/v1/namespaces/default/events",
            "events.k8s.io",
            "Event",
            json!({"regarding": {"namespace": "default"}, "eventTime": "2024-01-01T00:00:00.000000Z", "type": "Normal",
                "reportingController": "c", "reportingInstance": "i", "action": "a", "reason": "r"}),
        ),
        (
            "/apis/coordination.k8s.io/v1/namespaces/default/leases",
            "coordination.k8s.io",
            "Lease",
            json!({"spec": {}}),
        ),
        (
            "/apis/rbac.authorization.k8s.io/v1/namespaces/default/roles",
            RBAC,
            "Role",
            json!({"rules": []}),
        ),
        (
            "/apis/rbac.authorization.k8s.io/v1/clusterroles",
            RBAC,
            "ClusterRole",
            json!({"rules": []}),
        ),
        (
            "/apis/rbac.authorization.k8s.io/v1/namespaces/default/rolebindings",
            RBAC,
            "RoleBinding",
            json!({"roleRef": role_ref}),
        ),
        (
            "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings",
            RBAC,
            "ClusterRoleBinding",
            json!({"roleRef": role_ref}),
        ),
    ]
}

fn hostile() -> Vec<Value> {
    let texts = [
        "",
        "x",
        "1",
        "1.5e3",
        "-0.5",
        "100m",
        "YQ",
        "YQ==",
        "YR==",
        "YWI=\n",
        "=",
        "\u{0}",
        "ä",
        "now",
        "0001-01-01T00:00:00Z",
        "2024-02-29T12:00:00Z",
        "2024-02-29T12:00:00+02:00",
        "2024-02-29T12:00:00.123456Z",
        "2024-02-29T12:00:00.123456789-23:59",
        "9999-12-31T23:59:59-23:00",
        "2016-12-31T23:59:60Z",
        "0000-01-01T00:00:00Z",
        "-000001-01-01T00:00:00Z",
        "12345-01-01T00:00:00Z",
        "2024-02-29t12:00:00z",
        "2024-02-29 12:00:00Z",
        "2024-02-29T12:00:00,5Z",
        "2024-02-29T12:00:00Z[UTC]",
        "1e400",
        "1Ei",
        "null",
    ];
    let mut all: Vec<Value> = texts.iter().map(|text| (*text).into()).collect();
    all.extend([
        json!(null), json!(true), json!(false), json!(0), json!(-1), json!(1), json!(2_147_483_648_i64), json!(i64::MIN), json!(u64::MAX),
        json!(1.0), json!(0.5), json!(1e30), json!(-0.0), json!([]), json!({}), json!([null]), json!([[]]), json!([{}]), json!(["a"]), json!([1]),
        json!({"a": null}), json!({"a": 1}), json!({"a": 0.1}), json!({"a": "1"}), json!({"a": {}}), json!({"a": []}), json!({"a": [null]}),
        json!([{"apiVersion": "v1", "kind": "K", "name": "n", "uid": "u", "controller": "yes"}]),
        json!({"cpu": null}), json!({"cpu": 1}), json!({"cpu": 0.1}), json!({"cpu": 1e30}), json!({"cpu": "1"}), json!({"cpu": ""}), json!({"cpu": true}),
        json!([{"zzz": 1}]), json!({"zzz": 1}), json!([{"name": null}]), json!([{"fieldsV1": null}]), json!([{"manager": "m", "operation": "Update", "fieldsType": "FieldsV1",
            "apiVersion": "v1", "fieldsV1": {"f:zzz": {}, "zzz": 1}, "time": "2024-02-29T12:00:00.5+01:00"}]),
    ]);
    all
}

/// The fields of a kind by its published type: each as its path.
fn fields(schema: &Value, path: &[String], found: &mut Vec<Vec<String>>) {
    let known = referred(schema).and_then(|name| types().get(name));
    let schema = known.as_ref().unwrap_or(schema);
    if let Some(properties) = schema["properties"].as_object() {
        for (name, property) in properties {
            let path = [path, std::slice::from_ref(name)].concat();
            fields(property, &path, found);
            found.push(path);
        }
    }
    if let Some(items) = schema.get("items") {
        fields(items, &[path, &["-".to_owned()]].concat(), found);
    }
    if schema["additionalProperties"].is_object() {
        let path = [path, &["cpu".to_owned()]].concat();
        fields(&schema["additionalProperties"], &path, found);
        found.push(path);
    }
}

/// The value at a path, and what has to be around it.
fn wrapped(path: &[String], value: &Value) -> Value {
    match path.split_first() {
        None => value.clone(),
        Some((name, rest)) if name == "-" => json!([wrapped(rest, value)]),
        Some((name, rest)) => json!({name: wrapped(rest, value)}),
    }
}

fn merge(into: &mut Value, from: Value) {
    match (into, from) {
        (Value::Object(into), Value::Object(from)) => {
            for (name, value) in from {
                merge(into.entry(name).or_insert(Value::Null), value);
            }
        }
        (into, from) => *into = from,
    }
}

/// Without what stands for nothing.
fn plain(value: &Value) -> Value {
    let nothing = |value: &Value| match value {
        Value::Null => true,
        Value::Bool(value) => !value,
        Value::Number(number) => number.as_f64() == Some(0.0),
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(map) => map.is_empty(),
    };
    match value {
        Value::Object(map) => {
            let fields = map.iter().map(|(name, value)| (name.clone(), plain(value)));
            fields.filter(|(_, value)| !nothing(value)).collect()
        }
        Value::Array(items) => items.iter().map(plain).collect(),
        other => other.clone(),
    }
}

impl Ground {
    /// Takes away what a turn has left, whatever its finalizers.
    fn vanish(&self, group: &str, path: &str) {
        let (_, resource) = path.rsplit_once('/').unwrap();
        let key = Table::new(group, resource, "").key(
            CLUSTER,
            if path.contains("/default/") {
                "default"
            } else {
                ""
            },
            "x",
        );
        self.store.write(|tx| Ok(tx.remove(&key))).unwrap();
    }

    async fn shown(&self, target: &str) -> Result<(), String> {
        let packed = self
            .raw(Method::GET, target, &[(ACCEPT, PROTOBUF)], b"")
            .await;
        let body = packed.body.whole().unwrap();
        if packed.status != 200 {
            return Err(String::from_utf8_lossy(&body).into_owned());
        }
        let packed = decode(&body).map_err(|error| error.to_string())?;
        let json = self.get(target).await.ok();
        if plain(&packed) != plain(&json) {
            return Err(format!("{} is no {}", plain(&packed), plain(&json)));
        }
        Ok(())
    }
}

/// Sends a hostile object or change, by one verb.
async fn send(
    ground: &Ground,
    verb: &str,
    path: &str,
    (object, change): (&Value, &Value),
) -> Answer {
    const APPLY: &str = "application/apply-patch+yaml";
    let target = format!("{path}/x");
    let mut hostile = object.clone();
    merge(&mut hostile, change.clone());
    if verb == "create" {
        return ground.post(path, hostile).await;
    }
    ground.post(path, object.clone()).await.ok();
    match verb {
        "replace" => ground.put(&target, hostile).await,
        "merge" => ground.patch(&target, MERGE, change.clone()).await,
        "strategic" => ground.patch(&target, STRATEGIC, change.clone()).await,
        "apply" => {
            let target = format!("{target}?fieldManager=f&force=true");
            ground.patch(&target, APPLY, hostile).await
        }
        "json" => {
            let (field, value) = change.as_object().unwrap().iter().next().unwrap();
            let add = json!([{"op": "add", "path": format!("/{field}"), "value": value}]);
            ground.patch(&target, JSON_PATCH, add).await
        }
        "finalize" => ground.put(&format!("{target}/finalize"), hostile).await,
        _ => {
            ground
                .patch(&format!("{target}/status"), MERGE, change.clone())
                .await
        }
    }
}

#[tokio::test]
async fn whatever_is_stored_can_be_shown_as_protobuf() {
    const VERBS: [&str; 8] = [
        "create",
        "replace",
        "merge",
        "strategic",
        "apply",
        "json",
        "finalize",
        "status",
    ];
    let hostile = hostile();
    let mut problems = std::collections::BTreeMap::new();
    let (mut turn, mut taken) = (0, 0);
    for (path, group, kind, sample) in kinds() {
        let ground = Ground::new();
        let name = types().name_of(group, "v1", kind).unwrap();
        let mut found = vec![vec!["zzz".to_owned()]];
        fields(&types().get(name).unwrap(), &[], &mut found);
        let api_version = if group.is_empty() {
            "v1".to_owned()
        } else {
            format!("{group}/v1")
        };
        let mut object =
            json!({"apiVersion": api_version, "kind": kind, "metadata": {"name": "x"}});
        merge(&mut object, sample);
        // Not all of them with every verb, which would take minutes.
        let turns = found
            .iter()
            .flat_map(|field| hostile.iter().map(move |value| (field, value)));
        for (field, value) in turns.step_by(9) {
            turn += 1;
            let verb = VERBS[turn % VERBS.len()];
            let change = wrapped(field, value);
            let answer = send(&ground, verb, path, (&object, &change)).await;
            if answer.code < 300 {
                taken += 1;
                let target = format!(
                    "{path}/{}",
                    answer.body["metadata"]["name"].as_str().unwrap()
                );
                if let Err(problem) = ground.shown(&target).await {
                    problems
                        .entry(format!("{kind} {} {verb}", field.join(".")))
                        .or_insert(format!("{value} {problem}"));
                }
                ground.delete(&target).await;
            }
            ground.vanish(if kind == "Event" { "" } else { group }, path);
        }
    }
    assert!(problems.is_empty(), "{} {problems:#?}", problems.len());
    assert!(taken > 1000, "{taken}");
}
