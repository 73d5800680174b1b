//! The engine against the model: budgets, orders, and one test for each property.

use serde_json::{Value, json};

use super::model::{FINALIZER, Fault, Front, Stage, svc};
use super::reason::{Class, Code};
use super::request::{Effect, Request};
use super::subject::{AdoptedOnDelete, Adoption, Intent};

fn one() -> (Stage, Front) {
    let front = Front::new("c1", "a");
    (Stage::new(vec![front.clone()]), front)
}

/// A stage with one object in step.
fn in_step(spec: Value) -> (Stage, Front) {
    let (stage, front) = one();
    stage.world.put(&front.source(), &json!({"spec": spec}));
    stage.settle();
    (stage, front)
}

#[track_caller]
fn code(stage: &Stage, front: &Front) -> Code {
    stage.cache.deliver(&stage.world, |_| true);
    stage.pass(front).outcomes[0].reason.code
}

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
    assert_eq!(stage.writes(&front), [""; 0]);
    let copy = stage.world.get(&front.copy_key()).unwrap();
    assert_eq!(copy.as_value()["spec"], json!({"size": 1}));
}
