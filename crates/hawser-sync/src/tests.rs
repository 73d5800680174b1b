//! The engine against the model: budgets, orders, and one test for each property.

use std::collections::HashMap;
use std::sync::Arc;

use serde_json::{Value, json};

use kube_lang::object::Object;

use super::Report;
use super::fingerprint::Fingerprint;
use super::key::{Key, Labels, Scope};
use super::link::{AdoptedOnDelete, Adoption, Claims, Policy, StatusFlow};
use super::look::{PassView, Store};
use super::model::{FINALIZER, Fault, Front, Stage, kcp, svc};
use super::reason::{Class, Code};
use super::request::{Effect, Failure, Request};
use super::settled::Settled;
use super::subject::Intent;
use super::view::{Found, Seen, View as _};

mod drift;
mod processes;
mod webhooks;

fn one() -> (Stage, Front) {
    let front = Front::new("c1", "a");
    (Stage::new(vec![front.clone()]), front)
}

fn with(change: impl FnOnce(&mut Front)) -> (Stage, Front) {
    let mut front = Front::new("c1", "a");
    change(&mut front);
    (Stage::new(vec![front.clone()]), front)
}

/// A stage with one object in step.
fn in_sync(content: &Value) -> (Stage, Front) {
    let (stage, front) = one();
    stage.world.put(&front.source(), content);
    stage.settle();
    (stage, front)
}

#[track_caller]
fn code(stage: &Stage, front: &Front) -> Code {
    stage.cache.deliver(&stage.world, |_| true);
    stage.pass(front).outcomes[0].reason.code
}

#[track_caller]
fn copy(stage: &Stage, front: &Front) -> Value {
    let copy = stage.world.get(&front.copy_key());
    copy.expect("the copy exists").into_value()
}

// === what a pass costs ===

#[test]
fn a_new_object_takes_a_finalizer_patch_a_state_write_and_a_create() {
    let (stage, front) = one();
    stage
        .world
        .put(&front.source(), &json!({"spec": {"size": 1}}));
    assert_eq!(
        stage.writes(&front),
        ["patch Thing", "create State", "create Thing"]
    );
    assert_eq!(copy(&stage, &front)["spec"], json!({"size": 1}));
}

#[test]
fn the_first_object_of_a_namespace_takes_one_request_more() {
    let (stage, front) = one();
    let namespace = svc("", "copies", "").namespace_key().unwrap();
    stage.world.delete(&namespace);
    stage
        .world
        .put(&front.source(), &json!({"spec": {"size": 1}}));
    assert_eq!(
        stage.writes(&front),
        [
            "patch Thing",
            "create Namespace",
            "create State",
            "create Thing"
        ]
    );
}

#[test]
fn an_object_in_step_takes_no_request() {
    let (stage, front) = in_sync(&json!({"spec": {"size": 1}}));
    assert_eq!(stage.writes(&front), [""; 0]);
    assert_eq!(code(&stage, &front), Code::InStep);
}

#[test]
fn a_changed_spec_takes_a_state_write_and_a_patch() {
    let (stage, front) = in_sync(&json!({"spec": {"size": 1}}));
    stage
        .world
        .patch(&front.source(), json!({"spec": {"size": 2}}));
    assert_eq!(stage.writes(&front), ["update State", "patch Thing"]);
    assert_eq!(copy(&stage, &front)["spec"], json!({"size": 2}));
    assert_eq!(stage.writes(&front), [""; 0]);
}

#[test]
fn a_changed_status_takes_one_request() {
    let (stage, front) = in_sync(&json!({"spec": {"size": 1}}));
    stage
        .world
        .set_status(&front.copy_key(), json!({"ready": true}));
    assert_eq!(stage.writes(&front), ["update status Thing"]);
    let source = stage.world.get(&front.source()).unwrap();
    assert_eq!(source.as_value()["status"], json!({"ready": true}));
}

#[test]
fn a_deleted_object_takes_a_delete_a_state_delete_and_a_finalizer_patch() {
    let (stage, front) = in_sync(&json!({"spec": {"size": 1}}));
    stage.world.delete(&front.source());
    assert_eq!(
        stage.writes(&front),
        ["delete Thing", "delete State", "patch Thing"]
    );
    assert!(stage.world.get(&front.source()).is_none());
    assert!(stage.leftovers().is_empty());
}

#[test]
fn related_objects_share_one_state_write_a_round_and_one_report() {
    let (stage, front) = with(|front| front.related = true);
    let (out, out_copy) = front.credentials();
    let (config, config_copy) = front.config();
    stage.world.put(&out, &json!({"data": {"k": "out"}}));
    stage.world.put(&config, &json!({"data": {"k": "in"}}));
    stage
        .world
        .put(&front.source(), &json!({"spec": {"size": 1}}));
    let writes = stage.writes(&front);
    let states = writes.iter().filter(|w| w.ends_with("State")).count();
    let reports = writes.iter().filter(|w| *w == "patch Thing").count();
    // The finalizer of the primary and the report; the primary's state, then what is about to be
    // made, then what was made.
    assert_eq!((reports, states), (2, 3), "{writes:?}");
    assert_eq!(
        stage.world.get(&out_copy).unwrap().as_value()["data"],
        json!({"k": "out"})
    );
    assert_eq!(
        stage.world.get(&config_copy).unwrap().as_value()["data"],
        json!({"k": "in"})
    );
    stage.world.patch(&out, json!({"data": {"k": "new"}}));
    assert_eq!(stage.writes(&front), ["update State", "patch Secret"]);
    stage.settle();
}

// === ownership ===

#[test]
fn an_unowned_object_is_adopted_with_its_content_kept() {
    let (stage, front) = one();
    stage.world.put(
        &front.copy_key(),
        &json!({"spec": {"size": 9}, "metadata": {"labels": {"x/own": "1"}}}),
    );
    stage.world.put(
        &front.source(),
        &json!({"spec": {"size": 1, "color": "red"}}),
    );
    stage.settle();
    let kept = copy(&stage, &front);
    assert_eq!(kept["spec"], json!({"size": 9}));
    assert_eq!(kept["metadata"]["annotations"]["t/adopted"], "true");
    assert_eq!(kept["metadata"]["labels"]["x/own"], "1");
    stage
        .world
        .patch(&front.source(), json!({"spec": {"color": "blue"}}));
    stage.settle();
    assert_eq!(
        copy(&stage, &front)["spec"],
        json!({"size": 9, "color": "blue"})
    );
}

#[test]
fn an_unowned_object_is_left_alone_where_adoption_is_off() {
    let (stage, front) = with(|front| front.policy.adoption = Adoption::Never);
    stage
        .world
        .put(&front.copy_key(), &json!({"spec": {"size": 9}}));
    let before = copy(&stage, &front);
    stage
        .world
        .put(&front.source(), &json!({"spec": {"size": 1}}));
    assert_eq!(code(&stage, &front), Code::AdoptionRefused);
    assert_eq!(copy(&stage, &front), before);
    stage.world.delete(&front.source());
    stage.settle();
    assert_eq!(copy(&stage, &front), before);
    assert!(stage.leftovers().is_empty());
}

#[test]
fn an_object_that_belongs_to_another_is_refused_and_outlives_the_refused_source() {
    let (stage, front) = one();
    stage.world.put(
        &front.copy_key(),
        &json!({"metadata": {"annotations": {"foreign": "bob"}}}),
    );
    let before = copy(&stage, &front);
    stage
        .world
        .put(&front.source(), &json!({"spec": {"size": 1}}));
    assert_eq!(code(&stage, &front), Code::NameConflict);
    stage.world.delete(&front.source());
    stage.settle();
    assert_eq!(copy(&stage, &front), before);
    assert!(stage.world.get(&front.source()).is_none());
}

#[test]
fn of_two_sources_with_one_name_the_first_keeps_it_and_the_second_is_told() {
    let colliding = |cluster| {
        let mut front = Front::new(cluster, "a");
        front.copy = "same".into();
        front
    };
    let (first, second) = (colliding("c1"), colliding("c2"));
    let stage = Stage::new(vec![first.clone(), second.clone()]);
    stage
        .world
        .put(&first.source(), &json!({"spec": {"size": 1}}));
    stage.settle();
    stage
        .world
        .put(&second.source(), &json!({"spec": {"size": 2}}));
    stage.settle();
    assert_eq!(code(&stage, &second), Code::NameConflict);
    assert_eq!(code(&stage, &first), Code::InStep);
    assert_eq!(copy(&stage, &first)["spec"], json!({"size": 1}));
    stage.world.delete(&second.source());
    stage.settle();
    assert_eq!(copy(&stage, &first)["spec"], json!({"size": 1}));
    assert_eq!(code(&stage, &first), Code::InStep);
}

#[test]
fn an_adopted_object_is_released_unharmed_where_the_policy_says_so() {
    let (stage, front) = with(|front| front.policy.adopted_on_delete = AdoptedOnDelete::Release);
    stage
        .world
        .put(&front.copy_key(), &json!({"spec": {"size": 9}}));
    stage
        .world
        .put(&front.source(), &json!({"spec": {"size": 1}}));
    stage.settle();
    stage.world.delete(&front.source());
    stage.settle();
    let released = copy(&stage, &front);
    assert_eq!(released["spec"], json!({"size": 9}));
    assert_eq!(released["metadata"].get("labels"), None);
    assert!(stage.leftovers().is_empty());
}

#[test]
fn a_related_target_that_we_did_not_make_is_neither_overwritten_nor_deleted() {
    let (stage, front) = with(|front| front.related = true);
    let (config, target) = front.config();
    stage.world.put(&target, &json!({"data": {"k": "theirs"}}));
    let before = stage.world.get(&target);
    stage.world.put(&config, &json!({"data": {"k": "in"}}));
    stage
        .world
        .put(&front.source(), &json!({"spec": {"size": 1}}));
    let reports = stage.settle();
    let codes: Vec<_> = reports[0].outcomes.iter().map(|o| o.reason.code).collect();
    assert_eq!(codes, [Code::InStep, Code::Gone, Code::AdoptionRefused]);
    stage.world.delete(&front.source());
    stage.settle();
    assert_eq!(stage.world.get(&target), before);
    assert!(stage.leftovers().is_empty());
}

#[test]
fn what_somebody_makes_first_in_the_place_of_a_related_copy_is_theirs() {
    for mine in [json!({}), json!({"data": {"k": "theirs"}})] {
        let (stage, front) = with(|front| front.related = true);
        let (config, target) = front.config();
        stage.world.put(&config, &mine);
        stage
            .world
            .put(&front.source(), &json!({"spec": {"size": 1}}));
        stage.cache.deliver(&stage.world, |_| true);
        // The caches have not heard of it when the copy is made.
        let theirs = json!({"data": {"k": "theirs", "more": "theirs"}});
        stage.world.put(&target, &theirs);
        stage.pass(&front);
        let reports = stage.settle();
        assert_eq!(reports[0].outcomes[2].reason.code, Code::AdoptionRefused);
        stage
            .world
            .patch(&config, json!({"data": {"k": "mine", "more": "mine"}}));
        stage.settle();
        stage.world.delete(&front.source());
        stage.settle();
        let left = stage.world.get(&target).unwrap();
        assert_eq!(left.as_value()["data"], theirs["data"]);
    }
}

/// An object that needs an empty copy of an empty related object, and another empty object in the place of the copy,
/// which the caches have not seen.
fn taken() -> (Stage, Front, Key) {
    let (stage, front) = with(|front| front.related = true);
    let (config, target) = front.config();
    stage.world.put(&config, &json!({}));
    stage
        .world
        .put(&front.source(), &json!({"spec": {"size": 1}}));
    stage.cache.deliver(&stage.world, |_| true);
    stage.world.put(&target, &json!({}));
    (stage, front, target)
}

#[test]
fn an_empty_object_that_somebody_makes_before_an_empty_copy_is_theirs() {
    let (stage, front, target) = taken();
    let theirs = stage.world.get(&target).unwrap();
    stage.pass(&front);
    let reports = stage.settle();
    assert_eq!(reports[0].outcomes[2].reason.code, Code::AdoptionRefused);
    // A process that knows only what is stored does not take it either.
    stage.cache.restart(&stage.world, 0);
    let reports = stage.settle();
    assert_eq!(reports[0].outcomes[2].reason.code, Code::AdoptionRefused);
    let (config, _) = front.config();
    stage.world.patch(&config, json!({"data": {"k": "mine"}}));
    stage.settle();
    stage.world.delete(&front.source());
    stage.settle();
    assert_eq!(stage.world.get(&target), Some(theirs));
    assert!(stage.leftovers().is_empty());
}

#[test]
fn an_empty_copy_is_made_once_its_place_is_free_and_goes_with_its_object() {
    let (stage, front, target) = taken();
    stage.pass(&front);
    stage.settle();
    stage.world.delete(&target);
    let reports = stage.settle();
    assert_eq!(reports[0].outcomes[2].reason.code, Code::InStep);
    stage.world.delete(&front.source());
    stage.settle();
    assert!(stage.world.get(&target).is_none());
    assert!(stage.leftovers().is_empty());
}

#[test]
fn a_place_that_is_taken_ends_well_whichever_request_the_process_was_killed_at() {
    for fault in [Fault::CrashBefore, Fault::CrashAfter] {
        for n in 0..12 {
            let (stage, front, target) = taken();
            let faults = HashMap::from([(stage.world.sent() + n, fault)]);
            stage.world.plan_faults(faults);
            stage.pass(&front);
            stage.world.plan_faults(HashMap::new());
            stage.cache.restart(&stage.world, 0);
            stage.settle();
            stage.world.delete(&front.source());
            stage.settle();
            assert!(stage.world.get(&front.source()).is_none(), "{fault:?} {n}");
            let left = stage.leftovers();
            assert!(left.is_empty(), "{fault:?} {n} {left:?}");
            stage.world.delete(&target);
        }
    }
}

#[test]
fn a_related_copy_is_known_again_where_the_process_was_killed_right_after_making_it() {
    for content in [
        json!({}),
        json!({"data": {"k": "v"}}),
        json!({"metadata": {"labels": {"mine": "1"}}}),
    ] {
        let (stage, front) = with(|front| front.related = true);
        let (config, target) = front.config();
        stage.world.put(&config, &content);
        stage
            .world
            .put(&front.source(), &json!({"spec": {"size": 1}}));
        stage.cache.deliver(&stage.world, |_| true);
        for n in 0.. {
            assert!(n < 20, "the copy is made");
            let fault = HashMap::from([(stage.world.sent() + n, Fault::CrashAfter)]);
            stage.world.plan_faults(fault);
            stage.pass(&front);
            stage.world.plan_faults(HashMap::new());
            let made = stage.world.get(&target).is_some();
            stage.cache.restart(&stage.world, 0);
            if made {
                break;
            }
        }
        let reports = stage.settle();
        assert_eq!(reports[0].outcomes[2].reason.code, Code::InStep);
        stage.world.delete(&front.source());
        stage.settle();
        assert!(stage.world.get(&target).is_none(), "{content}");
    }
}

#[test]
fn a_copy_whose_labels_were_removed_is_marked_again_and_never_orphaned() {
    for deleted in [false, true] {
        let (stage, front) = in_sync(&json!({"spec": {"size": 1}}));
        stage
            .world
            .patch(&front.copy_key(), json!({"metadata": {"labels": null}}));
        if deleted {
            stage.world.delete(&front.source());
            stage.settle();
            assert!(stage.world.get(&front.copy_key()).is_none());
            assert!(stage.leftovers().is_empty());
        } else {
            stage.settle();
            assert_eq!(copy(&stage, &front)["metadata"]["labels"]["t/name"], "a");
        }
    }
}

/// A copy in step, and an object that somebody made with its labels.
fn cloned(changed: bool) -> (Stage, Front, Key) {
    let (stage, front) = in_sync(&json!({"spec": {"size": 1}}));
    if changed {
        // Its uid is remembered from now on, not only its name.
        stage
            .world
            .patch(&front.source(), json!({"spec": {"size": 1, "more": 1}}));
        stage.settle();
    }
    let labels = copy(&stage, &front)["metadata"]["labels"].clone();
    let clone = svc("Thing", "copies", "a-clone");
    stage.world.put(
        &clone,
        &json!({"spec": {"size": 5}, "metadata": {"labels": labels}}),
    );
    (stage, front, clone)
}

#[test]
fn an_object_with_copied_labels_is_ignored_and_deletion_still_ends() {
    for changed in [false, true] {
        let (stage, front, clone) = cloned(changed);
        let before = stage.world.get(&clone);
        stage
            .world
            .patch(&front.source(), json!({"spec": {"size": 2}}));
        stage.settle();
        assert_eq!(copy(&stage, &front)["spec"]["size"], json!(2));
        assert_eq!(stage.world.get(&clone), before);
        stage.world.delete(&front.source());
        stage.settle();
        assert_eq!(stage.world.get(&front.copy_key()), None);
        assert_eq!(stage.world.get(&front.source()), None);
        assert_eq!(stage.world.get(&front.memory()), None);
        assert_eq!(stage.world.get(&clone), before);
    }
}

#[test]
fn clones_are_left_alone_by_a_process_that_finds_the_copy_and_its_record_gone() {
    for changed in [false, true] {
        for n in 0.. {
            let (stage, front, clone) = cloned(changed);
            let before = stage.world.get(&clone);
            stage.world.delete(&front.source());
            let fault = HashMap::from([(stage.world.sent() + n, Fault::CrashAfter)]);
            stage.world.plan_faults(fault);
            stage.settle();
            let crashed = stage.world.get(&front.source()).is_some();
            stage.world.plan_faults(HashMap::new());
            stage.cache.restart(&stage.world, 0);
            stage.settle();
            assert_eq!(stage.world.get(&clone), before, "killed after {n}");
            for key in [front.copy_key(), front.source(), front.memory()] {
                assert_eq!(stage.world.get(&key), None, "killed after {n}");
            }
            if !crashed {
                break;
            }
        }
    }
}

#[test]
fn a_clone_that_outlived_an_object_does_not_become_the_copy_of_the_next_one_of_its_name() {
    for restarted in [false, true] {
        let (stage, front, clone) = cloned(false);
        let before = stage.world.get(&clone);
        stage.world.delete(&front.source());
        stage.settle();
        assert_eq!(stage.world.get(&front.source()), None);
        if restarted {
            stage.cache.restart(&stage.world, 0);
        }
        stage
            .world
            .put(&front.source(), &json!({"spec": {"size": 7}}));
        stage.settle();
        assert_eq!(copy(&stage, &front)["spec"]["size"], json!(7));
        assert_eq!(stage.world.get(&clone), before);
    }
}

#[test]
fn a_copy_that_vanishes_is_made_again_and_its_clone_does_not_become_it() {
    for (changed, restarted) in [(false, false), (false, true), (true, false), (true, true)] {
        let (stage, front, clone) = cloned(changed);
        let before = stage.world.get(&clone);
        stage.settle();
        stage.world.delete(&front.copy_key());
        if restarted {
            stage.cache.restart(&stage.world, 0);
        }
        stage.settle();
        stage
            .world
            .patch(&front.source(), json!({"spec": {"size": 2}}));
        stage.settle();
        assert_eq!(copy(&stage, &front)["spec"]["size"], json!(2));
        assert_eq!(stage.world.get(&clone), before);
    }
}

#[test]
fn a_copy_that_was_restored_under_its_name_is_the_copy() {
    let (stage, front) = in_sync(&json!({"spec": {"size": 1}}));
    let restored = stage.world.get(&front.copy_key()).unwrap().into_value();
    stage.world.delete(&front.copy_key());
    stage.world.put(&front.copy_key(), &restored);
    stage
        .world
        .patch(&front.source(), json!({"spec": {"size": 2}}));
    stage.settle();
    assert_eq!(copy(&stage, &front)["spec"], json!({"size": 2}));
    stage.world.delete(&front.source());
    stage.settle();
    assert!(stage.leftovers().is_empty());
}

// === what is not ours in what is ours ===

#[test]
fn removing_the_last_label_keeps_foreign_labels() {
    let (stage, front) = in_sync(&json!({"metadata": {
        "labels": {"mine": "1"}, "annotations": {"mine": "1"}}}));
    let foreign = json!({"metadata": {"labels": {"x/own": "1"},
        "annotations": {"x/external-name": "n"}, "finalizers": ["x/theirs"]}});
    stage.world.patch(&front.copy_key(), foreign);
    stage.world.patch(
        &front.source(),
        json!({"metadata": {"labels": null, "annotations": null}}),
    );
    stage.settle();
    let metadata = &copy(&stage, &front)["metadata"];
    assert_eq!(metadata["labels"].get("mine"), None);
    assert_eq!(metadata["labels"]["x/own"], "1");
    assert_eq!(metadata["labels"]["t/name"], "a");
    assert_eq!(metadata["annotations"].get("mine"), None);
    assert_eq!(metadata["annotations"]["x/external-name"], "n");
    assert_eq!(metadata["finalizers"], json!(["x/theirs"]));
}

#[test]
fn a_finalizer_that_others_add_meanwhile_is_kept() {
    let (stage, front) = one();
    stage
        .world
        .put(&front.source(), &json!({"spec": {"size": 1}}));
    stage.cache.deliver(&stage.world, |_| true);
    // The cache has not heard of this one when our finalizer is written.
    stage.world.patch(
        &front.source(),
        json!({"metadata": {"finalizers": ["x/theirs"]}}),
    );
    stage.pass(&front);
    stage.settle();
    let source = stage.world.get(&front.source()).unwrap();
    assert!(source.has_finalizer("x/theirs") && source.has_finalizer(FINALIZER));
    stage.world.delete(&front.source());
    stage.settle();
    let source = stage.world.get(&front.source()).unwrap();
    assert!(source.has_finalizer("x/theirs") && !source.has_finalizer(FINALIZER));
}

#[test]
fn local_changes_to_fields_the_source_did_not_change_stay() {
    let (stage, front) = in_sync(&json!({"spec": {"size": 1, "color": "red"}}));
    stage.world.patch(
        &front.copy_key(),
        json!({"spec": {"color": "blue", "extra": 1}}),
    );
    stage
        .world
        .patch(&front.source(), json!({"spec": {"size": 2}}));
    stage.settle();
    let spec = json!({"size": 2, "color": "blue", "extra": 1});
    assert_eq!(copy(&stage, &front)["spec"], spec);
}

#[test]
fn owner_references_and_finalizers_of_the_source_stay_there() {
    let (stage, front) = in_sync(&json!({"metadata": {
        "ownerReferences": [{"uid": "x"}], "finalizers": ["x/theirs"]}}));
    let metadata = &copy(&stage, &front)["metadata"];
    assert_eq!(metadata.get("ownerReferences"), None);
    assert_eq!(metadata.get("finalizers"), None);
}

#[test]
fn large_integers_travel_exactly() {
    let (stage, front) = in_sync(&json!({"spec": {"n": 9_007_199_254_740_993_i64}}));
    stage.world.patch(
        &front.source(),
        json!({"spec": {"n": 9_007_199_254_740_992_i64}}),
    );
    stage.settle();
    assert_eq!(
        copy(&stage, &front)["spec"]["n"],
        json!(9_007_199_254_740_992_i64)
    );
}

// === life and death of the copy ===

#[test]
fn a_copy_deleted_by_the_provider_is_made_again() {
    let (stage, front) = in_sync(&json!({"spec": {"size": 1}}));
    stage.world.delete(&front.copy_key());
    stage.settle();
    assert_eq!(copy(&stage, &front)["spec"], json!({"size": 1}));
}

#[test]
fn a_copy_in_deletion_is_waited_for_and_then_made_again() {
    let (stage, front) = in_sync(&json!({"spec": {"size": 1}}));
    stage.world.patch(
        &front.copy_key(),
        json!({"metadata": {"finalizers": ["x/slow"]}}),
    );
    stage.world.delete(&front.copy_key());
    stage
        .world
        .patch(&front.source(), json!({"spec": {"size": 2}}));
    assert_eq!(code(&stage, &front), Code::WaitingForDeletion);
    stage
        .world
        .patch(&front.copy_key(), json!({"metadata": {"finalizers": null}}));
    stage.settle();
    assert_eq!(copy(&stage, &front)["spec"], json!({"size": 2}));
}

#[test]
fn the_source_is_held_until_the_copy_is_gone() {
    let (stage, front) = in_sync(&json!({"spec": {"size": 1}}));
    stage.world.patch(
        &front.copy_key(),
        json!({"metadata": {"finalizers": ["x/slow"]}}),
    );
    stage.world.delete(&front.source());
    assert_eq!(code(&stage, &front), Code::WaitingForDeletion);
    assert!(
        stage
            .world
            .get(&front.source())
            .unwrap()
            .has_finalizer(FINALIZER)
    );
    stage
        .world
        .patch(&front.copy_key(), json!({"metadata": {"finalizers": null}}));
    stage.settle();
    assert!(stage.leftovers().is_empty());
}

#[test]
fn a_retracted_subject_is_released_alive() {
    let (stage, mut front) = in_sync(&json!({"spec": {"size": 1}}));
    front.intent = Intent::Retract;
    let stage = Stage {
        fronts: vec![front.clone()],
        ..stage
    };
    stage.settle();
    assert!(stage.leftovers().is_empty());
    assert!(stage.world.get(&front.copy_key()).is_none());
    let source = stage.world.get(&front.source()).unwrap();
    assert!(!source.has_finalizer(FINALIZER));
}

#[test]
fn related_copies_go_before_the_primary_and_what_stays_on_purpose_stays() {
    let (stage, front) = with(|front| front.related = true);
    let (out, out_copy) = front.credentials();
    let (config, config_copy) = front.config();
    stage.world.put(&out, &json!({"data": {"k": "out"}}));
    stage.world.put(&config, &json!({"data": {"k": "in"}}));
    stage
        .world
        .put(&front.source(), &json!({"spec": {"size": 1}}));
    stage.settle();
    stage.world.delete(&front.source());
    assert_eq!(
        stage.writes(&front),
        [
            "delete Secret",
            "patch Secret",
            "delete Thing",
            "update State",
            "patch Thing"
        ]
    );
    assert!(stage.world.get(&out_copy).is_some());
    assert!(stage.world.get(&config_copy).is_none());
    assert!(stage.leftovers().is_empty());
    // Made again, the primary knows the copy that stayed as its own.
    stage.world.patch(&out, json!({"data": {"k": "new"}}));
    stage
        .world
        .put(&front.source(), &json!({"spec": {"size": 1}}));
    stage.settle();
    let data = stage.world.get(&out_copy).unwrap().into_value()["data"].take();
    assert_eq!(data, json!({"k": "new"}));
}

#[test]
fn a_revoked_related_object_takes_its_copy_and_its_state_with_it() {
    let (stage, front) = with(|front| front.related = true);
    let (out, out_copy) = front.credentials();
    stage.world.put(&out, &json!({"data": {"k": "out"}}));
    stage
        .world
        .put(&front.source(), &json!({"spec": {"size": 1}}));
    stage.settle();
    stage.world.delete(&out);
    stage.settle();
    assert!(stage.world.get(&out_copy).is_none());
    let state = stage.world.get(&front.memory()).unwrap();
    assert_eq!(state.as_value()["entries"].get("out"), None);
    let source = stage.world.get(&front.source()).unwrap();
    assert_eq!(source.annotation("t/related").unwrap_or_default(), "");
}

// === what cannot be read ===

#[test]
fn an_object_that_becomes_too_deep_keeps_its_copy_and_is_carried_on_when_it_is_readable_again() {
    let (stage, front) = with(|front| front.related = true);
    let (config, config_copy) = front.config();
    stage.world.put(&config, &json!({"data": {"k": "in"}}));
    let source = front.source();
    stage.world.put(&source, &json!({"spec": {"size": 1}}));
    stage.settle();
    let deep = json!({"deep": true, "spec": {"size": 2}});
    stage.world.patch(&source, deep);
    stage
        .world
        .set_status(&front.copy_key(), json!({"ready": true}));
    assert_eq!(stage.writes(&front), [""; 0]);
    assert_eq!(code(&stage, &front), Code::TooDeep);
    assert_eq!(copy(&stage, &front)["spec"], json!({"size": 1}));
    assert!(stage.world.get(&config_copy).is_some());
    // A process that has just started finds the same.
    stage.cache.restart(&stage.world, 0);
    assert_eq!(stage.writes(&front), [""; 0]);
    stage.world.patch(&source, json!({"deep": null}));
    stage.settle();
    assert_eq!(code(&stage, &front), Code::InStep);
    assert_eq!(copy(&stage, &front)["spec"], json!({"size": 2}));
}

#[test]
fn an_object_that_is_too_deep_from_the_start_is_neither_held_nor_copied() {
    let (stage, front) = one();
    stage.world.put(&front.source(), &json!({"deep": true}));
    assert_eq!(stage.writes(&front), [""; 0]);
    assert_eq!(code(&stage, &front), Code::TooDeep);
    stage.world.delete(&front.source());
    stage.settle();
    assert_eq!(stage.world.get(&front.source()), None);
}

#[test]
fn the_deletion_of_an_object_that_is_too_deep_comes_to_its_end() {
    for cold in [false, true] {
        let (stage, front) = with(|front| front.related = true);
        let (config, config_copy) = front.config();
        stage.world.put(&config, &json!({"data": {"k": "in"}}));
        stage
            .world
            .put(&front.source(), &json!({"spec": {"size": 1}}));
        stage.settle();
        stage.world.patch(&front.source(), json!({"deep": true}));
        stage.world.patch(&front.copy_key(), json!({"deep": true}));
        stage.settle();
        stage.world.delete(&front.source());
        if cold {
            stage.cache.restart(&stage.world, 0);
        }
        stage.settle();
        assert!(stage.leftovers().is_empty(), "{:?}", stage.leftovers());
        let gone = [front.source(), front.copy_key(), config_copy];
        assert!(gone.iter().all(|key| stage.world.get(key).is_none()));
    }
}

#[test]
fn a_copy_that_is_too_deep_is_left_as_it_is_and_no_status_comes_from_it() {
    let (stage, front) = in_sync(&json!({"spec": {"size": 1}}));
    let source = front.source();
    let copy_key = front.copy_key();
    stage.world.patch(&copy_key, json!({"deep": true}));
    stage.world.set_status(&copy_key, json!({"ready": true}));
    stage.world.patch(&source, json!({"spec": {"size": 2}}));
    assert_eq!(stage.writes(&front), [""; 0]);
    assert_eq!(code(&stage, &front), Code::TooDeep);
    stage.world.patch(&copy_key, json!({"deep": null}));
    stage.settle();
    assert_eq!(copy(&stage, &front)["spec"], json!({"size": 2}));
    let source = stage.world.get(&source).unwrap().into_value();
    assert_eq!(source["status"], json!({"ready": true}));
}

#[test]
fn a_place_that_is_taken_by_something_too_deep_is_not_taken_over() {
    let (stage, front) = one();
    let deep = json!({"deep": true, "spec": {"theirs": 1}});
    stage.world.put(&front.copy_key(), &deep);
    stage
        .world
        .put(&front.source(), &json!({"spec": {"size": 1}}));
    stage.settle();
    assert_eq!(code(&stage, &front), Code::TooDeep);
    assert_eq!(copy(&stage, &front)["spec"], json!({"theirs": 1}));
}

#[test]
fn a_related_original_that_becomes_too_deep_keeps_its_copy() {
    let (stage, front) = with(|front| front.related = true);
    let (config, config_copy) = front.config();
    stage.world.put(&config, &json!({"data": {"k": "in"}}));
    stage
        .world
        .put(&front.source(), &json!({"spec": {"size": 1}}));
    stage.settle();
    stage
        .world
        .patch(&config, json!({"deep": true, "data": {"k": "deep"}}));
    assert_eq!(stage.writes(&front), [""; 0]);
    let kept = stage.world.get(&config_copy).unwrap().into_value();
    assert_eq!(kept["data"], json!({"k": "in"}));
    stage.cache.deliver(&stage.world, |_| true);
    let outcomes = stage.pass(&front).outcomes;
    let codes: Vec<_> = outcomes.iter().map(|outcome| outcome.reason.code).collect();
    assert!(
        codes.contains(&Code::InStep) && codes.contains(&Code::TooDeep),
        "{codes:?}"
    );
}

fn with_related() -> (Stage, Front, [Key; 4]) {
    let (stage, front) = with(|front| front.related = true);
    let (out, out_copy) = front.credentials();
    let (config, config_copy) = front.config();
    stage.world.put(&out, &json!({"data": {"k": "out"}}));
    stage.world.put(&config, &json!({"data": {"k": "in"}}));
    stage
        .world
        .put(&front.source(), &json!({"spec": {"size": 1}}));
    stage.settle();
    (stage, front, [out, out_copy, config, config_copy])
}

#[test]
fn a_list_that_merely_lacks_a_source_takes_no_copy_away() {
    let (stage, front, [out, out_copy, config, config_copy]) = with_related();
    stage.cache.forget(&out);
    stage.cache.forget(&config);
    stage.pass(&front);
    for copy in [&out_copy, &config_copy] {
        assert!(stage.world.get(copy).is_some(), "{copy}");
    }
    // What nobody holds is read once, and what it says counts.
    stage.world.delete(&out);
    stage.cache.forget(&out);
    stage.pass(&front);
    assert!(stage.world.get(&out_copy).is_none());
    assert!(stage.world.get(&config_copy).is_some());
}

#[test]
fn a_held_source_that_is_out_of_sight_is_remembered_when_its_subject_goes() {
    let (stage, front, [_, _, config, config_copy]) = with_related();
    let front = Front {
        hides: true,
        ..front
    };
    stage.world.delete(&front.source());
    stage.cache.deliver(&stage.world, |_| true);
    // Nobody sees this happen: to whoever asks it looks as if the object were hidden.
    stage
        .world
        .patch(&config, json!({"metadata": {"finalizers": null}}));
    stage.world.delete(&config);
    stage.cache.forget(&config);
    stage.pass(&front);
    assert!(stage.world.get(&front.source()).is_none());
    assert!(stage.world.get(&config_copy).is_none());
    let state = stage.world.get(&front.memory()).expect("it is remembered");
    let entries = state.as_value()["entries"].as_object().unwrap();
    let names: Vec<&String> = entries.keys().collect();
    assert_eq!(names, ["in", "out", "primary"]);
}

// === memory ===

#[test]
fn a_lost_state_is_recorded_again_without_a_write_to_a_copy_that_agrees() {
    let (stage, front) = in_sync(&json!({"spec": {"size": 1}}));
    stage
        .world
        .patch(&front.copy_key(), json!({"spec": {"extra": 1}}));
    stage.world.delete(&front.memory());
    assert_eq!(stage.writes(&front), ["get Thing", "create State"]);
    assert_eq!(copy(&stage, &front)["spec"], json!({"size": 1, "extra": 1}));
    stage.settle();
}

#[test]
fn after_a_lost_state_only_what_differs_is_written_and_the_source_wins() {
    let (stage, front) = in_sync(&json!({"spec": {"size": 1, "color": "red"}}));
    stage.world.patch(
        &front.copy_key(),
        json!({"spec": {"extra": 1, "color": "blue"}}),
    );
    stage.world.delete(&front.memory());
    stage.cache.deliver(&stage.world, |_| true);
    stage.world.take_log();
    stage.pass(&front);
    let log = stage.world.take_log();
    let patch = log.iter().find_map(|request| match request {
        Request::Patch { patch, .. } => Some(patch.clone()),
        _ => None,
    });
    let patch = patch.expect("what differs is written");
    assert_eq!(patch["spec"], json!({"color": "red"}));
    assert!(patch["metadata"]["resourceVersion"].is_string());
    assert_eq!(
        copy(&stage, &front)["spec"],
        json!({"size": 1, "color": "red", "extra": 1})
    );
    stage.settle();
}

#[test]
fn no_state_is_not_believed_of_a_cache_that_is_behind() {
    let (stage, front) = in_sync(&json!({"spec": {"size": 1}}));
    stage
        .world
        .patch(&front.copy_key(), json!({"spec": {"size": 7}}));
    stage.cache.deliver(&stage.world, |_| true);
    // Restarted against a server that has not heard of the state write.
    stage.cache.restart(&stage.world, 0);
    stage.cache.forget(&front.memory());
    stage.world.take_log();
    stage.pass(&front);
    assert!(
        stage
            .world
            .take_log()
            .iter()
            .all(|request| !request.writes())
    );
    assert_eq!(copy(&stage, &front)["spec"], json!({"size": 7}));
}

#[test]
fn a_state_is_not_written_over_while_its_copy_may_exist() {
    let (stage, front) = in_sync(&json!({"spec": {"size": 1, "color": "red"}}));
    // The copy is not found by its labels, and the source has to be accepted anew.
    stage
        .world
        .patch(&front.copy_key(), json!({"metadata": {"labels": null}}));
    let changed = json!({"metadata": {"finalizers": null}, "spec": {"color": null}});
    stage.world.patch(&front.source(), changed);
    stage.settle();
    assert_eq!(copy(&stage, &front)["spec"], json!({"size": 1}));
}

#[test]
fn a_state_in_deletion_is_not_written_and_is_made_again_when_it_is_gone() {
    let (stage, front) = in_sync(&json!({"spec": {"size": 1}}));
    stage.world.patch(
        &front.memory(),
        json!({"metadata": {"finalizers": ["x/slow"]}}),
    );
    stage.world.delete(&front.memory());
    stage
        .world
        .patch(&front.source(), json!({"spec": {"size": 2}}));
    assert_eq!(stage.writes(&front), ["patch Thing"]);
    stage
        .world
        .patch(&front.memory(), json!({"metadata": {"finalizers": null}}));
    stage.settle();
    assert!(stage.world.get(&front.memory()).is_some());
    assert_eq!(copy(&stage, &front)["spec"], json!({"size": 2}));
}

#[test]
fn a_state_that_is_too_large_is_reduced_and_still_tells_what_changed() {
    let (stage, front) = with(|front| front.limit = 600);
    let big = "x".repeat(4000);
    stage.world.put(
        &front.source(),
        &json!({"spec": {"big": big, "old": big, "size": 1}}),
    );
    stage.settle();
    let state = stage
        .world
        .get(&front.memory())
        .unwrap()
        .into_value()
        .to_string();
    assert!(state.len() < 3000, "{state}");
    stage.world.patch(
        &front.copy_key(),
        json!({"spec": {"size": 5, "extra": big}}),
    );
    stage.world.patch(
        &front.source(),
        json!({"spec": {"old": null, "color": "red"}}),
    );
    stage.settle();
    let spec = json!({"big": big, "size": 5, "extra": big, "color": "red"});
    assert_eq!(copy(&stage, &front)["spec"], spec);
}

// === what is not known ===

#[test]
fn nothing_is_written_while_nothing_is_known() {
    for deleted in [false, true] {
        let (stage, front) = in_sync(&json!({"spec": {"size": 1}}));
        stage
            .world
            .patch(&front.source(), json!({"spec": {"size": 2}}));
        if deleted {
            stage.world.delete(&front.source());
        }
        stage.cache.set_unknown(true);
        // A write would be carried out.
        stage.world.hide();
        stage.world.take_log();
        let report = stage.pass(&front);
        assert_eq!(report.outcomes[0].reason.code.class(), Class::Retry);
        assert!(stage.world.take_log().is_empty());
        assert!(report.recheck.is_some());
    }
}

#[test]
fn a_conflict_is_looked_at_again_at_once_and_nobody_hears_of_it() {
    let (stage, front) = in_sync(&json!({"spec": {"size": 1}}));
    stage
        .world
        .set_status(&front.copy_key(), json!({"ready": true}));
    stage.cache.deliver(&stage.world, |_| true);
    stage.world.patch(
        &front.source(),
        json!({"metadata": {"labels": {"late": "1"}}}),
    );
    let report = stage.pass(&front);
    assert_eq!(report.outcomes[0].reason.code, Code::InStep);
    let source = stage.world.get(&front.source()).unwrap();
    assert_eq!(source.as_value()["status"], json!({"ready": true}));
    stage.settle();
}

/// The requests about one object in a pass in which every write to it is refused, and what the pass
/// comes to.
fn refused(stage: &Stage, front: &Front, key: &Key, failure: &Failure) -> (Vec<String>, Report) {
    stage.cache.deliver(&stage.world, |_| true);
    stage.world.refuse(key, failure.clone());
    stage.world.take_log();
    let report = stage.pass(front);
    let log = stage.world.take_log();
    let about = log.iter().filter(|request| request.key() == Some(key));
    stage.world.relent();
    (about.map(|r| r.verb().to_owned()).collect(), report)
}

fn refusals() -> [(Failure, usize); 5] {
    [
        (Failure::Unavailable("500".into()), 1),
        (Failure::NotFound, 1),
        (Failure::Invalid("422".into()), 1),
        (Failure::Forbidden("403".into()), 1),
        // What was known of it may be out of date, once.
        (Failure::Conflict, 2),
    ]
}

#[test]
fn a_write_that_is_refused_ends_the_pass_and_one_that_conflicts_is_made_once_more() {
    let mirrored = |front: &mut Front| {
        let adoption = front.policy.adoption;
        front.policy = Policy::mirrored();
        front.policy.adoption = adoption;
    };
    let as_is = |_: &mut Front| {};
    for (change, verb) in [
        (as_is as fn(&mut Front), "patch"),
        (mirrored as fn(&mut Front), "update"),
        (as_is as fn(&mut Front), "update status"),
    ] {
        for (failure, times) in refusals() {
            let (stage, front) = with(change);
            stage
                .world
                .put(&front.source(), &json!({"spec": {"size": 1}}));
            stage.settle();
            let key = if verb == "update status" {
                let status = json!({"ready": true});
                stage.world.set_status(&front.copy_key(), status);
                front.source()
            } else {
                let spec = json!({"spec": {"size": 2}});
                stage.world.patch(&front.source(), spec);
                front.copy_key()
            };
            if failure == Failure::NotFound && verb == "update status" {
                // What has no status to be written.
                continue;
            }
            let (about, report) = refused(&stage, &front, &key, &failure);
            let writes = about.iter().filter(|sent| *sent != "get").count();
            assert_eq!(writes, times, "{verb} {failure}: {about:?}");
            assert!(about.len() < 2 * times, "{verb} {failure}: {about:?}");
            assert!(about.contains(&verb.to_owned()), "{verb}: {about:?}");
            let class = report.outcomes[0].reason.code.class();
            assert!(matches!(class, Class::Retry | Class::Refused), "{report:?}");
            assert!(report.recheck.is_some());
            stage.settle();
            assert_eq!(code(&stage, &front), Code::InStep);
        }
    }
}

#[test]
fn a_finalizer_a_state_or_a_copy_that_cannot_be_written_is_not_insisted_on() {
    for (failure, times) in refusals() {
        let (_, front) = one();
        for key in [front.source(), front.memory(), front.copy_key()] {
            let (stage, front) = one();
            stage
                .world
                .put(&front.source(), &json!({"spec": {"size": 1}}));
            let (about, report) = refused(&stage, &front, &key, &failure);
            // What a create does not find is the namespace, which is looked at.
            let creates = failure == Failure::NotFound && key != front.source();
            let times = if creates { 2 } else { times };
            let writes = about.iter().filter(|sent| *sent != "get").count();
            assert!((1..=times).contains(&writes), "{key} {failure}: {about:?}");
            assert!(about.len() <= 2 * times, "{key} {failure}: {about:?}");
            assert!(report.requests < 10, "{key} {failure}: {report:?}");
            let class = report.outcomes[0].reason.code.class();
            assert!(matches!(class, Class::Retry | Class::Refused), "{report:?}");
            stage.settle();
            assert_eq!(code(&stage, &front), Code::InStep);
        }
    }
}

#[test]
fn a_deletion_that_is_not_answered_is_not_asked_for_again_in_the_same_pass() {
    for key in [
        |f: &Front| f.copy_key(),
        |f: &Front| f.memory(),
        |f: &Front| f.source(),
    ] {
        let (stage, front) = in_sync(&json!({"spec": {"size": 1}}));
        stage.world.delete(&front.source());
        let failure = Failure::Unavailable("503".into());
        let (about, report) = refused(&stage, &front, &key(&front), &failure);
        assert_eq!(about.len(), 1, "{about:?}");
        assert_eq!(report.outcomes[0].reason.code, Code::NoAnswer);
        stage.settle();
        assert!(stage.leftovers().is_empty());
    }
}

#[test]
fn a_report_that_is_not_answered_is_made_by_another_pass() {
    let (stage, front) = with(|front| front.related = true);
    let (out, _) = front.credentials();
    stage
        .world
        .put(&front.source(), &json!({"spec": {"size": 1}}));
    stage.settle();
    stage.world.put(&out, &json!({"data": {"k": "out"}}));
    let failure = Failure::Unavailable("503".into());
    let (about, report) = refused(&stage, &front, &front.source(), &failure);
    assert_eq!(about, ["get", "patch"]);
    assert_eq!(report.outcomes[0].reason.code, Code::NoAnswer);
    assert!(report.recheck.is_some());
    assert_eq!(Settled::of(&report, 1), None);
    stage.settle();
    let source = stage.world.get(&front.source()).unwrap();
    assert_eq!(source.annotation("t/related"), Some("a-out"));
}

#[test]
fn a_status_that_cannot_be_written_is_told_and_not_fought_for() {
    let (stage, front) = with(|front| front.policy.status = StatusFlow::Back);
    stage
        .world
        .put(&front.source(), &json!({"spec": {"size": 1}}));
    stage.settle();
    stage
        .world
        .set_status(&front.copy_key(), json!({"ready": true}));
    let n = stage.world.sent();
    stage
        .world
        .plan_faults(HashMap::from([(n, Fault::NotServed)]));
    assert_eq!(code(&stage, &front), Code::StatusNotServed);
    assert_eq!(stage.world.sent(), n + 1);
}

#[test]
fn a_report_is_written_with_the_status_and_stays_while_the_copy_is_behind() {
    let (stage, front) = with(|front| front.reports = true);
    let told = || stage.world.get(&front.source()).unwrap().as_value()["status"].clone();
    stage
        .world
        .put(&front.source(), &json!({"spec": {"size": 1}}));
    stage.settle();
    assert_eq!(told(), json!({"copied": {"size": 1}}));
    stage
        .world
        .set_status(&front.copy_key(), json!({"ready": true}));
    assert_eq!(stage.writes(&front), ["update status Thing"]);
    assert_eq!(told(), json!({"ready": true, "copied": {"size": 1}}));
    // A pause holds the content, and not the status.
    let failure = Failure::Paused("for now".into());
    stage.world.refuse(&front.copy_key(), failure);
    stage
        .world
        .patch(&front.source(), json!({"spec": {"size": 2}}));
    stage
        .world
        .set_status(&front.copy_key(), json!({"ready": false}));
    assert_eq!(code(&stage, &front), Code::Paused);
    assert_eq!(told(), json!({"ready": false, "copied": {"size": 1}}));
    let outcomes = stage.pass(&front).outcomes;
    assert!(!outcomes[0].current);
}

#[test]
fn a_status_that_is_empty_is_not_one_that_is_missing() {
    let (stage, front) = in_sync(&json!({"spec": {"size": 1}}));
    stage.world.set_status(&front.copy_key(), json!({}));
    assert_eq!(stage.writes(&front), ["update status Thing"]);
    stage.world.set_status(&front.copy_key(), Value::Null);
    assert_eq!(stage.writes(&front), ["update status Thing"]);
    let source = stage.world.get(&front.source()).unwrap();
    assert_eq!(source.root().get("status"), None);
    assert_eq!(stage.writes(&front), [""; 0]);
}

#[test]
fn a_status_goes_forward_where_the_policy_says_so() {
    let (stage, front) = with(|front| front.policy.status = StatusFlow::Forward);
    stage
        .world
        .put(&front.source(), &json!({"spec": {"size": 1}}));
    stage
        .world
        .set_status(&front.source(), json!({"ready": true}));
    let writes = [
        "patch Thing",
        "create State",
        "create Thing",
        "update status Thing",
    ];
    assert_eq!(stage.writes(&front), writes);
    assert_eq!(copy(&stage, &front)["status"], json!({"ready": true}));
    stage.settle();
}

#[test]
fn an_object_too_large_for_the_server_is_refused_without_a_hot_loop() {
    let (stage, front) = in_sync(&json!({"spec": {"size": 1}}));
    stage
        .world
        .patch(&front.source(), json!({"spec": {"size": 2}}));
    let n = stage.world.sent();
    stage
        .world
        .plan_faults(HashMap::from([(n + 1, Fault::TooLarge)]));
    assert_eq!(code(&stage, &front), Code::TooLarge);
    assert_eq!(stage.world.sent(), n + 2);
}

#[test]
fn a_copy_that_others_still_want_stays() {
    let (stage, front) = with(|front| front.policy.claims = Claims::Shared);
    stage
        .world
        .put(&front.source(), &json!({"spec": {"size": 1}}));
    stage.settle();
    stage.world.delete(&front.source());
    stage.settle();
    assert!(stage.world.get(&front.copy_key()).is_some());
    assert!(stage.world.get(&front.source()).is_none());
}

#[test]
fn a_hash_that_collides_is_found_out_by_the_whole_name() {
    let (stage, front) = one();
    let other = json!({"metadata": {"labels": {"t/cluster": "c1", "t/name": "a"},
        "annotations": {"t/source": "c1/not-a"}}});
    let other_key = svc("Thing", "copies", "other");
    stage.world.put(&other_key, &other);
    let before = stage.world.get(&other_key);
    stage
        .world
        .put(&front.source(), &json!({"spec": {"size": 1}}));
    stage.settle();
    assert_eq!(copy(&stage, &front)["spec"], json!({"size": 1}));
    stage.world.delete(&front.source());
    for _ in 0..3 {
        stage.cache.deliver(&stage.world, |_| true);
        stage.pass(&front);
    }
    assert_eq!(stage.world.get(&other_key), before);
    assert!(stage.world.get(&front.source()).is_none());
}

#[test]
fn happenings_are_told_in_order() {
    let (stage, front) = one();
    stage
        .world
        .put(&front.source(), &json!({"spec": {"size": 1}}));
    stage.cache.deliver(&stage.world, |_| true);
    let happened = stage.pass(&front).happened;
    let effects: Vec<_> = happened.into_iter().map(|(_, effect)| effect).collect();
    assert_eq!(
        effects,
        [Effect::Accepted, Effect::Remembered, Effect::Placed]
    );
}

#[test]
fn a_pass_at_rest_stands_until_an_answer_changes() {
    let (stage, front) = in_sync(&json!({"spec": {"size": 1}}));
    stage.cache.deliver(&stage.world, |_| true);
    let report = stage.pass(&front);
    let settled = Settled::of(&report, 1).expect("it came to rest");
    assert!(settled.holds(1, &stage.cache));
    assert!(!settled.holds(2, &stage.cache));
    for key in [front.source(), front.copy_key(), front.memory()] {
        let (stage, front) = in_sync(&json!({"spec": {"size": 1}}));
        stage.cache.deliver(&stage.world, |_| true);
        let settled = Settled::of(&stage.pass(&front), 1).expect("it came to rest");
        stage.world.patch(&key, json!({"spec": {"size": 2}}));
        assert!(settled.holds(1, &stage.cache), "nothing was heard yet");
        stage.cache.deliver(&stage.world, |_| true);
        assert!(!settled.holds(1, &stage.cache), "{key} changed");
    }
}

#[test]
fn nothing_is_kept_of_an_object_that_is_gone() {
    let (stage, front) = in_sync(&json!({"spec": {"size": 1}}));
    stage.world.delete(&front.source());
    stage.settle();
    stage.cache.deliver(&stage.world, |_| true);
    let report = stage.pass(&front);
    assert_eq!(report.requests, 0);
    assert_eq!(report.outcomes[0].reason.code, Code::NoSource);
    assert_eq!(Settled::of(&report, 1), None);
}

// === the house ===

#[test]
fn every_reason_is_documented() {
    let page = include_str!("../../../docs/reasons.md");
    let sections: Vec<String> = page.split("\n## ").map(str::to_lowercase).collect();
    for code in Code::ALL {
        let class = code.class().as_str();
        let row = format!("- `{code}`: {}\n", code.sentence());
        let section = sections.iter().find(|section| section.starts_with(class));
        assert!(
            section.is_some_and(|section| section.contains(&row.to_lowercase())),
            "docs/reasons.md lacks the row\n{row}\nof the class {class}"
        );
    }
}

/// A cache that is told of another state whenever it is asked.
#[derive(Default)]
struct Moving(parking_lot::Mutex<i64>);

impl Store for Moving {
    fn get(&self, _key: &Key) -> Seen {
        let mut times = self.0.lock();
        *times += 1;
        let object = json!({"metadata": {"name": "a"}, "spec": *times});
        Seen::Present(Arc::new(Object::new(object).unwrap()))
    }

    fn find(&self, _scope: &Scope, _labels: &Labels) -> Found {
        Found::Unknown
    }

    fn saw_deletion(&self, _key: &Key) -> bool {
        false
    }

    fn saw_end(&self, _key: &Key) -> bool {
        false
    }

    fn fingerprint_of(&self, _: &Key, object: &Object) -> Fingerprint {
        Fingerprint::of(object)
    }
}

#[test]
fn a_pass_is_about_one_state_of_the_caches_whatever_they_are_told_meanwhile() {
    let (store, key) = (Moving::default(), kcp("c", "Thing", "a"));
    let view = PassView::new(&store);
    let shown = view.get(&key);
    assert_eq!(view.get(&key), shown);
    let Seen::Present(object) = shown else {
        panic!("{shown:?}")
    };
    let question = super::Question::Object(key.clone());
    assert_eq!(view.fingerprint(&question), Some(Fingerprint::of(&object)));
    assert_ne!(PassView::new(&store).get(&key), Seen::Present(object));
}
