//! The queue beside a naive model of it, over random histories.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use proptest::prelude::*;

use super::{Due, Fair, Outcome, Take, Urgency};

const TENANTS: usize = 4;
const KEYS: usize = 5;
const SHARE: usize = 2;
/// The middle of the spread of a back-off.
const MIDDLE: u64 = 200;

/// A tenant and a number.
type Key = (usize, usize);

#[derive(Clone, Copy, Debug)]
enum Event {
    Add(Key, Urgency),
    AddAfter(Key, Urgency, u64),
    Take,
    /// One of the running keys ends.
    Done(prop::sample::Index, Outcome),
    Forget(usize),
    Pass(u64),
}

fn events() -> impl Strategy<Value = Vec<Event>> {
    let key = || (0..TENANTS, 0..KEYS);
    let lane = || {
        prop_oneof![
            Just(Urgency::Live),
            Just(Urgency::Initial),
            Just(Urgency::Resync)
        ]
    };
    let outcome = prop_oneof![
        3 => Just(Outcome::Settled),
        1 => (0..3000u64).prop_map(|ms| Outcome::Again(Duration::from_millis(ms))),
        3 => Just(Outcome::Failed(None)),
        1 => (0..3000u64).prop_map(|ms| Outcome::Failed(Some(Duration::from_millis(ms)))),
    ];
    let event = prop_oneof![
        8 => (key(), lane()).prop_map(|(key, lane)| Event::Add(key, lane)),
        3 => (key(), lane(), 0..3000u64).prop_map(|(key, lane, ms)| Event::AddAfter(key, lane, ms)),
        8 => Just(Event::Take),
        8 => (any::<prop::sample::Index>(), outcome).prop_map(|(which, out)| Event::Done(which, out)),
        1 => (0..TENANTS).prop_map(Event::Forget),
        3 => (0..2000u64).prop_map(Event::Pass),
    ];
    prop::collection::vec(event, 1..120)
}

/// What the model knows of a key that waits or runs.
#[derive(Clone, Debug)]
struct Known {
    /// When it is due again; none while it runs and nothing happened since.
    due: Option<u64>,
    urgency: Urgency,
    /// The urgency of what happened while it runs.
    next: Option<Urgency>,
    running: bool,
    forgotten: bool,
    failures: u32,
    finished: u64,
}

#[derive(Default)]
struct Model {
    now: u64,
    keys: BTreeMap<Key, Known>,
    /// Turns that others of the same lane had while a tenant could have had one.
    patience: BTreeMap<(Urgency, usize), usize>,
    /// Turns that other lanes had while something was ready in this one.
    passed_over: BTreeMap<Urgency, usize>,
    /// Turns that other lanes had while this one could have had one.
    starving: BTreeMap<Urgency, usize>,
}

impl Model {
    fn tenant_is_free(&self, tenant: usize) -> bool {
        let running = self
            .keys
            .iter()
            .filter(|(key, known)| key.0 == tenant && known.running);
        running.count() < SHARE
    }

    /// Every key that may run now, with its due time.
    fn eligible(&self) -> Vec<(Key, Urgency, u64)> {
        self.keys
            .iter()
            .filter(|(key, known)| !known.running && self.tenant_is_free(key.0))
            .filter_map(|(key, known)| Some((*key, known.urgency, known.due?)))
            .filter(|(_, _, due)| *due <= self.now)
            .collect()
    }

    fn wish(&mut self, key: Key, urgency: Urgency, at: u64) {
        let Some(known) = self.keys.get_mut(&key) else {
            let known = Known {
                due: Some(at),
                urgency,
                next: None,
                running: false,
                forgotten: false,
                failures: 0,
                finished: 0,
            };
            self.keys.insert(key, known);
            return;
        };
        if known.running {
            known.due = Some(known.due.map_or(at, |due| due.min(at)));
            known.next = Some(known.next.map_or(urgency, |next| next.min(urgency)));
            return;
        }
        let due = known.due.expect("a key that does not run is due some time");
        let at = brought_forward(known, urgency, at);
        known.due = Some(at.map_or(due, |at| due.min(at)));
        known.urgency = known.urgency.min(urgency);
    }

    fn taken(&mut self, key: Key) {
        let known = self.keys.get_mut(&key).expect("a key that was added");
        known.running = true;
        known.due = None;
        known.next = None;
    }

    fn done(&mut self, key: Key, outcome: Outcome) {
        let now = self.now;
        let known = self.keys.get_mut(&key).expect("a key that was taken");
        known.running = false;
        known.finished = now;
        let outcome = if std::mem::take(&mut known.forgotten) {
            Outcome::Settled
        } else {
            outcome
        };
        let wish = known.due.take().zip(known.next.take());
        let millis = |duration: Duration| u64::try_from(duration.as_millis()).unwrap();
        let (own, wish) = match outcome {
            Outcome::Settled => {
                known.failures = 0;
                (None, wish)
            }
            Outcome::Again(after) => {
                known.failures = 0;
                let lane = if after.is_zero() {
                    known.urgency
                } else {
                    known.urgency.max(Urgency::Initial)
                };
                (Some((now + millis(after), lane)), wish)
            }
            Outcome::Failed(after) => {
                known.failures += 1;
                let backoff = (50 << (known.failures - 1).min(20)).min(250_000);
                let wait = backoff.max(millis(after.unwrap_or_default()));
                let wish = wish.map(|(at, urgency)| {
                    let at = brought_forward(known, urgency, at);
                    (at.unwrap_or(u64::MAX), urgency)
                });
                (Some((now + wait, known.urgency)), wish)
            }
        };
        let due = [own, wish].into_iter().flatten();
        let at = due.clone().map(|(at, _)| at).min();
        let lane = due.map(|(_, lane)| lane).min();
        match at.zip(lane) {
            Some((at, lane)) => {
                known.due = Some(at);
                known.urgency = lane;
            }
            None => drop(self.keys.remove(&key)),
        }
    }

    fn forget(&mut self, tenant: usize) {
        self.keys
            .retain(|key, known| key.0 != tenant || known.running);
        for (_, known) in self.keys.iter_mut().filter(|(key, _)| key.0 == tenant) {
            known.forgotten = true;
            known.due = None;
            known.next = None;
        }
    }

    /// Starts and ends counting turns for those who begin and cease to wait for one.
    fn count(&mut self) {
        let eligible = self.eligible();
        let tenants: BTreeSet<_> = eligible
            .iter()
            .map(|(key, lane, _)| (*lane, key.0))
            .collect();
        let lanes: BTreeSet<_> = tenants.iter().map(|(lane, _)| *lane).collect();
        self.patience.retain(|waiting, _| tenants.contains(waiting));
        self.starving.retain(|lane, _| lanes.contains(lane));
        for waiting in tenants {
            self.patience.entry(waiting).or_default();
        }
        for lane in lanes {
            self.starving.entry(lane).or_default();
        }
    }

    /// Checks that a key may be taken now and that nobody else has waited too long for it.
    fn judge(&mut self, key: Key, urgency: Urgency, waited: u64) -> Result<(), TestCaseError> {
        let eligible = self.eligible();
        let place = eligible.iter().find(|(other, _, _)| *other == key);
        let Some((_, lane, due)) = place else {
            return Err(TestCaseError::fail(format!("{key:?} may not run now")));
        };
        prop_assert_eq!((*lane, self.now - due), (urgency, waited));
        let ready = self.keys.values().filter(|known| !known.running);
        let ready = ready.filter(|known| known.due.is_some_and(|due| due <= self.now));
        let ready: BTreeSet<_> = ready.map(|known| known.urgency).collect();
        self.passed_over.retain(|lane, _| ready.contains(lane));
        for lane in ready {
            self.passed_over.entry(lane).or_default();
        }
        let ahead = eligible.iter().find(|(other, other_lane, other_due)| {
            other.0 == key.0 && other_lane == lane && other_due < due
        });
        prop_assert_eq!(
            ahead,
            None,
            "the first of its tenant to be ready is the first to run"
        );

        for (waiting, turns) in &mut self.patience {
            if *waiting == (urgency, key.0) {
                *turns = 0;
            } else if waiting.0 == urgency {
                *turns += 1;
                prop_assert!(*turns < TENANTS, "{:?} waits for too many turns", waiting);
            }
        }
        let overdue = self.passed_over.get(&urgency) >= Some(&7);
        prop_assert!(
            overdue || most_urgent(&eligible) == urgency,
            "{:?} too early",
            urgency
        );
        for lanes in [&mut self.passed_over, &mut self.starving] {
            for (lane, turns) in lanes {
                *turns = if *lane == urgency { 0 } else { *turns + 1 };
            }
        }
        let starving = self.starving.iter().find(|(_, turns)| **turns > 9);
        prop_assert_eq!(starving, None);
        Ok(())
    }
}

fn most_urgent(eligible: &[(Key, Urgency, u64)]) -> Urgency {
    let lanes = eligible.iter().map(|(_, lane, _)| *lane);
    lanes.min().expect("something was taken")
}

fn brought_forward(known: &Known, urgency: Urgency, at: u64) -> Option<u64> {
    match known.failures {
        0 => Some(at),
        _ if urgency != Urgency::Live => None,
        1..=5 => Some(at),
        _ => Some(at.max(known.finished + 1000)),
    }
}

struct Run {
    fair: Fair<Key>,
    model: Model,
    running: Vec<Key>,
}

impl Run {
    fn now(&self) -> Duration {
        Duration::from_millis(self.model.now)
    }

    fn take(&mut self) -> Result<bool, TestCaseError> {
        self.model.count();
        match self.fair.take(self.now()) {
            Take::Key(taken) => {
                let waited = u64::try_from(taken.waited.as_millis()).unwrap();
                self.model.judge(taken.key, taken.urgency, waited)?;
                let failures = self.model.keys[&taken.key].failures;
                prop_assert_eq!(taken.attempt, failures + 1);
                self.model.taken(taken.key);
                self.running.push(taken.key);
                return Ok(true);
            }
            Take::Wait(until) => {
                let due = self.model.keys.values().filter(|known| !known.running);
                let next = due
                    .filter_map(|known| known.due)
                    .filter(|due| *due > self.model.now);
                prop_assert_eq!(next.min().map(Duration::from_millis), Some(until));
            }
            Take::Empty => {
                let mut waiting = self.model.keys.values().filter(|known| !known.running);
                prop_assert!(waiting.all(|known| known.due <= Some(self.model.now)));
            }
        }
        prop_assert_eq!(
            self.model.eligible(),
            vec![],
            "nothing taken although something may run"
        );
        Ok(false)
    }

    fn done(&mut self, which: usize, outcome: Outcome) {
        let key = self.running.swap_remove(which);
        self.fair.done(&key, outcome, self.now(), MIDDLE);
        self.model.done(key, outcome);
    }

    fn step(&mut self, event: Event) -> Result<(), TestCaseError> {
        let tenant = |key: Key| Arc::from(format!("tenant {}", key.0));
        match event {
            Event::Add(key, urgency) => {
                let due = Due {
                    at: self.now(),
                    urgency,
                };
                self.fair.add(key, &tenant(key), due, self.now());
                self.model.wish(key, urgency, self.model.now);
            }
            Event::AddAfter(key, urgency, after) => {
                let at = self.model.now + after;
                let due = Due {
                    at: Duration::from_millis(at),
                    urgency,
                };
                self.fair.add(key, &tenant(key), due, self.now());
                self.model.wish(key, urgency, at);
            }
            Event::Take => drop(self.take()?),
            Event::Done(which, outcome) if !self.running.is_empty() => {
                self.done(which.index(self.running.len()), outcome);
            }
            Event::Done(..) => {}
            Event::Forget(tenant) => {
                self.fair.forget_tenant(&format!("tenant {tenant}"));
                self.model.forget(tenant);
            }
            Event::Pass(millis) => self.model.now += millis,
        }
        // With this the turns of a tenant count from when it is due, not from the next take.
        self.fair.promote(self.now());
        self.model.count();
        let depth = self.fair.depth();
        let waiting = self
            .model
            .keys
            .values()
            .filter(|known| !known.running)
            .count();
        prop_assert_eq!(depth.ready() + depth.delayed, waiting);
        prop_assert_eq!(self.fair.busy(), self.running.len());
        Ok(())
    }

    /// Lets everything come to an end: each key that is still wanted is taken.
    fn drain(&mut self) -> Result<(), TestCaseError> {
        while !self.model.keys.is_empty() {
            while !self.running.is_empty() {
                self.done(0, Outcome::Settled);
            }
            if !self.take()? {
                self.model.now += 1000;
            }
        }
        prop_assert_eq!(self.fair.take(self.now()), Take::Empty);
        Ok(())
    }
}

proptest! {
    #[test]
    fn random_histories_agree_with_a_naive_model_and_are_fair(events in events()) {
        let mut run = Run {
            fair: Fair::new(SHARE),
            model: Model::default(),
            running: Vec::new(),
        };
        for event in events {
            run.step(event)?;
        }
        run.drain()?;
    }
}
