//! The next writes of the hub: for a placement, a member, an override.
//!
//! Each decision is a function from a view to the requests that may be sent now. They are sent, their answers enter the
//! view, and the function runs again until it returns nothing. Every round could be the first after a restart.
//!
//! | module | decides about |
//! |---|---|
//! | [`placement`] | snapshots, bindings and the status of a placement, in the order of a rollout |
//! | [`bindings`] | the Works and the status of a binding |
//! | [`evictions`] | evictions of placements from clusters |
//! | [`members`] | joining and leaving of a member, and its status |
//! | [`mirror`] | the status of placed objects that is reported back |
//! | [`news`] | the placements that a change of a member concerns |
//! | [`overrides`] | the snapshots of an override |
//! | [`reports`] | the copy of a placement's status in its namespace |
//! | [`runs`] | staged update runs, which roll placements out |
//!
//! [`view`] has the known facts about a placement.

use serde_json::{Value, json};

use crate::types::Metadata;

pub mod bindings;
pub mod evictions;
pub mod members;
pub mod mirror;
pub mod news;
pub mod overrides;
pub mod placement;
pub mod reports;
pub mod runs;
pub mod view;

/// An object by its kind and name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObjectName {
    pub kind: &'static str,
    pub namespace: Option<String>,
    pub name: String,
}

impl ObjectName {
    pub fn of(kind: &'static str, metadata: &Metadata) -> Self {
        Self {
            kind,
            namespace: metadata.namespace.clone(),
            name: metadata.name.clone(),
        }
    }
}

/// A request of the hub.
#[derive(Clone, Debug, PartialEq)]
pub enum HubWrite {
    Create(Value),
    /// A merge patch.
    Patch {
        place: ObjectName,
        patch: Value,
    },
    /// The status as a whole.
    Status {
        place: ObjectName,
        status: Value,
    },
    /// A deletion of this incarnation, or of this version of it.
    Delete {
        place: ObjectName,
        uid: String,
        version: Option<String>,
    },
}

impl HubWrite {
    /// A merge patch of this incarnation, whatever else has changed of it.
    pub fn patch(kind: &'static str, metadata: &Metadata, mut patch: Value) -> Self {
        if let Some(uid) = &metadata.uid {
            patch["metadata"]["uid"] = uid.as_str().into();
        }
        Self::Patch {
            place: ObjectName::of(kind, metadata),
            patch,
        }
    }

    /// A merge patch of the known object.
    pub fn patch_known(kind: &'static str, metadata: &Metadata, mut patch: Value) -> Self {
        if let Some(version) = &metadata.resource_version {
            patch["metadata"]["resourceVersion"] = version.as_str().into();
        }
        Self::patch(kind, metadata, patch)
    }

    pub fn delete(kind: &'static str, metadata: &Metadata) -> Self {
        Self::Delete {
            place: ObjectName::of(kind, metadata),
            uid: metadata.uid.clone().unwrap_or_default(),
            version: None,
        }
    }

    /// A deletion of the known object.
    pub fn delete_known(kind: &'static str, metadata: &Metadata) -> Self {
        Self::Delete {
            place: ObjectName::of(kind, metadata),
            uid: metadata.uid.clone().unwrap_or_default(),
            version: metadata.resource_version.clone(),
        }
    }

    /// Adds finalizers; `None` if the object has all of them.
    pub fn add_finalizers(
        kind: &'static str,
        metadata: &Metadata,
        wanted: &[&str],
    ) -> Option<Self> {
        let mut finalizers: Vec<&str> = metadata.finalizers.iter().map(String::as_str).collect();
        let known = finalizers.len();
        for one in wanted {
            if !finalizers.contains(one) {
                finalizers.push(one);
            }
        }
        (finalizers.len() > known).then(|| Self::finalizers(kind, metadata, &finalizers))
    }

    /// Removes finalizers; `None` if the object has none of them.
    pub fn remove_finalizers(
        kind: &'static str,
        metadata: &Metadata,
        gone: &[&str],
    ) -> Option<Self> {
        let all = metadata.finalizers.iter().map(String::as_str);
        let kept: Vec<&str> = all.filter(|one| !gone.contains(one)).collect();
        let is_there = kept.len() < metadata.finalizers.len();
        is_there.then(|| Self::finalizers(kind, metadata, &kept))
    }

    fn finalizers(kind: &'static str, metadata: &Metadata, finalizers: &[&str]) -> Self {
        Self::patch_known(
            kind,
            metadata,
            json!({"metadata": {"finalizers": finalizers}}),
        )
    }
}

/// Adds nulls for the fields that a merge patch is to remove.
fn complete(wanted: &mut Value, old: &Value) {
    if let (Value::Object(wanted), Value::Object(old)) = (wanted, old) {
        for (field, known) in old {
            complete(wanted.entry(field).or_insert(Value::Null), known);
        }
    }
}

/// Requests in stages: those of a stage are sent together, those of the next one after all of them succeeded.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Stages(Vec<Vec<HubWrite>>);

impl Stages {
    pub fn push(&mut self, writes: impl IntoIterator<Item = HubWrite>) {
        let writes: Vec<HubWrite> = writes.into_iter().collect();
        if !writes.is_empty() {
            self.0.push(writes);
        }
    }

    /// Adds other stages after the existing ones.
    pub fn then(&mut self, others: Self) {
        self.0.extend(others.0);
    }

    /// Adds the stages of others that depend on none of these, each to the one in its place.
    pub fn merge_stages(&mut self, others: Self) {
        let mut others = others.0.into_iter();
        for (stage, other) in self.0.iter_mut().zip(&mut others) {
            stage.extend(other);
        }
        self.0.extend(others);
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether all requests report what has been done, so that nothing in a member waits for them.
    pub fn only_report(&self) -> bool {
        let mut writes = self.0.iter().flatten();
        writes.all(|write| match write {
            HubWrite::Status { place, .. } => !place.kind.ends_with("PolicySnapshot"),
            _ => false,
        })
    }

    pub fn into_stages(self) -> impl Iterator<Item = Vec<HubWrite>> {
        self.0.into_iter()
    }
}
