//! The size of a status. A server stores objects of up to 1.5 MiB, and refuses a larger status as a whole.

use crate::types::Condition;
use crate::types::ConditionStatus;
use crate::types::binding::BindingStatus;
use crate::types::placement::{
    DiffedPlacement, DriftedPlacement, FailedPlacement, PatchDetail, PlacementStatus,
    ResourceIdentifier,
};

/// The bytes that a status may have beside the rest of its object.
const MOST: usize = 1_300_000;
/// The bytes for the names of the fields of a condition or an entry, and for times.
const FIELDS: usize = 150;
/// The resources of a cluster that are still listed as failed when there is little room.
const FEW: usize = 5;

/// The details of one cluster in a status.
struct ClusterDetails<'a> {
    conditions: &'a mut Vec<Condition>,
    failed: &'a mut Vec<FailedPlacement>,
    drifted: &'a mut Vec<DriftedPlacement>,
    diffed: &'a mut Vec<DiffedPlacement>,
}

/// Leaves out details of a placement's status, the least important first, until it can be stored.
pub(crate) fn fit_placement(status: &mut PlacementStatus) {
    let clusters = status.placement_statuses.iter_mut();
    let clusters = clusters.map(|one| ClusterDetails {
        conditions: &mut one.conditions,
        failed: &mut one.failed_placements,
        drifted: &mut one.drifted_placements,
        diffed: &mut one.diffed_placements,
    });
    let mut clusters: Vec<ClusterDetails<'_>> = clusters.collect();
    let told: usize = clusters.iter().map(ClusterDetails::bytes).sum();
    // The list of resources has what clusters leave, and half of the room in any case.
    let most = MOST - told.min(MOST / 2);
    let mut bytes = 0;
    let listed = status.selected_resources.iter().take_while(|one| {
        bytes += identifier(one);
        bytes <= most
    });
    let listed = listed.count();
    status.selected_resources.truncate(listed);
    fit(&mut clusters, MOST - bytes.min(most));
}

/// Leaves out details of a binding's status in the same order.
pub(crate) fn fit_binding(status: &mut BindingStatus) {
    let details = ClusterDetails {
        conditions: &mut status.conditions,
        failed: &mut status.failed_placements,
        drifted: &mut status.drifted_placements,
        diffed: &mut status.diffed_placements,
    };
    fit(&mut [details], MOST);
}

fn fit(clusters: &mut [ClusterDetails<'_>], most: usize) {
    let steps: [fn(&mut ClusterDetails<'_>); 4] = [
        |of| of.drop_fields(),
        |of| of.drop_differences(),
        |of| of.drop_failures(),
        |of| of.drop_messages(),
    ];
    for step in steps {
        if clusters.iter().map(ClusterDetails::bytes).sum::<usize>() <= most {
            return;
        }
        clusters.iter_mut().for_each(step);
    }
}

impl ClusterDetails<'_> {
    fn bytes(&self) -> usize {
        let conditions = self.conditions.iter().map(condition);
        let failed = self.failed.iter();
        let failed = failed.map(|one| identifier(&one.identifier) + condition(&one.condition));
        let drifted = self.drifted.iter();
        let drifted = drifted.map(|one| fields(&one.identifier, &one.observed_drifts));
        let diffed = self.diffed.iter();
        let diffed = diffed.map(|one| fields(&one.identifier, &one.observed_diffs));
        let all = conditions.chain(failed).chain(drifted).chain(diffed);
        // The cluster, its index and its overrides.
        FIELDS + all.sum::<usize>()
    }

    fn drop_fields(&mut self) {
        let drifted = self.drifted.iter_mut();
        drifted.for_each(|one| one.observed_drifts.clear());
        let diffed = self.diffed.iter_mut();
        diffed.for_each(|one| one.observed_diffs.clear());
    }

    fn drop_differences(&mut self) {
        self.drifted.clear();
        self.diffed.clear();
    }

    fn drop_failures(&mut self) {
        self.failed.truncate(FEW);
        let failed = self.failed.iter_mut();
        failed.for_each(|one| one.condition.message.clear());
    }

    fn drop_messages(&mut self) {
        self.failed.clear();
        let said = self.conditions.iter_mut();
        let said = said.filter(|one| one.status == ConditionStatus::True);
        said.for_each(|one| one.message.clear());
    }
}

fn condition(one: &Condition) -> usize {
    FIELDS + one.type_.len() + one.reason.len() + text(&one.message)
}

fn identifier(one: &ResourceIdentifier) -> usize {
    let envelope = one.envelope.as_ref();
    let envelope = envelope.map_or(0, |one| FIELDS + one.name.len() + one.namespace.len());
    // The names of five fields.
    let own = [
        &one.group,
        &one.version,
        &one.kind,
        &one.name,
        &one.namespace,
    ];
    own.iter().map(|one| one.len()).sum::<usize>() + 60 + envelope
}

fn fields(of: &ResourceIdentifier, fields: &[PatchDetail]) -> usize {
    let fields = fields
        .iter()
        .map(|one| FIELDS + text(&one.path) + text(&one.value_in_member) + text(&one.value_in_hub));
    FIELDS + identifier(of) + fields.sum::<usize>()
}

/// The bytes of a text as Go writes it: some characters take six.
fn text(text: &str) -> usize {
    let long = |byte: &u8| *byte < 0x20 || matches!(byte, b'<' | b'>' | b'&' | b'"' | b'\\');
    text.len() + 5 * text.as_bytes().iter().filter(|byte| long(byte)).count()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::types::placement::ClusterPlacementStatus;

    fn drifted(value: &str) -> DriftedPlacement {
        DriftedPlacement {
            observed_drifts: vec![PatchDetail {
                path: "/data/k".to_owned(),
                value_in_member: value.to_owned(),
                value_in_hub: String::new(),
            }],
            ..DriftedPlacement::default()
        }
    }

    fn said(message: &str) -> Condition {
        Condition {
            type_: "Applied".to_owned(),
            status: ConditionStatus::True,
            reason: "AllWorkHaveBeenApplied".to_owned(),
            message: message.to_owned(),
            ..Condition::default()
        }
    }

    #[test]
    fn a_binding_names_what_drifted_when_the_values_are_too_large() {
        let mut status = BindingStatus {
            drifted_placements: vec![drifted("small")],
            ..BindingStatus::default()
        };
        let whole = status.clone();
        fit_binding(&mut status);
        assert_eq!(status, whole);
        // Each of these takes six bytes.
        status.drifted_placements[0] = drifted(&"<".repeat(MOST / 6));
        fit_binding(&mut status);
        assert_eq!(status.drifted_placements.len(), 1);
        assert!(status.drifted_placements[0].observed_drifts.is_empty());
    }

    #[test]
    fn the_status_of_a_thousand_members_can_be_stored() {
        let cluster = |number: usize, failed: usize| ClusterPlacementStatus {
            cluster_name: format!("member-{number}"),
            conditions: vec![said(&"m".repeat(60)); 6],
            failed_placements: vec![
                FailedPlacement {
                    condition: said(&"f".repeat(500)),
                    ..FailedPlacement::default()
                };
                failed
            ],
            drifted_placements: vec![drifted("v"); failed],
            ..ClusterPlacementStatus::default()
        };
        let of = |failed: usize| PlacementStatus {
            placement_statuses: (0..1000).map(|number| cluster(number, failed)).collect(),
            selected_resources: vec![
                ResourceIdentifier {
                    name: "n".repeat(60),
                    ..ResourceIdentifier::default()
                };
                10_000
            ],
            ..PlacementStatus::default()
        };
        let mut large = PlacementStatus {
            selected_resources: of(0).selected_resources,
            ..PlacementStatus::default()
        };
        fit_placement(&mut large);
        assert_eq!(large.selected_resources.len(), 10_000);
        for failed in [0, 1, 100] {
            let mut status = of(failed);
            fit_placement(&mut status);
            let stored = kube_lang::go_json::to_string(&json!(status)).len();
            assert!(stored < 1_500_000, "{stored} bytes with {failed} failures");
            assert_eq!(status.placement_statuses.len(), 1000);
            assert!(status.placement_statuses[999].conditions.len() == 6);
        }
    }
}
