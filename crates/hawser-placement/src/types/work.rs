//! `Work`, the manifests for one member, and `AppliedWork`, the resulting objects.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::placement::{ApplyStrategy, PatchDetail, ReportBackStrategy};
use super::{Condition, Resource};

pub type Work = Resource<WorkSpec, WorkStatus>;
/// A Work without its manifests.
pub type WorkOutline = Resource<WorkOutlineSpec, WorkStatus>;
pub type AppliedWork = Resource<AppliedWorkSpec, AppliedWorkStatus>;

/// The manifests for a member.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct WorkSpec {
    /// The manifests.
    #[serde(default)]
    pub workload: Workload,
    /// The way that the member writes them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub apply_strategy: Option<ApplyStrategy>,
    /// Whether their status comes back to the hub.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub report_back_strategy: Option<ReportBackStrategy>,
}

/// The parts of a Work that decide how a member writes manifests.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct WorkOutlineSpec {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub apply_strategy: Option<ApplyStrategy>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub report_back_strategy: Option<ReportBackStrategy>,
}

/// The manifests for a member.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Workload {
    /// The manifests.
    #[serde(default)]
    #[schemars(schema_with = "super::embedded_objects")]
    pub manifests: Vec<Value>,
}

/// Results of the manifests.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct WorkStatus {
    /// Applied, Available, `DiffReported`, `StatusTrimmed`.
    #[serde(default)]
    #[schemars(schema_with = "super::conditions", extend("x-required" = true))]
    pub conditions: Vec<Condition>,
    /// The state of each manifest.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub manifest_conditions: Vec<ManifestCondition>,
}

/// The state of a manifest.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ManifestCondition {
    /// The manifest.
    #[serde(default)]
    pub identifier: WorkResourceIdentifier,
    /// Applied, Available, `DiffReported`.
    #[serde(default)]
    #[schemars(schema_with = "super::conditions", extend("x-required" = true))]
    pub conditions: Vec<Condition>,
    /// The fields that were changed in the member.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub drift_details: Option<DriftDetails>,
    /// The fields that differ from the hub.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub diff_details: Option<DiffDetails>,
    /// The status of the object.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub back_reported_status: Option<BackReportedStatus>,
}

/// A manifest, and the object that it describes.
#[derive(
    Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
pub struct WorkResourceIdentifier {
    /// The position in the list of manifests.
    pub ordinal: i64,
    /// The API group.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub group: String,
    /// The API version.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub version: String,
    /// The kind.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub kind: String,
    /// The resource of the kind.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub resource: String,
    /// The namespace.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub namespace: String,
    /// The name.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub name: String,
}

/// The fields that were changed in the member.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DriftDetails {
    /// The time of the last look.
    #[schemars(extend("format" = "date-time"))]
    pub observation_time: String,
    /// The generation of the object in the member.
    pub observed_in_member_cluster_generation: i64,
    /// The time when the drift was found.
    #[schemars(extend("format" = "date-time"))]
    pub first_drifted_observed_time: String,
    /// The fields.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub observed_drifts: Vec<PatchDetail>,
}

/// The fields that differ from the hub.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DiffDetails {
    /// The time of the last look.
    #[schemars(extend("format" = "date-time"))]
    pub observation_time: String,
    /// The generation of the object in the member.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_in_member_cluster_generation: Option<i64>,
    /// The time when the difference was found.
    #[schemars(extend("format" = "date-time"))]
    pub first_diffed_observed_time: String,
    /// The fields.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub observed_diffs: Vec<PatchDetail>,
}

/// The status of an object in the member.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct BackReportedStatus {
    /// The type and the status of the object.
    #[schemars(schema_with = "super::embedded_object")]
    pub observed_status: Value,
    /// The time of the observation.
    #[schemars(extend("format" = "date-time"))]
    pub observation_time: String,
}

/// The Work that objects in a member belong to.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AppliedWorkSpec {
    /// The name of the Work.
    pub work_name: String,
    /// The namespace of the Work on the hub.
    pub work_namespace: String,
}

/// The objects that a Work made.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AppliedWorkStatus {
    /// The objects.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub applied_resources: Vec<AppliedResource>,
}

/// An object that a Work made.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct AppliedResource {
    #[serde(flatten)]
    pub identifier: WorkResourceIdentifier,
    /// The uid of the object in the member.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub uid: String,
}
