//! The agent killed at each of its requests about one Work, before and after it takes effect.

use anyhow::{Result, ensure};
use kcp_playground::Playground;
use kcp_playground::server::LoggedRequest;
use serde_json::{Value, json};
use testbed::unique;

use super::played::PlayedFleet;
use super::world::{APPLIED, WORKS, condition, config_map, config_maps, manifest_reason, work};
use crate::killed;

/// The life of one Work.
struct Life {
    fleet: PlayedFleet,
    name: String,
}

impl Life {
    fn manifest(&self, which: &str, value: &str) -> Value {
        config_map(
            "default",
            &format!("{}-{which}", self.name),
            &json!({"v": value}),
        )
    }
}

impl killed::Life for Life {
    const AGENT: &'static str = "hawser-member/";
    const SERVERS: &'static [&'static str] = &["hub", "member"];

    type Wanted = [(&'static str, &'static str)];

    fn servers(&self) -> Result<Vec<&Playground>> {
        Ok(self.fleet.playgrounds.iter().collect())
    }

    fn owns(&self, request: &LoggedRequest) -> bool {
        !["events", "internalmemberclusters", "nodes"].contains(&&*request.resource)
    }

    async fn kill(&mut self) -> Result<()> {
        self.fleet.kill().await
    }

    async fn start(&mut self) -> Result<()> {
        self.fleet.launch()
    }

    /// Objects by their last letter and value; none if the Work is gone.
    async fn is_done(&self, wanted: &Self::Wanted) -> Result<()> {
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

    /// Creation, change and deletion.
    async fn live(&mut self) -> Result<()> {
        self.name = unique("killed");
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
        self.until("deleted", &[]).await
    }
}

#[tokio::test]
async fn an_agent_that_is_killed_at_any_of_its_requests_goes_on_where_it_was() -> Result<()> {
    let fleet = PlayedFleet::start().await?;
    let name = String::new();
    let kinds = [
        "patch works  of the hub",
        "update works status of the hub",
        "get appliedworks  of the member",
        "create appliedworks  of the member",
        "update appliedworks status of the member",
        "delete appliedworks  of the member",
        "watch configmaps  of the member",
        "get configmaps  of the member",
        "patch configmaps  of the member",
        "delete configmaps  of the member",
    ];
    killed::kill_at_each_request(&mut [Life { fleet, name }], &kinds).await
}
