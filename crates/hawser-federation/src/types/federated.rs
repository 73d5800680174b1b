//! `Federated<Kind>`: the definition of a federated type.

use serde_json::{Map, Value, json};

use super::type_config::ApiResource;

/// The part of the target's schema that the definition of the federated type depends on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TargetSchema {
    /// No schema is known: the definition has no `template`.
    Unknown,
    /// `spec.replicas` is absent or no 32-bit integer.
    Fixed,
    /// `spec.replicas` is a 32-bit integer: the definition has `retainReplicas`.
    Scalable,
}

impl TargetSchema {
    /// From an `OpenAPI` schema of the target.
    pub fn of(schema: Option<&Value>) -> Self {
        let Some(schema) = schema else {
            return Self::Unknown;
        };
        let replicas = schema.pointer("/properties/spec/properties/replicas");
        let is = |field: &str, wanted: &str| {
            replicas.is_some_and(|replicas| replicas.get(field).is_some_and(|is| is == wanted))
        };
        if is("type", "integer") && is("format", "int32") {
            Self::Scalable
        } else {
            Self::Fixed
        }
    }

    /// From the definition of a custom resource, by its first version.
    pub fn of_definition(crd: &Value) -> Self {
        Self::of(crd.pointer("/spec/versions/0/schema/openAPIV3Schema"))
    }
}

/// The `CustomResourceDefinition` of a federated type.
pub fn definition(
    federated: &ApiResource,
    target_short_names: &[String],
    target: TargetSchema,
) -> Value {
    let mut names = Map::new();
    names.insert("kind".into(), federated.kind.clone().into());
    names.insert("listKind".into(), format!("{}List", federated.kind).into());
    names.insert("plural".into(), federated.plural_name.clone().into());
    names.insert("singular".into(), federated.kind.to_lowercase().into());
    if !target_short_names.is_empty() {
        let short: Vec<String> = target_short_names.iter().map(|n| format!("f{n}")).collect();
        names.insert("shortNames".into(), short.into());
    }
    json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": federated.qualified_name()},
        "spec": {
            "group": federated.group,
            "names": names,
            "scope": federated.scope,
            "versions": [{
                "name": federated.version,
                "served": true,
                "storage": true,
                "subresources": {"status": {}},
                "additionalPrinterColumns": [
                    {"jsonPath": ".status.conditions[?(@.type=='Propagation')].status", "name": "propagated", "type": "string"},
                    {"jsonPath": ".status.conditions[?(@.type=='Propagation')].reason", "name": "reason", "type": "string"},
                    {"jsonPath": ".metadata.creationTimestamp", "name": "age", "type": "date"},
                ],
                "schema": {"openAPIV3Schema": schema(target)},
            }],
        },
    })
}

fn schema(target: TargetSchema) -> Value {
    let mut spec = json!({"placement": placement(), "overrides": overrides()});
    if target != TargetSchema::Unknown {
        spec["template"] = anything();
    }
    if target == TargetSchema::Scalable {
        spec["retainReplicas"] = json!({"type": "boolean"});
    }
    let text = || json!({"type": "string"});
    let time = || json!({"type": "string", "format": "date-time"});
    let conditions = list(
        &["type", "status"],
        json!({
            "type": text(), "status": text(), "reason": text(), "lastUpdateTime": time(), "lastTransitionTime": time(),
        }),
    );
    let clusters = list(
        &["name"],
        json!({"name": text(), "status": text(), "remoteStatus": anything()}),
    );
    json!({
        "type": "object",
        "required": ["spec"],
        "properties": {
            "apiVersion": text(),
            "kind": text(),
            "metadata": {"type": "object"},
            "spec": {"type": "object", "properties": spec},
            "status": {
                "type": "object",
                "properties": {
                    "conditions": conditions,
                    "clusters": clusters,
                    "observedGeneration": {"type": "integer", "format": "int64"},
                },
            },
        },
    })
}

fn placement() -> Value {
    let text = || json!({"type": "string"});
    let expressions = list(
        &["key", "operator"],
        json!({"key": text(), "operator": text(), "values": {"type": "array", "items": text()}}),
    );
    json!({
        "type": "object",
        "properties": {
            "clusters": list(&["name"], json!({"name": text()})),
            "clusterSelector": {
                "type": "object",
                "properties": {
                    "matchLabels": {"type": "object", "additionalProperties": text()},
                    "matchExpressions": expressions,
                },
            },
        },
    })
}

fn overrides() -> Value {
    let text = || json!({"type": "string"});
    let steps = list(
        &["path"],
        json!({
            "op": {"type": "string", "pattern": "^(add|remove|replace)?$"},
            "path": text(),
            "value": {"x-kubernetes-preserve-unknown-fields": true},
        }),
    );
    let entry = json!({
        "type": "object",
        "properties": {"clusterName": text(), "clusterOverrides": steps},
    });
    json!({"type": "array", "items": entry})
}

fn anything() -> Value {
    json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true})
}

#[expect(clippy::needless_pass_by_value, reason = "written in the call")]
fn list(required: &[&str], properties: Value) -> Value {
    json!({
        "type": "array",
        "items": {"type": "object", "required": required, "properties": properties},
    })
}

#[cfg(test)]
mod tests {
    use kube_schema::crd::{Definition, default_crd};

    use super::*;

    fn federated(kind: &str, plural: &str, scope: &str) -> ApiResource {
        ApiResource {
            group: "types.kubefed.io".into(),
            version: "v1beta1".into(),
            kind: kind.into(),
            plural_name: plural.into(),
            scope: scope.into(),
        }
    }

    fn read(mut crd: Value) -> Definition {
        default_crd(&mut crd);
        Definition::from_crd(&crd).unwrap()
    }

    #[test]
    fn a_definition_is_accepted_by_the_rules_of_the_server() {
        let deployments = federated("FederatedDeployment", "federateddeployments", "Namespaced");
        let crd = definition(&deployments, &["deploy".to_owned()], TargetSchema::Scalable);
        let read = read(crd.clone());
        assert_eq!(read.names.short_names, ["fdeploy"]);
        assert_eq!(read.names.singular, "federateddeployment");
        assert!(read.versions[0].status);
        let columns = read.versions[0].columns.iter();
        let columns: Vec<&str> = columns.map(|column| &*column.name).collect();
        assert_eq!(columns, ["propagated", "reason", "age"]);
        let spec = crd.pointer("/spec/versions/0/schema/openAPIV3Schema/properties/spec");
        let fields = spec.unwrap()["properties"].as_object().unwrap();
        let fields: Vec<&String> = fields.keys().collect();
        assert_eq!(
            fields,
            ["overrides", "placement", "retainReplicas", "template"]
        );
        assert_eq!(
            crd["metadata"]["name"],
            "federateddeployments.types.kubefed.io"
        );
    }

    #[test]
    fn a_type_without_a_schema_has_no_template() {
        let things = federated("FederatedThing", "federatedthings", "Cluster");
        let crd = definition(&things, &[], TargetSchema::of_definition(&json!({})));
        let spec = &crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"];
        assert!(spec["properties"]["template"].is_null());
        assert!(crd["spec"]["names"]["shortNames"].is_null());
        read(crd);
    }

    #[test]
    fn replicas_are_a_whole_number_of_32_bits() {
        let of = |replicas: Value| {
            let schema = json!({"properties": {"spec": {"properties": {"replicas": replicas}}}});
            let version = json!({"schema": {"openAPIV3Schema": schema}});
            TargetSchema::of_definition(&json!({"spec": {"versions": [version, {}]}}))
        };
        let scalable = of(json!({"type": "integer", "format": "int32"}));
        assert_eq!(scalable, TargetSchema::Scalable);
        assert_eq!(of(json!({"type": "integer"})), TargetSchema::Fixed);
        assert_eq!(TargetSchema::of(Some(&json!({}))), TargetSchema::Fixed);
        assert_eq!(TargetSchema::of(None), TargetSchema::Unknown);
    }
}
