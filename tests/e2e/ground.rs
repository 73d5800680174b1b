//! The ground that the other tests stand on does what they rely on.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::{env, fs, thread};

use anyhow::{Context as _, Result, bail, ensure};
use futures::{StreamExt as _, TryStreamExt as _};
use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use k8s_openapi::api::rbac::v1::{ClusterRole, Role, RoleBinding};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{
    Api, ApiResource, DeleteParams, DynamicObject, GroupVersionKind, ListParams, Patch,
    PatchParams, PostParams, WatchEvent, WatchParams,
};
use kube::runtime::WatchStreamExt as _;
use kube::runtime::watcher::{self, Event, watcher};
use serde_json::{Value, json};
use testbed::{Component, SOON, ServiceCluster, eventually, unique};
use tokio::sync::mpsc;

/// Set for a test process that another test starts in order to kill it.
const VICTIM: &str = "HAWSER_E2E_VICTIM";

fn typed<T: serde::de::DeserializeOwned>(value: Value) -> T {
    serde_json::from_value(value).expect("the tests write valid objects")
}

/// A definition of `Boat`s in a group of the caller's own.
fn boats(group: &str) -> (CustomResourceDefinition, ApiResource) {
    let crd = typed(json!({
        "metadata": { "name": format!("boats.{group}") },
        "spec": {
            "group": group,
            "scope": "Namespaced",
            "names": { "kind": "Boat", "plural": "boats", "singular": "boat" },
            "versions": [{
                "name": "v1", "served": true, "storage": true,
                "schema": { "openAPIV3Schema": {
                    "type": "object",
                    "properties": { "spec": {
                        "type": "object",
                        "properties": { "masts": { "type": "integer", "minimum": 0 } },
                    } },
                } },
            }],
        },
    }));
    let kind = GroupVersionKind::gvk(group, "v1", "Boat");
    (crd, ApiResource::from_gvk_with_plural(&kind, "boats"))
}

/// Lets a group use boats in one namespace, all but delete them.
async fn let_sail(cluster: &ServiceCluster, namespace: &str, group: &str, who: &str) -> Result<()> {
    let client = cluster.admin().client()?;
    let verbs = ["create", "get", "list", "watch", "patch"];
    let role: Role = typed(json!({
        "metadata": { "name": "sailor" },
        "rules": [{ "apiGroups": [group], "resources": ["boats"], "verbs": verbs }],
    }));
    let binding: RoleBinding = typed(json!({
        "metadata": { "name": "sailor" },
        "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "sailor" },
        "subjects": [{ "apiGroup": "rbac.authorization.k8s.io", "kind": "Group", "name": who }],
    }));
    let params = PostParams::default();
    Api::namespaced(client.clone(), namespace)
        .create(&params, &role)
        .await?;
    Api::namespaced(client, namespace)
        .create(&params, &binding)
        .await?;
    Ok(())
}

#[tokio::test]
async fn a_user_bound_by_rbac_creates_patches_and_watches_and_is_refused_the_rest() -> Result<()> {
    let cluster = ServiceCluster::shared().await?;
    let group = format!("{}.example.org", unique("rbac"));
    let (crd, resource) = boats(&group);
    cluster.install_crd(&crd).await?;
    let (harbour, elsewhere) = (
        cluster.namespace("harbour").await?,
        cluster.namespace("elsewhere").await?,
    );
    let crew = unique("crew");
    let_sail(cluster, &harbour, &group, &crew).await?;

    // The binding is on the second of three groups: all of them reach the server.
    let client = cluster
        .user("anna", &["friends", &crew, "guests"])?
        .client()?;
    let boats: Api<DynamicObject> = Api::namespaced_with(client.clone(), &harbour, &resource);
    let start = eventually(SOON, "the binding is in force", async || {
        boats.list(&ListParams::default()).await
    })
    .await;
    let version = start.metadata.resource_version.unwrap_or_default();

    let boat = DynamicObject::new("ketch", &resource).data(json!({ "spec": { "masts": 1 } }));
    boats.create(&PostParams::default(), &boat).await?;
    let patch = Patch::Merge(json!({ "spec": { "masts": 2 } }));
    boats
        .patch("ketch", &PatchParams::default(), &patch)
        .await?;

    let events = boats
        .watch(&WatchParams::default(), &version)
        .await?
        .take(2);
    let seen: Vec<_> = tokio::time::timeout(SOON, events.try_collect()).await??;
    let masts: Vec<_> = seen
        .iter()
        .map(|event| match event {
            WatchEvent::Added(boat) => ("added", boat.data["spec"]["masts"].clone()),
            WatchEvent::Modified(boat) => ("modified", boat.data["spec"]["masts"].clone()),
            other => panic!("unexpected: {other:?}"),
        })
        .collect();
    assert_eq!(masts, [("added", json!(1)), ("modified", json!(2))]);

    let invalid = Patch::Merge(json!({ "spec": { "masts": -1 } }));
    let error = boats
        .patch("ketch", &PatchParams::default(), &invalid)
        .await
        .unwrap_err();
    assert_eq!(code(&error), 422, "{error}");
    let error = boats
        .delete("ketch", &DeleteParams::default())
        .await
        .unwrap_err();
    assert_eq!(code(&error), 403, "{error}");
    let other: Api<DynamicObject> = Api::namespaced_with(client.clone(), &elsewhere, &resource);
    assert_eq!(
        code(&other.list(&ListParams::default()).await.unwrap_err()),
        403
    );
    let maps: Api<ConfigMap> = Api::namespaced(client, &harbour);
    assert_eq!(
        code(&maps.list(&ListParams::default()).await.unwrap_err()),
        403
    );

    let stranger = cluster.user("anna", &["friends"])?.client()?;
    let boats: Api<DynamicObject> = Api::namespaced_with(stranger, &harbour, &resource);
    assert_eq!(code(&boats.get("ketch").await.unwrap_err()), 403);
    Ok(())
}

fn code(error: &kube::Error) -> u16 {
    match error {
        kube::Error::Api(status) => status.code,
        _ => 0,
    }
}

/// A config map's name and its counter.
type Entry = (String, String);

/// Hands on what a watcher sees: an object, a deletion, or the beginning of a new list.
enum Seen {
    Object(Entry),
    Deleted(String),
    Relist,
}

fn watch_all(maps: Api<ConfigMap>) -> mpsc::UnboundedReceiver<Seen> {
    let (send, receive) = mpsc::unbounded_channel();
    tokio::spawn(async move {
        let mut events = watcher(maps, watcher::Config::default())
            .default_backoff()
            .boxed();
        while let Some(event) = events.next().await {
            // The watcher says that it lost its connection, and tries again.
            let Ok(event) = event else { continue };
            let seen = match event {
                Event::Init => Seen::Relist,
                Event::InitDone => continue,
                Event::Delete(map) => Seen::Deleted(map.metadata.name.unwrap_or_default()),
                Event::Apply(map) | Event::InitApply(map) => Seen::Object(entry(map)),
            };
            if send.send(seen).is_err() {
                break;
            }
        }
    });
    receive
}

fn entry(map: ConfigMap) -> Entry {
    let count = map
        .data
        .unwrap_or_default()
        .remove("count")
        .unwrap_or_default();
    (map.metadata.name.unwrap_or_default(), count)
}

/// Creates, updates and sometimes deletes objects, for as long as it takes to have a write answered
/// after the server's return, and returns every name whose create was answered.
async fn write_through(
    maps: Api<ConfigMap>,
    from: usize,
    count: usize,
) -> Result<BTreeSet<String>> {
    let mut created = BTreeSet::new();
    for number in from..from + count {
        let name = format!("map-{number}");
        let map: ConfigMap =
            typed(json!({ "metadata": { "name": &name }, "data": { "count": "1" } }));
        eventually(SOON, "the object is created", async || {
            match maps.create(&PostParams::default(), &map).await {
                Ok(_) => Ok(()),
                // An earlier try came through, only its answer did not.
                Err(error) if code(&error) == 409 => Ok(()),
                Err(error) => Err(error),
            }
        })
        .await;
        created.insert(name.clone());
        if number % 3 == 0 {
            let patch = Patch::Merge(json!({ "data": { "count": "2" } }));
            eventually(SOON, "the object is patched", async || {
                maps.patch(&name, &PatchParams::default(), &patch).await
            })
            .await;
        }
        if number % 5 == 0 {
            eventually(SOON, "the object is deleted", async || {
                match maps.delete(&name, &DeleteParams::default()).await {
                    Ok(_) => Ok(()),
                    Err(error) if code(&error) == 404 => Ok(()),
                    Err(error) => Err(error),
                }
            })
            .await;
        }
    }
    Ok(created)
}

#[tokio::test]
async fn a_live_watcher_loses_nothing_when_kube_apiserver_is_killed_and_restarted() -> Result<()> {
    let mut cluster = ServiceCluster::start().await?;
    let namespace = cluster.namespace("watched").await?;
    let maps: Api<ConfigMap> = Api::namespaced(cluster.admin().client()?, &namespace);
    let mut seen = watch_all(Api::namespaced(cluster.admin().client()?, &namespace));

    let mut created = write_through(maps.clone(), 0, 30).await?;
    // This writer is in the middle of its work when the server dies, and ends after its return.
    let writer = write_through(maps.clone(), 30, 200);
    let killer = async {
        eventually(SOON, "the writer is at work", async || {
            maps.get("map-41").await.map(drop)
        })
        .await;
        let exit = cluster.kill(Component::ApiServer).await?;
        assert_eq!(exit.reason, testbed::process::Reason::Signal(9));
        assert!(maps.get("map-1").await.is_err(), "the server is down");
        cluster.restart(Component::ApiServer).await
    };
    let (written, ()) = tokio::try_join!(writer, killer)?;
    created.extend(written);

    let wanted: BTreeMap<String, String> = maps
        .list(&ListParams::default())
        .await?
        .into_iter()
        .map(entry)
        .collect();
    assert!(wanted.len() > 150 && created.len() == 230);

    let mut view = BTreeMap::new();
    let mut ever = BTreeSet::new();
    let mut deleted = BTreeSet::new();
    let mut relists = 0;
    let caught_up = async {
        while view != wanted {
            match seen.recv().await.context("the watcher ended")? {
                Seen::Object((name, count)) => {
                    ever.insert(name.clone());
                    view.insert(name, count);
                }
                Seen::Deleted(name) => {
                    view.remove(&name);
                    deleted.insert(name);
                }
                Seen::Relist => {
                    relists += 1;
                    view.clear();
                }
            }
        }
        anyhow::Ok(())
    };
    match tokio::time::timeout(SOON, caught_up).await {
        Ok(ended) => ended?,
        Err(_) => bail!(
            "the watcher saw {} of {} objects",
            ever.len(),
            created.len()
        ),
    }
    // Only an object that came and went between two lists may have been missed.
    let missed: Vec<_> = created.difference(&ever).collect();
    assert!(
        missed.iter().all(|name| !wanted.contains_key(*name)),
        "{missed:?}"
    );
    assert!(
        relists > 1 || missed.is_empty(),
        "{missed:?} without a new list"
    );
    assert!(!deleted.is_empty());
    Ok(())
}

#[tokio::test]
async fn a_cluster_that_a_test_leaves_is_empty_for_the_next_one() -> Result<()> {
    // No other test has this option.
    let options = testbed::Options {
        api_server_args: vec!["--max-requests-inflight=401".to_owned()],
        ..testbed::Options::default()
    };
    let group = format!("{}.example.org", unique("left"));
    let (crd, resource) = boats(&group);
    let mut directories = BTreeSet::new();
    for _ in 0..3 {
        let cluster = ServiceCluster::start_with(options.clone()).await?;
        directories.insert(cluster.directory().to_owned());
        let client = cluster.admin().client()?;
        let namespaces: Api<Namespace> = Api::all(client.clone());
        let before = namespaces.list(&ListParams::default()).await?;
        let names = before.iter().filter_map(|one| one.metadata.name.as_deref());
        let own = ["default", "kube-node-lease", "kube-public", "kube-system"];
        assert_eq!(names.collect::<Vec<_>>(), own);
        let default = namespaces.get("default").await?;
        assert!(
            !default
                .metadata
                .labels
                .unwrap_or_default()
                .contains_key("left")
        );
        let roles: Api<ClusterRole> = Api::all(client.clone());
        assert!(roles.get_opt("left").await?.is_none());
        roles.get("view").await?;

        cluster.install_crd(&crd).await?;
        let boats: Api<DynamicObject> = Api::namespaced_with(client.clone(), "default", &resource);
        assert!(boats.list(&ListParams::default()).await?.items.is_empty());
        let boat = DynamicObject::new("ketch", &resource).data(json!({ "spec": { "masts": 1 } }));
        boats.create(&PostParams::default(), &boat).await?;
        cluster.namespace("left").await?;
        let role: ClusterRole = typed(json!({ "metadata": { "name": "left" } }));
        roles.create(&PostParams::default(), &role).await?;
        roles.delete("view", &DeleteParams::default()).await?;
        let label = Patch::Merge(json!({ "metadata": { "labels": { "left": "here" } } }));
        namespaces
            .patch("default", &PatchParams::default(), &label)
            .await?;
    }
    assert_eq!(directories.len(), 1, "it is the same cluster");
    let mut cluster = ServiceCluster::start_with(options.clone()).await?;
    cluster.restart(Component::ApiServer).await?;
    drop(cluster);
    let cluster = ServiceCluster::start_with(options).await?;
    assert!(
        !directories.contains(cluster.directory()),
        "it was disturbed"
    );
    Ok(())
}

#[tokio::test]
async fn etcd_killed_and_restarted_keeps_what_was_written() -> Result<()> {
    let mut cluster = ServiceCluster::start().await?;
    let namespace = cluster.namespace("kept").await?;
    let maps: Api<ConfigMap> = Api::namespaced(cluster.admin().client()?, &namespace);
    write_through(maps.clone(), 1, 1).await?;
    cluster.kill(Component::Etcd).await?;
    cluster.restart(Component::Etcd).await?;
    eventually(SOON, "the object is still there", async || {
        maps.get("map-1").await
    })
    .await;
    write_through(maps, 2, 1).await?;
    Ok(())
}

/// A chart with one config map, for clusters of some versions.
fn chart(dir: &Path, kube_version: &str) -> Result<()> {
    fs::create_dir_all(dir.join("templates"))?;
    fs::write(
        dir.join("Chart.yaml"),
        format!("apiVersion: v2\nname: tiny\nversion: 0.1.0\nkubeVersion: '{kube_version}'\n"),
    )?;
    fs::write(
        dir.join("templates/map.yaml"),
        "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: {{ .Release.Name }}\n\
         data:\n  greeting: {{ .Values.greeting | quote }}\n  \
         version: {{ .Capabilities.KubeVersion.Version | quote }}\n",
    )?;
    Ok(())
}

#[tokio::test]
async fn helm_installs_and_removes_a_chart_that_names_the_versions_it_is_for() -> Result<()> {
    let cluster = ServiceCluster::shared().await?;
    let namespace = cluster.namespace("chart").await?;
    let dir = tempfile::tempdir()?;
    let (fits, too_new) = (dir.path().join("fits"), dir.path().join("too-new"));
    chart(&fits, ">= 1.33.0 < 2.0.0")?;
    chart(&too_new, ">= 99.0.0")?;
    let (fits, too_new) = (fits.display().to_string(), too_new.display().to_string());
    let admin = cluster.admin();
    let maps: Api<ConfigMap> = Api::namespaced(admin.client()?, &namespace);

    let options = [
        "--namespace",
        &namespace,
        "--set",
        "greeting=ahoy",
        "--wait",
    ];
    admin
        .helm(&[&["install", "first", &fits], &options[..]].concat())
        .await?;
    let data = maps.get("first").await?.data.unwrap_or_default();
    assert_eq!(data["greeting"], "ahoy");
    let version = admin.client()?.apiserver_version().await?;
    assert_eq!(data["version"], version.git_version);

    let refused = admin
        .helm(&[&["install", "second", &too_new], &options[..]].concat())
        .await;
    let error = refused.unwrap_err().to_string();
    assert!(error.contains("incompatible with Kubernetes"), "{error}");

    admin
        .helm(&["uninstall", "first", "--namespace", &namespace, "--wait"])
        .await?;
    assert!(maps.get_opt("first").await?.is_none());
    Ok(())
}

#[tokio::test]
async fn kubectl_and_the_server_are_of_one_version() -> Result<()> {
    let cluster = ServiceCluster::shared().await?;
    let versions: Value = serde_json::from_str(
        &cluster
            .user("anna", &[])?
            .kubectl(&["version", "--output=json"])
            .await?,
    )?;
    let (client, server) = (&versions["clientVersion"], &versions["serverVersion"]);
    assert_eq!(client["gitVersion"], server["gitVersion"], "{versions}");
    Ok(())
}

#[tokio::test]
async fn controllers_empty_a_deleted_namespace_where_they_run() -> Result<()> {
    let options = testbed::Options {
        controllers: testbed::cluster::Controllers::All,
        ..testbed::Options::default()
    };
    let cluster = ServiceCluster::start_with(options).await?;
    let name = cluster.namespace("sinking").await?;
    cluster
        .admin()
        .kubectl(&["delete", "namespace", &name, "--wait=false"])
        .await?;
    let all: Api<k8s_openapi::api::core::v1::Namespace> = Api::all(cluster.admin().client()?);
    eventually(SOON, "the namespace is gone", async || {
        match all.get_opt(&name).await? {
            Some(_) => bail!("it is still there"),
            None => Ok(()),
        }
    })
    .await;
    Ok(())
}

#[tokio::test]
async fn a_test_process_that_is_killed_leaves_no_server_behind() -> Result<()> {
    const OWN_NAME: &str = "ground::a_test_process_that_is_killed_leaves_no_server_behind";
    if env::var_os(VICTIM).is_some() {
        return be_the_victim().await;
    }
    let mut victim = Command::new(env::current_exe()?)
        .args(["--exact", OWN_NAME, "--nocapture"])
        .env(VICTIM, "1")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()?;
    let output = BufReader::new(victim.stdout.take().context("no output")?);
    let directory = output.lines().map_while(Result::ok).find_map(|line| {
        line.split_once("cluster in ")
            .map(|(_, directory)| directory.to_owned())
    });
    let running = directory
        .as_deref()
        .map(testbed::process::is_running)
        .transpose();
    victim.kill()?;
    victim.wait()?;
    let directory = directory.context("the victim said nothing")?;
    assert_eq!(running?, Some(true));
    eventually(SOON, "its servers are gone", async || {
        ensure!(
            !testbed::process::is_running(&directory)?,
            "servers still run in {directory}"
        );
        Ok(())
    })
    .await;
    Ok(())
}

/// Starts a cluster, says where, and waits to be killed.
async fn be_the_victim() -> Result<()> {
    let cluster = ServiceCluster::start().await?;
    #[expect(clippy::print_stdout, reason = "the parent reads it")]
    {
        println!("\ncluster in {}", cluster.directory().display());
    }
    loop {
        thread::park();
    }
}
