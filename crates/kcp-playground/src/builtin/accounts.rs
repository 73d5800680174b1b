//! `ServiceAccounts`: each item of their `secrets` keeps only its name.

use serde_json::{Value, json};

use crate::catalog::{Admission, Strategy};
use crate::status::Status;
use crate::store::Read;
use kube_lang::object::Object;
use kube_schema::field::FieldError;

pub(super) struct ServiceAccounts;

impl Strategy for ServiceAccounts {
    fn looks_around(&self) -> bool {
        false
    }

    fn prepare(
        &self,
        _read: &dyn Read,
        _admission: &Admission<'_>,
        object: &mut Object,
    ) -> Result<(), Status> {
        if let Some(Value::Array(secrets)) = object.root_mut().get_mut("secrets") {
            for secret in secrets {
                *secret = match secret.get("name") {
                    Some(name) => json!({"name": name}),
                    None => json!({}),
                };
            }
        }
        Ok(())
    }

    fn validate(&self, _admission: &Admission<'_>, _object: &Object) -> Vec<FieldError> {
        Vec::new()
    }
}
