#![allow(
    clippy::needless_pass_by_value,
    reason = "literals are shorter to pass by value"
)]

use std::sync::Arc;

use super::*;
use crate::fixtures::{binding, member};
use crate::types::binding::BindingState;
use crate::types::overrides::ClusterResourceOverrideSnapshot;
use crate::types::placement::Placement;

fn snapshot(name: &str, sub: Option<&str>, resources: Value) -> ResourceSnapshot {
    let mut object = json!({
        "metadata": {"name": name, "labels": {names::RESOURCE_INDEX: "0"}, "annotations": {}},
        "spec": {"selectedResources": resources},
    });
    let annotations = &mut object["metadata"]["annotations"];
    match sub {
        Some(sub) => annotations[names::SNAPSHOT_SUBINDEX] = sub.into(),
        None => annotations[names::NUMBER_OF_SNAPSHOTS] = "2".into(),
    }
    serde_json::from_value(object).unwrap()
}

fn config_map(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": "app"}})
}

fn envelope(kind: &str, data: Value) -> Value {
    let mut envelope = json!({
        "apiVersion": "placement.kubernetes-fleet.io/v1beta1", "kind": kind,
        "metadata": {"name": "e"}, "data": data,
    });
    if kind != "ClusterResourceEnvelope" {
        envelope["metadata"]["namespace"] = "app".into();
    }
    if kind == "ConfigMap" {
        envelope["apiVersion"] = "v1".into();
        envelope["metadata"]["annotations"] = json!({names::ENVELOPE_CONFIG_MAP: "true"});
    }
    envelope
}

fn works(
    namespace: Option<&str>,
    snapshots: &[ResourceSnapshot],
    overrides: &Overrides<'_>,
) -> Result<Vec<Value>, WorksError> {
    works_beside(&[], namespace, snapshots, overrides)
}

/// The same beside Works that are there.
fn works_beside(
    there: &[&WorkOutline],
    namespace: Option<&str>,
    snapshots: &[ResourceSnapshot],
    overrides: &Overrides<'_>,
) -> Result<Vec<Value>, WorksError> {
    let placement = json!({"metadata": {"name": "p", "namespace": namespace}, "spec": {"resourceSelectors": []}});
    let placement: Placement = serde_json::from_value(placement).unwrap();
    let mut binding = binding("m", BindingState::Bound, "p-0");
    "p-0-snapshot".clone_into(&mut binding.spec.resource_snapshot_name);
    generate(&WorksRequest {
        placement: &placement.metadata,
        spec: &placement.spec,
        binding: &binding,
        cluster: &member("m", &json!({})),
        snapshots,
        overrides,
        works: there,
        scope_of: &|_| KindScope::Unknown,
    })
}

fn named(works: &[Value]) -> Vec<&str> {
    works
        .iter()
        .map(|work| work["metadata"]["name"].as_str().unwrap())
        .collect()
}

#[test]
fn each_part_of_a_snapshot_and_each_envelope_is_a_work() {
    let role = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": "r"}});
    let snapshots = [
        snapshot(
            "p-0-0",
            Some("0"),
            json!([envelope("ClusterResourceEnvelope", json!({"r": role}))]),
        ),
        snapshot("p-0-snapshot", None, json!([config_map("c")])),
    ];
    let none = Overrides::default();
    let made = works(None, &snapshots, &none).unwrap();
    let envelope_name = names::envelope_work("p", EnvelopeType::ClusterResourceEnvelope, "", "e");
    assert_eq!(named(&made), ["p-work", &envelope_name, "p-0"]);
    assert_eq!(made[0]["metadata"]["namespace"], "fleet-member-m");
    // A Work that no agent has seen can be deleted.
    assert!(made[0]["metadata"]["finalizers"].is_null());
    assert_eq!(
        made[0]["spec"]["workload"]["manifests"],
        json!([config_map("c")])
    );
    assert_eq!(made[1]["spec"]["workload"]["manifests"], json!([role]));
    assert_eq!(
        made[1]["metadata"]["labels"][names::ENVELOPE_TYPE],
        "ClusterResourceEnvelope"
    );
    assert_eq!(
        made[2]["spec"]["workload"]["manifests"],
        json!([]),
        "an empty Work stays"
    );
    assert_eq!(
        named(&works(Some("app"), &snapshots, &none).unwrap())[2],
        "app.p-0"
    );
    let half = works(None, &snapshots[1..], &none).unwrap_err();
    assert!(matches!(
        half,
        WorksError::Incomplete {
            found: 1,
            wanted: 2,
            ..
        }
    ));
    let lost = works(None, &snapshots[..1], &none).unwrap_err().to_string();
    assert_eq!(lost, "master resource snapshot p-0-snapshot is not found");
}

#[test]
fn an_envelope_holds_what_fits_its_scope() {
    let text = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c, namespace: app}\n";
    let other = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c", "namespace": "other"}});
    let clusterwide = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "n"}});
    let nowhere = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}});
    // The hub may not serve a kind.
    let custom = json!({"apiVersion": "e.com/v1", "kind": "Thing", "metadata": {"name": "t"}});
    let applied_work = json!({"apiVersion": "placement.kubernetes-fleet.io/v1beta1", "kind": "AppliedWork", "metadata": {"name": "w"}});
    let scope_of = |kind: &Gvk| match &*kind.kind {
        "ConfigMap" => KindScope::Namespaced,
        "Namespace" => KindScope::Cluster,
        _ => KindScope::Unknown,
    };
    for (kind, entry, problem) in [
        ("ConfigMap", json!(text), ""),
        ("ConfigMap", json!(clusterwide.to_string()), ""),
        (
            "ConfigMap",
            json!(other.to_string()),
            "must be in namespace app",
        ),
        (
            "ConfigMap",
            json!(nowhere.to_string()),
            "must be in namespace app",
        ),
        ("ConfigMap", json!(custom.to_string()), ""),
        (
            "ConfigMap",
            json!("no object"),
            "write one object with apiVersion and kind",
        ),
        ("ConfigMap", json!("{"), "entry \"k\""),
        (
            "ConfigMap",
            json!(format!("a: &a x\nb: [{}]", "*a, ".repeat(1_000))),
            "this is no valid YAML",
        ),
        (
            "ConfigMap",
            json!(applied_work.to_string()),
            "objects of the fleet itself are not placed",
        ),
        (
            "ConfigMap",
            json!("a: 1\nb: *hunter2"),
            "entry \"k\": line 2, column 4: this is no valid YAML",
        ),
        ("ResourceEnvelope", config_map("c"), ""),
        (
            "ResourceEnvelope",
            other.clone(),
            "must be namespaced, in namespace app",
        ),
        (
            "ResourceEnvelope",
            clusterwide.clone(),
            "must be namespaced, in namespace app",
        ),
        (
            "ResourceEnvelope",
            json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "n", "namespace": "app"}}),
            "the object is cluster-scoped, in namespace \"app\"",
        ),
        ("ClusterResourceEnvelope", clusterwide.clone(), ""),
        ("ClusterResourceEnvelope", custom.clone(), ""),
        ("ClusterResourceEnvelope", other, "must be cluster-scoped"),
        ("ClusterResourceEnvelope", nowhere, "must be cluster-scoped"),
    ] {
        let envelope = envelope(kind, json!({"k": entry}));
        let found = unpack(
            &envelope,
            envelope_type(&envelope).unwrap(),
            false,
            &scope_of,
        );
        match found {
            Ok(objects) => assert!(problem.is_empty() && objects.len() == 1, "{kind} {problem}"),
            Err(error) => {
                let said = error.to_string();
                assert!(!problem.is_empty() && said.contains(problem), "{said}");
                assert!(!said.contains("hunter2"), "{said}");
            }
        }
    }
    assert_eq!(envelope_type(&config_map("c")), None);
    for (object, is_fit) in [
        (clusterwide.to_string(), false),
        (custom.to_string(), false),
        (text.to_owned(), true),
    ] {
        let envelope = envelope("ConfigMap", json!({"k": object}));
        let found = unpack(&envelope, EnvelopeType::ConfigMap, true, &scope_of);
        assert_eq!(found.is_ok(), is_fit, "{object}");
    }
}

#[test]
fn overrides_reach_into_envelopes() {
    let snapshot_of = |spec: Value| -> Arc<ClusterResourceOverrideSnapshot> {
        let object = json!({
            "metadata": {"name": "o-0", "labels": {names::IS_LATEST: "true"}},
            "spec": {"overrideHash": "", "overrideSpec": spec},
        });
        Arc::new(serde_json::from_value(object).unwrap())
    };
    let delete = json!({"overrideRules": [
        {"clusterSelector": {"clusterSelectorTerms": []}, "overrideType": "Delete"},
    ]});
    let all = [snapshot_of(json!({
        "clusterResourceSelectors": [{"group": "", "version": "v1", "kind": "Namespace", "name": "app"}], "policy": delete,
    }))];
    let envelope = envelope("ResourceEnvelope", json!({"k": config_map("c")}));
    let resources = [ResourceIdentifier::of(&envelope)];
    let placement = Metadata {
        name: "p".into(),
        ..Metadata::default()
    };
    let overrides = Overrides::of_placement(&placement, &resources, &all, &[]);
    let snapshots = [
        snapshot("p-0-snapshot", None, json!([envelope])),
        snapshot("p-0-0", Some("0"), json!([])),
    ];
    let made = works(None, &snapshots, &overrides).unwrap();
    assert_eq!(made[0]["spec"]["workload"]["manifests"], json!([]));
}

#[test]
fn works_are_written_when_their_marks_differ() {
    let snapshots = [
        snapshot("p-0-snapshot", None, json!([config_map("c")])),
        snapshot("p-0-0", Some("0"), json!([])),
    ];
    let wanted = works(None, &snapshots, &Overrides::default()).unwrap();
    assert!(!plan(&wanted, wanted.clone()).changes());
    let mut changed = wanted.clone();
    changed[0]["metadata"]["annotations"][names::PARENT_SNAPSHOT] = "p-1-snapshot".into();
    changed.pop();
    let plan = plan(&wanted, changed);
    assert_eq!(
        (named(&plan.update), plan.delete),
        (vec!["p-work"], vec!["p-0".to_owned()])
    );
    assert!(plan.create.is_empty());
}

#[test]
fn an_envelope_keeps_the_name_of_its_work_and_has_no_second_one() {
    let entry = json!({"k": config_map("c").to_string()});
    let snapshots = [
        snapshot("p-0-snapshot", None, json!([envelope("ConfigMap", entry)])),
        snapshot("p-0-0", Some("0"), json!([])),
    ];
    let named_work = |name: &str, parent: &str| -> WorkOutline {
        let labels = json!({
            names::PARENT_BINDING: parent, names::ENVELOPE_TYPE: "ConfigMap",
            names::ENVELOPE_NAME: "e", names::ENVELOPE_NAMESPACE: "app",
        });
        serde_json::from_value(json!({"metadata": {"name": name, "labels": labels}, "spec": {}}))
            .unwrap()
    };
    let (random, second) = (
        named_work("p-configmap-4f", "b-m"),
        named_work("second", "b-m"),
    );
    let left = named_work("left", "gone");
    let made = |there: &[&WorkOutline]| {
        let made = works_beside(there, None, &snapshots, &Overrides::default());
        made.map(|made| named(&made)[0].to_owned())
    };
    assert_eq!(made(&[&random]).unwrap(), "p-configmap-4f");
    assert_eq!(made(&[&left, &random]).unwrap(), "p-configmap-4f");
    assert_eq!(made(&[&left]).unwrap(), "left");
    let error = made(&[&random, &second]).unwrap_err();
    assert!(matches!(error, WorksError::Duplicates { .. }), "{error}");
    assert!(
        error.to_string().contains("p-configmap-4f, second"),
        "{error}"
    );
    let mut ending = second.clone();
    ending.metadata.deletion_timestamp = Some("2026-01-01T12:00:00Z".to_owned());
    assert_eq!(made(&[&random, &ending]).unwrap(), "p-configmap-4f");
}
