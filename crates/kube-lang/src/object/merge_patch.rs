//! RFC 7386 merge patches: made from two documents, applied to one.
//!
//! Numbers are compared as they are written: `1` and `1.0` differ, and 64-bit integers are exact. Who
//! wants them compared by their worth unifies both sides first ([`numbers`](super::numbers)).

use serde_json::{Map, Value};

/// The reason why no merge patch leads from one document to another.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MergePatchError {
    #[error("both sides of a merge patch must be JSON objects")]
    NotObjects,
}

/// The patch that makes `to` out of `from`; an empty object where they agree.
pub fn create(from: &Value, to: &Value) -> Result<Value, MergePatchError> {
    match (from, to) {
        (Value::Object(from), Value::Object(to)) => Ok(Value::Object(diff(from, to))),
        _ => Err(MergePatchError::NotObjects),
    }
}

/// The patch that makes the object `to` out of the object `from`: empty where they agree.
///
/// A merge patch cannot set null, so that a null in `to` removes the field where the patch is
/// applied.
pub fn diff(from: &Map<String, Value>, to: &Map<String, Value>) -> Map<String, Value> {
    diff_of(from, to, |_| true)
}

/// The same for some fields of the top level only.
pub fn diff_of(
    from: &Map<String, Value>,
    to: &Map<String, Value>,
    keep: impl Fn(&str) -> bool,
) -> Map<String, Value> {
    let mut patch = Map::new();
    for (key, to) in to.iter().filter(|(key, _)| keep(key)) {
        match (from.get(key), to) {
            (Some(Value::Object(from)), Value::Object(to)) => {
                let inner = diff(from, to);
                if !inner.is_empty() {
                    patch.insert(key.clone(), Value::Object(inner));
                }
            }
            (Some(from), to) if from == to => {}
            _ => {
                patch.insert(key.clone(), to.clone());
            }
        }
    }
    for key in from
        .keys()
        .filter(|key| keep(key) && !to.contains_key(*key))
    {
        patch.insert(key.clone(), Value::Null);
    }
    patch
}

/// Applies a patch to a document, in place.
pub fn apply(target: &mut Value, patch: &Value) {
    let Value::Object(patch) = patch else {
        *target = patch.clone();
        return;
    };
    if !target.is_object() {
        *target = Value::Object(Map::new());
    }
    if let Value::Object(target) = target {
        for (key, value) in patch {
            if value.is_null() {
                target.remove(key);
            } else {
                apply(target.entry(key).or_insert(Value::Null), value);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// Cases in which we differ on purpose, and why.
    const TOLERATED: &[(&str, &str)] = &[
        (
            "create-unicode-lone-surrogate",
            "text that is not Unicode is no JSON to us",
        ),
        (
            "create-top-arrays-objects",
            "a document that is not an object never reaches a patch here",
        ),
        (
            "create-top-null-both",
            "a document that is not an object never reaches a patch here",
        ),
        (
            "create-top-null-original",
            "a document that is not an object never reaches a patch here",
        ),
        (
            "create-top-null-original-null-member",
            "a document that is not an object never reaches a patch here",
        ),
        (
            "create-top-null-modified",
            "a document that is not an object never reaches a patch here",
        ),
        (
            "create-top-array-null-elems",
            "a document that is not an object never reaches a patch here",
        ),
        (
            "create-trailing-garbage",
            "trailing text is an error to our parser",
        ),
        (
            "apply-array-object-key-differs",
            "RFC 7386 keeps nulls inside lists; API servers are sent lists as they are",
        ),
        (
            "apply-top-null-both",
            "a document that is not an object never reaches a patch here",
        ),
        (
            "apply-top-null-original",
            "a document that is not an object never reaches a patch here",
        ),
        (
            "roundtrip-array-object-null-vs-missing",
            "RFC 7386 keeps nulls inside lists; API servers are sent lists as they are",
        ),
        (
            "roundtrip-array-object-key-differs",
            "RFC 7386 keeps nulls inside lists; API servers are sent lists as they are",
        ),
        (
            "roundtrip-top-null-both",
            "a document that is not an object never reaches a patch here",
        ),
        (
            "roundtrip-top-null-original",
            "a document that is not an object never reaches a patch here",
        ),
        (
            "roundtrip-top-null-original-null-member",
            "a document that is not an object never reaches a patch here",
        ),
        (
            "roundtrip-array-of-null-objects-new",
            "RFC 7386 keeps nulls inside lists; API servers are sent lists as they are",
        ),
        (
            "roundtrip-replace-array-by-array-with-nulls",
            "RFC 7386 keeps nulls inside lists; API servers are sent lists as they are",
        ),
    ];

    fn parse(text: &Value) -> Option<Value> {
        serde_json::from_str(text.as_str()?).ok()
    }

    #[test]
    fn every_case_of_the_contract_gives_the_contracts_patch() {
        let file: Value =
            serde_json::from_str(include_str!("../../../../tests/data/merge_patch.json")).unwrap();
        let mut wrong = Vec::new();
        for case in file["cases"].as_array().unwrap() {
            let id = case["id"].as_str().unwrap();
            let second = if case["op"] == "create" {
                "modified"
            } else {
                "patch"
            };
            let got = match (parse(&case["original"]), parse(&case[second])) {
                (Some(from), Some(to)) if case["op"] == "create" => create(&from, &to).ok(),
                (Some(mut target), Some(patch)) => {
                    apply(&mut target, &patch);
                    Some(target)
                }
                _ => None,
            };
            let want = case
                .get("want")
                .cloned()
                .or_else(|| case.get("want_raw").and_then(parse));
            if got != want {
                wrong.push((id, format!("{case}\n   got {got:?}")));
            }
        }
        let ids: Vec<&str> = wrong.iter().map(|(id, _)| *id).collect();
        let tolerated: Vec<&str> = TOLERATED.iter().map(|(id, _)| *id).collect();
        assert_eq!(ids, tolerated, "{wrong:#?}");
    }

    #[test]
    fn integers_beyond_doubles_stay_exact() {
        let patch = create(
            &json!({"a": 9_007_199_254_740_993_i64}),
            &json!({"a": 9_007_199_254_740_992_i64}),
        );
        assert_eq!(patch.unwrap(), json!({"a": 9_007_199_254_740_992_i64}));
    }
}
