//! Originals and objects that are out of sight without having been seen to end.

use super::*;

const C: &str = "c1";

fn up() -> Value {
    json!([entry("up", "kcp", by_path("spec.up"))])
}

/// An object with an original of its workspace, at rest; where original and copy are.
fn carried(entries: Value, spec: Value) -> (Stage, Key, Key) {
    let stage = Stage::new(entries);
    let original = stage.secret("kcp", C, "default", "u");
    let copy = stage.secret("service", "", C, "u");
    stage.put(&original, "x");
    stage
        .hands
        .patch(&original, json!({"metadata": {"labels": {"of": "a"}}}));
    stage.create(C, "a", spec);
    stage.rest(C, "a");
    assert!(stage.value(&copy).is_some());
    (stage, original, copy)
}

#[test]
fn an_original_that_is_out_of_sight_leaves_its_copy_however_it_was_found() {
    let selector = json!({"selector": {"matchLabels": {"of": "a"},
        "rewrite": {"template": {"template": "{{ .Value }}"}}}});
    for (entries, spec) in [
        (up(), json!({"up": "u"})),
        (json!([entry("up", "kcp", selector)]), json!({})),
    ] {
        let (stage, original, copy) = carried(entries, spec);
        let hidden = stage.hands.hide(&original).unwrap();
        assert!(!stage.rest(C, "a").contains(&Code::Gone));
        assert_eq!(stage.value(&copy).as_deref(), Some("x"));
        assert_eq!(stage.remembered(), 1);
        stage.hands.put(&original, &hidden);
        assert_eq!(stage.rest(C, "a"), [Code::InStep]);
        // Seen to end, it takes its copy along.
        stage.hands.delete(&original);
        stage.rest(C, "a");
        assert!(stage.value(&copy).is_none());
        assert!(stage.hands.object(&original).is_none());
        assert_eq!(stage.remembered(), 0);
    }
}

#[test]
fn an_original_that_was_out_of_sight_when_its_object_went_is_let_go_when_it_shows() {
    for dying in [false, true] {
        let (mut stage, original, copy) = carried(up(), json!({"up": "u"}));
        let hidden = stage.hands.hide(&original).unwrap();
        stage.hands.delete(&stage.anchor(C, "a"));
        stage.rest(C, "a");
        assert!(stage.hands.object(&stage.anchor(C, "a")).is_none());
        assert!(stage.hands.object(&copy).is_none());
        assert_eq!(stage.remembered(), 1);
        stage.restarted(json!({"related": up()}));
        stage.rest(C, "a");
        assert_eq!(stage.remembered(), 1);
        stage.hands.put(&original, &hidden);
        if dying {
            stage.hands.delete(&original);
        }
        stage.rest(C, "a");
        let left = stage.hands.object(&original);
        let held = left.as_ref().map(|left| left.finalizers().count());
        assert_eq!(held, (!dying).then_some(0));
        let all = stage.hands.objects();
        assert!(all.values().all(|o| o.label(marks::OBJECT_STATE).is_none()));
    }
}

#[test]
fn an_object_that_vanishes_keeps_all_that_was_made_for_it() {
    let (stage, original, copy) = carried(up(), json!({"up": "u"}));
    stage.hands.hide(&stage.anchor(C, "a"));
    stage.rest(C, "a");
    assert!(stage.value(&copy).is_some());
    assert_eq!(
        stage.hands.object(&original).unwrap().finalizers().count(),
        1
    );
    assert_eq!(stage.remembered(), 1);
}

#[test]
fn an_object_that_vanished_claims_only_what_was_made_for_it() {
    let (stage, _, copy) = carried(up(), json!({"up": "u"}));
    let free = |key: &Key| {
        let other = Claimant {
            memory: "other".into(),
            cluster: "c2".into(),
        };
        stage.ledger.stranger(&other, key).is_none()
    };
    // It waits for an original, and has the name of its copy meanwhile.
    let awaited = stage.secret("service", "", C, "w");
    stage.put(&stage.secret("kcp", C, "default", "w"), "x");
    stage.put(&awaited, "another's");
    stage.set(C, "a", json!({"up": ["u", "w"]}));
    stage.rest(C, "a");
    assert!(!free(&copy));
    stage.hands.hide(&stage.anchor(C, "a"));
    stage.rest(C, "a");
    assert!(!free(&copy) && free(&awaited));
    // Nothing of it is claimed once nobody remembers it.
    for (key, object) in stage.hands.objects() {
        if object.label(marks::OBJECT_STATE).is_some() {
            stage.hands.delete(&key);
        }
    }
    stage.rest(C, "a");
    assert!(free(&copy));
}

/// An object that its owner does not want to be kept in step any more.
struct Outside<'a>(&'a Stage, ObjectRules);

impl Dialect for Outside<'_> {
    fn subject(&self, view: &dyn View) -> Result<Subject, Vec<Request>> {
        let subject = subject_of(self.1.clone());
        Ok(outside(subject, &self.1, &self.0.ledger, view))
    }

    fn report(&self, subject: &Subject, outcomes: &[Outcome], view: &dyn View) -> Vec<Step> {
        Front {
            stage: self.0,
            rules: self.1.clone(),
        }
        .report(subject, outcomes, view)
    }
}

impl Stage {
    #[track_caller]
    fn leave(&self, name: &str) {
        let front = Outside(self, self.rules(C, name));
        self.hands.pass_of(&front);
        let (_, sent) = self.hands.pass_of(&front);
        assert!(sent.is_empty(), "{sent:?}");
    }
}

#[test]
fn outside_the_filter_all_stays_but_originals_that_are_deleted_and_entries_that_are_removed() {
    // The Secret has the name of the object, so that their states meet.
    let named = |name: &str| {
        let mut stage = Stage::new(json!([
            entry("up", "kcp", by_path("spec.up")),
            entry("down", "service", by_path("spec.down")),
        ]));
        stage.put(&stage.secret("kcp", C, "default", name), "x");
        stage.put(&stage.secret("service", "", C, "d"), "x");
        stage.create(C, "a", json!({"up": name, "down": "d"}));
        stage.rest(C, "a");
        stage.restarted(json!({"related": [
            entry("up", "kcp", by_path("spec.up")),
            entry("down", "service", by_path("spec.down")),
        ]}));
        stage
    };
    for name in ["a", "u"] {
        let mut stage = named(name);
        let original = stage.secret("kcp", C, "default", name);
        let copy = stage.secret("service", "", C, name);
        let before = stage.hands.objects();
        stage.leave("a");
        assert_eq!(stage.hands.objects(), before);
        stage.hands.delete(&original);
        stage.leave("a");
        assert!(stage.hands.object(&original).is_none());
        assert!(stage.hands.object(&copy).is_none());
        assert_eq!(stage.remembered(), 1);
        stage.restarted(json!({}));
        stage.leave("a");
        assert!(
            stage
                .value(&stage.secret("kcp", C, "default", "d"))
                .is_none()
        );
        assert_eq!(stage.remembered(), 0);
        // What is known of the object itself is known still.
        stage.restarted(json!({"related": up()}));
        let (words, _) = stage.pass(C, "a");
        assert!(
            words.iter().all(|word| !word.ends_with(" Thing")),
            "{words:?}"
        );
    }
}
