//! Whatever happens in whatever order: at rest the copies are those that are wanted, and nothing else is
//! left.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Waker};

use proptest::prelude::*;
use proptest::test_runner::TestCaseResult;

use super::*;
use hawser_sync::{Answer, Cluster, Failure, run};

pub(super) const C: &str = "c1";
pub(super) const OBJECTS: [&str; 2] = ["a", "b"];
pub(super) const SECRETS: [&str; 3] = ["s0", "s1", "s2"];

#[derive(Clone, Debug)]
pub(super) enum Event {
    Create(usize),
    Delete(usize),
    /// What an object refers to from now on.
    Up(usize, Option<usize>),
    Down(usize, Option<usize>),
    /// A consumer's or a provider's Secret gets a value or goes.
    Provide(usize, Option<u8>),
    Issue(usize, Option<u8>),
    /// A consumer deletes what it was given, a provider's what came along.
    Drop(usize),
    LocalDelete(usize),
    Pass(usize),
    /// A pass in which the process is killed when it sends its nth request, before or after that is
    /// carried out; then it starts anew.
    Killed(usize, usize, bool),
    /// The process starts anew with or without entries.
    Restart(bool),
}

/// What a process that is killed reaches of the servers.
struct Killed<'a> {
    hands: &'a Rehearsal,
    left: AtomicUsize,
    after: bool,
}

impl Cluster for Killed<'_> {
    async fn send(&self, request: &Request) -> Answer {
        let nothing = || Answer::Failed(Failure::Unavailable("killed".to_owned()));
        let less = |left: usize| left.checked_sub(1);
        let order = Ordering::Relaxed;
        match self.left.fetch_update(order, order, less) {
            Ok(1) if self.after => {
                self.hands.send(request).await;
                nothing()
            }
            Ok(1) | Err(_) => nothing(),
            Ok(_) => self.hands.send(request).await,
        }
    }
}

fn event() -> impl Strategy<Value = Event> {
    let (who, secret, v) = (0..2_usize, 0..3_usize, 0..3_u8);
    let reference = || prop::option::of(0..3_usize);
    prop_oneof![
        3 => who.clone().prop_map(Event::Create),
        2 => who.clone().prop_map(Event::Delete),
        4 => (who.clone(), reference()).prop_map(|(w, s)| Event::Up(w, s)),
        4 => (who.clone(), reference()).prop_map(|(w, s)| Event::Down(w, s)),
        4 => (secret.clone(), prop::option::of(v.clone())).prop_map(|(s, v)| Event::Provide(s, v)),
        4 => (secret.clone(), prop::option::of(v)).prop_map(|(s, v)| Event::Issue(s, v)),
        1 => secret.prop_map(Event::Drop),
        1 => who.clone().prop_map(Event::LocalDelete),
        8 => who.clone().prop_map(Event::Pass),
        3 => (who, 0..8_usize, any::<bool>()).prop_map(|(w, n, after)| Event::Killed(w, n, after)),
        1 => any::<bool>().prop_map(Event::Restart),
    ]
}

pub(super) fn spec(entries: bool) -> Value {
    if !entries {
        return json!({});
    }
    // Under names of their own, so that copies never meet originals.
    let object = |path: &str, side: &str| {
        let prefix = |name: &str| {
            format!("{{{{ with .Object.spec.{path} }}}}{name}{{{{ . }}}}{{{{ end }}}}")
        };
        let (copy, original) = (
            prefix(&format!("{path}-copy-")),
            prefix(&format!("{path}-")),
        );
        let text =
            format!("{{{{ if eq .Side \"{side}\" }}}}{original}{{{{ else }}}}{copy}{{{{ end }}}}");
        json!({"template": {"template": text}})
    };
    let mut down = entry("down", "service", object("down", "service"));
    down["cleanup"] = true.into();
    json!({"related": [entry("up", "kcp", object("up", "kcp")), down]})
}

pub(super) struct Keys {
    pub(super) up: Key,
    pub(super) up_copy: Key,
    pub(super) down: Key,
    pub(super) down_copy: Key,
}

pub(super) fn keys(stage: &Stage, secret: usize) -> Keys {
    let name = SECRETS[secret];
    Keys {
        up: stage.secret("kcp", C, "default", &format!("up-{name}")),
        up_copy: stage.secret("service", "", C, &format!("up-copy-{name}")),
        down: stage.secret("service", "", C, &format!("down-{name}")),
        down_copy: stage.secret("kcp", C, "default", &format!("down-copy-{name}")),
    }
}

fn write(stage: &Stage, key: &Key, value: Option<u8>) {
    match (value, stage.hands.object(key)) {
        (Some(v), Some(_)) => {
            stage
                .hands
                .patch(key, json!({"data": {"k": v.to_string()}}));
        }
        (Some(v), None) => stage.put(key, &v.to_string()),
        (None, _) => {
            stage.hands.delete(key);
        }
    }
}

/// What consumers and providers do.
pub(super) fn by_hand(stage: &Stage, event: &Event) {
    let refer = |who: usize, field: &str, to: Option<usize>| {
        let to = to.map(|secret| SECRETS[secret]);
        stage.set(C, OBJECTS[who], json!({ field: to }));
    };
    match event {
        Event::Create(w) => {
            if stage.hands.object(&stage.anchor(C, OBJECTS[*w])).is_none() {
                stage.create(C, OBJECTS[*w], json!({"up": "s0", "down": "s0"}));
            }
        }
        Event::Delete(w) => {
            stage.hands.delete(&stage.anchor(C, OBJECTS[*w]));
        }
        Event::Up(w, to) => refer(*w, "up", *to),
        Event::Down(w, to) => refer(*w, "down", *to),
        Event::Provide(s, v) => write(stage, &keys(stage, *s).up, *v),
        Event::Issue(s, v) => write(stage, &keys(stage, *s).down, *v),
        Event::Drop(s) => {
            let keys = keys(stage, *s);
            stage.hands.delete(&keys.up_copy);
            stage.hands.delete(&keys.down_copy);
        }
        Event::LocalDelete(n) => {
            let all = stage.hands.objects();
            let mut copies = all.keys().filter(|key| key.kind.kind == "Thing");
            if let Some(copy) = copies.nth(*n) {
                stage.hands.delete(copy);
            }
        }
        Event::Pass(_) | Event::Killed(..) | Event::Restart(_) => {}
    }
}

pub(super) fn happen(stage: &mut Stage, event: &Event) {
    match event {
        Event::Pass(w) => {
            stage.quiet = false;
            stage.pass(C, OBJECTS[*w]);
            stage.quiet = true;
        }
        Event::Killed(w, nth, after) => {
            stage.quiet = false;
            let front = Front {
                stage,
                rules: stage.rules(C, OBJECTS[*w]),
            };
            let killed = Killed {
                hands: &stage.hands,
                left: (*nth).into(),
                after: *after,
            };
            futures::executor::block_on(run(&front, None, &stage.hands, &killed));
            stage.quiet = true;
            happen(stage, &Event::Restart(true));
        }
        Event::Restart(entries) => {
            stage.restarted(spec(*entries));
            let known = OBJECTS.into_iter().filter(|name| stage.has_state(name));
            stage.claim_recorded(C, &known.collect::<Vec<_>>());
        }
        event => by_hand(stage, event),
    }
}

/// The requests of a pass, one for each time that it is polled.
struct InTurn<'a> {
    stage: &'a Stage,
    name: &'a str,
}

impl Cluster for InTurn<'_> {
    async fn send(&self, request: &Request) -> Answer {
        futures::pending!();
        let answer = self.stage.hands.send(request).await;
        // What a memory records is known at once.
        if matches!(&answer, Answer::Object(_)) && self.stage.has_state(self.name) {
            self.stage.claim_recorded(C, &[self.name]);
        }
        answer
    }
}

/// Passes over both objects at once, whose requests take these turns. Before each turn something else may happen.
fn pass_together(stage: &Stage, turns: &[bool], mut before: impl FnMut(usize)) {
    let fronts = OBJECTS.map(|name| Front {
        stage,
        rules: stage.rules(C, name),
    });
    let clusters = OBJECTS.map(|name| InTurn { stage, name });
    let run = |n: usize| Box::pin(run(&fronts[n], None, &stage.hands, &clusters[n]));
    let mut passes = [Some(run(0)), Some(run(1))];
    let mut context = Context::from_waker(Waker::noop());
    let then = [false, true].into_iter().cycle();
    for (number, turn) in turns.iter().copied().chain(then).enumerate() {
        before(number);
        let pass = &mut passes[usize::from(turn)];
        if let Some(running) = pass
            && Future::poll(running.as_mut(), &mut context).is_ready()
        {
            *pass = None;
        }
        if passes.iter().all(Option::is_none) {
            break;
        }
    }
}

#[test]
fn what_is_held_is_let_go_again_whichever_request_the_process_was_killed_at() {
    for nth in 0..12 {
        for after in [false, true] {
            let mut stage = Stage::of(spec(true));
            let events = [
                Event::Provide(0, Some(0)),
                Event::Create(0),
                Event::Killed(0, nth, after),
                Event::Up(0, None),
                Event::Pass(0),
            ];
            for event in &events {
                happen(&mut stage, event);
            }
            stage.rest(C, OBJECTS[0]);
            let Keys { up, up_copy, .. } = keys(&stage, 0);
            let up = stage.hands.object(&up).unwrap();
            assert_eq!(up.finalizers().count(), 0, "killed at {nth}, {after}");
            assert_eq!(stage.value(&up_copy), None, "killed at {nth}, {after}");
        }
    }
}

pub(super) fn cases(default: u32) -> ProptestConfig {
    let asked = std::env::var("PROPTEST_CASES");
    let asked = asked.ok().and_then(|n| n.parse().ok());
    ProptestConfig::with_cases(asked.unwrap_or(default))
}

/// The process starts anew, and passes follow until there is nothing left to do, and for longer.
pub(super) fn come_to_rest(stage: &mut Stage) {
    happen(stage, &Event::Restart(true));
    stage.quiet = false;
    for name in OBJECTS {
        stage.pass(C, name);
    }
    stage.quiet = true;
    for _ in 0..4 {
        for name in OBJECTS {
            stage.pass(C, name);
        }
    }
    for name in OBJECTS {
        stage.rest(C, name);
    }
}

/// Whether an object refers to a Secret.
pub(super) fn referred(stage: &Stage, field: &str, name: &str) -> bool {
    OBJECTS.iter().any(|object| {
        let found = stage.hands.object(&stage.anchor(C, object));
        found.is_some_and(|found| found.as_value()["spec"][field] == *name)
    })
}

/// The copies are those that are wanted, and nothing else is left.
fn at_rest(stage: &Stage) -> TestCaseResult {
    let mut wanted = 0;
    for (number, name) in SECRETS.iter().enumerate() {
        let keys = keys(stage, number);
        for (field, original, copy) in [
            ("up", &keys.up, &keys.up_copy),
            ("down", &keys.down, &keys.down_copy),
        ] {
            let want = stage
                .value(original)
                .filter(|_| referred(stage, field, name));
            prop_assert_eq!(stage.value(copy), want.clone(), "{} {}", field, name);
            wanted += usize::from(want.is_some());
            if let Some(original) = stage.hands.object(original) {
                let held = original.has_finalizer(marks::FINALIZER);
                prop_assert_eq!(held, field == "up" && want.is_some(), "{} {}", field, name);
                prop_assert!(!original.in_deletion());
            }
        }
    }
    prop_assert!(stage.remembered() >= wanted);
    for name in OBJECTS {
        let Some(anchor) = stage.hands.object(&stage.anchor(C, name)) else {
            continue;
        };
        let given = anchor.as_value()["spec"]["down"]
            .as_str()
            .is_some_and(|secret| {
                let number = SECRETS.iter().position(|other| *other == secret);
                number.is_some_and(|n| stage.value(&keys(stage, n).down).is_some())
            });
        let told = stage.annotations(C, name);
        prop_assert_eq!(told.len(), usize::from(given), "{} tells {:?}", name, told);
    }
    for name in OBJECTS {
        let anchor = stage.hands.object(&stage.anchor(C, name));
        prop_assert!(anchor.is_none_or(|anchor| !anchor.in_deletion()));
    }
    if OBJECTS
        .iter()
        .all(|name| stage.hands.object(&stage.anchor(C, name)).is_none())
    {
        prop_assert_eq!(stage.remembered(), 0);
    }
    Ok(())
}

/// The histories that properties once failed with, as they were shortened.
#[test]
fn histories_that_once_came_out_wrong_come_out_right() {
    use Event::{Create, Delete, Down, Drop, Issue, Killed, Pass, Provide, Up};
    for events in [
        vec![
            Issue(0, Some(0)),
            Create(1),
            Killed(1, 7, true),
            Create(0),
            Delete(1),
            Pass(0),
            Pass(1),
            Delete(0),
        ],
        vec![
            Issue(0, Some(1)),
            Create(0),
            Create(1),
            Pass(0),
            Drop(0),
            Pass(1),
            Down(1, None),
            Issue(0, Some(0)),
            Pass(1),
            Issue(0, None),
        ],
        vec![
            Provide(0, Some(0)),
            Create(1),
            Pass(1),
            Up(1, None),
            Killed(1, 2, false),
            Up(1, Some(0)),
        ],
        vec![
            Create(1),
            Pass(1),
            Down(1, None),
            Issue(0, Some(0)),
            Killed(1, 1, true),
            Down(1, Some(0)),
        ],
        vec![
            Provide(0, Some(0)),
            Create(1),
            Pass(1),
            Provide(0, Some(1)),
            Killed(1, 2, true),
            Provide(0, Some(0)),
        ],
        vec![
            Create(0),
            Provide(0, Some(0)),
            Pass(0),
            Create(1),
            Delete(0),
            Provide(0, None),
            Pass(1),
            Pass(0),
        ],
        vec![
            Create(1),
            Issue(0, Some(2)),
            Pass(1),
            Issue(0, Some(0)),
            Create(0),
            Down(1, None),
        ],
        vec![
            Create(1),
            Up(1, Some(2)),
            Pass(1),
            Provide(2, Some(0)),
            Killed(1, 2, false),
            Up(1, None),
        ],
        vec![
            Create(1),
            Pass(1),
            Provide(0, Some(0)),
            Killed(1, 6, false),
            Drop(0),
            Create(0),
            Pass(0),
            Delete(0),
            Up(1, None),
        ],
        vec![
            Create(0),
            Provide(0, Some(0)),
            Pass(0),
            Provide(0, None),
            Up(0, None),
        ],
        vec![
            Provide(0, Some(0)),
            Create(0),
            Create(1),
            Pass(0),
            Pass(1),
            Drop(0),
            Pass(0),
            Delete(0),
            Pass(0),
            Provide(0, Some(1)),
        ],
        vec![
            Issue(0, Some(0)),
            Create(0),
            Create(1),
            Pass(0),
            Pass(1),
            Drop(0),
            Pass(0),
            Delete(0),
            Pass(0),
            Issue(0, Some(1)),
        ],
    ] {
        let mut stage = Stage::of(spec(true));
        for event in &events {
            happen(&mut stage, event);
        }
        come_to_rest(&mut stage);
        at_rest(&stage).unwrap_or_else(|wrong| panic!("{wrong} after {events:?}"));
    }
}

impl Stage {
    fn has_state(&self, name: &str) -> bool {
        let subject = subject_of(self.rules(C, name));
        self.hands.object(&subject.memory.unwrap().key).is_some()
    }
}

proptest! {
    #![proptest_config(cases(200))]
    #[test]
    fn at_rest_there_are_the_copies_that_are_wanted_and_nothing_else(
        events in prop::collection::vec(event(), 1..40)
    ) {
        let mut stage = Stage::of(spec(true));
        for event in &events {
            happen(&mut stage, event);
        }
        come_to_rest(&mut stage);
        at_rest(&stage)?;
    }

    #[test]
    fn a_copy_that_two_objects_create_at_once_is_deleted_with_the_last(
        turns in prop::collection::vec(any::<bool>(), 0..40),
        first in any::<bool>(),
        // When somebody else creates such an object.
        other in prop::option::of(0..40_usize),
    ) {
        let mut stage = Stage::of(spec(true));
        let Keys { up, up_copy, .. } = keys(&stage, 0);
        stage.put(&up, "1");
        for name in OBJECTS {
            stage.create(C, name, json!({"up": "s0"}));
        }
        stage.quiet = false;
        let mut existed = false;
        pass_together(&stage, &turns, |turn| {
            if other == Some(turn) && stage.hands.object(&up_copy).is_none() {
                stage.put(&up_copy, "1");
                existed = true;
            }
        });
        let [first, last] = if first { OBJECTS } else { [OBJECTS[1], OBJECTS[0]] };
        stage.hands.delete(&stage.anchor(C, first));
        stage.pass(C, first);
        stage.pass(C, last);
        stage.quiet = true;
        stage.rest(C, first);
        prop_assert!(stage.hands.object(&stage.anchor(C, first)).is_none());
        prop_assert_eq!(stage.value(&up_copy), Some("1".to_owned()));
        prop_assert!(stage.hands.object(&up).unwrap().has_finalizer(marks::FINALIZER));
        stage.hands.delete(&stage.anchor(C, last));
        stage.rest(C, last);
        prop_assert_eq!(stage.value(&up_copy).is_some(), existed);
        prop_assert_eq!(stage.hands.object(&up).unwrap().finalizers().count(), 0);
    }
}
