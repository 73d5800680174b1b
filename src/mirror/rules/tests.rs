use serde_json::{Value, json};

use super::*;
use crate::mirror::definition::{NewCopyStatus, STATUS_SUBTREE, Settings};
use crate::mirror::model::{Model, definition};
use hawser_sync::Code;

const CLOUD: Plane = Plane::Cloud;
const ROBOT: Plane = Plane::Robot;

fn model(status: Status) -> Model {
    Model::new(definition(status, &json!({}), Settings::of_robot("r1")))
}

fn field(model: &Model, plane: Plane, pointer: &str) -> Value {
    let object = model.get(plane, "a").expect("it is there");
    object
        .as_value()
        .pointer(pointer)
        .cloned()
        .unwrap_or_default()
}

#[track_caller]
fn sent(model: &Model, expected: &[&str]) {
    model.settle("a");
    assert_eq!(model.requests(), expected);
}

#[test]
fn a_new_object_is_made_on_the_robot_by_one_request_with_what_travels_and_nothing_else() {
    let model = model(Status::Subresource);
    model.put(
        CLOUD,
        "a",
        &json!({
            "metadata": {
                "labels": {"l": "1"},
                "annotations": {"n": "2", REMOTE_RESOURCE_VERSION: "77"},
                "finalizers": ["cloud/f"], "ownerReferences": [{"uid": "x"}],
            },
            "spec": {"goal": 1}, "data": {"not": "copied"}, "status": {"phase": "old"},
        }),
    );
    sent(&model, &["create robot"]);
    let copy = model.get(ROBOT, "a").unwrap().into_value();
    assert_eq!(copy["spec"], json!({"goal": 1}));
    assert_eq!(copy["metadata"]["labels"], json!({"l": "1"}));
    assert_eq!(copy["metadata"]["annotations"], json!({"n": "2"}));
    for absent in [
        "/data",
        "/status",
        "/metadata/finalizers",
        "/metadata/ownerReferences",
    ] {
        assert_eq!(copy.pointer(absent), None, "{absent}");
    }
    assert_eq!(field(&model, CLOUD, "/status"), json!({"phase": "old"}));
}

#[test]
fn an_object_without_a_spec_is_copied_without_one() {
    let model = model(Status::Subresource);
    model.put(CLOUD, "a", &json!({}));
    sent(&model, &["create robot"]);
    assert!(!model.get(ROBOT, "a").unwrap().root().contains_key("spec"));
    model.put(ROBOT, "a", &json!({"spec": {"x": 1}}));
    sent(&model, &["update robot"]);
    assert!(!model.get(ROBOT, "a").unwrap().root().contains_key("spec"));
}

#[test]
fn what_the_robot_changes_is_put_right_and_what_is_its_own_stays() {
    let model = model(Status::Subresource);
    model.put(
        CLOUD,
        "a",
        &json!({"metadata": {"labels": {"l": "1"}}, "spec": {"goal": 1}}),
    );
    sent(&model, &["create robot"]);
    model.put(ROBOT, "a", &json!({
        "metadata": {
            "labels": {"l": null, "m": "2"}, "annotations": {"n": "3"}, "finalizers": ["robot/f"],
        },
        "spec": {"goal": 2, "more": 3}, "data": {"own": 1},
    }));
    sent(&model, &["update robot"]);
    let copy = model.get(ROBOT, "a").unwrap().into_value();
    assert_eq!(copy["spec"], json!({"goal": 1}));
    assert_eq!(copy["metadata"]["labels"], json!({"l": "1"}));
    assert_eq!(copy["metadata"].get("annotations"), None);
    assert_eq!(copy["metadata"]["finalizers"], json!(["robot/f"]));
    assert_eq!(copy["data"], json!({"own": 1}));
}

#[test]
fn a_status_goes_back_by_one_request_and_observed_generations_are_translated() {
    let model = model(Status::Subresource);
    model.put(CLOUD, "a", &json!({"spec": {"goal": 1}}));
    sent(&model, &["create robot"]);
    model.put(CLOUD, "a", &json!({"spec": {"goal": 2}}));
    model.put(CLOUD, "a", &json!({"spec": {"goal": 3}}));
    sent(&model, &["update robot"]);
    let generation = field(&model, ROBOT, "/metadata/generation");
    model.put(
        ROBOT,
        "a",
        &json!({"status": {"observedGeneration": generation}}),
    );
    sent(&model, &["update status cloud"]);
    let owner = field(&model, CLOUD, "/metadata/generation");
    assert_ne!(owner, generation);
    assert_eq!(
        field(&model, CLOUD, "/status"),
        json!({"observedGeneration": owner})
    );
    // The owner's annotation stays on its own side only where servers keep it, and never travels.
    assert_eq!(field(&model, ROBOT, "/metadata/annotations"), Value::Null);
}

#[test]
fn without_a_subresource_the_status_goes_with_the_whole_object_and_its_version() {
    let model = model(Status::InObject);
    model.put(
        CLOUD,
        "a",
        &json!({"spec": {"goal": 1}, "status": {"phase": "seed"}}),
    );
    sent(&model, &["create robot", "update cloud"]);
    assert_eq!(field(&model, ROBOT, "/status/phase"), "seed");
    model.put(ROBOT, "a", &json!({"status": {"phase": "done"}}));
    let version = field(&model, ROBOT, "/metadata/resourceVersion");
    sent(&model, &["update cloud"]);
    let owner = model.get(CLOUD, "a").unwrap().into_value();
    assert_eq!(owner["status"], json!({"phase": "done"}));
    assert_eq!(owner["spec"], json!({"goal": 1}));
    assert_eq!(
        owner["metadata"]["annotations"][REMOTE_RESOURCE_VERSION],
        version
    );
    assert_eq!(field(&model, ROBOT, "/metadata/annotations"), Value::Null);
    // A newer version alone is not worth a write.
    model.put(
        ROBOT,
        "a",
        &json!({"metadata": {"finalizers": ["robot/f"]}}),
    );
    sent(&model, &[]);
}

#[test]
fn one_field_of_the_status_goes_back_where_that_was_asked_for() {
    let annotations = json!({STATUS_SUBTREE: "robot"});
    let definition = definition(Status::Subresource, &annotations, Settings::of_robot("r1"));
    let model = Model::new(definition);
    model.put(CLOUD, "a", &json!({"status": {"cloud": 1}}));
    sent(&model, &["create robot"]);
    model.put(
        ROBOT,
        "a",
        &json!({"status": {"robot": {"x": 1}, "other": 2}}),
    );
    sent(&model, &["update status cloud"]);
    assert_eq!(
        field(&model, CLOUD, "/status"),
        json!({"cloud": 1, "robot": {"x": 1}})
    );
    model.put(ROBOT, "a", &json!({"status": "no object"}));
    model.hear(ROBOT, "a");
    let report = model.pass("a");
    assert_eq!(report.outcomes[0].reason.code, Code::RulesInvalid);
}

// The deletion matrix.

#[test]
fn deleted_by_its_owner_it_is_deleted_on_the_robot_held_or_not() {
    let model = model(Status::Subresource);
    model.put(
        CLOUD,
        "a",
        &json!({"metadata": {"finalizers": ["cloud/f"]}}),
    );
    sent(&model, &["create robot"]);
    model.delete(CLOUD, "a");
    sent(&model, &["delete robot"]);
    assert!(model.get(CLOUD, "a").unwrap().in_deletion());
    model.put(CLOUD, "a", &json!({"metadata": {"finalizers": null}}));
    sent(&model, &[]);
    assert_eq!(model.get(CLOUD, "a"), None);
}

#[test]
fn deleted_while_nobody_looked_the_copy_is_left_over_and_goes() {
    let model = model(Status::Subresource);
    model.put(CLOUD, "a", &json!({}));
    sent(&model, &["create robot"]);
    model.delete(CLOUD, "a");
    model.restart();
    sent(&model, &["delete robot"]);
}

#[test]
fn deleted_on_the_robot_it_is_made_again_and_the_owners_status_stays() {
    let model = model(Status::Subresource);
    model.put(CLOUD, "a", &json!({"spec": {"goal": 1}}));
    sent(&model, &["create robot"]);
    model.put(ROBOT, "a", &json!({"status": {"phase": "done"}}));
    sent(&model, &["update status cloud"]);
    let before = field(&model, ROBOT, "/metadata/uid");
    model.delete(ROBOT, "a");
    sent(&model, &["create robot"]);
    assert_ne!(field(&model, ROBOT, "/metadata/uid"), before);
    assert_eq!(field(&model, CLOUD, "/status/phase"), "done");
}

#[test]
fn a_fresh_copy_resets_the_owners_status_where_that_was_asked_for() {
    let settings = Settings {
        fresh_copy: NewCopyStatus::ResetStatus,
        ..Settings::of_robot("r1")
    };
    let model = Model::new(definition(Status::Subresource, &json!({}), settings));
    model.put(CLOUD, "a", &json!({"status": {"phase": "done"}}));
    sent(&model, &["create robot", "update status cloud"]);
    assert_eq!(field(&model, CLOUD, "/status"), json!({}));
}

#[test]
fn a_copy_that_is_slow_to_go_gives_its_status_to_nobody_who_came_after() {
    let model = model(Status::Subresource);
    model.put(CLOUD, "a", &json!({"spec": {"goal": 1}}));
    sent(&model, &["create robot"]);
    model.put(
        ROBOT,
        "a",
        &json!({
            "metadata": {"finalizers": ["robot/f"]}, "status": {"phase": "old"},
        }),
    );
    sent(&model, &["update status cloud"]);
    model.delete(CLOUD, "a");
    sent(&model, &["delete robot"]);
    // Held, and its status still counts while nobody else has come: there is nobody to tell.
    model.put(
        CLOUD,
        "a",
        &json!({
            "metadata": {"creationTimestamp": "2026-01-01T00:00:30Z"}, "spec": {"goal": 2},
        }),
    );
    sent(&model, &[]);
    assert_eq!(field(&model, CLOUD, "/status"), Value::Null);
    assert_eq!(
        field(&model, ROBOT, "/spec/goal"),
        1,
        "what is dying is not written"
    );
    model.restart();
    sent(&model, &[]);
    model.put(ROBOT, "a", &json!({"metadata": {"finalizers": null}}));
    assert_eq!(model.get(ROBOT, "a"), None);
    sent(&model, &["create robot"]);
    assert_eq!(field(&model, ROBOT, "/spec/goal"), 2);
    assert_eq!(field(&model, CLOUD, "/status"), Value::Null);
}

#[test]
fn a_copy_that_is_slow_to_go_is_written_for_as_long_as_its_own_owner_lives() {
    for status in [Status::Subresource, Status::InObject] {
        let model = model(status);
        model.put(CLOUD, "a", &json!({"spec": {"goal": 1}}));
        model.settle("a");
        model.put(
            ROBOT,
            "a",
            &json!({"metadata": {"finalizers": ["robot/f"]}}),
        );
        model.settle("a");
        // Deleted on the robot alone.
        model.delete(ROBOT, "a");
        model.settle("a");
        for restarted in [false, true] {
            if restarted {
                model.restart();
            }
            let goal = if restarted { 3 } else { 2 };
            model.requests();
            model.put(CLOUD, "a", &json!({"spec": {"goal": goal}}));
            model.settle("a");
            assert_eq!(model.requests()[0], "update robot");
            let copy = model.get(ROBOT, "a").unwrap();
            assert!(copy.in_deletion());
            assert_eq!(copy.as_value()["spec"]["goal"], goal);
            assert_eq!(
                copy.as_value()["metadata"]["finalizers"],
                json!(["robot/f"])
            );
            let report = model.pass("a");
            assert_eq!(report.outcomes[0].reason.code, Code::WaitingForDeletion);
        }
    }
}

#[test]
fn the_old_way_copies_the_status_of_an_earlier_life() {
    let settings = Settings {
        earlier_life: crate::mirror::definition::StaleCopyStatus::Copy,
        ..Settings::of_robot("r1")
    };
    let model = Model::new(definition(Status::Subresource, &json!({}), settings));
    model.put(CLOUD, "a", &json!({}));
    sent(&model, &["create robot"]);
    model.put(
        ROBOT,
        "a",
        &json!({
            "metadata": {"finalizers": ["robot/f"]}, "status": {"phase": "old"},
        }),
    );
    sent(&model, &["update status cloud"]);
    model.delete(CLOUD, "a");
    sent(&model, &["delete robot"]);
    model.put(
        CLOUD,
        "a",
        &json!({"metadata": {"creationTimestamp": "2026-01-01T00:00:30Z"}}),
    );
    sent(&model, &["update status cloud"]);
    assert_eq!(field(&model, CLOUD, "/status/phase"), "old");
}

#[test]
fn while_it_goes_a_copy_still_tells_its_own_owner_how_it_is() {
    let model = model(Status::Subresource);
    model.put(
        CLOUD,
        "a",
        &json!({"metadata": {"finalizers": ["cloud/f"]}}),
    );
    sent(&model, &["create robot"]);
    model.put(
        ROBOT,
        "a",
        &json!({"metadata": {"finalizers": ["robot/f"]}}),
    );
    sent(&model, &[]);
    model.delete(CLOUD, "a");
    sent(&model, &["delete robot"]);
    model.put(ROBOT, "a", &json!({"status": {"phase": "going"}}));
    sent(&model, &["update status cloud"]);
    assert_eq!(field(&model, CLOUD, "/status/phase"), "going");
}

#[test]
fn deleted_and_made_again_in_between_it_is_an_update() {
    let model = model(Status::Subresource);
    model.put(CLOUD, "a", &json!({"spec": {"goal": 1}}));
    sent(&model, &["create robot"]);
    let before = field(&model, ROBOT, "/metadata/uid");
    model.delete(CLOUD, "a");
    model.put(CLOUD, "a", &json!({"spec": {"goal": 2}}));
    sent(&model, &["update robot"]);
    assert_eq!(field(&model, ROBOT, "/metadata/uid"), before);
    assert_eq!(field(&model, ROBOT, "/spec/goal"), 2);
}

#[test]
fn what_was_made_on_the_robot_alone_goes() {
    let model = model(Status::Subresource);
    model.put(ROBOT, "a", &json!({"spec": {"goal": 1}}));
    sent(&model, &["delete robot"]);
    assert_eq!(model.get(ROBOT, "a"), None);
}

#[test]
fn a_copy_that_the_cache_does_not_show_is_read_and_put_right() {
    let model = model(Status::Subresource);
    model.put(CLOUD, "a", &json!({"spec": {"goal": 1}}));
    model.put(ROBOT, "a", &json!({"spec": {"goal": 2}}));
    // Without its label a filtered watch does not show it.
    model.hear(CLOUD, "a");
    model.pass("a");
    assert_eq!(
        model.requests(),
        ["create robot", "get robot", "update robot"]
    );
    assert_eq!(field(&model, ROBOT, "/spec/goal"), 1);
}

#[test]
fn finalizers_of_the_old_days_are_taken_off_both_sides() {
    let model = model(Status::Subresource);
    let old = "robot-r1.synced.cr-syncer.cloudrobotics.com";
    model.put(
        CLOUD,
        "a",
        &json!({"metadata": {"finalizers": [old, "cloud/f"]}}),
    );
    sent(&model, &["update cloud", "create robot"]);
    assert_eq!(
        field(&model, CLOUD, "/metadata/finalizers"),
        json!(["cloud/f"])
    );
    model.put(ROBOT, "a", &json!({"metadata": {"finalizers": [old]}}));
    sent(&model, &["update robot"]);
    model.put(ROBOT, "a", &json!({"metadata": {"finalizers": [old]}}));
    model.delete(ROBOT, "a");
    sent(&model, &["update robot", "create robot"]);
}

#[test]
fn a_finalizer_that_may_not_be_taken_off_holds_up_nothing_else() {
    let model = model(Status::Subresource);
    let old = "robot-r1.synced.cr-syncer.cloudrobotics.com";
    model.put(
        CLOUD,
        "a",
        &json!({"metadata": {"finalizers": [old]}, "spec": {"goal": 1}}),
    );
    model.fault(crate::mirror::model::Fault::Refused);
    model.hear(CLOUD, "a");
    model.pass("a");
    assert_eq!(model.requests(), ["update cloud", "create robot"]);
}

#[test]
fn after_a_conflict_in_the_cloud_nothing_is_read_there() {
    let model = model(Status::Subresource);
    model.put(CLOUD, "a", &json!({}));
    sent(&model, &["create robot"]);
    model.put(CLOUD, "a", &json!({"metadata": {"labels": {"new": "1"}}}));
    model.put(ROBOT, "a", &json!({"status": {"phase": "done"}}));
    model.hear(ROBOT, "a");
    let report = model.pass("a");
    assert_eq!(report.outcomes[0].reason.code, Code::NotSeen);
    model.requests();
    sent(&model, &["update robot", "update status cloud"]);
}
