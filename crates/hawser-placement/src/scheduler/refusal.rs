//! The reasons why a plugin refuses a cluster.

use std::fmt;

use crate::types::cluster::Taint;

/// The steps of the scheduler, by the names of the original.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Plugin {
    ClusterAffinity,
    ClusterEligibility,
    NamespaceAffinity,
    TaintToleration,
    SamePlacementAntiAffinity,
    TopologySpread,
}

impl fmt::Display for Plugin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

/// The reason why a cluster cannot be picked.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Refusal<'a> {
    NotListed,
    Affinity,
    Property(PropertyFault),
    Leaving,
    NoAgentStatus,
    HeartbeatLost,
    NotJoined,
    NoHealth,
    Unhealthy,
    NamespaceMissing(&'a str),
    Taint(&'a Taint),
    AlreadySelected,
    Skew { key: &'a str, max: i32 },
}

impl Refusal<'_> {
    pub(super) fn plugin(&self) -> Option<Plugin> {
        Some(match self {
            Self::NotListed => return None,
            Self::Affinity | Self::Property(_) => Plugin::ClusterAffinity,
            Self::Leaving
            | Self::NoAgentStatus
            | Self::HeartbeatLost
            | Self::NotJoined
            | Self::NoHealth
            | Self::Unhealthy => Plugin::ClusterEligibility,
            Self::NamespaceMissing(_) => Plugin::NamespaceAffinity,
            Self::Taint(_) => Plugin::TaintToleration,
            Self::AlreadySelected => Plugin::SamePlacementAntiAffinity,
            Self::Skew { .. } => Plugin::TopologySpread,
        })
    }

    /// True if the status does not list the cluster.
    pub(super) fn is_silent(&self) -> bool {
        matches!(self, Self::AlreadySelected | Self::NotListed)
    }

    /// The reason of a decision.
    pub(super) fn explain(&self, cluster: &str) -> String {
        match self {
            Self::NotListed => format!("cluster \"{cluster}\" is not listed in the policy"),
            other => format!("ClusterUnschedulable, {other}"),
        }
    }
}

impl fmt::Display for Refusal<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotListed => f.write_str("cluster is not listed in the policy"),
            Self::Affinity => f.write_str(
                "cluster does not match with any of the required cluster affinity terms",
            ),
            Self::Property(fault) => fault.fmt(f),
            Self::Leaving => f.write_str("cluster has left the fleet"),
            Self::NoAgentStatus => {
                f.write_str("cluster is not connected to the fleet: member agent not online yet")
            }
            Self::HeartbeatLost => {
                f.write_str("cluster is not connected to the fleet: no recent heartbeat signals")
            }
            Self::NotJoined => {
                f.write_str("cluster is not connected to the fleet: member agent not joined yet")
            }
            Self::NoHealth => f.write_str(
                "cluster is not connected to the fleet: health condition not available yet",
            ),
            Self::Unhealthy => f.write_str("cluster is not connected to the fleet: unhealthy"),
            Self::NamespaceMissing(namespace) => {
                write!(f, "namespace \"{namespace}\" does not exist in the cluster")
            }
            Self::Taint(Taint { key, value, .. }) => {
                write!(f, "taint {key}={value}:NoSchedule cannot be tolerated")
            }
            Self::AlreadySelected => f.write_str("cluster is already selected"),
            Self::Skew { key, max } => write!(
                f,
                "violated doNotSchedule topology spread constraint \"{key}\" (max skew {max})"
            ),
        }
    }
}

/// A property of a member that cannot be compared.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct PropertyFault {
    pub(super) name: String,
    pub(super) value: String,
}

impl fmt::Display for PropertyFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "cluster reports property {} as \"{}\", which is not a quantity",
            self.name, self.value
        )
    }
}
