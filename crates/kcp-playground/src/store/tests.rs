//! The store by itself: transactions, history, and watchers whose replay equals a list.

use std::collections::BTreeMap;

use proptest::prelude::*;
use serde_json::json;

use super::state::CLUSTER_ANNOTATION;
use super::*;
use kube_lang::object::Object;

fn table() -> Table {
    Table::new("example.com", "things", "")
}

fn thing(name: &str, team: &str, content: u8) -> Object {
    Object::new(json!({
        "apiVersion": "example.com/v1",
        "kind": "Thing",
        "metadata": {"name": name, "labels": {"team": team}},
        "spec": content,
    }))
    .unwrap()
}

fn put(store: &Store, cluster: &str, name: &str, team: &str, content: u8) -> Outcome<()> {
    let key = table().key(cluster, "ns", name);
    store
        .write(|tx| {
            tx.report(&key);
            tx.put(&key, thing(name, team, content))
        })
        .unwrap()
}

struct Team(&'static str);

impl Filter for Team {
    fn matches(&self, object: &Stored) -> bool {
        object.labels.get("team") == Some(self.0)
    }
}

#[test]
fn an_object_written_as_it_was_changes_nothing() {
    let store = Store::new(StoreOptions::default());
    let first = put(&store, "a", "x", "red", 1);
    let again = put(&store, "a", "x", "red", 1);
    assert_eq!(first.revision, again.revision);
    assert_eq!(again.reported.unwrap().revision, first.revision);
}

#[test]
fn a_failed_transaction_leaves_no_trace() {
    let store = Store::new(StoreOptions::default());
    let before = store.revision();
    let key = table().key("a", "ns", "x");
    let refused = store.write(|tx| {
        tx.put(&key, thing("x", "red", 1))?;
        Err::<(), _>(Status::bad_request("no"))
    });
    assert_eq!(refused.unwrap_err().code, 400);
    assert_eq!(store.revision(), before);
    assert!(store.read(|read| read.get(&key)).is_none());
}

#[test]
fn a_dry_run_answers_with_the_object_and_keeps_nothing() {
    let store = Store::new(StoreOptions::default());
    let key = table().key("a", "ns", "x");
    let outcome = store.dry_run(|tx| {
        tx.report(&key);
        tx.put(&key, thing("x", "red", 1))
    });
    let reported = outcome.unwrap().reported.unwrap();
    assert_eq!(reported.object().resource_version(), None);
    assert!(store.read(|read| read.get(&key)).is_none());
}

#[test]
fn objects_carry_their_cluster_except_in_plain_clusters() {
    let store = Store::new(StoreOptions {
        plain_clusters: HashSet::from(["service".into()]),
        ..StoreOptions::default()
    });
    let kcp = put(&store, "a", "x", "red", 1).reported.unwrap().object();
    assert_eq!(kcp.annotation(CLUSTER_ANNOTATION), Some("a"));
    let plain = put(&store, "service", "x", "red", 1).reported.unwrap();
    assert_eq!(plain.object().annotation(CLUSTER_ANNOTATION), None);
}

/// Sets a label on whatever lacks it, as a claim labeller does.
struct Labeller;

impl Settler for Labeller {
    fn settle(&self, tx: &mut Tx<'_>, changed: &[Key]) -> Result<(), Status> {
        for key in changed {
            if let Some(stored) = tx.get(key) {
                let mut object = stored.object();
                object.set_label("claimed", "yes");
                if object.as_value() != stored.cached().as_value() {
                    tx.put(key, object)?;
                }
            }
        }
        Ok(())
    }
}

/// Never content.
struct Restless;

impl Settler for Restless {
    fn settle(&self, tx: &mut Tx<'_>, changed: &[Key]) -> Result<(), Status> {
        for key in changed {
            if let Some(stored) = tx.get(key) {
                tx.put(key, stored.object())?;
            }
        }
        Ok(())
    }
}

#[test]
fn settlers_work_within_the_write_that_they_react_to() {
    let store = Store::new(StoreOptions::default());
    store.add_settler(Arc::new(Labeller));
    let outcome = put(&store, "a", "x", "red", 1);
    let reported = outcome.reported.unwrap();
    assert_eq!(reported.labels.get("claimed"), Some("yes"));
    assert_eq!((reported.revision, outcome.revision), (2, 2));
}

#[test]
fn controllers_that_never_rest_are_an_error_and_not_a_hang() {
    let store = Store::new(StoreOptions::default());
    store.add_settler(Arc::new(Restless));
    let key = table().key("a", "ns", "x");
    let refused = store.write(|tx| tx.put(&key, thing("x", "red", 1)));
    assert_eq!(refused.unwrap_err().code, 500);
}

#[test]
fn an_object_too_deep_to_be_read_again_is_refused() {
    let refused = || {
        let store = Store::new(StoreOptions::default());
        let mut deep = json!(1);
        for _ in 0..12_000 {
            // The macro would copy all that is below.
            deep = serde_json::Value::Array(vec![deep]);
        }
        let mut object = thing("x", "red", 1);
        object.root_mut().insert("spec".into(), deep);
        let refused = store.write(|tx| tx.put(&table().key("a", "ns", "x"), object));
        assert_eq!(refused.unwrap_err().code, 400);
    };
    // As deep as this, objects are handled on large stacks.
    let test = std::thread::Builder::new()
        .stack_size(256 << 20)
        .spawn(refused);
    test.unwrap().join().unwrap();
}

#[test]
fn the_forgotten_past_is_refused_and_the_remembered_past_is_exact() {
    let store = Store::new(StoreOptions {
        retention: Retention {
            changes: 2,
            bytes: usize::MAX,
        },
        ..StoreOptions::default()
    });
    for content in 1..=4 {
        put(&store, "a", "x", "red", content);
    }
    let range = Range::everywhere(&table());
    assert_eq!(store.snapshot_at(&range, 2).unwrap_err().code, 410);
    assert_eq!(store.snapshot_at(&range, 9).unwrap_err().code, 504);
    let past = store.snapshot_at(&range, 3).unwrap();
    assert_eq!(past.items[0].object().as_value()["spec"], json!(2));
    let mut late = store.watch(range, None, 2);
    assert_eq!(late.poll(10).unwrap_err().code, 410);
}

#[tokio::test]
async fn a_watcher_is_woken_by_its_own_table() {
    let store = Store::new(StoreOptions::default());
    let range = Range::in_cluster(&table(), "a");
    let mut watch = store.watch(range, None, store.revision());
    assert!(watch.poll(10).unwrap().is_empty());
    put(&store, "a", "x", "red", 1);
    watch.changed().await;
    assert_eq!(watch.poll(10).unwrap()[0].kind, EventKind::Added);
}

#[tokio::test]
async fn a_poll_that_stopped_at_its_limit_does_not_wait_for_another_write() {
    let store = Store::new(StoreOptions::default());
    put(&store, "a", "x", "red", 1);
    put(&store, "a", "y", "red", 1);
    let mut watch = store.watch(Range::everywhere(&table()), None, 1);
    assert_eq!(watch.poll(1).unwrap().len(), 1);
    watch.changed().await;
    assert_eq!(watch.poll(1).unwrap().len(), 1);
}

#[derive(Clone, Debug)]
enum Step {
    Put(&'static str, &'static str, &'static str, u8),
    Remove(&'static str, &'static str),
    Poll(usize),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let cluster = || prop::sample::select(vec!["a", "b", "c"]);
    let name = || prop::sample::select(vec!["x", "y", "z"]);
    let team = prop::sample::select(vec!["red", "blue"]);
    let step = prop_oneof![
        5 => (cluster(), name(), team, 0..3_u8).prop_map(|(c, n, t, v)| Step::Put(c, n, t, v)),
        2 => (cluster(), name()).prop_map(|(c, n)| Step::Remove(c, n)),
        2 => (0..6_usize).prop_map(Step::Poll),
    ];
    prop::collection::vec(step, 0..60)
}

/// What an informer does: starts from a list, then follows.
struct Informer {
    range: Range,
    team: Option<&'static str>,
    watch: Watch,
    cache: BTreeMap<Place, serde_json::Value>,
}

impl Informer {
    fn start(store: &Arc<Store>, range: Range, team: Option<&'static str>) -> Self {
        let filter = team.map(|team| Arc::new(Team(team)) as Arc<dyn Filter>);
        let snapshot = store.snapshot(&range);
        Self {
            watch: store.watch(range.clone(), filter, snapshot.revision),
            cache: content(&snapshot, team),
            range,
            team,
        }
    }

    fn follow(&mut self, limit: usize) {
        let mut seen = 0;
        for event in self.watch.poll(limit).unwrap() {
            assert!(event.revision > seen, "events come in order");
            seen = event.revision;
            let place = event.object.key.place.clone();
            let value = event.object.object().as_value()["spec"].clone();
            let known = match event.kind {
                EventKind::Deleted => self.cache.remove(&place),
                _ => self.cache.insert(place, value),
            };
            assert_eq!(known.is_some(), event.kind != EventKind::Added);
        }
    }
}

fn content(snapshot: &Snapshot, team: Option<&str>) -> BTreeMap<Place, serde_json::Value> {
    let items = snapshot.items.iter();
    items
        .filter(|stored| team.is_none_or(|team| stored.labels.get("team") == Some(team)))
        .map(|stored| {
            let value = stored.object().as_value()["spec"].clone();
            (stored.key.place.clone(), value)
        })
        .collect()
}

#[test]
fn what_is_kept_of_the_past_counts_in_each_encoding() {
    let store = Store::new(StoreOptions {
        retention: Retention {
            changes: 1000,
            bytes: 10_000,
        },
        ..StoreOptions::default()
    });
    let packed = |stored: &Stored, size: usize| {
        let packed = stored.packed(|_| Ok::<_, Status>(bytes::Bytes::from(vec![0; size])));
        packed.unwrap().len()
    };
    let range = Range::everywhere(&table());
    let first = put(&store, "a", "x", "red", 1);
    let stored = first.reported.unwrap();
    assert_eq!(packed(&stored, 5000), 5000);
    assert_eq!(packed(&stored, 1), 5000);
    put(&store, "a", "x", "red", 2);
    let second = put(&store, "a", "x", "red", 3);
    assert!(store.snapshot_at(&range, first.revision).is_ok());
    // Nothing is added to what has passed.
    let between = store.snapshot_at(&range, second.revision - 1).unwrap();
    assert_eq!(packed(&between.items[0], 5000), 5000);
    assert_eq!(packed(&between.items[0], 1), 1);
    packed(&second.reported.unwrap(), 5000);
    put(&store, "a", "x", "red", 4);
    let refused = store.snapshot_at(&range, first.revision).unwrap_err();
    assert_eq!(refused.code, 410);
}

/// Places in the order of lists, which is not the one of their names.
fn places() -> Vec<Place> {
    let mut places = Vec::new();
    for cluster in ["a", "b"] {
        for namespace in ["", "n", "n-m", "n0"] {
            for name in ["x", "x-y", "y"] {
                places.push(table().key(cluster, namespace, name).place);
            }
        }
    }
    places
}

fn ranges() -> Vec<Range> {
    let mut ranges = vec![Range::everywhere(&table())];
    for namespace in [None, Some("n"), Some("n-m")] {
        ranges.push(Range {
            namespace: namespace.map(Name::from),
            ..Range::in_cluster(&table(), "b")
        });
        ranges.push(Range {
            namespace: namespace.map(Name::from),
            ..Range::everywhere(&table())
        });
    }
    ranges
}

fn specs(read: &dyn Read, range: &Range) -> Vec<(Place, serde_json::Value)> {
    let items = read.list(range).into_iter();
    let spec = |stored: &Stored| stored.object().as_value()["spec"].clone();
    items
        .map(|stored| (stored.key.place.clone(), spec(&stored)))
        .collect()
}

fn expected(model: &BTreeMap<Place, u8>, range: &Range) -> Vec<(Place, serde_json::Value)> {
    let covered = model.iter().filter(|(place, _)| range.covers(place));
    covered
        .map(|(place, value)| (place.clone(), (*value).into()))
        .collect()
}

proptest! {
    #[test]
    fn a_transaction_is_read_as_it_will_be(
        transactions in proptest::collection::vec(
            proptest::collection::vec((0..24_usize, proptest::option::of(0..3_u8)), 1..40), 1..5,
        ),
    ) {
        let store = Store::new(StoreOptions::default());
        let (places, ranges) = (places(), ranges());
        let mut model = BTreeMap::new();
        for steps in transactions {
            let (before, revision) = (model.clone(), store.revision());
            let mut last = None;
            let outcome = store.write(|tx| {
                for (place, value) in steps {
                    let key = Key { table: table(), place: places[place].clone() };
                    tx.report(&key);
                    last = Some(key.place.clone());
                    match value {
                        Some(value) => {
                            tx.put(&key, thing(&key.place.name, "red", value))?;
                            model.insert(key.place.clone(), value);
                        }
                        None => assert_eq!(tx.remove(&key), model.remove(&key.place).is_some()),
                    }
                    for range in &ranges {
                        assert_eq!(specs(tx, range), expected(&model, range));
                    }
                    for place in &places {
                        let key = Key { table: table(), place: place.clone() };
                        assert_eq!(tx.get(&key).is_some(), model.contains_key(place));
                    }
                }
                Ok(())
            }).unwrap();
            for range in &ranges {
                prop_assert_eq!(store.read(|read| specs(read, range)), expected(&model, range));
            }
            let changed = places.iter().filter(|place| before.get(place) != model.get(place));
            prop_assert_eq!(store.revision() - revision, changed.count() as u64);
            let reported = outcome.reported.map(|stored| stored.key.place.clone());
            let last = last.filter(|place| model.contains_key(place));
            prop_assert_eq!(reported, last);
        }
    }

    #[test]
    fn the_replay_of_every_watcher_equals_a_list(steps in steps()) {
        let store = Store::new(StoreOptions::default());
        let everywhere = Range::everywhere(&table());
        let mut informers = Vec::new();
        let mut past = Vec::new();
        for step in &steps {
            for range in [everywhere.clone(), Range::in_cluster(&table(), "b")] {
                for team in [None, Some("red")] {
                    informers.push(Informer::start(&store, range.clone(), team));
                }
            }
            match *step {
                Step::Put(cluster, name, team, value) => {
                    put(&store, cluster, name, team, value);
                }
                Step::Remove(cluster, name) => {
                    let key = table().key(cluster, "ns", name);
                    store.write(|tx| Ok(tx.remove(&key))).unwrap();
                }
                Step::Poll(limit) => informers.iter_mut().for_each(|i| i.follow(limit)),
            }
            past.push(store.snapshot(&everywhere));
        }
        for informer in &mut informers {
            informer.follow(usize::MAX);
            let now = store.snapshot(&informer.range);
            prop_assert_eq!(&informer.cache, &content(&now, informer.team));
        }
        for known in past {
            let undone = store.snapshot_at(&everywhere, known.revision).unwrap();
            prop_assert_eq!(content(&undone, None), content(&known, None));
        }
    }
}
