//! Rules in schemas: x-kubernetes-validations.

use super::super::step::{Script, Topic, get, script};

pub(super) fn topic() -> Topic {
    Topic::new("rules", all())
}

fn all() -> Script {
    script![get("/apis/$group/v1/missing")]
}
