//! The controller of published resources: their schemas, their entries in the export, their objects.
//!
//! Each is reconciled by name, one at a time, whenever it, its definition or something it waits for has changed. The
//! problems of one do not affect others.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::watch;
use tokio::time::timeout;
use tracing::{info, warn};

use super::approvals::{self, HELD};
use super::conditions::Conditions;
use super::dispatch::Dispatch;
use super::export::{ExportStatus, Member, Members, Progress};
use super::feeds::published_resource_kind;
use super::holds::OtherHolds;
use super::notices::{self, Notice};
use super::options::{AgentOptions, Controller};
use super::publication::{Plan, Publication};
use super::router::ResourceNames;
use super::schemas::{
    CrdPrint, Manifest, RetryPolicy, SchemaError, SchemaMode, Schemas, Settled, Watched, plans_only,
};
use super::switch::Switch;
use super::workspaces::Workspaces;
use crate::publish::claims::Needs;
use crate::publish::compiled::{AgentIdentity, Compiled};
use crate::publish::pause::Pause;
use crate::publish::problem::Problem;
use crate::publish::publishers::Publisher;
use crate::publish::ready::{Facts, PlanFact, SchemaFact, SynchronizationFact};
use crate::publish::rules::Sides;
use crate::publish::types::PublishedResourceSpec;
use hawser_runtime::cluster::cache::{Cache, Change};
use hawser_runtime::cluster::connection::Connection;
use hawser_runtime::cluster::queue::{Outcome, Queue, Urgency, Work};
use hawser_runtime::controller::{
    BrakeRegistry, HeldDeletions, Reconciler, SharedWatch, WatchRegistry, work,
};
use hawser_runtime::process::metrics::Metrics;
use hawser_sync::{Seen, Store as _};
use kube_lang::object::Object;

mod elsewhere;
mod holding;
mod related;

/// The number of published resources that are reconciled concurrently.
pub const WORKERS: usize = 8;

/// The name of the controller in metrics, as in api-syncagent.
pub const CONTROLLER: &str = "syncagent-apiresourceschema";

/// The interval for re-evaluating conditions that no event triggers.
const LOOK_ROUND: Duration = Duration::from_secs(5);

/// The interval for checking whether kinds that cannot be listed are still needed, and why they cannot.
const LISTED: Duration = Duration::from_millis(500);

/// The controller of published resources.
pub struct Publishing {
    pub options: Arc<AgentOptions>,
    pub sides: Sides,
    pub service: Connection,
    pub cache: Arc<Cache>,
    pub watches: Arc<WatchRegistry>,
    pub dispatch: Arc<Dispatch>,
    pub workspaces: Arc<Workspaces>,
    pub names: Arc<ResourceNames>,
    pub schemas: Schemas,
    pub switch: Arc<Switch>,
    pub conditions: Arc<Conditions>,
    pub metrics: Arc<Metrics>,
    pub brakes: Arc<BrakeRegistry>,
    pub others: OtherHolds,
    /// Notified when the conditions of owners may change.
    pub owners: watch::Sender<()>,
    /// The name of the export, and its state.
    pub export: String,
    pub standing: watch::Receiver<ExportStatus>,
    pub members: watch::Sender<Members>,
    /// Names of published resources.
    pub queue: Queue<Arc<str>>,
    /// The watches of published resources and of CRDs.
    pub published: Arc<SharedWatch>,
    pub definitions: Arc<SharedWatch>,
    pub known: Mutex<BTreeMap<Arc<str>, ResourceRecord>>,
    /// Whether this agent does what is about the published resources themselves.
    pub leading: AtomicBool,
    /// Published resources that replace the stored ones of their names in a plan.
    pub planned: OnceLock<BTreeMap<Arc<str>, Arc<Object>>>,
}

/// The known state of one published resource.
pub struct ResourceRecord {
    pub(super) uid: Arc<str>,
    pub(super) group: String,
    /// The kind of its copies, if it makes any.
    pub(super) kind: Option<String>,
    /// The name under which it publishes the kind, if it makes copies.
    publisher: Option<Publisher>,
    pub(super) member: Member,
    /// Nothing but its status is written.
    pub(super) plans_only: bool,
    pub(super) facts: Facts,
    /// The publication that runs or is about to.
    pub(super) running: Option<Arc<Publication>>,
}

impl ResourceRecord {
    fn runs(&self, publication: &Arc<Publication>) -> bool {
        let running = self.running.as_ref();
        running.is_some_and(|running| Arc::ptr_eq(running, publication))
    }
}

impl Reconciler for Publishing {
    type Key = Arc<str>;

    async fn reconcile(self: &Arc<Self>, work: &Work<Arc<str>>) -> Outcome {
        self.look_at(&work.key).await
    }

    fn worked(&self, waited: Duration, took: Duration, outcome: Option<Outcome>) {
        self.metrics.worked(CONTROLLER, waited, took, outcome);
    }
}

impl Publishing {
    /// Works until the queue is closed.
    pub async fn work(self: Arc<Self>) {
        let queue = self.queue.clone();
        work(self, &queue, WORKERS).await;
    }

    /// Handles an event of a published resource or of a CRD.
    pub fn handle(&self, change: &Change) {
        if change.key.kind == published_resource_kind() {
            // Stops an unwanted publication at once, without waiting for the queue.
            let name = &change.key.name;
            if !self.wants_objects(name) || self.only_plans_now(name) {
                self.stop(&change.key.name);
            }
            self.wake(&change.key.name);
        } else if let Some((_, group)) = change.key.name.split_once('.') {
            self.schemas.discovery.invalidate(group);
            let known = self.known.lock();
            for (name, known) in known.iter() {
                if known.group == group {
                    self.wake(name);
                }
                if let Some(running) = &known.running {
                    running.defined_anew(group);
                }
            }
        }
    }

    /// The published resources are listed: registers them, so that the export waits for these only.
    pub fn listed(&self) {
        for (key, object) in self.published.table().all() {
            if self.selected(&object) {
                self.introduce(&key.name, &object);
            }
        }
        self.send_members();
        self.update_published_kinds();
    }

    pub fn leads(&self) -> bool {
        self.leading.load(Ordering::SeqCst)
    }

    /// Starts to publish, after schemas were only computed on behalf of another agent.
    pub fn lead(&self) {
        if !self
            .options
            .disabled
            .contains(&Controller::ApiResourceSchema)
        {
            self.schemas.begin_writing();
        }
        for (name, known) in self.known.lock().iter_mut() {
            // The schema is checked again before the export is written.
            known.member.progress = Progress::Pending;
            self.wake(name);
        }
        self.send_members();
        self.leading.store(true, Ordering::SeqCst);
    }

    /// Starts passes over objects.
    pub fn begin_passes(&self) {
        for (name, known) in &*self.known.lock() {
            if let (Some(running), Seen::Present(object)) = (&known.running, self.object(name))
                && !running.plan.plans_only
            {
                approvals::resume(&self.brakes, &running.local_kind, &object);
            }
        }
        self.dispatch.begin();
        for publication in self.dispatch.running().values() {
            self.again(publication);
        }
    }

    /// Whether everything that passes need is known. Kinds that a server does not list are not waited for: the
    /// condition reports them.
    pub fn is_complete(&self) -> bool {
        if self.queue.depth().ready() > 0 || self.queue.busy() > 0 {
            return false;
        }
        let endpoints = self.workspaces.endpoints().len();
        let known = self.known.lock();
        let mut running = known.values().filter_map(|known| known.running.as_ref());
        let begun = running.all(|publication| {
            publication.sources().len() == endpoints || !publication.unseen().is_empty()
        });
        let listed =
            |watch: &Arc<SharedWatch>| watch.is_complete() || watch.health().problem.is_some();
        begun && self.watches.all().iter().all(listed)
    }

    pub fn wake(&self, name: &Arc<str>) {
        // Each published resource is a tenant of its own, so that none waits for others.
        self.queue.add(Arc::clone(name), Urgency::Live);
    }

    /// Queues the published resources of the same kind: which of them comes first may have changed.
    fn requeue_same_kind(&self, name: &Arc<str>, publisher: Option<&Publisher>) {
        let known = self.known.lock();
        let meets = |other: &ResourceRecord| {
            let both = other.publisher.as_ref().zip(publisher);
            both.is_some_and(|(other, this)| other.meets(this))
        };
        for (other, _) in known.iter().filter(|(n, other)| *n != name && meets(other)) {
            self.wake(other);
        }
    }

    pub fn selected(&self, object: &Object) -> bool {
        self.options.selects(object)
    }

    /// Whether the published resource, as last seen, asks this agent to synchronize objects.
    fn wants_objects(&self, name: &Arc<str>) -> bool {
        match self.object(name) {
            Seen::Present(object) => self.selected(&object) && self.publisher(&object).is_some(),
            Seen::Absent => false,
            Seen::Unknown => true,
        }
    }

    async fn look_at(self: &Arc<Self>, name: &Arc<str>) -> Outcome {
        match self.object(name) {
            Seen::Present(object) if self.selected(&object) => self.follow(name, &object).await,
            Seen::Present(_) | Seen::Absent => {
                self.gone(name);
                Outcome::Settled
            }
            Seen::Unknown => Outcome::Failed(None),
        }
    }

    /// Stops the published resource; its schema stays published.
    fn gone(&self, name: &Arc<str>) {
        self.stop(name);
        let Some(known) = self.known.lock().remove(name) else {
            return;
        };
        info!(publishedresource = %name, "no longer published by this agent");
        self.requeue_same_kind(name, known.publisher.as_ref());
        self.schemas.forget(&known.uid);
        self.conditions.forget(&known.uid);
        self.send_members();
        self.update_published_kinds();
    }

    /// Registers it before any lookup.
    fn introduce(&self, name: &Arc<str>, object: &Object) {
        let uid: Arc<str> = object.uid().unwrap_or_default().into();
        let status = object.root().get("status");
        let recorded = status.and_then(|status| status.get("resourceSchemaName")?.as_str());
        let before = self
            .known
            .lock()
            .get(name)
            .map(|known| Arc::clone(&known.uid));
        match before {
            Some(before) if before == uid => return,
            // Another incarnation under the same name.
            Some(_) => self.gone(name),
            None => {}
        }
        let plans_only = plans_only(object);
        let recorded = recorded.filter(|name| !name.is_empty() && !plans_only);
        let member = Member {
            name: name.to_string(),
            uid: Arc::clone(&uid),
            schema: recorded.map(str::to_owned),
            progress: Progress::Pending,
            needs: Arc::default(),
        };
        let manifest = Manifest::read(object.as_value()).ok();
        let spec = manifest.as_ref().map(|manifest| &manifest.spec);
        let new = ResourceRecord {
            uid,
            group: spec.map_or_else(String::new, |spec| spec.resource.api_group.clone()),
            kind: spec.and_then(|spec| self.copied(spec)),
            publisher: self.publisher(object),
            member,
            plans_only,
            facts: Facts::default(),
            running: None,
        };
        self.known.lock().insert(Arc::clone(name), new);
    }

    /// The kind of this resource's copies.
    fn copied(&self, spec: &PublishedResourceSpec) -> Option<String> {
        let kind = &spec.resource.kind;
        self.synchronizes(spec).then(|| kind.clone())
    }

    async fn follow(self: &Arc<Self>, name: &Arc<str>, object: &Object) -> Outcome {
        self.introduce(name, object);
        let outcome = self.followed(name, object).await;
        self.update_published_kinds();
        outcome
    }

    async fn followed(self: &Arc<Self>, name: &Arc<str>, object: &Object) -> Outcome {
        let manifest = match Manifest::read(object.as_value()) {
            Ok(manifest) => manifest,
            Err(problem) => {
                self.stop(name);
                self.note(name, |known| {
                    known.facts.schema = SchemaFact::Failed {
                        reason: "ManifestUnreadable",
                        message: format!("the manifest cannot be read: {problem}"),
                    };
                    known.member.progress = Progress::Failed;
                });
                return Outcome::Settled;
            }
        };
        let needs = Arc::new(Needs::of(&manifest.spec));
        let publisher = self.publisher(object);
        let plans_only = manifest.spec.plans_only();
        let mut before = (None, plans_only);
        self.note(name, |known| {
            before.0 = std::mem::replace(&mut known.publisher, publisher.clone());
            before.1 = std::mem::replace(&mut known.plans_only, plans_only);
            match (plans_only, &known.facts.plan) {
                (true, PlanFact::Unwanted) => known.facts.plan = PlanFact::Pending,
                (true, PlanFact::Pending | PlanFact::Made(_)) => {}
                (false, _) => known.facts.plan = PlanFact::Unwanted,
            }
            known.group.clone_from(&manifest.spec.resource.api_group);
            known.kind = self.copied(&manifest.spec);
            known.facts.generation = manifest.generation;
            known.member.needs = needs;
        });
        if before != (publisher.clone(), plans_only) {
            self.requeue_same_kind(name, before.0.as_ref());
            self.requeue_same_kind(name, publisher.as_ref());
        }
        if object.in_deletion() {
            self.stop(name);
            self.note(name, |known| known.member.progress = Progress::Settled);
            return Outcome::Settled;
        }
        // Stopping needs no schema, so it happens even if the schema cannot be published.
        if !self.synchronizes(&manifest.spec)
            || self.works_for_another_kind(name, &manifest)
            || self.only_plans_now(name)
            || self.contested(object).is_some()
        {
            self.stop(name);
        }
        match self
            .schemas
            .settle(&manifest, |crd| self.definition(crd))
            .await
        {
            Ok(settled) => self.settled(name, object, &manifest, settled),
            // Whatever changed it has queued it again.
            Err(error)
                if error.is_withheld() && self.switch.check_unchanged(&manifest).is_err() =>
            {
                Outcome::Settled
            }
            Err(error) => self.unsettled(name, &manifest, &error),
        }
    }

    fn definition(&self, name: &str) -> Watched {
        let key = self.definitions.table().scope("").key(None, name);
        match self.cache.get(&key) {
            Seen::Unknown => Watched::Unknown,
            Seen::Absent => Watched::Absent,
            Seen::Present(crd) => Watched::Present(CrdPrint::of(&crd)),
        }
    }

    fn settled(
        self: &Arc<Self>,
        name: &Arc<str>,
        object: &Object,
        manifest: &Manifest,
        settled: Settled,
    ) -> Outcome {
        // If another agent creates the schemas, the schema that it recorded counts.
        let plans_only = manifest.spec.plans_only();
        let is_made_elsewhere = settled.mode == SchemaMode::Reads && !plans_only;
        let schema = if is_made_elsewhere && self.planned(name).is_none() {
            match self.recorded_schema(name, object, manifest, &settled) {
                Some(recorded) => recorded,
                None => return Outcome::Settled,
            }
        } else {
            settled.schema.clone()
        };
        let synchronizes = self.synchronizes(&manifest.spec);
        self.note(name, |known| {
            known.facts.schema = SchemaFact::Published(schema.clone());
            if known.facts.warnings != settled.warnings {
                for warning in &settled.warnings {
                    warn!(publishedresource = %name, "{warning}");
                }
                known.facts.warnings.clone_from(&settled.warnings);
            }
            if !synchronizes {
                known.facts.rules.clear();
                known.facts.synchronization = SynchronizationFact::Disabled;
            }
            known.member.schema = (!plans_only).then_some(schema);
            known.member.progress = Progress::Settled;
        });
        if !synchronizes {
            self.stop(name);
            return Outcome::Settled;
        }
        if let Some(problem) = self.contested(object) {
            self.refuse(name, vec![problem]);
            return Outcome::Settled;
        }
        self.start_publication(name, object, manifest, settled);
        if !plans_only {
            self.apply_approvals(name, object);
        }
        Outcome::Settled
    }

    fn unsettled(&self, name: &Arc<str>, manifest: &Manifest, error: &SchemaError) -> Outcome {
        let failed = SchemaFact::Failed {
            reason: error.reason(),
            message: error.to_string(),
        };
        self.note(name, |known| {
            if known.facts.schema != failed {
                let problem = error.to_string();
                warn!(publishedresource = %name, problem, "the schema cannot be published");
            }
            known.facts.schema = failed;
            let recorded = manifest.recorded.clone();
            known.member.schema = recorded.filter(|_| !manifest.spec.plans_only());
            // Stays pending while the server does not answer, within the usual time limit.
            known.member.progress = match error.retry_policy() {
                RetryPolicy::Retry => Progress::Pending,
                RetryPolicy::Change | RetryPolicy::Later(_) => Progress::Failed,
            };
        });
        match error.retry_policy() {
            // As with invalid rules: the new configuration cannot work, and the old one is no longer wanted.
            RetryPolicy::Change => {
                self.stop(name);
                Outcome::Settled
            }
            RetryPolicy::Later(after) => Outcome::Again(after),
            RetryPolicy::Retry => Outcome::Failed(None),
        }
    }

    pub(super) fn synchronizes(&self, spec: &PublishedResourceSpec) -> bool {
        spec.synchronizes() && !self.options.disabled.contains(&Controller::Sync)
    }

    /// Whether the running publication is for another kind than the one requested now.
    fn works_for_another_kind(&self, name: &Arc<str>, manifest: &Manifest) -> bool {
        let asked = &manifest.spec.resource;
        let all = self.known.lock();
        let running = all.get(name).and_then(|known| known.running.as_ref());
        running.is_some_and(|running| {
            let at_work = &running.local_kind;
            at_work.group != asked.api_group || at_work.kind != asked.kind
        })
    }

    fn stop(&self, name: &Arc<str>) {
        let mut all = self.known.lock();
        let Some(known) = all.get_mut(name) else {
            return;
        };
        if let Some(running) = known.running.take() {
            running.stop();
            self.dispatch.stop(&known.uid);
            info!(publishedresource = %name, "stopped syncing its objects");
        }
    }

    /// Compiles the rules, and replaces the running publication if they differ.
    fn start_publication(
        self: &Arc<Self>,
        name: &Arc<str>,
        object: &Object,
        manifest: &Manifest,
        settled: Settled,
    ) {
        let identity = AgentIdentity {
            name: self.options.agent_name.clone(),
            namespace: self.options.namespace.clone(),
        };
        let compiled = match Compiled::compile(&manifest.spec, settled.types, identity) {
            Ok(compiled) => Arc::new(compiled),
            Err(problems) => return self.refuse(name, problems),
        };
        let pause = Pause::of(object);
        let plan = Plan {
            uid: manifest.uid.as_str().into(),
            name: name.to_string(),
            compiled,
            schema: settled.schema,
            local_resource: settled.local_plural.into(),
            remote_resource: settled.remote_plural.into(),
            remote_is_namespaced: settled.remote_is_namespaced,
            plans_only: manifest.spec.plans_only(),
            pause: pause.clone().ok().flatten(),
        };
        let warnings = plan.compiled.warnings().to_vec();
        self.note(name, |known| {
            if known.facts.rules != warnings {
                for warning in &warnings {
                    warn!(publishedresource = %name, "{warning}");
                }
            }
            known.facts.rules = warnings;
            known.facts.pause = pause.map_err(|problem| problem.to_string()).transpose();
            known.facts.synchronization = SynchronizationFact::default();
        });
        let mut all = self.known.lock();
        // It may have been disabled, or given another mode, while its schema was computed.
        let is_asked = self.wants_objects(name) && self.asks_for_plan(name) == plan.plans_only;
        let Some(known) = all.get_mut(name).filter(|_| is_asked) else {
            return;
        };
        if known
            .running
            .as_ref()
            .is_some_and(|now| now.plan.does_the_same(&plan))
        {
            return;
        }
        let namespace = &self.options.namespace;
        let new = Publication::prepare(
            plan,
            &self.sides,
            &self.service,
            &self.watches,
            namespace,
            &self.dispatch.share,
        );
        let writes_before = |now: &Arc<Publication>| !now.plan.plans_only;
        let writes_first =
            !new.plan.plans_only && !known.running.as_ref().is_some_and(writes_before);
        if writes_first && self.dispatch.is_at_work() {
            approvals::resume(&self.brakes, &new.local_kind, object);
        }
        known.running = Some(Arc::clone(&new));
        drop(all);
        self.names.register_publication(&new);
        tokio::spawn(Arc::clone(self).begin(Arc::clone(name), new));
    }

    /// Stops synchronizing objects, and reports the reason.
    fn refuse(&self, name: &Arc<str>, problems: Vec<Problem>) {
        self.stop(name);
        self.note(name, |known| {
            if known.facts.rules != problems {
                let words: Vec<_> = problems.iter().map(ToString::to_string).collect();
                let words = words.join("; ");
                warn!(publishedresource = %name, problems = words, "the rules are not valid");
            }
            known.facts.rules = problems;
        });
    }

    /// Starts a publication as soon as everything that it needs from the service cluster is known.
    async fn begin(self: Arc<Self>, name: Arc<str>, publication: Arc<Publication>) {
        // Stops waiting for a kind that cannot be listed when the publication is no longer wanted.
        while timeout(LISTED, publication.local_completed())
            .await
            .is_err()
        {
            if !self.if_active(&name, &publication, |_| {}) {
                return;
            }
        }
        let start = |dispatch: &Dispatch| dispatch.start(&publication);
        if !self.if_active(&name, &publication, start) {
            return;
        }
        self.update_published_kinds();
        if self.dispatch.is_at_work() && !publication.plan.plans_only {
            info!(publishedresource = %name, "started syncing its objects");
        }
        self.attach(&publication);
        self.follow_related(publication).await;
    }

    /// Runs an action for a publication that is still wanted, and updates its condition; returns whether it is wanted.
    fn if_active(
        &self,
        name: &Arc<str>,
        publication: &Arc<Publication>,
        what: impl FnOnce(&Dispatch),
    ) -> bool {
        let mut all = self.known.lock();
        let Some(known) = all.get_mut(name).filter(|known| known.runs(publication)) else {
            return false;
        };
        what(&self.dispatch);
        self.report(known);
        true
    }

    /// Watches the current endpoints.
    pub fn attach(&self, publication: &Publication) {
        for source in publication.attach(&self.workspaces.endpoints(), &self.watches) {
            if publication.has_synced(&source) {
                self.dispatch.initial(publication, &source, None);
            }
        }
    }

    pub(super) fn note(&self, name: &Arc<str>, change: impl FnOnce(&mut ResourceRecord)) {
        let mut all = self.known.lock();
        let Some(known) = all.get_mut(name) else {
            return;
        };
        let before = known.member.clone();
        change(known);
        let differs = known.member != before;
        self.report(known);
        drop(all);
        if differs {
            self.send_members();
        }
    }

    /// Releases deletions that the owner approved.
    fn apply_approvals(&self, name: &Arc<str>, published: &Object) {
        let running = self
            .known
            .lock()
            .get(name)
            .and_then(|known| known.running.clone());
        if let Some(publication) = running
            && approvals::apply(&self.brakes, &publication.local_kind, published)
        {
            info!(publishedresource = %name, "held deletions were approved");
            self.dispatch.again(&publication);
        }
    }

    /// Updates the condition of one published resource, if this agent leads.
    fn report(&self, known: &mut ResourceRecord) {
        if !self.leads() {
            return;
        }
        let member = &known.member;
        if let SchemaFact::Published(schema) = &known.facts.schema
            && !self.options.disabled.contains(&Controller::ApiExport)
        {
            let standing = self.standing.borrow();
            known.facts.export = standing.against(schema, &member.needs, &self.export);
        }
        if known.plans_only {
            known.facts.export.clear();
            known.facts.synchronization = SynchronizationFact::Planning;
        } else if known.facts.synchronization != SynchronizationFact::Disabled
            || known.running.is_some()
        {
            let workspaces = self.workspaces.engaged();
            known.facts.synchronization = SynchronizationFact::Enabled(workspaces);
        }
        // What a plan leaves out is told in it.
        let running = known.running.as_ref().filter(|_| !known.plans_only);
        let held_before = known.facts.held.take();
        let held = running.and_then(|running| self.brakes.held(&running.local_kind));
        known.facts.held = running.and_then(|_| self.others.with(held, &known.uid));
        known.facts.unseen = running.map(|running| running.unseen()).unwrap_or_default();
        known.facts.unwatched_kinds = running
            .map(|running| running.unwatched_kinds())
            .unwrap_or_default();
        known.facts.missing_rights = running.map(|running| running.refused()).unwrap_or_default();
        known.facts.unaccepted = running
            .map(|running| running.unaccepted())
            .unwrap_or_default();
        known.facts.orphans = running.map(|running| running.orphans()).unwrap_or_default();
        known.facts.contested = running.map_or(0, |running| running.contests());
        known.facts.paused = running.map_or(0, |running| running.paused());
        // Without a workspace, the kinds that workspaces serve are unknown.
        known.facts.unserved = match (running, self.workspaces.engaged()) {
            (Some(running), 1..) => running.unserved(),
            _ => Vec::new(),
        };
        self.conditions
            .report(&known.uid, &member.name, &known.facts);
        if let (None, Some(held)) = (held_before, &known.facts.held) {
            self.report_held_deletions(&member.name, &known.uid, held);
        }
    }

    /// Sends an event to the owner, once for each time that deletions begin to be held.
    fn report_held_deletions(&self, name: &str, uid: &Arc<str>, held: &HeldDeletions) {
        let key = self.published.table().scope("").key(None, name);
        let Seen::Present(about) = self.cache.get(&key) else {
            return;
        };
        let message = format!(
            "{} deletions of copies are held: {}; to approve them, annotate this object with {}",
            held.count,
            held.why,
            held.annotation()
        );
        warn!(publishedresource = name, "{message}");
        let (switch, owner, uid) = (Arc::clone(&self.switch), name.to_owned(), Arc::clone(uid));
        let still = move || switch.check_enabled(&owner, &uid);
        let service = self.service.guarded_by(Arc::new(still));
        tokio::spawn(async move {
            let notice = Notice {
                about: about.as_value(),
                component: "syncagent-sync",
                kind: "Warning",
                reason: HELD,
                message: &message,
            };
            notices::send(&service, notice).await;
        });
    }

    pub fn report_all(&self) {
        for known in self.known.lock().values_mut() {
            self.report(known);
        }
    }

    /// Updates conditions whenever the state of the export or the held deletions change.
    pub async fn watch_export_status(self: Arc<Self>) {
        let mut standing = self.standing.clone();
        let mut owners = self.owners.subscribe();
        let mut ticks = tokio::time::interval(LOOK_ROUND);
        loop {
            let changed = tokio::select! {
                changed = standing.changed() => changed,
                changed = owners.changed() => changed,
                // No event reports a kind that cannot be listed, so a timer checks it.
                _ = ticks.tick() => Ok(()),
            };
            if changed.is_err() {
                return;
            }
            self.report_all();
        }
    }

    fn send_members(&self) {
        let known = self.known.lock();
        let members: Arc<[Member]> = known.values().map(|known| known.member.clone()).collect();
        self.members.send_if_modified(|told| {
            let differs = told.as_ref() != Some(&members);
            *told = Some(members);
            differs
        });
    }
}
