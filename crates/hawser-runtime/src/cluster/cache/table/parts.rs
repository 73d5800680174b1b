//! The parts of a table: which are accepted, and which are loaded.

use std::collections::BTreeSet;

use super::partition::{Head, HeadMetadata, Partition, TenantMark};
use super::{Table, TableState};
use hawser_sync::{Key, Labels};
use kube_lang::object::Object;

/// The number of objects that are looked at without a break.
const TOGETHER: usize = 256;

impl Table {
    fn partition(&self) -> Option<&Partition> {
        self.coverage.partition.as_ref()
    }

    /// Whether an object from a list or an event is taken in. One that was in another part before is, whatever its part.
    pub(crate) fn takes_in(&self, key: &Key, object: &Object) -> bool {
        self.keeps(key, object) || self.known_version(key).is_some()
    }

    /// Whether an object is in a part that is kept, in none, or kept by all processes.
    pub(super) fn keeps(&self, key: &Key, object: &Object) -> bool {
        let Some(partition) = self.partition() else {
            return true;
        };
        let accepts = |tenant| self.parts.read().accepted.contains(&partition.part(tenant));
        partition.tenant(key, object).is_none_or(accepts)
            || partition
                .everywhere
                .is_some_and(|everywhere| everywhere(object))
    }

    /// The tenant and the head of an object that is not kept, read without the rest of the object. `None` if the whole
    /// object has to be read to know that.
    pub(in crate::cluster) fn passes_over<'t>(
        &self,
        text: &'t str,
    ) -> Option<(String, HeadMetadata<'t>)> {
        let partition = self.partition()?;
        if partition.everywhere.is_some() {
            return None;
        }
        let Head { metadata } = serde_json::from_str(text).ok()?;
        let tenant = metadata.tenant(partition.mark)?;
        let is_accepted = self
            .parts
            .read()
            .accepted
            .contains(&partition.part(&tenant));
        (!is_accepted).then_some((tenant, metadata))
    }

    /// Whether the part of a tenant is loaded.
    pub fn has_loaded(&self, tenant: &str) -> bool {
        let partition = self.partition();
        partition.is_none_or(|it| self.parts.read().loaded.contains(&it.part(tenant)))
    }

    /// Whether these parts are loaded.
    pub fn has_loaded_all(&self, parts: &BTreeSet<usize>) -> bool {
        self.partition().is_none() || parts.is_subset(&self.parts.read().loaded)
    }

    /// Notes that a list has shown all objects of these parts, as far as they are still accepted; returns whether some
    /// were not loaded.
    pub(crate) fn note_loaded(&self, parts: &BTreeSet<usize>) -> bool {
        let mut own = self.parts.write();
        let loaded = parts & &own.accepted;
        let is_more = !loaded.is_subset(&own.loaded);
        own.loaded = loaded;
        is_more
    }

    /// Keeps the objects of those parts from now on that are among these and accepted.
    pub(crate) fn accept_fewer(&self, parts: &BTreeSet<usize>) {
        let fewer = parts & &self.parts.read().accepted;
        self.accept(&fewer);
    }

    /// Keeps the objects of these parts from now on. Of the others, nothing is reported: they still exist.
    pub(crate) fn accept(&self, parts: &BTreeSet<usize>) {
        let is_less = {
            let mut own = self.parts.write();
            let is_less = !own.accepted.is_subset(parts);
            own.accepted.clone_from(parts);
            own.loaded.retain(|part| parts.contains(part));
            is_less
        };
        if !is_less {
            return;
        }
        for keys in self.keys().chunks(TOGETHER) {
            // They are parsed while others read.
            let is_unwanted = |state: &TableState, key: &Key| {
                let object = state.entries.get(key).and_then(|entry| entry.object());
                object.is_some_and(|object| !self.keeps(key, &object))
            };
            let unwanted: Vec<&Key> = {
                let state = self.state.read();
                keys.iter().filter(|key| is_unwanted(&state, key)).collect()
            };
            let mut state = self.state.write();
            for key in unwanted {
                state.take(key);
            }
        }
    }

    /// Whether the part of an object that the table may lack is loaded. A key names its tenant only if the mark names
    /// the cluster; else whoever asks works on objects of parts that are loaded.
    pub(super) fn knows_part_of(&self, key: &Key) -> bool {
        let is_loaded = |partition: &Partition| match partition.mark {
            TenantMark::Cluster(_) => self.has_loaded(&key.cluster),
            TenantMark::Label(_) => true,
        };
        self.partition().is_none_or(is_loaded)
    }

    /// The same for all objects of a cluster with these labels.
    pub(super) fn knows_part_with(&self, cluster: &str, labels: &Labels) -> bool {
        let is_loaded = |partition: &Partition| match partition.mark {
            TenantMark::Cluster(_) => self.has_loaded(cluster),
            TenantMark::Label(name) => labels.get(name).is_none_or(|it| self.has_loaded(it)),
        };
        self.partition().is_none_or(is_loaded)
    }
}
