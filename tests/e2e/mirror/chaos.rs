//! The life of `hawser mirror`: users of the owner's objects, and users of the copies. Types are owned by the cloud or by
//! the robot, filtered or not, with their status as a subresource, in the object, or of one field.

mod wishes;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use anyhow::{Context as _, Result, ensure};
use parking_lot::Mutex;
use proptest::prelude::*;
use serde_json::{Value, json};
use testbed::cluster::Controllers;
use testbed::{Launch, Process, unique};
use tokio::time::sleep;

use self::wishes::{APPROVAL, Deed, Robot, TYPES, What, about_copies, about_owned, deeds_of};
use super::world::{GROUP, LABEL, MISSIONS, SPEC_SOURCE, Type, VERSION};
use crate::agent::plane::{Kind, Plane};
use crate::agent::service;
use crate::canary::CANARY;
use crate::chaos::{self, done, name_of};
use crate::federation::place::Place;

struct Life {
    cloud: Plane,
    robot: Plane,
    places: [Place; 2],
    mirror: Vec<tokio::sync::Mutex<Process>>,
    logs: tempfile::TempDir,
    /// What users left of the owner's objects: spec and label of the robot.
    wanted: Mutex<BTreeMap<(usize, usize), (Value, Robot)>>,
    /// Objects that are nobody's business, by their places, with their versions.
    foreign: Vec<(bool, String, Value)>,
}

fn all(of: &Type) -> String {
    let kind = Kind::new(GROUP, "v1", of.plural, of.kind);
    if of.cluster_scoped {
        return kind.everywhere();
    }
    kind.within("default")
}

fn object_name(number: usize) -> String {
    format!("m{number}")
}

fn spec(value: u8) -> Value {
    json!({"goal": format!("{CANARY}-{value}")})
}

fn object(of: &Type, name: &str, spec: &Value, robot: Robot) -> Value {
    let mut labels = json!({"color": "red"});
    if robot != Robot::None {
        labels[LABEL] = robot.label();
    }
    json!({
        "apiVersion": format!("{GROUP}/v1"), "kind": of.kind,
        "metadata": {"name": name, "labels": labels}, "spec": spec,
    })
}

fn hold(is_held: bool) -> Value {
    let finalizers = is_held.then_some(["example.com/held"]);
    json!({"metadata": {"finalizers": finalizers}})
}

/// Labels or annotations, without what only the owner's object has.
fn marks(object: &Value, which: &str) -> Value {
    let mut marks = object["metadata"][which].clone();
    if let Some(all) = marks.as_object_mut() {
        all.remove(VERSION);
    }
    if marks == json!({}) {
        return Value::Null;
    }
    marks
}

/// Both sides, with types installed.
pub(super) async fn planes(places: &[Place; 2], types: &[Type]) -> Result<[Plane; 2]> {
    let planes = [
        chaos::plane(&places[0]).await?,
        chaos::plane(&places[1]).await?,
    ];
    for plane in &planes {
        for of in types {
            service::install(plane, &of.definition()).await?;
        }
    }
    Ok(planes)
}

impl Life {
    async fn begin(seed: u64) -> Result<Self> {
        let place = || chaos::place(seed, Controllers::None);
        let places = [place().await?, place().await?];
        let [cloud, robot] = planes(&places, &TYPES).await?;
        let mut life = Self {
            cloud,
            robot,
            places,
            mirror: Vec::new(),
            logs: tempfile::tempdir()?,
            wanted: Mutex::default(),
            foreign: Vec::new(),
        };
        life.make_foreign().await?;
        let mirror = chaos::Life::start(&life, 0)?;
        life.mirror.push(tokio::sync::Mutex::new(mirror));
        Ok(life)
    }

    /// Objects of another robot and in another namespace, on both sides.
    async fn make_foreign(&mut self) -> Result<()> {
        let kind = Kind::new(GROUP, "v1", MISSIONS.plural, MISSIONS.kind);
        for is_cloud in [true, false] {
            let plane = if is_cloud { &self.cloud } else { &self.robot };
            plane.namespace("elsewhere", json!({})).await?;
            let side = if is_cloud { "cloud" } else { "robot" };
            for (namespace, robot) in [("default", Robot::Other), ("elsewhere", Robot::Ours)] {
                let name = format!("bystander-{side}");
                let bystander = object(&MISSIONS, &name, &spec(0), robot);
                let made = plane.create(&kind.within(namespace), &bystander).await?;
                let version = made["metadata"]["resourceVersion"].clone();
                self.foreign
                    .push((is_cloud, kind.at(namespace, &name), version));
            }
        }
        Ok(())
    }

    /// The owner's cluster and that of the copies.
    fn sides(&self, of: &Type) -> (&Plane, &Plane) {
        if of.owner == "cloud" {
            (&self.cloud, &self.robot)
        } else {
            (&self.robot, &self.cloud)
        }
    }

    async fn act(&self, deed: &Deed) -> Result<()> {
        sleep(deed.wait).await;
        let of = &TYPES[deed.of];
        let (owner, copy) = self.sides(of);
        let at = (deed.of, deed.name);
        let name = object_name(deed.name);
        let all = all(of);
        let path = format!("{all}/{name}");
        let relabel = |robot: Robot| json!({"metadata": {"labels": {LABEL: robot.label()}}});
        // In the cloud, the mirror sees only objects of its robot, so it cannot take others back.
        let in_copies = |robot: Robot| {
            if of.owner == "robot" {
                Robot::Ours
            } else {
                robot
            }
        };
        match &deed.what {
            What::Create(value, robot) => {
                let spec = spec(*value);
                if done(owner.create(&all, &object(of, &name, &spec, *robot)).await)? {
                    self.wanted.lock().insert(at, (spec, *robot));
                }
            }
            What::Change(value) => {
                let spec = spec(*value);
                if done(owner.merge(&path, json!({"spec": spec})).await)?
                    && let Some(wanted) = self.wanted.lock().get_mut(&at)
                {
                    wanted.0 = spec;
                }
            }
            What::Annotate(value) => {
                let note = value.map(|value| value.to_string());
                let patch = json!({"metadata": {"annotations": {"example.com/note": note}}});
                done(owner.merge(&path, patch).await)?;
            }
            What::Relabel(robot) => {
                if done(owner.merge(&path, relabel(*robot)).await)?
                    && let Some(wanted) = self.wanted.lock().get_mut(&at)
                {
                    wanted.1 = *robot;
                }
            }
            What::Delete => {
                done(owner.delete(&path).await)?;
                self.wanted.lock().remove(&at);
            }
            What::Replace(value) => {
                done(owner.delete(&path).await)?;
                self.wanted.lock().remove(&at);
                let spec = spec(*value);
                let object = object(of, &name, &spec, Robot::Ours);
                // The one before may be held.
                if done(owner.create(&all, &object).await)? {
                    self.wanted.lock().insert(at, (spec, Robot::Ours));
                }
            }
            What::Hold(is_held) => {
                done(owner.merge(&path, hold(*is_held)).await)?;
            }
            What::HoldCopy(is_held) => {
                done(copy.merge(&path, hold(*is_held)).await)?;
            }
            What::Announce(is_owned) => self.announce(of, *is_owned).await?,
            What::OwnStatus(value) => {
                done(set_status(of, owner, &path, json!({"own": value})).await)?;
            }
            What::Status { seen, has_observed } => {
                let Some(found) = copy.find(&path).await? else {
                    return Ok(());
                };
                let mut status = json!({"seen": seen});
                if *has_observed {
                    status["observedGeneration"] = found["metadata"]["generation"].clone();
                }
                if let Some(field) = of.subtree {
                    status = json!({field: status, "beside": seen});
                }
                done(set_status(of, copy, &path, status).await)?;
            }
            What::Drift(value) => {
                let drift = json!({"spec": {"goal": value, "more": value},
                    "metadata": {"labels": {"color": "blue"}, "annotations": {"example.com/drift": "a"}}});
                done(copy.merge(&path, drift).await)?;
            }
            What::DriftRelabel(robot) => {
                done(copy.merge(&path, relabel(in_copies(*robot))).await)?;
            }
            What::DeleteCopy => {
                done(copy.delete(&path).await)?;
            }
            What::CreateCopy(value, robot) => {
                let object = object(of, &name, &spec(*value), in_copies(*robot));
                done(copy.create(&all, &object).await)?;
            }
        }
        Ok(())
    }

    async fn announce(&self, of: &Type, is_owned: bool) -> Result<()> {
        let owner = is_owned.then_some(of.owner);
        let annotations = json!({"metadata": {"annotations": {SPEC_SOURCE: owner}}});
        self.robot
            .merge(&service::crd_at(&of.name()), annotations)
            .await?;
        Ok(())
    }

    /// Approves all deletions that mirrors hold, by what their logs say.
    async fn approve(&self) -> Result<()> {
        let mut holds: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        for entry in fs::read_dir(self.logs.path())? {
            let log = fs::read(entry?.path())?;
            for line in String::from_utf8_lossy(&log).lines() {
                let line: Value = serde_json::from_str(line).unwrap_or_default();
                if let (Some(definition), Some(hold)) =
                    (line["CRD"].as_str(), line["hold"].as_str())
                {
                    holds
                        .entry(definition.to_owned())
                        .or_default()
                        .insert(hold.to_owned());
                }
            }
        }
        for (definition, holds) in holds {
            let all = holds.into_iter().collect::<Vec<_>>().join(",");
            let approval = json!({"metadata": {"annotations": {APPROVAL: all}}});
            self.robot
                .merge(&service::crd_at(&definition), approval)
                .await?;
        }
        Ok(())
    }

    /// Lets go what is held, and announces all types again.
    async fn free(&self) -> Result<()> {
        for of in &TYPES {
            self.announce(of, true).await?;
            for plane in [&self.cloud, &self.robot] {
                for name in by_name(plane, of).await?.keys() {
                    let path = format!("{}/{name}", all(of));
                    done(plane.merge(&path, hold(false)).await)?;
                }
            }
        }
        Ok(())
    }

    async fn check_type(&self, number: usize, of: &Type) -> Result<()> {
        let (owner, copy) = self.sides(of);
        let plural = of.plural;
        let owned = by_name(owner, of).await?;
        let copies = by_name(copy, of).await?;
        let wanted: BTreeMap<String, (Value, Robot)> = {
            let wanted = self.wanted.lock();
            let of_type = wanted.iter().filter(|((of, _), _)| *of == number);
            of_type
                .map(|((_, name), wanted)| (object_name(*name), wanted.clone()))
                .collect()
        };
        ensure!(
            owned.keys().eq(wanted.keys()),
            "the owner of {plural} has {:?}, not {:?}",
            owned.keys(),
            wanted.keys()
        );
        let is_ours = |object: &Value| !of.filtered || object["metadata"]["labels"][LABEL] == "r1";
        for (name, object) in &owned {
            let (spec, robot) = &wanted[name];
            ensure!(
                object["spec"] == *spec && object["metadata"]["labels"][LABEL] == robot.label(),
                "the owner's {plural}/{name} was changed: {object:#}"
            );
            if !is_ours(object) {
                continue;
            }
            let copy = copies
                .get(name)
                .with_context(|| format!("there is no copy of {plural}/{name}"))?;
            for what in ["labels", "annotations"] {
                let (ours, theirs) = (marks(object, what), marks(copy, what));
                ensure!(
                    ours == theirs,
                    "{what} of {plural}/{name}: {theirs} in the copy, not {ours}"
                );
            }
            ensure!(
                copy["spec"] == *spec
                    && copy["metadata"]["annotations"][VERSION].is_null()
                    && copy["metadata"]["deletionTimestamp"].is_null(),
                "the copy of {plural}/{name} is {copy:#}, not as {spec}"
            );
            check_status(of, object, copy).with_context(|| format!("{plural}/{name}"))?;
        }
        for (name, copy) in &copies {
            let has_owner = owned.get(name).is_some_and(is_ours);
            ensure!(
                has_owner || !is_ours(copy),
                "{plural}/{name} is a copy of nothing: {copy:#}"
            );
        }
        Ok(())
    }
}

/// Writes a status as the type has it.
async fn set_status(
    of: &Type,
    plane: &Plane,
    path: &str,
    status: Value,
) -> Result<Value, crate::agent::plane::Refused> {
    let patch = json!({"status": status});
    if of.subresource {
        return plane.merge(&format!("{path}/status"), patch).await;
    }
    plane.merge(path, patch).await
}

async fn by_name(plane: &Plane, of: &Type) -> Result<BTreeMap<String, Value>> {
    let objects = plane.list(&all(of)).await?.into_iter();
    let named = objects.map(|object| (name_of(&object), object));
    Ok(named
        .filter(|(name, _)| !name.starts_with("bystander"))
        .collect())
}

/// The owner's object has the status of the copy, or its field. A copy without a status says nothing.
fn check_status(of: &Type, object: &Value, copy: &Value) -> Result<()> {
    let (ours, theirs) = (&object["status"], &copy["status"]);
    if theirs.is_null() || *theirs == json!({}) {
        return Ok(());
    }
    if let Some(field) = of.subtree {
        ensure!(
            ours[field] == theirs[field],
            "the status is {ours}, that of the copy {theirs}"
        );
        return Ok(());
    }
    let mut expected = theirs.clone();
    if expected["observedGeneration"].is_i64() {
        let is_current = theirs["observedGeneration"] == copy["metadata"]["generation"];
        expected["observedGeneration"] = if is_current {
            object["metadata"]["generation"].clone()
        } else {
            0.into()
        };
    }
    ensure!(
        *ours == expected,
        "the status is {ours}, not {expected}, that of the copy {theirs}"
    );
    Ok(())
}

impl chaos::Life for Life {
    const DIALECT: &'static str = "mirror";
    const AGENT: &'static str = "cr-syncer";
    const SERVERS: usize = 2;
    const PROCESSES: usize = 1;

    /// Of the user of the owner's objects, and of that of the copies.
    type Deeds = [Vec<Deed>; 2];

    fn deeds() -> BoxedStrategy<Self::Deeds> {
        (deeds_of(about_owned()), deeds_of(about_copies()))
            .prop_map(|(owned, copies)| [owned, copies])
            .boxed()
    }

    fn places(&self) -> Vec<&Place> {
        self.places.iter().collect()
    }

    fn places_mut(&mut self) -> Vec<&mut Place> {
        self.places.iter_mut().collect()
    }

    fn processes(&self) -> &[tokio::sync::Mutex<Process>] {
        &self.mirror
    }

    fn launch(&self, _: usize) -> Result<Launch> {
        let [cloud, robot] = &self.places;
        let log = self.logs.path().join(format!("{}.log", unique("mirror")));
        Ok(Launch::new("mirror", chaos::hawser())
            .args(["mirror", "-robot-name=r1", "-page-address=0"])
            .args(["-listen-address=127.0.0.1:0", "-log-level=-4"])
            .arg("--enable-robot-spec-source")
            .arg("--remote-kubeconfig")
            .arg(cloud.kubeconfig_file())
            .arg("--kubeconfig")
            .arg(robot.kubeconfig_file())
            .log(log))
    }

    fn logs(&self) -> &Path {
        self.logs.path()
    }

    async fn live(&self, deeds: &Self::Deeds) -> Result<()> {
        let users = deeds.iter().map(async |deeds| {
            for deed in deeds {
                self.act(deed).await.with_context(|| format!("{deed:?}"))?;
            }
            anyhow::Ok(())
        });
        futures::future::try_join_all(users).await?;
        self.free().await
    }

    async fn check(&self) -> Result<()> {
        self.approve().await?;
        for (is_cloud, at, version) in &self.foreign {
            let plane = if *is_cloud { &self.cloud } else { &self.robot };
            let other = if *is_cloud { &self.robot } else { &self.cloud };
            let now = plane.get(at).await?["metadata"]["resourceVersion"].clone();
            ensure!(now == *version, "{at} was changed");
            ensure!(other.find(at).await?.is_none(), "{at} was copied");
        }
        for (number, of) in TYPES.iter().enumerate() {
            self.check_type(number, of).await?;
        }
        Ok(())
    }

    async fn rest(&self) -> Result<()> {
        chaos::still(async || {
            let mut written = chaos::writes(self, |_| false);
            for of in &TYPES {
                for plane in [&self.cloud, &self.robot] {
                    written.extend(chaos::versions(plane, &all(of)).await?);
                }
            }
            Ok(written)
        })
        .await
    }

    async fn end(&self) -> Result<()> {
        self.wanted.lock().clear();
        for of in &TYPES {
            let (owner, _) = self.sides(of);
            for name in by_name(owner, of).await?.keys() {
                done(owner.delete(&format!("{}/{name}", all(of))).await)?;
            }
        }
        Ok(())
    }
}

async fn live_by(seed: u64) {
    chaos::run(Box::pin(Life::begin(seed)), seed).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn after_the_chaos_of_a_known_seed_both_sides_are_in_step() {
    live_by(1).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn after_the_chaos_of_fresh_seeds_everything_is_in_step() {
    chaos::fresh("mirror", live_by).await;
}
