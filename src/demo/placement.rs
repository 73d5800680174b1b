//! The demonstration of a fleet: a hub, three members, and the agents of all of them in one process.
//!
//! Each cluster is a separate playground. One process runs the agents of all members, with kubeconfigs from Secrets of
//! the hub.

use std::time::Duration;

use jiff::SignedDuration;
use tokio_util::sync::CancellationToken;

use super::files::Files;
use super::{DemoError, DemoEvent, DemoOutput, DemoProcess, nodes};
use crate::placement::hub::objects::HubFeatures;
use crate::placement::hub::passes::HubSettings;
use crate::placement::hub::process::{self as hub, HubError, HubOptions};
use crate::placement::hub::selectable::SelectionRules;
use crate::placement::member::options::{MemberOptions, MemberRules, MemberSelection, RawHubArgs};
use crate::placement::member::process::{self as member, MemberError};
use hawser_placement::availability::JobTracking;
use hawser_placement::hub::view::HubPolicy;
use hawser_placement::resources::ApiFilter;
use hawser_placement::scheduler::GracePeriods;
use hawser_placement::snapshots::Debounce;
use kcp_playground::{Playground, PlaygroundError, PlaygroundOptions};

mod story;

use story::{FleetStory, MEMBERS, SYSTEM};

/// The log file of hub and members.
pub const LOG: &str = "placement.log";

/// The files and their purposes.
const FILES: &[(&str, &str)] = &[
    ("hub.kubeconfig", "the hub"),
    ("cluster1.kubeconfig", "a member in the region east"),
    ("cluster2.kubeconfig", "a member in the region west"),
    ("cluster3.kubeconfig", "a member in the region west"),
    (LOG, "the log of hub and members"),
];

/// Commands with their purposes.
const COMMANDS: &[(&str, &str)] = &[
    (
        "the members",
        "kubectl --kubeconfig hub.kubeconfig get memberclusters",
    ),
    (
        "the placement, with its state in each member and its events",
        "kubectl --kubeconfig hub.kubeconfig describe clusterresourceplacement shop",
    ),
    (
        "why each member was picked",
        "hawser explain placement shop --kubeconfig hub.kubeconfig",
    ),
    (
        "the member's agent reverts changes by others",
        r#"kubectl --kubeconfig cluster1.kubeconfig patch deployment web --namespace shop --type=merge --patch='{"spec":{"replicas":7}}'"#,
    ),
    (
        "",
        "kubectl --kubeconfig cluster1.kubeconfig wait deployment web --namespace shop --for=jsonpath='{.spec.replicas}'=2",
    ),
    (
        "deleting the placement deletes its copies",
        "kubectl --kubeconfig hub.kubeconfig delete clusterresourceplacement shop",
    ),
    (
        "",
        "kubectl --kubeconfig cluster1.kubeconfig wait namespace shop --for=delete",
    ),
];

/// The clusters of the demonstration.
pub struct FleetClusters {
    hub: Playground,
    members: Vec<Playground>,
}

#[derive(Debug, thiserror::Error)]
enum FleetError {
    #[error("the hub")]
    Hub(#[from] HubError),
    #[error("the agent of the members")]
    Member(#[from] MemberError),
}

/// Starts all clusters.
pub async fn start() -> Result<FleetClusters, PlaygroundError> {
    let cluster = || {
        Playground::start_with(PlaygroundOptions {
            stand_ins: nodes::KINDS.to_vec(),
            ..PlaygroundOptions::default()
        })
    };
    let members = futures::future::try_join_all(MEMBERS.map(|_| cluster()));
    let (hub, members) = tokio::try_join!(cluster(), members)?;
    Ok(FleetClusters { hub, members })
}

/// Runs the demonstration, reports it line by line, and keeps everything running until it is stopped.
pub async fn run(
    clusters: FleetClusters,
    files: &Files,
    stop: CancellationToken,
    told: impl Fn(DemoEvent<'_>),
) -> Result<(), DemoError> {
    let tell = |line: &str| told(DemoEvent::Line(line));
    let FleetClusters { hub, members } = clusters;
    let story = FleetStory::begin(&hub, &members, files).await?;
    tokio::select! {
        () = stop.cancelled() => return Ok(()),
        prepared = story.prepare(&tell) => prepared?,
    }
    let (of_hub, of_members) = (hub_options(files), member_options(files));
    let fleet = DemoProcess::start("the fleet", |end| async move {
        let hub = async { Ok::<_, FleetError>(hub::run(of_hub, end.clone()).await?) };
        let members = async { Ok(member::run(of_members, end.clone()).await?) };
        tokio::try_join!(hub, members).map(drop)
    });
    let shown = DemoOutput {
        files,
        listed: FILES,
        commands: COMMANDS,
    };
    fleet.perform(stop, story.play(&tell), &shown, &told).await
}

/// A hub without listeners: several demonstrations may run concurrently.
fn hub_options(files: &Files) -> HubOptions {
    HubOptions {
        features: HubFeatures {
            evictions: true,
            update_runs: true,
            namespaced: true,
        },
        kubeconfig: Some(files.dir().join("hub.kubeconfig")),
        metrics_address: None,
        health_address: None,
        election: None,
        per_second: None,
        selection: SelectionRules {
            filter: ApiFilter::default(),
            skipped_namespaces: Vec::new(),
            hub_runs_workloads: false,
        },
        rules: HubSettings {
            policy: HubPolicy {
                debounce: Debounce::default(),
                windows: GracePeriods::default(),
            },
            force_delete: SignedDuration::from_mins(15),
            networking: false,
        },
        event_source: "placement-controller".into(),
        #[cfg(feature = "webhook")]
        webhook: None,
    }
}

fn member_options(files: &Files) -> MemberOptions {
    MemberOptions {
        hub_health_address: None,
        hub_metrics_address: None,
        acts_for: MemberSelection::Secrets {
            namespace: SYSTEM.to_owned(),
        },
        hub: RawHubArgs {
            kubeconfig: Some(files.dir().join("hub.kubeconfig")),
            ..RawHubArgs::default()
        },
        lease_namespace: None,
        health_address: None,
        metrics_address: None,
        rules: MemberRules {
            jobs: JobTracking::Tracked,
            reports_namespaces: false,
            deletion_wait: Duration::from_mins(5),
        },
    }
}
