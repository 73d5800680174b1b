//! Discovery: the groups, versions and resources that are served.

use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash as _, Hasher as _};

use serde_json::{Value, json};

use crate::catalog::{Catalog, Flavour, Resource, Verbs, Version};
use crate::store::Name;

/// `/api`. The core group is listed even if it has no resources.
pub(super) fn core_versions() -> Value {
    json!({"kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": []})
}

/// `/apis`
pub(super) fn groups(catalog: &Catalog) -> Value {
    let groups: Vec<Value> = catalog
        .groups()
        .filter(|(name, _)| !name.is_empty())
        .map(|(name, versions)| describe(name, versions))
        .collect();
    json!({"kind": "APIGroupList", "apiVersion": "v1", "groups": groups})
}

/// `/apis/<group>`
pub(super) fn group(catalog: &Catalog, wanted: &str) -> Option<Value> {
    let (name, versions) = catalog
        .groups()
        .find(|(name, _)| !name.is_empty() && ***name == *wanted)?;
    let mut group = describe(name, versions);
    group["kind"] = "APIGroup".into();
    group["apiVersion"] = "v1".into();
    Some(group)
}

fn describe(group: &str, versions: &[Version]) -> Value {
    let entry = |version: &Version| {
        let name = &*version.name;
        json!({"groupVersion": format!("{group}/{name}"), "version": name})
    };
    let preferred = versions.first().map(entry);
    let versions: Vec<Value> = versions.iter().map(entry).collect();
    json!({"name": group, "versions": versions, "preferredVersion": preferred})
}

/// `/api/v1`, `/apis/<group>/<version>`
pub(super) fn resources(catalog: &Catalog, group: &str, version: &str) -> Option<Value> {
    let served = catalog.version(group, version)?;
    let mut list = Vec::new();
    for resource in &served.resources {
        list.push(whole(resource));
        let parts = parts(resource).into_iter();
        list.extend(parts.map(|(name, verbs)| part(resource, name, verbs)));
    }
    let group_version = if group.is_empty() {
        version.to_owned()
    } else {
        format!("{group}/{version}")
    };
    Some(json!({
        "kind": "APIResourceList",
        "apiVersion": "v1",
        "groupVersion": group_version,
        "resources": list,
    }))
}

/// The list of resources in the form of kcp's virtual workspaces.
pub(super) fn of_view(mut list: Value) -> Value {
    if list["groupVersion"] == "v1"
        && let Some(list) = list.as_object_mut()
    {
        list.remove("apiVersion");
    }
    let Some(resources) = list["resources"].as_array_mut() else {
        return list;
    };
    for entry in &mut *resources {
        for field in ["shortNames", "categories"] {
            entry.as_object_mut().and_then(|entry| entry.remove(field));
        }
    }
    let bindings = resources
        .iter()
        .position(|one| one["name"] == "apibindings");
    if let Some(at) = bindings {
        let status = json!({
            "name": "apibindings/status", "singularName": "", "namespaced": false,
            "kind": "APIBinding", "verbs": null,
        });
        resources.splice(at + 1..=at, [status.clone(), status]);
    }
    list
}

pub(super) fn is_namespaces(resource: &Resource) -> bool {
    resource.group.is_empty() && &*resource.plural == "namespaces"
}

/// The verbs of a resource, in the order of kube-apiserver, which differs for custom resources.
fn verbs(resource: &Resource) -> Vec<&'static str> {
    let mut verbs = resource.verbs.names().to_vec();
    if is_namespaces(resource) {
        verbs.retain(|verb| *verb != "deletecollection");
    }
    if resource.flavour == Flavour::Custom
        && let Some(update) = verbs.iter().position(|verb| *verb == "update")
        && let Some(create) = verbs.iter().position(|verb| *verb == "create")
    {
        verbs[create..update].rotate_left(1);
    }
    verbs
}

/// The subresources of a resource, and their verbs.
fn parts(resource: &Resource) -> Vec<(&'static str, &'static [&'static str])> {
    let mut parts: Vec<(_, &'static [_])> = Vec::new();
    if is_namespaces(resource) {
        parts.push(("finalize", &["update"]));
    }
    if resource.has_status {
        parts.push(("status", &["get", "patch", "update"]));
    }
    parts
}

fn whole(resource: &Resource) -> Value {
    let mut entry = json!({
        "name": &*resource.plural,
        "singularName": &*resource.singular,
        "namespaced": resource.namespaced,
        "kind": &*resource.kind,
        "verbs": verbs(resource),
    });
    other_names(resource, &mut entry);
    if resource.verbs != Verbs::CreateOnly {
        entry["storageVersionHash"] = storage_version_hash(resource).into();
    }
    entry
}

fn other_names(resource: &Resource, entry: &mut Value) {
    let all = |names: &[Name]| names.iter().map(|name| Value::from(&**name)).collect();
    if !resource.short_names.is_empty() {
        entry["shortNames"] = Value::Array(all(&resource.short_names));
    }
    if !resource.categories.is_empty() {
        entry["categories"] = Value::Array(all(&resource.categories));
    }
}

fn part(resource: &Resource, subresource: &str, verbs: &[&str]) -> Value {
    json!({
        "name": format!("{}/{subresource}", resource.plural),
        "singularName": "",
        "namespaced": resource.namespaced,
        "kind": &*resource.kind,
        "verbs": verbs,
    })
}

/// The groups in an aggregated document.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Part {
    Core,
    Named,
}

/// Aggregated discovery at `/api` or `/apis`.
pub(super) fn aggregated(catalog: &Catalog, part: Part) -> Value {
    let groups: Vec<Value> = catalog
        .groups()
        .filter(|(name, _)| name.is_empty() == (part == Part::Core))
        .map(|(name, versions)| aggregated_group(name, versions))
        .collect();
    json!({
        "kind": "APIGroupDiscoveryList",
        "apiVersion": "apidiscovery.k8s.io/v2",
        "metadata": {},
        "items": groups,
    })
}

fn aggregated_group(name: &str, versions: &[Version]) -> Value {
    let versions: Vec<Value> = versions
        .iter()
        .map(|version| {
            let resources = version.resources.iter().map(|r| aggregated_resource(r));
            json!({
                "version": &*version.name,
                "resources": resources.collect::<Vec<Value>>(),
                "freshness": "Current",
            })
        })
        .collect();
    let mut metadata = json!({});
    if !name.is_empty() {
        metadata["name"] = name.into();
    }
    json!({"metadata": metadata, "versions": versions})
}

fn aggregated_resource(resource: &Resource) -> Value {
    // Group and version of a built-in kind are omitted: those of the document apply.
    let kind = if resource.flavour == Flavour::Custom {
        json!({"group": &*resource.group, "version": &*resource.version, "kind": &*resource.kind})
    } else {
        json!({"group": "", "version": "", "kind": &*resource.kind})
    };
    let parts: Vec<Value> = parts(resource)
        .into_iter()
        .map(|(name, verbs)| json!({"subresource": name, "responseKind": kind, "verbs": verbs}))
        .collect();
    let mut entry = json!({
        "resource": &*resource.plural,
        "responseKind": kind,
        "scope": if resource.namespaced { "Namespaced" } else { "Cluster" },
        "singularResource": &*resource.singular,
        "verbs": verbs(resource),
    });
    other_names(resource, &mut entry);
    if !parts.is_empty() {
        entry["subresources"] = parts.into();
    }
    entry
}

/// The storage version hash: equal while group, storage version and kind are.
fn storage_version_hash(resource: &Resource) -> String {
    use base64::Engine as _;
    let mut hasher = DefaultHasher::new();
    (&resource.group, &resource.storage_version, &resource.kind).hash(&mut hasher);
    (resource.flavour == Flavour::Custom).hash(&mut hasher);
    base64::engine::general_purpose::STANDARD.encode(hasher.finish().to_be_bytes())
}
