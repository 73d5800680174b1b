//! A `PublishedResource`, compiled once: every mistake in its rules is found here. Afterwards, rules fail only because
//! of the objects that they are applied to.

use std::collections::hash_map::DefaultHasher;
use std::fmt;
use std::hash::{Hash as _, Hasher as _};
use std::sync::Arc;

use serde_json::json;

use super::filters::{FilterResult, Filters};
use super::marks;
use super::naming::{LocalScope, NamingError, NamingRules};
use super::problem::Problem;
use super::projection::Types;
use super::related::entry::{Author, Authors, Entry};
use super::synced::SyncedRules;
use super::types::{
    Adoption, ConsumerPause, OnUnbind, PublishedResourceSpec, RelatedFinalizer, Safety,
    TemplateEngine,
};
use crate::mutation::Pipeline;
use hawser_sync::DriftRules;
use kube_lang::object::Object;
use kube_lang::template::Engine;

mod drift;
mod related;
mod selectors;
mod steps;

use selectors::check_selector;

/// The identity of the agent, as marks and memories contain it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct AgentIdentity {
    pub name: String,
    /// The namespace of the state Secrets.
    pub namespace: String,
}

/// The compiled rules of a published resource. Immutable.
pub struct Compiled {
    pub(super) types: Types,
    pub(super) agent: AgentIdentity,
    pub(super) naming: NamingRules,
    pub(super) filters: Filters,
    pub(super) spec: Pipeline,
    pub(super) status: Pipeline,
    pub(super) safety: Safety,
    pub(super) workspace_paths: bool,
    pub(super) related: Vec<Arc<Entry>>,
    pub(super) synced: Option<SyncedRules>,
    pub(super) drift: Arc<DriftRules>,
    fingerprint: u64,
    warnings: Vec<Problem>,
}

impl Compiled {
    /// Compiles the rules. Returns all problems at once, or the rules with their warnings.
    pub fn compile(
        spec: &PublishedResourceSpec,
        types: Types,
        agent: AgentIdentity,
    ) -> Result<Self, Vec<Problem>> {
        let mut problems = Vec::new();
        let engine = match spec.template_engine {
            Some(TemplateEngine::Handlebars) => Engine::Handlebars,
            _ => Engine::Go,
        };
        let naming = naming(spec, engine, types.local_scope, &mut problems);
        let filters = filters(spec, &mut problems);
        let (up, back) = steps::mutations(spec.mutation.as_ref(), "spec.mutation", &mut problems);
        let namespace_is_owners = naming
            .as_ref()
            .is_some_and(NamingRules::namespace_is_owners);
        let related = related::related(spec, engine, namespace_is_owners, &mut problems);
        let synced = spec.synced.as_ref();
        let synced = synced.map(|given| SyncedRules::compile(given, &types, &mut problems));
        let drift = drift::drift(&spec.drift, &types, &mut problems);
        if let Some(naming) = &naming {
            warn_of_adoption(spec, naming, &mut problems);
        }
        match (naming, filters, up, back, related) {
            (Some(naming), Some(filters), Some(up), Some(back), Some(related))
                if !problems.iter().any(Problem::is_error) =>
            {
                let mut hasher = DefaultHasher::new();
                // Of the schema only matters what was made of it.
                let types = Types {
                    remote_status_schema: None,
                    ..types
                };
                (json!(spec).to_string(), &types, &agent, &synced).hash(&mut hasher);
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
                    synced,
                    drift: Arc::new(drift),
                    fingerprint: hasher.finish(),
                    warnings: problems,
                })
            }
            _ => Err(problems),
        }
    }

    pub fn agent(&self) -> &AgentIdentity {
        &self.agent
    }

    pub fn types(&self) -> &Types {
        &self.types
    }

    /// The warnings about the rules.
    pub fn warnings(&self) -> &[Problem] {
        &self.warnings
    }

    /// The authors of the names and namespaces of related objects, by the fields that define them.
    pub fn name_authors(&self) -> Vec<(String, Authors)> {
        let has_status = self.types.subresources.contains(&"status");
        let told = |authors: Authors| match authors.service {
            Author::Status if !has_status => Authors {
                service: Author::Consumer,
                ..authors
            },
            _ => authors,
        };
        let mut all = Vec::new();
        for (index, entry) in self.related.iter().enumerate() {
            let authors = entry.name_authors();
            let field = format!("spec.related[{index}].object");
            all.push((field.clone(), told(authors.names)));
            let namespaces = authors.namespaces.map(told);
            all.extend(namespaces.map(|set_by| (format!("{field}.namespace"), set_by)));
        }
        all
    }

    /// Equal for equal rules.
    pub fn fingerprint(&self) -> u64 {
        self.fingerprint
    }

    /// Whether the filter needs the labels of an object's namespace.
    pub fn needs_namespace(&self) -> bool {
        self.filters.needs_namespace()
    }

    /// Whether copies stay when their workspace no longer binds the API.
    pub fn keeps_on_unbind(&self) -> bool {
        self.safety.on_unbind.unwrap_or_default() == OnUnbind::Keep
    }

    /// Whether related entries may use the namespace of a copy. The owner may close namespaces that consumers choose and
    /// that are not of one workspace alone.
    pub fn mapping_is_open(&self) -> bool {
        let naming = &self.naming;
        let is_own = naming.namespace_is_owners() || naming.namespace_has_workspace();
        is_own || !self.safety.guards_names()
    }

    /// Whether consumers may pause their objects.
    pub fn consumers_pause(&self) -> bool {
        self.safety.consumer_pause.unwrap_or_default() == ConsumerPause::Allow
    }

    /// How consumers learn that the service has seen a generation of their objects.
    pub fn synced(&self) -> Option<&SyncedRules> {
        self.synced.as_ref()
    }

    /// The treatment of fields of copies that other writers change.
    pub fn drift(&self) -> &Arc<DriftRules> {
        &self.drift
    }

    /// The finalizer on originals of related objects in workspaces.
    pub fn related_finalizer(&self) -> String {
        match self.safety.related_finalizer.unwrap_or_default() {
            RelatedFinalizer::Shared => marks::FINALIZER.to_owned(),
            RelatedFinalizer::Own => marks::own_finalizer(&self.agent.name),
        }
    }

    /// Whether the path of an object's workspace has to be known before anything is created.
    pub fn needs_path(&self) -> bool {
        self.workspace_paths
    }

    /// Whether mutations, templates or related objects need more computing for an object than its size suggests.
    pub fn evaluates(&self) -> bool {
        !self.spec.is_empty()
            || !self.status.is_empty()
            || !self.related.is_empty()
            || self.naming.has_templates()
    }

    /// The entries of related objects.
    pub fn related(&self) -> &[Arc<Entry>] {
        &self.related
    }

    /// Whether an object of a workspace is to be synchronized.
    ///
    /// A missing namespace counts as one without labels, as for cluster-scoped objects. If
    /// [`needs_namespace`](Self::needs_namespace) returns true, the caller must have read the namespace first: one that
    /// was merely not read yet could make a wanted object unwanted, or the reverse.
    pub fn wants(&self, object: &Object, namespace: Option<&Object>) -> bool {
        self.filters.matches(object, namespace)
    }

    /// Whether each part of the filter matches the object.
    pub fn filter_results(&self, object: &Object, namespace: Option<&Object>) -> Vec<FilterResult> {
        self.filters.results(object, namespace)
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
) -> Option<NamingRules> {
    let given = spec.naming.clone().unwrap_or_default();
    let compile = |namespace: Option<&str>, name: Option<&str>| {
        NamingRules::compile(engine, namespace, name, scope)
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

/// Warns if consumers can name existing objects, which would then be adopted for them.
fn warn_of_adoption(
    spec: &PublishedResourceSpec,
    naming: &NamingRules,
    problems: &mut Vec<Problem>,
) {
    let safety = spec.safety();
    if safety.adoption.unwrap_or_default() == Adoption::Never || safety.guards_names() {
        return;
    }
    // Nobody else's object has the name of the workspace in its name, or is in such a namespace.
    if naming.place_varies_by_workspace() {
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
        "consumers influence the {field} of copies, and can adopt existing objects that no workspace or agent owns"
    );
    let problem = Problem::new(format!("spec.naming.{field}"), message).warning();
    problems.push(problem.with_hint(
        "set spec.safety.consumerNames to Guarded or spec.safety.adoption to Never, or use the workspace in the pattern, as with {{ .ClusterName }}",
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
