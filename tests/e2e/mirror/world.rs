//! A cloud and a robot, both real, and everything between them: the way into the cloud with its record,
//! a link to each, and the mirror as a process.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::path::PathBuf;

use anyhow::{Context as _, Result, bail, ensure};
use kube::Client;
use kube::api::{
    Api, ApiResource, DeleteParams, DynamicObject, GroupVersionKind, ListParams, Patch,
    PatchParams, PostParams,
};
use serde_json::{Value, json};
use testbed::entry::Recorded;
use testbed::{Access, Entry, Launch, Link, Process, SOON, ServiceCluster, eventually};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::canary::{CANARY, FIELD, assert_untold};

pub(super) const PREFIX: &str = "/apis/core.kubernetes";
pub(super) const LABEL: &str = "cloudrobotics.com/robot-name";
pub(super) const VERSION: &str = "cr-syncer.cloudrobotics.com/remote-resource-version";
const HEALTH: &str = "/apis/registry.cloudrobotics.com/v1alpha1/robottypes";
pub(super) const GROUP: &str = "fleet.example.com";
pub(super) const SPEC_SOURCE: &str = "cr-syncer.cloudrobotics.com/spec-source";
const FILTER: &str = "cr-syncer.cloudrobotics.com/filter-by-robot-name";
const SUBTREE: &str = "cr-syncer.cloudrobotics.com/status-subtree";

/// A type, and how it is kept in step.
#[derive(Debug, Clone, Copy)]
pub(super) struct Type {
    pub(super) plural: &'static str,
    pub(super) kind: &'static str,
    pub(super) cluster_scoped: bool,
    pub(super) subresource: bool,
    pub(super) filtered: bool,
    pub(super) subtree: Option<&'static str>,
    pub(super) owner: &'static str,
}

/// For robot `r1`, with the status as a subresource.
pub(super) const MISSIONS: Type = Type {
    plural: "missions",
    kind: "Mission",
    cluster_scoped: false,
    subresource: true,
    filtered: true,
    subtree: None,
    owner: "cloud",
};
/// For every robot, with the status in the object.
pub(super) const MAPS: Type = Type {
    plural: "maps",
    kind: "Map",
    subresource: false,
    filtered: false,
    ..MISSIONS
};

impl Type {
    pub(super) fn definition(&self) -> Value {
        let mut annotations = json!({SPEC_SOURCE: self.owner});
        if self.filtered {
            annotations[FILTER] = "true".into();
        }
        if let Some(key) = self.subtree {
            annotations[SUBTREE] = key.into();
        }
        let open = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
        let mut version = json!({
            "name": "v1", "served": true, "storage": true,
            "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": open, "status": open}}},
        });
        if self.subresource {
            version["subresources"] = json!({"status": {}});
        }
        json!({
            "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": {"name": self.name(), "annotations": annotations},
            "spec": {
                "group": GROUP,
                "scope": if self.cluster_scoped { "Cluster" } else { "Namespaced" },
                "names": {"plural": self.plural, "kind": self.kind},
                "versions": [version],
            },
        })
    }

    pub(super) fn name(&self) -> String {
        format!("{}.{GROUP}", self.plural)
    }

    fn resource(&self) -> ApiResource {
        let kind = GroupVersionKind::gvk(GROUP, "v1", self.kind);
        ApiResource::from_gvk_with_plural(&kind, self.plural)
    }

    fn api(&self, client: Client) -> Api<DynamicObject> {
        if self.cluster_scoped {
            Api::all_with(client, &self.resource())
        } else {
            Api::namespaced_with(client, "default", &self.resource())
        }
    }
}

/// The objects of one type in one cluster, as an administrator has them.
#[derive(Clone)]
pub(super) struct Objects {
    of: Type,
    side: &'static str,
    api: Api<DynamicObject>,
}

impl Objects {
    /// Makes one with the robot's label, and what more is given.
    pub(super) async fn create(&self, name: &str, more: Value) -> Result<Value> {
        let mut object = json!({
            "apiVersion": format!("{GROUP}/v1"), "kind": self.of.kind,
            "metadata": {"name": name, "labels": {LABEL: "r1"}}, "spec": {"goal": "a"},
        });
        merge(&mut object, more);
        plant(&mut object["metadata"]["annotations"]);
        plant(&mut object["spec"]);
        let object = serde_json::from_value(object)?;
        let made = self.api.create(&PostParams::default(), &object).await;
        let made = made.with_context(|| format!("making {name} in the {}", self.side))?;
        Ok(serde_json::to_value(made)?)
    }

    pub(super) async fn patch(&self, name: &str, patch: Value) -> Result<()> {
        let patch = Patch::Merge(patch);
        let done = self.api.patch(name, &PatchParams::default(), &patch).await;
        done.with_context(|| format!("patching {name} in the {}", self.side))?;
        Ok(())
    }

    /// Writes the status as the type has it.
    pub(super) async fn status(&self, name: &str, mut status: Value) -> Result<()> {
        // Of one field of it nothing else travels.
        if self.of.subtree.is_none() && status != json!({}) {
            plant(&mut status);
        }
        let patch = json!({"status": status});
        if !self.of.subresource {
            return self.patch(name, patch).await;
        }
        let patch = Patch::Merge(patch);
        let params = PatchParams::default();
        let done = self.api.patch_status(name, &params, &patch).await;
        done.with_context(|| format!("the status of {name} in the {}", self.side))?;
        Ok(())
    }

    pub(super) async fn delete(&self, name: &str) -> Result<()> {
        self.api.delete(name, &DeleteParams::default()).await?;
        Ok(())
    }

    pub(super) async fn get(&self, name: &str) -> Result<Option<Value>> {
        let found = self.api.get_opt(name).await?;
        Ok(found.map(serde_json::to_value).transpose()?)
    }

    pub(super) async fn all(&self) -> Result<BTreeMap<String, Value>> {
        let all = self
            .api
            .list(&ListParams::default())
            .await?
            .items
            .into_iter();
        let each = all.map(|object| {
            let name = object.metadata.name.clone().unwrap_or_default();
            Ok((name, serde_json::to_value(object)?))
        });
        each.collect()
    }

    /// Waits until the object has a value somewhere; null is what is not there.
    #[track_caller]
    pub(super) fn has(
        &self,
        name: &str,
        pointer: &str,
        value: Value,
    ) -> impl Future<Output = Value> {
        let what = format!(
            "{} {name} in the {} has {value} at {pointer}",
            self.of.kind, self.side
        );
        let this = self.clone();
        let (name, pointer) = (name.to_owned(), pointer.to_owned());
        async move {
            eventually(SOON, &what, async || {
                let object = this.get(&name).await?.context("it is not there")?;
                let found = object.pointer(&pointer).cloned().unwrap_or_default();
                ensure!(found == value || bare(&found) == value, "it has {found}");
                anyhow::Ok(object)
            })
            .await
        }
    }

    #[track_caller]
    pub(super) fn gone(&self, name: &str) -> impl Future<Output = ()> {
        let what = format!("{} {name} goes from the {}", self.of.kind, self.side);
        let (this, name) = (self.clone(), name.to_owned());
        async move {
            eventually(SOON, &what, async || {
                let found = this.get(&name).await?;
                ensure!(found.is_none(), "it is there: {found:?}");
                anyhow::Ok(())
            })
            .await;
        }
    }

    /// Waits until it is another one than that.
    #[track_caller]
    pub(super) fn anew(&self, name: &str, before: &Value) -> impl Future<Output = Value> {
        let what = format!("{} {name} in the {} is made again", self.of.kind, self.side);
        let (this, name) = (self.clone(), name.to_owned());
        let before = before["metadata"]["uid"].clone();
        async move {
            eventually(SOON, &what, async || {
                let object = this.get(&name).await?.context("it is not there")?;
                ensure!(object["metadata"]["uid"] != before, "it is the old one");
                anyhow::Ok(object)
            })
            .await
        }
    }
}

/// Puts the word into what has fields, or has nothing yet.
fn plant(fields: &mut Value) {
    if fields.is_null() {
        *fields = json!({});
    }
    if let Some(fields) = fields.as_object_mut() {
        fields.insert(FIELD.to_owned(), CANARY.into());
    }
}

/// A value without the word.
fn bare(value: &Value) -> Value {
    let mut value = value.clone();
    if let Some(fields) = value.as_object_mut() {
        fields.remove(FIELD);
    }
    value
}

/// A merge patch, on a value.
fn merge(into: &mut Value, patch: Value) {
    let Value::Object(patch) = patch else {
        *into = patch;
        return;
    };
    if !into.is_object() {
        *into = json!({});
    }
    for (name, value) in patch {
        if value.is_null() {
            into.as_object_mut().map(|fields| fields.remove(&name));
        } else {
            merge(&mut into[&name], value);
        }
    }
}

/// See the module.
pub(super) struct World {
    pub(super) cloud: ServiceCluster,
    pub(super) robot: ServiceCluster,
    /// The way into the cloud.
    pub(super) entry: Entry,
    /// Between the mirror and its own cluster.
    pub(super) near: Link,
    on_robot: Access,
    pub(super) directory: tempfile::TempDir,
}

/// Of one type, on both sides.
pub(super) struct Sides {
    pub(super) cloud: Objects,
    pub(super) robot: Objects,
}

impl World {
    /// With these types in both clusters, and the rights for exactly them.
    pub(super) async fn with(types: &[Type]) -> Result<Self> {
        let (cloud, robot) = tokio::try_join!(ServiceCluster::start(), ServiceCluster::start())?;
        let directory = tempfile::tempdir()?;
        let entry = Entry::start(&cloud, &cloud.user("robots", &[])?, PREFIX).await?;
        entry.take_tokens(&["r1"]);
        std::fs::write(directory.path().join("token"), "r1\n")?;
        std::fs::write(
            directory.path().join("ca.pem"),
            entry.certificate_authority(),
        )?;
        let near = Link::start(robot.address()).await?;
        let on_robot = robot.user("mirror", &[])?.by(near.address())?;
        let world = Self {
            cloud,
            robot,
            entry,
            near,
            on_robot,
            directory,
        };
        world.allow(types).await?;
        for one in types {
            tokio::try_join!(
                world.define(&world.cloud, one),
                world.define(&world.robot, one)
            )?;
        }
        Ok(world)
    }

    async fn allow(&self, types: &[Type]) -> Result<()> {
        let rule = |group: &str, resources: &[String], verbs: &[&str]| json!({"apiGroups": [group], "resources": resources, "verbs": verbs});
        let mut in_cloud = Vec::new();
        let crds = ["customresourcedefinitions".to_owned()];
        let mut on_robot = vec![rule(
            "apiextensions.k8s.io",
            &crds,
            &["get", "list", "watch"],
        )];
        for one in types {
            let whole = [one.plural.to_owned()];
            let written = if one.subresource {
                format!("{}/status", one.plural)
            } else {
                one.plural.to_owned()
            };
            in_cloud.push(rule(GROUP, &whole, &["list", "watch"]));
            in_cloud.push(rule(GROUP, &[written], &["update"]));
            if one.owner == "robot" {
                in_cloud.push(rule(GROUP, &whole, &["create", "update", "delete"]));
            }
            let mut all = vec![one.plural.to_owned()];
            if one.owner == "robot" {
                all.push(format!("{}/status", one.plural));
            }
            on_robot.push(rule(
                GROUP,
                &all,
                &["get", "list", "watch", "create", "update", "delete"],
            ));
        }
        for (cluster, user, rules) in [
            (&self.cloud, "robots", in_cloud),
            (&self.robot, "mirror", on_robot),
        ] {
            let rights = json!({"apiVersion": "v1", "kind": "List", "items": [
                {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
                 "metadata": {"name": user}, "rules": rules},
                {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding",
                 "metadata": {"name": user},
                 "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": user},
                 "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": user}]},
            ]});
            self.apply(cluster, &rights).await?;
        }
        Ok(())
    }

    pub(super) async fn apply(&self, cluster: &ServiceCluster, what: &Value) -> Result<()> {
        let file = self.directory.path().join(testbed::unique("apply"));
        std::fs::write(&file, what.to_string())?;
        let file = file.to_str().context("a path in Unicode")?;
        cluster.admin().kubectl(&["apply", "-f", file]).await?;
        Ok(())
    }

    pub(super) async fn define(&self, cluster: &ServiceCluster, one: &Type) -> Result<()> {
        cluster
            .install_crd(&serde_json::from_value(one.definition())?)
            .await
    }

    pub(super) async fn undefine(&self, cluster: &ServiceCluster, one: &Type) -> Result<()> {
        let name = one.name();
        cluster
            .admin()
            .kubectl(&["delete", "crd", &name, "--wait=true"])
            .await?;
        Ok(())
    }

    /// Changes the definition's annotations on the robot; `name-` takes one away.
    pub(super) async fn annotate(&self, one: &Type, annotation: &str) -> Result<()> {
        let name = one.name();
        let args = ["annotate", "--overwrite", "crd", &*name, annotation];
        self.robot.admin().kubectl(&args).await?;
        Ok(())
    }

    pub(super) fn objects(&self, of: Type) -> Result<Sides> {
        let objects = |side, cluster: &ServiceCluster| -> Result<Objects> {
            let api = of.api(cluster.admin().client()?);
            Ok(Objects { of, side, api })
        };
        Ok(Sides {
            cloud: objects("cloud", &self.cloud)?,
            robot: objects("robot", &self.robot)?,
        })
    }

    /// Starts the mirror as robot `r1`, with these arguments more.
    pub(super) fn mirror(&self, more: &[&str]) -> Result<Mirror> {
        let token = self.directory.path().join("token");
        let launch = self
            .launch(&self.entry.address().to_string())
            .args(["--remote-token-file".into(), token.into_os_string()])
            .args(more);
        self.started(launch)
    }

    /// A mirror that lacks credentials for the cloud at this address.
    pub(super) fn launch(&self, cloud: &str) -> Launch {
        let authority = self.directory.path().join("ca.pem");
        Launch::new("mirror", env!("CARGO_BIN_EXE_hawser"))
            .args([
                "mirror",
                "-robot-name=r1",
                "-listen-address",
                "127.0.0.1:0",
                "-log-level=-4",
                "-page-address=0",
            ])
            .arg(format!("--remote-server={cloud}"))
            .args(["--remote-ca-file".into(), authority.into_os_string()])
            .args([
                "--kubeconfig".as_ref(),
                self.on_robot.kubeconfig_file().as_os_str(),
            ])
    }

    pub(super) fn started(&self, launch: Launch) -> Result<Mirror> {
        let log = self.directory.path().join(testbed::unique("mirror"));
        let process = launch.log(&log).spawn()?;
        Ok(Mirror { process, log })
    }

    /// Nothing came to the cloud but what it allows: lists and watches with exactly the selector, and
    /// writes of what the type has its status in.
    pub(super) fn check(&self, types: &[Type]) -> Result<()> {
        let record = self.entry.record();
        ensure!(!record.is_empty(), "nothing was recorded");
        for request in &record {
            allowed(types, request).with_context(|| format!("{request:?}"))?;
        }
        Ok(())
    }
}

fn allowed(types: &[Type], request: &Recorded) -> Result<()> {
    // What is asked for to find out whether credentials are taken: every robot may.
    if request.method == "GET" && request.path == HEALTH && request.query == "limit=1" {
        return Ok(());
    }
    let path: Vec<&str> = request.path.trim_matches('/').split('/').collect();
    let rest = path
        .strip_prefix(&["apis", GROUP, "v1"])
        .context("not the group")?;
    let rest = rest
        .strip_prefix(&["namespaces", "default"])
        .unwrap_or(rest);
    let (plural, name) = rest.split_first().context("no type")?;
    let one = types
        .iter()
        .find(|one| one.plural == *plural)
        .context("not a type of these")?;
    ensure!(
        one.cluster_scoped == (path.len() == rest.len() + 3),
        "not its namespace"
    );
    let agent = request.headers.get("user-agent").context("no agent")?;
    ensure!(agent.starts_with("cr-syncer/"), "not the agent's name");
    match (request.method.as_str(), name) {
        ("GET", []) => {
            let query = parse(&request.query);
            let selectors: Vec<_> = query
                .iter()
                .filter(|(name, _)| name == "labelSelector")
                .collect();
            let own = format!("{LABEL}=r1");
            match (&*selectors, one.filtered) {
                ([], false) => {}
                ([(_, selector)], true) if *selector == own => {}
                _ => bail!("not the selector"),
            }
        }
        ("PUT", [_, "status"]) if one.subresource && one.owner == "cloud" => {}
        ("PUT", [_]) if !one.subresource || one.owner == "robot" => {}
        ("POST", []) | ("DELETE", [_]) if one.owner == "robot" => {}
        _ => bail!("not allowed"),
    }
    Ok(())
}

fn parse(query: &str) -> Vec<(String, String)> {
    let pairs = query.split('&').filter_map(|pair| pair.split_once('='));
    let decoded = |text: &str| text.replace("%2F", "/").replace("%3D", "=");
    pairs
        .map(|(name, value)| (name.to_owned(), decoded(value)))
        .collect()
}

/// A mirror at work.
pub(super) struct Mirror {
    process: Process,
    log: PathBuf,
}

impl Mirror {
    pub(super) fn log(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap_or_default()
    }

    pub(super) async fn says(&self, text: &str) -> Result<String> {
        self.process.await_log(SOON, text).await
    }

    /// The lines of the log with this message.
    pub(super) fn lines(&self, message: &str) -> Vec<Value> {
        let log = self.log();
        let lines = log
            .lines()
            .filter_map(|line| serde_json::from_str(line).ok());
        lines
            .filter(|line: &Value| line["message"] == message)
            .collect()
    }

    /// Waits for a page and returns its status and text.
    pub(super) async fn page(&self, path: &str) -> Result<(u16, String)> {
        self.says("serving pages").await?;
        let lines = self.lines("serving pages");
        let address = lines[0]["address"].as_str().context("an address")?;
        let mut stream = TcpStream::connect(address).await?;
        let asked = format!("GET {path} HTTP/1.1\r\nhost: pages\r\nconnection: close\r\n\r\n");
        stream.write_all(asked.as_bytes()).await?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await?;
        let (head, text) = answer.split_once("\r\n\r\n").context("a head")?;
        let code = head.split(' ').nth(1).context("a status")?;
        Ok((code.parse()?, text.to_owned()))
    }

    pub(super) fn lives(&self) -> Result<()> {
        let end = self.process.exit();
        ensure!(
            end.is_none(),
            "it ended by {end:?}:\n{}",
            self.process.log_tail(20)
        );
        Ok(())
    }

    pub(super) async fn kill(self) -> Result<()> {
        self.process.kill().await?;
        Ok(())
    }

    /// Ends it, which it is to do well.
    pub(super) async fn stop(self) -> Result<()> {
        for page in ["/metrics", "/debug", "/readyz"] {
            let (_, text) = self.page(page).await?;
            assert_untold(page, &text);
        }
        let end = self.process.stop(SOON).await?;
        ensure!(
            end.success(),
            "it ended by {end}:\n{}",
            self.process.log_tail(20)
        );
        ensure!(
            !self.log().contains("panicked"),
            "it panicked:\n{}",
            self.log()
        );
        Ok(())
    }
}

impl Drop for Mirror {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let tail = self.process.log_tail(40);
            // The test runner shows it with the failure.
            let _ = writeln!(std::io::stderr(), "the mirror's log ends:\n{tail}");
            return;
        }
        assert_untold("the log", &self.log());
    }
}

/// Writes to the cloud among requests, such as `PUT missions/a/status 200`.
pub(super) fn writes(record: &[Recorded]) -> Vec<String> {
    let writes = record.iter().filter(|request| request.method != "GET");
    let lines = writes.map(|request| {
        let path = request.path.replace("/apis/fleet.example.com/v1/", "");
        let path = path.replace("namespaces/default/", "");
        format!(
            "{} {path} {}",
            request.method,
            request.code.unwrap_or_default()
        )
    });
    lines.collect()
}
