//! The resources that a placement selects.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use kube_lang::object::{Gvk, Object};
use kube_lang::selector::{Selector, SelectorError};
use serde_json::Value;

use crate::admission::{KindScope, check_name, check_rules};
use crate::reporting;
use crate::resources::{
    ApiFilter, SelectionContext, is_placed, is_reserved_namespace, normalise, sort,
};
use crate::types::placement::{Placement, ResourceIdentifier};
use crate::types::policy::{ResourceSelectorTerm, SelectionScope};

/// The known objects and kinds of the hub.
pub trait Hub {
    /// The scope of a kind; `Unknown` if the hub does not serve it.
    fn scope(&self, kind: &Gvk) -> KindScope;
    /// All objects of a kind, of one namespace if one is given. `None` until they are listed.
    fn objects(&self, kind: &Gvk, namespace: Option<&str>) -> Option<Vec<Arc<Object>>>;
    /// The namespaced kinds that can be listed and watched, in their preferred versions.
    fn namespaced_kinds(&self) -> Vec<Gvk>;
}

/// The settings of the hub.
#[derive(Clone, Copy, Debug)]
pub struct Settings<'a> {
    pub filter: &'a ApiFilter,
    pub skipped_namespaces: &'a [String],
    pub hub_runs_workloads: bool,
}

/// The reason why nothing is selected. All but `NotListed` are errors of the user: placed objects stay.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SelectionError {
    #[error("objects of {0} are not listed yet")]
    NotListed(Gvk),
    #[error("the hub does not serve {0}: install its definition, or correct the selector")]
    UnknownKind(Gvk),
    #[error("{0} is namespaced: select its Namespace, or use a ResourcePlacement")]
    Namespaced(Gvk),
    #[error("{0} is not namespaced: use a ClusterResourcePlacement")]
    ClusterScoped(Gvk),
    #[error("namespace {0} belongs to Kubernetes or to the fleet and is not placed")]
    Reserved(String),
    #[error("namespace {0} of selected objects does not exist")]
    NoNamespace(String),
    #[error("{kind} {namespace}/{name} is selected by more than one selector")]
    Twice {
        kind: Gvk,
        namespace: String,
        name: String,
    },
    #[error("{} \"{}\" in namespace \"{}\" is nested too deep to be placed", .0.kind, .0.name, .0.namespace)]
    TooDeep(Box<ResourceIdentifier>),
    #[error("the placement is invalid: {0}")]
    Invalid(String),
    #[error("{} \"{}\" in namespace \"{}\" has {bytes} bytes as JSON; a snapshot has room for {most}", .resource.kind, .resource.name, .resource.namespace)]
    TooLarge {
        resource: Box<ResourceIdentifier>,
        bytes: usize,
        most: usize,
    },
    #[error("label selector of {kind}: {source}")]
    Labels {
        kind: Gvk,
        source: Box<SelectorError>,
    },
}

impl SelectionError {
    /// True if the error can end without a change by the user.
    pub fn is_transient(&self) -> bool {
        matches!(self, Self::NotListed(_))
    }
}

/// The resources that a placement selects, normalised and in the order of snapshots.
pub fn select(
    placement: &Placement,
    hub: &impl Hub,
    settings: &Settings<'_>,
) -> Result<Vec<Value>, SelectionError> {
    let mut problems = check_rules(&placement.spec);
    problems.extend(check_name(&placement.metadata.name));
    problems.extend(reporting::moved(placement));
    if !problems.is_empty() {
        return Err(SelectionError::Invalid(problems.join("; ")));
    }
    let mut selection = Selection {
        hub,
        settings,
        found: BTreeMap::new(),
    };
    let selectors = &placement.spec.resource_selectors;
    // The one Namespace of which only parts are selected.
    let parts_of = selectors.iter().find(|one| {
        one.is_namespace()
            && one.selection_scope == Some(SelectionScope::NamespaceWithResourceSelectors)
    });
    for term in selectors {
        let kind = Gvk::new(&term.group, &term.version, &term.kind);
        if !settings.filter.admits(&kind) {
            continue;
        }
        match (&placement.metadata.namespace, hub.scope(&kind)) {
            (_, KindScope::Unknown) => return Err(SelectionError::UnknownKind(kind)),
            (Some(namespace), KindScope::Namespaced) => {
                selection.add(&kind, term, Some(namespace))?;
            }
            (Some(_), KindScope::Cluster) => return Err(SelectionError::ClusterScoped(kind)),
            (None, KindScope::Namespaced) => match parts_of {
                Some(parts) => selection.add(&kind, term, Some(&parts.name))?,
                None => return Err(SelectionError::Namespaced(kind)),
            },
            (None, KindScope::Cluster) if term.is_namespace() => {
                selection.add_namespaces(&kind, term)?;
            }
            (None, KindScope::Cluster) => selection.add(&kind, term, None)?,
        }
    }
    let found = selection.found.into_values();
    let mut resources: Vec<Value> = found.map(|one| one.as_value().clone()).collect();
    resources.iter_mut().for_each(normalise);
    sort(&mut resources);
    Ok(resources)
}

struct Selection<'a, H> {
    hub: &'a H,
    settings: &'a Settings<'a>,
    found: BTreeMap<ResourceIdentifier, Arc<Object>>,
}

impl<H: Hub> Selection<'_, H> {
    /// Adds the objects of a kind that a selector matches.
    fn add(
        &mut self,
        kind: &Gvk,
        term: &ResourceSelectorTerm,
        namespace: Option<&str>,
    ) -> Result<(), SelectionError> {
        for object in self.matching(kind, term, namespace)? {
            self.insert(kind, object)?;
        }
        Ok(())
    }

    /// Adds Namespaces with their contents.
    fn add_namespaces(
        &mut self,
        kind: &Gvk,
        term: &ResourceSelectorTerm,
    ) -> Result<(), SelectionError> {
        let scope = term.selection_scope.unwrap_or_default();
        let namespaces = self.matching(kind, term, None)?;
        if namespaces.is_empty() && scope == SelectionScope::NamespaceWithResourceSelectors {
            return Err(SelectionError::NoNamespace(term.name.clone()));
        }
        for object in namespaces {
            let name = object.name().to_owned();
            if is_reserved_namespace(&name, self.settings.skipped_namespaces) {
                return Err(SelectionError::Reserved(name));
            }
            self.insert(kind, object)?;
            if scope == SelectionScope::NamespaceWithResources {
                self.add_contents(&name)?;
            }
        }
        Ok(())
    }

    fn add_contents(&mut self, namespace: &str) -> Result<(), SelectionError> {
        for kind in self.hub.namespaced_kinds() {
            if self.settings.filter.admits(&kind) {
                for object in self.placed(&kind, Some(namespace))? {
                    self.insert(&kind, object)?;
                }
            }
        }
        Ok(())
    }

    fn matching(
        &self,
        kind: &Gvk,
        term: &ResourceSelectorTerm,
        namespace: Option<&str>,
    ) -> Result<Vec<Arc<Object>>, SelectionError> {
        let labels = term.label_selector.as_ref();
        let labels = labels
            .map(|labels| Selector::from_object(Some(labels)))
            .transpose();
        let labels = labels.map_err(|source| SelectionError::Labels {
            kind: kind.clone(),
            source: Box::new(source),
        })?;
        let mut objects = self.placed(kind, namespace)?;
        objects.retain(|object| {
            let found: Vec<(&str, &str)> = object.labels().collect();
            (term.name.is_empty() || object.name() == term.name)
                && labels.as_ref().is_none_or(|labels| labels.matches(found))
        });
        Ok(objects)
    }

    /// The objects of a kind that are placed at all.
    fn placed(
        &self,
        kind: &Gvk,
        namespace: Option<&str>,
    ) -> Result<Vec<Arc<Object>>, SelectionError> {
        let list = |kind: &Gvk| {
            let objects = self.hub.objects(kind, namespace);
            objects.ok_or_else(|| SelectionError::NotListed(kind.clone()))
        };
        let mut services = BTreeSet::new();
        if kind.group.is_empty() && kind.kind == "Endpoints" {
            let found = list(&Gvk::new("", "v1", "Service"))?;
            services = found.iter().map(|one| one.name().to_owned()).collect();
        }
        let around = SelectionContext {
            hub_runs_workloads: self.settings.hub_runs_workloads,
            services: &services,
        };
        let mut objects = list(kind)?;
        objects.retain(|object| is_placed(object.as_value(), &around));
        Ok(objects)
    }

    fn insert(&mut self, kind: &Gvk, object: Arc<Object>) -> Result<(), SelectionError> {
        let identifier = ResourceIdentifier::of(object.as_value());
        let twice = || SelectionError::Twice {
            kind: kind.clone(),
            namespace: identifier.namespace.clone(),
            name: identifier.name.clone(),
        };
        if self.found.contains_key(&identifier) {
            return Err(twice());
        }
        if object.is_fragment() {
            return Err(SelectionError::TooDeep(identifier.into()));
        }
        self.found.insert(identifier, object);
        Ok(())
    }
}

#[cfg(test)]
mod tests;
