//! The work on one placement or override: what is known, a decision, requests; until nothing is left to be written.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures::future::join_all;
use jiff::{SignedDuration, Timestamp};
use parking_lot::Mutex;
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio::time::Instant;
use tracing::{debug, error, warn};

use hawser_placement::admission::{
    Problems, check_cluster_override, check_override, check_tolerated,
};
use hawser_placement::hub::evictions::{self, EvictionView};
use hawser_placement::hub::overrides::{self, OverrideKind};
use hawser_placement::hub::placement::{HubPolicy, PlacementView, decide, latest_policy};
use hawser_placement::hub::{HubWrite, Place};
use hawser_placement::members::Members;
use hawser_placement::names;
use hawser_placement::selection::SelectionError;
use hawser_placement::snapshots::Scope as PlacementScope;
use hawser_placement::types::binding::{Binding, PolicySnapshot, ResourceSnapshot};
use hawser_placement::types::cluster::MemberCluster;
use hawser_placement::types::eviction::{DisruptionBudget, Eviction};
use hawser_placement::types::overrides::{
    ClusterResourceOverride, ClusterResourceOverrideSnapshot, ResourceOverride,
    ResourceOverrideSnapshot,
};
use hawser_placement::types::placement::Placement;
use hawser_placement::types::work::Work as FleetWork;
use hawser_placement::types::{Metadata, Resource};
use hawser_runtime::cluster::cache::{Cache, FormError, Forms};
use hawser_runtime::cluster::connection::{Call, Connection};
use hawser_runtime::cluster::events::{About, EventText, Note, Recorder};
use hawser_runtime::cluster::queue::{Outcome, Work};
use hawser_runtime::cluster::wire::{GuardedClient, collection};
use hawser_runtime::controller::{Reconciler, SharedWatch};
use hawser_runtime::errors::chain;
use hawser_sync::{Answer, Contest, Failure, Found, Key, Labels, Request, Seen, Store as _};
use kube_lang::object::{Gvk, Object};

use super::events::{HubEvents, HubKey, PlacementId};
use super::numbers::HubNumbers;
use super::objects::{self, HUB, HubRouter, read};
use super::selectable::Selectable;

/// More rounds than any pass needs; a pass that needs them writes in circles.
const ROUNDS: usize = 64;

/// When an override that is invalid is looked at again, if nobody changes it.
const INVALID_OVERRIDE: Duration = Duration::from_mins(1);

/// The hub at work.
pub struct HubWorld {
    pub hub: Connection,
    pub cache: Arc<Cache>,
    pub client: Arc<GuardedClient>,
    pub router: HubRouter,
    pub events: Arc<HubEvents>,
    pub selectable: Selectable,
    pub recorder: Recorder,
    pub numbers: Arc<HubNumbers>,
    pub rules: HubRules,
    /// The watches of the fleet's kinds.
    pub fleet: Vec<Arc<SharedWatch>>,
    pub forms: HubForms,
    /// Members whose foundation this process has looked at, by their uid.
    pub founded: Mutex<BTreeMap<Arc<str>, String>>,
}

/// How the hub is to work.
#[derive(Clone, Copy, Debug)]
pub struct HubRules {
    pub policy: HubPolicy,
    /// How long is waited for a member that is asked to leave.
    pub force_delete: SignedDuration,
    /// Whether the agents of the fleet's networking are expected in members.
    pub networking: bool,
}

/// Why a pass ends before its end.
pub(super) enum Broken {
    /// A table is not complete; its completion leads here again.
    Unknown,
    /// Somebody undoes the writes.
    Contested(Duration),
    Failed(String),
    /// Something else was there than was known.
    Stale,
}

impl From<FormError> for Broken {
    fn from(error: FormError) -> Self {
        Self::Failed(chain(&error))
    }
}

impl Broken {
    pub(super) fn outcome(self, about: &HubKey) -> Outcome {
        match self {
            Self::Unknown => Outcome::Settled,
            Self::Contested(wait) => Outcome::Again(wait),
            Self::Stale => {
                debug!(?about, "the cache is behind; trying again");
                Outcome::Failed(None)
            }
            Self::Failed(problem) => {
                error!(?about, problem, "retrying");
                Outcome::Failed(None)
            }
        }
    }
}

/// Everything that is stored of a placement, and what it depends on.
struct Known {
    placement: Option<Placement>,
    policies: Vec<PolicySnapshot>,
    snapshots: Vec<ResourceSnapshot>,
    bindings: Vec<Binding>,
    works: Vec<FleetWork>,
    clusters: Members,
    cluster_overrides: Arc<[Arc<ClusterResourceOverrideSnapshot>]>,
    overrides: Arc<[Arc<ResourceOverrideSnapshot>]>,
}

/// What every placement depends on, each object parsed once for a version.
pub struct HubForms {
    cluster_override_specs: Forms<ClusterResourceOverride, Arc<[Arc<ClusterResourceOverride>]>>,
    override_specs: Forms<ResourceOverride, Arc<[Arc<ResourceOverride>]>>,
    clusters: Forms<MemberCluster, Members>,
    cluster_overrides:
        Forms<ClusterResourceOverrideSnapshot, Arc<[Arc<ClusterResourceOverrideSnapshot>]>>,
    evictions: Forms<Eviction, Arc<[Arc<Eviction>]>>,
    overrides: Forms<ResourceOverrideSnapshot, Arc<[Arc<ResourceOverrideSnapshot>]>>,
}

impl HubForms {
    /// `watch` watches a kind of the fleet.
    pub fn new(watch: impl Fn(&str) -> Arc<SharedWatch>) -> Self {
        Self {
            cluster_override_specs: Forms::of(watch("ClusterResourceOverride").table()),
            override_specs: Forms::of(watch("ResourceOverride").table()),
            clusters: Forms::of(watch("MemberCluster").table()),
            cluster_overrides: Forms::of(watch("ClusterResourceOverrideSnapshot").table()),
            evictions: Forms::of(watch("ClusterResourcePlacementEviction").table()),
            overrides: Forms::of(watch("ResourceOverrideSnapshot").table()),
        }
    }
}

/// The time as it stands in conditions.
pub(super) fn time(now: Timestamp) -> String {
    Timestamp::from_second(now.as_second())
        .unwrap_or(now)
        .to_string()
}

impl HubWorld {
    /// Whether everything is known that decisions are made of.
    fn is_known(&self) -> bool {
        self.fleet.iter().all(|watch| watch.is_complete())
    }

    /// The objects of a kind with the label of a placement.
    fn of_placement<T: DeserializeOwned>(
        &self,
        kind: &str,
        id: &PlacementId,
        is_its: impl Fn(&Object) -> bool,
    ) -> Result<Vec<T>, Broken> {
        let labels = Labels::from([(names::PARENT_PLACEMENT.to_owned(), id.name.to_string())]);
        match self.cache.find(&objects::scope(kind), &labels) {
            Found::Unknown => Err(Broken::Unknown),
            Found::All(all) => {
                let its = all.iter().filter(|(_, object)| is_its(object));
                let read = its.map(|(_, object)| read(object));
                read.collect::<Result<_, _>>().map_err(Broken::Failed)
            }
        }
    }

    pub(super) fn get<T: DeserializeOwned>(
        &self,
        kind: &str,
        namespace: Option<&str>,
        name: &str,
    ) -> Result<Option<T>, Broken> {
        match self.cache.get(&objects::key(kind, namespace, name)) {
            Seen::Unknown => Err(Broken::Unknown),
            Seen::Absent => Ok(None),
            Seen::Present(object) => read(&object).map(Some).map_err(Broken::Failed),
        }
    }

    fn know(&self, scope: PlacementScope, id: &PlacementId) -> Result<Known, Broken> {
        let near = id.namespace.as_deref();
        let is_near = |object: &Object| object.namespace() == near;
        let is_parent = |object: &Object| object.label(names::PARENT_NAMESPACE) == near;
        Ok(Known {
            placement: self.get(scope.placement(), near, &id.name)?,
            policies: self.of_placement(scope.policy_snapshot(), id, is_near)?,
            snapshots: self.of_placement(scope.resource_snapshot(), id, is_near)?,
            bindings: self.of_placement(scope.binding(), id, is_near)?,
            works: self.of_placement("Work", id, is_parent)?,
            clusters: self.forms.clusters.all()?,
            cluster_overrides: self.forms.cluster_overrides.all()?,
            overrides: self.forms.overrides.all()?,
        })
    }

    async fn placement(&self, id: &PlacementId) -> Result<Outcome, Broken> {
        let by = HubKey::Placement(id.clone());
        let scope = match id.namespace {
            None => PlacementScope::Cluster,
            Some(_) => PlacementScope::Namespaced,
        };
        if id.namespace.is_none() {
            self.evict(id, &by).await?;
        }
        let mut selected: Option<Result<Vec<Value>, SelectionError>> = None;
        let mut failures = BTreeMap::new();
        for _ in 0..ROUNDS {
            let known = self.know(scope, id)?;
            if known.placement.is_none() {
                self.numbers.forget_placement(id);
            }
            let selected = selected.get_or_insert_with(|| match &known.placement {
                Some(placement) if !placement.metadata.in_deletion() => {
                    let latest = latest_policy(&known.policies);
                    let latest = latest.and_then(|latest| latest.spec.policy.as_ref());
                    match check_tolerated(latest, &placement.spec) {
                        Some(problem) => Err(SelectionError::Invalid(problem)),
                        None => self.selectable.select(placement),
                    }
                }
                _ => Ok(Vec::new()),
            });
            let began = Instant::now();
            let now = Timestamp::now();
            let decided = decide(&PlacementView {
                scope,
                placement: known.placement.as_ref(),
                policies: &known.policies,
                snapshots: &known.snapshots,
                bindings: &known.bindings,
                works: &known.works,
                clusters: &known.clusters,
                cluster_overrides: &known.cluster_overrides,
                overrides: &known.overrides,
                selected,
                failures: &failures,
                policy: self.rules.policy,
                now,
                time: &time(now),
            });
            let is_again = decided.as_ref().is_ok_and(|round| !round.stages.is_empty());
            self.numbers
                .cycle(began.elapsed(), decided.is_err(), is_again);
            let round = decided.map_err(|problem| Broken::Failed(problem.to_string()))?;
            if let Some(problem) = &round.problem {
                warn!(placement = %id.name, problem, "an override is left out");
            }
            if round.stages.is_empty() {
                return Ok(match round.wait {
                    _ if !failures.is_empty() => Outcome::Failed(None),
                    Some(wait) => Outcome::Again(wait.max(SignedDuration::ZERO).unsigned_abs()),
                    None => Outcome::Settled,
                });
            }
            for stage in round.stages.into_stages() {
                self.stage(id, &by, stage, &mut failures).await?;
            }
            if let Some(placement) = &known.placement {
                for (reason, message) in round.events {
                    self.record(scope.placement(), &placement.metadata, reason, message);
                }
            }
        }
        Err(Broken::Failed("the pass writes in circles".to_owned()))
    }

    /// Carries out the evictions of a placement, one after the other, so that each one knows what the last one took.
    async fn evict(&self, id: &PlacementId, by: &HubKey) -> Result<(), Broken> {
        for _ in 0..ROUNDS {
            let all = self.forms.evictions.all()?;
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
            let bindings =
                self.of_placement(scope.binding(), id, |one| one.namespace().is_none())?;
            // Without a placement, the name is whatever somebody wrote into an eviction.
            let budget = match &placement {
                Some(_) => self.budget(&id.name).await?,
                None => None,
            };
            let stages = evictions::decide(&EvictionView {
                eviction,
                placement: placement.as_ref(),
                bindings: &bindings,
                budget: budget.as_ref(),
                time: &time(Timestamp::now()),
            });
            for write in stages.into_stages().flatten() {
                if let Some(written) = self.send(by, write).await?
                    && let Ok(eviction) = read::<Eviction>(&written)
                    && evictions::is_over(&eviction)
                {
                    self.numbers.evicted(&eviction);
                }
            }
        }
        // More of them than a pass takes; the next one goes on.
        Err(Broken::Contested(Duration::ZERO))
    }

    /// The budget of a placement, read at this moment: one that was made before an eviction holds it back, whichever
    /// event comes first.
    async fn budget(&self, placement: &str) -> Result<Option<DisruptionBudget>, Broken> {
        let kind = "ClusterResourcePlacementDisruptionBudget";
        let all = collection(&objects::gvk(kind), None, &objects::resource(kind));
        let found = match self.hub.ask(Call::get(format!("{all}/{placement}"))).await {
            Err(error) if error.code() == Some(404) => return Ok(None),
            found => found.map_err(|error| Broken::Failed(chain(&error)))?,
        };
        let budget = serde_json::from_value(found);
        let budget =
            budget.map_err(|error| Broken::Failed(format!("{kind} {placement}: {error}")))?;
        Ok(Some(budget))
    }

    /// Sends the requests of a stage together. What goes wrong with a Work concerns its binding alone.
    async fn stage(
        &self,
        id: &PlacementId,
        by: &HubKey,
        stage: Vec<HubWrite>,
        failures: &mut BTreeMap<String, String>,
    ) -> Result<(), Broken> {
        let sent = stage.into_iter().map(async |write| {
            let binding = binding_of(&write, &self.cache);
            (binding, self.send(by, write).await)
        });
        for (binding, sent) in join_all(sent).await {
            match (binding, sent) {
                (_, Ok(Some(object))) if objects::is_of_fleet(&object.gvk()) => {
                    let is_placement = object.kind().ends_with("ResourcePlacement");
                    if is_placement && object.root().contains_key("status") {
                        let placement = read(&object).map_err(Broken::Failed)?;
                        self.numbers.placement(id, &placement);
                    }
                }
                (_, Ok(_)) => {}
                (Some(binding), Err(Broken::Failed(problem))) => {
                    failures.insert(binding, problem);
                }
                (_, Err(broken)) => return Err(broken),
            }
        }
        Ok(())
    }

    async fn overriding(&self, id: &PlacementId) -> Result<Outcome, Broken> {
        let near = id.namespace.as_deref();
        if near.is_none() {
            let kind = OverrideKind::Cluster;
            let one = self.get::<ClusterResourceOverride>(kind.name(), None, &id.name)?;
            let problems = one.as_ref().map(|one| {
                let all = self.forms.cluster_override_specs.all()?;
                let others = all
                    .iter()
                    .filter(|other| is_before(&other.metadata, &one.metadata));
                let others: Vec<_> = others.map(|other| (**other).clone()).collect();
                Ok::<_, Broken>(check_cluster_override(one, &others))
            });
            self.checked(id, kind, one, problems.transpose()?).await
        } else {
            let kind = OverrideKind::Namespaced;
            let one = self.get::<ResourceOverride>(kind.name(), near, &id.name)?;
            let problems = one.as_ref().map(|one| {
                let all = self.forms.override_specs.all()?;
                let others = all.iter().filter(|other| {
                    other.metadata.namespace == one.metadata.namespace
                        && is_before(&other.metadata, &one.metadata)
                });
                let others: Vec<_> = others.map(|other| (**other).clone()).collect();
                Ok::<_, Broken>(check_override(one, &others))
            });
            self.checked(id, kind, one, problems.transpose()?).await
        }
    }

    /// Takes a snapshot of an override that is valid. What an invalid one said before stays.
    async fn checked<Spec: serde::Serialize, Status>(
        &self,
        id: &PlacementId,
        kind: OverrideKind,
        one: Option<Resource<Spec, Status>>,
        problems: Option<Problems>,
    ) -> Result<Outcome, Broken> {
        let problems = problems.unwrap_or_default().join("; ");
        match &one {
            Some(one) if !problems.is_empty() && !one.metadata.in_deletion() => {
                warn!(name = %id.name, problems, "an override is invalid and left out");
                let message = format!("The override is left out: {problems}");
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
    ) -> Result<Outcome, Broken> {
        let Some(one) = one else {
            return Ok(Outcome::Settled);
        };
        let labels = Labels::from([(names::PARENT_OVERRIDE.to_owned(), id.name.to_string())]);
        let Found::All(all) = self.cache.find(&objects::scope(kind.snapshot()), &labels) else {
            return Err(Broken::Unknown);
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
        let snapshots = snapshots.map_err(|error| Broken::Failed(error.to_string()))?;
        let stages = overrides::decide(kind, &one, &snapshots)
            .map_err(|error| Broken::Failed(error.to_string()))?;
        let by = HubKey::Override(id.clone());
        for write in stages.into_stages().flatten() {
            self.send(&by, write).await?;
        }
        Ok(Outcome::Settled)
    }

    /// Sends a request; returns the object as it is now.
    pub(super) async fn send(
        &self,
        by: &HubKey,
        write: HubWrite,
    ) -> Result<Option<Arc<Object>>, Broken> {
        let is_deletion = matches!(write, HubWrite::Delete { .. });
        let request = self.request(write)?;
        let sent = self.client.send(&self.router, None, &|| Ok(()), &request);
        let (answer, changes) = match sent.await {
            Ok(sent) => sent,
            Err(Contest { place, wait }) => {
                warn!(place, about = ?by, "another writer undoes each write; waiting");
                return Err(Broken::Contested(wait));
            }
        };
        for change in &changes {
            self.events.note(change, Some(by));
        }
        match answer {
            Answer::Object(object) => Ok(Some(object)),
            Answer::Gone | Answer::Listed(_) => Ok(None),
            Answer::Failed(Failure::NotFound | Failure::OtherIncarnation) if is_deletion => {
                Ok(None)
            }
            Answer::Failed(
                Failure::Conflict | Failure::AlreadyExists | Failure::OtherIncarnation,
            ) => Err(Broken::Stale),
            Answer::Failed(failure) => {
                let about = request.key().map(ToString::to_string).unwrap_or_default();
                Err(Broken::Failed(format!("{about}: {failure}")))
            }
        }
    }

    fn request(&self, write: HubWrite) -> Result<Request, Broken> {
        Ok(match write {
            HubWrite::Create(object) => {
                let object =
                    Object::new(object).map_err(|error| Broken::Failed(error.to_string()))?;
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
                    return Err(Broken::Stale);
                };
                let mut object = (*known).clone();
                object.root_mut().insert("status".to_owned(), status);
                Request::ReplaceStatus { key, object }
            }
            HubWrite::Delete { place, uid } => Request::delete(key_of(&place), uid),
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
            connection: self.hub.clone(),
            tenant: key.to_string().into(),
            about: About {
                key,
                uid: about.uid.as_deref().map(Arc::from),
            },
            text: EventText {
                component: match kind {
                    "MemberCluster" => "mcv1beta1-controller".into(),
                    _ => "placement-controller".into(),
                },
                kind: type_,
                reason: reason.into(),
                message,
            },
        });
    }

    /// Takes numbers of everything at work.
    pub fn count(&self, workers: usize) {
        self.numbers.keep_evictions(|name| {
            let key = objects::key("ClusterResourcePlacementEviction", None, name);
            !matches!(self.cache.get(&key), Seen::Absent)
        });
        self.numbers.queue(workers, self.events.queue.state());
    }
}

/// Whether an override was there before another one.
fn is_before(one: &Metadata, other: &Metadata) -> bool {
    let age = |metadata: &Metadata| (metadata.creation_timestamp.clone(), metadata.uid.clone());
    age(one) < age(other)
}

fn key_of(place: &Place) -> Key {
    objects::key(place.kind, place.namespace.as_deref(), &place.name)
}

/// The binding whose Work is written.
fn binding_of(write: &HubWrite, cache: &Cache) -> Option<String> {
    let label = |object: &Object| object.label(names::PARENT_BINDING).map(str::to_owned);
    match write {
        HubWrite::Create(object) if object["kind"] == "Work" => {
            let label = &object["metadata"]["labels"][names::PARENT_BINDING];
            label.as_str().map(str::to_owned)
        }
        HubWrite::Patch { place, .. } | HubWrite::Delete { place, .. } if place.kind == "Work" => {
            match cache.get(&key_of(place)) {
                Seen::Present(object) => label(&object),
                Seen::Absent | Seen::Unknown => None,
            }
        }
        _ => None,
    }
}

impl Reconciler for HubWorld {
    type Key = HubKey;

    async fn reconcile(self: &Arc<Self>, work: &Work<HubKey>) -> Outcome {
        if !self.is_known() {
            self.events.park(work.key.clone());
            // The last list may have come in between.
            if self.is_known() {
                self.events.unpark();
            }
            return Outcome::Settled;
        }
        let worked = match &work.key {
            HubKey::Placement(id) => self.placement(id).await,
            HubKey::Override(id) => self.overriding(id).await,
            HubKey::Member(name) => self.member(name).await,
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
