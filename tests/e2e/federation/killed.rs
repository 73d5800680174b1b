//! The control plane killed at each of its writes, before and after it takes effect.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Result, ensure};
use kcp_playground::server::{Action, Fault, LoggedRequest, Matcher, When};
use serde_json::{Value, json};
use testbed::{SOON, eventually, unique};

use super::world::{Way, World, config_map, config_maps, everywhere, federated};

/// Longer than any test: who waits for the answer is killed meanwhile.
const NEVER: Duration = Duration::from_hours(1);

/// A write about the object, by its server and its number among those of its kind.
#[derive(Clone, Debug)]
struct Boundary {
    server: usize,
    write: LoggedRequest,
    skip: u64,
    when: When,
}

/// The life of one federated object, with the control plane killed on the way.
struct Life<'w> {
    world: &'w mut World,
    host: Way,
    members: [Way; 2],
    namespace: String,
    at: Option<Boundary>,
    marks: Vec<u64>,
}

impl<'w> Life<'w> {
    async fn begin(world: &'w mut World, at: Option<Boundary>) -> Result<Self> {
        let namespace = unique("killed");
        world.namespace(&namespace).await?;
        let host = world.host().await?;
        let around = federated(&namespace, "federatednamespaces");
        host.until_reason(&format!("{around}/{namespace}"), None)
            .await;
        let members = [world.member(0).await?, world.member(1).await?];
        let marks = (world.playgrounds()?.iter().map(|one| one.requests().mark())).collect();
        if let Some(at) = &at {
            let text = |text: &str| Some(text.to_owned());
            let matcher = Matcher {
                verb: text(&at.write.verb),
                resource: text(&at.write.resource),
                subresource: text(&at.write.subresource),
                namespace: text(&namespace),
                agent: text("hawser/"),
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
            world.playgrounds()?[at.server].faults().add(fault);
        }
        Ok(Self {
            world,
            host,
            members,
            namespace,
            at,
            marks,
        })
    }

    fn path(&self) -> String {
        format!("{}/m", federated(&self.namespace, "federatedconfigmaps"))
    }

    fn is_struck(&self) -> Result<bool> {
        let Some(at) = &self.at else { return Ok(false) };
        let struck = self.world.playgrounds()?[at.server].faults().struck();
        Ok(struck.contains(&1))
    }

    /// Waits until the object and its copies are as they should be. Kills the control plane when it comes to its write.
    async fn until(&mut self, what: &str, data: Option<&Value>) -> Result<()> {
        eventually(SOON, what, async || {
            if self.is_struck()? {
                return Ok(());
            }
            self.is_done(data).await
        })
        .await;
        if self.is_struck()? {
            self.at = None;
            self.world.kill().await?;
            for playground in self.world.playgrounds()? {
                playground.faults().clear();
            }
            self.world.start().await?;
        }
        eventually(SOON, what, async || self.is_done(data).await).await;
        Ok(())
    }

    async fn is_done(&self, data: Option<&Value>) -> Result<()> {
        let copy = format!("{}/m", config_maps(&self.namespace));
        for member in &self.members {
            let found = member.get(&copy).await?;
            let found = found.as_ref().map(|found| &found["data"]);
            ensure!(found == data, "{found:?} in place of {data:?}");
        }
        let found = self.host.get(&self.path()).await?;
        let Some(found) = found else {
            ensure!(data.is_none(), "the object is gone");
            return Ok(());
        };
        ensure!(data.is_some(), "the object is there: {found:#}");
        let status = &found["status"];
        ensure!(
            status["conditions"][0]["status"] == "True"
                && status["observedGeneration"] == found["metadata"]["generation"],
            "{status:#}"
        );
        let versions = format!(
            "/apis/core.kubefed.io/v1alpha1/namespaces/{}/propagatedversions/configmap-m",
            self.namespace
        );
        let versions = self.host.get(&versions).await?.unwrap_or_default();
        let known = versions["status"]["clusterVersions"].as_array();
        ensure!(known.is_some_and(|known| known.len() == 2), "{versions:#}");
        Ok(())
    }

    /// The writes of the control plane about the object so far, on each server.
    fn writes(&self) -> Result<Vec<Vec<LoggedRequest>>> {
        let about = |write: &LoggedRequest| {
            write.namespace == self.namespace
                && !["get", "list", "watch"].contains(&&*write.verb)
                && !["events", "namespaces"].contains(&&*write.resource)
                && write.user_agent.starts_with("hawser/")
        };
        let logs = self.world.playgrounds()?.into_iter().zip(&self.marks);
        Ok(logs
            .map(|(one, mark)| {
                let mut all = one.requests().since(*mark);
                all.retain(about);
                all
            })
            .collect())
    }

    /// Creation, change and deletion. The writes that were made.
    async fn live(mut self) -> Result<Vec<Vec<LoggedRequest>>> {
        let all = federated(&self.namespace, "federatedconfigmaps");
        self.host
            .create(&all, &config_map("m", &everywhere()))
            .await?;
        self.until("created", Some(&json!({"A": "ala ma kota"})))
            .await?;
        let change = json!({"spec": {"template": {"data": {"A": "changed"}}}});
        self.host.patch(&self.path(), &change).await?;
        self.until("changed", Some(&json!({"A": "changed"})))
            .await?;
        let writes = self.writes()?;
        for of_member in &writes[1..] {
            let deleted = of_member.iter().any(|write| write.verb == "delete");
            ensure!(!deleted, "a copy was made anew: {of_member:#?}");
        }
        self.host.delete(&self.path()).await?;
        self.until("deleted", None).await?;
        ensure!(self.at.is_none(), "the write was not made: {:?}", self.at);
        self.writes()
    }
}

#[tokio::test]
async fn a_control_plane_that_is_killed_at_any_of_its_writes_goes_on_where_it_was() -> Result<()> {
    let mut world = World::played().await?;
    world.start().await?;
    let writes = Life::begin(&mut world, None).await?.live().await?;
    let mut boundaries = Vec::new();
    for (server, writes) in writes.into_iter().enumerate() {
        let mut numbers = BTreeMap::<_, u64>::new();
        for write in writes {
            let kind = [&write.verb, &write.resource, &write.subresource].map(Clone::clone);
            let number = numbers.entry(kind).or_default();
            let skip = *number;
            *number += 1;
            for when in [When::Before, When::After] {
                let write = write.clone();
                boundaries.push(Boundary {
                    server,
                    write,
                    skip,
                    when,
                });
            }
        }
    }
    // A finalizer, versions, and status on the host; a create, an update and a delete in each member.
    ensure!(boundaries.len() >= 2 * 12, "{boundaries:#?}");
    for boundary in boundaries {
        Life::begin(&mut world, Some(boundary))
            .await?
            .live()
            .await?;
    }
    Ok(())
}
