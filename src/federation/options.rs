//! The options of the control plane, validated.

use std::num::NonZeroU32;
use std::path::PathBuf;
use std::time::Duration;

use hawser_federation::check::CheckSettings;
#[cfg(feature = "webhook")]
use kube_schema::admission::WebhookAddress;

/// The unvalidated flags.
#[derive(Clone, Debug, Default)]
pub struct RawFederationArgs {
    pub kubeconfig: String,
    /// In place of the kubeconfig's URL.
    pub master: String,
    /// In place of the object that configures the control plane.
    pub config_file: String,
    /// Requests a second to the host; zero or less is unlimited.
    pub qps: f32,
    pub namespace: String,
    /// The file with the namespace of the Pod.
    pub namespace_file: PathBuf,
    pub scope: String,
    pub healthz_address: String,
    pub metrics_address: String,
    #[cfg(feature = "webhook")]
    pub webhook: RawWebhookArgs,
    pub scheduling: CheckSettings,
    pub give_up_after: Option<Duration>,
    pub overrides_all: bool,
    pub federates_annotations: bool,
}

/// The flags of the webhook.
#[cfg(feature = "webhook")]
#[derive(Clone, Debug, Default)]
pub struct RawWebhookArgs {
    pub listens: String,
    pub service: String,
    pub url: String,
}

/// The options of the control plane.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FederationOptions {
    pub kubeconfig: Option<PathBuf>,
    pub master: Option<String>,
    pub config_file: Option<PathBuf>,
    pub per_second: Option<NonZeroU32>,
    /// The namespace of the control plane.
    pub namespace: String,
    /// The scope of the configuration, if one is required.
    pub scope: Option<&'static str>,
    pub healthz_address: Option<String>,
    pub metrics_address: Option<String>,
    pub scheduling: CheckSettings,
    /// The time for which a deletion waits for a member that is not ready; unlimited if none.
    pub give_up_after: Option<Duration>,
    /// Whether overrides of the cluster `*` apply to every member.
    pub overrides_all: bool,
    /// Whether annotations of templates are set in copies.
    pub federates_annotations: bool,
    #[cfg(feature = "webhook")]
    pub webhook: Option<WebhookOptions>,
}

/// The listen address of the webhook, and the address that API servers use.
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

impl RawFederationArgs {
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
            master: given(self.master),
            config_file: given(self.config_file).map(PathBuf::from),
            per_second: per_second(self.qps),
            namespace: namespace.clone(),
            scope: match &*self.scope {
                "" => None,
                "Cluster" => Some("Cluster"),
                "Namespaced" => Some("Namespaced"),
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
            give_up_after: self.give_up_after,
            overrides_all: self.overrides_all,
            federates_annotations: self.federates_annotations,
        })
    }
}

/// At least one where there is a limit.
fn per_second(qps: f32) -> Option<NonZeroU32> {
    let limited = Some(qps).filter(|qps| *qps > 0.0)?;
    // A cast of a float ends at the bounds of the integer.
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    NonZeroU32::new((limited.ceil()) as u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_of_requests_is_a_whole_number_or_none() {
        let limit = |qps| per_second(qps).map(NonZeroU32::get);
        assert_eq!([limit(0.0), limit(-1.0), limit(f32::NAN)], [None; 3]);
        assert_eq!([limit(0.2), limit(100.0)], [Some(1), Some(100)]);
    }

    #[test]
    fn the_namespace_is_given_or_that_of_the_pod() {
        let directory = tempfile::tempdir().unwrap();
        let namespace_file = directory.path().join("namespace");
        let given = RawFederationArgs {
            namespace_file: namespace_file.clone(),
            ..RawFederationArgs::default()
        };
        assert_eq!(given.clone().check(), Err(OptionsError::Namespace));
        std::fs::write(&namespace_file, "of-the-pod\n").unwrap();
        assert_eq!(given.clone().check().unwrap().namespace, "of-the-pod");
        let named = RawFederationArgs {
            namespace: "named".to_owned(),
            metrics_address: "0".to_owned(),
            ..given.clone()
        };
        let options = named.check().unwrap();
        assert_eq!((&*options.namespace, options.scope), ("named", None));
        assert_eq!(options.metrics_address, None);
        let scope = RawFederationArgs {
            scope: "All".to_owned(),
            ..given
        };
        assert_eq!(scope.check(), Err(OptionsError::Scope("All".to_owned())));
    }
}
