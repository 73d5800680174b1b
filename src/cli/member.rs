//! `hawser member`: the agent of a member of a fleet.
//!
//! Parses flags and variables as KubeFleet's member agent does.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::{ArgAction, Args};
use tracing::warn;

use crate::placement::member::options::{RawHubArgs, RawMemberArgs};
use crate::placement::member::process;
use hawser_runtime::process::logging::{self, LogFormat, LogOptions, Verbosity};

use super::hub::duration;
use super::service;

/// Flags of KubeFleet's member agent that have no effect here: without a value, and with one.
pub(super) const SWITCHES: &[&str] = &[
    "enable-pprof",
    "enable-v1alpha1-apis",
    "enable-v1beta1-apis",
    "enable-watch-work-with-priority-queue",
    "enable-work-applier-priority-queue",
    "work-applier-requeue-rate-limiter-skip-to-fast-backoff-for-available-or-diff-reported-work-objs",
];
pub(super) const VALUES: &[&str] = &[
    "cloud-config",
    "hub-api-burst",
    "hub-api-qps",
    "hub-burst",
    "hub-pprof-port",
    "hub-qps",
    "member-api-burst",
    "member-api-qps",
    "member-burst",
    "member-qps",
    "pprof-port",
    "property-provider",
    "region",
    "resync-period",
    "watch-work-reconcile-age",
    "work-applier-priority-linear-equation-coeff-a",
    "work-applier-priority-linear-equation-coeff-b",
    "work-applier-requeue-rate-limiter-attempts-with-fixed-delay",
    "work-applier-requeue-rate-limiter-exponential-base-for-fast-backoff",
    "work-applier-requeue-rate-limiter-exponential-base-for-slow-backoff",
    "work-applier-requeue-rate-limiter-fixed-delay-seconds",
    "work-applier-requeue-rate-limiter-initial-slow-backoff-delay-seconds",
    "work-applier-requeue-rate-limiter-max-fast-backoff-delay-seconds",
    "work-applier-requeue-rate-limiter-max-slow-backoff-delay-seconds",
];

/// Apply the Works of a KubeFleet hub to the member cluster that this runs in.
///
/// Accepts the environment and the flags of KubeFleet's member agent.
#[derive(Debug, Args)]
#[allow(clippy::doc_markdown)] // These comments are the help.
#[command(args_override_self = true)]
pub(super) struct MemberArgs {
    /// Name of the member
    #[arg(
        long,
        value_name = "NAME",
        env = "MEMBER_CLUSTER_NAME",
        default_value = "",
        hide_default_value = true
    )]
    member_cluster_name: String,

    /// Kubeconfig of the member [default: $KUBECONFIG, else the Pod's service account, else ~/.kube/config]
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,

    /// Kubeconfig of the hub, instead of its URL and a token
    #[arg(long, value_name = "FILE")]
    hub_kubeconfig: Option<PathBuf>,

    /// Namespace of the hub with Secrets for several members; this process runs the agents of all of them. Each Secret has
    /// the label hawser.dev/member=NAME and the key kubeconfig
    #[arg(long, value_name = "NAMESPACE")]
    kubeconfig_secrets: Option<String>,

    #[command(flatten)]
    hub: HubAccessArgs,

    #[command(flatten)]
    service: MemberServiceArgs,

    /// Treat a Job as available once one of its Pods is ready or has succeeded; false does not track Jobs
    #[arg(long, value_name = "BOOL", action = ArgAction::Set, default_value = "true")]
    track_jobs: bool,

    /// Report the namespaces of the member, up to 200. The hub then places a ResourcePlacement only on members that have
    /// its namespace
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true)]
    #[arg(action = ArgAction::Set, default_value = "false", default_missing_value = "true")]
    enable_namespace_collection_in_property_provider: bool,

    /// Time for which a deleted Work waits for objects that have other owners; a number without a unit is in minutes
    #[arg(long, value_name = "DURATION", default_value = "5m", value_parser = minutes)]
    deletion_wait_time: Duration,

    /// Flags of KubeFleet's member agent that were taken out of the command line
    #[arg(long, hide = true)]
    ignored_flag: Vec<String>,
}

/// Access to the hub without a kubeconfig.
#[derive(Debug, Args)]
#[allow(clippy::doc_markdown)]
struct HubAccessArgs {
    /// URL of the hub
    #[arg(
        long,
        value_name = "URL",
        env = "HUB_SERVER_URL",
        default_value = "",
        hide_default_value = true
    )]
    hub_server_url: String,

    /// File with the token for the hub
    #[arg(
        long,
        value_name = "FILE",
        env = "CONFIG_PATH",
        default_value = "/config/token"
    )]
    hub_token_file: PathBuf,

    /// File with the certificate authority of the hub
    #[arg(
        long,
        value_name = "FILE",
        env = "CA_BUNDLE",
        default_value = "",
        hide_default_value = true
    )]
    hub_ca_file: String,

    /// Certificate authority of the hub as base64
    #[arg(
        long,
        value_name = "BASE64",
        env = "HUB_CERTIFICATE_AUTHORITY",
        default_value = "",
        hide_default_value = true
    )]
    hub_certificate_authority: String,

    /// Use the certificate IDENTITY_CERT with its key IDENTITY_KEY instead of a token
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true)]
    #[arg(action = ArgAction::Set, default_value = "false", default_missing_value = "true")]
    use_ca_auth: bool,

    /// File with the certificate of this member
    #[arg(long, value_name = "FILE", env = "IDENTITY_CERT")]
    identity_cert: Option<String>,

    /// File with the key of the certificate
    #[arg(long, value_name = "FILE", env = "IDENTITY_KEY")]
    identity_key: Option<String>,

    /// Header of every request to the hub
    #[arg(
        long,
        value_name = "NAME: VALUE",
        env = "HUB_KUBE_HEADER",
        default_value = "",
        hide_default_value = true,
        hide_env_values = true
    )]
    hub_kube_header: String,

    /// Do not verify the certificate of the hub
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true)]
    #[arg(action = ArgAction::Set, default_value = "false", default_missing_value = "true")]
    tls_insecure: bool,
}

/// Leader election, probes, metrics and logs of the agent.
#[derive(Debug, Args)]
#[allow(clippy::doc_markdown)]
struct MemberServiceArgs {
    /// Elect a leader among several agents, by a Lease in the member
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true)]
    #[arg(action = ArgAction::Set, default_value = "false", default_missing_value = "true")]
    leader_elect: bool,

    /// Namespace of the Lease
    #[arg(long, value_name = "NAME", default_value = "kube-system")]
    leader_election_namespace: String,

    /// Listen address for probes; empty or 0 disables
    #[arg(long, value_name = "ADDRESS", default_value = ":8091")]
    health_probe_bind_address: String,

    /// Listen address for metrics; empty or 0 disables
    #[arg(long, value_name = "ADDRESS", default_value = ":8090")]
    metrics_bind_address: String,

    /// Second listen address for probes; empty or 0 disables [default: :8081 in a Pod if it is free, else none]
    #[arg(long, value_name = "ADDRESS")]
    hub_health_probe_bind_address: Option<String>,

    /// Second listen address for metrics; empty or 0 disables [default: :8080 in a Pod if it is free, else none]
    #[arg(long, value_name = "ADDRESS")]
    hub_metrics_bind_address: Option<String>,

    /// Log level: 5 and above log debug messages
    #[arg(short, long, value_name = "LEVEL", default_value_t = 0)]
    v: i32,

    /// Log format: JSON or Console
    #[arg(long, value_name = "FORMAT", default_value = "JSON", value_parser = log_format)]
    log_format: LogFormat,
}

/// Runs until a signal or an error stops it.
pub(super) fn run(args: MemberArgs) -> ExitCode {
    let log = LogOptions {
        format: args.service.log_format,
        verbosity: if args.service.v >= 5 {
            Verbosity::Debug
        } else {
            Verbosity::Info
        },
    };
    let given = RawMemberArgs {
        name: args.member_cluster_name,
        hub: RawHubArgs {
            kubeconfig: args.hub_kubeconfig,
            url: args.hub.hub_server_url,
            token_file: args.hub.hub_token_file,
            identity: args.hub.identity_cert.zip(args.hub.identity_key),
            uses_identity: args.hub.use_ca_auth,
            authority_file: args.hub.hub_ca_file,
            authority: args.hub.hub_certificate_authority,
            is_insecure: args.hub.tls_insecure,
            header: args.hub.hub_kube_header,
        },
        kubeconfig: args.kubeconfig,
        secrets: args.kubeconfig_secrets,
        lease_namespace: args
            .service
            .leader_elect
            .then_some(args.service.leader_election_namespace),
        health_address: args.service.health_probe_bind_address,
        metrics_address: args.service.metrics_bind_address,
        hub_health_address: args.service.hub_health_probe_bind_address,
        hub_metrics_address: args.service.hub_metrics_bind_address,
        is_in_pod: std::env::var_os("KUBERNETES_SERVICE_HOST").is_some(),
        tracks_jobs: args.track_jobs,
        reports_namespaces: args.enable_namespace_collection_in_property_provider,
        deletion_wait: args.deletion_wait_time,
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
        warn!(
            flags,
            "ignoring flags of KubeFleet that have no effect here"
        );
    }
    service::run("the member agent stopped", |stop| {
        process::run(options, stop)
    })
}

/// KubeFleet takes a number of minutes.
fn minutes(text: &str) -> Result<Duration, String> {
    let minutes = text
        .parse()
        .ok()
        .and_then(|count: u64| count.checked_mul(60));
    minutes.map_or_else(
        || duration(text),
        |seconds| Ok(Duration::from_secs(seconds)),
    )
}

fn log_format(text: &str) -> Result<LogFormat, String> {
    text.parse().map_err(|error| format!("{error}"))
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;

    use clap::Parser;

    use super::super::klog;
    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        member: MemberArgs,
    }

    fn read(line: &str) -> MemberArgs {
        let mut args: Vec<OsString> = line.split_whitespace().map(OsString::from).collect();
        klog::take(&mut args, SWITCHES, VALUES);
        Line::parse_from(args).member
    }

    #[test]
    fn the_command_line_of_the_original_is_understood() {
        let args = read(
            "member --leader-elect=true --use-ca-auth=false --tls-insecure --v=2 -add_dir_header --property-provider azure \
             --enable-v1beta1-apis=true --hub-metrics-bind-address=:8080 --deletion-wait-time=2",
        );
        assert!(args.service.leader_elect && args.hub.tls_insecure && !args.hub.use_ca_auth);
        assert_eq!(args.service.v, 2);
        let metrics = args.service.hub_metrics_bind_address;
        assert_eq!(metrics.as_deref(), Some(":8080"));
        assert_eq!(args.deletion_wait_time, Duration::from_mins(2));
        let in_seconds = read("member --deletion-wait-time 90s").deletion_wait_time;
        assert_eq!(in_seconds, Duration::from_secs(90));
    }
}
