//! The deletion brake of one kind: copies that would go in masses stay until somebody says so.
//!
//! A mass is more than a share of all copies within a window, of which no one tenant accounts for more
//! than two thirds: a consumer who clears a workspace means it. A cause is something that makes objects
//! look deleted although nobody deleted them: a type that vanished, a binding, an endpoint, a list that
//! came back empty. Either makes a *hold* with an id of its own; a hold ends when its id is approved,
//! when its cause is gone, or when none of what it holds is wanted gone any more.
//!
//! Pure. It is asked right before a deletion would be sent, and nothing it let go is asked back.

use std::collections::{HashMap, HashSet, VecDeque};
use std::fmt;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;
use std::time::Duration;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BrakeOptions {
    /// More than this part of all copies, in percent, is a mass,
    pub share: u8,
    /// if it is so many at least.
    pub at_least: usize,
    /// What goes within this time goes together.
    pub window: Duration,
}

impl Default for BrakeOptions {
    fn default() -> Self {
        Self {
            share: 50,
            at_least: 20,
            window: Duration::from_mins(1),
        }
    }
}

/// The brake of one kind. `K` tells its copies apart.
#[derive(Clone, Debug)]
pub struct Brake<K> {
    options: BrakeOptions,
    /// What went within the window, and how many copies there were.
    gone: Window<K>,
    causes: Vec<Cause>,
    holds: Vec<Held<K>>,
    /// What holds held when they were approved.
    approved: Vec<(Why, HashSet<K>)>,
    /// No two processes and no two holds of one have the same ids.
    seed: u64,
    made: u64,
}

/// What makes objects look deleted.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Cause {
    /// The type is not served any more.
    Definition,
    /// An address of the other side is gone.
    Endpoint(Arc<str>),
    /// A list came back empty that was not empty before.
    EmptiedList(Arc<str>),
    /// A workspace is no longer bound. It holds the copies of this tenant only.
    Binding(Arc<str>),
}

impl Cause {
    fn concerns(&self, tenant: &str) -> bool {
        match self {
            Self::Definition | Self::Endpoint(_) | Self::EmptiedList(_) => true,
            Self::Binding(bound) => **bound == *tenant,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    Begins,
    Ends,
}

/// Why deletions are held.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Why {
    /// Too many within the window.
    Mass,
    Cause(Cause),
}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Mass => f.write_str("too large a share of the copies would go at once"),
            Self::Cause(Cause::Definition) => f.write_str("the type is not served any more"),
            Self::Cause(Cause::Endpoint(url)) => write!(f, "the endpoint {url} is gone"),
            Self::Cause(Cause::EmptiedList(of)) => {
                write!(f, "the list of {of} came back empty")
            }
            Self::Cause(Cause::Binding(tenant)) => {
                write!(f, "the workspace {tenant} is no longer bound")
            }
        }
    }
}

/// Names a hold where it is approved.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct HoldId(pub Arc<str>);

impl fmt::Display for HoldId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Whether a deletion may be sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    Go,
    Held(HoldId),
}

/// A hold, for conditions, metrics and events.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hold {
    pub id: HoldId,
    pub since: Duration,
    /// How many deletions it holds.
    pub count: usize,
    pub why: Why,
}

#[derive(Clone, Debug)]
struct Held<K> {
    id: HoldId,
    since: Duration,
    why: Why,
    keys: HashSet<K>,
    /// A hold taken over from a process before this one waits until then for its deletions to be
    /// asked for again.
    known_by: Duration,
}

#[derive(Clone, Debug)]
struct Window<K> {
    gone: VecDeque<(Duration, K, Arc<str>)>,
    keys: HashSet<K>,
    tenants: HashMap<Arc<str>, usize>,
    /// How many copies there were, decreasing: the first is the largest number within the window.
    totals: VecDeque<(Duration, usize)>,
}

/// The part of a mass, one in so many, that others than the busiest tenant have in it at least.
const OTHERS: usize = 3;

/// How long a hold of a process before this one stays although nothing asks for it: lists have to be
/// complete and every object looked at.
const TAKE_OVER: Duration = Duration::from_mins(10);

impl<K: Clone + Eq + Hash> Brake<K> {
    /// A brake that is open. The seed is any number that differs from process to process.
    pub fn new(options: BrakeOptions, seed: u64) -> Self {
        Self {
            options,
            gone: Window {
                gone: VecDeque::new(),
                keys: HashSet::new(),
                tenants: HashMap::new(),
                totals: VecDeque::new(),
            },
            causes: Vec::new(),
            holds: Vec::new(),
            approved: Vec::new(),
            seed,
            made: 0,
        }
    }

    /// Takes over the hold for a mass that a process before this one announced, so that a restart is
    /// no approval.
    pub fn resume(&mut self, id: &str, now: Duration) {
        if self.holds.iter().any(|hold| *hold.id.0 == *id) {
            return;
        }
        self.holds.push(Held {
            id: HoldId(id.into()),
            since: now,
            why: Why::Mass,
            keys: HashSet::new(),
            known_by: now.saturating_add(TAKE_OVER),
        });
    }

    /// Where so many of all copies are to go from the start, all of them are held that would be a mass:
    /// nobody saw them go one by one.
    pub fn weigh(&mut self, going: usize, total_copies: usize, now: Duration) {
        let share = u128::from(self.options.share) * total_copies as u128;
        let is_mass = going >= self.options.at_least && going as u128 * 100 > share;
        if is_mass && !self.holds.iter().any(|hold| hold.why == Why::Mass) {
            let id = self.next_id();
            self.resume(&id.0, now);
        }
    }

    /// Whether the deletion of a tenant's copy may be sent now, of so many copies of the kind that
    /// there are at the moment. Asking again within the window counts once.
    pub fn ask(&mut self, key: &K, tenant: &str, now: Duration, total_copies: usize) -> Verdict {
        self.prune(now);
        let causes = self.causes.iter().filter(|cause| cause.concerns(tenant));
        let mut whys: Vec<Why> = causes.cloned().map(Why::Cause).collect();
        // What was let go a moment ago is not held in its middle.
        if !self.gone.keys.contains(key) && self.holds.iter().any(|hold| hold.why == Why::Mass) {
            whys.push(Why::Mass);
        }
        whys.retain(|why| !self.is_approved(key, why));
        if whys.is_empty() && !self.is_approved(key, &Why::Mass) {
            self.gone.saw(total_copies, now);
            if self.gone.keys.contains(key) {
                return Verdict::Go;
            }
            if !self.is_mass(tenant) {
                self.gone.push(key, tenant, now);
                return Verdict::Go;
            }
            whys.push(Why::Mass);
        }
        // It is held for every reason there is, and goes when none is left.
        let mut verdict = Verdict::Go;
        for why in whys {
            verdict = Verdict::Held(self.hold(key, why, now));
        }
        verdict
    }

    /// A pass over a copy came to its end and does not want it gone, or it is gone.
    pub fn withdraw(&mut self, key: &K, now: Duration) {
        for (_, keys) in &mut self.approved {
            keys.remove(key);
        }
        for hold in &mut self.holds {
            hold.keys.remove(key);
        }
        self.prune(now);
    }

    /// Something begins or ceases to make objects look deleted.
    pub fn cause(&mut self, cause: Cause, phase: Phase) {
        match phase {
            Phase::Begins if self.causes.contains(&cause) => {}
            Phase::Begins => self.causes.push(cause),
            Phase::Ends => {
                self.causes.retain(|other| *other != cause);
                let why = Why::Cause(cause);
                self.holds.retain(|hold| hold.why != why);
                // Should it come back, it is another time.
                self.approved.retain(|(approved, _)| *approved != why);
            }
        }
    }

    /// Lets go what the named holds hold now; ids stand apart by commas or space. What comes later
    /// makes a hold with another id. Says whether any of them was there.
    pub fn approve(&mut self, ids: &str) -> bool {
        let named: Vec<&str> = ids
            .split([',', ' ', '\t', '\n'])
            .filter(|id| !id.is_empty())
            .collect();
        let before = self.holds.len();
        let (approved, holds): (Vec<_>, Vec<_>) = std::mem::take(&mut self.holds)
            .into_iter()
            .partition(|hold| named.contains(&&*hold.id.0));
        self.holds = holds;
        self.approved
            .extend(approved.into_iter().map(|hold| (hold.why, hold.keys)));
        self.holds.len() < before
    }

    /// What is held at the moment, the oldest hold first.
    pub fn held(&self) -> Vec<Hold> {
        let holds = self.holds.iter().map(|hold| Hold {
            id: hold.id.clone(),
            since: hold.since,
            count: hold.keys.len(),
            why: hold.why.clone(),
        });
        holds.collect()
    }

    /// How many deletions are held. One held for several reasons counts once.
    pub fn count(&self) -> usize {
        match &*self.holds {
            [] => 0,
            [hold] => hold.keys.len(),
            holds => {
                let keys: HashSet<&K> = holds.iter().flat_map(|hold| &hold.keys).collect();
                keys.len()
            }
        }
    }

    /// Lets time pass: what left the window is forgotten, a hold without anything to hold ends.
    pub fn tick(&mut self, now: Duration) {
        self.prune(now);
    }

    fn is_approved(&self, key: &K, why: &Why) -> bool {
        let mut approved = self.approved.iter();
        approved.any(|(approved, keys)| approved == why && keys.contains(key))
    }

    /// Whether one more of this tenant makes it a mass.
    fn is_mass(&self, tenant: &str) -> bool {
        let count = self.gone.keys.len() + 1;
        let total = self.gone.largest_total();
        // In 128 bits nothing overflows, whatever the numbers are.
        let share = u128::from(self.options.share) * total as u128;
        let others = count - self.gone.busiest_with(tenant);
        count >= self.options.at_least && count as u128 * 100 > share && others >= count / OTHERS
    }

    fn hold(&mut self, key: &K, why: Why, now: Duration) -> HoldId {
        if let Some(hold) = self.holds.iter_mut().find(|hold| hold.why == why) {
            hold.keys.insert(key.clone());
            return hold.id.clone();
        }
        let id = self.next_id();
        self.holds.push(Held {
            id: id.clone(),
            since: now,
            why,
            keys: HashSet::from([key.clone()]),
            known_by: now,
        });
        id
    }

    fn next_id(&mut self) -> HoldId {
        self.made += 1;
        let mut hasher = DefaultHasher::new();
        (self.seed, self.made).hash(&mut hasher);
        HoldId(format!("hold-{:010x}", hasher.finish() >> 24).into())
    }

    fn prune(&mut self, now: Duration) {
        self.gone.forget(now, self.options.window);
        self.holds
            .retain(|hold| !hold.keys.is_empty() || now < hold.known_by);
        self.approved.retain(|(_, keys)| !keys.is_empty());
    }
}

impl<K: Clone + Eq + Hash> Window<K> {
    fn push(&mut self, key: &K, tenant: &str, now: Duration) {
        let tenant = Arc::from(tenant);
        self.keys.insert(key.clone());
        *self.tenants.entry(Arc::clone(&tenant)).or_default() += 1;
        self.gone.push_back((now, key.clone(), tenant));
    }

    /// How many the busiest tenant has, with one more of this one.
    fn busiest_with(&self, tenant: &str) -> usize {
        let most = self.tenants.values().max().copied().unwrap_or_default();
        most.max(1 + self.tenants.get(tenant).copied().unwrap_or_default())
    }

    fn saw(&mut self, total: usize, now: Duration) {
        while self.totals.back().is_some_and(|(_, less)| *less <= total) {
            self.totals.pop_back();
        }
        self.totals.push_back((now, total));
    }

    fn largest_total(&self) -> usize {
        self.totals.front().map_or(0, |(_, total)| *total)
    }

    /// Forgets what is as old as the window is long, or older.
    fn forget(&mut self, now: Duration, window: Duration) {
        let old = |at: Duration| now.saturating_sub(at) >= window;
        while self.totals.front().is_some_and(|(at, _)| old(*at)) {
            self.totals.pop_front();
        }
        while self.gone.front().is_some_and(|(at, ..)| old(*at)) {
            if let Some((_, key, tenant)) = self.gone.pop_front() {
                self.keys.remove(&key);
                if let Some(count) = self.tenants.get_mut(&tenant) {
                    *count -= 1;
                    if *count == 0 {
                        self.tenants.remove(&tenant);
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests;
