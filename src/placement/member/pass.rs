//! The pass over one Work: finalizer, `AppliedWork`, left-overs, the manifests in waves, status. Each pass could be the
//! first after a restart.
//!
//! | order that survives a crash | reason |
//! |---|---|
//! | finalizer, `AppliedWork`, then anything else | a Work that is gone has placed nothing; placed objects have an owner that is deleted with the Work |
//! | left-overs, then the list in the status of the Work, then applies | every object that may exist is listed there or in `AppliedWork` |
//! | `AppliedWork` gone, then the finalizer | the garbage collector has removed the placed objects |

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt as _;
use futures::stream;
use parking_lot::Mutex;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio::time::{Instant, timeout};
use tracing::{debug, warn};

use hawser_placement::apply::report::{self, Finding};
use hawser_placement::apply::{self, Manifest, Owner, Reason};
use hawser_placement::names::{PARENT_NAMESPACE, WORK_FINALIZER, member_namespace};
use hawser_placement::types::placement::{
    ApplyStrategy, ApplyStrategyType, ReportBackStrategyType,
};
use hawser_placement::types::work::{
    AppliedResource, AppliedWork, ManifestCondition, Work, WorkResourceIdentifier, WorkSpec,
    WorkStatus,
};
use hawser_runtime::cluster::queue::{self, Outcome};
use hawser_runtime::cluster::troubles::without_quotes;
use hawser_runtime::controller::Reconciler;
use hawser_sync::{Answer, Failure, Key, Request, Seen, Store as _};
use kube_lang::object::Object;

use super::applier::{Applier, Phase};
use super::sides::{APPLIED_WORK, MemberSides, now};

mod deletion;
mod handover;
mod manifests;
mod requests;

/// Manifests that are applied at a time.
const PARALLEL: usize = 8;
/// The time for which the report on a Work waits while others are applied: the objects of a burst go first.
const REPORT_DELAY: Duration = Duration::from_secs(1);
/// The time after which objects are looked at again whose kind cannot be watched.
const UNWATCHED: Duration = Duration::from_mins(15);
/// The kind of CRDs.
const DEFINITION: &str = "CustomResourceDefinition";

/// The pass over one Work.
pub struct WorkPass<'a> {
    at: &'a Applier,
    name: &'a Arc<str>,
    /// The phase at the start. A decision of one phase is not sent in another.
    phase: Phase,
    /// The time until a write is permitted that another writer keeps undoing.
    postponed: Mutex<Option<Duration>>,
}

/// Parses an object into its type. An object that cannot be parsed ends the pass.
fn typed<T: DeserializeOwned>(object: &Object) -> Result<T, WorkPassError> {
    let read = T::deserialize(object.as_value());
    read.map_err(|error| {
        let error = without_quotes(&error.to_string());
        WorkPassError(format!("reading {}: {error}", object.name()))
    })
}

/// The result of a pass.
enum WorkProgress {
    Done,
    Unfinished,
    /// There is something to be done after a while.
    Later(Duration),
}

/// A pass that cannot go on now; it is repeated.
struct WorkPassError(String);

impl From<Failure> for WorkPassError {
    fn from(failure: Failure) -> Self {
        Self(failure.to_string())
    }
}

/// The identity of an object, the same for all versions in which it is written.
type ManifestIdentity = (String, String, String, String);

fn identity(of: &WorkResourceIdentifier) -> ManifestIdentity {
    let WorkResourceIdentifier {
        group,
        kind,
        namespace,
        name,
        ..
    } = of;
    (group.clone(), kind.clone(), namespace.clone(), name.clone())
}

/// A manifest, and where its object is.
struct Item {
    identifier: WorkResourceIdentifier,
    place: Result<(Manifest, Key), (Reason, String)>,
}

/// The parts of a Work beside its manifests.
struct WorkOptions {
    strategy: ApplyStrategy,
    /// Whether the status of objects is reported to the hub.
    reports_back: bool,
}

impl WorkOptions {
    fn of(spec: &WorkSpec) -> Self {
        let back = spec.report_back_strategy.as_ref();
        Self {
            strategy: spec.apply_strategy.clone().unwrap_or_default(),
            reports_back: back.is_some_and(|back| back.type_ == ReportBackStrategyType::Mirror),
        }
    }

    fn reports_diff(&self) -> bool {
        self.strategy.type_ == ApplyStrategyType::ReportDiff
    }
}

/// The result for a manifest, and its object if it belongs to the Work.
struct SettledManifest {
    finding: Finding,
    uid: Option<String>,
    /// Whether a request failed that may succeed later.
    is_retried: bool,
}

impl From<Finding> for SettledManifest {
    fn from(finding: Finding) -> Self {
        let is_retried = matches!(
            finding.reason,
            Reason::ManifestApplyFailed
                | Reason::FailedToFindObjInMemberCluster
                | Reason::FailedToRunDriftDetection
                | Reason::FailedToReportDiff
                | Reason::FoundDriftsInDegradedMode
                | Reason::FoundDiffInDegradedMode
        );
        Self {
            finding,
            uid: None,
            is_retried,
        }
    }
}

impl Reconciler for Applier {
    type Key = Arc<str>;

    async fn reconcile(self: &Arc<Self>, work: &queue::Work<Arc<str>>) -> Outcome {
        WorkPass::new(self, &work.key).run().await
    }

    fn worked(&self, waited: Duration, took: Duration, outcome: Option<Outcome>) {
        self.numbers.metrics.worked("work", waited, took, outcome);
    }
}

impl<'a> WorkPass<'a> {
    pub fn new(at: &'a Applier, name: &'a Arc<str>) -> Self {
        Self {
            at,
            name,
            phase: at.phase(),
            postponed: Mutex::default(),
        }
    }

    pub async fn run(&self) -> Outcome {
        let work = match self.at.cache.get(&self.at.sides.work(self.name)) {
            Seen::Present(work) => work,
            Seen::Absent => {
                self.at.forget(self.name);
                return Outcome::Settled;
            }
            Seen::Unknown => return Outcome::Settled,
        };
        let begun = Instant::now();
        let done = match self.phase {
            // The next phase starts another pass.
            Phase::Idle => return Outcome::Settled,
            Phase::Leaving => self.release(&work).await,
            Phase::Joined if work.in_deletion() => self.delete(&work).await,
            Phase::Joined => self.apply(work, begun).await,
        };
        let postponed = *self.postponed.lock();
        match (done, postponed) {
            (Ok(WorkProgress::Done), _) => Outcome::Settled,
            (Ok(WorkProgress::Later(wait)), _) | (Ok(WorkProgress::Unfinished), Some(wait)) => {
                Outcome::Again(wait)
            }
            (Ok(WorkProgress::Unfinished), None) => Outcome::Failed(None),
            (Err(WorkPassError(problem)), _) => {
                debug!(work = &**self.name, problem, "retrying a Work");
                Outcome::Failed(None)
            }
        }
    }

    /// The member leaves: placed objects stay, and no object waits for this agent.
    async fn release(&self, work: &Object) -> Result<WorkProgress, WorkPassError> {
        if work.has_finalizer(WORK_FINALIZER) {
            self.write_finalizer(work, false).await?;
        }
        self.at.forget(self.name);
        Ok(WorkProgress::Done)
    }

    async fn apply(
        &self,
        work: Arc<Object>,
        begun: Instant,
    ) -> Result<WorkProgress, WorkPassError> {
        let applying = self.at.applying.token();
        let work = if work.has_finalizer(WORK_FINALIZER) {
            work
        } else {
            self.write_finalizer(&work, true).await?
        };
        let read: Work = match serde_json::from_value(work.as_value().clone()) {
            Ok(read) => read,
            Err(error) => {
                let error = without_quotes(&error.to_string());
                warn!(work = &**self.name, error, "a Work cannot be read");
                return Ok(WorkProgress::Done);
            }
        };
        let mut applied_work = match self.applied_work_of(self.name).await {
            Ok(applied_work) if !applied_work.in_deletion() => applied_work,
            Ok(_) => {
                // The end of the deletion starts another pass.
                let problem = "the AppliedWork of the member is in deletion, and so are the objects that it owns";
                self.refuse(work, &read, problem).await?;
                return Ok(WorkProgress::Done);
            }
            Err(WorkPassError(problem)) => {
                self.check_wanted().map_err(WorkPassError)?;
                if self.at.sides.is_ready().await {
                    let problem =
                        format!("the member has no AppliedWork for its objects: {problem}");
                    self.refuse(work, &read, &problem).await?;
                }
                return Err(WorkPassError(problem));
            }
        };
        let applied: AppliedWork = typed(&applied_work)?;
        let orders = WorkOptions::of(&read.spec);
        let reports = orders.reports_diff();
        let items = self.items(&read).await;
        let refused = report::too_many(
            items.iter().map(|item| &item.identifier),
            without_status(&work),
            reports,
            &read.status,
            read.metadata.generation,
            &now(),
        );
        if let Some(status) = refused {
            self.report_status(work, &read.status, &status).await?;
            return Ok(WorkProgress::Done);
        }
        let keys = items
            .iter()
            .filter_map(|item| Some(item.place.as_ref().ok()?.1.clone()));
        let is_watched = self.at.follow(self.name, keys.collect()).await;

        let is_work = |name: &str| self.at.is_work(name);
        let uid = applied_work.uid().unwrap_or_default().to_owned();
        let owner = Owner {
            name: self.name,
            uid: &uid,
            is_work: &is_work,
        };
        let stuck = if reports {
            applied.status.applied_resources.clone()
        } else {
            self.remove_leftovers(&items, &work, &read, &applied, &owner)
                .await
        };
        let mut before: HashMap<ManifestIdentity, ManifestCondition> = HashMap::new();
        for one in &read.status.manifest_conditions {
            before
                .entry(identity(&one.identifier))
                .or_insert_with(|| one.clone());
        }
        let mut work = work;
        if !reports {
            let left = stuck
                .iter()
                .any(|one| !applied.status.applied_resources.contains(one));
            let mut listed = applied.status.applied_resources.clone();
            listed.extend(
                stuck
                    .iter()
                    .filter(|one| !listed.contains(one))
                    .cloned()
                    .collect::<Vec<_>>(),
            );
            if left {
                applied_work = self.write_applied(&applied_work, &listed).await?;
            }
            if let Some(status) = ahead(&items, &read.status, &before) {
                work = self.write_status(work, &status).await?;
            }
        }

        let mut results: BTreeMap<usize, SettledManifest> = BTreeMap::new();
        for (wave, indices) in waves(&items, reports) {
            debug!(
                work = &**self.name,
                wave,
                count = indices.len(),
                "applying a wave"
            );
            let absent = self.absent(&items, &indices).await;
            let settled = indices.into_iter().map(|index| {
                let (item, owner, orders, absent) = (&items[index], &owner, &orders, &absent);
                async move { (index, self.settle(item, owner, orders, absent).await) }
            });
            let mut settled = stream::iter(settled).buffer_unordered(PARALLEL);
            while let Some((index, result)) = settled.next().await {
                let settled = match result {
                    Ok(settled) => settled,
                    Err(stuck) => self.unanswered(stuck, reports).await?,
                };
                results.insert(index, settled);
            }
        }
        drop(applying);
        let at = (&work, &applied_work);
        let known = (&applied, &*stuck, &before, reports);
        let (status, is_done) = self.report(at, &items, results, known).await?;
        self.at.numbers.processed(&status, begun.elapsed());
        let is_observed = report::is_observed(&status);
        Ok(match is_done {
            true if is_observed => WorkProgress::Later(report::OBSERVATION.unsigned_abs()),
            true if is_watched => WorkProgress::Done,
            true => WorkProgress::Later(UNWATCHED),
            false => WorkProgress::Unfinished,
        })
    }

    /// Reports that nothing of a Work can be applied.
    async fn refuse(
        &self,
        work: Arc<Object>,
        read: &Work,
        problem: &str,
    ) -> Result<(), WorkPassError> {
        let reports = WorkOptions::of(&read.spec).reports_diff();
        let generation = read.metadata.generation;
        let status = report::refused(problem, reports, &read.status, generation, &now());
        self.report_status(work, &read.status, &status).await
    }

    /// The report on a manifest whose requests failed, if the member answers others. If the member is out of reach,
    /// there is no report.
    async fn unanswered(
        &self,
        WorkPassError(problem): WorkPassError,
        reports: bool,
    ) -> Result<SettledManifest, WorkPassError> {
        self.check_wanted().map_err(WorkPassError)?;
        if !self.at.sides.is_ready().await {
            return Err(WorkPassError(problem));
        }
        let reason = if reports {
            Reason::FailedToReportDiff
        } else {
            Reason::ManifestApplyFailed
        };
        Ok(Finding::new(reason, problem).into())
    }

    /// Reports the results of the manifests. Returns whether the Work is done.
    async fn report(
        &self,
        (work, applied_work): (&Arc<Object>, &Arc<Object>),
        items: &[Item],
        results: BTreeMap<usize, SettledManifest>,
        (applied, stuck, before, reports): (
            &AppliedWork,
            &[AppliedResource],
            &HashMap<ManifestIdentity, ManifestCondition>,
            bool,
        ),
    ) -> Result<(WorkStatus, bool), WorkPassError> {
        let is_retried = results.values().any(|settled| settled.is_retried);
        let is_done = (reports || stuck.is_empty()) && !is_retried;
        let now = now();
        let mut listed = Vec::new();
        let mut manifests = Vec::new();
        for (item, (_, settled)) in items.iter().zip(results) {
            let id = identity(&item.identifier);
            let old = applied.status.applied_resources.iter();
            let mut old = old
                .filter(|old| identity(&old.identifier) == id)
                .map(|old| old.uid.clone());
            // An object that could not be examined stays listed. If several manifests name one object, the first
            // counts.
            let uid = match settled.uid {
                Some(uid) => Some(uid),
                None if settled.finding.reason == Reason::Duplicated => None,
                None => old.next_back(),
            };
            listed.extend(uid.map(|uid| AppliedResource {
                identifier: item.identifier.clone(),
                uid,
            }));
            let identifier = item.identifier.clone();
            let before = before.get(&id);
            manifests.push(report::manifest(
                identifier,
                settled.finding,
                reports,
                before,
                &now,
            ));
        }
        listed.extend(stuck.iter().cloned());
        let read: Work = typed(work)?;
        let generation = read.metadata.generation;
        let mut status = report::work(manifests, reports, &read.status, generation, &now);
        report::trim(&mut status, without_status(work), generation, &now);
        let is_listed = reports || listed == applied.status.applied_resources;
        if !is_listed || status != read.status {
            // What was applied is told with or without them.
            let _ = timeout(REPORT_DELAY, self.at.applying.wait()).await;
        }
        // Every object is on one of the lists already.
        let in_member = async {
            if !is_listed {
                self.write_applied(applied_work, &listed).await?;
            }
            Ok::<_, WorkPassError>(())
        };
        let on_hub = self.report_status(Arc::clone(work), &read.status, &status);
        let (in_member, on_hub) = tokio::join!(in_member, on_hub);
        in_member?;
        on_hub?;
        Ok((status, is_done))
    }

    /// The manifests, and where their objects are.
    async fn items(&self, work: &Work) -> Vec<Item> {
        let manifests = &work.spec.workload.manifests;
        let is_near = work.metadata.label(PARENT_NAMESPACE).is_some();
        let mut seen = HashSet::new();
        let mut items = Vec::new();
        let definitions = manifests.iter().filter(|one| one["kind"] == DEFINITION);
        let defined: HashSet<&str> = definitions
            .filter_map(|one| one["spec"]["group"].as_str())
            .collect();
        for (ordinal, manifest) in manifests.iter().enumerate() {
            let (mut identifier, read) = apply::read(ordinal, manifest);
            let place = match read {
                Err(problem) => Err(problem),
                Ok(manifest) => {
                    let is_new = defined.contains(&*identifier.group);
                    let place = self.place(&mut identifier, manifest, is_new).await;
                    if !seen.insert(identity(&identifier)) {
                        let message = "an earlier manifest describes the same object";
                        Err((Reason::Duplicated, message.to_owned()))
                    } else if is_near && matches!(&place, Ok((_, key)) if key.namespace.is_none()) {
                        let message = "a ResourcePlacement places no cluster-scoped objects";
                        Err((Reason::ManifestApplyFailed, message.to_owned()))
                    } else {
                        place
                    }
                }
            };
            items.push(Item { identifier, place });
        }
        items
    }

    async fn place(
        &self,
        identifier: &mut WorkResourceIdentifier,
        manifest: Manifest,
        is_defined: bool,
    ) -> Result<(Manifest, Key), (Reason, String)> {
        let mut placed = self.at.sides.place(identifier).await;
        if is_defined && matches!(placed, Ok(None)) {
            // The same Work may have created the CRD in the meantime.
            self.at.sides.discovery.invalidate(&identifier.group);
            placed = self.at.sides.place(identifier).await;
        }
        let problem = match placed {
            Ok(Some((key, resource))) => {
                resource.as_ref().clone_into(&mut identifier.resource);
                if key.namespace.as_deref() != Some("") {
                    // The namespace of a cluster-scoped object means nothing, so it is no part of what the object is.
                    key.namespace
                        .as_deref()
                        .unwrap_or_default()
                        .clone_into(&mut identifier.namespace);
                    return Ok((manifest, key));
                }
                "the kind is namespaced and the manifest has no namespace".to_owned()
            }
            Ok(None) => {
                let WorkResourceIdentifier {
                    group,
                    version,
                    kind,
                    ..
                } = &*identifier;
                format!("the member does not serve kind {kind} of {group}/{version}")
            }
            Err(error) => error.to_string(),
        };
        Err((Reason::FailedToFindObjInMemberCluster, problem))
    }

    /// The `AppliedWork` of a Work, made if there is none.
    async fn applied_work_of(&self, name: &str) -> Result<Arc<Object>, WorkPassError> {
        let key = MemberSides::applied_work(name);
        match self.at.cache.get(&key) {
            Seen::Present(object) if !object.is_fragment() => return Ok(object),
            Seen::Present(_) => return self.found(&Request::Read { key }).await,
            Seen::Absent | Seen::Unknown => {}
        }
        let object = json!({
            "apiVersion": APPLIED_WORK.api_version(), "kind": APPLIED_WORK.kind,
            "metadata": {"name": name},
            "spec": {"workName": name, "workNamespace": member_namespace(&self.at.sides.name)},
        });
        let object = Object::new(object).map_err(|error| WorkPassError(error.to_string()))?;
        let created = self
            .send(&Request::Create {
                key: key.clone(),
                object,
            })
            .await?;
        match created {
            Answer::Failed(Failure::AlreadyExists) => self.found(&Request::Read { key }).await,
            other => Self::object(other),
        }
    }
}

/// The size of a Work without its status, in bytes.
fn without_status(work: &Object) -> usize {
    let fields = work.as_value().as_object().into_iter().flatten();
    let others = fields.filter(|(name, _)| *name != "status");
    others.map(|(_, value)| value.to_string().len()).sum()
}

/// Sets the owners of a known object.
fn owned_by(key: Key, object: &Object, owners: &[Value]) -> Request {
    let patch = json!({"metadata": {
        "ownerReferences": owners, "resourceVersion": object.resource_version(), "uid": object.uid(),
    }});
    Request::Patch { key, patch }
}

/// The manifests by wave. If differences are only reported, there is one wave.
fn waves(items: &[Item], reports: bool) -> BTreeMap<usize, Vec<usize>> {
    let mut waves: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
    for (index, item) in items.iter().enumerate() {
        let wave = if reports {
            0
        } else {
            apply::wave(&item.identifier.resource)
        };
        waves.entry(wave).or_default().push(index);
    }
    waves
}

/// The status that lists all manifests before anything is written for them; `None` if it lists them already.
fn ahead(
    items: &[Item],
    status: &WorkStatus,
    before: &HashMap<ManifestIdentity, ManifestCondition>,
) -> Option<WorkStatus> {
    let is_listed = |item: &Item| before.contains_key(&identity(&item.identifier));
    if items.iter().all(is_listed) {
        return None;
    }
    let now = now();
    let listed = items
        .iter()
        .map(|item| match before.get(&identity(&item.identifier)) {
            Some(old) => ManifestCondition {
                identifier: item.identifier.clone(),
                ..old.clone()
            },
            None => report::preparing(item.identifier.clone(), 0, &now),
        });
    Some(WorkStatus {
        conditions: status.conditions.clone(),
        manifest_conditions: listed.collect(),
    })
}
