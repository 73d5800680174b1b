//! Whose turn it is: tenants in a round, three lanes, and how much may run at once of one tenant, and of
//! all together whose keys take long.
//!
//! Knows slots of waiting keys by number only, and no clock.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use super::Urgency;

const LANES: usize = 3;

/// A lane that was passed over so often has the next turn: every eighth one at least, or the ninth
/// where both lower lanes are due.
const PATIENCE: u32 = 7;

/// A waiting key's place in the line of its tenant: when it became ready, then the order of arrival.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Place {
    pub(super) ready: Duration,
    pub(super) seq: u64,
    pub(super) slot: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct TenantId(u32);

/// How a tenant's keys run. Slow ones have a share of what may run, all of them together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Pace {
    Quick,
    Slow,
}

/// Who waits for what.
///
/// A tenant stands in the round of a lane exactly while it has something ready there and may run
/// more; it joins at the end, and goes to the end after each turn.
#[derive(Debug)]
pub(super) struct Turns {
    per_tenant: usize,
    of_slow: usize,
    /// How many keys of slow tenants run.
    slow_running: usize,
    ids: HashMap<Arc<str>, u32>,
    tenants: Vec<Tenant>,
    free: Vec<u32>,
    lanes: [Lane; LANES],
    joined: u64,
}

#[derive(Debug, Default)]
struct Lane {
    /// The tenants that may have a turn, by their pace, in the order in which they joined.
    rounds: [BTreeMap<u64, u32>; 2],
    /// How much is ready, that of tenants included which may run no more at the moment.
    waiting: usize,
    /// How many turns others had while something waited here.
    passed_over: u32,
}

#[derive(Debug)]
struct Tenant {
    name: Arc<str>,
    /// Keys of this tenant, waiting or running. Without any it is forgotten.
    keys: usize,
    running: usize,
    /// How many of its keys run for long.
    long: usize,
    /// When it is forgotten that a key of it ran for long.
    forgiven: Option<Duration>,
    pace: Pace,
    lines: [BTreeSet<Place>; LANES],
    /// Its place in the round of each lane.
    joined: [Option<u64>; LANES],
}

impl Turns {
    pub(super) fn new(per_tenant: usize) -> Self {
        Self {
            per_tenant: per_tenant.max(1),
            of_slow: usize::MAX,
            slow_running: 0,
            ids: HashMap::new(),
            tenants: Vec::new(),
            free: Vec::new(),
            lanes: Default::default(),
            joined: 0,
        }
    }

    /// Lets so many keys of slow tenants run at once, and at least one.
    pub(super) fn with_slow(self, of_slow: usize) -> Self {
        let of_slow = of_slow.max(1);
        Self { of_slow, ..self }
    }

    /// Counts one more key of a tenant.
    pub(super) fn enter(&mut self, name: &Arc<str>) -> TenantId {
        let id = match self.ids.get(name) {
            Some(id) => *id,
            None => self.insert(name),
        };
        self.tenants[id as usize].keys += 1;
        TenantId(id)
    }

    fn insert(&mut self, name: &Arc<str>) -> u32 {
        let tenant = Tenant {
            name: Arc::clone(name),
            keys: 0,
            running: 0,
            long: 0,
            forgiven: None,
            pace: Pace::Quick,
            lines: Default::default(),
            joined: [None; LANES],
        };
        let id = if let Some(id) = self.free.pop() {
            self.tenants[id as usize] = tenant;
            id
        } else {
            self.tenants.push(tenant);
            u32::try_from(self.tenants.len() - 1).expect("as many tenants as fit into memory")
        };
        self.ids.insert(Arc::clone(name), id);
        id
    }

    /// Counts one key less; it must be neither waiting nor running any more.
    pub(super) fn leave(&mut self, TenantId(id): TenantId) {
        let tenant = &mut self.tenants[id as usize];
        tenant.keys -= 1;
        if tenant.keys == 0 {
            self.ids.remove(&tenant.name);
            self.free.push(id);
        }
    }

    pub(super) fn name(&self, TenantId(id): TenantId) -> &Arc<str> {
        &self.tenants[id as usize].name
    }

    pub(super) fn push(&mut self, TenantId(id): TenantId, urgency: Urgency, place: Place) {
        let lane = urgency as usize;
        if self.tenants[id as usize].lines[lane].insert(place) {
            self.lanes[lane].waiting += 1;
        }
        self.rejoin(id);
    }

    pub(super) fn remove(&mut self, TenantId(id): TenantId, urgency: Urgency, place: Place) {
        let lane = urgency as usize;
        if self.tenants[id as usize].lines[lane].remove(&place) {
            self.lanes[lane].waiting -= 1;
        }
        self.rejoin(id);
    }

    /// Takes the key whose turn it is; it counts as running until [`Self::finished`].
    pub(super) fn next(&mut self) -> Option<Place> {
        let lane = self.choose()?;
        let (turn, id) = self.first(lane)?;
        let tenant = &mut self.tenants[id as usize];
        self.lanes[lane].rounds[tenant.pace as usize].remove(&turn);
        tenant.joined[lane] = None;
        let place = tenant.lines[lane].pop_first()?;
        tenant.running += 1;
        self.slow_running += usize::from(tenant.pace == Pace::Slow);
        self.lanes[lane].waiting -= 1;
        for (index, other) in self.lanes.iter_mut().enumerate() {
            other.passed_over = if index == lane || other.waiting == 0 {
                0
            } else {
                other.passed_over.saturating_add(1)
            };
        }
        self.rejoin(id);
        Some(place)
    }

    pub(super) fn finished(&mut self, TenantId(id): TenantId) {
        let tenant = &mut self.tenants[id as usize];
        tenant.running -= 1;
        self.slow_running -= usize::from(tenant.pace == Pace::Slow);
        self.rejoin(id);
    }

    /// A key of a tenant runs for long.
    pub(super) fn takes_long(&mut self, TenantId(id): TenantId) {
        self.tenants[id as usize].long += 1;
        self.set_pace(id, Pace::Slow);
    }

    /// A key that ran for long has ended. Its tenant is slow until it is forgiven.
    pub(super) fn took_long(&mut self, TenantId(id): TenantId, forgiven: Duration) {
        let tenant = &mut self.tenants[id as usize];
        tenant.long -= 1;
        tenant.forgiven = Some(forgiven);
    }

    /// What a tenant was slow for is forgotten, unless it was slow again since.
    pub(super) fn forgive(&mut self, TenantId(id): TenantId, now: Duration) {
        let tenant = &mut self.tenants[id as usize];
        if tenant.long == 0 && tenant.forgiven.is_some_and(|at| at <= now) {
            tenant.forgiven = None;
            self.set_pace(id, Pace::Quick);
        }
    }

    fn set_pace(&mut self, id: u32, pace: Pace) {
        let tenant = &mut self.tenants[id as usize];
        if tenant.pace == pace {
            return;
        }
        for (lane, joined) in self.lanes.iter_mut().zip(tenant.joined) {
            if let Some(turn) = joined {
                lane.rounds[tenant.pace as usize].remove(&turn);
                lane.rounds[pace as usize].insert(turn, id);
            }
        }
        match pace {
            Pace::Slow => self.slow_running += tenant.running,
            Pace::Quick => self.slow_running -= tenant.running,
        }
        tenant.pace = pace;
    }

    /// How much is ready in each lane.
    pub(super) fn waiting(&self) -> [usize; LANES] {
        [0, 1, 2].map(|lane| self.lanes[lane].waiting)
    }

    /// Since when the key that is ready longest has been.
    pub(super) fn oldest(&self) -> Option<Duration> {
        let lines = self.tenants.iter().flat_map(|tenant| &tenant.lines);
        lines
            .filter_map(|line| line.first())
            .map(|place| place.ready)
            .min()
    }

    /// Whose turn is next in a lane.
    fn first(&self, lane: usize) -> Option<(u64, u32)> {
        let [quick, slow] = &self.lanes[lane].rounds;
        let slow = slow.first_key_value();
        let slow = slow.filter(|_| self.slow_running < self.of_slow);
        let first = quick.first_key_value().into_iter().chain(slow).min()?;
        Some((*first.0, *first.1))
    }

    /// The most urgent lane, unless a lower one has been passed over long enough.
    fn choose(&self) -> Option<usize> {
        let open = || (0..LANES).filter(|lane| self.first(*lane).is_some());
        let overdue = open()
            .rev()
            .filter(|lane| self.lanes[*lane].passed_over >= PATIENCE)
            .max_by_key(|lane| self.lanes[*lane].passed_over);
        overdue.or_else(|| open().next())
    }

    /// Lets a tenant stand in exactly the rounds that it belongs into.
    fn rejoin(&mut self, id: u32) {
        let tenant = &mut self.tenants[id as usize];
        for (lane, joined) in tenant.joined.iter_mut().enumerate() {
            let belongs = !tenant.lines[lane].is_empty() && tenant.running < self.per_tenant;
            match joined {
                None if belongs => {
                    self.joined += 1;
                    *joined = Some(self.joined);
                    self.lanes[lane].rounds[tenant.pace as usize].insert(self.joined, id);
                }
                Some(turn) if !belongs => {
                    self.lanes[lane].rounds[tenant.pace as usize].remove(turn);
                    *joined = None;
                }
                _ => {}
            }
        }
    }
}
