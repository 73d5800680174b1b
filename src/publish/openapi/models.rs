//! Models of an `OpenAPI` v2 document, converted to structural schemas.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

use crate::publish::crd::CrdError;

/// The largest depth of a model.
pub(super) const MAX_DEPTH: usize = 60;
pub(super) const META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.";
const QUANTITY: &str = r"^(\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))(([KMGTPE]i)|[numkMGTPE]|([eE](\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))))?$";

/// A resource from discovery.
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

/// One version and its subresources.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ServedVersion {
    pub name: String,
    pub status: bool,
    pub scale: bool,
}

/// The reason why no definition could be made.
#[derive(Debug, thiserror::Error)]
pub enum OpenApiError {
    #[error("the OpenAPI document has no model of {kind} in {group_version}")]
    NoModel { group_version: String, kind: String },
    #[error("the OpenAPI document refers to {0:?}, which it does not contain")]
    Missing(String),
    #[error("the model {0:?} contains itself, which schemas cannot express")]
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

/// The models of a document.
pub(super) struct Models<'d> {
    definitions: &'d Value,
}

/// The context of a model.
#[derive(Clone, Copy)]
pub(super) struct ModelContext<'d> {
    /// The description of the field that leads here.
    description: Option<&'d str>,
    /// The name of the definition that is being converted; empty below its fields.
    definition: &'d str,
    /// Whether this is the object itself.
    top: bool,
}

impl ModelContext<'_> {
    pub(super) const TOP: Self = Self {
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
    pub(super) fn of(document: &'d Value) -> Self {
        Self {
            definitions: &document["definitions"],
        }
    }

    pub(super) fn of_kind(
        &self,
        served: &Served,
        version: &str,
    ) -> Result<&'d Value, OpenApiError> {
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

    pub(super) fn convert(
        &self,
        node: &'d Value,
        around: &ModelContext<'d>,
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

    /// The type of a model; an object if it has fields, `None` if it says nothing.
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
        let around = ModelContext {
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
        around: &ModelContext<'d>,
        above: &mut Vec<&'d str>,
    ) -> Result<Value, OpenApiError> {
        let mut properties = Map::new();
        for (name, property) in node["properties"].as_object().into_iter().flatten() {
            if around.top && name == "metadata" {
                properties.insert(name.clone(), json!({"type": "object"}));
                continue;
            }
            let mut converted = self.convert(property, &ModelContext::INSIDE, above)?;
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
                let values = self.convert(values, &ModelContext::INSIDE, above)?;
                Ok(json!({"type": "object", "additionalProperties": values}))
            }
            // Without any field it would lose all that it holds.
            None => Ok(json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true})),
        }
    }

    fn array(&self, node: &'d Value, above: &mut Vec<&'d str>) -> Result<Value, OpenApiError> {
        let items = node.get("items").filter(|items| items.is_object());
        let mut items = self.convert(
            items.ok_or(OpenApiError::Items)?,
            &ModelContext::INSIDE,
            above,
        )?;
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

/// The keys of a list map are required in each item, unless they have a default.
fn require(items: &mut Value, keys: &[&str]) {
    if items.get("properties").is_none() {
        return;
    }
    let mut required: BTreeSet<String> = items["required"]
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

/// Models with a meaning that their fields do not express.
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

/// An object with any fields, all of which are preserved.
pub(super) fn free() -> Value {
    json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true})
}

pub(super) fn int_or_string() -> Value {
    json!({
        "anyOf": [{"type": "integer"}, {"type": "string"}],
        "x-kubernetes-int-or-string": true,
    })
}
