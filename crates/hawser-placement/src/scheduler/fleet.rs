//! The verdicts of the plugins about each cluster. All but two plugins give the same verdict in every cycle and run once.

use std::cell::OnceCell;
use std::collections::HashSet;

use jiff::Timestamp;

use super::affinity::{AffinityError, CompiledAffinity};
use super::eligibility::{self, GracePeriods};
use super::refusal::Refusal;
use super::spread::Spreads;
use super::taints;
use crate::members::Members;
use crate::types::ConditionStatus;
use crate::types::binding::Binding;
use crate::types::cluster::MemberCluster;
use crate::types::policy::{PlacementPolicy, PlacementType, Toleration, TopologySpreadConstraint};

/// Everything that a decision depends on.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    /// The policy of the latest policy snapshot.
    pub policy: Option<&'a PlacementPolicy>,
    /// The name of this snapshot.
    pub policy_snapshot: &'a str,
    /// The number of clusters that the snapshot is annotated with; for `PickN`.
    pub number_of_clusters: Option<i32>,
    /// The namespace of a `ResourcePlacement`.
    pub namespace: Option<&'a str>,
    pub clusters: &'a Members,
    /// The bindings of the placement.
    pub bindings: &'a [Binding],
    pub now: Timestamp,
    pub windows: GracePeriods,
}

/// The scores of a cluster, in the order in which they are compared.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Scores {
    pub topology_spread: i32,
    pub affinity: i32,
    /// 1 if the placement is already there by an older policy.
    pub already_there: i32,
}

/// The reason why no decision is possible.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ScheduleError {
    #[error(transparent)]
    Policy(#[from] AffinityError),
    #[error(
        "policy snapshot {0} of a PickN placement has no valid number of clusters: annotate it with {key}",
        key = crate::names::NUMBER_OF_CLUSTERS
    )]
    NumberOfClusters(String),
    #[error(
        "binding {0} is unscheduled and has no previous state: annotate it with {key}",
        key = crate::names::PREVIOUS_STATE
    )]
    PreviousState(String),
}

/// Scores, or the first plugin that refuses the cluster.
pub(super) type ClusterVerdict<'a> = Result<Scores, Refusal<'a>>;

pub(super) struct Fleet<'a> {
    clusters: &'a Members,
    /// `None` for `PickFixed`.
    affinity: Option<CompiledAffinity>,
    tolerations: &'a [Toleration],
    namespace: Option<&'a str>,
    /// Verdicts that do not depend on bindings, with the affinity score. Found when they are needed first: a policy
    /// that is fulfilled needs none.
    lasting: OnceCell<Vec<ClusterVerdict<'a>>>,
    eligibility: eligibility::Eligibility,
    constraints: &'a [TopologySpreadConstraint],
    spreads: OnceCell<Spreads<'a>>,
}

impl<'a> Fleet<'a> {
    pub(super) fn new(request: &Request<'a>, kind: PlacementType) -> Result<Self, ScheduleError> {
        let clusters = request.clusters;
        let mut fleet = Self {
            clusters,
            affinity: None,
            tolerations: request.policy.map_or(&[][..], |policy| &policy.tolerations),
            namespace: request.namespace,
            lasting: OnceCell::new(),
            eligibility: eligibility::Eligibility::new(request.now, request.windows),
            constraints: &[],
            spreads: OnceCell::new(),
        };
        if kind == PlacementType::PickFixed {
            return Ok(fleet);
        }
        let scores = kind == PlacementType::PickN;
        fleet.affinity = Some(CompiledAffinity::compile(request.policy, scores)?);
        if let (true, Some(policy)) = (scores, request.policy) {
            fleet.constraints = &policy.topology_spread_constraints;
        }
        Ok(fleet)
    }

    /// The verdicts that do not depend on bindings; none for `PickFixed`.
    fn lasting(&self) -> &[ClusterVerdict<'a>] {
        self.lasting.get_or_init(|| {
            let affinity = self.affinity.iter();
            let verdicts = affinity.flat_map(|affinity| {
                let scoring = affinity.scoring(self.clusters);
                self.clusters.iter().map(move |cluster| {
                    affinity.filter(cluster)?;
                    self.eligibility.check(cluster)?;
                    check_namespace(cluster, self.namespace)?;
                    taints::check(&cluster.spec.taints, self.tolerations)?;
                    Ok(Scores {
                        affinity: scoring.score(cluster),
                        ..Scores::default()
                    })
                })
            });
            verdicts.collect()
        })
    }

    pub(super) fn name(&self, cluster: usize) -> &'a str {
        &self.clusters.at(cluster).metadata.name
    }

    pub(super) fn find(&self, name: &str) -> Option<usize> {
        self.clusters.position(name)
    }

    /// True for a cluster that exists and is not in deletion.
    pub(super) fn is_staying(&self, name: &str) -> bool {
        let cluster = self.clusters.get(name);
        cluster.is_some_and(|cluster| !cluster.metadata.in_deletion())
    }

    /// True if there are spread constraints, so that clusters are picked one by one.
    pub(super) fn spreads(&self) -> bool {
        !self.constraints.is_empty()
    }

    /// The verdict of the eligibility plugin.
    pub(super) fn eligible(&self, cluster: usize) -> ClusterVerdict<'a> {
        self.eligibility.check(self.clusters.at(cluster))?;
        Ok(Scores::default())
    }

    /// The verdicts of all plugins about all clusters, given those with current and with obsolete bindings.
    pub(super) fn evaluate<'n>(
        &self,
        current: impl Iterator<Item = &'n str> + Clone,
        obsolete: impl Iterator<Item = &'n str>,
    ) -> Vec<ClusterVerdict<'a>> {
        let bound = current.clone().filter_map(|name| self.find(name));
        let (current, obsolete): (HashSet<&str>, HashSet<&str>) =
            (current.collect(), obsolete.collect());
        let bound: Vec<usize> = bound.collect();
        let spreads = self
            .spreads
            .get_or_init(|| Spreads::new(self.constraints, self.clusters));
        let skews = spreads.count(&bound);
        let lasting = self.lasting().iter().enumerate();
        lasting
            .map(|(index, verdict)| {
                let scores = verdict.clone()?;
                let name = self.name(index);
                if current.contains(name) {
                    return Err(Refusal::AlreadySelected);
                }
                Ok(Scores {
                    topology_spread: skews.check(index)?,
                    already_there: i32::from(obsolete.contains(name)),
                    ..scores
                })
            })
            .collect()
    }
}

/// A `ResourcePlacement` needs clusters that have its namespace, if they report namespaces.
fn check_namespace<'a>(
    cluster: &MemberCluster,
    namespace: Option<&'a str>,
) -> Result<(), Refusal<'a>> {
    let Some(namespace) = namespace else {
        return Ok(());
    };
    let mut conditions = cluster.status.conditions.iter();
    let collected = conditions
        .any(|c| c.type_ == "NamespaceCollectionSucceeded" && c.status != ConditionStatus::Unknown);
    let known = cluster.status.namespaces.as_ref();
    if !collected || known.is_some_and(|known| known.contains_key(namespace)) {
        return Ok(());
    }
    Err(Refusal::NamespaceMissing(namespace))
}
