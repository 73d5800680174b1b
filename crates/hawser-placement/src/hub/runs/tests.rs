//! Runs over a model of the hub that applies what is written, beside the placement that they roll out.

#![allow(
    clippy::needless_pass_by_value,
    reason = "literals are shorter to pass by value"
)]

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::super::placement::tests::{Model, merge};
use super::*;
use crate::fixtures::{member, now};

const RUN: &str = "ClusterStagedUpdateRun";
const STRATEGY: &str = "ClusterStagedUpdateStrategy";
const APPROVAL: &str = "ClusterApprovalRequest";
const BINDING: &str = "ClusterResourceBinding";

/// A hub with a placement whose strategy is External, and members that apply their Works unless they are mute.
#[derive(Clone)]
struct World {
    hub: Model,
    now: Timestamp,
    mute: BTreeSet<String>,
    /// The writes for runs so far, and the one after which the hub is killed.
    writes: usize,
    killed_after: Option<usize>,
}

fn stage(name: &str, clusters: &[&str]) -> Value {
    json!({"name": name, "labelSelector":
        {"matchExpressions": [{"key": "name", "operator": "In", "values": clusters}]}})
}

impl World {
    fn new(policy: Value, stages: Value) -> Self {
        let mut hub = Model::new(policy);
        let strategy = json!({"type": "External", "rollingUpdate": null});
        hub.edit(&json!({"spec": {"strategy": strategy}}));
        hub.objects.push(json!({
            "kind": STRATEGY, "metadata": {"name": "s", "generation": 1}, "spec": {"stages": stages},
        }));
        hub.settle();
        hub.log.clear();
        Self {
            hub,
            now: now(),
            mute: BTreeSet::new(),
            writes: 0,
            killed_after: None,
        }
    }

    /// Three clusters in two stages.
    fn of_two_stages() -> Self {
        let stages = json!([stage("canary", &["a"]), stage("rest", &["b", "c"])]);
        Self::new(json!({"placementType": "PickAll"}), stages)
    }

    fn create(&mut self, name: &str, state: &str) {
        let spec = json!({"placementName": "p", "stagedRolloutStrategyName": "s", "state": state});
        self.create_with(name, spec);
    }

    fn create_with(&mut self, name: &str, spec: Value) {
        let metadata = json!({"name": name, "uid": name, "generation": 1});
        self.hub
            .objects
            .push(json!({"kind": RUN, "metadata": metadata, "spec": spec}));
    }

    fn edit(&mut self, kind: &str, name: &str, patch: Value) {
        let mut all = self.hub.objects.iter_mut();
        let of = all.find(|one| one["kind"] == kind && one["metadata"]["name"] == name);
        let of = of.expect("it is there");
        merge(of, &patch);
        if patch.get("spec").is_some() {
            let generation = of["metadata"]["generation"].as_i64().unwrap() + 1;
            of["metadata"]["generation"] = generation.into();
        }
    }

    fn set_state(&mut self, name: &str, state: &str) {
        self.edit(RUN, name, json!({"spec": {"state": state}}));
    }

    fn find<T: serde::de::DeserializeOwned>(&self, kind: &str, name: &str) -> Option<T> {
        let mut all = self.hub.objects.iter();
        let found = all.find(|one| one["kind"] == kind && one["metadata"]["name"] == name)?;
        Some(serde_json::from_value(found.clone()).unwrap())
    }

    fn run(&self, name: &str) -> UpdateRun {
        self.find(RUN, name).expect("the run is there")
    }

    fn decide(&self, run: &UpdateRun) -> RunRound {
        let placement = self.find("ClusterResourcePlacement", &run.spec.placement_name);
        let strategy = self.find(STRATEGY, &run.spec.strategy_name);
        let overrides = self.hub.all("ClusterResourceOverrideSnapshot");
        let overrides: Vec<Arc<_>> = overrides.into_iter().map(Arc::new).collect();
        let selected = Selected::from(self.hub.resources.clone());
        let mut approvals: Vec<ApprovalRequest> = self.hub.all(APPROVAL);
        let prefix = format!("{}-", run.metadata.name);
        approvals.retain(|one| one.metadata.name.starts_with(&prefix));
        decide(&RunView {
            scope: Scope::Cluster,
            run,
            placement: placement.as_ref(),
            strategy: strategy.as_ref(),
            policies: &self.hub.all("ClusterSchedulingPolicySnapshot"),
            snapshots: &self.hub.all("ClusterResourceSnapshot"),
            bindings: &self.hub.all(BINDING),
            approvals: &approvals,
            clusters: &self.hub.members.iter().cloned().collect(),
            cluster_overrides: &overrides,
            overrides: &[],
            selected: Some(Ok(&selected)),
            now: self.now,
            time: &self.now.to_string(),
        })
        .unwrap()
    }

    /// A pass over each run. Returns what has the earliest end of a wait.
    fn pass(&mut self) -> Option<SignedDuration> {
        let mut least: Option<SignedDuration> = None;
        let runs: Vec<UpdateRun> = self.hub.all(RUN);
        for name in runs.into_iter().map(|run| run.metadata.name) {
            for round in 0.. {
                assert!(round < 40, "it never settles: {:#?}", self.hub.log);
                let Some(run) = self.find(RUN, &name) else {
                    break;
                };
                let round = self.decide(&run);
                if round.stages.is_empty() {
                    least = [least, round.wait].into_iter().flatten().min();
                    break;
                }
                for write in round.stages.into_stages().flatten() {
                    self.hub.apply(write);
                    self.writes += 1;
                    if self.killed_after.take_if(|at| *at == self.writes).is_some() {
                        break;
                    }
                }
            }
        }
        least
    }

    /// Everything works until nothing changes. Returns the wait that is left.
    fn rest(&mut self) -> Option<SignedDuration> {
        for _ in 0..60 {
            let before = self.hub.objects.clone();
            let wait = self.pass();
            self.hub.settle();
            self.report();
            if self.hub.objects == before {
                return wait;
            }
        }
        panic!("it never rests: {:#?}", self.hub.log);
    }

    fn report(&mut self) {
        let is_mute = |work: &Value| {
            let namespace = work["metadata"]["namespace"].as_str().unwrap_or_default();
            work["kind"] == "Work"
                && self
                    .mute
                    .iter()
                    .any(|name| namespace == names::member_namespace(name))
        };
        let (silent, others): (Vec<Value>, Vec<Value>) =
            self.hub.objects.drain(..).partition(is_mute);
        self.hub.objects = others;
        self.hub.report();
        self.hub.objects.extend(silent);
    }

    fn pass_time(&mut self, time: SignedDuration) {
        self.now = self.now.checked_add(time).unwrap();
    }

    fn approve(&mut self, name: &str) {
        let time = self.now.to_string();
        let approved = json!([{"type": "Approved", "status": "True", "reason": "lgtm", "message": "",
            "lastTransitionTime": time, "observedGeneration": 1}]);
        self.edit(APPROVAL, name, json!({"status": {"conditions": approved}}));
    }

    /// The snapshots that the clusters have, by cluster.
    fn placed(&self) -> Vec<String> {
        let mut bindings: Vec<Binding> = self.hub.all(BINDING);
        bindings.sort_by(|one, other| one.spec.target_cluster.cmp(&other.spec.target_cluster));
        let placed = bindings.into_iter().map(|one| one.spec);
        placed
            .map(|one| format!("{} {}", one.target_cluster, one.resource_snapshot_name))
            .collect()
    }
}

fn said(conditions: &[Condition]) -> Vec<String> {
    let said = conditions.iter();
    said.map(|one| format!("{} {:?} {}", one.type_, one.status, one.reason))
        .collect()
}

fn message<'a>(conditions: &'a [Condition], type_: &str) -> &'a str {
    &condition(conditions, type_).unwrap().message
}

const SUCCESS: [&str; 3] = [
    "Initialized True UpdateRunInitializedSuccessfully",
    "Progressing False UpdateRunSucceeded",
    "Succeeded True UpdateRunSucceeded",
];

#[test]
fn a_run_goes_from_stage_to_stage_and_the_placement_says_so() {
    let mut world = World::of_two_stages();
    assert_eq!(
        world.hub.conditions()[1],
        "RolloutStarted Unknown RolloutControlledByExternalController"
    );
    world.create("r", "Run");
    world.rest();
    let run = world.run("r");
    assert_eq!(said(&run.status.conditions), SUCCESS);
    let status = &run.status;
    assert_eq!(status.policy_snapshot_index_used, "0");
    assert_eq!(status.policy_observed_cluster_count, 3);
    assert_eq!(status.resource_snapshot_index_used, "0");
    assert_eq!(run.metadata.finalizers, [names::RUN_FINALIZER]);
    for stage in &status.stages_status {
        assert_eq!(
            said(&stage.conditions),
            [
                "Progressing False StageUpdatingSucceeded",
                "Succeeded True StageUpdatingSucceeded"
            ]
        );
        assert!(stage.start_time.is_some() && stage.end_time.is_some());
        for cluster in &stage.clusters {
            assert_eq!(
                said(&cluster.conditions),
                [
                    "Started True ClusterUpdatingStarted",
                    "Succeeded True ClusterUpdatingSucceeded"
                ]
            );
        }
    }
    let deletion = status.deletion_stage_status.as_ref().unwrap();
    assert_eq!(deletion.stage_name, "kubernetes-fleet.io/deleteStage");
    assert_eq!(
        said(&deletion.conditions),
        [
            "Progressing False StageUpdatingSucceeded",
            "Succeeded True StageUpdatingSucceeded"
        ]
    );
    assert_eq!(
        world.placed(),
        ["a p-0-snapshot", "b p-0-snapshot", "c p-0-snapshot"]
    );
    assert_eq!(
        world.hub.conditions()[5],
        "Available True ResourceAvailable"
    );
    // A binding at a time, each available before the next.
    let log = world.hub.log.iter();
    let bound: Vec<&String> = log
        .filter(|line| line.starts_with("patch ClusterResourceBinding"))
        .collect();
    assert_eq!(bound.len(), 3, "{:#?}", world.hub.log);
    let works = world.hub.log.iter();
    let works = works.filter(|line| line.starts_with("create Work"));
    assert_eq!(works.count(), 3);
}

#[test]
fn what_a_run_is_about_is_settled_when_it_is_initialized() {
    let mut world = World::of_two_stages();
    world.hub.objects.push(json!({
        "kind": "ClusterResourceOverrideSnapshot", "metadata": {"name": "o-0", "labels": {names::IS_LATEST: "true"}},
        "spec": {"overrideHash": "", "overrideSpec": {
            "clusterResourceSelectors": [{"group": "", "version": "v1", "kind": "Namespace", "name": "app"}],
            "policy": {"overrideRules": [{
                "clusterSelector": {"clusterSelectorTerms": [{"labelSelector": {"matchLabels": {"name": "b"}}}]},
                "jsonPatchOverrides": [{"op": "add", "path": "/metadata/labels", "value": {"over": "ride"}}],
            }]},
        }},
    }));
    world.create("r", "Initialize");
    world.rest();
    assert_eq!(
        said(&world.run("r").status.conditions),
        ["Initialized True UpdateRunInitializedSuccessfully"]
    );
    assert_eq!(world.placed(), ["a ", "b ", "c "], "nothing is rolled out");
    let settled = world.run("r").status.stages_status;
    let overridden = settled.iter().flat_map(|stage| &stage.clusters);
    let overridden: Vec<&Vec<String>> = overridden
        .map(|cluster| &cluster.cluster_resource_override_snapshots)
        .collect();
    assert_eq!(overridden, [&vec![], &vec!["o-0".to_owned()], &vec![]]);
    // Another strategy and other resources are for the next run.
    let all = json!([{"name": "all", "labelSelector": {}}]);
    world.edit(STRATEGY, "s", json!({"spec": {"stages": all}}));
    world.hub.resources[1]["data"]["k"] = "2".into();
    world.set_state("r", "Run");
    world.rest();
    let run = world.run("r");
    assert_eq!(said(&run.status.conditions), SUCCESS);
    assert_eq!(run.status.stages_status.len(), 2);
    assert_eq!(world.placed()[0], "a p-0-snapshot");
    // All conditions are about the run as it is now.
    assert!(run.status.conditions.iter().all(|one| one.is_fresh(2)));
    let of_b: Vec<Binding> = world.hub.all(BINDING);
    let of_b = of_b
        .iter()
        .find(|one| one.spec.target_cluster == "b")
        .unwrap();
    assert_eq!(of_b.spec.cluster_resource_override_snapshots, ["o-0"]);
    assert_eq!(
        world.hub.conditions()[2],
        "Overridden True OverriddenSucceeded"
    );
}

#[test]
fn a_run_stops_at_a_cluster_that_does_not_become_available_and_says_which() {
    let mut world = World::of_two_stages();
    world.mute.insert("a".to_owned());
    world.create("r", "Run");
    assert_eq!(world.rest(), Some(SignedDuration::from_mins(5)));
    assert_eq!(world.placed(), ["a p-0-snapshot", "b ", "c "]);
    let progressing = |world: &World| said(&world.run("r").status.conditions)[1].clone();
    assert_eq!(progressing(&world), "Progressing True UpdateRunProgressing");
    world.pass_time(SignedDuration::from_mins(5));
    assert_eq!(world.rest(), None);
    assert_eq!(progressing(&world), "Progressing False UpdateRunStuck");
    let run = world.run("r");
    let message = message(&run.status.conditions, PROGRESSING);
    assert!(message.contains("5 minutes: a."), "{message}");
    assert!(!is_over(&run));
    assert_eq!(world.placed(), ["a p-0-snapshot", "b ", "c "]);
    world.mute.clear();
    world.rest();
    assert_eq!(said(&world.run("r").status.conditions), SUCCESS);
}

#[test]
fn as_many_clusters_are_updated_at_once_as_the_stage_says() {
    for (most, expected) in [
        (json!(null), 1),
        (json!(2), 2),
        (json!("34%"), 1),
        (json!("67%"), 2),
        (json!("1%"), 1),
        (json!("100%"), 3),
    ] {
        let mut all = json!({"name": "all", "labelSelector": {}, "maxConcurrency": most});
        if most.is_null() {
            all.as_object_mut().unwrap().remove("maxConcurrency");
        }
        let mut world = World::new(json!({"placementType": "PickAll"}), json!([all]));
        world.mute.extend(["a", "b", "c"].map(str::to_owned));
        world.create("r", "Run");
        world.rest();
        let placed = world.placed();
        let begun = placed.iter().filter(|one| one.ends_with("snapshot"));
        assert_eq!(begun.count(), expected, "{most}: {placed:?}");
        world.mute.clear();
        world.rest();
        assert_eq!(said(&world.run("r").status.conditions), SUCCESS);
    }
}

#[test]
fn clusters_of_a_stage_are_sorted_by_their_label_then_by_name() {
    let stages = json!([{"name": "all", "labelSelector": {}, "sortingLabelKey": "rank"}]);
    let mut world = World::new(json!({"placementType": "PickAll"}), stages);
    let ranked = [("a", "10"), ("b", "9"), ("c", "-1")];
    world.hub.members = ranked
        .map(|(name, rank)| member(name, &json!({"name": name, "rank": rank})))
        .into();
    world.create("r", "Initialize");
    world.rest();
    let clusters = world.run("r").status.stages_status.remove(0).clusters;
    let names: Vec<String> = clusters.into_iter().map(|one| one.cluster_name).collect();
    assert_eq!(names, ["c", "b", "a"]);
}

fn of_approvals() -> World {
    let mut first = stage("canary", &["a"]);
    first["beforeStageTasks"] = json!([{"type": "Approval"}]);
    first["afterStageTasks"] =
        json!([{"type": "TimedWait", "waitTime": "10m"}, {"type": "Approval"}]);
    let stages = json!([first, stage("rest", &["b", "c"])]);
    World::new(json!({"placementType": "PickAll"}), stages)
}

#[test]
fn a_stage_waits_for_approvals_and_for_time() {
    let mut world = of_approvals();
    world.create("r", "Run");
    assert_eq!(world.rest(), None);
    let request: ApprovalRequest = world.find(APPROVAL, "r-before-canary").unwrap();
    assert_eq!(
        (&*request.spec.run, &*request.spec.target_stage),
        ("r", "canary")
    );
    let labels = json!(request.metadata.labels);
    assert_eq!(
        labels,
        json!({"kubernetes-fleet.io/targetUpdateRun": "r", "kubernetes-fleet.io/targetUpdatingStage": "canary",
               "kubernetes-fleet.io/taskType": "beforeStage",
               "kubernetes-fleet.io/isLatestUpdateRunApproval": "true"})
    );
    let status = |world: &World| world.run("r").status;
    assert_eq!(
        said(&status(&world).conditions)[1],
        "Progressing False UpdateRunWaiting"
    );
    let stage = |world: &World| status(world).stages_status.remove(0);
    assert_eq!(
        said(&stage(&world).conditions),
        ["Progressing False StageUpdatingWaiting"]
    );
    assert_eq!(world.placed()[0], "a ");
    // A request that is deleted is asked again.
    world.hub.objects.retain(|one| one["kind"] != APPROVAL);
    world.rest();
    world.approve("r-before-canary");
    world.mute.insert("a".to_owned());
    world.rest();
    assert_eq!(world.placed()[0], "a p-0-snapshot");
    let accepted: ApprovalRequest = world.find(APPROVAL, "r-before-canary").unwrap();
    assert_eq!(
        said(&accepted.status.conditions)[1],
        "ApprovalAccepted True ApprovalRequestApprovalAccepted"
    );
    assert_eq!(
        said(&stage(&world).before_stage_task_status[0].conditions),
        [
            "ApprovalRequestCreated True StageTaskApprovalRequestCreated",
            "ApprovalRequestApproved True StageTaskApprovalRequestApproved"
        ]
    );
    // The wait begins when all clusters are updated.
    world.pass_time(SignedDuration::from_mins(4));
    assert!(
        world
            .find::<ApprovalRequest>(APPROVAL, "r-after-canary")
            .is_none()
    );
    world.mute.clear();
    assert_eq!(world.rest(), Some(SignedDuration::from_mins(10)));
    world.pass_time(SignedDuration::from_mins(3));
    world.approve("r-after-canary");
    assert_eq!(world.rest(), Some(SignedDuration::from_mins(7)));
    assert_eq!(
        said(&status(&world).conditions)[1],
        "Progressing False UpdateRunWaiting"
    );
    // A pause does not make the wait longer.
    world.set_state("r", "Stop");
    assert_eq!(world.rest(), None);
    assert_eq!(
        said(&status(&world).conditions)[1],
        "Progressing False UpdateRunStopped"
    );
    world.set_state("r", "Run");
    assert_eq!(world.rest(), Some(SignedDuration::from_mins(7)));
    assert_eq!(world.placed()[1], "b ");
    world.pass_time(SignedDuration::from_mins(7));
    world.rest();
    assert_eq!(said(&status(&world).conditions), SUCCESS);
    let after = stage(&world).after_stage_task_status;
    assert_eq!(
        said(&after[0].conditions),
        ["WaitTimeElapsed True AfterStageTaskWaitTimeElapsed"]
    );
    assert_eq!(after[1].approval_request_name, "r-after-canary");
    assert_eq!(after[1].conditions.len(), 2);
}

#[test]
fn a_stopped_run_finishes_what_it_began_and_goes_on_when_it_runs_again() {
    let mut world = World::of_two_stages();
    world.mute.insert("b".to_owned());
    world.create("r", "Run");
    world.rest();
    world.set_state("r", "Stop");
    world.rest();
    let status = world.run("r").status;
    assert_eq!(
        said(&status.conditions)[1],
        "Progressing Unknown UpdateRunStopping"
    );
    assert_eq!(
        said(&status.stages_status[1].conditions),
        ["Progressing Unknown StageUpdatingStopping"]
    );
    world.mute.clear();
    world.rest();
    let status = world.run("r").status;
    assert_eq!(
        said(&status.conditions)[1],
        "Progressing False UpdateRunStopped"
    );
    assert_eq!(
        said(&status.stages_status[1].conditions),
        ["Progressing False StageUpdatingStopped"]
    );
    assert_eq!(world.placed(), ["a p-0-snapshot", "b p-0-snapshot", "c "]);
    world.set_state("r", "Run");
    world.rest();
    assert_eq!(said(&world.run("r").status.conditions), SUCCESS);
}

#[test]
fn a_request_of_another_run_under_the_same_name_is_no_approval() {
    let mut world = of_approvals();
    let given = json!([{"type": "Approved", "status": "True", "reason": "R", "message": ""}]);
    world.hub.objects.push(json!({
        "kind": APPROVAL, "metadata": {"name": "r-before-canary", "uid": "x", "generation": 1},
        "spec": {"parentStageRollout": "other", "targetStage": "canary"}, "status": {"conditions": given},
    }));
    world.create("r", "Run");
    world.rest();
    let conditions = world.run("r").status.conditions;
    assert!(message(&conditions, SUCCEEDED).contains("request r-before-canary belongs to another"));
    let metadata = json!({"metadata": {"deletionTimestamp": "2026-01-01T12:00:00Z"}});
    world.edit(RUN, "r", metadata);
    world.rest();
    assert!(world.find::<UpdateRun>(RUN, "r").is_none());
    assert_eq!(world.hub.all::<ApprovalRequest>(APPROVAL).len(), 1);
    assert_eq!(world.placed()[0], "a ");
}

/// A run in its first stage, then a change; returns what the run says of its failure.
fn fails_by(change: impl FnOnce(&mut World)) -> String {
    let policy = json!({"placementType": "PickN", "numberOfClusters": 3});
    let stages = json!([stage("canary", &["a"]), stage("rest", &["b", "c", "d"])]);
    let mut world = World::new(policy, stages);
    world.mute.insert("a".to_owned());
    world.create("r", "Run");
    world.rest();
    change(&mut world);
    world.rest();
    let run = world.run("r");
    let conditions = &run.status.conditions;
    assert_eq!(
        said(conditions)[1..],
        [
            "Progressing False UpdateRunFailed",
            "Succeeded False UpdateRunFailed"
        ]
    );
    assert_eq!(
        said(&run.status.stages_status[0].conditions),
        [
            "Progressing False StageUpdatingFailed",
            "Succeeded False StageUpdatingFailed"
        ]
    );
    assert!(run.status.stages_status[1].conditions.is_empty());
    let before = world.writes;
    world.mute.clear();
    world.rest();
    assert_eq!(world.writes, before, "it is over");
    message(conditions, SUCCEEDED).to_owned()
}

#[test]
fn a_run_fails_if_the_placement_or_its_clusters_change_meanwhile() {
    const PLACEMENT: &str = "ClusterResourcePlacement";
    let spec =
        |spec: Value| move |world: &mut World| world.edit(PLACEMENT, "p", json!({"spec": spec}));
    let strategy = json!({"strategy": {"applyStrategy": {"type": "ServerSideApply"}}});
    assert!(fails_by(spec(strategy)).contains("apply strategy"));
    let tolerations = json!({"policy": {"tolerations": [{"key": "k", "operator": "Exists"}]}});
    assert!(fails_by(spec(tolerations)).contains("policy 0, and policy 1"));
    let fewer = json!({"policy": {"numberOfClusters": 2}});
    assert!(fails_by(spec(fewer)).contains("clusters"));
    let rolling = json!({"strategy": {"type": "RollingUpdate"}});
    assert!(fails_by(spec(rolling)).contains("not External"));
    let moved = fails_by(|world| {
        world.hub.members[2] = member("c", &json!({"name": "a"}));
    });
    assert!(moved.contains("clusters of stage canary"), "{moved}");
    let unlabelled = fails_by(|world| {
        world.hub.members[2] = member("c", &json!({}));
    });
    assert!(unlabelled.contains("no stage: c"), "{unlabelled}");
    let repointed = fails_by(|world| {
        let bindings: Vec<Binding> = world.hub.all(BINDING);
        let of_a = bindings.iter().find(|one| one.spec.target_cluster == "a");
        let name = &of_a.unwrap().metadata.name;
        let patch = json!({"spec": {"resourceSnapshotName": "p-9-snapshot"}});
        world.edit(BINDING, name, patch);
    });
    assert!(
        repointed.contains("cluster a in stage canary"),
        "{repointed}"
    );
    let gone = fails_by(|world| {
        world.hub.objects.retain(|one| one["kind"] != PLACEMENT);
    });
    assert!(gone.contains("does not exist"), "{gone}");
}

#[test]
fn of_two_runs_the_one_that_is_overtaken_fails() {
    let mut world = World::of_two_stages();
    world.mute.insert("a".to_owned());
    world.create("first", "Run");
    world.rest();
    world.hub.resources[1]["data"]["k"] = "2".into();
    world.create("second", "Run");
    world.rest();
    let first = world.run("first").status;
    assert_eq!(
        said(&first.conditions)[2],
        "Succeeded False UpdateRunFailed"
    );
    assert_eq!(
        said(&first.stages_status[0].clusters[0].conditions)[1],
        "Succeeded False ClusterUpdatingFailed"
    );
    world.mute.clear();
    world.rest();
    assert_eq!(said(&world.run("second").status.conditions), SUCCESS);
    assert_eq!(world.placed()[2], "c p-1-snapshot");
}

#[test]
fn an_older_snapshot_is_rolled_out_by_its_index() {
    let mut world = World::of_two_stages();
    world.create("one", "Run");
    world.rest();
    world.hub.resources[1]["data"]["k"] = "2".into();
    world.create("two", "Run");
    world.rest();
    assert_eq!(world.placed()[0], "a p-1-snapshot");
    let back = json!({"placementName": "p", "stagedRolloutStrategyName": "s", "state": "Run",
                      "resourceSnapshotIndex": "0"});
    world.create_with("back", back);
    world.rest();
    assert_eq!(said(&world.run("back").status.conditions), SUCCESS);
    assert_eq!(
        world.placed(),
        ["a p-0-snapshot", "b p-0-snapshot", "c p-0-snapshot"]
    );
    // The same snapshot again changes nothing, and the run succeeds.
    world.create("again", "Run");
    world.hub.resources[1]["data"]["k"] = "1".into();
    world.rest();
    assert_eq!(said(&world.run("again").status.conditions), SUCCESS);
}

#[test]
fn clusters_that_are_no_longer_picked_lose_their_resources_last() {
    let policy = json!({"placementType": "PickN", "numberOfClusters": 3});
    let stages = json!([{"name": "all", "labelSelector": {}}]);
    let mut world = World::new(policy, stages);
    world.create("one", "Run");
    world.rest();
    let fewer = json!({"policy": {"numberOfClusters": 1}});
    world.edit("ClusterResourcePlacement", "p", json!({"spec": fewer}));
    world.rest();
    assert_eq!(world.placed().len(), 3, "they stay until a run takes them");
    world.hub.resources[1]["data"]["k"] = "2".into();
    world.mute.insert("c".to_owned());
    world.create("two", "Run");
    world.rest();
    assert_eq!(world.placed().len(), 3, "stages come first");
    world.mute = BTreeSet::from(["a".to_owned()]);
    world.rest();
    let status = world.run("two").status;
    let deletion = status.deletion_stage_status.unwrap();
    assert_eq!(
        said(&deletion.conditions),
        ["Progressing True StageUpdatingStarted"]
    );
    let removed: Vec<bool> = deletion
        .clusters
        .iter()
        .map(|one| is(&one.conditions, SUCCEEDED, ConditionStatus::True))
        .collect();
    assert_eq!(removed, [false, true], "the agent of a has not answered");
    world.mute.clear();
    world.rest();
    assert_eq!(said(&world.run("two").status.conditions), SUCCESS);
    assert_eq!(world.placed(), ["c p-1-snapshot"]);
}

#[test]
fn a_deleted_run_takes_its_requests_along_and_leaves_bindings_that_say_what_they_are() {
    let mut world = of_approvals();
    world.create("r", "Run");
    world.rest();
    world.approve("r-before-canary");
    // Killed after the approval, and after the binding of the first cluster.
    world.killed_after = Some(world.writes + 3);
    let run = world.run("r");
    for write in world.decide(&run).stages.into_stages().flatten().take(2) {
        world.hub.apply(write);
    }
    assert_eq!(world.placed()[0], "a p-0-snapshot");
    world.edit(
        RUN,
        "r",
        json!({"metadata": {"deletionTimestamp": "2026-01-01T12:00:00Z"}}),
    );
    world.rest();
    assert!(world.find::<UpdateRun>(RUN, "r").is_none());
    assert_eq!(world.hub.all::<ApprovalRequest>(APPROVAL), []);
    let bindings: Vec<Binding> = world.hub.all(BINDING);
    let of_a = bindings.iter().find(|one| one.spec.target_cluster == "a");
    let status = &of_a.unwrap().status;
    assert_eq!(
        said(&status.conditions)[0],
        "RolloutStarted True RolloutStarted"
    );
    assert!(is_true(of_a.unwrap(), "Available"));
}

#[test]
fn a_run_that_cannot_be_initialized_says_why_and_is_over() {
    let all = || json!([{"name": "all", "labelSelector": {}}]);
    let run = |spec: Value| {
        let mut whole =
            json!({"placementName": "p", "stagedRolloutStrategyName": "s", "state": "Run"});
        merge(&mut whole, &spec);
        whole
    };
    let fails = |stages: Value, spec: Value, change: &dyn Fn(&mut World)| {
        let mut world = World::new(json!({"placementType": "PickAll"}), stages);
        change(&mut world);
        world.create_with("r", run(spec));
        world.rest();
        let run = world.run("r");
        assert_eq!(
            said(&run.status.conditions),
            ["Initialized False UpdateRunInitializedFailed"]
        );
        assert!(is_over(&run));
        assert_eq!(world.writes, 2, "the finalizer and the status");
        message(&run.status.conditions, INITIALIZED).to_owned()
    };
    let same = |_: &mut World| {};
    let with = |name: &str, value: Value| {
        let mut stage = json!({"name": "all", "labelSelector": {}});
        stage[name] = value;
        json!([stage])
    };
    let rolling = |world: &mut World| {
        let patch = json!({"spec": {"strategy": {"type": "RollingUpdate"}}});
        world.edit("ClusterResourcePlacement", "p", patch);
    };
    let timed = |time: &str| json!({"type": "TimedWait", "waitTime": time});
    for (stages, spec, change, said) in [
        (
            all(),
            json!({"placementName": "q"}),
            &same as &dyn Fn(&mut World),
            "placement q does not exist",
        ),
        (all(), json!({}), &rolling, "not External"),
        (
            all(),
            json!({"stagedRolloutStrategyName": "t"}),
            &same,
            "strategy t does not exist",
        ),
        (
            all(),
            json!({"resourceSnapshotIndex": "7"}),
            &same,
            "index \"7\"",
        ),
        (
            json!([stage("one", &["a", "b", "c"]), stage("two", &["c"])]),
            json!({}),
            &same,
            "c is in both stage one and stage two",
        ),
        (
            json!([stage("one", &["b"])]),
            json!({}),
            &same,
            "no stage: a, c (2 in all)",
        ),
        (json!([{"name": "none"}]), json!({}), &same, "(3 in all)"),
        (
            json!([stage("one", &["a"]), stage("one", &["b", "c"])]),
            json!({}),
            &same,
            "has this name",
        ),
        (
            with("sortingLabelKey", json!("name")),
            json!({}),
            &same,
            "no label name with an integer",
        ),
        (
            with("maxConcurrency", json!("0%")),
            json!({}),
            &same,
            "maxConcurrency",
        ),
        (
            with("maxConcurrency", json!(0)),
            json!({}),
            &same,
            "maxConcurrency",
        ),
        (
            with("beforeStageTasks", json!([timed("1s")])),
            json!({}),
            &same,
            "one Approval",
        ),
        (
            with("afterStageTasks", json!([timed("1s"), timed("2s")])),
            json!({}),
            &same,
            "one task of each type",
        ),
        (
            with("afterStageTasks", json!([timed("0s")])),
            json!({}),
            &same,
            "positive duration",
        ),
        (
            with(
                "labelSelector",
                json!({"matchExpressions": [{"key": "k", "operator": "Is"}]}),
            ),
            json!({}),
            &same,
            "stage all of the strategy is invalid",
        ),
    ] {
        let message = fails(stages, spec, change);
        assert!(message.contains(said), "{message}, not {said}");
    }
    // Not all clusters are found, or none.
    for (number, said) in [(4, "did not find all"), (0, "no cluster is picked")] {
        let policy = json!({"placementType": "PickN", "numberOfClusters": number});
        let mut world = World::new(policy, all());
        world.create("r", "Run");
        world.rest();
        let run = world.run("r");
        let message = message(&run.status.conditions, INITIALIZED);
        assert!(message.contains(said), "{message}");
    }
}

#[test]
fn a_run_waits_for_the_scheduler_and_for_its_lists() {
    let mut world = World::of_two_stages();
    world.create("r", "Run");
    world.pass();
    let mut fresh = World::of_two_stages();
    fresh
        .hub
        .objects
        .retain(|one| one["kind"] != "ClusterSchedulingPolicySnapshot" && one["kind"] != BINDING);
    fresh.create("r", "Run");
    fresh.pass();
    assert!(fresh.run("r").status.conditions.is_empty());
    fresh.rest();
    assert_eq!(said(&fresh.run("r").status.conditions), SUCCESS);
    // The policy of the placement as it is counts.
    let mut newer = World::of_two_stages();
    newer
        .hub
        .edit(&json!({"spec": {"policy": {"tolerations": [{"key": "k", "operator": "Exists"}]}}}));
    newer.create("r", "Run");
    newer.pass();
    assert!(newer.run("r").status.conditions.is_empty());
    newer.rest();
    assert_eq!(newer.run("r").status.policy_snapshot_index_used, "1");
    assert_eq!(said(&newer.run("r").status.conditions), SUCCESS);
}

#[test]
fn a_hub_that_is_killed_after_any_write_comes_to_the_same_end() {
    let story = |killed_after: Option<usize>| {
        let mut world = of_approvals();
        world.killed_after = killed_after;
        world.create("one", "Run");
        world.rest();
        world.approve("one-before-canary");
        world.rest();
        world.approve("one-after-canary");
        world.pass_time(SignedDuration::from_mins(10));
        world.rest();
        // The cluster c leaves the policy, and the next run.
        world.edit(
            STRATEGY,
            "s",
            json!({"spec": {"stages": [
            {"name": "all", "labelSelector": {}, "maxConcurrency": 2}]}}),
        );
        let policy = json!({"affinity": {"clusterAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {
            "clusterSelectorTerms": [{"labelSelector": {"matchExpressions": [
                {"key": "name", "operator": "NotIn", "values": ["c"]}]}}]}}}});
        world.edit(
            "ClusterResourcePlacement",
            "p",
            json!({"spec": {"policy": policy}}),
        );
        world.hub.settle();
        world.hub.resources[1]["data"]["k"] = "2".into();
        world.create("two", "Run");
        world.rest();
        world.edit(
            RUN,
            "one",
            json!({"metadata": {"deletionTimestamp": "2026-01-01T12:00:00Z"}}),
        );
        world.rest();
        assert_eq!(said(&world.run("two").status.conditions), SUCCESS);
        assert_eq!(world.placed(), ["a p-1-snapshot", "b p-1-snapshot"]);
        let uids = |mut object: Value| {
            object["metadata"]["uid"] = Value::Null;
            object
        };
        let mut end: Vec<Value> = world.hub.objects.into_iter().map(uids).collect();
        end.sort_by_key(Value::to_string);
        (end, world.writes)
    };
    let (end, writes) = story(None);
    assert!(writes > 30, "{writes}");
    for killed_after in 1..=writes {
        assert_eq!(
            story(Some(killed_after)).0,
            end,
            "killed after write {killed_after}"
        );
    }
}
