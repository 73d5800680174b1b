//! Objects as the rows of tables, for people who read them: columns, cells, ages.
//!
//! Knows which columns a kind has and how a cell is made of an object. Nothing of HTTP: what of a table
//! is sent, and beside which object, is the API layer's business.

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

/// What shows objects of one resource as rows.
pub(crate) trait Printer: Send + Sync {
    fn columns(&self) -> &[Column];

    /// One cell for each column.
    fn cells(&self, object: &Value, now: Timestamp) -> Vec<Value>;

    /// The rows of a list without items: kinds that have no columns of their own answer null there.
    fn no_rows(&self) -> Value {
        json!([])
    }
}

/// The head of a column.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Column {
    pub name: Cow<'static, str>,
    pub kind: Cow<'static, str>,
    pub format: Cow<'static, str>,
    pub description: Cow<'static, str>,
    /// Above zero: shown only to those who want it wide.
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
