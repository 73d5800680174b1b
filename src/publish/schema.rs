//! Published schemas: their content, and their names, which are hashes of it.

use serde_json::{Map, Value, json};

use super::crd::{Crd, CrdError, CrdSpec, encode_spec};
use super::hashes;
use super::marks;

/// A published schema, ready to be created in the workspace of the export.
#[derive(Clone, Debug, PartialEq)]
pub struct PublishedSchema {
    pub name: String,
    pub object: Value,
}

/// The name of the schema for a projected CRD: the same content always has the same name.
pub fn name(spec: &CrdSpec) -> Result<String, CrdError> {
    let hash = hashes::sha1_hex(&(encode_spec(spec)? + "\n"));
    Ok(format!(
        "v{}.{}.{}",
        &hash[..8],
        spec.names.plural,
        spec.group
    ))
}

/// Makes the schema of a projected CRD.
pub fn publish(crd: &Crd, agent: &str) -> Result<PublishedSchema, CrdError> {
    let name = name(&crd.spec)?;
    // The same text that is hashed, so that name and content cannot drift apart.
    let encoded: Value = serde_json::from_str(&encode_spec(&crd.spec)?)?;
    let mut spec = Map::new();
    for field in ["group", "names", "scope"] {
        spec.insert(field.to_owned(), encoded[field].clone());
    }
    let versions = encoded["versions"]
        .as_array()
        .map_or(&[][..], Vec::as_slice);
    // kcp demands a conversion as soon as there is something to convert between.
    if versions.len() > 1 {
        spec.insert("conversion".to_owned(), json!({"strategy": "None"}));
    }
    spec.insert(
        "versions".to_owned(),
        versions.iter().map(version).collect::<Vec<_>>().into(),
    );
    let object = json!({
        "apiVersion": "apis.kcp.io/v1alpha1",
        "kind": "APIResourceSchema",
        "metadata": {
            "name": name,
            "labels": {marks::AGENT_NAME: agent},
            "annotations": {
                marks::AGENT_NAME: agent,
                marks::SOURCE_GENERATION: crd.metadata.generation.to_string(),
            },
        },
        "spec": spec,
    });
    Ok(PublishedSchema { name, object })
}

/// Converts a version of a CRD to a version of a published schema: the schema is there directly, and subresources are
/// always present, even if empty.
fn version(crd_version: &Value) -> Value {
    let mut version = crd_version.clone();
    let schema = crd_version["schema"]["openAPIV3Schema"].clone();
    version["schema"] = if schema.is_null() { json!({}) } else { schema };
    if version.get("subresources").is_none() {
        version["subresources"] = json!({});
    }
    version
}

#[cfg(test)]
mod tests {
    use super::*;

    const CRONTAB: &str = r#"{"group":"example.com","names":{"plural":"crontabs","singular":"crontab","shortNames":["ct"],"kind":"CronTab","listKind":"CronTabList"},"scope":"Namespaced","versions":[{"name":"v1","served":true,"storage":true,"schema":{"openAPIV3Schema":{"type":"object","properties":{"spec":{"type":"object","properties":{"cronSpec":{"type":"string"},"image":{"type":"string"},"replicas":{"type":"integer"}}}}}}}]}"#;

    fn crontab() -> CrdSpec {
        serde_json::from_str(CRONTAB).unwrap()
    }

    #[test]
    fn the_text_that_is_hashed_is_the_one_of_the_original() {
        assert_eq!(encode_spec(&crontab()).unwrap(), CRONTAB);
    }

    #[test]
    fn schema_names_are_those_of_the_original() {
        assert_eq!(name(&crontab()).unwrap(), "v0595d221.crontabs.example.com");
        let mut other_group = crontab();
        "kcp.example.com".clone_into(&mut other_group.group);
        assert_eq!(
            name(&other_group).unwrap(),
            "v35f52fc4.crontabs.kcp.example.com"
        );
        let mut cluster_scoped = crontab();
        "Cluster".clone_into(&mut cluster_scoped.scope);
        assert_eq!(
            name(&cluster_scoped).unwrap(),
            "v1c29ecbc.crontabs.example.com"
        );
    }

    #[test]
    fn order_spelling_and_escapes_of_raw_values_are_kept_and_empty_fields_left_out() {
        let spec: CrdSpec = serde_json::from_str(
            r#"{"group":"g","names":{"plural":"ps","kind":"P","categories":null,"shortNames":[]},"scope":"Cluster","conversion":{"strategy":"Webhook"},"preserveUnknownFields":false,
            "versions":[{"storage":false,"served":true,"name":"v1","deprecated":false,"subresources":{"scale":{"specReplicasPath":".a","statusReplicasPath":".b"},"status":{}},
              "schema":{"openAPIV3Schema":{
                "x-kubernetes-preserve-unknown-fields":false,"type":"object","description":"a <b> & c","required":[],"nullable":false,"unknown":1,
                "properties":{"z":{"default":{"b":1.0, "a":"<"},"enum":[null, "x"]},"a":{"minimum":1.50,"maximum":1e21,"maxLength":0,"default":null},
                  "m":{"additionalProperties":true,"items":[{"type":"string"}]},"n":{"additionalProperties":{"type":"string"},"x-kubernetes-validations":[{"message":"m","rule":"self > 0"}]}}
              }},
              "additionalPrinterColumns":[{"jsonPath":".s","type":"string","name":"S","priority":0}],
              "selectableFields":[{"jsonPath":".spec.a"}]}]}"#,
        )
        .unwrap();
        assert_eq!(
            encode_spec(&spec).unwrap(),
            r#"{"group":"g","names":{"plural":"ps","kind":"P"},"scope":"Cluster","versions":[{"name":"v1","served":true,"storage":false,"schema":{"openAPIV3Schema":{"description":"a \u003cb\u003e \u0026 c","type":"object","properties":{"a":{"maximum":1e+21,"minimum":1.5,"maxLength":0},"m":{"items":[{"type":"string"}],"additionalProperties":true},"n":{"additionalProperties":{"type":"string"},"x-kubernetes-validations":[{"rule":"self \u003e 0","message":"m"}]},"z":{"default":{"b":1.0,"a":"\u003c"},"enum":[null,"x"]}},"x-kubernetes-preserve-unknown-fields":false}},"subresources":{"status":{},"scale":{"specReplicasPath":".a","statusReplicasPath":".b"}},"additionalPrinterColumns":[{"name":"S","type":"string","jsonPath":".s"}],"selectableFields":[{"jsonPath":".spec.a"}]}]}"#
        );
    }

    #[test]
    fn a_schema_that_cannot_be_read_says_where() {
        let crd = br#"{"metadata":{},"spec":{"group":"g","names":{"plural":"p","kind":"P"},"scope":"Cluster","versions":[{"name":"v1","schema":{"openAPIV3Schema":{"properties":{"a":{"maxLength":"x"}}}}}]}}"#;
        let error = Crd::from_json(crd).unwrap_err().to_string();
        assert!(
            error
                .starts_with("the schema of version v1 cannot be read: properties: a: maxLength: "),
            "{error}"
        );
    }

    #[test]
    fn a_schema_is_published_with_its_origin_and_a_conversion_only_where_there_are_versions() {
        let mut crd = Crd {
            metadata: super::super::crd::CrdMetadata {
                generation: 3,
                ..Default::default()
            },
            spec: crontab(),
        };
        let published = publish(&crd, "agent").unwrap();
        assert_eq!(
            published.object["metadata"],
            json!({
                "name": "v0595d221.crontabs.example.com",
                "labels": {"syncagent.kcp.io/agent-name": "agent"},
                "annotations": {"syncagent.kcp.io/agent-name": "agent", "syncagent.kcp.io/source-generation": "3"},
            })
        );
        let spec = &published.object["spec"];
        assert_eq!(spec.get("conversion"), None);
        assert_eq!(spec["versions"][0]["schema"]["type"], "object");
        assert_eq!(spec["versions"][0]["subresources"], json!({}));

        let mut second = crd.spec.versions[0].clone();
        "v2".clone_into(&mut second.name);
        second.storage = false;
        crd.spec.versions.push(second);
        let spec = publish(&crd, "agent").unwrap().object["spec"].clone();
        assert_eq!(spec["conversion"], json!({"strategy": "None"}));
        assert_eq!(spec["versions"].as_array().unwrap().len(), 2);
    }
}
