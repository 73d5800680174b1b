//! What is done and told about fields of copies that other writers changed.

use std::sync::Arc;

use super::passes::ObjectPass;
use super::publication::Publication;
use super::subject::SubjectId;
use crate::publish::drift;
use crate::publish::rules::PRIMARY;
use hawser_runtime::cluster::connection::Guard;
use hawser_sync::reason::Class;
use hawser_sync::{Drift, DriftMode, DriftedField, Outcome, Report, Subject};

/// The fields of drift that are kept for the next pass.
const MOST_KEPT: usize = 256;

impl ObjectPass {
    /// Tells the primary link of a subject what the last pass found.
    pub(super) fn recall_drift(&self, subject: &mut Subject) {
        for link in &mut subject.links {
            if let Some(policy) = &mut link.policy.drift {
                policy.known = self.publication.known_drift(&self.id);
            }
        }
    }

    /// Notes the drift at the end of a pass, counts what is new, and sends events about it.
    pub(super) fn settle_drift(&self, report: &Report, guard: &Arc<Guard<'static>>) {
        if self.publication.compiled().drift().keeps_all() {
            return;
        }
        let mut outcomes = report.outcomes.iter();
        let Some(outcome) = outcomes.find(|outcome| *outcome.link.0 == *PRIMARY) else {
            return;
        };
        let before = self.publication.known_drift(&self.id);
        let news = news(before.as_deref(), outcome.drift.as_deref());
        self.publication.note_drift(&self.id, outcome);
        let resource = &*self.publication.plan.name;
        let numbers = &self.passes.numbers;
        numbers.drifted(resource, DriftMode::Revert, report.reverted.len());
        numbers.drifted(resource, DriftMode::Report, news.len());
        let Some(copy) = &outcome.copy else { return };
        let announcer = &self.passes.announcer;
        let tell = |mode, message| {
            announcer.tell_of_drift(copy.clone(), &self.id.cluster, mode, message, guard);
        };
        if !report.reverted.is_empty() {
            tell(DriftMode::Revert, drift::reverted(&report.reverted));
        }
        if !news.is_empty() {
            tell(DriftMode::Report, drift::reported(news));
        }
    }
}

/// The fields to report that were not reported.
fn news<'d>(before: Option<&Drift>, now: Option<&'d Drift>) -> Vec<&'d DriftedField> {
    let is_known = |now: &Drift| before.is_some_and(|before| before.is_of_same_values(now));
    let Some(now) = now.filter(|now| !is_known(now)) else {
        return Vec::new();
    };
    let is_news = |field: &&DriftedField| {
        let mut told = before.iter().flat_map(|before| &before.fields);
        !told.any(|told| told.is_same_change(field))
    };
    now.fields_to(DriftMode::Report).filter(is_news).collect()
}

impl Publication {
    fn known_drift(&self, id: &SubjectId) -> Option<Arc<Drift>> {
        self.state.read().drift.get(id).cloned()
    }

    /// Notes the drift of a copy. A pass that could not read enough does not change the note.
    fn note_drift(&self, id: &SubjectId, outcome: &Outcome) {
        let drift = outcome.drift.as_ref().map(|drift| {
            let is_short = drift.fields.len() <= MOST_KEPT;
            if is_short {
                Arc::clone(drift)
            } else {
                Arc::new(drift.cut(MOST_KEPT))
            }
        });
        let is_same = self.state.read().drift.get(id) == drift.as_ref();
        if is_same || outcome.drift.is_none() && outcome.reason.code.class() == Class::Retry {
            return;
        }
        let known = &mut self.state.write().drift;
        match drift {
            Some(drift) => known.insert(id.clone(), drift),
            None => known.remove(id),
        };
    }
}
