use serde_json::{Value, json};

use super::*;
use crate::fixtures::{SNAPSHOT, binding, member, now, policy};
use crate::members::Members;
use crate::names::PREVIOUS_STATE;
use crate::types::ConditionStatus;
use crate::types::binding::{Binding, BindingState};
use crate::types::cluster::{MemberCluster, Taint};
use crate::types::policy::PlacementPolicy;

mod properties;

/// A fleet, a policy and bindings to ask about.
#[derive(Clone, Default)]
struct World {
    policy: Option<PlacementPolicy>,
    number: Option<i32>,
    namespace: Option<&'static str>,
    clusters: Vec<MemberCluster>,
    bindings: Vec<Binding>,
}

impl World {
    fn new(wanted: &Value, clusters: Vec<MemberCluster>) -> Self {
        let policy = policy(wanted);
        Self {
            number: policy.number_of_clusters,
            policy: Some(policy),
            clusters,
            ..Self::default()
        }
    }

    fn fleet(&self) -> Members {
        self.clusters.iter().cloned().collect()
    }

    fn request<'a>(&'a self, clusters: &'a Members) -> Request<'a> {
        Request {
            policy: self.policy.as_ref(),
            policy_snapshot: SNAPSHOT,
            number_of_clusters: self.number,
            namespace: self.namespace,
            clusters,
            bindings: &self.bindings,
            now: now(),
            windows: GracePeriods::default(),
        }
    }

    fn plan(&self) -> Plan {
        schedule(&self.request(&self.fleet())).unwrap()
    }

    /// The explanation of a cluster: the plugin that refused it, and the reason.
    fn why(&self, cluster: &str) -> (Option<Plugin>, String) {
        let all = explain(&self.request(&self.fleet())).unwrap();
        let found = all.into_iter().find(|one| one.cluster == cluster).unwrap();
        (found.plugin, found.reason)
    }

    /// Writes the plan into the bindings.
    fn apply(&mut self, plan: &Plan) {
        for decision in &plan.create {
            let mut new = binding(&decision.cluster_name, BindingState::Scheduled, SNAPSHOT);
            new.spec.cluster_decision = decision.clone();
            self.bindings.push(new);
        }
        for change in &plan.change {
            let stored = self
                .bindings
                .iter_mut()
                .find(|one| one.metadata.name == change.name);
            let stored = stored.unwrap();
            stored.spec.state = change.state;
            SNAPSHOT.clone_into(&mut stored.spec.scheduling_policy_snapshot_name);
            stored.spec.cluster_decision = change.decision.clone();
            stored.metadata.annotations.clear();
        }
        for gone in &plan.unschedule {
            let stored = self
                .bindings
                .iter_mut()
                .find(|one| one.metadata.name == gone.name);
            let stored = stored.unwrap();
            stored.spec.state = BindingState::Unscheduled;
            let previous = gone.previous.as_str().to_owned();
            stored.metadata.annotations = [(PREVIOUS_STATE.to_owned(), previous)].into();
        }
    }
}

fn plain(names: &[&str]) -> Vec<MemberCluster> {
    names.iter().map(|name| member(name, &json!({}))).collect()
}

fn bound(names: &[&str]) -> Vec<Binding> {
    let names = names.iter();
    names
        .map(|name| binding(name, BindingState::Bound, SNAPSHOT))
        .collect()
}

fn created(plan: &Plan) -> Vec<&str> {
    let names = plan.create.iter();
    names
        .map(|decision| decision.cluster_name.as_str())
        .collect()
}

fn unscheduled(plan: &Plan) -> Vec<&str> {
    plan.unschedule
        .iter()
        .map(|one| one.name.as_str())
        .collect()
}

#[test]
fn a1_clusters_without_the_label_come_first_then_domains_take_turns() {
    let world = World::new(
        &json!({
            "placementType": "PickN", "numberOfClusters": 3,
            "topologySpreadConstraints": [{"maxSkew": 1, "topologyKey": "region"}],
        }),
        vec![
            member("a", &json!({"region": "east"})),
            member("b", &json!({"region": "east"})),
            member("c", &json!({"region": "west"})),
            member("d", &json!({})),
        ],
    );
    let plan = world.plan();
    assert_eq!(created(&plan), ["d", "c", "b"]);
    let scores: Vec<_> = plan
        .create
        .iter()
        .map(|decision| {
            decision
                .cluster_score
                .unwrap()
                .topology_spread_score
                .unwrap()
        })
        .collect();
    assert_eq!(scores, [0, -1, 1]);
    assert!(plan.fulfilled);
}

#[test]
fn a2_a_sorter_scales_the_weight_and_rounds_away_from_zero() {
    let with_nodes = |name: &str, nodes: Option<&str>| {
        let mut cluster = member(name, &json!({}));
        if let Some(nodes) = nodes {
            let value = serde_json::from_value(json!({"value": nodes})).unwrap();
            let properties = &mut cluster.status.properties;
            properties.insert("kubernetes-fleet.io/node-count".to_owned(), value);
        }
        cluster
    };
    let scores = |order: &str, clusters: &[MemberCluster]| -> Vec<i32> {
        let world = World::new(
            &json!({"placementType": "PickN", "numberOfClusters": 9, "affinity": {"clusterAffinity": {
                "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 30, "preference": {
                    "propertySorter": {"name": "kubernetes-fleet.io/node-count", "sortOrder": order},
                }}],
            }}}),
            clusters.to_vec(),
        );
        let mut decisions = world.plan().create;
        decisions.sort_by(|a, b| a.cluster_name.cmp(&b.cluster_name));
        let scores = decisions
            .iter()
            .map(|one| one.cluster_score.unwrap().affinity_score);
        scores.map(Option::unwrap).collect()
    };
    let fleet = [
        with_nodes("a", Some("2")),
        with_nodes("b", Some("4")),
        with_nodes("c", Some("10")),
        with_nodes("d", None),
    ];
    assert_eq!(scores("Descending", &fleet), [0, 8, 30, 0]);
    assert_eq!(scores("Ascending", &fleet), [30, 23, 0, 0]);
    let same = [with_nodes("a", Some("3")), with_nodes("b", Some("3"))];
    assert_eq!(scores("Descending", &same), [0, 0]);
}

#[test]
fn a5_downscaling_drops_the_lowest_scores_then_the_first_names() {
    let names = ["kind-cluster-1", "kind-cluster-2", "kind-cluster-3"];
    let mut world = World::new(
        &json!({"placementType": "PickN", "numberOfClusters": 1}),
        plain(&names),
    );
    world.bindings = bound(&names);
    let plan = world.plan();
    assert_eq!(unscheduled(&plan), ["b-kind-cluster-1", "b-kind-cluster-2"]);
    assert!(plan.fulfilled && plan.create.is_empty());
    let kept: Vec<&str> = plan
        .decisions
        .iter()
        .map(|one| one.cluster_name.as_str())
        .collect();
    assert_eq!(kept, ["kind-cluster-3"]);

    // Not yet bound ones go first, whatever their scores; missing scores before low ones.
    world.bindings[2].spec.state = BindingState::Scheduled;
    world.bindings[1].spec.cluster_decision.cluster_score = None;
    assert_eq!(
        unscheduled(&world.plan()),
        ["b-kind-cluster-2", "b-kind-cluster-3"]
    );
}

#[test]
fn a6_pick_none_is_fulfilled_by_nothing() {
    let mut world = World::new(
        &json!({"placementType": "PickN", "numberOfClusters": 0}),
        plain(&["a", "b"]),
    );
    let plan = world.plan();
    assert_eq!(
        plan,
        Plan {
            fulfilled: true,
            ..Plan::default()
        }
    );
    world.bindings = bound(&["a", "b"]);
    let plan = world.plan();
    assert_eq!(unscheduled(&plan), ["b-a", "b-b"]);
    assert!(plan.fulfilled && plan.decisions.is_empty());
}

#[test]
fn a7_too_few_clusters_leave_the_policy_unfulfilled_and_say_why() {
    let mut clusters = plain(&["a", "b", "c"]);
    clusters[1].spec.taints = vec![Taint {
        key: "k".into(),
        ..Taint::default()
    }];
    let wanted = json!({"placementType": "PickN", "numberOfClusters": 3});
    let plan = World::new(&wanted, clusters).plan();
    assert!(!plan.fulfilled);
    assert_eq!(created(&plan), ["c", "a"]);
    let decisions: Vec<_> = plan
        .decisions
        .iter()
        .map(|one| (one.cluster_name.as_str(), one.selected))
        .collect();
    assert_eq!(decisions, [("a", true), ("c", true), ("b", false)]);
    let reason = &plan.decisions[2].reason;
    assert_eq!(
        reason,
        "ClusterUnschedulable, taint k=:NoSchedule cannot be tolerated"
    );
}

#[test]
fn the_last_name_wins_among_equals_and_the_others_hear_of_their_score() {
    let world = World::new(
        &json!({"placementType": "PickN", "numberOfClusters": 1}),
        plain(&["kind-cluster-1", "kind-cluster-3", "kind-cluster-2"]),
    );
    let plan = world.plan();
    assert_eq!(created(&plan), ["kind-cluster-3"]);
    assert_eq!(
        plan.create[0].reason,
        "Successfully scheduled resources for placement in kind-cluster-3 (affinity score: 0, topology spread \
         score: 0): picked by scheduling policy"
    );
    let (plugin, reason) = world.why("kind-cluster-1");
    assert_eq!(plugin, None);
    assert!(reason.contains("does not score high enough"), "{reason}");
    let losers: Vec<&str> = plan.decisions[1..]
        .iter()
        .map(|one| one.cluster_name.as_str())
        .collect();
    assert_eq!(losers, ["kind-cluster-2", "kind-cluster-1"]);
}

#[test]
fn picking_all_keeps_what_stopped_to_fit_until_the_policy_changes() {
    let mut world = World {
        clusters: plain(&["a", "b", "c"]),
        ..World::default()
    };
    let plan = world.plan();
    assert_eq!(created(&plan), ["a", "b", "c"]);
    world.apply(&plan);
    world.clusters[1].spec.taints = vec![Taint {
        key: "k".into(),
        ..Taint::default()
    }];
    let plan = world.plan();
    assert!(plan.create.is_empty() && plan.change.is_empty() && plan.unschedule.is_empty());
    assert_eq!(world.why("b").0, None, "it is selected");
    for stored in &mut world.bindings {
        "p-0".clone_into(&mut stored.spec.scheduling_policy_snapshot_name);
    }
    let plan = world.plan();
    assert_eq!(unscheduled(&plan), ["b-b"]);
    let moved: Vec<&str> = plan.change.iter().map(|one| one.name.as_str()).collect();
    assert_eq!(moved, ["b-a", "b-c"]);
    assert!(plan.fulfilled);
}

#[test]
fn a_fixed_list_ignores_taints_and_names_what_is_missing() {
    let mut world = World::new(
        &json!({"placementType": "PickFixed", "clusterNames": ["a", "b", "x"]}),
        plain(&["a", "b", "c"]),
    );
    world.clusters[0].spec.taints = vec![Taint {
        key: "k".into(),
        ..Taint::default()
    }];
    world.clusters[1].status.agent_status.clear();
    world.bindings = ["b", "c"]
        .map(|name| binding(name, BindingState::Bound, "p-0"))
        .into();
    let plan = world.plan();
    assert_eq!(created(&plan), ["a"]);
    // A listed cluster that is not eligible keeps what it has.
    assert_eq!(unscheduled(&plan), ["b-c"]);
    assert!(!plan.fulfilled);
    let unselected: Vec<&str> = plan
        .decisions
        .iter()
        .filter(|one| !one.selected)
        .map(|one| one.cluster_name.as_str())
        .collect();
    assert_eq!(unselected, ["b", "x"]);
    assert_eq!(
        world.why("c").1,
        "cluster \"c\" is not listed in the policy"
    );
    assert_eq!(world.why("x").1, "specified cluster \"x\" is not found");
    world.policy.as_mut().unwrap().cluster_names = vec!["a".into()];
    assert!(world.plan().fulfilled);
}

#[test]
fn an_unscheduled_binding_is_restored_as_it_was() {
    let mut world = World {
        clusters: plain(&["a"]),
        ..World::default()
    };
    world.bindings = vec![binding("a", BindingState::Unscheduled, "p-0")];
    let error = schedule(&world.request(&world.fleet())).unwrap_err();
    assert_eq!(error, ScheduleError::PreviousState("b-a".into()));
    let annotations = &mut world.bindings[0].metadata.annotations;
    annotations.insert(PREVIOUS_STATE.into(), "Bound".into());
    let plan = world.plan();
    assert_eq!(plan.change[0].state, BindingState::Bound);
    assert!(plan.create.is_empty());
}

#[test]
fn bindings_of_clusters_that_left_are_unscheduled_and_deleted_ones_released() {
    let mut world = World {
        clusters: plain(&["a"]),
        ..World::default()
    };
    world.bindings = bound(&["a", "gone", "leaving", "deleted"]);
    let mut leaving = member("leaving", &json!({}));
    leaving.metadata.deletion_timestamp = Some("2026-01-01T00:00:00Z".into());
    world.clusters.push(leaving);
    world.bindings[3].metadata.deletion_timestamp = Some("2026-01-01T00:00:00Z".into());
    let plan = world.plan();
    assert_eq!(unscheduled(&plan), ["b-gone", "b-leaving"]);
    assert_eq!(plan.release, ["b-deleted"]);
    assert_eq!(
        world.why("leaving").1,
        "ClusterUnschedulable, cluster has left the fleet"
    );
}

#[test]
fn a_cluster_in_use_by_the_old_policy_wins_a_tie() {
    let mut world = World::new(
        &json!({"placementType": "PickN", "numberOfClusters": 1}),
        plain(&["a", "b", "c"]),
    );
    world.bindings = vec![binding("a", BindingState::Bound, "p-0")];
    let plan = world.plan();
    assert_eq!(plan.change[0].name, "b-a");
    assert!(plan.create.is_empty() && plan.unschedule.is_empty());
}

#[test]
fn old_bindings_that_several_cycles_keep_are_not_written_twice() {
    let mut world = World::new(
        &json!({
            "placementType": "PickN", "numberOfClusters": 2,
            "topologySpreadConstraints": [{"topologyKey": "region"}],
        }),
        vec![
            member("a", &json!({"region": "east"})),
            member("b", &json!({"region": "west"})),
        ],
    );
    world.bindings = ["a", "b"]
        .map(|name| binding(name, BindingState::Bound, "p-0"))
        .into();
    let plan = world.plan();
    assert!(plan.create.is_empty() && plan.unschedule.is_empty());
    assert_eq!(plan.change.len(), 2);
    assert!(
        plan.change
            .iter()
            .all(|one| one.state == BindingState::Bound)
    );
}

#[test]
fn every_plugin_names_itself_and_its_reason() {
    let wanted = json!({
        "placementType": "PickN", "numberOfClusters": 9,
        "affinity": {"clusterAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {
            "clusterSelectorTerms": [
                {"labelSelector": {"matchLabels": {"env": "prod"}}},
                {"propertySelector": {"matchExpressions": [
                    {"name": "resources.kubernetes-fleet.io/available-cpu", "operator": "Ge", "values": ["1500m"]},
                ]}},
            ],
        }}},
        "topologySpreadConstraints": [{"topologyKey": "region"}],
        "tolerations": [{"key": "a", "operator": "Exists"}, {"key": "b", "value": "1"}],
    });
    let good = |name: &str| member(name, &json!({"env": "prod"}));
    let agent = |change: &dyn Fn(&mut crate::types::cluster::AgentStatus)| {
        let mut cluster = good("m");
        change(&mut cluster.status.agent_status[0]);
        cluster
    };
    let cpu = |amount: &str| {
        let mut cluster = member("m", &json!({}));
        cluster
            .status
            .resource_usage
            .available
            .insert("cpu".into(), amount.into());
        cluster
    };
    let tainted = |key: &str, value: &str| {
        let mut cluster = good("m");
        cluster.spec.taints = vec![Taint {
            key: key.into(),
            value: value.into(),
            ..Taint::default()
        }];
        cluster
    };
    let unhealthy = |since: &str| {
        agent(&|agent| {
            agent.conditions[1].status = ConditionStatus::False;
            since.clone_into(&mut agent.conditions[1].last_transition_time);
        })
    };
    let (affinity, eligible) = (
        Some(Plugin::ClusterAffinity),
        Some(Plugin::ClusterEligibility),
    );
    let taint = Some(Plugin::TaintToleration);
    for (cluster, plugin, words) in [
        (good("m"), None, "picked"),
        (
            member("m", &json!({})),
            affinity,
            "required cluster affinity terms",
        ),
        (cpu("2"), None, "picked"),
        (cpu("1"), affinity, "required cluster affinity terms"),
        (cpu("many"), affinity, "\"many\", which is not a quantity"),
        (
            agent(&|agent| agent.last_received_heartbeat = None),
            eligible,
            "no recent heartbeat",
        ),
        (
            agent(&|agent| agent.last_received_heartbeat = Some("2026-01-01T11:54:59Z".into())),
            eligible,
            "no recent heartbeat",
        ),
        (
            agent(&|agent| drop(agent.conditions.remove(0))),
            eligible,
            "not joined yet",
        ),
        (
            agent(&|agent| drop(agent.conditions.pop())),
            eligible,
            "health condition",
        ),
        (unhealthy("2026-01-01T11:54:59Z"), eligible, "unhealthy"),
        (unhealthy("2026-01-01T11:55:01Z"), None, "picked"),
        (tainted("a", "any"), None, "picked"),
        (tainted("b", "1"), None, "picked"),
        (
            tainted("b", "2"),
            taint,
            "taint b=2:NoSchedule cannot be tolerated",
        ),
    ] {
        let is_silent = GracePeriods::default().is_silent(&cluster, now());
        assert_eq!(is_silent, words == "no recent heartbeat");
        let (found, reason) = World::new(&wanted, vec![cluster]).why("m");
        assert_eq!(found, plugin, "{reason}");
        assert!(reason.contains(words), "{reason:?} does not say {words:?}");
    }
    let east = |name: &str| member(name, &json!({"env": "prod", "region": "east"}));
    let west = member("w", &json!({"region": "west"}));
    let world = World::new(&wanted, vec![east("a"), east("b"), west]);
    let (plugin, reason) = world.why("a");
    assert_eq!(plugin, Some(Plugin::TopologySpread));
    assert!(reason.contains("\"region\" (max skew 1)"), "{reason}");
}

#[test]
fn a_namespaced_placement_goes_where_its_namespace_is() {
    let reporting = |status: &str, namespaces: &Value| {
        let mut cluster = member("m", &json!({}));
        let condition = json!({"type": "NamespaceCollectionSucceeded", "status": status, "reason": "R", "message": ""});
        cluster.status.conditions = vec![serde_json::from_value(condition).unwrap()];
        cluster.status.namespaces = serde_json::from_value(namespaces.clone()).unwrap();
        World {
            namespace: Some("app"),
            clusters: vec![cluster],
            ..World::default()
        }
    };
    let refused = Some(Plugin::NamespaceAffinity);
    assert_eq!(reporting("True", &json!({"app": "w"})).why("m").0, None);
    assert_eq!(
        reporting("True", &json!({"other": "w"})).why("m").0,
        refused
    );
    assert_eq!(
        reporting("False", &json!({"other": "w"})).why("m").0,
        refused
    );
    let mut silent = reporting("True", &json!({}));
    silent.clusters[0].status.conditions.clear();
    assert_eq!(
        silent.why("m").0,
        None,
        "members that report no namespaces are not filtered"
    );
}

#[test]
fn a_soft_constraint_prefers_and_does_not_forbid() {
    let mut world = World::new(
        &json!({
            "placementType": "PickN", "numberOfClusters": 3,
            "topologySpreadConstraints": [{"topologyKey": "region", "whenUnsatisfiable": "ScheduleAnyway"}],
        }),
        ["a", "b"]
            .map(|name| member(name, &json!({"region": "east"})))
            .into(),
    );
    let mut west = member("w", &json!({"region": "west"}));
    west.status.agent_status.clear();
    world.clusters.push(west);
    let plan = world.plan();
    assert_eq!(created(&plan), ["b", "a"]);
    assert_eq!(
        plan.create[1].cluster_score.unwrap().topology_spread_score,
        Some(-1000)
    );
    assert!(!plan.fulfilled);
}

#[test]
fn a_policy_that_cannot_be_read_decides_nothing() {
    let required = |name: &str, value: &str| {
        let wanted = json!({"affinity": {"clusterAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {
            "clusterSelectorTerms": [{"propertySelector": {"matchExpressions": [
                {"name": name, "operator": "Gt", "values": [value]},
            ]}}],
        }}}});
        let world = World::new(&wanted, plain(&["a"]));
        schedule(&world.request(&world.fleet()))
            .unwrap_err()
            .to_string()
    };
    assert!(required("resources.kubernetes-fleet.io/free-cpu", "1").contains("free-cpu"));
    assert!(required("p", "much").contains("\"much\""));
    let wanted = json!({"placementType": "PickN"});
    let world = World::new(&wanted, plain(&["a"]));
    let error = schedule(&world.request(&world.fleet())).unwrap_err();
    assert_eq!(error, ScheduleError::NumberOfClusters(SNAPSHOT.into()));
}

#[test]
fn a_status_lists_at_most_a_thousand_clusters_and_twenty_others() {
    let names: Vec<String> = (0..1010).map(|number| format!("m{number:04}")).collect();
    let clusters: Vec<MemberCluster> = names.iter().map(|name| member(name, &json!({}))).collect();
    let all = World {
        clusters: clusters.clone(),
        ..World::default()
    };
    let plan = all.plan();
    assert_eq!((plan.create.len(), plan.decisions.len()), (1010, 1000));
    let few = World::new(
        &json!({"placementType": "PickN", "numberOfClusters": 5}),
        clusters,
    );
    assert_eq!(few.plan().decisions.len(), 25);
    assert_eq!(explain(&few.request(&few.fleet())).unwrap().len(), 1010);
}
