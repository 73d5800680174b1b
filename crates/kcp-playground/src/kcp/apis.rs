//! The rules of the kinds of `apis.kcp.io`, beyond their schemas.

use serde_json::Value;

use super::convert;
use super::exports::ExportName;
use super::{exports, ids, objects, tree};
use crate::catalog::{Admission, Conversion, Strategy};
use crate::status::Status;
use crate::store::Read;
use kube_lang::object::Object;
use kube_schema::crd::{self, Definition};
use kube_schema::field::FieldError;

const GROUP: &str = "apis.kcp.io";

/// Built-in kinds that a claim may name without an identity: group, resource.
pub(super) const CLAIMABLE: &[(&str, &str)] = &[
    ("", "namespaces"),
    ("", "configmaps"),
    ("", "events"),
    ("", "resourcequotas"),
    ("", "secrets"),
    ("", "serviceaccounts"),
    ("rbac.authorization.k8s.io", "clusterroles"),
    ("rbac.authorization.k8s.io", "clusterrolebindings"),
    ("rbac.authorization.k8s.io", "roles"),
    ("rbac.authorization.k8s.io", "rolebindings"),
    ("certificates.k8s.io", "certificatesigningrequests"),
    ("coordination.k8s.io", "leases"),
    (
        "admissionregistration.k8s.io",
        "mutatingwebhookconfigurations",
    ),
    (
        "admissionregistration.k8s.io",
        "validatingwebhookconfigurations",
    ),
    ("admissionregistration.k8s.io", "mutatingadmissionpolicies"),
    (
        "admissionregistration.k8s.io",
        "mutatingadmissionpolicybindings",
    ),
    (
        "admissionregistration.k8s.io",
        "validatingadmissionpolicies",
    ),
    (
        "admissionregistration.k8s.io",
        "validatingadmissionpolicybindings",
    ),
    ("events.k8s.io", "events"),
    ("apiextensions.k8s.io", "customresourcedefinitions"),
    ("core.kcp.io", "logicalclusters"),
    ("authorization.k8s.io", "subjectaccessreviews"),
    ("authorization.k8s.io", "localsubjectaccessreviews"),
    ("authentication.k8s.io", "tokenreviews"),
];

fn refuse(plural: &str, object: &Object, why: &str) -> Status {
    Status::forbidden(GROUP, plural, object.name(), why)
}

fn immutable(admission: &Admission<'_>, object: &Object, field: &str) -> Vec<FieldError> {
    let at = format!("/{}", field.replace('.', "/"));
    let Some(old) = admission.old else {
        return Vec::new();
    };
    let is = object.as_value().pointer(&at);
    if is == old.as_value().pointer(&at) {
        return Vec::new();
    }
    let is = is.cloned().unwrap_or_default();
    vec![FieldError::invalid(field, is, "field is immutable")]
}

/// Writes the path of the object's workspace to the object.
fn note_path(read: &dyn Read, admission: &Admission<'_>, object: &mut Object) {
    if let Some(path) = tree::path_of(read, admission.cluster) {
        object.set_annotation(tree::PATH, &path);
    }
}

/// Refuses annotations that prevent the conversion of an object to the older version. Such an object would make every
/// list that contains it fail, also for other workspaces.
fn check_annotations(plural: &str, object: &Object) -> Result<(), Status> {
    let mut value = object.clone().into_value();
    convert::to_old(&mut value).map_err(|error| {
        let name = object.name();
        Status::bad_request(format!("{plural}.{GROUP} {name:?}: {error}"))
    })
}

/// `APIResourceSchema`
pub(super) struct Schemas;

impl Strategy for Schemas {
    fn prepare(
        &self,
        _read: &dyn Read,
        admission: &Admission<'_>,
        object: &mut Object,
    ) -> Result<(), Status> {
        let mut value = object.clone().into_value();
        crd::default_resource_schema(&mut value);
        if admission.old.is_none()
            && let Err(errors) = Definition::from_resource_schema(&value)
        {
            let name = object.name();
            return Err(Status::invalid(GROUP, "APIResourceSchema", name, &errors));
        }
        *object = Object::new(value).map_err(Status::internal)?;
        Ok(())
    }

    fn validate(&self, admission: &Admission<'_>, object: &Object) -> Vec<FieldError> {
        immutable(admission, object, "spec")
    }
}

/// `APIExport`
pub(super) struct Exports;

impl Strategy for Exports {
    fn prepare(
        &self,
        read: &dyn Read,
        admission: &Admission<'_>,
        object: &mut Object,
    ) -> Result<(), Status> {
        if admission.subresource.is_empty() {
            note_path(read, admission, object);
        }
        check_annotations("apiexports", object)?;
        let refused = |why: String| Err(refuse("apiexports", object, &why));
        for (group, name, schema) in exports::resources(object.as_value()) {
            let group = if group.is_empty() { "core" } else { group };
            let end = format!(".{name}.{group}");
            if !schema.ends_with(&end) {
                return refused(format!(
                    "spec.resources: schema {schema:?} must end in {end:?}"
                ));
            }
        }
        for claim in objects::items(object.as_value(), "/spec/permissionClaims") {
            let group = objects::text(claim, "/group");
            let resource = objects::text(claim, "/resource");
            let known = group == GROUP || CLAIMABLE.contains(&(group, resource));
            if objects::text(claim, "/identityHash").is_empty() && !known {
                let name = crate::status::qualified(group, resource);
                return refused(format!(
                    "spec.permissionClaims: a claim on {name} needs an identityHash"
                ));
            }
        }
        Ok(())
    }

    fn validate(&self, _admission: &Admission<'_>, _object: &Object) -> Vec<FieldError> {
        Vec::new()
    }
}

/// Refuses a reference to an export by a path that does not exist.
fn check_reference(
    read: &dyn Read,
    admission: &Admission<'_>,
    reference: &Value,
) -> Result<Option<ExportName>, String> {
    let found = exports::referenced(read, admission.cluster, reference)
        .filter(|export| read.get(&export.key()).is_some());
    let path = objects::text(reference, "/path");
    if found.is_none() && !path.is_empty() && path != tree::ROOT && admission.old.is_none() {
        let name = objects::text(reference, "/name");
        return Err(format!("{path}:{name}"));
    }
    Ok(found)
}

/// `APIExportEndpointSlice`
pub(super) struct Slices;

impl Strategy for Slices {
    fn prepare(
        &self,
        read: &dyn Read,
        admission: &Admission<'_>,
        object: &mut Object,
    ) -> Result<(), Status> {
        let reference = &object.as_value()["spec"]["export"];
        check_reference(read, admission, reference)
            .map(|_| ())
            .map_err(|name| {
                let why = format!("no permission to bind to export {name}");
                refuse("apiexportendpointslices", object, &why)
            })
    }

    fn validate(&self, admission: &Admission<'_>, object: &Object) -> Vec<FieldError> {
        immutable(admission, object, "spec.export")
    }
}

/// `APIBinding`
pub(super) struct Bindings;

impl Strategy for Bindings {
    fn prepare(
        &self,
        read: &dyn Read,
        admission: &Admission<'_>,
        object: &mut Object,
    ) -> Result<(), Status> {
        let reference = object.as_value()["spec"]["reference"]["export"].clone();
        let found = check_reference(read, admission, &reference).map_err(|name| {
            let why =
                format!("unable to create APIBinding: no permission to bind to export {name}");
            refuse("apibindings", object, &why)
        })?;
        check_annotations("apibindings", object)?;
        for claim in objects::items(object.as_value(), "/spec/permissionClaims") {
            let selector = &claim["selector"];
            let fields = ["matchLabels", "matchExpressions"];
            let some = fields.iter().any(|field| !selector[field].is_null());
            if selector.is_object() && some == (selector["matchAll"] == true) {
                let why = "spec.permissionClaims: a claim has one selector, matchAll or by labels";
                return Err(refuse("apibindings", object, why));
            }
        }
        if !admission.subresource.is_empty() {
            return Ok(());
        }
        note_path(read, admission, object);
        if let Some(export) = found {
            object.set_label(ids::EXPORT_LABEL, &export.hash());
        } else if let Some(known) = admission.old.and_then(|old| old.label(ids::EXPORT_LABEL)) {
            object.set_label(ids::EXPORT_LABEL, known);
        }
        Ok(())
    }

    fn validate(&self, admission: &Admission<'_>, object: &Object) -> Vec<FieldError> {
        immutable(admission, object, "spec.reference")
    }
}

/// Converts between the two versions of exports and bindings.
pub(super) struct ExportVersions;

impl Conversion for ExportVersions {
    fn to_served(&self, stored: Object) -> Result<Object, Status> {
        let mut value = stored.into_value();
        convert::to_old(&mut value).map_err(Status::internal)?;
        Object::new(value).map_err(Status::internal)
    }

    fn to_storage(&self, served: Object) -> Result<Object, Status> {
        let kind = served.kind().to_owned();
        let name = served.name().to_owned();
        let mut value = served.into_value();
        let errors = check_old_claims(&value);
        if !errors.is_empty() {
            return Err(Status::invalid(GROUP, &kind, &name, &errors));
        }
        convert::to_stored(&mut value).map_err(|error| Status::bad_request(error.to_string()))?;
        Object::new(value).map_err(|error| Status::bad_request(error.to_string()))
    }
}

/// The older version claims all objects of a resource, or some by name.
fn check_old_claims(value: &Value) -> Vec<FieldError> {
    objects::items(value, "/spec/permissionClaims")
        .enumerate()
        .filter(|(_, claim)| {
            let all = claim["all"] == true;
            let some = claim["resourceSelector"]
                .as_array()
                .is_some_and(|s| !s.is_empty());
            all == some
        })
        .map(|(index, claim)| {
            FieldError::invalid(
                format!("spec.permissionClaims[{index}]"),
                claim.clone(),
                "either \"all\" or \"resourceSelector\" must be set",
            )
        })
        .collect()
}
