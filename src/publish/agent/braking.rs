//! The brakes of all kinds, where passes and owners meet them.

use std::collections::HashMap;
use std::hash::{BuildHasher as _, RandomState};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::watch;
use tokio::time::Instant;

use super::options::DeletionBrake;
use crate::publish::ready::{HeldDeletions, READY};
use hawser_runtime::cluster::brake::{Brake, BrakeOptions, HoldId, Verdict};
use hawser_runtime::process::metrics::Metrics;
use hawser_sync::Key;
use kube_lang::object::{Gvk, Object};

/// The annotation of a published resource that names holds to be released.
pub const APPROVAL: &str = "hawser.dev/approve-deletions";
/// The reason of the condition of a published resource that has holds.
pub const HELD: &str = "DeletionsHeld";

/// One brake a kind of copies, which counts the objects that these belong to; none at all where they are
/// switched off.
pub struct Braking {
    options: Option<BrakeOptions>,
    start: Instant,
    metrics: Arc<Metrics>,
    brakes: Mutex<HashMap<Arc<Gvk>, Brake<Key>>>,
    /// Counts up whenever something was held or released.
    changed: watch::Sender<u64>,
}

impl Braking {
    pub fn new(brake: DeletionBrake, metrics: &Arc<Metrics>) -> Self {
        let options = match brake {
            DeletionBrake::Off => None,
            DeletionBrake::Share(share) => Some(BrakeOptions {
                share: percent(share),
                ..BrakeOptions::default()
            }),
        };
        Self {
            options,
            start: Instant::now(),
            metrics: Arc::clone(metrics),
            brakes: Mutex::default(),
            changed: watch::Sender::new(0),
        }
    }

    /// Tells when something was held or released.
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.changed.subscribe()
    }

    fn with<T>(
        &self,
        kind: &Arc<Gvk>,
        what: impl FnOnce(&mut Brake<Key>, Duration) -> T,
    ) -> Option<T> {
        let options = self.options?;
        let mut brakes = self.brakes.lock();
        let seed = || RandomState::new().hash_one(());
        let brake = brakes
            .entry(Arc::clone(kind))
            .or_insert_with(|| Brake::new(options, seed()));
        let before = (brake.count(), brake.held().len());
        let answer = what(brake, self.start.elapsed());
        let after = (brake.count(), brake.held().len());
        if before != after {
            self.metrics.held_deletions(&kind.kind, after.0);
            self.changed.send_modify(|changes| *changes += 1);
        }
        Some(answer)
    }

    /// Something else that owners are told of has changed.
    pub fn stir(&self) {
        self.changed.send_modify(|changes| *changes += 1);
    }

    /// Whether what was made for an object may be taken back now, of so many copies of the kind that there
    /// are.
    pub fn ask(
        &self,
        kind: &Arc<Gvk>,
        object: &Key,
        workspace: &str,
        copies: usize,
    ) -> Result<(), HoldId> {
        match self.with(kind, |brake, now| brake.ask(object, workspace, now, copies)) {
            None | Some(Verdict::Go) => Ok(()),
            Some(Verdict::Held(id)) => Err(id),
        }
    }

    /// A pass that took nothing back for an object has ended.
    pub fn withdraw(&self, kind: &Arc<Gvk>, object: &Key) {
        let known = self.brakes.lock().contains_key(kind);
        if known {
            self.with(kind, |brake, now| brake.withdraw(object, now));
        }
    }

    /// Takes what the owner says about holds; whether any of them was released.
    pub fn hear(&self, kind: &Arc<Gvk>, published: &Object) -> bool {
        let Some(ids) = published.annotation(APPROVAL) else {
            return false;
        };
        self.with(kind, |brake, _| brake.approve(ids)) == Some(true)
    }

    /// Takes over the hold that a process before this one announced.
    pub fn resume(&self, kind: &Arc<Gvk>, published: &Object) {
        if let Some(id) = announced(published) {
            self.with(kind, |brake, now| brake.resume(&id, now));
        }
    }

    /// What is held of a kind, for its owner.
    pub fn held(&self, kind: &Arc<Gvk>) -> Option<HeldDeletions> {
        let brakes = self.brakes.lock();
        let brake = brakes.get(kind)?;
        let holds = brake.held();
        let first = holds.first()?;
        let ids: Vec<&str> = holds.iter().map(|hold| &*hold.id.0).collect();
        Some(HeldDeletions {
            count: brake.count(),
            why: first.why.to_string(),
            approval: format!("{APPROVAL}: {}", ids.join(",")),
        })
    }
}

/// The first id in the condition that tells of holds.
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
