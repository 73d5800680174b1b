//! The life cycle of definitions: names are accepted or not, versions are established, and the objects are deleted
//! before the definition.

use std::collections::BTreeSet;
use std::sync::LazyLock;

use serde_json::{Map, Value, json};

use crate::builtin::namespaces::{mark, timestamp};
use crate::status::Status;
use crate::store::{Key, Name, Range, Settler, Table, Tx};
use kube_lang::object::Object;
use kube_schema::crd::Names;

pub(crate) const GROUP: &str = "apiextensions.k8s.io";
pub(crate) const PLURAL: &str = "customresourcedefinitions";

pub(super) static TABLE: LazyLock<Table> = LazyLock::new(|| Table::new(GROUP, PLURAL, ""));

/// Keeps a definition until its objects are gone.
pub(super) const FINALIZER: &str = "customresourcecleanup.apiextensions.k8s.io";

/// Reconciles definitions with each other and with their objects.
pub(super) struct Establish;

impl Settler for Establish {
    fn settle(&self, tx: &mut Tx<'_>, changed: &[Key]) -> Result<(), Status> {
        let mut groups: BTreeSet<(&Name, &str)> = BTreeSet::new();
        let mut going: BTreeSet<Key> = BTreeSet::new();
        for key in changed {
            if key.is(GROUP, PLURAL) {
                // A definition is named `plural.group`.
                let group = key.name().split_once('.').map_or("", |(_, group)| group);
                groups.insert((key.cluster(), group));
                going.insert(key.clone());
            } else if key.table.identity.is_empty()
                && !key.table.group.is_empty()
                && tx.get(key).is_none()
            {
                let name = format!("{}.{}", key.table.resource, key.table.group);
                going.insert(TABLE.key(key.cluster(), "", &name));
            }
        }
        for (cluster, group) in groups {
            accept(tx, cluster, group)?;
        }
        for key in going {
            clean_up(tx, &key)?;
        }
        Ok(())
    }
}

pub(super) fn is_established(crd: &Object) -> bool {
    condition(crd, "Established").is_some_and(|found| found["status"] == "True")
}

/// The versions of a definition, and whether objects are stored in them.
pub(super) fn versions(crd: &Object) -> impl Iterator<Item = (&str, bool)> {
    crd.as_value()
        .pointer("/spec/versions")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .filter_map(|version| {
            let storage = version.get("storage") == Some(&Value::Bool(true));
            Some((version.get("name")?.as_str()?, storage))
        })
}

/// The versions that objects may be stored in, by the status.
pub(super) fn stored_versions(crd: &Object) -> impl Iterator<Item = &str> {
    crd.as_value()
        .pointer("/status/storedVersions")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
}

/// Replaces the requested names of a definition by its accepted names.
pub(super) fn accept_names(crd: &Object, names: &mut Names) {
    let Some(accepted) = crd.as_value().pointer("/status/acceptedNames") else {
        return;
    };
    for (field, name) in [
        ("plural", &mut names.plural),
        ("singular", &mut names.singular),
        ("kind", &mut names.kind),
        ("listKind", &mut names.list_kind),
    ] {
        if let Some(text) = accepted.get(field).and_then(Value::as_str) {
            text.clone_into(name);
        }
    }
    names.short_names = texts(accepted, "shortNames").map(str::to_owned).collect();
}

/// Decides about the names of all definitions of a group. Definitions with accepted names come first, because an
/// accepted name is not given to another definition.
fn accept(tx: &mut Tx<'_>, cluster: &Name, group: &str) -> Result<(), Status> {
    let mut crds: Vec<(Key, Object)> = tx
        .list(&Range::in_cluster(&TABLE, cluster))
        .into_iter()
        .filter(|stored| stored.cached().as_value().pointer("/spec/group") == Some(&group.into()))
        .map(|stored| (stored.key.clone(), stored.object()))
        .collect();
    crds.sort_by_key(|(_, crd)| !is_established(crd));
    for index in 0..crds.len() {
        let mut taken = Taken::default();
        for (other, (_, crd)) in crds.iter().enumerate() {
            if other != index {
                taken.add(crd);
            }
        }
        let (key, crd) = &mut crds[index];
        let before = crd.clone();
        establish(crd, &taken, &timestamp(tx));
        if *crd != before {
            tx.put(key, crd.clone())?;
        }
    }
    Ok(())
}

/// The accepted names of other definitions of the group.
#[derive(Default)]
struct Taken {
    resources: BTreeSet<String>,
    kinds: BTreeSet<String>,
}

impl Taken {
    fn add(&mut self, crd: &Object) {
        let Some(names) = crd.as_value().pointer("/status/acceptedNames") else {
            return;
        };
        let text = |field: &str| names.get(field).and_then(Value::as_str).map(str::to_owned);
        self.resources.extend(text("plural"));
        self.resources.extend(text("singular"));
        self.resources
            .extend(texts(names, "shortNames").map(str::to_owned));
        self.kinds.extend(text("kind"));
        self.kinds.extend(text("listKind"));
        // The server sends empty names if none were accepted yet.
        self.resources.remove("");
        self.kinds.remove("");
    }
}

/// The reason and the message of a name that was not accepted.
type NameConflict = (&'static str, String);

/// Updates the status of a definition.
fn establish(crd: &mut Object, taken: &Taken, now: &str) {
    let (accepted, conflict) = choose_names(crd, taken);
    set(crd, "acceptedNames", Value::Object(accepted));
    let mut stored: Vec<Value> = stored_versions(crd).map(Value::from).collect();
    let storage = versions(crd).find(|(_, storage)| *storage);
    if let Some((name, _)) = storage
        && !stored.contains(&Value::from(name))
    {
        stored.push(name.into());
    }
    set(crd, "storedVersions", stored.into());
    let given = conflict.is_none();
    let (reason, message) =
        conflict.unwrap_or_else(|| ("NoConflicts", "no conflicts found".to_owned()));
    set_condition(crd, now, ("NamesAccepted", given), reason, &message);
    if given && !is_established(crd) {
        set_condition(
            crd,
            now,
            ("Established", true),
            "InitialNamesAccepted",
            "the initial names have been accepted",
        );
    } else if !given && !is_established(crd) {
        set_condition(
            crd,
            now,
            ("Established", false),
            "NotAccepted",
            "not all names are accepted",
        );
    }
}

/// The accepted names of a definition. If one is taken, it keeps its earlier names.
fn choose_names(crd: &Object, taken: &Taken) -> (Map<String, Value>, Option<NameConflict>) {
    let empty = json!({});
    let value = crd.as_value();
    let asked = value.pointer("/spec/names").unwrap_or(&empty);
    let had = value.pointer("/status/acceptedNames").unwrap_or(&empty);
    let mut names = Map::new();
    let mut conflict = None;
    let clashing: Vec<String> = texts(asked, "shortNames")
        .filter(|name| taken.resources.contains(*name))
        .map(|name| format!("{name:?} is already in use"))
        .collect();
    let short_names = if clashing.is_empty() { asked } else { had };
    // Of several conflicts, the last one is reported.
    if !clashing.is_empty() {
        conflict = Some(("ShortNamesConflict", clashing.join(", ")));
    }
    for (field, reason, taken) in [
        ("plural", "PluralConflict", &taken.resources),
        ("singular", "SingularConflict", &taken.resources),
        ("kind", "KindConflict", &taken.kinds),
        ("listKind", "ListKindConflict", &taken.kinds),
    ] {
        let text = asked.get(field).and_then(Value::as_str).unwrap_or_default();
        if taken.contains(text) {
            conflict = Some((reason, format!("{text:?} is already in use")));
            let kept = had.get(field).and_then(Value::as_str).unwrap_or_default();
            if !kept.is_empty() || matches!(field, "plural" | "kind") {
                names.insert(field.into(), kept.into());
            }
        } else {
            names.insert(field.into(), text.into());
        }
    }
    for (field, from) in [("shortNames", short_names), ("categories", asked)] {
        if let Some(list) = from.get(field).filter(|list| !list.is_null()) {
            names.insert(field.into(), list.clone());
        }
    }
    (names, conflict)
}

/// Begins the deletion of a definition, which waits for that of its objects.
pub(crate) fn mark_definition(tx: &Tx<'_>, crd: &mut Object) {
    let now = timestamp(tx);
    let mut finalizers: Vec<Value> = crd.finalizers().map(Value::from).collect();
    if !crd.has_finalizer(FINALIZER) {
        finalizers.push(FINALIZER.into());
    }
    let metadata = crd.metadata_mut();
    metadata.insert("deletionTimestamp".into(), now.clone().into());
    metadata.insert("finalizers".into(), finalizers.into());
    set_condition(
        crd,
        &now,
        ("Terminating", true),
        "InstanceDeletionPending",
        "CustomResourceDefinition marked for deletion; CustomResource deletion will begin soon",
    );
}

/// Deletes the objects of a definition in deletion, then removes the definition.
fn clean_up(tx: &mut Tx<'_>, key: &Key) -> Result<(), Status> {
    let Some(stored) = tx.get(key) else {
        return Ok(());
    };
    let before = stored.cached();
    if !before.in_deletion() {
        return Ok(());
    }
    let mut crd = stored.object();
    if crd.has_finalizer(FINALIZER) {
        let now = timestamp(tx);
        if empty(tx, key.cluster(), &crd)? {
            let left: Vec<Value> = crd
                .finalizers()
                .filter(|finalizer| *finalizer != FINALIZER)
                .map(Value::from)
                .collect();
            crd.metadata_mut().insert("finalizers".into(), left.into());
            set_condition(
                &mut crd,
                &now,
                ("Terminating", false),
                "InstanceDeletionCompleted",
                "removed all instances",
            );
        } else {
            set_condition(
                &mut crd,
                &now,
                ("Terminating", true),
                "InstanceDeletionInProgress",
                "CustomResource deletion is in progress",
            );
        }
    }
    if crd.finalizers().next().is_none() {
        tx.remove(key);
    } else if crd != *before {
        tx.put(key, crd)?;
    }
    Ok(())
}

/// Removes objects without finalizers and marks the others as in deletion. Returns whether none is left.
fn empty(tx: &mut Tx<'_>, cluster: &Name, crd: &Object) -> Result<bool, Status> {
    let text = |path: &str| {
        let found = crd.as_value().pointer(path).and_then(Value::as_str);
        found.unwrap_or_default()
    };
    let table = Table::new(text("/spec/group"), text("/spec/names/plural"), "");
    let mut left = false;
    for stored in tx.list(&Range::in_cluster(&table, cluster)) {
        let mut object = stored.object();
        if object.finalizers().next().is_none() {
            tx.remove(&stored.key);
            continue;
        }
        left = true;
        if !object.in_deletion() {
            mark(tx, &mut object);
            tx.put(&stored.key, object)?;
        }
    }
    Ok(!left)
}

fn condition<'o>(crd: &'o Object, kind: &str) -> Option<&'o Value> {
    let conditions = crd.as_value().pointer("/status/conditions")?;
    conditions.as_array()?.iter().find(|c| c["type"] == kind)
}

/// Sets a condition; its transition time changes with its status only.
fn set_condition(
    crd: &mut Object,
    now: &str,
    (kind, holds): (&str, bool),
    reason: &str,
    message: &str,
) {
    let status = if holds { "True" } else { "False" };
    let since = condition(crd, kind)
        .filter(|old| old["status"] == status)
        .and_then(|old| old.get("lastTransitionTime").cloned())
        .unwrap_or_else(|| now.into());
    let new = json!({
        "type": kind, "status": status, "reason": reason, "message": message,
        "lastTransitionTime": since,
    });
    let mut conditions = crd
        .as_value()
        .pointer("/status/conditions")
        .and_then(Value::as_array)
        .cloned()
        .unwrap_or_default();
    match conditions.iter_mut().find(|c| c["type"] == kind) {
        Some(old) => *old = new,
        None => conditions.push(new),
    }
    set(crd, "conditions", conditions.into());
}

fn set(crd: &mut Object, field: &str, value: Value) {
    let status = crd
        .root_mut()
        .entry("status")
        .or_insert_with(|| Value::Object(Map::new()));
    if !status.is_object() {
        *status = Value::Object(Map::new());
    }
    if let Value::Object(status) = status {
        status.insert(field.to_owned(), value);
    }
}

fn texts<'v>(names: &'v Value, field: &str) -> impl Iterator<Item = &'v str> {
    names
        .get(field)
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
}
