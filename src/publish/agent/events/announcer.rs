//! Turns results of passes into events: the object, and its workspace.

use std::sync::Arc;

use super::{ConsumerEvent, Reason, consumer_event};
use crate::publish::agent::workspaces::Workspaces;
use crate::publish::pause::PauseProblem;
use crate::publish::rules::PRIMARY;
use hawser_runtime::cluster::cache::Cache;
use hawser_runtime::cluster::connection::{Connection, Guard};
use hawser_runtime::cluster::events::{EventText, InvolvedObject, Note, Recorder};
use hawser_sync::reason::Class;
use hawser_sync::{Code, DriftMode, Key, Outcome, Report, Seen, Store};

/// The component of api-syncagent's events.
pub const COMPONENT: &str = "syncagent-sync";

/// Announces results of passes over the objects of workspaces.
#[derive(Clone)]
pub struct Announcer {
    pub recorder: Recorder,
    /// The service cluster.
    pub service: Connection,
    pub workspaces: Arc<Workspaces>,
    /// Finds the uids of objects.
    pub cache: Arc<Cache>,
}

impl Announcer {
    /// Announces the result of a pass over this object, if it is worth an event. The guard is asked again right before
    /// the event is sent.
    pub fn announce(&self, own: Key, report: &Report, guard: &Arc<Guard<'static>>) {
        let is_settled = |outcome: &Outcome| outcome.reason.code.class() == Class::Settled;
        let settled = report.outcomes.iter().all(is_settled);
        if let Some(event) = consumer_event(report, &own) {
            let trouble = match event.reason {
                Reason::Refused => Some(true),
                _ => settled.then_some(false),
            };
            return self.tell(own, event, trouble, guard);
        }
        // A problem that ended without a write is told, too.
        let is_in_step =
            |outcome: &Outcome| *outcome.link.0 == *PRIMARY && outcome.reason.code == Code::InStep;
        if settled
            && report.outcomes.iter().any(is_in_step)
            && self.recorder.is_troubled(&self.involved(own.clone()))
        {
            self.tell(own, ConsumerEvent::synced(), Some(false), guard);
        }
    }

    /// Reports why annotations of this object are no pause.
    pub fn warn_of_pause(&self, own: Key, problem: &PauseProblem, guard: &Arc<Guard<'static>>) {
        let event = ConsumerEvent {
            reason: Reason::PauseIgnored,
            message: format!("The pause is ignored: {problem}."),
        };
        self.tell(own, event, None, guard);
    }

    /// Announces on a copy of a workspace that fields of it were reverted, or are reported. These events are counted
    /// apart from those in the workspace: the service cluster may refuse them.
    pub fn tell_of_drift(
        &self,
        copy: Key,
        workspace: &str,
        mode: DriftMode,
        message: String,
        guard: &Arc<Guard<'static>>,
    ) {
        let (kind, reason) = match mode {
            DriftMode::Revert => ("Warning", "DriftReverted"),
            DriftMode::Report => ("Normal", "DriftReported"),
            DriftMode::Keep => return,
        };
        self.recorder.record(Note {
            connection: self.service.guarded_by(Arc::clone(guard)),
            tenant: format!("{}/{workspace}", copy.side).into(),
            trouble: None,
            about: self.involved(copy),
            text: EventText {
                component: COMPONENT.into(),
                kind,
                reason: reason.into(),
                message,
            },
        });
    }

    fn involved(&self, key: Key) -> InvolvedObject {
        let uid = match self.cache.get(&key) {
            Seen::Present(object) => object.uid().map(Into::into),
            Seen::Absent | Seen::Unknown => None,
        };
        InvolvedObject { key, uid }
    }

    fn tell(
        &self,
        own: Key,
        event: ConsumerEvent,
        trouble: Option<bool>,
        guard: &Arc<Guard<'static>>,
    ) {
        // A workspace that no longer takes part gets no events.
        let Some(connection) = self.workspaces.connection(&own.cluster) else {
            return;
        };
        self.recorder.record(Note {
            connection: connection.guarded_by(Arc::clone(guard)),
            tenant: Arc::clone(&own.cluster),
            trouble,
            about: self.involved(own),
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
