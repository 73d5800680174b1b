//! Clusters that tests have left, kept for the next tests: a kube-apiserver needs ten seconds of processor time to start.
//! Their objects are removed from etcd, and the servers notice that by their watches.

use std::collections::{BTreeSet, HashMap};
use std::time::Duration;

use anyhow::{Context as _, Result, anyhow, ensure};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use k8s_openapi::api::core::v1::{ConfigMap, ServiceAccount};
use kube::api::Api;
use kube::{Client, Config};
use parking_lot::Mutex;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::eventually::{SOON, within};
use crate::servers::{Controllers, Options, Servers};

/// Clusters without a user. More of them would cost more than they save.
const KEPT: usize = 6;
/// A cluster that has not been emptied by then is not used again.
const EMPTIED_WITHIN: Duration = Duration::from_secs(20);
/// The operations that etcd allows in a transaction.
const MOST_OPERATIONS: usize = 128;
/// The objects of a new cluster that tests change, by the beginning of their keys.
const RESTORED: [&str; 6] = [
    "/registry/clusterrolebindings/",
    "/registry/clusterroles/",
    "/registry/namespaces/",
    "/registry/ranges/",
    "/registry/rolebindings/",
    "/registry/roles/",
];

static IDLE: Mutex<Vec<(Servers, FreshState)>> = Mutex::new(Vec::new());

/// Takes a cluster with these options.
pub(crate) fn take(options: &Options) -> Option<(Servers, FreshState)> {
    let mut idle = IDLE.lock();
    let found = idle
        .iter()
        .position(|(servers, _)| servers.options() == options)?;
    Some(idle.swap_remove(found))
}

/// Keeps a cluster, in the place of the one that is idle longest if there are many.
pub(crate) fn put(servers: Servers, fresh: FreshState) {
    let mut idle = IDLE.lock();
    idle.push((servers, fresh));
    let oldest = (idle.len() > KEPT).then(|| idle.remove(0));
    drop(idle);
    drop(oldest);
}

/// What a new cluster has.
pub(crate) struct FreshState {
    keys: HashMap<String, StoredKey>,
    /// The API groups that it serves.
    groups: BTreeSet<String>,
}

/// A key of etcd in base64, as its JSON API has it.
#[derive(Deserialize)]
struct StoredKey {
    key: String,
    #[serde(default)]
    value: String,
    mod_revision: String,
}

#[derive(Deserialize)]
struct StoredKeys {
    #[serde(default)]
    kvs: Vec<StoredKey>,
}

impl FreshState {
    /// Awaits that a new cluster has all of its own objects.
    pub(crate) async fn of(servers: &Servers) -> Result<Self> {
        if servers.options().controllers == Controllers::All {
            let client = servers.admin().client()?;
            let accounts: Api<ServiceAccount> = Api::namespaced(client.clone(), "default");
            let maps: Api<ConfigMap> = Api::namespaced(client, "default");
            let made = within(SOON, async || -> Result<()> {
                accounts.get("default").await?;
                maps.get("kube-root-ca.crt").await?;
                Ok(())
            });
            made.await
                .map_err(|last| anyhow!("the controllers do not work: {last}"))?;
        }
        let keys = stored(&etcd(servers)?, false).await?;
        Ok(Self {
            keys: keys.into_iter().map(|one| (one.key.clone(), one)).collect(),
            groups: groups(servers).await?,
        })
    }

    /// Removes everything else from the cluster, and awaits that nothing else is served.
    pub(crate) async fn reset(mut self, servers: &Servers) -> Result<Self> {
        let etcd = etcd(servers)?;
        let mut to_restore: HashMap<&str, &StoredKey> = HashMap::new();
        for (key, fresh) in &self.keys {
            let path = STANDARD.decode(key).context("a key of etcd")?;
            if RESTORED.iter().any(|one| path.starts_with(one.as_bytes())) {
                to_restore.insert(key, fresh);
            }
        }
        let emptied = within(EMPTIED_WITHIN, async || -> Result<()> {
            let mut operations = Vec::new();
            for now in stored(&etcd, true).await? {
                if !self.keys.contains_key(&now.key) {
                    operations.push(json!({"request_delete_range": {"key": now.key}}));
                } else if to_restore
                    .get(&*now.key)
                    .is_some_and(|fresh| fresh.mod_revision == now.mod_revision)
                {
                    to_restore.remove(&*now.key);
                }
            }
            // Controllers may write them again, so this is done once.
            for (key, fresh) in to_restore.drain() {
                let value = &fresh.value;
                operations.push(json!({"request_put": {"key": key, "value": value}}));
            }
            for some in operations.chunks(MOST_OPERATIONS) {
                ask(&etcd, "/v3/kv/txn", &json!({"success": some})).await?;
            }
            let count = operations.len();
            ensure!(
                count == 0,
                "there were {count} objects to remove or to restore"
            );
            let served = groups(servers).await?;
            ensure!(served == self.groups, "the groups served are {served:?}");
            Ok(())
        });
        emptied.await.map_err(|last| anyhow!("{last}"))?;
        for now in stored(&etcd, true).await? {
            if let Some(fresh) = self.keys.get_mut(&now.key) {
                fresh.mod_revision = now.mod_revision;
            }
        }
        Ok(self)
    }
}

fn etcd(servers: &Servers) -> Result<Client> {
    let address = servers.etcd_url().parse().context("the address of etcd")?;
    Client::try_from(Config::new(address)).context("a client of etcd")
}

async fn ask(etcd: &Client, path: &str, question: &Value) -> Result<String> {
    let request = http::Request::post(path).body(question.to_string().into_bytes())?;
    Ok(etcd.request_text(request).await?)
}

/// All keys of Kubernetes.
async fn stored(etcd: &Client, keys_only: bool) -> Result<Vec<StoredKey>> {
    let [first, end] = ["/registry/", "/registry0"].map(|key| STANDARD.encode(key));
    let question = json!({"key": first, "range_end": end, "keys_only": keys_only});
    let answer = ask(etcd, "/v3/kv/range", &question).await?;
    let found: StoredKeys = serde_json::from_str(&answer)?;
    Ok(found.kvs)
}

/// The API groups that are served.
async fn groups(servers: &Servers) -> Result<BTreeSet<String>> {
    let found = servers.admin().client()?.list_api_groups().await?;
    Ok(found.groups.into_iter().map(|group| group.name).collect())
}
