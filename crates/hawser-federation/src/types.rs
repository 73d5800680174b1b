//! The API types as they are stored, and their definitions.
//!
//! Enumerated fields are strings here, as in KubeFed's definitions, and required fields that are absent are empty, as for
//! Go's decoder: [`crate::admission`] validates them with KubeFed's messages.

use serde::{Deserialize, Deserializer};

pub mod cluster;
pub mod config;
pub mod federated;
pub mod manifest;
pub mod propagated;
pub mod scheduling;
pub mod service_status;
pub mod shipped;
pub mod type_config;

/// The group of the control plane's own types.
pub const CORE_GROUP: &str = "core.kubefed.io";
/// The default group of federated types.
pub const TYPES_GROUP: &str = "types.kubefed.io";
/// The default version of federated types.
pub const TYPES_VERSION: &str = "v1beta1";
/// The group of `ReplicaSchedulingPreference`.
pub const SCHEDULING_GROUP: &str = "scheduling.kubefed.io";

/// The label of copies in members: `true` for managed objects, `false` for objects that opt out.
pub const MANAGED: &str = "kubefed.io/managed";
/// The annotation of federated objects whose copies outlive them, if `true`.
pub const ORPHAN: &str = "kubefed.io/orphan";
/// The annotation with `DeleteOptions` for the copies, as JSON.
pub const DELETE_OPTIONS: &str = "kubefed.io/deleteoption";
/// The finalizer of federated objects.
pub const SYNC_FINALIZER: &str = "kubefed.io/sync-controller";

/// Reads `null` as the default.
fn or_default<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de> + Default,
{
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}
