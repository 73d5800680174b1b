//! The switch of published resources: whether a request about one is still wanted when it leaves the process.
//!
//! Between the decision for a request and its turn, a published resource may be deselected, deleted or changed. The
//! watch knows that before the controller gets to it.

use std::sync::Arc;

use super::options::AgentOptions;
use super::schemas::manifest::Manifest;
use crate::publish::types::PublishedResourceSpec;
use hawser_runtime::cluster::cache::Cache;
use hawser_runtime::cluster::connection::Guard;
use hawser_sync::{Scope, Seen, Store as _};
use kube_lang::object::Object;

/// Whether requests about this are still wanted; otherwise the reason. Never waits.
pub type Wanted<T> = Arc<dyn Fn(&T) -> Result<(), String> + Send + Sync>;

/// The guard of a connection for requests about this.
pub fn guard<T: Send + Sync + 'static>(wanted: &Wanted<T>, about: T) -> Arc<Guard<'static>> {
    let wanted = Arc::clone(wanted);
    Arc::new(move || wanted(&about))
}

/// The published resources, as last seen.
pub struct Switch {
    pub cache: Arc<Cache>,
    /// The scope of published resources.
    pub published: Scope,
    pub options: Arc<AgentOptions>,
}

impl Switch {
    /// What asks one of the checks later.
    pub fn wanted<T: 'static>(
        self: &Arc<Self>,
        check: fn(&Self, &T) -> Result<(), String>,
    ) -> Wanted<T> {
        let switch = Arc::clone(self);
        Arc::new(move |about| check(&switch, about))
    }

    /// The published resource of this name, if it is for this agent.
    pub fn selected(&self, name: &str) -> Option<Arc<Object>> {
        match self.cache.get(&self.published.key(None, name)) {
            Seen::Present(object) => self.options.selects(&object).then_some(object),
            Seen::Absent | Seen::Unknown => None,
        }
    }

    /// Whether this is still the published resource of its name, and for this agent.
    pub fn check_selected(&self, name: &str, uid: &str) -> Result<(), String> {
        match self.cache.get(&self.published.key(None, name)) {
            Seen::Present(object) if object.uid() != Some(uid) => Err(gone(name)),
            Seen::Present(object) if !self.options.selects(&object) => Err(format!(
                "the PublishedResource {name} is no longer for this agent"
            )),
            Seen::Absent => Err(gone(name)),
            Seen::Present(_) | Seen::Unknown => Ok(()),
        }
    }

    /// Whether it still asks this agent to write more than its status.
    pub fn check_written(&self, name: &str, uid: &str) -> Result<(), String> {
        self.check_selected(name, uid)?;
        match self.spec(name) {
            Some(spec) if spec.plans_only() => {
                Err(format!("the mode of the PublishedResource {name} is Plan"))
            }
            _ => Ok(()),
        }
    }

    /// Whether it still asks this agent to synchronize objects.
    pub fn check_enabled(&self, name: &str, uid: &str) -> Result<(), String> {
        self.check_written(name, uid)?;
        match self.spec(name) {
            Some(spec) if !spec.synchronizes() => {
                Err(format!("the PublishedResource {name} is disabled"))
            }
            _ => Ok(()),
        }
    }

    /// The specification, if it can be read.
    fn spec(&self, name: &str) -> Option<Arc<PublishedResourceSpec>> {
        let object = self.selected(name)?;
        Some(Manifest::read(object.as_value()).ok()?.spec)
    }

    /// Whether a schema for this manifest is still wanted: it is selected, not in deletion, and asks for the same.
    pub fn check_unchanged(&self, manifest: &Manifest) -> Result<(), String> {
        let name = &manifest.name;
        self.check_written(name, &manifest.uid)?;
        let Some(object) = self.selected(name) else {
            return Ok(());
        };
        if object.in_deletion() {
            return Err(format!("the PublishedResource {name} is being deleted"));
        }
        let generation = &object.as_value()["metadata"]["generation"];
        if generation.as_i64().unwrap_or_default() != manifest.generation {
            return Err(format!("the PublishedResource {name} has changed"));
        }
        Ok(())
    }
}

fn gone(name: &str) -> String {
    format!("the PublishedResource {name} is gone")
}
