//! How related objects come, change and go.

use super::*;

const C: &str = "c1";

/// Three Secrets either way, of one list each.
fn both_ways() -> Value {
    json!([
        entry("up", "kcp", by_path("spec.up")),
        entry("down", "service", by_path("spec.down")),
    ])
}

#[test]
fn three_secrets_either_way_of_a_new_object_take_sixteen_requests() {
    let stage = Stage::new(both_ways());
    let up = |n: usize| stage.secret("kcp", C, "default", &format!("up{n}"));
    let down = |n: usize| stage.secret("service", "", C, &format!("down{n}"));
    for n in 0..3 {
        stage.put(&up(n), &format!("u{n}"));
        stage.put(&down(n), &format!("d{n}"));
    }
    let home = up(0).namespace_key().unwrap();
    stage
        .hands
        .put(&home, &Object::empty(&home.kind, None, &home.name));
    let spec = json!({"up": ["up0", "up1", "up2"], "down": ["down0", "down1", "down2"]});
    stage.create(C, "a", spec);
    let (words, codes) = stage.pass(C, "a");
    assert!(words.len() <= 16, "{words:#?}");
    assert_eq!(codes, [Code::InStep; 6]);
    for n in 0..3 {
        let made = stage.secret("service", "", C, &format!("up{n}"));
        assert_eq!(stage.value(&made), Some(format!("u{n}")));
        let copy = stage.hands.object(&made).unwrap();
        assert_eq!(copy.labels().count() + copy.annotations().count(), 0);
        assert_eq!(copy.finalizers().count(), 0);
        assert!(
            stage
                .hands
                .object(&up(n))
                .unwrap()
                .has_finalizer(marks::FINALIZER)
        );
        let made = stage.secret("kcp", C, "default", &format!("down{n}"));
        assert_eq!(stage.value(&made), Some(format!("d{n}")));
        assert_eq!(
            stage.hands.object(&down(n)).unwrap().finalizers().count(),
            0
        );
    }
    let told = stage.annotations(C, "a");
    let want = |n: usize| {
        (
            format!("down.{n}"),
            format!(
                r#"{{"namespace":"default","name":"down{n}","apiVersion":"v1","kind":"Secret"}}"#
            ),
        )
    };
    assert_eq!(told, [want(0), want(1), want(2)]);
    assert_eq!(stage.pass(C, "a").0, [""; 0]);
}

#[test]
fn what_comes_later_changes_or_goes_is_followed() {
    let stage = Stage::new(both_ways());
    stage.create(C, "a", json!({"up": "u", "down": "d"}));
    stage.rest(C, "a");
    let (up, down) = (
        stage.secret("kcp", C, "default", "u"),
        stage.secret("service", "", C, "d"),
    );
    let (sent, given) = (
        stage.secret("service", "", C, "u"),
        stage.secret("kcp", C, "default", "d"),
    );
    for value in ["1", "2"] {
        stage.put(&down, value);
        match stage.hands.object(&up) {
            None => stage.put(&up, value),
            Some(_) => {
                stage.hands.patch(&up, json!({"data": {"k": value}}));
            }
        }
        stage.rest(C, "a");
        for copy in [&sent, &given] {
            assert_eq!(stage.value(copy).as_deref(), Some(value));
        }
    }
    stage.hands.delete(&up);
    stage.hands.delete(&down);
    stage.rest(C, "a");
    for key in [&up, &down, &sent, &given] {
        assert!(stage.hands.object(key).is_none(), "{key}");
    }
    assert_eq!(stage.annotations(C, "a"), []);
    assert_eq!(stage.remembered(), 0);
}

#[test]
fn a_reference_that_leads_elsewhere_takes_back_what_it_led_to() {
    let stage = Stage::new(both_ways());
    for name in ["1", "2"] {
        stage.put(&stage.secret("kcp", C, "default", &format!("u{name}")), "x");
        stage.put(&stage.secret("service", "", C, &format!("d{name}")), "x");
    }
    stage.create(C, "a", json!({"up": "u1", "down": "d1"}));
    stage.rest(C, "a");
    stage.set(C, "a", json!({"up": "u2", "down": "d2"}));
    stage.rest(C, "a");
    let gone = [
        stage.secret("service", "", C, "u1"),
        stage.secret("kcp", C, "default", "d1"),
    ];
    for key in gone {
        assert!(stage.hands.object(&key).is_none(), "{key}");
    }
    let old = stage
        .hands
        .object(&stage.secret("kcp", C, "default", "u1"))
        .unwrap();
    assert_eq!(old.finalizers().count(), 0);
    assert!(stage.value(&stage.secret("service", "", C, "u2")).is_some());
    assert!(
        stage
            .value(&stage.secret("kcp", C, "default", "d2"))
            .is_some()
    );
    assert_eq!(stage.annotations(C, "a").len(), 1);
    assert_eq!(stage.remembered(), 2);
}

#[test]
fn an_entry_that_was_removed_while_nobody_ran_leaves_nothing() {
    let mut stage = Stage::new(both_ways());
    let up = stage.secret("kcp", C, "default", "u");
    stage.put(&up, "x");
    stage.put(&stage.secret("service", "", C, "d"), "x");
    stage.create(C, "a", json!({"up": "u", "down": "d"}));
    stage.rest(C, "a");
    stage.restarted(json!({}));
    stage.rest(C, "a");
    assert!(
        stage
            .hands
            .object(&stage.secret("service", "", C, "u"))
            .is_none()
    );
    assert!(
        stage
            .hands
            .object(&stage.secret("kcp", C, "default", "d"))
            .is_none()
    );
    assert_eq!(stage.hands.object(&up).unwrap().finalizers().count(), 0);
    assert_eq!(
        (stage.remembered(), stage.annotations(C, "a").len()),
        (0, 0)
    );
}

#[test]
fn a_renamed_entry_keeps_its_copies() {
    let mut stage = Stage::new(both_ways());
    let up = stage.secret("kcp", C, "default", "u");
    stage.put(&up, "x");
    stage.create(C, "a", json!({"up": "u"}));
    stage.rest(C, "a");
    let copy = stage.secret("service", "", C, "u");
    let before = stage.hands.object(&copy).unwrap();
    stage.restarted(json!({"related": [entry("renamed", "kcp", by_path("spec.up"))]}));
    stage.rest(C, "a");
    assert_eq!(stage.hands.object(&copy).unwrap().uid(), before.uid());
    assert!(
        stage
            .hands
            .object(&up)
            .unwrap()
            .has_finalizer(marks::FINALIZER)
    );
    assert_eq!(stage.remembered(), 1);
}

#[test]
fn with_the_object_go_the_copies_that_are_to_go() {
    #[track_caller]
    fn check(cleanup: bool, local_first: bool) {
        let mut entries = both_ways();
        entries[1]["cleanup"] = cleanup.into();
        let stage = Stage::new(entries);
        let up = stage.secret("kcp", C, "default", "u");
        stage.put(&up, "x");
        stage.put(&stage.secret("service", "", C, "d"), "x");
        stage.create(C, "a", json!({"up": "u", "down": "d"}));
        stage.rest(C, "a");
        stage.hands.delete(&stage.anchor(C, "a"));
        if local_first {
            let all = stage.hands.objects();
            let copy = all.keys().find(|key| key.kind.kind == "Thing").unwrap();
            stage.hands.delete(copy);
        }
        stage.rest(C, "a");
        assert!(stage.hands.object(&stage.anchor(C, "a")).is_none());
        assert!(
            stage
                .hands
                .object(&stage.secret("service", "", C, "u"))
                .is_none()
        );
        assert_eq!(stage.hands.object(&up).unwrap().finalizers().count(), 0);
        assert!(stage.value(&stage.secret("service", "", C, "d")).is_some());
        let given = stage.value(&stage.secret("kcp", C, "default", "d"));
        assert_eq!(given.is_none(), cleanup, "local first: {local_first}");
        assert_eq!(stage.remembered(), usize::from(!cleanup));
    }
    for cleanup in [false, true] {
        for local_first in [false, true] {
            check(cleanup, local_first);
        }
    }
}

/// A pass whose related links end with a reason that a server or another writer causes.
struct EndsWith<'a>(Front<'a>, Code);

impl Dialect for EndsWith<'_> {
    fn subject(&self, view: &dyn View) -> Result<Subject, Vec<Request>> {
        self.0.subject(view)
    }

    fn report(&self, subject: &Subject, outcomes: &[Outcome], view: &dyn View) -> Vec<Step> {
        let mut outcomes = outcomes.to_vec();
        for outcome in &mut outcomes {
            if *outcome.link.0 != *PRIMARY {
                outcome.reason = self.1.into();
            }
        }
        self.0.report(subject, &outcomes, view)
    }
}

#[test]
fn a_copy_that_another_writer_changes_is_still_told_to_the_consumer() {
    let stage = Stage::new(both_ways());
    stage.put(&stage.secret("kcp", C, "default", "u"), "x");
    stage.put(&stage.secret("service", "", C, "d"), "x");
    stage.create(C, "a", json!({"up": "u", "down": "d"}));
    stage.rest(C, "a");
    let told = stage.annotations(C, "a");
    for (code, stays) in [
        (Code::StoredOtherwise, true),
        (Code::Contested, true),
        (Code::AdoptionRefused, false),
    ] {
        let rules = stage.rules(C, "a");
        let front = Front {
            stage: &stage,
            rules,
        };
        stage.hands.pass_of(&EndsWith(front, code));
        assert_eq!(stage.annotations(C, "a") == told, stays, "{code:?}");
    }
}

#[test]
fn what_travels_with_an_object_stays_while_that_or_its_copy_is_too_deep() {
    for kind in ["RemoteThing", "Thing"] {
        let mut stage = Stage::new(both_ways());
        let up = stage.secret("kcp", C, "default", "u");
        stage.put(&up, "x");
        stage.put(&stage.secret("service", "", C, "d"), "x");
        stage.create(C, "a", json!({"up": "u", "down": "d"}));
        stage.rest(C, "a");
        let told = stage.annotations(C, "a");
        let all = stage.hands.objects();
        let deep = all.keys().find(|key| key.kind.kind == kind).unwrap();
        let fragment = |stage: &Stage, patch: Value| {
            let mut value = stage.hands.object(deep).unwrap().as_value().clone();
            kube_lang::object::merge_patch::apply(&mut value, &patch);
            stage.hands.put(deep, &Object::fragment(value).unwrap());
        };
        let less = json!({"spec": null, "status": null});
        fragment(&stage, less.clone());
        for _ in 0..2 {
            assert_eq!(stage.pass(C, "a").0, [""; 0], "{kind}");
            assert_eq!(stage.annotations(C, "a"), told, "{kind}");
            // The same, without what another pass knew.
            stage.restarted(json!({ "related": both_ways() }));
        }
        // Everything goes with it all the same.
        stage.hands.delete(&stage.anchor(C, "a"));
        fragment(&stage, less);
        for _ in 0..6 {
            stage.pass(C, "a");
        }
        assert!(
            stage.hands.object(&stage.anchor(C, "a")).is_none(),
            "{kind}"
        );
        let sent = stage.secret("service", "", C, "u");
        assert!(stage.hands.object(&sent).is_none(), "{kind}");
        assert_eq!(stage.hands.object(&up).unwrap().finalizers().count(), 0);
    }
}

#[test]
fn related_copies_go_before_the_copy_of_the_object() {
    let stage = Stage::new(both_ways());
    stage.put(&stage.secret("kcp", C, "default", "u"), "x");
    stage.create(C, "a", json!({"up": "u"}));
    stage.rest(C, "a");
    stage.hands.delete(&stage.anchor(C, "a"));
    let (words, _) = stage.pass(C, "a");
    let at = |word: &str| words.iter().position(|w| w == word).expect(word);
    let last = words
        .iter()
        .rposition(|w| w == "patch RemoteThing")
        .unwrap();
    assert!(at("delete Secret") < at("patch Secret"), "{words:?}");
    assert!(at("patch Secret") < at("delete Thing"), "{words:?}");
    assert!(at("delete Thing") < last, "{words:?}");
}

#[test]
fn what_several_objects_share_goes_with_the_last_of_them() {
    for restart in [false, true] {
        let mut stage = Stage::new(both_ways());
        let up = stage.secret("kcp", C, "default", "u");
        let copy = stage.secret("service", "", C, "u");
        stage.put(&up, "x");
        for name in ["a", "b"] {
            stage.create(C, name, json!({"up": "u"}));
            stage.rest(C, name);
        }
        if restart {
            stage.restarted(json!({"related": both_ways()}));
            stage.claim_recorded(C, &["a", "b"]);
        }
        stage.hands.delete(&stage.anchor(C, "a"));
        stage.rest(C, "a");
        assert!(stage.hands.object(&stage.anchor(C, "a")).is_none());
        assert!(stage.hands.object(&copy).is_some());
        assert!(
            stage
                .hands
                .object(&up)
                .unwrap()
                .has_finalizer(marks::FINALIZER)
        );
        stage.hands.delete(&stage.anchor(C, "b"));
        stage.rest(C, "b");
        assert!(stage.hands.object(&copy).is_none());
        assert_eq!(stage.hands.object(&up).unwrap().finalizers().count(), 0);
    }
}

impl Stage {
    /// What a process hears of memories when it starts.
    pub(super) fn claim_recorded(&self, cluster: &str, names: &[&str]) {
        for name in names {
            let rules = self.rules(cluster, name);
            let place = subject_of(rules.clone()).memory.unwrap();
            let stored = self.hands.object(&place.key).unwrap();
            let memory = place.codec.read(&stored, &[]);
            let by = ClaimOwner {
                memory: Arc::clone(&place.key.name),
                cluster: cluster.into(),
            };
            let records = memory.entries.iter().map(|(id, entry)| (id, &entry.copy));
            let (claims, made) = recorded_claims(records, rules.sides(), rules.remote());
            self.ledger.remembered(&by, claims, made);
        }
    }
}

#[test]
fn what_a_consumer_changes_on_what_it_was_given_is_put_back() {
    let stage = Stage::new(both_ways());
    stage.put(&stage.secret("service", "", C, "d"), "x");
    stage.create(C, "a", json!({"down": "d"}));
    stage.rest(C, "a");
    let given = stage.secret("kcp", C, "default", "d");
    stage
        .hands
        .patch(&given, json!({"data": {"k": "mine", "own": "y"}}));
    stage.rest(C, "a");
    assert_eq!(stage.value(&given).as_deref(), Some("x"));
    let own = stage.hands.object(&given).unwrap().as_value()["data"]["own"].clone();
    assert_eq!(own, "y");
    stage.hands.delete(&given);
    stage.rest(C, "a");
    assert_eq!(stage.value(&given).as_deref(), Some("x"));
}

#[test]
fn what_stands_in_the_place_of_a_copy_is_taken_over_only_if_it_is_equal() {
    #[track_caller]
    fn check(origin: &str, found: &str, adopt: bool, want: Code) {
        let mut entries = json!([entry("e", origin, by_path("spec.e"))]);
        entries[0]["adopt"] = adopt.into();
        let stage = Stage::new(entries);
        let mut places = [
            stage.secret("kcp", C, "default", "e"),
            stage.secret("service", "", C, "e"),
        ];
        if origin == "service" {
            places.reverse();
        }
        let [source, target] = &places;
        stage.put(source, "x");
        stage.put(target, found);
        stage.create(C, "a", json!({"e": "e"}));
        let codes = stage.rest(C, "a");
        assert_eq!(codes, [want], "{origin} {found} {adopt}");
        let now = stage.value(target).unwrap();
        assert_eq!(now == "x", want == Code::InStep || found == "x");
        stage.hands.delete(&stage.anchor(C, "a"));
        stage.rest(C, "a");
        // Whatever became of it, it was not made here.
        assert!(stage.value(target).is_some());
    }
    for origin in ["kcp", "service"] {
        check(origin, "x", false, Code::InStep);
        check(origin, "other", false, Code::AdoptionRefused);
        check(origin, "other", true, Code::InStep);
    }
}

/// Lays down a Secret with these fields, as a new object.
fn put_with(stage: &Stage, key: &Key, fields: Value) {
    let mut object = json!({"apiVersion": "v1", "kind": "Secret", "type": "Opaque",
        "metadata": {"name": &*key.name, "namespace": key.namespace.as_deref()}});
    for (field, value) in fields.as_object().unwrap() {
        object[field] = value.clone();
    }
    stage.hands.put(key, &Object::new(object).unwrap());
}

fn fields_of(stage: &Stage, key: &Key) -> Value {
    let object = stage.hands.object(key).unwrap();
    json!({"type": object.as_value()["type"], "data": object.as_value()["data"],
        "immutable": object.as_value()["immutable"]})
}

#[test]
fn an_original_that_is_made_anew_with_what_never_changes_gets_a_new_copy() {
    let sealed = |value: &str| json!({"immutable": true, "data": {"k": value}});
    let typed = |kind: &str, value: &str| json!({"type": kind, "data": {"k": value}});
    for origin in ["kcp", "service"] {
        for (before, after) in [
            (sealed("old"), sealed("new")),
            (sealed("old"), json!({"data": {"k": "old"}})),
            (sealed("old"), json!({"data": {"other": "new"}})),
            (typed("Opaque", "v"), typed("example.com/mine", "v")),
        ] {
            let stage = Stage::new(json!([entry("e", origin, by_path("spec.e"))]));
            let mut places = [
                stage.secret("kcp", C, "default", "e"),
                stage.secret("service", "", C, "e"),
            ];
            if origin == "service" {
                places.reverse();
            }
            let [source, target] = &places;
            put_with(&stage, source, before);
            stage.create(C, "a", json!({"e": "e"}));
            stage.create(C, "b", json!({"e": "e"}));
            for name in ["a", "b"] {
                assert_eq!(stage.rest(C, name), [Code::InStep]);
            }
            let first = stage.hands.object(target).unwrap();
            put_with(&stage, source, after);
            let (mut words, _) = stage.pass(C, "a");
            words.retain(|word| !word.starts_with("get ") && word != "patch Secret");
            let anew = ["delete Secret", "update Secret", "create Secret"];
            assert_eq!(words[..3], anew, "{words:?}");
            for name in ["a", "b", "a"] {
                assert_eq!(stage.rest(C, name), [Code::InStep]);
            }
            assert_eq!(fields_of(&stage, target), fields_of(&stage, source));
            assert_ne!(stage.hands.object(target).unwrap().uid(), first.uid());
            stage.set(C, "a", json!({"e": null}));
            stage.set(C, "b", json!({"e": null}));
            for name in ["a", "b", "a"] {
                stage.rest(C, name);
            }
            assert_eq!(stage.hands.object(target), None, "it was made here");
        }
    }
}

#[test]
fn what_was_there_before_is_not_deleted_to_be_made_anew() {
    let stage = Stage::new(json!([entry("e", "kcp", by_path("spec.e"))]));
    let source = stage.secret("kcp", C, "default", "e");
    let target = stage.secret("service", "", C, "e");
    let sealed = |value: &str| json!({"immutable": true, "data": {"k": value}});
    put_with(&stage, &target, sealed("x"));
    put_with(&stage, &source, sealed("x"));
    stage.create(C, "a", json!({"e": "e"}));
    assert_eq!(stage.rest(C, "a"), [Code::InStep]);
    let there = stage.hands.object(&target).unwrap();
    put_with(&stage, &source, sealed("y"));
    stage.pass(C, "a");
    stage.pass(C, "a");
    let now = stage.hands.object(&target).unwrap();
    assert_eq!(now.uid(), there.uid());
}

#[test]
fn what_a_seal_leaves_open_is_changed_as_ever() {
    let stage = Stage::new(json!([entry("e", "kcp", by_path("spec.e"))]));
    let source = stage.secret("kcp", C, "default", "e");
    let target = stage.secret("service", "", C, "e");
    put_with(&stage, &source, json!({"data": {"k": "x"}}));
    stage.create(C, "a", json!({"e": "e"}));
    stage.rest(C, "a");
    let first = stage.hands.object(&target).unwrap();
    for patch in [
        json!({"data": {"k": "y"}}),
        json!({"immutable": true}),
        json!({"metadata": {"labels": {"mine": "1"}}}),
    ] {
        stage.hands.patch(&source, patch);
        assert_eq!(stage.rest(C, "a"), [Code::InStep]);
    }
    let now = stage.hands.object(&target).unwrap();
    assert_eq!((now.uid(), now.label("mine")), (first.uid(), Some("1")));
    assert_eq!(fields_of(&stage, &target), fields_of(&stage, &source));
}

#[test]
fn a_new_original_with_a_status_is_left_alone_until_it_is_quiet() {
    let gadgets = TypeName {
        group: "g.io".into(),
        version: "v1".into(),
        resource: "gadgets".into(),
    };
    let mut stage = Stage::new(json!([{
        "identifier": "g", "origin": "kcp", "group": "g.io", "version": "v1", "resource": "gadgets",
        "syncStatus": true, "object": by_path("spec.g"),
    }]));
    let kind = Arc::new(Gvk::new("g.io", "v1", "Gadget"));
    for side in [Origin::Kcp, Origin::Service] {
        let known = RelatedKind {
            kind: Arc::clone(&kind),
            namespaced: true,
            status: true,
        };
        stage.kinds.learn(side, gadgets.clone(), known);
    }
    let source = Scope::new(&Sides::default().kcp, &kind, C).key(Some("default"), "g");
    let copy = Scope::new(&Sides::default().service, &kind, "").key(Some(C), "g");
    stage.put(&source, "x");
    stage.hands.patch(&source, json!({"status": {"ok": 1}}));
    stage.create(C, "a", json!({"g": "g"}));
    stage.quiet = false;
    assert_eq!(stage.rest(C, "a"), [Code::SourceNotQuiet]);
    assert_eq!(stage.hands.object(&source).unwrap().finalizers().count(), 0);
    stage.quiet = true;
    let (_, codes) = stage.pass(C, "a");
    assert_eq!(codes, [Code::InStep]);
    // The status came with the pass that made the copy.
    assert_eq!(
        stage.hands.object(&copy).unwrap().as_value()["status"],
        json!({"ok": 1})
    );
    assert_eq!(stage.pass(C, "a").0, [""; 0]);
}

#[test]
fn an_object_without_related_ones_asks_nothing_more() {
    let stage = Stage::new(json!([]));
    stage.create(C, "a", json!({}));
    let (words, codes) = stage.pass(C, "a");
    assert_eq!((words.len(), codes.len()), (4, 0));
}

fn with_own_finalizer(own: bool) -> Value {
    let mut spec = json!({"related": [entry("e", "kcp", by_path("spec.e"))]});
    if own {
        spec["safety"] = json!({"relatedFinalizer": "Own"});
    }
    spec
}

#[test]
fn originals_are_held_by_the_finalizer_that_the_owner_chose() {
    let own = marks::own_finalizer("agent");
    let finalizers = |stage: &Stage| -> Vec<String> {
        let source = stage.hands.object(&stage.secret("kcp", C, "default", "e"));
        let source = source.unwrap();
        source.finalizers().map(str::to_owned).collect()
    };
    let mut stage = Stage::of(with_own_finalizer(true));
    stage.put(&stage.secret("kcp", C, "default", "e"), "x");
    for name in ["a", "b"] {
        stage.create(C, name, json!({"e": "e"}));
        assert_eq!(stage.rest(C, name), [Code::InStep]);
    }
    assert_eq!(finalizers(&stage), [own.as_str()]);
    // Whoever changes the choice leaves nothing behind of what was before.
    for (choice, now) in [(false, marks::FINALIZER), (true, &own)] {
        stage.restarted(with_own_finalizer(choice));
        stage.claim_recorded(C, &["a", "b"]);
        for name in ["a", "b"] {
            assert_eq!(stage.rest(C, name), [Code::InStep], "{name}");
        }
        assert_eq!(finalizers(&stage), [now]);
        assert_eq!(stage.remembered(), 2);
    }
    for name in ["a", "b"] {
        stage.hands.delete(&stage.anchor(C, name));
        stage.rest(C, name);
    }
    assert_eq!(finalizers(&stage), [""; 0]);
    assert_eq!(stage.remembered(), 0);
}

#[test]
fn anothers_finalizer_stays_where_the_agent_has_its_own() {
    let stage = Stage::of(with_own_finalizer(true));
    let source = stage.secret("kcp", C, "default", "e");
    stage.put(&source, "x");
    stage.hands.patch(
        &source,
        json!({"metadata": {"finalizers": [marks::FINALIZER]}}),
    );
    stage.create(C, "a", json!({"e": "e"}));
    assert_eq!(stage.rest(C, "a"), [Code::InStep]);
    stage.hands.delete(&source);
    stage.rest(C, "a");
    // The copy is gone with its original, which only the other one still holds.
    assert!(
        stage
            .hands
            .object(&stage.secret("service", "", C, "e"))
            .is_none()
    );
    let left = stage.hands.object(&source).unwrap();
    assert_eq!(left.finalizers().collect::<Vec<_>>(), [marks::FINALIZER]);
}
