//! The runs that a change concerns.

use std::collections::{HashMap, HashSet};

use parking_lot::RwLock;

use hawser_placement::hub::runs::is_over;
use hawser_placement::names;
use hawser_placement::types::runs::UpdateRun;
use hawser_runtime::cluster::cache::{Change, ChangeType};

use super::super::key::{HubKey, PlacementId};
use super::super::objects::read;

/// The runs that are not over, by the placements that they roll out.
#[derive(Default)]
pub struct RunIndex(RwLock<HashMap<PlacementId, HashSet<PlacementId>>>);

impl RunIndex {
    /// Queues the runs that a change concerns.
    pub fn note(&self, change: &Change, add: &impl Fn(HubKey)) {
        let (key, object) = (&change.key, &*change.object);
        let near = |name: &str| PlacementId {
            namespace: key.namespace.clone(),
            name: name.into(),
        };
        match &*key.kind.kind {
            "ClusterStagedUpdateRun" | "StagedUpdateRun" => {
                let id = near(&key.name);
                let run = read::<UpdateRun>(object).ok();
                if let Some(run) = run {
                    let placement = near(&run.spec.placement_name);
                    let is_there = change.what != ChangeType::Gone && !is_over(&run);
                    self.set(placement, &id, is_there);
                }
                add(HubKey::Run(id));
            }
            "ClusterApprovalRequest" | "ApprovalRequest" => {
                let run = object.as_value()["spec"]["parentStageRollout"].as_str();
                if let Some(run) = run {
                    add(HubKey::Run(near(run)));
                }
            }
            "ClusterResourcePlacement" | "ResourcePlacement" => self.of(&near(&key.name), add),
            "ClusterResourceBinding"
            | "ResourceBinding"
            | "ClusterSchedulingPolicySnapshot"
            | "SchedulingPolicySnapshot" => {
                let placement = object.label(names::PARENT_PLACEMENT);
                if let Some(placement) = placement {
                    self.of(&near(placement), add);
                }
            }
            _ => {}
        }
    }

    fn set(&self, placement: PlacementId, run: &PlacementId, is_there: bool) {
        let mut all = self.0.write();
        if is_there {
            all.entry(placement).or_default().insert(run.clone());
        } else if let Some(runs) = all.get_mut(&placement) {
            runs.remove(run);
            if runs.is_empty() {
                all.remove(&placement);
            }
        }
    }

    fn of(&self, placement: &PlacementId, add: &impl Fn(HubKey)) {
        for run in self.0.read().get(placement).into_iter().flatten() {
            add(HubKey::Run(run.clone()));
        }
    }
}
