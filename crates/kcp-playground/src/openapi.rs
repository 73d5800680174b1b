//! The OpenAPI documents of a scope: v3 with a document for each group version, and v2 in one document.
//!
//! A document is built on request, and cached under the digest of its inputs, so that catalogs with the same resources
//! share it. This module knows catalogs and schemas; it does not know HTTP.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::fmt::Write as _;
use std::sync::Arc;

use bytes::Bytes;
use parking_lot::Mutex;
use serde_json::{Map, Value, json};
use sha2::{Digest as _, Sha256};

pub(crate) mod builtin;
mod custom;
mod lists;
mod paths;
pub(super) mod protobuf;
mod v2;

use super::catalog::{Catalog, Flavour, Resource, Version};
use super::status::Status;
use builtin::{referred, types};
use paths::Described;

/// The number of cached documents; workspaces with the same APIs share theirs.
const KEPT: usize = 64;
/// The size of the cache, in bytes.
const KEPT_SIZE: usize = 64 << 20;

/// A document with its digest.
pub(super) struct Document {
    pub(super) body: Bytes,
    /// Changes with the content.
    pub(super) digest: String,
}

/// A requested document.
pub(super) struct Wanted {
    what: What,
    digest: String,
}

enum What {
    /// The path of a group version.
    Version(String),
    All,
    AllInProtobuf,
}

impl What {
    fn of(&self, catalog: &Catalog) -> Vec<u8> {
        match self {
            Self::All => swagger(catalog).to_string().into(),
            Self::AllInProtobuf => protobuf::document(&swagger(catalog)),
            Self::Version(path) => {
                let mut all = versions(catalog);
                let found = all.find(|(group, version)| path_of(group, &version.name) == *path);
                let document = found.map(|(group, version)| v3(group, version));
                document.unwrap_or_default().to_string().into()
            }
        }
    }
}

/// The cache of documents.
#[derive(Default)]
pub(super) struct Documents {
    kept: Arc<Mutex<Kept>>,
    turn: Arc<tokio::sync::Mutex<()>>,
}

/// Documents by digest, and the order in which they were built.
#[derive(Default)]
struct Kept {
    by_digest: HashMap<String, Arc<Document>>,
    order: VecDeque<String>,
    size: usize,
}

impl Kept {
    fn get(&self, digest: &str) -> Option<Arc<Document>> {
        self.by_digest.get(digest).cloned()
    }

    /// Caches a document and drops the oldest ones; the newest one stays, however large it is.
    fn put(&mut self, document: Arc<Document>) {
        self.size += document.body.len();
        self.order.push_back(document.digest.clone());
        self.by_digest.insert(document.digest.clone(), document);
        while self.order.len() > KEPT || (self.size > KEPT_SIZE && self.order.len() > 1) {
            let oldest = self.order.pop_front();
            if let Some(gone) = oldest.and_then(|oldest| self.by_digest.remove(&oldest)) {
                self.size -= gone.body.len();
            }
        }
    }
}

impl Documents {
    /// The index of documents: the answer to `/openapi/v3`.
    pub(super) fn index(catalog: &Catalog) -> Value {
        let mut paths = Map::new();
        for (group, version) in versions(catalog) {
            let path = path_of(group, &version.name);
            let url = format!(
                "/openapi/v3/{path}?hash={}",
                digest("v3", [(group, version)])
            );
            paths.insert(path, json!({"serverRelativeURL": url}));
        }
        json!({"paths": paths})
    }

    /// The document of a path in the index.
    pub(super) fn of_version(catalog: &Catalog, path: &str) -> Option<Wanted> {
        let (group, version) =
            versions(catalog).find(|(group, version)| path_of(group, &version.name) == path)?;
        Some(Wanted {
            what: What::Version(path.to_owned()),
            digest: digest("v3", [(group, version)]),
        })
    }

    /// All resources in one document, for clients of v2.
    pub(super) fn of_all(catalog: &Catalog) -> Wanted {
        Wanted {
            what: What::All,
            digest: digest("v2", versions(catalog)),
        }
    }

    /// The v2 document in protobuf.
    pub(super) fn of_all_in_protobuf(catalog: &Catalog) -> Wanted {
        Wanted {
            what: What::AllInProtobuf,
            digest: digest("v2 in protobuf", versions(catalog)),
        }
    }

    /// A cached document.
    pub(super) fn known(&self, wanted: &Wanted) -> Option<Arc<Document>> {
        self.kept.lock().get(&wanted.digest)
    }

    /// Builds a document outside of the serving threads, one at a time. Concurrent requests for one document share it,
    /// and the memory use is bounded.
    pub(super) async fn make(
        &self,
        catalog: &Arc<Catalog>,
        wanted: Wanted,
    ) -> Result<Arc<Document>, Status> {
        let turn = Arc::clone(&self.turn).lock_owned().await;
        if let Some(document) = self.known(&wanted) {
            return Ok(document);
        }
        let (catalog, kept) = (Arc::clone(catalog), Arc::clone(&self.kept));
        let made = tokio::task::spawn_blocking(move || {
            let document = Arc::new(Document {
                body: wanted.what.of(&catalog).into(),
                digest: wanted.digest,
            });
            kept.lock().put(Arc::clone(&document));
            // The turn ends when the document is built, even if nobody waits for it any more.
            drop(turn);
            document
        });
        made.await.map_err(Status::internal)
    }
}

fn versions(catalog: &Catalog) -> impl Iterator<Item = (&str, &Version)> {
    let groups = catalog.groups();
    groups.flat_map(|(group, versions)| versions.iter().map(move |version| (&**group, version)))
}

/// `api/v1`, `apis/<group>/<version>`
fn path_of(group: &str, version: &str) -> String {
    if group.is_empty() {
        format!("api/{version}")
    } else {
        format!("apis/{group}/{version}")
    }
}

/// A digest of all inputs of a document.
fn digest<'a>(form: &str, versions: impl IntoIterator<Item = (&'a str, &'a Version)>) -> String {
    let mut hasher = Sha256::new();
    let mut part = |text: &str| {
        hasher.update(text);
        hasher.update([0]);
    };
    part(form);
    for (group, version) in versions {
        part(group);
        part(&version.name);
        for resource in &version.resources {
            for name in [&resource.plural, &resource.kind, &resource.list_kind] {
                part(name);
            }
            part(&format!(
                "{} {} {:?} {:?}",
                resource.namespaced, resource.has_status, resource.verbs, resource.flavour
            ));
            for path in &resource.selectable_fields {
                part(path);
            }
            let stamp = resource.schema.as_ref().map_or(0, |schema| schema.stamp());
            part(&stamp.to_string());
        }
    }
    let mut text = String::new();
    for byte in hasher.finalize() {
        // Writing to a string cannot fail.
        let _ = write!(text, "{byte:02X}");
    }
    text
}

/// The definitions of a resource by name, without the shared ones.
struct Defined<'a> {
    described: Described<'a>,
    own: Vec<(String, Value)>,
}

fn define(resource: &Resource) -> Defined<'_> {
    let (kind_name, kind) = definition(resource);
    let prefix = kind_name.strip_suffix(&*resource.kind).unwrap_or_default();
    let list_name = format!("{prefix}{}", resource.list_kind);
    let list = resource
        .verbs
        .allow("list")
        .then(|| (list_name.clone(), custom::list(resource, &kind_name)));
    let own = [(kind_name.clone(), kind)].into_iter().chain(list);
    Defined {
        described: Described {
            resource,
            kind: kind_name,
            list: list_name,
        },
        own: own.collect(),
    }
}

/// The definition of a kind, and its name.
fn definition(resource: &Resource) -> (String, Value) {
    let types = types();
    let known = (resource.flavour != Flavour::Custom)
        .then(|| types.name_of(&resource.group, &resource.version, &resource.kind))
        .flatten();
    if let Some(name) = known
        && let Some(definition) = types.published(name)
    {
        return (name.to_owned(), definition);
    }
    let schema = resource
        .schema
        .as_ref()
        .and_then(|schema| schema.document());
    (friendly_name(resource), custom::kind(resource, schema))
}

/// `com.example.v1.Tree`
fn friendly_name(resource: &Resource) -> String {
    let mut parts: Vec<&str> = resource
        .group
        .split('.')
        .filter(|part| !part.is_empty())
        .collect();
    parts.reverse();
    parts.extend([&*resource.version, &*resource.kind]);
    parts.join(".")
}

/// The definitions that some definitions refer to, directly or not, with these themselves.
pub(super) fn closure<'a, 'n>(
    from: impl IntoIterator<Item = &'n str>,
    get: impl Fn(&str) -> Option<Cow<'a, Value>>,
) -> BTreeSet<String> {
    fn references(value: &Value, found: &mut Vec<String>) {
        match value {
            Value::Object(map) => {
                found.extend(referred(value).map(str::to_owned));
                map.values().for_each(|value| references(value, found));
            }
            Value::Array(list) => list.iter().for_each(|value| references(value, found)),
            _ => {}
        }
    }
    let mut open: Vec<String> = from.into_iter().map(str::to_owned).collect();
    let mut seen = BTreeSet::new();
    while let Some(name) = open.pop() {
        if let Some(definition) = get(&name)
            && !seen.contains(&name)
        {
            references(&definition, &mut open);
        }
        seen.insert(name);
    }
    seen
}

/// All definitions that resources need, by name, and the names of those from custom resources.
fn definitions(all: &[Defined<'_>]) -> BTreeMap<String, (Value, v2::SchemaOrigin)> {
    let mut own = BTreeMap::new();
    for defined in all {
        let origin = match defined.described.resource.flavour {
            Flavour::Custom => v2::SchemaOrigin::Custom,
            Flavour::BuiltIn | Flavour::BuiltInWithGeneration => v2::SchemaOrigin::BuiltIn,
        };
        for (name, definition) in &defined.own {
            own.insert(name.clone(), (definition.clone(), origin));
        }
    }
    let shared = [builtin::STATUS, builtin::DELETE_OPTIONS, builtin::PATCH];
    let from: Vec<&str> = own.keys().map(String::as_str).chain(shared).collect();
    let reached = closure(from, |name| {
        let own = own.get(name).map(|(own, _)| Cow::Borrowed(own));
        own.or_else(|| types().get(name).map(Cow::Owned))
    });
    for name in reached {
        if let Some(definition) = types().published(&name) {
            own.entry(name)
                .or_insert((definition, v2::SchemaOrigin::BuiltIn));
        }
    }
    own
}

fn defined(version: &Version) -> Vec<Defined<'_>> {
    version
        .resources
        .iter()
        .map(|resource| define(resource))
        .collect()
}

/// The v3 document of a group version.
fn v3(group: &str, version: &Version) -> Value {
    let all = defined(version);
    let paths: Map<String, Value> = all.iter().flat_map(|d| d.described.paths()).collect();
    let schemas: Map<String, Value> = definitions(&all)
        .into_iter()
        .map(|(name, (mut definition, _))| {
            enclose(&mut definition);
            (name, definition)
        })
        .collect();
    json!({
        "openapi": "3.0.0",
        "info": {"title": format!("Kubernetes {}", path_of(group, &version.name)), "version": &*version.name},
        "paths": paths,
        "components": {"schemas": schemas},
    })
}

/// In v3, a reference has no fields beside it.
fn enclose(value: &mut Value) {
    match value {
        Value::Object(map) => {
            map.values_mut().for_each(enclose);
            if map.len() > 1
                && let Some(Value::String(target)) = map.get("$ref")
            {
                let target = json!([{"$ref": target}]);
                map.remove("$ref");
                map.insert("allOf".into(), target);
            }
        }
        Value::Array(list) => list.iter_mut().for_each(enclose),
        _ => {}
    }
}

fn swagger(catalog: &Catalog) -> Value {
    let all: Vec<Defined<'_>> = versions(catalog)
        .flat_map(|(_, version)| defined(version))
        .collect();
    let paths: Map<String, Value> = all
        .iter()
        .flat_map(|d| d.described.paths())
        .map(|(path, item)| (path, v2::path_item(&item)))
        .collect();
    let schemas: Map<String, Value> = definitions(&all)
        .into_iter()
        .map(|(name, (definition, origin))| (name, v2::definition(definition, origin)))
        .collect();
    json!({
        "swagger": "2.0",
        "info": {"title": "Kubernetes", "version": "v1"},
        "paths": paths,
        "definitions": schemas,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn document(digest: &str, size: usize) -> Arc<Document> {
        Arc::new(Document {
            body: vec![b' '; size].into(),
            digest: digest.to_owned(),
        })
    }

    #[test]
    fn documents_are_kept_within_bounds_and_the_newest_always() {
        let mut kept = Kept::default();
        for number in 0..1000 {
            kept.put(document(&number.to_string(), 10));
        }
        assert_eq!((kept.by_digest.len(), kept.size), (KEPT, KEPT * 10));
        assert!(kept.get("999").is_some() && kept.get("900").is_none());
        kept.put(document("large", KEPT_SIZE - 15));
        assert_eq!(kept.by_digest.len(), 2);
        kept.put(document("larger", KEPT_SIZE + 1));
        assert_eq!(kept.by_digest.len(), 1);
        assert!(kept.get("larger").is_some());
        kept.put(document("small", 1));
        assert!(kept.get("small").is_some() && kept.get("larger").is_none());
    }
}
