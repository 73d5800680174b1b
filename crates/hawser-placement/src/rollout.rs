//! The arithmetic of a rolling update: the bindings that may change now.

use std::collections::{BTreeMap, BTreeSet};

use jiff::{SignedDuration, Timestamp};

use crate::types::binding::{Binding, BindingState};
use crate::types::placement::{ApplyStrategy, NamespacedName, PlacementSpec};
use crate::types::policy::PlacementType;
use crate::types::{Condition, ConditionStatus, IntOrPercent, condition};

/// The wait while old resources leave a cluster that new ones are to go to.
const SAME_CLUSTER_WAIT: SignedDuration = SignedDuration::from_secs(5);
/// The conditions that show that a binding failed.
const PROGRESS: [&str; 4] = ["Overridden", "WorkSynchronized", "Applied", "Available"];
/// False for these reasons is no failure yet.
const PENDING: [&str; 4] = [
    "OverriddenPending",
    "WorkNotSynchronizedYet",
    "ApplyPending",
    "ResourceNotAvailableYet",
];

/// The desired content of a binding: the newest snapshots for its cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Desired {
    pub resource_snapshot: String,
    pub cluster_overrides: Vec<String>,
    pub overrides: Vec<NamespacedName>,
}

/// The changes that are permitted now. The lists hold names of bindings.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RolloutPlan {
    /// Bindings that get the apply strategy. If one had another strategy, the rollout is decided again afterwards.
    pub set_strategy: Vec<String>,
    /// Bindings that are deleted.
    pub remove: Vec<String>,
    /// Bindings that become Bound to their desired content; `RolloutStarted` becomes True.
    pub update: Vec<String>,
    /// Bindings that have to wait; `RolloutStarted` becomes False.
    pub hold: Vec<String>,
    /// Bindings that have their desired content, without the condition that reports it.
    pub confirm: Vec<String>,
    /// The time after which the answer may be another one.
    pub wait: Option<SignedDuration>,
}

/// A limit of the strategy that is neither a number nor a percentage.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{field} is \"{value}\": use a number or a percentage such as 25%")]
pub struct LimitError {
    field: &'static str,
    value: String,
}

#[derive(Default)]
struct BindingClasses<'a> {
    ready: i64,
    can_be_unavailable: i64,
    can_be_ready: i64,
    remove: Vec<&'a Binding>,
    bind: Vec<&'a Binding>,
    update: Vec<&'a Binding>,
    failed_update: Vec<&'a Binding>,
    /// Bound bindings without a difference.
    settled: Vec<&'a Binding>,
    wait: Option<SignedDuration>,
}

/// Decides about the bindings of a placement. `desired` is by the names of bindings; a binding without an entry does
/// not change. A binding that `stays` is not deleted and takes nothing of what may be removed.
pub fn plan(
    spec: &PlacementSpec,
    bindings: &[Binding],
    desired: &BTreeMap<String, Desired>,
    stays: impl Fn(&Binding) -> bool,
    now: Timestamp,
) -> Result<RolloutPlan, LimitError> {
    let mut plan = RolloutPlan::default();
    if spec.is_external() {
        return Ok(plan);
    }
    let strategy = spec.apply_strategy();
    plan.set_strategy = strategies(bindings, &strategy);
    let has_other = |one: &Binding| {
        one.spec.apply_strategy.is_some() && plan.set_strategy.contains(&one.metadata.name)
    };
    if bindings.iter().any(has_other) {
        return Ok(plan);
    }
    if has_leaving_predecessor(bindings) {
        plan.wait = Some(SAME_CLUSTER_WAIT);
        return Ok(plan);
    }
    let limits = spec.strategy.rolling_update.clone().unwrap_or_default();
    let period = limits.unavailable_period_seconds.unwrap_or(60);
    let period = SignedDuration::from_secs(period);
    let mut classes = classify(bindings, desired, period, now);
    let target = target(spec, bindings);
    let max_unavailable = resolve(limits.max_unavailable.as_ref(), target, "maxUnavailable")?;
    let max_surge = resolve(limits.max_surge.as_ref(), target, "maxSurge")?;
    let min_available = target.saturating_sub(max_unavailable);
    let to_remove = if target == 0 {
        // Nothing has to stay available, ready or not.
        i64::MAX
    } else {
        (classes.ready - classes.can_be_unavailable).saturating_sub(min_available)
    };
    let to_add = target
        .saturating_add(max_surge)
        .saturating_sub(classes.can_be_ready);
    plan.wait = classes.wait;
    plan.update
        .extend(classes.failed_update.iter().map(|one| name(one)));
    classes.remove.retain(|one| !stays(one));
    let removed = take(&mut classes.remove, to_remove);
    plan.remove.extend(removed.iter().map(|one| name(one)));
    let left = to_remove.saturating_sub(i64::try_from(removed.len()).unwrap_or(i64::MAX));
    let updated = take(&mut classes.update, left);
    let bound = take(&mut classes.bind, to_add);
    plan.update
        .extend(updated.iter().chain(&bound).map(|one| name(one)));
    plan.hold.extend(
        classes
            .update
            .iter()
            .chain(&classes.bind)
            .map(|one| name(one)),
    );
    let unconfirmed = classes.settled.iter().filter(|one| !has_started(one));
    plan.confirm = unconfirmed.map(|one| name(one)).collect();
    Ok(plan)
}

fn name(binding: &Binding) -> String {
    binding.metadata.name.clone()
}

/// Takes the first ones, at most `number`.
fn take<'a>(from: &mut Vec<&'a Binding>, number: i64) -> Vec<&'a Binding> {
    let number = usize::try_from(number.max(0)).unwrap_or(usize::MAX);
    let rest = from.split_off(number.min(from.len()));
    std::mem::replace(from, rest)
}

fn strategies(bindings: &[Binding], strategy: &ApplyStrategy) -> Vec<String> {
    let live = bindings.iter().filter(|one| !one.metadata.in_deletion());
    let other = live.filter(|one| one.spec.apply_strategy.as_ref() != Some(strategy));
    other.map(name).collect()
}

/// True if resources of a deleted binding may still be where those of another one are to go.
fn has_leaving_predecessor(bindings: &[Binding]) -> bool {
    let leaving = bindings.iter().filter(|one| one.metadata.in_deletion());
    let leaving: BTreeSet<&str> = leaving
        .map(|one| one.spec.target_cluster.as_str())
        .collect();
    let mut live = bindings.iter().filter(|one| !one.metadata.in_deletion());
    live.any(|one| leaving.contains(one.spec.target_cluster.as_str()))
}

/// The number of clusters that the placement is to have.
fn target(spec: &PlacementSpec, bindings: &[Binding]) -> i64 {
    let policy = spec.policy.as_ref();
    let count = |number: usize| i64::try_from(number).unwrap_or(i64::MAX);
    match (spec.placement_type(), policy) {
        (PlacementType::PickN, Some(policy)) => policy.number_of_clusters.unwrap_or(0).into(),
        (PlacementType::PickFixed, Some(policy)) => count(policy.cluster_names.len()),
        _ => {
            let live = bindings.iter();
            count(
                live.filter(|one| one.spec.state != BindingState::Unscheduled)
                    .count(),
            )
        }
    }
}

fn resolve(
    limit: Option<&IntOrPercent>,
    target: i64,
    field: &'static str,
) -> Result<i64, LimitError> {
    let quarter = IntOrPercent::Text("25%".to_owned());
    let limit = limit.unwrap_or(&quarter);
    limit.of(target).ok_or_else(|| LimitError {
        field,
        value: match limit {
            IntOrPercent::Int(number) => number.to_string(),
            IntOrPercent::Text(text) => text.clone(),
        },
    })
}

fn classify<'a>(
    bindings: &'a [Binding],
    desired: &BTreeMap<String, Desired>,
    period: SignedDuration,
    now: Timestamp,
) -> BindingClasses<'a> {
    let mut sorted: Vec<&Binding> = bindings.iter().collect();
    sorted.sort_by_key(|one| &one.metadata.name);
    let mut classes = BindingClasses::default();
    for binding in sorted {
        let state = binding.spec.state;
        let in_deletion = binding.metadata.in_deletion();
        if state == BindingState::Scheduled {
            if !in_deletion {
                classes.bind.push(binding);
            }
            continue;
        }
        let readiness = readiness(binding, period, now);
        let has_failed = has_failed(binding);
        if readiness == Readiness::Ready {
            classes.ready += 1;
            classes.can_be_unavailable += i64::from(in_deletion);
        }
        if let Readiness::In(wait) = readiness {
            classes.wait = Some(classes.wait.map_or(wait, |least| least.min(wait)));
        }
        if !has_failed && !is_true(binding, "DiffReported") {
            classes.can_be_ready += 1;
        }
        if in_deletion {
            continue;
        }
        if state == BindingState::Unscheduled {
            classes.remove.push(binding);
        } else if !desired
            .get(&binding.metadata.name)
            .is_some_and(|desired| is_stale(binding, desired))
        {
            classes.settled.push(binding);
        } else if has_failed {
            classes.failed_update.push(binding);
        } else {
            classes.update.push(binding);
        }
    }
    classes
}

pub(crate) fn is_stale(binding: &Binding, desired: &Desired) -> bool {
    let spec = &binding.spec;
    spec.resource_snapshot_name != desired.resource_snapshot
        || spec.cluster_resource_override_snapshots != desired.cluster_overrides
        || spec.resource_override_snapshots != desired.overrides
}

fn fresh<'a>(binding: &'a Binding, type_: &str) -> Option<&'a Condition> {
    let found = condition(&binding.status.conditions, type_)?;
    found.is_fresh(binding.metadata.generation).then_some(found)
}

pub(crate) fn is_true(binding: &Binding, type_: &str) -> bool {
    fresh(binding, type_).is_some_and(|found| found.status == ConditionStatus::True)
}

fn has_started(binding: &Binding) -> bool {
    is_true(binding, "RolloutStarted")
}

/// True if the availability of some resources is only assumed.
pub(crate) fn is_untrackable(condition: &Condition) -> bool {
    matches!(
        &*condition.reason,
        "NotAllWorkAreAvailabilityTrackable" | "WorkNotTrackable"
    )
}

#[derive(Clone, Copy, PartialEq)]
enum Readiness {
    Ready,
    In(SignedDuration),
    No,
}

fn readiness(binding: &Binding, period: SignedDuration, now: Timestamp) -> Readiness {
    if is_true(binding, "DiffReported") {
        return Readiness::Ready;
    }
    let Some(available) =
        fresh(binding, "Available").filter(|found| found.status == ConditionStatus::True)
    else {
        return Readiness::No;
    };
    if !is_untrackable(available) {
        return Readiness::Ready;
    }
    let since: Option<Timestamp> = available.last_transition_time.parse().ok();
    // A time that cannot be read is waited for in full.
    let left = since.map_or(period, |since| {
        period.saturating_sub(now.duration_since(since))
    });
    if left.is_positive() {
        Readiness::In(left)
    } else {
        Readiness::Ready
    }
}

/// True if something other than patience is needed.
pub(crate) fn has_failed(binding: &Binding) -> bool {
    let found = PROGRESS.iter().filter_map(|type_| fresh(binding, type_));
    let mut failed = found.filter(|found| found.status == ConditionStatus::False);
    failed.any(|found| !PENDING.contains(&found.reason.as_str()))
}

#[cfg(test)]
mod tests;
