//! The next writes for a placement. The steps follow each other: finalizers, policy snapshot, schedule, resource
//! snapshot, rollout, Works, status of bindings, status of the placement. A round writes for the first step that has
//! anything to write.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::SignedDuration;
use serde::Deserialize as _;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use super::bindings::{self, RolloutProgress, WorkWrites};
use super::view::{HubWarning, PlacementView};
use super::{HubWrite, ObjectName, Stages, complete, reports};
use crate::admission::KindScope;
use crate::names;
use crate::overrides::{OverrideError, Overrides};
use crate::rollout::{self, Desired, LimitError, RolloutPlan};
use crate::scheduler::{self, ScheduleError};
use crate::selection::SelectionError;
use crate::snapshots::{SnapshotError, SnapshotPlan, plan_policy, plan_resources};
use crate::status::size::fit_placement;
use crate::status::{StatusRequest, build, events, invalid_selectors, is_same, same_conditions};
use crate::types::binding::{
    Binding, BindingState, ClusterDecision, PolicySnapshot, PolicySnapshotStatus, ResourceSnapshot,
};
use crate::types::overrides::{ClusterResourceOverrideSnapshot, ResourceOverrideSnapshot};
use crate::types::placement::{Placement, PlacementStatus, PropagationPolicy, ResourceIdentifier};
use crate::types::policy::PlacementType;
use crate::types::work::WorkOutline;
use crate::types::{Condition, ConditionStatus, Metadata, PLACEMENT_GROUP, STORED_VERSION};
use crate::works::{envelope_type, unpack};

/// When selectors that cannot be followed are tried again, if nothing happens before.
const INVALID_FOR: SignedDuration = SignedDuration::from_mins(30);

/// The writes of a round, and the time of the next round if nothing else happens.
#[derive(Debug, Default)]
pub struct HubRound {
    pub stages: Stages,
    pub wait: Option<SignedDuration>,
    /// Events about the placement, once its status is written: reason and message.
    pub events: Vec<(&'static str, &'static str)>,
    /// Warnings about bindings, once their status is written.
    pub warnings: Vec<HubWarning>,
    /// A problem that does not stop the placement, such as overrides that cannot be resolved.
    pub problem: Option<String>,
}

/// The reason why no decision is possible.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DecideError {
    #[error(transparent)]
    Snapshot(#[from] SnapshotError),
    #[error(transparent)]
    Schedule(#[from] ScheduleError),
    #[error(transparent)]
    Limit(#[from] LimitError),
}

/// Decides about a placement.
pub fn decide(view: &PlacementView<'_>) -> Result<HubRound, DecideError> {
    let mut round = HubRound::default();
    let leaving = view.bindings.iter();
    let leaving = leaving.filter(|binding| binding.metadata.in_deletion());
    for binding in leaving {
        bindings::release(view, binding, &mut round.stages);
    }
    let Some(placement) = view.placement else {
        round.stages.push(
            view.bindings
                .iter()
                .filter_map(|binding| release(view, binding)),
        );
        return Ok(round);
    };
    if placement.metadata.in_deletion() {
        delete(view, placement, &mut round);
        return Ok(round);
    }
    let steps = [prepare, schedule, resources, roll_out];
    for step in steps {
        if !round.stages.is_empty() {
            return Ok(round);
        }
        step(view, placement, &mut round)?;
    }
    if round.stages.is_empty() {
        works(view, placement, &mut round);
    }
    if round.stages.is_empty() {
        statuses(view, placement, &mut round)?;
    }
    Ok(round)
}

/// Lets a binding in deletion go, as far as the scheduler is concerned.
fn release(view: &PlacementView<'_>, binding: &Binding) -> Option<HubWrite> {
    let finalizers = &[names::BINDING_FINALIZER];
    let metadata = &binding.metadata;
    let patch = || HubWrite::remove_finalizers(view.scope.binding(), metadata, finalizers);
    metadata.in_deletion().then(patch).flatten()
}

fn delete(view: &PlacementView<'_>, placement: &Placement, round: &mut HubRound) {
    let alive = |metadata: &Metadata| !metadata.in_deletion();
    let strategy = placement.spec.strategy.delete_strategy.as_ref();
    if strategy.is_some_and(|one| one.propagation_policy == PropagationPolicy::Abandon) {
        // Members have to know before the bindings go, and the Works with them.
        let is_told = |work: &&WorkOutline| work.metadata.annotation(names::PROPAGATION).is_some();
        let told = json!({"metadata": {"annotations": {names::PROPAGATION: "Abandon"}}});
        let works = view.works.iter().filter(|work| !is_told(work));
        if !view.failures.works.is_empty() && works.clone().next().is_some() {
            return;
        }
        let tell = works.map(|work| HubWrite::patch("Work", &work.metadata, told.clone()));
        round.stages.push(tell);
    }
    let scope = view.scope;
    let bindings = view.bindings.iter().filter_map(|one| {
        if alive(&one.metadata) {
            Some(HubWrite::delete(scope.binding(), &one.metadata))
        } else {
            release(view, one)
        }
    });
    let policies = view.policies.iter().map(|one| &one.metadata);
    let policies = policies.filter(|metadata| alive(metadata));
    let resources = view.snapshots.iter().map(|one| &one.metadata);
    let resources = resources.filter(|metadata| alive(metadata));
    round.stages.push(
        bindings
            .chain(policies.map(|one| HubWrite::delete(scope.policy_snapshot(), one)))
            .chain(resources.map(|one| HubWrite::delete(scope.resource_snapshot(), one))),
    );
    let finalizers = [names::PLACEMENT_FINALIZER, names::SCHEDULER_FINALIZER];
    let gone = HubWrite::remove_finalizers(scope.placement(), &placement.metadata, &finalizers);
    if gone.is_some() {
        round.events.push((
            "PlacementCleanupFinalizerRemoved",
            "The snapshots and bindings of the placement are removed",
        ));
    }
    round.stages.push(gone);
}

/// The error of the user for which nothing new is placed.
fn refusal<'a>(view: &PlacementView<'a>) -> Option<&'a SelectionError> {
    let error = view.selected.err();
    error.filter(|error| !error.is_transient())
}

/// The finalizers, then the policy snapshot, and beside it the resource snapshots, which do not depend on it.
fn prepare(
    view: &PlacementView<'_>,
    placement: &Placement,
    round: &mut HubRound,
) -> Result<(), DecideError> {
    round.stages.push(HubWrite::add_finalizers(
        view.scope.placement(),
        &placement.metadata,
        &[names::PLACEMENT_FINALIZER, names::SCHEDULER_FINALIZER],
    ));
    if refusal(view).is_some() {
        return Ok(());
    }
    let plan = plan_policy(placement, view.scope, view.policies)?;
    let all = view.policies.iter().map(|one| &one.metadata);
    let mut taken = HubRound::default();
    snapshots(view.scope.policy_snapshot(), plan, &all, &mut taken);
    if !taken.stages.is_empty() {
        let mut other = HubRound::default();
        // Its problems are told of when it is the only step with anything to say.
        if resources(view, placement, &mut other).is_ok() {
            taken.stages.merge_stages(other.stages);
        }
    }
    round.stages.then(taken.stages);
    Ok(())
}

fn resources(
    view: &PlacementView<'_>,
    placement: &Placement,
    round: &mut HubRound,
) -> Result<(), DecideError> {
    // Under an external rollout, an update run takes the snapshots.
    if let (Ok(selected), false) = (view.selected, placement.spec.is_external()) {
        let (debounce, stored) = (view.policy.debounce, view.snapshots);
        let plan = plan_resources(placement, view.scope, stored, selected, debounce, view.now)?;
        if let Some(until) = plan.wait_until {
            wait(round, until.duration_since(view.now));
        }
        let all = stored.iter().map(|one| &one.metadata);
        snapshots(view.scope.resource_snapshot(), plan, &all, round);
    }
    Ok(())
}

fn wait(round: &mut HubRound, wait: SignedDuration) {
    round.wait = Some(round.wait.map_or(wait, |least| least.min(wait)));
}

/// The requests of a plan of snapshots.
pub(super) fn snapshots<'a>(
    kind: &'static str,
    plan: SnapshotPlan,
    all: &(impl Iterator<Item = &'a Metadata> + Clone),
    round: &mut HubRound,
) {
    let find = |name: &String| all.clone().find(|one| one.name == *name);
    let mark = |name: Option<String>, is_latest: bool| {
        let metadata = name.as_ref().and_then(find)?;
        let labels = json!({names::IS_LATEST: is_latest.to_string()});
        let patch = json!({"metadata": {"labels": labels}});
        Some(HubWrite::patch_known(kind, metadata, patch))
    };
    round.stages.push(mark(plan.restore, true));
    round.stages.push(mark(plan.retire, false));
    round.stages.push(plan.annotate.and_then(|annotated| {
        let metadata = find(&annotated.name)?;
        let annotations = annotated.annotations.into_iter();
        let annotations: BTreeMap<&str, String> = annotations.collect();
        let patch = json!({"metadata": {"annotations": annotations}});
        Some(HubWrite::patch_known(kind, metadata, patch))
    }));
    let mut new = plan.create.into_iter();
    round.stages.push(new.next().map(HubWrite::Create));
    round.stages.push(new.map(HubWrite::Create));
    // Last: without the others, the new snapshot would get the name of an old one, to which bindings refer.
    let gone = plan.delete.iter().filter_map(find);
    round
        .stages
        .push(gone.map(|metadata| HubWrite::delete(kind, metadata)));
}

fn is_latest(metadata: &Metadata) -> bool {
    metadata.label(names::IS_LATEST) == Some("true")
}

/// The latest policy snapshot.
pub fn latest_policy(policies: &[PolicySnapshot]) -> Option<&PolicySnapshot> {
    policies.iter().find(|one| is_latest(&one.metadata))
}

/// The master of the latest resource snapshot.
fn latest_master<'a>(view: &PlacementView<'a>) -> Option<&'a ResourceSnapshot> {
    view.snapshots.iter().find(|one| is_latest(&one.metadata))
}

fn schedule(
    view: &PlacementView<'_>,
    placement: &Placement,
    round: &mut HubRound,
) -> Result<(), DecideError> {
    let Some(policy) = latest_policy(view.policies) else {
        return Ok(());
    };
    let number = policy.metadata.annotation(names::NUMBER_OF_CLUSTERS);
    let plan = scheduler::schedule(&scheduler::Request {
        policy: policy.spec.policy.as_ref(),
        policy_snapshot: &policy.metadata.name,
        number_of_clusters: number.and_then(|number| number.parse().ok()),
        namespace: placement.metadata.namespace.as_deref(),
        clusters: view.clusters,
        bindings: view.bindings,
        now: view.now,
        windows: view.policy.windows,
    })?;
    let kind = view.scope.binding();
    let find = |name: &str| {
        let found = view.bindings.iter().find(|one| one.metadata.name == name);
        found.map(|found| &found.metadata)
    };
    let released = view.bindings.iter();
    let released = released.filter_map(|binding| release(view, binding));
    let released: Vec<HubWrite> = released.collect();
    let created = plan.create.iter();
    let created = created.map(|decision| new_binding(view, placement, policy, decision));
    let mut created: Vec<Value> = created.collect();
    if plan.change.is_empty() && plan.unschedule.is_empty() {
        bind_new(view, placement, &mut created)?;
    }
    let created = created.into_iter().map(HubWrite::Create);
    round.stages.push(released.into_iter().chain(created));
    round.stages.push(plan.change.iter().filter_map(|changed| {
        let patch = json!({
            "metadata": {"annotations": {names::PREVIOUS_STATE: null}},
            "spec": {
                "state": changed.state.as_str(),
                "schedulingPolicySnapshotName": policy.metadata.name,
                "clusterDecision": changed.decision,
            },
        });
        Some(HubWrite::patch_known(kind, find(&changed.name)?, patch))
    }));
    round.stages.push(plan.unschedule.iter().filter_map(|one| {
        let metadata = find(&one.name)?;
        let others = metadata.annotations.keys().map(|key| (&**key, Value::Null));
        let mut annotations: BTreeMap<&str, Value> = others.collect();
        annotations.insert(names::PREVIOUS_STATE, one.previous.as_str().into());
        let patch = json!({
            "metadata": {"annotations": annotations},
            "spec": {"state": BindingState::Unscheduled.as_str()},
        });
        Some(HubWrite::patch_known(kind, metadata, patch))
    }));
    let is_changed = !round.stages.is_empty();
    let status = schedule_status(view, policy, &plan);
    let is_known = equals_except_time(&status, &policy.status)
        // A policy that is fulfilled is not evaluated again; what was said of other clusters stays.
        || (!is_changed && plan.fulfilled && has_same_selection(&status, policy));
    let write = (!is_known).then(|| HubWrite::Status {
        place: ObjectName::of(view.scope.policy_snapshot(), &policy.metadata),
        status: json!(status),
    });
    let mut last = Stages::default();
    last.push(write);
    if plan.change.is_empty() && plan.unschedule.is_empty() {
        // New bindings are made anew from the same decisions if they are lost.
        round.stages.merge_stages(last);
    } else {
        round.stages.then(last);
    }
    Ok(())
}

/// A binding that does not exist yet. Its name follows from the bindings that the cluster has, so that it is not made
/// twice when an answer is lost, and the next one has another name.
fn new_binding(
    view: &PlacementView<'_>,
    placement: &Placement,
    policy: &PolicySnapshot,
    decision: &ClusterDecision,
) -> Value {
    let cluster = &decision.cluster_name;
    let others = view
        .bindings
        .iter()
        .filter(|one| one.spec.target_cluster == *cluster);
    let others: Vec<&Option<String>> = others.map(|one| &one.metadata.uid).collect();
    let digest = Sha256::digest(json!([placement.metadata.uid, cluster, others]).to_string());
    let unique = crate::hash::hex_digits(&digest[..4]);
    let mut object = json!({
        "apiVersion": format!("{PLACEMENT_GROUP}/{STORED_VERSION}"),
        "kind": view.scope.binding(),
        "metadata": {
            "name": names::binding(&placement.metadata.name, cluster, &unique),
            "labels": {names::PARENT_PLACEMENT: placement.metadata.name},
            "finalizers": [names::BINDING_FINALIZER, names::WORK_FINALIZER],
        },
        "spec": {
            "state": BindingState::Scheduled.as_str(),
            "resourceSnapshotName": "",
            "schedulingPolicySnapshotName": policy.metadata.name,
            "targetCluster": cluster,
            "clusterDecision": decision,
        },
    });
    if let Some(namespace) = &placement.metadata.namespace {
        object["metadata"]["namespace"] = namespace.as_str().into();
    }
    object
}

/// Binds new bindings to the latest resources at once, as far as the rollout would do it as soon as they exist.
fn bind_new(
    view: &PlacementView<'_>,
    placement: &Placement,
    created: &mut [Value],
) -> Result<(), DecideError> {
    let mut pending = HubRound::default();
    resources(view, placement, &mut pending)?;
    let read = created.iter().map(Binding::deserialize);
    let (Ok(new), true) = (
        read.collect::<Result<Vec<Binding>, _>>(),
        pending.stages.is_empty() && pending.wait.is_none(),
    ) else {
        return Ok(());
    };
    let bindings = [view.bindings, &new].concat();
    let all = PlacementView {
        bindings: &bindings,
        ..*view
    };
    let specs = rollout_specs(&all, placement, &rollout_step(&all, placement)?);
    for object in created {
        let name = object["metadata"]["name"].as_str().unwrap_or_default();
        if let Some(Value::Object(spec)) = specs.get(name) {
            let fields = spec.iter().filter(|(_, value)| !value.is_null());
            for (field, value) in fields {
                object["spec"][field] = value.clone();
            }
        }
    }
    Ok(())
}

fn schedule_status(
    view: &PlacementView<'_>,
    policy: &PolicySnapshot,
    plan: &scheduler::Plan,
) -> PolicySnapshotStatus {
    let selected = plan.decisions.iter().filter(|one| one.selected).count();
    let (status, reason, message) = if plan.fulfilled {
        (
            ConditionStatus::True,
            "SchedulingPolicyFulfilled",
            format!(
                "found all cluster needed as specified by the scheduling policy, found {selected} cluster(s)"
            ),
        )
    } else {
        (
            ConditionStatus::False,
            "SchedulingPolicyUnfulfilled",
            format!(
                "could not find all the clusters needed as specified by the scheduling policy, found {selected} cluster(s) instead"
            ),
        )
    };
    let generation = policy.metadata.annotation(names::PLACEMENT_GENERATION);
    let mut conditions = vec![Condition {
        type_: "Scheduled".to_owned(),
        status,
        observed_generation: policy.metadata.generation,
        last_transition_time: view.time.to_owned(),
        reason: reason.to_owned(),
        message,
    }];
    crate::status::settle(&mut conditions, &policy.status.conditions);
    PolicySnapshotStatus {
        observed_crp_generation: generation
            .and_then(|text| text.parse().ok())
            .unwrap_or_default(),
        conditions,
        target_clusters: plan.decisions.clone(),
    }
}

fn equals_except_time(new: &PolicySnapshotStatus, old: &PolicySnapshotStatus) -> bool {
    new.observed_crp_generation == old.observed_crp_generation
        && new.target_clusters == old.target_clusters
        && same_conditions(&new.conditions, &old.conditions)
}

fn has_same_selection(new: &PolicySnapshotStatus, policy: &PolicySnapshot) -> bool {
    let spec = policy.spec.policy.as_ref();
    let is_pick_n = spec.is_some_and(|spec| spec.placement_type == PlacementType::PickN);
    let mut old = policy.status.clone();
    old.target_clusters.retain(|one| one.selected);
    is_pick_n && equals_except_time(new, &old)
}

/// The goal of the rollout, and the changes that are permitted now.
struct RolloutStep {
    plan: RolloutPlan,
    /// By the names of bindings; empty before there is anything to roll out.
    desired: BTreeMap<String, Desired>,
    /// An override that cannot be followed.
    problem: Option<OverrideError>,
}

/// The overrides of the resources in the group of snapshots with this index.
pub(super) fn overrides_of_group<'a>(
    placement: &Placement,
    snapshots: &[ResourceSnapshot],
    index: Option<&str>,
    cluster: &'a [Arc<ClusterResourceOverrideSnapshot>],
    namespaced: &'a [Arc<ResourceOverrideSnapshot>],
) -> Overrides<'a> {
    let group = snapshots.iter();
    let group = group.filter(|one| one.metadata.label(names::RESOURCE_INDEX) == index);
    let resources: Vec<ResourceIdentifier> = group.flat_map(overridden).collect();
    Overrides::of_placement(&placement.metadata, &resources, cluster, namespaced)
}

fn rollout_step(
    view: &PlacementView<'_>,
    placement: &Placement,
) -> Result<RolloutStep, DecideError> {
    let mut desired = BTreeMap::new();
    let mut problem = None;
    if let Some(master) = latest_master(view) {
        let overrides = overrides_of_group(
            placement,
            view.snapshots,
            master.metadata.label(names::RESOURCE_INDEX),
            view.cluster_overrides,
            view.overrides,
        );
        for binding in view.bindings {
            let Some(cluster) = view.clusters.get(&binding.spec.target_cluster) else {
                continue;
            };
            match overrides.of_cluster(cluster) {
                Ok(overrides) => {
                    let listed = overrides.names();
                    let of = Desired {
                        resource_snapshot: master.metadata.name.clone(),
                        cluster_overrides: listed.cluster,
                        overrides: listed.namespaced,
                    };
                    desired.insert(binding.metadata.name.clone(), of);
                }
                Err(error) => problem = Some(error),
            }
        }
    }
    // What a member that leaves has applied stays in it, so that its binding waits until it is gone. Then nothing
    // becomes less available.
    let stays = |binding: &Binding| {
        let cluster = view.clusters.get(&binding.spec.target_cluster);
        cluster.is_none_or(|one| one.metadata.in_deletion())
    };
    let plan = rollout::plan(&placement.spec, view.bindings, &desired, stays, view.now)?;
    Ok(RolloutStep {
        plan,
        desired,
        problem,
    })
}

/// The resources of a snapshot that overrides can name: the selected ones, and those in envelopes.
fn overridden(snapshot: &ResourceSnapshot) -> Vec<ResourceIdentifier> {
    let mut all = Vec::new();
    for resource in &snapshot.spec.selected_resources {
        all.push(ResourceIdentifier::of(resource));
        // An envelope that cannot be read, or has what does not fit it, is told of with the Works.
        let inner = envelope_type(resource);
        let inner =
            inner.and_then(|kind| unpack(resource, kind, false, &|_| KindScope::Unknown).ok());
        all.extend(inner.iter().flatten().map(ResourceIdentifier::of));
    }
    all
}

/// The changes of specs that the rollout permits now, by the names of bindings.
fn rollout_specs(
    view: &PlacementView<'_>,
    placement: &Placement,
    step: &RolloutStep,
) -> BTreeMap<String, Value> {
    let find = |name: &String| view.bindings.iter().find(|one| one.metadata.name == *name);
    let strategy = json!(placement.spec.apply_strategy());
    let mut specs: BTreeMap<String, Value> = BTreeMap::new();
    for name in &step.plan.set_strategy {
        let mut strategy = strategy.clone();
        let known = find(name).map(|binding| json!(binding.spec.apply_strategy));
        complete(&mut strategy, &known.unwrap_or_default());
        specs.insert(name.clone(), json!({"applyStrategy": strategy}));
    }
    for name in &step.plan.update {
        let Some(desired) = step.desired.get(name) else {
            continue;
        };
        let spec = specs.entry(name.clone()).or_insert_with(|| json!({}));
        spec["state"] = BindingState::Bound.as_str().into();
        spec["resourceSnapshotName"] = desired.resource_snapshot.as_str().into();
        spec["clusterResourceOverrideSnapshots"] = json!(desired.cluster_overrides);
        spec["resourceOverrideSnapshots"] = json!(desired.overrides);
    }
    specs
}

fn roll_out(
    view: &PlacementView<'_>,
    placement: &Placement,
    round: &mut HubRound,
) -> Result<(), DecideError> {
    let step = rollout_step(view, placement)?;
    let specs = rollout_specs(view, placement, &step);
    let plan = step.plan;
    round.problem = step.problem.map(|problem| problem.to_string());
    if let Some(least) = plan.wait {
        wait(round, least);
    }
    let kind = view.scope.binding();
    let find = |name: &String| view.bindings.iter().find(|one| one.metadata.name == *name);
    let orphaned = view.bindings.iter().filter(|one| {
        let cluster = view.clusters.get(&one.spec.target_cluster);
        one.spec.state == BindingState::Unscheduled
            && !one.metadata.in_deletion()
            && cluster.is_none()
    });
    let removed = plan.remove.iter().filter_map(find).chain(orphaned);
    let removed = removed.map(|one| HubWrite::delete(kind, &one.metadata));
    let removed: Vec<HubWrite> = removed.collect();
    let is_removed = |name: &str| plan.remove.iter().any(|removed| removed == name);
    let updated = specs.into_iter().filter_map(|(name, spec)| {
        let binding = find(&name).filter(|_| !is_removed(&name))?;
        let patch = json!({"spec": spec});
        Some(HubWrite::patch_known(kind, &binding.metadata, patch))
    });
    round.stages.push(removed.into_iter().chain(updated));
    Ok(())
}

fn works(view: &PlacementView<'_>, placement: &Placement, round: &mut HubRound) {
    let mut writes = WorkWrites::default();
    let mut finalizers = Vec::new();
    for binding in view.bindings {
        let Some(of) = bindings::compare(view, placement, binding) else {
            continue;
        };
        // No Work exists whose binding could vanish unnoticed.
        finalizers.extend(HubWrite::add_finalizers(
            view.scope.binding(),
            &binding.metadata,
            &[names::BINDING_FINALIZER, names::WORK_FINALIZER],
        ));
        bindings::write(of, &mut writes);
    }
    round.stages.push(finalizers);
    round.stages.push(writes.create);
    round.stages.push(writes.delete);
}

fn statuses(
    view: &PlacementView<'_>,
    placement: &Placement,
    round: &mut HubRound,
) -> Result<(), DecideError> {
    let RolloutStep { plan, desired, .. } = rollout_step(view, placement)?;
    let mut written = Vec::new();
    for binding in view.bindings {
        let name = &binding.metadata.name;
        let progress = if plan.hold.contains(name) {
            RolloutProgress::Held
        } else if desired
            .get(name)
            .is_some_and(|desired| !rollout::is_stale(binding, desired))
        {
            RolloutProgress::Started
        } else {
            RolloutProgress::Undecided
        };
        let of = bindings::status(view, placement, binding, progress);
        round
            .warnings
            .extend(of.iter().filter_map(|of| of.warning(view.scope, binding)));
        written.extend(of.map(|of| of.write));
    }
    round.stages.push(written);
    if !round.stages.is_empty() {
        return Ok(());
    }
    let mut status = placement_status(view, placement);
    fit_placement(&mut status);
    if refusal(view).is_some() {
        wait(round, INVALID_FOR);
    }
    round
        .stages
        .push(reports::write(view, placement, &mut status));
    if !round.stages.is_empty() {
        return Ok(());
    }
    if !is_same(&status, &placement.status) {
        let mut new = placement.clone();
        new.status = status;
        round.events = events(&new, &placement.status.conditions, view.scope);
        round.stages.push([HubWrite::Status {
            place: ObjectName::of(view.scope.placement(), &placement.metadata),
            status: json!(new.status),
        }]);
    }
    Ok(())
}

fn placement_status(view: &PlacementView<'_>, placement: &Placement) -> PlacementStatus {
    let mut indices = BTreeMap::new();
    let mut resources: BTreeMap<String, Vec<ResourceIdentifier>> = BTreeMap::new();
    let sub = |one: &ResourceSnapshot| -> Option<usize> {
        let sub = one.metadata.annotation(names::SNAPSHOT_SUBINDEX);
        sub.and_then(|sub| sub.parse().ok())
    };
    let mut sorted: Vec<&ResourceSnapshot> = view.snapshots.iter().collect();
    sorted.sort_by_key(|one| sub(one));
    for one in sorted {
        let index = one
            .metadata
            .label(names::RESOURCE_INDEX)
            .unwrap_or_default();
        if sub(one).is_none() {
            indices.insert(one.metadata.name.clone(), index.to_owned());
        }
        let selected = one.spec.selected_resources.iter();
        let of = resources.entry(index.to_owned()).or_default();
        of.extend(selected.map(ResourceIdentifier::of));
    }
    let latest = latest_master(view);
    let latest = latest.and_then(|one| one.metadata.label(names::RESOURCE_INDEX));
    let request = StatusRequest {
        placement,
        scope: view.scope,
        policy: latest_policy(view.policies),
        latest_index: latest.unwrap_or_default(),
        indices: &indices,
        resources: &resources,
        bindings: view.bindings,
        now: view.time,
    };
    match refusal(view) {
        Some(error) => invalid_selectors(&request, &error.to_string()),
        None => build(&request),
    }
}

#[cfg(test)]
pub(super) mod tests;
