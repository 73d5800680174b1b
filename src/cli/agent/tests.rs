use clap::error::ErrorKind;
use clap::{CommandFactory as _, Parser as _};

use super::super::{Cli, Command, spelled_out};
use super::*;
use crate::publish::agent::options::{
    AgentOptions, Controller, DeletionBrake, FlagError, LeaderElection,
};
use crate::publish::pause::LONGEST_OF_CONSUMERS;

/// Every flag of api-syncagent, and Hawser's own.
const FLAGS: &[&str] = &[
    "--kubeconfig",
    "--kcp-kubeconfig",
    "--namespace",
    "--apiexportendpointslice-ref",
    "--apiexport-ref",
    "--agent-name",
    "--published-resource-selector",
    "--enable-leader-election",
    "--kubeconfig-host-override",
    "--kubeconfig-ca-file-override",
    "--metrics-address",
    "--page-address",
    "--health-address",
    "--disabled-controllers",
    "--log-debug",
    "--log-format",
    "--max-in-flight-kcp",
    "--max-in-flight-service",
    "--deletion-brake",
    "--workspace-cache-mib",
    "--longest-consumer-pause",
    "--trace-context",
    "--shards",
];

fn parse(args: &[&str]) -> Result<AgentArgs, clap::Error> {
    match Cli::try_parse_from(spelled_out(args.iter().map(Into::into)))?.command {
        Command::Agent(args) => Ok(*args),
        other => panic!("not the agent: {other:?}"),
    }
}

fn with_required(more: &[&str]) -> Vec<String> {
    [
        "hawser",
        "agent",
        "--namespace=ns",
        "--kcp-kubeconfig",
        "kcp",
        "--apiexportendpointslice-ref=slice",
    ]
    .iter()
    .chain(more)
    .map(|&arg| arg.to_owned())
    .collect()
}

#[track_caller]
fn parsed(more: &[&str]) -> AgentArgs {
    let args = with_required(more);
    let args: Vec<_> = args.iter().map(String::as_str).collect();
    parse(&args).unwrap()
}

#[track_caller]
fn options(more: &[&str]) -> AgentOptions {
    parsed(more).given().check().unwrap().options
}

#[track_caller]
fn unparseable(more: &[&str]) {
    let args = with_required(more);
    let args: Vec<_> = args.iter().map(String::as_str).collect();
    let error = parse(&args).unwrap_err();
    assert!(error.use_stderr(), "{more:?}");
    assert_eq!(error.exit_code(), 2, "{more:?}");
}

#[test]
fn the_command_line_is_sound() {
    Cli::command().debug_assert();
}

#[test]
fn values_follow_an_equals_sign_or_stand_for_themselves() {
    for more in [
        ["--agent-name=one"].as_slice(),
        &["--agent-name", "one"],
        &["--agent-name", "other", "--agent-name=one"],
    ] {
        assert_eq!(options(more).agent_name, "one");
    }
    let selector = options(&["--published-resource-selector", "tier in (a, b),!old"]).selector;
    assert_eq!(
        selector,
        kube_lang::selector::Selector::parse("tier in (a,b),!old").unwrap()
    );
}

#[test]
fn a_value_may_start_with_a_dash() {
    let problems = parsed(&["--agent-name", "--namespace"])
        .given()
        .check()
        .unwrap_err();
    assert_eq!(problems.0, [FlagError::AgentName("--namespace".to_owned())]);
    assert_eq!(
        options(&["--kubeconfig", "-"]).service_cluster.kubeconfig,
        Some("-".into())
    );
}

#[test]
fn an_empty_value_is_as_good_as_none() {
    let options = options(&[
        "--kubeconfig=",
        "--kubeconfig-host-override=",
        "--kubeconfig-ca-file-override",
        "",
        "--published-resource-selector=",
        "--disabled-controllers=",
        "--metrics-address=",
        "--agent-name=",
    ]);
    assert_eq!(options.service_cluster.kubeconfig, None);
    assert_eq!(options.service_cluster.host_override, None);
    assert_eq!(options.service_cluster.ca_file_override, None);
    assert_eq!(options.metrics_address, None);
    assert_eq!(options.agent_name, "slice-syncagent");
    assert!(options.disabled.is_empty() && options.selector.is_empty());
}

#[test]
fn switches_take_a_value_behind_an_equals_sign_only() {
    for (more, expected) in [
        ([].as_slice(), LeaderElection::Off),
        (&["--enable-leader-election"], LeaderElection::On),
        (&["--enable-leader-election=true"], LeaderElection::On),
        (&["--enable-leader-election=T"], LeaderElection::On),
        (&["--enable-leader-election=1"], LeaderElection::On),
        (&["--enable-leader-election=False"], LeaderElection::Off),
        (&["--enable-leader-election=0"], LeaderElection::Off),
        (
            &["--enable-leader-election", "--enable-leader-election=false"],
            LeaderElection::Off,
        ),
        (
            &["--enable-leader-election=false", "--enable-leader-election"],
            LeaderElection::On,
        ),
        // What stands behind a switch is no value of it, and nothing else either.
        (&["--enable-leader-election", "false"], LeaderElection::On),
    ] {
        assert_eq!(options(more).leader_election, expected, "{more:?}");
    }
    assert_eq!(parsed(&["--log-debug", "false"]).strays, ["false"]);
    for value in ["yes", "", "tRuE", "2"] {
        unparseable(&[&format!("--enable-leader-election={value}")]);
    }
}

#[test]
fn lists_are_comma_separated_and_repeatable() {
    let all = [Controller::ApiExport, Controller::Sync];
    for more in [
        ["--disabled-controllers=apiexport,sync"].as_slice(),
        &["--disabled-controllers", "apiexport,sync"],
        &[
            "--disabled-controllers=sync",
            "--disabled-controllers=apiexport",
        ],
        &[
            "--disabled-controllers=sync,sync",
            "--disabled-controllers",
            "\"apiexport\",sync",
        ],
    ] {
        assert!(options(more).disabled.into_iter().eq(all), "{more:?}");
    }
    let problems = parsed(&["--disabled-controllers=sync, apiexport,"])
        .given()
        .check();
    assert_eq!(
        problems.unwrap_err().0,
        [
            FlagError::Controller(" apiexport".to_owned()),
            FlagError::Controller(String::new())
        ]
    );
    assert_eq!(names("\"a,\"\"b\",c").unwrap().0, ["a,\"b", "c"]);
    for broken in ["\"sync", "sy\"nc", "\"sync\"x"] {
        unparseable(&[&format!("--disabled-controllers={broken}")]);
    }
}

#[test]
fn the_log_is_json_unless_it_is_said_otherwise_in_any_case() {
    let json = LogOptions {
        format: LogFormat::Json,
        verbosity: Verbosity::Info,
    };
    assert_eq!(parsed(&[]).log(), json);
    assert_eq!(parsed(&["--log-format=jSoN"]).log(), json);
    let console = LogOptions {
        format: LogFormat::Console,
        verbosity: Verbosity::Debug,
    };
    assert_eq!(
        parsed(&["--log-format", "CONSOLE", "--log-debug"]).log(),
        console
    );
    unparseable(&["--log-format=text"]);
    unparseable(&["--log-format="]);
}

#[test]
fn defaults_are_the_originals_and_ours() {
    let options = options(&[]);
    assert_eq!(options.metrics_address.as_deref(), Some("127.0.0.1:8085"));
    assert_eq!(options.health_address, None);
    assert_eq!(options.in_flight.kcp.get(), 32);
    assert_eq!(options.in_flight.service.get(), 32);
    assert_eq!(options.deletion_brake, DeletionBrake::Share(0.5));
    assert_eq!(options.workspace_cache, Some(64 << 20));
    assert_eq!(options.longest_pause, LONGEST_OF_CONSUMERS);
}

#[test]
fn unknown_flags_cannot_be_parsed() {
    for flag in [
        "--nonsense",
        "--name=a",
        "-n",
        "-namespace=a",
        "--max-in-flight-kcp=many",
    ] {
        unparseable(&[flag]);
    }
    unparseable(&["--agent-name"]);
}

#[test]
fn help_names_every_flag_and_is_no_error() {
    for args in [
        ["hawser", "agent", "--help"].as_slice(),
        &["api-syncagent", "-h"],
    ] {
        let help = parse(args).unwrap_err();
        assert_eq!(help.kind(), ErrorKind::DisplayHelp);
        assert_eq!(help.exit_code(), 0);
        let text = help.to_string();
        for flag in FLAGS {
            assert!(text.contains(flag), "{flag} is not named in\n{text}");
        }
    }
    let command = Cli::command();
    let agent = command.find_subcommand("agent").unwrap();
    for argument in agent.get_arguments().filter_map(clap::Arg::get_long) {
        assert!(
            FLAGS.contains(&format!("--{argument}").as_str()),
            "{argument} is not in the list"
        );
    }
}

#[test]
fn called_by_the_name_of_the_original_or_with_a_flag_first_it_is_the_agent() {
    for args in [
        ["api-syncagent", "--namespace=a"].as_slice(),
        &["/usr/local/bin/api-syncagent", "--namespace", "a"],
        &["hawser", "--namespace=a"],
        &["/usr/bin/hawser", "--namespace", "a"],
        &["hawser", "agent", "--namespace=a"],
    ] {
        assert_eq!(
            parse(args).unwrap().namespace.as_deref(),
            Some("a"),
            "{args:?}"
        );
    }
    assert_eq!(parse(&["api-syncagent"]).unwrap().namespace, None);
    for (args, kind) in [
        (["hawser", "--help"], ErrorKind::DisplayHelp),
        (["hawser", "-h"], ErrorKind::DisplayHelp),
        (["hawser", "--version"], ErrorKind::DisplayVersion),
        (["hawser", "-V"], ErrorKind::DisplayVersion),
        (["hawser", "nonsense"], ErrorKind::InvalidSubcommand),
    ] {
        let error = parse(&args).unwrap_err();
        assert_eq!(error.kind(), kind, "{args:?}");
        assert!(!error.to_string().contains("--namespace"), "{args:?}");
    }
}
