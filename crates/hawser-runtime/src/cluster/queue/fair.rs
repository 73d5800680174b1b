//! The queue itself: which key is worked on next, and when a key comes back. Pure; time is what the
//! caller says it is.

use std::collections::{BTreeSet, HashMap};
use std::hash::Hash;
use std::sync::Arc;
use std::time::Duration;

use super::backoff::wait_after;
use super::turns::{Place, TenantId, Turns};
use super::{Depth, Outcome, Urgency};

/// So many failures in a row may be cut short by every live change. After that an object that
/// changes all the time and fails all the time gets one attempt a [`BREATH`] beside its back-off.
const FORGIVEN: u32 = 5;
const BREATH: Duration = Duration::from_secs(1);

/// A key that runs for longer makes its tenant slow,
const LONG: Duration = Duration::from_secs(5);
/// for so long after it has ended.
const REMEMBERED: Duration = Duration::from_mins(1);

/// An empty queue gives its memory back when it once held more than this.
const KEPT_SLOTS: usize = 1024;

/// Keys that wait, keys that run, and who is next. Every operation but [`Fair::forget`],
/// [`Fair::retry`] and [`Fair::oldest`] takes time logarithmic in the number of keys.
#[derive(Debug)]
pub struct Fair<K> {
    index: HashMap<K, u32>,
    slots: Vec<Option<Slot<K>>>,
    free: Vec<u32>,
    /// Keys that are not ready before a time.
    delayed: BTreeSet<(Duration, u32)>,
    /// Keys that run and have not been found to run for long, by the time at which they were taken.
    taken: BTreeSet<(Duration, u32)>,
    /// When it is looked whether a tenant is still slow.
    forgiving: BTreeSet<(Duration, TenantId)>,
    turns: Turns,
    seq: u64,
    running: usize,
}

/// What [`Fair::take`] found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Take<K> {
    Key(Taken<K>),
    /// Nothing may run before this time, unless something is added or done.
    Wait(Duration),
    /// Nothing may run until something is added or done.
    Empty,
}

/// A key whose turn it is. It runs until [`Fair::done`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Taken<K> {
    pub key: K,
    pub tenant: Arc<str>,
    pub urgency: Urgency,
    /// How long it was ready and nobody took it.
    pub waited: Duration,
    /// One more than the failures in a row before.
    pub attempt: u32,
}

#[derive(Debug)]
struct Slot<K> {
    key: K,
    tenant: TenantId,
    urgency: Urgency,
    state: State,
    failures: u32,
    /// When it was taken last.
    taken: Duration,
    /// Whether it runs for long.
    long: bool,
    /// When it ran last.
    finished: Duration,
}

#[derive(Clone, Copy, Debug)]
enum State {
    Delayed(Duration),
    Ready(Place),
    Running { again: Option<Due>, fate: Fate },
}

/// Whether what comes of a running key still counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    Wanted,
    Forgotten,
}

#[derive(Clone, Copy, Debug)]
struct Due {
    at: Duration,
    urgency: Urgency,
}

impl Due {
    /// One entry for two wishes: the earlier time, the more urgent lane.
    fn and(self, other: Option<Self>) -> Self {
        other.map_or(self, |other| Self {
            at: self.at.min(other.at),
            urgency: self.urgency.min(other.urgency),
        })
    }
}

impl<K> Slot<K> {
    /// A wish with the earliest time that it can bring the next attempt to. A key in back-off listens
    /// to live changes only: they may be what mends it.
    fn allowed(&self, wish: Due) -> Due {
        let at = match (self.failures, wish.urgency) {
            (0, _) | (1..=FORGIVEN, Urgency::Live) => wish.at,
            (_, Urgency::Live) => wish.at.max(self.finished.saturating_add(BREATH)),
            (_, Urgency::Initial | Urgency::Resync) => Duration::MAX,
        };
        Due { at, ..wish }
    }
}

impl<K: Clone + Eq + Hash> Fair<K> {
    /// A queue of which one tenant can have so many keys running at once, and at least one.
    pub fn new(per_tenant: usize) -> Self {
        Self {
            index: HashMap::new(),
            slots: Vec::new(),
            free: Vec::new(),
            delayed: BTreeSet::new(),
            taken: BTreeSet::new(),
            forgiving: BTreeSet::new(),
            turns: Turns::new(per_tenant),
            seq: 0,
            running: 0,
        }
    }

    /// Lets so many keys of tenants run at once whose keys take long, and at least one: any number of
    /// such tenants leaves the rest to the others.
    #[must_use]
    pub fn with_slow(self, of_slow: usize) -> Self {
        Self {
            turns: self.turns.with_slow(of_slow),
            ..self
        }
    }

    /// Something happened to a key: it is ready now, or right after it ran.
    pub fn add(&mut self, key: K, tenant: &Arc<str>, urgency: Urgency, now: Duration) {
        self.put(key, tenant, Due { at: now, urgency }, now);
    }

    /// A key is to be looked at at a time, or earlier when something happens. It never puts off what
    /// is due earlier.
    pub fn add_after(&mut self, key: K, tenant: &Arc<str>, urgency: Urgency, at: Duration) {
        self.put(key, tenant, Due { at, urgency }, Duration::ZERO);
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
        self.running += 1;
        let slot = self.slots[place.slot as usize]
            .as_mut()
            .expect("only occupied slots stand in a line");
        slot.state = State::Running {
            again: None,
            fate: Fate::Wanted,
        };
        slot.taken = now;
        slot.long = false;
        self.taken.insert((now, place.slot));
        Take::Key(Taken {
            key: slot.key.clone(),
            tenant: Arc::clone(self.turns.name(slot.tenant)),
            urgency: slot.urgency,
            waited: now.saturating_sub(place.ready),
            attempt: slot.failures.saturating_add(1),
        })
    }

    /// What came of a key that was taken. `random` spreads the back-off.
    pub fn done(&mut self, key: &K, outcome: Outcome, now: Duration, random: u64) {
        self.time(now);
        let Some(id) = self.index.get(key).copied() else {
            return;
        };
        let slot = self.slots[id as usize]
            .as_mut()
            .expect("the index names occupied slots only");
        let State::Running { again, fate } = slot.state else {
            return;
        };
        slot.finished = now;
        self.running -= 1;
        self.turns.finished(slot.tenant);
        if slot.long {
            let forgiven = now.saturating_add(REMEMBERED);
            self.turns.took_long(slot.tenant, forgiven);
            self.forgiving.insert((forgiven, slot.tenant));
        } else {
            self.taken.remove(&(slot.taken, id));
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

    /// Drops every key that the caller names, whatever it waits for. One that runs ends with its
    /// run, whatever comes of it, unless it is added again.
    pub fn forget(&mut self, mut gone: impl FnMut(&K) -> bool) {
        for id in 0..self.slots.len() {
            let Some(slot) = &mut self.slots[id] else {
                continue;
            };
            if !gone(&slot.key) {
                continue;
            }
            let id = u32::try_from(id).expect("slots are numbered in 32 bits");
            match slot.state {
                State::Running { .. } => {
                    slot.state = State::Running {
                        again: None,
                        fate: Fate::Forgotten,
                    };
                }
                State::Delayed(at) => {
                    self.delayed.remove(&(at, id));
                    self.drop_slot(id);
                }
                State::Ready(place) => {
                    self.turns.remove(slot.tenant, slot.urgency, place);
                    self.drop_slot(id);
                }
            }
        }
    }

    /// What keys that failed, failed for, is not as it was: they are ready now, and as if they had never
    /// failed. One that runs may have looked at it before.
    pub fn retry(&mut self, mut meant: impl FnMut(&K) -> bool, now: Duration) {
        for id in 0..self.slots.len() {
            let Some(slot) = self.slots[id].as_mut().filter(|slot| meant(&slot.key)) else {
                continue;
            };
            match &mut slot.state {
                State::Running { again, .. } => {
                    let urgency = Urgency::Live;
                    *again = Some(Due { at: now, urgency }.and(*again));
                }
                State::Delayed(at) if slot.failures > 0 => {
                    let id = u32::try_from(id).expect("slots are numbered in 32 bits");
                    slot.failures = 0;
                    self.delayed.remove(&(*at, id));
                    self.line_up(id, now);
                }
                State::Delayed(_) | State::Ready(_) => {}
            }
        }
    }

    /// How many keys wait. What became ready since the last [`Self::take`] still counts as delayed.
    pub fn depth(&self) -> Depth {
        let [live, initial, resync] = self.turns.waiting();
        Depth {
            live,
            initial,
            resync,
            delayed: self.delayed.len(),
        }
    }

    /// How long the oldest ready key has been waiting.
    pub fn oldest(&self, now: Duration) -> Option<Duration> {
        let due = self.delayed.first().map(|(at, _)| *at);
        let due = due.filter(|at| *at <= now);
        let ready = self.turns.oldest();
        let since = [due, ready].into_iter().flatten().min()?;
        Some(now.saturating_sub(since))
    }

    /// How many keys run.
    pub fn busy(&self) -> usize {
        self.running
    }

    fn put(&mut self, key: K, tenant: &Arc<str>, wish: Due, now: Duration) {
        let Some(id) = self.index.get(&key).copied() else {
            let id = self.insert(key, tenant, wish.urgency);
            return self.settle(id, wish, now);
        };
        let slot = self.slots[id as usize]
            .as_mut()
            .expect("the index names occupied slots only");
        match slot.state {
            State::Running { again, fate } => {
                slot.state = State::Running {
                    again: Some(wish.and(again)),
                    fate,
                };
            }
            State::Ready(place) if wish.urgency < slot.urgency => {
                self.turns.remove(slot.tenant, slot.urgency, place);
                slot.urgency = wish.urgency;
                self.turns.push(slot.tenant, slot.urgency, place);
            }
            State::Ready(_) => {}
            State::Delayed(at) => {
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

    fn insert(&mut self, key: K, tenant: &Arc<str>, urgency: Urgency) -> u32 {
        let slot = Slot {
            key: key.clone(),
            tenant: self.turns.enter(tenant),
            urgency,
            state: State::Delayed(Duration::MAX),
            failures: 0,
            taken: Duration::ZERO,
            long: false,
            finished: Duration::ZERO,
        };
        let id = if let Some(id) = self.free.pop() {
            self.slots[id as usize] = Some(slot);
            id
        } else {
            self.slots.push(Some(slot));
            u32::try_from(self.slots.len() - 1).expect("as many keys as fit into memory")
        };
        self.index.insert(key, id);
        id
    }

    /// Lets a key wait until it is due, or lets it stand in line if it is.
    fn settle(&mut self, id: u32, due: Due, now: Duration) {
        let slot = self.slots[id as usize]
            .as_mut()
            .expect("only occupied slots are settled");
        slot.urgency = due.urgency;
        if due.at <= now {
            self.line_up(id, due.at);
        } else {
            slot.state = State::Delayed(due.at);
            self.delayed.insert((due.at, id));
        }
    }

    /// Moves what is due by now into the lines.
    pub(super) fn promote(&mut self, now: Duration) {
        while let Some(&(at, id)) = self.delayed.first() {
            if at > now {
                return;
            }
            self.delayed.remove(&(at, id));
            self.line_up(id, at);
        }
    }

    /// Finds out who has become slow, and who is no longer.
    fn time(&mut self, now: Duration) {
        while let Some(&(taken, id)) = self.taken.first()
            && now.saturating_sub(taken) >= LONG
        {
            self.taken.pop_first();
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

    fn line_up(&mut self, id: u32, ready: Duration) {
        let slot = self.slots[id as usize]
            .as_mut()
            .expect("only occupied slots become ready");
        self.seq += 1;
        let place = Place {
            ready,
            seq: self.seq,
            slot: id,
        };
        slot.state = State::Ready(place);
        self.turns.push(slot.tenant, slot.urgency, place);
    }

    fn drop_slot(&mut self, id: u32) {
        let Some(slot) = self.slots[id as usize].take() else {
            return;
        };
        self.index.remove(&slot.key);
        self.turns.leave(slot.tenant);
        self.free.push(id);
        if self.index.is_empty() && self.slots.len() > KEPT_SLOTS {
            self.slots = Vec::new();
            self.free = Vec::new();
            self.index = HashMap::new();
        }
    }
}
