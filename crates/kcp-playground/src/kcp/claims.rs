//! The claim labels of an object: a pure function of the claims that the cluster's bindings accept. The caller decides
//! when to write them.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::ids;

/// An accepted claim of a binding in the cluster, for an export that exists.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Accepted {
    /// The cluster and the name of the claiming export.
    pub export_cluster: String,
    pub export: String,
    pub group: String,
    pub resource: String,
    pub identity: String,
    /// The claim in the stored version of a binding.
    pub selector: Value,
}

/// A resource as a claim names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ClaimTarget<'a> {
    pub group: &'a str,
    pub resource: &'a str,
    pub identity: &'a str,
}

/// The accepted claims of a binding (in the stored version), with its export.
pub(crate) fn accepted(binding: &Value, export_cluster: &str) -> Vec<Accepted> {
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

/// The claim labels for an object with these labels of its own.
pub(crate) fn labels<'l>(
    own: impl Fn(&str) -> Option<&'l str>,
    target: ClaimTarget<'_>,
    claims: &[Accepted],
) -> BTreeMap<String, String> {
    let (group, resource) = normalised(target.group, target.resource);
    let mut labels = BTreeMap::new();
    for claim in claims {
        let names_it = normalised(&claim.group, &claim.resource) == (group, resource)
            && claim.identity == target.identity;
        if names_it && selects(&claim.selector, &own) {
            labels.insert(
                ids::claim_label_key(&claim.export_cluster, &claim.export),
                ids::claim_label_value(group, resource, target.identity),
            );
        }
    }
    labels
}

/// Events of both groups are the same objects; claims name the core group.
pub(crate) fn normalised<'a>(group: &'a str, resource: &'a str) -> (&'a str, &'a str) {
    match (group, resource) {
        ("events.k8s.io", "events") => ("", "events"),
        other => other,
    }
}

/// Whether a claim's selector matches an object with these labels. An empty selector matches none.
fn selects<'l>(selector: &Value, labels: &impl Fn(&str) -> Option<&'l str>) -> bool {
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
    pairs.all(|(key, value)| labels(key) == value.as_str()) && terms.all(|term| holds(term, labels))
}

fn holds<'l>(term: &Value, labels: &impl Fn(&str) -> Option<&'l str>) -> bool {
    let key = term["key"].as_str().unwrap_or_default();
    let found = labels(key);
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

    const SECRETS: ClaimTarget<'_> = ClaimTarget {
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

    fn label(own: &Value, target: ClaimTarget<'_>, claims: &[Accepted]) -> Vec<(String, String)> {
        let own = |key: &str| own.get(key).and_then(Value::as_str);
        labels(own, target, claims).into_iter().collect()
    }

    #[track_caller]
    fn check(own: &Value, selector: &Value, claimed: bool) {
        let found = label(own, SECRETS, &claims(selector, "Accepted"));
        assert_eq!(!found.is_empty(), claimed, "{own} by {selector}");
    }

    #[test]
    fn an_accepted_claim_becomes_the_known_label() {
        let claims = claims(&json!({"matchAll": true}), "Accepted");
        assert_eq!(
            label(&json!({"mine": "stays"}), SECRETS, &claims),
            [(
                "claimed.internal.apis.kcp.io/phGj1BkmdNY3LKTrtFc1KGLYTBs8Nt50p8PIU".to_owned(),
                "ctwrJRvMX7cX8wwk40Lz00UjJhYxPWE3TpN1lu".to_owned(),
            )]
        );
    }

    #[test]
    fn a_claim_that_nobody_accepts_is_no_label() {
        let rejected = claims(&json!({"matchAll": true}), "Rejected");
        assert_eq!(label(&json!({}), SECRETS, &rejected), []);
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
        let other = ClaimTarget {
            identity: "h",
            ..SECRETS
        };
        assert_eq!(label(&json!({}), other, &claims), []);
        let other = ClaimTarget {
            resource: "configmaps",
            ..SECRETS
        };
        assert_eq!(label(&json!({}), other, &claims), []);

        claims[0].resource = "events".into();
        let events = ClaimTarget {
            group: "events.k8s.io",
            resource: "events",
            identity: "",
        };
        let found = label(&json!({}), events, &claims);
        assert_eq!(found[0].1, "6wBCe82Znnoj6Q9mzomQQpfSdtDfiATwZW1ePT");
    }
}
