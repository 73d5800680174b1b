//! What guards a fleet: the webhook, budgets of disruption, and more than one hub.

use anyhow::{Context as _, Result, ensure};
use serde_json::{Value, json};
use testbed::ports::Port;
use testbed::{SOON, eventually};

use crate::federation::world::Way;

use super::world::{
    CLUSTER, PLACEMENT, World, crp, namespace_selector, reasons, until_count, works,
};
use super::{affinity, bindings, names};

const EVICTIONS: &str =
    "/apis/placement.kubernetes-fleet.io/v1beta1/clusterresourceplacementevictions";
const BUDGETS: &str =
    "/apis/placement.kubernetes-fleet.io/v1beta1/clusterresourceplacementdisruptionbudgets";
const LEASE: &str =
    "/apis/coordination.k8s.io/v1/namespaces/default/leases/136224848560.hub.fleet.azure.com";

fn of(kind: &str, name: &str, spec: &Value) -> Value {
    json!({"apiVersion": "placement.kubernetes-fleet.io/v1beta1", "kind": kind,
           "metadata": {"name": name}, "spec": spec})
}

#[tokio::test]
async fn what_is_invalid_is_refused_before_it_is_stored() -> Result<()> {
    let port = Port::reserve()?;
    let at = format!("127.0.0.1:{}", port.number());
    let world = World::start_with(&[
        "--enable-webhook=true".to_owned(),
        format!("--webhook-bind-address={at}"),
        format!("--webhook-url=https://{at}"),
        "--enable-guard-rail".to_owned(),
        "--enable-pdbs=false".to_owned(),
    ])
    .await?;
    let way = world.way()?;
    let dry = |all: &str| format!("{all}?dryRun=All");
    let placements = format!("{PLACEMENT}/clusterresourceplacements");
    let refused = async |all: &str, object: &Value, said: &str| -> Result<()> {
        eventually(SOON, said, async || -> Result<()> {
            let answer = way.create(&dry(all), object).await;
            let problem = format!("{:#}", answer.err().context("it was accepted")?);
            ensure!(
                problem.contains(said) && problem.contains("denied"),
                "{problem}"
            );
            Ok(())
        })
        .await;
        Ok(())
    };
    let placement = |selectors: Value, policy: Value| {
        of(
            "ClusterResourcePlacement",
            "wrong",
            &json!({"resourceSelectors": selectors, "policy": policy}),
        )
    };
    let namespace = || namespace_selector("app");
    let unknown =
        json!([{"group": "none.example.com", "version": "v1", "kind": "Nothing", "name": "a"}]);
    let all = || json!({"placementType": "PickAll"});
    for (object, said) in [
        (
            placement(unknown, all()),
            "failed to get GVR of the selector",
        ),
        (
            placement(
                json!([{"group": "", "version": "v1", "kind": "ConfigMap", "name": "a"}]),
                all(),
            ),
            "not cluster scoped",
        ),
        (
            placement(
                namespace(),
                json!({"placementType": "PickFixed", "clusterNames": ["a", "a"]}),
            ),
            "must be unique",
        ),
        (
            placement(
                namespace(),
                json!({"placementType": "PickAll", "affinity": {"clusterAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": {"clusterSelectorTerms": [{
                    "propertySelector": {"matchExpressions": [
                        {"name": "resources.kubernetes-fleet.io/some-cpu", "operator": "Gt", "values": ["1"]}]}}]}}}}),
            ),
            "resources.kubernetes-fleet.io/",
        ),
    ] {
        refused(&placements, &object, said).await?;
    }
    let tolerant = json!({
        "placementType": "PickN", "numberOfClusters": 1,
        "tolerations": [{"key": "k", "operator": "Exists"}],
    });
    world
        .place(
            "tolerant",
            json!({"resourceSelectors": namespace(), "policy": tolerant}),
        )
        .await?;
    let fewer = json!({"spec": {"policy": {"tolerations": null}}});
    let answer = way.patch(&crp("tolerant"), &fewer).await;
    let problem = format!("{:#}", answer.err().context("it was accepted")?);
    ensure!(
        problem.contains("only additions to tolerations are allowed"),
        "{problem}"
    );

    // Overrides, budgets and evictions know the other objects.
    let overrides = format!("{PLACEMENT}/clusterresourceoverrides");
    let rule = |path: &str| {
        json!({
            "clusterResourceSelectors": namespace(),
            "policy": {"overrideRules": [{"clusterSelector": {"clusterSelectorTerms": []},
                "jsonPatchOverrides": [{"op": "add", "path": path, "value": "v"}]}]},
        })
    };
    let wrong = of("ClusterResourceOverride", "one", &rule("/status/phase"));
    refused(&overrides, &wrong, "cannot override status fields").await?;
    let one = of(
        "ClusterResourceOverride",
        "one",
        &rule("/metadata/labels/a"),
    );
    way.create(&overrides, &one).await?;
    let two = of(
        "ClusterResourceOverride",
        "two",
        &rule("/metadata/labels/b"),
    );
    refused(&overrides, &two, "selected by both this override and one").await?;
    world
        .place(
            "everywhere",
            json!({"resourceSelectors": namespace(), "policy": all()}),
        )
        .await?;
    let budget = of(
        "ClusterResourcePlacementDisruptionBudget",
        "everywhere",
        &json!({"maxUnavailable": 1}),
    );
    refused(BUDGETS, &budget, "PickAll").await?;
    let fixed = json!({"placementType": "PickFixed", "clusterNames": ["a"]});
    world
        .place(
            "fixed",
            json!({"resourceSelectors": namespace(), "policy": fixed}),
        )
        .await?;
    let eviction = of(
        "ClusterResourcePlacementEviction",
        "e",
        &json!({"placementName": "fixed", "clusterName": "a"}),
    );
    refused(EVICTIONS, &eviction, "PickFixed").await?;
    let member = json!({
        "apiVersion": "cluster.kubernetes-fleet.io/v1beta1", "kind": "MemberCluster",
        "metadata": {"name": "m"},
        "spec": {"identity": {"kind": "User", "name": "u"},
                 "taints": [{"key": "not a key", "value": "v", "effect": "NoSchedule"}]},
    });
    let members = format!("{CLUSTER}/memberclusters");
    refused(&members, &member, "invalid taint").await?;
    // A hub places workloads and runs none.
    way.create("/api/v1/namespaces", &json!({"metadata": {"name": "app"}}))
        .await?;
    let pod =
        json!({"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
    let said = "Pod app/p creation is disallowed in the fleet hub cluster";
    refused("/api/v1/namespaces/app/pods", &pod, said).await?;
    way.create(&dry("/api/v1/namespaces/kube-system/pods"), &pod)
        .await?;
    let labels = json!({"a": "b"});
    let set = json!({"metadata": {"name": "s"}, "spec": {"selector": {"matchLabels": labels},
        "template": {"metadata": {"labels": labels}, "spec": pod["spec"]}}});
    let said = "ReplicaSet app/s creation is disallowed in the fleet hub cluster";
    refused("/apis/apps/v1/namespaces/app/replicasets", &set, said).await?;
    let budget = json!({"metadata": {"name": "b"}, "spec": {"minAvailable": 1}});
    let said = "PodDisruptionBudget app/b creation is disallowed";
    refused(
        "/apis/policy/v1/namespaces/app/poddisruptionbudgets",
        &budget,
        said,
    )
    .await?;
    fills_in_defaults_and_guards_the_fleet(&world).await
}

async fn fills_in_defaults_and_guards_the_fleet(world: &World) -> Result<()> {
    let way = world.way()?;
    let bare = of(
        "ClusterResourcePlacement",
        "bare",
        &json!({"resourceSelectors": namespace_selector("app")}),
    );
    let all = format!("{PLACEMENT}/clusterresourceplacements?dryRun=All");
    let filled = way.create(&all, &bare).await?;
    let spec = &filled["spec"];
    ensure!(spec["policy"]["placementType"] == "PickAll", "{filled:#}");
    ensure!(
        spec["strategy"]["rollingUpdate"]["maxSurge"] == "25%",
        "{filled:#}"
    );
    ensure!(
        spec["strategy"]["applyStrategy"]["whenToTakeOver"] == "Always",
        "{filled:#}"
    );
    world.join(&["guarded"], json!({})).await?;
    // Somebody with all rights who is no administrator.
    let bob = world.hub.user("bob", &[])?;
    let binding = json!({"metadata": {"name": "bob"}, "subjects": [{"kind": "User", "name": "bob",
        "apiGroup": "rbac.authorization.k8s.io"}],
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"}});
    let bindings = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings";
    way.create(bindings, &binding).await?;
    let bob = Way::by(bob.config()?)?;
    let member = format!("{CLUSTER}/memberclusters/guarded");
    let label = |value: &str| json!({"metadata": {"labels": {"a": value}}});
    eventually(SOON, "the rights of bob", async || -> Result<()> {
        bob.patch(&member, &label("1")).await?;
        Ok(())
    })
    .await;
    let denied = |answer: Result<Value>| -> Result<()> {
        let problem = format!("{:#}", answer.err().context("it was accepted")?);
        ensure!(
            problem.contains("user: 'bob' is not allowed to"),
            "{problem}"
        );
        Ok(())
    };
    let taint = json!({"spec": {"taints": [{"key": "k", "value": "", "effect": "NoSchedule"}]}});
    denied(bob.patch(&member, &taint).await)?;
    let map = json!({"metadata": {"name": "m"}});
    for namespace in ["kube-system", "fleet-member-guarded"] {
        let maps = format!("/api/v1/namespaces/{namespace}/configmaps?dryRun=All");
        denied(bob.create(&maps, &map).await)?;
    }
    let mine = "/api/v1/namespaces/app/configmaps?dryRun=All";
    bob.create(mine, &map).await?;
    let definition = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/works.placement.kubernetes-fleet.io";
    denied(bob.patch(definition, &label("1")).await)?;
    let namespace = json!({"metadata": {"name": "fleet-mine"}});
    denied(
        bob.create("/api/v1/namespaces?dryRun=All", &namespace)
            .await,
    )?;
    // The agent of a member writes in its own namespace, with the rights of its role.
    let agent = Way::by(world.hub.user("agent-of-guarded", &[])?.config()?)?;
    let internal =
        format!("{CLUSTER}/namespaces/fleet-member-guarded/internalmemberclusters/guarded");
    agent.patch(&internal, &label("1")).await?;
    Ok(())
}

/// Waits until an eviction is over; returns the condition at its end as reason and message.
async fn evict(world: &World, name: &str, placement: &str, cluster: &str) -> Result<String> {
    let way = world.way()?;
    let spec = json!({"placementName": placement, "clusterName": cluster});
    way.create(
        EVICTIONS,
        &of("ClusterResourcePlacementEviction", name, &spec),
    )
    .await?;
    let is_over = |eviction: &Value| {
        let all = eviction["status"]["conditions"].as_array();
        all.is_some_and(|all| all.len() == 2 || all.iter().any(|one| one["status"] == "False"))
    };
    let over = way.until(&format!("{EVICTIONS}/{name}"), is_over).await;
    let conditions = over["status"]["conditions"]
        .as_array()
        .context("conditions")?;
    let last = conditions.last().context("a condition")?;
    Ok(format!(
        "{} {}",
        last["reason"].as_str().unwrap_or_default(),
        last["message"].as_str().unwrap_or_default()
    ))
}

#[tokio::test]
async fn evictions_are_executed_within_the_budget_of_the_placement() -> Result<()> {
    let world = World::shared().await?;
    let way = world.way()?;
    let members = ["evict-1", "evict-2", "evict-3"];
    world.join(&members, json!({"of": "evict"})).await?;
    world.application("evict", "c").await?;
    world
        .place(
            "evict",
            json!({
                "policy": {"placementType": "PickN", "numberOfClusters": 2,
                           "affinity": affinity(&json!({"of": "evict"}))},
                "resourceSelectors": namespace_selector("evict"),
            }),
        )
        .await?;
    let placed = world.until_available("evict").await?;
    let chosen: Vec<String> = names(&placed["status"])
        .iter()
        .map(|one| (*one).to_owned())
        .collect();
    let other = members
        .iter()
        .find(|one| !chosen.iter().any(|name| name == *one));
    let (first, other) = (&chosen[0], other.context("one is left")?);
    let said = evict(&world, "evict-none", "evict-nothing", first).await?;
    ensure!(
        said.contains("EvictionInvalid Failed to find ClusterResourcePlacement"),
        "{said}"
    );
    let said = evict(&world, "evict-other", "evict", other).await?;
    ensure!(
        said.contains("EvictionInvalid Failed to find scheduler decision"),
        "{said}"
    );

    let budget = of(
        "ClusterResourcePlacementDisruptionBudget",
        "evict",
        &json!({"minAvailable": 2}),
    );
    way.create(BUDGETS, &budget).await?;
    let said = evict(&world, "evict-held", "evict", first).await?;
    ensure!(
        said.contains("EvictionNotExecuted")
            && said.contains("availablePlacements: 2, totalPlacements: 2"),
        "{said}"
    );
    // Nothing comes back to a member with a taint.
    let taint =
        json!({"spec": {"taints": [{"key": "drained", "value": "", "effect": "NoSchedule"}]}});
    way.patch(&format!("{CLUSTER}/memberclusters/{first}"), &taint)
        .await?;
    way.patch(
        &format!("{BUDGETS}/evict"),
        &json!({"spec": {"minAvailable": 1}}),
    )
    .await?;
    let said = evict(&world, "evict-done", "evict", first).await?;
    ensure!(said.contains("EvictionExecuted"), "{said}");
    ensure!(said.contains("allowed by specified"), "{said}");
    until_count(&way, &works(first), 0).await;
    way.until(&crp("evict"), |placement| {
        names(&placement["status"]).contains(other)
    })
    .await;
    until_count(&way, &bindings("evict"), 2).await;
    eventually(SOON, "the metrics", async || -> Result<()> {
        let text = world.metrics().await?;
        ensure!(
            text.contains("fleet_workload_eviction_complete{name=\"evict-none\",isCompleted=\"true\",isValid=\"false\"}")
                && text.contains("hawser_silent_members 0"),
            "{text}"
        );
        Ok(())
    })
    .await;
    Ok(())
}

/// Waits for events about the member `lost` with all of these reasons.
async fn until_told(way: &Way, reasons: &[&str]) {
    way.until("/api/v1/namespaces/default/events", |events| {
        let events = events["items"].as_array().into_iter().flatten();
        let about = events.filter(|one| {
            one["involvedObject"]["name"] == "lost"
                && one["source"]["component"] == "mcv1beta1-controller"
        });
        let told: Vec<&Value> = about.map(|one| &one["reason"]).collect();
        reasons
            .iter()
            .all(|wanted| told.iter().any(|one| *one == wanted))
    })
    .await;
}

#[tokio::test]
async fn the_namespace_and_the_role_of_a_member_come_back() -> Result<()> {
    let mut world = World::start().await?;
    world.join(&["lost"], json!({})).await?;
    let way = world.way()?;
    let rbac = "/apis/rbac.authorization.k8s.io/v1/namespaces/fleet-member-lost";
    let (role, rolebinding) = (
        format!("{rbac}/roles/fleet-role-lost"),
        format!("{rbac}/rolebindings/fleet-rolebinding-lost"),
    );
    let namespace = "/api/v1/namespaces/fleet-member-lost";
    let member = format!("{CLUSTER}/memberclusters/lost");
    until_told(
        &way,
        &[
            "NamespaceCreated",
            "RoleCreated",
            "RoleBindingCreated",
            "InternalMemberClusterCreated",
            "MemberClusterReadyToJoin",
            "MemberClusterJoined",
        ],
    )
    .await;
    // Each process looks at them at its first pass.
    world.process.take().context("a hub")?.kill().await?;
    let labels = json!({"metadata": {"labels": {"kubernetes-fleet.io/is-fleet-resource": null}}});
    way.patch(namespace, &labels).await?;
    way.patch(&role, &json!({"rules": []})).await?;
    way.patch(&rolebinding, &json!({"subjects": []})).await?;
    way.patch(&member, &json!({"spec": {"heartbeatPeriodSeconds": 30}}))
        .await?;
    world.launch()?;
    until_told(
        &way,
        &[
            "NamespacePatched",
            "RoleUpdated",
            "RoleBindingUpdated",
            "InternalMemberClusterSpecUpdated",
        ],
    )
    .await;
    let process = world.process.take().context("a hub")?;
    process.kill().await?;
    way.delete(&role).await?;
    way.delete(&rolebinding).await?;
    world.launch()?;
    way.until_there(&role).await;
    way.until_there(&rolebinding).await;
    // Nobody else removes what is in a namespace, or lets it go.
    let internal = format!("{CLUSTER}/namespaces/fleet-member-lost/internalmemberclusters/lost");
    way.delete(namespace).await?;
    way.delete(&role).await?;
    way.delete(&internal).await?;
    let mut deleted = way
        .get(namespace)
        .await?
        .context("a namespace in deletion")?;
    deleted["spec"]["finalizers"] = json!([]);
    way.replace(&format!("{namespace}/finalize"), &deleted)
        .await?;
    let is_new = |found: &Value| found["metadata"]["uid"] != deleted["metadata"]["uid"];
    way.until(namespace, is_new).await;
    way.until_there(&role).await;
    way.until_there(&internal).await;
    Ok(())
}

#[tokio::test]
async fn a_second_hub_takes_over_and_a_silent_member_is_let_go_in_time() -> Result<()> {
    let flags = [
        "--leader-elect=true",
        "--leader-election-namespace=default",
        "--force-delete-wait-time=2s",
    ];
    let mut world = World::start_with(&flags.map(str::to_owned)).await?;
    let way = world.way()?;
    world.join(&["silent", "well"], json!({})).await?;
    let held = way.until_there(LEASE).await;
    let leader = held["spec"]["holderIdentity"].clone();
    let port = Port::reserve()?;
    let _second = world.spawn(port.number())?;
    world.application("app", "c").await?;
    world
        .place(
            "app",
            json!({"resourceSelectors": namespace_selector("app")}),
        )
        .await?;
    world.until_available("app").await?;
    world.process.take().context("the hub")?.kill().await?;
    way.patch(
        "/api/v1/namespaces/app/configmaps/c",
        &json!({"data": {"key1": "2"}}),
    )
    .await?;
    way.until(LEASE, |lease| {
        let holder = &lease["spec"]["holderIdentity"];
        *holder != leader && holder.as_str().is_some_and(|holder| !holder.is_empty())
    })
    .await;
    way.until(&crp("app"), |placement| {
        placement["status"]["observedResourceIndex"] == "1" && super::is_available(placement)
    })
    .await;

    // The agent of a member that never answers keeps nothing from ending.
    world.mute("silent", true);
    let member = format!("{CLUSTER}/memberclusters/silent");
    way.delete(&member).await?;
    way.until_gone(&member).await;
    until_count(&way, &works("silent"), 0).await;
    let left = way
        .until(&crp("app"), |placement| {
            names(&placement["status"]) == ["well"]
        })
        .await;
    ensure!(
        reasons(&left["status"]["conditions"])[0].contains("Scheduled True"),
        "{left:#}"
    );
    Ok(())
}

#[tokio::test]
async fn envelopes_of_their_own_kinds_are_works_and_large_selections_are_split() -> Result<()> {
    let world = World::shared().await?;
    let way = world.way()?;
    world.join(&["large-1"], json!({"of": "large"})).await?;
    world.application("large", "c").await?;
    let near = json!({
        "apiVersion": "placement.kubernetes-fleet.io/v1beta1", "kind": "ResourceEnvelope",
        "metadata": {"name": "near"},
        "data": {"quota": {"apiVersion": "v1", "kind": "ResourceQuota",
                           "metadata": {"name": "q", "namespace": "large"}}},
    });
    way.create(
        &format!("{PLACEMENT}/namespaces/large/resourceenvelopes"),
        &near,
    )
    .await?;
    let wide = json!({
        "apiVersion": "placement.kubernetes-fleet.io/v1beta1", "kind": "ClusterResourceEnvelope",
        "metadata": {"name": "wide"},
        "data": {"class": {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass",
                           "metadata": {"name": "of-large"}, "value": 1}},
    });
    way.create(&format!("{PLACEMENT}/clusterresourceenvelopes"), &wide)
        .await?;
    for number in 0..3 {
        let map = json!({"metadata": {"name": format!("big-{number}")},
                         "data": {"text": "x".repeat(300 * 1024)}});
        way.create("/api/v1/namespaces/large/configmaps", &map)
            .await?;
    }
    world
        .place(
            "large",
            json!({
                "policy": {"placementType": "PickFixed", "clusterNames": ["large-1"]},
                "resourceSelectors": [
                    {"group": "", "version": "v1", "kind": "Namespace", "name": "large"},
                    {"group": "placement.kubernetes-fleet.io", "version": "v1beta1",
                     "kind": "ClusterResourceEnvelope", "name": "wide"},
                ],
            }),
        )
        .await?;
    let placed = world.until_available("large").await?;
    let selected = placed["status"]["selectedResources"].as_array();
    assert_eq!(selected.map(Vec::len), Some(7), "{placed:#}");
    let stored = until_count(&way, &super::snapshots("large"), 2).await;
    let mut sizes: Vec<usize> = stored
        .iter()
        .map(|one| one["spec"].to_string().len())
        .collect();
    sizes.sort_unstable();
    assert!(sizes[1] < 800 * 1024 && sizes[0] > 200 * 1024, "{sizes:?}");
    let master = stored
        .iter()
        .find(|one| one["metadata"]["name"] == "large-0-snapshot");
    let marks = &master.context("the master")?["metadata"]["annotations"];
    assert_eq!(
        marks["kubernetes-fleet.io/number-of-resource-snapshots"],
        "2"
    );
    assert_eq!(marks["kubernetes-fleet.io/number-of-enveloped-object"], "2");
    // A Work for each part, and one for each envelope.
    let works = until_count(&way, &works("large-1"), 4).await;
    let manifests = works.iter().flat_map(|work| {
        let all = work["spec"]["workload"]["manifests"].as_array();
        all.cloned().unwrap_or_default()
    });
    let mut kinds: Vec<String> = manifests
        .map(|one| one["kind"].as_str().unwrap_or_default().to_owned())
        .collect();
    kinds.sort();
    assert_eq!(
        kinds,
        [
            "ConfigMap",
            "ConfigMap",
            "ConfigMap",
            "ConfigMap",
            "Namespace",
            "PriorityClass",
            "ResourceQuota"
        ]
    );
    let mut types: Vec<&str> = works
        .iter()
        .filter_map(|work| work["metadata"]["labels"]["kubernetes-fleet.io/envelope-work"].as_str())
        .collect();
    types.sort_unstable();
    assert_eq!(types, ["ClusterResourceEnvelope", "ResourceEnvelope"]);
    Ok(())
}

#[tokio::test]
async fn an_object_that_cannot_be_read_harms_itself_alone() -> Result<()> {
    let world = World::start().await?;
    let way = world.way()?;
    world.join(&["readable"], json!({})).await?;
    world.application("app", "c").await?;
    // Definitions that admit anything, as somebody else may have written them.
    let all = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    let found = way.get(all).await?.context("definitions")?;
    let mut kinds = Vec::new();
    for definition in found["items"].as_array().context("a list")? {
        let mut definition = definition.clone();
        let spec = &mut definition["spec"];
        let group = spec["group"].as_str().unwrap_or_default().to_owned();
        if !group.ends_with("kubernetes-fleet.io") {
            continue;
        }
        for version in spec["versions"].as_array_mut().context("versions")? {
            version["schema"] = json!({"openAPIV3Schema":
                {"type": "object", "x-kubernetes-preserve-unknown-fields": true}});
        }
        let text = |field: &Value| field.as_str().unwrap_or_default().to_owned();
        let names = (text(&spec["names"]["kind"]), text(&spec["names"]["plural"]));
        kinds.push((group, names, spec["scope"] == "Namespaced"));
        let name = text(&definition["metadata"]["name"]);
        way.replace(&format!("{all}/{name}"), &definition).await?;
    }
    assert_eq!(kinds.len(), 27);
    for (group, (kind, plural), namespaced) in kinds {
        let near = if kind == "Work" {
            "namespaces/fleet-member-readable/"
        } else if namespaced {
            "namespaces/app/"
        } else {
            ""
        };
        let name = if kind.ends_with("DisruptionBudget") {
            "app"
        } else {
            "broken"
        };
        let broken = json!({
            "apiVersion": format!("{group}/v1beta1"), "kind": kind, "spec": ["not", "an", "object"],
            "metadata": {"name": name, "labels": {
                "kubernetes-fleet.io/parent-CRP": "app", "kubernetes-fleet.io/is-latest-snapshot": "true",
                "kubernetes-fleet.io/resource-index": "7", "kubernetes-fleet.io/policy-index": "7"}},
        });
        let all = format!("/apis/{group}/v1beta1/{near}{plural}");
        eventually(SOON, &kind, async || way.create(&all, &broken).await).await;
    }
    // It waits for its budget to be readable.
    let waiting = json!({"placementName": "app", "clusterName": "readable"});
    let waiting = of("ClusterResourcePlacementEviction", "waiting", &waiting);
    way.create(EVICTIONS, &waiting).await?;
    for (name, policy) in [
        ("app", json!({"placementType": "PickAll"})),
        (
            "other",
            json!({"placementType": "PickFixed", "clusterNames": ["readable"]}),
        ),
    ] {
        let selectors = namespace_selector("app");
        let spec = json!({"resourceSelectors": selectors, "policy": policy});
        world.place(name, spec).await?;
        let placed = world.until_available(name).await?;
        assert_eq!(names(&placed["status"]), ["readable"], "{placed:#}");
    }
    world.join(&["later"], json!({})).await?;
    way.until(&crp("app"), |placement| {
        names(&placement["status"]) == ["later", "readable"] && super::is_available(placement)
    })
    .await;
    Ok(())
}

#[tokio::test]
async fn a_placement_whose_works_have_the_names_of_others_says_so() -> Result<()> {
    let world = World::start().await?;
    let way = world.way()?;
    world.join(&["one"], json!({})).await?;
    world.application("team-a", "c").await?;
    let near = format!("{PLACEMENT}/namespaces/team-a/resourceplacements");
    let spec = json!({
        "resourceSelectors": [{"group": "", "version": "v1", "kind": "ConfigMap", "name": "c"}],
        "policy": {"placementType": "PickAll"},
    });
    way.create(&near, &of("ResourcePlacement", "c", &spec))
        .await?;
    let work = format!("{}/team-a.c-work", works("one"));
    let first = way.until_there(&work).await;
    world
        .place(
            "team-a.c",
            json!({"resourceSelectors": namespace_selector("team-a"), "policy": {"placementType": "PickAll"}}),
        )
        .await?;
    let told = |placement: &Value| {
        let clusters = placement["status"]["placementStatuses"].as_array();
        let conditions = clusters
            .into_iter()
            .flatten()
            .filter_map(|one| one["conditions"].as_array());
        conditions.flatten().any(|one| {
            let message = one["message"].as_str().unwrap_or_default();
            one["type"] == "WorkSynchronized"
                && one["status"] == "False"
                && message.contains("belongs to another placement")
        })
    };
    way.until(&crp("team-a.c"), told).await;
    let kept = way.get(&work).await?.context("the Work")?;
    assert_eq!(kept["metadata"]["uid"], first["metadata"]["uid"]);
    way.delete(&format!("{near}/c")).await?;
    world.until_available("team-a.c").await?;
    Ok(())
}
