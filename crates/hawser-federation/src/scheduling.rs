//! `ReplicaSchedulingPreference`: the replicas of each member, written into placement and overrides of the federated
//! workload.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use kube_lang::object::Object;

use crate::replicas::{MemberCapacity, Plan, Preferences, plan};
use crate::types::scheduling::ReplicaSchedulingPreferenceSpec;

/// The path of the override with a member's replicas.
pub(crate) const REPLICAS: &str = "/spec/replicas";

/// The supported values of `targetKind`, with the `FederatedTypeConfig` of each.
pub const TARGETS: [(&str, &str); 2] = [
    ("FederatedDeployment", "deployments.apps"),
    ("FederatedReplicaSet", "replicasets.apps"),
];

impl From<&ReplicaSchedulingPreferenceSpec> for Preferences {
    /// An empty map of clusters means equal weights for all.
    fn from(spec: &ReplicaSchedulingPreferenceSpec) -> Self {
        let mut preferences = Self::even(spec.total_replicas);
        preferences.rebalance = spec.rebalance;
        if !spec.clusters.is_empty() {
            preferences.clusters.clone_from(&spec.clusters);
        }
        preferences
    }
}

/// The replicas of each member, overflow included; 0 for members without preferences.
pub fn replicas(
    preferences: &Preferences,
    key: &str,
    members: &BTreeMap<String, MemberCapacity>,
) -> BTreeMap<String, i64> {
    let Plan {
        mut replicas,
        overflow,
    } = plan(preferences, key, members);
    for (member, over) in overflow {
        *replicas.entry(member).or_default() += over;
    }
    replicas
}

/// The federated workload with the replicas in placement and overrides; `None` if nothing changes. `unknown` are
/// unreachable members: they keep their place and their replicas, because the state of the workload there is unknown.
/// In KubeFed, they leave the placement, and on their return the workload is deleted there and recreated.
pub fn distributed(
    workload: &Object,
    replicas: &BTreeMap<String, i64>,
    unknown: &[String],
) -> Option<Object> {
    let is_kept =
        |name: &str| !replicas.contains_key(name) && unknown.iter().any(|unknown| unknown == name);
    let spec = workload.root().get("spec").unwrap_or(&Value::Null);
    let placed = placed(spec);
    let mut wanted: Vec<&str> = replicas.keys().map(String::as_str).collect();
    wanted.extend(
        placed
            .iter()
            .flatten()
            .copied()
            .filter(|name| is_kept(name)),
    );
    wanted.sort_unstable();
    let overrides = overrides(&spec["overrides"], replicas, is_kept);
    let mut there = placed.unwrap_or_default();
    there.sort_unstable();
    let same_placement = spec["placement"]["clusters"].is_array() && there == wanted;
    if same_placement && overrides.is_none() {
        return None;
    }

    let mut changed = workload.clone();
    let spec = object_in(changed.root_mut(), "spec");
    if !same_placement {
        let clusters: Vec<Value> = wanted.iter().map(|name| json!({"name": name})).collect();
        object_in(spec, "placement").insert("clusters".into(), clusters.into());
    }
    if let Some(overrides) = overrides {
        spec.insert("overrides".into(), overrides.into());
    }
    Some(changed)
}

fn placed(spec: &Value) -> Option<Vec<&str>> {
    let clusters = spec["placement"]["clusters"].as_array()?.iter();
    Some(
        clusters
            .filter_map(|cluster| cluster["name"].as_str())
            .collect(),
    )
}

/// A nested object, created if missing.
fn object_in<'a>(parent: &'a mut Map<String, Value>, field: &str) -> &'a mut Map<String, Value> {
    let slot = parent.entry(field).or_insert(Value::Null);
    if !slot.is_object() {
        *slot = Value::Object(Map::new());
    }
    match slot {
        Value::Object(fields) => fields,
        _ => unreachable!("made an object two lines above"),
    }
}

/// The overrides with the replicas of each member; `None` if nothing changes.
fn overrides(
    there: &Value,
    replicas: &BTreeMap<String, i64>,
    is_kept: impl Fn(&str) -> bool,
) -> Option<Vec<Value>> {
    let there = there.as_array().map_or(&[][..], Vec::as_slice);
    let mut wanted = Vec::new();
    let mut missing: Vec<&String> = replicas.keys().collect();
    for entry in there {
        let name = entry["clusterName"].as_str().unwrap_or_default();
        if is_kept(name) {
            wanted.push(entry.clone());
            continue;
        }
        missing.retain(|member| *member != name);
        wanted.push(with_replicas(entry, replicas.get(name).copied()));
    }
    for member in missing {
        let entry = json!({"clusterName": member});
        wanted.push(with_replicas(&entry, replicas.get(member).copied()));
    }
    (wanted != there).then_some(wanted)
}

/// An entry of the overrides with the replicas set or removed; other steps stay.
fn with_replicas(entry: &Value, replicas: Option<i64>) -> Value {
    let steps = entry["clusterOverrides"].as_array();
    let mut steps: Vec<Value> = steps.cloned().unwrap_or_default();
    let at = steps.iter().position(|step| step["path"] == REPLICAS);
    match (at, replicas) {
        (None, None) => return entry.clone(),
        (Some(at), Some(replicas)) if steps[at]["value"].as_i64() == Some(replicas) => {
            return entry.clone();
        }
        (Some(at), Some(replicas)) => steps[at]["value"] = replicas.into(),
        (Some(at), None) => drop(steps.remove(at)),
        (None, Some(replicas)) => steps.push(json!({"path": REPLICAS, "value": replicas})),
    }
    let mut entry = entry.clone();
    entry["clusterOverrides"] = steps.into();
    entry
}

#[cfg(test)]
mod tests {
    use super::*;

    fn workload(spec: &Value) -> Object {
        Object::new(json!({"kind": "FederatedDeployment", "metadata": {"name": "d"}, "spec": spec}))
            .unwrap()
    }

    fn counts(counts: &[(&str, i64)]) -> BTreeMap<String, i64> {
        counts
            .iter()
            .map(|(name, count)| ((*name).to_owned(), *count))
            .collect()
    }

    #[expect(clippy::needless_pass_by_value, reason = "the cases read better so")]
    fn after(spec: Value, replicas: &[(&str, i64)]) -> Option<Value> {
        let changed = distributed(&workload(&spec), &counts(replicas), &[])?;
        Some(changed.as_value()["spec"].clone())
    }

    #[test]
    fn preferences_of_nobody_are_equal_ones() {
        let read = |spec: Value| {
            let spec: ReplicaSchedulingPreferenceSpec = serde_json::from_value(spec).unwrap();
            Preferences::from(&spec)
        };
        let bare = read(json!({"targetKind": "FederatedDeployment", "totalReplicas": 9}));
        assert_eq!(bare, Preferences::even(9));
        let own = read(
            json!({"targetKind": "FederatedDeployment", "totalReplicas": 9, "rebalance": true, "clusters": {"A": {"weight": 1}, "B": {"weight": 2}}}),
        );
        assert!(own.rebalance && own.of("C").is_none());
        let rooms = ["A", "B", "C"].map(|name| (name.to_owned(), MemberCapacity::default()));
        assert_eq!(
            replicas(&own, "test-ns/test-deployment", &rooms.clone().into()),
            counts(&[("A", 3), ("B", 6), ("C", 0)])
        );
        assert_eq!(
            replicas(&bare, "test-ns/test-deployment", &rooms.into()),
            counts(&[("A", 3), ("B", 3), ("C", 3)])
        );
    }

    #[test]
    fn what_has_no_room_is_wished_for_all_the_same() {
        let mut preferences = Preferences::even(10);
        preferences.rebalance = true;
        let mut rooms: BTreeMap<String, MemberCapacity> = ["A", "B"]
            .map(|name| (name.to_owned(), MemberCapacity::default()))
            .into();
        rooms.insert(
            "B".to_owned(),
            MemberCapacity {
                current: 4,
                capacity: Some(4),
            },
        );
        let got = replicas(&preferences, "", &rooms);
        assert_eq!(got["A"], 6);
        assert!(got["B"] > 4, "{got:?}");
    }

    #[test]
    fn a_workload_gets_placement_and_overrides_in_one_write() {
        let got = after(
            json!({"placement": {"clusterSelector": {}}, "template": {}}),
            &[("a", 3), ("b", 0)],
        );
        assert_eq!(
            got.clone().unwrap(),
            json!({
                "template": {},
                "placement": {"clusterSelector": {}, "clusters": [{"name": "a"}, {"name": "b"}]},
                "overrides": [
                    {"clusterName": "a", "clusterOverrides": [{"path": "/spec/replicas", "value": 3}]},
                    {"clusterName": "b", "clusterOverrides": [{"path": "/spec/replicas", "value": 0}]},
                ],
            })
        );
        assert_eq!(
            after(got.unwrap(), &[("a", 3), ("b", 0)]),
            None,
            "then nothing is written"
        );
        assert!(after(json!({}), &[]).is_some(), "nowhere is a place, too");
        assert_eq!(after(json!({"placement": {"clusters": []}}), &[]), None);
    }

    #[test]
    fn other_overrides_stay() {
        let answer = json!({"path": "/ultimate/answer", "value": 42});
        let step = |value: Value| json!({"path": "/spec/replicas", "value": value});
        let spec =
            |steps: Value| json!({"overrides": [{"clusterName": "a", "clusterOverrides": steps}]});
        for (before, replicas, steps) in [
            (json!([step(json!(0)), answer]), &[][..], json!([answer])),
            (
                json!([answer]),
                &[("a", 5)],
                json!([answer, step(json!(5))]),
            ),
            (json!([]), &[("a", 0)], json!([step(json!(0))])),
            (
                json!([step(json!("5"))]),
                &[("a", 5)],
                json!([step(json!(5))]),
            ),
            (json!([step(json!(5))]), &[], json!([])),
        ] {
            let got = after(spec(before), replicas).unwrap();
            assert_eq!(got["overrides"], spec(steps)["overrides"]);
        }
    }

    #[test]
    fn the_order_of_a_placement_is_no_reason_to_write() {
        let got = after(
            json!({"placement": {"clusters": [{"name": "b"}, {"name": "a"}]}}),
            &[("a", 1), ("b", 1)],
        );
        let clusters = &got.unwrap()["placement"]["clusters"];
        assert_eq!(clusters[0]["name"], "b");
    }

    #[test]
    fn a_member_that_is_lost_keeps_its_replicas_and_one_that_is_gone_does_not() {
        let spec = after(json!({}), &[("a", 3), ("b", 7)]).unwrap();
        let ask = |unknown: &[String]| {
            let got = distributed(&workload(&spec), &counts(&[("a", 10)]), unknown);
            got.unwrap().as_value()["spec"].clone()
        };
        let gone = ask(&[]);
        assert_eq!(gone["placement"]["clusters"], json!([{"name": "a"}]));
        assert_eq!(
            gone["overrides"][1],
            json!({"clusterName": "b", "clusterOverrides": []})
        );
        let lost = ask(&["b".to_owned()]);
        assert_eq!(
            lost["placement"]["clusters"],
            json!([{"name": "a"}, {"name": "b"}])
        );
        assert_eq!(lost["overrides"][1]["clusterOverrides"][0]["value"], 7);
        assert_eq!(lost["overrides"][0]["clusterOverrides"][0]["value"], 10);
    }

    #[test]
    fn two_kinds_can_be_distributed() {
        assert_eq!(
            TARGETS.map(|(kind, _)| kind),
            ["FederatedDeployment", "FederatedReplicaSet"]
        );
    }
}
