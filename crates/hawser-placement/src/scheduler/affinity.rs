//! Required and preferred clusters, by labels and by reported properties.

use kube_cel::quantity_in_billionths;
use kube_lang::selector::{Selector, SelectorError};

use super::refusal::{PropertyFault, Refusal};
use crate::members::Members;
use crate::types::cluster::MemberCluster;
use crate::types::policy::{
    ClusterSelectorTerm, PlacementPolicy, PropertyOperator, PropertySorter, SortOrder,
};

/// The prefix of properties that are resources of the cluster.
const RESOURCES: &str = "resources.kubernetes-fleet.io/";

/// Required and preferred terms, compiled for a fleet.
pub(super) struct CompiledAffinity {
    /// `None` if nothing is required.
    required: Option<Vec<Term>>,
    preferred: Vec<Preference>,
}

struct Term {
    /// `None` matches every cluster.
    labels: Option<Selector>,
    properties: Vec<Comparison>,
}

struct Comparison {
    property: Property,
    operator: PropertyOperator,
    value: i128,
}

/// Checks the name of a property.
pub(crate) fn check_property_name(name: &str) -> Result<(), AffinityError> {
    Property::parse(name).map(drop)
}

/// A property by its name.
struct Property {
    name: String,
    source: Source,
}

enum Source {
    Reported,
    Capacity(String),
    Allocatable(String),
    Available(String),
}

struct Preference {
    weight: i32,
    term: Term,
    sorter: Option<Sorter>,
}

struct Sorter {
    property: Property,
    order: SortOrder,
}

/// Preferences over a fleet.
pub(super) struct Scoring<'c> {
    preferred: &'c [Preference],
    /// The smallest and the largest value in the fleet of the property that each preference sorts by.
    ranges: Vec<Option<(i128, i128)>>,
}

/// The reason why the affinity of a policy cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AffinityError {
    #[error("label selector of a cluster affinity term: {0}")]
    Labels(#[from] SelectorError),
    #[error(
        "resource property {0}: use {RESOURCES}{{total|allocatable|available}}-{{name of the resource}}"
    )]
    Property(String),
    #[error("property {name} is compared with \"{value}\": use one quantity such as 500m or 2Gi")]
    Quantity { name: String, value: String },
}

impl CompiledAffinity {
    /// `scores` is false if preferences are of no interest.
    pub(super) fn compile(
        policy: Option<&PlacementPolicy>,
        scores: bool,
    ) -> Result<Self, AffinityError> {
        let affinity =
            policy.and_then(|policy| policy.affinity.as_ref()?.cluster_affinity.as_ref());
        let required = affinity.and_then(|affinity| affinity.required.as_ref());
        // A list without terms requires nothing.
        let terms = required.map(|required| &required.cluster_selector_terms);
        let terms = terms.filter(|terms| !terms.is_empty());
        let required: Option<Result<Vec<Term>, AffinityError>> =
            terms.map(|terms| terms.iter().map(Term::compile).collect());
        let preferred = affinity
            .filter(|_| scores)
            .map(|affinity| &affinity.preferred);
        let preferred = preferred.into_iter().flatten().map(|preferred| {
            let sorter = preferred.preference.property_sorter.as_ref();
            let sorter = sorter.map(Sorter::compile);
            Ok(Preference {
                weight: preferred.weight,
                term: Term::compile(&preferred.preference)?,
                sorter: sorter.transpose()?,
            })
        });
        Ok(Self {
            required: required.transpose()?,
            preferred: preferred.collect::<Result<_, AffinityError>>()?,
        })
    }

    /// Passes clusters that one of the required terms matches.
    pub(super) fn filter<'a>(&self, cluster: &MemberCluster) -> Result<(), Refusal<'a>> {
        let Some(terms) = &self.required else {
            return Ok(());
        };
        let mut fault = None;
        for term in terms {
            match term.matches(cluster) {
                Ok(true) => return Ok(()),
                Ok(false) => {}
                Err(found) => fault = Some(found),
            }
        }
        Err(fault.map_or(Refusal::Affinity, Refusal::Property))
    }

    /// The preferences over a fleet.
    pub(super) fn scoring(&self, clusters: &Members) -> Scoring<'_> {
        let ranges = self.preferred.iter().map(|preferred| {
            let property = &preferred.sorter.as_ref()?.property;
            let mut values = clusters.iter().filter_map(|one| property.read(one).ok()?);
            let first = values.next()?;
            Some(values.fold((first, first), |(min, max), value| {
                (min.min(value), max.max(value))
            }))
        });
        Scoring {
            preferred: &self.preferred,
            ranges: ranges.collect(),
        }
    }
}

impl Scoring<'_> {
    /// The sum over the preferred terms.
    pub(super) fn score(&self, cluster: &MemberCluster) -> i32 {
        let pairs = self.preferred.iter().zip(&self.ranges);
        pairs
            .map(|(preferred, range)| preferred.score(cluster, *range))
            .sum()
    }
}

impl Term {
    fn compile(term: &ClusterSelectorTerm) -> Result<Self, AffinityError> {
        let labels = term.label_selector.as_ref();
        let labels = labels.map(|labels| Selector::from_object(Some(labels)));
        let selector = term.property_selector.iter();
        let requirements = selector.flat_map(|selector| &selector.match_expressions);
        let properties = requirements.map(|requirement| {
            let name = &requirement.name;
            let quantity = || AffinityError::Quantity {
                name: name.clone(),
                value: requirement.values.join(", "),
            };
            let [value] = &requirement.values[..] else {
                return Err(quantity());
            };
            Ok(Comparison {
                property: Property::parse(name)?,
                operator: requirement.operator,
                value: quantity_in_billionths(value).map_err(|_| quantity())?,
            })
        });
        Ok(Self {
            labels: labels.transpose()?,
            properties: properties.collect::<Result<_, _>>()?,
        })
    }

    fn matches(&self, cluster: &MemberCluster) -> Result<bool, PropertyFault> {
        let labels = self.labels.as_ref();
        if labels.is_some_and(|labels| !labels.matches(cluster.metadata.label_pairs())) {
            return Ok(false);
        }
        for comparison in &self.properties {
            if !comparison.holds(cluster)? {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

impl Comparison {
    fn holds(&self, cluster: &MemberCluster) -> Result<bool, PropertyFault> {
        let Some(found) = self.property.read(cluster)? else {
            return Ok(false);
        };
        Ok(match self.operator {
            PropertyOperator::Gt => found > self.value,
            PropertyOperator::Ge => found >= self.value,
            PropertyOperator::Eq => found == self.value,
            PropertyOperator::Ne => found != self.value,
            PropertyOperator::Lt => found < self.value,
            PropertyOperator::Le => found <= self.value,
        })
    }
}

impl Property {
    fn parse(name: &str) -> Result<Self, AffinityError> {
        let source = match name.strip_prefix(RESOURCES) {
            None => Source::Reported,
            Some(rest) => {
                let parts = rest
                    .split_once('-')
                    .filter(|(_, resource)| !resource.is_empty());
                match parts {
                    Some(("total", resource)) => Source::Capacity(resource.to_owned()),
                    Some(("allocatable", resource)) => Source::Allocatable(resource.to_owned()),
                    Some(("available", resource)) => Source::Available(resource.to_owned()),
                    _ => return Err(AffinityError::Property(name.to_owned())),
                }
            }
        };
        Ok(Self {
            name: name.to_owned(),
            source,
        })
    }

    fn read(&self, cluster: &MemberCluster) -> Result<Option<i128>, PropertyFault> {
        let status = &cluster.status;
        let usage = &status.resource_usage;
        let value = match &self.source {
            Source::Reported => status.properties.get(&self.name).map(|found| &found.value),
            Source::Capacity(resource) => usage.capacity.get(resource),
            Source::Allocatable(resource) => usage.allocatable.get(resource),
            Source::Available(resource) => usage.available.get(resource),
        };
        let Some(value) = value else {
            return Ok(None);
        };
        let quantity = quantity_in_billionths(value).map_err(|_| PropertyFault {
            name: self.name.clone(),
            value: value.clone(),
        })?;
        Ok(Some(quantity))
    }
}

impl Preference {
    fn score(&self, cluster: &MemberCluster, range: Option<(i128, i128)>) -> i32 {
        if !self.term.matches(cluster).unwrap_or(false) {
            return 0;
        }
        match &self.sorter {
            None => self.weight,
            Some(sorter) => sorter.score(cluster, self.weight, range),
        }
    }
}

impl Sorter {
    fn compile(sorter: &PropertySorter) -> Result<Self, AffinityError> {
        Ok(Self {
            property: Property::parse(&sorter.name)?,
            order: sorter.sort_order,
        })
    }

    /// The part of the weight that the place of the cluster in the fleet is worth; nothing if it reports nothing.
    #[expect(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        reason = "a share of a weight of at most 100 is rounded"
    )]
    fn score(&self, cluster: &MemberCluster, weight: i32, range: Option<(i128, i128)>) -> i32 {
        let value = self.property.read(cluster).ok().flatten();
        let (Some(value), Some((min, max))) = (value, range) else {
            return 0;
        };
        if min == max {
            return 0;
        }
        let share = (value as f64 - min as f64) / (max as f64 - min as f64);
        let share = match self.order {
            SortOrder::Descending => share,
            SortOrder::Ascending => 1.0 - share,
        };
        (share * f64::from(weight)).round() as i32
    }
}
