//! The `PublishedResource` type as it is stored: the manifest that publishes an API.
//!
//! These are wire types only: every field is as optional as the API server lets it be, and nothing is validated here.
//! The compiled rules convert them once for the engine. The CRD manifest in `crds/` is generated from them (see
//! [`manifest`]).

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
mod drift;
pub mod manifest;
mod mutation;
mod null;
mod plan;
mod related;
mod selector;

pub use condition::Condition;
pub use drift::{DriftRule, DriftTreatment};
pub use mutation::{MutationSpec, ResourceMutation};
pub use plan::{PlanStatus, PlannedExport, PlannedReason, PlannedWrites, WorkspacePlan};
pub use related::{
    LegacyKind, Origin, RegexRewrite, RelatedObjectSpec, RelatedSpec, Rewrite, SelectorSpec,
};
pub use selector::{LabelSelector, Requirement};

/// Publishes one API of the service cluster in the kcp workspaces that bind the agent's
/// APIExport, and configures the sync of its objects.
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
    doc = "Publishes one API of the service cluster in the kcp workspaces that bind the agent's APIExport, and configures the sync of its objects.",
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
        name = "Mode",
        type_ = "string",
        json_path = ".spec.mode",
        priority = 1,
        description = "Whether the agent writes, or only plans."
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
    /// The objects that are synchronized. Default: all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub filter: Option<Filter>,
    /// Names of copies on the service cluster. An existing copy keeps its name when this changes.
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
    /// The API in workspaces, where it differs from the service cluster.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub projection: Option<Projection>,
    /// Changes to the content of copied objects.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mutation: Option<MutationSpec>,
    /// Objects that are copied with each published object, such as the Secret with its
    /// credentials.
    #[serde(
        default,
        deserialize_with = "null::or_default",
        skip_serializing_if = "Vec::is_empty"
    )]
    pub related: Vec<RelatedSpec>,
    /// Whether the agent writes what this object asks for: with `Sync` it does; with `Plan` it
    /// writes nothing but the status of this object, which shows what it would write. Default: Sync.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mode: Option<Mode>,
    /// Enables or disables the synchronization of objects. Default: enabled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub synchronization: Option<Synchronization>,
    /// The language of the templates in `naming` and `related`. Default: Go.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub template_engine: Option<TemplateEngine>,
    /// The treatment of objects that the agent did not create, and of workspaces that unbind.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub safety: Option<Safety>,
    /// The treatment of fields of copies that other writers than the agent change. Default: such
    /// changes are kept until the object in the workspace changes the field.
    #[serde(
        default,
        deserialize_with = "null::or_default",
        skip_serializing_if = "Vec::is_empty"
    )]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["path"]))]
    pub drift: Vec<DriftRule>,
    /// Reports on each object in workspaces whether the service has seen its current generation,
    /// for `kubectl wait`. Default: no report.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub synced: Option<SyncedSpec>,
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
    /// The versions to publish. Default: all versions of the CRD.
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
    /// Label selector for the object's namespace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<LabelSelector>,
    /// Label selector for the object.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resource: Option<LabelSelector>,
}

/// Templates for the names of copies on the service cluster.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Naming {
    /// The name of a copy. Default: short hashes of namespace and name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The namespace of a copy. Default: the name of the workspace's logical cluster.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
}

/// Names of an API in workspaces. Fields that are not set keep the values of the service cluster.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Projection {
    /// The API group.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group: Option<String>,
    /// The new name of the only published version. Deprecated: use `versions`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// New names of versions, by their name on the service cluster.
    #[serde(
        default,
        deserialize_with = "null::or_default",
        skip_serializing_if = "BTreeMap::is_empty"
    )]
    pub versions: BTreeMap<String, String>,
    /// Whether objects are namespaced or cluster-scoped in workspaces.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scope: Option<Scope>,
    /// The kind; the list kind, singular and plural follow from it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    /// The plural, if the one derived from `kind` is wrong.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plural: Option<String>,
    /// The short names. An empty list removes them. Default: those of the service cluster.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub short_names: Option<Vec<String>>,
    /// The categories. An empty list removes them. Default: those of the service cluster.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub categories: Option<Vec<String>>,
}

/// Whether the objects of a kind live in namespaces.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Scope {
    Cluster,
    Namespaced,
}

/// Whether the agent writes, or only plans.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Mode {
    #[default]
    Sync,
    Plan,
}

/// Whether objects are synchronized.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Synchronization {
    /// With `false`, only the schema is published, and objects do not change on either side.
    pub enabled: bool,
}

/// The language of templates.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum TemplateEngine {
    #[default]
    Go,
    Handlebars,
}

/// The treatment of objects that the agent did not create, and of workspaces that unbind.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Safety {
    /// Treatment of an existing object with the name of a new copy: `Unowned` adopts an object that belongs to no other
    /// object, workspace or agent, and keeps its content; `Never` adopts nothing. Default: Unowned.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub adoption: Option<Adoption>,
    /// Treatment of an adopted object when its original is deleted: `Delete` it, or `Release` it by removing the
    /// agent's labels and annotations. Default: Delete.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub adopted_on_delete: Option<AdoptedOnDelete>,
    /// Treatment of the copies of a workspace that no longer binds the API: `Keep` or `Delete` them. Default: Keep.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub on_unbind: Option<OnUnbind>,
    /// The finalizer on originals of related objects in workspaces: `Shared` is common to all
    /// agents, `Own` contains the name of this agent, for originals that several agents copy. Go
    /// back to Shared before another program replaces this agent. Default: Shared.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub related_finalizer: Option<RelatedFinalizer>,
    /// Restricts copies whose name or namespace consumers influence. `Open` follows `adoption`
    /// and allows the namespace `default`; `Guarded` adopts nothing, and refuses `default` if
    /// consumers influence the namespace. It also closes a namespace that consumers influence to
    /// related entries, unless its pattern contains the workspace. Default: Open.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub consumer_names: Option<ConsumerNames>,
    /// Whether consumers may pause their objects by annotations: `Allow` or `Forbid`. Default:
    /// Allow.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub consumer_pause: Option<ConsumerPause>,
}

impl Safety {
    /// Whether names and namespaces that consumers influence are restricted.
    pub fn guards_names(&self) -> bool {
        self.consumer_names.unwrap_or_default() == ConsumerNames::Guarded
    }
}

/// Whether existing objects may be taken over.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Adoption {
    #[default]
    Unowned,
    Never,
}

/// Treatment of an adopted object when its original is deleted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum AdoptedOnDelete {
    #[default]
    Delete,
    Release,
}

/// Treatment of the copies of a workspace that no longer binds the API.
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

/// Treatment of copies whose names or namespaces consumers influence.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum ConsumerNames {
    #[default]
    Open,
    Guarded,
}

/// Whether consumers may pause their objects.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum ConsumerPause {
    #[default]
    Allow,
    Forbid,
}

/// The report whether the service has seen the current generation of an object.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SyncedSpec {
    /// The type of a condition in `status.conditions` of objects in workspaces, such as `Synced`.
    /// It replaces a condition of this type that the service sets. Without it, or if the schema
    /// has no place for it, the agent writes annotations.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub condition: Option<String>,
    /// When the service has seen a generation: `Observed`, once the copy has it and its
    /// controller reports so by `observedGeneration` in the status or, without it, by the lowest one of the conditions;
    /// `Copied`, once the copy has it. Default: Observed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub when: Option<SyncedWhen>,
}

/// When the service has seen a generation of an object.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
pub enum SyncedWhen {
    #[default]
    Observed,
    Copied,
}

/// The state that the agent reports.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PublishedResourceStatus {
    /// The name of the current schema.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resource_schema_name: Option<String>,
    /// The generation that the conditions refer to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// The conditions; `Ready` summarises them.
    #[serde(
        default,
        deserialize_with = "null::or_default",
        skip_serializing_if = "Vec::is_empty"
    )]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Vec<Condition>,
    /// What the agent would write, if the mode is `Plan`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plan: Option<PlanStatus>,
}

impl PublishedResourceSpec {
    /// Whether objects are to be synchronized; a missing block means yes.
    pub fn synchronizes(&self) -> bool {
        self.synchronization.as_ref().is_none_or(|s| s.enabled)
    }

    /// Whether nothing but the status of the published resource is written.
    pub fn plans_only(&self) -> bool {
        self.mode == Some(Mode::Plan)
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
