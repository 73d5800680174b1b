//! `hawser hub`: the hub of a fleet, as KubeFleet's hub agent.
//!
//! Parses flags as Go's flag libraries do.

use std::num::NonZeroU32;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::{ArgAction, Args};
use tracing::warn;

use crate::placement::hub::objects::HubFeatures;
use crate::placement::hub::passes::HubSettings;
use crate::placement::hub::process::{self, HubOptions, signed};
use crate::placement::hub::selectable::SelectionRules;
#[cfg(feature = "webhook")]
use crate::placement::hub::webhook::HubWebhook;
#[cfg(feature = "webhook")]
use hawser_placement::admission::{guard::GuardRail, review::HubGuards};
use hawser_placement::hub::view::HubPolicy;
use hawser_placement::resources::{ApiFilter, ApiPatternError};
use hawser_placement::scheduler::GracePeriods;
use hawser_placement::snapshots::Debounce;
use hawser_runtime::process::logging::{self, LogFormat, LogOptions, Verbosity};
use kube_lang::go_text::parse_duration;
#[cfg(feature = "webhook")]
use kube_schema::admission::WebhookAddress;

use super::service;

/// Flags of KubeFleet's hub agent that have no effect here: without a value, and with one.
pub(super) const SWITCHES: &[&str] = &[
    "enable-admission-policy-manager",
    "enable-cluster-inventory-apis",
    "enable-v1beta1-apis",
    "use-cert-manager",
];
pub(super) const VALUES: &[&str] = &[
    "admission-policy-manager-config-file",
    "cluster-unhealthy-threshold",
    "concurrent-resource-change-syncs",
    "hub-api-burst",
    "max-concurrent-cluster-placement",
    "max-fleet-size",
    "rate-limiter-base-delay",
    "rate-limiter-bucket-size",
    "rate-limiter-max-delay",
    "rate-limiter-qps",
    "resync-period",
    "work-pending-grace-period",
];

/// Place resources of a hub cluster on the members of a fleet.
///
/// Accepts the flags of KubeFleet's hub agent.
#[derive(Debug, Args)]
#[allow(
    clippy::doc_markdown,
    clippy::struct_excessive_bools,
    reason = "these comments are the help, and these flags are KubeFleet's"
)]
#[command(args_override_self = true)]
pub(super) struct HubArgs {
    /// Kubeconfig of the hub cluster [default: $KUBECONFIG, else the Pod's service account, else ~/.kube/config]
    #[arg(long, value_name = "FILE", allow_hyphen_values = true)]
    kubeconfig: Option<String>,

    /// Elect a leader among several hubs, by a Lease
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true)]
    #[arg(action = ArgAction::Set, default_value = "false", default_missing_value = "true")]
    leader_elect: bool,

    /// Namespace of the Lease
    #[arg(long, value_name = "NAME", default_value = "kube-system")]
    leader_election_namespace: String,

    /// Listen address for metrics; empty or 0 disables
    #[arg(long, value_name = "ADDRESS", default_value = ":8080")]
    #[arg(allow_hyphen_values = true)]
    metrics_bind_address: String,

    /// Listen address for probes; empty or 0 disables
    #[arg(long, value_name = "ADDRESS", default_value = ":8081")]
    #[arg(allow_hyphen_values = true)]
    health_probe_bind_address: String,

    /// Requests per second to the hub; 0 is unlimited
    #[arg(long, value_name = "NUMBER", default_value = "250")]
    hub_api_qps: u32,

    /// Minimum time between two resource snapshots of a placement. Changes are collected only if this and
    /// --resource-changes-collection-duration are above 0
    #[arg(long, value_name = "DURATION", default_value = "0s", value_parser = duration)]
    resource_snapshot_creation_minimum_interval: Duration,

    /// Time for which changes of resources are collected before they become a snapshot
    #[arg(long, value_name = "DURATION", default_value = "0s", value_parser = duration)]
    resource_changes_collection_duration: Duration,

    /// Time that the hub waits for the agent of a leaving member
    #[arg(long, value_name = "DURATION", default_value = "15m", value_parser = duration)]
    force_delete_wait_time: Duration,

    /// APIs that are not placed: group, group/version or group/version/Kind,Kind, separated by ;
    #[arg(
        long,
        value_name = "APIS",
        default_value = "",
        hide_default_value = true
    )]
    skipped_propagating_apis: String,

    /// The only APIs that are placed, written in the same way
    #[arg(
        long,
        value_name = "APIS",
        default_value = "",
        hide_default_value = true
    )]
    allowed_propagating_apis: String,

    /// Namespaces that are not placed, separated by commas
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    skipped_propagating_namespaces: Vec<String>,

    /// Carry out ClusterResourcePlacementEvictions; with false, their CRD need not exist
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true)]
    #[arg(action = ArgAction::Set, default_value = "true", default_missing_value = "true")]
    enable_eviction_apis: bool,

    /// Carry out staged update runs; with false, their CRDs need not exist
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true)]
    #[arg(action = ArgAction::Set, default_value = "true", default_missing_value = "true")]
    enable_staged_update_run_apis: bool,

    /// Serve ResourcePlacements; with false, the CRDs of placements with a namespace need not exist
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true)]
    #[arg(action = ArgAction::Set, default_value = "true", default_missing_value = "true")]
    enable_resource_placement: bool,

    /// Run workloads on the hub: the webhook admits Pods and ReplicaSets, and objects that controllers create for them
    /// are not placed
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true)]
    #[arg(action = ArgAction::Set, default_value = "false", default_missing_value = "true")]
    enable_workload: bool,

    /// Let the webhook admit PodDisruptionBudgets on the hub
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true)]
    #[arg(action = ArgAction::Set, default_value = "true", default_missing_value = "true")]
    enable_pdbs: bool,

    /// Let the webhook refuse changes of the fleet's own objects, and of objects in the namespaces fleet-* and kube-*, by
    /// users other than administrators, controllers of Kubernetes and the agents of members
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true)]
    #[arg(action = ArgAction::Set, default_value = "false", default_missing_value = "true")]
    enable_guard_rail: bool,

    /// Users that the guard rail trusts, separated by commas
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    whitelisted_users: Vec<String>,

    /// Let the guard rail refuse changes of the labels of members too
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true)]
    #[arg(action = ArgAction::Set, default_value = "false", default_missing_value = "true")]
    deny_modify_member_cluster_labels: bool,

    /// Count a member as joined only when the agents of the fleet's networking have joined too
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true)]
    #[arg(action = ArgAction::Set, default_value = "false", default_missing_value = "true")]
    networking_agents_enabled: bool,

    /// Serve an admission webhook that validates placements, overrides, evictions and members. Outside a Pod (without
    /// POD_NAMESPACE), the webhook is served only with --webhook-url
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true)]
    #[arg(action = ArgAction::Set, default_value = "true", default_missing_value = "true")]
    enable_webhook: bool,

    /// Listen address of the admission webhook
    #[arg(long, value_name = "ADDRESS", default_value = ":9443")]
    #[arg(allow_hyphen_values = true)]
    webhook_bind_address: String,

    /// How API servers reach the webhook: url or service
    #[arg(long, value_name = "TYPE", default_value = "url", value_parser = ["url", "service"])]
    webhook_client_connection_type: String,

    /// Service of the webhook in the Pod's namespace, at port 9443
    #[arg(long, value_name = "NAME", default_value = "fleetwebhook")]
    webhook_service_name: String,

    /// URL by which API servers reach the webhook, instead of the Service
    #[arg(
        long,
        value_name = "URL",
        default_value = "",
        hide_default_value = true
    )]
    webhook_url: String,

    /// Source of the events about placements; cluster-resource-placement-controller in older versions of KubeFleet
    #[arg(long, value_name = "NAME", default_value = "placement-controller")]
    placement_event_source: String,

    /// Log level: 5 and above log debug messages
    #[arg(short, long, value_name = "LEVEL", default_value_t = 0)]
    v: i32,

    /// Log format: JSON or Console
    #[arg(long, value_name = "FORMAT", default_value = "JSON", value_parser = log_format)]
    log_format: LogFormat,

    /// Flags of KubeFleet that were removed from the command line
    #[arg(long, hide = true)]
    ignored_flag: Vec<String>,
}

/// A command line that cannot be followed.
#[derive(Debug, thiserror::Error)]
enum HubArgsError {
    #[error(transparent)]
    Apis(#[from] ApiPatternError),
    #[error("--skipped-propagating-apis and --allowed-propagating-apis exclude each other")]
    Exclusive,
}

/// Runs until a signal or an error stops it.
pub(super) fn run(mut args: HubArgs) -> ExitCode {
    let log = LogOptions {
        format: args.log_format,
        verbosity: if args.v >= 5 {
            Verbosity::Debug
        } else {
            Verbosity::Info
        },
    };
    let ignored = std::mem::take(&mut args.ignored_flag).join(" ");
    let options = match options(args) {
        Ok(options) => options,
        Err(problem) => return super::output::fail(&problem),
    };
    if let Err(error) = logging::start(log) {
        return super::output::fail(&error);
    }
    if !ignored.is_empty() {
        warn!(
            flags = ignored,
            "ignoring flags of KubeFleet that have no effect here"
        );
    }
    service::run("the hub stopped", |stop| process::run(options, stop))
}

fn options(args: HubArgs) -> Result<HubOptions, HubArgsError> {
    let given = |text: String| Some(text).filter(|text| !text.is_empty());
    let listens = |text: String| given(text).filter(|text| text != "0");
    let filter = match (
        &*args.skipped_propagating_apis,
        &*args.allowed_propagating_apis,
    ) {
        (skipped, "") => ApiFilter::deny(skipped)?,
        ("", allowed) => ApiFilter::allow(allowed)?,
        _ => return Err(HubArgsError::Exclusive),
    };
    #[cfg(feature = "webhook")]
    let webhook = webhook(&args, std::env::var("POD_NAMESPACE").ok());
    let namespaces = args.skipped_propagating_namespaces.into_iter();
    Ok(HubOptions {
        #[cfg(feature = "webhook")]
        webhook,
        kubeconfig: args.kubeconfig.and_then(given).map(PathBuf::from),
        metrics_address: listens(args.metrics_bind_address),
        health_address: listens(args.health_probe_bind_address),
        election: args.leader_elect.then_some(args.leader_election_namespace),
        per_second: NonZeroU32::new(args.hub_api_qps),
        features: HubFeatures {
            evictions: args.enable_eviction_apis,
            update_runs: args.enable_staged_update_run_apis,
            namespaced: args.enable_resource_placement,
        },
        selection: SelectionRules {
            filter,
            skipped_namespaces: namespaces.filter_map(given).collect(),
            hub_runs_workloads: args.enable_workload,
        },
        rules: HubSettings {
            policy: HubPolicy {
                debounce: Debounce {
                    minimum_interval: signed(args.resource_snapshot_creation_minimum_interval),
                    collection: signed(args.resource_changes_collection_duration),
                },
                windows: GracePeriods::default(),
            },
            force_delete: signed(args.force_delete_wait_time),
            networking: args.networking_agents_enabled,
        },
        event_source: args.placement_event_source.into(),
    })
}

/// The webhook, if it is enabled and has an address for API servers.
#[cfg(feature = "webhook")]
fn webhook(args: &HubArgs, of_pod: Option<String>) -> Option<HubWebhook> {
    const PORT: u16 = 9443;
    let listens = args.webhook_bind_address.clone();
    if !args.enable_webhook || matches!(&*listens, "" | "0") {
        return None;
    }
    let name = args.webhook_service_name.clone();
    let of_pod = of_pod.filter(|namespace| !namespace.is_empty());
    let users = args.whitelisted_users.iter();
    let users = users.filter(|user| !user.is_empty()).cloned();
    let guards = HubGuards {
        workloads: args.enable_workload,
        budgets: args.enable_pdbs,
        namespace: of_pod.clone().unwrap_or_default(),
        rail: args.enable_guard_rail.then(|| GuardRail {
            users: users.collect(),
            labels: args.deny_modify_member_cluster_labels,
        }),
    };
    let address = match (&*args.webhook_url, &of_pod) {
        ("", None) => return None,
        ("", Some(namespace)) if args.webhook_client_connection_type == "url" => {
            WebhookAddress::Url(format!(
                "https://{name}.{namespace}.svc.cluster.local:{PORT}"
            ))
        }
        ("", Some(namespace)) => WebhookAddress::Service {
            namespace: namespace.clone(),
            name,
            port: PORT,
        },
        (url, _) => WebhookAddress::Url(url.trim_end_matches('/').to_owned()),
    };
    Some(HubWebhook {
        listens,
        address,
        namespace: of_pod.unwrap_or_else(|| args.leader_election_namespace.clone()),
        guards,
    })
}

pub(super) fn duration(text: &str) -> Result<Duration, String> {
    let nanos = parse_duration(text).and_then(|nanos| u64::try_from(nanos).ok());
    let nanos = nanos.ok_or("expected a duration such as 0s, 90s or 1m30s")?;
    Ok(Duration::from_nanos(nanos))
}

fn log_format(text: &str) -> Result<LogFormat, String> {
    text.parse().map_err(|error| format!("{error}"))
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;

    use super::super::klog;
    use super::*;

    #[test]
    fn flags_of_the_original_that_mean_nothing_are_taken_with_their_values() {
        let line = "hawser hub --enable-v1beta1-apis=false --max-fleet-size 100 --leader-elect --use-cert-manager \
                    -add_dir_header --vmodule=x -v 4";
        let mut args: Vec<OsString> = line.split_whitespace().map(OsString::from).collect();
        let taken = klog::take(&mut args, SWITCHES, VALUES);
        assert_eq!(args, ["hawser", "hub", "--leader-elect", "-v", "4"]);
        assert_eq!(taken.len(), 5, "{taken:?}");
    }

    #[cfg(feature = "webhook")]
    #[test]
    fn the_webhook_is_served_where_api_servers_can_be_told_of_it() {
        use clap::Parser;

        #[derive(Parser)]
        struct Line {
            #[command(flatten)]
            hub: HubArgs,
        }
        let of = |flags: &str, pod: &str| {
            let line = std::iter::once("hub").chain(flags.split_whitespace());
            webhook(&Line::parse_from(line).hub, Some(pod.to_owned()))
        };
        assert_eq!(of("", ""), None);
        assert_eq!(of("--enable-webhook=false", "fleet-system"), None);
        let in_pod = of("", "fleet-system").unwrap();
        assert_eq!(
            in_pod.address.names(),
            ["fleetwebhook.fleet-system.svc.cluster.local"]
        );
        let service = of("--webhook-client-connection-type=service", "n").unwrap();
        assert_eq!(service.address.names()[0], "fleetwebhook.n.svc");
        let aside = of("--webhook-url=https://127.0.0.1:9443/", "").unwrap();
        assert_eq!(
            aside.address,
            WebhookAddress::Url("https://127.0.0.1:9443".into())
        );
        assert_eq!(aside.namespace, "kube-system");
        assert!(!aside.guards.workloads && aside.guards.budgets);
        assert_eq!(aside.guards.rail, None);
        let flags =
            "--enable-guard-rail --whitelisted-users=a,b --enable-pdbs=false --enable-workload";
        let guards = of(flags, "n").unwrap().guards;
        assert_eq!(guards.rail.unwrap().users, ["a", "b"]);
        assert!(guards.workloads && !guards.budgets);
    }
}
