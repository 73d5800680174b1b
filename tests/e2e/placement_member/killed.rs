//! The agent killed at each of its writes about one Work, before and after it takes effect.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use kcp_playground::server::{Action, Fault, LoggedRequest, Matcher, When};
use serde_json::{Value, json};
use testbed::{SOON, eventually, unique};

use super::played::PlayedFleet;
use super::world::{APPLIED, WORKS, condition, config_map, config_maps, manifest_reason, work};

/// Longer than any test: who waits for the answer is killed meanwhile.
const NEVER: Duration = Duration::from_hours(1);

/// A write about the Work, by its server and its number among those of its kind.
#[derive(Clone, Debug)]
struct Boundary {
    server: usize,
    write: LoggedRequest,
    /// The name of the object without the life that it belongs to.
    name: String,
    skip: u64,
    when: When,
}

/// The life of one Work, with the agent killed on the way.
struct Life<'f> {
    fleet: &'f mut PlayedFleet,
    name: String,
    at: Option<Boundary>,
    marks: [u64; 2],
}

impl<'f> Life<'f> {
    fn begin(fleet: &'f mut PlayedFleet, at: Option<Boundary>) -> Self {
        let name = unique("killed");
        let marks = fleet
            .playgrounds
            .each_ref()
            .map(|one| one.requests().mark());
        if let Some(at) = &at {
            let text = |text: &str| Some(text.to_owned());
            let matcher = Matcher {
                verb: text(&at.write.verb),
                resource: text(&at.write.resource),
                subresource: text(&at.write.subresource),
                name: text(&format!("{name}{}", at.name)),
                agent: text("hawser-member/"),
                ..Matcher::default()
            };
            let action = match at.when {
                When::Before => Action::Latency(NEVER),
                When::After => Action::Reset(When::After),
            };
            let fault = Fault {
                skip: at.skip,
                ..Fault::new(matcher, action).once()
            };
            fleet.playgrounds[at.server].faults().add(fault);
        }
        Self {
            fleet,
            name,
            at,
            marks,
        }
    }

    fn manifest(&self, which: &str, value: &str) -> Value {
        config_map(
            "default",
            &format!("{}-{which}", self.name),
            &json!({"v": value}),
        )
    }

    fn is_struck(&self) -> bool {
        let Some(at) = &self.at else { return false };
        let struck = self.fleet.playgrounds[at.server].faults().struck();
        struck.contains(&1)
    }

    /// Waits until the Work and its objects are as they should be. Kills the agent when it comes to its write.
    async fn until(&mut self, what: &str, wanted: &[(&str, &str)]) -> Result<()> {
        eventually(SOON, what, async || {
            if self.is_struck() {
                return Ok(());
            }
            self.is_done(wanted).await
        })
        .await;
        if self.is_struck() {
            self.at = None;
            self.fleet.kill().await?;
            for playground in &self.fleet.playgrounds {
                playground.faults().clear();
            }
            self.fleet.launch()?;
        }
        eventually(SOON, what, async || self.is_done(wanted).await).await;
        Ok(())
    }

    /// Objects by their last letter and value; none if the Work is gone.
    async fn is_done(&self, wanted: &[(&str, &str)]) -> Result<()> {
        let [hub, member] = &self.fleet.ways;
        let all = member.get(&config_maps("default")).await?;
        let all = all.unwrap_or_default();
        let mut there = Vec::new();
        for map in all["items"].as_array().into_iter().flatten() {
            let name = map["metadata"]["name"].as_str().unwrap_or_default();
            let Some(which) = name.strip_prefix(&format!("{}-", self.name)) else {
                continue;
            };
            let owners = map["metadata"]["ownerReferences"].as_array();
            ensure!(owners.is_some_and(|all| all.len() == 1), "{map:#}");
            there.push((which.to_owned(), map["data"]["v"].clone()));
        }
        there.sort_by(|one, other| one.0.cmp(&other.0));
        let is_as_wanted = there.len() == wanted.len()
            && there
                .iter()
                .zip(wanted)
                .all(|(there, wanted)| there.0 == wanted.0 && there.1 == wanted.1);
        ensure!(is_as_wanted, "{there:?} in place of {wanted:?}");
        let work = hub.get(&format!("{WORKS}/{}", self.name)).await?;
        let applied = member.get(&format!("{APPLIED}/{}", self.name)).await?;
        let Some(work) = work else {
            ensure!(applied.is_none(), "{applied:#?}");
            return Ok(());
        };
        ensure!(!wanted.is_empty(), "the Work is there: {work:#}");
        let available = condition(&work["status"], "Available");
        ensure!(
            available["status"] == "True"
                && available["observedGeneration"] == work["metadata"]["generation"],
            "{work:#}"
        );
        let manifests = work["status"]["manifestConditions"].as_array();
        ensure!(
            manifests.is_some_and(|all| all.len() == wanted.len()),
            "{work:#}"
        );
        ensure!(
            manifest_reason(&work, 0, "Applied") == "Applied",
            "{work:#}"
        );
        let listed = applied.unwrap_or_default()["status"]["appliedResources"].clone();
        ensure!(
            listed
                .as_array()
                .is_some_and(|all| all.len() == wanted.len()),
            "{listed:#}"
        );
        Ok(())
    }

    /// The writes of the agent about the Work so far, on each server.
    fn writes(&self) -> Vec<(usize, LoggedRequest)> {
        let mut found = Vec::new();
        for (server, (one, mark)) in self.fleet.playgrounds.iter().zip(self.marks).enumerate() {
            let all = one.requests().since(mark);
            let writes = all.into_iter().filter(|write| {
                write.name.starts_with(&self.name)
                    && !["get", "list", "watch"].contains(&&*write.verb)
                    && write.user_agent.starts_with("hawser-member/")
            });
            found.extend(writes.map(|write| (server, write)));
        }
        found
    }

    /// Creation, change and deletion. The writes that were made, and the name of the life.
    async fn live(mut self) -> Result<(String, Vec<(usize, LoggedRequest)>)> {
        let at = format!("{WORKS}/{}", self.name);
        let made = work(
            &self.name,
            &[self.manifest("a", "1"), self.manifest("b", "1")],
            &json!(null),
        );
        self.fleet.ways[0].create(WORKS, &made).await?;
        self.until("created", &[("a", "1"), ("b", "1")]).await?;
        let manifests = [self.manifest("a", "2"), self.manifest("c", "2")];
        let change = json!({"spec": {"workload": {"manifests": manifests}}});
        self.fleet.ways[0].patch(&at, &change).await?;
        self.until("changed", &[("a", "2"), ("c", "2")]).await?;
        self.fleet.ways[0].delete(&at).await?;
        self.until("deleted", &[]).await?;
        ensure!(self.at.is_none(), "the write was not made: {:?}", self.at);
        let writes = self.writes();
        Ok((self.name, writes))
    }
}

#[tokio::test]
async fn an_agent_that_is_killed_at_any_of_its_writes_goes_on_where_it_was() -> Result<()> {
    let mut fleet = PlayedFleet::start().await?;
    let (life, writes) = Life::begin(&mut fleet, None).live().await?;
    let mut boundaries = Vec::new();
    let mut numbers = BTreeMap::<_, u64>::new();
    for (server, write) in writes {
        let name = write.name.strip_prefix(&life).context("a name")?.to_owned();
        let kind = [&write.verb, &write.resource, &write.subresource, &name].map(Clone::clone);
        let number = numbers.entry(kind).or_default();
        let skip = *number;
        *number += 1;
        for when in [When::Before, When::After] {
            boundaries.push(Boundary {
                server,
                write: write.clone(),
                name: name.clone(),
                skip,
                when,
            });
        }
    }
    // Finalizer, lists and states on the hub, twice; AppliedWork with its lists, objects made, changed and removed in the
    // member.
    ensure!(boundaries.len() >= 2 * 14, "{boundaries:#?}");
    for boundary in boundaries {
        Life::begin(&mut fleet, Some(boundary)).live().await?;
    }
    Ok(())
}
