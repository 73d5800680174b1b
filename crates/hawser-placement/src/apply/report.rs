//! The conditions of manifests and of their Work.

use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use super::Reason;
use crate::availability::Availability;
use crate::types::placement::PatchDetail;
use crate::types::work::{
    BackReportedStatus, DiffDetails, DriftDetails, ManifestCondition, WorkResourceIdentifier,
    WorkStatus,
};
use crate::types::{Condition, ConditionStatus, condition};

/// The most bytes of a Work that an API server stores.
const LARGEST_WORK: usize = 1_415_578;
/// The bytes of a manifest's conditions, with room for a message.
const CONDITIONS: usize = 500;
/// The interval at which the times of looks are written that find the same differences.
pub const OBSERVATION: SignedDuration = SignedDuration::from_mins(5);
/// The reason of manifests that are listed before anything is written.
pub const PREPARING: &str = "PreparingToProcess";

const APPLIED: &str = "Applied";
const AVAILABLE: &str = "Available";
const DIFF_REPORTED: &str = "DiffReported";
const TRIMMED: &str = "StatusTrimmed";

/// The result for a manifest.
#[derive(Clone, Debug, PartialEq)]
pub struct Finding {
    pub reason: Reason,
    pub message: String,
    /// The generation of the object in the member, if there is one.
    pub generation: Option<i64>,
    pub drifts: Vec<PatchDetail>,
    pub diffs: Vec<PatchDetail>,
    pub availability: Option<Availability>,
    /// The type and the status of the object, if they are to come back to the hub.
    pub observed: Option<Value>,
}

impl Finding {
    pub fn new(reason: Reason, message: impl Into<String>) -> Self {
        Self {
            reason,
            message: message.into(),
            generation: None,
            drifts: Vec::new(),
            diffs: Vec::new(),
            availability: None,
            observed: None,
        }
    }
}

/// The part of an object that comes back to the hub; `None` if the object says nothing of its state.
pub fn observed(object: &Value) -> Option<Value> {
    let status = object.get("status")?;
    Some(json!({"apiVersion": object["apiVersion"], "kind": object["kind"], "status": status}))
}

/// The generation of an object; kinds without one have 0.
pub fn generation(object: &Value) -> i64 {
    object["metadata"]["generation"]
        .as_i64()
        .unwrap_or_default()
}

/// Makes a condition; its time stays while its status does.
fn make(
    before: &[Condition],
    type_: &str,
    is: bool,
    reason: &str,
    message: &str,
    generation: i64,
    now: &str,
) -> Condition {
    let status = if is {
        ConditionStatus::True
    } else {
        ConditionStatus::False
    };
    let same = condition(before, type_).filter(|old| old.status == status);
    Condition {
        type_: type_.to_owned(),
        status,
        observed_generation: generation,
        last_transition_time: same.map_or(now, |old| &old.last_transition_time).to_owned(),
        reason: reason.to_owned(),
        // The schema admits no more.
        message: message.chars().take(8000).collect(),
    }
}

/// The state of a manifest that is about to be applied.
pub fn preparing(
    identifier: WorkResourceIdentifier,
    generation: i64,
    now: &str,
) -> ManifestCondition {
    let message = "the manifest is being prepared for processing";
    let condition = make(&[], APPLIED, false, PREPARING, message, generation, now);
    ManifestCondition {
        identifier,
        conditions: vec![condition],
        ..ManifestCondition::default()
    }
}

/// Whether the time of a look needs not be written anew.
fn is_recent(time: &str, now: &str) -> bool {
    let age = now
        .parse::<Timestamp>()
        .and_then(|now| Ok(now.duration_since(time.parse()?)));
    age.is_ok_and(|age| age < OBSERVATION)
}

/// Whether the status has times of looks, which are to be refreshed after [`OBSERVATION`].
pub fn is_observed(status: &WorkStatus) -> bool {
    let mut manifests = status.manifest_conditions.iter();
    manifests.any(|one| one.drift_details.is_some() || one.diff_details.is_some())
}

/// The state of a manifest.
pub fn manifest(
    identifier: WorkResourceIdentifier,
    finding: Finding,
    reports_diff: bool,
    before: Option<&ManifestCondition>,
    now: &str,
) -> ManifestCondition {
    let old = before.map_or(&[][..], |before| &before.conditions);
    let (reason, message, observed) = (finding.reason, &finding.message, finding.generation);
    let generation = observed.unwrap_or_default();
    let mut conditions = Vec::new();
    if reports_diff {
        let is = reason.is_reported();
        let reason = reason.as_str();
        conditions.push(make(
            old,
            DIFF_REPORTED,
            is,
            reason,
            message,
            generation,
            now,
        ));
    } else {
        let is = reason.is_applied();
        let reason = reason.as_str();
        conditions.push(make(old, APPLIED, is, reason, message, generation, now));
        if let Some(availability) = finding.availability {
            let (is, reason, message) = match availability {
                Availability::Available => (true, "Available", "the object is available"),
                Availability::NotTrackable => (
                    true,
                    "NotTrackable",
                    "the availability of objects of this kind is not tracked",
                ),
                Availability::NotYet => (
                    false,
                    "ManifestNotAvailableYet",
                    "the object is not available yet",
                ),
                Availability::Failed => (false, "Failed", "the object has failed"),
            };
            conditions.push(make(old, AVAILABLE, is, reason, message, generation, now));
        }
    }
    // A look that finds the same is written down from time to time.
    let drift_details = (!finding.drifts.is_empty()).then(|| {
        let old = before.and_then(|before| before.drift_details.as_ref());
        let same = old.filter(|old| {
            old.observed_drifts == finding.drifts
                && old.observed_in_member_cluster_generation == generation
                && is_recent(&old.observation_time, now)
        });
        DriftDetails {
            observation_time: same.map_or(now, |old| &old.observation_time).to_owned(),
            observed_in_member_cluster_generation: generation,
            first_drifted_observed_time: old
                .map_or(now, |old| &old.first_drifted_observed_time)
                .to_owned(),
            observed_drifts: finding.drifts,
        }
    });
    let diff_details = (!finding.diffs.is_empty()).then(|| {
        let old = before.and_then(|before| before.diff_details.as_ref());
        let same = old.filter(|old| {
            old.observed_diffs == finding.diffs
                && old.observed_in_member_cluster_generation == observed
                && is_recent(&old.observation_time, now)
        });
        DiffDetails {
            observation_time: same.map_or(now, |old| &old.observation_time).to_owned(),
            observed_in_member_cluster_generation: observed,
            first_diffed_observed_time: old
                .map_or(now, |old| &old.first_diffed_observed_time)
                .to_owned(),
            observed_diffs: finding.diffs,
        }
    });
    let back_reported_status = finding.observed.map(|observed_status| {
        let old = before.and_then(|before| before.back_reported_status.as_ref());
        let same = old.filter(|old| old.observed_status == observed_status);
        BackReportedStatus {
            observed_status,
            observation_time: same.map_or(now, |old| &old.observation_time).to_owned(),
        }
    });
    ManifestCondition {
        identifier,
        conditions,
        drift_details,
        diff_details,
        back_reported_status,
    }
}

/// The status of a Work, from the states of its manifests.
pub fn work(
    manifests: Vec<ManifestCondition>,
    reports_diff: bool,
    before: &WorkStatus,
    generation: i64,
    now: &str,
) -> WorkStatus {
    let old = &before.conditions;
    let has = |one: &ManifestCondition, type_: &str| {
        condition(&one.conditions, type_)
            .is_some_and(|condition| condition.status == ConditionStatus::True)
    };
    let count = |type_: &str| manifests.iter().filter(|one| has(one, type_)).count();
    let all = manifests.len();
    let mut conditions = Vec::new();
    let mut say = |type_: &str, is: bool, reason: &str, message: String| {
        conditions.push(make(old, type_, is, reason, &message, generation, now));
    };
    if reports_diff {
        let reported = count(DIFF_REPORTED);
        let reason = if reported == all {
            "AllManifestsDiffReported"
        } else {
            "SomeManifestsHaveNotReportedDiff"
        };
        let message = format!("differences of {reported} of {all} manifests are reported");
        say(DIFF_REPORTED, reported == all, reason, message);
    } else {
        let applied = count(APPLIED);
        let reason = if applied == all {
            "AllManifestsApplied"
        } else {
            "SomeManifestsAreNotApplied"
        };
        let message = format!("{applied} of {all} manifests are applied");
        say(APPLIED, applied == all, reason, message);
        if applied == all {
            let available = count(AVAILABLE);
            let is_untracked = |one: &ManifestCondition| {
                condition(&one.conditions, AVAILABLE)
                    .is_some_and(|condition| condition.reason == "NotTrackable")
            };
            let reason = if available < all {
                "SomeManifestsAreNotAvailable"
            } else if manifests.iter().any(is_untracked) {
                "WorkNotTrackable"
            } else {
                "AllManifestsAvailable"
            };
            let message = format!("{available} of {all} objects are available");
            say(AVAILABLE, available == all, reason, message);
        }
    }
    WorkStatus {
        conditions,
        manifest_conditions: manifests,
    }
}

/// The status of a Work that has more manifests than can be listed; `None` if there is room for all. `others` are the
/// bytes of the rest of the Work. An object that is on no list would be lost track of.
pub fn too_many<'a>(
    identifiers: impl Iterator<Item = &'a WorkResourceIdentifier>,
    others: usize,
    reports_diff: bool,
    before: &WorkStatus,
    generation: i64,
    now: &str,
) -> Option<WorkStatus> {
    let length = |of: &WorkResourceIdentifier| serde_json::to_string(of).map_or(0, |it| it.len());
    let (count, bytes) = identifiers.fold((0_usize, others), |(count, bytes), one| {
        (count + 1, bytes + length(one) + CONDITIONS)
    });
    if bytes <= LARGEST_WORK {
        return None;
    }
    let message = format!(
        "the status of the {count} manifests of the Work needs {bytes} bytes, more than the limit of {LARGEST_WORK}: nothing of \
         this generation is applied; divide the resources among several placements"
    );
    let mut status = refused(&message, reports_diff, before, generation, now);
    let trimmed = make(
        &before.conditions,
        TRIMMED,
        true,
        "Oversized",
        &message,
        generation,
        now,
    );
    status.conditions.push(trimmed);
    Some(status)
}

/// The status of a Work of which nothing can be applied now.
pub fn refused(
    message: &str,
    reports_diff: bool,
    before: &WorkStatus,
    generation: i64,
    now: &str,
) -> WorkStatus {
    let (type_, reason) = if reports_diff {
        (DIFF_REPORTED, "SomeManifestsHaveNotReportedDiff")
    } else {
        (APPLIED, "SomeManifestsAreNotApplied")
    };
    let known = &before.conditions;
    WorkStatus {
        conditions: vec![make(known, type_, false, reason, message, generation, now)],
        manifest_conditions: before.manifest_conditions.clone(),
    }
}

/// Leaves out details if the Work would be too large with them. `others` are the bytes of the rest of it.
pub fn trim(status: &mut WorkStatus, others: usize, generation: i64, now: &str) {
    let size = |status: &WorkStatus| serde_json::to_string(status).map_or(0, |text| text.len());
    if others + size(status) <= LARGEST_WORK {
        return;
    }
    for one in &mut status.manifest_conditions {
        let count = |number: usize| {
            vec![PatchDetail {
                path: String::new(),
                value_in_member: format!("{number} differences"),
                value_in_hub: String::new(),
            }]
        };
        if let Some(details) = &mut one.drift_details {
            details.observed_drifts = count(details.observed_drifts.len());
        }
        if let Some(details) = &mut one.diff_details {
            details.observed_diffs = count(details.observed_diffs.len());
        }
        one.back_reported_status = None;
    }
    let message = "details are omitted, because they would make the Work too large";
    let trimmed = make(
        &status.conditions,
        TRIMMED,
        true,
        "Oversized",
        message,
        generation,
        now,
    );
    status.conditions.push(trimmed);
}
