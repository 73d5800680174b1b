//! Turns results of passes into events: the object, and its workspace.

use std::sync::Arc;

use super::consumer_event;
use crate::publish::agent::workspaces::Workspaces;
use hawser_runtime::cluster::cache::Cache;
use hawser_runtime::cluster::events::{About, EventText, Note, Recorder};
use hawser_sync::{Key, Report, Seen, Store};

/// As the original calls itself in events.
const COMPONENT: &str = "syncagent-sync";

/// Announces results of passes over the objects of workspaces.
pub struct Announcer {
    pub recorder: Recorder,
    pub workspaces: Arc<Workspaces>,
    /// Finds the uids of objects.
    pub cache: Arc<Cache>,
}

impl Announcer {
    /// Announces the result of a pass over this object, if it is worth an event.
    pub fn announce(&self, own: Key, report: &Report) {
        let Some(event) = consumer_event(report, &own) else {
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
            tenant: Arc::clone(&own.cluster),
            about: About { key: own, uid },
            text: EventText {
                component: COMPONENT.into(),
                kind: event.reason.kind(),
                reason: event.reason.as_str().into(),
                message: event.message,
            },
        });
    }
}

#[cfg(test)]
mod tests;
