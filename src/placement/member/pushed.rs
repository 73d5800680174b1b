//! Agents for members that this process runs from outside: a Secret on the hub has the kubeconfig of each member.

use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use futures::future::join_all;
use kube::config::{AuthInfo, KubeConfigOptions, Kubeconfig, KubeconfigError};
use tokio::sync::Notify;
use tracing::{info, warn};

use hawser_runtime::cluster::cache::{Cache, Change, Coverage, Table};
use hawser_runtime::cluster::connection::{ConnectError, Connection};
use hawser_runtime::cluster::feed::{Clusters, Content, EventHandler, Pace, Selection};
use hawser_runtime::controller::{WatchRegistry, WatchSpec};
use hawser_runtime::errors::chain;
use hawser_sync::Side;
use kube_lang::object::{Gvk, Object};

use super::acting::RunningMembers;
use super::applier::Shared;
use super::sides::MemberAccess;

/// The label of the Secret with the name of the member.
pub const MEMBER: &str = "hawser.dev/member";
const SELECTOR: &str = "labelSelector=hawser.dev%2Fmember";
/// The key in the Secret.
const KUBECONFIG: &str = "kubeconfig";

static SIDE: LazyLock<Side> = LazyLock::new(|| Side::new("secrets"));

/// The reason why a Secret cannot be used. No text quotes the kubeconfig.
#[derive(Debug, thiserror::Error)]
pub enum PushedError {
    #[error("the Secret has no kubeconfig in its key {KUBECONFIG}")]
    Missing,
    #[error("the kubeconfig cannot be read")]
    Unreadable,
    #[error(
        "the kubeconfig in the Secret uses {0}: it must contain its certificates, keys and tokens itself"
    )]
    Outside(&'static str),
    #[error("using the kubeconfig")]
    Use(#[source] Box<KubeconfigError>),
    #[error(transparent)]
    Connect(#[from] ConnectError),
}

struct Changes(Notify);

impl EventHandler for Changes {
    fn changed(&self, _: &Arc<Table>, _: Change) {
        self.0.notify_one();
    }

    fn completed(&self, _: &Arc<Table>) {
        self.0.notify_one();
    }
}

/// Runs the agents of the members that have a Secret in this namespace of the hub, until dropped.
pub async fn follow(
    at_work: &RunningMembers,
    shared: &Shared,
    namespace: &str,
    connect: impl Fn(kube::Config) -> Result<Connection, ConnectError>,
) {
    let cache = Cache::new();
    cache.route(&SIDE, "", &SIDE.0);
    let changes = Arc::new(Changes(Notify::new()));
    let watches = WatchRegistry::new(&cache, Pace::default(), Arc::clone(&changes) as _);
    let watch = watches.watch(secrets(&shared.hub, namespace));
    watch.completed().await;
    // The kubeconfigs of the agents that run.
    let mut used: BTreeMap<String, Vec<u8>> = BTreeMap::new();
    loop {
        let found = watch.table().all();
        let found: Vec<_> = found.iter().map(|(_, secret)| &**secret).collect();
        let wanted = kubeconfigs(&found);
        let mut ending: Vec<String> = used
            .keys()
            .filter(|name| !wanted.contains_key(*name))
            .cloned()
            .collect();
        for name in &ending {
            info!(
                member = name,
                "the Secret of the member is gone; its agent ends"
            );
            used.remove(name);
        }
        let mut starting = Vec::new();
        for (name, kubeconfig) in wanted {
            match reach(used.get(&name), kubeconfig, &connect).await {
                Ok(None) => {}
                Ok(Some(now)) => {
                    if used.contains_key(&name) {
                        ending.push(name.clone());
                    }
                    starting.push((name, now));
                }
                Err(error) => {
                    let problem = chain(&error);
                    warn!(member = name, problem, "cannot run the agent of a member");
                }
            }
        }
        // Each has its time to finish what is under way.
        join_all(ending.iter().map(|name| at_work.end(name))).await;
        for (name, (kubeconfig, access)) in starting {
            let url = access.connection.url();
            info!(member = name, url, "running the agent of a member");
            at_work.start(&name, access, shared);
            used.insert(name, kubeconfig);
        }
        changes.0.notified().await;
    }
}

/// The connection for a kubeconfig that is not the one in use. Another kubeconfig may lead to another cluster, even if only
/// the credentials differ: some proxies choose the cluster by them. Nothing that is known holds there, so it needs a new
/// agent. An unusable kubeconfig changes nothing.
async fn reach(
    used: Option<&Vec<u8>>,
    kubeconfig: Result<Vec<u8>, PushedError>,
    connect: &impl Fn(kube::Config) -> Result<Connection, ConnectError>,
) -> Result<Option<(Vec<u8>, MemberAccess)>, PushedError> {
    let kubeconfig = kubeconfig?;
    if used == Some(&kubeconfig) {
        return Ok(None);
    }
    let config = configuration(&kubeconfig).await?;
    let access = MemberAccess::new(connect(config.clone())?, &config);
    Ok(Some((kubeconfig, access)))
}

/// The kubeconfigs by members. Of several Secrets for one member, the first by its name counts.
fn kubeconfigs(secrets: &[&Object]) -> BTreeMap<String, Result<Vec<u8>, PushedError>> {
    let mut secrets = secrets.to_vec();
    secrets.sort_by_key(|secret| secret.name().to_owned());
    let mut found = BTreeMap::new();
    for secret in secrets {
        let Some(name) = secret.as_value()["metadata"]["labels"][MEMBER].as_str() else {
            continue;
        };
        let text = secret.as_value()["data"][KUBECONFIG].as_str();
        let decoded = text.and_then(|text| STANDARD.decode(text).ok());
        found
            .entry(name.to_owned())
            .or_insert_with(|| decoded.ok_or(PushedError::Missing));
    }
    found
}

/// The author of a Secret must not be able to read files of this process or run commands in it.
async fn configuration(kubeconfig: &[u8]) -> Result<kube::Config, PushedError> {
    let text = str::from_utf8(kubeconfig).map_err(|_| PushedError::Unreadable)?;
    let read: Kubeconfig = serde_saphyr::from_str(text).map_err(|_| PushedError::Unreadable)?;
    let users = read
        .auth_infos
        .iter()
        .filter_map(|user| user.auth_info.as_ref());
    let mut outside = users.filter_map(|user| {
        let AuthInfo {
            exec,
            auth_provider,
            token_file,
            client_certificate,
            client_key,
            ..
        } = user;
        let given = [
            ("a command", exec.is_some()),
            ("an auth provider", auth_provider.is_some()),
            ("a token file", token_file.is_some()),
            ("a certificate file", client_certificate.is_some()),
            ("a key file", client_key.is_some()),
        ];
        given.into_iter().find(|(_, is)| *is).map(|(what, _)| what)
    });
    let mut clusters = read.clusters.iter().filter_map(|one| one.cluster.as_ref());
    if let Some(what) = outside.next() {
        return Err(PushedError::Outside(what));
    }
    if clusters.any(|cluster| cluster.certificate_authority.is_some()) {
        return Err(PushedError::Outside("a certificate authority file"));
    }
    let current = KubeConfigOptions::default();
    kube::Config::from_custom_kubeconfig(read, &current)
        .await
        .map_err(|error| PushedError::Use(Box::new(error)))
}

fn secrets(hub: &Connection, namespace: &str) -> WatchSpec {
    let namespace: Option<Arc<str>> = Some(namespace.into());
    WatchSpec {
        side: SIDE.clone(),
        kind: Arc::new(Gvk::new("", "v1", "Secret")),
        source: Arc::clone(&SIDE.0),
        coverage: Coverage {
            namespace: namespace.clone(),
            ..Coverage::default()
        },
        selection: Selection {
            connection: hub.clone(),
            resource: "secrets".into(),
            namespace,
            query: Some(SELECTOR.to_owned()),
            clusters: Clusters::One("".into()),
            content: Content::Whole,
        },
    }
}

#[cfg(test)]
mod tests {
    use hawser_runtime::cluster::connection::Limits;
    use serde_json::json;

    use super::*;

    fn kubeconfig(user: &serde_json::Value, cluster: &serde_json::Value) -> Vec<u8> {
        let all = json!({
            "current-context": "m",
            "contexts": [{"name": "m", "context": {"cluster": "m", "user": "m"}}],
            "users": [{"name": "m", "user": user}],
            "clusters": [{"name": "m", "cluster": cluster}],
        });
        all.to_string().into_bytes()
    }

    #[tokio::test]
    async fn a_kubeconfig_of_a_secret_leads_to_no_files_and_no_commands() {
        let cluster = json!({"server": "https://127.0.0.1:1"});
        let plain = kubeconfig(&json!({"token": "t"}), &cluster);
        let config = configuration(&plain).await.unwrap();
        assert_eq!(config.cluster_url.host(), Some("127.0.0.1"));
        for user in [
            json!({"exec": {"command": "/bin/true", "apiVersion": "client.authentication.k8s.io/v1"}}),
            json!({"auth-provider": {"name": "gcp", "config": {}}}),
            json!({"tokenFile": "/etc/hostname"}),
            json!({"client-certificate": "/etc/hostname"}),
            json!({"client-key": "/etc/hostname"}),
        ] {
            let found = configuration(&kubeconfig(&user, &cluster)).await;
            assert!(matches!(found, Err(PushedError::Outside(_))), "{user}");
        }
        let cluster =
            json!({"server": "https://127.0.0.1:1", "certificate-authority": "/etc/hostname"});
        let found = configuration(&kubeconfig(&json!({"token": "t"}), &cluster)).await;
        assert!(matches!(found, Err(PushedError::Outside(_))));
        let secret = configuration(b"{token: hidden").await.unwrap_err();
        assert!(!chain(&secret).contains("hidden"));
    }

    #[tokio::test]
    async fn another_kubeconfig_needs_another_agent_and_no_url_shows_a_password() {
        let connect = |config| Connection::new(config, Limits::default());
        let cluster = json!({"server": "https://me:hidden@127.0.0.1:1/east"});
        let first = kubeconfig(&json!({"token": "t"}), &cluster);
        let found = reach(None, Ok(first.clone()), &connect).await.unwrap();
        let (_, access) = found.unwrap();
        assert_eq!(access.connection.url(), "https://127.0.0.1:1/east");
        let same = reach(Some(&first), Ok(first.clone()), &connect).await;
        assert!(same.unwrap().is_none());
        let mut behind = cluster.clone();
        behind["tls-server-name"] = "west".into();
        for other in [
            kubeconfig(&json!({"token": "t"}), &behind),
            kubeconfig(&json!({"token": "u"}), &cluster),
        ] {
            let found = reach(Some(&first), Ok(other), &connect).await;
            assert!(found.unwrap().is_some());
        }
    }

    #[test]
    fn the_first_secret_of_a_member_counts() {
        let secret = |name: &str, member: &str, data: &str| {
            Object::new(json!({
                "apiVersion": "v1", "kind": "Secret",
                "metadata": {"name": name, "labels": {MEMBER: member}},
                "data": {KUBECONFIG: STANDARD.encode(data)},
            }))
            .unwrap()
        };
        let secrets = [
            secret("b", "m", "second"),
            secret("a", "m", "first"),
            secret("c", "n", "other"),
        ];
        let found = kubeconfigs(&secrets.iter().collect::<Vec<_>>());
        let texts = found.values().map(|one| one.as_deref().unwrap());
        assert_eq!(texts.collect::<Vec<_>>(), [&b"first"[..], b"other"]);
    }
}
