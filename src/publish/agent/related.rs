//! Related objects: their kinds, the feeds that report their changes, and the subjects that a change concerns.
//!
//! One watch for each kind and side serves all published resources. If a kind cannot be watched, the subjects that
//! depend on it are queued again every few seconds instead.

use std::collections::HashSet;
use std::sync::Arc;

use parking_lot::RwLock;
use tokio::time::Instant;

use super::feeds::{namespace_kind, secret_kind};
use super::publication::Publication;
use super::router::ResourceNames;
use super::share::Share;
use super::subject::SubjectId;
use super::workspaces::Endpoint;
use crate::publish::marks::{self, Remote};
use crate::publish::memory;
use crate::publish::related::{
    self, AlwaysQuiet, ClaimIndex, ClaimOwner, Kinds, PublishedKind, Quiet, RelatedContext,
    RelatedEnds, TypeName,
};
use crate::publish::rules::Sides;
use crate::publish::types::Origin;
use hawser_runtime::cluster::cache::{Change, ChangeType};
use hawser_runtime::cluster::connection::Connection;
use hawser_runtime::controller::WatchRegistry;
use hawser_sync::Question;
use hawser_sync::{FingerprintSource, Key, Report, Scope};
use kube_lang::object::{Gvk, Object};

mod quiet;
pub(super) mod state;

use quiet::QuietTracker;

/// The state that all published resources share. One for each process.
pub struct RelatedShared {
    /// The agent's namespace: memories are only there, whatever other objects claim.
    namespace: Arc<str>,
    ledger: ClaimIndex,
    quiet: Box<dyn Quiet>,
    published: RwLock<Arc<[PublishedKind]>>,
}

impl RelatedShared {
    pub fn new(namespace: &str) -> Self {
        Self {
            namespace: namespace.into(),
            ledger: ClaimIndex::default(),
            quiet: Box::new(QuietTracker::default()),
            published: RwLock::default(),
        }
    }

    /// A state of its own for passes that are only tried, as a new process would have it: every object has long been
    /// unchanged.
    pub fn for_trials(&self, published: Vec<PublishedKind>) -> Self {
        Self {
            quiet: Box::new(AlwaysQuiet),
            published: RwLock::new(published.into()),
            ..Self::new(&self.namespace)
        }
    }

    /// Adds the claims of a memory until its subject has had a pass. Requests find the kinds of these claims, even if
    /// no entry names them any more.
    ///
    /// A memory without related objects ends the claims of a subject of another replica. Those of a subject of this one
    /// may be of a pass that has not recorded them yet.
    pub fn learn_claims(
        &self,
        sides: &Sides,
        change: &Change,
        names: &ResourceNames,
        share: &Share,
    ) {
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
        // Related objects are in the workspace of the published object.
        let remote = Remote {
            cluster: cluster.to_owned(),
            namespace: None,
            name: String::new(),
        };
        let copies = match change.what {
            ChangeType::Gone => Vec::new(),
            _ if !memory::codec::has_related(secret) => {
                let by = claim_owner(secret, &remote);
                if share.has(cluster) {
                    self.ledger.recorded_nothing(&by);
                } else {
                    self.ledger.remembered_nothing(&by);
                }
                return;
            }
            ChangeType::Initial | ChangeType::Changed => memory::codec::copies(secret),
        };
        let records = copies.iter().map(|(id, copy)| (id, copy));
        let (claims, made) = related::recorded_claims(records, sides, &remote);
        let by = claim_owner(secret, &remote);
        self.ledger.remembered(&by, claims, made);
        let ends = copies
            .iter()
            .filter_map(|(id, _)| RelatedEnds::read(id, sides, &remote))
            .flat_map(|ends| [ends.source, ends.target]);
        for (key, resource) in ends {
            names.register(&key.side, &key.kind, &resource);
        }
    }

    /// The state of the object that has claims.
    pub fn state_key(&self, sides: &Sides, owner: &ClaimOwner) -> Key {
        let scope = Scope::new(&sides.service, &secret_kind(), "");
        scope.key(Some(&self.namespace), &owner.memory)
    }

    /// All published kinds.
    pub fn published(&self) -> Arc<[PublishedKind]> {
        Arc::clone(&self.published.read())
    }

    /// Sets the published kinds; returns whether some are new.
    pub fn publishes(&self, now: Vec<PublishedKind>) -> bool {
        let mut published = self.published.write();
        let is_new = |one: &PublishedKind| {
            let mut before = published.iter();
            !before.any(|before| (&before.group, &before.kind) == (&one.group, &one.kind))
        };
        let some_are_new = now.iter().any(is_new);
        *published = now.into();
        some_are_new
    }

    pub fn ledger(&self) -> &ClaimIndex {
        &self.ledger
    }

    pub fn around<'a>(
        &'a self,
        kinds: &'a Kinds,
        published: &'a [PublishedKind],
    ) -> RelatedContext<'a> {
        RelatedContext {
            kinds,
            ledger: &self.ledger,
            published,
            quiet: &*self.quiet,
        }
    }
}

fn claim_owner(secret: &Object, remote: &Remote) -> ClaimOwner {
    ClaimOwner {
        memory: secret.name().into(),
        cluster: remote.cluster.as_str().into(),
    }
}

/// Whether an object of a workspace still exists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Presence {
    There,
    Gone,
}

/// The related objects of a publication.
impl Publication {
    pub fn related_kinds(&self) -> Arc<Kinds> {
        Arc::clone(&self.state.read().related.kinds)
    }

    /// Whether the related kinds are known, or have been waited for.
    pub(super) fn has_begun(&self) -> bool {
        self.state.read().related.begun
    }

    /// Notes that passes would have another result from now on.
    pub fn renew(&self) {
        self.state.write().related.edition += 1;
    }

    /// The definition of a type of this group has changed on the service cluster: its types, and the workspaces' types
    /// made from them, may be different now.
    pub fn defined_anew(&self, group: &str) {
        let mut entries = self.compiled().related().iter();
        if entries.any(|e| {
            [e.on_service(), e.in_workspaces()]
                .iter()
                .any(|t| t.group == group)
        }) {
            self.state.write().related.defined = Some(Instant::now());
            self.redefined.notify_one();
        }
    }

    /// The related kinds that are not served, as text.
    pub fn unserved(&self) -> Vec<String> {
        let state = self.state.read();
        if !state.related.begun {
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
        let unknown = state.related.unknown(self.compiled());
        unknown.into_iter().map(words).collect()
    }

    /// Watches all known related kinds at exactly these endpoints.
    pub(super) fn watch_related(
        &self,
        service: &Connection,
        endpoints: &[Endpoint],
        watches: &WatchRegistry,
    ) {
        let (sides, compiled) = (&self.sides, self.compiled());
        let related = &mut self.state.write().related;
        related.watch_local(sides, compiled, service, watches);
        related.watch_remote(sides, compiled, endpoints, &self.share, watches);
    }

    /// Whether passes need related objects of this kind on the service cluster.
    pub fn watches_related(&self, kind: &Arc<Gvk>) -> bool {
        self.state.read().related.local.contains_key(kind)
    }

    /// Records the questions of a pass, by which its subject is found again. Returns whether something of them changed
    /// before without being reported to the subject.
    pub fn note_related(
        &self,
        id: &SubjectId,
        report: &Report,
        presence: Presence,
        own_state: impl FnOnce() -> Option<Key>,
        fingerprints: &dyn FingerprintSource,
    ) -> bool {
        let entries = self.compiled().related();
        let mut outcomes = report.outcomes.iter();
        let tells = outcomes.any(|one| related::entry_of(&one.link).is_some());
        if entries.is_empty() && !tells {
            return false;
        }
        let anchor = self.anchor(id);
        let namespaces = entries.iter().any(|entry| entry.selects_namespaces());
        let is_state = |key: &Key| {
            let agent = &self.compiled().agent().namespace;
            key.side == self.sides.service && key.namespace.as_deref() == Some(agent)
        };
        // The states of others are asked for rarely.
        let states = report.asked.iter().filter(|question| match question {
            Question::Object(key) => is_state(key),
            Question::Marked(..) => false,
        });
        let own_state = if states.count() > 1 {
            own_state()
        } else {
            None
        };
        let mut state = self.state.write();
        let local = &state.related.local;
        let concerns = |question: &&Question| match question {
            Question::Object(key) if is_state(key) => {
                own_state.as_ref().is_some_and(|own| own != key)
            }
            Question::Object(key) => *key != anchor && (namespaces || key.kind != namespace_kind()),
            Question::Marked(scope, _) => {
                scope.side == self.sides.kcp
                    || scope.kind != self.local_kind
                    || local.contains_key(&scope.kind)
            }
        };
        let questions = match presence {
            // The object may have related objects with our finalizer that show again.
            Presence::Gone if !tells => Vec::new(),
            Presence::Gone | Presence::There => {
                report.asked.iter().filter(concerns).cloned().collect()
            }
        };
        let new = state.related.index.set(id, questions);
        // The comparison may take long, and others need the state.
        drop(state);
        let mut answers = report.asked.iter().zip(&report.fingerprints);
        answers.any(|(question, fingerprint)| {
            new.contains(question)
                && fingerprint.is_some()
                && fingerprints.fingerprint(question) != *fingerprint
        })
    }

    /// The subjects that refer to objects without a watch.
    pub(super) fn dependents_on_unwatched(&self) -> HashSet<SubjectId> {
        let state = self.state.read();
        let watches = state.related.watches();
        let unwatched = watches.filter(|watch| !watch.is_complete());
        let index = &state.related.index;
        unwatched
            .flat_map(|watch| index.dependents_on_kind(watch.table().side(), watch.table().kind()))
            .collect()
    }
}
