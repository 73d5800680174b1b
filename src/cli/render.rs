//! `hawser render`: the result of applying the rules of a `PublishedResource` to an object; and single templates, CEL
//! expressions and paths.

use std::error::Error;
use std::fmt::Write as _;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use clap::{Args, Subcommand, ValueEnum};
use serde_json::{Value, json};

use super::check;
use super::manifest::{self, Document};
use super::metadata;
use super::output::Output;
use crate::mutation::Pipeline;
use crate::mutation::Step;
use crate::publish::compiled::Compiled;
use crate::publish::marks::Remote;
use crate::publish::problem::Problem;
use crate::publish::projection::Projected;
use crate::publish::related::{
    self, AlwaysQuiet, ClaimIndex, End, EntryExplanation, Kinds, RelatedContext, RelatedKind,
    TypeName,
};
use crate::publish::rules::{self, ObjectRules, Sides};
use crate::publish::schema;
use crate::publish::types::Origin;
use crate::rehearsal::Rehearsal;
use hawser_sync::{CopyOrigin, Facts, PassView, Request, Rules as _, Scope};
use kube_lang::object::{Gvk, Object};
use kube_lang::paths;
use kube_lang::template::{Engine, Template};

/// Show how an object of a workspace would be synced.
///
/// Shows names, the published schema, content, and the requests of a pass. Sends no request.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
#[command(after_help = "Examples:
  # Show the copy of an object, and the requests of a pass
  hawser render published-resource.yaml crd.yaml object.yaml

  # Evaluate an expression as a mutation step does
  hawser render cel self.spec.size*2 --object object.yaml")]
pub(super) struct RenderArgs {
    #[command(subcommand)]
    piece: Option<Piece>,

    /// YAML files with one PublishedResource, its CRD, an object of a workspace, and optionally its copy on the service cluster
    #[arg(value_name = "FILE")]
    files: Vec<PathBuf>,

    /// Logical cluster of the workspace
    #[arg(long, default_value = "1a2b3c4d5e6f7g8h")]
    cluster: String,

    /// Path of the workspace
    #[arg(long, default_value = "root:org:team")]
    cluster_path: String,

    #[arg(short, long, value_enum, default_value_t = Output::Human)]
    output: Output,
}

#[derive(Debug, Subcommand)]
enum Piece {
    /// Render a template with data from a file
    Template {
        /// Template, for example '{{ .Object.metadata.name }}'
        text: String,
        /// JSON or YAML; - is stdin
        #[arg(long, value_name = "FILE")]
        data: PathBuf,
        #[arg(long, value_enum, default_value_t = TemplateLanguage::Go)]
        engine: TemplateLanguage,
        #[arg(short, long, value_enum, default_value_t = Output::Human)]
        output: Output,
    },
    /// Evaluate a CEL expression like a mutation step, and show its result
    Cel {
        /// CEL expression, for example 'self.spec.size * 2'
        expression: String,
        /// The object that is changed
        #[arg(long, value_name = "FILE")]
        object: PathBuf,
        /// The object on the other side
        #[arg(long, value_name = "FILE")]
        other: Option<PathBuf>,
        /// The field that is the variable `value` and that the step writes
        #[arg(long, default_value = "result")]
        path: String,
        #[arg(short, long, value_enum, default_value_t = Output::Human)]
        output: Output,
    },
    /// Read a path from an object
    Path {
        /// Path, for example spec.ports.0.name
        path: String,
        #[arg(long, value_name = "FILE")]
        object: PathBuf,
        #[arg(short, long, value_enum, default_value_t = Output::Human)]
        output: Output,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum TemplateLanguage {
    /// Go's text/template, as in naming and related objects
    Go,
    /// Go's html/template, as in mutations: values are escaped for HTML
    Html,
    Handlebars,
}

type Failure = Box<dyn Error>;

pub(super) fn run(args: &RenderArgs) -> ExitCode {
    let rendered = match &args.piece {
        Some(piece) => render_piece(piece),
        None => render(args),
    };
    match rendered {
        Ok(text) => {
            // A reader that is gone needs no answer.
            let _ = io::stdout().write_all(text.as_bytes());
            ExitCode::SUCCESS
        }
        Err(failure) => super::output::fail(&*failure),
    }
}

fn read_single(path: &Path) -> Result<Value, Failure> {
    let mut documents = manifest::read(path)?;
    Ok(documents.swap_remove(0).value)
}

fn render_piece(piece: &Piece) -> Result<String, Failure> {
    let (result, output) = match piece {
        Piece::Template {
            text,
            data,
            engine,
            output,
        } => {
            let engine = match engine {
                TemplateLanguage::Go => Engine::Go,
                TemplateLanguage::Html => Engine::GoHtml,
                TemplateLanguage::Handlebars => Engine::Handlebars,
            };
            let text = Template::compile(engine, text)?.render(&read_single(data)?)?;
            if *output == Output::Human {
                return Ok(format!("{text}\n"));
            }
            (Value::String(text), output)
        }
        Piece::Cel {
            expression,
            object,
            other,
            path,
            output,
        } => {
            let step = Step::Cel {
                path: path.clone(),
                expression: expression.clone(),
            };
            let pipeline =
                Pipeline::compile(&[step]).map_err(|mut errors| errors.swap_remove(0))?;
            let other = other.as_deref().map(read_single).transpose()?;
            let mutated = pipeline.apply(&read_single(object)?, other.as_ref())?;
            (paths::get(&mutated, path)?.value(), output)
        }
        Piece::Path {
            path,
            object,
            output,
        } => (paths::get(&read_single(object)?, path)?.value(), output),
    };
    Ok(output.show(
        || format!("{}\n", paths::compact(&result)),
        || json!({ "result": result }),
    ))
}

/// Everything that is shown of an object.
struct RenderedObject {
    names: Value,
    schema: Option<Value>,
    content: Value,
    marks: Value,
    steps: Vec<Value>,
    outcome: Value,
    copy: Option<Value>,
    related: Vec<EntryExplanation>,
}

fn render(args: &RenderArgs) -> Result<String, Failure> {
    let documents = check::read_all(&args.files)?;
    let published = documents
        .iter()
        .find(|document| check::is_published_resource(document))
        .ok_or("no PublishedResource in the files; see `hawser render --help`")?;
    let (_, compiled, projected) =
        check::compile(published, &documents).map_err(|problems| faulty(published, &problems))?;
    for document in documents.iter().filter(|document| is_object(document)) {
        let problems = metadata::problems(&document.value);
        if !problems.is_empty() {
            return Err(faulty(document, &problems).into());
        }
    }
    let compiled = Arc::new(compiled);
    let types = compiled.types().clone();
    let object = find(&documents, &types.remote)
        .ok_or_else(|| {
            let kind = &types.remote;
            format!("no object of {kind} in the files. If that is not the kind in workspaces, add the CRD of the published kind to the files")
        })?;
    let remote = Remote::of(&object, &args.cluster);
    let rules = ObjectRules::new(
        &compiled,
        &Sides::default(),
        remote,
        Some(&args.cluster_path),
    );
    let shown = show(
        &rules,
        &compiled,
        projected.as_ref(),
        (
            &object,
            copy(&documents, &types.local, &types.remote).as_ref(),
        ),
        &documents,
    )?;
    Ok(args.output.show(|| human(&shown), || machine(&shown)))
}

fn faulty(document: &Document, problems: &[Problem]) -> String {
    let mut text = format!("{} has errors:", document.describe());
    for problem in problems.iter().filter(|problem| problem.is_error()) {
        let place = document.place(&problem.field, problem.part, problem.offset);
        let (file, line, column) = (document.file.display(), place.line + 1, place.column + 1);
        let _ = write!(text, "\n  {file}:{line}:{column}: {problem}");
        if let Some(hint) = &problem.hint {
            let _ = write!(text, " ({hint})");
        }
    }
    text
}

fn is_object(document: &Document) -> bool {
    !check::is_crd(document) && !check::is_published_resource(document)
}

/// The first object of a kind.
fn find(documents: &[Document], kind: &Gvk) -> Option<Object> {
    let objects = documents.iter().filter(|document| is_object(document));
    let mut found = objects.filter_map(|document| Object::new(document.value.clone()).ok());
    found.find(|object| {
        let gvk = object.gvk();
        gvk.group == kind.group && gvk.kind == kind.kind
    })
}

/// The existing copy: the first object of the local kind, or the second if both sides have the same kind.
fn copy(documents: &[Document], local: &Gvk, remote: &Gvk) -> Option<Object> {
    if (&local.group, &local.kind) != (&remote.group, &remote.kind) {
        return find(documents, local);
    }
    let objects = documents.iter().filter(|document| is_object(document));
    let mut found = objects.filter_map(|document| Object::new(document.value.clone()).ok());
    found.nth(1)
}

fn show(
    rules: &ObjectRules,
    compiled: &Arc<Compiled>,
    projected: Option<&Projected>,
    (object, copy): (&Object, Option<&Object>),
    documents: &[Document],
) -> Result<RenderedObject, Failure> {
    let hands = Rehearsal::default();
    let subject = rules::subject_of(rules.clone());
    hands.put(&subject.anchor, object);
    let (facts, link) = (Facts::default(), &subject.links[0]);
    let placed = facts
        .place(link, object)
        .map_err(|reason| reason.to_string())?;
    if let Some(copy) = copy {
        let key = Scope::new(&placed.side, &placed.kind, "").key(copy.namespace(), copy.name());
        hands.put(&key, copy);
    }
    let desired = facts
        .desired(link, object, copy)
        .map_err(|reason| reason.to_string())?;
    let marks = rules.marks(object, CopyOrigin::Created);
    let (report, sent) = hands.pass(&subject);
    let outcome = report.outcomes.first().map(|outcome| {
        json!({"code": outcome.reason.code.as_str(), "explanation": outcome.reason.to_string()})
    });
    let schema = projected
        .map(|projected| schema::publish(&projected.crd, "agent"))
        .transpose()?;
    let memory = subject.memory.as_ref().map(|place| place.key.to_string());
    // The agent compares content, and writes it with the kind of the copy.
    let mut content = desired.as_value().clone();
    content["apiVersion"] = placed.kind.api_version().into();
    content["kind"] = placed.kind.kind.clone().into();
    Ok(RenderedObject {
        names: json!({
            "object": subject.anchor.to_string(),
            "copy": placed.to_string(),
            "state": memory,
            "local": compiled.types().local.to_string(),
            "remote": compiled.types().remote.to_string(),
        }),
        schema: schema.map(|schema| schema.object),
        content,
        marks: json!({
            "labels": marks.labels().collect::<std::collections::BTreeMap<_, _>>(),
            "annotations": marks.annotations().collect::<std::collections::BTreeMap<_, _>>(),
        }),
        steps: sent.iter().map(step).collect(),
        outcome: outcome.unwrap_or_default(),
        copy: hands.object(&placed).map(|copy| copy.as_value().clone()),
        related: led(rules, compiled, documents, &hands),
    })
}

/// The objects that the related entries lead to, once object and copy are in sync. Only originals in the files are
/// known.
fn led(
    rules: &ObjectRules,
    compiled: &Arc<Compiled>,
    documents: &[Document],
    hands: &Rehearsal,
) -> Vec<EntryExplanation> {
    let mut kinds = Kinds::default();
    for entry in compiled.related() {
        let (here, there) = (entry.on_service(), entry.in_workspaces());
        for (side, name) in [(Origin::Service, here), (Origin::Kcp, there)] {
            if kinds.get(side, name).is_none() {
                kinds.learn(side, name.clone(), kind_of(name, documents));
            }
        }
        let Some(kind) = kinds.get(entry.origin, &entry.source) else {
            continue;
        };
        let scope = match entry.origin {
            Origin::Kcp => Scope::new(&rules.sides().kcp, &kind.kind, &rules.remote().cluster),
            Origin::Service => Scope::new(&rules.sides().service, &kind.kind, ""),
        };
        let objects = documents.iter().filter(|document| is_object(document));
        for object in objects.filter_map(|document| Object::new(document.value.clone()).ok()) {
            let found = object.gvk();
            let key = scope.key(object.namespace(), object.name());
            if (&found.group, &found.kind) == (&kind.kind.group, &kind.kind.kind)
                && hands.object(&key).is_none()
            {
                hands.put(&key, &object);
            }
        }
    }
    let ledger = ClaimIndex::default();
    let around = RelatedContext {
        kinds: &kinds,
        ledger: &ledger,
        published: &[],
        quiet: &AlwaysQuiet,
    };
    let view = PassView::new(hands);
    let subject = related::extend(rules::subject_of(rules.clone()), rules, around, &view);
    // What would have to be read is not among the files.
    let subject = subject.unwrap_or_else(|_| rules::subject_of(rules.clone()));
    related::leads(compiled.related(), &subject, rules.sides(), rules.remote())
}

/// A kind, from the CRD in the files; without a CRD it is assumed to be namespaced.
fn kind_of(name: &TypeName, documents: &[Document]) -> RelatedKind {
    let mut crds = documents.iter().filter(|document| check::is_crd(document));
    let crd = crds.find(|crd| {
        crd.text("/spec/group") == name.group && crd.text("/spec/names/plural") == name.resource
    });
    let kind = crd.map_or(&*name.resource, |crd| crd.text("/spec/names/kind"));
    RelatedKind {
        kind: Arc::new(Gvk::new(&name.group, &name.version, kind)),
        namespaced: crd.is_none_or(|crd| crd.text("/spec/scope") != "Cluster"),
        status: false,
    }
}

fn step(request: &Request) -> Value {
    let what = match request {
        Request::Find { scope, .. } => format!("{} {}", scope.side, scope.kind.kind),
        other => other.key().map(ToString::to_string).unwrap_or_default(),
    };
    let body = match request {
        Request::Create { object, .. }
        | Request::Replace { object, .. }
        | Request::ReplaceStatus { object, .. } => object.as_value().clone(),
        Request::Patch { patch, .. } => patch.clone(),
        Request::Read { .. } | Request::Find { .. } | Request::Delete { .. } => Value::Null,
    };
    json!({"request": request.verb(), "of": what, "body": body})
}

fn human(shown: &RenderedObject) -> String {
    let mut text = String::new();
    let name = |field: &str| shown.names[field].as_str().unwrap_or_default();
    let _ = writeln!(text, "object:  {}", name("object"));
    let _ = writeln!(text, "copy:    {}", name("copy"));
    let _ = writeln!(text, "state:   {}", name("state"));
    let _ = writeln!(
        text,
        "type:    {} in workspaces, {} here",
        name("remote"),
        name("local")
    );
    if let Some(schema) = &shown.schema {
        let schema = schema["metadata"]["name"].as_str().unwrap_or_default();
        let _ = writeln!(text, "schema:  {schema}");
    }
    let _ = writeln!(text, "\ncontent of the copy:\n{}", indented(&shown.content));
    let _ = writeln!(
        text,
        "\nlabels and annotations of the copy:\n{}",
        indented(&shown.marks)
    );
    let _ = writeln!(text, "\nthe agent would send:");
    for (number, step) in shown.steps.iter().enumerate() {
        let field = |name: &str| step[name].as_str().unwrap_or_default();
        let _ = writeln!(
            text,
            "  {}. {} {}",
            number + 1,
            field("request"),
            field("of")
        );
    }
    let _ = writeln!(
        text,
        "\nand end with: {}",
        shown.outcome["explanation"].as_str().unwrap_or_default()
    );
    if !shown.related.is_empty() {
        let _ = writeln!(text, "\nrelated objects:");
    }
    let mut entry = None;
    for lead in &shown.related {
        let end = match &lead.end {
            End::Copy { original, copy } => format!("{original} -> {copy}"),
            End::Refused { why, .. } => format!("refused: {why}"),
            End::Nowhere(why) => format!("nowhere yet: {why}"),
        };
        if entry.replace(&lead.entry) != Some(&lead.entry) {
            let _ = writeln!(
                text,
                "  {}: names are set by {}",
                lead.entry, lead.authors.names
            );
            if let Some(namespaces) = lead.authors.namespaces {
                let _ = writeln!(text, "  {}: namespaces are set by {namespaces}", lead.entry);
            }
        }
        let _ = writeln!(text, "  {}: {end}", lead.entry);
    }
    text
}

fn indented(value: &Value) -> String {
    let yaml = serde_saphyr::to_string(value).unwrap_or_else(|_| format!("{value:#}"));
    let lines = yaml.lines().map(|line| format!("  {line}"));
    lines.collect::<Vec<_>>().join("\n")
}

fn machine(shown: &RenderedObject) -> Value {
    json!({
        "names": shown.names,
        "schema": shown.schema,
        "content": shown.content,
        "marks": shown.marks,
        "steps": shown.steps,
        "outcome": shown.outcome,
        "copy": shown.copy,
        "related": shown.related.iter().map(EntryExplanation::as_json).collect::<Vec<_>>(),
    })
}
