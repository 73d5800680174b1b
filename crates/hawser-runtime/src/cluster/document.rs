//! Objects as servers send them, read whole or in part.
//!
//! A server accepts objects that are nested thousands of levels deep. Parsing, copying and comparing such a document
//! would need more stack than a thread has. So a document with more than [`DEEPEST`] levels is read as a fragment: its
//! type and its metadata, which contain its cluster, version and deletion.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value;
use serde_json::value::RawValue;

use kube_lang::object::{Gvk, Object};

/// The largest number of levels of an object that is read whole, itself counted: the limit of the parser.
pub const DEEPEST: usize = 127;

/// The field of the metadata that names the manager of each field.
const MANAGED_FIELDS: &str = "managedFields";

type RawFields<'t> = BTreeMap<String, &'t RawValue>;

/// Reads the object of a document; the error says why it is not an object.
pub fn object(text: &str, kind: &Gvk) -> Result<Object, String> {
    if let Ok(document) = serde_json::from_str(text) {
        return typed(document, kind);
    }
    let mut fields: RawFields<'_> = read(text)?;
    let metadata = fields.get("metadata").ok_or("it has no metadata")?;
    // Who wrote which field is nested deeper than the fields themselves.
    let mut metadata: RawFields<'_> = read(metadata.get())?;
    metadata.remove(MANAGED_FIELDS);
    let metadata = RawValue::from_string(written(&metadata)).map_err(|e| e.to_string())?;
    fields.insert("metadata".to_owned(), &metadata);
    if let Ok(document) = serde_json::from_str(&written(&fields)) {
        return typed(document, kind);
    }
    fields.retain(|field, _| ["apiVersion", "kind", "metadata"].contains(&field.as_str()));
    let fragment = typed(read(&written(&fields))?, kind)?;
    Object::fragment(fragment.into_value()).map_err(|error| error.to_string())
}

fn read<'t, T: serde::Deserialize<'t>>(text: &'t str) -> Result<T, String> {
    serde_json::from_str(text).map_err(|error| error.to_string())
}

fn written(fields: &RawFields<'_>) -> String {
    serde_json::to_string(fields).expect("documents by names that are texts")
}

/// Reads the object of a document with its managed fields, unless only a part of it can be read.
pub fn with_managed_fields(text: &str, kind: &Gvk) -> Result<Object, String> {
    match serde_json::from_str(text) {
        Ok(document) => named(document, kind),
        Err(_) => object(text, kind),
    }
}

/// An object without its managed fields, as caches keep it.
pub fn without_managed_fields(object: &Arc<Object>) -> Arc<Object> {
    let metadata = object.root().get("metadata");
    if metadata.is_none_or(|metadata| metadata.get(MANAGED_FIELDS).is_none()) {
        return Arc::clone(object);
    }
    let mut object = Object::clone(object);
    object.metadata_mut().remove(MANAGED_FIELDS);
    Arc::new(object)
}

/// The object as passes use it: with its type, which items of lists may lack, and without managed fields.
pub fn typed(mut document: Value, kind: &Gvk) -> Result<Object, String> {
    if let Value::Object(root) = &mut document
        && let Some(Value::Object(metadata)) = root.get_mut("metadata")
    {
        metadata.remove(MANAGED_FIELDS);
    }
    named(document, kind)
}

fn named(mut document: Value, kind: &Gvk) -> Result<Object, String> {
    if let Value::Object(root) = &mut document {
        root.entry("apiVersion")
            .or_insert_with(|| kind.api_version().into());
        root.entry("kind")
            .or_insert_with(|| kind.kind.clone().into());
    }
    let object = Object::new(document).map_err(|error| error.to_string())?;
    if object.name().is_empty() {
        return Err("it has no name".to_owned());
    }
    Ok(object)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nested(levels: usize) -> String {
        format!("{}{}", "[".repeat(levels), "]".repeat(levels))
    }

    fn document(levels: usize, metadata: &str) -> String {
        let spec = nested(levels - 1);
        format!(r#"{{"spec":{spec},"metadata":{{"name":"a","resourceVersion":"7"{metadata}}}}}"#)
    }

    fn kind() -> Gvk {
        Gvk::new("example.com", "v1", "Thing")
    }

    #[test]
    fn an_object_is_read_whole_up_to_the_limit_and_as_a_fragment_beyond() {
        let whole = object(&document(DEEPEST, ""), &kind()).unwrap();
        assert!(!whole.is_fragment() && whole.root().contains_key("spec"));
        for levels in [DEEPEST + 1, 10_000, 500_000] {
            let deep = object(&document(levels, ""), &kind()).unwrap();
            assert!(deep.is_fragment() && !deep.root().contains_key("spec"));
            assert_eq!((deep.name(), deep.resource_version()), ("a", Some("7")));
            assert_eq!(deep.gvk(), kind());
        }
    }

    #[test]
    fn what_is_read_can_be_written_and_read_again() {
        let whole = object(&document(DEEPEST, ""), &kind()).unwrap();
        let text = serde_json::to_string(whole.as_value()).unwrap();
        assert_eq!(object(&text, &kind()), Ok(whole));
    }

    #[test]
    fn only_who_wrote_which_field_may_be_nested_deeper() {
        let managed = format!(r#","managedFields":{}"#, nested(500));
        let read = object(&document(DEEPEST, &managed), &kind()).unwrap();
        assert!(!read.is_fragment());
        let text = serde_json::to_string(read.as_value()).unwrap();
        assert!(!text.contains("managedFields"), "{text}");
        let deep = format!(r#","labels":{}"#, nested(500));
        object(&document(1, &deep), &kind()).unwrap_err();
    }

    #[test]
    fn what_has_no_name_or_no_metadata_is_no_object() {
        let deep = nested(200);
        for text in [
            "{}".to_owned(),
            "[]".to_owned(),
            r#"{"metadata":{}}"#.to_owned(),
            deep.clone(),
            format!(r#"{{"spec":{deep}}}"#),
            format!(r#"{{"spec":{deep},"metadata":{{}}}}"#),
            format!(r#"{{"spec":{deep},"metadata":[]}}"#),
            format!(r#"{{"spec":{deep},"metadata":{{"name":1}}}}"#),
        ] {
            object(&text, &kind()).unwrap_err();
        }
    }

    proptest::proptest! {
        #[test]
        fn fuzz_no_document_breaks_the_reader(text in r#"([{}\[\]:,"\\ a1]|"metadata":|"name":"a"){0,40}"#) {
            let _ = object(&text, &kind());
        }
    }
}
