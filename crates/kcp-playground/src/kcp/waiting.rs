//! Clusters that wait for an initializer or a terminator, and their virtual workspaces:
//! `/services/initializingworkspaces/<cluster>:<type>/clusters/…`, and `terminatingworkspaces`.

use std::sync::Arc;

use super::types::TypeRef;
use super::{ids, objects, tree};
use crate::catalog::{Catalog, Resource, Stage, Verbs};
use crate::status::Status;
use crate::store::{Name, Read};
use kube_lang::object::Object;

impl Stage {
    /// The phase in which a cluster waits.
    pub(super) fn phase(self) -> &'static str {
        match self {
            Self::Initializing => "Initializing",
            Self::Terminating => "Terminating",
        }
    }

    /// The field of a cluster that names the initializers or terminators that it waits for.
    pub(super) fn field(self) -> &'static str {
        match self {
            Self::Initializing => "/status/initializers",
            Self::Terminating => "/status/terminators",
        }
    }

    pub(super) fn service(self) -> &'static str {
        match self {
            Self::Initializing => "initializingworkspaces",
            Self::Terminating => "terminatingworkspaces",
        }
    }
}

/// Both, in the order of a cluster's life.
pub(super) const STAGES: [Stage; 2] = [Stage::Initializing, Stage::Terminating];

/// The name of a type among initializers and terminators, with the id of its cluster.
pub(super) fn name_of(read: &dyn Read, of_type: &TypeRef) -> Option<String> {
    let cluster = tree::find(read, &of_type.path)?;
    Some(format!("{cluster}:{}", of_type.name))
}

/// The name in a URL, which may also contain the path of the type's cluster.
pub(super) fn canonical(read: &dyn Read, name: &str) -> Name {
    TypeRef::parse(name)
        .and_then(|of_type| name_of(read, &of_type))
        .map_or_else(|| name.into(), Into::into)
}

/// Whether a cluster waits for this initializer or terminator.
fn waits(cluster: &Object, stage: Stage, name: &str) -> bool {
    let value = cluster.as_value();
    objects::text(value, "/status/phase") == stage.phase()
        && objects::items(value, stage.field()).any(|waits_for| waits_for == name)
}

/// Labels a cluster with the initializers or terminators that it waits for.
pub(super) fn label(cluster: &mut Object) {
    let mut wanted = Vec::new();
    for stage in STAGES {
        let names = objects::items(cluster.as_value(), stage.field());
        let names = names.filter_map(|name| name.as_str()).map(str::to_owned);
        let labels: Vec<_> = names
            .filter(|name| waits(cluster, stage, name))
            .map(|name| ids::stage_label(stage, &name))
            .collect();
        wanted.extend(labels);
    }
    let ours = |key: &str| {
        STAGES
            .iter()
            .any(|stage| key.starts_with(ids::stage_prefix(*stage)))
    };
    if let Some(labels) = cluster.metadata_mut().get_mut("labels")
        && let Some(labels) = labels.as_object_mut()
    {
        labels.retain(|key, _| !ours(key));
    }
    for (key, value) in wanted {
        cluster.set_label(&key, &value);
    }
}

/// The resources of such a virtual workspace: the clusters that wait or, within one of them, everything.
pub(super) fn catalog(
    read: &dyn Read,
    (stage, name): (Stage, &Name),
    whole: &dyn Fn(&Name) -> Result<Arc<Catalog>, Status>,
    cluster: Option<&Name>,
) -> Result<Arc<Catalog>, Status> {
    let mut catalog = Catalog::default();
    let everything = match cluster {
        None => whole(&tree::ROOT.into())?,
        Some(cluster) => {
            let stored = read.get(&tree::cluster_key(cluster));
            if !stored.is_some_and(|stored| waits(stored.cached(), stage, name)) {
                let why = format!(
                    "forbidden: logical cluster {cluster:?} does not wait for {name:?} in phase {}",
                    stage.phase()
                );
                return Err(Status::new(403, "Forbidden", why));
            }
            whole(cluster)?
        }
    };
    for (_, versions) in everything.groups() {
        for resource in versions.iter().flat_map(|version| &version.resources) {
            if resource.table == *tree::CLUSTERS {
                catalog.add(Arc::new(shown(resource, stage, name, cluster)));
            } else if cluster.is_some() {
                catalog.add(Arc::clone(resource));
            }
        }
    }
    Ok(Arc::new(catalog))
}

/// Logical clusters, as their initializers and terminators see them.
fn shown(clusters: &Resource, stage: Stage, name: &str, cluster: Option<&Name>) -> Resource {
    let mut shown = clusters.clone();
    let (key, value) = ids::stage_label(stage, name);
    shown.required_label = Some((key.into(), value.into()));
    if cluster.is_some() {
        shown.verbs = Verbs::StatusOnly;
    } else {
        shown.verbs = Verbs::ReadOnly;
        shown.has_status = false;
    }
    shown
}
