//! Consumers and providers lay hands on originals and copies, between passes and in the middle of them.
//! At rest the copies are those that are wanted, what others made is as they made it, and nobody hangs.

use std::sync::atomic::{AtomicUsize, Ordering};

use proptest::prelude::*;
use proptest::test_runner::TestCaseResult;

use super::properties::{
    C, Event, Keys, OBJECTS, SECRETS, by_hand, cases, come_to_rest, happen, keys, referred, spec,
};
use super::*;
use hawser_sync::{Answer, Cluster, run};

/// The value in copies that others made. No original has it.
const FOREIGN: &str = "foreign";

#[derive(Clone, Debug)]
enum Hand {
    Plain(Event),
    /// An original is replaced by another one, past all finalizers.
    Swap(usize, u8),
    /// Others put an object of their own where a copy would be.
    Foreign(usize),
    /// Others put the same there.
    Twin(usize),
    /// A field that the original does not have is added to a copy.
    Add(usize, u8),
    /// A consumer changes what it was given.
    Forge(usize),
}

#[derive(Clone, Debug)]
enum Turn {
    Hand(Hand),
    Pass(usize),
    /// A pass, with something done by hand as it sends its nth request.
    Amid(usize, usize, Hand),
    Killed(usize, usize, bool),
    Restart,
}

fn hand() -> impl Strategy<Value = Hand> {
    let (who, secret, v) = (0..2_usize, 0..2_usize, 0..3_u8);
    let reference = || prop::option::of(0..2_usize);
    let value = || prop::option::of(0..3_u8);
    prop_oneof![
        3 => who.clone().prop_map(|w| Hand::Plain(Event::Create(w))),
        2 => who.clone().prop_map(|w| Hand::Plain(Event::Delete(w))),
        3 => (who.clone(), reference()).prop_map(|(w, s)| Hand::Plain(Event::Up(w, s))),
        3 => (who.clone(), reference()).prop_map(|(w, s)| Hand::Plain(Event::Down(w, s))),
        4 => (secret.clone(), value()).prop_map(|(s, v)| Hand::Plain(Event::Provide(s, v))),
        4 => (secret.clone(), value()).prop_map(|(s, v)| Hand::Plain(Event::Issue(s, v))),
        1 => secret.clone().prop_map(|s| Hand::Plain(Event::Drop(s))),
        1 => who.prop_map(|w| Hand::Plain(Event::LocalDelete(w))),
        2 => (secret.clone(), v.clone()).prop_map(|(s, v)| Hand::Swap(s, v)),
        1 => secret.clone().prop_map(Hand::Foreign),
        1 => secret.clone().prop_map(Hand::Twin),
        1 => (secret.clone(), v).prop_map(|(s, v)| Hand::Add(s, v)),
        1 => secret.prop_map(Hand::Forge),
    ]
}

fn turn() -> impl Strategy<Value = Turn> {
    let (who, nth) = (0..2_usize, 0..12_usize);
    prop_oneof![
        8 => hand().prop_map(Turn::Hand),
        4 => who.clone().prop_map(Turn::Pass),
        2 => (who.clone(), nth.clone(), hand()).prop_map(|(w, n, h)| Turn::Amid(w, n, h)),
        2 => (who, nth, any::<bool>()).prop_map(|(w, n, after)| Turn::Killed(w, n, after)),
        1 => Just(Turn::Restart),
    ]
}

/// What others made and what they added to copies.
#[derive(Default)]
struct Theirs {
    made: BTreeMap<Key, String>,
    added: BTreeMap<String, String>,
}

fn uid(stage: &Stage, key: &Key) -> Option<String> {
    stage.hands.object(key)?.uid().map(str::to_owned)
}

/// Whether some memory has a text in its records.
fn is_remembered(stage: &Stage, text: &str) -> bool {
    let all = stage.hands.objects();
    let mut records = all.values().filter_map(|object| {
        let records = object.as_value()["data"]["hawser.records"].as_str()?;
        let records = base64::engine::general_purpose::STANDARD.decode(records);
        String::from_utf8(records.unwrap()).ok()
    });
    records.any(|records| records.contains(text))
}

fn lay_hands(stage: &Stage, theirs: &mut Theirs, hand: &Hand) {
    match hand {
        Hand::Plain(event) => {
            if let Event::Drop(s) = event {
                let Keys {
                    up_copy, down_copy, ..
                } = keys(stage, *s);
                theirs
                    .made
                    .retain(|key, _| *key != up_copy && *key != down_copy);
            }
            by_hand(stage, event);
        }
        Hand::Swap(s, v) => {
            let up = keys(stage, *s).up;
            if stage.hands.object(&up).is_some() {
                let finalizers = json!({"metadata": {"finalizers": null}});
                stage.hands.patch(&up, finalizers);
                stage.hands.delete(&up);
                stage.put(&up, &v.to_string());
            }
        }
        Hand::Foreign(s) => {
            let Keys {
                up_copy, down_copy, ..
            } = keys(stage, *s);
            for copy in [up_copy, down_copy] {
                if stage.hands.object(&copy).is_none() {
                    stage.put(&copy, FOREIGN);
                    theirs.made.insert(copy.clone(), uid(stage, &copy).unwrap());
                }
            }
        }
        Hand::Twin(s) => {
            let keys = keys(stage, *s);
            for (original, copy) in [(&keys.up, &keys.up_copy), (&keys.down, &keys.down_copy)] {
                let Some(value) = stage.value(original) else {
                    continue;
                };
                // What stands where one of ours was last is told from it by nothing but its content.
                if stage.hands.object(copy).is_none() && !is_remembered(stage, &copy.name) {
                    stage.put(copy, &value);
                    theirs.made.insert(copy.clone(), uid(stage, copy).unwrap());
                }
            }
        }
        Hand::Add(s, v) => {
            let Keys {
                up_copy, down_copy, ..
            } = keys(stage, *s);
            for copy in [up_copy, down_copy] {
                let known = uid(stage, &copy).filter(|uid| is_remembered(stage, uid));
                if let Some(known) = known {
                    let added = v.to_string();
                    stage.hands.patch(&copy, json!({"data": {"own": added}}));
                    theirs.added.insert(known, added);
                }
            }
        }
        Hand::Forge(s) => {
            let copy = keys(stage, *s).down_copy;
            if uid(stage, &copy).is_some_and(|uid| is_remembered(stage, &uid)) {
                stage.hands.patch(&copy, json!({"data": {"k": "forged"}}));
            }
        }
    }
}

/// The servers, while somebody meddles.
struct Amid<'a> {
    stage: &'a Stage,
    left: AtomicUsize,
    hand: &'a Hand,
    theirs: parking_lot::Mutex<&'a mut Theirs>,
}

impl Cluster for Amid<'_> {
    async fn send(&self, request: &Request) -> Answer {
        let order = Ordering::Relaxed;
        let less = |left: usize| left.checked_sub(1);
        if self.left.fetch_update(order, order, less) == Ok(1) {
            lay_hands(self.stage, &mut self.theirs.lock(), self.hand);
        }
        self.stage.hands.send(request).await
    }
}

fn play(stage: &mut Stage, theirs: &mut Theirs, turn: &Turn) {
    match turn {
        Turn::Hand(hand) => lay_hands(stage, theirs, hand),
        Turn::Pass(w) => happen(stage, &Event::Pass(*w)),
        Turn::Killed(w, nth, after) => happen(stage, &Event::Killed(*w, *nth, *after)),
        Turn::Restart => happen(stage, &Event::Restart(true)),
        Turn::Amid(w, nth, hand) => {
            let stage: &Stage = stage;
            let front = Front {
                stage,
                rules: stage.rules(C, OBJECTS[*w]),
            };
            let amid = Amid {
                stage,
                left: (*nth).into(),
                hand,
                theirs: parking_lot::Mutex::new(theirs),
            };
            futures::executor::block_on(run(&front, None, &stage.hands, &amid));
        }
    }
}

/// The servers, where somebody makes an object right before the agent makes its own in that place.
struct JustBefore<'a> {
    stage: &'a Stage,
    key: &'a Key,
    value: Option<&'a str>,
}

impl Cluster for JustBefore<'_> {
    async fn send(&self, request: &Request) -> Answer {
        let hands = &self.stage.hands;
        if let Request::Create { key, .. } = request
            && key == self.key
            && hands.object(key).is_none()
        {
            match self.value {
                Some(value) => self.stage.put(key, value),
                None => hands.put(
                    key,
                    &Object::empty(&key.kind, key.namespace.as_deref(), &key.name),
                ),
            }
        }
        hands.send(request).await
    }
}

#[test]
fn what_somebody_makes_right_before_the_agent_does_is_theirs_though_it_is_the_same() {
    for value in [None, Some("1")] {
        for restart in [false, true] {
            let mut stage = Stage::of(spec(true));
            let Keys { up, up_copy, .. } = keys(&stage, 0);
            match value {
                Some(value) => stage.put(&up, value),
                None => stage.hands.put(
                    &up,
                    &Object::empty(&up.kind, up.namespace.as_deref(), &up.name),
                ),
            }
            let name = OBJECTS[0];
            stage.create(C, name, json!({"up": SECRETS[0]}));
            let front = Front {
                stage: &stage,
                rules: stage.rules(C, name),
            };
            let cluster = JustBefore {
                stage: &stage,
                key: &up_copy,
                value,
            };
            for _ in 0..3 {
                futures::executor::block_on(run(&front, None, &stage.hands, &cluster));
            }
            let theirs = uid(&stage, &up_copy).unwrap();
            if restart {
                stage.restarted(spec(true));
            }
            let code = match value {
                Some(_) => Code::InStep,
                None => Code::AdoptionRefused,
            };
            assert_eq!(stage.rest(C, name), [code], "{value:?}");
            stage.hands.delete(&stage.anchor(C, name));
            stage.rest(C, name);
            assert!(stage.hands.object(&stage.anchor(C, name)).is_none());
            assert_eq!(uid(&stage, &up_copy), Some(theirs), "{value:?}");
            assert_eq!(stage.hands.object(&up).unwrap().finalizers().count(), 0);
        }
    }
}

fn check(stage: &Stage, theirs: &Theirs) -> TestCaseResult {
    for (key, uid) in &theirs.made {
        let now = stage.hands.object(key);
        prop_assert_eq!(
            now.as_ref().and_then(|o| o.uid()),
            Some(&**uid),
            "{} is gone",
            key
        );
    }
    for object in stage.hands.objects().values() {
        let added = object.uid().and_then(|uid| theirs.added.get(uid));
        if let Some(added) = added {
            prop_assert_eq!(&object.as_value()["data"]["own"], added);
        }
        prop_assert!(!object.in_deletion(), "{} hangs", object.name());
    }
    for (number, name) in SECRETS.iter().enumerate() {
        let keys = keys(stage, number);
        for (field, original, copy) in [
            ("up", &keys.up, &keys.up_copy),
            ("down", &keys.down, &keys.down_copy),
        ] {
            let refers = referred(stage, field, name);
            let want = stage.value(original).filter(|_| refers);
            let found = stage.value(copy);
            let is_theirs = theirs.made.contains_key(copy);
            if !is_theirs {
                prop_assert_eq!(&found, &want, "{} {}", field, name);
            } else if found.as_deref() != Some(FOREIGN) && want.is_some() {
                // It was taken over, or could not be because the original had changed by then.
                prop_assert!(found.is_some());
            }
            if let Some(original) = stage.hands.object(original) {
                let held = original.has_finalizer(marks::FINALIZER);
                let may = field == "up" && want.is_some();
                let must = may && !is_theirs;
                prop_assert!(held <= may && held >= must, "{} {} {}", field, name, held);
            }
        }
    }
    if OBJECTS
        .iter()
        .all(|name| stage.hands.object(&stage.anchor(C, name)).is_none())
    {
        let kept = theirs.made.len();
        prop_assert!(stage.remembered() <= kept, "{}", stage.remembered());
    }
    Ok(())
}

proptest! {
    #![proptest_config(cases(200))]
    #[test]
    fn whatever_hands_do_amid_passes_the_copies_are_right_and_what_others_made_stays(
        turns in prop::collection::vec(turn(), 1..40)
    ) {
        let mut stage = Stage::of(spec(true));
        let mut theirs = Theirs::default();
        for turn in &turns {
            play(&mut stage, &mut theirs, turn);
        }
        come_to_rest(&mut stage);
        check(&stage, &theirs)?;
    }
}
