//! Related objects at work: which kinds they are, the feeds by which their changes are noticed, and
//! whose turn it is then.
//!
//! One watch a kind and side serves all published resources. Where a kind cannot be watched, what
//! depends on it is looked at again every few seconds instead.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::{Mutex, RwLock};
use tokio::sync::Notify;
use tokio::time::Instant;
use tracing::{info, warn};

use super::atlas::Places;
use super::feeds::{Feeds, Wanted, Watched};
use super::publication::{Publication, SubjectId, local_feed, namespace_kind, secret_kind};
use super::publishing::Publishing;
use super::workspaces::Endpoint;
use crate::publish::compiled::Compiled;
use crate::publish::marks::{self, Remote};
use crate::publish::memory;
use crate::publish::related::{
    self, Claimant, Ends, Kinds, Ledger, Published, RelatedKind, Surroundings, TypeName,
};
use crate::publish::rules::Sides;
use crate::publish::types::Origin;
use hawser_runtime::cluster::cache::{Change, Coverage, SourceId, What};
use hawser_runtime::cluster::connection::Connection;
use hawser_runtime::cluster::discovery::{Discovery, DiscoveryError, Kind};
use hawser_sync::decide::Question;
use hawser_sync::{CopyRecord, Key, Prints, Report};
use kube_lang::object::{Gvk, Object};

mod index;
mod quieting;

use index::Index;
use quieting::Quieting;

/// What all published resources share. One a process.
#[derive(Debug)]
pub struct Company {
    /// Of the agent: memories are nowhere else, whatever objects elsewhere say that they are.
    namespace: Arc<str>,
    ledger: Ledger,
    quieting: Quieting,
    /// What was heard of and whose names nobody has learned yet.
    names: Mutex<Vec<Ends>>,
    published: RwLock<Arc<[Published]>>,
}

impl Company {
    pub fn new(namespace: &str) -> Self {
        Self {
            namespace: namespace.into(),
            ledger: Ledger::default(),
            quieting: Quieting::default(),
            names: Mutex::default(),
            published: RwLock::default(),
        }
    }

    /// Takes what a memory says that was made, until its subject was looked at.
    pub fn heard(&self, sides: &Sides, change: &Change) {
        let secret = &change.object;
        let is_ours = change.key.kind == secret_kind()
            && change.key.namespace.as_ref() == Some(&self.namespace);
        if !is_ours {
            return;
        }
        let (Some(_), Some(cluster)) = (
            secret.label(marks::OBJECT_STATE),
            secret.label(marks::CLUSTER),
        ) else {
            return;
        };
        // What travels with it is in the same workspace.
        let remote = Remote {
            cluster: cluster.to_owned(),
            namespace: None,
            name: String::new(),
        };
        let ends: Vec<_> = match change.what {
            What::Gone => Vec::new(),
            _ if !memory::codec::tells_of_related(secret) => return,
            What::Initial | What::Changed => memory::codec::copies(secret)
                .iter()
                .filter_map(|(id, copy)| {
                    let made = !matches!(copy, CopyRecord::Adopted { .. });
                    Some((Ends::read(id, sides, &remote)?, made))
                })
                .collect(),
        };
        let wishes = ends.iter().flat_map(|(ends, _)| ends.wishes()).collect();
        let made = ends.iter().filter(|(_, made)| *made);
        let made = made.flat_map(|(ends, _)| ends.wishes()).collect();
        let by = claimant(secret, &remote);
        self.ledger.remembered(&by, wishes, made);
        self.names
            .lock()
            .extend(ends.into_iter().map(|(ends, _)| ends));
    }

    /// Lets requests find the kinds of which memories tell, though no entry may name them any more.
    pub fn teach(&self, places: &Places) {
        let heard = std::mem::take(&mut *self.names.lock());
        for (key, resource) in heard.iter().flat_map(|ends| [&ends.source, &ends.target]) {
            places.learn_kind(&key.side, &key.kind, resource);
        }
    }

    /// All kinds that are published.
    pub fn published(&self) -> Arc<[Published]> {
        Arc::clone(&self.published.read())
    }

    /// From now on exactly these kinds are published; whether some were not before.
    pub fn publishes(&self, now: Vec<Published>) -> bool {
        let mut published = self.published.write();
        let is_new = |one: &Published| {
            let mut before = published.iter();
            !before.any(|before| (&before.group, &before.kind) == (&one.group, &one.kind))
        };
        let some_are_new = now.iter().any(is_new);
        *published = now.into();
        some_are_new
    }

    pub fn ledger(&self) -> &Ledger {
        &self.ledger
    }

    pub fn around<'a>(&'a self, kinds: &'a Kinds, published: &'a [Published]) -> Surroundings<'a> {
        Surroundings {
            kinds,
            ledger: &self.ledger,
            published,
            quiet: &self.quieting,
        }
    }
}

fn claimant(secret: &Object, remote: &Remote) -> Claimant {
    Claimant {
        memory: secret.name().into(),
        cluster: remote.cluster.as_str().into(),
    }
}

type ByKind = HashMap<Arc<Gvk>, Arc<Watched>>;

/// The related objects of one published resource.
pub struct Works {
    sides: Sides,
    kinds: RwLock<Arc<Kinds>>,
    /// What is watched of the service cluster, and of each endpoint.
    local: RwLock<ByKind>,
    remote: RwLock<HashMap<SourceId, ByKind>>,
    index: Mutex<Index>,
    /// Nothing waits any longer for kinds that nobody serves.
    begun: AtomicBool,
    /// Goes up whenever passes would find something else though no object has changed.
    edition: AtomicU64,
    /// Since when a definition of one of the types may not be served as it is.
    defined: Mutex<Option<Instant>>,
    /// When the types of workspaces were asked for last.
    asked: Mutex<Instant>,
    stirred: Notify,
}

/// Whether an object of a workspace is still there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    There,
    Gone,
}

/// For how long passes wait for kinds to be found when a published resource is put to work.
const PATIENCE: Duration = Duration::from_secs(3);
/// How often what cannot be watched is looked at.
const FIRST: Duration = Duration::from_secs(1);
const LAST: Duration = Duration::from_secs(10);
/// For how long types are asked for again after a definition has changed: what is served follows it.
const SETTLING: Duration = Duration::from_secs(10);
/// How often the types of workspaces are asked for: of what other exports change in them nobody tells.
const OUTDATED: Duration = Duration::from_secs(30);

/// Of how many bytes of objects that nobody asked for the bodies are kept, of each kind and source. Most
/// Secrets of a cluster are none of ours, and consumers may have as many as they like.
const IDLE: usize = 16 << 20;

fn candidates() -> Coverage {
    Coverage {
        idle: Some(IDLE),
        ..Coverage::default()
    }
}

impl Works {
    pub fn new(sides: &Sides, compiled: &Compiled) -> Self {
        let works = Self {
            sides: sides.clone(),
            kinds: RwLock::default(),
            local: RwLock::default(),
            remote: RwLock::default(),
            index: Mutex::default(),
            begun: AtomicBool::new(false),
            edition: AtomicU64::new(0),
            defined: Mutex::default(),
            asked: Mutex::new(Instant::now()),
            stirred: Notify::new(),
        };
        if works.unknown(compiled).is_empty() {
            works.begin();
        }
        works
    }

    fn begin(&self) {
        self.begun.store(true, Ordering::SeqCst);
    }

    pub fn kinds(&self) -> Arc<Kinds> {
        Arc::clone(&self.kinds.read())
    }

    /// Of what passes find apart from objects.
    pub fn edition(&self) -> u64 {
        self.edition.load(Ordering::SeqCst)
    }

    /// Passes would find something else from now on.
    pub fn renew(&self) {
        self.edition.fetch_add(1, Ordering::SeqCst);
    }

    /// A definition of this group has changed, on the service cluster: types of it, and those of
    /// workspaces that are made from it, may be others from now on.
    pub fn defined_anew(&self, compiled: &Compiled, group: &str) {
        let mut entries = compiled.related().iter();
        if entries.any(|e| {
            [e.on_service(), e.in_workspaces()]
                .iter()
                .any(|t| t.group == group)
        }) {
            *self.defined.lock() = Some(Instant::now());
            self.stirred.notify_one();
        }
    }

    /// Types that are known and may be others by now.
    fn outdated(&self, compiled: &Compiled) -> BTreeSet<(Origin, TypeName)> {
        let settling = {
            let mut defined = self.defined.lock();
            *defined = defined.filter(|since| since.elapsed() < SETTLING);
            defined.is_some()
        };
        let mut asked = self.asked.lock();
        let remote = settling || asked.elapsed() >= OUTDATED;
        if remote {
            *asked = Instant::now();
        }
        drop(asked);
        let kinds = self.kinds();
        let mut all = types(compiled);
        all.retain(|(side, name)| {
            let due = match side {
                Origin::Service => settling,
                Origin::Kcp => remote,
            };
            due && !name.group.is_empty() && kinds.get(*side, name).is_some()
        });
        all
    }

    fn is_settling(&self) -> bool {
        self.defined.lock().is_some()
    }

    /// Types that no side has told of yet.
    fn unknown(&self, compiled: &Compiled) -> BTreeSet<(Origin, TypeName)> {
        let kinds = self.kinds();
        let mut all = types(compiled);
        all.retain(|(side, name)| kinds.get(*side, name).is_none());
        all
    }

    /// Types that are looked for and not found, in words.
    pub fn unserved(&self, compiled: &Compiled) -> Vec<String> {
        if !self.begun.load(Ordering::SeqCst) {
            return Vec::new();
        }
        let words = |(side, name): (Origin, TypeName)| {
            let TypeName {
                group,
                version,
                resource,
            } = name;
            let place = match side {
                Origin::Kcp => "in workspaces",
                Origin::Service => "on the service cluster",
            };
            let dot = if group.is_empty() { "" } else { "." };
            format!("{resource}{dot}{group} in version {version} {place}")
        };
        self.unknown(compiled).into_iter().map(words).collect()
    }

    /// What has to be watched on one side: kinds, and what they are called in paths.
    fn wanted(&self, compiled: &Compiled, side: Origin) -> Vec<(Arc<Gvk>, String)> {
        let kinds = self.kinds();
        let mut wanted = Vec::new();
        for entry in compiled.related() {
            let name = match side {
                Origin::Service => entry.on_service(),
                Origin::Kcp => entry.in_workspaces(),
            };
            if let Some(known) = kinds.get(side, name) {
                wanted.push((Arc::clone(&known.kind), name.resource.clone()));
            }
            // Those of the service cluster are watched anyway.
            if side == Origin::Kcp && entry.origin == Origin::Kcp && entry.selects_namespaces() {
                wanted.push((namespace_kind(), "namespaces".to_owned()));
            }
        }
        wanted
    }

    /// Watches the service cluster for all kinds that are known.
    pub fn watch_local(&self, compiled: &Compiled, service: &Connection, feeds: &Feeds) {
        let mut local = self.local.write();
        for (kind, resource) in self.wanted(compiled, Origin::Service) {
            local.entry(Arc::clone(&kind)).or_insert_with(|| {
                let side = &self.sides.service;
                feeds.watch(local_feed(service, side, &kind, &resource, candidates()))
            });
        }
    }

    /// Watches at exactly these endpoints for all kinds that are known.
    pub fn watch_remote(&self, compiled: &Compiled, endpoints: &[Endpoint], feeds: &Feeds) {
        let wanted = self.wanted(compiled, Origin::Kcp);
        let mut remote = self.remote.write();
        remote.retain(|url, _| endpoints.iter().any(|endpoint| endpoint.url == *url));
        for endpoint in endpoints {
            let watched = remote.entry(Arc::clone(&endpoint.url)).or_default();
            for (kind, resource) in &wanted {
                watched.entry(Arc::clone(kind)).or_insert_with(|| {
                    let wanted = endpoint.wanted(&self.sides, kind, resource);
                    feeds.watch(Wanted {
                        coverage: candidates(),
                        ..wanted
                    })
                });
            }
        }
    }

    /// Whether everything is known that can be known: what cannot be watched is read.
    pub fn sees(&self, source: &SourceId) -> bool {
        let settled = |feed: &Arc<Watched>| {
            let health = feed.health();
            health.complete || health.problem.is_some()
        };
        self.begun.load(Ordering::SeqCst)
            && self.local.read().values().all(settled)
            && self
                .remote
                .read()
                .get(source)
                .is_none_or(|feeds| feeds.values().all(settled))
    }

    /// Whether passes ask for objects of this kind at an endpoint.
    pub fn watches(&self, source: &SourceId, kind: &Arc<Gvk>) -> bool {
        let remote = self.remote.read();
        remote
            .get(source)
            .is_some_and(|feeds| feeds.contains_key(kind))
    }

    /// Whether passes ask for objects of this kind on the service cluster.
    pub fn watches_local(&self, kind: &Arc<Gvk>) -> bool {
        self.local.read().contains_key(kind)
    }

    /// What nobody tells of is read again by the passes that come.
    fn look_anew(&self) {
        for feed in self.feeds() {
            feed.table().forget_answers();
        }
    }

    fn is_complete(&self) -> bool {
        self.feeds().iter().all(|feed| feed.is_complete())
    }

    /// Everything that is watched.
    pub fn feeds(&self) -> Vec<Arc<Watched>> {
        let (local, remote) = (self.local.read(), self.remote.read());
        let remote = remote.values().flat_map(HashMap::values);
        local.values().chain(remote).cloned().collect()
    }

    /// Takes down what a pass asked, by which its subject is found again; whether something of that
    /// changed before, which nobody was told of.
    pub fn note(
        &self,
        publication: &Publication,
        id: &SubjectId,
        report: &Report,
        standing: Standing,
        prints: &dyn Prints,
    ) -> bool {
        let entries = publication.compiled().related();
        let tells = report.outcomes.iter();
        let tells = tells
            .filter(|one| related::entry_of(&one.link).is_some())
            .count()
            > 0;
        if entries.is_empty() && !tells {
            return false;
        }
        let anchor = publication.anchor(id);
        let namespaces = entries.iter().any(|entry| entry.selects_namespaces());
        let concerns = |question: &&Question| match question {
            Question::Object(key) => {
                let own = *key == anchor || self.is_state(publication, key);
                !own && (namespaces || key.kind != namespace_kind())
            }
            Question::Marked(scope, _) => {
                scope.side == self.sides.kcp
                    || scope.kind != publication.local_kind
                    || self.local.read().contains_key(&scope.kind)
            }
        };
        let questions = match standing {
            // What it held and could not let go may show again.
            Standing::Gone if !tells => Vec::new(),
            Standing::Gone | Standing::There => {
                report.asked.iter().filter(concerns).cloned().collect()
            }
        };
        let new = self.index.lock().set(id, questions);
        let mut answers = report.asked.iter().zip(&report.prints);
        answers.any(|(question, print)| {
            new.contains(question) && print.is_some() && prints.print(question) != *print
        })
    }

    fn is_state(&self, publication: &Publication, key: &Key) -> bool {
        let agent = &publication.compiled().agent().namespace;
        key.side == self.sides.service && key.namespace.as_deref() == Some(agent)
    }

    /// Whose related objects this is one of, or would be.
    pub fn asking(&self, change: &Change) -> Vec<SubjectId> {
        let index = self.index.lock();
        index
            .asking(&change.key, &change.object)
            .into_iter()
            .collect()
    }
}

impl Publishing {
    /// Finds out what the related kinds of a publication are, and looks at its objects whenever more
    /// is known, and now and then while not everything is watched; ends with the publication.
    pub async fn follow_related(self: Arc<Self>, publication: Arc<Publication>) {
        if publication.compiled().related().is_empty() {
            return;
        }
        let works = &publication.related;
        let began = Instant::now();
        let mut wait = FIRST / 4;
        let mut told = BTreeSet::new();
        let mut watched = false;
        while !publication.is_stopped() {
            let learned = self.learn_related(&publication, &mut told).await;
            let unknown = !works.unknown(publication.compiled()).is_empty();
            if !unknown || began.elapsed() >= PATIENCE {
                works.begin();
            }
            let all = !unknown && works.is_complete() && !self.workspaces.endpoints().is_empty();
            if learned || all != watched {
                wait = FIRST / 4;
            }
            // Endpoints come and go: what is watched of all today is not watched of a new one.
            if learned || !(all && watched) {
                works.look_anew();
                self.again(&publication);
            }
            watched = all;
            tokio::select! {
                () = tokio::time::sleep(wait) => wait = (wait * 2).min(LAST),
                () = works.stirred.notified() => wait = FIRST / 4,
            }
            if works.is_settling() {
                wait = wait.min(FIRST);
            }
        }
    }

    /// Every object of a publication that can be looked at.
    pub(super) fn again(&self, publication: &Publication) {
        for source in publication.sources() {
            if publication.sees(&source) {
                self.dispatch.initial(publication, &source, None);
            }
        }
    }

    async fn learn_related(
        &self,
        publication: &Publication,
        told: &mut BTreeSet<(Origin, TypeName)>,
    ) -> bool {
        let works = &publication.related;
        let compiled = publication.compiled();
        let mut learned = false;
        let outdated = works.outdated(compiled);
        for (side, name) in works.unknown(compiled).into_iter().chain(outdated) {
            let known = works.kinds().get(side, &name).cloned();
            if known.is_some() && side == Origin::Service {
                self.schemas.discovery.invalidate(&name.group);
            }
            match self.find_related(side, &name).await {
                Ok(Some(kind)) => {
                    let kind = related_kind(&kind, &name);
                    if known.as_ref() == Some(&kind) {
                        continue;
                    }
                    let at = match side {
                        Origin::Kcp => &self.sides.kcp,
                        Origin::Service => &self.sides.service,
                    };
                    self.places.learn_kind(at, &kind.kind, &name.resource);
                    let news = if known.is_none() {
                        "was found"
                    } else {
                        "has changed"
                    };
                    info!(publishedresource = %publication.plan.name, kind = %kind.kind, side = %at, namespaced = kind.namespaced, status = kind.status, "a related kind {news}");
                    let mut kinds = works.kinds.write();
                    let mut more = Kinds::clone(&kinds);
                    more.learn(side, name, kind);
                    *kinds = Arc::new(more);
                    drop(kinds);
                    works.renew();
                    learned = true;
                }
                // It comes back, or its objects went with it: as long as it is not there, it is what it was.
                Ok(None) | Err(_) if known.is_some() => {}
                Ok(None) | Err(_) => {
                    if told.insert((side, name.clone())) {
                        let TypeName {
                            group,
                            version,
                            resource,
                        } = &name;
                        warn!(publishedresource = %publication.plan.name, group, version, resource, ?side, "a related kind is not served yet");
                    }
                }
            }
        }
        if learned {
            works.watch_local(compiled, &self.service, &self.feeds);
            works.watch_remote(compiled, &self.workspaces.endpoints(), &self.feeds);
        }
        learned
    }

    async fn find_related(
        &self,
        side: Origin,
        name: &TypeName,
    ) -> Result<Option<Kind>, DiscoveryError> {
        let TypeName {
            group,
            version,
            resource,
        } = name;
        if side == Origin::Service {
            let discovery = &self.schemas.discovery;
            return discovery.resource(group, version, resource).await;
        }
        let mut answer = Ok(None);
        for endpoint in self.workspaces.endpoints() {
            let discovery = Discovery::new(endpoint.everywhere());
            answer = discovery.resource(group, version, resource).await;
            if matches!(answer, Ok(Some(_))) {
                break;
            }
        }
        answer
    }
}

/// Every type that entries lead to, on each side.
fn types(compiled: &Compiled) -> BTreeSet<(Origin, TypeName)> {
    let entries = compiled.related().iter();
    let types = entries.flat_map(|entry| {
        [
            (Origin::Service, entry.on_service().clone()),
            (Origin::Kcp, entry.in_workspaces().clone()),
        ]
    });
    types.collect()
}

fn related_kind(kind: &Kind, name: &TypeName) -> RelatedKind {
    let mut versions = kind.versions.iter();
    RelatedKind {
        kind: Arc::new(Gvk::new(&name.group, &name.version, &kind.kind)),
        namespaced: kind.namespaced,
        status: versions.any(|version| version.name == name.version && version.status),
    }
}
