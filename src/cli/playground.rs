//! `hawser playground`: control planes to try things on.

use std::fs;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;
use tokio_util::sync::CancellationToken;

use crate::demo::files::{Files, WriteError};
use crate::demo::{self, DemoError, Told};
use hawser_runtime::process::logging::{self, LogFormat, LogOptions, Verbosity};
use hawser_runtime::process::shutdown;
use kcp_playground::Playground;
use kcp_playground::PlaygroundError;
use kcp_playground::PlaygroundOptions;
use kcp_playground::server::FaultError;

/// A kcp, a service cluster and the agent between them in this process, with an API that is published
/// and used. For development and tests: all state is in memory, tokens are static, nobody is forbidden
/// anything.
#[derive(Debug, Args)]
pub(super) struct PlaygroundArgs {
    /// Run just the control planes: no agent, nothing in them
    #[arg(long)]
    bare: bool,

    /// Where kubeconfigs are written to
    #[arg(long, default_value = "hawser-playground")]
    dir: PathBuf,

    /// The port of kcp on 127.0.0.1; 0 takes a free one
    #[arg(long, default_value_t = 0)]
    port: u16,

    /// The port of the service cluster on 127.0.0.1; 0 takes a free one
    #[arg(long, default_value_t = 0)]
    service_port: u16,

    /// More users, a line each: token,user,uid,"group1,group2"
    #[arg(long, value_name = "CSV")]
    token_file: Option<PathBuf>,

    /// What goes wrong, such as 'verb=update status=409 rate=0.1'; can be given several times
    #[arg(long, value_name = "FAULT")]
    fault: Vec<String>,

    /// Makes the chance in faults repeatable
    #[arg(long, default_value_t = 1)]
    seed: u64,

    /// Where each request is written to, a line of JSON each
    #[arg(long, value_name = "FILE")]
    request_log: Option<PathBuf>,
}

#[derive(Debug, thiserror::Error)]
enum Failure {
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
        Err(failure) => super::fail(&failure),
    }
}

fn serve(args: &PlaygroundArgs) -> Result<(), Failure> {
    let options = options(args)?;
    // What is printed to be used from anywhere is valid anywhere.
    let dir = if args.bare {
        args.dir.clone()
    } else {
        std::path::absolute(&args.dir).map_err(|source| Failure::Directory {
            path: args.dir.clone(),
            source,
        })?
    };
    let files = Files::below(&dir);
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(Failure::Runtime)?;
    let ended = runtime.block_on(async {
        // Before anybody can know that there is something to end.
        let stop = shutdown::on_signal().map_err(Failure::Signals)?;
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

async fn start(options: PlaygroundOptions, args: &PlaygroundArgs) -> Result<Playground, Failure> {
    let started = Playground::start(options).await;
    started.map_err(|error| match (error, &args.token_file) {
        (source @ PlaygroundError::Tokens(_), Some(path)) => Failure::Tokens {
            path: path.clone(),
            source,
        },
        (error, _) => error.into(),
    })
}

/// Just the control planes.
async fn bare(
    playground: &Playground,
    files: &Files,
    stop: CancellationToken,
) -> Result<(), Failure> {
    let log = LogOptions {
        format: LogFormat::Console,
        verbosity: Verbosity::Warn,
    };
    logging::start(log).map_err(Failure::Log)?;
    files.kubeconfig("kcp.kubeconfig", &playground.kcp_kubeconfig())?;
    files.kubeconfig("service.kubeconfig", &playground.service_kubeconfig())?;
    say(&ready(playground, files.dir()));
    stop.cancelled().await;
    Ok(())
}

/// The control planes with everything in them.
async fn demonstrate(
    playground: &Playground,
    files: &Files,
    stop: CancellationToken,
) -> Result<(), Failure> {
    let log = LogOptions {
        format: LogFormat::Console,
        verbosity: Verbosity::Info,
    };
    logging::start_into(log, files.open(demo::LOG)?).map_err(Failure::Log)?;
    say("Everything is in memory, in this one process, and gone when it ends.\n");
    let told = |told: Told<'_>| match told {
        Told::Line(line) => say(line),
        Told::Ready => {
            say("Ctrl-C ends all of it.");
            say(&ready(playground, files.dir()));
        }
    };
    Ok(demo::run(playground, files, stop, told).await?)
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

/// A reader that is gone does not end the control planes.
fn say(line: &str) {
    let _ = writeln!(io::stdout(), "{line}");
}

fn options(args: &PlaygroundArgs) -> Result<PlaygroundOptions, Failure> {
    let mut options = PlaygroundOptions {
        port: args.port,
        service_port: args.service_port,
        seed: args.seed,
        ..PlaygroundOptions::default()
    };
    if let Some(path) = &args.token_file {
        options.token_file = fs::read_to_string(path).map_err(|source| Failure::Read {
            path: path.clone(),
            source,
        })?;
    }
    for text in &args.fault {
        options.faults.push(text.parse().map_err(Failure::Fault)?);
    }
    if let Some(path) = &args.request_log {
        let file = fs::File::create(path).map_err(|source| Failure::Write {
            path: path.clone(),
            source,
        })?;
        options.log_sink = Some(Box::new(io::BufWriter::new(file)));
    }
    Ok(options)
}
