//! `hawser adopt --dry-run`: the objects in the places of copies, and whether the agent would adopt them.

use std::fmt::Write as _;
use std::io::{self, Write as _};
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use serde_json::{Value, json};

use super::agent_place::{ANSWERED, AgentPlace, SlashInName, kind_and_name};
use super::explain::title;
use super::output::{Output, counted, warning, write_differences};
use super::plan::{PlanFailed, changed, of_resource};
use super::progress::shown;
use crate::explain::progress::ObjectProgress;
use crate::publish::advice::advice;
use crate::publish::agent::adopt::{Collision, CollisionFate};
use crate::publish::agent::explain::{Explainer, Selection};
use hawser_runtime::overview::plain;
use hawser_runtime::process::logging;

/// The exit code if objects are in the places of copies.
const COLLIDES: u8 = 2;

/// List existing objects with the names of copies, and whether the agent would adopt them.
///
/// Runs the agent's passes with dry runs instead of writes, so nothing changes. The agent itself adopts objects, as
/// spec.safety.adoption of the PublishedResource says. With files, their PublishedResources replace the stored ones.
///
/// Exits with 0 if no object is in the place of a copy, with 2 if one is, and with 1 after errors.
#[derive(Debug, Args)]
#[allow(clippy::doc_markdown)] // These comments are the help.
#[command(after_help = "Examples:
  # List what is in the way before a PublishedResource is created
  hawser adopt --dry-run -f databases.yaml --kubeconfig service.kubeconfig --kcp-kubeconfig provider.kubeconfig \\
    --namespace hawser --apiexportendpointslice-ref databases.example.org

  # Show how an object of a workspace differs from the existing one
  hawser adopt --dry-run database orders --workspace root:org:shop --kubeconfig service.kubeconfig \\
    --kcp-kubeconfig provider.kubeconfig --namespace hawser --apiexportendpointslice-ref databases.example.org")]
pub(super) struct AdoptArgs {
    /// Kind or plural name, in the workspace or on the service cluster
    kind: Option<String>,

    /// Name of the object in its workspace
    name: Option<String>,

    /// Namespace of the object [default: any]
    #[arg(short = 'n', long, value_name = "NAME")]
    object_namespace: Option<String>,

    /// Path or logical cluster of the object's workspace [default: any]
    #[arg(long, value_name = "WORKSPACE")]
    workspace: Option<String>,

    /// YAML file with changed or new PublishedResources; - is stdin. May be repeated
    #[arg(short = 'f', long = "filename", value_name = "FILE")]
    files: Vec<PathBuf>,

    /// Only list; required, because the agent itself adopts objects
    #[arg(long)]
    dry_run: bool,

    #[arg(short, long, value_enum, default_value_t = Output::Human)]
    output: Output,

    #[command(flatten)]
    agent: AgentPlace,
}

#[derive(Debug, thiserror::Error)]
enum AdoptFailed {
    #[error(
        "the agent itself adopts objects, as spec.safety.adoption of the PublishedResource says: add --dry-run to list them"
    )]
    NotDry,
    #[error(transparent)]
    Plan(#[from] PlanFailed),
    #[error(transparent)]
    Name(#[from] SlashInName),
}

pub(super) fn run(args: AdoptArgs) -> ExitCode {
    let _ = logging::start_in_command(ANSWERED);
    match adopt(args) {
        Ok((text, code)) => {
            // A reader that is gone needs no answer.
            let _ = io::stdout().write_all(text.as_bytes());
            code
        }
        Err(failed) => super::output::fail(&failed),
    }
}

fn adopt(args: AdoptArgs) -> Result<(String, ExitCode), AdoptFailed> {
    if !args.dry_run {
        return Err(AdoptFailed::NotDry);
    }
    let changed = changed(&args.files)?;
    let (kind, name) = kind_and_name(args.kind, args.name)?;
    let selection = Selection {
        kind,
        name,
        namespace: args.object_namespace,
        workspace: args.workspace,
    };
    let options = args.agent.options().map_err(PlanFailed::from)?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(PlanFailed::from)?;
    let progress = ObjectProgress::default();
    runtime.block_on(shown(&progress, async {
        let explainer = Explainer::begin(options, &changed).await;
        let explainer = explainer.map_err(PlanFailed::from)?;
        let plan = explainer.plan(&selection, &progress).await;
        let plan = plan.map_err(PlanFailed::from)?;
        let collisions = explainer.collisions(&plan).await;
        let human = || {
            let mut text = String::new();
            for resource in &plan.resources {
                of_resource(&mut text, resource);
            }
            warning(&mut text, plan.other_agents.as_deref());
            human(&mut text, &collisions, plan.objects.len());
            text
        };
        let machine = || {
            let mut document = machine(&collisions);
            document["warning"] = json!(plan.other_agents);
            document
        };
        let text = args.output.show(human, machine);
        let code = if plan.fails() {
            ExitCode::FAILURE
        } else if collisions.is_empty() && !plan.is_incomplete() {
            ExitCode::SUCCESS
        } else {
            ExitCode::from(COLLIDES)
        };
        Ok((text, code))
    }))
}

fn human(text: &mut String, collisions: &[Collision<'_>], objects: usize) {
    for collision in collisions {
        let Collision {
            explained,
            entry,
            fate,
            reason,
            taken,
            differences,
        } = collision;
        let entry = entry.map(|entry| format!(", related {entry}"));
        let _ = writeln!(text, "{}{}", title(explained), entry.unwrap_or_default());
        if let Some(taken) = taken {
            let _ = writeln!(text, "  existing    {taken}");
        }
        let fate = match fate {
            CollisionFate::Adopted => "would be adopted, and keeps its content".to_owned(),
            CollisionFate::WaitedFor => format!("is waited for: {}: {reason}", reason.code),
            CollisionFate::Refused => format!("is refused: {}: {reason}", reason.code),
        };
        let _ = writeln!(text, "  adoption    {}", plain(&fate));
        match differences {
            None => {}
            Some(none) if none.fields.is_empty() => text.push_str("  equal\n"),
            Some(differences) => {
                text.push_str("  differs     existing -> desired\n");
                write_differences(text, "    ", differences);
            }
        }
    }
    let count = |wanted| collisions.iter().filter(|one| one.fate == wanted).count();
    let _ = writeln!(
        text,
        "{} in the places of copies of {}: {} would be adopted, {} waited for, {} refused",
        counted(collisions.len(), "existing object"),
        counted(objects, "object"),
        count(CollisionFate::Adopted),
        count(CollisionFate::WaitedFor),
        count(CollisionFate::Refused)
    );
}

fn machine(collisions: &[Collision<'_>]) -> Value {
    let all = collisions.iter().map(|collision| {
        let explained = collision.explained;
        let object = &explained.object;
        let differences = collision.differences.as_ref().map(|differences| {
            let all = differences
                .fields
                .iter()
                .map(|one| json!({"path": one.path, "existing": one.before, "desired": one.after}));
            all.collect::<Vec<_>>()
        });
        let reason = &collision.reason;
        // Adoption needs no advice.
        let refused = Some(reason).filter(|_| collision.fate != CollisionFate::Adopted);
        let reason = refused.map(|reason| {
            json!({
                "code": reason.code.as_str(),
                "explanation": reason.to_string(),
                "advice": advice(reason.code),
            })
        });
        json!({
            "object": {
                "kind": object.kind.kind,
                "namespace": object.namespace.as_deref(),
                "name": &*object.name,
                "cluster": &*object.cluster,
                "path": explained.path,
            },
            "publishedResource": explained.published_resource,
            "relatedEntry": collision.entry,
            "existing": collision.taken.as_ref().map(ToString::to_string),
            "adoption": collision.fate.as_str(),
            "reason": reason,
            "differences": differences,
        })
    });
    json!({"collisions": all.collect::<Vec<_>>()})
}
