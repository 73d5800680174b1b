//! Maps watch events to queue entries.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::RwLock;
use tokio::sync::mpsc;
use tracing::warn;

use super::feeds::SERVICE;
use super::publication::Publication;
use super::related::RelatedShared;
use super::router::ResourceNames;
use super::share::Share;
use super::subject::SubjectId;
use crate::publish::rules::Sides;
use hawser_runtime::cluster::cache::{Cache, Change, ChangeType, SourceId, Table};
use hawser_runtime::cluster::feed::EventHandler;
use hawser_runtime::cluster::queue::{Queue, Urgency};
use hawser_runtime::controller::Subjects;
use hawser_sync::{Seen, Store as _};
use kube_lang::object::Gvk;

/// The number of concurrent passes. Most of them wait for an answer.
pub const WORKERS: usize = 64;

/// An event of a control object.
#[derive(Debug)]
pub enum ControlEvent {
    Changed(SourceId, Change),
    Completed(SourceId, Arc<Gvk>),
}

/// The running publications, and the queue of their subjects.
pub struct Dispatch {
    sides: Sides,
    cache: Arc<Cache>,
    pub subjects: Arc<Subjects<SubjectId>>,
    running: RwLock<Arc<RunningPublications>>,
    /// Whether passes run. A standby queues nothing.
    at_work: AtomicBool,
    /// The workspaces whose objects are queued.
    pub share: Share,
    events: mpsc::UnboundedSender<ControlEvent>,
    /// The state of related objects that published resources share.
    pub related: Arc<RelatedShared>,
    names: Arc<ResourceNames>,
    /// The kinds whose events go to the control loop.
    control: Vec<Arc<Gvk>>,
}

/// The running publications, by the uid of the published resource.
pub type RunningPublications = HashMap<Arc<str>, Arc<Publication>>;

impl Dispatch {
    pub fn new(
        sides: &Sides,
        cache: &Arc<Cache>,
        names: &Arc<ResourceNames>,
        control: Vec<Arc<Gvk>>,
        namespace: &str,
        share: Share,
    ) -> (Arc<Self>, mpsc::UnboundedReceiver<ControlEvent>) {
        let (events, receiver) = mpsc::unbounded_channel();
        let dispatch = Self {
            sides: sides.clone(),
            cache: Arc::clone(cache),
            subjects: Subjects::new(Queue::new(WORKERS)),
            running: RwLock::default(),
            at_work: AtomicBool::new(false),
            share,
            events,
            related: Arc::new(RelatedShared::new(namespace)),
            names: Arc::clone(names),
            control,
        };
        (Arc::new(dispatch), receiver)
    }

    /// Enables passes; the caller queues everything that is known.
    pub fn begin(&self) {
        self.at_work.store(true, Ordering::SeqCst);
    }

    pub fn is_at_work(&self) -> bool {
        self.at_work.load(Ordering::SeqCst)
    }

    pub fn running(&self) -> Arc<RunningPublications> {
        Arc::clone(&self.running.read())
    }

    pub fn publication(&self, uid: &str) -> Option<Arc<Publication>> {
        self.running.read().get(uid).cloned()
    }

    /// Whether a publication of this published resource runs; otherwise the reason.
    pub fn check_running(&self, uid: &str) -> Result<(), String> {
        match self.publication(uid) {
            Some(publication) => publication.check_active(),
            None => Err("no longer published".to_owned()),
        }
    }

    /// Starts a publication, in place of the one with its uid.
    pub fn start(&self, publication: &Arc<Publication>) {
        let uid = Arc::clone(&publication.plan.uid);
        let mut running = self.running.write();
        let replaced =
            Arc::make_mut(&mut running).insert(Arc::clone(&uid), Arc::clone(publication));
        drop(running);
        if let Some(before) = replaced {
            before.stop();
            // The problem of an object may have been in the replaced rules.
            self.subjects.renew(|id| id.publication == uid);
        }
    }

    /// Removes a publication. Nothing more is written for it, and nothing of it is queued.
    pub fn stop(&self, uid: &str) -> Option<Arc<Publication>> {
        let mut running = self.running.write();
        let stopped = Arc::make_mut(&mut running).remove(uid)?;
        stopped.stop();
        drop(running);
        self.subjects.forget(|id| *id.publication == *uid);
        Some(stopped)
    }

    /// Queues every object of a newly bound workspace.
    pub fn engaged(&self, cluster: &str) {
        let Some(source) = self.cache.source(&self.sides.kcp, cluster) else {
            return;
        };
        for publication in self.running().values() {
            self.initial(publication, &source, Some(cluster));
        }
    }

    /// This replica works on these shards from now on: queues all objects of their workspaces.
    pub fn opened(&self, shards: &BTreeSet<usize>) {
        let is_meant = |id: &SubjectId| {
            let shard = self.share.shard(&id.cluster);
            shard.is_some_and(|shard| shards.contains(&shard))
        };
        for publication in self.running().values() {
            for source in publication.synced_endpoints() {
                let subjects = publication.subjects(&source, None).into_iter();
                for id in subjects.filter(is_meant) {
                    self.add(publication, id, Urgency::Initial);
                }
            }
        }
    }

    /// Another replica may work on a shard from now on: drops the queue entries and notes of its workspaces.
    pub fn closed(&self, shard: usize) {
        let is_meant = |cluster: &str| self.share.shard(cluster) == Some(shard);
        self.subjects.forget(|id| is_meant(&id.cluster));
        for publication in self.running().values() {
            publication.forget_where(is_meant);
        }
        self.leave_claims(is_meant);
    }

    /// Other replicas have passes over the objects of these workspaces: their claims are those that their states record.
    pub fn leave_claims(&self, is_meant: impl Fn(&str) -> bool) {
        for owner in self.related.ledger().leave_to_memories(is_meant) {
            let key = self.related.state_key(&self.sides, &owner);
            match self.cache.get(&key) {
                Seen::Present(object) => {
                    let what = ChangeType::Initial;
                    let change = Change { what, key, object };
                    self.related
                        .learn_claims(&self.sides, &change, &self.names, &self.share);
                }
                Seen::Absent => self.related.ledger().remembered_nothing(&owner),
                Seen::Unknown => {}
            }
        }
    }

    /// A first list is complete, or one of more shards: queues what has waited for it.
    pub fn completed(&self, source: &SourceId, kind: &Arc<Gvk>) {
        for publication in self.running().values() {
            // On the service cluster, related kinds are listed late, and kinds of which each replica has a part. They
            // concern every endpoint.
            let is_local = **source == *SERVICE;
            let sources = if is_local && publication.watches_late(kind) {
                publication.sources()
            } else if !is_local && publication.watches(source, kind) {
                vec![Arc::clone(source)]
            } else {
                Vec::new()
            };
            for source in sources {
                if publication.has_synced(&source) {
                    self.initial(publication, &source, None);
                }
            }
        }
    }

    /// A kind is served again, or for the first time: what failed without it is retried at once.
    fn retry_without(&self, source: &SourceId, kind: &Arc<Gvk>) {
        let needs = |publication: &Publication| {
            if **source == *SERVICE {
                publication.local_kind == *kind || publication.watches_related(kind)
            } else {
                publication.watches(source, kind)
            }
        };
        let mut running = self.running().as_ref().clone();
        running.retain(|_, publication| needs(publication));
        let is_of_source = |id: &SubjectId| {
            let of = self.cache.source(&self.sides.kcp, &id.cluster);
            **source == *SERVICE || of.as_ref() == Some(source)
        };
        let queue = &self.subjects.queue;
        queue.retry(|id| running.contains_key(&id.publication) && is_of_source(id));
    }

    /// A workspace is no longer bound: its queue entries and notes are dropped.
    pub fn disengaged(&self, cluster: &str) {
        for publication in self.running().values() {
            publication.forget(cluster);
        }
        self.subjects.forget_tenant(cluster);
    }

    /// Queues every object of a publication.
    pub fn again(&self, publication: &Publication) {
        for source in publication.sources() {
            for id in publication.subjects(&source, None) {
                self.add(publication, id, Urgency::Live);
            }
        }
    }

    /// The pause of a workspace has changed: queues its objects.
    pub fn paused(&self, cluster: &str) {
        let Some(source) = self.cache.source(&self.sides.kcp, cluster) else {
            return;
        };
        for publication in self.running().values() {
            if publication.compiled().consumers_pause() {
                for id in publication.subjects(&source, Some(cluster)) {
                    self.add(publication, id, Urgency::Live);
                }
            }
        }
    }

    /// Queues every known object of an endpoint.
    pub fn initial(&self, publication: &Publication, source: &SourceId, cluster: Option<&str>) {
        for id in publication.subjects(source, cluster) {
            self.add(publication, id, Urgency::Initial);
        }
    }

    /// Queues every subject that depends on a changed object of this source, except the one whose pass changed it.
    pub(super) fn handle(&self, source: &SourceId, change: &Change, by: Option<&SubjectId>) {
        let urgency = match change.what {
            ChangeType::Initial => Urgency::Initial,
            ChangeType::Changed | ChangeType::Gone => Urgency::Live,
        };
        let is_local = change.key.side == self.sides.service;
        // Objects of a first list are queued together, when everything else that passes need is known.
        if !is_local && change.what == ChangeType::Initial {
            return;
        }
        if is_local {
            self.related
                .learn_claims(&self.sides, change, &self.names, &self.share);
        }
        for publication in self.running().values() {
            for id in publication.concerned(source, change) {
                if by != Some(&id) {
                    self.add(publication, id, urgency);
                }
            }
        }
    }

    /// Queues one object, with low urgency.
    pub fn look_at(&self, id: SubjectId) {
        if let Some(publication) = self.publication(&id.publication) {
            self.add(&publication, id, Urgency::Initial);
        }
    }

    fn add(&self, publication: &Publication, id: SubjectId, urgency: Urgency) {
        if !self.is_at_work() {
            return;
        }
        if publication.plan.plans_only {
            return publication.note_change();
        }
        // The others are queued when their shard is opened.
        if !self.share.has(&id.cluster) {
            return;
        }
        // Objects of workspaces that do not take part are queued when their workspace does, and those of workspaces that
        // are not known completely when they are.
        let source = self.cache.source(&self.sides.kcp, &id.cluster);
        if source.is_some_and(|source| publication.has_loaded(&source, &id.cluster)) {
            let object = self.cache.shared(&id.object).unwrap_or(id.object);
            self.subjects.queue.add(SubjectId { object, ..id }, urgency);
        }
    }
}

impl EventHandler for Dispatch {
    fn changed(&self, table: &Arc<Table>, change: Change) {
        let source = table.source();
        if !self.control.contains(&change.key.kind) {
            self.handle(source, &change, None);
        } else if change.object.is_fragment() && change.what != ChangeType::Gone {
            let (kind, name) = (&change.key.kind, &*change.key.name);
            warn!(%kind, name, "an object cannot be read whole; keeping its last known state");
        } else {
            // Sending fails only while the process ends.
            let _ = self
                .events
                .send(ControlEvent::Changed(Arc::clone(source), change));
        }
    }

    fn recovered(&self, table: &Arc<Table>) {
        self.retry_without(table.source(), table.kind());
    }

    fn completed(&self, table: &Arc<Table>) {
        let (source, kind) = (Arc::clone(table.source()), Arc::clone(table.kind()));
        let _ = self.events.send(ControlEvent::Completed(source, kind));
    }
}
