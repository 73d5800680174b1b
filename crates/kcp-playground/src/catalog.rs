//! The resources of a request's scope, with their versions and rules.
//!
//! Types only, shared by those who build catalogs (built-in kinds and CRDs here, bindings and virtual workspaces in the
//! kcp layer) and the API layer, which serves them.

use std::collections::BTreeMap;
use std::fmt;
use std::num::NonZeroUsize;
use std::sync::Arc;

use serde_json::Value;

use super::fields;
use super::status::Status;
use super::store::{Name, Read, Table, Tx};
use super::table::Printer;
use kube_lang::object::Object;
use kube_schema::field::FieldError;
use kube_schema::names::NameRule;

/// The view of the API that a request uses.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Scope {
    /// One logical cluster, by its id.
    Cluster(Name),
    /// The virtual workspace of an export, limited to one consumer.
    ExportCluster {
        owner: Name,
        export: Name,
        cluster: Name,
    },
    /// The virtual workspace of an export, over all consumers, or over those of a shard.
    ExportWildcard {
        owner: Name,
        export: Name,
        shard: Option<Shard>,
    },
    /// The virtual workspace of an initializer or a terminator: the clusters that wait for it, or one of them.
    Waiting {
        stage: Stage,
        /// `<id of the type's cluster>:<type>`
        name: Name,
        cluster: Option<Name>,
    },
}

/// One of several shards of kcp, each with some of the logical clusters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Shard {
    /// Below `of`.
    pub number: usize,
    pub of: NonZeroUsize,
}

impl Shard {
    /// Whether a logical cluster is on this shard.
    pub fn has(self, cluster: &str) -> bool {
        let hash = |hash: usize, byte: u8| hash.wrapping_mul(31).wrapping_add(byte.into());
        cluster.bytes().fold(0, hash) % self.of == self.number
    }
}

/// The phase in which clusters wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Stage {
    Initializing,
    Terminating,
}

impl Scope {
    /// Whether this is the view of an export.
    pub fn is_view(&self) -> bool {
        matches!(
            self,
            Self::ExportCluster { .. } | Self::ExportWildcard { .. }
        )
    }

    /// The only cluster of the scope; `None` for a wildcard.
    pub fn cluster(&self) -> Option<&Name> {
        match self {
            Self::Cluster(cluster) | Self::ExportCluster { cluster, .. } => Some(cluster),
            Self::Waiting { cluster, .. } => cluster.as_ref(),
            Self::ExportWildcard { .. } => None,
        }
    }
}

/// The user of a request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct User {
    pub name: String,
    pub uid: String,
    pub groups: Vec<String>,
}

/// Finds the catalog of a request, and decides whether the request is allowed.
pub(crate) trait Scopes: Send + Sync {
    /// The catalog of a scope. An error if there is no such cluster or export.
    fn catalog(&self, read: &dyn Read, scope: &Scope) -> Result<Arc<Catalog>, Status>;

    /// Whether the scope allows this request: a virtual workspace depends on the consumer's binding. Discovery is
    /// always allowed.
    fn authorize(
        &self,
        read: &dyn Read,
        scope: &Scope,
        resource: &Resource,
        verb: &str,
    ) -> Result<(), Status>;

    /// Whether an object may be written in a scope; adds the labels that the object needs there.
    fn admit(
        &self,
        _read: &dyn Read,
        _scope: &Scope,
        _resource: &Resource,
        _creates: bool,
    ) -> Result<Vec<(String, String)>, Status> {
        Ok(Vec::new())
    }
}

/// All resources of a scope, in the order of discovery.
#[derive(Clone, Debug, Default)]
pub(crate) struct Catalog {
    /// By group, then version; the preferred version of a group is the first in its list.
    groups: BTreeMap<Name, Vec<Version>>,
}

/// One version of a group.
#[derive(Clone, Debug)]
pub(crate) struct Version {
    pub name: Name,
    pub resources: Vec<Arc<Resource>>,
}

impl Catalog {
    /// Adds a resource. If the same group, version and name exists already, that one stays, so add more important
    /// resources first.
    pub(crate) fn add(&mut self, resource: Arc<Resource>) {
        let versions = self.groups.entry(resource.group.clone()).or_default();
        let known = versions.iter().position(|v| v.name == resource.version);
        let index = known.unwrap_or_else(|| {
            versions.push(Version {
                name: resource.version.clone(),
                resources: Vec::new(),
            });
            versions.len() - 1
        });
        let resources = &mut versions[index].resources;
        if !resources.iter().any(|r| r.plural == resource.plural) {
            resources.push(resource);
        }
    }

    /// Sorts the versions of each group by the preference of Kubernetes, and the resources by name. Call this after all
    /// are added.
    pub(crate) fn sort(&mut self, prefer: impl Fn(&str, &str) -> std::cmp::Ordering) {
        for versions in self.groups.values_mut() {
            versions.sort_by(|a, b| prefer(&a.name, &b.name));
            for version in versions {
                version.resources.sort_by(|a, b| a.plural.cmp(&b.plural));
            }
        }
    }

    pub(crate) fn find(&self, group: &str, version: &str, plural: &str) -> Option<&Arc<Resource>> {
        self.version(group, version)?
            .resources
            .iter()
            .find(|resource| &*resource.plural == plural)
    }

    pub(crate) fn version(&self, group: &str, version: &str) -> Option<&Version> {
        self.groups.get(group)?.iter().find(|v| &*v.name == version)
    }

    /// Group and versions, the preferred version first.
    pub(crate) fn groups(&self) -> impl Iterator<Item = (&Name, &[Version])> {
        self.groups
            .iter()
            .map(|(group, versions)| (group, versions.as_slice()))
    }
}

/// A resource in one served version, with all that the API layer needs to serve it.
#[derive(Clone)]
pub(crate) struct Resource {
    pub group: Name,
    pub version: Name,
    pub plural: Name,
    pub singular: Name,
    pub kind: Name,
    pub list_kind: Name,
    pub short_names: Vec<Name>,
    pub categories: Vec<Name>,
    pub namespaced: bool,
    /// The table of the objects. Several resources may share one: versions, views.
    pub table: Table,
    pub storage_version: Name,
    /// Whether `/status` is served; then the main endpoint does not change `status`.
    pub has_status: bool,
    pub verbs: Verbs,
    pub flavour: Flavour,
    pub name_rule: NameRule,
    /// The schema of this version, for custom resources. Built-in kinds have a strategy instead.
    pub schema: Option<Arc<dyn ObjectSchema>>,
    /// The schema of the storage version, if that is another version: its unknown fields are dropped, and its defaults
    /// are used for reads.
    pub storage_schema: Option<Arc<dyn ObjectSchema>>,
    /// How the fields of this version are merged and owned.
    pub fields: fields::Type,
    /// Defaults, validation and admission beyond the schema.
    pub strategy: Option<Arc<dyn Strategy>>,
    /// Converts an object from its storage version to this one and back, if more than `apiVersion` differs.
    pub conversion: Option<Arc<dyn Conversion>>,
    /// Only objects with this label are visible.
    pub required_label: Option<(Name, Name)>,
    /// Only objects that this accepts are visible.
    pub only: Option<Arc<Accept>>,
    /// Field selectors besides `metadata.name` and `metadata.namespace`: dotted paths.
    pub selectable_fields: Vec<Name>,
    /// Renders objects as rows of tables; `None` if the resource has no objects to show.
    pub printer: Option<Arc<dyn Printer>>,
    /// Changes when watches of this resource have to end: another scope, kind or identity.
    pub incarnation: u64,
}

/// Selects objects.
pub(crate) type Accept = dyn Fn(&Object) -> bool + Send + Sync;

/// The verbs that are served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verbs {
    All,
    ReadOnly,
    /// Reads, and writes of `/status`.
    StatusOnly,
    /// Creates that are answered and never stored: reviews.
    CreateOnly,
}

impl Verbs {
    /// The verbs as discovery lists them.
    pub(crate) fn names(self) -> &'static [&'static str] {
        match self {
            Self::All => &[
                "create",
                "delete",
                "deletecollection",
                "get",
                "list",
                "patch",
                "update",
                "watch",
            ],
            Self::ReadOnly | Self::StatusOnly => &["get", "list", "watch"],
            Self::CreateOnly => &["create"],
        }
    }

    pub(crate) fn allow(self, verb: &str) -> bool {
        self.names().contains(&verb)
    }

    /// Whether `/status` has this verb.
    pub(crate) fn allow_status(self, verb: &str) -> bool {
        matches!(verb, "get" | "update" | "patch") && (self == Self::StatusOnly || self.allow(verb))
    }
}

/// Rules that differ between custom resources and built-in kinds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Flavour {
    /// From a CRD or a schema of an export: objects have a generation, and updates must name a resourceVersion.
    Custom,
    /// Built in: unconditional updates are allowed, and there is no generation.
    BuiltIn,
    /// Built in, with a generation that follows `spec`.
    BuiltInWithGeneration,
}

/// A structural schema, as the API layer uses it.
pub(crate) trait ObjectSchema: Send + Sync {
    /// Differs between schemas of different content. Objects record the stamp of the schema that processed them.
    fn stamp(&self) -> u64;
    /// The schema as its definition has it, for OpenAPI documents.
    fn document(&self) -> Option<&Value> {
        None
    }
    /// Removes unknown fields; returns their paths.
    fn prune(&self, object: &mut Value) -> Vec<String>;
    /// Removes nulls where the schema wants a value, then sets defaults.
    fn default(&self, object: &mut Value);
    /// Sets defaults and keeps nulls.
    fn fill(&self, object: &mut Value) {
        self.default(object);
    }
    /// The problems of an object. `old` is the object that it replaces, in the same version.
    fn validate(&self, object: &Value, old: Option<&Value>) -> Vec<FieldError>;
    /// Like `validate`, if only the status is written.
    fn validate_status(&self, object: &Value, old: Option<&Value>) -> Vec<FieldError> {
        self.validate(object, old)
    }
}

/// A write, as strategies see it.
pub(crate) struct Admission<'a> {
    pub user: &'a User,
    pub scope: &'a Scope,
    /// The cluster of the object.
    pub cluster: &'a Name,
    pub resource: &'a Resource,
    /// The subresource: empty, `status` or `finalize`.
    pub subresource: &'a str,
    /// The stored object; `None` for a create.
    pub old: Option<&'a Object>,
}

/// The rules of a kind beyond its schema, in the storage version.
pub(crate) trait Strategy: Send + Sync {
    /// Whether [`Self::prepare`] reads other objects. Its result is then valid for one transaction only.
    fn looks_around(&self) -> bool {
        true
    }

    /// Sets defaults and normalises, before the schema and validation. May read other objects.
    fn prepare(
        &self,
        read: &dyn Read,
        admission: &Admission<'_>,
        object: &mut Object,
    ) -> Result<(), Status>;

    /// The problems of the object's fields, answered with 422.
    fn validate(&self, admission: &Admission<'_>, object: &Object) -> Vec<FieldError>;

    /// Refuses a deletion (403) or takes part in it.
    fn before_delete(
        &self,
        _tx: &mut Tx<'_>,
        _admission: &Admission<'_>,
        _object: &Object,
    ) -> Result<(), Status> {
        Ok(())
    }

    /// The value of a selectable field that is not a field of the stored object.
    fn field<'o>(&self, _object: &'o Object, _field: &str) -> Option<&'o str> {
        None
    }

    /// Answers a create that is never stored (reviews).
    fn answer(&self, _admission: &Admission<'_>, _object: &Object) -> Option<Object> {
        None
    }
}

/// Converts between the storage version of a resource and another version.
pub(crate) trait Conversion: Send + Sync {
    fn to_served(&self, stored: Object) -> Result<Object, Status>;
    fn to_storage(&self, served: Object) -> Result<Object, Status>;
}

impl fmt::Debug for Resource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Resource")
            .field("group", &self.group)
            .field("version", &self.version)
            .field("plural", &self.plural)
            .field("table", &self.table)
            .finish_non_exhaustive()
    }
}
