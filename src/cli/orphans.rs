//! `hawser orphans`: copies on the service cluster whose workspaces no longer bind the API.

use std::fmt::Write as _;
use std::io::{self, Write as _};
use std::process::ExitCode;

use clap::{Args, Subcommand};
use serde_json::{Value, json};

use super::agent_place::AgentPlace;
use super::output::{Output, counted as numbered, warning};
use super::progress::shown;
use crate::explain::progress::ObjectProgress;
use crate::publish::agent::options::FlagErrors;
use crate::publish::agent::orphans::{Found, Orphan, OrphansError, Removal, Search, Sort, counted};
use crate::publish::agent::process::AgentError;
use hawser_runtime::overview::plain;

/// List or remove copies on the service cluster whose workspace no longer binds the API.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  # List orphans, then remove the 12 that were listed
  hawser orphans list --kubeconfig service.kubeconfig --kcp-kubeconfig provider.kubeconfig \\
    --namespace hawser --apiexportendpointslice-ref databases.example.org
  hawser orphans remove --confirm 12 --kubeconfig service.kubeconfig --kcp-kubeconfig provider.kubeconfig \\
    --namespace hawser --apiexportendpointslice-ref databases.example.org")]
pub(super) struct OrphansArgs {
    #[command(subcommand)]
    action: OrphansAction,
}

#[derive(Debug, Subcommand)]
enum OrphansAction {
    /// List orphans: copies, related copies and state Secrets
    List {
        #[command(flatten)]
        place: Where,

        #[arg(short, long, value_enum, default_value_t = Output::Human)]
        output: Output,
    },
    /// Remove orphans; without --confirm, only list them
    Remove {
        #[command(flatten)]
        place: Where,

        /// Number of objects to remove, as they were listed: any other number removes nothing
        #[arg(long, value_name = "NUMBER")]
        confirm: Option<usize>,
    },
}

/// The agent that made the copies, and the workspace.
#[derive(Debug, Args)]
struct Where {
    #[command(flatten)]
    agent: AgentPlace,

    /// Only orphans of this logical cluster
    #[arg(long, value_name = "CLUSTER")]
    workspace: Option<String>,
}

#[derive(Debug, thiserror::Error)]
enum Failed {
    #[error(transparent)]
    Options(#[from] FlagErrors),
    #[error("starting the runtime")]
    Runtime(#[from] io::Error),
    #[error(transparent)]
    Agent(#[from] AgentError),
    #[error(transparent)]
    Orphans(#[from] OrphansError),
    #[error(
        "found {found} orphans instead of {confirmed}, so nothing was removed: check the list, and repeat with --confirm={found}"
    )]
    Unconfirmed { found: usize, confirmed: usize },
    #[error("{0} orphans were not removed")]
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
        Err(failed) => super::output::fail(&failed),
    }
}

async fn act(action: OrphansAction) -> Result<(), Failed> {
    let (place, output, confirm) = match action {
        OrphansAction::List { place, output } => (place, output, None),
        OrphansAction::Remove { place, confirm } => (place, Output::Human, Some(confirm)),
    };
    let workspace = place.workspace.clone();
    let search = Search::new(place.agent.options()?)?;
    let progress = ObjectProgress::default();
    let found = shown(&progress, search.find(workspace.as_deref())).await?;
    let count = found.orphans.len();
    match confirm {
        None | Some(None) => print_line(&output.show(|| listed(&found), || machine(&found))),
        Some(Some(confirmed)) if confirmed != count => {
            print_line(&listed(&found));
            return Err(Failed::Unconfirmed {
                found: count,
                confirmed,
            });
        }
        Some(Some(_)) => return remove(&search, &found.orphans).await,
    }
    if confirm.is_some() && count > 0 {
        print_line(&format!(
            "Nothing was removed. To remove these orphans, repeat with --confirm={count}\n"
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
                "kept: another orphan of its workspace failed, or the workspace binds the API again"
                    .to_owned()
            }
            Removal::Failed(why) => format!("not removed: {}", plain(why)),
        };
        print_line(&format!("{}  {became}\n", line(orphan)));
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
    warning(&mut text, found.other_agents.as_deref());
    let _ = writeln!(
        text,
        "{} of {}; {} the API",
        numbered(found.orphans.len(), "orphan"),
        numbered(workspaces.len(), "workspace"),
        match found.bound {
            1 => "1 workspace binds".to_owned(),
            bound => format!("{bound} workspaces bind"),
        }
    );
    if !found.adopted.is_empty() {
        for copy in &found.adopted {
            text.push_str(&line(copy));
            text.push('\n');
        }
        let _ = writeln!(
            text,
            "{} adopted objects are not removed, because of spec.safety.adoptedOnDelete",
            found.adopted.len()
        );
    }
    if !found.without_state.is_empty() {
        for copy in &found.without_state {
            text.push_str(&line(copy));
            text.push('\n');
        }
        let _ = writeln!(
            text,
            "{} copies of these workspaces have no state Secret: their objects are gone, or they were created with the \
             labels of a copy. They are not removed; delete those that you do not need",
            found.without_state.len()
        );
    }
    text
}

fn machine(found: &Found) -> Value {
    let all = |orphans: &[Orphan]| {
        let of = |orphan: &Orphan| {
            json!({
                "cluster": orphan.workspace,
                "sort": sort(orphan),
                "kind": orphan.kind,
                "namespace": orphan.namespace,
                "name": orphan.name,
            })
        };
        orphans.iter().map(of).collect::<Vec<_>>()
    };
    json!({
        "orphans": all(&found.orphans),
        "adopted": all(&found.adopted),
        "withoutState": all(&found.without_state),
        "boundWorkspaces": found.bound,
        "warning": found.other_agents,
    })
}

fn sort(orphan: &Orphan) -> &'static str {
    match orphan.sort {
        Sort::Copy => "copy",
        Sort::RelatedCopy => "related",
        Sort::State => "state",
    }
}

fn line(orphan: &Orphan) -> String {
    let what = sort(orphan);
    let namespace = orphan.namespace.as_deref().unwrap_or_default();
    let slash = if namespace.is_empty() { "" } else { "/" };
    format!(
        "{}  {what}  {} {namespace}{slash}{}",
        orphan.workspace, orphan.kind, orphan.name
    )
}

fn print_line(text: &str) {
    // A reader that is gone needs no answer.
    let _ = io::stdout().write_all(text.as_bytes());
}
