//! The labels and annotations by which a copy is found and recognised, and the metadata of a consumer that is never
//! synchronized.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use hawser_sync::Labels;
use hawser_sync::{CopyOrigin, Marks, Metadata, Owner};
use kube_lang::object::Object;

use super::hashes::sha1_hex;

pub const FINALIZER: &str = "syncagent.kcp.io/cleanup";
/// The prefix of an agent's own finalizer, before the name of the agent.
const OWN_FINALIZER: &str = "cleanup-";
pub const AGENT_NAME: &str = "syncagent.kcp.io/agent-name";

/// Annotation of a published schema: the generation of the CRD that it was made from.
pub const SOURCE_GENERATION: &str = "syncagent.kcp.io/source-generation";
pub const CLUSTER: &str = "syncagent.kcp.io/remote-object-cluster";
pub const NAMESPACE_HASH: &str = "syncagent.kcp.io/remote-object-namespace-hash";
pub const NAME_HASH: &str = "syncagent.kcp.io/remote-object-name-hash";
pub const NAMESPACE: &str = "syncagent.kcp.io/remote-object-namespace";
pub const NAME: &str = "syncagent.kcp.io/remote-object-name";
pub const WORKSPACE_PATH: &str = "syncagent.kcp.io/remote-object-workspace-path";
pub const OBJECT_STATE: &str = "syncagent.kcp.io/object-state";
pub const RELATED_PREFIX: &str = "related-resources.syncagent.kcp.io/";
/// Marks an object that existed before the agent adopted it.
pub const ADOPTED: &str = "syncagent.kcp.io/adopted";
/// The report on an object whose type has no conditions, and the last generation that the service has seen.
pub const SYNCED: &str = "syncagent.kcp.io/synced";
pub const SYNCED_GENERATION: &str = "syncagent.kcp.io/synced-generation";
/// Proves during a release whose marks are left.
pub const RELEASING: &str = "syncagent.kcp.io/releasing";
/// Labels and annotations below this name are the agent's own.
const OWN_PREFIX: &str = "syncagent.kcp.io/";
const CLAIMED_PREFIX: &str = "claimed.internal.apis.kcp.io/";
const KCP_CLUSTER: &str = "kcp.io/cluster";
pub const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

const STRIPPED_METADATA: &[&str] = &[
    "creationTimestamp",
    "finalizers",
    "generation",
    "ownerReferences",
    "resourceVersion",
    "managedFields",
    "uid",
    "selfLink",
    // Never of any meaning to another object; they come with an object in deletion only.
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
];

/// The finalizer that only the agent of this name adds and removes.
pub fn own_finalizer(agent: &str) -> String {
    // The part behind the slash is at most so long.
    const LONGEST: usize = 63;
    let name = format!("{OWN_FINALIZER}{agent}");
    if name.len() <= LONGEST {
        format!("{OWN_PREFIX}{name}")
    } else {
        format!("{OWN_PREFIX}{OWN_FINALIZER}{}", sha1_hex(agent))
    }
}

/// The object of a workspace that a copy belongs to.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Remote {
    pub cluster: String,
    pub namespace: Option<String>,
    pub name: String,
}

impl Remote {
    pub fn of(object: &Object, cluster: &str) -> Self {
        Self {
            cluster: cluster.to_owned(),
            namespace: object.namespace().map(str::to_owned),
            name: object.name().to_owned(),
        }
    }

    /// The labels by which the copy is found. They contain hashes, so whoever needs them often keeps them.
    pub fn marked(&self) -> Labels {
        let own = [
            (CLUSTER, self.cluster.clone()),
            (NAME_HASH, sha1_hex(&self.name)),
        ];
        let namespace = self.namespace.as_ref();
        let namespace = namespace.map(|name| (NAMESPACE_HASH, sha1_hex(name)));
        own.into_iter().chain(namespace).collect()
    }

    fn annotations(&self) -> BTreeMap<String, String> {
        let mut annotations = BTreeMap::from([(NAME.to_owned(), self.name.clone())]);
        if let Some(namespace) = &self.namespace {
            annotations.insert(NAMESPACE.to_owned(), namespace.clone());
        }
        annotations
    }

    /// The object of a workspace that a copy names in its cluster label and its annotations.
    pub fn read(live: &Object) -> Option<Self> {
        Some(Self {
            cluster: live.label(CLUSTER)?.to_owned(),
            namespace: live.annotation(NAMESPACE).map(str::to_owned),
            name: live.annotation(NAME)?.to_owned(),
        })
    }

    fn describe(&self) -> String {
        let namespace = self.namespace.as_deref().unwrap_or_default();
        let slash = if namespace.is_empty() { "" } else { "/" };
        format!("{}|{namespace}{slash}{}", self.cluster, self.name)
    }
}

/// The marks of a copy of this object, which is found by these labels. `path` is the workspace path, if it is enabled.
pub fn marks(
    remote: &Remote,
    labels: &Labels,
    agent: &str,
    path: Option<&str>,
    made: CopyOrigin,
) -> Marks {
    let owned = |(name, value): (&str, &str)| (name.to_owned(), value.to_owned());
    let mut identity = Metadata {
        labels: labels.iter().map(owned).collect(),
        annotations: remote.annotations(),
    };
    if let Some(path) = path.filter(|path| !path.is_empty()) {
        identity
            .annotations
            .insert(WORKSPACE_PATH.to_owned(), path.to_owned());
    }
    let mut extra = Metadata::default();
    extra.labels.insert(AGENT_NAME.to_owned(), agent.to_owned());
    if made == CopyOrigin::Adopted {
        extra
            .annotations
            .insert(ADOPTED.to_owned(), "true".to_owned());
    }
    Marks { identity, extra }
}

/// The owner of an object, if the copy of `remote` is found by these labels.
///
/// All of its labels together determine it: a copy is found by its labels, and annotations that do not fit are
/// corrected. An object with a part of them only is the copy if that part fits and nothing else, including names in
/// annotations, names another owner.
pub fn owner(live: &Object, remote: &Remote, labels: &Labels, agent: &str) -> Owner {
    if live.label(OBJECT_STATE).is_some() {
        return Owner::Other("the state of an agent".to_owned());
    }
    if let Some(other) = live.label(AGENT_NAME).filter(|name| *name != agent) {
        return Owner::Other(format!("the agent {other}"));
    }
    let marked = [CLUSTER, NAME_HASH, NAMESPACE_HASH]
        .iter()
        .any(|key| live.label(key).is_some())
        || [NAME, NAMESPACE]
            .iter()
            .any(|key| live.annotation(key).is_some());
    if !marked {
        // An agent's name without an identity says whose it is, but not of which source.
        return Owner::Nobody;
    }
    let annotations = remote.annotations();
    let annotation = |key: &str| annotations.get(key).map(String::as_str);
    let contradicts = |wanted: Option<&str>, found: Option<&str>| match (wanted, found) {
        (Some(wanted), Some(found)) => wanted != found,
        (None, Some(_)) => true,
        (_, None) => false,
    };
    let labelled = [CLUSTER, NAME_HASH, NAMESPACE_HASH]
        .iter()
        .all(|key| live.label(key) == labels.get(key));
    let foreign = !labelled
        && ([CLUSTER, NAME_HASH, NAMESPACE_HASH]
            .iter()
            .any(|key| contradicts(labels.get(key), live.label(key)))
            || [NAME, NAMESPACE]
                .iter()
                .any(|key| contradicts(annotation(key), live.annotation(key))));
    if foreign {
        let who = Remote::read(live).map_or_else(
            || "another object".to_owned(),
            |other| format!("the object {}", other.describe()),
        );
        return Owner::Other(who);
    }
    // The cluster tells tenants apart: without it the rest could be anybody's.
    if live.label(CLUSTER).is_none() {
        return Owner::Nobody;
    }
    Owner::Ours(if live.annotation(ADOPTED).is_some() {
        CopyOrigin::Adopted
    } else {
        CopyOrigin::Created
    })
}

/// Removes the parts of an object that are never synchronized: fields of the API server, annotations of kcp and
/// kubectl, and every label and annotation of the agent.
pub fn strip(object: &mut Object) {
    let metadata = object.metadata_mut();
    for field in STRIPPED_METADATA {
        metadata.remove(*field);
    }
    strip_map(metadata, "labels", |key| {
        key.starts_with(OWN_PREFIX) || key.starts_with(CLAIMED_PREFIX)
    });
    strip_map(metadata, "annotations", |key| {
        key.starts_with(OWN_PREFIX)
            || key.starts_with(RELATED_PREFIX)
            || key == KCP_CLUSTER
            || key == LAST_APPLIED
    });
}

/// The patch that removes the marks of a copy; `None` if it has none.
pub fn unmark_copy(copy: &Object) -> Option<Value> {
    let labels = [AGENT_NAME, CLUSTER, NAMESPACE_HASH, NAME_HASH];
    let annotations = [NAME, NAMESPACE, WORKSPACE_PATH, ADOPTED, RELEASING];
    unmark(
        copy,
        |key| labels.contains(&key),
        |key| annotations.contains(&key),
        |_| false,
    )
}

/// The patch that removes the agent's annotations and this finalizer from an object of a workspace; `None` if it has
/// none.
pub fn unmark_object(object: &Object, finalizer: Option<&str>) -> Option<Value> {
    let annotations = [SYNCED, SYNCED_GENERATION, RELEASING];
    unmark(
        object,
        |_| false,
        |key| key.starts_with(RELATED_PREFIX) || annotations.contains(&key),
        |found| Some(found) == finalizer,
    )
}

/// The patch that removes this finalizer; `None` if the object does not have it.
pub fn without_finalizer(object: &Object, finalizer: &str) -> Option<Value> {
    unmark(object, |_| false, |_| false, |found| found == finalizer)
}

fn unmark(
    object: &Object,
    label: impl Fn(&str) -> bool,
    annotation: impl Fn(&str) -> bool,
    finalizer: impl Fn(&str) -> bool,
) -> Option<Value> {
    let mut change = Map::new();
    let metadata = object.root().get("metadata");
    let mut clear = |field: &str, is_mark: &dyn Fn(&str) -> bool| {
        let all = metadata.and_then(|metadata| metadata.get(field)?.as_object());
        let Some(all) = all.filter(|all| !all.is_empty()) else {
            return;
        };
        let marks = all.keys().filter(|key| is_mark(key));
        let marks: Map<_, _> = marks.map(|key| (key.clone(), Value::Null)).collect();
        if marks.len() == all.len() {
            // No empty map is left behind.
            change.insert(field.to_owned(), Value::Null);
        } else if !marks.is_empty() {
            change.insert(field.to_owned(), marks.into());
        }
    };
    clear("labels", &label);
    clear("annotations", &annotation);
    let others: Vec<_> = object.finalizers().filter(|one| !finalizer(one)).collect();
    if others.len() < object.finalizers().count() {
        let others = if others.is_empty() {
            Value::Null
        } else {
            json!(others)
        };
        change.insert("finalizers".to_owned(), others);
    }
    (!change.is_empty()).then(|| json!({ "metadata": change }))
}

fn strip_map(metadata: &mut Map<String, Value>, field: &str, drop: impl Fn(&str) -> bool) {
    if let Some(Value::Object(map)) = metadata.get_mut(field) {
        map.retain(|key, _| !drop(key));
    }
    let empty = metadata
        .get(field)
        .is_some_and(|map| map.is_null() || map.as_object().is_some_and(Map::is_empty));
    if empty {
        metadata.remove(field);
    }
}

#[cfg(test)]
mod tests;
