//! `MemberCluster` and `InternalMemberCluster`: the members of the fleet.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{Condition, Resource};

pub type MemberCluster = Resource<MemberClusterSpec, MemberClusterStatus>;
pub type InternalMemberCluster = Resource<InternalMemberClusterSpec, MemberClusterStatus>;

/// A member as the hub wants it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct MemberClusterSpec {
    /// The subject that the member agent is on the hub.
    #[serde(default)]
    #[schemars(extend("x-required" = true))]
    pub identity: Subject,
    /// The seconds between heartbeats.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 600), extend("x-default" = 60))]
    pub heartbeat_period_seconds: Option<i32>,
    /// Taints keep placements away that do not tolerate them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 100))]
    pub taints: Vec<Taint>,
    /// Checks when the member leaves.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub delete_options: Option<MemberDeleteOptions>,
}

/// A subject of role-based access control.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-map-type" = "atomic"))]
pub struct Subject {
    /// User, Group or `ServiceAccount`.
    pub kind: String,
    /// The API group of the subject.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub api_group: String,
    /// The name.
    pub name: String,
    /// The namespace of a `ServiceAccount`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub namespace: String,
}

/// A taint of a member.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Taint {
    /// The key.
    pub key: String,
    /// The value.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub value: String,
    /// `NoSchedule`.
    pub effect: TaintEffect,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum TaintEffect {
    #[default]
    NoSchedule,
}

/// Checks when a member leaves.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct MemberDeleteOptions {
    /// Strict refuses to remove a member that exports services, Skip does not.
    #[serde(default)]
    #[schemars(extend("x-default" = "Strict"))]
    pub validation_mode: DeleteValidationMode,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum DeleteValidationMode {
    #[default]
    Strict,
    Skip,
}

/// Desired state of the member agent.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct InternalMemberClusterSpec {
    /// Join or Leave.
    pub state: MemberState,
    /// The seconds between heartbeats.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 600), extend("x-default" = 60))]
    pub heartbeat_period_seconds: Option<i32>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum MemberState {
    #[default]
    Join,
    Leave,
}

/// State that the agents of a member report.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct MemberClusterStatus {
    /// The state of the member.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "super::conditions")]
    pub conditions: Vec<Condition>,
    /// Properties by their name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub properties: BTreeMap<String, PropertyValue>,
    /// The resources of the member.
    #[serde(default)]
    pub resource_usage: ResourceUsage,
    /// The works that placed the namespaces of the member.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub namespaces: Option<BTreeMap<String, String>>,
    /// The state of each agent.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub agent_status: Vec<AgentStatus>,
}

/// A property of a member.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PropertyValue {
    /// The value; a quantity if it is compared.
    pub value: String,
    /// The time of the observation.
    #[serde(default)]
    #[schemars(extend("x-required" = true, "format" = "date-time"))]
    pub observation_time: String,
}

/// The resources of a member.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ResourceUsage {
    /// The capacity of all nodes.
    #[serde(deserialize_with = "read_quantities")]
    #[schemars(schema_with = "quantities")]
    pub capacity: BTreeMap<String, String>,
    /// Resources that all nodes can give to pods.
    #[serde(deserialize_with = "read_quantities")]
    #[schemars(schema_with = "quantities")]
    pub allocatable: BTreeMap<String, String>,
    /// Resources that no pod has requested.
    #[serde(deserialize_with = "read_quantities")]
    #[schemars(schema_with = "quantities")]
    pub available: BTreeMap<String, String>,
    /// The time of the observation.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("format" = "date-time"))]
    pub observation_time: Option<String>,
}

/// Reads quantities that are texts or plain numbers.
fn read_quantities<'de, D>(deserializer: D) -> Result<BTreeMap<String, String>, D::Error>
where
    D: serde::Deserializer<'de>,
{
    let read: BTreeMap<String, Value> = BTreeMap::deserialize(deserializer)?;
    let texts = read.into_iter().map(|(name, value)| match value {
        Value::String(text) => (name, text),
        other => (name, other.to_string()),
    });
    Ok(texts.collect())
}

fn quantities(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
    schemars::json_schema!({
        "type": "object",
        "additionalProperties": {
            "anyOf": [{"type": "integer"}, {"type": "string"}],
            "pattern": r"^(\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))(([KMGTPE]i)|[numkMGTPE]|([eE](\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))))?$",
            "x-kubernetes-int-or-string": true,
        },
    })
}

/// The state of an agent.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AgentStatus {
    /// The agent.
    #[serde(rename = "type")]
    pub type_: AgentType,
    /// Joined and Healthy.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "super::conditions")]
    pub conditions: Vec<Condition>,
    /// The time of the last heartbeat.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("format" = "date-time"))]
    pub last_received_heartbeat: Option<String>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum AgentType {
    #[default]
    MemberAgent,
    MultiClusterServiceAgent,
    ServiceExportImportAgent,
}

impl MemberClusterStatus {
    /// The state of the agent that applies works.
    pub fn member_agent(&self) -> Option<&AgentStatus> {
        let mut agents = self.agent_status.iter();
        agents.find(|agent| agent.type_ == AgentType::MemberAgent)
    }
}
