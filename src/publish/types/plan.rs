//! The plan of a published resource with the mode `Plan`, as its status shows it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What the agent would write if the mode were `Sync`. All lists are bounded.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PlanStatus {
    /// The generation that the plan refers to.
    pub observed_generation: i64,
    /// The time of the plan.
    #[schemars(extend("format" = "date-time"))]
    pub time: String,
    /// The number of objects that the plan covers.
    pub objects: usize,
    /// The number of known objects that it leaves out; `problems` says why.
    pub unplanned: usize,
    /// The writes to all objects, without those to state Secrets and of finalizers.
    pub total: PlannedWrites,
    /// The workspaces with writes: those with refused writes first, then those with deletions, then
    /// those with the most writes.
    pub workspaces: Vec<WorkspacePlan>,
    /// The number of workspaces with writes that are not listed.
    pub more_workspaces: usize,
    /// The writes by reason, refused ones first.
    pub reasons: Vec<PlannedReason>,
    /// The schema that would be published.
    pub schema: String,
    /// The recorded schema.
    pub schema_before: String,
    /// The changes to the APIExport.
    pub export: PlannedExport,
    /// Why objects would not be synchronized, or are not in the plan.
    pub problems: Vec<String>,
}

/// Numbers of writes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PlannedWrites {
    /// Objects that would be created.
    pub made: usize,
    /// Objects that would be changed.
    pub changed: usize,
    /// Objects that would be deleted.
    pub deleted: usize,
    /// Deletions that the agent would hold until they are approved.
    pub held: usize,
    /// Writes that a server refuses, and objects that cannot be synchronized.
    pub refused: usize,
}

/// The writes that one workspace causes.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct WorkspacePlan {
    /// The logical cluster.
    pub cluster: String,
    /// The path; empty if the agent does not know it.
    pub path: String,
    /// Their numbers.
    pub writes: PlannedWrites,
}

/// The writes with one reason.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PlannedReason {
    /// `Create`, `Change` or `Delete`, or the reason code of what would not be done.
    pub reason: String,
    /// Their number.
    pub count: usize,
    /// Some of the objects in workspaces that cause them.
    pub examples: Vec<String>,
}

/// The changes to an APIExport.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PlannedExport {
    /// The schemas that would be added.
    pub added_schemas: Vec<String>,
    /// The schemas that would be replaced.
    pub replaced_schemas: Vec<String>,
    /// The permission claims that would be added, and that workspaces have to accept.
    pub added_claims: Vec<String>,
}
