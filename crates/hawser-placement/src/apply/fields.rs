//! Fields that a manifest has dropped.
//!
//! Client-side apply removes what the last manifest named and this one does not, whoever else names it. Server-side apply
//! removes a field only if no other manager has it. The two differ for objects that somebody else made, KubeFleet among
//! them, which wrote by updates. So before such an apply, `managedFields` hands dropped fields to members alone. The
//! server says which fields a manifest has: it knows the keys of lists.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

use super::{LAST_APPLIED, MANAGER, UPDATER};

/// The steps to a field, as `managedFields` names them.
type FieldPath = Vec<String>;

/// The manifest that the object has in its annotation, if the next one may have dropped something of it.
pub fn last_manifest(live: &Value, next: &Value) -> Option<Value> {
    let text = live["metadata"]["annotations"][LAST_APPLIED].as_str()?;
    let last: Value = serde_json::from_str(text).ok()?;
    drops(&last, next).then_some(last)
}

/// Whether something may be missing in the next value. Keys of lists are not known: any other list may lack an element.
fn drops(last: &Value, next: &Value) -> bool {
    match (last, next) {
        (Value::Object(last), Value::Object(next)) => last
            .iter()
            .any(|(key, value)| next.get(key).is_none_or(|next| drops(value, next))),
        (Value::Array(_), _) => last != next,
        (Value::Object(_), _) => true,
        _ => false,
    }
}

/// True if a field that members wrote may have another manager than that of their applies, or if members have not
/// applied the object yet.
pub fn are_shared(live: &Value) -> bool {
    let ours = applied(live);
    let mut others = managers(live).filter(|entry| !is_applied_by_us(entry));
    ours.is_empty()
        || others.any(|entry| {
            entry["manager"] == UPDATER || !paths(&entry["fieldsV1"]).is_disjoint(&ours)
        })
}

/// The managers of the object once dropped fields belong to members alone; `None` if they do. `last` and `next` are the
/// object as an apply of the last and of the next manifest would leave it.
pub fn transfer_to_member(live: &Value, last: &Value, next: &Value) -> Option<Vec<Value>> {
    let ours: BTreeSet<FieldPath> = applied(live).union(&applied(last)).cloned().collect();
    let kept = applied(next);
    // A field that the next manifest names in part stays with whoever has the rest.
    let is_kept = |path: &FieldPath| {
        let mut from = kept.range(path.clone()..);
        from.next().is_some_and(|kept| kept.starts_with(path))
    };
    let dropped: BTreeSet<&[String]> = ours
        .iter()
        .filter(|path| !is_kept(path))
        .map(Vec::as_slice)
        .collect();
    if dropped.is_empty() {
        return None;
    }
    let is_dropped = |path: &FieldPath| (1..=path.len()).any(|to| dropped.contains(&path[..to]));
    let before: Vec<Value> = managers(live).cloned().collect();
    let mut after = Vec::new();
    for entry in &before {
        let mut fields = paths(&entry["fieldsV1"]);
        if is_applied_by_us(entry) {
            fields.clone_from(&ours);
        } else if !is_of_status(entry) {
            fields.retain(|path| !is_dropped(path));
        }
        if !fields.is_empty() {
            let mut entry = entry.clone();
            entry["fieldsV1"] = tree(&fields);
            after.push(entry);
        }
    }
    if !before.iter().any(is_applied_by_us) {
        after.push(json!({
            "manager": MANAGER, "operation": "Apply", "apiVersion": live["apiVersion"],
            "fieldsType": "FieldsV1", "fieldsV1": tree(&ours),
        }));
    }
    (after != before).then_some(after)
}

fn managers(object: &Value) -> impl Iterator<Item = &Value> {
    let entries = object["metadata"]["managedFields"].as_array();
    entries.into_iter().flatten()
}

/// Status and other subresources have managers of their own.
fn is_of_status(entry: &Value) -> bool {
    entry["subresource"]
        .as_str()
        .is_some_and(|of| !of.is_empty())
}

fn is_applied_by_us(entry: &Value) -> bool {
    entry["manager"] == MANAGER && entry["operation"] == "Apply" && !is_of_status(entry)
}

/// The fields that members have applied.
fn applied(object: &Value) -> BTreeSet<FieldPath> {
    let mut entries = managers(object).filter(|entry| is_applied_by_us(entry));
    entries
        .next()
        .map(|entry| paths(&entry["fieldsV1"]))
        .unwrap_or_default()
}

/// The fields of a tree. A field of which nothing further is said is a member of it, and so is one with a dot.
fn paths(tree: &Value) -> BTreeSet<FieldPath> {
    fn walk(at: &mut FieldPath, tree: &Value, found: &mut BTreeSet<FieldPath>) {
        let Some(below) = tree.as_object() else {
            return;
        };
        if !at.is_empty() && (below.is_empty() || below.contains_key(".")) {
            found.insert(at.clone());
        }
        for (step, tree) in below.iter().filter(|(step, _)| *step != ".") {
            at.push(step.clone());
            walk(at, tree, found);
            at.pop();
        }
    }
    let mut found = BTreeSet::new();
    walk(&mut Vec::new(), tree, &mut found);
    found
}

fn tree(paths: &BTreeSet<FieldPath>) -> Value {
    let mut root = Map::new();
    // Sorted, a field comes before what is below it.
    for path in paths {
        let mut at = &mut root;
        for (depth, step) in path.iter().enumerate() {
            let is_new = !at.contains_key(step);
            let below = at.entry(step.clone()).or_insert_with(|| json!({}));
            let Value::Object(below) = below else { break };
            // What was a member without anything below it stays a member.
            if below.is_empty() && !is_new && depth + 1 < path.len() {
                below.insert(".".to_owned(), json!({}));
            }
            at = below;
        }
    }
    root.into()
}

#[cfg(test)]
mod tests {
    #![allow(
        clippy::needless_pass_by_value,
        reason = "literals are shorter to pass by value"
    )]

    use super::*;

    fn entry(manager: &str, operation: &str, fields: Value) -> Value {
        json!({
            "manager": manager, "operation": operation, "apiVersion": "v1", "fieldsType": "FieldsV1",
            "fieldsV1": fields,
        })
    }

    fn object(entries: Vec<Value>) -> Value {
        json!({"apiVersion": "v1", "metadata": {"managedFields": entries}})
    }

    #[test]
    fn a_tree_has_the_paths_that_it_was_made_from() {
        let fields = json!({
            "f:data": {".": {}, "f:a": {}, "f:b": {}},
            "f:spec": {"f:ports": {"k:{\"port\":1}": {".": {}, "f:port": {}}}},
        });
        assert_eq!(tree(&paths(&fields)), fields);
    }

    #[test]
    fn only_manifests_that_may_have_dropped_something_matter() {
        let of = |last: Value, next: Value| {
            let text = last.to_string();
            let live = json!({"metadata": {"annotations": {LAST_APPLIED: text}}});
            last_manifest(&live, &next).is_some()
        };
        assert!(!of(json!({"a": {"b": 1}}), json!({"a": {"b": 2, "c": 1}})));
        assert!(of(json!({"a": {"b": 1}}), json!({"a": {}})));
        assert!(of(json!({"a": [{"n": 1}]}), json!({"a": [{"n": 2}]})));
        assert_eq!(last_manifest(&json!({}), &json!({})), None);
    }

    #[test]
    fn dropped_fields_belong_to_members_alone() {
        let status = json!({"manager": "c", "operation": "Update", "subresource": "status", "fieldsV1": {"f:a": {}}});
        let live = object(vec![
            entry(
                "kubectl",
                "Update",
                json!({"f:data": {".": {}, "f:a": {}, "f:own": {}}}),
            ),
            entry(MANAGER, "Update", json!({"f:data": {"f:b": {}}})),
            status.clone(),
        ]);
        assert!(are_shared(&live));
        let last = object(vec![entry(
            MANAGER,
            "Apply",
            json!({"f:data": {"f:a": {}, "f:b": {}}}),
        )]);
        let next = object(vec![entry(
            MANAGER,
            "Apply",
            json!({"f:data": {"f:c": {}}}),
        )]);
        let after = transfer_to_member(&live, &last, &next).unwrap();
        assert_eq!(
            after,
            [
                entry(
                    "kubectl",
                    "Update",
                    json!({"f:data": {".": {}, "f:own": {}}})
                ),
                status,
                entry(MANAGER, "Apply", json!({"f:data": {"f:a": {}, "f:b": {}}})),
            ]
        );
        // Once that is written, nothing is left to be done.
        let live = object(after);
        assert_eq!(transfer_to_member(&live, &last, &next), None);
        assert!(!are_shared(&live));
        // What was merged belongs to another manager.
        let mut merged = live.clone();
        let entries = merged["metadata"]["managedFields"].as_array_mut();
        entries
            .unwrap()
            .push(entry(UPDATER, "Update", json!({"f:data": {"f:d": {}}})));
        assert!(are_shared(&merged));
        // Nothing is dropped.
        assert_eq!(transfer_to_member(&live, &last, &last), None);
    }

    #[test]
    fn a_dropped_element_of_a_list_goes_with_what_others_set_in_it() {
        let element = |name: &str, field: &str| json!({name: {".": {}, field: {}}});
        let live = object(vec![
            entry(
                "kubectl",
                "Update",
                json!({"f:l": element("k:a", "f:default")}),
            ),
            entry(MANAGER, "Apply", json!({"f:l": element("k:a", "f:image")})),
        ]);
        let next = object(vec![entry(
            MANAGER,
            "Apply",
            json!({"f:l": element("k:b", "f:image")}),
        )]);
        let after = transfer_to_member(&live, &live, &next).unwrap();
        assert_eq!(after, [live["metadata"]["managedFields"][1].clone()]);
    }
}
