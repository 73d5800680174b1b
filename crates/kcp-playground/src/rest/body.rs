//! Request bodies: the encoding, the document, and the problems that are reported to the client.

use bytes::Bytes;
use http::HeaderMap;
use http::header::CONTENT_TYPE;
use serde_json::{Map, Value};

use crate::catalog::{Flavour, Resource};
use crate::patch::go_type;
use crate::protobuf::{self, ProtobufError};
use crate::status::Status;
use crate::yaml;
use kube_lang::object::{Gvk, Object, json_type};
use kube_schema::field::FieldError;
use kube_schema::json::{self, Document, JsonError, Syntax};

/// The format of a document, by its media type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Encoding {
    Json,
    Yaml,
    Protobuf,
}

/// The kind of a patch, by its media type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PatchKind {
    Json,
    Merge,
    Strategic,
    /// Server-side apply.
    Apply,
}

fn media_type(headers: &HeaderMap) -> String {
    let value = headers.get(CONTENT_TYPE);
    let text = value.map(|value| String::from_utf8_lossy(value.as_bytes()));
    let text = text.unwrap_or_default();
    let media_type = text.split(';').next().unwrap_or_default();
    media_type.trim().to_ascii_lowercase()
}

/// The document of a create, an update or a deletion.
pub(super) fn document(headers: &HeaderMap, body: &Bytes) -> Result<Document, Status> {
    let encoding = match media_type(headers).as_str() {
        protobuf::MEDIA_TYPE => Encoding::Protobuf,
        "" if protobuf::is_protobuf(body) => Encoding::Protobuf,
        "" | "application/json" => Encoding::Json,
        "application/yaml" => Encoding::Yaml,
        _ => {
            return Err(Status::unsupported_media_type(format!(
                "the body of the request was in an unknown format - accepted media types include: application/json, application/yaml, {}",
                protobuf::MEDIA_TYPE
            )));
        }
    };
    match encoding {
        Encoding::Json => parse(body),
        Encoding::Yaml => yaml::parse(body).map_err(refuse_text),
        Encoding::Protobuf => {
            let value = protobuf::decode(body).map_err(refuse_protobuf)?;
            Ok(Document {
                value,
                duplicates: Vec::new(),
                syntax: Syntax::Json,
            })
        }
    }
}

/// The kind of a patch.
pub(super) fn patch_kind(headers: &HeaderMap) -> Result<PatchKind, Status> {
    Ok(match media_type(headers).as_str() {
        "application/json-patch+json" => PatchKind::Json,
        "application/merge-patch+json" => PatchKind::Merge,
        "application/strategic-merge-patch+json" => PatchKind::Strategic,
        "application/apply-patch+yaml" => PatchKind::Apply,
        _ => return Err(unknown_patch(Flavour::BuiltIn)),
    })
}

/// The document of a patch that is not an apply.
pub(super) fn patch(body: &Bytes) -> Result<Document, Status> {
    parse(body)
}

/// The error for an unknown kind of patch. Strategic merge patches need a kind with merge rules for lists.
pub(super) fn unknown_patch(flavour: Flavour) -> Status {
    let strategic = match flavour {
        Flavour::Custom => "",
        _ => ", application/strategic-merge-patch+json",
    };
    Status::unsupported_media_type(format!(
        "the body of the request was in an unknown format - accepted media types include: application/json-patch+json, application/merge-patch+json{strategic}, application/apply-patch+yaml"
    ))
}

/// The configuration of an apply, in YAML or JSON.
pub(super) fn configuration(body: &Bytes) -> Result<Document, Status> {
    if body.len() > json::MAX_BODY {
        return Err(Status::too_large(json::MAX_BODY));
    }
    let plain = json::parse_deep(body).ok();
    let document = match plain.filter(|document| document.duplicates.is_empty()) {
        Some(document) => document,
        None => yaml::parse(body)
            .map_err(|why| Status::bad_request(format!("error decoding YAML: {why}")))?,
    };
    let mut document = document;
    // Documents in YAML contain no doubles without a fraction.
    json::settle(&mut document.value);
    match document.value {
        Value::Object(_) => Ok(document),
        Value::Null => Ok(Document {
            value: Value::Object(Map::new()),
            ..document
        }),
        other => Err(Status::bad_request(format!(
            "error decoding YAML: json: cannot unmarshal {} into Go value of type map[string]interface {{}}",
            json_type(&other)
        ))),
    }
}

fn parse(body: &Bytes) -> Result<Document, Status> {
    json::parse_deep(body).map_err(refuse_text)
}

fn refuse_text(error: JsonError) -> Status {
    match error {
        JsonError::TooLarge { .. } => Status::too_large(json::MAX_BODY),
        error => Status::bad_request(error.to_string()),
    }
}

fn refuse_protobuf(error: ProtobufError) -> Status {
    match error {
        ProtobufError::TooLarge { .. } => Status::too_large(json::MAX_BODY),
        error @ ProtobufError::UnknownKind { .. } => {
            Status::unsupported_media_type(error.to_string())
        }
        error => Status::bad_request(error.to_string()),
    }
}

/// The error for metadata of wrong types, with the server's message.
fn mistyped(value: &Value, resource: &Resource) -> Option<Status> {
    let metadata = value.get("metadata")?.as_object()?;
    let wrong = |found: &Value, wanted: &str| !found.is_null() && go_type(found) != wanted;
    let named = ["name", "namespace", "uid", "resourceVersion"].map(|field| (field, "string"));
    let maps = ["labels", "annotations"].map(|field| (field, "object"));
    let lists = [("finalizers", "array")];
    let mut found = named.iter().chain(&maps).chain(&lists);
    let (field, found, go) = found.find_map(|(field, wanted)| {
        let value = metadata.get(*field)?;
        if wrong(value, wanted) {
            let go = match *wanted {
                "object" => "map[string]string",
                "array" => "[]string",
                _ => "string",
            };
            return Some((field, value, go));
        }
        let members: Vec<&Value> = match value {
            Value::Object(map) => map.values().collect(),
            Value::Array(list) => list.iter().collect(),
            _ => return None,
        };
        let member = members.into_iter().find(|one| wrong(one, "string"))?;
        Some((field, member, "string"))
    })?;
    // The messages of typed kinds have paths from the root of their type.
    let way = match resource.flavour {
        Flavour::Custom => "",
        Flavour::BuiltIn | Flavour::BuiltInWithGeneration => "metadata.",
    };
    let (kind, found) = (&resource.kind, go_type(found));
    Some(Status::bad_request(format!(
        "{kind} in version {:?} cannot be handled as a {kind}: json: cannot unmarshal {found} into Go struct field ObjectMeta.{way}{field} of type {go}",
        resource.version
    )))
}

/// The document as an object of this resource: with its kind and version, and without nulls in metadata.
pub(super) fn object(value: Value, resource: &Resource) -> Result<Object, Status> {
    let mistyped = mistyped(&value, resource);
    let mut object = Object::new(value)
        .map_err(|error| mistyped.unwrap_or_else(|| Status::bad_request(error.to_string())))?;
    let expected = Gvk::new(&resource.group, &resource.version, &resource.kind);
    if resource.flavour == Flavour::Custom {
        for (field, value) in [
            ("Kind", object.kind()),
            ("apiVersion", object.api_version()),
        ] {
            if value.is_empty() {
                return Err(Status::bad_request(format!(
                    "Object '{field}' is missing: it must be {}",
                    if field == "Kind" {
                        expected.kind.clone()
                    } else {
                        expected.api_version()
                    },
                )));
            }
        }
    }
    let (given, wanted) = (object.api_version(), expected.api_version());
    if !given.is_empty() && given != wanted {
        return Err(Status::bad_request(format!(
            "the API version in the data ({given}) does not match the expected API version ({wanted})"
        )));
    }
    let given = object.kind();
    if resource.flavour == Flavour::Custom && given != expected.kind {
        let must = format!("must be {}", expected.kind);
        let error = FieldError::invalid("kind", given, &must);
        let (group, name) = (&resource.group, object.name());
        return Err(Status::invalid(group, given, name, &[error]));
    }
    if !given.is_empty() && given != expected.kind {
        return Err(Status::bad_request(format!(
            "{given} in version {:?} cannot be handled as a {}: no kind {given:?} is registered for this address",
            expected.version, expected.kind
        )));
    }
    object.set_gvk(&expected);
    // Metadata is typed for all kinds, so empty fields are dropped.
    object.metadata_mut().retain(|field, value| match value {
        Value::Null => false,
        // In a typed kind, an empty list means that no field has a manager.
        Value::Array(list) => {
            !list.is_empty() || (field == "managedFields" && resource.flavour != Flavour::Custom)
        }
        Value::Object(map) => {
            !map.is_empty() || !matches!(field.as_str(), "labels" | "annotations")
        }
        _ => true,
    });
    Ok(object)
}
