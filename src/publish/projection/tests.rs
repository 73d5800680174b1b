use serde_json::{Value, json};

use super::*;
use crate::publish::schema;

fn crontab(versions: &Value) -> Crd {
    let schema = json!({"openAPIV3Schema": {"type": "object", "properties": {"spec": {"type": "object", "properties": {
        "cronSpec": {"type": "string"}, "image": {"type": "string"}, "replicas": {"type": "integer"}}}}}});
    let versions: Vec<Value> = versions
        .as_array()
        .unwrap()
        .iter()
        .map(|version| {
            let mut version = version.clone();
            version["schema"] = schema.clone();
            version
        })
        .collect();
    let crd = json!({
        "metadata": {"name": "crontabs.example.com", "generation": 1},
        "spec": {
            "group": "example.com",
            "names": {"plural": "crontabs", "singular": "crontab", "shortNames": ["ct"], "kind": "CronTab", "listKind": "CronTabList"},
            "scope": "Namespaced",
            "versions": versions,
        },
    });
    Crd::from_json(crd.to_string().as_bytes()).unwrap()
}

fn one_version() -> Crd {
    crontab(&json!([{"name": "v1", "served": true, "storage": true}]))
}

fn two_versions() -> Crd {
    crontab(&json!([
        {"name": "v1", "served": true, "storage": false},
        {"name": "v2", "served": true, "storage": true},
    ]))
}

fn project_with(
    crd: &Crd,
    resource: &Value,
    projection: &Value,
) -> Result<Projected, ProjectionError> {
    let mut spec = json!({"resource": {"apiGroup": "example.com", "kind": "CronTab"}});
    for (key, value) in resource.as_object().unwrap() {
        spec["resource"][key] = value.clone();
    }
    if !projection.is_null() {
        spec["projection"] = projection.clone();
    }
    project(crd, &serde_json::from_value(spec).unwrap())
}

#[track_caller]
fn refused(crd: &Crd, resource: &Value, projection: &Value) -> ProjectionError {
    project_with(crd, resource, projection).unwrap_err()
}

#[test]
fn every_refusal_names_the_field_to_look_at() {
    #[track_caller]
    fn check(spec: &Value, field: &str) {
        let mut spec = spec.clone();
        spec["resource"]["apiGroup"] = "example.com".into();
        spec["resource"]["kind"] = "CronTab".into();
        let spec: PublishedResourceSpec = serde_json::from_value(spec).unwrap();
        let error = project(&two_versions(), &spec).unwrap_err();
        assert_eq!(error.field(&spec), field, "{error}");
    }
    check(
        &json!({"resource": {"version": "v1", "versions": ["v1"]}}),
        "spec.resource.version",
    );
    check(
        &json!({"resource": {"version": "v9"}}),
        "spec.resource.version",
    );
    check(
        &json!({"resource": {"versions": ["v9"]}}),
        "spec.resource.versions",
    );
    check(
        &json!({"projection": {"version": "v9"}}),
        "spec.projection.version",
    );
    check(
        &json!({"projection": {"version": "v9", "versions": {"v1": "v3"}}}),
        "spec.projection.version",
    );
    check(
        &json!({"projection": {"versions": {"v1": "v2"}}}),
        "spec.projection.versions",
    );
}

#[test]
fn without_a_projection_the_type_stays_what_it_is() {
    let projected = project_with(&one_version(), &json!({}), &Value::Null).unwrap();
    assert_eq!(projected.local, Gvk::new("example.com", "v1", "CronTab"));
    assert_eq!(projected.remote, projected.local);
    assert_eq!(
        schema::name(&projected.crd.spec).unwrap(),
        "v0595d221.crontabs.example.com"
    );
}

#[test]
fn everything_that_consumers_see_can_be_renamed() {
    let projected = project_with(
        &one_version(),
        &json!({}),
        &json!({"group": "kcp.io", "versions": {"v1": "v6"}, "scope": "Cluster", "kind": "Thing", "categories": ["all"], "shortNames": []}),
    )
    .unwrap();
    let spec = &projected.crd.spec;
    assert_eq!(projected.remote, Gvk::new("kcp.io", "v6", "Thing"));
    assert_eq!(projected.local, Gvk::new("example.com", "v1", "CronTab"));
    assert_eq!(projected.crd.metadata.name, "things.kcp.io");
    assert_eq!(spec.scope, "Cluster");
    assert_eq!(
        (spec.names.list_kind.as_str(), spec.names.singular.as_str()),
        ("ThingList", "thing")
    );
    assert_eq!(spec.names.categories, ["all"]);
    assert!(spec.names.short_names.is_empty(), "an empty list removes");
}

/// The values are those of a published vector; the CRD is the one-version CronTab above.
#[test]
fn a_projected_type_has_the_schema_name_that_the_original_gives_it() {
    let projected = project_with(
        &one_version(),
        &json!({}),
        &json!({"version": "v6", "scope": "Cluster", "kind": "CronusTabulatus", "plural": "cronustabulati", "shortNames": ["cront"]}),
    )
    .unwrap();
    assert_eq!(
        schema::name(&projected.crd.spec).unwrap(),
        "va01fa070.cronustabulati.example.com"
    );
}

#[test]
fn where_the_stored_version_is_not_published_the_last_served_one_takes_its_part() {
    let projected =
        project_with(&two_versions(), &json!({"versions": ["v1"]}), &Value::Null).unwrap();
    assert_eq!(projected.remote.version, "v1");
    assert_eq!(
        projected.local.version, "v2",
        "copies are written in the version that the CRD stores"
    );
    assert_eq!(
        schema::name(&projected.crd.spec).unwrap(),
        "v0595d221.crontabs.example.com"
    );
}

#[test]
fn renamed_versions_are_sorted_and_others_keep_their_order() {
    let crd = two_versions();
    let order = |projection: Value| {
        let projected = project_with(&crd, &json!({}), &projection).unwrap();
        names(&projected.crd.spec.versions)
    };
    assert_eq!(order(json!({"versions": {"v1": "v3"}})), "v2, v3");
    assert_eq!(order(json!({"versions": {"v2": "v1beta1"}})), "v1beta1, v1");
    assert_eq!(order(json!({"group": "g"})), "v1, v2");
}

#[test]
fn what_cannot_be_published_is_refused_with_what_to_change() {
    let two = two_versions();
    assert_eq!(
        refused(
            &two,
            &json!({"version": "v1", "versions": ["v1"]}),
            &Value::Null
        ),
        ProjectionError::VersionAndVersions
    );
    assert_eq!(
        refused(&two, &json!({"versions": ["v9"]}), &Value::Null).to_string(),
        "none of the versions in spec.resource exists: the CRD has v1, v2"
    );
    assert_eq!(
        refused(&two, &json!({}), &json!({"version": "v3"})).to_string(),
        "spec.projection.version renames one version, but v1, v2 are published: use spec.projection.versions"
    );
    assert_eq!(
        refused(&two, &json!({}), &json!({"versions": {"v1": "v2"}})),
        ProjectionError::DuplicateVersion {
            name: "v2".to_owned()
        }
    );
    let unserved = crontab(&json!([
        {"name": "v1", "served": false, "storage": false},
        {"name": "v2", "served": true, "storage": true},
    ]));
    assert_eq!(
        refused(&unserved, &json!({"versions": ["v1"]}), &Value::Null),
        ProjectionError::NothingServed {
            selected: "v1".to_owned()
        }
    );
}
