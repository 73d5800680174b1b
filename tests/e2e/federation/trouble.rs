//! Members that are not what they say, input that nobody can mean, a control plane that is killed while it writes,
//! and one that takes over what the original left.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hawser_federation::versions::Versions;
use hawser_runtime::cluster::connection::Call;
use kcp_playground::server::{Action, Fault, Matcher, When};
use kube_lang::object::Object;
use serde_json::{Value, json};
use testbed::cluster::Controllers;
use testbed::{SOON, eventually};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio_util::task::AbortOnDropHandle;

use super::world::{
    SYSTEM, Way, World, config_map, config_maps, core, everywhere, federated, on, target,
};

const NAMESPACE: &str = "trouble";

/// A server that answers its health and not much else.
struct Pretender {
    url: String,
    _serving: AbortOnDropHandle<()>,
}

impl Pretender {
    /// `health` is what it says of its health, `answer` what it says to everything else; none is silence.
    async fn start(health: &'static str, answer: Option<&'static str>) -> Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let url = format!("http://{}", listener.local_addr()?);
        let serving = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(serve(stream, health, answer));
            }
        });
        Ok(Self {
            url,
            _serving: AbortOnDropHandle::new(serving),
        })
    }
}

async fn serve(mut stream: TcpStream, health: &str, answer: Option<&str>) -> Result<()> {
    let mut read = Vec::new();
    while !read.ends_with(b"\r\n\r\n") {
        read.push(stream.read_u8().await?);
    }
    let request = String::from_utf8_lossy(&read).into_owned();
    let body = if request.starts_with("GET /healthz") {
        health
    } else if request.starts_with("GET /version") {
        r#"{"gitVersion": "v0.0.0"}"#
    } else {
        match answer {
            Some(answer) => answer,
            None => return std::future::pending().await,
        }
    };
    let head = format!(
        "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
        body.len()
    );
    stream.write_all(head.as_bytes()).await?;
    stream.write_all(body.as_bytes()).await?;
    Ok(stream.flush().await?)
}

async fn join(host: &Way, name: &str, spec: &Value) -> Result<()> {
    let mut spec = spec.clone();
    if spec["secretRef"].is_null() {
        spec["secretRef"] = json!({"name": "cluster1-token"});
    }
    let cluster = json!({
        "apiVersion": "core.kubefed.io/v1beta1", "kind": "KubeFedCluster", "metadata": {"name": name}, "spec": spec,
    });
    host.create(&core("kubefedclusters"), &cluster).await?;
    Ok(())
}

#[tokio::test]
async fn members_that_are_not_what_they_say_are_told_and_hold_up_nobody() -> Result<()> {
    let mut world = World::played().await?;
    world.start().await?;
    world.namespace(NAMESPACE).await?;
    let host = world.host().await?;
    let secret = json!({"metadata": {"name": "wrong"}, "stringData": {"token": "wrong"}});
    host.create(&format!("/api/v1/namespaces/{SYSTEM}/secrets"), &secret)
        .await?;
    let bundle = |number: usize| world.members[number].certificate_authority();
    let url = world.members[0].url();
    let other = Pretender::start("hello", Some("{}")).await?;
    let silent = Pretender::start("ok", None).await?;
    let liar = Pretender::start("ok", Some(r#"{"kind": "Nonsense", "items": 5}"#)).await?;
    let empty = Pretender::start("ok", Some("no JSON at all")).await?;
    let rows = [
        (
            "wrong-token",
            json!({"apiEndpoint": url, "caBundle": STANDARD.encode(bundle(0)?), "secretRef": {"name": "wrong"}}),
            "ClusterNotReachable",
        ),
        (
            "wrong-authority",
            json!({"apiEndpoint": url, "caBundle": STANDARD.encode(bundle(1)?)}),
            "ClusterNotReachable",
        ),
        (
            "no-secret",
            json!({"apiEndpoint": url, "secretRef": {"name": "none"}}),
            "ClusterConfigMalformed",
        ),
        (
            "no-bundle",
            json!({"apiEndpoint": url, "caBundle": STANDARD.encode("no")}),
            "ClusterConfigMalformed",
        ),
        (
            "something-else",
            json!({"apiEndpoint": other.url}),
            "ClusterNotReady",
        ),
        (
            "nobody",
            json!({"apiEndpoint": "http://127.0.0.1:1"}),
            "ClusterNotReachable",
        ),
        ("silent", json!({"apiEndpoint": silent.url}), "ClusterReady"),
        ("liar", json!({"apiEndpoint": liar.url}), "ClusterReady"),
        ("no-json", json!({"apiEndpoint": empty.url}), "ClusterReady"),
    ];
    for (name, spec, _) in &rows {
        join(&host, name, spec).await?;
    }
    for (name, _, reason) in &rows {
        let cluster = format!("{}/{name}", core("kubefedclusters"));
        let found = host
            .until(&cluster, |found| {
                found["status"]["conditions"][0]["reason"] == *reason
            })
            .await;
        let message = found["status"]["conditions"][0]["message"].as_str();
        ensure!(
            message.is_some_and(|message| !message.is_empty()),
            "{found:#}"
        );
    }
    for name in ["no-secret", "no-bundle"] {
        let reason = "MalformedClusterConfig";
        let about = if name == "no-secret" {
            "Secret \"none\""
        } else {
            "caBundle"
        };
        host.until_event(SYSTEM, reason, about).await;
    }

    // Those that work are worked with, and the others are told by name.
    let all = federated(NAMESPACE, "federatedconfigmaps");
    host.create(&all, &config_map("m", &everywhere())).await?;
    let path = format!("{all}/m");
    let copy = format!("{}/m", config_maps(NAMESPACE));
    for member in [world.member(0).await?, world.member(1).await?] {
        member.until_there(&copy).await;
    }
    let told = host
        .until(&path, |found| {
            let clusters = found["status"]["clusters"].as_array();
            clusters.is_some_and(|clusters| clusters.len() == rows.len() + 2)
        })
        .await;
    let statuses: BTreeMap<&str, &str> = (told["status"]["clusters"]
        .as_array()
        .context("clusters")?
        .iter())
    .map(|cluster| {
        (
            cluster["name"].as_str().unwrap_or_default(),
            cluster["status"].as_str().unwrap_or_default(),
        )
    })
    .collect();
    for (name, _, reason) in &rows {
        let wanted = if *reason == "ClusterReady" {
            "CachedRetrievalFailed"
        } else {
            "ClusterNotReady"
        };
        assert_eq!(statuses[name], wanted, "{name}: {told:#}");
    }
    assert_eq!((statuses["cluster1"], statuses["cluster2"]), ("", ""));
    let changed = json!({"spec": {"template": {"data": {"A": "changed"}}}});
    host.patch(&path, &changed).await?;
    for member in [world.member(0).await?, world.member(1).await?] {
        member
            .until(&copy, |copy| copy["data"]["A"] == "changed")
            .await;
    }
    // An end to all of them ends the trouble.
    for (name, ..) in &rows {
        host.delete(&format!("{}/{name}", core("kubefedclusters")))
            .await?;
    }
    host.until_reason(&path, None).await;
    host.delete(&path).await?;
    host.until_gone(&path).await;
    Ok(())
}

#[tokio::test]
async fn a_control_plane_that_is_killed_while_it_writes_makes_nothing_anew() -> Result<()> {
    const OBJECTS: usize = 40;
    let mut world = World::played().await?;
    world.start().await?;
    world.namespace(NAMESPACE).await?;
    let host = world.host().await?;
    let members = [world.member(0).await?, world.member(1).await?];
    let all = federated(NAMESPACE, "federatedconfigmaps");
    let copies = async |member: &Way| -> Result<BTreeMap<String, Value>> {
        let found = member
            .get(&config_maps(NAMESPACE))
            .await?
            .context("a list")?;
        let items = found["items"].as_array().context("items")?.iter();
        let named = items.filter_map(|copy| {
            let name = copy["metadata"]["name"].as_str()?;
            name.starts_with('m')
                .then(|| (name.to_owned(), copy.clone()))
        });
        Ok(named.collect())
    };
    let mut uids = BTreeMap::new();
    for round in 0..6_usize {
        let value = round.to_string();
        for number in 0..OBJECTS {
            let name = format!("m{number}");
            if round == 0 {
                let mut object = config_map(&name, &everywhere());
                object["spec"]["template"]["data"]["A"] = value.as_str().into();
                host.create(&all, &object).await?;
            } else {
                let change = json!({"spec": {"template": {"data": {"A": value}}}});
                host.patch(&format!("{all}/{name}"), &change).await?;
            }
        }
        // Somewhere between the first write and the last record.
        let written = (round * 7) % OBJECTS;
        eventually(SOON, "some copies are written", async || -> Result<()> {
            let found = copies(&members[round % 2]).await?;
            let done = found
                .values()
                .filter(|copy| copy["data"]["A"] == value.as_str())
                .count();
            ensure!(done >= written, "{done}");
            Ok(())
        })
        .await;
        world.kill().await?;
        world.start().await?;
        for (number, member) in members.iter().enumerate() {
            eventually(SOON, "all copies are written", async || -> Result<()> {
                let found = copies(member).await?;
                let is_done = |copy: &&Value| copy["data"]["A"] == value.as_str();
                let done = found.values().filter(is_done).count();
                ensure!(
                    done == OBJECTS && found.len() == OBJECTS,
                    "{done} of {}",
                    found.len()
                );
                Ok(())
            })
            .await;
            for (name, copy) in copies(member).await? {
                let uid = copy["metadata"]["uid"].clone();
                let before = uids
                    .entry((number, name.clone()))
                    .or_insert_with(|| uid.clone());
                assert_eq!(*before, uid, "{name} was made anew");
            }
        }
    }
    for number in 0..OBJECTS {
        host.delete(&format!("{all}/m{number}")).await?;
    }
    world.kill().await?;
    world.start().await?;
    for number in 0..OBJECTS {
        host.until_gone(&format!("{all}/m{number}")).await;
    }
    for member in &members {
        let left = copies(member).await?;
        ensure!(left.is_empty(), "{left:?}");
    }
    Ok(())
}

/// An object as the original leaves it: with its finalizer, its status, and the versions of its copies.
async fn leave(
    host: &Way,
    mut object: Value,
    plural: &str,
    versions: &[(&str, String)],
) -> Result<()> {
    object["metadata"]["finalizers"] = json!(["kubefed.io/sync-controller"]);
    object["metadata"]["namespace"] = NAMESPACE.into();
    let clusters: Vec<Value> = versions
        .iter()
        .map(|(name, _)| json!({"name": name}))
        .collect();
    let now = "2023-04-25T00:00:00Z";
    let all = federated(NAMESPACE, plural);
    let created = host.create(&all, &object).await?;
    let name = object["metadata"]["name"].as_str().context("a name")?;
    let status = json!({
        "observedGeneration": created["metadata"]["generation"], "clusters": clusters,
        "conditions": [{"type": "Propagation", "status": "True", "lastUpdateTime": now, "lastTransitionTime": now}],
    });
    host.patch(&format!("{all}/{name}/status"), &json!({"status": status}))
        .await?;
    let kind = object["kind"].as_str().context("a kind")?.to_owned();
    let of = Versions::of(&Object::new(object.clone())?);
    let versions: Vec<Value> = (versions.iter())
        .map(|(cluster, version)| json!({"clusterName": cluster, "version": version}))
        .collect();
    let status = json!({
        "templateVersion": of.template, "overridesVersion": of.overrides, "clusterVersions": versions,
    });
    let owner = json!({
        "apiVersion": "types.kubefed.io/v1beta1", "kind": kind, "name": name, "uid": created["metadata"]["uid"],
    });
    let target = kind.trim_start_matches("Federated").to_lowercase();
    let stored = json!({
        "apiVersion": "core.kubefed.io/v1alpha1", "kind": "PropagatedVersion",
        "metadata": {"name": format!("{target}-{name}"), "ownerReferences": [owner]},
    });
    let all = format!("/apis/core.kubefed.io/v1alpha1/namespaces/{NAMESPACE}/propagatedversions");
    host.create(&all, &stored).await?;
    host.patch(
        &format!("{all}/{target}-{name}/status"),
        &json!({"status": status}),
    )
    .await?;
    Ok(())
}

const LOCKS: &str = "/api/v1/namespaces/kube-federation-system/endpoints";
const LEADER: &str = "control-plane.alpha.kubernetes.io/leader";

/// The lock of an original that has ended, as it is configured to be held: in Endpoints.
async fn leave_lock(host: &Way) -> Result<()> {
    let resource = json!({"spec": {"leaderElect": {"resourceLock": "endpoints"}}});
    host.patch(&core("kubefedconfigs/kubefed"), &resource)
        .await?;
    let then = "2023-04-25T00:00:00Z";
    let record = json!({
        "holderIdentity": "original_1", "leaseDurationSeconds": 1, "acquireTime": then, "renewTime": then,
        "leaderTransitions": 3,
    });
    let annotations = json!({LEADER: record.to_string()});
    let name = "kubefed-controller-manager";
    let lock = json!({"metadata": {"name": name, "annotations": annotations}});
    host.create(LOCKS, &lock).await?;
    Ok(())
}

#[tokio::test]
async fn what_the_original_left_is_taken_over_without_a_write_to_a_member() -> Result<()> {
    let mut world = World::of(2, Controllers::None).await?;
    let host = world.host().await?;
    let members = [world.member(0).await?, world.member(1).await?];
    world
        .enable(&target("apps", "Deployment", "deployments", "Namespaced"))
        .await?;
    let config = format!("{}/configmaps", core("federatedtypeconfigs"));
    let finalizers = json!({"metadata": {"finalizers": ["core.kubefed.io/federated-type-config"]}});
    host.patch(&config, &finalizers).await?;

    let managed = json!({"kubefed.io/managed": "true"});
    host.create(
        "/api/v1/namespaces",
        &json!({"metadata": {"name": NAMESPACE}}),
    )
    .await?;
    let labels = json!({"app": "x"});
    let pod = json!({
        "metadata": {"labels": labels},
        "spec": {"containers": [{"name": "c", "image": "registry.example/none"}]},
    });
    let spec = json!({"replicas": 1, "selector": {"matchLabels": labels}, "template": pod});
    let (mut namespaces, mut maps, mut deployments) = (Vec::new(), Vec::new(), Vec::new());
    for (number, member) in members.iter().enumerate() {
        let name = ["cluster1", "cluster2"][number];
        let version = |object: &Value| {
            let version = object["metadata"]["resourceVersion"].as_str();
            (name, format!("rv:{}", version.unwrap_or_default()))
        };
        let namespace = json!({"metadata": {"name": NAMESPACE, "labels": managed}});
        namespaces.push(version(
            &member.create("/api/v1/namespaces", &namespace).await?,
        ));
        // The version alone says that it is as it was written.
        let map = json!({
            "metadata": {"name": "m", "labels": managed, "annotations": {"of": "a member"}},
            "data": {"foo": "bar", "more": "in the member"},
        });
        maps.push(version(
            &member.create(&config_maps(NAMESPACE), &map).await?,
        ));
        let deployment = json!({"metadata": {"name": "d", "labels": managed}, "spec": spec});
        let all = format!("/apis/apps/v1/namespaces/{NAMESPACE}/deployments");
        let created = member.create(&all, &deployment).await?;
        let generation = &created["metadata"]["generation"];
        deployments.push((name, format!("gen:{generation}")));
    }
    let object = |kind: &str, name: &str, spec: Value| json!({"apiVersion": "types.kubefed.io/v1beta1", "kind": kind, "metadata": {"name": name}, "spec": spec});
    let around = object(
        "FederatedNamespace",
        NAMESPACE,
        json!({"placement": everywhere()}),
    );
    leave(&host, around, "federatednamespaces", &namespaces).await?;
    let template = json!({"data": {"foo": "bar"}});
    let map = object(
        "FederatedConfigMap",
        "m",
        json!({"template": template, "placement": everywhere()}),
    );
    let of = Versions::of(&Object::new(map.clone())?);
    assert_eq!(
        of.template, "4682012eb72f035cfe2b227efe7ca8c8",
        "as the original computes it"
    );
    leave(&host, map, "federatedconfigmaps", &maps).await?;
    let template = json!({"spec": spec});
    let deployment = object(
        "FederatedDeployment",
        "d",
        json!({"template": template, "placement": everywhere()}),
    );
    leave(&host, deployment, "federateddeployments", &deployments).await?;

    let paths = [
        format!("/api/v1/namespaces/{NAMESPACE}"),
        format!("{}/m", config_maps(NAMESPACE)),
        format!("/apis/apps/v1/namespaces/{NAMESPACE}/deployments/d"),
    ];
    let stored =
        format!("/apis/core.kubefed.io/v1alpha1/namespaces/{NAMESPACE}/propagatedversions");
    let everything = async || -> Result<Vec<Value>> {
        let mut found = Vec::new();
        for path in &paths {
            for member in &members {
                found.push(member.get(path).await?.context("a copy")?);
            }
        }
        for name in ["namespace-trouble", "configmap-m", "deployment-d"] {
            found.push(
                host.get(&format!("{stored}/{name}"))
                    .await?
                    .context("versions")?,
            );
        }
        Ok(found)
    };
    let before = everything().await?;
    leave_lock(&host).await?;
    world.start().await?;
    let lock = format!("{LOCKS}/kubefed-controller-manager");
    let record = host.until_there(&lock).await["metadata"]["annotations"][LEADER].clone();
    let record: Value = serde_json::from_str(record.as_str().context("a record")?)?;
    assert_ne!(record["holderIdentity"], "original_1");
    assert_eq!(record["leaderTransitions"], 4);
    // What is made now is worked on after what was there.
    for (kind, plural, template) in [
        (
            "FederatedConfigMap",
            "federatedconfigmaps",
            json!({"data": {}}),
        ),
        (
            "FederatedDeployment",
            "federateddeployments",
            json!({"spec": spec}),
        ),
    ] {
        let last = object(
            kind,
            "last",
            json!({"template": template, "placement": everywhere()}),
        );
        let all = federated(NAMESPACE, plural);
        host.create(&all, &last).await?;
        host.until_reason(&format!("{all}/last"), None).await;
    }
    assert_eq!(before, everything().await?);
    // From then on it is followed.
    let change = json!({"spec": {"template": {"data": {"foo": "new"}}}});
    host.patch(
        &format!("{}/m", federated(NAMESPACE, "federatedconfigmaps")),
        &change,
    )
    .await?;
    for member in &members {
        let copy = member
            .until(&paths[1], |copy| copy["data"]["foo"] == "new")
            .await;
        assert_eq!(copy["metadata"]["annotations"]["of"], "a member");
    }
    Ok(())
}

#[tokio::test]
async fn input_that_nobody_can_mean_is_told_and_deletes_nothing() -> Result<()> {
    let world = &*World::shared().await?;
    let host = world.host().await?;
    let members = [world.member(0).await?, world.member(1).await?];
    let namespace = testbed::unique("input");
    world.namespace(&namespace).await?;
    let all = federated(&namespace, "federatedconfigmaps");
    let overrides = |path: &str, op: &str| {
        let steps = json!([{"op": op, "path": path, "value": {}}]);
        json!({"overrides": [{"clusterName": "cluster1", "clusterOverrides": steps}]})
    };
    let twice = json!([{"path": "/data/a", "value": "1"}, {"path": "/data/a", "value": "2"}]);
    let twice = json!({"overrides": [{"clusterName": "cluster1", "clusterOverrides": twice}]});
    let rows = [
        (
            "bad-path",
            overrides("/data/a/b/c", "add"),
            ["ApplyOverridesFailed", ""],
            "missing path",
        ),
        (
            "kind",
            overrides("/kind", "replace"),
            ["ApplyOverridesFailed"; 2],
            "has an invalid path: /kind",
        ),
        (
            "name",
            overrides("/metadata/name", "replace"),
            ["ApplyOverridesFailed"; 2],
            "invalid path: /metadata/name",
        ),
        (
            "twice",
            twice,
            ["ApplyOverridesFailed"; 2],
            "appears more than once for cluster",
        ),
        (
            "renamed",
            overrides("/metadata", "replace"),
            ["ApplyOverridesFailed", ""],
            "overrides change the kind, name or namespace",
        ),
        (
            "removed",
            overrides("/data/none", "remove"),
            ["ApplyOverridesFailed", ""],
            "Unable to remove nonexistent key",
        ),
        (
            "retained",
            json!({"retainReplicas": true, "template": {"spec": {"replicas": 1}}}),
            ["", ""],
            "",
        ),
        (
            "not-the-kind",
            json!({"template": {"data": "text"}}),
            ["UpdateFailed"; 2],
            "Failed to update",
        ),
    ];
    for (name, ..) in &rows {
        host.create(&all, &config_map(name, &everywhere())).await?;
    }
    for (name, ..) in &rows {
        host.until_reason(&format!("{all}/{name}"), None).await;
    }
    for (name, spec, ..) in &rows {
        host.patch(&format!("{all}/{name}"), &json!({"spec": spec}))
            .await?;
    }
    for (name, _, statuses, message) in &rows {
        let path = format!("{all}/{name}");
        let copy = format!("{}/{name}", config_maps(&namespace));
        let wanted: Vec<Value> = (["cluster1", "cluster2"].iter().zip(statuses))
            .map(|(cluster, status)| match *status {
                "" => json!({"name": cluster}),
                status => json!({"name": cluster, "status": status}),
            })
            .collect();
        host.until(&path, |found| {
            let status = &found["status"];
            status["observedGeneration"] == found["metadata"]["generation"]
                && status["clusters"] == json!(wanted)
        })
        .await;
        if !message.is_empty() {
            host.until_event(&namespace, "UpdateInClusterFailed", message)
                .await;
        }
        for member in &members {
            ensure!(member.get(&copy).await?.is_some(), "{name} was deleted");
        }
    }
    templates_and_placements(world, &namespace).await?;
    // All that is wrong is put right.
    for (name, ..) in &rows {
        let path = format!("{all}/{name}");
        let right = json!({"overrides": null, "template": {"data": {"A": "right"}}});
        let mut object = host.until_there(&path).await;
        object["spec"] = right;
        object["spec"]["placement"] = everywhere();
        host.replace(&path, &object).await?;
        for member in &members {
            let copy = format!("{}/{name}", config_maps(&namespace));
            member
                .until(&copy, |copy| copy["data"]["A"] == "right")
                .await;
        }
    }
    Ok(())
}

/// Matches requests of the control plane.
fn own(verb: &str, resource: &str, subresource: &str) -> Matcher {
    Matcher {
        verb: Some(verb.to_owned()),
        resource: Some(resource.to_owned()),
        subresource: Some(subresource.to_owned()),
        agent: Some("hawser/".to_owned()),
        ..Matcher::default()
    }
}

#[tokio::test]
async fn a_member_that_does_not_answer_and_storms_of_conflicts_are_outlived() -> Result<()> {
    let mut world = World::played().await?;
    world.start().await?;
    world.namespace(NAMESPACE).await?;
    let host = world.host().await?;
    let members = [world.member(0).await?, world.member(1).await?];
    let storm = |matcher: Matcher| Fault {
        times: Some(3),
        ..Fault::new(
            matcher,
            Action::Status {
                code: 409,
                when: When::Before,
            },
        )
    };
    let playgrounds = world.playgrounds()?;
    for matcher in [
        own("patch", "federatedconfigmaps", ""),
        own("update", "federatedconfigmaps", "status"),
        own("update", "propagatedversions", "status"),
    ] {
        playgrounds[0].faults().add(storm(matcher));
    }
    playgrounds[1]
        .faults()
        .add(storm(own("update", "configmaps", "")));
    let silence = Action::Latency(Duration::from_hours(1));
    playgrounds[2]
        .faults()
        .add(Fault::new(own("create", "configmaps", ""), silence));

    let all = federated(NAMESPACE, "federatedconfigmaps");
    let (path, copy) = (format!("{all}/m"), format!("{}/m", config_maps(NAMESPACE)));
    host.create(&all, &config_map("m", &everywhere())).await?;
    members[0].until_there(&copy).await;
    let told = host.until_reason(&path, Some("CheckClusters")).await;
    let late = json!([{"name": "cluster1"}, {"name": "cluster2", "status": "CreationTimedOut"}]);
    assert_eq!(told["status"]["clusters"], late);
    let message = "Failed to finish 1 operations in 30s";
    host.until_event(NAMESPACE, "OperationTimeoutError", message)
        .await;
    // It answers again.
    playgrounds[2].faults().clear();
    let changed = json!({"spec": {"template": {"data": {"A": "changed"}}}});
    host.patch(&path, &changed).await?;
    for member in &members {
        member
            .until(&copy, |copy| copy["data"]["A"] == "changed")
            .await;
    }
    host.until_reason(&path, None).await;
    for playground in &playgrounds[..2] {
        let struck = playground.faults().struck();
        ensure!(struck.iter().all(|times| *times > 0), "{struck:?}");
    }
    Ok(())
}

#[tokio::test]
async fn a_change_that_a_pass_learns_of_before_its_event_is_acted_on() -> Result<()> {
    let mut world = World::played().await?;
    let playgrounds = world.playgrounds()?;
    // No event comes before the answers of the pass.
    for (playground, resource) in
        playgrounds
            .iter()
            .zip(["federatedconfigmaps", "configmaps", "configmaps"])
    {
        let late = Action::DelayWatch(Duration::from_secs(4));
        playground
            .faults()
            .add(Fault::new(own("watch", resource, ""), late));
    }
    let slow = Action::Latency(Duration::from_secs(2));
    let status = own("update", "federatedconfigmaps", "status");
    playgrounds[0].faults().add(Fault::new(status, slow).once());
    world.start().await?;
    world.namespace(NAMESPACE).await?;
    let host = world.host().await?;
    let members = [world.member(0).await?, world.member(1).await?];

    let all = federated(NAMESPACE, "federatedconfigmaps");
    let (path, copy) = (format!("{all}/m"), format!("{}/m", config_maps(NAMESPACE)));
    host.create(&all, &config_map("m", &everywhere())).await?;
    for member in &members {
        member.until_there(&copy).await;
    }
    // The pass is about to write the status, and finds another version.
    let fewer = json!({"spec": {"placement":
        {"clusters": [{"name": "cluster1"}], "clusterSelector": null}}});
    host.patch(&path, &fewer).await?;
    members[1].until_gone(&copy).await;
    members[0].until_there(&copy).await;
    host.until(&path, |found| {
        let status = &found["status"];
        status["observedGeneration"] == found["metadata"]["generation"]
            && status["clusters"] == json!([{"name": "cluster1"}])
    })
    .await;
    Ok(())
}

#[tokio::test]
async fn an_object_that_is_nested_too_deeply_is_told_and_loses_no_copy_before_its_end() -> Result<()>
{
    let world = &*World::shared().await?;
    let host = world.host().await?;
    let members = [world.member(0).await?, world.member(1).await?];
    let namespace = testbed::unique("deep");
    world.namespace(&namespace).await?;
    let all = federated(&namespace, "federatedconfigmaps");
    let around = format!(
        "{}/{namespace}",
        federated(&namespace, "federatednamespaces")
    );
    let (path, other) = (format!("{all}/m"), format!("{all}/other"));
    for name in ["m", "other"] {
        host.create(&all, &config_map(name, &everywhere())).await?;
        host.until_reason(&format!("{all}/{name}"), None).await;
    }
    let are_copied = async || -> Result<()> {
        for (member, name) in members
            .iter()
            .flat_map(|member| [(member, "m"), (member, "other")])
        {
            let copy = format!("{}/{name}", config_maps(&namespace));
            ensure!(member.get(&copy).await?.is_some(), "{name} was deleted");
        }
        Ok(())
    };
    let deep = (0..1000).fold(json!("x"), |inner, _| json!({"a": inner}));
    let deep = json!({"spec": {"template": {"deep": deep}}});
    host.send_unread(Call::merge_patch(&*path, &deep)).await?;
    let message = "Failed to compute placement: the object is nested more than 127 levels deep";
    host.until_event(&namespace, "ComputePlacementFailed", message)
        .await;
    eventually(SOON, "its condition", async || -> Result<()> {
        let columns = host.columns(&path).await?;
        let wanted = json!(["m", "False", "ComputePlacementFailed"]);
        ensure!(
            columns
                .as_array()
                .is_some_and(|all| all.starts_with(wanted.as_array().unwrap())),
            "{columns}"
        );
        Ok(())
    })
    .await;
    are_copied().await?;
    // Its namespace is what all objects within depend on.
    host.send_unread(Call::merge_patch(&*around, &deep)).await?;
    host.patch(
        &other,
        &json!({"spec": {"template": {"data": {"A": "new"}}}}),
    )
    .await?;
    host.until_reason(&other, Some("ComputePlacementFailed"))
        .await;
    let message = "Failed to compute placement: FederatedNamespace: the object is nested";
    host.until_event(&namespace, "ComputePlacementFailed", message)
        .await;
    are_copied().await?;
    // Whoever is deleted goes, with its copies.
    for path in [&other, &path, &around] {
        host.send_unread(Call::delete(&**path, &json!({}))).await?;
        host.until_gone(path).await;
    }
    for member in &members {
        let namespace = format!("/api/v1/namespaces/{namespace}");
        member.until_gone(&namespace).await;
    }
    Ok(())
}

/// Templates that are no objects, and a placement on a cluster that nobody knows.
async fn templates_and_placements(world: &World, namespace: &str) -> Result<()> {
    let host = world.host().await?;
    let all = federated(namespace, "federatedconfigmaps");
    let mut object = config_map("text", &everywhere());
    object["spec"]["template"] = "text".into();
    let refused = host.create(&all, &object).await.err();
    let refused = format!("{:#}", refused.context("it was accepted")?);
    ensure!(refused.contains("spec.template"), "{refused}");

    // A definition of somebody else's may let it through.
    let limits = target("", "LimitRange", "limitranges", "Namespaced");
    let schema = "/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties/template";
    world
        .enable_with(&limits, |definition| {
            if let Some(template) = definition.pointer_mut(schema) {
                *template = json!({"x-kubernetes-preserve-unknown-fields": true});
            }
        })
        .await?;
    object["kind"] = "FederatedLimitRange".into();
    let all_limits = federated(namespace, "federatedlimitranges");
    host.create(&all_limits, &object).await?;
    let path = format!("{all_limits}/text");
    let told = host.until_reason(&path, Some("CheckClusters")).await;
    let both = ["cluster1", "cluster2"];
    let failed = both.map(|name| json!({"name": name, "status": "ComputeResourceFailed"}));
    assert_eq!(told["status"]["clusters"], json!(failed));
    let message = "spec.template must be an object, found a string";
    host.until_event(namespace, "CreateInClusterFailed", message)
        .await;
    host.delete(&path).await?;
    host.until_gone(&path).await;

    let mut config = json!({
        "apiVersion": "core.kubefed.io/v1beta1", "kind": "FederatedTypeConfig", "metadata": {"name": namespace},
        "spec": {"targetType": limits, "federatedType": limits, "propagation": "Enabled"},
    });
    config["spec"]["federatedType"]["group"] = "nodots".into();
    host.create(&core("federatedtypeconfigs"), &config).await?;
    let message = "spec.federatedType.group: Invalid value: \"nodots\"";
    host.until_event(SYSTEM, "InvalidTypeConfig", message).await;
    host.delete(&format!("{}/{namespace}", core("federatedtypeconfigs")))
        .await?;

    let elsewhere = config_map("elsewhere", &on(&["cluster1", "nowhere"]));
    host.create(&all, &elsewhere).await?;
    let path = format!("{all}/elsewhere");
    let told = host.until_reason(&path, None).await;
    assert_eq!(told["status"]["clusters"], json!([{"name": "cluster1"}]));
    let message = "clusters that are not registered: nowhere; join them";
    host.until_event(namespace, "UnknownClusters", message)
        .await;
    Ok(())
}
