use proptest::collection::{btree_set, vec};
use proptest::prelude::*;
use proptest::sample::{Index, select};
use serde_json::json;

use super::*;
use crate::publish::types::PublishedResourceSpec;

fn empty() -> Value {
    json!({
        "apiVersion": "apis.kcp.io/v1alpha1", "kind": "APIExport",
        "metadata": {"name": "things", "resourceVersion": "7"},
    })
}

fn needs(more: Value) -> Needs {
    let mut spec = more;
    spec["resource"] = json!({"apiGroup": "local.com", "kind": "Thing"});
    let spec: PublishedResourceSpec = serde_json::from_value(spec).unwrap();
    Needs::of(&spec)
}

fn with(export: Value, spec: Value) -> Value {
    let mut export = export;
    export["spec"] = spec;
    export
}

fn all(resource: &str) -> Value {
    json!({"group": "", "resource": resource, "all": true})
}

#[test]
fn an_empty_export_gets_schemas_claims_and_mark_in_one_object() {
    let (plain, secrets) = (
        needs(json!({})),
        needs(json!({"related": [{
            "identifier": "s", "origin": "service", "kind": "Secret",
            "object": {"template": {"template": "x"}},
        }]})),
    );
    let published = [
        ExportedResource {
            schema: "v1.zeds.a.org",
            needs: &plain,
        },
        ExportedResource {
            schema: "v1.alphas.a.org",
            needs: &secrets,
        },
    ];
    let merge = merge(&empty(), "agent", &published, &[]).unwrap();
    assert_eq!(
        merge.object.as_ref().unwrap(),
        &json!({
            "apiVersion": "apis.kcp.io/v1alpha1", "kind": "APIExport",
            "metadata": {
                "name": "things", "resourceVersion": "7",
                "annotations": {"syncagent.kcp.io/agent-name": "agent"},
            },
            "spec": {
                "latestResourceSchemas": ["v1.alphas.a.org", "v1.zeds.a.org"],
                "permissionClaims": [all("events"), all("namespaces"), all("secrets")],
            },
        })
    );
    let said: Vec<(&str, String)> = merge
        .notices()
        .into_iter()
        .map(|(_, reason, message)| (reason, message))
        .collect();
    assert_eq!(
        said,
        [
            (
                "AddingResourceSchemas",
                "Adding schemas: v1.alphas.a.org, v1.zeds.a.org.".to_owned()
            ),
            (
                "AddingPermissionClaims",
                "Adding permission claims: events, namespaces, secrets.".to_owned()
            ),
        ]
    );
}

#[test]
fn an_export_that_has_everything_is_not_written_again() {
    let plain = needs(json!({}));
    let published = [ExportedResource {
        schema: "v1.zeds.a.org",
        needs: &plain,
    }];
    let once = merge(&empty(), "agent", &published, &[])
        .unwrap()
        .object
        .unwrap();
    let twice = merge(&once, "agent", &published, &[]).unwrap();
    assert_eq!(twice, Merge::default());
    assert!(twice.notices().is_empty());
}

#[test]
fn every_other_field_and_annotation_is_sent_back_as_it_came() {
    let mut export = with(
        empty(),
        json!({
            "identity": {"secretRef": {"namespace": "n", "name": "s"}},
            "maximalPermissionPolicy": {"local": {}},
            "latestResourceSchemas": ["v1.zeds.a.org", "v1.others.b.org"],
            "permissionClaims": [{"group": "", "resource": "pods", "resourceSelector": [{"name": "x"}]}],
        }),
    );
    export["metadata"]["annotations"] = json!({
        "apis.v1alpha2.kcp.io/resource-schemas": "[1]", "mine": "2",
        "syncagent.kcp.io/agent-name": "before",
    });
    export["status"] = json!({"identityHash": "abc"});
    let plain = needs(json!({}));
    let published = [ExportedResource {
        schema: "v2.zeds.a.org",
        needs: &plain,
    }];
    let merged = merge(&export, "agent", &published, &[]).unwrap();

    let mut expected = export;
    expected["metadata"]["annotations"]["syncagent.kcp.io/agent-name"] = "agent".into();
    expected["spec"]["latestResourceSchemas"] = json!(["v1.others.b.org", "v2.zeds.a.org"]);
    expected["spec"]["permissionClaims"] = json!([
        all("events"),
        {"group": "", "resource": "pods", "resourceSelector": [{"name": "x"}]},
    ]);
    assert_eq!(merged.object.as_ref(), Some(&expected));
    let removed = (
        "Warning",
        "RemovingResourceSchemas",
        "Replacing schemas: v1.zeds.a.org.".to_owned(),
    );
    assert!(merged.notices().contains(&removed));
}

#[test]
fn what_the_export_offers_itself_is_not_claimed_whoever_put_it_there() {
    let related = needs(json!({"related": [{
        "identifier": "s", "origin": "kcp", "group": "b.org", "version": "v1", "resource": "others",
        "identityHash": "abc", "object": {"template": {"template": "x"}},
    }]}));
    let published = [ExportedResource {
        schema: "v1.zeds.a.org",
        needs: &related,
    }];
    let claims = |export: &Value| {
        merge(export, "agent", &published, &[])
            .unwrap()
            .added_claims
            .len()
    };
    let offers = with(
        empty(),
        json!({"latestResourceSchemas": ["v1.others.b.org"]}),
    );
    assert_eq!(claims(&empty()), 3);
    assert_eq!(claims(&offers), 2, "events and namespaces");
}

#[test]
fn with_nothing_published_events_are_claimed_and_nothing_else() {
    let merged = merge(&empty(), "agent", &[], &[]).unwrap();
    assert_eq!(
        merged.object.unwrap()["spec"],
        json!({"permissionClaims": [all("events")]})
    );
}

#[test]
fn problems_are_told_to_those_whom_they_concern() {
    let export = with(
        empty(),
        json!({
            "latestResourceSchemas": ["v1.zeds.a.org"],
            "permissionClaims": [{"group": "", "resource": "namespaces", "resourceSelector": [{"name": "x"}]}],
        }),
    );
    let (plain, filtered) = (
        needs(json!({})),
        needs(json!({"filter": {"namespace": {}}})),
    );
    let kept = ExportedResource {
        schema: "v1.zeds.a.org",
        needs: &plain,
    };
    let twice = ExportedResource {
        schema: "v2.zeds.a.org",
        needs: &plain,
    };
    let claims = ExportedResource {
        schema: "v1.ones.a.org",
        needs: &filtered,
    };
    let published = [kept, twice, claims];
    let problems = merge(&export, "agent", &published, &[]).unwrap().problems;
    let told = |one| problems.iter().filter(|p| p.concerns(one)).count();
    assert_eq!([told(kept), told(twice), told(claims)], [0, 1, 1]);
}

#[test]
fn what_is_no_export_is_told_and_not_written() {
    for (spec, field) in [
        (json!("x"), "spec is not an object"),
        (
            json!({"permissionClaims": {}}),
            "permissionClaims is not a list",
        ),
        (
            json!({"latestResourceSchemas": 1}),
            "latestResourceSchemas is not a list",
        ),
    ] {
        let error = merge(&with(empty(), spec), "agent", &[], &[])
            .unwrap_err()
            .to_string();
        assert!(error.contains(field), "{error}");
    }
}

fn schema() -> impl Strategy<Value = String> {
    (
        select(vec!["v1", "v2", "v3"]),
        select(vec!["as", "bs", "cs"]),
        select(vec!["x.org", "y.org", "core"]),
    )
        .prop_map(|(version, plural, group)| format!("{version}.{plural}.{group}"))
}

fn claim() -> impl Strategy<Value = Value> {
    let how = select(vec![
        json!({"all": true}),
        json!({"resourceSelector": [{"name": "x"}]}),
        json!({"all": true, "identityHash": "abc"}),
        json!({}),
    ]);
    (
        select(vec!["as", "bs", "events", "namespaces"]),
        select(vec!["", "x.org"]),
        how,
    )
        .prop_map(|(resource, group, mut claim)| {
            claim["group"] = group.into();
            claim["resource"] = resource.into();
            claim
        })
}

fn some_needs() -> impl Strategy<Value = Needs> {
    let related = (
        select(vec!["as", "bs", "cs"]),
        select(vec!["", "abc", "def"]),
    )
        .prop_map(|(resource, identity)| {
            json!({
                "identifier": "i", "origin": "kcp", "group": "x.org", "version": "v1",
                "resource": resource, "identityHash": identity,
                "object": {"template": {"template": "x"}},
            })
        });
    (vec(related, 0..3), any::<bool>()).prop_map(|(related, paths)| {
        needs(json!({"related": related, "enableWorkspacePaths": paths}))
    })
}

/// One entry a key, as kcp keeps its lists.
fn unique(list: Vec<Value>, key: impl Fn(&Value) -> String) -> Vec<Value> {
    let mut seen = BTreeSet::new();
    list.into_iter()
        .filter(|entry| seen.insert(key(entry)))
        .collect()
}

proptest! {
    #[test]
    fn merging_is_idempotent_ordered_by_nothing_and_takes_nothing_away(
        schemas in btree_set(schema(), 0..5),
        claims in vec(claim(), 0..6),
        ours in vec((schema(), some_needs()), 0..5),
        rotate in any::<Index>(),
    ) {
        let key = |schema: &Value| schema.as_str().unwrap().split_once('.').unwrap().1.to_owned();
        let schemas = unique(schemas.into_iter().map(Value::from).collect(), key);
        let claims = unique(claims, |claim| format!("{}/{}", claim["group"], claim["resource"]));
        let export = with(empty(), json!({"latestResourceSchemas": schemas, "permissionClaims": claims}));
        let mut published: Vec<ExportedResource<'_>> =
            ours.iter().map(|(schema, needs)| ExportedResource { schema, needs }).collect();
        let merged = merge(&export, "agent", &published, &[]).unwrap();

        if !published.is_empty() {
            let by = rotate.index(published.len());
            published.rotate_left(by);
        }
        prop_assert_eq!(&merge(&export, "agent", &published, &[]).unwrap(), &merged);

        let after = merged.object.unwrap();
        prop_assert_eq!(merge(&after, "agent", &published, &[]).unwrap().object, None);

        let empty = Vec::new();
        let list = |field: &str| after["spec"][field].as_array().unwrap_or(&empty).clone();
        let (listed, claimed) = (list("latestResourceSchemas"), list("permissionClaims"));
        let newer: BTreeSet<String> = ours.iter().map(|(schema, _)| key(&schema.as_str().into())).collect();
        for schema in &schemas {
            prop_assert!(listed.contains(schema) || newer.contains(&key(schema)), "{} is gone", schema);
        }
        for claim in &claims {
            let kept = claimed.iter().any(|other| {
                ["group", "resource", "identityHash", "resourceSelector"].iter().all(|f| other.get(*f) == claim.get(*f))
            });
            prop_assert!(kept, "{} is gone", claim);
        }
        let keys: BTreeSet<String> = claimed.iter().map(|c| format!("{}/{}", c["group"], c["resource"])).collect();
        prop_assert_eq!(keys.len(), claimed.len(), "kcp refuses two claims of one resource");
        let keys: BTreeSet<String> = listed.iter().map(key).collect();
        prop_assert_eq!(keys.len(), listed.len(), "kcp refuses two schemas of one resource");
    }
}
