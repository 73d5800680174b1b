//! Objects beyond the limit of their cluster.

use super::*;

/// Room for about five objects of a kilobyte.
const MOST: usize = 6_000;

fn limited() -> Shelf {
    let cache = Cache::limited(&Side::new("s"), MOST);
    let shelf = shelf_of(cache, Coverage::default());
    shelf.replace(&[], 1);
    shelf
}

fn filled(bytes: usize) -> Value {
    json!({"spec": "x".repeat(bytes)})
}

impl Shelf {
    fn put(&self, name: &str, version: u64, more: Value) {
        self.table.upsert(&self.listed(name, version, more));
    }

    fn end(&self, name: &str, version: u64) {
        self.table.delete(&self.listed(name, version, json!({})));
    }

    /// What is read of an object; `None` if it is absent or unknown.
    fn present(&self, name: &str) -> Option<Arc<Object>> {
        match self.cache.get(&self.key(name)) {
            Seen::Present(object) => Some(object),
            Seen::Absent | Seen::Unknown => None,
        }
    }

    fn is_whole(&self, name: &str) -> bool {
        self.present(name).is_some_and(|found| !found.is_fragment())
    }

    fn is_left_out(&self, name: &str) -> bool {
        let found = self.present(name).and_then(|found| found.missing());
        found == Some(Missing::LeftOut)
    }

    /// Reads an object live, as a pass does; returns what the pass is given.
    fn read(&self, name: &str, version: u64, more: Value) -> Arc<Object> {
        let request = Request::Read {
            key: self.key(name),
        };
        let answer = Answer::Object(Arc::new(object(name, version, more)));
        match self.cache.learn(&request, answer, None) {
            (Answer::Object(object), _) => object,
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn what_is_left_out_is_known_to_exist_and_read_when_there_is_room() {
    let shelf = limited();
    for number in 0..5 {
        shelf.put(&format!("a{number}"), 2, filled(1_000));
    }
    let marks =
        json!({"metadata": {"labels": {"l": "v"}, "finalizers": ["f"], "annotations": {"n": "x"}}});
    let mut more = filled(1_000);
    kube_lang::object::merge_patch::apply(&mut more, &marks);
    shelf.put("b", 3, more.clone());
    assert!((0..5).all(|number| shelf.is_whole(&format!("a{number}"))));
    assert!(shelf.is_left_out("b"));
    let kept = shelf.present("b").unwrap();
    assert!(kept.has_finalizer("f") && kept.label("l") == Some("v"));
    assert_eq!(kept.annotation("n"), None);
    assert!(!kept.root().contains_key("spec"));
    let size = shelf.table.size();
    assert_eq!((size.entries, size.left_out, size.fragments), (6, 1, 0));
    assert!(size.largest <= MOST && size.largest > 5_000, "{size:?}");
    // Its labels are known, so it is found.
    let labels = Labels::from([("l".to_owned(), "v".to_owned())]);
    let Found::All(found) = shelf.cache.find(&shelf.scope, &labels) else {
        panic!("nothing is known");
    };
    assert!(found.len() == 1 && found[0].1.is_fragment());
    // As long as there is no room, a live read changes nothing.
    assert!(shelf.read("b", 3, more.clone()).is_fragment());
    assert!(shelf.is_left_out("b"));

    shelf.end("a0", 4);
    let question = Question::Object(shelf.key("b"));
    assert_eq!(shelf.cache.get(&shelf.key("b")), Seen::Unknown);
    assert_eq!(shelf.cache.fingerprint(&question), None);
    assert_eq!(shelf.cache.find(&shelf.scope, &labels), Found::Unknown);
    assert!(!shelf.read("b", 3, more).is_fragment());
    assert!(shelf.is_whole("b"));
    assert_eq!(shelf.table.size().left_out, 0);
}

#[test]
fn what_a_copy_was_made_of_counts_on_when_it_is_left_out() {
    let shelf = limited();
    for number in 0..5 {
        shelf.put(&format!("a{number}"), 2, filled(1_000));
    }
    // Otherwise a cluster could have any number of large copies, one after the other.
    shelf.put("a0", 3, filled(3_000));
    assert!(shelf.is_left_out("a0"));
    shelf.put("b", 4, filled(1_000));
    assert!(shelf.is_left_out("b"));
    // What is small enough again is there again, by its event.
    shelf.put("a0", 5, filled(900));
    assert!(shelf.is_whole("a0") && shelf.is_left_out("b"));
}

#[test]
fn a_cluster_is_limited_by_its_own_objects_only() {
    let shelf = limited();
    shelf.put("a", 2, filled(MOST));
    let elsewhere = Scope {
        cluster: "other".into(),
        ..shelf.scope.clone()
    };
    shelf.cache.route(&elsewhere.side, "other", &SOURCE.into());
    let listed = shelf.listed("a", 3, filled(1_000));
    shelf.table.upsert(&Listed {
        key: elsewhere.key(Some("ns"), "a"),
        ..listed
    });
    assert!(shelf.is_left_out("a"));
    let there = shelf.cache.get(&elsewhere.key(Some("ns"), "a"));
    assert!(matches!(there, Seen::Present(found) if !found.is_fragment()));
    // Only one side has a limit.
    let other = Arc::new(Gvk::new("", "v1", "Other"));
    let table = shelf
        .cache
        .add(&Side::new("t"), &other, &SOURCE.into(), Coverage::default());
    let scope = Scope::new(&Side::new("t"), &other, "");
    let listed = shelf.listed("a", 3, filled(MOST));
    table.upsert(&Listed {
        key: scope.key(Some("ns"), "a"),
        ..listed
    });
    assert_eq!(table.size().left_out, 0);
}

#[test]
fn nothing_of_what_is_left_out_is_gone() {
    let shelf = limited();
    let (large, labels) = (
        filled(MOST),
        Labels::from([("l".to_owned(), "v".to_owned())]),
    );
    let many: BTreeMap<String, String> = (0..2_000)
        .map(|number| (format!("label-{number}"), "value".to_owned()))
        .collect();
    let hidden = json!({"metadata": {"labels": many}});
    let list = [
        shelf.listed("large", 2, large.clone()),
        shelf.listed("hidden", 2, hidden.clone()),
    ];
    let gone = shelf.replace(&list, 3);
    assert_eq!(gone.len(), 2, "both are told as they come: {gone:?}");
    assert!(gone.iter().all(|change| change.what == ChangeType::Changed));
    assert!(shelf.is_left_out("large"));
    // Of one with so many labels not even these are kept: it may have any label, and is read.
    assert_eq!(shelf.cache.get(&shelf.key("hidden")), Seen::Unknown);
    assert_eq!(shelf.cache.find(&shelf.scope, &labels), Found::Unknown);
    let read = shelf.read("hidden", 2, hidden.clone());
    assert!(read.is_fragment() && read.label("label-7") == Some("value"));
    assert_eq!(shelf.cache.get(&shelf.key("hidden")), Seen::Unknown);
    assert!(shelf.table.size().bytes < 1_000);
    // Nor does a list of them tell more than is kept.
    let request = Request::Find {
        scope: shelf.scope.clone(),
        labels: labels.clone(),
    };
    let all = ["large", "hidden"].map(|name| {
        let object = object(
            name,
            2,
            if name == "large" {
                large.clone()
            } else {
                hidden.clone()
            },
        );
        (shelf.key(name), Arc::new(object))
    });
    let answer = Answer::Listed(all.to_vec());
    let (Answer::Listed(kept), _) = shelf.cache.learn(&request, answer, None) else {
        panic!("no list");
    };
    assert!(kept.iter().all(|(_, object)| object.is_fragment()));
    // What is really gone is gone.
    shelf.end("hidden", 4);
    assert_eq!(shelf.cache.get(&shelf.key("hidden")), Seen::Absent);
    assert!(shelf.cache.saw_deletion(&shelf.key("hidden")));
    assert_eq!(shelf.cache.find(&shelf.scope, &labels), Found::All(vec![]));
}

fn labelled(labels: usize) -> Value {
    let labels: BTreeMap<String, String> = (0..labels)
        .map(|number| (format!("l{number}"), "v".to_owned()))
        .collect();
    json!({"metadata": {"labels": labels}})
}

#[test]
fn the_index_of_labels_counts_for_the_cluster() {
    let shelf = limited();
    // A few hundred bytes as text, and ten times as many in the index.
    shelf.put("a", 2, labelled(50));
    shelf.put("b", 2, labelled(50));
    assert!(shelf.is_whole("a") && shelf.is_left_out("b"));
    assert!(shelf.table.size().largest > 50 * 64);
}

#[test]
fn no_labels_are_indexed_of_an_object_that_is_kept_by_its_name_only() {
    let shelf = limited();
    shelf.put("a", 2, labelled(3));
    shelf.put("hidden", 2, labelled(2_000));
    let labels = Labels::from([("l1".to_owned(), "v".to_owned())]);
    shelf.cache.find(&shelf.scope, &labels);
    assert_eq!(shelf.table.indexed_labels(), 3);
    // Neither as it came before labels were looked for, nor as it comes after that.
    shelf.put("hidden", 3, labelled(2_001));
    assert_eq!(shelf.table.indexed_labels(), 3);
    shelf.put("hidden", 4, labelled(2));
    assert_eq!(shelf.table.indexed_labels(), 5);
    shelf.put("hidden", 5, labelled(2_000));
    shelf.end("a", 6);
    assert_eq!(shelf.table.indexed_labels(), 0);
}

proptest! {
    /// Whatever happens, no more is kept than the limit and the identities of what is left out.
    #[test]
    fn no_cluster_has_more_than_its_limit(
        steps in proptest::collection::vec((0..8_usize, 0..4_000_usize, 0..6_u8), 1..80)
    ) {
        let shelf = limited();
        for (version, (name, bytes, step)) in (2..).zip(steps) {
            let name = format!("a{name}");
            match step {
                0 => shelf.end(&name, version),
                1 => drop(shelf.read(&name, version, filled(bytes))),
                _ => shelf.put(&name, version, filled(bytes)),
            }
            let size = shelf.table.size();
            prop_assert!(size.bytes <= MOST + size.left_out * 256, "{size:?}");
            prop_assert!(size.largest <= MOST + size.left_out * 256, "{size:?}");
        }
        for name in 0..8 {
            shelf.end(&format!("a{name}"), 1_000);
        }
        let size = shelf.table.size();
        prop_assert_eq!((size.bytes, size.left_out, size.largest), (0, 0, 0));
    }
}
