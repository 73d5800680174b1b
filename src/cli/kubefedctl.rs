//! `hawser kubefedctl`: the command line of KubeFed.
//!
//! Has the flags, texts and exit codes of kubefedctl. [`hawser_federation::kubefedctl`] creates the objects and
//! most texts.

use std::io::{self, Write as _};
use std::process::ExitCode;

use clap::{Args, Subcommand};

use hawser_federation::kubefedctl::disable::DisableError;
use hawser_federation::kubefedctl::enable::EnableError;
use hawser_federation::kubefedctl::federate::{ArgumentError, FederateError};
use hawser_federation::kubefedctl::join::{Join, JoinError, host_name};
use hawser_federation::kubefedctl::orphaning::OrphaningError;
use hawser_federation::kubefedctl::yaml::YamlError;
use hawser_federation::kubefedctl::{LookupError, version};
use hawser_federation::placement::Scope;
use hawser_runtime::cluster::config::ConfigError;
use hawser_runtime::cluster::connection::{ConnectError, RequestError};
use hawser_runtime::errors::chain;

use super::agent::parse_bool;

mod disable;
mod enable;
mod federate;
mod join;
mod orphaning;
mod server;
mod unjoin;

use server::Server;

/// The exit code of kubefedctl for every failure.
pub(super) const FAILED: u8 = 255;

/// Join clusters to a federation, and federate types and objects.
///
/// Accepts the commands and flags of kubefedctl. `hawser` runs this command when it is called by that name.
#[derive(Debug, Args)]
pub(super) struct KubefedctlArgs {
    #[command(subcommand)]
    command: KubefedctlCommand,

    /// Log level; ignored
    #[arg(short, long, hide = true, global = true)]
    v: Option<String>,
}

#[derive(Debug, Subcommand)]
enum KubefedctlCommand {
    Join(join::JoinArgs),
    Unjoin(unjoin::UnjoinArgs),
    Enable(enable::EnableArgs),
    Disable(disable::DisableArgs),
    Federate(federate::FederateObjectArgs),
    OrphaningDeletion(orphaning::OrphaningArgs),
    /// Print the version
    Version,
}

/// Access to the host cluster.
#[derive(Debug, Args)]
#[allow(clippy::doc_markdown)] // These comments are the help.
struct HostFlags {
    /// Kubeconfig with the contexts [default: $KUBECONFIG, else ~/.kube/config]
    #[arg(
        long,
        value_name = "FILE",
        default_value = "",
        hide_default_value = true
    )]
    kubeconfig: String,

    /// Context of the host cluster [default: the current one]
    #[arg(
        long,
        value_name = "NAME",
        default_value = "",
        hide_default_value = true
    )]
    host_cluster_context: String,
}

/// The control plane, and dry run.
#[derive(Debug, Args)]
struct ControlFlags {
    #[command(flatten)]
    host: HostFlags,

    /// Namespace of the control plane
    #[arg(long, value_name = "NAME", default_value = "kube-federation-system")]
    kubefed_namespace: String,

    /// Write nothing
    #[arg(long, value_name = "BOOL", value_parser = parse_bool, default_value = "false")]
    #[arg(num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    dry_run: bool,
}

/// The cluster that joins or leaves.
#[derive(Debug, Args)]
struct ClusterFlags {
    /// Name of the cluster
    #[arg(value_name = "CLUSTER")]
    names: Vec<String>,

    #[command(flatten)]
    control: ControlFlags,

    /// Context of the cluster [default: its name]
    #[arg(
        long,
        value_name = "NAME",
        default_value = "",
        hide_default_value = true
    )]
    cluster_context: String,

    /// Name of the host cluster in names of accounts, the same for join and unjoin [default: its context]
    #[arg(
        long,
        value_name = "NAME",
        default_value = "",
        hide_default_value = true
    )]
    host_cluster_name: String,
}

impl ClusterFlags {
    /// Checks the names. Returns the host and the join; its scope is for commands that create objects.
    fn begin(&self) -> Result<(Server, Join), CtlError> {
        let name = self.names.first().map(String::as_str);
        let flag = given(&self.host_cluster_name);
        host_name(name, flag, "")?;
        let host = Server::host(&self.control.host)?;
        let join = Join {
            cluster: self.name().to_owned(),
            host: host_name(name, flag, &host.context)?.to_owned(),
            namespace: self.control.kubefed_namespace.clone(),
            scope: Scope::Cluster,
        };
        Ok((host, join))
    }

    fn member(&self) -> Result<Server, CtlError> {
        let context = given(&self.cluster_context).unwrap_or(self.name());
        Server::of(&self.control.host, Some(context))
    }

    fn name(&self) -> &str {
        self.names.first().map_or("", String::as_str)
    }
}

#[derive(Debug, thiserror::Error)]
enum CtlError {
    #[error(transparent)]
    Join(#[from] JoinError),
    #[error(transparent)]
    Enable(#[from] EnableError),
    #[error(transparent)]
    Disable(#[from] DisableError),
    #[error(transparent)]
    Argument(#[from] ArgumentError),
    #[error(transparent)]
    Federate(#[from] FederateError),
    #[error(transparent)]
    Orphaning(#[from] OrphaningError),
    #[error(transparent)]
    Lookup(#[from] LookupError),
    #[error(transparent)]
    Config(#[from] ConfigError),
    #[error(transparent)]
    Connect(#[from] ConnectError),
    #[error("starting the runtime")]
    Runtime(#[source] io::Error),
    #[error("{}", said(.0))]
    Ask(#[from] RequestError),
    #[error("{what}: {}", said(.error))]
    Act {
        what: String,
        error: Box<RequestError>,
    },
    #[error("reading {file}: {source}")]
    Read { file: String, source: io::Error },
    #[error("{file}: {source}")]
    Yaml { file: String, source: YamlError },
    #[error("{file}: {problem}")]
    Document { file: String, problem: String },
    #[error("{0}")]
    Waited(String),
}

/// The message of a server, or why there is none.
fn said(error: &RequestError) -> String {
    match error {
        RequestError::Refused(refusal) if !refusal.message.is_empty() => refusal.message.clone(),
        RequestError::Refused(_) | RequestError::Call(_) => error.to_string(),
    }
}

/// Adds the attempted action to a failure.
fn trying(what: impl Into<String>) -> impl FnOnce(RequestError) -> CtlError {
    let what = what.into();
    |error| CtlError::Act {
        what,
        error: Box::new(error),
    }
}

pub(super) fn run(args: KubefedctlArgs) -> ExitCode {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    let done = runtime
        .map_err(CtlError::Runtime)
        .and_then(|runtime| runtime.block_on(act(args.command)));
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let prefix = match error {
                CtlError::Join(JoinError::HostContext) => "",
                _ => "Error: ",
            };
            tell(&format!("{prefix}{}", chain(&error)));
            ExitCode::from(FAILED)
        }
    }
}

async fn act(command: KubefedctlCommand) -> Result<(), CtlError> {
    match command {
        KubefedctlCommand::Join(args) => join::run(args).await,
        KubefedctlCommand::Unjoin(args) => unjoin::run(args).await,
        KubefedctlCommand::Enable(args) => enable::run(args).await,
        KubefedctlCommand::Disable(args) => disable::run(args).await,
        KubefedctlCommand::Federate(args) => federate::run(args).await,
        KubefedctlCommand::OrphaningDeletion(args) => orphaning::run(args).await,
        KubefedctlCommand::Version => {
            let platform = format!("{}/{}", std::env::consts::OS, std::env::consts::ARCH);
            print(&format!(
                "{}\n",
                version(env!("CARGO_PKG_VERSION"), &platform)
            ));
            Ok(())
        }
    }
}

/// Writes to stdout.
fn print(text: &str) {
    // Nobody reads what cannot be written.
    let _ = io::stdout().write_all(text.as_bytes());
}

/// Writes a line to stderr.
fn tell(line: &str) {
    // Nobody reads what cannot be written.
    let _ = writeln!(io::stderr(), "{line}");
}

/// The text of a file; `-` is stdin.
fn read(file: &str) -> Result<String, CtlError> {
    let text = if file == "-" {
        io::read_to_string(io::stdin())
    } else {
        std::fs::read_to_string(file)
    };
    text.map_err(|source| CtlError::Read {
        file: file.to_owned(),
        source,
    })
}

/// The flag, unless it is empty.
fn given(flag: &str) -> Option<&str> {
    Some(flag).filter(|text| !text.is_empty())
}
