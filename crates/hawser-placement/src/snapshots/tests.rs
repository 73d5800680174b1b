#![allow(
    clippy::needless_pass_by_value,
    reason = "literals are shorter to pass by value"
)]

use super::*;
use crate::fixtures::now;

fn placement(spec: Value) -> Placement {
    let mut object = json!({
        "metadata": {"name": "p", "uid": "u", "generation": 5},
        "spec": {"resourceSelectors": []},
    });
    if let Value::Object(fields) = spec {
        for (field, value) in fields {
            object["spec"][field] = value;
        }
    }
    serde_json::from_value(object).unwrap()
}

/// Snapshots as a server keeps them, created five seconds ago.
struct Snapshots(Vec<Value>);

impl Snapshots {
    fn apply(&mut self, plan: &SnapshotPlan) {
        let latest = |all: &mut Vec<Value>, name: &str, value: &str| {
            let found = all.iter_mut().find(|one| one["metadata"]["name"] == name);
            found.unwrap()["metadata"]["labels"][names::IS_LATEST] = value.into();
        };
        if let Some(name) = &plan.restore {
            latest(&mut self.0, name, "true");
        }
        if let Some(name) = &plan.retire {
            latest(&mut self.0, name, "false");
        }
        if let Some(annotated) = &plan.annotate {
            let found = self
                .0
                .iter_mut()
                .find(|one| one["metadata"]["name"] == annotated.name);
            let found = found.unwrap();
            for (key, value) in &annotated.annotations {
                found["metadata"]["annotations"][*key] = value.clone().into();
            }
        }
        self.0.retain(|one| {
            !plan
                .delete
                .iter()
                .any(|name| one["metadata"]["name"] == **name)
        });
        for object in &plan.create {
            let mut object = object.clone();
            object["metadata"]["creationTimestamp"] = "2026-01-01T11:59:55Z".into();
            self.0.push(object);
        }
    }

    fn names(&self) -> Vec<&str> {
        self.0
            .iter()
            .map(|one| one["metadata"]["name"].as_str().unwrap())
            .collect()
    }

    fn read<T: serde::de::DeserializeOwned>(&self) -> Vec<T> {
        let all = self.0.iter();
        all.map(|one| serde_json::from_value(one.clone()).unwrap())
            .collect()
    }

    fn resources(
        &self,
        placement: &Placement,
        data: &str,
        debounce: Debounce,
        at: i64,
    ) -> SnapshotPlan {
        let selected = Selected::from(vec![config_map(data)]);
        let now = now().checked_add(SignedDuration::from_secs(at)).unwrap();
        plan_resources(
            placement,
            Scope::Cluster,
            &self.read(),
            &selected,
            debounce,
            now,
        )
        .unwrap()
    }
}

const AT_ONCE: Debounce = Debounce {
    minimum_interval: SignedDuration::ZERO,
    collection: SignedDuration::ZERO,
};

/// The defaults of KubeFleet.
const KUBEFLEET: Debounce = Debounce {
    minimum_interval: SignedDuration::from_secs(30),
    collection: SignedDuration::from_secs(15),
};

fn config_map(data: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c", "namespace": "n"}, "data": {"k": data}})
}

#[test]
fn a9_a_change_waits_for_others_and_for_the_interval() {
    let p = placement(Value::Null);
    let mut all = Snapshots(Vec::new());
    all.apply(&all.resources(&p, "1", KUBEFLEET, 0));
    assert_eq!(all.names(), ["p-0-snapshot"]);
    let plan = all.resources(&p, "2", KUBEFLEET, 0);
    let seconds = |plan: &SnapshotPlan| {
        plan.wait_until
            .map(|time| time.duration_since(now()).as_secs())
    };
    assert_eq!(seconds(&plan), Some(25));
    assert!(plan.create.is_empty() && plan.index == 0);
    all.apply(&plan);
    let plan = all.resources(&p, "2", KUBEFLEET, 20);
    assert_eq!((seconds(&plan), &plan.annotate), (Some(25), &None));
    let plan = all.resources(&p, "2", KUBEFLEET, 25);
    assert_eq!((seconds(&plan), plan.index), (None, 1));
    all.apply(&plan);
    assert_eq!(all.names(), ["p-0-snapshot", "p-1-snapshot"]);
    assert_eq!(all.0[0]["metadata"]["labels"][names::IS_LATEST], "false");
}

#[test]
fn a10_large_selections_are_split_and_named() {
    let secret = |name: &str| {
        json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name, "namespace": "n"},
               "data": {"k": "x".repeat(300 * 1024)}})
    };
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "n"}});
    let resources = Selected::from(vec![namespace, secret("a"), secret("b"), secret("c")]);
    let p = placement(Value::Null);
    let plan = plan_resources(&p, Scope::Cluster, &[], &resources, AT_ONCE, now()).unwrap();
    let mut all = Snapshots(Vec::new());
    all.apply(&plan);
    assert_eq!(all.names(), ["p-0-snapshot", "p-0-0"]);
    let annotations = |index: usize| &all.0[index]["metadata"]["annotations"];
    assert_eq!(annotations(0)[names::NUMBER_OF_SNAPSHOTS], "2");
    assert_eq!(annotations(1)[names::SNAPSHOT_SUBINDEX], "0");
    assert_eq!(
        all.0[0]["spec"]["selectedResources"]
            .as_array()
            .unwrap()
            .len(),
        3
    );
    assert!(
        all.0[1]["metadata"]["labels"]
            .get(names::IS_LATEST)
            .is_none()
    );
    // A group that a crash left incomplete is completed.
    all.0.pop();
    let plan = plan_resources(&p, Scope::Cluster, &all.read(), &resources, AT_ONCE, now()).unwrap();
    assert_eq!(plan.create.len(), 1);
    assert_eq!(plan.create[0]["metadata"]["name"], "p-0-0");
}

#[test]
fn one_large_object_sits_alone_and_nothing_is_one_empty_snapshot() {
    let large = json!({"k": "x".repeat(MAX_BYTES)});
    let small = json!({"k": "y"});
    let sizes = |given: Vec<Value>| -> Vec<usize> {
        Selected::from(given).split().iter().map(Vec::len).collect()
    };
    assert_eq!(
        sizes(vec![small.clone(), large.clone(), small.clone()]),
        [1, 1, 1]
    );
    assert_eq!(sizes(vec![large, small]), [1, 1]);
    assert_eq!(sizes(Vec::new()), [0]);
    let many = vec![json!({}); 2 * MAX_RESOURCES + 1];
    assert_eq!(sizes(many), [MAX_RESOURCES, MAX_RESOURCES, 1]);
}

#[test]
fn sizes_are_those_that_a_server_stores() {
    let map = |bytes: usize, text: &str| {
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c", "namespace": "n"},
               "data": {"k": text.repeat(bytes)}})
    };
    // Go writes six bytes for each of these.
    let two = Selected::from(vec![map(100 * 1024, "<"), map(100 * 1024, "<")]);
    assert_eq!(two.split().len(), 2);
    let two = Selected::from(vec![map(100 * 1024, "x"), map(100 * 1024, "x")]);
    assert_eq!(two.split().len(), 1);
    let fits = Selected::from(vec![map(MAX_RESOURCE_BYTES - 200, "x")]);
    assert!(fits.checked().is_ok());
    let large = Selected::from(vec![map(1, "x"), map(MAX_RESOURCE_BYTES / 6, "<")]);
    let error = large.checked().unwrap_err().to_string();
    assert!(
        error.starts_with("ConfigMap \"c\" in namespace \"n\" has 15360"),
        "{error}"
    );
}

#[test]
fn snapshots_beyond_the_limit_go_the_oldest_first() {
    let p = placement(json!({"revisionHistoryLimit": 2}));
    let mut all = Snapshots(Vec::new());
    for data in ["1", "2", "3", "4"] {
        all.apply(&all.resources(&p, data, AT_ONCE, 0));
    }
    assert_eq!(all.names(), ["p-2-snapshot", "p-3-snapshot"]);
    assert_eq!(
        all.resources(&p, "4", AT_ONCE, 0),
        SnapshotPlan {
            index: 3,
            ..SnapshotPlan::default()
        }
    );
}

#[test]
fn the_label_that_a_crash_took_comes_back() {
    let p = placement(Value::Null);
    let mut all = Snapshots(Vec::new());
    all.apply(&all.resources(&p, "1", AT_ONCE, 0));
    all.0[0]["metadata"]["labels"][names::IS_LATEST] = "false".into();
    let plan = all.resources(&p, "1", AT_ONCE, 0);
    assert_eq!(plan.restore.as_deref(), Some("p-0-snapshot"));
    let mut twice = all.0[0].clone();
    twice["metadata"]["name"] = "p-1-snapshot".into();
    all.0.push(twice);
    for one in &mut all.0 {
        one["metadata"]["labels"][names::IS_LATEST] = "true".into();
    }
    let none = Selected::from(Vec::new());
    let error = plan_resources(&p, Scope::Cluster, &all.read(), &none, AT_ONCE, now()).unwrap_err();
    assert!(matches!(error, SnapshotError::SeveralLatest { .. }));
}

#[test]
fn a_changed_number_makes_no_new_policy_snapshot() {
    let wanted = |number: i32, tolerations: Value| {
        placement(
            json!({"policy": {"placementType": "PickN", "numberOfClusters": number, "tolerations": tolerations}}),
        )
    };
    let mut all = Snapshots(Vec::new());
    let p = wanted(2, json!([]));
    let plan = plan_policy(&p, Scope::Cluster, &[]).unwrap();
    all.apply(&plan);
    let created = &all.0[0];
    assert_eq!(
        created["spec"],
        json!({
            "policy": {"placementType": "PickN"},
            "policyHash": "NDc5ZjQwNWViNzgwOGNmYzU4MzY2YjI2NDg2ODBhM2E4MTVlZjkxNGZlNjc1NmFlOGRmMGQ2Zjc0ODg1NDE2YQ==",
        })
    );
    assert_eq!(
        created["metadata"]["annotations"],
        json!({names::PLACEMENT_GENERATION: "5", names::NUMBER_OF_CLUSTERS: "2"})
    );
    assert!(
        plan_policy(&p, Scope::Cluster, &all.read())
            .unwrap()
            .annotate
            .is_none()
    );
    let plan = plan_policy(&wanted(3, json!([])), Scope::Cluster, &all.read()).unwrap();
    assert!(plan.create.is_empty());
    assert_eq!(plan.annotate.unwrap().annotations[1].1, "3");
    let p = wanted(2, json!([{"operator": "Exists"}]));
    let plan = plan_policy(&p, Scope::Cluster, &all.read()).unwrap();
    assert_eq!(plan.retire.as_deref(), Some("p-0"));
    assert_eq!(plan.create[0]["metadata"]["name"], "p-1");
}
