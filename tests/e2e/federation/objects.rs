//! Objects of federated types, from their creation to their end.

use anyhow::{Result, ensure};
use serde_json::{Value, json};
use testbed::unique;

use super::world::{World, config_map, config_maps, core, everywhere, federated, on};

/// A ConfigMap federated in a namespace of the test's own, and where it and its copies are.
struct Case {
    namespace: String,
    path: String,
    copy: String,
}

async fn case(world: &World, what: &str, placement: &Value) -> Result<Case> {
    let namespace = unique(what);
    world.namespace(&namespace).await?;
    let all = federated(&namespace, "federatedconfigmaps");
    world
        .host()
        .await?
        .create(&all, &config_map("m", placement))
        .await?;
    Ok(Case {
        path: format!("{all}/m"),
        copy: format!("{}/m", config_maps(&namespace)),
        namespace,
    })
}

#[tokio::test]
async fn an_object_is_created_changed_kept_as_it_is_and_deleted() -> Result<()> {
    let world = &*World::shared().await?;
    let host = world.host().await?;
    let members = [world.member(0).await?, world.member(1).await?];
    let case = case(world, "life", &everywhere()).await?;
    for member in &members {
        let copy = member.until_there(&case.copy).await;
        assert_eq!(copy["data"], json!({"A": "ala ma kota"}));
        assert_eq!(
            copy["metadata"]["labels"],
            json!({"kubefed.io/managed": "true"})
        );
    }
    let told = host.until_reason(&case.path, None).await;
    let clusters = json!([{"name": "cluster1"}, {"name": "cluster2"}]);
    assert_eq!(told["status"]["clusters"], clusters);
    let finalizers = json!(["kubefed.io/sync-controller"]);
    assert_eq!(told["metadata"]["finalizers"], finalizers);
    host.until_event(
        &case.namespace,
        "CreateInCluster",
        "in cluster \"cluster1\"",
    )
    .await;

    // The template and an override.
    let steps = json!([{"path": "/data/A", "value": "other"}]);
    let overrides = json!([{"clusterName": "cluster2", "clusterOverrides": steps}]);
    let patch = json!({"spec": {"template": {"data": {"B": "b"}}, "overrides": overrides}});
    host.patch(&case.path, &patch).await?;
    let data = |a: &str| json!({"A": a, "B": "b"});
    members[0]
        .until(&case.copy, |copy| copy["data"] == data("ala ma kota"))
        .await;
    members[1]
        .until(&case.copy, |copy| copy["data"] == data("other"))
        .await;
    host.until_reason(&case.path, None).await;

    // Drift, and a copy that somebody deletes.
    members[0]
        .patch(&case.copy, &json!({"data": {"A": "drift", "C": "c"}}))
        .await?;
    members[0]
        .until(&case.copy, |copy| copy["data"] == data("ala ma kota"))
        .await;
    let gone = members[1].until_there(&case.copy).await;
    members[1].delete(&case.copy).await?;
    let is_new = |copy: &Value| copy["metadata"]["uid"] != gone["metadata"]["uid"];
    members[1].until(&case.copy, is_new).await;

    // What others add to metadata stays.
    let annotations = json!({"metadata": {"annotations": {"a": "1"}}});
    members[0].patch(&case.copy, &annotations).await?;
    host.patch(
        &case.path,
        &json!({"spec": {"template": {"data": {"B": "c"}}}}),
    )
    .await?;
    let copy = members[0]
        .until(&case.copy, |copy| copy["data"]["B"] == "c")
        .await;
    assert_eq!(copy["metadata"]["annotations"], json!({"a": "1"}));

    // Versions of what was written last.
    let version = format!(
        "/apis/core.kubefed.io/v1alpha1/namespaces/{}/propagatedversions/configmap-m",
        case.namespace
    );
    let found = host
        .until(&version, |stored| {
            let copies = stored["status"]["clusterVersions"].as_array();
            copies.is_some_and(|copies| {
                copies.len() == 2
                    && copies[0]["version"]
                        .as_str()
                        .is_some_and(|v| v.starts_with("rv:"))
            })
        })
        .await;
    let owner = &found["metadata"]["ownerReferences"][0];
    assert_eq!(
        (&owner["kind"], &owner["name"]),
        (&json!("FederatedConfigMap"), &json!("m"))
    );

    host.delete(&case.path).await?;
    host.until_gone(&case.path).await;
    for member in &members {
        ensure!(member.get(&case.copy).await?.is_none(), "a copy is left");
    }
    Ok(())
}

#[tokio::test]
async fn the_placement_of_the_namespace_limits_that_of_its_objects() -> Result<()> {
    let world = &*World::shared().await?;
    let host = world.host().await?;
    let members = [world.member(0).await?, world.member(1).await?];
    let case = case(world, "placed", &everywhere()).await?;
    members[1].until_there(&case.copy).await;
    // By names, then by labels of the members.
    host.patch(
        &case.path,
        &json!({"spec": {"placement": on(&["cluster2", "unknown"])}}),
    )
    .await?;
    members[0].until_gone(&case.copy).await;
    host.until_reason(&case.path, None).await;
    let selector = json!({"clusters": null, "clusterSelector": {"matchLabels": {"number": "1"}}});
    host.patch(&case.path, &json!({"spec": {"placement": selector}}))
        .await?;
    members[0].until_there(&case.copy).await;
    members[1].until_gone(&case.copy).await;
    // A selector that cannot be read changes nothing.
    let bogus = json!([{"key": "number", "operator": "Bogus"}]);
    let selector = json!({"clusterSelector": {"matchLabels": null, "matchExpressions": bogus}});
    host.patch(&case.path, &json!({"spec": {"placement": selector}}))
        .await?;
    host.until_reason(&case.path, Some("ComputePlacementFailed"))
        .await;
    let text = "Failed to compute placement: \"Bogus\" is not a valid pod selector operator";
    host.until_event(&case.namespace, "ComputePlacementFailed", text)
        .await;
    ensure!(
        members[0].get(&case.copy).await?.is_some(),
        "it was deleted"
    );
    let selector = json!({"clusterSelector": {"matchLabels": {}, "matchExpressions": null}});
    host.patch(&case.path, &json!({"spec": {"placement": selector}}))
        .await?;
    members[1].until_there(&case.copy).await;
    // Without the federated namespace no member is selected, and the copies are removed.
    let around = format!(
        "{}/{}",
        federated(&case.namespace, "federatednamespaces"),
        case.namespace
    );
    host.patch(
        &around,
        &json!({"metadata": {"annotations": {"kubefed.io/orphan": "true"}}}),
    )
    .await?;
    host.delete(&around).await?;
    for member in &members {
        member.until_gone(&case.copy).await;
        let namespace = format!("/api/v1/namespaces/{}", case.namespace);
        let labels = |found: &Value| found["metadata"]["labels"]["kubefed.io/managed"].is_null();
        member.until(&namespace, labels).await;
    }
    host.until_reason(&case.path, Some("NamespaceNotFederated"))
        .await;
    let message = "is not federated: run kubefedctl federate namespace";
    host.until_event(&case.namespace, "NamespaceNotFederated", message)
        .await;
    Ok(())
}

#[tokio::test]
async fn copies_outlive_a_federated_object_that_is_orphaned() -> Result<()> {
    let world = &*World::shared().await?;
    let host = world.host().await?;
    let case = case(world, "orphans", &everywhere()).await?;
    host.until_reason(&case.path, None).await;
    let orphan = json!({"metadata": {"annotations": {"kubefed.io/orphan": "true"}}});
    host.patch(&case.path, &orphan).await?;
    host.delete(&case.path).await?;
    host.until_gone(&case.path).await;
    for member in [world.member(0).await?, world.member(1).await?] {
        let free = |copy: &Value| copy["metadata"]["labels"].is_null();
        let copy = member.until(&case.copy, free).await;
        assert_eq!(copy["data"], json!({"A": "ala ma kota"}));
    }
    // They are adopted by the next one of the name.
    let all = federated(&case.namespace, "federatedconfigmaps");
    host.create(&all, &config_map("m", &on(&["cluster1"])))
        .await?;
    let managed = |copy: &Value| copy["metadata"]["labels"]["kubefed.io/managed"] == "true";
    world.member(0).await?.until(&case.copy, managed).await;
    host.until_reason(&case.path, None).await;
    let text = "An update will be attempted instead of a creation due to an existing resource";
    host.until_event(&case.namespace, "CreateInClusterFailed", text)
        .await;
    let other = world.member(1).await?.until_there(&case.copy).await;
    ensure!(
        other["metadata"]["labels"].is_null(),
        "a copy outside the placement was adopted"
    );
    Ok(())
}

#[tokio::test]
async fn what_cannot_be_written_is_told_by_member_and_deletes_nothing() -> Result<()> {
    let world = &*World::shared().await?;
    let host = world.host().await?;
    let case = case(world, "told", &everywhere()).await?;
    host.until_reason(&case.path, None).await;
    let status = |found: &Value| {
        let clusters = found["status"]["clusters"]
            .as_array()
            .cloned()
            .unwrap_or_default();
        let of = |cluster: &Value| cluster["status"].as_str().unwrap_or_default().to_owned();
        clusters.iter().map(of).collect::<Vec<_>>()
    };
    // An override that the server refuses, in one member only.
    let steps = json!([{"path": "/data", "value": "no object"}]);
    let wrong = json!([{"clusterName": "cluster2", "clusterOverrides": steps}]);
    host.patch(&case.path, &json!({"spec": {"overrides": wrong}}))
        .await?;
    let told = host.until_reason(&case.path, Some("CheckClusters")).await;
    assert_eq!(status(&told), ["", "UpdateFailed"]);
    host.until_event(
        &case.namespace,
        "UpdateInClusterFailed",
        "in cluster \"cluster2\"",
    )
    .await;
    // Overrides that cannot be read.
    let twice = json!([{"clusterName": "cluster1"}, {"clusterName": "cluster1"}]);
    host.patch(&case.path, &json!({"spec": {"overrides": twice}}))
        .await?;
    let told = host.until_reason(&case.path, Some("CheckClusters")).await;
    assert_eq!(
        status(&told),
        ["ApplyOverridesFailed", "ApplyOverridesFailed"]
    );
    // A copy that opts out.
    host.patch(&case.path, &json!({"spec": {"overrides": null}}))
        .await?;
    host.until_reason(&case.path, None).await;
    let out = json!({"metadata": {"labels": {"kubefed.io/managed": "false"}}});
    world.member(0).await?.patch(&case.copy, &out).await?;
    let told = host.until_reason(&case.path, Some("CheckClusters")).await;
    assert_eq!(status(&told), ["ManagedLabelFalse", ""]);
    for member in [world.member(0).await?, world.member(1).await?] {
        ensure!(
            member.get(&case.copy).await?.is_some(),
            "a copy was deleted"
        );
    }
    Ok(())
}

#[tokio::test]
async fn a_type_that_is_switched_off_and_on_again_is_followed_while_it_is_on() -> Result<()> {
    let world = &*World::shared().await?;
    let host = world.host().await?;
    let secrets = super::world::target("", "Secret", "secrets", "Namespaced");
    world.enable(&secrets).await?;
    let config = format!("{}/secrets", core("federatedtypeconfigs"));
    let is = |state: &'static str| {
        move |config: &Value| config["status"]["propagationController"] == state
    };
    let found = host.until(&config, is("Running")).await;
    assert_eq!(
        found["metadata"]["finalizers"],
        json!(["core.kubefed.io/federated-type-config"])
    );
    let namespace = unique("types");
    world.namespace(&namespace).await?;
    let all = federated(&namespace, "federatedsecrets");
    let object = json!({
        "apiVersion": "types.kubefed.io/v1beta1", "kind": "FederatedSecret", "metadata": {"name": "s"},
        "spec": {"template": {"data": {"k": "dg=="}}, "placement": on(&["cluster1"])},
    });
    host.create(&all, &object).await?;
    let (path, copy) = (
        format!("{all}/s"),
        format!("/api/v1/namespaces/{namespace}/secrets/s"),
    );
    let member = world.member(0).await?;
    member.until_there(&copy).await;
    host.until_reason(&path, None).await;
    host.patch(&config, &json!({"spec": {"propagation": "Disabled"}}))
        .await?;
    host.until(&config, is("NotRunning")).await;
    let changed = json!({"spec": {"template": {"data": {"k": "dw=="}}}});
    let changed = host.patch(&path, &changed).await?;
    // Another type is followed meanwhile, and so would this one be.
    let other = case(world, "types-other", &everywhere()).await?;
    member.until_there(&other.copy).await;
    assert_eq!(member.until_there(&copy).await["data"]["k"], "dg==");
    let status = &host.until_there(&path).await["status"]["observedGeneration"];
    assert_ne!(status, &changed["metadata"]["generation"]);
    host.patch(&config, &json!({"spec": {"propagation": "Enabled"}}))
        .await?;
    member
        .until(&copy, |copy| copy["data"]["k"] == "dw==")
        .await;
    host.until_reason(&path, None).await;
    host.delete(&config).await?;
    host.until_gone(&config).await;
    ensure!(
        member.get(&copy).await?.is_some(),
        "the copy went with its type"
    );
    Ok(())
}

#[tokio::test]
async fn overrides_for_all_and_annotations_of_templates_apply_once_they_are_switched_on()
-> Result<()> {
    let mut world = World::played().await?;
    world.start().await?;
    let namespace = unique("extended");
    world.namespace(&namespace).await?;
    let host = world.host().await?;
    let mut object = config_map("m", &on(&["cluster1", "cluster2"]));
    object["spec"]["template"]["metadata"] = json!({"annotations": {"of": "the template"}});
    let step = |value: &str| json!([{"path": "/data/B", "value": value}]);
    object["spec"]["overrides"] = json!([
        {"clusterName": "cluster1", "clusterOverrides": step("own")},
        {"clusterName": "*", "clusterOverrides": step("all")},
    ]);
    let all = federated(&namespace, "federatedconfigmaps");
    host.create(&all, &object).await?;
    host.until_reason(&format!("{all}/m"), None).await;
    let copy = format!("{}/m", config_maps(&namespace));
    let found = world.member(1).await?.until_there(&copy).await;
    assert_eq!(found["data"], json!({"A": "ala ma kota"}));
    ensure!(found["metadata"]["annotations"].is_null(), "{found:#}");

    world.kill().await?;
    world.flags = vec!["--wildcard-overrides", "--federate-annotations"];
    world.start().await?;
    for (member, wanted) in [(0, "own"), (1, "all")] {
        let is_extended = |copy: &Value| {
            let annotations = &copy["metadata"]["annotations"];
            copy["data"]["B"] == wanted && annotations["of"] == "the template"
        };
        world.member(member).await?.until(&copy, is_extended).await;
    }
    Ok(())
}
