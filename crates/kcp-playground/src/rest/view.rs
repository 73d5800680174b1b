//! Stored objects in the form that a request asks for.

use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash as _, Hasher as _};
use std::sync::Arc;

use bytes::Bytes;
use jiff::Timestamp;
use serde_json::{Value, json};

use super::accept::{Beside, Form, MetaVersion, Negotiated};
use crate::catalog::{Flavour, Resource};
use crate::pieces::{Item, Pieces};
use crate::protobuf::{self, Packing};
use crate::status::Status;
use crate::store::Stored;
use crate::table::{Column, Printer};
use kube_lang::object::{Gvk, Object};

/// Shows objects of one resource.
#[derive(Clone)]
pub(super) struct View {
    pub(super) resource: Arc<Resource>,
    pub(super) form: Form,
    pub(super) clock: fn() -> Timestamp,
    pub(super) heads: Heads,
    /// Objects of all clusters are shown.
    pub(super) across: bool,
    /// Objects are shown as they are stored.
    stamp: u64,
    /// Whole objects are shown in protobuf.
    packing: Option<Arc<Packing>>,
}

/// The fields that list items omit because the list has them, in the form of their texts.
pub(super) struct Untold {
    head: String,
    kind: String,
    /// The kind if the object has it, and nothing in between: fields are sorted, and the metadata follows the kind.
    place: String,
}

impl Untold {
    /// Removes it from a text, unless another field is before it.
    fn cut(&self, body: &Bytes) -> Option<Item> {
        let found = memchr::memmem::find(body, self.place.as_bytes());
        let begins = body.starts_with(self.head.as_bytes());
        let at = found.filter(|at| begins && *at >= self.head.len())?;
        Some(Item::opened([
            body.slice(self.head.len()..at),
            body.slice(at + self.kind.len()..),
        ]))
    }
}

/// Whether tables contain their column definitions: in a watch, only the first one does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Heads {
    Shown,
    Told,
}

/// The stamp of an object that is written through this resource: its version, and the schema that pruned and defaulted
/// it. An object with this stamp can be served as it is stored.
pub(super) fn stamp(version: &str, resource: &Resource) -> u64 {
    let mut hasher = DefaultHasher::new();
    let schema = resource.schema.as_ref().map_or(0, |schema| schema.stamp());
    (version, schema).hash(&mut hasher);
    // Zero stands for "written by a controller".
    hasher.finish().max(1)
}

impl View {
    pub(super) fn new(
        resource: Arc<Resource>,
        accepted: Negotiated,
        clock: fn() -> Timestamp,
    ) -> Self {
        let packing = accepted
            .packed
            .then(|| Packing::of(&resource.group, &resource.version, &resource.kind).map(Arc::new));
        Self {
            stamp: stamp(&resource.version, &resource),
            resource,
            form: accepted.form,
            clock,
            heads: Heads::Shown,
            across: false,
            packing: packing.flatten(),
        }
    }

    /// The encoding of documents, if it is not JSON.
    pub(super) fn media_type(&self) -> Option<&'static str> {
        self.packing.as_ref().map(|_| protobuf::MEDIA_TYPE)
    }

    /// The encoding of events.
    pub(super) fn media_type_of_events(&self) -> Option<&'static str> {
        self.packing.as_ref().map(|_| protobuf::EVENTS)
    }

    /// Objects as they are stored, in the form for all clients.
    pub(super) fn of(resource: &Arc<Resource>, clock: fn() -> Timestamp) -> Self {
        Self::new(Arc::clone(resource), Form::Whole.into(), clock)
    }

    /// The served form of an object, if that differs from the stored one; `object` is the stored one.
    pub(super) fn served(
        &self,
        stored: &Stored,
        object: &Object,
    ) -> Result<Option<Object>, Status> {
        if self.serves_as_stored(stored) {
            return Ok(None);
        }
        serve(&self.resource, object.clone()).map(Some)
    }

    /// The same view of the resource as it is served now.
    pub(super) fn follow(&mut self, resource: Arc<Resource>) {
        self.stamp = stamp(&resource.version, &resource);
        self.resource = resource;
    }

    pub(super) fn gvk(&self) -> Gvk {
        let resource = &self.resource;
        Gvk::new(&resource.group, &resource.version, &resource.kind)
    }

    /// The object as a document.
    pub(super) fn body(&self, stored: &Stored) -> Result<Bytes, Status> {
        if !self.serves_as_stored(stored) {
            return self.transient(stored.object());
        }
        match &self.packing {
            Some(packing) => Ok(packing.document(&packed(stored, packing)?)),
            None => Ok(stored.body()),
        }
    }

    /// The document with the revision of a later change: of the object's removal.
    pub(super) fn body_at(&self, stored: &Stored, revision: u64) -> Result<Bytes, Status> {
        if self.serves_as_stored(stored) {
            return self.document(stored.body_at(revision));
        }
        let mut object = stored.object();
        let metadata = object.metadata_mut();
        metadata.insert("resourceVersion".into(), revision.to_string().into());
        self.transient(object)
    }

    fn serves_as_stored(&self, stored: &Stored) -> bool {
        self.shows_what_is_stored() && stored.stamp == self.stamp
    }

    fn shows_what_is_stored(&self) -> bool {
        self.form == Form::Whole && self.resource.conversion.is_none()
    }

    /// A document from its JSON.
    fn document(&self, json: Bytes) -> Result<Bytes, Status> {
        let Some(packing) = &self.packing else {
            return Ok(json);
        };
        let object = packing.object(&json).map_err(Status::internal)?;
        Ok(packing.document(&object))
    }

    /// Shows an object that is not, or no longer, stored, in its storage version.
    pub(super) fn transient(&self, object: Object) -> Result<Bytes, Status> {
        let shown = match self.form {
            Form::Whole => serve(&self.resource, object)?.into_value(),
            Form::Metadata(version) => self.partial(serve(&self.resource, object)?, version),
            Form::MetadataList(_) if self.resource.flavour == Flavour::Custom => {
                return Err(Status::new(500, "", "content is not a list"));
            }
            Form::MetadataList(_) => {
                return Err(Status::not_acceptable(format!(
                    "you requested PartialObjectMetadataList, but the requested object is not a list ({})",
                    self.type_name(&self.resource.kind)
                )));
            }
            Form::Table(version, beside) => {
                let revision = object.resource_version().unwrap_or_default();
                let meta = json!({"resourceVersion": revision});
                let row = self.row(object, version, beside)?;
                self.table(version, &meta, &json!([row]))
            }
        };
        self.document(bytes(&shown))
    }

    /// Whether objects are mostly shown as they are stored, without conversion.
    pub(super) fn is_quick(&self) -> bool {
        self.shows_what_is_stored() && self.packing.is_none()
    }

    /// The object as a list item.
    pub(super) fn item(&self, stored: &Stored, untold: Option<&Untold>) -> Result<Item, Status> {
        if !self.serves_as_stored(stored) {
            return self.transient_item(stored.object());
        }
        if let Some(packing) = &self.packing {
            return Ok(Item::whole(packed(stored, packing)?));
        }
        let body = stored.body();
        let Some(untold) = untold else {
            return Ok(Item::whole(body));
        };
        match untold.cut(&body) {
            Some(item) => Ok(item),
            None => self.transient_item(stored.object()),
        }
    }

    /// The fields that items omit; `None` if they omit none.
    pub(super) fn untold(&self) -> Option<Untold> {
        if self.says_kinds() || self.packing.is_some() {
            return None;
        }
        let kind = format!("\"kind\":\"{}\",", self.resource.kind);
        Some(Untold {
            head: format!("{{\"apiVersion\":\"{}\",", self.gvk().api_version()),
            place: format!("{kind}\"metadata\":"),
            kind,
        })
    }

    /// Whether objects are shown as claimed resources.
    pub(super) fn is_claimed(&self) -> bool {
        self.resource.required_label.is_some()
    }

    /// Whether list items contain their kind: untyped and claimed objects do.
    fn says_kinds(&self) -> bool {
        let resource = &self.resource;
        self.form != Form::Whole
            || resource.flavour == Flavour::Custom
            || resource.required_label.is_some()
    }

    /// The list item of an object that is not, or no longer, stored.
    pub(super) fn transient_item(&self, object: Object) -> Result<Item, Status> {
        let item = bytes(&match self.form {
            Form::Whole => {
                let mut served = serve(&self.resource, object)?.into_value();
                if let (Value::Object(fields), false) = (&mut served, self.says_kinds()) {
                    fields.remove("apiVersion");
                    fields.remove("kind");
                }
                served
            }
            Form::Metadata(version) | Form::MetadataList(version) => {
                self.partial(serve(&self.resource, object)?, version)
            }
            Form::Table(version, beside) => self.row(object, version, beside)?,
        });
        Ok(Item::whole(match &self.packing {
            Some(packing) => packing.object(&item).map_err(Status::internal)?,
            None => item,
        }))
    }

    /// The metadata of lists and watches. Those of custom resources contain an empty continue token too.
    pub(super) fn complete(&self, meta: &mut Value) {
        let custom = self.resource.flavour == Flavour::Custom;
        if custom && self.form == Form::Whole && meta.get("continue").is_none() {
            meta["continue"] = "".into();
        }
    }

    /// A list document around finished items.
    pub(super) fn list(&self, meta: &Value, items: Vec<Item>) -> Result<Pieces, Status> {
        if self.packing.is_some() {
            let resource = &self.resource;
            let kind = (&*resource.group, &*resource.version, &*resource.list_kind);
            let size = items.iter().map(Item::size).sum();
            let (head, tail) = Packing::list(kind, &bytes(meta), size).map_err(Status::internal)?;
            return Ok(Pieces::joined(head, items, tail));
        }
        let (api_version, kind) = match self.form {
            Form::Whole => (self.gvk().api_version(), &*self.resource.list_kind),
            Form::MetadataList(version) => (
                version.api_version().to_owned(),
                "PartialObjectMetadataList",
            ),
            Form::Metadata(_) => {
                return Err(Status::not_acceptable(format!(
                    "you requested PartialObjectMetadata, but the requested object is a list ({})",
                    self.type_name(&self.resource.list_kind)
                )));
            }
            Form::Table(version, _) if items.is_empty() => {
                let none = self.printer()?.no_rows();
                let table = self.table(version, meta, &none);
                return Ok(Pieces::new(table.to_string().into(), items, b""));
            }
            Form::Table(version, _) => {
                let mut head = self.table(version, meta, &Value::Null);
                if let Some(head) = head.as_object_mut() {
                    head.remove("rows");
                }
                return Ok(around(&head, "rows", items));
            }
        };
        let head = json!({"kind": kind, "apiVersion": api_version, "metadata": meta});
        Ok(around(&head, "items", items))
    }

    /// The view of a watch.
    pub(super) fn of_watch(self) -> Self {
        let form = match self.form {
            Form::MetadataList(_) => Form::Whole,
            form => form,
        };
        Self { form, ..self }
    }

    /// An event of a watch.
    pub(super) fn event(&self, kind: &str, document: &[u8]) -> Bytes {
        if self.packing.is_some() {
            return Packing::event(kind, document);
        }
        let mut text = Vec::with_capacity(document.len() + kind.len() + 24);
        text.extend_from_slice(b"{\"type\":\"");
        text.extend_from_slice(kind.as_bytes());
        text.extend_from_slice(b"\",\"object\":");
        text.extend_from_slice(document);
        text.extend_from_slice(b"}\n");
        text.into()
    }

    /// The error that ends a watch.
    pub(super) fn failure(&self, status: &Status) -> Bytes {
        let json = bytes(&status.to_json());
        let packed = self.packing.as_ref().map(|_| Packing::status(&json));
        let packed = packed.and_then(|packed| {
            packed
                .inspect_err(|error| tracing::error!(%error, "a watch ends without a word"))
                .ok()
        });
        self.event("ERROR", &packed.unwrap_or(json))
    }

    /// A bookmark's document.
    pub(super) fn bookmark(&self, revision: u64, initial_end: bool) -> Result<Bytes, Status> {
        let bookmark = self.bookmarked(revision, initial_end)?;
        self.document(bytes(&bookmark))
    }

    /// A bookmark's object.
    fn bookmarked(&self, revision: u64, initial_end: bool) -> Result<Value, Status> {
        let mut metadata = json!({"resourceVersion": revision.to_string()});
        if initial_end {
            metadata["annotations"] = json!({"k8s.io/initial-events-end": "true"});
        }
        let meta = json!({"resourceVersion": revision.to_string()});
        let (version, beside) = match self.form {
            Form::Whole => return Ok(self.empty(&metadata)),
            Form::Metadata(version) | Form::MetadataList(version) => {
                return Ok(metadata_of(version, &metadata));
            }
            Form::Table(version, beside) => (version, beside),
        };
        let empty = self.empty(&metadata);
        let cells = self.printer()?.cells(&empty, (self.clock)());
        let object = match beside {
            Beside::Object => empty,
            Beside::Nothing if !initial_end => Value::Null,
            Beside::Nothing | Beside::Metadata => metadata_of(version, &metadata),
        };
        let rows = json!([{"cells": cells, "object": object}]);
        Ok(self.table(version, &meta, &rows))
    }

    /// An empty object of the kind.
    fn empty(&self, metadata: &Value) -> Value {
        json!({
            "kind": &*self.resource.kind,
            "apiVersion": self.gvk().api_version(),
            "metadata": metadata,
        })
    }

    /// The name of a document in errors.
    fn type_name(&self, kind: &str) -> String {
        let group = &self.resource.table.group;
        match group.split('.').next() {
            _ if self.resource.flavour == Flavour::Custom => {
                "*unstructured.UnstructuredList".to_owned()
            }
            None | Some("") => format!("*core.{kind}"),
            Some(package) => format!("*{package}.{kind}"),
        }
    }

    fn printer(&self) -> Result<&dyn Printer, Status> {
        let printer = self.resource.printer.as_deref();
        printer.ok_or_else(|| {
            Status::not_acceptable(format!(
                "the resource {} does not support being converted to a Table",
                self.resource.plural
            ))
        })
    }

    /// A row with an object in its storage version. Built-in kinds are shown as they are stored, whatever version is
    /// requested.
    fn row(&self, object: Object, version: MetaVersion, beside: Beside) -> Result<Value, Status> {
        let printer = self.printer()?;
        let now = (self.clock)();
        let custom = self.resource.flavour == Flavour::Custom;
        let (cells, served) = if custom {
            let served = serve(&self.resource, object)?;
            (printer.cells(served.as_value(), now), served)
        } else {
            (printer.cells(object.as_value(), now), object)
        };
        let object = match beside {
            Beside::Nothing => Value::Null,
            Beside::Metadata => self.partial(served, version),
            Beside::Object if custom => served.into_value(),
            Beside::Object => serve(&self.resource, served)?.into_value(),
        };
        Ok(json!({"cells": cells, "object": object}))
    }

    fn partial(&self, mut object: Object, version: MetaVersion) -> Value {
        if self.across && self.resource.flavour == Flavour::Custom {
            let original = self.gvk().api_version();
            object.set_annotation("kcp.io/original-api-version", &original);
        }
        let metadata = object.root().get("metadata");
        metadata_of(version, metadata.unwrap_or(&json!({})))
    }

    fn table(&self, version: MetaVersion, meta: &Value, rows: &Value) -> Value {
        let columns = match (self.heads, &self.resource.printer) {
            (Heads::Shown, Some(printer)) => {
                printer.columns().iter().map(Column::to_json).collect()
            }
            _ => Value::Null,
        };
        json!({
            "kind": "Table",
            "apiVersion": version.api_version(),
            "metadata": meta,
            "columnDefinitions": columns,
            "rows": rows,
        })
    }
}

fn packed(stored: &Stored, packing: &Packing) -> Result<Bytes, Status> {
    let packed = stored.packed(|json| packing.object(json));
    packed.map_err(Status::internal)
}

/// A document whose last field is a list of JSON texts.
fn around(head: &Value, field: &str, items: Vec<Item>) -> Pieces {
    let mut head = head.to_string();
    head.pop();
    head.push_str(",\"");
    head.push_str(field);
    head.push_str("\":[");
    Pieces::new(head.into(), items, b"]}")
}

/// Converts from the storage version to the served one, with the served schema.
pub(super) fn serve(resource: &Resource, stored: Object) -> Result<Object, Status> {
    let mut object = match &resource.conversion {
        Some(conversion) => conversion.to_served(stored)?,
        None => stored,
    };
    object.set_gvk(&Gvk::new(
        &resource.group,
        &resource.version,
        &resource.kind,
    ));
    match &resource.schema {
        Some(schema) if resource.flavour == Flavour::Custom => {
            let mut value = object.into_value();
            // Defaults are those of the storage version.
            if let Some(storage) = &resource.storage_schema {
                storage.prune(&mut value);
                storage.default(&mut value);
            }
            schema.prune(&mut value);
            if resource.storage_schema.is_none() {
                schema.default(&mut value);
            }
            Object::new(value).map_err(Status::internal)
        }
        _ => Ok(object),
    }
}

fn metadata_of(version: MetaVersion, metadata: &Value) -> Value {
    json!({
        "kind": "PartialObjectMetadata",
        "apiVersion": version.api_version(),
        "metadata": metadata,
    })
}

pub(super) fn bytes(value: &Value) -> Bytes {
    Bytes::from(value.to_string())
}
