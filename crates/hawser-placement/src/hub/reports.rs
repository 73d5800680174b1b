//! The copy of a placement's status in the namespace that it places, for users who cannot read the placement.

use serde_json::json;

use super::view::PlacementView;
use super::{HubWrite, complete};
use crate::reporting::{is_reported, namespace};
use crate::snapshots::{Scope, owned};
use crate::status::is_same;
use crate::types::placement::{Placement, PlacementStatus};
use crate::types::{Condition, ConditionStatus};

/// The kind of the copy.
pub const KIND: &str = "ClusterResourcePlacementStatus";
const SYNCED: &str = "ClusterResourcePlacementStatusSynced";

/// Writes the copy of a status, if it is another one, or adds to the status whether the copy could be written.
pub(super) fn write(
    view: &PlacementView<'_>,
    placement: &Placement,
    status: &mut PlacementStatus,
) -> Option<HubWrite> {
    if !is_reported(placement) {
        return None;
    }
    let failure = view.failures.report.as_deref();
    let target = namespace(placement);
    let failure = failure.or_else(|| {
        let unnamed = "The namespace is not selected by its name";
        target.is_none().then_some(unnamed)
    });
    if let (None, Some(namespace)) = (failure, target) {
        match view.report {
            // The times and messages of the copy count: the two are the same.
            Some(known) if is_same(status, &known.source_status) => {
                status.clone_from(&known.source_status);
            }
            Some(known) => {
                let mut copy = json!({"sourceStatus": status, "lastUpdatedTime": view.time});
                complete(&mut copy["sourceStatus"], &json!(known.source_status));
                return Some(HubWrite::patch(KIND, &known.metadata, copy));
            }
            None => {
                let mut object = owned(placement, Scope::Cluster, KIND, &placement.metadata.name);
                object["metadata"]["namespace"] = namespace.into();
                object["sourceStatus"] = json!(status);
                object["lastUpdatedTime"] = view.time.into();
                return Some(HubWrite::Create(object));
            }
        }
    }
    let (truth, reason, message) = match (failure, target) {
        (None, Some(namespace)) => (
            ConditionStatus::True,
            "StatusSyncSucceeded",
            format!("The status is copied to namespace {namespace}"),
        ),
        (failure, _) => (
            ConditionStatus::False,
            "StatusSyncFailed",
            format!(
                "The status cannot be copied: {}",
                failure.unwrap_or_default()
            ),
        ),
    };
    let mut synced = [Condition {
        type_: SYNCED.to_owned(),
        status: truth,
        observed_generation: placement.metadata.generation,
        last_transition_time: view.time.to_owned(),
        reason: reason.to_owned(),
        message,
    }];
    crate::status::settle(&mut synced, &placement.status.conditions);
    status.conditions.extend(synced);
    None
}
