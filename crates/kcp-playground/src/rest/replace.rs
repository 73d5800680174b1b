//! Updates and patches.

use std::sync::Arc;

use http::Method;
use serde_json::Value;

use super::body::{self, PatchKind};
use super::complaints::{self, Complaints};
use super::discovery::is_namespaces;
use super::ground::Ground;
use super::owning::{self, Account};
use super::target::ResourcePath;
use super::view::View;
use super::write::{
    Recorded, Shaped, Written, answer, check_size, decode, existing, fit_name, fit_namespace,
    invalid,
};
use super::{Call, Rest, metadata};
use crate::catalog::{Admission, Flavour, Resource};
use crate::patch::{self, PatchError};
use crate::status::Status;
use crate::store::{Key, Tx};
use kube_lang::object::{Gvk, Object};
use kube_schema::field::FieldError;

/// A stored object, before it is changed.
pub(super) struct There {
    key: Key,
    /// The size of its JSON.
    size: usize,
    object: Object,
    /// The object in the served version, if that differs from the stored one.
    served: Option<Object>,
}

impl There {
    pub(super) fn find(
        tx: &Tx<'_>,
        call: &Call<'_>,
        resource: &Arc<Resource>,
        name: &str,
    ) -> Result<Self, Status> {
        let (key, stored) = existing(tx, call, resource, name)?;
        let object = stored.object();
        let served = View::of(resource, call.clock).served(&stored, &object)?;
        Ok(Self {
            key,
            size: stored.size(),
            object,
            served,
        })
    }

    pub(super) fn served(&self) -> &Object {
        self.served.as_ref().unwrap_or(&self.object)
    }

    fn update_by<'a>(&'a self, manager: &'a str) -> Account<'a> {
        Account::Update {
            manager,
            live: Some(self.served()),
        }
    }
}

impl Rest {
    pub(super) fn update(&self, call: &Call<'_>, name: &str) -> Result<Written, Status> {
        let document = self.document(call, "update")?;
        let manager = owning::manager(call, "UpdateOptions")?;
        let validation = call.query.field_validation("UpdateOptions")?;
        let mut complaints = Complaints::about(validation, &document, &call.request.body);
        let outcome = self.transact(call.query.dry_run("UpdateOptions")?, |tx| {
            let resource = self.meant(tx, call, "update")?;
            let mut object = decode(document.value, &resource, &mut complaints)?;
            fit_namespace(&mut object, &call.path)?;
            fit_name(&object, name)?;
            let there = There::find(tx, call, &resource, name)?;
            check_version(&resource, name, &object)?;
            let account = there.update_by(&manager);
            complaints.doubt((&resource, &call.path), &object, Some(there.served()));
            let gone = self.replace(tx, call, (&there, &resource), object, account)?;
            Ok(Recorded::new(resource, gone).warned(&complaints))
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
                // The route refuses this without details.
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
            let resource = self.meant(tx, call, "patch")?;
            let there = There::find(tx, call, &resource, name)?;
            let patched = || {
                let served = there.served().as_value();
                patched(kind, served, &document.value, &resource)
            };
            // The result is only shown in a refusal, and is computed again there.
            let shown = || {
                let result = patched().unwrap_or_default();
                complaints::shown(kind, &document.value, &result)
            };
            let result = patched()?;
            check_type(&result, &call.path, &resource, name)?;
            let mut object = decode(result, &resource, &mut complaints)
                .map_err(|status| complaints::misfit(&resource, status, shown))?;
            fit_namespace(&mut object, &call.path)?;
            fit_name(&object, name)?;
            check_version(&resource, name, &object)?;
            let account = there.update_by(&manager);
            complaints.doubt((&resource, &call.path), &object, Some(there.served()));
            let gone = self
                .replace(tx, call, (&there, &resource), object, account)
                .map_err(|status| complaints::misfit(&resource, status, shown))?;
            Ok(Recorded::new(resource, gone).warned(&complaints))
        });
        answer(
            call,
            200,
            outcome.map_err(|status| complaints.beside(status))?,
        )
    }

    /// Stores a new state of an object. Returns the object if this write removed it.
    pub(super) fn replace(
        &self,
        tx: &mut Tx<'_>,
        call: &Call<'_>,
        (there, resource): (&There, &Arc<Resource>),
        mut object: Object,
        account: Account<'_>,
    ) -> Result<Option<Object>, Status> {
        let There {
            key, object: old, ..
        } = there;
        // A patch of the status leaves the other fields as they are, whatever it contains.
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
        metadata::check_precondition(key, old, meant, object.resource_version())?;
        let moved = metadata::check_deletion(&object, old);
        if !moved.is_empty() {
            let errors = metadata::as_often_as_told(&moved, resource);
            return Err(invalid(resource, key.name(), &errors));
        }
        metadata::keep_owned(&mut object, old);
        let subresource = call.path.subresource.as_str();
        keep_the_rest(&mut object, there.served(), resource, subresource);
        if subresource.is_empty() {
            self.admit(Ground::Inside(tx), call, (resource, false), &mut object)?;
        }
        let admission = Admission {
            user: &call.request.user,
            scope: &call.request.scope,
            cluster: key.cluster(),
            resource,
            subresource,
            old: Some(old),
        };
        let mut shaped = self.shape(Ground::Inside(tx), &admission, object, account)?;
        if subresource != "status" && resource.flavour != Flavour::BuiltIn {
            count_generation(&mut shaped, old, resource);
        }
        owning::keep_times(&mut shaped.object, old);
        let freed = shaped.object.in_deletion() && shaped.object.finalizers().next().is_none();
        if freed && !is_namespaces(resource) {
            let gone = shaped.object;
            tx.remove(key);
            return Ok(Some(gone));
        }
        check_size(call, there.size, &shaped.object)?;
        // The last state of the object, in case a controller removes it in this transaction.
        let last = shaped.object.in_deletion().then(|| shaped.object.clone());
        tx.put_stamped(key, shaped.object, shaped.stamp)?;
        tx.report(key);
        Ok(last)
    }
}

/// Whether an update has to name the resourceVersion of the object.
fn needs_version(resource: &Resource) -> bool {
    let strict = [
        "admissionregistration.k8s.io",
        "apiextensions.k8s.io",
        "coordination.k8s.io",
    ];
    resource.flavour == Flavour::Custom || strict.contains(&&*resource.group)
}

/// Checks that a patched custom object still has its kind and version. An error is reported like one of any field; for
/// the status alone, this is not checked.
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
    // The message names the resource, not the kind.
    let (group, plural) = (&resource.group, &resource.plural);
    Err(Status::invalid(group, plural, name, &[error]))
}

/// Restores the fields that an endpoint does not write: `status` for the object, all others for `/status`.
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

fn copy(object: &mut Object, old: &Object, field: &str) {
    match old.root().get(field) {
        Some(value) => object.root_mut().insert(field.to_owned(), value.clone()),
        None => object.root_mut().remove(field),
    };
}

/// Increments the generation if the desired state changes.
fn count_generation(shaped: &mut Shaped, old: &Object, resource: &Resource) {
    let counts = |field: &str| match field {
        "metadata" => false,
        "status" => !resource.has_status,
        _ => true,
    };
    let generation = old.root().get("metadata").and_then(|m| m.get("generation"));
    let generation = generation.and_then(Value::as_i64).unwrap_or(1);
    let changed = {
        let new = shaped
            .object
            .root()
            .iter()
            .filter(|(field, _)| counts(field));
        let old = old.root().iter().filter(|(field, _)| counts(field));
        shaped.doubles || !new.eq(old)
    };
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
        PatchKind::Strategic => patch::strategic(object, document, resource.fields.structure()),
    };
    if let (PatchKind::Strategic, Ok(Value::Object(patched))) = (kind, &mut patched) {
        // Merged into an object whose kind is known.
        for field in ["apiVersion", "kind"] {
            patched.insert(field.into(), object[field].clone());
        }
    }
    patched.map_err(|error| match error {
        PatchError::Malformed(message) => Status::bad_request(message),
        error @ PatchError::TooLarge { .. } => {
            Status::new(413, "RequestEntityTooLarge", error.to_string())
        }
        // The message does not name the failed operation of a JSON patch.
        PatchError::Rejected(_) if kind == PatchKind::Json => Status::misfit(),
        PatchError::Rejected(message) => Status::new(422, "Invalid", message),
        PatchError::Failed(message) => Status::new(500, "", message),
    })
}
