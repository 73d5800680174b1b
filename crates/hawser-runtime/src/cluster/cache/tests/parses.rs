//! What the cache does not do again.

use std::sync::atomic::Ordering;

use super::*;

/// The objects that were parsed since the last call.
pub(super) fn parses(table: &Table) -> usize {
    table.parses.swap(0, Ordering::Relaxed)
}

fn marked() -> Labels {
    Labels::from([("of".to_owned(), "a".to_owned())])
}

/// A complete table with an object that has the label.
fn one() -> Shelf {
    let shelf = shelf(labelled("of"));
    shelf.replace(&[shelf.listed("a", 1, of("a"))], 1);
    parses(&shelf.table);
    shelf
}

fn of(value: &str) -> Value {
    json!({"metadata": {"labels": {"of": value}}})
}

fn present(shelf: &Shelf) -> Arc<Object> {
    match shelf.cache.get(&shelf.key("a")) {
        Seen::Present(object) => object,
        other => panic!("{other:?}"),
    }
}

#[test]
fn an_object_is_parsed_once_for_all_who_hold_it() {
    let shelf = one();
    let first = present(&shelf);
    assert!(Arc::ptr_eq(&first, &present(&shelf)));
    let Found::All(found) = shelf.cache.find(&shelf.scope, &marked()) else {
        panic!("it is known");
    };
    assert!(Arc::ptr_eq(&first, &found[0].1));
    assert_eq!(parses(&shelf.table), 1);
    // The newest state is read.
    shelf.table.observe(&shelf.listed("a", 2, of("a")));
    assert_eq!(version(&present(&shelf)), Some(2));
    assert_eq!(parses(&shelf.table), 1);
    drop((first, found));
    // Nobody holds it.
    present(&shelf);
    assert_eq!(parses(&shelf.table), 1);
    // What is read of the whole table is not noted.
    let all = shelf.table.all();
    present(&shelf);
    assert_eq!((all.len(), parses(&shelf.table)), (1, 1));
}

#[test]
fn an_answer_that_a_pass_holds_is_not_parsed() {
    let shelf = one();
    let request = Request::Read {
        key: shelf.key("a"),
    };
    let learn = |version, more| {
        let answer = Answer::Object(Arc::new(object("a", version, more)));
        match shelf.cache.learn(&request, answer, None) {
            (Answer::Object(object), _) => object,
            other => panic!("{other:?}"),
        }
    };
    let answer = learn(3, of("a"));
    assert!(Arc::ptr_eq(&answer, &present(&shelf)));
    // An older answer is not what is known, and nobody reads managed fields.
    let older = learn(2, of("a"));
    assert!(!Arc::ptr_eq(&older, &present(&shelf)));
    let managed = learn(
        4,
        json!({"metadata": {"managedFields": [], "labels": {"of": "a"}}}),
    );
    assert!(managed.root()["metadata"].get("managedFields").is_some());
    assert!(
        present(&shelf).root()["metadata"]
            .get("managedFields")
            .is_none()
    );
}

#[test]
fn objects_with_exactly_the_indexed_labels_are_compared_without_parsing() {
    let shelf = one();
    shelf.table.observe(&shelf.listed("b", 2, of("b")));
    let question = |labels| Question::Marked(shelf.scope.clone(), labels);
    let now = || shelf.cache.fingerprint(&question(marked()));
    let before = now();
    assert_eq!(
        before,
        Some(Fingerprint::of_all([Fingerprint::of(&present(&shelf))]))
    );
    parses(&shelf.table);
    shelf.table.observe(&shelf.listed("a", 3, of("b")));
    assert_ne!(now(), before);
    assert_eq!(parses(&shelf.table), 0);
    // Other labels decide too.
    let more = marked()
        .iter()
        .chain([("app", "x")])
        .map(|(k, v)| (k.to_owned(), v.into()))
        .collect();
    let more: Labels = more;
    let none = Some(Fingerprint::of_all([]));
    assert_eq!(shelf.cache.fingerprint(&question(more)), none);
}

#[test]
fn an_event_of_a_write_whose_answer_is_stored_is_not_stored_again() {
    let shelf = one();
    shelf.learn("a", 5, of("a"));
    let revision = shelf.table.revision();
    let held = present(&shelf);
    parses(&shelf.table);
    let echo = shelf.listed("a", 5, of("a"));
    assert_eq!(shelf.table.observe(&echo), None);
    assert_eq!(shelf.table.revision(), revision);
    assert!(Arc::ptr_eq(&held, &present(&shelf)));
    // A list shows the object by the schema of the time, in the same version.
    let defaulted = shelf.listed(
        "a",
        5,
        json!({"default": 1, "metadata": {"labels": {"of": "a"}}}),
    );
    assert!(shelf.table.upsert(&defaulted).is_some());
    assert_eq!(shelf.table.revision(), revision + 1);
    // Another object of the name, and any version after the order was reset.
    let other = json!({"metadata": {"uid": "u2", "labels": {"of": "a"}}});
    assert!(shelf.table.observe(&shelf.listed("a", 5, other)).is_some());
    shelf.table.reset_version_order();
    assert!(
        shelf
            .table
            .observe(&shelf.listed("a", 5, of("a")))
            .is_some()
    );
}

#[test]
fn the_event_of_an_answer_makes_it_watched() {
    let shelf = shelf(Coverage::default());
    shelf.learn("a", 5, json!({}));
    shelf.table.observe(&shelf.listed("a", 5, json!({})));
    shelf.table.forget_answers();
    assert_eq!(shelf.seen("a"), Some(5));
}
