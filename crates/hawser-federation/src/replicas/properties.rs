//! Properties of the planners.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::design::{ReplicaState, Settings, schedule};
use super::{ANY_CLUSTER, MemberCapacity, Preferences, plan};
use crate::types::scheduling::ClusterPreferences;

const NAMES: [&str; 6] = ["A", "B", "C", "cluster1", "eu-west", "z"];

fn sound_cluster() -> impl Strategy<Value = ClusterPreferences> {
    let parts = (0..20_i64, proptest::option::of(0..40_i64), 0..6_i64);
    parts.prop_map(|(min, max, weight)| ClusterPreferences {
        min_replicas: max.map_or(min, |max| min.min(max)),
        max_replicas: max,
        weight,
    })
}

fn any_cluster() -> impl Strategy<Value = ClusterPreferences> {
    let parts = (any::<i64>(), any::<Option<i64>>(), any::<i64>());
    parts.prop_map(|(min_replicas, max_replicas, weight)| ClusterPreferences {
        min_replicas,
        max_replicas,
        weight,
    })
}

fn preferences(
    total: impl Strategy<Value = i32>,
    cluster: impl Strategy<Value = ClusterPreferences>,
) -> impl Strategy<Value = Preferences> {
    let name = prop::sample::select([&NAMES[..], &[ANY_CLUSTER]].concat());
    let clusters = prop::collection::btree_map(name.prop_map(str::to_owned), cluster, 0..5);
    (total, any::<bool>(), clusters).prop_map(|(total, rebalance, clusters)| Preferences {
        total,
        rebalance,
        clusters,
    })
}

fn members<T: std::fmt::Debug>(
    one: impl Strategy<Value = T>,
) -> impl Strategy<Value = BTreeMap<String, T>> {
    let name = prop::sample::select(&NAMES[..]).prop_map(str::to_owned);
    prop::collection::btree_map(name, one, 0..6)
}

fn room(
    current: impl Strategy<Value = i64>,
    capacity: impl Strategy<Value = Option<i64>>,
) -> impl Strategy<Value = MemberCapacity> {
    (current, capacity).prop_map(|(current, capacity)| MemberCapacity { current, capacity })
}

fn sound() -> impl Strategy<Value = (Preferences, BTreeMap<String, MemberCapacity>)> {
    (
        preferences(0..150_i32, sound_cluster()),
        members(room(0..80_i64, proptest::option::of(0..60_i64))),
    )
}

fn seen() -> impl Strategy<Value = ReplicaState> {
    let parts = (0..60_i64, 0..60_i64, 0..5_i64, 0..5_u32);
    parts.prop_map(|(placed, failed, waiting, refusals)| ReplicaState {
        placed,
        failed: failed.min(placed),
        waiting,
        refusals,
    })
}

fn most(preferences: &Preferences, name: &str, room: MemberCapacity) -> i64 {
    let max = preferences.of(name).and_then(|own| own.max_replicas);
    let capacity = room.capacity.unwrap_or(i64::MAX);
    max.unwrap_or(i64::MAX).min(capacity)
}

proptest! {
    #[test]
    fn never_more_than_the_total_nor_than_anybody_may_have((preferences, members) in sound()) {
        let plan = plan(&preferences, "ns/app", &members);
        let sum: i64 = plan.replicas.values().sum();
        prop_assert!(sum <= i64::from(preferences.total));
        for (name, replicas) in &plan.replicas {
            prop_assert!((0..=most(&preferences, name, members[name])).contains(replicas));
            prop_assert!(preferences.of(name).is_some() || *replicas == 0);
        }
        prop_assert!(plan.overflow.values().all(|over| *over > 0));
    }

    #[test]
    fn nobody_is_below_the_minimum_while_there_are_replicas_and_capacity((preferences, members) in sound()) {
        let wanted = |name: &String| {
            let minimum = preferences.of(name).map_or(0, |own| own.min_replicas);
            minimum.min(members[name].capacity.unwrap_or(i64::MAX))
        };
        let minima: i64 = members.keys().map(wanted).sum();
        let plan = plan(&preferences, "ns/app", &members);
        if minima <= i64::from(preferences.total) {
            for (name, replicas) in &plan.replicas {
                prop_assert!(*replicas >= wanted(name), "{name}");
            }
        } else {
            prop_assert_eq!(plan.replicas.values().sum::<i64>(), i64::from(preferences.total));
        }
    }

    #[test]
    fn replicas_are_left_over_only_where_nobody_with_a_weight_can_take_more((preferences, members) in sound()) {
        let plan = plan(&preferences, "ns/app", &members);
        if plan.replicas.values().sum::<i64>() < i64::from(preferences.total) {
            for (name, replicas) in &plan.replicas {
                let weight = preferences.of(name).map_or(0, |own| own.weight);
                prop_assert!(weight == 0 || *replicas == most(&preferences, name, members[name]), "{name}");
            }
        }
    }

    #[test]
    fn without_rebalancing_what_runs_stays_where_it_may((mut preferences, members) in sound()) {
        preferences.rebalance = false;
        for own in preferences.clusters.values_mut() {
            own.min_replicas = 0;
        }
        let kept = |name: &String| {
            let room = members[name];
            preferences.of(name).map_or(0, |_| room.current.min(most(&preferences, name, room)))
        };
        let plan = plan(&preferences, "ns/app", &members);
        if members.keys().map(kept).sum::<i64>() <= i64::from(preferences.total) {
            for (name, replicas) in &plan.replicas {
                prop_assert!(*replicas >= kept(name), "{name}");
            }
        }
    }

    #[test]
    fn what_was_planned_is_planned_again((preferences, mut members) in sound()) {
        let first = plan(&preferences, "ns/app", &members);
        for (name, room) in &mut members {
            room.current = first.replicas[name];
        }
        prop_assert_eq!(plan(&preferences, "ns/app", &members).replicas, first.replicas);
    }

    #[test]
    fn with_rebalancing_what_runs_decides_nothing((mut preferences, mut members) in sound()) {
        preferences.rebalance = true;
        let first = plan(&preferences, "ns/app", &members);
        for room in members.values_mut() {
            room.current = 7;
        }
        prop_assert_eq!(plan(&preferences, "ns/app", &members), first);
    }

    #[test]
    fn no_input_overflows_or_takes_for_ever(
        preferences in preferences(any::<i32>(), any_cluster()),
        members in members(room(any::<i64>(), any::<Option<i64>>())),
    ) {
        plan(&preferences, "ns/app", &members);
    }

    #[test]
    fn no_member_in_trouble_receives_what_others_lose(
        preferences in preferences(0..150_i32, sound_cluster()),
        seen in members(seen()),
    ) {
        let got = schedule(&preferences, "ns/app", &seen, Settings::default());
        for (name, replicas) in &got.replicas {
            let seen = seen[name];
            let probes = got.probes.get(name).copied().unwrap_or(0);
            prop_assert!(probes <= seen.failed.min(2));
            if seen.refusals >= 3 {
                prop_assert_eq!(*replicas, 0);
            } else if seen.failed > 0 {
                prop_assert!(*replicas <= seen.placed, "{}", name);
            }
        }
        let probes: i64 = got.probes.values().sum();
        let sum: i64 = got.replicas.values().sum();
        prop_assert_eq!(sum - probes + got.unplaced, i64::from(preferences.total));
    }
}
