//! The metrics, under the names that dashboards of KubeFed use.

use std::sync::Arc;
use std::time::Duration;

use hawser_federation::events::Operation;
use hawser_runtime::process::metrics::text::{Gauge, Histogram, MetricFamily, Name};
use hawser_runtime::process::metrics::{Metrics, Requests};

use super::controllers::{Controllers, SECONDS};

/// The state of a member after its last probe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemberState {
    Ready,
    NotReady,
    Offline,
}

impl MemberState {
    const ALL: [Self; 3] = [Self::Ready, Self::NotReady, Self::Offline];

    fn as_str(self) -> &'static str {
        match self {
            Self::Ready => "ready",
            Self::NotReady => "notready",
            Self::Offline => "offline",
        }
    }
}

/// All numbers of the process.
pub struct FederationMetrics {
    pub metrics: Arc<Metrics>,
    pub controllers: Controllers,
    members: MetricFamily<Gauge>,
    probes: MetricFamily<Histogram>,
    connections: MetricFamily<Histogram>,
    operations: MetricFamily<Histogram>,
    passes: MetricFamily<Histogram>,
    schedules: MetricFamily<Histogram>,
    /// Metrics of kubefedctl's commands, which dashboards ask the control plane for. They stay at zero, as in KubeFed.
    joined: MetricFamily<Gauge>,
    joins: [MetricFamily<Histogram>; 2],
}

impl FederationMetrics {
    pub fn new() -> Arc<Self> {
        let name = |text, help, labels| Name {
            text,
            help,
            labels,
            bounds: SECONDS,
        };
        let metrics = Arc::new(Metrics::new());
        Arc::new(Self {
            controllers: Controllers::new(&metrics),
            metrics,
            members: MetricFamily::new(name(
                "kubefedcluster_total",
                "Number of members in a state.",
                &["state", "cluster"],
            )),
            probes: MetricFamily::new(name(
                "cluster_health_status_duration_seconds",
                "Duration of probes of members in seconds.",
                &[],
            )),
            connections: MetricFamily::new(name(
                "cluster_client_connection_duration_seconds",
                "Time to create a client for a member, in seconds.",
                &[],
            )),
            operations: MetricFamily::new(name(
                "dispatch_operation_duration_seconds",
                "Duration of writes to members in seconds.",
                &["action"],
            )),
            passes: MetricFamily::new(name(
                "reconcile_federated_resources_duration_seconds",
                "Duration of passes over federated objects in seconds.",
                &[],
            )),
            joined: MetricFamily::new(name(
                "joined_cluster_total",
                "Always 0: clusters are joined by kubefedctl.",
                &[],
            )),
            joins: [
                "join_cluster_duration_seconds",
                "unjoin_cluster_duration_seconds",
            ]
            .map(|text| {
                let help = "Always 0: clusters are joined by kubefedctl.";
                MetricFamily::new(name(text, help, &[]))
            }),
            schedules: MetricFamily::new(name(
                "replica_scheduling_duration_seconds",
                "Duration of the parts of replica scheduling in seconds.",
                &["part"],
            )),
        })
    }

    pub fn render(&self) -> String {
        let mut out = self.metrics.render();
        // Writing to a text does not fail.
        let _ = self.members.write(&mut out);
        let _ = self.probes.write(&mut out);
        let _ = self.connections.write(&mut out);
        let _ = self.operations.write(&mut out);
        let _ = self.schedules.write(&mut out);
        let _ = self.joined.write(&mut out);
        for family in self.joins.iter().chain([&self.passes]) {
            let _ = family.write(&mut out);
        }
        self.controllers.write(&mut out);
        out
    }

    pub fn member(&self, name: &str, state: MemberState, took: Duration) {
        self.probes.of(&[]).observe(took.as_secs_f64());
        for other in MemberState::ALL {
            let is = f64::from(u8::from(other == state));
            self.members.of(&[other.as_str(), name]).set(is);
        }
    }

    pub fn forget_member(&self, name: &str) {
        for state in MemberState::ALL {
            self.members.remove(&[state.as_str(), name]);
        }
    }

    /// A client for a member was made.
    pub fn connected(&self, took: Duration) {
        self.connections.of(&[]).observe(took.as_secs_f64());
    }

    pub fn operation(&self, operation: Operation, took: Duration) {
        let action = match operation {
            Operation::Create => "create",
            Operation::Update => "update",
            Operation::Delete | Operation::RemoveManagedLabel => "delete",
        };
        let seconds = took.as_secs_f64();
        self.operations.of(&[action]).observe(seconds);
    }

    /// A pass over a federated object.
    pub fn pass(&self, took: Duration) {
        self.passes.of(&[]).observe(took.as_secs_f64());
    }

    /// A part of the check of a workload's replicas.
    pub fn schedule(&self, part: &'static str, took: Duration) {
        self.schedules.of(&[part]).observe(took.as_secs_f64());
    }

    /// The counter of the requests to a server.
    pub fn requests(&self, side: &'static str, host: &str) -> Requests {
        self.metrics.requests(side, host)
    }
}
