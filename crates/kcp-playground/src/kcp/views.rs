//! The virtual workspace of an export: its own APIs and the claimed resources, in the clusters that are bound to it.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use serde_json::Value;

use super::bound::{self, CompiledSchemas};
use super::claims;
use super::exports::{self, ExportName};
use super::{bindings, ids, objects, tree};
use crate::catalog::{Catalog, Resource, Verbs};
use crate::custom;
use crate::status::Status;
use crate::store::{Name, Range, Read, Stored, Table};

/// A catalog, and the revisions of the objects that it was built from.
type CachedCatalog = (Vec<u64>, Arc<Catalog>);

/// Builds the catalogs of virtual workspaces.
pub(super) struct Views {
    builtin: Vec<Arc<Resource>>,
    system: Vec<Arc<Resource>>,
    compiled: Arc<CompiledSchemas>,
    /// By export: the catalog, with the revisions of its inputs.
    catalogs: Mutex<HashMap<ExportName, CachedCatalog>>,
}

impl Views {
    pub(super) fn new(
        builtin: Vec<Arc<Resource>>,
        system: Vec<Arc<Resource>>,
        compiled: Arc<CompiledSchemas>,
    ) -> Self {
        Self {
            builtin,
            system,
            compiled,
            catalogs: Mutex::default(),
        }
    }

    /// The resources of an export's virtual workspace, the same in all clusters.
    pub(super) fn catalog(
        &self,
        read: &dyn Read,
        export: &ExportName,
    ) -> Result<Arc<Catalog>, Status> {
        let Some(stored) = read.get(&export.key()) else {
            return Err(no_export(read, export));
        };
        let value = stored.cached().as_value();
        let made_of = fingerprint(read, export, stored.revision, value);
        if let Some(made_of) = &made_of
            && let Some((then, catalog)) = self.catalogs.lock().get(export)
            && then == made_of
        {
            return Ok(Arc::clone(catalog));
        }
        let catalog = Arc::new(self.build(read, export, value));
        if let Some(made_of) = made_of {
            let entry = (made_of, Arc::clone(&catalog));
            self.catalogs.lock().insert(export.clone(), entry);
        }
        Ok(catalog)
    }

    fn build(&self, read: &dyn Read, export: &ExportName, value: &Value) -> Catalog {
        let mut catalog = Catalog::default();
        let identity = objects::text(value, "/status/identityHash");
        for (_, _, schema) in exports::resources(value) {
            if let Some(stored) = read.get(&bound::schema_key(&export.cluster, schema)) {
                for resource in self.of_schema(&stored, identity) {
                    catalog.add(resource);
                }
            }
        }
        for claim in objects::items(value, "/spec/permissionClaims") {
            for resource in self.claimed(read, export, claim) {
                catalog.add(Arc::new(resource));
            }
        }
        for resource in &self.system {
            if is_binding(resource) {
                let mut own = Resource::clone(resource);
                own.verbs = Verbs::ReadOnly;
                own.has_status = false;
                own.required_label = Some((ids::EXPORT_LABEL.into(), export.hash().into()));
                catalog.add(Arc::new(own));
            }
        }
        catalog.sort(custom::prefer);
        catalog
    }

    /// The resources of a claim. Only objects with the claim's label are visible.
    fn claimed(&self, read: &dyn Read, export: &ExportName, claim: &Value) -> Vec<Resource> {
        let text = |field: &str| objects::text(claim, &format!("/{field}"));
        let (group, resource) = claims::normalised(text("group"), text("resource"));
        let identity = text("identityHash");
        let candidates: Vec<Arc<Resource>> = if identity.is_empty() {
            let ours = self.builtin.iter().chain(&self.system);
            ours.filter(|one| {
                let table = &one.table;
                (&*table.group, &*table.resource) == (group, resource)
            })
            .cloned()
            .collect()
        } else {
            self.of_identity(read, (group, resource), identity)
        };
        let label: Name = ids::claim_label_key(&export.cluster, &export.name).into();
        let value: Name = ids::claim_label_value(group, resource, identity).into();
        candidates
            .into_iter()
            .map(|one| {
                let mut claimed = Resource::clone(&one);
                if claimed.verbs != Verbs::CreateOnly {
                    claimed.required_label = Some((label.clone(), value.clone()));
                }
                claimed
            })
            .collect()
    }

    /// A resource that another export exports with an identity.
    fn of_identity(
        &self,
        read: &dyn Read,
        wanted: (&str, &str),
        identity: &str,
    ) -> Vec<Arc<Resource>> {
        for stored in read.list(&Range::everywhere(&tree::EXPORTS)) {
            let value = stored.cached().as_value();
            if objects::text(value, "/status/identityHash") != identity {
                continue;
            }
            let found =
                exports::resources(value).find(|(group, name, _)| (*group, *name) == wanted);
            let schema = found.and_then(|(_, _, schema)| {
                read.get(&bound::schema_key(stored.key.cluster(), schema))
            });
            if let Some(schema) = schema {
                return self.of_schema(&schema, identity);
            }
        }
        Vec::new()
    }

    /// The resource of a schema. Watches end when the schema changes.
    fn of_schema(&self, schema: &Stored, identity: &str) -> Vec<Arc<Resource>> {
        let incarnation = custom::hash(schema.cached().uid());
        let resources = self.compiled.schema(schema, identity).into_iter();
        let resources = resources.map(|resource| Resource {
            incarnation,
            ..Resource::clone(&resource)
        });
        resources.map(Arc::new).collect()
    }
}

/// The error for a view of a missing export: of an existing cluster, or, for a path, of the server.
fn no_export(read: &dyn Read, export: &ExportName) -> Status {
    let name = &export.name;
    if export.cluster.contains(':') || tree::exists(read, &export.cluster) {
        return Status::failed(format!("apiexport.apis.kcp.io {name:?} not found"));
    }
    let why = format!("there is no logical cluster {:?}", export.cluster);
    Status::forbidden("apis.kcp.io", "apiexports", name, why)
}

fn is_binding(resource: &Resource) -> bool {
    resource.table == *tree::BINDINGS
}

/// The revisions of all inputs of a catalog; `None` while a transaction changes one of them.
fn fingerprint(
    read: &dyn Read,
    export: &ExportName,
    revision: u64,
    value: &Value,
) -> Option<Vec<u64>> {
    let mut revisions = vec![revision];
    for (_, _, schema) in exports::resources(value) {
        let stored = read.get(&bound::schema_key(&export.cluster, schema));
        // A missing object counts as revision 1, which no object has.
        revisions.push(stored.map_or(1, |stored| stored.revision));
    }
    let foreign = objects::items(value, "/spec/permissionClaims")
        .any(|claim| !objects::text(claim, "/identityHash").is_empty());
    if foreign {
        let others = read.list(&Range::everywhere(&tree::EXPORTS));
        revisions.extend(others.iter().map(|stored| stored.revision));
        // A schema may be created after the export that names it.
        let schemas = read.list(&Range::everywhere(&tree::SCHEMAS));
        revisions.push(1);
        revisions.extend(schemas.iter().map(|stored| stored.revision));
    }
    revisions.iter().all(|r| *r > 0).then_some(revisions)
}

/// Whether a cluster allows an export to access a resource: as a bound resource, or by an accepted claim.
pub(super) fn authorize(
    read: &dyn Read,
    export: &ExportName,
    cluster: &Name,
    resource: &Resource,
    verb: &str,
) -> Result<(), Status> {
    let table = &resource.table;
    let refused = || {
        let why = format!(
            "access in cluster {cluster} is not granted to APIExport {:?}",
            export.name
        );
        let (group, plural) = (&resource.group, &resource.plural);
        Err(Status::forbidden(group, plural, "", why))
    };
    let Some(binding) = binding_of(read, export, cluster) else {
        return refused();
    };
    let binding = binding.cached().as_value();
    let is_bound = bindings::bound(binding).any(|bound| bindings::is_of(bound, table));
    let reads = Verbs::ReadOnly.allow(verb);
    if is_bound || (reads && is_binding(resource)) {
        return Ok(());
    }
    let stored = read.get(&export.key());
    let exported = stored.as_ref().map(|stored| stored.cached().as_value());
    let claimed = |claims: &Value, pointer: &str, accepted: bool| -> Vec<String> {
        objects::items(claims, pointer)
            .filter(|claim| !accepted || claim["state"] == "Accepted")
            .filter(|claim| claims_it(claim, table))
            .flat_map(|claim| objects::items(claim, "/verbs").filter_map(Value::as_str))
            .map(str::to_owned)
            .collect()
    };
    let accepts = claimed(binding, "/spec/permissionClaims", true);
    let asks = exported.map_or(Vec::new(), |e| claimed(e, "/spec/permissionClaims", false));
    let both = accepts
        .iter()
        .filter(|verb| asks.contains(verb))
        .any(|allowed| allowed == verb || allowed == "*");
    if both { Ok(()) } else { refused() }
}

/// Whether a claim is for a resource.
fn claims_it(claim: &Value, table: &Table) -> bool {
    let text = |field: &str| objects::text(claim, &format!("/{field}"));
    let names = claims::normalised(text("group"), text("resource"));
    names == (&*table.group, &*table.resource) && text("identityHash") == &*table.identity
}

/// The labels that an object must have, so that the claim that allows its write covers it.
pub(super) fn labels(
    read: &dyn Read,
    export: &ExportName,
    cluster: &Name,
    table: &Table,
) -> Vec<(String, String)> {
    let Some(binding) = binding_of(read, export, cluster) else {
        return Vec::new();
    };
    let claims = objects::items(binding.cached().as_value(), "/spec/permissionClaims");
    claims
        .filter(|claim| claim["state"] == "Accepted" && claims_it(claim, table))
        .filter_map(|claim| claim["selector"]["matchLabels"].as_object())
        .flatten()
        .map(|(key, value)| (key.clone(), value.as_str().unwrap_or_default().to_owned()))
        .collect()
}

/// The binding of a cluster to an export.
fn binding_of(read: &dyn Read, export: &ExportName, cluster: &Name) -> Option<Arc<Stored>> {
    read.list(&Range::in_cluster(&tree::BINDINGS, cluster))
        .into_iter()
        .find(|stored| {
            let binding = stored.cached().as_value();
            binding["spec"]["reference"]["export"]["name"] == *export.name
                && binding["status"]["apiExportClusterName"] == *export.cluster
        })
}
