//! Namespaces: their defaults, their protection from deletion, and the deletion of their content.
//!
//! A deletion marks the namespace and its content, and removes objects without finalizers. The settler continues
//! whenever one of the remaining objects is removed. Both happen within one transaction, so a namespace without
//! finalizers in it is gone when its deletion is answered.

use std::collections::BTreeSet;
use std::sync::LazyLock;

use serde_json::{Value, json};

use super::events::times;
use crate::catalog::{Admission, Resource, Strategy};
use crate::status::Status;
use crate::store::{Key, Range, Read, Settler, Table, Tx};
use kube_lang::object::{Gvk, Object};
use kube_schema::field::FieldError;
use kube_schema::names::{self, NO_DOMAIN, has_domain};

/// The label with the namespace's name, for selectors.
const NAME_LABEL: &str = "kubernetes.io/metadata.name";
const FINALIZER: &str = "kubernetes";
const PROTECTED: [&str; 3] = ["default", "kube-system", "kube-public"];

static TABLE: LazyLock<Table> = LazyLock::new(|| Table::new("", "namespaces", ""));

/// The rules of the kind.
pub(super) struct Namespaces;

/// Empties namespaces in deletion, then removes them.
pub(crate) struct Lifecycle;

/// The table of namespaces.
pub(crate) fn key(cluster: &str, name: &str) -> Key {
    TABLE.key(cluster, "", name)
}

/// Creates a namespace unless it exists. For namespaces that no request creates.
pub(crate) fn ensure(tx: &mut Tx<'_>, cluster: &str, name: &str) -> Result<(), Status> {
    let key = key(cluster, name);
    if tx.get(&key).is_some() {
        return Ok(());
    }
    let mut namespace = Object::empty(&Gvk::new("", "v1", "Namespace"), None, name);
    let uid = uuid::Uuid::new_v4().to_string();
    let now = timestamp(tx);
    let metadata = namespace.metadata_mut();
    metadata.insert("uid".into(), uid.into());
    metadata.insert("creationTimestamp".into(), now.into());
    complete(&mut namespace);
    tx.put(&key, namespace)
}

/// Refuses to create an object in a namespace that is missing or in deletion. Called for every create of an object with
/// a namespace.
pub(crate) fn check_open(
    read: &dyn Read,
    cluster: &str,
    namespace: &str,
    resource: &Resource,
    name: &str,
) -> Result<(), Status> {
    let Some(stored) = read.get(&key(cluster, namespace)) else {
        return Err(Status::not_found("", "namespaces", namespace));
    };
    if stored.cached().in_deletion() {
        let why = format!(
            "unable to create new content in namespace {namespace} because it is being terminated"
        );
        return Err(
            Status::forbidden(&resource.group, &resource.plural, name, why).cause(
                "NamespaceTerminating",
                format!("namespace {namespace} is being terminated"),
                "metadata.namespace",
            ),
        );
    }
    Ok(())
}

/// Writes times of conditions as the server shows them.
fn settle_times(namespace: &mut Object) -> Result<(), Status> {
    let status = namespace.root_mut().get_mut("status");
    let conditions = status.and_then(|status| status.get_mut("conditions"));
    for condition in conditions
        .and_then(Value::as_array_mut)
        .into_iter()
        .flatten()
    {
        let Some(time) = condition.get_mut("lastTransitionTime") else {
            continue;
        };
        if let Some(text) = time.as_str() {
            *time = times::seconds(text).ok_or_else(|| {
                Status::bad_request(format!(
                    "Namespace in version \"v1\" cannot be handled as a Namespace: parsing time {text:?}: no time of RFC 3339"
                ))
            })?;
        }
    }
    Ok(())
}

impl Strategy for Namespaces {
    fn prepare(
        &self,
        _read: &dyn Read,
        admission: &Admission<'_>,
        object: &mut Object,
    ) -> Result<(), Status> {
        match (admission.old, admission.subresource) {
            (None, _) => {
                complete(object);
            }
            (Some(old), "finalize") => {
                let spec = object.root().get("spec").cloned();
                let mut kept = old.clone();
                if let Some(spec) = spec {
                    kept.root_mut().insert("spec".into(), spec);
                }
                *object = kept;
            }
            (Some(old), "status") => {
                keep(object, old, "spec");
                settle_times(object)?;
            }
            (Some(old), _) => {
                keep(object, old, "spec");
                keep(object, old, "status");
                let name = object.name().to_owned();
                object.set_label(NAME_LABEL, &name);
            }
        }
        Ok(())
    }

    fn validate(&self, admission: &Admission<'_>, object: &Object) -> Vec<FieldError> {
        match (admission.old, admission.subresource) {
            (None, _) => check_finalizers(object, |_| "spec.finalizers".to_owned()),
            (_, "finalize") => check_finalizers(object, |at| format!("spec.finalizers[{at}]")),
            (_, "status") => check_phase(object).into_iter().collect(),
            _ => Vec::new(),
        }
    }

    fn before_delete(
        &self,
        tx: &mut Tx<'_>,
        admission: &Admission<'_>,
        object: &Object,
    ) -> Result<(), Status> {
        let name = object.name();
        if PROTECTED.contains(&name) {
            let why = "this namespace may not be deleted";
            return Err(Status::forbidden("", "namespaces", name, why));
        }
        if object.in_deletion() {
            return Ok(());
        }
        let mut going = object.clone();
        mark(tx, &mut going);
        // The time that a deletion takes depends on the content, so there is no grace period.
        going.metadata_mut().remove("deletionGracePeriodSeconds");
        tx.put(&key(admission.cluster, name), going)
    }
}

fn check_finalizers(namespace: &Object, field: impl Fn(usize) -> String) -> Vec<FieldError> {
    let finalizers = namespace.as_value().pointer("/spec/finalizers");
    let names = finalizers.and_then(Value::as_array).into_iter().flatten();
    let names = names.filter_map(Value::as_str);
    names
        .enumerate()
        .flat_map(|(at, name)| {
            let field = field(at);
            let mut wrong = names::qualified_name(name);
            if !has_domain(name) {
                wrong.push(NO_DOMAIN.to_owned());
            }
            wrong
                .into_iter()
                .map(move |why| FieldError::invalid(&field, name, &why))
        })
        .collect()
}

/// The phase depends only on whether the namespace is in deletion.
fn check_phase(namespace: &Object) -> Option<FieldError> {
    let (only, when) = if namespace.in_deletion() {
        ("Terminating", "not empty")
    } else {
        ("Active", "empty")
    };
    let phase = namespace.as_value().pointer("/status/phase");
    let phase = phase.and_then(Value::as_str).unwrap_or_default();
    (phase != only).then(|| {
        let why = format!("may only be '{only}' if `deletionTimestamp` is {when}");
        FieldError::invalid("status.Phase", phase, &why)
    })
}

impl Settler for Lifecycle {
    fn settle(&self, tx: &mut Tx<'_>, changed: &[Key]) -> Result<(), Status> {
        let mut touched: BTreeSet<Key> = BTreeSet::new();
        for changed in changed {
            if changed.table == *TABLE {
                touched.insert(changed.clone());
                if tx.get(changed).is_none() {
                    // The namespace is gone, so its content must not wait for another one of this name.
                    empty(tx, changed)?;
                }
            } else if !changed.namespace().is_empty() {
                touched.insert(key(changed.cluster(), changed.namespace()));
            }
        }
        for key in touched {
            let going = tx.get(&key).filter(|stored| stored.cached().in_deletion());
            if let Some(stored) = going {
                progress(tx, &key, stored.object())?;
            }
        }
        Ok(())
    }
}

/// Continues the deletion of a namespace.
fn progress(tx: &mut Tx<'_>, key: &Key, mut namespace: Object) -> Result<(), Status> {
    let left = empty(tx, key)?;
    if left.objects == 0 {
        if let Some(Value::Array(finalizers)) = namespace
            .root_mut()
            .get_mut("spec")
            .and_then(|spec| spec.get_mut("finalizers"))
        {
            finalizers.retain(|finalizer| finalizer != FINALIZER);
        }
        if spec_finalizers(&namespace) == 0 && namespace.finalizers().next().is_none() {
            tx.remove(key);
            return Ok(());
        }
    }
    let conditions = left.conditions(&namespace, &timestamp(tx));
    namespace.root_mut().insert(
        "status".into(),
        json!({"phase": "Terminating", "conditions": conditions}),
    );
    // A write calls the settlers again, so an unchanged namespace is not written.
    if tx
        .get(key)
        .is_none_or(|stored| *stored.cached() != namespace)
    {
        tx.put(key, namespace)?;
    }
    Ok(())
}

/// The remaining content of a namespace.
#[derive(Default)]
struct Remaining {
    objects: usize,
    /// `resource.group has n resource instances`
    content: Vec<String>,
    finalizers: BTreeSet<String>,
}

/// Removes all objects of a namespace that have no finalizers, and marks the others as in deletion.
fn empty(tx: &mut Tx<'_>, namespace: &Key) -> Result<Remaining, Status> {
    let mut left = Remaining::default();
    for table in Read::tables(tx) {
        let mut range = Range::in_cluster(&table, namespace.cluster());
        range.namespace = Some(namespace.name().clone());
        let mut held = 0;
        for stored in tx.list(&range) {
            let mut object = stored.object();
            if object.finalizers().next().is_none() {
                tx.remove(&stored.key);
                continue;
            }
            held += 1;
            left.finalizers
                .extend(object.finalizers().map(str::to_owned));
            if !object.in_deletion() {
                mark(tx, &mut object);
                tx.put(&stored.key, object)?;
            }
        }
        if held > 0 {
            let name = crate::status::qualified(&table.group, &table.resource);
            // The core group leaves a dot at the end, as in the server's message.
            let dot = if table.group.is_empty() { "." } else { "" };
            left.content
                .push(format!("{name}{dot} has {held} resource instances"));
        }
        left.objects += held;
    }
    Ok(left)
}

impl Remaining {
    fn conditions(&self, namespace: &Object, now: &str) -> Value {
        let finalizers: Vec<&str> = self.finalizers.iter().map(String::as_str).collect();
        let rows = [
            (
                "NamespaceContentRemaining",
                "SomeResourcesRemain",
                "ContentRemoved",
                format!("Some resources are remaining: {}", self.content.join(", ")),
                "All content successfully removed",
            ),
            (
                "NamespaceFinalizersRemaining",
                "SomeFinalizersRemain",
                "ContentHasNoFinalizers",
                format!(
                    "Some content in the namespace has finalizers remaining: {}",
                    finalizers.join(", ")
                ),
                "All content-preserving finalizers finished",
            ),
        ];
        let conditions = rows.map(|(kind, remains, done, message, finished)| {
            let (status, reason, message) = if self.objects > 0 {
                ("True", remains, message)
            } else {
                ("False", done, finished.to_owned())
            };
            let since = since(namespace, kind, status).unwrap_or(now);
            json!({
                "type": kind, "status": status, "reason": reason, "message": message,
                "lastTransitionTime": since,
            })
        });
        Value::Array(conditions.into())
    }
}

/// The time of a condition's last transition.
fn since<'o>(namespace: &'o Object, kind: &str, status: &str) -> Option<&'o str> {
    let conditions = namespace.as_value().pointer("/status/conditions")?;
    conditions
        .as_array()?
        .iter()
        .find(|c| c["type"] == kind && c["status"] == status)?
        .get("lastTransitionTime")?
        .as_str()
}

/// Marks an object as in deletion.
pub(crate) fn mark(tx: &Tx<'_>, object: &mut Object) {
    let now = timestamp(tx);
    let metadata = object.metadata_mut();
    metadata.insert("deletionTimestamp".into(), now.into());
    metadata.insert("deletionGracePeriodSeconds".into(), 0.into());
    if let Some(generation) = metadata.get("generation").and_then(Value::as_i64) {
        metadata.insert("generation".into(), generation.saturating_add(1).into());
    }
}

/// The time of a write, in the format of metadata.
pub(crate) fn timestamp(tx: &Tx<'_>) -> String {
    in_metadata(tx.now())
}

/// A time in the format of metadata.
pub(crate) fn in_metadata(now: jiff::Timestamp) -> String {
    // This runs twice for each write, and printing whole seconds is several times as fast as formatting.
    let whole = jiff::Timestamp::from_second(now.as_second()).unwrap_or(now);
    whole.to_string()
}

fn complete(namespace: &mut Object) {
    let name = namespace.name().to_owned();
    namespace.set_label(NAME_LABEL, &name);
    let given = namespace.as_value().pointer("/spec/finalizers");
    let mut finalizers = given.and_then(Value::as_array).cloned().unwrap_or_default();
    if !finalizers.iter().any(|one| one == FINALIZER) {
        finalizers.push(FINALIZER.into());
    }
    let root = namespace.root_mut();
    root.insert("spec".into(), json!({"finalizers": finalizers}));
    root.insert("status".into(), json!({"phase": "Active"}));
}

fn keep(object: &mut Object, old: &Object, field: &str) {
    match old.root().get(field) {
        Some(value) => object.root_mut().insert(field.to_owned(), value.clone()),
        None => object.root_mut().remove(field),
    };
}

fn spec_finalizers(namespace: &Object) -> usize {
    namespace
        .as_value()
        .pointer("/spec/finalizers")
        .and_then(Value::as_array)
        .map_or(0, Vec::len)
}
