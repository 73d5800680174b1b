//! Overrides of resources by cluster, their snapshots, and envelopes.

use std::collections::BTreeMap;

use schemars::{JsonSchema, Schema};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::Resource;
use super::policy::{ClusterSelector, ResourceSelectorTerm};

pub type ClusterResourceOverride = Resource<ClusterResourceOverrideSpec, Value>;
pub type ResourceOverride = Resource<ResourceOverrideSpec, Value>;
pub type ClusterResourceOverrideSnapshot = Resource<ClusterResourceOverrideSnapshotSpec, Value>;
pub type ResourceOverrideSnapshot = Resource<ResourceOverrideSnapshotSpec, Value>;

/// Overrides of cluster-scoped resources, and of everything in selected namespaces.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [
    {"rule": "(has(oldSelf.placement) && has(self.placement) && oldSelf.placement == self.placement) || (!has(oldSelf.placement) && !has(self.placement))",
     "message": "The placement field is immutable"},
    {"rule": "!has(self.placement) || !has(self.placement.scope) || self.placement.scope != 'Namespaced'",
     "message": "clusterResourceOverride placement reference cannot be Namespaced scope"},
]))]
pub struct ClusterResourceOverrideSpec {
    /// The placement that is overridden; every placement if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub placement: Option<PlacementRef>,
    /// The resources that are overridden.
    #[schemars(length(min = 1, max = 20))]
    pub cluster_resource_selectors: Vec<ResourceSelectorTerm>,
    /// The rules.
    pub policy: OverridePolicy,
}

/// Overrides of the resources of a namespace.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [
    {"rule": "(has(oldSelf.placement) && has(self.placement) && oldSelf.placement == self.placement) || (!has(oldSelf.placement) && !has(self.placement))",
     "message": "The placement field is immutable"},
]), transform = without_default_scope)]
pub struct ResourceOverrideSpec {
    /// The placement that is overridden; every placement if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub placement: Option<PlacementRef>,
    /// The resources that are overridden.
    #[schemars(length(min = 1, max = 20))]
    pub resource_selectors: Vec<ResourceSelector>,
    /// The rules.
    pub policy: OverridePolicy,
}

/// Removes the default of a placement's scope: an override of a namespace may be about either kind of placement.
fn without_default_scope(schema: &mut Schema) {
    for path in ["/properties/placement", "/properties/placement/anyOf/0"] {
        let scope = schema.pointer_mut(&format!("{path}/properties/scope"));
        if let Some(Value::Object(scope)) = scope {
            scope.remove("x-default");
        }
    }
}

/// A placement by its name.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PlacementRef {
    /// The name.
    pub name: String,
    /// Cluster or Namespaced.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-default" = "Cluster"))]
    pub scope: Option<PlacementScope>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum PlacementScope {
    Cluster,
    Namespaced,
}

/// A resource by its name.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ResourceSelector {
    /// The API group; empty for the core group.
    pub group: String,
    /// The API version.
    pub version: String,
    /// The kind.
    pub kind: String,
    /// The name.
    pub name: String,
}

/// The rules of an override.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct OverridePolicy {
    /// The rules, in the order in which they are applied.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(min = 1, max = 20), extend("x-required" = true))]
    pub override_rules: Vec<OverrideRule>,
}

/// A change for some clusters.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct OverrideRule {
    /// The clusters: none if absent, all if it has no terms.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cluster_selector: Option<ClusterSelector>,
    /// `JSONPatch` changes the resource, Delete leaves it out.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-default" = "JSONPatch"))]
    pub override_type: Option<OverrideType>,
    /// The changes.
    #[serde(
        rename = "jsonPatchOverrides",
        default,
        skip_serializing_if = "Vec::is_empty"
    )]
    #[schemars(length(min = 1, max = 20))]
    pub json_patch_overrides: Vec<JsonPatchOverride>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum OverrideType {
    #[default]
    #[serde(rename = "JSONPatch")]
    JsonPatch,
    Delete,
}

/// A step of a JSON patch.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct JsonPatchOverride {
    /// The operation.
    #[serde(rename = "op")]
    pub operator: JsonPatchOperator,
    /// The path of the field, as a JSON pointer.
    pub path: String,
    /// The value. Its strings may name the cluster as `${MEMBER-CLUSTER-NAME}`, and its labels as
    /// `${MEMBER-CLUSTER-LABEL-KEY-…}`.
    // The original always writes the field, so that a step without a value hashes as null.
    #[serde(default)]
    #[schemars(schema_with = "super::any_value")]
    pub value: Value,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum JsonPatchOperator {
    Add,
    Remove,
    Replace,
}

/// An override as it was.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClusterResourceOverrideSnapshotSpec {
    /// The override.
    pub override_spec: ClusterResourceOverrideSpec,
    /// Its hash.
    #[schemars(extend("format" = "byte"))]
    pub override_hash: String,
}

/// An override as it was.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ResourceOverrideSnapshotSpec {
    /// The override.
    pub override_spec: ResourceOverrideSpec,
    /// Its hash.
    #[schemars(extend("format" = "byte"))]
    pub override_hash: String,
}

/// Objects that do nothing on the hub.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct EnvelopeData {
    /// Objects by any key.
    #[schemars(schema_with = "envelope_data")]
    pub data: BTreeMap<String, Value>,
}

fn envelope_data(generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
    schemars::json_schema!({
        "type": "object",
        "minProperties": 1,
        "maxProperties": 50,
        "additionalProperties": super::embedded_object(generator),
    })
}
