//! Garbage collection: the dependents of deleted owners.
//!
//! Runs beside the requests, in transactions of its own, like the collector of a controller manager. So watchers see
//! the owner in deletion, then the deletion of its dependents, then that of the owner. The store lists the objects to
//! check; objects without owners are never checked.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde_json::{Value, json};

use super::catalog::{Catalog, Resource, Scope, Scopes, User, Verbs};
use super::rest::delete::Deletion;
use super::rest::delete_options::Propagation;
use super::status::Status;
use super::store::{FOREGROUND, Key, ORPHAN, Store, Stored, Table, Tx};
use kube_lang::object::Object;

mod owners;

use owners::{Owner, Owners};

/// The maximum number of rounds, more than any chain of owners needs. Objects that keep changing are left.
const MAX_ROUNDS: usize = 10_000;

/// Deletes objects whose owners are gone.
pub(crate) struct Collector {
    store: Arc<Store>,
    scopes: Arc<dyn Scopes>,
    user: User,
}

impl Collector {
    pub(crate) fn new(store: Arc<Store>, scopes: Arc<dyn Scopes>) -> Self {
        let user = User {
            name: "system:serviceaccount:kube-system:generic-garbage-collector".to_owned(),
            ..User::default()
        };
        Self {
            store,
            scopes,
            user,
        }
    }

    /// Collects whenever there is something to collect, and never returns.
    pub(crate) async fn run(&self) {
        let mut definitions = self.store.watch_definitions();
        let mut unresolved = BTreeSet::new();
        loop {
            self.collect(&mut unresolved);
            tokio::select! {
                () = self.store.doubted() => {}
                changed = definitions.changed(), if !unresolved.is_empty() => {
                    if changed.is_err() {
                        return;
                    }
                    // An owner whose kind was not served may be found now.
                    for key in std::mem::take(&mut unresolved) {
                        self.look_at(&key, &mut unresolved);
                    }
                }
            }
        }
    }

    /// Checks the doubtful objects until none is left. Objects with owners of kinds that are not served are set aside.
    pub(crate) fn collect(&self, unresolved: &mut BTreeSet<Key>) {
        for _ in 0..MAX_ROUNDS {
            let doubts = self.store.take_doubts();
            if doubts.is_empty() {
                return;
            }
            for key in doubts {
                self.look_at(&key, unresolved);
            }
        }
    }

    fn look_at(&self, key: &Key, unresolved: &mut BTreeSet<Key>) {
        match self.store.write(|tx| self.examine(tx, key)) {
            Ok(outcome) if outcome.value == Verdict::Unresolved => {
                unresolved.insert(key.clone());
            }
            Ok(_) => {}
            Err(status) => {
                tracing::warn!(%status, object = %key.name(), "an object could not be collected");
            }
        }
    }

    fn examine(&self, tx: &mut Tx<'_>, key: &Key) -> Result<Verdict, Status> {
        let Some(stored) = tx.get(key) else {
            return Ok(Verdict::Settled);
        };
        let object = stored.object();
        if object.in_deletion() {
            if object.has_finalizer(ORPHAN) {
                orphan(tx, key, object)?;
            } else if object.has_finalizer(FOREGROUND) {
                release(tx, key, object)?;
            }
            return Ok(Verdict::Settled);
        }
        // Events are about objects; they outlive them.
        if owners::references(&object).next().is_none() || key.is("", "events") {
            return Ok(Verdict::Settled);
        }
        let scope = Scope::Cluster(key.cluster().clone());
        let Ok(catalog) = self.scopes.catalog(tx, &scope) else {
            return Ok(Verdict::Settled);
        };
        let Some(owners) = Owners::of(tx, &catalog, key, &object) else {
            return Ok(Verdict::Unresolved);
        };
        self.judge(tx, (key, &stored, object), &scope, &catalog, &owners)?;
        Ok(Verdict::Settled)
    }

    /// Decides about an object whose owners are known.
    fn judge(
        &self,
        tx: &mut Tx<'_>,
        (key, stored, mut object): (&Key, &Stored, Object),
        scope: &Scope,
        catalog: &Catalog,
        owners: &Owners,
    ) -> Result<(), Status> {
        if owners.any(Owner::Solid) {
            let lost: Vec<&str> = owners.not(Owner::Solid).collect();
            if !lost.is_empty() {
                owners::drop_references(&mut object, &lost);
                tx.put(key, object)?;
            }
            return Ok(());
        }
        let dependents = object.uid().map(|uid| tx.dependents(key.cluster(), uid));
        let dependents = dependents.unwrap_or_default();
        let propagation = if owners.any(Owner::Waiting) && !dependents.is_empty() {
            if dependents.iter().any(|one| waits(tx, one)) {
                // A cycle of owners would wait for itself, so it is broken here.
                owners::unblock(&mut object);
                tx.put(key, object)?;
            }
            Some(Propagation::Foreground)
        } else {
            None
        };
        let (Some(resource), Some(now)) = (resource_of(catalog, &key.table), tx.get(key)) else {
            return Ok(());
        };
        let deletion = Deletion {
            user: &self.user,
            scope,
            resource,
            propagation,
        };
        tracing::debug!(object = %stored.key.name(), "nothing owns an object any more");
        deletion.apply(tx, (key, &now))?;
        Ok(())
    }
}

/// The result of the check of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    Settled,
    /// An owner is of a kind that is not served.
    Unresolved,
}

/// Whether the deletion of an object waits for its dependents.
fn waits(tx: &Tx<'_>, key: &Key) -> bool {
    tx.get(key).is_some_and(|stored| {
        let object = stored.object();
        object.in_deletion() && object.has_finalizer(FOREGROUND)
    })
}

/// Removes the owner reference from the dependents of an object in deletion, then removes the object's finalizer.
fn orphan(tx: &mut Tx<'_>, key: &Key, object: Object) -> Result<(), Status> {
    let uid = object.uid().unwrap_or_default().to_owned();
    for dependent in tx.dependents(key.cluster(), &uid) {
        let Some(stored) = tx.get(&dependent) else {
            continue;
        };
        let mut orphaned = stored.object();
        owners::drop_references(&mut orphaned, &[&uid]);
        tx.put(&dependent, orphaned)?;
    }
    let_go(tx, key, object, ORPHAN)
}

/// Removes the finalizer of an object in deletion when no dependent blocks it.
fn release(tx: &mut Tx<'_>, key: &Key, object: Object) -> Result<(), Status> {
    let uid = object.uid().unwrap_or_default().to_owned();
    let held = tx.dependents(key.cluster(), &uid).iter().any(|dependent| {
        tx.get(dependent)
            .is_some_and(|stored| owners::blocks(&stored.object(), &uid))
    });
    if held {
        return Ok(());
    }
    let_go(tx, key, object, FOREGROUND)
}

fn let_go(tx: &mut Tx<'_>, key: &Key, mut object: Object, finalizer: &str) -> Result<(), Status> {
    let left: Vec<Value> = object
        .finalizers()
        .filter(|one| *one != finalizer)
        .map(Value::from)
        .collect();
    let namespace = key.is("", "namespaces");
    if left.is_empty() && !namespace {
        tx.remove(key);
        return Ok(());
    }
    let metadata = object.metadata_mut();
    if left.is_empty() {
        metadata.remove("finalizers");
    } else {
        metadata.insert("finalizers".into(), json!(left));
    }
    tx.put(key, object)
}

/// Any version of the resource of a table.
fn resource_of<'c>(catalog: &'c Catalog, table: &Table) -> Option<&'c Arc<Resource>> {
    catalog
        .groups()
        .flat_map(|(_, versions)| versions)
        .flat_map(|version| &version.resources)
        .find(|resource| resource.table == *table && resource.verbs == Verbs::All)
}
