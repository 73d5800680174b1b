//! The known facts about a placement, from which the next writes follow.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;

use crate::members::Members;
use crate::scheduler::GracePeriods;
use crate::selection::SelectionError;
use crate::snapshots::{Debounce, Scope, Selected};
use crate::types::Metadata;
use crate::types::binding::{Binding, PolicySnapshot, ResourceSnapshot};
use crate::types::overrides::{ClusterResourceOverrideSnapshot, ResourceOverrideSnapshot};
use crate::types::placement::{Placement, StatusReport};
use crate::types::work::WorkOutline;
use crate::works::ScopeOf;

/// The settings of the hub that decisions depend on.
#[derive(Clone, Copy, Debug)]
pub struct HubPolicy {
    pub debounce: Debounce,
    pub windows: GracePeriods,
}

/// The writes of a pass that failed without ending it.
#[derive(Debug, Default)]
pub struct WriteFailures {
    /// The reasons why Works could not be written, by binding.
    pub works: BTreeMap<String, String>,
    /// The reason why the copy of the status could not be written.
    pub report: Option<String>,
}

impl WriteFailures {
    pub fn is_any(&self) -> bool {
        !self.works.is_empty() || self.report.is_some()
    }
}

/// A warning about an object of the placement.
#[derive(Debug)]
pub struct HubWarning {
    pub kind: &'static str,
    pub about: Metadata,
    pub reason: &'static str,
    pub message: String,
}

/// The known facts about a placement and everything that it depends on.
#[derive(Clone, Copy)]
pub struct PlacementView<'a> {
    pub scope: Scope,
    /// `None` if it is gone.
    pub placement: Option<&'a Placement>,
    pub policies: &'a [PolicySnapshot],
    pub snapshots: &'a [ResourceSnapshot],
    pub bindings: &'a [Binding],
    pub works: &'a [WorkOutline],
    pub clusters: &'a Members,
    pub cluster_overrides: &'a [Arc<ClusterResourceOverrideSnapshot>],
    pub overrides: &'a [Arc<ResourceOverrideSnapshot>],
    pub selected: Result<&'a Selected, &'a SelectionError>,
    pub scope_of: &'a ScopeOf<'a>,
    /// The copy of the status in the namespace that is placed.
    pub report: Option<&'a StatusReport>,
    pub failures: &'a WriteFailures,
    pub policy: HubPolicy,
    pub now: Timestamp,
    /// The time in the format of conditions.
    pub time: &'a str,
}
