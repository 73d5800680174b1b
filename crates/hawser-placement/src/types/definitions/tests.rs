#![allow(
    clippy::needless_pass_by_value,
    reason = "literals are shorter to pass by value"
)]

use kube_schema::crd::{Definition, Version, default_crd};
use kube_schema::field::FieldError;

use super::*;

fn read() -> Vec<Definition> {
    let definitions = definitions().into_iter().map(|mut definition| {
        default_crd(&mut definition);
        let name = definition["metadata"]["name"].clone();
        Definition::from_crd(&definition).unwrap_or_else(|errors| panic!("{name}: {errors:#?}"))
    });
    definitions.collect()
}

fn version(kind: &str, version: &str) -> Version {
    let all = read();
    let found = all.iter().find(|definition| definition.names.kind == kind);
    found.unwrap().version(version).unwrap().clone()
}

/// The messages about an object, with defaults filled in.
fn messages(version: &Version, object: &Value, old: Option<&Value>) -> Vec<String> {
    let filled = |object: &Value| {
        let mut object = object.clone();
        version.schema.default(&mut object);
        object
    };
    let old = old.map(filled);
    let errors = version.schema.validate(&filled(object), old.as_ref());
    errors.iter().map(FieldError::to_string).collect()
}

fn placement(policy: Value) -> Value {
    let mut object = json!({
        "apiVersion": "placement.kubernetes-fleet.io/v1beta1", "kind": "ClusterResourcePlacement",
        "metadata": {"name": "p"},
        "spec": {"resourceSelectors": [{"group": "", "version": "v1", "kind": "Namespace", "name": "n"}]},
    });
    if !policy.is_null() {
        object["spec"]["policy"] = policy;
    }
    object
}

/// Asserts that there is one message, which contains `wanted`; none if `wanted` is empty.
fn assert_says(found: &[String], wanted: &str) {
    match found {
        [] => assert_eq!(wanted, "", "nothing was refused"),
        [message] => assert!(
            !wanted.is_empty() && message.contains(wanted),
            "{message:?}, not {wanted:?}"
        ),
        several => panic!("{several:#?}"),
    }
}

#[test]
fn generated_definitions_are_up_to_date() {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../..")
        .join(PATH);
    if std::env::var_os("HAWSER_WRITE_GENERATED").is_some() {
        std::fs::write(&path, yaml()).unwrap();
    }
    let there = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(there == yaml(), "{PATH} is not what the types say");
}

#[test]
fn the_definitions_are_those_of_the_original() {
    let told: Vec<String> = read()
        .iter()
        .map(|definition| {
            let versions: Vec<&str> = definition
                .versions
                .iter()
                .map(|v| v.name.as_str())
                .collect();
            let version = &definition.versions[0];
            format!(
                "{} {:?} {:?} {} {}",
                definition.names.plural,
                definition.scope,
                definition.names.short_names,
                version.status,
                versions.join(",")
            )
        })
        .collect();
    assert_eq!(
        told,
        [
            "internalmemberclusters Namespaced [\"imc\"] true v1,v1beta1",
            "memberclusters Cluster [\"cluster\"] true v1,v1beta1",
            "appliedworks Cluster [\"appliedwork\"] true v1,v1beta1",
            "approvalrequests Namespaced [\"areq\"] true v1,v1beta1",
            "clusterapprovalrequests Cluster [\"careq\"] true v1,v1alpha1,v1beta1",
            "clusterresourcebindings Cluster [\"crb\"] true v1,v1beta1",
            "clusterresourceenvelopes Cluster [] false v1beta1",
            "clusterresourceoverrides Cluster [] false v1,v1alpha1,v1beta1",
            "clusterresourceoverridesnapshots Cluster [] false v1,v1alpha1,v1beta1",
            "clusterresourceplacementdisruptionbudgets Cluster [\"crpdb\"] false v1alpha1,v1beta1",
            "clusterresourceplacementevictions Cluster [\"crpe\"] true v1alpha1,v1beta1",
            "clusterresourceplacements Cluster [\"crp\"] true v1,v1beta1",
            "clusterresourceplacementstatuses Namespaced [\"crps\"] false v1,v1beta1",
            "clusterresourcesnapshots Cluster [\"crs\"] true v1,v1beta1",
            "clusterschedulingpolicysnapshots Cluster [\"csps\"] true v1,v1beta1",
            "clusterstagedupdateruns Cluster [\"csur\"] true v1,v1alpha1,v1beta1",
            "clusterstagedupdatestrategies Cluster [\"csus\"] true v1,v1alpha1,v1beta1",
            "resourcebindings Namespaced [\"rb\"] true v1beta1",
            "resourceenvelopes Namespaced [] false v1beta1",
            "resourceoverrides Namespaced [] false v1,v1alpha1,v1beta1",
            "resourceoverridesnapshots Namespaced [] false v1,v1alpha1,v1beta1",
            "resourceplacements Namespaced [\"rp\"] true v1,v1beta1",
            "resourcesnapshots Namespaced [\"rs\"] true v1beta1",
            "schedulingpolicysnapshots Namespaced [\"sps\"] true v1beta1",
            "stagedupdateruns Namespaced [\"sur\"] true v1,v1beta1",
            "stagedupdatestrategies Namespaced [\"sus\"] false v1,v1beta1",
            "works Namespaced [\"work\"] true v1,v1beta1",
        ]
    );
    for definition in read() {
        assert_eq!(definition.storage_version().unwrap().name, STORED_VERSION);
    }
}

#[test]
fn tables_have_the_columns_of_the_original() {
    let placement = "Gen -Type Scheduled Scheduled-Gen -Work-Synchronized -Work-Synchronized-Gen Available Available-Gen Age";
    let binding = "WorkSynchronized ResourcesApplied -ResourceAvailable Age";
    let run = "Placement Resource-Snapshot-Index Policy-Snapshot-Index Initialized Progressing Succeeded Age -Strategy";
    let approval = "Update-Run Stage Approved Age";
    let wanted = [
        ("ClusterResourcePlacement", placement),
        ("ResourcePlacement", placement),
        ("ClusterResourceBinding", binding),
        ("ResourceBinding", binding),
        ("ClusterSchedulingPolicySnapshot", "Gen Age"),
        ("SchedulingPolicySnapshot", "Gen Age"),
        ("ClusterResourceSnapshot", "Gen Age"),
        ("ResourceSnapshot", "Gen Age"),
        (
            "ClusterResourcePlacementStatus",
            "Resource-Index Last-Updated Age",
        ),
        ("ClusterResourcePlacementEviction", "Valid Executed"),
        ("ClusterStagedUpdateRun", run),
        ("StagedUpdateRun", run),
        ("ClusterApprovalRequest", approval),
        ("ApprovalRequest", approval),
        (
            "MemberCluster",
            "Joined Age Member-Agent-Last-Seen Node-Count Available-CPU Available-Memory -Allocatable-CPU -Allocatable-Memory",
        ),
        ("InternalMemberCluster", "Age"),
    ];
    for definition in definitions() {
        let kind = definition["spec"]["names"]["kind"].as_str().unwrap();
        let wanted = wanted.iter().find(|(of, _)| *of == kind);
        for version in definition["spec"]["versions"].as_array().unwrap() {
            // A minus stands for what only wide tables show.
            let columns = version["additionalPrinterColumns"].as_array();
            let columns = columns.into_iter().flatten().map(|column| {
                let mark = if column["priority"] == 1 { "-" } else { "" };
                format!("{mark}{}", column["name"].as_str().unwrap())
            });
            let columns = columns.collect::<Vec<_>>().join(" ");
            assert_eq!(columns, wanted.map_or("", |(_, columns)| columns), "{kind}");
        }
    }
}

#[test]
fn the_placement_of_the_seed_is_valid_and_gets_the_defaults() {
    let version = version("ClusterResourcePlacement", "v1");
    let mut object = placement(json!({
        "placementType": "PickN", "numberOfClusters": 2,
        "topologySpreadConstraints": [{"topologyKey": "env"}],
        "tolerations": [{"key": "k"}],
    }));
    object["spec"]["strategy"] = json!({"rollingUpdate": {"maxSurge": 1}, "applyStrategy": {}});
    assert_says(&messages(&version, &object, None), "");
    version.schema.default(&mut object);
    let spec = &object["spec"];
    assert_eq!(
        spec["strategy"],
        json!({
            "type": "RollingUpdate",
            "rollingUpdate": {"maxSurge": 1, "maxUnavailable": "25%", "unavailablePeriodSeconds": 60},
            "applyStrategy": {"type": "ClientSideApply", "comparisonOption": "PartialComparison",
                              "whenToApply": "Always", "whenToTakeOver": "Always"},
        })
    );
    assert_eq!(
        spec["policy"]["topologySpreadConstraints"],
        json!([{"topologyKey": "env", "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule"}])
    );
    assert_eq!(
        spec["policy"]["tolerations"],
        json!([{"key": "k", "operator": "Equal"}])
    );
    assert_eq!(spec["revisionHistoryLimit"], 10);
    assert_eq!(spec["statusReportingScope"], "ClusterScopeOnly");
    assert_eq!(
        spec["resourceSelectors"][0]["selectionScope"],
        "NamespaceWithResources"
    );
}

#[test]
fn a_policy_has_the_fields_of_its_type() {
    let version = version("ClusterResourcePlacement", "v1beta1");
    for (policy, wanted) in [
        (json!({}), ""),
        (
            json!({"placementType": "PickFixed", "clusterNames": ["a"]}),
            "",
        ),
        (
            json!({"placementType": "PickFixed"}),
            "clusterNames cannot be empty",
        ),
        (
            json!({"placementType": "PickFixed", "clusterNames": ["a"], "affinity": {}}),
            "affinity cannot be set for placement type PickFixed",
        ),
        (
            json!({"placementType": "PickFixed", "clusterNames": ["a"], "tolerations": []}),
            "tolerations cannot be set for placement type PickFixed",
        ),
        (
            json!({"numberOfClusters": 1}),
            "numberOfClusters cannot be set for placement type PickAll",
        ),
        (
            json!({"clusterNames": ["a"]}),
            "clusterNames cannot be set for placement type PickAll",
        ),
        (
            json!({"topologySpreadConstraints": [{"topologyKey": "k"}]}),
            "topologySpreadConstraints cannot be set for placement type PickAll",
        ),
        (
            json!({"placementType": "PickN"}),
            "numberOfClusters must be set for placement type PickN",
        ),
        (
            json!({"tolerations": [{"key": "k", "operator": "Exists", "value": "v"}]}),
            "toleration value needs to be empty, when operator is Exists",
        ),
        (
            json!({"tolerations": [{"value": "v"}]}),
            "operator needs to be Exists, when toleration key is empty",
        ),
    ] {
        assert_says(&messages(&version, &placement(policy), None), wanted);
    }
}

#[test]
fn a_policy_keeps_its_type_and_stays() {
    let version = version("ClusterResourcePlacement", "v1beta1");
    let all = placement(json!({}));
    let fixed = placement(json!({"placementType": "PickFixed", "clusterNames": ["a"]}));
    let none = placement(Value::Null);
    assert_says(
        &messages(&version, &fixed, Some(&all)),
        "placement type is immutable",
    );
    assert_says(
        &messages(&version, &none, Some(&all)),
        "policy cannot be removed once set",
    );
    assert_says(&messages(&version, &all, Some(&none)), "");
    let external = |type_: &str| {
        let mut object = placement(Value::Null);
        object["spec"]["strategy"] = json!({"type": type_});
        object
    };
    assert_says(
        &messages(
            &version,
            &external("RollingUpdate"),
            Some(&external("External")),
        ),
        "cannot change rollout strategy type from 'External'",
    );
    assert_says(
        &messages(
            &version,
            &external("External"),
            Some(&external("RollingUpdate")),
        ),
        "",
    );
}

#[test]
fn selectors_and_scopes_fit_together() {
    let version = version("ClusterResourcePlacement", "v1beta1");
    let with = |selectors: Value, scope: &str| {
        let mut object = placement(Value::Null);
        object["spec"]["resourceSelectors"] = selectors;
        object["spec"]["statusReportingScope"] = scope.into();
        object
    };
    let namespace = |name: &str, scope: &str| json!({"group": "", "version": "v1", "kind": "Namespace", "name": name, "selectionScope": scope});
    let role =
        json!({"group": "rbac.authorization.k8s.io", "version": "v1", "kind": "ClusterRole"});
    let both = json!({"group": "", "version": "v1", "kind": "Namespace", "name": "a", "labelSelector": {}});
    let (only, mode) = ("ClusterScopeOnly", "NamespaceWithResourceSelectors");
    for (selectors, scope, wanted) in [
        (
            json!([both]),
            only,
            "name and labelSelector are mutually exclusive",
        ),
        (
            json!([role]),
            "NamespaceAccessible",
            "exactly one resourceSelector with kind 'Namespace'",
        ),
        (
            json!([namespace("a", mode), role]),
            "NamespaceAccessible",
            "",
        ),
        (
            json!([namespace("", mode)]),
            only,
            "namespace selector with NamespaceWithResourceSelectors mode must select by name",
        ),
        (
            json!([namespace("a", mode), namespace("b", "NamespaceOnly")]),
            only,
            "when using NamespaceWithResourceSelectors mode, only one namespace selector is allowed",
        ),
    ] {
        assert_says(&messages(&version, &with(selectors, scope), None), wanted);
    }
    let one = json!([namespace("a", "NamespaceOnly")]);
    let (old, new) = (with(one.clone(), only), with(one, "NamespaceAccessible"));
    assert_says(
        &messages(&version, &new, Some(&old)),
        "statusReportingScope is immutable",
    );
}

#[test]
fn overrides_keep_their_placement() {
    let version = version("ClusterResourceOverride", "v1");
    let with = |placement: Value| {
        let mut object = json!({
            "apiVersion": "placement.kubernetes-fleet.io/v1", "kind": "ClusterResourceOverride",
            "metadata": {"name": "o"},
            "spec": {
                "clusterResourceSelectors": [{"group": "", "version": "v1", "kind": "Namespace", "name": "n"}],
                "policy": {"overrideRules": [{
                    "clusterSelector": {"clusterSelectorTerms": []},
                    "jsonPatchOverrides": [{"op": "add", "path": "/metadata/labels/x", "value": {"any": [1]}}],
                }]},
            },
        });
        if !placement.is_null() {
            object["spec"]["placement"] = placement;
        }
        object
    };
    let (none, p) = (with(Value::Null), with(json!({"name": "p"})));
    assert_says(&messages(&version, &p, None), "");
    assert_says(
        &messages(&version, &p, Some(&none)),
        "The placement field is immutable",
    );
    assert_says(
        &messages(&version, &none, Some(&p)),
        "The placement field is immutable",
    );
    assert_says(&messages(&version, &p, Some(&p)), "");
    assert_says(
        &messages(
            &version,
            &with(json!({"name": "p", "scope": "Namespaced"})),
            None,
        ),
        "placement reference cannot be Namespaced scope",
    );
}

#[test]
fn an_override_of_a_namespace_is_about_both_kinds_of_placement_if_it_names_no_scope() {
    for (kind, scope) in [
        ("ClusterResourceOverride", json!("Cluster")),
        ("ResourceOverride", Value::Null),
    ] {
        let mut object = json!({"spec": {"placement": {"name": "p"}}});
        version(kind, "v1").schema.default(&mut object);
        assert_eq!(object["spec"]["placement"]["scope"], scope, "{kind}");
    }
    let mut snapshot = json!({"spec": {"overrideSpec": {"placement": {"name": "p"}}}});
    let version = version("ResourceOverrideSnapshot", "v1");
    version.schema.default(&mut snapshot);
    let placement = &snapshot["spec"]["overrideSpec"]["placement"];
    assert_eq!(*placement, json!({"name": "p"}));
}

#[test]
fn members_have_short_names_and_v1_has_fewer_fields() {
    let member = version("MemberCluster", "v1beta1");
    let mut object = json!({
        "apiVersion": "cluster.kubernetes-fleet.io/v1beta1", "kind": "MemberCluster",
        "metadata": {"name": "a".repeat(64)},
        "spec": {"identity": {"kind": "User", "name": "u"}, "deleteOptions": {}},
    });
    assert_says(
        &messages(&member, &object, None),
        "metadata.name max length is 63",
    );
    object["metadata"]["name"] = "a".into();
    assert_says(&messages(&member, &object, None), "");
    let pruned = version("MemberCluster", "v1").schema.prune(&mut object);
    assert_eq!(pruned, ["spec.deleteOptions"]);
    let stored = version("ClusterResourcePlacement", "v1beta1")
        .schema_document
        .to_string();
    let served = version("ClusterResourcePlacement", "v1")
        .schema_document
        .to_string();
    assert!(stored.contains("deleteStrategy") && !served.contains("deleteStrategy"));
    assert!(stored.contains("\"ConfigMap\"") && !served.contains("\"ConfigMap\""));
}

#[test]
fn what_the_seed_shows_is_read_and_written_unchanged() {
    use crate::types::binding::PolicySnapshot;
    let snapshot = json!({
        "metadata": {"name": "crp-1-1", "generation": 1,
            "annotations": {"kubernetes-fleet.io/number-of-clusters": "2"}},
        "spec": {"policy": {"placementType": "PickN"}, "policyHash": "NDc5"},
        "status": {"observedCRPGeneration": 5, "targetClusters": [{
            "clusterName": "aks-member-1", "clusterScore": {"affinityScore": 0, "priorityScore": 0},
            "reason": "picked by scheduling policy", "selected": true,
        }]},
    });
    let read: PolicySnapshot = serde_json::from_value(snapshot.clone()).unwrap();
    assert_eq!(serde_json::to_value(&read.spec).unwrap(), snapshot["spec"]);
    assert_eq!(
        serde_json::to_value(&read.status).unwrap(),
        snapshot["status"]
    );
    assert_eq!(
        read.metadata.annotation(crate::names::NUMBER_OF_CLUSTERS),
        Some("2")
    );
}

fn run(spec: Value) -> Value {
    let mut object = json!({
        "apiVersion": "placement.kubernetes-fleet.io/v1beta1", "kind": "ClusterStagedUpdateRun",
        "metadata": {"name": "r"},
        "spec": {"placementName": "p", "stagedRolloutStrategyName": "s"},
    });
    if let (Value::Object(fields), Value::Object(more)) = (&mut object["spec"], spec) {
        fields.extend(more);
    }
    object
}

#[test]
fn a_run_keeps_what_it_is_about_and_its_state_goes_forward() {
    let version = version("ClusterStagedUpdateRun", "v1beta1");
    let mut object = run(json!({}));
    version.schema.default(&mut object);
    assert_eq!(object["spec"]["state"], "Initialize");
    let state = |state: &str| run(json!({"state": state}));
    for (old, new, said) in [
        ("Initialize", "Run", ""),
        ("Run", "Stop", ""),
        ("Stop", "Run", ""),
        (
            "Initialize",
            "Stop",
            "cannot transition from Initialize to Stop",
        ),
        (
            "Run",
            "Initialize",
            "cannot transition from Run to Initialize",
        ),
        (
            "Stop",
            "Initialize",
            "cannot transition from Stop to Initialize",
        ),
    ] {
        assert_says(&messages(&version, &state(new), Some(&state(old))), said);
    }
    let index = |index: &str| run(json!({"resourceSnapshotIndex": index}));
    for (old, new, said) in [
        (
            run(json!({})),
            run(json!({"placementName": "q"})),
            "placementName is immutable",
        ),
        (
            run(json!({})),
            run(json!({"stagedRolloutStrategyName": "t"})),
            "stagedRolloutStrategyName is immutable",
        ),
        (index("1"), index("2"), "resourceSnapshotIndex is immutable"),
        (
            index("1"),
            run(json!({})),
            "resourceSnapshotIndex is immutable",
        ),
        (
            run(json!({})),
            index("1"),
            "resourceSnapshotIndex is immutable",
        ),
    ] {
        assert_says(&messages(&version, &new, Some(&old)), said);
    }
    object["metadata"]["name"] = "a".repeat(64).into();
    assert_says(
        &messages(&version, &object, None),
        "metadata.name max length is 63",
    );
}

#[test]
fn a_run_of_the_first_version_names_its_snapshot_and_never_changes() {
    let version = version("ClusterStagedUpdateRun", "v1alpha1");
    let index = |index: &str| run(json!({"resourceSnapshotIndex": index}));
    let found = messages(&version, &run(json!({})), None);
    assert!(found[0].contains("resourceSnapshotIndex"), "{found:?}");
    let found = messages(&version, &index("2"), Some(&index("1")));
    assert!(
        found[0].contains("The spec field is immutable"),
        "{found:?}"
    );
    let pruned = version.schema.prune(&mut run(json!({"state": "Run"})));
    assert_eq!(pruned, ["spec.state"]);
}

#[test]
fn the_tasks_of_a_stage_fit_their_side() {
    let version = version("StagedUpdateStrategy", "v1beta1");
    let strategy = |stage: Value| {
        let mut whole = json!({"name": "one", "labelSelector": {}});
        if let (Value::Object(fields), Value::Object(more)) = (&mut whole, stage) {
            fields.extend(more);
        }
        json!({"apiVersion": "placement.kubernetes-fleet.io/v1beta1", "kind": "StagedUpdateStrategy",
               "metadata": {"name": "s", "namespace": "n"}, "spec": {"stages": [whole]}})
    };
    let timed = || json!({"type": "TimedWait", "waitTime": "1h30m"});
    let approval = || json!({"type": "Approval"});
    for (stage, said) in [
        (json!({"afterStageTasks": [timed(), approval()]}), ""),
        (
            json!({"beforeStageTasks": [approval()], "maxConcurrency": "25%"}),
            "",
        ),
        (
            json!({"afterStageTasks": [{"type": "TimedWait"}]}),
            "waitTime is required",
        ),
        (
            json!({"afterStageTasks": [{"type": "Approval", "waitTime": "1s"}]}),
            "waitTime is not allowed",
        ),
        (
            json!({"beforeStageTasks": [timed()]}),
            "cannot be TimedWait",
        ),
        (
            json!({"maxConcurrency": 0}),
            "maxConcurrency must be at least 1",
        ),
        (json!({"maxConcurrency": "0%"}), "maxConcurrency"),
        (json!({"name": "Not-a-name"}), "name"),
        (
            json!({"afterStageTasks": [{"type": "TimedWait", "waitTime": "soon"}]}),
            "waitTime",
        ),
    ] {
        assert_says(&messages(&version, &strategy(stage), None), said);
    }
    let mut object = strategy(json!({}));
    version.schema.default(&mut object);
    assert_eq!(object["spec"]["stages"][0]["maxConcurrency"], 1);
}

#[test]
fn an_approval_is_for_one_stage() {
    let version = version("ClusterApprovalRequest", "v1beta1");
    let of = |stage: &str| {
        json!({"apiVersion": "placement.kubernetes-fleet.io/v1beta1", "kind": "ClusterApprovalRequest",
               "metadata": {"name": "a"}, "spec": {"parentStageRollout": "r", "targetStage": stage}})
    };
    assert_says(
        &messages(&version, &of("two"), Some(&of("one"))),
        "The spec field is immutable",
    );
}
