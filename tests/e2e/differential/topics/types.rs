//! What is told of types: OpenAPI documents, and the three levels of field validation.

use super::super::step::{Script, Topic, get, script};

pub(super) fn topic() -> Topic {
    Topic::new("types", all())
}

fn all() -> Script {
    script![get("/openapi/v3/nothing")]
}
