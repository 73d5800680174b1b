//! The order of turns: a round of tenants in each of three lanes, and the limits of running keys for one tenant and for
//! all slow tenants together.
//!
//! The more workers are busy, the fewer of them one tenant may have: never more than are left to the others. If several
//! tenants want as many as they can get, a tenant with nothing running still finds a worker.
//!
//! Knows waiting keys by the number of their slot only, and no clock.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use super::state::Urgency;

const LANES: usize = 3;

/// A lane that was passed over this often has the next turn: every eighth turn at least, or the ninth if both lower
/// lanes are due.
const MAX_PASSED_OVER: u32 = 7;

/// The position of a waiting key in the line of its tenant: the time at which it became ready, then the order of
/// arrival.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct QueuePosition {
    pub(super) ready: Duration,
    pub(super) seq: u64,
    pub(super) slot: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct TenantId(u32);

/// Whether the keys of a tenant run for long. All slow tenants together have a share of the workers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum TenantPace {
    Quick,
    Slow,
}

/// The waiting keys.
///
/// A tenant is in the round of a lane while it has ready keys there and may run more. It joins at the end, and moves to
/// the end after each turn.
#[derive(Debug)]
pub(super) struct Turns {
    per_tenant: usize,
    of_slow: usize,
    /// The number of keys that may run in total.
    workers: usize,
    running: usize,
    /// The number of running keys of slow tenants.
    slow_running: usize,
    ids: HashMap<Arc<str>, u32>,
    tenants: Vec<TenantTurns>,
    free: Vec<u32>,
    lanes: [UrgencyLane; LANES],
    joined: u64,
}

#[derive(Debug, Default)]
struct UrgencyLane {
    /// The tenants that may have a turn, by their pace, in the order in which they joined.
    rounds: [BTreeMap<u64, u32>; 2],
    /// The number of ready keys, including those of tenants that may not run more at the moment.
    waiting: usize,
    /// The number of turns of other lanes while keys waited here.
    passed_over: u32,
}

#[derive(Debug)]
struct TenantTurns {
    name: Arc<str>,
    /// Keys of this tenant, waiting or running. A tenant without keys is forgotten.
    keys: usize,
    running: usize,
    /// The number of its keys that run for long.
    long: usize,
    /// The time at which its last long run is forgotten.
    forgiven: Option<Duration>,
    pace: TenantPace,
    lines: [BTreeSet<QueuePosition>; LANES],
    /// Its position in the round of each lane.
    joined: [Option<u64>; LANES],
}

impl Turns {
    pub(super) fn new(per_tenant: usize) -> Self {
        Self {
            per_tenant: per_tenant.max(1),
            of_slow: usize::MAX,
            workers: usize::MAX,
            running: 0,
            slow_running: 0,
            ids: HashMap::new(),
            tenants: Vec::new(),
            free: Vec::new(),
            lanes: Default::default(),
            joined: 0,
        }
    }

    /// Limits the running keys of slow tenants, at least one.
    pub(super) fn with_slow(self, of_slow: usize) -> Self {
        let of_slow = of_slow.max(1);
        Self { of_slow, ..self }
    }

    /// Sets the number of keys that may run in total.
    pub(super) fn with_workers(self, workers: usize) -> Self {
        Self { workers, ..self }
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

    /// The tenant of a name, while it has keys.
    pub(super) fn find(&self, name: &str) -> Option<TenantId> {
        self.ids.get(name).copied().map(TenantId)
    }

    fn insert(&mut self, name: &Arc<str>) -> u32 {
        let tenant = TenantTurns {
            name: Arc::clone(name),
            keys: 0,
            running: 0,
            long: 0,
            forgiven: None,
            pace: TenantPace::Quick,
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

    /// Counts one key less; it must be neither waiting nor running.
    pub(super) fn leave(&mut self, TenantId(id): TenantId) {
        let tenant = &mut self.tenants[id as usize];
        tenant.keys -= 1;
        if tenant.keys == 0 {
            self.ids.remove(&tenant.name);
            self.free.push(id);
        }
    }

    pub(super) fn push(&mut self, TenantId(id): TenantId, urgency: Urgency, place: QueuePosition) {
        let lane = urgency as usize;
        if self.tenants[id as usize].lines[lane].insert(place) {
            self.lanes[lane].waiting += 1;
        }
        self.update_rounds(id);
    }

    pub(super) fn remove(
        &mut self,
        TenantId(id): TenantId,
        urgency: Urgency,
        place: QueuePosition,
    ) {
        let lane = urgency as usize;
        if self.tenants[id as usize].lines[lane].remove(&place) {
            self.lanes[lane].waiting -= 1;
        }
        self.update_rounds(id);
    }

    /// Takes the key whose turn it is; it counts as running until [`Self::finished`].
    pub(super) fn next(&mut self) -> Option<QueuePosition> {
        let lane = self.choose()?;
        let (turn, id) = self.first(lane)?;
        let tenant = &mut self.tenants[id as usize];
        self.lanes[lane].rounds[tenant.pace as usize].remove(&turn);
        tenant.joined[lane] = None;
        let place = tenant.lines[lane].pop_first()?;
        tenant.running += 1;
        self.running += 1;
        self.slow_running += usize::from(tenant.pace == TenantPace::Slow);
        self.lanes[lane].waiting -= 1;
        for (index, other) in self.lanes.iter_mut().enumerate() {
            other.passed_over = if index == lane || other.waiting == 0 {
                0
            } else {
                other.passed_over.saturating_add(1)
            };
        }
        self.update_rounds(id);
        Some(place)
    }

    pub(super) fn finished(&mut self, TenantId(id): TenantId) {
        let tenant = &mut self.tenants[id as usize];
        tenant.running -= 1;
        self.running -= 1;
        self.slow_running -= usize::from(tenant.pace == TenantPace::Slow);
        self.update_rounds(id);
    }

    /// A key of a tenant runs for long.
    pub(super) fn takes_long(&mut self, TenantId(id): TenantId) {
        self.tenants[id as usize].long += 1;
        self.set_pace(id, TenantPace::Slow);
    }

    /// A long run has ended. Its tenant is slow for a while.
    pub(super) fn took_long(&mut self, TenantId(id): TenantId, forgiven: Duration) {
        let tenant = &mut self.tenants[id as usize];
        tenant.long -= 1;
        tenant.forgiven = Some(forgiven);
    }

    /// Ends the slowness of a tenant, unless it had another long run since.
    pub(super) fn forgive(&mut self, TenantId(id): TenantId, now: Duration) {
        let tenant = &mut self.tenants[id as usize];
        if tenant.long == 0 && tenant.forgiven.is_some_and(|at| at <= now) {
            tenant.forgiven = None;
            self.set_pace(id, TenantPace::Quick);
        }
    }

    /// The number of running keys that have to end: the smaller of the number of waiting tenants that are not slow and
    /// have no worker, and the number of keys of slow tenants beyond their share.
    pub(super) fn to_end(&self) -> usize {
        let beyond = self.slow_running.saturating_sub(self.of_slow);
        self.starved().take(beyond).count()
    }

    /// Whether all workers are busy while tenants wait that are not slow and have none.
    pub(super) fn is_starving(&self) -> bool {
        self.starved().next().is_some()
    }

    fn starved(&self) -> impl Iterator<Item = u32> {
        let is_full = self.running >= self.workers;
        let lanes = self.lanes.iter().enumerate().filter(move |_| is_full);
        let waiting = lanes.flat_map(|(lane, one)| {
            let quick = one.rounds[TenantPace::Quick as usize].values();
            quick.map(move |id| (lane, *id))
        });
        // Each tenant counts once, in its most urgent lane.
        let starved = waiting.filter(|(lane, id)| {
            let tenant = &self.tenants[*id as usize];
            tenant.running == 0 && tenant.joined[..*lane].iter().all(Option::is_none)
        });
        starved.map(|(_, id)| id)
    }

    fn set_pace(&mut self, id: u32, pace: TenantPace) {
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
            TenantPace::Slow => self.slow_running += tenant.running,
            TenantPace::Quick => self.slow_running -= tenant.running,
        }
        tenant.pace = pace;
    }

    /// The number of ready keys in each lane.
    pub(super) fn waiting(&self) -> [usize; LANES] {
        [0, 1, 2].map(|lane| self.lanes[lane].waiting)
    }

    /// The time at which the oldest ready key became ready.
    pub(super) fn oldest(&self) -> Option<Duration> {
        let lines = self.tenants.iter().flat_map(|tenant| &tenant.lines);
        lines
            .filter_map(|line| line.first())
            .map(|place| place.ready)
            .min()
    }

    /// The tenant with the next turn in a lane.
    fn first(&self, lane: usize) -> Option<(u64, u32)> {
        let left = self.workers.saturating_sub(self.running);
        // Few are passed over: those that have something running.
        let first = |round: &BTreeMap<u64, u32>| {
            let mut round = round.iter().map(|(turn, id)| (*turn, *id));
            round.find(|(_, id)| self.tenants[*id as usize].running < left)
        };
        let [quick, slow] = &self.lanes[lane].rounds;
        let slow = first(slow).filter(|_| self.slow_running < self.of_slow);
        first(quick).into_iter().chain(slow).min()
    }

    /// The most urgent lane, unless a lower one has been passed over long enough.
    fn choose(&self) -> Option<usize> {
        let open = || (0..LANES).filter(|lane| self.first(*lane).is_some());
        let overdue = open()
            .rev()
            .filter(|lane| self.lanes[*lane].passed_over >= MAX_PASSED_OVER)
            .max_by_key(|lane| self.lanes[*lane].passed_over);
        overdue.or_else(|| open().next())
    }

    /// Puts a tenant into exactly the rounds that it belongs to.
    fn update_rounds(&mut self, id: u32) {
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
