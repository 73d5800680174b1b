//! Entries of `spec.related` as they are written in manifests.

use std::collections::BTreeMap;
use std::num::NonZeroU16;

use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{LabelSelector, MutationSpec, Requirement, is_false, null};

/// Objects that are copied with a published object.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[x_kube(
    validation = Rule::new("has(self.kind) != (has(self.version) || has(self.resource))")
        .message("name the type either by kind or by version and resource"),
    validation = Rule::new("has(self.resource) == has(self.version)")
        .message("resource and version go together"),
    validation = Rule::new("!has(self.group) || (has(self.resource) && has(self.version))")
        .message("a group needs resource and version"),
    validation = Rule::new("!has(self.identityHash) || (has(self.group) && has(self.version) && has(self.resource))")
        .message("identityHash needs group, version and resource"),
    validation = Rule::new("!(self.origin == 'service' && has(self.syncStatus) && self.syncStatus) || has(self.watch)")
        .message("with origin service, syncStatus needs watch"),
)]
pub struct RelatedSpec {
    /// Unique name of this entry; a part of annotation keys.
    pub identifier: String,
    /// The side of the original.
    pub origin: Origin,
    /// The API group of the original.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group: Option<String>,
    /// The API version of the original.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// The plural resource name of the original.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resource: Option<String>,
    /// The kind, for ConfigMaps and Secrets. Deprecated: use version and resource.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<LegacyKind>,
    /// The identity of the APIExport that the type comes from, if it is not the agent's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub identity_hash: Option<String>,
    /// Deletes the copies together with the published object. Originals are never touched.
    #[serde(
        default,
        deserialize_with = "null::or_default",
        skip_serializing_if = "is_false"
    )]
    pub cleanup: bool,
    /// The name of the type on the other side, if it differs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub projection: Option<RelatedProjection>,
    /// Rules for finding the original, and the name of its copy.
    pub object: RelatedObject,
    /// Changes to the copied content.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mutation: Option<MutationSpec>,
    /// Accepted for compatibility. Hawser watches related objects without this field.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub watch: Option<RelatedWatch>,
    /// Copies the status too, in the same direction.
    #[serde(
        default,
        deserialize_with = "null::or_default",
        skip_serializing_if = "is_false"
    )]
    pub sync_status: bool,
    /// Namespaces of the service cluster that consumers may choose, besides the namespace of the
    /// published object's copy.
    #[serde(
        default,
        deserialize_with = "null::or_default",
        skip_serializing_if = "Vec::is_empty"
    )]
    pub allowed_namespaces: Vec<String>,
    /// Accepts only originals on the service cluster that belong to the published object, by an
    /// owner reference to its copy or by the agent's labels.
    #[serde(
        default,
        deserialize_with = "null::or_default",
        skip_serializing_if = "is_false"
    )]
    pub require_link: bool,
    /// Overwrites an existing object with the name of the copy, even if the agent did not create
    /// it.
    #[serde(
        default,
        deserialize_with = "null::or_default",
        skip_serializing_if = "is_false"
    )]
    pub adopt: bool,
    /// The maximum number of objects of the entry; further ones are left out and reported.
    /// Default: 64.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_objects: Option<NonZeroU16>,
}

/// A side of the synchronization.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "lowercase")]
pub enum Origin {
    Service,
    Kcp,
}

/// The kinds that have a short form.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum LegacyKind {
    ConfigMap,
    Secret,
}

/// Names of a related type on the other side. Fields that are not set do not change.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RelatedProjection {
    /// The API group.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group: Option<String>,
    /// The API version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// The plural resource name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resource: Option<String>,
}

/// Rules for finding the names of related objects, and their namespaces if these differ from those of the published
/// object and its copy.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RelatedObject {
    /// Reads the value from a field of the published object.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reference: Option<ReferenceSpec>,
    /// Selects originals by their labels.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub selector: Option<SelectorSpec>,
    /// Renders the value.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub template: Option<TemplateSpec>,
    /// Rules for finding the namespaces.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<RelatedObjectSpec>,
}

impl RelatedObject {
    /// The part that speaks of names.
    pub fn names(&self) -> RelatedObjectSpec {
        RelatedObjectSpec {
            reference: self.reference.clone(),
            selector: self.selector.clone(),
            template: self.template.clone(),
        }
    }
}

/// One way to find values. Of several, the first in the order reference, selector, template is used.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RelatedObjectSpec {
    /// Reads the value from a field of the published object.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reference: Option<ReferenceSpec>,
    /// Selects originals by their labels.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub selector: Option<SelectorSpec>,
    /// Renders the value.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub template: Option<TemplateSpec>,
}

/// Reads values from a field, on each side from the object of that side.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ReferenceSpec {
    /// The dotted path of the field; a list gives several objects.
    pub path: String,
    /// Changes each value that was read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub regex: Option<RegexRewrite>,
}

/// Finds originals by their labels and says what their copies are called.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-map-type" = "atomic"))]
pub struct SelectorSpec {
    /// Labels that must be there with exactly these values; keys and values may be templates.
    #[serde(
        default,
        deserialize_with = "null::or_default",
        skip_serializing_if = "BTreeMap::is_empty"
    )]
    pub match_labels: BTreeMap<String, String>,
    /// Further requirements.
    #[serde(
        default,
        deserialize_with = "null::or_default",
        skip_serializing_if = "Vec::is_empty"
    )]
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    pub match_expressions: Vec<Requirement>,
    /// The name of a copy.
    pub rewrite: Rewrite,
}

impl SelectorSpec {
    /// The requested labels, without the rewriting.
    pub fn labels(&self) -> LabelSelector {
        LabelSelector {
            match_labels: self.match_labels.clone(),
            match_expressions: self.match_expressions.clone(),
        }
    }
}

/// Turns the name of an original into that of its copy. Of both, `regex` is used.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Rewrite {
    /// Replaces the matches of a regular expression in the name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub regex: Option<RegexRewrite>,
    /// Renders the name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub template: Option<TemplateSpec>,
}

/// A regular expression and what replaces its matches.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RegexRewrite {
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

/// A template.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TemplateSpec {
    /// The text of the template.
    #[serde(
        default,
        deserialize_with = "null::or_default",
        skip_serializing_if = "String::is_empty"
    )]
    pub template: String,
}

/// Accepted for compatibility. Hawser watches related objects without this field.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[x_kube(
    validation = Rule::new("has(self.byOwner) != has(self.bySelector)")
        .message("give exactly one of byOwner and bySelector"),
)]
pub struct RelatedWatch {
    /// By the owner reference of the original to the published object or its copy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by_owner: Option<ByOwner>,
    /// Triggers all published objects with these labels.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by_selector: Option<LabelSelector>,
}

/// Has no fields: that it is there is what counts.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ByOwner {}
