#![allow(
    clippy::needless_pass_by_value,
    reason = "literals are shorter to pass by value"
)]

use serde_json::{Value, json};

use super::*;

fn placement(spec: Value) -> Placement {
    let mut object = json!({
        "metadata": {"name": "p"},
        "spec": {"resourceSelectors": [{"group": "", "version": "v1", "kind": "Namespace", "name": "n"}]},
    });
    for (field, value) in spec.as_object().unwrap() {
        object["spec"][field] = value.clone();
    }
    serde_json::from_value(object).unwrap()
}

fn scope_of(selector: &ResourceSelectorTerm) -> KindScope {
    match &*selector.kind {
        "Namespace" | "ClusterRole" => KindScope::Cluster,
        "ConfigMap" => KindScope::Namespaced,
        _ => KindScope::Unknown,
    }
}

/// Asserts that there is one problem, with these words; none if there are no words.
fn assert_says(problems: &[String], words: &str) {
    match problems {
        [] => assert_eq!(words, "", "nothing was refused"),
        [problem] => assert!(
            !words.is_empty() && problem.contains(words),
            "{problem:?}, not {words:?}"
        ),
        several => panic!("{several:#?}"),
    }
}

fn required(expressions: Value) -> Value {
    json!({"affinity": {"clusterAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {
        "clusterSelectorTerms": [{"propertySelector": {"matchExpressions": expressions}}],
    }}}})
}

#[test]
fn a_policy_is_refused_for_its_first_wrong_field() {
    let cpu = "resources.kubernetes-fleet.io/available-cpu";
    let of =
        |operator: &str, value: &str| json!({"name": cpu, "operator": operator, "values": [value]});
    let preferred = |preference: Value| {
        json!({"placementType": "PickN", "numberOfClusters": 1, "affinity": {"clusterAffinity": {
            "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1, "preference": preference}],
        }}})
    };
    let fixed = |names: Value| json!({"placementType": "PickFixed", "clusterNames": names});
    let sorter = json!({"propertySorter": {"name": "p", "sortOrder": "Ascending"}});
    for (policy, words) in [
        (json!({}), ""),
        (fixed(json!(["a"])), ""),
        (fixed(json!([])), "cluster names cannot be empty"),
        (
            fixed(json!(["a", "a"])),
            "must be unique for policy type PickFixed",
        ),
        (fixed(json!(["A"])), "cluster name \"A\" is invalid"),
        (
            json!({"numberOfClusters": 1}),
            "number of clusters cannot be set for policy type PickAll",
        ),
        (
            json!({"placementType": "PickN"}),
            "number of clusters must be set",
        ),
        (
            json!({"placementType": "PickN", "numberOfClusters": -1}),
            "cannot be negative",
        ),
        (preferred(sorter.clone()), ""),
        (
            preferred(json!({"propertySelector": {"matchExpressions": []}})),
            "propertySelector is not allowed",
        ),
        (
            json!({"affinity": {"clusterAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {
                "clusterSelectorTerms": [sorter],
            }}}}),
            "propertySorter is not allowed",
        ),
        (required(json!([of("Gt", "1"), of("Lt", "2")])), ""),
        (required(json!([of("Eq", "1000m"), of("Ge", "1")])), ""),
        (
            required(json!([of("Gt", "2"), of("Lt", "2")])),
            "contradict each other",
        ),
        (
            required(json!([of("Eq", "1"), of("Ne", "1000m")])),
            "contradict each other",
        ),
        (
            required(json!([of("Eq", "1"), of("Eq", "2")])),
            "contradict each other",
        ),
        (required(json!([of("Gt", "much")])), "not a valid quantity"),
        (
            required(json!([{"name": cpu, "operator": "Gt", "values": []}])),
            "requires exactly one value",
        ),
        (
            required(
                json!([{"name": "resources.kubernetes-fleet.io/free-cpu", "operator": "Gt", "values": ["1"]}]),
            ),
            "free-cpu",
        ),
        (
            json!({"tolerations": [{"key": "k", "operator": "Exists", "value": "v"}]}),
            "needs to be empty",
        ),
        (
            json!({"tolerations": [{"value": "v"}]}),
            "toleration key cannot be empty",
        ),
        (
            json!({"tolerations": [{"key": "k"}, {"key": "k"}]}),
            "must be unique",
        ),
    ] {
        let problems = check_placement(&placement(json!({"policy": policy})), scope_of);
        assert_says(&problems, words);
    }
}

#[test]
fn selectors_name_kinds_of_the_right_scope() {
    let of =
        |kind: &str| json!({"resourceSelectors": [{"group": "", "version": "v1", "kind": kind}]});
    let check = |kind: &str, namespace: Option<&str>| {
        let mut one = placement(of(kind));
        one.metadata.namespace = namespace.map(str::to_owned);
        check_placement(&one, scope_of)
    };
    assert_says(&check("ClusterRole", None), "");
    assert_says(&check("ConfigMap", None), "or it is not cluster scoped");
    assert_says(&check("Unknown", None), "failed to get GVR of the selector");
    assert_says(&check("ConfigMap", Some("n")), "");
    assert_says(
        &check("Namespace", Some("n")),
        "or it is not namespace scoped",
    );
    let mut long = placement(json!({}));
    long.metadata.name = "a".repeat(64);
    assert_says(
        &check_placement(&long, scope_of),
        "cannot have length exceeding 63",
    );
}

#[test]
fn strategies_fit_their_types() {
    for (strategy, words) in [
        (json!({"rollingUpdate": {"maxSurge": "25%"}}), ""),
        (
            json!({"rollingUpdate": {"maxSurge": -1}}),
            "maxSurge must be greater than or equal to 0",
        ),
        (
            json!({"type": "External", "rollingUpdate": {}}),
            "not valid for External",
        ),
        (
            json!({"applyStrategy": {"serverSideApplyConfig": {"force": true}}}),
            "only valid for ServerSideApply",
        ),
        (
            json!({"applyStrategy": {"type": "ServerSideApply", "serverSideApplyConfig": {}}}),
            "",
        ),
    ] {
        assert_says(
            &check_placement(&placement(json!({"strategy": strategy})), scope_of),
            words,
        );
    }
}

#[test]
fn an_update_keeps_the_type_and_all_tolerations() {
    let with = |tolerations: Value| placement(json!({"policy": {"tolerations": tolerations}}));
    let (k, l) = (json!({"key": "k", "value": "v"}), json!({"key": "l"}));
    let old = with(json!([k]));
    let update = |new: &Placement| check_placement_update(&old, new, scope_of);
    assert_says(&update(&with(json!([l, k]))), "");
    assert_says(
        &update(&with(json!([l]))),
        "only additions to tolerations are allowed",
    );
    assert_says(
        &update(&with(json!([{"key": "k", "value": "w"}]))),
        "only additions to tolerations are allowed",
    );
    let mut gone = with(json!([]));
    gone.metadata.deletion_timestamp = Some("t".into());
    assert_says(&update(&gone), "");
    let none = placement(json!({}));
    let number = placement(json!({"policy": {"placementType": "PickN", "numberOfClusters": 1}}));
    assert_says(
        &check_placement_update(&none, &number, scope_of),
        "placement type is immutable",
    );
    let broken = placement(json!({"policy": {"placementType": "PickN"}}));
    assert!(check_placement_update(&broken, &number, scope_of)[0].contains("already invalid"));
}

fn cluster_override(selectors: &Value, step: &Value) -> ClusterResourceOverride {
    let object = json!({
        "metadata": {"name": "o"},
        "spec": {"clusterResourceSelectors": selectors, "policy": {"overrideRules": [{
            "clusterSelector": {"clusterSelectorTerms": []}, "jsonPatchOverrides": [step],
        }]}},
    });
    serde_json::from_value(object).unwrap()
}

fn namespace(name: &str) -> Value {
    json!({"group": "", "version": "v1", "kind": "Namespace", "name": name})
}

fn good_step() -> Value {
    json!({"op": "add", "path": "/metadata/labels/x", "value": "v"})
}

#[test]
fn paths_of_overrides_stay_away_from_identity_and_status() {
    for (path, words) in [
        ("/metadata/labels/x", ""),
        ("/metadata/annotations", ""),
        ("/spec/replicas", ""),
        ("/statuses", ""),
        ("", "path cannot be empty"),
        ("spec", "path must start with /"),
        ("/", "path cannot contain empty string"),
        ("/spec//x", "path cannot contain empty string"),
        ("/kind", "cannot override typeMeta fields"),
        ("/apiVersion", "cannot override typeMeta fields"),
        ("/status/x", "cannot override status fields"),
        ("/metadata", "cannot override metadata fields"),
        (
            "/metadata/name",
            "cannot override metadata fields except annotations and labels",
        ),
    ] {
        let step = json!({"op": "add", "path": path, "value": "v"});
        let one = cluster_override(&json!([namespace("n")]), &step);
        assert_says(&check_cluster_override(&one, &[]), words);
    }
    let remove = json!({"op": "remove", "path": "/spec/x", "value": 1});
    let one = cluster_override(&json!([namespace("n")]), &remove);
    assert_says(
        &check_cluster_override(&one, &[]),
        "remove operation cannot have value",
    );
}

#[test]
fn a_resource_has_one_override() {
    let of = |selectors: Value| cluster_override(&selectors, &good_step());
    let one = of(json!([namespace("n")]));
    assert_says(
        &check_cluster_override(&one, &[of(json!([namespace("m")]))]),
        "",
    );
    assert_says(
        &check_cluster_override(&one, std::slice::from_ref(&one)),
        "has been selected by both",
    );
    assert_says(
        &check_cluster_override(&of(json!([namespace("n"), namespace("n")])), &[]),
        "must be unique",
    );
    assert_says(
        &check_cluster_override(&of(json!([namespace("")])), &[]),
        "resource name is required",
    );
    let mut labelled = namespace("n");
    labelled["labelSelector"] = json!({});
    assert_says(
        &check_cluster_override(&of(json!([labelled])), &[]),
        "label selector is not supported",
    );
    let many = vec![of(json!([namespace("m")])); 100];
    assert_says(
        &check_cluster_override(&one, &many),
        "at most 100 cluster resources can be created",
    );
    let namespaced: ResourceOverride = serde_json::from_value(json!({
        "metadata": {"name": "r", "namespace": "n"},
        "spec": {"resourceSelectors": [{"group": "", "version": "v1", "kind": "ConfigMap", "name": "c"}],
                 "policy": {"overrideRules": [{"overrideType": "Delete"}]}},
    }))
    .unwrap();
    assert_says(&check_override(&namespaced, &[]), "");
    assert_says(
        &check_override(&namespaced, std::slice::from_ref(&namespaced)),
        "has been selected by both",
    );
}

#[test]
fn rules_of_overrides_select_by_labels() {
    let rule = |rule: Value| {
        let mut one = cluster_override(&json!([namespace("n")]), &good_step());
        one.spec.policy.override_rules = vec![serde_json::from_value(rule).unwrap()];
        check_cluster_override(&one, &[])
    };
    let term = |term: Value| json!({"clusterSelector": {"clusterSelectorTerms": [term]}, "overrideType": "Delete"});
    assert_says(&rule(term(json!({"labelSelector": {}}))), "");
    assert_says(&rule(term(json!({}))), "only labelSelector is supported");
    assert_says(
        &rule(json!({"overrideType": "Delete", "jsonPatchOverrides": [good_step()]})),
        "cannot be set when",
    );
    assert_says(
        &rule(json!({})),
        "cannot be empty when the override type is JSONPatch",
    );
}

#[test]
fn taints_are_labels_and_unique() {
    let check = |taints: Value| {
        let spec = json!({"identity": {"kind": "User", "name": "u"}, "taints": taints});
        check_member(&serde_json::from_value(spec).unwrap())
    };
    let taint =
        |key: &str, value: &str| json!({"key": key, "value": value, "effect": "NoSchedule"});
    assert_says(&check(json!([taint("k", "v"), taint("l", "")])), "");
    assert_says(
        &check(json!([taint("k", "v"), taint("k", "w")])),
        "taints must be unique",
    );
    assert!(!check(json!([taint("-", "v")])).is_empty());
    assert!(!check(json!([taint("k", "not a label")])).is_empty());
}
