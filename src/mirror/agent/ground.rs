//! What tests of the mirror stand on: a cloud and a robot in process, and a mirror between them.

use std::sync::Arc;
use std::time::Duration;

use http::Method;
use kube::config::{KubeConfigOptions, Kubeconfig};
use serde_json::{Value, json};
use tokio::task::JoinHandle;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use super::explain::MirrorExplainer;
use super::following::CrdController;
use super::numbers::MirrorMetrics;
use super::planes::{MirrorConnections, PlaneConfig};
use super::syncer::{SyncerConfig, WORKERS};
use crate::mirror::definition::{Plane, SPEC_SOURCE, Settings};
use hawser_runtime::cluster::brake::BrakeOptions;
use hawser_runtime::cluster::connection::{Call, Connection, Limits, WriteGuard};
use hawser_runtime::cluster::feed::Pace;
use hawser_runtime::process::lease::Fence;
use kcp_playground::Playground;
use kcp_playground::PlaygroundOptions;
use kcp_playground::server::{Action, Fault, LoggedRequest, Matcher};
use kube_lang::object::merge_patch;

pub(super) const CLOUD: Plane = Plane::Cloud;
pub(super) const ROBOT: Plane = Plane::Robot;
pub(super) const CRDS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
pub(super) const MISSIONS: &str = "/apis/example.com/v1/namespaces/default/missions";
const SOON: Duration = Duration::from_mins(1);

/// Between two looks: whoever looks without end takes the time from what is looked at.
pub(super) async fn pause() {
    tokio::time::sleep(Duration::from_millis(10)).await;
}

/// Two clusters without a mirror.
pub(super) struct Clusters {
    pub(super) cloud: Playground,
    pub(super) robot: Playground,
    to_cloud: Connection,
    to_robot: Connection,
}

/// A mirror at work.
pub(super) struct Mirror {
    pub(super) following: Arc<CrdController>,
    pub(super) numbers: Arc<MirrorMetrics>,
    stop: CancellationToken,
    running: JoinHandle<()>,
}

async fn config(kubeconfig: Value) -> kube::Config {
    let kubeconfig: Kubeconfig = serde_json::from_value(kubeconfig).unwrap();
    let options = KubeConfigOptions::default();
    kube::Config::from_custom_kubeconfig(kubeconfig, &options)
        .await
        .unwrap()
}

/// The definition of missions, with a status as a subresource or not.
pub(super) fn missions(status: bool, annotations: &Value) -> Value {
    let mut all = json!({SPEC_SOURCE: "cloud"});
    merge_patch::apply(&mut all, annotations);
    let open = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    let mut version = json!({
        "name": "v1", "served": true, "storage": true,
        "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": open, "status": open}}},
    });
    if status {
        version["subresources"] = json!({"status": {}});
    }
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "missions.example.com", "annotations": all},
        "spec": {
            "group": "example.com", "scope": "Namespaced",
            "names": {"plural": "missions", "singular": "mission", "kind": "Mission"},
            "versions": [version],
        },
    })
}

impl Clusters {
    pub(super) async fn start() -> Self {
        let start = async || {
            // Hours go by at once in some of the tests, for everybody.
            let options = PlaygroundOptions {
                own_threads: false,
                ..PlaygroundOptions::default()
            };
            Playground::start_with(options).await.unwrap()
        };
        let (cloud, robot) = (start().await, start().await);
        let connect = |config| Connection::new(config, Limits::default()).unwrap();
        Self {
            to_cloud: connect(config(cloud.service_kubeconfig()).await),
            to_robot: connect(config(robot.service_kubeconfig()).await),
            cloud,
            robot,
        }
    }

    /// With the definition of missions in both of them.
    pub(super) async fn with(status: bool, annotations: &Value) -> Self {
        let clusters = Self::start().await;
        for plane in [CLOUD, ROBOT] {
            clusters.define(plane, &missions(status, annotations)).await;
        }
        clusters
    }

    pub(super) fn at(&self, plane: Plane) -> &Connection {
        match plane {
            Plane::Cloud => &self.to_cloud,
            Plane::Robot => &self.to_robot,
        }
    }

    /// The administrator's way to a cluster.
    pub(super) async fn client(&self, plane: Plane) -> kube::Client {
        let kubeconfig = self.playground(plane).service_kubeconfig();
        kube::Client::try_from(config(kubeconfig).await).unwrap()
    }

    pub(super) fn playground(&self, plane: Plane) -> &Playground {
        match plane {
            Plane::Cloud => &self.cloud,
            Plane::Robot => &self.robot,
        }
    }

    /// Makes a definition and waits until it is served.
    pub(super) async fn define(&self, plane: Plane, crd: &Value) {
        self.at(plane).ask(Call::post(CRDS, crd)).await.unwrap();
        let name = crd["metadata"]["name"].as_str().unwrap();
        self.until_at(plane, &format!("{CRDS}/{name}"), |crd| {
            let conditions = crd["status"]["conditions"].as_array();
            conditions.is_some_and(|all| {
                all.iter()
                    .any(|c| c["type"] == "Established" && c["status"] == "True")
            })
        })
        .await;
    }

    pub(super) async fn mirror(&self, settings: Settings) -> Mirror {
        self.mirror_in(settings, syncer_config()).await
    }

    pub(super) async fn mirror_in(
        &self,
        settings: Settings,
        syncer_config: SyncerConfig,
    ) -> Mirror {
        let stop = CancellationToken::new();
        let (following, numbers) = self.following(settings, syncer_config, stop.clone()).await;
        let running = Arc::clone(&following).run(|| {});
        Mirror {
            following,
            numbers,
            stop,
            running: tokio::spawn(running),
        }
    }

    /// A mirror that is not at work yet.
    pub(super) async fn following(
        &self,
        settings: Settings,
        config_of_syncers: SyncerConfig,
        stop: CancellationToken,
    ) -> (Arc<CrdController>, Arc<MirrorMetrics>) {
        let numbers = MirrorMetrics::new();
        let planes = self.planes(&numbers, None).await;
        let following = CrdController::new(&planes, &numbers, settings, config_of_syncers, stop);
        (following, numbers)
    }

    async fn planes(
        &self,
        numbers: &Arc<MirrorMetrics>,
        guard: Option<Arc<WriteGuard>>,
    ) -> MirrorConnections {
        let ends = PlaneConfig {
            cloud: config(self.cloud.service_kubeconfig()).await,
            robot: config(self.robot.service_kubeconfig()).await,
            in_flight: 32,
            per_second: None,
            traces: false,
            guard,
        };
        let planes = MirrorConnections::connect(ends, numbers).unwrap();
        planes.link.admit();
        planes
    }

    /// What explains the objects.
    pub(super) async fn explainer(&self, settings: Settings) -> MirrorExplainer {
        let numbers = MirrorMetrics::new();
        let planes = self.planes(&numbers, Some(Fence::closed().guard())).await;
        let config = syncer_config();
        let explainer = MirrorExplainer::over(planes, &numbers, settings, config, Vec::new());
        explainer.await.unwrap()
    }

    /// Puts an object there, with this added to what every mission has.
    pub(super) async fn create(&self, plane: Plane, name: &str, more: &Value) -> Value {
        self.create_in(plane, MISSIONS, name, more).await
    }

    pub(super) async fn create_in(
        &self,
        plane: Plane,
        collection: &str,
        name: &str,
        more: &Value,
    ) -> Value {
        let mut object = json!({
            "apiVersion": "example.com/v1", "kind": "Mission", "metadata": {"name": name},
            "spec": {"goal": 1},
        });
        merge_patch::apply(&mut object, more);
        let call = Call::post(collection, &object);
        self.at(plane).ask(call).await.unwrap()
    }

    pub(super) async fn patch(&self, plane: Plane, name: &str, patch: &Value) -> Value {
        let call = Call::merge_patch(format!("{MISSIONS}/{name}"), patch);
        self.at(plane).ask(call).await.unwrap()
    }

    pub(super) async fn patch_status(&self, plane: Plane, name: &str, status: &Value) {
        let path = format!("{MISSIONS}/{name}/status");
        let call = Call::merge_patch(path, &json!({"status": status}));
        self.at(plane).ask(call).await.unwrap();
    }

    pub(super) async fn annotate_definition(&self, plane: Plane, annotations: &Value) {
        let path = format!("{CRDS}/missions.example.com");
        let patch = json!({"metadata": {"annotations": annotations}});
        self.at(plane)
            .ask(Call::merge_patch(path, &patch))
            .await
            .unwrap();
    }

    pub(super) async fn delete(&self, plane: Plane, name: &str) {
        self.delete_at(plane, &format!("{MISSIONS}/{name}")).await;
    }

    pub(super) async fn delete_at(&self, plane: Plane, path: &str) {
        let call = Call {
            method: Method::DELETE,
            ..Call::get(path)
        };
        self.at(plane).ask(call).await.unwrap();
    }

    pub(super) async fn get(&self, plane: Plane, name: &str) -> Option<Value> {
        let call = Call::get(format!("{MISSIONS}/{name}"));
        let reply = self.at(plane).call(call).await.unwrap();
        (reply.status != 404).then(|| reply.ok().unwrap())
    }

    /// Asks until the answer fits.
    pub(super) async fn until(
        &self,
        plane: Plane,
        name: &str,
        fits: impl Fn(&Value) -> bool,
    ) -> Value {
        self.until_at(plane, &format!("{MISSIONS}/{name}"), fits)
            .await
    }

    pub(super) async fn until_at(
        &self,
        plane: Plane,
        path: &str,
        fits: impl Fn(&Value) -> bool,
    ) -> Value {
        let mut last = Value::Null;
        let asking = async {
            loop {
                if let Ok(found) = self.at(plane).ask(Call::get(path)).await {
                    if fits(&found) {
                        return found;
                    }
                    last = found;
                }
                pause().await;
            }
        };
        let found = timeout(SOON, asking).await;
        found.unwrap_or_else(|_| panic!("{path} of the {plane:?} stays {last:#}"))
    }

    pub(super) async fn until_gone(&self, plane: Plane, name: &str) {
        let asking = async {
            while self.get(plane, name).await.is_some() {
                pause().await;
            }
        };
        timeout(SOON, asking).await.expect("it goes");
    }

    /// Waits until the mirror has sent something.
    pub(super) async fn until_sent(
        &self,
        plane: Plane,
        mark: u64,
        fits: impl Fn(&LoggedRequest) -> bool,
    ) {
        let looking = async {
            while !self.sent(plane, mark).iter().any(&fits) {
                pause().await;
            }
        };
        timeout(SOON, looking).await.expect("it is sent");
    }

    pub(super) fn mark(&self, plane: Plane) -> u64 {
        self.playground(plane).requests().mark()
    }

    /// What the mirror sent since a mark.
    pub(super) fn sent(&self, plane: Plane, mark: u64) -> Vec<LoggedRequest> {
        let mut all = self.playground(plane).requests().since(mark);
        all.retain(|request| request.user_agent.starts_with("cr-syncer/"));
        all
    }

    /// What the mirror wrote since a mark, such as `update missions/status a 200`.
    pub(super) fn written(&self, plane: Plane, mark: u64) -> Vec<String> {
        let all = self.sent(plane, mark).into_iter();
        let writes = all.filter(|request| !["list", "watch", "get"].contains(&&*request.verb));
        writes
            .map(|request| {
                let part = match request.subresource.as_str() {
                    "" => String::new(),
                    part => format!("/{part}"),
                };
                format!(
                    "{} {}{part} {} {}",
                    request.verb, request.resource, request.name, request.code
                )
            })
            .collect()
    }

    /// The cloud heard nothing but what it allows.
    pub(super) fn check_cloud(&self, selector: Option<&str>) {
        for request in self.sent(CLOUD, 0) {
            let asked = match &*request.verb {
                "update" => continue,
                "list" | "watch" => form_urlencoded::parse(request.query.as_bytes())
                    .filter(|(name, _)| name == "labelSelector")
                    .map(|(_, value)| value.into_owned())
                    .collect::<Vec<_>>(),
                _ => panic!("{request:?} is not allowed"),
            };
            let expected: Vec<String> = selector.iter().map(ToString::to_string).collect();
            assert_eq!(asked, expected, "{request:?}");
        }
    }

    pub(super) fn fault(&self, plane: Plane, verb: &str, action: Action, times: Option<u64>) {
        let matcher = Matcher {
            verb: Some(verb.to_owned()),
            resource: Some("missions".to_owned()),
            agent: Some("cr-syncer/".to_owned()),
            ..Matcher::default()
        };
        let fault = Fault {
            times,
            ..Fault::new(matcher, action)
        };
        self.playground(plane).faults().add(fault);
    }
}

impl Mirror {
    /// Ends it; what is under way is finished.
    pub(super) async fn stop(self) {
        self.stop.cancel();
        timeout(SOON, self.running).await.expect("it ends").unwrap();
    }

    /// The standing of the definition of missions.
    pub(super) async fn until_standing(
        &self,
        fits: impl Fn(&Result<tokio::time::Instant, String>) -> bool,
    ) -> Result<tokio::time::Instant, String> {
        let looking = async {
            loop {
                if let Some((_, standing)) = self.following.standing().pop()
                    && fits(&standing)
                {
                    return standing;
                }
                pause().await;
            }
        };
        timeout(SOON, looking).await.expect("it comes to stand so")
    }
}

pub(super) fn syncer_config() -> SyncerConfig {
    SyncerConfig {
        pace: Pace {
            retry: (Duration::from_millis(5), Duration::from_millis(100)),
            lasts: (300, 300),
            ..Pace::default()
        },
        resync: Duration::from_mins(5),
        conflict_limit: 5,
        brake: Some(BrakeOptions {
            few: 0,
            ..BrakeOptions::default()
        }),
        workers: WORKERS,
    }
}
