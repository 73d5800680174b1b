//! A plain cluster for tests: a store with its controllers, and writes as a server does them, cut
//! down to what kinds and definitions can notice.

use std::sync::Arc;

use jiff::Timestamp;
use serde_json::{Value, json};

use super::*;
use crate::builtin;
use crate::catalog::{Admission, User};
use crate::store::{Key, Store, StoreOptions};
use kube_lang::object::Object;

pub(crate) const CLUSTER: &str = "service";
pub(crate) const NOW: &str = "2026-03-01T12:00:00Z";

pub(crate) struct Cluster {
    pub(crate) store: Arc<Store>,
    pub(crate) scopes: PlainScopes,
    user: User,
}

/// `version` or `group/version`, then the plural.
#[derive(Clone, Copy)]
pub(crate) struct Api(pub(crate) &'static str, pub(crate) &'static str);

pub(crate) const CONFIG_MAPS: Api = Api("v1", "configmaps");
pub(crate) const SECRETS: Api = Api("v1", "secrets");
pub(crate) const NAMESPACES: Api = Api("v1", "namespaces");
pub(crate) const CRDS: Api = Api("apiextensions.k8s.io/v1", "customresourcedefinitions");

pub(crate) fn scope() -> Scope {
    Scope::Cluster(CLUSTER.into())
}

impl Cluster {
    pub(crate) fn new() -> Self {
        let store = Store::new(StoreOptions {
            plain_clusters: HashSet::from([CLUSTER.into()]),
            clock: || NOW.parse::<Timestamp>().unwrap(),
            ..StoreOptions::default()
        });
        for settler in builtin::settlers() {
            store.add_settler(settler);
        }
        store.add_settler(custom::settler());
        let identify: builtin::Identify = Arc::new(|token: &str| {
            (token == "good").then(|| User {
                name: "ann".into(),
                ..User::default()
            })
        });
        let scopes = PlainScopes::new([CLUSTER.into()], builtin::resources(&identify));
        store.write(|tx| scopes.bootstrap(tx)).unwrap();
        Self {
            store,
            scopes,
            user: User {
                name: "tester".into(),
                groups: vec!["devs".into()],
                ..User::default()
            },
        }
    }

    pub(crate) fn catalog(&self) -> Arc<Catalog> {
        self.store
            .read(|read| self.scopes.catalog(read, &scope()))
            .unwrap()
    }

    pub(crate) fn resource(&self, api: Api) -> Arc<Resource> {
        find(&self.catalog(), api).unwrap()
    }

    pub(crate) fn get(&self, api: Api, namespace: &str, name: &str) -> Option<Value> {
        let resource = self.resource(api);
        let key = resource.table.key(CLUSTER, namespace, name);
        let stored = self.store.read(|read| read.get(&key))?;
        let object = match &resource.conversion {
            Some(conversion) => conversion.to_served(stored.object()).unwrap(),
            None => stored.object(),
        };
        Some(object.into_value())
    }

    /// Creates, or updates what is there.
    pub(crate) fn put(&self, api: Api, object: Value) -> Result<Value, Status> {
        self.write(api, "", object)
    }

    pub(crate) fn write(&self, api: Api, sub: &str, object: Value) -> Result<Value, Status> {
        let outcome = self.store.write(|tx| {
            let catalog = self.scopes.catalog(tx, &scope())?;
            let resource = find(&catalog, api).ok_or_else(Status::no_such_path)?;
            let mut object = object;
            if let Some(schema) = &resource.schema {
                schema.prune(&mut object);
            }
            let mut object = Object::new(object).unwrap();
            if let Some(conversion) = &resource.conversion {
                object = conversion.to_storage(object)?;
            }
            let namespace = object.namespace().unwrap_or_default().to_owned();
            let key = resource.table.key(CLUSTER, &namespace, object.name());
            let old = tx.get(&key).map(|stored| stored.object());
            if old.is_none() && resource.namespaced {
                let name = object.name().to_owned();
                namespaces::check_open(tx, CLUSTER, &namespace, &resource, &name)?;
            }
            self.check(tx, &resource, sub, (old.as_ref(), &mut object))?;
            tx.put(&key, object)?;
            tx.report(&key);
            Ok(())
        })?;
        Ok(outcome
            .reported
            .map_or(json!(null), |stored| stored.object().as_value().clone()))
    }

    fn check(
        &self,
        tx: &Tx<'_>,
        resource: &Resource,
        subresource: &str,
        (old, object): (Option<&Object>, &mut Object),
    ) -> Result<(), Status> {
        let scope = scope();
        let admission = Admission {
            user: &self.user,
            scope: &scope,
            cluster: &CLUSTER.into(),
            resource,
            subresource,
            old,
        };
        let mut errors = Vec::new();
        if resource.has_status && subresource.is_empty() {
            match old.and_then(|old| old.root().get("status")) {
                Some(status) => object.root_mut().insert("status".into(), status.clone()),
                None => object.root_mut().remove("status"),
            };
        }
        if let Some(strategy) = &resource.strategy {
            strategy.prepare(tx, &admission, object)?;
            errors.extend(strategy.validate(&admission, object));
        }
        // What has been converted is no longer in the version of this schema.
        let schema = resource.schema.as_ref();
        if let Some(schema) = schema.filter(|_| resource.conversion.is_none()) {
            let mut value = object.clone().into_value();
            schema.default(&mut value);
            errors.extend(schema.validate(&value, None));
            *object = Object::new(value).unwrap();
        }
        if errors.is_empty() {
            Ok(())
        } else {
            let (group, kind) = (&resource.group, &resource.kind);
            Err(Status::invalid(group, kind, object.name(), &errors))
        }
    }

    /// What a create-only resource answers.
    pub(crate) fn ask(&self, api: Api, object: Value) -> Result<Value, Status> {
        let resource = self.resource(api);
        let mut object = Object::new(object).unwrap();
        let scope = scope();
        self.store
            .dry_run(|tx| self.check(tx, &resource, "", (None, &mut object)))?;
        let admission = Admission {
            user: &self.user,
            scope: &scope,
            cluster: &CLUSTER.into(),
            resource: &resource,
            subresource: "",
            old: None,
        };
        let strategy = resource.strategy.as_ref().unwrap();
        Ok(strategy.answer(&admission, &object).unwrap().into_value())
    }

    pub(crate) fn delete(&self, api: Api, namespace: &str, name: &str) -> Result<(), Status> {
        let resource = self.resource(api);
        let key = resource.table.key(CLUSTER, namespace, name);
        let scope = scope();
        self.store.write(|tx| {
            let old = tx.get(&key).unwrap().object();
            let admission = Admission {
                user: &self.user,
                scope: &scope,
                cluster: key.cluster(),
                resource: &resource,
                subresource: "",
                old: Some(&old),
            };
            if let Some(strategy) = &resource.strategy {
                strategy.before_delete(tx, &admission, &old)?;
            }
            delete(tx, &key)
        })?;
        Ok(())
    }

    /// Takes the finalizers from an object, and the object with them if it is being deleted.
    pub(crate) fn release(&self, api: Api, namespace: &str, name: &str) {
        let key = self.resource(api).table.key(CLUSTER, namespace, name);
        self.store
            .write(|tx| {
                let mut object = tx.get(&key).unwrap().object();
                object.metadata_mut().remove("finalizers");
                if object.in_deletion() {
                    tx.remove(&key);
                    return Ok(());
                }
                tx.put(&key, object)
            })
            .unwrap();
    }
}

/// What a strategy has marked stays marked; else finalizers decide.
fn delete(tx: &mut Tx<'_>, key: &Key) -> Result<(), Status> {
    let mut object = tx.get(key).unwrap().object();
    if object.in_deletion() {
        return Ok(());
    }
    if object.finalizers().next().is_none() {
        tx.remove(key);
        return Ok(());
    }
    object
        .metadata_mut()
        .insert("deletionTimestamp".into(), NOW.into());
    tx.put(key, object)
}

fn find(catalog: &Catalog, Api(version, plural): Api) -> Option<Arc<Resource>> {
    let (group, version) = version.split_once('/').unwrap_or(("", version));
    catalog.find(group, version, plural).cloned()
}
