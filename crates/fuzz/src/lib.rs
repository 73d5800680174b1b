//! Drives a parser of foreign input with generated cases: some thousands in a normal run, as many as
//! fit into `HAWSER_FUZZ_MINUTES` if that is set. A case that takes longer than ten seconds fails,
//! so that hostile input cannot hide in patience.

use std::{fmt::Debug, time::Duration};

use proptest::{
    strategy::{Strategy, ValueTree},
    test_runner::{Config, RngAlgorithm, TestRng, TestRunner},
};
use tokio::time::Instant;

const CASES: u32 = 2000;
const PATIENCE: Duration = Duration::from_secs(10);

/// Runs `body` on generated cases. A panic names the case.
pub fn run<S>(strategy: &S, body: impl Fn(&S::Value))
where
    S: Strategy,
    S::Value: Debug,
{
    let time = std::env::var("HAWSER_FUZZ_MINUTES").ok().map(|minutes| {
        let minutes: u64 = minutes
            .parse()
            .expect("HAWSER_FUZZ_MINUTES must be a whole number");
        Duration::from_secs(60 * minutes)
    });
    let start = Instant::now();
    // The seed of a normal run is fixed so that it fails for a change and not by chance.
    let mut runner = if time.is_some() {
        TestRunner::new(Config::default())
    } else {
        let rng = TestRng::from_seed(RngAlgorithm::ChaCha, &[7; 32]);
        TestRunner::new_with_rng(Config::default(), rng)
    };
    let mut done = 0;
    while time.map_or(done < CASES, |time| start.elapsed() < time) {
        let case = strategy
            .new_tree(&mut runner)
            .expect("strategies here reject nothing")
            .current();
        let began = Instant::now();
        let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| body(&case)));
        if let Err(panic) = result {
            let text = format!("{case:?}");
            let shown: String = text.chars().take(4000).collect();
            std::panic::resume_unwind(Box::new(format!(
                "{} on {shown}",
                panic
                    .downcast_ref::<String>()
                    .map_or("panicked", String::as_str)
            )));
        }
        assert!(began.elapsed() < PATIENCE, "too slow on {case:?}");
        done += 1;
    }
}

/// Bytes near to `seeds`: cut, joined, with some bytes changed.
pub fn mutated(seeds: Vec<Vec<u8>>) -> impl Strategy<Value = Vec<u8>> {
    let seed = proptest::sample::select(seeds);
    let change = (
        proptest::prelude::any::<proptest::sample::Index>(),
        proptest::prelude::any::<u8>(),
        0..4_u8,
    );
    (seed.clone(), seed, proptest::collection::vec(change, 0..8)).prop_map(
        |(mut bytes, other, changes)| {
            for (index, byte, how) in changes {
                if bytes.is_empty() {
                    bytes.push(byte);
                    continue;
                }
                let at = index.index(bytes.len());
                match how {
                    0 => bytes[at] = byte,
                    1 => bytes.insert(at, byte),
                    2 => bytes.truncate(at),
                    _ => {
                        bytes.truncate(at);
                        bytes.extend_from_slice(
                            &other[index.index(other.len().max(1)).min(other.len())..],
                        );
                    }
                }
            }
            bytes
        },
    )
}

/// Cases for a property: a few thousand, or as many as fit about the minutes of `HAWSER_FUZZ_MINUTES`.
pub fn cases() -> u32 {
    const USUAL: u32 = 3_000;
    /// What the slowest of these properties manages in a minute when not optimised.
    const A_MINUTE: u32 = 15_000;
    let minutes = std::env::var("HAWSER_FUZZ_MINUTES")
        .ok()
        .and_then(|minutes| minutes.parse::<u32>().ok());
    minutes.map_or(USUAL, |minutes| minutes.saturating_mul(A_MINUTE).max(USUAL))
}
