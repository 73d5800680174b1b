//! Published resources that do not run.

use super::process::Agent;
use super::schemas::Manifest;
use crate::explain::is_of_kind;
use crate::publish::projection;
use kube_lang::object::{Gvk, Object};

/// A published resource that does not run, so that its objects are not known.
pub(super) struct Inactive {
    pub(super) name: String,
    /// Group and kind on the service cluster, and in workspaces; `None` if the manifest cannot be read.
    kinds: Option<[(String, String); 2]>,
    /// Whether it is for this agent.
    pub(super) is_selected: bool,
    /// Whether an agent may sync its objects all the same.
    pub(super) may_sync: bool,
    pub(super) why: String,
}

impl Inactive {
    /// `None` for one that runs.
    pub(super) fn of(object: &Object, agent: &Agent, is_gone: bool) -> Option<Self> {
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
        } else if !synchronizes(object) {
            "spec.synchronization is disabled".to_owned()
        } else {
            let publishing = &agent.publishing;
            let mut problems = publishing.change_of(name, None, 0).problems;
            if problems.is_empty() {
                let known = publishing.known.lock();
                let begun = known.get(name).and_then(|known| known.running.clone());
                problems = begun.map(|begun| begun.unseen()).unwrap_or_default();
            }
            if problems.is_empty() {
                problems.push("it has not started".to_owned());
            }
            problems.join("; ")
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
    pub(super) fn may_copy_to(&self, local: &Gvk) -> bool {
        let same = |(group, kind): &(String, String)| *group == local.group && *kind == local.kind;
        self.kinds.as_ref().is_none_or(|[local, _]| same(local))
    }

    /// Whether the kind, with or without its group, may be one of its kinds.
    pub(super) fn is_of_kind(&self, selected: &str) -> bool {
        self.kinds.as_ref().is_none_or(|kinds| {
            kinds.iter().any(|(group, kind)| {
                // The plural is known only of kinds that are served.
                is_of_kind(selected, &Gvk::new(group, "", kind), &format!("{kind}s"))
            })
        })
    }
}

/// Whether an agent may sync objects of a published resource.
pub(super) fn synchronizes(published: &Object) -> bool {
    // What cannot be read may be synced by an agent that can read it.
    Manifest::read(published.as_value()).map_or(true, |manifest| {
        manifest.spec.synchronizes() && !manifest.spec.plans_only()
    })
}
