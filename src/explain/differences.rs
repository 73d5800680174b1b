//! The fields in which two states of an object differ. Pure.

use std::fmt::Write as _;
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

/// The fields that differ, as far as there is room for them.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Differences {
    pub fields: Vec<Difference>,
    /// The number of other fields that differ.
    pub more: usize,
}

/// The number of fields. Consumers decide how many there are, and how long the names on their paths are.
const MOST: usize = 500;
/// The bytes of a path.
const LONGEST_PATH: usize = 512;

/// The differences between two states of an object of this kind.
pub fn differences(
    kind: &Arc<Gvk>,
    secrets: &SecretLinks,
    before: &Map<String, Value>,
    after: &Map<String, Value>,
) -> Differences {
    let mut comparison = Comparison {
        kind,
        secrets,
        path: Vec::new(),
        found: Differences::default(),
    };
    comparison.compare(before, after);
    comparison.found
}

/// What a write changes: the object as it is now, or as it is created, and as the server would store it. If the server
/// did not say that, what was asked of it. `None` if the object is not known.
pub(super) fn made_by(
    request: &Request,
    change: &Value,
    now: Option<&Object>,
    answer: &Answer,
    secrets: &SecretLinks,
) -> Option<Differences> {
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

struct Comparison<'a> {
    kind: &'a Arc<Gvk>,
    secrets: &'a SecretLinks,
    path: Vec<&'a str>,
    found: Differences,
}

impl<'a> Comparison<'a> {
    fn compare(&mut self, before: &'a Map<String, Value>, after: &'a Map<String, Value>) {
        let mut fields: Vec<_> = before.keys().chain(after.keys()).collect();
        fields.sort();
        fields.dedup();
        for field in fields {
            self.path.push(field);
            match (before.get(field), after.get(field)) {
                (before, after) if before == after => {}
                (Some(Value::Object(before)), Some(Value::Object(after))) => {
                    self.compare(before, after);
                }
                _ if self.found.fields.len() >= MOST => self.found.more += 1,
                (before, after) => {
                    let shown = |value: Option<&Value>| {
                        let mut value = value.cloned()?;
                        let field = self.path.first().copied().unwrap_or_default();
                        self.secrets.redact(self.kind, field, &mut value);
                        Some(value)
                    };
                    let difference = Difference {
                        path: shown_path(&self.path),
                        before: shown(before),
                        after: shown(after),
                    };
                    self.found.fields.push(difference);
                }
            }
            self.path.pop();
        }
    }
}

/// The path of a field; a name with a dot is quoted. The end of a long one is cut.
fn shown_path(fields: &[&str]) -> String {
    let mut path = String::new();
    for field in fields {
        let field = start(field);
        if field.contains(['.', '[', '"']) {
            let _ = write!(path, "[{field:?}]");
        } else if path.is_empty() {
            field.clone_into(&mut path);
        } else {
            let _ = write!(path, ".{field}");
        }
        if path.len() > LONGEST_PATH {
            return format!("{}…", start(&path));
        }
    }
    path
}

fn start(text: &str) -> &str {
    &text[..text.floor_char_boundary(LONGEST_PATH)]
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
        assert_eq!(found.more, 0);
        found.fields.into_iter().map(one).collect()
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
    fn many_fields_and_long_names_take_little_room() {
        let of = |value: u64| {
            let fields = (0..2000).map(|number| (format!("f{number:04}"), json!(value)));
            let mut root = Map::new();
            root.insert("ü".repeat(100_000), Value::Object(fields.collect()));
            root
        };
        let kind = Arc::new(Gvk::new("example.com", "v1", "Thing"));
        let found = differences(&kind, &SecretLinks::default(), &of(1), &of(2));
        assert_eq!((found.fields.len(), found.more), (MOST, 2000 - MOST));
        let longest = found.fields.iter().map(|one| one.path.len()).max();
        assert!(longest.is_some_and(|longest| longest < 2 * LONGEST_PATH));
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
