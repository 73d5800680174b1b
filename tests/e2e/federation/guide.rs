//! The user guide from top to bottom, after `kubefedctl` has joined members and enabled types.

use anyhow::Result;
use serde_json::{Value, json};

use super::kubefedctl::Ctl;
use super::world::{Way, World, core, federated, on};

const NAMESPACE: &str = "test-namespace";

/// Kind, plural, group, template of the example.
fn examples() -> Vec<(&'static str, &'static str, &'static str, Value)> {
    let labels = json!({"app": "nginx"});
    let pod = |policy: &str| {
        json!({
            "metadata": {"labels": labels},
            "spec": {"containers": [{"name": "nginx", "image": "registry.example/nginx"}], "restartPolicy": policy},
        })
    };
    let deployment = json!({"metadata": {"labels": labels}, "spec": {
        "replicas": 3, "selector": {"matchLabels": labels}, "template": pod("Always"),
    }});
    let ports = json!([{"name": "http", "port": 80}]);
    vec![
        (
            "ConfigMap",
            "configmaps",
            "",
            json!({"data": {"A": "ala ma kota"}}),
        ),
        (
            "Secret",
            "secrets",
            "",
            json!({"data": {"A": "YWxhIG1hIGtvdGE="}, "type": "Opaque"}),
        ),
        ("ServiceAccount", "serviceaccounts", "", json!({})),
        (
            "Service",
            "services",
            "",
            json!({"spec": {"selector": labels, "type": "NodePort", "ports": ports}}),
        ),
        ("Deployment", "deployments", "apps", deployment),
        (
            "Job",
            "jobs",
            "batch",
            json!({"spec": {"parallelism": 1, "template": pod("Never")}}),
        ),
    ]
}

struct Walk {
    host: Way,
    members: Vec<Way>,
}

impl Walk {
    fn copy(kind: &str, plural: &str, group: &str) -> String {
        let api = if group.is_empty() {
            "api/v1".to_owned()
        } else {
            format!("apis/{group}/v1")
        };
        format!(
            "/{api}/namespaces/{NAMESPACE}/{plural}/test-{}",
            kind.to_lowercase()
        )
    }

    fn federated(kind: &str, plural: &str) -> String {
        let all = federated(NAMESPACE, &format!("federated{plural}"));
        format!("{all}/test-{}", kind.to_lowercase())
    }

    async fn until_copies(&self, member: usize) {
        for (kind, plural, group, _) in examples() {
            let copy = Self::copy(kind, plural, group);
            let copy = self.members[member].until_there(&copy).await;
            let labels = &copy["metadata"]["labels"];
            assert_eq!(labels["kubefed.io/managed"], "true", "{copy:#}");
        }
    }

    async fn until_propagated(&self, clusters: &Value) {
        for (kind, plural, _, _) in examples() {
            let path = Self::federated(kind, plural);
            self.host
                .until(&path, |found| {
                    let condition = &found["status"]["conditions"][0];
                    condition["status"] == "True" && found["status"]["clusters"] == *clusters
                })
                .await;
        }
    }
}

/// The walk of the user guide through a federation that `kubefedctl` has set up.
pub(super) async fn walk(world: &World, ctl: &Ctl) -> Result<()> {
    for name in ["serviceaccounts", "services", "deployments.apps", "jobs"] {
        ctl.ok(&format!("enable {name}")).await?;
    }
    let walk = Walk {
        host: world.host().await?,
        members: vec![world.member(0).await?, world.member(1).await?],
    };
    let host = &walk.host;

    // Creating the test namespace and resources.
    world.namespace(NAMESPACE).await?;
    for (kind, plural, _, template) in examples() {
        let object = json!({
            "apiVersion": "types.kubefed.io/v1beta1", "kind": format!("Federated{kind}"),
            "metadata": {"name": format!("test-{}", kind.to_lowercase())},
            "spec": {"template": template, "placement": on(&["cluster2", "cluster1"])},
        });
        let all = federated(NAMESPACE, &format!("federated{plural}"));
        host.create(&all, &object).await?;
    }
    for member in 0..2 {
        walk.until_copies(member).await;
    }
    let both = json!([{"name": "cluster1"}, {"name": "cluster2"}]);
    walk.until_propagated(&both).await;

    // Updating FederatedNamespace placement, and back.
    let around = format!(
        "{}/{NAMESPACE}",
        federated(NAMESPACE, "federatednamespaces")
    );
    let only = json!({"spec": {"placement": {"clusters": [{"name": "cluster1"}]}}});
    host.patch(&around, &only).await?;
    walk.members[1]
        .until_gone(&format!("/api/v1/namespaces/{NAMESPACE}"))
        .await;
    walk.until_copies(0).await;
    walk.until_propagated(&json!([{"name": "cluster1"}])).await;
    let back = json!({"spec": {"placement": on(&["cluster1", "cluster2"])}});
    host.patch(&around, &back).await?;
    walk.until_copies(1).await;
    walk.until_propagated(&both).await;

    // Overrides, in order.
    let step = |op: &str, path: &str, value: Value| json!({"op": op, "path": path, "value": value});
    let steps = json!([
        {"path": "/spec/replicas", "value": 5},
        {"path": "/spec/template/spec/containers/0/image", "value": "registry.example/nginx:1.17.0-alpine"},
        step("add", "/metadata/annotations", json!({"foo": "bar", "baz": "qux"})),
        {"op": "remove", "path": "/metadata/annotations/foo"},
        step("add", "/spec/template/spec/containers/0/args", json!(["-b"])),
        step("add", "/spec/template/spec/containers/0/args/0", json!("-q")),
    ]);
    let overrides = json!([{"clusterName": "cluster1", "clusterOverrides": steps}]);
    let deployment = Walk::federated("Deployment", "deployments");
    host.patch(&deployment, &json!({"spec": {"overrides": overrides}}))
        .await?;
    let copy = Walk::copy("Deployment", "deployments", "apps");
    let changed = walk.members[0]
        .until(&copy, |copy| copy["spec"]["replicas"] == 5)
        .await;
    let annotations = &changed["metadata"]["annotations"];
    assert_eq!(
        (&annotations["foo"], &annotations["baz"]),
        (&Value::Null, &json!("qux"))
    );
    let container = &changed["spec"]["template"]["spec"]["containers"][0];
    assert_eq!(container["args"], json!(["-q", "-b"]));
    assert_eq!(container["image"], "registry.example/nginx:1.17.0-alpine");
    let other = walk.members[1].until_there(&copy).await;
    assert_eq!(other["spec"]["replicas"], 3);

    // A cluster selector, and a label on a cluster.
    let config_map = Walk::federated("ConfigMap", "configmaps");
    let selector = json!({"clusters": null, "clusterSelector": {"matchLabels": {"foo": "bar"}}});
    host.patch(&config_map, &json!({"spec": {"placement": selector}}))
        .await?;
    let copy = Walk::copy("ConfigMap", "configmaps", "");
    for member in &walk.members {
        member.until_gone(&copy).await;
    }
    let label = json!({"metadata": {"labels": {"foo": "bar"}}});
    host.patch(&format!("{}/cluster1", core("kubefedclusters")), &label)
        .await?;
    walk.members[0].until_there(&copy).await;
    let all = json!({"spec": {"placement": {"clusterSelector": {"matchLabels": null}}}});
    host.patch(&config_map, &all).await?;
    walk.members[1].until_there(&copy).await;

    // What cannot be changed is told until it is changed back.
    let job = Walk::federated("Job", "jobs");
    let completions =
        |count: Value| json!({"spec": {"template": {"spec": {"completions": count}}}});
    host.patch(&job, &completions(json!(7))).await?;
    let told = host.until_reason(&job, Some("CheckClusters")).await;
    assert_eq!(told["status"]["clusters"][0]["status"], "UpdateFailed");
    host.until_event(NAMESPACE, "UpdateInClusterFailed", "immutable")
        .await;
    host.patch(&job, &completions(Value::Null)).await?;
    host.until_reason(&job, None).await;

    // A namespace that somebody deletes in a member comes back with what is in it.
    let namespace = format!("/api/v1/namespaces/{NAMESPACE}");
    let before = walk.members[1].until_there(&namespace).await;
    walk.members[1].delete(&namespace).await?;
    let is_new = |found: &Value| found["metadata"]["uid"] != before["metadata"]["uid"];
    walk.members[1].until(&namespace, is_new).await;
    walk.until_copies(1).await;
    walk.until_propagated(&both).await;

    // Cleaning up.
    host.delete(&namespace).await?;
    host.until_gone(&namespace).await;
    for member in &walk.members {
        member.until_gone(&namespace).await;
    }
    Ok(())
}
