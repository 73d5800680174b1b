//! Deterministic simulation: schedules of several processes and two control planes in one thread, on virtual time. A seed
//! decides a schedule, so a seed is a bug report.
//!
//! | piece | in the simulation |
//! |---|---|
//! | passes of the engine, settled passes | the real ones |
//! | caches: tables, answers to own writes, deletions | the real ones |
//! | the client that passes share, with its memory of contested writes | the real one |
//! | the queue: turns of tenants, back-off | the real one, without its handle for workers |
//! | Leases, fences, shards: election, renewal, release, moves | the real ones; each process has a runtime of its own, whose clock the schedule moves |
//! | feeds, connections, workers, the brake, events | not there: they are bound to sockets and tasks. The schedule gives lists and events to the tables as a feed does, and begins passes as workers do |
//! | the dialect | a small one with marks, a memory, and two related Secrets |
//! | API servers, watches, the network, clocks, processes, people | modelled |
//!
//! A schedule begins with objects in sync, or with none. A step is one of these: somebody changes an object; an event or
//! a list arrives; a pass begins; a request leaves its process, reaches its server, or is answered; a watch is cut; time
//! passes; a process starts, is killed, is suspended, or is asked to end; a wall clock jumps; the server of Leases falls
//! silent; somebody deletes a Lease. A request may get lost, also after it was carried out, and a server may refuse it.
//! Then the faults end, everything arrives, and `checker` reads the objects of both sides.
//!
//! What the model does not have: requests that are carried out after their process has given them up; lists that are older
//! than the same feed has shown; namespaces; the Lease of the leader that somebody deletes, and Leases of shards that
//! vanish before a process has seen them. In the last two cases, two processes may write for some seconds.
//!
//! | module | content |
//! |---|---|
//! | `checker` | what has to be true at rest |
//! | `dialect` | the small dialect |
//! | `dice` | random numbers |
//! | `leases` | the server of Leases |
//! | `replica` | a process |
//! | `scale` | many processes, tenants and objects |
//! | `schedule` | the steps, and the way to rest |
//! | `world` | the API servers |

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

mod checker;
mod dialect;
mod dice;
mod leases;
mod replica;
mod scale;
mod schedule;
mod world;

use dice::Dice;
use schedule::{LONGEST, Simulation};

thread_local! {
    /// The wall clock of the process that runs, in microseconds.
    static CLOCK: Cell<Option<i64>> = const { Cell::new(None) };
    /// No process asks its fence: to see that this is found.
    static IGNORES_FENCES: Cell<bool> = const { Cell::new(false) };
    static CHANCE: RefCell<Option<Dice>> = const { RefCell::new(None) };
}

/// The wall clock of the simulated process; `None` outside of a simulation. No two times are the same.
pub(crate) fn wall_clock() -> Option<Timestamp> {
    let micros = CLOCK.get()?;
    CLOCK.set(Some(micros + 1));
    Timestamp::from_microsecond(micros).ok()
}

/// A random number of the simulation; `None` outside of one.
pub(crate) fn chance() -> Option<u8> {
    let number = CHANCE.with_borrow_mut(|dice| Some(dice.as_mut()?.next()))?;
    Some(number.to_le_bytes()[0])
}

fn set_clock(clock: Duration, skew: i64) {
    let start = Timestamp::UNIX_EPOCH + SignedDuration::from_hours(24 * 365 * 56);
    let micros = i64::try_from(clock.as_micros()).unwrap_or(i64::MAX / 2);
    CLOCK.set(Some(start.as_microsecond() + micros + skew));
}

fn set_chance(seed: u64) {
    CHANCE.set(Some(Dice::new(seed)));
}

/// The result of a schedule: a problem, if there is one, and the number of steps.
fn run(seed: u64, without: &BTreeSet<usize>) -> (Option<String>, usize) {
    let mut simulation = Simulation::new(seed, without.clone(), false);
    let ran = catch_unwind(AssertUnwindSafe(|| simulation.run()));
    let ran = ran.unwrap_or_else(|_| Err("the agent panicked".to_owned()));
    (ran.err(), simulation.steps)
}

/// What happens in a schedule, line by line.
fn trace(seed: u64, without: &BTreeSet<usize>) -> Vec<String> {
    let mut simulation = Simulation::new(seed, without.clone(), true);
    // The problem is known already.
    let _ = catch_unwind(AssertUnwindSafe(|| simulation.run()));
    simulation.trace.take().unwrap_or_default()
}

/// Leaves out steps as long as the schedule has the same kind of problem.
fn shrink(seed: u64, problem: &str) -> BTreeSet<usize> {
    let kind = |problem: &str| {
        problem
            .split([':', ' '])
            .skip(1)
            .take(4)
            .collect::<String>()
    };
    let wanted = kind(problem);
    let mut without = BTreeSet::new();
    for size in [16, 8, 4, 2, 1] {
        for start in (0..LONGEST).step_by(size) {
            let mut more = without.clone();
            more.extend(start..start + size);
            if more.len() > without.len()
                && run(seed, &more).0.is_some_and(|it| kind(&it) == wanted)
            {
                without = more;
            }
        }
    }
    without
}

mod tests;
