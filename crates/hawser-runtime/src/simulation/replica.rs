//! One process of the agent: the real caches, client, queue, passes, Leases and shards, on a clock of its own.

use std::collections::{BTreeSet, HashMap};
use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::runtime::{Builder, Runtime};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::yield_now;
use tokio_util::sync::CancellationToken;

mod caches;

use super::dialect::{CLUSTER, Front, Id, NAME, NAMES, SUBJECTS, has_related};
use super::leases::{Leases, SentCall, Wire};
use super::world::{COPIES, OWN_SECRETS, STATES};
use super::{IGNORES_FENCES, dice::Dice, set_clock};
use crate::cluster::cache::{
    Cache, Coverage, KeptByAll, Listed, Partition, Table, TenantMark, WantedParts,
};
use crate::cluster::connection::{Call, CallError, Reply};
use crate::cluster::queue::{Due, Fair, Outcome, Take, Urgency};
use crate::cluster::wire::GuardedClient;
use crate::controller::workers::next;
use crate::process::lease::{Fence, Fenced, LeaseOptions, Marks, Terms, elect};
use crate::process::metrics::Metrics;
use crate::process::shards::{
    ShardChange, ShardKeeper, ShardOptions, ShardWork, Shards, await_no_shards, shard_of, view,
};
use hawser_sync::reason::Class;
use hawser_sync::{Answer, Cluster, Failure, Key, Report, Request, Settled, WriteConflict, run};
use kube_lang::object::Object;

/// The name of the leader's Lease.
pub(super) const LEASE: &str = "agents";
/// A refused subject is tried again after this time.
const REFUSED: Duration = Duration::from_mins(1);
/// The passes of a process at a time.
const WORKERS: usize = 4;
/// So often other tasks have a turn before a process counts as idle.
const TURNS: usize = 6;

/// How processes agree on who works.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mode {
    /// There is one process, without a Lease.
    Alone,
    /// The leader works.
    Elected,
    /// Processes share this many shards.
    Shared(usize),
}

/// The place for the answer to a request.
pub(super) type Slot = Arc<Mutex<Option<Answer>>>;

/// A request that waits in a process until it leaves.
pub(super) struct Waiting {
    pub(super) about: Id,
    pub(super) request: Arc<Request>,
    pub(super) slot: Slot,
    work: Option<Arc<ShardWork>>,
}

/// What a pass sends its requests through.
struct Courier {
    client: Arc<GuardedClient>,
    about: Id,
    waiting: Arc<Mutex<Vec<Waiting>>>,
    work: Option<Arc<ShardWork>>,
    put_off: Mutex<Option<Duration>>,
}

impl Cluster for Courier {
    async fn send(&self, request: &Request) -> Answer {
        let tenant = &self.about.0.cluster;
        let exchange = async {
            let slot = Slot::default();
            self.waiting.lock().push(Waiting {
                about: self.about.clone(),
                request: Arc::new(request.clone()),
                slot: Arc::clone(&slot),
                work: self.work.clone(),
            });
            poll_fn(|_| match slot.lock().take() {
                Some(answer) => Poll::Ready(answer),
                None => Poll::Pending,
            })
            .await
        };
        match self.client.send_by(Some(tenant), request, exchange).await {
            Ok((answer, _)) => answer,
            Err(WriteConflict { place, wait }) => {
                let mut put_off = self.put_off.lock();
                *put_off = put_off.into_iter().chain([wait]).min();
                Answer::Failed(Failure::Contested(place))
            }
        }
    }
}

type Finished = (Report, Option<Duration>);

struct RunningPass {
    id: Id,
    began: Duration,
    work: Pin<Box<dyn Future<Output = Finished> + Send>>,
}

/// What a feed does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FeedState {
    Cold,
    /// A list was answered with the state after so many events, and has not arrived yet.
    Listing {
        events: usize,
        version: u64,
    },
    /// The next event.
    Following(usize),
}

/// What a feed does beside its watch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Beside {
    Nothing,
    /// A list is to be requested.
    Due,
    Listing {
        events: usize,
        version: u64,
    },
}

pub(super) struct Feed {
    table: Arc<Table>,
    /// Notified when other shards are wanted.
    wanted: Option<WantedParts>,
    /// The shards that the list under way shows.
    listing: Option<BTreeSet<usize>>,
    pub(super) state: FeedState,
    /// The list of more shards beside the watch.
    pub(super) beside: Beside,
    /// The highest version of a list or an event.
    pub(super) highest: u64,
}

/// What became of the election.
#[derive(Default)]
struct Election {
    leads: bool,
    lost: bool,
    left: bool,
}

/// A process.
pub(super) struct Replica {
    pub(super) identity: Arc<str>,
    pub(super) mode: Mode,
    runtime: Option<Runtime>,
    /// The time that the process has reached.
    pub(super) clock: Duration,
    /// The difference of its wall clock, in microseconds.
    pub(super) skew: i64,
    /// The process stands still.
    pub(super) suspended: bool,
    cache: Arc<Cache>,
    client: Arc<GuardedClient>,
    pub(super) feeds: Vec<Feed>,
    queue: Fair<Id>,
    rested: HashMap<Id, Arc<Settled>>,
    /// Subjects whose last pass was refused, with the time at which it began.
    pub(super) refused: HashMap<Id, Duration>,
    /// How often the subjects of this process changed.
    pub(super) moves: usize,
    /// When it began to look at Leases.
    pub(super) filled_at: Option<Duration>,
    passes: Vec<RunningPass>,
    pub(super) waiting: Arc<Mutex<Vec<Waiting>>>,
    wire: Wire,
    /// Calls to the server of Leases, and whether they are not answered.
    pub(super) calls: Vec<(Call, bool)>,
    unanswered: Vec<oneshot::Sender<Result<Reply, CallError>>>,
    fence: Fence,
    shards: Option<(Arc<Shards>, mpsc::UnboundedReceiver<ShardChange>)>,
    election: Arc<Mutex<Election>>,
    at_work: bool,
    /// Cancelled when everything is listed.
    ready: CancellationToken,
    /// No more passes begin.
    stop: CancellationToken,
    /// The Lease of the leader is released: the passes have ended.
    drained: CancellationToken,
    note: watch::Sender<String>,
}

thread_local! {
    static RUNTIMES: std::cell::RefCell<Vec<Runtime>> = const { std::cell::RefCell::new(Vec::new()) };
    static METRICS: Arc<Metrics> = Arc::new(Metrics::new());
}

/// A clock, and what waits for it. Where nothing waits, an earlier one is as good as a new one.
fn runtime(mode: Mode) -> Runtime {
    let kept = RUNTIMES.with_borrow_mut(|kept| kept.pop_if(|_| mode == Mode::Alone));
    kept.unwrap_or_else(|| {
        let mut builder = Builder::new_current_thread();
        let builder = builder.enable_time().start_paused(true);
        builder.build().expect("a runtime without sockets")
    })
}

impl Replica {
    pub(super) fn start(identity: Arc<str>, mode: Mode, now: Duration, skew: i64) -> Self {
        let runtime = runtime(mode);
        let entered = runtime.enter();
        let (cache, names) = (Cache::new(), &*NAMES);
        let feeds = [
            (&names.tenants, &names.thing),
            (&names.tenants, &names.secret),
            (&names.service, &names.thing),
            (&names.service, &names.secret),
            (&names.service, &names.state),
        ];
        let shards = match mode {
            Mode::Shared(count) => Some(Shards::new(count)),
            Mode::Alone | Mode::Elected => None,
        };
        let feeds = feeds.into_iter().enumerate().map(|(number, (side, kind))| {
            let (mark, everywhere): (_, Option<KeptByAll>) = match number {
                STATES => (TenantMark::Label(CLUSTER), Some(has_related)),
                COPIES => (TenantMark::Label(CLUSTER), None),
                _ => (TenantMark::Cluster("cluster"), None),
            };
            let shards = shards.as_ref().filter(|_| number != OWN_SECRETS);
            let partition = shards.map(|(shards, _)| {
                let count = shards.count();
                Partition {
                    mark,
                    part_of: Arc::new(move |tenant| shard_of(tenant, count)),
                    wanted: shards.wanted(),
                    everywhere,
                }
            });
            let wanted = partition.as_ref().map(|partition| partition.wanted.clone());
            let coverage = Coverage {
                partition,
                labelled: (number == COPIES).then(|| CLUSTER.into()),
                indexed: match number {
                    COPIES => vec![CLUSTER.into(), NAME.into()],
                    _ => Vec::new(),
                },
                ..Coverage::default()
            };
            Feed {
                table: cache.add(side, kind, &"source".into(), coverage),
                wanted,
                listing: None,
                state: FeedState::Cold,
                beside: Beside::Nothing,
                highest: 0,
            }
        });
        let feeds = feeds.collect();
        cache.route(&names.service, "", &"source".into());
        for id in SUBJECTS.iter() {
            cache.route(&names.tenants, &id.0.cluster, &"source".into());
        }
        let fence = match mode {
            Mode::Alone => Fence::always_open(),
            Mode::Elected | Mode::Shared(_) => Fence::closed(),
        };
        let client = GuardedClient::new(&cache);
        let mut replica = Self {
            identity,
            mode,
            runtime: None,
            clock: now,
            skew,
            suspended: false,
            cache,
            client,
            feeds,
            queue: Fair::new(WORKERS / 2)
                .with_slow(WORKERS / 2)
                .with_workers(WORKERS),
            rested: HashMap::new(),
            refused: HashMap::new(),
            moves: 0,
            filled_at: None,
            passes: Vec::new(),
            waiting: Arc::default(),
            wire: Wire::default(),
            calls: Vec::new(),
            unanswered: Vec::new(),
            fence,
            shards,
            election: Arc::default(),
            at_work: false,
            ready: CancellationToken::new(),
            stop: CancellationToken::new(),
            drained: CancellationToken::new(),
            note: watch::channel(String::new()).0,
        };
        replica.share();
        drop(entered);
        replica.runtime = Some(runtime);
        replica
    }

    fn runtime(&self) -> &Runtime {
        let runtime = self.runtime.as_ref();
        runtime.expect("it is taken when the process ends")
    }

    /// The process serves this tenant too.
    pub(super) fn route(&self, cluster: &str) {
        self.cache.route(&NAMES.tenants, cluster, &"source".into());
    }

    fn shard_options(&self) -> ShardOptions {
        ShardOptions {
            namespace: "agents".to_owned(),
            name: LEASE.to_owned(),
            identity: self.identity.to_string(),
            terms: Terms::USUAL,
            leader: self.fence.clone(),
            metrics: METRICS.with(Arc::clone),
        }
    }

    /// Looks for shards, and takes some once everything is listed.
    fn share(&mut self) {
        let Some((shards, _)) = &self.shards else {
            return;
        };
        let (note, told) = watch::channel(String::new());
        self.note = note;
        let (heard, _) = watch::channel(std::collections::BTreeMap::new());
        let (wire, ready) = (self.wire.clone(), self.ready.clone());
        let keeper = ShardKeeper::new(wire, self.shard_options(), shards, told, heard, ready);
        let (election, stop) = (Arc::clone(&self.election), self.stop.clone());
        tokio::runtime::Handle::current().spawn(async move {
            keeper.run(stop).await;
            election.lock().left = true;
        });
    }

    /// Everything is listed: candidates compete from now on.
    fn filled(&mut self) {
        self.filled_at = Some(self.clock);
        self.ready.cancel();
        if self.mode == Mode::Alone {
            return self.begin_work();
        }
        let metrics = METRICS.with(Arc::clone);
        let mut options = LeaseOptions {
            identity: self.identity.to_string(),
            ..LeaseOptions::usual("agents", LEASE.to_owned(), &self.fence, &metrics)
        };
        options.marks = match self.mode {
            Mode::Shared(count) => view::marks(LEASE, count, &self.identity),
            Mode::Alone | Mode::Elected => Marks::default(),
        };
        let (wire, stop) = (self.wire.clone(), self.drained.clone());
        let (election, mode, others) =
            (Arc::clone(&self.election), self.mode, self.shard_options());
        let handle = tokio::runtime::Handle::current();
        handle.spawn(async move {
            let elected = async {
                let leadership = elect(wire.clone(), options).await;
                if mode == Mode::Elected {
                    await_no_shards(&wire, &others).await;
                    election.lock().leads = true;
                }
                leadership
            };
            let leadership = tokio::select! {
                biased;
                () = stop.cancelled() => None,
                leadership = elected => Some(leadership),
            };
            if let Some(leadership) = leadership {
                tokio::select! {
                    biased;
                    () = stop.cancelled() => {}
                    () = leadership.lost().cancelled() => election.lock().lost = true,
                }
                leadership.release().await;
            }
            if mode == Mode::Elected {
                election.lock().left = true;
            }
        });
    }

    // === the queue and the passes ===

    fn add(&mut self, id: Id, urgency: Urgency) {
        if self.works_on(&id) {
            let (tenant, at) = (Arc::clone(&id.0.cluster), self.clock);
            self.queue.add(id, &tenant, Due { at, urgency }, at);
        }
    }

    fn begin_work(&mut self) {
        self.at_work = true;
        self.moves += 1;
        for id in self.subjects() {
            self.add(id, Urgency::Initial);
        }
    }

    /// Takes the next subject; returns whether there was one.
    pub(super) fn begin(&mut self, dice: &mut Dice) -> Option<Id> {
        if self.passes.len() >= WORKERS || self.stop.is_cancelled() {
            return None;
        }
        let Take::Key(taken) = self.queue.take(self.clock) else {
            return None;
        };
        let id = taken.key;
        let _entered = self.runtime().enter();
        let work = match &self.shards {
            None => Ok(None),
            Some((shards, _)) => match shards.begin(shard(&id, shards)) {
                Some(work) => Ok(Some(Arc::new(work))),
                None => Err(()),
            },
        };
        let rested = self.rested.get(&id).cloned();
        let is_at_rest = rested.as_ref().is_some_and(|it| it.holds(0, &*self.cache));
        let (Ok(work), false) = (work, is_at_rest) else {
            self.queue
                .done(&id, Outcome::Settled, self.clock, dice.next());
            return Some(id);
        };
        let courier = Courier {
            client: Arc::clone(&self.client),
            about: id.clone(),
            waiting: Arc::clone(&self.waiting),
            work,
            put_off: Mutex::default(),
        };
        let (front, cache) = (Front(id.clone()), Arc::clone(&self.cache));
        let pass = async move {
            let report = run(&front, rested.as_deref(), &*cache, &courier).await;
            (report, courier.put_off.into_inner())
        };
        self.passes.push(RunningPass {
            id: id.clone(),
            began: self.clock,
            work: Box::pin(pass),
        });
        Some(id)
    }

    /// Continues passes as far as their requests are answered.
    pub(super) fn work(&mut self, dice: &mut Dice) -> Vec<(Id, Report)> {
        let mut ended = Vec::new();
        let runtime = self
            .runtime
            .take()
            .expect("it is taken when the process ends");
        let entered = runtime.enter();
        let mut context = Context::from_waker(Waker::noop());
        self.passes
            .retain_mut(|pass| match pass.work.as_mut().poll(&mut context) {
                Poll::Pending => true,
                Poll::Ready((report, put_off)) => {
                    ended.push((pass.id.clone(), pass.began, report, put_off));
                    false
                }
            });
        drop(entered);
        self.runtime = Some(runtime);
        let mut reports = Vec::new();
        for (id, began, report, put_off) in ended {
            let settled = Settled::of(&report, 0).filter(|_| !self.queue.is_forgotten(&id));
            match settled {
                Some(settled) => self.rested.insert(id.clone(), Arc::new(settled)),
                None => self.rested.remove(&id),
            };
            let classes = report.outcomes.iter().map(|it| it.reason.code.class());
            if classes.max() == Some(Class::Refused) {
                self.refused.insert(id.clone(), began);
            } else {
                self.refused.remove(&id);
            }
            let outcome = next(&report, put_off, Some(REFUSED));
            self.queue.done(&id, outcome, self.clock, dice.next());
            reports.push((id, report));
        }
        reports
    }

    /// The subjects that wait or are worked on.
    pub(super) fn backlog(&self) -> usize {
        self.queue.depth().ready() + self.passes.len()
    }

    pub(super) fn is_idle(&self) -> bool {
        self.passes.is_empty()
    }

    /// When the next subject is due; `None` if none waits.
    pub(super) fn due(&self) -> Option<Duration> {
        let mut queue = SUBJECTS.iter().filter_map(|id| self.queue.due(id));
        let first = queue.next()?;
        Some(queue.fold(first, Duration::min))
    }

    /// Whether this subject waits in the queue, or runs.
    pub(super) fn is_queued(&self, id: &Id) -> bool {
        self.queue.due(id).is_some()
    }

    /// Whether a request may leave the process now; otherwise the reason.
    pub(super) fn departs(&self, waiting: &Waiting) -> Result<(), String> {
        if IGNORES_FENCES.get() {
            return Ok(());
        }
        let _entered = self.runtime().enter();
        let is_wanted = waiting.work.as_ref().map_or(Ok(()), |work| work.check());
        is_wanted.map_err(|fenced| fenced.to_string())?;
        if !waiting.request.writes() {
            return Ok(());
        }
        self.may_write(&waiting.about)
            .map_err(|fenced| fenced.to_string())
    }

    /// What the fence says about writes for a subject.
    pub(super) fn may_write(&self, about: &Id) -> Result<(), Fenced> {
        let _entered = self.runtime().enter();
        match &self.shards {
            // A leader without shards waits until nobody has one.
            None if !self.at_work => Err(Fenced),
            None => self.fence.check(),
            Some((shards, _)) => shards.check(shard(about, shards)),
        }
    }

    // === time and Leases ===

    /// Time goes by, up to `now`, and what the process does meanwhile about Leases.
    pub(super) fn advance(&mut self, now: Duration, leases: &mut Leases, silent: bool) {
        self.wake(now);
        self.pump(leases, silent);
    }

    /// Time has gone by, and nothing of the process had a turn yet.
    pub(super) fn wake(&mut self, now: Duration) {
        let passed = now.saturating_sub(self.clock);
        self.clock = now;
        if !passed.is_zero() {
            let mut advanced = pin!(tokio::time::advance(passed));
            // The clock moves at the first poll; with a second one, other tasks would have a turn.
            self.runtime().block_on(poll_fn(|context| {
                let _ = advanced.as_mut().poll(context);
                Poll::Ready(())
            }));
        }
    }

    fn pump(&mut self, leases: &mut Leases, silent: bool) {
        let is_idle = self.mode == Mode::Elected && !self.is_filled();
        if self.mode == Mode::Alone || is_idle {
            return;
        }
        if self.stop.is_cancelled() && self.passes.is_empty() {
            self.drained.cancel();
        }
        set_clock(self.clock, self.skew);
        loop {
            self.runtime().block_on(async {
                for _ in 0..TURNS {
                    yield_now().await;
                }
            });
            let calls: Vec<SentCall> = std::mem::take(&mut *self.wire.0.lock());
            if calls.is_empty() {
                break;
            }
            for (call, answer) in calls {
                self.calls.push((call.clone(), silent));
                if silent {
                    self.unanswered.push(answer);
                } else {
                    // Whoever asked may have given up.
                    let _ = answer.send(Ok(leases.serve(&call)));
                }
            }
        }
        if !silent {
            self.unanswered.clear();
        }
        let (leads, begun) = (self.election.lock().leads, self.at_work);
        if leads && !begun {
            self.begin_work();
        }
        let mut changes = Vec::new();
        if let Some((_, heard)) = &mut self.shards {
            while let Ok(change) = heard.try_recv() {
                changes.push(change);
            }
        }
        for change in changes {
            self.follow(change);
        }
    }

    fn follow(&mut self, change: ShardChange) {
        let Some((shards, _)) = &self.shards else {
            return;
        };
        let count = shards.count();
        self.moves += 1;
        match change {
            ShardChange::Opened(opened) => {
                for id in self.subjects() {
                    if shard_of(&id.0.cluster, count) == opened {
                        self.add(id, Urgency::Initial);
                    }
                }
            }
            ShardChange::Closed(closed) => {
                let is_meant = |id: &Id| shard_of(&id.0.cluster, count) == closed;
                self.queue.forget(is_meant);
                self.rested.retain(|id, _| !is_meant(id));
                self.refused.retain(|id, _| !is_meant(id));
            }
        }
    }

    /// The process is to end.
    pub(super) fn leave(&mut self) {
        self.stop.cancel();
        let is_idle = self.mode == Mode::Elected && !self.is_filled();
        if self.mode == Mode::Alone || is_idle {
            self.election.lock().left = true;
        }
    }

    /// Whether the process ends: it lost the Lease, or it was asked to, and has left.
    pub(super) fn has_ended(&self) -> bool {
        let election = self.election.lock();
        election.lost || (election.left && self.passes.is_empty())
    }

    /// Whether this process works on a subject, all of whose objects it knows.
    pub(super) fn works_on(&self, id: &Id) -> bool {
        let Some((shards, _)) = &self.shards else {
            return self.at_work;
        };
        let mut tables = self.feeds.iter().map(|feed| &feed.table);
        self.is_filled()
            && shards.is_held(shard(id, shards))
            && tables.all(|table| table.has_loaded(&id.0.cluster))
    }
}

impl Drop for Replica {
    fn drop(&mut self) {
        let Some(runtime) = self.runtime.take() else {
            return;
        };
        let entered = runtime.enter();
        self.passes.clear();
        drop(entered);
        if self.mode == Mode::Alone {
            RUNTIMES.with_borrow_mut(|kept| kept.push(runtime));
        }
    }
}

fn shard(id: &Id, shards: &Shards) -> usize {
    shard_of(&id.0.cluster, shards.count())
}

fn shown(key: &Key, object: &Arc<Object>) -> Listed {
    let version = crate::cluster::cache::version(object);
    Listed {
        key: key.clone(),
        version: version.expect("the model numbers versions"),
        object: Arc::clone(object),
    }
}
