//! Objects that a Work no longer lists: they are removed, or handed over to the Work of the placement that lists them.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use serde_json::Value;
use tracing::warn;

use hawser_placement::apply::{self, Owner, Reason};
use hawser_placement::names::PARENT_SNAPSHOT;
use hawser_placement::types::work::{AppliedResource, AppliedWork, Work, WorkResourceIdentifier};
use hawser_sync::{Answer, Failure, Key, Request, Seen, Store as _};
use kube_lang::object::Object;

use super::super::applier::parent;
use super::{Item, ManifestIdentity, WorkPass, WorkPassError, identity, owned_by};

impl WorkPass<'_> {
    /// The other Works of the placement, without those in deletion.
    fn siblings(&self, work: &Object) -> Vec<Arc<Object>> {
        let placement = parent(work);
        if placement[0].is_none() {
            return Vec::new();
        }
        let others = self.at.names().into_iter();
        let others = others.filter(|name| name != self.name);
        let others =
            others.filter_map(|name| match self.at.cache.get(&self.at.sides.work(&name)) {
                Seen::Present(other) => Some(other),
                Seen::Absent | Seen::Unknown => None,
            });
        let of_placement =
            others.filter(|other| !other.in_deletion() && parent(other) == placement);
        of_placement.collect()
    }

    /// Removes objects of manifests that are gone; returns those that could not be removed.
    pub(super) async fn remove_leftovers(
        &self,
        items: &[Item],
        object: &Object,
        work: &Work,
        applied: &AppliedWork,
        owner: &Owner<'_>,
    ) -> Vec<AppliedResource> {
        let wanted: HashSet<ManifestIdentity> = items
            .iter()
            .map(|item| identity(&item.identifier))
            .collect();
        let mut left: BTreeMap<ManifestIdentity, AppliedResource> = BTreeMap::new();
        let from_work = work
            .status
            .manifest_conditions
            .iter()
            .map(|one| AppliedResource {
                identifier: one.identifier.clone(),
                uid: String::new(),
            });
        for one in applied
            .status
            .applied_resources
            .iter()
            .cloned()
            .chain(from_work)
        {
            let id = identity(&one.identifier);
            if !id.3.is_empty() && !wanted.contains(&id) {
                left.entry(id).or_insert(one);
            }
        }
        let events = &self.at.events;
        // Asked for first: what changes from now on is another pass.
        let waits = (!left.is_empty()).then(|| parent(object));
        events.wait_for_siblings(self.name, waits);
        let siblings = self.siblings(object);
        let is_moving = is_moving(object, &siblings);
        if !is_moving {
            events.wait_for_siblings(self.name, None);
        }
        // The object of a manifest that cannot be read is not known: it could be any.
        let is_readable = |item: &Item| !matches!(&item.place, Err((Reason::DecodingErred, _)));
        let is_known = items.iter().all(is_readable) && !is_moving;
        let mut stuck = Vec::new();
        let places = items.iter().filter_map(|item| item.place.as_ref().ok());
        let places: HashSet<&Key> = places.map(|(_, key)| key).collect();
        for one in left.into_values() {
            if !is_known {
                stuck.push(one);
            } else if let Err(WorkPassError(problem)) =
                self.remove(&one, &places, owner, &siblings).await
            {
                let (kind, name) = (&one.identifier.kind, &one.identifier.name);
                warn!(
                    work = &**self.name,
                    kind, name, problem, "cannot remove an object"
                );
                stuck.push(one);
            }
        }
        stuck
    }

    /// Deletes an object that belongs to this Work alone; one with other owners loses this one, and one that another Work
    /// of the placement lists gets that one as its owner. An object that is in one of the places of this Work stays,
    /// however it was called before.
    async fn remove(
        &self,
        resource: &AppliedResource,
        places: &HashSet<&Key>,
        owner: &Owner<'_>,
        siblings: &[Arc<Object>],
    ) -> Result<(), WorkPassError> {
        let Some(key) = self.known_place(&resource.identifier).await? else {
            return Ok(());
        };
        if places.contains(&key) {
            return Ok(());
        }
        let object = match self.send(&Request::Read { key: key.clone() }).await? {
            Answer::Object(object) => object,
            Answer::Gone => return Ok(()),
            Answer::Failed(failure) => return Err(failure.into()),
            Answer::Listed(_) => {
                return Err(WorkPassError(
                    "the member returned a list instead of an object".to_owned(),
                ));
            }
        };
        if !owner.owns(object.as_value()) || object.in_deletion() {
            return Ok(());
        }
        let request = match successor(&resource.identifier, &key, siblings) {
            Some(next) => {
                let owners = self.with_owner(&object, owner, next).await?;
                owned_by(key, &object, &owners)
            }
            None => match owner.without_owner(object.as_value()) {
                Some(others) => owned_by(key, &object, &others),
                None => Request::delete(key, object.uid().unwrap_or_default()),
            },
        };
        match self.send(&request).await? {
            Answer::Failed(Failure::NotFound | Failure::OtherIncarnation) => Ok(()),
            Answer::Failed(failure) => Err(failure.into()),
            _ => Ok(()),
        }
    }

    /// Hands the objects of a Work in deletion over to the Works that list them.
    pub(super) async fn hand_over(
        &self,
        work: &Object,
        objects: impl Iterator<Item = &WorkResourceIdentifier>,
        owner: &Owner<'_>,
    ) -> Result<(), WorkPassError> {
        let siblings = self.siblings(work);
        for one in objects {
            let Some(key) = self.known_place(one).await? else {
                continue;
            };
            let Some(next) = successor(one, &key, &siblings) else {
                continue;
            };
            let Some(object) = self.look(&key).await? else {
                continue;
            };
            if !owner.owns(object.as_value()) || object.in_deletion() {
                continue;
            }
            let owners = self.with_owner(&object, owner, next).await?;
            self.set_owners(key, &object, &owners).await?;
        }
        Ok(())
    }

    /// The owner references of an object with another Work in the place of this one.
    async fn with_owner(
        &self,
        object: &Object,
        owner: &Owner<'_>,
        next: &Object,
    ) -> Result<Vec<Value>, WorkPassError> {
        let applied = self.applied_work_of(next.name()).await?;
        if applied.in_deletion() {
            let name = next.name();
            return Err(WorkPassError(format!("AppliedWork {name} is in deletion")));
        }
        let next = Owner {
            name: next.name(),
            uid: applied.uid().unwrap_or_default(),
            ..*owner
        };
        Ok(owner.replaced_by(&next, object.as_value()))
    }
}

/// The Work that lists an object.
fn successor<'w>(
    resource: &WorkResourceIdentifier,
    key: &Key,
    siblings: &'w [Arc<Object>],
) -> Option<&'w Object> {
    let placed = |of: &WorkResourceIdentifier| {
        let (group, kind, namespace, name) = identity(of);
        let namespace = key.namespace.is_some().then_some(namespace);
        (group, kind, namespace, name)
    };
    let wanted = placed(resource);
    let lists = |work: &&Arc<Object>| {
        let manifests = &work.as_value()["spec"]["workload"]["manifests"];
        let mut manifests = manifests.as_array().into_iter().flatten().enumerate();
        manifests.any(|(ordinal, manifest)| {
            let (identifier, read) = apply::read(ordinal, manifest);
            read.is_ok() && placed(&identifier) == wanted
        })
    };
    siblings.iter().find(lists).map(|work| &**work)
}

/// Whether the hub is still writing the Works of a snapshot, so that an object may be about to move to another one.
fn is_moving(work: &Object, siblings: &[Arc<Object>]) -> bool {
    let of = |work: &Object| work.annotation(PARENT_SNAPSHOT).map(str::to_owned);
    siblings.iter().any(|other| of(other) != of(work))
}
