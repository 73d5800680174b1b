//! The status of federated objects: condition `Propagation`, reasons, status by member.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

/// The reason why a copy is not in sync. A copy in sync has no status.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CopyStatus {
    AlreadyExists,
    ApplyOverridesFailed,
    CachedRetrievalFailed,
    ClientRetrievalFailed,
    ClusterNotReady,
    ComputeResourceFailed,
    CreationFailed,
    CreationTimedOut,
    DeletionFailed,
    DeletionTimedOut,
    FieldRetentionFailed,
    LabelRemovalFailed,
    LabelRemovalTimedOut,
    ManagedLabelFalse,
    RetrievalFailed,
    UpdateFailed,
    UpdateTimedOut,
    VersionRetrievalFailed,
    WaitingForRemoval,
}

/// The reason why a pass read no copies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Failure {
    ClusterRetrievalFailed,
    ComputePlacementFailed,
}

/// Whether `remoteStatus` is collected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Collection {
    Off,
    On,
}

/// A copy after a pass.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Copy {
    /// `None` if it is in sync.
    pub status: Option<CopyStatus>,
    /// The copy's own status, if collected.
    pub remote: Option<Value>,
}

/// The result of a pass.
#[derive(Clone, Debug, PartialEq)]
pub struct PassResult {
    /// The generation that the pass read.
    pub generation: i64,
    pub failure: Option<Failure>,
    pub namespace_not_federated: bool,
    pub collection: Collection,
    /// Copies by member.
    pub copies: BTreeMap<String, Copy>,
    /// Whether a copy was written.
    pub wrote: bool,
}

impl CopyStatus {
    /// The value of `status.clusters[].status`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::AlreadyExists => "AlreadyExists",
            Self::ApplyOverridesFailed => "ApplyOverridesFailed",
            Self::CachedRetrievalFailed => "CachedRetrievalFailed",
            Self::ClientRetrievalFailed => "ClientRetrievalFailed",
            Self::ClusterNotReady => "ClusterNotReady",
            Self::ComputeResourceFailed => "ComputeResourceFailed",
            Self::CreationFailed => "CreationFailed",
            Self::CreationTimedOut => "CreationTimedOut",
            Self::DeletionFailed => "DeletionFailed",
            Self::DeletionTimedOut => "DeletionTimedOut",
            Self::FieldRetentionFailed => "FieldRetentionFailed",
            Self::LabelRemovalFailed => "LabelRemovalFailed",
            Self::LabelRemovalTimedOut => "LabelRemovalTimedOut",
            Self::ManagedLabelFalse => "ManagedLabelFalse",
            Self::RetrievalFailed => "RetrievalFailed",
            Self::UpdateFailed => "UpdateFailed",
            Self::UpdateTimedOut => "UpdateTimedOut",
            Self::VersionRetrievalFailed => "VersionRetrievalFailed",
            Self::WaitingForRemoval => "WaitingForRemoval",
        }
    }

    /// Whether the pass is repeated with back-off. The other values change by an event only.
    pub fn is_retried(self) -> bool {
        match self {
            Self::ClientRetrievalFailed
            | Self::CreationFailed
            | Self::CreationTimedOut
            | Self::DeletionFailed
            | Self::DeletionTimedOut
            | Self::LabelRemovalFailed
            | Self::LabelRemovalTimedOut
            | Self::RetrievalFailed
            | Self::UpdateFailed
            | Self::UpdateTimedOut => true,
            Self::AlreadyExists
            | Self::ApplyOverridesFailed
            | Self::CachedRetrievalFailed
            | Self::ClusterNotReady
            | Self::ComputeResourceFailed
            | Self::FieldRetentionFailed
            | Self::ManagedLabelFalse
            | Self::VersionRetrievalFailed
            | Self::WaitingForRemoval => false,
        }
    }
}

impl Failure {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::ClusterRetrievalFailed => "ClusterRetrievalFailed",
            Self::ComputePlacementFailed => "ComputePlacementFailed",
        }
    }
}

impl PassResult {
    /// The reason of the condition; `None` if it is true.
    pub fn reason(&self) -> Option<&'static str> {
        let raw = self.collection == Collection::On;
        let mut copies = self.copies.values();
        if let Some(failure) = self.failure {
            Some(failure.as_str())
        } else if copies.any(|copy| copy.status.is_some() || (raw && copy.remote.is_none())) {
            Some("CheckClusters")
        } else if self.namespace_not_federated {
            Some("NamespaceNotFederated")
        } else {
            None
        }
    }

    fn clusters(&self) -> Vec<Value> {
        let copies = self.copies.iter().filter(|_| self.failure.is_none());
        let clusters = copies.map(|(name, copy)| {
            let mut cluster = Map::new();
            cluster.insert("name".into(), name.clone().into());
            if let Some(status) = copy.status {
                cluster.insert("status".into(), status.as_str().into());
            }
            if let (Some(remote), Collection::On) = (&copy.remote, self.collection) {
                cluster.insert("remoteStatus".into(), remote.clone());
            }
            Value::Object(cluster)
        });
        clusters.collect()
    }
}

/// The status to write in place of `before`; `None` if nothing changed. `now` is in RFC 3339.
pub fn next(before: &Value, findings: &PassResult, now: &str) -> Option<Value> {
    let clusters = findings.clusters();
    let reason = findings.reason();
    let empty = Vec::new();
    let conditions = before["conditions"].as_array().unwrap_or(&empty);
    let (old, others): (Vec<&Value>, Vec<&Value>) = conditions
        .iter()
        .partition(|condition| condition["type"] == "Propagation");
    let old = old.first().copied().unwrap_or(&Value::Null);
    let status = if reason.is_none() { "True" } else { "False" };
    let moved =
        old["status"] != status || old["reason"].as_str().filter(|r| !r.is_empty()) != reason;
    let is_collected = clusters.iter().any(|c| c.get("remoteStatus").is_some());
    let updated = moved
        || sorted(before["clusters"].as_array().unwrap_or(&empty)) != clusters
        || (is_collected && findings.wrote);
    if !updated && before["observedGeneration"].as_i64() == Some(findings.generation) {
        return None;
    }

    let time = |field: &str, changed: bool| match &old[field] {
        Value::String(then) if !changed => then.clone(),
        _ => now.to_owned(),
    };
    let mut condition = json!({
        "type": "Propagation",
        "status": status,
        "lastTransitionTime": time("lastTransitionTime", moved),
        "lastUpdateTime": time("lastUpdateTime", updated),
    });
    if let Some(reason) = reason {
        condition["reason"] = reason.into();
    }
    let conditions: Vec<Value> = std::iter::once(condition)
        .chain(others.into_iter().cloned())
        .collect();
    let mut after = json!({"observedGeneration": findings.generation, "conditions": conditions});
    if !clusters.is_empty() {
        after["clusters"] = clusters.into();
    }
    Some(after)
}

/// The clusters by name: KubeFed lists them in any order, and may write an empty status.
fn sorted(clusters: &[Value]) -> Vec<Value> {
    let mut clusters = clusters.to_vec();
    clusters.sort_by(|a, b| a["name"].as_str().cmp(&b["name"].as_str()));
    for cluster in clusters.iter_mut().filter_map(Value::as_object_mut) {
        cluster.retain(|field, value| !(field == "status" && value == ""));
    }
    clusters
}

#[cfg(test)]
mod tests {
    use super::*;

    const THEN: &str = "2026-01-01T00:00:00Z";
    const NOW: &str = "2026-01-01T00:01:00Z";

    fn found(
        collection: Collection,
        copies: &[(&str, Option<CopyStatus>, Option<Value>)],
    ) -> PassResult {
        let copies = copies.iter().map(|(name, status, remote)| {
            let copy = Copy {
                status: *status,
                remote: remote.clone(),
            };
            ((*name).to_owned(), copy)
        });
        PassResult {
            generation: 1,
            failure: None,
            namespace_not_federated: false,
            collection,
            copies: copies.collect(),
            wrote: false,
        }
    }

    fn before(remote: Option<Value>) -> Value {
        let mut cluster = json!({"name": "cluster1"});
        if let Some(remote) = remote {
            cluster["remoteStatus"] = remote;
        }
        json!({
            "observedGeneration": 1,
            "conditions": [{"type": "Propagation", "status": "True", "lastTransitionTime": THEN, "lastUpdateTime": THEN}],
            "clusters": [cluster],
        })
    }

    #[test]
    fn a_status_is_written_when_it_says_something_new() {
        use Collection::{Off, On};
        let not_ready = Some(CopyStatus::ClusterNotReady);
        let remote = || Some(json!({"ready": 1}));
        let fine = ("cluster1", None, None);
        let rows = [
            (None, found(Off, std::slice::from_ref(&fine)), false),
            (remote(), found(On, &[("cluster1", None, remote())]), false),
            (None, found(Off, &[("cluster1", not_ready, None)]), true),
            (None, found(On, std::slice::from_ref(&fine)), true),
            (
                remote(),
                found(On, &[("cluster1", None, Some(json!({"ready": 2})))]),
                true,
            ),
            (None, found(On, &[("cluster1", None, remote())]), true),
            (remote(), found(Off, std::slice::from_ref(&fine)), true),
            (None, found(Off, &[]), true),
            (
                None,
                found(Off, &[fine.clone(), ("cluster2", None, None)]),
                true,
            ),
            (
                None,
                PassResult {
                    generation: 2,
                    ..found(Off, std::slice::from_ref(&fine))
                },
                true,
            ),
            (
                None,
                PassResult {
                    failure: Some(Failure::ComputePlacementFailed),
                    ..found(Off, &[])
                },
                true,
            ),
            (
                None,
                PassResult {
                    namespace_not_federated: true,
                    ..found(Off, &[])
                },
                true,
            ),
            (
                None,
                PassResult {
                    wrote: true,
                    ..found(Off, std::slice::from_ref(&fine))
                },
                false,
            ),
            (
                remote(),
                PassResult {
                    wrote: true,
                    ..found(On, &[("cluster1", None, remote())])
                },
                true,
            ),
        ];
        for (number, (was, findings, wanted)) in (1..).zip(rows) {
            let after = next(&before(was), &findings, NOW);
            assert_eq!(after.is_some(), wanted, "row {number}");
            if let Some(after) = after {
                assert_eq!(
                    next(
                        &after,
                        &PassResult {
                            wrote: false,
                            ..findings
                        },
                        NOW
                    ),
                    None,
                    "row {number}, again"
                );
            }
        }
    }

    #[test]
    fn the_first_status_has_everything() {
        let not_ready = Some(CopyStatus::ClusterNotReady);
        let findings = found(
            Collection::Off,
            &[("b", None, None), ("a", not_ready, None)],
        );
        assert_eq!(
            next(&Value::Null, &findings, NOW).unwrap(),
            json!({
                "observedGeneration": 1,
                "conditions": [{
                    "type": "Propagation", "status": "False", "reason": "CheckClusters",
                    "lastTransitionTime": NOW, "lastUpdateTime": NOW,
                }],
                "clusters": [{"name": "a", "status": "ClusterNotReady"}, {"name": "b"}],
            })
        );
    }

    #[test]
    fn times_move_only_with_what_they_tell_of() {
        let fine = [("cluster1", None, None), ("cluster2", None, None)];
        let after = next(&before(None), &found(Collection::Off, &fine), NOW).unwrap();
        let condition = &after["conditions"][0];
        assert_eq!(condition["lastTransitionTime"], THEN);
        assert_eq!(condition["lastUpdateTime"], NOW);
        let newer = PassResult {
            generation: 2,
            ..found(Collection::Off, &fine[..1])
        };
        let after = next(&before(None), &newer, NOW).unwrap();
        assert_eq!(after["conditions"][0]["lastUpdateTime"], THEN);
        assert_eq!(after["observedGeneration"], 2);
    }

    #[test]
    fn the_order_of_the_original_is_no_reason_to_write() {
        let fine = [("a", None, None), ("b", None, None)];
        let mut stored = next(&Value::Null, &found(Collection::Off, &fine), THEN).unwrap();
        stored["clusters"] = json!([{"name": "b", "status": ""}, {"name": "a"}]);
        assert_eq!(next(&stored, &found(Collection::Off, &fine), NOW), None);
    }

    #[test]
    fn there_is_one_reason_at_a_time() {
        use Collection::{Off, On};
        let failed = Some(CopyStatus::UpdateFailed);
        let of = |findings: PassResult| findings.reason();
        assert_eq!(of(found(Off, &[("a", None, None)])), None);
        assert_eq!(of(found(On, &[("a", None, None)])), Some("CheckClusters"));
        let copies = [("a", failed, None)];
        let unfederated = PassResult {
            namespace_not_federated: true,
            ..found(Off, &copies)
        };
        assert_eq!(of(unfederated), Some("CheckClusters"));
        let unfederated = PassResult {
            namespace_not_federated: true,
            ..found(Off, &[])
        };
        assert_eq!(of(unfederated), Some("NamespaceNotFederated"));
        let unknown = PassResult {
            failure: Some(Failure::ClusterRetrievalFailed),
            ..found(Off, &copies)
        };
        assert_eq!(of(unknown.clone()), Some("ClusterRetrievalFailed"));
        assert!(next(&Value::Null, &unknown, NOW).unwrap()["clusters"].is_null());
    }

    #[test]
    fn other_conditions_stay() {
        let other = json!({"type": "Mine", "status": "True"});
        let after = next(
            &json!({"conditions": [other]}),
            &found(Collection::Off, &[]),
            NOW,
        )
        .unwrap();
        assert_eq!(after["conditions"][1], other);
    }

    #[test]
    fn every_status_of_the_user_guide_is_known_and_some_are_tried_again() {
        let retried = [
            CopyStatus::ClientRetrievalFailed,
            CopyStatus::CreationFailed,
            CopyStatus::CreationTimedOut,
            CopyStatus::DeletionFailed,
            CopyStatus::DeletionTimedOut,
            CopyStatus::LabelRemovalFailed,
            CopyStatus::LabelRemovalTimedOut,
            CopyStatus::RetrievalFailed,
            CopyStatus::UpdateFailed,
            CopyStatus::UpdateTimedOut,
        ];
        let others = [
            CopyStatus::AlreadyExists,
            CopyStatus::ApplyOverridesFailed,
            CopyStatus::CachedRetrievalFailed,
            CopyStatus::ClusterNotReady,
            CopyStatus::ComputeResourceFailed,
            CopyStatus::FieldRetentionFailed,
            CopyStatus::ManagedLabelFalse,
            CopyStatus::VersionRetrievalFailed,
            CopyStatus::WaitingForRemoval,
        ];
        assert!(retried.iter().all(|status| status.is_retried()));
        assert!(!others.iter().any(|status| status.is_retried()));
        for status in retried.iter().chain(&others) {
            assert_eq!(status.as_str(), format!("{status:?}"));
        }
    }
}
