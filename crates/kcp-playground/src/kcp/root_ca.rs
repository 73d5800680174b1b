//! What every namespace of a workspace comes with: the certificate by which the server is known.

use serde_json::json;

use super::{objects, tree};
use crate::builtin::namespaces;
use crate::status::Status;
use crate::store::{Key, Settler, Table, Tx};
use kube_lang::object::Gvk;

const NAME: &str = "kube-root-ca.crt";
const ABOUT: &str = "Contains a CA bundle that can be used to verify the kube-apiserver when using \
    internal endpoints such as the internal service IP or kubernetes.default.svc. No other usage is \
    guaranteed across distributions of Kubernetes clusters.";

/// Makes the ConfigMap, and makes it again.
pub(super) struct RootCa {
    /// In PEM.
    pub(super) certificate: String,
}

impl Settler for RootCa {
    fn settle(&self, tx: &mut Tx<'_>, changed: &[Key]) -> Result<(), Status> {
        for key in changed {
            let namespace = if key.is("", "namespaces") {
                key.name()
            } else if key.is("", "configmaps") && **key.name() == *NAME {
                key.namespace()
            } else {
                continue;
            };
            let cluster = key.cluster();
            let place = Table::new("", "configmaps", "").key(cluster, namespace, NAME);
            let stays = |key: Key| {
                tx.get(&key)
                    .is_some_and(|stored| !stored.cached().in_deletion())
            };
            if tx.get(&place).is_some()
                || !stays(namespaces::key(cluster, namespace))
                || !stays(tree::cluster_key(cluster))
            {
                continue;
            }
            let mut map = objects::new(tx, &Gvk::new("", "v1", "ConfigMap"), &place);
            map.set_annotation("kubernetes.io/description", ABOUT);
            let data = json!({"ca.crt": self.certificate});
            map.root_mut().insert("data".into(), data);
            tx.put(&place, map)?;
        }
        Ok(())
    }
}
