//! The pauses that hold the writes of a pass: those on the published resource, on the copy and on the object.

use jiff::Timestamp;

use super::passes::{ObjectPass, PauseNotes};
use super::publication::Publication;
use super::subject::SubjectId;
use crate::publish::pause::{Pause, PauseProblem, WriteDirection, is_overdue};
use hawser_runtime::controller::Withheld;
use hawser_sync::{Failure, Found, Key, Link, Request, Scope, Seen, Store as _, Target, View};
use kube_lang::object::Object;

impl ObjectPass {
    /// Notes the consumer's pause, as a round over these links read it.
    pub(super) fn note_pause(&self, anchor: &Object, links: &[Link], view: &dyn View) {
        let now = Timestamp::now();
        let mut known = PauseNotes::default();
        let of_object = self.read_consumers(anchor, now);
        let is_paused = matches!(of_object, Ok(Some(_))) || !self.workspace_pauses(now).is_empty();
        known.problem = of_object.err();
        let longest = self.passes.longest_pause;
        for link in links.iter().filter(|_| is_paused) {
            if let Some(source) = link.source.key()
                && let Seen::Present(original) = view.get(source)
                && is_overdue(&original, longest, now)
            {
                known.overdue.push(source.clone());
                if let Target::Named(copy) = &link.target {
                    known.overdue.push(copy.clone());
                }
            }
        }
        *self.consumer_pause.lock() = known;
    }

    /// Holds a request that a pause concerns. Clean-up of deleted objects is never held.
    pub(super) fn check_paused(&self, request: &Request) -> Result<(), Withheld> {
        let Some(key) = request.key().filter(|_| request.writes()) else {
            return Ok(());
        };
        if self.retraction.lock().retracts {
            return Ok(());
        }
        let is_status = matches!(request, Request::ReplaceStatus { .. });
        let comes_back = key.side == self.passes.sides.kcp && (*key != self.anchor || is_status);
        let way = if comes_back {
            WriteDirection::Status
        } else {
            WriteDirection::Spec
        };
        // A consumer's pause does not hold the deletion of objects that the service had copied back.
        let revokes = comes_back && matches!(request, Request::Delete { .. });
        let now = Timestamp::now();
        let of_owner = self.pauses_of_owner();
        let of_consumer = if revokes || self.is_overdue(key) {
            Vec::new()
        } else {
            self.pauses_of_consumer(now)
        };
        let mut pauses = of_owner.into_iter().chain(of_consumer);
        match pauses.find(|(pause, _)| pause.holds(way, now)) {
            None => Ok(()),
            Some((pause, _)) => Err(Withheld {
                put_off: Some(pause.until.duration_since(now).unsigned_abs()),
                failure: Failure::Paused(pause.to_string()),
            }),
        }
    }

    /// The pauses that hold some writes now, in words.
    pub(super) fn pauses(&self) -> Vec<String> {
        let now = Timestamp::now();
        let all = self.pauses_of_owner().into_iter();
        let all = all.chain(self.pauses_of_consumer(now));
        all.filter(|(pause, _)| {
            [WriteDirection::Spec, WriteDirection::Status]
                .iter()
                .any(|way| pause.holds(*way, now))
        })
        .map(|(pause, on)| format!("{pause}; annotations of {on}"))
        .collect()
    }

    /// The pauses of the published resource and of the copy, each with the object that has its annotations.
    fn pauses_of_owner(&self) -> Vec<(Pause, String)> {
        let scope = Scope::new(&self.passes.sides.service, &self.publication.local_kind, "");
        let copies = match self.passes.cache.find(&scope, &self.id.remote().marked()) {
            Found::All(copies) => copies,
            Found::Unknown => Vec::new(),
        };
        let of_copies = copies
            .iter()
            .filter_map(|(key, copy)| Some((written(copy)?, key.to_string())));
        let plan = &self.publication.plan;
        let resource = || format!("PublishedResource {}", plan.name);
        let of_all = plan.pause.clone().map(|pause| (pause, resource()));
        of_all.into_iter().chain(of_copies).collect()
    }

    /// The pauses of the object and of its workspace.
    fn pauses_of_consumer(&self, now: Timestamp) -> Vec<(Pause, String)> {
        let of_workspace = self.workspace_pauses(now).into_iter();
        let on_binding = |pause| (pause, "the APIBinding of its workspace".to_owned());
        let mut pauses: Vec<_> = of_workspace.map(on_binding).collect();
        if let Seen::Present(anchor) = self.passes.cache.get(&self.anchor) {
            let pause = self.read_consumers(&anchor, now).ok().flatten();
            pauses.extend(pause.map(|pause| (pause, "the object".to_owned())));
        }
        pauses
    }

    /// The pauses on the bindings of the workspace; too long ones hold nothing.
    fn workspace_pauses(&self, now: Timestamp) -> Vec<Pause> {
        if !self.publication.compiled().consumers_pause() {
            return Vec::new();
        }
        let longest = self.passes.longest_pause;
        let mut pauses = self.passes.workspaces.pauses(&self.id.cluster);
        pauses.retain(|pause| !pause.is_too_long(longest, now));
        pauses
    }

    fn read_consumers(
        &self,
        anchor: &Object,
        now: Timestamp,
    ) -> Result<Option<Pause>, PauseProblem> {
        if !self.publication.compiled().consumers_pause() {
            return Ok(None);
        }
        Pause::of_consumer(anchor, self.passes.longest_pause, now)
    }

    /// Whether a write serves the deletion of a related original that the pause has held too long: it concerns the
    /// original, its copy, or the record of both.
    fn is_overdue(&self, key: &Key) -> bool {
        let overdue = &self.consumer_pause.lock().overdue;
        overdue.contains(key) || !overdue.is_empty() && self.is_state(key)
    }
}

/// The pause of an object, or `None` if its annotations are incomplete.
fn written(object: &Object) -> Option<Pause> {
    Pause::of(object).ok().flatten()
}

impl Publication {
    /// Records whether a pause holds writes of an object. Returns whether that changed.
    pub(super) fn note_paused(&self, id: &SubjectId, is_paused: bool) -> bool {
        if self.state.read().paused.contains(id) == is_paused {
            return false;
        }
        let paused = &mut self.state.write().paused;
        if is_paused {
            paused.insert(id.clone())
        } else {
            paused.remove(id)
        }
    }

    /// The number of objects with writes that a pause holds.
    pub(super) fn paused(&self) -> usize {
        self.state.read().paused.len()
    }
}
