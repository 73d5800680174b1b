//! Stored objects in the form that a request asked for.

use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash as _, Hasher as _};
use std::sync::Arc;

use bytes::Bytes;
use http::HeaderMap;
use http::header::ACCEPT;
use serde_json::{Value, json};

use crate::object::{Gvk, Object};
use crate::playground::catalog::{Flavour, Resource};
use crate::playground::status::Status;
use crate::playground::store::Stored;

/// How much of objects is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    Whole,
    /// `PartialObjectMetadata`
    Metadata,
}

/// Shows objects of one resource.
#[derive(Clone)]
pub(super) struct View {
    pub(super) resource: Arc<Resource>,
    pub(super) form: Form,
}

impl Form {
    /// The first of the accepted forms that there is.
    pub(super) fn accepted(headers: &HeaderMap) -> Result<Self, Status> {
        let mut accepts = Vec::new();
        for value in headers.get_all(ACCEPT) {
            let text = String::from_utf8_lossy(value.as_bytes());
            accepts.extend(text.split(',').map(|part| part.trim().to_owned()));
        }
        accepts.retain(|accept| !accept.is_empty());
        if accepts.is_empty() {
            return Ok(Self::Whole);
        }
        let found = accepts.iter().find_map(|accept| Self::of(accept));
        found.ok_or_else(|| {
            Status::not_acceptable(
                "only the following media types are accepted: application/json, application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1",
            )
        })
    }

    fn of(accept: &str) -> Option<Self> {
        let mut parts = accept.split(';').map(str::trim);
        let json = matches!(
            parts.next(),
            Some("application/json" | "application/*" | "*/*")
        );
        let kind = parts.find_map(|part| part.strip_prefix("as="));
        match kind {
            _ if !json => None,
            None => Some(Self::Whole),
            Some("PartialObjectMetadata" | "PartialObjectMetadataList") => Some(Self::Metadata),
            Some(_) => None,
        }
    }
}

/// What an object has gone through when it is written by this resource: the version that it says and
/// the schema that has pruned and defaulted it. Only then it can be served as it is stored.
pub(super) fn stamp(version: &str, resource: &Resource) -> u64 {
    let mut hasher = DefaultHasher::new();
    let schema = resource.schema.as_ref().map_or(0, |schema| schema.stamp());
    (version, schema).hash(&mut hasher);
    // Zero stands for "written by a controller".
    hasher.finish().max(1)
}

impl View {
    pub(super) fn gvk(&self) -> Gvk {
        let resource = &self.resource;
        Gvk::new(&resource.group, &resource.version, &resource.kind)
    }

    /// The object as JSON text.
    pub(super) fn body(&self, stored: &Stored) -> Result<Bytes, Status> {
        if self.serves_as_stored(stored) {
            return Ok(stored.body());
        }
        Ok(bytes(self.object(stored)?.as_value()))
    }

    /// The same, with the revision of a later change: of the object's end.
    pub(super) fn body_at(&self, stored: &Stored, revision: u64) -> Result<Bytes, Status> {
        if self.serves_as_stored(stored) {
            return Ok(stored.body_at(revision));
        }
        let mut object = self.object(stored)?;
        let metadata = object.metadata_mut();
        metadata.insert("resourceVersion".into(), revision.to_string().into());
        Ok(bytes(object.as_value()))
    }

    fn serves_as_stored(&self, stored: &Stored) -> bool {
        let resource = &self.resource;
        self.form == Form::Whole
            && resource.conversion.is_none()
            && stored.stamp == stamp(&resource.version, resource)
    }

    fn object(&self, stored: &Stored) -> Result<Object, Status> {
        let mut object = serve(&self.resource, stored.object())?;
        if self.form == Form::Metadata {
            object = metadata_only(&object);
        }
        Ok(object)
    }

    /// Shows an object that is not, or no longer, stored.
    pub(super) fn transient(&self, object: Object) -> Result<Bytes, Status> {
        let mut object = serve(&self.resource, object)?;
        if self.form == Form::Metadata {
            object = metadata_only(&object);
        }
        Ok(bytes(object.as_value()))
    }

    /// Lists of custom resources say that nothing is to be continued, too.
    pub(super) fn complete(&self, meta: &mut Value) {
        if self.resource.flavour == Flavour::Custom && meta.get("continue").is_none() {
            meta["continue"] = "".into();
        }
    }

    /// A list document around items that are JSON texts already.
    pub(super) fn list(&self, meta: &Value, items: &[Bytes]) -> Bytes {
        let (api_version, kind) = match self.form {
            Form::Whole => (self.gvk().api_version(), &*self.resource.list_kind),
            Form::Metadata => ("meta.k8s.io/v1".to_owned(), "PartialObjectMetadataList"),
        };
        let head = json!({"kind": kind, "apiVersion": api_version, "metadata": meta}).to_string();
        let size: usize = items.iter().map(|item| item.len() + 1).sum();
        let mut list = Vec::with_capacity(head.len() + size + 16);
        list.extend_from_slice(&head.as_bytes()[..head.len() - 1]);
        list.extend_from_slice(b",\"items\":[");
        for (index, item) in items.iter().enumerate() {
            if index > 0 {
                list.push(b',');
            }
            list.extend_from_slice(item);
        }
        list.extend_from_slice(b"]}");
        list.into()
    }

    /// A bookmark's object.
    pub(super) fn bookmark(&self, revision: u64, initial_end: bool) -> Value {
        let mut metadata =
            json!({"resourceVersion": revision.to_string(), "creationTimestamp": null});
        if initial_end {
            metadata["annotations"] = json!({"k8s.io/initial-events-end": "true"});
        }
        let (api_version, kind) = match self.form {
            Form::Whole => (self.gvk().api_version(), &*self.resource.kind),
            Form::Metadata => ("meta.k8s.io/v1".to_owned(), "PartialObjectMetadata"),
        };
        json!({"kind": kind, "apiVersion": api_version, "metadata": metadata})
    }
}

/// From the storage version to the served one, as the served schema has it.
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
            schema.prune(&mut value);
            schema.default(&mut value);
            Object::new(value).map_err(Status::internal)
        }
        _ => Ok(object),
    }
}

fn metadata_only(object: &Object) -> Object {
    let mut partial = Object::empty(
        &Gvk::new("meta.k8s.io", "v1", "PartialObjectMetadata"),
        None,
        "",
    );
    if let Some(metadata) = object.root().get("metadata") {
        partial
            .root_mut()
            .insert("metadata".into(), metadata.clone());
    }
    partial
}

pub(super) fn bytes(value: &Value) -> Bytes {
    Bytes::from(value.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn accepts(accept: &str, expected: Result<Form, u16>) {
        let mut headers = HeaderMap::new();
        headers.insert(ACCEPT, accept.parse().unwrap());
        let found = Form::accepted(&headers).map_err(|status| status.code);
        assert_eq!(found, expected, "{accept}");
    }

    #[test]
    fn the_first_form_that_exists_is_taken() {
        let partial = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1";
        accepts("", Ok(Form::Whole));
        accepts("*/*", Ok(Form::Whole));
        accepts("application/vnd.kubernetes.protobuf, */*", Ok(Form::Whole));
        accepts(
            &format!(
                "application/vnd.kubernetes.protobuf;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,{partial},application/json"
            ),
            Ok(Form::Metadata),
        );
        accepts(
            "application/json;as=Table;v=v1;g=meta.k8s.io,application/json",
            Ok(Form::Whole),
        );
        accepts("application/json;as=Table;v=v1;g=meta.k8s.io", Err(406));
        accepts("text/html", Err(406));
    }
}
