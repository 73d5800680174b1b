use proptest::prelude::*;
use serde_json::{Value, json};

use super::export::CLAIMS;
use super::lists::OLD_CLAIMS;
use super::*;

fn stored(mut object: Value) -> Value {
    to_stored(&mut object).unwrap();
    object
}

fn old(mut object: Value) -> Value {
    to_old(&mut object).unwrap();
    object
}

#[track_caller]
fn check_both_ways(old_form: &Value, stored_form: &Value) {
    assert_eq!(&stored(old_form.clone()), stored_form);
    assert_eq!(&old(stored_form.clone()), old_form);
}

#[test]
fn an_export_as_agents_write_it_is_the_same_after_the_round_trip() {
    let claims = json!([{"group": "", "resource": "events", "all": true}, {"group": "", "resource": "namespaces", "all": true}]);
    check_both_ways(
        &json!({
            "apiVersion": OLD, "kind": "APIExport", "metadata": {"name": "e"},
            "spec": {
                "latestResourceSchemas": ["v1.zebras.example.com", "v1.apples.example.com", "v2.things.core"],
                "permissionClaims": claims,
            },
        }),
        &json!({
            "apiVersion": STORED, "kind": "APIExport",
            "metadata": {"name": "e", "annotations": {OLD_CLAIMS: claims.to_string()}},
            "spec": {
                "resources": [
                    {"name": "zebras", "group": "example.com", "schema": "v1.zebras.example.com", "storage": {"crd": {}}},
                    {"name": "apples", "group": "example.com", "schema": "v1.apples.example.com", "storage": {"crd": {}}},
                    {"name": "things", "group": "", "schema": "v2.things.core", "storage": {"crd": {}}},
                ],
                "permissionClaims": [
                    {"group": "", "resource": "events", "identityHash": "", "verbs": ["*"]},
                    {"group": "", "resource": "namespaces", "identityHash": "", "verbs": ["*"]},
                ],
            },
        }),
    );
}

#[test]
fn a_claim_that_was_only_written_in_the_stored_version_shows_neither_all_nor_selector() {
    let form = old(json!({
        "apiVersion": STORED, "kind": "APIExport", "metadata": {"name": "e"},
        "spec": {"permissionClaims": [{"group": "", "resource": "secrets", "identityHash": "", "verbs": ["get"]}]},
    }));
    assert_eq!(
        form["spec"]["permissionClaims"],
        json!([{"group": "", "resource": "secrets"}])
    );
    assert_eq!(
        form["metadata"]["annotations"][CLAIMS],
        json!([{"group": "", "resource": "secrets", "identityHash": "", "verbs": ["get"]}])
            .to_string()
    );
}

#[test]
fn a_schema_name_without_a_group_is_refused() {
    for name in ["", "v1", "v1.things"] {
        let mut object = json!({"apiVersion": OLD, "kind": "APIExport", "spec": {"latestResourceSchemas": [name]}});
        assert_eq!(
            to_stored(&mut object),
            Err(ConvertError::SchemaName(name.into()))
        );
    }
}

#[test]
fn an_annotation_that_is_no_list_is_refused_and_no_panic() {
    let mut object =
        json!({"apiVersion": OLD, "kind": "APIExport", "metadata": {"annotations": {CLAIMS: "{"}}});
    assert!(matches!(
        to_stored(&mut object),
        Err(ConvertError::Annotation {
            annotation: CLAIMS,
            ..
        })
    ));
}

#[test]
fn a_binding_that_accepts_all_is_the_same_after_the_round_trip() {
    check_both_ways(
        &json!({
            "apiVersion": OLD, "kind": "APIBinding", "metadata": {"name": "b", "annotations": {"mine": "stays"}},
            "spec": {"permissionClaims": [{"group": "", "resource": "secrets", "all": true, "state": "Accepted"}]},
            "status": {
                "phase": "Bound",
                "exportPermissionClaims": [{"group": "", "resource": "secrets"}],
                "appliedPermissionClaims": [{"group": "", "resource": "secrets", "all": true}],
            },
        }),
        &json!({
            "apiVersion": STORED, "kind": "APIBinding", "metadata": {"name": "b", "annotations": {"mine": "stays"}},
            "spec": {"permissionClaims": [{"group": "", "resource": "secrets", "identityHash": "", "verbs": ["*"], "selector": {"matchAll": true}, "state": "Accepted"}]},
            "status": {
                "phase": "Bound",
                "exportPermissionClaims": [{"group": "", "resource": "secrets", "identityHash": "", "verbs": ["*"]}],
                "appliedPermissionClaims": [{"group": "", "resource": "secrets", "identityHash": "", "verbs": ["*"], "selector": {"matchAll": true}}],
            },
        }),
    );
}

#[test]
fn a_resource_selector_restricts_nothing_and_comes_back_as_written() {
    let claim = json!({"group": "", "resource": "configmaps", "resourceSelector": [{"name": "a", "namespace": "b"}], "state": "Rejected"});
    let form = json!({"apiVersion": OLD, "kind": "APIBinding", "metadata": {"name": "b"}, "spec": {"permissionClaims": [claim]}});
    let kept = stored(form.clone());
    assert_eq!(
        kept["spec"]["permissionClaims"][0]["selector"],
        json!({"matchAll": true})
    );
    assert_eq!(old(kept), form);
}

#[test]
fn what_the_older_version_cannot_say_survives_its_clients() {
    let claim = json!({"group": "", "resource": "secrets", "identityHash": "h", "verbs": ["get", "list"],
        "selector": {"matchLabels": {"a": "b"}}, "state": "Accepted"});
    let form = json!({"apiVersion": STORED, "kind": "APIBinding", "metadata": {"name": "b"}, "spec": {"permissionClaims": [claim]}});
    assert_eq!(stored(old(form.clone())), form);
}

#[test]
fn other_kinds_and_versions_stay_untouched() {
    let object = json!({"apiVersion": OLD, "kind": "APIResourceSchema", "spec": {"latestResourceSchemas": ["x"]}});
    assert_eq!(stored(object.clone()), object);
    assert_eq!(old(object.clone()), object);
}

prop_compose! {
    fn gri()(group in prop_oneof![Just(""), Just("example.com")], resource in "[a-d]", hash in prop_oneof![Just(""), Just("abc")])
        -> (String, String, String) {
        (group.to_owned(), resource, hash.to_owned())
    }
}

/// Claims by distinct resources, each made by the given function.
fn claims_of(
    make: impl Fn(&(String, String, String), u8) -> Value + Clone + 'static,
) -> impl Strategy<Value = Vec<Value>> {
    prop::collection::btree_map(gri(), any::<u8>(), 1..6)
        .prop_map(move |map| map.iter().map(|(gri, n)| make(gri, *n)).collect())
}

fn named(gri: &(String, String, String), old: bool) -> Value {
    let mut claim = json!({"group": gri.0, "resource": gri.1});
    if !old || !gri.2.is_empty() {
        claim["identityHash"] = gri.2.clone().into();
    }
    claim
}

fn old_claim(gri: &(String, String, String), n: u8) -> Value {
    let mut claim = named(gri, true);
    if n.is_multiple_of(2) {
        claim["all"] = true.into();
    } else {
        claim["resourceSelector"] = json!([{"name": format!("n{n}")}]);
    }
    claim
}

fn stored_claim(gri: &(String, String, String), n: u8) -> Value {
    let mut claim = named(gri, false);
    claim["verbs"] =
        [json!(["*"]), json!(["get"]), json!(["get", "list"])][usize::from(n % 3)].clone();
    claim
}

fn accepted(mut claim: Value, n: u8) -> Value {
    claim["state"] = if n.is_multiple_of(3) {
        "Accepted"
    } else {
        "Rejected"
    }
    .into();
    claim
}

fn schema_names() -> impl Strategy<Value = Vec<String>> {
    prop::collection::hash_set("v[1-9]\\.[a-z]{1,3}\\.(core|example\\.com)", 1..8)
        .prop_map(|set| set.into_iter().collect())
}

proptest! {
    #[test]
    fn exports_of_the_older_version_come_back_exactly(names in schema_names(), claims in claims_of(old_claim)) {
        let form = json!({"apiVersion": OLD, "kind": "APIExport", "metadata": {"name": "e"},
            "spec": {"latestResourceSchemas": names, "permissionClaims": claims}});
        prop_assert_eq!(old(stored(form.clone())), form);
    }

    #[test]
    fn exports_of_the_stored_version_lose_nothing_but_gain_the_memory_of_their_claims(
        names in schema_names(), claims in claims_of(stored_claim), virtual_ones in 0usize..3,
    ) {
        let mut resources: Vec<Value> = names.iter().map(|name| {
            let mut parts = name.splitn(3, '.').skip(1);
            let (plural, group) = (parts.next().unwrap(), parts.next().unwrap());
            json!({"name": plural, "group": if group == "core" { "" } else { group }, "schema": name, "storage": {"crd": {}}})
        }).collect();
        resources.extend((0..virtual_ones).map(|n| json!({"name": format!("v{n}"), "group": "g.io", "schema": format!("v1.v{n}.g.io"), "storage": {"virtual": {"identityHash": "x"}}})));
        let form = json!({"apiVersion": STORED, "kind": "APIExport", "metadata": {"name": "e"},
            "spec": {"resources": resources, "permissionClaims": claims}});
        let back = stored(old(form.clone()));
        prop_assert_eq!(&back["spec"], &form["spec"]);
        prop_assert!(back["metadata"]["annotations"].as_object().unwrap().keys().eq([OLD_CLAIMS]));
    }

    #[test]
    fn bindings_of_the_older_version_come_back_exactly(claims in claims_of(|gri, n| accepted(old_claim(gri, n), n))) {
        let form = json!({"apiVersion": OLD, "kind": "APIBinding", "metadata": {"name": "b"}, "spec": {"permissionClaims": claims}});
        prop_assert_eq!(old(stored(form.clone())), form);
    }

    #[test]
    fn bindings_of_the_stored_version_come_back_exactly(claims in claims_of(|gri, n| {
        let mut claim = accepted(stored_claim(gri, n), n);
        claim["selector"] = if n.is_multiple_of(5) { json!({"matchLabels": {"a": format!("{n}")}}) } else { json!({"matchAll": true}) };
        claim
    })) {
        let status: Vec<Value> = claims.iter().map(|c| { let mut c = c.clone(); c.as_object_mut().unwrap().remove("state"); c }).collect();
        let exported: Vec<Value> = status.iter().map(|c| { let mut c = c.clone(); c.as_object_mut().unwrap().remove("selector"); c }).collect();
        let form = json!({"apiVersion": STORED, "kind": "APIBinding", "metadata": {"name": "b"},
            "spec": {"permissionClaims": claims},
            "status": {"exportPermissionClaims": exported, "appliedPermissionClaims": status}});
        prop_assert_eq!(stored(old(form.clone())), form);
    }
}
