//! The deletion brake of one kind: it holds mass deletions of copies until an owner approves them.
//!
//! Deletions are a mass if they exceed a share of all copies within a window, and the same share of all tenants.
//! Each tenant counts once, by the part of its own copies that goes; the few tenants that lose most do not count. So
//! the deletion of everything in one or two tenants is not held up, however many copies they had.
//!
//! A hold for a mass contains only the tenants whose deletions make the mass. While the mass continues, a tenant that
//! loses a small part of its copies may delete them. Held tenants no longer count, and the other tenants are judged
//! among themselves. So somebody with most of the tenants does not hold up what others delete after the window.
//!
//! A cause makes objects look deleted although nobody deleted them: a type that is no longer served, or a list that came
//! back empty. A mass or a cause makes a *hold* with an id of its own. A hold ends when its id is approved, when its cause
//! is gone, or when nothing it holds is due for deletion.
//!
//! Pure. The brake is asked right before a deletion is sent. Deletions that it has allowed are not undone.

use std::collections::{BTreeSet, HashMap, HashSet, VecDeque};
use std::fmt;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;
use std::time::Duration;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BrakeOptions {
    /// A mass exceeds this share of all copies, in percent,
    pub share: u8,
    /// and has at least this many deletions.
    pub at_least: usize,
    /// The number of tenants that do not count: those that lose most.
    pub few: usize,
    /// The window: deletions within this time are counted together.
    pub window: Duration,
}

impl Default for BrakeOptions {
    fn default() -> Self {
        Self {
            share: 50,
            at_least: 20,
            few: 2,
            window: Duration::from_mins(1),
        }
    }
}

/// The number of copies of the kind at the time of a deletion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CopyCounts {
    pub copies: usize,
    /// Copies of the tenant that owns the copy.
    pub of_tenant: usize,
    /// The number of tenants that have copies.
    pub tenants: usize,
}

impl CopyCounts {
    /// Each copy is its own tenant.
    pub fn of_nobody(copies: usize) -> Self {
        Self {
            copies,
            of_tenant: 1,
            tenants: copies,
        }
    }
}

/// The brake of one kind. `K` identifies a copy.
#[derive(Clone, Debug)]
pub struct Brake<K> {
    options: BrakeOptions,
    /// Deletions within the window, with the number of copies at that time.
    gone: Window<K>,
    causes: Vec<Cause>,
    holds: Vec<Held<K>>,
    /// Deletions that were held when their holds were approved.
    approved: Vec<(HoldReason, HashSet<K>)>,
    /// Makes the ids of holds unique, also between processes.
    seed: u64,
    made: u64,
}

/// A cause that makes objects look deleted.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Cause {
    /// The type is no longer served.
    Definition,
    /// A list came back empty although objects were known.
    EmptiedList(Arc<str>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    Begins,
    Ends,
}

/// The reason of a hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HoldReason {
    /// Too many deletions within the window.
    Mass,
    Cause(Cause),
}

impl fmt::Display for HoldReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Mass => f.write_str("too many copies would be deleted at once"),
            Self::Cause(Cause::Definition) => f.write_str("the type is no longer served"),
            Self::Cause(Cause::EmptiedList(of)) => {
                write!(f, "the list of {of} came back empty")
            }
        }
    }
}

/// The id by which an owner approves a hold.
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

/// A hold, as conditions, metrics and events show it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hold {
    pub id: HoldId,
    pub since: Duration,
    /// The number of deletions that it holds.
    pub count: usize,
    pub why: HoldReason,
}

#[derive(Clone, Debug)]
struct Held<K> {
    id: HoldId,
    since: Duration,
    why: HoldReason,
    /// The held copies and their tenants.
    keys: HashMap<K, Arc<str>>,
    /// The held tenants, and when the last of them was added.
    tenants: HashMap<Arc<str>, HeldTenant>,
    joined: Duration,
    /// A hold that was taken over from another process stays until these times, so that its deletions can be requested
    /// again.
    unknown: Vec<Unknown>,
}

/// Tenants of a hold that was taken over. Until it is known which of them it holds, it holds all of them.
#[derive(Clone)]
struct Unknown {
    tenants: TenantFilter,
    known_by: Duration,
}

/// Some of the tenants; `None` for all.
type TenantFilter = Option<Arc<dyn Fn(&str) -> bool + Send + Sync>>;

/// A tenant in a hold.
#[derive(Clone, Copy, Debug, Default)]
struct HeldTenant {
    /// The number of its held copies.
    held: usize,
    /// The largest number of copies that it had.
    had: usize,
}

#[derive(Clone, Debug)]
struct Window<K> {
    gone: VecDeque<(Duration, K, Arc<str>)>,
    keys: HashSet<K>,
    tenants: HashMap<Arc<str>, Loss>,
    /// The number of copies, and of tenants.
    totals: SlidingMaximum,
    populations: SlidingMaximum,
}

/// Deletions of one tenant within the window.
#[derive(Clone, Copy, Debug, Default)]
struct Loss {
    gone: usize,
    /// The largest number of copies that it had within the window.
    had: usize,
}

/// The numbers of the window that can be its maximum: they decrease, so the first is the largest.
#[derive(Clone, Debug, Default)]
struct SlidingMaximum(VecDeque<(Duration, usize)>);

/// The vote of a tenant that loses all copies.
const WHOLE: u64 = 1_000_000;

/// The time for which a hold of an earlier process stays without requests for its deletions: lists have to be
/// complete and every object has to be looked at.
const TAKE_OVER: Duration = Duration::from_mins(10);

impl<K: Clone + Eq + Hash> Brake<K> {
    /// An open brake. The seed must differ from process to process.
    pub fn new(options: BrakeOptions, seed: u64) -> Self {
        Self {
            options,
            gone: Window {
                gone: VecDeque::new(),
                keys: HashSet::new(),
                tenants: HashMap::new(),
                totals: SlidingMaximum::default(),
                populations: SlidingMaximum::default(),
            },
            causes: Vec::new(),
            holds: Vec::new(),
            approved: Vec::new(),
            seed,
            made: 0,
        }
    }

    /// Takes over the hold for a mass that an earlier process announced, so that a restart does not approve it.
    pub fn resume(&mut self, id: &str, now: Duration) {
        let is_known = self.holds.iter().any(|hold| *hold.id.0 == *id);
        if !is_known {
            self.take_over(id, None, now);
        }
    }

    /// Takes over the part of a hold for a mass that concerns some tenants, beside the holds that there are.
    pub fn resume_for(
        &mut self,
        id: &str,
        tenants: impl Fn(&str) -> bool + Send + Sync + 'static,
        now: Duration,
    ) {
        self.take_over(id, Some(Arc::new(tenants)), now);
    }

    fn take_over(&mut self, id: &str, tenants: TenantFilter, now: Duration) {
        let unknown = Unknown {
            tenants,
            known_by: now.saturating_add(TAKE_OVER),
        };
        if let Some(hold) = self.holds.iter_mut().find(|hold| *hold.id.0 == *id) {
            hold.unknown.push(unknown);
            return;
        }
        self.holds.push(Held {
            id: HoldId(id.into()),
            since: now,
            why: HoldReason::Mass,
            keys: HashMap::new(),
            tenants: HashMap::new(),
            joined: now,
            unknown: vec![unknown],
        });
    }

    /// Holds all deletions that are known from the start if together they are a mass, because no event showed them one
    /// by one.
    pub fn hold_from_start(&mut self, going: usize, total_copies: usize, now: Duration) {
        let share = u128::from(self.options.share) * total_copies as u128;
        let is_mass = going >= self.options.at_least && going as u128 * 100 > share;
        if is_mass && !self.masses().any(|hold| !hold.is_partial()) {
            let id = self.next_id();
            self.resume(&id.0, now);
        }
    }

    /// Decides whether the copy of a tenant may be deleted now, given the current counts. Repeated requests within the
    /// window count once.
    pub fn ask(&mut self, key: &K, tenant: &str, now: Duration, stock: CopyCounts) -> Verdict {
        self.prune(now);
        let mut whys: Vec<HoldReason> =
            self.causes.iter().cloned().map(HoldReason::Cause).collect();
        // What was let go a moment ago is not held in its middle.
        let is_held = self.masses().any(|mass| mass.holds(tenant, now));
        if !self.gone.keys.contains(key) && is_held {
            whys.push(HoldReason::Mass);
        }
        whys.retain(|why| !self.is_approved(key, why));
        if whys.is_empty() && !self.is_approved(key, &HoldReason::Mass) {
            self.gone.totals.push(stock.copies, now);
            self.gone.populations.push(stock.tenants, now);
            if self.gone.keys.contains(key) {
                return Verdict::Go;
            }
            self.gone.push(key, tenant, stock.of_tenant, now);
            if !self.is_mass(now) || self.is_small(tenant) {
                return Verdict::Go;
            }
            self.gone.pop();
            whys.push(HoldReason::Mass);
        }
        // It is held for every reason there is, and goes when none is left.
        let mut verdict = Verdict::Go;
        for why in whys {
            verdict = Verdict::Held(self.hold(key, tenant, why, now, stock));
        }
        verdict
    }

    /// Withdraws a deletion: a pass ended without wanting the copy gone, or the copy is gone.
    pub(crate) fn withdraw(&mut self, key: &K, now: Duration) {
        for (_, keys) in &mut self.approved {
            keys.remove(key);
        }
        for hold in &mut self.holds {
            hold.withdraw(key);
        }
        self.prune(now);
    }

    /// Withdraws all held deletions of some tenants.
    pub(crate) fn leave(&mut self, is_meant: impl Fn(&str) -> bool, now: Duration) {
        for hold in &mut self.holds {
            let left = hold.keys.iter().filter(|(_, tenant)| is_meant(tenant));
            let left: Vec<K> = left.map(|(key, _)| key.clone()).collect();
            for key in &left {
                hold.withdraw(key);
            }
        }
        self.prune(now);
    }

    /// A cause begins or ends.
    pub fn cause(&mut self, cause: Cause, phase: Phase) {
        match phase {
            Phase::Begins if self.causes.contains(&cause) => {}
            Phase::Begins => self.causes.push(cause),
            Phase::Ends => {
                self.causes.retain(|other| *other != cause);
                let why = HoldReason::Cause(cause);
                self.holds.retain(|hold| hold.why != why);
                // Should it come back, it is another time.
                self.approved.retain(|(approved, _)| *approved != why);
            }
        }
    }

    /// Whether there is a cause.
    pub fn is_in_doubt(&self) -> bool {
        !self.causes.is_empty()
    }

    /// Ends all causes.
    pub(crate) fn end_causes(&mut self) {
        for cause in std::mem::take(&mut self.causes) {
            self.cause(cause, Phase::Ends);
        }
    }

    /// Releases the deletions that the named holds hold now; ids are separated by commas or spaces. Later deletions
    /// make a hold with another id. Returns whether any of the holds existed.
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
        self.approved.extend(
            approved
                .into_iter()
                .map(|hold| (hold.why, hold.keys.into_keys().collect())),
        );
        self.holds.len() < before
    }

    /// The current holds, the oldest first.
    pub fn held(&self) -> Vec<Hold> {
        let holds = self.holds.iter().map(|hold| Hold {
            id: hold.id.clone(),
            since: hold.since,
            count: hold.keys.len(),
            why: hold.why.clone(),
        });
        holds.collect()
    }

    /// The tenants of all holds.
    pub(crate) fn held_tenants(&self) -> BTreeSet<Arc<str>> {
        let tenants = self.holds.iter().flat_map(|hold| hold.tenants.keys());
        tenants.cloned().collect()
    }

    /// The number of held deletions. A deletion that is held for several reasons counts once.
    pub fn count(&self) -> usize {
        match &*self.holds {
            [] => 0,
            [hold] => hold.keys.len(),
            holds => {
                let keys: HashSet<&K> = holds.iter().flat_map(|hold| hold.keys.keys()).collect();
                keys.len()
            }
        }
    }

    /// The holds for a mass: its own, and those that were taken over.
    fn masses(&self) -> impl Iterator<Item = &Held<K>> {
        let holds = self.holds.iter();
        holds.filter(|hold| hold.why == HoldReason::Mass)
    }

    fn is_approved(&self, key: &K, why: &HoldReason) -> bool {
        let mut approved = self.approved.iter();
        approved.any(|(approved, keys)| approved == why && keys.contains(key))
    }

    /// Whether the deletions within the window are a mass, among the tenants that are not held.
    fn is_mass(&self, now: Duration) -> bool {
        let Self { options, gone, .. } = self;
        let mut tenants: HashMap<&str, usize> = HashMap::new();
        for (tenant, of_tenant) in self.masses().flat_map(|mass| &mass.tenants) {
            let had = tenants.entry(&**tenant).or_default();
            *had = (*had).max(of_tenant.had);
        }
        let held = tenants.len();
        let had = tenants.values().copied().fold(0, usize::saturating_add);
        let is_held = |tenant: &str| tenants.contains_key(tenant);
        // In 128 bits nothing overflows, whatever the numbers are.
        let share = u128::from(options.share);
        let copies = share * gone.totals.largest().saturating_sub(had) as u128;
        let losses: Vec<_> = gone.losses(is_held).collect();
        let count: usize = losses.iter().map(|loss| loss.gone).sum();
        if count as u128 * 100 <= copies {
            return false;
        }
        // A mass that continues needs no minimum, however few tenants are left.
        let goes_on = self.masses().any(|mass| {
            !mass.tenants.is_empty() && now.saturating_sub(mass.joined) < options.window
        });
        let few = if goes_on { 0 } else { options.few };
        let others = gone.populations.largest().saturating_sub(held);
        let most = share * others.saturating_sub(few) as u128 * u128::from(WHOLE);
        let (votes, copies) = without(&losses, few);
        (goes_on || copies >= options.at_least) && votes * 100 > most
    }

    /// Whether a tenant loses at most half of the share of its own copies: too little to be part of a mass.
    fn is_small(&self, tenant: &str) -> bool {
        let loss = self.gone.tenants.get(tenant);
        let vote = loss.map_or(0, |loss| loss.counts().1);
        u128::from(vote) * 200 <= u128::from(self.options.share) * u128::from(WHOLE)
    }

    fn hold(
        &mut self,
        key: &K,
        tenant: &str,
        why: HoldReason,
        now: Duration,
        stock: CopyCounts,
    ) -> HoldId {
        let had = self.gone.tenants.get(tenant).map_or(0, |loss| loss.had);
        let had = had.max(stock.of_tenant);
        // Each deletion is in one hold for a mass, so that it goes when that one is approved.
        let is_mass = why == HoldReason::Mass;
        let distance = |hold: &Held<K>| {
            if hold.keys.contains_key(key) {
                0
            } else if hold.holds(tenant, now) {
                1
            } else {
                2
            }
        };
        let holds = self.holds.iter_mut().filter(|hold| hold.why == why);
        let holds = holds.filter(|hold| !is_mass || !hold.is_partial() || distance(hold) < 2);
        if let Some(hold) = holds.min_by_key(|hold| distance(hold)) {
            hold.add(key, tenant, had, now);
            return hold.id.clone();
        }
        let id = self.next_id();
        let mut held = Held {
            id: id.clone(),
            since: now,
            why,
            keys: HashMap::new(),
            tenants: HashMap::new(),
            joined: now,
            unknown: Vec::new(),
        };
        held.add(key, tenant, had, now);
        self.holds.push(held);
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
        for hold in &mut self.holds {
            hold.unknown.retain(|unknown| now < unknown.known_by);
        }
        self.holds
            .retain(|hold| !hold.keys.is_empty() || !hold.unknown.is_empty());
        self.approved.retain(|(_, keys)| !keys.is_empty());
    }
}

impl<K: Clone + Eq + Hash> Window<K> {
    fn push(&mut self, key: &K, tenant: &str, had: usize, now: Duration) {
        let tenant = Arc::from(tenant);
        self.keys.insert(key.clone());
        let loss = self.tenants.entry(Arc::clone(&tenant)).or_default();
        loss.gone += 1;
        loss.had = loss.had.max(had);
        self.gone.push_back((now, key.clone(), tenant));
    }

    /// Undoes the last push.
    fn pop(&mut self) {
        if let Some((_, key, tenant)) = self.gone.pop_back() {
            self.drop(&key, &tenant);
        }
    }

    /// The loss of each tenant, except for tenants that are left out.
    fn losses(&self, left_out: impl Fn(&str) -> bool) -> impl Iterator<Item = Loss> {
        let counted = self.tenants.iter();
        let counted = counted.filter(move |(tenant, _)| !left_out(tenant));
        counted.map(|(_, loss)| *loss)
    }

    /// Forgets deletions that are as old as the window, or older.
    fn forget(&mut self, now: Duration, window: Duration) {
        let old = |at: Duration| now.saturating_sub(at) >= window;
        self.totals.forget(old);
        self.populations.forget(old);
        while self.gone.front().is_some_and(|(at, ..)| old(*at)) {
            if let Some((_, key, tenant)) = self.gone.pop_front() {
                self.drop(&key, &tenant);
            }
        }
    }

    fn drop(&mut self, key: &K, tenant: &Arc<str>) {
        self.keys.remove(key);
        if let Some(loss) = self.tenants.get_mut(tenant) {
            loss.gone -= 1;
            if loss.gone == 0 {
                self.tenants.remove(tenant);
            }
        }
    }
}

/// The votes of all tenants except the few that lose most, and the number of copies that they lose.
fn without(losses: &[Loss], few: usize) -> (u128, usize) {
    let mut losses: Vec<(usize, u64)> = losses.iter().map(Loss::counts).collect();
    let others = losses.len().saturating_sub(few);
    if (1..losses.len()).contains(&others) {
        losses.select_nth_unstable(others);
    }
    let others = losses.iter().take(others);
    others.fold((0, 0), |(votes, copies), (gone, vote)| {
        (votes + u128::from(*vote), copies + gone)
    })
}

impl<K: Clone + Eq + Hash> Held<K> {
    /// Whether it holds all deletions of a tenant: of tenants with a held copy, and of all that may have one as long as
    /// it is not known what another process held.
    fn holds(&self, tenant: &str, now: Duration) -> bool {
        let mut unknown = self.unknown.iter();
        let may_hold = unknown.any(|unknown| now < unknown.known_by && unknown.contains(tenant));
        may_hold || self.tenants.contains_key(tenant)
    }

    /// Whether it was taken over for some tenants only: what others delete makes another hold.
    fn is_partial(&self) -> bool {
        let mut unknown = self.unknown.iter();
        !self.unknown.is_empty() && unknown.all(|unknown| unknown.tenants.is_some())
    }

    fn add(&mut self, key: &K, tenant: &str, had: usize, now: Duration) {
        let known = self.keys.insert(key.clone(), tenant.into());
        if !self.tenants.contains_key(tenant) {
            self.joined = now;
        }
        let tenant = self.tenants.entry(tenant.into()).or_default();
        tenant.had = tenant.had.max(had);
        tenant.held += usize::from(known.is_none());
    }

    fn withdraw(&mut self, key: &K) {
        let Some(whose) = self.keys.remove(key) else {
            return;
        };
        if let Some(tenant) = self.tenants.get_mut(&whose) {
            tenant.held -= 1;
            if tenant.held == 0 {
                self.tenants.remove(&whose);
            }
        }
    }
}

impl Unknown {
    fn contains(&self, tenant: &str) -> bool {
        let tenants = self.tenants.as_ref();
        tenants.is_none_or(|contains| contains(tenant))
    }
}

impl fmt::Debug for Unknown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Unknown")
            .field("known_by", &self.known_by)
            .finish_non_exhaustive()
    }
}

impl Loss {
    /// The number and the share of its deleted copies. A tenant that creates and deletes the same copies all day loses
    /// at most all of them.
    fn counts(&self) -> (usize, u64) {
        let had = self.had.max(1);
        let gone = self.gone.min(had);
        let vote = gone as u128 * u128::from(WHOLE) / had as u128;
        (gone, u64::try_from(vote).unwrap_or(WHOLE))
    }
}

impl SlidingMaximum {
    fn push(&mut self, number: usize, now: Duration) {
        while self.0.back().is_some_and(|(_, less)| *less <= number) {
            self.0.pop_back();
        }
        self.0.push_back((now, number));
    }

    fn largest(&self) -> usize {
        self.0.front().map_or(0, |(_, number)| *number)
    }

    fn forget(&mut self, old: impl Fn(Duration) -> bool) {
        while self.0.front().is_some_and(|(at, _)| old(*at)) {
            self.0.pop_front();
        }
    }
}

#[cfg(test)]
mod tests;
