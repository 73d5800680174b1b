#![allow(
    clippy::needless_pass_by_value,
    reason = "values written in place read best"
)]

use std::collections::{BTreeMap, HashSet};

use proptest::prelude::*;
use serde_json::{Value, json};

use kube_lang::object::Missing;

use super::*;

mod left_out;
mod parses;

const SOURCE: &str = "here";

struct Shelf {
    cache: Arc<Cache>,
    table: Arc<Table>,
    scope: Scope,
}

fn shelf(coverage: Coverage) -> Shelf {
    shelf_of(Cache::new(), coverage)
}

fn shelf_of(cache: Arc<Cache>, coverage: Coverage) -> Shelf {
    let (side, kind) = (Side::new("s"), Arc::new(Gvk::new("", "v1", "Thing")));
    let table = cache.add(&side, &kind, &SOURCE.into(), coverage);
    cache.route(&side, "", &SOURCE.into());
    let scope = Scope::new(&side, &kind, "");
    Shelf {
        cache,
        table,
        scope,
    }
}

fn labelled(label: &str) -> Coverage {
    Coverage {
        labelled: Some(label.into()),
        indexed: vec![label.into()],
        ..Coverage::default()
    }
}

impl Shelf {
    fn key(&self, name: &str) -> Key {
        self.scope.key(Some("ns"), name)
    }

    fn listed(&self, name: &str, version: u64, more: Value) -> Listed {
        Listed {
            key: self.key(name),
            version,
            object: object(name, version, more).into(),
        }
    }

    fn seen(&self, name: &str) -> Option<u64> {
        match self.cache.get(&self.key(name)) {
            Seen::Present(object) => version(&object),
            Seen::Absent => None,
            Seen::Unknown => panic!("{name} is unknown"),
        }
    }

    /// A whole list, as a feed takes it in.
    fn replace(&self, list: &[Listed], as_of: u64) -> Vec<Change> {
        let take = |listed: &Listed| {
            self.table.show_anew(&listed.key);
            self.table.upsert(listed)
        };
        let mut changes: Vec<_> = list.iter().filter_map(take).collect();
        let keys = list.iter().map(|listed| listed.key.clone()).collect();
        let finished = self.table.finish(&keys, as_of);
        if finished.first {
            changes.clear();
            self.table.replay(|change| changes.push(change));
        }
        changes.extend(finished.gone);
        changes
    }

    fn learn(&self, name: &str, version: u64, more: Value) -> Answer {
        let request = Request::Read {
            key: self.key(name),
        };
        let answer = Answer::Object(Arc::new(object(name, version, more)));
        self.cache.learn(&request, answer, None).0
    }
}

fn object(name: &str, version: u64, more: Value) -> Object {
    let mut value = json!({
        "apiVersion": "v1", "kind": "Thing", "spec": version,
        "metadata": { "namespace": "ns", "name": name, "uid": "u1", "resourceVersion": version.to_string() },
    });
    kube_lang::object::merge_patch::apply(&mut value, &more);
    Object::new(value).unwrap()
}

fn told(changes: impl IntoIterator<Item = Change>) -> Vec<(String, ChangeType)> {
    let told = changes
        .into_iter()
        .map(|c| (c.key.name.to_string(), c.what));
    told.collect()
}

#[test]
fn the_fingerprint_of_an_object_that_was_read_is_that_of_its_state() {
    let shelf = shelf(Coverage::default());
    let key = shelf.key("a");
    shelf.replace(&[shelf.listed("a", 1, json!({}))], 1);
    let Seen::Present(read) = shelf.cache.get(&key) else {
        panic!("it is there");
    };
    let kept = shelf.table.fingerprint_at(&key, &read);
    assert_eq!(kept, Some(Fingerprint::of(&read)));
    assert_eq!(
        shelf.cache.fingerprint_of(&key, &read),
        Fingerprint::of(&read)
    );
    // What is kept by now is another state, or another object of that name.
    shelf.table.upsert(&shelf.listed("a", 2, json!({})));
    assert_eq!(shelf.table.fingerprint_at(&key, &read), None);
    assert_eq!(
        shelf.cache.fingerprint_of(&key, &read),
        Fingerprint::of(&read)
    );
    let other = object("a", 2, json!({"metadata": {"uid": "u2"}}));
    assert_eq!(shelf.table.fingerprint_at(&key, &other), None);
}

#[test]
fn nothing_is_absent_before_a_whole_list_was_seen() {
    let shelf = shelf(Coverage::default());
    let key = shelf.key("a");
    assert_eq!(shelf.cache.get(&key), Seen::Unknown);
    assert_eq!(
        shelf.cache.fingerprint(&Question::Object(key.clone())),
        None
    );
    assert_eq!(
        shelf.cache.find(&shelf.scope, &Labels::default()),
        Found::Unknown
    );
    shelf.replace(&[], 1);
    assert_eq!(shelf.cache.get(&key), Seen::Absent);
    assert_eq!(
        shelf.cache.fingerprint(&Question::Object(key)),
        Some(Fingerprint::ABSENT)
    );
    assert_eq!(
        shelf.cache.find(&shelf.scope, &Labels::default()),
        Found::All(vec![])
    );
}

#[test]
fn a_cluster_without_a_route_and_a_table_taken_out_are_unknown() {
    let shelf = shelf(Coverage::default());
    shelf.replace(&[shelf.listed("a", 1, json!({}))], 1);
    let elsewhere = Scope {
        cluster: "other".into(),
        ..shelf.scope.clone()
    }
    .key(None, "a");
    assert_eq!(shelf.cache.get(&elsewhere), Seen::Unknown);
    assert_eq!(shelf.seen("a"), Some(1));
    shelf.cache.unroute(&shelf.scope.side, "");
    assert_eq!(shelf.cache.get(&shelf.key("a")), Seen::Unknown);
    shelf.cache.route(&shelf.scope.side, "", &SOURCE.into());
    shelf.cache.remove(&shelf.table);
    assert_eq!(shelf.cache.get(&shelf.key("a")), Seen::Unknown);
}

#[test]
fn an_answer_is_never_undone_by_an_event_that_was_on_its_way() {
    let shelf = shelf(Coverage::default());
    shelf.replace(&[shelf.listed("a", 5, json!({}))], 5);
    shelf.learn("a", 9, json!({}));
    assert_eq!(shelf.table.upsert(&shelf.listed("a", 7, json!({}))), None);
    assert_eq!(shelf.seen("a"), Some(9));
    assert_eq!(
        shelf.table.upsert(&shelf.listed("a", 9, json!({}))),
        None,
        "our own echo"
    );
    let change = shelf.table.upsert(&shelf.listed("a", 10, json!({})));
    assert_eq!(told(change), [("a".to_owned(), ChangeType::Changed)]);
}

#[test]
fn what_changes_with_every_write_is_taken_in_but_not_told() {
    let shelf = shelf(Coverage::default());
    shelf.replace(&[shelf.listed("a", 5, json!({ "spec": 1 }))], 5);
    assert_eq!(
        shelf
            .table
            .upsert(&shelf.listed("a", 6, json!({ "spec": 1 }))),
        None
    );
    assert_eq!(
        shelf.seen("a"),
        Some(6),
        "a write locked on the version must not conflict"
    );
}

#[test]
fn what_was_answered_to_be_gone_does_not_come_back_by_old_events() {
    let shelf = shelf(Coverage::default());
    shelf.replace(&[shelf.listed("a", 5, json!({}))], 5);
    let request = Request::delete(shelf.key("a"), "u1");
    shelf.cache.learn(&request, Answer::Gone, Some(5));
    assert_eq!(shelf.seen("a"), None);
    assert!(shelf.cache.saw_deletion(&shelf.key("a")));
    assert_eq!(
        shelf.table.upsert(&shelf.listed("a", 8, json!({}))),
        None,
        "the same incarnation"
    );
    let next = shelf.listed("a", 9, json!({ "metadata": { "uid": "u2" } }));
    assert!(shelf.table.upsert(&next).is_some());
    assert_eq!(shelf.seen("a"), Some(9));
    assert!(!shelf.cache.saw_deletion(&shelf.key("a")));
}

#[test]
fn an_answer_that_an_object_is_gone_is_older_than_an_event_that_came_meanwhile() {
    let shelf = shelf(Coverage::default());
    shelf.replace(&[], 1);
    let request = Request::Read {
        key: shelf.key("a"),
    };
    let known = shelf.cache.known_version(&request);
    shelf.table.upsert(&shelf.listed("a", 5, json!({})));
    let (_, changes) = shelf.cache.learn(&request, Answer::Gone, known);
    assert_eq!(changes, []);
    assert_eq!(shelf.seen("a"), Some(5));
    // The request after that one saw the same state, and its answer counts.
    let known = shelf.cache.known_version(&request);
    let (_, changes) = shelf.cache.learn(&request, Answer::Gone, known);
    assert_eq!(told(changes), [("a".to_owned(), ChangeType::Gone)]);
    assert_eq!(shelf.seen("a"), None);
}

#[test]
fn a_deletion_proves_nothing_once_a_create_was_not_answered() {
    let shelf = shelf(Coverage::default());
    shelf.replace(&[shelf.listed("a", 5, json!({}))], 5);
    shelf.table.delete(&shelf.listed("a", 6, json!({})));
    let key = shelf.key("a");
    assert!(shelf.cache.saw_deletion(&key) && shelf.cache.saw_end(&key));
    let lost = Answer::Failed(Failure::Unavailable("timeout".into()));
    let object = object("a", 0, json!({}));
    let create = Request::Create {
        key: key.clone(),
        object,
    };
    shelf.cache.learn(&create, lost, None);
    assert!(!shelf.cache.saw_deletion(&key) && !shelf.cache.saw_end(&key));
    let earlier = shelf.listed("a", 5, json!({}));
    assert_eq!(shelf.table.upsert(&earlier), None, "it is still older");
}

#[test]
fn a_label_that_was_taken_off_is_no_witnessed_deletion_and_may_come_back() {
    let shelf = shelf(labelled("l"));
    let with = |version| {
        shelf.listed(
            "a",
            version,
            json!({ "metadata": { "labels": { "l": "x" } } }),
        )
    };
    shelf.replace(&[with(5)], 5);
    assert!(
        shelf
            .table
            .delete(&shelf.listed("a", 6, json!({})))
            .is_some()
    );
    assert_eq!(shelf.seen("a"), None);
    assert!(!shelf.cache.saw_deletion(&shelf.key("a")));
    assert!(shelf.table.upsert(&with(7)).is_some());
    assert_eq!(shelf.seen("a"), Some(7));
}

#[test]
fn a_label_that_was_taken_off_what_is_in_deletion_is_not_its_witnessed_end() {
    let going = json!({ "metadata": { "labels": { "l": "x" }, "deletionTimestamp": "2026-01-01T00:00:00Z" } });
    for (coverage, witnessed) in [(labelled("l"), false), (Coverage::default(), true)] {
        let shelf = shelf(coverage);
        shelf.replace(&[shelf.listed("a", 5, going.clone())], 5);
        // Servers tell of both with the object as it was before.
        shelf.table.delete(&shelf.listed("a", 6, going.clone()));
        assert_eq!(shelf.cache.saw_deletion(&shelf.key("a")), witnessed);
    }
}

#[test]
fn a_list_takes_away_what_it_lacks_but_not_what_is_newer() {
    let shelf = shelf(Coverage::default());
    let old = [
        shelf.listed("old", 1, json!({})),
        shelf.listed("new", 1, json!({})),
    ];
    assert_eq!(told(shelf.replace(&old, 1)).len(), 2);
    shelf.learn("new", 20, json!({}));
    let changes = shelf.replace(&[], 10);
    assert_eq!(told(changes), [("old".to_owned(), ChangeType::Gone)]);
    assert_eq!((shelf.seen("old"), shelf.seen("new")), (None, Some(20)));
    assert!(
        !shelf.cache.saw_deletion(&shelf.key("old")),
        "a list is no witness"
    );
}

/// An object is created and deleted between two lists, and the answer to its creation comes last.
#[test]
fn an_answer_that_a_list_has_overtaken_counts_as_none() {
    let shelf = shelf(Coverage::default());
    let learn = |version| shelf.learn("a", version, json!({}));
    shelf.replace(&[], 10);
    let overtaken = learn(5);
    assert!(
        matches!(overtaken, Answer::Failed(Failure::Unavailable(_))),
        "{overtaken:?}"
    );
    assert_eq!(shelf.seen("a"), None);
    assert!(matches!(learn(11), Answer::Object(_)));
    assert_eq!(shelf.seen("a"), Some(11));
    // Everybody knows of the end of an object that was known.
    assert_eq!(told(shelf.replace(&[], 12)).len(), 1);
    assert!(matches!(learn(11), Answer::Object(_)));
    assert_eq!(shelf.seen("a"), None);
}

/// Somebody takes off a label that the watch selects, the agent puts it on again, and somebody deletes the object: the last
/// two between two lists, and the answer to the agent comes last.
#[test]
fn an_answer_that_a_list_has_overtaken_counts_as_none_although_the_object_had_left_before() {
    let shelf = shelf(labelled("l"));
    let labels = || json!({"metadata": {"labels": {"l": "x"}}});
    shelf.replace(&[shelf.listed("a", 5, labels())], 5);
    shelf.table.delete(&shelf.listed("a", 6, json!({})));
    shelf.replace(&[], 10);
    let overtaken = shelf.learn("a", 8, labels());
    assert!(
        matches!(overtaken, Answer::Failed(Failure::Unavailable(_))),
        "{overtaken:?}"
    );
    assert_eq!(shelf.seen("a"), None);
}

#[test]
fn what_only_answers_told_of_is_forgotten_as_long_as_it_is_not_watched() {
    let shelf = shelf(Coverage::default());
    shelf.learn("answered", 5, json!({}));
    shelf.learn("both", 5, json!({}));
    // A list has begun, and shows one of them.
    shelf.table.upsert(&shelf.listed("both", 4, json!({})));
    shelf.table.upsert(&shelf.listed("listed", 4, json!({})));
    shelf.learn("listed", 6, json!({}));
    shelf.table.forget_answers();
    assert_eq!(
        (shelf.seen("both"), shelf.seen("listed")),
        (Some(5), Some(6))
    );
    let answered = shelf.cache.get(&shelf.key("answered"));
    assert_eq!(answered, Seen::Unknown, "it may be there");
    // From now on the source tells of everything.
    let list = ["both", "listed"].map(|name| shelf.listed(name, 6, json!({})));
    shelf.replace(&list, 6);
    shelf.learn("answered", 7, json!({}));
    shelf.table.forget_answers();
    assert_eq!(shelf.seen("answered"), Some(7));
}

#[test]
fn after_a_source_was_restored_its_list_counts_although_its_versions_are_smaller() {
    let shelf = shelf(Coverage::default());
    shelf.replace(&[shelf.listed("a", 50, json!({}))], 50);
    shelf.table.delete(&shelf.listed("b", 60, json!({})));
    shelf.table.reset_version_order();
    let restored = [
        shelf.listed("a", 7, json!({})),
        shelf.listed("b", 8, json!({})),
    ];
    assert_eq!(told(shelf.replace(&restored, 10)).len(), 2);
    assert_eq!((shelf.seen("a"), shelf.seen("b")), (Some(7), Some(8)));
}

#[test]
fn objects_are_found_by_their_indexed_labels_as_these_change() {
    let shelf = shelf(labelled("l"));
    let with = |name, version, label| {
        shelf.listed(
            name,
            version,
            json!({ "metadata": { "labels": { "l": label } } }),
        )
    };
    let by = |label: &str| Labels::from([("l".to_owned(), label.to_owned())]);
    let find = |label: &str| match shelf.cache.find(&shelf.scope, &by(label)) {
        Found::All(all) => all.iter().map(|(key, _)| key.name.to_string()).collect(),
        Found::Unknown => vec!["unknown".to_owned()],
    };
    shelf.replace(
        &[with("a", 1, "x"), with("b", 1, "x"), with("c", 1, "y")],
        1,
    );
    assert_eq!(
        (find("x"), find("y")),
        (vec!["a".into(), "b".into()], vec!["c".into()])
    );
    let fingerprint = |label| {
        shelf
            .cache
            .fingerprint(&Question::Marked(shelf.scope.clone(), by(label)))
    };
    let before = fingerprint("x");
    shelf.table.upsert(&with("a", 2, "y"));
    assert_eq!(
        (find("x"), find("y")),
        (vec!["b".into()], vec!["a".into(), "c".into()])
    );
    assert_ne!(fingerprint("x"), before);
    shelf.table.delete(&with("b", 3, "x"));
    assert_eq!(find("x"), Vec::<String>::new());
    assert_eq!(fingerprint("x"), Some(Fingerprint::of_all([])));
    let unlabelled = shelf.cache.find(&shelf.scope, &Labels::default());
    assert_eq!(
        unlabelled,
        Found::Unknown,
        "objects without the label are not in the table"
    );
}

#[test]
fn two_tables_of_a_kind_each_know_their_part() {
    let shelf = shelf(labelled("l"));
    let states = Coverage {
        namespace: Some("agent".into()),
        ..labelled("state")
    };
    let second = shelf
        .cache
        .add(&shelf.scope.side, &shelf.scope.kind, &SOURCE.into(), states);
    let state = shelf.scope.key(Some("agent"), "a");
    shelf.table.finish(&HashSet::new(), 1);
    assert_eq!(
        shelf.cache.get(&state),
        Seen::Unknown,
        "the other table may have it"
    );
    assert_eq!(
        shelf.cache.fingerprint(&Question::Object(state.clone())),
        None
    );
    second.finish(&HashSet::new(), 1);
    assert_eq!(shelf.cache.get(&shelf.key("a")), Seen::Absent);
    assert_eq!(shelf.cache.get(&state), Seen::Absent);
    let mut learned = object(
        "a",
        2,
        json!({ "metadata": { "namespace": "agent", "labels": { "state": "y" } } }),
    );
    let request = Request::Read { key: state.clone() };
    shelf
        .cache
        .learn(&request, Answer::Object(Arc::new(learned.clone())), None);
    assert!(matches!(shelf.cache.get(&state), Seen::Present(_)));
    assert_eq!((shelf.table.len(), second.len()), (0, 1));
    learned.metadata_mut().insert("name".into(), "b".into());
    assert_eq!(
        shelf
            .cache
            .sizes()
            .iter()
            .map(|(_, _, n)| n.entries)
            .sum::<usize>(),
        1
    );
}

proptest! {
    /// However answers, events and lists interleave, the newest state that was seen is known.
    #[test]
    fn the_newest_state_wins_in_every_order(
        mut order in prop::collection::vec((0..4_u8, 0..1000_usize), 1..40),
        deletions in prop::collection::vec(any::<bool>(), 12),
        only_hides in any::<bool>(),
    ) {
        let shelf = shelf(Coverage::default());
        shelf.replace(&[], 0);
        // Twelve writes, version after version, to four names; some are deletions, or hide the object for a while.
        let mut state: BTreeMap<String, (u64, u64)> = BTreeMap::new();
        let mut history = vec![state.clone()];
        let mut events = Vec::new();
        for version in 1..=12_u64 {
            let name = ["a", "b", "c", "d"][usize::try_from(version * 7 % 4).unwrap()];
            let deleted = deletions[usize::try_from(version - 1).unwrap()] && state.contains_key(name);
            let is_new = !only_hides && !state.contains_key(name);
            let born = if is_new { version } else { state.get(name).map_or(0, |(_, born)| *born) };
            let uid = json!({ "metadata": { "uid": format!("u{born}") } });
            let listed = shelf.listed(name, version, uid);
            if deleted { state.remove(name); } else { state.insert(name.to_owned(), (version, born)); }
            events.push((listed, deleted));
            history.push(state.clone());
        }
        // Events in order, with answers from before and after them and lists of any age between.
        let mut next = 0;
        // The newest version that anybody was told of, and a read that is not answered yet.
        let mut newest = 0;
        let mut under_way: Option<(Request, Option<u64>, usize)> = None;
        // Readers keep what they read.
        let mut held = Vec::new();
        order.extend([(0, 0); 12]);
        for (what, index) in order {
            match what {
                0 if next < events.len() => {
                    let (listed, deleted) = &events[next];
                    if *deleted { shelf.table.delete(listed); } else { shelf.table.observe(listed); }
                    next += 1;
                }
                1 => {
                    let (listed, deleted) = &events[index % events.len()];
                    if !deleted {
                        let request = Request::Read { key: listed.key.clone() };
                        let answer = Answer::Object(Arc::clone(&listed.object));
                        shelf.cache.learn(&request, answer, None);
                        newest = newest.max(index % events.len() + 1);
                    }
                }
                3 => if let Some((request, known, at)) = under_way.take() {
                    let key = request.key().unwrap();
                    let state = history[at].get(&*key.name);
                    let answer = state.map_or(Answer::Gone, |(version, born)| {
                        let uid = json!({ "metadata": { "uid": format!("u{born}") } });
                        Answer::Object(object(&key.name, *version, uid).into())
                    });
                    shelf.cache.learn(&request, answer, known);
                    newest = newest.max(at);
                } else {
                    let request = Request::Read { key: shelf.key(["a", "b", "c", "d"][index % 4]) };
                    let since = newest.max(next);
                    let at = since + index / 4 % (events.len() + 1 - since);
                    under_way = Some((request.clone(), shelf.cache.known_version(&request), at));
                }
                _ => {
                    // A list is at least as new as the events before it.
                    let at = next + index % (events.len() + 1 - next);
                    let list: Vec<_> = history[at].iter().map(|(name, (version, born))| {
                        shelf.listed(name, *version, json!({ "metadata": { "uid": format!("u{born}") } }))
                    }).collect();
                    shelf.replace(&list, at as u64);
                    next = next.max(at);
                    newest = newest.max(at);
                }
            }
            let names = ["a", "b", "c", "d"].map(|name| shelf.key(name));
            held.extend(names.iter().map(|key| shelf.cache.get(key)));
            for (key, object) in shelf.table.all() {
                prop_assert_eq!(shelf.cache.get(&key), Seen::Present(object));
            }
        }
        for name in ["a", "b", "c", "d"] {
            prop_assert_eq!(shelf.seen(name), state.get(name).map(|(version, _)| *version), "{}", name);
        }
    }
}

#[test]
fn of_what_nobody_asked_for_only_so_much_is_kept_whole() {
    let labels = |more: &str| json!({"metadata": {"labels": {"of": more}, "annotations": {"a": "x".repeat(900)}}, "data": "y".repeat(900)});
    let shelf = shelf(Coverage {
        idle: Some(8 << 10),
        ..Coverage::default()
    });
    let names: Vec<_> = (0..20).map(|n| format!("o{n:02}")).collect();
    let list: Vec<_> = names
        .iter()
        .zip(1..)
        .map(|(name, version)| shelf.listed(name, version, labels(name)))
        .collect();
    let told = shelf.replace(&list, 20);
    assert_eq!(told.len(), 20, "all are told of");
    // It is not known what the oldest hold; that they are there is.
    let first = shelf.key("o00");
    assert_eq!(shelf.cache.get(&first), Seen::Unknown);
    assert!(
        shelf
            .cache
            .fingerprint(&Question::Object(first.clone()))
            .is_some()
    );
    assert_eq!(shelf.seen("o19"), Some(20));
    let of = |name: &str| Labels::from([("of".to_owned(), name.to_owned())]);
    assert_eq!(shelf.cache.find(&shelf.scope, &of("o01")), Found::Unknown);
    assert_eq!(
        shelf.cache.find(&shelf.scope, &of("nobody")),
        Found::All(vec![])
    );
    let Found::All(found) = shelf.cache.find(&shelf.scope, &of("o18")) else {
        panic!("it is kept");
    };
    assert_eq!(found.len(), 1);
    // Once it was read it stays, also when it changes and whatever else comes.
    shelf.learn("o00", 21, labels("o00"));
    for version in 22..60 {
        let name = &names[2 + version % 10];
        let version = u64::try_from(version).unwrap();
        shelf
            .table
            .upsert(&shelf.listed(name, version, labels(&version.to_string())));
    }
    assert_eq!(shelf.seen("o00"), Some(21));
    shelf.table.upsert(&shelf.listed("o00", 60, labels("new")));
    assert_eq!(shelf.seen("o00"), Some(60));
    assert_eq!(shelf.seen("o19"), Some(20), "it was asked for");
    let gone = shelf.replace(&[], 100);
    assert_eq!(gone.len(), 20, "also those of which little is known");
}

#[test]
fn whoever_wants_everything_gets_it_from_then_on() {
    let shelf = shelf(Coverage {
        idle: Some(0),
        ..Coverage::default()
    });
    shelf.replace(&[shelf.listed("a", 1, json!({}))], 1);
    assert_eq!(shelf.cache.get(&shelf.key("a")), Seen::Unknown);
    shelf.table.keep_all();
    shelf.table.upsert(&shelf.listed("b", 2, json!({})));
    assert_eq!(shelf.seen("b"), Some(2));
}

/// A table of several clusters, with so many objects in each.
fn many(clusters: &[&str], objects: usize) -> (Arc<Cache>, Arc<Table>, Vec<Scope>) {
    let cache = Cache::new();
    let (side, kind) = (Side::new("s"), Arc::new(Gvk::new("", "v1", "Thing")));
    let table = cache.add(&side, &kind, &SOURCE.into(), Coverage::default());
    let scopes = clusters.iter().map(|cluster| {
        cache.route(&side, cluster, &SOURCE.into());
        Scope::new(&side, &kind, cluster)
    });
    let scopes: Vec<_> = scopes.collect();
    for scope in &scopes {
        for i in 0..objects {
            let labels = json!({"metadata": {"labels": {"app": "x", "n": i.to_string()}}});
            let name = format!("o{i}");
            table.upsert(&Listed {
                key: scope.key(Some(if i % 2 == 0 { "even" } else { "odd" }), &name),
                version: 1,
                object: object(&name, 1, labels).into(),
            });
        }
    }
    let listed = table.keys().into_iter().collect();
    table.finish(&listed, 1);
    (cache, table, scopes)
}

fn visits(table: &Table) -> usize {
    table.visits.swap(0, std::sync::atomic::Ordering::Relaxed)
}

#[test]
fn objects_of_a_namespace_are_found_without_a_look_at_others() {
    let (_, table, scopes) = many(&["a", "b"], 100);
    assert_eq!(table.keys_of("a", Some("odd")).len(), 50);
    assert_eq!(visits(&table), 50);
    let keys = table.keys_of("b", None);
    assert_eq!((keys.len(), visits(&table)), (100, 100));
    assert!(keys.iter().all(|key| *key.cluster == *"b"));
    assert_eq!(table.keys_of("c", None), []);

    let key = scopes[0].key(Some("odd"), "o1");
    table.learn_gone(&key, Some(1));
    assert_eq!(table.keys_of("a", Some("odd")).len(), 49);
    for key in table.keys_of("a", None) {
        table.learn_gone(&key, Some(1));
    }
    assert_eq!(table.keys_of("a", None), []);
    assert_eq!(table.keys_of("b", None).len(), 100);
}

#[test]
fn objects_with_a_label_are_found_without_a_look_at_others() {
    let (cache, table, scopes) = many(&["a", "b"], 100);
    let labels = |pairs: &[(&str, &str)]| -> Labels {
        let pairs = pairs.iter().map(|(k, v)| ((*k).to_owned(), (*v).into()));
        pairs.collect()
    };
    let found = |labels: &Labels| match cache.find(&scopes[0], labels) {
        Found::All(found) => found.iter().map(|(key, _)| key.name.to_string()).collect(),
        Found::Unknown => vec!["?".to_owned()],
    };
    // Of several labels the one counts that fewest have.
    let seventh = labels(&[("app", "x"), ("n", "7")]);
    assert_eq!(found(&seventh), ["o7"]);
    assert_eq!(visits(&table), 1);
    let question = Question::Marked(scopes[0].clone(), seventh.clone());
    parses::parses(&table);
    let fingerprint = cache.fingerprint(&question);
    assert_eq!(visits(&table), 1);
    let everything = Question::Marked(scopes[0].clone(), labels(&[("app", "x")]));
    assert!(cache.fingerprint(&everything).is_some());
    assert_eq!(visits(&table), 100);
    assert_eq!(parses::parses(&table), 0, "it is asked for each event");
    assert_eq!(found(&labels(&[("n", "none")])), [""; 0]);
    assert_eq!(visits(&table), 0);

    // A label that is taken off and put on.
    let relabel = |name: &str, version, n: &str| {
        let more = json!({"metadata": {"labels": {"app": "x", "n": n}}});
        let listed = Listed {
            key: scopes[0].key(Some("odd"), name),
            version,
            object: object(name, version, more).into(),
        };
        table.upsert(&listed);
    };
    relabel("o7", 2, "8");
    assert_eq!(found(&seventh), [""; 0]);
    assert_ne!(cache.fingerprint(&question), fingerprint);
    relabel("o9", 3, "7");
    assert_eq!(found(&seventh), ["o9"]);
    table.learn_gone(&scopes[0].key(Some("odd"), "o9"), Some(3));
    assert_eq!(found(&seventh), [""; 0]);
}

#[test]
fn without_labels_only_the_cluster_is_looked_at() {
    let (cache, table, scopes) = many(&["a", "b"], 100);
    let Found::All(found) = cache.find(&scopes[1], &Labels::default()) else {
        panic!("everything is known");
    };
    assert_eq!((found.len(), visits(&table)), (100, 100));
}

/// Keys of labels may be in consumers' words.
#[test]
fn whatever_labels_one_consumer_looks_for_another_ones_objects_are_found_at_once() {
    let (cache, table, scopes) = many(&["a", "b"], 100);
    for i in 0..50 {
        let labels = Labels::from([(format!("label-{i}"), "x".to_owned())]);
        assert_eq!(cache.find(&scopes[0], &labels), Found::All(Vec::new()));
    }
    assert_eq!(visits(&table), 0);
    let labels = Labels::from([("n".to_owned(), "7".to_owned())]);
    for scope in &scopes {
        assert!(matches!(cache.find(scope, &labels), Found::All(found) if found.len() == 1));
        assert_eq!(visits(&table), 1);
    }
}
