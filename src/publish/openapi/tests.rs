use super::models::{META, free, int_or_string};
use super::*;

fn served() -> Served {
    Served {
        group: "things.k8s.io".into(),
        plural: "things".into(),
        kind: "Thing".into(),
        namespaced: true,
        versions: vec![
            ServedVersion {
                name: "v1".into(),
                status: true,
                scale: false,
            },
            ServedVersion {
                name: "v1beta1".into(),
                ..ServedVersion::default()
            },
        ],
        preferred: "v1".into(),
        ..Served::default()
    }
}

fn document(spec: &Value) -> Value {
    let kinds =
        |version: &str| json!([{"group": "things.k8s.io", "version": version, "kind": "Thing"}]);
    let model = |version: &str| {
        json!({
            "type": "object", "description": "A thing.",
            "properties": {
                "metadata": {"description": "Of it.", "$ref": "#/definitions/io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"},
                "spec": spec,
            },
            "x-kubernetes-group-version-kind": kinds(version),
        })
    };
    json!({"definitions": {
        "a.v1.Thing": model("v1"), "a.v1beta1.Thing": model("v1beta1"),
        "a.v1.Inner": {"description": "Inner.", "properties": {"x": {"type": "integer", "format": "int32"}}, "required": ["x"]},
        "a.v1.Loop": {"properties": {"next": {"$ref": "#/definitions/a.v1.Loop"}}},
        "io.k8s.api.core.v1.ServicePort": {"properties": {"port": {"type": "integer"}, "protocol": {"type": "string"}}},
    }})
}

/// What becomes of a field.
#[track_caller]
#[expect(clippy::needless_pass_by_value, reason = "the cases read better so")]
fn check(field: Value, wanted: Value) {
    let crd = definition(&served(), &document(&field)).unwrap();
    let schema = crd.spec.versions[1].schema.as_ref().unwrap();
    let schema: Value = serde_json::from_str(schema.open_api.as_ref().unwrap().get()).unwrap();
    assert_eq!(schema["properties"]["spec"], wanted);
    assert_eq!(schema["properties"]["metadata"], json!({"type": "object"}));
    assert_eq!(schema["description"], "A thing.");
}

#[test]
fn versions_names_and_scope_come_from_discovery() {
    let crd = definition(&served(), &document(&json!({"type": "string"}))).unwrap();
    let spec = &crd.spec;
    let names: Vec<&str> = spec.versions.iter().map(|v| v.name.as_str()).collect();
    assert_eq!(names, ["v1beta1", "v1"]);
    assert_eq!(spec.storage_version().unwrap().name, "v1");
    assert!(spec.versions[1].has_status() && !spec.versions[0].has_status());
    assert_eq!(
        (spec.names.singular.as_str(), spec.names.list_kind.as_str()),
        ("thing", "ThingList")
    );
    assert_eq!(crd.metadata.name, "things.things.k8s.io");
    assert_eq!(crd.metadata.annotations[APPROVED], APPROVAL);
    assert_eq!(crd.metadata.generation, 0);
}

#[test]
fn primitives_maps_and_lists_are_what_they_are() {
    check(
        json!({"type": "integer", "format": "int64"}),
        json!({"type": "integer", "format": "int64"}),
    );
    check(
        json!({"type": "object", "additionalProperties": {"type": "string"}}),
        json!({"type": "object", "additionalProperties": {"type": "string"}}),
    );
    check(json!({"type": "object"}), free());
    check(
        json!({}),
        json!({"x-kubernetes-preserve-unknown-fields": true}),
    );
    let strings = json!({"type": "string"});
    check(
        json!({"type": "array", "items": strings}),
        json!({"type": "array", "x-kubernetes-list-type": "atomic", "items": strings}),
    );
    check(
        json!({"type": "array", "items": strings, "x-kubernetes-patch-strategy": "merge"}),
        json!({"type": "array", "x-kubernetes-list-type": "set", "items": strings}),
    );
}

#[test]
fn a_reference_takes_the_description_of_its_field_first() {
    let inner = json!({"type": "object", "properties": {"x": {"type": "integer", "format": "int32"}}, "required": ["x"]});
    let described = |text: &str| {
        let mut inner = inner.clone();
        inner["description"] = text.into();
        inner
    };
    let reference = "#/definitions/a.v1.Inner";
    check(
        json!({"$ref": reference, "description": "Field."}),
        described("Field."),
    );
    check(json!({"$ref": reference}), described("Inner."));
}

#[test]
fn the_keys_of_a_list_are_required_unless_they_have_a_default() {
    let ports = json!({
        "type": "array", "items": {"$ref": "#/definitions/io.k8s.api.core.v1.ServicePort"},
        "x-kubernetes-list-map-keys": ["port", "protocol"], "x-kubernetes-list-type": "map",
    });
    check(
        ports,
        json!({
            "type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["port", "protocol"],
            "items": {
                "type": "object", "required": ["port"],
                "properties": {"port": {"type": "integer"}, "protocol": {"type": "string", "default": "TCP"}},
            },
        }),
    );
}

#[test]
fn known_models_are_replaced() {
    let of = |name: &str| json!({"$ref": format!("#/definitions/{name}")});
    check(
        of(&format!("{META}Time")),
        json!({"type": "string", "format": "date-time"}),
    );
    check(
        of("io.k8s.apimachinery.pkg.util.intstr.IntOrString"),
        int_or_string(),
    );
    check(of(&format!("{META}ObjectMeta")), free());
}

#[test]
fn what_no_schema_can_say_is_an_error() {
    let refused = |field: Value| {
        definition(&served(), &document(&field))
            .unwrap_err()
            .to_string()
    };
    assert_eq!(
        refused(json!({"$ref": "#/definitions/a.v1.Loop"})),
        "the model \"a.v1.Loop\" contains itself, which schemas cannot express"
    );
    assert!(refused(json!({"type": ["string", "integer"]})).contains("several types"));
    assert!(refused(json!({"type": "array"})).contains("no type of items"));
    assert!(refused(json!({"$ref": "#/definitions/none"})).contains("does not contain"));
    let empty = definition(&served(), &json!({})).unwrap_err().to_string();
    assert_eq!(
        empty,
        "the OpenAPI document has no model of Thing in things.k8s.io/v1beta1"
    );
}
