//! `hawser release`: stops syncing objects and leaves their copies where they are.

use std::fmt::Write as _;
use std::io::{self, Write as _};
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{ArgGroup, Args};
use serde_json::{Value, json};

use super::agent_place::{ANSWERED, AgentPlace, SlashInName, kind_and_name};
use super::output::{Output, counted, warning, yaml};
use super::plan::{PlanFailed, changed};
use super::progress::shown;
use crate::explain::progress::ObjectProgress;
use crate::publish::agent::explain::Selection;
use crate::publish::agent::options::FlagErrors;
use crate::publish::agent::release::{Releasable, Release, ReleaseError, Releaser};
use hawser_runtime::overview::plain;
use hawser_runtime::process::logging;

/// Stop syncing objects, and leave their copies where they are.
///
/// Removes the labels, annotations and finalizers of the agent on both sides, and the state Secrets. Refuses an object
/// that a running agent would sync again: disable the PublishedResource, leave the object out, pause it, or stop the
/// agent before.
///
/// Exits with 1 if an object was not released.
#[derive(Debug, Args)]
#[allow(clippy::doc_markdown)] // These comments are the help.
#[command(group = ArgGroup::new("selected").required(true).multiple(true).args(["kind", "published_resource", "workspace"]))]
#[command(after_help = "Examples:
  # Show what would be written for one object
  hawser release database orders --dry-run --kubeconfig service.kubeconfig --kcp-kubeconfig provider.kubeconfig \\
    --namespace hawser --apiexportendpointslice-ref databases.example.org

  # Release all objects of a PublishedResource with spec.synchronization.enabled: false
  hawser release --published-resource publish-databases --kubeconfig service.kubeconfig \\
    --kcp-kubeconfig provider.kubeconfig --namespace hawser --apiexportendpointslice-ref databases.example.org")]
pub(super) struct ReleaseArgs {
    /// Kind or plural name, in the workspace or on the service cluster
    #[arg(requires = "name")]
    kind: Option<String>,

    /// Name of the object in its workspace, or of its copy on the service cluster
    name: Option<String>,

    /// Namespace of the object or copy [default: any]
    #[arg(short = 'n', long, value_name = "NAME", requires = "name")]
    object_namespace: Option<String>,

    /// Path or logical cluster of a workspace; alone, all objects of it
    #[arg(long, value_name = "WORKSPACE")]
    workspace: Option<String>,

    /// Only objects of this PublishedResource; alone, all of them
    #[arg(long, value_name = "NAME")]
    published_resource: Option<String>,

    /// YAML file with PublishedResources that were deleted; - is stdin. May be repeated
    #[arg(short = 'f', long = "filename", value_name = "FILE")]
    files: Vec<PathBuf>,

    /// No agent runs: release what it would sync. Refused while an agent leads by its lease
    #[arg(long)]
    agent_stopped: bool,

    /// Print the writes, and make none
    #[arg(long)]
    dry_run: bool,

    #[arg(short, long, value_enum, default_value_t = Output::Human)]
    output: Output,

    #[command(flatten)]
    agent: AgentPlace,
}

#[derive(Debug, thiserror::Error)]
enum ReleaseFailed {
    #[error(transparent)]
    Files(#[from] PlanFailed),
    #[error(transparent)]
    Name(#[from] SlashInName),
    #[error(transparent)]
    Options(#[from] FlagErrors),
    #[error("starting the runtime")]
    Runtime(#[from] io::Error),
    #[error(transparent)]
    Release(Box<ReleaseError>),
}

impl From<ReleaseError> for ReleaseFailed {
    fn from(error: ReleaseError) -> Self {
        Self::Release(Box::new(error))
    }
}

type Released = Vec<(Releasable, Release)>;

/// What was released, and the warning that another agent was probably meant.
type Answer = (Released, Option<String>);

pub(super) fn run(args: ReleaseArgs) -> ExitCode {
    let _ = logging::start_in_command(ANSWERED);
    let (output, is_dry_run) = (args.output, args.dry_run);
    match release(args) {
        Ok((released, other_agents)) => {
            let human = || human(&released, other_agents.as_deref(), is_dry_run);
            let machine = || {
                let mut document = machine(&released, is_dry_run);
                document["warning"] = json!(other_agents);
                document
            };
            let text = output.show(human, machine);
            // A reader that is gone needs no answer.
            let _ = io::stdout().write_all(text.as_bytes());
            if released.iter().any(|(_, one)| one.problem.is_some()) {
                ExitCode::FAILURE
            } else {
                ExitCode::SUCCESS
            }
        }
        Err(failed) => super::output::fail(&failed),
    }
}

fn release(args: ReleaseArgs) -> Result<Answer, ReleaseFailed> {
    let gone = changed(&args.files)?;
    let (kind, name) = kind_and_name(args.kind, args.name)?;
    let selection = Selection {
        kind,
        name,
        namespace: args.object_namespace,
        workspace: args.workspace,
    };
    let options = args.agent.options()?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()?;
    let progress = ObjectProgress::default();
    runtime.block_on(shown(&progress, async {
        let releaser = Releaser::begin(options, &gone, args.agent_stopped).await?;
        let published = args.published_resource.as_deref();
        let mut released = Vec::new();
        let objects = releaser.find(&selection, published).await?;
        progress.begin(objects.len());
        for object in objects {
            let release = releaser.release(&object, args.dry_run).await;
            released.push((object, release));
            progress.step();
        }
        Ok((released, releaser.other_agents()))
    }))
}

fn human(released: &Released, other_agents: Option<&str>, is_dry_run: bool) -> String {
    let mut text = String::new();
    for (object, release) in released {
        if release.writes.is_empty() && release.problem.is_none() && release.kept.is_empty() {
            continue;
        }
        let _ = writeln!(text, "{}", object.object);
        for write in &release.writes {
            let _ = writeln!(text, "  {} {}", write.verb(), write.key);
            for line in write.patch.as_ref().map(yaml).unwrap_or_default().lines() {
                let _ = writeln!(text, "      {}", plain(line));
            }
        }
        for (kept, why) in &release.kept {
            let _ = writeln!(text, "  {kept} keeps its finalizer: {}", plain(why));
        }
        if let Some(problem) = &release.problem {
            let _ = writeln!(text, "  not released: {}", plain(problem));
        }
    }
    let all = released.len();
    let count = |is: &dyn Fn(&Release) -> bool| released.iter().filter(|(_, one)| is(one)).count();
    let failed = count(&|one| one.problem.is_some());
    let done = count(&|one| one.problem.is_none() && !one.writes.is_empty());
    warning(&mut text, other_agents);
    let verb = if is_dry_run { "would be" } else { "were" };
    let _ = match (done, failed) {
        (0, 0) => writeln!(
            text,
            "nothing to do: none of {} has a mark of this agent",
            counted(all, "object")
        ),
        (_, 0) => writeln!(text, "{done} of {} {verb} released", counted(all, "object")),
        _ => writeln!(
            text,
            "{done} of {} {verb} released, {failed} not: mend the reasons, and repeat the command",
            counted(all, "object")
        ),
    };
    text
}

fn machine(released: &Released, is_dry_run: bool) -> Value {
    let objects = released.iter().map(|(object, release)| {
        let writes = release.writes.iter().map(|write| {
            json!({
                "verb": write.verb(),
                "object": write.key.to_string(),
                "change": write.patch,
            })
        });
        let key = &object.object;
        let unseen = release.unseen.iter().map(ToString::to_string);
        let kept = release
            .kept
            .iter()
            .map(|(kept, why)| json!({"object": kept.to_string(), "reason": why}));
        json!({
            "object": {
                "kind": key.kind.kind,
                "namespace": key.namespace.as_deref(),
                "name": &*key.name,
                "cluster": &*key.cluster,
            },
            "writes": writes.collect::<Vec<_>>(),
            "kept": kept.collect::<Vec<_>>(),
            "unseen": unseen.collect::<Vec<_>>(),
            "problem": release.problem,
        })
    });
    json!({"dryRun": is_dry_run, "objects": objects.collect::<Vec<_>>()})
}
