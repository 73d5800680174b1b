//! The placements that a change of a member concerns.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::types::cluster::MemberCluster;
use crate::types::placement::Placement;
use crate::types::policy::{ClusterSelectorTerm, PlacementPolicy, PlacementType};
use crate::types::{ConditionStatus, condition};

/// A change of a member. Each kind includes the kinds before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum MemberChange {
    /// The measurements of the member: properties and resources.
    Measures,
    /// Whether anything may be placed on it: taints, namespaces, whether it is joined and well.
    Standing,
    /// The identity of the member: labels, and whether it leaves.
    Identity,
}

/// The parts of a member that scheduling uses, without its heartbeat; from identity to measurements.
pub fn member_traits(member: &MemberCluster) -> [(MemberChange, Value); 3] {
    let properties = member.status.properties.iter();
    let properties: BTreeMap<&String, &String> = properties
        .map(|(name, property)| (name, &property.value))
        .collect();
    let usage = &member.status.resource_usage;
    let agent = member.status.member_agent();
    let joined = agent.and_then(|agent| condition(&agent.conditions, "Joined"));
    let healthy = agent.and_then(|agent| condition(&agent.conditions, "Healthy"));
    let collected = condition(&member.status.conditions, "NamespaceCollectionSucceeded");
    let metadata = &member.metadata;
    [
        (
            MemberChange::Identity,
            json!([metadata.uid, metadata.labels, metadata.in_deletion()]),
        ),
        (
            MemberChange::Standing,
            json!([
                member.spec.taints,
                member.status.namespaces,
                joined.map(|one| one.status),
                healthy.map(|one| one.status),
                collected.map(|one| one.status),
            ]),
        ),
        (
            MemberChange::Measures,
            json!([
                properties,
                usage.capacity,
                usage.allocatable,
                usage.available
            ]),
        ),
    ]
}

/// The least that has to change of a member for a placement to be looked at again. One that has all its clusters stays
/// with them, whatever they measure.
pub fn interest(placement: &Placement) -> MemberChange {
    let policy = placement.spec.policy.as_ref();
    let scheduled = match placement.metadata.namespace {
        None => "ClusterResourcePlacementScheduled",
        Some(_) => "ResourcePlacementScheduled",
    };
    let scheduled = condition(&placement.status.conditions, scheduled);
    let has_all = placement.spec.placement_type() != PlacementType::PickAll
        && scheduled.is_some_and(|one| {
            one.status == ConditionStatus::True && one.is_fresh(placement.metadata.generation)
        });
    if has_all {
        MemberChange::Identity
    } else if policy.is_some_and(measures) {
        MemberChange::Measures
    } else {
        MemberChange::Standing
    }
}

/// Whether a policy depends on what members measure.
fn measures(policy: &PlacementPolicy) -> bool {
    let affinity = policy.affinity.as_ref();
    let Some(affinity) = affinity.and_then(|affinity| affinity.cluster_affinity.as_ref()) else {
        return false;
    };
    let required = affinity.required.iter();
    let required = required.flat_map(|required| &required.cluster_selector_terms);
    let preferred = affinity.preferred.iter().map(|one| &one.preference);
    let measures = |term: &ClusterSelectorTerm| {
        term.property_selector.is_some() || term.property_sorter.is_some()
    };
    required.chain(preferred).any(measures)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::member;

    fn placement(policy: &Value, scheduled: &str, generation: i64) -> Placement {
        let placement = json!({
            "metadata": {"name": "p", "generation": 2},
            "spec": {"resourceSelectors": [], "policy": policy},
            "status": {"conditions": [{"type": "ClusterResourcePlacementScheduled", "status": scheduled,
                "reason": "R", "message": "", "observedGeneration": generation}]},
        });
        serde_json::from_value(placement).unwrap()
    }

    #[test]
    fn a_placement_that_has_its_clusters_hears_only_of_members_that_change_who_they_are() {
        let two = || json!({"placementType": "PickN", "numberOfClusters": 2});
        let sorted = json!({"placementType": "PickN", "numberOfClusters": 2, "affinity": {"clusterAffinity": {
            "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1, "preference": {
                "propertySorter": {"name": "kubernetes-fleet.io/node-count", "sortOrder": "Ascending"}}}]}}});
        for (policy, scheduled, generation, expected) in [
            (two(), "True", 2, MemberChange::Identity),
            (two(), "True", 1, MemberChange::Standing),
            (two(), "False", 2, MemberChange::Standing),
            (
                json!({"placementType": "PickAll"}),
                "True",
                2,
                MemberChange::Standing,
            ),
            (sorted.clone(), "False", 2, MemberChange::Measures),
            (sorted, "True", 2, MemberChange::Identity),
        ] {
            let placement = placement(&policy, scheduled, generation);
            assert_eq!(interest(&placement), expected, "{placement:?}");
        }
    }

    #[test]
    fn heartbeats_are_no_reason_to_schedule_again() {
        let mut one = member("a", &json!({}));
        let before = member_traits(&one);
        one.status.agent_status[0].last_received_heartbeat =
            Some("2026-01-01T11:59:59Z".to_owned());
        assert_eq!(member_traits(&one), before);
        one.metadata.labels.insert("l".to_owned(), "v".to_owned());
        assert_ne!(member_traits(&one), before);
    }
}
