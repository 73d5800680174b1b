//! A client of one control plane or workspace, which retries until the response is as expected.
//!
//! Errors on the way are ignored, because faults may have been injected; only the time limit counts.

use std::time::Duration;

use kube::config::{KubeConfigOptions, Kubeconfig};
use serde_json::Value;
use tokio::time::{Instant, sleep};

use super::error::DemoError;
use hawser_runtime::cluster::connection::{Call, Connection, Limits, RequestError};

/// The time limit of a step, and the pause between two attempts.
const MAX_WAIT: Duration = Duration::from_mins(2);
const PAUSE: Duration = Duration::from_millis(20);

pub(super) struct Place {
    connection: Connection,
}

impl Place {
    pub(super) async fn connect(kubeconfig: &Value) -> Result<Self, DemoError> {
        let config = config(kubeconfig).await?;
        let connection = Connection::new(config, Limits::default())?;
        Ok(Self { connection })
    }

    /// Creates an object, or finds that it was created by a request whose response was lost.
    pub(super) async fn create(&self, collection: &str, object: &Value) -> Result<(), DemoError> {
        let name = object["metadata"]["name"].as_str().unwrap_or_default();
        let what = format!("creating {collection}/{name}");
        self.asking(
            &what,
            Call::post(collection, object),
            |answer| match answer {
                Err(error) if error.code() == Some(409) => Ok(()),
                answer => answer.map(drop).map_err(|error| error.to_string()),
            },
        )
        .await
    }

    /// Creates a definition, and waits until it is served.
    pub(super) async fn define(&self, definition: &Value) -> Result<(), DemoError> {
        let all = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
        self.create(all, definition).await?;
        let path = format!("{all}/{}", name(definition));
        self.until(&path, established).await
    }

    /// Changes an object.
    pub(super) async fn patch(&self, path: &str, patch: &Value) -> Result<(), DemoError> {
        let what = format!("changing {path}");
        self.asking(&what, Call::merge_patch(path, patch), |answer| {
            answer.map(drop).map_err(|error| error.to_string())
        })
        .await
    }

    /// The answer to a request, without retries.
    pub(super) async fn ask(&self, call: Call) -> Result<Value, RequestError> {
        self.connection.ask(call).await
    }

    /// Reads an object until it has the expected content.
    pub(super) async fn until<T>(
        &self,
        path: &str,
        look: impl Fn(&Value) -> Option<T>,
    ) -> Result<T, DemoError> {
        let what = format!("waiting for {path}");
        self.asking(&what, Call::get(path), |answer| {
            let found = answer.map_err(|error| error.to_string())?;
            look(&found).ok_or_else(|| format!("last seen: {found}"))
        })
        .await
    }

    async fn asking<T>(
        &self,
        what: &str,
        call: Call,
        take: impl Fn(Result<Value, RequestError>) -> Result<T, String>,
    ) -> Result<T, DemoError> {
        let deadline = Instant::now() + MAX_WAIT;
        loop {
            match take(self.connection.ask(call.clone()).await) {
                Ok(taken) => return Ok(taken),
                Err(said) if Instant::now() > deadline => {
                    return Err(DemoError::Stuck {
                        what: what.to_owned(),
                        said,
                    });
                }
                Err(_) => sleep(PAUSE).await,
            }
        }
    }
}

pub(super) async fn config(kubeconfig: &Value) -> Result<kube::Config, DemoError> {
    let kubeconfig: Kubeconfig =
        serde_json::from_value(kubeconfig.clone()).map_err(DemoError::Kubeconfig)?;
    let current = KubeConfigOptions::default();
    let config = kube::Config::from_custom_kubeconfig(kubeconfig, &current).await;
    Ok(config.map_err(Box::new)?)
}

/// The name of an object.
pub(super) fn name(object: &Value) -> &str {
    object["metadata"]["name"].as_str().unwrap_or_default()
}

pub(super) fn established(definition: &Value) -> Option<()> {
    let conditions = definition["status"]["conditions"].as_array()?;
    let holds =
        |condition: &Value| condition["type"] == "Established" && condition["status"] == "True";
    conditions.iter().any(holds).then_some(())
}
