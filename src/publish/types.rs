//! The `PublishedResource` type as it is stored: what an owner writes to publish an API.
//!
//! These are wire types, nothing more: every field is as optional as the API server lets it be, and
//! nothing is checked here. The compiled rules turn them once into what the engine works with. The
//! CRD manifest in `crds/` is generated from them (see [`manifest`]).

#![allow(
    unreachable_pub,
    reason = "the derive macros repeat each struct in a private module to take its CEL rules from it"
)]
#![allow(
    clippy::doc_markdown,
    reason = "the descriptions are read in `kubectl explain`, where backticks mark fields only"
)]
#![allow(
    clippy::struct_excessive_bools,
    reason = "the switches of a manifest are what they are"
)]
#![allow(
    clippy::duplicated_attributes,
    reason = "several printer columns have the same type"
)]

use std::collections::BTreeMap;

use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

mod condition;
pub mod manifest;
mod mutation;
mod null;
mod related;
mod selector;

pub use condition::Condition;
pub use mutation::{
    CelMutation, DeleteMutation, MutationSpec, RegexMutation, ResourceMutation, TemplateMutation,
};
pub use related::{
    ByOwner, LegacyKind, Origin, ReferenceSpec, RegexRewrite, RelatedObject, RelatedObjectSpec,
    RelatedProjection, RelatedSpec, RelatedWatch, Rewrite, SelectorSpec, TemplateSpec,
};
pub use selector::{LabelSelector, Operator, Requirement};

/// Offers one API of the service cluster in the kcp workspaces that bind the agent's APIExport,
/// and says how its objects travel.
#[derive(CustomResource, KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[kube(
    group = "syncagent.kcp.io",
    version = "v1alpha1",
    kind = "PublishedResource",
    plural = "publishedresources",
    singular = "publishedresource",
    status = "PublishedResourceStatus",
    derive = "PartialEq",
    derive = "Default",
    doc = "Offers one API of the service cluster in the kcp workspaces that bind the agent's APIExport, and says how its objects travel.",
    printcolumn(
        name = "Kind",
        type_ = "string",
        json_path = ".spec.resource.kind",
        description = "The kind on the service cluster."
    ),
    printcolumn(
        name = "Schema",
        type_ = "string",
        json_path = ".status.resourceSchemaName",
        priority = 1,
        description = "The schema that workspaces see."
    ),
    printcolumn(
        name = "Ready",
        type_ = "string",
        json_path = ".status.conditions[?(@.type==\"Ready\")].status",
        description = "Whether the API is published and synchronized."
    ),
    printcolumn(
        name = "Age",
        type_ = "date",
        json_path = ".metadata.creationTimestamp"
    )
)]
#[serde(rename_all = "camelCase")]
pub struct PublishedResourceSpec {
    /// The kind on the service cluster that is published.
    pub resource: SourceResource,
    /// Which objects of the workspaces are synchronized. Without it, all of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub filter: Option<Filter>,
    /// How copies on the service cluster are named. An existing copy keeps its name when this changes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub naming: Option<Naming>,
    /// Looks up the path of each workspace, so that templates can use `.ClusterPath` and copies are
    /// annotated with it. Needs a permission claim on logical clusters, which the agent adds.
    #[serde(
        default,
        deserialize_with = "null::or_default",
        skip_serializing_if = "is_false"
    )]
    pub enable_workspace_paths: bool,
    /// How the API looks in workspaces, where it differs from the service cluster.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub projection: Option<Projection>,
    /// Changes to the content of objects on their way.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mutation: Option<MutationSpec>,
    /// Objects that travel along with each published object, such as the Secret with its credentials.
    #[serde(
        default,
        deserialize_with = "null::or_default",
        skip_serializing_if = "Vec::is_empty"
    )]
    pub related: Vec<RelatedSpec>,
    /// Switches the synchronization of objects. Without it, it is on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub synchronization: Option<Synchronization>,
    /// The language of the templates in `naming` and `related`. Go, if not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub template_engine: Option<TemplateEngine>,
    /// What the agent does where it meets objects that it did not make, or loses a workspace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub safety: Option<Safety>,
}

/// A kind on the service cluster and the versions of it that are published.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SourceResource {
    /// The API group; empty for the core group.
    pub api_group: String,
    /// The kind, as in `CronTab`.
    pub kind: String,
    /// The single version to publish. Deprecated: use `versions`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// The versions to publish; all that the service cluster serves, if none are listed.
    #[serde(
        default,
        deserialize_with = "null::or_default",
        skip_serializing_if = "Vec::is_empty"
    )]
    pub versions: Vec<String>,
}

/// Selects objects by their labels and by the labels of their namespace, both in the workspace.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Filter {
    /// Matched against the labels of the namespace that the object lives in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<LabelSelector>,
    /// Matched against the labels of the object.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resource: Option<LabelSelector>,
}

/// Templates for the names of copies on the service cluster.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Naming {
    /// The name of a copy. By default two short hashes, of the namespace and of the name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The namespace of a copy. By default the name of the workspace's logical cluster.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
}

/// What an API is called in workspaces; whatever is left out stays as it is on the service cluster.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Projection {
    /// The API group.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group: Option<String>,
    /// The version, where exactly one is published. Deprecated: use `versions`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// New names of versions, by their name on the service cluster.
    #[serde(
        default,
        deserialize_with = "null::or_default",
        skip_serializing_if = "BTreeMap::is_empty"
    )]
    pub versions: BTreeMap<String, String>,
    /// Whether objects live in namespaces of the workspace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scope: Option<Scope>,
    /// The kind; the list kind, singular and plural follow from it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    /// The plural, where the one that follows from `kind` does not do.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plural: Option<String>,
    /// The short names. An empty list removes those of the original; leaving it out keeps them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub short_names: Option<Vec<String>>,
    /// The categories. An empty list removes those of the original; leaving it out keeps them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub categories: Option<Vec<String>>,
}

/// Whether the objects of a kind live in namespaces.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Scope {
    Cluster,
    Namespaced,
}

/// Whether objects are synchronized.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Synchronization {
    /// With `false` only the schema is published; objects are left alone on both sides.
    pub enabled: bool,
}

/// The language of templates.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum TemplateEngine {
    #[default]
    Go,
    Handlebars,
}

/// What the agent does where it meets objects that it did not make, or loses a workspace.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Safety {
    /// What to do where an object with the name of a new copy exists. `Unowned` takes over an object
    /// that belongs to nobody, keeping its content; `Never` takes over nothing. Unowned, if not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub adoption: Option<Adoption>,
    /// What becomes of an object that was taken over once its original is deleted: `Delete` it, or
    /// `Release` it, which leaves it in place without the agent's marks. Delete, if not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub adopted_on_delete: Option<AdoptedOnDelete>,
    /// What becomes of the copies of a workspace that no longer binds the API: `Keep` or `Delete`
    /// them. Keep, if not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub on_unbind: Option<OnUnbind>,
    /// The finalizer that holds the originals of related objects in workspaces: `Shared` is the one that
    /// all agents have, `Own` bears the name of this agent, for originals that several agents copy. Before
    /// another program takes over from this one, go back to Shared. Shared, if not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub related_finalizer: Option<RelatedFinalizer>,
    /// Where copies may be whose names or namespaces consumers have a say in: with `Open` they take over
    /// what `adoption` says, and may be in `default`; with `Guarded` they take over nothing, and those whose
    /// namespace is in consumers' words are not in `default`. Open, if not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub consumer_names: Option<ConsumerNames>,
}

/// Whether existing objects may be taken over.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Adoption {
    #[default]
    Unowned,
    Never,
}

/// What becomes of an adopted object once its original is deleted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum AdoptedOnDelete {
    #[default]
    Delete,
    Release,
}

/// What becomes of the copies of a workspace that no longer binds the API.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum OnUnbind {
    #[default]
    Keep,
    Delete,
}

/// Which finalizer holds the originals of related objects in workspaces.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum RelatedFinalizer {
    #[default]
    Shared,
    Own,
}

/// What names and namespaces in consumers' words lead to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum ConsumerNames {
    #[default]
    Open,
    Guarded,
}

/// What the agent reports.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PublishedResourceStatus {
    /// The name of the schema that workspaces see now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resource_schema_name: Option<String>,
    /// The generation that the conditions speak of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// What is the case; `Ready` sums it up.
    #[serde(
        default,
        deserialize_with = "null::or_default",
        skip_serializing_if = "Vec::is_empty"
    )]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Vec<Condition>,
}

impl PublishedResourceSpec {
    /// Whether objects are to be synchronized; a missing block means yes.
    pub fn synchronizes(&self) -> bool {
        self.synchronization.as_ref().is_none_or(|s| s.enabled)
    }

    pub fn safety(&self) -> Safety {
        self.safety.clone().unwrap_or_default()
    }
}

#[allow(
    clippy::trivially_copy_pass_by_ref,
    reason = "the signature that serde's skip_serializing_if asks for"
)]
fn is_false(value: &bool) -> bool {
    !*value
}

#[cfg(test)]
mod tests;
