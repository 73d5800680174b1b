//! Server-side apply and strategic merge: owners of fields, conflicts, list keys.

use super::super::step::{Script, Topic, get, script};

pub(super) fn topic() -> Topic {
    Topic::new("apply", all())
}

fn all() -> Script {
    script![get("/api/v1/namespaces/$ns/configmaps/missing")]
}
