//! A check of a federated workload with preferences in its annotation, as the Federated `ReplicaSets` design has it:
//! from the facts in each member to the replicas of each member, the status annotation, events, and the time of the
//! next check. Times are seconds since the epoch.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde_json::{Map, Value, json};

use kube_lang::object::Object;

use crate::events::{Severity, shortened};
use crate::pods::{self, Pod, PodTimeouts};
use crate::replicas::design::{self, PREFERENCES, ReplicaState, Schedule, schedule};
use crate::replicas::{MemberCapacity, Preferences};
use crate::scheduling::{REPLICAS, TARGETS, distributed};
use crate::types::ORPHAN;
use crate::types::scheduling::ReplicaSchedulingPreferenceSpec;

/// The annotation with the status of the schedule, as JSON.
pub const STATUS: &str = "federation.kubernetes.io/replica-set-status";

/// A workload that does not change is checked after at most this many periods.
const LONGEST: u32 = 16;

/// The workload in a member that is ready.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WorkloadState {
    Absent {
        /// Whether its creation failed.
        refused: bool,
    },
    Present {
        replicas: i64,
        ready: i64,
        /// Its pods; `None` if all replicas are ready, or if the pods are unknown.
        pods: Option<Vec<Pod>>,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CheckSettings {
    pub patience: PodTimeouts,
    pub planner: design::Settings,
    /// Seconds between checks.
    pub period: i64,
}

impl Default for CheckSettings {
    fn default() -> Self {
        Self {
            patience: PodTimeouts::default(),
            planner: design::Settings::default(),
            period: 60,
        }
    }
}

/// The facts about a workload that are kept between checks.
#[derive(Clone, Debug, Default)]
pub struct Memory {
    members: BTreeMap<String, MemberHistory>,
    /// Checks in a row that changed nothing.
    idle: u32,
}

#[derive(Clone, Debug, Default)]
struct MemberHistory {
    /// Since when it has had fewer pods than replicas.
    short: Option<i64>,
    refusals: u32,
    /// When the last refusal was counted.
    counted: Option<i64>,
}

/// An event on the workload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorkloadEvent {
    pub severity: Severity,
    pub reason: &'static str,
    pub message: String,
}

/// The result of a check.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CheckResult {
    /// The workload to write; `None` if nothing changes.
    pub changed: Option<Object>,
    pub notes: Vec<WorkloadEvent>,
    /// Seconds until the next check; `None` if the workload is as it should be.
    pub again: Option<i64>,
}

/// The members of a check.
#[derive(Clone, Copy, Debug)]
pub struct CheckMembers<'a> {
    /// Members that may have replicas.
    pub members: &'a BTreeMap<String, WorkloadState>,
    /// Members whose state is unknown: their replicas do not change.
    pub unknown: &'a [String],
    pub now: i64,
}

impl Memory {
    /// Checks a workload whose annotation is `annotation`.
    pub fn check(
        &mut self,
        workload: &Object,
        annotation: &str,
        around: CheckMembers<'_>,
        settings: CheckSettings,
    ) -> CheckResult {
        let preferences = match Preferences::from_annotation(total(workload), Some(annotation)) {
            Ok(preferences) => preferences,
            Err(error) => return refuse(workload, "InvalidPreferences", &error.to_string()),
        };
        if around.members.is_empty() {
            let problem = "no cluster is ready that the workload may be placed on: check the conditions of the KubeFedClusters and the placement of the FederatedNamespace";
            return refuse(workload, "NoClusters", problem);
        }
        let assigned = assigned(workload);
        self.members
            .retain(|name, _| around.members.contains_key(name));
        let seen: BTreeMap<String, ReplicaState> = (around.members.iter())
            .map(|(name, local)| {
                let assigned = assigned.get(name).copied().unwrap_or(0);
                (
                    name.clone(),
                    self.look(name, local, assigned, settings, around.now),
                )
            })
            .collect();
        let planned = schedule(&preferences, &key(workload), &seen, settings.planner);

        let status = summary(&preferences, &planned, &seen, around, &assigned);
        let moves = moved_note(&planned, &seen, &assigned);
        let unplaced = unplaced_note(workload, &preferences, &planned);
        let notes = moves.into_iter().chain(unplaced).collect();
        let moved = distributed(workload, &planned.replicas, around.unknown);
        self.idle = if moved.is_some() {
            0
        } else {
            (self.idle + 1).min(LONGEST.ilog2())
        };
        CheckResult {
            again: self.again(&seen, &planned, settings.period),
            changed: with_status(workload, moved, &status),
            notes,
        }
    }

    /// The state of the workload in one member.
    fn look(
        &mut self,
        member: &str,
        local: &WorkloadState,
        assigned: i64,
        settings: CheckSettings,
        now: i64,
    ) -> ReplicaState {
        let of = self.members.entry(member.to_owned()).or_default();
        match local {
            WorkloadState::Absent { refused } => {
                let due = of
                    .counted
                    .is_none_or(|at| now.saturating_sub(at) >= settings.period);
                if *refused && due {
                    // More of them change nothing.
                    of.refusals = (of.refusals + 1).min(settings.planner.refusals);
                    of.counted = Some(now);
                }
                let short = Some(*of.short.get_or_insert(now));
                let seen = pods::seen(assigned, &[], short, settings.patience, now);
                ReplicaState {
                    refusals: of.refusals,
                    ..seen
                }
            }
            WorkloadState::Present {
                replicas,
                ready,
                pods,
            } => {
                (of.refusals, of.counted) = (0, None);
                let Some(pods) = pods else {
                    of.short = None;
                    return ReplicaState {
                        placed: *replicas,
                        waiting: replicas.saturating_sub(*ready).max(0),
                        ..ReplicaState::default()
                    };
                };
                let there = pods.iter().filter(|pod| !pod.is_over).count();
                let is_short = i64::try_from(there).is_ok_and(|there| there < *replicas);
                of.short = is_short.then(|| of.short.unwrap_or(now));
                pods::seen(*replicas, pods, of.short, settings.patience, now)
            }
        }
    }

    fn again(
        &self,
        seen: &BTreeMap<String, ReplicaState>,
        planned: &Schedule,
        period: i64,
    ) -> Option<i64> {
        if (seen.values()).any(|seen| seen.waiting > 0 || seen.refusals > 0) {
            Some(period)
        } else if seen.values().any(|seen| seen.failed > 0) || planned.unplaced > 0 {
            Some(period.saturating_mul(1 << self.idle))
        } else {
            None
        }
    }
}

/// Whether the workload was never scheduled: it is propagated once the replicas of each member are known.
pub fn is_awaited(workload: &Object) -> bool {
    workload.annotation(PREFERENCES).is_some() && !status(workload)["clusters"].is_object()
}

/// Whether the copies outlive the federated object. Those of workloads with preferences do unless the annotation says
/// otherwise, as the design has it.
pub fn is_orphaned(federated: &Object) -> bool {
    match federated.annotation(ORPHAN) {
        Some(orphan) => orphan == "true",
        None => is_orphaned_by_default(federated),
    }
}

pub(crate) fn is_orphaned_by_default(federated: &Object) -> bool {
    TARGETS.iter().any(|(kind, _)| *kind == federated.kind())
        && federated.annotation(PREFERENCES).is_some()
}

/// The replicas for the planner of a `ReplicaSchedulingPreference`, and whether the estimate has to be repeated soon.
pub fn rooms(
    members: &BTreeMap<String, WorkloadState>,
    patience: PodTimeouts,
    now: i64,
) -> (BTreeMap<String, MemberCapacity>, bool) {
    let mut look_again = false;
    let rooms = members.iter().map(|(name, local)| {
        let room = match local {
            WorkloadState::Absent { .. } => MemberCapacity::default(),
            WorkloadState::Present {
                ready, pods: None, ..
            } => MemberCapacity {
                current: *ready,
                capacity: None,
            },
            WorkloadState::Present {
                replicas,
                pods: Some(pods),
                ..
            } => {
                let found = pods::room(*replicas, pods, patience.scheduled, now);
                look_again |= found.look_again;
                found.room
            }
        };
        (name.clone(), room)
    });
    (rooms.collect(), look_again)
}

/// The key by which the order of members varies.
pub fn key(workload: &Object) -> String {
    let namespace = workload.namespace().unwrap_or_default();
    format!("{namespace}/{}", workload.name())
}

/// The replicas that the workload's overrides assign to each member.
pub fn assigned(workload: &Object) -> BTreeMap<String, i64> {
    let spec = workload.root().get("spec").unwrap_or(&Value::Null);
    let entries = spec["overrides"].as_array().into_iter().flatten();
    let replicas = entries.filter_map(|entry| {
        let mut steps = entry["clusterOverrides"].as_array()?.iter();
        let step = steps.find(|step| step["path"] == REPLICAS)?;
        let name = entry["clusterName"].as_str()?;
        Some((name.to_owned(), step["value"].as_i64()?))
    });
    replicas.collect()
}

/// The moves of replicas as text: `22 in A (before: 17), 8 in C (before: 16)`.
pub fn moves(before: &BTreeMap<String, i64>, after: &BTreeMap<String, i64>) -> Option<String> {
    let differs = |(name, replicas): &(&String, &i64)| before.get(*name) != Some(*replicas);
    let mut text = String::new();
    for (name, replicas) in after.iter().filter(differs) {
        let before = before.get(name).copied().unwrap_or(0);
        let comma = if text.is_empty() { "" } else { ", " };
        // Writing to a text does not fail.
        let _ = write!(text, "{comma}{replicas} in {name} (before: {before})");
    }
    (!text.is_empty()).then_some(text)
}

fn total(workload: &Object) -> i32 {
    let replicas = workload
        .as_value()
        .pointer("/spec/template/spec/replicas")
        .and_then(Value::as_i64)
        .unwrap_or(1);
    i32::try_from(replicas).unwrap_or(if replicas < 0 { i32::MIN } else { i32::MAX })
}

fn status(workload: &Object) -> Value {
    let text = workload.annotation(STATUS).unwrap_or_default();
    serde_json::from_str(text).unwrap_or_default()
}

/// Reports a problem, and changes nothing.
fn refuse(workload: &Object, reason: &'static str, problem: &str) -> CheckResult {
    let problem = shortened(problem);
    let before = status(workload);
    let told = before["problem"] == problem;
    let mut after = before;
    if !after.is_object() {
        after = json!({});
    }
    after["problem"] = problem.as_str().into();
    let note = WorkloadEvent {
        severity: Severity::Warning,
        reason,
        message: problem,
    };
    CheckResult {
        changed: with_status(workload, None, &after),
        notes: (!told).then_some(note).into_iter().collect(),
        again: None,
    }
}

/// The workload with this status annotation; `None` if nothing changes.
fn with_status(workload: &Object, moved: Option<Object>, status: &Value) -> Option<Object> {
    let text = status.to_string();
    if moved.is_none() && workload.annotation(STATUS) == Some(&text) {
        return None;
    }
    let mut changed = moved.unwrap_or_else(|| workload.clone());
    changed.set_annotation(STATUS, &text);
    Some(changed)
}

fn summary(
    preferences: &Preferences,
    planned: &Schedule,
    seen: &BTreeMap<String, ReplicaState>,
    around: CheckMembers<'_>,
    assigned: &BTreeMap<String, i64>,
) -> Value {
    let mut clusters = Map::new();
    let mut ready_in_all = 0_i64;
    for (name, replicas) in &planned.replicas {
        let ready = match around.members.get(name) {
            Some(WorkloadState::Present { ready, .. }) => *ready,
            _ => 0,
        };
        ready_in_all = ready_in_all.saturating_add(ready);
        let mut cluster = json!({"replicas": replicas, "ready": ready});
        let of = seen.get(name).copied().unwrap_or_default();
        for (field, value) in [
            ("failed", of.failed),
            ("waiting", of.waiting),
            ("probes", planned.probes.get(name).copied().unwrap_or(0)),
            ("creationFailures", of.refusals.into()),
        ] {
            if value != 0 {
                cluster[field] = value.into();
            }
        }
        clusters.insert(name.clone(), cluster);
    }
    for name in around.unknown {
        if let Some(replicas) = assigned.get(name) {
            let cluster = json!({"replicas": replicas, "unknown": true});
            clusters.insert(name.clone(), cluster);
        }
    }
    json!({
        "replicas": preferences.total, "ready": ready_in_all, "unplaced": planned.unplaced, "clusters": clusters,
    })
}

/// The moves of replicas, and their reasons.
fn moved_note(
    planned: &Schedule,
    seen: &BTreeMap<String, ReplicaState>,
    assigned: &BTreeMap<String, i64>,
) -> Option<WorkloadEvent> {
    let mut message = moves(assigned, &planned.replicas)?;
    for (name, seen) in seen {
        if seen.refusals > 0 {
            let _ = write!(
                message,
                "; {name} refused the workload {} times",
                seen.refusals
            );
        } else if seen.failed > 0 {
            let probes = planned.probes.get(name).copied().unwrap_or(0);
            let failed = seen.failed;
            let _ = write!(
                message,
                "; {failed} did not start in {name}, {probes} of them stay as probes"
            );
        }
    }
    Some(WorkloadEvent {
        severity: Severity::Normal,
        reason: "ReplicasScheduled",
        message: format!("replicas: {message}"),
    })
}

fn unplaced_note(
    workload: &Object,
    preferences: &Preferences,
    planned: &Schedule,
) -> Option<WorkloadEvent> {
    let missing = planned.unplaced;
    let told = status(workload)["unplaced"].as_i64() == Some(missing);
    (missing > 0 && !told).then(|| WorkloadEvent {
        severity: Severity::Warning,
        reason: "ReplicasUnplaced",
        message: format!(
            "{missing} of {} replicas have no cluster: add capacity or clusters, or raise maxReplicas",
            preferences.total
        ),
    })
}

/// Reads a `ReplicaSchedulingPreference`, and returns its problems. As in KubeFed, the planner accepts invalid numbers.
pub fn read_preference(
    preference: &Object,
) -> Result<(ReplicaSchedulingPreferenceSpec, Vec<String>), String> {
    let spec = preference.root().get("spec").cloned().unwrap_or_default();
    let spec: ReplicaSchedulingPreferenceSpec =
        serde_json::from_value(spec).map_err(|error| format!("spec: {error}"))?;
    let mut problems = Preferences::from(&spec).problems();
    if !TARGETS.iter().any(|(kind, _)| *kind == spec.target_kind) {
        let kind = &spec.target_kind;
        problems.push(format!(
            "targetKind {kind:?} is not supported: set FederatedDeployment or FederatedReplicaSet"
        ));
    }
    Ok((spec, problems))
}

#[cfg(test)]
mod tests;
