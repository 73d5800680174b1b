//! From what feeds tell to whose turn it is.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::RwLock;
use tokio::sync::mpsc;
use tracing::warn;

use super::feeds::Hears;
use super::publication::{Publication, SERVICE, SubjectId, namespace_kind};
use super::related::Company;
use crate::publish::rules::Sides;
use hawser_runtime::cluster::cache::{Cache, Change, SourceId, Table, What};
use hawser_runtime::cluster::queue::{Queue, Urgency};
use hawser_sync::Key;
use kube_lang::object::Gvk;

/// What is not about an object of a published resource, for those who run the agent.
#[derive(Debug)]
pub enum News {
    Changed(SourceId, Change),
    Completed(SourceId, Arc<Gvk>),
}

/// Everything at work, and the queue of its objects.
pub struct Dispatch {
    sides: Sides,
    cache: Arc<Cache>,
    pub queue: Queue<SubjectId>,
    running: RwLock<Arc<Running>>,
    /// Whether passes are run. An agent that stands by queues none.
    at_work: AtomicBool,
    news: mpsc::UnboundedSender<News>,
    /// What published resources share of related objects.
    pub company: Company,
    /// Kinds whose events are news.
    control: Vec<Arc<Gvk>>,
}

/// What is at work now, by what events name.
#[derive(Default)]
pub struct Running {
    uids: HashMap<Arc<str>, Arc<Publication>>,
    remotes: HashMap<Arc<Gvk>, Vec<Arc<Publication>>>,
    locals: HashMap<Arc<Gvk>, Vec<Arc<Publication>>>,
}

impl Running {
    fn of(uids: HashMap<Arc<str>, Arc<Publication>>) -> Self {
        let mut running = Self::default();
        for publication in uids.values() {
            let add = |by: &mut HashMap<_, Vec<_>>, kind: &Arc<Gvk>| {
                by.entry(Arc::clone(kind))
                    .or_default()
                    .push(Arc::clone(publication));
            };
            add(&mut running.remotes, &publication.remote_kind);
            add(&mut running.locals, &publication.local_kind);
        }
        Self { uids, ..running }
    }

    pub fn all(&self) -> impl Iterator<Item = &Arc<Publication>> {
        self.uids.values()
    }

    fn of_remote(&self, kind: &Arc<Gvk>) -> impl Iterator<Item = &Arc<Publication>> {
        self.remotes.get(kind).into_iter().flatten()
    }

    fn of_local(&self, kind: &Arc<Gvk>) -> impl Iterator<Item = &Arc<Publication>> {
        self.locals.get(kind).into_iter().flatten()
    }
}

impl Dispatch {
    pub fn new(
        sides: &Sides,
        cache: &Arc<Cache>,
        queue: Queue<SubjectId>,
        control: Vec<Arc<Gvk>>,
        namespace: &str,
    ) -> (Arc<Self>, mpsc::UnboundedReceiver<News>) {
        let (news, heard) = mpsc::unbounded_channel();
        let dispatch = Self {
            sides: sides.clone(),
            cache: Arc::clone(cache),
            queue,
            running: RwLock::default(),
            at_work: AtomicBool::new(false),
            news,
            company: Company::new(namespace),
            control,
        };
        (Arc::new(dispatch), heard)
    }

    /// Passes are run from now on; whoever says so sees to it that all that is known is queued.
    pub fn begin(&self) {
        self.at_work.store(true, Ordering::SeqCst);
    }

    pub fn is_at_work(&self) -> bool {
        self.at_work.load(Ordering::SeqCst)
    }

    pub fn running(&self) -> Arc<Running> {
        Arc::clone(&self.running.read())
    }

    pub fn publication(&self, uid: &str) -> Option<Arc<Publication>> {
        self.running.read().uids.get(uid).cloned()
    }

    /// Puts a publication to work, in place of the one with its uid.
    pub fn start(&self, publication: &Arc<Publication>) {
        let uid = Arc::clone(&publication.plan.uid);
        let mut running = self.running.write();
        let mut uids = running.uids.clone();
        let replaced = uids.insert(Arc::clone(&uid), Arc::clone(publication));
        *running = Arc::new(Running::of(uids));
        drop(running);
        if let Some(before) = replaced {
            before.stop();
            // What was wrong with an object may have been its rules.
            self.queue.retry(|id| id.publication == uid);
        }
    }

    /// Takes a publication out. Nothing more is written for it, and nothing of it waits any longer.
    pub fn stop(&self, uid: &str) -> Option<Arc<Publication>> {
        let mut running = self.running.write();
        let mut uids = running.uids.clone();
        let stopped = uids.remove(uid)?;
        stopped.stop();
        *running = Arc::new(Running::of(uids));
        drop(running);
        self.queue.forget(|id| *id.publication == *uid);
        Some(stopped)
    }

    /// Every object of a workspace that has come to take part.
    pub fn engaged(&self, cluster: &str) {
        let Some(source) = self.cache.source(&self.sides.kcp, cluster) else {
            return;
        };
        for publication in self.running().all() {
            self.initial(publication, &source, Some(cluster));
        }
    }

    /// A first list has come: whoever asks for this kind and now sees all that is needed begins.
    pub fn completed(&self, source: &SourceId, kind: &Arc<Gvk>) {
        for publication in self.running().all() {
            // On the service cluster late ones are of related kinds, and concern every endpoint.
            let is_local = **source == *SERVICE;
            let sources = if is_local && publication.related.watches_local(kind) {
                publication.sources()
            } else if !is_local && publication.watches(source, kind) {
                vec![Arc::clone(source)]
            } else {
                Vec::new()
            };
            for source in sources {
                if publication.sees(&source) {
                    self.initial(publication, &source, None);
                }
            }
        }
    }

    /// A workspace no longer takes part: nothing of it waits, and nothing of it is kept in mind.
    pub fn disengaged(&self, cluster: &str) {
        for publication in self.running().all() {
            publication.forget(cluster);
        }
        self.queue.forget(|id| *id.cluster == *cluster);
    }

    /// Every object of a publication, wherever it is.
    pub fn again(&self, publication: &Publication) {
        for source in publication.sources() {
            for id in publication.subjects(&source, None) {
                self.add(id, Urgency::Live);
            }
        }
    }

    /// Everything that is known already of an endpoint.
    pub fn initial(&self, publication: &Publication, source: &SourceId, cluster: Option<&str>) {
        for id in publication.subjects(source, cluster) {
            self.add(id, Urgency::Initial);
        }
    }

    /// What a pass learned: everybody who depends on it hears of it, but for the pass itself.
    pub fn learned(&self, by: &SubjectId, change: &Change) {
        if let Some(source) = self.cache.source(&change.key.side, &change.key.cluster) {
            self.heard(&source, change, Some(by));
        }
    }

    fn heard(&self, source: &SourceId, change: &Change, by: Option<&SubjectId>) {
        let urgency = match change.what {
            What::Initial => Urgency::Initial,
            What::Changed | What::Gone => Urgency::Live,
        };
        let mut concerned = Vec::new();
        if change.key.side == self.sides.kcp {
            // Of first lists all is taken together, once everything else is known that passes ask for.
            if change.what != What::Initial {
                self.remote(source, &change.key, &mut concerned);
                self.related(change, &mut concerned);
            }
        } else {
            // What a pass made is known to whoever shares it from that pass.
            if by.is_none() {
                self.company.heard(&self.sides, change);
            }
            self.local(change, &mut concerned);
            self.related(change, &mut concerned);
        }
        for id in concerned {
            if by != Some(&id) {
                self.add(id, urgency);
            }
        }
    }

    /// One object, when nothing else is to be done.
    pub fn look_at(&self, id: SubjectId) {
        self.add(id, Urgency::Initial);
    }

    fn add(&self, id: SubjectId, urgency: Urgency) {
        if !self.is_at_work() {
            return;
        }
        // Objects of workspaces that do not take part come to their turn when these do.
        if self.cache.source(&self.sides.kcp, &id.cluster).is_some() {
            let tenant = Arc::clone(&id.cluster);
            self.queue.add(id, &tenant, urgency);
        }
    }

    /// An object of a workspace, or one that its passes depend on.
    fn remote(&self, source: &SourceId, key: &Key, concerned: &mut Vec<SubjectId>) {
        let running = self.running();
        for publication in running.of_remote(&key.kind) {
            concerned.push(publication.subject(key));
        }
        if key.kind == namespace_kind() {
            let filtering = running.all().filter(|p| p.compiled().needs_namespace());
            for publication in filtering {
                concerned.extend(publication.subjects_in(source, &key.cluster, &key.name));
            }
        }
    }

    /// What travels with objects, or would.
    fn related(&self, change: &Change, concerned: &mut Vec<SubjectId>) {
        for publication in self.running().all() {
            concerned.extend(publication.related.asking(change));
        }
    }

    /// A copy.
    fn local(&self, change: &Change, concerned: &mut Vec<SubjectId>) {
        let running = self.running();
        for publication in running.of_local(&change.key.kind) {
            concerned.extend(publication.subjects_of_copy(change));
        }
    }
}

impl Hears for Dispatch {
    fn changed(&self, source: &SourceId, change: Change) {
        if !self.control.contains(&change.key.kind) {
            self.heard(source, &change, None);
        } else if change.object.is_fragment() && change.what != What::Gone {
            let (kind, name) = (&change.key.kind, &*change.key.name);
            warn!(%kind, name, "an object is nested too deeply to be read, what was known of it counts");
        } else {
            // Nobody listens only while the process ends.
            let _ = self.news.send(News::Changed(Arc::clone(source), change));
        }
    }

    fn completed(&self, source: &SourceId, table: &Arc<Table>) {
        let kind = Arc::clone(table.kind());
        let _ = self.news.send(News::Completed(Arc::clone(source), kind));
    }
}
