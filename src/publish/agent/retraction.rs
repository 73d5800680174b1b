//! What is asked before a pass takes anything back: whether the object goes by its owner's will, and
//! whether so many may go.
//!
//! It is asked before the first request of a retraction, whichever object that is about. Related copies
//! and the finalizers of originals are a part of their subject.

use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;
use tokio::sync::OnceCell;

use super::bonds::{Bond, Bonds};
use super::braking::Braking;
use super::publication::{Publication, SubjectId, secret_kind};
use super::workspaces::Workspaces;
use crate::publish::rules::Sides;
use hawser_sync::{Failure, Key, Request, Side};
use kube_lang::object::Object;

/// What passes of all objects share.
pub struct Guards<'a> {
    pub sides: &'a Sides,
    pub workspaces: &'a Workspaces,
    pub bonds: &'a Bonds,
    pub braking: &'a Braking,
}

/// The guard of one pass.
pub struct Retraction<'a> {
    guards: Guards<'a>,
    publication: &'a Publication,
    id: &'a SubjectId,
    anchor: Key,
    round: Mutex<Round>,
    bond: OnceCell<Result<Bond, String>>,
    /// Whether anything was to be taken back with the published object.
    asked: AtomicBool,
}

/// What the requests of a round follow from.
#[derive(Clone, Copy, Default)]
struct Round {
    /// The published object is in deletion.
    retracts: bool,
    /// Copies stay.
    keeps: bool,
    /// Of the published object.
    version: Option<u64>,
}

impl<'a> Retraction<'a> {
    pub fn new(guards: Guards<'a>, publication: &'a Publication, id: &'a SubjectId) -> Self {
        Self {
            guards,
            publication,
            id,
            anchor: publication.anchor(id),
            round: Mutex::default(),
            bond: OnceCell::new(),
            asked: AtomicBool::new(false),
        }
    }

    /// Whether the pass has ended without a wish to delete anything.
    pub fn takes_nothing(&self) -> bool {
        let round = *self.round.lock();
        !self.asked.load(Ordering::Relaxed) && (!round.retracts || round.keeps)
    }

    /// Finds out how a workspace ends whose bindings are known to be in deletion.
    pub async fn foresee(&self) {
        let leaves = !self.guards.workspaces.is_bound(&self.id.cluster);
        if leaves
            && self.publication.compiled().keeps_on_unbind()
            && let Ok(bond) = self.guards.bonds.end(&self.id.cluster).await
        {
            // Nobody else sets it before the first round.
            let _ = self.bond.set(Ok(bond));
        }
    }

    /// Begins a round about the published object as it is now; whether copies stay, whatever goes.
    pub fn begin(&self, anchor: Option<&Object>) -> bool {
        let bond = self.bond.get().and_then(|bond| bond.as_ref().ok());
        let leaves = match bond {
            Some(Bond::Unbinding) => true,
            Some(Bond::Deleted) => false,
            Some(Bond::Bound) | None => !self.guards.workspaces.is_bound(&self.id.cluster),
        };
        let keeps = leaves && self.publication.compiled().keeps_on_unbind();
        *self.round.lock() = Round {
            retracts: anchor.is_some_and(Object::in_deletion),
            keeps,
            version: anchor.and_then(|anchor| anchor.resource_version()?.parse().ok()),
        };
        keeps
    }

    /// Whether a request may be sent. Nothing is sent where that is not known.
    pub async fn allows(&self, request: &Request) -> Result<(), Failure> {
        let round = *self.round.lock();
        if round.keeps || !self.takes_back(request, round) {
            return Ok(());
        }
        self.asked.fetch_or(round.retracts, Ordering::Relaxed);
        if self.publication.compiled().keeps_on_unbind() {
            let ask = || self.guards.bonds.ask(&self.id.cluster, round.version);
            let unsure = match self.bond.get_or_init(ask).await {
                Ok(Bond::Bound | Bond::Deleted) => None,
                Ok(Bond::Unbinding) => Some("the workspace binds the API no longer".to_owned()),
                Err(why) => Some(format!("the bindings of the workspace: {why}")),
            };
            if let Some(why) = unsure {
                return Err(Failure::NotSent(why));
            }
        }
        if !round.retracts {
            return Ok(());
        }
        let kind = &self.publication.local_kind;
        let copies = self.publication.copies();
        let asked = self
            .guards
            .braking
            .ask(kind, &self.anchor, &self.id.cluster, copies);
        asked.map_err(|hold| Failure::Held(format!("{hold} has to be approved first")))
    }

    /// Whether a request takes anything back. What is written of the published object itself, and of what is
    /// remembered of it, comes after that or has nothing to do with it.
    fn takes_back(&self, request: &Request, round: Round) -> bool {
        let Some(key) = request.key().filter(|_| request.writes()) else {
            return false;
        };
        if *key == self.anchor || self.is_state(key) {
            return false;
        }
        let service: &Side = &self.guards.sides.service;
        let deletes = matches!(request, Request::Delete { .. }) && key.side == *service;
        round.retracts || deletes
    }

    fn is_state(&self, key: &Key) -> bool {
        let agent = &self.publication.compiled().agent().namespace;
        key.side == self.guards.sides.service
            && key.kind == secret_kind()
            && key.namespace.as_deref() == Some(agent)
    }
}
