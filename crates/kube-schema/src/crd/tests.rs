use serde_json::json;

use super::*;
use crate::json::parse;
use fuzz;

fn golden() -> Vec<Value> {
    let golden = parse(include_bytes!("../../../../tests/data/schemas.json")).unwrap();
    golden.value["crds"].as_array().unwrap().clone()
}

/// The server shows whole versions in its own inner form; all else must be equal.
fn shown(error: &FieldError) -> (String, String) {
    let body = error.body();
    (error.field.clone(), shorten(&error.field, &body))
}

fn shorten(field: &str, body: &str) -> String {
    if field == "spec.versions" {
        body.rsplit(": ").next().unwrap_or_default().to_owned()
    } else {
        body.to_owned()
    }
}

#[test]
fn every_golden_definition_has_the_errors_that_the_server_finds_in_it() {
    let cases = golden();
    assert!(cases.len() > 30);
    for case in cases {
        let mut crd = case["crd"].clone();
        default_crd(&mut crd);
        let mut got: Vec<_> = match Definition::from_crd(&crd) {
            Ok(_) => Vec::new(),
            Err(errors) => errors.iter().map(shown).collect(),
        };
        let mut want: Vec<_> = case["errors"]
            .as_array()
            .unwrap()
            .iter()
            .map(|error| {
                let field = error["field"].as_str().unwrap();
                let body = error["message"].as_str().unwrap();
                (field.to_owned(), shorten(field, body))
            })
            // The status is the server's own.
            .filter(|(field, _)| !field.starts_with("status."))
            .collect();
        got.sort();
        want.sort();
        assert_eq!(got, want, "{}", case["id"]);
    }
}

fn widget() -> Value {
    json!({
        "metadata": {"name": "widgets.example.com"},
        "spec": {
            "group": "example.com",
            "scope": "Namespaced",
            "names": {"plural": "widgets", "kind": "Widget", "shortNames": ["w"]},
            "versions": [{
                "name": "v1",
                "served": true,
                "storage": true,
                "schema": {"openAPIV3Schema": {
                    "type": "object",
                    "properties": {"spec": {"type": "object", "properties": {"a": {"type": "string"}}}},
                }},
                "subresources": {"status": {}},
                "selectableFields": [{"jsonPath": ".spec.a"}],
                "additionalPrinterColumns": [{"name": "A", "type": "string", "jsonPath": ".spec.a"}],
            }],
        },
    })
}

#[test]
fn a_definition_is_completed_and_compiled() {
    let mut crd = widget();
    default_crd(&mut crd);
    assert_eq!(crd["spec"]["names"]["singular"], "widget");
    assert_eq!(crd["spec"]["names"]["listKind"], "WidgetList");
    assert_eq!(crd["spec"]["conversion"], json!({"strategy": "None"}));
    let definition = Definition::from_crd(&crd).unwrap();
    assert_eq!(definition.names.short_names, ["w"]);
    assert_eq!(definition.scope, Scope::Namespaced);
    assert_eq!(definition.conversion, Conversion::None);
    let version = definition.storage_version().unwrap();
    assert!(version.status && version.served && version.scale.is_none());
    assert_eq!(version.selectable_fields, [".spec.a"]);
    assert_eq!(version.columns[0].json_path, ".spec.a");
    let errors = version.schema.validate(&json!({"spec": {"a": 1}}), None);
    assert_eq!(errors.len(), 1);
    assert!(definition.version("v2").is_none());
}

#[test]
fn group_and_names_of_a_definition_do_not_change() {
    let mut old = widget();
    default_crd(&mut old);
    assert!(check_crd_update(&old, &old, true).is_empty());
    let mut new = old.clone();
    new["spec"]["scope"] = json!("Cluster");
    assert!(check_crd_update(&new, &old, false).is_empty());
    assert_eq!(
        check_crd_update(&new, &old, true)[0].to_string(),
        "spec.scope: Invalid value: \"Cluster\": field is immutable"
    );
    new["spec"]["group"] = json!("other.example.com");
    assert_eq!(check_crd_update(&new, &old, false).len(), 1);
}

fn resource_schema(name: &str, change: impl Fn(&mut Value)) -> Value {
    let mut object = json!({
        "metadata": {"name": name},
        "spec": {
            "group": "example.com",
            "scope": "Cluster",
            "names": {
                "plural": "widgets", "singular": "widget", "kind": "Widget", "listKind": "WidgetList",
            },
            "versions": [{"name": "v1", "storage": true, "schema": {
                "type": "object",
                "properties": {"data": {"type": "object"}},
            }, "subresources": {}}],
        },
    });
    default_resource_schema(&mut object);
    change(&mut object["spec"]);
    object
}

#[track_caller]
fn check(name: &str, change: impl Fn(&mut Value), want: &[&str]) {
    let got = Definition::from_resource_schema(&resource_schema(name, change));
    let got: Vec<String> = got
        .err()
        .unwrap_or_default()
        .iter()
        .map(|e| e.field.clone())
        .collect();
    assert_eq!(got, want);
}

#[test]
fn resource_schemas_of_kcp_follow_their_own_rules() {
    const NAME: &str = "v1.widgets.example.com";
    check(NAME, |_| {}, &[]);
    check("widgets.example.com", |_| {}, &["metadata.name"]);
    check("1a.widgets.example.com", |_| {}, &["metadata.name"]);
    check("v1.widgets.core", |spec| spec["group"] = json!(""), &[]);
    check(
        "v1.widgets.flat",
        |spec| spec["group"] = json!("flat"),
        &["spec.group"],
    );
    check(
        NAME,
        |spec| spec["names"]["singular"] = json!(""),
        &["spec.names.singular"],
    );
    check(
        NAME,
        |spec| spec["versions"][0]["name"] = json!("1"),
        &["spec.versions[0].name"],
    );
    check(
        NAME,
        |spec| spec["versions"][0]["schema"] = json!({"properties": {}}),
        &["spec.versions[0].schema.type"],
    );
    check(
        NAME,
        |spec| spec["versions"][0]["storage"] = json!(false),
        &["spec.versions"],
    );
    check(
        NAME,
        |spec| {
            let mut second = spec["versions"][0].clone();
            second["name"] = json!("v2");
            second["storage"] = json!(false);
            spec["versions"].as_array_mut().unwrap().push(second);
        },
        &["spec.conversion"],
    );
    check(
        NAME,
        |spec| spec["nameValidation"] = json!("Whatever"),
        &["spec.nameValidation"],
    );
    check(
        "v1.widgets.x.k8s.io",
        |spec| spec["group"] = json!("x.k8s.io"),
        &["metadata.annotations[api-approved.kubernetes.io]"],
    );
    let definition = Definition::from_resource_schema(&resource_schema(NAME, |spec| {
        spec["nameValidation"] = json!("PathSegmentName");
    }))
    .unwrap();
    assert_eq!(definition.name_rule, NameRule::PathSegment);
    assert!(definition.versions[0].served && !definition.versions[0].status);
}

#[test]
fn fuzz_definition() {
    let mut seeds: Vec<Vec<u8>> = golden()
        .iter()
        .map(|case| case["crd"].to_string().into_bytes())
        .collect();
    let schema = resource_schema("v1.widgets.example.com", |_| {});
    seeds.push(schema.to_string().into_bytes());
    seeds.push(br#"{"spec":{"versions":[{"schema":{"openAPIV3Schema":[]}}],"names":3}}"#.to_vec());
    fuzz::run(&fuzz::mutated(seeds), |body| {
        let Ok(document) = parse(body) else {
            return;
        };
        let mut crd = document.value.clone();
        default_crd(&mut crd);
        let _ = Definition::from_crd(&crd);
        let _ = check_crd_update(&crd, &document.value, true);
        let mut schema = document.value;
        default_resource_schema(&mut schema);
        let _ = Definition::from_resource_schema(&schema);
    });
}
