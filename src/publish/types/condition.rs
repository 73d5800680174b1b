//! One entry of `status.conditions`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// One condition.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Condition {
    /// Type of the condition.
    #[serde(rename = "type")]
    pub type_: String,
    /// `True`, `False` or `Unknown`.
    pub status: String,
    /// Reason code for programs.
    #[serde(default)]
    pub reason: String,
    /// Explanation for people.
    #[serde(default)]
    pub message: String,
    /// Time of the last change of `status`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("format" = "date-time"))]
    pub last_transition_time: Option<String>,
    /// The generation that the condition refers to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
}
