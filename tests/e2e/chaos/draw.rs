//! What a seed decides: rounds of faults, deeds of users and a blow at a process.

use std::ops::Range;
use std::time::Duration;

use kcp_playground::server::{Action, Fault, Matcher, When};
use proptest::prelude::*;
use proptest::strategy::ValueTree as _;
use proptest::test_runner::{RngAlgorithm, TestRng, TestRunner};
use testbed::Component;
use testbed::link::{Way, Weather};

use super::Life;

const ROUNDS: usize = 5;

#[derive(Clone, Debug)]
pub(super) struct Round<D> {
    /// With the numbers of their servers.
    pub(super) faults: Vec<(usize, Fault)>,
    pub(super) deeds: D,
    /// With the numbers of the processes, and the times after which they fall.
    pub(super) blows: Vec<(usize, Blow, Duration)>,
    /// With the numbers of the servers that are out of reach, if they are real.
    pub(super) outages: Vec<(usize, Outage)>,
    /// The number of a server that is killed at the end, if it is real.
    pub(super) crash: Option<(usize, Component)>,
}

/// How a link fails, when and for how long. A clear one is only cut.
#[derive(Clone, Debug)]
pub(super) struct Outage {
    pub(super) weather: Weather,
    pub(super) after: Duration,
    pub(super) time: Duration,
}

/// What happens to a process.
#[derive(Clone, Debug)]
pub(super) enum Blow {
    Kill,
    KillTwice,
    Suspend(Duration),
    /// A second one works beside the first one, which is killed then.
    Double,
    /// The same, while the first one is suspended for so long that it loses its lock. It goes on for a while then.
    Usurp,
    /// The next one has little memory.
    Squeeze,
    /// The next one has no room for its log.
    FillDisk,
}

pub(crate) fn millis(range: Range<u64>) -> impl Strategy<Value = Duration> {
    range.prop_map(Duration::from_millis)
}

/// A fault of the requests of an agent. Not among them: refusals that it rightly takes for final.
fn fault(agent: &'static str) -> impl Strategy<Value = Fault> {
    let when = prop_oneof![Just(When::Before), Just(When::After)];
    let broken = (prop::sample::select(vec![500, 503, 504]), when.clone());
    let action = prop_oneof![
        2 => broken.prop_map(|(code, when)| Action::Status { code, when }),
        1 => prop::sample::select(vec![409, 429]).prop_map(|code| Action::Status { code, when: When::Before }),
        2 => when.prop_map(Action::Reset),
        2 => millis(20..600).prop_map(Action::Latency),
        1 => millis(0..500).prop_map(Action::CutWatch),
        1 => millis(0..500).prop_map(Action::FailWatch),
        1 => millis(50..4000).prop_map(Action::DelayWatch),
        1 => (1..200u64).prop_map(Action::StaleList),
    ];
    // Some requests of any kind, or most of one kind.
    let verbs = prop::sample::select(vec![
        "get", "list", "watch", "create", "update", "patch", "delete",
    ]);
    let which = prop_oneof![
        2 => (0.01..0.4).prop_map(|rate| (None, rate)),
        1 => (verbs, 0.3..1.0).prop_map(|(verb, rate)| (Some(verb.to_owned()), rate)),
    ];
    (action, which).prop_map(move |(action, (verb, rate))| {
        let agent = Some(agent.to_owned());
        // An effect on watches is on no other requests.
        let verb = verb.filter(|_| {
            !matches!(
                action,
                Action::CutWatch(_)
                    | Action::FailWatch(_)
                    | Action::DelayWatch(_)
                    | Action::StaleList(_)
            )
        });
        let matcher = Matcher {
            agent,
            verb,
            ..Matcher::default()
        };
        Fault {
            rate,
            ..Fault::new(matcher, action)
        }
    })
}

fn outage() -> impl Strategy<Value = Outage> {
    let weather = prop::sample::select(vec![
        Weather::Clear,
        Weather::Refusing,
        Weather::Deaf(Way::There),
        Weather::Deaf(Way::Back),
        Weather::Deaf(Way::Both),
    ]);
    (weather, millis(0..1500), millis(100..2000)).prop_map(|(weather, after, time)| Outage {
        weather,
        after,
        time,
    })
}

fn round<L: Life>() -> impl Strategy<Value = Round<L::Deeds>> {
    let blow = prop_oneof![
        3 => Just(Blow::Kill),
        1 => Just(Blow::KillTwice),
        2 => millis(100..3000).prop_map(Blow::Suspend),
        2 => Just(Blow::Double),
        1 => Just(Blow::Usurp),
        1 => Just(Blow::Squeeze),
        1 => Just(Blow::FillDisk),
    ];
    // As many on each server as on a single one.
    let faults = prop::collection::vec((0..L::SERVERS, fault(L::AGENT)), 0..3 * L::SERVERS + 1);
    let blows = prop::collection::vec((0..L::PROCESSES, blow, millis(0..1500)), 0..3);
    let outages = prop::collection::vec((0..L::SERVERS, outage()), 0..2 * L::SERVERS + 1);
    let component = prop::sample::select(vec![Component::ApiServer, Component::Etcd]);
    let crash = prop::option::weighted(0.3, (0..L::SERVERS, component));
    let all = (faults, L::deeds(), blows, outages, crash);
    all.prop_map(|(faults, deeds, blows, outages, crash)| Round {
        faults,
        deeds,
        blows,
        outages,
        crash,
    })
}

pub(super) fn drawn<L: Life>(seed: u64) -> Vec<Round<L::Deeds>> {
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(&seed.to_le_bytes());
    let random = TestRng::from_seed(RngAlgorithm::ChaCha, &bytes);
    let mut runner = TestRunner::new_with_rng(ProptestConfig::default(), random);
    let rounds = prop::collection::vec(round::<L>(), ROUNDS).new_tree(&mut runner);
    rounds.expect("nothing is filtered").current()
}
