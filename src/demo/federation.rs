//! The demonstration of a federation: a host, three members, and the control plane between them.
//!
//! Each cluster is a separate playground, so that one can stop.

use tokio_util::sync::CancellationToken;

use super::files::Files;
use super::{DemoError, DemoEvent, DemoOutput, DemoProcess, nodes};
use crate::federation::options::FederationOptions;
use crate::federation::process;
use hawser_federation::check::CheckSettings;
use hawser_federation::pods::PodTimeouts;
use kcp_playground::{Playground, PlaygroundError, PlaygroundOptions};

mod story;

use story::{FederationStory, MEMBERS, SYSTEM};

/// The log file of the control plane.
pub const LOG: &str = "federate.log";

/// The files and their purposes.
const FILES: &[(&str, &str)] = &[
    ("host.kubeconfig", "the host"),
    ("cluster1.kubeconfig", "a member"),
    ("cluster2.kubeconfig", "the member that stops answering"),
    ("cluster3.kubeconfig", "a member"),
    (LOG, "the log of the control plane"),
];

/// Commands with their purposes.
const COMMANDS: &[(&str, &str)] = &[
    (
        "the members",
        "kubectl --kubeconfig host.kubeconfig get kubefedclusters --namespace kube-federation-system",
    ),
    (
        "the federated Deployment, with its replicas by member in an annotation, and its events",
        "kubectl --kubeconfig host.kubeconfig describe federateddeployment web --namespace shop",
    ),
    (
        "more replicas: the remaining members share them",
        r#"kubectl --kubeconfig host.kubeconfig patch federateddeployment web --namespace shop --type=merge --patch='{"spec":{"template":{"spec":{"replicas":12}}}}'"#,
    ),
    (
        "the control plane reverts changes by others in a member",
        r#"kubectl --kubeconfig cluster1.kubeconfig patch deployment web --namespace shop --type=merge --patch='{"spec":{"template":{"spec":{"containers":[]}}}}'"#,
    ),
    (
        "",
        "kubectl --kubeconfig cluster1.kubeconfig wait deployment web --namespace shop --for=jsonpath='{.spec.template.spec.containers[0].name}'=web",
    ),
];

/// The clusters of the demonstration.
pub struct FederationClusters {
    host: Playground,
    members: Vec<Playground>,
}

/// Starts all clusters.
pub async fn start() -> Result<FederationClusters, PlaygroundError> {
    let members = MEMBERS.map(|_| {
        Playground::start_with(PlaygroundOptions {
            stand_ins: nodes::KINDS.to_vec(),
            ..PlaygroundOptions::default()
        })
    });
    let members = futures::future::try_join_all(members);
    let (host, members) = tokio::try_join!(Playground::start(), members)?;
    Ok(FederationClusters { host, members })
}

/// Runs the demonstration, reports it line by line, and keeps everything running until it is stopped.
pub async fn run(
    clusters: FederationClusters,
    files: &Files,
    stop: CancellationToken,
    told: impl Fn(DemoEvent<'_>),
) -> Result<(), DemoError> {
    let tell = |line: &str| told(DemoEvent::Line(line));
    let FederationClusters { host, members } = clusters;
    let mut story = FederationStory::begin(&host, members, files).await?;
    let options = FederationOptions {
        kubeconfig: Some(files.dir().join("host.kubeconfig")),
        namespace: SYSTEM.to_owned(),
        master: None,
        config_file: None,
        per_second: None,
        scope: None,
        give_up_after: None,
        overrides_all: false,
        federates_annotations: false,
        healthz_address: None,
        metrics_address: None,
        scheduling: CheckSettings {
            patience: PodTimeouts {
                scheduled: 1,
                running: 1,
            },
            period: 1,
            ..CheckSettings::default()
        },
        #[cfg(feature = "webhook")]
        webhook: None,
    };
    tokio::select! {
        () = stop.cancelled() => return Ok(()),
        prepared = story.prepare(&tell) => prepared?,
    }
    let control_plane = DemoProcess::start("the control plane", |end| process::run(options, end));
    let shown = DemoOutput {
        files,
        listed: FILES,
        commands: COMMANDS,
    };
    control_plane
        .perform(stop, story.play(&tell), &shown, &told)
        .await
}
