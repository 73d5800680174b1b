//! Nodes and resources of the member, as the scheduler of the hub compares them.

use std::collections::BTreeMap;

use serde_json::Value;

use hawser_placement::apply::is_applied_work;
use hawser_placement::types::cluster::{
    InternalMemberCluster, MemberClusterStatus, PropertyValue, ResourceUsage,
};
use hawser_placement::types::{Condition, ConditionStatus, condition};
use hawser_runtime::cluster::connection::{Call, Connection, RequestError};
use kube_cel::quantity_in_billionths;

use super::sides::MemberAccess;

const NODE_COUNT: &str = "kubernetes-fleet.io/node-count";
const VERSION: &str = "k8s.io/k8s-version";
const ENTRYPOINT: &str = "k8s.io/cluster-entrypoint";
const AUTHORITY: &str = "k8s.io/cluster-certificate-authority-data";
const NAMESPACES_COLLECTED: &str = "NamespaceCollectionSucceeded";
/// The most namespaces that are reported.
const MOST_NAMESPACES: usize = 200;
/// Items of a page of a list.
const PAGE: usize = 500;
const BILLION: i128 = 1_000_000_000;

/// The resources that are summed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct ResourceSums {
    cpu: i128,
    memory: i128,
}

impl ResourceSums {
    fn of(quantities: &Value) -> Self {
        let read = |name: &str| {
            let text = quantities[name].as_str().unwrap_or_default();
            quantity_in_billionths(text).unwrap_or_default()
        };
        Self {
            cpu: read("cpu"),
            memory: read("memory"),
        }
    }

    fn plus(self, other: Self) -> Self {
        Self {
            cpu: self.cpu.saturating_add(other.cpu),
            memory: self.memory.saturating_add(other.memory),
        }
    }

    /// The remainder, never below zero.
    fn minus(self, other: Self) -> Self {
        Self {
            cpu: self.cpu.saturating_sub(other.cpu).max(0),
            memory: self.memory.saturating_sub(other.memory).max(0),
        }
    }

    fn written(self) -> BTreeMap<String, String> {
        let millis = self.cpu / (BILLION / 1000);
        let cpu = if millis % 1000 == 0 {
            (millis / 1000).to_string()
        } else {
            format!("{millis}m")
        };
        let bytes = self.memory / BILLION;
        let memory = if bytes > 0 && bytes % 1024 == 0 {
            format!("{}Ki", bytes / 1024)
        } else {
            bytes.to_string()
        };
        BTreeMap::from([("cpu".to_owned(), cpu), ("memory".to_owned(), memory)])
    }
}

/// All nodes together, and what Pods have asked for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct NodeTotals {
    nodes: usize,
    capacity: ResourceSums,
    allocatable: ResourceSums,
    requested: ResourceSums,
}

impl NodeTotals {
    fn node(&mut self, node: &Value) {
        self.nodes += 1;
        let status = &node["status"];
        self.capacity = self.capacity.plus(ResourceSums::of(&status["capacity"]));
        self.allocatable = self
            .allocatable
            .plus(ResourceSums::of(&status["allocatable"]));
    }

    fn pod(&mut self, pod: &Value) {
        let is_scheduled = pod["spec"]["nodeName"]
            .as_str()
            .is_some_and(|node| !node.is_empty());
        let phase = &pod["status"]["phase"];
        if !is_scheduled || phase == "Succeeded" || phase == "Failed" {
            return;
        }
        for container in pod["spec"]["containers"].as_array().into_iter().flatten() {
            let requests = ResourceSums::of(&container["resources"]["requests"]);
            self.requested = self.requested.plus(requests);
        }
    }

    fn usage(self, now: &str) -> ResourceUsage {
        ResourceUsage {
            capacity: self.capacity.written(),
            allocatable: self.allocatable.written(),
            available: self.allocatable.minus(self.requested).written(),
            observation_time: Some(now.to_owned()),
        }
    }
}

/// The namespaces of the member with the `AppliedWork`s that own them, up to a number of them.
#[derive(Default)]
struct NamespaceCensus {
    found: BTreeMap<String, String>,
    is_cut: bool,
}

impl NamespaceCensus {
    fn namespace(&mut self, namespace: &Value) {
        if self.found.len() == MOST_NAMESPACES {
            self.is_cut = true;
            return;
        }
        let text = |of: &Value| of["name"].as_str().unwrap_or_default().to_owned();
        let owners = namespace["metadata"]["ownerReferences"].as_array();
        let mut owners = owners.into_iter().flatten();
        let owner = owners.find(|owner| is_applied_work(owner));
        let owner = owner.map(text).unwrap_or_default();
        self.found.insert(text(&namespace["metadata"]), owner);
    }

    fn write(self, status: &mut MemberClusterStatus, generation: i64, now: &str) {
        let (truth, reason, message) = if self.is_cut {
            let message = format!("only {MOST_NAMESPACES} namespaces are reported");
            (ConditionStatus::False, "Degraded", message)
        } else {
            let message = "all namespaces are reported".to_owned();
            (ConditionStatus::True, "Succeeded", message)
        };
        let same = condition(&status.conditions, NAMESPACES_COLLECTED);
        let same = same.filter(|old| old.status == truth);
        let since = same.map_or(now, |old| &old.last_transition_time).to_owned();
        status.namespaces = Some(self.found);
        status
            .conditions
            .retain(|old| old.type_ != NAMESPACES_COLLECTED);
        status.conditions.push(Condition {
            type_: NAMESPACES_COLLECTED.to_owned(),
            status: truth,
            observed_generation: generation,
            last_transition_time: since,
            reason: reason.to_owned(),
            message,
        });
    }
}

/// Reads the member and writes what it has into a status.
pub async fn refresh(
    access: &MemberAccess,
    reports_namespaces: bool,
    internal: &mut InternalMemberCluster,
    now: &str,
) -> Result<(), RequestError> {
    let member = &access.connection;
    let mut census = NodeTotals::default();
    each(member, "/api/v1/nodes", |node| census.node(node)).await?;
    each(member, "/api/v1/pods", |pod| census.pod(pod)).await?;
    let version = member.ask(Call::get("/version")).await?;
    let namespaces = if reports_namespaces {
        let mut namespaces = NamespaceCensus::default();
        each(member, "/api/v1/namespaces", |one| {
            namespaces.namespace(one);
        })
        .await?;
        Some(namespaces)
    } else {
        None
    };
    let status = &mut internal.status;
    let properties = [
        (NODE_COUNT, Some(census.nodes.to_string())),
        (VERSION, version["gitVersion"].as_str().map(str::to_owned)),
        (ENTRYPOINT, Some(member.url())),
        (AUTHORITY, access.authority.clone()),
    ];
    for (name, value) in properties {
        if let Some(value) = value {
            let observation_time = now.to_owned();
            let value = PropertyValue {
                value,
                observation_time,
            };
            status.properties.insert(name.to_owned(), value);
        }
    }
    status.resource_usage = census.usage(now);
    if let Some(namespaces) = namespaces {
        namespaces.write(status, internal.metadata.generation, now);
    }
    Ok(())
}

/// Reads a list page by page.
async fn each(
    member: &Connection,
    path: &str,
    mut take: impl FnMut(&Value),
) -> Result<(), RequestError> {
    let mut next = String::new();
    loop {
        let page = format!("{path}?limit={PAGE}{next}");
        let page = member.ask(Call::get(page)).await?;
        page["items"]
            .as_array()
            .into_iter()
            .flatten()
            .for_each(&mut take);
        match page["metadata"]["continue"].as_str() {
            // The token is base64 for URLs.
            Some(token) if !token.is_empty() => next = format!("&continue={token}"),
            _ => return Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn resources_are_summed_and_what_running_pods_ask_for_is_not_available() {
        let mut census = NodeTotals::default();
        for _ in 0..2 {
            census.node(&json!({"status": {
                "capacity": {"cpu": "4", "memory": "8Gi"}, "allocatable": {"cpu": "3900m", "memory": "7Gi"},
            }}));
        }
        let pod = |node: &str, phase: &str| {
            json!({"spec": {"nodeName": node, "containers": [
                {"resources": {"requests": {"cpu": "500m", "memory": "1Gi"}}}, {"resources": {}},
            ]}, "status": {"phase": phase}})
        };
        for pod in [
            pod("n", "Running"),
            pod("n", "Succeeded"),
            pod("", "Pending"),
        ] {
            census.pod(&pod);
        }
        assert_eq!(census.nodes, 2);
        let usage = census.usage("now");
        assert_eq!(
            (&*usage.capacity["cpu"], &*usage.capacity["memory"]),
            ("8", "16777216Ki")
        );
        assert_eq!(usage.allocatable["cpu"], "7800m");
        assert_eq!(
            (&*usage.available["cpu"], &*usage.available["memory"]),
            ("7300m", "13631488Ki")
        );
    }

    #[test]
    fn namespaces_are_reported_with_the_work_that_placed_them_up_to_a_number() {
        let mut census = NamespaceCensus::default();
        let owner = json!({"apiVersion": "placement.kubernetes-fleet.io/v1beta1", "kind": "AppliedWork", "name": "w"});
        census.namespace(&json!({"metadata": {"name": "placed", "ownerReferences": [owner]}}));
        census.namespace(&json!({"metadata": {"name": "own"}}));
        let mut status = MemberClusterStatus::default();
        census.write(&mut status, 1, "t1");
        let found = status.namespaces.clone().unwrap();
        assert_eq!((&*found["placed"], &*found["own"]), ("w", ""));
        assert_eq!(status.conditions[0].reason, "Succeeded");

        let mut census = NamespaceCensus::default();
        for number in 0..=MOST_NAMESPACES {
            census.namespace(&json!({"metadata": {"name": format!("n{number}")}}));
        }
        census.write(&mut status, 1, "t2");
        assert_eq!(status.namespaces.unwrap().len(), MOST_NAMESPACES);
        assert_eq!(status.conditions.len(), 1);
        assert_eq!(
            (&*status.conditions[0].reason, status.conditions[0].status),
            ("Degraded", ConditionStatus::False)
        );
    }

    #[test]
    fn more_requests_than_resources_leave_nothing() {
        let less = ResourceSums { cpu: 1, memory: 1 };
        let more = ResourceSums { cpu: 2, memory: 2 };
        assert_eq!(less.minus(more), ResourceSums::default());
    }
}
