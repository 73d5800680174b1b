//! `hawser agent`: publishes the APIs of a service cluster into kcp workspaces.
//!
//! Parses flags as pflag does: a value follows `=` or is the next argument, whatever it begins with; switches take a
//! value only after `=`; lists are comma-separated and repeatable; the last one of other repeated flags applies.
//! [`RawAgentArgs`] interprets the values.

use std::process::ExitCode;
use std::time::Duration;

use clap::{ArgAction, Args};

use crate::publish::agent::options::{RawAgentArgs, ValidAgentArgs};
use crate::publish::agent::process;
use hawser_runtime::overview::site::PAGE_ADDRESS;
use hawser_runtime::process::logging::{self, LogFormat, LogOptions, Verbosity};

use super::hub::duration;
use super::service;

/// Publish APIs of a service cluster into kcp workspaces, and keep the objects in sync.
///
/// Accepts the flags of api-syncagent. `hawser` runs this command when it is called by that name or with a flag first.
#[derive(Debug, Args)]
#[allow(clippy::doc_markdown)] // These comments are the help.
#[command(args_override_self = true)]
pub(super) struct AgentArgs {
    /// Kubeconfig of the service cluster [default: $KUBECONFIG, else the Pod's service account, else ~/.kube/config]
    #[arg(long, value_name = "FILE", allow_hyphen_values = true)]
    kubeconfig: Option<String>,

    /// URL of the service cluster, instead of the one in its kubeconfig
    #[arg(long, value_name = "URL", allow_hyphen_values = true)]
    kubeconfig_host_override: Option<String>,

    /// File with the certificate authority of the service cluster, instead of the one in its kubeconfig
    #[arg(long, value_name = "FILE", allow_hyphen_values = true)]
    kubeconfig_ca_file_override: Option<String>,

    /// Kubeconfig of the kcp workspace that has the APIExportEndpointSlice (required)
    #[arg(long, value_name = "FILE", allow_hyphen_values = true)]
    kcp_kubeconfig: Option<String>,

    /// Namespace of the service cluster for the leader election and the state Secrets (required)
    #[arg(long, value_name = "NAME", allow_hyphen_values = true)]
    namespace: Option<String>,

    /// Name of the APIExportEndpointSlice (required)
    #[arg(long, value_name = "NAME", allow_hyphen_values = true)]
    apiexportendpointslice_ref: Option<String>,

    /// Deprecated: name of an APIExport; its APIExportEndpointSlice has the same name
    #[arg(long, value_name = "NAME", allow_hyphen_values = true)]
    apiexport_ref: Option<String>,

    /// Name of this agent [default: the slice's name with -syncagent]
    #[arg(long, value_name = "NAME", allow_hyphen_values = true)]
    agent_name: Option<String>,

    /// Label selector for the PublishedResources that this agent serves
    #[arg(long, value_name = "SELECTOR", allow_hyphen_values = true)]
    published_resource_selector: Option<String>,

    /// Controllers to disable: apiexport, apiresourceschema, sync
    #[arg(long, value_name = "NAMES", action = ArgAction::Append, value_parser = names)]
    #[arg(allow_hyphen_values = true)]
    disabled_controllers: Vec<Names>,

    /// Elect a leader among agents with the same name
    #[arg(long, value_name = "BOOL", value_parser = parse_bool, default_value = "false")]
    #[arg(num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    enable_leader_election: bool,

    /// Number of parts in which the replicas share the workspaces
    #[arg(
        long,
        value_name = "NUMBER",
        default_value_t = 1,
        allow_hyphen_values = true
    )]
    shards: usize,

    /// Listen address for metrics; 0 disables
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:8085")]
    #[arg(allow_hyphen_values = true)]
    metrics_address: String,

    /// Listen address for probes; empty or 0 disables
    #[arg(long, value_name = "ADDRESS", allow_hyphen_values = true)]
    health_address: Option<String>,

    /// Listen address for the page about objects that are out of sync; 0 disables
    #[arg(long, value_name = "ADDRESS", default_value = PAGE_ADDRESS, allow_hyphen_values = true)]
    page_address: String,

    /// Log debug messages
    #[arg(long, value_name = "BOOL", value_parser = parse_bool, default_value = "false")]
    #[arg(num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    log_debug: bool,

    /// Log format: JSON or Console
    #[arg(long, value_name = "FORMAT", default_value = "JSON", value_parser = log_format)]
    #[arg(allow_hyphen_values = true)]
    log_format: LogFormat,

    /// Maximum number of concurrent requests to kcp
    #[arg(
        long,
        value_name = "NUMBER",
        default_value_t = 32,
        allow_hyphen_values = true
    )]
    max_in_flight_kcp: usize,

    /// Maximum number of concurrent requests to the service cluster
    #[arg(
        long,
        value_name = "NUMBER",
        default_value_t = 32,
        allow_hyphen_values = true
    )]
    max_in_flight_service: usize,

    /// Hold deletions of a kind when more than this share of its copies would be deleted at once; off disables
    #[arg(
        long,
        value_name = "SHARE",
        default_value = "50%",
        allow_hyphen_values = true
    )]
    deletion_brake: String,

    /// Cache at most this many MiB of a workspace's objects of one kind; 0 disables
    #[arg(
        long,
        value_name = "NUMBER",
        default_value_t = 64,
        allow_hyphen_values = true
    )]
    workspace_cache_mib: usize,

    /// Ignore pauses of consumers that end later than this from now
    #[arg(long, value_name = "DURATION", default_value = "24h", value_parser = duration)]
    longest_consumer_pause: Duration,

    /// Send the annotation traceparent of an object with the requests about it
    #[arg(long, value_name = "BOOL", value_parser = parse_bool, default_value = "false")]
    #[arg(num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    trace_context: bool,

    /// Positional arguments; they are ignored
    #[arg(hide = true, value_name = "IGNORED")]
    strays: Vec<String>,
}

/// One value of a list.
#[derive(Clone, Debug)]
struct Names(Vec<String>);

/// Runs until a signal or an error stops it.
pub(super) fn run(args: AgentArgs) -> ExitCode {
    let log = args.log();
    let strays = args.strays.clone();
    let checked = match args.given().check() {
        Ok(checked) => checked,
        Err(problems) => return super::output::fail(&problems),
    };
    if let Err(error) = logging::start(log) {
        return super::output::fail(&error);
    }
    let ValidAgentArgs { options, warnings } = checked;
    for warning in warnings {
        tracing::warn!("{warning}");
    }
    if !strays.is_empty() {
        tracing::warn!(
            arguments = strays.join(" "),
            "ignoring unexpected arguments"
        );
    }
    tracing::info!(
        version = env!("CARGO_PKG_VERSION"),
        name = options.agent_name,
        apiexportendpointslice = options.slice,
        "starting the agent"
    );
    service::run("the agent stopped", |stop| process::run(options, stop))
}

// === impl AgentArgs ===

impl AgentArgs {
    fn log(&self) -> LogOptions {
        LogOptions {
            format: self.log_format,
            verbosity: if self.log_debug {
                Verbosity::Debug
            } else {
                Verbosity::Info
            },
        }
    }

    fn given(self) -> RawAgentArgs {
        RawAgentArgs {
            kubeconfig: self.kubeconfig.unwrap_or_default(),
            kubeconfig_host_override: self.kubeconfig_host_override.unwrap_or_default(),
            kubeconfig_ca_file_override: self.kubeconfig_ca_file_override.unwrap_or_default(),
            kcp_kubeconfig: self.kcp_kubeconfig.unwrap_or_default(),
            namespace: self.namespace.unwrap_or_default(),
            slice: self.apiexportendpointslice_ref.unwrap_or_default(),
            export: self.apiexport_ref.unwrap_or_default(),
            agent_name: self.agent_name.unwrap_or_default(),
            selector: self.published_resource_selector.unwrap_or_default(),
            disabled_controllers: self
                .disabled_controllers
                .into_iter()
                .flat_map(|Names(names)| names)
                .collect(),
            leader_election: self.enable_leader_election,
            shards: Some(self.shards),
            metrics_address: self.metrics_address,
            health_address: self.health_address.unwrap_or_default(),
            page_address: self.page_address,
            max_in_flight_kcp: self.max_in_flight_kcp,
            max_in_flight_service: self.max_in_flight_service,
            deletion_brake: self.deletion_brake,
            workspace_cache_mib: self.workspace_cache_mib,
            longest_consumer_pause: Some(self.longest_consumer_pause),
            trace_context: self.trace_context,
        }
    }
}

/// Parses a boolean as pflag does.
pub(super) fn parse_bool(text: &str) -> Result<bool, String> {
    match text {
        "1" | "t" | "T" | "true" | "TRUE" | "True" => Ok(true),
        "0" | "f" | "F" | "false" | "FALSE" | "False" => Ok(false),
        _ => Err("neither true nor false".to_owned()),
    }
}

fn log_format(text: &str) -> Result<LogFormat, String> {
    text.parse()
        .map_err(|error: logging::UnknownFormat| error.to_string())
}

/// One line of comma-separated values, as pflag reads it: a value may be in double quotes, with each double quote in it
/// doubled.
fn names(text: &str) -> Result<Names, String> {
    if text.is_empty() {
        return Ok(Names(Vec::new()));
    }
    let mut names = Vec::new();
    let mut rest = text;
    loop {
        let (name, after) = if let Some(quoted) = rest.strip_prefix('"') {
            quoted_name(quoted)?
        } else {
            let end = rest.find(',').unwrap_or(rest.len());
            (rest[..end].to_owned(), &rest[end..])
        };
        if !rest.starts_with('"') && name.contains('"') {
            return Err("unexpected double quote in an unquoted value".to_owned());
        }
        names.push(name);
        if after.is_empty() {
            return Ok(Names(names));
        }
        rest = after
            .strip_prefix(',')
            .ok_or("unexpected text after the closing quote")?;
    }
}

/// A value up to its closing quote, and what follows that.
fn quoted_name(mut rest: &str) -> Result<(String, &str), String> {
    let mut name = String::new();
    loop {
        let (part, after) = rest.split_once('"').ok_or("missing closing quote")?;
        name.push_str(part);
        let Some(more) = after.strip_prefix('"') else {
            return Ok((name, after));
        };
        name.push('"');
        rest = more;
    }
}

#[cfg(test)]
mod tests;
