//! `hawser explain`: whether an object is in sync, why, and what to do about it.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::{self, Write as _};
use std::process::ExitCode;

use clap::{Args, Subcommand};

use super::agent_place::{ANSWERED, AgentPlace, SlashInName, kind_and_name};
use super::output::{Output, warning};
use super::progress::shown;
use crate::explain::progress::ObjectProgress;
use crate::publish::advice::advice;
use crate::publish::agent::explain::{
    ExplainError, Explained, ExplainedLink, Explainer, Leader, Selection, workspace_name,
};
use crate::publish::agent::options::FlagErrors;
use crate::publish::drift;
use hawser_runtime::overview::site::{ObjectPath, PAGE_ADDRESS};
use hawser_runtime::overview::{AttemptsOverview, plain};
use hawser_runtime::process::logging;
use hawser_sync::Code;
use hawser_sync::reason::Class;

mod consumer;
mod document;
mod mirror;
mod placement;
mod report;
mod sheet;

use consumer::{Asked, ConsumerFailed};
use document::Findings;
pub(super) use document::as_json;
use mirror::{MirrorExplainArgs, MirrorExplainFailed};
use placement::{PlacementArgs, PlacementFailed};
use report::{Attempts, OutOfSync, by_reason, due_writes, is_shown, known_reason, more, verdict};
use sheet::{Cause, line};

/// Explain why objects are in sync or not.
///
/// Runs the agent's passes against both servers, with dry runs instead of writes. Changes nothing. Without NAME, lists
/// the objects that are out of sync.
#[derive(Debug, Args)]
#[allow(clippy::doc_markdown)] // These comments are the help.
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
#[command(after_help = "Examples:
  # Explain an object of a workspace, or its copy on the service cluster
  hawser explain database orders --kubeconfig service.kubeconfig --kcp-kubeconfig provider.kubeconfig \\
    --namespace hawser --apiexportendpointslice-ref databases.example.org

  # List what is out of sync in one workspace
  hawser explain --workspace root:org:shop --kubeconfig service.kubeconfig --kcp-kubeconfig provider.kubeconfig \\
    --namespace hawser --apiexportendpointslice-ref databases.example.org

  # Explain an object of the current workspace as its consumer
  hawser explain --consumer database orders")]
pub(super) struct ExplainArgs {
    #[command(subcommand)]
    other: Option<OtherDialect>,

    /// Kind or plural name, in the workspace or on the service cluster
    kind: Option<String>,

    /// Name of the object in its workspace, or of its copy on the service cluster
    name: Option<String>,

    /// The rest, such as what follows a kubeconfig that stands alone.
    #[arg(hide = true)]
    more: Option<String>,

    /// Namespace of the object or copy [default: any]
    #[arg(short = 'n', long, value_name = "NAME")]
    object_namespace: Option<String>,

    /// Path or logical cluster of the object's workspace [default: any]
    #[arg(long, value_name = "WORKSPACE")]
    workspace: Option<String>,

    /// Address of the agent's page, which knows attempts and back-off
    #[arg(long, value_name = "ADDRESS", default_value = PAGE_ADDRESS)]
    page: String,

    /// Explain with the rights of a consumer, from what the workspace shows [default of KUBECONFIG: $KUBECONFIG, else the Pod's service account, else ~/.kube/config]
    #[arg(
        long,
        value_name = "KUBECONFIG",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "",
        conflicts_with_all = [
            "kubeconfig",
            "kcp_kubeconfig",
            "namespace",
            "apiexportendpointslice_ref",
            "agent_name",
            "published_resource_selector",
            "longest_consumer_pause",
            "workspace",
            "page",
        ]
    )]
    consumer: Option<String>,

    #[arg(short, long, value_enum, default_value_t = Output::Human)]
    output: Output,

    #[command(flatten)]
    agent: Option<AgentPlace>,
}

/// Other objects that can be explained.
#[derive(Debug, Subcommand)]
enum OtherDialect {
    Placement(PlacementArgs),
    Mirror(Box<MirrorExplainArgs>),
}

#[derive(Debug, thiserror::Error)]
enum ExplainFailed {
    #[error(transparent)]
    Placement(#[from] PlacementFailed),
    #[error(transparent)]
    Consumer(#[from] ConsumerFailed),
    #[error("--consumer explains one object: add its KIND and NAME")]
    NoObject,
    #[error(
        "{0:?} is one argument too many: give KIND and NAME, and a kubeconfig as --consumer=FILE"
    )]
    TooMany(String),
    #[error(transparent)]
    Name(#[from] SlashInName),
    #[error(transparent)]
    Mirror(#[from] MirrorExplainFailed),
    #[error(
        "name the agent with --kcp-kubeconfig, --namespace and --apiexportendpointslice-ref, or explain as a consumer with --consumer"
    )]
    NoAgent,
    #[error(transparent)]
    Options(#[from] FlagErrors),
    #[error("starting the runtime")]
    Runtime(#[from] io::Error),
    #[error(transparent)]
    Explain(#[from] ExplainError),
}

/// The objects that are listed for each reason why they are not synced.
const MOST_LEFT_ALONE: usize = 10;

pub(super) fn run(args: ExplainArgs) -> ExitCode {
    let _ = logging::start_in_command(ANSWERED);
    let text = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(ExplainFailed::from)
        .and_then(|runtime| runtime.block_on(explained(args)));
    match text {
        Ok(text) => {
            // A reader that is gone needs no answer.
            let _ = io::stdout().write_all(text.as_bytes());
            ExitCode::SUCCESS
        }
        Err(failed) => super::output::fail(&failed),
    }
}

async fn explained(mut args: ExplainArgs) -> Result<String, ExplainFailed> {
    match args.other {
        Some(OtherDialect::Placement(args)) => return Ok(placement::run(args).await?),
        Some(OtherDialect::Mirror(args)) => return Ok(mirror::run(*args).await?),
        None => {}
    }
    if let Some(more) = args.more {
        return Err(ExplainFailed::TooMany(more));
    }
    let (kind, name) = kind_and_name(args.kind.take(), args.name.take())?;
    if let Some(kubeconfig) = args.consumer {
        let (Some(kind), Some(name)) = (kind, name) else {
            return Err(ExplainFailed::NoObject);
        };
        let asked = Asked {
            kind,
            name,
            namespace: args.object_namespace,
        };
        return Ok(consumer::run(&kubeconfig, asked, args.output).await?);
    }
    let (output, is_one) = (args.output, name.is_some());
    (args.kind, args.name) = (kind, name);
    let progress = ObjectProgress::default();
    let findings = shown(&progress, Box::pin(find(args, &progress))).await?;
    let human = if is_one { each } else { overview };
    Ok(output.show(|| human(&findings), || document::machine(&findings)))
}

async fn find(args: ExplainArgs, progress: &ObjectProgress) -> Result<Findings, ExplainFailed> {
    let selection = Selection {
        kind: args.kind,
        name: args.name,
        namespace: args.object_namespace,
        workspace: args.workspace,
    };
    let is_one = selection.name.is_some();
    let agent = args.agent.ok_or(ExplainFailed::NoAgent)?;
    let options = agent.options()?;
    let name = options.agent_name.clone();
    let explainer = Explainer::begin(options, &[]).await?;
    let explained = explainer.explain(&selection, progress).await?;
    let paths = explained.iter().map(|one| {
        let is_asked = is_one || one.reason().code == Code::Working;
        path_on_page(one).filter(|_| is_asked)
    });
    let mut attempts = Attempts::ask(&args.page, &name, paths).await;
    for (number, _) in explained
        .iter()
        .enumerate()
        .filter(|(_, one)| one.has_secrets)
    {
        attempts.withhold(number);
    }
    let leader = match explainer.leader().await {
        // An agent without leader election has no lease, but a page.
        Leader::Missing if is_shown(&args.page, &name).await => None,
        leader => Some(leader),
    };
    Ok(Findings {
        explained,
        attempts,
        leader,
        problems: explainer.problems(),
        other_agents: explainer.other_agents(),
    })
}

/// The object on the agent's page, if it is out of sync.
fn path_on_page(explained: &Explained) -> Option<ObjectPath<'_>> {
    let is_tried = explained.left_alone().is_none() && !explained.is_in_step();
    is_tried.then(|| ObjectPath {
        config: &explained.published_resource,
        tenant: &explained.object.cluster,
        namespace: explained.object.namespace.as_deref(),
        name: &explained.object.name,
    })
}

/// Each object with its whole chain.
fn each(findings: &Findings) -> String {
    let mut text = String::new();
    for (number, explained) in findings.explained.iter().enumerate() {
        let attempts = findings.attempts.of(number);
        chain(&mut text, explained, attempts);
        text.push('\n');
    }
    around(&mut text, findings);
    text
}

fn chain(text: &mut String, explained: &Explained, attempts: Option<&AttemptsOverview>) {
    let Explained {
        object,
        published_resource,
        ..
    } = explained;
    let _ = writeln!(text, "{}", title(explained));
    if let Some(why) = explained.left_alone() {
        line(text, "in sync", format!("no: {why}"));
        line(text, "what to do", why.advice());
    } else {
        let reason = known_reason(explained.reason(), attempts);
        verdict(text, explained.is_in_step(), &reason, advice, attempts);
        let differing = explained.drift.len();
        if explained.is_in_step() && differing > 0 {
            let but = format!("{differing} fields of the copy differ, and stay as they are");
            line(text, "but", but);
        }
    }
    let publisher = format!("PublishedResource {published_resource}");
    line(text, "published by", publisher);
    for pause in &explained.pauses {
        line(text, "paused", pause);
    }
    for filter in &explained.filters {
        let result = if filter.matches {
            "passed".to_owned()
        } else {
            format!("the labels do not match {}", filter.selector)
        };
        line(text, "filter", format!("{}: {result}", filter.field));
    }
    if let Some(state) = &explained.state {
        let exists = if explained.has_state {
            ""
        } else {
            " (missing)"
        };
        let namespace = state.namespace.as_deref().unwrap_or_default();
        let state = format!("Secret {namespace}/{}{exists}", state.name);
        line(text, "state", state);
    }
    let mut links: Vec<&ExplainedLink> = explained.links.iter().collect();
    links.sort_by_key(|link| link.entry.is_some());
    for link in links {
        let copy = link.copy.as_ref().map(ToString::to_string);
        let mut copy = copy.unwrap_or_else(|| "none".to_owned());
        if let Some(how) = link.found_by {
            let _ = write!(copy, ", found by {how}");
        }
        match &link.entry {
            None => line(text, "copy", copy),
            Some(entry) => line(text, "related", format!("{entry}: {copy}")),
        }
        if link.reason.code.class() != Class::Settled {
            line(text, "", Cause::of(&link.reason, advice).in_words());
        }
    }
    for field in &explained.drift {
        let (path, mode) = (drift::path(field), drift::mode(field.mode));
        let writer = drift::writer(field.by.as_ref());
        line(
            text,
            "drift",
            format!("{path} ({mode}): changed by {writer}"),
        );
    }
    due_writes(text, &explained.due, Some(object));
}

/// The objects that are out of sync, by reason.
fn overview(findings: &Findings) -> String {
    let mut left_alone: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let (mut out_of_sync, mut total) = (Vec::new(), 0);
    for (number, one) in findings.explained.iter().enumerate() {
        if let Some(why) = one.left_alone() {
            let of_reason = left_alone.entry(why.to_string()).or_default();
            of_reason.push(title(one));
            continue;
        }
        total += 1;
        if !one.is_in_step() {
            out_of_sync.push(OutOfSync {
                reason: known_reason(one.reason(), findings.attempts.of(number)),
                title: title(one),
                tenant: workspace_name(one.path.as_deref(), &one.object.cluster),
            });
        }
    }
    let mut text = by_reason(out_of_sync, total, "workspace", advice);
    for (why, titles) in left_alone {
        let _ = writeln!(text, "not synced: {why} ({})", titles.len());
        for title in titles.iter().take(MOST_LEFT_ALONE) {
            let _ = writeln!(text, "  {title}");
        }
        more(&mut text, titles.len(), MOST_LEFT_ALONE);
    }
    around(&mut text, findings);
    text
}

pub(super) fn title(explained: &Explained) -> String {
    let object = &explained.object;
    let namespace = object.namespace.as_deref();
    let workspace = workspace_name(explained.path.as_deref(), &object.cluster);
    let place = format!("in workspace {workspace}");
    sheet::title(&object.kind.kind, namespace, &object.name, &place)
}

/// The lines that concern all objects.
fn around(text: &mut String, findings: &Findings) {
    match &findings.leader {
        Some(Leader::Present { identity, renewed }) => {
            let (identity, seconds) = (plain(identity), renewed.as_secs());
            let _ = writeln!(
                text,
                "agent: {identity} leads, and renewed its lease {seconds} s ago"
            );
        }
        None => {}
        Some(Leader::Missing) => text.push_str(
            "agent: no lease shows that one runs. Start one, unless it runs without leader election\n",
        ),
        Some(Leader::Unknown(why)) => {
            let _ = writeln!(text, "agent: its lease cannot be read: {}", plain(why));
        }
    }
    warning(text, findings.other_agents.as_deref());
    for problem in &findings.problems {
        let (name, message) = (&problem.name, plain(&problem.message));
        let what = match &problem.condition {
            Some(condition) => format!("{condition} is not true"),
            None => "not active".to_owned(),
        };
        let _ = writeln!(text, "PublishedResource {name}: {what}: {message}");
    }
    findings.attempts.show_problem(text);
}
