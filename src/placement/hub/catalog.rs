//! The kinds that the hub serves, by aggregated discovery.

use std::collections::{HashMap, HashSet};

use serde::Deserialize;
use serde_json::Value;

use hawser_placement::admission::KindScope;
use hawser_runtime::cluster::connection::{Call, Connection, RequestError};
use kube_lang::object::Gvk;

/// `Accept` for all groups in one document, which servers have since Kubernetes 1.30.
const AGGREGATED: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";

/// The reason why the kinds are not known.
#[derive(Debug, thiserror::Error)]
pub enum CatalogError {
    #[error("discovering the kinds of the hub at {0}")]
    Ask(&'static str, #[source] Box<RequestError>),
    #[error(
        "the hub does not serve aggregated discovery at {0}: it needs Kubernetes 1.30 or later"
    )]
    Unreadable(&'static str, #[source] serde_json::Error),
}

/// A kind in a version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CatalogKind {
    pub resource: String,
    pub namespaced: bool,
    /// Whether it can be listed and watched.
    pub is_watchable: bool,
    /// Whether this is the version that the server prefers among those that have the kind.
    pub is_preferred: bool,
}

/// All kinds that a server serves.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Catalog {
    kinds: HashMap<Gvk, CatalogKind>,
    /// Groups and versions of aggregated servers that do not answer, so that their kinds are not known.
    unknown: HashSet<(String, String)>,
}

#[derive(Deserialize)]
struct Groups {
    items: Vec<DiscoveredGroup>,
}

#[derive(Deserialize)]
struct DiscoveredGroup {
    metadata: GroupName,
    #[serde(default)]
    versions: Vec<DiscoveredVersion>,
}

#[derive(Default, Deserialize)]
struct GroupName {
    /// The core group has none.
    #[serde(default)]
    name: String,
}

#[derive(Deserialize)]
struct DiscoveredVersion {
    version: String,
    /// `Stale` if the server that serves the version did not answer the aggregator.
    #[serde(default)]
    freshness: String,
    #[serde(default)]
    resources: Vec<DiscoveredResource>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct DiscoveredResource {
    resource: String,
    #[serde(default)]
    response_kind: Option<ResponseKind>,
    scope: String,
    #[serde(default)]
    verbs: Vec<String>,
}

#[derive(Deserialize)]
struct ResponseKind {
    kind: String,
}

impl Catalog {
    /// Asks the server.
    pub async fn read(hub: &Connection) -> Result<Self, CatalogError> {
        let ask = async |path: &'static str| {
            let call = Call::get(path).accept(AGGREGATED);
            let answer = hub.ask(call).await;
            answer.map_err(|error| CatalogError::Ask(path, Box::new(error)))
        };
        let (core, groups) = tokio::try_join!(ask("/api"), ask("/apis"))?;
        let mut catalog = Self::default();
        catalog.add("/api", core)?;
        catalog.add("/apis", groups)?;
        Ok(catalog)
    }

    fn add(&mut self, path: &'static str, document: Value) -> Result<(), CatalogError> {
        let groups: Groups = serde_json::from_value(document)
            .map_err(|error| CatalogError::Unreadable(path, error))?;
        for group in groups.items {
            let mut known = HashSet::new();
            for version in group.versions {
                if version.freshness == "Stale" {
                    let unknown = (group.metadata.name.clone(), version.version.clone());
                    self.unknown.insert(unknown);
                }
                for found in version.resources {
                    let Some(kind) = found.response_kind else {
                        continue;
                    };
                    let is = |verb: &str| found.verbs.iter().any(|one| one == verb);
                    let of = CatalogKind {
                        namespaced: found.scope == "Namespaced",
                        is_watchable: is("list") && is("watch"),
                        is_preferred: known.insert(kind.kind.clone()),
                        resource: found.resource,
                    };
                    let kind = Gvk::new(&group.metadata.name, &version.version, &kind.kind);
                    self.kinds.entry(kind).or_insert(of);
                }
            }
        }
        Ok(())
    }

    /// Keeps the known kinds of versions whose servers do not answer.
    pub fn keep_unknown(&mut self, before: &Self) {
        let all = self.kinds.keys().chain(before.kinds.keys());
        let known: HashSet<(String, String)> = all
            .map(|kind| (kind.group.clone(), kind.version.clone()))
            .collect();
        for (kind, of) in &before.kinds {
            let version = (kind.group.clone(), kind.version.clone());
            if self.unknown.contains(&version) {
                self.kinds.entry(kind.clone()).or_insert_with(|| of.clone());
            }
        }
        self.unknown.retain(|version| !known.contains(version));
    }

    /// Whether the kinds of all versions are known.
    pub fn knows_all(&self) -> bool {
        self.unknown.is_empty()
    }

    /// Whether the kinds of this version are not known.
    pub fn is_unknown(&self, kind: &Gvk) -> bool {
        let mut unknown = self.unknown.iter();
        unknown.any(|(group, version)| *group == *kind.group && *version == *kind.version)
    }

    pub fn get(&self, kind: &Gvk) -> Option<&CatalogKind> {
        self.kinds.get(kind)
    }

    pub fn scope(&self, kind: &Gvk) -> KindScope {
        match self.get(kind) {
            None => KindScope::Unknown,
            Some(of) if of.namespaced => KindScope::Namespaced,
            Some(_) => KindScope::Cluster,
        }
    }

    /// The namespaced kinds that can be listed and watched, in their preferred versions.
    pub fn namespaced(&self) -> impl Iterator<Item = &Gvk> {
        let kinds = self.kinds.iter();
        kinds.filter_map(|(kind, of)| {
            (of.namespaced && of.is_watchable && of.is_preferred).then_some(kind)
        })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_kind_counts_in_the_version_that_the_server_prefers() {
        let resource = |kind: &str, scope: &str, verbs: &[&str]| {
            json!({"resource": kind.to_lowercase() + "s", "scope": scope, "verbs": verbs,
                   "responseKind": {"group": "g", "version": "v", "kind": kind}})
        };
        let both = ["get", "list", "watch"];
        let document = json!({"kind": "APIGroupDiscoveryList", "items": [{
            "metadata": {"name": "g"},
            "versions": [
                {"version": "v2", "resources": [
                    resource("Thing", "Namespaced", &both), resource("Review", "Namespaced", &["create"]),
                    resource("Wide", "Cluster", &both)]},
                {"version": "v1", "resources": [
                    resource("Thing", "Namespaced", &both), resource("Old", "Namespaced", &both)]},
            ],
        }]});
        let mut catalog = Catalog::default();
        catalog.add("/apis", document).unwrap();
        let mut namespaced: Vec<String> = catalog
            .namespaced()
            .map(|kind| format!("{} {}", kind.version, kind.kind))
            .collect();
        namespaced.sort();
        assert_eq!(namespaced, ["v1 Old", "v2 Thing"]);
        assert_eq!(
            catalog.scope(&Gvk::new("g", "v2", "Wide")),
            KindScope::Cluster
        );
        assert_eq!(
            catalog.scope(&Gvk::new("g", "v1", "Thing")),
            KindScope::Namespaced
        );
        assert_eq!(
            catalog.scope(&Gvk::new("g", "v1", "Wide")),
            KindScope::Unknown
        );
    }

    #[test]
    fn kinds_of_an_aggregated_server_that_does_not_answer_stay_known() {
        let catalog = |freshness: &str, resources: Value| {
            let version = json!({"version": "v1", "freshness": freshness, "resources": resources});
            let document =
                json!({"items": [{"metadata": {"name": "flown.in"}, "versions": [version]}]});
            let mut catalog = Catalog::default();
            catalog.add("/apis", document).unwrap();
            catalog
        };
        let things = json!([{"resource": "things", "scope": "Namespaced", "verbs": ["list", "watch"],
            "responseKind": {"kind": "Thing"}}]);
        let thing = Gvk::new("flown.in", "v1", "Thing");
        let known = catalog("Current", things);
        let mut stale = catalog("Stale", json!([]));
        assert!(stale.is_unknown(&thing), "nothing is known of it yet");
        stale.keep_unknown(&known);
        assert_eq!(stale, known);
        assert!(!stale.is_unknown(&thing));
        // A version that is served no longer is gone.
        let mut gone = catalog("Current", json!([]));
        gone.keep_unknown(&known);
        assert_eq!(gone.get(&thing), None);
    }

    #[test]
    fn a_server_without_aggregated_discovery_is_told_apart() {
        let old = json!({"kind": "APIGroupList", "groups": []});
        assert!(matches!(
            Catalog::default().add("/apis", old),
            Err(CatalogError::Unreadable("/apis", _))
        ));
    }
}
