use std::{fs, path::Path};

use serde_json::{Value, json};

use super::*;

fn parse(value: Value) -> PublishedResourceSpec {
    serde_json::from_value(value).unwrap()
}

#[test]
fn generated_crds_are_up_to_date() {
    let wanted = manifest::yaml();
    for place in [manifest::PATH, manifest::CHART_PATH] {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(place);
        if std::env::var_os("HAWSER_WRITE_GENERATED").is_some() {
            fs::write(&path, &wanted).unwrap();
        }
        let found = fs::read_to_string(&path).unwrap_or_default();
        assert!(
            found == wanted,
            "{place} is stale; write it anew with: HAWSER_WRITE_GENERATED=1 cargo test generated_",
        );
    }
}

#[test]
fn the_definition_has_no_format_that_a_server_warns_of() {
    fn formats(value: &Value, found: &mut Vec<String>) {
        match value {
            Value::Object(map) => {
                // A property may be called `format`, too; its schema is an object.
                found.extend(map.get("format").and_then(Value::as_str).map(str::to_owned));
                map.values().for_each(|value| formats(value, found));
            }
            Value::Array(list) => list.iter().for_each(|value| formats(value, found)),
            _ => {}
        }
    }
    let mut found = Vec::new();
    formats(&manifest::crd(), &mut found);
    found.sort_unstable();
    found.dedup();
    assert_eq!(found, ["date-time", "int64"]);
}

#[test]
fn a_missing_list_keeps_what_was_and_an_empty_one_removes_it() {
    let spec = |projection| {
        parse(json!({"resource": {"apiGroup": "", "kind": "A"}, "projection": projection}))
            .projection
            .unwrap()
            .short_names
    };
    assert_eq!(spec(json!({})), None);
    assert_eq!(spec(json!({"shortNames": null})), None);
    assert_eq!(spec(json!({"shortNames": []})), Some(vec![]));
}

#[test]
fn a_null_means_what_leaving_the_field_out_means() {
    let plain = parse(json!({"resource": {"apiGroup": "g", "kind": "A"}}));
    let nulls = parse(json!({
        "resource": {"apiGroup": "g", "kind": "A", "version": null, "versions": null},
        "related": null, "enableWorkspacePaths": null, "safety": null, "synchronization": null,
    }));
    assert_eq!(plain, nulls);
    assert!(plain.synchronizes());
    assert_eq!(
        serde_json::to_value(&plain).unwrap(),
        json!({"resource": {"apiGroup": "g", "kind": "A"}})
    );
}

#[test]
fn the_manifest_prunes_nulls_and_writes_no_defaults_into_stored_objects() {
    let text = manifest::crd().to_string();
    assert!(!text.contains("\"nullable\"") && !text.contains("\"default\""));
    assert_eq!(text.matches("x-kubernetes-validations").count(), 2);
}
