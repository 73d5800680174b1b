//! The fields in which two states of an object differ. Pure.

use std::sync::Arc;

use serde_json::{Map, Value};

use super::secrets::SecretLinks;
use hawser_sync::{Answer, Request};
use kube_lang::object::{Gvk, Object, merge_patch, numbers};

/// A field that differs, without the contents of Secrets.
#[derive(Clone, Debug, PartialEq)]
pub struct Difference {
    pub path: String,
    pub before: Option<Value>,
    pub after: Option<Value>,
}

/// The differences between two states of an object of this kind.
pub fn differences(
    kind: &Arc<Gvk>,
    secrets: &SecretLinks,
    before: &Map<String, Value>,
    after: &Map<String, Value>,
) -> Vec<Difference> {
    let mut found = Vec::new();
    compare("", before, after, &mut found);
    for Difference {
        path,
        before,
        after,
    } in &mut found
    {
        let field = path.split(['.', '[']).next().unwrap_or_default();
        for value in [before, after].into_iter().flatten() {
            secrets.redact(kind, field, value);
        }
    }
    found
}

/// What a write changes: the object as it is now, or as it is created, and as the server would store it. If the server
/// did not say that, what was asked of it. `None` if the object is not known.
pub(super) fn made_by(
    request: &Request,
    change: &Value,
    now: Option<&Object>,
    answer: &Answer,
    secrets: &SecretLinks,
) -> Option<Vec<Difference>> {
    let before = match request {
        Request::Create { object, .. } => object,
        _ => now.filter(|now| !now.is_fragment())?,
    };
    let after = match answer {
        Answer::Object(stored) if stored.is_fragment() => return None,
        Answer::Object(stored) => stored.as_value().clone(),
        _ => {
            let mut intended = before.as_value().clone();
            merge_patch::apply(&mut intended, change);
            intended
        }
    };
    let [before, after] = [before.as_value().clone(), after].map(without_bookkeeping);
    let kind = &request.key()?.kind;
    Some(differences(kind, secrets, &before, &after))
}

/// An object without what its server keeps about it.
fn without_bookkeeping(object: Value) -> Map<String, Value> {
    const METADATA: [&str; 4] = ["labels", "annotations", "finalizers", "ownerReferences"];
    let Value::Object(mut object) = object else {
        return Map::new();
    };
    object.retain(|field, _| !["apiVersion", "kind"].contains(&&**field));
    if let Some(Value::Object(metadata)) = object.get_mut("metadata") {
        metadata.retain(|field, _| METADATA.contains(&&**field));
    }
    object.values_mut().for_each(numbers::unify);
    object
}

fn compare(
    path: &str,
    before: &Map<String, Value>,
    after: &Map<String, Value>,
    found: &mut Vec<Difference>,
) {
    let mut fields: Vec<_> = before.keys().chain(after.keys()).collect();
    fields.sort();
    fields.dedup();
    for field in fields {
        let path = step(path, field);
        match (before.get(field), after.get(field)) {
            (before, after) if before == after => {}
            (Some(Value::Object(before)), Some(Value::Object(after))) => {
                compare(&path, before, after, found);
            }
            (before, after) => found.push(Difference {
                path,
                before: before.cloned(),
                after: after.cloned(),
            }),
        }
    }
}

/// The path of a field; a name with a dot is quoted.
fn step(path: &str, field: &str) -> String {
    if field.contains(['.', '[', '"']) {
        format!("{path}[{field:?}]")
    } else if path.is_empty() {
        field.to_owned()
    } else {
        format!("{path}.{field}")
    }
}

#[cfg(test)]
mod tests {
    use hawser_sync::{Failure, Key, Scope, Side};
    use serde_json::json;

    use super::*;

    fn key(group: &str, kind: &str) -> Key {
        let kind = Arc::new(Gvk::new(group, "v1", kind));
        Scope::new(&Side::new("service"), &kind, "").key(Some("ns"), "one")
    }

    fn object(fields: &Value) -> Object {
        let mut object = json!({"apiVersion": "v1", "kind": "Any",
            "metadata": {"name": "one", "uid": "u", "resourceVersion": "7"}});
        merge_patch::apply(&mut object, fields);
        Object::new(object).unwrap()
    }

    /// Each difference as text.
    fn told(
        request: &Request,
        change: &Value,
        now: Option<&Object>,
        answer: &Answer,
    ) -> Vec<String> {
        let secrets = SecretLinks::default();
        let found = made_by(request, change, now, answer, &secrets).unwrap();
        let shown = |value: Option<Value>| value.map_or("-".to_owned(), |value| value.to_string());
        let one = |one: Difference| {
            let (before, after) = (shown(one.before), shown(one.after));
            format!("{} {before} {after}", one.path)
        };
        found.into_iter().map(one).collect()
    }

    #[test]
    fn a_patch_shows_old_values_and_what_the_server_makes_of_the_new_ones() {
        let now = object(&json!({"spec": {"size": 1, "kept": true}}));
        let patch = json!({"spec": {"size": 2}, "metadata": {"annotations": {"a.b/c": "x"}}});
        let request = Request::Patch {
            key: key("example.com", "Thing"),
            patch: patch.clone(),
        };
        let stored = object(
            &json!({"spec": {"size": 2.0, "kept": true, "tier": "small"}, "metadata": {
                "resourceVersion": "8", "annotations": {"a.b/c": "x"}, "managedFields": []}}),
        );
        let answer = Answer::Object(stored.into());
        let annotation = r#"metadata.annotations - {"a.b/c":"x"}"#;
        assert_eq!(
            told(&request, &patch, Some(&now), &answer),
            [annotation, "spec.size 1 2", "spec.tier - \"small\""]
        );
        // A refusal says nothing about the object: what was asked is shown.
        let refused = Answer::Failed(Failure::Invalid("too large".to_owned()));
        assert_eq!(
            told(&request, &patch, Some(&now), &refused),
            [annotation, "spec.size 1 2"]
        );
        let secrets = SecretLinks::default();
        let unknown = made_by(&request, &patch, None, &refused, &secrets);
        assert_eq!(unknown, None);
    }

    #[test]
    fn a_creation_shows_what_the_server_adds() {
        let sent = object(&json!({"spec": {"size": 1}}));
        let request = Request::Create {
            key: key("example.com", "Thing"),
            object: sent.clone(),
        };
        let stored = object(&json!({"spec": {"size": 1, "tier": "small"}, "metadata": {
            "creationTimestamp": "2026-01-02T12:00:00Z"}}));
        let answer = Answer::Object(stored.into());
        assert_eq!(
            told(&request, sent.as_value(), None, &answer),
            ["spec.tier - \"small\""]
        );
    }

    #[test]
    fn the_data_of_secrets_is_hidden_on_both_sides() {
        let now = object(&json!({"data": {"a": "b2xk", "b": "b2xk"}, "type": "Opaque"}));
        let patch = json!({"data": {"a": "bmV3", "b": null}, "type": "other"});
        let request = Request::Patch {
            key: key("", "Secret"),
            patch: patch.clone(),
        };
        let refused = Answer::Failed(Failure::Conflict);
        let hidden = "\"(hidden)\"";
        assert_eq!(
            told(&request, &patch, Some(&now), &refused),
            [
                format!("data.a {hidden} {hidden}"),
                format!("data.b {hidden} -"),
                "type \"Opaque\" \"other\"".to_owned()
            ]
        );
        let bare = object(&json!({"type": "Opaque"}));
        let answer = Answer::Object(now.into());
        let found = told(&request, &patch, Some(&bare), &answer);
        assert_eq!(found, [format!("data - {{\"a\":{hidden},\"b\":{hidden}}}")]);
    }
}
