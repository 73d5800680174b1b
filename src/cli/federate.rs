//! `hawser federate`: the control plane of KubeFed.
//!
//! Parses flags as pflag does.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use tracing::warn;

use crate::federation::options::RawFederationArgs;
#[cfg(feature = "webhook")]
use crate::federation::options::RawWebhookArgs;
use crate::federation::process;
use hawser_federation::check::CheckSettings;
use hawser_federation::pods::PodTimeouts;
use hawser_federation::replicas::design;
use hawser_runtime::process::logging::{self, LogFormat, LogOptions, Verbosity};

use kube_lang::go_text::parse_duration;

use super::agent::parse_bool;
use super::service;

/// The file with the namespace of a Pod.
const POD_NAMESPACE: &str = "/var/run/secrets/kubernetes.io/serviceaccount/namespace";

/// Propagate objects of federated types to member clusters.
///
/// Accepts the flags of KubeFed's controller-manager.
#[derive(Debug, Args)]
#[allow(clippy::doc_markdown)] // These comments are the help.
#[command(args_override_self = true, version)]
pub(super) struct FederateArgs {
    /// Kubeconfig of the host cluster [default: $KUBECONFIG, else the Pod's service account, else ~/.kube/config]
    #[arg(long, value_name = "FILE", allow_hyphen_values = true)]
    kubeconfig: Option<String>,

    /// URL of the host cluster, instead of the kubeconfig's
    #[arg(
        long,
        value_name = "URL",
        default_value = "",
        hide_default_value = true
    )]
    #[arg(allow_hyphen_values = true)]
    master: String,

    /// File with the KubeFedConfig, instead of the one in the host cluster
    #[arg(
        long,
        value_name = "FILE",
        default_value = "",
        hide_default_value = true
    )]
    #[arg(allow_hyphen_values = true)]
    kubefed_config: String,

    /// Requests per second to the host cluster [default: unlimited]
    #[arg(
        long,
        value_name = "COUNT",
        default_value_t = 0.0,
        hide_default_value = true
    )]
    #[arg(allow_hyphen_values = true)]
    rest_config_qps: f32,

    /// No effect; bursts are not limited
    #[arg(
        long,
        value_name = "COUNT",
        default_value_t = 0,
        hide_default_value = true
    )]
    #[arg(allow_hyphen_values = true, hide = true)]
    rest_config_burst: i64,

    /// Namespace of the control plane [default: the Pod's]
    #[arg(long, value_name = "NAME", allow_hyphen_values = true)]
    kubefed_namespace: Option<String>,

    /// Listen address for probes; empty or 0 disables
    #[arg(long, value_name = "ADDRESS", default_value = ":8080")]
    #[arg(allow_hyphen_values = true)]
    healthz_addr: String,

    /// Listen address for metrics; empty or 0 disables
    #[arg(long, value_name = "ADDRESS", default_value = ":9090")]
    #[arg(allow_hyphen_values = true)]
    metrics_addr: String,

    #[cfg(feature = "webhook")]
    #[command(flatten)]
    webhook: WebhookArgs,
    /// Time between checks of replicas that differ from the preferences
    #[arg(long, value_name = "DURATION", default_value = "1m", value_parser = seconds)]
    replica_check_period: i64,

    /// Time for which a Pod may be unscheduled before its replica moves to another cluster
    #[arg(long, value_name = "DURATION", default_value = "1m", value_parser = seconds)]
    replica_schedule_timeout: i64,

    /// Time for which a Pod may be missing, or scheduled and not running, before its replica moves to another cluster
    #[arg(long, value_name = "DURATION", default_value = "1m", value_parser = seconds)]
    replica_run_timeout: i64,

    /// Number of replicas that stay in a cluster without capacity, as probes of new capacity
    #[arg(long, value_name = "COUNT", default_value_t = 2)]
    #[arg(value_parser = clap::value_parser!(i64).range(1..=1000))]
    replica_probes: i64,

    /// Time for which a deletion waits for a cluster that is not ready [default: unlimited]
    #[arg(long, value_name = "DURATION", value_parser = seconds)]
    give_up_deletions_after: Option<i64>,

    /// Apply overrides of the cluster "*" to every cluster, before the cluster's own
    #[arg(long, value_name = "BOOL", value_parser = parse_bool, default_value = "false")]
    #[arg(num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    wildcard_overrides: bool,

    /// Copy the annotations of templates to the copies, in addition to those that the copies have
    #[arg(long, value_name = "BOOL", value_parser = parse_bool, default_value = "false")]
    #[arg(num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    federate_annotations: bool,

    /// Log level: 5 and above log debug messages
    #[arg(short, long, value_name = "LEVEL", default_value_t = 0)]
    v: i32,

    /// Log format: JSON or Console
    #[arg(long, value_name = "FORMAT", default_value = "JSON", value_parser = log_format)]
    #[arg(allow_hyphen_values = true)]
    log_format: LogFormat,

    /// Flags of KubeFed's log library that were removed from the command line
    #[arg(long, hide = true)]
    ignored_flag: Vec<String>,
}

/// The flags of the admission webhook.
#[cfg(feature = "webhook")]
#[derive(Debug, Args)]
struct WebhookArgs {
    /// Listen address of the admission webhook; empty or 0 disables
    #[arg(long = "webhook-addr", value_name = "ADDRESS", default_value = "")]
    #[arg(allow_hyphen_values = true, hide_default_value = true)]
    addr: String,

    /// Service by which API servers reach the webhook, at port 443
    #[arg(
        long = "webhook-service",
        value_name = "NAME",
        default_value = "kubefed-admission-webhook"
    )]
    service: String,

    /// URL by which API servers reach the webhook, instead of a Service
    #[arg(
        long = "webhook-url",
        value_name = "URL",
        default_value = "",
        hide_default_value = true
    )]
    url: String,
}

/// Runs until a signal or an error stops it.
pub(super) fn run(args: FederateArgs) -> ExitCode {
    let log = LogOptions {
        format: args.log_format,
        verbosity: if args.v >= 5 {
            Verbosity::Debug
        } else {
            Verbosity::Info
        },
    };
    let given = RawFederationArgs {
        kubeconfig: args.kubeconfig.unwrap_or_default(),
        master: args.master,
        config_file: args.kubefed_config,
        qps: args.rest_config_qps,
        namespace: args.kubefed_namespace.unwrap_or_default(),
        namespace_file: PathBuf::from(POD_NAMESPACE),
        scope: std::env::var("DEFAULT_KUBEFED_SCOPE").unwrap_or_default(),
        healthz_address: args.healthz_addr,
        metrics_address: args.metrics_addr,
        #[cfg(feature = "webhook")]
        webhook: RawWebhookArgs {
            listens: args.webhook.addr,
            service: args.webhook.service,
            url: args.webhook.url,
        },
        scheduling: CheckSettings {
            patience: PodTimeouts {
                scheduled: args.replica_schedule_timeout,
                running: args.replica_run_timeout,
            },
            planner: design::Settings {
                probes: args.replica_probes,
                ..design::Settings::default()
            },
            period: args.replica_check_period,
        },
        give_up_after: (args.give_up_deletions_after)
            .and_then(|seconds| u64::try_from(seconds).ok())
            .map(Duration::from_secs),
        overrides_all: args.wildcard_overrides,
        federates_annotations: args.federate_annotations,
    };
    let options = match given.check() {
        Ok(options) => options,
        Err(problem) => return super::output::fail(&problem),
    };
    if let Err(error) = logging::start(log) {
        return super::output::fail(&error);
    }
    if !args.ignored_flag.is_empty() {
        let flags = args.ignored_flag.join(" ");
        warn!(flags, "flags of KubeFed's log library are ignored");
    }
    service::run("the control plane stopped", |stop| {
        process::run(options, stop)
    })
}

/// A duration as Go writes it, in seconds.
fn seconds(text: &str) -> Result<i64, String> {
    let nanos = parse_duration(text).ok_or("expected a duration such as 90s or 1m30s")?;
    let seconds = nanos / 1_000_000_000;
    if seconds < 1 {
        return Err("must be at least 1s".to_owned());
    }
    Ok(seconds)
}

fn log_format(text: &str) -> Result<LogFormat, String> {
    text.parse().map_err(|error| format!("{error}"))
}
