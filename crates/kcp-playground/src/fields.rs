//! Field ownership: `metadata.managedFields` and server-side apply.
//!
//! Pure functions over values, types and sets. They do not know requests, storage or clocks; the caller passes times as
//! text.
//!
//! | module | content |
//! |---|---|
//! | `element`, `set`, `wire` | paths, sets of paths, and their JSON form (`FieldsV1`) |
//! | `types`, `structural`, `builtin` | how lists and maps are merged: for custom resources by their schemas, for
//! built-in kinds by a table |
//! | `check`, `compare`, `extract`, `merge`, `remove`, `reconcile` | typed values |
//! | `managed` | the entries of `managedFields` |
//! | `update`, `ownership` | the effect of writes and applies on objects and entries |

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
