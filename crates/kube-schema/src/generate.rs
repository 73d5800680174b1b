//! Structural schemas made from Rust types, for definitions that are generated.

use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde_json::{Map, Value, json};

/// The structural schema of a type. Optional fields are not nullable, so that the server prunes a null. `x-default` gives a
/// default of the API, `x-required` a field that is required although the code can do without it.
pub fn schema<T: JsonSchema>() -> Value {
    let settings = SchemaSettings::openapi3().with(|settings| {
        settings.meta_schema = None;
        settings.inline_subschemas = true;
    });
    let mut schema = settings
        .into_generator()
        .into_root_schema_for::<T>()
        .to_value();
    tidy(&mut schema);
    schema
}

fn tidy(schema: &mut Value) {
    let Value::Object(keywords) = schema else {
        return;
    };
    // An optional field comes as a choice of its type and null.
    if !keywords.contains_key("x-kubernetes-int-or-string")
        && let Some(Value::Array(choices)) = keywords
            .remove("anyOf")
            .or_else(|| keywords.remove("allOf"))
    {
        for choice in choices {
            if let Value::Object(choice) = choice
                && choice.contains_key("type") | choice.contains_key("x-kubernetes-int-or-string")
                && choice.get("type").is_none_or(|kind| kind != "null")
            {
                for (keyword, value) in choice {
                    keywords.entry(keyword).or_insert(value);
                }
            }
        }
    }
    // The defaults of serde are not defaults of the API; those are given as `x-default`.
    for keyword in ["nullable", "default", "title"] {
        keywords.remove(keyword);
    }
    if let Some(default) = keywords.remove("x-default") {
        keywords.insert("default".to_owned(), default);
    }
    if let Some(Value::Array(names)) = keywords.get_mut("enum") {
        names.retain(|name| !name.is_null());
    }
    for (keyword, part) in keywords.iter_mut() {
        match (&**keyword, part) {
            ("properties", Value::Object(fields)) => fields.values_mut().for_each(tidy),
            ("items" | "additionalProperties", part @ Value::Object(_)) => tidy(part),
            _ => {}
        }
    }
    // `x-required` makes a field required that has a default in the code.
    let mut required = Vec::new();
    if let Some(Value::Object(fields)) = keywords.get_mut("properties") {
        for (name, field) in fields {
            if let Value::Object(field) = field
                && field.remove("x-required").is_some()
            {
                required.push(json!(name));
            }
        }
    }
    if !required.is_empty() {
        let all = keywords.entry("required").or_insert_with(|| json!([]));
        if let Value::Array(all) = all {
            all.append(&mut required);
        }
    }
    // For an object of unknown fields, `x-kubernetes-preserve-unknown-fields` suffices.
    let open = keywords.get("additionalProperties") == Some(&Value::Bool(true))
        || keywords.get("additionalProperties") == Some(&Value::Object(Map::new()));
    if open && keywords.contains_key("x-kubernetes-preserve-unknown-fields") {
        keywords.remove("additionalProperties");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(JsonSchema)]
    #[expect(dead_code, reason = "only its schema is of interest")]
    struct Sail {
        /// What it is made of.
        cloth: Option<Cloth>,
        #[schemars(extend("x-default" = 3))]
        reefs: Option<i64>,
        #[serde(default)]
        #[schemars(extend("x-required" = true))]
        name: String,
        #[schemars(extend("x-kubernetes-preserve-unknown-fields" = true))]
        notes: Map<String, Value>,
    }

    #[derive(JsonSchema)]
    #[expect(dead_code, reason = "only its schema is of interest")]
    enum Cloth {
        Cotton,
        Dacron,
    }

    #[test]
    fn a_schema_has_the_form_that_servers_ask_for() {
        let mut made = schema::<Sail>();
        let required = &mut made["required"];
        if let Value::Array(names) = required {
            names.sort_by_key(Value::to_string);
        }
        assert_eq!(*required, json!(["name", "notes"]));
        let fields = &made["properties"];
        let cloth = json!({"type": "string", "description": "What it is made of.", "enum": ["Cotton", "Dacron"]});
        assert_eq!(fields["cloth"], cloth);
        assert_eq!(
            fields["reefs"],
            json!({"type": "integer", "format": "int64", "default": 3})
        );
        assert_eq!(fields["name"], json!({"type": "string"}));
        let open = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
        assert_eq!(fields["notes"], open);
    }
}
