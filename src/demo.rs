//! A demonstration in one process: a playground, the agent, and both sides of one published API.
//!
//! | module | content |
//! |---|---|
//! | `error` | why a demonstration fails |
//! | `example` | the API that is published |
//! | [`federation`] | the demonstration of a federation, with a playground for each cluster |
//! | `next` | commands to try afterwards |
//! | `nodes` | simple controllers and nodes of a cluster |
//! | [`placement`] | the demonstration of a fleet, with a playground for each cluster |
//! | `story` | the steps of the demonstration, and their output |
//! | `operator` | a simple operator of the example's type |
//! | `place` | a client of one control plane with retries |
//! | [`files`] | the files for the user |
//!
//! It uses the agent and the playground by kubeconfigs, like an administrator. Neither depends on the other.

use std::collections::BTreeSet;
use std::error::Error;
use std::num::NonZeroUsize;
use std::time::Duration;

use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;

use crate::publish::agent::options::{AgentOptions, DeletionBrake, InFlight, LeaderElection};
use crate::publish::agent::process;
use crate::publish::pause::LONGEST_OF_CONSUMERS;
use hawser_runtime::cluster::config::Lookup;
use hawser_runtime::overview::site::PAGE_ADDRESS;
use hawser_runtime::process::shutdown;
use kcp_playground::Playground;
use kube_lang::selector::Selector;

mod error;
mod example;
pub mod federation;
pub mod files;
mod next;
mod nodes;
mod operator;
mod place;
pub mod placement;
mod story;

pub use error::DemoError;
pub use next::LOG;

use example::Example;
use files::Files;
use story::Walkthrough;

/// The time limit for the agent's shutdown.
const DRAIN: Duration = Duration::from_secs(5);

/// The default limits of the agent.
const IN_FLIGHT: NonZeroUsize = NonZeroUsize::new(32).expect("32 is not zero");

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
    let story = Walkthrough::begin(playground, files, Example::read()?).await?;
    tokio::select! {
        () = stop.cancelled() => return Ok(()),
        prepared = story.prepare(&tell) => prepared?,
    }
    let options = options(&story);
    let agent = DemoProcess::start("the agent", |end| process::run(options, end));
    let client = story.service_client().await?;
    let _operator = AbortOnDropHandle::new(tokio::spawn(operator::run(client)));
    let shown = DemoOutput {
        files,
        listed: next::FILES,
        commands: next::COMMANDS,
    };
    agent.perform(stop, story.play(&tell), &shown, &told).await
}

/// The files and commands that the user gets after the steps.
struct DemoOutput<'a> {
    files: &'a Files,
    /// The files with their purposes.
    listed: &'a [(&'a str, &'a str)],
    /// Commands with their purposes.
    commands: &'a [(&'a str, &'a str)],
}

/// The process that a demonstration is about.
struct DemoProcess {
    what: &'static str,
    end: CancellationToken,
    process: AbortOnDropHandle<Result<(), DemoError>>,
}

impl DemoProcess {
    fn start<F, E>(what: &'static str, process: impl FnOnce(CancellationToken) -> F) -> Self
    where
        F: Future<Output = Result<(), E>> + Send + 'static,
        E: Error + Send + Sync + 'static,
    {
        let end = CancellationToken::new();
        let process = process(end.clone());
        let process = async move {
            let ended = process.await;
            ended.map_err(|error| DemoError::Ended(what, Box::new(error)))
        };
        Self {
            what,
            end,
            process: AbortOnDropHandle::new(tokio::spawn(process)),
        }
    }

    /// Runs the steps, prints commands to try, and runs on until it is stopped.
    async fn perform(
        mut self,
        stop: CancellationToken,
        steps: impl Future<Output = Result<(), DemoError>>,
        shown: &DemoOutput<'_>,
        told: impl Fn(DemoEvent<'_>),
    ) -> Result<(), DemoError> {
        let played = async {
            steps.await?;
            for line in next::lines(shown.files.dir(), shown.listed, shown.commands) {
                told(DemoEvent::Line(&line));
            }
            told(DemoEvent::Ready);
            std::future::pending().await
        };
        let ended = tokio::select! {
            () = stop.cancelled() => Ok(()),
            failed = played => failed,
            ended = &mut self.process => {
                return Err(match ended {
                    Ok(Err(error)) => error,
                    Ok(Ok(())) | Err(_) => DemoError::Gone(self.what),
                });
            }
        };
        self.end.cancel();
        let what = format!("stopping {}", self.what);
        match shutdown::within(DRAIN, &what, self.process).await {
            // What went wrong before is what counts.
            Some(Ok(Err(error))) if ended.is_ok() => Err(error),
            _ => ended,
        }
    }
}

/// An agent without metrics and probes. If several demonstrations run concurrently, one of them has the page.
fn options(story: &Walkthrough<'_>) -> AgentOptions {
    AgentOptions {
        kcp_kubeconfig: story.provider_kubeconfig.clone(),
        namespace: story::NAMESPACE.to_owned(),
        slice: story::EXPORT.to_owned(),
        agent_name: "demo".to_owned(),
        selector: Selector::everything(),
        disabled: BTreeSet::new(),
        leader_election: LeaderElection::Off,
        shards: NonZeroUsize::MIN,
        service_cluster: Lookup {
            kubeconfig: Some(story.service_kubeconfig.clone()),
            ..Lookup::default()
        },
        metrics_address: None,
        health_address: None,
        page_address: Some(PAGE_ADDRESS.to_owned()),
        trace_context: false,
        in_flight: InFlight {
            kcp: IN_FLIGHT,
            service: IN_FLIGHT,
        },
        deletion_brake: DeletionBrake::Share(0.5),
        workspace_cache: None,
        longest_pause: LONGEST_OF_CONSUMERS,
    }
}
