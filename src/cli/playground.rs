//! `hawser playground`: control planes in memory.

use std::fs;
use std::io::{self, Write as _};
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use tokio_util::sync::CancellationToken;

use crate::demo::files::{Files, WriteError};
use crate::demo::{self, DemoError, DemoEvent, federation, placement};
use hawser_runtime::process::logging::{self, LogFormat, LogOptions, Verbosity};
use hawser_runtime::process::shutdown;
use kcp_playground::Playground;
use kcp_playground::PlaygroundError;
use kcp_playground::PlaygroundOptions;
use kcp_playground::server::FaultError;

/// Run a kcp, a service cluster and the agent in one process, with an example API.
///
/// For development and tests: state is in memory, tokens are static, and every request is allowed.
#[derive(Debug, Args)]
pub(super) struct PlaygroundArgs {
    /// Run the control planes only: no agent, no objects
    #[arg(long)]
    bare: bool,

    /// Show a federation instead: a host, three members and the control plane, each with a playground of its own
    #[arg(long, conflicts_with_all = ["bare", "port", "service_port", "token_file", "kcp_delays", "kcp_shards", "fault", "request_log"])]
    federation: bool,

    /// Show a fleet instead: a hub and three members, each with a playground of its own
    #[arg(long, conflicts_with_all = ["bare", "federation", "port", "service_port", "token_file", "kcp_delays", "kcp_shards", "fault", "request_log"])]
    placement: bool,

    /// Directory for kubeconfigs
    #[arg(long, default_value = "hawser-playground")]
    dir: PathBuf,

    /// Port of kcp on 127.0.0.1; 0 chooses a free one
    #[arg(long, default_value_t = 0)]
    port: u16,

    /// Port of the service cluster on 127.0.0.1; 0 chooses a free one
    #[arg(long, default_value_t = 0)]
    service_port: u16,

    /// File with more users, one a line: token,user,uid,"group1,group2"
    #[arg(long, value_name = "CSV")]
    token_file: Option<PathBuf>,

    /// Time that kcp takes until a new API is established, for example 5s
    #[arg(long, value_name = "DURATION", default_value = "0s", value_parser = kcp_playground::server::duration)]
    kcp_delays: Duration,
    /// Number of shards of kcp: workspaces are spread over them, and each has an endpoint of its own
    #[arg(long, value_name = "NUMBER", default_value = "1")]
    kcp_shards: NonZeroUsize,

    /// Fault to inject, for example 'verb=update status=409 rate=0.1'; can be given several times
    #[arg(long, value_name = "FAULT")]
    fault: Vec<String>,

    /// Seed of the random numbers of faults
    #[arg(long, default_value_t = 1)]
    seed: u64,

    /// File for a log of all requests, one line of JSON each
    #[arg(long, value_name = "FILE")]
    request_log: Option<PathBuf>,
}

#[derive(Debug, thiserror::Error)]
enum PlaygroundFailure {
    #[error("reading {path}")]
    Read { path: PathBuf, source: io::Error },
    #[error("writing {path}")]
    Write { path: PathBuf, source: io::Error },
    #[error("{path}")]
    Tokens {
        path: PathBuf,
        source: PlaygroundError,
    },
    #[error("--fault")]
    Fault(#[source] FaultError),
    #[error(transparent)]
    Start(#[from] PlaygroundError),
    #[error("starting the runtime")]
    Runtime(#[source] io::Error),
    #[error("listening for signals")]
    Signals(#[source] io::Error),
    #[error("finding the directory {path}")]
    Directory { path: PathBuf, source: io::Error },
    #[error(transparent)]
    File(#[from] WriteError),
    #[error("starting the log")]
    Log(#[source] tracing::subscriber::SetGlobalDefaultError),
    #[error(transparent)]
    Demo(#[from] DemoError),
}

/// Runs until told to stop.
pub(super) fn run(args: &PlaygroundArgs) -> ExitCode {
    match serve(args) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => super::output::fail(&failure),
    }
}

fn serve(args: &PlaygroundArgs) -> Result<(), PlaygroundFailure> {
    let options = options(args)?;
    // The commands that are printed work in any directory.
    let dir = if args.bare {
        args.dir.clone()
    } else {
        std::path::absolute(&args.dir).map_err(|source| PlaygroundFailure::Directory {
            path: args.dir.clone(),
            source,
        })?
    };
    let files = Files::below(&dir);
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(PlaygroundFailure::Runtime)?;
    let ended = runtime.block_on(async {
        // The signal handlers are installed before anything starts.
        let stop = shutdown::on_signal().map_err(PlaygroundFailure::Signals)?;
        if args.federation {
            return federate(&files, stop).await;
        }
        if args.placement {
            return place(&files, stop).await;
        }
        let playground = start(options, args).await?;
        let ended = if args.bare {
            bare(&playground, &files, stop).await
        } else {
            demonstrate(&playground, &files, stop).await
        };
        playground.stop().await;
        ended
    });
    // A task that does not come to its end must not keep the process.
    runtime.shutdown_background();
    ended
}

async fn start(
    options: PlaygroundOptions,
    args: &PlaygroundArgs,
) -> Result<Playground, PlaygroundFailure> {
    let started = Playground::start_with(options).await;
    started.map_err(|error| match (error, &args.token_file) {
        (source @ PlaygroundError::Tokens(_), Some(path)) => PlaygroundFailure::Tokens {
            path: path.clone(),
            source,
        },
        (error, _) => error.into(),
    })
}

/// Runs the control planes only.
async fn bare(
    playground: &Playground,
    files: &Files,
    stop: CancellationToken,
) -> Result<(), PlaygroundFailure> {
    let log = LogOptions {
        format: LogFormat::Console,
        verbosity: Verbosity::Warn,
    };
    logging::start(log).map_err(PlaygroundFailure::Log)?;
    files.kubeconfig("kcp.kubeconfig", &playground.kcp_kubeconfig())?;
    files.kubeconfig("service.kubeconfig", &playground.service_kubeconfig())?;
    print_line(&ready(playground, files.dir()));
    stop.cancelled().await;
    Ok(())
}

/// Runs the control planes with the demonstration in them.
async fn demonstrate(
    playground: &Playground,
    files: &Files,
    stop: CancellationToken,
) -> Result<(), PlaygroundFailure> {
    open_log(files, demo::LOG)?;
    let told = teller(|| ready(playground, files.dir()));
    Ok(demo::run(playground, files, stop, told).await?)
}

/// Runs a federation with the demonstration in it.
async fn federate(files: &Files, stop: CancellationToken) -> Result<(), PlaygroundFailure> {
    open_log(files, federation::LOG)?;
    let clusters = federation::start().await?;
    let told = teller(|| ready_by("host", files));
    Ok(federation::run(clusters, files, stop, told).await?)
}

/// Runs a fleet with the demonstration in it.
async fn place(files: &Files, stop: CancellationToken) -> Result<(), PlaygroundFailure> {
    open_log(files, placement::LOG)?;
    let clusters = placement::start().await?;
    let told = teller(|| ready_by("hub", files));
    Ok(placement::run(clusters, files, stop, told).await?)
}

/// Logs go to a file, because the terminal is for the demonstration.
fn open_log(files: &Files, name: &str) -> Result<(), PlaygroundFailure> {
    let log = LogOptions {
        format: LogFormat::Console,
        verbosity: Verbosity::Info,
    };
    logging::start_into(log, files.open(name)?).map_err(PlaygroundFailure::Log)?;
    print_line("Everything runs in this process and in memory; nothing is left when it ends.\n");
    Ok(())
}

fn teller(ready: impl Fn() -> String) -> impl Fn(DemoEvent<'_>) {
    move |told| match told {
        DemoEvent::Line(line) => print_line(line),
        DemoEvent::Ready => {
            print_line("Ctrl-C ends it.");
            print_line(&ready());
        }
    }
}

/// The line that scripts wait for, of several clusters.
fn ready_by(cluster: &str, files: &Files) -> String {
    let path = files.dir().join(format!("{cluster}.kubeconfig"));
    format!("ready: {cluster} by {}", path.display())
}

/// The line that scripts wait for.
fn ready(playground: &Playground, dir: &Path) -> String {
    format!(
        "ready: kcp at {} ({}), service cluster at {} ({})",
        playground.kcp_url(),
        dir.join("kcp.kubeconfig").display(),
        playground.service_url(),
        dir.join("service.kubeconfig").display(),
    )
}

/// Prints a line. A closed standard output does not end the control planes.
fn print_line(line: &str) {
    let _ = writeln!(io::stdout(), "{line}");
}

fn options(args: &PlaygroundArgs) -> Result<PlaygroundOptions, PlaygroundFailure> {
    let mut options = PlaygroundOptions {
        port: args.port,
        service_port: args.service_port,
        seed: args.seed,
        kcp_delays: args.kcp_delays,
        kcp_shards: args.kcp_shards,
        ..PlaygroundOptions::default()
    };
    if let Some(path) = &args.token_file {
        options.token_file =
            fs::read_to_string(path).map_err(|source| PlaygroundFailure::Read {
                path: path.clone(),
                source,
            })?;
    }
    for text in &args.fault {
        options
            .faults
            .push(text.parse().map_err(PlaygroundFailure::Fault)?);
    }
    if let Some(path) = &args.request_log {
        let file = fs::File::create(path).map_err(|source| PlaygroundFailure::Write {
            path: path.clone(),
            source,
        })?;
        options.log_sink = Some(Box::new(io::BufWriter::new(file)));
    }
    Ok(options)
}
