#![allow(
    clippy::needless_pass_by_value,
    reason = "literals are shorter to pass by value"
)]

use serde_json::json;

use super::*;

struct World(Vec<Value>);

impl Hub for World {
    fn scope(&self, kind: &Gvk) -> KindScope {
        match &*kind.kind {
            "Namespace" | "ClusterRole" => KindScope::Cluster,
            "ConfigMap" | "Secret" | "Endpoints" | "Service" | "Pod" => KindScope::Namespaced,
            _ => KindScope::Unknown,
        }
    }

    fn objects(&self, kind: &Gvk, namespace: Option<&str>) -> Option<Vec<Arc<Object>>> {
        let objects = self.0.iter().filter(|one| {
            one["apiVersion"] == kind.api_version()
                && one["kind"] == *kind.kind
                && namespace.is_none_or(|namespace| one["metadata"]["namespace"] == *namespace)
        });
        let objects = objects.map(|one| {
            let read = match one["metadata"]["name"].as_str() {
                Some("deep") => Object::fragment(one.clone()),
                _ => Object::new(one.clone()),
            };
            Arc::new(read.unwrap())
        });
        (kind.kind != "Secret").then(|| objects.collect())
    }

    fn namespaced_kinds(&self) -> Vec<Gvk> {
        ["ConfigMap", "Service", "Endpoints", "Pod"]
            .map(|kind| Gvk::new("", "v1", kind))
            .into()
    }
}

fn object(kind: &str, name: &str) -> Value {
    let api_version = if kind == "ClusterRole" {
        "rbac.authorization.k8s.io/v1"
    } else {
        "v1"
    };
    let mut object =
        json!({"apiVersion": api_version, "kind": kind, "metadata": {"name": name, "uid": "u"}});
    if !matches!(kind, "Namespace" | "ClusterRole") {
        object["metadata"]["namespace"] = "app".into();
    }
    object
}

fn world() -> World {
    let mut labelled = object("Namespace", "app");
    labelled["metadata"]["labels"] = json!({"team": "a"});
    let mut all = vec![
        labelled,
        object("Namespace", "kube-system"),
        object("Namespace", "empty"),
    ];
    all.extend(["c", "d"].map(|name| object("ConfigMap", name)));
    all.extend([
        object("ClusterRole", "r"),
        object("Namespace", "deep"),
        object("Service", "web"),
        object("Endpoints", "web"),
    ]);
    all.push(object("Pod", "p"));
    World(all)
}

fn term(kind: &str, name: &str) -> Value {
    let group = if kind == "ClusterRole" {
        "rbac.authorization.k8s.io"
    } else {
        ""
    };
    json!({"group": group, "version": "v1", "kind": kind, "name": name})
}

/// The names of what is selected, or the error.
fn selected(namespace: Option<&str>, selectors: Value) -> Result<Vec<String>, String> {
    let placement = json!({"metadata": {"name": "p", "namespace": namespace}, "spec": {"resourceSelectors": selectors}});
    let placement: Placement = serde_json::from_value(placement).unwrap();
    let settings = Settings {
        filter: &ApiFilter::deny("").unwrap(),
        skipped_namespaces: &[],
        hub_runs_workloads: false,
    };
    let found = select(&placement, &world(), &settings).map_err(|error| error.to_string())?;
    assert!(found.iter().all(|one| one["metadata"].get("uid").is_none()));
    Ok(found
        .iter()
        .map(|one| {
            format!(
                "{} {}",
                one["kind"].as_str().unwrap(),
                one["metadata"]["name"].as_str().unwrap()
            )
        })
        .collect())
}

#[test]
fn a_namespace_brings_what_is_in_it() {
    let all = ["Namespace app", "ConfigMap c", "ConfigMap d", "Service web"];
    assert_eq!(
        selected(None, json!([term("Namespace", "app")])).unwrap(),
        all
    );
    let by_label = json!({"group": "", "version": "v1", "kind": "Namespace", "labelSelector": {"matchLabels": {"team": "a"}}});
    assert_eq!(selected(None, json!([by_label])).unwrap(), all);
    let mut only = term("Namespace", "app");
    only["selectionScope"] = "NamespaceOnly".into();
    assert_eq!(selected(None, json!([only])).unwrap(), ["Namespace app"]);
    assert!(
        selected(None, json!([term("Namespace", "none")]))
            .unwrap()
            .is_empty()
    );
}

#[test]
fn parts_of_a_namespace_are_selected_by_the_other_selectors() {
    let mut parts = term("Namespace", "app");
    parts["selectionScope"] = "NamespaceWithResourceSelectors".into();
    let others = [term("ConfigMap", "d"), term("ClusterRole", "")];
    let found = selected(None, json!([parts, others[0], others[1]])).unwrap();
    assert_eq!(found, ["Namespace app", "ConfigMap d", "ClusterRole r"]);
    parts["name"] = "none".into();
    assert!(
        selected(None, json!([parts]))
            .unwrap_err()
            .contains("does not exist")
    );
}

#[test]
fn selectors_that_cannot_be_followed_say_why() {
    for (namespace, selectors, words) in [
        (
            None,
            json!([term("Namespace", "kube-system")]),
            "belongs to Kubernetes",
        ),
        (None, json!([term("Unknown", "")]), "does not serve"),
        (None, json!([term("ConfigMap", "c")]), "is namespaced"),
        (
            Some("app"),
            json!([term("ClusterRole", "r")]),
            "is not namespaced",
        ),
        (Some("app"), json!([term("Secret", "s")]), "not listed yet"),
        (
            None,
            json!([term("ClusterRole", ""), term("ClusterRole", "r")]),
            "more than one selector",
        ),
        (
            None,
            json!([term("Namespace", "deep")]),
            "Namespace \"deep\" in namespace \"\" is nested too deep",
        ),
    ] {
        let error = selected(namespace, selectors).unwrap_err();
        assert!(error.contains(words), "{error}");
    }
    assert_eq!(
        selected(Some("app"), json!([term("ConfigMap", "c")])).unwrap(),
        ["ConfigMap c"]
    );
    // A kind that is never placed is ignored.
    assert!(
        selected(Some("app"), json!([term("Pod", "p")]))
            .unwrap()
            .is_empty()
    );
    assert!(SelectionError::NotListed(Gvk::new("", "v1", "Secret")).is_transient());
}

#[test]
fn what_cannot_be_followed_in_the_rest_of_a_placement_selects_nothing() {
    let refused = |name: &str, spec: Value, selected: Value| {
        let mut placement = json!({"metadata": {"name": name}, "spec": spec,
            "status": {"selectedResources": selected}});
        placement["spec"]["resourceSelectors"] = json!([term("Namespace", "app")]);
        let placement: Placement = serde_json::from_value(placement).unwrap();
        let settings = Settings {
            filter: &ApiFilter::default(),
            skipped_namespaces: &[],
            hub_runs_workloads: false,
        };
        let found = select(&placement, &world(), &settings);
        found.map_or_else(|error| error.to_string(), |_| String::new())
    };
    // Its snapshots could not be labelled.
    let long = refused(&"p".repeat(64), json!({}), json!([]));
    assert!(long.contains("cannot have length exceeding 63"), "{long}");
    let reporting = || json!({"statusReportingScope": "NamespaceAccessible"});
    let listed =
        |name: &str| json!([{"group": "", "version": "v1", "kind": "Namespace", "name": name}]);
    assert_eq!(refused("p", reporting(), listed("app")), "");
    assert_eq!(refused("p", json!({}), listed("other")), "");
    let moved = refused("p", reporting(), listed("other"));
    assert!(moved.contains("reported in namespace other"), "{moved}");
}
