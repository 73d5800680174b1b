//! Who talks to a cluster, and as whom: kubeconfigs, clients, kubectl and helm.

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context as _, Result, ensure};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use kube::config::{
    AuthInfo, Cluster, Context, Kubeconfig, NamedAuthInfo, NamedCluster, NamedContext,
};
use kube::{Client, Config};

use crate::binaries;
use crate::certificates::Certified;
use crate::eventually::SOON;
use crate::names::unique;
use crate::process::Launch;

/// One user's way to one control plane.
#[derive(Debug, Clone)]
pub struct Access {
    kubeconfig: Kubeconfig,
    file: PathBuf,
    scratch: Arc<Path>,
}

impl Access {
    pub(crate) fn new(
        url: &str,
        ca: &str,
        user: &str,
        own: &Certified,
        dir: &Path,
    ) -> Result<Self> {
        let cluster = Cluster {
            server: Some(url.to_owned()),
            certificate_authority_data: Some(STANDARD.encode(ca)),
            ..Cluster::default()
        };
        let auth_info = AuthInfo {
            client_certificate_data: Some(STANDARD.encode(&own.certificate)),
            client_key_data: Some(STANDARD.encode(&own.key).into()),
            ..AuthInfo::default()
        };
        let context = Context {
            cluster: "cluster".to_owned(),
            user: Some(user.to_owned()),
            ..Context::default()
        };
        let kubeconfig = Kubeconfig {
            api_version: Some("v1".to_owned()),
            kind: Some("Config".to_owned()),
            clusters: vec![NamedCluster {
                name: "cluster".to_owned(),
                cluster: Some(cluster),
                ..NamedCluster::default()
            }],
            auth_infos: vec![NamedAuthInfo {
                name: user.to_owned(),
                auth_info: Some(auth_info),
                ..NamedAuthInfo::default()
            }],
            contexts: vec![NamedContext {
                name: "cluster".to_owned(),
                context: Some(context),
                ..NamedContext::default()
            }],
            current_context: Some("cluster".to_owned()),
            ..Kubeconfig::default()
        };
        Self::write(kubeconfig, dir.into())
    }

    fn write(kubeconfig: Kubeconfig, scratch: Arc<Path>) -> Result<Self> {
        // A user's name may hold what a file's may not.
        let file = scratch.join(format!("{}.kubeconfig", unique("user")));
        let yaml = serde_saphyr::to_string(&kubeconfig).context("writing a kubeconfig")?;
        fs::write(&file, yaml).with_context(|| format!("writing {}", file.display()))?;
        Ok(Self {
            kubeconfig,
            file,
            scratch,
        })
    }

    /// The kubeconfig, to be changed and used at will.
    pub fn kubeconfig(&self) -> &Kubeconfig {
        &self.kubeconfig
    }

    /// The kubeconfig as a file; it lives as long as its cluster.
    pub fn kubeconfig_file(&self) -> &Path {
        &self.file
    }

    /// The same user by another way to the same servers.
    pub fn by(&self, address: SocketAddr) -> Result<Self> {
        let mut kubeconfig = self.kubeconfig.clone();
        for cluster in kubeconfig
            .clusters
            .iter_mut()
            .filter_map(|c| c.cluster.as_mut())
        {
            cluster.server = Some(format!("https://{address}"));
        }
        Self::write(kubeconfig, Arc::clone(&self.scratch))
    }

    pub fn config(&self) -> Result<Config> {
        install_tls_provider();
        Config::try_from(self.kubeconfig.clone()).context("reading a kubeconfig of our own")
    }

    /// A client of the runtime that this is called in; each test makes its own.
    pub fn client(&self) -> Result<Client> {
        Client::try_from(self.config()?).context("making a client")
    }

    /// Runs kubectl and returns what it printed; an error with what it said if it failed.
    pub async fn kubectl(&self, args: &[&str]) -> Result<String> {
        self.tool("kubectl", args).await
    }

    /// Runs helm, likewise.
    pub async fn helm(&self, args: &[&str]) -> Result<String> {
        self.tool("helm", args).await
    }

    async fn tool(&self, tool: &str, args: &[&str]) -> Result<String> {
        // HOME holds both tools' caches: the machine's own settings have no say in a test.
        let output = Launch::new(tool, binaries::find(tool)?)
            .args(args)
            .env("KUBECONFIG", self.file.as_os_str())
            .env("HOME", self.scratch.as_os_str())
            .run(&self.scratch, SOON)
            .await?;
        let said = output.stderr.trim();
        ensure!(
            output.exit.success(),
            "{tool} {}: {}: {said}",
            args.join(" "),
            output.exit
        );
        Ok(output.stdout)
    }
}

/// Chooses rustls' provider, so that a second one in the build can't make the choice ambiguous.
pub(crate) fn install_tls_provider() {
    // An error says that it was chosen before.
    let _ = rustls::crypto::ring::default_provider().install_default();
}
