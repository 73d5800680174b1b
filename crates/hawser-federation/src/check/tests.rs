//! Members, their controllers and their schedulers in virtual time: scenarios and cases of the Federated `ReplicaSets`
//! design.

use std::collections::BTreeSet;

use serde_json::json;

use super::*;
use crate::pods::Scheduled;

/// A member with its own controller and scheduler.
#[derive(Debug)]
struct Member {
    up: bool,
    /// Pods it has nodes for.
    room: usize,
    /// Whether it refuses to create the workload.
    refuses: bool,
    /// Pods that its admission control lets it create.
    quota: usize,
    local: Option<LocalSet>,
}

#[derive(Debug, Default)]
struct LocalSet {
    replicas: i64,
    pods: Vec<SimulatedPod>,
}

#[derive(Clone, Copy, Debug)]
struct SimulatedPod {
    created: i64,
    node: Option<i64>,
}

struct Simulation {
    now: i64,
    workload: Object,
    members: BTreeMap<String, Member>,
    memory: Memory,
    settings: CheckSettings,
    due: i64,
    notes: Vec<WorkloadEvent>,
    writes: usize,
}

fn workload(name: &str, replicas: i64, preferences: &Value) -> Object {
    Object::new(json!({
        "apiVersion": "types.kubefed.io/v1beta1", "kind": "FederatedReplicaSet",
        "metadata": {
            "name": name, "namespace": "default", "annotations": {PREFERENCES: preferences.to_string()},
        },
        "spec": {"template": {"spec": {"replicas": replicas}}},
    }))
    .unwrap()
}

fn rebalancing(clusters: &Value) -> Value {
    json!({"rebalance": true, "Clusters": clusters})
}

fn even() -> Value {
    rebalancing(&json!({"*": {"Weight": 1}}))
}

impl Simulation {
    fn new(preferences: &Value, members: &[&str]) -> Self {
        let mut simulation = Self {
            now: 1_000_000,
            // Its name gives the order in which the last of equals gets the fewest.
            workload: workload("app-0", 50, preferences),
            members: BTreeMap::new(),
            memory: Memory::default(),
            settings: CheckSettings::default(),
            due: 0,
            notes: Vec::new(),
            writes: 0,
        };
        for name in members {
            simulation.add(name);
        }
        simulation
    }

    fn add(&mut self, name: &str) {
        let member = Member {
            up: true,
            room: usize::MAX,
            refuses: false,
            quota: usize::MAX,
            local: None,
        };
        self.members.insert(name.to_owned(), member);
        self.due = 0;
    }

    fn member(&mut self, name: &str) -> &mut Member {
        self.due = 0;
        self.members.get_mut(name).unwrap()
    }

    /// Lets minutes pass.
    fn pass(&mut self, minutes: i64) {
        for _ in 0..minutes * 4 {
            self.check();
            let assigned = assigned(&self.workload);
            let spec = &self.workload.as_value()["spec"];
            let placed: BTreeSet<String> = spec["placement"]["clusters"]
                .as_array()
                .into_iter()
                .flatten()
                .filter_map(|cluster| Some(cluster["name"].as_str()?.to_owned()))
                .collect();
            for (name, member) in &mut self.members {
                let wanted = placed.contains(name).then(|| assigned[name]);
                let before = format!("{:?}", member.local);
                member.live(wanted, self.now);
                if format!("{:?}", member.local) != before {
                    self.due = self.due.min(self.now + self.settings.period);
                }
            }
            self.now += 15;
        }
    }

    fn check(&mut self) {
        if self.now < self.due {
            return;
        }
        let mut locals = BTreeMap::new();
        let mut unknown = Vec::new();
        for (name, member) in &self.members {
            if member.up {
                locals.insert(name.clone(), member.seen());
            } else {
                unknown.push(name.clone());
            }
        }
        let around = CheckMembers {
            members: &locals,
            unknown: &unknown,
            now: self.now,
        };
        let annotation = self.workload.annotation(PREFERENCES).unwrap().to_owned();
        let checked = self
            .memory
            .check(&self.workload, &annotation, around, self.settings);
        self.due = checked.again.map_or(i64::MAX, |again| self.now + again);
        self.notes.extend(checked.notes);
        if let Some(changed) = checked.changed {
            self.workload = changed;
            self.writes += 1;
        }
    }

    /// Running replicas of the members that are up.
    fn running(&self) -> Vec<usize> {
        let up = self.members.values().filter(|member| member.up);
        up.map(|member| member.local.as_ref().map_or(0, LocalSet::running))
            .collect()
    }

    fn assigned(&self, member: &str) -> i64 {
        assigned(&self.workload)[member]
    }

    fn told(&self, reason: &str) -> Vec<&str> {
        let notes = self.notes.iter().filter(|note| note.reason == reason);
        notes.map(|note| &*note.message).collect()
    }

    fn status(&self) -> Value {
        status(&self.workload)
    }

    /// Nothing is written or checked any more.
    fn assert_at_rest(&mut self) {
        let writes = self.writes;
        self.pass(60);
        assert_eq!(self.writes, writes, "it does not come to rest");
    }
}

impl LocalSet {
    fn running(&self) -> usize {
        self.pods.iter().filter(|pod| pod.node.is_some()).count()
    }
}

impl Member {
    /// Propagation, the controller of `ReplicaSets`, and the scheduler.
    fn live(&mut self, wanted: Option<i64>, now: i64) {
        if !self.up {
            return;
        }
        match (wanted, &mut self.local) {
            (Some(replicas), Some(local)) => local.replicas = replicas,
            (Some(replicas), None) if !self.refuses => {
                self.local = Some(LocalSet {
                    replicas,
                    pods: Vec::new(),
                });
            }
            (None, _) => self.local = None,
            (Some(_), None) => {}
        }
        let Some(local) = &mut self.local else {
            return;
        };
        let wanted = usize::try_from(local.replicas).unwrap();
        // Those without a node are deleted first.
        local.pods.sort_by_key(|pod| pod.node.is_none());
        local.pods.truncate(wanted);
        while local.pods.len() < wanted.min(self.quota) {
            local.pods.push(SimulatedPod {
                created: now,
                node: None,
            });
        }
        let room = self.room;
        for (number, pod) in local.pods.iter_mut().enumerate() {
            if number < room {
                pod.node.get_or_insert(now);
            } else {
                pod.node = None;
            }
        }
    }

    fn seen(&self) -> WorkloadState {
        let Some(local) = &self.local else {
            return WorkloadState::Absent {
                refused: self.refuses,
            };
        };
        let pods = local.pods.iter().map(|pod| Pod {
            is_running: pod.node.is_some(),
            has_ready: pod.node.is_some(),
            scheduled: match pod.node {
                Some(since) => Scheduled::Yes { since },
                None => Scheduled::No {
                    since: pod.created,
                    unschedulable: true,
                },
            },
            created: pod.created,
            is_over: false,
        });
        let ready = i64::try_from(local.running()).unwrap();
        WorkloadState::Present {
            replicas: local.replicas,
            ready,
            pods: (ready != local.replicas).then(|| pods.collect()),
        }
    }
}

#[track_caller]
fn check_layout(preferences: &Value, change: impl FnOnce(&mut Simulation), layout: &[usize]) {
    let mut simulation = Simulation::new(preferences, &["A", "B", "C"]);
    change(&mut simulation);
    simulation.pass(30);
    let mut running = simulation.running();
    assert_eq!(running, layout, "{}", simulation.status());
    simulation.assert_at_rest();
    running = simulation.running();
    assert_eq!(running, layout, "{}", simulation.status());
}

/// As if replicas had run there before.
fn had(simulation: &mut Simulation, name: &str, replicas: i64) {
    let now = simulation.now;
    simulation.member(name).live(Some(replicas), now);
}

#[test]
fn scenarios_1_to_7_come_to_their_layouts() {
    let nothing = |_: &mut Simulation| {};
    check_layout(&even(), nothing, &[16, 17, 17]);
    check_layout(&even(), |s| s.member("C").room = 6, &[22, 22, 6]);
    for two in [
        json!({"MaxReplicas": 2, "Weight": 1}),
        json!({"MinReplicas": 2, "Weight": 0}),
        json!({"MinReplicas": 2, "MaxReplicas": 2}),
    ] {
        check_layout(&rebalancing(&json!({"*": two})), nothing, &[2, 2, 2]);
    }
    let twenty = rebalancing(&json!({"*": {"MinReplicas": 20, "Weight": 0}}));
    let mut simulation = Simulation::new(&twenty, &["A", "B", "C"]);
    simulation.pass(5);
    let mut running = simulation.running();
    running.sort_unstable();
    assert_eq!(running, [10, 20, 20]);
    let capped = rebalancing(&json!({"*": {"Weight": 1}, "C": {"MaxReplicas": 20, "Weight": 1}}));
    check_layout(&capped, nothing, &[16, 17, 17]);
    check_layout(&capped, |s| s.member("B").room = 0, &[30, 0, 20]);
    let first =
        json!({"Clusters": {"A": {"Weight": 1_000_000}, "B": {"Weight": 1}, "C": {"Weight": 1}}});
    check_layout(&first, nothing, &[50, 0, 0]);
    check_layout(&first, |s| s.member("A").room = 40, &[40, 5, 5]);
    let double = json!({"Clusters": {"A": {"Weight": 2}, "B": {"Weight": 1}, "C": {"Weight": 1}}});
    check_layout(&double, nothing, &[25, 13, 12]);
    let stay = json!({"rebalance": false, "Clusters": {"*": {"Weight": 1}}});
    check_layout(&stay, |s| had(s, "A", 20), &[20, 15, 15]);
    let six = |replicas: i64| {
        move |s: &mut Simulation| {
            had(s, "A", replicas);
            s.member("C").room = 6;
        }
    };
    check_layout(&stay, six(30), &[30, 14, 6]);
    let six_of_another_order = |s: &mut Simulation| {
        s.workload = workload("app-100", 50, &stay);
        six(20)(s);
    };
    check_layout(&stay, six_of_another_order, &[22, 22, 6]);
}

#[test]
fn replicas_of_a_lost_member_run_elsewhere_and_what_survived_is_kept() {
    let mut simulation = Simulation::new(&even(), &["A", "B", "C"]);
    simulation.pass(2);
    for name in ["B", "C"] {
        simulation.member(name).up = false;
    }
    simulation.pass(2);
    assert_eq!(simulation.running(), [50], "scenario 1, third example");
    assert_eq!(simulation.assigned("B"), 17, "what is there stays there");
    assert_eq!(simulation.status()["clusters"]["B"]["unknown"], true);
    let before = simulation.members["B"].local.as_ref().unwrap().pods[0].created;
    for name in ["B", "C"] {
        simulation.member(name).up = true;
    }
    simulation.pass(2);
    assert_eq!(simulation.running(), [16, 17, 17]);
    let after = simulation.members["B"].local.as_ref().unwrap().pods[0].created;
    assert_eq!(before, after, "no pod that survived is made anew");
    simulation.assert_at_rest();

    // One that is not registered any more leaves the placement.
    simulation.members.remove("C");
    simulation.due = 0;
    simulation.pass(2);
    assert_eq!(simulation.running(), [25, 25]);
    let placed = simulation.workload.as_value()["spec"]["placement"]["clusters"].clone();
    assert_eq!(placed, json!([{"name": "A"}, {"name": "B"}]));
}

#[test]
fn unscheduled_pods_move_after_a_while_and_return_when_there_is_room() {
    let mut simulation = Simulation::new(&even(), &["A", "B", "C"]);
    simulation.pass(2);
    simulation.member("C").room = 6;
    // For X minutes they are a normal situation.
    simulation.pass(1);
    assert_eq!(simulation.assigned("C"), 17);
    simulation.pass(4);
    assert_eq!(simulation.running(), [22, 22, 6]);
    assert_eq!(simulation.assigned("C"), 8, "a couple stays");
    let cluster = &simulation.status()["clusters"]["C"];
    let wanted = json!({"replicas": 8, "ready": 6, "failed": 2, "probes": 2});
    assert_eq!(*cluster, wanted);
    let told = simulation.told("ReplicasScheduled");
    let last = told.last().unwrap();
    assert!(
        last.contains("8 in C (before: 17); 11 did not start in C, 2 of them stay as probes"),
        "{last}"
    );
    simulation.assert_at_rest();

    simulation.member("C").room = 100;
    simulation.pass(5);
    assert_eq!(simulation.running(), [16, 17, 17]);
    assert_eq!(simulation.status()["ready"], 50);
    simulation.assert_at_rest();
    assert_eq!(simulation.due, i64::MAX, "in the desired configuration");
}

#[test]
fn how_long_pods_may_take_and_how_many_stay_can_be_set() {
    let mut simulation = Simulation::new(&even(), &["A", "B", "C"]);
    simulation.settings.patience.scheduled = 600;
    simulation.settings.planner.probes = 5;
    simulation.pass(1);
    simulation.member("C").room = 6;
    simulation.pass(9);
    assert_eq!(simulation.assigned("C"), 17);
    simulation.pass(4);
    assert_eq!(simulation.assigned("C"), 11);
}

#[test]
fn a_workload_that_cannot_be_created_moves_after_several_attempts_and_back_once_it_is() {
    let mut simulation = Simulation::new(&even(), &["A", "B", "C"]);
    simulation.member("C").refuses = true;
    simulation.pass(6);
    assert_eq!(simulation.running(), [25, 25, 0]);
    assert_eq!(
        simulation.assigned("C"),
        0,
        "no probes in a member that takes no workload"
    );
    let told = simulation.told("ReplicasScheduled").join("\n");
    assert!(told.contains("C refused the workload"), "{told}");
    simulation.assert_at_rest();
    simulation.member("C").refuses = false;
    simulation.pass(3);
    assert_eq!(simulation.running(), [16, 17, 17]);
    simulation.assert_at_rest();
}

#[test]
fn pods_that_are_not_created_count_as_unscheduled() {
    let mut simulation = Simulation::new(&even(), &["A", "B", "C"]);
    simulation.member("C").quota = 6;
    simulation.pass(5);
    assert_eq!(simulation.running(), [22, 22, 6]);
    assert_eq!(simulation.assigned("C"), 8);
    simulation.member("C").quota = 1000;
    simulation.pass(5);
    assert_eq!(simulation.running(), [16, 17, 17]);
}

#[test]
fn a_workload_that_somebody_deletes_in_a_member_keeps_its_replicas() {
    let mut simulation = Simulation::new(&even(), &["A", "B", "C"]);
    simulation.pass(2);
    let writes = simulation.writes;
    simulation.member("B").local = None;
    simulation.pass(3);
    assert_eq!(simulation.running(), [16, 17, 17]);
    assert_eq!(
        simulation.told("ReplicasScheduled").len(),
        1,
        "nothing moved"
    );
    assert!(simulation.writes >= writes);
}

#[test]
fn a_new_member_gets_its_share() {
    for (preferences, layout) in [
        (even(), [16, 17, 17]),
        (json!({"clusters": {"*": {"weight": 1}}}), [25, 25, 0]),
    ] {
        let mut simulation = Simulation::new(&preferences, &["A", "B"]);
        simulation.pass(2);
        assert_eq!(simulation.running(), [25, 25]);
        simulation.add("C");
        simulation.pass(2);
        assert_eq!(simulation.running(), layout);
        assert!(
            simulation.members["C"].local.is_some(),
            "the workload is created"
        );
    }
}

#[test]
fn replicas_without_a_place_are_told_once() {
    let mut simulation = Simulation::new(&even(), &["A", "B"]);
    simulation.member("A").room = 10;
    simulation.member("B").room = 10;
    simulation.pass(20);
    assert_eq!(simulation.running(), [10, 10]);
    assert_eq!(simulation.status()["unplaced"], 30);
    assert_eq!(simulation.told("ReplicasUnplaced").len(), 1);
    simulation.assert_at_rest();
}

#[test]
fn checks_of_what_is_stuck_become_rare() {
    let mut simulation = Simulation::new(&even(), &["A", "B"]);
    simulation.member("B").room = 0;
    simulation.pass(10);
    let mut checks = 0;
    for _ in 0..60 {
        let due = simulation.due;
        simulation.pass(1);
        checks += usize::from(simulation.due != due);
    }
    assert!((1..10).contains(&checks), "{checks}");
}

#[test]
fn preferences_that_cannot_be_read_change_nothing_and_are_told_once() {
    let mut simulation = Simulation::new(&even(), &["A", "B", "C"]);
    simulation.pass(2);
    let placed = assigned(&simulation.workload);
    for (wrong, about) in [
        ("{", "not a JSON object"),
        (
            r#"{"clusters": {"A": {"minReplicas": 3, "maxReplicas": 2}}}"#,
            "above its maxReplicas",
        ),
        (
            r#"{"clusters": {"A": {"weight": -1}}}"#,
            "weight of cluster \"A\" is -1",
        ),
    ] {
        simulation.workload.set_annotation(PREFERENCES, wrong);
        simulation.due = 0;
        simulation.pass(2);
        simulation.due = 0;
        simulation.pass(2);
        assert_eq!(assigned(&simulation.workload), placed);
        assert_eq!(simulation.running(), [16, 17, 17]);
        let problem = simulation.status()["problem"].clone();
        assert!(problem.as_str().unwrap().contains(about), "{problem}");
        let told = simulation.told("InvalidPreferences");
        assert_eq!(
            told.iter().filter(|text| text.contains(about)).count(),
            1,
            "{told:?}"
        );
        assert!(simulation.status()["clusters"]["A"].is_object());
    }
    simulation
        .workload
        .set_annotation(PREFERENCES, &even().to_string());
    simulation.due = 0;
    simulation.pass(2);
    assert!(
        simulation.status()["problem"].is_null(),
        "a status without the problem"
    );
}

#[test]
fn a_workload_waits_for_its_first_schedule() {
    let mut simulation = Simulation::new(&even(), &[]);
    assert!(is_awaited(&simulation.workload));
    simulation.pass(1);
    assert!(
        is_awaited(&simulation.workload),
        "no member is there to be scheduled to"
    );
    assert_eq!(simulation.told("NoClusters").len(), 1);
    simulation.add("A");
    simulation.pass(1);
    assert!(!is_awaited(&simulation.workload));
    let mut plain = simulation.workload.clone();
    plain.metadata_mut().remove("annotations");
    assert!(!is_awaited(&plain));
}

#[test]
fn the_original_counts_ready_replicas_and_learns_capacity_from_pods() {
    let unschedulable = Pod {
        is_running: false,
        has_ready: false,
        scheduled: Scheduled::No {
            since: 100,
            unschedulable: true,
        },
        created: 100,
        is_over: false,
    };
    let present = |replicas, ready, pods| WorkloadState::Present {
        replicas,
        ready,
        pods,
    };
    let members = BTreeMap::from([
        ("absent".to_owned(), WorkloadState::Absent { refused: true }),
        ("full".to_owned(), present(4, 1, Some(vec![unschedulable]))),
        ("ready".to_owned(), present(3, 3, None)),
    ]);
    let ask = |now| rooms(&members, PodTimeouts::default(), now);
    let (found, look_again) = ask(120);
    assert_eq!((found["full"].capacity, look_again), (None, true));
    let (found, look_again) = ask(161);
    assert_eq!((found["full"].capacity, look_again), (Some(3), false));
    assert_eq!(found["absent"], MemberCapacity::default());
    assert_eq!((found["ready"].current, found["ready"].capacity), (3, None));
}
