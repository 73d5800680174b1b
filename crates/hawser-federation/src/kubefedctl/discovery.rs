//! Types and their schemas, from the documents of an API server.

use serde_json::Value;

use kube_lang::object::Gvk;

use super::Resource;
use crate::types::federated::TargetSchema;
use crate::types::type_config::ApiResource;

/// The groups of `/apis` and their versions, the preferred one first.
pub fn groups(document: &Value) -> Vec<(String, Vec<String>)> {
    let text = |value: &Value| value.as_str().map(str::to_owned);
    let groups = document["groups"].as_array().into_iter().flatten();
    let group = |group: &Value| {
        let preferred = text(&group["preferredVersion"]["version"]);
        let listed = group["versions"].as_array().into_iter().flatten();
        let mut versions: Vec<String> = preferred.into_iter().collect();
        for version in listed.filter_map(|version| text(&version["version"])) {
            if !versions.contains(&version) {
                versions.push(version);
            }
        }
        Some((text(&group["name"])?, versions))
    };
    groups.filter_map(group).collect()
}

/// The types of one version, without subresources.
pub fn resources(document: &Value) -> Vec<Resource> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let group_version = text(&document["groupVersion"]);
    let (group, version) = group_version
        .split_once('/')
        .unwrap_or(("", &group_version));
    let listed = document["resources"].as_array().into_iter().flatten();
    let resource = |listed: &Value| {
        let namespaced = listed["namespaced"] == true;
        let texts = |field: &str| -> Vec<String> {
            let texts = listed[field].as_array().into_iter().flatten();
            texts.map(text).collect()
        };
        Resource {
            api: ApiResource {
                group: group.to_owned(),
                version: version.to_owned(),
                kind: text(&listed["kind"]),
                plural_name: text(&listed["name"]),
                scope: if namespaced { "Namespaced" } else { "Cluster" }.to_owned(),
            },
            singular: text(&listed["singularName"]),
            short_names: texts("shortNames"),
            can_list: texts("verbs").iter().any(|verb| verb == "list"),
        }
    };
    let all = listed.map(resource);
    all.filter(|found| !found.api.plural_name.contains('/'))
        .collect()
}

/// Each type once, in its first version. `versions` are in the order of preference within their group.
pub fn preferred(versions: impl IntoIterator<Item = Vec<Resource>>) -> Vec<Resource> {
    let mut chosen: Vec<Resource> = Vec::new();
    for resource in versions.into_iter().flatten() {
        let is_same = |known: &Resource| {
            known.api.group == resource.api.group
                && known.api.plural_name == resource.api.plural_name
        };
        if !chosen.iter().any(is_same) {
            chosen.push(resource);
        }
    }
    chosen
}

/// The schema of a built-in type, from `/openapi/v2`.
pub fn schema(models: &Value, kind: &Gvk) -> TargetSchema {
    let is_kind = |model: &&Value| {
        let kinds = model["x-kubernetes-group-version-kind"].as_array();
        kinds.into_iter().flatten().any(|is| {
            is["group"] == *kind.group && is["version"] == *kind.version && is["kind"] == *kind.kind
        })
    };
    let definitions = models["definitions"].as_object();
    let Some(model) = definitions.and_then(|all| all.values().find(is_kind)) else {
        return TargetSchema::Unknown;
    };
    let mut model = model.clone();
    let reference = model.pointer("/properties/spec/$ref");
    let spec = reference
        .and_then(Value::as_str)
        .and_then(|path| models.pointer(path.strip_prefix('#')?));
    if let Some(spec) = spec {
        model["properties"]["spec"] = spec.clone();
    }
    TargetSchema::of(Some(&model))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn types_are_taken_in_the_version_that_the_server_prefers() {
        let document = json!({"groups": [{
            "name": "apps", "versions": [{"version": "v2"}, {"version": "v1"}], "preferredVersion": {"version": "v1"},
        }]});
        let wanted = vec!["v1".to_owned(), "v2".to_owned()];
        assert_eq!(groups(&document), [("apps".to_owned(), wanted)]);
        let version = |version: &str, names: &[&str]| {
            let listed = |name: &&str| {
                json!({
                    "name": name, "kind": "K", "namespaced": true, "verbs": ["get", "list"], "shortNames": ["k"],
                })
            };
            let listed: Vec<Value> = names.iter().map(listed).collect();
            resources(&json!({"groupVersion": version, "resources": listed}))
        };
        let v1 = version("apps/v1", &["a", "a/status"]);
        let v2 = version("apps/v2", &["a", "b"]);
        assert_eq!(
            (v1.len(), &*v1[0].short_names[0], v1[0].can_list),
            (1, "k", true)
        );
        assert_eq!(version("v1", &["pods"])[0].api.group, "");
        let chosen = preferred([v1, v2]).into_iter();
        let names: Vec<String> = chosen.map(|one| super::super::shown(&one.api)).collect();
        assert_eq!(names, ["a.apps/v1", "b.apps/v2"]);
    }

    #[test]
    fn the_spec_of_a_model_is_followed() {
        let model = |spec: &str| {
            json!({
                "properties": {"spec": {"$ref": format!("#/definitions/{spec}")}},
                "x-kubernetes-group-version-kind": [{"group": "apps", "version": "v1", "kind": spec}],
            })
        };
        let replicas = json!({"properties": {"replicas": {"type": "integer", "format": "int32"}}});
        let models = json!({"definitions": {
            "a": model("Scaled"), "b": model("Plain"), "Scaled": replicas, "Plain": {},
        }});
        let of = |kind: &str| schema(&models, &Gvk::new("apps", "v1", kind));
        assert_eq!(of("Scaled"), TargetSchema::Scalable);
        assert_eq!(of("Plain"), TargetSchema::Fixed);
        assert_eq!(of("Other"), TargetSchema::Unknown);
    }
}
