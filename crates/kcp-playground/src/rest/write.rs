//! The common parts of all writes: from the request to the stored object, and the answer.

use std::sync::Arc;

use bytes::Bytes;
use serde_json::Value;

use super::body;
use super::complaints::Complaints;
use super::ground::Ground;
use super::owning::Account;
use super::target::ResourcePath;
use super::{Call, Rest, full, metadata, select, view};
use crate::api::{self, ApiResponse};
use crate::catalog::{Admission, Flavour, ObjectSchema, Resource, Verbs};
use crate::custom;
use crate::status::Status;
use crate::store::{Key, Outcome, Stored, Tx};
use kube_lang::object::{Gvk, Object};
use kube_schema::field::FieldError;
use kube_schema::json::{self, Document};
use kube_schema::names::{self, MetadataRules};

/// The maximum size of a stored object as JSON: etcd's default limit for a request.
const MAX_STORED: usize = 1_572_864;

/// The answer to a write.
pub(super) struct Written {
    pub(super) code: u16,
    pub(super) body: Bytes,
    /// The encoding, if it is not JSON.
    pub(super) media_type: Option<&'static str>,
    pub(super) warnings: Vec<String>,
}

impl From<Written> for ApiResponse {
    fn from(written: Written) -> Self {
        let mut response = full(written.code, written.body).of(written.media_type);
        api::warn(&mut response.headers, &written.warnings);
        response
    }
}

/// An object before it is stored, in its storage version.
pub(super) struct Shaped {
    pub(super) object: Object,
    pub(super) stamp: u64,
    /// The desired state contained numbers such as `1.0`, which differ from the stored ones.
    pub(super) doubles: bool,
}

/// The object that the answer shows, as the transaction left it.
pub(super) struct Recorded {
    resource: Arc<Resource>,
    /// The last state before its removal, or the object of an answer that is not stored.
    gone: Option<Object>,
    warnings: Vec<String>,
}

impl Recorded {
    pub(super) fn new(resource: Arc<Resource>, gone: Option<Object>) -> Self {
        Self {
            resource,
            gone,
            warnings: Vec::new(),
        }
    }

    /// With the warnings for the client.
    pub(super) fn warned(self, complaints: &Complaints) -> Self {
        Self {
            warnings: complaints.all_warnings(),
            ..self
        }
    }
}

impl Rest {
    /// The body. If the resource is not served, that is the error, whatever the body is.
    pub(super) fn document(&self, call: &Call<'_>, verb: &str) -> Result<Document, Status> {
        body::document(&call.request.headers, &call.request.body).map_err(|unread| {
            let scope = &call.request.scope;
            let found = self
                .store
                .read(|read| self.find(read, scope, &call.path, verb));
            found.err().unwrap_or(unread)
        })
    }

    /// Converts, completes and validates an object of the served version.
    pub(super) fn shape(
        &self,
        ground: Ground<'_>,
        admission: &Admission<'_>,
        object: Object,
        account: Account<'_>,
    ) -> Result<Shaped, Status> {
        let resource = admission.resource;
        let schema = resource.schema.as_ref();
        let mut value = object.into_value();
        let converts = resource.conversion.is_some();
        let mut doubles = false;
        let mut errors = Vec::new();
        if let (Some(schema), true) = (schema, converts) {
            // Validated in its own version before it is converted.
            schema.default(&mut value);
            let before = admission.old.map(|old| view::serve(resource, old.clone()));
            let before = before.transpose()?;
            let before = before.as_ref().map(Object::as_value);
            errors.extend(judge(schema.as_ref(), admission, &value, before));
            refuse(resource, &value, &errors)?;
        }
        if converts {
            doubles = settle(&mut value);
            self.account(ground, admission, account, &mut value);
        }
        let object = Object::new(value).map_err(|error| Status::bad_request(error.to_string()))?;
        let mut object = match &resource.conversion {
            Some(conversion) => conversion.to_storage(object)?,
            None => object,
        };
        let stored_as = if converts {
            self.stored_as(ground, admission)?
        } else {
            None
        };
        let schema = match &stored_as {
            Some(stored_as) => stored_as.schema.as_ref(),
            None if converts => None,
            None => schema,
        };
        if let Some(strategy) = &resource.strategy {
            strategy.prepare(ground.each(), admission, &mut object)?;
        }
        if let Some(schema) = schema {
            let mut value = object.into_value();
            match account {
                // Values that an apply has emptied are null, which is not allowed.
                Account::Given => schema.fill(&mut value),
                Account::Update { .. } => schema.default(&mut value),
            }
            let old = admission.old.map(Object::as_value);
            errors.extend(judge(schema.as_ref(), admission, &value, old));
            object = Object::new(value).map_err(|error| Status::bad_request(error.to_string()))?;
        }
        if !converts {
            let mut value = object.into_value();
            doubles = settle(&mut value);
            if let Some(known) = resource.fields.structure() {
                known.drop_empty(&mut value);
            }
            self.account(ground, admission, account, &mut value);
            if let Some(storage) = &resource.storage_schema {
                storage.prune(&mut value);
                storage.default(&mut value);
            }
            object = Object::new(value).map_err(|error| Status::bad_request(error.to_string()))?;
            let storage = Gvk::new(&resource.group, &resource.storage_version, &resource.kind);
            object.set_gvk(&storage);
        }
        errors.extend(check_metadata(&object, resource));
        errors.extend(metadata::check_domains(&object, resource));
        if let Some(strategy) = &resource.strategy {
            errors.extend(strategy.validate(admission, &object));
        }
        if let Some(old) = admission.old {
            errors.extend(metadata::check_finalizers(&object, old));
            if !errors.is_empty() {
                errors = metadata::as_often_as_told(&errors, resource);
            }
        }
        refuse(resource, object.as_value(), &errors)?;
        let stamp = match (&stored_as, converts) {
            (Some(stored_as), _) => view::stamp(&resource.storage_version, stored_as),
            (None, true) => 0,
            (None, false) => view::stamp(&resource.storage_version, resource),
        };
        Ok(Shaped {
            object,
            stamp,
            doubles,
        })
    }

    /// Asks the scope about a write, and adds the labels that the object needs there.
    pub(super) fn admit(
        &self,
        ground: Ground<'_>,
        call: &Call<'_>,
        (resource, creates): (&Resource, bool),
        object: &mut Object,
    ) -> Result<(), Status> {
        let scope = &call.request.scope;
        let labels = ground.read(|read| self.scopes.admit(read, scope, resource, creates))?;
        for (key, value) in labels {
            match object.label(&key) {
                None => object.set_label(&key, &value),
                Some(is) if is == value => {}
                Some(is) => {
                    let why = format!(
                        "its label {key} is {is:?}, and the permission claim covers {value:?}"
                    );
                    let (group, plural) = (&resource.group, &resource.plural);
                    return Err(Status::forbidden(group, plural, object.name(), why));
                }
            }
        }
        Ok(())
    }

    /// The same resource in the storage version.
    fn stored_as(
        &self,
        ground: Ground<'_>,
        admission: &Admission<'_>,
    ) -> Result<Option<Arc<Resource>>, Status> {
        let catalog = self.catalog(ground, admission.scope)?;
        let resource = admission.resource;
        let group = &resource.table.group;
        Ok(catalog
            .find(group, &resource.storage_version, &resource.table.resource)
            .filter(|stored_as| stored_as.conversion.is_none())
            .cloned())
    }
}

/// The body as an object of its kind, without unknown fields.
pub(super) fn decode(
    sent: Value,
    resource: &Resource,
    complaints: &mut Complaints,
) -> Result<Object, Status> {
    let mut sent = sent;
    if resource.flavour != Flavour::Custom {
        json::settle(&mut sent);
    }
    let object = body::object(sent, resource)?;
    let Some(schema) = &resource.schema else {
        complaints.check(resource)?;
        return Ok(object);
    };
    let mut value = object.into_value();
    complaints.unknown(schema.prune(&mut value), resource);
    complaints.check(resource)?;
    Object::new(value).map_err(|error| Status::bad_request(error.to_string()))
}

pub(super) fn answer(
    call: &Call<'_>,
    code: u16,
    outcome: Outcome<Recorded>,
) -> Result<Written, Status> {
    let Recorded {
        resource,
        gone,
        warnings,
    } = outcome.value;
    let view = call.view(resource);
    let body = match (outcome.reported, gone) {
        (Some(stored), _) => view.body(&stored)?,
        (None, Some(mut gone)) if gone.in_deletion() => {
            // The removal is a change too.
            let revision = outcome.revision.to_string();
            let metadata = gone.metadata_mut();
            metadata.insert("resourceVersion".into(), revision.into());
            view.transient(gone)?
        }
        (None, Some(gone)) => view.transient(gone)?,
        (None, None) => {
            return Err(Status::internal(
                "the object went while it was being written",
            ));
        }
    };
    Ok(Written {
        code,
        body,
        media_type: view.media_type(),
        warnings,
    })
}

pub(super) fn named(call: &Call<'_>, resource: &Resource, name: &str) -> Result<Key, Status> {
    select::key(&call.request.scope, resource, &call.path, name)
        .ok_or_else(|| Status::internal("an object without a cluster"))
}

/// The object that a request names, if its scope shows it.
pub(super) fn existing(
    tx: &Tx<'_>,
    call: &Call<'_>,
    resource: &Resource,
    name: &str,
) -> Result<(Key, Arc<Stored>), Status> {
    call.cluster()?;
    let key = named(call, resource, name)?;
    match tx.get(&key) {
        Some(stored) if select::visible(resource, &stored) => Ok((key, stored)),
        _ => Err(Status::not_found(&resource.group, &resource.plural, name)),
    }
}

/// Refuses objects that are too large for etcd. The size is not computed if the `before` bytes of the old object and
/// the body, with entries for all fields, cannot reach the limit.
pub(super) fn check_size(call: &Call<'_>, before: usize, object: &Object) -> Result<(), Status> {
    let sent = call.request.body.len();
    let at_most = before.saturating_add(sent.saturating_mul(4));
    if at_most < MAX_STORED || json::size(object.as_value()) <= MAX_STORED {
        return Ok(());
    }
    Err(Status::new(500, "", "etcdserver: request is too large"))
}

/// Sets the object's namespace from the path.
pub(super) fn fit_namespace(object: &mut Object, path: &ResourcePath) -> Result<(), Status> {
    match (object.namespace(), path.namespace.as_deref()) {
        (None, Some(namespace)) => {
            let namespace = namespace.into();
            object.metadata_mut().insert("namespace".into(), namespace);
            Ok(())
        }
        (Some(_), None) => {
            object.metadata_mut().remove("namespace");
            Ok(())
        }
        (Some(given), Some(namespace)) if given != namespace => Err(Status::bad_request(
            "the namespace of the provided object does not match the namespace sent on the request",
        )),
        _ => Ok(()),
    }
}

pub(super) fn fit_name(object: &Object, name: &str) -> Result<(), Status> {
    let given = object.name();
    if given.is_empty() {
        return Err(Status::bad_request(format!(
            "the name of the object ({name} based on URL) was undeterminable: name must be provided"
        )));
    }
    if given != name {
        return Err(Status::bad_request(format!(
            "the name of the object ({given}) does not match the name on the URL ({name})"
        )));
    }
    Ok(())
}

/// The schema's errors of an object, or of the status if only that is written.
fn judge(
    schema: &dyn ObjectSchema,
    admission: &Admission<'_>,
    object: &Value,
    old: Option<&Value>,
) -> Vec<FieldError> {
    let custom = admission.resource.flavour == Flavour::Custom;
    if custom && admission.subresource == "status" {
        schema.validate_status(object, old)
    } else {
        schema.validate(object, old)
    }
}

/// Converts numbers to their stored form. Returns whether those of the desired state changed.
fn settle(object: &mut Value) -> bool {
    let mut wanted = false;
    for (field, value) in object.as_object_mut().into_iter().flatten() {
        wanted |= json::settle(value) && !matches!(field.as_str(), "metadata" | "status");
    }
    wanted
}

fn check_metadata(object: &Object, resource: &Resource) -> Vec<FieldError> {
    // Definitions validate their own names; reviews have none.
    let own_rules = &*resource.group == custom::GROUP && &*resource.plural == custom::PLURAL;
    if own_rules || resource.verbs == Verbs::CreateOnly {
        return Vec::new();
    }
    let rules = MetadataRules {
        name: resource.name_rule,
        scope: if resource.namespaced {
            names::Scope::Namespaced
        } else {
            names::Scope::Cluster
        },
    };
    match object.root().get("metadata") {
        Some(Value::Object(metadata)) => names::check_metadata(metadata, rules),
        _ => Vec::new(),
    }
}

fn refuse(resource: &Resource, object: &Value, errors: &[FieldError]) -> Result<(), Status> {
    if errors.is_empty() {
        return Ok(());
    }
    let name = object
        .pointer("/metadata/name")
        .and_then(Value::as_str)
        .unwrap_or_default();
    if resource.verbs == Verbs::CreateOnly {
        // Reviews are not identified by their kind.
        return Err(Status::invalid(&resource.group, "", name, errors));
    }
    Err(invalid(resource, name, errors))
}

pub(super) fn invalid(resource: &Resource, name: &str, errors: &[FieldError]) -> Status {
    // The store has one kind for both versions of events.
    Status::invalid(&resource.table.group, &resource.kind, name, errors)
}
