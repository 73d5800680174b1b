//! The control plane killed at each of its requests about one federated object and its namespace, before and after the
//! request takes effect.

use anyhow::{Result, ensure};
use kcp_playground::Playground;
use kcp_playground::server::LoggedRequest;
use serde_json::{Value, json};
use testbed::unique;

use super::world::{Way, World, config_map, config_maps, everywhere, federated, on};
use crate::killed::{self, Life as _};

/// The life of one federated object.
struct Life {
    world: World,
    host: Way,
    members: [Way; 2],
    namespace: String,
    /// Of the copies, as long as nobody wants them to be others.
    uids: [Option<Value>; 2],
}

/// How everything is to be in the end of a part of the life.
#[derive(Debug, Default)]
struct Wanted {
    /// Whether the namespace is federated, and so in the members.
    namespace: bool,
    federated: bool,
    /// The data of each copy; none where there is none.
    data: [Option<&'static str>; 2],
    /// Whether copies are the control plane's.
    managed: bool,
}

impl Life {
    async fn begin() -> Result<Self> {
        let mut world = World::played().await?;
        world.start().await?;
        Ok(Self {
            host: world.host().await?,
            members: [world.member(0).await?, world.member(1).await?],
            world,
            namespace: String::new(),
            uids: [None, None],
        })
    }

    fn path(&self) -> String {
        format!("{}/m", federated(&self.namespace, "federatedconfigmaps"))
    }

    fn around(&self) -> String {
        let all = federated(&self.namespace, "federatednamespaces");
        format!("{all}/{}", self.namespace)
    }

    /// Waits until all is as wanted, and copies that were there are the same ones.
    async fn until_kept(&mut self, what: &str, wanted: &Wanted) -> Result<()> {
        self.until(what, wanted).await?;
        for number in 0..2 {
            let copy = self.copy(number).await?;
            let uid = copy.map(|copy| copy["metadata"]["uid"].clone());
            let before = &self.uids[number];
            ensure!(
                before.is_none() || uid.is_none() || *before == uid,
                "{what}: the copy in member {number} was made anew"
            );
            self.uids[number] = uid;
        }
        Ok(())
    }

    async fn copy(&self, member: usize) -> Result<Option<Value>> {
        let path = format!("{}/m", config_maps(&self.namespace));
        self.members[member].get(&path).await
    }
}

impl killed::Life for Life {
    const AGENT: &'static str = "hawser/";
    const SERVERS: &'static [&'static str] = &["host", "member", "member", "member"];

    type Wanted = Wanted;

    fn servers(&self) -> Result<Vec<&Playground>> {
        self.world.playgrounds()
    }

    fn owns(&self, request: &LoggedRequest) -> bool {
        // A namespace has no name yet while it is created.
        let is_namespace = request.resource == "namespaces"
            && (request.verb == "create" || request.name == self.namespace);
        // Events are sent aside.
        (request.namespace == self.namespace || is_namespace) && request.resource != "events"
    }

    async fn kill(&mut self) -> Result<()> {
        self.world.kill().await
    }

    async fn start(&mut self) -> Result<()> {
        self.world.start().await
    }

    async fn is_done(&self, wanted: &Wanted) -> Result<()> {
        let namespace = format!("/api/v1/namespaces/{}", self.namespace);
        for (number, member) in self.members.iter().enumerate() {
            let there = member.get(&namespace).await?.is_some();
            ensure!(there == wanted.namespace, "namespace in {number}: {there}");
            let copy = self.copy(number).await?.unwrap_or_default();
            let data = copy["data"]["A"].as_str();
            ensure!(data == wanted.data[number], "data in {number}: {data:?}");
            let is_managed = copy["metadata"]["labels"]["kubefed.io/managed"] == "true";
            ensure!(
                data.is_none() || is_managed == wanted.managed,
                "managed in {number}: {is_managed}"
            );
        }
        for (path, is_wanted) in [
            (self.around(), wanted.namespace),
            (self.path(), wanted.federated),
        ] {
            let found = self.host.get(&path).await?;
            ensure!(found.is_some() == is_wanted, "{path}: {found:#?}");
            let Some(found) = found else { continue };
            let status = &found["status"];
            ensure!(
                status["conditions"][0]["status"] == "True"
                    && status["observedGeneration"] == found["metadata"]["generation"],
                "{path}: {status:#}"
            );
        }
        if wanted.federated {
            let versions = format!(
                "/apis/core.kubefed.io/v1alpha1/namespaces/{}/propagatedversions/configmap-m",
                self.namespace
            );
            let versions = self.host.get(&versions).await?.unwrap_or_default();
            let known = versions["status"]["clusterVersions"].as_array();
            let count = wanted.data.iter().flatten().count();
            ensure!(known.map_or(0, Vec::len) == count, "{versions:#}");
        }
        Ok(())
    }

    /// From a namespace that is federated to its end.
    async fn live(&mut self) -> Result<()> {
        self.namespace = unique("killed");
        self.uids = [None, None];
        let mut wanted = Wanted {
            namespace: true,
            managed: true,
            ..Wanted::default()
        };
        let name = json!({"name": self.namespace});
        self.host
            .create("/api/v1/namespaces", &json!({"metadata": name}))
            .await?;
        let around = json!({
            "apiVersion": "types.kubefed.io/v1beta1", "kind": "FederatedNamespace",
            "metadata": name, "spec": {"placement": everywhere()},
        });
        let all = federated(&self.namespace, "federatednamespaces");
        self.host.create(&all, &around).await?;
        self.until_kept("the namespace is federated", &wanted)
            .await?;

        // Something of the name is there before in one of the members, and taken over.
        let before = json!({"metadata": {"name": "m"}, "data": {"A": "before"}});
        let maps = config_maps(&self.namespace);
        let there = self.members[1].create(&maps, &before).await?;
        self.uids[1] = Some(there["metadata"]["uid"].clone());
        let all = federated(&self.namespace, "federatedconfigmaps");
        let object = config_map("m", &everywhere());
        self.host.create(&all, &object).await?;
        wanted.federated = true;
        wanted.data = [Some("ala ma kota"); 2];
        self.until_kept("created", &wanted).await?;

        let change = json!({"spec": {"template": {"data": {"A": "changed"}}}});
        self.host.patch(&self.path(), &change).await?;
        wanted.data = [Some("changed"); 2];
        self.until_kept("changed", &wanted).await?;

        let only = json!({"spec": {"placement": on(&["cluster1"])}});
        self.host.patch(&self.path(), &only).await?;
        wanted.data[1] = None;
        self.until_kept("taken back from a member", &wanted).await?;
        let both = json!({"spec": {"placement": on(&["cluster1", "cluster2"])}});
        self.host.patch(&self.path(), &both).await?;
        wanted.data[1] = Some("changed");
        self.until_kept("placed there again", &wanted).await?;

        let orphan = json!({"metadata": {"annotations": {"kubefed.io/orphan": "true"}}});
        self.host.patch(&self.path(), &orphan).await?;
        self.host.delete(&self.path()).await?;
        wanted.federated = false;
        wanted.managed = false;
        self.until_kept("orphaned", &wanted).await?;
        self.host.create(&all, &object).await?;
        wanted.federated = true;
        wanted.managed = true;
        wanted.data = [Some("ala ma kota"); 2];
        self.until_kept("taken over again", &wanted).await?;

        self.host.delete(&self.path()).await?;
        wanted.federated = false;
        wanted.data = [None; 2];
        self.until_kept("deleted", &wanted).await?;
        self.host.delete(&self.around()).await?;
        wanted.namespace = false;
        self.until_kept("the namespace is not federated any more", &wanted)
            .await?;
        Ok(())
    }
}

#[tokio::test]
async fn a_control_plane_that_is_killed_at_any_of_its_requests_goes_on_where_it_was() -> Result<()>
{
    let kinds = [
        "patch federatednamespaces  of the host",
        "update federatednamespaces status of the host",
        "patch federatedconfigmaps  of the host",
        "update federatedconfigmaps status of the host",
        "create propagatedversions  of the host",
        "update propagatedversions status of the host",
        "create namespaces  of the member",
        "delete namespaces  of the member",
        "get namespaces  of the member",
        "create configmaps  of the member",
        "get configmaps  of the member",
        "update configmaps  of the member",
        "patch configmaps  of the member",
        "delete configmaps  of the member",
    ];
    killed::kill_at_each_request(&mut [Life::begin().await?], &kinds).await
}
