//! Fields that a manifest has dropped, and the managers of fields.
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

/// The manifest that the object has in its annotation. A large one is not there.
pub fn last_applied(live: &Value) -> Option<Value> {
    let text = live["metadata"]["annotations"][LAST_APPLIED].as_str()?;
    serde_json::from_str(text).ok()
}

/// The same, if the next manifest may have dropped something of it.
pub fn last_manifest(live: &Value, next: &Value) -> Option<Value> {
    last_applied(live).filter(|last| drops(last, next))
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
        after.push(apply_entry(live, &ours));
    }
    (after != before).then_some(after)
}

/// True if an apply should find all fields that members wrote in one entry of `managedFields`: it removes what the manifest
/// has dropped, and no annotation says what that is. `keeps_annotation` says that the apply leaves one.
pub fn needs_one_entry(live: &Value, keeps_annotation: bool) -> bool {
    let annotation = &live["metadata"]["annotations"][LAST_APPLIED];
    annotation.is_string() && !(keeps_annotation && last_applied(live).is_some())
}

/// The managers of the object once all that members wrote is in the entry of their applies; `None` if it is.
pub fn with_one_entry(live: &Value) -> Option<Vec<Value>> {
    if !managers(live).any(|entry| is_ours(entry) && !is_applied_by_us(entry)) {
        return None;
    }
    let others = managers(live).filter(|entry| !is_ours(entry));
    Some(
        others
            .cloned()
            .chain([apply_entry(live, &ours(live))])
            .collect(),
    )
}

/// The part of the object that members wrote, in place of a last manifest that is not known.
pub fn written(live: &Value) -> Value {
    let others = managers(live).filter(|entry| !is_ours(entry));
    let others = others.flat_map(|entry| paths(&entry["fieldsV1"])).collect();
    let ours = ours(live);
    if ours.is_empty() {
        return json!({});
    }
    part(live, &tree(&ours), &tree(&others))
}

/// The part of a value that a tree of fields names. A field without anything below it is whole, unless others have something
/// below it: then only its being there is meant.
fn part(value: &Value, fields: &Value, others: &Value) -> Value {
    let is_whole = fields.as_object().is_none_or(Map::is_empty);
    if is_whole && others.as_object().is_none_or(Map::is_empty) {
        return value.clone();
    }
    let steps = || fields.as_object().into_iter().flatten();
    match value {
        Value::Object(object) => {
            let named = steps().filter_map(|(step, below)| {
                let name = step.strip_prefix("f:")?;
                let part = part(object.get(name)?, below, &others[step]);
                Some((name.to_owned(), part))
            });
            named.collect()
        }
        Value::Array(elements) => {
            let named = elements.iter().enumerate().filter_map(|(index, element)| {
                let (step, below) = steps().find(|(step, _)| leads_to(step, index, element))?;
                Some(part(element, below, &others[step]))
            });
            named.collect()
        }
        _ => value.clone(),
    }
}

/// Whether a step names an element of a list: by its keys, its value or its index.
fn leads_to(step: &str, index: usize, element: &Value) -> bool {
    let Some((by, text)) = step.split_once(':') else {
        return false;
    };
    match (by, serde_json::from_str(text)) {
        ("k", Ok(Value::Object(keys))) => keys.iter().all(|(key, value)| element[key] == *value),
        ("v", Ok(value)) => *element == value,
        ("i", Ok(value)) => value == index,
        _ => false,
    }
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

/// True for what members wrote, by an apply or another write. KubeFleet merges under the manager of applies.
fn is_ours(entry: &Value) -> bool {
    !is_of_status(entry)
        && [MANAGER, UPDATER]
            .iter()
            .any(|one| entry["manager"] == *one)
}

/// The fields that members wrote.
fn ours(object: &Value) -> BTreeSet<FieldPath> {
    let entries = managers(object).filter(|entry| is_ours(entry));
    entries
        .flat_map(|entry| paths(&entry["fieldsV1"]))
        .collect()
}

fn apply_entry(live: &Value, fields: &BTreeSet<FieldPath>) -> Value {
    json!({
        "manager": MANAGER, "operation": "Apply", "apiVersion": live["apiVersion"],
        "fieldsType": "FieldsV1", "fieldsV1": tree(fields),
    })
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
    fn what_members_wrote_comes_into_one_entry_before_an_apply_that_relies_on_it() {
        let status = json!({"manager": MANAGER, "operation": "Update", "subresource": "status", "fieldsV1": {"f:a": {}}});
        let theirs = entry("kubectl", "Update", json!({"f:data": {"f:own": {}}}));
        let mut live = object(vec![
            entry(UPDATER, "Update", json!({"f:data": {".": {}, "f:b": {}}})),
            theirs.clone(),
            entry(MANAGER, "Apply", json!({"f:data": {"f:a": {}}})),
            entry(MANAGER, "Update", json!({"f:data": {"f:c": {}}})),
            status.clone(),
        ]);
        let all = json!({"f:data": {".": {}, "f:a": {}, "f:b": {}, "f:c": {}}});
        let after = with_one_entry(&live).unwrap();
        assert_eq!(after, [theirs, status, entry(MANAGER, "Apply", all)]);
        assert_eq!(with_one_entry(&object(after)), None);
        for (annotation, server_side, client_side) in [
            (json!(null), false, false),
            (json!({LAST_APPLIED: "{}"}), true, false),
            (json!({LAST_APPLIED: ""}), true, true),
        ] {
            live["metadata"]["annotations"] = annotation;
            assert_eq!(needs_one_entry(&live, false), server_side);
            assert_eq!(needs_one_entry(&live, true), client_side);
        }
    }

    #[test]
    fn what_members_wrote_is_told_from_what_others_wrote() {
        let mut live = object(vec![
            entry(
                MANAGER,
                "Apply",
                json!({"f:spec": {"f:size": {}, "f:limits": {}, "f:whole": {}, "f:ports": {
                    "k:{\"port\":80}": {".": {}, "f:port": {}}}, "f:set": {"v:\"a\"": {}}}}),
            ),
            entry(UPDATER, "Update", json!({"f:spec": {"f:color": {}}})),
            entry(
                "kubectl",
                "Update",
                json!({"f:spec": {"f:limits": {"f:cpu": {}}, "f:theirs": {}, "f:ports": {
                    "k:{\"port\":80}": {"f:name": {}}, "k:{\"port\":81}": {".": {}, "f:port": {}}},
                    "f:set": {"v:\"b\"": {}}}}),
            ),
        ]);
        live["spec"] = json!({
            "size": 1, "limits": {"cpu": 1}, "whole": {"a": [1]}, "color": "red", "theirs": 1,
            "ports": [{"port": 81}, {"port": 80, "name": "web"}], "set": ["a", "b"],
        });
        assert_eq!(
            written(&live),
            json!({"spec": {
                "size": 1, "limits": {}, "whole": {"a": [1]}, "color": "red", "ports": [{"port": 80}], "set": ["a"],
            }})
        );
        assert_eq!(
            written(&json!({"metadata": {}, "spec": {"a": 1}})),
            json!({})
        );
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
