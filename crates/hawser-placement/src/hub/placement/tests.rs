//! Decisions over a model of the hub that applies what is written.

#![allow(
    clippy::needless_pass_by_value,
    reason = "literals are shorter to pass by value"
)]

use serde_json::{Value, json};

use super::*;
use crate::fixtures::{member, now};
use crate::hub::view::{HubPolicy, WriteFailures};
use crate::scheduler::GracePeriods;
use crate::snapshots::{Debounce, Scope, Selected};
use crate::types::cluster::MemberCluster;
use crate::types::placement::StatusReport;
use crate::types::work::Work;

const TIME: &str = "2026-01-01T12:00:00Z";

/// The objects of a hub, by kind.
#[derive(Clone, Default)]
pub(in crate::hub) struct Model {
    pub(in crate::hub) objects: Vec<Value>,
    pub(in crate::hub) members: Vec<MemberCluster>,
    pub(in crate::hub) resources: Vec<Value>,
    uids: u64,
    /// What was written, in words.
    pub(in crate::hub) log: Vec<String>,
    /// What cannot be written.
    failures: Arc<WriteFailures>,
    /// Members cannot tell whether what they applied is available.
    is_untrackable: bool,
}

pub(in crate::hub) fn merge(into: &mut Value, patch: &Value) {
    if let (Value::Object(into), Value::Object(patch)) = (&mut *into, patch) {
        for (key, value) in patch {
            if value.is_null() {
                into.remove(key);
            } else {
                merge(into.entry(key).or_insert(json!({})), value);
            }
        }
    } else {
        *into = patch.clone();
    }
}

impl Model {
    pub(in crate::hub) fn new(policy: Value) -> Self {
        let members = ["a", "b", "c"].map(|name| member(name, &json!({"name": name})));
        let resources = vec![
            json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "app"}}),
            json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c", "namespace": "app"},
                   "data": {"k": "1"}}),
        ];
        let placement = json!({
            "apiVersion": "placement.kubernetes-fleet.io/v1beta1", "kind": "ClusterResourcePlacement",
            "metadata": {"name": "p", "uid": "p", "generation": 1},
            "spec": {
                "resourceSelectors": [{"group": "", "version": "v1", "kind": "Namespace", "name": "app"}],
                "policy": policy,
                "strategy": {"rollingUpdate": {"maxUnavailable": 1, "maxSurge": 1, "unavailablePeriodSeconds": 0}},
            },
        });
        Self {
            objects: vec![placement],
            members: members.into(),
            resources,
            ..Self::default()
        }
    }

    pub(in crate::hub) fn all<T: serde::de::DeserializeOwned>(&self, kind: &str) -> Vec<T> {
        let found = self.objects.iter().filter(|one| one["kind"] == kind);
        found
            .map(|one| serde_json::from_value(one.clone()).unwrap())
            .collect()
    }

    fn place(&mut self, place: &ObjectName) -> usize {
        let name = |one: &Value| one["metadata"]["name"] == *place.name;
        let near =
            |one: &Value| one["metadata"]["namespace"].as_str() == place.namespace.as_deref();
        let is = |one: &Value| one["kind"] == place.kind && name(one) && near(one);
        self.objects.iter().position(is).expect("it is there")
    }

    pub(in crate::hub) fn apply(&mut self, write: HubWrite) {
        match write {
            HubWrite::Create(mut object) => {
                self.uids += 1;
                object["metadata"]["uid"] = self.uids.to_string().into();
                object["metadata"]["generation"] = 1.into();
                object["metadata"]["creationTimestamp"] = TIME.into();
                // The agent of the member takes it.
                if object["kind"] == "Work" {
                    object["metadata"]["finalizers"] = json!([names::WORK_FINALIZER]);
                }
                let name = object["metadata"]["name"].as_str().unwrap();
                self.log.push(format!(
                    "create {} {name}",
                    object["kind"].as_str().unwrap()
                ));
                self.objects.push(object);
            }
            HubWrite::Patch { place, patch } => {
                self.log
                    .push(format!("patch {} {}", place.kind, place.name));
                let at = self.place(&place);
                let before = self.objects[at]["spec"].clone();
                merge(&mut self.objects[at], &patch);
                let object = &mut self.objects[at];
                if object["spec"] != before {
                    let generation = object["metadata"]["generation"].as_i64().unwrap() + 1;
                    object["metadata"]["generation"] = generation.into();
                }
                self.collect();
            }
            HubWrite::Status { place, status } => {
                self.log
                    .push(format!("status {} {}", place.kind, place.name));
                let at = self.place(&place);
                self.objects[at]["status"] = status;
            }
            HubWrite::Delete { place, .. } => {
                self.log
                    .push(format!("delete {} {}", place.kind, place.name));
                let at = self.place(&place);
                self.objects[at]["metadata"]["deletionTimestamp"] = TIME.into();
                self.collect();
            }
        }
    }

    /// Removes what is in deletion and has no finalizer.
    fn collect(&mut self) {
        self.objects.retain(|one| {
            let finalizers = one["metadata"]["finalizers"].as_array();
            one["metadata"]["deletionTimestamp"].is_null()
                || finalizers.is_some_and(|all| !all.is_empty())
        });
    }

    fn decide(&self) -> HubRound {
        let placement: Vec<Placement> = self.all("ClusterResourcePlacement");
        let selected = Selected::from(self.resources.clone());
        let overrides = self.all("ClusterResourceOverrideSnapshot");
        let overrides: Vec<Arc<_>> = overrides.into_iter().map(Arc::new).collect();
        let report: Vec<StatusReport> = self.all(reports::KIND);
        decide(&PlacementView {
            scope: Scope::Cluster,
            placement: placement.first(),
            policies: &self.all("ClusterSchedulingPolicySnapshot"),
            snapshots: &self.all("ClusterResourceSnapshot"),
            bindings: &self.all("ClusterResourceBinding"),
            works: &self.all("Work"),
            clusters: &self.members.iter().cloned().collect(),
            cluster_overrides: &overrides,
            overrides: &[],
            selected: Ok(&selected),
            scope_of: &|_| KindScope::Unknown,
            report: report.first(),
            failures: &self.failures,
            policy: HubPolicy {
                debounce: Debounce::default(),
                windows: GracePeriods::default(),
            },
            now: now(),
            time: TIME,
        })
        .unwrap()
    }

    /// Rounds until nothing is written; returns the reasons of the events.
    pub(in crate::hub) fn settle(&mut self) -> Vec<&'static str> {
        let mut events = Vec::new();
        for _ in 0..40 {
            let round = self.decide();
            if round.stages.is_empty() {
                return events;
            }
            events.extend(round.events.iter().map(|(reason, _)| *reason));
            for write in round.stages.into_stages().flatten() {
                self.apply(write);
            }
        }
        panic!("it never settles: {:#?}", self.log);
    }

    /// The members report that all Works are applied and available.
    pub(in crate::hub) fn report(&mut self) {
        let available = if self.is_untrackable {
            "WorkNotTrackable"
        } else {
            "AllManifestsAvailable"
        };
        for work in self.objects.iter_mut().filter(|one| one["kind"] == "Work") {
            let generation = work["metadata"]["generation"].clone();
            let is = |type_: &str, reason: &str| {
                json!({"type": type_, "status": "True", "reason": reason,
                "message": "", "observedGeneration": generation, "lastTransitionTime": TIME})
            };
            work["status"] = json!({"conditions": [
                is("Applied", "AllManifestsApplied"), is("Available", available)]});
        }
        // Agents let go what is in deletion.
        for work in self.objects.iter_mut().filter(|one| one["kind"] == "Work") {
            if !work["metadata"]["deletionTimestamp"].is_null() {
                work["metadata"]["finalizers"] = json!([]);
            }
        }
        self.collect();
    }

    /// Settles and reports until neither changes anything.
    fn come_to_rest(&mut self) {
        for _ in 0..20 {
            self.settle();
            let before = self.objects.clone();
            self.report();
            if self.objects == before {
                return;
            }
        }
        panic!("it never rests: {:#?}", self.log);
    }

    fn placements(&self) -> Vec<Placement> {
        self.all("ClusterResourcePlacement")
    }

    fn placement(&self) -> Placement {
        self.placements().remove(0)
    }

    /// Type and status of the placement's conditions.
    pub(in crate::hub) fn conditions(&self) -> Vec<String> {
        let status = self.placement().status;
        let said = status.conditions.iter();
        said.map(|one| {
            let type_ = one.type_.trim_start_matches("ClusterResourcePlacement");
            format!("{type_} {:?} {}", one.status, one.reason)
        })
        .collect()
    }

    /// Has the status reported in the namespace that is placed.
    fn report_near(mut self) -> Self {
        self.objects[0]["spec"]["statusReportingScope"] = "NamespaceAccessible".into();
        self
    }

    pub(in crate::hub) fn edit(&mut self, patch: &Value) {
        merge(&mut self.objects[0], patch);
        let generation = self.objects[0]["metadata"]["generation"].as_i64().unwrap() + 1;
        self.objects[0]["metadata"]["generation"] = generation.into();
    }

    fn indices(&self) -> Vec<String> {
        let all = self.placement().status.placement_statuses;
        all.into_iter()
            .map(|one| one.observed_resource_index)
            .collect()
    }
}

fn fixed(names: &[&str]) -> Value {
    json!({"placementType": "PickFixed", "clusterNames": names})
}

fn everywhere() -> Model {
    Model::new(json!({"placementType": "PickAll"}))
}

#[test]
fn a_placement_comes_to_all_members_and_its_conditions_follow_each_other() {
    let mut model = everywhere();
    let events = model.settle();
    assert_eq!(
        events,
        [
            "PlacementRolloutStarted",
            "PlacementOverriddenSucceeded",
            "PlacementWorkSynchronized"
        ]
    );
    assert_eq!(
        model.conditions(),
        [
            "Scheduled True SchedulingPolicyFulfilled",
            "RolloutStarted True RolloutStarted",
            "Overridden True NoOverrideSpecified",
            "WorkSynchronized True WorkSynchronized",
            "Applied False ApplyFailed",
        ]
    );
    assert_eq!(model.all::<Work>("Work").len(), 3);
    model.report();
    let events = model.settle();
    assert_eq!(
        events,
        [
            "PlacementApplied",
            "PlacementAvailable",
            "PlacementRolloutCompleted"
        ]
    );
    assert_eq!(model.conditions()[5], "Available True ResourceAvailable");
    let status = model.placement().status;
    assert_eq!(status.observed_resource_index, "0");
    assert_eq!(status.selected_resources.len(), 2);
    assert_eq!(model.indices(), ["0", "0", "0"]);
}

#[test]
fn writes_follow_the_order_of_a_rollout() {
    let mut model = Model::new(fixed(&["a"]));
    model.settle();
    let kinds = model.log.iter().map(|line| {
        let mut words = line.split(' ');
        format!("{} {}", words.next().unwrap(), words.next().unwrap())
    });
    assert_eq!(
        kinds.collect::<Vec<_>>(),
        [
            "patch ClusterResourcePlacement",
            "create ClusterSchedulingPolicySnapshot",
            "create ClusterResourceSnapshot",
            "create ClusterResourceBinding",
            "status ClusterSchedulingPolicySnapshot",
            "create Work",
            "status ClusterResourceBinding",
            "status ClusterResourcePlacement",
        ]
    );
}

#[test]
fn a_change_rolls_from_member_to_member() {
    let mut model = everywhere();
    model.come_to_rest();
    model.resources[1]["data"]["k"] = "2".into();
    model.settle();
    let mut indices = model.indices();
    indices.sort();
    assert_eq!(indices, ["0", "0", "1"], "one may be unavailable");
    assert_eq!(
        model.conditions()[1],
        "RolloutStarted False RolloutNotStartedYet"
    );
    model.come_to_rest();
    assert_eq!(model.indices(), ["1", "1", "1"]);
    assert_eq!(model.conditions()[5], "Available True ResourceAvailable");
    let works: Vec<Work> = model.all("Work");
    assert!(
        works
            .iter()
            .all(|one| one.spec.workload.manifests[1]["data"]["k"] == "2")
    );
}

#[test]
fn a_smaller_number_of_clusters_takes_resources_away() {
    let mut model = Model::new(json!({"placementType": "PickN", "numberOfClusters": 3}));
    model.come_to_rest();
    model.edit(&json!({"spec": {"policy": {"numberOfClusters": 1}}}));
    model.come_to_rest();
    let works: Vec<Work> = model.all("Work");
    assert_eq!(works.len(), 1);
    assert_eq!(
        works[0].metadata.namespace.as_deref(),
        Some("fleet-member-c")
    );
    assert_eq!(
        model
            .all::<PolicySnapshot>("ClusterSchedulingPolicySnapshot")
            .len(),
        1
    );
}

#[test]
fn what_cannot_be_selected_withdraws_nothing() {
    let mut model = everywhere();
    model.come_to_rest();
    let placement = model.placement();
    let refused = SelectionError::Reserved("default".to_owned());
    let round = decide(&PlacementView {
        scope: Scope::Cluster,
        placement: Some(&placement),
        policies: &model.all("ClusterSchedulingPolicySnapshot"),
        snapshots: &model.all("ClusterResourceSnapshot"),
        bindings: &model.all("ClusterResourceBinding"),
        works: &model.all("Work"),
        clusters: &model.members.iter().cloned().collect(),
        cluster_overrides: &[],
        overrides: &[],
        selected: Err(&refused),
        scope_of: &|_| KindScope::Unknown,
        report: None,
        failures: &WriteFailures::default(),
        policy: HubPolicy {
            debounce: Debounce::default(),
            windows: GracePeriods::default(),
        },
        now: now(),
        time: TIME,
    })
    .unwrap();
    assert_eq!(round.wait, Some(INVALID_FOR));
    let writes: Vec<HubWrite> = round.stages.into_stages().flatten().collect();
    let [HubWrite::Status { status, .. }] = &writes[..] else {
        panic!("{writes:?}");
    };
    assert_eq!(
        status["conditions"][0]["reason"],
        "InvalidResourceSelectors"
    );
}

#[test]
fn an_override_changes_the_works_of_the_clusters_that_it_names() {
    let mut model = everywhere();
    model.objects.push(json!({
        "apiVersion": "placement.kubernetes-fleet.io/v1beta1", "kind": "ClusterResourceOverrideSnapshot",
        "metadata": {"name": "o-0", "labels": {names::IS_LATEST: "true"}},
        "spec": {"overrideHash": "", "overrideSpec": {
            "clusterResourceSelectors": [{"group": "", "version": "v1", "kind": "Namespace", "name": "app"}],
            "policy": {"overrideRules": [{
                "clusterSelector": {"clusterSelectorTerms": [{"labelSelector": {"matchLabels": {"name": "b"}}}]},
                "jsonPatchOverrides": [{"op": "add", "path": "/metadata/labels", "value": {"here": "${MEMBER-CLUSTER-NAME}"}}],
            }]},
        }},
    }));
    model.come_to_rest();
    for work in model.all::<Work>("Work") {
        let label = &work.spec.workload.manifests[0]["metadata"]["labels"]["here"];
        let is_of_b = work.metadata.namespace.as_deref() == Some("fleet-member-b");
        assert_eq!(label.as_str(), is_of_b.then_some("b"));
    }
    assert_eq!(model.conditions()[2], "Overridden True OverriddenSucceeded");
    let status = model.placement().status;
    let of_b = status
        .placement_statuses
        .iter()
        .find(|one| one.cluster_name == "b");
    assert_eq!(of_b.unwrap().applicable_cluster_resource_overrides, ["o-0"]);
}

#[test]
fn nothing_is_left_of_a_deleted_placement() {
    let mut model = everywhere();
    model.come_to_rest();
    model.objects[0]["metadata"]["deletionTimestamp"] = TIME.into();
    let events = model.settle();
    assert_eq!(events, ["PlacementCleanupFinalizerRemoved"]);
    // The placement is gone before its members have cleaned up.
    assert!(
        model
            .objects
            .iter()
            .all(|one| one["kind"] == "Work" || one["kind"] == "ClusterResourceBinding")
    );
    model.report();
    model.settle();
    assert_eq!(model.objects, Vec::<Value>::new());
}

#[test]
fn members_know_that_they_keep_what_was_placed_before_anything_is_deleted() {
    let mut model = everywhere();
    model.objects[0]["spec"]["strategy"]["deleteStrategy"] =
        json!({"propagationPolicy": "Abandon"});
    model.come_to_rest();
    model.objects[0]["metadata"]["deletionTimestamp"] = TIME.into();
    model.log.clear();
    model.settle();
    let position = |start: &str| model.log.iter().position(|one| one.starts_with(start));
    assert!(position("patch Work").unwrap() < position("delete").unwrap());
    let works = model.objects.iter().filter(|one| one["kind"] == "Work");
    let told: Vec<&Value> = works
        .map(|work| &work["metadata"]["annotations"][names::PROPAGATION])
        .collect();
    assert_eq!(told, ["Abandon"; 3]);
    model.report();
    model.settle();
    assert_eq!(model.objects, Vec::<Value>::new());
}

#[test]
fn a_round_that_is_interrupted_after_any_write_comes_to_the_same_end() {
    let mut whole = everywhere();
    whole.come_to_rest();
    let writes = whole.log.len();
    for stop in 1..writes {
        let mut model = everywhere();
        // The first writes, one of each round at a time, as a process makes them that is killed after each.
        for _ in 0..stop {
            let Some(write) = model.decide().stages.into_stages().flatten().next() else {
                break;
            };
            model.apply(write);
        }
        model.come_to_rest();
        assert_eq!(
            model.conditions(),
            whole.conditions(),
            "after {stop} writes"
        );
        assert_eq!(model.all::<Binding>("ClusterResourceBinding").len(), 3);
        assert_eq!(
            model
                .all::<ResourceSnapshot>("ClusterResourceSnapshot")
                .len(),
            1
        );
    }
}

#[test]
fn a_change_that_is_interrupted_reaches_all_members_where_one_snapshot_is_kept() {
    let changed = || {
        let mut model = everywhere();
        model.edit(&json!({"spec": {"revisionHistoryLimit": 1}}));
        model.come_to_rest();
        model.resources[1]["data"]["k"] = "2".into();
        model.edit(&json!({"spec": {"policy": {"placementType": "PickFixed", "clusterNames": ["a", "b"]}}}));
        model
    };
    let works = |model: &Model| -> Vec<Value> {
        let works: Vec<Work> = model.all("Work");
        let manifests = works.iter().map(|work| json!(work.spec.workload));
        manifests
            .map(|all| all["manifests"][1]["data"]["k"].clone())
            .collect()
    };
    let mut whole = changed();
    let before = whole.log.len();
    whole.come_to_rest();
    assert_eq!(works(&whole), ["2", "2"]);
    for stop in 1..whole.log.len() - before {
        let mut model = changed();
        for _ in 0..stop {
            let Some(write) = model.decide().stages.into_stages().flatten().next() else {
                break;
            };
            model.apply(write);
        }
        model.come_to_rest();
        assert_eq!(works(&model), ["2", "2"], "after {stop} writes");
    }
}

#[test]
fn a_work_whose_binding_is_gone_is_taken_over() {
    let mut model = Model::new(fixed(&["a"]));
    model.come_to_rest();
    model
        .objects
        .retain(|one| one["kind"] != "ClusterResourceBinding");
    let works: Vec<Work> = model.all("Work");
    model
        .objects
        .iter_mut()
        .filter(|one| one["kind"] == "Work")
        .for_each(|work| {
            work["metadata"]["labels"][names::PARENT_BINDING] = "another".into();
        });
    model.come_to_rest();
    let now: Vec<Work> = model.all("Work");
    assert_eq!(now.len(), 1);
    assert_eq!(now[0].metadata.uid, works[0].metadata.uid);
    let bindings: Vec<Binding> = model.all("ClusterResourceBinding");
    let parent = now[0].metadata.label(names::PARENT_BINDING);
    assert_eq!(parent, Some(&*bindings[0].metadata.name));
}

#[test]
fn what_a_leaving_member_applied_stays_until_the_member_is_gone() {
    let mut model = Model::new(fixed(&["a", "b"]));
    model.come_to_rest();
    model.members[0].metadata.deletion_timestamp = Some(TIME.to_owned());
    model.settle();
    let states: Vec<Binding> = model.all("ClusterResourceBinding");
    assert_eq!(states[0].spec.state, BindingState::Unscheduled);
    assert!(!states[0].metadata.in_deletion());
    assert_eq!(model.all::<Work>("Work").len(), 2);
    model.members.remove(0);
    model.come_to_rest();
    assert_eq!(model.all::<Binding>("ClusterResourceBinding").len(), 1);
    assert_eq!(model.all::<Work>("Work").len(), 1);
}

#[test]
fn the_status_is_copied_into_the_namespace_that_is_placed() {
    let mut model = everywhere().report_near();
    model.come_to_rest();
    let reports: Vec<StatusReport> = model.all(reports::KIND);
    let [report] = &reports[..] else {
        panic!("{reports:?}");
    };
    assert_eq!(report.metadata.name, "p");
    assert_eq!(report.metadata.namespace.as_deref(), Some("app"));
    let synced = "StatusSynced True StatusSyncSucceeded";
    assert_eq!(model.conditions()[6], synced);
    let mut status = model.placement().status;
    status.conditions.pop();
    assert!(is_same(&status, &report.source_status), "{report:?}");
    // It follows the status, fields that go included, and comes back when somebody deletes it.
    model.edit(&json!({"spec": {"policy": {"placementType": "PickN", "numberOfClusters": 0}}}));
    model.come_to_rest();
    let report: StatusReport = model.all(reports::KIND).remove(0);
    assert_eq!(report.source_status.placement_statuses, []);
    assert_eq!(model.conditions().len(), 2);
    model.objects.retain(|one| one["kind"] != reports::KIND);
    model.come_to_rest();
    assert_eq!(model.all::<StatusReport>(reports::KIND).len(), 1);
    assert_eq!(model.conditions()[1], synced);
}

#[test]
fn a_copy_that_cannot_be_written_stops_nothing() {
    let mut model = everywhere().report_near();
    model.failures = Arc::new(WriteFailures {
        report: Some("namespace app is ending".to_owned()),
        ..WriteFailures::default()
    });
    model.come_to_rest();
    assert_eq!(model.conditions()[5], "Available True ResourceAvailable");
    assert_eq!(model.conditions()[6], "StatusSynced False StatusSyncFailed");
    assert_eq!(model.all::<StatusReport>(reports::KIND).len(), 0);
    model.failures = Arc::default();
    model.come_to_rest();
    assert_eq!(
        model.conditions()[6],
        "StatusSynced True StatusSyncSucceeded"
    );
}

#[test]
fn two_works_of_one_envelope_are_told_of_and_left_alone() {
    let mut model = Model::new(fixed(&["a"]));
    model.resources.push(json!({
        "apiVersion": "placement.kubernetes-fleet.io/v1beta1", "kind": "ResourceEnvelope",
        "metadata": {"name": "e", "namespace": "app"},
        "data": {"k": {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "d", "namespace": "app"}}},
    }));
    model.come_to_rest();
    let is_wrapped = |one: &&Value| one["metadata"]["labels"][names::ENVELOPE_NAME] == "e";
    let mut second = model.objects.iter().find(is_wrapped).unwrap().clone();
    second["metadata"]["name"] = "second".into();
    model.objects.push(second);
    let round = model.decide();
    let [warning] = &round.warnings[..] else {
        panic!("{:?}", round.warnings);
    };
    assert_eq!(warning.reason, "DuplicateEnvelopeWorks");
    assert!(warning.message.contains("second"), "{}", warning.message);
    model.settle();
    let binding: Binding = model.all("ClusterResourceBinding").remove(0);
    let synced = crate::types::condition(&binding.status.conditions, "WorkSynchronized").unwrap();
    assert_eq!(synced.reason, "SyncWorkFailed");
    assert_eq!(model.all::<Work>("Work").len(), 3);
    model
        .objects
        .retain(|one| one["metadata"]["name"] != "second");
    model.come_to_rest();
    assert_eq!(model.conditions()[5], "Available True ResourceAvailable");
}

#[test]
fn ten_thousand_resources_become_works_that_can_report_each_of_them() {
    let mut model = Model::new(fixed(&["a"]));
    for number in 0..10_000 {
        let map = json!({"apiVersion": "v1", "kind": "ConfigMap",
                         "metadata": {"name": format!("many-{number}"), "namespace": "app"}});
        model.resources.push(map);
    }
    model.come_to_rest();
    let works: Vec<Work> = model.all("Work");
    let sizes = works.iter().map(|one| one.spec.workload.manifests.len());
    let sizes: Vec<usize> = sizes.collect();
    assert_eq!(sizes.iter().sum::<usize>(), 10_002);
    assert!(sizes.iter().all(|size| *size <= 1000), "{sizes:?}");
    assert_eq!(model.conditions()[5], "Available True ResourceAvailable");
    let status = json!(model.placement().status);
    assert!(status.to_string().len() < 1_500_000);
}

#[test]
fn resources_whose_availability_is_assumed_are_waited_for_after_each_update() {
    let mut model = everywhere();
    model.objects[0]["spec"]["strategy"]["rollingUpdate"]["unavailablePeriodSeconds"] = 60.into();
    model.is_untrackable = true;
    model.come_to_rest();
    for binding in &mut model.objects {
        if binding["kind"] == "ClusterResourceBinding" {
            let conditions = binding["status"]["conditions"].as_array_mut().unwrap();
            for condition in conditions {
                condition["lastTransitionTime"] = "2026-01-01T11:00:00Z".into();
            }
        }
    }
    model.resources[1]["data"]["k"] = "2".into();
    // The member answers before any status is written.
    loop {
        let round = model.decide();
        if round.stages.only_report() {
            break;
        }
        round
            .stages
            .into_stages()
            .flatten()
            .for_each(|write| model.apply(write));
    }
    model.report();
    model.come_to_rest();
    let bindings: Vec<Binding> = model.all("ClusterResourceBinding");
    let updated = bindings.iter();
    let updated = updated.filter(|one| one.spec.resource_snapshot_name == "p-1-snapshot");
    assert_eq!(updated.count(), 1, "the others wait for a minute");
}

#[test]
fn nothing_is_deleted_before_all_members_know_that_they_keep_what_was_placed() {
    let mut model = everywhere();
    model.objects[0]["spec"]["strategy"]["deleteStrategy"] =
        json!({"propagationPolicy": "Abandon"});
    model.come_to_rest();
    model.objects[0]["metadata"]["deletionTimestamp"] = TIME.into();
    let first: Work = model.all("Work").remove(0);
    let binding = first.metadata.label(names::PARENT_BINDING).unwrap();
    model.failures = Arc::new(WriteFailures {
        works: [(binding.to_owned(), "refused".to_owned())].into(),
        ..WriteFailures::default()
    });
    assert_eq!(model.decide().stages, Stages::default());
    model.failures = Arc::default();
    model.settle();
    assert_eq!(model.placements().len(), 0);
}

#[test]
fn a_work_that_cannot_be_deleted_is_not_asked_for_again_in_the_same_pass() {
    let mut model = everywhere();
    model.come_to_rest();
    let binding = |one: &&mut Value| one["kind"] == "ClusterResourceBinding";
    let leaving = model.objects.iter_mut().find(binding).unwrap();
    leaving["metadata"]["deletionTimestamp"] = TIME.into();
    let name = leaving["metadata"]["name"].as_str().unwrap().to_owned();
    model.failures = Arc::new(WriteFailures {
        works: [(name, "refused".to_owned())].into(),
        ..WriteFailures::default()
    });
    model.resources[1]["data"]["k"] = "2".into();
    model.log.clear();
    model.settle();
    assert!(!model.log.iter().any(|one| one.starts_with("delete Work")));
    let went_on = |one: &String| one == "create ClusterResourceSnapshot p-1-snapshot";
    assert!(model.log.iter().any(went_on), "{:?}", model.log);
}

#[test]
fn a_member_that_leaves_takes_nothing_of_what_may_be_removed() {
    let mut model = Model::new(fixed(&["a", "b", "c"]));
    model.objects[0]["spec"]["strategy"]["rollingUpdate"]["maxUnavailable"] = 0.into();
    model.come_to_rest();
    model.members[0].metadata.deletion_timestamp = Some(TIME.to_owned());
    // Another cluster is not wanted any more.
    model.edit(&json!({"spec": {"policy": fixed(&["a", "c"])}}));
    model.come_to_rest();
    let bindings: Vec<Binding> = model.all("ClusterResourceBinding");
    let clusters: Vec<&str> = bindings
        .iter()
        .map(|one| one.spec.target_cluster.as_str())
        .collect();
    assert_eq!(clusters, ["a", "c"]);
}

#[test]
fn a_rollout_that_waits_for_a_leaving_binding_has_not_started() {
    let mut model = everywhere();
    model.come_to_rest();
    model.resources[1]["data"]["k"] = "2".into();
    model.settle();
    let states = |model: &Model| -> Vec<String> {
        let bindings: Vec<Binding> = model.all("ClusterResourceBinding");
        let live = bindings.iter().filter(|one| !one.metadata.in_deletion());
        live.map(|one| {
            let found = crate::types::condition(&one.status.conditions, "RolloutStarted");
            found.unwrap().reason.clone()
        })
        .collect()
    };
    let waiting = [
        "RolloutStarted",
        "RolloutNotStartedYet",
        "RolloutNotStartedYet",
    ];
    assert_eq!(states(&model), waiting);
    let is = |kind: &'static str| move |one: &&Value| one["kind"] == kind;
    let mut binding = model
        .objects
        .iter()
        .find(is("ClusterResourceBinding"))
        .unwrap()
        .clone();
    let mut work = model.objects.iter().find(is("Work")).unwrap().clone();
    binding["metadata"]["name"] = "before".into();
    work["metadata"]["name"] = "before-work".into();
    work["metadata"]["labels"][names::PARENT_BINDING] = "before".into();
    for leaving in [&mut binding, &mut work] {
        leaving["metadata"]["deletionTimestamp"] = TIME.into();
        leaving["metadata"]["finalizers"] = json!([names::WORK_FINALIZER]);
    }
    model.objects.extend([binding, work]);
    // The first member has answered, so that the next one could go on.
    for work in model.objects.iter_mut().filter(|one| one["kind"] == "Work") {
        work["status"]["conditions"] = json!([]);
    }
    model.settle();
    assert_eq!(states(&model), waiting);
}
