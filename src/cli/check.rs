//! `hawser check`: what is wrong with a `PublishedResource`, before any server sees it.

use std::fmt::Write as _;
use std::io::{self, Write as _};
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, ValueEnum};
use serde_json::{Value, json};

use super::manifest::{self, Document, ManifestError};
use crate::object::Gvk;
use crate::playground::crd::{Definition, default_crd};
use crate::playground::field;
use crate::playground::schema::Schema;
use crate::publish::compiled::{Agent, Compiled, Problem, Types};
use crate::publish::crd::Crd;
use crate::publish::naming::LocalScope;
use crate::publish::projection::{self, Projected, ProjectionError};
use crate::publish::types::{PublishedResourceSpec, manifest::crd};

/// Checks published resources offline: fields, templates, regular expressions, CEL, paths, and, where
/// their CRD is among the files, the projection.
#[derive(Debug, Args)]
pub(super) struct CheckArgs {
    /// YAML files with published resources and, if you like, the CRDs that they publish; - is stdin
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,

    #[arg(short, long, value_enum, default_value_t = Output::Human)]
    output: Output,
}

/// For whom the output is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Output {
    Human,
    Json,
}

/// What was found in one document.
struct Finding<'a> {
    document: &'a Document,
    problem: Problem,
}

pub(super) fn run(args: &CheckArgs) -> ExitCode {
    let documents = match read_all(&args.files) {
        Ok(documents) => documents,
        Err(error) => return super::fail(&error),
    };
    let findings: Vec<Finding<'_>> = documents
        .iter()
        .filter(|document| !is_crd(document))
        .flat_map(|document| {
            problems(document, &documents)
                .into_iter()
                .map(move |problem| Finding { document, problem })
        })
        .collect();
    let text = match args.output {
        Output::Human => human(&documents, &findings),
        Output::Json => machine(&findings),
    };
    // A reader that is gone needs no answer.
    let _ = io::stdout().write_all(text.as_bytes());
    if findings.is_empty() {
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

pub(super) fn is_published_resource(document: &Document) -> bool {
    document.text("/kind") == "PublishedResource"
}

fn problems(document: &Document, all: &[Document]) -> Vec<Problem> {
    if !is_published_resource(document)
        || document.text("/apiVersion") != "syncagent.kcp.io/v1alpha1"
    {
        let found = format!(
            "{} {}",
            document.text("/apiVersion"),
            document.text("/kind")
        );
        return vec![problem(
            "kind",
            format!("expected syncagent.kcp.io/v1alpha1 PublishedResource, found {found:?}"),
        )];
    }
    let mut found = by_schema(document);
    if !found.is_empty() {
        return found;
    }
    match compile(document, all) {
        Ok(_) => {}
        Err(problems) => found.extend(problems),
    }
    found
}

fn problem(field: &str, message: String) -> Problem {
    Problem {
        field: field.to_owned(),
        message,
        offset: None,
        hint: None,
    }
}

/// What the API server would find: wrong types, missing and unknown fields.
fn by_schema(document: &Document) -> Vec<Problem> {
    let schema = match schema() {
        Ok(schema) => schema,
        Err(why) => return vec![problem("", why)],
    };
    let mut value = document.value.clone();
    let mut found: Vec<Problem> = schema
        .prune(&mut value)
        .into_iter()
        .map(|path| Problem {
            hint: Some("the API server drops it without a word: correct or remove it".to_owned()),
            ..problem(&path, "this field is not known".to_owned())
        })
        .collect();
    schema.default(&mut value);
    let errors = schema.validate(&value);
    found.extend(errors.iter().map(|e| problem(e.field.as_str(), e.body())));
    found
}

fn schema() -> Result<Schema, String> {
    let mut crd = crd();
    default_crd(&mut crd);
    let definition = Definition::from_crd(&crd).map_err(|errors| field::aggregate(&errors))?;
    let version = definition.versions.into_iter().next();
    version
        .map(|version| version.schema)
        .ok_or_else(|| "our own CRD has no version".to_owned())
}

/// The spec of a document that went through [`by_schema`], and its compiled rules.
pub(super) fn compile(
    document: &Document,
    all: &[Document],
) -> Result<(PublishedResourceSpec, Compiled, Option<Projected>), Vec<Problem>> {
    let spec = document.value.get("spec").cloned().unwrap_or_default();
    let spec: PublishedResourceSpec =
        serde_json::from_value(spec).map_err(|error| vec![problem("spec", error.to_string())])?;
    // A type that cannot be told is assumed, so that all else is checked too.
    let mut found = Vec::new();
    let (types, projected) = match defined(&spec, all) {
        Ok(Some((projected, types))) => (types, Some(projected)),
        Ok(None) => (assumed(&spec), None),
        Err(problem) => {
            found.push(problem);
            (assumed(&spec), None)
        }
    };
    let agent = Agent {
        name: "agent".to_owned(),
        namespace: "default".to_owned(),
    };
    match Compiled::compile(&spec, types, agent) {
        Ok(compiled) if found.is_empty() => Ok((spec, compiled, projected)),
        Ok(_) => Err(found),
        Err(more) => {
            found.extend(more);
            Err(found)
        }
    }
}

/// The published type, if its CRD is among the documents.
fn defined(
    spec: &PublishedResourceSpec,
    all: &[Document],
) -> Result<Option<(Projected, Types)>, Problem> {
    let wanted = &spec.resource;
    let found = all
        .iter()
        .filter(|document| is_crd(document))
        .find(|document| {
            document.text("/spec/group") == wanted.api_group
                && document.text("/spec/names/kind") == wanted.kind
        });
    let of_projection = |error: ProjectionError| problem(error.field(spec), error.to_string());
    let Some(document) = found else {
        projection::coherent(spec).map_err(of_projection)?;
        return Ok(None);
    };
    let crd = Crd::from_json(document.value.to_string().as_bytes()).map_err(|error| {
        let file = document.file.display();
        problem("spec.resource", format!("its CRD in {file}: {error}"))
    })?;
    let projected = projection::project(&crd, spec).map_err(of_projection)?;
    let types = Types::of(&crd, &projected);
    Ok(Some((projected, types)))
}

/// What is assumed of a type that nobody has shown.
fn assumed(spec: &PublishedResourceSpec) -> Types {
    let resource = &spec.resource;
    let version = resource
        .version
        .clone()
        .or_else(|| resource.versions.first().cloned())
        .unwrap_or_else(|| "v1".to_owned());
    let gvk = Gvk::new(&resource.api_group, &version, &resource.kind);
    Types {
        local: gvk.clone(),
        remote: gvk,
        local_scope: LocalScope::Namespaced,
        subresources: vec!["status"],
        remote_status: true,
    }
}

fn human(documents: &[Document], findings: &[Finding<'_>]) -> String {
    let mut text = String::new();
    for Finding { document, problem } in findings {
        let place = document.place(&problem.field, problem.offset);
        let _ = writeln!(text, "error: {problem}");
        let (file, line, column) = (document.file.display(), place.line + 1, place.column + 1);
        let _ = writeln!(text, " --> {file}:{line}:{column}");
        text.push_str(&document.excerpt(place));
        if let Some(hint) = &problem.hint {
            let _ = writeln!(text, "help: {hint}");
        }
        text.push('\n');
    }
    let checked = documents.iter().filter(|document| !is_crd(document));
    for document in checked {
        let wrong = findings
            .iter()
            .filter(|finding| std::ptr::eq(finding.document, document))
            .count();
        let verdict = match wrong {
            0 => "ok".to_owned(),
            1 => "1 error".to_owned(),
            n => format!("{n} errors"),
        };
        let file = document.file.display();
        let _ = writeln!(text, "{file}: {}: {verdict}", document.describe());
    }
    text
}

fn machine(findings: &[Finding<'_>]) -> String {
    let list: Vec<Value> = findings
        .iter()
        .map(|Finding { document, problem }| {
            let place = document.place(&problem.field, problem.offset);
            json!({
                "file": document.file,
                "document": document.describe(),
                "line": place.line + 1,
                "column": place.column + 1,
                "field": problem.field,
                "message": problem.message,
                "hint": problem.hint,
            })
        })
        .collect();
    format!(
        "{:#}\n",
        json!({"ok": findings.is_empty(), "problems": list})
    )
}
