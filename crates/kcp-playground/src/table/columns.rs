//! Columns that many kinds share, with their descriptions.

use super::Column;

pub(super) const NAME: &str = "Name must be unique within a namespace. Is required when creating resources, although some resources may allow a client to request the generation of an appropriate name automatically. Name is primarily intended for creation idempotence and configuration definition. Cannot be updated. More info: https://kubernetes.io/docs/concepts/overview/working-with-objects/names#names";
pub(super) const CREATED: &str = "CreationTimestamp is a timestamp representing the server time when this object was created. It is not guaranteed to be set in happens-before order across separate operations. Clients may not set this value. It is represented in RFC3339 form and is in UTC.\n\nPopulated by the system. Read-only. Null for lists. More info: https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md#metadata";

pub(super) fn name() -> Column {
    Column {
        format: "name".into(),
        ..column("Name", NAME)
    }
}

pub(super) fn age() -> Column {
    column("Age", CREATED)
}

/// A column of strings.
pub(super) fn column(name: &'static str, description: &'static str) -> Column {
    Column {
        name: name.into(),
        kind: "string".into(),
        format: "".into(),
        description: description.into(),
        priority: 0,
    }
}

/// A column of integers.
pub(super) fn number(name: &'static str, description: &'static str) -> Column {
    Column {
        kind: "integer".into(),
        ..column(name, description)
    }
}

/// Only shown in the wide form.
pub(super) fn wide(column: Column) -> Column {
    Column {
        priority: 1,
        ..column
    }
}
