//! The pass over one placement or override: read, decide, send requests, until nothing is left to write.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures::future::join_all;
use jiff::{SignedDuration, Timestamp};
use parking_lot::Mutex;
use serde::de::DeserializeOwned;
use serde_json::json;
use tokio::time::Instant;
use tracing::warn;

use hawser_placement::admission::{
    Problems, check_cluster_override, check_override, check_tolerated,
};
use hawser_placement::hub::evictions::{self, EvictionView};
use hawser_placement::hub::overrides::{self, OverrideKind};
use hawser_placement::hub::placement::{decide, latest_policy};
use hawser_placement::hub::view::{HubPolicy, HubWarning, PlacementView, WriteFailures};
use hawser_placement::hub::{HubWrite, ObjectName, reports};
use hawser_placement::names;
use hawser_placement::reporting;
use hawser_placement::selection::SelectionError;
use hawser_placement::snapshots::{Scope as PlacementScope, Selected};
use hawser_placement::types::eviction::{DisruptionBudget, Eviction};
use hawser_placement::types::overrides::{ClusterResourceOverride, ResourceOverride};
use hawser_placement::types::placement::{Placement, ResourceIdentifier, StatusReport};
use hawser_placement::types::work::WorkOutline;
use hawser_placement::types::{Metadata, Resource};
use hawser_runtime::cluster::cache::{Cache, LabelledForms, Table};
use hawser_runtime::cluster::connection::{Call, Connection};
use hawser_runtime::cluster::events::{EventText, InvolvedObject, Note, Recorder};
use hawser_runtime::cluster::queue::{Outcome, Work};
use hawser_runtime::cluster::troubles::without_quotes;
use hawser_runtime::cluster::wire::{GuardedClient, collection};
use hawser_runtime::controller::{Reconciler, SharedWatch};
use hawser_runtime::errors::chain;
use hawser_sync::{Answer, Failure, Found, Key, Labels, Request, Seen, Store as _, WriteConflict};
use kube_lang::names::dns1123_subdomain;
use kube_lang::object::{Gvk, Object};

use super::error::HubPassError;
use super::events::HubEvents;
use super::forms::{FormCache, HubForms, PlacementForms};
use super::key::{HubKey, PlacementId};
use super::numbers::HubMetrics;
use super::objects::{self, HUB, HubRouter, read};
use super::selectable::Selectable;

/// The maximum number of rounds. A pass that needs more would never end.
pub(super) const ROUNDS: usize = 64;

/// The time after which an invalid override is read again, if it does not change.
const INVALID_OVERRIDE: Duration = Duration::from_mins(1);

/// The longest time that a status waits after the first write that members wait for and that no status has reported.
const STATUS_DELAY: Duration = Duration::from_secs(2);
/// The time after which a status is looked at again that only waits for other placements.
const STATUS_POLL: Duration = Duration::from_millis(100);

/// The running hub.
pub struct HubController {
    pub hub: Connection,
    pub cache: Arc<Cache>,
    pub client: Arc<GuardedClient>,
    pub router: HubRouter,
    pub events: Arc<HubEvents>,
    pub selectable: Selectable,
    pub recorder: Recorder,
    pub numbers: Arc<HubMetrics>,
    pub rules: HubSettings,
    /// The source of events about placements.
    pub event_source: Arc<str>,
    /// The watches of the fleet's kinds.
    pub fleet: Vec<Arc<SharedWatch>>,
    pub forms: HubForms,
    pub recent: Mutex<FormCache>,
    /// The same of update runs.
    pub recent_runs: Mutex<FormCache>,
    /// Each pass that writes what members wait for has a clone.
    pub placing: Arc<()>,
    /// Members whose foundation this process has looked at, by their uid.
    pub founded: Mutex<BTreeMap<Arc<str>, (String, Instant)>>,
}

/// The settings of the hub.
#[derive(Clone, Copy, Debug)]
pub struct HubSettings {
    pub policy: HubPolicy,
    /// The time for which the hub waits for a leaving member.
    pub force_delete: SignedDuration,
    /// Whether the agents of the fleet's networking are expected in members.
    pub networking: bool,
}

/// The time in the format of conditions.
pub(super) fn time(now: Timestamp) -> String {
    Timestamp::from_second(now.as_second())
        .unwrap_or(now)
        .to_string()
}

impl HubController {
    /// Whether everything that decisions depend on is known.
    fn is_known(&self) -> bool {
        self.fleet.iter().all(|watch| watch.is_complete())
    }

    /// The table of a kind of the fleet.
    pub(super) fn table(&self, kind: &str) -> Result<&Arc<Table>, HubPassError> {
        let tables = self.fleet.iter().map(|watch| watch.table());
        let mut tables = tables.filter(|table| *table.kind().kind == *kind);
        tables.next().ok_or(HubPassError::Unknown)
    }

    /// Parses the changed objects of a kind with the label of a placement.
    pub(super) fn refresh<T: DeserializeOwned>(
        &self,
        forms: &mut LabelledForms<T>,
        kind: &str,
        id: &PlacementId,
        is_its: impl Fn(&Key, &T) -> bool,
    ) -> Result<(), HubPassError> {
        let labels = Labels::from([(names::PARENT_PLACEMENT, id.name.to_string())]);
        let is_known = forms.refresh(self.table(kind)?, &labels, is_its);
        is_known.then_some(()).ok_or(HubPassError::Unknown)
    }

    pub(super) fn get<T: DeserializeOwned>(
        &self,
        kind: &str,
        namespace: Option<&str>,
        name: &str,
    ) -> Result<Option<T>, HubPassError> {
        match self.cache.get(&objects::key(kind, namespace, name)) {
            Seen::Unknown => Err(HubPassError::Unknown),
            Seen::Absent => Ok(None),
            Seen::Present(object) => read(&object).map(Some).map_err(HubPassError::Failed),
        }
    }

    fn know(
        &self,
        scope: PlacementScope,
        id: &PlacementId,
        known: &mut PlacementForms,
    ) -> Result<(), HubPassError> {
        let near = &id.namespace;
        self.refresh(
            &mut known.policies,
            scope.policy_snapshot(),
            id,
            |key, _| key.namespace == *near,
        )?;
        self.refresh(
            &mut known.snapshots,
            scope.resource_snapshot(),
            id,
            |key, _| key.namespace == *near,
        )?;
        self.refresh(&mut known.bindings, scope.binding(), id, |key, _| {
            key.namespace == *near
        })?;
        self.refresh(&mut known.works, "Work", id, |_, work| {
            work.metadata.label(names::PARENT_NAMESPACE) == near.as_deref()
        })
    }

    /// The current selection of a placement.
    pub(super) fn select(
        &self,
        id: &PlacementId,
        placement: &Placement,
        known: &mut PlacementForms,
    ) -> Result<Arc<Selected>, SelectionError> {
        let latest = latest_policy(known.policies.all());
        let latest = latest.and_then(|latest| latest.spec.policy.as_ref());
        if let Some(problem) = check_tolerated(latest, &placement.spec) {
            return Err(SelectionError::Invalid(problem));
        }
        // Asked for first: what changes from now on makes another time of it.
        let time = self.events.selection_time(id);
        match &known.selected {
            Some((known, selected)) if time.as_ref() == Some(known) => Ok(Arc::clone(selected)),
            _ => {
                known.selected = None;
                // What cannot be looked for now stays in the members that have it.
                let stored = known.snapshots.all().iter();
                let stored = stored.flat_map(|one| &one.spec.selected_resources);
                let kinds = stored.map(|object| {
                    let one = ResourceIdentifier::of(object);
                    Gvk::new(&one.group, &one.version, &one.kind)
                });
                if let Some(kind) = self.selectable.first_unknown(kinds) {
                    return Err(SelectionError::NotListed(kind));
                }
                let selected = Selected::from(self.selectable.select(placement)?);
                let selected = Arc::new(selected.checked()?);
                known.selected = time.map(|time| (time, Arc::clone(&selected)));
                Ok(selected)
            }
        }
    }

    async fn placement(&self, id: &PlacementId) -> Result<Outcome, HubPassError> {
        let mut known = self.recent.lock().take(id);
        let worked = self.reconcile_placement(id, &mut known).await;
        let is_there = worked.is_ok() && !matches!(self.cache.get(&id.key()), Seen::Absent);
        if is_there {
            self.recent.lock().put(id, known);
        }
        worked
    }

    async fn reconcile_placement(
        &self,
        id: &PlacementId,
        known: &mut PlacementForms,
    ) -> Result<Outcome, HubPassError> {
        let by = HubKey::Placement(id.clone());
        let scope = match id.namespace {
            None => PlacementScope::Cluster,
            Some(_) => PlacementScope::Namespaced,
        };
        let mut is_undecided = false;
        if id.namespace.is_none() {
            match self.evict(id, &by, known).await {
                // The evictions wait; the placement goes on.
                Err(HubPassError::Failed(problem)) => {
                    warn!(placement = %id.name, problem, "cannot decide about evictions; retrying");
                    is_undecided = true;
                }
                evicted => evicted?,
            }
        }
        let mut selected: Option<Result<Arc<Selected>, SelectionError>> = None;
        let mut failures = WriteFailures::default();
        for _ in 0..ROUNDS {
            let placement: Option<Placement> =
                self.get(scope.placement(), id.namespace.as_deref(), &id.name)?;
            self.know(scope, id, known)?;
            if placement.is_none() {
                self.numbers.forget_placement(id);
            }
            let selected = selected.get_or_insert_with(|| match &placement {
                Some(placement) if !placement.metadata.in_deletion() => {
                    self.select(id, placement, known)
                }
                _ => Ok(Arc::new(Selected::from(Vec::new()))),
            });
            let report = placement.as_ref().and_then(reporting::namespace);
            let report: Option<StatusReport> = match report {
                None => None,
                Some(near) => match self.get(reports::KIND, Some(near), &id.name) {
                    // It harms itself alone.
                    Err(HubPassError::Failed(problem)) => {
                        failures.report = Some(problem);
                        None
                    }
                    report => report?,
                },
            };
            let began = Instant::now();
            let now = Timestamp::now();
            let decided = decide(&PlacementView {
                scope,
                placement: placement.as_ref(),
                policies: known.policies.all(),
                snapshots: known.snapshots.all(),
                bindings: known.bindings.all(),
                works: known.works.all(),
                clusters: &self.forms.clusters.all(),
                cluster_overrides: &self.forms.cluster_overrides.all(),
                overrides: &self.forms.overrides.all(),
                selected: selected.as_deref(),
                scope_of: &|kind| self.selectable.scope(kind),
                report: report.as_ref(),
                failures: &failures,
                policy: self.rules.policy,
                now,
                time: &time(now),
            });
            let is_again = decided.as_ref().is_ok_and(|round| !round.stages.is_empty());
            self.numbers
                .cycle(began.elapsed(), decided.is_err(), is_again);
            let round = decided.map_err(|problem| HubPassError::Failed(problem.to_string()))?;
            if let Some(problem) = &round.problem {
                warn!(placement = %id.name, problem, "an override is not applied");
            }
            if round.stages.is_empty() {
                let (bindings, works) = (known.bindings.all(), known.works.all());
                let snapshots = known.snapshots.all();
                let mirrored = match &placement {
                    Some(placement) => {
                        self.mirror(&by, placement, bindings, works, snapshots)
                            .await?
                    }
                    None => None,
                };
                let wait = round.wait.map(|wait| wait.max(SignedDuration::ZERO));
                let wait = wait.map(SignedDuration::unsigned_abs);
                return Ok(match wait.into_iter().chain(mirrored).min() {
                    _ if is_undecided || failures.is_any() => Outcome::Failed(None),
                    Some(wait) => Outcome::Again(wait),
                    None => Outcome::Settled,
                });
            }
            let _placing = if round.stages.only_report() {
                let can_wait = !is_undecided && !failures.is_any();
                if let Some(wait) = self.deferral(known).filter(|_| can_wait) {
                    return Ok(Outcome::Again(wait));
                }
                known.unreported = None;
                None
            } else {
                known.unreported.get_or_insert_with(Instant::now);
                Some(Arc::clone(&self.placing))
            };
            let refused = failures.works.len();
            for stage in round.stages.into_stages() {
                self.stage(id, &by, stage, &mut failures).await?;
                if failures.works.len() > refused {
                    break;
                }
            }
            if failures.works.len() > refused {
                // Later stages relied on these Works. The next round decides without them.
                continue;
            }
            for warning in round.warnings {
                let HubWarning {
                    kind,
                    about,
                    reason,
                    message,
                } = warning;
                self.tell(kind, &about, "Warning", reason, message);
            }
            if let Some(placement) = &placement {
                for (reason, message) in round.events {
                    self.record(scope.placement(), &placement.metadata, reason, message);
                }
            }
        }
        Err(HubPassError::Failed(format!(
            "still not settled after {ROUNDS} rounds of writes: check whether another program changes the same objects"
        )))
    }

    /// The time for which the status of a placement waits: until members have answered, and while other placements are on
    /// their way to members. Then it is written once instead of several times, and holds up nothing.
    fn deferral(&self, known: &PlacementForms) -> Option<Duration> {
        let left = STATUS_DELAY.checked_sub(known.unreported?.elapsed())?;
        let is_answered = |work: &WorkOutline| {
            let mut conditions = work.status.conditions.iter();
            conditions.any(|one| one.observed_generation == work.metadata.generation)
        };
        if !known.works.all().iter().all(is_answered) {
            // The answer is an event.
            return Some(left);
        }
        let is_busy = Arc::strong_count(&self.placing) > 1;
        is_busy.then(|| left.min(STATUS_POLL))
    }

    /// Carries out the evictions of a placement, one after the other, so that each one knows what the last one took.
    async fn evict(
        &self,
        id: &PlacementId,
        by: &HubKey,
        known: &mut PlacementForms,
    ) -> Result<(), HubPassError> {
        for _ in 0..ROUNDS {
            let all = self.forms.evictions.all();
            let open = all
                .iter()
                .filter(|one| *one.spec.placement_name == *id.name && !evictions::is_over(one));
            let first =
                open.min_by_key(|one| (&one.metadata.creation_timestamp, &one.metadata.name));
            let Some(eviction) = first else {
                return Ok(());
            };
            let scope = PlacementScope::Cluster;
            let placement = self.get(scope.placement(), None, &id.name)?;
            self.know(scope, id, known)?;
            // Without a placement, the name is whatever somebody wrote into an eviction.
            let budget = match &placement {
                Some(_) => self.budget(&id.name).await?,
                None => None,
            };
            let stages = evictions::decide(&EvictionView {
                eviction,
                placement: placement.as_ref(),
                bindings: known.bindings.all(),
                budget: budget.as_ref(),
                time: &time(Timestamp::now()),
            });
            for write in stages.into_stages().flatten() {
                let is_status = matches!(write, HubWrite::Status { .. });
                if let Some(written) = self.send(by, write).await?
                    && is_status
                    && let Ok(eviction) = read::<Eviction>(&written)
                {
                    self.numbers.eviction(&eviction);
                }
            }
        }
        // More of them than a pass takes; the next one goes on.
        Err(HubPassError::Contested(Duration::ZERO))
    }

    /// The budget of a placement, read at this moment: one that was made before an eviction holds it back, whichever
    /// event comes first.
    async fn budget(&self, placement: &str) -> Result<Option<DisruptionBudget>, HubPassError> {
        self.ask("ClusterResourcePlacementDisruptionBudget", None, placement)
            .await
    }

    /// An object, read at this moment.
    pub(super) async fn ask<T: DeserializeOwned>(
        &self,
        kind: &str,
        namespace: Option<&str>,
        name: &str,
    ) -> Result<Option<T>, HubPassError> {
        // Whatever somebody wrote becomes a part of a path only if it can be a name.
        if !dns1123_subdomain(name).is_empty() {
            return Ok(None);
        }
        let all = collection(&objects::gvk(kind), namespace, &objects::resource(kind));
        let found = match self.hub.ask(Call::get(format!("{all}/{name}"))).await {
            Err(error) if error.code() == Some(404) => return Ok(None),
            found => found.map_err(|error| HubPassError::Failed(chain(&error)))?,
        };
        let read = serde_json::from_value(found).map(Some);
        read.map_err(|error| {
            let error = without_quotes(&error.to_string());
            HubPassError::Failed(format!("{kind} {name}: {error}"))
        })
    }

    /// Sends the requests of a stage together. A failed Work concerns only its binding, and a failed copy of the status
    /// only the copy.
    async fn stage(
        &self,
        id: &PlacementId,
        by: &HubKey,
        stage: Vec<HubWrite>,
        failures: &mut WriteFailures,
    ) -> Result<(), HubPassError> {
        let sent = stage.into_iter().map(async |write| {
            let part = PlacementPart::of(&write, &self.cache);
            (part, self.send(by, write).await)
        });
        for (part, sent) in join_all(sent).await {
            match (part, sent) {
                (_, Ok(Some(object))) if objects::is_of_fleet(&object.gvk()) => {
                    let is_placement = object.kind().ends_with("ResourcePlacement");
                    if is_placement && object.root().contains_key("status") {
                        let placement = read(&object).map_err(HubPassError::Failed)?;
                        self.numbers.placement(id, &placement);
                    }
                }
                (_, Ok(_)) => {}
                (Some(PlacementPart::Works(binding)), Err(HubPassError::Failed(problem))) => {
                    failures.works.insert(binding, problem);
                }
                (Some(PlacementPart::Report), Err(HubPassError::Failed(problem))) => {
                    failures.report = Some(problem);
                }
                (_, Err(broken)) => return Err(broken),
            }
        }
        Ok(())
    }

    async fn reconcile_override(&self, id: &PlacementId) -> Result<Outcome, HubPassError> {
        let near = id.namespace.as_deref();
        if near.is_none() {
            let kind = OverrideKind::Cluster;
            let one = self.get::<ClusterResourceOverride>(kind.name(), None, &id.name)?;
            let problems = one.as_ref().map(|one| {
                let all = self.forms.cluster_override_specs.all();
                check_cluster_override(one, before(&all, &one.metadata))
            });
            self.checked(id, kind, one, problems).await
        } else {
            let kind = OverrideKind::Namespaced;
            let one = self.get::<ResourceOverride>(kind.name(), near, &id.name)?;
            let problems = one.as_ref().map(|one| {
                let all = self.forms.override_specs.all();
                check_override(one, before(&all, &one.metadata))
            });
            self.checked(id, kind, one, problems).await
        }
    }

    /// Takes a snapshot of an override that is valid. What an invalid one said before stays.
    async fn checked<Spec: serde::Serialize, Status>(
        &self,
        id: &PlacementId,
        kind: OverrideKind,
        one: Option<Resource<Spec, Status>>,
        problems: Option<Problems>,
    ) -> Result<Outcome, HubPassError> {
        let problems = problems.unwrap_or_default().join("; ");
        match &one {
            Some(one) if !problems.is_empty() && !one.metadata.in_deletion() => {
                warn!(name = %id.name, problems, "an override is invalid and left out");
                let message = format!(
                    "The override is invalid, so its last valid version, if any, still applies: {problems}"
                );
                self.tell(
                    kind.name(),
                    &one.metadata,
                    "Warning",
                    "InvalidOverride",
                    message,
                );
                // Another one may be in its way.
                Ok(Outcome::Again(INVALID_OVERRIDE))
            }
            _ => self.snapshot(id, kind, one).await,
        }
    }

    async fn snapshot<Spec: serde::Serialize, Status>(
        &self,
        id: &PlacementId,
        kind: OverrideKind,
        one: Option<Resource<Spec, Status>>,
    ) -> Result<Outcome, HubPassError> {
        let Some(one) = one else {
            return Ok(Outcome::Settled);
        };
        let labels = Labels::from([(names::PARENT_OVERRIDE, id.name.to_string())]);
        let Found::All(all) = self.cache.find(&objects::scope(kind.snapshot()), &labels) else {
            return Err(HubPassError::Unknown);
        };
        let near = id.namespace.as_deref();
        let its = all.iter().filter(|(_, object)| object.namespace() == near);
        let snapshots = its.map(|(_, object)| {
            let metadata = &object.as_value()["metadata"];
            let hash = object.as_value()["spec"]["overrideHash"].as_str();
            let metadata: Result<Metadata, _> = serde_json::from_value(metadata.clone());
            metadata.map(|metadata| (metadata, hash.unwrap_or_default().to_owned()))
        });
        let snapshots: Result<Vec<(Metadata, String)>, _> = snapshots.collect();
        let snapshots = snapshots.map_err(|error| HubPassError::Failed(error.to_string()))?;
        let stages = overrides::decide(kind, &one, &snapshots)
            .map_err(|error| HubPassError::Failed(error.to_string()))?;
        let by = HubKey::Override(id.clone());
        for write in stages.into_stages().flatten() {
            self.send(&by, write).await?;
        }
        Ok(Outcome::Settled)
    }

    /// Sends a request; returns the resulting object.
    pub(super) async fn send(
        &self,
        by: &HubKey,
        write: HubWrite,
    ) -> Result<Option<Arc<Object>>, HubPassError> {
        let is_deletion = matches!(write, HubWrite::Delete { .. });
        let request = self.request(write)?;
        let sent = self.client.send(&self.router, None, &|| Ok(()), &request);
        let (answer, changes) = match sent.await {
            Ok(sent) => sent,
            Err(WriteConflict { place, wait }) => {
                warn!(place, about = ?by, "another writer undoes each write; waiting");
                return Err(HubPassError::Contested(wait));
            }
        };
        // No event reports changes by others again.
        let by = Some(by).filter(|_| !request.shows_others_changes());
        for change in &changes {
            self.events.note(change, by);
        }
        let about = || request.key().map(ToString::to_string).unwrap_or_default();
        match answer {
            Answer::Object(object) => Ok(Some(object)),
            Answer::Gone | Answer::Listed(_) => Ok(None),
            Answer::Failed(Failure::NotFound | Failure::OtherIncarnation) if is_deletion => {
                Ok(None)
            }
            Answer::Failed(Failure::AlreadyExists) if self.is_of_another(&request) => {
                Err(HubPassError::Failed(format!(
                    "{} is there already and belongs to another placement, whose namespace and name look the same joined by a dot: rename one of them",
                    about()
                )))
            }
            Answer::Failed(
                Failure::Conflict | Failure::AlreadyExists | Failure::OtherIncarnation,
            ) => Err(HubPassError::Stale),
            Answer::Failed(failure) => Err(HubPassError::Failed(format!("{}: {failure}", about()))),
        }
    }

    /// Whether the object in the place of a new one is known, and has another placement.
    fn is_of_another(&self, request: &Request) -> bool {
        let Request::Create { key, object } = request else {
            return false;
        };
        let of = |object: &Object| {
            let labels = [names::PARENT_PLACEMENT, names::PARENT_NAMESPACE];
            labels.map(|label| object.label(label).map(str::to_owned))
        };
        match self.cache.get(key) {
            Seen::Present(known) => of(&known) != of(object),
            Seen::Absent | Seen::Unknown => false,
        }
    }

    fn request(&self, write: HubWrite) -> Result<Request, HubPassError> {
        Ok(match write {
            HubWrite::Create(object) => {
                let object =
                    Object::new(object).map_err(|error| HubPassError::Failed(error.to_string()))?;
                let kind: Gvk = object.gvk();
                let key = objects::key(&kind.kind, object.namespace(), object.name());
                Request::Create { key, object }
            }
            HubWrite::Patch { place, patch } => Request::Patch {
                key: key_of(&place),
                patch,
            },
            HubWrite::Status { place, status } => {
                let key = key_of(&place);
                let Seen::Present(known) = self.cache.get(&key) else {
                    return Err(HubPassError::Stale);
                };
                let mut object = (*known).clone();
                object.root_mut().insert("status".to_owned(), status);
                Request::ReplaceStatus { key, object }
            }
            HubWrite::Delete {
                place,
                uid,
                version,
            } => {
                let precondition = |version| {
                    let precondition = json!({"resourceVersion": version});
                    ("preconditions".to_owned(), precondition)
                };
                Request::Delete {
                    key: key_of(&place),
                    uid: uid.into(),
                    options: version.map(precondition).into_iter().collect(),
                }
            }
        })
    }

    /// An event about an object of the fleet.
    pub(super) fn record(&self, kind: &str, about: &Metadata, reason: &'static str, message: &str) {
        self.tell(kind, about, "Normal", reason, message.to_owned());
    }

    fn tell(
        &self,
        kind: &str,
        about: &Metadata,
        type_: &'static str,
        reason: &'static str,
        message: String,
    ) {
        let key = objects::key(kind, about.namespace.as_deref(), &about.name);
        self.recorder.record(Note {
            trouble: None,
            connection: self.hub.clone(),
            tenant: key.to_string().into(),
            about: InvolvedObject {
                key,
                uid: about.uid.as_deref().map(Arc::from),
            },
            text: EventText {
                component: match kind {
                    "MemberCluster" => "mcv1beta1-controller".into(),
                    _ => self.event_source.to_string().into(),
                },
                kind: type_,
                reason: reason.into(),
                message,
            },
        });
    }

    /// Updates the metrics of all running parts.
    pub fn count(&self, workers: usize) {
        self.numbers.keep_evictions(|name| {
            let key = objects::key("ClusterResourcePlacementEviction", None, name);
            !matches!(self.cache.get(&key), Seen::Absent)
        });
        let now = Timestamp::now();
        let windows = self.rules.policy.windows;
        let members = self.forms.clusters.all();
        let silent = members
            .iter()
            .filter(|member| windows.is_silent(member, now));
        let silent = silent.count();
        let queue = self.events.queue.state();
        self.numbers.count(silent, workers, queue);
    }
}

/// The overrides of a namespace that were there before this one.
fn before<'a, Spec, Status>(
    all: &'a [Arc<Resource<Spec, Status>>],
    one: &'a Metadata,
) -> impl Iterator<Item = &'a Resource<Spec, Status>> + Clone {
    fn age(of: &Metadata) -> (Option<&str>, Option<&str>) {
        (of.creation_timestamp.as_deref(), of.uid.as_deref())
    }
    let others = all.iter().map(|other| &**other);
    others.filter(move |other| {
        other.metadata.namespace == one.namespace && age(&other.metadata) < age(one)
    })
}

fn key_of(place: &ObjectName) -> Key {
    objects::key(place.kind, place.namespace.as_deref(), &place.name)
}

/// The part of a placement that a write concerns, without which the others go on.
enum PlacementPart {
    /// The Works of a binding.
    Works(String),
    /// The copy of the status.
    Report,
}

impl PlacementPart {
    fn of(write: &HubWrite, cache: &Cache) -> Option<Self> {
        let works = |label: Option<&str>| Some(Self::Works(label?.to_owned()));
        match write {
            HubWrite::Create(object) if object["kind"] == "Work" => {
                works(object["metadata"]["labels"][names::PARENT_BINDING].as_str())
            }
            HubWrite::Create(object) => (object["kind"] == reports::KIND).then_some(Self::Report),
            HubWrite::Patch { place, .. } if place.kind == reports::KIND => Some(Self::Report),
            HubWrite::Patch { place, .. } | HubWrite::Delete { place, .. }
                if place.kind == "Work" =>
            {
                match cache.get(&key_of(place)) {
                    Seen::Present(object) => works(object.label(names::PARENT_BINDING)),
                    Seen::Absent | Seen::Unknown => None,
                }
            }
            _ => None,
        }
    }
}

impl Reconciler for HubController {
    type Key = HubKey;

    async fn reconcile(self: &Arc<Self>, work: &Work<HubKey>) -> Outcome {
        if !self.is_known() {
            self.events.defer(work.key.clone());
            // The last list may have come in between.
            if self.is_known() {
                self.events.queue_deferred();
            }
            return Outcome::Settled;
        }
        let worked = match &work.key {
            HubKey::Placement(id) => self.placement(id).await,
            HubKey::Override(id) => self.reconcile_override(id).await,
            HubKey::Member(name) => self.member(name).await,
            HubKey::Run(id) => self.run(id).await,
        };
        worked.unwrap_or_else(|broken| broken.outcome(&work.key))
    }

    fn worked(&self, waited: Duration, took: Duration, outcome: Option<Outcome>) {
        self.numbers.worked(waited, took, outcome);
    }
}

/// Says where the hub's source is, once for the process.
pub fn route(cache: &Cache) {
    cache.route(&HUB, "", &objects::SOURCE.into());
}
