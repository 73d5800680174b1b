//! The Works of a binding: the resources of its snapshots with overrides, and the contents of envelopes.

use std::collections::BTreeSet;

use kube_lang::object::Gvk;
use serde_json::{Value, json};

use crate::admission::KindScope;
use crate::hash::hash_of;
use crate::names;
use crate::overrides::{OverrideError, Overrides};
use crate::resources::{OF_FLEET, group_of, is_of_fleet};
use crate::types::binding::{Binding, ResourceSnapshot};
use crate::types::cluster::MemberCluster;
use crate::types::placement::{EnvelopeType, PlacementSpec, ResourceIdentifier};
use crate::types::work::WorkOutline;
use crate::types::{Metadata, PLACEMENT_GROUP, STORED_VERSION};

/// An envelope whose content cannot be placed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{kind} {namespace}/{name}, entry \"{key}\": {problem}", kind = .kind.as_str())]
pub struct EnvelopeError {
    pub kind: EnvelopeType,
    pub namespace: String,
    pub name: String,
    pub key: String,
    pub problem: String,
}

/// The reason why the Works of a binding cannot be derived.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WorksError {
    #[error(transparent)]
    Override(#[from] OverrideError),
    #[error(transparent)]
    Envelope(#[from] EnvelopeError),
    #[error(
        "{} {name} has the Works {works}: one of them is right, delete the others", .kind.as_str()
    )]
    Duplicates {
        kind: EnvelopeType,
        name: String,
        works: String,
    },
    #[error("master resource snapshot {0} is not found")]
    NoMaster(String),
    #[error(
        "resource snapshot {master} has {found} of {wanted} parts: wait until the others exist"
    )]
    Incomplete {
        master: String,
        found: usize,
        wanted: usize,
    },
}

/// The changes of a binding's Works. Works with the right marks do not change.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct WorksPlan {
    pub create: Vec<Value>,
    pub update: Vec<Value>,
    pub delete: Vec<String>,
}

impl WorksPlan {
    /// True if a Work changes, so that what Works report is about older ones.
    pub fn changes(&self) -> bool {
        !self.create.is_empty() || !self.update.is_empty() || !self.delete.is_empty()
    }
}

/// The kind of envelope that an object is.
pub fn envelope_type(object: &Value) -> Option<EnvelopeType> {
    match (
        group_of(object),
        object["kind"].as_str().unwrap_or_default(),
    ) {
        ("", "ConfigMap") => {
            let annotations = &object["metadata"]["annotations"];
            let is_envelope = annotations[names::ENVELOPE_CONFIG_MAP] == "true";
            is_envelope.then_some(EnvelopeType::ConfigMap)
        }
        (PLACEMENT_GROUP, "ClusterResourceEnvelope") => Some(EnvelopeType::ClusterResourceEnvelope),
        (PLACEMENT_GROUP, "ResourceEnvelope") => Some(EnvelopeType::ResourceEnvelope),
        _ => None,
    }
}

/// The limits of a document. A few aliases of short parts are enough for a manifest; without a limit, a short document can
/// be as large as it likes once it is read.
fn yaml() -> serde_saphyr::Options {
    serde_saphyr::options! {
        budget: serde_saphyr::budget! {
            max_aliases: 100,
            max_recorded_anchor_bytes: 64 << 10,
        },
    }
}

/// The place of an error in a document. What is there is not quoted: an envelope has readers, and an error others.
fn unreadable(error: &serde_saphyr::Error) -> String {
    match error.location() {
        Some(at) => format!(
            "line {}, column {}: this is no valid YAML",
            at.line(),
            at.column()
        ),
        None => "this is no valid YAML".to_owned(),
    }
}

/// Finds the scope of a kind.
pub type ScopeOf<'a> = dyn Fn(&Gvk) -> KindScope + 'a;

/// The objects in an envelope, by their keys. Objects of unknown kinds have the scope that their namespace shows. Those of
/// a `ResourcePlacement` (`is_near`) are namespaced: whoever makes it may not write anything else.
pub fn unpack(
    envelope: &Value,
    kind: EnvelopeType,
    is_near: bool,
    scope_of: &ScopeOf<'_>,
) -> Result<Vec<Value>, EnvelopeError> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let metadata = &envelope["metadata"];
    let namespace = text(&metadata["namespace"]);
    let mut objects = Vec::new();
    for (key, value) in envelope["data"].as_object().into_iter().flatten() {
        let wrong = |problem: String| EnvelopeError {
            kind,
            namespace: namespace.clone(),
            name: text(&metadata["name"]),
            key: key.clone(),
            problem,
        };
        let object: Value = match value {
            Value::String(manifest) if kind == EnvelopeType::ConfigMap => {
                serde_saphyr::from_str_with_options(manifest, yaml())
                    .map_err(|error| wrong(unreadable(&error)))?
            }
            other => other.clone(),
        };
        let is_named = |field: &Value| field.as_str().is_some_and(|text| !text.is_empty());
        if !is_named(&object["apiVersion"]) || !is_named(&object["kind"]) {
            return Err(wrong(
                "write one object with apiVersion and kind".to_owned(),
            ));
        }
        if is_of_fleet(&object) {
            return Err(wrong(OF_FLEET.to_owned()));
        }
        let within = object["metadata"]["namespace"].as_str().unwrap_or_default();
        let of = ResourceIdentifier::of(&object);
        let scope = scope_of(&Gvk::new(&of.group, &of.version, &of.kind));
        let fits = match kind {
            EnvelopeType::ConfigMap if scope == KindScope::Namespaced => within == namespace,
            EnvelopeType::ConfigMap if !is_near => within.is_empty() || within == namespace,
            EnvelopeType::ConfigMap | EnvelopeType::ResourceEnvelope => {
                within == namespace && scope != KindScope::Cluster
            }
            EnvelopeType::ClusterResourceEnvelope => {
                within.is_empty() && scope != KindScope::Namespaced
            }
        };
        if !fits {
            let wanted = match kind {
                EnvelopeType::ClusterResourceEnvelope => "be cluster-scoped".to_owned(),
                EnvelopeType::ConfigMap if !is_near => format!("be in namespace {namespace}"),
                EnvelopeType::ConfigMap | EnvelopeType::ResourceEnvelope => {
                    format!("be namespaced, in namespace {namespace}")
                }
            };
            let scope = match scope {
                KindScope::Cluster => "cluster-scoped",
                KindScope::Namespaced => "namespaced",
                KindScope::Unknown => "of a kind that the hub does not serve",
            };
            return Err(wrong(format!(
                "the object is {scope}, in namespace \"{within}\"; it must {wanted}"
            )));
        }
        objects.push(object);
    }
    // The order of the original: Works do not change while their content does not.
    objects.sort_by_cached_key(|object| std::cmp::Reverse(object.to_string()));
    Ok(objects)
}

/// The input for the Works of a binding.
#[derive(Clone, Copy)]
pub struct WorksRequest<'a> {
    pub placement: &'a Metadata,
    pub spec: &'a PlacementSpec,
    pub binding: &'a Binding,
    pub cluster: &'a MemberCluster,
    /// The group of the binding's resource snapshot.
    pub snapshots: &'a [ResourceSnapshot],
    /// The overrides that the binding lists.
    pub overrides: &'a Overrides<'a>,
    /// The Works that are there.
    pub works: &'a [&'a WorkOutline],
    pub scope_of: &'a ScopeOf<'a>,
}

/// The Works that a binding is to have.
pub fn generate(request: &WorksRequest<'_>) -> Result<Vec<Value>, WorksError> {
    let group = snapshot_group(request)?;
    let prefix = names::work_prefix(
        request.placement.namespace.as_deref(),
        &request.placement.name,
    );
    let is_near = request.placement.namespace.is_some();
    let mut works = Vec::new();
    for (snapshot, sub) in group {
        let mut manifests = Vec::new();
        for resource in &snapshot.spec.selected_resources {
            let Some(kind) = envelope_type(resource) else {
                manifests.extend(request.overrides.apply(resource.clone(), request.cluster)?);
                continue;
            };
            let metadata = &resource["metadata"];
            let text = |field: &str| metadata[field].as_str().unwrap_or_default();
            let mut inner = Vec::new();
            for object in unpack(resource, kind, is_near, request.scope_of)? {
                inner.extend(request.overrides.apply(object, request.cluster)?);
            }
            let known = existing_work_name(request, kind, text("namespace"), text("name"))?;
            let name = known.unwrap_or_else(|| {
                names::envelope_work(&prefix, kind, text("namespace"), text("name"))
            });
            let mut work = work(request, &name, inner);
            let labels = &mut work["metadata"]["labels"];
            labels[names::ENVELOPE_TYPE] = kind.as_str().into();
            labels[names::ENVELOPE_NAME] = text("name").into();
            labels[names::ENVELOPE_NAMESPACE] = text("namespace").into();
            works.push(work);
        }
        works.push(work(request, &names::work(&prefix, sub), manifests));
    }
    Ok(works)
}

/// The name of the Work that an envelope has already. The original gave those of `ConfigMap`s random names; with
/// another name, its objects would be deleted with the old Work.
fn existing_work_name(
    request: &WorksRequest<'_>,
    kind: EnvelopeType,
    namespace: &str,
    name: &str,
) -> Result<Option<String>, WorksError> {
    let marks = [
        (names::ENVELOPE_TYPE, kind.as_str()),
        (names::ENVELOPE_NAMESPACE, namespace),
        (names::ENVELOPE_NAME, name),
    ];
    let is_its = |work: &&WorkOutline| {
        let mut marks = marks.iter();
        !work.metadata.in_deletion()
            && marks.all(|(key, value)| work.metadata.label(key).unwrap_or_default() == *value)
    };
    let parent = &*request.binding.metadata.name;
    let found = request.works.iter().copied().filter(is_its);
    // Those that are left of a former binding count if there is no other.
    let (its, left): (Vec<&WorkOutline>, Vec<&WorkOutline>) =
        found.partition(|work| work.metadata.label(names::PARENT_BINDING) == Some(parent));
    if its.len() > 1 {
        let works: Vec<&str> = its.iter().map(|work| &*work.metadata.name).collect();
        return Err(WorksError::Duplicates {
            kind,
            name: name.to_owned(),
            works: works.join(", "),
        });
    }
    let known = its.first().or(left.first());
    Ok(known.map(|work| work.metadata.name.clone()))
}

/// The snapshots of the binding's group, the master first.
fn snapshot_group<'a>(
    request: &WorksRequest<'a>,
) -> Result<Vec<(&'a ResourceSnapshot, Option<usize>)>, WorksError> {
    let master_name = &request.binding.spec.resource_snapshot_name;
    let master = request
        .snapshots
        .iter()
        .find(|one| one.metadata.name == *master_name);
    let master = master.ok_or_else(|| WorksError::NoMaster(master_name.clone()))?;
    let index = master.metadata.label(names::RESOURCE_INDEX);
    let parts = request.snapshots.iter().filter_map(|one| {
        let sub = one
            .metadata
            .annotation(names::SNAPSHOT_SUBINDEX)?
            .parse()
            .ok()?;
        let is_same = one.metadata.label(names::RESOURCE_INDEX) == index;
        is_same.then_some((one, Some(sub)))
    });
    let mut group: Vec<(&ResourceSnapshot, Option<usize>)> = parts.collect();
    group.push((master, None));
    group.sort_by_key(|(_, sub)| *sub);
    let wanted = master.metadata.annotation(names::NUMBER_OF_SNAPSHOTS);
    let wanted = wanted.and_then(|number| number.parse().ok()).unwrap_or(1);
    if group.len() < wanted {
        return Err(WorksError::Incomplete {
            master: master_name.clone(),
            found: group.len(),
            wanted,
        });
    }
    Ok(group)
}

fn work(request: &WorksRequest<'_>, name: &str, manifests: Vec<Value>) -> Value {
    let binding = request.binding;
    let snapshot = &binding.spec.resource_snapshot_name;
    let index = request
        .snapshots
        .iter()
        .find(|one| one.metadata.name == *snapshot);
    let index = index.and_then(|one| one.metadata.label(names::RESOURCE_INDEX));
    let mut work = json!({
        "apiVersion": format!("{PLACEMENT_GROUP}/{STORED_VERSION}"),
        "kind": "Work",
        "metadata": {
            "name": name,
            "namespace": names::member_namespace(&binding.spec.target_cluster),
            "labels": {
                names::PARENT_PLACEMENT: request.placement.name,
                names::PARENT_BINDING: binding.metadata.name,
                names::PARENT_SNAPSHOT_INDEX: index,
            },
            "annotations": {
                names::PARENT_SNAPSHOT: snapshot,
                names::CLUSTER_OVERRIDES_HASH: list_hash(&binding.spec.cluster_resource_override_snapshots),
                names::RESOURCE_OVERRIDES_HASH: list_hash(&binding.spec.resource_override_snapshots),
            },
        },
        "spec": {"workload": {"manifests": Value::Array(manifests)}},
    });
    if let Some(namespace) = &request.placement.namespace {
        work["metadata"]["labels"][names::PARENT_NAMESPACE] = namespace.clone().into();
    }
    if let Some(strategy) = &binding.spec.apply_strategy {
        work["spec"]["applyStrategy"] = json!(strategy);
    }
    if let Some(strategy) = &request.spec.strategy.report_back_strategy {
        work["spec"]["reportBackStrategy"] = json!(strategy);
    }
    work
}

/// The hash of a list of snapshots; the original's empty list is null.
pub(crate) fn list_hash<T: serde::Serialize>(list: &[T]) -> String {
    hash_of(&(!list.is_empty()).then_some(list))
}

/// Compares the Works that are there with those that are wanted.
pub fn plan(existing: &[Value], wanted: Vec<Value>) -> WorksPlan {
    let mut plan = WorksPlan::default();
    let mut kept = BTreeSet::new();
    for work in wanted {
        let name = work["metadata"]["name"]
            .as_str()
            .unwrap_or_default()
            .to_owned();
        match existing.iter().find(|one| one["metadata"]["name"] == *name) {
            None => plan.create.push(work),
            Some(old) if is_current(old, &work) => {}
            Some(_) => plan.update.push(work),
        }
        kept.insert(name);
    }
    let names = existing
        .iter()
        .filter_map(|one| one["metadata"]["name"].as_str());
    plan.delete = names
        .filter(|name| !kept.contains(*name))
        .map(str::to_owned)
        .collect();
    plan
}

/// True if a Work was derived from the same snapshots and has the same strategies.
fn is_current(old: &Value, wanted: &Value) -> bool {
    let marks = [
        ("labels", names::PARENT_SNAPSHOT_INDEX),
        ("labels", names::PARENT_BINDING),
        ("annotations", names::PARENT_SNAPSHOT),
        ("annotations", names::CLUSTER_OVERRIDES_HASH),
        ("annotations", names::RESOURCE_OVERRIDES_HASH),
    ];
    let has_mark =
        |(map, key): (&str, &str)| old["metadata"][map][key] == wanted["metadata"][map][key];
    let strategies = ["applyStrategy", "reportBackStrategy"];
    marks.into_iter().all(has_mark)
        && strategies
            .iter()
            .all(|field| old["spec"][*field] == wanted["spec"][*field])
}

#[cfg(test)]
mod tests;
