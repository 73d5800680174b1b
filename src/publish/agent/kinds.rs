//! The kinds that the agent publishes, by which passes recognise copies of other publications.

use std::sync::Arc;

use super::publishing::{Publishing, ResourceRecord};
use crate::publish::naming::LocalScope;
use crate::publish::related::PublishedKind;
use kube_lang::object::Gvk;

impl Publishing {
    /// Updates the published kinds, by which passes recognise copies of other publications. The copies of a kind are
    /// unknown until its publication starts.
    pub(super) fn update_published_kinds(&self) {
        let known = self.known.lock();
        let published = known.values().filter_map(|known| {
            Some(PublishedKind {
                group: known.group.clone(),
                kind: known.kind.clone()?,
                watched: self.watched_kind(known),
            })
        });
        let some_are_new = self.dispatch.related.publishes(published.collect());
        drop(known);
        if !some_are_new {
            return;
        }
        for publication in self.dispatch.running().values() {
            if !publication.compiled().related().is_empty() {
                publication.renew();
                self.again(publication);
            }
        }
    }

    fn watched_kind(&self, known: &ResourceRecord) -> Option<(Arc<Gvk>, bool)> {
        let at_work = self.dispatch.publication(&known.uid)?;
        let namespaced = at_work.compiled().types().local_scope == LocalScope::Namespaced;
        Some((Arc::clone(&at_work.local_kind), namespaced))
    }

    /// The published kinds, if those were synchronized that only plan.
    pub(super) fn kinds_for_trials(&self) -> Vec<PublishedKind> {
        let known = self.known.lock();
        let kinds = known.values().filter_map(|known| {
            let watched = self.watched_kind(known);
            let planned = watched.as_ref().filter(|_| known.plans_only);
            let planned = planned.map(|(kind, _)| kind.kind.clone());
            Some(PublishedKind {
                group: known.group.clone(),
                kind: known.kind.clone().or(planned)?,
                watched,
            })
        });
        kinds.collect()
    }
}
