//! `hawser plan`: the effect of changed `PublishedResources`, or of another version of the agent, on every object.

use std::fmt::Write as _;
use std::io::{self, Write as _};
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use serde_json::{Value, json};

use super::agent_place::{ANSWERED, AgentPlace};
use super::check;
use super::explain::{as_json, title};
use super::manifest::ManifestError;
use super::output::{Output, counted, warning, write_change};
use super::progress::shown;
use crate::explain::progress::ObjectProgress;
use crate::publish::agent::explain::{
    ExplainError, Explained, Explainer, Selection, workspace_name,
};
use crate::publish::agent::options::FlagErrors;
use crate::publish::agent::plan::{ChangePlan, ExportChange, ResourceChange, WriteCounts};
use hawser_runtime::overview::plain;
use hawser_runtime::process::logging;
use hawser_sync::reason::Class;

/// The exit code if something would change, or be refused or held, or is not known.
const CHANGES: u8 = 2;

/// Show how every object would change under changed PublishedResources.
///
/// Runs the agent's passes over all objects with the PublishedResources of the files instead of the stored ones. Sends
/// dry runs instead of writes, so nothing changes. Without files, shows what an agent of this version would do.
///
/// Exits with 0 if nothing would change, with 2 if something would change, be refused or held, or could not be planned,
/// and with 1 after errors.
#[derive(Debug, Args)]
#[allow(clippy::doc_markdown)] // These comments are the help.
#[command(after_help = "Examples:
  # Show the effect of a changed PublishedResource
  hawser plan -f databases.yaml --kubeconfig service.kubeconfig --kcp-kubeconfig provider.kubeconfig \\
    --namespace hawser --apiexportendpointslice-ref databases.example.org

  # Show the totals of each workspace
  hawser plan -f databases.yaml --kubeconfig service.kubeconfig --kcp-kubeconfig provider.kubeconfig \\
    --namespace hawser --apiexportendpointslice-ref databases.example.org -o json | jq .workspaces")]
pub(super) struct PlanArgs {
    /// YAML file with changed or new PublishedResources; - is stdin. May be repeated
    #[arg(short = 'f', long = "filename", value_name = "FILE")]
    files: Vec<PathBuf>,

    #[arg(short, long, value_enum, default_value_t = Output::Human)]
    output: Output,

    /// Show deletions as held above this share of a kind's copies, as the agent holds them; off disables
    #[arg(
        long,
        value_name = "SHARE",
        default_value = "50%",
        allow_hyphen_values = true
    )]
    deletion_brake: String,

    #[command(flatten)]
    agent: AgentPlace,
}

#[derive(Debug, thiserror::Error)]
pub(super) enum PlanFailed {
    #[error(transparent)]
    Manifest(#[from] ManifestError),
    #[error("none of the files contains a PublishedResource: add a file with one")]
    Nothing,
    #[error("{0}; hawser check shows where")]
    Invalid(String),
    #[error(transparent)]
    Options(#[from] FlagErrors),
    #[error("starting the runtime")]
    Runtime(#[from] io::Error),
    #[error(transparent)]
    Explain(#[from] ExplainError),
}

pub(super) fn run(args: PlanArgs) -> ExitCode {
    let _ = logging::start_in_command(ANSWERED);
    let output = args.output;
    match plan(args) {
        Ok(plan) => {
            let text = output.show(|| human(&plan), || machine(&plan));
            // A reader that is gone needs no answer.
            let _ = io::stdout().write_all(text.as_bytes());
            if plan.fails() {
                ExitCode::FAILURE
            } else if plan.is_quiet() {
                ExitCode::SUCCESS
            } else {
                ExitCode::from(CHANGES)
            }
        }
        Err(failed) => super::output::fail(&failed),
    }
}

fn plan(args: PlanArgs) -> Result<ChangePlan, PlanFailed> {
    let changed = changed(&args.files)?;
    let options = args.agent.options_with_brake(args.deletion_brake)?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()?;
    let progress = ObjectProgress::default();
    runtime.block_on(shown(&progress, async {
        let explainer = Explainer::begin(options, &changed).await?;
        Ok(explainer.plan(&Selection::default(), &progress).await?)
    }))
}

/// The `PublishedResource`s of the files.
pub(super) fn changed(files: &[PathBuf]) -> Result<Vec<Value>, PlanFailed> {
    let documents = check::read_all(files)?;
    let published = documents
        .iter()
        .filter(|one| check::is_published_resource(one));
    let mut changed = Vec::new();
    for document in published {
        let (problems, _) = check::problems(document, &documents);
        let errors: Vec<_> = problems
            .iter()
            .filter(|problem| problem.is_error())
            .map(ToString::to_string)
            .collect();
        if !errors.is_empty() {
            let what = document.describe();
            return Err(PlanFailed::Invalid(format!(
                "{what}: {}",
                errors.join("; ")
            )));
        }
        changed.push(document.value.clone());
    }
    if changed.is_empty() && !files.is_empty() {
        return Err(PlanFailed::Nothing);
    }
    Ok(changed)
}

fn human(plan: &ChangePlan) -> String {
    let mut text = String::new();
    for resource in &plan.resources {
        of_resource(&mut text, resource);
    }
    of_export(&mut text, &plan.export);
    for explained in &plan.objects {
        of_object(&mut text, explained);
    }
    let workspaces = plan.by_workspace();
    if !workspaces.is_empty() {
        text.push_str("\ncreated  changed  deleted  held  refused  workspace\n");
    }
    let mut row = |tally: &WriteCounts, workspace: &str| {
        let WriteCounts {
            made,
            changed,
            deleted,
            held,
            refused,
        } = tally;
        let _ = writeln!(
            text,
            "{made:>7}  {changed:>7}  {deleted:>7}  {held:>4}  {refused:>7}  {workspace}"
        );
    };
    for ((cluster, path), tally) in &workspaces {
        row(tally, &plain(&workspace_name(path.as_deref(), cluster)));
    }
    if workspaces.len() > 1 {
        row(&plan.total(), "all");
    }
    warning(&mut text, plan.other_agents.as_deref());
    let objects = counted(plan.objects.len(), "object");
    let _ = writeln!(text, "{objects}: {}", verdict(plan));
    text
}

fn verdict(plan: &ChangePlan) -> String {
    let subject = if plan.changes() {
        "something"
    } else {
        "nothing"
    };
    let mut verdict = format!("{subject} would change");
    let WriteCounts { refused, held, .. } = plan.total();
    let unplanned: usize = plan.resources.iter().map(|one| one.unplanned).sum();
    for (count, what) in [
        (refused, "refused"),
        (held, "held"),
        (unplanned, "not planned"),
    ] {
        if count > 0 {
            let _ = write!(verdict, ", {count} {what}");
        }
    }
    if unplanned == 0 && plan.is_incomplete() {
        verdict += ", as far as objects can be listed";
    }
    verdict
}

pub(super) fn of_resource(text: &mut String, resource: &ResourceChange) {
    let ResourceChange {
        name,
        is_new,
        is_of_files: of_file,
        schema_before,
        schema,
        ..
    } = resource;
    let what = match (is_new, of_file) {
        (true, _) => "new",
        (false, true) => "changed",
        (false, false) => "stored",
    };
    let _ = writeln!(text, "PublishedResource {name} ({what})");
    match (schema_before, schema) {
        (Some(before), Some(schema)) if before != schema => {
            let _ = writeln!(
                text,
                "  schema {schema} would be published instead of {before}"
            );
        }
        (None, Some(schema)) => {
            let _ = writeln!(text, "  schema {schema} would be published");
        }
        _ => {}
    }
    for problem in &resource.problems {
        let _ = writeln!(text, "  error: {}", plain(problem));
    }
    for warning in &resource.warnings {
        let _ = writeln!(text, "  warning: {}", plain(warning));
    }
    if resource.unplanned > 0 {
        let count = resource.unplanned;
        let _ = writeln!(
            text,
            "  the plan leaves out {count} of its objects, because servers did not answer"
        );
    }
    if !resource.unlisted.is_empty() {
        let unlisted: Vec<_> = resource.unlisted.iter().map(String::as_str).collect();
        let _ = writeln!(
            text,
            "  the plan leaves out what depends on this, which is not known: {}",
            plain(&unlisted.join("; "))
        );
    }
}

fn of_export(text: &mut String, export: &ExportChange) {
    let mut line = |what: &str, names: &[String]| {
        if !names.is_empty() {
            let _ = writeln!(
                text,
                "APIExport {}: {what} {}",
                export.name,
                names.join(", ")
            );
        }
    };
    line("adds the schemas", &export.added_schemas);
    line("replaces the schemas", &export.replaced_schemas);
    line(
        "adds permission claims, which workspaces have to accept:",
        &export.added_claims,
    );
    for problem in &export.problems {
        let _ = writeln!(text, "APIExport {}: {}", export.name, plain(problem));
    }
}

fn of_object(text: &mut String, explained: &Explained) {
    let refused: Vec<_> = explained
        .links
        .iter()
        .filter(|link| {
            let class = link.reason.code.class();
            class == Class::Refused || explained.is_unknown() && class == Class::Retry
        })
        .collect();
    if explained.due.is_empty() && refused.is_empty() {
        return;
    }
    let _ = writeln!(text, "{}", title(explained));
    for pause in &explained.pauses {
        let _ = writeln!(text, "  paused: {}", plain(pause));
    }
    for link in refused {
        let reason = plain(&link.reason.to_string());
        let _ = writeln!(text, "  ! {}: {reason}", link.reason.code);
    }
    for write in &explained.due {
        let sign = match (write.verb, &write.refusal) {
            (_, Some(_)) => '!',
            ("create", _) => '+',
            ("delete", _) => '-',
            _ => '~',
        };
        let _ = writeln!(text, "  {sign} {} {}", write.verb, write.object);
        if let Some(refusal) = &write.refusal {
            let fate = if write.held { "held" } else { "refused" };
            let _ = writeln!(text, "      {fate}: {}", plain(refusal));
        }
        // What is created is as large as an object.
        if write.verb != "create" {
            write_change(text, "      ", write);
        }
    }
}

fn machine(plan: &ChangePlan) -> Value {
    let resources = plan.resources.iter().map(|resource| {
        json!({
            "name": resource.name,
            "isNew": resource.is_new,
            "isOfFiles": resource.is_of_files,
            "schemaBefore": resource.schema_before,
            "schema": resource.schema,
            "problems": resource.problems,
            "warnings": resource.warnings,
            "unlisted": resource.unlisted,
            "unplanned": resource.unplanned,
        })
    });
    let export = &plan.export;
    let objects = plan.objects.iter();
    let objects = objects.filter(|one| !one.is_settled()).map(as_json);
    let workspaces = plan.by_workspace();
    let workspaces = workspaces.iter().map(|((cluster, path), tally)| {
        let mut row = numbers(tally);
        row["cluster"] = (**cluster).into();
        row["path"] = json!(path);
        row
    });
    json!({
        "changes": plan.changes(),
        "publishedResources": resources.collect::<Vec<_>>(),
        "export": {
            "name": export.name,
            "addedSchemas": export.added_schemas,
            "replacedSchemas": export.replaced_schemas,
            "addedClaims": export.added_claims,
            "problems": export.problems,
        },
        "objects": objects.collect::<Vec<_>>(),
        "workspaces": workspaces.collect::<Vec<_>>(),
        "total": numbers(&plan.total()),
        "warning": plan.other_agents,
    })
}

fn numbers(tally: &WriteCounts) -> Value {
    json!({
        "made": tally.made,
        "changed": tally.changed,
        "deleted": tally.deleted,
        "held": tally.held,
        "refused": tally.refused,
    })
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use hawser_sync::{Code, Reason, Scope, Side};
    use kube_lang::object::Gvk;

    use super::*;
    use crate::explain::DueWrite;

    #[test]
    fn a_terminal_obeys_nothing_that_is_printed() {
        let hostile = || "\u{1b}[2J\r".to_owned();
        let kind = Arc::new(Gvk::new("example.com", "v1", "Thing"));
        let object = Scope::new(&Side::new("kcp"), &kind, "c").key(None, "thing");
        let due = DueWrite {
            verb: "patch",
            object: object.clone(),
            change: Some(json!({"spec": {"text": hostile()}})),
            differences: None,
            refusal: Some(hostile()),
            held: false,
        };
        let reason = Reason::new(Code::Invalid, hostile());
        let explained = Explained {
            path: Some(hostile()),
            due: vec![due],
            ..Explained::untried("things", object, Some(reason))
        };
        let resource = ResourceChange {
            name: "things".to_owned(),
            is_of_files: true,
            is_new: true,
            schema_before: None,
            schema: None,
            problems: vec![hostile()],
            warnings: vec![hostile()],
            unlisted: [hostile()].into(),
            unplanned: 1,
        };
        let export = ExportChange {
            problems: vec![hostile()],
            ..ExportChange::default()
        };
        let plan = ChangePlan {
            resources: vec![resource],
            export,
            objects: vec![explained],
            other_agents: None,
        };
        let text = human(&plan);
        assert!(text.contains("[2J"), "{text:?}");
        assert!(!text.contains(['\u{1b}', '\r']), "{text:?}");
    }
}
