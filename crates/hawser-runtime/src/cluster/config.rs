//! Kubeconfigs: lookup, parsing, changes.
//!
//! Knows the order in which sources are tried, how the files of a list are merged, and which other files a kubeconfig
//! names. Only the environment variables of [`Environment`] are used. Does not connect.

use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};

use super::connection::without_user;
use kube::config::{
    AuthInfo, Cluster, Context, Kubeconfig, KubeconfigError, NamedAuthInfo, NamedCluster,
    NamedContext,
};

mod watched;

pub use watched::{INTERVAL, Watched};

/// The directory with the service account of a Pod.
const SERVICE_ACCOUNT: &str = "/var/run/secrets/kubernetes.io/serviceaccount";

/// The flags and settings for a cluster's configuration.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Lookup {
    pub kubeconfig: Option<PathBuf>,
    /// Replaces the server's URL.
    pub host_override: Option<String>,
    /// Replaces the certificate authority of the server, inline or as a file.
    pub ca_file_override: Option<PathBuf>,
}

/// The environment variables that count.
#[derive(Clone, Debug, Default)]
pub struct Environment {
    /// A list of files.
    pub kubeconfig: Option<OsString>,
    pub home: Option<PathBuf>,
    /// Host and port of the cluster that this process runs in.
    pub service: Option<(String, String)>,
    pub service_account: PathBuf,
}

/// The source of a configuration; it can be read repeatedly.
#[derive(Clone, Debug)]
pub struct Source {
    origin: Origin,
    host_override: Option<String>,
    ca_file_override: Option<PathBuf>,
    required: Option<RequiredUrl>,
}

#[derive(Clone, Debug)]
enum Origin {
    /// One file.
    File(PathBuf),
    /// The files of a list that exist; the first one that sets a value wins.
    List(Vec<PathBuf>),
    /// The cluster that this process runs in.
    Inside { url: String, account: PathBuf },
}

/// A condition on the server's URL.
#[derive(Clone, Copy, Debug)]
pub struct RequiredUrl {
    /// The text that it has to contain.
    pub part: &'static str,
    /// What is wrong without it, and what to do.
    pub complaint: &'static str,
}

/// One context of a kubeconfig, for tools that read several.
#[derive(Clone, Debug)]
pub struct KubeContext {
    pub name: String,
    pub namespace: Option<String>,
    /// The entry of its cluster, unchanged.
    pub cluster: Cluster,
    pub config: kube::Config,
}

#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    #[error("context {0:?} does not exist")]
    Context(String),
    #[error("reading the kubeconfig {path}")]
    Read { path: PathBuf, source: io::Error },
    /// Without the message of the parser, which may quote a secret.
    #[error("{path}, line {line}: not a kubeconfig in YAML")]
    Parse { path: PathBuf, line: u64 },
    #[error("using the configuration from {origin}")]
    Use {
        origin: String,
        source: Box<KubeconfigError>,
    },
    #[error(
        "no configuration of the service cluster: set --kubeconfig or KUBECONFIG, run in a Pod with a service account, or create ~/.kube/config"
    )]
    Nowhere,
    #[error("{path} has the server {url:?}, {complaint}")]
    Url {
        path: String,
        url: String,
        complaint: &'static str,
    },
}

// === impl Environment ===

impl Environment {
    /// The environment of this process.
    pub fn of_process() -> Self {
        let text = |name| std::env::var(name).ok().filter(|text| !text.is_empty());
        Self {
            kubeconfig: std::env::var_os("KUBECONFIG").filter(|list| !list.is_empty()),
            home: std::env::home_dir(),
            service: text("KUBERNETES_SERVICE_HOST").zip(text("KUBERNETES_SERVICE_PORT")),
            service_account: SERVICE_ACCOUNT.into(),
        }
    }

    /// The cluster that this process runs in, if any.
    fn inside(&self) -> Option<Origin> {
        let (host, port) = self.service.as_ref()?;
        if !self.service_account.join("token").exists() {
            return None;
        }
        let host = if host.contains(':') {
            format!("[{host}]")
        } else {
            host.clone()
        };
        Some(Origin::Inside {
            url: format!("https://{host}:{port}"),
            account: self.service_account.clone(),
        })
    }
}

// === impl Source ===

impl Source {
    /// Finds the configuration: the named file, else the files in the environment, else the cluster that this process
    /// runs in, else the file in the home directory.
    pub fn find(lookup: &Lookup, environment: &Environment) -> Result<Self, ConfigError> {
        let origin = match (&lookup.kubeconfig, &environment.kubeconfig) {
            (Some(path), _) => Origin::File(path.clone()),
            (None, Some(list)) => {
                let files: Vec<_> = std::env::split_paths(list)
                    .filter(|path| !path.as_os_str().is_empty())
                    .collect();
                let some = files.iter().any(|path| path.exists());
                some.then_some(Origin::List(files))
                    .or_else(|| environment.inside())
                    .ok_or(ConfigError::Nowhere)?
            }
            (None, None) => environment
                .inside()
                .or_else(|| at_home(environment))
                .ok_or(ConfigError::Nowhere)?,
        };
        Ok(Self {
            origin,
            host_override: lookup.host_override.clone(),
            ca_file_override: lookup.ca_file_override.clone(),
            required: None,
        })
    }

    /// The current context of this file, whose server has a URL like this.
    pub fn file(kubeconfig: &Path, required: RequiredUrl) -> Self {
        Self {
            origin: Origin::File(kubeconfig.to_owned()),
            host_override: None,
            ca_file_override: None,
            required: Some(required),
        }
    }

    /// Reads the current configuration.
    pub fn read(&self) -> Result<kube::Config, ConfigError> {
        self.configured(self.kubeconfig()?)
    }

    /// Reads the named context, else the current one.
    pub fn context(&self, name: Option<&str>) -> Result<KubeContext, ConfigError> {
        let mut kubeconfig = self.kubeconfig()?;
        if let Some(name) = name {
            kubeconfig.current_context = Some(name.to_owned());
        }
        let name = kubeconfig.current_context.clone().unwrap_or_default();
        let namespace = current_context(&kubeconfig).map(|context| context.namespace.clone());
        let cluster = current_cluster(&mut kubeconfig).cloned();
        let (Some(namespace), Some(cluster)) = (namespace, cluster) else {
            return Err(ConfigError::Context(name));
        };
        Ok(KubeContext {
            name,
            namespace,
            cluster,
            config: self.configured(kubeconfig)?,
        })
    }

    /// The source as text.
    pub fn describe(&self) -> String {
        match &self.origin {
            Origin::File(path) => path.display().to_string(),
            Origin::List(paths) => {
                let paths: Vec<_> = paths
                    .iter()
                    .map(|path| path.display().to_string())
                    .collect();
                paths.join(", ")
            }
            Origin::Inside { .. } => "the Pod's service account".to_owned(),
        }
    }

    /// The relevant part of the configuration, as one kubeconfig with one context.
    fn kubeconfig(&self) -> Result<Kubeconfig, ConfigError> {
        let mut kubeconfig = match &self.origin {
            Origin::File(path) => read_file(path)?,
            Origin::List(paths) => self.merged(paths)?,
            Origin::Inside { url, account } => inside(url, account),
        };
        for cluster in kubeconfig
            .clusters
            .iter_mut()
            .filter_map(|c| c.cluster.as_mut())
        {
            if let Some(host) = &self.host_override {
                cluster.server = Some(host.clone());
            }
            if let Some(path) = &self.ca_file_override {
                cluster.certificate_authority_data = None;
                cluster.certificate_authority = Some(path.to_string_lossy().into_owned());
            }
        }
        for user in kubeconfig
            .auth_infos
            .iter_mut()
            .filter_map(|u| u.auth_info.as_mut())
        {
            // The file is newer than the copy of it.
            if user.token_file.is_some() {
                user.token = None;
            }
        }
        Ok(kubeconfig)
    }

    fn merged(&self, paths: &[PathBuf]) -> Result<Kubeconfig, ConfigError> {
        let mut merged = Kubeconfig::default();
        for path in paths {
            match read_file(path) {
                Ok(next) => merged = merged.merge(next).map_err(|error| self.unusable(error))?,
                Err(ConfigError::Read { source, .. })
                    if source.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(error),
            }
        }
        Ok(merged)
    }

    fn configured(&self, mut kubeconfig: Kubeconfig) -> Result<kube::Config, ConfigError> {
        let cluster = current_cluster(&mut kubeconfig);
        let own_proxy = cluster.as_ref().is_some_and(|cluster| {
            cluster
                .proxy_url
                .as_ref()
                .is_some_and(|url| !url.is_empty())
        });
        if let Some(cluster) = cluster {
            give_scheme(cluster);
        }
        let mut config =
            kube::Config::try_from(kubeconfig).map_err(|error| self.unusable(error))?;
        if !own_proxy {
            config.proxy_url = None;
        }
        // What is tried again, and when, is decided by who asks; watches may be silent for long.
        config.default_retry = false;
        config.read_timeout = None;
        let url = config.cluster_url.to_string();
        match self.required {
            Some(required) if !url.contains(required.part) => Err(ConfigError::Url {
                path: self.describe(),
                url: without_user(&url),
                complaint: required.complaint,
            }),
            _ => Ok(config),
        }
    }

    fn unusable(&self, error: KubeconfigError) -> ConfigError {
        ConfigError::Use {
            origin: self.describe(),
            source: Box::new(error),
        }
    }

    /// The files of the configuration, whether they exist or not.
    fn files(&self) -> impl Iterator<Item = PathBuf> {
        let files = match &self.origin {
            Origin::File(path) => std::slice::from_ref(path),
            Origin::List(paths) => paths,
            Origin::Inside { .. } => &[],
        };
        files.iter().cloned()
    }
}

fn at_home(environment: &Environment) -> Option<Origin> {
    let path = environment.home.as_ref()?.join(".kube").join("config");
    path.exists().then_some(Origin::File(path))
}

fn read_file(path: &Path) -> Result<Kubeconfig, ConfigError> {
    // Paths in the file are meant from where it lies.
    let read = std::path::absolute(path)
        .map_err(|error| KubeconfigError::ReadConfig(error, path.to_owned()))
        .and_then(Kubeconfig::read_from);
    read.map_err(|error| match error {
        KubeconfigError::ReadConfig(source, _) => ConfigError::Read {
            path: path.to_owned(),
            source,
        },
        KubeconfigError::Parse(error) => ConfigError::Parse {
            path: path.to_owned(),
            line: error.location().map_or(0, |location| location.line()),
        },
        other => ConfigError::Use {
            origin: path.display().to_string(),
            source: Box::new(other),
        },
    })
}

/// The service account of a Pod as a kubeconfig.
fn inside(url: &str, account: &Path) -> Kubeconfig {
    let file = |name| Some(account.join(name).to_string_lossy().into_owned());
    let name = "inside".to_owned();
    // Where it is not there, the server is known by a public authority.
    let authority = account.join("ca.crt").exists();
    Kubeconfig {
        current_context: Some(name.clone()),
        contexts: vec![NamedContext {
            name: name.clone(),
            context: Some(Context {
                cluster: name.clone(),
                user: Some(name.clone()),
                ..Context::default()
            }),
            ..NamedContext::default()
        }],
        clusters: vec![NamedCluster {
            name: name.clone(),
            cluster: Some(Cluster {
                server: Some(url.to_owned()),
                certificate_authority: authority.then(|| file("ca.crt")).flatten(),
                ..Cluster::default()
            }),
            ..NamedCluster::default()
        }],
        auth_infos: vec![NamedAuthInfo {
            name,
            auth_info: Some(AuthInfo {
                token_file: file("token"),
                ..AuthInfo::default()
            }),
            ..NamedAuthInfo::default()
        }],
        ..Kubeconfig::default()
    }
}

fn current_context(kubeconfig: &Kubeconfig) -> Option<&Context> {
    let name = kubeconfig.current_context.as_ref()?;
    let mut contexts = kubeconfig.contexts.iter();
    contexts
        .find(|context| context.name == *name)?
        .context
        .as_ref()
}

fn current_cluster(kubeconfig: &mut Kubeconfig) -> Option<&mut Cluster> {
    let name = current_context(kubeconfig)?.cluster.clone();
    let mut clusters = kubeconfig.clusters.iter_mut();
    clusters
        .find(|cluster| cluster.name == name)?
        .cluster
        .as_mut()
}

/// Completes addresses without a scheme as client-go does: https if the configuration has any TLS settings.
fn give_scheme(cluster: &mut Cluster) {
    let secure = cluster.certificate_authority.is_some()
        || cluster.certificate_authority_data.is_some()
        || cluster.insecure_skip_tls_verify == Some(true);
    if let Some(server) = &mut cluster.server
        && !server.is_empty()
        && !server.contains("://")
    {
        let scheme = if secure { "https" } else { "http" };
        *server = format!("{scheme}://{server}");
    }
}

/// The files that the current context of a kubeconfig names.
fn named_files(kubeconfig: &mut Kubeconfig) -> Vec<PathBuf> {
    let user = current_context(kubeconfig).and_then(|context| context.user.clone());
    let authority =
        current_cluster(kubeconfig).and_then(|cluster| cluster.certificate_authority.clone());
    let user = kubeconfig
        .auth_infos
        .iter()
        .find(|known| Some(&known.name) == user.as_ref())
        .and_then(|known| known.auth_info.as_ref());
    let credentials = user.into_iter().flat_map(|user| {
        [&user.client_certificate, &user.client_key, &user.token_file]
            .into_iter()
            .flatten()
            .cloned()
    });
    authority
        .into_iter()
        .chain(credentials)
        .map(PathBuf::from)
        .collect()
}

#[cfg(test)]
mod tests;
