//! The steps of the demonstration, and the moves of replicas with their reasons.

use std::cell::Cell;

use serde_json::{Value, json};

use crate::demo::DemoError;
use crate::demo::example::{manifest as example, manifests};
use crate::demo::files::Files;
use crate::demo::nodes::Nodes;
use crate::demo::place::Place;
use crate::demo::place::name;
use hawser_federation::check::STATUS;
use hawser_federation::types::federated::{TargetSchema, definition};
use hawser_federation::types::manifest;
use hawser_federation::types::type_config::ApiResource;
use kcp_playground::Playground;

/// The members of the demonstration.
pub(super) const MEMBERS: [&str; 3] = ["cluster1", "cluster2", "cluster3"];

pub(super) const SYSTEM: &str = "kube-federation-system";

const NAMESPACES: &str = "/api/v1/namespaces";
const FEDERATED: &str = "/apis/types.kubefed.io/v1beta1/namespaces/shop/federateddeployments";
const AROUND: &str = "/apis/types.kubefed.io/v1beta1/namespaces/shop/federatednamespaces";
const EVENTS: &str = "/api/v1/namespaces/shop/events";

pub(super) struct FederationStory {
    host: Place,
    members: Vec<DemoMember>,
    namespaces: Vec<Value>,
    deployment: Value,
    /// The version of the last event that was printed.
    told: Cell<u64>,
}

struct DemoMember {
    /// None once it is dead.
    playground: Option<Playground>,
    token: Value,
    authority: Value,
    nodes: Nodes,
}

impl FederationStory {
    /// Writes the files and connects; changes nothing on the servers.
    pub(super) async fn begin(
        host: &Playground,
        playgrounds: Vec<Playground>,
        files: &Files,
    ) -> Result<Self, DemoError> {
        let kubeconfig = host.service_kubeconfig();
        files.kubeconfig("host.kubeconfig", &kubeconfig)?;
        let host = Place::connect(&kubeconfig).await?;
        let mut members = Vec::new();
        for (name, playground) in MEMBERS.iter().zip(playgrounds) {
            let kubeconfig = playground.service_kubeconfig();
            files.kubeconfig(&format!("{name}.kubeconfig"), &kubeconfig)?;
            members.push(DemoMember {
                nodes: Nodes::of(Place::connect(&kubeconfig).await?),
                token: kubeconfig["users"][0]["user"]["token"].clone(),
                authority: kubeconfig["clusters"][0]["cluster"]["certificate-authority-data"]
                    .clone(),
                playground: Some(playground),
            });
        }
        let namespaces = include_str!("../../../examples/federation/namespace.yaml");
        Ok(Self {
            host,
            members,
            namespaces: manifests(namespaces)?,
            deployment: example(include_str!("../../../examples/federation/deployment.yaml"))?,
            told: Cell::new(0),
        })
    }

    /// Creates everything that exists before the control plane starts.
    pub(super) async fn prepare(&self, tell: impl Fn(&str)) -> Result<(), DemoError> {
        let target = |group: &str, kind: &str, scope: &str| ApiResource {
            group: group.to_owned(),
            version: "v1".to_owned(),
            kind: kind.to_owned(),
            plural_name: format!("{}s", kind.to_lowercase()),
            scope: scope.to_owned(),
        };
        let types = [
            target("", "Namespace", "Cluster"),
            target("apps", "Deployment", "Namespaced"),
        ];
        let federated = |target: &ApiResource| ApiResource {
            group: "types.kubefed.io".to_owned(),
            version: "v1beta1".to_owned(),
            kind: format!("Federated{}", target.kind),
            plural_name: format!("federated{}", target.plural_name),
            scope: "Namespaced".to_owned(),
        };
        let mut definitions = manifest::definitions();
        definitions.extend(
            types
                .each_ref()
                .map(|target| definition(&federated(target), &[], TargetSchema::Scalable)),
        );
        for definition in &definitions {
            self.host.define(definition).await?;
        }
        let system = json!({"metadata": {"name": SYSTEM}});
        self.host.create(NAMESPACES, &system).await?;
        let config = json!({
            "apiVersion": "core.kubefed.io/v1beta1", "kind": "KubeFedConfig", "metadata": {"name": "kubefed"},
            "spec": {
                "scope": "Cluster",
                "controllerDuration": {"availableDelay": "1s", "unavailableDelay": "1s"},
                "clusterHealthCheck": {"period": "1s", "failureThreshold": 3, "timeout": "1s"},
            },
        });
        self.host.create(&core("kubefedconfigs"), &config).await?;
        for target in &types {
            let config = json!({
                "apiVersion": "core.kubefed.io/v1beta1", "kind": "FederatedTypeConfig",
                "metadata": {"name": target.qualified_name()},
                "spec": {"targetType": target, "federatedType": federated(target), "propagation": "Enabled"},
            });
            let all = core("federatedtypeconfigs");
            self.host.create(&all, &config).await?;
        }
        tell("host: the types namespaces and deployments.apps are enabled");
        for (name, member) in MEMBERS.iter().zip(&self.members) {
            member.join(name, &self.host).await?;
        }
        tell(&format!("host: {} have joined", MEMBERS.join(", ")));
        Ok(())
    }

    /// The steps once the control plane runs.
    pub(super) async fn play(&mut self, tell: impl Fn(&str)) -> Result<(), DemoError> {
        for namespace in &self.namespaces {
            let all = if namespace["kind"] == "Namespace" {
                NAMESPACES
            } else {
                AROUND
            };
            self.host.create(all, namespace).await?;
        }
        let deployment = &self.deployment;
        self.host.create(FEDERATED, deployment).await?;
        tell(&format!(
            "host: FederatedDeployment {} has {} replicas, with the same share in each member",
            name(deployment),
            deployment["spec"]["template"]["spec"]["replicas"]
        ));
        self.tell_when(&tell, false, |ready| ready == [3, 3, 3])
            .await?;

        let third = &self.members[2];
        third.nodes.set_room(1);
        tell("cluster3: has room for one Pod only");
        self.tell_when(&tell, false, |ready| ready == [4, 4, 1])
            .await?;
        third.nodes.set_room(usize::MAX);
        tell("cluster3: has room again");
        self.tell_when(&tell, true, |ready| ready == [3, 3, 3])
            .await?;

        if let Some(playground) = self.members[1].playground.take() {
            playground.stop().await;
        }
        tell("cluster2: dies");
        self.tell_when(&tell, false, |ready| ready[0] + ready[2] == 9)
            .await?;
        tell("host: cluster2 cannot be reached; if it returns, it still has its replicas");
        Ok(())
    }

    /// Waits until this number of replicas is ready in each member, and prints it with the control plane's reason. It
    /// does not print the same reason again.
    async fn tell_when(
        &self,
        tell: impl Fn(&str),
        is_again: bool,
        fits: impl Fn([i64; 3]) -> bool,
    ) -> Result<(), DemoError> {
        let path = format!("{FEDERATED}/{}", name(&self.deployment));
        let ready = self.host.until(&path, |found| {
            let text = found["metadata"]["annotations"][STATUS].as_str()?;
            let status: Value = serde_json::from_str(text).ok()?;
            let ready = MEMBERS.map(|name| {
                let member = &status["clusters"][name];
                let known = member["unknown"] != true;
                member["ready"].as_i64().filter(|_| known).unwrap_or(0)
            });
            fits(ready).then_some(ready)
        });
        let ready = ready.await?;
        let why = self.host.until(EVENTS, |events| {
            let (version, why) = last_schedule(events)?;
            (is_again || version > self.told.get()).then_some((version, why))
        });
        let (version, why) = why.await?;
        if version > self.told.replace(version) {
            tell(&format!("host: {why}"));
        }
        let counts = MEMBERS.iter().zip(ready);
        let counts: Vec<String> = counts
            .map(|(name, count)| format!("{count} in {name}"))
            .collect();
        tell(&format!("host: replicas are ready: {}", counts.join(", ")));
        Ok(())
    }
}

impl DemoMember {
    /// Registers the member with the token of its administrator.
    async fn join(&self, name: &str, host: &Place) -> Result<(), DemoError> {
        let secret = json!({
            "metadata": {"name": format!("{name}-token")}, "stringData": {"token": self.token},
        });
        let secrets = format!("{NAMESPACES}/{SYSTEM}/secrets");
        host.create(&secrets, &secret).await?;
        let url = self.playground.as_ref().map(Playground::service_url);
        let cluster = json!({
            "apiVersion": "core.kubefed.io/v1beta1", "kind": "KubeFedCluster", "metadata": {"name": name},
            "spec": {
                "apiEndpoint": url, "caBundle": self.authority,
                "secretRef": {"name": format!("{name}-token")},
            },
        });
        host.create(&core("kubefedclusters"), &cluster).await
    }
}

fn core(plural: &str) -> String {
    format!("/apis/core.kubefed.io/v1beta1/namespaces/{SYSTEM}/{plural}")
}

/// The control plane's last message about moved replicas.
fn last_schedule(events: &Value) -> Option<(u64, String)> {
    let events = events["items"].as_array()?.iter();
    let moved = events.filter(|event| event["reason"] == "ReplicasScheduled");
    let dated = moved.filter_map(|event| {
        let version = event["metadata"]["resourceVersion"].as_str()?;
        let message = event["message"].as_str()?;
        Some((version.parse().ok()?, message.to_owned()))
    });
    dated.max()
}
