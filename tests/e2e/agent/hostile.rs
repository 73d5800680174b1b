//! Hostile tenants beside a well-behaved one: whatever they do in their own workspace, the other tenant's objects
//! are served, and nothing of the other tenant, of the provider or of the agent changes.
//!
//! Each test is a list of attacks. After each attack the well-behaved tenant takes an object through a
//! life, and what was there before is compared byte for byte.
//!
//! The attacks of a consumer decide what is written on the service cluster: there they meet a kube-apiserver. Those of
//! an administrator and of webhooks strike requests to the hostile workspace, which is in the playground.

use std::fmt::Write as _;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use kcp_playground::server::{Action, Fault, Matcher};
use parking_lot::Mutex;
use serde_json::{Value, json};
use testbed::eventually;
use tokio::time::Instant;

use super::SOON;
use super::plane::{Kind, Plane};
use super::service::{self, Ground};
use super::stage::Stage;
use super::world::{Team, World};

mod administrator;
mod consumer;
mod related;
mod storm;
mod webhooks;

use storm::who_has_more_than_half_of_all_workspaces_makes_only_its_own_deletions_wait;

on_the_playground!(
    the_administrator_of_a_hostile_workspace_harms_nobody_else,
    webhooks_of_a_hostile_workspace_harm_nobody_else,
    who_has_more_than_half_of_all_workspaces_makes_only_its_own_deletions_wait,
);

mod with_a_kube_apiserver_of_its_own {
    use crate::agent::service::Ground;
    use crate::agent::world::run;

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn a_hostile_consumer_harms_nobody_else() {
        run(Ground::Apart, super::a_hostile_consumer_harms_nobody_else).await;
    }
}

/// The namespace of the provider's own Secrets, and of mapped copies of this name.
const PROVIDERS: &str = "providers";

struct Scene<'w> {
    stage: Stage<'w>,
    /// The well-behaved tenant.
    good: Team,
    bad: Team,
    /// How many objects the well-behaved tenant has taken through a life.
    lives: usize,
    /// How long their copies took to come, before and while somebody attacked.
    waits: Vec<Duration>,
}

/// Lives before the first attack, to compare with.
const QUIET: usize = 10;

/// What all tests of this suite have measured so far.
static MEASURED: Mutex<Measured> = parking_lot::const_mutex(Measured {
    quiet: Vec::new(),
    attacked: Vec::new(),
});

/// How long the copies of well-behaved tenants took to come, without and after each attack.
struct Measured {
    quiet: Vec<Duration>,
    attacked: Vec<Duration>,
}

/// The time within which a part of all waits ended, in hundredths.
fn percentile(waits: &[Duration], hundredths: usize) -> Duration {
    let mut sorted = waits.to_vec();
    sorted.sort();
    let rank = (sorted.len() * hundredths).div_ceil(100).max(1);
    sorted.get(rank - 1).copied().unwrap_or_default()
}

/// Shows how long the well-behaved tenants waited: printed, since no test asserts how long something takes.
impl Drop for Scene<'_> {
    fn drop(&mut self) {
        let attacked = self.waits.split_off(QUIET.min(self.waits.len()));
        let mut all = MEASURED.lock();
        let shown = |waits: &[Duration]| {
            let (half, most) = (percentile(waits, 50), percentile(waits, 99));
            format!("p50 {half:?}, p99 {most:?}")
        };
        let told = |what: &str, quiet: &[Duration], attacked: &[Duration]| {
            let ratio =
                percentile(attacked, 99).as_secs_f64() / percentile(quiet, 99).as_secs_f64();
            format!(
                "{what}: a copy came within {} in {} quiet lives, within {} after {} attacks; p99 is {ratio:.2} times the quiet one",
                shown(quiet),
                quiet.len(),
                shown(attacked),
                attacked.len(),
            )
        };
        let here = told("this test", &self.waits, &attacked);
        all.quiet.append(&mut self.waits);
        all.attacked.extend(attacked);
        let so_far = told("all so far", &all.quiet, &all.attacked);
        #[expect(clippy::print_stderr, reason = "a measurement for people")]
        {
            eprintln!("{here}\n{so_far}");
        }
    }
}

fn secrets() -> Kind {
    Kind::new("", "v1", "secrets", "Secret")
}

fn configmaps() -> Kind {
    Kind::new("", "v1", "configmaps", "ConfigMap")
}

fn secret(name: &str, data: Value) -> Value {
    json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}, "stringData": data})
}

/// A published kind with Secrets both ways and a step for each element of a list.
fn published() -> Value {
    let entry = |identifier: &str, origin: &str, path: &str| json!({"identifier": identifier, "origin": origin, "kind": "Secret", "object": {"reference": {"path": path}}});
    json!({
        "related": [entry("down", "service", "spec.down"), entry("up", "kcp", "spec.up")],
        "mutation": {"spec": [{"template": {
            "path": "spec.items[*].image", "template": "registry.example/{{ .Value }}",
        }}]},
    })
}

/// Objects as text without what servers count: their revision and the account of their fields.
async fn listed(plane: &Plane, path: &str) -> Result<Vec<String>> {
    let mut all = plane.list(path).await?;
    let texts = all.iter_mut().map(|object| {
        if let Some(meta) = object["metadata"].as_object_mut() {
            meta.remove("resourceVersion");
            meta.remove("managedFields");
        }
        object.to_string()
    });
    Ok(texts.collect())
}

impl<'w> Scene<'w> {
    async fn begin(world: &'w World) -> Result<Self> {
        if world.ground != Ground::Playground {
            let rule = json!({"apiGroups": [""], "resources": ["secrets"],
                "verbs": ["get", "list", "watch", "create", "update", "patch", "delete"]});
            service::bind(&world.service, &world.user(), None, &[rule]).await?;
        }
        let stage = world.stage(published()).await?;
        let good = stage.team.clone();
        let bad = world.team("bad").await?;
        world.service.namespace(PROVIDERS, json!({})).await?;
        for (namespace, name) in [
            (PROVIDERS, "admin"),
            ("default", "admin"),
            ("default", "db"),
        ] {
            let object = secret(name, json!({"password": "treasure"}));
            world
                .service
                .create(&secrets().within(namespace), &object)
                .await?;
        }
        let mut scene = Self {
            stage,
            good,
            bad,
            lives: 0,
            waits: Vec::new(),
        };
        let standing = secret("standing-up", json!({"k": "mine"}));
        scene
            .good
            .plane
            .create(&secrets().within("default"), &standing)
            .await?;
        scene
            .good
            .make(
                &scene.stage.kind,
                "standing",
                json!({"up": "standing-up", "size": 1}),
            )
            .await;
        scene
            .stage
            .world
            .await_copy(&scene.stage.kind, scene.good.of("standing"))
            .await;
        for _ in 0..QUIET {
            scene.life().await?;
        }
        Ok(scene)
    }

    fn world(&self) -> &'w World {
        self.stage.world
    }

    fn kind(&self) -> &Kind {
        &self.stage.kind
    }

    /// Makes an object in the hostile workspace, or is refused by the server, which is as good.
    async fn put(&self, name: &str, spec: Value) {
        let object = self.kind().object(name, spec);
        let _refused = self
            .bad
            .plane
            .create(&self.kind().within("default"), &object)
            .await;
    }

    async fn put_secret(&self, name: &str, data: Value) {
        let _refused = self
            .bad
            .plane
            .create(&secrets().within("default"), &secret(name, data))
            .await;
    }

    async fn patch(&self, name: &str, patch: Value) {
        let _refused = self
            .bad
            .plane
            .merge(&self.kind().at("default", name), patch)
            .await;
    }

    async fn remove(&self, name: &str) {
        let _refused = self
            .bad
            .plane
            .delete(&self.kind().at("default", name))
            .await;
    }

    /// Waits until an object of the hostile workspace has a copy.
    async fn copied(&self, name: &str) {
        self.world()
            .await_copy(self.kind(), self.bad.of(name))
            .await;
    }

    /// A fault for the agent's requests to the hostile workspace, as a web hook in it would cause.
    fn strike(&self, verb: &str, resource: &str, action: Action) {
        let any = |word: &str| (!word.is_empty()).then(|| word.to_owned());
        let matcher = Matcher {
            cluster: Some(self.bad.cluster.clone()),
            verb: any(verb),
            resource: any(resource),
            ..Matcher::default()
        };
        self.world()
            .playground
            .faults()
            .add(Fault::new(matcher, action));
    }

    /// A Secret that the service made for an object of the hostile workspace.
    async fn serve_secret(&self, name: &str, data: Value) {
        let place = secrets().within(&self.bad.cluster);
        let _refused = self
            .world()
            .service
            .create(&place, &secret(name, data))
            .await;
    }

    fn calm(&self) {
        self.world().playground.faults().clear();
    }

    /// The well-behaved tenant's object is made, changed, shown a status and deleted.
    async fn life(&mut self) -> Result<()> {
        self.lives += 1;
        let name = format!("life{}", self.lives);
        let credentials = format!("{name}-up");
        let (world, kind, good) = (self.stage.world, &self.stage.kind, &self.good);
        let object = secret(&credentials, json!({"k": "v"}));
        good.plane
            .create(&secrets().within("default"), &object)
            .await?;
        let made = Instant::now();
        good.make(kind, &name, json!({"up": credentials, "size": 1}))
            .await;
        let copy = world.await_copy(kind, good.of(&name)).await;
        self.waits.push(made.elapsed());
        let namespace = copy["metadata"]["namespace"]
            .as_str()
            .context("no namespace")?
            .to_owned();
        eventually(
            SOON,
            "the Secret of the well-behaved tenant is copied",
            async || {
                let found = world
                    .service
                    .find(&secrets().at(&namespace, &credentials))
                    .await?;
                ensure!(found.is_some(), "it is not there");
                Ok(())
            },
        )
        .await;
        good.patch(kind, &name, json!({"spec": {"size": 2}}))
            .await?;
        world
            .await_in_copy(kind, good.of(&name), "/spec/size", json!(2))
            .await;
        let status = format!("{}/status", self.stage.place(&copy));
        world
            .service
            .merge(&status, json!({"status": {"phase": "Ready"}}))
            .await?;
        good.await_in(kind, &name, "/status/phase", json!("Ready"))
            .await;
        good.delete(kind, &name).await?;
        good.await_gone(kind, &name).await;
        world.await_no_copy(kind, good.of(&name)).await;
        Ok(())
    }

    /// Everything that is not the hostile tenant's: of the provider, and of the well-behaved tenant on both sides.
    async fn others(&self) -> Result<Vec<String>> {
        let service = &self.world().service;
        let mut all = listed(&self.good.plane, &self.kind().everywhere()).await?;
        all.extend(listed(&self.good.plane, &secrets().within("default")).await?);
        let copy = self
            .world()
            .copy(self.kind(), self.good.of("standing"))
            .await?;
        let copy = copy.context("the standing object has lost its copy")?;
        let namespace = copy["metadata"]["namespace"]
            .as_str()
            .context("no namespace")?;
        all.extend(listed(service, &self.kind().within(namespace)).await?);
        for namespace in [namespace, PROVIDERS, "default", "kube-system"] {
            all.extend(listed(service, &secrets().within(namespace)).await?);
            all.extend(listed(service, &configmaps().within(namespace)).await?);
        }
        // Secrets that are gone with the lives of the well-behaved tenant's objects come and go.
        all.retain(|text| !text.contains("life"));
        all.sort();
        Ok(all)
    }

    /// Runs an attack; nobody else may notice.
    async fn attack(
        &mut self,
        name: &str,
        attack: impl AsyncFnOnce(&Self) -> Result<()>,
    ) -> Result<()> {
        let before = self.others().await?;
        attack(self)
            .await
            .with_context(|| format!("attack: {name}"))?;
        self.life()
            .await
            .with_context(|| format!("after: {name}"))?;
        let after = self.others().await?;
        let mut different = String::new();
        for (sign, these, those) in [("-", &before, &after), ("+", &after, &before)] {
            for text in these.iter().filter(|text| !those.contains(text)) {
                let shown: String = text.chars().take(600).collect();
                let _ = writeln!(different, "{sign} {shown}");
            }
        }
        ensure!(
            different.is_empty(),
            "after \"{name}\" this is different:\n{different}"
        );
        Ok(())
    }
}

/// With objects and with related objects.
async fn a_hostile_consumer_harms_nobody_else(world: &World) -> Result<()> {
    let scene = &mut Scene::begin(world).await?;
    consumer::attacks(scene).await?;
    related::attacks(scene).await
}

async fn the_administrator_of_a_hostile_workspace_harms_nobody_else(world: &World) -> Result<()> {
    administrator::attacks(&mut Scene::begin(world).await?).await
}

async fn webhooks_of_a_hostile_workspace_harm_nobody_else(world: &World) -> Result<()> {
    webhooks::attacks(&mut Scene::begin(world).await?).await
}
