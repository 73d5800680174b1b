//! Access to the kept text of objects without parsing.

use hawser_sync::{Fingerprint, Key, Labels};

use super::{Body, Table};

impl Table {
    /// Passes the kept text of every object to the caller, with a mark that changes with the text. Returns the revision
    /// of the table.
    pub(in crate::cluster::cache) fn show(
        &self,
        mut look: impl FnMut(&Key, (u64, Fingerprint), &Body),
    ) -> u64 {
        let state = self.state.read();
        for (key, entry) in &state.entries {
            look(key, (entry.version, entry.fingerprint), &entry.body);
        }
        state.revision
    }

    /// The same of the objects with these labels; false if they are not known.
    pub(in crate::cluster::cache) fn show_labelled(
        &self,
        cluster: &str,
        labels: &Labels,
        mut look: impl FnMut(&Key, (u64, Fingerprint), &Body),
    ) -> bool {
        self.index_labels(labels);
        let state = self.state.read();
        let positions = state.places.positions(cluster, labels);
        let candidates = self.candidates(&state, cluster, labels);
        let (Some(positions), Some(candidates)) = (positions, candidates) else {
            return false;
        };
        for (key, entry) in candidates {
            if positions.iter().all(|one| entry.labelled.contains(one)) {
                if !entry.ask() || !state.shares.settles(key, entry) {
                    return false;
                }
                look(key, (entry.version, entry.fingerprint), &entry.body);
            }
        }
        true
    }
}
