//! Rows of custom resources, by the columns of their definitions.

use jiff::Timestamp;
use serde_json::Value;

use super::json_path::JsonPath;
use super::{Column, Printer, age, columns};
use kube_schema::crd;

/// Renders the objects of one version of a definition.
#[derive(Debug)]
pub(crate) struct Custom {
    columns: Vec<Column>,
    /// The paths of the columns after the name.
    paths: Vec<JsonPath>,
}

impl Custom {
    /// A definition without columns has the age. Columns from the first invalid path on are not shown.
    pub(crate) fn new(defined: &[crd::Column]) -> Self {
        let age = crd::Column {
            name: "Age".to_owned(),
            kind: "date".to_owned(),
            format: String::new(),
            description: columns::CREATED.to_owned(),
            priority: 0,
            json_path: ".metadata.creationTimestamp".to_owned(),
        };
        let defined = match defined {
            [] => &[age],
            defined => defined,
        };
        let mut printer = Self {
            columns: vec![columns::name()],
            paths: Vec::new(),
        };
        for column in defined {
            let Ok(path) = JsonPath::parse(&column.json_path) else {
                break;
            };
            printer.paths.push(path);
            printer.columns.push(head(column));
        }
        printer
    }
}

fn head(column: &crd::Column) -> Column {
    let description = if column.description.is_empty() {
        format!(
            "Custom resource definition column (in JSONPath format): {}",
            column.json_path
        )
    } else {
        column.description.clone()
    };
    Column {
        name: column.name.clone().into(),
        kind: column.kind.clone().into(),
        format: column.format.clone().into(),
        description: description.into(),
        priority: column.priority,
    }
}

impl Printer for Custom {
    fn columns(&self) -> &[Column] {
        &self.columns
    }

    fn cells(&self, object: &Value, now: Timestamp) -> Vec<Value> {
        let name = &object["metadata"]["name"];
        let mut cells = vec![name.as_str().unwrap_or_default().into()];
        let kinds = self.columns.iter().skip(1).map(|column| &*column.kind);
        cells.extend(self.paths.iter().zip(kinds).map(|(path, kind)| {
            let found = path.find(object).unwrap_or_default();
            found
                .first()
                .map_or(Value::Null, |value| cell(kind, value, now))
        }));
        cells
    }
}

/// A value in a column of a type; a value of another type is not shown.
fn cell(kind: &str, value: &Value, now: Timestamp) -> Value {
    match (kind, value) {
        ("string", value) => text(value).into(),
        ("integer", Value::Number(number)) => match (number.as_i64(), number.as_f64()) {
            (Some(whole), _) => whole.into(),
            #[expect(
                clippy::cast_possible_truncation,
                reason = "a column of whole numbers shows the whole part"
            )]
            (None, Some(number)) => (number as i64).into(),
            (None, None) => Value::Null,
        },
        ("number", Value::Number(number)) => number.clone().into(),
        ("boolean", Value::Bool(flag)) => (*flag).into(),
        ("date", Value::String(moment)) => age::since(Some(moment), now).into(),
        _ => Value::Null,
    }
}

fn text(value: &Value) -> String {
    match value {
        Value::Null => "<no value>".to_owned(),
        Value::String(text) => text.clone(),
        Value::Bool(_) | Value::Number(_) => value.to_string(),
        // With escapes for characters that are special in HTML.
        Value::Array(_) | Value::Object(_) => value
            .to_string()
            .replace('<', "\\u003c")
            .replace('>', "\\u003e")
            .replace('&', "\\u0026"),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn column(kind: &str, json_path: &str) -> crd::Column {
        crd::Column {
            name: json_path.trim_start_matches('.').to_owned(),
            kind: kind.to_owned(),
            format: String::new(),
            description: String::new(),
            priority: 0,
            json_path: json_path.to_owned(),
        }
    }

    fn now() -> Timestamp {
        "2026-03-01T12:00:00Z".parse().unwrap()
    }

    #[track_caller]
    fn check(kind: &str, path: &str, expected: Value) {
        let object = json!({
            "metadata": {"name": "a", "creationTimestamp": "2026-03-01T11:54:48Z"},
            "spec": {
                "size": 3, "mode": "slow", "ratio": 2.5, "on": true, "free": null, "empty": "",
                "tags": ["x", "y<z"], "map": {"k": "a&b"},
            },
        });
        let printer = Custom::new(&[column(kind, path)]);
        let cells = printer.cells(&object, now());
        assert_eq!(cells, [json!("a"), expected], "{kind} {path}");
    }

    #[test]
    fn cells_have_the_types_of_their_columns() {
        check("integer", ".spec.size", json!(3));
        check("integer", ".spec.ratio", json!(2));
        check("integer", ".spec.mode", json!(null));
        check("number", ".spec.ratio", json!(2.5));
        check("number", ".spec.size", json!(3));
        check("boolean", ".spec.on", json!(true));
        check("boolean", ".spec.mode", json!(null));
        check("date", ".metadata.creationTimestamp", json!("5m12s"));
        check("date", ".spec.mode", json!("<invalid>"));
        check("date", ".spec.empty", json!("<unknown>"));
        check("date", ".spec.size", json!(null));
    }

    #[test]
    fn columns_of_texts_show_everything() {
        check("string", ".spec.mode", json!("slow"));
        check("string", ".spec.empty", json!(""));
        check("string", ".spec.size", json!("3"));
        check("string", ".spec.ratio", json!("2.5"));
        check("string", ".spec.on", json!("true"));
        check("string", ".spec.free", json!("<no value>"));
        check("string", ".spec.tags", json!("[\"x\",\"y\\u003cz\"]"));
        check("string", ".spec.tags[*]", json!("x"));
        check("string", ".spec.tags[5]", json!(null));
        check("string", ".spec.map", json!("{\"k\":\"a\\u0026b\"}"));
        check("string", ".spec.none", json!(null));
    }

    #[test]
    fn a_definition_without_columns_shows_the_age() {
        let printer = Custom::new(&[]);
        let names: Vec<_> = printer.columns().iter().map(|c| &*c.name).collect();
        assert_eq!(names, ["Name", "Age"]);
        let object =
            json!({"metadata": {"name": "a", "creationTimestamp": "2026-03-01T11:00:00Z"}});
        assert_eq!(printer.cells(&object, now()), [json!("a"), json!("60m")]);
        assert_eq!(printer.cells(&json!({}), now()), [json!(""), json!(null)]);
    }

    #[test]
    fn columns_end_before_the_first_whose_path_is_none() {
        let printer = Custom::new(&[
            column("integer", ".spec.size"),
            column("string", ".spec[?(@.x"),
            column("string", ".spec.mode"),
        ]);
        let heads: Vec<_> = printer.columns().iter().map(Column::to_json).collect();
        assert_eq!(heads.len(), 2);
        assert_eq!(
            heads[1],
            json!({
                "name": "spec.size", "type": "integer", "format": "", "priority": 0,
                "description": "Custom resource definition column (in JSONPath format): .spec.size",
            })
        );
    }
}
