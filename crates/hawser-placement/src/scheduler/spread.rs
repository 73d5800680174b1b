//! The spread of a placement over domains: the values of a label.

use std::collections::HashMap;

use super::refusal::Refusal;
use crate::members::Members;
use crate::types::policy::{TopologySpreadConstraint, WhenUnsatisfiable};

/// The score of a violated constraint that does not forbid it.
const VIOLATED: i32 = -1000;

/// The constraints of a policy, over all clusters of the fleet.
pub(super) struct Spreads<'a>(Vec<Spread<'a>>);

struct Spread<'a> {
    constraint: &'a TopologySpreadConstraint,
    /// The domain of each cluster, if it has the label.
    domains: Vec<Option<usize>>,
    number_of_domains: usize,
}

/// The constraints, with the current placement.
pub(super) struct TopologySkews<'s, 'a>(Vec<Skew<'s, 'a>>);

struct Skew<'s, 'a> {
    spread: &'s Spread<'a>,
    counts: Vec<i32>,
    smallest: i32,
    largest: i32,
    /// The number of domains with the smallest count.
    smallest_domains: usize,
}

impl<'a> Spreads<'a> {
    pub(super) fn new(constraints: &'a [TopologySpreadConstraint], clusters: &Members) -> Self {
        let spreads = constraints.iter().map(|constraint| {
            let mut values: HashMap<&str, usize> = HashMap::new();
            let domains = clusters.iter().map(|cluster| {
                let value = cluster.metadata.label(&constraint.topology_key)?;
                let next = values.len();
                Some(*values.entry(value).or_insert(next))
            });
            Spread {
                domains: domains.collect(),
                number_of_domains: values.len(),
                constraint,
            }
        });
        Self(spreads.collect())
    }

    /// The skews with these clusters bound. A domain without a binding counts 0.
    pub(super) fn count(&self, bound: &[usize]) -> TopologySkews<'_, 'a> {
        let skews = self.0.iter().map(|spread| {
            let mut counts = vec![0; spread.number_of_domains];
            for cluster in bound {
                if let Some(domain) = spread.domains[*cluster] {
                    counts[domain] += 1;
                }
            }
            let smallest = counts.iter().copied().min().unwrap_or_default();
            Skew {
                spread,
                smallest,
                largest: counts.iter().copied().max().unwrap_or_default(),
                smallest_domains: counts.iter().filter(|count| **count == smallest).count(),
                counts,
            }
        });
        TopologySkews(skews.collect())
    }
}

impl<'a> TopologySkews<'_, 'a> {
    /// The score of a cluster over all constraints, or the constraint that it would violate.
    pub(super) fn check(&self, cluster: usize) -> Result<i32, Refusal<'a>> {
        let mut score = 0;
        for skew in &self.0 {
            let Some(domain) = skew.spread.domains[cluster] else {
                continue;
            };
            let change = skew.change(domain);
            let constraint = skew.spread.constraint;
            let max = constraint.max_skew();
            if skew.largest - skew.smallest + change <= max {
                score -= change;
            } else if constraint.when_unsatisfiable() == WhenUnsatisfiable::DoNotSchedule {
                return Err(Refusal::Skew {
                    key: &constraint.topology_key,
                    max,
                });
            } else {
                score += VIOLATED;
            }
        }
        Ok(score)
    }
}

impl Skew<'_, '_> {
    /// The change of the skew if the domain gets one more. The order of the rules is the original's.
    fn change(&self, domain: usize) -> i32 {
        let count = self.counts[domain];
        if self.smallest == self.largest {
            1
        } else if count == self.smallest && self.smallest_domains == 1 {
            -1
        } else {
            i32::from(count == self.largest)
        }
    }
}
