//! Reads from the server whether a workspace binds the API.
//!
//! Bindings and objects arrive on different watches. kcp deletes the objects of a binding only after the binding is in
//! deletion. So a list of bindings that is younger than the deletion of an object tells the two apart.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use serde_json::Value;
use tokio::sync;
use tokio::time::Instant;

use super::bindings::has_bound;
use super::workspaces::Workspaces;
use hawser_runtime::cluster::connection::{
    Call, CallError, Connection, REQUEST_TIMEOUT, RequestError,
};

const BINDINGS: &str = "/apis/apis.kcp.io/v1alpha1/apibindings";
const LOGICAL_CLUSTER: &str = "/apis/core.kcp.io/v1alpha1/logicalclusters/cluster";

/// The time for which an answer serves later questions.
const FRESH: Duration = Duration::from_secs(2);

/// The number of workspaces whose answers are kept.
const WORKSPACES: usize = 1024;

/// Whether a workspace binds the API.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BindingState {
    Bound,
    /// All bindings are in deletion or gone.
    Unbinding,
    /// All bindings are in deletion or gone, because the workspace itself is in deletion.
    Deleted,
}

/// Reads the bindings of workspaces, once for all concurrent questions.
pub struct BindingReader {
    workspaces: Arc<Workspaces>,
    known: Mutex<HashMap<Arc<str>, Arc<sync::Mutex<LastBindingState>>>>,
}

/// The last known binding state of a workspace.
#[derive(Default)]
struct LastBindingState {
    bound: Option<CachedBindings>,
    end: Option<(Instant, BindingState)>,
}

/// A list with a binding that stays.
struct CachedBindings {
    /// The time of the request.
    asked: Instant,
    /// The resourceVersion of the list.
    version: u64,
}

impl CachedBindings {
    /// Whether the list is younger than a deletion. The deletion is given by the instant at which it was known, or by
    /// the version of the object.
    fn is_after(&self, seen: Instant, version: Option<u64>) -> bool {
        let covers = version.is_some_and(|version| self.version >= version);
        self.asked >= seen || covers && self.asked.elapsed() < FRESH
    }
}

impl BindingReader {
    pub fn new(workspaces: &Arc<Workspaces>) -> Self {
        Self {
            workspaces: Arc::clone(workspaces),
            known: Mutex::default(),
        }
    }

    /// The bond of a workspace, read after this call, or after the given version of an object.
    pub async fn ask(
        &self,
        cluster: &Arc<str>,
        version: Option<u64>,
    ) -> Result<BindingState, String> {
        let seen = Instant::now();
        let known = self.known(cluster);
        let mut known = known.lock().await;
        if let Some(bound) = &known.bound
            && bound.is_after(seen, version)
        {
            return Ok(BindingState::Bound);
        }
        known.bound = None;
        let asked = Instant::now();
        let at = self.connection(cluster)?;
        let (bindings, version) = read(&at).await.map_err(|error| error.to_string())?;
        if !bind(&bindings) {
            return known.end(&at).await;
        }
        let version = version.parse().ok();
        known.bound = version.map(|version| CachedBindings { asked, version });
        Ok(BindingState::Bound)
    }

    /// The bond of a workspace whose bindings are all in deletion.
    pub async fn end(&self, cluster: &Arc<str>) -> Result<BindingState, String> {
        let known = self.known(cluster);
        let mut known = known.lock().await;
        known.end(&self.connection(cluster)?).await
    }

    /// On behalf of the workspace: others do not wait for one that is refused.
    fn connection(&self, cluster: &Arc<str>) -> Result<Connection, String> {
        let connection = self.workspaces.connection(cluster);
        let connection = connection.map(|connection| connection.of(cluster));
        connection.ok_or_else(|| "no endpoint serves the workspace".to_owned())
    }

    fn known(&self, cluster: &Arc<str>) -> Arc<sync::Mutex<LastBindingState>> {
        let mut all = self.known.lock();
        if all.len() >= WORKSPACES && !all.contains_key(cluster) {
            all.retain(|_, known| Arc::strong_count(known) > 1);
        }
        Arc::clone(all.entry(Arc::clone(cluster)).or_default())
    }
}

impl LastBindingState {
    /// Whether the workspace itself is in deletion. If the agent cannot see that, it counts as unbinding.
    async fn end(&mut self, at: &Connection) -> Result<BindingState, String> {
        if let Some((found, bond)) = self.end
            && found.elapsed() < FRESH
        {
            return Ok(bond);
        }
        let bond = match at.ask(Call::get(LOGICAL_CLUSTER)).await {
            Ok(cluster) if is_in_deletion(&cluster) => BindingState::Deleted,
            Ok(_) => BindingState::Unbinding,
            Err(error) if matches!(error.code(), Some(403 | 404)) => BindingState::Unbinding,
            Err(error) => return Err(error.to_string()),
        };
        self.end = Some((Instant::now(), bond));
        Ok(bond)
    }
}

/// The state of a binding.
#[derive(Clone, Copy, Debug)]
struct BindingPhase {
    leaves: bool,
    has_bound: bool,
}

impl BindingPhase {
    fn of(binding: &Value) -> Self {
        Self {
            leaves: is_in_deletion(binding),
            has_bound: has_bound(binding),
        }
    }
}

/// Reads the bindings of a workspace, and the resourceVersion of the list. One is in memory at a time: its
/// administrator may make any number of large ones.
async fn read(at: &Connection) -> Result<(Vec<BindingPhase>, String), RequestError> {
    let mut page = at.page(Call::get(BINDINGS), REQUEST_TIMEOUT).await?;
    let mut bindings = Vec::new();
    while let Some(item) = page.item().await? {
        let binding = serde_json::from_slice(&item);
        let binding: Value = binding.map_err(|error| CallError::Broken(error.to_string()))?;
        bindings.push(BindingPhase::of(&binding));
    }
    Ok((bindings, page.end()?.resource_version))
}

/// Whether these bindings of a workspace bind the API. If one is in deletion, others count only if they have bound it:
/// kcp may have refused them because of the first.
fn bind(bindings: &[BindingPhase]) -> bool {
    let mut lasting = bindings.iter().filter(|one| !one.leaves);
    if bindings.iter().any(|one| one.leaves) {
        return lasting.any(|one| one.has_bound);
    }
    lasting.next().is_some()
}

fn is_in_deletion(object: &Value) -> bool {
    object["metadata"]["deletionTimestamp"].is_string()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::ground::until;
    use super::*;
    use crate::publish::related::binding_kind;
    use crate::publish::rules::Sides;
    use hawser_runtime::cluster::cache::{Cache, Change, ChangeType, Table};
    use hawser_runtime::cluster::feed::{EventHandler, Pace};
    use hawser_runtime::cluster::ground::{Ground, fault};
    use hawser_runtime::controller::WatchRegistry;
    use hawser_sync::Scope;
    use kcp_playground::server::{Action, When};
    use kube_lang::object::Object;

    const WORKSPACES: &str = "/apis/tenancy.kcp.io/v1alpha1/workspaces";

    struct IgnoreEvents;

    impl EventHandler for IgnoreEvents {
        fn changed(&self, _: &Arc<Table>, _: Change) {}
    }

    /// Connections to workspaces at their own server, not at the endpoint.
    fn served(ground: &Ground, clusters: &[&str]) -> Arc<Workspaces> {
        let (sides, cache) = (Sides::default(), Cache::new());
        let feeds = WatchRegistry::new(&cache, Pace::default(), Arc::new(IgnoreEvents));
        let workspaces = Workspaces::new(&sides, &cache, &feeds, ground.kcp.clone());
        let base = ground.kcp.url().replace("/clusters/root", "");
        let slice =
            json!({"metadata": {"name": "slice"}, "status": {"endpoints": [{"url": base}]}});
        workspaces.slice(Some(&Object::new(slice).unwrap()));
        let ready = json!([{"type": "Ready", "status": "True"}]);
        let binding = json!({"metadata": {"name": "binding"}, "status": {"conditions": ready}});
        let binding = Arc::new(Object::new(binding).unwrap());
        let source = base.into();
        for cluster in clusters {
            let change = Change {
                key: Scope::new(&sides.kcp, &binding_kind(), cluster).key(None, "binding"),
                object: Arc::clone(&binding),
                what: ChangeType::Changed,
            };
            workspaces.binding(&source, &change);
        }
        Arc::new(workspaces)
    }

    /// A new workspace; its logical cluster.
    async fn workspace(ground: &Ground, name: &str) -> Arc<str> {
        let workspace = json!({
            "apiVersion": "tenancy.kcp.io/v1alpha1", "kind": "Workspace", "metadata": {"name": name},
        });
        let kcp = &ground.kcp;
        kcp.ask(Call::post(WORKSPACES, &workspace)).await.unwrap();
        let at = format!("{WORKSPACES}/{name}");
        let ready = until(kcp, &at, |found| found["status"]["phase"] == "Ready").await;
        ready["spec"]["cluster"].as_str().unwrap().into()
    }

    #[tokio::test]
    async fn a_workspace_that_leaves_is_told_from_one_that_is_deleted_as_its_server_shows_it() {
        let ground = Ground::start().await;
        let (kcp, at) = (&ground.kcp, format!("{WORKSPACES}/team"));
        let cluster = workspace(&ground, "team").await;
        let reader = BindingReader::new(&served(&ground, &[&cluster]));
        // Something keeps the workspace when it is deleted.
        let held = json!({
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": "held", "finalizers": ["example.com/held"]},
        });
        let workspace = reader.connection(&cluster).unwrap();
        let maps = "/api/v1/namespaces/default/configmaps";
        workspace.ask(Call::post(maps, &held)).await.unwrap();
        assert_eq!(reader.end(&cluster).await, Ok(BindingState::Unbinding));
        kcp.ask(Call::delete(&*at, &json!({}))).await.unwrap();
        let reader = BindingReader::new(&reader.workspaces);
        assert_eq!(reader.ask(&cluster, None).await, Ok(BindingState::Deleted));
        let action = Action::Status {
            code: 503,
            when: When::Before,
        };
        ground
            .playground
            .faults()
            .add(fault("list", "apibindings", action));
        assert!(reader.ask(&cluster, None).await.is_err());
    }

    #[tokio::test]
    async fn a_workspace_whose_bindings_are_refused_delays_no_other() {
        let ground = Ground::start().await;
        let (bindings, end, other) = tokio::join!(
            workspace(&ground, "bindings"),
            workspace(&ground, "end"),
            workspace(&ground, "other")
        );
        let served = served(&ground, &[&bindings, &end, &other]);
        let reader = BindingReader::new(&served);
        let faults = ground.playground.faults();
        let requests = [
            (&bindings, "list", "apibindings"),
            (&end, "get", "logicalclusters"),
        ];
        for (cluster, verb, resource) in requests {
            let action = Action::Status {
                code: 429,
                when: When::Before,
            };
            let mut fault = fault(verb, resource, action);
            fault.matcher.cluster = Some(cluster.to_string());
            faults.add(fault);
        }
        assert!(reader.ask(&bindings, None).await.is_err());
        assert!(reader.end(&end).await.is_err());
        assert_eq!(faults.struck(), [1, 1]);
        // Each workspace is bound to what kcp itself exports.
        assert_eq!(reader.ask(&other, None).await, Ok(BindingState::Bound));
        assert_eq!(reader.end(&other).await, Ok(BindingState::Unbinding));
    }

    #[test]
    fn a_binding_that_was_refused_does_not_count_beside_one_in_deletion() {
        let ready = json!({"status": {"conditions": [{"type": "Ready", "status": "True"}]}});
        let refused = json!({"status": {"conditions": [{"type": "Ready", "status": "False"}]}});
        let mut leaves = ready.clone();
        leaves["metadata"]["deletionTimestamp"] = "now".into();
        let bind = |bindings: &[&Value]| {
            let bindings: Vec<_> = bindings.iter().map(|one| BindingPhase::of(one)).collect();
            super::bind(&bindings)
        };
        assert!(!bind(&[]) && !bind(&[&leaves]));
        assert!(!bind(&[&leaves, &refused]) && !bind(&[&refused, &leaves]));
        assert!(bind(&[&leaves, &ready]) && bind(&[&ready]) && bind(&[&refused]));
    }

    #[tokio::test(start_paused = true)]
    async fn an_answer_serves_deletions_that_are_older_than_it_for_a_moment() {
        let seen = Instant::now();
        let bound = CachedBindings {
            asked: seen,
            version: 10,
        };
        tokio::time::advance(FRESH / 2).await;
        let later = Instant::now();
        assert!(bound.is_after(seen, None));
        assert!(!bound.is_after(later, None));
        assert!(bound.is_after(later, Some(10)));
        assert!(!bound.is_after(later, Some(11)));
        tokio::time::advance(FRESH).await;
        assert!(!bound.is_after(Instant::now(), Some(10)));
    }
}
