//! One test's world: a kcp of its own, a service cluster, an export, workspaces that bind it, and
//! the agents between them.

use std::fs;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use kcp_playground::Playground;
use kcp_playground::PlaygroundOptions;
use kcp_playground::server::{LoggedRequest, RequestLog};
use parking_lot::Mutex;
use serde_json::{Map, Value, json};
use tempfile::TempDir;
use testbed::{Launch, Port, Process, eventually, unique};
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::plane::{Kind, Plane};
use super::process::page;
use super::service::{self, Agency, Ground};
use super::{SOON, sha1_hex};
use crate::canary::{ANNOTATION, CANARY, FIELD, is_told};
use crate::chaos::hawser;

const WORKSPACES: &str = "/apis/tenancy.kcp.io/v1alpha1/workspaces";
const BINDINGS: &str = "/apis/apis.kcp.io/v1alpha1/apibindings";
pub(super) const EXPORTS: &str = "/apis/apis.kcp.io/v1alpha1/apiexports";
pub(super) const SCHEMAS: &str = "/apis/apis.kcp.io/v1alpha1/apiresourceschemas";
pub(super) const PUBLISHED: &str = "/apis/syncagent.kcp.io/v1alpha1/publishedresources";

/// The export that agents publish with; its endpoint slice has the same name.
pub(super) const EXPORT: &str = "wares";
/// Whom the playground's request log shows for an agent, on each side.
pub(super) const KCP_USER: &str = "agent-in-kcp";
pub(super) const SERVICE_USER: &str = "agent-on-service";
pub(super) const RENEWED_USER: &str = "agent-renewed";
pub(super) const RENEWED_TOKEN: &str = "renewed-token";
/// Whom it shows for each of several replicas, and their tokens.
pub(super) const REPLICAS: [(&str, &str); 4] = [
    ("replica-0", "replica-0-token"),
    ("replica-1", "replica-1-token"),
    ("replica-2", "replica-2-token"),
    ("replica-3", "replica-3-token"),
];
/// Whom it shows for the consumer of a workspace.
pub(super) const CONSUMER: &str = "consumer";
const TOKENS: &str = "kcp-token,agent-in-kcp,1,\"agents\"\nservice-token,agent-on-service,2,\"agents\"\n\
                      renewed-token,agent-renewed,3,\"agents\"\n\
                      consumer-token,consumer,4,\"consumers\"\n\
                      replica-0-token,replica-0,5,\"agents\"\nreplica-1-token,replica-1,6,\"agents\"\n\
                      replica-2-token,replica-2,7,\"agents\"\nreplica-3-token,replica-3,8,\"agents\"\n";

/// How often the pages of agents are looked through.
const LOOK: Duration = Duration::from_millis(500);

pub(super) struct World {
    pub(super) ground: Ground,
    pub(super) playground: Playground,
    /// The top of kcp; workspaces are reached from it.
    pub(super) kcp: Plane,
    /// Where the export is.
    pub(super) org: Plane,
    pub(super) service: Plane,
    /// The agent's name, and the label by which it knows its resources.
    pub(super) agent: String,
    /// The group of the published kinds, on this test's side of a shared cluster.
    pub(super) group: String,
    pub(super) namespace: String,
    pub(super) directory: TempDir,
    service_kubeconfig: PathBuf,
    agents: AtomicUsize,
    workspaces: Mutex<Vec<String>>,
    /// Pages of metrics and problems that have a planted word, and who looks for them.
    pages: Arc<Mutex<Vec<String>>>,
    readers: Mutex<JoinSet<()>>,
    /// Where the agent that was launched last has its metrics and its page.
    ports: Mutex<Option<[Arc<Port>; 2]>>,
    /// Files with the definitions that were installed.
    definitions: Mutex<Vec<PathBuf>>,
    /// The API groups to which the agent gets no rights with the roles.
    withheld: Mutex<Vec<String>>,
}

/// A workspace of a consumer.
#[derive(Clone)]
pub(super) struct Team {
    pub(super) plane: Plane,
    pub(super) name: String,
    /// Its logical cluster.
    pub(super) cluster: String,
}

/// Runs a test in a world of its own; what the agents logged is shown if it fails.
pub(super) async fn run(ground: Ground, test: impl AsyncFnOnce(&World) -> Result<()>) {
    run_with(ground, PlaygroundOptions::default(), test).await;
}

/// The same where kcp takes its time, as a real one does, though less of it.
pub(super) async fn run_slowly(test: impl AsyncFnOnce(&World) -> Result<()>) {
    let options = PlaygroundOptions {
        kcp_delays: Duration::from_millis(300),
        ..PlaygroundOptions::default()
    };
    run_with(Ground::Playground, options, test).await;
}

/// The same with three shards of kcp, each with an endpoint of its own.
pub(super) async fn run_on_three_shards(test: impl AsyncFnOnce(&World) -> Result<()>) {
    let options = PlaygroundOptions {
        kcp_shards: const { NonZeroUsize::new(3).expect("three is not zero") },
        ..PlaygroundOptions::default()
    };
    run_with(Ground::Playground, options, test).await;
}

pub(super) async fn run_with(
    ground: Ground,
    options: PlaygroundOptions,
    test: impl AsyncFnOnce(&World) -> Result<()>,
) {
    let world = World::start_with(ground, options)
        .await
        .expect("the world is made");
    if let Err(error) = test(&world).await {
        panic!("{error:?}");
    }
    let told = world.told().await.expect("what agents told is read");
    let told: Vec<&String> = told.iter().filter(|told| is_told(told)).collect();
    assert_eq!(told, [""; 0], "an agent tells what an object contains");
}

/// Puts the word into what anybody makes with data: a Secret or a ConfigMap.
pub(super) fn with_planted_data(object: &Value) -> Value {
    let mut object = object.clone();
    let field = match object["kind"].as_str() {
        Some("Secret") => "stringData",
        Some("ConfigMap") => "data",
        _ => return object,
    };
    if let Some(data) = object[field]
        .as_object_mut()
        .filter(|data| !data.is_empty())
    {
        data.insert(FIELD.to_owned(), CANARY.into());
    }
    object
}

/// Puts the word into a status that somebody writes.
pub(super) fn with_planted_status(path: &str, mut patch: Value) -> Value {
    if path.ends_with("/status")
        && let Some(status) = patch["status"]
            .as_object_mut()
            .filter(|status| !status.is_empty())
    {
        status.insert(FIELD.to_owned(), CANARY.into());
    }
    patch
}

/// Reads the metrics of an agent for as long as the test lasts, and keeps pages with the planted word.
async fn look_through(ports: [Arc<Port>; 2], found: Arc<Mutex<Vec<String>>>) {
    loop {
        let [metrics, problems] = &ports;
        for (port, path) in [
            (metrics, "/metrics"),
            (problems, "/"),
            (problems, "/overview.json"),
        ] {
            if let Ok((_, text)) = page(port, path).await
                && is_told(&text)
            {
                found.lock().push(text);
            }
        }
        tokio::time::sleep(LOOK).await;
    }
}

/// Puts the word into an object of a consumer.
fn planted(mut object: Value) -> Value {
    object["metadata"]["annotations"][ANNOTATION] = CANARY.into();
    if let Some(spec) = object["spec"].as_object_mut() {
        spec.insert(FIELD.to_owned(), CANARY.into());
    }
    object
}

/// A document without the word that tests plant.
pub(super) fn bare(document: &Value) -> Value {
    match document {
        Value::Object(map) => {
            let planted = |key: &str| key == ANNOTATION || key == FIELD;
            let others = map.iter().filter(|(key, _)| !planted(key));
            Value::Object(
                others
                    .map(|(key, value)| (key.clone(), bare(value)))
                    .collect(),
            )
        }
        Value::Array(items) => items.iter().map(bare).collect(),
        _ => document.clone(),
    }
}

impl World {
    pub(super) async fn start_with(ground: Ground, options: PlaygroundOptions) -> Result<Self> {
        let options = PlaygroundOptions {
            token_file: TOKENS.to_owned(),
            ..options
        };
        let playground = Playground::start_with(options).await?;
        let directory = tempfile::tempdir()?;
        let agent = unique("agent");
        let group = format!("{agent}.example.com");
        let mut above_workspaces = playground.kcp_kubeconfig();
        above_workspaces["current-context"] = "base".into();
        let top = Plane::of(&above_workspaces).await?;
        let root = top.workspace("root");
        make_workspace(&root, "org").await?;
        let org = top.workspace("root:org");
        let export = json!({"apiVersion": "apis.kcp.io/v1alpha1", "kind": "APIExport", "metadata": {"name": EXPORT}, "spec": {}});
        org.create(EXPORTS, &export).await?;

        let user = format!("{agent}-user");
        let (service, service_kubeconfig) = if ground == Ground::Playground {
            let plane = Plane::of(&playground.service_kubeconfig()).await?;
            service::install(&plane, &service::own_crd()).await?;
            let own =
                playground.kubeconfig_at(playground.service_url(), SERVICE_USER, "service-token");
            let file = directory.path().join("service.kubeconfig");
            fs::write(&file, own.to_string())?;
            (plane, file)
        } else {
            let cluster = service::cluster(ground).await?;
            let plane = Plane::new(cluster.admin().client()?);
            let file = cluster.user(&user, &[])?.kubeconfig_file().to_owned();
            (plane, file)
        };
        let namespace = unique("syncagent");
        service.namespace(&namespace, json!({})).await?;
        let agency = Agency {
            user: &user,
            namespace: &namespace,
            groups: vec![&group],
        };
        if ground == Ground::Original {
            service::grant(&service, &agency).await?;
        }
        let world = Self {
            ground,
            playground,
            kcp: top,
            org,
            service,
            agent,
            group,
            namespace,
            directory,
            service_kubeconfig,
            agents: AtomicUsize::new(0),
            workspaces: Mutex::default(),
            pages: Arc::default(),
            readers: Mutex::default(),
            ports: Mutex::default(),
            definitions: Mutex::default(),
            withheld: Mutex::default(),
        };
        // An agent that has nothing to publish yet has rights as well.
        let nothing = Kind::new(&world.group, "v1", "nothings", "Nothing");
        world
            .authorize(&world.published("nothing", &nothing, json!({})))
            .await?;
        Ok(world)
    }

    /// Gives the agent the roles that `hawser rbac` prints for a published resource, if these are all that it has.
    pub(super) async fn authorize(&self, published: &Value) -> Result<()> {
        self.authorize_with(published, &[]).await
    }

    /// The same with more flags for `hawser rbac`.
    pub(super) async fn authorize_with(&self, published: &Value, more: &[&str]) -> Result<()> {
        if !matches!(self.ground, Ground::Ours | Ground::Apart) {
            return Ok(());
        }
        let file = self.directory.path().join(unique("published.yaml"));
        fs::write(&file, published.to_string())?;
        let files = [&[file][..], &self.definitions.lock()].concat();
        let files: Vec<String> = files
            .iter()
            .map(|file| format!("--filename={}", file.display()))
            .collect();
        let args = ["rbac", "--side=service", "--output=json"].into_iter();
        let args = args.chain(files.iter().map(String::as_str));
        let args: Vec<&str> = args.chain(more.iter().copied()).collect();
        let (succeeds, list, _) = self.command(&args).await?;
        // What cannot be published needs no rights.
        if !succeeds {
            return Ok(());
        }
        let list: Value = serde_json::from_str(&list)?;
        for role in list["items"].as_array().context("no roles")? {
            let namespace = role["metadata"]["namespace"].as_str();
            let mut rules = role["rules"].as_array().context("no rules")?.clone();
            let withheld = self.withheld.lock().clone();
            rules.retain(|rule| !withheld.iter().any(|group| rule["apiGroups"][0] == **group));
            service::bind(&self.service, &self.user(), namespace, &rules).await?;
        }
        Ok(())
    }

    /// From now on, roles come without this API group, as if an administrator had forgotten it.
    pub(super) fn withhold(&self, group: &str) {
        self.withheld.lock().push(group.to_owned());
    }

    /// Remembers a definition for those who ask for roles.
    pub(super) fn note_definition(&self, crd: &Value) -> Result<()> {
        let file = self.directory.path().join(unique("definition.yaml"));
        fs::write(&file, crd.to_string())?;
        self.definitions.lock().push(file);
        Ok(())
    }

    /// The user that agents are on the service cluster.
    pub(super) fn user(&self) -> String {
        format!("{}-user", self.agent)
    }

    /// Where the agents' view of kcp is written down.
    pub(super) fn kcp_kubeconfig(&self) -> Result<PathBuf> {
        let file = self.directory.path().join("kcp.kubeconfig");
        let url = format!("{}/clusters/root:org", self.playground.kcp_url());
        let own = self.playground.kubeconfig_at(&url, KCP_USER, "kcp-token");
        write_at_once(&file, &own.to_string())?;
        Ok(file)
    }

    pub(super) fn service_kubeconfig(&self) -> &Path {
        &self.service_kubeconfig
    }

    /// A consumer's view of one workspace.
    pub(super) fn consumer_kubeconfig(&self, team: &Team) -> Result<PathBuf> {
        let file = self.directory.path().join("consumer.kubeconfig");
        let url = format!(
            "{}/clusters/root:org:{}",
            self.playground.kcp_url(),
            team.name
        );
        let own = self
            .playground
            .kubeconfig_at(&url, CONSUMER, "consumer-token");
        write_at_once(&file, &own.to_string())?;
        Ok(file)
    }

    /// An agent that is about to be started, with all the flags that it needs.
    pub(super) fn launch(&self) -> Result<Launch> {
        let number = self.agents.fetch_add(1, Ordering::Relaxed);
        let kcp = self.kcp_kubeconfig()?;
        let ports = [Arc::new(Port::reserve()?), Arc::new(Port::reserve()?)];
        let [metrics, problems] = ports.each_ref().map(|port| port.number());
        *self.ports.lock() = Some(ports.clone());
        let mut readers = self.readers.lock();
        readers.spawn(look_through(ports, Arc::clone(&self.pages)));
        Ok(Launch::new(format!("agent {number}"), hawser())
            .args(["agent", "--log-format=Console", "--log-debug"])
            .arg(format!("--namespace={}", self.namespace))
            .arg(format!(
                "--kubeconfig={}",
                self.service_kubeconfig.display()
            ))
            .arg(format!("--kcp-kubeconfig={}", kcp.display()))
            .arg(format!("--apiexportendpointslice-ref={EXPORT}"))
            .arg(format!("--agent-name={}", self.agent))
            .arg(format!(
                "--published-resource-selector=agent={}",
                self.agent
            ))
            .arg(format!("--metrics-address=127.0.0.1:{metrics}"))
            .arg(format!("--page-address=127.0.0.1:{problems}"))
            .log(self.log(number)))
    }

    /// Where the agent that was launched last has its metrics.
    pub(super) fn metrics(&self) -> Result<Arc<Port>> {
        let [metrics, _] = self.ports.lock().clone().context("no agent was launched")?;
        Ok(metrics)
    }

    /// Where the agent that was launched last has its page.
    pub(super) fn page(&self) -> Result<Arc<Port>> {
        let [_, page] = self.ports.lock().clone().context("no agent was launched")?;
        Ok(page)
    }

    /// The flags by which a command beside the agent knows it.
    pub(super) fn place(&self) -> Result<[String; 6]> {
        let kcp = self.kcp_kubeconfig()?;
        Ok([
            format!("--namespace={}", self.namespace),
            format!("--kubeconfig={}", self.service_kubeconfig.display()),
            format!("--kcp-kubeconfig={}", kcp.display()),
            format!("--apiexportendpointslice-ref={EXPORT}"),
            format!("--agent-name={}", self.agent),
            format!("--published-resource-selector=agent={}", self.agent),
        ])
    }

    /// Runs a command beside the agent; whether it succeeds, its stdout and its stderr.
    pub(super) async fn command(&self, args: &[&str]) -> Result<(bool, String, String)> {
        let place = self.place()?;
        let place = place.iter().map(String::as_str);
        let args: Vec<&str> = args.iter().copied().chain(place).collect();
        Self::run_alone(&args).await
    }

    /// The same without the flags by which the agent is known.
    pub(super) async fn run_alone(args: &[&str]) -> Result<(bool, String, String)> {
        let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_hawser"));
        command.args(args);
        let output = tokio::task::spawn_blocking(move || command.output()).await??;
        Ok((
            output.status.success(),
            String::from_utf8(output.stdout)?,
            String::from_utf8(output.stderr)?,
        ))
    }

    /// A running agent that leads by a lease.
    pub(super) fn start_agent_that_elects(&self) -> Result<Process> {
        self.launch()?.arg("--enable-leader-election").spawn()
    }

    /// A running agent.
    pub(super) fn start_agent(&self) -> Result<Process> {
        self.launch()?.spawn()
    }

    /// All that agents have logged.
    pub(super) fn logged(&self) -> Result<String> {
        let agents = 0..self.agents.load(Ordering::Relaxed);
        let logs = agents.map(|number| self.log(number));
        let logs = logs.filter(|log| log.exists()).map(fs::read_to_string);
        Ok(logs.collect::<Result<Vec<_>, _>>()?.concat())
    }

    /// All that agents tell: logs, events, what is said of published resources, and metrics.
    async fn told(&self) -> Result<Vec<String>> {
        const EVENTS: &str = "/api/v1/namespaces/default/events";
        let mut told: Vec<String> = self.logged()?.lines().map(str::to_owned).collect();
        let mut objects = Vec::new();
        let workspaces = self.workspaces.lock().clone();
        for name in workspaces {
            let workspace = self.kcp.workspace(&format!("root:org:{name}"));
            // Some are deleted by now.
            objects.extend(workspace.list(EVENTS).await.unwrap_or_default());
        }
        objects.extend(
            self.service
                .list("/api/v1/namespaces/default/events")
                .await?,
        );
        objects.extend(self.service.list(PUBLISHED).await?);
        told.extend(objects.iter().map(Value::to_string));
        told.extend(self.pages.lock().iter().cloned());
        Ok(told)
    }

    fn log(&self, number: usize) -> PathBuf {
        self.directory.path().join(format!("agent-{number}.log"))
    }

    /// Publishes a kind with more in its spec than the kind itself; the name of what says so.
    pub(super) async fn publish(&self, kind: &Kind, more: Value) -> Result<String> {
        let name = unique("pr");
        self.create_published(&name, self.published(&name, kind, more))
            .await?;
        Ok(name)
    }

    pub(super) async fn create_published(&self, name: &str, object: Value) -> Result<Value> {
        self.authorize(&object).await?;
        let made = self.service.create(PUBLISHED, &object).await;
        made.with_context(|| format!("publishing {name}"))
    }

    /// Changes a published resource, after the agent was given the rights for it.
    pub(super) async fn change_published(&self, name: &str, patch: Value) -> Result<Value> {
        let at = format!("{PUBLISHED}/{name}");
        let tried = format!("{at}?dryRun=All");
        let changed = self.service.merge(&tried, patch.clone()).await?;
        self.authorize(&changed).await?;
        Ok(self.service.merge(&at, patch).await?)
    }

    /// The document that publishes a kind.
    pub(super) fn published(&self, name: &str, kind: &Kind, more: Value) -> Value {
        let mut spec = json!({"resource": {"apiGroup": kind.group, "kind": kind.name}});
        let fields = spec.as_object_mut().expect("an object");
        if let Value::Object(more) = more {
            for (field, value) in more {
                match (fields.get_mut(&field), value) {
                    (Some(Value::Object(before)), Value::Object(value)) => before.extend(value),
                    (_, value) => {
                        fields.insert(field, value);
                    }
                }
            }
        }
        json!({
            "apiVersion": "syncagent.kcp.io/v1alpha1", "kind": "PublishedResource",
            "metadata": {"name": name, "labels": {"agent": self.agent}}, "spec": spec,
        })
    }

    /// The name of the schema that a resource is published with, once it is in the export.
    pub(super) async fn await_published(&self, name: &str) -> String {
        let what = format!("{name} is published");
        eventually(SOON, &what, async || -> Result<String> {
            let found = self.service.get(&format!("{PUBLISHED}/{name}")).await?;
            let schema = found["status"]["resourceSchemaName"].as_str();
            let schema = schema.with_context(|| format!("status {}", found["status"]))?;
            let export = self.export().await?;
            let listed = export["spec"]["latestResourceSchemas"].as_array();
            ensure!(
                listed.is_some_and(|all| all.iter().any(|one| one == schema)),
                "the export has {}",
                export["spec"]
            );
            Ok(schema.to_owned())
        })
        .await
    }

    pub(super) async fn export(&self) -> Result<Value> {
        Ok(self.org.get(&format!("{EXPORTS}/{EXPORT}")).await?)
    }

    /// A workspace that has bound the export and accepted all that it claims.
    pub(super) async fn team(&self, name: &str) -> Result<Team> {
        let team = self.workspace(name).await?;
        self.bind(&team).await?;
        Ok(team)
    }

    /// A workspace that has bound nothing.
    pub(super) async fn workspace(&self, name: &str) -> Result<Team> {
        let cluster = make_workspace(&self.org, name).await?;
        self.workspaces.lock().push(name.to_owned());
        Ok(Team {
            // By path, whereas agents come by the logical cluster: faults tell them apart by it.
            plane: self.kcp.workspace(&format!("root:org:{name}")),
            name: name.to_owned(),
            cluster,
        })
    }

    pub(super) async fn bind(&self, team: &Team) -> Result<()> {
        let export = self.export().await?;
        let claims: Vec<Value> = export["spec"]["permissionClaims"]
            .as_array()
            .into_iter()
            .flatten()
            .map(|claim| {
                let mut accepted = claim.clone();
                accepted["state"] = "Accepted".into();
                accepted
            })
            .collect();
        self.bind_accepting(team, claims.into()).await
    }

    /// The same with the claims that this workspace accepts.
    pub(super) async fn bind_accepting(&self, team: &Team, claims: Value) -> Result<()> {
        let binding = json!({
            "apiVersion": "apis.kcp.io/v1alpha1", "kind": "APIBinding", "metadata": {"name": EXPORT},
            "spec": {"reference": {"export": {"name": EXPORT, "path": "root:org"}}, "permissionClaims": claims},
        });
        team.plane.create(BINDINGS, &binding).await?;
        eventually(SOON, "the binding is ready", async || -> Result<()> {
            let found = team.plane.get(&format!("{BINDINGS}/{EXPORT}")).await?;
            ensure!(found["status"]["phase"] == "Bound", "{}", found["status"]);
            Ok(())
        })
        .await;
        Ok(())
    }

    pub(super) async fn unbind(&self, team: &Team) -> Result<()> {
        let at = format!("{BINDINGS}/{EXPORT}");
        team.plane.delete(&at).await?;
        Ok(())
    }

    /// The copy of an object, found by its marks.
    pub(super) async fn copy(&self, kind: &Kind, of: Of<'_>) -> Result<Option<Value>> {
        let selector = of
            .labels()
            .iter()
            .map(|(key, value)| format!("{key}={}", value.as_str().unwrap_or_default()))
            .collect::<Vec<_>>()
            .join(",");
        let path = format!("{}?labelSelector={selector}", kind.everywhere());
        let mut found = self.service.list(&path).await?;
        ensure!(found.len() < 2, "{} copies of one object", found.len());
        Ok(found.pop())
    }

    pub(super) async fn await_copy(&self, kind: &Kind, of: Of<'_>) -> Value {
        let what = format!("{} has a copy", of.name);
        eventually(SOON, &what, async || {
            self.copy(kind, of).await?.context("there is none")
        })
        .await
    }

    /// Waits until the copy has this at a JSON pointer; `null` is what is not there.
    pub(super) async fn await_in_copy(
        &self,
        kind: &Kind,
        of: Of<'_>,
        pointer: &str,
        wanted: Value,
    ) -> Value {
        let what = format!("the copy of {} has {wanted} at {pointer}", of.name);
        eventually(SOON, &what, async || {
            let copy = self.copy(kind, of).await?.context("there is no copy")?;
            has(&copy, pointer, &wanted)?;
            anyhow::Ok(copy)
        })
        .await
    }

    pub(super) async fn await_no_copy(&self, kind: &Kind, of: Of<'_>) {
        let what = format!("the copy of {} is gone", of.name);
        eventually(SOON, &what, async || {
            ensure!(self.copy(kind, of).await?.is_none(), "it is there");
            Ok(())
        })
        .await;
    }

    /// Waits until an object that is made now has a copy: what happened before has been looked at.
    pub(super) async fn await_marker(&self, kind: &Kind, team: &Team) {
        let name = unique("marker");
        team.make(kind, &name, json!({})).await;
        self.await_copy(kind, team.of(&name)).await;
    }

    /// Lets the second go by after which nothing may be written any more on behalf of what was
    /// stopped; other objects keep the agent busy meanwhile.
    pub(super) async fn await_still(&self, kind: &Kind, team: &Team) {
        let begin = Instant::now();
        while begin.elapsed() < Duration::from_secs(1) {
            self.await_marker(kind, team).await;
        }
    }

    /// The same, after the agent has seen what was changed about published resources: it has seen another
    /// one that comes later.
    pub(super) async fn await_noticed(&self, kind: &Kind, team: &Team) -> Result<()> {
        let later = unique("later").replace('-', "");
        let crd = super::definition(&self.group, &format!("{later}s"), &format!("L{later}"));
        let of = self.install(&crd).await?;
        let published = self
            .publish(&of, json!({"synchronization": {"enabled": false}}))
            .await?;
        self.await_published(&published).await;
        self.await_still(kind, team).await;
        Ok(())
    }

    /// Waits until the conditions of a PublishedResource are written: the last that happens to it.
    pub(super) async fn await_conditions(&self, name: &str) {
        eventually(SOON, "conditions are written", async || {
            let found = self.service.get(&format!("{PUBLISHED}/{name}")).await?;
            let conditions = &found["status"]["conditions"];
            ensure!(conditions[0]["status"] == "True", "{}", found["status"]);
            Ok(())
        })
        .await;
    }

    pub(super) fn requests(&self) -> &RequestLog {
        self.playground.requests()
    }

    /// What the agents asked for since a mark.
    pub(super) fn agents_requests(&self, mark: u64) -> Vec<LoggedRequest> {
        let mut all = self.requests().since(mark);
        // Questions about rights store nothing, and come any time.
        all.retain(|request| {
            [KCP_USER, SERVICE_USER].contains(&request.user.as_str())
                && request.group != "authorization.k8s.io"
        });
        all
    }
}

/// What the agents logged is shown where a test fails.
impl Drop for World {
    fn drop(&mut self) {
        if !thread::panicking() {
            return;
        }
        for number in 0..*self.agents.get_mut() {
            let text = fs::read_to_string(self.log(number)).unwrap_or_default();
            let lines: Vec<&str> = text.lines().collect();
            let tail = lines[lines.len().saturating_sub(80)..].join("\n");
            #[expect(
                clippy::print_stderr,
                reason = "the test has failed, and this says why"
            )]
            {
                eprintln!("--- agent {number} of {} ends:\n{tail}", self.agent);
            }
        }
        let requests = self.agents_requests(0);
        let tail: Vec<String> = requests[requests.len().saturating_sub(80)..]
            .iter()
            .map(shown)
            .collect();
        #[expect(
            clippy::print_stderr,
            reason = "the test has failed, and this says why"
        )]
        {
            eprintln!("--- its requests end:\n{}", tail.join("\n"));
        }
    }
}

/// An object of a consumer.
#[derive(Clone, Copy)]
pub(super) struct Of<'o> {
    pub(super) team: &'o Team,
    /// Empty for an object without one.
    pub(super) namespace: &'o str,
    pub(super) name: &'o str,
}

impl Of<'_> {
    /// The labels that the contract gives the copy.
    pub(super) fn labels(&self) -> Map<String, Value> {
        let mut labels = Map::new();
        let mut put = |key: &str, value: String| {
            labels.insert(
                format!("syncagent.kcp.io/remote-object-{key}"),
                value.into(),
            );
        };
        put("cluster", self.team.cluster.clone());
        put("name-hash", sha1_hex(self.name));
        if !self.namespace.is_empty() {
            put("namespace-hash", sha1_hex(self.namespace));
        }
        labels
    }
}

impl Team {
    /// One of its objects in the namespace `default`.
    pub(super) fn of<'o>(&'o self, name: &'o str) -> Of<'o> {
        self.within("default", name)
    }

    pub(super) fn within<'o>(&'o self, namespace: &'o str, name: &'o str) -> Of<'o> {
        Of {
            team: self,
            namespace,
            name,
        }
    }

    /// Makes an object in `default`, trying until the kind is served.
    pub(super) async fn make(&self, kind: &Kind, name: &str, spec: Value) -> Value {
        let object = planted(kind.object(name, spec));
        self.make_at(&kind.within("default"), &object).await
    }

    /// The same where every byte of it counts.
    pub(super) async fn make_bare(&self, kind: &Kind, name: &str, spec: Value) -> Value {
        self.make_at(&kind.within("default"), &kind.object(name, spec))
            .await
    }

    pub(super) async fn make_at(&self, path: &str, object: &Value) -> Value {
        let what = format!("{} can be made", object["metadata"]["name"]);
        eventually(SOON, &what, async || self.plane.create(path, object).await).await
    }

    pub(super) async fn get(&self, kind: &Kind, name: &str) -> Result<Value> {
        Ok(self.plane.get(&kind.at("default", name)).await?)
    }

    pub(super) async fn patch(&self, kind: &Kind, name: &str, patch: Value) -> Result<Value> {
        Ok(self.plane.merge(&kind.at("default", name), patch).await?)
    }

    pub(super) async fn delete(&self, kind: &Kind, name: &str) -> Result<()> {
        self.plane.delete(&kind.at("default", name)).await?;
        Ok(())
    }

    pub(super) async fn await_gone(&self, kind: &Kind, name: &str) {
        let what = format!("{name} is gone");
        eventually(SOON, &what, async || -> Result<()> {
            let found = self.plane.find(&kind.at("default", name)).await?;
            ensure!(
                found.is_none(),
                "it is there: {}",
                found.unwrap_or_default()
            );
            Ok(())
        })
        .await;
    }

    /// Waits until the object itself has this at a JSON pointer.
    pub(super) async fn await_in(
        &self,
        kind: &Kind,
        name: &str,
        pointer: &str,
        wanted: Value,
    ) -> Value {
        let what = format!("{name} has {wanted} at {pointer}");
        eventually(SOON, &what, async || {
            let found = self.get(kind, name).await?;
            has(&found, pointer, &wanted)?;
            anyhow::Ok(found)
        })
        .await
    }
}

/// What a request is, to those who count.
pub(super) trait Counted {
    fn is_write(&self) -> bool;
}

impl Counted for LoggedRequest {
    fn is_write(&self) -> bool {
        ["create", "update", "patch", "delete", "deletecollection"].contains(&self.verb.as_str())
    }
}

/// A request in one line.
pub(super) fn shown(request: &LoggedRequest) -> String {
    format!(
        "{} {} {} {} {}/{} {}/{} {} {}",
        request.number,
        request.user,
        request.verb,
        request.cluster,
        request.group,
        request.resource,
        request.namespace,
        request.name,
        request.subresource,
        request.code,
    )
}

/// True if an object has this at a JSON pointer, beside what every object has; `null` is what is not there.
pub(super) fn has(object: &Value, pointer: &str, wanted: &Value) -> Result<()> {
    let found = object.pointer(pointer).unwrap_or(&Value::Null);
    ensure!(
        found == wanted || bare(found) == *wanted,
        "{pointer} is {found}"
    );
    Ok(())
}

/// Replaces a file, so that a process that reads it meanwhile never sees a part.
fn write_at_once(file: &Path, text: &str) -> Result<()> {
    let new = file.with_extension(unique("new"));
    fs::write(&new, text)?;
    Ok(fs::rename(&new, file)?)
}

async fn make_workspace(parent: &Plane, name: &str) -> Result<String> {
    let object = json!({"apiVersion": "tenancy.kcp.io/v1alpha1", "kind": "Workspace", "metadata": {"name": name}});
    parent.create(WORKSPACES, &object).await?;
    let what = format!("workspace {name} is ready");
    Ok(eventually(SOON, &what, async || -> Result<String> {
        let found = parent.get(&format!("{WORKSPACES}/{name}")).await?;
        ensure!(found["status"]["phase"] == "Ready", "{}", found["status"]);
        let cluster = found["spec"]["cluster"].as_str();
        Ok(cluster.context("no cluster")?.to_owned())
    })
    .await)
}
