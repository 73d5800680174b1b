//! From passes to events: which object, in which workspace.

use std::sync::Arc;

use super::{About, Note, Recorder, telling};
use crate::publish::agent::workspaces::Workspaces;
use hawser_runtime::cluster::cache::Cache;
use hawser_sync::{Key, Report, Seen, Store};

/// Announces in a workspace what came of passes over its objects.
pub struct Announcer {
    pub recorder: Recorder,
    pub workspaces: Arc<Workspaces>,
    /// Knows the uids of objects.
    pub cache: Arc<Cache>,
}

impl Announcer {
    /// Lets what came of a pass over this object be told, if it is worth telling.
    pub fn announce(&self, own: Key, report: &Report) {
        let Some(telling) = telling(report, &own) else {
            return;
        };
        // A workspace that no longer takes part hears nothing.
        let Some(connection) = self.workspaces.connection(&own.cluster) else {
            return;
        };
        let uid = match self.cache.get(&own) {
            Seen::Present(object) => object.uid().map(Into::into),
            Seen::Absent | Seen::Unknown => None,
        };
        self.recorder.record(Note {
            connection,
            about: About { key: own, uid },
            telling,
        });
    }
}

#[cfg(test)]
mod tests;
