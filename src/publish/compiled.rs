//! A `PublishedResource`, compiled once: everything that can be wrong with its rules is found here, and
//! what is left cannot fail but by the objects it meets.

use std::collections::BTreeSet;
use std::collections::hash_map::DefaultHasher;
use std::fmt;
use std::hash::{Hash as _, Hasher as _};

use serde_json::json;

use super::crd::{Crd, CrdVersion};
use super::filters::Filters;
use super::naming::{LocalScope, Naming, NamingError};
use super::projection::Projected;
use super::types::{
    LabelSelector, MutationSpec, PublishedResourceSpec, RegexRewrite, RelatedObjectSpec,
    RelatedSpec, ResourceMutation, Rewrite, Safety, SelectorSpec, TemplateEngine,
};
use crate::mutation::{CompileError, MAX_STEPS, Pipeline, Step};
use crate::object::{Gvk, Object};
use crate::paths::{self, Use};
use crate::selector::Selector;
use crate::template::{self, Engine, Template};

/// What is wrong with a manifest, and where.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{field}: {message}")]
pub struct Problem {
    /// Such as `spec.mutation.spec[0].template.template`.
    pub field: String,
    pub message: String,
    /// Where in the text of that field, in bytes.
    pub offset: Option<usize>,
    /// What to do instead.
    pub hint: Option<String>,
}

impl Problem {
    pub(super) fn new(field: impl Into<String>, message: impl fmt::Display) -> Self {
        Self {
            field: field.into(),
            message: message.to_string(),
            offset: None,
            hint: None,
        }
    }

    fn of_template(field: String, error: template::CompileError) -> Self {
        Self {
            field,
            message: error.message,
            offset: Some(error.offset),
            hint: error.hint,
        }
    }
}

/// The published type on both sides.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Types {
    pub local: Gvk,
    pub remote: Gvk,
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
            local: projected.local.clone(),
            remote: projected.remote.clone(),
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
    fingerprint: u64,
}

impl Compiled {
    /// Compiles the rules; all that is wrong with them is answered at once.
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
        let (up, back) = mutations(spec.mutation.as_ref(), "spec.mutation", &mut problems);
        related(&spec.related, engine, &mut problems);
        match (naming, filters, up, back) {
            (Some(naming), Some(filters), Some(up), Some(back)) if problems.is_empty() => {
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
                    fingerprint: hasher.finish(),
                })
            }
            _ => Err(problems),
        }
    }

    pub fn types(&self) -> &Types {
        &self.types
    }

    /// Equal for equal rules.
    pub fn fingerprint(&self) -> u64 {
        self.fingerprint
    }

    /// Whether the labels of an object's namespace are needed to tell if it is wanted.
    pub fn needs_namespace(&self) -> bool {
        self.filters.needs_namespace()
    }

    /// Whether the path of an object's workspace has to be known before anything is made.
    pub fn needs_path(&self) -> bool {
        self.workspace_paths
    }

    /// Whether an object of a workspace is to be kept in step.
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

fn check_selector(field: &str, selector: &LabelSelector, problems: &mut Vec<Problem>) {
    if let Err(error) = Selector::from_value(&json!(selector)) {
        problems.push(Problem::new(field, error));
    }
}

fn mutations(
    spec: Option<&MutationSpec>,
    field: &str,
    problems: &mut Vec<Problem>,
) -> (Option<Pipeline>, Option<Pipeline>) {
    let empty = MutationSpec::default();
    let spec = spec.unwrap_or(&empty);
    let mut compile = |steps: &[ResourceMutation], list: &str| {
        let field = format!("{field}.{list}");
        // With where each stands: those that say nothing are told of and left out.
        let (mut read, mut places) = (Vec::new(), Vec::new());
        for (index, step) in steps.iter().enumerate() {
            if let Some(step) = step_of(step) {
                read.push(step);
                places.push(index);
            } else {
                problems.push(Problem::new(
                    format!("{field}[{index}]"),
                    "says nothing to do: set one of delete, regex, template and cel",
                ));
            }
        }
        match Pipeline::compile(&read) {
            Ok(pipeline) => (read.len() == steps.len()).then_some(pipeline),
            Err(errors) => {
                let found = errors
                    .into_iter()
                    .map(|error| of_step(&field, &read, &places, error));
                problems.extend(found);
                None
            }
        }
    };
    (compile(&spec.spec, "spec"), compile(&spec.status, "status"))
}

fn of_step(field: &str, steps: &[Step], places: &[usize], error: CompileError) -> Problem {
    let (kind, place) = match (steps.get(error.step), places.get(error.step)) {
        (Some(step), Some(place)) if steps.len() <= MAX_STEPS => (kind_of(step), place),
        _ => return Problem::new(field, error.message),
    };
    Problem {
        field: format!("{field}[{place}].{kind}.{}", error.field),
        message: error.message,
        offset: error.offset,
        hint: error.hint,
    }
}

fn kind_of(step: &Step) -> &'static str {
    match step {
        Step::Delete { .. } => "delete",
        Step::Regex { .. } => "regex",
        Step::Template { .. } => "template",
        Step::Cel { .. } => "cel",
    }
}

/// What a step does; of several the first in the order of the contract.
fn step_of(step: &ResourceMutation) -> Option<Step> {
    if let Some(delete) = &step.delete {
        let path = delete.path.clone();
        return Some(Step::Delete { path });
    }
    if let Some(regex) = &step.regex {
        return Some(Step::Regex {
            path: regex.path.clone(),
            pattern: regex.pattern.clone(),
            replacement: regex.replacement.clone(),
        });
    }
    if let Some(template) = &step.template {
        return Some(Step::Template {
            path: template.path.clone(),
            template: template.template.clone(),
        });
    }
    step.cel.as_ref().map(|cel| Step::Cel {
        path: cel.path.clone(),
        expression: cel.expression.clone(),
    })
}

/// Related entries are found wrong before the first object needs them.
fn related(entries: &[RelatedSpec], engine: Engine, problems: &mut Vec<Problem>) {
    let mut seen = BTreeSet::new();
    for (index, entry) in entries.iter().enumerate() {
        let field = format!("spec.related[{index}]");
        if !seen.insert(entry.identifier.as_str()) {
            problems.push(Problem::new(
                format!("{field}.identifier"),
                format!("{:?} is used by another entry too", entry.identifier),
            ));
        }
        related_type(entry, &field, problems);
        let names = entry.object.names();
        values(&names, engine, &format!("{field}.object"), problems);
        if let Some(namespace) = &entry.object.namespace {
            let field = format!("{field}.object.namespace");
            values(namespace, engine, &field, problems);
        }
        if let Some(watch) = &entry.watch {
            let field = format!("{field}.watch");
            if watch.by_owner.is_some() == watch.by_selector.is_some() {
                problems.push(Problem::new(&field, "set either byOwner or bySelector"));
            }
            if let Some(selector) = &watch.by_selector {
                check_selector(&format!("{field}.bySelector"), selector, problems);
            }
        }
        mutations(
            entry.mutation.as_ref(),
            &format!("{field}.mutation"),
            problems,
        );
    }
}

/// The rules that the API server holds a related type to.
fn related_type(entry: &RelatedSpec, field: &str, problems: &mut Vec<Problem>) {
    let (group, version) = (entry.group.is_some(), entry.version.is_some());
    let resource = entry.resource.is_some();
    let mut check = |ok: bool, message: &str| {
        if !ok {
            problems.push(Problem::new(field, message));
        }
    };
    check(
        entry.kind.is_some() != (version || resource),
        "name the type either by kind or by version and resource",
    );
    check(resource == version, "resource and version go together");
    check(
        !group || (resource && version),
        "a group needs resource and version",
    );
    check(
        entry.identity_hash.is_none() || (group && version && resource),
        "identityHash needs group, version and resource",
    );
    check(
        !(entry.origin == super::types::Origin::Service
            && entry.sync_status
            && entry.watch.is_none()),
        "with origin service, syncStatus needs watch",
    );
}

fn values(spec: &RelatedObjectSpec, engine: Engine, field: &str, problems: &mut Vec<Problem>) {
    if let Some(reference) = &spec.reference {
        let field = format!("{field}.reference");
        if let Err(error) = paths::validate(&reference.path, Use::Read) {
            problems.push(Problem::new(format!("{field}.path"), error));
        }
        if let Some(regex) = &reference.regex {
            check_regex(&format!("{field}.regex"), regex, problems);
        }
    }
    if let Some(selector) = &spec.selector {
        selecting(selector, engine, &format!("{field}.selector"), problems);
    }
    if let Some(template) = &spec.template {
        let field = format!("{field}.template.template");
        check_template(field, &template.template, engine, problems);
    }
    if spec.reference.is_none()
        && spec.selector.is_none()
        && spec.template.is_none()
        && field.ends_with(".object")
    {
        let message = "says not how it is found: set one of reference, selector and template";
        problems.push(Problem::new(field, message));
    }
}

fn selecting(spec: &SelectorSpec, engine: Engine, field: &str, problems: &mut Vec<Problem>) {
    // Labels that are templates are checked as templates, the others as labels.
    let mut plain = spec.labels();
    plain.match_labels.retain(|key, value| {
        let mut kept = true;
        for text in [key.as_str(), value.as_str()] {
            if template::has_actions(text) {
                kept = false;
                let field = format!("{field}.matchLabels");
                check_template(field, text, engine, problems);
            }
        }
        kept
    });
    check_selector(field, &plain, problems);
    let Rewrite { regex, template } = &spec.rewrite;
    let field = format!("{field}.rewrite");
    match (regex, template) {
        (None, None) => {
            problems.push(Problem::new(field, "set either regex or template"));
        }
        (Some(regex), _) => check_regex(&format!("{field}.regex"), regex, problems),
        (None, Some(template)) => {
            let field = format!("{field}.template.template");
            check_template(field, &template.template, engine, problems);
        }
    }
}

fn check_template(field: String, text: &str, engine: Engine, problems: &mut Vec<Problem>) {
    if let Err(error) = Template::compile(engine, text) {
        problems.push(Problem::of_template(field, error));
    }
}

fn check_regex(field: &str, regex: &RegexRewrite, problems: &mut Vec<Problem>) {
    let step = Step::Regex {
        path: "name".to_owned(),
        pattern: regex.pattern.clone(),
        replacement: regex.replacement.clone(),
    };
    if let Err(errors) = Pipeline::compile(&[step]) {
        problems.extend(errors.into_iter().map(|error| Problem {
            field: format!("{field}.{}", error.field),
            message: error.message,
            offset: error.offset,
            hint: error.hint,
        }));
    }
}

#[cfg(test)]
mod tests;
