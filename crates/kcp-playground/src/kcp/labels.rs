//! Claim labels: written in the transaction of the object, and updated when the accepted claims of a cluster change.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use parking_lot::Mutex;
use serde_json::Value;

use super::claims::{self, Accepted, ClaimTarget};
use super::established::{Delays, Later};
use super::exports::ExportName;
use super::{ids, objects, tree};
use crate::status::Status;
use crate::store::{Key, Name, Range, Read, Settler, Stored, Tx};

/// The revisions of a cluster's bindings, and their accepted claims.
type AcceptedClaims = (Vec<u64>, Arc<[Accepted]>);

/// Updates claim labels.
pub(super) struct ClaimLabelSettler {
    delays: Arc<Delays>,
    /// By cluster: the bindings, and their accepted claims.
    accepted: Mutex<HashMap<Name, AcceptedClaims>>,
}

impl Settler for ClaimLabelSettler {
    fn settle(&self, tx: &mut Tx<'_>, changed: &[Key]) -> Result<(), Status> {
        for key in changed {
            if key.table == *tree::BINDINGS {
                if self.delays.are_none() {
                    self.relabel_cluster(tx, key.cluster())?;
                } else {
                    self.delays.later(Later::Label(key.cluster().clone()));
                }
            }
            let accepted = self.accepted(tx, key.cluster());
            relabel(tx, key, &accepted)?;
        }
        Ok(())
    }
}

impl ClaimLabelSettler {
    pub(super) fn new(delays: Arc<Delays>) -> Self {
        Self {
            delays,
            accepted: Mutex::default(),
        }
    }

    /// The claims of existing exports that a cluster accepts.
    fn accepted(&self, read: &dyn Read, cluster: &Name) -> Arc<[Accepted]> {
        let bindings = read.list(&Range::in_cluster(&tree::BINDINGS, cluster));
        let revisions: Vec<u64> = bindings.iter().map(|stored| stored.revision).collect();
        let settled = revisions.iter().all(|revision| *revision > 0);
        if settled
            && let Some((known, accepted)) = self.accepted.lock().get(cluster)
            && *known == revisions
        {
            return Arc::clone(accepted);
        }
        let accepted: Vec<Accepted> = bindings
            .iter()
            .flat_map(|stored| {
                let binding = stored.cached().as_value();
                let owner = objects::text(binding, "/status/apiExportClusterName");
                if owner.is_empty() || stored.cached().in_deletion() {
                    return Vec::new();
                }
                let name = objects::text(binding, "/spec/reference/export/name");
                let export = tree::EXPORTS.key(owner, "", name);
                // When an export is deleted or created again, its bindings change too, so the cache is updated.
                if read.get(&export).is_none() {
                    return Vec::new();
                }
                claims::accepted(binding, owner)
            })
            .collect();
        let accepted: Arc<[Accepted]> = accepted.into();
        if settled {
            let entry = (revisions, Arc::clone(&accepted));
            self.accepted.lock().insert(cluster.clone(), entry);
        }
        accepted
    }

    /// All objects in a cluster whose bindings have changed.
    pub(super) fn relabel_cluster(&self, tx: &mut Tx<'_>, cluster: &Name) -> Result<(), Status> {
        // Computed once: while a transaction changes bindings, nothing is cached.
        let accepted = self.accepted(tx, cluster);
        for table in Read::tables(tx) {
            for stored in tx.list(&Range::in_cluster(&table, cluster)) {
                relabel(tx, &stored.key, &accepted)?;
            }
        }
        Ok(())
    }
}

/// Updates the claim labels of one object.
fn relabel(tx: &mut Tx<'_>, key: &Key, accepted: &[Accepted]) -> Result<(), Status> {
    let Some(stored) = tx.get(key) else {
        return Ok(());
    };
    let own = own_export(key, &stored);
    let claimed = stored
        .labels
        .iter()
        .any(|(label, _)| label.starts_with(ids::CLAIM_LABEL_PREFIX));
    if accepted.is_empty() && own.is_none() && !claimed {
        return Ok(());
    }
    let target = ClaimTarget {
        group: &key.table.group,
        resource: &key.table.resource,
        identity: &key.table.identity,
    };
    let wanted = wanted(&stored, target, accepted, own.as_ref());
    let present: BTreeMap<&str, &str> = stored
        .labels
        .iter()
        .filter(|(label, _)| label.starts_with(ids::CLAIM_LABEL_PREFIX))
        .collect();
    let same = present.len() == wanted.len()
        && wanted
            .iter()
            .all(|(label, value)| present.get(label.as_str()) == Some(&value.as_str()));
    if same {
        return Ok(());
    }
    let mut object = stored.object();
    let mut labels = object.root()["metadata"]["labels"]
        .as_object()
        .cloned()
        .unwrap_or_default();
    labels.retain(|label, _| !label.starts_with(ids::CLAIM_LABEL_PREFIX));
    for (label, value) in wanted {
        labels.insert(label, value.into());
    }
    if labels.is_empty() {
        object.metadata_mut().remove("labels");
    } else {
        let metadata = object.metadata_mut();
        metadata.insert("labels".into(), Value::Object(labels));
    }
    tx.put(key, object)
}

/// The export of a binding, which can always see its own bindings.
fn own_export(key: &Key, stored: &Stored) -> Option<ExportName> {
    if key.table != *tree::BINDINGS {
        return None;
    }
    let binding = stored.cached().as_value();
    let cluster = objects::text(binding, "/status/apiExportClusterName");
    let name = objects::text(binding, "/spec/reference/export/name");
    (!cluster.is_empty()).then(|| ExportName {
        cluster: cluster.into(),
        name: name.into(),
    })
}

fn wanted(
    stored: &Stored,
    target: ClaimTarget<'_>,
    accepted: &[Accepted],
    own: Option<&ExportName>,
) -> BTreeMap<String, String> {
    let mut wanted = BTreeMap::new();
    if let Some(own) = own {
        let key = ids::claim_label_key(&own.cluster, &own.name);
        wanted.insert(key, ids::reflexive_claim_value());
    }
    wanted.extend(claims::labels(
        |label| stored.labels.get(label),
        target,
        accepted,
    ));
    wanted
}
