//! `hawser check`: problems of a `PublishedResource`, before any server sees it.

use std::fmt::Write as _;
use std::io::{self, Write as _};
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use serde_json::{Value, json};

use super::manifest::{self, Document, ManifestError};
use super::metadata;
use super::output::Output;
use crate::publish::compiled::{AgentIdentity, Compiled};
use crate::publish::crd::Crd;
use crate::publish::naming::LocalScope;
use crate::publish::problem::{Part, Problem};
use crate::publish::projection::{self, Projected, ProjectionError, Types};
use crate::publish::publishers::Publisher;
use crate::publish::related::{self, Authors};
use crate::publish::types::{PublishedResourceSpec, manifest::crd};
use hawser_runtime::errors::chain;
use kube_lang::object::Gvk;
use kube_schema::crd::{Definition, default_crd};
use kube_schema::field::{self, FieldError};
use kube_schema::schema::Schema;

mod readable;

use readable::Readable;

/// Check published resources offline.
///
/// Checks fields, templates, regular expressions, CEL and paths. The projection is checked if the CRD is among the
/// files.
#[derive(Debug, Args)]
#[allow(clippy::doc_markdown)] // These comments are the help.
#[command(after_help = "Examples:
  # Check a PublishedResource together with the CRD that it publishes
  hawser check published-resource.yaml crd.yaml")]
pub(super) struct CheckArgs {
    /// YAML files with PublishedResources and, optionally, the CRDs that they publish; - is stdin
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,

    #[arg(short, long, value_enum, default_value_t = Output::Human)]
    output: Output,
}

#[derive(Debug, thiserror::Error)]
#[error("none of the files contains a PublishedResource: add a file with one")]
struct NothingToCheck;

/// One problem of a document.
struct Finding<'a> {
    document: &'a Document,
    problem: Problem,
}

/// The authors of a name or namespace that a field of a document leads to.
struct FieldAuthors<'a> {
    document: &'a Document,
    field: String,
    authors: Authors,
}

pub(super) fn run(args: &CheckArgs) -> ExitCode {
    let documents = match read_all(&args.files) {
        Ok(documents) => documents,
        Err(error) => return super::output::fail(&error),
    };
    if !documents.iter().any(is_published_resource) {
        return super::output::fail(&NothingToCheck);
    }
    let (mut findings, mut words) = (Vec::new(), Vec::new());
    for document in documents.iter().filter(|one| is_published_resource(one)) {
        let (problems, found) = problems(document, &documents);
        let finding = |problem| Finding { document, problem };
        findings.extend(problems.into_iter().map(finding));
        words.extend(found.into_iter().map(|(field, authors)| FieldAuthors {
            document,
            field,
            authors,
        }));
    }
    let text = args.output.show(
        || human(&documents, &findings, &words),
        || machine(&documents, &findings, &words),
    );
    // A reader that is gone needs no answer.
    let _ = io::stdout().write_all(text.as_bytes());
    if errors(&findings) == 0 {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

pub(super) fn read_all(files: &[PathBuf]) -> Result<Vec<Document>, ManifestError> {
    let mut documents = Vec::new();
    for file in files {
        documents.extend(manifest::read(file)?);
    }
    Ok(documents)
}

pub(super) fn is_crd(document: &Document) -> bool {
    document.text("/kind") == "CustomResourceDefinition"
}

/// True for a PublishedResource, and for a document that was meant to be one, with a slip in its kind or group.
pub(super) fn is_published_resource(document: &Document) -> bool {
    document.text("/kind") == "PublishedResource"
        || document
            .text("/apiVersion")
            .starts_with("syncagent.kcp.io/")
}

/// Documents for other purposes, such as the objects to render.
fn skipped(documents: &[Document]) -> impl Iterator<Item = &Document> {
    let other = |document: &&Document| !is_published_resource(document) && !is_crd(document);
    documents.iter().filter(other)
}

/// Everything that is wrong with a document, and whose words its fields make.
pub(super) fn problems(
    document: &Document,
    all: &[Document],
) -> (Vec<Problem>, Vec<(String, Authors)>) {
    let found = (document.text("/apiVersion"), document.text("/kind"));
    if found != ("syncagent.kcp.io/v1alpha1", "PublishedResource") {
        let found = format!("{} {}", found.0, found.1);
        let problem = Problem::new(
            "kind",
            format!("expected syncagent.kcp.io/v1alpha1 PublishedResource, found {found:?}"),
        );
        return (vec![problem], Vec::new());
    }
    let schema = match schema() {
        Ok(schema) => schema,
        Err(why) => return (vec![Problem::new("", why)], Vec::new()),
    };
    let mut found = by_schema(&schema, document);
    let Some(readable) = Readable::of(&schema, &document.value) else {
        return (found, Vec::new());
    };
    let more = readable.errors.iter().filter_map(of_schema).collect();
    found.extend(readable.in_manifest_terms(more));
    let rules = rules(&readable.spec, all);
    // Some rules stand in the schema too.
    let said = |found: &[Problem], problem: &Problem| {
        let same =
            |one: &Problem| one.field == problem.field && one.message.ends_with(&problem.message);
        found.iter().any(same)
    };
    for problem in readable.in_manifest_terms(rules.problems) {
        if !said(&found, &problem) {
            found.push(problem);
        }
    }
    found.extend(contested(document, all));
    let words = match rules.compiled {
        Some(compiled) if !found.iter().any(Problem::is_error) => compiled.name_authors(),
        _ => Vec::new(),
    };
    (found, words)
}

/// Another name that the kind is published under.
fn contested(document: &Document, all: &[Document]) -> Option<Problem> {
    let spec = |document: &Document| -> Option<PublishedResourceSpec> {
        serde_json::from_value(document.value.get("spec")?.clone()).ok()
    };
    let publisher = |document: &Document| {
        let spec = spec(document)?;
        let created = document.text("/metadata/creationTimestamp");
        let created = Some(created).filter(|created| !created.is_empty());
        spec.synchronizes()
            .then(|| Publisher::of(&spec, document.text("/metadata/name"), created))
    };
    let writes = |one: &&Document| spec(one).is_none_or(|spec| !spec.plans_only());
    let others = all.iter().filter(|one| is_published_resource(one));
    let others = others.filter(writes);
    let others: Vec<_> = others.filter_map(publisher).collect();
    publisher(document)?.problem(&others)
}

/// The problems that the API server would find: wrong types, missing and unknown fields.
fn by_schema(schema: &Schema, document: &Document) -> Vec<Problem> {
    let mut found = metadata::problems(&document.value);
    if found.is_empty() && !metadata::is_named(&document.value) {
        found.push(Problem::new("metadata.name", "is missing"));
    }
    let mut value = document.value.clone();
    found.extend(schema.prune(&mut value).into_iter().map(|path| {
        Problem::new(path, "unknown field")
            .at(Part::Key)
            .with_hint("the API server drops the field silently: correct or remove it")
    }));
    schema.default(&mut value);
    found.extend(schema.validate(&value, None).iter().filter_map(of_schema));
    found
}

/// An error of the schema, unless it only says that there are others.
fn of_schema(error: &FieldError) -> Option<Problem> {
    if error.field == "<nil>" {
        return None;
    }
    let body = error.body();
    let problem = Problem::new(error.field.as_str(), &body);
    let hint = body
        .ends_with("must be of type string: \"boolean\"")
        .then(|| metadata::quoting(&Value::Bool(true)))
        .flatten();
    Some(match hint {
        Some(hint) => problem.with_hint(hint),
        None => problem,
    })
}

fn schema() -> Result<Schema, String> {
    let mut crd = crd();
    default_crd(&mut crd);
    let definition = Definition::from_crd(&crd).map_err(|errors| field::aggregate(&errors))?;
    let version = definition.versions.into_iter().next();
    version
        .map(|version| version.schema)
        .ok_or_else(|| "the CRD of PublishedResources has no version".to_owned())
}

/// The rules of a published resource.
struct Rules {
    /// All problems, warnings among them.
    problems: Vec<Problem>,
    /// `None` if one of the problems is an error of the rules themselves.
    compiled: Option<Compiled>,
    /// The published type as workspaces see it, if its CRD is among the documents.
    projected: Option<Projected>,
}

/// Compiles a document's rules, or returns all errors in them.
pub(super) fn compile(
    document: &Document,
    all: &[Document],
) -> Result<(PublishedResourceSpec, Compiled, Option<Projected>), Vec<Problem>> {
    let spec = document.value.get("spec").cloned().unwrap_or_default();
    let spec: PublishedResourceSpec =
        serde_json::from_value(spec).map_err(|error| vec![Problem::new("spec", error)])?;
    let rules = rules(&spec, all);
    match rules.compiled {
        Some(compiled) if !rules.problems.iter().any(Problem::is_error) => {
            Ok((spec, compiled, rules.projected))
        }
        _ => Err(rules.problems),
    }
}

fn rules(spec: &PublishedResourceSpec, all: &[Document]) -> Rules {
    let mut problems = Vec::new();
    // A type that cannot be told is assumed, so that all else is checked too.
    let (types, projected) = match defined(spec, all) {
        Ok(found) => {
            problems.extend(unused_versions(spec, all));
            problems.extend(dangling_reference_problems(spec, all));
            found.map_or_else(
                || (assumed(spec), None),
                |(projected, types)| (types, Some(projected)),
            )
        }
        Err(problem) => {
            problems.push(problem);
            (assumed(spec), None)
        }
    };
    let agent = AgentIdentity {
        name: "agent".to_owned(),
        namespace: "hawser".to_owned(),
    };
    let compiled = match Compiled::compile(spec, types, agent) {
        Ok(compiled) => {
            problems.extend_from_slice(compiled.warnings());
            Some(compiled)
        }
        Err(found) => {
            problems.extend(found);
            None
        }
    };
    Rules {
        problems,
        compiled,
        projected,
    }
}

/// The CRD of the published kind, if it is among the documents.
pub(super) fn definition<'d>(
    spec: &PublishedResourceSpec,
    all: &'d [Document],
) -> Option<&'d Document> {
    let wanted = &spec.resource;
    all.iter()
        .filter(|document| is_crd(document))
        .find(|document| {
            document.text("/spec/group") == wanted.api_group
                && document.text("/spec/names/kind") == wanted.kind
        })
}

/// The published type as the documents have it.
fn defined(
    spec: &PublishedResourceSpec,
    all: &[Document],
) -> Result<Option<(Projected, Types)>, Problem> {
    let of_projection = |error: ProjectionError| Problem::new(error.field(spec), &error);
    let Some(document) = definition(spec, all) else {
        projection::coherent(spec).map_err(of_projection)?;
        return Ok(None);
    };
    let crd = Crd::from_json(document.value.to_string().as_bytes()).map_err(|error| {
        let file = document.file.display();
        let message = format!("the CRD in {file}: {}", chain(&error));
        Problem::new("spec.resource", message)
    })?;
    let projected = projection::project(&crd, spec).map_err(of_projection)?;
    let types = Types::of(&crd, &projected);
    Ok(Some((projected, types)))
}

/// References that lead nowhere in the schema of the published kind.
fn dangling_reference_problems(spec: &PublishedResourceSpec, all: &[Document]) -> Vec<Problem> {
    let crd = definition(spec, all)
        .and_then(|document| Crd::from_json(document.value.to_string().as_bytes()).ok());
    let found = crd.map(|crd| related::dangling_references(spec, &crd));
    let problem = |stray: related::DanglingReference| {
        Problem::new(stray.field.as_str(), stray.explain())
            .warning()
            .with_hint("the schema allows no value at this path: correct the path")
    };
    found.into_iter().flatten().map(problem).collect()
}

/// Versions that are named and come to nothing, because the CRD or the selection lacks them.
fn unused_versions(spec: &PublishedResourceSpec, all: &[Document]) -> Vec<Problem> {
    let Some(document) = definition(spec, all) else {
        return Vec::new();
    };
    let versions = document.value["spec"]["versions"].as_array();
    let there: Vec<&str> = versions
        .into_iter()
        .flatten()
        .filter_map(|version| version["name"].as_str())
        .collect();
    let resource = &spec.resource;
    let selected = |name: &&&str| match (&resource.version, resource.versions.as_slice()) {
        (Some(one), []) if !one.is_empty() => one == **name,
        (_, []) => true,
        (_, several) => several.iter().any(|wanted| wanted == **name),
    };
    let published: Vec<&str> = there.iter().filter(selected).copied().collect();
    let listed = resource.versions.iter().enumerate();
    let missing = listed
        .filter(|(_, version)| !there.contains(&version.as_str()))
        .map(|(index, version)| {
            let message = format!(
                "the CRD has no version {version}, only {}",
                there.join(", ")
            );
            Problem::new(format!("spec.resource.versions[{index}]"), message)
        });
    let renamed = spec
        .projection
        .iter()
        .flat_map(|projection| projection.versions.keys());
    let idle = renamed
        .filter(|version| !published.contains(&version.as_str()))
        .map(|version| {
            let message = format!(
                "the version {version} is not published, only {}",
                published.join(", ")
            );
            Problem::new(format!("spec.projection.versions.{version}"), message).at(Part::Key)
        });
    missing.chain(idle).map(Problem::warning).collect()
}

/// The assumptions about a type whose CRD is not among the files.
fn assumed(spec: &PublishedResourceSpec) -> Types {
    let resource = &spec.resource;
    let version = resource
        .version
        .clone()
        .or_else(|| resource.versions.first().cloned())
        .unwrap_or_else(|| "v1".to_owned());
    let gvk = Gvk::new(&resource.api_group, &version, &resource.kind);
    Types {
        local: gvk.clone().into(),
        remote: gvk.into(),
        local_scope: LocalScope::Namespaced,
        subresources: vec!["status"],
        remote_status: true,
        remote_status_schema: None,
    }
}

fn human(documents: &[Document], findings: &[Finding<'_>], words: &[FieldAuthors<'_>]) -> String {
    let mut text = String::new();
    for Finding { document, problem } in findings {
        let place = document.place(&problem.field, problem.part, problem.offset);
        let _ = writeln!(text, "{}: {problem}", problem.severity.as_str());
        let (file, line, column) = (document.file.display(), place.line + 1, place.column + 1);
        let _ = writeln!(text, " --> {file}:{line}:{column}");
        text.push_str(&document.excerpt(place));
        if let Some(hint) = &problem.hint {
            let _ = writeln!(text, "help: {hint}");
        }
        text.push('\n');
    }
    for document in skipped(documents) {
        let (file, what) = (document.file.display(), document.describe());
        let _ = writeln!(text, "{file}: {what}: skipped, not a PublishedResource");
    }
    for document in documents.iter().filter(|one| is_published_resource(one)) {
        let of_it = |finding: &&Finding<'_>| std::ptr::eq(finding.document, document);
        let (wrong, doubtful): (Vec<_>, Vec<_>) = findings
            .iter()
            .filter(of_it)
            .partition(|finding| finding.problem.is_error());
        let mut verdict = match wrong.len() {
            0 => "ok".to_owned(),
            n => counted(n, "error"),
        };
        if !doubtful.is_empty() {
            let _ = write!(verdict, ", {}", counted(doubtful.len(), "warning"));
        }
        let file = document.file.display();
        let _ = writeln!(text, "{file}: {}: {verdict}", document.describe());
        for one in words
            .iter()
            .filter(|one| std::ptr::eq(one.document, document))
        {
            let _ = writeln!(text, "  {}: set by {}", one.field, one.authors);
        }
    }
    text
}

fn counted(n: usize, what: &str) -> String {
    let plural = if n == 1 { "" } else { "s" };
    format!("{n} {what}{plural}")
}

fn errors(findings: &[Finding<'_>]) -> usize {
    let wrong = findings.iter().filter(|finding| finding.problem.is_error());
    wrong.count()
}

fn machine(documents: &[Document], findings: &[Finding<'_>], words: &[FieldAuthors<'_>]) -> Value {
    let list: Vec<Value> = findings
        .iter()
        .map(|Finding { document, problem }| {
            let place = document.place(&problem.field, problem.part, problem.offset);
            json!({
                "file": document.file,
                "document": document.describe(),
                "line": place.line + 1,
                "column": place.column + 1,
                "severity": problem.severity.as_str(),
                "field": problem.field,
                "message": problem.message,
                "hint": problem.hint,
            })
        })
        .collect();
    let skipped: Vec<Value> = skipped(documents)
        .map(|document| json!({"file": document.file, "document": document.describe()}))
        .collect();
    let mut answer = json!({"ok": errors(findings) == 0, "problems": list, "skipped": skipped});
    if !words.is_empty() {
        let words = words.iter().map(|one| {
            json!({"file": one.document.file, "document": one.document.describe(),
                "field": one.field, "authors": one.authors.as_json()})
        });
        answer["authors"] = words.collect();
    }
    answer
}

#[cfg(test)]
mod tests;
