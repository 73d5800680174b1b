//! What is not released: objects that a running agent syncs, and those of published resources that are not active.

use std::sync::Arc;

use jiff::Timestamp;
use serde_json::Value;

use super::super::explain::{Leader, Selection};
use super::super::inactive::{Inactive, synchronizes};
use super::super::publication::Publication;
use super::super::schemas::PUBLISHED_RESOURCES;
use super::super::subject::SubjectId;
use super::{Releasable, ReleaseError, Releaser};
use crate::publish::pause::Pause;
use crate::publish::release::LiveObject;
use hawser_runtime::cluster::connection::Call;
use hawser_runtime::cluster::wire::segment;
use hawser_sync::{Seen, Store as _};
use kube_lang::object::Object;

impl Releaser {
    /// Fails if the selection may contain objects that are not known.
    pub(super) fn check_active(
        &self,
        selection: &Selection,
        published: Option<&str>,
        asked: &[&Arc<Publication>],
    ) -> Result<(), ReleaseError> {
        let is_of_kind = |one: &Inactive| {
            let kind = selection.kind.as_deref();
            kind.is_none_or(|kind| one.is_of_kind(kind))
        };
        let is_in_the_way = |one: &&Inactive| {
            let is_meant = match published {
                Some(name) => one.name == name,
                // Those of other agents are not meant if this one publishes the kind, or if no kind is named.
                None if selection.kind.is_none() || !asked.is_empty() => {
                    one.is_selected && is_of_kind(one)
                }
                None => is_of_kind(one),
            };
            is_meant || one.may_sync && asked.iter().any(|asked| one.may_copy_to(&asked.local_kind))
        };
        if let Some(one) = self.inactive.iter().find(is_in_the_way) {
            return Err(ReleaseError::NotActive {
                name: one.name.clone(),
                why: one.why.clone(),
            });
        }
        let running = self.explainer.agent.dispatch.running();
        let is_known = |name: &str| running.values().any(|one| one.plan.name == name);
        match published.filter(|name| !is_known(name)) {
            Some(name) => Err(ReleaseError::Unknown(name.to_owned())),
            None => Ok(()),
        }
    }

    /// Fails if a running agent syncs the object, or might.
    pub(super) async fn check_unsynced(
        &self,
        one: &Releasable,
        object: Option<&LiveObject>,
    ) -> Result<(), String> {
        if self.is_agent_stopped {
            return match self.explainer.leader().await {
                Leader::Missing => Ok(()),
                Leader::Present { identity, .. } => Err(format!(
                    "the agent is not stopped: {identity} leads, according to its lease"
                )),
                Leader::Unknown(why) => Err(format!("reading the lease of the agent: {why}")),
            };
        }
        for (publication, id) in &one.publications {
            let name = &publication.plan.name;
            if self.idle.contains(name) {
                self.check_idle(name).await?;
            } else if publication.is_stopped() {
                return Err(format!(
                    "the PublishedResource {name} has changed: repeat the command"
                ));
            } else if self.is_synced(publication, id, object)? {
                return Err(format!(
                    "the agent syncs it, because of the PublishedResource {name}: leave it out with spec.filter, \
                     disable spec.synchronization, pause the PublishedResource or the object in both directions, or \
                     stop the agent and add --agent-stopped"
                ));
            }
        }
        Ok(())
    }

    /// Fails if an agent may sync the objects of this published resource, unlike at the beginning.
    async fn check_idle(&self, name: &str) -> Result<(), String> {
        // The agent may list them, and needs no right to get one.
        let path = format!(
            "{PUBLISHED_RESOURCES}?fieldSelector=metadata.name%3D{}",
            segment(name)
        );
        let mut list = match self.planes.service.ask(Call::get(path)).await {
            Ok(list) => list,
            Err(error) => return Err(format!("reading the PublishedResource {name}: {error}")),
        };
        let items = list.get_mut("items").and_then(Value::as_array_mut);
        let Some(found) = items.and_then(Vec::pop) else {
            return Ok(());
        };
        match Object::new(found) {
            Ok(found) if !synchronizes(&found) => Ok(()),
            _ => Err(format!(
                "the PublishedResource {name} is active again: disable spec.synchronization"
            )),
        }
    }

    /// Whether a running agent writes for the object: it is neither left out nor paused in both directions.
    fn is_synced(
        &self,
        publication: &Publication,
        id: &SubjectId,
        object: Option<&LiveObject>,
    ) -> Result<bool, String> {
        let agent = &self.explainer.agent;
        let (now, compiled) = (Timestamp::now(), publication.compiled());
        let holds = |pause: &Pause| pause.only.is_none() && now < pause.until;
        let is_paused = publication.plan.pause.as_ref().is_some_and(holds);
        let Some(LiveObject { key, object, .. }) = object else {
            return Ok(!is_paused);
        };
        if object.in_deletion() {
            return Err(
                "it is in deletion, and the agent deletes its copy: disable spec.synchronization first"
                    .to_owned(),
            );
        }
        let of_consumer = || Pause::of_consumer(object, agent.options.longest_pause, now);
        if is_paused
            || compiled.consumers_pause()
                && of_consumer().is_ok_and(|pause| pause.as_ref().is_some_and(holds))
        {
            return Ok(false);
        }
        let namespace = key.namespace_key().filter(|_| compiled.needs_namespace());
        let namespace = match namespace.map(|key| agent.cache.get(&key)) {
            Some(Seen::Present(namespace)) => Some(namespace),
            Some(Seen::Absent | Seen::Unknown) => {
                return Err(format!("the namespace of {} is not known", id.name));
            }
            None => None,
        };
        Ok(compiled.wants(object, namespace.as_deref()))
    }
}
