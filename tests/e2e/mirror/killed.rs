//! The mirror killed at each of its requests about two objects, before and after it takes effect: one of the cloud, and
//! one of the robot.

use anyhow::{Context as _, Result, ensure};
use kcp_playground::Playground;
use kcp_playground::server::LoggedRequest;
use serde_json::{Value, json};
use testbed::{Launch, Process, unique};

use super::world::{GROUP, LABEL, MISSIONS, Type};
use crate::agent::plane::{Kind, Plane};
use crate::canary::{CANARY, assert_logs_untold};
use crate::federation::place::Place;
use crate::killed::{self, Life as _};

const REPORTS: Type = Type {
    plural: "reports",
    kind: "Report",
    owner: "robot",
    ..MISSIONS
};
const TYPES: [Type; 2] = [MISSIONS, REPORTS];

/// The life of one object of each type.
struct Life {
    /// The cloud, then the robot.
    places: [Place; 2],
    planes: [Plane; 2],
    mirror: Option<Process>,
    logs: tempfile::TempDir,
    started: usize,
    name: String,
}

/// How each object is to be, if it is to be there.
#[derive(Clone, Copy)]
struct Wanted {
    goal: &'static str,
    status: Option<&'static str>,
    is_copied: bool,
}

fn kind(of: &Type) -> Kind {
    Kind::new(GROUP, "v1", of.plural, of.kind)
}

fn spec(goal: &str) -> Value {
    json!({"goal": format!("{CANARY}-{goal}")})
}

fn label(robot: &str) -> Value {
    json!({"metadata": {"labels": {LABEL: robot}}})
}

impl Life {
    async fn begin() -> Result<Self> {
        let places = [Place::played().await?, Place::played().await?];
        let planes = super::chaos::planes(&places, &TYPES).await?;
        let mut life = Self {
            places,
            planes,
            mirror: None,
            logs: tempfile::tempdir()?,
            started: 0,
            name: String::new(),
        };
        killed::Life::start(&mut life).await?;
        // From here on, its watches are open.
        life.live().await?;
        Ok(life)
    }

    /// The owner's cluster and that of the copies.
    fn sides(&self, of: &Type) -> (&Plane, &Plane) {
        let [cloud, robot] = &self.planes;
        if of.owner == "cloud" {
            (cloud, robot)
        } else {
            (robot, cloud)
        }
    }

    fn path(&self, of: &Type) -> String {
        kind(of).at("default", &self.name)
    }

    async fn patch_owned(&self, patch: Value) -> Result<()> {
        for of in &TYPES {
            let (owner, _) = self.sides(of);
            owner.merge(&self.path(of), patch.clone()).await?;
        }
        Ok(())
    }
}

impl killed::Life for Life {
    const AGENT: &'static str = "cr-syncer";
    const SERVERS: &'static [&'static str] = &["cloud", "robot"];

    type Wanted = Option<Wanted>;

    fn servers(&self) -> Result<Vec<&Playground>> {
        self.places.iter().map(Place::playground).collect()
    }

    fn owns(&self, request: &LoggedRequest) -> bool {
        request.resource != "events"
    }

    async fn kill(&mut self) -> Result<()> {
        let mirror = self.mirror.take().context("it was not started")?;
        mirror.kill().await?;
        Ok(())
    }

    async fn start(&mut self) -> Result<()> {
        self.started += 1;
        let [cloud, robot] = &self.places;
        let log = self
            .logs
            .path()
            .join(format!("mirror-{}.log", self.started));
        let mirror = Launch::new("mirror", env!("CARGO_BIN_EXE_hawser"))
            .args(["mirror", "-robot-name=r1", "-page-address=0"])
            .args(["-listen-address=127.0.0.1:0", "-log-level=-4"])
            .arg("--enable-robot-spec-source")
            .arg("--remote-kubeconfig")
            .arg(cloud.kubeconfig_file())
            .arg("--kubeconfig")
            .arg(robot.kubeconfig_file())
            .log(log);
        self.mirror = Some(mirror.spawn()?);
        Ok(())
    }

    async fn live(&mut self) -> Result<()> {
        self.name = unique("killed");
        for of in &TYPES {
            let mut object = kind(of).object(&self.name, spec("a"));
            object["metadata"]["labels"] = json!({LABEL: "r1"});
            let (owner, _) = self.sides(of);
            owner.create(&kind(of).within("default"), &object).await?;
        }
        let mut wanted = Wanted {
            goal: "a",
            status: None,
            is_copied: true,
        };
        self.until("created", &Some(wanted)).await?;

        self.patch_owned(json!({"spec": spec("b")})).await?;
        wanted.goal = "b";
        self.until("changed", &Some(wanted)).await?;

        for of in &TYPES {
            let (_, copy) = self.sides(of);
            let status = json!({"status": {"seen": "b"}});
            copy.merge(&format!("{}/status", self.path(of)), status)
                .await?;
        }
        wanted.status = Some("b");
        self.until("reported", &Some(wanted)).await?;

        for of in &TYPES {
            let (_, copy) = self.sides(of);
            copy.delete(&self.path(of)).await?;
        }
        self.until("made again", &Some(wanted)).await?;

        self.patch_owned(label("r2")).await?;
        wanted.is_copied = false;
        self.until("given to another robot", &Some(wanted)).await?;
        self.patch_owned(label("r1")).await?;
        wanted.is_copied = true;
        self.until("taken back", &Some(wanted)).await?;

        for of in &TYPES {
            let (owner, _) = self.sides(of);
            owner.delete(&self.path(of)).await?;
        }
        self.until("deleted", &None).await
    }

    async fn is_done(&self, wanted: &Self::Wanted) -> Result<()> {
        for of in &TYPES {
            let (owner, copy) = self.sides(of);
            let (owned, copy) = (
                owner.find(&self.path(of)).await?,
                copy.find(&self.path(of)).await?,
            );
            let Some(wanted) = wanted else {
                ensure!(owned.is_none() && copy.is_none(), "{owned:#?} {copy:#?}");
                continue;
            };
            let owned = owned.context("the owner's object")?;
            ensure!(
                owned["spec"] == spec(wanted.goal)
                    && owned["status"]["seen"].as_str() == wanted.status,
                "{owned:#}"
            );
            ensure!(copy.is_some() == wanted.is_copied, "{copy:#?}");
            let copy = copy.unwrap_or(owned);
            ensure!(
                copy["spec"] == spec(wanted.goal)
                    && copy["metadata"]["deletionTimestamp"].is_null(),
                "{copy:#}"
            );
        }
        Ok(())
    }
}

impl Drop for Life {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            assert_logs_untold(self.logs.path());
        }
    }
}

#[tokio::test]
async fn a_mirror_that_is_killed_at_any_of_its_requests_goes_on_where_it_was() -> Result<()> {
    // A life waits most of the time, because deletions are not sent at once.
    let lives = (0..4).map(|_| Life::begin());
    let mut lives = futures::future::try_join_all(lives).await?;
    let kinds = [
        "create missions  of the robot",
        "create reports  of the cloud",
        "delete missions  of the robot",
        "delete reports  of the cloud",
        "update missions  of the robot",
        "update missions status of the cloud",
        "update reports  of the cloud",
        "update reports status of the robot",
    ];
    killed::kill_at_each_request(&mut lives, &kinds).await
}
