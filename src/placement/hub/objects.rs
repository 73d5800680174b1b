//! The kinds of the fleet, and their paths.

use std::sync::{Arc, LazyLock};

use serde::de::DeserializeOwned;

use hawser_placement::types::{CLUSTER_GROUP, PLACEMENT_GROUP, STORED_VERSION};
use hawser_runtime::cluster::cache::Coverage;
use hawser_runtime::cluster::connection::Connection;
use hawser_runtime::cluster::feed::{Clusters, Content, Selection};
use hawser_runtime::cluster::troubles::without_quotes;
use hawser_runtime::cluster::wire::{Endpoint, Router};
use hawser_runtime::controller::WatchSpec;
use hawser_sync::{Key, Scope, Side};
use kube_lang::object::{Gvk, Object};

/// The source of everything that is watched.
pub const SOURCE: &str = "hub";

pub static HUB: LazyLock<Side> = LazyLock::new(|| Side::new(SOURCE));

/// The table of definitions of kinds, which keeps only their names.
pub static DEFINITIONS: LazyLock<Side> = LazyLock::new(|| Side::new("definitions"));

/// The kinds that decisions depend on.
pub const FLEET: [&str; 21] = [
    "ClusterResourcePlacement",
    "ResourcePlacement",
    "ClusterResourcePlacementStatus",
    "ClusterSchedulingPolicySnapshot",
    "SchedulingPolicySnapshot",
    "ClusterResourceSnapshot",
    "ResourceSnapshot",
    "ClusterResourceBinding",
    "ResourceBinding",
    "Work",
    "MemberCluster",
    "InternalMemberCluster",
    "ClusterResourceOverride",
    "ResourceOverride",
    "ClusterResourceOverrideSnapshot",
    "ResourceOverrideSnapshot",
    "ClusterResourcePlacementEviction",
    "ClusterStagedUpdateRun",
    "StagedUpdateRun",
    "ClusterApprovalRequest",
    "ApprovalRequest",
];

/// The features that a hub can do without, and without their kinds.
#[derive(Clone, Copy, Debug)]
pub struct HubFeatures {
    pub evictions: bool,
    pub update_runs: bool,
    /// `ResourcePlacement`s.
    pub namespaced: bool,
}

impl HubFeatures {
    /// The kinds that decisions of this hub depend on.
    pub fn kinds(self) -> impl Iterator<Item = &'static str> {
        FLEET.into_iter().filter(move |kind| {
            let is_of_runs = kind.ends_with("StagedUpdateRun") || kind.ends_with("ApprovalRequest");
            let is_namespaced = matches!(
                *kind,
                "ResourcePlacement"
                    | "SchedulingPolicySnapshot"
                    | "ResourceSnapshot"
                    | "ResourceBinding"
                    | "StagedUpdateRun"
                    | "ApprovalRequest"
            );
            (self.evictions || *kind != "ClusterResourcePlacementEviction")
                && (self.update_runs || !is_of_runs)
                && (self.namespaced || !is_namespaced)
        })
    }
}

/// A kind by its name.
pub fn gvk(kind: &str) -> Gvk {
    let (group, version) = match kind {
        "MemberCluster" | "InternalMemberCluster" => (CLUSTER_GROUP, STORED_VERSION),
        "Namespace" => ("", "v1"),
        "Role" | "RoleBinding" => ("rbac.authorization.k8s.io", "v1"),
        "CustomResourceDefinition" => ("apiextensions.k8s.io", "v1"),
        "APIService" => ("apiregistration.k8s.io", "v1"),
        _ => (PLACEMENT_GROUP, STORED_VERSION),
    };
    Gvk::new(group, version, kind)
}

/// True for a kind that decisions depend on.
pub fn is_of_fleet(kind: &Gvk) -> bool {
    FLEET.contains(&&*kind.kind) && *kind == gvk(&kind.kind)
}

pub fn scope(kind: &str) -> Scope {
    Scope::new(&HUB, &Arc::new(gvk(kind)), "")
}

pub fn key(kind: &str, namespace: Option<&str>, name: &str) -> Key {
    scope(kind).key(namespace, name)
}

/// The resource of a kind of the fleet, and of the few others that the hub writes.
pub fn resource(kind: &str) -> String {
    let lower = kind.to_lowercase();
    match lower.strip_suffix('y') {
        Some(stem) => format!("{stem}ies"),
        None if lower.ends_with('s') => format!("{lower}es"),
        None => format!("{lower}s"),
    }
}

/// All objects of a kind, to be watched.
pub fn watch(
    hub: &Connection,
    side: &Side,
    kind: Gvk,
    resource: &str,
    content: Content,
) -> WatchSpec {
    WatchSpec {
        side: side.clone(),
        kind: Arc::new(kind),
        source: SOURCE.into(),
        coverage: Coverage::default(),
        selection: Selection {
            connection: hub.clone(),
            resource: resource.into(),
            namespace: None,
            query: None,
            clusters: Clusters::One("".into()),
            content,
        },
    }
}

/// Everything that the hub writes is on the hub.
pub struct HubRouter(pub Connection);

impl Router for HubRouter {
    fn endpoint(&self, scope: &Scope) -> Option<Endpoint> {
        Some(Endpoint {
            connection: self.0.clone(),
            resource: resource(&scope.kind.kind).into(),
        })
    }
}

/// An object as its type; the problem names it.
pub fn read<T: DeserializeOwned>(object: &Object) -> Result<T, String> {
    T::deserialize(object.as_value()).map_err(|error| {
        let kind = object.kind();
        let (name, error) = (object.name(), without_quotes(&error.to_string()));
        format!("{kind} {name} cannot be read: {error}")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hub_needs_the_kinds_of_its_features() {
        let missing = |features: HubFeatures| -> Vec<&str> {
            let kinds: Vec<&str> = features.kinds().collect();
            let missing = FLEET.into_iter().filter(|kind| !kinds.contains(kind));
            missing.collect()
        };
        let all = HubFeatures {
            evictions: true,
            update_runs: true,
            namespaced: true,
        };
        assert_eq!(missing(all), Vec::<&str>::new());
        let without = HubFeatures {
            evictions: false,
            ..all
        };
        assert_eq!(missing(without), ["ClusterResourcePlacementEviction"]);
        let without = HubFeatures {
            update_runs: false,
            ..all
        };
        assert_eq!(missing(without).len(), 4);
        let without = HubFeatures {
            namespaced: false,
            ..all
        };
        let namespaced = [
            "ResourcePlacement",
            "SchedulingPolicySnapshot",
            "ResourceSnapshot",
            "ResourceBinding",
            "StagedUpdateRun",
            "ApprovalRequest",
        ];
        assert_eq!(missing(without), namespaced);
    }
}
