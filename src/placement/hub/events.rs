//! Which placements, members and overrides an event concerns.

use std::collections::HashMap;
use std::hash::{BuildHasher as _, RandomState};
use std::sync::Arc;

use jiff::Timestamp;
use parking_lot::{Mutex, RwLock};
use tokio::sync::Notify;

use hawser_placement::hub::placement::member_traits;
use hawser_placement::names;
use hawser_placement::scheduler::Windows;
use hawser_placement::types::cluster::MemberCluster;
use hawser_placement::types::placement::Placement;
use hawser_placement::types::policy::{ResourceSelectorTerm, SelectionScope};
use hawser_runtime::cluster::cache::{Change, Table, What};
use hawser_runtime::cluster::feed::EventHandler;
use hawser_runtime::cluster::queue::{Queue, QueueKey, Urgency};
use hawser_sync::Key;
use kube_lang::object::Object;

use super::objects::{self, DEFINITIONS};

/// A placement by its name; without a namespace it is one of the cluster scope.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct PlacementId {
    pub namespace: Option<Arc<str>>,
    pub name: Arc<str>,
}

/// What is worked on.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum HubKey {
    Placement(PlacementId),
    Member(Arc<str>),
    /// An override; without a namespace it is one of the cluster scope.
    Override(PlacementId),
}

impl QueueKey for HubKey {
    fn tenant(&self) -> &Arc<str> {
        match self {
            Self::Placement(id) | Self::Override(id) => &id.name,
            Self::Member(name) => name,
        }
    }
}

/// What placements are scheduled by, of a member, as a hash; and its last heartbeat.
struct MemberTraits {
    hash: u64,
    heartbeat: Option<Timestamp>,
}

/// Maps events to what is worked on.
pub struct HubEvents {
    pub queue: Queue<HubKey>,
    /// What placements select.
    selectors: RwLock<HashMap<PlacementId, Vec<ResourceSelectorTerm>>>,
    traits: Mutex<HashMap<Arc<str>, MemberTraits>>,
    random: RandomState,
    windows: Windows,
    /// What waits for the first lists.
    parked: Mutex<Vec<HubKey>>,
    /// Selectors have changed, so that other kinds may be selected.
    pub selected: Notify,
    /// A definition of a kind has changed.
    pub defined: Notify,
}

impl HubEvents {
    pub fn new(workers: usize, windows: Windows) -> Arc<Self> {
        Arc::new(Self {
            queue: Queue::new(workers),
            selectors: RwLock::default(),
            traits: Mutex::default(),
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

    /// All placements.
    pub fn add_all(&self, urgency: Urgency) {
        for id in self.selectors.read().keys() {
            self.add(HubKey::Placement(id.clone()), urgency);
        }
    }

    /// Keeps a key until a table is complete.
    pub fn park(&self, key: HubKey) {
        self.parked.lock().push(key);
    }

    /// Has everything worked on that waited for a table.
    pub fn unpark(&self) {
        let parked = std::mem::take(&mut *self.parked.lock());
        for key in parked {
            self.add(key, Urgency::Initial);
        }
    }

    /// The selectors of all placements; true if the placement has a namespace.
    pub fn selectors(&self) -> Vec<(bool, ResourceSelectorTerm)> {
        let selectors = self.selectors.read();
        let all = selectors.iter().flat_map(|(id, terms)| {
            let is_near = id.namespace.is_some();
            terms.iter().map(move |term| (is_near, term.clone()))
        });
        all.collect()
    }

    /// Takes in a change. What it concerns is worked on, apart from `by`, which knows of it.
    pub fn note(&self, change: &Change, by: Option<&HubKey>) {
        let urgency = match change.what {
            What::Initial => Urgency::Initial,
            What::Changed | What::Gone => Urgency::Live,
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
        match &*key.kind.kind {
            "ClusterResourcePlacement" | "ResourcePlacement" => {
                self.select(id(), change);
                add(HubKey::Placement(id()));
            }
            "MemberCluster" => {
                add(HubKey::Member(Arc::clone(&key.name)));
                if self.is_news(change) {
                    self.add_all(urgency);
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
                for id in self.selectors.read().keys() {
                    if named.is_none_or(|name| *id.name == *name) {
                        add(HubKey::Placement(id.clone()));
                    }
                }
            }
            "Work" => add_parent(object, object.label(names::PARENT_NAMESPACE), &add),
            _ => add_parent(object, object.namespace(), &add),
        }
    }

    fn select(&self, id: PlacementId, change: &Change) {
        let terms = match change.what {
            What::Gone => None,
            What::Initial | What::Changed => {
                let placement = objects::read::<Placement>(&change.object).ok();
                placement.map(|placement| placement.spec.resource_selectors)
            }
        };
        let mut selectors = self.selectors.write();
        let before = match terms.clone() {
            Some(terms) => selectors.insert(id, terms),
            None => selectors.remove(&id),
        };
        if before != terms {
            self.selected.notify_one();
        }
    }

    /// Whether placements may have to be scheduled because of a change of a member.
    fn is_news(&self, change: &Change) -> bool {
        let name = &change.key.name;
        let mut traits = self.traits.lock();
        if change.what == What::Gone {
            traits.remove(name);
            return true;
        }
        let Ok(member) = objects::read::<MemberCluster>(&change.object) else {
            return true;
        };
        let heartbeat = member.status.member_agent();
        let heartbeat = heartbeat.and_then(|agent| agent.last_received_heartbeat.as_ref());
        let now = MemberTraits {
            hash: self.random.hash_one(member_traits(&member).to_string()),
            heartbeat: heartbeat.and_then(|time| time.parse().ok()),
        };
        let is_same = |before: &MemberTraits| {
            // A member that was silent for longer was not eligible in between.
            let silence = now.heartbeat.zip(before.heartbeat);
            let silence = silence.map(|(now, before)| now.duration_since(before));
            before.hash == now.hash
                && silence.is_some_and(|silence| silence <= self.windows.heartbeat)
        };
        let is_news = !traits.get(name).is_some_and(is_same);
        traits.insert(Arc::clone(name), now);
        is_news
    }

    /// The placements that may select an object.
    fn concerned(&self, key: &Key) -> Vec<PlacementId> {
        let selectors = self.selectors.read();
        let concerned = selectors.iter().filter(|(id, terms)| {
            let is_near = id
                .namespace
                .as_ref()
                .is_none_or(|namespace| key.namespace.as_ref() == Some(namespace));
            is_near && terms.iter().any(|term| may_select(term, key))
        });
        concerned.map(|(id, _)| id.clone()).collect()
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
            self.unpark();
            self.add_all(Urgency::Initial);
        }
    }
}
