//! Which claim labels an object carries. Pure: what the cluster's bindings accept comes in, labels go
//! out; the object's write decides when.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::ids;

/// A claim that a binding of the cluster accepts, for an export that exists.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Accepted {
    /// Where the claiming export lives, and its name.
    pub export_cluster: String,
    pub export: String,
    pub group: String,
    pub resource: String,
    pub identity: String,
    /// As the stored version of a binding has it.
    pub selector: Value,
}

/// A resource as a claim names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Target<'a> {
    pub group: &'a str,
    pub resource: &'a str,
    pub identity: &'a str,
}

/// The accepted claims of a binding (in the stored version) on behalf of its export.
pub fn accepted(binding: &Value, export_cluster: &str) -> Vec<Accepted> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let export = text(&binding["spec"]["reference"]["export"]["name"]);
    let claims = binding["spec"]["permissionClaims"].as_array();
    let claims = claims.into_iter().flatten();
    claims
        .filter(|claim| claim["state"] == "Accepted")
        .map(|claim| Accepted {
            export_cluster: export_cluster.to_owned(),
            export: export.clone(),
            group: text(&claim["group"]),
            resource: text(&claim["resource"]),
            identity: text(&claim["identityHash"]),
            selector: claim["selector"].clone(),
        })
        .collect()
}

/// Brings the claim labels of an object in step; other labels stay. Says whether anything changed.
pub fn label(object: &mut Value, target: Target<'_>, claims: &[Accepted]) -> bool {
    let old = object["metadata"]["labels"].as_object().cloned();
    let old = old.unwrap_or_default();
    let (group, resource) = normalised(target.group, target.resource);
    let mut new: Map<String, Value> = old
        .iter()
        .filter(|(key, _)| !key.starts_with(ids::CLAIM_LABEL_PREFIX))
        .map(|(key, value)| (key.clone(), value.clone()))
        .collect();
    let own: BTreeMap<&str, &str> = new
        .iter()
        .filter_map(|(key, value)| Some((key.as_str(), value.as_str()?)))
        .collect();
    let mut claimed = Vec::new();
    for claim in claims {
        let names_it = normalised(&claim.group, &claim.resource) == (group, resource)
            && claim.identity == target.identity;
        if names_it && selects(&claim.selector, &own) {
            claimed.push((
                ids::claim_label_key(&claim.export_cluster, &claim.export),
                ids::claim_label_value(group, resource, target.identity),
            ));
        }
    }
    for (key, value) in claimed {
        new.insert(key, value.into());
    }
    if new == old {
        return false;
    }
    if let Some(metadata) = object["metadata"].as_object_mut() {
        if new.is_empty() {
            metadata.remove("labels");
        } else {
            metadata.insert("labels".into(), Value::Object(new));
        }
    }
    true
}

/// Events of either group are the same objects, known to claims by the core one.
fn normalised<'a>(group: &'a str, resource: &'a str) -> (&'a str, &'a str) {
    match (group, resource) {
        ("events.k8s.io", "events") => ("", "events"),
        other => other,
    }
}

/// Whether a claim's selector covers an object with these labels. One that says nothing covers none.
fn selects(selector: &Value, labels: &BTreeMap<&str, &str>) -> bool {
    if selector["matchAll"] == true {
        return true;
    }
    let pairs = selector["matchLabels"].as_object();
    let terms = selector["matchExpressions"].as_array();
    if pairs.is_none_or(Map::is_empty) && terms.is_none_or(Vec::is_empty) {
        return false;
    }
    let mut pairs = pairs.into_iter().flatten();
    let mut terms = terms.into_iter().flatten();
    pairs.all(|(key, value)| labels.get(key.as_str()).copied() == value.as_str())
        && terms.all(|term| holds(term, labels))
}

fn holds(term: &Value, labels: &BTreeMap<&str, &str>) -> bool {
    let key = term["key"].as_str().unwrap_or_default();
    let found = labels.get(key).copied();
    let listed = || {
        let mut values = term["values"].as_array().into_iter().flatten();
        found.is_some_and(|found| values.any(|value| value == found))
    };
    match term["operator"].as_str() {
        Some("Exists") => found.is_some(),
        Some("DoesNotExist") => found.is_none(),
        Some("In") => listed(),
        Some("NotIn") => !listed(),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const SECRETS: Target<'_> = Target {
        group: "",
        resource: "secrets",
        identity: "",
    };

    fn claims(selector: &Value, state: &str) -> Vec<Accepted> {
        let binding = json!({"spec": {"reference": {"export": {"name": "my-export"}}, "permissionClaims": [
            {"group": "", "resource": "secrets", "identityHash": "", "verbs": ["*"], "selector": selector, "state": state},
        ]}});
        accepted(&binding, "abcd1234")
    }

    #[track_caller]
    fn check(labels: &Value, selector: &Value, claimed: bool) {
        let mut object = json!({"metadata": {"labels": labels}});
        label(&mut object, SECRETS, &claims(selector, "Accepted"));
        let found = object["metadata"]["labels"]
            .as_object()
            .into_iter()
            .flatten()
            .any(|(key, _)| key.starts_with(ids::CLAIM_LABEL_PREFIX));
        assert_eq!(found, claimed, "{object} by {selector}");
    }

    #[test]
    fn an_accepted_claim_becomes_the_known_label_and_a_second_time_changes_nothing() {
        let mut object = json!({"metadata": {"labels": {"mine": "stays"}}});
        let claims = claims(&json!({"matchAll": true}), "Accepted");
        assert!(label(&mut object, SECRETS, &claims));
        assert_eq!(
            object["metadata"]["labels"],
            json!({
                "mine": "stays",
                "claimed.internal.apis.kcp.io/phGj1BkmdNY3LKTrtFc1KGLYTBs8Nt50p8PIU": "ctwrJRvMX7cX8wwk40Lz00UjJhYxPWE3TpN1lu",
            })
        );
        assert!(!label(&mut object, SECRETS, &claims));
    }

    #[test]
    fn labels_of_claims_that_nobody_accepts_are_taken_off() {
        let mut object = json!({"metadata": {"labels": {"claimed.internal.apis.kcp.io/x": "y"}}});
        let rejected = claims(&json!({"matchAll": true}), "Rejected");
        assert!(label(&mut object, SECRETS, &rejected));
        assert_eq!(object, json!({"metadata": {}}));
    }

    #[test]
    fn a_selector_narrows_a_claim() {
        let stage = |operator: &str| json!({"matchExpressions": [{"key": "stage", "operator": operator, "values": ["a", "b"]}]});
        check(
            &json!({"app": "x"}),
            &json!({"matchLabels": {"app": "x"}}),
            true,
        );
        check(
            &json!({"app": "y"}),
            &json!({"matchLabels": {"app": "x"}}),
            false,
        );
        check(&json!({"stage": "a"}), &stage("In"), true);
        check(&json!({"stage": "c"}), &stage("In"), false);
        check(&json!({}), &stage("NotIn"), true);
        check(&json!({"stage": "b"}), &stage("NotIn"), false);
        check(&json!({"stage": "c"}), &stage("Exists"), true);
        check(&json!({"stage": "c"}), &stage("DoesNotExist"), false);
        check(&json!({}), &stage("Nonsense"), false);
        check(&json!({}), &json!({}), false);
    }

    #[test]
    fn a_claim_is_for_one_resource_of_one_identity_and_events_are_one_resource() {
        let mut claims = claims(&json!({"matchAll": true}), "Accepted");
        let mut object = json!({"metadata": {}});
        let other = Target {
            identity: "h",
            ..SECRETS
        };
        assert!(!label(&mut object, other, &claims));
        let other = Target {
            resource: "configmaps",
            ..SECRETS
        };
        assert!(!label(&mut object, other, &claims));

        claims[0].resource = "events".into();
        let events = Target {
            group: "events.k8s.io",
            resource: "events",
            identity: "",
        };
        assert!(label(&mut object, events, &claims));
        let values: Vec<_> = object["metadata"]["labels"]
            .as_object()
            .unwrap()
            .values()
            .collect();
        assert_eq!(values, ["6wBCe82Znnoj6Q9mzomQQpfSdtDfiATwZW1ePT"]);
    }
}
