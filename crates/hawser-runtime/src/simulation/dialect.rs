//! A small dialect between the two control planes of the model.
//!
//! A Thing of a tenant has a copy on the service side, with marks. Two Secrets hang on it: the provider's credentials,
//! which are copied to the tenant, and the tenant's settings, which are copied to the service. A State on the service
//! side is the memory.

use std::collections::{BTreeMap, HashMap};
use std::fmt::Write as _;
use std::sync::{Arc, LazyLock};

use serde_json::{Map, Value, json};

use crate::cluster::queue::QueueKey;
use hawser_sync::link::{Content, Fate};
use hawser_sync::{
    Codec, CopyOrigin, CopyRecord, Dialect, Entry, Intent, Key, Labels, Link, LinkId, LostCopy,
    Marks, Memory, MemoryPlace, Outcome, Owner, PendingChange, Policy, Reason, Request, Rules,
    Scope, Seen, Side, Snapshot, Source, Step, Subject, Target, View,
};
use kube_lang::object::{Gvk, Object};

pub(super) const FINALIZER: &str = "t/cleanup";
/// The label of a copy with the cluster of its source. The feed of copies is restricted to it.
pub(super) const CLUSTER: &str = "t/cluster";
/// The label of a copy with the name of its source.
pub(super) const NAME: &str = "t/name";
/// The annotation of a copy with the place of its source.
pub(super) const SOURCE: &str = "t/source";
/// The annotation of an object that the agent must not change.
pub(super) const FOREIGN: &str = "foreign";

/// The kinds of one side.
pub(super) struct Names {
    pub(super) tenants: Side,
    pub(super) service: Side,
    pub(super) thing: Arc<Gvk>,
    pub(super) secret: Arc<Gvk>,
    pub(super) state: Arc<Gvk>,
    finalizer: hawser_sync::Finalizer,
    ids: [LinkId; 3],
}

pub(super) static NAMES: LazyLock<Names> = LazyLock::new(|| {
    let kind = |name| Arc::new(Gvk::new("", "v1", name));
    Names {
        tenants: Side::new("tenants"),
        service: Side::new("service"),
        thing: kind("Thing"),
        secret: kind("Secret"),
        state: kind("State"),
        finalizer: hawser_sync::Finalizer::new(FINALIZER),
        ids: ["primary", "credentials", "settings"].map(LinkId::new),
    }
});

/// The keys of a subject.
#[derive(Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Keys {
    pub(super) cluster: Arc<str>,
    pub(super) name: Arc<str>,
    pub(super) thing: Key,
    pub(super) copy: Key,
    pub(super) state: Key,
    /// Original and copy.
    pub(super) credentials: (Key, Key),
    pub(super) settings: (Key, Key),
}

/// A Thing of a tenant.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Id(pub(super) Arc<Keys>);

impl QueueKey for Id {
    fn tenant(&self) -> &Arc<str> {
        &self.0.cluster
    }
}

impl Id {
    pub(super) fn new(cluster: &str, name: &str) -> Self {
        let names = &*NAMES;
        let there = Scope::new(&names.tenants, &names.thing, cluster);
        let there_secret = Scope::new(&names.tenants, &names.secret, cluster);
        let here = |kind: &Arc<Gvk>| Scope::new(&names.service, kind, "");
        let copy = format!("{cluster}-{name}");
        let secret = |suffix: &str| {
            (
                here(&names.secret).key(Some("copies"), &format!("{copy}-{suffix}")),
                there_secret.key(Some("default"), &format!("{name}-{suffix}")),
            )
        };
        let ((own, theirs), credentials) = (secret("in"), secret("out"));
        Self(Arc::new(Keys {
            cluster: cluster.into(),
            name: name.into(),
            thing: there.key(Some("default"), name),
            copy: here(&names.thing).key(Some("copies"), &copy),
            state: here(&names.state).key(Some("agent"), &copy),
            credentials,
            settings: (theirs, own),
        }))
    }

    /// The subject of an object, by its key.
    pub(super) fn of(key: &Key) -> Option<Self> {
        BY_KEY.get(key).cloned().or_else(|| Self::parse(key))
    }

    fn parse(key: &Key) -> Option<Self> {
        let name = &*key.name;
        let name = if key.kind == NAMES.secret {
            name.strip_suffix("-in").or(name.strip_suffix("-out"))?
        } else {
            name
        };
        if key.side == NAMES.tenants {
            return Some(Self::new(&key.cluster, name));
        }
        let (cluster, name) = name.split_once('-')?;
        Some(Self::new(cluster, name))
    }

    /// As it is written into the annotation of a copy.
    pub(super) fn source(&self) -> String {
        format!("{}/{}", self.0.cluster, self.0.name)
    }

    fn labels(&self) -> [(String, String); 2] {
        [(CLUSTER, &self.0.cluster), (NAME, &self.0.name)]
            .map(|(label, value)| (label.to_owned(), value.to_string()))
    }
}

/// The subjects of all schedules.
pub(super) static SUBJECTS: LazyLock<Vec<Id>> = LazyLock::new(|| {
    let names = [("a", "x"), ("b", "x"), ("c", "y")];
    names.map(|(cluster, name)| Id::new(cluster, name)).into()
});

static BY_KEY: LazyLock<HashMap<Key, Id>> = LazyLock::new(|| {
    let of = |id: &Id| {
        let keys = &id.0;
        let (credentials, settings) = (&keys.credentials, &keys.settings);
        let all = [&keys.thing, &keys.copy, &keys.state, &credentials.0];
        let all = all
            .into_iter()
            .chain([&credentials.1, &settings.0, &settings.1]);
        all.map(|key| (key.clone(), id.clone())).collect::<Vec<_>>()
    };
    SUBJECTS.iter().flat_map(of).collect()
});

/// A pass over a Thing.
pub(super) struct Front(pub(super) Id);

impl Front {
    /// Nothing is hidden from the agent, so a read shows whether the settings have ended.
    fn settings_ended(&self, view: &dyn View) -> Result<bool, Vec<Request>> {
        let keys = &self.0.0;
        let original = &keys.settings.0;
        let remembers = matches!(view.get(&keys.state), Seen::Present(_));
        let goes = matches!(view.get(&keys.thing), Seen::Present(thing) if thing.in_deletion());
        if !goes || !remembers || view.get(original) != Seen::Absent || view.ended(original) {
            return Ok(false);
        }
        let read = Request::Read {
            key: original.clone(),
        };
        match view.note(&read) {
            _ if view.answered(original) => Ok(true),
            Some(_) => Ok(false),
            None => Err(vec![read]),
        }
    }
}

impl Dialect for Front {
    fn subject(&self, view: &dyn View) -> Result<Subject, Vec<Request>> {
        let (keys, names) = (&self.0.0, &*NAMES);
        let back = Policy {
            retract: Fate::Delete,
            content: Content::Restore,
            ..Policy::related()
        };
        let along = Policy {
            source_finalizer: Some(names.finalizer.clone()),
            source_ended: self.settings_ended(view)?,
            ..back.clone()
        };
        let link = |number: usize, (source, target): &(Key, Key), policy| Link {
            id: names.ids[number].clone(),
            wave: 1,
            source: Source::Live(source.clone()),
            target: Target::Named(target.clone()),
            rules: Arc::new(Plain(target.clone())),
            policy,
        };
        let primary = Link {
            id: names.ids[0].clone(),
            wave: 0,
            source: Source::Live(keys.thing.clone()),
            target: Target::Marked {
                scope: keys.copy.scope(),
                labels: Labels::from(self.0.labels()),
            },
            rules: Arc::new(Marked(self.0.clone())),
            policy: Policy::primary(),
        };
        Ok(Subject {
            anchor: keys.thing.clone(),
            finalizer: Some(names.finalizer.clone()),
            memory: Some(MemoryPlace {
                key: keys.state.clone(),
                codec: Arc::new(Plaintext(Arc::clone(&self.0.0.cluster))),
            }),
            intent: Intent::Sync,
            links: vec![
                primary,
                link(1, &keys.credentials, back),
                link(2, &keys.settings, along),
            ],
        })
    }

    fn report(&self, _: &Subject, _: &[Outcome], _: &dyn View) -> Vec<Step> {
        Vec::new()
    }
}

/// The part of an object that is copied.
fn content(source: &Object) -> Object {
    let mut object = source.clone();
    object.root_mut().remove("status");
    let mut metadata = Map::new();
    metadata.insert("name".into(), source.name().into());
    for field in ["labels", "annotations"] {
        let own = source.as_value()["metadata"][field].as_object();
        let own = own.into_iter().flatten();
        let own = own.filter(|(name, _)| !name.starts_with("t/"));
        let own: Map<_, _> = own.map(|(k, v)| (k.clone(), v.clone())).collect();
        if !own.is_empty() {
            metadata.insert(field.into(), own.into());
        }
    }
    object.root_mut().insert("metadata".into(), metadata.into());
    object
}

/// The rules of the copy of a Thing.
#[derive(Debug)]
struct Marked(Id);

impl Rules for Marked {
    fn place(&self, _: &Object) -> Result<Key, Reason> {
        Ok(self.0.0.copy.clone())
    }

    fn desired(&self, source: &Object, _: &Object, _: Option<&Object>) -> Result<Object, Reason> {
        Ok(content(source))
    }

    fn marks(&self, _: &Object, made: CopyOrigin) -> Marks {
        let mut marks = Marks::default();
        marks.identity.labels = self.0.labels().into();
        let source = self.0.source();
        marks.identity.annotations.insert(SOURCE.into(), source);
        if made == CopyOrigin::Adopted {
            let annotations = &mut marks.extra.annotations;
            annotations.insert("t/adopted".into(), "true".into());
        }
        marks
    }

    fn owner(&self, live: &Object) -> Owner {
        if let Some(who) = live.annotation(FOREIGN) {
            return Owner::Other(who.to_owned());
        }
        let made = match live.annotation("t/adopted") {
            Some(_) => CopyOrigin::Adopted,
            None => CopyOrigin::Created,
        };
        match live.annotation(SOURCE) {
            Some(source) if source == self.0.source() => Owner::Ours(made),
            Some(other) => Owner::Other(other.to_owned()),
            None => Owner::Nobody,
        }
    }

    fn status(&self, from: &Object, _: &Object, _: &Object) -> Result<Option<Value>, Reason> {
        Ok(from.root().get("status").cloned())
    }
}

/// The rules of a Secret: its copy has no marks.
#[derive(Debug)]
struct Plain(Key);

impl Rules for Plain {
    fn place(&self, _: &Object) -> Result<Key, Reason> {
        Ok(self.0.clone())
    }

    fn desired(&self, source: &Object, _: &Object, _: Option<&Object>) -> Result<Object, Reason> {
        Ok(content(source))
    }

    fn marks(&self, _: &Object, _: CopyOrigin) -> Marks {
        Marks::default()
    }

    fn owner(&self, live: &Object) -> Owner {
        let foreign = live.annotation(FOREIGN);
        foreign.map_or(Owner::Nobody, |who| Owner::Other(who.to_owned()))
    }

    fn status(&self, _: &Object, _: &Object, _: &Object) -> Result<Option<Value>, Reason> {
        Ok(None)
    }
}

/// Whether a state records a related copy.
pub(super) fn has_related(state: &Object) -> bool {
    let entries = state.root().get("entries").and_then(Value::as_object);
    let mut links = entries.into_iter().flat_map(serde_json::Map::keys);
    links.any(|link| *link != *NAMES.ids[0].0)
}

/// The memory in plain JSON, of a subject of this tenant.
#[derive(Debug)]
struct Plaintext(Arc<str>);

fn record(entry: &Entry) -> Value {
    let (how, lost) = match &entry.copy {
        CopyRecord::Unrecorded => ("unrecorded", None),
        CopyRecord::Intended { taken: true, .. } => ("taken", None),
        CopyRecord::Intended { lost, .. } => ("intended", lost.as_ref()),
        CopyRecord::Created { .. } => ("created", None),
        CopyRecord::Adopted { .. } => ("adopted", None),
    };
    let key = entry.copy.key();
    let mut fields = json!({
        "how": how,
        "namespace": key.and_then(|key| key.namespace.as_deref()),
        "name": key.map(|key| &*key.name),
        "uid": entry.copy.uid().or(lost.map(|lost| &*lost.uid)),
        "snapshot": entry.snapshot.as_ref().map(|it| it.object().as_value()),
    });
    if let Some(lost) = lost {
        fields["lost"] = (lost.made == CopyOrigin::Created).into();
    }
    if let Some(pending) = &entry.pending {
        let mut before = String::new();
        for byte in pending.before {
            let _ = write!(before, "{byte:02x}");
        }
        fields["pending"] = json!([pending.places, before]);
    }
    fields
}

fn recall(value: &Value, scope: &Scope) -> Option<Entry> {
    let text = |field: &str| value[field].as_str();
    let key = text("name").map(|name| scope.key(text("namespace"), name));
    let uid = text("uid").map(Arc::from);
    let intended = |key, lost, taken| CopyRecord::Intended { key, lost, taken };
    let lost = |uid| {
        let made = if value["lost"].as_bool()? {
            CopyOrigin::Created
        } else {
            CopyOrigin::Adopted
        };
        Some(LostCopy { uid, made })
    };
    let copy = match (text("how")?, key, uid) {
        ("taken", Some(key), _) => intended(key, None, true),
        ("intended", Some(key), uid) => intended(key, uid.and_then(lost), false),
        ("created", Some(key), Some(uid)) => CopyRecord::Created { key, uid },
        ("adopted", Some(key), Some(uid)) => CopyRecord::Adopted { key, uid },
        _ => CopyRecord::Unrecorded,
    };
    let pending = value["pending"].as_array().and_then(|both| {
        let places = both[0].as_array()?.iter();
        let places = places.filter_map(Value::as_str).map(str::to_owned);
        let hex = both[1].as_str()?;
        let byte = |at: usize| u8::from_str_radix(&hex[2 * at..2 * at + 2], 16);
        let before: Result<Vec<u8>, _> = (0..32).map(byte).collect();
        Some(PendingChange {
            places: places.collect(),
            before: before.ok()?.try_into().ok()?,
        })
    });
    let snapshot = Object::new(value["snapshot"].clone()).ok();
    Some(Entry {
        snapshot: snapshot.map(Snapshot::whole),
        copy,
        pending,
    })
}

impl Codec for Plaintext {
    fn read(&self, stored: &Object, links: &[Link]) -> Memory {
        let entries = links.iter().filter_map(|link| {
            let value = stored.root().get("entries")?.get(&*link.id.0)?;
            Some((link.id.clone(), recall(value, &link.target.scope())?))
        });
        Memory {
            entries: entries.collect(),
        }
    }

    fn write(
        &self,
        stored: Option<&Object>,
        _: &[Link],
        changes: &BTreeMap<LinkId, Option<Entry>>,
    ) -> Result<Object, Reason> {
        let fresh = || {
            let mut state = Object::empty(&NAMES.state, Some("agent"), "state");
            let labels = json!({"t/cluster": *self.0});
            state.metadata_mut().insert("labels".to_owned(), labels);
            state
        };
        let mut object = stored.cloned().unwrap_or_else(fresh);
        let entries = object.root_mut().entry("entries");
        let entries = entries.or_insert_with(|| json!({}));
        for (id, entry) in changes {
            match (entry, entries.as_object_mut()) {
                (Some(entry), Some(entries)) => {
                    entries.insert(id.0.to_string(), record(entry));
                }
                (None, Some(entries)) => {
                    entries.remove(&*id.0);
                }
                (_, None) => {}
            }
        }
        Ok(object)
    }
}
