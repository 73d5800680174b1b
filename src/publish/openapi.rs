//! Types that are no CRD: a definition made of what discovery and the model document of the service
//! cluster say, so that it can be published like any other.

use serde_json::{Map, Value, json};

use super::crd::{Crd, CrdError};
use super::versions;

/// A resource as discovery tells of it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Served {
    pub group: String,
    pub plural: String,
    pub singular: String,
    pub kind: String,
    pub namespaced: bool,
    pub short_names: Vec<String>,
    pub categories: Vec<String>,
    pub versions: Vec<ServedVersion>,
    /// The version that the server prefers.
    pub preferred: String,
}

/// One version, and what is served beside the object.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ServedVersion {
    pub name: String,
    pub status: bool,
    pub scale: bool,
}

/// Why no definition could be made.
#[derive(Debug, thiserror::Error)]
pub enum OpenApiError {
    #[error("the OpenAPI document has no model of {kind} in {group_version}")]
    NoModel { group_version: String, kind: String },
    #[error("the OpenAPI document names {0:?}, which it does not have")]
    Missing(String),
    #[error("the model {0:?} contains itself, which no schema can say")]
    Recursive(String),
    #[error("a model has several types at once: {0}")]
    SeveralTypes(String),
    #[error("a list has no type of items, or several")]
    Items,
    #[error("a model is nested deeper than {MAX_DEPTH} levels")]
    TooDeep,
    #[error(transparent)]
    Crd(#[from] CrdError),
}

const MAX_DEPTH: usize = 60;
const APPROVED: &str = "api-approved.kubernetes.io";
const APPROVAL: &str = "https://github.com/kcp-dev/kubernetes/pull/4";
const META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.";
const QUANTITY: &str = r"^(\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))(([KMGTPE]i)|[numkMGTPE]|([eE](\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))))?$";

/// The definition of a resource, from a document of `/openapi/v2`.
pub fn definition(served: &Served, document: &Value) -> Result<Crd, OpenApiError> {
    let models = Models {
        definitions: &document["definitions"],
    };
    let mut names: Vec<&ServedVersion> = served.versions.iter().collect();
    names.sort_by(|a, b| versions::compare(&a.name, &b.name));
    let mut list = Vec::new();
    for version in names {
        let model = models.of_kind(served, &version.name)?;
        let schema = models.convert(model, &Around::TOP, &mut Vec::new())?;
        let mut subresources = Map::new();
        if version.status {
            subresources.insert("status".into(), json!({}));
        }
        if version.scale {
            let paths = json!({
                "specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas",
            });
            subresources.insert("scale".into(), paths);
        }
        list.push(json!({
            "name": version.name, "served": true, "storage": version.name == served.preferred,
            "schema": {"openAPIV3Schema": schema}, "subresources": subresources,
        }));
    }
    let group = if served.group.is_empty() {
        "core"
    } else {
        &served.group
    };
    let singular = match served.singular.as_str() {
        "" => served.kind.to_lowercase(),
        given => given.to_owned(),
    };
    let mut metadata = json!({"name": format!("{}.{group}", served.plural)});
    if is_protected(&served.group) {
        metadata["annotations"] = json!({APPROVED: APPROVAL});
    }
    let crd = json!({
        "metadata": metadata,
        "spec": {
            "group": served.group,
            "scope": if served.namespaced { "Namespaced" } else { "Cluster" },
            "names": {
                "plural": served.plural, "singular": singular, "kind": served.kind,
                "listKind": format!("{}List", served.kind),
                "shortNames": served.short_names, "categories": served.categories,
            },
            "versions": list,
        },
    });
    Ok(Crd::from_json(crd.to_string().as_bytes())?)
}

fn is_protected(group: &str) -> bool {
    ["k8s.io", "kubernetes.io"].iter().any(|suffix| {
        group == *suffix || group.strip_suffix(suffix).is_some_and(|g| g.ends_with('.'))
    })
}

/// The models of a document.
struct Models<'d> {
    definitions: &'d Value,
}

/// What is around a model.
#[derive(Clone, Copy)]
struct Around<'d> {
    /// What the field that leads here says of itself.
    description: Option<&'d str>,
    /// The name of the definition that is being converted; empty below its fields.
    definition: &'d str,
    /// Whether this is the object itself.
    top: bool,
}

impl Around<'_> {
    const TOP: Self = Self {
        description: None,
        definition: "",
        top: true,
    };
    const INSIDE: Self = Self {
        description: None,
        definition: "",
        top: false,
    };
}

impl<'d> Models<'d> {
    fn of_kind(&self, served: &Served, version: &str) -> Result<&'d Value, OpenApiError> {
        let fits = |model: &&Value| {
            let kinds = model["x-kubernetes-group-version-kind"].as_array();
            kinds.into_iter().flatten().any(|kind| {
                kind["group"] == *served.group
                    && kind["version"] == *version
                    && kind["kind"] == *served.kind
            })
        };
        let models = self.definitions.as_object().into_iter().flatten();
        let found = models.map(|(_, model)| model).find(fits);
        found.ok_or_else(|| OpenApiError::NoModel {
            group_version: format!("{}/{version}", served.group),
            kind: served.kind.clone(),
        })
    }

    fn convert(
        &self,
        node: &'d Value,
        around: &Around<'d>,
        above: &mut Vec<&'d str>,
    ) -> Result<Value, OpenApiError> {
        if above.len() > MAX_DEPTH {
            return Err(OpenApiError::TooDeep);
        }
        let own = node["description"].as_str().filter(|text| !text.is_empty());
        let description = around.description.or(own);
        if let Some(reference) = node["$ref"].as_str() {
            return self.reference(reference, description, above);
        }
        let mut schema = match Self::kind_of(node)? {
            "array" => self.array(node, above)?,
            "object" if node.get("properties").is_some() => self.object(node, around, above)?,
            "object" => self.map(node, above)?,
            // Anything at all: whatever it is, it is kept.
            "" => json!({"x-kubernetes-preserve-unknown-fields": true}),
            primitive => {
                let mut schema = json!({"type": primitive});
                if let Some(format) = node.get("format") {
                    schema["format"] = format.clone();
                }
                schema
            }
        };
        if let Some(description) = description {
            schema["description"] = description.into();
        }
        Ok(schema)
    }

    /// The one type of a model; an object where it has fields, nothing where it says nothing.
    fn kind_of(node: &'d Value) -> Result<&'d str, OpenApiError> {
        match &node["type"] {
            Value::String(kind) => Ok(kind),
            Value::Array(kinds) => match kinds.as_slice() {
                [Value::String(kind)] => Ok(kind),
                several => Err(OpenApiError::SeveralTypes(json!(several).to_string())),
            },
            _ if node.get("properties").is_some() => Ok("object"),
            _ => Ok(""),
        }
    }

    fn reference(
        &self,
        reference: &'d str,
        description: Option<&'d str>,
        above: &mut Vec<&'d str>,
    ) -> Result<Value, OpenApiError> {
        let name = reference
            .strip_prefix("#/definitions/")
            .unwrap_or(reference);
        if let Some(mut known) = known(name) {
            if let Some(description) = description {
                known["description"] = description.into();
            }
            return Ok(known);
        }
        if above.contains(&name) {
            return Err(OpenApiError::Recursive(name.to_owned()));
        }
        let model = self
            .definitions
            .get(name)
            .ok_or_else(|| OpenApiError::Missing(name.to_owned()))?;
        above.push(name);
        let around = Around {
            description,
            definition: name,
            top: false,
        };
        let converted = self.convert(model, &around, above);
        above.pop();
        converted
    }

    fn object(
        &self,
        node: &'d Value,
        around: &Around<'d>,
        above: &mut Vec<&'d str>,
    ) -> Result<Value, OpenApiError> {
        let mut properties = Map::new();
        for (name, property) in node["properties"].as_object().into_iter().flatten() {
            if around.top && name == "metadata" {
                properties.insert(name.clone(), json!({"type": "object"}));
                continue;
            }
            let mut converted = self.convert(property, &Around::INSIDE, above)?;
            let port = matches!(
                around.definition,
                "io.k8s.api.core.v1.ContainerPort" | "io.k8s.api.core.v1.ServicePort"
            );
            if port && name == "protocol" {
                converted["default"] = "TCP".into();
            }
            properties.insert(name.clone(), converted);
        }
        let mut schema = json!({"type": "object", "properties": properties});
        let required = node["required"].as_array().filter(|list| !list.is_empty());
        if let Some(required) = required {
            schema["required"] = json!(required);
        }
        Ok(schema)
    }

    fn map(&self, node: &'d Value, above: &mut Vec<&'d str>) -> Result<Value, OpenApiError> {
        match node
            .get("additionalProperties")
            .filter(|values| values.is_object())
        {
            Some(values) => {
                let values = self.convert(values, &Around::INSIDE, above)?;
                Ok(json!({"type": "object", "additionalProperties": values}))
            }
            // Without any field it would lose all that it holds.
            None => Ok(json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true})),
        }
    }

    fn array(&self, node: &'d Value, above: &mut Vec<&'d str>) -> Result<Value, OpenApiError> {
        let items = node.get("items").filter(|items| items.is_object());
        let mut items = self.convert(items.ok_or(OpenApiError::Items)?, &Around::INSIDE, above)?;
        let has_fields = items.get("properties").is_some();
        let merges = |strategy: &str| strategy.split(',').any(|word| word == "merge");
        let strategy = node["x-kubernetes-patch-strategy"].as_str();
        let merge_key = node["x-kubernetes-patch-merge-key"].as_str();
        let given = node["x-kubernetes-list-type"].as_str();
        let list_type = given.unwrap_or(match strategy {
            Some(strategy) if merges(strategy) && has_fields => "map",
            Some(strategy) if merges(strategy) => "set",
            None if merge_key.is_some() && has_fields => "map",
            _ => "atomic",
        });
        let mut schema = json!({"type": "array", "x-kubernetes-list-type": list_type});
        let keys: Vec<&str> = match node["x-kubernetes-list-map-keys"].as_array() {
            Some(keys) => keys.iter().filter_map(Value::as_str).collect(),
            None => merge_key.into_iter().collect(),
        };
        if list_type == "map" && !keys.is_empty() {
            require(&mut items, &keys);
            schema["x-kubernetes-list-map-keys"] = json!(keys);
        }
        schema["items"] = items;
        Ok(schema)
    }
}

/// The keys of a list are there in each item, unless a default takes their place.
fn require(items: &mut Value, keys: &[&str]) {
    if items.get("properties").is_none() {
        return;
    }
    let mut required: std::collections::BTreeSet<String> = items["required"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|name| name.as_str().map(str::to_owned))
        .collect();
    let defaulted = |key: &str| items["properties"][key].get("default").is_some();
    for key in keys {
        if defaulted(key) {
            required.remove(*key);
        } else {
            required.insert((*key).to_owned());
        }
    }
    if !required.is_empty() {
        items["required"] = json!(required);
    }
}

/// Models that stand for something that their fields do not say.
fn known(name: &str) -> Option<Value> {
    if let Some(meta) = name.strip_prefix(META) {
        return Some(match meta {
            "ObjectMeta" => json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true}),
            "Time" | "MicroTime" => json!({"type": "string", "format": "date-time"}),
            "Duration" => json!({"type": "string"}),
            "Fields" => json!({"type": "object", "additionalProperties": true}),
            "unstructured.Unstructured" => free(),
            _ => return None,
        });
    }
    Some(match name {
        "io.k8s.apimachinery.pkg.api.resource.Quantity" => {
            let mut schema = int_or_string();
            schema["pattern"] = QUANTITY.into();
            schema
        }
        "io.k8s.apimachinery.pkg.runtime.RawExtension" => free(),
        "io.k8s.apimachinery.pkg.util.intstr.IntOrString" => int_or_string(),
        "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSON"
        | "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1beta1.JSON"
        // A schema of schemas contains itself.
        | "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaProps"
        | "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1beta1.JSONSchemaProps" => {
            json!({"x-kubernetes-preserve-unknown-fields": true})
        }
        "io.k8s.api.core.v1.Protocol" => json!({"type": "string", "default": "TCP"}),
        _ => return None,
    })
}

/// An object of any fields, none of which is to be lost.
fn free() -> Value {
    json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true})
}

fn int_or_string() -> Value {
    json!({
        "anyOf": [{"type": "integer"}, {"type": "string"}],
        "x-kubernetes-int-or-string": true,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn served() -> Served {
        Served {
            group: "things.k8s.io".into(),
            plural: "things".into(),
            kind: "Thing".into(),
            namespaced: true,
            versions: vec![
                ServedVersion {
                    name: "v1".into(),
                    status: true,
                    scale: false,
                },
                ServedVersion {
                    name: "v1beta1".into(),
                    ..ServedVersion::default()
                },
            ],
            preferred: "v1".into(),
            ..Served::default()
        }
    }

    fn document(spec: &Value) -> Value {
        let kinds = |version: &str| json!([{"group": "things.k8s.io", "version": version, "kind": "Thing"}]);
        let model = |version: &str| {
            json!({
                "type": "object", "description": "A thing.",
                "properties": {
                    "metadata": {"description": "Of it.", "$ref": "#/definitions/io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"},
                    "spec": spec,
                },
                "x-kubernetes-group-version-kind": kinds(version),
            })
        };
        json!({"definitions": {
            "a.v1.Thing": model("v1"), "a.v1beta1.Thing": model("v1beta1"),
            "a.v1.Inner": {"description": "Inner.", "properties": {"x": {"type": "integer", "format": "int32"}}, "required": ["x"]},
            "a.v1.Loop": {"properties": {"next": {"$ref": "#/definitions/a.v1.Loop"}}},
            "io.k8s.api.core.v1.ServicePort": {"properties": {"port": {"type": "integer"}, "protocol": {"type": "string"}}},
        }})
    }

    /// What becomes of a field.
    #[track_caller]
    #[expect(clippy::needless_pass_by_value, reason = "the cases read better so")]
    fn check(field: Value, wanted: Value) {
        let crd = definition(&served(), &document(&field)).unwrap();
        let schema = crd.spec.versions[1].schema.as_ref().unwrap();
        let schema: Value = serde_json::from_str(schema.open_api.as_ref().unwrap().get()).unwrap();
        assert_eq!(schema["properties"]["spec"], wanted);
        assert_eq!(schema["properties"]["metadata"], json!({"type": "object"}));
        assert_eq!(schema["description"], "A thing.");
    }

    #[test]
    fn versions_names_and_scope_come_from_discovery() {
        let crd = definition(&served(), &document(&json!({"type": "string"}))).unwrap();
        let spec = &crd.spec;
        let names: Vec<&str> = spec.versions.iter().map(|v| v.name.as_str()).collect();
        assert_eq!(names, ["v1beta1", "v1"]);
        assert_eq!(spec.storage_version().unwrap().name, "v1");
        assert!(spec.versions[1].has_status() && !spec.versions[0].has_status());
        assert_eq!(
            (spec.names.singular.as_str(), spec.names.list_kind.as_str()),
            ("thing", "ThingList")
        );
        assert_eq!(crd.metadata.name, "things.things.k8s.io");
        assert_eq!(crd.metadata.annotations[APPROVED], APPROVAL);
        assert_eq!(crd.metadata.generation, 0);
        assert!(!is_protected("k8s.io.example.com") && !is_protected("notk8s.io"));
    }

    #[test]
    fn primitives_maps_and_lists_are_what_they_are() {
        check(
            json!({"type": "integer", "format": "int64"}),
            json!({"type": "integer", "format": "int64"}),
        );
        check(
            json!({"type": "object", "additionalProperties": {"type": "string"}}),
            json!({"type": "object", "additionalProperties": {"type": "string"}}),
        );
        check(json!({"type": "object"}), free());
        check(
            json!({}),
            json!({"x-kubernetes-preserve-unknown-fields": true}),
        );
        let strings = json!({"type": "string"});
        check(
            json!({"type": "array", "items": strings}),
            json!({"type": "array", "x-kubernetes-list-type": "atomic", "items": strings}),
        );
        check(
            json!({"type": "array", "items": strings, "x-kubernetes-patch-strategy": "merge"}),
            json!({"type": "array", "x-kubernetes-list-type": "set", "items": strings}),
        );
    }

    #[test]
    fn a_reference_takes_the_description_of_its_field_first() {
        let inner = json!({"type": "object", "properties": {"x": {"type": "integer", "format": "int32"}}, "required": ["x"]});
        let described = |text: &str| {
            let mut inner = inner.clone();
            inner["description"] = text.into();
            inner
        };
        let reference = "#/definitions/a.v1.Inner";
        check(
            json!({"$ref": reference, "description": "Field."}),
            described("Field."),
        );
        check(json!({"$ref": reference}), described("Inner."));
    }

    #[test]
    fn the_keys_of_a_list_are_required_unless_they_have_a_default() {
        let ports = json!({
            "type": "array", "items": {"$ref": "#/definitions/io.k8s.api.core.v1.ServicePort"},
            "x-kubernetes-list-map-keys": ["port", "protocol"], "x-kubernetes-list-type": "map",
        });
        check(
            ports,
            json!({
                "type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["port", "protocol"],
                "items": {
                    "type": "object", "required": ["port"],
                    "properties": {"port": {"type": "integer"}, "protocol": {"type": "string", "default": "TCP"}},
                },
            }),
        );
    }

    #[test]
    fn known_models_are_replaced() {
        let of = |name: &str| json!({"$ref": format!("#/definitions/{name}")});
        check(
            of(&format!("{META}Time")),
            json!({"type": "string", "format": "date-time"}),
        );
        check(
            of("io.k8s.apimachinery.pkg.util.intstr.IntOrString"),
            int_or_string(),
        );
        check(of(&format!("{META}ObjectMeta")), free());
    }

    #[test]
    fn what_no_schema_can_say_is_an_error() {
        let refused = |field: Value| {
            definition(&served(), &document(&field))
                .unwrap_err()
                .to_string()
        };
        assert_eq!(
            refused(json!({"$ref": "#/definitions/a.v1.Loop"})),
            "the model \"a.v1.Loop\" contains itself, which no schema can say"
        );
        assert!(refused(json!({"type": ["string", "integer"]})).contains("several types"));
        assert!(refused(json!({"type": "array"})).contains("no type of items"));
        assert!(refused(json!({"$ref": "#/definitions/none"})).contains("does not have"));
        let empty = definition(&served(), &json!({})).unwrap_err().to_string();
        assert_eq!(
            empty,
            "the OpenAPI document has no model of Thing in things.k8s.io/v1beta1"
        );
    }
}
