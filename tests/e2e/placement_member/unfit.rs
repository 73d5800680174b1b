//! Manifests that do not fit the schema of the member: server-side apply refuses them, client-side apply does not.

use anyhow::{Context as _, Result};
use serde_json::{Value, json};
use testbed::unique;

use super::world::{
    AwaitWork as _, WORKS, Way, World, config_map, config_maps, manifest_reason, work,
};

const DEPLOYMENTS: &str = "/apis/apps/v1/namespaces/default/deployments";
const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";

fn deployment(name: &str, spec: &Value, env: &Value) -> Value {
    let mut deployment = json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"replicas": 0, "selector": {"matchLabels": {"app": name}}, "template": {
            "metadata": {"labels": {"app": name}},
            "spec": {"containers": [{"name": "web", "image": "example.com/image", "env": env}]},
        }},
    });
    for (field, value) in spec.as_object().into_iter().flatten() {
        deployment["spec"][field] = value.clone();
    }
    deployment
}

/// A kind of custom resources whose CRD is older than that of the hub.
fn definition(group: &str) -> Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("things.{group}")},
        "spec": {"group": group, "scope": "Namespaced",
            "names": {"plural": "things", "singular": "thing", "kind": "Thing", "listKind": "ThingList"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {
                "type": "object", "properties": {"spec": {"type": "object", "properties": {
                    "size": {"type": "integer"}, "color": {"type": "string"},
                }}},
            }}}]},
    })
}

fn thing(group: &str, name: &str, spec: &Value) -> Value {
    json!({
        "apiVersion": format!("{group}/v1"), "kind": "Thing",
        "metadata": {"name": name, "namespace": "default"}, "spec": spec,
    })
}

async fn apply(hub: &Way, name: &str, manifests: &[Value]) -> Result<()> {
    let manifests = json!({"spec": {"workload": {"manifests": manifests}}});
    hub.patch(&format!("{WORKS}/{name}"), &manifests).await?;
    hub.until_work(name, "Applied", "AllManifestsApplied").await;
    Ok(())
}

#[tokio::test]
async fn what_the_schema_of_the_member_does_not_have_is_left_out() -> Result<()> {
    let world = World::shared().await?;
    let (hub, member) = (world.hub()?, world.member()?);
    let name = unique("unfit");
    let group = format!("{name}.example.org");
    let of_definition = format!("{DEFINITIONS}/things.{group}");
    member.define(&definition(&group)).await?;
    let env = |value: &str| json!({"name": "A", "value": value});
    // A field of a newer Kubernetes, one of a newer CRD, and a name that is there twice.
    let first = [
        deployment(
            &name,
            &json!({"newer": {"field": true}, "minReadySeconds": 3}),
            &json!([]),
        ),
        thing(
            &group,
            &name,
            &json!({"size": 1, "color": "red", "newer": 1}),
        ),
        deployment(
            &format!("{name}-twice"),
            &json!({}),
            &json!([env("1"), env("2")]),
        ),
        // Words of the refusal in the manifest do not hide that it is about the schema.
        json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role",
            "metadata": {"name": name, "namespace": "default"}, "newer": "failed",
            "rules": [{"apiGroups": [""], "resources": ["typed", "object"], "verbs": ["create", "patch"]}],
        }),
    ];
    hub.create(WORKS, &work(&name, &first, &json!(null)))
        .await?;
    hub.until_work(&name, "Applied", "AllManifestsApplied")
        .await;
    let at = format!("{DEPLOYMENTS}/{name}");
    let of_thing = format!("/apis/{group}/v1/namespaces/default/things/{name}");
    let twice = format!("{DEPLOYMENTS}/{name}-twice");
    let get = async |path: &str| member.get(path).await?.context("the object");
    let live = get(&at).await?;
    assert_eq!(live["spec"]["minReadySeconds"], 3);
    assert_eq!(live["metadata"]["ownerReferences"][0]["name"], *name);
    assert_eq!(
        get(&of_thing).await?["spec"],
        json!({"size": 1, "color": "red"})
    );
    let containers = "/spec/template/spec/containers/0/env";
    let both = get(&twice).await?;
    assert_eq!(both.pointer(containers), Some(&json!([env("1"), env("2")])));

    // Changes of others are reverted. Fields that the manifest has never named stay.
    member
        .patch(&of_thing, &json!({"spec": {"size": 7}}))
        .await?;
    let labels = json!({"metadata": {"labels": {"theirs": "1"}}, "spec": {"replicas": 0, "minReadySeconds": 9}});
    member.patch(&at, &labels).await?;
    member
        .until(&of_thing, |one| one["spec"]["size"] == 1)
        .await;
    member
        .until(&at, |one| one["spec"]["minReadySeconds"] == 3)
        .await;

    // An update changes and removes fields.
    let second = [
        deployment(
            &name,
            &json!({"newer": {"field": false}}),
            &json!([env("3")]),
        ),
        thing(&group, &name, &json!({"size": 2, "newer": 1})),
        deployment(
            &format!("{name}-twice"),
            &json!({}),
            &json!([env("1"), env("4")]),
        ),
    ];
    apply(&hub, &name, &second).await?;
    let live = get(&at).await?;
    assert!(live["spec"]["minReadySeconds"].is_null(), "{live:#}");
    assert_eq!(live.pointer(containers), Some(&json!([env("3")])));
    assert_eq!(live["metadata"]["labels"]["theirs"], "1");
    assert_eq!(get(&of_thing).await?["spec"], json!({"size": 2}));
    let both = get(&twice).await?;
    assert_eq!(both.pointer(containers), Some(&json!([env("1"), env("4")])));

    // What fits is applied again by the server, which removes what a merge has set.
    let third = [
        deployment(&name, &json!({"paused": true}), &json!([])),
        thing(&group, &name, &json!({"color": "blue"})),
        deployment(&format!("{name}-twice"), &json!({}), &json!([env("5")])),
    ];
    apply(&hub, &name, &third).await?;
    let live = get(&at).await?;
    assert_eq!(live["spec"]["paused"], true);
    assert_eq!(live.pointer(containers), None);
    assert_eq!(get(&of_thing).await?["spec"], json!({"color": "blue"}));
    let both = get(&twice).await?;
    assert_eq!(both.pointer(containers), Some(&json!([env("5")])));
    // And the other way round, with a removal at the same time.
    apply(&hub, &name, &first[..1]).await?;
    let live = get(&at).await?;
    assert!(live["spec"]["paused"].is_null(), "{live:#}");
    assert_eq!(live["spec"]["minReadySeconds"], 3);
    member.until_gone(&of_thing).await;
    member.until_gone(&twice).await;
    hub.delete(&format!("{WORKS}/{name}")).await?;
    member.until_gone(&at).await;
    member.delete(&of_definition).await?;
    Ok(())
}

#[tokio::test]
async fn an_object_that_does_not_fit_is_not_written_again_without_need() -> Result<()> {
    let mut world = World::new().await?;
    world.start()?;
    let (hub, member) = (world.hub()?, world.member()?);
    let mut manifest = config_map("default", "quiet", &json!({"a": "1"}));
    manifest["newer"] = true.into();
    hub.create(WORKS, &work("quiet", &[manifest], &json!(null)))
        .await?;
    hub.until_work("quiet", "Available", "AllManifestsAvailable")
        .await;
    let path = format!("{}/quiet", config_maps("default"));
    let version = async |path: &str| {
        let object = member.get(path).await?.context("the object")?;
        anyhow::Ok(object["metadata"]["resourceVersion"].clone())
    };
    let before = version(&path).await?;
    // A pass about another object of the Work, and a restart.
    let work_at = format!("{WORKS}/quiet");
    let mut both = config_map("default", "quiet", &json!({"a": "1"}));
    both["newer"] = true.into();
    let other = config_map("default", "other", &json!({}));
    let manifests = json!({"spec": {"workload": {"manifests": [both, other]}}});
    hub.patch(&work_at, &manifests).await?;
    hub.until_work("quiet", "Applied", "AllManifestsApplied")
        .await;
    assert_eq!(version(&path).await?, before);
    world.kill().await?;
    world.start()?;
    let others = format!("{}/other", config_maps("default"));
    member.delete(&others).await?;
    member
        .until(&others, |one| one["metadata"]["uid"].is_string())
        .await;
    assert_eq!(version(&path).await?, before);

    // Differences of what does not fit are those of a full comparison.
    let report = json!({"spec": {"applyStrategy": {"type": "ReportDiff"}}});
    hub.patch(&work_at, &report).await?;
    let said = hub
        .until_work("quiet", "DiffReported", "AllManifestsDiffReported")
        .await;
    assert_eq!(
        manifest_reason(&said, 0, "DiffReported"),
        "FoundDiffInDegradedMode"
    );
    let details = &said["status"]["manifestConditions"][0]["diffDetails"]["observedDiffs"];
    assert_eq!(*details, json!([{"path": "/newer", "valueInHub": "true"}]));
    Ok(())
}

#[tokio::test]
async fn server_side_apply_refuses_what_does_not_fit() -> Result<()> {
    let world = World::shared().await?;
    let (hub, member) = (world.hub()?, world.member()?);
    let name = unique("unfit-ssa");
    let mut manifest = config_map("default", &name, &json!({"a": "1"}));
    manifest["newer"] = true.into();
    let strategy = json!({"type": "ServerSideApply"});
    hub.create(WORKS, &work(&name, &[manifest], &strategy))
        .await?;
    let said = hub
        .until_work(&name, "Applied", "SomeManifestsAreNotApplied")
        .await;
    assert_eq!(manifest_reason(&said, 0, "Applied"), "ManifestApplyFailed");
    let path = format!("{}/{name}", config_maps("default"));
    assert_eq!(member.get(&path).await?, None);
    Ok(())
}

#[tokio::test]
async fn a_list_that_the_manifest_drops_goes_with_what_others_set_in_it() -> Result<()> {
    let world = World::shared().await?;
    let (hub, member) = (world.hub()?, world.member()?);
    let name = unique("ports");
    let group = format!("{name}.example.org");
    let mut crd = definition(&group);
    crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]["ports"] = json!({
        "type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["port"],
        "items": {"type": "object", "required": ["port"], "properties": {
            "port": {"type": "integer"}, "proto": {"type": "string"}}},
    });
    member.define(&crd).await?;
    let with = thing(&group, &name, &json!({"size": 1, "ports": [{"port": 80}]}));
    hub.create(WORKS, &work(&name, &[with], &json!(null)))
        .await?;
    hub.until_work(&name, "Applied", "AllManifestsApplied")
        .await;
    let path = format!("/apis/{group}/v1/namespaces/default/things/{name}");
    let ports = json!({"spec": {"ports": [{"port": 80, "proto": "TCP"}]}});
    member.patch(&path, &ports).await?;
    let without = thing(&group, &name, &json!({"size": 2}));
    apply(&hub, &name, &[without]).await?;
    let left = member.get(&path).await?.context("the thing")?;
    assert_eq!(left["spec"], json!({"size": 2}));
    Ok(())
}
