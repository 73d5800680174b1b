//! Properties of the engine over random histories, faults and caches that lag.

use std::cell::Cell;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use proptest::prelude::*;
use proptest::test_runner::TestCaseResult;
use serde_json::{Value, json};

use kube_lang::object::Object;

use super::drift::{DriftMode, DriftRules};
use super::key::Key;
use super::link::DriftPolicy;
use super::model::{Fault, Front, Stage};
use super::reason::{Class, Code};

/// The actions of consumers, providers, networks and schedulers.
#[derive(Clone, Debug)]
enum Event {
    Create(usize, u8),
    Set(usize, u8, u8),
    Unset(usize, u8),
    Label(usize, Option<u8>),
    Delete(usize),
    LocalField(usize, u8),
    LocalEdit(usize, u8, Option<u8>),
    LocalLabel(usize, u8),
    LocalDelete(usize),
    Unmark(usize),
    Status(usize, u8),
    Credentials(usize, Option<u8>),
    Config(usize, Option<u8>),
    LoseState(usize),
    Hear(u64),
    Pass(usize),
    Restart(usize),
    Unknown(bool),
    Break(usize, Fault),
}

fn fault() -> impl Strategy<Value = Fault> {
    prop_oneof![
        Just(Fault::CrashBefore),
        Just(Fault::CrashAfter),
        Just(Fault::LostBefore),
        Just(Fault::LostAfter),
    ]
}

fn event() -> impl Strategy<Value = Event> {
    let who = 0..2_usize;
    let v = 0..4_u8;
    prop_oneof![
        4 => (who.clone(), v.clone()).prop_map(|(w, v)| Event::Create(w, v)),
        4 => (who.clone(), v.clone(), v.clone()).prop_map(|(w, f, v)| Event::Set(w, f, v)),
        2 => (who.clone(), v.clone()).prop_map(|(w, f)| Event::Unset(w, f)),
        2 => (who.clone(), prop::option::of(v.clone())).prop_map(|(w, v)| Event::Label(w, v)),
        1 => who.clone().prop_map(Event::Delete),
        2 => (who.clone(), v.clone()).prop_map(|(w, v)| Event::LocalField(w, v)),
        1 => (who.clone(), v.clone()).prop_map(|(w, v)| Event::LocalLabel(w, v)),
        1 => who.clone().prop_map(Event::LocalDelete),
        1 => who.clone().prop_map(Event::Unmark),
        2 => (who.clone(), v.clone()).prop_map(|(w, v)| Event::Status(w, v)),
        2 => (who.clone(), prop::option::of(v.clone())).prop_map(|(w, v)| Event::Credentials(w, v)),
        2 => (who.clone(), prop::option::of(v)).prop_map(|(w, v)| Event::Config(w, v)),
        1 => who.clone().prop_map(Event::LoseState),
        6 => any::<u64>().prop_map(Event::Hear),
        8 => who.prop_map(Event::Pass),
        1 => (0..6_usize).prop_map(Event::Restart),
        1 => any::<bool>().prop_map(Event::Unknown),
        3 => (0..6_usize, fault()).prop_map(|(n, f)| Event::Break(n, f)),
    ]
}

/// Creates, changes or deletes a related object.
fn related(stage: &Stage, key: &Key, value: Option<u8>) {
    match value {
        Some(v) if stage.world.get(key).is_some() => {
            stage
                .world
                .patch(key, json!({"data": {"k": v.to_string()}}));
        }
        Some(v) => stage.world.put(key, &json!({"data": {"k": v.to_string()}})),
        None => {
            stage.world.delete(key);
        }
    }
}

fn happen(stage: &Stage, event: &Event) {
    let front = |w: &usize| &stage.fronts[*w];
    let world = &stage.world;
    match event {
        Event::Create(w, v) => {
            let source = front(w).source();
            if world.get(&source).is_none() {
                world.put(&source, &json!({"spec": {"f0": v}}));
            }
        }
        Event::Set(w, f, v) => {
            world.patch(
                &front(w).source(),
                json!({"spec": {format!("f{f}"): {"v": v}}}),
            );
        }
        Event::Unset(w, f) => {
            world.patch(&front(w).source(), json!({"spec": {format!("f{f}"): null}}));
        }
        Event::Label(w, v) => {
            let label = v.map(|v| v.to_string());
            world.patch(
                &front(w).source(),
                json!({"metadata": {"labels": {"mine": label}}}),
            );
        }
        Event::Delete(w) => {
            world.delete(&front(w).source());
        }
        Event::LocalField(w, v) => {
            world.patch(&front(w).copy_key(), json!({"spec": {"local": v}}));
        }
        Event::LocalEdit(w, f, v) => {
            let value = v.map(|v| json!({"v": v}));
            world.patch(
                &front(w).copy_key(),
                json!({"spec": {format!("f{f}"): value}}),
            );
        }
        Event::LocalLabel(w, v) => {
            let label = v.to_string();
            world.patch(
                &front(w).copy_key(),
                json!({"metadata": {"labels": {"x/own": label}}}),
            );
        }
        Event::LocalDelete(w) => {
            world.delete(&front(w).copy_key());
        }
        Event::Unmark(w) => {
            let labels = json!({"t/name": null, "t/agent": null});
            world.patch(
                &front(w).copy_key(),
                json!({"metadata": {"labels": labels}}),
            );
        }
        Event::Status(w, v) => {
            world.set_status(&front(w).copy_key(), json!({"seen": v}));
        }
        Event::Credentials(w, v) => related(stage, &front(w).credentials().0, *v),
        Event::Config(w, v) => related(stage, &front(w).config().0, *v),
        Event::LoseState(w) => {
            world.delete(&front(w).memory());
        }
        Event::Hear(mask) => stage.cache.deliver(world, |n| mask >> (n % 64) & 1 == 1),
        Event::Pass(w) => {
            stage.pass(front(w));
            if world.crashed() {
                stage.cache.restart(world, 2);
            }
        }
        Event::Restart(behind) => stage.cache.restart(world, *behind),
        Event::Unknown(unknown) => stage.cache.set_unknown(*unknown),
        Event::Break(n, fault) => {
            world.plan_faults(HashMap::from([(world.sent() + n, *fault)]));
        }
    }
}

/// The faults stop, and everything comes to rest.
fn rest(stage: &Stage) {
    stage.world.plan_faults(HashMap::new());
    stage.cache.restart(&stage.world, 0);
    stage.cache.set_unknown(false);
    stage.settle();
}

/// The differences that a history allows.
#[derive(Clone, Copy)]
struct Grace {
    /// A state was lost: values that the source no longer has may stay on the copy.
    lost: bool,
}

fn at_rest(stage: &Stage, front: &Front, Grace { lost }: Grace) -> TestCaseResult {
    let source = stage.world.get(&front.source());
    let copy = stage.world.get(&front.copy_key());
    let Some(source) = source else {
        prop_assert!(copy.is_none(), "orphaned: {copy:?}");
        prop_assert!(front.kept(&stage.world), "state left");
        return Ok(());
    };
    let copy = copy.expect("a living source has a copy");
    let of = |object: &Object, pointer: &str| object.as_value().pointer(pointer).cloned();
    let mut spec = of(&copy, "/spec").unwrap_or_default();
    if let Some(spec) = spec.as_object_mut() {
        spec.remove("local");
    }
    let mut wanted = of(&source, "/spec").unwrap_or_default();
    for field in ["f0", "f1", "f2", "f3"] {
        if lost && wanted.get(field).is_none() {
            wanted[field] = spec.get(field).cloned().unwrap_or_default();
            spec[field] = wanted[field].clone();
        }
    }
    prop_assert_eq!(spec, wanted);
    let mine = "/metadata/labels/mine";
    let (had, wanted) = (of(&copy, mine), of(&source, mine));
    prop_assert!(
        had == wanted || (lost && wanted.is_none()),
        "{:?} {:?}",
        had,
        wanted
    );
    prop_assert_eq!(of(&copy, "/status"), of(&source, "/status"));
    // A related copy has no marks. Once the state is lost, a copy that differs cannot be told from another's object,
    // and is not changed.
    let related = [front.credentials(), front.config()];
    for (origin, target) in related.into_iter().filter(|_| !lost) {
        let data = |key| stage.world.get(key).and_then(|object| of(&object, "/data"));
        prop_assert_eq!(data(&origin), data(&target));
    }
    Ok(())
}

fn fronts() -> Vec<Front> {
    ["c1", "c2"]
        .map(|cluster| Front {
            related: true,
            ..Front::new(cluster, "a")
        })
        .into()
}

fn event_or_edit() -> impl Strategy<Value = Event> {
    let edit = (0..2_usize, 0..4_u8, prop::option::of(0..4_u8));
    prop_oneof![
        8 => event(),
        1 => edit.prop_map(|(w, f, v)| Event::LocalEdit(w, f, v)),
    ]
}

fn with_drift(mut fronts: Vec<Front>, mode: DriftMode) -> Vec<Front> {
    let rules = DriftRules::new(vec![(vec!["spec".to_owned()], mode)]);
    for front in &mut fronts {
        front.policy.drift = Some(DriftPolicy {
            rules: Arc::new(rules.clone()),
            finds_kept: false,
            manager: "own",
            known: None,
        });
    }
    fronts
}

/// Whether a value has all fields of another one.
fn contains(value: &Value, wanted: &Value) -> bool {
    match wanted.as_object() {
        Some(wanted) => wanted
            .iter()
            .all(|(key, wanted)| contains(&value[key], wanted)),
        None => value == wanted,
    }
}

/// Local values change only by local edits: `local` and `x/own` of one incarnation.
fn local_values_stay(stage: &Stage, events: &[Event], front: &Front) -> TestCaseResult {
    let by_hand = events
        .iter()
        .any(|e| matches!(e, Event::LocalField(..) | Event::LocalLabel(..)));
    let history = stage.world.history(&front.copy_key());
    let pairs = history.iter().zip(history.iter().skip(1));
    for (old, new) in pairs {
        let (Some(old), Some(new)) = (old, new) else {
            continue;
        };
        let had = |o: &Object, p: &str| o.as_value().pointer(p).cloned();
        for pointer in ["/spec/local", "/metadata/labels/x~1own"] {
            let (old, new) = (had(old, pointer), had(new, pointer));
            prop_assert!(old.is_none() || new.is_some(), "a local value was removed");
            prop_assert!(by_hand || new.is_none());
        }
    }
    Ok(())
}

fn cases(default: u32) -> ProptestConfig {
    let asked = std::env::var("PROPTEST_CASES")
        .ok()
        .and_then(|n| n.parse().ok());
    ProptestConfig {
        cases: asked.unwrap_or(default),
        failure_persistence: None,
        ..ProptestConfig::default()
    }
}

/// Deletes all sources; nothing stays of them.
fn nothing_is_left(stage: &Stage) -> TestCaseResult {
    for front in &stage.fronts {
        stage.world.delete(&front.source());
    }
    stage.settle();
    let leftovers = stage.leftovers();
    prop_assert!(leftovers.is_empty(), "{:?}", leftovers);
    Ok(())
}

proptest! {
    #![proptest_config(cases(1200))]

    /// Whatever happens on both sides and in between: at rest, both sides agree, local changes are kept, no copy or
    /// mark is orphaned, and no request is sent any more.
    #[test]
    fn after_any_history_both_sides_agree_and_nothing_is_left(
        events in prop::collection::vec(event(), 1..60)
    ) {
        let stage = Stage::new(fronts());
        for event in &events {
            happen(&stage, event);
        }
        rest(&stage);
        let any = |of: fn(&Event) -> bool| events.iter().any(of);
        let grace = Grace {
            lost: any(|event| matches!(event, Event::LoseState(_))),
        };
        for front in &stage.fronts {
            at_rest(&stage, front, grace)?;
            local_values_stay(&stage, &events, front)?;
        }
        nothing_is_left(&stage)?;
    }

    /// A copy whose drift is reverted has every field of its source at rest, whatever others change in it.
    #[test]
    fn whatever_others_change_is_reverted_at_rest(
        events in prop::collection::vec(event_or_edit(), 1..60)
    ) {
        let stage = Stage::new(with_drift(fronts(), DriftMode::Revert));
        for event in &events {
            happen(&stage, event);
        }
        rest(&stage);
        for front in &stage.fronts {
            let Some(source) = stage.world.get(&front.source()) else { continue };
            let copy = stage.world.get(&front.copy_key()).expect("a living source has a copy");
            for (field, wanted) in source.as_value()["spec"].as_object().into_iter().flatten() {
                prop_assert!(contains(&copy.as_value()["spec"][field], wanted), "{}: {:?}", field, copy);
            }
        }
        nothing_is_left(&stage)?;
    }

    /// Without rules about drift, and with rules that keep all of it, every request is the same.
    #[test]
    fn drift_that_is_kept_changes_no_request(
        events in prop::collection::vec(event_or_edit(), 1..60)
    ) {
        let run = |fronts: Vec<Front>| {
            let stage = Stage::new(fronts);
            for event in &events {
                happen(&stage, event);
            }
            rest(&stage);
            stage.world.take_log()
        };
        prop_assert_eq!(run(fronts()), run(with_drift(fronts(), DriftMode::Keep)));
    }

    /// Two consumers whose names collide, whatever they do: a copy never changes hands while it
    /// lives, is never filled with the other's content, and its status goes to its owner only.
    #[test]
    fn no_input_of_one_consumer_reaches_the_copy_of_another(
        events in prop::collection::vec(event(), 1..60)
    ) {
        let both = colliding();
        let stage = Stage::new(both.clone());
        for event in &events {
            happen(&stage, event);
        }
        rest(&stage);
        let history = stage.world.history(&both[0].copy_key());
        let mut owner: Option<(String, String)> = None;
        for object in history.into_iter().flatten() {
            let uid = object.uid().unwrap_or_default().to_owned();
            let who = object.annotation("t/source").unwrap_or_default().to_owned();
            match &owner {
                Some((known, before)) if *known == uid => prop_assert_eq!(before, &who),
                _ => owner = Some((uid, who)),
            }
        }
        let living = both.iter().filter(|f| stage.world.get(&f.source()).is_some()).count();
        prop_assert_eq!(stage.world.get(&both[0].copy_key()).is_some(), living > 0);
        for front in &both {
            let Seen { code, class } = Seen::of(&stage, front);
            prop_assert!(class == Class::Settled || code == Code::NameConflict, "{}", code);
        }
        for front in &both {
            stage.world.delete(&front.source());
        }
        stage.settle();
        let leftovers = stage.leftovers();
        prop_assert!(leftovers.is_empty(), "{:?}", leftovers);
    }

    /// The order in which a subject lists its links decides nothing.
    #[test]
    fn the_order_of_links_does_not_matter(
        events in prop::collection::vec(event(), 1..30)
    ) {
        let run = |reversed: bool| {
            let mut fronts = fronts();
            for front in &mut fronts {
                front.reversed = reversed;
            }
            let stage = Stage::new(fronts);
            let quiet = |event: &&Event| !matches!(event, Event::Break(..) | Event::Hear(_));
            for event in events.iter().filter(quiet) {
                happen(&stage, event);
                if matches!(event, Event::Pass(_)) {
                    stage.cache.set_unknown(false);
                    stage.settle();
                }
            }
            rest(&stage);
            plain(&stage)
        };
        prop_assert_eq!(run(false), run(true));
    }
}

/// A process is killed after it has added a field. The source takes the field back, and the next process starts with
/// lists that are older than the state and the copy.
#[test]
fn lists_that_lag_behind_a_crash_leave_nothing_on_the_copy() {
    let stage = Stage::new(fronts());
    let first = [
        Event::Create(0, 0),
        Event::Create(1, 0),
        Event::Set(1, 0, 0),
        Event::Hear(27_558_926_691_006_112),
        Event::Pass(1),
        Event::Set(1, 3, 0),
        Event::Break(2, Fault::CrashBefore),
        Event::Set(1, 0, 1),
        Event::Unset(1, 3),
        Event::Restart(1),
        Event::Pass(1),
        Event::Pass(0),
        Event::Pass(1),
    ];
    for event in &first {
        happen(&stage, event);
    }
    rest(&stage);
    let spec = |key| stage.world.get(key).unwrap().as_value()["spec"].clone();
    let front = &stage.fronts[1];
    assert_eq!(spec(&front.copy_key()), spec(&front.source()));
}

/// A process is killed right after it released a related original, which ends before the next process lists it. The
/// state of an object that is gone is deleted all the same.
#[test]
fn an_original_that_ends_after_it_was_let_go_by_a_killed_process_leaves_no_state() {
    let let_go = |stage: &Stage| {
        let held = stage.world.get(&stage.fronts[0].config().0);
        held.is_some_and(|original| !original.has_finalizer(super::model::FINALIZER))
    };
    let mut killed_after = Vec::new();
    for n in 0..40 {
        let stage = Stage::new(fronts());
        for event in [Event::Config(0, Some(1)), Event::Create(0, 1)] {
            happen(&stage, &event);
        }
        stage.settle();
        happen(&stage, &Event::Delete(0));
        happen(&stage, &Event::Break(n, Fault::CrashAfter));
        for _ in 0..6 {
            stage.cache.deliver(&stage.world, |_| true);
            if !stage.world.crashed() {
                stage.pass(&stage.fronts[0]);
            }
        }
        if stage.world.crashed() && let_go(&stage) {
            killed_after.push(n);
        }
        happen(&stage, &Event::Config(0, None));
        rest(&stage);
        let leftovers = stage.leftovers();
        assert!(
            leftovers.is_empty(),
            "killed after request {n}: {leftovers:?}"
        );
    }
    assert!(!killed_after.is_empty());
}

struct Seen {
    code: Code,
    class: Class,
}

impl Seen {
    fn of(stage: &Stage, front: &Front) -> Self {
        let code = stage.pass(front).outcomes[0].reason.code;
        Self {
            code,
            class: code.class(),
        }
    }
}

/// The control planes, without values that differ from run to run.
fn plain(stage: &Stage) -> BTreeMap<Key, Value> {
    let strip = |(key, object): (Key, Object)| {
        let mut value = object.into_value();
        if let Some(metadata) = value["metadata"].as_object_mut() {
            for field in ["uid", "resourceVersion", "creationTimestamp"] {
                metadata.remove(field);
            }
        }
        if let Some(entries) = value["entries"].as_object_mut() {
            // A crash may change whether the uid and the execution of a change are recorded, but not the state itself.
            for entry in entries.values_mut() {
                entry["uid"] = Value::Null;
                entry["how"] = Value::Null;
                entry["announced"] = Value::Null;
            }
        }
        (key, value)
    };
    stage.world.all().into_iter().map(strip).collect()
}

/// A fixed history: everything that can be done to one object, with its related ones.
fn scenario(stage: &Stage, upto: impl Fn(&Stage)) {
    let steps: Vec<Vec<Event>> = vec![
        vec![
            Event::Credentials(0, Some(1)),
            Event::Config(0, Some(1)),
            Event::Create(0, 1),
        ],
        vec![
            Event::Set(0, 1, 1),
            Event::Label(0, Some(1)),
            Event::LocalField(0, 3),
        ],
        vec![
            Event::Status(0, 1),
            Event::Credentials(0, Some(2)),
            Event::Config(0, Some(2)),
        ],
        vec![Event::Unset(0, 1), Event::Label(0, None), Event::Unmark(0)],
        vec![Event::Credentials(0, None), Event::Config(0, None)],
        vec![
            Event::LocalDelete(0),
            Event::Credentials(0, Some(3)),
            Event::Config(0, Some(3)),
        ],
        vec![Event::Delete(0)],
        vec![Event::Create(0, 2)],
    ];
    for events in steps {
        for event in &events {
            happen(stage, event);
        }
        upto(stage);
    }
}

#[test]
fn a_crash_before_or_after_any_request_changes_nothing_about_the_end() {
    let stage = || Stage::new(vec![fronts().swap_remove(0)]);
    let calm = stage();
    scenario(&calm, |stage| {
        stage.settle();
    });
    let (requests, end) = (calm.world.sent(), plain(&calm));
    assert!(requests > 40, "{requests}");
    let faults = [
        Fault::CrashBefore,
        Fault::CrashAfter,
        Fault::LostBefore,
        Fault::LostAfter,
    ];
    for n in 0..requests {
        for fault in faults {
            for behind in [0, 1, 3] {
                let stage = stage();
                stage.world.plan_faults(HashMap::from([(n, fault)]));
                scenario(&stage, |stage| {
                    stage.cache.deliver(&stage.world, |_| true);
                    stage.pass(&stage.fronts[0]);
                    if stage.world.crashed() {
                        stage.cache.restart(&stage.world, behind);
                        stage.pass(&stage.fronts[0]);
                    }
                    stage.settle();
                });
                assert_eq!(
                    plain(&stage),
                    end,
                    "{fault:?} at request {n}, {behind} behind"
                );
            }
        }
    }
}

/// A state is deleted, which the agent sees, and created again with an answer that gets lost. Then its object turns out
/// to be in deletion. The earlier deletion of the state proves nothing any more.
#[test]
fn a_state_that_was_made_without_an_answer_goes_with_its_object() {
    let stage = Stage::new(colliding());
    for event in [
        Event::Create(1, 0),
        Event::Create(0, 0),
        Event::Set(0, 2, 2),
        Event::Restart(1),
        Event::Break(3, Fault::CrashBefore),
        Event::LocalField(0, 0),
        Event::Label(0, None),
        Event::Pass(1),
        Event::Status(0, 0),
        Event::Status(0, 0),
        Event::LoseState(1),
        Event::Create(0, 0),
        Event::Set(1, 0, 0),
        Event::Break(3, Fault::LostAfter),
        Event::Hear(3_604_232_680_954_238_976),
        Event::Delete(1),
        Event::Pass(1),
    ] {
        happen(&stage, &event);
    }
    rest(&stage);
    for front in &stage.fronts {
        stage.world.delete(&front.source());
    }
    stage.settle();
    let leftovers = stage.leftovers();
    assert!(leftovers.is_empty(), "{leftovers:?}");
}

/// A consumer deletes a related copy. It is made again, and the answer gets lost. Its object is deleted before an event
/// shows the copy.
#[test]
fn a_related_copy_that_was_made_without_an_answer_goes_with_its_object() {
    let front = Front {
        related: true,
        cleans_up: true,
        ..Front::new("c1", "a")
    };
    let stage = Stage::new(vec![front]);
    let front = &stage.fronts[0];
    happen(&stage, &Event::Create(0, 0));
    happen(&stage, &Event::Credentials(0, Some(0)));
    stage.settle();
    stage.world.delete(&front.credentials().1);
    stage.cache.deliver(&stage.world, |_| true);
    // Before it, the source is read and the state is written.
    happen(&stage, &Event::Break(2, Fault::LostAfter));
    stage.pass(front);
    assert!(stage.world.get(&front.credentials().1).is_some());
    happen(&stage, &Event::Delete(0));
    // The newest event is the first one.
    let is_newest = Cell::new(true);
    stage
        .cache
        .deliver(&stage.world, |_| is_newest.replace(false));
    stage.pass(front);
    stage.settle();
    assert_eq!(stage.world.get(&front.credentials().1), None);
}

/// Two objects of two workspaces with the same name for their copies.
fn colliding() -> Vec<Front> {
    let mut both = ["c1", "c2"].map(|cluster| Front::new(cluster, "a"));
    for front in &mut both {
        front.copy = "same".into();
    }
    both.into()
}
