//! Members that are joined, alive and healthy.

use jiff::{SignedDuration, Timestamp};

use super::refusal::Refusal;
use crate::types::cluster::MemberCluster;
use crate::types::{ConditionStatus, condition};

/// The patience with members that are not well.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GracePeriods {
    /// The age from which a heartbeat counts as lost.
    pub heartbeat: SignedDuration,
    /// The time for which a member may be unhealthy.
    pub health: SignedDuration,
}

impl Default for GracePeriods {
    fn default() -> Self {
        let five_minutes = SignedDuration::from_mins(5);
        Self {
            heartbeat: five_minutes,
            health: five_minutes,
        }
    }
}

impl GracePeriods {
    /// Whether the heartbeat of a member is lost.
    pub fn is_silent(self, cluster: &MemberCluster, now: Timestamp) -> bool {
        let verdict = Eligibility::new(now, self).check(cluster);
        matches!(verdict, Err(Refusal::HeartbeatLost))
    }
}

pub(super) struct Eligibility {
    now: Timestamp,
    windows: GracePeriods,
}

impl Eligibility {
    pub(super) fn new(now: Timestamp, windows: GracePeriods) -> Self {
        Self { now, windows }
    }

    pub(super) fn check<'a>(&self, cluster: &MemberCluster) -> Result<(), Refusal<'a>> {
        if cluster.metadata.in_deletion() {
            return Err(Refusal::Leaving);
        }
        let Some(agent) = cluster.status.member_agent() else {
            return Err(Refusal::NoAgentStatus);
        };
        let heartbeat = agent.last_received_heartbeat.as_deref();
        if !heartbeat.is_some_and(|time| self.is_within(time, self.windows.heartbeat)) {
            return Err(Refusal::HeartbeatLost);
        }
        let joined = condition(&agent.conditions, "Joined");
        if joined.is_none_or(|joined| joined.status != ConditionStatus::True) {
            return Err(Refusal::NotJoined);
        }
        let Some(health) = condition(&agent.conditions, "Healthy") else {
            return Err(Refusal::NoHealth);
        };
        // A member that became unhealthy a moment ago may be well again in the next.
        let is_well = health.status == ConditionStatus::True
            || self.is_within(&health.last_transition_time, self.windows.health);
        if is_well {
            Ok(())
        } else {
            Err(Refusal::Unhealthy)
        }
    }

    fn is_within(&self, time: &str, window: SignedDuration) -> bool {
        let time: Result<Timestamp, _> = time.parse();
        time.is_ok_and(|time| self.now.duration_since(time) <= window)
    }
}
