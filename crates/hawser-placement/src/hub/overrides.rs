//! The snapshots of an override: one for each content; the latest one applies.

use serde::Serialize;
use serde_json::json;

use super::{HubWrite, Stages};
use crate::hash::hash_of;
use crate::names;
use crate::snapshots::{SnapshotError, StoredSnapshots, encode_base64, latest, surplus};
use crate::types::{Metadata, PLACEMENT_GROUP, Resource, STORED_VERSION};

/// The snapshots that are kept.
const KEPT: i32 = 10;

/// The kind of an override.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OverrideKind {
    Cluster,
    Namespaced,
}

impl OverrideKind {
    pub fn name(self) -> &'static str {
        match self {
            Self::Cluster => "ClusterResourceOverride",
            Self::Namespaced => "ResourceOverride",
        }
    }

    /// The kind of its snapshots.
    pub fn snapshot(self) -> &'static str {
        match self {
            Self::Cluster => "ClusterResourceOverrideSnapshot",
            Self::Namespaced => "ResourceOverrideSnapshot",
        }
    }
}

/// The writes for an override. `hashes` are those of its snapshots, in their order.
pub fn decide<Spec: Serialize, Status>(
    kind: OverrideKind,
    one: &Resource<Spec, Status>,
    snapshots: &[(Metadata, String)],
) -> Result<Stages, SnapshotError> {
    let mut stages = Stages::default();
    let delete = |metadata: &Metadata| HubWrite::delete(kind.snapshot(), metadata);
    if one.metadata.in_deletion() {
        stages.push(snapshots.iter().map(|(metadata, _)| delete(metadata)));
        stages.push(HubWrite::remove_finalizers(
            kind.name(),
            &one.metadata,
            &[names::OVERRIDE_FINALIZER],
        ));
        return Ok(stages);
    }
    stages.push(HubWrite::add_finalizers(
        kind.name(),
        &one.metadata,
        &[names::OVERRIDE_FINALIZER],
    ));
    let all = snapshots
        .iter()
        .map(|(metadata, _)| StoredSnapshots::read(metadata, names::OVERRIDE_INDEX));
    let all: Vec<StoredSnapshots<'_>> = all.collect::<Result<_, _>>()?;
    let hash = encode_base64(&hash_of(&one.spec));
    let mark = |metadata: &Metadata, is_latest: bool| {
        let labels = json!({names::IS_LATEST: is_latest.to_string()});
        HubWrite::patch_known(
            kind.snapshot(),
            metadata,
            json!({"metadata": {"labels": labels}}),
        )
    };
    let mut index = 0;
    if let Some(old) = latest(&all)? {
        let found = snapshots
            .iter()
            .find(|(metadata, _)| metadata.name == old.metadata.name);
        if found.is_some_and(|(_, other)| *other == hash) {
            stages.push((!old.is_latest()).then(|| mark(old.metadata, true)));
            return Ok(stages);
        }
        stages.push(old.is_latest().then(|| mark(old.metadata, false)));
        index = all
            .iter()
            .map(|one| one.index + 1)
            .max()
            .unwrap_or_default();
    }
    let gone = surplus(&all, Some(KEPT));
    let gone = snapshots
        .iter()
        .filter(|(metadata, _)| gone.contains(&metadata.name));
    stages.push(gone.map(|(metadata, _)| delete(metadata)));
    let mut object = json!({
        "apiVersion": format!("{PLACEMENT_GROUP}/{STORED_VERSION}"),
        "kind": kind.snapshot(),
        "metadata": {
            "name": names::policy_snapshot(&one.metadata.name, index),
            "labels": {
                names::PARENT_OVERRIDE: one.metadata.name,
                names::OVERRIDE_INDEX: index.to_string(),
                names::IS_LATEST: "true",
            },
            "ownerReferences": [{
                "apiVersion": format!("{PLACEMENT_GROUP}/{STORED_VERSION}"), "kind": kind.name(),
                "name": one.metadata.name, "uid": one.metadata.uid,
                "controller": true, "blockOwnerDeletion": true,
            }],
        },
        "spec": {"overrideSpec": one.spec, "overrideHash": hash},
    });
    if let Some(namespace) = &one.metadata.namespace {
        object["metadata"]["namespace"] = namespace.as_str().into();
    }
    stages.push([HubWrite::Create(object)]);
    Ok(stages)
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;
    use crate::types::overrides::ResourceOverride;

    fn one(path: &str) -> ResourceOverride {
        let one = json!({
            "metadata": {"name": "o", "namespace": "ns", "uid": "u", "finalizers": [names::OVERRIDE_FINALIZER]},
            "spec": {
                "resourceSelectors": [{"group": "", "version": "v1", "kind": "ConfigMap", "name": "c"}],
                "policy": {"overrideRules": [{"clusterSelector": {"clusterSelectorTerms": []},
                    "jsonPatchOverrides": [{"op": "remove", "path": path}]}]},
            },
        });
        serde_json::from_value(one).unwrap()
    }

    fn decided(one: &ResourceOverride, stored: &[Value]) -> Vec<HubWrite> {
        let stored: Vec<(Metadata, String)> = stored
            .iter()
            .map(|object| {
                let metadata = serde_json::from_value(object["metadata"].clone()).unwrap();
                let hash = object["spec"]["overrideHash"].as_str().unwrap().to_owned();
                (metadata, hash)
            })
            .collect();
        let stages = decide(OverrideKind::Namespaced, one, &stored).unwrap();
        stages.into_stages().flatten().collect()
    }

    #[test]
    fn a_new_content_becomes_the_latest_snapshot_and_the_same_one_does_not() {
        let written = decided(&one("/data/a"), &[]);
        let [HubWrite::Create(first)] = &written[..] else {
            panic!("{written:?}");
        };
        assert_eq!(first["metadata"]["name"], "o-0");
        assert_eq!(decided(&one("/data/a"), std::slice::from_ref(first)), []);
        let changed = decided(&one("/data/b"), std::slice::from_ref(first));
        let [HubWrite::Patch { patch, .. }, HubWrite::Create(second)] = &changed[..] else {
            panic!("{changed:?}");
        };
        assert_eq!(patch["metadata"]["labels"][names::IS_LATEST], "false");
        assert_eq!(second["metadata"]["name"], "o-1");
    }

    #[test]
    fn a_snapshot_that_lost_its_mark_in_a_crash_gets_it_back() {
        let written = decided(&one("/data/a"), &[]);
        let [HubWrite::Create(first)] = &written[..] else {
            panic!("{written:?}");
        };
        let mut retired = first.clone();
        retired["metadata"]["labels"][names::IS_LATEST] = "false".into();
        let again = decided(&one("/data/a"), &[retired]);
        let [HubWrite::Patch { patch, .. }] = &again[..] else {
            panic!("{again:?}");
        };
        assert_eq!(patch["metadata"]["labels"][names::IS_LATEST], "true");
    }

    #[test]
    fn snapshots_go_before_the_finalizer() {
        let first = decided(&one("/data/a"), &[]);
        let [HubWrite::Create(first)] = &first[..] else {
            panic!("{first:?}");
        };
        let mut gone = one("/data/a");
        gone.metadata.deletion_timestamp = Some("2026-01-01T00:00:00Z".to_owned());
        let written = decided(&gone, std::slice::from_ref(first));
        assert!(
            matches!(
                &written[..],
                [HubWrite::Delete { .. }, HubWrite::Patch { .. }]
            ),
            "{written:?}"
        );
    }
}
