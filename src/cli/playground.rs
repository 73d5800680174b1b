//! `hawser playground`: control planes to try things on.

use std::fs;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;
use serde_json::Value;

use crate::playground::server::{Fault, FaultError};
use crate::playground::{Playground, PlaygroundError, PlaygroundOptions};

/// A kcp and a service cluster in this process, for development and tests: all state is in memory,
/// tokens are static, nobody is forbidden anything.
#[derive(Debug, Args)]
pub(super) struct PlaygroundArgs {
    /// Run just the control planes, until SIGTERM or Ctrl-C
    #[arg(long, required = true)]
    bare: bool,

    /// Where kcp.kubeconfig and service.kubeconfig are written to
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
    #[error("--fault {text:?}")]
    Fault { text: String, source: FaultError },
    #[error(transparent)]
    Start(#[from] PlaygroundError),
    #[error("starting the runtime")]
    Runtime(#[source] io::Error),
    #[error("listening for signals")]
    Signals(#[source] io::Error),
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
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(Failure::Runtime)?;
    let ended = runtime.block_on(async {
        // Before anybody can know that there is something to end.
        let signals = Signals::listen().map_err(Failure::Signals)?;
        let playground =
            Playground::start(options)
                .await
                .map_err(|error| match (error, &args.token_file) {
                    (source @ PlaygroundError::Tokens(_), Some(path)) => Failure::Tokens {
                        path: path.clone(),
                        source,
                    },
                    (error, _) => error.into(),
                })?;
        let kcp = write(&args.dir, "kcp.kubeconfig", &playground.kcp_kubeconfig())?;
        let service = write(
            &args.dir,
            "service.kubeconfig",
            &playground.service_kubeconfig(),
        )?;
        // A reader that is gone does not end the control planes.
        let _ = writeln!(
            io::stdout(),
            "ready: kcp at {} ({}), service cluster at {} ({})",
            playground.kcp_url(),
            kcp.display(),
            playground.service_url(),
            service.display(),
        );
        signals.wait().await;
        playground.stop().await;
        Ok(())
    });
    // A task that does not come to its end must not keep the process.
    runtime.shutdown_background();
    ended
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
        let fault: Fault = text.parse().map_err(|source| Failure::Fault {
            text: text.clone(),
            source,
        })?;
        options.faults.push(fault);
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

/// Writes a kubeconfig, which holds a token, for its owner alone; never half of it.
fn write(dir: &Path, name: &str, kubeconfig: &Value) -> Result<PathBuf, Failure> {
    let path = dir.join(name);
    let failed = |source| Failure::Write {
        path: path.clone(),
        source,
    };
    fs::create_dir_all(dir).map_err(failed)?;
    let unfinished = dir.join(format!(".{name}.{}", std::process::id()));
    let mut file = private(&unfinished).map_err(failed)?;
    let yaml =
        serde_saphyr::to_string(kubeconfig).map_err(|error| failed(io::Error::other(error)))?;
    file.write_all(yaml.as_bytes()).map_err(failed)?;
    fs::rename(&unfinished, &path).map_err(failed)?;
    Ok(path)
}

fn private(path: &Path) -> io::Result<fs::File> {
    let mut options = fs::OpenOptions::new();
    options.write(true).create(true).truncate(true);
    #[cfg(unix)]
    {
        use std::os::unix::fs::OpenOptionsExt as _;
        options.mode(0o600);
    }
    options.open(path)
}

/// What asks a process to end.
struct Signals {
    terminate: tokio::signal::unix::Signal,
    interrupt: tokio::signal::unix::Signal,
}

impl Signals {
    fn listen() -> io::Result<Self> {
        use tokio::signal::unix::{SignalKind, signal};
        Ok(Self {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
        })
    }

    async fn wait(mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }
}
