//! The shutdown: a signal begins it, running work has a few seconds, a second signal ends the process at once.

use std::future::Future;
use std::io;
use std::task::Poll;
use std::time::Duration;

use futures::{Stream, StreamExt as _, stream};
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

/// The time limit for running work after the first signal.
pub const DRAIN: Duration = Duration::from_secs(5);

/// The offset that shells add to the number of a signal for the exit code.
const SIGNAL_EXIT_BASE: i32 = 128;

/// Signals that ask a process to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum TerminationSignal {
    Terminate,
    Interrupt,
}

/// A token that is cancelled by SIGTERM and SIGINT. A second signal ends the process immediately.
///
/// The default effect of these signals is replaced.
pub fn on_signal() -> io::Result<CancellationToken> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let asked = stream::poll_fn(move |context| {
        if terminate.poll_recv(context).is_ready() {
            return Poll::Ready(Some(TerminationSignal::Terminate));
        }
        interrupt
            .poll_recv(context)
            .map(|_| Some(TerminationSignal::Interrupt))
    });
    let stop = CancellationToken::new();
    let stopping = stop.clone();
    tokio::spawn(async move {
        let code = handle_signals(asked, stopping).await;
        // Whoever asks twice does not want to wait for destructors either.
        #[allow(clippy::exit)]
        std::process::exit(code);
    });
    Ok(stop)
}

/// The result of work within a time limit; `None` if it took too long and was dropped.
pub async fn within<T>(limit: Duration, what: &str, work: impl Future<Output = T>) -> Option<T> {
    let done = tokio::time::timeout(limit, work).await.ok();
    if done.is_none() {
        tracing::warn!(?limit, "{what} took too long and was aborted");
    }
    done
}

/// Cancels at the first signal; returns the exit code after the second one.
async fn handle_signals(
    mut asked: impl Stream<Item = TerminationSignal> + Unpin,
    stop: CancellationToken,
) -> i32 {
    let mut next = async || match asked.next().await {
        Some(asked) => asked,
        None => std::future::pending().await,
    };
    let first = next().await;
    tracing::info!(signal = first.name(), "stopping");
    stop.cancel();
    let second = next().await;
    tracing::warn!(signal = second.name(), "stopping immediately");
    SIGNAL_EXIT_BASE + second.number()
}

// === impl Asked ===

impl TerminationSignal {
    fn name(self) -> &'static str {
        match self {
            Self::Terminate => "SIGTERM",
            Self::Interrupt => "SIGINT",
        }
    }

    fn number(self) -> i32 {
        match self {
            Self::Terminate => SignalKind::terminate().as_raw_value(),
            Self::Interrupt => SignalKind::interrupt().as_raw_value(),
        }
    }
}

#[cfg(test)]
mod tests {
    use futures::SinkExt as _;
    use futures::channel::mpsc;

    use super::*;

    #[tokio::test]
    async fn the_first_signal_stops_and_the_second_ends() {
        let (mut send, signals) = mpsc::channel(2);
        let stop = CancellationToken::new();
        let obeyed = tokio::spawn(handle_signals(signals, stop.clone()));
        assert!(!stop.is_cancelled());
        send.send(TerminationSignal::Terminate).await.unwrap();
        stop.cancelled().await;
        assert!(!obeyed.is_finished());
        send.send(TerminationSignal::Interrupt).await.unwrap();
        assert_eq!(obeyed.await.unwrap(), 130);
    }

    #[tokio::test(start_paused = true)]
    async fn work_that_ends_in_time_is_waited_for_and_other_work_is_dropped() {
        let short = tokio::time::sleep(DRAIN / 2);
        assert_eq!(within(DRAIN, "short work", short).await, Some(()));
        let begun = tokio::time::Instant::now();
        let endless = std::future::pending::<()>();
        assert_eq!(within(DRAIN, "endless work", endless).await, None);
        assert_eq!(begun.elapsed().as_secs(), DRAIN.as_secs());
    }
}
