//! Held deletions, as owners of published resources see them: shown in the condition, approved by an annotation.

use std::sync::Arc;

use super::options::DeletionBrake;
use crate::publish::ready::READY;
use hawser_runtime::cluster::brake::BrakeOptions;
use hawser_runtime::controller::BrakeRegistry;
use hawser_runtime::controller::brakes::APPROVAL;
use kube_lang::object::{Gvk, Object};

/// The reason of the condition while deletions are held.
pub const HELD: &str = "DeletionsHeld";

/// `None` if brakes are switched off.
pub fn options(brake: DeletionBrake) -> Option<BrakeOptions> {
    match brake {
        DeletionBrake::Off => None,
        DeletionBrake::Share(share) => Some(BrakeOptions {
            share: percent(share),
            ..BrakeOptions::default()
        }),
    }
}

/// Reads the owner's approvals; returns whether any hold was released.
pub fn apply(brakes: &BrakeRegistry, kind: &Arc<Gvk>, published: &Object) -> bool {
    let ids = published.annotation(APPROVAL);
    ids.is_some_and(|ids| brakes.approve(kind, ids))
}

/// Takes over the hold that an earlier process announced.
pub fn resume(brakes: &BrakeRegistry, kind: &Arc<Gvk>, published: &Object) {
    if let Some(id) = announced(published) {
        brakes.resume(kind, &id);
    }
}

/// The first id in a condition about holds.
fn announced(published: &Object) -> Option<String> {
    let status = published.root().get("status")?;
    let conditions = status.get("conditions")?.as_array()?;
    let mut ready = conditions
        .iter()
        .filter(|c| c["type"] == READY && c["reason"] == HELD);
    let message = ready.next()?["message"].as_str()?;
    let (_, ids) = message.split_once(&format!("{APPROVAL}: "))?;
    let id = ids.split([',', ';', ' ', '.']).next()?;
    (!id.is_empty()).then(|| id.to_owned())
}

#[allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a share lies between 0 and 1"
)]
fn percent(share: f64) -> u8 {
    (share * 100.0).round().clamp(0.0, 100.0) as u8
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_hold_is_found_in_the_condition_that_told_of_it() {
        let of = |reason: &str, message: &str| {
            let condition = json!({"type": "Ready", "reason": reason, "message": message});
            let object = json!({"status": {"conditions": [condition]}});
            announced(&Object::new(object).unwrap())
        };
        let told = "2 deletions wait; to let them go, annotate with hawser.dev/approve-deletions: hold-1,hold-2";
        assert_eq!(of(HELD, told).as_deref(), Some("hold-1"));
        assert_eq!(of("Synchronizing", told), None);
        assert_eq!(of(HELD, "nothing of it"), None);
    }

    #[test]
    fn shares_become_percents() {
        assert_eq!((percent(0.5), percent(1.0), percent(0.001)), (50, 100, 0));
    }
}
