//! A member's decision about one manifest, and its report: derived from the manifest, the live object and the owner.
//!
//! | module | content |
//! |---|---|
//! | [`compare`] | differences between a manifest and the object in the member |
//! | [`fields`] | fields that a manifest has dropped and that other managers have too |
//! | [`merge`] | merge patches for what server-side apply refuses |
//! | [`report`] | conditions of manifests and of the Work |
//!
//! Objects are written by server-side apply under the original's field manager, with both apply strategies. Client-side
//! apply takes fields from other managers, removes what the last manifest named, and keeps the annotation with the
//! manifest, so that the original can take over again. What does not fit the schema of the member is merged. Repeating an
//! apply has no effect, so no order of requests has to survive a crash except one: an object is listed before it is
//! written.

use serde_json::{Map, Value, json};

use crate::hash::hash_of;
use crate::resources::{HUB_METADATA, OF_FLEET, group_of, is_of_fleet};
use crate::types::placement::{
    ApplyStrategy, ApplyStrategyType, ComparisonOption, WhenToApply, WhenToTakeOver,
};
use crate::types::work::WorkResourceIdentifier;
use crate::types::{PLACEMENT_GROUP, STORED_VERSION};

pub mod compare;
pub mod fields;
pub mod merge;
pub mod report;

/// The field manager of everything that members apply.
pub const MANAGER: &str = "work-api-agent";
/// The manager of what members write without an apply: merge patches, owners. Nobody else has it, no other agent of
/// Hawser either.
pub const UPDATER: &str = "hawser-member";
/// The manager of fields that were written before anybody applied.
const BEFORE_FIRST_APPLY: &str = "before-first-apply";
/// The annotation with the manifest that was applied.
pub const LAST_APPLIED: &str = "kubernetes-fleet.io/last-applied-configuration";
/// The annotation with the hash of the manifest that was applied.
pub const MANIFEST_HASH: &str = "kubernetes-fleet.io/spec-hash";
/// The most bytes that the annotations of an object may have.
const MOST_ANNOTATIONS: usize = 256 << 10;

/// Resources in the order in which they are applied: each wave is finished before the next one begins.
const WAVES: [&[&str]; 6] = [
    &["namespaces", "priorityclasses"],
    &[
        "networkpolicies",
        "resourcequotas",
        "limitranges",
        "podsecuritypolicies",
        "poddisruptionbudgets",
        "serviceaccounts",
        "secrets",
        "configmaps",
        "storageclasses",
        "persistentvolumes",
        "persistentvolumeclaims",
        "customresourcedefinitions",
        "ingressclasses",
    ],
    &["clusterroles", "roles"],
    &["clusterrolebindings", "rolebindings"],
    &[
        "services",
        "daemonsets",
        "pods",
        "replicationcontrollers",
        "replicasets",
        "deployments",
        "horizontalpodautoscalers",
        "statefulsets",
        "jobs",
        "cronjobs",
        "ingresses",
    ],
    &[
        "apiservices",
        "validatingwebhookconfigurations",
        "mutatingwebhookconfigurations",
    ],
];

/// The wave of a resource; custom resources are in the last one.
pub fn wave(resource: &str) -> usize {
    let found = WAVES.iter().position(|wave| wave.contains(&resource));
    found.unwrap_or(WAVES.len())
}

/// The reason why nothing was written, or the result of a comparison: the reasons of conditions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    Applied,
    AppliedWithFailedDriftDetection,
    DecodingErred,
    FoundGenerateName,
    Duplicated,
    FailedToFindObjInMemberCluster,
    FailedToTakeOver,
    NotTakenOver,
    FailedToRunDriftDetection,
    FoundDrifts,
    FoundDriftsInDegradedMode,
    ManifestApplyFailed,
    NoDiffFound,
    FoundDiff,
    FoundDiffInDegradedMode,
    FailedToReportDiff,
}

impl Reason {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Applied => "Applied",
            Self::AppliedWithFailedDriftDetection => "AppliedWithFailedDriftDetection",
            Self::DecodingErred => "DecodingErred",
            Self::FoundGenerateName => "FoundGenerateName",
            Self::Duplicated => "Duplicated",
            Self::FailedToFindObjInMemberCluster => "FailedToFindObjInMemberCluster",
            Self::FailedToTakeOver => "FailedToTakeOver",
            Self::NotTakenOver => "NotTakenOver",
            Self::FailedToRunDriftDetection => "FailedToRunDriftDetection",
            Self::FoundDrifts => "FoundDrifts",
            Self::FoundDriftsInDegradedMode => "FoundDriftsInDegradedMode",
            Self::ManifestApplyFailed => "ManifestApplyFailed",
            Self::NoDiffFound => "NoDiffFound",
            Self::FoundDiff => "FoundDiff",
            Self::FoundDiffInDegradedMode => "FoundDiffInDegradedMode",
            Self::FailedToReportDiff => "FailedToReportDiff",
        }
    }

    /// True if the manifest was applied.
    pub fn is_applied(self) -> bool {
        matches!(self, Self::Applied | Self::AppliedWithFailedDriftDetection)
    }

    /// True if differences were reported, or that there are none.
    pub fn is_reported(self) -> bool {
        matches!(
            self,
            Self::NoDiffFound | Self::FoundDiff | Self::FoundDiffInDegradedMode
        )
    }
}

/// A manifest that can be applied.
#[derive(Clone, Debug, PartialEq)]
pub struct Manifest {
    /// Without what only a server sets.
    pub object: Value,
    pub hash: String,
}

/// Reads a manifest. The identifier is as complete as the manifest; its resource is not known yet.
pub fn read(
    ordinal: usize,
    manifest: &Value,
) -> (WorkResourceIdentifier, Result<Manifest, (Reason, String)>) {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let api_version = text(&manifest["apiVersion"]);
    let (group, version) = api_version.split_once('/').unwrap_or(("", &api_version));
    let identifier = WorkResourceIdentifier {
        ordinal: i64::try_from(ordinal).unwrap_or(i64::MAX),
        group: group.to_owned(),
        version: version.to_owned(),
        kind: text(&manifest["kind"]),
        resource: String::new(),
        namespace: text(&manifest["metadata"]["namespace"]),
        name: text(&manifest["metadata"]["name"]),
    };
    let read = if identifier.kind.is_empty() || identifier.version.is_empty() {
        let message = "the manifest has no apiVersion or no kind";
        Err((Reason::DecodingErred, message.to_owned()))
    } else if identifier.name.is_empty() && manifest["metadata"]["generateName"].is_string() {
        let message = "the manifest has a generateName and no name";
        Err((Reason::FoundGenerateName, message.to_owned()))
    } else if identifier.name.is_empty() {
        let message = "the manifest has no name";
        Err((Reason::DecodingErred, message.to_owned()))
    } else if is_of_fleet(manifest) {
        Err((Reason::ManifestApplyFailed, OF_FLEET.to_owned()))
    } else {
        Ok(Manifest::of(manifest))
    };
    (identifier, read)
}

impl Manifest {
    fn of(manifest: &Value) -> Self {
        let mut object = manifest.clone();
        if let Value::Object(root) = &mut object {
            root.remove("status");
            if let Some(Value::Object(metadata)) = root.get_mut("metadata") {
                metadata.retain(|field, _| !HUB_METADATA.contains(&field.as_str()));
            }
        }
        let hash = hash_of(&object);
        Self { object, hash }
    }

    /// The body that is sent to the member.
    pub fn body(&self, owner: &Owner<'_>, strategy: ApplyStrategyType) -> Value {
        let mut body = self.object.clone();
        let metadata = &mut body["metadata"];
        metadata["ownerReferences"] = json!([owner.reference()]);
        let mut annotations = match metadata["annotations"].take() {
            Value::Object(given) => given,
            _ => Map::new(),
        };
        annotations.insert(MANIFEST_HASH.to_owned(), self.hash.clone().into());
        if strategy == ApplyStrategyType::ClientSideApply {
            let text = self.object.to_string();
            let others = annotations
                .iter()
                .map(|(key, value)| key.len() + value.as_str().map_or(0, str::len));
            let size = others.sum::<usize>() + LAST_APPLIED.len() + text.len();
            let kept = if size > MOST_ANNOTATIONS {
                String::new()
            } else {
                text
            };
            annotations.insert(LAST_APPLIED.to_owned(), kept.into());
        }
        metadata["annotations"] = Value::Object(annotations);
        body
    }
}

/// The `AppliedWork` that owns the objects of its Work.
#[derive(Clone, Copy)]
pub struct Owner<'a> {
    pub name: &'a str,
    pub uid: &'a str,
    /// False only if the hub has no such Work.
    pub is_work: &'a (dyn Fn(&str) -> bool + Sync),
}

/// The owner references of an object.
fn owners(object: &Value) -> impl Iterator<Item = &Value> {
    let owners = object["metadata"]["ownerReferences"].as_array();
    owners.into_iter().flatten()
}

/// True if the owner is an `AppliedWork`.
pub fn is_applied_work(reference: &Value) -> bool {
    group_of(reference) == PLACEMENT_GROUP && reference["kind"] == "AppliedWork"
}

impl Owner<'_> {
    fn reference(&self) -> Value {
        json!({
            "apiVersion": format!("{PLACEMENT_GROUP}/{STORED_VERSION}"), "kind": "AppliedWork",
            "name": self.name, "uid": self.uid, "blockOwnerDeletion": true,
        })
    }

    fn is(&self, reference: &Value) -> bool {
        is_applied_work(reference) && reference["uid"] == self.uid
    }

    /// True if the object belongs to the Work.
    pub fn owns(&self, object: &Value) -> bool {
        owners(object).any(|reference| self.is(reference))
    }

    /// Whether this is the `AppliedWork` of a Work that the hub no longer has.
    fn is_orphan(&self, reference: &Value) -> bool {
        is_applied_work(reference)
            && !self.is(reference)
            && reference["name"]
                .as_str()
                .is_none_or(|name| name == self.name || !(self.is_work)(name))
    }

    /// The owner references without those of Works that are gone; `None` if there are no such.
    pub fn without_orphans(&self, object: &Value) -> Option<Vec<Value>> {
        owners(object)
            .any(|reference| self.is_orphan(reference))
            .then(|| {
                let kept = owners(object).filter(|reference| !self.is_orphan(reference));
                kept.cloned().collect()
            })
    }

    /// The owner references without this one; `None` if it is the only one.
    pub fn without_owner(&self, object: &Value) -> Option<Vec<Value>> {
        let others = owners(object).filter(|reference| !self.is(reference));
        let others: Vec<Value> = others.cloned().collect();
        (!others.is_empty()).then_some(others)
    }

    /// The owner references with another one in the place of this one.
    pub fn replaced_by(&self, next: &Owner<'_>, object: &Value) -> Vec<Value> {
        let others = owners(object).filter(|one| !self.is(one) && !next.is(one));
        others.cloned().chain([next.reference()]).collect()
    }

    /// The owner references, with this one no longer in the way of its owner's end; `None` if it is not now.
    pub fn without_block(&self, object: &Value) -> Option<Vec<Value>> {
        let blocks =
            |reference: &Value| self.is(reference) && reference["blockOwnerDeletion"] == true;
        owners(object).any(blocks).then(|| {
            let owners = owners(object).cloned();
            let without_block = owners.map(|mut reference| {
                if blocks(&reference) {
                    reference["blockOwnerDeletion"] = false.into();
                }
                reference
            });
            without_block.collect()
        })
    }

    /// The reason why an object of another owner is not written.
    fn foreign_owner(&self, object: &Value, shares: bool) -> Option<String> {
        let mut others =
            owners(object).filter(|reference| !self.is(reference) && !self.is_orphan(reference));
        let name = |reference: &Value| {
            let (kind, name) = (&reference["kind"], &reference["name"]);
            format!(
                "{} {}",
                kind.as_str().unwrap_or_default(),
                name.as_str().unwrap_or_default()
            )
        };
        let other = others.find(|reference| is_applied_work(reference) || !shares)?;
        let owner = name(other);
        Some(if is_applied_work(other) {
            format!("the object belongs to another placement by {owner}")
        } else {
            format!("the object is owned by {owner}, and allowCoOwnership is not set")
        })
    }
}

/// The decision about a manifest.
#[derive(Clone, Debug, PartialEq)]
pub enum Verdict {
    /// The object is as it should be.
    InSync,
    Apply,
    /// The decision depends on the differences between object and manifest.
    Compare(CompareReason),
    /// The object does not exist, and differences are only reported.
    Missing,
    Refuse(Reason, String),
}

/// The reason why an object is compared with its manifest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CompareReason {
    TakeOver,
    Drift,
    Report,
}

/// Decides. `is_as_left` says that the object has the content that the last apply of this manifest gave it.
pub fn decide(
    manifest: &Manifest,
    live: Option<&Value>,
    owner: &Owner<'_>,
    strategy: &ApplyStrategy,
    is_as_left: bool,
) -> Verdict {
    let reports = strategy.type_ == ApplyStrategyType::ReportDiff;
    let Some(live) = live else {
        return if reports {
            Verdict::Missing
        } else {
            Verdict::Apply
        };
    };
    if reports {
        return Verdict::Compare(CompareReason::Report);
    }
    let is_mine = owner.owns(live);
    if !is_mine && strategy.when_to_take_over == WhenToTakeOver::Never {
        let message = "the object already exists, and whenToTakeOver is Never";
        return Verdict::Refuse(Reason::NotTakenOver, message.to_owned());
    }
    if let Some(problem) = owner.foreign_owner(live, strategy.allow_co_ownership) {
        let reason = if is_mine {
            Reason::ManifestApplyFailed
        } else {
            Reason::FailedToTakeOver
        };
        return Verdict::Refuse(reason, problem);
    }
    if !is_mine {
        return match strategy.when_to_take_over {
            WhenToTakeOver::IfNoDiff => Verdict::Compare(CompareReason::TakeOver),
            WhenToTakeOver::Always | WhenToTakeOver::Never => Verdict::Apply,
        };
    }
    if live["metadata"]["annotations"][MANIFEST_HASH] != *manifest.hash {
        return Verdict::Apply;
    }
    if strategy.when_to_apply == WhenToApply::IfNotDrifted {
        return Verdict::Compare(CompareReason::Drift);
    }
    if is_as_left || compare::covers(&manifest.object, live) {
        Verdict::InSync
    } else {
        Verdict::Apply
    }
}

/// Whether fields of other managers are overwritten, whichever manager they have.
pub fn forces(strategy: &ApplyStrategy) -> bool {
    let config = strategy.server_side_apply_config.as_ref();
    strategy.type_ == ApplyStrategyType::ClientSideApply
        || config.is_some_and(|config| config.force)
}

/// Whether what others change of an applied object is reported, and not what keeps it from being applied.
pub fn reports_drift(strategy: &ApplyStrategy) -> bool {
    strategy.comparison_option == ComparisonOption::FullComparison
        && strategy.when_to_apply == WhenToApply::Always
}

/// Whether all fields of an object belong to members, so that nothing is taken from anybody. Tables do not keep managed
/// fields: this needs the object as the server has it.
pub fn has_no_other_manager(object: &Value) -> bool {
    let managers = object["metadata"]["managedFields"].as_array();
    managers.into_iter().flatten().all(|entry| {
        [MANAGER, UPDATER, BEFORE_FIRST_APPLY]
            .iter()
            .any(|one| entry["manager"] == *one)
    })
}

#[cfg(test)]
mod tests;
