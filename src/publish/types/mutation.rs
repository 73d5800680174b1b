//! Mutations as they are written in manifests.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::null;

/// Changes to objects when they are copied, with one list of steps for each direction. Each step gets the result of the
/// previous one.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct MutationSpec {
    /// Applied to the object without its status.
    #[serde(
        default,
        deserialize_with = "null::or_default",
        skip_serializing_if = "Vec::is_empty"
    )]
    pub spec: Vec<ResourceMutation>,
    /// Applied to the status when it is copied back.
    #[serde(
        default,
        deserialize_with = "null::or_default",
        skip_serializing_if = "Vec::is_empty"
    )]
    pub status: Vec<ResourceMutation>,
}

/// One step. Set exactly one field; of several, the first in the order delete, regex, template,
/// cel is used.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ResourceMutation {
    /// Removes a field.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delete: Option<DeleteMutation>,
    /// Replaces the matches of a regular expression in a field.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub regex: Option<RegexMutation>,
    /// Sets a field to the result of a Go template.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub template: Option<TemplateMutation>,
    /// Sets a field to the result of a CEL expression.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cel: Option<CelMutation>,
}

/// Removes a field.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct DeleteMutation {
    /// The dotted path of the field.
    pub path: String,
}

/// Replaces the matches of a regular expression in a field.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RegexMutation {
    /// The dotted path of the field.
    pub path: String,
    /// The regular expression. Without it, the replacement becomes the value.
    #[serde(
        default,
        deserialize_with = "null::or_default",
        skip_serializing_if = "String::is_empty"
    )]
    pub pattern: String,
    /// The replacement of each match; `$1` and `${name}` are groups.
    #[serde(
        default,
        deserialize_with = "null::or_default",
        skip_serializing_if = "String::is_empty"
    )]
    pub replacement: String,
}

/// Sets a field to the result of a Go template.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TemplateMutation {
    /// The dotted path of the field.
    pub path: String,
    /// The template; `.Value` is the current value, `.LocalObject` the changed object,
    /// `.RemoteObject` the object on the other side.
    pub template: String,
}

/// Sets a field to the result of a CEL expression.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CelMutation {
    /// The dotted path of the field.
    pub path: String,
    /// The expression; `value` is the current value, `self` the changed object, `other` the
    /// object on the other side.
    pub expression: String,
}
