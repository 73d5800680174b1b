//! The capacity of a member for a workload, estimated from the workload's pods there. Times are seconds since the
//! epoch.

use serde_json::Value;

use crate::replicas::MemberCapacity;
use crate::replicas::design::ReplicaState;

/// The facts of a pod from which capacity is estimated.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pod {
    /// Whether its phase is `Running`.
    pub is_running: bool,
    /// Whether it has a condition `Ready`, of any status: KubeFed counts it as ready then.
    pub has_ready: bool,
    /// Its condition `PodScheduled`.
    pub scheduled: Scheduled,
    pub created: i64,
    /// Whether it is finished or in deletion: its controller replaces it.
    pub is_over: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scheduled {
    Unknown,
    Yes { since: i64 },
    No { since: i64, unschedulable: bool },
}

/// Seconds after which a pod counts as failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PodTimeouts {
    /// While it has no node.
    pub scheduled: i64,
    /// While it is not created, or does not run.
    pub running: i64,
}

impl Default for PodTimeouts {
    fn default() -> Self {
        Self {
            scheduled: 60,
            running: 60,
        }
    }
}

/// The estimate for one member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CapacityEstimate {
    pub room: MemberCapacity,
    /// Whether some pods are unschedulable, but not for long: the estimate has to be repeated soon.
    pub look_again: bool,
}

impl Pod {
    /// Reads a pod; `seconds` parses RFC 3339 times.
    pub fn read(pod: &Value, seconds: impl Fn(&str) -> Option<i64>) -> Self {
        let time = |value: &Value| value.as_str().and_then(&seconds).unwrap_or(0);
        let status = &pod["status"];
        let condition = |name: &str| {
            let mut conditions = status["conditions"].as_array()?.iter();
            conditions.find(|condition| condition["type"] == name)
        };
        let scheduled = condition("PodScheduled").map_or(Scheduled::Unknown, |condition| {
            let since = time(&condition["lastTransitionTime"]);
            if condition["status"] == "False" {
                let unschedulable = condition["reason"] == "Unschedulable";
                Scheduled::No {
                    since,
                    unschedulable,
                }
            } else {
                Scheduled::Yes { since }
            }
        });
        let phase = status["phase"].as_str().unwrap_or_default();
        Self {
            is_running: phase == "Running",
            has_ready: condition("Ready").is_some(),
            scheduled,
            created: time(&pod["metadata"]["creationTimestamp"]),
            is_over: ["Succeeded", "Failed"].contains(&phase)
                || pod["metadata"]["deletionTimestamp"].is_string(),
        }
    }
}

/// Replicas and capacity for a `ReplicaSchedulingPreference`, if not all of `replicas` are ready. Pods that are
/// unschedulable for more than `patience` seconds limit the capacity.
pub fn room(replicas: i64, pods: &[Pod], patience: i64, now: i64) -> CapacityEstimate {
    let counts = |pod: &&Pod| pod.is_running && pod.has_ready;
    let waiting = pods.iter().filter(|pod| !pod.is_running);
    let since = waiting.filter_map(|pod| match pod.scheduled {
        Scheduled::No {
            since,
            unschedulable: true,
        } => Some(since),
        _ => None,
    });
    let (old, young): (Vec<i64>, Vec<i64>) =
        since.partition(|since| now.saturating_sub(*since) > patience);
    let stuck = count(old.len());
    CapacityEstimate {
        room: MemberCapacity {
            current: count(pods.iter().filter(counts).count()),
            capacity: (stuck > 0).then(|| replicas.saturating_sub(stuck)),
        },
        look_again: !young.is_empty(),
    }
}

/// Placed, failed and waiting replicas for the design's planner. `replicas` is the workload's `spec.replicas` in this
/// member; it has had fewer pods since `short`.
pub fn seen(
    replicas: i64,
    pods: &[Pod],
    short: Option<i64>,
    patience: PodTimeouts,
    now: i64,
) -> ReplicaState {
    let mut seen = ReplicaState {
        placed: replicas,
        ..ReplicaState::default()
    };
    let mut add = |pods: i64, since: i64, patience: i64| {
        if now.saturating_sub(since) > patience {
            seen.failed += pods;
        } else {
            seen.waiting += pods;
        }
    };
    let there: Vec<&Pod> = pods.iter().filter(|pod| !pod.is_over).collect();
    for pod in there.iter().filter(|pod| !pod.is_running) {
        match pod.scheduled {
            Scheduled::Yes { since } => add(1, since.max(pod.created), patience.running),
            Scheduled::No { since, .. } => add(1, since.max(pod.created), patience.scheduled),
            Scheduled::Unknown => add(1, pod.created, patience.scheduled),
        }
    }
    let missing = replicas.saturating_sub(count(there.len()));
    if missing > 0 {
        add(missing, short.unwrap_or(now), patience.running);
    }
    // Surplus pods are about to be deleted.
    seen.failed = seen.failed.min(replicas.max(0));
    seen
}

fn count(pods: usize) -> i64 {
    i64::try_from(pods).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const NOW: i64 = 10_000;

    /// A pod whose times are written as seconds.
    fn pod(phase: &str, conditions: &Value) -> Pod {
        let pod = json!({
            "metadata": {"creationTimestamp": "9000"}, "status": {"phase": phase, "conditions": conditions},
        });
        Pod::read(&pod, |text| text.parse().ok())
    }

    fn running(ready: &str) -> Pod {
        let scheduled =
            json!({"type": "PodScheduled", "status": "True", "lastTransitionTime": "9000"});
        pod(
            "Running",
            &json!([scheduled, {"type": "Ready", "status": ready}]),
        )
    }

    fn unschedulable(for_seconds: i64) -> Pod {
        let since = (NOW - for_seconds).to_string();
        pod(
            "Pending",
            &json!([
                {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "lastTransitionTime": since},
            ]),
        )
    }

    fn times(pod: &Pod, times: usize) -> Vec<Pod> {
        vec![pod.clone(); times]
    }

    #[test]
    fn pods_that_cannot_be_scheduled_for_a_minute_limit_the_room() {
        let pods = [
            times(&running("True"), 3),
            times(&unschedulable(600), 2),
            times(&unschedulable(0), 1),
        ];
        let found = room(6, &pods.concat(), 60, NOW);
        let expected = MemberCapacity {
            current: 3,
            capacity: Some(4),
        };
        assert_eq!((found.room, found.look_again), (expected, true));
        assert!(
            room(1, &[unschedulable(60)], 60, NOW).look_again,
            "a minute has to be over"
        );
        let negative = room(1, &times(&unschedulable(61), 3), 60, NOW);
        assert_eq!(negative.room.capacity, Some(-2));
    }

    #[test]
    fn pods_that_merely_wait_limit_nothing() {
        let other = json!([{"type": "PodScheduled", "status": "False", "reason": "SchedulingGated", "lastTransitionTime": "0"}]);
        for waiting in [
            pod("Pending", &Value::Null),
            pod("Pending", &other),
            pod("Failed", &Value::Null),
        ] {
            let found = room(1, &[waiting], 60, NOW);
            assert_eq!(
                found,
                CapacityEstimate {
                    room: MemberCapacity::default(),
                    look_again: false
                }
            );
        }
    }

    #[test]
    fn a_running_pod_counts_as_ready_whatever_its_condition_says() {
        let pods = [
            running("True"),
            running("False"),
            pod("Running", &Value::Null),
        ];
        assert_eq!(room(3, &pods, 60, NOW).room.current, 2);
    }

    #[track_caller]
    fn check_seen(pods: &[Pod], short: Option<i64>, failed: i64, waiting: i64) {
        let got = seen(3, pods, short, PodTimeouts::default(), NOW);
        assert_eq!((got.placed, got.failed, got.waiting), (3, failed, waiting));
    }

    #[test]
    fn pods_that_do_not_come_up_fail_after_a_while() {
        check_seen(&times(&running("False"), 3), None, 0, 0);
        check_seen(
            &[running("True"), unschedulable(61), unschedulable(60)],
            None,
            1,
            1,
        );
        let starting = |since: &str| {
            let scheduled =
                json!({"type": "PodScheduled", "status": "True", "lastTransitionTime": since});
            pod("Pending", &json!([scheduled]))
        };
        check_seen(
            &[running("True"), starting("9000"), starting("9999")],
            None,
            1,
            1,
        );
        check_seen(
            &[
                running("True"),
                running("True"),
                pod("Pending", &Value::Null),
            ],
            None,
            1,
            0,
        );
    }

    #[test]
    fn pods_that_are_not_even_created_fail_after_a_while() {
        check_seen(&[running("True")], Some(NOW - 61), 2, 0);
        check_seen(&[running("True")], Some(NOW - 60), 0, 2);
        check_seen(&[running("True")], None, 0, 2);
        let over = [
            running("True"),
            running("True"),
            pod("Failed", &Value::Null),
        ];
        check_seen(&over, None, 0, 1);
        check_seen(&times(&unschedulable(600), 5), None, 3, 0);
    }
}
