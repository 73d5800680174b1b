//! `hawser orphans`: what workspaces that do not bind the API any more have left on the service cluster.

use std::fmt::Write as _;
use std::io::{self, Write as _};
use std::process::ExitCode;

use clap::{Args, Subcommand};

use crate::publish::agent::options::{AgentOptions, Given, Problems};
use crate::publish::agent::orphans::{Found, Orphan, OrphansError, Removal, Search, Sort, counted};
use crate::publish::agent::process::AgentError;

/// Lists, or removes, what workspaces that do not bind the API any more have left on the service cluster.
#[derive(Debug, Args)]
pub(super) struct OrphansArgs {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Lists orphans: copies, related copies, and states
    List(Where),
    /// Removes orphans; without --confirm it only says what it would remove
    Remove {
        #[command(flatten)]
        place: Where,

        /// How many objects are to be removed, as they were listed: any other number removes nothing
        #[arg(long, value_name = "NUMBER")]
        confirm: Option<usize>,
    },
}

/// The flags of the agent that made the copies, and the workspace.
#[derive(Debug, Args)]
#[allow(clippy::doc_markdown)] // These comments are the help.
struct Where {
    /// Kubeconfig of the service cluster [default: $KUBECONFIG, else the Pod's service account, else ~/.kube/config]
    #[arg(long, value_name = "FILE", default_value = "")]
    kubeconfig: String,

    /// Kubeconfig of the kcp workspace that has the APIExportEndpointSlice
    #[arg(long, value_name = "FILE")]
    kcp_kubeconfig: String,

    /// Namespace of the service cluster with what the agent remembers
    #[arg(long, value_name = "NAME")]
    namespace: String,

    /// Name of the APIExportEndpointSlice
    #[arg(long, value_name = "NAME")]
    apiexportendpointslice_ref: String,

    /// What the agent is called [default: the slice's name with -syncagent]
    #[arg(long, value_name = "NAME", default_value = "")]
    agent_name: String,

    /// Only what is left of this logical cluster
    #[arg(long, value_name = "CLUSTER")]
    workspace: Option<String>,
}

#[derive(Debug, thiserror::Error)]
enum Failed {
    #[error(transparent)]
    Options(#[from] Problems),
    #[error("starting the runtime")]
    Runtime(#[from] io::Error),
    #[error(transparent)]
    Agent(#[from] AgentError),
    #[error(transparent)]
    Orphans(#[from] OrphansError),
    #[error("there are {found} orphans and not {confirmed}: nothing was removed")]
    Unconfirmed { found: usize, confirmed: usize },
    #[error("{0} of them are left")]
    Left(usize),
}

#[expect(
    clippy::result_large_err,
    reason = "there is one, at the end of the process"
)]
pub(super) fn run(args: OrphansArgs) -> ExitCode {
    let done = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(Failed::from)
        .and_then(|runtime| runtime.block_on(act(args.action)));
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(failed) => super::fail(&failed),
    }
}

async fn act(action: Action) -> Result<(), Failed> {
    let (place, confirm) = match action {
        Action::List(place) => (place, None),
        Action::Remove { place, confirm } => (place, Some(confirm)),
    };
    let workspace = place.workspace.clone();
    let search = Search::new(place.options()?)?;
    let found = search.find(workspace.as_deref()).await?;
    let count = found.orphans.len();
    match confirm {
        None | Some(None) => say(&listed(&found)),
        Some(Some(confirmed)) if confirmed != count => {
            say(&listed(&found));
            return Err(Failed::Unconfirmed {
                found: count,
                confirmed,
            });
        }
        Some(Some(_)) => return remove(&search, &found.orphans).await,
    }
    if confirm.is_some() && count > 0 {
        say(&format!(
            "Nothing was removed. To remove all of it, repeat with --confirm={count}\n"
        ));
    }
    Ok(())
}

async fn remove(search: &Search, orphans: &[Orphan]) -> Result<(), Failed> {
    let mut left = 0;
    let told = |orphan: &Orphan, removal: &Removal| {
        left += usize::from(*removal != Removal::Removed);
        let became = match removal {
            Removal::Removed => "removed".to_owned(),
            Removal::InDeletion => "in deletion: a finalizer keeps it".to_owned(),
            Removal::Left => {
                "left: see what precedes it, or its workspace binds the API again".to_owned()
            }
            Removal::Failed(why) => format!("not removed: {why}"),
        };
        say(&format!("{}  {became}\n", line(orphan)));
    };
    search.remove(orphans, told).await?;
    if left > 0 {
        Err(Failed::Left(left))
    } else {
        Ok(())
    }
}

fn listed(found: &Found) -> String {
    let mut text = String::new();
    for orphan in &found.orphans {
        text.push_str(&line(orphan));
        text.push('\n');
    }
    let workspaces = counted(&found.orphans);
    for (workspace, count) in &workspaces {
        let _ = writeln!(text, "{workspace}: {count}");
    }
    let _ = writeln!(
        text,
        "{} orphans of {} workspaces; {} workspaces bind the API",
        found.orphans.len(),
        workspaces.len(),
        found.bound
    );
    text
}

fn line(orphan: &Orphan) -> String {
    let what = match orphan.sort {
        Sort::Copy => "copy",
        Sort::RelatedCopy => "related",
        Sort::State => "state",
    };
    let namespace = orphan.namespace.as_deref().unwrap_or_default();
    let slash = if namespace.is_empty() { "" } else { "/" };
    format!(
        "{}  {what}  {} {namespace}{slash}{}",
        orphan.workspace, orphan.kind, orphan.name
    )
}

fn say(text: &str) {
    // A reader that is gone needs no answer.
    let _ = io::stdout().write_all(text.as_bytes());
}

// === impl Where ===

impl Where {
    /// As the agent takes them.
    fn options(self) -> Result<AgentOptions, Problems> {
        let given = Given {
            kubeconfig: self.kubeconfig,
            kcp_kubeconfig: self.kcp_kubeconfig,
            namespace: self.namespace,
            slice: self.apiexportendpointslice_ref,
            agent_name: self.agent_name,
            max_in_flight_kcp: 1,
            max_in_flight_service: 1,
            deletion_brake: "off".to_owned(),
            ..Given::default()
        };
        Ok(given.check()?.options)
    }
}
