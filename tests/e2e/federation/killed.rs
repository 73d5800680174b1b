//! The control plane killed at each of its requests about one federated object and its namespace, before and after the
//! request takes effect.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use kcp_playground::server::{Action, Fault, LoggedRequest, Matcher, When};
use serde_json::{Value, json};
use testbed::{SOON, eventually, unique};

use super::world::{Way, World, config_map, config_maps, everywhere, federated, on};

/// Longer than any test: who waits for the answer is killed meanwhile.
const NEVER: Duration = Duration::from_hours(1);

/// Verb, resource and subresource of a request.
type RequestKind = [String; 3];

/// A request about the object, by its server and its number among those of its kind.
#[derive(Clone, Debug)]
struct Boundary {
    server: usize,
    kind: RequestKind,
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

impl<'w> Life<'w> {
    async fn begin(world: &'w mut World, at: Option<Boundary>) -> Result<Self> {
        let namespace = unique("killed");
        let host = world.host().await?;
        let members = [world.member(0).await?, world.member(1).await?];
        let marks = (world.playgrounds()?.iter().map(|one| one.requests().mark())).collect();
        if let Some(at) = &at {
            let [verb, resource, subresource] = at.kind.clone().map(Some);
            // Namespaces are in none, and have no name yet while they are created.
            let is_of_namespaces = at.kind[1] == "namespaces";
            let is_creation = at.kind[0] == "create";
            let own = Some(namespace.clone());
            let matcher = Matcher {
                verb,
                resource,
                subresource,
                name: own.clone().filter(|_| is_of_namespaces && !is_creation),
                namespace: own.filter(|_| !is_of_namespaces),
                agent: Some("hawser/".to_owned()),
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

    fn is_struck(&self) -> Result<bool> {
        let Some(at) = &self.at else { return Ok(false) };
        let struck = self.world.playgrounds()?[at.server].faults().struck();
        Ok(struck.contains(&1))
    }

    /// Waits until all is as wanted. Kills the control plane when it comes to its request.
    async fn until(&mut self, what: &str, wanted: &Wanted) -> Result<()> {
        eventually(SOON, what, async || {
            if self.is_struck()? {
                return Ok(());
            }
            self.is_done(wanted).await
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
        eventually(SOON, what, async || self.is_done(wanted).await).await;
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

    /// The requests of the control plane about the namespace so far, on each server. Its events are sent aside.
    fn requests(&self) -> Result<Vec<Vec<LoggedRequest>>> {
        let about = |request: &LoggedRequest| {
            let is_namespace = request.resource == "namespaces"
                && (request.verb == "create" || request.name == self.namespace);
            (request.namespace == self.namespace || is_namespace)
                && !["list", "watch"].contains(&&*request.verb)
                && request.resource != "events"
                && request.user_agent.starts_with("hawser/")
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

    /// From a namespace that is federated to its end. The requests that were made, and whether the one was among them.
    async fn live(mut self) -> Result<(Vec<Vec<LoggedRequest>>, bool)> {
        let is_to_be_killed = self.at.is_some();
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
        self.until("the namespace is federated", &wanted).await?;

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
        self.until("created", &wanted).await?;

        let change = json!({"spec": {"template": {"data": {"A": "changed"}}}});
        self.host.patch(&self.path(), &change).await?;
        wanted.data = [Some("changed"); 2];
        self.until("changed", &wanted).await?;

        let only = json!({"spec": {"placement": on(&["cluster1"])}});
        self.host.patch(&self.path(), &only).await?;
        wanted.data[1] = None;
        self.until("taken back from a member", &wanted).await?;
        let both = json!({"spec": {"placement": on(&["cluster1", "cluster2"])}});
        self.host.patch(&self.path(), &both).await?;
        wanted.data[1] = Some("changed");
        self.until("placed there again", &wanted).await?;

        let orphan = json!({"metadata": {"annotations": {"kubefed.io/orphan": "true"}}});
        self.host.patch(&self.path(), &orphan).await?;
        self.host.delete(&self.path()).await?;
        wanted.federated = false;
        wanted.managed = false;
        self.until("orphaned", &wanted).await?;
        self.host.create(&all, &object).await?;
        wanted.federated = true;
        wanted.managed = true;
        wanted.data = [Some("ala ma kota"); 2];
        self.until("taken over again", &wanted).await?;

        self.host.delete(&self.path()).await?;
        wanted.federated = false;
        wanted.data = [None; 2];
        self.until("deleted", &wanted).await?;
        self.host.delete(&self.around()).await?;
        wanted.namespace = false;
        self.until("the namespace is not federated any more", &wanted)
            .await?;
        let was_killed = is_to_be_killed && self.at.is_none();
        for playground in self.world.playgrounds()? {
            playground.faults().clear();
        }
        Ok((self.requests()?, was_killed))
    }
}

/// Where the control plane is to be killed, by the requests of a life.
fn boundaries(requests: Vec<Vec<LoggedRequest>>) -> Vec<Boundary> {
    let mut boundaries = Vec::new();
    let mut of_members = BTreeSet::new();
    for (server, requests) in requests.into_iter().enumerate() {
        let mut numbers = BTreeMap::<_, u64>::new();
        for request in requests {
            let kind = [request.verb, request.resource, request.subresource];
            let number = numbers.entry(kind.clone()).or_default();
            let skip = *number;
            *number += 1;
            // One member is like the other.
            if server > 0 && !of_members.insert((kind.clone(), skip)) {
                continue;
            }
            for when in [When::Before, When::After] {
                boundaries.push(Boundary {
                    server,
                    kind: kind.clone(),
                    skip,
                    when,
                });
            }
        }
    }
    boundaries
}

#[tokio::test]
async fn a_control_plane_that_is_killed_at_any_of_its_requests_goes_on_where_it_was() -> Result<()>
{
    let mut world = World::played().await?;
    world.start().await?;
    let (requests, _) = Life::begin(&mut world, None).await?.live().await?;
    let boundaries = boundaries(requests);
    let kinds = |all: &mut dyn Iterator<Item = &Boundary>| -> BTreeSet<String> {
        all.map(|at| {
            format!(
                "{} of a member: {}, {:?}",
                at.kind.join(" "),
                at.server > 0,
                at.when
            )
        })
        .collect()
    };
    let wanted = kinds(&mut boundaries.iter());
    for kind in [
        "patch federatednamespaces  of a member: false",
        "update federatednamespaces status of a member: false",
        "patch federatedconfigmaps  of a member: false",
        "update federatedconfigmaps status of a member: false",
        "create propagatedversions  of a member: false",
        "update propagatedversions status of a member: false",
        "create namespaces  of a member: true",
        "delete namespaces  of a member: true",
        "get namespaces  of a member: true",
        "create configmaps  of a member: true",
        "get configmaps  of a member: true",
        "update configmaps  of a member: true",
        "patch configmaps  of a member: true",
        "delete configmaps  of a member: true",
    ] {
        for when in ["Before", "After"] {
            let kind = format!("{kind}, {when}");
            ensure!(wanted.contains(&kind), "{kind} is not in {wanted:#?}");
        }
    }
    let mut struck = Vec::new();
    for boundary in boundaries {
        let life = Life::begin(&mut world, Some(boundary.clone())).await?;
        let lived = life.live().await;
        let (_, was_killed) = lived.with_context(|| format!("killed at {boundary:?}"))?;
        if was_killed {
            struck.push(boundary);
        }
    }
    // Two writes of a status may be one in another run; no kind of request was left out.
    let missing: Vec<String> = (wanted.difference(&kinds(&mut struck.iter())).cloned()).collect();
    ensure!(missing.is_empty(), "{missing:#?}");
    Ok(())
}
