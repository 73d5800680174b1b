//! The options of the agent, from flags and environment, validated.

use std::path::PathBuf;
use std::time::Duration;

use hawser_placement::availability::JobTracking;
use hawser_runtime::cluster::config::{ConfigError, Environment, Lookup, Source, Watched};
use http::{HeaderName, HeaderValue};
use kube::config::{
    AuthInfo, Cluster, Context, Kubeconfig, KubeconfigError, NamedAuthInfo, NamedCluster,
    NamedContext,
};

/// The unvalidated flags and variables.
#[derive(Clone, Debug, Default)]
pub struct RawMemberArgs {
    /// The name of the member.
    pub name: String,
    pub hub: RawHubArgs,
    pub kubeconfig: Option<PathBuf>,
    /// The namespace on the hub that has the Secrets with the kubeconfigs of members.
    pub secrets: Option<String>,
    /// The namespace of the lease; none without leader election.
    pub lease_namespace: Option<String>,
    pub health_address: String,
    pub metrics_address: String,
    /// The second addresses of the same pages, if they are given.
    pub hub_health_address: Option<String>,
    pub hub_metrics_address: Option<String>,
    pub is_in_pod: bool,
    pub tracks_jobs: bool,
    pub reports_namespaces: bool,
    pub deletion_wait: Duration,
}

/// The flags and variables for access to the hub.
#[derive(Clone, Debug, Default)]
pub struct RawHubArgs {
    pub kubeconfig: Option<PathBuf>,
    pub url: String,
    pub token_file: PathBuf,
    /// A certificate and its key, instead of a token.
    pub identity: Option<(String, String)>,
    pub uses_identity: bool,
    /// A file with certificates.
    pub authority_file: String,
    /// Certificates as base64.
    pub authority: String,
    pub is_insecure: bool,
    /// A header of every request: name, colon, value.
    pub header: String,
}

/// The options of the agent.
#[derive(Clone, Debug)]
pub struct MemberOptions {
    pub acts_for: MemberSelection,
    pub hub: RawHubArgs,
    pub lease_namespace: Option<String>,
    pub health_address: Option<String>,
    pub metrics_address: Option<String>,
    pub hub_health_address: Option<SecondAddress>,
    pub hub_metrics_address: Option<SecondAddress>,
    pub rules: MemberRules,
}

/// The address at which pages are served once more: the original has pages of its own for the hub.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SecondAddress {
    pub address: String,
    /// Nobody asked for it. The charts of the original probe it.
    pub is_default: bool,
}

/// The members that a process acts for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MemberSelection {
    /// The one that it runs in, or of a kubeconfig.
    One {
        name: String,
        kubeconfig: Option<PathBuf>,
    },
    /// Those with a Secret in this namespace of the hub.
    Secrets { namespace: String },
}

/// The settings of the agent.
#[derive(Clone, Copy, Debug)]
pub struct MemberRules {
    pub jobs: JobTracking,
    /// Whether the namespaces of the member are a property.
    pub reports_namespaces: bool,
    /// The time for which a Work waits for the garbage collector. Afterwards, objects with other owners no longer keep
    /// it.
    pub deletion_wait: Duration,
}

#[derive(Debug, thiserror::Error)]
pub enum MemberOptionsError {
    #[error("the name of the member is not known: set MEMBER_CLUSTER_NAME")]
    Name,
    #[error("--kubeconfig-secrets cannot be combined with {0}")]
    Both(&'static str),
    #[error("the hub is not known: set HUB_SERVER_URL or --hub-kubeconfig")]
    Hub,
    #[error("IDENTITY_CERT and IDENTITY_KEY have to be set with --use-ca-auth")]
    Identity,
}

#[derive(Debug, thiserror::Error)]
pub enum HubConfigError {
    #[error(transparent)]
    Config(#[from] ConfigError),
    #[error("HUB_KUBE_HEADER is not a header: write it as NAME: VALUE")]
    Header,
    #[error("using HUB_SERVER_URL and its credentials")]
    Use(#[source] Box<KubeconfigError>),
}

impl RawMemberArgs {
    pub fn check(self) -> Result<MemberOptions, MemberOptionsError> {
        let listens = |text: String| Some(text).filter(|text| !text.is_empty() && text != "0");
        let second = |given: Option<String>, default: &str| {
            let is_default = given.is_none();
            let in_pod = self.is_in_pod.then(|| default.to_owned());
            let address = given.or(in_pod).and_then(listens)?;
            Some(SecondAddress {
                address,
                is_default,
            })
        };
        let hub_health_address = second(self.hub_health_address, ":8081");
        let hub_metrics_address = second(self.hub_metrics_address, ":8080");
        let acts_for = match self.secrets {
            Some(_) if !self.name.is_empty() => {
                return Err(MemberOptionsError::Both("MEMBER_CLUSTER_NAME"));
            }
            Some(_) if self.kubeconfig.is_some() => {
                return Err(MemberOptionsError::Both("--kubeconfig"));
            }
            Some(namespace) => MemberSelection::Secrets { namespace },
            None if self.name.is_empty() => return Err(MemberOptionsError::Name),
            None => MemberSelection::One {
                name: self.name,
                kubeconfig: self.kubeconfig,
            },
        };
        if self.hub.kubeconfig.is_none() && self.hub.url.is_empty() {
            return Err(MemberOptionsError::Hub);
        }
        if self.hub.uses_identity && self.hub.identity.is_none() {
            return Err(MemberOptionsError::Identity);
        }
        Ok(MemberOptions {
            acts_for,
            hub: self.hub,
            lease_namespace: self.lease_namespace,
            health_address: listens(self.health_address),
            metrics_address: listens(self.metrics_address),
            hub_health_address,
            hub_metrics_address,
            rules: MemberRules {
                jobs: if self.tracks_jobs {
                    JobTracking::Tracked
                } else {
                    JobTracking::NotTracked
                },
                reports_namespaces: self.reports_namespaces,
                deletion_wait: self.deletion_wait,
            },
        })
    }
}

impl RawHubArgs {
    /// The configuration, and what follows the files of it.
    pub fn config(&self) -> Result<(Option<Watched>, kube::Config), HubConfigError> {
        let header = self.header()?;
        if let Some(kubeconfig) = &self.kubeconfig {
            let lookup = Lookup {
                kubeconfig: Some(kubeconfig.clone()),
                ..Lookup::default()
            };
            let source = Source::find(&lookup, &Environment::of_process())?;
            let (watched, config) = Watched::start(source)?;
            return Ok((Some(watched), config));
        }
        let config = kube::Config::try_from(self.written());
        let mut config = config.map_err(|error| HubConfigError::Use(Box::new(error)))?;
        config.headers.extend(header);
        Ok((None, config))
    }

    fn header(&self) -> Result<Option<(HeaderName, HeaderValue)>, HubConfigError> {
        if self.header.is_empty() {
            return Ok(None);
        }
        let read = self.header.split_once(':').and_then(|(name, value)| {
            let name = HeaderName::try_from(name.trim()).ok()?;
            let mut value = HeaderValue::try_from(value.trim()).ok()?;
            value.set_sensitive(true);
            Some((name, value))
        });
        read.map(Some).ok_or(HubConfigError::Header)
    }

    /// As a kubeconfig. The client reads the file of the token again from time to time.
    fn written(&self) -> Kubeconfig {
        let given = |text: &String| Some(text.clone()).filter(|text| !text.is_empty());
        let name = "hub".to_owned();
        let identity = self.identity.clone().filter(|_| self.uses_identity);
        let token_file = self.token_file.to_string_lossy().into_owned();
        let user = AuthInfo {
            token_file: identity.is_none().then_some(token_file),
            client_certificate: identity
                .as_ref()
                .map(|(certificate, _)| certificate.clone()),
            client_key: identity.map(|(_, key)| key),
            ..AuthInfo::default()
        };
        let authority_file = given(&self.authority_file);
        let cluster = Cluster {
            server: Some(self.url.clone()),
            insecure_skip_tls_verify: Some(self.is_insecure),
            certificate_authority_data: given(&self.authority).filter(|_| authority_file.is_none()),
            certificate_authority: authority_file,
            ..Cluster::default()
        };
        Kubeconfig {
            current_context: Some(name.clone()),
            clusters: vec![NamedCluster {
                name: name.clone(),
                cluster: Some(cluster),
                ..NamedCluster::default()
            }],
            auth_infos: vec![NamedAuthInfo {
                name: name.clone(),
                auth_info: Some(user),
                ..NamedAuthInfo::default()
            }],
            contexts: vec![NamedContext {
                name: name.clone(),
                context: Some(Context {
                    cluster: name.clone(),
                    user: Some(name),
                    ..Context::default()
                }),
                ..NamedContext::default()
            }],
            ..Kubeconfig::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_member_and_its_hub_have_to_be_named() {
        let mut given = RawMemberArgs::default();
        assert!(matches!(
            given.clone().check(),
            Err(MemberOptionsError::Name)
        ));
        given.name = "m".to_owned();
        assert!(matches!(
            given.clone().check(),
            Err(MemberOptionsError::Hub)
        ));
        given.hub.url = "https://127.0.0.1:1".to_owned();
        given.metrics_address = "0".to_owned();
        assert_eq!(given.clone().check().unwrap().metrics_address, None);
        given.hub_metrics_address = Some("127.0.0.1:0".to_owned());
        let outside = given.clone().check().unwrap();
        let of = |address: &str, is_default| {
            let address = address.to_owned();
            Some(SecondAddress {
                address,
                is_default,
            })
        };
        assert_eq!(outside.hub_metrics_address, of("127.0.0.1:0", false));
        assert_eq!(outside.hub_health_address, None);
        given.is_in_pod = true;
        let inside = given.clone().check().unwrap();
        assert_eq!(inside.hub_metrics_address, of("127.0.0.1:0", false));
        assert_eq!(inside.hub_health_address, of(":8081", true));
        given.hub_health_address = Some("0".to_owned());
        assert_eq!(given.clone().check().unwrap().hub_health_address, None);
        given.hub.uses_identity = true;
        let without = given.clone().check();
        assert!(matches!(without, Err(MemberOptionsError::Identity)));
        given.hub.uses_identity = false;
        given.secrets = Some("fleet".to_owned());
        assert!(matches!(
            given.clone().check(),
            Err(MemberOptionsError::Both(_))
        ));
        given.name = String::new();
        let options = given.check().unwrap();
        let namespace = "fleet".to_owned();
        assert_eq!(options.acts_for, MemberSelection::Secrets { namespace });
    }

    #[test]
    fn the_hub_is_reached_by_the_token_in_a_file() {
        let directory = tempfile::tempdir().unwrap();
        let token_file = directory.path().join("token");
        std::fs::write(&token_file, "secret").unwrap();
        let hub = RawHubArgs {
            url: "https://127.0.0.1:1".to_owned(),
            token_file: token_file.clone(),
            is_insecure: true,
            header: "X-Fleet: east".to_owned(),
            ..RawHubArgs::default()
        };
        let (_, config) = hub.config().unwrap();
        assert_eq!(config.headers[0].0, "x-fleet");
        assert_eq!(config.headers[0].1, "east");
        let header = "X Fleet: east".to_owned();
        let hub = RawHubArgs { header, ..hub };
        assert!(matches!(hub.config(), Err(HubConfigError::Header)));
        assert_eq!(config.auth_info.token_file.as_deref(), token_file.to_str());
        assert!(config.accept_invalid_certs);
    }
}
