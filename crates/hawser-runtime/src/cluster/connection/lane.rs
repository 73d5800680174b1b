//! The lane to one server: how many calls may be under way, and whether it asked for a pause.

use std::num::NonZeroU32;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::{Semaphore, SemaphorePermit, oneshot};
use tokio::time::{Instant, timeout};

use super::{CallClass, CallError, Limits, Reply};

mod line;

use line::{Line, Tenant};

/// The pause after a refusal that names none.
const PAUSE: Duration = Duration::from_secs(1);
/// No server holds a lane for longer, whatever it says.
const LONGEST_PAUSE: Duration = Duration::from_secs(30);
/// A pause shorter than this is waited out in line.
const WAITED_OUT: Duration = Duration::from_millis(100);
/// How long a call waits for its turn.
const PATIENCE: Duration = Duration::from_secs(10);
/// Events under way at the same time. They take no turn of other calls.
const EVENTS: usize = 16;

pub(super) struct Lane {
    origin: String,
    begun: Instant,
    line: Mutex<Line<oneshot::Sender<()>>>,
    events: Semaphore,
    rate: Option<Rate>,
}

/// The right to have a call under way, given back when it is dropped.
pub(super) struct Turn<'l> {
    _place: Option<Place<'l>>,
    _event: Option<SemaphorePermit<'l>>,
}

/// A place in the line, before and after its turn has come.
struct Place<'l> {
    lane: &'l Lane,
    tenant: Tenant,
    number: u64,
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        let now = self.lane.now();
        let mut line = self.lane.line.lock();
        line.leave(&self.tenant, self.number, now);
        let admitted = line.admit(now);
        drop(line);
        tell(admitted);
    }
}

fn tell(admitted: Vec<oneshot::Sender<()>>) {
    for waiter in admitted {
        // Who has stopped waiting gives the place back.
        let _ = waiter.send(());
    }
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
            begun: Instant::now(),
            line: Mutex::new(Line::new(limits.in_flight)),
            events: Semaphore::new(EVENTS),
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

    fn now(&self) -> Duration {
        self.begun.elapsed()
    }

    /// Waits for a turn. While the server wants a pause nothing waits here: the caller has other
    /// things to do.
    pub(super) async fn turn(
        &self,
        tenant: &Tenant,
        class: CallClass,
    ) -> Result<Turn<'_>, CallError> {
        let (place, event) = match class {
            CallClass::Lease => (None, None),
            CallClass::Event => {
                if let Some(left) = self.line.lock().held_for(tenant, self.now()) {
                    return Err(CallError::Held(left));
                }
                let event = self.events.try_acquire();
                (None, Some(event.map_err(|_| CallError::NoTurn)?))
            }
            CallClass::Work => {
                self.free(tenant).await?;
                (Some(self.place(tenant).await?), None)
            }
        };
        if class != CallClass::Lease {
            self.paced().await;
        }
        if class == CallClass::Work {
            self.free(tenant).await?;
        }
        Ok(Turn {
            _place: place,
            _event: event,
        })
    }

    /// A place in the line whose turn has come.
    async fn place(&self, tenant: &Tenant) -> Result<Place<'_>, CallError> {
        let (place, called) = self.enter(tenant);
        match timeout(PATIENCE, called).await {
            Ok(Ok(())) => Ok(place),
            Ok(Err(_)) | Err(_) => Err(CallError::NoTurn),
        }
    }

    fn enter(&self, tenant: &Tenant) -> (Place<'_>, oneshot::Receiver<()>) {
        let (waiter, called) = oneshot::channel();
        let now = self.now();
        let mut line = self.line.lock();
        let place = Place {
            lane: self,
            tenant: tenant.clone(),
            number: line.enter(tenant, waiter, now),
        };
        let admitted = line.admit(now);
        drop(line);
        tell(admitted);
        (place, called)
    }

    async fn free(&self, tenant: &Tenant) -> Result<(), CallError> {
        let held = self.line.lock().held_for(tenant, self.now());
        match held {
            None => Ok(()),
            Some(left) if left > WAITED_OUT => Err(CallError::Held(left)),
            Some(left) => {
                tokio::time::sleep(left).await;
                Ok(())
            }
        }
    }

    /// Takes from an answer whether the server wants a pause, and from whom.
    ///
    /// What limits a server as a whole answers in plain words, before anything looks at the request. A
    /// `Status` comes from behind it, where webhooks of the tenant may have the word.
    pub(super) fn answered(&self, tenant: &Tenant, class: CallClass, reply: &Reply) {
        let pause = match (reply.status, reply.retry_after) {
            (429, pause) => pause.unwrap_or(PAUSE),
            (503, Some(pause)) => pause,
            _ => return,
        };
        let now = self.now();
        let until = now + pause.min(LONGEST_PAUSE);
        let mut line = self.line.lock();
        if !reply.is_status() {
            line.hold(until);
        } else if class != CallClass::Event {
            line.hold_tenant(tenant, until, now);
        }
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
            lane.turn(&None, CallClass::Work).await.unwrap();
            sent.push(begun.elapsed().as_millis());
        }
        assert_eq!(sent[..10], [0; 10]);
        assert_eq!(sent[10..13], [200, 400, 600]);
        assert_eq!(sent[19], 2000);
        // What was not used for a while is there again, and no more than that.
        tokio::time::advance(Duration::from_mins(1)).await;
        let begun = Instant::now();
        for _ in 0..11 {
            lane.turn(&None, CallClass::Work).await.unwrap();
        }
        assert_eq!(begun.elapsed().as_millis(), 200);
    }
}
