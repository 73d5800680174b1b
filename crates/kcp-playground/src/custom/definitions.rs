//! The validation of `CustomResourceDefinition`s.

use serde_json::Value;

use super::establish::{TABLE, is_established, mark_definition, stored_versions, versions};
use crate::catalog::{Admission, Strategy};
use crate::status::Status;
use crate::store::{Read, Tx};
use kube_lang::object::Object;
use kube_schema::crd::{self, Definition};
use kube_schema::field::FieldError;

pub(crate) struct Definitions;

/// Refuses new objects of a definition in deletion.
pub(super) struct Closing;

impl Strategy for Definitions {
    fn prepare(
        &self,
        _read: &dyn Read,
        _admission: &Admission<'_>,
        object: &mut Object,
    ) -> Result<(), Status> {
        let mut value = object.as_value().clone();
        crd::default_crd(&mut value);
        *object = Object::new(value).map_err(|error| Status::bad_request(error.to_string()))?;
        Ok(())
    }

    fn validate(&self, admission: &Admission<'_>, object: &Object) -> Vec<FieldError> {
        if admission.subresource == "status" {
            return check_status(object);
        }
        let new = object.as_value();
        let mut errors = Definition::from_crd(new).err().unwrap_or_default();
        if let Some(old) = admission.old {
            errors.extend(crd::check_crd_update(
                new,
                old.as_value(),
                is_established(old),
            ));
            errors.extend(check_stored(object, old));
            // The name matched group and plural when it was created. The error is about the changed fields only.
            errors.retain(|error| error.field != "metadata.name");
        }
        errors
    }

    fn before_delete(
        &self,
        tx: &mut Tx<'_>,
        admission: &Admission<'_>,
        crd: &Object,
    ) -> Result<(), Status> {
        if crd.in_deletion() {
            return Ok(());
        }
        let mut going = crd.clone();
        mark_definition(tx, &mut going);
        tx.put(&TABLE.key(admission.cluster, "", crd.name()), going)
    }
}

impl Strategy for Closing {
    fn prepare(
        &self,
        _read: &dyn Read,
        admission: &Admission<'_>,
        object: &mut Object,
    ) -> Result<(), Status> {
        if admission.old.is_some() {
            return Ok(());
        }
        let resource = admission.resource;
        Err(Status::forbidden(
            &resource.group,
            &resource.plural,
            object.name(),
            "create not allowed while custom resource definition is terminating",
        ))
    }

    fn validate(&self, _admission: &Admission<'_>, _object: &Object) -> Vec<FieldError> {
        Vec::new()
    }
}

/// A version in which objects may be stored cannot be removed.
fn check_stored(new: &Object, old: &Object) -> Vec<FieldError> {
    stored_versions(old)
        .enumerate()
        .filter(|(_, version)| !versions(new).any(|(name, _)| name == *version))
        .map(|(index, version)| {
            let detail = format!(
                "missing from spec.versions; {version} was previously a storage version, and must remain in spec.versions until a storage migration ensures no data remains persisted in {version} and removes {version} from status.storedVersions"
            );
            FieldError::invalid(format!("status.storedVersions[{index}]"), version, &detail)
        })
        .collect()
}

fn check_status(crd: &Object) -> Vec<FieldError> {
    let mut errors = Vec::new();
    for (index, stored) in stored_versions(crd).enumerate() {
        if !versions(crd).any(|(name, _)| name == stored) {
            let field = format!("status.storedVersions[{index}]");
            errors.push(FieldError::invalid(
                field,
                stored,
                "must appear in spec.versions",
            ));
        }
    }
    for (name, storage) in versions(crd) {
        if storage && !stored_versions(crd).any(|stored| stored == name) {
            let all: Vec<Value> = stored_versions(crd).map(Value::from).collect();
            let detail = format!("must have the storage version {name}");
            errors.push(FieldError::invalid("status.storedVersions", all, &detail));
        }
    }
    errors
}
