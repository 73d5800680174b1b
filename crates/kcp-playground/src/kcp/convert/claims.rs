//! The common parts of permission claims in exports and bindings, and in both versions.

use serde_json::{Map, Value};

/// The key by which a claim is found in another version: group, resource and identity.
pub(super) fn identity(claim: &Value) -> (&str, &str, &str) {
    let field = |name: &str| claim.get(name).and_then(Value::as_str).unwrap_or_default();
    (field("group"), field("resource"), field("identityHash"))
}

/// The claim of a list for the same resource.
pub(super) fn find<'a>(list: &'a [Value], claim: &Value) -> Option<&'a Value> {
    list.iter().find(|c| identity(c) == identity(claim))
}

/// The fields that name the resource in the older version, which omits an empty identity.
pub(super) fn old_base(claim: &Value) -> Map<String, Value> {
    let (group, resource, hash) = identity(claim);
    let mut map = Map::new();
    map.insert("group".into(), group.into());
    map.insert("resource".into(), resource.into());
    if !hash.is_empty() {
        map.insert("identityHash".into(), hash.into());
    }
    map
}

/// The fields that name the resource in the stored version.
pub(super) fn stored_base(claim: &Value) -> Map<String, Value> {
    let (group, resource, hash) = identity(claim);
    let mut map = Map::new();
    map.insert("group".into(), group.into());
    map.insert("resource".into(), resource.into());
    map.insert("identityHash".into(), hash.into());
    map
}

/// Whether a claim of the stored version asks for every verb. The older version can express no other claim.
pub(super) fn all_verbs(claim: &Value) -> bool {
    claim["verbs"]
        .as_array()
        .is_some_and(|verbs| verbs.len() == 1 && verbs[0] == "*")
}

pub(super) fn match_all(claim: &Value) -> bool {
    claim["selector"]["matchAll"] == true
}

/// Copies the fields that exist.
pub(super) fn copy(from: &Value, into: &mut Map<String, Value>, fields: &[&str]) {
    for field in fields {
        if let Some(value) = from.get(*field) {
            into.insert((*field).to_owned(), value.clone());
        }
    }
}
