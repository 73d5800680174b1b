//! The lane to one server: the number of concurrent calls, and the pauses that the server asks for.

use std::collections::HashMap;
use std::future;
use std::num::NonZeroU32;
use std::time::Duration;

use parking_lot::{Mutex, MutexGuard};
use tokio::sync::{Semaphore, SemaphorePermit, oneshot};
use tokio::time::{Instant, sleep, sleep_until, timeout_at};

use super::call::{CallClass, CallError, Reply};
use super::limits::Limits;

mod line;

use line::{Line, SLOW, Tenant};

/// The pause after a refusal that names none.
const PAUSE: Duration = Duration::from_secs(1);
/// The longest pause that the server can cause.
const LONGEST_PAUSE: Duration = Duration::from_secs(30);
/// A shorter pause is waited out in line.
const SHORT_PAUSE: Duration = Duration::from_millis(100);
/// The longest time that a call waits for its turn.
const MAX_WAIT: Duration = Duration::from_secs(10);
/// A server without calls for this long is quiet.
const QUIET: Duration = Duration::from_millis(50);
/// Concurrent calls for events. They take no turn from other calls.
const EVENTS: usize = 16;

pub(super) struct Lane {
    origin: String,
    begun: Instant,
    line: Mutex<Line<oneshot::Sender<()>>>,
    /// Notified when a call is given up, by number.
    under_way: Mutex<HashMap<u64, oneshot::Sender<()>>>,
    events: Semaphore,
    rate: Option<Rate>,
    /// Lists on behalf of no tenant that the server wants to be paused, by path, and until when.
    lists: Mutex<HashMap<String, Duration>>,
}

/// The permission for one call, returned when it is dropped.
pub(super) struct Turn<'l> {
    place: Option<LinePosition<'l>>,
    _event: Option<SemaphorePermit<'l>>,
}

impl Turn<'_> {
    /// Resolves when the call has to be abandoned: it got no response for a long time, and another tenant waits for its
    /// place.
    pub(super) async fn given_up(&mut self) {
        if let Some(place) = &mut self.place
            && (&mut place.given_up).await.is_ok()
        {
            return;
        }
        future::pending::<()>().await;
    }
}

/// A place in the line, before and after its turn has come.
struct LinePosition<'l> {
    lane: &'l Lane,
    tenant: Tenant,
    number: u64,
    given_up: oneshot::Receiver<()>,
}

impl Drop for LinePosition<'_> {
    fn drop(&mut self) {
        self.lane.under_way.lock().remove(&self.number);
        let mut line = self.lane.line.lock();
        line.leave(&self.tenant, self.number, self.lane.now());
        self.lane.admit_next(line);
    }
}

fn wake_admitted(admitted: Vec<oneshot::Sender<()>>) {
    for waiter in admitted {
        // Who has stopped waiting gives the place back.
        let _ = waiter.send(());
    }
}

/// A rate of calls: twice as many at once after a quiet time.
struct Rate {
    every: Duration,
    /// The time of the next call, if bursts were not allowed.
    next: Mutex<Instant>,
}

impl Rate {
    fn new(per_second: NonZeroU32) -> Self {
        Self {
            every: Duration::from_secs(1) / per_second.get(),
            next: Mutex::new(Instant::now()),
        }
    }

    /// The time at which the next call may be sent; reserves it.
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
            under_way: Mutex::default(),
            events: Semaphore::new(EVENTS),
            rate: limits.per_second.map(Rate::new),
            lists: Mutex::default(),
        }
    }

    /// Fails if the server wants a pause of this list. A server that installs one kind has others to list.
    pub(super) fn list_is_free(&self, list: &str) -> Result<(), CallError> {
        let (now, lists) = (self.now(), self.lists.lock());
        let until = lists.get(list).filter(|until| **until > now);
        until.map_or(Ok(()), |until| {
            Err(CallError::Held(until.saturating_sub(now)))
        })
    }

    /// Reads from the response to a list on behalf of no tenant whether the server wants a pause, and of what.
    pub(super) fn listed(&self, list: &str, class: CallClass, reply: &Reply) {
        let Some(pause) = pause(reply).filter(|_| reply.is_status()) else {
            return self.answered(&None, class, reply);
        };
        let now = self.now();
        let mut lists = self.lists.lock();
        lists.retain(|_, until| *until > now);
        lists.insert(list.to_owned(), now + pause);
    }

    /// Waits until one more call is within the rate.
    pub(super) async fn paced(&self) {
        if let Some(rate) = &self.rate {
            sleep_until(rate.take(Instant::now())).await;
        }
    }

    pub(super) fn origin(&self) -> &str {
        &self.origin
    }

    fn now(&self) -> Duration {
        self.begun.elapsed()
    }

    /// Waits for a turn. Fails at once while the server wants a pause, because the caller has other work.
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
            CallClass::Work | CallClass::DryRun => {
                self.free(tenant).await?;
                (Some(self.place(tenant).await?), None)
            }
        };
        if class != CallClass::Lease {
            self.paced().await;
        }
        if matches!(class, CallClass::Work | CallClass::DryRun) {
            self.free(tenant).await?;
        }
        Ok(Turn {
            place,
            _event: event,
        })
    }

    /// Waits until the server is quiet, or until the deadline.
    pub(super) async fn quiet(&self, deadline: Instant) {
        let quiet = async {
            loop {
                let since = self.line.lock().quiet_since();
                let lasted = since.map_or(Duration::ZERO, |since| self.now().saturating_sub(since));
                if lasted >= QUIET {
                    return;
                }
                sleep(QUIET.saturating_sub(lasted)).await;
            }
        };
        // At the deadline it is no longer waited for.
        let _ = timeout_at(deadline, quiet).await;
    }

    /// Waits for a place whose turn has come.
    async fn place(&self, tenant: &Tenant) -> Result<LinePosition<'_>, CallError> {
        let (place, mut called) = self.enter(tenant);
        let deadline = Instant::now() + MAX_WAIT;
        loop {
            if called.try_recv().is_ok() {
                return Ok(place);
            }
            if self.line.lock().is_crowded(tenant, self.now()) {
                return Err(CallError::NoTurn);
            }
            let look = deadline.min(Instant::now() + SLOW);
            match timeout_at(look, &mut called).await {
                Ok(Ok(())) => return Ok(place),
                // Calls that get no response may be given up by now.
                Err(_) if look < deadline => self.admit_next(self.line.lock()),
                Ok(Err(_)) | Err(_) => return Err(CallError::NoTurn),
            }
        }
    }

    fn enter(&self, tenant: &Tenant) -> (LinePosition<'_>, oneshot::Receiver<()>) {
        let (waiter, called) = oneshot::channel();
        let (ends, given_up) = oneshot::channel();
        let mut line = self.line.lock();
        let number = line.enter(tenant, waiter, self.now());
        self.under_way.lock().insert(number, ends);
        self.admit_next(line);
        let place = LinePosition {
            lane: self,
            tenant: tenant.clone(),
            number,
            given_up,
        };
        (place, called)
    }

    /// Lets calls go whose turn has come, and gives up calls that are in their way.
    fn admit_next(&self, mut line: MutexGuard<'_, Line<oneshot::Sender<()>>>) {
        let now = self.now();
        let admitted = line.admit(now);
        let given_up = line.give_up(now);
        drop(line);
        wake_admitted(admitted);
        for number in given_up {
            let ends = self.under_way.lock().remove(&number);
            // A call that has ended meanwhile need not be told.
            let _ = ends.map(|ends| ends.send(()));
        }
    }

    async fn free(&self, tenant: &Tenant) -> Result<(), CallError> {
        let held = self.line.lock().held_for(tenant, self.now());
        match held {
            None => Ok(()),
            Some(left) if left > SHORT_PAUSE => Err(CallError::Held(left)),
            Some(left) => {
                sleep(left).await;
                Ok(())
            }
        }
    }

    /// Reads from a response whether the server wants a pause, and from whom.
    ///
    /// The limit of the server as a whole responds in plain text, before it looks at the request. A `Status` comes from
    /// behind it, possibly from a webhook of the tenant.
    pub(super) fn answered(&self, tenant: &Tenant, class: CallClass, reply: &Reply) {
        let Some(pause) = pause(reply) else {
            return;
        };
        let now = self.now();
        let until = now + pause;
        let mut line = self.line.lock();
        if !reply.is_status() {
            line.hold(until);
        } else if class != CallClass::Event {
            line.hold_tenant(tenant, until, now);
        }
    }
}

/// The pause that a response asks for.
fn pause(reply: &Reply) -> Option<Duration> {
    let pause = match (reply.status, reply.retry_after) {
        (429, pause) => pause.unwrap_or(PAUSE),
        (503, pause) => pause?,
        _ => return None,
    };
    Some(pause.min(LONGEST_PAUSE))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use tokio::task::JoinSet;

    use super::*;

    /// The worst that a queue with 64 workers lets tenants begin before it knows who is slow.
    #[tokio::test(start_paused = true)]
    async fn workers_of_tenants_that_begin_to_hang_at_once_are_free_again_once_that_is_noticed() {
        for crowd in [7, 12, 32] {
            let limits = Limits {
                in_flight: 32,
                ..Limits::default()
            };
            let lane = Arc::new(Lane::new("https://example.com", &limits));
            let hangs = |tenant: usize| {
                let lane = Arc::clone(&lane);
                async move {
                    let tenant = Some(Arc::from(tenant.to_string()));
                    if let Ok(mut turn) = lane.turn(&tenant, CallClass::Work).await {
                        turn.given_up().await;
                    }
                }
            };
            let mut workers = JoinSet::new();
            for number in 0..64 {
                workers.spawn(hangs(number % crowd));
            }
            tokio::time::sleep(Duration::from_millis(1_999)).await;
            assert_eq!(workers.len(), 64);
            tokio::time::sleep(Duration::from_millis(10)).await;
            while workers.try_join_next().is_some() {}
            // No more wait than slow tenants may have under way.
            assert!(workers.len() <= 32 + 16, "{crowd} tenants");
            // Whoever has a free worker now is sent for, and more calls that would hang do not wait.
            let other = Some("other".into());
            lane.turn(&other, CallClass::Work).await.map(drop).unwrap();
            let begun = Instant::now();
            hangs(0).await;
            assert_eq!(begun.elapsed(), Duration::ZERO);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_server_is_quiet_a_moment_after_its_last_call_and_nobody_waits_for_ever() {
        let lane = Lane::new("https://example.com", &Limits::default());
        let (begun, second) = (Instant::now(), Duration::from_secs(1));
        let turn = lane.turn(&None, CallClass::Work).await.unwrap();
        lane.quiet(begun + second).await;
        assert_eq!(begun.elapsed(), second);
        drop(turn);
        lane.quiet(begun + second * 2).await;
        assert_eq!(begun.elapsed(), second + QUIET);
        lane.quiet(begun + second * 2).await;
        assert_eq!(begun.elapsed(), second + QUIET);
    }

    /// As kube-apiserver says of a kind that was installed a moment ago.
    #[tokio::test(start_paused = true)]
    async fn a_pause_of_one_kinds_list_is_no_pause_of_others() {
        let lane = Lane::new("https://example.com", &Limits::default());
        let refused = |body: &'static [u8]| Reply {
            status: 429,
            body: body.into(),
            retry_after: Some(Duration::from_secs(5)),
            date: None,
        };
        let status = refused(br#"{"kind": "Status"}"#);
        lane.listed("/apis/a/v1/gadgets", CallClass::Work, &status);
        let held = lane.list_is_free("/apis/a/v1/gadgets");
        assert_eq!(held, Err(CallError::Held(Duration::from_secs(5))));
        assert_eq!(lane.list_is_free("/apis/a/v1/lamps"), Ok(()));
        assert!(lane.turn(&None, CallClass::Work).await.is_ok());
        tokio::time::advance(Duration::from_secs(5)).await;
        assert_eq!(lane.list_is_free("/apis/a/v1/gadgets"), Ok(()));
        // In plain text it is the server as a whole.
        let busy = refused(b"Too many requests");
        lane.listed("/apis/a/v1/gadgets", CallClass::Work, &busy);
        assert!(lane.turn(&None, CallClass::Work).await.is_err());
    }

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
