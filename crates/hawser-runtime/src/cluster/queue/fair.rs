//! The queue itself: which key runs next, and when a key comes back. Pure; the caller passes the time.

use std::collections::hash_map::Entry;
use std::collections::{BTreeSet, HashMap, HashSet};
use std::hash::Hash;
use std::sync::Arc;
use std::time::Duration;

use super::backoff::wait_after;
use super::state::{Depth, Outcome, QueueState, Urgency};
use super::turns::{QueuePosition, TenantId, Turns};

/// This many consecutive failures may be cut short by every live change. After that, an object that changes and fails
/// all the time gets one attempt for each [`MIN_RETRY`] beside its back-off.
const FREE_RETRIES: u32 = 5;
const MIN_RETRY: Duration = Duration::from_secs(1);

/// A key that runs longer makes its tenant slow,
const LONG: Duration = Duration::from_secs(5);
/// already after this time while other tenants wait and all workers are busy,
pub(super) const HANGS: Duration = Duration::from_secs(2);
/// and for this time after the run ends.
const REMEMBERED: Duration = Duration::from_mins(1);

/// An empty queue releases its memory if it once held more than this.
const KEPT_SLOTS: usize = 1024;

/// Waiting keys, running keys, and the order of turns. Every operation except [`Fair::forget`], [`Fair::retry`] and
/// [`Fair::oldest`] takes logarithmic time in the number of keys.
#[derive(Debug)]
pub struct Fair<K> {
    index: HashMap<K, u32>,
    /// The slots of each tenant.
    of_tenant: HashMap<TenantId, HashSet<u32>>,
    slots: Vec<Option<QueuedKey<K>>>,
    free: Vec<u32>,
    /// Keys that are not ready before a time.
    delayed: BTreeSet<(Duration, u32)>,
    /// Running keys, by the time at which they were taken.
    running: BTreeSet<(Duration, u32)>,
    /// Running keys that do not count as long yet.
    brief: BTreeSet<(Duration, u32)>,
    /// The number of running keys that were notified to end.
    given_up: usize,
    /// The time of the next check whether a tenant is still slow.
    forgiving: BTreeSet<(Duration, TenantId)>,
    turns: Turns,
    /// The number of times that a key became ready.
    seq: u64,
    retries: u64,
}

/// The result of [`Fair::take`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Take<K> {
    Key(Taken<K>),
    /// Nothing may run before this time, unless a key is added or returned.
    Wait(Duration),
    /// Nothing may run until a key is added or returned.
    Empty,
}

/// A key whose turn it is. It runs until [`Fair::done`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Taken<K> {
    pub key: K,
    pub urgency: Urgency,
    /// The time for which it was ready before it was taken.
    pub waited: Duration,
    /// One more than the consecutive failures before.
    pub attempt: u32,
}

#[derive(Debug)]
struct QueuedKey<K> {
    key: K,
    tenant: TenantId,
    urgency: Urgency,
    state: KeyState,
    failures: u32,
    /// The time at which it was last taken.
    taken: Duration,
    /// Whether its run counts as long,
    long: bool,
    /// Whether it was notified to end.
    given_up: bool,
    /// The time at which its last run ended.
    finished: Duration,
}

#[derive(Clone, Copy, Debug)]
enum KeyState {
    Delayed(Duration),
    Ready(QueuePosition),
    Running { again: Option<Due>, fate: Fate },
}

/// Whether the result of a running key still counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    Wanted,
    Forgotten,
}

/// The time from which a key may run, and the urgency that it has then.
#[derive(Clone, Copy, Debug)]
pub struct Due {
    pub at: Duration,
    pub urgency: Urgency,
}

impl Due {
    /// Two wishes merged: the earlier time, the more urgent lane.
    fn and(self, other: Option<Self>) -> Self {
        other.map_or(self, |other| Self {
            at: self.at.min(other.at),
            urgency: self.urgency.min(other.urgency),
        })
    }
}

impl<K> QueuedKey<K> {
    /// A wish with the earliest time of the next attempt that it may cause. A key in back-off reacts to live changes
    /// only: they may fix the failure.
    fn allowed(&self, wish: Due) -> Due {
        let at = match (self.failures, wish.urgency) {
            (0, _) | (1..=FREE_RETRIES, Urgency::Live) => wish.at,
            (_, Urgency::Live) => wish.at.max(self.finished.saturating_add(MIN_RETRY)),
            (_, Urgency::Initial | Urgency::Resync) => Duration::MAX,
        };
        Due { at, ..wish }
    }
}

impl<K: Clone + Eq + Hash> Fair<K> {
    /// A queue in which one tenant can have this many running keys, at least one.
    pub fn new(per_tenant: usize) -> Self {
        Self {
            index: HashMap::new(),
            of_tenant: HashMap::new(),
            slots: Vec::new(),
            free: Vec::new(),
            delayed: BTreeSet::new(),
            running: BTreeSet::new(),
            brief: BTreeSet::new(),
            given_up: 0,
            forgiving: BTreeSet::new(),
            turns: Turns::new(per_tenant),
            seq: 0,
            retries: 0,
        }
    }

    /// Limits the running keys of tenants with long runs to this many in total, at least one, so that the rest is left
    /// to other tenants.
    #[must_use]
    pub(crate) fn with_slow(self, of_slow: usize) -> Self {
        Self {
            turns: self.turns.with_slow(of_slow),
            ..self
        }
    }

    /// Sets the number of workers: the fewer are left, the fewer keys one tenant may run.
    #[must_use]
    pub(crate) fn with_workers(self, workers: usize) -> Self {
        Self {
            turns: self.turns.with_workers(workers),
            ..self
        }
    }

    /// Adds a key that is due now or later. A waiting key is only brought forward. A running one comes back when it is
    /// due, or right after its run if that is later.
    pub fn add(&mut self, key: K, tenant: &Arc<str>, wish: Due, now: Duration) {
        let Some(id) = self.index.get(&key).copied() else {
            let id = self.insert(key, tenant, wish.urgency);
            return self.settle(id, wish, now);
        };
        let slot = self.slots[id as usize]
            .as_mut()
            .expect("the index names occupied slots only");
        match slot.state {
            KeyState::Running { again, fate } => {
                slot.state = KeyState::Running {
                    again: Some(wish.and(again)),
                    fate,
                };
            }
            KeyState::Ready(place) if wish.urgency < slot.urgency => {
                self.turns.remove(slot.tenant, slot.urgency, place);
                slot.urgency = wish.urgency;
                self.turns.push(slot.tenant, slot.urgency, place);
            }
            KeyState::Ready(_) => {}
            KeyState::Delayed(at) => {
                let own = Due {
                    at,
                    urgency: slot.urgency,
                };
                let due = own.and(Some(slot.allowed(wish)));
                self.delayed.remove(&(at, id));
                self.settle(id, due, now);
            }
        }
    }

    /// The next key, if one may run now.
    pub fn take(&mut self, now: Duration) -> Take<K> {
        self.promote(now);
        self.time(now);
        let Some(place) = self.turns.next() else {
            return match self.delayed.first() {
                Some((at, _)) => Take::Wait(*at),
                None => Take::Empty,
            };
        };
        let slot = self.slots[place.slot as usize]
            .as_mut()
            .expect("only occupied slots stand in a line");
        slot.state = KeyState::Running {
            again: None,
            fate: Fate::Wanted,
        };
        slot.taken = now;
        slot.long = false;
        slot.given_up = false;
        self.running.insert((now, place.slot));
        self.brief.insert((now, place.slot));
        Take::Key(Taken {
            key: slot.key.clone(),
            urgency: slot.urgency,
            waited: now.saturating_sub(place.ready),
            attempt: slot.failures.saturating_add(1),
        })
    }

    /// The result of a key that was taken. `random` spreads the back-off.
    pub fn done(&mut self, key: &K, outcome: Outcome, now: Duration, random: u64) {
        self.time(now);
        let Some(id) = self.index.get(key).copied() else {
            return;
        };
        let slot = self.slots[id as usize]
            .as_mut()
            .expect("the index names occupied slots only");
        let KeyState::Running { again, fate } = slot.state else {
            return;
        };
        slot.finished = now;
        self.running.remove(&(slot.taken, id));
        self.given_up -= usize::from(slot.given_up);
        self.turns.finished(slot.tenant);
        if slot.long {
            let forgiven = now.saturating_add(REMEMBERED);
            self.turns.took_long(slot.tenant, forgiven);
            self.forgiving.insert((forgiven, slot.tenant));
        } else {
            self.brief.remove(&(slot.taken, id));
        }
        let outcome = match fate {
            Fate::Wanted => outcome,
            Fate::Forgotten => Outcome::Settled,
        };
        let urgency = slot.urgency;
        let due = match outcome {
            Outcome::Settled => {
                slot.failures = 0;
                again
            }
            Outcome::Again(after) => {
                slot.failures = 0;
                let own = Due {
                    at: now.saturating_add(after),
                    // What can wait is not in front of what just changed.
                    urgency: urgency.max(if after.is_zero() {
                        Urgency::Live
                    } else {
                        Urgency::Initial
                    }),
                };
                Some(own.and(again))
            }
            Outcome::Failed(after) => {
                slot.failures = slot.failures.saturating_add(1);
                self.retries += 1;
                let wait = wait_after(slot.failures, after, random);
                let own = Due {
                    at: now.saturating_add(wait),
                    urgency,
                };
                Some(own.and(again.map(|wish| slot.allowed(wish))))
            }
        };
        match due {
            Some(due) => self.settle(id, due, now),
            None => self.drop_slot(id),
        }
    }

    /// The keys that are to end now, for tenants that are not slow and wait without having a worker: keys of slow
    /// tenants beyond their share, the youngest first. Each is returned once.
    pub fn give_up(&mut self, now: Duration) -> Vec<K> {
        self.promote(now);
        self.time(now);
        let number = self.turns.to_end().saturating_sub(self.given_up);
        let mut given_up = Vec::new();
        for (_, id) in self.running.iter().rev() {
            if given_up.len() == number {
                break;
            }
            if let Some(slot) = &mut self.slots[*id as usize]
                && slot.long
                && !slot.given_up
            {
                slot.given_up = true;
                given_up.push(slot.key.clone());
            }
        }
        self.given_up += given_up.len();
        given_up
    }

    /// Drops every key that the caller selects, whatever it waits for. A running key is dropped after its run, whatever
    /// the result, unless it is added again.
    pub fn forget(&mut self, mut gone: impl FnMut(&K) -> bool) {
        let slots = self.slots.iter().flatten();
        let keys = slots.map(|slot| &slot.key).filter(|key| gone(key));
        let slots: Vec<u32> = keys
            .filter_map(|key| self.index.get(key).copied())
            .collect();
        for id in slots {
            self.forget_slot(id);
        }
    }

    /// Drops the keys of one tenant, without looking at those of others.
    pub fn forget_tenant(&mut self, tenant: &str) {
        for id in self.slots_of(tenant) {
            self.forget_slot(id);
        }
    }

    fn forget_slot(&mut self, id: u32) {
        let Some(slot) = &mut self.slots[id as usize] else {
            return;
        };
        match slot.state {
            KeyState::Running { .. } => {
                slot.state = KeyState::Running {
                    again: None,
                    fate: Fate::Forgotten,
                };
            }
            KeyState::Delayed(at) => {
                self.delayed.remove(&(at, id));
                self.drop_slot(id);
            }
            KeyState::Ready(place) => {
                self.turns.remove(slot.tenant, slot.urgency, place);
                self.drop_slot(id);
            }
        }
    }

    /// The cause of the failures has changed: failed keys are ready now, as if they had never failed. A running key may
    /// have seen the earlier state.
    pub fn retry(&mut self, mut meant: impl FnMut(&K) -> bool, now: Duration) {
        for id in 0..self.slots.len() {
            if self.slots[id].as_ref().is_some_and(|slot| meant(&slot.key)) {
                let id = u32::try_from(id).expect("slots are numbered in 32 bits");
                self.retry_slot(id, now);
            }
        }
    }

    /// The same for all keys of a tenant.
    pub fn retry_tenant(&mut self, tenant: &str, now: Duration) {
        for id in self.slots_of(tenant) {
            self.retry_slot(id, now);
        }
    }

    fn retry_slot(&mut self, id: u32, now: Duration) {
        let Some(slot) = self.slots[id as usize].as_mut() else {
            return;
        };
        match &mut slot.state {
            KeyState::Running { again, .. } => {
                let urgency = Urgency::Live;
                *again = Some(Due { at: now, urgency }.and(*again));
            }
            KeyState::Delayed(at) if slot.failures > 0 => {
                slot.failures = 0;
                self.delayed.remove(&(*at, id));
                self.enqueue(id, now);
            }
            KeyState::Delayed(_) | KeyState::Ready(_) => {}
        }
    }

    fn slots_of(&self, tenant: &str) -> Vec<u32> {
        let tenant = self.turns.find(tenant);
        let slots = tenant.and_then(|id| self.of_tenant.get(&id));
        slots.into_iter().flatten().copied().collect()
    }

    /// The number of waiting keys. Keys that became ready since the last [`Self::take`] still count as delayed.
    pub fn depth(&self) -> Depth {
        let [live, initial, resync] = self.turns.waiting();
        Depth {
            live,
            initial,
            resync,
            delayed: self.delayed.len(),
        }
    }

    /// Whether a key runs that was dropped meanwhile.
    pub fn is_forgotten(&self, key: &K) -> bool {
        let slot = self
            .index
            .get(key)
            .and_then(|id| self.slots.get(*id as usize));
        let state = slot.and_then(Option::as_ref).map(|slot| slot.state);
        matches!(
            state,
            Some(KeyState::Running {
                fate: Fate::Forgotten,
                ..
            })
        )
    }

    /// The time at which a key runs, if it waits or runs.
    pub fn due(&self, key: &K) -> Option<Duration> {
        let id = *self.index.get(key)?;
        match self.slots.get(id as usize)?.as_ref()?.state {
            KeyState::Delayed(at) => Some(at),
            KeyState::Ready(_) | KeyState::Running { .. } => Some(Duration::ZERO),
        }
    }

    /// The time for which the oldest ready key has been waiting.
    pub fn oldest(&self, now: Duration) -> Option<Duration> {
        let due = self.delayed.first().map(|(at, _)| *at);
        let due = due.filter(|at| *at <= now);
        let ready = self.turns.oldest();
        let since = [due, ready].into_iter().flatten().min()?;
        Some(now.saturating_sub(since))
    }

    /// The number of running keys.
    pub fn busy(&self) -> usize {
        self.running.len()
    }

    /// The numbers of the queue.
    pub fn state(&self, now: Duration) -> QueueState {
        let ages = self
            .running
            .iter()
            .map(|(taken, _)| now.saturating_sub(*taken));
        QueueState {
            ready: self.depth().ready(),
            oldest: self.oldest(now).unwrap_or_default(),
            busy: self.busy(),
            longest: ages.clone().max().unwrap_or_default(),
            unfinished: ages.sum(),
            adds: self.seq,
            retries: self.retries,
        }
    }

    fn insert(&mut self, key: K, tenant: &Arc<str>, urgency: Urgency) -> u32 {
        let entered = self.turns.enter(tenant);
        let slot = QueuedKey {
            key: key.clone(),
            tenant: entered,
            urgency,
            state: KeyState::Delayed(Duration::MAX),
            failures: 0,
            taken: Duration::ZERO,
            long: false,
            given_up: false,
            finished: Duration::ZERO,
        };
        let id = if let Some(id) = self.free.pop() {
            self.slots[id as usize] = Some(slot);
            id
        } else {
            self.slots.push(Some(slot));
            u32::try_from(self.slots.len() - 1).expect("as many keys as fit into memory")
        };
        self.of_tenant.entry(entered).or_default().insert(id);
        self.index.insert(key, id);
        id
    }

    /// Lets a key wait until it is due, or puts it in line if it is.
    fn settle(&mut self, id: u32, due: Due, now: Duration) {
        let slot = self.slots[id as usize]
            .as_mut()
            .expect("only occupied slots are settled");
        slot.urgency = due.urgency;
        if due.at <= now {
            self.enqueue(id, due.at);
        } else {
            slot.state = KeyState::Delayed(due.at);
            self.delayed.insert((due.at, id));
        }
    }

    /// Moves due keys into the lines.
    pub(super) fn promote(&mut self, now: Duration) {
        while let Some(&(at, id)) = self.delayed.first() {
            if at > now {
                return;
            }
            self.delayed.remove(&(at, id));
            self.enqueue(id, at);
        }
    }

    /// Updates which tenants are slow.
    fn time(&mut self, now: Duration) {
        let is_starving = self.turns.is_starving();
        let long = if is_starving { HANGS } else { LONG };
        while let Some(&(taken, id)) = self.brief.first()
            && now.saturating_sub(taken) >= long
        {
            self.brief.pop_first();
            if let Some(slot) = self.slots[id as usize].as_mut() {
                slot.long = true;
                self.turns.takes_long(slot.tenant);
            }
        }
        while let Some(&(at, tenant)) = self.forgiving.first()
            && at <= now
        {
            self.forgiving.pop_first();
            self.turns.forgive(tenant, now);
        }
    }

    fn enqueue(&mut self, id: u32, ready: Duration) {
        let slot = self.slots[id as usize]
            .as_mut()
            .expect("only occupied slots become ready");
        self.seq += 1;
        let place = QueuePosition {
            ready,
            seq: self.seq,
            slot: id,
        };
        slot.state = KeyState::Ready(place);
        self.turns.push(slot.tenant, slot.urgency, place);
    }

    fn drop_slot(&mut self, id: u32) {
        let Some(slot) = self.slots[id as usize].take() else {
            return;
        };
        self.index.remove(&slot.key);
        if let Entry::Occupied(mut slots) = self.of_tenant.entry(slot.tenant) {
            slots.get_mut().remove(&id);
            if slots.get().is_empty() {
                slots.remove();
            }
        }
        self.turns.leave(slot.tenant);
        self.free.push(id);
        if self.index.is_empty() && self.slots.len() > KEPT_SLOTS {
            self.slots = Vec::new();
            self.free = Vec::new();
            self.index = HashMap::new();
        }
    }
}
