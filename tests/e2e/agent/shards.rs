//! Replicas that share the workspaces: each is another user in the request log, and comes by a link of its own.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context as _, Result, bail, ensure};
use serde_json::{Value, json};
use testbed::link::{Link, Weather};
use testbed::{Launch, Process, Signal, eventually};

use super::SOON;
use super::plane::Kind;
use super::world::{Counted as _, PUBLISHED, REPLICAS, Team, World, shown};
use kcp_playground::server::{Action, Fault, LoggedRequest, Matcher, When};

on_the_playground!(
    no_two_replicas_write_to_a_workspace_whatever_happens_to_them,
    joining_and_leaving_moves_a_part_of_the_workspaces,
    a_replica_caches_the_objects_of_its_shards,
    another_number_of_shards_waits_until_the_old_shards_are_released,
    deletions_are_a_mass_among_the_workspaces_of_the_replica,
    deletions_that_are_held_stay_held_when_their_shard_moves,
    changed_rules_wait_until_the_leader_has_published_their_schema,
    the_page_and_the_metrics_tell_which_shards_a_replica_has,
);

on_our_ground!(replicas_share_workspaces_with_the_rights_that_are_printed_for_shards);

/// The workspaces of each test.
const TEAMS: usize = 6;

struct Replica {
    user: String,
    process: Process,
    /// Between it and the service cluster.
    link: Link,
}

struct Scene<'w> {
    world: &'w World,
    kind: Kind,
    published: String,
    teams: Vec<Team>,
}

impl<'w> Scene<'w> {
    /// Workspaces, and the first replicas with this number of shards.
    async fn start(
        world: &'w World,
        replicas: usize,
        shards: usize,
    ) -> Result<(Self, Vec<Replica>)> {
        let kind = world.gadgets().await?;
        let published = world.publish(&kind, json!({})).await?;
        let mut all = Vec::new();
        for number in 0..replicas {
            all.push(replica(world, number, shards).await?);
        }
        world.await_published(&published).await;
        let mut teams = Vec::new();
        for number in 0..TEAMS {
            teams.push(world.team(&format!("team{number}")).await?);
        }
        let scene = Self {
            world,
            kind,
            published,
            teams,
        };
        Ok((scene, all))
    }

    /// Creates and changes objects in all workspaces until it is told to stop; the number of the last one.
    async fn load(&self, stop: &AtomicBool) -> Result<usize> {
        let mut number = 0;
        loop {
            for team in &self.teams {
                let name = format!("lamp{number}");
                team.make(&self.kind, &name, json!({"size": 0})).await;
                let before = format!("lamp{}", number / 2);
                let size = json!({"spec": {"size": number}});
                team.patch(&self.kind, &before, size).await?;
            }
            if stop.load(Ordering::Relaxed) {
                return Ok(number);
            }
            number += 1;
            // So that a minute of it is not thousands of objects.
            tokio::time::sleep(std::time::Duration::from_millis(300)).await;
        }
    }

    /// Waits until every copy is as its object.
    async fn await_in_step(&self) -> Result<()> {
        for team in &self.teams {
            let path = self.kind.within("default");
            for object in team.plane.list(&path).await? {
                let name = object["metadata"]["name"].as_str().context("no name")?;
                let size = object["spec"]["size"].clone();
                self.world
                    .await_in_copy(&self.kind, team.of(name), "/spec/size", size)
                    .await;
            }
        }
        Ok(())
    }

    /// The holder of each shard, as the Leases name them.
    async fn holders(&self, shards: usize) -> Result<Vec<String>> {
        let mut holders = Vec::new();
        for shard in 0..shards {
            let lease = self
                .world
                .service
                .find(&self.lease(&format!(".shard-{shard}")))
                .await?;
            let holder = lease.unwrap_or_default()["spec"]["holderIdentity"].clone();
            holders.push(holder.as_str().unwrap_or_default().to_owned());
        }
        Ok(holders)
    }

    fn lease(&self, suffix: &str) -> String {
        let World {
            namespace, agent, ..
        } = self.world;
        format!(
            "/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases/syncagent.{agent}{suffix}"
        )
    }

    /// Waits until these replicas hold all shards, as evenly as can be.
    async fn await_spread(&self, replicas: &[&Replica], shards: usize) -> Vec<String> {
        let what = format!("{} replicas share {shards} shards", replicas.len());
        eventually(SOON, &what, async || -> Result<Vec<String>> {
            let holders = self.holders(shards).await?;
            let mut counts: BTreeMap<String, usize> = BTreeMap::new();
            for holder in &holders {
                *counts.entry(self.user_of(holder)?).or_default() += 1;
            }
            let users: BTreeSet<_> = replicas.iter().map(|one| one.user.clone()).collect();
            ensure!(
                counts.keys().cloned().collect::<BTreeSet<_>>() == users,
                "{counts:?}"
            );
            let (most, least) = (counts.values().max(), counts.values().min());
            ensure!(most <= least.map(|least| least + 1).as_ref(), "{counts:?}");
            Ok(holders)
        })
        .await
    }

    /// The user of the replica with this identity: it alone writes the Lease of its own.
    fn user_of(&self, identity: &str) -> Result<String> {
        let unique = identity.rsplit('_').next().unwrap_or_default();
        let name = format!("syncagent.{}.replica-{unique}", self.world.agent);
        let requests = self.world.requests().since(0);
        let mut renewed = requests
            .iter()
            .filter(|one| one.verb == "update" && one.name == name);
        let one = renewed
            .next()
            .with_context(|| format!("nobody is {identity:?}"))?;
        Ok(one.user.clone())
    }

    async fn leader(&self) -> Result<String> {
        let lease = self.world.service.get(&self.lease("")).await?;
        self.user_of(lease["spec"]["holderIdentity"].as_str().unwrap_or_default())
    }

    /// The workspace that a write is about.
    fn workspace_of(
        &self,
        states: &BTreeMap<String, String>,
        one: &LoggedRequest,
    ) -> Option<&Team> {
        let cluster = if one.namespace == self.world.namespace {
            states.get(&one.name)?
        } else {
            // Copies are in namespaces with the name of their workspace.
            let mut teams = self.teams.iter();
            let team =
                teams.find(|team| [&one.cluster, &one.namespace].contains(&&team.cluster))?;
            &team.cluster
        };
        self.teams.iter().find(|team| team.cluster == *cluster)
    }

    /// The writes of replicas about objects of workspaces, in order.
    async fn writes(&self) -> Result<Vec<(String, LoggedRequest)>> {
        let secrets = format!("/api/v1/namespaces/{}/secrets", self.world.namespace);
        let mut states = BTreeMap::new();
        for secret in self.world.service.list(&secrets).await? {
            let cluster = &secret["metadata"]["labels"]["syncagent.kcp.io/remote-object-cluster"];
            let name = secret["metadata"]["name"].as_str().unwrap_or_default();
            states.insert(
                name.to_owned(),
                cluster.as_str().unwrap_or_default().to_owned(),
            );
        }
        let mut requests = self.world.requests().since(0);
        requests.retain(|one| one.is_write() && one.user.starts_with("replica"));
        let of_workspace = requests.into_iter().filter_map(|one| {
            let team = self.workspace_of(&states, &one)?;
            Some((team.cluster.clone(), one))
        });
        Ok(of_workspace.collect())
    }

    /// Waits until the log names the first holder of each shard: it does not name the Leases that are created.
    async fn await_renewed(&self, shards: usize) {
        eventually(SOON, "each shard was renewed", async || {
            let named = self.turns(&self.world.requests().since(0))?.len();
            ensure!(named == shards, "{named} of {shards}");
            Ok(())
        })
        .await;
    }

    /// The updates of the Lease of each shard.
    fn turns<'r>(
        &self,
        requests: &'r [LoggedRequest],
    ) -> Result<BTreeMap<usize, Vec<&'r LoggedRequest>>> {
        let prefix = format!("syncagent.{}.shard-", self.world.agent);
        let mut turns: BTreeMap<usize, Vec<&LoggedRequest>> = BTreeMap::new();
        for one in requests {
            if one.verb == "update"
                && one.code == 200
                && let Some(shard) = one.name.strip_prefix(&prefix)
            {
                turns.entry(shard.parse()?).or_default().push(one);
            }
        }
        Ok(turns)
    }

    /// Checks that each workspace was written to only by the replica that held its shard. Events do not count: a shard
    /// is released without waiting for those that are under way, because each is an object of its own and tells what was
    /// done before.
    async fn check_turns(&self, shards: usize) -> Result<()> {
        let requests = self.world.requests().since(0);
        ensure!(
            requests.first().is_some_and(|first| first.number == 1),
            "the log is too short"
        );
        let turns = self.turns(&requests)?;
        let mut writes = self.writes().await?;
        writes.retain(|(_, one)| one.resource != "events");
        let mut written = BTreeSet::new();
        for (cluster, one) in &writes {
            let shard = shard_of(cluster, shards);
            let turns = turns.get(&shard).context("nobody held it")?;
            // Before the first update, its user has created the Lease.
            let at = turns.partition_point(|turn| turn.number < one.number);
            let holder = &turns[at.saturating_sub(1)].user;
            if *holder != one.user {
                let near = requests
                    .iter()
                    .filter(|near| near.is_write() && near.number.abs_diff(one.number) < 80);
                let near: Vec<_> = near.map(shown).collect();
                bail!(
                    "{holder} held shard {shard}: {}\n{}",
                    shown(one),
                    near.join("\n")
                );
            }
            written.insert(cluster);
        }
        ensure!(written.len() == TEAMS, "{written:?}");
        Ok(())
    }
}

/// A replica with this number of shards; 1 stands for none.
async fn replica(world: &World, number: usize, shards: usize) -> Result<Replica> {
    spawn(world, number, |launch| {
        launch.arg(format!("--shards={shards}"))
    })
    .await
}

async fn spawn(
    world: &World,
    number: usize,
    with: impl FnOnce(Launch) -> Launch,
) -> Result<Replica> {
    let (user, token) = REPLICAS[number];
    let service = world.playground.service_url();
    let port = service
        .rsplit(':')
        .next()
        .context("no port")?
        .trim_end_matches('/');
    let link = Link::start(([127, 0, 0, 1], port.parse()?).into()).await?;
    let near = service.replace(port, &link.address().port().to_string());
    let kcp = format!("{}/clusters/root:org", world.playground.kcp_url());
    let mut launch = world.launch()?.arg("--enable-leader-election");
    for (flag, url) in [("kubeconfig", near), ("kcp-kubeconfig", kcp)] {
        let file = world.directory.path().join(format!("{user}.{flag}"));
        let config = world.playground.kubeconfig_at(&url, user, token);
        fs::write(&file, config.to_string())?;
        launch = launch.arg(format!("--{flag}={}", file.display()));
    }
    Ok(Replica {
        user: user.to_owned(),
        process: with(launch).spawn()?,
        link,
    })
}

/// The shard of a workspace, as the protocol between versions says.
fn shard_of(cluster: &str, shards: usize) -> usize {
    let mixed = |number: u64| {
        let number = (number ^ (number >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let number = (number ^ (number >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        number ^ (number >> 31)
    };
    let hash = cluster
        .bytes()
        .fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        });
    let weight = |shard: &usize| mixed(hash ^ mixed(*shard as u64 + 1));
    (0..shards).max_by_key(weight).unwrap_or_default()
}

async fn no_two_replicas_write_to_a_workspace_whatever_happens_to_them(
    world: &World,
) -> Result<()> {
    const SHARDS: usize = 3;
    let (scene, replicas) = Scene::start(world, 3, SHARDS).await?;
    let stop = AtomicBool::new(false);
    let events = async {
        let all: Vec<&Replica> = replicas.iter().collect();
        scene.await_spread(&all, SHARDS).await;
        scene.await_renewed(SHARDS).await;
        let leader = scene.leader().await?;
        let (leading, others): (Vec<&Replica>, Vec<&Replica>) =
            all.iter().copied().partition(|one| one.user == leader);
        let [leading, suspended, cut] = [leading[0], others[0], others[1]];

        // One is suspended until the others have its workspaces. It gets a part again when it goes on.
        suspended.process.signal(Signal::Stop)?;
        scene.await_spread(&[leading, cut], SHARDS).await;
        suspended.process.signal(Signal::Continue)?;
        scene.await_spread(&all, SHARDS).await;

        // One does not reach the service cluster any more.
        cut.link.away().await?;
        scene.await_spread(&[leading, suspended], SHARDS).await;
        cut.link.set(Weather::Clear).await?;
        scene.await_spread(&all, SHARDS).await;

        // The leader crashes.
        leading.process.kill().await?;
        scene.await_spread(&[suspended, cut], SHARDS).await;
        stop.store(true, Ordering::Relaxed);
        anyhow::Ok(())
    };
    let (loaded, ()) = tokio::try_join!(scene.load(&stop), events)?;
    ensure!(loaded > 0);
    scene.await_in_step().await?;
    // Those that were suspended or cut off have not ended.
    let ended = replicas.iter().filter(|one| one.process.exit().is_some());
    ensure!(ended.count() == 1);
    scene.check_turns(SHARDS).await
}

async fn joining_and_leaving_moves_a_part_of_the_workspaces(world: &World) -> Result<()> {
    const SHARDS: usize = 4;
    let (scene, replicas) = Scene::start(world, 2, SHARDS).await?;
    let both: Vec<&Replica> = replicas.iter().collect();
    let before = scene.await_spread(&both, SHARDS).await;
    let third = replica(world, 2, SHARDS).await?;
    let all = [both[0], both[1], &third];
    let joined = scene.await_spread(&all, SHARDS).await;
    let moved = |a: &[String], b: &[String]| a.iter().zip(b).filter(|(a, b)| a != b).count();
    ensure!(moved(&before, &joined) == 1, "{before:?} {joined:?}");
    for team in &scene.teams {
        world.await_marker(&scene.kind, team).await;
    }
    third.process.stop(SOON).await?;
    let left = scene.await_spread(&both, SHARDS).await;
    ensure!(moved(&joined, &left) == 1, "{joined:?} {left:?}");
    for team in &scene.teams {
        world.await_marker(&scene.kind, team).await;
    }
    scene.check_turns(SHARDS).await
}

async fn another_number_of_shards_waits_until_the_old_shards_are_released(
    world: &World,
) -> Result<()> {
    let (scene, replicas) = Scene::start(world, 2, 2).await?;
    let both: Vec<&Replica> = replicas.iter().collect();
    let stop = AtomicBool::new(false);
    let events = async {
        scene.await_spread(&both, 2).await;
        let leader = scene.leader().await?;
        let (leading, other): (Vec<&Replica>, Vec<&Replica>) =
            both.iter().copied().partition(|one| one.user == leader);
        let [leading, other] = [leading[0], other[0]];
        let newer = replica(world, 2, 3).await?;
        newer.process.await_log(SOON, "standing by").await?;

        // The new one leads while an old one still has its shard.
        other.process.signal(Signal::Stop)?;
        leading.process.kill().await?;
        let released = json!({"spec": {"holderIdentity": "", "leaseDurationSeconds": 1}});
        world.service.merge(&scene.lease(""), released).await?;
        eventually(SOON, "the new one leads", async || {
            let leader = scene.leader().await?;
            ensure!(leader == newer.user, "{leader} leads");
            Ok(())
        })
        .await;
        other.process.signal(Signal::Continue)?;
        scene.await_spread(&[&newer], 3).await;
        for team in &scene.teams {
            world.await_marker(&scene.kind, team).await;
        }

        // An agent without shards takes over from one with shards.
        other.process.kill().await?;
        let alone = spawn(world, 3, |launch| launch).await?;
        alone.process.await_log(SOON, "standing by").await?;
        newer.process.kill().await?;
        world.await_marker(&scene.kind, &scene.teams[0]).await;
        stop.store(true, Ordering::Relaxed);
        anyhow::Ok((newer, alone))
    };
    let (loaded, (newer, alone)) = tokio::try_join!(scene.load(&stop), events)?;
    ensure!(loaded > 0);
    scene.await_in_step().await?;
    // Whoever wrote first in a new way was the last: nobody wrote in the old way afterwards.
    let generation = |user: &str| match user {
        user if user == alone.user => 2,
        user if user == newer.user => 1,
        _ => 0,
    };
    let writes = scene.writes().await?;
    let mut last = 0;
    for (_, one) in &writes {
        let now = generation(&one.user);
        ensure!(now >= last, "{}", shown(one));
        last = now;
    }
    ensure!(last == 2);
    Ok(())
}

async fn the_page_and_the_metrics_tell_which_shards_a_replica_has(world: &World) -> Result<()> {
    let (scene, replicas) = Scene::start(world, 1, 3).await?;
    scene.await_spread(&[&replicas[0]], 3).await;
    let (metrics, page) = (world.metrics()?, world.page()?);
    eventually(SOON, "all shards are told", async || {
        let (_, metrics) = super::process::page(&metrics, "/metrics").await?;
        ensure!(
            metrics.lines().any(|line| line == "hawser_shards_held 3"),
            "{metrics}"
        );
        let (_, overview) = super::process::page(&page, "/overview.json").await?;
        let (_, overview) = overview.split_once("\r\n\r\n").context("no body")?;
        let overview: Value = serde_json::from_str(overview)?;
        ensure!(
            overview["shards"] == json!({"count": 3, "held": [0, 1, 2]}),
            "{overview}"
        );
        let (_, html) = super::process::page(&page, "/").await?;
        ensure!(html.contains("shards 0, 1, 2 of 3"), "{html}");
        Ok(())
    })
    .await;
    Ok(())
}

async fn a_replica_caches_the_objects_of_its_shards(world: &World) -> Result<()> {
    const SHARDS: usize = 4;
    let (scene, replicas) = Scene::start(world, 2, SHARDS).await?;
    let both: Vec<&Replica> = replicas.iter().collect();
    scene.await_spread(&both, SHARDS).await;
    for team in &scene.teams {
        team.make(&scene.kind, "lamp", json!({"size": 1})).await;
    }
    scene.await_in_step().await?;
    let (metrics, page) = (world.metrics()?, world.page()?);
    eventually(SOON, "a replica caches its own objects", async || {
        let (_, overview) = super::process::page(&page, "/overview.json").await?;
        let (_, overview) = overview.split_once("\r\n\r\n").context("no body")?;
        let overview: Value = serde_json::from_str(overview)?;
        let held = overview["shards"]["held"].as_array().context("no shards")?;
        let is_own = |team: &&Team| held.contains(&json!(shard_of(&team.cluster, SHARDS)));
        let own = scene.teams.iter().filter(is_own).count();
        ensure!(held.len() == SHARDS / 2, "{overview}");
        let (_, metrics) = super::process::page(&metrics, "/metrics").await?;
        let kind = &*scene.kind.name;
        for (side, kind) in [("kcp", kind), ("service", kind), ("service", "Secret")] {
            let entries = format!("hawser_cache_entries{{side=\"{side}\",kind=\"{kind}\"}} {own}");
            ensure!(
                metrics.lines().any(|line| line == entries),
                "{entries}: {metrics}"
            );
        }
        Ok(())
    })
    .await;
    Ok(())
}

/// The objects that each workspace of a mass loses.
const EACH: usize = 10;

/// Deletions that the replica that does not lead holds.
struct Mass {
    teams: Vec<Team>,
    /// The id of the hold, which the leader tells.
    ids: String,
}

impl Scene<'_> {
    /// Deletes all objects of the replica that does not lead, one of two with a shard each.
    async fn delete_a_mass(&mut self, both: &[&Replica]) -> Result<Mass> {
        let holders = self.await_spread(both, 2).await;
        let leader = self.leader().await?;
        let mut led = Vec::new();
        for holder in &holders {
            led.push(self.user_of(holder)? == leader);
        }
        let shard = led
            .iter()
            .position(|is_led| !is_led)
            .context("the leader has all")?;
        let of_shard = |scene: &Scene<'_>| -> Vec<Team> {
            let teams = scene.teams.iter();
            teams
                .filter(|team| shard_of(&team.cluster, 2) == shard)
                .cloned()
                .collect()
        };
        // Both have the same number: of all workspaces together, half is no mass.
        while of_shard(self).len() < 6 || self.teams.len() < 2 * of_shard(self).len() {
            let name = format!("more{}", self.teams.len());
            self.teams.push(self.world.team(&name).await?);
        }
        for team in &self.teams {
            for number in 0..EACH {
                let name = format!("lamp{number}");
                team.make(&self.kind, &name, json!({"size": number})).await;
            }
        }
        self.await_in_step().await?;
        let teams = of_shard(self);
        for number in 0..EACH {
            for team in &teams {
                team.delete(&self.kind, &format!("lamp{number}")).await?;
            }
        }
        let what = "the leader tells of deletions that another replica holds";
        let ids = eventually(SOON, what, async || self.held_ids().await).await;
        Ok(Mass { teams, ids })
    }

    /// The ids of held deletions in the condition.
    async fn held_ids(&self) -> Result<String> {
        let at = format!("{PUBLISHED}/{}", self.published);
        let found = self.world.service.get(&at).await?;
        let condition = &found["status"]["conditions"][0];
        ensure!(condition["reason"] == "DeletionsHeld", "{condition}");
        let message = condition["message"].as_str().unwrap_or_default();
        let (_, ids) = message
            .split_once("hawser.dev/approve-deletions: ")
            .context("no id")?;
        Ok(ids.split([';', ' ']).next().unwrap_or_default().to_owned())
    }

    /// The number of copies that a mass has left when no more of them go.
    async fn await_rest(&self, mass: &Mass) -> Result<usize> {
        let left = async || -> Result<usize> {
            let mut left = 0;
            for team in &mass.teams {
                for number in 0..EACH {
                    let name = format!("lamp{number}");
                    let copy = self.world.copy(&self.kind, team.of(&name)).await?;
                    left += usize::from(copy.is_some());
                }
            }
            Ok(left)
        };
        let rest = eventually(SOON, "no more copies go", async || {
            let before = left().await?;
            for team in &mass.teams {
                self.world.await_marker(&self.kind, team).await;
            }
            let after = left().await?;
            ensure!(before == after, "there were {before}, there are {after}");
            Ok(after)
        })
        .await;
        Ok(rest)
    }

    /// Approves held deletions, which go then.
    async fn approve(&self, mass: &Mass, ids: &str) -> Result<()> {
        let at = format!("{PUBLISHED}/{}", self.published);
        let approved = json!({"metadata": {"annotations": {"hawser.dev/approve-deletions": ids}}});
        self.world.service.merge(&at, approved).await?;
        for team in &mass.teams {
            for number in 0..EACH {
                let name = format!("lamp{number}");
                self.world.await_no_copy(&self.kind, team.of(&name)).await;
            }
        }
        self.world.await_conditions(&self.published).await;
        Ok(())
    }
}

async fn deletions_are_a_mass_among_the_workspaces_of_the_replica(world: &World) -> Result<()> {
    let (mut scene, replicas) = Scene::start(world, 2, 2).await?;
    let both: Vec<&Replica> = replicas.iter().collect();
    let mass = scene.delete_a_mass(&both).await?;
    scene.approve(&mass, &mass.ids).await
}

async fn deletions_that_are_held_stay_held_when_their_shard_moves(world: &World) -> Result<()> {
    let (mut scene, replicas) = Scene::start(world, 2, 2).await?;
    let both: Vec<&Replica> = replicas.iter().collect();
    let mass = scene.delete_a_mass(&both).await?;
    let left = scene.await_rest(&mass).await?;
    ensure!(left > 0, "nothing is held");
    let leader = scene.leader().await?;
    let (leading, others): (Vec<&Replica>, Vec<&Replica>) =
        both.iter().copied().partition(|one| one.user == leader);
    others[0].process.kill().await?;
    scene.await_spread(&leading, 2).await;
    ensure!(scene.await_rest(&mass).await? == left);
    let ids = eventually(SOON, "the hold is told as before", async || {
        let ids = scene.held_ids().await?;
        ensure!(ids.split(',').any(|id| id == mass.ids), "{ids}");
        Ok(ids)
    })
    .await;
    scene.approve(&mass, &ids).await
}

async fn changed_rules_wait_until_the_leader_has_published_their_schema(
    world: &World,
) -> Result<()> {
    let (scene, replicas) = Scene::start(world, 2, 2).await?;
    let both: Vec<&Replica> = replicas.iter().collect();
    scene.await_spread(&both, 2).await;
    for team in &scene.teams {
        world.await_marker(&scene.kind, team).await;
    }
    let refused = Matcher {
        verb: Some("create".to_owned()),
        resource: Some("apiresourceschemas".to_owned()),
        ..Matcher::default()
    };
    let refusal = Action::Status {
        code: 500,
        when: When::Before,
    };
    let faults = world.playground.faults();
    faults.add(Fault::new(refused, refusal));
    let change = json!({"spec": {
        "projection": {"shortNames": ["gg"]},
        "filter": {"resource": {"matchLabels": {"sync": "yes"}}},
    }});
    world.change_published(&scene.published, change).await?;
    eventually(SOON, "the leader tries to publish the schema", async || {
        let struck = faults.struck()[0];
        ensure!(struck >= 3, "it has tried {struck} times");
        Ok(())
    })
    .await;
    // Without the label.
    for team in &scene.teams {
        world.await_marker(&scene.kind, team).await;
    }
    faults.clear();
    world.await_conditions(&scene.published).await;
    let left_out = async |team: &Team| -> Result<()> {
        let (without, with) = (testbed::unique("without"), testbed::unique("with"));
        team.make(&scene.kind, &without, json!({})).await;
        let labelled = json!({"metadata": {"labels": {"sync": "yes"}}});
        team.make(&scene.kind, &with, json!({})).await;
        team.patch(&scene.kind, &with, labelled).await?;
        world.await_copy(&scene.kind, team.of(&with)).await;
        let copy = world.copy(&scene.kind, team.of(&without)).await?;
        ensure!(copy.is_none(), "it is synced as before");
        Ok(())
    };
    for team in &scene.teams {
        eventually(SOON, "the filter counts", async || left_out(team).await).await;
    }
    Ok(())
}

async fn replicas_share_workspaces_with_the_rights_that_are_printed_for_shards(
    world: &World,
) -> Result<()> {
    let kind = world.gadgets().await?;
    let published = world.publish(&kind, json!({})).await?;
    let document = world.published(&published, &kind, json!({}));
    world.authorize_with(&document, &["--with-shards"]).await?;
    let start = || {
        let launch = world.launch()?.arg("--enable-leader-election");
        launch.arg("--shards=3").spawn()
    };
    let replicas = [start()?, start()?];
    world.await_published(&published).await;
    let leases = format!(
        "/apis/coordination.k8s.io/v1/namespaces/{}/leases?labelSelector=hawser.dev/lease-group=syncagent.{}",
        world.namespace, world.agent
    );
    let holders = async || -> Result<BTreeMap<String, String>> {
        let leases = world.service.list(&leases).await?;
        let holder = |lease: &Value| {
            let name = lease["metadata"]["name"].as_str()?.to_owned();
            let holder = lease["spec"]["holderIdentity"].as_str().unwrap_or_default();
            Some((name, holder.to_owned()))
        };
        Ok(leases.iter().filter_map(holder).collect())
    };
    let of_shards = |all: &BTreeMap<String, String>| -> BTreeSet<String> {
        let shards = all.iter().filter(|(name, _)| name.contains(".shard-"));
        shards.map(|(_, holder)| holder.clone()).collect()
    };
    eventually(SOON, "both have shards", async || {
        let all = holders().await?;
        // The leader's, three shards and two replicas.
        ensure!(all.len() == 6, "{all:?}");
        let of_shards = of_shards(&all);
        ensure!(of_shards.len() == 2 && !of_shards.contains(""), "{all:?}");
        Ok(())
    })
    .await;
    for number in 0..3 {
        let team = world.team(&format!("team{number}")).await?;
        world.await_marker(&kind, &team).await;
    }
    world.await_conditions(&published).await;

    let [first, second] = replicas;
    // It deletes what the other one leaves when it is killed, and its own when it is stopped.
    first.kill().await?;
    eventually(SOON, "one has all shards", async || {
        let all = holders().await?;
        ensure!(all.len() == 5 && of_shards(&all).len() == 1, "{all:?}");
        Ok(())
    })
    .await;
    second.stop(SOON).await?;
    let all = holders().await?;
    ensure!(
        all.len() == 4 && all.values().all(String::is_empty),
        "{all:?}"
    );
    Ok(())
}
