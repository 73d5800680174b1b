//! The pass over one member: its namespace and role, its status, its leaving.

use std::sync::Arc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use serde::Deserialize as _;
use serde_json::{Value, json};
use tokio::time::Instant;
use tracing::{info, warn};

use hawser_placement::hub::HubWrite;
use hawser_placement::hub::members::{
    Leaving, MemberView, decide, foundation, is_founded, leaving, marks,
};
use hawser_placement::names;
use hawser_placement::types::cluster::{InternalMemberCluster, MemberCluster};
use hawser_placement::types::{ConditionStatus, Metadata, condition};
use hawser_runtime::cluster::connection::{Call, RequestError};
use hawser_runtime::cluster::queue::Outcome;
use hawser_runtime::cluster::wire::collection;
use hawser_sync::{Seen, Store as _};

use super::error::HubPassError;
use super::key::HubKey;
use super::objects;
use super::passes::{HubController, time};

const KIND: &str = "MemberCluster";
/// The time after which namespace, `Role` and `RoleBinding` of a member are looked at again.
const FOUNDATION_CHECK: Duration = Duration::from_mins(10);
/// More rounds than any pass over a member needs.
const ROUNDS: usize = 16;

impl HubController {
    pub(super) async fn member(&self, name: &Arc<str>) -> Result<Outcome, HubPassError> {
        let by = HubKey::Member(Arc::clone(name));
        for _ in 0..ROUNDS {
            let Some(member) = self.get::<MemberCluster>(KIND, None, name)? else {
                self.founded.lock().remove(name);
                return Ok(Outcome::Settled);
            };
            let in_deletion = member.metadata.in_deletion();
            if !in_deletion {
                if let Some(write) = marks(&member) {
                    self.send(&by, write).await?;
                    continue;
                }
                let namespace = names::member_namespace(name);
                let is_there = self
                    .get::<InternalMemberCluster>("InternalMemberCluster", Some(&namespace), name)?
                    .is_some();
                if !is_there {
                    // Its namespace may be gone as well.
                    self.founded.lock().remove(name);
                }
                self.found(name, &member).await?;
            } else if !member
                .metadata
                .finalizers
                .iter()
                .any(|one| one == names::MEMBER_FINALIZER)
            {
                return Ok(Outcome::Settled);
            }
            let namespace = names::member_namespace(name);
            let internal: Option<InternalMemberCluster> =
                self.get("InternalMemberCluster", Some(&namespace), name)?;
            let now = Timestamp::now();
            let left = self.time_left(&member, now);
            let view = MemberView {
                member: &member,
                internal: internal.as_ref(),
                now: &time(now),
                networking: self.rules.networking,
                is_overdue: left.is_some_and(|left| !left.is_positive()),
            };
            if in_deletion && leaving(&view) == Leaving::Done {
                if view.is_overdue {
                    warn!(
                        member = &**name,
                        "the member did not leave in time; deleting its Works"
                    );
                }
                self.remove_remaining_objects(&by, &member).await?;
                return Ok(Outcome::Settled);
            }
            let stages = decide(&view);
            if stages.is_empty() {
                return Ok(match left.filter(|_| in_deletion) {
                    Some(left) => Outcome::Again(left.max(SignedDuration::ZERO).unsigned_abs()),
                    None => Outcome::Settled,
                });
            }
            for write in stages.into_stages().flatten() {
                self.record_write(&member, &write);
                self.send(&by, write).await?;
            }
        }
        Err(HubPassError::Failed(format!(
            "still not settled after {ROUNDS} rounds of writes: check whether another program changes the same objects"
        )))
    }

    /// The time that a member in deletion has left to leave.
    fn time_left(&self, member: &MemberCluster, now: Timestamp) -> Option<SignedDuration> {
        let since: Timestamp = member.metadata.deletion_timestamp.as_ref()?.parse().ok()?;
        Some(
            self.rules
                .force_delete
                .saturating_sub(now.duration_since(since)),
        )
    }

    /// Sends events and updates metrics for a write.
    fn record_write(&self, member: &MemberCluster, write: &HubWrite) {
        let metadata = &member.metadata;
        match write {
            HubWrite::Create(_) => self.record(
                KIND,
                metadata,
                "InternalMemberClusterCreated",
                "Internal member cluster was created",
            ),
            HubWrite::Patch { .. } => self.record(
                KIND,
                metadata,
                "InternalMemberClusterSpecUpdated",
                "Internal member cluster spec was updated",
            ),
            HubWrite::Status { status, .. } => {
                let said = |type_: &str| {
                    let before = condition(&member.status.conditions, type_);
                    let before = before.map(|one| one.status);
                    let said = status["conditions"].as_array().into_iter().flatten();
                    let new = said.into_iter().find(|one| one["type"] == type_);
                    let new = new.and_then(|new| ConditionStatus::deserialize(&new["status"]).ok());
                    new.filter(|new| before != Some(*new))
                        .map(|new| (before, new))
                };
                if let Some((_, ConditionStatus::True)) = said("ReadyToJoin") {
                    let message = "Member cluster is ready to join";
                    self.record(KIND, metadata, "MemberClusterReadyToJoin", message);
                }
                match said("Joined") {
                    Some((_, ConditionStatus::True)) => {
                        self.numbers.joined();
                        let message = "Member cluster has joined";
                        self.record(KIND, metadata, "MemberClusterJoined", message);
                    }
                    Some((_, ConditionStatus::False)) => {
                        let message = "Member cluster has left";
                        self.record(KIND, metadata, "MemberClusterLeft", message);
                    }
                    Some((Some(_), ConditionStatus::Unknown)) => {
                        let message = "Member cluster does not report whether it has joined";
                        self.record(KIND, metadata, "MemberClusterJoinStateUnknown", message);
                    }
                    // A new member has not said anything yet.
                    Some((None, ConditionStatus::Unknown)) | None => {}
                }
            }
            HubWrite::Delete { .. } => {}
        }
    }

    /// Lays the foundation of a member: at its first pass in each process, whenever its spec has changed, and from time to
    /// time.
    async fn found(&self, name: &Arc<str>, member: &MemberCluster) -> Result<(), HubPassError> {
        let uid = member.metadata.uid.clone().unwrap_or_default();
        let founded = self.founded.lock().get(name).cloned();
        let is_recent =
            |(of, time): (String, Instant)| of == uid && time.elapsed() < FOUNDATION_CHECK;
        if is_founded(member) && founded.is_some_and(is_recent) {
            return Ok(());
        }
        let parts = ["labels", "rules", "subjects"];
        let events = [
            ("NamespaceCreated", "NamespacePatched"),
            ("RoleCreated", "RoleUpdated"),
            ("RoleBindingCreated", "RoleBindingUpdated"),
        ];
        for ((object, part), (created, updated)) in
            foundation(member).into_iter().zip(parts).zip(events)
        {
            let about = format!("{} {}", object["kind"], object["metadata"]["name"]);
            let laid = self.create_or_update(&object, part).await;
            let laid = laid.map_err(|error| HubPassError::Failed(format!("{about}: {error}")))?;
            match laid {
                ApplyOutcome::Same => {}
                ApplyOutcome::Created => self.record(KIND, &member.metadata, created, &about),
                ApplyOutcome::Updated => self.record(KIND, &member.metadata, updated, &about),
            }
        }
        let founded = (uid, Instant::now());
        self.founded.lock().insert(Arc::clone(name), founded);
        Ok(())
    }

    /// Creates an object, or updates one part of it.
    async fn create_or_update(
        &self,
        object: &Value,
        part: &str,
    ) -> Result<ApplyOutcome, RequestError> {
        let kind = object["kind"].as_str().unwrap_or_default();
        let metadata = &object["metadata"];
        let all = collection(
            &objects::gvk(kind),
            metadata["namespace"].as_str(),
            &objects::resource(kind),
        );
        let one = format!("{all}/{}", metadata["name"].as_str().unwrap_or_default());
        let found = match self.hub.ask(Call::get(&*one)).await {
            Err(error) if error.code() == Some(404) => {
                self.hub.ask(Call::post(all, object)).await?;
                return Ok(ApplyOutcome::Created);
            }
            found => found?,
        };
        let (is_same, patch) = if part == "labels" {
            let wanted = metadata["labels"].as_object();
            let mut wanted = wanted.into_iter().flatten();
            let known = &found["metadata"]["labels"];
            (
                wanted.all(|(key, value)| known[key] == *value),
                json!({"metadata": {"labels": metadata["labels"]}}),
            )
        } else {
            (found[part] == object[part], json!({part: object[part]}))
        };
        if is_same {
            return Ok(ApplyOutcome::Same);
        }
        self.hub.ask(Call::merge_patch(one, &patch)).await?;
        Ok(ApplyOutcome::Updated)
    }

    /// Removes the remaining objects of a member that has no agent any more. The objects that it applied stay in it.
    async fn remove_remaining_objects(
        &self,
        by: &HubKey,
        member: &MemberCluster,
    ) -> Result<(), HubPassError> {
        let namespace = names::member_namespace(&member.metadata.name);
        for key in self.table("Work")?.keys_of("", Some(&namespace)) {
            let Seen::Present(object) = self.cache.get(&key) else {
                continue;
            };
            let metadata = &object.as_value()["metadata"];
            let metadata = Metadata::deserialize(metadata);
            let metadata =
                metadata.map_err(|error| HubPassError::Failed(format!("{key}: {error}")))?;
            let finalizers = &[names::WORK_FINALIZER];
            if let Some(write) = HubWrite::remove_finalizers("Work", &metadata, finalizers) {
                self.send(by, write).await?;
            }
        }
        let path = format!("/api/v1/namespaces/{namespace}");
        match self.hub.ask(Call::delete(path, &json!({}))).await {
            // A namespace that is not empty yet says 409 to a second deletion.
            Err(error) if !matches!(error.code(), Some(404 | 409)) => {
                let problem = format!("deleting namespace {namespace}: {error}");
                return Err(HubPassError::Failed(problem));
            }
            _ => {}
        }
        let finalizers = &[names::MEMBER_FINALIZER];
        if let Some(write) = HubWrite::remove_finalizers(KIND, &member.metadata, finalizers) {
            self.send(by, write).await?;
        }
        info!(member = member.metadata.name, "the member has left");
        self.numbers.left();
        Ok(())
    }
}

enum ApplyOutcome {
    Same,
    Created,
    Updated,
}
