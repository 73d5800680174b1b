//! What related objects depend on beside the rules of the published one: types, claims, and how long objects rest.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value;

use super::entry::TypeName;
use super::ledger::ClaimIndex;
use crate::publish::types::Origin;
use hawser_sync::Key;
use kube_lang::object::{Gvk, Object};

/// A type, as the side that serves it describes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RelatedKind {
    pub kind: Arc<Gvk>,
    pub namespaced: bool,
    /// Whether it has a status subresource.
    pub status: bool,
}

/// Types by the side that serves them and by name. Secrets and `ConfigMap`s need no discovery.
#[derive(Clone, Debug)]
pub struct Kinds(BTreeMap<(Origin, TypeName), RelatedKind>);

impl Default for Kinds {
    fn default() -> Self {
        let mut kinds = Self(BTreeMap::new());
        for (resource, kind) in [("secrets", "Secret"), ("configmaps", "ConfigMap")] {
            for side in [Origin::Kcp, Origin::Service] {
                let name = TypeName {
                    group: String::new(),
                    version: "v1".to_owned(),
                    resource: resource.to_owned(),
                };
                let kind = RelatedKind {
                    kind: Arc::new(Gvk::new("", "v1", kind)),
                    namespaced: true,
                    status: false,
                };
                kinds.learn(side, name, kind);
            }
        }
        kinds
    }
}

impl Kinds {
    pub fn learn(&mut self, side: Origin, name: TypeName, kind: RelatedKind) {
        self.0.insert((side, name), kind);
    }

    pub fn get(&self, side: Origin, name: &TypeName) -> Option<&RelatedKind> {
        self.0.get(&(side, name.clone()))
    }
}

/// A kind of the service cluster whose objects may be copies, each of a workspace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PublishedKind {
    pub group: String,
    pub kind: String,
    /// The kind of the watch on its copies, and whether they are namespaced; `None` without a watch.
    pub watched: Option<(Arc<Gvk>, bool)>,
}

impl PublishedKind {
    /// Whether an owner reference names an object of this kind, in any version.
    pub(super) fn is_named_by(&self, owner: &Value) -> bool {
        let group = owner["apiVersion"].as_str().unwrap_or_default();
        let group = group.split_once('/').map_or("", |(group, _)| group);
        self.group == group && owner["kind"].as_str() == Some(&*self.kind)
    }
}

/// Whether a while has passed since something happened to an object.
pub trait Quiet: Send + Sync {
    /// Since it was changed.
    fn is_quiet(&self, key: &Key, object: &Object) -> bool;

    /// Since it was created, however often it changes.
    fn is_settled(&self, key: &Key, object: &Object) -> bool;
}

/// Every object counts as unchanged.
pub struct AlwaysQuiet;

impl Quiet for AlwaysQuiet {
    fn is_quiet(&self, _key: &Key, _object: &Object) -> bool {
        true
    }

    fn is_settled(&self, _key: &Key, _object: &Object) -> bool {
        true
    }
}

/// The inputs of related objects beside the rules of the published one.
#[derive(Clone, Copy)]
pub struct RelatedContext<'a> {
    pub kinds: &'a Kinds,
    pub ledger: &'a ClaimIndex,
    /// All kinds that the agent publishes.
    pub published: &'a [PublishedKind],
    pub quiet: &'a dyn Quiet,
}
