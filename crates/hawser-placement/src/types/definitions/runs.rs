//! The definitions of staged update runs.

use super::kind::{
    ALL, Kind, NAME_RULE, V1, add_rule, age, cluster_scoped, column, minor, namespaced, remove,
    spec_only, with_status,
};
use crate::types::runs::{
    ApprovalRequestSpec, ApprovalRequestStatus, UpdateRunSpec, UpdateRunStatus, UpdateStrategySpec,
};
use serde_json::{Value, json};

/// Fields that `v1alpha1` does not have.
const NOT_IN_V1_ALPHA: &[&str] = &[
    "/properties/spec/properties/state",
    "/properties/spec/properties/stages/items/properties/beforeStageTasks",
    "/properties/spec/properties/stages/items/properties/maxConcurrency",
    "/properties/status/properties/stagedUpdateStrategySnapshot/properties/stages/items/properties/beforeStageTasks",
    "/properties/status/properties/stagedUpdateStrategySnapshot/properties/stages/items/properties/maxConcurrency",
    "/properties/status/properties/stagesStatus/items/properties/beforeStageTaskStatus",
    "/properties/status/properties/deletionStageStatus/properties/beforeStageTaskStatus",
];

pub(super) fn kinds() -> Vec<Kind> {
    let mut run = with_status::<UpdateRunSpec, UpdateRunStatus>();
    add_rule(&mut run, NAME_RULE);
    let strategy = spec_only::<UpdateStrategySpec>();
    let approval = with_status::<ApprovalRequestSpec, ApprovalRequestStatus>();
    vec![
        Kind {
            columns: run_columns(),
            ..cluster_scoped("ClusterStagedUpdateRun", Some("csur"), ALL, run.clone())
        },
        Kind {
            columns: run_columns(),
            ..namespaced("StagedUpdateRun", Some("sur"), V1, run)
        },
        cluster_scoped(
            "ClusterStagedUpdateStrategy",
            Some("csus"),
            ALL,
            strategy.clone(),
        ),
        Kind {
            status_subresource: false,
            ..namespaced("StagedUpdateStrategy", Some("sus"), V1, strategy)
        },
        Kind {
            columns: approval_columns(),
            ..cluster_scoped(
                "ClusterApprovalRequest",
                Some("careq"),
                ALL,
                approval.clone(),
            )
        },
        Kind {
            columns: approval_columns(),
            ..namespaced("ApprovalRequest", Some("areq"), V1, approval)
        },
    ]
}

fn run_columns() -> Value {
    let is = |type_: &str| {
        let path = format!(".status.conditions[?(@.type==\"{type_}\")].status");
        column(type_, "string", &path)
    };
    json!([
        column("Placement", "string", ".spec.placementName"),
        column(
            "Resource-Snapshot-Index",
            "string",
            ".status.resourceSnapshotIndexUsed"
        ),
        column(
            "Policy-Snapshot-Index",
            "string",
            ".status.policySnapshotIndexUsed"
        ),
        is("Initialized"),
        is("Progressing"),
        is("Succeeded"),
        age(),
        minor(column(
            "Strategy",
            "string",
            ".spec.stagedRolloutStrategyName"
        )),
    ])
}

fn approval_columns() -> Value {
    json!([
        column("Update-Run", "string", ".spec.parentStageRollout"),
        column("Stage", "string", ".spec.targetStage"),
        column(
            "Approved",
            "string",
            ".status.conditions[?(@.type==\"Approved\")].status"
        ),
        age(),
    ])
}

/// In `v1alpha1` a run names its snapshot, and its spec never changes.
pub(super) fn reduce_to_v1_alpha(schema: &mut Value) {
    remove(schema, NOT_IN_V1_ALPHA);
    let spec = &mut schema["properties"]["spec"];
    if spec["properties"]["stagedRolloutStrategyName"].is_object()
        && let Some(Value::Array(required)) = spec.get_mut("required")
    {
        required.push("resourceSnapshotIndex".into());
        spec["x-kubernetes-validations"] =
            json!([{"rule": "self == oldSelf", "message": "The spec field is immutable"}]);
    }
}
