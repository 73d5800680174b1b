//! Rules about drift as they are written in manifests.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The treatment of a field of copies when another writer than the agent changes it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DriftRule {
    /// The path of the field, such as `spec.replicas`. The rule covers everything below it, and the
    /// longest rule that covers a field applies.
    pub path: String,
    /// `Keep` leaves the value of the copy until the object in the workspace changes the field;
    /// `Revert` writes the value from the workspace again; `Report` keeps the value of the copy,
    /// and sends an event that names the writer.
    pub mode: DriftTreatment,
}

/// The treatment of a changed field.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum DriftTreatment {
    Keep,
    Revert,
    Report,
}
