//! Tables over virtual time, and properties.

use proptest::prelude::*;

use super::*;

const OPTIONS: BrakeOptions = BrakeOptions {
    share: 50,
    at_least: 20,
    few: 0,
    window: Duration::from_mins(1),
};

fn at(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

fn brake() -> Brake<usize> {
    Brake::new(OPTIONS, 7)
}

/// Each copy stands for itself.
fn ask(brake: &mut Brake<usize>, key: usize, now: Duration, copies: usize) -> Verdict {
    brake.ask(&key, &key.to_string(), now, CopyCounts::of_nobody(copies))
}

/// Asks for so many copies at one time and counts what may go.
fn ask_all(
    brake: &mut Brake<usize>,
    keys: impl IntoIterator<Item = usize>,
    now: Duration,
    total: usize,
) -> usize {
    let verdicts = keys.into_iter().map(|key| ask(brake, key, now, total));
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

/// Tenants and how many copies each has, all of which are to go one tenant after the other, or side by side:
/// how many go.
fn cleared(tenants: &[usize], bystanders: usize, side_by_side: bool) -> usize {
    let copies = tenants.iter().sum::<usize>() + bystanders;
    let mut brake = Brake::new(BrakeOptions::default(), 7);
    let mut order: Vec<(usize, usize)> = (0..tenants.len())
        .flat_map(|tenant| (0..tenants[tenant]).map(move |copy| (tenant, copy)))
        .collect();
    if side_by_side {
        order.sort_by_key(|(_, copy)| *copy);
    }
    let asked = order.into_iter().map(|(tenant, copy)| {
        let stock = CopyCounts {
            copies,
            of_tenant: tenants[tenant],
            tenants: tenants.len() + bystanders,
        };
        brake.ask(
            &(tenant * 100_000 + copy),
            &tenant.to_string(),
            at(0),
            stock,
        )
    });
    asked.filter(|verdict| *verdict == Verdict::Go).count()
}

#[test]
fn who_clears_a_workspace_or_two_means_it_and_holds_up_nobody() {
    assert_eq!(cleared(&[90], 10, false), 90);
    assert_eq!(cleared(&[900, 900], 1, false), 1800);
    // With what others delete at the same time, and with a third name beside enough others.
    assert_eq!(cleared(&[900, 900, 1], 0, false), 1801);
    assert_eq!(cleared(&[900, 900, 5, 5], 0, true), 1810);
    assert_eq!(cleared(&[900, 900, 900], 2, false), 2700);
    assert_eq!(cleared(&[900, 900, 900, 900], 4, true), 3600);
}

#[test]
fn many_tenants_that_lose_much_are_a_mass() {
    assert_eq!(cleared(&[10; 8], 0, true), 42);
    // Who has lost little goes on up to a quarter.
    assert_eq!(cleared(&[10; 100], 0, false), 510 + 49 * 2);
    assert_eq!(cleared(&[10; 100], 0, true), 502);
    assert_eq!(cleared(&[1; 1000], 0, false), 501);
    // One of them has nearly everything.
    let mut sizes = [1; 100];
    sizes[0] = 10_000;
    assert_eq!(cleared(&sizes, 0, false), 10_050);
}

#[test]
fn who_makes_and_deletes_all_day_has_one_vote() {
    let mut brake = Brake::new(BrakeOptions::default(), 7);
    let stock = CopyCounts {
        copies: 30,
        of_tenant: 2,
        tenants: 10,
    };
    for key in 0..1000 {
        for tenant in ["a", "b", "c"] {
            assert_eq!(brake.ask(&(key, tenant), tenant, at(0), stock), Verdict::Go);
        }
    }
    assert_eq!(brake.ask(&(0, "d"), "d", at(1), stock), Verdict::Go);
}

#[test]
fn copies_that_vanish_while_others_are_asked_for_do_not_shrink_the_whole() {
    let mut brake = brake();
    let go = (0..100).filter(|key| ask(&mut brake, *key, at(0), 100 - key) == Verdict::Go);
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
fn while_a_mass_goes_on_it_holds_whoever_loses_much_and_later_only_whom_it_holds() {
    let mut brake = brake();
    ask_all(&mut brake, 0..100, at(0), 100);
    let hold = brake.held().remove(0);
    assert_eq!(
        (hold.count, hold.why, hold.since),
        (50, HoldReason::Mass, at(0))
    );
    let held = Verdict::Held(hold.id.clone());
    assert_eq!(ask(&mut brake, 500, at(59), 100), held);
    // Who is held stays held, with whatever else of it is to go.
    assert_eq!(ask(&mut brake, 99, at(3600), 100), held);
    let stock = CopyCounts::of_nobody(100);
    assert_eq!(brake.ask(&501, "99", at(3600), stock), held);
    assert_eq!(ask(&mut brake, 600, at(3600), 100), Verdict::Go);
    assert_eq!((brake.held()[0].id.clone(), brake.count()), (hold.id, 52));
}

/// Tenants with as many copies each, of which the first so many delete all of theirs at the same time.
fn stormed(tenants: usize, each: usize, attackers: usize) -> (Brake<(usize, usize)>, CopyCounts) {
    let mut brake = Brake::new(BrakeOptions::default(), 7);
    let stock = CopyCounts {
        copies: tenants * each,
        of_tenant: each,
        tenants,
    };
    for tenant in 0..attackers {
        for copy in 0..each {
            brake.ask(&(tenant, copy), &tenant.to_string(), at(0), stock);
        }
    }
    (brake, stock)
}

#[test]
fn who_has_more_than_half_of_all_tenants_holds_only_its_own() {
    for (attackers, each) in [(60, 10), (90, 10), (60, 1), (98, 1)] {
        let (mut brake, stock) = stormed(100, each, attackers);
        assert!(brake.count() > 0, "{attackers} with {each}");
        // Another one deletes a little meanwhile, and whatever it wants afterwards.
        if each > 1 {
            for copy in 0..each / 4 {
                assert_eq!(brake.ask(&(99, copy), "99", at(1), stock), Verdict::Go);
            }
        }
        for copy in 0..each {
            let verdict = brake.ask(&(99, copy), "99", at(61), stock);
            assert_eq!(verdict, Verdict::Go, "{attackers} with {each}: {copy}");
        }
    }
}

#[test]
fn a_second_mass_among_those_that_are_left_is_held_as_well() {
    let (mut brake, stock) = stormed(100, 10, 52);
    let first = brake.count();
    let stock = CopyCounts {
        copies: 490,
        tenants: 49,
        ..stock
    };
    let gone = (52..100).flat_map(|tenant| (0..10).map(move |copy| (tenant, copy)));
    let gone = gone.filter(|(tenant, copy)| {
        let tenant = &(*tenant, *copy);
        brake.ask(tenant, &tenant.0.to_string(), at(600), stock) == Verdict::Go
    });
    // Not much more than half of them, with a quarter of the others.
    let gone = gone.count();
    assert!((240..=320).contains(&gone), "{gone} of 480");
    assert_eq!(brake.held().len(), 1);
    assert_eq!(brake.count(), first + 480 - gone);
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
    brake.prune(at(10_000));
    assert_eq!(brake.count(), 1, "silence is no answer");
    brake.withdraw(&99, at(10_000));
    assert_eq!(brake.held(), vec![]);
    assert_eq!(ask(&mut brake, 1, at(10_000), 50), Verdict::Go);
}

#[test]
fn a_cause_holds_the_first_deletion_until_it_is_gone() {
    for cause in [Cause::Definition, Cause::EmptiedList("https://one".into())] {
        let mut brake = brake();
        brake.cause(cause.clone(), Phase::Begins);
        brake.cause(cause.clone(), Phase::Begins);
        assert!(matches!(
            brake.ask(&1, "a", at(0), CopyCounts::of_nobody(100)),
            Verdict::Held(_)
        ));
        assert_eq!(brake.held()[0].why, HoldReason::Cause(cause.clone()));
        brake.cause(Cause::EmptiedList("https://other".into()), Phase::Ends);
        assert_eq!(brake.count(), 1);
        brake.cause(cause, Phase::Ends);
        assert_eq!(brake.held(), vec![]);
        assert_eq!(
            brake.ask(&1, "a", at(1), CopyCounts::of_nobody(100)),
            Verdict::Go
        );
    }
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
    assert_eq!(brake.held()[0].why, HoldReason::Mass);
}

#[test]
fn a_restart_is_no_approval() {
    let mut brake = brake();
    brake.resume("hold-1", at(0));
    brake.resume("hold-1", at(0));
    brake.prune(at(60));
    let held = ask(&mut brake, 1, at(60), 100);
    assert_eq!(held, Verdict::Held(HoldId("hold-1".into())));
    brake.prune(at(6000));
    assert_eq!(brake.count(), 1);
    assert!(brake.approve("hold-1"));
    assert_eq!(ask(&mut brake, 1, at(6000), 100), Verdict::Go);

    let mut brake = self::brake();
    brake.resume("hold-1", at(0));
    brake.prune(at(599));
    assert_eq!(brake.held().len(), 1);
    brake.prune(at(600));
    assert_eq!(brake.held(), vec![], "nothing asked for what it held");
}

#[test]
fn a_hold_that_is_taken_over_is_beside_an_own_hold_and_concerns_its_tenants_only() {
    let many = CopyCounts {
        copies: 1000,
        of_tenant: 10,
        tenants: 100,
    };
    let held = |id: &str| Verdict::Held(HoldId(id.into()));
    let mut brake = brake();
    brake.resume_for("own", |tenant| tenant == "a", at(0));
    assert_eq!(brake.ask(&1, "a", at(0), many), held("own"));
    brake.resume_for("theirs", |tenant| tenant == "b", at(1));
    assert_eq!(brake.ask(&2, "b", at(1), many), held("theirs"));
    assert_eq!(brake.ask(&3, "c", at(1), many), Verdict::Go);
    // Each is approved by itself.
    assert!(brake.approve("own"));
    assert_eq!(brake.ask(&1, "a", at(2), many), Verdict::Go);
    assert_eq!(brake.ask(&2, "b", at(2), many), held("theirs"));

    // For more tenants, when they are known.
    brake.resume_for("theirs", |tenant| tenant == "d", at(3));
    assert_eq!(brake.ask(&4, "d", at(3), many), held("theirs"));
    assert_eq!(brake.held().len(), 1);
    brake.withdraw(&4, at(4));
    assert_eq!(brake.ask(&4, "d", at(6000), many), Verdict::Go);
    assert_eq!(brake.ask(&2, "b", at(6000), many), held("theirs"));
}

#[test]
fn a_mass_of_other_tenants_makes_a_hold_of_its_own_beside_one_that_is_taken_over() {
    let mut brake = brake();
    brake.resume_for("theirs", |tenant| tenant == "1", at(0));
    let theirs = HoldId("theirs".into());
    assert_eq!(
        ask(&mut brake, 1, at(0), 100),
        Verdict::Held(theirs.clone())
    );
    ask_all(&mut brake, 2..100, at(0), 100);
    let ids: HashSet<HoldId> = brake.held().into_iter().map(|hold| hold.id).collect();
    assert_eq!(ids.len(), 2);
    assert!(ids.contains(&theirs));
    assert!(brake.approve("theirs"));
    assert_eq!(ask(&mut brake, 1, at(1), 100), Verdict::Go);
    assert!(matches!(ask(&mut brake, 99, at(1), 100), Verdict::Held(_)));
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
    assert_eq!(ask(&mut brake, 1, Duration::MAX, usize::MAX), Verdict::Go);
    assert_eq!(ask(&mut brake, 1, Duration::ZERO, 0), Verdict::Go);
    brake.resume("hold", Duration::MAX);
    brake.prune(Duration::MAX);
}

#[test]
fn a_mass_that_is_there_from_the_start_is_held_whole() {
    let mut brake = brake();
    let options = OPTIONS;
    brake.hold_from_start(options.at_least - 1, options.at_least, at(0));
    brake.hold_from_start(options.at_least, options.at_least * 2, at(0));
    assert_eq!(brake.held(), [], "neither is a mass");
    brake.hold_from_start(options.at_least, options.at_least, at(0));
    brake.hold_from_start(options.at_least, options.at_least, at(0));
    let [hold] = &*brake.held() else {
        panic!("{:?}", brake.held());
    };
    let id = hold.id.clone();
    let held = brake.ask(&1, "1", at(0), CopyCounts::of_nobody(options.at_least));
    assert_eq!(held, Verdict::Held(id.clone()));
    assert!(brake.approve(&id.0));
    assert_eq!(
        brake.ask(&1, "1", at(1), CopyCounts::of_nobody(options.at_least)),
        Verdict::Go
    );
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
            prop_assert_eq!(ask(&mut brake, key, at(now), total), Verdict::Go);
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
            match ask(&mut brake, key, at(second), total) {
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

    /// Whatever others did and have held: whoever asks when the window is over, and was not held with
    /// them, goes on.
    #[test]
    fn what_others_lost_before_the_window_holds_nobody_up(
        storm in prop::collection::vec((0usize..100, 0usize..5, 0u64..300), 0..800),
        own in 1usize..5,
        population in 1usize..200,
    ) {
        let mut brake = Brake::new(BrakeOptions::default(), 3);
        let mut storm = storm;
        storm.sort_by_key(|(_, _, second)| *second);
        let stock = CopyCounts { copies: population * 5, of_tenant: 5, tenants: population };
        for (tenant, copy, second) in storm {
            brake.ask(&(tenant, copy), &tenant.to_string(), at(second), stock);
        }
        for copy in 0..own {
            let verdict = brake.ask(&(1000, copy), "bystander", at(360), stock);
            prop_assert_eq!(verdict, Verdict::Go);
        }
    }

    /// In a disaster that all tenants are in, at most three quarters go, however they are mixed, once there
    /// are so many that the few count for little.
    #[test]
    fn of_a_disaster_much_is_held(
        order in Just((0..60usize).flat_map(|t| (0..8usize).map(move |c| (t, c))).collect::<Vec<_>>())
            .prop_shuffle(),
        sequential in any::<bool>(),
    ) {
        let mut order = order;
        if sequential {
            order.sort_unstable();
        }
        let mut brake = Brake::new(BrakeOptions::default(), 3);
        let stock = CopyCounts { copies: 480, of_tenant: 8, tenants: 60 };
        let went = order.iter().filter(|(tenant, copy)| {
            brake.ask(&(*tenant, *copy), &tenant.to_string(), at(0), stock) == Verdict::Go
        });
        let went = went.count();
        prop_assert!(went <= 480 * 3 / 4, "{} went", went);
        prop_assert_eq!(brake.count(), 480 - went);
    }

    #[test]
    fn an_approval_releases_exactly_the_hold_it_names(
        gone in prop::collection::btree_set(0usize..6, 1..6),
        keys in prop::collection::vec((0usize..100, 0usize..6), 1..60),
        named in 0usize..6,
    ) {
        let mut brake = brake();
        let tenant = |number: usize| format!("tenant {number}");
        let endpoint = |number: usize| Cause::EmptiedList(format!("https://{number}").into());
        for number in &gone {
            brake.cause(endpoint(*number), Phase::Begins);
        }
        // A key belongs to one tenant.
        let keys: std::collections::BTreeMap<usize, usize> = keys.into_iter().collect();
        for (key, number) in &keys {
            brake.ask(key, &tenant(*number), at(0), CopyCounts::of_nobody(1000));
        }
        let before = brake.held();
        let why = HoldReason::Cause(endpoint(named));
        let id = before.iter().find(|hold| hold.why == why).map(|hold| hold.id.clone());
        let was_there = brake.approve(id.as_ref().map_or("none", |id| &*id.0));
        prop_assert_eq!(was_there, id.is_some());
        let others: Vec<_> = before.into_iter().filter(|hold| hold.why != why).collect();
        prop_assert_eq!(brake.held(), others);
        for (key, number) in &keys {
            let free = gone.iter().all(|endpoint| *endpoint == named);
            let verdict = brake.ask(key, &tenant(*number), at(1), CopyCounts::of_nobody(1000));
            prop_assert_eq!(verdict == Verdict::Go, free);
        }
    }
}
