//! Planners: the number of replicas of a workload in each member.
//!
//! [`plan`] is KubeFed's planner, with the same results. [`design::schedule`] is the planner of the Federated
//! `ReplicaSets` design on top of it: it derives capacities from failed replicas, moves none to members with problems, and
//! leaves a few failed replicas as probes.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use crate::types::scheduling::ClusterPreferences;

pub mod design;
#[cfg(test)]
mod properties;
#[cfg(test)]
mod tests;

/// The key of the preferences for members without an entry.
pub const ANY_CLUSTER: &str = "*";

/// Counts are clamped to this. A workload has at most 2^31 replicas, and sums of clamped counts do not overflow.
const MOST: i64 = 1 << 40;

/// The desired total and its distribution.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Preferences {
    pub total: i32,
    /// Whether running replicas may be moved.
    pub rebalance: bool,
    /// Preferences by member name, or [`ANY_CLUSTER`].
    pub clusters: BTreeMap<String, ClusterPreferences>,
}

/// The planner's view of a member.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MemberCapacity {
    /// Replicas that run in the member.
    pub current: i64,
    /// The most replicas it has room for; `None` if not limited.
    pub capacity: Option<i64>,
}

/// Replicas by member.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    pub replicas: BTreeMap<String, i64>,
    /// Replicas beyond the capacity of a member, if any.
    pub overflow: BTreeMap<String, i64>,
}

/// A member during the distribution.
struct Share<'a> {
    name: &'a str,
    preferences: &'a ClusterPreferences,
    room: MemberCapacity,
    replicas: i64,
    /// Running replicas assigned in advance: its share of the distribution is set off against them.
    credit: i64,
    overflow: i64,
    /// Whether it has reached its maximum or capacity.
    full: bool,
}

/// Distributes the replicas among `members`. `key` is the workload's `namespace/name`; it varies the order of members
/// with equal weight.
pub fn plan(
    preferences: &Preferences,
    key: &str,
    members: &BTreeMap<String, MemberCapacity>,
) -> Plan {
    let mut shares = in_order(preferences, key, members);
    let mut rest = i64::from(preferences.total);
    for share in &mut shares {
        share.take_minimum(&mut rest);
    }
    if !preferences.rebalance {
        for share in &mut shares {
            share.keep_current(&mut rest);
        }
    }
    distribute_by_weight(&mut shares, &mut rest);

    let mut plan = Plan {
        replicas: members.keys().map(|name| (name.clone(), 0)).collect(),
        overflow: BTreeMap::new(),
    };
    for share in shares {
        plan.replicas.insert(share.name.to_owned(), share.replicas);
        // Without rebalancing, only replicas without a place are started beyond the capacity.
        let most = if preferences.rebalance {
            i64::MAX
        } else {
            rest
        };
        let overflow = share.overflow.min(most);
        if overflow > 0 {
            plan.overflow.insert(share.name.to_owned(), overflow);
        }
    }
    plan
}

impl Preferences {
    /// The preferences for a member.
    pub fn of(&self, member: &str) -> Option<&ClusterPreferences> {
        self.clusters
            .get(member)
            .or_else(|| self.clusters.get(ANY_CLUSTER))
    }

    /// Invalid values, each with what to do. The planner accepts them all the same.
    pub fn problems(&self) -> Vec<String> {
        let mut problems = Vec::new();
        if self.total < 0 {
            problems.push(format!(
                "the total number of replicas is {}: set 0 or more",
                self.total
            ));
        }
        for (name, preferences) in &self.clusters {
            let ClusterPreferences {
                min_replicas,
                max_replicas,
                weight,
            } = *preferences;
            for (field, value) in [
                ("minReplicas", Some(min_replicas)),
                ("maxReplicas", max_replicas),
                ("weight", Some(weight)),
            ] {
                if let Some(value) = value.filter(|value| *value < 0) {
                    problems.push(format!(
                        "{field} of cluster {name:?} is {value}: set 0 or more"
                    ));
                }
            }
            if let Some(max) = max_replicas.filter(|max| *max < min_replicas) {
                problems.push(format!(
                    "minReplicas {min_replicas} of cluster {name:?} is above its maxReplicas {max}: lower one or raise the other"
                ));
            }
        }
        problems
    }
}

/// The members with preferences, by descending weight, then by hash.
fn in_order<'a>(
    preferences: &'a Preferences,
    key: &str,
    members: &'a BTreeMap<String, MemberCapacity>,
) -> Vec<Share<'a>> {
    let mut shares: Vec<Share<'a>> = members
        .iter()
        .filter_map(|(name, room)| {
            Some(Share {
                name,
                preferences: preferences.of(name)?,
                room: MemberCapacity {
                    current: bounded(room.current),
                    capacity: room.capacity.map(bounded),
                },
                replicas: 0,
                credit: 0,
                overflow: 0,
                full: false,
            })
        })
        .collect();
    shares.sort_by_cached_key(|share| (Reverse(share.preferences.weight), fnv1(share.name, key)));
    shares
}

/// Distributes the rest by weight, in rounds.
fn distribute_by_weight(shares: &mut [Share<'_>], rest: &mut i64) {
    let mut goes_on = true;
    while goes_on && *rest > 0 {
        goes_on = false;
        let weights: i128 = (shares.iter().filter(|share| !share.full))
            .map(|share| i128::from(share.preferences.weight))
            .sum();
        if weights <= 0 {
            return;
        }
        let (due, mut left) = (*rest, false);
        // The number of identical rounds that follow if this one uses only credit.
        let mut repeats = i64::MAX;
        let mut used = vec![0; shares.len()];
        for (share, used) in shares.iter_mut().zip(&mut used) {
            if share.full {
                continue;
            }
            let extra = share.part_of(due, weights).min(*rest);
            *used = extra.min(share.credit);
            share.credit -= *used;
            let before = share.replicas;
            share.take(extra - *used);
            *rest -= share.replicas - before;
            goes_on |= *used > 0 || share.replicas > before;
            left |= share.full;
            if *used > 0 {
                repeats = repeats.min(share.credit / *used);
            }
        }
        if *rest == due && !left && goes_on {
            for (share, used) in shares.iter_mut().zip(used) {
                share.credit -= used * repeats;
            }
        }
    }
}

impl Share<'_> {
    fn max(&self) -> i64 {
        self.preferences.max_replicas.map_or(i64::MAX, bounded)
    }

    fn capacity(&self) -> i64 {
        self.room.capacity.unwrap_or(i64::MAX)
    }

    fn take_minimum(&mut self, rest: &mut i64) {
        let minimum = bounded(self.preferences.min_replicas);
        self.replicas = minimum.min(*rest).min(self.capacity());
        *rest -= self.replicas;
    }

    fn keep_current(&mut self, rest: &mut i64) {
        let kept = self.room.current.min(self.max()).min(self.capacity());
        let extra = (kept - self.replicas).min(*rest).max(0);
        self.replicas += extra;
        self.credit = extra;
        *rest -= extra;
    }

    /// The weighted share of `due`, rounded up.
    fn part_of(&self, due: i64, weights: i128) -> i64 {
        let weight = i128::from(self.preferences.weight.max(0));
        let part = (i128::from(due) * weight + weights - 1) / weights;
        i64::try_from(part).unwrap_or(due)
    }

    /// Adds replicas up to maximum and capacity.
    fn take(&mut self, extra: i64) {
        let mut replicas = self.replicas + extra;
        if replicas > self.max() {
            replicas = self.max();
            self.full = true;
        }
        if replicas > self.capacity() {
            self.overflow = replicas - self.capacity();
            replicas = self.capacity();
            self.full = true;
        }
        self.replicas = replicas;
    }
}

fn bounded(count: i64) -> i64 {
    count.clamp(-MOST, MOST)
}

/// The 32-bit FNV-1 hash of both texts.
fn fnv1(member: &str, key: &str) -> u32 {
    let bytes = member.bytes().chain(key.bytes());
    bytes.fold(0x811c_9dc5, |hash: u32, byte| {
        hash.wrapping_mul(0x0100_0193) ^ u32::from(byte)
    })
}
