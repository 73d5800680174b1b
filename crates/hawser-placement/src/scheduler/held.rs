//! The bindings of a placement while its clusters are picked.

use std::cmp::Ordering;
use std::collections::HashMap;

use super::fleet::Fleet;
use super::fleet::{Request, ScheduleError};
use crate::names::{BINDING_FINALIZER, PREVIOUS_STATE};
use crate::types::binding::{Binding, BindingState, ClusterDecision};

/// The required writes: creations first, then changes, then unscheduled bindings.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Plan {
    /// Bindings in deletion that the scheduler releases.
    pub release: Vec<String>,
    pub create: Vec<ClusterDecision>,
    pub change: Vec<ChangedBinding>,
    pub unschedule: Vec<UnscheduledBinding>,
    /// Whether the policy is fulfilled.
    pub fulfilled: bool,
    /// The decisions for the status of the policy snapshot.
    pub decisions: Vec<ClusterDecision>,
}

/// A binding that moves to the current policy, and is restored if it was unscheduled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChangedBinding {
    pub name: String,
    pub state: BindingState,
    pub decision: ClusterDecision,
}

/// A binding whose cluster is no longer picked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnscheduledBinding {
    pub name: String,
    /// For the annotation that a restored binding is read from.
    pub previous: BindingState,
}

pub(super) struct Bindings<'a> {
    held: Vec<BoundCluster<'a>>,
    by_cluster: HashMap<&'a str, Vec<usize>>,
    release: Vec<String>,
}

struct BoundCluster<'a> {
    /// `None` for a binding that is created.
    stored: Option<&'a Binding>,
    cluster: &'a str,
    state: BindingState,
    /// True if the binding is of the current policy.
    is_current: bool,
    decision: ClusterDecision,
    /// True if the binding was picked in this pass.
    is_changed: bool,
}

impl BoundCluster<'_> {
    fn is_live(&self) -> bool {
        self.is_current && self.state != BindingState::Unscheduled
    }

    fn is_obsolete(&self) -> bool {
        !self.is_current && self.state != BindingState::Unscheduled
    }

    /// The order in which bindings are dropped: not yet bound ones first, then the lowest scores.
    fn compare_to_drop(&self, other: &Self) -> Ordering {
        let rank = |held: &Self| {
            let bound = held.state == BindingState::Bound;
            let score = held.decision.cluster_score;
            let score = score.map(|score| (score.topology_spread_score, score.affinity_score));
            (bound, score)
        };
        let names = |held: &Self| held.stored.map(|stored| stored.metadata.name.as_str());
        rank(self)
            .cmp(&rank(other))
            .then_with(|| self.cluster.cmp(other.cluster))
            .then_with(|| names(self).cmp(&names(other)))
    }
}

impl<'a> Bindings<'a> {
    pub(super) fn new(request: &Request<'a>, fleet: &Fleet<'a>) -> Self {
        let mut all = Self {
            held: Vec::new(),
            by_cluster: HashMap::new(),
            release: Vec::new(),
        };
        for stored in request.bindings {
            if stored.metadata.in_deletion() {
                let finalizers = &stored.metadata.finalizers;
                if finalizers.iter().any(|name| name == BINDING_FINALIZER) {
                    all.release.push(stored.metadata.name.clone());
                }
                continue;
            }
            let spec = &stored.spec;
            // A cluster that left, or is about to.
            let is_dangling = !fleet.is_staying(&spec.target_cluster);
            all.push(BoundCluster {
                stored: Some(stored),
                cluster: &spec.target_cluster,
                state: if is_dangling {
                    BindingState::Unscheduled
                } else {
                    spec.state
                },
                is_current: spec.scheduling_policy_snapshot_name == request.policy_snapshot,
                decision: spec.cluster_decision.clone(),
                is_changed: false,
            });
        }
        all
    }

    fn push(&mut self, held: BoundCluster<'a>) {
        let of_cluster = self.by_cluster.entry(held.cluster).or_default();
        of_cluster.push(self.held.len());
        self.held.push(held);
    }

    /// The first binding to a cluster that `fits`.
    fn find(
        &mut self,
        cluster: &str,
        fits: impl Fn(&BoundCluster<'a>) -> bool,
    ) -> Option<&mut BoundCluster<'a>> {
        let places = self.by_cluster.get(cluster)?;
        let place = places.iter().find(|place| fits(&self.held[**place]))?;
        self.held.get_mut(*place)
    }

    /// The number of bindings of the current policy.
    pub(super) fn current(&self) -> usize {
        self.held.iter().filter(|held| held.is_live()).count()
    }

    /// The clusters of the current policy.
    pub(super) fn clusters(&self) -> impl Iterator<Item = &'a str> + Clone {
        let live = self.held.iter().filter(|held| held.is_live());
        live.map(|held| held.cluster)
    }

    /// The clusters of bindings of older policies.
    pub(super) fn obsolete_clusters(&self) -> impl Iterator<Item = &'a str> {
        let obsolete = self.held.iter().filter(|held| held.is_obsolete());
        obsolete.map(|held| held.cluster)
    }

    pub(super) fn is_current(&self, cluster: &str) -> bool {
        let places = self.by_cluster.get(cluster).into_iter().flatten();
        places.into_iter().any(|place| self.held[*place].is_live())
    }

    pub(super) fn decisions(&self) -> impl Iterator<Item = &ClusterDecision> {
        let live = self.held.iter().filter(|held| held.is_live());
        live.map(|held| &held.decision)
    }

    /// Binds to a picked cluster: by an obsolete binding, by an unscheduled one, or by a new one.
    pub(super) fn bind(
        &mut self,
        cluster: &'a str,
        decision: ClusterDecision,
    ) -> Result<(), ScheduleError> {
        if let Some(held) = self.find(cluster, BoundCluster::is_obsolete) {
            held.is_current = true;
            held.is_changed = true;
            held.decision = decision;
            return Ok(());
        }
        let is_unscheduled = |held: &BoundCluster<'_>| held.state == BindingState::Unscheduled;
        if let Some(held) = self.find(cluster, is_unscheduled) {
            held.state = previous_state(held)?;
            held.is_current = true;
            held.is_changed = true;
            held.decision = decision;
            return Ok(());
        }
        self.push(BoundCluster {
            stored: None,
            cluster,
            state: BindingState::Scheduled,
            is_current: true,
            decision,
            is_changed: true,
        });
        Ok(())
    }

    /// Unschedules bindings of older policies, of the clusters that `goes` names.
    pub(super) fn unschedule_obsolete(&mut self, goes: impl Fn(&str) -> bool) {
        for held in &mut self.held {
            if held.is_obsolete() && goes(held.cluster) {
                held.state = BindingState::Unscheduled;
            }
        }
    }

    /// Unschedules the worst of the current policy.
    pub(super) fn drop_worst(&mut self, number: usize) {
        let mut live: Vec<&mut BoundCluster<'_>> =
            self.held.iter_mut().filter(|held| held.is_live()).collect();
        live.sort_by(|a, b| a.compare_to_drop(b));
        for held in live.into_iter().take(number) {
            held.state = BindingState::Unscheduled;
        }
    }

    /// The differences from the stored bindings.
    pub(super) fn plan(self) -> Plan {
        let mut plan = Plan {
            release: self.release,
            ..Plan::default()
        };
        for held in self.held {
            let Some(stored) = held.stored else {
                plan.create.push(held.decision);
                continue;
            };
            let name = stored.metadata.name.clone();
            let before = stored.spec.state;
            if held.state == BindingState::Unscheduled {
                if before != BindingState::Unscheduled {
                    plan.unschedule.push(UnscheduledBinding {
                        name,
                        previous: before,
                    });
                }
            } else if held.is_changed {
                plan.change.push(ChangedBinding {
                    name,
                    state: held.state,
                    decision: held.decision,
                });
            }
        }
        plan
    }
}

/// The state to which an unscheduled binding returns.
fn previous_state(held: &BoundCluster<'_>) -> Result<BindingState, ScheduleError> {
    let Some(stored) = held.stored else {
        return Ok(BindingState::Scheduled);
    };
    if stored.spec.state != BindingState::Unscheduled {
        return Ok(stored.spec.state);
    }
    match stored.metadata.annotation(PREVIOUS_STATE) {
        Some("Bound") => Ok(BindingState::Bound),
        Some("Scheduled") => Ok(BindingState::Scheduled),
        _ => Err(ScheduleError::PreviousState(stored.metadata.name.clone())),
    }
}
