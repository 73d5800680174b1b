//! The lane to one server: how many calls may be under way, and whether it asked for a pause.

use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::time::Instant;

use super::{CallClass, CallError, Reply};

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
}

impl Lane {
    pub(super) fn new(origin: &str, in_flight: usize) -> Self {
        Self {
            origin: origin.to_owned(),
            turns: Semaphore::new(in_flight.max(1)),
            held_until: Mutex::new(None),
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
