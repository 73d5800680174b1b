//! `hawser explain placement`: which clusters the scheduler picks, and why.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::PathBuf;

use clap::Args;
use jiff::Timestamp;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::cli::manifest::{self, ManifestError};
use crate::cli::output::Output;
use hawser_placement::admission::check_rules;
use hawser_placement::hash::policy_hash;
use hawser_placement::hub::placement::latest_policy;
use hawser_placement::members::Members;
use hawser_placement::names;
use hawser_placement::scheduler::{self, Explanation, GracePeriods, Request, ScheduleError};
use hawser_placement::snapshots::Scope;
use hawser_placement::types::binding::{Binding, BindingState, PolicySnapshot};
use hawser_placement::types::cluster::MemberCluster;
use hawser_placement::types::placement::Placement;
use hawser_runtime::cluster::config::{ConfigError, Environment, Lookup, Source, Watched};
use hawser_runtime::cluster::connection::{Call, ConnectError, Connection, Limits, RequestError};

const CLUSTERS: &str = "/apis/cluster.kubernetes-fleet.io/v1beta1/memberclusters";
const API: &str = "/apis/placement.kubernetes-fleet.io/v1beta1";
/// The page size of lists.
const PAGE: usize = 500;

/// Explain for each cluster of a fleet why a placement picks it or not.
///
/// Runs the scheduler over the objects of the hub. Changes nothing.
#[derive(Debug, Args)]
#[allow(clippy::doc_markdown)] // These comments are the help.
pub(super) struct PlacementArgs {
    /// Name of the ClusterResourcePlacement, or of the ResourcePlacement in the namespace
    name: String,

    /// Namespace of the ResourcePlacement
    #[arg(short, long, value_name = "NAME")]
    namespace: Option<String>,

    /// Show what would move with the policy of the placement in this file; - is stdin
    #[arg(long, value_name = "FILE")]
    dry_run: Option<PathBuf>,

    /// Kubeconfig of the hub cluster [default: $KUBECONFIG, else the Pod's service account, else ~/.kube/config]
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,

    #[arg(short, long, value_enum, default_value_t = Output::Human)]
    output: Output,
}

#[derive(Debug, thiserror::Error)]
pub(super) enum PlacementFailed {
    #[error(transparent)]
    Config(#[from] ConfigError),
    #[error(transparent)]
    Connect(#[from] ConnectError),
    #[error(transparent)]
    Manifest(#[from] ManifestError),
    #[error("reading {path}")]
    Read {
        path: String,
        #[source]
        source: Box<RequestError>,
    },
    #[error("{what} cannot be read")]
    Unreadable {
        what: String,
        #[source]
        source: serde_json::Error,
    },
    #[error("the placement in the file is invalid: {0}")]
    Invalid(String),
    #[error(transparent)]
    Schedule(#[from] ScheduleError),
}

/// The verdicts of the scheduler.
struct Decided {
    clusters: Vec<Explanation>,
    /// The clusters that the placement is bound to now.
    bound: BTreeSet<String>,
}

pub(super) async fn run(args: PlacementArgs) -> Result<String, PlacementFailed> {
    let lookup = Lookup {
        kubeconfig: args.kubeconfig,
        ..Lookup::default()
    };
    let source = Source::find(&lookup, &Environment::of_process())?;
    let (_watched, config) = Watched::start(source)?;
    let hub = Connection::new(config, Limits::default())?;
    let (scope, near) = match &args.namespace {
        None => (Scope::Cluster, String::new()),
        Some(namespace) => (Scope::Namespaced, format!("/namespaces/{namespace}")),
    };
    let plural = |kind: &str| format!("{API}{near}/{}s", kind.to_lowercase());
    let at = format!("{}/{}", plural(scope.placement()), args.name);
    let mut placement: Placement = one(&hub, &at).await?;
    if let Some(file) = &args.dry_run {
        let document = manifest::read(file)?.swap_remove(0).value;
        let changed: Placement = parsed(document, "the placement in the file")?;
        placement.spec.policy = changed.spec.policy;
        let problems = check_rules(&placement.spec).join("; ");
        if !problems.is_empty() {
            return Err(PlacementFailed::Invalid(problems));
        }
    }
    let selector = format!("labelSelector={}%3D{}", names::PARENT_PLACEMENT, args.name);
    let policies: Vec<PolicySnapshot> =
        list(&hub, &plural(scope.policy_snapshot()), &selector).await?;
    let bindings: Vec<Binding> = list(&hub, &plural(scope.binding()), &selector).await?;
    let clusters: Vec<MemberCluster> = list(&hub, CLUSTERS, "").await?;
    let clusters = clusters.into_iter().collect();
    let decided = decide(
        &placement,
        &policies,
        &bindings,
        &clusters,
        args.dry_run.is_some(),
    )?;
    let human = || human(&decided, args.dry_run.is_some());
    Ok(args.output.show(human, || machine(&decided)))
}

fn decide(
    placement: &Placement,
    policies: &[PolicySnapshot],
    bindings: &[Binding],
    clusters: &Members,
    is_dry_run: bool,
) -> Result<Decided, PlacementFailed> {
    let policy = placement.spec.policy.as_ref();
    // A policy that differs in more than the number of clusters would have a snapshot of its own.
    let is_same = |one: &&PolicySnapshot| {
        !is_dry_run || policy_hash(one.spec.policy.as_ref()) == policy_hash(policy)
    };
    let latest = latest_policy(policies).filter(is_same);
    let clusters = scheduler::explain(&Request {
        policy,
        policy_snapshot: latest.map_or("", |latest| &latest.metadata.name),
        number_of_clusters: policy.and_then(|policy| policy.number_of_clusters),
        namespace: placement.metadata.namespace.as_deref(),
        clusters,
        bindings,
        now: Timestamp::now(),
        windows: GracePeriods::default(),
    })?;
    let is_bound = |binding: &&Binding| {
        !binding.metadata.in_deletion() && binding.spec.state != BindingState::Unscheduled
    };
    let bound = bindings.iter().filter(is_bound);
    Ok(Decided {
        clusters,
        bound: bound
            .map(|binding| binding.spec.target_cluster.clone())
            .collect(),
    })
}

/// The change for a cluster.
fn change(decided: &Decided, of: &Explanation) -> Option<&'static str> {
    match (decided.bound.contains(&of.cluster), of.selected) {
        (false, true) => Some("added"),
        (true, false) => Some("removed"),
        _ => None,
    }
}

fn human(decided: &Decided, is_dry_run: bool) -> String {
    let mut text = String::new();
    for of in &decided.clusters {
        let answer = if of.selected {
            "picked    "
        } else {
            "not picked"
        };
        let change = change(decided, of).map(|change| format!(" [{change}]"));
        let _ = write!(
            text,
            "{answer}  {}{}: ",
            of.cluster,
            change.unwrap_or_default()
        );
        if let Some(plugin) = of.plugin {
            let _ = write!(text, "{plugin}: ");
        }
        let _ = writeln!(text, "{}", of.reason);
    }
    let picked = decided.clusters.iter().filter(|of| of.selected).count();
    let _ = writeln!(
        text,
        "{picked} of {} clusters are picked",
        decided.clusters.len()
    );
    if is_dry_run {
        let moved = decided.clusters.iter().filter_map(|of| change(decided, of));
        let (added, removed): (Vec<_>, Vec<_>) = moved.partition(|change| *change == "added");
        let _ = writeln!(
            text,
            "with this policy, {} would be added and {} removed",
            added.len(),
            removed.len()
        );
    }
    text
}

fn machine(decided: &Decided) -> Value {
    let clusters = decided.clusters.iter().map(|of| {
        let scores = of.scores.map(|scores| {
            json!({
                "topologySpread": scores.topology_spread,
                "affinity": scores.affinity,
                "alreadyThere": scores.already_there,
            })
        });
        json!({
            "cluster": of.cluster,
            "picked": of.selected,
            "change": change(decided, of),
            "plugin": of.plugin.map(|plugin| plugin.to_string()),
            "scores": scores,
            "reason": of.reason,
        })
    });
    json!({"clusters": clusters.collect::<Vec<_>>()})
}

fn parsed<T: DeserializeOwned>(value: Value, what: &str) -> Result<T, PlacementFailed> {
    serde_json::from_value(value).map_err(|source| PlacementFailed::Unreadable {
        what: what.to_owned(),
        source,
    })
}

async fn one<T: DeserializeOwned>(hub: &Connection, path: &str) -> Result<T, PlacementFailed> {
    let found = hub.ask(Call::get(path)).await;
    let found = found.map_err(|source| PlacementFailed::Read {
        path: path.to_owned(),
        source: Box::new(source),
    })?;
    parsed(found, path)
}

/// All objects of a list, page by page.
async fn list<T: DeserializeOwned>(
    hub: &Connection,
    path: &str,
    query: &str,
) -> Result<Vec<T>, PlacementFailed> {
    let mut objects = Vec::new();
    let mut next = String::new();
    loop {
        let page = format!("{path}?limit={PAGE}&{query}{next}");
        let mut page: Value = one(hub, &page).await?;
        let mut items: Vec<T> = parsed(page["items"].take(), path)?;
        objects.append(&mut items);
        match page["metadata"]["continue"].as_str() {
            Some(token) if !token.is_empty() => next = format!("&continue={token}"),
            _ => return Ok(objects),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of<T: DeserializeOwned>(value: Value) -> T {
        serde_json::from_value(value).unwrap()
    }

    /// A member that is joined and healthy, with taints.
    fn member(name: &str, taints: &Value) -> MemberCluster {
        let now = Timestamp::now().to_string();
        let is = |type_: &str| json!({"type": type_, "status": "True", "reason": "R", "message": "", "lastTransitionTime": now});
        of(json!({
            "metadata": {"name": name},
            "spec": {"identity": {"kind": "User", "name": "u"}, "taints": taints},
            "status": {"agentStatus": [{"type": "MemberAgent", "lastReceivedHeartbeat": now,
                "conditions": [is("Joined"), is("Healthy")]}]},
        }))
    }

    #[test]
    fn a_dry_run_moves_what_the_hub_would_move() {
        let taint = json!([{"key": "k", "value": "", "effect": "NoSchedule"}]);
        let clusters = [
            member("a", &taint),
            member("b", &json!([])),
            member("c", &json!([])),
        ];
        let clusters: Members = clusters.into_iter().collect();
        let snapshot = json!([{
            "metadata": {"name": "p-0", "labels": {names::IS_LATEST: "true"}},
            "spec": {"policy": {"placementType": "PickN"}, "policyHash": ""},
        }]);
        let bound = json!([{
            "metadata": {"name": "p-a"},
            "spec": {"state": "Bound", "schedulingPolicySnapshotName": "p-0", "targetCluster": "a",
                     "clusterDecision": {"clusterName": "a", "selected": true, "reason": ""}},
        }]);
        let (snapshots, bindings): (Vec<PolicySnapshot>, Vec<Binding>) = (of(snapshot), of(bound));
        let moved = |policy: Value| {
            let placement: Placement = of(json!({"metadata": {"name": "p"},
                "spec": {"resourceSelectors": [], "policy": policy}}));
            let decided = decide(&placement, &snapshots, &bindings, &clusters, true).unwrap();
            let all = decided.clusters.iter();
            let changes = all.filter_map(|of| Some((&*of.cluster, change(&decided, of)?)));
            let changes: Vec<String> = changes
                .map(|(name, change)| format!("{name} {change}"))
                .collect();
            changes.join(", ")
        };
        let pick = |number: u32| json!({"placementType": "PickN", "numberOfClusters": number});
        // A cluster that was picked before it got its taint keeps the placement when the number alone changes.
        assert_eq!(moved(pick(1)), "");
        assert_eq!(moved(pick(2)), "c added");
        assert_eq!(moved(pick(0)), "a removed");
        let mut tolerating = pick(2);
        tolerating["tolerations"] = json!([{"key": "other", "operator": "Exists"}]);
        assert_eq!(moved(tolerating), "a removed, b added, c added");
    }
}
