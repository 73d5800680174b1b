//! A Work in deletion: placed objects are deleted with its `AppliedWork`, or stay if the hub abandons them.

use std::collections::BTreeMap;
use std::time::Duration;

use futures::{StreamExt as _, TryStreamExt as _, stream};
use jiff::Timestamp;
use serde_json::Value;

use hawser_placement::apply::Owner;
use hawser_placement::names::{PROPAGATION, WORK_FINALIZER};
use hawser_placement::types::work::{AppliedWork, Work, WorkResourceIdentifier};
use hawser_sync::{Answer, Failure, Key, Request};
use kube_lang::object::Object;

use super::super::sides::MemberSides;
use super::{
    ManifestIdentity, PARALLEL, WorkPass, WorkPassError, WorkProgress, identity, owned_by, typed,
};

/// The interval at which objects with other owners are checked while they keep a Work.
const AGAIN: Duration = Duration::from_secs(10);

impl WorkPass<'_> {
    pub(super) async fn delete(&self, work: &Object) -> Result<WorkProgress, WorkPassError> {
        if !work.has_finalizer(WORK_FINALIZER) {
            return Ok(WorkProgress::Done);
        }
        let key = MemberSides::applied_work(self.name);
        let applied = match self.send(&Request::Read { key: key.clone() }).await? {
            Answer::Object(applied) => applied,
            Answer::Gone => {
                self.write_finalizer(work, false).await?;
                self.at.forget(self.name);
                return Ok(WorkProgress::Done);
            }
            Answer::Failed(failure) => return Err(failure.into()),
            Answer::Listed(_) => {
                return Err(WorkPassError(
                    "the member returned a list instead of an object".to_owned(),
                ));
            }
        };
        if work.as_value()["metadata"]["annotations"][PROPAGATION] == "Abandon" {
            self.each_owned(work, &applied, |object, owner| {
                Some(owner.without_owner(object.as_value()).unwrap_or_default())
            })
            .await?;
        }
        let is_work = |name: &str| self.at.is_work(name);
        let owner = self.owner(&applied, &is_work);
        let objects = listed(work, &applied)?;
        self.hand_over(work, objects.values(), &owner).await?;
        if applied.in_deletion() {
            return self.wait(work, &applied).await;
        }
        let request = Request::Delete {
            key,
            uid: applied.uid().unwrap_or_default().into(),
            options: [("propagationPolicy".to_owned(), "Foreground".into())]
                .into_iter()
                .collect(),
        };
        match self.send(&request).await? {
            Answer::Failed(failure) => Err(failure.into()),
            // Its end is heard of, unless it was the answer.
            Answer::Gone => Ok(WorkProgress::Unfinished),
            _ => Ok(WorkProgress::Later(self.at.rules.deletion_wait)),
        }
    }

    /// The garbage collector deletes the objects. An object with other owners does not keep the Work forever.
    async fn wait(&self, work: &Object, applied: &Object) -> Result<WorkProgress, WorkPassError> {
        let since = applied.as_value()["metadata"]["deletionTimestamp"].as_str();
        let since: Option<Timestamp> = since.and_then(|since| since.parse().ok());
        let waited = since.map(|since| Timestamp::now().duration_since(since));
        let waited = waited.and_then(|waited| Duration::try_from(waited).ok());
        let left = self.at.rules.deletion_wait;
        if let Some(left) = left.checked_sub(waited.unwrap_or_default())
            && !left.is_zero()
        {
            return Ok(WorkProgress::Later(left));
        }
        self.each_owned(work, applied, |object, owner| {
            owner.without_owner(object.as_value())?;
            owner.without_block(object.as_value())
        })
        .await?;
        Ok(WorkProgress::Later(AGAIN))
    }

    /// Gives other owners to the objects that belong to this Work, where there is something to change.
    async fn each_owned(
        &self,
        work: &Object,
        applied: &Object,
        owners: impl Fn(&Object, &Owner<'_>) -> Option<Vec<Value>>,
    ) -> Result<(), WorkPassError> {
        let is_work = |name: &str| self.at.is_work(name);
        let owner = self.owner(applied, &is_work);
        let (owner, owners) = (&owner, &owners);
        let changed = listed(work, applied)?.into_values().map(|one| async move {
            match self.known_place(&one).await? {
                Some(key) => self.remove_owner(key, owner, owners).await,
                None => Ok(()),
            }
        });
        stream::iter(changed)
            .buffer_unordered(PARALLEL)
            .try_collect()
            .await
    }

    async fn remove_owner(
        &self,
        key: Key,
        owner: &Owner<'_>,
        owners: impl Fn(&Object, &Owner<'_>) -> Option<Vec<Value>>,
    ) -> Result<(), WorkPassError> {
        let Some(object) = self.look(&key).await? else {
            return Ok(());
        };
        if !owner.owns(object.as_value()) {
            return Ok(());
        }
        let Some(owners) = owners(&object, owner) else {
            return Ok(());
        };
        self.set_owners(key, &object, &owners).await
    }

    pub(super) async fn set_owners(
        &self,
        key: Key,
        object: &Object,
        owners: &[Value],
    ) -> Result<(), WorkPassError> {
        match self.send(&owned_by(key, object, owners)).await? {
            Answer::Failed(Failure::NotFound | Failure::OtherIncarnation) => Ok(()),
            Answer::Failed(failure) => Err(failure.into()),
            _ => Ok(()),
        }
    }

    /// The place of an object; `None` if the member does not serve its kind, so that there is none.
    pub(super) async fn known_place(
        &self,
        one: &WorkResourceIdentifier,
    ) -> Result<Option<Key>, WorkPassError> {
        let placed = self.at.sides.find(one).await;
        placed.map_err(|error| WorkPassError(error.to_string()))
    }

    fn owner<'o>(
        &'o self,
        applied: &'o Object,
        is_work: &'o (dyn Fn(&str) -> bool + Sync),
    ) -> Owner<'o> {
        Owner {
            name: self.name,
            uid: applied.uid().unwrap_or_default(),
            is_work,
        }
    }
}

/// Every object that may have been placed.
fn listed(
    work: &Object,
    applied: &Object,
) -> Result<BTreeMap<ManifestIdentity, WorkResourceIdentifier>, WorkPassError> {
    let work: Work = typed(work)?;
    let applied: AppliedWork = typed(applied)?;
    let from_work = work.status.manifest_conditions.into_iter();
    let applied = applied.status.applied_resources.into_iter();
    let all = from_work
        .map(|one| one.identifier)
        .chain(applied.map(|one| one.identifier));
    let all = all.filter(|one| !one.name.is_empty());
    Ok(all.map(|one| (identity(&one), one)).collect())
}
