//! A member from the hub's side: the objects that it needs to join, its status, its leaving.

use serde_json::{Value, json};

use super::{HubWrite, ObjectName, Stages};
use crate::names;
use crate::types::cluster::{
    AgentType, InternalMemberCluster, MemberCluster, MemberClusterStatus, MemberState,
};
use crate::types::{
    CLUSTER_GROUP, Condition, ConditionStatus, PLACEMENT_GROUP, STORED_VERSION, condition,
};

const KIND: &str = "MemberCluster";
const INTERNAL: &str = "InternalMemberCluster";
/// The seconds between heartbeats, if the member does not say.
const HEARTBEAT: i32 = 60;

/// The known facts about a member.
#[derive(Clone, Copy, Debug)]
pub struct MemberView<'a> {
    pub member: &'a MemberCluster,
    pub internal: Option<&'a InternalMemberCluster>,
    /// The time for conditions that change.
    pub now: &'a str,
    /// Whether the agents of the fleet's networking are expected, too.
    pub networking: bool,
    /// Whether the time limit of a leaving member that does not answer has passed.
    pub is_overdue: bool,
}

/// The step that a leaving member waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Leaving {
    /// The agent has to stop, and to leave the objects that it applied.
    Agent,
    /// No agent acts for the member any more: its namespace is deleted.
    Done,
}

fn owner(member: &MemberCluster) -> Value {
    json!([{
        "apiVersion": format!("{CLUSTER_GROUP}/{STORED_VERSION}"), "kind": KIND,
        "name": member.metadata.name, "uid": member.metadata.uid,
        "controller": true, "blockOwnerDeletion": true,
    }])
}

/// The namespace, role and role binding by which a member's agent works on the hub.
pub fn foundation(member: &MemberCluster) -> [Value; 3] {
    let name = &member.metadata.name;
    let namespace = names::member_namespace(name);
    let rbac = "rbac.authorization.k8s.io";
    let role = format!("fleet-role-{name}");
    let all = |groups: &[&str]| json!({"apiGroups": groups, "resources": ["*"], "verbs": ["*"]});
    let identity = &member.spec.identity;
    let mut subject = json!({"kind": identity.kind, "name": identity.name});
    if !identity.namespace.is_empty() {
        subject["namespace"] = identity.namespace.as_str().into();
    }
    if !identity.api_group.is_empty() {
        subject["apiGroup"] = identity.api_group.as_str().into();
    } else if identity.kind != "ServiceAccount" {
        subject["apiGroup"] = rbac.into();
    }
    [
        json!({
            "apiVersion": "v1", "kind": "Namespace",
            "metadata": {
                "name": namespace, "labels": {names::IS_FLEET_RESOURCE: "true"}, "ownerReferences": owner(member),
            },
        }),
        json!({
            "apiVersion": format!("{rbac}/v1"), "kind": "Role",
            "metadata": {"name": role, "namespace": namespace, "ownerReferences": owner(member)},
            "rules": [
                all(&[CLUSTER_GROUP]), all(&[PLACEMENT_GROUP]), all(&["networking.fleet.azure.com"]),
                {"apiGroups": ["", "events.k8s.io"], "resources": ["events"],
                 "verbs": ["get", "list", "watch", "create", "update", "patch"]},
            ],
        }),
        json!({
            "apiVersion": format!("{rbac}/v1"), "kind": "RoleBinding",
            "metadata": {
                "name": format!("fleet-rolebinding-{name}"), "namespace": namespace, "ownerReferences": owner(member),
            },
            "roleRef": {"apiGroup": rbac, "kind": "Role", "name": role},
            "subjects": [subject],
        }),
    ]
}

/// Whether the namespace and the role of the current member exist.
pub fn is_founded(member: &MemberCluster) -> bool {
    let ready = condition(&member.status.conditions, "ReadyToJoin");
    ready.is_some_and(|ready| ready.is_fresh(member.metadata.generation))
}

/// The first write: the finalizer, and the label by which overrides and policies select the member.
pub fn marks(member: &MemberCluster) -> Option<HubWrite> {
    let metadata = &member.metadata;
    if metadata.label(names::MEMBER_NAME) == Some(&metadata.name) {
        return HubWrite::add_finalizers(KIND, metadata, &[names::MEMBER_FINALIZER]);
    }
    let mut finalizers = metadata.finalizers.clone();
    if !finalizers.iter().any(|one| one == names::MEMBER_FINALIZER) {
        finalizers.push(names::MEMBER_FINALIZER.to_owned());
    }
    let patch = json!({"metadata": {
        "labels": {names::MEMBER_NAME: metadata.name}, "finalizers": finalizers,
    }});
    Some(HubWrite::patch_known(KIND, metadata, patch))
}

/// The writes for a member that has its namespace and role.
pub fn decide(view: &MemberView<'_>) -> Stages {
    let mut stages = Stages::default();
    let member = view.member;
    let state = if member.metadata.in_deletion() {
        MemberState::Leave
    } else {
        MemberState::Join
    };
    let period = member.spec.heartbeat_period_seconds.unwrap_or(HEARTBEAT);
    let spec = json!({"state": state, "heartbeatPeriodSeconds": period});
    match view.internal {
        None if state == MemberState::Join => {
            stages.push([HubWrite::Create(json!({
                "apiVersion": format!("{CLUSTER_GROUP}/{STORED_VERSION}"), "kind": INTERNAL,
                "metadata": {
                    "name": member.metadata.name,
                    "namespace": names::member_namespace(&member.metadata.name),
                    "ownerReferences": owner(member),
                },
                "spec": spec,
            }))]);
        }
        None => {}
        Some(internal) => {
            let is_other = internal.spec.state != state
                || (state == MemberState::Join
                    && internal.spec.heartbeat_period_seconds != Some(period));
            let patch =
                || HubWrite::patch_known(INTERNAL, &internal.metadata, json!({"spec": spec}));
            stages.push(is_other.then(patch));
        }
    }
    let status = status(view);
    if status != member.status {
        stages.push([HubWrite::Status {
            place: ObjectName::of(KIND, &member.metadata),
            status: json!(status),
        }]);
    }
    stages
}

/// The step that a member in deletion waits for.
pub fn leaving(view: &MemberView<'_>) -> Leaving {
    let agents = view
        .internal
        .map_or(&[][..], |internal| &internal.status.agent_status);
    // Only an agent that has joined can have applied something.
    let is_joined = agents.iter().any(|agent| {
        let joined = condition(&agent.conditions, "Joined");
        joined.is_some_and(|joined| joined.status != ConditionStatus::False)
    });
    if is_joined && !view.is_overdue {
        Leaving::Agent
    } else {
        Leaving::Done
    }
}

/// The status that the agents report, with the conditions of the hub.
fn status(view: &MemberView<'_>) -> MemberClusterStatus {
    let member = view.member;
    let mut status = match view.internal {
        Some(internal) => internal.status.clone(),
        None => MemberClusterStatus {
            conditions: Vec::new(),
            ..member.status.clone()
        },
    };
    let make = |type_: &str, status, reason: &str, message: &str| Condition {
        type_: type_.to_owned(),
        status,
        observed_generation: member.metadata.generation,
        last_transition_time: view.now.to_owned(),
        reason: reason.to_owned(),
        message: message.to_owned(),
    };
    let mut own = vec![make(
        "ReadyToJoin",
        ConditionStatus::True,
        "MemberClusterReadyToJoin",
        "The hub has everything that the member needs to join",
    )];
    let (truth, reason, message) = joined(&status, view.networking);
    own.push(make("Joined", truth, reason, message));
    for mut reported in std::mem::take(&mut status.conditions) {
        if own.iter().all(|one| one.type_ != reported.type_) {
            reported.observed_generation = member.metadata.generation;
            own.push(reported);
        }
    }
    crate::status::settle(&mut own, &member.status.conditions);
    status.conditions = own;
    status
}

/// Whether all agents of a member have joined.
fn joined(
    status: &MemberClusterStatus,
    networking: bool,
) -> (ConditionStatus, &'static str, &'static str) {
    let mut expected = vec![AgentType::MemberAgent];
    if networking {
        expected.push(AgentType::MultiClusterServiceAgent);
        expected.push(AgentType::ServiceExportImportAgent);
    }
    let truths = expected.iter().map(|type_| {
        let agent = status.agent_status.iter().find(|one| one.type_ == *type_);
        let joined = agent.and_then(|agent| condition(&agent.conditions, "Joined"));
        joined.map_or(ConditionStatus::Unknown, |joined| joined.status)
    });
    let truths: Vec<ConditionStatus> = truths.collect();
    let all = |wanted| truths.iter().all(|truth| *truth == wanted);
    if all(ConditionStatus::True) {
        (
            ConditionStatus::True,
            "MemberClusterJoined",
            "All agents of the member have joined",
        )
    } else if all(ConditionStatus::False) {
        (
            ConditionStatus::False,
            "MemberClusterLeft",
            "All agents of the member have left",
        )
    } else {
        (
            ConditionStatus::Unknown,
            "MemberClusterJoinStateUnknown",
            "Not all agents of the member report whether they have joined",
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: &str = "2026-01-01T12:00:00Z";

    fn member() -> MemberCluster {
        let member = json!({
            "metadata": {"name": "m", "uid": "u", "generation": 1},
            "spec": {"identity": {"kind": "User", "name": "agent"}},
        });
        serde_json::from_value(member).unwrap()
    }

    fn internal(joined: &str) -> InternalMemberCluster {
        let internal = json!({
            "metadata": {"name": "m", "namespace": "fleet-member-m"},
            "spec": {"state": "Join", "heartbeatPeriodSeconds": 60},
            "status": {
                "properties": {"p": {"value": "1", "observationTime": NOW}},
                "agentStatus": [{"type": "MemberAgent", "lastReceivedHeartbeat": NOW, "conditions": [
                    {"type": "Joined", "status": joined, "reason": "R", "message": ""}]}],
            },
        });
        serde_json::from_value(internal).unwrap()
    }

    fn view<'a>(
        member: &'a MemberCluster,
        internal: Option<&'a InternalMemberCluster>,
    ) -> MemberView<'a> {
        MemberView {
            member,
            internal,
            now: NOW,
            networking: false,
            is_overdue: false,
        }
    }

    #[test]
    fn the_mark_and_the_finalizer_come_in_one_request() {
        let Some(HubWrite::Patch { patch, .. }) = marks(&member()) else {
            panic!("nothing is written");
        };
        assert_eq!(patch["metadata"]["labels"][names::MEMBER_NAME], "m");
        assert_eq!(
            patch["metadata"]["finalizers"],
            json!([names::MEMBER_FINALIZER])
        );
    }

    #[test]
    fn the_agent_is_told_to_join_and_its_status_becomes_that_of_the_member() {
        let member = member();
        let writes: Vec<HubWrite> = decide(&view(&member, None))
            .into_stages()
            .flatten()
            .collect();
        assert!(matches!(&writes[0], HubWrite::Create(one) if one["spec"]["state"] == "Join"));
        let internal = internal("True");
        let writes: Vec<HubWrite> = decide(&view(&member, Some(&internal)))
            .into_stages()
            .flatten()
            .collect();
        let [HubWrite::Status { status, .. }] = &writes[..] else {
            panic!("{writes:?}");
        };
        assert_eq!(status["conditions"][1]["reason"], "MemberClusterJoined");
        assert_eq!(status["properties"]["p"]["value"], "1");
        let mut known = member.clone();
        known.status = serde_json::from_value(status.clone()).unwrap();
        assert!(decide(&view(&known, Some(&internal))).is_empty());
        assert!(is_founded(&known));
    }

    #[test]
    fn a_member_has_joined_or_left_with_all_its_agents() {
        let member = member();
        let said = |joined: &str, networking: bool| {
            let internal = internal(joined);
            let view = MemberView {
                networking,
                ..view(&member, Some(&internal))
            };
            let conditions = status(&view).conditions.into_iter();
            let said = conditions.map(|one| format!("{} {}", one.type_, one.reason));
            said.collect::<Vec<_>>()
        };
        let ready = "ReadyToJoin MemberClusterReadyToJoin";
        assert_eq!(said("True", false), [ready, "Joined MemberClusterJoined"]);
        assert_eq!(said("False", false), [ready, "Joined MemberClusterLeft"]);
        let unknown = "Joined MemberClusterJoinStateUnknown";
        assert_eq!(said("True", true), [ready, unknown]);
    }

    #[test]
    fn a_member_that_leaves_waits_for_its_agent_but_not_forever() {
        let mut member = member();
        member.metadata.deletion_timestamp = Some(NOW.to_owned());
        assert_eq!(leaving(&view(&member, None)), Leaving::Done);
        let joined = internal("True");
        assert_eq!(leaving(&view(&member, Some(&joined))), Leaving::Agent);
        let overdue = MemberView {
            is_overdue: true,
            ..view(&member, Some(&joined))
        };
        assert_eq!(leaving(&overdue), Leaving::Done);
        assert_eq!(
            leaving(&view(&member, Some(&internal("False")))),
            Leaving::Done
        );
        let writes = decide(&view(&member, Some(&joined))).into_stages().next();
        assert!(
            matches!(&writes.unwrap()[..], [HubWrite::Patch { patch, .. }]
            if patch["spec"]["state"] == "Leave")
        );
    }

    #[test]
    fn users_and_groups_have_their_group_and_service_accounts_have_none() {
        let mut one = member();
        let subject = |member: &MemberCluster| foundation(member)[2]["subjects"][0].clone();
        assert_eq!(subject(&one)["apiGroup"], "rbac.authorization.k8s.io");
        one.spec.identity.kind = "ServiceAccount".to_owned();
        one.spec.identity.namespace = "fleet-system".to_owned();
        assert_eq!(
            subject(&one),
            json!({"kind": "ServiceAccount", "name": "agent", "namespace": "fleet-system"})
        );
    }
}
