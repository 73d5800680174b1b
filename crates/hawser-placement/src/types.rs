//! The API types as they are stored, and their definitions.
//!
//! Fields have the order of the original's Go structs, because the JSON text is hashed.

use std::collections::BTreeMap;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

pub mod binding;
pub mod cluster;
pub mod definitions;
pub mod eviction;
pub mod overrides;
pub mod placement;
pub mod policy;
pub mod runs;
pub mod work;

/// The group of placements, snapshots, bindings, overrides and works.
pub const PLACEMENT_GROUP: &str = "placement.kubernetes-fleet.io";
/// The group of members.
pub const CLUSTER_GROUP: &str = "cluster.kubernetes-fleet.io";
/// The stored version of every type.
pub const STORED_VERSION: &str = "v1beta1";

/// An object of the API: what the code reads of it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Resource<Spec, Status> {
    pub metadata: Metadata,
    pub spec: Spec,
    #[serde(default)]
    pub status: Status,
}

/// The metadata that the code reads.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Metadata {
    pub name: String,
    pub namespace: Option<String>,
    pub uid: Option<String>,
    pub resource_version: Option<String>,
    pub generation: i64,
    pub creation_timestamp: Option<String>,
    pub deletion_timestamp: Option<String>,
    pub labels: BTreeMap<String, String>,
    pub annotations: BTreeMap<String, String>,
    pub finalizers: Vec<String>,
}

impl Metadata {
    /// True from the request for deletion until the last finalizer is gone.
    pub fn in_deletion(&self) -> bool {
        self.deletion_timestamp.is_some()
    }

    pub fn label(&self, key: &str) -> Option<&str> {
        self.labels.get(key).map(String::as_str)
    }

    pub fn annotation(&self, key: &str) -> Option<&str> {
        self.annotations.get(key).map(String::as_str)
    }

    /// The labels, for selectors.
    pub fn label_pairs(&self) -> impl Iterator<Item = (&str, &str)> + Clone {
        let labels = self.labels.iter();
        labels.map(|(key, value)| (key.as_str(), value.as_str()))
    }
}

/// The status of a condition.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum ConditionStatus {
    True,
    False,
    #[default]
    Unknown,
}

/// A condition of the API.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Condition {
    #[serde(rename = "type")]
    #[schemars(length(max = 316))]
    #[schemars(regex(
        pattern = r"^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])$"
    ))]
    pub type_: String,
    pub status: ConditionStatus,
    /// The generation that the condition was determined for.
    #[serde(default)]
    #[schemars(range(min = 0))]
    pub observed_generation: i64,
    /// The time of the last change of the status.
    #[serde(default)]
    #[schemars(extend("x-required" = true, "format" = "date-time"))]
    pub last_transition_time: String,
    /// The cause, as one word.
    #[schemars(length(min = 1, max = 1024))]
    #[schemars(regex(pattern = r"^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$"))]
    pub reason: String,
    /// The cause, for people.
    #[schemars(length(max = 32768))]
    pub message: String,
}

impl Condition {
    /// True if the condition was determined for this generation.
    pub fn is_fresh(&self, generation: i64) -> bool {
        self.observed_generation == generation
    }

    /// Equality without the time and the message: what decides whether a status is written again.
    pub fn equals_except_time(&self, other: &Self) -> bool {
        self.type_ == other.type_
            && self.status == other.status
            && self.reason == other.reason
            && self.observed_generation == other.observed_generation
    }
}

/// The condition of a type.
pub fn condition<'a>(conditions: &'a [Condition], type_: &str) -> Option<&'a Condition> {
    conditions.iter().find(|condition| condition.type_ == type_)
}

/// A number, or a percentage of a number that is known later.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum IntOrPercent {
    Int(i32),
    Text(String),
}

impl IntOrPercent {
    /// The number, or the percentage of `whole`, rounded up. `None` if the text is no percentage.
    pub fn of(&self, whole: i64) -> Option<i64> {
        match self {
            Self::Int(number) => Some(i64::from(*number)),
            Self::Text(text) => {
                let digits = text.strip_suffix('%');
                if let Some(digits) = digits {
                    let percent: i64 = digits.parse().ok().filter(|p| (0..=100).contains(p))?;
                    // The schema admits no more than 100 percent; the number of clusters is an i32.
                    return Some((percent.saturating_mul(whole) + 99).div_euclid(100));
                }
                text.parse().ok()
            }
        }
    }
}

impl JsonSchema for IntOrPercent {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "IntOrPercent".into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({"anyOf": [{"type": "integer"}, {"type": "string"}], "x-kubernetes-int-or-string": true})
    }
}

/// The schema of a label selector.
fn label_selector(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "object",
        "x-kubernetes-map-type": "atomic",
        "properties": {
            "matchLabels": {"type": "object", "additionalProperties": {"type": "string"}},
            "matchExpressions": {
                "type": "array",
                "x-kubernetes-list-type": "atomic",
                "items": {
                    "type": "object",
                    "required": ["key", "operator"],
                    "properties": {
                        "key": {"type": "string"},
                        "operator": {"type": "string"},
                        "values": {"type": "array", "x-kubernetes-list-type": "atomic", "items": {"type": "string"}},
                    },
                },
            },
        },
    })
}

/// The schema of an object of any kind.
fn embedded_object(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "object",
        "x-kubernetes-embedded-resource": true,
        "x-kubernetes-preserve-unknown-fields": true,
    })
}

/// The schema of a list of objects of any kind.
fn embedded_objects(generator: &mut SchemaGenerator) -> Schema {
    json_schema!({"type": "array", "items": embedded_object(generator)})
}

/// The schema of any value.
fn any_value(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"x-kubernetes-preserve-unknown-fields": true})
}

/// The schema of conditions: one of each type.
fn conditions(generator: &mut SchemaGenerator) -> Schema {
    let condition = generator.subschema_for::<Condition>();
    json_schema!({
        "type": "array",
        "items": condition,
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["type"],
    })
}
