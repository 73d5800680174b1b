//! Entries of related objects.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::selectors::{check_label, check_selector};
use super::steps::mutations;
use crate::mutation::Pipeline;
use crate::mutation::Step;
use crate::publish::naming::varies_by_workspace;
use crate::publish::problem::{Part, Problem};
use crate::publish::related::entry::{Entry, Premises};
use crate::publish::types::{
    Origin, PublishedResourceSpec, RegexRewrite, RelatedObjectSpec, RelatedSpec, Rewrite,
    SelectorSpec,
};
use kube_lang::paths::{self, Use};
use kube_lang::template::{self, Engine, Template};

/// Compiles the entries; mistakes are found before the first object needs them.
pub(super) fn related(
    spec: &PublishedResourceSpec,
    engine: Engine,
    namespace_is_owners: bool,
    problems: &mut Vec<Problem>,
) -> Option<Vec<Arc<Entry>>> {
    let premises = Premises {
        engine,
        namespace_is_owners,
    };
    let mut seen = BTreeSet::new();
    let mut compiled = Some(Vec::new());
    for (index, entry) in spec.related.iter().enumerate() {
        let field = format!("spec.related[{index}]");
        if !seen.insert(entry.identifier.as_str()) {
            let message = format!("{:?} is also used by another entry", entry.identifier);
            let problem = Problem::new(format!("{field}.identifier"), message).warning();
            problems.push(problem.with_hint(
                "both entries work, but reports cannot distinguish them: give each its own",
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
        let mutations = mutations(
            entry.mutation.as_ref(),
            &format!("{field}.mutation"),
            problems,
        );
        let made = match mutations {
            (Some(mutate), Some(back)) => Entry::of(entry, (mutate, back), premises),
            _ => None,
        };
        if let Some(made) = &made {
            shared_namespace(made, (spec, entry), engine, &field, problems);
        }
        match (&mut compiled, made) {
            (Some(all), Some(made)) => all.push(Arc::new(made)),
            _ => compiled = None,
        }
    }
    if compiled.is_none() && !problems.iter().any(Problem::is_error) {
        problems.push(Problem::new(
            "spec.related",
            "the entries cannot be compiled",
        ));
    }
    compiled
}

/// Warns if consumers of several workspaces determine names in one namespace.
fn shared_namespace(
    entry: &Entry,
    (spec, related): (&PublishedResourceSpec, &RelatedSpec),
    engine: Engine,
    field: &str,
    problems: &mut Vec<Problem>,
) {
    let naming = spec.naming.as_ref();
    let mapped = naming.and_then(|naming| naming.namespace.as_deref());
    // A template of the entry takes the place of what copies of the object are put into.
    let own = related.object.namespace.as_ref();
    let own = own.map(|own| match (&own.reference, &own.selector, &own.template) {
        (None, None, Some(template)) => Some(template.template.as_str()),
        _ => mapped,
    });
    let namespace = own.unwrap_or(mapped);
    let is_shared = namespace.is_some_and(|text| !varies_by_workspace(engine, text));
    if entry.consumers_choose() && is_shared {
        let message = "objects of several workspaces share a namespace, and consumers influence which of them are selected";
        let problem = Problem::new(format!("{field}.object"), message).warning();
        problems.push(problem.with_hint(
            "use the workspace in naming.namespace or in the names, as with {{ .ClusterName }}",
        ));
    }
}

/// The rules of the API server for a related type.
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
        !(entry.origin == Origin::Service && entry.sync_status && entry.watch.is_none()),
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
    if spec.reference.is_none() && spec.selector.is_none() && spec.template.is_none() {
        let message = "names no object: set one of reference, selector and template";
        problems.push(Problem::new(field, message));
    }
}

fn selecting(spec: &SelectorSpec, engine: Engine, field: &str, problems: &mut Vec<Problem>) {
    // Labels that are templates are checked as templates, the others as labels.
    let mut plain = spec.labels();
    plain.match_labels.clear();
    for (key, value) in &spec.match_labels {
        let at = format!("{field}.matchLabels.{key}");
        for (text, part) in [(key, Part::Key), (value, Part::Value)] {
            if template::has_actions(text)
                && let Err(error) = Template::compile(engine, text)
            {
                problems.push(Problem::of_template(at.clone(), error).at(part));
            }
        }
        let fixed = |text: &String| !template::has_actions(text);
        let (key, value) = (
            Some(key).filter(|key| fixed(key)),
            Some(value).filter(|value| fixed(value)),
        );
        // In the place of what is not known yet something stands that any label may have.
        let placeholder = || "x".to_owned();
        check_label(
            at,
            &key.cloned().unwrap_or_else(placeholder),
            &value.cloned().unwrap_or_else(placeholder),
            problems,
        );
    }
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
            offset: error.offset,
            hint: error.hint,
            ..Problem::new(format!("{field}.{}", error.field), error.message)
        }));
    }
}
