//! Tables: who loses its copies when, which fields a copy keeps, whom a placement selects, what is adopted, and where
//! the status of copies is read.

use anyhow::{Result, ensure};
use serde_json::{Value, json};
use testbed::cluster::Controllers;
use testbed::unique;

use super::world::{Way, World, config_map, config_maps, core, everywhere, federated, on, target};

const NO_FINALIZERS: &str = r#"{"metadata": {"finalizers": null}}"#;

fn free(copy: &Value) -> bool {
    copy["metadata"]["labels"]["kubefed.io/managed"].is_null()
}

#[tokio::test]
async fn a_deleted_object_leaves_what_its_owner_says() -> Result<()> {
    let world = &*World::shared().await?;
    let host = world.host().await?;
    let members = [world.member(0).await?, world.member(1).await?];
    let namespace = unique("delete");
    world.namespace(&namespace).await?;
    let all = federated(&namespace, "federatedconfigmaps");
    let path = |name: &str| format!("{all}/{name}");
    let copy = |name: &str| format!("{}/{name}", config_maps(&namespace));
    let names = [
        "plain",
        "orphan",
        "false",
        "deselected",
        "opted-out",
        "gone",
        "foreground",
        "held",
        "malformed",
    ];
    for name in names {
        host.create(&all, &config_map(name, &everywhere())).await?;
    }
    for name in names {
        host.until_reason(&path(name), None).await;
    }
    let annotate = async |name: &str, key: &str, value: &str| {
        let annotations = json!({"metadata": {"annotations": {key: value}}});
        host.patch(&path(name), &annotations).await
    };
    annotate("orphan", "kubefed.io/orphan", "true").await?;
    annotate("false", "kubefed.io/orphan", "false").await?;
    let foreground = r#"{"propagationPolicy": "Foreground", "gracePeriodSeconds": 0}"#;
    annotate("foreground", "kubefed.io/deleteoption", foreground).await?;
    annotate("malformed", "kubefed.io/deleteoption", "{").await?;
    let out = json!({"metadata": {"labels": {"kubefed.io/managed": "false"}}});
    members[0].patch(&copy("opted-out"), &out).await?;
    host.until_reason(&path("opted-out"), Some("CheckClusters"))
        .await;
    let held = json!({"metadata": {"finalizers": ["example.com/held"]}});
    members[0].patch(&copy("held"), &held).await?;
    // Deleted in the foreground, the copy waits for this one.
    let owner = members[0].until_there(&copy("foreground")).await;
    let dependent = json!({"metadata": {
        "name": "dependent", "finalizers": ["example.com/held"],
        "ownerReferences": [{
            "apiVersion": "v1", "kind": "ConfigMap", "name": "foreground",
            "uid": owner["metadata"]["uid"], "blockOwnerDeletion": true,
        }],
    }});
    members[0]
        .create(&config_maps(&namespace), &dependent)
        .await?;
    let only = json!({"spec": {"placement": on(&["cluster1"])}});
    for name in names {
        match name {
            "deselected" => drop(host.patch(&path(name), &only).await?),
            "gone" => members[0].delete(&copy(name)).await?,
            _ => {}
        }
        host.delete(&path(name)).await?;
    }
    for name in ["plain", "false", "deselected", "gone"] {
        host.until_gone(&path(name)).await;
        for member in &members {
            member.until_gone(&copy(name)).await;
        }
    }
    host.until_gone(&path("orphan")).await;
    for member in &members {
        member.until(&copy("orphan"), free).await;
    }
    host.until_gone(&path("opted-out")).await;
    ensure!(
        members[0].get(&copy("opted-out")).await?.is_some(),
        "it was deleted against its label"
    );
    members[1].until_gone(&copy("opted-out")).await;

    // Copies that are deleted as they are told to be, and wait for others.
    for (name, finalizer, holds) in [
        ("foreground", "foregroundDeletion", "dependent"),
        ("held", "example.com/held", "held"),
    ] {
        let waits = |copy: &Value| {
            let metadata = &copy["metadata"];
            metadata["deletionTimestamp"].is_string()
                && metadata["finalizers"] == json!([finalizer])
        };
        members[0].until(&copy(name), waits).await;
        host.until_event(&namespace, "WaitForRemovalInCluster", "cluster1")
            .await;
        ensure!(
            host.get(&path(name)).await?.is_some(),
            "{name} did not wait"
        );
        members[1].until_gone(&copy(name)).await;
        members[0]
            .patch(&copy(holds), &serde_json::from_str(NO_FINALIZERS)?)
            .await?;
        host.until_gone(&path(name)).await;
    }

    // Options that cannot be read are told, and nothing is deleted.
    host.until_event(
        &namespace,
        "InvalidDeleteOptions",
        "kubefed.io/deleteoption",
    )
    .await;
    for member in &members {
        ensure!(
            member.get(&copy("malformed")).await?.is_some(),
            "it was deleted"
        );
    }
    annotate("malformed", "kubefed.io/deleteoption", "{}").await?;
    host.until_gone(&path("malformed")).await;
    Ok(())
}

#[tokio::test]
async fn members_are_selected_by_names_first_and_by_labels_otherwise() -> Result<()> {
    let world = &*World::shared().await?;
    let host = world.host().await?;
    let namespace = unique("selects");
    world.namespace(&namespace).await?;
    let all = federated(&namespace, "federatedconfigmaps");
    let labels = |value: Value| json!({"clusterSelector": value});
    let expression = |operator: &str, values: Value| {
        let mut one = json!({"key": "number", "operator": operator});
        if values.is_array() {
            one["values"] = values;
        }
        labels(json!({"matchExpressions": [one]}))
    };
    let both = |names: Value| json!({"clusters": names, "clusterSelector": {"matchLabels": {"number": "1"}}});
    let rows: &[(Value, &[&str])] = &[
        (json!({}), &[]),
        (Value::Null, &[]),
        (labels(json!({})), &["cluster1", "cluster2"]),
        (
            labels(json!({"matchLabels": {}})),
            &["cluster1", "cluster2"],
        ),
        (
            labels(json!({"matchLabels": {"number": "2"}})),
            &["cluster2"],
        ),
        (labels(json!({"matchLabels": {"number": "3"}})), &[]),
        (expression("In", json!(["1", "3"])), &["cluster1"]),
        (expression("NotIn", json!(["1"])), &["cluster2"]),
        (expression("Exists", Value::Null), &["cluster1", "cluster2"]),
        (expression("DoesNotExist", Value::Null), &[]),
        (both(json!([])), &[]),
        (both(json!([{"name": "cluster2"}])), &["cluster2"]),
        (both(json!([{"name": "unknown"}])), &[]),
        (both(Value::Null), &["cluster1"]),
    ];
    for (number, (placement, _)) in rows.iter().enumerate() {
        let mut object = config_map(&format!("row{number}"), placement);
        if placement.is_null() {
            object["spec"] = json!({"template": {}});
        } else if placement["clusters"].is_null() {
            object["spec"]["placement"]
                .as_object_mut()
                .map(|placement| placement.remove("clusters"));
        }
        host.create(&all, &object).await?;
    }
    for (number, (placement, wanted)) in rows.iter().enumerate() {
        let found = host.until_reason(&format!("{all}/row{number}"), None).await;
        let clusters: Vec<Value> = wanted.iter().map(|name| json!({"name": name})).collect();
        let found = found["status"]["clusters"].clone();
        let found = if found.is_null() { json!([]) } else { found };
        assert_eq!(found, json!(clusters), "{placement}");
    }
    Ok(())
}

/// A copy of a kind, changed in its member and then written again.
struct Kept<'t> {
    kind: &'t str,
    plural: &'t str,
    api: &'t str,
    template: Value,
    /// What somebody changes in the member.
    change: Value,
    /// What changes in the template then.
    update: Value,
    /// Paths of what the copy keeps.
    keeps: &'t [&'t str],
}

#[tokio::test]
async fn a_copy_keeps_what_belongs_to_its_member() -> Result<()> {
    let world = &*World::shared().await?;
    let (host, member) = (world.host().await?, world.member(0).await?);
    let namespace = unique("keeps");
    world.namespace(&namespace).await?;
    let labels = json!({"app": "x"});
    let pod = json!({
        "metadata": {"labels": labels},
        "spec": {"containers": [{"name": "c", "image": "registry.example/none"}], "restartPolicy": "Never"},
    });
    let mut always = pod.clone();
    always["spec"]["restartPolicy"] = "Always".into();
    let touch = json!({"metadata": {"labels": {"touched": "yes"}}});
    let rows = [
        Kept {
            kind: "Service",
            plural: "services",
            api: "api/v1",
            template: json!({"spec": {"type": "NodePort", "selector": labels, "ports": [{"name": "p", "port": 80, "protocol": "TCP"}]}}),
            change: json!({"metadata": {"annotations": {"a": "1"}, "finalizers": ["example.com/f"]}}),
            update: json!({"spec": {"sessionAffinity": "ClientIP"}}),
            keeps: &[
                "/spec/clusterIP",
                "/spec/clusterIPs",
                "/spec/ports/0/nodePort",
                "/metadata/annotations",
                "/metadata/finalizers",
            ],
        },
        Kept {
            kind: "ServiceAccount",
            plural: "serviceaccounts",
            api: "api/v1",
            template: json!({"automountServiceAccountToken": true}),
            change: json!({"secrets": [{"name": "made-in-member"}]}),
            update: json!({"automountServiceAccountToken": false}),
            keeps: &["/secrets"],
        },
        Kept {
            kind: "PersistentVolumeClaim",
            plural: "persistentvolumeclaims",
            api: "api/v1",
            template: json!({"spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}}),
            change: json!({"spec": {"volumeName": "bound-in-member"}}),
            update: touch.clone(),
            keeps: &["/spec/volumeName"],
        },
        Kept {
            kind: "Job",
            plural: "jobs",
            api: "apis/batch/v1",
            template: json!({"spec": {"parallelism": 1, "template": pod}}),
            change: json!({"metadata": {"annotations": {"a": "1"}}}),
            update: json!({"spec": {"parallelism": 2}}),
            keeps: &[
                "/spec/selector",
                "/spec/template/metadata/labels",
                "/metadata/annotations",
            ],
        },
        Kept {
            kind: "Deployment",
            plural: "deployments",
            api: "apis/apps/v1",
            template: json!({"spec": {"replicas": 1, "selector": {"matchLabels": labels}, "template": always}}),
            change: json!({"spec": {"replicas": 7}}),
            update: json!({"spec": {"minReadySeconds": 3}}),
            keeps: &["/spec/replicas"],
        },
    ];
    for row in rows {
        let all = federated(&namespace, &format!("federated{}", row.plural));
        let kind = format!("Federated{}", row.kind);
        let mut object = json!({
            "apiVersion": "types.kubefed.io/v1beta1", "kind": kind, "metadata": {"name": "x"},
            "spec": {"template": row.template, "placement": on(&["cluster1"])},
        });
        if row.kind == "Deployment" {
            object["spec"]["retainReplicas"] = true.into();
        }
        host.create(&all, &object).await?;
        let path = format!("{all}/x");
        let copy = format!("/{}/namespaces/{namespace}/{}/x", row.api, row.plural);
        member.until_there(&copy).await;
        let changed = member.patch(&copy, &row.change).await?;
        host.patch(&path, &json!({"spec": {"template": row.update}}))
            .await?;
        let is_updated = |copy: &Value| contains(copy, &row.update);
        let after = member.until(&copy, is_updated).await;
        for kept in row.keeps {
            let (before, after) = (changed.pointer(kept), after.pointer(kept));
            ensure!(
                before.is_some() && before == after,
                "{} {kept}: {after:?}",
                row.kind
            );
        }
        if row.kind != "Service" {
            host.until_reason(&path, None).await;
        }
        if row.kind == "Service" {
            let none = serde_json::from_str(NO_FINALIZERS)?;
            member.patch(&copy, &none).await?;
        }
    }
    Ok(())
}

/// Whether all of `part` is in `whole`.
fn contains(whole: &Value, part: &Value) -> bool {
    match (whole, part) {
        (Value::Object(whole), Value::Object(part)) => part
            .iter()
            .all(|(key, part)| whole.get(key).is_some_and(|whole| contains(whole, part))),
        (whole, part) => whole == part,
    }
}

async fn service(world: &World, namespace: &str) -> Result<(Way, String, String)> {
    world.namespace(namespace).await?;
    let host = world.host().await?;
    let all = federated(namespace, "federatedservices");
    let spec = json!({
        "type": "LoadBalancer", "selector": {"app": "x"}, "ports": [{"port": 80, "protocol": "TCP"}],
    });
    let object = json!({
        "apiVersion": "types.kubefed.io/v1beta1", "kind": "FederatedService", "metadata": {"name": "x"},
        "spec": {"template": {"spec": spec}, "placement": everywhere()},
    });
    host.create(&all, &object).await?;
    let copy = format!("/api/v1/namespaces/{namespace}/services/x");
    Ok((host, format!("{all}/x"), copy))
}

fn balanced(address: &str) -> Value {
    json!({"status": {"loadBalancer": {"ingress": [{"ip": address, "ipMode": "VIP"}]}}})
}

#[tokio::test]
async fn the_status_of_copies_is_collected_where_that_is_switched_on() -> Result<()> {
    let world = &*World::shared().await?;
    let (host, path, copy) = service(world, &unique("remote")).await?;
    host.until_reason(&path, None).await;
    let member = world.member(1).await?;
    member
        .patch(&format!("{copy}/status"), &balanced("192.0.2.1"))
        .await?;
    let wanted = balanced("192.0.2.1");
    host.until(&path, |found| {
        found["status"]["clusters"][1]["remoteStatus"] == wanted["status"]
    })
    .await;
    Ok(())
}

#[tokio::test]
async fn what_was_there_before_is_left_alone_where_adoption_is_off_and_service_status_is_written()
-> Result<()> {
    let mut world = World::of(2, Controllers::None).await?;
    let host = world.host().await?;
    let config = format!("{}/kubefed", core("kubefedconfigs"));
    let off = json!({"spec": {
        "syncController": {"adoptResources": "Disabled"},
        "featureGates": [{"name": "RawResourceStatusCollection", "configuration": "Disabled"}],
    }});
    host.patch(&config, &off).await?;
    let services = target("", "Service", "services", "Namespaced");
    world.enable(&services).await?;
    let status_type = json!({
        "group": "core.kubefed.io", "version": "v1alpha1", "kind": "FederatedServiceStatus",
        "pluralName": "federatedservicestatuses", "scope": "Namespaced",
    });
    let collects = json!({"spec": {"statusCollection": "Enabled", "statusType": status_type}});
    let services = format!("{}/services", core("federatedtypeconfigs"));
    host.patch(&services, &collects).await?;
    world.start().await?;
    host.until(&services, |config| {
        config["status"]["statusController"] == "Running"
    })
    .await;

    // Adoption.
    let namespace = unique("before");
    world.namespace(&namespace).await?;
    let before = json!({"metadata": {"name": "m"}, "data": {"A": "mine"}});
    let member = world.member(0).await?;
    member.create(&config_maps(&namespace), &before).await?;
    let all = federated(&namespace, "federatedconfigmaps");
    host.create(&all, &config_map("m", &everywhere())).await?;
    let path = format!("{all}/m");
    let found = host.until_reason(&path, Some("CheckClusters")).await;
    let clusters = json!([{"name": "cluster1", "status": "AlreadyExists"}, {"name": "cluster2"}]);
    assert_eq!(found["status"]["clusters"], clusters);
    host.until_event(
        &namespace,
        "CreateInClusterFailed",
        "Resource pre-exist in cluster",
    )
    .await;
    host.delete(&path).await?;
    host.until_gone(&path).await;
    let copy = format!("{}/m", config_maps(&namespace));
    assert_eq!(member.until(&copy, free).await["data"]["A"], "mine");
    world.member(1).await?.until_gone(&copy).await;

    // The status of Services in objects of their own.
    let namespace = unique("status");
    let (host, path, copy) = service(&world, &namespace).await?;
    host.until_reason(&path, None).await;
    member.until_there(&copy).await;
    member
        .patch(&format!("{copy}/status"), &balanced("192.0.2.1"))
        .await?;
    let status =
        format!("/apis/core.kubefed.io/v1alpha1/namespaces/{namespace}/federatedservicestatuses/x");
    let first = balanced("192.0.2.1")["status"].clone();
    let is_told = |found: &Value| {
        let clusters = &found["clusterStatus"];
        clusters[0]["status"] == first && clusters[1]["clusterName"] == "cluster2"
    };
    let found = host.until(&status, is_told).await;
    assert_eq!(
        found["metadata"]["ownerReferences"][0]["kind"],
        "FederatedService"
    );
    host.delete(&status).await?;
    host.until(&status, is_told).await;
    Ok(())
}
