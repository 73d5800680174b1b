//! `FederatedTypeConfig`s: starts and stops types by them, and writes their status.

use std::sync::Arc;

use serde_json::{Value, json};
use tracing::{error, warn};

use hawser_federation::admission::check_type_config;
use hawser_federation::events::Severity;
use hawser_federation::placement::Scope as ControlScope;
use hawser_federation::status::Collection;
use hawser_federation::types::type_config::{
    FederatedTypeConfigSpec, FederatedTypeConfigStatus, NAMESPACES,
};
use hawser_runtime::cluster::cache::{Cache, Change, Table};
use hawser_runtime::cluster::connection::{Call, Connection, RequestError};
use hawser_runtime::cluster::feed::{Content, EventHandler};
use hawser_runtime::cluster::queue::{Outcome, Queue, Urgency, Work};
use hawser_runtime::cluster::wire::collection;
use hawser_runtime::controller::{Reconciler, WatchRegistry, work};
use hawser_sync::{Seen, Store as _};
use kube_lang::object::Object;

use super::controllers;
use super::host::{self, FederationSettings, TYPE_CONFIG};
use super::propagation::{Propagation, TypeSpec};

/// The only type whose status may be collected in separate objects.
const SERVICES: &str = "services";
/// Keeps a type configuration until its type is no longer propagated.
const FINALIZER: &str = "core.kubefed.io/federated-type-config";

/// Starts and stops types by their `FederatedTypeConfig`s.
pub struct TypeController {
    host: Connection,
    settings: Arc<FederationSettings>,
    cache: Arc<Cache>,
    queue: Queue<Arc<str>>,
    propagation: Arc<Propagation>,
}

impl TypeController {
    pub fn new(
        host: &Connection,
        settings: &Arc<FederationSettings>,
        cache: &Arc<Cache>,
        propagation: &Arc<Propagation>,
    ) -> Arc<Self> {
        Arc::new(Self {
            host: host.clone(),
            settings: Arc::clone(settings),
            cache: Arc::clone(cache),
            queue: Queue::with_share(1),
            propagation: Arc::clone(propagation),
        })
    }

    /// Follows until the queue is closed.
    pub async fn run(self: Arc<Self>) {
        let namespace = Some(self.settings.namespace.as_str().into());
        let (kind, whole) = (&TYPE_CONFIG, Content::Whole);
        let spec = host::watch(&self.host, kind, "federatedtypeconfigs", namespace, whole);
        let handler = Arc::clone(&self) as _;
        let watches = WatchRegistry::new(&self.cache, host::pace(), handler);
        let watch = watches.watch(spec);
        watch.completed().await;
        let numbers = &self.propagation.numbers;
        numbers.controllers.announce(controllers::TYPES, 1);
        // One at a time: the type of namespaces is before those that need it.
        work(Arc::clone(&self), &self.queue, 1).await;
    }

    pub fn close(&self) {
        self.queue.close();
    }

    fn object(&self, name: &str) -> Seen {
        let scope = host::scope(&TYPE_CONFIG);
        self.cache
            .get(&scope.key(Some(&self.settings.namespace), name))
    }

    async fn look_at(&self, name: &Arc<str>) -> Result<(), RequestError> {
        let object = match self.object(name) {
            Seen::Present(object) => object,
            Seen::Absent => {
                self.propagation.stop(name);
                return Ok(());
            }
            Seen::Unknown => return Ok(()),
        };
        let others = object
            .finalizers()
            .filter(|finalizer| *finalizer != FINALIZER);
        let mut finalizers: Vec<&str> = others.collect();
        if object.in_deletion() {
            self.propagation.stop(name);
            if object.has_finalizer(FINALIZER) {
                self.write_finalizers(&object, &finalizers).await?;
            }
            return Ok(());
        }
        if !object.has_finalizer(FINALIZER) {
            finalizers.push(FINALIZER);
            // The event of this write leads here again.
            return self.write_finalizers(&object, &finalizers).await;
        }
        let spec = match completed(&object) {
            Ok(spec) => Some(spec),
            Err(problem) => {
                warn!(name = &**name, problem, "invalid FederatedTypeConfig");
                let message = format!("Invalid FederatedTypeConfig, not propagated: {problem}");
                let recorder = &self.propagation.recorder;
                let reason = "InvalidTypeConfig";
                recorder.record(&object, Severity::Warning, reason, &message);
                None
            }
        };
        let running = spec.and_then(|spec| self.wanted(name, spec));
        let is_running = running.is_some();
        let has_status_type = object.as_value().pointer("/spec/statusType").is_some();
        let collects = running
            .as_ref()
            .is_some_and(|spec| spec.service_status.is_some());
        match running {
            Some(spec) => self.propagation.start(spec),
            None => self.propagation.stop(name),
        }
        self.write_status(&object, is_running, has_status_type.then_some(collects))
            .await
    }

    /// The desired propagation of a type; none if it is not to run.
    fn wanted(&self, name: &Arc<str>, spec: FederatedTypeConfigSpec) -> Option<TypeSpec> {
        let is_limited = self.settings.scope == ControlScope::Namespaced;
        if spec.propagation != "Enabled" || (is_limited && !spec.target_type.is_namespaced()) {
            return None;
        }
        let mut namespaces = None;
        if spec.target_type.is_namespaced() {
            let Seen::Present(of_namespaces) = self.object(NAMESPACES) else {
                return None;
            };
            if of_namespaces.in_deletion() {
                return None;
            }
            namespaces = Some(completed(&of_namespaces).ok()?.federated_type);
        }
        let is_collected = spec.status_collection.as_deref() == Some("Enabled");
        let collects = self.settings.collects_status && is_collected;
        let service_status = spec
            .status_type
            .filter(|_| &**name == SERVICES && is_collected && !self.settings.collects_status);
        Some(TypeSpec {
            name: Arc::clone(name),
            target: spec.target_type,
            federated: spec.federated_type,
            namespaces,
            collection: if collects {
                Collection::On
            } else {
                Collection::Off
            },
            service_status,
        })
    }

    fn path(&self, object: &Object) -> String {
        let namespace = Some(&*self.settings.namespace);
        let all = collection(&TYPE_CONFIG, namespace, "federatedtypeconfigs");
        format!("{all}/{}", object.name())
    }

    async fn write_finalizers(
        &self,
        object: &Object,
        finalizers: &[&str],
    ) -> Result<(), RequestError> {
        let patch = json!({"metadata": {
            "finalizers": finalizers, "resourceVersion": object.resource_version(),
        }});
        let call = Call::merge_patch(self.path(object), &patch);
        match self.host.ask(call).await {
            Err(error) if error.code() == Some(404) => Ok(()),
            answered => answered.map(|_| ()),
        }
    }

    async fn write_status(
        &self,
        object: &Object,
        is_running: bool,
        collects: Option<bool>,
    ) -> Result<(), RequestError> {
        let generation = object.root()["metadata"]["generation"].as_i64();
        let running = |is_running: bool| if is_running { "Running" } else { "NotRunning" };
        let status = json!(FederatedTypeConfigStatus {
            observed_generation: generation.unwrap_or_default(),
            propagation_controller: running(is_running).to_owned(),
            status_controller: collects.map(|collects| running(collects).to_owned()),
        });
        if object.root().get("status") == Some(&status) {
            return Ok(());
        }
        let mut written = object.as_value().clone();
        written["status"] = status;
        let put = Call::put(format!("{}/status", self.path(object)), &written);
        self.host.ask(put).await.map(|_| ())
    }
}

/// The spec with what follows from its name, where it is valid.
fn completed(object: &Object) -> Result<FederatedTypeConfigSpec, String> {
    let spec = object.root().get("spec").cloned().unwrap_or(Value::Null);
    let mut spec: FederatedTypeConfigSpec =
        serde_json::from_value(spec).map_err(|error| format!("spec: {error}"))?;
    spec.complete(object.name());
    let mut whole = object.clone();
    whole.root_mut().insert("spec".into(), json!(spec));
    check_type_config(&whole).map_err(|rejection| rejection.to_string())
}

impl Reconciler for TypeController {
    type Key = Arc<str>;

    async fn reconcile(self: &Arc<Self>, work: &Work<Arc<str>>) -> Outcome {
        let numbers = &self.propagation.numbers;
        let running = numbers.controllers.begin(controllers::TYPES);
        running.end(match self.look_at(&work.key).await {
            Ok(()) => Ok(Outcome::Settled),
            // The event of the other write leads here again.
            Err(problem) if problem.code() == Some(409) => Ok(Outcome::Failed(None)),
            Err(problem) => {
                let name = &*work.key;
                error!(name, %problem, "cannot write a FederatedTypeConfig; retrying");
                Ok(Outcome::Failed(None))
            }
        })
    }
}

impl EventHandler for TypeController {
    fn changed(&self, table: &Arc<Table>, change: Change) {
        let add = |name: Arc<str>| self.queue.add(name, Urgency::Live);
        let is_of_namespaces = &*change.key.name == NAMESPACES;
        add(Arc::clone(&change.key.name));
        if is_of_namespaces {
            // All namespaced types depend on it.
            table
                .keys()
                .into_iter()
                .for_each(|key| add(Arc::clone(&key.name)));
        }
    }
}
