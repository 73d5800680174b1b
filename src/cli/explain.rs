//! `hawser explain`: whether an object is in sync, why, and what to do about it.

use std::fmt::Write as _;
use std::io::{self, Write as _};
use std::process::ExitCode;

use clap::{Args, Subcommand};
use serde_json::{Value, json};

use super::agent_place::AgentPlace;
use super::output::Output;
use crate::publish::advice::advice;
use crate::publish::agent::explain::{
    ExplainError, Explained, ExplainedLink, Explainer, Leader, Selection,
};
use crate::publish::agent::options::FlagErrors;
use crate::publish::drift;
use hawser_runtime::overview::AttemptsOverview;
use hawser_runtime::overview::site::{ObjectPath, PAGE_ADDRESS};
use hawser_runtime::process::logging::{self, LogFormat, LogOptions, Verbosity};
use hawser_sync::reason::Class;

mod mirror;
mod placement;
mod report;

use mirror::{MirrorExplainArgs, MirrorExplainFailed};
use placement::{PlacementArgs, PlacementFailed};
use report::{
    Attempts, attempts, by_reason, due_json, due_writes, in_words, known_reason, of_object,
    reason_json, unknown_attempts, verdict,
};

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
    --namespace hawser --apiexportendpointslice-ref databases.example.org")]
pub(super) struct ExplainArgs {
    #[command(subcommand)]
    other: Option<OtherDialect>,

    /// Kind or plural name, in the workspace or on the service cluster
    kind: Option<String>,

    /// Name of the object in its workspace, or of its copy on the service cluster
    name: Option<String>,

    /// Namespace of the object or copy [default: any]
    #[arg(short = 'n', long, value_name = "NAME")]
    object_namespace: Option<String>,

    /// Path or logical cluster of the object's workspace [default: any]
    #[arg(long, value_name = "WORKSPACE")]
    workspace: Option<String>,

    /// Address of the agent's page, which knows attempts and back-off
    #[arg(long, value_name = "ADDRESS", default_value = PAGE_ADDRESS)]
    page: String,

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
    Mirror(#[from] MirrorExplainFailed),
    #[error("name the agent: --kcp-kubeconfig, --namespace and --apiexportendpointslice-ref")]
    NoAgent,
    #[error(transparent)]
    Options(#[from] FlagErrors),
    #[error("starting the runtime")]
    Runtime(#[from] io::Error),
    #[error(transparent)]
    Explain(#[from] ExplainError),
}

/// The content of the output.
struct Findings {
    explained: Vec<Explained>,
    /// What the running agent knows of these objects.
    attempts: Attempts,
    leader: Leader,
    problems: Vec<[String; 3]>,
}

pub(super) fn run(args: ExplainArgs) -> ExitCode {
    // What kcp lets wait is told.
    let _ = logging::start(LogOptions {
        format: LogFormat::Console,
        verbosity: Verbosity::Warn,
    });
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
        Err(failed) => super::fail(&failed),
    }
}

async fn explained(args: ExplainArgs) -> Result<String, ExplainFailed> {
    match args.other {
        Some(OtherDialect::Placement(args)) => return Ok(placement::run(args).await?),
        Some(OtherDialect::Mirror(args)) => return Ok(mirror::run(*args).await?),
        None => {}
    }
    let (output, is_one) = (args.output, args.name.is_some());
    let findings = find(args).await?;
    let human = if is_one { each } else { overview };
    Ok(output.show(|| human(&findings), || machine(&findings)))
}

async fn find(args: ExplainArgs) -> Result<Findings, ExplainFailed> {
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
    let explained = explainer.explain(&selection).await?;
    let attempts = if is_one {
        attempts(&args.page, &name, explained.iter().map(path_on_page)).await
    } else {
        Ok(Vec::new())
    };
    Ok(Findings {
        explained,
        attempts,
        leader: explainer.leader().await,
        problems: explainer.problems(),
    })
}

/// The object on the agent's page, if it is out of sync.
fn path_on_page(explained: &Explained) -> Option<ObjectPath<'_>> {
    (!explained.is_in_step()).then(|| ObjectPath {
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
        let attempts = of_object(&findings.attempts, number);
        chain(&mut text, explained, attempts);
        text.push('\n');
    }
    around(&mut text, findings);
    unknown_attempts(&mut text, &findings.attempts);
    text
}

fn chain(text: &mut String, explained: &Explained, attempts: Option<&AttemptsOverview>) {
    let Explained {
        object,
        published_resource,
        ..
    } = explained;
    let _ = writeln!(text, "{}", title(explained));
    let reason = known_reason(explained.reason(), attempts);
    verdict(text, explained.is_in_step(), &reason, advice, attempts);
    let _ = writeln!(
        text,
        "  published by  PublishedResource {published_resource}"
    );
    for pause in &explained.pauses {
        let _ = writeln!(text, "  paused        {pause}");
    }
    match explained.left_out_by {
        None => text.push_str("  filter        passed\n"),
        Some(field) => {
            let _ = writeln!(
                text,
                "  filter        the object is left out: its labels do not match {field}"
            );
        }
    }
    if let Some(state) = &explained.state {
        let exists = if explained.has_state {
            ""
        } else {
            " (missing)"
        };
        let namespace = state.namespace.as_deref().unwrap_or_default();
        let _ = writeln!(
            text,
            "  state         Secret {namespace}/{}{exists}",
            state.name
        );
    }
    let mut links: Vec<&ExplainedLink> = explained.links.iter().collect();
    links.sort_by_key(|link| link.entry.is_some());
    for link in links {
        let copy = link.copy.as_ref().map(ToString::to_string);
        let copy = copy.unwrap_or_else(|| "no copy yet".to_owned());
        let label = match &link.entry {
            None => "copy          ".to_owned(),
            Some(entry) => format!("related       {entry}: "),
        };
        let _ = writeln!(text, "  {label}{copy}");
        if link.reason.code.class() != Class::Settled {
            let _ = writeln!(text, "                {}", in_words(&link.reason));
        }
    }
    for field in &explained.drift {
        let (path, mode) = (drift::path(field), drift::mode(field.mode));
        let writer = drift::writer(field.by.as_ref());
        let _ = writeln!(text, "  drift         {path} ({mode}): changed by {writer}");
    }
    due_writes(text, &explained.due, Some(object));
}

/// The objects that are out of sync, by reason.
fn overview(findings: &Findings) -> String {
    let explained = findings.explained.iter();
    let out_of_sync = explained.filter(|one| !one.is_in_step());
    let out_of_sync = out_of_sync.map(|one| (one.reason(), title(one)));
    let mut text = by_reason(out_of_sync, findings.explained.len(), advice);
    around(&mut text, findings);
    text
}

pub(super) fn title(explained: &Explained) -> String {
    let object = &explained.object;
    let namespace = object.namespace.as_deref().map(|name| format!("{name}/"));
    let cluster = &object.cluster;
    let workspace = match &explained.path {
        Some(path) => format!("{path} ({cluster})"),
        None => cluster.to_string(),
    };
    format!(
        "{} {}{} in workspace {workspace}",
        object.kind.kind,
        namespace.unwrap_or_default(),
        object.name
    )
}

/// The lines that concern all objects.
fn around(text: &mut String, findings: &Findings) {
    match &findings.leader {
        Leader::Present { identity, renewed } => {
            let seconds = renewed.as_secs();
            let _ = writeln!(
                text,
                "agent: {identity} leads, and renewed its lease {seconds} s ago"
            );
        }
        Leader::Missing => {
            text.push_str("agent: none leads. Start one, unless it runs without leader election\n");
        }
        Leader::Unknown(why) => {
            let _ = writeln!(text, "agent: its lease cannot be read: {why}");
        }
    }
    for [name, condition, message] in &findings.problems {
        let _ = writeln!(
            text,
            "PublishedResource {name}: {condition} is not true: {message}"
        );
    }
}

fn machine(findings: &Findings) -> Value {
    let with_attempts = |(number, explained): (usize, &Explained)| {
        let attempts = of_object(&findings.attempts, number);
        let reason = known_reason(explained.reason(), attempts);
        let mut object = as_json(explained);
        object["reason"] = reason_json(&reason, advice);
        object["attempts"] = json!(attempts);
        object
    };
    let objects = findings.explained.iter().enumerate();
    let objects: Vec<_> = objects.map(with_attempts).collect();
    let leader = match &findings.leader {
        Leader::Present { identity, renewed } => {
            json!({"identity": identity, "renewedSecondsAgo": renewed.as_secs()})
        }
        Leader::Missing => Value::Null,
        Leader::Unknown(why) => json!({"problem": why}),
    };
    let problems = findings.problems.iter().map(|[name, condition, message]| {
        json!({"publishedResource": name, "condition": condition, "message": message})
    });
    json!({
        "objects": objects,
        "leader": leader,
        "pageProblem": findings.attempts.as_ref().err(),
        "problems": problems.collect::<Vec<_>>(),
    })
}

pub(super) fn as_json(explained: &Explained) -> Value {
    let links = explained.links.iter().map(|link| {
        json!({
            "relatedEntry": link.entry,
            "reason": reason_json(&link.reason, advice),
            "copy": link.copy.as_ref().map(ToString::to_string),
        })
    });
    let drift = explained.drift.iter().map(|field| {
        let by = field.by.as_ref().map(|by| {
            json!({
                "manager": by.manager,
                "operation": by.operation,
                "subresource": by.subresource,
                "time": by.time,
            })
        });
        json!({"path": drift::path(field), "mode": drift::mode(field.mode), "changedBy": by})
    });
    let object = &explained.object;
    json!({
        "object": {
            "kind": object.kind.kind,
            "namespace": object.namespace.as_deref(),
            "name": &*object.name,
            "cluster": &*object.cluster,
            "path": explained.path,
        },
        "publishedResource": explained.published_resource,
        "inStep": explained.is_in_step(),
        "reason": reason_json(&explained.reason(), advice),
        "pauses": explained.pauses,
        "leftOutBy": explained.left_out_by,
        "state": explained.state.as_ref().map(ToString::to_string).filter(|_| explained.has_state),
        "drift": drift.collect::<Vec<_>>(),
        "links": links.collect::<Vec<_>>(),
        "due": due_json(&explained.due),
    })
}
