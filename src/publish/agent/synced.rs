//! The report on an object whether the service has seen its current generation, at the end of a pass.

use super::passes::ObjectPass;
use super::publication::Publication;
use super::subject::SubjectId;
use crate::publish::rules::PRIMARY;
use crate::publish::synced::{LastReport, SyncedContext, without_annotations};
use hawser_sync::{Outcome, Seen, Step, View};
use kube_lang::object::Object;

impl ObjectPass {
    pub(super) fn synced_context(&self) -> SyncedContext {
        SyncedContext {
            last: self.publication.last_report(&self.id),
            now: self.began,
        }
    }

    /// The write that brings the report up to date. A report in the status is written together with the status of the
    /// copy, if that changes too.
    pub(super) fn report_synced(
        &self,
        anchor: &Object,
        outcomes: &[Outcome],
        view: &dyn View,
    ) -> Option<Step> {
        let rules = self.publication.compiled().synced();
        let Some(rules) = rules.filter(|_| !anchor.in_deletion()) else {
            self.publication.note_report(&self.id, None);
            return without_annotations(&self.anchor, anchor);
        };
        let outcome = outcomes.iter().find(|one| *one.link.0 == *PRIMARY)?;
        let copy = outcome.copy.as_ref().map(|copy| view.get(copy));
        let copy = match &copy {
            Some(Seen::Present(copy)) => Some(&**copy),
            _ => None,
        };
        let of = (&self.anchor, anchor);
        let (step, last) = rules.step(of, outcome, copy, &self.synced_context());
        if last.is_some() {
            self.publication.note_report(&self.id, last);
        }
        step
    }
}

impl Publication {
    fn last_report(&self, id: &SubjectId) -> Option<LastReport> {
        self.compiled().synced()?;
        self.state.read().reports.get(id).copied()
    }

    /// Notes the last report on an object; `None` once there is nothing to report on.
    pub(super) fn note_report(&self, id: &SubjectId, report: Option<LastReport>) {
        if self.compiled().synced().is_none() {
            return;
        }
        if self.state.read().reports.get(id) == report.as_ref() {
            return;
        }
        let reports = &mut self.state.write().reports;
        match report {
            Some(report) => reports.insert(id.clone(), report),
            None => reports.remove(id),
        };
    }
}
