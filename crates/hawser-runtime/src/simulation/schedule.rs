//! One schedule: steps that a seed decides, then rest, then the questions of the checker.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use super::dialect::{FOREIGN, Id, NAMES, SUBJECTS};
use super::dice::Dice;
use super::leases::Leases;
use super::replica::{Beside, LEASE, Mode, Replica, Slot, Waiting};
use super::world::{FEEDS, World};
use super::{checker, set_chance};
use crate::process::lease::Terms;
use crate::process::shards::shard_of;
use hawser_sync::{Answer, Failure, Request};

mod deeds;

/// The number of steps of the longest schedules.
pub(super) const LONGEST: usize = 60;

/// A request takes no longer to its server than this: less than the margin of a fence, with a hop of time.
const LONGEST_FLIGHT: Duration = Duration::from_millis(1_500);
/// The longest piece of time that passes at once where processes hold Leases.
const HOP: Duration = Duration::from_secs(1);
/// A process stands still for no longer.
const LONGEST_PAUSE: Duration = Duration::from_secs(40);
/// A process has seen all Leases when it has worked for so long.
const WATCHED: Duration = Duration::from_secs(8);
/// After this many rounds, it is said that a schedule does not come to rest.
const ROUNDS: usize = 3_000;

/// A request on its way.
struct Flight {
    replica: Arc<str>,
    mode: Mode,
    about: Id,
    request: Arc<Request>,
    departed: Duration,
    /// Nobody waits for the answer of a request whose process has ended.
    slot: Option<Slot>,
    /// The answer, once the server has carried the request out.
    answer: Option<Answer>,
}

/// What happened to a subject that makes less of it certain.
#[derive(Clone, Copy, Default)]
pub(super) struct Grace {
    /// Its memory was deleted: values that the source no longer has may stay on the copy.
    pub(super) lost: bool,
}

/// One schedule.
pub(super) struct Simulation {
    seed: u64,
    /// Steps that are left out.
    without: BTreeSet<usize>,
    pub(super) world: World,
    pub(super) leases: Leases,
    pub(super) replicas: Vec<Replica>,
    pub(super) grace: Vec<Grace>,
    dice: Dice,
    now: Duration,
    network: Vec<Flight>,
    started: usize,
    is_alone: bool,
    /// The modes of processes that start.
    modes: Vec<Mode>,
    /// Until when the Leases' server does not answer a process.
    silent: Vec<(Arc<str>, Duration)>,
    resumed: Vec<(Arc<str>, Duration)>,
    /// No faults from now on.
    calm: bool,
    calm_since: Duration,
    /// When somebody deleted a Lease.
    deleted: Option<Duration>,
    pub(super) trace: Option<Vec<String>>,
    pub(super) steps: usize,
}

impl Simulation {
    pub(super) fn new(seed: u64, without: BTreeSet<usize>, traced: bool) -> Self {
        let mut dice = Dice::new(seed);
        set_chance(dice.next());
        let modes = match dice.below(20) {
            0..=15 => vec![Mode::Alone],
            16 => vec![Mode::Elected],
            17 => vec![Mode::Shared(2)],
            18 => vec![Mode::Shared(3)],
            // Processes with another number of shards replace these.
            _ => vec![Mode::Elected, Mode::Shared(2), Mode::Shared(3)],
        };
        Self {
            seed,
            without,
            world: World::default(),
            leases: Leases::default(),
            replicas: Vec::new(),
            grace: vec![Grace::default(); SUBJECTS.len()],
            dice,
            now: Duration::from_secs(10),
            network: Vec::new(),
            started: 0,
            is_alone: modes == [Mode::Alone],
            modes,
            silent: Vec::new(),
            resumed: Vec::new(),
            calm: false,
            calm_since: Duration::MAX,
            deleted: None,
            trace: traced.then(Vec::new),
            steps: 0,
        }
    }

    fn note(&mut self, what: impl FnOnce() -> String) {
        if let Some(trace) = &mut self.trace {
            trace.push(format!("{:>9.3}s {}", self.now.as_secs_f64(), what()));
        }
    }

    /// Takes all steps, and answers whether the contract was kept.
    pub(super) fn run(&mut self) -> Result<(), String> {
        let steps = LONGEST / 2 + self.dice.below(LONGEST / 2 + 1);
        self.start();
        if self.dice.percent(60) {
            self.prepare()?;
        }
        for number in 0..steps {
            if self.without.contains(&number) {
                continue;
            }
            // A step is the same whether another one is left out or not.
            self.roll(number);
            self.note(|| format!("-- step {number}"));
            self.step();
            self.steps += 1;
            if let Some(violation) = self.world.violations.first() {
                return Err(violation.clone());
            }
        }
        self.roll(steps);
        self.end_faults();
        self.rest()?;
        checker::at_rest(self)?;
        self.stays_quiet()?;
        if self.remove_foreign() {
            self.rest()?;
            checker::at_rest(self)?;
        }
        self.delete_all();
        self.rest()?;
        checker::nothing_is_left(self)
    }

    fn roll(&mut self, number: usize) {
        let number = u64::try_from(number).unwrap_or_default() + 1;
        let seed = Dice::new(self.seed ^ (number << 40)).next();
        self.dice = Dice::new(seed);
        set_chance(seed);
    }

    // === steps ===

    fn step(&mut self) {
        let is_shared = usize::from(!self.is_alone);
        match self.dice.weighted(&[
            30,                // a deed
            25,                // events
            25,                // a pass
            40,                // the network
            4,                 // a cut watch
            8 + 6 * is_shared, // time
            2,                 // a kill
            2,                 // a start
            5 * is_shared,     // a suspended process, or its end
            1,                 // the wall clock
            3 * is_shared,     // a server of Leases that is silent
            is_shared,         // a process that leaves
            is_shared,         // a Lease that somebody deletes
        ]) {
            0 => self.deed(),
            1 => self.events(),
            2 => self.pass(),
            3 => self.network(),
            4 => self.cut(),
            5 => self.time(),
            6 => self.kill(),
            7 => self.start(),
            8 => self.suspend(),
            9 => self.jump(),
            10 => self.silence(),
            11 => self.leave(),
            _ => self.delete_lease(),
        }
    }

    fn active(&mut self) -> Option<usize> {
        let all = 0..self.replicas.len();
        let active: Vec<usize> = all.filter(|it| !self.replicas[*it].suspended).collect();
        (!active.is_empty()).then(|| *self.dice.pick(&active))
    }

    fn events(&mut self) {
        let Some(at) = self.active() else { return };
        let feed = self.dice.below(FEEDS);
        if self.dice.percent(40) {
            // Everything arrives.
            for feed in 0..FEEDS {
                self.list(at, feed);
                while self.hear(at, feed) {}
            }
            return;
        }
        self.list(at, feed);
        for _ in 0..=self.dice.below(3) {
            self.hear(at, feed);
        }
    }

    fn hear(&mut self, at: usize, feed: usize) -> bool {
        let (replica, world) = (&mut self.replicas[at], &self.world);
        let has_beside = matches!(replica.feeds[feed].beside, Beside::Listing { .. });
        let is_first = has_beside && self.dice.percent(30);
        let heard = is_first && replica.hear_beside(feed, world)
            || replica.hear(feed, world)
            || replica.hear_beside(feed, world);
        if heard {
            let of = &replica.feeds[feed];
            let (identity, state, beside) = (replica.identity.clone(), of.state, of.beside);
            self.note(|| format!("{identity} hears feed {feed}: {state:?}, beside {beside:?}"));
        }
        heard
    }

    /// Asks for a list where one is to be requested. The server may lag, but shows nothing older than it has shown.
    fn list(&mut self, at: usize, feed: usize) {
        if !self.replicas[at].wants_list(feed) {
            return;
        }
        let of = &self.replicas[at].feeds[feed];
        let (log, least) = (&self.world.logs[feed], of.highest);
        let oldest = log.up_to(least);
        let lag = if self.calm { 0 } else { self.dice.below(3) };
        let events = log.len().saturating_sub(lag).max(oldest);
        let version = match log.get(events) {
            Some(next) => next.version - 1,
            None => self.world.version,
        };
        self.replicas[at].request_list(feed, events, version.max(least));
    }

    fn cut(&mut self) {
        let Some(at) = self.active() else { return };
        let feed = self.dice.below(FEEDS);
        self.replicas[at].cut(feed);
        self.note(|| format!("replica {at} loses the watch of feed {feed}"));
    }

    fn pass(&mut self) {
        let Some(at) = self.active() else { return };
        let began = self.replicas[at].begin(&mut self.dice);
        self.work(at);
        if let Some(id) = began {
            let identity = self.replicas[at].identity.clone();
            self.note(|| format!("{identity} begins a pass over {}", id.source()));
        }
    }

    fn work(&mut self, at: usize) -> bool {
        let reports = self.replicas[at].work(&mut self.dice);
        let identity = self.replicas[at].identity.clone();
        let any = !reports.is_empty();
        for (id, report) in reports {
            self.note(|| {
                let outcomes: Vec<_> = report.outcomes.iter().map(|it| &it.reason).collect();
                format!(
                    "{identity} ends the pass over {}: {outcomes:?}",
                    id.source()
                )
            });
        }
        any
    }

    /// A request leaves its process, arrives, or is answered.
    fn network(&mut self) {
        for _ in 0..=self.dice.below(3) {
            let departing = self.departing();
            let number = departing.len() + self.network.len();
            if number == 0 {
                return;
            }
            let chosen = self.dice.below(number);
            match departing.get(chosen) {
                Some(at) => self.depart(*at),
                None => self.carry(chosen - departing.len()),
            }
        }
    }

    fn departing(&self) -> Vec<usize> {
        let all = self.replicas.iter().enumerate();
        let all = all.filter(|(_, replica)| !replica.suspended);
        let all = all.flat_map(|(at, it)| std::iter::repeat_n(at, it.waiting.lock().len()));
        all.collect()
    }

    fn depart(&mut self, at: usize) {
        let replica = &self.replicas[at];
        let waiting: Waiting = {
            let mut all = replica.waiting.lock();
            let chosen = self.dice.below(all.len());
            all.remove(chosen)
        };
        let (identity, mode) = (replica.identity.clone(), replica.mode);
        let (verb, key) = (waiting.request.verb(), waiting.request.key().cloned());
        if let Err(why) = replica.departs(&waiting) {
            let why = format!("not sent: {why}");
            self.note(|| format!("{identity}: {verb} {key:?}: {why}"));
            *waiting.slot.lock() = Some(Answer::Failed(Failure::Unavailable(why)));
            self.work(at);
            return;
        }
        self.note(|| {
            let key = key.map(|key| key.to_string()).unwrap_or_default();
            format!("{identity} sends {verb} {key}")
        });
        self.network.push(Flight {
            replica: identity,
            mode,
            about: waiting.about,
            request: waiting.request,
            departed: self.now,
            slot: Some(waiting.slot),
            answer: None,
        });
    }

    /// A request arrives, or its answer does.
    fn carry(&mut self, chosen: usize) {
        if self.network[chosen].answer.is_none() {
            return self.arrive(chosen);
        }
        let at = self.find(&self.network[chosen].replica);
        if at.is_some_and(|at| self.replicas[at].suspended) {
            return;
        }
        let flight = self.network.swap_remove(chosen);
        if let (Some(slot), Some(answer), Some(at)) = (flight.slot, flight.answer, at) {
            *slot.lock() = Some(answer);
            self.work(at);
        }
    }

    fn find(&self, identity: &str) -> Option<usize> {
        let mut all = self.replicas.iter();
        all.position(|replica| *replica.identity == *identity)
    }

    /// The server gets a request.
    fn arrive(&mut self, chosen: usize) {
        let fault = if self.calm { 100 } else { self.dice.below(100) };
        let lost = || Answer::Failed(Failure::Unavailable("no answer".to_owned()));
        let flight = &self.network[chosen];
        let (identity, about) = (flight.replica.clone(), flight.about.clone());
        let (request, mode) = (Arc::clone(&flight.request), flight.mode);
        let serve = |it: &mut Self| {
            it.check_fence(&identity, mode, &about, &request);
            it.world.serve(&about, &request)
        };
        let answer = match fault {
            0..4 => lost(),
            4..8 => {
                serve(self);
                lost()
            }
            8..10 => Answer::Failed(Failure::Unavailable("503".to_owned())),
            10..13 if request.writes() && !is_memory(&request) => {
                let why = "by a webhook".to_owned();
                Answer::Failed(match fault {
                    12 => Failure::Forbidden(why),
                    _ => Failure::Invalid(why),
                })
            }
            _ => serve(self),
        };
        self.note(|| {
            let key = request.key().map(ToString::to_string).unwrap_or_default();
            let said = match &answer {
                Answer::Failed(failure) => failure.to_string(),
                Answer::Object(object) => object.as_value().to_string(),
                Answer::Gone => "gone".to_owned(),
                Answer::Listed(all) => format!("{} objects", all.len()),
            };
            let fault = if (4..8).contains(&fault) {
                " (carried out)"
            } else {
                ""
            };
            format!(
                "{identity}: {} {key} is answered: {said}{fault}",
                request.verb()
            )
        });
        self.network[chosen].answer = Some(answer);
    }

    /// A write that is carried out comes from the holder of the Lease, and nobody else may write at the same time.
    fn check_fence(&mut self, identity: &str, mode: Mode, about: &Id, request: &Request) {
        if !request.writes() || mode == Mode::Alone {
            return;
        }
        let lease = match mode {
            Mode::Shared(count) => {
                let shard = shard_of(&about.0.cluster, count);
                format!("{LEASE}.shard-{shard}")
            }
            Mode::Alone | Mode::Elected => LEASE.to_owned(),
        };
        if let Some(holder) = self.leases.holder(&lease)
            && *holder != *identity
        {
            let holder = holder.to_owned();
            let violation = format!("{identity} wrote after {holder} took {lease}: {request:?}");
            self.world.violations.push(violation);
        }
        let mut others = self.replicas.iter();
        let other = others
            .find(|it| *it.identity != *identity && !it.suspended && it.may_write(about).is_ok());
        if let Some(other) = other {
            let violation = format!("{identity} wrote while {} may: {request:?}", other.identity);
            self.world.violations.push(violation);
        }
    }

    // === processes and time ===

    fn start(&mut self) {
        let most = if self.is_alone { 1 } else { 3 };
        let is_unsure = self
            .deleted
            .is_some_and(|at| at + Terms::USUAL.duration > self.now);
        if self.replicas.len() >= most || is_unsure {
            return;
        }
        self.started += 1;
        let identity: Arc<str> = format!("r_{}", self.started).into();
        let skew = i64::try_from(self.dice.below(20)).unwrap_or_default() - 10;
        let mode = *self.dice.pick(&self.modes);
        let replica = Replica::start(identity.clone(), mode, self.now, skew * 1_000_000);
        self.replicas.push(replica);
        self.note(|| format!("{identity} starts: {mode:?}"));
    }

    fn kill(&mut self) {
        if self.replicas.is_empty() {
            return;
        }
        let at = self.dice.below(self.replicas.len());
        self.end(at);
    }

    /// A process ends at once.
    fn end(&mut self, at: usize) {
        let replica = self.replicas.remove(at);
        let identity = replica.identity.clone();
        drop(replica);
        self.note(|| format!("{identity} ends"));
        if self.is_alone {
            // The next process starts later than requests of this one arrive.
            self.land(|_| true);
        }
        for flight in &mut self.network {
            if flight.replica == identity {
                flight.slot = None;
            }
        }
        self.network
            .retain(|it| it.slot.is_some() || it.answer.is_none());
    }

    fn suspend(&mut self) {
        if self.replicas.is_empty() {
            return;
        }
        let at = self.dice.below(self.replicas.len());
        if self.replicas[at].suspended {
            return self.resume(at);
        }
        self.replicas[at].suspended = true;
        let identity = self.replicas[at].identity.clone();
        self.resumed
            .push((identity.clone(), self.now + LONGEST_PAUSE));
        self.note(|| format!("{identity} stands still"));
    }

    fn resume(&mut self, at: usize) {
        let identity = self.replicas[at].identity.clone();
        self.note(|| format!("{identity} goes on"));
        self.resumed.retain(|(of, _)| *of != identity);
        let silent = self.is_silent(&identity);
        self.replicas[at].suspended = false;
        self.replicas[at].wake(self.now);
        // A pass may have its turn before the Leases have.
        while self.dice.percent(50) && !self.replicas[at].waiting.lock().is_empty() {
            self.depart(at);
        }
        self.replicas[at].advance(self.now, &mut self.leases, silent);
    }

    fn jump(&mut self) {
        let Some(at) = self.active() else { return };
        let seconds = i64::try_from(self.dice.below(7_200)).unwrap_or_default() - 3_600;
        self.replicas[at].skew += seconds * 1_000_000;
        self.note(|| format!("the wall clock of replica {at} jumps by {seconds} s"));
    }

    fn silence(&mut self) {
        let Some(at) = self.active() else { return };
        let identity = self.replicas[at].identity.clone();
        let seconds = u64::try_from(1 + self.dice.below(20)).unwrap_or_default();
        self.note(|| format!("the server of Leases is silent to {identity} for {seconds} s"));
        self.silent
            .push((identity, self.now + Duration::from_secs(seconds)));
    }

    fn is_silent(&self, identity: &str) -> bool {
        let mut silent = self.silent.iter();
        silent.any(|(of, until)| **of == *identity && *until > self.now)
    }

    fn leave(&mut self) {
        let Some(at) = self.active() else { return };
        self.replicas[at].leave();
        let identity = self.replicas[at].identity.clone();
        self.note(|| format!("{identity} is to end"));
    }

    fn delete_lease(&mut self) {
        let of_shards = self.leases.names().filter(|name| *name != LEASE);
        let names: Vec<_> = of_shards.cloned().collect();
        let is_watched = |replica: &Replica| {
            !replica.suspended
                && replica.filled_at.is_some_and(|at| at + WATCHED < self.now)
                && !self
                    .silent
                    .iter()
                    .any(|(of, until)| *of == replica.identity && *until + WATCHED > self.now)
        };
        // Who has not seen the Lease does not know that it may be held.
        if !names.is_empty() && self.replicas.iter().all(is_watched) {
            self.deleted = Some(self.now);
            let name = self.dice.pick(&names).clone();
            self.leases.delete(&name);
            self.note(|| format!("somebody deletes the Lease {name}"));
        }
    }

    fn time(&mut self) {
        let steps = [10, 100, 1_000, 3_000, 6_000, 10_000, 20_000];
        let millis = *self.dice.pick(&steps);
        self.pass_time(Duration::from_millis(millis));
    }

    /// Requests arrive that meet a condition.
    fn land(&mut self, meant: impl Fn(&Flight) -> bool) {
        for at in 0..self.network.len() {
            if self.network[at].answer.is_none() && meant(&self.network[at]) {
                self.arrive(at);
            }
        }
    }

    pub(super) fn pass_time(&mut self, time: Duration) {
        let end = self.now + time;
        while self.now < end {
            let next = if self.is_alone {
                end
            } else {
                end.min(self.now + HOP)
            };
            self.land(|flight| flight.departed + LONGEST_FLIGHT <= next);
            self.now = next;
            for at in 0..self.replicas.len() {
                let replica = &self.replicas[at];
                if replica.suspended {
                    let identity = &replica.identity;
                    let mut due = self.resumed.iter();
                    if due.any(|(of, until)| of == identity && *until <= next) {
                        self.resume(at);
                    }
                    continue;
                }
                let silent = self.is_silent(&replica.identity);
                self.replicas[at].advance(next, &mut self.leases, silent);
                for (call, silent) in std::mem::take(&mut self.replicas[at].calls) {
                    let identity = self.replicas[at].identity.clone();
                    let silent = if silent { " without an answer" } else { "" };
                    self.note(|| format!("{identity}: {} {}{silent}", call.method, call.path));
                }
            }
            while let Some(at) = self.replicas.iter().position(Replica::has_ended) {
                self.end(at);
            }
        }
    }

    // === rest ===

    /// No faults from now on, and enough processes.
    fn end_faults(&mut self) {
        self.note(|| "faults end".to_owned());
        self.calm = true;
        self.silent.clear();
        for at in 0..self.replicas.len() {
            if self.replicas[at].suspended {
                self.resume(at);
            }
        }
        // A roll-out ends.
        self.modes = vec![*self.dice.pick(&self.modes)];
        while let Some(at) = self
            .replicas
            .iter()
            .position(|it| !self.modes.contains(&it.mode))
        {
            self.end(at);
        }
        self.pass_time(Duration::from_millis(1));
        self.calm_since = self.now;
        for number in 0..SUBJECTS.len() {
            self.hold(number, false);
        }
    }

    /// Everything arrives and every pass is made, until nothing is left to do.
    pub(super) fn rest(&mut self) -> Result<(), String> {
        for _ in 0..ROUNDS {
            if self.replicas.is_empty() {
                self.start();
                if self.replicas.is_empty() {
                    self.pass_time(HOP);
                    continue;
                }
            }
            let before = (self.world.requests, self.world.version);
            let mut busy = false;
            for at in 0..self.replicas.len() {
                for feed in 0..FEEDS {
                    self.list(at, feed);
                    while self.hear(at, feed) {
                        busy = true;
                    }
                }
                while let Some(id) = self.replicas[at].begin(&mut self.dice) {
                    let identity = self.replicas[at].identity.clone();
                    self.note(|| format!("{identity} begins a pass over {}", id.source()));
                    busy = true;
                    self.work(at);
                }
                busy |= self.work(at);
            }
            while let Some(at) = self.departing().first() {
                self.depart(*at);
            }
            while !self.network.is_empty() {
                self.carry(0);
            }
            if let Some(violation) = self.world.violations.first() {
                return Err(violation.clone());
            }
            if busy || before != (self.world.requests, self.world.version) {
                continue;
            }
            match self.next_due() {
                None => return Ok(()),
                Some(wait) => self.pass_time(wait),
            }
        }
        Err("the schedule does not come to rest".to_owned())
    }

    /// How long nothing happens; `None` if nothing is left to do.
    fn next_due(&self) -> Option<Duration> {
        let is_worked_on = |id: &Id| self.replicas.iter().any(|it| it.works_on(id));
        if !SUBJECTS.iter().all(is_worked_on) {
            return Some(HOP);
        }
        let idle = self.replicas.iter().all(Replica::is_idle);
        let waits = |replica: &Replica| {
            let queued = SUBJECTS.iter().filter(|id| replica.is_queued(id));
            let mut others = queued.filter(|id| {
                let refused = replica.refused.get(*id);
                let is_certain = refused.is_some_and(|begun| *begun > self.calm_since);
                !is_certain || !self.is_taken(id)
            });
            others.next().is_some()
        };
        if idle && !self.replicas.iter().any(waits) {
            return None;
        }
        let due = self.replicas.iter().filter_map(Replica::due).min();
        let wait = due.unwrap_or_default().saturating_sub(self.now);
        Some(wait.clamp(Duration::from_millis(1), Duration::from_secs(30)))
    }

    /// Whether an object in the place of a copy counts as foreign.
    fn is_taken(&self, id: &Id) -> bool {
        // Nor is a copy without marks known if the memory was lost.
        if self.subjects().any(|(one, grace)| one == id && grace.lost) {
            return true;
        }
        let places = [&id.0.copy, &id.0.credentials.1, &id.0.settings.1];
        let mut objects = places.iter().filter_map(|key| self.world.get(key));
        objects.any(|object| object.annotation(FOREIGN).is_some())
    }

    /// What is at rest sends no request, whatever time passes.
    fn stays_quiet(&mut self) -> Result<(), String> {
        let is_refused = SUBJECTS.iter().any(|id| self.is_taken(id));
        let moves = |it: &Self| {
            let replicas = it.replicas.iter();
            let moves = replicas.map(|replica| (replica.identity.clone(), replica.moves));
            moves.collect::<Vec<_>>()
        };
        let before = (self.world.requests, moves(self));
        self.pass_time(Duration::from_secs(if self.is_alone { 600 } else { 4 }));
        self.rest()?;
        let is_moved = before.1 != moves(self);
        if self.world.requests != before.0 && !is_refused && !is_moved {
            return Err("requests are sent although nothing has changed".to_owned());
        }
        Ok(())
    }

    pub(super) fn subjects(&self) -> impl Iterator<Item = (&'static Id, Grace)> + '_ {
        SUBJECTS.iter().zip(self.grace.iter().copied())
    }
}

/// Whether a request is about a memory. If its write is refused for good, the engine goes on without it.
fn is_memory(request: &Request) -> bool {
    request.key().is_some_and(|key| key.kind == NAMES.state)
}
