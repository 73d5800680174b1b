//! The placements, members and overrides that an event concerns.

use std::collections::HashMap;
use std::hash::{BuildHasher as _, RandomState};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use jiff::Timestamp;
use parking_lot::{Mutex, RwLock};
use serde_json::Value;
use tokio::sync::Notify;

use hawser_placement::hub::news::{MemberChange, interest, member_traits};
use hawser_placement::names;
use hawser_placement::scheduler::GracePeriods;
use hawser_placement::types::cluster::MemberCluster;
use hawser_placement::types::eviction::Eviction;
use hawser_placement::types::placement::Placement;
use hawser_placement::types::policy::{ResourceSelectorTerm, SelectionScope};
use hawser_runtime::cluster::cache::{Change, ChangeType, Table};
use hawser_runtime::cluster::feed::EventHandler;
use hawser_runtime::cluster::queue::{Queue, Urgency};
use hawser_sync::Key;
use kube_lang::object::{Gvk, Object};

use super::key::{HubKey, PlacementId};
use super::objects::{self, DEFINITIONS};
use super::runs::index::RunIndex;

/// The hashes of those parts of a member that scheduling uses, and its last heartbeat.
struct MemberTraits {
    hashes: [(MemberChange, u64); 3],
    heartbeat: Option<Timestamp>,
}

/// A time in the changes of what a placement may select.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SelectionTime {
    uid: Option<String>,
    generation: i64,
    its: u64,
    all: u64,
}

/// The facts about a placement that are known before a pass over it.
struct WatchedPlacement {
    uid: Option<String>,
    generation: i64,
    /// The number of changes of objects that it may select.
    changes: AtomicU64,
    selectors: Vec<ResourceSelectorTerm>,
    /// The least that has to change of a member to concern it.
    news: MemberChange,
}

/// Maps events to keys of the queue.
pub struct HubEvents {
    pub queue: Queue<HubKey>,
    runs: RunIndex,
    placements: RwLock<HashMap<PlacementId, WatchedPlacement>>,
    traits: Mutex<HashMap<Arc<str>, MemberTraits>>,
    /// The hashes of those parts of Works that bindings repeat.
    said: Mutex<HashMap<Key, u64>>,
    /// Counts the changes of what can be selected at all.
    changes: AtomicU64,
    random: RandomState,
    windows: GracePeriods,
    /// The keys that wait for the first lists.
    parked: Mutex<Vec<HubKey>>,
    /// Selectors have changed, so that other kinds may be selected.
    pub selected: Notify,
    /// A definition of a kind has changed.
    pub defined: Notify,
}

impl HubEvents {
    pub fn new(workers: usize, windows: GracePeriods) -> Arc<Self> {
        Arc::new(Self {
            queue: Queue::new(workers),
            runs: RunIndex::default(),
            placements: RwLock::default(),
            traits: Mutex::default(),
            said: Mutex::default(),
            changes: AtomicU64::default(),
            random: RandomState::new(),
            windows,
            parked: Mutex::default(),
            selected: Notify::new(),
            defined: Notify::new(),
        })
    }

    pub fn add(&self, key: HubKey, urgency: Urgency) {
        self.queue.add(key, urgency);
    }

    /// All placements, as if everything that they select were new.
    pub fn add_all(&self, urgency: Urgency) {
        self.changes.fetch_add(1, Ordering::AcqRel);
        self.add_concerned(MemberChange::Identity, urgency);
    }

    /// The placements that a change of a member concerns.
    fn add_concerned(&self, news: MemberChange, urgency: Urgency) {
        for (id, interested) in &*self.placements.read() {
            if news >= interested.news {
                self.add(HubKey::Placement(id.clone()), urgency);
            }
        }
    }

    /// The time of a selection that begins now; `None` if changes of the selected objects are not watched.
    pub fn selection_time(&self, id: &PlacementId) -> Option<SelectionTime> {
        let placements = self.placements.read();
        let interested = placements.get(id)?;
        let mut kinds = interested.selectors.iter();
        let of_fleet = kinds
            .any(|term| objects::is_of_fleet(&Gvk::new(&term.group, &term.version, &term.kind)));
        (!of_fleet).then(|| SelectionTime {
            uid: interested.uid.clone(),
            generation: interested.generation,
            its: interested.changes.load(Ordering::Acquire),
            all: self.changes.load(Ordering::Acquire),
        })
    }

    /// Keeps a key until a table is complete.
    pub fn defer(&self, key: HubKey) {
        self.parked.lock().push(key);
    }

    /// Queues everything that waited for a table.
    pub fn queue_deferred(&self) {
        let parked = std::mem::take(&mut *self.parked.lock());
        for key in parked {
            self.add(key, Urgency::Initial);
        }
    }

    /// The selectors of all placements; true if the placement has a namespace.
    pub fn selectors(&self) -> Vec<(bool, ResourceSelectorTerm)> {
        let placements = self.placements.read();
        let all = placements.iter().flat_map(|(id, interested)| {
            let is_near = id.namespace.is_some();
            let selectors = interested.selectors.iter();
            selectors.map(move |term| (is_near, term.clone()))
        });
        all.collect()
    }

    /// Processes a change. Queues the keys that it concerns, except for `by`, which already has it.
    pub fn note(&self, change: &Change, by: Option<&HubKey>) {
        let urgency = match change.what {
            ChangeType::Initial => Urgency::Initial,
            ChangeType::Changed | ChangeType::Gone => Urgency::Live,
        };
        let add = |key: HubKey| {
            if by != Some(&key) {
                self.add(key, urgency);
            }
        };
        let (key, object) = (&change.key, &*change.object);
        let id = || PlacementId {
            namespace: key.namespace.clone(),
            name: Arc::clone(&key.name),
        };
        if !objects::is_of_fleet(&key.kind) {
            self.concerned(key)
                .into_iter()
                .for_each(|id| add(HubKey::Placement(id)));
            return;
        }
        self.runs.note(change, &add);
        match &*key.kind.kind {
            "ClusterResourcePlacement" | "ResourcePlacement" => {
                self.select(id(), change);
                add(HubKey::Placement(id()));
            }
            "ClusterResourcePlacementStatus" => add(HubKey::Placement(PlacementId {
                namespace: None,
                name: Arc::clone(&key.name),
            })),
            "MemberCluster" => {
                add(HubKey::Member(Arc::clone(&key.name)));
                if let Some(news) = self.news(change) {
                    self.add_concerned(news, urgency);
                }
            }
            "InternalMemberCluster" => add(HubKey::Member(Arc::clone(&key.name))),
            "ClusterResourceOverride" | "ResourceOverride" => add(HubKey::Override(id())),
            "ClusterResourceOverrideSnapshot" | "ResourceOverrideSnapshot" => {
                if let Some(name) = object.label(names::PARENT_OVERRIDE) {
                    add(HubKey::Override(PlacementId {
                        namespace: key.namespace.clone(),
                        name: name.into(),
                    }));
                }
                let named = object
                    .as_value()
                    .pointer("/spec/overrideSpec/placement/name");
                let named = named.and_then(|name| name.as_str());
                for id in self.placements.read().keys() {
                    if named.is_none_or(|name| *id.name == *name) {
                        add(HubKey::Placement(id.clone()));
                    }
                }
            }
            "ClusterResourcePlacementEviction" => {
                if let Ok(eviction) = objects::read::<Eviction>(object) {
                    add(HubKey::Placement(PlacementId {
                        namespace: None,
                        name: eviction.spec.placement_name.into(),
                    }));
                }
            }
            "Work" => {
                if self.changes_binding(change) {
                    add_parent(object, object.label(names::PARENT_NAMESPACE), &add);
                }
            }
            _ => add_parent(object, object.namespace(), &add),
        }
    }

    fn select(&self, id: PlacementId, change: &Change) {
        let now = match change.what {
            ChangeType::Gone => None,
            ChangeType::Initial | ChangeType::Changed => {
                objects::read::<Placement>(&change.object).ok()
            }
        };
        let mut placements = self.placements.write();
        let before = placements.get(&id);
        let changes = before.map_or(0, |before| before.changes.load(Ordering::Acquire));
        let now = now.map(|placement| WatchedPlacement {
            uid: placement.metadata.uid.clone(),
            generation: placement.metadata.generation,
            changes: changes.into(),
            news: interest(&placement),
            selectors: placement.spec.resource_selectors,
        });
        let before = before.map(|before| &before.selectors);
        if before != now.as_ref().map(|now| &now.selectors) {
            self.selected.notify_one();
        }
        match now {
            Some(now) => placements.insert(id, now),
            None => placements.remove(&id),
        };
    }

    /// Whether anything changed of a Work that concerns its binding. That manifests are about to be applied does not.
    fn changes_binding(&self, change: &Change) -> bool {
        let mut said = self.said.lock();
        if change.what == ChangeType::Gone {
            said.remove(&change.key);
            return true;
        }
        let object = change.object.as_value();
        let (metadata, status) = (&object["metadata"], &object["status"]);
        let conditions = &status["conditions"];
        let is_over = conditions.as_array().is_some_and(|all| !all.is_empty());
        let manifests = is_over.then_some(&status["manifestConditions"]);
        let concerns = serde_json::json!([
            metadata["uid"],
            metadata["generation"],
            metadata["labels"],
            metadata["annotations"],
            metadata["deletionTimestamp"],
            conditions,
            manifests,
        ]);
        let now = self.random.hash_one(concerns.to_string());
        said.insert(change.key.clone(), now) != Some(now)
    }

    /// The change of a member that may change the results of scheduling.
    fn news(&self, change: &Change) -> Option<MemberChange> {
        let name = &change.key.name;
        let mut traits = self.traits.lock();
        if change.what == ChangeType::Gone {
            traits.remove(name);
            return Some(MemberChange::Identity);
        }
        let Ok(member) = objects::read::<MemberCluster>(&change.object) else {
            return Some(MemberChange::Identity);
        };
        let heartbeat = member.status.member_agent();
        let heartbeat = heartbeat.and_then(|agent| agent.last_received_heartbeat.as_ref());
        let hash =
            |(news, value): (MemberChange, Value)| (news, self.random.hash_one(value.to_string()));
        let now = MemberTraits {
            hashes: member_traits(&member).map(hash),
            heartbeat: heartbeat.and_then(|time| time.parse().ok()),
        };
        let news = match traits.get(name) {
            None => Some(MemberChange::Identity),
            Some(before) => {
                let pairs = before.hashes.iter().zip(&now.hashes);
                let changed = pairs.filter_map(|(before, now)| (before != now).then_some(now.0));
                // A member that was silent for longer was not eligible in between.
                let silence = now.heartbeat.zip(before.heartbeat);
                let silence = silence.map(|(now, before)| now.duration_since(before));
                let is_back = silence.is_none_or(|silence| silence > self.windows.heartbeat);
                changed
                    .chain(is_back.then_some(MemberChange::Standing))
                    .max()
            }
        };
        traits.insert(Arc::clone(name), now);
        news
    }

    /// The placements that may select an object.
    fn concerned(&self, key: &Key) -> Vec<PlacementId> {
        let placements = self.placements.read();
        let concerned = placements.iter().filter(|(id, interested)| {
            let is_near = id
                .namespace
                .as_ref()
                .is_none_or(|namespace| key.namespace.as_ref() == Some(namespace));
            let mut selectors = interested.selectors.iter();
            is_near && selectors.any(|term| may_select(term, key))
        });
        let concerned = concerned.map(|(id, interested)| {
            interested.changes.fetch_add(1, Ordering::AcqRel);
            id.clone()
        });
        concerned.collect()
    }
}

/// The placement that an object belongs to.
fn add_parent(object: &Object, namespace: Option<&str>, add: &impl Fn(HubKey)) {
    if let Some(name) = object.label(names::PARENT_PLACEMENT) {
        add(HubKey::Placement(PlacementId {
            namespace: namespace.map(Into::into),
            name: name.into(),
        }));
    }
}

/// Whether a selector may select an object, as far as kinds and names say.
fn may_select(term: &ResourceSelectorTerm, key: &Key) -> bool {
    let is_named = |name: &str| term.name.is_empty() || term.name == name;
    let kind = &key.kind;
    if term.kind == kind.kind && term.group == kind.group && term.version == kind.version {
        return is_named(&key.name);
    }
    let Some(namespace) = &key.namespace else {
        return false;
    };
    // Which Endpoints are placed depends on Services.
    if term.kind == "Endpoints" && term.group.is_empty() && kind.kind == "Service" {
        return true;
    }
    let scope = term.selection_scope.unwrap_or_default();
    term.is_namespace() && scope == SelectionScope::NamespaceWithResources && is_named(namespace)
}

impl EventHandler for HubEvents {
    fn changed(&self, table: &Arc<Table>, change: Change) {
        if *table.side() == *DEFINITIONS {
            self.defined.notify_one();
        } else {
            self.note(&change, None);
        }
    }

    fn completed(&self, table: &Arc<Table>) {
        if *table.side() != *DEFINITIONS {
            self.queue_deferred();
            self.add_all(Urgency::Initial);
        }
    }
}
