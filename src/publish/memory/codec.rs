//! The memory of one object of a workspace, in the Secret that api-syncagent keeps for it.
//!
//! Whole snapshots are under the keys of api-syncagent. Everything that api-syncagent does not know (identities of
//! copies, values omitted from a snapshot, compressed snapshots) is under keys that it never reads.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write as _;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use flate2::Compression;
use flate2::write::ZlibEncoder;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::publish::hashes::sha1_hex;
use crate::publish::marks::{self, Remote};
use hawser_sync::Side;
use hawser_sync::{
    Code, Codec, CopyOrigin, CopyRecord, Entry, Key, Labels, Link, LinkId, LostCopy, Memory,
    PendingChange, Reason, Scope, Snapshot, Source,
};
use kube_lang::object::{Gvk, Object};

use super::{key, parse_snapshot, snapshot_text};

/// The data key of the records.
pub const RECORDS: &str = "hawser.records";
/// The size limit of the Secret's data; the API server refuses 1 MiB.
const MAX_DATA: usize = 1_000_000;
/// Shorter snapshots are never compressed.
const PACKED: usize = 4_096;
/// The sizes above which values are omitted, tried in this order.
const LIMITS: [usize; 5] = [32_768, 4_096, 512, 128, 64];

/// The encoding of snapshots.
#[derive(Clone, Copy, PartialEq, Eq)]
enum SnapshotEncoding {
    Text,
    /// Compressed if they are long.
    Packed,
}

/// The Secret with the memory of one object of a workspace.
#[derive(Clone, Debug)]
pub struct StateSecret {
    /// The namespace of the Secret.
    pub namespace: String,
    pub remote: Remote,
    /// The labels by which the copy of the object is found.
    pub labels: Labels,
    /// The kind of the object in the workspace.
    pub kind: Arc<Gvk>,
    pub agent: String,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
struct Record {
    /// The data key of the snapshot, if one is kept.
    slot: Option<String>,
    /// The SHA-1 of the stored snapshot: if it differs, api-syncagent wrote the text.
    sum: Option<String>,
    #[serde(default)]
    digests: BTreeMap<String, String>,
    copy: Copy,
    /// The copy that was out of sight when the next one was about to be made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    lost: Option<StoredLostCopy>,
    /// Another object was there before the copy could be made.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    taken: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    announced: Option<Announcement>,
}

/// The places on the copy that were about to change, and the hash of their values.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Announcement {
    places: Vec<String>,
    before: String,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
enum Copy {
    Unrecorded,
    Intended(StoredKey),
    Created(StoredKey, String),
    Adopted(StoredKey, String),
}

/// The uid of a copy, and how it became one.
#[derive(Clone, Debug, Serialize, Deserialize)]
enum StoredLostCopy {
    Created(String),
    Adopted(String),
}

#[derive(Clone, Debug, Serialize, Deserialize)]
struct StoredKey {
    side: String,
    kind: Gvk,
    cluster: String,
    namespace: Option<String>,
    name: String,
}

/// The key of api-syncagent, and whether more than one link would use it.
struct Slot {
    plain: Option<String>,
    shared: bool,
    /// A key that no other link has.
    own: String,
}

impl StateSecret {
    /// The name of the Secret.
    pub fn name(&self) -> String {
        super::secret_name(&self.remote, &self.kind.api_version(), &self.kind.kind)
    }

    fn is_primary(&self, key: &Key) -> bool {
        key.kind.group == self.kind.group
            && key.kind.kind == self.kind.kind
            && *key.cluster == *self.remote.cluster
            && key.namespace.as_deref() == self.remote.namespace.as_deref()
            && *key.name == *self.remote.name
    }

    fn slot(&self, id: &LinkId, links: &[Link]) -> Slot {
        let plain_of = |link: &Link| {
            let at = link.source.key()?;
            Some(key(&at.cluster, at.namespace.as_deref(), &at.name))
        };
        let link = links.iter().find(|link| link.id == *id);
        let plain = link.and_then(plain_of);
        let shared = plain.is_some()
            && links
                .iter()
                .any(|other| other.id != *id && plain_of(other) == plain);
        let kind = match link.and_then(|link| link.source.key()) {
            Some(at) => {
                // Of those that share a key, the object itself keeps it.
                if shared && self.is_primary(at) && self.first_primary(links) == Some(id) {
                    return Slot {
                        own: plain.clone().unwrap_or_default(),
                        plain,
                        shared: false,
                    };
                }
                at.kind.to_string()
            }
            None => String::new(),
        };
        let own = sha1_hex(&format!("{id}\n{kind}\n{}", plain.as_deref().unwrap_or("")));
        Slot {
            own: format!("hawser.{own}"),
            plain,
            shared,
        }
    }

    fn first_primary<'a>(&self, links: &'a [Link]) -> Option<&'a LinkId> {
        let primary =
            |link: &&Link| matches!(&link.source, Source::Live(at) if self.is_primary(at));
        links.iter().find(primary).map(|link| &link.id)
    }

    fn new_secret(&self) -> Object {
        let kind = Gvk::new("", "v1", "Secret");
        let mut secret = Object::empty(&kind, Some(&self.namespace), &self.name());
        secret.set_label(marks::AGENT_NAME, &self.agent);
        secret
    }
}

impl Codec for StateSecret {
    fn read(&self, stored: &Object, links: &[Link]) -> Memory {
        let records = records(stored);
        let mut ids: BTreeSet<LinkId> = links.iter().map(|link| link.id.clone()).collect();
        ids.extend(records.keys().map(|id| LinkId::new(id)));
        let entries = ids.into_iter().filter_map(|id| {
            let slot = self.slot(&id, links);
            let kind = links
                .iter()
                .find(|link| link.id == id)
                .and_then(source_kind);
            let at = At {
                slot: &slot,
                kind,
                taken: is_taken(stored, &records, &id, &slot),
            };
            let entry = entry(stored, records.get(&*id.0), &at)?;
            Some((id, entry))
        });
        Memory {
            entries: entries.collect(),
        }
    }

    fn write(
        &self,
        stored: Option<&Object>,
        links: &[Link],
        changes: &BTreeMap<LinkId, Option<Entry>>,
    ) -> Result<Object, Reason> {
        let secret = self.written(stored, links, changes, SnapshotEncoding::Text);
        if data_size(&secret) <= MAX_DATA {
            return Ok(secret);
        }
        // What is given is reduced first, then what stands there already.
        let mut all: BTreeMap<_, _> = BTreeMap::new();
        if let Some(stored) = stored {
            let memory = self.read(stored, links);
            all.extend(
                memory
                    .entries
                    .into_iter()
                    .map(|(id, entry)| (id, Some(entry))),
            );
        }
        all.extend(changes.clone());
        for set in [changes, &all] {
            let reduce = |limit: usize| (reduced(set, limit), SnapshotEncoding::Text);
            let forms = LIMITS.into_iter().map(reduce).chain([
                // Maps with many small values are not reduced: what was taken out of one would be missed.
                (set.clone(), SnapshotEncoding::Packed),
                (reduced(set, LIMITS[0]), SnapshotEncoding::Packed),
            ]);
            let mut secrets = forms.map(|(set, form)| self.written(stored, links, &set, form));
            if let Some(secret) = secrets.find(|secret| data_size(secret) <= MAX_DATA) {
                return Ok(secret);
            }
        }
        Err(Reason::new(
            Code::StateTooLarge,
            format!(
                "the Secret {}/{} would be too large",
                self.namespace,
                self.name()
            ),
        ))
    }
}

impl StateSecret {
    fn written(
        &self,
        stored: Option<&Object>,
        links: &[Link],
        changes: &BTreeMap<LinkId, Option<Entry>>,
        form: SnapshotEncoding,
    ) -> Object {
        let mut secret = stored.cloned().unwrap_or_else(|| self.new_secret());
        for (label, value) in self.labels.iter() {
            secret.set_label(label, value);
        }
        secret.set_label(marks::OBJECT_STATE, "true");
        let mut records = records(&secret);
        let mut data = match secret.root_mut().remove("data") {
            Some(Value::Object(data)) => data,
            _ => Map::new(),
        };
        for (id, change) in changes {
            let slot = self.slot(id, links);
            if let Some(old) = records.remove(&*id.0).and_then(|record| record.slot) {
                // A plain key may be another link's by now; its own is only ever this one's.
                if old == slot.own || old.starts_with("hawser.") {
                    data.remove(&old);
                }
            }
            if let (Some(plain), false) = (&slot.plain, slot.shared) {
                data.remove(plain);
            }
            if let Some(entry) = change {
                records.insert(id.0.to_string(), put(&mut data, &slot, entry, form));
            }
        }
        if records.is_empty() {
            data.remove(RECORDS);
        } else {
            let text = json!(records).to_string();
            data.insert(RECORDS.to_owned(), STANDARD.encode(text).into());
        }
        secret
            .root_mut()
            .insert("data".to_owned(), Value::Object(data));
        secret
    }
}

fn put(
    data: &mut Map<String, Value>,
    slot: &Slot,
    entry: &Entry,
    form: SnapshotEncoding,
) -> Record {
    let mut record = Record {
        slot: None,
        sum: None,
        digests: BTreeMap::new(),
        copy: Copy::of(&entry.copy),
        lost: StoredLostCopy::of(&entry.copy),
        taken: matches!(entry.copy, CopyRecord::Intended { taken: true, .. }),
        announced: entry.pending.as_ref().map(Announcement::of),
    };
    if let Some(snapshot) = &entry.snapshot {
        let text = snapshot_text(snapshot.object());
        let packed = (form == SnapshotEncoding::Packed && text.len() > PACKED).then(|| pack(&text));
        // api-syncagent must not use a reduced snapshot as a state: it would miss the nulls in it. It cannot read a
        // packed one either.
        let hidden = packed.is_some() || !snapshot.digests().is_empty();
        let at = match &slot.plain {
            Some(plain) if !slot.shared && !hidden => plain,
            _ => &slot.own,
        };
        let at = if hidden && Some(at) == slot.plain.as_ref() {
            format!("hawser.{at}")
        } else {
            at.clone()
        };
        record.sum = Some(sha1_hex(&text));
        record.digests = snapshot
            .digests()
            .iter()
            .map(|(pointer, hash)| (pointer.clone(), STANDARD.encode(hash)))
            .collect();
        let stored = packed.unwrap_or_else(|| text.into_bytes());
        data.insert(at.clone(), STANDARD.encode(stored).into());
        record.slot = Some(at);
    }
    record
}

/// The keys that may hold the snapshot of a link.
struct At<'a> {
    slot: &'a Slot,
    kind: Option<&'a Gvk>,
    /// The key of api-syncagent holds the snapshot of another link, of the same source with another copy.
    taken: bool,
}

/// Whether another link's snapshot is under the key that api-syncagent would use for this one.
fn is_taken(stored: &Object, records: &BTreeMap<String, Record>, id: &LinkId, slot: &Slot) -> bool {
    let mut others = records.iter().filter(|(other, _)| **other != *id.0);
    slot.plain.is_some()
        && others.any(|(_, other)| other.slot == slot.plain && kept_text(stored, other).is_some())
}

/// The snapshot of a record, if it is the one that was recorded.
fn kept_text(stored: &Object, record: &Record) -> Option<String> {
    let text = bytes(stored, record.slot.as_ref()?)?;
    let text = String::from_utf8(text).ok()?;
    (Some(sha1_hex(&text)) == record.sum).then_some(text)
}

fn entry(stored: &Object, record: Option<&Record>, at: &At<'_>) -> Option<Entry> {
    let At { slot, kind, taken } = *at;
    let kept = record.and_then(|record| {
        let text = kept_text(stored, record)?;
        let digests = record.digests.iter().map(|(pointer, hash)| {
            let hash = STANDARD.decode(hash).ok()?.try_into().ok()?;
            Some((pointer.clone(), hash))
        });
        let digests = digests.collect::<Option<BTreeMap<_, _>>>()?;
        Some(Snapshot::from_parts(
            parse_snapshot(text.as_bytes())?,
            digests,
        ))
    });
    let recorded = record.map_or(CopyRecord::Unrecorded, Record::copy);
    let at_plain = record.is_some_and(|record| record.slot == slot.plain);
    // A plain snapshot beside a recorded one elsewhere is newer, since writing removed it, and so
    // is one with another text than was recorded. Where links share the key it may be another's.
    let separated = taken || slot.shared && record.is_some();
    if !(separated || at_plain && kept.is_some()) {
        let newer = slot.plain.as_ref().and_then(|plain| bytes(stored, plain));
        let newer = newer
            .and_then(|text| parse_snapshot(&text))
            .filter(|state| {
                let found = state.gvk();
                kind.is_some_and(|kind| kind.group == found.group && kind.kind == found.kind)
            });
        if let Some(state) = newer {
            return Some(Entry {
                snapshot: Some(Snapshot::whole(state)),
                copy: CopyRecord::Unrecorded,
                pending: None,
            });
        }
    }
    let announced = record?.announced.as_ref();
    Some(Entry {
        snapshot: kept,
        copy: recorded,
        pending: announced.and_then(Announcement::read),
    })
}

fn source_kind(link: &Link) -> Option<&Gvk> {
    link.source.key().map(|at| &*at.kind)
}

fn reduced(set: &BTreeMap<LinkId, Option<Entry>>, limit: usize) -> BTreeMap<LinkId, Option<Entry>> {
    let less = |entry: &Entry| Entry {
        snapshot: entry.snapshot.as_ref().map(|whole| whole.reduced(limit)),
        copy: entry.copy.clone(),
        pending: entry.pending.clone(),
    };
    set.iter()
        .map(|(id, entry)| (id.clone(), entry.as_ref().map(less)))
        .collect()
}

fn bytes(stored: &Object, slot: &str) -> Option<Vec<u8>> {
    let text = stored.root().get("data")?.get(slot)?.as_str()?;
    super::stored_bytes(text)
}

fn pack(text: &str) -> Vec<u8> {
    let mut packer = ZlibEncoder::new(Vec::new(), Compression::fast());
    // A vector takes all that is written to it; what could not be packed would be read as no snapshot.
    let packed = packer.write_all(text.as_bytes());
    packed.and_then(|()| packer.finish()).unwrap_or_default()
}

/// Whether a memory has related objects.
pub fn has_related(stored: &Object) -> bool {
    let text = bytes(stored, RECORDS).unwrap_or_default();
    // As it stands in the name of a link, which is a text within a text.
    let mark = br#"\"related\":"#;
    text.windows(mark.len()).any(|part| part == mark)
}

/// The links with records in a memory, each with its copy.
pub fn copies(stored: &Object) -> Vec<(LinkId, CopyRecord)> {
    let of = |(id, record): (String, Record)| (LinkId::new(&id), record.copy());
    records(stored).into_iter().map(of).collect()
}

fn records(stored: &Object) -> BTreeMap<String, Record> {
    bytes(stored, RECORDS)
        .and_then(|text| serde_json::from_slice(&text).ok())
        .unwrap_or_default()
}

/// The size that the API server counts: the decoded values.
fn data_size(secret: &Object) -> usize {
    let data = secret.root().get("data").and_then(Value::as_object);
    let values = data.into_iter().flat_map(Map::values);
    values
        .filter_map(Value::as_str)
        .map(|text| text.len() / 4 * 3)
        .sum()
}

impl Announcement {
    fn of(announced: &PendingChange) -> Self {
        Self {
            places: announced.places.clone(),
            before: STANDARD.encode(announced.before),
        }
    }

    /// `None` if it cannot be read: then the snapshot is accepted.
    fn read(&self) -> Option<PendingChange> {
        let before = STANDARD.decode(&self.before).ok()?;
        Some(PendingChange {
            places: self.places.clone(),
            before: before.try_into().ok()?,
        })
    }
}

impl Copy {
    fn of(record: &CopyRecord) -> Self {
        match record {
            CopyRecord::Unrecorded => Self::Unrecorded,
            CopyRecord::Intended { key, .. } => Self::Intended(StoredKey::of(key)),
            CopyRecord::Created { key, uid } => Self::Created(StoredKey::of(key), uid.to_string()),
            CopyRecord::Adopted { key, uid } => Self::Adopted(StoredKey::of(key), uid.to_string()),
        }
    }
}

impl StoredLostCopy {
    fn of(record: &CopyRecord) -> Option<Self> {
        let CopyRecord::Intended { lost, .. } = record else {
            return None;
        };
        let LostCopy { uid, made } = lost.as_ref()?;
        Some(match made {
            CopyOrigin::Created => Self::Created(uid.to_string()),
            CopyOrigin::Adopted => Self::Adopted(uid.to_string()),
        })
    }

    fn read(&self) -> LostCopy {
        let (uid, made) = match self {
            Self::Created(uid) => (uid, CopyOrigin::Created),
            Self::Adopted(uid) => (uid, CopyOrigin::Adopted),
        };
        LostCopy {
            uid: uid.as_str().into(),
            made,
        }
    }
}

impl Record {
    fn copy(&self) -> CopyRecord {
        match &self.copy {
            Copy::Unrecorded => CopyRecord::Unrecorded,
            Copy::Intended(place) => CopyRecord::Intended {
                key: place.key(),
                lost: self.lost.as_ref().map(StoredLostCopy::read),
                taken: self.taken,
            },
            Copy::Created(place, uid) => CopyRecord::Created {
                key: place.key(),
                uid: uid.as_str().into(),
            },
            Copy::Adopted(place, uid) => CopyRecord::Adopted {
                key: place.key(),
                uid: uid.as_str().into(),
            },
        }
    }
}

impl StoredKey {
    fn of(key: &Key) -> Self {
        Self {
            side: key.side.to_string(),
            kind: (*key.kind).clone(),
            cluster: key.cluster.to_string(),
            namespace: key.namespace.as_deref().map(str::to_owned),
            name: key.name.to_string(),
        }
    }

    fn key(&self) -> Key {
        let kind = self.kind.clone().into();
        let scope = Scope::new(&Side::new(&self.side), &kind, &self.cluster);
        scope.key(self.namespace.as_deref(), &self.name)
    }
}

#[cfg(test)]
mod tests;
