//! Replicas that are distributed and move: real Deployments and `ReplicaSets`, and nodes that the test plays.

use std::collections::BTreeMap;

use anyhow::{Context as _, Result, ensure};
use serde_json::{Value, json};
use testbed::{Component, SOON, eventually, unique};

use super::nodes::Nodes;
use super::world::{MEMBER_NAMES, Way, World, federated};

const PREFERENCES: &str = "federation.kubernetes.io/replica-set-preferences";
const STATUS: &str = "federation.kubernetes.io/replica-set-status";

/// A federated workload in a namespace of its own, and nodes for its Pods.
struct ReplicaCase {
    host: Way,
    members: Vec<Way>,
    namespace: String,
    /// The federated workload, and the workload in members.
    path: String,
    copy: String,
    nodes: Vec<Nodes>,
}

fn template(replicas: i64) -> Value {
    let labels = json!({"app": "w"});
    let containers = json!([{"name": "c", "image": "registry.example/none"}]);
    json!({
        "metadata": {"labels": labels},
        "spec": {
            "replicas": replicas, "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": {"containers": containers}},
        },
    })
}

impl ReplicaCase {
    async fn new(world: &World, what: &str, plural: &str) -> Result<Self> {
        let namespace = unique(what);
        let count = MEMBER_NAMES.len();
        world.namespace_on(&namespace, count).await?;
        let mut members = Vec::new();
        for number in 0..count {
            members.push(world.member(number).await?);
        }
        let nodes = members
            .iter()
            .map(|member| Nodes::of(member.clone(), &namespace));
        Ok(Self {
            host: world.host().await?,
            path: format!("{}/w", federated(&namespace, &format!("federated{plural}"))),
            copy: format!("/apis/apps/v1/namespaces/{namespace}/{plural}/w"),
            nodes: nodes.collect(),
            namespace,
            members,
        })
    }

    async fn create(&self, kind: &str, replicas: i64, preferences: Option<&Value>) -> Result<()> {
        let annotations: BTreeMap<&str, String> = preferences
            .map(|preferences| (PREFERENCES, preferences.to_string()))
            .into_iter()
            .collect();
        let object = json!({
            "apiVersion": "types.kubefed.io/v1beta1", "kind": kind,
            "metadata": {"name": "w", "annotations": annotations},
            "spec": {"template": template(replicas)},
        });
        let (all, _) = self.path.rsplit_once('/').context("a path")?;
        self.host.create(all, &object).await?;
        Ok(())
    }

    /// The preference about the workload.
    fn preference(&self) -> String {
        let namespace = &self.namespace;
        format!(
            "/apis/scheduling.kubefed.io/v1alpha1/namespaces/{namespace}/replicaschedulingpreferences"
        )
    }

    async fn prefer(&self, kind: &str, spec: &Value) -> Result<()> {
        let mut spec = spec.clone();
        spec["targetKind"] = kind.into();
        let preference = json!({
            "apiVersion": "scheduling.kubefed.io/v1alpha1", "kind": "ReplicaSchedulingPreference",
            "metadata": {"name": "w"}, "spec": spec,
        });
        self.host.create(&self.preference(), &preference).await?;
        Ok(())
    }

    /// Waits until each member has this many replicas.
    async fn until_replicas(&self, wanted: &[i64]) {
        self.until_all("replicas", wanted, "/spec/replicas").await;
    }

    /// Waits until this many replicas are ready in each member.
    async fn until_ready(&self, wanted: &[i64]) {
        self.until_all("ready replicas", wanted, "/status/readyReplicas")
            .await;
    }

    async fn until_all(&self, what: &str, wanted: &[i64], path: &str) {
        eventually(SOON, what, async || -> Result<()> {
            let mut found = Vec::new();
            for member in &self.members[..wanted.len()] {
                let copy = member.get(&self.copy).await?;
                let copy = copy.context("the workload is not there")?;
                found.push(copy.pointer(path).and_then(Value::as_i64).unwrap_or(0));
            }
            let federated = self.host.get(&self.path).await?;
            ensure!(
                found == wanted,
                "{found:?} in place of {wanted:?}: {federated:#?}"
            );
            Ok(())
        })
        .await;
    }

    /// The uids of the workload and its Pods in a member.
    async fn survivors(&self, member: usize) -> Result<Vec<String>> {
        let pods = format!("/api/v1/namespaces/{}/pods", self.namespace);
        let found = self.members[member].get(&pods).await?.context("a list")?;
        let items = found["items"].as_array().context("items")?.iter();
        let mut uids: Vec<String> = items
            .map(|pod| pod["metadata"]["uid"].to_string())
            .collect();
        uids.sort();
        let copy = self.members[member].until_there(&self.copy).await;
        uids.push(copy["metadata"]["uid"].to_string());
        Ok(uids)
    }

    /// The status that is written in the annotation.
    async fn status(&self) -> Result<Value> {
        let found = self.host.until_there(&self.path).await;
        let text = found["metadata"]["annotations"][STATUS].as_str();
        Ok(serde_json::from_str(text.context("a status")?)?)
    }

    async fn until_status(&self, fits: impl Fn(&Value) -> bool) -> Result<Value> {
        self.host
            .until(&self.path, |found| {
                let text = found["metadata"]["annotations"][STATUS].as_str();
                let status = text.and_then(|text| serde_json::from_str(text).ok());
                status.is_some_and(|status: Value| fits(&status))
            })
            .await;
        self.status().await
    }
}

fn even() -> Value {
    json!({"rebalance": true, "clusters": {"*": {"weight": 1}}})
}

fn replicas_of(federated: &Value) -> BTreeMap<&str, i64> {
    let overrides = federated["spec"]["overrides"].as_array();
    let entries = overrides.into_iter().flatten().filter_map(|entry| {
        let mut steps = entry["clusterOverrides"].as_array()?.iter();
        let step = steps.find(|step| step["path"] == "/spec/replicas")?;
        Some((entry["clusterName"].as_str()?, step["value"].as_i64()?))
    });
    entries.collect()
}

#[tokio::test]
async fn a_preference_distributes_the_replicas_of_a_deployment_as_kubefed_does() -> Result<()> {
    let world = World::shared().await?;
    let case = ReplicaCase::new(&world, "rsp", "deployments").await?;
    case.create("FederatedDeployment", 1, None).await?;
    let answer = json!({"path": "/metadata/annotations", "op": "add", "value": {"a": "42"}});
    let overrides = json!([{"clusterName": "cluster1", "clusterOverrides": [answer]}]);
    case.host
        .patch(&case.path, &json!({"spec": {"overrides": overrides}}))
        .await?;
    let clusters = json!({"cluster1": {"weight": 2}, "cluster2": {"weight": 1}});
    case.prefer(
        "FederatedDeployment",
        &json!({"totalReplicas": 6, "clusters": clusters}),
    )
    .await?;
    // One that is matched by nothing is placed with none.
    case.until_replicas(&[4, 2, 0]).await;
    let found = case.host.until_there(&case.path).await;
    let names: Vec<Value> = MEMBER_NAMES
        .iter()
        .map(|name| json!({"name": name}))
        .collect();
    assert_eq!(found["spec"]["placement"]["clusters"], json!(names));
    let first = &found["spec"]["overrides"][0];
    assert_eq!(first["clusterOverrides"][0], answer);
    assert_eq!(
        first["clusterOverrides"][1],
        json!({"path": "/spec/replicas", "value": 4})
    );
    case.host
        .until_event(&case.namespace, "ReplicasScheduled", "4 in cluster1")
        .await;
    let minima = json!({
        "cluster1": {"weight": 2, "minReplicas": 3, "maxReplicas": 3},
        "cluster2": {"weight": 1, "minReplicas": 3},
    });
    let preference = format!("{}/w", case.preference());
    let patch = json!({"spec": {"clusters": minima, "rebalance": true}});
    case.host.patch(&preference, &patch).await?;
    case.until_replicas(&[3, 3, 0]).await;

    // Capacity that is missing moves replicas, and the overflow stays.
    let patch = json!({"spec": {"totalReplicas": 9, "clusters": null}});
    case.host.patch(&preference, &patch).await?;
    case.until_ready(&[3, 3, 3]).await;
    case.nodes[2].set_room(1);
    case.until_replicas(&[4, 4, 3]).await;
    case.until_ready(&[4, 4, 1]).await;

    // Without the preference all stays as it is.
    case.host.delete(&preference).await?;
    case.host.until_gone(&preference).await;
    case.nodes[2].set_room(100);
    case.until_ready(&[4, 4, 3]).await;
    Ok(())
}

#[tokio::test]
async fn a_preference_may_be_limited_to_what_selectors_select() -> Result<()> {
    let world = World::shared().await?;
    let case = ReplicaCase::new(&world, "intersect", "replicasets").await?;
    case.create("FederatedReplicaSet", 1, None).await?;
    let selector = json!({"clusterSelector": {"matchLabels": {"number": "1"}}});
    case.host
        .patch(&case.path, &json!({"spec": {"placement": selector}}))
        .await?;
    let spec = json!({"totalReplicas": 6, "intersectWithClusterSelector": true});
    case.prefer("FederatedReplicaSet", &spec).await?;
    case.until_replicas(&[6]).await;
    let found = case.host.until_reason(&case.path, None).await;
    assert_eq!(replicas_of(&found), BTreeMap::from([("cluster1", 6)]));
    let placed = &found["spec"]["placement"];
    assert_eq!(placed["clusters"], json!([{"name": "cluster1"}]));
    assert_eq!(placed["clusterSelector"], selector["clusterSelector"]);
    ensure!(
        case.members[1].get(&case.copy).await?.is_none(),
        "a member that is not selected got it"
    );
    Ok(())
}

#[tokio::test]
async fn a_preference_that_cannot_be_followed_is_told_and_others_are() -> Result<()> {
    let world = World::shared().await?;
    let case = ReplicaCase::new(&world, "wrong", "replicasets").await?;
    case.create("FederatedReplicaSet", 1, None).await?;
    case.prefer("FederatedStatefulSet", &json!({"totalReplicas": 6}))
        .await?;
    let message = "targetKind \"FederatedStatefulSet\" is not supported";
    case.host
        .until_event(&case.namespace, "InvalidPreferences", message)
        .await;
    let preference = format!("{}/w", case.preference());
    let clusters =
        json!({"*": {"weight": -1}, "cluster1": {"weight": 1, "minReplicas": 4, "maxReplicas": 2}});
    let patch = json!({"spec": {"targetKind": "FederatedReplicaSet", "clusters": clusters}});
    case.host.patch(&preference, &patch).await?;
    let message = "minReplicas 4 of cluster \"cluster1\" is above its maxReplicas 2";
    case.host
        .until_event(&case.namespace, "InvalidPreferences", message)
        .await;
    // The minimum wins, as it does with the original.
    case.until_replicas(&[4]).await;
    Ok(())
}

#[tokio::test]
async fn preferences_in_the_annotation_move_replicas_away_and_back() -> Result<()> {
    let world = World::shared().await?;
    let case = ReplicaCase::new(&world, "frs", "replicasets").await?;
    case.create("FederatedReplicaSet", 15, Some(&even()))
        .await?;
    case.until_ready(&[5, 5, 5]).await;
    for member in &case.members {
        let copy = member.until_there(&case.copy).await;
        assert_eq!(
            copy["metadata"]["generation"], 1,
            "it was made with the right number"
        );
    }
    case.host
        .until_event(&case.namespace, "ReplicasScheduled", "5 in cluster3")
        .await;
    let status = case.until_status(|status| status["ready"] == 15).await?;
    assert_eq!(
        status["clusters"]["cluster1"],
        json!({"replicas": 5, "ready": 5})
    );

    // Pods that stay unscheduled move, and a couple stays.
    case.nodes[2].set_room(1);
    case.until_replicas(&[7, 7, 3]).await;
    case.until_ready(&[7, 7, 1]).await;
    let why = "2 of them stay as probes";
    case.host
        .until_event(&case.namespace, "ReplicasScheduled", why)
        .await;
    let wanted = json!({"replicas": 3, "ready": 1, "failed": 2, "probes": 2});
    case.until_status(|status| status["clusters"]["cluster3"] == wanted)
        .await?;
    case.nodes[2].set_room(100);
    case.until_ready(&[5, 5, 5]).await;

    // A copy that somebody deletes is made anew, with its number, and adopts what is left.
    let orphaned = json!({"propagationPolicy": "Orphan"});
    let before = case.members[1].until_there(&case.copy).await;
    case.members[1].delete_with(&case.copy, &orphaned).await?;
    let is_new = |copy: &Value| copy["metadata"]["uid"] != before["metadata"]["uid"];
    let copy = case.members[1].until(&case.copy, is_new).await;
    assert_eq!(copy["spec"]["replicas"], 5);
    case.until_ready(&[5, 5, 5]).await;

    // Without a word about it, the copies outlive it.
    case.host.delete(&case.path).await?;
    case.host.until_gone(&case.path).await;
    for member in &case.members {
        let is_free = |copy: &Value| copy["metadata"]["labels"]["kubefed.io/managed"].is_null();
        member.until(&case.copy, is_free).await;
    }
    Ok(())
}

#[tokio::test]
async fn a_member_that_takes_no_workload_or_no_pods_loses_its_replicas_until_it_does() -> Result<()>
{
    let world = World::shared().await?;
    let case = ReplicaCase::new(&world, "quota", "replicasets").await?;
    let quotas = format!("/api/v1/namespaces/{}/resourcequotas", case.namespace);
    let (all, _) = case.copy.rsplit_once('/').context("a path")?;
    let pods = format!("/api/v1/namespaces/{}/pods", case.namespace);
    // Admission learns of a quota later than those who read it.
    let refuse = async |resource: &str, most: &str, all: &str, spec: &Value| -> Result<()> {
        let quota = json!({"metadata": {"name": "q"}, "spec": {"hard": {resource: most}}});
        case.members[2].create(&quotas, &quota).await?;
        let probe = json!({"metadata": {"name": "probe"}, "spec": spec});
        let tried = format!("{all}?dryRun=All");
        eventually(SOON, "the quota is enforced", async || {
            let created = case.members[2].create(&tried, &probe).await;
            let refused = created.err().context("it is not refused")?;
            let refused = format!("{refused:#}");
            ensure!(refused.contains("exceeded quota"), "{refused}");
            Ok(())
        })
        .await;
        Ok(())
    };
    let spec = &template(1)["spec"];
    refuse("count/replicasets.apps", "0", all, spec).await?;
    // Something with the same name and another content is there before.
    let other = json!({
        "apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": {"name": "w"}, "spec": spec,
    });
    let old = case.members[0].create(all, &other).await?;
    case.create("FederatedReplicaSet", 12, Some(&even()))
        .await?;
    case.until_ready(&[6, 6]).await;
    let found = case.members[0].until_there(&case.copy).await;
    assert_eq!(found["metadata"]["uid"], old["metadata"]["uid"]);
    let text = "An update will be attempted instead of a creation due to an existing resource";
    case.host
        .until_event(&case.namespace, "CreateInClusterFailed", text)
        .await;
    case.host
        .until_event(
            &case.namespace,
            "ReplicasScheduled",
            "cluster3 refused the workload",
        )
        .await;
    case.members[2].delete(&format!("{quotas}/q")).await?;
    case.until_ready(&[4, 4, 4]).await;

    // Pods that are not even created.
    case.members[2].until_gone(&format!("{quotas}/q")).await;
    refuse("pods", "2", &pods, &spec["template"]["spec"]).await?;
    // Two remain, so that the quota is full all the time: its controller counts from a cache, and what is created
    // meanwhile may go beyond an empty one.
    let found = case.members[2].get(&pods).await?.context("a list")?;
    for pod in found["items"].as_array().context("items")?.iter().skip(2) {
        let name = pod["metadata"]["name"].as_str().context("a name")?;
        case.members[2].delete(&format!("{pods}/{name}")).await?;
    }
    case.until_ready(&[5, 5, 2]).await;
    case.until_replicas(&[5, 5, 4]).await;
    case.members[2].delete(&format!("{quotas}/q")).await?;
    case.until_ready(&[4, 4, 4]).await;
    Ok(())
}

#[tokio::test]
async fn wrong_preferences_in_the_annotation_are_told_and_change_nothing() -> Result<()> {
    let world = World::shared().await?;
    let case = ReplicaCase::new(&world, "bad", "replicasets").await?;
    let wrong = json!({"clusters": {"*": {"minReplicas": 3, "maxReplicas": 2}}});
    case.create("FederatedReplicaSet", 6, Some(&wrong)).await?;
    let message = "minReplicas 3 of cluster \"*\" is above its maxReplicas 2";
    case.host
        .until_event(&case.namespace, "InvalidPreferences", message)
        .await;
    let status = case
        .until_status(|status| status["problem"].is_string())
        .await?;
    ensure!(status["clusters"].is_null(), "{status}");
    let annotate = async |text: &str| {
        let annotations = json!({"annotations": {PREFERENCES: text}});
        case.host
            .patch(&case.path, &json!({"metadata": annotations}))
            .await
    };
    annotate(&even().to_string()).await?;
    case.until_ready(&[2, 2, 2]).await;
    annotate("{").await?;
    case.until_status(|status| status["problem"].is_string())
        .await?;
    case.until_ready(&[2, 2, 2]).await;
    annotate(&json!({"clusters": {"cluster1": {"weight": 1}}}).to_string()).await?;
    case.until_status(|status| status["problem"].is_null())
        .await?;
    Ok(())
}

/// A member that dies and returns keeps its Pods, and so its replicas.
pub(super) async fn outlive_their_member(world: &mut World) -> Result<()> {
    let frs = ReplicaCase::new(world, "lost-frs", "replicasets").await?;
    frs.create("FederatedReplicaSet", 12, Some(&even())).await?;
    let rsp = ReplicaCase::new(world, "lost-rsp", "deployments").await?;
    rsp.create("FederatedDeployment", 1, None).await?;
    let spec = json!({"totalReplicas": 12, "rebalance": true});
    rsp.prefer("FederatedDeployment", &spec).await?;
    let cases = [frs, rsp];
    let mut before = Vec::new();
    for case in &cases {
        case.until_ready(&[4, 4, 4]).await;
        before.push(case.survivors(2).await?);
    }
    world.servers(2)?.kill(Component::ApiServer).await?;
    for case in &cases {
        case.until_ready(&[6, 6]).await;
        let found = case.host.until_there(&case.path).await;
        assert_eq!(
            replicas_of(&found)["cluster3"],
            4,
            "what is there is unknown"
        );
    }
    let status = cases[0].status().await?;
    assert_eq!(status["clusters"]["cluster3"]["unknown"], true);
    world.servers(2)?.restart(Component::ApiServer).await?;
    for (case, before) in cases.iter().zip(before) {
        case.until_ready(&[4, 4, 4]).await;
        assert_eq!(case.survivors(2).await?, before, "made anew");
    }
    Ok(())
}
