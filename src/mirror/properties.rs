//! Properties over random events, stale caches and lost requests: in the end both sides are in sync, and nothing more
//! is sent.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::definition::{
    Definition, FILTER_BY_ROBOT_NAME, Plane, ROBOT_NAME, RobotSpecSource, SPEC_SOURCE,
    STATUS_SUBTREE, Settings, Status,
};
use super::model::{Fault, Model, definition};

const NAME: &str = "a";

#[derive(Clone, Debug)]
enum Event {
    Spec(Plane, Option<u8>),
    Label(Plane, Option<u8>),
    Annotation(Plane, Option<u8>),
    Finalizer(Plane, bool),
    Status(Option<u8>),
    Delete(Plane),
    Hear(Plane),
    Pass,
    Restart,
    Break(Fault),
}

fn event() -> impl Strategy<Value = Event> {
    let plane = || prop_oneof![Just(Plane::Cloud), Just(Plane::Robot)];
    let value = || prop::option::of(0..3_u8);
    let fault = prop_oneof![
        Just(Fault::LostBefore),
        Just(Fault::LostAfter),
        Just(Fault::Refused)
    ];
    prop_oneof![
        4 => (plane(), value()).prop_map(|(p, v)| Event::Spec(p, v)),
        2 => (plane(), value()).prop_map(|(p, v)| Event::Label(p, v)),
        2 => (plane(), value()).prop_map(|(p, v)| Event::Annotation(p, v)),
        2 => (plane(), any::<bool>()).prop_map(|(p, v)| Event::Finalizer(p, v)),
        4 => value().prop_map(Event::Status),
        2 => plane().prop_map(Event::Delete),
        8 => plane().prop_map(Event::Hear),
        8 => Just(Event::Pass),
        1 => Just(Event::Restart),
        2 => fault.prop_map(Event::Break),
    ]
}

fn happen(model: &Model, event: &Event) {
    let owner = model.definition.owner;
    let put = |plane: Plane, change: Value| {
        // Only its owner makes an object.
        if plane == owner || model.get(plane, NAME).is_some() {
            model.put(plane, NAME, &change);
        }
    };
    match event {
        Event::Spec(plane, value) => {
            let spec = value.map(|value| json!({"goal": value}));
            put(*plane, json!({"spec": spec}));
        }
        Event::Label(plane, value) => {
            let label = value.map(|value| value.to_string());
            put(*plane, json!({"metadata": {"labels": {"l": label}}}));
        }
        Event::Annotation(plane, value) => {
            let annotation = value.map(|value| value.to_string());
            put(
                *plane,
                json!({"metadata": {"annotations": {"n": annotation}}}),
            );
        }
        Event::Finalizer(plane, held) => {
            let finalizers = held.then(|| json!(["theirs"]));
            put(*plane, json!({"metadata": {"finalizers": finalizers}}));
        }
        Event::Status(value) => {
            let status = value.map(|value| json!({"robot": value, "more": {"x": value}}));
            let copy = owner.other();
            if model.get(copy, NAME).is_some() {
                model.put(copy, NAME, &json!({"status": status}));
            }
        }
        Event::Delete(plane) => model.delete(*plane, NAME),
        Event::Hear(plane) => model.hear(*plane, NAME),
        Event::Pass => {
            model.pass(NAME);
        }
        Event::Restart => model.restart(),
        Event::Break(fault) => model.fault(*fault),
    }
}

fn definitions() -> impl Strategy<Value = Definition> {
    let status = prop_oneof![Just(Status::Subresource), Just(Status::InObject)];
    (status, any::<bool>(), any::<bool>()).prop_map(|(status, subtree, robot)| {
        let mut annotations = json!({});
        if subtree {
            annotations[STATUS_SUBTREE] = "robot".into();
        }
        if robot {
            annotations[SPEC_SOURCE] = "robot".into();
            annotations[FILTER_BY_ROBOT_NAME] = "true".into();
        }
        let settings = Settings {
            robot_spec_source: RobotSpecSource::Enabled,
            ..Settings::of_robot("r1")
        };
        definition(status, &annotations, settings)
    })
}

proptest! {
    #[test]
    fn in_the_end_both_sides_are_in_step(
        definition in definitions(),
        events in prop::collection::vec(event(), 0..60),
    ) {
        let model = Model::new(definition);
        for event in &events {
            happen(&model, event);
        }
        model.heal();
        let (owner, other) = (model.definition.owner, model.definition.owner.other());
        // Whoever holds something lets go.
        for plane in [owner, other] {
            if model.get(plane, NAME).is_some() {
                model.put(plane, NAME, &json!({"metadata": {"finalizers": null}}));
            }
        }
        model.settle(NAME);
        let pair = (model.get(owner, NAME), model.get(other, NAME));
        let (Some(source), Some(copy)) = pair else {
            prop_assert_eq!(pair, (None, None));
            return Ok(());
        };
        prop_assert_eq!(source.root().get("spec"), copy.root().get("spec"));
        let labels = |object: &kube_lang::object::Object| object.as_value()["metadata"]["labels"].clone();
        let none = |value: Value| if value == json!({}) { Value::Null } else { value };
        prop_assert_eq!(none(labels(&source)), none(labels(&copy)));
        prop_assert_eq!(source.annotation("n"), copy.annotation("n"));
        prop_assert_eq!(copy.label(ROBOT_NAME), None);
        if let Some(status) = copy.root().get("status") {
            let own = &source.as_value()["status"];
            prop_assert_eq!(&own["robot"], &status["robot"]);
        }
        // Nothing is left to do after a restart either.
        model.requests();
        model.restart();
        prop_assert_eq!(model.pass(NAME).requests, 0);
    }
}
