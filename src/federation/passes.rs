//! The pass over one federated object: finalizer, placement, a decision for each member, requests, versions. Each pass
//! could be the first after a restart. Versions are stored after the write; a lost version costs a repeated write.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use futures::future::join_all;
use parking_lot::Mutex;
use serde_json::{Map, Value, json};
use tokio::time::{Instant, timeout};

use hawser_federation::check;
use hawser_federation::decide::{CopyRequest, CopyState, Pass, Problem, Verdict};
use hawser_federation::events::{CopyName, Event, Operation, with_status};
use hawser_federation::placement::{Placement, PlacementLimits, placement};
use hawser_federation::render::{Ignored, is_managed};
use hawser_federation::status::{self, Collection, Copy, CopyStatus, PassResult};
use hawser_federation::types::{DELETE_OPTIONS, MANAGED, SYNC_FINALIZER};
use hawser_federation::versions::{self, Versions};
use hawser_runtime::cluster::queue::{Outcome, Work};
use hawser_runtime::cluster::troubles::without_quotes;
use hawser_runtime::cluster::wire::{Endpoint, Router};
use hawser_runtime::controller::Reconciler;
use hawser_sync::{Answer, Failure, Request, Scope, Seen, Store as _, WriteConflict};
use kube_lang::object::Object;

use super::controllers::{NotSynced, Reconciled};
use super::host::{self, NAMESPACE};
use super::members::MemberClusters;
use super::propagation::{FederatedType, Listed, Propagation, QUEUE, generation, is_in_member};
use super::queues::FederatedId;
use super::scheduling;

mod records;
mod service_status;

/// All requests of a pass to members together take no longer.
const LIMIT: Duration = Duration::from_secs(30);
/// The time after which requests are abandoned: a moment before each of them times out by itself, with another status.
const GIVEN_UP: Duration = Duration::from_millis(29_900);
/// The number of decisions about an operation that finds another state than expected.
const ATTEMPTS: usize = 4;
/// When a pass that waits for the first list of a member looks again.
const LOOK_AGAIN: Duration = Duration::from_millis(500);
/// Namespaces that are never propagated, nor removed; beside that of the control plane.
const SYSTEM: [&str; 3] = ["kube-system", "kube-public", "default"];

/// The pass over one federated object.
pub struct FederatedPass<'a> {
    at: &'a Propagation,
    of: &'a Arc<FederatedType>,
    id: &'a FederatedId,
    members: &'a MemberClusters,
    router: MemberRouter<'a>,
    /// The time until a write is permitted that another writer keeps undoing.
    put_off: Mutex<Option<Duration>>,
}

/// Maps the host and the members of a pass to paths.
struct MemberRouter<'a> {
    at: &'a Propagation,
    of: &'a FederatedType,
    members: &'a MemberClusters,
}

impl Router for MemberRouter<'_> {
    fn endpoint(&self, scope: &Scope) -> Option<Endpoint> {
        let connection = if is_in_member(scope) {
            self.members.get(&scope.cluster)?.ready()?
        } else {
            &self.at.host
        };
        Some(Endpoint {
            connection: connection.clone(),
            resource: self.of.resource(scope)?,
        })
    }
}

/// The known state of a copy.
enum KnownCopy {
    NotReady,
    Unknown(String),
    Absent,
    Present(Arc<Object>),
}

impl KnownCopy {
    fn there(&self) -> CopyState<'_> {
        match self {
            Self::NotReady => CopyState::NotReady,
            Self::Unknown(why) => CopyState::Unknown(why),
            Self::Absent => CopyState::Absent,
            Self::Present(object) => CopyState::Present(object),
        }
    }
}

/// The result for one copy; empty if the object does not concern the member.
#[derive(Debug, Default)]
struct CopyOutcome {
    status: Option<CopyStatus>,
    /// The current object.
    object: Option<Arc<Object>>,
    wrote: bool,
}

impl CopyOutcome {
    fn of(status: CopyStatus) -> Self {
        Self {
            status: Some(status),
            ..Self::default()
        }
    }
}

/// The actions of a pass, and the messages that it reports once.
struct PassContext<'a> {
    pass: &'a Pass<'a>,
    /// The status of each copy before.
    before: BTreeMap<&'a str, &'a str>,
    ignored: Mutex<Vec<Ignored>>,
    options: Map<String, Value>,
}

impl Reconciler for Propagation {
    type Key = FederatedId;

    async fn reconcile(self: &Arc<Self>, work: &Work<FederatedId>) -> Outcome {
        let of = self.of(&work.key.type_name);
        let members = self.members();
        // What is not known yet comes with its lists.
        let Some(of) = of else {
            return Outcome::Settled;
        };
        let running = self.numbers.controllers.begin(&of.controller);
        running.end(match members {
            Some(members) if of.is_known() => {
                let pass = FederatedPass::new(self, &of, &work.key, &members);
                // A worker without work is small.
                Box::pin(pass.run()).await
            }
            _ => Err(NotSynced(Outcome::Settled)),
        })
    }

    fn worked(&self, waited: Duration, took: Duration, _: Option<Outcome>) {
        self.numbers.metrics.taken(QUEUE, waited, took);
        self.numbers.pass(took);
    }
}

impl<'a> FederatedPass<'a> {
    pub fn new(
        at: &'a Propagation,
        of: &'a Arc<FederatedType>,
        id: &'a FederatedId,
        members: &'a MemberClusters,
    ) -> Self {
        Self {
            at,
            of,
            id,
            members,
            router: MemberRouter { at, of, members },
            put_off: Mutex::default(),
        }
    }

    pub async fn run(&self) -> Reconciled {
        let name = &*self.id.name;
        if self.of.is_of_namespaces()
            && (SYSTEM.contains(&name) || name == self.at.settings.namespace)
        {
            return Ok(Outcome::Settled);
        }
        let listing = |(name, member): (&Arc<str>, &super::members::MemberCluster)| {
            member.ready().is_some() && self.of.listed(name, member) == Listed::Begun
        };
        if self.members.iter().any(listing) {
            return Err(NotSynced(Outcome::Again(LOOK_AGAIN)));
        }
        let outcome = match self.at.cache.get(&self.of.federated_key(self.id)) {
            Seen::Unknown => Outcome::Settled,
            Seen::Absent => {
                self.of.forget(self.id);
                self.release().await
            }
            Seen::Present(federated) if federated.in_deletion() => self.delete(&federated).await,
            Seen::Present(federated) => self.propagate(federated).await,
        };
        Ok(self.put_off.lock().map_or(outcome, Outcome::Again))
    }

    /// Copies without a federated object belong to no object: they lose the label.
    async fn release(&self) -> Outcome {
        let released = self.members.keys().map(async |member| {
            let KnownCopy::Present(copy) = self.known(member) else {
                return true;
            };
            if !is_managed(&copy) {
                return true;
            }
            let answer = self.send(&self.unlabelling(member, &copy)).await;
            !matches!(answer, Answer::Failed(failure) if failure != Failure::NotFound)
        });
        if join_all(released).await.into_iter().all(|done| done) {
            Outcome::Settled
        } else {
            Outcome::Failed(None)
        }
    }

    async fn propagate(&self, federated: Arc<Object>) -> Outcome {
        if self.of.is_of_namespaces() && federated.namespace() != Some(federated.name()) {
            self.record(&federated, &Event::InvalidName);
            return Outcome::Settled;
        }
        if scheduling::is_awaited(self.at, &federated) {
            return Outcome::Settled;
        }
        let host_namespace = match self.host_namespace() {
            Some(Seen::Absent) => return Outcome::Settled,
            Some(Seen::Present(namespace)) => namespace.uid().map(str::to_owned),
            Some(Seen::Unknown) | None => None,
        };
        let federated = match self.ensure_finalizer(federated).await {
            Ok(federated) => federated,
            Err(outcome) => return outcome,
        };
        let mut findings = PassResult {
            generation: generation(&federated),
            failure: None,
            namespace_not_federated: false,
            collection: self.of.spec.collection,
            copies: BTreeMap::new(),
            wrote: false,
        };
        let selected = match self.place(&federated) {
            Ok(Some(placed)) => {
                let unknown: Vec<&str> = placed.unknown.iter().map(String::as_str).collect();
                if !unknown.is_empty() {
                    self.record(&federated, &Event::UnknownClusters(&unknown));
                }
                let reason = federated.as_value().pointer("/status/conditions/0/reason");
                let is_told = reason.is_some_and(|reason| reason == "NamespaceNotFederated");
                if placed.namespace_not_federated && !is_told {
                    let namespace = federated.namespace().unwrap_or_default();
                    self.record(&federated, &Event::NamespaceNotFederated(namespace));
                }
                findings.namespace_not_federated = placed.namespace_not_federated;
                placed.members
            }
            // Its federated namespace comes with the list.
            Ok(None) => return Outcome::Settled,
            // Its status cannot be compared: it would be written again and again.
            Err(_) if self.of.is_reported(self.id, &federated) => return Outcome::Settled,
            Err(problem) => {
                self.record(&federated, &Event::ComputePlacementFailed(&problem));
                findings.failure = Some(status::Failure::ComputePlacementFailed);
                let outcome = self.write_status(&federated, &findings).await;
                if outcome == Outcome::Settled {
                    self.of.reported(self.id, &federated);
                }
                return outcome;
            }
        };
        let (stored, before) = self.versions(&federated);
        let mut pass = Pass::new(&federated, &self.of.spec.target, selected, before);
        pass.adopts = self.at.settings.adopts;
        pass.host_namespace = host_namespace.as_deref();
        if self.at.settings.overrides_all {
            pass.override_all();
        }
        if self.at.settings.federates_annotations {
            pass.federate_annotations();
        }
        let outcomes = self.settle_all(&pass, Map::new()).await;
        let mut written = pass.now.clone();
        for (member, outcome) in outcomes {
            let object = outcome.object.as_deref();
            if let (true, None, Some(object)) = (outcome.wrote, outcome.status, object) {
                let version = versions::version(object);
                written.copies.insert(member.to_string(), version);
                findings.wrote = true;
            }
            let remote = object.and_then(|object| object.root().get("status").cloned());
            let copy = Copy {
                status: outcome.status,
                remote: remote.filter(|_| self.of.spec.collection == Collection::On),
            };
            findings.copies.insert(member.to_string(), copy);
        }
        let after = pass
            .before
            .after(written, |member| pass.selected.contains(member));
        let turn = self.at.records.acquire().await;
        let ((), is_collected, outcome) = tokio::join!(
            self.store(&federated, stored, &pass.before, &after),
            self.collect_service_status(&federated),
            self.write_status(&federated, &findings),
        );
        drop(turn);
        match outcome {
            Outcome::Settled if !is_collected => Outcome::Failed(None),
            outcome => outcome,
        }
    }

    async fn delete(&self, federated: &Arc<Object>) -> Outcome {
        if !federated.has_finalizer(SYNC_FINALIZER) {
            return Outcome::Settled;
        }
        if check::is_orphaned(federated) {
            // Once it is gone, its copies are released like all that are nobody's.
            return self.remove_finalizer(federated).await;
        }
        let selected = match self.place(federated) {
            Ok(Some(placed)) => placed.members,
            Ok(None) => return Outcome::Settled,
            Err(problem) => {
                self.record(federated, &Event::ComputePlacementFailed(&problem));
                return Outcome::Failed(None);
            }
        };
        let options = match delete_options(federated) {
            Ok(options) => options,
            Err(problem) => {
                let problem = without_quotes(&problem.to_string());
                self.record(federated, &Event::InvalidDeleteOptions(&problem));
                return Outcome::Failed(None);
            }
        };
        let mut pass = Pass::new(
            federated,
            &self.of.spec.target,
            selected,
            Versions::default(),
        );
        let host_namespace = match self.host_namespace() {
            Some(Seen::Present(namespace)) => namespace.uid().map(str::to_owned),
            _ => None,
        };
        pass.host_namespace = host_namespace.as_deref();
        let outcomes = self.settle_all(&pass, options).await;
        let given_up: BTreeSet<&str> = outcomes
            .iter()
            .filter(|(_, outcome)| outcome.status == Some(CopyStatus::ClusterNotReady))
            .map(|(member, _)| &***member)
            .filter(|member| self.is_given_up(member))
            .collect();
        let left = outcomes
            .iter()
            .filter(|(_, outcome)| outcome.status.is_some());
        let left = left.map(|(member, _)| &***member);
        let left: Vec<&str> = left.filter(|member| !given_up.contains(member)).collect();
        if !left.is_empty() {
            self.record(federated, &Event::WaitForRemoval(&left));
            let waits = |outcome: &CopyOutcome| {
                matches!(outcome.status, None | Some(CopyStatus::WaitingForRemoval))
            };
            // Copies that go are heard of.
            return if outcomes.values().all(waits) {
                Outcome::Settled
            } else {
                Outcome::Failed(None)
            };
        }
        // Tables hold managed objects only, and may be behind.
        let awaited = pass.selected.iter();
        let awaited = awaited.filter(|member| !given_up.contains(member.as_str()));
        let gone = awaited.map(async |member| match self.look(member).await {
            KnownCopy::Absent => true,
            KnownCopy::Present(copy) => !is_managed(&copy),
            KnownCopy::NotReady | KnownCopy::Unknown(_) => false,
        });
        if !join_all(gone).await.into_iter().all(|gone| gone) {
            return Outcome::Failed(None);
        }
        if !given_up.is_empty() {
            let members: Vec<&str> = given_up.into_iter().collect();
            self.record(federated, &Event::GivenUp(&members));
        }
        self.remove_finalizer(federated).await
    }

    /// Whether deletions no longer wait for a member that is not ready. When it returns, its remaining copies belong to
    /// no object, and are released.
    fn is_given_up(&self, member: &str) -> bool {
        let lost = self.members.get(member).and_then(|member| member.lost);
        let limit = self.at.settings.give_up_after;
        matches!((lost, limit), (Some(since), Some(limit)) if since.elapsed() >= limit)
    }

    /// The selected members; none where they are not known yet.
    fn place(&self, federated: &Object) -> Result<Option<Placement>, String> {
        let labels = self.members.iter();
        let labels = labels.map(|(name, member)| (name.to_string(), member.labels.clone()));
        let labels = labels.collect();
        let namespace = match self
            .of
            .namespace_key(self.id)
            .map(|key| self.at.cache.get(&key))
        {
            Some(Seen::Unknown) => return Ok(None),
            Some(Seen::Present(namespace)) => Some(namespace),
            Some(Seen::Absent) | None => None,
        };
        let around = if self.of.spec.namespaces.is_some() {
            PlacementLimits::Namespace(namespace.as_deref(), self.at.settings.scope)
        } else {
            PlacementLimits::Nothing
        };
        let placed = placement(federated, &labels, around);
        placed.map(Some).map_err(|error| error.to_string())
    }

    /// The host's own namespace, where namespaces are federated.
    fn host_namespace(&self) -> Option<Seen> {
        let key = host::scope(&NAMESPACE).key(None, &self.id.name);
        self.of.is_of_namespaces().then(|| self.at.cache.get(&key))
    }

    async fn settle_all<'p>(
        &self,
        pass: &'p Pass<'p>,
        options: Map<String, Value>,
    ) -> BTreeMap<&'a Arc<str>, CopyOutcome> {
        let entries = pass.federated.root().get("status");
        let entries = entries.and_then(|status| status["clusters"].as_array());
        let before = entries.into_iter().flatten().filter_map(|entry| {
            let status = entry["status"].as_str().unwrap_or_default();
            Some((entry["name"].as_str()?, status))
        });
        let context = PassContext {
            pass,
            before: before.collect(),
            ignored: Mutex::default(),
            options,
        };
        let settled = self.members.keys().map(async |member| {
            let under_way = Mutex::new(None);
            let settling = self.settle(&context, member, &under_way);
            if let Ok(outcome) = timeout(GIVEN_UP, settling).await {
                (member, outcome, false)
            } else {
                let operation = under_way.lock().unwrap_or(Operation::Update);
                (member, Some(CopyOutcome::of(operation.timed_out())), true)
            }
        });
        let settled = join_all(settled).await;
        let late = settled.iter().filter(|(_, _, late)| *late).count();
        if late > 0 {
            self.record(pass.federated, &Event::TimedOut(late, LIMIT.as_secs()));
        }
        let settled = settled.into_iter();
        settled
            .filter_map(|(member, outcome, _)| Some((member, outcome?)))
            .collect()
    }

    /// Executes the decision for one member; returns none if the object does not concern it.
    async fn settle(
        &self,
        context: &PassContext<'_>,
        member: &str,
        under_way: &Mutex<Option<Operation>>,
    ) -> Option<CopyOutcome> {
        let pass = context.pass;
        let copy_name = || CopyName::of(pass.federated, &self.of.spec.target.kind, member);
        let mut known = self.known(member);
        let mut wrote = false;
        let mut last = CopyStatus::UpdateFailed;
        for _ in 0..ATTEMPTS {
            let (step, ignored) = match pass.decide(member, known.there()) {
                Verdict::Nothing => return None,
                Verdict::InSync => {
                    let object = match known {
                        KnownCopy::Present(object) => Some(object),
                        _ => None,
                    };
                    return Some(CopyOutcome {
                        status: None,
                        object,
                        wrote,
                    });
                }
                Verdict::Waits(status, problem) => {
                    let told = context.before.get(member) == Some(&status.as_str());
                    if let Some(problem) = problem.filter(|_| !told) {
                        self.record_problem(pass.federated, member, &problem, status);
                    }
                    return Some(CopyOutcome::of(status));
                }
                Verdict::Do(step, ignored) => (step, ignored),
            };
            self.record_ignored(context, ignored);
            let operation = step.operation();
            *under_way.lock() = Some(operation);
            last = operation.failed();
            self.record(pass.federated, &Event::Started(operation, copy_name()));
            let began = Instant::now();
            let answer = self.send_all(context, member, &known, step).await;
            self.at.numbers.operation(operation, began.elapsed());
            let removes = matches!(operation, Operation::Delete | Operation::RemoveManagedLabel);
            match answer {
                Answer::Gone => return None,
                Answer::Object(_) if operation == Operation::RemoveManagedLabel => return None,
                Answer::Object(_) if removes => {
                    return Some(CopyOutcome::of(CopyStatus::WaitingForRemoval));
                }
                // Whether the write came to what was wanted is asked once more only where the server said otherwise.
                Answer::Object(object) => {
                    wrote = true;
                    return Some(CopyOutcome {
                        status: None,
                        object: Some(object),
                        wrote,
                    });
                }
                Answer::Failed(Failure::NotFound) if removes => return None,
                Answer::Failed(failure) if is_otherwise(&failure, operation) => {
                    if failure == Failure::AlreadyExists && pass.adopts {
                        let problem = "An update will be attempted instead of a creation due to an existing resource";
                        let event = Event::Failed(operation, copy_name(), problem);
                        self.record(pass.federated, &event);
                    }
                    known = self.look(member).await;
                    if let KnownCopy::Unknown(why) = known {
                        let status = CopyStatus::RetrievalFailed;
                        let problem = with_status(why, status);
                        let event = Event::Failed(operation, copy_name(), &problem);
                        self.record(pass.federated, &event);
                        return Some(CopyOutcome::of(status));
                    }
                }
                Answer::Failed(failure) => {
                    let problem = with_status(failure, last);
                    let event = Event::Failed(operation, copy_name(), &problem);
                    self.record(pass.federated, &event);
                    return Some(CopyOutcome::of(last));
                }
                Answer::Listed(_) => break,
            }
        }
        Some(CopyOutcome::of(last))
    }

    async fn send_all(
        &self,
        context: &PassContext<'_>,
        member: &str,
        known: &KnownCopy,
        step: CopyRequest,
    ) -> Answer {
        let key = self.of.copy_key(self.id, member);
        let request = match (step, known) {
            (CopyRequest::Create(object), _) => Request::Create { key, object },
            (CopyRequest::Update(object), _) => Request::Replace { key, object },
            (CopyRequest::RemoveManagedLabel, KnownCopy::Present(copy)) => {
                self.unlabelling(member, copy)
            }
            (CopyRequest::Delete, KnownCopy::Present(copy)) => {
                let uid = copy.uid().unwrap_or_default().into();
                let options = context.options.clone();
                Request::Delete { key, uid, options }
            }
            (CopyRequest::Delete | CopyRequest::RemoveManagedLabel, _) => return Answer::Gone,
        };
        self.send(&request).await
    }

    fn unlabelling(&self, member: &str, copy: &Object) -> Request {
        let mut metadata = json!({"labels": {MANAGED: null}});
        if let Some(uid) = copy.uid() {
            metadata["uid"] = uid.into();
        }
        Request::Patch {
            key: self.of.copy_key(self.id, member),
            patch: json!({"metadata": metadata}),
        }
    }

    /// A copy as the tables have it.
    fn known(&self, member: &str) -> KnownCopy {
        let Some(of) = self.members.get(member).filter(|of| of.ready().is_some()) else {
            return KnownCopy::NotReady;
        };
        if let Listed::Failed(problem) = self.of.listed(member, of) {
            return KnownCopy::Unknown(problem);
        }
        match self.at.cache.get(&self.of.copy_key(self.id, member)) {
            Seen::Present(object) => KnownCopy::Present(object),
            Seen::Absent => KnownCopy::Absent,
            Seen::Unknown => KnownCopy::Unknown("it cannot be read".to_owned()),
        }
    }

    /// The object in the place of a copy, by a live read.
    async fn look(&self, member: &str) -> KnownCopy {
        let key = self.of.copy_key(self.id, member);
        match self.send(&Request::Read { key }).await {
            Answer::Object(object) => KnownCopy::Present(object),
            Answer::Gone => KnownCopy::Absent,
            Answer::Failed(failure) => KnownCopy::Unknown(failure.to_string()),
            Answer::Listed(_) => {
                KnownCopy::Unknown("the member returned a list instead of an object".to_owned())
            }
        }
    }

    fn check_active(&self) -> Result<(), String> {
        if self.of.stopped.is_cancelled() {
            return Err("the type is no longer propagated".to_owned());
        }
        Ok(())
    }

    /// Sends a request, unless another writer undoes it each time.
    async fn send(&self, request: &Request) -> Answer {
        let is_wanted = || self.check_active();
        let sent = self.at.client.send(&self.router, None, &is_wanted, request);
        match sent.await {
            Ok((answer, changes)) => {
                if request.shows_others_changes() {
                    self.at.learned(&changes);
                }
                answer
            }
            Err(WriteConflict { place, wait }) => {
                let mut put_off = self.put_off.lock();
                *put_off = put_off.into_iter().chain([wait]).min();
                Answer::Failed(Failure::Contested(place))
            }
        }
    }

    async fn ensure_finalizer(&self, federated: Arc<Object>) -> Result<Arc<Object>, Outcome> {
        if federated.has_finalizer(SYNC_FINALIZER) {
            return Ok(federated);
        }
        let finalizers: Vec<&str> = federated.finalizers().chain([SYNC_FINALIZER]).collect();
        match self.write_finalizers(&federated, &finalizers).await {
            Answer::Object(written) => Ok(written),
            Answer::Failed(Failure::NotFound | Failure::Conflict)
            | Answer::Gone
            | Answer::Listed(_) => Err(Outcome::Failed(None)),
            Answer::Failed(failure) => {
                let problem = failure.to_string();
                self.record(&federated, &Event::EnsureFinalizerFailed(&problem));
                Err(Outcome::Failed(None))
            }
        }
    }

    async fn remove_finalizer(&self, federated: &Object) -> Outcome {
        let finalizers = federated
            .finalizers()
            .filter(|name| *name != SYNC_FINALIZER);
        let finalizers: Vec<&str> = finalizers.collect();
        match self.write_finalizers(federated, &finalizers).await {
            Answer::Failed(Failure::NotFound) | Answer::Gone | Answer::Object(_) => {
                Outcome::Settled
            }
            Answer::Failed(_) | Answer::Listed(_) => Outcome::Failed(None),
        }
    }

    async fn write_finalizers(&self, federated: &Object, finalizers: &[&str]) -> Answer {
        let patch = json!({"metadata": {
            "finalizers": finalizers, "resourceVersion": federated.resource_version(),
        }});
        let key = self.of.federated_key(self.id);
        self.send(&Request::Patch { key, patch }).await
    }

    fn record(&self, about: &Object, event: &Event<'_>) {
        let (severity, reason) = (event.severity(), event.reason());
        self.at
            .recorder
            .record(about, severity, &reason, &event.to_string());
    }

    fn record_problem(
        &self,
        federated: &Object,
        member: &str,
        problem: &Problem,
        status: CopyStatus,
    ) {
        match problem {
            Problem::NotReady => self.record(federated, &Event::ClusterNotReady),
            Problem::Unknown(why) => {
                let why = format!("{why} (cluster {member:?})");
                self.record(federated, &Event::CachedRetrievalFailed(&why));
            }
            Problem::Operation(operation, why) => {
                let copy = CopyName::of(federated, &self.of.spec.target.kind, member);
                let why = with_status(why, status);
                self.record(federated, &Event::Failed(*operation, copy, &why));
            }
        }
    }

    fn record_ignored(&self, context: &PassContext<'_>, ignored: Vec<Ignored>) {
        let mut told = context.ignored.lock();
        for field in ignored {
            if !told.contains(&field) {
                told.push(field);
                let severity = hawser_federation::events::Severity::Warning;
                let about = context.pass.federated;
                self.at
                    .recorder
                    .record(about, severity, field.reason(), &field.message());
            }
        }
    }
}

/// Whether a failure says that something else is there than was known.
fn is_otherwise(failure: &Failure, operation: Operation) -> bool {
    match failure {
        Failure::AlreadyExists | Failure::Conflict | Failure::OtherIncarnation => true,
        Failure::NotFound => operation == Operation::Update,
        _ => false,
    }
}

fn next_probe(findings: &PassResult) -> Outcome {
    let mut statuses = findings.copies.values().filter_map(|copy| copy.status);
    if statuses.any(CopyStatus::is_retried) {
        Outcome::Failed(None)
    } else {
        Outcome::Settled
    }
}

/// The owner's options for the deletion of copies.
fn delete_options(federated: &Object) -> Result<Map<String, Value>, serde_json::Error> {
    let text = federated.annotation(DELETE_OPTIONS);
    text.map_or_else(|| Ok(Map::new()), serde_json::from_str)
}
