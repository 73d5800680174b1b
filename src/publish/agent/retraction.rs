//! The checks before a pass deletes anything: whether the object was deleted by its owner, and whether the brake allows
//! it.
//!
//! They run before the first request of a retraction, whichever object it concerns. Related copies and the finalizers
//! of originals are part of their subject.

use super::binding_reader::BindingState;
use super::feeds::secret_kind;
use super::passes::{DeletionState, ObjectPass};
use hawser_runtime::cluster::cache::version;
use hawser_sync::{Key, Request};
use kube_lang::object::Object;

impl DeletionState {
    fn of(anchor: Option<&Object>, keeps: bool) -> Self {
        let deleted = anchor.filter(|anchor| anchor.in_deletion());
        Self {
            retracts: deleted.is_some(),
            keeps,
            version: deleted.and_then(version),
        }
    }
}

impl ObjectPass {
    /// Begins a round with the current published object. Returns whether copies stay in any case.
    pub(super) fn begin_round(&self, anchor: Option<&Object>) -> bool {
        let binding_state = self
            .binding_state
            .get()
            .and_then(|binding_state| binding_state.as_ref().ok());
        let leaves = match binding_state {
            Some(BindingState::Unbinding) => true,
            Some(BindingState::Deleted) => false,
            Some(BindingState::Bound) | None => !self.passes.workspaces.is_bound(&self.id.cluster),
        };
        let keeps = leaves && self.publication.compiled().keeps_on_unbind();
        *self.retraction.lock() = DeletionState::of(anchor, keeps);
        keeps
    }

    /// Whether a request deletes or releases something. Writes to the published object itself and to its memory follow
    /// from that, or are independent of it.
    pub(super) fn is_retraction(&self, request: &Request, retracts: bool) -> bool {
        let Some(key) = request.key().filter(|_| request.writes()) else {
            return false;
        };
        if *key == self.anchor || self.is_state(key) {
            return false;
        }
        let service = &self.passes.sides.service;
        let deletes = matches!(request, Request::Delete { .. }) && key.side == *service;
        retracts || deletes
    }

    pub(super) fn is_state(&self, key: &Key) -> bool {
        let agent = &self.publication.compiled().agent().namespace;
        key.side == self.passes.sides.service
            && key.kind == secret_kind()
            && key.namespace.as_deref() == Some(agent)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_version_of_a_living_object_says_nothing_of_what_is_deleted_with_it() {
        let mut object = json!({
            "apiVersion": "example.com/v1", "kind": "Thing",
            "metadata": {"name": "a", "resourceVersion": "7"},
        });
        let of = |object: &serde_json::Value| {
            let object = Object::new(object.clone()).unwrap();
            let DeletionState {
                retracts, version, ..
            } = DeletionState::of(Some(&object), false);
            (retracts, version)
        };
        assert_eq!(of(&object), (false, None));
        object["metadata"]["deletionTimestamp"] = "now".into();
        assert_eq!(of(&object), (true, Some(7)));
    }
}
