//! Schemas that another agent publishes: the leader, or an agent that has this controller.

use std::sync::Arc;

use super::Publishing;
use crate::publish::agent::export::Progress;
use crate::publish::agent::options::Controller;
use crate::publish::agent::schemas::{Manifest, Settled};
use crate::publish::agent::share::Share;
use kube_lang::object::Object;

impl Publishing {
    /// The schema that the status records; `None` if objects are not synced by these rules yet. Another record queues the
    /// published resource again.
    pub(super) fn recorded_schema(
        &self,
        name: &Arc<str>,
        object: &Object,
        manifest: &Manifest,
        settled: &Settled,
    ) -> Option<String> {
        let Some(recorded) = manifest.recorded.clone() else {
            self.stop(name);
            self.note(name, |known| known.member.progress = Progress::Pending);
            return None;
        };
        // Rules of another schema wait until the leader has published it.
        let is_new = recorded != settled.schema && self.runs_with_other(name, &settled.schema);
        if is_new && self.waits_for_leader() {
            self.apply_approvals(name, object);
            return None;
        }
        Some(recorded)
    }

    /// Whether another replica publishes schemas while this one works on its shards.
    fn waits_for_leader(&self) -> bool {
        let schemas = Controller::ApiResourceSchema;
        let has_shards = matches!(self.dispatch.share, Share::Shards(_));
        has_shards && !self.leads() && !self.options.disabled.contains(&schemas)
    }

    /// Whether objects are synced by the rules of another schema.
    fn runs_with_other(&self, name: &Arc<str>, schema: &str) -> bool {
        let all = self.known.lock();
        let running = all.get(name).and_then(|known| known.running.as_ref());
        running.is_some_and(|running| running.plan.schema != schema)
    }
}
