//! The fingerprints of the answers of a table, without parsing if possible.

use hawser_sync::{Fingerprint, Key, Labels};
use kube_lang::object::Object;

use super::entry::Completeness;
use super::{Table, version};

impl Table {
    /// The fingerprint of the answer of `get`: `None` if the object is unknown, `Some(None)` if the table does not
    /// cover it.
    #[allow(
        clippy::option_option,
        reason = "not knowing and not being asked are two things"
    )]
    pub(in crate::cluster::cache) fn fingerprint(&self, key: &Key) -> Option<Option<Fingerprint>> {
        let state = self.state.read();
        match state.entries.get(key) {
            Some(entry) if !state.shares.settles(key, entry) => None,
            Some(entry) => Some(Some(entry.fingerprint)),
            None if !self.coverage.reaches(key) || !self.knows_part_of(key) => Some(None),
            None => state.complete.then_some(Some(Fingerprint::ABSENT)),
        }
    }

    /// The fingerprint of a whole object, if this state of it is the one in the table.
    pub(in crate::cluster::cache) fn fingerprint_at(
        &self,
        key: &Key,
        object: &Object,
    ) -> Option<Fingerprint> {
        let version = version(object)?;
        let state = self.state.read();
        let entry = state.entries.get(key)?;
        let is_whole = matches!(entry.extent, Completeness::Whole | Completeness::Cut)
            && !object.is_fragment();
        (is_whole && entry.is_state(version, object)).then_some(entry.fingerprint)
    }

    /// The fingerprint of the objects with these labels.
    pub(in crate::cluster::cache) fn fingerprint_of(
        &self,
        cluster: &str,
        labels: &Labels,
    ) -> Option<Fingerprint> {
        self.index_labels(labels);
        let state = self.state.read();
        let mut fingerprints = Vec::new();
        let is_indexed = self.coverage.indexes_only(labels);
        let positions = state.places.positions(cluster, labels);
        for (key, entry) in self.candidates(&state, cluster, labels)? {
            // This is asked for each event: what an index says is not parsed. Values with the same hash as others only
            // cause a pass too many.
            let fits = if is_indexed {
                true
            } else if let Some(positions) = &positions {
                positions.iter().all(|one| entry.labelled.contains(one))
            } else {
                labels.fit(&*self.parsed(&state, key, entry)?)
            };
            if fits {
                if !state.shares.settles(key, entry) {
                    return None;
                }
                fingerprints.push(entry.fingerprint);
            }
        }
        Some(Fingerprint::of_all(fingerprints))
    }
}
