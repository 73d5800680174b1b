//! Creates, updates and patches: one way from what a client sent to what is stored.

use std::sync::Arc;

use bytes::Bytes;
use http::Method;
use serde_json::Value;

use super::body::{self, PatchKind};
use super::complaints::{self, Complaints};
use super::discovery::is_namespaces;
use super::owning::{self, Account};
use super::target::ResourcePath;
use super::{Call, Rest, metadata, select, view};
use crate::object::{Gvk, Object};
use crate::playground::builtin::namespaces;
use crate::playground::catalog::{Admission, Flavour, ObjectSchema, Resource, Verbs};
use crate::playground::custom;
use crate::playground::field::FieldError;
use crate::playground::fields;
use crate::playground::json::{self, Document};
use crate::playground::names::{self, MetadataRules};
use crate::playground::patch::{self, PatchError};
use crate::playground::status::Status;
use crate::playground::store::{Key, Outcome, Stored, Tx};

/// Tries to find a free generated name.
const NAME_TRIES: usize = 8;

/// The largest object that is stored, as JSON: what etcd takes in one request by default.
const MAX_STORED: usize = 1_572_864;

/// What a write answers.
pub(super) struct Written {
    pub(super) code: u16,
    pub(super) body: Bytes,
    pub(super) warnings: Vec<String>,
}

/// An object on its way into the store, in its storage version.
struct Shaped {
    object: Object,
    stamp: u64,
    /// What is wanted had numbers such as `1.0`, which are other ones than those that are stored.
    doubles: bool,
}

/// How a transaction left an object that the answer shows.
pub(super) struct Left {
    resource: Arc<Resource>,
    /// As it was when it went, or when it was answered without being stored.
    gone: Option<Object>,
    warnings: Vec<String>,
}

impl Left {
    pub(super) fn new(resource: Arc<Resource>, gone: Option<Object>) -> Self {
        Self {
            resource,
            gone,
            warnings: Vec::new(),
        }
    }

    /// With what the client is to be warned of.
    pub(super) fn warned(self, complaints: &Complaints) -> Self {
        Self {
            warnings: complaints.all_warnings(),
            ..self
        }
    }
}

impl Rest {
    pub(super) fn create(&self, call: &Call<'_>) -> Result<Written, Status> {
        let document = self.document(call, "create")?;
        let manager = owning::manager(call, "CreateOptions")?;
        let validation = call.query.field_validation("CreateOptions")?;
        let mut complaints = Complaints::about(validation, &document, &call.request.body);
        let outcome = self.transact(call.query.dry_run("CreateOptions")?, |tx| {
            let resource = self.find(tx, &call.request.scope, &call.path, "create")?;
            call.accepts.form(&resource)?;
            let mut object = decode(document.value, &resource, &mut complaints)?;
            fit_namespace(&mut object, &call.path)?;
            let account = Account::Update {
                manager: &manager,
                live: None,
            };
            complaints.doubt(&resource, &object, None);
            let left = self.create_object(tx, call, resource, object, account)?;
            Ok(left.warned(&complaints))
        });
        answer(
            call,
            201,
            outcome.map_err(|status| complaints.beside(status))?,
        )
    }

    /// What was sent. Where nothing is served, that is to be told, and not what a body there should be.
    fn document(&self, call: &Call<'_>, verb: &str) -> Result<Document, Status> {
        body::document(&call.request.headers, &call.request.body).map_err(|unread| {
            let scope = &call.request.scope;
            let found = self
                .store
                .read(|read| self.find(read, scope, &call.path, verb));
            found.err().unwrap_or(unread)
        })
    }

    /// Puts an object where there is none yet.
    pub(super) fn create_object(
        &self,
        tx: &mut Tx<'_>,
        call: &Call<'_>,
        resource: Arc<Resource>,
        mut object: Object,
        account: Account<'_>,
    ) -> Result<Left, Status> {
        metadata::stamp_new(&mut object, &namespaces::timestamp(tx))?;
        let cluster = cluster(call)?;
        let stored = resource.verbs != Verbs::CreateOnly;
        let prefix = object.root()["metadata"]["generateName"].as_str();
        if object.name().is_empty()
            && let Some(prefix) = prefix.filter(|prefix| !prefix.is_empty())
        {
            let name = free_name(tx, call, &resource, prefix)?;
            object.metadata_mut().insert("name".into(), name.into());
        }
        let name = object.name().to_owned();
        if let (Some(namespace), true) = (&call.path.namespace, stored) {
            namespaces::check_open(tx, &cluster, namespace, &resource, &name)?;
        }
        let admission = Admission {
            user: &call.request.user,
            scope: &call.request.scope,
            cluster: &cluster,
            resource: &resource,
            subresource: "",
            old: None,
        };
        if resource.has_status {
            object.root_mut().remove("status");
        }
        if resource.flavour != Flavour::BuiltIn {
            object.metadata_mut().insert("generation".into(), 1.into());
        }
        let shaped = self.shape(tx, &admission, object, account)?;
        if !stored {
            let strategy = resource.strategy.as_ref();
            let answer = strategy.and_then(|s| s.answer(&admission, &shaped.object));
            return Ok(Left::new(resource, Some(answer.unwrap_or(shaped.object))));
        }
        let key = named(call, &resource, &name)?;
        if let Some(there) = tx.get(&key) {
            return Err(already_there(&resource, &there));
        }
        check_size(call, 0, &shaped.object)?;
        tx.put_stamped(&key, shaped.object, shaped.stamp)?;
        tx.report(&key);
        Ok(Left::new(resource, None))
    }

    pub(super) fn update(&self, call: &Call<'_>, name: &str) -> Result<Written, Status> {
        let document = self.document(call, "update")?;
        let manager = owning::manager(call, "UpdateOptions")?;
        let validation = call.query.field_validation("UpdateOptions")?;
        let mut complaints = Complaints::about(validation, &document, &call.request.body);
        let outcome = self.transact(call.query.dry_run("UpdateOptions")?, |tx| {
            let resource = self.find(tx, &call.request.scope, &call.path, "update")?;
            let mut object = decode(document.value, &resource, &mut complaints)?;
            fit_namespace(&mut object, &call.path)?;
            fit_name(&object, name)?;
            let (key, old) = existing(tx, call, &resource, name)?;
            check_version(&resource, name, &object)?;
            let served = view::serve(&resource, old.object())?;
            let account = Account::Update {
                manager: &manager,
                live: Some(&served),
            };
            if call.path.subresource.is_empty() {
                complaints.doubt(&resource, &object, Some(&served));
            }
            let gone = self.replace(tx, call, (&key, &old, &resource), object, account)?;
            Ok(Left::new(resource, gone).warned(&complaints))
        });
        answer(
            call,
            200,
            outcome.map_err(|status| complaints.beside(status))?,
        )
    }

    pub(super) fn patch(&self, call: &Call<'_>, name: &str) -> Result<Written, Status> {
        let kind = body::patch_kind(&call.request.headers).map_err(|status| {
            match self.is_built_in(call) {
                // Refused by the route, which says nothing more.
                Ok(true) => status.about_nothing(),
                Ok(false) => body::unknown_patch(Flavour::Custom),
                Err(missing) => missing,
            }
        })?;
        if kind == PatchKind::Apply {
            return self.apply(call, name);
        }
        if call.query.force().is_some() {
            let error = FieldError::forbidden("force", "may not be specified for non-apply patch");
            let (group, options) = ("meta.k8s.io", "PatchOptions");
            return Err(Status::invalid(group, options, "", &[error]));
        }
        let manager = owning::manager(call, "PatchOptions")?;
        let validation = call.query.field_validation("PatchOptions")?;
        let document = body::patch(&call.request.body)?;
        let mut complaints = Complaints::about_patch(validation, &document, kind);
        let outcome = self.transact(call.query.dry_run("PatchOptions")?, |tx| {
            let resource = self.find(tx, &call.request.scope, &call.path, "patch")?;
            let (key, old) = existing(tx, call, &resource, name)?;
            let served = view::serve(&resource, old.object())?;
            let result = patched(kind, served.as_value(), &document.value, &resource)?;
            let shown = || complaints::shown(kind, &document.value, &result);
            check_type(&result, &call.path, &resource, name)?;
            let mut object = decode(result.clone(), &resource, &mut complaints)
                .map_err(|status| complaints::misfit(&resource, status, shown))?;
            fit_namespace(&mut object, &call.path)?;
            fit_name(&object, name)?;
            check_version(&resource, name, &object)?;
            let account = Account::Update {
                manager: &manager,
                live: Some(&served),
            };
            if call.path.subresource.is_empty() {
                complaints.doubt(&resource, &object, Some(&served));
            }
            let gone = self
                .replace(tx, call, (&key, &old, &resource), object, account)
                .map_err(|status| complaints::misfit(&resource, status, shown))?;
            Ok(Left::new(resource, gone).warned(&complaints))
        });
        answer(
            call,
            200,
            outcome.map_err(|status| complaints.beside(status))?,
        )
    }

    /// Puts a new state in the place of an old one. The answer is the object if that was its end.
    pub(super) fn replace(
        &self,
        tx: &mut Tx<'_>,
        call: &Call<'_>,
        (key, old, resource): (&Key, &Stored, &Arc<Resource>),
        mut object: Object,
        account: Account<'_>,
    ) -> Result<Option<Object>, Status> {
        let before_size = old.size();
        let old = old.object();
        // A patch of the status alone leaves the rest as it is, whatever it says.
        let status_alone = call.request.method == Method::PATCH
            && call.path.subresource == "status"
            && resource.flavour == Flavour::Custom;
        if call.request.method == Method::PATCH
            && !status_alone
            && let Some(uid) = object.uid()
            && old.uid() != Some(uid)
        {
            let error = FieldError::invalid("metadata.uid", uid, "field is immutable");
            let errors = metadata::as_often_as_told(&[error], resource);
            return Err(invalid(resource, key.name(), &errors));
        }
        let meant = object.uid().filter(|_| !status_alone);
        metadata::check_precondition(key, &old, meant, object.resource_version())?;
        let moved = metadata::check_deletion(&object, &old);
        if !moved.is_empty() {
            let errors = metadata::as_often_as_told(&moved, resource);
            return Err(invalid(resource, key.name(), &errors));
        }
        metadata::keep_owned(&mut object, &old);
        let subresource = call.path.subresource.as_str();
        let before = view::serve(resource, old.clone())?;
        keep_the_rest(&mut object, &before, resource, subresource);
        let admission = Admission {
            user: &call.request.user,
            scope: &call.request.scope,
            cluster: key.cluster(),
            resource,
            subresource,
            old: Some(&old),
        };
        let mut shaped = self.shape(tx, &admission, object, account)?;
        if subresource != "status" && resource.flavour != Flavour::BuiltIn {
            count_generation(&mut shaped, &old, resource);
        }
        owning::keep_times(&mut shaped.object, &old);
        let freed = shaped.object.in_deletion() && shaped.object.finalizers().next().is_none();
        if freed && !is_namespaces(resource) {
            let gone = shaped.object;
            tx.remove(key);
            return Ok(Some(gone));
        }
        check_size(call, before_size, &shaped.object)?;
        let last = shaped.object.clone();
        tx.put_stamped(key, shaped.object, shaped.stamp)?;
        tx.report(key);
        // The last word of an object that a controller lets go in this same transaction.
        Ok(last.in_deletion().then_some(last))
    }

    /// Converts, completes and checks an object of the served version.
    fn shape(
        &self,
        tx: &Tx<'_>,
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
            // Held to the version that it was written in before it becomes another.
            schema.default(&mut value);
            let before = admission.old.map(|old| view::serve(resource, old.clone()));
            let before = before.transpose()?;
            let before = before.as_ref().map(Object::as_value);
            errors.extend(judge(schema.as_ref(), admission, &value, before));
            refuse(resource, &value, &errors)?;
        }
        if converts {
            doubles = settle(&mut value);
            self.account(tx, admission, account, &mut value);
        }
        let object = Object::new(value).map_err(|error| Status::bad_request(error.to_string()))?;
        let mut object = match &resource.conversion {
            Some(conversion) => conversion.to_storage(object)?,
            None => object,
        };
        let stored_as = if converts {
            self.stored_as(tx, admission)?
        } else {
            None
        };
        let schema = match &stored_as {
            Some(stored_as) => stored_as.schema.as_ref(),
            None if converts => None,
            None => schema,
        };
        if let Some(strategy) = &resource.strategy {
            strategy.prepare(tx, admission, &mut object)?;
        }
        if let Some(schema) = schema {
            let mut value = object.into_value();
            match account {
                // What an apply has emptied is null, and may not be.
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
            if resource.flavour != Flavour::Custom
                && let Some((_, known)) = fields::builtin::kind(&resource.group, &resource.kind)
            {
                known.drop_empty(&mut value);
            }
            self.account(tx, admission, account, &mut value);
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

    /// The same resource in the version that objects are stored in.
    fn stored_as(
        &self,
        tx: &Tx<'_>,
        admission: &Admission<'_>,
    ) -> Result<Option<Arc<Resource>>, Status> {
        let catalog = self.scopes.catalog(tx, admission.scope)?;
        let resource = admission.resource;
        let group = &resource.table.group;
        Ok(catalog
            .find(group, &resource.storage_version, &resource.table.resource)
            .filter(|stored_as| stored_as.conversion.is_none())
            .cloned())
    }
}

/// What was sent as an object of its kind, without the fields that the kind does not have.
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
    outcome: Outcome<Left>,
) -> Result<Written, Status> {
    let Left {
        resource,
        gone,
        warnings,
    } = outcome.value;
    let view = call.view(resource);
    let body = match (outcome.reported, gone) {
        (Some(stored), _) => view.body(&stored)?,
        (None, Some(mut gone)) if gone.in_deletion() => {
            // Its end is a change too.
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
        warnings,
    })
}

/// The cluster that a write is for: there is one, or there is no such write.
pub(super) fn cluster(call: &Call<'_>) -> Result<crate::playground::store::Name, Status> {
    let cluster = call.request.scope.cluster();
    cluster.cloned().ok_or_else(Status::method_not_allowed)
}

fn named(call: &Call<'_>, resource: &Resource, name: &str) -> Result<Key, Status> {
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
    cluster(call)?;
    let key = named(call, resource, name)?;
    match tx.get(&key) {
        Some(stored) if select::visible(resource, &stored) => Ok((key, stored)),
        _ => Err(Status::not_found(&resource.group, &resource.plural, name)),
    }
}

fn free_name(
    tx: &Tx<'_>,
    call: &Call<'_>,
    resource: &Resource,
    prefix: &str,
) -> Result<String, Status> {
    for _ in 0..NAME_TRIES {
        let name = metadata::generate(prefix);
        if tx.get(&named(call, resource, &name)?).is_none() {
            return Ok(name);
        }
    }
    Err(Status::already_exists(
        &resource.group,
        &resource.plural,
        prefix,
    ))
}

/// Refuses what no etcd would store. Nothing is measured where an object of `before` bytes and what was
/// sent, with an account of all its fields, cannot come to so much.
fn check_size(call: &Call<'_>, before: usize, object: &Object) -> Result<(), Status> {
    let sent = call.request.body.len();
    let at_most = before.saturating_add(sent.saturating_mul(4));
    if at_most < MAX_STORED || json::size(object.as_value()) <= MAX_STORED {
        return Ok(());
    }
    Err(Status::new(500, "", "etcdserver: request is too large"))
}

fn already_there(resource: &Resource, there: &Stored) -> Status {
    let name = there.key.name();
    let mut status = Status::already_exists(&resource.group, &resource.plural, name);
    if there.object().in_deletion() {
        status.message = format!("object is being deleted: {}", status.message);
    }
    status
}

/// Whether an update has to say which state of the object it is of.
fn needs_version(resource: &Resource) -> bool {
    let strict = [
        "admissionregistration.k8s.io",
        "apiextensions.k8s.io",
        "coordination.k8s.io",
    ];
    resource.flavour == Flavour::Custom || strict.contains(&&*resource.group)
}

/// What a patch has made of a custom object is of its kind and version still. Where it has not, that is
/// told as of any field; of the status alone nobody asks.
fn check_type(
    patched: &Value,
    path: &ResourcePath,
    resource: &Resource,
    name: &str,
) -> Result<(), Status> {
    if resource.flavour != Flavour::Custom {
        return Ok(());
    }
    let text = |field: &str| patched.get(field).and_then(Value::as_str).unwrap_or("");
    let (given, kind) = (text("apiVersion"), text("kind"));
    if kind.is_empty() {
        let json = patched.to_string();
        let why = format!("Object 'Kind' is missing in '{json}'");
        let error = FieldError::invalid("patch", json, &why);
        return Err(Status::invalid("", "", "", &[error]));
    }
    if given.is_empty() {
        return Err(Status::internal(
            "Object 'apiVersion' is missing in 'object has no apiVersion field'",
        ));
    }
    let wanted = Gvk::new(&resource.group, &resource.version, &resource.kind);
    if path.subresource == "status" {
        return Ok(());
    }
    let rows = [
        ("kind", kind, wanted.kind.clone()),
        ("apiVersion", given, wanted.api_version()),
    ];
    let wrong = rows.iter().filter(|(_, given, wanted)| given != wanted);
    let errors: Vec<FieldError> = wrong
        .map(|(field, given, wanted)| {
            FieldError::invalid(field, *given, &format!("must be {wanted}"))
        })
        .collect();
    if errors.is_empty() {
        return Ok(());
    }
    let group = given.split_once('/').map_or("", |(group, _)| group);
    Err(Status::invalid(group, kind, name, &errors))
}

fn check_version(resource: &Resource, name: &str, object: &Object) -> Result<(), Status> {
    let version = object.resource_version().unwrap_or("0");
    if !needs_version(resource) || version != "0" {
        return Ok(());
    }
    let error = FieldError::invalid(
        "metadata.resourceVersion",
        0,
        "must be specified for an update",
    );
    // Known by the resource here, not by its kind.
    let (group, plural) = (&resource.group, &resource.plural);
    Err(Status::invalid(group, plural, name, &[error]))
}

/// The namespace of the address is the object's.
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

/// What an endpoint does not write is as it was: `status` for the object, the rest for `/status`.
fn keep_the_rest(object: &mut Object, old: &Object, resource: &Resource, subresource: &str) {
    match (subresource, resource.flavour) {
        ("", _) if resource.has_status => copy(object, old, "status"),
        ("status", Flavour::BuiltIn) => copy(object, old, "spec"),
        ("status", _) => {
            let status = object.root().get("status").cloned();
            let entries = object.metadata_mut().remove("managedFields");
            *object = old.clone();
            if let Some(entries) = entries {
                let metadata = object.metadata_mut();
                metadata.insert("managedFields".into(), entries);
            }
            match status.filter(|status| !status.is_null()) {
                Some(status) => object.root_mut().insert("status".into(), status),
                None => object.root_mut().remove("status"),
            };
        }
        _ => {}
    }
}

/// What the schema has against an object, or against the status where that alone is written.
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

fn copy(object: &mut Object, old: &Object, field: &str) {
    match old.root().get(field) {
        Some(value) => object.root_mut().insert(field.to_owned(), value.clone()),
        None => object.root_mut().remove(field),
    };
}

/// Makes numbers what they are when they are stored; says whether those of what is wanted were others.
fn settle(object: &mut Value) -> bool {
    let mut wanted = false;
    for (field, value) in object.as_object_mut().into_iter().flatten() {
        wanted |= json::settle(value) && !matches!(field.as_str(), "metadata" | "status");
    }
    wanted
}

/// Counts a change of what is wanted.
fn count_generation(shaped: &mut Shaped, old: &Object, resource: &Resource) {
    let wanted = |object: &Object| {
        let mut root = object.root().clone();
        root.remove("metadata");
        if resource.has_status {
            root.remove("status");
        }
        root
    };
    let generation = old.root().get("metadata").and_then(|m| m.get("generation"));
    let generation = generation.and_then(Value::as_i64).unwrap_or(1);
    let changed = shaped.doubles || wanted(&shaped.object) != wanted(old);
    let counted = generation.saturating_add(i64::from(changed));
    let metadata = shaped.object.metadata_mut();
    metadata.insert("generation".into(), counted.into());
}

fn patched(
    kind: PatchKind,
    object: &Value,
    document: &Value,
    resource: &Resource,
) -> Result<Value, Status> {
    let mut patched = match kind {
        PatchKind::Apply => return Err(Status::internal("an apply is no patch of a document")),
        PatchKind::Json => patch::json(object, document),
        PatchKind::Merge => patch::merge(object, document),
        PatchKind::Strategic if resource.flavour == Flavour::Custom => {
            return Err(body::unknown_patch(resource.flavour));
        }
        PatchKind::Strategic => {
            let known = fields::builtin::kind(&resource.group, &resource.kind);
            patch::strategic(object, document, known.map(|(_, known)| known))
        }
    };
    if let (PatchKind::Strategic, Ok(Value::Object(patched))) = (kind, &mut patched) {
        // Merged into an object whose type is known.
        for field in ["apiVersion", "kind"] {
            patched.insert(field.into(), object[field].clone());
        }
    }
    patched.map_err(|error| match error {
        PatchError::Malformed(message) => Status::bad_request(message),
        error @ PatchError::TooLarge { .. } => {
            Status::new(413, "RequestEntityTooLarge", error.to_string())
        }
        // What kept a JSON patch from fitting is not told.
        PatchError::Rejected(_) if kind == PatchKind::Json => Status::misfit(),
        PatchError::Rejected(message) => Status::new(422, "Invalid", message),
        PatchError::Failed(message) => Status::new(500, "", message),
    })
}

fn check_metadata(object: &Object, resource: &Resource) -> Vec<FieldError> {
    // Definitions check their own names; reviews have none.
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
        // Questions are not known by their kind.
        return Err(Status::invalid(&resource.group, "", name, errors));
    }
    Err(invalid(resource, name, errors))
}

fn invalid(resource: &Resource, name: &str, errors: &[FieldError]) -> Status {
    // Both views of events are one kind to the store.
    Status::invalid(&resource.table.group, &resource.kind, name, errors)
}
