//! The permission claims of an export: those that the published resources need, merged into those that exist.
//!
//! Claims are only added. kcp accepts one claim for each group and resource, and refuses an export with two, so an
//! existing claim of another form is reported instead of doubled.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use serde_json::{Map, Value, json};

use super::latest::GroupResource;
use super::types::{LegacyKind, Origin, PublishedResourceSpec, RelatedSpec};

/// The annotation for claims that only the newer API version can express in full.
pub const FULL_CLAIMS: &str = "apis.v1alpha2.kcp.io/permission-claims";

/// Objects of the workspaces that the agent needs beside those it publishes.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Claim {
    pub group: String,
    pub resource: String,
    /// The identity of the export that the resource comes from; empty for resources of every workspace.
    pub identity: String,
}

impl Claim {
    pub fn new(group: &str, resource: &str, identity: &str) -> Self {
        Self {
            group: group.to_owned(),
            resource: resource.to_owned(),
            identity: identity.to_owned(),
        }
    }

    fn read(claim: &Value) -> Self {
        let field = |name: &str| claim[name].as_str().unwrap_or_default();
        Self::new(field("group"), field("resource"), field("identityHash"))
    }

    fn to_value(&self) -> Value {
        let mut claim = Map::new();
        claim.insert("group".into(), self.group.clone().into());
        claim.insert("resource".into(), self.resource.clone().into());
        claim.insert("all".into(), true.into());
        if !self.identity.is_empty() {
            claim.insert("identityHash".into(), self.identity.clone().into());
        }
        Value::Object(claim)
    }

    /// Whether kcp may not know the resource: its group may be missing in workspaces, and the claim has no identity.
    fn is_doubtful(&self) -> bool {
        !self.group.is_empty() && self.identity.is_empty()
    }

    fn is_for_the_same(&self, other: &Self) -> bool {
        self.group == other.group && self.resource == other.resource
    }
}

/// The name of a claim in events and messages: `secrets`, `core.kcp.io/logicalclusters`.
impl fmt::Display for Claim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.group.is_empty() {
            write!(f, "{}/", self.group)?;
        }
        f.write_str(&self.resource)
    }
}

/// The claims that one published resource needs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Needs {
    always: BTreeSet<Claim>,
    /// Not claimed if the export itself offers the resource.
    related: BTreeSet<Claim>,
}

impl Needs {
    pub fn of(spec: &PublishedResourceSpec) -> Self {
        let mut always = BTreeSet::from([Claim::new("", "events", "")]);
        let by_namespace = spec.filter.as_ref().is_some_and(|f| f.namespace.is_some());
        if by_namespace || !spec.related.is_empty() {
            always.insert(Claim::new("", "namespaces", ""));
        }
        if spec.enable_workspace_paths {
            always.insert(Claim::new("core.kcp.io", "logicalclusters", ""));
        }
        Self {
            always,
            related: spec.related.iter().filter_map(in_workspaces).collect(),
        }
    }

    /// The claims, given the resources that the export itself offers.
    pub fn claims<'s>(
        &'s self,
        own: &'s BTreeSet<GroupResource>,
    ) -> impl Iterator<Item = &'s Claim> {
        let related = self.related.iter().filter(|claim| {
            !own.contains(&GroupResource {
                resource: claim.resource.clone(),
                group: claim.group.clone(),
            })
        });
        self.always.iter().chain(related)
    }

    /// Whether a claim is among them.
    pub fn include(&self, claim: &Claim) -> bool {
        self.always.contains(claim) || self.related.contains(claim)
    }
}

/// The name of a related resource in workspaces. An entry without a type needs nothing: the rules report it.
/// the rules report it.
fn in_workspaces(related: &RelatedSpec) -> Option<Claim> {
    let given = |text: &Option<String>| text.clone().filter(|text| !text.is_empty());
    let (mut group, mut resource) = match (given(&related.resource), related.kind) {
        (Some(resource), _) => (given(&related.group).unwrap_or_default(), resource),
        (None, Some(LegacyKind::ConfigMap)) => (String::new(), "configmaps".to_owned()),
        (None, Some(LegacyKind::Secret)) => (String::new(), "secrets".to_owned()),
        (None, None) => return None,
    };
    if related.origin == Origin::Service
        && let Some(projection) = &related.projection
    {
        group = given(&projection.group).unwrap_or(group);
        resource = given(&projection.resource).unwrap_or(resource);
    }
    let identity = given(&related.identity_hash).unwrap_or_default();
    Some(Claim {
        group,
        resource,
        identity,
    })
}

/// The reason why a claim does not exist as needed, for the owner of the export.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ClaimProblem {
    #[error(
        "the export claims {0} for selected objects only and is left unchanged: replace the claim \
         by one with all: true"
    )]
    Selected(Claim),
    #[error(
        "the export claims {claim} with the verbs {verbs} only and is left unchanged: allow all \
         verbs in the claim"
    )]
    Verbs { claim: Claim, verbs: String },
    #[error(
        "{claim} is claimed with the identity {there:?} and not {:?}; left unchanged: \
         correct identityHash, or replace the claim", claim.identity
    )]
    OtherIdentity { claim: Claim, there: String },
    #[error(
        "kcp does not take a claim on {claim}; it is omitted: correct its group and resource, or set \
         identityHash to the status.identityHash of the APIExport that provides the resource ({why})"
    )]
    NotTaken { claim: Claim, why: String },
}

impl ClaimProblem {
    /// The claim that does not exist as needed.
    pub fn claim(&self) -> &Claim {
        match self {
            Self::Selected(claim)
            | Self::Verbs { claim, .. }
            | Self::OtherIdentity { claim, .. }
            | Self::NotTaken { claim, .. } => claim,
        }
    }
}

/// The claims in a list that kcp means by this refusal: those that it names or numbers, else all that it may not know.
pub fn refused(added: &[Claim], list: &[Value], words: &str) -> Vec<Claim> {
    let doubtful = || added.iter().filter(|claim| claim.is_doubtful());
    let at = |claim: &Claim| list.iter().position(|one| Claim::read(one) == *claim);
    let named = |claim: &&Claim| {
        let number = at(claim).map(|at| format!("permissionClaims[{at}]"));
        let name = format!("{}.{}", claim.resource, claim.group);
        words.contains(&name) || number.is_some_and(|number| words.contains(&number))
    };
    let named: Vec<Claim> = doubtful().filter(named).cloned().collect();
    if named.is_empty() {
        doubtful().cloned().collect()
    } else {
        named
    }
}

/// The merged claims.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct MergedClaims {
    pub list: Vec<Value>,
    pub added: Vec<Claim>,
    pub problems: Vec<ClaimProblem>,
}

/// Adds missing claims. `full` are the claims that the older version shows in part only, from [`FULL_CLAIMS`].
pub fn merge(existing: &[Value], full: &[Value], wanted: &BTreeSet<Claim>) -> MergedClaims {
    let mut merged = MergedClaims::default();
    let there: Vec<(Claim, &Value)> = existing.iter().map(|c| (Claim::read(c), c)).collect();
    for group in by_resource(wanted) {
        add_one(&group, &there, full, &mut merged);
    }
    merged.list = existing.iter().map(completed).collect();
    let added = merged.added.iter().map(Claim::to_value);
    merged.list.extend(added);
    merged.list.sort_by_cached_key(Claim::read);
    merged
}

/// The wanted claims that kcp takes for one and the same.
fn by_resource(wanted: &BTreeSet<Claim>) -> Vec<Vec<&Claim>> {
    let mut groups: BTreeMap<(&str, &str), Vec<&Claim>> = BTreeMap::new();
    for claim in wanted {
        let key = (claim.group.as_str(), claim.resource.as_str());
        groups.entry(key).or_default().push(claim);
    }
    groups.into_values().collect()
}

fn add_one(
    wanted: &[&Claim],
    existing: &[(Claim, &Value)],
    full: &[Value],
    merged: &mut MergedClaims,
) {
    let Some(first) = wanted.first() else { return };
    let there = existing
        .iter()
        .find(|(claim, _)| wanted.contains(&claim))
        .or_else(|| {
            existing
                .iter()
                .find(|(claim, _)| claim.is_for_the_same(first))
        });
    let held = if let Some((claim, value)) = there {
        if wanted.contains(&claim) {
            merged.problems.extend(restriction(claim, value, full));
        }
        claim
    } else {
        // An identity says more than none: without one only what every workspace has is meant.
        let chosen = wanted.iter().find(|claim| !claim.identity.is_empty());
        let chosen = *chosen.unwrap_or(first);
        merged.added.push(chosen.clone());
        chosen
    };
    for claim in wanted.iter().filter(|claim| **claim != held) {
        merged.problems.push(ClaimProblem::OtherIdentity {
            claim: (*claim).clone(),
            there: held.identity.clone(),
        });
    }
}

/// The rights that an existing claim lacks.
fn restriction(claim: &Claim, value: &Value, full: &[Value]) -> Option<ClaimProblem> {
    let has_selector = value["resourceSelector"]
        .as_array()
        .is_some_and(|s| !s.is_empty());
    if has_selector || value["all"] == false {
        return Some(ClaimProblem::Selected(claim.clone()));
    }
    let full = full.iter().find(|full| Claim::read(full) == *claim)?;
    let verbs: Vec<&str> = full["verbs"]
        .as_array()?
        .iter()
        .filter_map(Value::as_str)
        .collect();
    (!verbs.contains(&"*")).then(|| ClaimProblem::Verbs {
        claim: claim.clone(),
        verbs: verbs.join(", "),
    })
}

/// A claim from the newer version shows no `all` in the older one, which then refuses to take it back. `all` is its
/// value there; verbs and selectors are unchanged.
fn completed(claim: &Value) -> Value {
    let mut claim = claim.clone();
    if let Some(fields) = claim.as_object_mut()
        && !fields.contains_key("all")
        && !fields.contains_key("resourceSelector")
    {
        fields.insert("all".into(), json!(true));
    }
    claim
}

#[cfg(test)]
mod tests;
