//! One cluster of a federation: real servers, or a playground where a real server proves nothing more.

use std::path::Path;

use anyhow::{Context as _, Result, bail};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use kcp_playground::{Playground, PlaygroundOptions};
use kube::Config;
use kube::config::{KubeConfigOptions, Kubeconfig};
use serde_json::Value;
use testbed::cluster::Controllers;
use testbed::{Access, Link, Options, ServiceCluster};

/// See the module. It ends when it is dropped.
pub(crate) enum Place {
    Real(Box<RealPlace>),
    Played(Box<PlayedPlace>),
}

pub(crate) struct RealPlace {
    cluster: ServiceCluster,
    /// What the kubeconfig leads over, if it can be cut.
    link: Option<(Link, Access)>,
}

pub(crate) struct PlayedPlace {
    playground: Playground,
    kubeconfig: Value,
    file: tempfile::NamedTempFile,
}

impl Place {
    pub(crate) async fn real(controllers: Controllers) -> Result<Self> {
        let options = Options {
            controllers,
            ..Options::default()
        };
        let cluster = ServiceCluster::start_with(options).await?;
        let link = None;
        Ok(Self::Real(Box::new(RealPlace { cluster, link })))
    }

    /// Has the kubeconfig of a real server lead over a link.
    pub(crate) async fn linked(mut self) -> Result<Self> {
        if let Self::Real(real) = &mut self {
            let link = Link::start(real.cluster.address()).await?;
            let access = real.cluster.admin().by(link.address())?;
            real.link = Some((link, access));
        }
        Ok(self)
    }

    pub(crate) fn link(&self) -> Option<&Link> {
        match self {
            Self::Real(real) => real.link.as_ref().map(|(link, _)| link),
            Self::Played(_) => None,
        }
    }

    pub(crate) async fn played() -> Result<Self> {
        Self::played_with(PlaygroundOptions::default()).await
    }

    pub(crate) async fn played_with(options: PlaygroundOptions) -> Result<Self> {
        let playground = Playground::start_with(options).await?;
        let kubeconfig = playground.service_kubeconfig();
        let file = tempfile::NamedTempFile::new()?;
        std::fs::write(file.path(), kubeconfig.to_string())?;
        Ok(Self::Played(Box::new(PlayedPlace {
            playground,
            kubeconfig,
            file,
        })))
    }

    pub(crate) fn url(&self) -> String {
        match self {
            Self::Real(real) => real.cluster.url(),
            Self::Played(played) => played.playground.service_url().to_owned(),
        }
    }

    pub(crate) fn certificate_authority(&self) -> Result<Vec<u8>> {
        match self {
            Self::Real(real) => Ok(real.cluster.certificate_authority().into_bytes()),
            Self::Played(played) => {
                let bundle = &played.kubeconfig["clusters"][0]["cluster"];
                let bundle = bundle["certificate-authority-data"].as_str();
                Ok(STANDARD.decode(bundle.context("an authority")?)?)
            }
        }
    }

    pub(crate) fn kubeconfig_file(&self) -> &Path {
        match self {
            Self::Real(real) => {
                let over_link = real.link.as_ref().map(|(_, access)| access);
                over_link
                    .unwrap_or_else(|| real.cluster.admin())
                    .kubeconfig_file()
            }
            Self::Played(played) => played.file.path(),
        }
    }

    pub(crate) async fn config(&self) -> Result<Config> {
        match self {
            Self::Real(real) => real.cluster.admin().config(),
            Self::Played(played) => {
                let kubeconfig: Kubeconfig = serde_json::from_value(played.kubeconfig.clone())?;
                let current = KubeConfigOptions::default();
                Ok(Config::from_custom_kubeconfig(kubeconfig, &current).await?)
            }
        }
    }

    /// The token of a playground's administrator.
    pub(crate) fn token(&self) -> Option<String> {
        match self {
            Self::Real(_) => None,
            Self::Played(played) => {
                let token = &played.kubeconfig["users"][0]["user"]["token"];
                token.as_str().map(str::to_owned)
            }
        }
    }

    pub(crate) fn admin(&self) -> Result<&Access> {
        match self {
            Self::Real(real) => Ok(real.cluster.admin()),
            Self::Played(_) => bail!("a playground has no certificates of users"),
        }
    }

    pub(crate) fn playground(&self) -> Result<&Playground> {
        match self {
            Self::Real(_) => bail!("a real server has no faults on demand"),
            Self::Played(played) => Ok(&played.playground),
        }
    }

    pub(crate) fn servers(&mut self) -> Result<&mut ServiceCluster> {
        match self {
            Self::Real(real) => Ok(&mut real.cluster),
            Self::Played(_) => bail!("a playground has no servers to kill"),
        }
    }
}
