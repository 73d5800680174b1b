#![allow(
    clippy::needless_pass_by_value,
    reason = "literals are shorter to pass by value"
)]

use serde_json::json;

use super::*;
use crate::fixtures::member;

fn cluster_override(name: &str, spec: Value) -> Arc<ClusterResourceOverrideSnapshot> {
    let snapshot = json!({
        "metadata": {"name": name, "labels": {names::IS_LATEST: "true"}},
        "spec": {"overrideHash": "", "overrideSpec": spec},
    });
    Arc::new(serde_json::from_value(snapshot).unwrap())
}

fn namespaced_override(namespace: &str, name: &str, spec: Value) -> Arc<ResourceOverrideSnapshot> {
    let snapshot = json!({
        "metadata": {"name": name, "namespace": namespace, "labels": {names::IS_LATEST: "true"}},
        "spec": {"overrideHash": "", "overrideSpec": spec},
    });
    Arc::new(serde_json::from_value(snapshot).unwrap())
}

/// The policy with one step for all clusters.
fn step(op: &str, path: &str, value: Value) -> Value {
    json!({"overrideRules": [{
        "clusterSelector": {"clusterSelectorTerms": []},
        "jsonPatchOverrides": [{"op": op, "path": path, "value": value}],
    }]})
}

fn selector(kind: &str, name: &str) -> Value {
    json!({"group": "", "version": "v1", "kind": kind, "name": name})
}

fn config_map() -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c", "namespace": "app", "labels": {}},
           "data": {"k": "v"}})
}

fn namespace() -> Value {
    json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "app", "labels": {}}})
}

fn metadata(namespace: Option<&str>) -> Metadata {
    Metadata {
        name: "p".to_owned(),
        namespace: namespace.map(str::to_owned),
        ..Metadata::default()
    }
}

/// What becomes of the ConfigMap on member `m` by one override of the namespace.
fn overridden(policy: Value) -> Result<Option<Value>, OverrideError> {
    let all = [cluster_override(
        "o",
        json!({"clusterResourceSelectors": [selector("Namespace", "app")], "policy": policy}),
    )];
    let resources = [ResourceIdentifier::of(&config_map())];
    let overrides = Overrides::of_placement(&metadata(None), &resources, &all, &[]);
    overrides.apply(config_map(), &member("m", &json!({"region": "east"})))
}

#[test]
fn an_override_applies_while_its_latest_snapshot_is_replaced() {
    let snapshot = |index: u64, latest: &str| {
        let spec = json!({"clusterResourceSelectors": [selector("Namespace", "app")],
            "policy": step("replace", "/data/k", json!(index.to_string()))});
        let labels = json!({names::IS_LATEST: latest, names::PARENT_OVERRIDE: "o",
            names::OVERRIDE_INDEX: index.to_string()});
        let snapshot = json!({
            "metadata": {"name": format!("o-{index}"), "labels": labels},
            "spec": {"overrideHash": "", "overrideSpec": spec},
        });
        Arc::new(serde_json::from_value::<ClusterResourceOverrideSnapshot>(snapshot).unwrap())
    };
    let resources = [ResourceIdentifier::of(&config_map())];
    let value = |all: &[Arc<ClusterResourceOverrideSnapshot>]| {
        let overrides = Overrides::of_placement(&metadata(None), &resources, all, &[]);
        let object = overrides.apply(config_map(), &member("m", &json!({})));
        object.unwrap().unwrap()["data"]["k"].clone()
    };
    let (old, retired) = (snapshot(9, "false"), snapshot(10, "false"));
    assert_eq!(value(&[retired.clone(), old.clone()]), "10");
    assert_eq!(value(&[old.clone(), retired, snapshot(11, "true")]), "11");
    assert_eq!(value(&[old, snapshot(8, "true")]), "8");
}

#[test]
fn a8_overrides_of_namespaces_come_last() {
    let namespaced = json!({
        "resourceSelectors": [selector("ConfigMap", "c")], "policy": step("replace", "/data/k", json!("ro")),
    });
    let clusterwide = |path, value| json!({"clusterResourceSelectors": [selector("Namespace", "app")], "policy": step("add", path, value)});
    let cluster = [
        cluster_override("z", clusterwide("/data", json!({"k": "cro"}))),
        cluster_override("a", clusterwide("/metadata/labels/x", json!("1"))),
    ];
    let of_namespace = [namespaced_override("app", "r", namespaced)];
    let resources = [namespace(), config_map()].map(|one| ResourceIdentifier::of(&one));
    let overrides = Overrides::of_placement(&metadata(None), &resources, &cluster, &of_namespace);
    let m = member("m", &json!({}));
    let names = overrides.of_cluster(&m).unwrap().names();
    assert_eq!(names.cluster, ["a", "z"]);
    assert_eq!(
        names.namespaced[0],
        NamespacedName {
            name: "r".into(),
            namespace: "app".into()
        }
    );
    let changed = overrides.apply(config_map(), &m).unwrap().unwrap();
    assert_eq!(
        (&changed["data"]["k"], &changed["metadata"]["labels"]["x"]),
        (&json!("ro"), &json!("1"))
    );
    let changed = overrides.apply(namespace(), &m).unwrap().unwrap();
    assert_eq!(changed["metadata"]["labels"], json!({"x": "1"}));
}

#[test]
fn values_name_the_cluster_and_its_labels() {
    let value = json!({"${MEMBER-CLUSTER-NAME}": ["in ${MEMBER-CLUSTER-LABEL-KEY-region}/${MEMBER-CLUSTER-LABEL-KEY-region}", 1]});
    let changed = overridden(step("add", "/data/k", value)).unwrap().unwrap();
    assert_eq!(changed["data"]["k"], json!({"m": ["in east/east", 1]}));
    let unknown = overridden(step(
        "add",
        "/data/k",
        json!("${MEMBER-CLUSTER-LABEL-KEY-zone}"),
    ));
    assert_eq!(
        unknown.unwrap_err().to_string(),
        "override o: cluster m has no label zone, which a value uses"
    );
    let open = overridden(step(
        "add",
        "/data/k",
        json!("${MEMBER-CLUSTER-LABEL-KEY-zone"),
    ));
    assert!(matches!(
        open.unwrap_err(),
        OverrideError::Unterminated { .. }
    ));
    let other_case = overridden(step("add", "/data/k", json!("${member-cluster-name}"))).unwrap();
    assert_eq!(other_case.unwrap()["data"]["k"], "${member-cluster-name}");
}

#[test]
fn rules_are_for_the_clusters_that_they_select() {
    let rule = |selector: Value| {
        let mut rule = json!({"overrideType": "Delete"});
        if !selector.is_null() {
            rule["clusterSelector"] = selector;
        }
        overridden(json!({"overrideRules": [rule]}))
            .unwrap()
            .is_none()
    };
    let term = |region: &str| json!({"clusterSelectorTerms": [{"labelSelector": {"matchLabels": {"region": region}}}]});
    assert!(!rule(Value::Null), "no selector selects no cluster");
    assert!(rule(json!({"clusterSelectorTerms": []})));
    assert!(rule(term("east")) && !rule(term("west")));
}

#[test]
fn a_step_that_does_not_apply_fails_for_the_cluster() {
    let error = overridden(step("add", "/spec/replicas", json!(1))).unwrap_err();
    assert_eq!(
        error.to_string(),
        "override o: there is nothing at path \"/spec/replicas\"; add the parent first"
    );
}

#[test]
fn an_override_leaves_labels_and_annotations_that_can_be_written() {
    for (path, value, is_fit) in [
        ("/metadata/labels", json!(5), false),
        ("/metadata/annotations", json!({"a": {}}), false),
        ("/metadata/labels", json!({"a": "b"}), true),
    ] {
        let result = overridden(step("add", path, value));
        assert_eq!(result.is_ok(), is_fit, "{path} {result:?}");
    }
}

#[test]
fn overrides_concern_the_placement_that_they_name() {
    let chosen = |reference: Value, latest: &str, of: Option<&str>| {
        let mut snapshot = namespaced_override(
            "app",
            "r",
            json!({
                "resourceSelectors": [selector("ConfigMap", "c")], "policy": step("add", "/data/k", json!("v")),
            }),
        );
        let one = Arc::get_mut(&mut snapshot).unwrap();
        one.spec.override_spec.placement = serde_json::from_value(reference).unwrap();
        one.metadata
            .labels
            .insert(names::IS_LATEST.into(), latest.into());
        let resources = [ResourceIdentifier::of(&config_map())];
        !Overrides::of_placement(&metadata(of), &resources, &[], &[snapshot])
            .names()
            .namespaced
            .is_empty()
    };
    let app = Some("app");
    assert!(chosen(json!(null), "true", None) && chosen(json!(null), "true", app));
    assert!(
        !chosen(json!(null), "false", None),
        "only the latest snapshot counts"
    );
    assert!(!chosen(json!({"name": "q"}), "true", None));
    assert!(
        chosen(json!({"name": "p"}), "true", None) && chosen(json!({"name": "p"}), "true", app)
    );
    let namespaced = json!({"name": "p", "scope": "Namespaced"});
    assert!(!chosen(namespaced.clone(), "true", None) && chosen(namespaced.clone(), "true", app));
    assert!(!chosen(namespaced, "true", Some("other")));
}
