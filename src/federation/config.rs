//! The `KubeFedConfig`: created if it is missing, and replaced to change its scope.
//!
//! API servers refuse to change a scope, so the object is deleted and recreated. A ConfigMap keeps the new object until
//! it is created, so that no settings are lost if the process is killed in between.

use serde_json::{Map, Value, json};
use tracing::info;

use hawser_federation::admission::Rejection;
use hawser_federation::types::config::KubeFedConfigSpec;
use hawser_runtime::cluster::connection::{Call, Connection, RequestError};
use hawser_runtime::cluster::wire::collection;
use kube_lang::object::{Gvk, ObjectError};

/// The name of the configuration.
pub const NAME: &str = "kubefed";
/// The ConfigMap that keeps a replacement.
const KEEPER: &str = "kubefed-config-replacement";
/// The field with the replacement, as JSON.
const FIELD: &str = "kubefedconfig.json";
/// The number of attempts to write objects that others change at the same time.
const ATTEMPTS: usize = 20;

#[derive(Debug, thiserror::Error)]
pub enum SettingsError {
    #[error("reading KubeFedConfig {0}/kubefed")]
    Read(String, #[source] Box<RequestError>),
    #[error("reading KubeFedConfig of {file}: {problem}")]
    File { file: String, problem: String },
    #[error("creating KubeFedConfig {0}/kubefed")]
    Create(String, #[source] Box<RequestError>),
    #[error(
        "creating KubeFedConfig {0}/kubefed: apply crds/kubefed.io.yaml and create Namespace {0:?} first"
    )]
    Missing(String, #[source] Box<RequestError>),
    #[error("deleting KubeFedConfig {0}/kubefed to change its scope")]
    Delete(String, #[source] Box<RequestError>),
    #[error("keeping KubeFedConfig {0}/kubefed in ConfigMap kubefed-config-replacement")]
    Keep(String, #[source] Box<RequestError>),
    #[error(
        "KubeFedConfig {0}/kubefed is changed by others all the time: let one process set its scope"
    )]
    Changing(String),
    #[error("KubeFedConfig {0}/kubefed is not a Kubernetes object")]
    Malformed(String, #[source] ObjectError),
    #[error("invalid KubeFedConfig \"{0}/kubefed\"")]
    Invalid(String, #[source] Box<Rejection>),
}

/// The next step towards a configuration of the wanted scope. Each could be the first one of a process.
#[derive(Debug, PartialEq)]
enum ConfigStep {
    Use(Value),
    Create(Value),
    Keep(Replacement),
    /// Deletes the object of these preconditions.
    Delete(Value),
    Forget,
}

/// The object that takes the place of another one.
#[derive(Clone, Debug, PartialEq)]
struct Replacement {
    /// Uid and resource version of the other one.
    of: Value,
    config: Value,
}

impl Replacement {
    fn of(old: &Value, scope: &str, namespace: &str) -> Self {
        let mut config = empty(namespace);
        for field in ["labels", "annotations"] {
            config["metadata"][field] = old["metadata"][field].clone();
        }
        config["spec"] = old["spec"].clone();
        config["spec"]["scope"] = scope.into();
        Self {
            of: preconditions(old),
            config,
        }
    }

    fn write(&self) -> String {
        json!({"of": self.of, "config": self.config}).to_string()
    }

    fn read(keeper: &Value) -> Option<Self> {
        let text = keeper["data"][FIELD].as_str()?;
        let mut read: Value = serde_json::from_str(text).ok()?;
        Some(Self {
            of: read["of"].take(),
            config: read["config"].take(),
        })
    }
}

fn preconditions(object: &Value) -> Value {
    let metadata = &object["metadata"];
    json!({"uid": metadata["uid"], "resourceVersion": metadata["resourceVersion"]})
}

fn empty(namespace: &str) -> Value {
    let kind = kind();
    json!({
        "apiVersion": kind.api_version(), "kind": kind.kind,
        "metadata": {"name": NAME, "namespace": namespace},
    })
}

fn kind() -> Gvk {
    Gvk::new("core.kubefed.io", "v1beta1", "KubeFedConfig")
}

fn next(
    found: Option<Value>,
    kept: Option<Replacement>,
    scope: Option<&str>,
    namespace: &str,
) -> ConfigStep {
    let Some(found) = found else {
        let mut config = kept.map_or_else(|| empty(namespace), |kept| kept.config);
        if config["spec"].is_null() {
            let mut spec = KubeFedConfigSpec::default();
            spec.complete();
            config["spec"] = json!(spec);
            config["spec"]["scope"] = "Cluster".into();
        }
        if let Some(scope) = scope {
            config["spec"]["scope"] = scope.into();
        }
        return ConfigStep::Create(config);
    };
    match (scope, kept) {
        (Some(scope), kept) if found["spec"]["scope"] != scope => {
            let wanted = Replacement::of(&found, scope, namespace);
            if kept.is_some_and(|kept| kept == wanted) {
                ConfigStep::Delete(wanted.of)
            } else {
                ConfigStep::Keep(wanted)
            }
        }
        (_, Some(_)) => ConfigStep::Forget,
        (_, None) => ConfigStep::Use(found),
    }
}

/// The configuration of a control plane, with this scope if one is given.
pub async fn ensure(
    host: &Connection,
    namespace: &str,
    scope: Option<&str>,
) -> Result<Value, SettingsError> {
    let in_namespace = |kind: &Gvk, plural| collection(kind, Some(namespace), plural);
    let all = in_namespace(&kind(), "kubefedconfigs");
    let path = format!("{all}/{NAME}");
    let keepers = in_namespace(&Gvk::new("", "v1", "ConfigMap"), "configmaps");
    let boxed = |wrap: fn(String, Box<RequestError>) -> SettingsError| {
        move |error| wrap(namespace.to_owned(), Box::new(error))
    };
    let mut last = None;
    for _ in 0..ATTEMPTS {
        let found = get(host, &path).await;
        let found = found.map_err(boxed(SettingsError::Read))?;
        let keeper = match get(host, &format!("{keepers}/{KEEPER}")).await {
            // Who may not read it has kept nothing in it.
            Err(error) if error.code() == Some(403) => None,
            keeper => keeper.map_err(boxed(SettingsError::Keep))?,
        };
        let kept = keeper.as_ref().and_then(Replacement::read);
        let done = match next(found, kept, scope, namespace) {
            ConfigStep::Use(config) => return Ok(config),
            ConfigStep::Create(config) => {
                let created = host.ask(Call::post(&*all, &config)).await;
                created.map_err(|error| {
                    let is_missing = error.code() == Some(404);
                    boxed(if is_missing {
                        SettingsError::Missing
                    } else {
                        SettingsError::Create
                    })(error)
                })
            }
            ConfigStep::Keep(replacement) => {
                // What would be refused replaces nothing. The server says last that there is such an object.
                let tried = Call::post(format!("{all}?dryRun=All"), &replacement.config);
                match host.ask(tried).await {
                    Err(error) if error.code() != Some(409) => {
                        return Err(boxed(SettingsError::Create)(error));
                    }
                    _ => {}
                }
                let data = json!({FIELD: replacement.write()});
                let kept = write(host, &keepers, keeper, data).await;
                kept.map_err(boxed(SettingsError::Keep))
            }
            ConfigStep::Delete(preconditions) => {
                info!(
                    scope,
                    "replacing KubeFedConfig \"{namespace}/{NAME}\" to change its scope"
                );
                let gone = Call::delete(&*path, &json!({"preconditions": preconditions}));
                host.ask(gone).await.map_err(boxed(SettingsError::Delete))
            }
            ConfigStep::Forget => {
                let forgotten = write(host, &keepers, keeper, json!({})).await;
                forgotten.map_err(boxed(SettingsError::Keep))
            }
        };
        match done {
            // Somebody else was first.
            Err(error) if error.is_overtaken() => last = Some(error),
            done => drop(done?),
        }
    }
    Err(last.unwrap_or_else(|| SettingsError::Changing(namespace.to_owned())))
}

async fn get(host: &Connection, path: &str) -> Result<Option<Value>, RequestError> {
    match host.ask(Call::get(path)).await {
        Err(error) if error.code() == Some(404) => Ok(None),
        found => found.map(Some),
    }
}

async fn write(
    host: &Connection,
    all: &str,
    there: Option<Value>,
    data: Value,
) -> Result<Value, RequestError> {
    let call = if let Some(mut there) = there {
        there["data"] = data;
        Call::put(format!("{all}/{KEEPER}"), &there)
    } else {
        let metadata = Map::from_iter([("name".to_owned(), KEEPER.into())]);
        Call::post(all, &json!({"metadata": metadata, "data": data}))
    };
    host.ask(call).await
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(scope: &str, version: &str) -> Value {
        json!({
            "metadata": {
                "name": NAME, "namespace": "ns", "uid": "u", "resourceVersion": version, "labels": {"a": "b"},
            },
            "spec": {"scope": scope, "clusterHealthCheck": {"period": "3s"}},
        })
    }

    #[test]
    fn a_missing_configuration_is_created_with_the_scope_or_for_the_cluster() {
        for (scope, wanted) in [(None, "Cluster"), (Some("Namespaced"), "Namespaced")] {
            let ConfigStep::Create(created) = next(None, None, scope, "ns") else {
                panic!("{scope:?}");
            };
            assert_eq!(created["spec"]["scope"], wanted);
            assert_eq!(created["spec"]["clusterHealthCheck"]["period"], "10s");
        }
    }

    #[test]
    fn a_replacement_is_kept_until_it_is_there_whoever_goes_on() {
        let scope = Some("Namespaced");
        let old = config("Cluster", "1");
        let ConfigStep::Keep(kept) = next(Some(old.clone()), None, scope, "ns") else {
            panic!("not kept");
        };
        let keeper = json!({"data": {FIELD: kept.write()}});
        assert_eq!(Replacement::read(&keeper), Some(kept.clone()));
        let delete = next(Some(old), Some(kept.clone()), scope, "ns");
        let wanted = json!({"uid": "u", "resourceVersion": "1"});
        assert_eq!(delete, ConfigStep::Delete(wanted));
        let ConfigStep::Create(created) = next(None, Some(kept.clone()), scope, "ns") else {
            panic!("not created");
        };
        let wanted = json!({"scope": "Namespaced", "clusterHealthCheck": {"period": "3s"}});
        assert_eq!(created["spec"], wanted);
        assert_eq!(created["metadata"]["labels"], json!({"a": "b"}));
        assert_eq!(created["metadata"].get("uid"), None);
        let forget = next(Some(created.clone()), Some(kept), scope, "ns");
        assert_eq!(forget, ConfigStep::Forget);
        let used = next(Some(created.clone()), None, scope, "ns");
        assert_eq!(used, ConfigStep::Use(created));
    }

    #[test]
    fn a_configuration_that_changed_since_it_was_kept_is_kept_again() {
        let scope = Some("Namespaced");
        let kept = Replacement::of(&config("Cluster", "1"), "Namespaced", "ns");
        let step = next(
            Some(config("Cluster", "2")),
            Some(kept.clone()),
            scope,
            "ns",
        );
        assert!(matches!(step, ConfigStep::Keep(_)), "{step:?}");
        // Nobody asks for another scope any more.
        let step = next(Some(config("Cluster", "2")), Some(kept), None, "ns");
        assert_eq!(step, ConfigStep::Forget);
    }
}
