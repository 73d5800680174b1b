use serde_json::json;

use super::*;

fn compile(schema: &Value) -> Schema {
    Schema::compile(schema, &Path::Root.field("schema")).unwrap_or_else(|e| panic!("{e:?}"))
}

#[test]
fn a_field_of_the_wrong_type_is_named_as_the_server_names_it() {
    let schema = compile(&json!({
        "type": "object",
        "properties": {"spec": {"type": "object", "properties": {"a": {"type": "string"}}}},
    }));
    let errors = schema.validate(&json!({"spec": {"a": 1}}));
    assert_eq!(
        errors[0].to_string(),
        r#"spec.a: Invalid value: "integer": spec.a in body must be of type string: "integer""#
    );
    assert_eq!(errors.len(), 1);
    assert_eq!(errors[0].kind.reason(), "FieldValueTypeInvalid");
}
