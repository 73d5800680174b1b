//! The records of a pass: the versions of copies, and the status of the federated object.

use std::sync::Arc;

use serde_json::Value;
use tracing::{debug, warn};

use hawser_federation::status::{self, PassResult};
use hawser_federation::types::propagated::PropagatedVersionStatus;
use hawser_federation::versions::{self, Versions};
use hawser_runtime::cluster::queue::Outcome;
use hawser_sync::{Answer, Failure, Key, Request, Seen, Store as _};
use kube_lang::object::Object;

use super::super::host::now;
use super::super::propagation::FederatedType;
use super::{ATTEMPTS, FederatedPass, next_probe};

impl FederatedPass<'_> {
    /// The object with the versions that were stored, and the versions.
    pub(super) fn versions(&self, federated: &Object) -> (Option<Arc<Object>>, Versions) {
        match self.at.cache.get(&self.version_key(federated)) {
            Seen::Present(stored) => {
                let status = stored.root().get("status").cloned().unwrap_or_default();
                let status: PropagatedVersionStatus =
                    serde_json::from_value(status).unwrap_or_default();
                (Some(stored), Versions::read(&status))
            }
            Seen::Absent | Seen::Unknown => (None, Versions::default()),
        }
    }

    fn version_key(&self, federated: &Object) -> Key {
        let name = versions::name(&self.of.spec.target.kind, federated.name());
        FederatedType::version_key(federated.namespace(), &name)
    }

    /// Stores versions. What cannot be stored costs a repeated write later, and nothing else.
    pub(super) async fn store(
        &self,
        federated: &Object,
        stored: Option<Arc<Object>>,
        before: &Versions,
        after: &Versions,
    ) {
        if before == after || (stored.is_none() && after.copies.is_empty()) {
            return;
        }
        let key = self.version_key(federated);
        let wanted = versions::object(&self.of.spec.target.kind, federated, after);
        let status = wanted["status"].clone();
        let mut last = Failure::Conflict;
        let mut found = stored;
        for _ in 0..ATTEMPTS {
            let answer = match &found {
                None => {
                    let Ok(object) = Object::new(wanted.clone()) else {
                        return;
                    };
                    let key = key.clone();
                    self.send(&Request::Create { key, object }).await
                }
                Some(stored) => {
                    let mut object = Object::clone(stored);
                    object.root_mut().insert("status".into(), status.clone());
                    let key = key.clone();
                    self.send(&Request::ReplaceStatus { key, object }).await
                }
            };
            match answer {
                Answer::Object(_) if found.is_some() => return,
                Answer::Object(created) => found = Some(created),
                Answer::Failed(
                    failure @ (Failure::AlreadyExists | Failure::Conflict | Failure::NotFound),
                ) => {
                    last = failure;
                    let key = key.clone();
                    found = match self.send(&Request::Read { key }).await {
                        Answer::Object(object) => Some(object),
                        Answer::Gone => None,
                        _ => break,
                    };
                }
                // The namespace is in deletion: nothing is to be stored any more.
                Answer::Failed(Failure::NamespaceTerminating) => return,
                Answer::Failed(failure) => {
                    last = failure;
                    break;
                }
                Answer::Gone | Answer::Listed(_) => break,
            }
        }
        debug!(%key, problem = %last, "cannot store the versions of copies");
    }

    pub(super) async fn write_status(
        &self,
        federated: &Arc<Object>,
        findings: &PassResult,
    ) -> Outcome {
        let mut current = Arc::clone(federated);
        for _ in 0..ATTEMPTS {
            let before = current.root().get("status").unwrap_or(&Value::Null);
            let Some(next) = status::next(before, findings, &now()) else {
                return next_probe(findings);
            };
            let mut object = Object::clone(&current);
            object.root_mut().insert("status".into(), next);
            let key = self.of.federated_key(self.id);
            match self.send(&Request::ReplaceStatus { key, object }).await {
                Answer::Object(_) => return next_probe(findings),
                // It has gone meanwhile.
                Answer::Failed(Failure::NotFound) => return Outcome::Settled,
                Answer::Failed(Failure::Conflict) => {
                    let key = self.of.federated_key(self.id);
                    match self.send(&Request::Read { key }).await {
                        Answer::Object(read) => current = read,
                        Answer::Gone => return Outcome::Settled,
                        Answer::Failed(_) | Answer::Listed(_) => break,
                    }
                }
                Answer::Failed(
                    problem @ (Failure::Invalid(_) | Failure::Forbidden(_) | Failure::TooLarge),
                ) => {
                    let key = self.of.federated_key(self.id);
                    warn!(%key, %problem, "cannot write the status of a federated object");
                    break;
                }
                _ => break,
            }
        }
        Outcome::Failed(None)
    }
}
