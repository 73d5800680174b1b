//! `hawser kubefedctl`: the command line of KubeFed.
//!
//! Has the flags, texts and exit codes of kubefedctl. [`hawser_federation::kubefedctl`] creates the objects and
//! most texts.

use std::process::ExitCode;

use clap::{Args, Subcommand};

use hawser_federation::kubefedctl::join::JoinError;
use hawser_federation::kubefedctl::version;
use hawser_runtime::errors::chain;

mod console;
mod disable;
mod enable;
mod federate;
mod flags;
mod join;
mod orphaning;
mod server;
mod unjoin;

use console::{CtlError, print, tell};

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
