//! Tables over virtual time, and properties.

use proptest::prelude::*;

use super::*;

const OPTIONS: BrakeOptions = BrakeOptions {
    share: 50,
    at_least: 20,
    window: Duration::from_mins(1),
};

fn at(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

fn brake() -> Brake<usize> {
    Brake::new(OPTIONS, 7)
}

/// Nobody has nearly all.
fn tenant(key: usize) -> &'static str {
    ["a", "b", "c"][key % 3]
}

/// Asks for so many copies at one time and counts what may go.
fn ask_all(
    brake: &mut Brake<usize>,
    keys: impl IntoIterator<Item = usize>,
    now: Duration,
    total: usize,
) -> usize {
    let verdicts = keys
        .into_iter()
        .map(|key| brake.ask(&key, tenant(key), now, total));
    verdicts.filter(|verdict| *verdict == Verdict::Go).count()
}

/// Of so many copies all are to go at once: how many do.
#[track_caller]
fn check(total: usize, gone: usize) {
    let mut brake = brake();
    assert_eq!(ask_all(&mut brake, 0..total, at(0), total), gone);
    assert_eq!(brake.count(), total - gone);
    assert_eq!(brake.held().len(), usize::from(total > gone));
}

#[test]
fn a_mass_is_more_than_the_share_and_twenty_at_least() {
    check(0, 0);
    check(1, 1);
    check(19, 19);
    check(20, 19);
    check(30, 19);
    check(39, 19);
    check(40, 20);
    check(41, 20);
    check(1000, 500);
}

#[test]
fn who_clears_a_workspace_means_it_and_holds_up_nobody() {
    let mut brake = brake();
    let all = (0..90).filter(|key| brake.ask(key, "a", at(0), 100) == Verdict::Go);
    assert_eq!(all.count(), 90);
    assert_eq!(brake.ask(&95, "b", at(1), 10), Verdict::Go);
}

#[test]
fn copies_that_vanish_while_others_are_asked_for_do_not_shrink_the_whole() {
    let mut brake = brake();
    let go = (0..100).filter(|key| brake.ask(key, tenant(*key), at(0), 100 - key) == Verdict::Go);
    assert_eq!(go.count(), 50);
}

#[test]
fn asking_again_counts_once() {
    let mut brake = brake();
    for second in 0..59 {
        assert_eq!(ask_all(&mut brake, 0..19, at(second), 20), 19);
    }
    assert_eq!(brake.held(), vec![]);
}

#[test]
fn what_left_the_window_does_not_count() {
    let mut brake = brake();
    assert_eq!(ask_all(&mut brake, 0..19, at(100), 30), 19);
    assert_eq!(ask_all(&mut brake, 30..31, at(159), 30), 0);
    let mut brake = self::brake();
    assert_eq!(ask_all(&mut brake, 0..19, at(100), 30), 19);
    assert_eq!(ask_all(&mut brake, 30..49, at(160), 30), 19);
}

#[test]
fn while_a_mass_is_held_every_deletion_of_the_kind_is() {
    let mut brake = brake();
    ask_all(&mut brake, 0..100, at(0), 100);
    let hold = brake.held().remove(0);
    assert_eq!((hold.count, hold.why, hold.since), (50, Why::Mass, at(0)));
    let verdict = brake.ask(&500, "b", at(3600), 100);
    assert_eq!(verdict, Verdict::Held(hold.id.clone()));
    assert_eq!((brake.held()[0].id.clone(), brake.count()), (hold.id, 51));
}

#[test]
fn an_approval_lets_go_what_was_held_and_nothing_that_comes_later() {
    let mut brake = brake();
    ask_all(&mut brake, 0..100, at(0), 100);
    let first = brake.held()[0].id.clone();
    assert!(!brake.approve("something else"));
    assert!(!brake.approve(""));
    assert!(brake.approve(&format!("something, {first}")));
    assert_eq!(brake.held(), vec![]);
    assert_eq!(ask_all(&mut brake, 50..100, at(1), 50), 50);

    // Half of what is there counts as gone already within this window.
    assert_eq!(ask_all(&mut brake, 200..210, at(2), 100), 0);
    let second = brake.held()[0].id.clone();
    assert_ne!(first, second);
    assert!(!brake.approve(&first.0), "an old approval");
    assert_eq!(brake.count(), 10);
    assert!(brake.approve(&second.0));
}

#[test]
fn a_hold_ends_when_nothing_it_holds_is_wanted_gone_any_more() {
    let mut brake = brake();
    ask_all(&mut brake, 0..100, at(0), 100);
    for key in 50..99 {
        brake.withdraw(&key, at(10));
    }
    brake.tick(at(10_000));
    assert_eq!(brake.count(), 1, "silence is no answer");
    brake.withdraw(&99, at(10_000));
    assert_eq!(brake.held(), vec![]);
    assert_eq!(brake.ask(&1, tenant(1), at(10_000), 50), Verdict::Go);
}

#[test]
fn a_cause_holds_the_first_deletion_until_it_is_gone() {
    for cause in [
        Cause::Definition,
        Cause::Endpoint("https://one".into()),
        Cause::EmptiedList("https://one".into()),
        Cause::Binding("a".into()),
    ] {
        let mut brake = brake();
        brake.cause(cause.clone(), Phase::Begins);
        brake.cause(cause.clone(), Phase::Begins);
        assert!(matches!(brake.ask(&1, "a", at(0), 100), Verdict::Held(_)));
        assert_eq!(brake.held()[0].why, Why::Cause(cause.clone()));
        brake.cause(Cause::Binding("other".into()), Phase::Ends);
        assert_eq!(brake.count(), 1);
        brake.cause(cause, Phase::Ends);
        assert_eq!(brake.held(), vec![]);
        assert_eq!(brake.ask(&1, "a", at(1), 100), Verdict::Go);
    }
}

#[test]
fn a_lost_binding_holds_its_own_workspace_only() {
    let mut brake = brake();
    brake.cause(Cause::Binding("a".into()), Phase::Begins);
    assert_eq!(brake.ask(&1, "b", at(0), 100), Verdict::Go);
    assert!(matches!(brake.ask(&2, "a", at(0), 100), Verdict::Held(_)));
}

#[test]
fn an_approval_of_a_cause_does_not_count_when_it_comes_back() {
    let mut brake = brake();
    brake.cause(Cause::Definition, Phase::Begins);
    ask_all(&mut brake, [1], at(0), 100);
    assert!(brake.approve(&brake.held()[0].id.0.clone()));
    assert_eq!(ask_all(&mut brake, [1], at(1), 100), 1);
    assert_eq!(ask_all(&mut brake, [2], at(1), 100), 0);
    brake.cause(Cause::Definition, Phase::Ends);
    brake.cause(Cause::Definition, Phase::Begins);
    assert_eq!(ask_all(&mut brake, [1], at(2), 100), 0);
}

#[test]
fn what_is_held_for_two_reasons_needs_both_to_go() {
    let mut brake = brake();
    ask_all(&mut brake, 0..100, at(0), 100);
    brake.cause(Cause::Definition, Phase::Begins);
    assert_eq!(ask_all(&mut brake, 50..100, at(1), 50), 0);
    let [mass, cause] = &brake.held()[..] else {
        panic!("two holds: {:?}", brake.held());
    };
    let (mass, cause) = (mass.id.clone(), cause.id.clone());
    assert_eq!(brake.count(), 50);
    assert!(brake.approve(&mass.0));
    assert_eq!(ask_all(&mut brake, 50..100, at(2), 50), 0);
    assert!(brake.approve(&cause.0));
    assert_eq!(ask_all(&mut brake, 50..100, at(3), 50), 50);
}

#[test]
fn the_end_of_a_cause_does_not_let_a_mass_go() {
    let mut brake = brake();
    brake.cause(Cause::Definition, Phase::Begins);
    assert_eq!(ask_all(&mut brake, 0..100, at(0), 100), 0);
    brake.cause(Cause::Definition, Phase::Ends);
    assert_eq!(ask_all(&mut brake, 0..100, at(1), 100), 50);
    assert_eq!(brake.held()[0].why, Why::Mass);
}

#[test]
fn a_restart_is_no_approval() {
    let mut brake = brake();
    brake.resume("hold-1", at(0));
    brake.resume("hold-1", at(0));
    brake.tick(at(60));
    let held = brake.ask(&1, tenant(1), at(60), 100);
    assert_eq!(held, Verdict::Held(HoldId("hold-1".into())));
    brake.tick(at(6000));
    assert_eq!(brake.count(), 1);
    assert!(brake.approve("hold-1"));
    assert_eq!(brake.ask(&1, tenant(1), at(6000), 100), Verdict::Go);

    let mut brake = self::brake();
    brake.resume("hold-1", at(0));
    brake.tick(at(599));
    assert_eq!(brake.held().len(), 1);
    brake.tick(at(600));
    assert_eq!(brake.held(), vec![], "nothing asked for what it held");
}

#[test]
fn ids_differ_between_processes_and_between_holds() {
    let mut seen = HashSet::new();
    for seed in 0..50 {
        let mut brake: Brake<usize> = Brake::new(OPTIONS, seed);
        for key in 0..50 {
            brake.cause(Cause::Definition, Phase::Begins);
            ask_all(&mut brake, [key], at(0), 100);
            assert!(seen.insert(brake.held()[0].id.clone()));
            brake.cause(Cause::Definition, Phase::Ends);
        }
    }
}

#[test]
fn extreme_numbers_overflow_nothing() {
    let mut brake: Brake<usize> = Brake::new(OPTIONS, u64::MAX);
    assert_eq!(
        brake.ask(&1, tenant(1), Duration::MAX, usize::MAX),
        Verdict::Go
    );
    assert_eq!(brake.ask(&1, tenant(1), Duration::ZERO, 0), Verdict::Go);
    brake.resume("hold", Duration::MAX);
    brake.tick(Duration::MAX);
}

#[test]
fn a_mass_that_is_there_from_the_start_is_held_whole() {
    let mut brake = brake();
    let options = OPTIONS;
    brake.weigh(options.at_least - 1, options.at_least, at(0));
    brake.weigh(options.at_least, options.at_least * 2, at(0));
    assert_eq!(brake.held(), [], "neither is a mass");
    brake.weigh(options.at_least, options.at_least, at(0));
    brake.weigh(options.at_least, options.at_least, at(0));
    let [hold] = &*brake.held() else {
        panic!("{:?}", brake.held());
    };
    let id = hold.id.clone();
    let held = brake.ask(&1, "1", at(0), options.at_least);
    assert_eq!(held, Verdict::Held(id.clone()));
    assert!(brake.approve(&id.0));
    assert_eq!(brake.ask(&1, "1", at(1), options.at_least), Verdict::Go);
}

proptest! {
    #[test]
    fn single_deletions_further_apart_than_the_window_are_never_held(
        gaps in prop::collection::vec(60u64..10_000, 1..60),
        total in 0usize..100,
    ) {
        let mut brake = brake();
        let mut now = 0;
        for (key, gap) in gaps.into_iter().enumerate() {
            prop_assert_eq!(brake.ask(&key, tenant(key), at(now), total), Verdict::Go);
            now += gap;
        }
    }

    #[test]
    fn of_a_mass_in_any_order_exactly_the_share_goes(
        total in 0usize..200,
        share in 0u8..=100,
        at_least in 0usize..40,
        asked in prop::collection::vec((0usize..200, 0u64..59), 0..500),
    ) {
        let options = BrakeOptions { share, at_least, ..OPTIONS };
        let mut brake = Brake::new(options, 1);
        let mut asked = asked;
        asked.sort_by_key(|(_, second)| *second);
        let mut went = HashSet::new();
        let mut held = HashSet::new();
        for (key, second) in asked {
            // What was let go is not held in its middle, nor is anything let go that is held.
            match brake.ask(&key, &key.to_string(), at(second), total) {
                Verdict::Go => {
                    prop_assert!(!held.contains(&key));
                    went.insert(key);
                }
                Verdict::Held(_) => {
                    prop_assert!(!went.contains(&key));
                    held.insert(key);
                }
            }
        }
        let share = total * usize::from(share) / 100;
        let bound = share.max(at_least.saturating_sub(1));
        prop_assert!(went.len() <= bound, "{} went of {}", went.len(), total);
        prop_assert!(held.is_empty() || went.len() == bound);
        prop_assert_eq!(brake.count(), held.len());
    }

    #[test]
    fn an_approval_releases_exactly_the_hold_it_names(
        bound in prop::collection::btree_set(0usize..6, 1..6),
        keys in prop::collection::vec((0usize..100, 0usize..6), 1..60),
        named in 0usize..6,
    ) {
        let mut brake = brake();
        let tenant = |number: usize| format!("tenant {number}");
        for number in &bound {
            brake.cause(Cause::Binding(tenant(*number).into()), Phase::Begins);
        }
        // A key belongs to one tenant.
        let keys: std::collections::BTreeMap<usize, usize> = keys.into_iter().collect();
        for (key, number) in &keys {
            brake.ask(key, &tenant(*number), at(0), 1000);
        }
        let before = brake.held();
        let why = Why::Cause(Cause::Binding(tenant(named).into()));
        let id = before.iter().find(|hold| hold.why == why).map(|hold| hold.id.clone());
        let was_there = brake.approve(id.as_ref().map_or("none", |id| &*id.0));
        prop_assert_eq!(was_there, id.is_some());
        let others: Vec<_> = before.into_iter().filter(|hold| hold.why != why).collect();
        prop_assert_eq!(brake.held(), others);
        for (key, number) in &keys {
            let free = *number == named || !bound.contains(number);
            let verdict = brake.ask(key, &tenant(*number), at(1), 1000);
            prop_assert_eq!(verdict == Verdict::Go, free);
        }
    }
}
