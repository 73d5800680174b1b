//! Leases: what leader election keeps its record in.

use serde_json::Value;

use crate::object::Object;
use crate::playground::catalog::{Admission, Strategy};
use crate::playground::field::FieldError;
use crate::playground::status::Status;
use crate::playground::store::Tx;

pub(super) struct Leases;

impl Strategy for Leases {
    fn prepare(
        &self,
        _tx: &Tx<'_>,
        _admission: &Admission<'_>,
        _object: &mut Object,
    ) -> Result<(), Status> {
        Ok(())
    }

    fn validate(&self, _admission: &Admission<'_>, lease: &Object) -> Vec<FieldError> {
        let rows = [
            ("leaseDurationSeconds", 1, "must be greater than 0"),
            ("leaseTransitions", 0, "must be greater than or equal to 0"),
        ];
        rows.into_iter()
            .filter_map(|(field, least, detail)| {
                let number = lease
                    .as_value()
                    .pointer("/spec")?
                    .get(field)
                    .and_then(Value::as_i64)?;
                (number < least)
                    .then(|| FieldError::invalid(format!("spec.{field}"), number, detail))
            })
            .collect()
    }
}
