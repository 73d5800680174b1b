use std::sync::Arc;

use sha1::{Digest as _, Sha1};

use super::*;
use hawser_sync::Rules;
use hawser_sync::{CopyOrigin, Marks, Owner, Policy, Scope, Target};

/// The codec never asks the rules of a link.
#[derive(Debug)]
struct Unasked;

impl Rules for Unasked {
    fn place(&self, _: &Object) -> Result<Key, Reason> {
        Err(Code::RulesInvalid.into())
    }
    fn desired(&self, _: &Object, _: &Object, _: Option<&Object>) -> Result<Object, Reason> {
        Err(Code::RulesInvalid.into())
    }
    fn marks(&self, _: &Object, _: CopyOrigin) -> Marks {
        Marks::default()
    }
    fn owner(&self, _: &Object) -> Owner {
        Owner::Nobody
    }
    fn status(&self, _: &Object, _: &Object, _: &Object) -> Result<Option<Value>, Reason> {
        Err(Code::RulesInvalid.into())
    }
}

fn at(group: &str, kind: &str) -> Key {
    let kind = Arc::new(Gvk::new(group, "v1", kind));
    Scope::new(&Side::new("kcp"), &kind, "abc123").key(Some("ns"), "nm")
}

fn link(id: &str, source: Key) -> Link {
    Link {
        id: LinkId::new(id),
        wave: 0,
        target: Target::Named(source.clone()),
        source: Source::Live(source),
        rules: Arc::new(Unasked),
        policy: Policy::primary(),
    }
}

fn codec() -> StateSecret {
    let remote = Remote {
        cluster: "abc123".into(),
        namespace: Some("ns".into()),
        name: "nm".into(),
    };
    StateSecret {
        namespace: "agent".into(),
        labels: remote.marked(),
        remote,
        kind: Gvk::new("kcp.example.com", "v1", "CronTab").into(),
        agent: "here".into(),
    }
}

fn primary() -> Link {
    link("primary", at("kcp.example.com", "CronTab"))
}

fn state(key: &Key, text: &str) -> Object {
    let mut object = Object::empty(&key.kind, key.namespace.as_deref(), &key.name);
    object
        .root_mut()
        .insert("spec".into(), json!({ "text": text }));
    object
}

fn made(key: &Key, text: &str) -> Entry {
    Entry {
        snapshot: Some(Snapshot::whole(state(key, text))),
        copy: CopyRecord::Created {
            key: key.clone(),
            uid: "u1".into(),
        },
        pending: None,
    }
}

fn changes<const N: usize>(of: [(&str, Entry); N]) -> BTreeMap<LinkId, Option<Entry>> {
    of.into_iter()
        .map(|(id, entry)| (LinkId::new(id), Some(entry)))
        .collect()
}

fn plain() -> String {
    key("abc123", Some("ns"), "nm")
}

fn set(secret: &mut Object, slot: &str, text: &str) {
    let data = secret.root_mut().entry("data").or_insert_with(|| json!({}));
    data[slot] = STANDARD.encode(text).into();
}

#[test]
fn what_was_announced_is_read_again_until_it_is_known_to_be_made() {
    let links = [primary()];
    let entry = made(&at("kcp.example.com", "CronTab"), "x");
    let announced = Entry {
        pending: Some(PendingChange {
            places: vec!["/spec/text".to_owned()],
            before: [7; 32],
        }),
        ..entry.clone()
    };
    let id = LinkId::new("primary");
    let secret = codec()
        .write(None, &links, &changes([("primary", announced.clone())]))
        .unwrap();
    assert_eq!(codec().read(&secret, &links).entries[&id], announced);
    let secret = codec()
        .write(
            Some(&secret),
            &links,
            &changes([("primary", entry.clone())]),
        )
        .unwrap();
    assert_eq!(codec().read(&secret, &links).entries[&id], entry);
}

#[test]
fn a_copy_that_was_out_of_sight_is_remembered_with_the_next_one() {
    let links = [primary()];
    let id = LinkId::new("primary");
    for how in [CopyOrigin::Created, CopyOrigin::Adopted] {
        let key = at("kcp.example.com", "CronTab");
        let lost = Some(LostCopy {
            uid: "u1".into(),
            made: how,
        });
        let entry = Entry {
            copy: CopyRecord::Intended {
                key: key.clone(),
                lost,
                taken: false,
            },
            ..made(&key, "x")
        };
        let secret = codec()
            .write(None, &links, &changes([("primary", entry.clone())]))
            .unwrap();
        let memory = codec().read(&secret, &links);
        assert_eq!(memory.entries[&id], entry);
        assert_eq!(
            memory.entries[&id].copy.is_made(),
            how == CopyOrigin::Created
        );
    }
}

#[test]
fn a_place_that_was_taken_before_the_copy_was_made_is_remembered() {
    let links = [primary()];
    let key = at("kcp.example.com", "CronTab");
    let entry = Entry {
        copy: CopyRecord::Intended {
            key: key.clone(),
            lost: None,
            taken: true,
        },
        ..made(&key, "x")
    };
    let secret = codec()
        .write(None, &links, &changes([("primary", entry.clone())]))
        .unwrap();
    let memory = codec().read(&secret, &links);
    assert_eq!(memory.entries[&LinkId::new("primary")], entry);
}

#[test]
fn the_state_of_one_copy_is_not_taken_for_that_of_another_copy_of_the_same_source() {
    let links = [primary()];
    let entry = made(&at("kcp.example.com", "CronTab"), "x");
    let secret = codec()
        .write(None, &links, &changes([("primary", entry.clone())]))
        .unwrap();
    let other = link("another", at("kcp.example.com", "CronTab"));
    for links in [vec![other.clone()], vec![primary(), other]] {
        let memory = codec().read(&secret, &links);
        assert_eq!(memory.entries.get(&LinkId::new("another")), None);
        assert_eq!(memory.entries.len(), 1);
    }
}

#[test]
fn what_is_written_is_read_again_and_the_snapshot_stands_where_the_original_looks() {
    let links = [primary()];
    let entry = made(&at("kcp.example.com", "CronTab"), "x");
    let secret = codec()
        .write(None, &links, &changes([("primary", entry.clone())]))
        .unwrap();
    assert_eq!(secret.label(marks::AGENT_NAME), Some("here"));
    assert_eq!(secret.label(marks::OBJECT_STATE), Some("true"));
    assert_eq!(secret.label(marks::CLUSTER), Some("abc123"));
    assert_eq!(secret.name(), codec().name());
    let text = bytes(&secret, &plain()).unwrap();
    assert_eq!(
        parse_snapshot(&text),
        Some(state(&at("kcp.example.com", "CronTab"), "x"))
    );
    let read = codec().read(&secret, &links);
    assert_eq!(read.entries.get(&LinkId::new("primary")), Some(&entry));
}

#[test]
fn a_secret_of_the_original_is_read_and_its_unknown_keys_stay() {
    let links = [primary()];
    let mut secret = Object::empty(&Gvk::new("", "v1", "Secret"), Some("agent"), "s");
    let theirs = state(&at("kcp.example.com", "CronTab"), "theirs");
    set(&mut secret, &plain(), &snapshot_text(&theirs));
    set(&mut secret, "else", "kept");
    let read = codec().read(&secret, &links);
    let entry = &read.entries[&LinkId::new("primary")];
    assert_eq!(entry.snapshot, Some(Snapshot::whole(theirs)));
    assert_eq!(entry.copy, CopyRecord::Unrecorded);
    let forget = BTreeMap::from([(LinkId::new("primary"), None)]);
    let after = codec().write(Some(&secret), &links, &forget).unwrap();
    assert_eq!(bytes(&after, "else").as_deref(), Some(&b"kept"[..]));
    assert!(codec().read(&after, &links).entries.is_empty());
}

#[test]
fn what_the_original_wrote_later_wins_over_our_record() {
    let links = [primary()];
    let source = at("kcp.example.com", "CronTab");
    for ours in ["x".to_owned(), "x".repeat(2_000_000)] {
        let ours = changes([("primary", made(&source, &ours))]);
        let mut secret = codec().write(None, &links, &ours).unwrap();
        set(
            &mut secret,
            &plain(),
            &snapshot_text(&state(&source, "later")),
        );
        let read = codec().read(&secret, &links);
        let entry = &read.entries[&LinkId::new("primary")];
        assert_eq!(
            entry.snapshot,
            Some(Snapshot::whole(state(&source, "later")))
        );
        assert_eq!(entry.copy, CopyRecord::Unrecorded);
    }
}

#[test]
fn links_that_would_share_a_key_have_one_each_and_still_read_the_old_one() {
    let secret_key = at("", "Secret");
    let map_key = at("", "ConfigMap");
    let links = [
        primary(),
        link("secret", secret_key.clone()),
        link("map", map_key.clone()),
    ];
    let mut stored = Object::empty(&Gvk::new("", "v1", "Secret"), Some("agent"), "s");
    set(
        &mut stored,
        &plain(),
        &snapshot_text(&state(&map_key, "old")),
    );
    let read = codec().read(&stored, &links);
    assert_eq!(
        read.entries.keys().collect::<Vec<_>>(),
        [&LinkId::new("map")]
    );

    let all = changes([
        ("primary", made(&at("kcp.example.com", "CronTab"), "p")),
        ("secret", made(&secret_key, "s")),
        ("map", made(&map_key, "m")),
    ]);
    let secret = codec().write(Some(&stored), &links, &all).unwrap();
    let expected: BTreeMap<_, _> = all.into_iter().map(|(id, e)| (id, e.unwrap())).collect();
    assert_eq!(codec().read(&secret, &links).entries, expected);
    let kept = parse_snapshot(&bytes(&secret, &plain()).unwrap()).unwrap();
    assert_eq!(kept.kind(), "CronTab");
    // Links that are gone are still known by their ids.
    assert_eq!(codec().read(&secret, &[]).entries, expected);
}

#[test]
fn a_state_that_is_too_large_is_reduced_and_hidden_from_the_original() {
    let links = [primary()];
    let source = at("kcp.example.com", "CronTab");
    let large = "x".repeat(1_400_000);
    let all = changes([("primary", made(&source, &large))]);
    let secret = codec().write(None, &links, &all).unwrap();
    assert!(data_size(&secret) <= MAX_DATA);
    assert_eq!(bytes(&secret, &plain()), None);
    let read = codec().read(&secret, &links);
    let entry = &read.entries[&LinkId::new("primary")];
    let snapshot = entry.snapshot.as_ref().unwrap();
    assert!(snapshot.remembers(&state(&source, &large)));
    assert!(!snapshot.remembers(&state(&source, "other")));
    assert_eq!(entry.copy.uid(), Some("u1"));
    let small = changes([("primary", made(&source, "small"))]);
    let after = codec().write(Some(&secret), &links, &small).unwrap();
    assert!(bytes(&after, &plain()).is_some());
    assert_eq!(after.root()["data"].as_object().unwrap().len(), 2);
}

#[test]
fn a_state_of_many_small_values_is_packed_and_tells_whose_it_is() {
    let links = [primary()];
    let source = at("kcp.example.com", "CronTab");
    let of = |count: usize| {
        let all = (0..count).map(|n| (format!("key-{n:06}"), json!(n)));
        let mut state = state(&source, "");
        state
            .root_mut()
            .insert("spec".to_owned(), Value::Object(all.collect()));
        state
    };
    let snapshot = Snapshot::whole(of(70_000));
    let entry = Entry {
        snapshot: Some(snapshot.clone()),
        ..made(&source, "")
    };
    let secret = codec()
        .write(None, &links, &changes([("primary", entry)]))
        .unwrap();
    assert!(data_size(&secret) <= MAX_DATA);
    let text = secret.root()["data"].to_string();
    assert!(text.len() < 1_000_000, "{}", text.len());
    assert_eq!(bytes(&secret, &plain()), None);
    let read = codec().read(&secret, &links);
    let entry = &read.entries[&LinkId::new("primary")];
    assert_eq!(entry.snapshot.as_ref(), Some(&snapshot));
    let (remote, _) = crate::publish::memory::primary_of(&secret).unwrap();
    assert_eq!(remote, codec().remote);
    // Something else than what was packed is no snapshot.
    let mut broken = secret.clone();
    for (slot, value) in broken.root_mut()["data"].as_object_mut().unwrap() {
        if slot != RECORDS {
            *value = STANDARD.encode([0x78, 0x01, 0x02]).into();
        }
    }
    let read = codec().read(&broken, &links);
    assert_eq!(read.entries[&LinkId::new("primary")].snapshot, None);
}

#[test]
fn what_can_neither_be_reduced_nor_packed_has_a_reason() {
    let links = [primary()];
    let source = at("kcp.example.com", "CronTab");
    let mut state = state(&source, "");
    let noise = |n: usize| {
        let halves = [0, 1].map(|half| Sha1::digest(format!("{half} of {n}")).to_vec());
        STANDARD.encode(halves.concat())
    };
    let all = (0..26_000).map(|n| (noise(n), json!(1)));
    state
        .root_mut()
        .insert("spec".to_owned(), Value::Object(all.collect()));
    let entry = Entry {
        snapshot: Some(Snapshot::whole(state)),
        ..made(&source, "")
    };
    let refused = codec().write(None, &links, &changes([("primary", entry)]));
    assert_eq!(refused.unwrap_err().code, Code::StateTooLarge);
}
