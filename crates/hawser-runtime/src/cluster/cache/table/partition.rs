//! The part of a source's objects that a process keeps, if several processes share its tenants.
//!
//! A partition has numbered parts. An object belongs to the part of its tenant, which a mark on the object names. Of an
//! object in a part that is not *wanted*, a table keeps nothing. A part is *loaded* when a list has shown its objects;
//! before that, none of its objects is absent.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use hawser_sync::Key;
use kube_lang::object::Object;
use serde::Deserialize;
use serde_json::value::RawValue;
use tokio::sync::watch;

/// Whether all processes keep an object.
pub type KeptByAll = fn(&Object) -> bool;

/// The wanted parts; `None` until these are known.
pub type WantedParts = watch::Receiver<Option<BTreeSet<usize>>>;

/// The mark of an object that names its tenant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TenantMark {
    /// The tenant is the cluster of the object, which this annotation names.
    Cluster(&'static str),
    Label(&'static str),
}

/// See the module.
#[derive(Clone)]
pub struct Partition {
    pub mark: TenantMark,
    /// The part of a tenant.
    pub part_of: Arc<dyn Fn(&str) -> usize + Send + Sync>,
    pub wanted: WantedParts,
    pub everywhere: Option<KeptByAll>,
}

/// What has to be read of an object to know whether it is kept.
#[derive(Deserialize)]
pub(in crate::cluster) struct Head<'t> {
    #[serde(borrow)]
    pub(in crate::cluster) metadata: HeadMetadata<'t>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(in crate::cluster) struct HeadMetadata<'t> {
    #[serde(borrow)]
    pub(in crate::cluster) name: Cow<'t, str>,
    #[serde(borrow, default)]
    pub(in crate::cluster) namespace: Option<Cow<'t, str>>,
    #[serde(borrow)]
    pub(in crate::cluster) resource_version: Cow<'t, str>,
    #[serde(borrow, default)]
    labels: Option<&'t RawValue>,
    #[serde(borrow, default)]
    annotations: Option<&'t RawValue>,
}

impl HeadMetadata<'_> {
    pub(super) fn tenant(&self, mark: TenantMark) -> Option<String> {
        let (marks, name) = match mark {
            TenantMark::Cluster(name) => (self.annotations, name),
            TenantMark::Label(name) => (self.labels, name),
        };
        let mut marks: BTreeMap<Cow<'_, str>, &RawValue> =
            serde_json::from_str(marks?.get()).ok()?;
        serde_json::from_str(marks.remove(name)?.get()).ok()
    }
}

impl Partition {
    pub(super) fn part(&self, tenant: &str) -> usize {
        (self.part_of)(tenant)
    }

    pub(super) fn tenant<'o>(&self, key: &'o Key, object: &'o Object) -> Option<&'o str> {
        match self.mark {
            TenantMark::Cluster(_) => Some(&*key.cluster),
            TenantMark::Label(name) => object.label(name),
        }
    }
}

/// The parts of a table.
#[derive(Debug, Default)]
pub(super) struct Parts {
    /// Of these, objects are kept. Only the feed changes them, so that no event is passed over unnoticed.
    pub(super) accepted: BTreeSet<usize>,
    /// Of these, a list has shown all objects.
    pub(super) loaded: BTreeSet<usize>,
}

impl fmt::Debug for Partition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Partition")
            .field("mark", &self.mark)
            .field("wanted", &*self.wanted.borrow())
            .finish_non_exhaustive()
    }
}

/// Resolves when other parts are wanted.
pub(crate) async fn wanted_changed(wanted: &mut Option<WantedParts>) {
    if let Some(wanted) = wanted
        && wanted.changed().await.is_ok()
    {
        return;
    }
    std::future::pending::<()>().await;
}
