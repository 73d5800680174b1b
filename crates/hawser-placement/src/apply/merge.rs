//! Client-side apply of manifests that the schema of the member does not fit, by JSON merge patches.
//!
//! Server-side apply refuses fields that the schema does not have, and lists with two elements of one key. Other writes
//! of them are accepted: unknown fields are pruned. A patch replaces a list as a whole; only finalizers and owners of
//! others stay.

use serde_json::{Map, Value};

use super::compare::covers;
use super::{Manifest, Owner};

/// How a server begins to say that an object does not fit its schema.
const UNTYPED: &str = "failed to create typed ";

/// True for a refusal of server-side apply because the object does not fit the schema of its kind.
pub fn is_untyped(message: &str) -> bool {
    message.starts_with(UNTYPED)
}

/// The merge patch that gives an object the content of `body`, made from the manifest. What only the last manifest has is
/// removed. `None` if there is nothing to change.
pub fn patch(body: &Value, owner: &Owner<'_>, live: &Value, last: &Value) -> Option<Value> {
    let mut last = Manifest::of(last).object;
    let mut wanted = body.clone();
    let metadata = &mut wanted["metadata"];
    metadata["ownerReferences"] = if owner.owns(live) {
        live["metadata"]["ownerReferences"].clone()
    } else {
        owner.replaced_by(owner, live).into()
    };
    let finalizers = finalizers(&last, body, live);
    if !finalizers.is_empty() || !metadata["finalizers"].is_null() {
        // Whether they have changed shows in the object alone.
        if let Some(last) = last.pointer_mut("/metadata/finalizers") {
            *last = Value::Array(finalizers.clone());
        }
        metadata["finalizers"] = finalizers.into();
    }
    let patch = object(&last, wanted.as_object()?, live.as_object()?);
    let mut patch: Value = (!patch.is_empty()).then_some(patch)?.into();
    for field in ["uid", "resourceVersion"] {
        patch["metadata"][field] = live["metadata"][field].clone();
    }
    Some(patch)
}

/// The finalizers of others, and those of the manifest.
fn finalizers(last: &Value, body: &Value, live: &Value) -> Vec<Value> {
    let of = |object: &Value| {
        let all = object["metadata"]["finalizers"].as_array();
        all.cloned().unwrap_or_default()
    };
    let (last, wanted) = (of(last), of(body));
    let mut all = of(live);
    all.retain(|one| wanted.contains(one) || !last.contains(one));
    for one in wanted {
        if !all.contains(&one) {
            all.push(one);
        }
    }
    all
}

fn object(
    last: &Value,
    wanted: &Map<String, Value>,
    live: &Map<String, Value>,
) -> Map<String, Value> {
    let mut patch = Map::new();
    for (key, value) in wanted {
        let (last, found) = (&last[key], live.get(key).unwrap_or(&Value::Null));
        if let (Value::Object(value), Value::Object(found)) = (value, found) {
            let inner = object(last, value, found);
            if !inner.is_empty() {
                patch.insert(key.clone(), inner.into());
            }
        // An element may have dropped a field that the object still has.
        } else if !covers(value, found) || (last.is_array() && last != value) {
            patch.insert(key.clone(), value.clone());
        }
    }
    let before = last.as_object().into_iter().flat_map(Map::keys);
    for key in before.filter(|key| !wanted.contains_key(*key) && live.contains_key(*key)) {
        patch.insert(key.clone(), Value::Null);
    }
    patch
}

#[cfg(test)]
mod tests {
    #![allow(
        clippy::needless_pass_by_value,
        reason = "literals are shorter to pass by value"
    )]

    use proptest::prelude::*;
    use serde_json::json;

    use super::super::fields::last_applied;
    use super::super::read;
    use super::*;
    use crate::types::placement::ApplyStrategyType;

    const OWNER: Owner<'static> = Owner {
        name: "p-work",
        uid: "u1",
        is_work: &|_: &str| true,
    };

    fn thing(spec: Value) -> Value {
        json!({"apiVersion": "e.com/v1", "kind": "Thing", "metadata": {"name": "t"}, "spec": spec})
    }

    fn body(object: &Value) -> Value {
        let manifest = read(0, object).1.unwrap();
        manifest.body(&OWNER, ApplyStrategyType::ClientSideApply)
    }

    /// As RFC 7396 says, and without fields that are not in the schema.
    fn merge(target: &mut Value, patch: &Value) {
        let Value::Object(patch) = patch else {
            *target = patch.clone();
            return;
        };
        if !target.is_object() {
            *target = json!({});
        }
        for (key, value) in patch.iter().filter(|(key, _)| *key != "unknown") {
            if value.is_null() {
                target.as_object_mut().unwrap().remove(key);
            } else {
                merge(&mut target[key], value);
            }
        }
    }

    fn next(manifest: &Value, live: &Value) -> Option<Value> {
        let last = last_applied(live).unwrap_or_default();
        patch(&body(manifest), &OWNER, live, &last)
    }

    /// The object after a manifest is applied, and after it is applied once more.
    fn apply(live: &mut Value, manifest: &Value) {
        if let Some(patch) = next(manifest, live) {
            merge(live, &patch);
        }
    }

    #[test]
    fn a_refusal_for_the_schema_is_told_from_others() {
        assert!(is_untyped(
            "failed to create typed patch object (default/web; apps/v1, Kind=Deployment): .spec.x: field not declared in schema"
        ));
        assert!(!is_untyped(
            "admission webhook \"failed to create typed\" denied the request"
        ));
    }

    #[test]
    fn fields_that_a_manifest_drops_go_and_those_of_others_stay() {
        let mut live = json!({"metadata": {"uid": "o", "resourceVersion": "7", "finalizers": ["e.com/other"]},
            "spec": {"theirs": 1}, "status": {"ready": true}});
        live["metadata"]["ownerReferences"] = json!([{"kind": "Other", "uid": "u0"}]);
        let mut first =
            thing(json!({"size": 1, "deep": {"a": 1, "b": 2}, "list": [{"n": 1, "v": 1}]}));
        first["metadata"]["finalizers"] = json!(["e.com/ours"]);
        apply(&mut live, &first);
        assert_eq!(
            live["metadata"]["finalizers"],
            json!(["e.com/other", "e.com/ours"])
        );
        assert_eq!(live["metadata"]["ownerReferences"][1]["uid"], "u1");
        // The server completes an element.
        live["spec"]["list"][0]["default"] = 0.into();
        assert_eq!(next(&first, &live), None);
        let second = thing(json!({"deep": {"b": 3}, "list": [{"n": 1}]}));
        let patch = next(&second, &live).unwrap();
        assert_eq!(patch["metadata"]["resourceVersion"], "7");
        assert_eq!(patch["metadata"]["finalizers"], json!(["e.com/other"]));
        assert_eq!(
            patch["spec"],
            json!({"size": null, "deep": {"a": null, "b": 3}, "list": [{"n": 1}]})
        );
        merge(&mut live, &patch);
        assert_eq!(
            live["spec"],
            json!({"theirs": 1, "deep": {"b": 3}, "list": [{"n": 1}]})
        );
        assert_eq!(live["status"], json!({"ready": true}));
    }

    #[test]
    fn a_field_that_the_server_does_not_know_is_sent_again_and_changes_nothing() {
        let mut live = json!({"metadata": {}});
        let manifest = thing(json!({"size": 1, "unknown": 2}));
        apply(&mut live, &manifest);
        let before = live.clone();
        let again = next(&manifest, &live).unwrap();
        assert_eq!(again["spec"], json!({"unknown": 2}));
        apply(&mut live, &manifest);
        assert_eq!(live, before);
    }

    fn spec() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            any::<u8>().prop_map(Value::from),
            "[a-c]".prop_map(Value::from)
        ];
        let value = leaf.prop_recursive(3, 16, 3, |inner| {
            let list = prop::collection::vec(inner.clone(), 0..3).prop_map(Value::from);
            let fields = prop::collection::btree_map("[a-d]", inner, 0..3);
            prop_oneof![list, fields.prop_map(|fields| fields.into_iter().collect())]
        });
        let fields = prop::collection::btree_map("[a-d]", value, 0..4);
        fields.prop_map(|fields| fields.into_iter().collect())
    }

    proptest! {
        #[test]
        fn a_manifest_after_another_leaves_what_it_says_and_what_others_say(
            first in spec(), second in spec(), theirs in any::<u8>()
        ) {
            let mut live = json!({"metadata": {}, "spec": {"theirs": theirs}});
            apply(&mut live, &thing(first));
            let wanted = thing(second);
            apply(&mut live, &wanted);
            prop_assert!(covers(&wanted, &live), "{live:#}");
            prop_assert_eq!(&live["spec"]["theirs"], &json!(theirs));
            prop_assert_eq!(next(&wanted, &live), None);
        }
    }
}
