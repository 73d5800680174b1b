//! Who owns which fields: the bookkeeping behind `metadata.managedFields` and server-side apply.
//!
//! Pure: values, types and sets in, values and sets out. Knows nothing of requests, storage or clocks;
//! times are text that the caller brings.
//!
//! | module | what it knows |
//! |---|---|
//! | `element`, `set`, `wire` | paths, sets of them, and their JSON form (`FieldsV1`) |
//! | `types`, `structural`, `builtin` | how lists and maps are merged, by custom schemas and by a table |
//! | `check`, `compare`, `extract`, `merge`, `remove`, `reconcile` | typed values |
//! | `managed` | the entries of `managedFields` |
//! | `update`, `ownership` | what a write and what an apply does to objects and entries |

pub(crate) mod builtin;
mod check;
mod compare;
mod element;
mod extract;
mod fresh;
mod golang;
mod managed;
mod merge;
mod ownership;
mod reconcile;
mod remove;
mod set;
mod structural;
#[cfg(test)]
mod tests;
mod types;
mod update;
mod wire;

pub(crate) use managed::Managed;
pub(crate) use ownership::{Apply, ApplyError, Ownership};
pub(crate) use set::Set;
pub(crate) use structural::of_schema;
pub(crate) use types::Type;
pub(crate) use update::{Conflict, Typed, Versions};
