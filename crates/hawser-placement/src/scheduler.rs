//! The scheduler: the clusters that a placement is bound to, with reasons.
//!
//! [`schedule`] runs as many cycles as the original would run one after the other, over bindings that it changes in
//! memory, and returns the differences at the end. So a binding that one cycle drops and the next restores is
//! written once, or not at all.
//!
//! | file | step |
//! |---|---|
//! | `eligibility`, `affinity`, `taints`, `spread` | the plugins |
//! | `fleet` | Filter and Score: the verdicts of the plugins about each cluster |
//! | `held` | Bind: bindings and their changes |
//!
//! Differences from the original, on purpose: a member with a property that is not a quantity is filtered out, and
//! does not end the cycle for all others; a listed cluster of a `PickFixed` placement keeps its binding while it is
//! not eligible.

use std::cmp::Reverse;
use std::collections::{BTreeSet, HashMap};
use std::fmt;

use crate::types::binding::{ClusterDecision, ClusterScore};
use crate::types::policy::PlacementType;

mod affinity;
mod eligibility;
mod fleet;
mod held;
mod refusal;
mod spread;
mod taints;
#[cfg(test)]
mod tests;

pub use affinity::AffinityError;
pub(crate) use affinity::check_property_name;
pub use eligibility::GracePeriods;
use fleet::{ClusterVerdict, Fleet};
pub use fleet::{Request, ScheduleError, Scores};
use held::Bindings;
pub use held::{ChangedBinding, Plan, UnscheduledBinding};
pub use refusal::Plugin;
use refusal::Refusal;

/// The most decisions in a status.
const MAX_DECISIONS: usize = 1000;
/// The most decisions about clusters that were not picked.
const MAX_UNSELECTED: usize = 20;

/// The scheduler's verdict about a cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Explanation {
    pub cluster: String,
    pub selected: bool,
    /// The plugin that refused the cluster.
    pub plugin: Option<Plugin>,
    pub scores: Option<Scores>,
    pub reason: String,
}

/// Decides about all clusters.
pub fn schedule(request: &Request<'_>) -> Result<Plan, ScheduleError> {
    let mut cycles = SchedulingCycles::new(request)?;
    cycles.run()?;
    Ok(cycles.plan())
}

/// Decides, and says about each cluster why it is picked or not.
pub fn explain(request: &Request<'_>) -> Result<Vec<Explanation>, ScheduleError> {
    let mut cycles = SchedulingCycles::new(request)?;
    cycles.run()?;
    Ok(cycles.explanations())
}

struct SchedulingCycles<'a> {
    request: &'a Request<'a>,
    kind: PlacementType,
    fleet: Fleet<'a>,
    bindings: Bindings<'a>,
    fulfilled: bool,
    /// The last cycle's verdict about each cluster; empty if no cycle had to run.
    verdicts: Vec<ClusterVerdict<'a>>,
    /// Clusters of the policy that do not exist.
    unknown: Vec<&'a str>,
}

impl<'a> SchedulingCycles<'a> {
    fn new(request: &'a Request<'a>) -> Result<Self, ScheduleError> {
        let kind = request
            .policy
            .map_or(PlacementType::PickAll, |policy| policy.placement_type);
        let fleet = Fleet::new(request, kind)?;
        let bindings = Bindings::new(request, &fleet);
        Ok(Self {
            request,
            kind,
            fleet,
            bindings,
            fulfilled: true,
            verdicts: Vec::new(),
            unknown: Vec::new(),
        })
    }

    fn run(&mut self) -> Result<(), ScheduleError> {
        match self.kind {
            PlacementType::PickAll => self.pick_all(),
            PlacementType::PickFixed => self.pick_fixed(),
            PlacementType::PickN => self.pick_n(),
        }
    }

    /// The verdicts about all clusters, given the bindings as they are now.
    fn evaluate(&self) -> Vec<ClusterVerdict<'a>> {
        let (current, obsolete) = (self.bindings.clusters(), self.bindings.obsolete_clusters());
        self.fleet.evaluate(current, obsolete)
    }

    fn pick_all(&mut self) -> Result<(), ScheduleError> {
        self.verdicts = self.evaluate();
        for (cluster, verdict) in self.verdicts.iter().enumerate() {
            if verdict.is_ok() {
                let name = self.fleet.name(cluster);
                let decision = selected(name, Some(Scores::default()));
                self.bindings.bind(name, decision)?;
            }
        }
        self.bindings.unschedule_obsolete(|_| true);
        Ok(())
    }

    fn pick_fixed(&mut self) -> Result<(), ScheduleError> {
        let names = self.request.policy.map(|policy| &policy.cluster_names);
        let wanted: BTreeSet<&str> = names.into_iter().flatten().map(String::as_str).collect();
        self.verdicts = vec![Err(Refusal::NotListed); self.request.clusters.len()];
        for name in wanted.iter().copied() {
            let Some(cluster) = self.fleet.find(name) else {
                self.unknown.push(name);
                continue;
            };
            let verdict = self.fleet.eligible(cluster);
            if verdict.is_ok() && !self.bindings.is_current(name) {
                self.bindings.bind(name, selected(name, None))?;
            }
            self.fulfilled &= verdict.is_ok();
            self.verdicts[cluster] = verdict;
        }
        self.fulfilled &= self.unknown.is_empty();
        self.bindings
            .unschedule_obsolete(|cluster| !wanted.contains(cluster));
        Ok(())
    }

    fn pick_n(&mut self) -> Result<(), ScheduleError> {
        let wanted = self.request.number_of_clusters;
        let wanted = wanted.and_then(|number| usize::try_from(number).ok());
        let wanted = wanted.ok_or_else(|| {
            ScheduleError::NumberOfClusters(self.request.policy_snapshot.to_owned())
        })?;
        loop {
            let present = self.bindings.current();
            let Some(desired) = wanted.checked_sub(present).filter(|desired| *desired > 0) else {
                self.bindings.unschedule_obsolete(|_| true);
                self.bindings.drop_worst(present - wanted);
                return Ok(());
            };
            // A pick changes the skew for the next one.
            let limit = if self.fleet.spreads() { 1 } else { desired };
            let verdicts = self.evaluate();
            let picks = self.best(&verdicts, limit);
            let picked = picks.len();
            for (cluster, scores) in picks {
                let name = self.fleet.name(cluster);
                self.bindings.bind(name, selected(name, Some(scores)))?;
            }
            self.bindings.unschedule_obsolete(|_| true);
            if limit < desired && picked == limit {
                continue;
            }
            self.verdicts = verdicts;
            self.fulfilled = self.bindings.current() == wanted;
            return Ok(());
        }
    }

    /// The best clusters, best first. The last name wins among equals, as in the original.
    fn best(&self, verdicts: &[ClusterVerdict<'a>], limit: usize) -> Vec<(usize, Scores)> {
        let scored = verdicts.iter().enumerate();
        let scored =
            scored.filter_map(|(cluster, verdict)| Some((cluster, *verdict.as_ref().ok()?)));
        let mut scored: Vec<(usize, Scores)> = scored.collect();
        scored.sort_by_key(|(cluster, scores)| Reverse((*scores, self.fleet.name(*cluster))));
        scored.truncate(limit);
        scored
    }

    fn plan(self) -> Plan {
        let decisions = self.decisions();
        let mut plan = self.bindings.plan();
        plan.fulfilled = self.fulfilled;
        plan.decisions = decisions;
        plan
    }

    /// Selected clusters, then a few of the others with the reason.
    fn decisions(&self) -> Vec<ClusterDecision> {
        let mut decisions: Vec<ClusterDecision> = self.bindings.decisions().cloned().collect();
        decisions.sort_by(|a, b| a.cluster_name.cmp(&b.cluster_name));
        decisions.truncate(MAX_DECISIONS);
        let room = MAX_UNSELECTED.min(MAX_DECISIONS - decisions.len());
        let chosen: BTreeSet<&str> = self.bindings.clusters().collect();
        let losers = self.best(&self.verdicts, self.verdicts.len()).into_iter();
        let losers = losers.filter(|(cluster, _)| !chosen.contains(self.fleet.name(*cluster)));
        let losers = losers.map(|(cluster, scores)| {
            let name = self.fleet.name(cluster);
            unselected(name, Some(scores), low_score(name, scores))
        });
        let verdicts = self.verdicts.iter().enumerate();
        let mut filtered: Vec<(&str, &Refusal<'a>)> = verdicts
            .filter_map(|(cluster, verdict)| {
                Some((self.fleet.name(cluster), verdict.as_ref().err()?))
            })
            .filter(|(_, refusal)| !refusal.is_silent())
            .collect();
        filtered.sort_by_key(|(name, _)| *name);
        let filtered = filtered
            .into_iter()
            .map(|(name, refusal)| unselected(name, None, refusal.explain(name)));
        let unknown = self.unknown.iter();
        let unknown = unknown.map(|name| unselected(name, None, not_found(name)));
        decisions.extend(losers.chain(filtered).chain(unknown).take(room));
        decisions
    }

    fn explanations(&mut self) -> Vec<Explanation> {
        if self.verdicts.is_empty() {
            self.verdicts = self.evaluate();
        }
        let decisions = self.bindings.decisions();
        let selected: HashMap<&str, &ClusterDecision> = decisions
            .map(|decision| (decision.cluster_name.as_str(), decision))
            .collect();
        let mut all = Vec::new();
        for (cluster, verdict) in self.verdicts.iter().enumerate() {
            let name = self.fleet.name(cluster);
            let decision = selected.get(name);
            let (plugin, scores, reason) = match (decision, verdict) {
                (Some(decision), _) => (None, scores_of(decision), decision.reason.clone()),
                (None, Ok(scores)) => (None, Some(*scores), low_score(name, *scores)),
                (None, Err(refusal)) => (refusal.plugin(), None, refusal.explain(name)),
            };
            all.push(Explanation {
                cluster: name.to_owned(),
                selected: decision.is_some(),
                plugin,
                scores,
                reason,
            });
        }
        all.extend(self.unknown.iter().map(|name| Explanation {
            cluster: (*name).to_owned(),
            selected: false,
            plugin: None,
            scores: None,
            reason: not_found(name),
        }));
        all.sort_by(|a, b| a.cluster.cmp(&b.cluster));
        all
    }
}

fn selected(name: &str, scores: Option<Scores>) -> ClusterDecision {
    let about = scores.map_or_else(String::new, |scores| format!(" ({scores})"));
    ClusterDecision {
        cluster_name: name.to_owned(),
        selected: true,
        cluster_score: scores.map(Scores::stored),
        reason: format!(
            "Successfully scheduled resources for placement in {name}{about}: picked by scheduling policy"
        ),
    }
}

fn unselected(name: &str, scores: Option<Scores>, reason: String) -> ClusterDecision {
    ClusterDecision {
        cluster_name: name.to_owned(),
        selected: false,
        cluster_score: scores.map(Scores::stored),
        reason,
    }
}

fn low_score(name: &str, scores: Scores) -> String {
    format!("cluster \"{name}\" does not score high enough ({scores})")
}

fn not_found(name: &str) -> String {
    format!("specified cluster \"{name}\" is not found")
}

fn scores_of(decision: &ClusterDecision) -> Option<Scores> {
    let stored = decision.cluster_score?;
    Some(Scores {
        topology_spread: stored.topology_spread_score.unwrap_or_default(),
        affinity: stored.affinity_score.unwrap_or_default(),
        already_there: 0,
    })
}

impl Scores {
    fn stored(self) -> ClusterScore {
        ClusterScore {
            affinity_score: Some(self.affinity),
            topology_spread_score: Some(self.topology_spread),
        }
    }
}

impl fmt::Display for Scores {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "affinity score: {}, topology spread score: {}",
            self.affinity, self.topology_spread
        )
    }
}
