//! `hawser explain placement`: which clusters the scheduler picks, and why, and what the roll-out waits for.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::PathBuf;

use clap::Args;
use jiff::{SignedDuration, Timestamp};
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
use hawser_placement::types::placement::{Placement, ResourceIdentifier};
use hawser_placement::types::{Condition, ConditionStatus};
use hawser_runtime::cluster::config::{ConfigError, Environment, Lookup, Source, Watched};
use hawser_runtime::cluster::connection::{Call, ConnectError, Connection, Limits, RequestError};
use hawser_runtime::overview::plain;

const CLUSTERS: &str = "/apis/cluster.kubernetes-fleet.io/v1beta1/memberclusters";
const API: &str = "/apis/placement.kubernetes-fleet.io/v1beta1";
/// The page size of lists.
const PAGE: usize = 500;

/// Explain for each cluster of a fleet why a placement picks it or not, and what keeps its objects from being there.
///
/// Runs the scheduler over the objects of the hub, and reads the status of the placement. Changes nothing.
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
    /// The number of clusters that the policy wants, if it wants a number.
    wanted: Option<i64>,
    /// The problems of the roll-out, as the status tells them. Empty in a dry run.
    problems: Vec<RolloutProblem>,
}

/// A problem of a roll-out, with its cluster if it concerns only one.
#[derive(Debug, PartialEq)]
struct RolloutProblem {
    cluster: Option<String>,
    message: String,
}

/// The failed objects of a cluster that are shown.
const FAILED: usize = 5;
/// A member that was not heard of for this time is told of. It beats every minute unless it is told otherwise.
const SILENCE: SignedDuration = SignedDuration::from_mins(2);

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
    let explained = scheduler::explain(&Request {
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
        clusters: explained,
        wanted: policy
            .and_then(|policy| policy.number_of_clusters)
            .map(i64::from),
        problems: if is_dry_run {
            Vec::new()
        } else {
            problems(placement, clusters, Timestamp::now())
        },
        bound: bound
            .map(|binding| binding.spec.target_cluster.clone())
            .collect(),
    })
}

/// What keeps the objects of a placement from its clusters.
fn problems(placement: &Placement, clusters: &Members, now: Timestamp) -> Vec<RolloutProblem> {
    let generation = placement.metadata.generation;
    let open = |conditions: &[Condition]| {
        let mut conditions = conditions.iter();
        let open = conditions
            .find(|one| one.status != ConditionStatus::True || !one.is_fresh(generation))?;
        Some(if open.is_fresh(generation) {
            let Condition {
                type_,
                status,
                reason,
                message,
                ..
            } = open;
            format!("{type_} is {status:?} ({reason}): {message}")
        } else {
            format!(
                "{} is about an earlier version of the placement",
                open.type_
            )
        })
    };
    let mut problems = Vec::new();
    let mut tell = |cluster: Option<&str>, message: String| {
        problems.push(RolloutProblem {
            cluster: cluster.map(str::to_owned),
            // A part of it comes from members.
            message: plain(&message),
        });
    };
    let status = &placement.status;
    if let Some(message) = open(&status.conditions) {
        tell(None, message);
    } else if status.conditions.is_empty() {
        tell(
            None,
            "the hub has not looked at the placement yet".to_owned(),
        );
    }
    for of in &status.placement_statuses {
        let cluster = (!of.cluster_name.is_empty()).then_some(&*of.cluster_name);
        let Some(name) = cluster else {
            continue;
        };
        if let Some(message) = open(&of.conditions) {
            tell(cluster, message);
        }
        for failed in of.failed_placements.iter().take(FAILED) {
            let ResourceIdentifier {
                kind,
                namespace,
                name,
                ..
            } = &failed.identifier;
            let place = [&**namespace, name].join("/");
            let (place, said) = (place.trim_start_matches('/'), &failed.condition.message);
            tell(cluster, format!("{kind} {place}: {said}"));
        }
        let more = of.failed_placements.len().saturating_sub(FAILED);
        if more > 0 {
            tell(cluster, format!("{more} more objects failed"));
        }
        let member = clusters.get(name);
        let agents = member.iter().flat_map(|member| &member.status.agent_status);
        let heard = agents.filter_map(|agent| agent.last_received_heartbeat.as_ref()?.parse().ok());
        if let Some(silence) = heard.max().map(|last: Timestamp| now.duration_since(last))
            && silence > SILENCE
        {
            tell(
                cluster,
                format!("the last heartbeat of the member is {silence:#.0} old"),
            );
        }
    }
    problems
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
    let problems = |is_meant: fn(&RolloutProblem) -> bool| {
        decided.problems.iter().filter(move |one| is_meant(one))
    };
    for problem in problems(|one| one.cluster.is_none()) {
        let _ = writeln!(text, "{}", problem.message);
    }
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
    let fleet = decided.clusters.len();
    let _ = match decided.wanted {
        Some(wanted) => writeln!(
            text,
            "{picked} of {wanted} wanted clusters are picked; the fleet has {fleet}"
        ),
        None => writeln!(text, "{picked} of {fleet} clusters are picked"),
    };
    for problem in problems(|one| one.cluster.is_some()) {
        let cluster = problem.cluster.as_deref().unwrap_or_default();
        let _ = writeln!(text, "{cluster}: {}", problem.message);
    }
    if !is_dry_run && decided.problems.is_empty() {
        text.push_str("all conditions of the roll-out are True\n");
    }
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
    let problems = decided.problems.iter();
    let problems = problems.map(|one| json!({"cluster": one.cluster, "message": one.message}));
    json!({
        "clusters": clusters.collect::<Vec<_>>(),
        "wanted": decided.wanted,
        "problems": problems.collect::<Vec<_>>(),
    })
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
    fn what_keeps_objects_from_a_cluster_is_told_for_each_cluster() {
        let is = |type_: &str, status: &str, generation: i64| {
            json!({"type": type_, "status": status, "reason": "R", "message": "said",
                   "observedGeneration": generation, "lastTransitionTime": ""})
        };
        let failed = json!({"version": "v1", "kind": "ConfigMap", "name": "c", "namespace": "n",
                            "condition": is("Applied", "False", 2)});
        let placement: Placement = of(json!({
            "metadata": {"name": "p", "generation": 2}, "spec": {"resourceSelectors": []},
            "status": {
                "conditions": [is("ClusterResourcePlacementScheduled", "True", 2)],
                "placementStatuses": [
                    {"clusterName": "a", "conditions": [is("Applied", "True", 2)]},
                    {"clusterName": "b", "conditions": [is("Applied", "False", 2)],
                     "failedPlacements": [failed]},
                    {"clusterName": "c", "conditions": [is("Applied", "True", 1)]},
                    {"conditions": [is("Scheduled", "False", 2)]},
                ],
            },
        }));
        let members = ["a", "b", "c"].map(|name| member(name, &json!([])));
        let members: Members = members.into_iter().collect();
        let said = |now: Timestamp| {
            let found = problems(&placement, &members, now).into_iter();
            let lines = found.map(|one| {
                let cluster = one.cluster.unwrap_or_default();
                format!("{cluster}: {}", one.message)
            });
            lines.collect::<Vec<_>>()
        };
        let now = Timestamp::now();
        let expected = [
            "b: Applied is False (R): said",
            "b: ConfigMap n/c: said",
            "c: Applied is about an earlier version of the placement",
        ];
        assert_eq!(said(now), expected);
        let later = said(now + SignedDuration::from_mins(11));
        assert_eq!(
            later.iter().filter(|one| one.contains("heartbeat")).count(),
            3
        );
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
