//! The Works of a binding, and their conditions in the binding.

use serde_json::{Value, json};

use super::view::{HubWarning, PlacementView};
use super::{HubWrite, ObjectName, Stages, complete};
use crate::names;
use crate::overrides::Overrides;
use crate::snapshots::Scope;
use crate::status::settle_binding;
use crate::status::size::fit_binding;
use crate::status::works::{Pass, conditions, problems};
use crate::types::binding::{Binding, BindingState, BindingStatus, ResourceSnapshot};
use crate::types::placement::Placement;
use crate::types::work::WorkOutline;
use crate::types::{Condition, ConditionStatus, condition};
use crate::works::{WorksError, WorksPlan, WorksRequest, generate, list_hash, plan};

const KIND: &str = "Work";

/// The desired state of a binding's Works.
#[derive(Debug)]
pub(super) struct BindingWorks<'a> {
    pub(super) works: Vec<&'a WorkOutline>,
    pub(super) plan: WorksPlan,
    pub(super) pass: Pass,
}

/// The Works of a binding, and those in its place whose binding is gone without a trace.
pub(super) fn works_of<'a>(view: &PlacementView<'a>, binding: &Binding) -> Vec<&'a WorkOutline> {
    let namespace = names::member_namespace(&binding.spec.target_cluster);
    let of = view.works.iter().filter(|work| {
        work.metadata.namespace.as_deref() == Some(&*namespace)
            && work
                .metadata
                .label(names::PARENT_BINDING)
                .is_none_or(|parent| {
                    let mut bindings = view.bindings.iter();
                    parent == binding.metadata.name
                        || !bindings.any(|other| other.metadata.name == parent)
                })
    });
    of.collect()
}

/// Lets the Works of a binding in deletion go, then the binding.
pub(super) fn release(view: &PlacementView<'_>, binding: &Binding, stages: &mut Stages) {
    let works = works_of(view, binding);
    if works.is_empty() {
        stages.push(HubWrite::remove_finalizers(
            view.scope.binding(),
            &binding.metadata,
            &[names::WORK_FINALIZER],
        ));
    } else {
        let is_refused = |work: &&WorkOutline| {
            let parent = work.metadata.label(names::PARENT_BINDING);
            parent.is_some_and(|parent| view.failures.works.contains_key(parent))
        };
        let alive = works
            .into_iter()
            .filter(|work| !work.metadata.in_deletion() && !is_refused(work));
        stages.push(alive.map(|work| HubWrite::delete(KIND, &work.metadata)));
    }
}

/// Compares the Works that a binding has with those that it is to have. `None` if it is to have none yet.
pub(super) fn compare<'a>(
    view: &PlacementView<'a>,
    placement: &Placement,
    binding: &Binding,
) -> Option<BindingWorks<'a>> {
    if binding.metadata.in_deletion() || binding.spec.state == BindingState::Scheduled {
        return None;
    }
    let cluster = view.clusters.get(&binding.spec.target_cluster)?;
    let works = works_of(view, binding);
    let of = |plan, pass| {
        Some(BindingWorks {
            works: works.clone(),
            plan,
            pass,
        })
    };
    if let Some(cause) = view.failures.works.get(&binding.metadata.name) {
        return of(WorksPlan::default(), Pass::SyncFailed(cause.clone()));
    }
    if are_current(view.snapshots, placement, binding, &works) {
        return of(WorksPlan::default(), Pass::Unchanged);
    }
    let overrides = match Overrides::listed(&binding.spec, view.cluster_overrides, view.overrides) {
        Ok(overrides) => overrides,
        Err(error) => {
            return of(
                WorksPlan::default(),
                Pass::OverrideFailed(error.to_string()),
            );
        }
    };
    let wanted = generate(&WorksRequest {
        placement: &placement.metadata,
        spec: &placement.spec,
        binding,
        cluster,
        snapshots: view.snapshots,
        overrides: &overrides,
        works: &works,
        scope_of: view.scope_of,
    });
    match wanted {
        Ok(wanted) => {
            let existing: Vec<Value> = works.iter().map(|work| json!(work)).collect();
            of(plan(&existing, wanted), Pass::Unchanged)
        }
        // What was made of a snapshot stays when the snapshot is no longer kept.
        Err(WorksError::NoMaster(name))
            if !works.is_empty()
                && works
                    .iter()
                    .all(|one| one.metadata.annotation(names::PARENT_SNAPSHOT) == Some(&*name)) =>
        {
            of(WorksPlan::default(), Pass::Unchanged)
        }
        Err(WorksError::Override(error)) => of(
            WorksPlan::default(),
            Pass::OverrideFailed(error.to_string()),
        ),
        Err(error @ WorksError::Duplicates { .. }) => {
            of(WorksPlan::default(), Pass::Duplicates(error.to_string()))
        }
        Err(error) => of(WorksPlan::default(), Pass::SyncFailed(error.to_string())),
    }
}

/// Whether all Works are there and carry the right marks, so that nothing has to be generated to find out.
fn are_current(
    snapshots: &[ResourceSnapshot],
    placement: &Placement,
    binding: &Binding,
    works: &[&WorkOutline],
) -> bool {
    let spec = &binding.spec;
    let master = snapshots
        .iter()
        .find(|one| one.metadata.name == spec.resource_snapshot_name);
    let Some(master) = master else {
        return false;
    };
    let number = |key: &str| -> usize {
        let text = master.metadata.annotation(key);
        text.and_then(|text| text.parse().ok()).unwrap_or_default()
    };
    let marks = [
        (names::PARENT_SNAPSHOT, spec.resource_snapshot_name.clone()),
        (
            names::CLUSTER_OVERRIDES_HASH,
            list_hash(&spec.cluster_resource_override_snapshots),
        ),
        (
            names::RESOURCE_OVERRIDES_HASH,
            list_hash(&spec.resource_override_snapshots),
        ),
    ];
    works.len() == number(names::NUMBER_OF_SNAPSHOTS) + number(names::NUMBER_OF_ENVELOPES)
        && works.iter().all(|work| {
            !work.metadata.in_deletion()
                && work.metadata.label(names::PARENT_BINDING) == Some(&binding.metadata.name)
                && work.spec.apply_strategy == spec.apply_strategy
                && work.spec.report_back_strategy == placement.spec.strategy.report_back_strategy
                && marks
                    .iter()
                    .all(|(key, value)| work.metadata.annotation(key) == Some(value))
        })
}

/// The requests for the Works of a binding.
pub(super) fn write(of: BindingWorks<'_>, all: &mut WorkWrites) {
    all.create
        .extend(of.plan.create.into_iter().map(HubWrite::Create));
    for work in of.plan.update {
        let name = work["metadata"]["name"].as_str();
        let old = of
            .works
            .iter()
            .find(|one| Some(&*one.metadata.name) == name);
        // One in deletion is made anew when it is gone.
        if let Some(old) = old.filter(|old| !old.metadata.in_deletion()) {
            all.create.push(update(old, work));
        }
    }
    for name in of.plan.delete {
        let old = of.works.iter().find(|one| one.metadata.name == name);
        let old = old.filter(|old| !old.metadata.in_deletion());
        all.delete
            .extend(old.map(|old| HubWrite::delete(KIND, &old.metadata)));
    }
}

/// Writes of Works: new content first, so that nothing leaves a member that moves from one Work to another.
#[derive(Default)]
pub(super) struct WorkWrites {
    pub(super) create: Vec<HubWrite>,
    pub(super) delete: Vec<HubWrite>,
}

/// A patch that turns a Work into another one. Its status, which the member writes, is not in the way.
fn update(old: &WorkOutline, mut wanted: Value) -> HubWrite {
    let mut spec = wanted["spec"].take();
    for (field, known) in [
        ("applyStrategy", json!(old.spec.apply_strategy)),
        ("reportBackStrategy", json!(old.spec.report_back_strategy)),
    ] {
        complete(&mut spec[field], &known);
    }
    let metadata = &wanted["metadata"];
    let patch = json!({
        "metadata": {"labels": metadata["labels"], "annotations": metadata["annotations"]},
        "spec": spec,
    });
    HubWrite::patch(KIND, &old.metadata, patch)
}

/// The status of a binding that says something else than before.
pub(super) struct BindingReport {
    pub(super) write: HubWrite,
    /// The problem that an envelope has several Works.
    duplicates: Option<String>,
}

impl BindingReport {
    pub(super) fn warning(&self, scope: Scope, binding: &Binding) -> Option<HubWarning> {
        self.duplicates.clone().map(|message| HubWarning {
            kind: scope.binding(),
            about: binding.metadata.clone(),
            reason: "DuplicateEnvelopeWorks",
            message,
        })
    }
}

/// The state of a binding in the rollout of the latest resources.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum RolloutProgress {
    /// The strategy does not permit the update yet.
    Held,
    /// The binding has the latest resources.
    Started,
    /// The rollout has not decided about the binding yet.
    Undecided,
}

/// The status of a binding, if it says something else than before.
pub(super) fn status(
    view: &PlacementView<'_>,
    placement: &Placement,
    binding: &Binding,
    progress: RolloutProgress,
) -> Option<BindingReport> {
    if binding.metadata.in_deletion() {
        return None;
    }
    let mut all: Vec<Condition> = rollout(view, placement, binding, progress)
        .into_iter()
        .collect();
    let mut status = BindingStatus::default();
    let mut duplicates = None;
    if let Some(of) = compare(view, placement, binding) {
        // Nothing is told of Works before the rollout has said what they are to be.
        let is_told = binding.spec.state == BindingState::Unscheduled
            || all
                .iter()
                .any(|one| one.is_fresh(binding.metadata.generation));
        if !is_told {
            return None;
        }
        let works: Vec<WorkOutline> = of.works.into_iter().cloned().collect();
        let reports_diff = binding
            .spec
            .apply_strategy
            .as_ref()
            .is_some_and(|strategy| {
                strategy.type_ == crate::types::placement::ApplyStrategyType::ReportDiff
            });
        all.extend(conditions(
            binding,
            &of.pass,
            &works,
            reports_diff,
            view.time,
        ));
        let found = problems(&works);
        status.failed_placements = found.failed;
        status.drifted_placements = found.drifted;
        status.diffed_placements = found.diffed;
        if let Pass::Duplicates(cause) = of.pass {
            duplicates = Some(cause);
        }
    }
    settle_binding(&mut all, &binding.status.conditions);
    status.conditions = all;
    fit_binding(&mut status);
    let old = &binding.status;
    let is_same = status.conditions.len() == old.conditions.len()
        && status.conditions.iter().zip(&old.conditions).all(|(a, b)| {
            a.equals_except_time(b) && (a.status == ConditionStatus::True || a.message == b.message)
        })
        && status.failed_placements == old.failed_placements
        && status.drifted_placements == old.drifted_placements
        && status.diffed_placements == old.diffed_placements;
    let place = ObjectName::of(view.scope.binding(), &binding.metadata);
    (!is_same).then(|| BindingReport {
        write: HubWrite::Status {
            place,
            status: json!(status),
        },
        duplicates,
    })
}

/// The state of a binding in the rollout. Under an external rollout, the external controller sets it.
fn rollout(
    view: &PlacementView<'_>,
    placement: &Placement,
    binding: &Binding,
    progress: RolloutProgress,
) -> Option<Condition> {
    let known = condition(&binding.status.conditions, "RolloutStarted").cloned();
    let is_held = progress == RolloutProgress::Held;
    let has_started =
        progress == RolloutProgress::Started && binding.spec.state == BindingState::Bound;
    if placement.spec.is_external() || !(is_held || has_started) {
        return known;
    }
    let (status, reason, message) = if is_held {
        (
            ConditionStatus::False,
            "RolloutNotStartedYet",
            "The rollout strategy does not let the latest resources go to this cluster yet",
        )
    } else {
        (
            ConditionStatus::True,
            "RolloutStarted",
            "Detected the new changes on the resources and started the rollout process",
        )
    };
    Some(Condition {
        type_: "RolloutStarted".to_owned(),
        status,
        observed_generation: binding.metadata.generation,
        last_transition_time: view.time.to_owned(),
        reason: reason.to_owned(),
        message: message.to_owned(),
    })
}
