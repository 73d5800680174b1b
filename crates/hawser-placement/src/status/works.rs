//! The conditions of a binding, from its Works.

use crate::names;
use crate::types::binding::Binding;
use crate::types::placement::{
    DiffedPlacement, DriftedPlacement, EnvelopeIdentifier, EnvelopeType, FailedPlacement,
    ResourceIdentifier,
};
use crate::types::work::{ManifestCondition, WorkOutline};
use crate::types::{Condition, ConditionStatus, condition};

pub(super) const NO_OVERRIDES: &str = "NoOverrideSpecified";
pub(super) const NO_OVERRIDES_MESSAGE: &str =
    "No override rules are configured for the selected resources";

/// The most resources in each list of a binding.
const MAX_LISTED: usize = 100;

/// The progress of a pass over the Works of a binding.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Pass {
    OverrideFailed(String),
    SyncFailed(String),
    /// There is more than one Work of an envelope.
    Duplicates(String),
    /// Works were written in this pass, so that they report nothing new yet.
    Changed,
    Unchanged,
}

/// The conditions of a binding, except `RolloutStarted`.
pub fn conditions(
    binding: &Binding,
    pass: &Pass,
    works: &[WorkOutline],
    reports_diff: bool,
    now: &str,
) -> Vec<Condition> {
    let make = |type_: &str, status: ConditionStatus, reason: &str, message: String| Condition {
        type_: type_.to_owned(),
        status,
        observed_generation: binding.metadata.generation,
        last_transition_time: now.to_owned(),
        reason: reason.to_owned(),
        message,
    };
    if let Pass::OverrideFailed(cause) = pass {
        let message = format!("Failed to apply the override rules on the resources: {cause}");
        return vec![make(
            "Overridden",
            ConditionStatus::False,
            "OverriddenFailed",
            message,
        )];
    }
    let spec = &binding.spec;
    let is_plain = spec.cluster_resource_override_snapshots.is_empty()
        && spec.resource_override_snapshots.is_empty();
    let (reason, message) = if is_plain {
        (NO_OVERRIDES, NO_OVERRIDES_MESSAGE)
    } else {
        (
            "OverriddenSucceeded",
            "Successfully applied the override rules on the resources",
        )
    };
    let mut all = vec![make(
        "Overridden",
        ConditionStatus::True,
        reason,
        message.to_owned(),
    )];
    if let Pass::SyncFailed(cause) | Pass::Duplicates(cause) = pass {
        let message = format!("Failed to synchronize the work to the latest: {cause}");
        all.push(make(
            "WorkSynchronized",
            ConditionStatus::False,
            "SyncWorkFailed",
            message,
        ));
        return all;
    }
    let message = "All of the works are synchronized to the latest".to_owned();
    all.push(make(
        "WorkSynchronized",
        ConditionStatus::True,
        "AllWorkSynced",
        message,
    ));
    let steps: &[Aggregate] = if reports_diff {
        &[DIFF_REPORTED]
    } else {
        &[APPLIED, AVAILABLE]
    };
    for step in steps {
        let (status, reason, message) = step.over(works, *pass == Pass::Changed);
        all.push(make(step.type_, status, reason, message));
        if status != ConditionStatus::True {
            break;
        }
    }
    all
}

/// The reasons and messages of a condition over all Works.
struct Aggregate {
    type_: &'static str,
    all: (&'static str, &'static str),
    not_all: &'static str,
    /// The reason while a Work says nothing.
    waiting: (ConditionStatus, &'static str),
}

const APPLIED: Aggregate = Aggregate {
    type_: "Applied",
    all: (
        "AllWorkHaveBeenApplied",
        "All corresponding work objects are applied",
    ),
    not_all: "NotAllWorkHaveBeenApplied",
    waiting: (ConditionStatus::False, "ApplyInProgress"),
};
const AVAILABLE: Aggregate = Aggregate {
    type_: "Available",
    all: (
        "AllWorkAreAvailable",
        "All corresponding work objects are available",
    ),
    not_all: "NotAllWorkAreAvailable",
    waiting: (ConditionStatus::Unknown, "ResourceAvailableUnknown"),
};
const DIFF_REPORTED: Aggregate = Aggregate {
    type_: "DiffReported",
    all: (
        "AllWorkHaveDiffReported",
        "All corresponding work objects have reported diff",
    ),
    not_all: "NotAllWorkHaveDiffReported",
    waiting: (ConditionStatus::False, "DiffReportInProgress"),
};

impl Aggregate {
    fn over(
        &self,
        works: &[WorkOutline],
        changed: bool,
    ) -> (ConditionStatus, &'static str, String) {
        let mut untrackable = None;
        let mut failed = None;
        for work in works {
            let name = &work.metadata.name;
            let found = condition(&work.status.conditions, self.type_);
            let found = found.filter(|one| one.is_fresh(work.metadata.generation) && !changed);
            match found {
                Some(one) if one.status == ConditionStatus::False => failed = failed.or(Some(name)),
                Some(one) if one.status == ConditionStatus::True => {
                    if one.reason == "WorkNotTrackable" {
                        untrackable = untrackable.or(Some(name));
                    }
                }
                _ => {
                    let message = format!("Work object {name} has not reported {} yet", self.type_);
                    return (self.waiting.0, self.waiting.1, message);
                }
            }
        }
        if let Some(name) = failed {
            let message = format!("{} is false for work object {name}", self.type_);
            return (ConditionStatus::False, self.not_all, message);
        }
        if let Some(name) = untrackable {
            let message = format!("The availability of work object {name} is not trackable");
            return (
                ConditionStatus::True,
                "NotAllWorkAreAvailabilityTrackable",
                message,
            );
        }
        (ConditionStatus::True, self.all.0, self.all.1.to_owned())
    }
}

/// The resources of a binding that failed, drifted or differ; sorted, and not more than a status may list.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ResourceProblems {
    pub failed: Vec<FailedPlacement>,
    pub drifted: Vec<DriftedPlacement>,
    pub diffed: Vec<DiffedPlacement>,
}

pub fn problems(works: &[WorkOutline]) -> ResourceProblems {
    let mut all = ResourceProblems::default();
    for work in works {
        let has_failed = |type_: &str| {
            let found = condition(&work.status.conditions, type_);
            found.is_some_and(|one| {
                one.status == ConditionStatus::False && one.is_fresh(work.metadata.generation)
            })
        };
        let has_failed = has_failed("Applied") || has_failed("Available");
        for manifest in &work.status.manifest_conditions {
            collect(&identifier(work, manifest), manifest, has_failed, &mut all);
        }
    }
    all.failed.sort_by(|a, b| a.identifier.cmp(&b.identifier));
    all.drifted.sort_by(|a, b| a.identifier.cmp(&b.identifier));
    all.diffed.sort_by(|a, b| a.identifier.cmp(&b.identifier));
    all.failed.truncate(MAX_LISTED);
    all.drifted.truncate(MAX_LISTED);
    all.diffed.truncate(MAX_LISTED);
    all
}

fn identifier(work: &WorkOutline, manifest: &ManifestCondition) -> ResourceIdentifier {
    let label = |key: &str| work.metadata.label(key).unwrap_or_default().to_owned();
    let type_ = match work.metadata.label(names::ENVELOPE_TYPE) {
        None => None,
        Some("ClusterResourceEnvelope") => Some(EnvelopeType::ClusterResourceEnvelope),
        Some("ResourceEnvelope") => Some(EnvelopeType::ResourceEnvelope),
        Some(_) => Some(EnvelopeType::ConfigMap),
    };
    let found = &manifest.identifier;
    ResourceIdentifier {
        group: found.group.clone(),
        version: found.version.clone(),
        kind: found.kind.clone(),
        name: found.name.clone(),
        namespace: found.namespace.clone(),
        envelope: type_.map(|type_| EnvelopeIdentifier {
            name: label(names::ENVELOPE_NAME),
            namespace: label(names::ENVELOPE_NAMESPACE),
            type_,
        }),
    }
}

fn collect(
    identifier: &ResourceIdentifier,
    manifest: &ManifestCondition,
    has_failed: bool,
    all: &mut ResourceProblems,
) {
    let is_false = |type_: &str| {
        let found = condition(&manifest.conditions, type_);
        found.filter(|found| found.status == ConditionStatus::False)
    };
    // A Work that is being applied lists manifests as not applied yet.
    if has_failed && let Some(failure) = is_false("Applied").or_else(|| is_false("Available")) {
        all.failed.push(FailedPlacement {
            identifier: identifier.clone(),
            condition: failure.clone(),
        });
    }
    if let Some(drift) = &manifest.drift_details {
        all.drifted.push(DriftedPlacement {
            identifier: identifier.clone(),
            observation_time: drift.observation_time.clone(),
            target_cluster_observed_generation: drift.observed_in_member_cluster_generation,
            first_drifted_observed_time: drift.first_drifted_observed_time.clone(),
            observed_drifts: drift.observed_drifts.clone(),
        });
    }
    if let Some(diff) = &manifest.diff_details {
        all.diffed.push(DiffedPlacement {
            identifier: identifier.clone(),
            observation_time: diff.observation_time.clone(),
            target_cluster_observed_generation: diff.observed_in_member_cluster_generation,
            first_diffed_observed_time: diff.first_diffed_observed_time.clone(),
            observed_diffs: diff.observed_diffs.clone(),
        });
    }
}
