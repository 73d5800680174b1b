//! Problems of a document that are refused, warned of or ignored: unknown fields and repeated keys.

use bytes::Bytes;
use serde_json::Value;

use super::body::PatchKind;
use super::metadata;
use super::query::FieldValidation;
use super::target::ResourcePath;
use crate::catalog::{Flavour, Resource};
use crate::custom;
use crate::patch::go;
use crate::status::Status;
use kube_lang::object::Object;
use kube_schema::crd::tidy::unknown_formats;
use kube_schema::field::FieldError;
use kube_schema::json::{self, Document, Syntax};

/// The beginning of a refusal's message.
const STRICT: &str = "strict decoding error: ";

/// The problems of the fields of a document.
pub(super) struct Complaints {
    validation: FieldValidation,
    sent: DocumentKind,
    /// Messages.
    duplicates: Vec<String>,
    /// Paths.
    unknown: Vec<String>,
    /// All messages in the order of the document, if the server reports them in that order.
    ordered: Option<Vec<String>>,
    /// Messages that are always sent as warnings.
    doubts: Vec<String>,
}

/// The source of the document.
enum DocumentKind {
    /// A JSON object, as it was sent.
    Json(Bytes),
    Yaml,
    /// The configuration of an apply, in YAML.
    Configuration,
    Patch,
}

impl Complaints {
    /// The problems of an object. `body` is the text that `document` was parsed from.
    pub(super) fn about(validation: FieldValidation, document: &Document, body: &Bytes) -> Self {
        match document.syntax {
            Syntax::Json => {
                let duplicates = document.duplicates.iter();
                let duplicates = duplicates.map(|path| json::duplicate_field(path));
                Self::new(
                    validation,
                    DocumentKind::Json(body.clone()),
                    duplicates.collect(),
                )
            }
            Syntax::Yaml => Self::new(validation, DocumentKind::Yaml, document.duplicates.clone()),
        }
    }

    pub(super) fn about_patch(
        validation: FieldValidation,
        document: &Document,
        kind: PatchKind,
    ) -> Self {
        let duplicates = document.duplicates.iter().map(|path| match kind {
            PatchKind::Json => format!("json patch {}", json::duplicate_field(path)),
            PatchKind::Merge | PatchKind::Strategic | PatchKind::Apply => {
                json::duplicate_field(path)
            }
        });
        Self::new(validation, DocumentKind::Patch, duplicates.collect())
    }

    /// The problems of the configuration of an apply, whose fields are checked when it is merged.
    pub(super) fn about_configuration(validation: FieldValidation, document: &Document) -> Self {
        let lines = document.duplicates.join("\n  ");
        let all = format!("error converting YAML to JSON: yaml: unmarshal errors:\n  {lines}");
        let duplicates = if lines.is_empty() { vec![] } else { vec![all] };
        Self::new(validation, DocumentKind::Configuration, duplicates)
    }

    fn new(validation: FieldValidation, sent: DocumentKind, duplicates: Vec<String>) -> Self {
        Self {
            validation,
            sent,
            duplicates,
            unknown: Vec::new(),
            ordered: None,
            doubts: Vec::new(),
        }
    }

    /// Adds the paths of dropped fields.
    pub(super) fn unknown(&mut self, paths: Vec<String>, resource: &Resource) {
        self.unknown.extend(paths);
        let nothing = self.unknown.is_empty() && self.duplicates.is_empty();
        if let DocumentKind::Json(body) = &self.sent
            && resource.flavour != Flavour::Custom
            && self.validation != FieldValidation::Ignore
            && !nothing
        {
            // Typed kinds are decoded at once, and all problems are found on the way.
            self.ordered = Some(json::in_order(body, &self.unknown));
        }
    }

    /// Refuses the document, if the client asked for that.
    pub(super) fn check(&self, resource: &Resource) -> Result<(), Status> {
        if self.validation != FieldValidation::Strict {
            return Ok(());
        }
        if let (DocumentKind::Configuration, [why, ..]) = (&self.sent, &*self.duplicates) {
            let message = format!("error strict decoding YAML: {why}");
            return Err(Status::bad_request(message));
        }
        let mut all = self.all();
        if let DocumentKind::Yaml = self.sent
            && !self.duplicates.is_empty()
        {
            let lines = self.duplicates.join("\n  ");
            let together = format!("yaml: unmarshal errors:\n  {lines}");
            all.splice(..self.duplicates.len(), [together]);
        }
        match json::strict_error(&all) {
            Some(message) => Err(unreadable(resource, &message)),
            None => Ok(()),
        }
    }

    /// Warnings about the content of a custom object or a definition.
    pub(super) fn doubt(
        &mut self,
        (resource, path): (&Resource, &ResourcePath),
        object: &Object,
        old: Option<&Object>,
    ) {
        if !path.subresource.is_empty() {
            return;
        }
        if resource.flavour == Flavour::Custom {
            self.doubts = metadata::doubtful_finalizers(object, old);
        } else if &*resource.group == custom::GROUP && &*resource.plural == custom::PLURAL {
            let mut known = old.map(|old| unknown_formats(old.as_value()));
            let formats = unknown_formats(object.as_value());
            let new = formats.difference(known.get_or_insert_default());
            self.doubts = new
                .map(|name| format!("unrecognized format {name:?}"))
                .collect();
        }
    }

    /// The warnings of a successful answer.
    pub(super) fn all_warnings(&self) -> Vec<String> {
        let mut all = self.warnings();
        all.extend(self.doubts.iter().cloned());
        all
    }

    /// The warnings of any answer.
    fn warnings(&self) -> Vec<String> {
        match self.validation {
            FieldValidation::Warn => self.all(),
            FieldValidation::Ignore | FieldValidation::Strict => Vec::new(),
        }
    }

    /// A refusal contains the warnings about other problems too.
    pub(super) fn beside(&self, status: Status) -> Status {
        Status {
            warnings: self.warnings(),
            ..status
        }
    }

    fn all(&self) -> Vec<String> {
        if let Some(ordered) = &self.ordered {
            return ordered.clone();
        }
        let unknown = self.unknown.iter().map(|path| json::unknown_field(path));
        self.duplicates.iter().cloned().chain(unknown).collect()
    }
}

/// The error for a document that is not an object of the kind.
fn unreadable(resource: &Resource, why: &str) -> Status {
    let (kind, version) = (&resource.kind, &resource.version);
    Status::bad_request(format!(
        "{kind} in version {version:?} cannot be handled as a {kind}: {why}"
    ))
}

/// The error for a patch whose result cannot be decoded. `shown` is the quoted value.
pub(super) fn misfit(
    resource: &Resource,
    status: Status,
    shown: impl FnOnce() -> String,
) -> Status {
    let Some((_, why)) = status.message.split_once(" cannot be handled as a ") else {
        return status;
    };
    // In custom objects, only metadata is typed.
    let typed = match resource.flavour {
        Flavour::Custom => why.find("json: cannot unmarshal"),
        Flavour::BuiltIn | Flavour::BuiltInWithGeneration => None,
    };
    let strict = why.find(STRICT).or(typed).map(|at| &why[at..]);
    if status.code != 400 || (resource.flavour == Flavour::Custom && strict.is_none()) {
        return status;
    }
    let error = FieldError::invalid("patch", shown(), strict.unwrap_or(&status.message));
    Status::invalid("", "", "", &[error])
}

/// The value that the error of a patch shows: the resulting object, or the patch in Go's syntax.
pub(super) fn shown(kind: PatchKind, patch: &Value, patched: &Value) -> String {
    match kind {
        PatchKind::Json | PatchKind::Merge | PatchKind::Apply => patched.to_string(),
        PatchKind::Strategic => go(patch),
    }
}
