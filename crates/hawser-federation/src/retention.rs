//! Retention: the fields of a copy that an update keeps, because controllers in the member own them.

use serde_json::{Map, Value};

use kube_lang::object::{Object, json_type};

/// A field of the wrong type.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{field} must be {expected}, found {found}")]
pub struct RetentionError {
    pub field: &'static str,
    pub expected: &'static str,
    pub found: &'static str,
}

/// Fields beyond those that KubeFed retains: the server sets them, and refuses every update without them. They are
/// retained unless the template sets them; of a map, each entry.
const EXTENDED: &[(&str, &[&str])] = &[
    ("PersistentVolumeClaim", &["/spec/volumeName"]),
    ("PersistentVolume", &["/spec/claimRef"]),
    ("Pod", &["/spec/nodeName"]),
    ("Job", &["/spec/selector", "/spec/template/metadata/labels"]),
];

/// Copies the retained fields of `copy` into `wanted`, which has its kind and metadata.
pub(crate) fn retain(
    wanted: &mut Value,
    copy: &Object,
    federated: &Object,
) -> Result<(), RetentionError> {
    let kind = wanted["kind"].as_str().unwrap_or_default().to_owned();
    let own = copy.root().get("metadata").unwrap_or(&Value::Null);
    for field in ["resourceVersion", "finalizers", "annotations"] {
        if let Value::Object(metadata) = &mut wanted["metadata"] {
            set(metadata, field, own.get(field));
        }
    }
    let copy = copy.as_value();
    match &*kind {
        "Service" => retain_service(wanted, copy)?,
        "ServiceAccount" => retain_secrets(wanted, copy)?,
        _ => retain_replicas(wanted, copy, federated.as_value())?,
    }
    let kinds = EXTENDED.iter().filter(|(of, _)| *of == kind);
    for path in kinds.flat_map(|(_, paths)| *paths) {
        retain_path(wanted, copy, path);
    }
    Ok(())
}

fn set(fields: &mut Map<String, Value>, field: &str, value: Option<&Value>) {
    match value.filter(|value| !value.is_null()) {
        Some(value) => {
            fields.insert(field.to_owned(), value.clone());
        }
        None => {
            fields.remove(field);
        }
    }
}

fn retain_service(wanted: &mut Value, copy: &Value) -> Result<(), RetentionError> {
    let own = &copy["spec"];
    let health = integer(own, "healthCheckNodePort", "spec.healthCheckNodePort")?;
    if health > 0 {
        spec(wanted)?.insert("healthCheckNodePort".into(), health.into());
    }
    match &own["clusterIP"] {
        Value::Null => {}
        Value::String(address) if address.is_empty() => {}
        address @ Value::String(_) => {
            spec(wanted)?.insert("clusterIP".into(), address.clone());
        }
        other => return Err(wrong("spec.clusterIP", "a string", other)),
    }
    let addresses = list(&own["clusterIPs"], "spec.clusterIPs")?;
    if addresses.is_some_and(|addresses| !addresses.is_empty()) {
        spec(wanted)?.insert("clusterIPs".into(), own["clusterIPs"].clone());
    }
    retain_node_ports(wanted, own)
}

fn retain_node_ports(wanted: &mut Value, own: &Value) -> Result<(), RetentionError> {
    let Some(own) = list(&own["ports"], "spec.ports")? else {
        return Ok(());
    };
    let spec = spec(wanted)?;
    let ports = spec.entry("ports").or_insert(Value::Null);
    if ports.is_null() {
        *ports = Value::Array(Vec::new());
    }
    let Value::Array(ports) = ports else {
        return Err(wrong("spec.ports", "a list", ports));
    };
    for port in ports {
        let same = |own: &&Value| {
            ["name", "protocol"]
                .iter()
                .all(|field| own[*field].as_str() == port[*field].as_str())
                && own["port"].as_i64() == port["port"].as_i64()
        };
        let Some(own) = own.iter().find(same) else {
            continue;
        };
        let node_port = integer(own, "nodePort", "spec.ports[].nodePort")?;
        match port {
            Value::Object(port) if node_port > 0 => {
                port.insert("nodePort".into(), node_port.into());
            }
            _ => {}
        }
    }
    Ok(())
}

fn retain_secrets(wanted: &mut Value, copy: &Value) -> Result<(), RetentionError> {
    let asked = list(&wanted["secrets"], "secrets")?;
    if asked.is_some_and(|asked| !asked.is_empty()) {
        return Ok(());
    }
    let own = list(&copy["secrets"], "secrets")?;
    if own.is_some_and(|own| !own.is_empty()) {
        wanted["secrets"] = copy["secrets"].clone();
    }
    Ok(())
}

fn retain_replicas(
    wanted: &mut Value,
    copy: &Value,
    federated: &Value,
) -> Result<(), RetentionError> {
    let kept = match &federated["spec"]["retainReplicas"] {
        Value::Null => false,
        Value::Bool(kept) => *kept,
        other => return Err(wrong("spec.retainReplicas", "a boolean", other)),
    };
    if kept && copy["spec"].get("replicas").is_some() {
        let replicas = integer(&copy["spec"], "replicas", "spec.replicas")?;
        spec(wanted)?.insert("replicas".into(), replicas.into());
    }
    Ok(())
}

/// Retains the value at a path unless `wanted` has one.
fn retain_path(wanted: &mut Value, copy: &Value, path: &str) {
    let Some(own) = copy.pointer(path).filter(|own| !own.is_null()) else {
        return;
    };
    let mut at = wanted;
    for step in path.split('/').skip(1) {
        if at.is_null() {
            *at = Value::Object(Map::new());
        }
        let Value::Object(fields) = at else {
            return;
        };
        at = fields.entry(step).or_insert(Value::Null);
    }
    match (at, own) {
        (at @ Value::Null, own) => *at = own.clone(),
        (Value::Object(fields), Value::Object(own)) => {
            for (name, value) in own {
                fields.entry(name).or_insert_with(|| value.clone());
            }
        }
        _ => {}
    }
}

/// `spec`, created if missing.
fn spec(wanted: &mut Value) -> Result<&mut Map<String, Value>, RetentionError> {
    let spec = &mut wanted["spec"];
    if spec.is_null() {
        *spec = Value::Object(Map::new());
    }
    match spec {
        Value::Object(fields) => Ok(fields),
        other => Err(wrong("spec", "an object", other)),
    }
}

fn integer(value: &Value, field: &str, path: &'static str) -> Result<i64, RetentionError> {
    match &value[field] {
        Value::Null => Ok(0),
        number => number
            .as_i64()
            .ok_or_else(|| wrong(path, "an integer", number)),
    }
}

fn list<'a>(value: &'a Value, path: &'static str) -> Result<Option<&'a [Value]>, RetentionError> {
    match value {
        Value::Null => Ok(None),
        Value::Array(items) => Ok(Some(items)),
        other => Err(wrong(path, "a list", other)),
    }
}

fn wrong(field: &'static str, expected: &'static str, found: &Value) -> RetentionError {
    RetentionError {
        field,
        expected,
        found: json_type(found),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[expect(clippy::needless_pass_by_value, reason = "the cases read better so")]
    fn kept(kind: &str, wanted: Value, copy: Value, federated: Value) -> Result<Value, String> {
        let mut wanted = wanted;
        wanted["kind"] = kind.into();
        if wanted["metadata"].is_null() {
            wanted["metadata"] = json!({});
        }
        let federated = Object::new(json!({"spec": federated})).unwrap();
        let copy = Object::new(copy).unwrap();
        retain(&mut wanted, &copy, &federated).map_err(|error| error.to_string())?;
        Ok(wanted)
    }

    #[test]
    fn annotations_finalizers_and_the_version_are_always_the_members() {
        let wanted = json!({"metadata": {"name": "a", "annotations": {"a": "1"}, "finalizers": ["f"], "labels": {"l": "1"}}});
        let copy = json!({"metadata": {
            "resourceVersion": "7", "annotations": {"b": "2"}, "labels": {"m": "2"}, "ownerReferences": [{}], "uid": "u",
        }});
        let got = kept("ConfigMap", wanted.clone(), copy, json!({})).unwrap();
        assert_eq!(
            got["metadata"],
            json!({"name": "a", "resourceVersion": "7", "annotations": {"b": "2"}, "labels": {"l": "1"}})
        );
        let got = kept(
            "ConfigMap",
            wanted,
            json!({"metadata": {"annotations": null}}),
            json!({}),
        );
        assert_eq!(
            got.unwrap()["metadata"],
            json!({"name": "a", "labels": {"l": "1"}})
        );
    }

    #[test]
    fn a_service_keeps_its_addresses_and_its_ports() {
        let copy = |spec: Value| json!({"spec": spec});
        let port =
            |node: Value| json!({"name": "http", "protocol": "TCP", "port": 80, "nodePort": node});
        for (wanted, own, result) in [
            (
                json!({}),
                json!({"clusterIP": "10.0.0.1", "clusterIPs": ["10.0.0.1"], "healthCheckNodePort": 30_000}),
                json!({"clusterIP": "10.0.0.1", "clusterIPs": ["10.0.0.1"], "healthCheckNodePort": 30_000}),
            ),
            (
                json!({"clusterIP": "1.1.1.1"}),
                json!({"clusterIP": "None"}),
                json!({"clusterIP": "None"}),
            ),
            (
                json!({"clusterIP": "1.1.1.1"}),
                json!({"clusterIP": "", "clusterIPs": []}),
                json!({"clusterIP": "1.1.1.1"}),
            ),
            (
                json!({"healthCheckNodePort": 1}),
                json!({"healthCheckNodePort": 0}),
                json!({"healthCheckNodePort": 1}),
            ),
            (
                json!({"ports": [port(json!(1))]}),
                json!({"ports": [port(json!(31_000))]}),
                json!({"ports": [port(json!(31_000))]}),
            ),
            (
                json!({"ports": [port(json!(1))]}),
                json!({"ports": [{"name": "http", "protocol": "TCP", "port": 80}]}),
                json!({"ports": [port(json!(1))]}),
            ),
            (
                json!({"ports": [{"port": 80}]}),
                json!({"ports": [{"protocol": "TCP", "port": 80, "nodePort": 3}]}),
                json!({"ports": [{"port": 80}]}),
            ),
            (
                json!({"ports": [{"port": 80}]}),
                json!({"ports": [{"port": 80, "nodePort": 3}]}),
                json!({"ports": [{"port": 80, "nodePort": 3}]}),
            ),
            (
                json!({}),
                json!({"ports": [{"port": 80}]}),
                json!({"ports": []}),
            ),
        ] {
            let got = kept("Service", json!({"spec": wanted}), copy(own), json!({})).unwrap();
            assert_eq!(got["spec"], result);
        }
        let error = kept(
            "Service",
            json!({}),
            copy(json!({"clusterIP": 1})),
            json!({}),
        );
        assert_eq!(
            error.unwrap_err(),
            "spec.clusterIP must be a string, found a number"
        );
        let replicas = kept(
            "Service",
            json!({}),
            copy(json!({"replicas": 3})),
            json!({"retainReplicas": true}),
        );
        assert!(replicas.unwrap()["spec"]["replicas"].is_null());
    }

    #[test]
    fn a_service_account_keeps_its_secrets_unless_others_are_wished() {
        let of = |secrets: Value| json!({"secrets": secrets});
        let (mine, own) = (json!([{"name": "mine"}]), json!([{"name": "own"}]));
        for (wanted, copy, result) in [
            (json!(null), own.clone(), own.clone()),
            (json!([]), own.clone(), own.clone()),
            (mine.clone(), own.clone(), mine),
            (json!([]), json!(null), json!([])),
        ] {
            let got = kept("ServiceAccount", of(wanted), of(copy), json!({})).unwrap();
            assert_eq!(got["secrets"], result);
        }
        let error = kept("ServiceAccount", json!({}), of(json!("x")), json!({}));
        assert_eq!(error.unwrap_err(), "secrets must be a list, found a string");
    }

    #[test]
    fn replicas_are_kept_where_the_federated_object_says_so() {
        let of = |replicas: i64| json!({"spec": {"replicas": replicas}});
        for (federated, copy, result) in [
            (json!({"retainReplicas": true}), of(7), 7),
            (json!({"retainReplicas": true}), of(0), 0),
            (json!({"retainReplicas": false}), of(7), 2),
            (json!({}), of(7), 2),
            (json!({"retainReplicas": true}), json!({"spec": {}}), 2),
        ] {
            let got = kept("Deployment", of(2), copy, federated).unwrap();
            assert_eq!(got["spec"]["replicas"], result);
        }
        let error = kept("Deployment", of(2), of(7), json!({"retainReplicas": "yes"}));
        assert_eq!(
            error.unwrap_err(),
            "spec.retainReplicas must be a boolean, found a string"
        );
    }

    #[test]
    fn what_a_server_lets_nobody_change_is_kept() {
        let copy = Object::new(json!({
            "metadata": {"name": "j"},
            "spec": {"selector": {"s": 1}, "template": {"metadata": {"labels": {"u": "1"}}}, "volumeName": "v"},
        }))
        .unwrap();
        let federated = Object::new(json!({})).unwrap();
        let render = |kind: &str, spec: Value| {
            let mut wanted = json!({"kind": kind, "metadata": {}, "spec": spec});
            retain(&mut wanted, &copy, &federated).unwrap();
            wanted["spec"].clone()
        };
        let job = || json!({"template": {"spec": 1, "metadata": {"labels": {"a": "b"}}}});
        assert_eq!(render("CronJob", job()), job());
        assert_eq!(
            render("Job", job()),
            json!({"selector": {"s": 1}, "template": {"spec": 1, "metadata": {"labels": {"a": "b", "u": "1"}}}})
        );
        let claim = render("PersistentVolumeClaim", json!({"volumeName": "mine"}));
        assert_eq!(claim, json!({"volumeName": "mine"}), "what is wished wins");
    }
}
