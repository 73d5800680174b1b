//! The servers that one account reaches: one client for each origin, rebuilt when credentials change.

use std::collections::HashMap;
use std::sync::Arc;

use http::Uri;
use http::uri::Authority;
use parking_lot::{Mutex, RwLock};

use super::lane::Lane;
use super::limits::Limits;
use super::trust::{self, SkippedTlsChecks};

/// The reason why a client cannot be made. Nothing was sent.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    #[error("{url:?} is not the URL of a server: {problem}")]
    Address { url: String, problem: String },
    #[error("cannot create a client for {url}: {problem}")]
    Client { url: String, problem: String },
}

/// One origin, as one account reaches it.
pub(super) struct Server {
    pub(super) client: RwLock<kube::Client>,
    pub(super) lane: Lane,
}

pub(super) struct Account {
    config: RwLock<kube::Config>,
    servers: Mutex<HashMap<String, Arc<Server>>>,
    pub(super) limits: Limits,
}

impl Account {
    pub(super) fn new(config: kube::Config, limits: Limits) -> Self {
        Self {
            config: RwLock::new(config),
            servers: Mutex::default(),
            limits,
        }
    }

    pub(super) fn another(&self) -> Self {
        Self::new(self.config.read().clone(), self.limits.clone())
    }

    pub(super) fn url(&self) -> String {
        self.config.read().cluster_url.to_string()
    }

    /// The server of an address, and its path.
    pub(super) fn server(&self, url: &str) -> Result<(Arc<Server>, String), ConnectError> {
        let (origin, path) = split(url)?;
        let mut servers = self.servers.lock();
        if let Some(server) = servers.get(&origin) {
            return Ok((Arc::clone(server), path));
        }
        let server = Arc::new(Server {
            client: RwLock::new(client(&self.config.read(), &origin, self.limits.unchecked)?),
            lane: Lane::new(&origin, &self.limits),
        });
        servers.insert(origin, Arc::clone(&server));
        Ok((server, path))
    }

    pub(super) fn renew(&self, config: kube::Config) -> Result<(), ConnectError> {
        let servers = self.servers.lock();
        let mut renewed = Vec::new();
        for (origin, server) in servers.iter() {
            renewed.push((server, client(&config, origin, self.limits.unchecked)?));
        }
        for (server, client) in renewed {
            *server.client.write() = client;
        }
        *self.config.write() = config;
        Ok(())
    }
}

/// The host and the port of a URL, without the user and the password that it may name.
pub fn host(url: &Uri) -> &str {
    let authority = url.authority().map_or("", Authority::as_str);
    authority
        .rsplit_once('@')
        .map_or(authority, |(_, host)| host)
}

/// The text of a URL without the user and the password that it may name. If it is no URL, any part of it may be a
/// password.
pub fn without_user(url: &str) -> String {
    let begin = url.find("://").map_or(0, |at| at + "://".len());
    let (scheme, rest) = url.split_at(begin);
    let path = rest.find(['/', '?', '#']);
    let end = path.filter(|_| url.parse::<Uri>().is_ok());
    match rest[..end.unwrap_or(rest.len())].rfind('@') {
        Some(at) => format!("{scheme}{}", &rest[at + 1..]),
        None => url.to_owned(),
    }
}

/// The origin and the path of a URL.
fn split(url: &str) -> Result<(String, String), ConnectError> {
    let wrong = |problem: &str| ConnectError::Address {
        url: without_user(url),
        problem: problem.to_owned(),
    };
    let uri: Uri = url.parse().map_err(|error| wrong(&format!("{error}")))?;
    let scheme = uri
        .scheme_str()
        .ok_or_else(|| wrong("no scheme such as https"))?;
    if host(&uri).is_empty() {
        return Err(wrong("no host"));
    }
    let path = uri.path().trim_end_matches('/').to_owned();
    Ok((format!("{scheme}://{}", host(&uri)), path))
}

/// A client without retries inside a call and without read timeouts, which would end watches.
fn client(
    config: &kube::Config,
    origin: &str,
    unchecked: SkippedTlsChecks,
) -> Result<kube::Client, ConnectError> {
    let failed = |problem: String| ConnectError::Client {
        url: origin.to_owned(),
        problem,
    };
    let by_http = |proxy: &Uri| matches!(proxy.scheme_str(), Some("http" | "https"));
    if !config.proxy_url.as_ref().is_none_or(by_http) {
        // The address may have a password in it, and the client's own words repeat it.
        let problem = "its proxy-url is not an http or https URL";
        return Err(failed(problem.to_owned()));
    }
    let mut config = config.clone();
    config.cluster_url = format!("{origin}/")
        .parse()
        .map_err(|error| failed(format!("{error}")))?;
    trust::client(&config, unchecked).map_err(failed)
}
