//! The line about what takes long: on a terminal only, and erased at the end.

use std::future::Future;
use std::io::{self, IsTerminal as _, Write};
use std::pin::pin;
use std::time::Duration;

use tokio::time::{Instant, sleep_until};

use crate::explain::progress::ObjectProgress;

/// What takes no longer needs no line.
const PATIENCE: Duration = Duration::from_secs(2);
/// The interval at which the line is written again.
const EVERY: Duration = Duration::from_millis(200);
/// Erases from the cursor to the end of the line.
const ERASE: &str = "\x1b[K";

/// Shows the progress of some work on stderr.
pub(super) async fn shown<T>(progress: &ObjectProgress, work: impl Future<Output = T>) -> T {
    let stderr = io::stderr();
    if stderr.is_terminal() {
        shown_on(stderr, progress, work).await
    } else {
        work.await
    }
}

async fn shown_on<T>(
    mut terminal: impl Write,
    progress: &ObjectProgress,
    work: impl Future<Output = T>,
) -> T {
    let mut work = pin!(work);
    let mut next = Instant::now() + PATIENCE;
    let mut line = String::new();
    // Where there is no stderr nobody can be told.
    loop {
        tokio::select! {
            biased;
            done = &mut work => {
                if !line.is_empty() {
                    let _ = write!(terminal, "{ERASE}");
                }
                return done;
            }
            () = sleep_until(next) => {
                next += EVERY;
                let now = progress.in_words();
                if now != line {
                    line = now;
                    // The cursor stays at the beginning, so that a line of the log takes the place of this one.
                    let _ = write!(terminal, "{line}{ERASE}\r").and_then(|()| terminal.flush());
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::sleep;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn only_what_takes_long_is_shown_and_nothing_of_it_stays() {
        let mut terminal = Vec::new();
        let progress = ObjectProgress::default();
        let short = sleep(Duration::from_millis(1900));
        shown_on(&mut terminal, &progress, short).await;
        assert!(terminal.is_empty());
        let long = async {
            sleep(Duration::from_secs(3)).await;
            progress.begin(10_000);
            for _ in 0..1_200 {
                progress.step();
            }
            sleep(Duration::from_secs(3)).await;
            7
        };
        assert_eq!(shown_on(&mut terminal, &progress, long).await, 7);
        let text = String::from_utf8(terminal).unwrap();
        let lines: Vec<&str> = text.split('\r').collect();
        assert_eq!(
            lines,
            [
                "reading from the servers…\x1b[K",
                "1,200 of 10,000 objects\x1b[K",
                "\x1b[K"
            ]
        );
    }
}
