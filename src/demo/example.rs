//! The API that is published: `examples/databases`, and the names in it.

use serde_json::{Value, json};

use super::error::DemoError;

/// The names on the service cluster.
pub(super) const GROUP: &str = "db.internal.example.com";
pub(super) const VERSION: &str = "v1";
pub(super) const KIND: &str = "PostgresCluster";
pub(super) const PLURAL: &str = "postgresclusters";

/// The names for consumers.
pub(super) const PUBLIC_KIND: &str = "Database";
pub(super) const PUBLIC_VERSION: &str = "databases.example.org/v1alpha1";
pub(super) const PUBLIC_PATH: &str =
    "/apis/databases.example.org/v1alpha1/namespaces/default/databases";

/// Manifests.
pub(super) struct Example {
    /// The CRD of `PublishedResource`.
    pub(super) definition: Value,
    pub(super) crd: Value,
    pub(super) published: Value,
    /// The object that the consumer creates.
    pub(super) object: Value,
}

impl Example {
    pub(super) fn read() -> Result<Self, DemoError> {
        Ok(Self {
            definition: manifest(include_str!(
                "../../crds/syncagent.kcp.io_publishedresources.yaml"
            ))?,
            crd: manifest(include_str!("../../examples/databases/crd.yaml"))?,
            published: manifest(include_str!(
                "../../examples/databases/published-resource.yaml"
            ))?,
            object: manifest(include_str!("../../examples/databases/object.yaml"))?,
        })
    }

    /// Another object for the consumer to create.
    pub(super) fn another(&self, name: &str) -> Value {
        let mut object = self.object.clone();
        object["metadata"]["name"] = json!(name);
        object
    }
}

pub(super) fn manifest(text: &str) -> Result<Value, DemoError> {
    serde_saphyr::from_str(text).map_err(|source| DemoError::Manifest(Box::new(source)))
}

/// The documents of a file.
pub(super) fn manifests(text: &str) -> Result<Vec<Value>, DemoError> {
    serde_saphyr::from_multiple(text).map_err(|source| DemoError::Manifest(Box::new(source)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::demo::place::name;

    #[test]
    fn the_names_are_those_of_the_example() {
        let example = Example::read().unwrap();
        let spec = &example.published["spec"];
        assert_eq!(
            spec["resource"],
            json!({ "apiGroup": GROUP, "kind": KIND, "versions": [VERSION] })
        );
        assert_eq!(example.crd["spec"]["group"], GROUP);
        assert_eq!(example.crd["spec"]["names"]["plural"], PLURAL);
        assert_eq!(spec["projection"]["kind"], PUBLIC_KIND);
        assert_eq!(example.object["kind"], PUBLIC_KIND);
        assert_eq!(example.object["apiVersion"], PUBLIC_VERSION);
        let namespace = example.object["metadata"]["namespace"].as_str().unwrap();
        assert_eq!(
            PUBLIC_PATH,
            format!("/apis/{PUBLIC_VERSION}/namespaces/{namespace}/databases")
        );
        assert_eq!(name(&example.another("other")), "other");
    }
}
