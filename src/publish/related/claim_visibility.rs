//! Whether a missing object of a workspace has ended, or may only be hidden: its deletion was not seen, or may only mean
//! that a claim's selector no longer matches it.
//!
//! kcp shows every object of a permission claim that the workspace has accepted without a selector, once the status of the
//! binding lists the claim as applied. Whoever withdraws a claim changes the binding first; only then are the objects
//! hidden. So the object is read first and the bindings afterwards: if they still show every object of the kind, it was
//! not hidden when it was not found.

use std::sync::Arc;

use serde_json::Value;

use super::identity::Identity;
use crate::publish::rules::ObjectRules;
use crate::publish::types::Origin;
use hawser_sync::{Found, Key, Labels, Request, Scope, Seen, View};
use kube_lang::object::{Gvk, Object};

pub fn binding_kind() -> Arc<Gvk> {
    Arc::new(Gvk::new("apis.kcp.io", "v1alpha1", "APIBinding"))
}

/// Whether an original in a workspace has ended without a deletion event; the error names the reads that are needed
/// first.
pub(super) fn has_ended(
    identity: &Identity,
    rules: &ObjectRules,
    view: &dyn View,
) -> Result<bool, Vec<Request>> {
    let source = identity.source(rules.sides(), rules.remote());
    if identity.hold().is_none() || view.ended(&source) {
        return Ok(false);
    }
    is_certainly_absent(&source, identity.resources().0, rules, view)
}

/// Whether a copy in a workspace that is no longer wanted may only be hidden; the error names the reads that are needed
/// first.
pub(super) fn may_be_hidden(
    identity: &Identity,
    rules: &ObjectRules,
    view: &dyn View,
) -> Result<bool, Vec<Request>> {
    let target = identity.target(rules.sides(), rules.remote());
    // Our own deletion ended it.
    if identity.origin == Origin::Kcp
        || view.get(&target) != Seen::Absent
        || view.before(&target).is_some()
    {
        return Ok(false);
    }
    let gone = is_certainly_absent(&target, identity.resources().1, rules, view)?;
    Ok(!gone)
}

/// Whether an object of a workspace is absent and every object of its kind is shown.
fn is_certainly_absent(
    key: &Key,
    resource: &str,
    rules: &ObjectRules,
    view: &dyn View,
) -> Result<bool, Vec<Request>> {
    if view.get(key) != Seen::Absent {
        return Ok(false);
    }
    let scope = Scope::new(&rules.sides().kcp, &binding_kind(), &rules.remote().cluster);
    let Found::All(bindings) = view.find(&scope, &Labels::default()) else {
        return Ok(false);
    };
    let all = bindings.iter().map(|(_, binding)| &**binding);
    if !show_all(all, &key.kind.group, resource) {
        return Ok(false);
    }
    if !read(key, view)? {
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

/// Whether there are bindings, and each shows every object of a kind.
pub fn show_all<'b>(
    bindings: impl IntoIterator<Item = &'b Object>,
    group: &str,
    resource: &str,
) -> bool {
    let mut bindings = bindings.into_iter().peekable();
    bindings.peek().is_some() && bindings.all(|binding| shows_all(binding, group, resource))
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
