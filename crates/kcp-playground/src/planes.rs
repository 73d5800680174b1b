//! Both control planes in one process: a kcp and a service cluster.

use std::collections::HashSet;
use std::io::Write;
use std::num::NonZeroUsize;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use kube_schema::json;
use serde_json::Value;
use tokio::runtime::{Builder, Runtime};
use tokio_util::sync::{CancellationToken, DropGuard};

use super::builtin::{self, StandIn};
use super::catalog::{Resource, Scope, Scopes, User};
use super::collect::Collector;
use super::custom;
use super::kcp::{self, Kcp, KcpOptions};
use super::plain::PlainScopes;
use super::rest::Rest;
use super::server::{
    self, Address, Context, Fault, Faults, Front, Identity, RequestLog, Router, Server,
    ServerOptions, TokenFileError, Tokens,
};
use super::status::Status;
use super::store::{Name, Retention, Store, StoreOptions};

/// The reported version.
const KCP_VERSION: &str = "v1.34.2+kcp-v0.32.0";
const SERVICE_VERSION: &str = "v1.36.3";

/// The one cluster in the service cluster's store.
const SERVICE: &str = "service";
const ADMIN: &str = "kcp-admin";

/// The settings of a playground.
pub struct PlaygroundOptions {
    /// The port of kcp on loopback; 0 for any free port.
    pub port: u16,
    /// The port of the service cluster.
    pub service_port: u16,
    /// More users, in kube-apiserver's form: `token,user,uid,"group1,group2"`.
    pub token_file: String,
    pub faults: Vec<Fault>,
    /// The seed of random faults.
    pub seed: u64,
    /// The retained history of each control plane, for watches.
    pub retention: Retention,
    /// The delay until a new API of kcp is established, some 5 s on a real kcp. Claims reach objects, and workspaces
    /// become ready, after a fifth of it. There is no delay by default.
    pub kcp_delays: Duration,
    /// The number of kcp's shards. With several, a slice has an endpoint for each shard with a binding.
    pub kcp_shards: NonZeroUsize,
    /// Additional kinds of the service cluster.
    pub stand_ins: Vec<StandIn>,
    /// A file to which each request is written as a line of JSON.
    pub log_sink: Option<Box<dyn Write + Send>>,
    /// Whether the control planes have threads of their own, whose stacks suffice for objects as deep as servers
    /// accept. Otherwise they share the caller's runtime, and objects of such depth are not supported.
    pub own_threads: bool,
}

impl Default for PlaygroundOptions {
    fn default() -> Self {
        Self {
            port: 0,
            service_port: 0,
            token_file: String::new(),
            faults: Vec::new(),
            seed: 1,
            retention: Retention::default(),
            kcp_delays: Duration::ZERO,
            kcp_shards: NonZeroUsize::MIN,
            stand_ins: Vec::new(),
            log_sink: None,
            own_threads: true,
        }
    }
}

#[derive(Debug, thiserror::Error)]
pub enum PlaygroundError {
    #[error(transparent)]
    Tokens(#[from] TokenFileError),
    #[error(transparent)]
    Server(#[from] server::StartError),
    #[error("starting threads: {0}")]
    Threads(#[source] std::io::Error),
    #[error("filling the control planes: {0}")]
    Bootstrap(Status),
}

/// Running control planes. They stop on request or when this is dropped; no data is kept.
pub struct Playground {
    planes: Planes,
    _threads: Option<Threads>,
}

/// The tasks on the threads.
struct Planes {
    server: Server,
    kcp_url: String,
    service_url: String,
    admin_token: String,
    /// Stops the controllers that run beside the requests.
    controllers: DropGuard,
}

/// The threads of the control planes. Their stacks suffice for objects as deep as a server accepts.
struct Threads(Option<Runtime>);

/// Two threads are enough: tests compare answers, not speed.
const THREADS: usize = 2;

impl Threads {
    fn start() -> Result<Self, PlaygroundError> {
        let runtime = Builder::new_multi_thread()
            .worker_threads(THREADS)
            .thread_stack_size(json::STACK)
            .thread_name("playground")
            .enable_all()
            .build();
        Ok(Self(Some(runtime.map_err(PlaygroundError::Threads)?)))
    }

    /// Runs a task on these threads.
    async fn work<T: Send + 'static>(&self, work: impl Future<Output = T> + Send + 'static) -> T {
        let runtime = self
            .0
            .as_ref()
            .expect("threads end only when they are dropped");
        match runtime.spawn(work).await {
            Ok(done) => done,
            Err(broken) => std::panic::resume_unwind(broken.into_panic()),
        }
    }
}

impl Drop for Threads {
    fn drop(&mut self) {
        // The runtime must not be dropped within an async context, so it is shut down in the background.
        if let Some(runtime) = self.0.take() {
            runtime.shutdown_background();
        }
    }
}

impl Playground {
    /// Starts both control planes. They are ready when this returns, and stop when it is dropped. Call it within a
    /// tokio runtime.
    pub async fn start() -> Result<Self, PlaygroundError> {
        Self::start_with(PlaygroundOptions::default()).await
    }

    /// Like `start`, with ports, users, faults or delays.
    pub async fn start_with(options: PlaygroundOptions) -> Result<Self, PlaygroundError> {
        let threads = options.own_threads.then(Threads::start).transpose()?;
        let planes = match &threads {
            Some(threads) => threads.work(Planes::open(options)).await?,
            None => Planes::open(options).await?,
        };
        Ok(Self {
            planes,
            _threads: threads,
        })
    }

    /// `https://127.0.0.1:PORT`, below which are `/clusters/…` and `/services/…`.
    pub fn kcp_url(&self) -> &str {
        &self.planes.kcp_url
    }

    /// `https://127.0.0.1:PORT`
    pub fn service_url(&self) -> &str {
        &self.planes.service_url
    }

    /// A kubeconfig of the administrator for root, with another context for the server without a workspace.
    pub fn kcp_kubeconfig(&self) -> Value {
        let context = |name, path: &str| Context {
            name,
            server: format!("{}{path}", self.planes.kcp_url),
        };
        let contexts = [context("root", "/clusters/root"), context("base", "")];
        server::kubeconfig(
            self.planes.server.ca_pem(),
            ADMIN,
            &self.planes.admin_token,
            &contexts,
        )
    }

    /// A kubeconfig of the administrator for one workspace, such as `root:team`.
    pub fn workspace_kubeconfig(&self, path: &str) -> Value {
        let url = format!("{}/clusters/{path}", self.planes.kcp_url);
        self.kubeconfig_at(&url, ADMIN, &self.planes.admin_token)
    }

    /// A kubeconfig of the administrator for the service cluster.
    pub fn service_kubeconfig(&self) -> Value {
        self.kubeconfig_at(&self.planes.service_url, ADMIN, &self.planes.admin_token)
    }

    /// A kubeconfig of a user in the token file, for any URL of this playground.
    pub fn kubeconfig_at(&self, url: &str, user: &str, token: &str) -> Value {
        let contexts = [Context {
            name: "playground",
            server: url.to_owned(),
        }];
        server::kubeconfig(self.planes.server.ca_pem(), user, token, &contexts)
    }

    /// The faults of both control planes.
    pub fn faults(&self) -> &Arc<Faults> {
        self.planes.server.faults()
    }

    /// The request log.
    pub fn requests(&self) -> &Arc<RequestLog> {
        self.planes.server.requests()
    }

    /// Ends watches, waits a moment for running requests, and closes everything.
    pub async fn stop(self) {
        drop(self.planes.controllers);
        self.planes.server.stop().await;
    }
}

impl Planes {
    async fn open(options: PlaygroundOptions) -> Result<Self, PlaygroundError> {
        let mut tokens = Tokens::default();
        tokens.insert_csv(&options.token_file)?;
        let admin_token = uuid::Uuid::new_v4().simple().to_string();
        let groups = ["system:kcp:admin", "system:masters"];
        tokens.insert(
            &admin_token,
            Identity {
                name: ADMIN.to_owned(),
                uid: String::new(),
                groups: groups.map(str::to_owned).to_vec(),
            },
        );
        let builtin = builtin::resources(&identify(tokens.clone()));
        let mut server = Server::new(ServerOptions {
            faults: options.faults,
            seed: options.seed,
            log_sink: options.log_sink,
            ..ServerOptions::new(tokens)
        })?;
        let stop = CancellationToken::new();
        let opening = Opening {
            retention: options.retention,
            kcp_delays: options.kcp_delays,
            kcp_shards: options.kcp_shards,
            builtin,
            stand_ins: options.stand_ins,
            stop: stop.clone(),
        };
        let service_url = opening.service(&mut server, options.service_port).await?;
        let kcp_url = opening.kcp(&mut server, options.port).await?;
        Ok(Self {
            server,
            kcp_url,
            service_url,
            admin_token,
            controllers: stop.drop_guard(),
        })
    }
}

/// The user of a token, for token reviews.
fn identify(tokens: Tokens) -> builtin::Identify {
    Arc::new(move |token: &str| {
        let header = format!("Bearer {token}");
        let identity = tokens.authenticate(Some(header.as_bytes()))?;
        Some(User {
            name: identity.name.clone(),
            uid: identity.uid.clone(),
            groups: identity.groups.clone(),
        })
    })
}

fn add_settlers(store: &Store) {
    for settler in builtin::settlers() {
        store.add_settler(settler);
    }
    store.add_settler(custom::settler());
}

/// The common settings of both servers.
struct Opening {
    retention: Retention,
    kcp_delays: Duration,
    kcp_shards: NonZeroUsize,
    builtin: Vec<Arc<Resource>>,
    stand_ins: Vec<StandIn>,
    stop: CancellationToken,
}

impl Opening {
    async fn service(&self, server: &mut Server, port: u16) -> Result<String, PlaygroundError> {
        let cluster: Name = SERVICE.into();
        let store = Store::new(StoreOptions {
            plain_clusters: HashSet::from([cluster.clone()]),
            retention: self.retention,
            ..StoreOptions::default()
        });
        add_settlers(&store);
        let mut kinds = self.builtin.clone();
        kinds.extend(self.stand_ins.iter().copied().map(builtin::stand_in));
        let scopes = PlainScopes::new([cluster], kinds);
        store
            .write(|tx| scopes.bootstrap(tx))
            .map_err(PlaygroundError::Bootstrap)?;
        let scopes = Arc::new(scopes);
        self.collect(&store, scopes.clone());
        let rest = Rest::new(store, scopes, SERVICE_VERSION);
        Ok(server
            .open(port, Arc::new(rest), Box::new(ServiceRouter))
            .await?)
    }

    async fn kcp(&self, server: &mut Server, port: u16) -> Result<String, PlaygroundError> {
        let mut definitions = kcp::definitions_of_apis();
        definitions.extend(StoreOptions::default().definitions);
        let store = Store::new(StoreOptions {
            retention: self.retention,
            definitions,
            ..StoreOptions::default()
        });
        add_settlers(&store);
        let base_url = Arc::new(OnceLock::new());
        let options = KcpOptions {
            base_url: Arc::clone(&base_url),
            certificate: server.ca_pem().to_owned(),
            delays: self.kcp_delays,
            shards: self.kcp_shards,
        };
        let kcp = Kcp::new(Arc::clone(&store), self.builtin.clone(), options)
            .map_err(PlaygroundError::Bootstrap)?;
        let rest = Rest::new(Arc::clone(&store), kcp.scopes(), KCP_VERSION);
        let api = Arc::new(kcp.api(rest));
        let url = server.open(port, api, kcp.router()).await?;
        // Objects of kcp contain its URL, so the port has to be known. No request can arrive before this returns.
        base_url.get_or_init(|| url.clone());
        store
            .write(|tx| kcp.bootstrap(tx))
            .map_err(PlaygroundError::Bootstrap)?;
        // The initial objects are not part of the history, so no client can watch their creation.
        store.compact();
        self.collect(&store, kcp.scopes());
        self.spawn(async move { kcp.run().await });
        Ok(url)
    }

    /// Runs garbage collection.
    fn collect(&self, store: &Arc<Store>, scopes: Arc<dyn Scopes>) {
        let collector = Collector::new(Arc::clone(store), scopes);
        self.spawn(async move { collector.run().await });
    }

    /// Runs until the control planes stop.
    fn spawn(&self, work: impl Future<Output = ()> + Send + 'static) {
        let stop = self.stop.clone();
        tokio::spawn(async move {
            tokio::select! {
                () = work => {}
                () = stop.cancelled() => {}
            }
        });
    }
}

/// Maps every request of the service cluster's listener to its one cluster.
struct ServiceRouter;

impl Router for ServiceRouter {
    fn route(&self, address: &Address, _user: &User) -> Result<Scope, Status> {
        match &address.front {
            Front::Top => Ok(Scope::Cluster(SERVICE.into())),
            _ => Err(Status::page_not_found()),
        }
    }
}

#[cfg(test)]
mod tests;
