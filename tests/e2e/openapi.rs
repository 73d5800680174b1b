//! Types of a real server that are no CRD become definitions that can be published.

use anyhow::{Context as _, Result};
use hawser::testing::{Served, ServedVersion, definition};
use http::Request;
use kube_schema::field::Path;
use kube_schema::schema::Schema;
use serde_json::{Value, json};
use testbed::ServiceCluster;

async fn document() -> Result<Value> {
    let client = ServiceCluster::shared().await?.admin().client()?;
    let request = Request::get("/openapi/v2").body(Vec::new())?;
    Ok(client.request(request).await?)
}

/// The schema that a kind gets.
fn convert(document: &Value, group: &str, version: &str, kind: &str) -> Result<Value> {
    let served = Served {
        group: group.into(),
        plural: format!("{}s", kind.to_lowercase()),
        kind: kind.into(),
        namespaced: true,
        versions: vec![ServedVersion {
            name: version.into(),
            ..ServedVersion::default()
        }],
        preferred: version.into(),
        ..Served::default()
    };
    let crd = definition(&served, document).with_context(|| format!("{group}/{version} {kind}"))?;
    let schema = crd.spec.versions[0].schema.as_ref().context("no schema")?;
    let schema = schema.open_api.as_ref().context("no schema")?;
    Ok(serde_json::from_str(schema.get())?)
}

#[tokio::test]
async fn built_in_types_get_structural_schemas() -> Result<()> {
    let document = document().await?;
    for (group, version, kind) in [
        ("", "v1", "ConfigMap"),
        ("", "v1", "Secret"),
        ("", "v1", "Service"),
        ("", "v1", "Event"),
        ("", "v1", "Pod"),
        ("apps", "v1", "Deployment"),
        ("autoscaling", "v1", "HorizontalPodAutoscaler"),
        ("autoscaling", "v2", "HorizontalPodAutoscaler"),
        ("networking.k8s.io", "v1", "NetworkPolicy"),
        ("apiextensions.k8s.io", "v1", "CustomResourceDefinition"),
    ] {
        let schema = convert(&document, group, version, kind)?;
        let compiled = Schema::compile(&schema, &Path::Root);
        anyhow::ensure!(compiled.is_ok(), "{kind}: {:?}", compiled.err());
    }
    Ok(())
}

#[tokio::test]
async fn the_shapes_are_those_of_the_contract() -> Result<()> {
    let document = document().await?;
    let mut role = convert(&document, "rbac.authorization.k8s.io", "v1", "Role")?;
    undescribed(&mut role);
    let strings =
        json!({"type": "array", "x-kubernetes-list-type": "atomic", "items": {"type": "string"}});
    let rules = &role["properties"]["rules"];
    assert_eq!(rules["x-kubernetes-list-type"], "atomic");
    assert_eq!(rules["items"]["required"], json!(["verbs"]));
    let fields = rules["items"]["properties"]
        .as_object()
        .context("no fields")?;
    assert_eq!(fields.len(), 5);
    assert!(fields.values().all(|field| *field == strings), "{fields:?}");
    assert_eq!(role["properties"]["metadata"], json!({"type": "object"}));
    let mut map = convert(&document, "", "v1", "ConfigMap")?;
    undescribed(&mut map);
    assert_eq!(
        map["properties"],
        json!({
            "apiVersion": {"type": "string"}, "kind": {"type": "string"}, "metadata": {"type": "object"},
            "immutable": {"type": "boolean"},
            "data": {"type": "object", "additionalProperties": {"type": "string"}},
            "binaryData": {"type": "object", "additionalProperties": {"type": "string", "format": "byte"}},
        })
    );
    Ok(())
}

fn undescribed(value: &mut Value) {
    match value {
        Value::Object(map) => {
            map.retain(|key, value| key != "description" || !value.is_string());
            map.values_mut().for_each(undescribed);
        }
        Value::Array(list) => list.iter_mut().for_each(undescribed),
        _ => {}
    }
}
