//! Replicas of federated workloads, by a `ReplicaSchedulingPreference` of the workload's name or by the preferences
//! in its annotation: the state of the workload in each member, and the placement and overrides that follow.
//!
//! Pods are listed when not all replicas of a member are ready. They are not watched, because every change of a Pod
//! changes the status of the workload in the member.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use futures::future::join_all;
use jiff::Timestamp;
use parking_lot::Mutex;
use serde_json::Value;
use tokio::time::Instant;
use tracing::{debug, warn};

use hawser_federation::check::{
    self, CheckMembers, CheckSettings, Memory, WorkloadState, read_preference,
};
use hawser_federation::events::Severity;
use hawser_federation::placement;
use hawser_federation::pods::Pod;
use hawser_federation::replicas::Preferences;
use hawser_federation::replicas::design::PREFERENCES;
use hawser_federation::scheduling::{TARGETS, distributed, replicas};
use hawser_federation::types::scheduling::ReplicaSchedulingPreferenceSpec;
use hawser_runtime::cluster::cache::{Change, Table};
use hawser_runtime::cluster::connection::{Call, Connection, RequestError};
use hawser_runtime::cluster::feed::{Content, EventHandler};
use hawser_runtime::cluster::queue::{Outcome, Work};
use hawser_runtime::cluster::wire::{clean_error, collection};
use hawser_runtime::controller::{Reconciler, SharedWatch, WatchRegistry, work};
use hawser_sync::{Seen, Store as _};
use kube_lang::object::{Gvk, Object};
use kube_lang::selector::Selector;

use super::controllers::{self, NotSynced, Reconciled};
use super::host::{self, PREFERENCE};
use super::members::{MemberCluster, MemberClusters};
use super::propagation::{FederatedType, Listed, Propagation};
use super::queues::{CHECKERS, CheckedId, Checks, FederatedId, period};

/// When a check that waits for the first list of a member looks again.
const LOOK_AGAIN: Duration = Duration::from_millis(500);
/// The shortest interval between checks of a workload with a `ReplicaSchedulingPreference` that changes in members.
const PREFERENCE_PERIOD: Duration = Duration::from_secs(10);

/// Schedules the replicas of federated workloads.
pub struct Scheduler {
    at: Arc<Propagation>,
    checks: Checks,
    preferences: OnceLock<Arc<SharedWatch>>,
    known: Mutex<HashMap<FederatedId, ScheduleState>>,
}

/// The facts about a workload that are kept between checks.
#[derive(Default)]
struct ScheduleState {
    memory: Memory,
    /// The input of the last check, apart from the workload in members, and its time.
    last: Option<(CheckInputs, Instant)>,
    /// The members by which replicas were scheduled, and since when they are others.
    members: Option<Arc<MemberClusters>>,
    others_since: Option<Instant>,
}

#[derive(Clone, PartialEq, Eq)]
struct CheckInputs {
    generation: Option<i64>,
    annotation: Option<String>,
    preference: Option<String>,
    /// The address of the members: others are elsewhere.
    members: usize,
}

/// One check.
struct ScheduleCheck<'a> {
    at: &'a Propagation,
    settings: CheckSettings,
    of: &'a FederatedType,
    id: &'a FederatedId,
    members: &'a MemberClusters,
    workload: &'a Object,
    /// Members that are ready and listed, and those whose state is unknown.
    reachable: BTreeSet<&'a str>,
    unknown: Vec<String>,
}

/// The result of a check.
struct CheckOutcome {
    outcome: Outcome,
    /// The generation of the workload that was written.
    written: Option<i64>,
}

impl From<Outcome> for CheckOutcome {
    fn from(outcome: Outcome) -> Self {
        Self {
            outcome,
            written: None,
        }
    }
}

/// The preference about a workload.
fn preference(
    at: &Propagation,
    workload: &Object,
) -> Option<(Arc<Object>, ReplicaSchedulingPreferenceSpec)> {
    let key = host::scope(&PREFERENCE).key(workload.namespace(), workload.name());
    let Seen::Present(preference) = at.cache.get(&key) else {
        return None;
    };
    let (spec, _) = read_preference(&preference).ok()?;
    (spec.target_kind == workload.kind()).then_some((preference, spec))
}

/// Whether a workload waits for the schedule of its replicas before it is propagated.
pub fn is_awaited(at: &Propagation, workload: &Object) -> bool {
    at.settings.schedules
        && TARGETS.iter().any(|(kind, _)| *kind == workload.kind())
        && !workload.is_fragment()
        && check::is_awaited(workload)
        && preference(at, workload).is_none()
}

fn generation(object: &Object) -> Option<i64> {
    object.root()["metadata"]["generation"].as_i64()
}

impl Scheduler {
    pub fn new(at: &Arc<Propagation>, checks: &Checks) -> Arc<Self> {
        Arc::new(Self {
            at: Arc::clone(at),
            checks: checks.clone(),
            preferences: OnceLock::new(),
            known: Mutex::default(),
        })
    }

    /// Checks until the queue is closed.
    pub async fn run(self: Arc<Self>) {
        let numbers = &self.at.numbers;
        numbers
            .controllers
            .announce(controllers::PREFERENCES, CHECKERS);
        let limit = self.at.settings.limit();
        let kind = &PREFERENCE;
        let resource = "replicaschedulingpreferences";
        let spec = host::watch(&self.at.host, kind, resource, limit, Content::Whole);
        let handler = Arc::clone(&self) as _;
        let watches = WatchRegistry::new(&self.at.cache, host::pace(), handler);
        let _ = self.preferences.set(watches.watch(spec));
        work(Arc::clone(&self), &self.checks.queue, CHECKERS).await;
    }

    async fn check(&self, id: &FederatedId) -> Reconciled {
        let members = self.at.members();
        let (Some(of), Some(members)) = (self.at.of(&id.type_name), members) else {
            // It is added when the type is at work.
            return Err(NotSynced(Outcome::Settled));
        };
        let preferences = self.preferences.get();
        if !of.is_known() || !preferences.is_some_and(|watch| watch.is_complete()) {
            return Err(NotSynced(Outcome::Settled));
        }
        let workload = match self.at.cache.get(&of.federated_key(id)) {
            Seen::Present(workload) if !workload.in_deletion() && !workload.is_fragment() => {
                workload
            }
            Seen::Unknown => return Err(NotSynced(Outcome::Settled)),
            // In deletion or, as one whose whole content would have to be written, nested too deeply.
            Seen::Present(_) | Seen::Absent => {
                self.known.lock().remove(id);
                return Ok(Outcome::Settled);
            }
        };
        let preference = preference(&self.at, &workload);
        let annotation = workload.annotation(PREFERENCES);
        if preference.is_none() && annotation.is_none() {
            self.known.lock().remove(id);
            return Ok(Outcome::Settled);
        }
        let mut check = ScheduleCheck {
            at: &self.at,
            settings: self.checks.settings,
            of: &of,
            id,
            members: &members,
            workload: &workload,
            reachable: BTreeSet::new(),
            unknown: Vec::new(),
        };
        for (name, member) in &*members {
            match member.ready().map(|_| of.listed(name, member)) {
                Some(Listed::Complete) => drop(check.reachable.insert(&**name)),
                Some(Listed::Begun) => return Err(NotSynced(Outcome::Again(LOOK_AGAIN))),
                Some(Listed::Failed(_)) | None => check.unknown.push(name.to_string()),
            }
        }
        let mut known = self.known.lock().remove(id).unwrap_or_default();
        let mut basis = CheckInputs {
            generation: generation(&workload),
            annotation: annotation.map(str::to_owned),
            preference: (preference.as_ref())
                .and_then(|(preference, _)| preference.resource_version())
                .map(str::to_owned),
            members: Arc::as_ptr(&members).addr(),
        };
        let wait = match &preference {
            Some(_) => known
                .settling(
                    &members,
                    self.at.settings.available,
                    self.at.settings.unavailable,
                )
                .or_else(|| known.early(&basis, self.checks.period.min(PREFERENCE_PERIOD))),
            None => known.early(&basis, self.checks.period),
        };
        let ended = match (wait, preference) {
            (Some(wait), _) => {
                self.known.lock().insert(id.clone(), known);
                return Ok(Outcome::Again(wait));
            }
            (None, Some((preference, spec))) => check.by_preference(&preference, &spec).await,
            (None, None) => check.by_annotation(&mut known.memory).await,
        };
        if ended.written.is_some() {
            basis.generation = ended.written;
        }
        if !matches!(ended.outcome, Outcome::Failed(_)) {
            known.last = Some((basis, Instant::now()));
        }
        known.members = Some(members);
        self.known.lock().insert(id.clone(), known);
        Ok(ended.outcome)
    }
}

impl ScheduleState {
    /// The time until a changed set of members is used: members that come and go are waited for.
    fn settling(
        &mut self,
        now: &Arc<MemberClusters>,
        available: Duration,
        unavailable: Duration,
    ) -> Option<Duration> {
        let before = self.members.as_ref()?;
        if Arc::ptr_eq(before, now) {
            self.others_since = None;
            return None;
        }
        let is_lost = before.iter().any(|(name, old)| {
            old.ready().is_some() && now.get(name).and_then(MemberCluster::ready).is_none()
        });
        let delay = if is_lost { unavailable } else { available };
        let since = self.others_since.get_or_insert_with(Instant::now);
        let left = delay.saturating_sub(since.elapsed());
        if left.is_zero() {
            self.others_since = None;
            return None;
        }
        Some(left)
    }

    /// The time until the next check that only the state in members requires.
    fn early(&self, basis: &CheckInputs, period: Duration) -> Option<Duration> {
        let (_, at) = self.last.as_ref().filter(|(last, _)| last == basis)?;
        let left = period.saturating_sub(at.elapsed());
        (!left.is_zero()).then_some(left)
    }
}

impl ScheduleCheck<'_> {
    /// By a `ReplicaSchedulingPreference`, as KubeFed does it.
    async fn by_preference(
        &self,
        preference: &Object,
        spec: &ReplicaSchedulingPreferenceSpec,
    ) -> CheckOutcome {
        let mut candidates = self.reachable.clone();
        if spec.intersect_with_cluster_selector {
            match self.intersection() {
                Ok(selected) => candidates.retain(|name| selected.contains(*name)),
                Err(problem) => {
                    self.tell(
                        preference,
                        Severity::Warning,
                        "ComputePlacementFailed",
                        &problem,
                    );
                    return Outcome::Failed(None).into();
                }
            }
        }
        if candidates.is_empty() {
            return Outcome::Settled.into();
        }
        let (locals, problems) = self.locals(&candidates).await;
        if !problems.is_empty() {
            self.tell(
                preference,
                Severity::Warning,
                "PodsUnknown",
                &problems.join(", "),
            );
            return Outcome::Failed(None).into();
        }
        let began = Instant::now();
        let patience = self.settings.patience;
        let (rooms, look_again) = check::rooms(&locals, patience, now());
        let key = check::key(self.workload);
        let replicas = replicas(&Preferences::from(spec), &key, &rooms);
        let changed = distributed(self.workload, &replicas, &self.unknown);
        self.at.numbers.schedule("plan", began.elapsed());
        let outcome = if look_again {
            Outcome::Again(period(self.settings.period).min(PREFERENCE_PERIOD))
        } else {
            Outcome::Settled
        };
        let Some(changed) = changed else {
            return outcome.into();
        };
        if let Some(moves) = check::moves(&check::assigned(self.workload), &replicas) {
            let message = format!("replicas: {moves}");
            self.tell(preference, Severity::Normal, "ReplicasScheduled", &message);
        }
        self.write(&changed, outcome).await
    }

    /// By the preferences in the annotation, as the design of Federated `ReplicaSets` has it.
    async fn by_annotation(&self, memory: &mut Memory) -> CheckOutcome {
        let Some(annotation) = self.workload.annotation(PREFERENCES) else {
            return Outcome::Settled.into();
        };
        let candidates = match self.placeable() {
            Ok(candidates) => candidates,
            Err(problem) => {
                self.tell(
                    self.workload,
                    Severity::Warning,
                    "ComputePlacementFailed",
                    &problem,
                );
                return Outcome::Failed(None).into();
            }
        };
        let (locals, problems) = self.locals(&candidates).await;
        if !problems.is_empty() {
            // Nothing is moved there, nor away.
            self.tell(
                self.workload,
                Severity::Warning,
                "PodsUnknown",
                &problems.join(", "),
            );
        }
        if (locals.values()).any(|local| *local == WorkloadState::Absent { refused: true }) {
            self.at.retry(self.id);
        }
        let began = Instant::now();
        let around = CheckMembers {
            members: &locals,
            unknown: &self.unknown,
            now: now(),
        };
        let checked = memory.check(self.workload, annotation, around, self.settings);
        self.at.numbers.schedule("plan", began.elapsed());
        let outcome = checked
            .again
            .map_or(Outcome::Settled, |seconds| Outcome::Again(period(seconds)));
        for note in &checked.notes {
            self.tell(self.workload, note.severity, note.reason, &note.message);
        }
        match checked.changed {
            Some(changed) => self.write(&changed, outcome).await,
            None => outcome.into(),
        }
    }

    fn labels(&self) -> placement::Members {
        let members = self.members.iter();
        let labels = members.map(|(name, member)| (name.to_string(), member.labels.clone()));
        labels.collect()
    }

    fn federated_namespace(&self) -> Option<Arc<Object>> {
        match self.at.cache.get(&self.of.namespace_key(self.id)?) {
            Seen::Present(namespace) => Some(namespace),
            Seen::Absent | Seen::Unknown => None,
        }
    }

    /// The labels that the selectors of the workload and of its namespace have in common.
    fn intersection(&self) -> Result<BTreeSet<String>, String> {
        let labels = self.labels();
        let namespace = self.federated_namespace().ok_or_else(|| {
            let namespace = self.workload.namespace().unwrap_or_default();
            format!("there is no FederatedNamespace {namespace}/{namespace}: create it")
        })?;
        let selected = |object: &Object| {
            placement::selected(object, &labels).map_err(|error| error.to_string())
        };
        let (own, around) = (selected(self.workload)?, selected(&namespace)?);
        Ok(own.intersection(&around).cloned().collect())
    }

    /// The members that the workload may be placed on: those of its namespace, and of its selector if it has one.
    fn placeable(&self) -> Result<BTreeSet<&str>, String> {
        let labels = self.labels();
        let mut members = self.reachable.clone();
        if let Some(namespace) = self.federated_namespace() {
            let nothing = placement::PlacementLimits::Nothing;
            let placed = placement::placement(&namespace, &labels, nothing)
                .map_err(|error| format!("FederatedNamespace: {error}"))?;
            members.retain(|name| placed.members.contains(*name));
        } else if self.of.spec.namespaces.is_some()
            && self.at.settings.scope == placement::Scope::Cluster
        {
            members.clear();
        }
        let selector = self
            .workload
            .as_value()
            .pointer("/spec/placement/clusterSelector");
        if selector.is_some_and(|selector| !selector.is_null()) {
            let selected = placement::selected(self.workload, &labels);
            let selected = selected.map_err(|error| error.to_string())?;
            members.retain(|name| selected.contains(*name));
        }
        Ok(members)
    }

    /// The workload in each of these members, and what could not be found out.
    async fn locals(
        &self,
        members: &BTreeSet<&str>,
    ) -> (BTreeMap<String, WorkloadState>, Vec<String>) {
        let began = Instant::now();
        let found = members.iter().map(async |name| {
            let (mut local, copy) = self.local(name);
            let mut problem = None;
            if let (WorkloadState::Present { pods, .. }, Some(copy)) = (&mut local, copy) {
                match self.pods(name, &copy).await {
                    Ok(found) => *pods = Some(found),
                    Err(why) => {
                        problem = Some(format!("cannot list the Pods in cluster {name}: {why}"));
                    }
                }
            }
            ((*name).to_owned(), local, problem)
        });
        let found = join_all(found).await;
        self.at.numbers.schedule("observe", began.elapsed());
        let problems = found.iter().filter_map(|(.., problem)| problem.clone());
        let problems = problems.collect();
        let locals = found.into_iter().map(|(name, local, _)| (name, local));
        (locals.collect(), problems)
    }

    /// The workload in a member, and the copy where its pods have to be looked at.
    fn local(&self, member: &str) -> (WorkloadState, Option<Arc<Object>>) {
        let copy = match self.at.cache.get(&self.of.copy_key(self.id, member)) {
            Seen::Present(copy) => copy,
            Seen::Absent | Seen::Unknown => {
                let refused = self.is_refused(member);
                return (WorkloadState::Absent { refused }, None);
            }
        };
        let count = |path: &str| {
            let number = copy.as_value().pointer(path).and_then(Value::as_i64);
            number.unwrap_or(0)
        };
        let (replicas, ready) = (count("/spec/replicas"), count("/status/readyReplicas"));
        let local = WorkloadState::Present {
            replicas,
            ready,
            pods: None,
        };
        (local, (replicas != ready).then_some(copy))
    }

    /// Whether a copy that is not there could not be made.
    fn is_refused(&self, member: &str) -> bool {
        let status = self.workload.as_value().pointer("/status/clusters");
        let entries = status.and_then(Value::as_array).into_iter().flatten();
        let mut of = entries.filter(|entry| entry["name"] == member);
        let passing = [
            "",
            "WaitingForRemoval",
            "ClusterNotReady",
            "CachedRetrievalFailed",
        ];
        of.any(|entry| !passing.contains(&entry["status"].as_str().unwrap_or_default()))
    }

    async fn pods(&self, member: &str, copy: &Object) -> Result<Vec<Pod>, String> {
        let connection = self.members.get(member).and_then(MemberCluster::ready);
        let connection: &Connection = connection.ok_or("it is not ready")?;
        let selector = copy.as_value().pointer("/spec/selector");
        let selector = selector.ok_or("the workload has no selector")?;
        let selector = Selector::from_value(selector).map_err(|error| error.to_string())?;
        if selector.is_empty() {
            return Err("the selector of the workload is empty".to_owned());
        }
        let kind = Gvk::new("", "v1", "Pod");
        let all = collection(&kind, copy.namespace(), "pods");
        let selector = selector.to_string();
        let query: String = form_urlencoded::byte_serialize(selector.as_bytes()).collect();
        let call = Call::get(format!("{all}?labelSelector={query}&resourceVersion=0"));
        let found = connection
            .ask(call)
            .await
            .map_err(|error| error.to_string())?;
        let items = found["items"].as_array().map_or(&[][..], Vec::as_slice);
        let seconds = |text: &str| {
            let time: Option<Timestamp> = text.parse().ok();
            time.map(Timestamp::as_second)
        };
        Ok(items.iter().map(|pod| Pod::read(pod, seconds)).collect())
    }

    async fn write(&self, changed: &Object, outcome: Outcome) -> CheckOutcome {
        let federated = &self.of.spec.federated;
        let all = collection(
            &federated.gvk(),
            changed.namespace(),
            &federated.plural_name,
        );
        let name = changed.name();
        let began = Instant::now();
        let put = Call::put(format!("{all}/{name}"), changed.as_value());
        let answered: Result<Value, RequestError> = self.at.host.ask(put).await;
        self.at.numbers.schedule("write", began.elapsed());
        match answered {
            Ok(written) => {
                debug!(namespace = changed.namespace(), name, "scheduled replicas");
                CheckOutcome {
                    outcome,
                    written: written["metadata"]["generation"].as_i64(),
                }
            }
            // What is there now comes with an event.
            Err(error) if [Some(404), Some(409)].contains(&error.code()) => {
                Outcome::Failed(None).into()
            }
            Err(error) => {
                let error = clean_error(&error, &[changed.as_value()]);
                warn!(namespace = changed.namespace(), name, %error, "cannot write scheduled replicas");
                Outcome::Failed(None).into()
            }
        }
    }

    fn tell(&self, about: &Object, severity: Severity, reason: &str, message: &str) {
        self.at.recorder.record(about, severity, reason, message);
    }
}

/// Seconds since the epoch, as pods are read.
fn now() -> i64 {
    Timestamp::now().as_second()
}

impl Reconciler for Scheduler {
    type Key = CheckedId;

    async fn reconcile(self: &Arc<Self>, work: &Work<CheckedId>) -> Outcome {
        let running = self.at.numbers.controllers.begin(controllers::PREFERENCES);
        running.end(self.check(&work.key.0).await)
    }

    fn worked(&self, waited: Duration, took: Duration, _: Option<Outcome>) {
        let metrics = &self.at.numbers.metrics;
        metrics.taken(controllers::PREFERENCES, waited, took);
    }
}

/// Events of preferences.
impl EventHandler for Scheduler {
    fn changed(&self, _: &Arc<Table>, change: Change) {
        if let Seen::Present(preference) = self.at.cache.get(&change.key) {
            let problems = match read_preference(&preference) {
                Ok((_, problems)) => problems,
                Err(problem) => vec![problem],
            };
            if !problems.is_empty() {
                let (warning, reason) = (Severity::Warning, "InvalidPreferences");
                let recorder = &self.at.recorder;
                recorder.record(&preference, warning, reason, &problems.join(", "));
            }
        }
        for (_, name) in TARGETS {
            let id = FederatedId {
                type_name: name.into(),
                namespace: change.key.namespace.clone(),
                name: Arc::clone(&change.key.name),
            };
            self.checks.add(&id, Duration::ZERO);
        }
    }

    fn completed(&self, _: &Arc<Table>) {
        self.at.check_all();
    }
}
