//! The planner of the Federated `ReplicaSets` design: failed replicas are moved to other members, and a few stay as
//! probes of regained capacity.

use std::collections::BTreeMap;

use serde_json::Value;

use super::{ANY_CLUSTER, MemberCapacity, Preferences, plan};
use crate::types::scheduling::ClusterPreferences;

/// The annotation with the preferences of a federated workload, as JSON.
pub const PREFERENCES: &str = "federation.kubernetes.io/replica-set-preferences";

/// The state of the workload in one member.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReplicaState {
    /// The replicas it is scaled to.
    pub placed: i64,
    /// Replicas that were not created, scheduled or started in time.
    pub failed: i64,
    /// Replicas that are not running, but not for too long.
    pub waiting: i64,
    /// Consecutive failures to create the workload.
    pub refusals: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Failed replicas that stay in a member as probes.
    pub probes: i64,
    /// Consecutive failures after which a member gets no replicas.
    pub refusals: u32,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            probes: 2,
            refusals: 3,
        }
    }
}

/// The result of planning.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Schedule {
    /// Replicas by member, probes included. The workload is created with 0 replicas, too: its creation shows that the
    /// member accepts it.
    pub replicas: BTreeMap<String, i64>,
    /// Probes by member.
    pub probes: BTreeMap<String, i64>,
    /// Replicas without a place.
    pub unplaced: i64,
}

/// Invalid preferences.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PreferencesError {
    #[error(
        "annotation {PREFERENCES} is not a JSON object of preferences: {0}; correct or remove it"
    )]
    Malformed(String),
    #[error("annotation {PREFERENCES}: {}", .0.join(", "))]
    Absurd(Vec<String>),
}

impl Preferences {
    /// Equal weights for all members.
    pub fn even(total: i32) -> Self {
        let everywhere = ClusterPreferences {
            weight: 1,
            ..ClusterPreferences::default()
        };
        Self {
            total,
            rebalance: false,
            clusters: [(ANY_CLUSTER.to_owned(), everywhere)].into(),
        }
    }

    /// Reads the annotation. Field names match in any case, as Go's decoder matches them.
    pub fn from_annotation(total: i32, annotation: Option<&str>) -> Result<Self, PreferencesError> {
        let Some(text) = annotation else {
            return Ok(Self::even(total));
        };
        let malformed = |problem: &str| PreferencesError::Malformed(problem.to_owned());
        let read: Value =
            serde_json::from_str(text).map_err(|error| malformed(&error.to_string()))?;
        if !read.is_object() {
            return Err(malformed("expected an object"));
        }
        let rebalance = match field(&read, "rebalance") {
            None => false,
            Some(Value::Bool(rebalance)) => *rebalance,
            Some(_) => return Err(malformed("rebalance must be true or false")),
        };
        let mut preferences = Self {
            total,
            rebalance,
            clusters: BTreeMap::new(),
        };
        match field(&read, "clusters") {
            None => {}
            Some(Value::Object(clusters)) => {
                for (name, cluster) in clusters {
                    let cluster = of_cluster(cluster)
                        .map_err(|problem| malformed(&format!("cluster {name:?}: {problem}")))?;
                    preferences.clusters.insert(name.clone(), cluster);
                }
            }
            Some(_) => return Err(malformed("clusters must be an object")),
        }
        match preferences.problems() {
            problems if problems.is_empty() => Ok(preferences),
            problems => Err(PreferencesError::Absurd(problems)),
        }
    }
}

/// A field by its name in any case, the exact spelling first; null counts as absent.
fn field<'a>(object: &'a Value, name: &str) -> Option<&'a Value> {
    let fields = object.as_object()?;
    let found = fields.get(name).or_else(|| {
        let same = |(key, _): &(&String, &Value)| key.eq_ignore_ascii_case(name);
        fields.iter().find(same).map(|(_, value)| value)
    });
    found.filter(|value| !value.is_null())
}

fn of_cluster(value: &Value) -> Result<ClusterPreferences, String> {
    if !value.is_object() {
        return Err("expected an object".to_owned());
    }
    let number = |name: &str| {
        let whole = |number: &Value| {
            (number.as_i64()).ok_or_else(|| format!("{name} must be a 64-bit integer"))
        };
        field(value, name).map(whole).transpose()
    };
    Ok(ClusterPreferences {
        min_replicas: number("minReplicas")?.unwrap_or(0),
        max_replicas: number("maxReplicas")?,
        weight: number("weight")?.unwrap_or(0),
    })
}

/// Distributes the replicas among reachable members. Members without preferences get none.
pub fn schedule(
    preferences: &Preferences,
    key: &str,
    members: &BTreeMap<String, ReplicaState>,
    settings: Settings,
) -> Schedule {
    let members: BTreeMap<&String, &ReplicaState> = members
        .iter()
        .filter(|(name, _)| preferences.of(name).is_some())
        .collect();
    let mut rooms: BTreeMap<String, MemberCapacity> = members
        .iter()
        .map(|(name, seen)| {
            let room = MemberCapacity {
                current: seen.placed.saturating_sub(seen.failed).max(0),
                capacity: None,
            };
            ((*name).clone(), room)
        })
        .collect();
    // Replicas by member if no member had failures.
    let shares = plan(preferences, key, &rooms).replicas;
    for (name, room) in &mut rooms {
        room.capacity = capacity(members[name], shares[name], settings);
    }
    let mut schedule = Schedule {
        replicas: plan(preferences, key, &rooms).replicas,
        ..Schedule::default()
    };
    let placed: i64 = schedule.replicas.values().sum();
    schedule.unplaced = (i64::from(preferences.total) - placed).max(0);

    for (name, seen) in members {
        if seen.failed <= 0 || seen.refusals >= settings.refusals {
            continue;
        }
        // Replicas of this member if its capacity were not limited.
        let mut with_room = rooms.clone();
        if let Some(room) = with_room.get_mut(name) {
            room.capacity = None;
        }
        let here = schedule.replicas.get_mut(name);
        let here = here.expect("the plan has all members, and these are they");
        let missed = plan(preferences, key, &with_room).replicas[name] - *here;
        let probes = missed.min(seen.failed).min(settings.probes);
        if probes > 0 {
            *here += probes;
            schedule.probes.insert(name.clone(), probes);
        }
    }
    schedule
}

/// The capacity of a member; `None` if it is not limited.
fn capacity(seen: &ReplicaState, share: i64, settings: Settings) -> Option<i64> {
    if seen.refusals >= settings.refusals {
        Some(0)
    } else if seen.failed > 0 {
        Some(seen.placed.saturating_sub(seen.failed).max(0))
    } else if seen.waiting > 0 {
        // A member with waiting replicas gets its own share, but none that others lose.
        Some(seen.placed.max(share))
    } else {
        None
    }
}
