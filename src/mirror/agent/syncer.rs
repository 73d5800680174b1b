//! One definition at work: both sides watched, a queue of names, and workers.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::hash::{BuildHasher as _, RandomState};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::task::JoinSet;
use tokio::time::{Instant, MissedTickBehavior, interval_at};
use tokio_util::sync::CancellationToken;
use tracing::{debug, info, warn};

use super::numbers::{EventSource, Numbers, Standing};
use super::planes::{Map, Planes};
use super::settling::Settling;
use crate::mirror::definition::{Definition, Plane, ROBOT_NAME};
use crate::mirror::rules::{Id, side};
use crate::mirror::status::Pair;
use hawser_runtime::cluster::brake::{Brake, BrakeOptions, Cause, Phase};
use hawser_runtime::cluster::cache::{Cache, Change, Coverage, SourceId, Table, What};
use hawser_runtime::cluster::feed::{Clusters, Content, Feed, Listener, Pace, Selection};
use hawser_runtime::cluster::queue::{Queue, Urgency};
use hawser_runtime::cluster::troubles::Troubles;
use hawser_runtime::cluster::wire::Wire;
use hawser_runtime::process::shutdown;
use hawser_sync::{Contests, Key, Memo, Seen, Store as _};

/// Objects of one definition that may be worked on at the same time. Most of them wait for an answer.
const WORKERS: usize = 16;
/// How long what is under way may go on after the end was asked for.
const DRAIN: Duration = Duration::from_secs(3);
/// A list that lost fewer objects than this is nobody's concern.
const MANY: usize = 5;

/// How syncers work, whatever they are for.
#[derive(Clone, Debug)]
pub struct Manner {
    pub pace: Pace,
    /// How often everything is looked at although nothing happened.
    pub resync: Duration,
    /// Conflicts in a row in the cloud, after which what is known of it is not believed any more.
    pub conflict_limit: u32,
    /// None where deletions are never held.
    pub brake: Option<BrakeOptions>,
}

/// See the module.
pub struct Syncer {
    pub definition: Arc<Definition>,
    pub planes: Planes,
    pub cache: Arc<Cache>,
    pub queue: Queue<Id>,
    pub wire: Wire<Map>,
    pub numbers: Arc<Numbers>,
    pub manner: Manner,
    pub stopped: CancellationToken,
    /// What is known of names between passes.
    pub tasks: Mutex<HashMap<Id, Task>>,
    brake: Mutex<Option<Brake<Key>>>,
    settling: Mutex<Settling>,
    conflicts: AtomicU32,
    /// What was written of late.
    pub contests: Mutex<Contests>,
    pub troubles: Troubles,
    /// Something made the owner's objects look deleted, and it is not over yet.
    doubtful: AtomicBool,
    /// The owner's side did not know the type before it was known whole.
    unserved: AtomicBool,
    /// Both sides are known whole.
    open: AtomicBool,
    outdated: Notify,
    tables: Mutex<Vec<(Plane, Arc<Table>)>>,
    begun: Instant,
    pub everybody: Arc<str>,
}

/// What happened to a name since the last pass over it, and what the cloud was not told of then.
#[derive(Clone, Copy, Debug, Default)]
pub struct Happened {
    /// When the first of it happened.
    pub first: Option<Instant>,
    /// On the owner's side, and on the other.
    pub upstream: Option<Instant>,
    pub downstream: Option<Instant>,
}

/// What is known of one name between passes.
#[derive(Debug, Default)]
pub struct Task {
    pub happened: Happened,
    /// When the owner's object went.
    pub gone: Option<Duration>,
    /// Failed requests to the cloud in a row.
    pub failures: u32,
    /// Whether it is tried again ever more seldom.
    pub is_stuck: bool,
    pub pair: Option<Pair>,
    pub memo: Option<Memo>,
}

impl Syncer {
    pub fn new(
        definition: Definition,
        planes: &Planes,
        numbers: &Arc<Numbers>,
        manner: &Manner,
    ) -> Arc<Self> {
        let definition = Arc::new(definition);
        let cache = Cache::new();
        for plane in [Plane::Cloud, Plane::Robot] {
            cache.route(&side(plane), "", &source(plane));
        }
        let seed = RandomState::new().hash_one(());
        Arc::new(Self {
            wire: Wire::new(Map {
                planes: planes.clone(),
                definition: Arc::clone(&definition),
            }),
            definition,
            planes: planes.clone(),
            cache,
            queue: Queue::with_share(usize::MAX),
            numbers: Arc::clone(numbers),
            brake: Mutex::new(manner.brake.map(|options| Brake::new(options, seed))),
            manner: manner.clone(),
            stopped: CancellationToken::new(),
            tasks: Mutex::default(),
            settling: Mutex::default(),
            conflicts: AtomicU32::new(0),
            contests: Mutex::default(),
            troubles: Troubles::default(),
            doubtful: AtomicBool::new(false),
            unserved: AtomicBool::new(false),
            open: AtomicBool::new(false),
            outdated: Notify::new(),
            tables: Mutex::default(),
            begun: Instant::now(),
            everybody: "".into(),
        })
    }

    /// Works until it is told to stop, and ends what is under way.
    pub async fn run(self: Arc<Self>) {
        let name = &*self.definition.name;
        info!(CRD = name, "Starting syncer");
        let mut workers = JoinSet::new();
        for _ in 0..WORKERS {
            workers.spawn(Arc::clone(&self).work());
        }
        let admitted = self.planes.link.admitted();
        self.stopped.run_until_cancelled(admitted).await;
        while !self.stopped.is_cancelled() {
            let feeds = self.watch();
            let complete = async {
                for feed in &feeds {
                    feed.completed().await;
                }
            };
            if self.stopped.run_until_cancelled(complete).await.is_none() {
                break;
            }
            self.weigh();
            self.open.store(true, Ordering::SeqCst);
            debug!(CRD = name, "both sides are known");
            self.queue_all(Urgency::Initial);
            self.stopped.run_until_cancelled(self.live()).await;
            self.open.store(false, Ordering::SeqCst);
            self.forget_tables();
        }
        self.queue.close();
        let drained = async { while workers.join_next().await.is_some() {} };
        shutdown::within(DRAIN, "finishing what is under way", drained).await;
        info!(CRD = name, "Stopping syncer");
    }

    async fn work(self: Arc<Self>) {
        while let Some(work) = self.queue.next().await {
            let outcome = self.pass(&work).await;
            self.queue.done(work, outcome);
        }
    }

    /// Until what is known is not believed any more.
    async fn live(&self) {
        let every = self.manner.resync;
        let mut resync = interval_at(Instant::now() + every, every);
        resync.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                () = self.outdated.notified() => {
                    let name = &*self.definition.name;
                    info!(CRD = name, "Restarting informers because of too many conflict errors");
                    return;
                }
                _ = resync.tick() => self.queue_all(Urgency::Resync),
            }
        }
    }

    fn watch(self: &Arc<Self>) -> Vec<Feed> {
        let mut feeds = Vec::new();
        for plane in [self.definition.owner, self.definition.owner.other()] {
            for namespace in self.definition.namespaces() {
                let query = self.query(plane);
                let coverage = Coverage {
                    labelled: self.definition.robot.is_some().then(|| ROBOT_NAME.into()),
                    value: self.definition.robot.clone(),
                    namespace: namespace.clone(),
                    indexed: Vec::new(),
                    idle: None,
                };
                let kind = &self.definition.kind;
                let table = self.cache.add(&side(plane), kind, &source(plane), coverage);
                self.tables.lock().push((plane, Arc::clone(&table)));
                let selection = Selection {
                    connection: self.planes.at(plane).clone(),
                    resource: Arc::clone(&self.definition.plural),
                    namespace,
                    query,
                    clusters: Clusters::One(Arc::clone(&self.everybody)),
                    content: Content::Whole,
                };
                let ear = Ear {
                    syncer: Arc::clone(self),
                    plane,
                };
                feeds.push(Feed::start(
                    selection,
                    table,
                    Arc::new(ear),
                    self.manner.pace,
                ));
            }
        }
        feeds
    }

    /// What each list and watch of one side asks for.
    fn query(&self, plane: Plane) -> Option<String> {
        let selector = self.definition.robot.as_ref().map(|robot| {
            // The one selector that the cloud lets a robot ask for.
            format!("labelSelector={}%3D{robot}", ROBOT_NAME.replace('/', "%2F"))
        });
        // Proxies on the way to the cloud may know how long a request is to take by this.
        let seconds = self.manner.pace.lasts.1 + 5;
        let timeout = (plane == Plane::Cloud).then(|| format!("timeout={}", duration(seconds)));
        let all: Vec<String> = selector.into_iter().chain(timeout).collect();
        (!all.is_empty()).then(|| all.join("&"))
    }

    fn forget_tables(&self) {
        for (_, table) in self.tables.lock().drain(..) {
            self.cache.remove(&table);
        }
    }

    pub fn is_open(&self) -> bool {
        self.open.load(Ordering::SeqCst)
    }

    /// Every name that is known on either side.
    fn queue_all(&self, urgency: Urgency) {
        let tables = self.tables.lock().clone();
        let keys = tables.iter().flat_map(|(_, table)| table.keys());
        let names: BTreeSet<Id> = keys.map(|key| Id::of(&key)).collect();
        for id in names {
            self.queue.add(id, &self.everybody, urgency);
        }
    }

    /// What failed on a side that is well again is tried again at once.
    fn free_stuck(&self) {
        let tasks = self.tasks.lock();
        let stuck = tasks.iter().filter(|(_, task)| task.is_stuck);
        for (id, _) in stuck {
            self.queue.add(id.clone(), &self.everybody, Urgency::Live);
        }
    }

    /// Looks at a name again when a copy may go.
    pub fn await_deletion(&self, id: &Id, wait: Duration) {
        self.queue
            .add_after(id.clone(), &self.everybody, Urgency::Live, wait);
    }

    /// How many objects are known on one side.
    pub fn objects(&self, plane: Plane) -> usize {
        let tables = self.tables.lock();
        let tables = tables.iter().filter(|(of, _)| *of == plane);
        tables.map(|(_, table)| table.len()).sum()
    }

    /// Tells one syncer from the next one of the same definition.
    #[cfg(test)]
    pub(super) fn begun_at(&self) -> Instant {
        self.begun
    }

    pub fn now(&self) -> Duration {
        self.begun.elapsed()
    }

    /// What came of a write to the cloud.
    pub fn conflicted(&self, conflict: Conflict) {
        match conflict {
            Conflict::No => self.conflicts.store(0, Ordering::SeqCst),
            Conflict::Yes => {
                let so_far = self.conflicts.fetch_add(1, Ordering::SeqCst) + 1;
                if so_far >= self.manner.conflict_limit {
                    self.conflicts.store(0, Ordering::SeqCst);
                    self.outdated.notify_one();
                }
            }
        }
    }

    /// How long a copy is to stay before it is deleted, if it is.
    pub fn settles(&self, id: &Id) -> Option<Duration> {
        let gone = self.tasks.lock().get(id).and_then(|task| task.gone);
        let left = self.objects(self.definition.owner);
        self.settling.lock().wait(gone, self.now(), left)
    }

    pub fn with_brake<T>(&self, what: impl FnOnce(&mut Brake<Key>, Duration) -> T) -> Option<T> {
        let mut brake = self.brake.lock();
        let brake = brake.as_mut()?;
        let before = brake.held();
        let answer = what(brake, self.now());
        for hold in brake.held() {
            if !before.iter().any(|known| known.id == hold.id) {
                warn!(
                    CRD = &*self.definition.name,
                    hold = %hold.id,
                    why = %hold.why,
                    "deletions on the robot are held: annotate the CRD with \
                     hawser.dev/approve-deletions=<hold> to let them go"
                );
            }
        }
        Some(answer)
    }

    /// Takes what the owner of the robot says about held deletions.
    pub fn approve(&self, ids: &str) {
        let approved = self.with_brake(|brake, _| brake.approve(ids));
        if approved == Some(true) {
            info!(
                CRD = &*self.definition.name,
                ids, "held deletions were approved"
            );
            self.queue_all(Urgency::Live);
        }
    }

    /// Something makes the owner's objects look deleted.
    fn doubt(&self, cause: Cause) {
        self.doubtful.store(true, Ordering::SeqCst);
        self.with_brake(|brake, _| brake.cause(cause, Phase::Begins));
    }

    /// Believes deletions again, where the owner's side answers and none of those is left that were
    /// doubted.
    fn calm(&self) {
        if !self.doubtful.load(Ordering::SeqCst)
            || self.with_brake(|brake, _| brake.count() > 0) == Some(true)
            || self.tasks.lock().values().any(|task| task.gone.is_some())
            || self.left_over() > 0
        {
            return;
        }
        self.with_brake(|brake, _| {
            if brake.count() == 0 {
                for cause in [Cause::Definition, self.emptied()] {
                    brake.cause(cause, Phase::Ends);
                }
                self.doubtful.store(false, Ordering::SeqCst);
            }
        });
    }

    /// Asks, before anything is done, whether what a first list shows looks like a type or a database
    /// that vanished: nobody saw its objects go, and a process before this one may have held their copies.
    fn weigh(&self) {
        let unserved = self.unserved.swap(false, Ordering::SeqCst);
        let (left_over, copies) = (
            self.left_over(),
            self.objects(self.definition.owner.other()),
        );
        if left_over >= MANY {
            if self.objects(self.definition.owner) == 0 {
                self.doubt(self.emptied());
            } else if unserved {
                self.doubt(Cause::Definition);
            }
        }
        self.with_brake(|brake, now| brake.weigh(left_over, copies, now));
    }

    /// How many copies have no object of the owner, and are not in deletion already.
    fn left_over(&self) -> usize {
        let owner = self.definition.owner;
        let tables = self.tables.lock().clone();
        let (owners, copies): (Vec<_>, Vec<_>) = tables.iter().partition(|(of, _)| *of == owner);
        let owned: HashSet<Id> = owners
            .iter()
            .flat_map(|(_, table)| table.keys())
            .map(|key| Id::of(&key))
            .collect();
        let copies = copies.iter().flat_map(|(_, table)| table.keys());
        let is_left_over = |key: &Key| {
            let going = || matches!(self.cache.get(key), Seen::Present(copy) if copy.in_deletion());
            !owned.contains(&Id::of(key)) && !going()
        };
        copies.filter(is_left_over).count()
    }

    fn emptied(&self) -> Cause {
        Cause::EmptiedList(Arc::clone(&self.definition.name))
    }

    pub fn standing(&self) -> Standing {
        let depth = self.queue.depth();
        Standing {
            backlog: depth.ready() + depth.delayed,
            oldest: self.queue.oldest().unwrap_or_default(),
            held: self.brake.lock().as_ref().map_or(0, Brake::count),
            objects: (self.objects(Plane::Cloud), self.objects(Plane::Robot)),
            fresh: self.is_open() && self.planes.link.is_up(),
        }
    }

    fn direction(&self, plane: Plane) -> EventSource {
        if plane == self.definition.owner {
            EventSource::Upstream
        } else {
            EventSource::Downstream
        }
    }

    fn heard(&self, plane: Plane, change: &Change) {
        let id = Id::of(&change.key);
        let now = Instant::now();
        let is_owner = plane == self.definition.owner;
        let is_gone = change.what == What::Gone;
        {
            let mut tasks = self.tasks.lock();
            let task = tasks.entry(id.clone()).or_default();
            let since = if is_owner {
                &mut task.happened.upstream
            } else {
                &mut task.happened.downstream
            };
            since.get_or_insert(now);
            task.happened.first.get_or_insert(now);
            if is_owner {
                task.gone = is_gone.then(|| self.now());
            }
        }
        if is_owner && is_gone && !change.object.in_deletion() {
            self.settling.lock().vanished(self.now());
        }
        // After a long time offline what is to go goes first.
        let urgency = if is_gone || change.object.in_deletion() {
            Urgency::Live
        } else {
            Urgency::Initial
        };
        debug!(
            Event = if is_gone { "delete" } else { "update" },
            Direction = self.direction(plane).as_str(),
            Kind = self.definition.kind.kind,
            Name = &*change.key.name,
            Version = change.object.resource_version(),
            "Got Event"
        );
        self.queue.add(id, &self.everybody, urgency);
    }
}

/// Seconds as Go writes them, such as `5m5s`.
fn duration(seconds: u64) -> String {
    let (hours, minutes, seconds) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    match (hours, minutes) {
        (0, 0) => format!("{seconds}s"),
        (0, minutes) => format!("{minutes}m{seconds}s"),
        (hours, minutes) => format!("{hours}h{minutes}m{seconds}s"),
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Conflict {
    Yes,
    No,
}

fn source(plane: Plane) -> SourceId {
    plane.as_str().into()
}

/// Hears what one side has to say.
struct Ear {
    syncer: Arc<Syncer>,
    plane: Plane,
}

impl Ear {
    /// Something makes the owner's objects look deleted.
    fn doubts(&self, cause: Cause) {
        if self.plane == self.syncer.definition.owner && self.syncer.is_open() {
            self.syncer.doubt(cause);
        }
    }
}

impl Listener for Ear {
    fn changed(&self, change: Change) {
        // Of first lists all is taken together, once both sides are known.
        if change.what != What::Initial {
            self.syncer.heard(self.plane, &change);
        }
        if change.what != What::Gone && self.plane == self.syncer.definition.owner {
            self.syncer.calm();
        }
    }

    fn emptied(&self, _: &Arc<Table>, of: usize) {
        if of >= MANY {
            self.doubts(self.syncer.emptied());
        }
    }

    fn refused(&self, _: &Arc<Table>, code: u16) {
        if code == 404 {
            if self.plane == self.syncer.definition.owner {
                self.syncer
                    .unserved
                    .store(!self.syncer.is_open(), Ordering::SeqCst);
            }
            self.doubts(Cause::Definition);
        }
    }

    fn well(&self, _: &Arc<Table>) {
        if self.plane == self.syncer.definition.owner {
            self.syncer.calm();
        }
        // What waits for this side need not wait any longer.
        if self.syncer.is_open() {
            self.syncer.free_stuck();
            self.syncer.queue_all(Urgency::Resync);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::duration;

    #[test]
    fn times_in_queries_are_written_as_go_does() {
        let of = |seconds| duration(seconds);
        assert_eq!(
            (of(5), of(60), of(305)),
            ("5s".into(), "1m0s".into(), "5m5s".into())
        );
        assert_eq!(of(7200), "2h0m0s");
    }
}
