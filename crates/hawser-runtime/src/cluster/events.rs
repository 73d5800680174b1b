//! Events about objects, for their owners. They use a separate lane, one event of a tenant at a time, with a rate for
//! each object and each tenant. They yield to other calls for a second. Events are best effort: any failure drops them.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use futures::future::BoxFuture;
use futures::stream::FuturesUnordered;
use futures::{FutureExt as _, StreamExt as _};
use jiff::Timestamp;
use parking_lot::Mutex;
use tokio::sync::mpsc;
use tokio::time::Instant;
use uuid::Uuid;

use super::connection::{Call, CallClass, CallError, Connection, Refusal, StatusCause};
use super::wire::collection;
use kube_lang::object::Gvk;

mod body;
mod rates;

use body::Draft;
pub use body::{EventText, InvolvedObject};
use rates::{Counted, Rates};

/// The length of the queue. With the burst of a tenant, it takes twenty tenants in trouble to fill it.
const LINE: usize = 512;
/// An event that takes longer is given up, in favour of the next one.
const TIMEOUT: Duration = Duration::from_secs(5);
/// The time for which an event waits until the server is quiet: the writes of a burst go first.
const YIELDS: Duration = Duration::from_secs(1);
/// Concurrent events, each of another tenant.
const AT_ONCE: usize = 16;

/// An event to be sent.
#[derive(Clone, Debug)]
pub struct Note {
    /// The connection to the cluster of the object.
    pub connection: Connection,
    /// The tenant. Its events are sent one after the other, and counted together.
    pub tenant: Arc<str>,
    pub about: InvolvedObject,
    pub text: EventText,
    /// Whether the object has a problem; `None` if the event does not say.
    pub trouble: Option<bool>,
}

struct QueuedNote {
    note: Note,
    counted: Counted,
    at: Instant,
}

/// Accepts events and never waits. Clones share the queue and the rates.
#[derive(Clone)]
pub struct Recorder {
    line: mpsc::Sender<QueuedNote>,
    shared: Arc<Shared>,
}

/// Sends the events of recorders. One event of a tenant is sent at a time, others wait behind it.
pub struct Sender {
    line: mpsc::Receiver<QueuedNote>,
    under_way: FuturesUnordered<BoxFuture<'static, (Arc<str>, Delivery)>>,
    behind: HashMap<Arc<str>, VecDeque<QueuedNote>>,
    shared: Arc<Shared>,
    clock: fn() -> Timestamp,
}

/// The fate of events.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    pub sent: u64,
    /// Not sent: the same was sent before, too many were, or the guard of the connection refused it.
    pub held_back: u64,
    /// Dropped because the queue was full.
    pub overflowed: u64,
    /// Refused, or without response in time.
    pub failed: u64,
}

struct Shared {
    /// Held for one question at a time, never over an await.
    rates: Mutex<Rates>,
    random: RandomState,
    sent: AtomicU64,
    held_back: AtomicU64,
    overflowed: AtomicU64,
    failed: AtomicU64,
    start: Instant,
}

impl Shared {
    fn object(&self, about: &InvolvedObject) -> u64 {
        self.random.hash_one((&about.key, &about.uid))
    }

    fn now(&self) -> Duration {
        self.start.elapsed()
    }
}

/// A queue for events. The clock gives the time that is written into them.
pub fn line(clock: fn() -> Timestamp) -> (Recorder, Sender) {
    let (sender, receiver) = mpsc::channel(LINE);
    let shared = Arc::new(Shared {
        rates: Mutex::default(),
        random: RandomState::new(),
        sent: AtomicU64::new(0),
        held_back: AtomicU64::new(0),
        overflowed: AtomicU64::new(0),
        failed: AtomicU64::new(0),
        start: Instant::now(),
    });
    let recorder = Recorder {
        line: sender,
        shared: Arc::clone(&shared),
    };
    let sender = Sender {
        line: receiver,
        under_way: FuturesUnordered::new(),
        behind: HashMap::new(),
        shared,
        clock,
    };
    (recorder, sender)
}

impl Recorder {
    /// Queues an event, unless it was sent already or there are too many.
    pub fn record(&self, note: Note) {
        let shared = &self.shared;
        let InvolvedObject { key, uid } = &note.about;
        let print = shared.random.hash_one((key, uid, &note.text));
        let trouble = note.trouble.map(|has| (shared.object(&note.about), has));
        let now = shared.now();
        let allowed = shared.rates.lock().allow(&note.tenant, print, trouble, now);
        let queued = allowed.map(|counted| {
            let at = Instant::now();
            self.line.try_send(QueuedNote { note, counted, at }).is_ok()
        });
        let counter = match queued {
            None => &shared.held_back,
            Some(false) => &shared.overflowed,
            Some(true) => return,
        };
        counter.fetch_add(1, Ordering::Relaxed);
    }

    /// Whether the last event about an object told of a problem.
    pub fn is_troubled(&self, about: &InvolvedObject) -> bool {
        self.shared
            .rates
            .lock()
            .is_troubled(self.shared.object(about))
    }

    pub fn counts(&self) -> Counts {
        let Shared {
            sent,
            held_back,
            overflowed,
            failed,
            ..
        } = &*self.shared;
        Counts {
            sent: sent.load(Ordering::Relaxed),
            held_back: held_back.load(Ordering::Relaxed),
            overflowed: overflowed.load(Ordering::Relaxed),
            failed: failed.load(Ordering::Relaxed),
        }
    }
}

impl fmt::Debug for Recorder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Recorder").field(&self.counts()).finish()
    }
}

impl fmt::Debug for Sender {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sender").finish_non_exhaustive()
    }
}

impl Sender {
    /// Sends until the last recorder is gone. It can be aborted at any time.
    pub async fn run(mut self) {
        while self.one().await.is_some() {}
    }

    /// Handles events until one more has been sent; `None` once the last recorder is gone.
    async fn one(&mut self) -> Option<()> {
        loop {
            let ended = tokio::select! {
                next = self.line.recv(), if self.under_way.len() < AT_ONCE => match next {
                    Some(queued) => {
                        self.take(queued);
                        continue;
                    }
                    None => self.under_way.next().await,
                },
                ended = self.under_way.next(), if !self.under_way.is_empty() => ended,
            };
            let (tenant, delivery) = ended?;
            self.ended(&tenant, &delivery);
            return Some(());
        }
    }

    fn take(&mut self, queued: QueuedNote) {
        match self.behind.entry(Arc::clone(&queued.note.tenant)) {
            Entry::Occupied(mut behind) => behind.get_mut().push_back(queued),
            Entry::Vacant(first) => {
                first.insert(VecDeque::new());
                self.send(queued);
            }
        }
    }

    fn send(&self, QueuedNote { note, counted, at }: QueuedNote) {
        let clock = self.clock;
        let sent = async move {
            note.connection.quiet(at + YIELDS).await;
            let delivery = deliver(&note, counted, clock()).await;
            (note.tenant, delivery)
        };
        self.under_way.push(sent.boxed());
    }

    /// The next event of the tenant follows, unless it would fail the same way.
    fn ended(&mut self, tenant: &Arc<str>, delivery: &Delivery) {
        let shared = &self.shared;
        let counter = match delivery {
            Delivery::Sent => &shared.sent,
            Delivery::Withheld => &shared.held_back,
            Delivery::Failed | Delivery::Late | Delivery::Refused => &shared.failed,
        };
        counter.fetch_add(1, Ordering::Relaxed);
        let now = shared.now();
        match delivery {
            Delivery::Sent | Delivery::Withheld | Delivery::Failed => {
                let next = self.behind.get_mut(tenant).and_then(VecDeque::pop_front);
                if let Some(next) = next {
                    return self.send(next);
                }
            }
            Delivery::Late => shared.rates.lock().late(tenant, now),
            Delivery::Refused => shared.rates.lock().refused(tenant, now),
        }
        let dropped = self.behind.remove(tenant).unwrap_or_default().len();
        let dropped = u64::try_from(dropped).unwrap_or(u64::MAX);
        shared.failed.fetch_add(dropped, Ordering::Relaxed);
    }
}

async fn deliver(note: &Note, counted: Counted, now: Timestamp) -> Delivery {
    let unique = Uuid::new_v4().simple().to_string();
    let draft = Draft {
        about: &note.about,
        text: &note.text,
        counted,
        now,
        unique: &unique[..16],
    };
    let path = collection(
        &Gvk::new("", "v1", "Event"),
        Some(note.about.namespace()),
        "events",
    );
    let call = Call::post(path, &draft.object()).class(CallClass::Event);
    let connection = note.connection.of(&note.tenant);
    match tokio::time::timeout(TIMEOUT, connection.call(call)).await {
        Ok(Ok(reply)) if reply.is_success() => Delivery::Sent,
        Ok(Ok(reply)) if reply.status == 429 => Delivery::Late,
        Ok(Ok(reply)) if is_not_accepted(&reply.refusal()) => Delivery::Refused,
        Ok(Err(CallError::Withheld(_))) => Delivery::Withheld,
        Ok(_) => Delivery::Failed,
        Err(_) => Delivery::Late,
    }
}

enum Delivery {
    Sent,
    /// Nobody wants it any more, or this process may no longer write.
    Withheld,
    /// Refused or dropped, without consequence for other events.
    Failed,
    /// No response in time, or a request to come later.
    Late,
    /// The tenant does not accept events.
    Refused,
}

/// Whether the workspace accepts no events at all, not only none in a namespace that is terminating.
fn is_not_accepted(refusal: &Refusal) -> bool {
    let going = |cause: &StatusCause| cause.reason == "NamespaceTerminating";
    refusal.code == 403 && !refusal.causes.iter().any(going)
}

#[cfg(test)]
mod tests;
