//! The webhook by which API servers have objects of the control plane validated and completed. All replicas serve it.

use std::sync::Arc;
use std::time::Duration;

use http::{Method, StatusCode};
use jiff::Timestamp;
use rustls::ServerConfig;
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;
use tracing::{info, warn};

use hawser_federation::admission::webhooks::Webhook;
use hawser_federation::admission::{Review, review};
use hawser_federation::placement::Scope;
use hawser_runtime::cluster::connection::{AskError, Call, Connection};
use hawser_runtime::process::serve::{self, HttpsEndpoint, ServeError, TlsProblem, server_config};

mod certificates;
pub mod given;

use certificates::WebhookCertificate;

/// The Secret with the certificate, in the namespace of the control plane.
const SECRET: &str = "kubefed-webhook-certificate";
/// How often certificate and configurations are looked at.
const EVERY: Duration = Duration::from_mins(1);
/// The pause after a failure.
const AGAIN: Duration = Duration::from_secs(5);
/// API servers know a new configuration by then.
const KNOWN: Duration = Duration::from_secs(5);
/// Attempts to write the Secret beside other replicas.
const TRIES: usize = 5;

#[derive(Debug, thiserror::Error)]
pub enum WebhookError {
    #[error(transparent)]
    Serve(#[from] ServeError),
    #[error("making a certificate for the webhook")]
    Issue(#[from] rcgen::Error),
    #[error("Secret {SECRET} contains no certificate that can be used: delete it")]
    Tls(#[from] TlsProblem),
    #[error("{0} Secret {SECRET}")]
    Secret(&'static str, #[source] Box<AskError>),
    #[error("{0} {1}")]
    Configure(&'static str, String, #[source] Box<AskError>),
    #[error("writing Secret {SECRET}: others write it as well")]
    Contested,
}

/// See the module.
pub struct WebhookServer {
    host: Connection,
    webhook: Webhook,
    served: WebhookCertificate,
    config: watch::Sender<Arc<ServerConfig>>,
    _serving: AbortOnDropHandle<()>,
}

impl WebhookServer {
    /// Serves on an address. API servers are told by [`Self::keep`]. The scope is not known before.
    pub async fn start(
        address: &str,
        host: Connection,
        webhook: Webhook,
        stop: CancellationToken,
    ) -> Result<Self, WebhookError> {
        let bound = serve::bind("--webhook-addr", address).await?;
        info!(address = %bound.address(), "serving the webhook");
        let served = certificate(&host, &webhook).await?;
        let config = served.config()?;
        let (config, configs) = watch::channel(Arc::new(config));
        let serving = bound.serve_tls(configs, Arc::new(Reviews), stop);
        Ok(Self {
            host,
            webhook,
            served,
            config,
            _serving: AbortOnDropHandle::new(tokio::spawn(serving)),
        })
    }

    /// Keeps the configurations of a control plane of this scope as they are to be, and the certificate valid.
    pub async fn keep(mut self, scope: Scope) {
        self.webhook.scope = scope;
        loop {
            let pause = match self.look().await {
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

    async fn look(&mut self) -> Result<(), WebhookError> {
        let current = certificate(&self.host, &self.webhook).await?;
        self.configure(&current).await?;
        if current != self.served {
            // Until then, they trust the former one alone.
            tokio::time::sleep(KNOWN).await;
            self.config.send_replace(Arc::new(current.config()?));
            self.served = current;
            info!("serving the webhook with a new certificate");
        }
        Ok(())
    }

    /// Writes the configurations that are not as they are to be.
    async fn configure(&self, certificate: &WebhookCertificate) -> Result<(), WebhookError> {
        let owner = self.owner().await;
        for (plural, mut wanted) in self.webhook.configurations(&certificate.bundle()) {
            let all = format!("/apis/admissionregistration.k8s.io/v1/{plural}");
            let name = wanted["metadata"]["name"].as_str().unwrap_or_default();
            let name = name.to_owned();
            let failed = |doing, error: AskError| {
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

    /// What the configurations end with: without the webhook they would stop all writes.
    async fn owner(&self) -> Option<[Value; 1]> {
        let name = self.webhook.owner();
        let path = format!("/apis/rbac.authorization.k8s.io/v1/clusterroles/{name}");
        let role = self.host.ask(Call::get(path)).await.ok()?;
        Some([json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
            "name": name, "uid": role["metadata"]["uid"],
        })])
    }
}

impl WebhookCertificate {
    fn config(&self) -> Result<ServerConfig, TlsProblem> {
        server_config(self.chain.as_bytes(), self.key.as_bytes())
    }
}

/// The certificate that all replicas share. One that is missing, or due, is made.
async fn certificate(
    host: &Connection,
    webhook: &Webhook,
) -> Result<WebhookCertificate, WebhookError> {
    let all = format!("/api/v1/namespaces/{}/secrets", webhook.namespace);
    let path = format!("{all}/{SECRET}");
    let names = webhook.names();
    let failed = |doing| move |error| WebhookError::Secret(doing, Box::new(error));
    for _ in 0..TRIES {
        let found = match host.ask(Call::get(&*path)).await {
            Err(error) if error.code() == Some(404) => None,
            found => Some(found.map_err(failed("reading"))?),
        };
        let former = found
            .as_ref()
            .and_then(|secret| WebhookCertificate::of_secret(secret, &names));
        let now = Timestamp::now();
        let is_due = found
            .as_ref()
            .is_none_or(|secret| WebhookCertificate::is_due(secret, now));
        if let Some(former) = &former
            && !is_due
        {
            return Ok(former.clone());
        }
        let mut issued = WebhookCertificate::issue(&names, now)?;
        if let Some(former) = &former {
            issued.follow(former);
        }
        let mut secret = issued.secret(&names, now);
        let call = if let Some(found) = &found {
            secret["metadata"]["name"] = SECRET.into();
            secret["metadata"]["resourceVersion"] = found["metadata"]["resourceVersion"].clone();
            Call::put(&*path, &secret)
        } else {
            secret["metadata"]["name"] = SECRET.into();
            Call::post(&*all, &secret)
        };
        match host.ask(call).await {
            Err(error) if error.code() == Some(409) => {}
            written => {
                written.map_err(failed("writing"))?;
                info!("made a certificate for the webhook");
                return Ok(issued);
            }
        }
    }
    Err(WebhookError::Contested)
}

/// Answers reviews.
struct Reviews;

impl HttpsEndpoint for Reviews {
    fn answer(&self, method: &Method, path: &str, body: &[u8]) -> (StatusCode, String) {
        let path = path.trim_end_matches('/');
        if path == "/readyz" {
            return (StatusCode::OK, "{}".to_owned());
        }
        let Some(kind) = Review::of_path(path) else {
            return (StatusCode::NOT_FOUND, "{}".to_owned());
        };
        if method != Method::POST {
            return (StatusCode::METHOD_NOT_ALLOWED, "{}".to_owned());
        }
        // What is no JSON is no review either, and is answered like one without a request.
        let given: Value = serde_json::from_slice(body).unwrap_or_default();
        (StatusCode::OK, review(kind, &given).to_string())
    }
}
