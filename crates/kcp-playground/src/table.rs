//! Objects as rows of tables, for people: columns, cells, ages.
//!
//! This module knows the columns of a kind, and how to render a cell. It does not know HTTP: the API layer decides
//! which parts of a table are sent.

use std::borrow::Cow;

use jiff::Timestamp;
use serde_json::{Value, json};

mod age;
mod builtin;
mod columns;
mod custom;
mod json_path;

pub(crate) use builtin::printer as builtin;
pub(crate) use custom::Custom;

/// Renders objects of one resource as rows.
pub(crate) trait Printer: Send + Sync {
    fn columns(&self) -> &[Column];

    /// One cell for each column.
    fn cells(&self, object: &Value, now: Timestamp) -> Vec<Value>;

    /// The rows of a list without items: null for kinds without columns of their own.
    fn no_rows(&self) -> Value {
        json!([])
    }
}

/// The definition of a column.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Column {
    pub name: Cow<'static, str>,
    pub kind: Cow<'static, str>,
    pub format: Cow<'static, str>,
    pub description: Cow<'static, str>,
    /// The priority. Above zero, the column is only shown in the wide form.
    pub priority: i64,
}

impl Column {
    pub(crate) fn to_json(&self) -> Value {
        json!({
            "name": self.name,
            "type": self.kind,
            "format": self.format,
            "description": self.description,
            "priority": self.priority,
        })
    }
}
