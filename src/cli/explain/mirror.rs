//! `hawser explain mirror`: whether an object of a robot and its cloud is in sync, why, and what to do about it.

use std::fmt::Write as _;

use clap::Args;
use serde_json::{Value, json};

use super::report::{
    Attempts, OutOfSync, by_reason, due_json, due_writes, known_reason, reason_json, verdict,
};
use super::sheet::{self, line};
use crate::cli::mirror::MirrorArgs;
use crate::cli::output::Output;
use crate::cli::progress::shown;
use crate::explain::progress::ObjectProgress;
use crate::mirror::advice::advice;
use crate::mirror::agent::explain::{
    MirrorExplainError, MirrorExplained, MirrorExplainer, MirrorSelection, SideState,
};
use crate::mirror::options::{MirrorOptions, OptionError};
use hawser_runtime::overview::site::{ObjectPath, PAGE_ADDRESS};
use hawser_runtime::overview::{AttemptsOverview, plain};
use hawser_sync::Code;

/// Explain why objects of a robot and its cloud are in sync or not.
///
/// Runs the mirror's passes against both clusters, with dry runs instead of writes. Changes nothing. Without NAME, lists
/// the objects that are out of sync. Takes the flags of the mirror.
#[derive(Debug, Args)]
#[allow(clippy::doc_markdown)] // These comments are the help.
#[command(after_help = "Examples:
  # Explain an object, which has the same name in both clusters
  hawser explain mirror mission inspect-shelf-4 --robot-name r1 \\
    --kubeconfig robot.kubeconfig --remote-kubeconfig cloud.kubeconfig

  # List what is out of sync
  hawser explain mirror --robot-name r1 --kubeconfig robot.kubeconfig --remote-kubeconfig cloud.kubeconfig")]
pub(super) struct MirrorExplainArgs {
    /// Kind or plural name
    kind: Option<String>,

    /// Name of the object
    name: Option<String>,

    /// Namespace of the object [default: those of --namespaces]
    #[arg(short = 'n', long, value_name = "NAME")]
    object_namespace: Option<String>,

    /// Address of the mirror's page, which knows attempts and back-off
    #[arg(long, value_name = "ADDRESS", default_value = PAGE_ADDRESS)]
    page: String,

    #[arg(short, long, value_enum, default_value_t = Output::Human)]
    output: Output,

    #[command(flatten)]
    mirror: MirrorArgs,
}

#[derive(Debug, thiserror::Error)]
pub(super) enum MirrorExplainFailed {
    #[error(transparent)]
    Options(#[from] OptionError),
    #[error(transparent)]
    Explain(#[from] MirrorExplainError),
}

/// The content of the output.
struct MirrorFindings {
    robot: String,
    explained: Vec<MirrorExplained>,
    /// What the running mirror knows of these objects.
    attempts: Attempts,
    problems: Vec<(String, String)>,
}

pub(super) async fn run(args: MirrorExplainArgs) -> Result<String, MirrorExplainFailed> {
    let selection = MirrorSelection {
        kind: args.kind,
        name: args.name,
        namespace: args.object_namespace,
    };
    let options = args.mirror.given().check()?;
    let is_one = selection.name.is_some();
    let finding = Box::pin(find(options, selection, &args.page));
    let findings = shown(&ObjectProgress::default(), finding).await?;
    let human = if is_one { each } else { overview };
    let output = args.output;
    Ok(output.show(|| human(&findings), || machine(&findings)))
}

async fn find(
    options: MirrorOptions,
    selection: MirrorSelection,
    page: &str,
) -> Result<MirrorFindings, MirrorExplainError> {
    let explainer = MirrorExplainer::begin(options).await?;
    let explained = explainer.explain(&selection).await?;
    let robot = explainer.robot().to_owned();
    let is_one = selection.name.is_some();
    let paths = explained.iter().map(|one| {
        let is_asked = is_one || one.reason.code == Code::Working;
        path_on_page(one, &robot).filter(|_| is_asked)
    });
    let attempts = Attempts::ask(page, &robot, paths).await;
    Ok(MirrorFindings {
        robot,
        explained,
        attempts,
        problems: explainer.problems(),
    })
}

/// The object on the mirror's page, if it is out of sync.
fn path_on_page<'e>(explained: &'e MirrorExplained, robot: &'e str) -> Option<ObjectPath<'e>> {
    (!explained.is_settled()).then(|| ObjectPath {
        config: &explained.crd,
        tenant: robot,
        namespace: explained.namespace.as_deref(),
        name: &explained.name,
    })
}

/// Each object with its whole chain.
fn each(findings: &MirrorFindings) -> String {
    let mut text = String::new();
    for (number, explained) in findings.explained.iter().enumerate() {
        let attempts = findings.attempts.of(number);
        let place = format!("of robot {}", findings.robot);
        let _ = writeln!(text, "{}", title(explained, &place));
        chain(&mut text, explained, attempts);
        text.push('\n');
    }
    findings.attempts.show_problem(&mut text);
    text
}

fn chain(text: &mut String, explained: &MirrorExplained, attempts: Option<&AttemptsOverview>) {
    match &explained.left_out_by {
        Some(why) if explained.is_settled() => line(text, "in sync", format!("no: {why}")),
        _ => {
            let reason = known_reason(explained.reason.clone(), attempts);
            verdict(text, explained.is_in_step(), &reason, advice, attempts);
        }
    }
    line(text, "CRD", &explained.crd);
    for (name, value) in &explained.annotations {
        line(text, "", format!("{name}: {value}"));
    }
    for ((key, state), label) in explained.sides.iter().zip(["owner", "copy"]) {
        let told = match state {
            SideState::Present => String::new(),
            SideState::InDeletion => " (in deletion)".to_owned(),
            SideState::Absent => " (missing)".to_owned(),
            SideState::OfOther(Some(robot)) => format!(" (of robot {robot})"),
            SideState::OfOther(None) => " (of no robot)".to_owned(),
            SideState::Unknown(why) => format!(" (unknown: {why})"),
        };
        line(text, label, format!("{key}{told}"));
    }
    match &explained.left_out_by {
        Some(why) => line(text, "filter", format!("the object is left out: {why}")),
        None if explained.sides.is_empty() => {}
        None => line(text, "filter", "passed"),
    }
    due_writes(text, &explained.due, None);
}

/// The objects that are out of sync, by reason.
fn overview(findings: &MirrorFindings) -> String {
    let explained = findings.explained.iter().enumerate();
    let out_of_sync = explained.filter(|(_, one)| !one.is_settled());
    let out_of_sync = out_of_sync.map(|(number, one)| OutOfSync {
        reason: known_reason(one.reason.clone(), findings.attempts.of(number)),
        title: title(one, ""),
        tenant: findings.robot.clone(),
    });
    let (out_of_sync, total) = (out_of_sync.collect(), findings.explained.len());
    let mut text = by_reason(out_of_sync, total, "robot", advice);
    for (crd, problem) in &findings.problems {
        let problem = plain(problem);
        let _ = writeln!(text, "CRD {crd}: nothing is synced: {problem}");
    }
    findings.attempts.show_problem(&mut text);
    text
}

fn title(explained: &MirrorExplained, place: &str) -> String {
    let namespace = explained.namespace.as_deref();
    sheet::title(&explained.kind, namespace, &explained.name, place)
}

fn machine(findings: &MirrorFindings) -> Value {
    let objects = findings.explained.iter().enumerate();
    let objects =
        objects.map(|(number, explained)| as_json(explained, findings.attempts.of(number)));
    let problems = findings
        .problems
        .iter()
        .map(|(crd, message)| json!({"crd": crd, "message": message}));
    json!({
        "robot": findings.robot,
        "objects": objects.collect::<Vec<_>>(),
        "pageProblem": findings.attempts.problem,
        "problems": problems.collect::<Vec<_>>(),
    })
}

fn as_json(explained: &MirrorExplained, attempts: Option<&AttemptsOverview>) -> Value {
    let reason = known_reason(explained.reason.clone(), attempts);
    let annotations = explained.annotations.iter();
    let annotations: serde_json::Map<_, _> = annotations
        .map(|(name, value)| ((*name).to_owned(), value.as_str().into()))
        .collect();
    let sides = explained.sides.iter().map(|(key, state)| {
        let (state, detail) = match state {
            SideState::Present => ("Present", None),
            SideState::InDeletion => ("InDeletion", None),
            SideState::Absent => ("Absent", None),
            SideState::OfOther(robot) => ("OfOther", robot.as_deref()),
            SideState::Unknown(why) => ("Unknown", Some(&**why)),
        };
        json!({"side": &*key.side.0, "state": state, "detail": detail})
    });
    json!({
        "object": {
            "kind": explained.kind,
            "namespace": explained.namespace,
            "name": explained.name,
        },
        "crd": explained.crd,
        "annotations": annotations,
        "inStep": explained.is_in_step(),
        "reason": reason_json(&reason, advice),
        "leftOutBy": explained.left_out_by,
        "sides": sides.collect::<Vec<_>>(),
        "due": due_json(&explained.due),
        "attempts": attempts,
    })
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use crate::cli::{Cli, Command, spelled_out};

    use super::*;

    fn parse(line: &str) -> MirrorExplainArgs {
        let args = line.split(' ').map(Into::into);
        let cli = Cli::try_parse_from(spelled_out(args)).unwrap();
        let Command::Explain(super::super::ExplainArgs {
            other: Some(super::super::OtherDialect::Mirror(args)),
            ..
        }) = cli.command
        else {
            panic!("{line}");
        };
        *args
    }

    #[test]
    fn the_flags_of_a_mirror_are_taken_as_it_takes_them() {
        let args = parse(
            "hawser explain mirror missions a -robot-name=r1 -remote-server cloud.example.com -use-robot-jwt -n depot -o=json",
        );
        assert_eq!(args.kind.as_deref(), Some("missions"));
        assert_eq!(args.name.as_deref(), Some("a"));
        assert_eq!(args.object_namespace.as_deref(), Some("depot"));
        assert_eq!(args.output, Output::Json);
        let options = args.mirror.given().check().unwrap();
        assert_eq!(options.settings.robot_name, "r1");
        let args = parse("hawser explain mirror -robot-name r1 -namespaces=a,b");
        assert_eq!((args.kind, args.name), (None, None));
    }
}
