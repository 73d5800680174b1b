//! Resource snapshots and policy snapshots: which of them are created and deleted.

use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use crate::hash::{policy_hash, resource_hash};
use crate::names;
use crate::selection::SelectionError;
use crate::types::binding::{PolicySnapshot, ResourceSnapshot};
use crate::types::placement::{Placement, ResourceIdentifier};
use crate::types::policy::PlacementType;
use crate::types::{Metadata, PLACEMENT_GROUP, STORED_VERSION};

/// The bytes of JSON in a snapshot, unless one object is larger.
const MAX_BYTES: usize = 800 * 1024;
/// The maximum number of resources in a snapshot: the Work that is derived from it has room for the status of each.
const MAX_RESOURCES: usize = 1000;
/// The bytes of JSON in a resource: etcd stores objects of 1.5 MiB, and a snapshot or a Work is a little larger than
/// what it holds.
const MAX_RESOURCE_BYTES: usize = 1500 * 1024;
/// The groups of snapshots that are kept, if the placement does not say.
const HISTORY: usize = 10;

/// The resources that a placement selects, normalised and sorted, and their hash.
#[derive(Clone, Debug)]
pub struct Selected {
    pub resources: Vec<Value>,
    pub hash: String,
    /// The bytes of the JSON of each, as Go writes it: that is what a server stores.
    sizes: Vec<usize>,
}

impl From<Vec<Value>> for Selected {
    fn from(resources: Vec<Value>) -> Self {
        let (hash, sizes) = resource_hash(&resources);
        Self {
            resources,
            hash,
            sizes,
        }
    }
}

impl Selected {
    /// The bytes of the JSON of all of them.
    pub fn bytes(&self) -> usize {
        self.sizes.iter().sum()
    }

    /// The selection, unless a resource fits into no snapshot.
    pub fn checked(self) -> Result<Self, SelectionError> {
        let mut all = self.resources.iter().zip(&self.sizes);
        match all.find(|(_, bytes)| **bytes > MAX_RESOURCE_BYTES) {
            None => Ok(self),
            Some((resource, bytes)) => Err(SelectionError::TooLarge {
                resource: Box::new(ResourceIdentifier::of(resource)),
                bytes: *bytes,
                most: MAX_RESOURCE_BYTES,
            }),
        }
    }

    /// The chunks of snapshots, in their order.
    pub fn split(&self) -> Vec<Vec<&Value>> {
        let mut chunks = vec![Vec::new()];
        let mut bytes = 0;
        for (resource, size) in self.resources.iter().zip(&self.sizes) {
            if let Some(chunk) = chunks.last_mut()
                && (chunk.is_empty() || (bytes + size <= MAX_BYTES && chunk.len() < MAX_RESOURCES))
            {
                bytes += size;
                chunk.push(resource);
            } else {
                bytes = *size;
                chunks.push(vec![resource]);
            }
        }
        chunks
    }
}

/// The kind of a placement, which decides about the kinds of its snapshots.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    Cluster,
    Namespaced,
}

impl Scope {
    /// The kind of the placement.
    pub fn placement(self) -> &'static str {
        match self {
            Self::Cluster => "ClusterResourcePlacement",
            Self::Namespaced => "ResourcePlacement",
        }
    }

    /// The kind of its policy snapshots.
    pub fn policy_snapshot(self) -> &'static str {
        match self {
            Self::Cluster => "ClusterSchedulingPolicySnapshot",
            Self::Namespaced => "SchedulingPolicySnapshot",
        }
    }

    /// The kind of its resource snapshots.
    pub fn resource_snapshot(self) -> &'static str {
        match self {
            Self::Cluster => "ClusterResourceSnapshot",
            Self::Namespaced => "ResourceSnapshot",
        }
    }

    /// The kind of its bindings.
    pub fn binding(self) -> &'static str {
        match self {
            Self::Cluster => "ClusterResourceBinding",
            Self::Namespaced => "ResourceBinding",
        }
    }
}

/// The patience before changes become a new snapshot. Zero in either turns it off, which is the default.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Debounce {
    /// The least time between two snapshots.
    pub minimum_interval: SignedDuration,
    /// The time in which further changes are awaited.
    pub collection: SignedDuration,
}

/// The required writes, in this order.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SnapshotPlan {
    /// The snapshot whose `is-latest-snapshot` becomes `true` again, after a crash.
    pub restore: Option<String>,
    /// The snapshot whose `is-latest-snapshot` becomes `false`.
    pub retire: Option<String>,
    /// The snapshot whose annotations are updated.
    pub annotate: Option<Annotated>,
    pub delete: Vec<String>,
    pub create: Vec<Value>,
    /// The time when a new snapshot may be made. Until then the old one counts.
    pub wait_until: Option<Timestamp>,
    /// The index of the snapshot that counts afterwards.
    pub index: u64,
}

/// Annotations of a snapshot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Annotated {
    pub name: String,
    pub annotations: Vec<(&'static str, String)>,
}

/// Snapshots that contradict each other. Nothing is guessed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SnapshotError {
    #[error("several snapshots have the label {key}: {names}; remove it from all but one", key = names::IS_LATEST)]
    SeveralLatest { names: String },
    #[error("snapshot {name} has no valid index: its label {label} must be a number")]
    Index { name: String, label: &'static str },
    #[error("snapshot {0} has no hash: its annotation {key} is missing", key = names::RESOURCE_HASH)]
    Hash(String),
}

/// True for an envelope of any kind.
pub fn is_envelope(object: &Value) -> bool {
    crate::works::envelope_type(object).is_some()
}

pub(crate) struct StoredSnapshots<'a> {
    pub(crate) metadata: &'a Metadata,
    pub(crate) index: u64,
}

impl<'a> StoredSnapshots<'a> {
    pub(crate) fn read(metadata: &'a Metadata, label: &'static str) -> Result<Self, SnapshotError> {
        let index = metadata.label(label).and_then(|text| text.parse().ok());
        let index = index.ok_or_else(|| SnapshotError::Index {
            name: metadata.name.clone(),
            label,
        })?;
        Ok(Self { metadata, index })
    }

    pub(crate) fn is_latest(&self) -> bool {
        self.metadata.label(names::IS_LATEST) == Some("true")
    }
}

/// The snapshot that counts: the one that says so, or the last one after a crash.
pub(crate) fn latest<'s, 'a>(
    all: &'s [StoredSnapshots<'a>],
) -> Result<Option<&'s StoredSnapshots<'a>>, SnapshotError> {
    let claims: Vec<&StoredSnapshots<'_>> = all.iter().filter(|one| one.is_latest()).collect();
    match claims[..] {
        [] => Ok(all.iter().max_by_key(|one| one.index)),
        [one] => Ok(Some(one)),
        _ => {
            let names: Vec<&str> = claims
                .iter()
                .map(|one| one.metadata.name.as_str())
                .collect();
            Err(SnapshotError::SeveralLatest {
                names: names.join(", "),
            })
        }
    }
}

/// The snapshots whose index is too old when a new one is created.
pub(crate) fn surplus(all: &[StoredSnapshots<'_>], limit: Option<i32>) -> Vec<String> {
    let limit = limit
        .and_then(|limit| usize::try_from(limit).ok())
        .unwrap_or(HISTORY)
        .max(1);
    let mut indices: Vec<u64> = all.iter().map(|one| one.index).collect();
    indices.sort_unstable();
    indices.dedup();
    // The new snapshot is one of those that are kept.
    let surplus = (indices.len() + 1).saturating_sub(limit);
    let gone = &indices[..surplus.min(indices.len())];
    let mut gone: Vec<&StoredSnapshots<'_>> =
        all.iter().filter(|one| gone.contains(&one.index)).collect();
    gone.sort_by_key(|one| (one.index, &one.metadata.name));
    gone.into_iter()
        .map(|one| one.metadata.name.clone())
        .collect()
}

/// Decides about the resource snapshots of a placement. `stored` are all of them.
pub fn plan_resources(
    placement: &Placement,
    scope: Scope,
    stored: &[ResourceSnapshot],
    selected: &Selected,
    debounce: Debounce,
    now: Timestamp,
) -> Result<SnapshotPlan, SnapshotError> {
    let all = stored
        .iter()
        .map(|one| StoredSnapshots::read(&one.metadata, names::RESOURCE_INDEX));
    let all: Vec<StoredSnapshots<'_>> = all.collect::<Result<_, _>>()?;
    let is_master =
        |one: &StoredSnapshots<'_>| one.metadata.annotation(names::SNAPSHOT_SUBINDEX).is_none();
    let (masters, _): (Vec<StoredSnapshots<'_>>, Vec<StoredSnapshots<'_>>) = stored
        .iter()
        .zip(&all)
        .map(|(one, read)| StoredSnapshots {
            metadata: &one.metadata,
            index: read.index,
        })
        .partition(is_master);
    let mut plan = SnapshotPlan::default();
    if let Some(master) = latest(&masters)? {
        plan.index = master.index;
        let old = master.metadata;
        let old_hash = old.annotation(names::RESOURCE_HASH);
        if old_hash.ok_or_else(|| SnapshotError::Hash(old.name.clone()))? == selected.hash {
            plan.restore = (!master.is_latest()).then(|| old.name.clone());
            let group = all.iter().filter(|one| one.index == master.index);
            let there: Vec<&str> = group.map(|one| one.metadata.name.as_str()).collect();
            let number = old.annotation(names::NUMBER_OF_SNAPSHOTS);
            if number.and_then(|number| number.parse().ok()) != Some(there.len()) {
                plan.create = resource_snapshots(placement, scope, master.index, selected);
                let is_there = |name: &Value| there.iter().any(|there| name == *there);
                plan.create
                    .retain(|one| !is_there(&one["metadata"]["name"]));
            }
            return Ok(plan);
        }
        if let Some((wait_until, first_seen)) = awaited(old, debounce, now) {
            plan.wait_until = Some(wait_until);
            plan.annotate = first_seen.then(|| Annotated {
                name: old.name.clone(),
                annotations: vec![(names::CANDIDATE_TIME, now.to_string())],
            });
            return Ok(plan);
        }
        plan.retire = master.is_latest().then(|| old.name.clone());
        let newest = all.iter().map(|one| one.index).max();
        plan.index = newest.map_or(0, |newest| newest + 1);
    }
    plan.delete = surplus(&all, placement.spec.revision_history_limit);
    plan.create = resource_snapshots(placement, scope, plan.index, selected);
    Ok(plan)
}

/// The time until which a new snapshot has to wait, and whether the change is seen for the first time.
fn awaited(old: &Metadata, debounce: Debounce, now: Timestamp) -> Option<(Timestamp, bool)> {
    if debounce.minimum_interval.is_zero() || debounce.collection.is_zero() {
        return None;
    }
    let seen = old
        .annotation(names::CANDIDATE_TIME)
        .and_then(|time| time.parse().ok());
    let created = old
        .creation_timestamp
        .as_deref()
        .and_then(|time| time.parse().ok());
    let later = |time: Timestamp, by| time.checked_add(by).unwrap_or(now);
    let collected = later(seen.unwrap_or(now), debounce.collection);
    let interval = created.map_or(now, |created| later(created, debounce.minimum_interval));
    let until = collected.max(interval);
    (now < until).then_some((until, seen.is_none()))
}

/// The objects of a group of snapshots; the master is the first.
fn resource_snapshots(
    placement: &Placement,
    scope: Scope,
    index: u64,
    selected: &Selected,
) -> Vec<Value> {
    let resources = &selected.resources;
    let envelopes = resources
        .iter()
        .filter(|one| is_envelope(one))
        .count()
        .to_string();
    let chunks = selected.split();
    let number = chunks.len().to_string();
    let mut master = Some([
        (names::RESOURCE_HASH, selected.hash.clone()),
        (names::NUMBER_OF_SNAPSHOTS, number),
        (names::NUMBER_OF_ENVELOPES, envelopes),
    ]);
    let chunks = chunks.into_iter().enumerate();
    chunks
        .map(|(place, chunk)| {
            let sub = place.checked_sub(1);
            let name = names::resource_snapshot(&placement.metadata.name, index, sub);
            let mut object = owned(placement, scope, scope.resource_snapshot(), &name);
            let metadata = &mut object["metadata"];
            metadata["labels"][names::RESOURCE_INDEX] = index.to_string().into();
            if let Some(annotations) = master.take() {
                metadata["labels"][names::IS_LATEST] = "true".into();
                for (key, value) in annotations {
                    metadata["annotations"][key] = value.into();
                }
            } else if let Some(sub) = sub {
                metadata["annotations"][names::SNAPSHOT_SUBINDEX] = sub.to_string().into();
            }
            object["spec"] = json!({"selectedResources": chunk});
            object
        })
        .collect()
}

/// Decides about the policy snapshots of a placement.
pub fn plan_policy(
    placement: &Placement,
    scope: Scope,
    stored: &[PolicySnapshot],
) -> Result<SnapshotPlan, SnapshotError> {
    let all = stored
        .iter()
        .map(|one| StoredSnapshots::read(&one.metadata, names::POLICY_INDEX));
    let all: Vec<StoredSnapshots<'_>> = all.collect::<Result<_, _>>()?;
    let policy = placement.spec.policy.as_ref();
    let hash = encode_base64(&policy_hash(policy));
    let mut annotations = vec![(
        names::PLACEMENT_GENERATION,
        placement.metadata.generation.to_string(),
    )];
    let number = policy.filter(|policy| policy.placement_type == PlacementType::PickN);
    if let Some(number) = number.and_then(|policy| policy.number_of_clusters) {
        annotations.push((names::NUMBER_OF_CLUSTERS, number.to_string()));
    }
    let mut plan = SnapshotPlan::default();
    if let Some(old) = latest(&all)? {
        plan.index = old.index;
        let found = stored
            .iter()
            .find(|one| one.metadata.name == old.metadata.name);
        if found.is_some_and(|one| one.spec.policy_hash == hash) {
            plan.restore = (!old.is_latest()).then(|| old.metadata.name.clone());
            let same = annotations
                .iter()
                .all(|(key, value)| old.metadata.annotation(key) == Some(value.as_str()));
            plan.annotate = (!same).then(|| Annotated {
                name: old.metadata.name.clone(),
                annotations,
            });
            return Ok(plan);
        }
        plan.retire = old.is_latest().then(|| old.metadata.name.clone());
        plan.index = all
            .iter()
            .map(|one| one.index)
            .max()
            .map_or(0, |newest| newest + 1);
    }
    plan.delete = surplus(&all, placement.spec.revision_history_limit);
    let name = names::policy_snapshot(&placement.metadata.name, plan.index);
    let mut object = owned(placement, scope, scope.policy_snapshot(), &name);
    let labels = &mut object["metadata"]["labels"];
    labels[names::POLICY_INDEX] = plan.index.to_string().into();
    labels[names::IS_LATEST] = "true".into();
    for (key, value) in annotations {
        object["metadata"]["annotations"][key] = value.into();
    }
    object["spec"] = json!({"policyHash": hash});
    if let Some(policy) = policy {
        let mut policy = json!(policy);
        if let Value::Object(fields) = &mut policy {
            fields.remove("numberOfClusters");
        }
        object["spec"]["policy"] = policy;
    }
    plan.create = vec![object];
    Ok(plan)
}

/// An object that belongs to a placement.
pub(crate) fn owned(placement: &Placement, scope: Scope, kind: &str, name: &str) -> Value {
    let owner = &placement.metadata;
    let api_version = format!("{PLACEMENT_GROUP}/{STORED_VERSION}");
    let mut object = json!({
        "apiVersion": api_version,
        "kind": kind,
        "metadata": {
            "name": name,
            "labels": {names::PARENT_PLACEMENT: owner.name},
            "ownerReferences": [{
                "apiVersion": api_version, "kind": scope.placement(), "name": owner.name, "uid": owner.uid,
                "controller": true, "blockOwnerDeletion": true,
            }],
        },
    });
    if let Some(namespace) = &owner.namespace {
        object["metadata"]["namespace"] = namespace.clone().into();
    }
    object
}

/// The bytes of a text as JSON has them.
pub(crate) fn encode_base64(text: &str) -> String {
    use base64::Engine as _;
    base64::engine::general_purpose::STANDARD.encode(text)
}

#[cfg(test)]
mod tests;
