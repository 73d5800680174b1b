//! The floor: the same writes as an agent, in the same order, with as many under way, and nothing
//! else. It knows no rules, no conflicts, no deletions and no crash; it keeps hashes, not objects.

use std::collections::{HashMap, HashSet};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::Arc;

use anyhow::{Context as _, Result};
use futures::StreamExt as _;
use kube::api::{Api, ApiResource, DynamicObject, GroupVersionKind};
use kube::runtime::watcher::{Config, Event, watcher};
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::sync::{Semaphore, mpsc};

use super::plane::{GROUP, NAMESPACE, Plane, within};

/// The argument that makes the benchmark be the floor.
pub(crate) const WORD: &str = "floor";
/// What it says once there is nothing more to do.
pub(crate) const IN_STEP: &str = "in step";
const IN_FLIGHT: usize = 32;
const MARK: &str = "syncagent.kcp.io/remote-object";

#[derive(Default)]
struct Known {
    spec: Option<u64>,
    status: u64,
}

type Place = (String, String);
type Entry = Arc<tokio::sync::Mutex<Known>>;

struct Floor {
    /// Of all workspaces: they are below it.
    kcp: Plane,
    service: Plane,
    turns: [Semaphore; 2],
    entries: Mutex<HashMap<Place, Entry>>,
    namespaces: tokio::sync::Mutex<HashSet<String>>,
}

pub(crate) async fn run(args: &[String]) -> Result<()> {
    let [kcp, service, endpoint] = args else {
        anyhow::bail!("floor KUBECONFIG KUBECONFIG ENDPOINT");
    };
    let plane = async |file: &str, url: Option<&str>| -> Result<Plane> {
        let mut found: Value = serde_saphyr::from_str(&std::fs::read_to_string(file)?)?;
        if let Some(url) = url {
            found["clusters"][0]["cluster"]["server"] = url.into();
        }
        Plane::of(&found).await
    };
    let floor = Arc::new(Floor {
        kcp: plane(kcp, Some(endpoint)).await?,
        service: plane(service, None).await?,
        turns: [Semaphore::new(IN_FLIGHT), Semaphore::new(IN_FLIGHT)],
        entries: Mutex::default(),
        namespaces: tokio::sync::Mutex::default(),
    });
    let everywhere = plane(kcp, Some(&format!("{endpoint}/clusters/*"))).await?;
    let (done, mut finished) = mpsc::unbounded_channel();
    let mut copies = events(&floor.service).boxed();
    while let Some(event) = copies.next().await {
        match event.context("the first list of copies")? {
            Event::InitApply(copy) => floor.adopt(&copy).await,
            Event::InitDone => break,
            _ => {}
        }
    }
    let mut sources = events(&everywhere).boxed();
    let (mut open, mut complete) = (0_usize, false);
    loop {
        let task = tokio::select! {
            event = sources.next() => match event.context("the watch ended")? {
                Ok(Event::Apply(source) | Event::InitApply(source)) => Some((source, true)),
                Ok(Event::InitDone) => { complete = true; None }
                _ => None,
            },
            event = copies.next() => match event.context("the watch ended")? {
                Ok(Event::Apply(copy)) => Some((copy, false)),
                _ => None,
            },
            _ = finished.recv() => { open -= 1; None }
        };
        if let Some((object, is_source)) = task {
            open += 1;
            let (floor, done) = (Arc::clone(&floor), done.clone());
            tokio::spawn(async move {
                let tried = if is_source {
                    floor.source(&object).await
                } else {
                    floor.copy(&object).await
                };
                if let Err(error) = tried {
                    println!("{error:#}");
                }
                let _ = done.send(());
            });
        } else if complete && open == 0 {
            println!("{IN_STEP}");
            complete = false;
        }
    }
}

fn events(
    plane: &Plane,
) -> impl futures::Stream<Item = kube::runtime::watcher::Result<Event<DynamicObject>>> + use<> {
    let kind = GroupVersionKind::gvk(GROUP, "v1", "Gadget");
    let resource = ApiResource::from_gvk_with_plural(&kind, "gadgets");
    watcher(
        Api::all_with(plane.client.clone(), &resource),
        Config::default(),
    )
}

fn hash(value: &Value) -> u64 {
    let mut hasher = DefaultHasher::new();
    value.to_string().hash(&mut hasher);
    hasher.finish()
}

fn text<'m>(map: Option<&'m std::collections::BTreeMap<String, String>>, key: &str) -> &'m str {
    map.and_then(|map| map.get(key)).map_or("", String::as_str)
}

/// The workspace and the name that a copy is of.
fn origin(copy: &DynamicObject) -> Place {
    let cluster = text(copy.metadata.labels.as_ref(), &format!("{MARK}-cluster"));
    let name = text(copy.metadata.annotations.as_ref(), &format!("{MARK}-name"));
    (cluster.to_owned(), name.to_owned())
}

impl Floor {
    fn entry(&self, place: Place) -> Entry {
        Arc::clone(self.entries.lock().entry(place).or_default())
    }

    async fn adopt(&self, copy: &DynamicObject) {
        let entry = self.entry(origin(copy));
        let mut known = entry.lock().await;
        known.spec = Some(hash(&copy.data["spec"]));
        known.status = hash(&copy.data["status"]);
    }

    async fn write(&self, side: usize, method: &str, path: &str, body: Value) -> Result<()> {
        let plane = [&self.kcp, &self.service][side];
        let _turn = self.turns[side].acquire().await?;
        let written = plane.ask(method, path, Some(&body)).await;
        written
            .map(drop)
            .with_context(|| format!("{method} {path}"))
    }

    async fn source(&self, source: &DynamicObject) -> Result<()> {
        let meta = &source.metadata;
        let cluster = text(meta.annotations.as_ref(), "kcp.io/cluster").to_owned();
        let name = meta.name.clone().unwrap_or_default();
        let entry = self.entry((cluster.clone(), name.clone()));
        let mut known = entry.lock().await;
        let (spec, fresh) = (&source.data["spec"], hash(&source.data["spec"]));
        if known.spec.replace(fresh) == Some(fresh) {
            return Ok(());
        }
        let state = json!({"apiVersion": "v1", "kind": "Secret",
            "metadata": {"name": format!("floor-{cluster}-{name}"), "labels": {"floor": "yes"}},
            "stringData": {"state": json!({"metadata": {"name": name}, "spec": spec}).to_string()}});
        let secrets = format!("/api/v1/namespaces/{NAMESPACE}/secrets");
        let copies = within(&cluster);
        if meta.finalizers.is_none() {
            let patch = json!({"metadata": {"finalizers": ["example.com/floor"], "resourceVersion": meta.resource_version}});
            let path = format!("/clusters/{cluster}{}/{name}", within("default"));
            self.write(0, "PATCH", &path, patch).await?;
            let mut namespaces = self.namespaces.lock().await;
            if namespaces.insert(cluster.clone()) {
                let object =
                    json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": cluster}});
                // It may be there from before.
                let _ = self.write(1, "POST", "/api/v1/namespaces", object).await;
            }
            drop(namespaces);
            self.write(1, "POST", &secrets, state).await?;
            let copy = json!({"apiVersion": format!("{GROUP}/v1"), "kind": "Gadget", "spec": spec, "metadata": {"name": name,
                "labels": {format!("{MARK}-cluster"): cluster, "syncagent.kcp.io/agent-name": "floor"},
                "annotations": {format!("{MARK}-name"): name}}});
            return self.write(1, "POST", &copies, copy).await;
        }
        self.write(
            1,
            "PATCH",
            &format!("{copies}/{name}"),
            json!({"spec": spec}),
        )
        .await?;
        let secret = format!("{secrets}/floor-{cluster}-{name}");
        self.write(1, "PATCH", &secret, state).await
    }

    async fn copy(&self, copy: &DynamicObject) -> Result<()> {
        let (cluster, name) = origin(copy);
        let entry = self.entry((cluster.clone(), name.clone()));
        let mut known = entry.lock().await;
        let (status, fresh) = (&copy.data["status"], hash(&copy.data["status"]));
        if std::mem::replace(&mut known.status, fresh) == fresh || status.is_null() {
            return Ok(());
        }
        let path = format!("/clusters/{cluster}{}", within("default"));
        let patch = json!({"status": status});
        self.write(0, "PATCH", &format!("{path}/{name}/status"), patch)
            .await
    }
}
