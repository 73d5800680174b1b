//! The kinds that every published resource needs, and feeds of the service cluster.

use std::sync::{Arc, LazyLock};

use crate::publish::rules::SECRET;
use hawser_runtime::cluster::cache::Coverage;
use hawser_runtime::cluster::connection::Connection;
use hawser_runtime::cluster::feed::{Clusters, Content, Selection};
use hawser_runtime::controller::WatchSpec;
use hawser_sync::Side;
use kube_lang::object::Gvk;

/// The source of the service cluster in the cache: there is one cluster only.
pub const SERVICE: &str = "service";

static CONFIG_MAP: LazyLock<Arc<Gvk>> = LazyLock::new(|| Gvk::new("", "v1", "ConfigMap").into());
static NAMESPACE: LazyLock<Arc<Gvk>> = LazyLock::new(|| Gvk::new("", "v1", "Namespace").into());
static LOGICAL_CLUSTER: LazyLock<Arc<Gvk>> =
    LazyLock::new(|| Gvk::new("core.kcp.io", "v1alpha1", "LogicalCluster").into());

pub fn secret_kind() -> Arc<Gvk> {
    Arc::clone(&SECRET)
}

pub fn config_map_kind() -> Arc<Gvk> {
    Arc::clone(&CONFIG_MAP)
}

pub fn namespace_kind() -> Arc<Gvk> {
    Arc::clone(&NAMESPACE)
}

pub fn logical_cluster_kind() -> Arc<Gvk> {
    Arc::clone(&LOGICAL_CLUSTER)
}

pub fn published_resource_kind() -> Arc<Gvk> {
    Arc::new(Gvk::new(
        "syncagent.kcp.io",
        "v1alpha1",
        "PublishedResource",
    ))
}

pub fn crd_kind() -> Arc<Gvk> {
    Arc::new(Gvk::new(
        "apiextensions.k8s.io",
        "v1",
        "CustomResourceDefinition",
    ))
}

/// A feed of the service cluster.
pub fn local_feed(
    service: &Connection,
    side: &Side,
    kind: &Arc<Gvk>,
    resource: &str,
    coverage: Coverage,
) -> WatchSpec {
    let label = coverage.labelled.as_deref();
    let selection = Selection {
        connection: service.clone(),
        resource: resource.into(),
        namespace: coverage.namespace.clone(),
        query: label.map(|label| format!("labelSelector={}", label.replace('/', "%2F"))),
        clusters: Clusters::One("".into()),
        content: Content::Whole,
    };
    WatchSpec {
        side: side.clone(),
        kind: Arc::clone(kind),
        source: SERVICE.into(),
        coverage,
        selection,
    }
}
