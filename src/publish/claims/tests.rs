use serde_json::json;

use super::*;

fn spec(more: Value) -> PublishedResourceSpec {
    let mut spec = more;
    spec["resource"] = json!({"apiGroup": "local.com", "kind": "Thing"});
    serde_json::from_value(spec).unwrap()
}

fn related(more: Value) -> Value {
    let mut related = more;
    related["identifier"] = "one".into();
    related["object"] = json!({"template": {"template": "x"}});
    related
}

/// What is claimed for a spec, `identity@` before those that have one, given what the export offers.
#[track_caller]
fn check_needs(more: Value, own: &[(&str, &str)], wanted: &[&str]) {
    let own = own
        .iter()
        .map(|(resource, group)| GroupResource {
            resource: (*resource).to_owned(),
            group: (*group).to_owned(),
        })
        .collect();
    let needs = Needs::of(&spec(more));
    let mut found: Vec<String> = needs
        .claims(&own)
        .map(|claim| match claim.identity.as_str() {
            "" => claim.to_string(),
            identity => format!("{identity}@{claim}"),
        })
        .collect();
    found.sort();
    assert_eq!(found, wanted);
}

#[test]
fn events_are_always_claimed() {
    check_needs(json!({}), &[], &["events"]);
    check_needs(
        json!({"filter": {"resource": {"matchLabels": {"a": "b"}}}}),
        &[],
        &["events"],
    );
}

#[test]
fn namespaces_are_claimed_for_namespace_filters_and_related_resources() {
    check_needs(
        json!({"filter": {"namespace": {}}}),
        &[],
        &["events", "namespaces"],
    );
    check_needs(
        json!({"related": [related(json!({"origin": "service", "kind": "Secret"}))]}),
        &[],
        &["events", "namespaces", "secrets"],
    );
}

#[test]
fn logical_clusters_are_claimed_for_workspace_paths() {
    check_needs(
        json!({"enableWorkspacePaths": true}),
        &[],
        &["core.kcp.io/logicalclusters", "events"],
    );
}

#[test]
fn related_resources_are_claimed_as_workspaces_know_them() {
    let projection = json!({"group": "kcp.com", "resource": "others"});
    let there = json!({"group": "a.com", "version": "v1", "resource": "ones"});
    let case = |origin: &str, projection: &Value| {
        let mut related = related(there.clone());
        related["origin"] = origin.into();
        related["projection"] = projection.clone();
        json!({"related": [related]})
    };
    let both = ["events", "namespaces"];
    check_needs(
        case("kcp", &projection),
        &[],
        &["a.com/ones", both[0], both[1]],
    );
    check_needs(
        case("service", &projection),
        &[],
        &[both[0], "kcp.com/others", both[1]],
    );
    check_needs(
        case("service", &json!({})),
        &[],
        &["a.com/ones", both[0], both[1]],
    );
    check_needs(
        case("service", &json!({"group": "b.com"})),
        &[],
        &["b.com/ones", both[0], both[1]],
    );
    let old = json!({"related": [related(json!({"origin": "kcp", "kind": "ConfigMap"}))]});
    check_needs(old, &[], &["configmaps", both[0], both[1]]);
}

#[test]
fn identities_are_claimed_along_and_own_resources_are_not_claimed() {
    let one = related(json!({
        "origin": "kcp", "group": "a.com", "version": "v1", "resource": "ones",
        "identityHash": "abc",
    }));
    let spec = json!({"related": [one]});
    check_needs(
        spec.clone(),
        &[],
        &["abc@a.com/ones", "events", "namespaces"],
    );
    check_needs(
        spec.clone(),
        &[("ones", "b.com")],
        &["abc@a.com/ones", "events", "namespaces"],
    );
    check_needs(spec, &[("ones", "a.com")], &["events", "namespaces"]);
}

struct Case {
    existing: Value,
    full: Value,
    wanted: &'static [(&'static str, &'static str, &'static str)],
    list: Value,
    added: &'static [&'static str],
    problems: &'static [&'static str],
}

#[track_caller]
fn check(case: &Case) {
    let wanted = case
        .wanted
        .iter()
        .map(|(group, resource, identity)| Claim::new(group, resource, identity))
        .collect();
    let none = Vec::new();
    let existing = case.existing.as_array().unwrap_or(&none);
    let full = case.full.as_array().unwrap_or(&none);
    let merged = merge(existing, full, &wanted);
    assert_eq!(Value::from(merged.list), case.list);
    let added: Vec<String> = merged.added.iter().map(Claim::to_string).collect();
    assert_eq!(added, case.added);
    let problems: Vec<String> = merged.problems.iter().map(ToString::to_string).collect();
    assert_eq!(problems.len(), case.problems.len(), "{problems:?}");
    for (found, wanted) in problems.iter().zip(case.problems) {
        assert!(found.contains(wanted), "{found} does not say {wanted}");
    }
}

fn all(group: &str, resource: &str) -> Value {
    json!({"group": group, "resource": resource, "all": true})
}

#[test]
fn missing_claims_are_added_in_order_and_foreign_ones_stay() {
    check(&Case {
        existing: json!([all("z.com", "zeds"), all("", "pods")]),
        full: json!([]),
        wanted: &[("", "events", ""), ("a.com", "ones", "abc")],
        list: json!([
            all("", "events"), all("", "pods"),
            {"group": "a.com", "resource": "ones", "all": true, "identityHash": "abc"},
            all("z.com", "zeds"),
        ]),
        added: &["events", "a.com/ones"],
        problems: &[],
    });
}

#[test]
fn a_claim_that_is_there_is_not_added_even_where_the_core_group_is_left_out() {
    let existing = json!([{"resource": "events", "all": true}]);
    check(&Case {
        existing: existing.clone(),
        full: json!([]),
        wanted: &[("", "events", "")],
        list: existing,
        added: &[],
        problems: &[],
    });
}

#[test]
fn a_claim_for_selected_objects_is_left_and_reported_not_doubled() {
    let selected = json!([
        {"group": "", "resource": "events", "resourceSelector": [{"name": "a"}]},
        {"group": "", "resource": "pods", "all": false},
    ]);
    check(&Case {
        existing: selected.clone(),
        full: json!([]),
        wanted: &[("", "events", ""), ("", "pods", "")],
        list: selected,
        added: &[],
        problems: &["claims events for selected", "claims pods for selected"],
    });
}

#[test]
fn a_claim_with_another_identity_is_left_and_reported_not_doubled() {
    let other = json!([{"group": "a.com", "resource": "ones", "all": true, "identityHash": "def"}]);
    check(&Case {
        existing: other.clone(),
        full: json!([]),
        wanted: &[("a.com", "ones", "abc")],
        list: other,
        added: &[],
        problems: &["a.com/ones is claimed with the identity \"def\" and not \"abc\""],
    });
}

#[test]
fn of_two_identities_for_one_resource_the_one_that_is_there_stays_else_one_is_chosen() {
    let there = json!([{"group": "a.com", "resource": "ones", "all": true, "identityHash": "def"}]);
    check(&Case {
        existing: there.clone(),
        full: json!([]),
        wanted: &[("a.com", "ones", "abc"), ("a.com", "ones", "def")],
        list: there,
        added: &[],
        problems: &["not \"abc\""],
    });
    check(&Case {
        existing: json!([]),
        full: json!([]),
        wanted: &[
            ("a.com", "ones", ""),
            ("a.com", "ones", "abc"),
            ("a.com", "ones", "def"),
        ],
        list: json!([{"group": "a.com", "resource": "ones", "all": true, "identityHash": "abc"}]),
        added: &["a.com/ones"],
        problems: &["\"abc\" and not \"\"", "\"abc\" and not \"def\""],
    });
}

#[test]
fn a_claim_of_the_newer_version_suffices_unless_its_verbs_are_few() {
    check(&Case {
        existing: json!([{"group": "", "resource": "events"}, {"group": "", "resource": "pods"}]),
        full: json!([
            {"group": "", "resource": "pods", "verbs": ["get", "list"]},
            {"group": "", "resource": "events", "verbs": ["*"], "defaultSelector": {"matchAll": true}},
        ]),
        wanted: &[("", "events", ""), ("", "pods", "")],
        list: json!([all("", "events"), all("", "pods")]),
        added: &[],
        problems: &["claims pods with the verbs get, list only"],
    });
}
