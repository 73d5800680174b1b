//! What holds of every decision.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;

/// A fleet of members with a region or none, tainted or not, alive or not.
fn fleet() -> impl Strategy<Value = Vec<MemberCluster>> {
    let one = (0..4_usize, any::<bool>(), prop::bool::weighted(0.8));
    prop::collection::vec(one, 0..9).prop_map(|members| {
        let members = members.into_iter().enumerate();
        members
            .map(|(index, (region, tainted, alive))| {
                let labels = match region {
                    0 => json!({}),
                    region => json!({"region": format!("r{region}")}),
                };
                let mut cluster = member(&format!("m{index}"), &labels);
                if tainted {
                    cluster.spec.taints = vec![Taint {
                        key: format!("k{}", index % 2),
                        ..Taint::default()
                    }];
                }
                if !alive {
                    cluster.status.agent_status.clear();
                }
                cluster
            })
            .collect()
    })
}

fn states() -> impl Strategy<Value = Vec<(usize, u8, bool)>> {
    prop::collection::vec((0..10_usize, 0..4_u8, any::<bool>()), 0..6)
}

/// Bindings of the current policy or an older one, also to members that do not exist.
fn bindings(states: &[(usize, u8, bool)]) -> Vec<Binding> {
    let states = states.iter().enumerate();
    states
        .map(|(index, (cluster, state, current))| {
            let snapshot = if *current { SNAPSHOT } else { "p-0" };
            let (state, deleting) = match state {
                0 => (BindingState::Scheduled, false),
                1 => (BindingState::Bound, false),
                2 => (BindingState::Unscheduled, false),
                _ => (BindingState::Bound, true),
            };
            let mut binding = binding(&format!("m{cluster}"), state, snapshot);
            binding.metadata.name = format!("b{index}");
            binding.metadata.annotations = [(PREVIOUS_STATE.to_owned(), "Bound".to_owned())].into();
            binding.metadata.deletion_timestamp = deleting.then(|| "2026-01-01T00:00:00Z".into());
            binding
        })
        .collect()
}

fn tolerations() -> impl Strategy<Value = Value> {
    prop::collection::vec(0..2_usize, 0..3).prop_map(|keys| {
        let keys = keys.iter();
        keys.map(|key| json!({"key": format!("k{key}"), "operator": "Exists"}))
            .collect()
    })
}

/// The number of clusters in each region, and their largest difference.
fn skew(world: &World) -> i32 {
    let region = |name: &str| {
        let cluster = world
            .clusters
            .iter()
            .find(|one| one.metadata.name == name)?;
        cluster.metadata.label("region")
    };
    let mut counts: BTreeMap<&str, i32> = BTreeMap::new();
    for cluster in &world.clusters {
        if let Some(region) = cluster.metadata.label("region") {
            counts.entry(region).or_default();
        }
    }
    let live = world
        .bindings
        .iter()
        .filter(|one| one.spec.state != BindingState::Unscheduled && !one.metadata.in_deletion());
    for region in live.filter_map(|one| region(&one.spec.target_cluster)) {
        *counts.entry(region).or_default() += 1;
    }
    let (max, min) = (counts.values().max(), counts.values().min());
    max.zip(min).map_or(0, |(max, min)| max - min)
}

fn live(world: &World) -> Vec<&str> {
    let bindings = world.bindings.iter().filter(|one| {
        one.spec.state != BindingState::Unscheduled
            && !one.metadata.in_deletion()
            && one.spec.scheduling_policy_snapshot_name == SNAPSHOT
    });
    bindings
        .map(|one| one.spec.target_cluster.as_str())
        .collect()
}

proptest! {
    #[test]
    fn pick_n_never_has_more_than_n_and_comes_to_rest(
        clusters in fleet(), states in states(), number in 0..6_i32, spread in any::<bool>(),
        tolerations in tolerations(),
    ) {
        let mut wanted = json!({"placementType": "PickN", "numberOfClusters": number, "tolerations": tolerations});
        if spread {
            wanted["topologySpreadConstraints"] = json!([{"topologyKey": "region"}]);
        }
        let mut world = World::new(&wanted, clusters);
        world.bindings = bindings(&states);
        let plan = world.plan();
        prop_assert_eq!(&plan, &world.plan(), "the same input has the same answer");
        world.apply(&plan);
        let number = usize::try_from(number).unwrap();
        prop_assert!(live(&world).len() <= number);
        prop_assert_eq!(plan.fulfilled, live(&world).len() == number);
        let again = world.plan();
        prop_assert!(again.create.is_empty() && again.change.is_empty() && again.unschedule.is_empty(), "{again:?}");
        let selected = |plan: &Plan| -> Vec<ClusterDecision> {
            plan.decisions.iter().filter(|one| one.selected).cloned().collect()
        };
        prop_assert_eq!(selected(&plan), selected(&again));
    }

    #[test]
    fn a_strict_constraint_is_never_violated(
        clusters in fleet(), number in 0..9_i32, max in 1..3_i32,
    ) {
        let mut world = World::new(&json!({
            "placementType": "PickN", "numberOfClusters": number,
            "tolerations": [{"operator": "Exists"}],
            "topologySpreadConstraints": [{"topologyKey": "region", "maxSkew": max}],
        }), clusters);
        let plan = world.plan();
        world.apply(&plan);
        let regions = world.clusters.iter().filter_map(|one| one.metadata.label("region"));
        let regions: std::collections::BTreeSet<&str> = regions.collect();
        if regions.len() > 1 {
            prop_assert!(skew(&world) <= max);
        }
    }

    #[test]
    fn an_added_toleration_evicts_nothing(
        clusters in fleet(), number in prop::option::of(0..6_i32), before in tolerations(), added in tolerations(),
    ) {
        let wanted = |tolerations: &Value| match number {
            Some(number) => json!({
                "placementType": "PickN", "numberOfClusters": number, "tolerations": tolerations,
            }),
            None => json!({"tolerations": tolerations}),
        };
        let mut world = World::new(&wanted(&before), clusters);
        let plan = world.plan();
        world.apply(&plan);
        let had: Vec<String> = live(&world).into_iter().map(str::to_owned).collect();
        let all: Vec<&Value> = [&before, &added].into_iter().flat_map(|list| list.as_array().unwrap()).collect();
        world.policy = Some(policy(&wanted(&json!(all))));
        for stored in &mut world.bindings {
            "p-0".clone_into(&mut stored.spec.scheduling_policy_snapshot_name);
        }
        let plan = world.plan();
        prop_assert!(plan.unschedule.is_empty(), "{:?}", plan.unschedule);
        world.apply(&plan);
        for cluster in &had {
            prop_assert!(live(&world).contains(&cluster.as_str()));
        }
    }

    #[test]
    fn every_cluster_is_explained_once(
        clusters in fleet(), states in states(), fixed in any::<bool>(),
    ) {
        let wanted = if fixed { json!({"placementType": "PickFixed", "clusterNames": ["m0", "m3", "x"]}) } else { json!({}) };
        let mut world = World::new(&wanted, clusters);
        world.bindings = bindings(&states);
        let plan = world.plan();
        let all = explain(&world.request(&world.fleet())).unwrap();
        prop_assert!(all.is_sorted_by(|a, b| a.cluster < b.cluster));
        let selected = all.iter().filter(|one| one.selected).count();
        let decided: std::collections::BTreeSet<&str> =
            plan.decisions.iter().filter(|one| one.selected).map(|one| one.cluster_name.as_str()).collect();
        prop_assert_eq!(selected, decided.len());
        for one in &all {
            prop_assert!(one.selected || one.plugin != Some(Plugin::SamePlacementAntiAffinity));
        }
    }
}
