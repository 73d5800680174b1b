//! The APIs that a cluster serves by its bindings, compiled once for each schema.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use serde_json::Value;

use super::{bindings, objects, tree};
use crate::catalog::Resource;
use crate::custom::{self, Origin};
use crate::store::{Key, Name, Range, Read, Stored};
use kube_schema::crd::Definition;

/// The uid of a schema, and the identity under which it is served.
type SchemaId = (Name, Name);
type ServedResources = Vec<Arc<Resource>>;

/// Compiled schemas of exports, by uid and identity. A schema never changes; after its deletion it is still served
/// where it is bound.
#[derive(Debug, Default)]
pub(super) struct CompiledSchemas {
    cache: Mutex<HashMap<SchemaId, ServedResources>>,
}

impl CompiledSchemas {
    /// The resource of a schema under an identity.
    pub(super) fn schema(&self, stored: &Stored, identity: &str) -> Vec<Arc<Resource>> {
        let schema = stored.cached();
        let uid = schema.uid().unwrap_or_default();
        let known = (Name::from(uid), Name::from(identity));
        if let Some(resources) = self.cache.lock().get(&known) {
            return resources.clone();
        }
        let resources = compile(schema.as_value(), identity);
        // An uncommitted schema may still change, so it is not cached.
        if stored.revision > 0 {
            self.cache.lock().insert(known, resources.clone());
        }
        resources
    }

    /// The resources that the bindings of a cluster have bound.
    pub(super) fn of_cluster(&self, read: &dyn Read, cluster: &str) -> Vec<Arc<Resource>> {
        let mut resources = Vec::new();
        for binding in read.list(&Range::in_cluster(&tree::BINDINGS, cluster)) {
            let binding = binding.cached().as_value();
            let owner = objects::text(binding, "/status/apiExportClusterName");
            for bound in bindings::bound(binding) {
                resources.extend(self.bound(read, owner, bound));
            }
        }
        resources
    }

    fn bound(&self, read: &dyn Read, owner: &str, bound: &Value) -> Vec<Arc<Resource>> {
        let schema = |field: &str| objects::text(bound, &format!("/schema/{field}"));
        let (uid, identity) = (schema("UID"), schema("identityHash"));
        if let Some(known) = self.cache.lock().get(&(uid.into(), identity.into())) {
            return known.clone();
        }
        let key = schema_key(owner, schema("name"));
        match read.get(&key) {
            Some(stored) if stored.cached().uid() == Some(uid) => self.schema(&stored, identity),
            _ => Vec::new(),
        }
    }
}

pub(super) fn schema_key(owner: &str, name: &str) -> Key {
    tree::SCHEMAS.key(owner, "", name)
}

fn compile(schema: &Value, identity: &str) -> Vec<Arc<Resource>> {
    // Stored schemas were validated; a schema that still fails serves nothing.
    let Ok(definition) = Definition::from_resource_schema(schema) else {
        return Vec::new();
    };
    // Without the uid, so that a watch continues when a schema only gets more fields.
    let origin = Origin { identity, uid: "" };
    custom::serve(definition, &origin)
        .into_iter()
        .map(Arc::new)
        .collect()
}
