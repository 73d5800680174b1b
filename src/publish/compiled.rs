//! A `PublishedResource`, compiled once: everything that can be wrong with its rules is found here, and
//! what is left cannot fail but by the objects it meets.

use std::collections::hash_map::DefaultHasher;
use std::fmt;
use std::hash::{Hash as _, Hasher as _};
use std::sync::Arc;

use serde_json::json;

use super::crd::{Crd, CrdVersion};
use super::filters::Filters;
use super::marks;
use super::naming::{LocalScope, Naming, NamingError};
use super::projection::Projected;
use super::related::{Author, Authors, Entry, tells_workspaces};
use super::types::{
    Adoption, ConsumerNames, OnUnbind, PublishedResourceSpec, RelatedFinalizer, Safety,
    TemplateEngine,
};
use crate::mutation::Pipeline;
use kube_lang::object::{Gvk, Object};
use kube_lang::template::Engine;

mod problem;
mod related;
mod selectors;
mod steps;

pub use problem::{Part, Problem, Severity};

use selectors::check_selector;

/// The published type on both sides.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Types {
    pub local: Arc<Gvk>,
    pub remote: Arc<Gvk>,
    pub local_scope: LocalScope,
    /// What is served beside the object on the service cluster: `status`, `scale`. It does not travel.
    pub subresources: Vec<&'static str>,
    /// Whether workspaces serve a status apart.
    pub remote_status: bool,
}

impl Types {
    /// The type that a CRD of the service cluster defines, as projected. What is served beside the
    /// object is each side's own: copies are written in the version that the CRD stores, objects of
    /// workspaces in the one that the projected one does.
    pub fn of(local: &Crd, projected: &Projected) -> Self {
        let stored = local.storage_version();
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
            remote_status: projected
                .crd
                .storage_version()
                .is_some_and(CrdVersion::has_status),
        }
    }
}

/// The agent, as far as objects tell of it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Agent {
    pub name: String,
    /// Where it keeps the state Secrets.
    pub namespace: String,
}

/// The compiled rules of a published resource. Immutable.
pub struct Compiled {
    pub(super) types: Types,
    pub(super) agent: Agent,
    pub(super) naming: Naming,
    pub(super) filters: Filters,
    pub(super) spec: Pipeline,
    pub(super) status: Pipeline,
    pub(super) safety: Safety,
    pub(super) workspace_paths: bool,
    pub(super) related: Vec<Arc<Entry>>,
    fingerprint: u64,
    warnings: Vec<Problem>,
}

impl Compiled {
    /// Compiles the rules; all that is wrong with them is answered at once, with the warnings.
    pub fn compile(
        spec: &PublishedResourceSpec,
        types: Types,
        agent: Agent,
    ) -> Result<Self, Vec<Problem>> {
        let mut problems = Vec::new();
        let engine = match spec.template_engine {
            Some(TemplateEngine::Handlebars) => Engine::Handlebars,
            _ => Engine::Go,
        };
        let naming = naming(spec, engine, types.local_scope, &mut problems);
        let filters = filters(spec, &mut problems);
        let (up, back) = steps::mutations(spec.mutation.as_ref(), "spec.mutation", &mut problems);
        let related = related::related(spec, engine, &mut problems);
        if let Some(naming) = &naming {
            met_by_adoption(spec, naming, &mut problems);
        }
        match (naming, filters, up, back, related) {
            (Some(naming), Some(filters), Some(up), Some(back), Some(related))
                if !problems.iter().any(Problem::is_error) =>
            {
                let mut hasher = DefaultHasher::new();
                (json!(spec).to_string(), &types, &agent).hash(&mut hasher);
                Ok(Self {
                    types,
                    agent,
                    naming,
                    filters,
                    spec: up,
                    status: back,
                    safety: spec.safety(),
                    workspace_paths: spec.enable_workspace_paths,
                    related,
                    fingerprint: hasher.finish(),
                    warnings: problems,
                })
            }
            _ => Err(problems),
        }
    }

    pub fn agent(&self) -> &Agent {
        &self.agent
    }

    pub fn types(&self) -> &Types {
        &self.types
    }

    /// What may not be what was meant.
    pub fn warnings(&self) -> &[Problem] {
        &self.warnings
    }

    /// Whose words the names and namespaces of related objects are, by the fields that say them.
    pub fn words(&self) -> Vec<(String, Authors)> {
        let apart = self.types.subresources.contains(&"status");
        let told = |authors: Authors| match authors.service {
            Author::Status if !apart => Authors {
                service: Author::Consumer,
                ..authors
            },
            _ => authors,
        };
        let mut all = Vec::new();
        for (index, entry) in self.related.iter().enumerate() {
            let words = entry.words();
            let field = format!("spec.related[{index}].object");
            all.push((field.clone(), told(words.names)));
            let namespaces = words.namespaces.map(told);
            all.extend(namespaces.map(|authors| (format!("{field}.namespace"), authors)));
        }
        all
    }

    /// Equal for equal rules.
    pub fn fingerprint(&self) -> u64 {
        self.fingerprint
    }

    /// Whether the labels of an object's namespace are needed to tell if it is wanted.
    pub fn needs_namespace(&self) -> bool {
        self.filters.needs_namespace()
    }

    /// Whether copies stay when their workspace no longer binds the API.
    pub fn keeps_on_unbind(&self) -> bool {
        self.safety.on_unbind.unwrap_or_default() == OnUnbind::Keep
    }

    /// The finalizer on originals of related objects in workspaces.
    pub fn related_finalizer(&self) -> String {
        match self.safety.related_finalizer.unwrap_or_default() {
            RelatedFinalizer::Shared => marks::FINALIZER.to_owned(),
            RelatedFinalizer::Own => marks::own_finalizer(&self.agent.name),
        }
    }

    /// Whether the path of an object's workspace has to be known before anything is made.
    pub fn needs_path(&self) -> bool {
        self.workspace_paths
    }

    /// Whether more is computed for an object than its size tells: by mutations, templates or related objects.
    pub fn evaluates(&self) -> bool {
        !self.spec.is_empty()
            || !self.status.is_empty()
            || !self.related.is_empty()
            || self.naming.has_templates()
    }

    /// What travels with an object.
    pub fn related(&self) -> &[Arc<Entry>] {
        &self.related
    }

    /// Whether an object of a workspace is to be kept in step.
    ///
    /// A namespace that is not given counts as one without labels, as for objects that are in none.
    /// Where [`needs_namespace`](Self::needs_namespace) says so, whoever asks must have settled first
    /// what the namespace of the object is: one that was merely not read yet would make an object
    /// unwanted that is wanted, or the reverse.
    pub fn wants(&self, object: &Object, namespace: Option<&Object>) -> bool {
        self.filters.matches(object, namespace)
    }
}

impl fmt::Debug for Compiled {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Compiled")
            .field("types", &self.types)
            .finish_non_exhaustive()
    }
}

fn naming(
    spec: &PublishedResourceSpec,
    engine: Engine,
    scope: LocalScope,
    problems: &mut Vec<Problem>,
) -> Option<Naming> {
    let given = spec.naming.clone().unwrap_or_default();
    let compile = |namespace: Option<&str>, name: Option<&str>| {
        Naming::compile(engine, namespace, name, scope)
    };
    // Each on its own first, so that both are told of.
    for attempt in [
        compile(given.namespace.as_deref(), None),
        compile(None, given.name.as_deref()),
    ] {
        if let Err(NamingError::Compile { field, error }) = attempt {
            problems.push(Problem::of_template(format!("spec.naming.{field}"), error));
        }
    }
    compile(given.namespace.as_deref(), given.name.as_deref()).ok()
}

/// Warns where consumers can name what is there already, and it would be taken over for them.
fn met_by_adoption(spec: &PublishedResourceSpec, naming: &Naming, problems: &mut Vec<Problem>) {
    let safety = spec.safety();
    if safety.adoption.unwrap_or_default() == Adoption::Never
        || safety.consumer_names.unwrap_or_default() == ConsumerNames::Guarded
    {
        return;
    }
    let given = spec.naming.clone().unwrap_or_default();
    let namespace = given.namespace.filter(|text| !text.is_empty());
    // Nobody else's object has the name of the workspace in its name, or is in such a namespace.
    let in_own = naming.is_namespaced() && namespace.as_deref().is_none_or(tells_workspaces);
    if in_own || given.name.as_deref().is_some_and(tells_workspaces) {
        return;
    }
    let field = if !naming.namespace_is_owners() {
        "namespace"
    } else if naming.name_is_chosen() {
        "name"
    } else {
        return;
    };
    let message = format!(
        "consumers have a say in the {field} of copies, and theirs take over what is there already and \
         belongs to nobody"
    );
    let problem = Problem::new(format!("spec.naming.{field}"), message).warning();
    problems.push(problem.with_hint(
        "set spec.safety.consumerNames to Guarded or spec.safety.adoption to Never, or let it depend on \
         the workspace, as with {{ .ClusterName }}",
    ));
}

fn filters(spec: &PublishedResourceSpec, problems: &mut Vec<Problem>) -> Option<Filters> {
    let filter = spec.filter.clone().unwrap_or_default();
    for (field, selector) in [
        ("namespace", filter.namespace),
        ("resource", filter.resource),
    ] {
        if let Some(selector) = selector {
            check_selector(&format!("spec.filter.{field}"), &selector, problems);
        }
    }
    Filters::compile(spec.filter.as_ref()).ok()
}

#[cfg(test)]
mod tests;
