//! Schedules of fixed and of fresh seeds, and what `hack/simulate` runs.

#![allow(clippy::print_stdout, reason = "hack/simulate shows it to people")]

use std::collections::{BTreeMap, BTreeSet};
use std::env;
use std::fmt::Write as _;
use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::thread;

use parking_lot::Mutex;
use tokio::time::Instant;
use uuid::Uuid;

use super::replica::Replica;
use super::scale::{Fleet, Measured};
use super::{IGNORES_FENCES, run, shrink, trace};

/// The schedules of the test command, from seed 1.
const FIXED: u64 = 1_500;
/// Those of other seeds, each time.
const FRESH: u64 = 300;

#[derive(Default)]
struct Summary {
    /// The seeds of each problem.
    problems: BTreeMap<String, Vec<u64>>,
    steps: usize,
}

/// Runs schedules on all processors.
fn simulate(seeds: impl Iterator<Item = u64> + Send) -> Summary {
    let threads = thread::available_parallelism().map_or(1, NonZeroUsize::get);
    let (seeds, steps) = (Mutex::new(seeds), AtomicUsize::new(0));
    let problems: Mutex<BTreeMap<String, Vec<u64>>> = Mutex::default();
    thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                let next = || seeds.lock().next();
                while let Some(seed) = next() {
                    let (problem, taken) = run(seed, &BTreeSet::new());
                    steps.fetch_add(taken, Ordering::Relaxed);
                    if let Some(problem) = problem {
                        let end = problem.floor_char_boundary(60);
                        let mut problems = problems.lock();
                        let seeds = problems.entry(problem[..end].to_owned());
                        seeds.or_default().push(seed);
                    }
                }
            });
        }
    });
    Summary {
        problems: problems.into_inner(),
        steps: steps.into_inner(),
    }
}

/// Shows the first schedule of each problem with the fewest steps.
#[track_caller]
fn check(summary: &Summary) {
    let mut found = String::new();
    for (problem, seeds) in &summary.problems {
        let (seed, number) = (seeds[0], seeds.len());
        let without = shrink(seed, problem);
        found.push_str(&trace(seed, &without).join("\n"));
        let replay = format!("./hack/simulate --seed {seed}");
        let _ = writeln!(found, "\n{problem}\n{number} schedules; replay: {replay}\n");
    }
    assert!(
        found.is_empty(),
        "schedules that break the contract:\n{found}"
    );
}

fn number(name: &str) -> Option<u64> {
    env::var(name).ok()?.parse().ok()
}

/// Whatever consumers, providers, networks, clocks and kills do: at rest, both sides agree, nothing is left of what is
/// gone, and no process has written without the right to.
#[test]
fn schedules_of_all_seeds_keep_the_contract() {
    let (seed, schedules) = (
        number("HAWSER_SIMULATION_SEED"),
        number("HAWSER_SIMULATION_SCHEDULES"),
    );
    let random = Uuid::new_v4().as_u64_pair().0 >> 16;
    let is_chosen = seed.is_some() || schedules.is_some();
    let first = seed.unwrap_or(random);
    let count = match (is_chosen, env::var_os("PROPTEST_RNG_SEED")) {
        (true, _) => schedules.unwrap_or(1),
        // The test command checks the same schedules each time.
        (false, Some(_)) => 0,
        (false, None) => FRESH,
    };
    println!("seeds {first} and the {count} after it");
    let fresh = first..first.saturating_add(count);
    if !is_chosen {
        return check(&simulate((1..=FIXED).chain(fresh)));
    }
    let (started, done) = (Instant::now(), AtomicU64::new(0));
    let counted = fresh.inspect(|_| {
        let done = done.fetch_add(1, Ordering::Relaxed);
        if done > 0 && done % 100_000 == 0 {
            println!("{done} schedules");
        }
    });
    let summary = simulate(counted);
    let took = started.elapsed();
    let rate = u128::from(count) * 1_000 / took.as_millis().max(1);
    let steps = summary.steps;
    println!("{count} schedules with {steps} steps in {took:.1?}: {rate} a second");
    if count == 1 && summary.problems.is_empty() {
        println!("{}", trace(first, &BTreeSet::new()).join("\n"));
    }
    check(&summary);
}

/// The checks of the simulation find an agent that writes without the right to.
#[test]
fn processes_that_ignore_their_fences_are_found() {
    IGNORES_FENCES.set(true);
    let mut problems = (1..=20 * FIXED).filter_map(|seed| run(seed, &BTreeSet::new()).0);
    assert!(problems.any(|problem| problem.contains(" wrote ")));
    IGNORES_FENCES.set(false);
}

#[test]
fn a_seed_decides_everything() {
    for seed in 1..=40 {
        let none = BTreeSet::new();
        assert!(trace(seed, &none) == trace(seed, &none), "seed {seed}");
    }
}

/// The work is spread over all processes. When one is lost, the others take its objects and send no write for them, and
/// changes of their own objects do not wait for that.
#[test]
fn a_fleet_shares_the_work_and_takes_over_that_of_a_lost_process() {
    let count = |name, usual| number(name).map_or(usual, |it| usize::try_from(it).unwrap());
    let objects = count("HAWSER_SIMULATION_SCALE", 200);
    let replicas = count("HAWSER_SIMULATION_PROCESSES", 16);
    let (tenants, shards) = ((objects / 100).max(40), 4 * replicas);
    let mut fleet = Fleet::start(objects, tenants, replicas, shards);
    println!("{objects} objects of {tenants} tenants, {replicas} processes, {shards} shards");
    println!("                      passes  requests    time  changes  slowest change");
    let print = |what: &str, it: &Measured| {
        let (passes, requests) = (it.passes, it.requests);
        let (time, changes, slowest) = (it.time, it.changes, it.slowest);
        println!("{what:<20} {passes:>7} {requests:>9} {time:>7.0?} {changes:>8} {slowest:>15.2?}");
    };
    let made = fleet.rest(true);
    print("everything is made", &made);
    let copies = fleet.world.objects.len() / 3;
    assert_eq!((copies, fleet.world.violations.len()), (objects, 0));
    let cached = fleet.replicas.iter().map(Replica::cached);
    let (cached, bytes) = cached.max().unwrap();
    println!("the largest caches of a process: {cached} objects, {bytes} bytes of bodies");
    // Two hundred objects are in forty tenants: some process has several of them, and none has half.
    assert!(
        cached > 0 && (replicas < 16 || cached < objects * 3 / 2),
        "{cached}"
    );
    assert_eq!(fleet.spread(), (4, 4));
    if replicas < 3 {
        return;
    }
    fleet.rest(false);
    let version = fleet.world.version;
    fleet.lose();
    print("a process is lost", &fleet.rest(false));
    assert_eq!(fleet.world.version, version);
    fleet.lose();
    let lost = fleet.rest(true);
    print("another one is lost", &lost);
    assert!(lost.changes > 0 && fleet.world.violations.is_empty());
    let (fewest, most) = fleet.spread();
    assert!(most - fewest <= 1 && fewest >= 4);
}
