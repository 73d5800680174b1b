//! Whether a missing original has ended although its deletion was not seen.
//!
//! kcp shows every object of a permission claim that the workspace has accepted without a selector, once the status of the
//! binding lists the claim as applied. Whoever withdraws a claim changes the binding first; only then are the objects
//! hidden. So the original is read first and the bindings afterwards: if they still show every object of the kind, the
//! original was not hidden when it was not found.

use std::sync::Arc;

use serde_json::Value;

use super::identity::Identity;
use crate::publish::rules::ObjectRules;
use hawser_sync::{Found, Key, Labels, Request, Scope, Seen, View};
use kube_lang::object::{Gvk, Object};

pub fn binding_kind() -> Arc<Gvk> {
    Arc::new(Gvk::new("apis.kcp.io", "v1alpha1", "APIBinding"))
}

/// Whether an original in a workspace has ended although nobody saw it; the error names the reads that are needed
/// first.
pub(super) fn has_ended(
    identity: &Identity,
    rules: &ObjectRules,
    view: &dyn View,
) -> Result<bool, Vec<Request>> {
    let (sides, remote) = (rules.sides(), rules.remote());
    let source = identity.source(sides, remote);
    if identity.hold().is_none() || view.get(&source) != Seen::Absent || view.ended(&source) {
        return Ok(false);
    }
    let scope = Scope::new(&sides.kcp, &binding_kind(), &remote.cluster);
    let Found::All(bindings) = view.find(&scope, &Labels::default()) else {
        return Ok(false);
    };
    let (group, resource) = (&*source.kind.group, identity.resources().0);
    let shows = |binding: &Object| shows_all(binding, group, resource);
    if bindings.is_empty() || !bindings.iter().all(|(_, binding)| shows(binding)) {
        return Ok(false);
    }
    if !read(&source, view)? {
        return Ok(false);
    }
    let mut needs = Vec::new();
    let mut shown = true;
    for (key, _) in &bindings {
        match read(key, view) {
            Ok(answered) => shown &= answered,
            Err(mut read) => needs.append(&mut read),
        }
    }
    if needs.is_empty() {
        Ok(shown)
    } else {
        Err(needs)
    }
}

/// Whether an object was read in this pass; false if that failed.
fn read(key: &Key, view: &dyn View) -> Result<bool, Vec<Request>> {
    if view.answered(key) {
        return Ok(true);
    }
    let request = Request::Read { key: key.clone() };
    match view.note(&request) {
        Some(_) => Ok(false),
        None => Err(vec![request]),
    }
}

/// Whether a binding shows every object of a kind: it is not in deletion, and each of its claims on the kind is accepted
/// and applied without a selector. The claims of a binding in deletion end before it does.
fn shows_all(binding: &Object, group: &str, resource: &str) -> bool {
    let claims = |pointer: &str, is_whole: fn(&Value) -> bool| {
        let claims = binding
            .as_value()
            .pointer(pointer)
            .and_then(Value::as_array);
        let mut of_kind = claims.into_iter().flatten().filter(|claim| {
            claim["group"].as_str().unwrap_or_default() == group && claim["resource"] == resource
        });
        let first = of_kind.next();
        first.is_some_and(is_whole) && of_kind.all(is_whole)
    };
    !binding.in_deletion()
        && claims("/spec/permissionClaims", |claim| {
            claim["state"] == "Accepted" && claim["all"] == true
        })
        && claims("/status/appliedPermissionClaims", |claim| {
            claim["all"] == true
        })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[track_caller]
    fn check(spec: &Value, applied: &Value, shown: bool) {
        let binding = json!({"metadata": {"name": "b"}, "spec": {"permissionClaims": spec},
            "status": {"appliedPermissionClaims": applied}});
        let binding = Object::new(binding).unwrap();
        assert_eq!(shows_all(&binding, "", "secrets"), shown, "{binding:?}");
    }

    #[test]
    fn a_claim_shows_everything_once_it_is_accepted_and_applied_without_a_selector() {
        let accepted = json!({"resource": "secrets", "all": true, "state": "Accepted"});
        let applied = json!({"group": "", "resource": "secrets", "all": true});
        check(&json!([accepted]), &json!([applied]), true);
        check(&json!([accepted]), &json!([]), false);
        check(&json!([]), &json!([applied]), false);
        let rejected = json!({"resource": "secrets", "all": true, "state": "Rejected"});
        check(&json!([rejected]), &json!([applied]), false);
        check(&json!([accepted, rejected]), &json!([applied]), false);
        let selected = json!({"resource": "secrets", "state": "Accepted"});
        check(&json!([selected]), &json!([applied]), false);
        check(&json!([accepted]), &json!([{"resource": "secrets"}]), false);
        let other = json!({"group": "example.com", "resource": "secrets", "all": true, "state": "Accepted"});
        check(&json!([other]), &json!([applied]), false);
        let leaving = json!({"metadata": {"name": "b", "deletionTimestamp": "2026-01-01T00:00:00Z"},
            "spec": {"permissionClaims": [accepted]}, "status": {"appliedPermissionClaims": [applied]}});
        assert!(!shows_all(&Object::new(leaving).unwrap(), "", "secrets"));
    }
}
