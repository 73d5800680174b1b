//! Faults of watches: an event stream that ends early, arrives late, or falls silent.

use std::time::Duration;

use bytes::Bytes;
use futures::StreamExt as _;
use futures::stream::{self, BoxStream};
use tokio::time::{Instant, sleep_until};

/// Ends the stream after some time, without an error, as a server does at its own time limit.
pub(super) fn cut(events: BoxStream<'static, Bytes>, after: Duration) -> BoxStream<'static, Bytes> {
    events
        .take_until(sleep_until(Instant::now() + after))
        .boxed()
}

/// Ends the stream after some time with the error that kcp sends when an export changes.
pub(super) fn fail(
    events: BoxStream<'static, Bytes>,
    after: Duration,
) -> BoxStream<'static, Bytes> {
    let error = stream::once(async { Bytes::from_static(ERROR) });
    cut(events, after).chain(error).boxed()
}

const ERROR: &[u8] = br#"{"type":"ERROR","object":{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"unable to decode an event from the watch stream: context canceled","reason":"InternalError","code":500}}
"#;

/// Delays every event by this time, in order. Events that arrive together stay together.
pub(super) fn delay(events: BoxStream<'static, Bytes>, by: Duration) -> BoxStream<'static, Bytes> {
    let stamped = events.map(move |event| (Instant::now() + by, event));
    // The task reads ahead, so that each event is delayed from its own arrival, and the stream does not become slower.
    let (sender, receiver) = tokio::sync::mpsc::channel(READ_AHEAD);
    tokio::spawn(async move {
        let mut stamped = stamped;
        while let Some(item) = stamped.next().await {
            if sender.send(item).await.is_err() {
                return;
            }
        }
    });
    stream::unfold(receiver, |mut receiver| async move {
        let (due, event) = receiver.recv().await?;
        sleep_until(due).await;
        Some((event, receiver))
    })
    .boxed()
}

/// The number of events that a delayed watch buffers. Beyond it, the delay grows instead of the memory.
const READ_AHEAD: usize = 10_000;

/// Passes on events for this time, then none. The stream stays open.
pub(super) fn stall(
    events: BoxStream<'static, Bytes>,
    after: Duration,
) -> BoxStream<'static, Bytes> {
    cut(events, after).chain(stream::pending()).boxed()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One event now, one after a second, then none.
    fn events() -> BoxStream<'static, Bytes> {
        stream::once(async { Bytes::from("first") })
            .chain(stream::once(async {
                tokio::time::sleep(Duration::from_secs(1)).await;
                Bytes::from("second")
            }))
            .chain(stream::pending())
            .boxed()
    }

    #[tokio::test(start_paused = true)]
    async fn a_cut_watch_ends_without_an_error() {
        let got: Vec<_> = cut(events(), Duration::from_millis(500)).collect().await;
        assert_eq!(got, ["first"]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_delayed_watch_keeps_order_and_distance() {
        let start = Instant::now();
        let mut delayed = delay(events(), Duration::from_secs(5));
        assert_eq!(delayed.next().await.unwrap(), "first");
        assert_eq!(start.elapsed(), Duration::from_secs(5));
        assert_eq!(delayed.next().await.unwrap(), "second");
        assert_eq!(start.elapsed(), Duration::from_secs(6));
    }

    #[tokio::test(start_paused = true)]
    async fn a_stalled_watch_stays_open_and_silent() {
        let mut stalled = stall(events(), Duration::from_millis(500));
        assert_eq!(stalled.next().await.unwrap(), "first");
        let more = tokio::time::timeout(Duration::from_hours(1), stalled.next()).await;
        assert!(more.is_err(), "neither an event nor an end");
    }
}
