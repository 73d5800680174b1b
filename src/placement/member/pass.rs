//! The work on one Work: finalizer, `AppliedWork`, left-overs, the manifests in waves, status. Each pass could be the
//! first after a restart.
//!
//! | order that survives a crash | reason |
//! |---|---|
//! | finalizer, `AppliedWork`, then anything else | what is placed has an owner that goes with the Work |
//! | left-overs, then the list in the status of the Work, then applies | every object that may exist is on a list, there or in `AppliedWork` |
//! | `AppliedWork` gone, then the finalizer | the garbage collector has removed what was placed |

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt as _;
use futures::stream;
use parking_lot::Mutex;
use serde_json::{Value, json};
use tracing::{debug, warn};

use hawser_placement::apply::compare::{self, covers};
use hawser_placement::apply::report::{self, Finding};
use hawser_placement::apply::{self, MANAGER, Manifest, Owner, Purpose, Reason, Verdict};
use hawser_placement::availability;
use hawser_placement::names::{WORK_FINALIZER, member_namespace};
use hawser_placement::types::placement::{
    ApplyStrategy, ApplyStrategyType, ComparisonOption, PatchDetail,
};
use hawser_placement::types::work::{
    AppliedResource, AppliedWork, AppliedWorkStatus, ManifestCondition, Work,
    WorkResourceIdentifier, WorkStatus,
};
use hawser_runtime::cluster::queue::Outcome;
use hawser_runtime::cluster::wire::Application;
use hawser_sync::{Answer, Contest, Failure, Key, Request, Seen, Store as _};
use kube_lang::object::Object;

use super::applier::{Applier, Phase};
use super::sides::{APPLIED_WORK, Sides, now};

/// Manifests that are applied at a time.
const PARALLEL: usize = 8;
/// How often a manifest is decided about again because something else was there than was known.
const ATTEMPTS: usize = 4;

/// See the module.
pub struct WorkPass<'a> {
    at: &'a Applier,
    name: &'a Arc<str>,
    /// At the start. What was decided in one phase is not sent in another.
    phase: Phase,
    /// How long it is until something may be written that somebody else undoes each time.
    put_off: Mutex<Option<Duration>>,
}

/// A pass that cannot go on now; it is repeated.
struct Stuck(String);

impl From<Failure> for Stuck {
    fn from(failure: Failure) -> Self {
        Self(failure.to_string())
    }
}

/// What tells an object from others, whatever version it is written in.
type Identity = (String, String, String, String);

fn identity(of: &WorkResourceIdentifier) -> Identity {
    let WorkResourceIdentifier {
        group,
        kind,
        namespace,
        name,
        ..
    } = of;
    (group.clone(), kind.clone(), namespace.clone(), name.clone())
}

/// A manifest, and where its object is.
struct Item {
    identifier: WorkResourceIdentifier,
    place: Result<(Manifest, Key), (Reason, String)>,
}

/// What came of a manifest, and its object if it belongs to the Work.
struct Settled {
    finding: Finding,
    uid: Option<String>,
}

impl From<Finding> for Settled {
    fn from(finding: Finding) -> Self {
        Self { finding, uid: None }
    }
}

impl<'a> WorkPass<'a> {
    pub fn new(at: &'a Applier, name: &'a Arc<str>) -> Self {
        Self {
            at,
            name,
            phase: at.phase(),
            put_off: Mutex::default(),
        }
    }

    pub async fn run(&self) -> Outcome {
        let work = match self.at.cache.get(&self.at.sides.work(self.name)) {
            Seen::Present(work) => work,
            Seen::Absent => {
                self.at.forget(self.name);
                return Outcome::Settled;
            }
            Seen::Unknown => return Outcome::Settled,
        };
        let done = match self.phase {
            // The phase leads here again.
            Phase::Idle => return Outcome::Settled,
            Phase::Leaving => self.release(&work).await,
            Phase::Joined if work.in_deletion() => self.delete(&work).await,
            Phase::Joined => self.apply(work).await,
        };
        let put_off = *self.put_off.lock();
        match (done, put_off) {
            (Ok(true), _) => Outcome::Settled,
            (Ok(false), Some(wait)) => Outcome::Again(wait),
            (Ok(false), None) => Outcome::Failed(None),
            (Err(Stuck(problem)), _) => {
                debug!(work = &**self.name, problem, "a Work is tried again");
                Outcome::Failed(None)
            }
        }
    }

    /// The member leaves: what is placed stays, and nobody waits for this agent.
    async fn release(&self, work: &Object) -> Result<bool, Stuck> {
        if work.has_finalizer(WORK_FINALIZER) {
            self.write_finalizer(work, false).await?;
        }
        self.at.forget(self.name);
        Ok(true)
    }

    async fn delete(&self, work: &Object) -> Result<bool, Stuck> {
        if !work.has_finalizer(WORK_FINALIZER) {
            return Ok(true);
        }
        let key = Sides::applied_work(self.name);
        match self.send(&Request::Read { key: key.clone() }).await? {
            Answer::Gone => {
                self.write_finalizer(work, false).await?;
                self.at.forget(self.name);
            }
            Answer::Object(applied) if !applied.in_deletion() => {
                let request = Request::Delete {
                    key,
                    uid: applied.uid().unwrap_or_default().into(),
                    options: [("propagationPolicy".to_owned(), "Foreground".into())]
                        .into_iter()
                        .collect(),
                };
                // Its end is heard of, unless it was the answer.
                return match self.send(&request).await? {
                    Answer::Gone => Ok(false),
                    Answer::Failed(failure) => Err(failure.into()),
                    _ => Ok(true),
                };
            }
            Answer::Object(_) => {}
            Answer::Failed(failure) => return Err(failure.into()),
            Answer::Listed(_) => return Err(Stuck("the member answered with a list".to_owned())),
        }
        Ok(true)
    }

    async fn apply(&self, work: Arc<Object>) -> Result<bool, Stuck> {
        let work = if work.has_finalizer(WORK_FINALIZER) {
            work
        } else {
            self.write_finalizer(&work, true).await?
        };
        let read: Work = match serde_json::from_value(work.as_value().clone()) {
            Ok(read) => read,
            Err(error) => {
                warn!(work = &**self.name, %error, "a Work cannot be read");
                return Ok(true);
            }
        };
        let applied_work = self.applied_work().await?;
        if applied_work.in_deletion() {
            // Its end leads here again.
            return Ok(true);
        }
        let applied: AppliedWork =
            serde_json::from_value(applied_work.as_value().clone()).unwrap_or_default();
        let strategy = read.spec.apply_strategy.clone().unwrap_or_default();
        let reports = strategy.type_ == ApplyStrategyType::ReportDiff;
        let items = self.items(&read.spec.workload.manifests).await;
        let keys = items
            .iter()
            .filter_map(|item| Some(item.place.as_ref().ok()?.1.clone()));
        self.at.follow(self.name, keys.collect()).await;

        let is_work = |name: &str| self.at.is_work(name);
        let owner = Owner {
            name: self.name,
            uid: applied_work.uid().unwrap_or_default(),
            is_work: &is_work,
        };
        let stuck = if reports {
            applied.status.applied_resources.clone()
        } else {
            self.remove_leftovers(&items, &read, &applied, &owner).await
        };
        let mut before: HashMap<Identity, ManifestCondition> = HashMap::new();
        for one in &read.status.manifest_conditions {
            before
                .entry(identity(&one.identifier))
                .or_insert_with(|| one.clone());
        }
        let mut work = work;
        if !reports {
            let left = stuck
                .iter()
                .any(|one| !applied.status.applied_resources.contains(one));
            let mut listed = applied.status.applied_resources.clone();
            listed.extend(
                stuck
                    .iter()
                    .filter(|one| !listed.contains(one))
                    .cloned()
                    .collect::<Vec<_>>(),
            );
            if left {
                self.write_applied(&applied_work, &listed).await?;
            }
            if let Some(status) = ahead(&items, &read.status, &before) {
                work = self.write_status(work, &status).await?;
            }
        }

        let mut results: BTreeMap<usize, Settled> = BTreeMap::new();
        for (wave, indices) in waves(&items, reports) {
            debug!(
                work = &**self.name,
                wave,
                count = indices.len(),
                "a wave begins"
            );
            let settled = indices.into_iter().map(|index| {
                let (item, owner, strategy) = (&items[index], &owner, &strategy);
                async move { (index, self.settle(item, owner, strategy).await) }
            });
            let mut settled = stream::iter(settled).buffer_unordered(PARALLEL);
            while let Some((index, result)) = settled.next().await {
                results.insert(index, result?);
            }
        }
        self.report(
            &work,
            &applied_work,
            &items,
            results,
            (&applied, &stuck, &before, reports),
        )
        .await
    }

    /// Writes down what came of the manifests.
    async fn report(
        &self,
        work: &Arc<Object>,
        applied_work: &Arc<Object>,
        items: &[Item],
        results: BTreeMap<usize, Settled>,
        (applied, stuck, before, reports): (
            &AppliedWork,
            &[AppliedResource],
            &HashMap<Identity, ManifestCondition>,
            bool,
        ),
    ) -> Result<bool, Stuck> {
        let is_retried = |settled: &Settled| {
            matches!(
                settled.finding.reason,
                Reason::ManifestApplyFailed
                    | Reason::FailedToFindObjInMemberCluster
                    | Reason::FailedToRunDriftDetection
                    | Reason::FailedToReportDiff
            )
        };
        let is_done = (reports || stuck.is_empty()) && !results.values().any(is_retried);
        let now = now();
        let mut listed = Vec::new();
        let mut manifests = Vec::new();
        for (item, (_, settled)) in items.iter().zip(results) {
            let id = identity(&item.identifier);
            let old = applied.status.applied_resources.iter();
            let old = old
                .filter(|old| identity(&old.identifier) == id)
                .map(|old| old.uid.clone());
            // What could not be looked at is not forgotten. Of manifests for one object the first one counts.
            let uid = match settled.uid {
                Some(uid) => Some(uid),
                None if settled.finding.reason == Reason::Duplicated => None,
                None => old.last(),
            };
            listed.extend(uid.map(|uid| AppliedResource {
                identifier: item.identifier.clone(),
                uid,
            }));
            let identifier = item.identifier.clone();
            let before = before.get(&id);
            manifests.push(report::manifest(
                identifier,
                settled.finding,
                reports,
                before,
                &now,
            ));
        }
        if !reports {
            listed.extend(stuck.iter().cloned());
            if listed != applied.status.applied_resources {
                self.write_applied(applied_work, &listed).await?;
            }
        }
        let read: Work = serde_json::from_value(work.as_value().clone())
            .map_err(|error| Stuck(error.to_string()))?;
        let generation = read.metadata.generation;
        let mut status = report::work(manifests, reports, &read.status, generation, &now);
        let without = {
            let mut rest = work.as_value().clone();
            rest["status"].take();
            rest.to_string().len()
        };
        report::trim(&mut status, without, generation, &now);
        if status != read.status {
            self.write_status(Arc::clone(work), &status).await?;
        }
        Ok(is_done)
    }

    /// The manifests, and where their objects are.
    async fn items(&self, manifests: &[Value]) -> Vec<Item> {
        let mut seen = HashSet::new();
        let mut items = Vec::new();
        for (ordinal, manifest) in manifests.iter().enumerate() {
            let (mut identifier, read) = apply::read(ordinal, manifest);
            let place = match read {
                Err(problem) => Err(problem),
                Ok(_) if !seen.insert(identity(&identifier)) => {
                    let message = "an earlier manifest describes the same object";
                    Err((Reason::Duplicated, message.to_owned()))
                }
                Ok(manifest) => self.place(&mut identifier, manifest).await,
            };
            items.push(Item { identifier, place });
        }
        items
    }

    async fn place(
        &self,
        identifier: &mut WorkResourceIdentifier,
        manifest: Manifest,
    ) -> Result<(Manifest, Key), (Reason, String)> {
        let problem = match self.at.sides.place(identifier).await {
            Ok(Some((key, resource))) => {
                resource.as_ref().clone_into(&mut identifier.resource);
                if key.namespace.as_deref() != Some("") {
                    return Ok((manifest, key));
                }
                "the kind is namespaced and the manifest has no namespace".to_owned()
            }
            Ok(None) => {
                let WorkResourceIdentifier {
                    group,
                    version,
                    kind,
                    ..
                } = &*identifier;
                format!("the member does not serve kind {kind} of {group}/{version}")
            }
            Err(error) => error.to_string(),
        };
        Err((Reason::FailedToFindObjInMemberCluster, problem))
    }

    /// The `AppliedWork`, made if there is none.
    async fn applied_work(&self) -> Result<Arc<Object>, Stuck> {
        let key = Sides::applied_work(self.name);
        if let Seen::Present(object) = self.at.cache.get(&key) {
            return Ok(object);
        }
        let object = json!({
            "apiVersion": APPLIED_WORK.api_version(), "kind": APPLIED_WORK.kind,
            "metadata": {"name": **self.name},
            "spec": {"workName": **self.name, "workNamespace": member_namespace(&self.at.sides.name)},
        });
        let object = Object::new(object).map_err(|error| Stuck(error.to_string()))?;
        let created = self
            .send(&Request::Create {
                key: key.clone(),
                object,
            })
            .await?;
        match created {
            Answer::Failed(Failure::AlreadyExists) => self.found(&Request::Read { key }).await,
            other => self.object(other),
        }
    }

    /// Removes objects of manifests that are gone; returns those that could not be removed.
    async fn remove_leftovers(
        &self,
        items: &[Item],
        work: &Work,
        applied: &AppliedWork,
        owner: &Owner<'_>,
    ) -> Vec<AppliedResource> {
        let wanted: HashSet<Identity> = items
            .iter()
            .map(|item| identity(&item.identifier))
            .collect();
        // The object of a manifest that cannot be read is not known: it could be any.
        let is_readable = |item: &Item| !matches!(&item.place, Err((Reason::DecodingErred, _)));
        let is_known = items.iter().all(is_readable);
        let mut left: BTreeMap<Identity, AppliedResource> = BTreeMap::new();
        let from_work = work
            .status
            .manifest_conditions
            .iter()
            .map(|one| AppliedResource {
                identifier: one.identifier.clone(),
                uid: String::new(),
            });
        for one in applied
            .status
            .applied_resources
            .iter()
            .cloned()
            .chain(from_work)
        {
            let id = identity(&one.identifier);
            if !id.3.is_empty() && !wanted.contains(&id) {
                left.entry(id).or_insert(one);
            }
        }
        let mut stuck = Vec::new();
        for one in left.into_values() {
            if !is_known {
                stuck.push(one);
            } else if let Err(Stuck(problem)) = self.remove(&one, owner).await {
                let (kind, name) = (&one.identifier.kind, &one.identifier.name);
                warn!(
                    work = &**self.name,
                    kind, name, problem, "cannot remove an object"
                );
                stuck.push(one);
            }
        }
        stuck
    }

    /// Deletes an object that belongs to this Work alone; one with other owners loses this one.
    async fn remove(&self, resource: &AppliedResource, owner: &Owner<'_>) -> Result<(), Stuck> {
        let placed = self.at.sides.place(&resource.identifier).await;
        let placed = placed.map_err(|error| Stuck(error.to_string()))?;
        // What is not served does not exist.
        let Some((key, _)) = placed else {
            return Ok(());
        };
        let object = match self.send(&Request::Read { key: key.clone() }).await? {
            Answer::Object(object) => object,
            Answer::Gone => return Ok(()),
            Answer::Failed(failure) => return Err(failure.into()),
            Answer::Listed(_) => return Err(Stuck("the member answered with a list".to_owned())),
        };
        if !owner.owns(object.as_value()) || object.in_deletion() {
            return Ok(());
        }
        let request = match owner.without_me(object.as_value()) {
            Some(others) => owned_by(key, &object, &others),
            None => Request::delete(key, object.uid().unwrap_or_default()),
        };
        match self.send(&request).await? {
            Answer::Failed(Failure::NotFound | Failure::OtherIncarnation) => Ok(()),
            Answer::Failed(failure) => Err(failure.into()),
            _ => Ok(()),
        }
    }

    /// Does what is to be done about one manifest.
    async fn settle(
        &self,
        item: &Item,
        owner: &Owner<'_>,
        strategy: &ApplyStrategy,
    ) -> Result<Settled, Stuck> {
        let (manifest, key) = match &item.place {
            Ok(place) => (&place.0, &place.1),
            Err((reason, message)) => return Ok(Finding::new(*reason, message).into()),
        };
        let mut live = self.live(key).await?;
        for _ in 0..ATTEMPTS {
            let there = live.as_ref().map(|live| live.as_value());
            let is_left = there.is_some_and(|live| self.at.is_as_left(key, &manifest.hash, live));
            let mut found = Finding::new(Reason::Applied, "the manifest is applied");
            let force = match apply::decide(manifest, there, owner, strategy, is_left) {
                Verdict::InSync => {
                    let there = there.unwrap_or(&Value::Null);
                    return Ok(self.applied(found, manifest, there, strategy));
                }
                Verdict::Missing => {
                    found.reason = Reason::FoundDiff;
                    found.message = "the object does not exist in the member".to_owned();
                    found.diffs = compare::missing(&manifest.object);
                    return Ok(found.into());
                }
                Verdict::Refuse(reason, message) => {
                    let mut found = Finding::new(reason, message);
                    found.generation = there.map(report::generation).unwrap_or_default();
                    return Ok(found.into());
                }
                Verdict::Compare(purpose) => {
                    let there = there.unwrap_or(&Value::Null);
                    let compared = self.compare(manifest, key, there, strategy).await;
                    match judge(purpose, compared?, there) {
                        Some(finding) if finding.reason.is_applied() => {
                            return Ok(self.applied(finding, manifest, there, strategy));
                        }
                        Some(finding) => {
                            let uid = owner.owns(there).then(|| uid(there));
                            return Ok(Settled { finding, uid });
                        }
                        None => apply::forces(there, strategy),
                    }
                }
                Verdict::Apply { force } => force,
            };
            if let Some(object) = &live
                && let Some(kept) = owner.without_orphans(object.as_value())
            {
                match self.send(&owned_by(key.clone(), object, &kept)).await? {
                    Answer::Object(_) => {}
                    Answer::Failed(
                        Failure::Conflict | Failure::NotFound | Failure::OtherIncarnation,
                    ) => {
                        live = self.look(key).await?;
                        continue;
                    }
                    Answer::Failed(failure) => return Err(failure.into()),
                    Answer::Gone | Answer::Listed(_) => {}
                }
            } else if live.is_none() {
                // An object that appeared a moment ago may be somebody else's.
                live = self.look(key).await?;
                if live.is_some() {
                    continue;
                }
            }
            let body = manifest.body(owner, strategy.type_);
            let application = Application {
                key,
                body: &body,
                manager: MANAGER,
                force,
                dry_run: false,
            };
            return match self.send_apply(&application).await {
                Ok(object) => {
                    self.at.leave(key, &manifest.hash, object.as_value());
                    Ok(self.applied(found, manifest, object.as_value(), strategy))
                }
                Err(Failure::Unavailable(problem) | Failure::NotSent(problem)) => {
                    Err(Stuck(problem))
                }
                Err(failure) => {
                    // The kind may not be served any more.
                    self.at.sides.discovery.invalidate(&key.kind.group);
                    let mut found = Finding::new(Reason::ManifestApplyFailed, failure.to_string());
                    found.generation = there_generation(live.as_deref());
                    Ok(found.into())
                }
            };
        }
        Err(Stuck(format!("{key} changes all the time")))
    }

    /// What is said of an object that is as it should be.
    fn applied(
        &self,
        mut found: Finding,
        manifest: &Manifest,
        live: &Value,
        strategy: &ApplyStrategy,
    ) -> Settled {
        found.generation = report::generation(live);
        found.availability = Some(availability::check(live, self.at.jobs));
        if strategy.comparison_option == ComparisonOption::FullComparison {
            found.drifts = compare::differences(live, &manifest.object);
        }
        Settled {
            finding: found,
            uid: Some(uid(live)),
        }
    }

    /// How an object differs from its manifest, and whether that could only be found by looking at all fields; or why it
    /// cannot be said.
    async fn compare(
        &self,
        manifest: &Manifest,
        key: &Key,
        live: &Value,
        strategy: &ApplyStrategy,
    ) -> Result<Result<(Vec<PatchDetail>, bool), String>, Stuck> {
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
        match self.send_apply(&application).await {
            Ok(merged) => Ok(Ok((compare::differences(live, merged.as_value()), false))),
            Err(Failure::Invalid(_)) => {
                Ok(Ok((compare::differences(live, &manifest.object), true)))
            }
            Err(Failure::Unavailable(problem) | Failure::NotSent(problem)) => Err(Stuck(problem)),
            Err(failure) => Ok(Err(failure.to_string())),
        }
    }

    /// An object as the tables have it, or by a live read.
    async fn live(&self, key: &Key) -> Result<Option<Arc<Object>>, Stuck> {
        match self.at.cache.get(key) {
            Seen::Present(object) if !object.is_fragment() => Ok(Some(object)),
            Seen::Absent => Ok(None),
            Seen::Present(_) | Seen::Unknown => self.look(key).await,
        }
    }

    async fn look(&self, key: &Key) -> Result<Option<Arc<Object>>, Stuck> {
        match self.send(&Request::Read { key: key.clone() }).await? {
            Answer::Object(object) => Ok(Some(object)),
            Answer::Gone => Ok(None),
            Answer::Failed(failure) => Err(failure.into()),
            Answer::Listed(_) => Err(Stuck("the member answered with a list".to_owned())),
        }
    }

    async fn write_finalizer(&self, work: &Object, has: bool) -> Result<Arc<Object>, Stuck> {
        let others = work.finalizers().filter(|name| *name != WORK_FINALIZER);
        let finalizers: Vec<&str> = others.chain(has.then_some(WORK_FINALIZER)).collect();
        let patch = json!({"metadata": {
            "finalizers": finalizers, "resourceVersion": work.resource_version(), "uid": work.uid(),
        }});
        let key = self.at.sides.work(self.name);
        self.found(&Request::Patch { key, patch }).await
    }

    async fn write_status(
        &self,
        work: Arc<Object>,
        status: &WorkStatus,
    ) -> Result<Arc<Object>, Stuck> {
        let mut object = Object::clone(&work);
        object.root_mut().insert("status".into(), json!(status));
        let key = self.at.sides.work(self.name);
        self.found_fresh(Request::ReplaceStatus { key, object })
            .await
    }

    async fn write_applied(
        &self,
        applied_work: &Object,
        listed: &[AppliedResource],
    ) -> Result<(), Stuck> {
        let status = AppliedWorkStatus {
            applied_resources: listed.to_vec(),
        };
        // Nobody else writes it.
        let patch = json!({"metadata": {"uid": applied_work.uid()}, "status": status});
        let mut object = applied_work.clone();
        object
            .root_mut()
            .insert("status".into(), patch["status"].clone());
        let key = Sides::applied_work(self.name);
        self.found_fresh(Request::ReplaceStatus { key, object })
            .await?;
        Ok(())
    }

    /// Sends a write; after a conflict the table learns what is there, for the next pass.
    async fn found_fresh(&self, request: Request) -> Result<Arc<Object>, Stuck> {
        let answer = self.send(&request).await?;
        if let (Answer::Failed(Failure::Conflict), Some(key)) = (&answer, request.key()) {
            self.send(&Request::Read { key: key.clone() }).await?;
        }
        self.object(answer)
    }

    async fn found(&self, request: &Request) -> Result<Arc<Object>, Stuck> {
        let answer = self.send(request).await?;
        self.object(answer)
    }

    fn object(&self, answer: Answer) -> Result<Arc<Object>, Stuck> {
        match answer {
            Answer::Object(object) => Ok(object),
            Answer::Failed(failure) => Err(failure.into()),
            Answer::Gone => Err(Failure::NotFound.into()),
            Answer::Listed(_) => Err(Stuck("the answer is a list".to_owned())),
        }
    }

    fn check_wanted(&self) -> Result<(), String> {
        if self.at.phase() == self.phase {
            Ok(())
        } else {
            Err("the hub has told the member something else".to_owned())
        }
    }

    async fn send(&self, request: &Request) -> Result<Answer, Stuck> {
        let is_wanted = || self.check_wanted();
        let sent = self
            .at
            .client
            .send(&*self.at.sides, None, &is_wanted, request)
            .await;
        match sent {
            Ok((answer, _)) => Ok(answer),
            Err(contest) => Ok(Answer::Failed(self.put_off(contest))),
        }
    }

    async fn send_apply(&self, application: &Application<'_>) -> Result<Arc<Object>, Failure> {
        let is_wanted = || self.check_wanted();
        let sent = self
            .at
            .client
            .apply(&*self.at.sides, &is_wanted, application)
            .await;
        match sent {
            Ok(Answer::Object(object)) => Ok(object),
            Ok(Answer::Failed(failure)) => Err(failure),
            Ok(Answer::Gone | Answer::Listed(_)) => Err(Failure::NotFound),
            Err(contest) => Err(self.put_off(contest)),
        }
    }

    fn put_off(&self, contest: Contest) -> Failure {
        let mut put_off = self.put_off.lock();
        *put_off = put_off.into_iter().chain([contest.wait]).min();
        Failure::Contested(contest.place)
    }
}

fn uid(object: &Value) -> String {
    object["metadata"]["uid"]
        .as_str()
        .unwrap_or_default()
        .to_owned()
}

fn there_generation(object: Option<&Object>) -> i64 {
    object
        .map(|object| report::generation(object.as_value()))
        .unwrap_or_default()
}

/// Sets the owners of an object as it is known.
fn owned_by(key: Key, object: &Object, owners: &[Value]) -> Request {
    let patch = json!({"metadata": {
        "ownerReferences": owners, "resourceVersion": object.resource_version(), "uid": object.uid(),
    }});
    Request::Patch { key, patch }
}

/// Manifests by their waves; differences are reported in a single one.
fn waves(items: &[Item], reports: bool) -> BTreeMap<usize, Vec<usize>> {
    let mut waves: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
    for (index, item) in items.iter().enumerate() {
        let wave = if reports {
            0
        } else {
            apply::wave(&item.identifier.resource)
        };
        waves.entry(wave).or_default().push(index);
    }
    waves
}

/// The status that lists all manifests before anything is written for them; `None` if it lists them already.
fn ahead(
    items: &[Item],
    status: &WorkStatus,
    before: &HashMap<Identity, ManifestCondition>,
) -> Option<WorkStatus> {
    let is_listed = |item: &Item| before.contains_key(&identity(&item.identifier));
    if items.iter().all(is_listed) {
        return None;
    }
    let now = now();
    let listed = items
        .iter()
        .map(|item| match before.get(&identity(&item.identifier)) {
            Some(old) => ManifestCondition {
                identifier: item.identifier.clone(),
                ..old.clone()
            },
            None => report::preparing(item.identifier.clone(), 0, &now),
        });
    Some(WorkStatus {
        conditions: status.conditions.clone(),
        manifest_conditions: listed.collect(),
    })
}

/// What follows from a comparison; `None` if the manifest is to be applied.
fn judge(
    purpose: Purpose,
    compared: Result<(Vec<PatchDetail>, bool), String>,
    live: &Value,
) -> Option<Finding> {
    let (details, is_degraded) = match compared {
        Ok(compared) => compared,
        Err(problem) => {
            let reason = match purpose {
                Purpose::TakeOver => Reason::FailedToTakeOver,
                Purpose::Drift => Reason::FailedToRunDriftDetection,
                Purpose::Report => Reason::FailedToReportDiff,
            };
            return Some(Finding::new(reason, problem));
        }
    };
    let found = !details.is_empty();
    let count = details.len();
    let (reason, message) = match (purpose, found, is_degraded) {
        (Purpose::TakeOver, false, _) => return None,
        (Purpose::TakeOver, true, _) => (
            Reason::FailedToTakeOver,
            format!(
                "the object exists already and differs in {count} places, and whenToTakeOver is IfNoDiff"
            ),
        ),
        (Purpose::Drift, false, _) => (Reason::Applied, "the manifest is applied".to_owned()),
        (Purpose::Drift, true, degraded) => {
            let reason = if degraded {
                Reason::FoundDriftsInDegradedMode
            } else {
                Reason::FoundDrifts
            };
            (
                reason,
                format!(
                    "the object was changed in {count} places, and whenToApply is IfNotDrifted"
                ),
            )
        }
        (Purpose::Report, false, _) => (
            Reason::NoDiffFound,
            "the object is as the hub has it".to_owned(),
        ),
        (Purpose::Report, true, degraded) => {
            let reason = if degraded {
                Reason::FoundDiffInDegradedMode
            } else {
                Reason::FoundDiff
            };
            (reason, format!("the object differs in {count} places"))
        }
    };
    let mut finding = Finding::new(reason, message);
    finding.generation = report::generation(live);
    if purpose == Purpose::Drift {
        finding.drifts = details;
    } else {
        finding.diffs = details;
    }
    Some(finding)
}
