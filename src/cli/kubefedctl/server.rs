//! A cluster by a context of the kubeconfig.

use std::path::PathBuf;
use std::time::Duration;

use futures::future::join_all;
use serde_json::{Value, json};

use hawser_federation::kubefedctl::discovery::{groups, preferred, resources, schema};
use hawser_federation::kubefedctl::join::Endpoint;
use hawser_federation::kubefedctl::{LookupError, Resource, find};
use hawser_federation::types::CORE_GROUP;
use hawser_federation::types::federated::TargetSchema;
use hawser_federation::types::type_config::{ApiResource, FederatedTypeConfigSpec};
use hawser_runtime::cluster::config::{Environment, Lookup, Source};
use hawser_runtime::cluster::connection::{Call, Connection, Limits, RequestError, without_user};
use hawser_runtime::cluster::wire::collection;

use super::console::{CtlError, tell, trying};
use super::flags::{HostFlags, given};

pub(super) struct Server {
    connection: Connection,
    /// The name of the context.
    pub(super) context: String,
    pub(super) namespace: Option<String>,
    pub(super) endpoint: Endpoint,
}

/// The pause before the next request if a server asks for one.
const PAUSE: Duration = Duration::from_secs(1);

const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";

/// The path of objects of the control plane's own group.
pub(super) fn core(namespace: &str, plural: &str) -> String {
    format!("/apis/{CORE_GROUP}/v1beta1/namespaces/{namespace}/{plural}")
}

/// The path of objects of a type.
pub(super) fn all_of(api: &ApiResource, namespace: Option<&str>) -> String {
    let namespace = namespace.filter(|_| api.is_namespaced());
    collection(&api.gvk(), namespace, &api.plural_name)
}

/// The path of a definition.
pub(super) fn definition(name: &str) -> String {
    format!("{DEFINITIONS}/{name}")
}

fn is(code: u16, error: &RequestError) -> bool {
    error.code() == Some(code)
}

/// Whether the server has an object of that name already.
pub(super) fn exists(error: &RequestError) -> bool {
    is(409, error)
}

/// Whether the server has no such object.
pub(super) fn is_absent(error: &RequestError) -> bool {
    is(404, error)
}

impl Server {
    pub(super) fn host(flags: &HostFlags) -> Result<Self, CtlError> {
        Self::of(flags, given(&flags.host_cluster_context))
    }

    /// The cluster of a context; of the current one if none is named.
    pub(super) fn of(flags: &HostFlags, context: Option<&str>) -> Result<Self, CtlError> {
        let lookup = Lookup {
            kubeconfig: given(&flags.kubeconfig).map(PathBuf::from),
            ..Lookup::default()
        };
        let mut environment = Environment::of_process();
        // A tool prefers the user's kubeconfig to the account of the Pod that it runs in.
        let home = environment.home.as_ref();
        if home.is_some_and(|home| home.join(".kube/config").exists()) {
            environment.service = None;
        }
        let chosen = Source::find(&lookup, &environment)?.context(context)?;
        let cluster = chosen.cluster;
        let endpoint = Endpoint {
            server: without_user(&cluster.server.unwrap_or_default()),
            ca_bundle: cluster.certificate_authority_data,
            insecure: cluster.insecure_skip_tls_verify == Some(true),
            proxy_url: cluster.proxy_url.unwrap_or_default(),
        };
        Ok(Self {
            connection: Connection::new(chosen.config, Limits::default())?,
            context: chosen.name,
            namespace: chosen.namespace,
            endpoint,
        })
    }

    /// The answer. As with client-go, a request that gets 429 is repeated ten times, for example while the server
    /// prepares a new CustomResourceDefinition.
    async fn ask(&self, call: Call) -> Result<Value, RequestError> {
        for _ in 0..10 {
            match self.connection.ask(call.clone()).await {
                Err(error) if is(429, &error) => tokio::time::sleep(PAUSE).await,
                answer => return answer,
            }
        }
        self.connection.ask(call).await
    }

    pub(super) async fn get(&self, path: impl Into<String>) -> Result<Value, RequestError> {
        self.ask(Call::get(path)).await
    }

    /// The object, if it is there.
    pub(super) async fn find(
        &self,
        path: impl Into<String>,
    ) -> Result<Option<Value>, RequestError> {
        match self.get(path).await {
            Err(error) if is_absent(&error) => Ok(None),
            found => found.map(Some),
        }
    }

    pub(super) async fn items(&self, path: impl Into<String>) -> Result<Vec<Value>, RequestError> {
        let mut list = self.get(path).await?;
        match list["items"].take() {
            Value::Array(items) => Ok(items),
            _ => Ok(Vec::new()),
        }
    }

    pub(super) async fn create(&self, all: &str, object: &Value) -> Result<Value, RequestError> {
        self.ask(Call::post(all, object)).await
    }

    pub(super) async fn replace(&self, path: &str, object: &Value) -> Result<Value, RequestError> {
        self.ask(Call::put(path, object)).await
    }

    pub(super) async fn patch(&self, path: &str, patch: &Value) -> Result<Value, RequestError> {
        self.ask(Call::merge_patch(path, patch)).await
    }

    /// Deletes an object; whether it was there.
    pub(super) async fn delete(&self, path: &str) -> Result<bool, RequestError> {
        match self.ask(Call::delete(path, &json!({}))).await {
            Err(error) if is_absent(&error) => Ok(false),
            deleted => deleted.map(|_| true),
        }
    }

    /// All types in their preferred versions, or those of one version. Groups that do not answer are left out.
    pub(super) async fn types(&self, version: Option<&str>) -> Result<Vec<Resource>, CtlError> {
        let all = self.get("/apis").await;
        let groups = groups(&all.map_err(trying("listing the groups of the API"))?);
        let paths = groups.iter().flat_map(|(group, versions)| {
            let paths = versions.iter().map(move |version| (group, version));
            paths.filter(|(_, of)| version.is_none_or(|wanted| *of == wanted))
        });
        let mut paths: Vec<String> = paths
            .map(|(group, version)| format!("/apis/{group}/{version}"))
            .collect();
        if version.is_none_or(|wanted| wanted == "v1") {
            paths.insert(0, "/api/v1".to_owned());
        }
        let documents = join_all(paths.into_iter().map(|path| self.get(path))).await;
        Ok(preferred(
            documents
                .into_iter()
                .flatten()
                .map(|found| resources(&found)),
        ))
    }

    /// The type that a name means.
    pub(super) async fn lookup(
        &self,
        name: &str,
        version: Option<&str>,
    ) -> Result<Resource, CtlError> {
        let found = find_type(&self.types(version).await?, name)?;
        Ok(found)
    }

    /// The part of a type's schema that its federated type depends on: by its definition, else by the models.
    pub(super) async fn schema(&self, target: &ApiResource) -> Result<TargetSchema, CtlError> {
        let name = target.qualified_name();
        let found = self.find(definition(&name)).await;
        let found = found.map_err(trying(format!("Error getting CRD {name:?}")))?;
        if let Some(definition) = found {
            return Ok(TargetSchema::of_definition(&definition));
        }
        let models = self.get("/openapi/v2").await;
        let models = models.map_err(trying("Error retrieving the OpenAPI document"))?;
        Ok(schema(&models, &target.gvk()))
    }

    /// The `FederatedTypeConfig`s by name, completed.
    pub(super) async fn type_configs(
        &self,
        namespace: &str,
    ) -> Result<Vec<(String, FederatedTypeConfigSpec)>, CtlError> {
        let listed = self.items(core(namespace, "federatedtypeconfigs")).await;
        let listed = listed.map_err(trying("Error listing FederatedTypeConfigs"))?;
        let read = listed.into_iter().filter_map(|mut config| {
            let name = config["metadata"]["name"].as_str()?.to_owned();
            // One that cannot be read has no effect in the control plane either.
            let spec: Result<FederatedTypeConfigSpec, _> =
                serde_json::from_value(config["spec"].take());
            let mut spec = spec.ok()?;
            spec.complete(&name);
            Some((name, spec))
        });
        Ok(read.collect())
    }
}

/// The type with this name, which is printed.
pub(super) fn find_type(types: &[Resource], name: &str) -> Result<Resource, LookupError> {
    let found = find(types, name)?;
    tell("Api resource found.");
    Ok(found.clone())
}
