//! How long the randomised tests of this module and its neighbours look for trouble.

/// Cases a test tries: a few thousand, or as many as fit about the minutes of `HAWSER_FUZZ_MINUTES`.
pub(crate) fn cases() -> u32 {
    const USUAL: u32 = 3_000;
    /// What the slowest of these tests manages in a minute when not optimised.
    const A_MINUTE: u32 = 15_000;
    let minutes = std::env::var("HAWSER_FUZZ_MINUTES")
        .ok()
        .and_then(|minutes| minutes.parse::<u32>().ok());
    minutes.map_or(USUAL, |minutes| minutes.saturating_mul(A_MINUTE).max(USUAL))
}
