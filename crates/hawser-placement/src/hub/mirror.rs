//! The status of placed objects that is reported back to the objects on the hub.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::names;
use crate::types::binding::{Binding, BindingState, ResourceSnapshot};
use crate::types::placement::{
    Placement, ReportBackDestination, ReportBackStrategyType, ResourceIdentifier,
};
use crate::types::policy::PlacementType;
use crate::types::work::WorkOutline;

/// The statuses for objects on the hub, each with its object. Only a placement that is made for one cluster has them:
/// several clusters would contradict each other. Objects in envelopes are left out, because they are not objects of the
/// hub, and so are objects that no snapshot of the placement contains: a member may report whatever it likes.
pub fn statuses<'a>(
    placement: &Placement,
    bindings: &[Binding],
    works: &'a [WorkOutline],
    snapshots: &[ResourceSnapshot],
) -> Vec<(ResourceIdentifier, &'a Value)> {
    let strategy = placement.spec.strategy.report_back_strategy.as_ref();
    let is_wanted = strategy.is_some_and(|one| {
        one.type_ == ReportBackStrategyType::Mirror
            && one.destination == Some(ReportBackDestination::OriginalResource)
    });
    let policy = placement.spec.policy.as_ref();
    let is_one = policy.is_some_and(|policy| match policy.placement_type {
        PlacementType::PickAll => false,
        PlacementType::PickN => policy.number_of_clusters == Some(1),
        PlacementType::PickFixed => policy.cluster_names.len() == 1,
    });
    // While the placement moves, two clusters report.
    let mut bound = bindings
        .iter()
        .filter(|one| one.spec.state == BindingState::Bound && !one.metadata.in_deletion());
    let (true, Some(binding), None) = (is_wanted && is_one, bound.next(), bound.next()) else {
        return Vec::new();
    };
    let parent = Some(&*binding.metadata.name);
    let namespace = names::member_namespace(&binding.spec.target_cluster);
    let works = works.iter().filter(|work| {
        work.metadata.label(names::PARENT_BINDING) == parent
            && work.metadata.namespace.as_deref() == Some(&*namespace)
            && work.metadata.label(names::ENVELOPE_TYPE).is_none()
    });
    let selected = snapshots
        .iter()
        .flat_map(|one| &one.spec.selected_resources);
    let selected: BTreeSet<ResourceIdentifier> = selected.map(ResourceIdentifier::of).collect();
    let manifests = works.flat_map(|work| &work.status.manifest_conditions);
    let statuses = manifests.filter_map(|manifest| {
        let reported = manifest.back_reported_status.as_ref()?;
        let status = reported.observed_status.get("status")?;
        let of = &manifest.identifier;
        let identifier = ResourceIdentifier {
            group: of.group.clone(),
            version: of.version.clone(),
            kind: of.kind.clone(),
            name: of.name.clone(),
            namespace: of.namespace.clone(),
            envelope: None,
        };
        (status.is_object() && selected.contains(&identifier)).then_some((identifier, status))
    });
    statuses.collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::fixtures;

    fn placement(policy: &Value, strategy: &Value) -> Placement {
        let placement = json!({"metadata": {"name": "p"}, "spec": {
            "resourceSelectors": [], "policy": policy,
            "strategy": {"reportBackStrategy": strategy}}});
        serde_json::from_value(placement).unwrap()
    }

    fn work(labels: &Value) -> WorkOutline {
        work_in("fleet-member-a", labels)
    }

    fn work_in(namespace: &str, labels: &Value) -> WorkOutline {
        let metadata = json!({"name": "w", "namespace": namespace, "labels": labels});
        let work = json!({"metadata": metadata, "spec": {}, "status": {
            "conditions": [],
            "manifestConditions": [
                {"identifier": {"ordinal": 0, "version": "v1", "kind": "Service", "name": "s", "namespace": "app"},
                 "conditions": [],
                 "backReportedStatus": {"observationTime": "2026-01-01T12:00:00Z", "observedStatus":
                    {"apiVersion": "v1", "kind": "Service", "status": {"loadBalancer": {}}}}},
                {"identifier": {"ordinal": 1, "version": "v1", "kind": "ConfigMap", "name": "c", "namespace": "app"},
                 "conditions": [],
                 "backReportedStatus": {"observationTime": "2026-01-01T12:00:00Z", "observedStatus":
                    {"apiVersion": "v1", "kind": "ConfigMap"}}},
            ],
        }});
        serde_json::from_value(work).unwrap()
    }

    fn snapshots() -> Vec<ResourceSnapshot> {
        let selected = ["Service", "ConfigMap"].map(|kind| {
            let name = kind[..1].to_lowercase();
            json!({"apiVersion": "v1", "kind": kind, "metadata": {"name": name, "namespace": "app"}})
        });
        let snapshot =
            json!({"metadata": {"name": "p-0-snapshot"}, "spec": {"selectedResources": selected}});
        vec![serde_json::from_value(snapshot).unwrap()]
    }

    #[test]
    fn a_member_reports_nothing_about_objects_that_it_was_not_given() {
        let original = json!({"type": "Mirror", "destination": "OriginalResource"});
        let placement = placement(
            &json!({"placementType": "PickN", "numberOfClusters": 1}),
            &original,
        );
        let bindings = [fixtures::binding("a", BindingState::Bound, "p-0")];
        let its = json!({names::PARENT_BINDING: "b-a"});
        let count =
            |works: &[WorkOutline]| statuses(&placement, &bindings, works, &snapshots()).len();
        assert_eq!(count(&[work(&its)]), 1);
        assert_eq!(count(&[work_in("fleet-member-b", &its)]), 0);
        let mut forged = work(&its);
        for one in &mut forged.status.manifest_conditions {
            "other".clone_into(&mut one.identifier.name);
        }
        assert_eq!(count(&[forged]), 0);
    }

    #[test]
    fn the_status_comes_back_from_the_only_cluster_of_a_placement() {
        let original = json!({"type": "Mirror", "destination": "OriginalResource"});
        let one = json!({"placementType": "PickN", "numberOfClusters": 1});
        let bindings = [fixtures::binding("a", BindingState::Bound, "p-0")];
        let its = json!({names::PARENT_BINDING: "b-a"});
        let count = |policy: &Value, strategy: &Value, bindings: &[Binding], labels: &Value| {
            let works = [work(labels)];
            statuses(&placement(policy, strategy), bindings, &works, &snapshots()).len()
        };
        let works = [work(&its)];
        let snapshots = snapshots();
        let found = statuses(&placement(&one, &original), &bindings, &works, &snapshots);
        assert_eq!(found.len(), 1, "a ConfigMap has no status");
        assert_eq!(found[0].0.name, "s");
        assert_eq!(*found[0].1, json!({"loadBalancer": {}}));
        let fixed = json!({"placementType": "PickFixed", "clusterNames": ["a"]});
        assert_eq!(count(&fixed, &original, &bindings, &its), 1);
        for policy in [
            json!({"placementType": "PickAll"}),
            json!({"placementType": "PickN", "numberOfClusters": 2}),
            json!({"placementType": "PickFixed", "clusterNames": ["a", "b"]}),
        ] {
            assert_eq!(count(&policy, &original, &bindings, &its), 0, "{policy}");
        }
        for strategy in [
            json!({"type": "Mirror", "destination": "WorkAPI"}),
            json!({"type": "Disabled"}),
            Value::Null,
        ] {
            assert_eq!(count(&one, &strategy, &bindings, &its), 0, "{strategy}");
        }
        let two = [
            fixtures::binding("a", BindingState::Bound, "p-0"),
            fixtures::binding("b", BindingState::Bound, "p-0"),
        ];
        assert_eq!(count(&one, &original, &two, &its), 0);
        let other = json!({names::PARENT_BINDING: "b-b"});
        assert_eq!(count(&one, &original, &bindings, &other), 0);
        let wrapped = json!({names::PARENT_BINDING: "b-a", names::ENVELOPE_TYPE: "ConfigMap"});
        assert_eq!(count(&one, &original, &bindings, &wrapped), 0);
    }
}
