//! Quotas: amounts of resources. They are not enforced.

use serde_json::{Map, Value};

use crate::catalog::{Admission, Strategy};
use crate::status::Status;
use crate::store::Read;
use kube_cel::check_quantity;
use kube_lang::object::Object;
use kube_schema::field::FieldError;

pub(super) struct Quotas;

const AMOUNTS: [(&str, &str); 3] = [("spec", "hard"), ("status", "hard"), ("status", "used")];

impl Strategy for Quotas {
    fn looks_around(&self) -> bool {
        false
    }

    /// Amounts are strings, even if numbers were sent.
    fn prepare(
        &self,
        _read: &dyn Read,
        _admission: &Admission<'_>,
        quota: &mut Object,
    ) -> Result<(), Status> {
        for (part, field) in AMOUNTS {
            let part = quota.root_mut().get_mut(part);
            let amounts = part.and_then(|part| part.get_mut(field));
            let amounts = amounts.and_then(Value::as_object_mut);
            amounts
                .into_iter()
                .flat_map(Map::values_mut)
                .try_for_each(settle)?;
        }
        Ok(())
    }

    fn validate(&self, _admission: &Admission<'_>, _quota: &Object) -> Vec<FieldError> {
        Vec::new()
    }
}

fn settle(amount: &mut Value) -> Result<(), Status> {
    let text = match &*amount {
        Value::Null => "0".to_owned(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    check_quantity(&text).map_err(|why| {
        Status::bad_request(format!(
            "ResourceQuota in version \"v1\" cannot be handled as a ResourceQuota: {why}"
        ))
    })?;
    *amount = text.into();
    Ok(())
}
