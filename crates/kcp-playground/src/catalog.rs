//! What a request's scope serves: resources, their versions, their rules.
//!
//! Types only. Who makes catalogs (built-in kinds and CRDs here, bindings and virtual workspaces in
//! the kcp layer) and who serves by them (the API layer) meet in these.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use serde_json::Value;

use super::fields;
use super::status::Status;
use super::store::{Name, Read, Table, Tx};
use super::table::Printer;
use kube_lang::object::Object;
use kube_schema::field::FieldError;
use kube_schema::names::NameRule;

/// Whose view of the API a request sees.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Scope {
    /// One logical cluster, by its id.
    Cluster(Name),
    /// An export's virtual workspace, narrowed to one consumer.
    ExportCluster {
        owner: Name,
        export: Name,
        cluster: Name,
    },
    /// An export's virtual workspace, across all consumers.
    ExportWildcard { owner: Name, export: Name },
    /// The virtual workspace of an initializer or a terminator: clusters that wait for it, or one of them.
    Waiting {
        stage: Stage,
        /// `<id of the type's cluster>:<type>`
        name: Name,
        cluster: Option<Name>,
    },
}

/// When clusters wait for others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Stage {
    Initializing,
    Terminating,
}

impl Scope {
    /// Whether it is the view of an export.
    pub fn is_view(&self) -> bool {
        matches!(
            self,
            Self::ExportCluster { .. } | Self::ExportWildcard { .. }
        )
    }

    /// The one cluster that the scope is about; `None` for a wildcard.
    pub fn cluster(&self) -> Option<&Name> {
        match self {
            Self::Cluster(cluster) | Self::ExportCluster { cluster, .. } => Some(cluster),
            Self::Waiting { cluster, .. } => cluster.as_ref(),
            Self::ExportWildcard { .. } => None,
        }
    }
}

/// Who asks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct User {
    pub name: String,
    pub uid: String,
    pub groups: Vec<String>,
}

/// How requests find their catalog, and whether they may.
pub(crate) trait Scopes: Send + Sync {
    /// What the scope serves. Refused where there is no such cluster or export.
    fn catalog(&self, read: &dyn Read, scope: &Scope) -> Result<Arc<Catalog>, Status>;

    /// Whether the scope lets this request through at all (a virtual workspace asks the consumer's
    /// binding). Discovery is not asked about.
    fn authorize(
        &self,
        read: &dyn Read,
        scope: &Scope,
        resource: &Resource,
        verb: &str,
    ) -> Result<(), Status>;

    /// Whether an object may be written in a scope, and the labels that it then gets where it has none.
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

/// Everything that a scope serves, in the order of discovery.
#[derive(Clone, Debug, Default)]
pub(crate) struct Catalog {
    /// By group, then version; the preferred version of a group comes first in its list.
    groups: BTreeMap<Name, Vec<Version>>,
}

/// One version of a group.
#[derive(Clone, Debug)]
pub(crate) struct Version {
    pub name: Name,
    pub resources: Vec<Arc<Resource>>,
}

impl Catalog {
    /// Adds a resource. A resource of the same group, version and name that is there already wins,
    /// so the more important ones are added first.
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

    /// Orders each group's versions as Kubernetes prefers them, resources by name. To be called once
    /// all are added.
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

/// A resource in one served version, and everything that serving it takes.
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
    /// Where the objects are kept. Several resources may share a table: versions, views.
    pub table: Table,
    pub storage_version: Name,
    /// Whether `/status` is served; the main endpoint then leaves `status` alone.
    pub has_status: bool,
    pub verbs: Verbs,
    pub flavour: Flavour,
    pub name_rule: NameRule,
    /// For custom resources: of this version. Built-in kinds have their strategy instead.
    pub schema: Option<Arc<dyn ObjectSchema>>,
    /// Of the storage version, where that is another one: what it does not know is not kept, and its
    /// defaults are the ones that are read.
    pub storage_schema: Option<Arc<dyn ObjectSchema>>,
    /// What of an object is one piece and what has owners of its own, in this version.
    pub fields: fields::Type,
    /// Defaults, validation and admission beyond the schema.
    pub strategy: Option<Arc<dyn Strategy>>,
    /// How an object is turned from its storage version into this one and back, where more than
    /// `apiVersion` differs.
    pub conversion: Option<Arc<dyn Conversion>>,
    /// Only objects with this label are there.
    pub required_label: Option<(Name, Name)>,
    /// Only objects that this accepts are there.
    pub only: Option<Arc<Accept>>,
    /// Field selectors beyond `metadata.name` and `metadata.namespace`: dotted paths.
    pub selectable_fields: Vec<Name>,
    /// Shows objects as rows of tables; `None` where there are no objects to show.
    pub printer: Option<Arc<dyn Printer>>,
    /// Changes when watches of this resource have to end: another scope, kind or identity.
    pub incarnation: u64,
}

/// Picks objects.
pub(crate) type Accept = dyn Fn(&Object) -> bool + Send + Sync;

/// Which verbs are served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verbs {
    All,
    ReadOnly,
    /// Read, and its `/status` written.
    StatusOnly,
    /// Answered, never stored: reviews.
    CreateOnly,
}

impl Verbs {
    /// As discovery lists them.
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

    /// The same for `/status`.
    pub(crate) fn allow_status(self, verb: &str) -> bool {
        matches!(verb, "get" | "update" | "patch") && (self == Self::StatusOnly || self.allow(verb))
    }
}

/// Rules that custom resources and built-in kinds do not share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Flavour {
    /// From a CRD or a schema of an export: has a generation, updates must name a resourceVersion.
    Custom,
    /// Compiled into the server: unconditional updates are allowed, no generation.
    BuiltIn,
    /// Compiled in, with a generation that follows `spec`.
    BuiltInWithGeneration,
}

/// A structural schema, as the API layer uses it.
pub(crate) trait ObjectSchema: Send + Sync {
    /// Differs between schemas of different content; objects remember which one they went through.
    fn stamp(&self) -> u64;
    /// The schema as its definition has it, for documents that describe the API.
    fn document(&self) -> Option<&Value> {
        None
    }
    /// Removes what the schema does not know; the removed paths.
    fn prune(&self, object: &mut Value) -> Vec<String>;
    /// Drops nulls that mean nothing, then puts in defaults.
    fn default(&self, object: &mut Value);
    /// Puts in defaults and leaves nulls as they are.
    fn fill(&self, object: &mut Value) {
        self.default(object);
    }
    /// What is wrong with an object. `old` is what it replaces, in the same version.
    fn validate(&self, object: &Value, old: Option<&Value>) -> Vec<FieldError>;
    /// The same where only the status is written.
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
    /// Empty, `status`, `finalize`.
    pub subresource: &'a str,
    /// What is there now; `None` at a create.
    pub old: Option<&'a Object>,
}

/// What a kind does with a write beyond its schema, in the storage version.
pub(crate) trait Strategy: Send + Sync {
    /// Whether [`Self::prepare`] looks at other objects: what came of it holds for one transaction only.
    fn looks_around(&self) -> bool {
        true
    }

    /// Defaults and normalises, before the schema and validation. May read other objects.
    fn prepare(
        &self,
        read: &dyn Read,
        admission: &Admission<'_>,
        object: &mut Object,
    ) -> Result<(), Status>;

    /// What is wrong with the object's fields: answered 422.
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

    /// What a field selector sees of a stored object where that is no field of it.
    fn field<'o>(&self, _object: &'o Object, _field: &str) -> Option<&'o str> {
        None
    }

    /// Answers a create that is never stored (reviews).
    fn answer(&self, _admission: &Admission<'_>, _object: &Object) -> Option<Object> {
        None
    }
}

/// Between the storage version of a resource and another one.
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
