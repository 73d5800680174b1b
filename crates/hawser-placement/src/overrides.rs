//! Overrides: those that apply to a placement, and their result for a resource in one cluster.
//!
//! Overrides of the cluster scope come first, sorted by name, then those of namespaces, sorted by namespace and name;
//! the later one applies. Every rule of an override applies whose cluster selector matches.

use std::collections::BTreeMap;
use std::sync::Arc;

use kube_lang::selector::{Selector, SelectorError};
use serde_json::Value;

use crate::names;
use crate::types::Metadata;
use crate::types::binding::BindingSpec;
use crate::types::cluster::MemberCluster;
use crate::types::overrides::{
    ClusterResourceOverrideSnapshot, OverridePolicy, OverrideRule, OverrideType, PlacementRef,
    PlacementScope, ResourceOverrideSnapshot,
};
use crate::types::placement::{NamespacedName, ResourceIdentifier};
use crate::types::policy::ClusterSelector;

pub mod patch;

use patch::PatchError;

const CLUSTER_NAME: &str = "${MEMBER-CLUSTER-NAME}";
const CLUSTER_LABEL: &str = "${MEMBER-CLUSTER-LABEL-KEY-";

/// The reason why an override cannot be applied in a cluster.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OverrideError {
    #[error("override {name}: cluster selector: {source}")]
    Selector { name: String, source: SelectorError },
    #[error("override {name}: {source}")]
    Patch { name: String, source: PatchError },
    #[error("override {name}: cluster {cluster} has no label {label}, which a value uses")]
    Label {
        name: String,
        cluster: String,
        label: String,
    },
    #[error("override snapshot {name} does not exist: the next rollout uses the latest one")]
    Missing { name: String },
    #[error("override {name}: metadata.{field} must be strings by name")]
    Strings { name: String, field: &'static str },
    #[error("override {name}: the variable {CLUSTER_LABEL} in a value has no closing brace")]
    Unterminated { name: String },
}

/// The latest snapshots that concern a placement.
#[derive(Clone, Debug, Default)]
pub struct Overrides<'a> {
    cluster: Vec<&'a ClusterResourceOverrideSnapshot>,
    namespaced: Vec<&'a ResourceOverrideSnapshot>,
}

/// The snapshots that are listed in the binding of a cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OverrideNames {
    pub cluster: Vec<String>,
    pub namespaced: Vec<NamespacedName>,
}

/// The snapshots that apply: of each override the latest, or the one with the highest index while the hub replaces the
/// latest. Nothing is rolled out without its override in the meantime.
fn current<T>(all: &[Arc<T>], metadata: impl Fn(&T) -> &Metadata) -> impl Iterator<Item = &T> {
    let rank = |one: &Metadata| {
        let index = one.label(names::OVERRIDE_INDEX);
        let index: Option<u64> = index.and_then(|index| index.parse().ok());
        (one.label(names::IS_LATEST) == Some("true"), index)
    };
    let of = |one: &Metadata| {
        let parent = one.label(names::PARENT_OVERRIDE)?;
        Some((one.namespace.clone(), parent.to_owned()))
    };
    let mut highest = BTreeMap::new();
    for one in all {
        let one = metadata(one);
        let rank = rank(one);
        let highest = highest.entry(of(one)).or_insert(rank);
        *highest = rank.max(*highest);
    }
    all.iter().map(|one| &**one).filter(move |one| {
        let one = metadata(one);
        let of = of(one);
        let (is_latest, index) = rank(one);
        is_latest || (of.is_some() && highest.get(&of) == Some(&(false, index)))
    })
}

/// True if an override without a placement, or with this one. A reference without a scope means either.
fn concerns(reference: Option<&PlacementRef>, placement: &Metadata) -> bool {
    let scope = match placement.namespace {
        None => PlacementScope::Cluster,
        Some(_) => PlacementScope::Namespaced,
    };
    reference.is_none_or(|reference| {
        reference.name == placement.name && reference.scope.is_none_or(|other| other == scope)
    })
}

impl<'a> Overrides<'a> {
    /// The snapshots that concern a placement and one of its resources, in the order in which they are applied.
    pub fn of_placement(
        placement: &Metadata,
        resources: &[ResourceIdentifier],
        cluster: &'a [Arc<ClusterResourceOverrideSnapshot>],
        namespaced: &'a [Arc<ResourceOverrideSnapshot>],
    ) -> Self {
        let mut all = Self {
            cluster: current(cluster, |one| &one.metadata)
                .filter(|one| {
                    let spec = &one.spec.override_spec;
                    concerns(spec.placement.as_ref(), placement)
                        && resources
                            .iter()
                            .any(|resource| selects_in_cluster(one, resource))
                })
                .collect(),
            namespaced: current(namespaced, |one| &one.metadata)
                .filter(|one| {
                    let spec = &one.spec.override_spec;
                    let is_near = placement.namespace.is_none()
                        || placement.namespace == one.metadata.namespace;
                    is_near
                        && concerns(spec.placement.as_ref(), placement)
                        && resources
                            .iter()
                            .any(|resource| selects_in_namespace(one, resource))
                })
                .collect(),
        };
        all.cluster.sort_by_key(|one| &one.metadata.name);
        all.namespaced
            .sort_by_key(|one| (&one.metadata.namespace, &one.metadata.name));
        all
    }

    /// The snapshots that a binding lists, in its order.
    pub fn listed(
        spec: &BindingSpec,
        cluster: &'a [Arc<ClusterResourceOverrideSnapshot>],
        namespaced: &'a [Arc<ResourceOverrideSnapshot>],
    ) -> Result<Self, OverrideError> {
        let missing = |name: &str| OverrideError::Missing {
            name: name.to_owned(),
        };
        let clusterwide = spec.cluster_resource_override_snapshots.iter().map(|name| {
            let found = cluster.iter().find(|one| one.metadata.name == *name);
            found.map(|one| &**one).ok_or_else(|| missing(name))
        });
        let near = spec.resource_override_snapshots.iter().map(|listed| {
            let found = namespaced.iter().find(|one| {
                one.metadata.name == listed.name
                    && one.metadata.namespace.as_deref().unwrap_or_default() == listed.namespace
            });
            found.map(|one| &**one).ok_or_else(|| missing(&listed.name))
        });
        Ok(Self {
            cluster: clusterwide.collect::<Result<_, _>>()?,
            namespaced: near.collect::<Result<_, _>>()?,
        })
    }

    /// The snapshots with a rule for the cluster.
    pub fn of_cluster(&self, cluster: &MemberCluster) -> Result<Self, OverrideError> {
        let mut kept = Self::default();
        for one in &self.cluster {
            if has_rule(&one.metadata.name, &one.spec.override_spec.policy, cluster)? {
                kept.cluster.push(one);
            }
        }
        for one in &self.namespaced {
            if has_rule(&one.metadata.name, &one.spec.override_spec.policy, cluster)? {
                kept.namespaced.push(one);
            }
        }
        Ok(kept)
    }

    pub fn names(&self) -> OverrideNames {
        let cluster = self.cluster.iter().map(|one| one.metadata.name.clone());
        let namespaced = self.namespaced.iter().map(|one| NamespacedName {
            name: one.metadata.name.clone(),
            namespace: one.metadata.namespace.clone().unwrap_or_default(),
        });
        OverrideNames {
            cluster: cluster.collect(),
            namespaced: namespaced.collect(),
        }
    }

    /// The resource as the cluster is to have it; `None` if it is not to have it.
    pub fn apply(
        &self,
        resource: Value,
        cluster: &MemberCluster,
    ) -> Result<Option<Value>, OverrideError> {
        let identifier = ResourceIdentifier::of(&resource);
        let clusterwide = self
            .cluster
            .iter()
            .filter(|one| selects_in_cluster(one, &identifier));
        let clusterwide =
            clusterwide.map(|one| (&one.metadata.name, &one.spec.override_spec.policy));
        let namespaced = self
            .namespaced
            .iter()
            .filter(|one| selects_in_namespace(one, &identifier));
        let namespaced = namespaced.map(|one| (&one.metadata.name, &one.spec.override_spec.policy));
        let mut resource = resource;
        for (name, policy) in clusterwide.chain(namespaced) {
            for rule in &policy.override_rules {
                if !matches(name, rule.cluster_selector.as_ref(), cluster)? {
                    continue;
                }
                if rule.override_type == Some(OverrideType::Delete) {
                    return Ok(None);
                }
                apply_rule(name, rule, &mut resource, cluster)?;
                check_metadata(name, &resource)?;
            }
        }
        Ok(Some(resource))
    }
}

/// Refuses labels and annotations with which no object of the `Work` could be written.
fn check_metadata(name: &str, resource: &Value) -> Result<(), OverrideError> {
    for field in ["labels", "annotations"] {
        let is_fit = match &resource["metadata"][field] {
            Value::Null => true,
            Value::Object(all) => all.values().all(Value::is_string),
            _ => false,
        };
        if !is_fit {
            let name = name.to_owned();
            return Err(OverrideError::Strings { name, field });
        }
    }
    Ok(())
}

/// An override of the cluster scope selects a resource, or everything in a Namespace.
fn selects_in_cluster(
    one: &ClusterResourceOverrideSnapshot,
    resource: &ResourceIdentifier,
) -> bool {
    let mut selectors = one.spec.override_spec.cluster_resource_selectors.iter();
    selectors.any(|selector| {
        if resource.namespace.is_empty() {
            selector.group == resource.group
                && selector.version == resource.version
                && selector.kind == resource.kind
                && selector.name == resource.name
        } else {
            selector.is_namespace() && selector.name == resource.namespace
        }
    })
}

fn selects_in_namespace(one: &ResourceOverrideSnapshot, resource: &ResourceIdentifier) -> bool {
    let mut selectors = one.spec.override_spec.resource_selectors.iter();
    one.metadata.namespace.as_deref() == Some(&resource.namespace)
        && selectors.any(|selector| {
            selector.group == resource.group
                && selector.version == resource.version
                && selector.kind == resource.kind
                && selector.name == resource.name
        })
}

fn has_rule(
    name: &str,
    policy: &OverridePolicy,
    cluster: &MemberCluster,
) -> Result<bool, OverrideError> {
    for rule in &policy.override_rules {
        if matches(name, rule.cluster_selector.as_ref(), cluster)? {
            return Ok(true);
        }
    }
    Ok(false)
}

/// No selector selects no cluster, one without terms all of them.
fn matches(
    name: &str,
    selector: Option<&ClusterSelector>,
    cluster: &MemberCluster,
) -> Result<bool, OverrideError> {
    let Some(selector) = selector else {
        return Ok(false);
    };
    for term in &selector.cluster_selector_terms {
        let Some(labels) = &term.label_selector else {
            continue;
        };
        let compiled =
            Selector::from_object(Some(labels)).map_err(|source| OverrideError::Selector {
                name: name.to_owned(),
                source,
            })?;
        if compiled.matches(cluster.metadata.label_pairs()) {
            return Ok(true);
        }
    }
    Ok(selector.cluster_selector_terms.is_empty())
}

fn apply_rule(
    name: &str,
    rule: &OverrideRule,
    resource: &mut Value,
    cluster: &MemberCluster,
) -> Result<(), OverrideError> {
    for step in &rule.json_patch_overrides {
        let mut value = step.value.clone();
        substitute(name, &mut value, cluster)?;
        patch::apply(resource, step.operator, &step.path, value).map_err(|source| {
            OverrideError::Patch {
                name: name.to_owned(),
                source,
            }
        })?;
    }
    Ok(())
}

/// Puts the name and the labels of the cluster into every text of a value, keys of objects included.
fn substitute(name: &str, value: &mut Value, cluster: &MemberCluster) -> Result<(), OverrideError> {
    match value {
        Value::String(text) => *text = resolve(name, text, cluster)?,
        Value::Array(items) => {
            for item in items {
                substitute(name, item, cluster)?;
            }
        }
        Value::Object(fields) => {
            let mut resolved = serde_json::Map::new();
            for (key, mut value) in std::mem::take(fields) {
                substitute(name, &mut value, cluster)?;
                resolved.insert(resolve(name, &key, cluster)?, value);
            }
            *fields = resolved;
        }
        _ => {}
    }
    Ok(())
}

fn resolve(name: &str, text: &str, cluster: &MemberCluster) -> Result<String, OverrideError> {
    let text = text.replace(CLUSTER_NAME, &cluster.metadata.name);
    let mut rest = text.as_str();
    let mut out = String::new();
    while let Some((before, after)) = rest.split_once(CLUSTER_LABEL) {
        let (label, after) = after
            .split_once('}')
            .ok_or_else(|| OverrideError::Unterminated {
                name: name.to_owned(),
            })?;
        let value = cluster
            .metadata
            .label(label)
            .ok_or_else(|| OverrideError::Label {
                name: name.to_owned(),
                cluster: cluster.metadata.name.clone(),
                label: label.to_owned(),
            })?;
        out.push_str(before);
        out.push_str(value);
        rest = after;
    }
    out.push_str(rest);
    Ok(out)
}

#[cfg(test)]
mod tests;
