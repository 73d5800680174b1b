//! What is not released: objects that a running agent syncs, and those of published resources that are not active.

use std::sync::Arc;

use jiff::Timestamp;
use serde_json::Value;

use super::super::explain::{Explainer, Leader, Selection};
use super::super::publication::{Publication, SubjectId};
use super::super::schemas::{Manifest, PUBLISHED_RESOURCES};
use super::{Releasable, ReleaseError, Releaser};
use crate::publish::pause::Pause;
use crate::publish::projection;
use crate::publish::release::LiveObject;
use hawser_runtime::cluster::connection::Call;
use hawser_runtime::cluster::wire::segment;
use hawser_sync::{Seen, Store as _};
use kube_lang::object::{Gvk, Object};

/// A published resource that does not run, so that its objects are not known.
pub(super) struct Inactive {
    name: String,
    /// Group and kind on the service cluster, and in workspaces; `None` if the manifest cannot be read.
    kinds: Option<[(String, String); 2]>,
    /// Whether it is for this agent.
    is_selected: bool,
    /// Whether an agent may sync its objects all the same.
    may_sync: bool,
    why: String,
}

impl Inactive {
    /// `None` for one that runs.
    pub(super) fn of(object: &Object, explainer: &Explainer, is_gone: bool) -> Option<Self> {
        let agent = &explainer.agent;
        let name = object.name();
        let running = agent.dispatch.running();
        if running.values().any(|one| one.plan.name == name) {
            return None;
        }
        let spec = Manifest::read(object.as_value())
            .ok()
            .map(|manifest| manifest.spec);
        let kinds = spec.map(|spec| {
            let local = (spec.resource.api_group.clone(), spec.resource.kind.clone());
            [local, projection::published_as(&spec)]
        });
        let is_selected = agent.options.selects(object);
        let why = if !is_selected {
            "its labels do not match --published-resource-selector".to_owned()
        } else if object.in_deletion() {
            "it is being deleted".to_owned()
        } else {
            match agent
                .publishing
                .change_of(name, None, 0)
                .problems
                .join("; ")
            {
                problems if problems.is_empty() => "its condition Ready has the reason".to_owned(),
                problems => problems,
            }
        };
        Some(Self {
            name: name.to_owned(),
            kinds,
            is_selected,
            may_sync: is_selected && !is_gone && !object.in_deletion() && synchronizes(object),
            why,
        })
    }

    /// Whether it may publish objects under this kind in workspaces.
    pub(super) fn may_publish(&self, group: &str, kind: &str) -> bool {
        self.kinds
            .as_ref()
            .is_none_or(|[_, remote]| *remote == (group.to_owned(), kind.to_owned()))
    }

    /// Whether it may copy objects to this kind of the service cluster.
    fn may_copy_to(&self, local: &Gvk) -> bool {
        let same = |(group, kind): &(String, String)| *group == local.group && *kind == local.kind;
        self.kinds.as_ref().is_none_or(|[local, _]| same(local))
    }

    fn is_of_kind(&self, selection: &Selection) -> bool {
        self.kinds.as_ref().is_none_or(|kinds| {
            kinds.iter().any(|(group, kind)| {
                // The plural is known only of kinds that are served.
                let plural = format!("{kind}s");
                selection.is_of_kind(&Gvk::new(group, "", kind), &plural)
            })
        })
    }
}

impl Releaser {
    /// Fails if the selection may contain objects that are not known.
    pub(super) fn check_active(
        &self,
        selection: &Selection,
        published: Option<&str>,
        asked: &[&Arc<Publication>],
    ) -> Result<(), ReleaseError> {
        let is_in_the_way = |one: &&Inactive| {
            let is_meant = match published {
                Some(name) => one.name == name,
                // Those of other agents are not meant if this one publishes the kind, or if no kind is named.
                None if selection.kind.is_none() || !asked.is_empty() => {
                    one.is_selected && one.is_of_kind(selection)
                }
                None => one.is_of_kind(selection),
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
        Ok(compiled.left_out_by(object, namespace.as_deref()).is_none())
    }
}

pub(super) fn synchronizes(published: &Object) -> bool {
    // What cannot be read may be synced by an agent that can read it.
    Manifest::read(published.as_value()).map_or(true, |manifest| {
        manifest.spec.synchronizes() && !manifest.spec.plans_only()
    })
}

/// The published resource with synchronization enabled, so that its filters and objects are known.
pub(super) fn enabled(mut published: Value) -> Value {
    if let Some(spec) = published["spec"].as_object_mut() {
        spec.remove("synchronization");
    }
    published
}
