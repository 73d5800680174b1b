//! `FederatedServiceStatus`: the status of the copies of a Service, for clients that do not read it in the status
//! of the federated object.

use serde_json::{Value, json};
use tracing::warn;

use hawser_federation::types::service_status::ServiceClusterStatus;
use hawser_federation::types::type_config::ApiResource;
use hawser_runtime::cluster::queue::Outcome;
use hawser_sync::{Answer, Failure, Request, Seen, Store as _};
use kube_lang::object::Object;

use super::super::host;
use super::FederatedPass;

impl FederatedPass<'_> {
    /// Writes the status of the copies in all ready members, if a type for it is configured. True if nothing is left to
    /// write.
    pub(super) async fn collect_service_status(&self, federated: &Object) -> bool {
        let Some(resource) = &self.of.spec.service_status else {
            return true;
        };
        let controller = resource.kind.to_lowercase();
        let running = self.at.numbers.controllers.begin(&controller);
        let is_written = self.write_service_status(federated, resource).await;
        running.end(Ok(if is_written {
            Outcome::Settled
        } else {
            Outcome::Failed(None)
        }));
        is_written
    }

    async fn write_service_status(&self, federated: &Object, resource: &ApiResource) -> bool {
        let kind = resource.gvk().into();
        let key = host::scope(&kind).key(federated.namespace(), federated.name());
        let ready = self.members.iter();
        let ready = ready.filter(|(_, member)| member.ready().is_some());
        let clusters = ready.map(|(name, _)| ServiceClusterStatus {
            cluster_name: name.to_string(),
            status: match self.at.cache.get(&self.of.copy_key(self.id, name)) {
                Seen::Present(copy) => copy
                    .root()
                    .get("status")
                    .and_then(Value::as_object)
                    .cloned(),
                Seen::Absent | Seen::Unknown => None,
            },
        });
        let clusters = json!(clusters.collect::<Vec<_>>());
        let request = match self.at.cache.get(&key) {
            Seen::Present(there) if there.root().get("clusterStatus") == Some(&clusters) => {
                return true;
            }
            Seen::Present(there) => {
                let mut object = Object::clone(&there);
                object.root_mut().insert("clusterStatus".into(), clusters);
                Request::Replace { key, object }
            }
            Seen::Absent => {
                let owner = json!({
                    "apiVersion": federated.api_version(), "kind": federated.kind(),
                    "name": federated.name(), "uid": federated.uid(),
                });
                let object = Object::new(json!({
                    "apiVersion": kind.api_version(), "kind": kind.kind,
                    "metadata": {
                        "name": federated.name(), "namespace": federated.namespace(),
                        "ownerReferences": [owner],
                    },
                    "clusterStatus": clusters,
                }));
                let Ok(object) = object else {
                    return true;
                };
                Request::Create { key, object }
            }
            // It comes with the list.
            Seen::Unknown => return true,
        };
        match self.send(&request).await {
            Answer::Object(_) | Answer::Failed(Failure::NamespaceTerminating) => true,
            Answer::Failed(problem) => {
                let (namespace, name) = (federated.namespace(), federated.name());
                warn!(namespace, name, %problem, "cannot write a FederatedServiceStatus");
                false
            }
            Answer::Gone | Answer::Listed(_) => false,
        }
    }
}
