//! A demonstration in one process: a playground, the agent in it, and both sides of one published API.
//!
//! | module | content |
//! |---|---|
//! | `example` | the API that is published |
//! | [`federation`] | the demonstration of a federation, with a playground for each cluster |
//! | `next` | commands to try afterwards |
//! | `story` | the steps of the demonstration, and what is printed of them |
//! | `operator` | the operator of the example's type, as a toy |
//! | `place` | a client of one control plane with retries |
//! | [`files`] | the files that are left for the user |
//!
//! It uses the agent and the playground, which know nothing of each other, like an administrator with kubeconfigs.

use std::collections::BTreeSet;
use std::num::NonZeroUsize;
use std::time::Duration;

use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;

use crate::federation::process::FederationError;
use crate::publish::agent::options::{AgentOptions, DeletionBrake, InFlight, LeaderElection};
use crate::publish::agent::process::{self, AgentError};
use hawser_runtime::cluster::config::Lookup;
use hawser_runtime::cluster::connection::ConnectError;
use hawser_runtime::process::shutdown;
use kcp_playground::Playground;
use kube_lang::selector::Selector;

mod example;
pub mod federation;
pub mod files;
mod next;
mod operator;
mod place;
mod story;

use example::Example;
use files::{Files, WriteError};
use story::Story;

/// The log file of the agent.
pub const LOG: &str = "agent.log";

/// The namespace of the agent on the service cluster.
const NAMESPACE: &str = "hawser";

/// The time limit for the agent's shutdown.
const DRAIN: Duration = Duration::from_secs(5);

/// The default limits of the agent.
const IN_FLIGHT: NonZeroUsize = NonZeroUsize::new(32).expect("32 is not zero");

#[derive(Debug, thiserror::Error)]
pub enum DemoError {
    #[error("reading a manifest of the example")]
    Manifest(#[source] Box<serde_saphyr::Error>),
    #[error("reading a kubeconfig of the playground")]
    Kubeconfig(#[source] serde_json::Error),
    #[error("using a kubeconfig of the playground")]
    Config(#[from] Box<kube::config::KubeconfigError>),
    #[error("connecting to the playground")]
    Connect(#[from] ConnectError),
    #[error("connecting the operator to the playground")]
    Client(#[source] Box<kube::Error>),
    #[error(transparent)]
    Write(#[from] WriteError),
    #[error("{what} took too long: {said}")]
    Stuck { what: String, said: String },
    #[error("the agent ended")]
    Agent(#[source] AgentError),
    #[error("the agent ended unexpectedly")]
    AgentGone,
    #[error("the control plane ended")]
    ControlPlane(#[source] Box<FederationError>),
    #[error("the control plane ended unexpectedly")]
    ControlPlaneGone,
}

/// The output of the demonstration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DemoEvent<'a> {
    Line(&'a str),
    /// All lines were printed; from now on it only runs.
    Ready,
}

/// Runs the demonstration in a playground that has just been started, reports it line by line, and keeps agent and
/// operator running until it is stopped.
pub async fn run(
    playground: &Playground,
    files: &Files,
    stop: CancellationToken,
    told: impl Fn(DemoEvent<'_>),
) -> Result<(), DemoError> {
    let tell = |line: &str| told(DemoEvent::Line(line));
    let story = Story::begin(playground, files, Example::read()?).await?;
    tokio::select! {
        () = stop.cancelled() => return Ok(()),
        prepared = story.prepare(&tell) => prepared?,
    }
    let end = CancellationToken::new();
    let agent = process::run(options(&story), end.clone());
    let mut agent = AbortOnDropHandle::new(tokio::spawn(agent));
    let client = story.service_client().await?;
    let _operator = AbortOnDropHandle::new(tokio::spawn(operator::run(client)));
    let played = async {
        story.play(&tell).await?;
        for line in next::lines(files.dir(), next::FILES, next::COMMANDS) {
            tell(&line);
        }
        told(DemoEvent::Ready);
        std::future::pending().await
    };
    let ended = tokio::select! {
        () = stop.cancelled() => Ok(()),
        failed = played => failed,
        ended = &mut agent => return Err(gone(ended)),
    };
    end.cancel();
    let drained = shutdown::within(DRAIN, "stopping the agent", agent).await;
    match drained {
        // What went wrong before is what counts.
        Some(Ok(Err(error))) if ended.is_ok() => Err(DemoError::Agent(error)),
        _ => ended,
    }
}

fn gone(ended: Result<Result<(), AgentError>, tokio::task::JoinError>) -> DemoError {
    match ended {
        Ok(Err(error)) => DemoError::Agent(error),
        Ok(Ok(())) | Err(_) => DemoError::AgentGone,
    }
}

/// An agent without listeners: several demonstrations may run concurrently.
fn options(story: &Story<'_>) -> AgentOptions {
    AgentOptions {
        kcp_kubeconfig: story.provider_kubeconfig.clone(),
        namespace: NAMESPACE.to_owned(),
        slice: story::EXPORT.to_owned(),
        agent_name: "demo".to_owned(),
        selector: Selector::everything(),
        disabled: BTreeSet::new(),
        leader_election: LeaderElection::Off,
        service_cluster: Lookup {
            kubeconfig: Some(story.service_kubeconfig.clone()),
            ..Lookup::default()
        },
        metrics_address: None,
        health_address: None,
        in_flight: InFlight {
            kcp: IN_FLIGHT,
            service: IN_FLIGHT,
        },
        deletion_brake: DeletionBrake::Share(0.5),
        workspace_cache: None,
    }
}
