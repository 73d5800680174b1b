//! Objects that passes of the hub parsed, each once for a version.

use std::collections::HashMap;
use std::sync::Arc;

use tokio::time::Instant;

use hawser_placement::members::Members;
use hawser_placement::snapshots::Selected;
use hawser_placement::types::Metadata;
use hawser_placement::types::binding::{Binding, PolicySnapshot, ResourceSnapshot};
use hawser_placement::types::cluster::MemberCluster;
use hawser_placement::types::eviction::Eviction;
use hawser_placement::types::overrides::{
    ClusterResourceOverride, ClusterResourceOverrideSnapshot, ResourceOverride,
    ResourceOverrideSnapshot,
};
use hawser_placement::types::work::WorkOutline;
use hawser_runtime::cluster::cache::{Forms, LabelledForms};
use hawser_runtime::controller::SharedWatch;

use super::events::SelectionTime;
use super::key::PlacementId;

/// The bytes of JSON that are kept parsed between the passes over placements.
const RECENT: usize = 8 << 20;

/// The stored objects of a placement, each parsed once for a version.
#[derive(Default)]
pub struct PlacementForms {
    pub(super) policies: LabelledForms<PolicySnapshot>,
    pub(super) snapshots: LabelledForms<ResourceSnapshot>,
    pub(super) bindings: LabelledForms<Binding>,
    pub(super) works: LabelledForms<WorkOutline>,
    /// The selected objects, and the time of the selection.
    pub(super) selected: Option<(SelectionTime, Arc<Selected>)>,
    /// The time of the first write for members since the last report of the status.
    pub(super) unreported: Option<Instant>,
}

impl PlacementForms {
    fn bytes(&self) -> usize {
        let selected = self.selected.as_ref();
        let selected = selected.map_or(0, |(_, selected)| selected.bytes());
        let stored = self.policies.bytes() + self.snapshots.bytes() + self.bindings.bytes();
        stored + self.works.bytes() + selected
    }

    /// Keeps no resources: what was selected, and what snapshots have.
    pub(super) fn forget_resources(&mut self) {
        self.snapshots = LabelledForms::default();
        self.selected = None;
    }
}

/// The facts known at the end of passes, for the placements that were processed last.
#[derive(Default)]
pub struct FormCache {
    young: HashMap<PlacementId, PlacementForms>,
    old: HashMap<PlacementId, PlacementForms>,
    /// The size of the young entries.
    bytes: usize,
}

impl FormCache {
    pub(super) fn take(&mut self, id: &PlacementId) -> PlacementForms {
        if let Some(known) = self.young.remove(id) {
            self.bytes = self.bytes.saturating_sub(known.bytes());
            return known;
        }
        self.old.remove(id).unwrap_or_default()
    }

    pub(super) fn put(&mut self, id: &PlacementId, known: PlacementForms) {
        if self.bytes > RECENT / 2 {
            self.old = std::mem::take(&mut self.young);
            self.bytes = 0;
        }
        self.bytes += known.bytes();
        self.young.insert(id.clone(), known);
    }
}

/// The objects that every placement depends on, each parsed once for a version.
pub struct HubForms {
    pub(super) cluster_override_specs:
        Forms<ClusterResourceOverride, Arc<[Arc<ClusterResourceOverride>]>>,
    pub(super) override_specs: Forms<ResourceOverride, Arc<[Arc<ResourceOverride>]>>,
    pub(super) clusters: Forms<MemberCluster, Members>,
    pub(super) cluster_overrides:
        Forms<ClusterResourceOverrideSnapshot, Arc<[Arc<ClusterResourceOverrideSnapshot>]>>,
    pub(super) evictions: Forms<Eviction, Arc<[Arc<Eviction>]>>,
    pub(super) overrides: Forms<ResourceOverrideSnapshot, Arc<[Arc<ResourceOverrideSnapshot>]>>,
}

impl HubForms {
    /// `watch` watches a kind of the fleet.
    pub fn new(watch: impl Fn(&str) -> Arc<SharedWatch>) -> Self {
        Self {
            cluster_override_specs: Forms::of(watch("ClusterResourceOverride").table()),
            override_specs: Forms::of(watch("ResourceOverride").table()),
            clusters: Forms::of(watch("MemberCluster").table()).or(unreadable_member),
            cluster_overrides: Forms::of(watch("ClusterResourceOverrideSnapshot").table()),
            evictions: Forms::of(watch("ClusterResourcePlacementEviction").table()),
            overrides: Forms::of(watch("ResourceOverrideSnapshot").table()),
        }
    }
}

/// The form of a member that cannot be read: it exists, so that its objects stay, and has no content, so that it gets
/// no new ones.
pub(super) fn unreadable_member(text: &[u8]) -> Option<MemberCluster> {
    #[derive(serde::Deserialize)]
    struct Named {
        metadata: Metadata,
    }
    let Named { metadata } = serde_json::from_slice(text).ok()?;
    Some(MemberCluster {
        metadata,
        ..MemberCluster::default()
    })
}
