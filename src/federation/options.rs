//! What the command line says, checked.

use std::path::PathBuf;

use hawser_federation::check::CheckSettings;
#[cfg(feature = "webhook")]
use kube_schema::admission::WebhookAddress;

/// The flags as they are given.
#[derive(Clone, Debug, Default)]
pub struct GivenFederation {
    pub kubeconfig: String,
    pub namespace: String,
    /// Where the namespace of the Pod is found.
    pub namespace_file: PathBuf,
    pub scope: String,
    pub healthz_address: String,
    pub metrics_address: String,
    #[cfg(feature = "webhook")]
    pub webhook: GivenWebhook,
    pub scheduling: CheckSettings,
}

/// The flags of the webhook.
#[cfg(feature = "webhook")]
#[derive(Clone, Debug, Default)]
pub struct GivenWebhook {
    pub listens: String,
    pub service: String,
    pub url: String,
}

/// How the control plane is to run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FederationOptions {
    pub kubeconfig: Option<PathBuf>,
    /// Of the control plane.
    pub namespace: String,
    /// Of a configuration that does not exist yet.
    pub scope: &'static str,
    pub healthz_address: Option<String>,
    pub metrics_address: Option<String>,
    pub scheduling: CheckSettings,
    #[cfg(feature = "webhook")]
    pub webhook: Option<WebhookOptions>,
}

/// Where the webhook listens, and where API servers find it.
#[cfg(feature = "webhook")]
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WebhookOptions {
    pub listens: String,
    pub address: WebhookAddress,
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OptionsError {
    #[error("The KubeFed namespace must be specified via --kubefed-namespace")]
    Namespace,
    #[error("DEFAULT_KUBEFED_SCOPE must be Cluster or Namespaced, found {0:?}")]
    Scope(String),
}

impl GivenFederation {
    pub fn check(self) -> Result<FederationOptions, OptionsError> {
        let given = |text: String| Some(text).filter(|text| !text.is_empty());
        let listens = |text: String| given(text).filter(|text| text != "0");
        let namespace = given(self.namespace).or_else(|| {
            let text = std::fs::read_to_string(&self.namespace_file).ok()?;
            given(text.trim().to_owned())
        });
        let namespace = namespace.ok_or(OptionsError::Namespace)?;
        Ok(FederationOptions {
            kubeconfig: given(self.kubeconfig).map(PathBuf::from),
            namespace: namespace.clone(),
            scope: match &*self.scope {
                "" | "Cluster" => "Cluster",
                "Namespaced" => "Namespaced",
                _ => return Err(OptionsError::Scope(self.scope)),
            },
            healthz_address: listens(self.healthz_address),
            metrics_address: listens(self.metrics_address),
            #[cfg(feature = "webhook")]
            webhook: listens(self.webhook.listens).map(|listens| WebhookOptions {
                listens,
                address: match given(self.webhook.url) {
                    Some(url) => WebhookAddress::Url(url.trim_end_matches('/').to_owned()),
                    None => WebhookAddress::Service {
                        namespace,
                        name: self.webhook.service,
                        port: 443,
                    },
                },
            }),
            scheduling: self.scheduling,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_namespace_is_given_or_that_of_the_pod() {
        let directory = tempfile::tempdir().unwrap();
        let namespace_file = directory.path().join("namespace");
        let given = GivenFederation {
            namespace_file: namespace_file.clone(),
            ..GivenFederation::default()
        };
        assert_eq!(given.clone().check(), Err(OptionsError::Namespace));
        std::fs::write(&namespace_file, "of-the-pod\n").unwrap();
        assert_eq!(given.clone().check().unwrap().namespace, "of-the-pod");
        let named = GivenFederation {
            namespace: "named".to_owned(),
            metrics_address: "0".to_owned(),
            ..given.clone()
        };
        let options = named.check().unwrap();
        assert_eq!((&*options.namespace, options.scope), ("named", "Cluster"));
        assert_eq!(options.metrics_address, None);
        let scope = GivenFederation {
            scope: "All".to_owned(),
            ..given
        };
        assert_eq!(scope.check(), Err(OptionsError::Scope("All".to_owned())));
    }
}
