//! Owner references, and the state of the owners that they name.

use serde_json::Value;

use crate::catalog::{Catalog, Resource};
use crate::store::{FOREGROUND, Key, Tx};
use kube_lang::object::Object;

/// The state of an owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Owner {
    /// It exists, and does not wait for the deletion of its dependents.
    Solid,
    /// It is in deletion, and waits for the deletion of its dependents.
    Waiting,
    /// It is gone, never existed, or is another object of that name.
    Absent,
}

/// The owners of an object, by uid.
#[derive(Debug)]
pub(super) struct Owners(Vec<(String, Owner)>);

pub(super) fn references(object: &Object) -> impl Iterator<Item = &Value> {
    let metadata = object.root().get("metadata");
    let references = metadata.and_then(|metadata| metadata.get("ownerReferences")?.as_array());
    references.into_iter().flatten()
}

fn text<'r>(reference: &'r Value, field: &str) -> &'r str {
    let value = reference.get(field).and_then(Value::as_str);
    value.unwrap_or_default()
}

impl Owners {
    /// The state of each owner. `None` if one is of a kind that is not served or cannot own this object: then no
    /// decision is possible.
    pub(super) fn of(tx: &Tx<'_>, catalog: &Catalog, key: &Key, object: &Object) -> Option<Self> {
        let all = references(object).map(|reference| {
            let uid = text(reference, "uid").to_owned();
            let state = state(tx, catalog, key, reference)?;
            Some((uid, state))
        });
        all.collect::<Option<Vec<_>>>().map(Self)
    }

    pub(super) fn any(&self, state: Owner) -> bool {
        self.0.iter().any(|(_, is)| *is == state)
    }

    /// The uids of the owners that have another state.
    pub(super) fn not(&self, state: Owner) -> impl Iterator<Item = &str> {
        let others = self.0.iter().filter(move |(_, is)| *is != state);
        others.map(|(uid, _)| &**uid)
    }
}

fn state(tx: &Tx<'_>, catalog: &Catalog, key: &Key, reference: &Value) -> Option<Owner> {
    let uid = text(reference, "uid");
    let Some(resource) = kind(catalog, reference) else {
        // The owner may have been removed together with its kind.
        return tx.is_gone(key.cluster(), uid).then_some(Owner::Absent);
    };
    // Owners are in the namespace of their dependents, or cluster-scoped.
    let namespace = match (resource.namespaced, &**key.namespace()) {
        (true, "") => return None,
        (true, namespace) => namespace,
        (false, _) => "",
    };
    let name = text(reference, "name");
    let owner = tx.get(&resource.table.key(key.cluster(), namespace, name));
    let owner = owner.map(|stored| stored.object());
    Some(match owner.filter(|owner| owner.uid() == Some(uid)) {
        None => Owner::Absent,
        Some(owner) if owner.in_deletion() && owner.has_finalizer(FOREGROUND) => Owner::Waiting,
        Some(_) => Owner::Solid,
    })
}

/// The resource of the kind in a reference.
fn kind<'c>(catalog: &'c Catalog, reference: &Value) -> Option<&'c Resource> {
    let api_version = text(reference, "apiVersion");
    let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
    let version = catalog.version(group, version)?;
    let kind = text(reference, "kind");
    let resources = version.resources.iter();
    resources
        .map(|resource| &**resource)
        .find(|resource| *resource.kind == *kind)
}

/// Whether an object blocks the deletion of its owner.
pub(super) fn blocks(object: &Object, owner: &str) -> bool {
    references(object).any(|reference| {
        text(reference, "uid") == owner && reference.get("blockOwnerDeletion") == Some(&true.into())
    })
}

/// Removes owner references from an object.
pub(super) fn drop_references(object: &mut Object, owners: &[&str]) {
    let left: Vec<Value> = references(object)
        .filter(|reference| !owners.contains(&text(reference, "uid")))
        .cloned()
        .collect();
    put(object, left);
}

/// Removes `blockOwnerDeletion` from an object's owner references.
pub(super) fn unblock(object: &mut Object) {
    let mut all: Vec<Value> = references(object).cloned().collect();
    for reference in &mut all {
        if let Some(map) = reference.as_object_mut()
            && map.get("blockOwnerDeletion") == Some(&true.into())
        {
            map.insert("blockOwnerDeletion".into(), false.into());
        }
    }
    put(object, all);
}

fn put(object: &mut Object, references: Vec<Value>) {
    let metadata = object.metadata_mut();
    if references.is_empty() {
        metadata.remove("ownerReferences");
    } else {
        metadata.insert("ownerReferences".into(), references.into());
    }
}
