//! The status of placed objects, written to the objects on the hub.

use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use tracing::warn;

use hawser_placement::hub::mirror::statuses;
use hawser_placement::types::binding::{Binding, ResourceSnapshot};
use hawser_placement::types::placement::{Placement, ResourceIdentifier};
use hawser_placement::types::work::WorkOutline;
use hawser_runtime::cluster::connection::Connection;
use hawser_runtime::cluster::wire::{Endpoint, Router};
use hawser_sync::{Answer, Failure, Request, Scope, Seen, Store as _};
use kube_lang::object::Gvk;

use super::error::HubPassError;
use super::key::HubKey;
use super::objects::HUB;
use super::passes::HubController;

/// The delay after which a status that the hub refused is written again.
const AGAIN: Duration = Duration::from_mins(1);

/// Objects of one resource.
struct OneResource {
    hub: Connection,
    resource: Arc<str>,
}

impl Router for OneResource {
    fn endpoint(&self, _: &Scope) -> Option<Endpoint> {
        Some(Endpoint {
            connection: self.hub.clone(),
            resource: Arc::clone(&self.resource),
        })
    }
}

impl HubController {
    /// Writes what the cluster of a placement reports; returns when to try again what was refused.
    pub(super) async fn mirror(
        &self,
        by: &HubKey,
        placement: &Placement,
        bindings: &[Binding],
        works: &[WorkOutline],
        snapshots: &[ResourceSnapshot],
    ) -> Result<Option<Duration>, HubPassError> {
        let mut again = None;
        for (of, status) in statuses(placement, bindings, works, snapshots) {
            if let Some(problem) = self.mirror_one(by, &of, status).await? {
                let (kind, name) = (&*of.kind, &*of.name);
                warn!(kind, name, problem, "cannot write a status that came back");
                again = Some(AGAIN);
            }
        }
        Ok(again)
    }

    /// Writes a status; returns the problem if the hub refuses it.
    async fn mirror_one(
        &self,
        by: &HubKey,
        of: &ResourceIdentifier,
        status: &Value,
    ) -> Result<Option<String>, HubPassError> {
        let kind = Arc::new(Gvk::new(&of.group, &of.version, &of.kind));
        let Some(resource) = self.selectable.resource(&kind) else {
            return Ok(None);
        };
        let near = Some(&*of.namespace).filter(|namespace| !namespace.is_empty());
        let key = Scope::new(&HUB, &kind, "").key(near, &of.name);
        // An object that is gone from the hub is about to leave the member.
        let Seen::Present(known) = self.cache.get(&key) else {
            return Ok(None);
        };
        if known.is_fragment() || known.root().get("status") == Some(status) {
            return Ok(None);
        }
        let mut object = (*known).clone();
        object
            .root_mut()
            .insert("status".to_owned(), status.clone());
        let router = OneResource {
            hub: self.hub.clone(),
            resource: resource.into(),
        };
        let request = Request::ReplaceStatus { key, object };
        let sent = self.client.send(&router, None, &|| Ok(()), &request).await;
        let (answer, changes) = sent.map_err(|contest| HubPassError::Contested(contest.wait))?;
        for change in &changes {
            self.events.note(change, Some(by));
        }
        match answer {
            Answer::Failed(Failure::Conflict | Failure::OtherIncarnation) => {
                Err(HubPassError::Stale)
            }
            Answer::Failed(failure) => Ok(Some(failure.to_string())),
            _ => Ok(None),
        }
    }
}
