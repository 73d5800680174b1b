//! A host and its members, real or played, and the control plane as a process.

use std::path::Path;

use anyhow::{Context as _, Result, anyhow, ensure};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hawser_federation::types::federated::{TargetSchema, definition};
use hawser_federation::types::type_config::ApiResource;
use hawser_runtime::cluster::connection::{Call, Connection, Limits, RequestError};
use kcp_playground::Playground;
use serde_json::{Value, json};
use testbed::binaries::repository;
use testbed::cluster::Controllers;
use testbed::{Launch, Process, SOON, ServiceCluster, Shared, eventually};

use super::place::Place;
use crate::canary::{LoggedUse, Logging, assert_logs_untold, planted};

pub(super) const SYSTEM: &str = "kube-federation-system";
pub(super) const MEMBER_NAMES: [&str; 3] = ["cluster1", "cluster2", "cluster3"];

/// See the module.
pub(super) struct World {
    pub(super) host: Place,
    /// `cluster1` and so on.
    pub(super) members: Vec<Place>,
    control_plane: Option<Process>,
    logs: tempfile::TempDir,
    started: usize,
    /// More flags of the control plane.
    pub(super) flags: Vec<&'static str>,
}

/// A way to one of the clusters, for one test.
#[derive(Clone)]
pub(crate) struct Way(Connection);

/// `core.kubefed.io/v1beta1` in the namespace of the control plane.
pub(super) fn core(resource: &str) -> String {
    format!("/apis/core.kubefed.io/v1beta1/namespaces/{SYSTEM}/{resource}")
}

/// Federated objects of a namespace.
pub(super) fn federated(namespace: &str, plural: &str) -> String {
    format!("/apis/types.kubefed.io/v1beta1/namespaces/{namespace}/{plural}")
}

pub(super) fn config_maps(namespace: &str) -> String {
    format!("/api/v1/namespaces/{namespace}/configmaps")
}

pub(super) fn target(group: &str, kind: &str, plural: &str, scope: &str) -> ApiResource {
    ApiResource {
        group: group.into(),
        version: "v1".into(),
        kind: kind.into(),
        plural_name: plural.into(),
        scope: scope.into(),
    }
}

/// Propagated to all members.
pub(super) fn everywhere() -> Value {
    json!({"clusterSelector": {"matchLabels": {}}})
}

/// Propagated to these members.
pub(super) fn on(members: &[&str]) -> Value {
    let names: Vec<Value> = members.iter().map(|name| json!({"name": name})).collect();
    json!({"clusters": names})
}

/// Whether a server does not serve a path, or prepares to store its kind.
fn is_unserved(error: &RequestError) -> bool {
    let RequestError::Refused(refusal) = error else {
        return false;
    };
    match refusal.code {
        // Objects that are not there have a name.
        404 => refusal.name.is_empty(),
        429 => refusal.message.contains("storage is (re)initializing"),
        _ => false,
    }
}

// === impl Way ===

impl Way {
    pub(super) async fn at(place: &Place) -> Result<Self> {
        Self::by(place.config().await?)
    }

    pub(crate) fn to(cluster: &ServiceCluster) -> Result<Self> {
        Self::by(cluster.admin().config()?)
    }

    pub(crate) fn by(config: kube::Config) -> Result<Self> {
        // Told apart from what is tested in logs of requests.
        let limits = Limits {
            agent: "e2e",
            ..Limits::default()
        };
        Ok(Self(Connection::new(config, limits)?))
    }

    /// Makes an object, with a word that is looked for where it does not belong.
    pub(crate) async fn create_planted(&self, all: &str, object: &Value) -> Result<Value> {
        self.create(all, &planted(all, object)).await
    }

    /// Makes an object. A real server serves a kind a moment after it was defined: that is waited for.
    pub(crate) async fn create(&self, all: &str, object: &Value) -> Result<Value> {
        let mut created = self.0.ask(Call::post(all, object)).await;
        if created.as_ref().is_err_and(is_unserved) {
            self.until_served(all).await;
            created = self.0.ask(Call::post(all, object)).await;
        }
        created.with_context(|| format!("creating {object} in {all}"))
    }

    /// Waits until a collection is served: the definition of its kind was created or enabled a moment ago.
    pub(crate) async fn until_served(&self, all: &str) {
        self.until_there(&format!("{all}?limit=1")).await;
    }

    pub(crate) async fn get(&self, path: &str) -> Result<Option<Value>> {
        match self.0.ask(Call::get(path)).await {
            Err(error) if error.code() == Some(404) => Ok(None),
            found => Ok(Some(found.with_context(|| path.to_owned())?)),
        }
    }

    pub(crate) async fn patch(&self, path: &str, patch: &Value) -> Result<Value> {
        let patched = self.0.ask(Call::merge_patch(path, patch)).await;
        patched.with_context(|| format!("patching {path}"))
    }

    pub(crate) async fn replace(&self, path: &str, object: &Value) -> Result<Value> {
        let replaced = self.0.ask(Call::put(path, object)).await;
        replaced.with_context(|| format!("replacing {path}"))
    }

    pub(crate) async fn delete(&self, path: &str) -> Result<()> {
        self.delete_with(path, &json!({})).await
    }

    /// Deletes an object, or all of a collection.
    pub(crate) async fn delete_with(&self, path: &str, options: &Value) -> Result<()> {
        let deleted = self.0.ask(Call::delete(path, options)).await;
        deleted.with_context(|| format!("deleting {path}"))?;
        Ok(())
    }

    /// Sends a request whose answer may be nested too deeply to be read.
    pub(super) async fn send_unread(&self, call: Call) -> Result<()> {
        let reply = self.0.call(call).await?;
        ensure!(reply.is_success(), "{}", reply.refusal());
        Ok(())
    }

    /// The columns that kubectl prints of an object.
    pub(super) async fn columns(&self, path: &str) -> Result<Value> {
        const TABLE: &str = "application/json;as=Table;g=meta.k8s.io;v=v1";
        let call = Call::get(format!("{path}?includeObject=None")).accept(TABLE);
        Ok(self.0.ask(call).await?["rows"][0]["cells"].take())
    }

    /// Adds a CustomResourceDefinition, and waits until it is served.
    pub(crate) async fn define(&self, crd: &Value) -> Result<()> {
        const ALL: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
        self.create(ALL, crd).await?;
        let name = crd["metadata"]["name"].as_str().context("a name")?;
        self.until(&format!("{ALL}/{name}"), |found| {
            let conditions = found["status"]["conditions"].as_array();
            conditions.into_iter().flatten().any(|condition| {
                condition["type"] == "Established" && condition["status"] == "True"
            })
        })
        .await;
        // It is served a moment later.
        let spec = &crd["spec"];
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let (group, plural) = (text(&spec["group"]), text(&spec["names"]["plural"]));
        let version = text(&spec["versions"][0]["name"]);
        self.until_served(&format!("/apis/{group}/{version}/{plural}"))
            .await;
        Ok(())
    }

    /// Waits until an object fits.
    pub(crate) async fn until(&self, path: &str, fits: impl Fn(&Value) -> bool) -> Value {
        eventually(SOON, path, async || -> Result<Value> {
            let found = self.get(path).await?.context("it is not there")?;
            ensure!(fits(&found), "it is {found:#}");
            Ok(found)
        })
        .await
    }

    pub(crate) async fn until_there(&self, path: &str) -> Value {
        self.until(path, |_| true).await
    }

    pub(crate) async fn until_gone(&self, path: &str) {
        eventually(SOON, path, async || -> Result<()> {
            let found = self.get(path).await?;
            found.map_or(Ok(()), |found| Err(anyhow!("it is there: {found:#}")))
        })
        .await;
    }

    /// Waits until the condition of a federated object has this reason; none where it is true.
    pub(crate) async fn until_reason(&self, path: &str, reason: Option<&str>) -> Value {
        self.until(path, |federated| {
            let (status, metadata) = (&federated["status"], &federated["metadata"]);
            let condition = &status["conditions"][0];
            let is = if reason.is_none() { "True" } else { "False" };
            status["observedGeneration"] == metadata["generation"]
                && condition["status"] == is
                && condition["reason"].as_str() == reason
        })
        .await
    }

    /// Waits until an event with this reason and message is there.
    pub(crate) async fn until_event(&self, namespace: &str, reason: &str, message: &str) {
        let path = format!("/api/v1/namespaces/{namespace}/events");
        self.until(&path, |events| {
            let events = events["items"].as_array();
            events.is_some_and(|all| {
                all.iter().any(|event| {
                    let said = event["message"].as_str().unwrap_or_default();
                    event["reason"] == reason && said.contains(message)
                })
            })
        })
        .await;
    }
}

// === impl World ===

impl World {
    /// The world that tests share which disturb nobody: three members, and all types that they need.
    pub(super) async fn shared() -> Result<LoggedUse<Self>> {
        static SHARED: Shared<World> = Shared::new();
        SHARED.get(Self::start_shared).await.map(LoggedUse::new)
    }

    async fn start_shared() -> Result<Self> {
        let mut world = Self::of(3, Controllers::All).await?;
        for (group, kind, plural) in [
            ("", "Service", "services"),
            ("", "ServiceAccount", "serviceaccounts"),
            ("", "PersistentVolumeClaim", "persistentvolumeclaims"),
            ("batch", "Job", "jobs"),
        ] {
            world
                .enable(&target(group, kind, plural, "Namespaced"))
                .await?;
        }
        world.enable_workloads().await?;
        let collects = json!({"spec": {"statusCollection": "Enabled"}});
        let config = format!("{}/services", core("federatedtypeconfigs"));
        world.host().await?.patch(&config, &collects).await?;
        world.start().await?;
        Ok(world)
    }

    /// Two members of playgrounds, which a control plane that is killed cannot tell from real ones.
    pub(super) async fn played() -> Result<Self> {
        let places = [Place::played(), Place::played(), Place::played()];
        let mut places = futures::future::try_join_all(places).await?;
        let host = places.remove(0);
        Self::installed_among(host, places).await
    }

    /// With members and the types that every test needs.
    pub(super) async fn installed_among(host: Place, members: Vec<Place>) -> Result<Self> {
        let mut world = Self::among(host, members).await?;
        world.install().await?;
        Ok(world)
    }

    /// Any number of members up to three, without a control plane at work yet.
    pub(super) async fn of(members: usize, controllers: Controllers) -> Result<Self> {
        let mut world = Self::bare(Controllers::None, members, controllers).await?;
        world.install().await?;
        Ok(world)
    }

    /// With types and configuration, but without members and federated types.
    pub(super) async fn bare(
        of_host: Controllers,
        members: usize,
        of_members: Controllers,
    ) -> Result<Self> {
        let started = (0..members).map(|_| Place::real(of_members));
        let started = futures::future::try_join_all(started);
        let (host, members) = tokio::try_join!(Place::real(of_host), started)?;
        Self::among(host, members).await
    }

    async fn among(host: Place, members: Vec<Place>) -> Result<Self> {
        let world = Self {
            host,
            members,
            control_plane: None,
            logs: tempfile::tempdir()?,
            started: 0,
            flags: Vec::new(),
        };
        world.prepare().await?;
        Ok(world)
    }

    /// Types and configuration.
    async fn prepare(&self) -> Result<()> {
        let host = self.host().await?;
        let file = std::fs::read_to_string(repository().join("crds/kubefed.io.yaml"))?;
        for crd in serde_saphyr::from_multiple::<Value>(&file)? {
            host.define(&crd).await?;
        }
        let system = json!({"metadata": {"name": SYSTEM}});
        host.create("/api/v1/namespaces", &system).await?;
        let config = json!({
            "apiVersion": "core.kubefed.io/v1beta1", "kind": "KubeFedConfig", "metadata": {"name": "kubefed"},
            "spec": {
                "scope": "Cluster",
                "controllerDuration": {"availableDelay": "100ms", "unavailableDelay": "100ms"},
                "clusterHealthCheck": {"period": "200ms", "failureThreshold": 3, "timeout": "5s"},
                "featureGates": [{"name": "RawResourceStatusCollection", "configuration": "Enabled"}],
            },
        });
        host.create(&core("kubefedconfigs"), &config).await?;
        Ok(())
    }

    /// Members and federated types.
    async fn install(&mut self) -> Result<()> {
        for number in 0..self.members.len() {
            self.join(number).await?;
        }
        let namespaces = target("", "Namespace", "namespaces", "Cluster");
        self.enable(&namespaces).await?;
        let config_maps = target("", "ConfigMap", "configmaps", "Namespaced");
        self.enable(&config_maps).await
    }

    pub(super) async fn host(&self) -> Result<Way> {
        Way::at(&self.host).await
    }

    pub(super) async fn member(&self, number: usize) -> Result<Way> {
        Way::at(&self.members[number]).await
    }

    /// The servers of a member.
    pub(super) fn servers(&mut self, number: usize) -> Result<&mut ServiceCluster> {
        self.members[number].servers()
    }

    /// The types whose replicas are scheduled.
    pub(super) async fn enable_workloads(&self) -> Result<()> {
        for (kind, plural) in [("Deployment", "deployments"), ("ReplicaSet", "replicasets")] {
            let target = target("apps", kind, plural, "Namespaced");
            self.enable(&target).await?;
        }
        Ok(())
    }

    /// Makes a service account in a member and registers the member with its token.
    pub(super) async fn join(&self, number: usize) -> Result<()> {
        let host = self.host().await?;
        let name = MEMBER_NAMES[number];
        let token = self.token(number).await?;
        let bundle = STANDARD.encode(self.members[number].certificate_authority()?);
        let secret = json!({
            "metadata": {"name": format!("{name}-token")}, "stringData": {"token": token},
        });
        host.create(&format!("/api/v1/namespaces/{SYSTEM}/secrets"), &secret)
            .await?;
        let cluster = json!({
            "apiVersion": "core.kubefed.io/v1beta1", "kind": "KubeFedCluster",
            "metadata": {"name": name, "labels": {"number": (number + 1).to_string()}},
            "spec": {
                "apiEndpoint": self.members[number].url(), "caBundle": bundle,
                "secretRef": {"name": format!("{name}-token")},
            },
        });
        host.create(&core("kubefedclusters"), &cluster).await?;
        Ok(())
    }

    /// A token that may do everything: that of a service account if the member is real.
    pub(super) async fn token(&self, number: usize) -> Result<String> {
        if let Some(token) = self.members[number].token() {
            return Ok(token);
        }
        let member = self.member(number).await?;
        let account = format!("/api/v1/namespaces/{SYSTEM}/serviceaccounts");
        if member.get(&format!("{account}/hawser")).await?.is_none() {
            let system = json!({"metadata": {"name": SYSTEM}});
            member.create("/api/v1/namespaces", &system).await?;
            let subject = json!({"metadata": {"name": "hawser"}});
            member.create(&account, &subject).await?;
            let binding = json!({
                "metadata": {"name": "hawser"},
                "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
                "subjects": [{"kind": "ServiceAccount", "name": "hawser", "namespace": SYSTEM}],
            });
            let all = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings";
            member.create(all, &binding).await?;
        }
        let request = json!({"spec": {"expirationSeconds": 86400}});
        let granted = member
            .create(&format!("{account}/hawser/token"), &request)
            .await?;
        let token = granted["status"]["token"].as_str();
        Ok(token.context("a token")?.to_owned())
    }

    /// Enables a type: the definition of its federated type, and its configuration.
    pub(super) async fn enable(&self, target: &ApiResource) -> Result<()> {
        self.enable_with(target, |_| {}).await
    }

    /// Enables a type by a definition that somebody changed.
    pub(super) async fn enable_with(
        &self,
        target: &ApiResource,
        change: impl FnOnce(&mut Value),
    ) -> Result<()> {
        let host = self.host().await?;
        let scope = if target.kind == "Namespace" {
            "Namespaced"
        } else {
            &target.scope
        };
        let federated = ApiResource {
            group: "types.kubefed.io".into(),
            version: "v1beta1".into(),
            kind: format!("Federated{}", target.kind),
            plural_name: format!("federated{}", target.plural_name),
            scope: scope.into(),
        };
        let mut crd = definition(&federated, &[], TargetSchema::Scalable);
        change(&mut crd);
        host.define(&crd).await?;
        let config = json!({
            "apiVersion": "core.kubefed.io/v1beta1", "kind": "FederatedTypeConfig",
            "metadata": {"name": target.qualified_name()},
            "spec": {"targetType": target, "federatedType": federated, "propagation": "Enabled"},
        });
        host.create(&core("federatedtypeconfigs"), &config).await?;
        Ok(())
    }

    /// Starts the control plane, and waits until it propagates.
    pub(super) async fn start(&mut self) -> Result<()> {
        self.started += 1;
        let log = self
            .logs
            .path()
            .join(format!("federate-{}.log", self.started));
        self.control_plane = Some(self.launch("federate", &log)?);
        for name in ["namespaces", "configmaps"] {
            let path = format!("{}/{name}", core("federatedtypeconfigs"));
            let running = |config: &Value| {
                let status = &config["status"];
                status["propagationController"] == "Running"
                    && status["observedGeneration"] == config["metadata"]["generation"]
            };
            self.host().await?.until(&path, running).await;
        }
        Ok(())
    }

    pub(super) fn launch(&self, name: &str, log: &Path) -> Result<Process> {
        self.launching(name, log).spawn()
    }

    pub(super) fn launching(&self, name: &str, log: &Path) -> Launch {
        self.launching_program(Path::new(env!("CARGO_BIN_EXE_hawser")), name, log)
    }

    /// The same with another program.
    pub(super) fn launching_program(&self, program: &Path, name: &str, log: &Path) -> Launch {
        Launch::new(name, program)
            .args(["federate", "--log-format=Console", "-v=5"])
            .args(["--kubefed-namespace", SYSTEM])
            .args(["--replica-check-period=1s", "--replica-schedule-timeout=2s"])
            .arg("--replica-run-timeout=2s")
            .args(&self.flags)
            .args(["--healthz-addr=127.0.0.1:0", "--metrics-addr=127.0.0.1:0"])
            .arg("--kubeconfig")
            .arg(self.host.kubeconfig_file())
            .log(log)
    }

    /// Has the control plane end.
    pub(super) async fn stop(&mut self) -> Result<()> {
        let process = self.control_plane.take().context("it was not started")?;
        process.stop(SOON).await?;
        Ok(())
    }

    /// Ends the control plane without a word. The next one does not wait for its lock.
    pub(super) async fn kill(&mut self) -> Result<()> {
        let process = self.control_plane.take().context("it was not started")?;
        process.kill().await?;
        let lock = format!("{}/kubefed-controller-manager", config_maps(SYSTEM));
        self.host().await?.delete(&lock).await
    }

    /// What the control plane says of itself.
    pub(super) async fn metrics(&self) -> Result<String> {
        self.page("--metrics-addr", "/metrics").await
    }

    /// A page of the control plane, at the address of a flag.
    pub(super) async fn page(&self, flag: &str, path: &str) -> Result<String> {
        let process = self.control_plane.as_ref().context("it was not started")?;
        let serving = format!("serving pages of {flag}");
        let log = process.await_log(SOON, &serving).await?;
        let (_, port) = log.rsplit_once("127.0.0.1:").context("an address")?;
        let port: String = port.chars().take_while(char::is_ascii_digit).collect();
        let pages = kube::Config::new(format!("http://127.0.0.1:{port}").parse()?);
        let request = http::Request::get(path).body(Vec::new())?;
        Ok(kube::Client::try_from(pages)?.request_text(request).await?)
    }

    /// The playgrounds of host and members.
    pub(super) fn playgrounds(&self) -> Result<Vec<&Playground>> {
        let places = std::iter::once(&self.host).chain(&self.members);
        places.map(Place::playground).collect()
    }

    /// A federated namespace on the first two members.
    pub(super) async fn namespace(&self, name: &str) -> Result<()> {
        self.namespace_on(name, 2).await
    }

    /// A federated namespace on the first members.
    pub(super) async fn namespace_on(&self, name: &str, members: usize) -> Result<()> {
        let host = self.host().await?;
        let namespace = json!({"metadata": {"name": name}});
        host.create("/api/v1/namespaces", &namespace).await?;
        let placement = if members == self.members.len() {
            everywhere()
        } else {
            on(&MEMBER_NAMES[..members])
        };
        let federated_namespace = json!({
            "apiVersion": "types.kubefed.io/v1beta1", "kind": "FederatedNamespace",
            "metadata": {"name": name}, "spec": {"placement": placement},
        });
        let all = federated(name, "federatednamespaces");
        host.create(&all, &federated_namespace).await?;
        for member in 0..members {
            let path = format!("/api/v1/namespaces/{name}");
            self.member(member).await?.until_there(&path).await;
        }
        Ok(())
    }
}

impl Logging for World {
    fn logs(&self) -> &Path {
        self.logs.path()
    }
}

impl Drop for World {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            assert_logs_untold(self.logs());
        }
    }
}

/// A federated ConfigMap.
pub(super) fn config_map(name: &str, placement: &Value) -> Value {
    json!({
        "apiVersion": "types.kubefed.io/v1beta1", "kind": "FederatedConfigMap",
        "metadata": {"name": name},
        "spec": {"template": {"data": {"A": "ala ma kota"}}, "placement": placement},
    })
}
