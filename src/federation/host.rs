//! The host: the place of the control plane's objects, and its configuration.

use std::path::Path;
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use jiff::Timestamp;
use serde_json::{Value, json};
use tracing::info;

use hawser_federation::admission::check_config;
use hawser_federation::health::Thresholds;
use hawser_federation::placement::Scope as ControlScope;
use hawser_federation::types::SCHEDULING_GROUP;
use hawser_federation::types::config::KubeFedConfigSpec;
use hawser_runtime::cluster::cache::Coverage;
use hawser_runtime::cluster::connection::Connection;
use hawser_runtime::cluster::feed::{Clusters, Content, Pace, Selection};
use hawser_runtime::controller::WatchSpec;
use hawser_runtime::process::lease::{Lock, Terms};
use hawser_sync::{Scope, Side};
use kube_lang::go_text::parse_duration;
use kube_lang::object::{Gvk, Object};

use super::config::{self, SettingsError};

/// The source of everything that is watched on the host.
pub const SOURCE: &str = "host";

static HOST: LazyLock<Side> = LazyLock::new(|| Side::new(SOURCE));

fn core(version: &str, kind: &str) -> Arc<Gvk> {
    Gvk::new("core.kubefed.io", version, kind).into()
}

pub static CLUSTER: LazyLock<Arc<Gvk>> = LazyLock::new(|| core("v1beta1", "KubeFedCluster"));
pub static TYPE_CONFIG: LazyLock<Arc<Gvk>> =
    LazyLock::new(|| core("v1beta1", "FederatedTypeConfig"));
pub static VERSION: LazyLock<Arc<Gvk>> = LazyLock::new(|| core("v1alpha1", "PropagatedVersion"));
pub static CLUSTER_VERSION: LazyLock<Arc<Gvk>> =
    LazyLock::new(|| core("v1alpha1", "ClusterPropagatedVersion"));
pub static PREFERENCE: LazyLock<Arc<Gvk>> =
    LazyLock::new(|| Gvk::new(SCHEDULING_GROUP, "v1alpha1", "ReplicaSchedulingPreference").into());
pub static NAMESPACE: LazyLock<Arc<Gvk>> = LazyLock::new(|| Gvk::new("", "v1", "Namespace").into());

/// The resource of a kind of the control plane's own.
pub fn resource(kind: &Gvk) -> Option<&'static str> {
    Some(match &*kind.kind {
        "KubeFedCluster" => "kubefedclusters",
        "FederatedTypeConfig" => "federatedtypeconfigs",
        "PropagatedVersion" => "propagatedversions",
        "ClusterPropagatedVersion" => "clusterpropagatedversions",
        "ReplicaSchedulingPreference" => "replicaschedulingpreferences",
        "Namespace" => "namespaces",
        _ => return None,
    })
}

/// All objects of a kind on the host.
pub fn scope(kind: &Arc<Gvk>) -> Scope {
    Scope::new(&HOST, kind, "")
}

/// The control plane as it was configured when the process started.
#[derive(Clone, Debug)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "switches that are independent of each other"
)]
pub struct FederationSettings {
    /// The namespace of the control plane.
    pub namespace: String,
    pub scope: ControlScope,
    /// The delay after which objects are processed when a member becomes ready, or stops being ready.
    pub available: Duration,
    pub unavailable: Duration,
    /// The time limit of the first list of a member.
    pub sync_timeout: Duration,
    pub probe_period: Duration,
    pub probe_timeout: Duration,
    pub thresholds: Thresholds,
    pub terms: Terms,
    /// The object that control planes compete for, also those of KubeFed.
    pub lock: Lock,
    pub adopts: bool,
    /// The minimum number of objects of a type that are processed concurrently.
    pub concurrency: usize,
    /// Whether anything is propagated at all.
    pub propagates: bool,
    pub collects_status: bool,
    /// Whether replicas are scheduled.
    pub schedules: bool,
    /// The time for which a deletion waits for a member that is not ready; unlimited if none.
    pub give_up_after: Option<Duration>,
    /// Whether overrides of the cluster `*` apply to every member.
    pub overrides_all: bool,
    /// Whether annotations of templates are set in copies.
    pub federates_annotations: bool,
}

impl SettingsError {
    /// Whether a write met another state than was read.
    pub fn is_overtaken(&self) -> bool {
        match self {
            Self::Create(_, error) => error.code() == Some(409),
            Self::Delete(_, error) | Self::Keep(_, error) => {
                [Some(404), Some(409)].contains(&error.code())
            }
            _ => false,
        }
    }
}

impl FederationSettings {
    /// Reads the configuration; one that does not exist is created. It gets this scope if one is given.
    pub async fn read(
        host: &Connection,
        namespace: &str,
        scope: Option<&str>,
    ) -> Result<Self, SettingsError> {
        let found = config::ensure(host, namespace, scope).await?;
        Self::of(namespace, found)
    }

    /// From a file in place of the object.
    pub fn read_file(namespace: &str, file: &Path) -> Result<Self, SettingsError> {
        let wrong = |problem: String| SettingsError::File {
            file: file.display().to_string(),
            problem,
        };
        let text = std::fs::read_to_string(file).map_err(|error| wrong(error.to_string()))?;
        let mut config: Value =
            serde_saphyr::from_str(&text).map_err(|error| wrong(error.to_string()))?;
        if !config.is_object() {
            return Err(wrong("the document is not an object".to_owned()));
        }
        config["metadata"] = json!({"name": config::NAME, "namespace": namespace});
        Self::of(namespace, config)
    }

    /// The settings of the stored configuration, in which any field may be missing.
    fn of(namespace: &str, mut config: Value) -> Result<Self, SettingsError> {
        let name = || namespace.to_owned();
        if let Ok(mut spec) = serde_json::from_value::<KubeFedConfigSpec>(config["spec"].take()) {
            spec.complete();
            config["spec"] = json!(spec);
        }
        let object =
            Object::new(config).map_err(|error| SettingsError::Malformed(name(), error))?;
        let spec = check_config(&object, None);
        let spec = spec.map_err(|rejection| SettingsError::Invalid(name(), Box::new(rejection)))?;
        info!("Using valid KubeFedConfig \"{namespace}/{}\"", config::NAME);
        let delays = spec.controller_duration.unwrap_or_default();
        let elect = spec.leader_elect.unwrap_or_default();
        let check = spec.cluster_health_check.unwrap_or_default();
        let sync = spec.sync_controller.unwrap_or_default();
        let gate = |name: &str| {
            let mut gates = spec.feature_gates.iter();
            gates.any(|gate| gate.name == name && gate.configuration == "Enabled")
        };
        Ok(Self {
            namespace: name(),
            scope: if spec.scope == "Namespaced" {
                ControlScope::Namespaced
            } else {
                ControlScope::Cluster
            },
            available: duration(delays.available_delay),
            unavailable: duration(delays.unavailable_delay),
            sync_timeout: duration(delays.cache_sync_timeout),
            probe_period: duration(check.period),
            probe_timeout: duration(check.timeout),
            thresholds: Thresholds {
                failure: check.failure_threshold.unwrap_or(1),
                success: check.success_threshold.unwrap_or(1),
            },
            terms: Terms {
                duration: duration(elect.lease_duration),
                renew_deadline: duration(elect.renew_deadline),
                retry: duration(elect.retry_period),
            },
            lock: match elect.resource_lock.as_deref() {
                Some("endpoints") => Lock::Endpoints,
                _ => Lock::ConfigMap,
            },
            adopts: sync.adopt_resources.as_deref() != Some("Disabled"),
            concurrency: sync
                .max_concurrent_reconciles
                .and_then(|count| usize::try_from(count).ok())
                .unwrap_or(1),
            propagates: gate("PushReconciler"),
            collects_status: gate("RawResourceStatusCollection"),
            schedules: gate("SchedulerPreferences"),
            give_up_after: None,
            overrides_all: false,
            federates_annotations: false,
        })
    }

    /// The only namespace to process; none if all are processed.
    pub fn limit(&self) -> Option<Arc<str>> {
        (self.scope == ControlScope::Namespaced).then(|| self.namespace.as_str().into())
    }
}

/// A duration that was validated.
fn duration(text: Option<String>) -> Duration {
    let nanos = parse_duration(&text.unwrap_or_default()).unwrap_or_default();
    Duration::from_nanos(u64::try_from(nanos).unwrap_or_default())
}

/// Objects of the host to be watched.
pub fn watch(
    host: &Connection,
    kind: &Arc<Gvk>,
    resource: &str,
    namespace: Option<Arc<str>>,
    content: Content,
) -> WatchSpec {
    WatchSpec {
        side: HOST.clone(),
        kind: Arc::clone(kind),
        source: SOURCE.into(),
        coverage: Coverage {
            namespace: namespace.clone(),
            ..Coverage::default()
        },
        selection: Selection {
            connection: host.clone(),
            resource: resource.into(),
            namespace,
            query: None,
            clusters: Clusters::One("".into()),
            content,
        },
    }
}

/// The time in the format of conditions.
pub fn now() -> String {
    let now = Timestamp::now();
    Timestamp::from_second(now.as_second())
        .unwrap_or(now)
        .to_string()
}

/// The pace of all watches.
pub fn pace() -> Pace {
    Pace {
        retry: (Duration::from_millis(100), Duration::from_secs(5)),
        ..Pace::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(spec: &Value) -> Result<FederationSettings, SettingsError> {
        let config = json!({
            "apiVersion": "core.kubefed.io/v1beta1", "kind": "KubeFedConfig",
            "metadata": {"name": "kubefed", "namespace": "ns"}, "spec": spec,
        });
        FederationSettings::of("ns", config)
    }

    #[test]
    fn what_is_missing_has_its_default() {
        let settings = config(&json!({
            "scope": "Cluster", "controllerDuration": {"availableDelay": "1m30s"},
            "syncController": {"adoptResources": "Disabled"},
        }))
        .unwrap();
        assert_eq!(settings.available, Duration::from_secs(90));
        assert_eq!(settings.unavailable, Duration::from_mins(1));
        assert_eq!(settings.probe_period, Duration::from_secs(10));
        assert_eq!(
            (settings.thresholds.failure, settings.thresholds.success),
            (3, 1)
        );
        assert_eq!(settings.terms.retry, Duration::from_secs(5));
        assert!(settings.propagates && !settings.collects_status && !settings.adopts);
        assert_eq!(settings.limit(), None);
        let limited = config(&json!({"scope": "Namespaced"})).unwrap();
        assert_eq!(limited.limit().as_deref(), Some("ns"));
    }

    #[test]
    fn a_file_takes_the_place_of_the_object() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let text =
            "apiVersion: core.kubefed.io/v1beta1\nkind: KubeFedConfig\nspec: {scope: Namespaced}\n";
        std::fs::write(file.path(), text).unwrap();
        let settings = FederationSettings::read_file("ns", file.path()).unwrap();
        assert_eq!(settings.limit().as_deref(), Some("ns"));
        std::fs::write(file.path(), "spec: {scope: All}").unwrap();
        let refused = FederationSettings::read_file("ns", file.path()).unwrap_err();
        assert!(!refused.to_string().is_empty(), "{refused}");
        let missing = FederationSettings::read_file("ns", Path::new("/nowhere/config.yaml"));
        assert!(matches!(missing, Err(SettingsError::File { .. })));
    }

    #[test]
    fn an_invalid_configuration_is_refused() {
        let wrong = [
            json!({}),
            json!({"scope": "Everything"}),
            json!({"scope": "Cluster", "clusterHealthCheck": {"period": "0s"}}),
            json!({"scope": 5}),
        ];
        for spec in wrong {
            assert!(
                matches!(config(&spec), Err(SettingsError::Invalid(..))),
                "{spec}"
            );
        }
    }
}
