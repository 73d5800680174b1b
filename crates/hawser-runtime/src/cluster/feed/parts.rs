//! The parts of a source that a feed keeps, if several processes share its tenants.

use std::collections::HashSet;

use tokio::time::timeout;

use super::{Clusters, Reader, WatchPosition};
use crate::cluster::cache::wanted_changed;

impl Reader {
    /// Waits until a part of the source is wanted. Without one, the table is complete: nothing is missing.
    pub(super) async fn await_wanted(&mut self) {
        while let Some(wanted) = &mut self.wanted {
            let parts = wanted.borrow_and_update().clone();
            match parts {
                Some(parts) if !parts.is_empty() => {
                    self.table.accept(&parts);
                    self.listing = Some(parts);
                    return;
                }
                Some(none) => {
                    self.table.accept(&none);
                    if !self.table.is_complete() {
                        self.complete(&HashSet::new(), 0);
                    }
                }
                None => {}
            }
            while timeout(self.pace.silence / 2, wanted_changed(&mut self.wanted))
                .await
                .is_err()
            {
                // No server is silent where none is asked.
                self.table.note_activity();
            }
        }
    }

    /// Other parts of the source may be wanted now: drops what is not. If more are wanted, lists beside the watch, whose
    /// events show these from now on.
    pub(super) fn heed_wanted(&mut self, at: &mut WatchPosition) {
        let wanted = self.wanted.as_mut();
        let parts = wanted.and_then(|wanted| wanted.borrow_and_update().clone());
        let parts = parts.unwrap_or_default();
        if at.beside.is_some() {
            // The list under way may have passed over objects of other parts: these have to wait.
            return self.table.accept_fewer(&parts);
        }
        self.table.accept(&parts);
        if !self.table.has_loaded_all(&parts) {
            let mut beside = self.clone();
            beside.highest = self.highest.max(at.since);
            beside.overruled.clear();
            beside.listing = Some(parts);
            at.beside = Some(Box::pin(async move { beside.pages().await }));
        }
    }

    /// The version of an object in a part that is not wanted, read without the rest of the object.
    pub(super) fn version_of_unwanted(&self, text: &str) -> Option<u64> {
        let (tenant, head) = self.table.passes_over(text)?;
        let cluster = match &self.selection.clusters {
            Clusters::One(cluster) => cluster,
            Clusters::Annotation(_) => &*tenant,
        };
        let scope = self.table.scope(cluster);
        let key = scope.key(head.namespace.as_deref(), &head.name);
        // An object that was in another part before is not passed over.
        let is_known = self.table.known_version(&key).is_some();
        head.resource_version.parse().ok().filter(|_| !is_known)
    }
}
