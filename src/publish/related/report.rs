//! The annotations by which a published object lists its related objects for its owner.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::identity::Identity;
use crate::publish::marks;
use crate::publish::types::Origin;
use hawser_sync::reason::Class;
use hawser_sync::{Code, Effect, Intent, Key, Outcome, Request, Step, Subject, Target};
use kube_lang::go_json;
use kube_lang::object::Object;

/// The patch that updates these annotations; `None` if they are up to date, or if not everything is at rest.
pub fn annotations(subject: &Subject, outcomes: &[Outcome], anchor: &Object) -> Option<Step> {
    if anchor.in_deletion() || subject.intent != Intent::Sync {
        return None;
    }
    let mut wanted: BTreeMap<String, String> = BTreeMap::new();
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    for link in &subject.links {
        let outcome = outcomes.iter().find(|outcome| outcome.link == link.id);
        let code = outcome.map_or(Code::NotSeen, |outcome| outcome.reason.code);
        // Until the whole is known, what is said stays.
        if code != Code::StoredOtherwise && matches!(code.class(), Class::Retry | Class::Working)
            || matches!(
                code,
                Code::WaitingForOthers | Code::TooDeep | Code::CacheLimitExceeded
            )
        {
            return None;
        }
        let Some(identity) = Identity::read(&link.id) else {
            continue;
        };
        // A contested copy and one that is stored otherwise take turns, and both are there.
        let here = matches!(
            code,
            Code::InStep | Code::StatusNotServed | Code::StoredOtherwise | Code::Contested
        );
        if identity.origin == Origin::Kcp || !here {
            continue;
        }
        let (Some(source), Target::Named(target)) = (link.source.key(), &link.target) else {
            continue;
        };
        let count = counts.entry(identity.identifier().to_owned()).or_default();
        let key = format!("{}{}.{count}", marks::RELATED_PREFIX, identity.identifier());
        *count += 1;
        wanted.insert(key, text(source, target));
    }
    let mut changes = Map::new();
    for (key, _) in anchor.annotations() {
        if key.starts_with(marks::RELATED_PREFIX) && !wanted.contains_key(key) {
            changes.insert(key.to_owned(), Value::Null);
        }
    }
    for (key, value) in wanted {
        if anchor.annotation(&key) != Some(value.as_str()) {
            changes.insert(key, value.into());
        }
    }
    if changes.is_empty() {
        return None;
    }
    let mut metadata = json!({"annotations": changes});
    if let Some(uid) = anchor.uid() {
        metadata["uid"] = uid.into();
    }
    Some(Step {
        link: None,
        request: Request::Patch {
            key: subject.anchor.clone(),
            patch: json!({"metadata": metadata}),
        },
        effect: Effect::Reported,
    })
}

/// The copy by its name, and by the kind on the original's side.
fn text(source: &Key, target: &Key) -> String {
    let mut text = String::from("{");
    if let Some(namespace) = &target.namespace {
        text.push_str("\"namespace\":");
        go_json::write_text(&mut text, namespace);
        text.push(',');
    }
    for (field, value) in [
        ("name", &*target.name),
        ("apiVersion", &*source.kind.api_version()),
        ("kind", &*source.kind.kind),
    ] {
        go_json::write_text(&mut text, field);
        text.push(':');
        go_json::write_text(&mut text, value);
        text.push(',');
    }
    text.pop();
    text.push('}');
    text
}
