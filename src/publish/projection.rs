//! Projection: turns a CRD of the service cluster into the type that consumers see.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value;

use super::crd::{Crd, CrdSpec, CrdVersion};
use super::naming::LocalScope;
use super::types::{Projection, PublishedResourceSpec, Scope, SourceResource};
use super::versions;
use kube_lang::object::Gvk;

/// The reason why a CRD cannot be published as requested. Each message says what to change.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProjectionError {
    #[error("spec.resource sets both version and versions: keep versions only")]
    VersionAndVersions,
    #[error("none of the versions in spec.resource exists: the CRD has {available}")]
    NoSuchVersion { available: String },
    #[error(
        "none of the published versions is served: serve one of {selected} in the CRD, or publish others"
    )]
    NothingServed { selected: String },
    #[error(
        "spec.projection.version renames one version, but {selected} are published: use spec.projection.versions"
    )]
    VersionIsAmbiguous { selected: String },
    #[error("spec.projection sets both version and versions: keep versions only")]
    ProjectedTwice,
    #[error("spec.projection.versions gives two versions the name {name}")]
    DuplicateVersion { name: String },
    #[error("the CRD has no storage version: exactly one version must have storage: true")]
    NoStorageVersion,
}

impl ProjectionError {
    /// The field to correct.
    pub fn field(&self, published: &PublishedResourceSpec) -> &'static str {
        match self {
            Self::VersionAndVersions => "spec.resource.version",
            Self::NoSuchVersion { .. } | Self::NothingServed { .. } => {
                match wanted(&published.resource) {
                    VersionChoice::Any => "spec.resource",
                    VersionChoice::One(_) => "spec.resource.version",
                    VersionChoice::Several(_) => "spec.resource.versions",
                }
            }
            Self::VersionIsAmbiguous { .. } | Self::ProjectedTwice => "spec.projection.version",
            Self::DuplicateVersion { .. } => "spec.projection.versions",
            Self::NoStorageVersion => "spec.resource",
        }
    }
}

/// A published type: its names on the service cluster and for consumers.
#[derive(Clone, Debug)]
pub struct Projected {
    pub crd: Crd,
    pub local: Gvk,
    pub remote: Gvk,
}

/// The published type on both sides.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Types {
    pub local: Arc<Gvk>,
    pub remote: Arc<Gvk>,
    pub local_scope: LocalScope,
    /// The subresources of the service cluster: `status`, `scale`. They are not synchronized.
    pub subresources: Vec<&'static str>,
    /// Whether workspaces serve a status subresource.
    pub remote_status: bool,
    /// The schema of the status in workspaces; `None` if it is not known.
    pub remote_status_schema: Option<Value>,
}

impl Types {
    /// The type of a CRD of the service cluster, as projected. Each side has its own subresources: copies are written
    /// in the CRD's storage version, objects of workspaces in the projected one.
    pub fn of(local: &Crd, projected: &Projected) -> Self {
        let (stored, remote) = (local.storage_version(), projected.crd.storage_version());
        let mut subresources = Vec::new();
        if stored.is_some_and(CrdVersion::has_status) {
            subresources.push("status");
        }
        if stored.is_some_and(CrdVersion::has_scale) {
            subresources.push("scale");
        }
        Self {
            local: Arc::new(projected.local.clone()),
            remote: Arc::new(projected.remote.clone()),
            local_scope: if local.spec.is_namespaced() {
                LocalScope::Namespaced
            } else {
                LocalScope::Cluster
            },
            subresources,
            remote_status: remote.is_some_and(CrdVersion::has_status),
            remote_status_schema: remote.map(CrdVersion::status_schema),
        }
    }
}

/// Whether the projection contradicts itself, whatever the CRD says.
pub fn coherent(published: &PublishedResourceSpec) -> Result<(), ProjectionError> {
    let resource = &published.resource;
    if given(resource.version.as_ref()).is_some() && !resource.versions.is_empty() {
        return Err(ProjectionError::VersionAndVersions);
    }
    match &published.projection {
        Some(to) if given(to.version.as_ref()).is_some() && !to.versions.is_empty() => {
            Err(ProjectionError::ProjectedTwice)
        }
        _ => Ok(()),
    }
}

/// Selects the versions to publish and applies the names that consumers see.
pub fn project(crd: &Crd, published: &PublishedResourceSpec) -> Result<Projected, ProjectionError> {
    coherent(published)?;
    let stored = crd
        .spec
        .storage_version()
        .ok_or(ProjectionError::NoStorageVersion)?;
    let local = Gvk::new(&crd.spec.group, &stored.name, &crd.spec.names.kind);
    let mut projected = crd.clone();
    select(&mut projected.spec, published)?;
    choose_storage(&mut projected.spec)?;
    if let Some(projection) = &published.projection {
        rename_versions(&mut projected.spec, projection)?;
        rename(&mut projected, projection);
    }
    let spec = &projected.spec;
    let stored = spec
        .storage_version()
        .ok_or(ProjectionError::NoStorageVersion)?;
    let remote = Gvk::new(&spec.group, &stored.name, &spec.names.kind);
    Ok(Projected {
        crd: projected,
        local,
        remote,
    })
}

/// The group and the kind that consumers see.
pub fn published_as(published: &PublishedResourceSpec) -> (String, String) {
    let resource = &published.resource;
    let to = published.projection.as_ref();
    let group = to.and_then(|to| given(to.group.as_ref()));
    let kind = to.and_then(|to| given(to.kind.as_ref()));
    (
        group.unwrap_or(&resource.api_group).to_owned(),
        kind.unwrap_or(&resource.kind).to_owned(),
    )
}

fn names<'a>(versions: impl IntoIterator<Item = &'a CrdVersion>) -> String {
    let names: Vec<&str> = versions.into_iter().map(|v| v.name.as_str()).collect();
    names.join(", ")
}

/// The selected versions.
enum VersionChoice<'a> {
    Any,
    One(&'a str),
    Several(&'a [String]),
}

fn wanted(resource: &SourceResource) -> VersionChoice<'_> {
    match given(resource.version.as_ref()) {
        Some(version) => VersionChoice::One(version),
        None if resource.versions.is_empty() => VersionChoice::Any,
        None => VersionChoice::Several(&resource.versions),
    }
}

/// An empty text counts as missing.
fn given(text: Option<&String>) -> Option<&str> {
    text.map(String::as_str).filter(|text| !text.is_empty())
}

fn select(spec: &mut CrdSpec, published: &PublishedResourceSpec) -> Result<(), ProjectionError> {
    let available = names(&spec.versions);
    match wanted(&published.resource) {
        VersionChoice::Any => return Ok(()),
        VersionChoice::One(wanted) => spec.versions.retain(|version| version.name == wanted),
        VersionChoice::Several(wanted) => spec
            .versions
            .retain(|version| wanted.contains(&version.name)),
    }
    if spec.versions.is_empty() {
        return Err(ProjectionError::NoSuchVersion { available });
    }
    Ok(())
}

/// If the storage version is not published, the last served one takes its place.
fn choose_storage(spec: &mut CrdSpec) -> Result<(), ProjectionError> {
    if !spec.versions.iter().any(|version| version.served) {
        return Err(ProjectionError::NothingServed {
            selected: names(&spec.versions),
        });
    }
    if spec.storage_version().is_none()
        && let Some(last) = spec.versions.iter_mut().rfind(|version| version.served)
    {
        last.storage = true;
    }
    Ok(())
}

fn rename_versions(spec: &mut CrdSpec, projection: &Projection) -> Result<(), ProjectionError> {
    let single = given(projection.version.as_ref());
    let renames: &BTreeMap<String, String> = &projection.versions;
    match (single, renames.is_empty()) {
        (Some(version), _) => {
            let [only] = spec.versions.as_mut_slice() else {
                return Err(ProjectionError::VersionIsAmbiguous {
                    selected: names(&spec.versions),
                });
            };
            version.clone_into(&mut only.name);
        }
        (None, false) => {
            for version in &mut spec.versions {
                if let Some(name) = renames.get(&version.name) {
                    name.clone_into(&mut version.name);
                }
            }
            spec.versions
                .sort_by(|a, b| versions::compare(&a.name, &b.name));
            let twice = spec
                .versions
                .windows(2)
                .find(|pair| versions::compare(&pair[0].name, &pair[1].name) == Ordering::Equal);
            if let Some(pair) = twice {
                return Err(ProjectionError::DuplicateVersion {
                    name: pair[0].name.clone(),
                });
            }
        }
        (None, true) => {}
    }
    Ok(())
}

fn rename(crd: &mut Crd, projection: &Projection) {
    let spec = &mut crd.spec;
    if let Some(group) = given(projection.group.as_ref()) {
        group.clone_into(&mut spec.group);
    }
    if let Some(kind) = given(projection.kind.as_ref()) {
        spec.names.list_kind = format!("{kind}List");
        spec.names.singular = kind.to_lowercase();
        spec.names.plural = format!("{}s", spec.names.singular);
        kind.clone_into(&mut spec.names.kind);
    }
    if let Some(plural) = given(projection.plural.as_ref()) {
        plural.clone_into(&mut spec.names.plural);
    }
    match projection.scope {
        Some(Scope::Cluster) => "Cluster".clone_into(&mut spec.scope),
        Some(Scope::Namespaced) => "Namespaced".clone_into(&mut spec.scope),
        None => {}
    }
    if let Some(categories) = &projection.categories {
        spec.names.categories.clone_from(categories);
    }
    if let Some(short_names) = &projection.short_names {
        spec.names.short_names.clone_from(short_names);
    }
    crd.metadata.name = format!("{}.{}", spec.names.plural, spec.group);
}

#[cfg(test)]
mod tests;
