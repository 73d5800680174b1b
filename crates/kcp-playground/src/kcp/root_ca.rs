//! The default objects in every namespace of a workspace: the CA certificate of the server, and a `ServiceAccount`.

use serde_json::json;

use super::{objects, tree};
use crate::builtin::namespaces;
use crate::status::Status;
use crate::store::{Key, Settler, Table, Tx};
use kube_lang::object::Gvk;

const CERTIFICATE: &str = "kube-root-ca.crt";
/// Kind, resource, name.
const CONTENTS: [(&str, &str, &str); 2] = [
    ("ConfigMap", "configmaps", CERTIFICATE),
    ("ServiceAccount", "serviceaccounts", "default"),
];
const ABOUT: &str = "Contains a CA bundle that can be used to verify the kube-apiserver when using \
    internal endpoints such as the internal service IP or kubernetes.default.svc. No other usage is \
    guaranteed across distributions of Kubernetes clusters.";

/// Creates these objects, and creates them again after a deletion.
pub(super) struct RootCa {
    /// In PEM.
    pub(super) certificate: String,
}

impl Settler for RootCa {
    fn settle(&self, tx: &mut Tx<'_>, changed: &[Key]) -> Result<(), Status> {
        for (key, (kind, plural, name)) in changed
            .iter()
            .flat_map(|key| CONTENTS.map(|what| (key, what)))
        {
            let namespace = if key.is("", "namespaces") {
                key.name()
            } else if key.is("", plural) && **key.name() == *name {
                key.namespace()
            } else {
                continue;
            };
            let cluster = key.cluster();
            let place = Table::new("", plural, "").key(cluster, namespace, name);
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
            let mut object = objects::new(tx, &Gvk::new("", "v1", kind), &place);
            if name == CERTIFICATE {
                object.set_annotation("kubernetes.io/description", ABOUT);
                let data = json!({"ca.crt": self.certificate});
                object.root_mut().insert("data".into(), data);
            }
            tx.put(&place, object)?;
        }
        Ok(())
    }
}
