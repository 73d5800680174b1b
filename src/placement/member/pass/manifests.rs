//! One manifest of a Work: decide, compare, apply.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use futures::future::join_all;
use serde_json::{Value, json};
use tracing::debug;

use hawser_placement::apply::compare::{self, covers};
use hawser_placement::apply::report::{self, Finding};
use hawser_placement::apply::{
    self, CompareReason, MANAGER, Manifest, Owner, Reason, Verdict, fields, merge,
};
use hawser_placement::availability;
use hawser_placement::types::placement::{
    ApplyStrategy, ApplyStrategyType, ComparisonOption, PatchDetail,
};
use hawser_runtime::cluster::connection::RequestError;
use hawser_runtime::cluster::wire::{Application, clean_error};
use hawser_sync::{Answer, Failure, Key, Request, Seen, Store as _};
use kube_lang::object::{Gvk, Object};

use super::{Item, SettledManifest, WorkOptions, WorkPass, WorkPassError, owned_by};

/// The number of decisions about a manifest that finds another state than expected.
const ATTEMPTS: usize = 4;
/// The number of missing objects of a kind in a namespace from which on they are listed instead of read.
const MANY: usize = 3;

impl WorkPass<'_> {
    /// Executes the decision about one manifest.
    pub(super) async fn settle(
        &self,
        item: &Item,
        owner: &Owner<'_>,
        orders: &WorkOptions,
        absent: &HashSet<&Key>,
    ) -> Result<SettledManifest, WorkPassError> {
        let strategy = &orders.strategy;
        let (manifest, key) = match &item.place {
            Ok(place) => (&place.0, &place.1),
            Err((reason, message)) => return Ok(Finding::new(*reason, message).into()),
        };
        let mut live = self.live(key).await?;
        for _ in 0..ATTEMPTS {
            let there = live.as_ref().map(|live| live.as_value());
            let is_left = there.is_some_and(|live| self.at.is_as_left(key, &manifest.hash, live));
            let mut found = Finding::new(Reason::Applied, "the manifest is applied");
            match apply::decide(manifest, there, owner, strategy, is_left) {
                Verdict::InSync => {
                    let there = there.unwrap_or(&Value::Null);
                    return Ok(self.applied(found, manifest, there, orders));
                }
                Verdict::Missing => {
                    let message = "the object does not exist in the member";
                    found = Finding::new(Reason::FoundDiff, message);
                    found.diffs = compare::missing();
                    return Ok(found.into());
                }
                Verdict::Refuse(reason, message) => {
                    let mut found = Finding::new(reason, message);
                    found.generation = there.map(report::generation);
                    return Ok(found.into());
                }
                Verdict::Compare(purpose) => {
                    let there = there.unwrap_or(&Value::Null);
                    let compared = self.compare(manifest, key, there, strategy).await?;
                    let has_failed = compared.is_err();
                    match judge(purpose, compared, there) {
                        Some(finding) if finding.reason.is_applied() => {
                            return Ok(self.applied(finding, manifest, there, orders));
                        }
                        Some(finding) => {
                            let mut settled = SettledManifest::from(finding);
                            settled.uid = owner.owns(there).then(|| uid(there));
                            settled.is_retried |= has_failed;
                            return Ok(settled);
                        }
                        None => {}
                    }
                }
                Verdict::Apply => {}
            }
            if let Some(object) = &live
                && let Some(kept) = owner.without_orphans(object.as_value())
            {
                match self.send(&owned_by(key.clone(), object, &kept)).await? {
                    Answer::Failed(
                        Failure::Conflict | Failure::NotFound | Failure::OtherIncarnation,
                    ) => {
                        live = self.look(key).await?;
                        continue;
                    }
                    Answer::Failed(failure) => return Err(failure.into()),
                    Answer::Object(_) | Answer::Gone | Answer::Listed(_) => {}
                }
            } else if live.is_none() && !absent.contains(key) {
                // An object that appeared a moment ago may be somebody else's.
                live = self.look(key).await?;
                if live.is_some() {
                    continue;
                }
            }
            let wanted = (manifest, owner, strategy);
            return match self.write(key, live.as_ref(), wanted).await? {
                Ok(object) => {
                    self.at.leave(key, &manifest.hash, object.as_value());
                    Ok(self.applied(found, manifest, object.as_value(), orders))
                }
                // Only a merge is about a version of the object.
                Err(Failure::Conflict | Failure::AlreadyExists | Failure::OtherIncarnation) => {
                    live = self.look(key).await?;
                    continue;
                }
                Err(Failure::Unavailable(problem) | Failure::NotSent(problem)) => {
                    Err(WorkPassError(problem))
                }
                Err(failure) => {
                    // The kind may not be served any more.
                    self.at.sides.discovery.invalidate(&key.kind.group);
                    let mut found = Finding::new(Reason::ManifestApplyFailed, failure.to_string());
                    let there = live.as_ref().map(|live| live.as_value());
                    found.generation = there.map(report::generation);
                    Ok(found.into())
                }
            };
        }
        Err(WorkPassError(format!(
            "{key} changes faster than it can be written"
        )))
    }

    /// Writes the object of a manifest: by server-side apply, or by a merge if the schema of the member does not fit it.
    async fn write(
        &self,
        key: &Key,
        live: Option<&Arc<Object>>,
        (manifest, owner, strategy): (&Manifest, &Owner<'_>, &ApplyStrategy),
    ) -> Result<Result<Arc<Object>, Failure>, WorkPassError> {
        let body = manifest.body(owner, strategy.type_);
        let is_client_side = strategy.type_ == ApplyStrategyType::ClientSideApply;
        let mut live = live.map(Arc::clone);
        if let Some(object) = &mut live
            && fields::needs_one_entry(object.as_value(), is_client_side)
            && let Some(managers) = fields::with_one_entry(&self.whole(key).await?)
        {
            *object = self.write_managers(key, object, &managers).await?;
        }
        let force = live.is_none() || self.forces(key, strategy).await?;
        let fits = match &live {
            Some(object) if is_client_side => {
                self.take_ownership_of_dropped(key, object, manifest, &body)
                    .await?
            }
            _ => true,
        };
        if fits {
            let application = Application {
                key,
                body: &body,
                manager: MANAGER,
                force,
                dry_run: false,
            };
            let sent = self.send_apply(&application).await;
            let is_refused = is_client_side && matches!(sent, Err(Failure::Invalid(_)));
            // Of a list that the manifest has dropped, others may have a part that is no object of its own.
            let drops = live.as_ref().is_some_and(|live| {
                fields::last_manifest(live.as_value(), &manifest.object).is_some()
            });
            if !is_refused || !(drops || self.is_untyped(key, &body).await) {
                return Ok(sent);
            }
        }
        let key = key.clone();
        let request = match live {
            None => {
                let object = Object::new(body).map_err(|error| WorkPassError(error.to_string()))?;
                Request::Create { key, object }
            }
            Some(live) => {
                let last = match fields::last_applied(live.as_value()) {
                    Some(last) => last,
                    None => fields::written(&self.whole(&key).await?),
                };
                match merge::patch(&body, owner, live.as_value(), &last) {
                    Some(patch) => Request::Patch { key, patch },
                    None => return Ok(Ok(live)),
                }
            }
        };
        Ok(match self.send(&request).await? {
            Answer::Object(object) => Ok(object),
            Answer::Failed(failure) => Err(failure),
            Answer::Gone | Answer::Listed(_) => Err(Failure::NotFound),
        })
    }

    /// Whether server-side apply refuses an object because the schema of the member does not fit it. A failure does not
    /// show that, because it has no words that may be contents.
    async fn is_untyped(&self, key: &Key, body: &Value) -> bool {
        let rehearsed = self.at.sides.rehearse(key, body).await;
        matches!(rehearsed, Err(RequestError::Refused(refusal)) if merge::is_untyped(&refusal.message))
    }

    /// The report about an object that is in the desired state.
    fn applied(
        &self,
        mut found: Finding,
        manifest: &Manifest,
        live: &Value,
        orders: &WorkOptions,
    ) -> SettledManifest {
        found.generation = Some(report::generation(live));
        found.availability = Some(availability::check(live, self.at.rules.jobs));
        if apply::reports_drift(&orders.strategy) {
            found.drifts = compare::differences(live, &manifest.object);
        }
        if orders.reports_back {
            found.observed = report::observed(live);
        }
        SettledManifest {
            uid: Some(uid(live)),
            ..found.into()
        }
    }

    /// The differences between an object and its manifest, and whether only a comparison of all fields shows them; or
    /// the reason why they are not known.
    async fn compare(
        &self,
        manifest: &Manifest,
        key: &Key,
        live: &Value,
        strategy: &ApplyStrategy,
    ) -> Result<Result<(Vec<PatchDetail>, bool), String>, WorkPassError> {
        if strategy.comparison_option == ComparisonOption::FullComparison {
            return Ok(Ok((compare::differences(live, &manifest.object), false)));
        }
        if covers(&manifest.object, live) {
            return Ok(Ok((Vec::new(), false)));
        }
        let body = &manifest.object;
        let application = Application {
            key,
            body,
            manager: MANAGER,
            force: true,
            dry_run: true,
        };
        let degraded = || Ok(Ok((compare::differences(live, body), true)));
        match self.send_apply(&application).await {
            Ok(merged) => {
                let mut details = compare::differences(live, merged.as_value());
                // The dry run also removes what an earlier manifest has named.
                details.retain(|detail| compare::names(body, detail));
                Ok(Ok((details, false)))
            }
            Err(Failure::Invalid(_)) => degraded(),
            Err(Failure::NotSent(problem)) => Err(WorkPassError(problem)),
            Err(failure @ Failure::Unavailable(_)) if !self.at.sides.is_ready().await => {
                Err(failure.into())
            }
            Err(Failure::Unavailable(_)) if self.is_untyped(key, body).await => degraded(),
            Err(failure) => Ok(Err(failure.to_string())),
        }
    }

    /// Makes what the manifest has dropped belong to members alone, so that it goes with the apply of this body. Returns
    /// false if the schema of the member does not fit one of the two manifests, so that a merge has to remove it.
    async fn take_ownership_of_dropped(
        &self,
        key: &Key,
        object: &Object,
        manifest: &Manifest,
        body: &Value,
    ) -> Result<bool, WorkPassError> {
        let Some(last) = fields::last_manifest(object.as_value(), &manifest.object) else {
            return Ok(true);
        };
        let sides = &self.at.sides;
        let asked = async {
            let live = sides.whole(key).await?;
            if !fields::are_shared(&live) {
                return Ok(None);
            }
            let last = sides.rehearse(key, &last).await?;
            let next = sides.rehearse(key, body).await?;
            Ok(fields::transfer_to_member(&live, &last, &next))
        };
        let managers = match asked.await {
            Ok(Some(managers)) => managers,
            Ok(None) => return Ok(true),
            Err(RequestError::Refused(refusal)) if merge::is_untyped(&refusal.message) => {
                return Ok(false);
            }
            // What cannot be applied is refused again, with a reason for the hub.
            Err(error @ RequestError::Refused(_)) => {
                let problem = clean_error(&error, &[&last, body]);
                debug!(%key, %problem, "cannot tell what a manifest has dropped");
                return Ok(true);
            }
            Err(error @ RequestError::Call(_)) => return Err(WorkPassError(error.to_string())),
        };
        self.write_managers(key, object, &managers).await?;
        Ok(true)
    }

    /// Replaces the managers of an object's fields.
    async fn write_managers(
        &self,
        key: &Key,
        object: &Object,
        managers: &[Value],
    ) -> Result<Arc<Object>, WorkPassError> {
        let patch = json!({"metadata": {
            "managedFields": managers, "resourceVersion": object.resource_version(), "uid": object.uid(),
        }});
        let key = key.clone();
        self.found(&Request::Patch { key, patch }).await
    }

    async fn whole(&self, key: &Key) -> Result<Value, WorkPassError> {
        let whole = self.at.sides.whole(key).await;
        whole.map_err(|error| WorkPassError(error.to_string()))
    }

    /// Whether fields of other managers are taken.
    async fn forces(&self, key: &Key, strategy: &ApplyStrategy) -> Result<bool, WorkPassError> {
        if apply::forces(strategy) {
            return Ok(true);
        }
        Ok(apply::has_no_other_manager(&self.whole(key).await?))
    }

    /// An object as the tables have it, or by a live read.
    async fn live(&self, key: &Key) -> Result<Option<Arc<Object>>, WorkPassError> {
        match self.at.cache.get(key) {
            Seen::Present(object) if !object.is_fragment() => Ok(Some(object)),
            Seen::Absent => Ok(None),
            Seen::Present(_) | Seen::Unknown => self.look(key).await,
        }
    }

    /// The objects that do not exist, as the lists of their namespaces say: one request instead of one for each.
    pub(super) async fn absent<'i>(
        &self,
        items: &'i [Item],
        indices: &[usize],
    ) -> HashSet<&'i Key> {
        let mut missing: BTreeMap<(&Gvk, Option<&str>), Vec<&Key>> = BTreeMap::new();
        let places = indices.iter().map(|index| &items[*index].place);
        for (_, key) in places.flatten() {
            if self.at.cache.get(key) == Seen::Absent {
                let place = (&*key.kind, key.namespace.as_deref());
                missing.entry(place).or_default().push(key);
            }
        }
        let many = missing.values().filter(|keys| keys.len() >= MANY);
        let listed = many.map(async |keys| {
            let names = self.at.sides.names(keys[0]).await?;
            let absent = keys.iter().filter(|key| !names.contains(&*key.name));
            Some(absent.copied().collect::<Vec<_>>())
        });
        let listed = join_all(listed).await;
        listed.into_iter().flatten().flatten().collect()
    }

    pub(super) async fn look(&self, key: &Key) -> Result<Option<Arc<Object>>, WorkPassError> {
        match self.send(&Request::Read { key: key.clone() }).await? {
            Answer::Object(object) => Ok(Some(object)),
            Answer::Gone => Ok(None),
            Answer::Failed(failure) => Err(failure.into()),
            Answer::Listed(_) => Err(WorkPassError(
                "the member returned a list instead of an object".to_owned(),
            )),
        }
    }
}

fn uid(object: &Value) -> String {
    object["metadata"]["uid"]
        .as_str()
        .unwrap_or_default()
        .to_owned()
}

/// The consequence of a comparison; `None` if the manifest has to be applied.
fn judge(
    purpose: CompareReason,
    compared: Result<(Vec<PatchDetail>, bool), String>,
    live: &Value,
) -> Option<Finding> {
    let (details, is_degraded) = match compared {
        Ok(compared) => compared,
        Err(problem) => {
            let reason = match purpose {
                CompareReason::TakeOver => Reason::FailedToTakeOver,
                CompareReason::Drift => Reason::FailedToRunDriftDetection,
                CompareReason::Report => Reason::FailedToReportDiff,
            };
            return Some(Finding::new(reason, problem));
        }
    };
    let found = !details.is_empty();
    let places = match details.len() {
        1 => "1 place".to_owned(),
        count => format!("{count} places"),
    };
    let (reason, message) = match (purpose, found, is_degraded) {
        (CompareReason::TakeOver, false, _) => return None,
        (CompareReason::TakeOver, true, _) => (
            Reason::FailedToTakeOver,
            format!(
                "the object already exists and differs in {places}, and whenToTakeOver is IfNoDiff"
            ),
        ),
        (CompareReason::Drift, false, _) => (Reason::Applied, "the manifest is applied".to_owned()),
        (CompareReason::Drift, true, degraded) => {
            let reason = if degraded {
                Reason::FoundDriftsInDegradedMode
            } else {
                Reason::FoundDrifts
            };
            (
                reason,
                format!("the object was changed in {places}, and whenToApply is IfNotDrifted"),
            )
        }
        (CompareReason::Report, false, _) => (
            Reason::NoDiffFound,
            "the object matches its manifest".to_owned(),
        ),
        (CompareReason::Report, true, degraded) => {
            let reason = if degraded {
                Reason::FoundDiffInDegradedMode
            } else {
                Reason::FoundDiff
            };
            (reason, format!("the object differs in {places}"))
        }
    };
    let mut finding = Finding::new(reason, message);
    finding.generation = Some(report::generation(live));
    if purpose == CompareReason::Drift {
        finding.drifts = details;
    } else {
        finding.diffs = details;
    }
    Some(finding)
}
