//! The objects that a selection releases.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::super::explain::{ExplainError, Selection, workspace_name};
use super::super::publication::Publication;
use super::super::subject::SubjectId;
use super::{Releasable, ReleaseError, Releaser};
use crate::publish::marks::Remote;
use crate::publish::memory;
use crate::publish::release::Witness;
use hawser_sync::{Key, KeyPlace};
use kube_lang::object::Gvk;

impl Releaser {
    /// The selected objects, also those of which only a copy or a state is left. A name that several objects have is an
    /// error.
    pub async fn find(
        &self,
        selection: &Selection,
        published: Option<&str>,
    ) -> Result<Vec<Releasable>, ReleaseError> {
        let running = self.explainer.agent.dispatch.running();
        let is_asked = |publication: &Publication| {
            published.is_none_or(|published| publication.plan.name == published)
                && (selection
                    .is_of_kind(&publication.remote_kind, &publication.plan.remote_resource)
                    || selection
                        .is_of_kind(&publication.local_kind, &publication.plan.local_resource))
        };
        let asked: Vec<_> = running.values().filter(|one| is_asked(one)).collect();
        self.check_active(selection, published, &asked)?;
        for publication in &asked {
            let unlisted: Vec<_> = publication.unlisted().into_iter().collect();
            if !unlisted.is_empty() {
                return Err(ReleaseError::Unlisted {
                    name: publication.plan.name.clone(),
                    unlisted: unlisted.join("; "),
                });
            }
        }
        let cluster = match &selection.workspace {
            Some(workspace) => Some(self.explainer.cluster_of(workspace).await?),
            None => None,
        };
        let cluster = cluster.as_deref();
        let (selected, missing) = match self.explainer.select(selection, cluster) {
            Ok(selected) => (selected, None),
            Err(missing @ ExplainError::NotFound { .. }) => (Vec::new(), Some(missing)),
            Err(error) => return Err(error.into()),
        };
        let mut found: BTreeSet<Key> = selected.iter().map(|(one, id)| one.anchor(id)).collect();
        for publication in &asked {
            let left = self.left(publication).into_iter().filter(|id| {
                cluster.is_none_or(|cluster| cluster == &*id.cluster)
                    && selection.matches(id.namespace.as_deref(), &id.name)
            });
            found.extend(left.map(|id| publication.anchor(&id)));
        }
        if found.is_empty() {
            found.extend(
                asked
                    .iter()
                    .flat_map(|one| self.begun(one, selection, cluster)),
            );
        }
        if let (true, Some(missing)) = (found.is_empty(), missing) {
            return Err(missing.into());
        }
        let mut objects = self.with_publications(found);
        objects.retain(|_, object| self.is_meant(object, published));
        if let Some(name) = selection.name.as_ref().filter(|_| objects.len() > 1) {
            let candidates = objects.values().map(|one| self.describe(&one.object));
            return Err(ReleaseError::Ambiguous {
                kind: selection.kind.clone().unwrap_or_default(),
                name: name.clone(),
                candidates: candidates.collect(),
            });
        }
        Ok(objects.into_values().collect())
    }

    /// The objects, by their keys without the version, each with all publications of its kind.
    fn with_publications(&self, found: BTreeSet<Key>) -> BTreeMap<Key, Releasable> {
        let running = self.explainer.agent.dispatch.running();
        let mut objects = BTreeMap::new();
        for object in found {
            let kind = &object.kind;
            let any_version = object.of_kind(&Gvk::new(&kind.group, "", &kind.kind).into());
            let publications = running.values().filter(|one| {
                (&one.remote_kind.group, &one.remote_kind.kind) == (&kind.group, &kind.kind)
            });
            let publications = publications.map(|one| (Arc::clone(one), one.subject(&object)));
            let publications = publications.collect();
            objects.entry(any_version).or_insert(Releasable {
                object,
                publications,
            });
        }
        objects
    }

    /// Whether an object is of the named published resource: it is not left out by its filter in favour of another one.
    fn is_meant(&self, object: &Releasable, published: Option<&str>) -> bool {
        let Some(name) = published else {
            return true;
        };
        let is_it = |publication: &Publication| publication.plan.name == name;
        let Some((publication, _)) = object.publications.iter().find(|(one, _)| is_it(one)) else {
            return false;
        };
        let wants = |publication: &Publication| {
            let found = self.explainer.trials.present(&object.object);
            found.is_none_or(|found| {
                let namespace = object.object.namespace_key();
                let namespace = namespace.and_then(|key| self.explainer.trials.present(&key));
                publication.compiled().wants(&found, namespace.as_deref())
            })
        };
        let mut others = object.publications.iter().filter(|(one, _)| !is_it(one));
        wants(publication) || !others.any(|(other, _)| wants(other))
    }

    /// The objects that a copy or a state of this agent names.
    fn left(&self, publication: &Publication) -> Vec<SubjectId> {
        let copies = publication.copies().into_iter();
        let copies = copies.filter(|(_, copy)| self.is_ours(copy));
        let copies = copies.filter_map(|(_, copy)| Remote::read(&copy));
        let states = publication.states().map(|states| states.all());
        let states = states.into_iter().flatten();
        let states = states.filter(|(_, state)| self.is_ours(state));
        let states = states.filter_map(|(_, state)| memory::primary_of(&state));
        let states = states.filter(|(_, kind)| *kind == *publication.remote_kind);
        let all = copies.chain(states.map(|(remote, _)| remote));
        all.map(|remote| publication.subject_of(&remote)).collect()
    }

    /// The objects whose release has begun, by the name of their copy: it has no marks any more.
    fn begun(
        &self,
        publication: &Publication,
        selection: &Selection,
        cluster: Option<&str>,
    ) -> Vec<Key> {
        let Some(name) = &selection.name else {
            return Vec::new();
        };
        let sources = publication.sources().into_iter();
        let ids = sources.flat_map(|source| publication.subjects(&source, cluster));
        let anchors = ids.map(|id| publication.anchor(&id));
        let is_it = |key: &Key| {
            self.explainer.trials.present(key).is_some_and(|object| {
                let witness = Witness::read(&object, &self.identity);
                witness.is_some_and(|it| it.names(selection.namespace.as_deref(), name))
            })
        };
        anchors.filter(is_it).collect()
    }

    fn describe(&self, object: &Key) -> String {
        let KeyPlace {
            kind,
            cluster,
            namespace,
            ..
        } = &*object.place;
        let namespace = namespace
            .as_deref()
            .map(|namespace| format!("{namespace}/"));
        let namespace = namespace.unwrap_or_default();
        let path = self.explainer.trials.path_of(cluster);
        let workspace = workspace_name(path.as_deref(), cluster);
        let kind = match &*kind.group {
            "" => kind.kind.clone(),
            group => format!("{}.{group}", kind.kind),
        };
        format!("{kind} {namespace}{} in workspace {workspace}", object.name)
    }
}
