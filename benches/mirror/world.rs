//! Two clusters with the type that is measured, the mirror between them, and who sees what when.

use std::collections::HashMap;
use std::net::TcpListener;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use futures::StreamExt as _;
use http::Request;
use kube::api::{
    Api, ApiResource, DynamicObject, GroupVersionKind, ListParams, Patch, PatchParams, PostParams,
};
use kube::runtime::WatchStreamExt as _;
use kube::runtime::watcher::{Config, watcher};
use parking_lot::Mutex;
use serde_json::{Value, json};
use testbed::{Launch, Process, ServiceCluster, eventually};
use tokio::sync::Notify;
use tokio::time::{Instant, timeout};
use tokio_util::task::AbortOnDropHandle;

const GROUP: &str = "bench.example.com";
const LATE: Duration = Duration::from_mins(10);

pub(crate) fn millis(time: Duration) -> String {
    format!("{:.1}", time.as_secs_f64() * 1000.0)
}

/// The objects of one cluster.
#[derive(Clone)]
pub(crate) struct Objects {
    pub(crate) api: Api<DynamicObject>,
}

impl Objects {
    fn of(cluster: &ServiceCluster) -> Result<Self> {
        let kind = GroupVersionKind::gvk(GROUP, "v1", "Mission");
        let resource = ApiResource::from_gvk_with_plural(&kind, "missions");
        let client = cluster.admin().client()?;
        Ok(Self {
            api: Api::namespaced_with(client, "default", &resource),
        })
    }

    /// One of 0.6 KB.
    pub(crate) async fn create(&self, name: &str) -> Result<()> {
        const NOTE: &str = "what an operator wants of this mission is written down here";
        let object = json!({
            "apiVersion": format!("{GROUP}/v1"), "kind": "Mission", "metadata": {"name": name},
            "spec": {"count": 0, "notes": vec![NOTE; 7]},
        });
        let object = serde_json::from_value(object)?;
        self.api.create(&PostParams::default(), &object).await?;
        Ok(())
    }

    pub(crate) async fn patch(&self, name: &str, part: &str, patch: &Value) -> Result<()> {
        let (params, patch) = (PatchParams::default(), Patch::Merge(patch));
        match part {
            "" => self.api.patch(name, &params, &patch).await?,
            part => {
                self.api
                    .patch_subresource(part, name, &params, &patch)
                    .await?
            }
        };
        Ok(())
    }
}

/// See the module.
pub(crate) struct World {
    pub(crate) cloud: Objects,
    pub(crate) robot: Objects,
    clusters: [ServiceCluster; 2],
}

impl World {
    pub(crate) async fn start() -> Result<Self> {
        let (cloud, robot) = tokio::try_join!(ServiceCluster::start(), ServiceCluster::start())?;
        let (cloud, robot) = (cloud.single_use(), robot.single_use());
        let open = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
        let crd = json!({
            "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": {
                "name": format!("missions.{GROUP}"),
                "annotations": {"cr-syncer.cloudrobotics.com/spec-source": "cloud"},
            },
            "spec": {
                "group": GROUP, "scope": "Namespaced", "names": {"kind": "Mission", "plural": "missions"},
                "versions": [{
                    "name": "v1", "served": true, "storage": true, "subresources": {"status": {}},
                    "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": open, "status": open}}},
                }],
            },
        });
        for cluster in [&cloud, &robot] {
            cluster
                .install_crd(&serde_json::from_value(crd.clone())?)
                .await?;
        }
        Ok(Self {
            cloud: Objects::of(&cloud)?,
            robot: Objects::of(&robot)?,
            clusters: [cloud, robot],
        })
    }

    pub(crate) fn mirror(&self) -> Result<Mirror> {
        // Somebody else may take the port in between, and the mirror says so then.
        let port = TcpListener::bind("127.0.0.1:0")?.local_addr()?;
        let [cloud, robot] = self
            .clusters
            .each_ref()
            .map(|cluster| cluster.admin().kubeconfig_file());
        let process = Launch::new("mirror", env!("CARGO_BIN_EXE_hawser"))
            .args(["mirror", "--robot-name=r1", "--listen-address"])
            .arg(port.to_string())
            .args(["--remote-kubeconfig".as_ref(), cloud.as_os_str()])
            .args(["--kubeconfig".as_ref(), robot.as_os_str()])
            .spawn()?;
        let pages = kube::Config::new(format!("http://{port}").parse()?);
        Ok(Mirror {
            process,
            pages: kube::Client::try_from(pages)?,
        })
    }

    pub(crate) async fn until_copies(&self, count: usize) -> Result<()> {
        let kind = self.robot.api.clone();
        eventually(LATE, "all are on the robot", async || {
            let some = kind.list_metadata(&ListParams::default().limit(1)).await?;
            let left = some.metadata.remaining_item_count.unwrap_or_default();
            let found = some.items.len() + usize::try_from(left)?;
            ensure!(found == count, "{found} of {count}");
            anyhow::Ok(())
        })
        .await;
        Ok(())
    }
}

/// The process that is measured.
pub(crate) struct Mirror {
    process: Process,
    pages: kube::Client,
}

impl Mirror {
    pub(crate) fn megabytes(&self) -> Result<f64> {
        Ok(self.process.memory()?.rss_bytes as f64 / 1e6)
    }

    /// How many requests it has sent.
    pub(crate) async fn requests(&self) -> Result<u64> {
        self.sum(|_| true).await
    }

    /// How many of them wrote something.
    pub(crate) async fn writes(&self) -> Result<u64> {
        self.sum(|line| !line.contains("method=\"GET\"")).await
    }

    async fn sum(&self, counts: impl Fn(&str) -> bool) -> Result<u64> {
        let text = self
            .pages
            .request_text(Request::get("/metrics").body(Vec::new())?)
            .await?;
        let lines = text
            .lines()
            .filter(|line| line.starts_with("http_client_request_duration_seconds_count"));
        let lines = lines.filter(|line| counts(line));
        let mut sum = 0;
        for line in lines {
            let count = line.rsplit(' ').next().context("a number")?;
            sum += count.parse::<u64>()?;
        }
        Ok(sum)
    }

    pub(crate) async fn stop(self) -> Result<()> {
        let end = self.process.stop(LATE).await?;
        ensure!(end.success(), "it ended by {end}");
        Ok(())
    }
}

/// When the count of each object in a part of it was first seen.
pub(crate) struct Sightings {
    seen: Arc<Seen>,
    _watching: AbortOnDropHandle<()>,
}

#[derive(Default)]
struct Seen {
    times: Mutex<HashMap<(String, u64), Instant>>,
    changed: Notify,
}

impl Sightings {
    pub(crate) fn start(of: &Objects, part: &'static str) -> Self {
        let seen = Arc::<Seen>::default();
        let noted = Arc::clone(&seen);
        let config = Config::default().any_semantic();
        let mut events = watcher(of.api.clone(), config)
            .default_backoff()
            .applied_objects()
            .boxed();
        let watching = tokio::spawn(async move {
            while let Some(event) = events.next().await {
                let Ok(object) = event else { continue };
                let name = object.metadata.name.unwrap_or_default();
                if let Some(count) = object.data[part]["count"].as_u64() {
                    let now = Instant::now();
                    noted.times.lock().entry((name, count)).or_insert(now);
                    noted.changed.notify_waiters();
                }
            }
        });
        Self {
            seen,
            _watching: AbortOnDropHandle::new(watching),
        }
    }

    pub(crate) async fn until(&self, name: &str, count: u64) -> Result<Instant> {
        let key = (name.to_owned(), count);
        let looking = async {
            loop {
                let changed = self.seen.changed.notified();
                let mut changed = std::pin::pin!(changed);
                changed.as_mut().enable();
                if let Some(at) = self.seen.times.lock().get(&key) {
                    return *at;
                }
                changed.await;
            }
        };
        let found = timeout(LATE, looking).await;
        found.with_context(|| format!("{name} never had {count}"))
    }
}
