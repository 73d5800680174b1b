//! The brakes of all kinds of copies, and the approvals of owners.

use std::collections::{BTreeSet, HashMap};
use std::fmt;
use std::hash::{BuildHasher as _, RandomState};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

use crate::cluster::brake::{Brake, BrakeOptions, Cause, CopyCounts, Hold, Phase, Verdict};
use crate::overview::HeldOverview;
use hawser_sync::{Failure, Key};
use kube_lang::object::Gvk;

/// The annotation by which an owner approves holds.
pub const APPROVAL: &str = "hawser.dev/approve-deletions";

/// A deletion that a brake decides about.
#[derive(Clone, Debug)]
pub struct Deletion {
    /// The kind of the copies. Each kind has a separate brake.
    pub kind: Arc<Gvk>,
    /// The key under which the deletion counts once.
    pub key: Key,
    pub tenant: Arc<str>,
    pub stock: CopyCounts,
}

/// The held deletions of a kind, for its owner.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeldDeletions {
    pub count: usize,
    /// The cause of the oldest hold.
    pub why: String,
    /// The ids of the holds, separated by commas.
    pub ids: String,
}

impl HeldDeletions {
    /// The annotation that approves them, for a manifest.
    pub fn annotation(&self) -> String {
        format!("{APPROVAL}: {}", self.ids)
    }

    /// For the page, with the command that approves them on an object, such as `deployment web`.
    pub fn overview(self, object: &str) -> HeldOverview {
        let approval = format!(
            "kubectl annotate {object} --overwrite {APPROVAL}={}",
            self.ids
        );
        HeldOverview {
            count: self.count,
            why: self.why,
            approval,
        }
    }
}

/// A change of the holds of a kind.
#[derive(Debug)]
pub struct BrakeChange<'a> {
    pub kind: &'a Arc<Gvk>,
    /// The number of deletions that are held now.
    pub held: usize,
    /// Holds that are new.
    pub new: Vec<Hold>,
}

type BrakeObserver = dyn Fn(&BrakeChange<'_>) + Send + Sync;

/// One brake for each kind; none if they are switched off.
pub struct BrakeRegistry {
    options: Option<BrakeOptions>,
    start: Instant,
    brakes: Mutex<HashMap<Arc<Gvk>, Brake<Key>>>,
    observer: Box<BrakeObserver>,
}

impl BrakeRegistry {
    /// Called while the brakes are locked.
    pub fn new(
        options: Option<BrakeOptions>,
        observer: impl Fn(&BrakeChange<'_>) + Send + Sync + 'static,
    ) -> Arc<Self> {
        Arc::new(Self {
            options,
            start: Instant::now(),
            brakes: Mutex::default(),
            observer: Box::new(observer),
        })
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
        let (count, holds) = (brake.count(), brake.held());
        let answer = what(brake, self.start.elapsed());
        let (held, now) = (brake.count(), brake.held());
        let is_new = |hold: &Hold| !holds.iter().any(|known| known.id == hold.id);
        if (count, holds.len()) != (held, now.len()) || now.iter().any(is_new) {
            let new = now.iter().filter(|hold| is_new(hold)).cloned().collect();
            (self.observer)(&BrakeChange { kind, held, new });
        }
        Some(answer)
    }

    /// Decides whether something may be deleted now.
    pub fn ask(&self, deletion: &Deletion) -> Result<(), Failure> {
        let Deletion {
            kind,
            key,
            tenant,
            stock,
        } = deletion;
        match self.with(kind, |brake, now| brake.ask(key, tenant, now, *stock)) {
            None | Some(Verdict::Go) => Ok(()),
            Some(Verdict::Held(id)) => Err(Failure::Held(format!("hold {id} is not approved"))),
        }
    }

    /// A pass ended without deleting.
    pub(crate) fn withdraw(&self, kind: &Arc<Gvk>, key: &Key) {
        let known = self.brakes.lock().contains_key(kind);
        if known {
            self.with(kind, |brake, now| brake.withdraw(key, now));
        }
    }

    /// Withdraws the deletions of tenants whose objects are another process's from now on.
    pub fn leave(&self, kind: &Arc<Gvk>, is_meant: impl Fn(&str) -> bool) {
        let known = self.brakes.lock().contains_key(kind);
        if known {
            self.with(kind, |brake, now| brake.leave(&is_meant, now));
        }
    }

    /// Releases the holds that an owner approves; returns whether any of them existed.
    pub fn approve(&self, kind: &Arc<Gvk>, ids: &str) -> bool {
        self.with(kind, |brake, _| brake.approve(ids)) == Some(true)
    }

    /// Takes over the hold that an earlier process announced.
    pub fn resume(&self, kind: &Arc<Gvk>, id: &str) {
        self.with(kind, |brake, now| brake.resume(id, now));
    }

    /// Takes over the part of a hold of another process that concerns these tenants.
    pub fn resume_for(
        &self,
        kind: &Arc<Gvk>,
        id: &str,
        tenants: impl Fn(&str) -> bool + Send + Sync + 'static,
    ) {
        self.with(kind, |brake, now| brake.resume_for(id, tenants, now));
    }

    /// Counts the deletions that are known from the start.
    pub fn hold_from_start(&self, kind: &Arc<Gvk>, going: usize, copies: usize) {
        self.with(kind, |brake, now| brake.hold_from_start(going, copies, now));
    }

    /// A cause that makes objects look deleted begins.
    pub fn doubt(&self, kind: &Arc<Gvk>, cause: Cause) {
        self.with(kind, |brake, _| brake.cause(cause, Phase::Begins));
    }

    /// Whether there is such a cause.
    pub fn is_in_doubt(&self, kind: &Arc<Gvk>) -> bool {
        let brakes = self.brakes.lock();
        brakes.get(kind).is_some_and(Brake::is_in_doubt)
    }

    /// Ends the cause, if no deletion is left that it made doubtful.
    pub fn end_doubt(&self, kind: &Arc<Gvk>) {
        self.with(kind, |brake, _| {
            if brake.count() == 0 {
                brake.end_causes();
            }
        });
    }

    /// The number of held deletions of a kind.
    pub fn count(&self, kind: &Arc<Gvk>) -> usize {
        self.brakes.lock().get(kind).map_or(0, Brake::count)
    }

    /// The tenants whose deletions are held.
    pub fn held_tenants(&self, kind: &Arc<Gvk>) -> BTreeSet<Arc<str>> {
        let brakes = self.brakes.lock();
        let tenants = brakes.get(kind).map(Brake::held_tenants);
        tenants.unwrap_or_default()
    }

    /// The held deletions of a kind.
    pub fn held(&self, kind: &Arc<Gvk>) -> Option<HeldDeletions> {
        let brakes = self.brakes.lock();
        let brake = brakes.get(kind)?;
        let holds = brake.held();
        let ids: Vec<&str> = holds.iter().map(|hold| &*hold.id.0).collect();
        Some(HeldDeletions {
            count: brake.count(),
            why: holds.first()?.why.to_string(),
            ids: ids.join(","),
        })
    }
}

impl fmt::Debug for BrakeRegistry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BrakeRegistry").finish_non_exhaustive()
    }
}
