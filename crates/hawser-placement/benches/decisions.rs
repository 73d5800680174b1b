//! What the hub of a fleet decides, without a server: as many placements as members, each from its creation until
//! nothing is left to be written. `cargo bench -p hawser-placement` prints the time that decisions take.
#![allow(
    clippy::disallowed_types,
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "what a benchmark finds is for its terminal, and a broken one may end"
)]

use std::time::{Duration, Instant};

use hawser_placement::admission::KindScope;
use hawser_placement::hub::placement::decide;
use hawser_placement::hub::view::{HubPolicy, PlacementView, WriteFailures};
use hawser_placement::hub::{HubWrite, ObjectName};
use hawser_placement::members::Members;
use hawser_placement::scheduler::GracePeriods;
use hawser_placement::snapshots::{Debounce, Scope, Selected};
use hawser_placement::types::cluster::MemberCluster;
use hawser_placement::types::placement::Placement;
use jiff::{SignedDuration, Timestamp};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

const NOW: &str = "2026-01-01T12:00:00Z";

fn main() {
    println!(
        "placements and members; one PickN placement of 3 with a label, a property and a spread constraint"
    );
    for size in [10, 30, 100, 300, 1000] {
        let fleet: Members = (0..size).map(member).collect();
        let (mut spent, mut rounds, mut scheduled) = (Duration::ZERO, 0, Duration::ZERO);
        for number in 0..size {
            let mut hub = PlayedHub::new(number);
            hub.run(&fleet);
            spent += hub.spent;
            scheduled += hub.scheduled;
            rounds += hub.rounds;
        }
        println!(
            "{size:>5}: scheduled in {scheduled:.1?}, all decided in {spent:.1?}, {rounds} rounds, {:.0?} a round",
            spent / rounds
        );
    }
}

fn member(number: usize) -> MemberCluster {
    let is = |type_: &str| json!({"type": type_, "status": "True", "reason": "R", "message": ""});
    let member = json!({
        "metadata": {
            "name": format!("member-{number:04}"), "uid": number.to_string(),
            "labels": {"region": format!("r{}", number % 5), "tier": if number.is_multiple_of(4) { "test" } else { "work" }},
        },
        "spec": {"identity": {"kind": "User", "name": "u"}},
        "status": {
            "properties": {"kubernetes-fleet.io/node-count": {"value": (number % 17).to_string(), "observationTime": NOW}},
            "resourceUsage": {"available": {"cpu": format!("{}m", 100 * (number % 23)), "memory": "4Gi"}},
            "agentStatus": [{
                "type": "MemberAgent", "conditions": [is("Joined"), is("Healthy")], "lastReceivedHeartbeat": NOW,
            }],
        },
    });
    serde_json::from_value(member).unwrap()
}

/// One placement with all that belongs to it.
struct PlayedHub {
    objects: Vec<Value>,
    resources: Vec<Value>,
    uids: usize,
    rounds: u32,
    spent: Duration,
    /// What was spent when the policy was fulfilled.
    scheduled: Duration,
}

impl PlayedHub {
    fn new(number: usize) -> Self {
        let name = format!("app-{number:04}");
        let placement = json!({
            "apiVersion": "placement.kubernetes-fleet.io/v1beta1", "kind": "ClusterResourcePlacement",
            "metadata": {"name": name, "uid": "p", "generation": 1},
            "spec": {
                "resourceSelectors": [{"group": "", "version": "v1", "kind": "Namespace", "name": name}],
                "policy": {
                    "placementType": "PickN", "numberOfClusters": 3,
                    "affinity": {"clusterAffinity": {
                        "requiredDuringSchedulingIgnoredDuringExecution": {"clusterSelectorTerms": [
                            {"labelSelector": {"matchLabels": {"tier": "work"}}}]},
                        "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 20, "preference": {
                            "propertySorter": {"name": "resources.kubernetes-fleet.io/available-cpu",
                                               "sortOrder": "Descending"}}}],
                    }},
                    "topologySpreadConstraints": [{"topologyKey": "region", "maxSkew": 1}],
                },
            },
        });
        let config = json!({"apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": "settings", "namespace": name}, "data": {"key": "value"}});
        Self {
            objects: vec![placement],
            resources: vec![
                json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}),
                config,
            ],
            uids: 0,
            rounds: 0,
            spent: Duration::ZERO,
            scheduled: Duration::ZERO,
        }
    }

    fn all<T: DeserializeOwned>(&self, kind: &str) -> Vec<T> {
        let found = self.objects.iter().filter(|one| one["kind"] == kind);
        found
            .map(|one| serde_json::from_value(one.clone()).unwrap())
            .collect()
    }

    fn run(&mut self, fleet: &Members) {
        let selected = Selected::from(self.resources.clone());
        let now: Timestamp = NOW.parse().unwrap();
        loop {
            let placement: Vec<Placement> = self.all("ClusterResourcePlacement");
            let policies = self.all("ClusterSchedulingPolicySnapshot");
            let snapshots = self.all("ClusterResourceSnapshot");
            let bindings = self.all("ClusterResourceBinding");
            let works = self.all("Work");
            let began = Instant::now();
            let round = decide(&PlacementView {
                scope: Scope::Cluster,
                placement: placement.first(),
                policies: &policies,
                snapshots: &snapshots,
                bindings: &bindings,
                works: &works,
                clusters: fleet,
                cluster_overrides: &[],
                overrides: &[],
                selected: Ok(&selected),
                scope_of: &|_| KindScope::Unknown,
                report: None,
                failures: &WriteFailures::default(),
                policy: HubPolicy {
                    debounce: Debounce {
                        minimum_interval: SignedDuration::ZERO,
                        collection: SignedDuration::ZERO,
                    },
                    windows: GracePeriods::default(),
                },
                now,
                time: NOW,
            });
            self.spent += began.elapsed();
            self.rounds += 1;
            let round = round.unwrap();
            if round.stages.is_empty() {
                assert_eq!(works.len(), 3, "{} is placed", placement[0].metadata.name);
                return;
            }
            for write in round.stages.into_stages().flatten() {
                self.apply(write);
            }
        }
    }

    fn find(&mut self, place: &ObjectName) -> &mut Value {
        let is = |one: &&mut Value| {
            one["kind"] == place.kind
                && one["metadata"]["name"] == *place.name
                && one["metadata"]["namespace"].as_str() == place.namespace.as_deref()
        };
        self.objects.iter_mut().find(is).unwrap()
    }

    fn apply(&mut self, write: HubWrite) {
        match write {
            HubWrite::Create(mut object) => {
                self.uids += 1;
                object["metadata"]["uid"] = self.uids.to_string().into();
                object["metadata"]["generation"] = 1.into();
                object["metadata"]["creationTimestamp"] = NOW.into();
                self.objects.push(object);
            }
            HubWrite::Patch { place, patch } => {
                let object = self.find(&place);
                let before = object["spec"].clone();
                merge(object, &patch);
                if object["spec"] != before {
                    let generation = object["metadata"]["generation"].as_i64().unwrap() + 1;
                    object["metadata"]["generation"] = generation.into();
                }
            }
            HubWrite::Status { place, status } => {
                if place.kind == "ClusterSchedulingPolicySnapshot" {
                    self.scheduled = self.spent;
                }
                self.find(&place)["status"] = status;
            }
            HubWrite::Delete { place, .. } => panic!("{place:?} is deleted"),
        }
    }
}

fn merge(into: &mut Value, patch: &Value) {
    let (Value::Object(fields), Value::Object(patch)) = (&mut *into, patch) else {
        *into = patch.clone();
        return;
    };
    for (key, value) in patch {
        if value.is_null() {
            fields.remove(key);
        } else {
            merge(fields.entry(key).or_insert(json!({})), value);
        }
    }
}
