//! `WorkspaceType`: the URLs of its initializers and terminators, and the bindings that it maintains in existing
//! workspaces.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::conditions::{self, Condition};
use super::types::TypeRef;
use super::workspaces::{self, BaseUrl};
use super::{clusters, objects, tree, waiting};
use crate::builtin::namespaces::timestamp;
use crate::catalog::Stage;
use crate::status::Status;
use crate::store::{Key, Name, Range, Settler, Tx};

/// Reconciles types and their requirements.
pub(super) struct WorkspaceTypeSettler {
    pub(super) base_url: BaseUrl,
}

impl Settler for WorkspaceTypeSettler {
    fn settle(&self, tx: &mut Tx<'_>, changed: &[Key]) -> Result<(), Status> {
        let mut touched = BTreeSet::new();
        for key in changed {
            if key.table == *tree::TYPES {
                self.settle_type(tx, key)?;
                // Any other type may extend it.
                let all = tx.list(&Range::everywhere(&tree::CLUSTERS));
                touched.extend(all.iter().map(|stored| stored.key.cluster().clone()));
            } else if key.table == *tree::BINDINGS && tx.get(key).is_none() {
                touched.insert(key.cluster().clone());
            }
        }
        for cluster in touched {
            maintain(tx, &cluster)?;
        }
        Ok(())
    }
}

impl WorkspaceTypeSettler {
    fn settle_type(&self, tx: &mut Tx<'_>, key: &Key) -> Result<(), Status> {
        let Some(stored) = tx.get(key).filter(|s| !s.cached().in_deletion()) else {
            return Ok(());
        };
        let mut value = stored.object().into_value();
        if let Some(path) = tree::path_of(tx, key.cluster()) {
            value["metadata"]["annotations"][tree::PATH] = path.into();
        }
        let base = self.base_url.get().map_or("", String::as_str);
        let address = |stage: Stage| {
            let (service, cluster, name) = (stage.service(), key.cluster(), key.name());
            let kind = stage.phase().to_lowercase();
            json!({"url": format!("{base}/services/{service}/{cluster}:{name}"), "type": kind})
        };
        if !value["status"].is_object() {
            value["status"] = json!({});
        }
        let addresses: Vec<Value> = waiting::STAGES.into_iter().map(address).collect();
        value["status"]["virtualWorkspaces"] = addresses.into();
        let stated = ["Ready", "VirtualWorkspaceURLsReady"].map(Condition::good);
        let now = timestamp(tx);
        conditions::set(&mut value, &stated, &now);
        objects::put_value(tx, key, value)?;
        Ok(())
    }
}

/// Creates the bindings that a type maintains in a cluster.
fn maintain(tx: &mut Tx<'_>, cluster: &Name) -> Result<(), Status> {
    let Some(stored) = tx.get(&tree::cluster_key(cluster)) else {
        return Ok(());
    };
    let object = stored.object();
    let of_type = object.annotation(clusters::TYPE).and_then(TypeRef::parse);
    let Some(of_type) = of_type.filter(|_| !object.in_deletion()) else {
        return Ok(());
    };
    for (path, export) in workspaces::maintained(tx, &of_type) {
        clusters::bind(tx, cluster, &path, &export)?;
    }
    Ok(())
}
