//! Originals and objects that are out of sight without having been seen to end.

use parking_lot::Mutex;

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
fn an_original_that_nobody_can_hide_leaves_no_state_when_it_is_not_there() {
    let shown = json!({"metadata": {"name": "api"}, "spec": {"permissionClaims": [
        {"resource": "secrets", "all": true, "state": "Accepted"}]},
        "status": {"appliedPermissionClaims": [{"resource": "secrets", "all": true}]}});
    let hiding = json!({"metadata": {"name": "api"}, "spec": {"permissionClaims": [
        {"resource": "secrets", "state": "Accepted"}]}});
    let mut leaving = shown.clone();
    leaving["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
    let scope = Scope::new(&Sides::default().kcp, &binding_kind(), C);
    let binding = scope.key(None, "api");
    for (before, shown_before) in [(&hiding, false), (&leaving, false), (&shown, true)] {
        let (mut stage, original, _) = carried(up(), json!({"up": "u"}));
        let bind = |stage: &Stage, binds: &Value| {
            let binds = Object::new(binds.clone()).unwrap();
            stage.hands.put(&binding, &binds);
        };
        bind(&stage, before);
        // Whether it ended or is hidden is known by the binding alone.
        stage.hands.hide(&original);
        stage.hands.delete(&stage.anchor(C, "a"));
        stage.rest(C, "a");
        assert!(stage.hands.object(&stage.anchor(C, "a")).is_none());
        assert_eq!(stage.remembered(), usize::from(!shown_before));
        // A state that was left is looked at again, and goes once that is told.
        bind(&stage, &shown);
        stage.restarted(json!({"related": up()}));
        stage.rest(C, "a");
        assert_eq!(stage.remembered(), 0);
        let all = stage.hands.objects();
        assert!(all.values().all(|o| o.label(marks::OBJECT_STATE).is_none()));
    }
}

#[test]
fn a_copy_whose_original_ends_while_it_is_hidden_goes_when_it_shows() {
    let down = || json!([entry("down", "service", by_path("spec.down"))]);
    let bind = |stage: &Stage, claim: Value| {
        let binds = json!({"metadata": {"name": "api"}, "spec": {"permissionClaims": [claim]},
            "status": {"appliedPermissionClaims": [{"resource": "secrets", "all": true}]}});
        let scope = Scope::new(&Sides::default().kcp, &binding_kind(), C);
        stage
            .hands
            .put(&scope.key(None, "api"), &Object::new(binds).unwrap());
    };
    let selecting = || json!({"resource": "secrets", "state": "Accepted"});
    for shows in [true, false] {
        let mut stage = Stage::new(down());
        bind(&stage, selecting());
        let original = stage.secret("service", "", C, "d");
        let copy = stage.secret("kcp", C, "default", "d");
        stage.put(&original, "x");
        stage.create(C, "a", json!({"down": "d"}));
        stage.rest(C, "a");
        let hidden = stage.hands.hide(&copy).unwrap();
        stage.hands.delete(&original);
        stage.rest(C, "a");
        assert_eq!(stage.remembered(), 1);
        stage.restarted(json!({"related": down()}));
        stage.rest(C, "a");
        if shows {
            stage.hands.put(&copy, &hidden);
        } else {
            // Nothing can be hidden any more: it was deleted.
            let all = json!({"resource": "secrets", "all": true, "state": "Accepted"});
            bind(&stage, all);
        }
        stage.rest(C, "a");
        assert!(stage.value(&copy).is_none());
        assert_eq!(stage.remembered(), 0);
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
        let other = ClaimOwner {
            memory: "other".into(),
            cluster: "c2".into(),
        };
        stage.ledger.foreign_owner(&other, key).is_none()
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
        Ok(unwanted(subject, &self.1, self.0.around(), view))
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

/// One whose pass has begun before another one's: its first round is decided, and has not been written.
struct Begun<'a> {
    this: Outside<'a>,
    other: Option<&'a Self>,
    decided: Mutex<Option<Subject>>,
}

impl Dialect for Begun<'_> {
    fn subject(&self, view: &dyn View) -> Result<Subject, Vec<Request>> {
        if let Some(other) = self.other {
            let mut decided = other.decided.lock();
            if decided.is_none() {
                *decided = Some(other.this.subject(view)?);
            }
        } else if let Some(decided) = self.decided.lock().take() {
            return Ok(decided);
        }
        self.this.subject(view)
    }

    fn report(&self, subject: &Subject, outcomes: &[Outcome], view: &dyn View) -> Vec<Step> {
        self.this.report(subject, outcomes, view)
    }
}

#[test]
fn of_two_objects_outside_the_filter_that_give_up_a_copy_at_once_the_last_one_deletes_it() {
    let mut stage = Stage::new(up());
    let original = stage.secret("kcp", C, "default", "u");
    let copy = stage.secret("service", "", C, "u");
    stage.put(&original, "x");
    for name in ["a", "b"] {
        stage.create(C, name, json!({"up": "u"}));
        stage.rest(C, name);
    }
    stage.restarted(json!({}));
    stage.claim_recorded(C, &["a", "b"]);
    let begun = |name, other| Begun {
        this: Outside(&stage, stage.rules(C, name)),
        other,
        decided: Mutex::default(),
    };
    let first = begun("a", None);
    stage.hands.pass_of(&begun("b", Some(&first)));
    stage.hands.pass_of(&first);
    assert!(stage.hands.object(&copy).is_none());
    assert_eq!(
        stage.hands.object(&original).unwrap().finalizers().count(),
        0
    );
    assert_eq!(stage.remembered(), 0);
}

/// An object with a copy in its workspace that a claim's selector does not cover any more, after the provider
/// changed what it was given.
fn concealed(adopted: bool) -> (Stage, Key, Key) {
    let stage = Stage::new(json!([entry("down", "service", by_path("spec.down"))]));
    let original = stage.secret("service", "", C, "d");
    let copy = stage.secret("kcp", C, "default", "d");
    stage.put(&original, "x");
    let more = json!({"data": {"old": "x"}});
    stage.hands.patch(&original, more.clone());
    if adopted {
        stage.put(&copy, "x");
        stage.hands.patch(&copy, more);
    }
    stage.create(C, "a", json!({"down": "d"}));
    assert_eq!(stage.rest(C, "a"), [Code::InStep]);
    stage.hands.conceal(&copy);
    stage.pass(C, "a");
    stage
        .hands
        .patch(&original, json!({"data": {"k": "y", "old": null}}));
    stage.pass(C, "a");
    stage.hands.patch(&original, json!({"data": {"new": "y"}}));
    let (_, codes) = stage.pass(C, "a");
    assert!(!codes.contains(&Code::InStep), "{codes:?}");
    (stage, original, copy)
}

fn uid(stage: &Stage, key: &Key) -> Option<String> {
    let object = stage.hands.object(key)?;
    object.uid().map(str::to_owned)
}

#[test]
fn a_copy_that_leaves_a_claim_and_comes_back_gets_what_changed_meanwhile() {
    for (adopted, restarted) in [(false, false), (false, true), (true, false), (true, true)] {
        let (mut stage, original, copy) = concealed(adopted);
        if restarted {
            stage.restarted(json!({"related": [entry("down", "service", by_path("spec.down"))]}));
        }
        stage.hands.reveal(&copy);
        let before = uid(&stage, &copy);
        assert_eq!(stage.rest(C, "a"), [Code::InStep]);
        let data = |key: &Key| stage.hands.object(key).unwrap().as_value()["data"].clone();
        assert_eq!(data(&copy), data(&original));
        assert_eq!(uid(&stage, &copy), before);
        stage.hands.delete(&original);
        stage.rest(C, "a");
        assert_eq!(uid(&stage, &copy), before.filter(|_| adopted));
    }
}

#[test]
fn a_copy_that_is_deleted_out_of_sight_is_made_anew() {
    let (stage, original, copy) = concealed(false);
    stage.hands.delete_concealed(&copy);
    assert_eq!(stage.rest(C, "a"), [Code::InStep]);
    assert_eq!(stage.value(&copy).as_deref(), Some("y"));
    stage.hands.delete(&original);
    stage.rest(C, "a");
    assert!(stage.hands.object(&copy).is_none());
}

#[test]
fn what_a_consumer_puts_in_the_place_of_a_concealed_copy_is_left_alone() {
    let (stage, original, copy) = concealed(false);
    stage.hands.delete_concealed(&copy);
    stage.put(&copy, "mine");
    assert_eq!(stage.rest(C, "a"), [Code::AdoptionRefused]);
    stage.hands.delete(&original);
    stage.rest(C, "a");
    assert_eq!(stage.value(&copy).as_deref(), Some("mine"));
}

/// The copy is gone, and its equal is somebody else's: no other object of the workspace has it for a copy.
#[test]
fn what_the_provider_makes_in_the_place_of_a_copy_stays_when_the_original_goes() {
    let stage = Stage::new(json!([entry("up", "kcp", by_path("spec.up"))]));
    let original = stage.secret("kcp", C, "default", "s");
    let copy = stage.secret("service", "", C, "s");
    stage.put(&original, "v");
    stage.create(C, "a", json!({"up": "s"}));
    assert_eq!(stage.rest(C, "a"), [Code::InStep]);
    stage.hands.delete(&copy);
    stage.put(&copy, "v");
    let theirs = uid(&stage, &copy);
    assert_eq!(stage.rest(C, "a"), [Code::InStep]);
    stage.hands.delete(&original);
    stage.rest(C, "a");
    assert_eq!(uid(&stage, &copy), theirs);
    assert!(stage.hands.object(&original).is_none());
}

#[test]
fn a_copy_that_a_killed_process_made_anew_is_known_by_its_content() {
    let (mut stage, original, copy) = concealed(false);
    stage.hands.delete_concealed(&copy);
    let made = stage.hands.object(&original).unwrap();
    let mut anew = Object::clone(&made);
    anew.metadata_mut().remove("uid");
    anew.metadata_mut()
        .insert("namespace".into(), "default".into());
    stage.hands.put(&copy, &anew);
    stage.restarted(json!({"related": [entry("down", "service", by_path("spec.down"))]}));
    stage.hands.patch(&original, json!({"data": {"k": "z"}}));
    assert_eq!(stage.rest(C, "a"), [Code::InStep]);
    assert_eq!(stage.value(&copy).as_deref(), Some("z"));
    stage.hands.delete(&original);
    stage.rest(C, "a");
    assert!(stage.hands.object(&copy).is_none());
}
