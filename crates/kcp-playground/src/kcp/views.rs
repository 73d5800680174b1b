//! An export's virtual workspace: its own APIs and what it claims, in the clusters that are bound to it.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use serde_json::Value;

use super::bound::{self, Compiled};
use super::claims;
use super::exports::{self, ExportName};
use super::{bindings, ids, objects, tree};
use crate::catalog::{Catalog, Resource, Verbs};
use crate::custom;
use crate::status::Status;
use crate::store::{Name, Range, Read};

/// A catalog, and the revisions of what it was made of.
type Made = (Vec<u64>, Arc<Catalog>);

/// Makes the catalogs of virtual workspaces.
pub(super) struct Views {
    builtin: Vec<Arc<Resource>>,
    system: Vec<Arc<Resource>>,
    compiled: Arc<Compiled>,
    /// By export: the revisions of what it was made of.
    catalogs: Mutex<HashMap<ExportName, Made>>,
}

impl Views {
    pub(super) fn new(
        builtin: Vec<Arc<Resource>>,
        system: Vec<Arc<Resource>>,
        compiled: Arc<Compiled>,
    ) -> Self {
        Self {
            builtin,
            system,
            compiled,
            catalogs: Mutex::default(),
        }
    }

    /// What an export's virtual workspace serves, in all clusters alike.
    pub(super) fn catalog(
        &self,
        read: &dyn Read,
        export: &ExportName,
    ) -> Result<Arc<Catalog>, Status> {
        let Some(stored) = read.get(&export.key()) else {
            return Err(Status::not_found("apis.kcp.io", "apiexports", &export.name));
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
                for resource in self.compiled.schema(&stored, identity) {
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

    /// What a claim adds, each object of it only where it is labelled.
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

    /// A resource that some other export exports under an identity.
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
                return self.compiled.schema(&schema, identity);
            }
        }
        Vec::new()
    }
}

fn is_binding(resource: &Resource) -> bool {
    resource.table == *tree::BINDINGS
}

/// The revisions of everything that a catalog is made of; `None` while a transaction changes some of it.
fn fingerprint(
    read: &dyn Read,
    export: &ExportName,
    revision: u64,
    value: &Value,
) -> Option<Vec<u64>> {
    let mut revisions = vec![revision];
    for (_, _, schema) in exports::resources(value) {
        let stored = read.get(&bound::schema_key(&export.cluster, schema));
        // One that is missing counts as revision 1, which no object has.
        revisions.push(stored.map_or(1, |stored| stored.revision));
    }
    let foreign = objects::items(value, "/spec/permissionClaims")
        .any(|claim| !objects::text(claim, "/identityHash").is_empty());
    if foreign {
        let others = read.list(&Range::everywhere(&tree::EXPORTS));
        revisions.extend(others.iter().map(|stored| stored.revision));
        // A schema that an export names may come after the export.
        let schemas = read.list(&Range::everywhere(&tree::SCHEMAS));
        revisions.push(1);
        revisions.extend(schemas.iter().map(|stored| stored.revision));
    }
    revisions.iter().all(|r| *r > 0).then_some(revisions)
}

/// Whether a cluster lets an export do something with a resource: by what it bound, by what it accepts.
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
            "access to {} in cluster {cluster} is not granted to APIExport {:?}",
            table.resource, export.name
        );
        Err(Status::forbidden(
            &resource.group,
            &resource.plural,
            "",
            why,
        ))
    };
    let Some(binding) = binding_of(read, export, cluster) else {
        return refused();
    };
    let binding = binding.cached().as_value();
    let is_bound = bindings::bound(binding).any(|bound| {
        bound["group"] == *table.group
            && bound["resource"] == *table.resource
            && bound["schema"]["identityHash"] == *table.identity
    });
    let reads = Verbs::ReadOnly.allow(verb);
    if is_bound || (reads && is_binding(resource)) {
        return Ok(());
    }
    let stored = read.get(&export.key());
    let exported = stored.as_ref().map(|stored| stored.cached().as_value());
    let claimed = |claims: &Value, pointer: &str, accepted: bool| -> Vec<String> {
        objects::items(claims, pointer)
            .filter(|claim| !accepted || claim["state"] == "Accepted")
            .filter(|claim| {
                let text = |field: &str| objects::text(claim, &format!("/{field}"));
                claims::normalised(text("group"), text("resource"))
                    == (&*table.group, &*table.resource)
                    && text("identityHash") == &*table.identity
            })
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

/// The binding by which a cluster is bound to an export.
fn binding_of(
    read: &dyn Read,
    export: &ExportName,
    cluster: &Name,
) -> Option<Arc<crate::store::Stored>> {
    read.list(&Range::in_cluster(&tree::BINDINGS, cluster))
        .into_iter()
        .find(|stored| {
            let binding = stored.cached().as_value();
            binding["spec"]["reference"]["export"]["name"] == *export.name
                && binding["status"]["apiExportClusterName"] == *export.cluster
        })
}
