//! Whose turn it is: tenants in a round, three lanes, and how much of one tenant may run at once.
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

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TenantId(u32);

/// Who waits for what.
///
/// A tenant stands in the round of a lane exactly while it has something ready there and may run
/// more; it joins at the end, and goes to the end after each turn.
#[derive(Debug)]
pub(super) struct Turns {
    per_tenant: usize,
    ids: HashMap<Arc<str>, u32>,
    tenants: Vec<Tenant>,
    free: Vec<u32>,
    lanes: [Lane; LANES],
    joined: u64,
}

#[derive(Debug, Default)]
struct Lane {
    /// The tenants that may have a turn, in the order in which they joined.
    round: BTreeMap<u64, u32>,
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
    lines: [BTreeSet<Place>; LANES],
    /// Its place in the round of each lane.
    joined: [Option<u64>; LANES],
}

impl Turns {
    pub(super) fn new(per_tenant: usize) -> Self {
        Self {
            per_tenant: per_tenant.max(1),
            ids: HashMap::new(),
            tenants: Vec::new(),
            free: Vec::new(),
            lanes: Default::default(),
            joined: 0,
        }
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
        let (_, id) = self.lanes[lane].round.pop_first()?;
        let tenant = &mut self.tenants[id as usize];
        tenant.joined[lane] = None;
        let place = tenant.lines[lane].pop_first()?;
        tenant.running += 1;
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
        self.tenants[id as usize].running -= 1;
        self.rejoin(id);
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

    /// The most urgent lane, unless a lower one has been passed over long enough.
    fn choose(&self) -> Option<usize> {
        let open = || (0..LANES).filter(|lane| !self.lanes[*lane].round.is_empty());
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
                    self.lanes[lane].round.insert(self.joined, id);
                }
                Some(turn) if !belongs => {
                    self.lanes[lane].round.remove(turn);
                    *joined = None;
                }
                _ => {}
            }
        }
    }
}
