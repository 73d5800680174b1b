//! The command line: one file for each subcommand, exit codes in one place.

use std::ffi::{OsStr, OsString};
use std::io::{self, Write as _};
use std::path::Path;
use std::process::ExitCode;

use clap::error::ErrorKind;
use clap::{CommandFactory as _, Parser, Subcommand};

mod adopt;
mod agent;
mod agent_place;
mod check;
mod completion;
mod explain;
mod federate;
mod hub;
mod klog;
mod kubefedctl;
mod manifest;
mod member;
mod metadata;
mod mirror;
mod orphans;
mod output;
mod plan;
#[cfg(feature = "playground")]
mod playground;
mod progress;
mod rbac;
mod release;
mod render;
mod service;
mod top;
#[cfg(feature = "webhook")]
mod webhook;

/// Called by this name, `hawser` is its agent.
const ORIGINAL: &str = "api-syncagent";

/// Called by one of these names, `hawser` is its mirror.
const MIRRORED: [&str; 2] = ["cr-syncer", "cr-syncer-app"];

/// Names of KubeFed's programs, and the subcommands that replace them.
const FEDERATED: [(&str, &str); 3] = [
    ("controller-manager", "federate"),
    ("kubefedctl", "kubefedctl"),
    ("webhook", "kubefed-webhook"),
];

/// KubeFed's binary that contains its programs: the first argument is the name of one.
const HYPERFED: &str = "hyperfed";

/// The flags that do not belong to the agent.
const OWN_FLAGS: &[&str] = &["-h", "--help", "-V", "--version"];

/// Keep objects in sync between Kubernetes-style control planes.
#[derive(Debug, Parser)]
#[command(name = "hawser", version)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Agent(Box<agent::AgentArgs>),
    Mirror(Box<mirror::MirrorArgs>),
    Federate(federate::FederateArgs),
    Kubefedctl(kubefedctl::KubefedctlArgs),
    #[cfg(feature = "webhook")]
    KubefedWebhook(webhook::WebhookProgramArgs),
    Hub(Box<hub::HubArgs>),
    Member(Box<member::MemberArgs>),
    Orphans(orphans::OrphansArgs),
    Explain(explain::ExplainArgs),
    Top(top::TopArgs),
    Plan(plan::PlanArgs),
    Adopt(Box<adopt::AdoptArgs>),
    Rbac(Box<rbac::RbacArgs>),
    Release(Box<release::ReleaseArgs>),
    Check(check::CheckArgs),
    Render(render::RenderArgs),
    Completion(completion::CompletionArgs),
    #[cfg(feature = "playground")]
    Playground(playground::PlaygroundArgs),
}

/// Parses the command line, runs the subcommand and turns its result into an exit code:
/// 0 for success and `--help`, 2 for a command line that cannot be parsed, 1 for everything else. `kubefedctl` has one
/// code for all failures. For `plan`, 2 means that something would change, and for `adopt` that objects are in the places
/// of copies.
pub fn run(args: impl IntoIterator<Item = OsString>) -> ExitCode {
    let args = spelled_out(args);
    let is = |wanted: &str| args.get(1).is_some_and(|command| command == wanted);
    let misread = if is("kubefedctl") {
        kubefedctl::FAILED
    } else if is("plan") || is("adopt") {
        // 2 says that something would change, or that something is in the way.
        1
    } else {
        2
    };
    let is_top = is("top");
    match Cli::try_parse_from(args) {
        Ok(cli) => match cli.command {
            Command::Agent(args) => agent::run(*args),
            Command::Mirror(args) => mirror::run(*args),
            Command::Federate(args) => federate::run(args),
            Command::Kubefedctl(args) => kubefedctl::run(args),
            #[cfg(feature = "webhook")]
            Command::KubefedWebhook(args) => webhook::run(args),
            Command::Hub(args) => hub::run(*args),
            Command::Member(args) => member::run(*args),
            Command::Orphans(args) => orphans::run(args),
            Command::Explain(args) => explain::run(args),
            Command::Top(args) => top::run(&args),
            Command::Plan(args) => plan::run(args),
            Command::Adopt(args) => adopt::run(*args),
            Command::Rbac(args) => rbac::run(*args),
            Command::Release(args) => release::run(*args),
            Command::Check(args) => check::run(&args),
            Command::Render(args) => render::run(&args),
            Command::Completion(args) => completion::run(&args, &Cli::command()),
            #[cfg(feature = "playground")]
            Command::Playground(args) => playground::run(&args),
        },
        Err(error) => {
            // Writing the usage fails only when the terminal is gone; then nobody reads it anyway.
            let _ = error.print();
            if is_top && error.kind() == ErrorKind::UnknownArgument {
                let _ = writeln!(
                    io::stderr(),
                    "hawser top reads only the agent's page: leave out the flags of the agent, and set --page"
                );
            }
            if error.use_stderr() {
                ExitCode::from(misread)
            } else {
                ExitCode::SUCCESS
            }
        }
    }
}

/// The command line with its subcommand, which is omitted if this program replaces api-syncagent.
fn spelled_out(args: impl IntoIterator<Item = OsString>) -> Vec<OsString> {
    let mut args: Vec<_> = args.into_iter().collect();
    let called = args.first().and_then(|path| Path::new(path).file_name());
    let flag_first = args.get(1).is_some_and(|first| {
        first.as_encoded_bytes().starts_with(b"-") && !OWN_FLAGS.iter().any(|own| first == own)
    });
    let is_hyperfed = called == Some(OsStr::new(HYPERFED));
    let program = if is_hyperfed {
        args.get(1).map(OsString::as_os_str)
    } else {
        called
    };
    let federated = FEDERATED
        .iter()
        .find(|(name, _)| program == Some(OsStr::new(name)));
    if MIRRORED.iter().any(|name| called == Some(OsStr::new(name))) {
        args.insert(1, "mirror".into());
    } else if let Some((_, command)) = federated {
        if is_hyperfed {
            args.remove(1);
        }
        args.insert(1, command.into());
    } else if called == Some(OsStr::new(ORIGINAL)) || flag_first {
        args.insert(1, "agent".into());
    }
    let is_at = |place: usize, wanted: &str| args.get(place).is_some_and(|word| word == wanted);
    if is_at(1, "mirror") {
        mirror::two_dashes(&mut args[2..], &["h"]);
    } else if is_at(1, "explain") && is_at(2, "mirror") {
        mirror::two_dashes(&mut args[3..], &["h", "n", "o"]);
    }
    let is = |wanted: &str| args.get(1).is_some_and(|command| command == wanted);
    // The flags that are taken out, beside those of klog, and whether somebody is told of them.
    let ignored: Option<(&[&str], &[&str], bool)> = if is("federate") || is("kubefed-webhook") {
        Some((&[], &[], true))
    } else if is("hub") {
        Some((hub::SWITCHES, hub::VALUES, true))
    } else if is("member") {
        Some((member::SWITCHES, member::VALUES, true))
    } else if is("kubefedctl") {
        Some((&[], &[], false))
    } else {
        None
    };
    if let Some((switches, values, is_told)) = ignored {
        let taken = klog::take(&mut args, switches, values);
        let told = taken.iter().filter(|_| is_told);
        let told = told.map(|flag| format!("--ignored-flag={flag}").into());
        args.splice(2..2, told);
    }
    args
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The command lines in the help of a command and of its subcommands.
    fn examples(command: &clap::Command, all: &mut Vec<String>) {
        let help = command.get_after_help().map(ToString::to_string);
        let lines = help.unwrap_or_default().replace("\\\n", " ");
        let hawser = |line: &str| line.trim().strip_prefix("hawser ").map(str::to_owned);
        all.extend(lines.lines().filter_map(hawser));
        command.get_subcommands().for_each(|one| examples(one, all));
    }

    #[test]
    fn the_examples_in_the_help_are_command_lines() {
        let mut all = Vec::new();
        examples(&Cli::command(), &mut all);
        for command in [
            "adopt",
            "check",
            "completion",
            "explain",
            "orphans",
            "plan",
            "rbac",
            "release",
            "render",
            "top",
        ] {
            let is_of_it = |line: &String| line.split(' ').next() == Some(command);
            assert!(all.iter().any(is_of_it), "{command} has no example");
        }
        for line in all {
            let words = line.split_whitespace();
            let words = words.take_while(|word| !["|", ">"].contains(word));
            let words = std::iter::once("hawser").chain(words.map(|word| word.trim_matches('\'')));
            let parsed = Cli::try_parse_from(words);
            assert!(
                parsed.is_ok(),
                "{line}: {}",
                parsed.err().map(|e| e.to_string()).unwrap_or_default()
            );
        }
    }
}
