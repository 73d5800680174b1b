//! The servers of a service cluster: how they are started, awaited and ended.

use std::collections::BTreeMap;
use std::fmt;
use std::fs;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use anyhow::{Context as _, Result, anyhow, ensure};
use k8s_openapi::api::core::v1::Namespace;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{Api, DynamicObject, ListParams, PostParams};
use kube::core::{ApiResource, GroupVersionKind};

use crate::access::{Access, install_tls_provider};
use crate::binaries;
use crate::certificates::{Authority, Certified, token_keys};
use crate::eventually::{SOON, within};
use crate::names::unique;
use crate::place::Place;
use crate::ports::Port;
use crate::process::{Launch, Process};

/// A server that isn't ready by then won't be.
const READY_WITHIN: Duration = Duration::from_mins(5);

/// The directory of etcd, in that of the cluster.
pub(crate) const ETCD_DATA: &str = "etcd";

/// The servers of a cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Component {
    Etcd,
    ApiServer,
    ControllerManager,
}

/// What a cluster is made of beyond etcd and kube-apiserver.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Options {
    /// Whether namespaces empty themselves, owners' dependents are collected, and so on.
    pub controllers: Controllers,
    /// More flags for kube-apiserver, such as `--max-requests-inflight=10`.
    pub api_server_args: Vec<String>,
}

/// Whether kube-controller-manager runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Controllers {
    #[default]
    None,
    All,
}

/// The servers of a cluster, and what they are made of.
pub struct Servers {
    // Fields are dropped in this order: servers before the directories they write to.
    processes: BTreeMap<Component, Process>,
    options: Options,
    authority: Authority,
    admin: Access,
    etcd_port: Port,
    port: Port,
    controllers_port: Port,
    place: Place,
}

impl Servers {
    pub(crate) fn options(&self) -> &Options {
        &self.options
    }

    /// Where etcd listens.
    pub(crate) fn etcd_url(&self) -> String {
        format!("http://127.0.0.1:{}", self.etcd_port.number())
    }

    /// Where kube-apiserver listens.
    pub fn url(&self) -> String {
        format!("https://127.0.0.1:{}", self.port.number())
    }

    /// The same as an address.
    pub fn address(&self) -> SocketAddr {
        (Ipv4Addr::LOCALHOST, self.port.number()).into()
    }

    /// The certificate authority of the serving certificate, PEM.
    pub fn certificate_authority(&self) -> String {
        self.authority.pem()
    }

    /// Access of a member of `system:masters`.
    pub fn admin(&self) -> &Access {
        &self.admin
    }

    /// Access for any user and groups; what they may do is up to RBAC.
    pub fn user(&self, name: &str, groups: &[&str]) -> Result<Access> {
        let own = self.authority.client(name, groups)?;
        let ca = self.authority.pem();
        Access::new(&self.url(), &ca, name, &own, self.place.data())
    }

    /// A certificate for another server on 127.0.0.1, which may be called `cloud.example.com`.
    pub(crate) fn serving(&self) -> Result<Certified> {
        self.authority.server(&["localhost", "cloud.example.com"])
    }

    /// A server's process; `None` where it doesn't run.
    pub fn process(&self, component: Component) -> Option<&Process> {
        self.processes.get(&component)
    }

    /// The directory of the cluster's data; it stands in each server's command line.
    pub fn directory(&self) -> &Path {
        self.place.data()
    }

    /// The directory of the servers' logs.
    pub fn logs(&self) -> &Path {
        self.place.logs()
    }

    /// Makes a namespace whose name begins with `what`, and returns the name.
    pub async fn namespace(&self, what: &str) -> Result<String> {
        let name = unique(what);
        let mut namespace = Namespace::default();
        namespace.metadata.name = Some(name.clone());
        let all: Api<Namespace> = Api::all(self.admin.client()?);
        all.create(&PostParams::default(), &namespace)
            .await
            .with_context(|| format!("creating namespace {name}"))?;
        Ok(name)
    }

    /// Creates a custom resource definition, and awaits that each of its versions is served.
    pub async fn install_crd(&self, crd: &CustomResourceDefinition) -> Result<()> {
        let client = self.admin.client()?;
        let name = crd.metadata.name.as_deref().unwrap_or_default();
        Api::<CustomResourceDefinition>::all(client.clone())
            .create(&PostParams::default(), crd)
            .await
            .with_context(|| format!("creating definition {name}"))?;
        for version in crd.spec.versions.iter().filter(|version| version.served) {
            let names = &crd.spec.names;
            let kind = GroupVersionKind::gvk(&crd.spec.group, &version.name, &names.kind);
            let resource = ApiResource::from_gvk_with_plural(&kind, &names.plural);
            let all: Api<DynamicObject> = Api::all_with(client.clone(), &resource);
            let served = within(SOON, async || -> Result<()> {
                all.list_metadata(&ListParams::default().limit(1)).await?;
                let found = client
                    .list_api_group_resources(&resource.api_version)
                    .await?;
                let listed = found.resources.iter().any(|one| one.name == names.plural);
                ensure!(listed, "not in the discovery document");
                Ok(())
            });
            served
                .await
                .map_err(|last| anyhow!("{name} is not served: {last}"))?;
        }
        Ok(())
    }

    pub(crate) async fn restart(&mut self, component: Component) -> Result<()> {
        drop(self.processes.remove(&component));
        let log = self.place.logs().join(format!("{component}.log"));
        let process = Launch::new(component.to_string(), binaries::find(component.program())?)
            .args(self.args(component))
            .log(log)
            .spawn()?;
        let ready = self.await_ready(component, &process).await;
        let tail = process.log_tail(15);
        self.processes.insert(component, process);
        ready.map_err(|last| {
            let logs = self.place.logs().display();
            anyhow!("{component} is not ready: {last}; logs are kept in {logs}; it ends:\n{tail}")
        })
    }

    pub(crate) fn prepare(options: Options) -> Result<Self> {
        install_tls_provider();
        let place = Place::new("cluster")?;
        let (etcd_port, port, controllers_port) =
            (Port::reserve()?, Port::reserve()?, Port::reserve()?);
        let authority = Authority::new()?;
        let serving = authority.server(&["localhost", "kubernetes.default.svc"])?;
        let (token_key, token_public) = token_keys()?;
        for (file, content) in [
            ("ca.crt", &authority.pem()),
            ("server.crt", &serving.certificate),
            ("server.key", &serving.key),
            ("tokens.key", &token_key),
            ("tokens.pub", &token_public),
        ] {
            let file = place.data().join(file);
            fs::write(&file, content).with_context(|| format!("writing {}", file.display()))?;
        }
        let own = authority.client("admin", &["system:masters"])?;
        let url = format!("https://127.0.0.1:{}", port.number());
        let admin = Access::new(&url, &authority.pem(), "admin", &own, place.data())?;
        Ok(Self {
            processes: BTreeMap::new(),
            options,
            authority,
            admin,
            etcd_port,
            port,
            controllers_port,
            place,
        })
    }

    pub(crate) fn take(&mut self, component: Component) -> Result<Process> {
        self.processes
            .remove(&component)
            .with_context(|| format!("{component} does not run"))
    }

    fn args(&self, component: Component) -> Vec<String> {
        let file = |name: &str| -> String { self.file(name).display().to_string() };
        let etcd = self.etcd_url();
        match component {
            Component::Etcd => vec![
                format!("--data-dir={}", file(ETCD_DATA)),
                format!("--listen-client-urls={etcd}"),
                format!("--advertise-client-urls={etcd}"),
                // A single member needs no peers, and etcd insists on an address for them.
                "--listen-peer-urls=http://127.0.0.1:0".to_owned(),
                // The data needn't outlive the machine, only the process.
                "--unsafe-no-fsync".to_owned(),
                "--log-level=warn".to_owned(),
            ],
            Component::ApiServer => {
                let mut args = vec![
                    format!("--etcd-servers={etcd}"),
                    "--bind-address=127.0.0.1".to_owned(),
                    "--advertise-address=127.0.0.1".to_owned(),
                    // No address of this server is published: a loopback one isn't allowed to be.
                    "--endpoint-reconciler-type=none".to_owned(),
                    format!("--secure-port={}", self.port.number()),
                    format!("--tls-cert-file={}", file("server.crt")),
                    format!("--tls-private-key-file={}", file("server.key")),
                    format!("--client-ca-file={}", file("ca.crt")),
                    "--authorization-mode=RBAC".to_owned(),
                    "--service-account-issuer=https://kubernetes.default.svc".to_owned(),
                    format!("--service-account-key-file={}", file("tokens.pub")),
                    format!("--service-account-signing-key-file={}", file("tokens.key")),
                    "--service-cluster-ip-range=10.0.0.0/24".to_owned(),
                ];
                if self.options.controllers == Controllers::None {
                    // Nobody makes the service accounts that it waits for.
                    args.push("--disable-admission-plugins=ServiceAccount".to_owned());
                }
                args.extend(self.options.api_server_args.iter().cloned());
                args
            }
            Component::ControllerManager => vec![
                format!("--kubeconfig={}", self.admin.kubeconfig_file().display()),
                "--bind-address=127.0.0.1".to_owned(),
                format!("--secure-port={}", self.controllers_port.number()),
                format!("--tls-cert-file={}", file("server.crt")),
                format!("--tls-private-key-file={}", file("server.key")),
                format!("--root-ca-file={}", file("ca.crt")),
                format!("--service-account-private-key-file={}", file("tokens.key")),
                "--leader-elect=false".to_owned(),
            ],
        }
    }

    async fn await_ready(&self, component: Component, process: &Process) -> Result<(), String> {
        let client = self.admin.client().map_err(|error| error.to_string())?;
        let probe = async || -> Result<()> {
            match component {
                Component::Etcd => {
                    let address = ("127.0.0.1", self.etcd_port.number());
                    tokio::net::TcpStream::connect(address).await?;
                }
                Component::ApiServer => {
                    let request = http::Request::get("/readyz").body(Vec::new())?;
                    client.request_text(request).await?;
                }
                Component::ControllerManager => {
                    let address = ("127.0.0.1", self.controllers_port.number());
                    tokio::net::TcpStream::connect(address).await?;
                }
            }
            Ok(())
        };
        tokio::select! {
            ready = within(READY_WITHIN, probe) => ready,
            Ok(exit) = process.wait(READY_WITHIN) => Err(format!("it ended by {exit}")),
        }
    }

    fn file(&self, name: &str) -> PathBuf {
        self.place.data().join(name)
    }
}

impl Drop for Servers {
    fn drop(&mut self) {
        self.processes.clear();
        if thread::panicking() {
            #[expect(
                clippy::print_stderr,
                reason = "the test runner shows it with the failure"
            )]
            {
                eprintln!(
                    "logs of the service cluster are kept in {}",
                    self.logs().display()
                );
            }
        } else if self.place.logs().exists() {
            self.place.forget_logs();
        }
    }
}

impl Component {
    fn program(self) -> &'static str {
        match self {
            Self::Etcd => "etcd",
            Self::ApiServer => "kube-apiserver",
            Self::ControllerManager => "kube-controller-manager",
        }
    }
}

impl fmt::Display for Component {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.program())
    }
}
