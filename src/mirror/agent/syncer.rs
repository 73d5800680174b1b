//! One running definition: the watches of both sides, a queue of names, and workers.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::{Instant, MissedTickBehavior, interval_at};
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;
use tracing::{debug, info, warn};

use super::deletion_delays::DeletionDelays;
use super::numbers::{EventSource, MirrorMetrics, SyncerGauges};
use super::planes::MirrorConnections;
use crate::mirror::definition::{Definition, Plane, ROBOT_NAME};
use crate::mirror::rules::{Id, side};
use crate::mirror::status::LinkedUids;
use hawser_runtime::cluster::brake::{BrakeOptions, Cause};
use hawser_runtime::cluster::cache::{Cache, Change, ChangeType, Coverage, SourceId, Table};
use hawser_runtime::cluster::feed::{Clusters, Content, EventHandler, Pace, Selection};
use hawser_runtime::cluster::queue::{Queue, QueueKey, Urgency};
use hawser_runtime::cluster::troubles::ProblemLog;
use hawser_runtime::cluster::wire::{Endpoint, GuardedClient, Router};
use hawser_runtime::controller::brakes::BrakeChange;
use hawser_runtime::controller::{
    BrakeRegistry, Controller, SharedWatch, Subjects, WatchRegistry, WatchSpec, lifecycle,
};
use hawser_sync::{Key, Scope, Seen, Side, Store as _};

/// The number of objects of one definition with concurrent passes. Most of them wait for an answer.
pub const WORKERS: usize = 16;
/// A list that lost fewer objects causes no hold.
const MANY: usize = 5;

/// The options of all syncers.
#[derive(Clone, Debug)]
pub struct SyncerConfig {
    pub pace: Pace,
    /// The interval of the resync.
    pub resync: Duration,
    /// The number of consecutive conflicts in the cloud after which the tables are listed again.
    pub conflict_limit: u32,
    /// `None` if deletions are never held.
    pub brake: Option<BrakeOptions>,
    /// The number of objects of one definition with concurrent passes. With 0, objects are only listed and watched.
    pub workers: usize,
}

/// The tenant of all names of one definition, which take no turns.
static ONLY_TENANT: LazyLock<Arc<str>> = LazyLock::new(|| "".into());

impl QueueKey for Id {
    fn tenant(&self) -> &Arc<str> {
        &ONLY_TENANT
    }
}

/// Synchronizes the objects of one definition.
pub struct Syncer {
    pub definition: Arc<Definition>,
    pub planes: MirrorConnections,
    pub cache: Arc<Cache>,
    pub subjects: Arc<Subjects<Id>>,
    pub numbers: Arc<MirrorMetrics>,
    config: SyncerConfig,
    pub stopped: CancellationToken,
    pub brakes: Arc<BrakeRegistry>,
    pub troubles: Arc<ProblemLog>,
    /// Locked before all other locks of this file.
    pub state: Mutex<SyncerState>,
    /// Notified when the tables have to be listed again.
    outdated: Notify,
    begun: Instant,
}

/// The known state of a syncer.
#[derive(Default)]
pub struct SyncerState {
    /// Notes about names between passes.
    pub tasks: HashMap<Id, NameState>,
    deletion_delays: DeletionDelays,
    /// Consecutive writes to the cloud that met another version.
    conflicts: u32,
    /// The owner's side did not serve the type before it was listed completely.
    unserved: bool,
    /// Both sides are listed completely.
    pub open: bool,
    watches: Vec<(Plane, Arc<SharedWatch>)>,
}

impl SyncerState {
    /// The number of known objects on one side.
    pub fn objects(&self, plane: Plane) -> usize {
        let watches = self.watches.iter().filter(|(of, _)| *of == plane);
        watches.map(|(_, watch)| watch.table().len()).sum()
    }

    fn tables(&self) -> Vec<(Plane, Arc<Table>)> {
        let watches = self.watches.iter();
        watches
            .map(|(plane, watch)| (*plane, Arc::clone(watch.table())))
            .collect()
    }
}

/// The events of a name since its last pass, and those that were not carried to the cloud then.
#[derive(Clone, Copy, Debug, Default)]
pub struct PendingEvents {
    /// The time of the first event.
    pub first: Option<Instant>,
    /// On the owner's side, and on the other.
    pub upstream: Option<Instant>,
    pub downstream: Option<Instant>,
}

/// The notes about one name between passes.
#[derive(Debug, Default)]
pub struct NameState {
    pub happened: PendingEvents,
    /// The time at which the owner's object went.
    pub gone: Option<Duration>,
    /// Consecutive failed requests to the cloud.
    pub failures: u32,
    /// Whether it is retried with growing intervals.
    pub is_stuck: bool,
    pub pair: Option<LinkedUids>,
}

impl Syncer {
    pub fn new(
        definition: Definition,
        planes: &MirrorConnections,
        numbers: &Arc<MirrorMetrics>,
        config: &SyncerConfig,
        stopped: CancellationToken,
    ) -> Arc<Self> {
        let definition = Arc::new(definition);
        let cache = Cache::new();
        for plane in [Plane::Cloud, Plane::Robot] {
            cache.route(&side(plane), "", &source(plane));
        }
        let name = Arc::clone(&definition.name);
        let brakes = BrakeRegistry::new(config.brake, move |change| log_holds(&name, change));
        Arc::new(Self {
            definition,
            planes: planes.clone(),
            cache,
            subjects: Subjects::new(Queue::with_share(usize::MAX)),
            numbers: Arc::clone(numbers),
            config: config.clone(),
            stopped,
            brakes,
            troubles: Arc::default(),
            state: Mutex::default(),
            outdated: Notify::new(),
            begun: Instant::now(),
        })
    }

    /// Works until it is stopped, and finishes running passes.
    pub async fn run(self: Arc<Self>) {
        let name = &*self.definition.name;
        info!(CRD = name, "Starting syncer");
        let controller = Controller::new(
            &self,
            &self.subjects,
            &GuardedClient::new(&self.cache),
            Arc::clone(&self) as _,
            &self.brakes,
            &self.troubles,
        );
        let working = AbortOnDropHandle::new(tokio::spawn(controller.run(self.config.workers)));
        let admitted = self.planes.link.admitted();
        self.stopped.run_until_cancelled(admitted).await;
        let watches = WatchRegistry::new(&self.cache, self.config.pace, Arc::clone(&self) as _);
        while !self.stopped.is_cancelled() {
            let begun = self.watch(&watches);
            let complete = async {
                for watch in &begun {
                    watch.completed().await;
                }
            };
            if self.stopped.run_until_cancelled(complete).await.is_some() {
                self.check_first_lists();
                self.state.lock().open = true;
                debug!(CRD = name, "both sides are listed");
                self.queue_all(Urgency::Initial);
                self.stopped.run_until_cancelled(self.live()).await;
            }
            let mut state = self.state.lock();
            state.open = false;
            state.watches.clear();
        }
        self.subjects.queue.close();
        lifecycle::drain(working).await;
        info!(CRD = name, "Stopping syncer");
    }

    /// Resolves when the tables have to be listed again.
    async fn live(&self) {
        let every = self.config.resync;
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

    fn watch(&self, watches: &WatchRegistry) -> Vec<Arc<SharedWatch>> {
        let mut begun = Vec::new();
        for plane in [self.definition.owner, self.definition.owner.other()] {
            for namespace in self.definition.namespaces() {
                let coverage = Coverage {
                    labelled: self.definition.robot.is_some().then(|| ROBOT_NAME.into()),
                    value: self.definition.robot.clone(),
                    namespace: namespace.clone(),
                    indexed: Vec::new(),
                    idle: None,
                    partition: None,
                };
                let selection = Selection {
                    connection: self.planes.at(plane).clone(),
                    resource: Arc::clone(&self.definition.plural),
                    namespace,
                    query: self.query(plane),
                    clusters: Clusters::One("".into()),
                    content: Content::Whole,
                };
                let watch = watches.watch(WatchSpec {
                    side: side(plane),
                    kind: Arc::clone(&self.definition.kind),
                    source: source(plane),
                    coverage,
                    selection,
                });
                begun.push(Arc::clone(&watch));
                self.state.lock().watches.push((plane, watch));
            }
        }
        begun
    }

    /// The selections of lists and watches on one side.
    fn query(&self, plane: Plane) -> Option<String> {
        let selector = self.definition.robot.as_ref().map(|robot| {
            // The one selector that the cloud lets a robot ask for.
            format!("labelSelector={}%3D{robot}", ROBOT_NAME.replace('/', "%2F"))
        });
        // Proxies on the way to the cloud may know how long a request is to take by this.
        let seconds = self.config.pace.lasts.1 + 5;
        let timeout = (plane == Plane::Cloud).then(|| format!("timeout={}", duration(seconds)));
        let all: Vec<String> = selector.into_iter().chain(timeout).collect();
        (!all.is_empty()).then(|| all.join("&"))
    }

    pub fn is_open(&self) -> bool {
        self.state.lock().open
    }

    /// What is not listed completely, with the problem of each if there is one; nothing if passes run.
    pub fn unlisted(&self) -> Vec<String> {
        let state = self.state.lock();
        if state.open {
            return Vec::new();
        }
        if state.watches.is_empty() {
            return vec!["neither side is listed yet".to_owned()];
        }
        let watches = state.watches.iter();
        let unlisted = watches.filter(|(_, watch)| !watch.is_complete());
        let told = unlisted.map(|(plane, watch)| {
            let problem = watch.health().problem;
            let problem = problem.map_or_else(String::new, |problem| format!(": {problem}"));
            format!("the {} is not listed completely{problem}", plane.as_str())
        });
        told.collect()
    }

    /// Whether a list has failed for so long.
    pub fn is_unlisted_for(&self, time: Duration) -> bool {
        let state = self.state.lock();
        let mut watches = state.watches.iter();
        !state.open
            && watches.any(|(_, watch)| {
                let since = watch.health().since;
                since.is_some_and(|since| since.elapsed() >= time)
            })
    }

    /// Every known name on either side.
    pub fn names(&self) -> BTreeSet<Id> {
        let tables = self.state.lock().tables();
        let keys = tables.iter().flat_map(|(_, table)| table.keys());
        keys.map(|key| Id::of(&key)).collect()
    }

    fn queue_all(&self, urgency: Urgency) {
        for id in self.names() {
            self.subjects.queue.add(id, urgency);
        }
    }

    /// Retries at once what failed on a side that works again.
    fn retry_failed(&self) {
        let state = self.state.lock();
        let stuck = state.tasks.iter().filter(|(_, task)| task.is_stuck);
        for (id, _) in stuck {
            self.subjects.queue.add(id.clone(), Urgency::Live);
        }
    }

    /// Queues a name for the time at which its copy may be deleted.
    pub fn await_deletion(&self, id: &Id, wait: Duration) {
        self.subjects
            .queue
            .add_after(id.clone(), Urgency::Live, wait);
    }

    /// Distinguishes successive syncers of one definition.
    #[cfg(test)]
    pub(super) fn begun_at(&self) -> Instant {
        self.begun
    }

    pub fn now(&self) -> Duration {
        self.begun.elapsed()
    }

    /// The result of a write to the cloud.
    pub fn conflicted(&self, conflict: Conflict) {
        let mut state = self.state.lock();
        state.conflicts = match conflict {
            Conflict::No => 0,
            Conflict::Yes => state.conflicts + 1,
        };
        if state.conflicts >= self.config.conflict_limit.max(1) {
            state.conflicts = 0;
            self.outdated.notify_one();
        }
    }

    /// The time that a copy has to stay before it is deleted.
    pub fn deletion_delay(&self, id: &Id) -> Option<Duration> {
        let mut state = self.state.lock();
        let gone = state.tasks.get(id).and_then(|task| task.gone);
        let left = state.objects(self.definition.owner);
        state.deletion_delays.wait(gone, self.now(), left)
    }

    /// Reads the robot owner's approvals of held deletions.
    pub fn approve(&self, ids: &str) {
        if self.brakes.approve(&self.definition.kind, ids) {
            info!(
                CRD = &*self.definition.name,
                ids, "held deletions were approved"
            );
            self.queue_all(Urgency::Live);
        }
    }

    /// A cause that makes the owner's objects look deleted.
    fn doubt(&self, cause: Cause) {
        self.brakes.doubt(&self.definition.kind, cause);
    }

    /// Ends the causes, if the owner's side responds and no deletion is left that they made doubtful.
    fn end_doubt(&self) {
        let kind = &self.definition.kind;
        let is_any_gone = || {
            let state = self.state.lock();
            state.tasks.values().any(|task| task.gone.is_some())
        };
        if self.brakes.is_in_doubt(kind)
            && self.brakes.count(kind) == 0
            && !is_any_gone()
            && self.orphaned_copies() == 0
        {
            self.brakes.end_doubt(kind);
        }
    }

    /// Checks whether the first lists look like a vanished type or database: there were no deletion events, and an
    /// earlier process may have held the deletion of the copies.
    fn check_first_lists(&self) {
        let orphaned = self.orphaned_copies();
        let (unserved, owned, copies) = {
            let mut state = self.state.lock();
            let owner = self.definition.owner;
            let unserved = std::mem::take(&mut state.unserved);
            (unserved, state.objects(owner), state.objects(owner.other()))
        };
        if orphaned >= MANY {
            if owned == 0 {
                self.doubt(self.emptied_list());
            } else if unserved {
                self.doubt(Cause::Definition);
            }
        }
        let kind = &self.definition.kind;
        self.brakes.hold_from_start(kind, orphaned, copies);
    }

    /// The number of copies without an owner's object that are not in deletion.
    fn orphaned_copies(&self) -> usize {
        let owner = self.definition.owner;
        let tables = self.state.lock().tables();
        let (owners, copies): (Vec<_>, Vec<_>) = tables.iter().partition(|(of, _)| *of == owner);
        let owned: HashSet<Id> = owners
            .iter()
            .flat_map(|(_, table)| table.keys())
            .map(|key| Id::of(&key))
            .collect();
        let copies = copies.iter().flat_map(|(_, table)| table.keys());
        let is_orphaned = |key: &Key| {
            let going = || matches!(self.cache.get(key), Seen::Present(copy) if copy.in_deletion());
            !owned.contains(&Id::of(key)) && !going()
        };
        copies.filter(is_orphaned).count()
    }

    fn emptied_list(&self) -> Cause {
        Cause::EmptiedList(Arc::clone(&self.definition.name))
    }

    pub fn standing(&self) -> SyncerGauges {
        let depth = self.subjects.queue.depth();
        let (open, objects) = {
            let state = self.state.lock();
            let objects = [Plane::Cloud, Plane::Robot].map(|plane| state.objects(plane));
            (state.open, objects)
        };
        SyncerGauges {
            backlog: depth.ready() + depth.delayed,
            oldest: self.subjects.queue.state().oldest,
            held: self.brakes.count(&self.definition.kind),
            objects: objects.into(),
            fresh: open && self.planes.link.is_up(),
        }
    }

    fn direction(&self, plane: Plane) -> EventSource {
        if plane == self.definition.owner {
            EventSource::Upstream
        } else {
            EventSource::Downstream
        }
    }

    fn handle(&self, plane: Plane, change: &Change) {
        let id = Id::of(&change.key);
        let now = Instant::now();
        let is_owner = plane == self.definition.owner;
        let is_gone = change.what == ChangeType::Gone;
        {
            let mut state = self.state.lock();
            let task = state.tasks.entry(id.clone()).or_default();
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
            if is_owner && is_gone && !change.object.in_deletion() {
                state.deletion_delays.vanished(self.now());
            }
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
        self.subjects.queue.add(id, urgency);
    }
}

/// Seconds in Go's format, such as `5m5s`.
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

fn log_holds(definition: &str, change: &BrakeChange<'_>) {
    for hold in &change.new {
        warn!(
            CRD = definition,
            hold = %hold.id,
            why = %hold.why,
            "holding deletions on the robot: to approve them, annotate the CRD with hawser.dev/approve-deletions=<hold>"
        );
    }
}

impl Syncer {
    /// Whether a table is of the owner's side.
    fn is_of_owner(&self, table: &Table) -> bool {
        plane_of(table.side()) == self.definition.owner
    }

    /// Notes a cause that makes the owner's objects look deleted, if this table is theirs.
    fn doubt_table(&self, table: &Table, cause: Cause) {
        if self.is_of_owner(table) && self.is_open() {
            self.doubt(cause);
        }
    }
}

pub fn plane_of(side: &Side) -> Plane {
    if *side.0 == *Plane::Cloud.as_str() {
        Plane::Cloud
    } else {
        Plane::Robot
    }
}

/// The endpoints of the definition's objects.
impl Router for Syncer {
    fn endpoint(&self, scope: &Scope) -> Option<Endpoint> {
        (scope.kind == self.definition.kind).then(|| Endpoint {
            connection: self.planes.at(plane_of(&scope.side)).clone(),
            resource: Arc::clone(&self.definition.plural),
        })
    }
}

impl EventHandler for Syncer {
    fn changed(&self, table: &Arc<Table>, change: Change) {
        // Of first lists all is taken together, once both sides are known.
        if change.what != ChangeType::Initial {
            self.handle(plane_of(table.side()), &change);
        }
        if change.what != ChangeType::Gone && self.is_of_owner(table) {
            self.end_doubt();
        }
    }

    fn emptied(&self, table: &Arc<Table>, of: usize) {
        if of >= MANY {
            self.doubt_table(table, self.emptied_list());
        }
    }

    fn refused(&self, table: &Arc<Table>, code: u16) {
        if code == 404 {
            if self.is_of_owner(table) {
                let mut state = self.state.lock();
                state.unserved = !state.open;
            }
            self.doubt_table(table, Cause::Definition);
        }
    }

    fn recovered(&self, table: &Arc<Table>) {
        if self.is_of_owner(table) {
            self.end_doubt();
        }
        // What waits for this side need not wait any longer.
        if self.is_open() {
            self.retry_failed();
            self.queue_all(Urgency::Resync);
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
