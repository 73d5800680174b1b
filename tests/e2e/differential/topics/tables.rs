//! Answers as tables and as metadata only, discovery in one document, gzip, selectable fields.

use super::super::step::{Script, Topic, get, script};

pub(super) fn topic() -> Topic {
    Topic::new("tables", all())
}

fn all() -> Script {
    script![
        get("/api/v1/namespaces/$ns/configmaps")
            .accept("application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io")
    ]
}
