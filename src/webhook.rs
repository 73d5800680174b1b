//! The admission webhook that validates and completes objects of a control plane, with its certificate and its webhook
//! configurations. All replicas serve it. A dialect supplies the answers and the configurations.

use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use http::{Method, StatusCode};
use jiff::Timestamp;
use kube_schema::admission::WebhookAddress;
use rustls::ServerConfig;
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;
use tracing::{info, warn};

use hawser_runtime::cluster::connection::{Call, Connection, RequestError};
use hawser_runtime::process::serve::{self, HttpsEndpoint, ServeError, TlsProblem, server_config};

mod certificates;
pub mod given;

use certificates::WebhookCertificate;

/// The interval for checking the certificate and the configurations.
const EVERY: Duration = Duration::from_mins(1);
/// The pause after a failure.
const AGAIN: Duration = Duration::from_secs(5);
/// The time until API servers know a new configuration.
const KNOWN: Duration = Duration::from_secs(5);
/// Attempts to write the Secret beside other replicas.
const TRIES: usize = 5;

#[derive(Debug, thiserror::Error)]
pub enum WebhookError {
    #[error(transparent)]
    Serve(#[from] ServeError),
    #[error("creating a certificate for the webhook")]
    Issue(#[from] rcgen::Error),
    #[error("Secret {0} contains no usable certificate: delete the Secret")]
    Tls(&'static str, #[source] TlsProblem),
    #[error("{0} Secret {1}")]
    Secret(&'static str, &'static str, #[source] Box<RequestError>),
    #[error("{0} {1}")]
    Configure(&'static str, String, #[source] Box<RequestError>),
    #[error("writing Secret {0}: another process keeps writing it")]
    Contested(&'static str),
}

/// The properties in which the webhooks of dialects differ.
#[derive(Clone, Debug)]
pub struct WebhookSite {
    /// The flag that says where it listens.
    pub flag: &'static str,
    pub address: WebhookAddress,
    /// The namespace of the Secret with the certificate.
    pub namespace: String,
    pub secret: &'static str,
    /// The domain of the Secret's annotations.
    pub domain: &'static str,
    /// The subject of the certificate.
    pub subject: &'static str,
}

/// The webhook configurations that API servers read.
pub struct Configured<F> {
    /// The `ClusterRole` that the configurations belong to, if it exists: without the webhook they would stop all
    /// writes, so that they end with it.
    pub owner: String,
    /// The configurations with these authorities, in base64; each with its plural.
    pub make: F,
}

/// Answers reviews.
pub trait Reviewer: Send + Sync + 'static {
    /// The answer to an `AdmissionReview`, if the path is one of the webhook.
    fn review<'a>(&'a self, path: &'a str, given: Value) -> BoxFuture<'a, Option<Value>>;
}

/// An admission webhook with its certificate and configurations.
pub struct WebhookServer {
    host: Connection,
    site: WebhookSite,
    served: WebhookCertificate,
    config: watch::Sender<Arc<ServerConfig>>,
    _serving: AbortOnDropHandle<()>,
}

impl WebhookServer {
    /// Serves on an address. [`Self::keep`] registers the webhook with API servers.
    pub async fn start(
        address: &str,
        host: Connection,
        site: WebhookSite,
        reviewer: impl Reviewer,
        stop: CancellationToken,
    ) -> Result<Self, WebhookError> {
        let bound = serve::bind(site.flag, address).await?;
        info!(address = %bound.address(), "serving the webhook");
        let served = certificate(&host, &site).await?;
        let config = site.config(&served)?;
        let (config, configs) = watch::channel(Arc::new(config));
        let serving = bound.serve_tls(configs, Arc::new(Reviews(reviewer)), stop);
        Ok(Self {
            host,
            site,
            served,
            config,
            _serving: AbortOnDropHandle::new(tokio::spawn(serving)),
        })
    }

    /// Restores the configurations, and renews the certificate.
    pub async fn keep<F: Fn(&str) -> Vec<(&'static str, Value)>>(mut self, wanted: Configured<F>) {
        loop {
            let pause = match self.look(&wanted).await {
                Ok(()) => EVERY,
                Err(error) => {
                    let error = hawser_runtime::errors::chain(&error);
                    warn!(
                        error,
                        "cannot keep the configuration of the webhook; retrying"
                    );
                    AGAIN
                }
            };
            tokio::time::sleep(pause).await;
        }
    }

    async fn look<F: Fn(&str) -> Vec<(&'static str, Value)>>(
        &mut self,
        wanted: &Configured<F>,
    ) -> Result<(), WebhookError> {
        let current = certificate(&self.host, &self.site).await?;
        let all = (wanted.make)(&current.bundle());
        self.configure(&wanted.owner, all).await?;
        if current != self.served {
            // Until then, they trust the former one alone.
            tokio::time::sleep(KNOWN).await;
            self.config
                .send_replace(Arc::new(self.site.config(&current)?));
            self.served = current;
            info!("serving the webhook with a new certificate");
        }
        Ok(())
    }

    /// Writes the configurations that differ from the desired ones.
    async fn configure(
        &self,
        owner: &str,
        all: Vec<(&'static str, Value)>,
    ) -> Result<(), WebhookError> {
        let owner = self.owner(owner).await;
        for (plural, mut wanted) in all {
            let all = format!("/apis/admissionregistration.k8s.io/v1/{plural}");
            let name = wanted["metadata"]["name"].as_str().unwrap_or_default();
            let name = name.to_owned();
            let failed = |doing, error: RequestError| {
                WebhookError::Configure(doing, format!("{plural} {name:?}"), Box::new(error))
            };
            let path = format!("{all}/{name}");
            let found = match self.host.ask(Call::get(&*path)).await {
                Err(error) if error.code() == Some(404) => None,
                found => Some(found.map_err(|error| failed("reading", error))?),
            };
            let call = if let Some(mut found) = found {
                let is_owned =
                    owner.is_none() || found["metadata"]["ownerReferences"] == json!(owner);
                if found["webhooks"] == wanted["webhooks"] && is_owned {
                    continue;
                }
                found["webhooks"] = wanted["webhooks"].take();
                if owner.is_some() {
                    found["metadata"]["ownerReferences"] = json!(owner);
                }
                Call::put(path, &found)
            } else if wanted["webhooks"] == json!([]) {
                continue;
            } else {
                if owner.is_some() {
                    wanted["metadata"]["ownerReferences"] = json!(owner);
                }
                Call::post(all, &wanted)
            };
            match self.host.ask(call).await {
                // Another replica was first; what it wrote is looked at the next time.
                Err(error) if error.code() == Some(409) => {}
                written => {
                    written.map_err(|error| failed("writing", error))?;
                }
            }
        }
        Ok(())
    }

    /// The owner references of the configurations.
    async fn owner(&self, name: &str) -> Option<[Value; 1]> {
        let path = format!("/apis/rbac.authorization.k8s.io/v1/clusterroles/{name}");
        let role = self.host.ask(Call::get(path)).await.ok()?;
        Some([json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
            "name": name, "uid": role["metadata"]["uid"],
        })])
    }
}

impl WebhookSite {
    fn config(&self, certificate: &WebhookCertificate) -> Result<ServerConfig, WebhookError> {
        let config = server_config(certificate.chain.as_bytes(), certificate.key.as_bytes());
        config.map_err(|problem| WebhookError::Tls(self.secret, problem))
    }
}

/// The certificate that all replicas share. Creates it if it is missing or due.
async fn certificate(
    host: &Connection,
    site: &WebhookSite,
) -> Result<WebhookCertificate, WebhookError> {
    let all = format!("/api/v1/namespaces/{}/secrets", site.namespace);
    let path = format!("{all}/{}", site.secret);
    let names = site.address.names();
    let failed = |doing| move |error| WebhookError::Secret(doing, site.secret, Box::new(error));
    for _ in 0..TRIES {
        let found = match host.ask(Call::get(&*path)).await {
            Err(error) if error.code() == Some(404) => None,
            found => Some(found.map_err(failed("reading"))?),
        };
        let former = found
            .as_ref()
            .and_then(|secret| WebhookCertificate::of_secret(secret, site.domain, &names));
        let now = Timestamp::now();
        let is_due = found
            .as_ref()
            .is_none_or(|secret| WebhookCertificate::is_due(secret, site.domain, now));
        if let Some(former) = &former
            && !is_due
        {
            return Ok(former.clone());
        }
        let mut issued = WebhookCertificate::issue(site.subject, &names, now)?;
        if let Some(former) = &former {
            issued.follow(former);
        }
        let mut secret = issued.secret(site.domain, &names, now);
        secret["metadata"]["name"] = site.secret.into();
        let call = if let Some(found) = &found {
            secret["metadata"]["resourceVersion"] = found["metadata"]["resourceVersion"].clone();
            Call::put(&*path, &secret)
        } else {
            Call::post(&*all, &secret)
        };
        match host.ask(call).await {
            Err(error) if error.code() == Some(409) => {}
            written => {
                written.map_err(failed("writing"))?;
                info!("created a certificate for the webhook");
                return Ok(issued);
            }
        }
    }
    Err(WebhookError::Contested(site.secret))
}

/// Serves a reviewer.
struct Reviews<R>(R);

impl<R: Reviewer> HttpsEndpoint for Reviews<R> {
    fn answer<'a>(
        &'a self,
        method: &'a Method,
        path: &'a str,
        body: &'a [u8],
    ) -> BoxFuture<'a, (StatusCode, String)> {
        async move {
            let path = path.trim_end_matches('/');
            if path == "/readyz" {
                return (StatusCode::OK, "{}".to_owned());
            }
            if method != Method::POST {
                return (StatusCode::METHOD_NOT_ALLOWED, "{}".to_owned());
            }
            // What is no JSON is no review either, and is answered like one without a request.
            let given: Value = serde_json::from_slice(body).unwrap_or_default();
            match self.0.review(path, given).await {
                None => (StatusCode::NOT_FOUND, "{}".to_owned()),
                Some(answer) => (StatusCode::OK, answer.to_string()),
            }
        }
        .boxed()
    }
}
