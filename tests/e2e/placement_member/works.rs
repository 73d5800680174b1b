//! Membership, and Works that are applied, updated and deleted.

use anyhow::Result;
use hawser_placement::names::{PARENT_PLACEMENT, PARENT_SNAPSHOT};
use serde_json::{Value, json};
use testbed::unique;

use super::world::{
    APPLIED, AwaitWork as _, INTERNAL, NAME, WORKS, World, condition, config_map, config_maps,
    manifest_reason, work,
};

fn namespace(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
}

#[tokio::test]
async fn a_member_that_is_told_to_join_beats_and_says_what_it_has() -> Result<()> {
    let world = World::shared().await?;
    let (hub, member) = (world.hub()?, world.member()?);
    let node = json!({"metadata": {"name": unique("node")}, "status": {
        "capacity": {"cpu": "4", "memory": "8Gi"}, "allocatable": {"cpu": "4", "memory": "8Gi"},
    }});
    member.create("/api/v1/nodes", &node).await?;
    let path = format!("{INTERNAL}/{NAME}");
    let internal = hub
        .until(&path, |internal| {
            internal["status"]["resourceUsage"]["available"]["cpu"] == "4"
        })
        .await;
    let agent = &internal["status"]["agentStatus"][0];
    assert_eq!(agent["type"], "MemberAgent");
    assert_eq!(
        condition(agent, "Joined")["reason"],
        "InternalMemberClusterJoined"
    );
    assert_eq!(
        condition(agent, "Healthy")["reason"],
        "InternalMemberClusterHealthy"
    );
    let nodes = &internal["status"]["properties"]["kubernetes-fleet.io/node-count"];
    assert_eq!(nodes["value"], "1");
    let property = |name: &str| internal["status"]["properties"][name]["value"].as_str();
    let url = world.member.url();
    assert_eq!(property("k8s.io/cluster-entrypoint"), Some(&*url));
    let authority = property("k8s.io/cluster-certificate-authority-data");
    assert!(authority.is_some(), "{internal:#}");
    assert_eq!(internal["status"]["namespaces"]["default"], "");
    let first = agent["lastReceivedHeartbeat"].clone();
    hub.until(&path, |now| {
        now["status"]["agentStatus"][0]["lastReceivedHeartbeat"] != first
    })
    .await;
    Ok(())
}

#[tokio::test]
async fn a_work_is_applied_updated_and_deleted() -> Result<()> {
    let world = World::shared().await?;
    let (hub, member) = (world.hub()?, world.member()?);
    let (ns, name) = (unique("app"), unique("w"));
    let (kept, dropped) = (
        config_map(&ns, "kept", &json!({"a": "1", "b": "1"})),
        config_map(&ns, "dropped", &json!({})),
    );
    // The namespace comes last and is applied first.
    let all = work(&name, &[kept, dropped, namespace(&ns)], &json!(null));
    hub.create(WORKS, &all).await?;
    let said = hub
        .until_work(&name, "Available", "AllManifestsAvailable")
        .await;
    assert_eq!(
        condition(&said["status"], "Applied")["reason"],
        "AllManifestsApplied"
    );
    assert_eq!(manifest_reason(&said, 2, "Available"), "Available");
    let kept_path = format!("{}/kept", config_maps(&ns));
    let live = member.get(&kept_path).await?.unwrap();
    let owner = &live["metadata"]["ownerReferences"][0];
    assert_eq!(
        (&owner["kind"], &owner["name"]),
        (&json!("AppliedWork"), &json!(name))
    );
    let applied = member.get(&format!("{APPLIED}/{name}")).await?.unwrap();
    assert_eq!(
        applied["status"]["appliedResources"]
            .as_array()
            .unwrap()
            .len(),
        3
    );
    assert_eq!(
        applied["status"]["appliedResources"][0]["uid"],
        live["metadata"]["uid"]
    );

    let kept = config_map(&ns, "kept", &json!({"a": "2"}));
    let manifests = json!({"spec": {"workload": {"manifests": [kept, namespace(&ns)]}}});
    hub.patch(&format!("{WORKS}/{name}"), &manifests).await?;
    hub.until_work(&name, "Applied", "AllManifestsApplied")
        .await;
    let live = member.get(&kept_path).await?.unwrap();
    assert_eq!(live["data"], json!({"a": "2"}));
    member
        .until_gone(&format!("{}/dropped", config_maps(&ns)))
        .await;

    hub.delete(&format!("{WORKS}/{name}")).await?;
    hub.until_gone(&format!("{WORKS}/{name}")).await;
    assert_eq!(member.get(&format!("{APPLIED}/{name}")).await?, None);
    member.until_gone(&kept_path).await;
    member.until_gone(&format!("/api/v1/namespaces/{ns}")).await;
    Ok(())
}

#[tokio::test]
async fn drift_is_reverted_and_fields_of_others_stay() -> Result<()> {
    let world = World::shared().await?;
    let (hub, member) = (world.hub()?, world.member()?);
    let name = unique("drift");
    let manifest = config_map("default", &name, &json!({"a": "1"}));
    hub.create(WORKS, &work(&name, &[manifest], &json!(null)))
        .await?;
    hub.until_work(&name, "Applied", "AllManifestsApplied")
        .await;
    let path = format!("{}/{name}", config_maps("default"));
    let other = json!({"data": {"a": "2", "other": "x"}});
    member.patch(&path, &other).await?;
    let live = member.until(&path, |live| live["data"]["a"] == "1").await;
    assert_eq!(live["data"]["other"], "x");
    let first = live["metadata"]["uid"].clone();
    member.delete(&path).await?;
    let anew = member
        .until(&path, |live| live["metadata"]["uid"] != first)
        .await;
    assert_eq!(anew["data"], json!({"a": "1"}));
    hub.delete(&format!("{WORKS}/{name}")).await?;
    hub.until_gone(&format!("{WORKS}/{name}")).await;
    Ok(())
}

#[tokio::test]
async fn a_refused_manifest_says_why_while_the_others_go_on() -> Result<()> {
    let world = World::shared().await?;
    let (hub, member) = (world.hub()?, world.member()?);
    let name = unique("refused");
    let good = config_map("default", &name, &json!({"a": "1"}));
    let manifests = [
        config_map(
            "default",
            &format!("{name}-bad"),
            &json!({"a": {"not": "text"}}),
        ),
        json!({"apiVersion": "example.com/v1", "kind": "Unknown", "metadata": {"name": "u"}}),
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"generateName": "g", "namespace": "default"}}),
        good.clone(),
        good,
    ];
    hub.create(WORKS, &work(&name, &manifests, &json!(null)))
        .await?;
    let said = hub
        .until_work(&name, "Applied", "SomeManifestsAreNotApplied")
        .await;
    let reasons: Vec<String> = (0..5)
        .map(|ordinal| manifest_reason(&said, ordinal, "Applied"))
        .collect();
    assert_eq!(
        reasons,
        [
            "ManifestApplyFailed",
            "FailedToFindObjInMemberCluster",
            "FoundGenerateName",
            "Applied",
            "Duplicated",
        ]
    );
    assert!(condition(&said["status"], "Available").is_null());
    let live = member
        .get(&format!("{}/{name}", config_maps("default")))
        .await?;
    assert!(live.is_some());
    Ok(())
}

#[tokio::test]
async fn a_kind_and_its_objects_come_with_one_work() -> Result<()> {
    let world = World::shared().await?;
    let hub = world.hub()?;
    let name = unique("crd");
    let group = format!("{name}.example.com");
    let definition = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("foos.{group}")},
        "spec": {"group": group, "scope": "Cluster", "names": {"plural": "foos", "kind": "Foo"},
                 "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {
                     "type": "object", "x-kubernetes-preserve-unknown-fields": true}}}]},
    });
    let foo = json!({"apiVersion": format!("{group}/v1"), "kind": "Foo", "metadata": {"name": "f"}, "spec": {"a": 1}});
    hub.create(WORKS, &work(&name, &[foo, definition], &json!(null)))
        .await?;
    let said = hub.until_work(&name, "Available", "WorkNotTrackable").await;
    assert_eq!(manifest_reason(&said, 1, "Available"), "Available");
    Ok(())
}

#[tokio::test]
async fn a_work_with_many_manifests_is_applied_whole() -> Result<()> {
    let world = World::shared().await?;
    let (hub, member) = (world.hub()?, world.member()?);
    let name = unique("many");
    let ns = member
        .create("/api/v1/namespaces", &namespace(&name))
        .await?;
    assert_eq!(ns["metadata"]["name"], *name);
    let manifests: Vec<Value> = (0..300)
        .map(|number| {
            config_map(
                &name,
                &format!("c{number}"),
                &json!({"n": number.to_string()}),
            )
        })
        .collect();
    hub.create(WORKS, &work(&name, &manifests, &json!(null)))
        .await?;
    let said = hub
        .until_work(&name, "Applied", "AllManifestsApplied")
        .await;
    assert_eq!(
        said["status"]["manifestConditions"]
            .as_array()
            .unwrap()
            .len(),
        300
    );
    let live = member
        .get(&format!("{}/c299", config_maps(&name)))
        .await?
        .unwrap();
    assert_eq!(live["data"]["n"], "299");
    Ok(())
}

/// As a snapshot is split otherwise: the hub writes the new Works first, then it deletes those without a use.
#[tokio::test]
async fn an_object_that_moves_to_another_work_of_its_placement_is_the_same_object() -> Result<()> {
    let world = World::shared().await?;
    let (hub, member) = (world.hub()?, world.member()?);
    let (ns, placement) = (unique("move"), unique("p"));
    let names = ["one", "two", "three"].map(|part| format!("{placement}-{part}"));
    let map = |name: &str| config_map(&ns, name, &json!({}));
    let of = |name: &str, manifests: &[Value], snapshot: &str| {
        let mut all = work(name, manifests, &json!(null));
        all["metadata"]["labels"] = json!({PARENT_PLACEMENT: placement});
        all["metadata"]["annotations"] = json!({PARENT_SNAPSHOT: snapshot});
        all
    };
    let applied = async |name: &str| {
        hub.until_work(name, "Applied", "AllManifestsApplied").await;
    };
    let first = of(&names[0], &[namespace(&ns), map("a"), map("b")], "s-0");
    hub.create(WORKS, &first).await?;
    hub.create(WORKS, &of(&names[1], &[map("c")], "s-0"))
        .await?;
    applied(&names[0]).await;
    applied(&names[1]).await;
    let paths = ["a", "b", "c"].map(|name| format!("{}/{name}", config_maps(&ns)));
    let mut uids = Vec::new();
    for path in &paths {
        let live = member.until_there(path).await;
        uids.push(live["metadata"]["uid"].clone());
    }

    // "b" leaves the first Work before the second one has it.
    let first = of(&names[0], &[namespace(&ns), map("a")], "s-1");
    hub.patch(&format!("{WORKS}/{}", names[0]), &first).await?;
    applied(&names[0]).await;
    let second = of(&names[1], &[map("b"), map("c")], "s-1");
    hub.patch(&format!("{WORKS}/{}", names[1]), &second).await?;
    let is_of = |name: &str| {
        let name = name.to_owned();
        move |live: &Value| live["metadata"]["ownerReferences"][0]["name"] == *name
    };
    member.until(&paths[1], is_of(&names[1])).await;
    applied(&names[1]).await;

    // "b" and "c" move to a Work that is new, and their Work goes.
    let third = of(&names[2], &[map("b"), map("c")], "s-2");
    hub.create(WORKS, &third).await?;
    let first = of(&names[0], &[namespace(&ns), map("a")], "s-2");
    hub.patch(&format!("{WORKS}/{}", names[0]), &first).await?;
    hub.delete(&format!("{WORKS}/{}", names[1])).await?;
    hub.until_gone(&format!("{WORKS}/{}", names[1])).await;
    applied(&names[2]).await;
    for (path, uid) in paths.iter().zip(&uids) {
        let live = member.until_there(path).await;
        assert_eq!(live["metadata"]["uid"], *uid, "{path}");
        assert!(live["metadata"]["deletionTimestamp"].is_null(), "{path}");
    }
    // What no Work lists goes.
    let third = of(&names[2], &[map("c")], "s-3");
    hub.patch(&format!("{WORKS}/{}", names[2]), &third).await?;
    let first = of(&names[0], &[namespace(&ns), map("a")], "s-3");
    hub.patch(&format!("{WORKS}/{}", names[0]), &first).await?;
    member.until_gone(&paths[1]).await;
    Ok(())
}
