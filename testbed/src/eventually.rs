//! Awaiting what will be true soon, by looking again and again until a deadline.

use std::fmt::Display;
use std::panic::Location;
use std::time::Duration;

use tokio::time::{self, Instant};

/// What should happen at once does within that, however slow and busy the machine is. It only guards
/// against waiting without end, so it costs nothing where all is well.
pub const SOON: Duration = Duration::from_mins(2);

const FIRST_PAUSE: Duration = Duration::from_millis(10);
const LONGEST_PAUSE: Duration = Duration::from_millis(250);

/// Looks until `probe` answers `Ok`, and returns that answer; panics with what was awaited, where,
/// and the last reason against it when `deadline` has passed.
///
/// ```no_run
/// # async fn example(pods: kube::Api<k8s_openapi::api::core::v1::Pod>) {
/// let pod = testbed::eventually(testbed::SOON, "the pod is there", async || {
///     pods.get("web").await
/// })
/// .await;
/// # }
/// ```
#[track_caller]
pub fn eventually<T, E: Display>(
    deadline: Duration,
    what: &str,
    probe: impl AsyncFnMut() -> Result<T, E>,
) -> impl Future<Output = T> {
    let caller = Location::caller();
    async move {
        match within(deadline, probe).await {
            Ok(found) => found,
            Err(last) => panic!("{caller}: not within {deadline:?}: {what}; last seen: {last}"),
        }
    }
}

/// The same without a panic: the error is the last reason against.
pub async fn within<T, E: Display>(
    deadline: Duration,
    mut probe: impl AsyncFnMut() -> Result<T, E>,
) -> Result<T, String> {
    let end = Instant::now() + deadline;
    let mut pause = FIRST_PAUSE;
    let mut last = "the first look did not end".to_owned();
    loop {
        match time::timeout_at(end, probe()).await {
            Ok(Ok(found)) => return Ok(found),
            Ok(Err(reason)) => last = reason.to_string(),
            Err(_) => return Err(last),
        }
        if Instant::now() + pause >= end {
            return Err(last);
        }
        time::sleep(pause).await;
        pause = (pause * 2).min(LONGEST_PAUSE);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn looks_again_until_the_answer_is_good() {
        let mut looks = 0;
        let found = within(Duration::from_secs(5), async || {
            looks += 1;
            if looks < 4 { Err("not yet") } else { Ok(looks) }
        })
        .await;
        assert_eq!(found, Ok(4));
    }

    #[tokio::test(start_paused = true)]
    async fn gives_the_last_reason_when_time_is_up() {
        let found: Result<(), _> = within(Duration::from_secs(5), async || Err("still red")).await;
        assert_eq!(found, Err("still red".to_owned()));
    }

    #[tokio::test(start_paused = true)]
    async fn a_look_that_hangs_is_cut_off_at_the_deadline() {
        let begin = Instant::now();
        let found: Result<(), _> = within(Duration::from_secs(5), async || {
            std::future::pending::<Result<(), String>>().await
        })
        .await;
        assert!(found.is_err());
        assert_eq!(begin.elapsed(), Duration::from_secs(5));
    }

    #[tokio::test(start_paused = true)]
    #[should_panic(expected = "the light is green; last seen: still red")]
    async fn the_panic_says_what_was_awaited() {
        eventually(Duration::from_secs(1), "the light is green", async || {
            Err::<(), _>("still red")
        })
        .await;
    }
}
