//! Objects that kcp's own controllers create and change.

use serde_json::Value;

use crate::builtin::namespaces::timestamp;
use crate::status::Status;
use crate::store::{Key, Tx};
use kube_lang::object::{Gvk, Object};

/// A new object with an identity, for a controller to complete and store.
pub(super) fn new(tx: &Tx<'_>, gvk: &Gvk, key: &Key) -> Object {
    let namespace = Some(&**key.namespace()).filter(|namespace| !namespace.is_empty());
    let mut object = Object::empty(gvk, namespace, key.name());
    let uid = uuid::Uuid::new_v4().to_string();
    let now = timestamp(tx);
    let metadata = object.metadata_mut();
    metadata.insert("uid".into(), uid.into());
    metadata.insert("creationTimestamp".into(), now.into());
    object
}

/// Writes an object if it changed. Every write calls all controllers again.
pub(super) fn put_changed(tx: &mut Tx<'_>, key: &Key, object: Object) -> Result<bool, Status> {
    let same = tx.get(key).is_some_and(|stored| *stored.cached() == object);
    if same {
        return Ok(false);
    }
    tx.put(key, object)?;
    Ok(true)
}

/// Like [`put_changed`], for an object that was changed as plain JSON.
pub(super) fn put_value(tx: &mut Tx<'_>, key: &Key, value: Value) -> Result<bool, Status> {
    put_changed(tx, key, Object::new(value).map_err(Status::internal)?)
}

/// Adds a finalizer, if it is missing.
pub(super) fn add_finalizer(object: &mut Object, finalizer: &str) {
    if object.has_finalizer(finalizer) {
        return;
    }
    let mut all: Vec<Value> = object.finalizers().map(Value::from).collect();
    all.push(finalizer.into());
    object
        .metadata_mut()
        .insert("finalizers".into(), all.into());
}

/// Removes a finalizer. Returns whether the object can be removed: it is in deletion and has no finalizers left.
pub(super) fn drop_finalizer(object: &mut Object, finalizer: &str) -> bool {
    let left: Vec<Value> = object
        .finalizers()
        .filter(|name| *name != finalizer)
        .map(Value::from)
        .collect();
    let free = left.is_empty() && object.in_deletion();
    let metadata = object.metadata_mut();
    if left.is_empty() {
        metadata.remove("finalizers");
    } else {
        metadata.insert("finalizers".into(), left.into());
    }
    free
}

/// The string at a path of a document; empty if it is missing.
pub(super) fn text<'v>(value: &'v Value, pointer: &str) -> &'v str {
    value
        .pointer(pointer)
        .and_then(Value::as_str)
        .unwrap_or_default()
}

/// The items of a list at a path into a document.
pub(super) fn items<'v>(value: &'v Value, pointer: &str) -> impl Iterator<Item = &'v Value> {
    value
        .pointer(pointer)
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
}
