//! The kinds that the agent publishes, by which passes recognise copies of other publications, and who publishes each.

use std::sync::Arc;

use super::publication::Publication;
use super::publishing::{Publishing, ResourceRecord};
use super::schemas::{Manifest, plans_only};
use crate::publish::naming::LocalScope;
use crate::publish::problem::Problem;
use crate::publish::publishers::Publisher;
use crate::publish::related::PublishedKind;
use kube_lang::object::Object;

impl Publishing {
    /// Updates the published kinds, by which passes recognise copies of other publications. The copies of a kind are
    /// unknown until its publication starts.
    pub(super) fn update_published_kinds(&self) {
        let known = self.known.lock();
        let published = known
            .values()
            .filter_map(|known| self.published_kind(known));
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

    /// The kind of the copies that a published resource has, or had before it only planned.
    fn published_kind(&self, known: &ResourceRecord) -> Option<PublishedKind> {
        let watched = |at_work: Arc<Publication>| {
            let namespaced = at_work.compiled().types().local_scope == LocalScope::Namespaced;
            (Arc::clone(&at_work.local_kind), namespaced)
        };
        Some(PublishedKind {
            group: known.group.clone(),
            kind: known.kind.clone()?,
            watched: self.dispatch.publication(&known.uid).map(watched),
        })
    }

    pub(super) fn published_kinds(&self) -> Vec<PublishedKind> {
        let known = self.known.lock();
        let kinds = known
            .values()
            .filter_map(|known| self.published_kind(known));
        kinds.collect()
    }

    /// A published resource that makes copies, or would if it could.
    pub(super) fn publisher(&self, object: &Object) -> Option<Publisher> {
        let spec = Manifest::read(object.as_value()).ok()?.spec;
        let created = object.as_value()["metadata"]["creationTimestamp"].as_str();
        (self.synchronizes(&spec) && !object.in_deletion())
            .then(|| Publisher::of(&spec, object.name(), created))
    }

    /// The problem of one published resource, given all others of its kind.
    pub(super) fn contested(&self, object: &Object) -> Option<Problem> {
        let mut all = self.objects();
        // Those that have only planned so far are in nobody's way; copies of the others stay.
        all.retain(|one| one.name() == object.name() || !plans_only(one) || has_schema(one));
        let all: Vec<_> = all.iter().filter_map(|one| self.publisher(one)).collect();
        self.publisher(object)?.problem(&all)
    }
}

/// Whether a schema of the published resource was published.
fn has_schema(object: &Object) -> bool {
    let schema = object.as_value()["status"]["resourceSchemaName"].as_str();
    schema.is_some_and(|schema| !schema.is_empty())
}
