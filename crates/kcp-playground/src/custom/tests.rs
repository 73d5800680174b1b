use serde_json::{Value, json};

use super::*;
use crate::plain::fixture::{Api, CLUSTER, CRDS, Cluster, NOW};
use crate::status::Status;

const NAME: &str = "widgets.example.com";
const WIDGETS: Api = Api("example.com/v1", "widgets");
const WIDGETS_BETA: Api = Api("example.com/v1beta1", "widgets");

fn version(name: &str, storage: bool) -> Value {
    json!({
        "name": name, "served": true, "storage": storage,
        "subresources": {"status": {}},
        "selectableFields": [{"jsonPath": ".spec.color"}],
        "schema": {"openAPIV3Schema": {"type": "object", "properties": {
            "spec": {"type": "object", "properties": {
                "color": {"type": "string", "default": "red", "maxLength": 5},
            }},
            "status": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
        }}},
    })
}

fn crd(plural: &str, kind: &str) -> Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("{plural}.example.com"), "uid": format!("uid-of-{plural}")},
        "spec": {
            "group": "example.com", "scope": "Namespaced",
            "names": {"plural": plural, "kind": kind, "shortNames": [format!("{}s", &plural[..1])]},
            "versions": [version("v1beta1", false), version("v1", true)],
        },
    })
}

fn widget(name: &str, rest: &Value) -> Value {
    let mut widget = json!({
        "apiVersion": "example.com/v1", "kind": "Widget",
        "metadata": {"name": name, "namespace": "default"},
    });
    for (field, value) in rest.as_object().unwrap() {
        widget[field] = value.clone();
    }
    widget
}

#[track_caller]
fn condition(crd: &Value, kind: &str) -> (String, String) {
    let conditions = crd["status"]["conditions"].as_array().unwrap();
    let found = conditions.iter().find(|c| c["type"] == kind).unwrap();
    assert_eq!(found["lastTransitionTime"], NOW);
    let text = |field: &str| found[field].as_str().unwrap().to_owned();
    (text("status"), text("reason"))
}

fn state(status: &str, reason: &str) -> (String, String) {
    (status.to_owned(), reason.to_owned())
}

#[track_caller]
fn errors(result: Result<Value, Status>) -> Vec<String> {
    let status = result.unwrap_err();
    assert_eq!(status.code, 422);
    let causes = status.details.unwrap().causes;
    causes
        .iter()
        .map(|cause| format!("{}: {}", cause.field, cause.message))
        .collect()
}

#[test]
fn a_definition_is_established_by_the_answer_to_its_creation() {
    let cluster = Cluster::new();
    let stored = cluster.put(CRDS, crd("widgets", "Widget")).unwrap();
    assert_eq!(
        condition(&stored, "NamesAccepted"),
        state("True", "NoConflicts")
    );
    assert_eq!(
        condition(&stored, "Established"),
        state("True", "InitialNamesAccepted")
    );
    assert_eq!(stored["status"]["storedVersions"], json!(["v1"]));
    assert_eq!(
        stored["status"]["acceptedNames"],
        json!({
            "plural": "widgets", "singular": "widget", "kind": "Widget",
            "listKind": "WidgetList", "shortNames": ["ws"],
        })
    );
    assert_eq!(stored["spec"]["conversion"]["strategy"], "None");
    assert_eq!(stored["metadata"].get("finalizers"), None);
}

#[test]
fn an_established_definition_is_served_in_all_its_versions() {
    let cluster = Cluster::new();
    cluster.put(CRDS, crd("widgets", "Widget")).unwrap();
    let catalog = cluster.catalog();
    let (_, versions) = catalog
        .groups()
        .find(|(g, _)| &***g == "example.com")
        .unwrap();
    let order: Vec<&str> = versions.iter().map(|version| &*version.name).collect();
    assert_eq!(order, ["v1", "v1beta1"]);
    let (stable, beta) = (cluster.resource(WIDGETS), cluster.resource(WIDGETS_BETA));
    assert_eq!(stable.table, beta.table);
    assert_eq!(&*beta.storage_version, "v1");
    assert!(stable.has_status && stable.namespaced);
    assert_eq!(&*stable.selectable_fields[0], "spec.color");
    assert_eq!(stable.incarnation, beta.incarnation);
}

#[test]
fn custom_objects_are_pruned_defaulted_and_validated() {
    let cluster = Cluster::new();
    cluster.put(CRDS, crd("widgets", "Widget")).unwrap();
    let mut sent = widget("w", &json!({"spec": {"odd": 1}}));
    sent["metadata"]["odd"] = true.into();
    sent["metadata"]["ownerReferences"] =
        json!([{"apiVersion": "v1", "kind": "A", "name": "a", "uid": "u", "odd": 1}]);
    let stored = cluster.put(WIDGETS, sent.clone()).unwrap();
    assert_eq!(stored["spec"], json!({"color": "red"}));
    let resource = cluster.resource(WIDGETS);
    let schema = resource.schema.as_ref().unwrap();
    let mut pruned = schema.prune(&mut sent);
    pruned.sort();
    assert_eq!(
        pruned,
        [
            "metadata.odd",
            "metadata.ownerReferences[0].odd",
            "spec.odd"
        ]
    );
    assert_eq!(
        errors(cluster.put(WIDGETS, widget("x", &json!({"spec": {"color": "orange"}})))),
        ["spec.color: Too long: may not be more than 5 bytes"]
    );
}

#[test]
fn a_schema_is_known_by_its_content() {
    let cluster = Cluster::new();
    let stamp = |change: &str| {
        let mut crd = crd("widgets", "Widget");
        crd["spec"]["versions"][1]["schema"]["openAPIV3Schema"]["description"] = change.into();
        cluster.put(CRDS, crd).unwrap();
        let resource = cluster.resource(WIDGETS);
        let stamp = resource.schema.as_ref().unwrap().stamp();
        assert_ne!(stamp, 0);
        (stamp, resource.incarnation)
    };
    let (first, incarnation) = stamp("a");
    let (second, unchanged) = stamp("b");
    assert_ne!(first, second);
    assert_eq!(
        incarnation, unchanged,
        "watches go on over a change of schema"
    );
    assert_eq!(stamp("a").0, first);
}

#[test]
fn names_that_are_taken_are_not_given_again_until_they_are_free() {
    let cluster = Cluster::new();
    cluster.put(CRDS, crd("widgets", "Widget")).unwrap();
    let second = cluster.put(CRDS, crd("gadgets", "Widget")).unwrap();
    assert_eq!(
        condition(&second, "NamesAccepted"),
        state("False", "ListKindConflict")
    );
    assert_eq!(
        condition(&second, "Established"),
        state("False", "NotAccepted")
    );
    let served = |plural: &str| {
        cluster
            .catalog()
            .find("example.com", "v1", plural)
            .is_some()
    };
    assert!(served("widgets") && !served("gadgets"));

    let mut short = crd("wheels", "Wheel");
    short["spec"]["names"]["shortNames"] = json!(["ws"]);
    let third = cluster.put(CRDS, short).unwrap();
    assert_eq!(
        condition(&third, "NamesAccepted"),
        state("False", "ShortNamesConflict")
    );

    cluster.delete(CRDS, "", NAME).unwrap();
    assert!(!served("widgets") && served("gadgets") && served("wheels"));
    let second = cluster.get(CRDS, "", "gadgets.example.com").unwrap();
    assert_eq!(
        condition(&second, "Established"),
        state("True", "InitialNamesAccepted")
    );
}

#[test]
fn an_established_definition_keeps_its_names_when_it_asks_for_taken_ones() {
    let cluster = Cluster::new();
    cluster.put(CRDS, crd("widgets", "Widget")).unwrap();
    cluster.put(CRDS, crd("gadgets", "Gadget")).unwrap();
    let mut greedy = crd("gadgets", "Gadget");
    greedy["spec"]["names"]["singular"] = "widget".into();
    let stored = cluster.put(CRDS, greedy).unwrap();
    assert_eq!(
        condition(&stored, "NamesAccepted"),
        state("False", "SingularConflict")
    );
    assert_eq!(condition(&stored, "Established").0, "True");
    assert_eq!(stored["status"]["acceptedNames"]["singular"], "gadget");
    let gadgets = cluster.resource(Api("example.com/v1", "gadgets"));
    assert_eq!(&*gadgets.singular, "gadget");
}

#[test]
fn a_definition_goes_with_its_objects() {
    let cluster = Cluster::new();
    cluster.put(CRDS, crd("widgets", "Widget")).unwrap();
    cluster.put(WIDGETS, widget("w", &json!({}))).unwrap();
    let table = cluster.resource(WIDGETS).table.clone();
    cluster.delete(CRDS, "", NAME).unwrap();
    assert_eq!(cluster.get(CRDS, "", NAME), None);
    let left = cluster.store.snapshot(&Range::in_cluster(&table, CLUSTER));
    assert!(left.items.is_empty());
}

#[test]
fn an_object_that_is_held_back_holds_its_definition() {
    let cluster = Cluster::new();
    cluster.put(CRDS, crd("widgets", "Widget")).unwrap();
    let mut held = widget("held", &json!({}));
    held["metadata"]["finalizers"] = json!(["example.com/hold"]);
    held["metadata"]["generation"] = 1.into();
    cluster.put(WIDGETS, held).unwrap();
    cluster.put(WIDGETS, widget("free", &json!({}))).unwrap();
    cluster.delete(CRDS, "", NAME).unwrap();

    let crd = cluster.get(CRDS, "", NAME).unwrap();
    assert_eq!(
        condition(&crd, "Terminating"),
        state("True", "InstanceDeletionInProgress")
    );
    assert_eq!(cluster.get(WIDGETS, "default", "free"), None);
    let held = cluster.get(WIDGETS, "default", "held").unwrap();
    assert_eq!(held["metadata"]["deletionTimestamp"], NOW);
    assert_eq!(held["metadata"]["generation"], 2);
    let late = cluster.put(WIDGETS, widget("late", &json!({})));
    assert_eq!(late.unwrap_err().code, 403);

    cluster.release(WIDGETS, "default", "held");
    assert_eq!(cluster.get(CRDS, "", NAME), None);
}

#[test]
fn what_objects_may_be_stored_in_cannot_be_taken_away() {
    let cluster = Cluster::new();
    cluster.put(CRDS, crd("widgets", "Widget")).unwrap();
    let mut moved = crd("widgets", "Widget");
    moved["spec"]["versions"][0]["storage"] = true.into();
    moved["spec"]["versions"][1]["storage"] = false.into();
    let stored = cluster.put(CRDS, moved).unwrap();
    assert_eq!(stored["status"]["storedVersions"], json!(["v1", "v1beta1"]));
    let mut without = crd("widgets", "Widget");
    without["spec"]["versions"] = json!([version("v1beta1", true)]);
    let found = errors(cluster.put(CRDS, without));
    assert!(
        found[0].starts_with(
            "status.storedVersions[0]: Invalid value: \"v1\": missing from spec.versions"
        ),
        "{found:?}"
    );
}

#[test]
fn a_definition_that_is_wrong_or_changes_its_nature_is_refused() {
    let cluster = Cluster::new();
    let mut wrong = crd("widgets", "Widget");
    wrong["spec"]["versions"][0]["storage"] = true.into();
    assert!(errors(cluster.put(CRDS, wrong))[0].starts_with("spec.versions"));
    cluster.put(CRDS, crd("widgets", "Widget")).unwrap();
    let mut other = crd("widgets", "Widget");
    other["spec"]["scope"] = "Cluster".into();
    assert_eq!(
        errors(cluster.put(CRDS, other)),
        ["spec.scope: Invalid value: \"Cluster\": field is immutable"]
    );
    let mut status = cluster.get(CRDS, "", NAME).unwrap();
    status["status"]["storedVersions"] = json!(["v0"]);
    assert_eq!(errors(cluster.write(CRDS, "status", status)).len(), 2);
}

#[test]
fn what_only_a_webhook_could_convert_is_refused() {
    let cluster = Cluster::new();
    let mut hooked = crd("widgets", "Widget");
    hooked["spec"]["conversion"] = json!({"strategy": "Webhook", "webhook": {
        "conversionReviewVersions": ["v1"], "clientConfig": {"url": "https://example.com/convert"},
    }});
    cluster.put(CRDS, hooked).unwrap();
    assert!(cluster.put(WIDGETS, widget("w", &json!({}))).is_ok());
    let status = cluster.put(WIDGETS_BETA, widget("x", &json!({})));
    assert_eq!(status.unwrap_err().code, 500);
}

#[test]
fn a_definition_made_anew_is_another_incarnation() {
    let cluster = Cluster::new();
    cluster.put(CRDS, crd("widgets", "Widget")).unwrap();
    let first = cluster.resource(WIDGETS).incarnation;
    cluster.delete(CRDS, "", NAME).unwrap();
    let mut again = crd("widgets", "Widget");
    again["metadata"]["uid"] = "another".into();
    cluster.put(CRDS, again).unwrap();
    assert_ne!(cluster.resource(WIDGETS).incarnation, first);
}

/// A write of one of a few definitions that want each other's names, or its deletion.
fn steps() -> impl proptest::strategy::Strategy<Value = Vec<(usize, Option<(usize, usize)>)>> {
    let names = proptest::option::of((0..3usize, 0..3usize));
    proptest::collection::vec((0..3usize, names), 1..30)
}

proptest::proptest! {
    #![proptest_config(proptest::test_runner::Config::with_cases(48))]
    #[test]
    fn no_name_is_ever_given_twice(steps in steps()) {
        let cluster = Cluster::new();
        for (index, names) in steps {
            let plural = ["as", "bs", "cs"][index];
            let name = format!("{plural}.example.com");
            let old = cluster.get(CRDS, "", &name);
            match names {
                Some((kind, singular)) => {
                    let mut crd = crd(plural, ["A", "B", "C"][kind]);
                    crd["spec"]["names"]["singular"] = ["x", "y", "as"][singular].into();
                    // An established definition may refuse another kind; that is an answer, too.
                    let _ = cluster.put(CRDS, crd);
                }
                None if old.is_some() => cluster.delete(CRDS, "", &name).unwrap(),
                None => {}
            }
            let mut kinds = Vec::new();
            let mut resources = Vec::new();
            for plural in ["as", "bs", "cs"] {
                let Some(crd) = cluster.get(CRDS, "", &format!("{plural}.example.com")) else {
                    continue;
                };
                let accepted = &crd["status"]["acceptedNames"];
                let text = |field: &str| accepted[field].as_str().unwrap_or_default().to_owned();
                kinds.extend([text("kind"), text("listKind")]);
                let mut own = vec![text("plural"), text("singular")];
                own.dedup();
                resources.extend(own);
                let given = condition(&crd, "NamesAccepted").0 == "True";
                let asks = &crd["spec"]["names"]["kind"];
                proptest::prop_assert!(!given || *asks == accepted["kind"]);
            }
            for names in [&mut kinds, &mut resources] {
                names.retain(|name| !name.is_empty());
                let all = names.len();
                names.sort();
                names.dedup();
                proptest::prop_assert_eq!(names.len(), all);
            }
        }
    }
}
