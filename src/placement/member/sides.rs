//! The hub and the member: connections, kinds, keys, paths.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use jiff::Timestamp;
use parking_lot::RwLock;
use serde_json::Value;
use tokio::time::timeout;

use hawser_placement::apply::MANAGER;
use hawser_placement::names;
use hawser_placement::types::work::WorkResourceIdentifier;
use hawser_placement::types::{CLUSTER_GROUP, PLACEMENT_GROUP, STORED_VERSION};
use hawser_runtime::cluster::cache::{Cache, Coverage};
use hawser_runtime::cluster::connection::{Call, CallClass, Connection, RequestError};
use hawser_runtime::cluster::discovery::{Discovery, DiscoveryError, Kind};
use hawser_runtime::cluster::feed::{Clusters, Content, Selection};
use hawser_runtime::cluster::wire::{APPLY_PATCH, Endpoint, Router, collection, segment};
use hawser_runtime::controller::WatchSpec;
use hawser_sync::{Key, Scope, Side};
use kube_lang::object::Gvk;

/// The timeout of the readiness probe of the API server.
const PROBE: Duration = Duration::from_secs(10);
/// The maximum number of names in one request.
const NAMES: usize = 500;
/// `Accept` for the metadata of a list alone.
const METADATA: &str = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1";

static HUB: LazyLock<Side> = LazyLock::new(|| Side::new("hub"));
static MEMBER: LazyLock<Side> = LazyLock::new(|| Side::new("member"));

pub static WORK: LazyLock<Arc<Gvk>> = LazyLock::new(|| fleet(PLACEMENT_GROUP, "Work"));
pub static APPLIED_WORK: LazyLock<Arc<Gvk>> =
    LazyLock::new(|| fleet(PLACEMENT_GROUP, "AppliedWork"));
static INTERNAL: LazyLock<Arc<Gvk>> =
    LazyLock::new(|| fleet(CLUSTER_GROUP, "InternalMemberCluster"));

fn fleet(group: &str, kind: &str) -> Arc<Gvk> {
    Gvk::new(group, STORED_VERSION, kind).into()
}

/// The connection to a member.
#[derive(Clone)]
pub struct MemberAccess {
    pub connection: Connection,
    /// Its certificate authorities as base64 of PEM, if they are given.
    pub authority: Option<String>,
}

impl MemberAccess {
    pub fn new(connection: Connection, config: &kube::Config) -> Self {
        let given = config.root_cert.as_ref().filter(|all| !all.is_empty());
        let authority = given.map(|all| {
            let all: Vec<String> = all.iter().map(|der| pem(der)).collect();
            STANDARD.encode(all.concat())
        });
        Self {
            connection,
            authority,
        }
    }
}

fn pem(der: &[u8]) -> String {
    let text = STANDARD.encode(der);
    let lines = text.as_bytes().chunks(64).map(String::from_utf8_lossy);
    let lines = lines.collect::<Vec<_>>().join("\n");
    format!("-----BEGIN CERTIFICATE-----\n{lines}\n-----END CERTIFICATE-----\n")
}

/// The connections to the hub and the member.
pub struct MemberSides {
    /// The name of the member.
    pub name: String,
    /// The namespace of the member on the hub.
    namespace: Arc<str>,
    pub hub: Connection,
    pub access: MemberAccess,
    pub discovery: Discovery,
    /// The resources of kinds that are placed.
    resources: RwLock<HashMap<Arc<Gvk>, Arc<str>>>,
}

impl MemberSides {
    pub fn new(name: &str, hub: Connection, access: MemberAccess) -> Arc<Self> {
        Arc::new(Self {
            name: name.to_owned(),
            namespace: names::member_namespace(name).into(),
            hub,
            discovery: Discovery::new(access.connection.clone()),
            access,
            resources: RwLock::default(),
        })
    }

    /// A cache for the objects of both.
    pub fn cache() -> Arc<Cache> {
        let cache = Cache::new();
        for side in [&*HUB, &*MEMBER] {
            cache.route(side, "", &side.0);
        }
        cache
    }

    pub fn is_hub(side: &Side) -> bool {
        *side == *HUB
    }

    pub fn work(&self, name: &str) -> Key {
        Scope::new(&HUB, &WORK, "").key(Some(&self.namespace), name)
    }

    /// The object by which the hub and the member talk about membership.
    pub fn internal(&self) -> Key {
        Scope::new(&HUB, &INTERNAL, "").key(Some(&self.namespace), &self.name)
    }

    pub fn applied_work(name: &str) -> Key {
        Scope::new(&MEMBER, &APPLIED_WORK, "").key(None, name)
    }

    /// The place of a manifest's object, and its resource. `None` if the member does not serve the kind.
    pub async fn place(
        &self,
        identifier: &WorkResourceIdentifier,
    ) -> Result<Option<(Key, Arc<str>)>, DiscoveryError> {
        let (group, kind) = (&identifier.group, &identifier.kind);
        let Some(found) = self.discovery.kind(group, kind).await? else {
            return Ok(None);
        };
        let mut versions = found.versions.iter();
        if !versions.any(|version| version.name == identifier.version) {
            return Ok(None);
        }
        Ok(Some(self.place_in(identifier, &identifier.version, &found)))
    }

    /// The place of an object that may exist, by its version or another one that is served. `None` if the member does
    /// not serve the kind.
    pub async fn find(
        &self,
        identifier: &WorkResourceIdentifier,
    ) -> Result<Option<Key>, DiscoveryError> {
        let (group, kind) = (&identifier.group, &identifier.kind);
        let Some(found) = self.discovery.kind(group, kind).await? else {
            return Ok(None);
        };
        let mut versions = found.versions.iter().map(|version| &version.name);
        let first = versions.clone().next();
        let same = versions.find(|version| **version == identifier.version);
        let place = |version: &String| self.place_in(identifier, version, &found).0;
        Ok(same.or(first).map(place))
    }

    fn place_in(
        &self,
        identifier: &WorkResourceIdentifier,
        version: &str,
        found: &Kind,
    ) -> (Key, Arc<str>) {
        let gvk = Arc::new(Gvk::new(&identifier.group, version, &identifier.kind));
        let resource: Arc<str> = found.plural.as_str().into();
        let namespace = found.namespaced.then_some(&*identifier.namespace);
        let key = Scope::new(&MEMBER, &gvk, "").key(namespace, &identifier.name);
        let mut resources = self.resources.write();
        resources.insert(gvk, Arc::clone(&resource));
        (key, resource)
    }

    /// An object in the member with all its fields. A missing one is null.
    pub async fn whole(&self, key: &Key) -> Result<Value, RequestError> {
        let Some(resource) = self.resource(&key.kind) else {
            return Ok(Value::Null);
        };
        let all = collection(&key.kind, key.namespace.as_deref(), &resource);
        match self
            .access
            .connection
            .ask(Call::get(format!("{all}/{}", segment(&key.name))))
            .await
        {
            Err(error) if error.code() == Some(404) => Ok(Value::Null),
            found => found,
        }
    }

    /// The result of a server-side apply of an object, as a dry run.
    pub async fn rehearse(&self, key: &Key, body: &Value) -> Result<Value, RequestError> {
        let resource = self.resource(&key.kind).unwrap_or_default();
        let all = collection(&key.kind, key.namespace.as_deref(), &resource);
        let name = segment(&key.name);
        let path = format!("{all}/{name}?fieldManager={MANAGER}&force=true");
        let call = Call {
            content_type: APPLY_PATCH,
            ..Call::merge_patch(path, body).class(CallClass::DryRun)
        };
        self.access.connection.ask(call).await
    }

    /// The names of the objects beside this one: of its kind, in its namespace. `None` if they are many, or not known.
    pub async fn names(&self, key: &Key) -> Option<HashSet<String>> {
        let resource = self.resource(&key.kind)?;
        let all = collection(&key.kind, key.namespace.as_deref(), &resource);
        let call = Call::get(format!("{all}?limit={NAMES}")).accept(METADATA);
        let found = self.access.connection.ask(call).await.ok()?;
        names_in(&found)
    }

    /// Whether the API server of the member is ready.
    pub async fn is_ready(&self) -> bool {
        let probe = timeout(PROBE, self.access.connection.call(Call::get("/readyz"))).await;
        matches!(probe, Ok(Ok(reply)) if reply.is_success())
    }

    /// The watches on the hub: only of this member's namespace.
    pub fn hub_watches(&self) -> [WatchSpec; 2] {
        let spec = |kind, resource| self.watch(&HUB, kind, resource, Some(&self.namespace));
        [
            spec(&WORK, "works"),
            spec(&INTERNAL, "internalmemberclusters"),
        ]
    }

    /// All objects of a kind in the member.
    pub fn member_watch(&self, kind: &Arc<Gvk>) -> Option<WatchSpec> {
        let resource = self.resource(kind)?;
        Some(self.watch(&MEMBER, kind, &resource, None))
    }

    fn watch(
        &self,
        side: &Side,
        kind: &Arc<Gvk>,
        resource: &str,
        namespace: Option<&Arc<str>>,
    ) -> WatchSpec {
        WatchSpec {
            side: side.clone(),
            kind: Arc::clone(kind),
            source: Arc::clone(&side.0),
            coverage: Coverage {
                namespace: namespace.cloned(),
                ..Coverage::default()
            },
            selection: Selection {
                connection: self.connection(side).clone(),
                resource: resource.into(),
                namespace: namespace.cloned(),
                query: None,
                clusters: Clusters::One("".into()),
                content: Content::Whole,
            },
        }
    }

    fn connection(&self, side: &Side) -> &Connection {
        if Self::is_hub(side) {
            &self.hub
        } else {
            &self.access.connection
        }
    }

    fn resource(&self, kind: &Arc<Gvk>) -> Option<Arc<str>> {
        if *kind == *WORK {
            Some("works".into())
        } else if *kind == *APPLIED_WORK {
            Some("appliedworks".into())
        } else if *kind == *INTERNAL {
            Some("internalmemberclusters".into())
        } else {
            self.resources.read().get(kind).cloned()
        }
    }
}

impl Router for MemberSides {
    fn endpoint(&self, scope: &Scope) -> Option<Endpoint> {
        Some(Endpoint {
            connection: self.connection(&scope.side).clone(),
            resource: self.resource(&scope.kind)?,
        })
    }
}

/// The time in the format of conditions.
pub fn now() -> String {
    let now = Timestamp::now();
    Timestamp::from_second(now.as_second())
        .unwrap_or(now)
        .to_string()
}

/// The names in a list; `None` if it is not whole. A list without objects has null in the place of its items.
fn names_in(list: &Value) -> Option<HashSet<String>> {
    let rest = list["metadata"]["continue"].as_str().unwrap_or_default();
    if !rest.is_empty() {
        return None;
    }
    let items = list["items"].as_array().into_iter().flatten();
    let names = items.map(|item| item["metadata"]["name"].as_str());
    names.map(|name| name.map(str::to_owned)).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_list_of_metadata_says_which_names_there_are() {
        let names =
            |list: Value| names_in(&list).map(|names| names.into_iter().collect::<Vec<_>>());
        let item = json!({"metadata": {"name": "a"}});
        let whole = json!({"metadata": {"resourceVersion": "1"}, "items": [item]});
        assert_eq!(names(whole), Some(vec!["a".to_owned()]));
        let none = json!({"metadata": {"resourceVersion": "1"}, "items": null});
        assert_eq!(names(none), Some(vec![]));
        let first = json!({"metadata": {"continue": "c"}, "items": [item]});
        assert_eq!(names(first), None);
    }
}
