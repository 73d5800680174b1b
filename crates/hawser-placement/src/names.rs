//! Names, labels, annotations and finalizers of the API.

use sha2::{Digest as _, Sha256};

use crate::types::placement::EnvelopeType;

pub const PLACEMENT_FINALIZER: &str = "kubernetes-fleet.io/crp-cleanup";
pub const SCHEDULER_FINALIZER: &str = "kubernetes-fleet.io/scheduler-cleanup";
pub const BINDING_FINALIZER: &str = "kubernetes-fleet.io/scheduler-crb-cleanup";
pub const WORK_FINALIZER: &str = "kubernetes-fleet.io/work-cleanup";
pub const OVERRIDE_FINALIZER: &str = "kubernetes-fleet.io/override-cleanup";
pub const MEMBER_FINALIZER: &str = "kubernetes-fleet.io/membercluster-finalizer";
pub const RUN_FINALIZER: &str = "kubernetes-fleet.io/stagedupdaterun-finalizer";

/// The label with the name of the placement, also of a `ResourcePlacement`.
pub const PARENT_PLACEMENT: &str = "kubernetes-fleet.io/parent-CRP";
pub const PARENT_NAMESPACE: &str = "kubernetes-fleet.io/parent-placement-namespace";
pub const PARENT_BINDING: &str = "kubernetes-fleet.io/parent-resource-binding";
pub const PARENT_SNAPSHOT_INDEX: &str = "kubernetes-fleet.io/parent-resource-snapshot-index";
pub const PARENT_OVERRIDE: &str = "kubernetes-fleet.io/parent-resource-override";
pub const IS_LATEST: &str = "kubernetes-fleet.io/is-latest-snapshot";
pub const RESOURCE_INDEX: &str = "kubernetes-fleet.io/resource-index";
pub const POLICY_INDEX: &str = "kubernetes-fleet.io/policy-index";
pub const OVERRIDE_INDEX: &str = "kubernetes-fleet.io/override-index";
pub const ENVELOPE_TYPE: &str = "kubernetes-fleet.io/envelope-work";
pub const ENVELOPE_NAME: &str = "kubernetes-fleet.io/envelope-name";
pub const ENVELOPE_NAMESPACE: &str = "kubernetes-fleet.io/envelope-namespace";
pub const IS_FLEET_RESOURCE: &str = "kubernetes-fleet.io/is-fleet-resource";
pub const MEMBER_NAME: &str = "kubernetes-fleet.io/member-name";
/// The labels of an approval request: the run, the stage, whether it counts, and the side of the stage.
pub const TARGET_RUN: &str = "kubernetes-fleet.io/targetUpdateRun";
pub const TARGET_STAGE: &str = "kubernetes-fleet.io/targetUpdatingStage";
pub const IS_LATEST_APPROVAL: &str = "kubernetes-fleet.io/isLatestUpdateRunApproval";
pub const TASK_TYPE: &str = "kubernetes-fleet.io/taskType";

pub const RESOURCE_HASH: &str = "kubernetes-fleet.io/resource-hash";
pub const NUMBER_OF_ENVELOPES: &str = "kubernetes-fleet.io/number-of-enveloped-object";
pub const NUMBER_OF_SNAPSHOTS: &str = "kubernetes-fleet.io/number-of-resource-snapshots";
pub const SNAPSHOT_SUBINDEX: &str = "kubernetes-fleet.io/subindex-of-resource-snapshot";
/// The annotation with the time when a change of the resources was first seen.
pub const CANDIDATE_TIME: &str =
    "kubernetes-fleet.io/next-resource-snapshot-candidate-detection-time";
pub const PLACEMENT_GENERATION: &str = "kubernetes-fleet.io/CRP-generation";
pub const NUMBER_OF_CLUSTERS: &str = "kubernetes-fleet.io/number-of-clusters";
/// The annotation of a ConfigMap that holds other objects.
pub const ENVELOPE_CONFIG_MAP: &str = "kubernetes-fleet.io/envelope-configmap";
pub const PREVIOUS_STATE: &str = "kubernetes-fleet.io/previous-binding-state";
pub const PARENT_SNAPSHOT: &str = "kubernetes-fleet.io/parent-resource-snapshot-name";
pub const RESOURCE_OVERRIDES_HASH: &str =
    "kubernetes-fleet.io/parent-resource-override-snapshot-hash";
pub const CLUSTER_OVERRIDES_HASH: &str =
    "kubernetes-fleet.io/parent-cluster-resource-override-snapshot-hash";
/// The annotation of a Work with the `propagationPolicy` of its placement, if that is not `Delete`.
pub const PROPAGATION: &str = "hawser.dev/propagation-policy";

/// The name of the stage at the end of a run.
pub const DELETION_STAGE: &str = "kubernetes-fleet.io/deleteStage";

/// The longest part of a name in the name of a binding.
const BINDING_PART: usize = 26;

/// The namespace on the hub that belongs to a member.
pub fn member_namespace(member: &str) -> String {
    format!("fleet-member-{member}")
}

pub fn policy_snapshot(placement: &str, index: u64) -> String {
    format!("{placement}-{index}")
}

/// The name of a resource snapshot: the master, or one of the others, numbered from 0.
pub fn resource_snapshot(placement: &str, index: u64, sub: Option<usize>) -> String {
    match sub {
        None => format!("{placement}-{index}-snapshot"),
        Some(sub) => format!("{placement}-{index}-{sub}"),
    }
}

/// The name of a binding. `random` makes it unique: eight characters of a UUID.
pub fn binding(placement: &str, cluster: &str, random: &str) -> String {
    let part = |name: &str| {
        let cut: String = name.chars().take(BINDING_PART).collect();
        cut.replace('.', "-")
    };
    format!("{}-{}-{random}", part(placement), part(cluster))
}

/// The prefix of the names of a placement's Works.
pub fn work_prefix(namespace: Option<&str>, placement: &str) -> String {
    match namespace {
        None => placement.to_owned(),
        Some(namespace) => format!("{namespace}.{placement}"),
    }
}

/// The name of the Work of a resource snapshot.
pub fn work(prefix: &str, sub: Option<usize>) -> String {
    match sub {
        None => format!("{prefix}-work"),
        Some(sub) => format!("{prefix}-{sub}"),
    }
}

/// The name of the Work of an envelope. The original names those of `ConfigMap`s at random; the name is the same after
/// each restart here.
pub fn envelope_work(prefix: &str, type_: EnvelopeType, namespace: &str, name: &str) -> String {
    let digest = Sha256::digest(format!("{}/{namespace}/{name}", type_.as_str()));
    let hex: String = crate::hash::hex_digits(&digest[..8]);
    match type_ {
        EnvelopeType::ConfigMap => format!("{prefix}-configmap-{hex}"),
        _ => format!("{prefix}-envelope-{hex}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::apply::{LAST_APPLIED, MANIFEST_HASH};

    #[test]
    fn keys_are_those_of_the_original() {
        let keys = [
            (PLACEMENT_FINALIZER, "crp-cleanup"),
            (SCHEDULER_FINALIZER, "scheduler-cleanup"),
            (BINDING_FINALIZER, "scheduler-crb-cleanup"),
            (WORK_FINALIZER, "work-cleanup"),
            (OVERRIDE_FINALIZER, "override-cleanup"),
            (MEMBER_FINALIZER, "membercluster-finalizer"),
            (RUN_FINALIZER, "stagedupdaterun-finalizer"),
            (PARENT_PLACEMENT, "parent-CRP"),
            (PARENT_NAMESPACE, "parent-placement-namespace"),
            (PARENT_BINDING, "parent-resource-binding"),
            (PARENT_SNAPSHOT_INDEX, "parent-resource-snapshot-index"),
            (PARENT_OVERRIDE, "parent-resource-override"),
            (IS_LATEST, "is-latest-snapshot"),
            (RESOURCE_INDEX, "resource-index"),
            (POLICY_INDEX, "policy-index"),
            (OVERRIDE_INDEX, "override-index"),
            (ENVELOPE_TYPE, "envelope-work"),
            (ENVELOPE_NAME, "envelope-name"),
            (ENVELOPE_NAMESPACE, "envelope-namespace"),
            (IS_FLEET_RESOURCE, "is-fleet-resource"),
            (MEMBER_NAME, "member-name"),
            (TARGET_RUN, "targetUpdateRun"),
            (TARGET_STAGE, "targetUpdatingStage"),
            (IS_LATEST_APPROVAL, "isLatestUpdateRunApproval"),
            (TASK_TYPE, "taskType"),
            (RESOURCE_HASH, "resource-hash"),
            (NUMBER_OF_ENVELOPES, "number-of-enveloped-object"),
            (NUMBER_OF_SNAPSHOTS, "number-of-resource-snapshots"),
            (SNAPSHOT_SUBINDEX, "subindex-of-resource-snapshot"),
            (
                CANDIDATE_TIME,
                "next-resource-snapshot-candidate-detection-time",
            ),
            (PLACEMENT_GENERATION, "CRP-generation"),
            (NUMBER_OF_CLUSTERS, "number-of-clusters"),
            (ENVELOPE_CONFIG_MAP, "envelope-configmap"),
            (PREVIOUS_STATE, "previous-binding-state"),
            (PARENT_SNAPSHOT, "parent-resource-snapshot-name"),
            (
                RESOURCE_OVERRIDES_HASH,
                "parent-resource-override-snapshot-hash",
            ),
            (
                CLUSTER_OVERRIDES_HASH,
                "parent-cluster-resource-override-snapshot-hash",
            ),
            (DELETION_STAGE, "deleteStage"),
            (MANIFEST_HASH, "spec-hash"),
            (LAST_APPLIED, "last-applied-configuration"),
        ];
        for (key, wanted) in keys {
            assert_eq!(key, format!("kubernetes-fleet.io/{wanted}"));
        }
    }

    #[test]
    fn names_are_those_of_the_original() {
        assert_eq!(resource_snapshot("crp-1", 4, None), "crp-1-4-snapshot");
        assert_eq!(resource_snapshot("crp-1", 4, Some(0)), "crp-1-4-0");
        assert_eq!(work(&work_prefix(None, "p"), None), "p-work");
        assert_eq!(work(&work_prefix(Some("ns"), "p"), Some(0)), "ns.p-0");
        let long = "a".repeat(40);
        assert_eq!(binding(&long, &long, "12345678").len(), 62);
        assert_eq!(policy_snapshot("p", 3), "p-3");
        assert_eq!(member_namespace("m"), "fleet-member-m");
    }

    #[test]
    fn the_work_of_an_envelope_is_named_by_its_identity() {
        let name = envelope_work("p", EnvelopeType::ResourceEnvelope, "ns", "e");
        assert_eq!(name.len(), "p-envelope-".len() + 16);
        let other = envelope_work("p", EnvelopeType::ResourceEnvelope, "ns", "f");
        assert_ne!(name, other);
    }
}
