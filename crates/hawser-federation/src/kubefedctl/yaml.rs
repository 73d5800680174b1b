//! YAML output and input.

use serde_json::Value;

/// A file that is no YAML.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum YamlError {
    #[error("document {number}: {problem}")]
    Document { number: usize, problem: String },
}

/// Prints objects as documents, each after a line `---`, without status and creation time.
pub fn print<'a>(objects: impl IntoIterator<Item = &'a Value>) -> String {
    let mut text = String::new();
    for object in objects {
        let mut object = object.clone();
        if let Value::Object(root) = &mut object {
            root.remove("status");
            if let Some(Value::Object(metadata)) = root.get_mut("metadata") {
                metadata.remove("creationTimestamp");
            }
        }
        text.push_str("---\n");
        let body = serde_saphyr::to_string(&object);
        text.push_str(&body.expect("a JSON value has strings for keys"));
    }
    text
}

/// Reads the documents of a file, up to the first empty one.
pub fn read(text: &str) -> Result<Vec<Value>, YamlError> {
    let mut objects = Vec::new();
    for (number, document) in (1..).zip(documents(text)) {
        let object: Value =
            serde_saphyr::from_str(&document).map_err(|error| YamlError::Document {
                number,
                problem: error.to_string(),
            })?;
        let is_empty = object.as_object().is_some_and(serde_json::Map::is_empty);
        if object.is_null() || is_empty {
            break;
        }
        objects.push(object);
    }
    Ok(objects)
}

/// The texts between lines `---`; adjacent lines `---` enclose no document.
fn documents(text: &str) -> Vec<String> {
    let mut documents = Vec::new();
    let mut document = String::new();
    for line in text.lines() {
        let is_end = line.strip_prefix("---").is_some_and(|rest| {
            let rest = rest.trim();
            rest.is_empty() || rest.starts_with('#')
        });
        if is_end {
            if !document.is_empty() {
                documents.push(std::mem::take(&mut document));
            }
        } else {
            document.push_str(line);
            document.push('\n');
        }
    }
    if !document.is_empty() {
        documents.push(document);
    }
    documents
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn objects_are_printed_in_the_order_of_their_keys_without_what_a_server_adds() {
        let object = json!({
            "kind": "K", "apiVersion": "v1", "status": {}, "metadata": {"name": "a", "creationTimestamp": null},
            "spec": {"list": [{"b": 1, "a": "true"}]},
        });
        let one = "---\napiVersion: v1\nkind: K\nmetadata:\n  name: a\nspec:\n  list:\n  - a: \"true\"\n    b: 1\n";
        assert_eq!(print([&object]), one);
        assert_eq!(print([&object, &object]), format!("{one}{one}"));
        let read = read(&print([&object, &object])).unwrap();
        assert_eq!(read.len(), 2);
        assert_eq!(read[0]["spec"], object["spec"]);
    }

    #[test]
    fn a_file_is_read_up_to_its_first_empty_document() {
        let names = |text: &str| {
            let objects = read(text).unwrap();
            let names = objects.iter().map(|object| object["a"].to_string());
            names.collect::<Vec<_>>().join(" ")
        };
        assert_eq!(names("a: 1\n---\na: 2\n"), "1 2");
        assert_eq!(names("---\n--- # second\na: 1\n---\n---\na: 2"), "1 2");
        assert_eq!(names("a: 1\n---\n# nothing\n---\na: 2\n"), "1");
        assert_eq!(names(""), "");
        let error = read("a: 1\n---\na: [").unwrap_err().to_string();
        assert!(error.starts_with("document 2: "), "{error}");
    }
}
