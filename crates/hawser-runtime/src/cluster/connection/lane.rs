//! The lane to one server: how many calls may be under way, and whether it asked for a pause.

use std::num::NonZeroU32;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::time::Instant;

use super::{CallClass, CallError, Limits, Reply};

/// The pause after a refusal that names none.
const PAUSE: Duration = Duration::from_secs(1);
/// No server holds a lane for longer, whatever it says.
const LONGEST_PAUSE: Duration = Duration::from_secs(30);
/// A pause shorter than this is waited out in line.
const WAITED_OUT: Duration = Duration::from_millis(100);

pub(super) struct Lane {
    origin: String,
    turns: Semaphore,
    held_until: Mutex<Option<Instant>>,
    rate: Option<Rate>,
}

/// So many calls a second, and twice as many at once where there were none for a while.
struct Rate {
    every: Duration,
    /// When the next call would be sent, were it not for what may be sent at once.
    next: Mutex<Instant>,
}

impl Rate {
    fn new(per_second: NonZeroU32) -> Self {
        Self {
            every: Duration::from_secs(1) / per_second.get(),
            next: Mutex::new(Instant::now()),
        }
    }

    /// When the next call may be sent, which then is taken.
    fn take(&self, now: Instant) -> Instant {
        let mut next = self.next.lock();
        let earliest = (*next).max(now);
        *next = earliest + self.every;
        let at_once = Duration::from_secs(2).saturating_sub(self.every);
        now.max(earliest.checked_sub(at_once).unwrap_or(now))
    }
}

impl Lane {
    pub(super) fn new(origin: &str, limits: &Limits) -> Self {
        Self {
            origin: origin.to_owned(),
            turns: Semaphore::new(limits.in_flight.max(1)),
            held_until: Mutex::new(None),
            rate: limits.per_second.map(Rate::new),
        }
    }

    /// Waits until one call more is within the rate.
    pub(super) async fn paced(&self) {
        if let Some(rate) = &self.rate {
            tokio::time::sleep_until(rate.take(Instant::now())).await;
        }
    }

    pub(super) fn origin(&self) -> &str {
        &self.origin
    }

    /// Waits for a turn. While the server wants a pause nothing waits here: the caller has other
    /// things to do.
    pub(super) async fn turn(
        &self,
        class: CallClass,
    ) -> Result<Option<SemaphorePermit<'_>>, CallError> {
        if class == CallClass::Lease {
            return Ok(None);
        }
        self.free(class).await?;
        let turn = match class {
            CallClass::Event => self.turns.try_acquire().ok(),
            _ => self.turns.acquire().await.ok(),
        };
        let turn = turn.ok_or(CallError::Held(Duration::ZERO))?;
        self.paced().await;
        self.free(class).await?;
        Ok(Some(turn))
    }

    async fn free(&self, class: CallClass) -> Result<(), CallError> {
        let held_until = *self.held_until.lock();
        let Some(left) = held_until.map(|until| until.saturating_duration_since(Instant::now()))
        else {
            return Ok(());
        };
        if class == CallClass::Event && !left.is_zero() || left > WAITED_OUT {
            return Err(CallError::Held(left));
        }
        tokio::time::sleep(left).await;
        Ok(())
    }

    /// Takes from an answer whether the server wants a pause.
    pub(super) fn answered(&self, reply: &Reply) {
        let pause = match (reply.status, reply.retry_after) {
            (429, pause) => pause.unwrap_or(PAUSE),
            (503, Some(pause)) => pause,
            _ => return,
        };
        let until = Instant::now() + pause.min(LONGEST_PAUSE);
        let mut held_until = self.held_until.lock();
        *held_until = Some(held_until.map_or(until, |held| held.max(until)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_rate_lets_a_few_go_at_once_and_then_so_many_a_second() {
        let limits = Limits {
            per_second: NonZeroU32::new(5),
            ..Limits::default()
        };
        let lane = Lane::new("https://example.com", &limits);
        let begun = Instant::now();
        let mut sent = Vec::new();
        for _ in 0..20 {
            lane.turn(CallClass::Work).await.unwrap();
            sent.push(begun.elapsed().as_millis());
        }
        assert_eq!(sent[..10], [0; 10]);
        assert_eq!(sent[10..13], [200, 400, 600]);
        assert_eq!(sent[19], 2000);
        // What was not used for a while is there again, and no more than that.
        tokio::time::advance(Duration::from_mins(1)).await;
        let begun = Instant::now();
        for _ in 0..11 {
            lane.turn(CallClass::Work).await.unwrap();
        }
        assert_eq!(begun.elapsed().as_millis(), 200);
    }
}
