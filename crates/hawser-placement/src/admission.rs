//! Validation beyond the CRDs, as in KubeFleet's webhook.
//!
//! Each function returns the problems of an object; none if it is valid.

use std::collections::BTreeSet;

use kube_lang::names::{dns1123_label, label_value, qualified_name};
use kube_lang::selector::{LabelSelector, Selector};

use crate::types::IntOrPercent;
use crate::types::cluster::MemberClusterSpec;
use crate::types::eviction::{DisruptionBudget, Eviction};
use crate::types::overrides::{
    ClusterResourceOverride, JsonPatchOperator, JsonPatchOverride, OverridePolicy, OverrideType,
    ResourceOverride,
};
use crate::types::placement::{ApplyStrategyType, Placement, PlacementSpec, RolloutStrategyType};
use crate::types::policy::{
    ClusterAffinity, ClusterSelectorTerm, PlacementPolicy, PlacementType, ResourceSelectorTerm,
    Toleration, TolerationOperator,
};

mod defaults;
pub mod guard;
mod properties;
pub mod review;

/// The most overrides of the fleet, and of each namespace.
const MAX_OVERRIDES: usize = 100;
const MAX_NAME: usize = 63;

/// The problems of an object.
pub type Problems = Vec<String>;

/// The scope of a kind, from discovery.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KindScope {
    Unknown,
    Cluster,
    Namespaced,
}

/// Checks a placement of either kind. `scope_of` knows the kinds that the hub serves.
pub fn check_placement(
    placement: &Placement,
    scope_of: impl Fn(&ResourceSelectorTerm) -> KindScope,
) -> Problems {
    let mut problems = Problems::new();
    problems.extend(check_name(&placement.metadata.name));
    let wanted = match placement.metadata.namespace {
        None => (KindScope::Cluster, "cluster scoped"),
        Some(_) => (KindScope::Namespaced, "namespace scoped"),
    };
    let has_inner_selectors = placement.spec.resource_selectors.iter().any(|one| {
        one.is_namespace()
            && one.selection_scope
                == Some(crate::types::policy::SelectionScope::NamespaceWithResourceSelectors)
    });
    for selector in &placement.spec.resource_selectors {
        let kind = format!(
            "{}/{}, Kind={}",
            selector.group, selector.version, selector.kind
        );
        if !selector.name.is_empty() && selector.label_selector.is_some() {
            problems.push(format!(
                "the labelSelector and name fields are mutually exclusive in selector {kind} {}",
                selector.name
            ));
        }
        check_labels(selector.label_selector.as_ref(), &mut problems);
        match scope_of(selector) {
            KindScope::Unknown => {
                problems.push(format!("failed to get GVR of the selector {kind}"));
            }
            scope if scope == wanted.0 || has_inner_selectors => {}
            _ => problems.push(format!(
                "the resource {kind} is not found in schema (please retry) or it is not {}",
                wanted.1
            )),
        }
    }
    problems.extend(check_rules(&placement.spec));
    problems
}

/// Checks the name of a placement or override, which is the value of a label of its snapshots.
pub fn check_name(name: &str) -> Option<String> {
    let is_long = name.len() > MAX_NAME;
    is_long.then(|| format!("the name field cannot have length exceeding {MAX_NAME}"))
}

/// Checks all of a placement except its selectors.
pub fn check_rules(spec: &PlacementSpec) -> Problems {
    let mut problems = Problems::new();
    if let Some(policy) = &spec.policy {
        check_policy(policy, &mut problems);
    }
    check_strategy(spec, &mut problems);
    problems
}

/// Checks an update of a placement. A placement that is invalid already may only be changed while it is deleted.
pub fn check_placement_update(
    old: &Placement,
    new: &Placement,
    scope_of: impl Fn(&ResourceSelectorTerm) -> KindScope,
) -> Problems {
    if new.metadata.in_deletion() {
        return Problems::new();
    }
    let mut problems = check_placement(old, &scope_of);
    if !problems.is_empty() {
        problems.insert(
            0,
            "the placement is already invalid; delete it and create a new one".to_owned(),
        );
        return problems;
    }
    problems = check_placement(new, scope_of);
    if old.spec.placement_type() != new.spec.placement_type() {
        problems.push("placement type is immutable".to_owned());
    }
    problems.extend(check_tolerated(old.spec.policy.as_ref(), &new.spec));
    problems
}

/// Checks that a placement keeps the tolerations of its last policy.
pub fn check_tolerated(old: Option<&PlacementPolicy>, new: &PlacementSpec) -> Option<String> {
    let tolerations = |policy: Option<&PlacementPolicy>| -> Vec<Toleration> {
        policy.map_or_else(Vec::new, |policy| policy.tolerations.clone())
    };
    let new = tolerations(new.policy.as_ref());
    let is_kept = tolerations(old).iter().all(|one| new.contains(one));
    (!is_kept).then(|| {
        "tolerations have been updated/deleted, only additions to tolerations are allowed"
            .to_owned()
    })
}

fn check_labels(selector: Option<&LabelSelector>, problems: &mut Problems) {
    if let Some(Err(error)) = selector.map(|selector| Selector::from_object(Some(selector))) {
        problems.push(format!("the labelSelector is invalid: {error}"));
    }
}

fn check_policy(policy: &PlacementPolicy, problems: &mut Problems) {
    let kind = policy.placement_type;
    let mut refuse = |is_set: bool, what: &str| {
        if is_set {
            problems.push(format!("{what} cannot be set for policy type {kind:?}"));
        }
    };
    let has_affinity = policy.affinity.is_some();
    let has_spread = !policy.topology_spread_constraints.is_empty();
    let affinity = policy
        .affinity
        .as_ref()
        .and_then(|affinity| affinity.cluster_affinity.as_ref());
    match kind {
        PlacementType::PickFixed => {
            refuse(has_affinity, "affinity");
            refuse(policy.number_of_clusters.is_some(), "number of clusters");
            refuse(has_spread, "topology spread constraints");
            refuse(!policy.tolerations.is_empty(), "tolerations");
            check_names(&policy.cluster_names, problems);
        }
        PlacementType::PickAll => {
            refuse(!policy.cluster_names.is_empty(), "cluster names");
            refuse(policy.number_of_clusters.is_some(), "number of clusters");
            refuse(has_spread, "topology spread constraints");
            refuse(
                affinity.is_some_and(|affinity| !affinity.preferred.is_empty()),
                "preferred cluster affinity terms",
            );
        }
        PlacementType::PickN => {
            refuse(!policy.cluster_names.is_empty(), "cluster names");
            match policy.number_of_clusters {
                None => {
                    problems
                        .push("number of clusters must be set for policy type PickN".to_owned());
                }
                Some(number) if number < 0 => {
                    problems.push(
                        "number of clusters cannot be negative for policy type PickN".to_owned(),
                    );
                }
                Some(_) => {}
            }
        }
    }
    if let Some(affinity) = affinity {
        check_affinity(affinity, problems);
    }
    check_tolerations(&policy.tolerations, problems);
}

fn check_names(names: &[String], problems: &mut Problems) {
    if names.is_empty() {
        problems.push("cluster names cannot be empty for policy type PickFixed".to_owned());
    }
    let mut seen = BTreeSet::new();
    for name in names {
        for problem in dns1123_label(name) {
            problems.push(format!("cluster name \"{name}\" is invalid: {problem}"));
        }
        if !seen.insert(name) {
            problems.push(format!(
                "cluster names must be unique for policy type PickFixed: {name}"
            ));
        }
    }
}

fn check_affinity(affinity: &ClusterAffinity, problems: &mut Problems) {
    let required = affinity
        .required
        .iter()
        .flat_map(|required| &required.cluster_selector_terms);
    for term in required {
        if term.property_sorter.is_some() {
            problems.push("propertySorter is not allowed for RequiredDuringSchedulingIgnoredDuringExecution affinity".to_owned());
        }
        check_term(term, problems);
    }
    for preferred in &affinity.preferred {
        if preferred.preference.property_selector.is_some() {
            problems.push("propertySelector is not allowed for PreferredDuringSchedulingIgnoredDuringExecution affinity".to_owned());
        }
        check_term(&preferred.preference, problems);
    }
}

fn check_term(term: &ClusterSelectorTerm, problems: &mut Problems) {
    check_labels(term.label_selector.as_ref(), problems);
    if let Some(selector) = &term.property_selector {
        properties::check(&selector.match_expressions, problems);
    }
    if let Some(sorter) = &term.property_sorter {
        properties::check_name(&sorter.name, problems);
    }
}

fn check_tolerations(tolerations: &[Toleration], problems: &mut Problems) {
    for (index, one) in tolerations.iter().enumerate() {
        let mut refuse =
            |problem: String| problems.push(format!("invalid toleration {one:?}: {problem}"));
        if !one.key.is_empty() {
            qualified_name(&one.key).into_iter().for_each(&mut refuse);
        }
        match one.operator.unwrap_or_default() {
            TolerationOperator::Exists if !one.value.is_empty() => {
                refuse("toleration value needs to be empty, when operator is Exists".to_owned());
            }
            TolerationOperator::Exists => {}
            TolerationOperator::Equal => {
                if one.key.is_empty() {
                    refuse("toleration key cannot be empty, when operator is Equal".to_owned());
                }
                label_value(&one.value).into_iter().for_each(&mut refuse);
            }
        }
        if tolerations[..index].contains(one) {
            refuse("tolerations must be unique".to_owned());
        }
    }
}

fn check_strategy(spec: &PlacementSpec, problems: &mut Problems) {
    let strategy = &spec.strategy;
    if let Some(update) = &strategy.rolling_update {
        if strategy.type_ == RolloutStrategyType::External {
            problems
                .push("rollingUpdate config is not valid for External strategy type".to_owned());
        }
        for (field, limit) in [
            ("maxUnavailable", &update.max_unavailable),
            ("maxSurge", &update.max_surge),
        ] {
            check_limit(field, limit.as_ref(), problems);
        }
    }
    if let Some(apply) = &strategy.apply_strategy
        && apply.type_ != ApplyStrategyType::ServerSideApply
        && apply.server_side_apply_config.is_some()
    {
        problems.push(
            "serverSideApplyConfig is only valid for ServerSideApply strategy type".to_owned(),
        );
    }
}

fn check_limit(field: &str, limit: Option<&IntOrPercent>, problems: &mut Problems) {
    let Some(limit) = limit else {
        return;
    };
    match limit.of(100) {
        Some(number) if number < 0 => {
            problems.push(format!(
                "{field} must be greater than or equal to 0, got {number}"
            ));
        }
        Some(_) => {}
        None => problems.push(format!(
            "{field} must be a number or a percentage such as 25%"
        )),
    }
}

/// Checks an override of the cluster scope. `others` are all the others of the fleet.
pub fn check_cluster_override<'a>(
    one: &ClusterResourceOverride,
    others: impl IntoIterator<Item = &'a ClusterResourceOverride, IntoIter: Clone>,
) -> Problems {
    let others = others.into_iter();
    let mut problems = Problems::from_iter(check_name(&one.metadata.name));
    if others.clone().count() >= MAX_OVERRIDES {
        problems.push(format!(
            "clusterResourceOverride limit has been reached: at most {MAX_OVERRIDES} cluster resources can be created"
        ));
    }
    let mut seen = BTreeSet::new();
    for selector in &one.spec.cluster_resource_selectors {
        let identity = identity(
            &selector.group,
            &selector.version,
            &selector.kind,
            &selector.name,
        );
        if selector.label_selector.is_some() {
            problems.push(format!(
                "label selector is not supported for resource selection {identity}"
            ));
        }
        if selector.name.is_empty() {
            problems.push(format!(
                "resource name is required for resource selection {identity}"
            ));
        }
        if !seen.insert(identity.clone()) {
            problems.push(format!(
                "resource selector {identity} already exists, and must be unique"
            ));
        }
        let taken = others.clone().find(|other| {
            let mut selectors = other.spec.cluster_resource_selectors.iter();
            selectors.any(|other| *other == *selector)
        });
        if let Some(other) = taken {
            problems.push(taken_by(&identity, &other.metadata.name));
        }
    }
    check_override_policy(&one.spec.policy, &mut problems);
    problems
}

/// Checks an override of a namespace. `others` are all the others of the namespace.
pub fn check_override<'a>(
    one: &ResourceOverride,
    others: impl IntoIterator<Item = &'a ResourceOverride, IntoIter: Clone>,
) -> Problems {
    let others = others.into_iter();
    let mut problems = Problems::from_iter(check_name(&one.metadata.name));
    if others.clone().count() >= MAX_OVERRIDES {
        problems.push(format!(
            "resourceOverride limit has been reached: at most {MAX_OVERRIDES} resources can be created in one namespace"
        ));
    }
    let mut seen = BTreeSet::new();
    for selector in &one.spec.resource_selectors {
        let identity = identity(
            &selector.group,
            &selector.version,
            &selector.kind,
            &selector.name,
        );
        if !seen.insert(identity.clone()) {
            problems.push(format!(
                "resource selector {identity} already exists, and must be unique"
            ));
        }
        let taken = others
            .clone()
            .find(|other| other.spec.resource_selectors.contains(selector));
        if let Some(other) = taken {
            problems.push(taken_by(&identity, &other.metadata.name));
        }
    }
    check_override_policy(&one.spec.policy, &mut problems);
    problems
}

fn identity(group: &str, version: &str, kind: &str, name: &str) -> String {
    format!("{group}/{version}, Kind={kind} {name}")
}

fn taken_by(identity: &str, other: &str) -> String {
    format!(
        "the resource {identity} has been selected by both this override and {other}, which is not supported"
    )
}

fn check_override_policy(policy: &OverridePolicy, problems: &mut Problems) {
    for rule in &policy.override_rules {
        let terms = rule
            .cluster_selector
            .iter()
            .flat_map(|selector| &selector.cluster_selector_terms);
        for term in terms {
            if term.property_selector.is_some()
                || term.property_sorter.is_some()
                || term.label_selector.is_none()
            {
                problems.push("invalid clusterSelector term: only labelSelector is supported, and it is required".to_owned());
            }
            check_labels(term.label_selector.as_ref(), problems);
        }
        match rule.override_type.unwrap_or_default() {
            OverrideType::Delete if !rule.json_patch_overrides.is_empty() => {
                problems.push(
                    "jsonPatchOverrides cannot be set when the override type is Delete".to_owned(),
                );
            }
            OverrideType::JsonPatch if rule.json_patch_overrides.is_empty() => {
                problems.push(
                    "jsonPatchOverrides cannot be empty when the override type is JSONPatch"
                        .to_owned(),
                );
            }
            _ => {}
        }
        for step in &rule.json_patch_overrides {
            check_step(step, problems);
        }
    }
}

fn check_step(step: &JsonPatchOverride, problems: &mut Problems) {
    let path = &step.path;
    let mut refuse =
        |problem: &str| problems.push(format!("invalid JSONPatchOverride {path}: {problem}"));
    match path.strip_prefix('/') {
        _ if path.is_empty() => refuse("path cannot be empty"),
        None => refuse("path must start with /"),
        Some(rest) => {
            let parts: Vec<&str> = rest.split('/').collect();
            match parts[..] {
                ["kind" | "apiVersion", ..] => refuse("cannot override typeMeta fields"),
                ["status", ..] => refuse("cannot override status fields"),
                ["metadata"] => refuse("cannot override metadata fields"),
                ["metadata", field, ..] if !matches!(field, "labels" | "annotations") => {
                    refuse("cannot override metadata fields except annotations and labels");
                }
                _ if parts.contains(&"") => refuse("path cannot contain empty string"),
                _ => {}
            }
        }
    }
    if step.operator == JsonPatchOperator::Remove && !step.value.is_null() {
        refuse("remove operation cannot have value");
    }
}

/// Checks an eviction; `placement` is the one that it names, if it exists.
pub fn check_eviction(eviction: &Eviction, placement: Option<&Placement>) -> Problems {
    let is_fixed = placement
        .is_some_and(|placement| placement.spec.placement_type() == PlacementType::PickFixed);
    let problem = || {
        format!(
            "cannot create ClusterResourcePlacementEviction for PickFixed ClusterResourcePlacement {}",
            eviction.spec.placement_name
        )
    };
    is_fixed.then(problem).into_iter().collect()
}

/// Checks a disruption budget; `placement` is the one of its name, if it exists.
pub fn check_budget(budget: &DisruptionBudget, placement: Option<&Placement>) -> Problems {
    let mut problems = Problems::new();
    let picks_all = placement
        .is_some_and(|placement| placement.spec.placement_type() == PlacementType::PickAll);
    if picks_all && budget.spec.max_unavailable.is_some() {
        problems.push(
            "cluster resource placement policy type PickAll is not supported with any specified max unavailable".to_owned(),
        );
    }
    if picks_all && matches!(budget.spec.min_available, Some(IntOrPercent::Text(_))) {
        problems.push(
            "cluster resource placement policy type PickAll is not supported with min available as a percentage".to_owned(),
        );
    }
    problems
}

/// Checks the taints of a member.
pub fn check_member(spec: &MemberClusterSpec) -> Problems {
    let mut problems = Problems::new();
    for (index, taint) in spec.taints.iter().enumerate() {
        let mut refuse =
            |problem: String| problems.push(format!("invalid taint {taint:?}: {problem}"));
        qualified_name(&taint.key).into_iter().for_each(&mut refuse);
        label_value(&taint.value).into_iter().for_each(&mut refuse);
        let mut before = spec.taints[..index].iter();
        if before.any(|other| (&other.key, other.effect) == (&taint.key, taint.effect)) {
            refuse("taints must be unique".to_owned());
        }
    }
    problems
}

#[cfg(test)]
mod tests;
