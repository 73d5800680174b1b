//! Watches: the initial state on request, then changes as they happen, with bookmarks in between.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::StreamExt as _;
use futures::stream::{self, BoxStream};
use tokio::time::{Instant, Sleep, sleep_until};

use super::aside::{Aside, SMALL};
use super::list;
use super::query::{MATCH, Query, list_options};
use super::select::Chosen;
use super::view::{Heads, View};
use crate::catalog::Resource;
use crate::status::Status;
use crate::store::{Event, EventKind, Filter, Range, Store, Stored, Watch};
use kube_schema::field::FieldError;

/// The interval of bookmarks in a quiet watch.
const BOOKMARK_EVERY: Duration = Duration::from_mins(1);
/// The duration of a watch without a timeout from the client.
const LASTS: Duration = Duration::from_mins(45);
/// The time between the last bookmark and the end.
const FAREWELL: Duration = Duration::from_secs(2);
/// The number of changes that are processed before the task yields.
const BATCH: usize = 256;
/// The bytes of shown objects before the task yields.
const BATCH_SIZE: usize = 1 << 20;

/// The beginning of a watch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Start {
    /// The current state, as additions.
    Current,
    /// The state at a revision or later, as additions, ended by a bookmark.
    List(u64),
    /// Changes after a revision.
    After(u64),
    /// Changes from now on.
    Now,
}

/// Duration, bookmarks and beginning.
pub(super) struct Plan {
    start: Start,
    bookmarks: bool,
    timeout: Duration,
}

/// The current serving of the watched resource.
pub(super) enum Standing {
    Served(Arc<Resource>),
    /// It is no longer served, or served in another way.
    Gone,
    /// The same; the watch ends with an error.
    Failed,
    /// No more events arrive.
    Silent,
}

pub(super) type Current = Arc<dyn Fn() -> Standing + Send + Sync>;

/// The error of watches in an export's view when the export has changed.
const CANCELLED: &str = "unable to decode an event from the watch stream: context canceled";

impl Plan {
    pub(super) fn parse(query: &Query<'_>) -> Result<Self, Status> {
        check_options(query)?;
        let revision = query.late_resource_version()?;
        let start = if query.flag("sendInitialEvents")? {
            Start::List(revision.unwrap_or_default())
        } else if query.get("sendInitialEvents").is_some() && revision.is_none() {
            Start::Now
        } else {
            revision.map_or(Start::Current, Start::After)
        };
        let seconds = query.number("timeoutSeconds")?.filter(|s| *s > 0);
        Ok(Self {
            start,
            bookmarks: query.flag("allowWatchBookmarks")?,
            timeout: seconds.map_or(LASTS, Duration::from_secs).min(LASTS * 4),
        })
    }
}

/// Refuses options that contradict each other.
fn check_options(query: &Query<'_>) -> Result<(), Status> {
    let matching = query.get(MATCH);
    let initial = query.get("sendInitialEvents").is_some();
    let mut errors = Vec::new();
    if query.get("continue").is_some() {
        errors.push(FieldError::forbidden(
            MATCH,
            "resourceVersionMatch is forbidden when continue is provided",
        ));
    }
    if initial && matching != Some("NotOlderThan") {
        errors.push(FieldError::forbidden(
            MATCH,
            "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan",
        ));
    } else if !initial && matching.is_some() {
        errors.push(FieldError::forbidden(
            MATCH,
            "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided",
        ));
    }
    if let Some(other) = matching.filter(|matching| *matching != "NotOlderThan") {
        errors.push(FieldError::not_supported(MATCH, other, ["NotOlderThan"]));
    }
    if errors.is_empty() {
        Ok(())
    } else {
        Err(list_options(&errors))
    }
}

/// The watched range and its view.
pub(super) struct Watched {
    pub(super) range: Range,
    pub(super) chosen: Arc<Chosen>,
    pub(super) view: View,
    pub(super) current: Current,
    pub(super) aside: Aside,
}

/// A running watch.
struct Telling {
    /// The rest of the initial state.
    initial: std::vec::IntoIter<Arc<Stored>>,
    /// The revision of the bookmark after the initial state.
    synced: Option<u64>,
    watch: Watch,
    view: View,
    aside: Aside,
    bookmarks: bool,
    next_bookmark: Instant,
    end: Instant,
    /// The future is kept from event to event, because creating it takes longer than an event.
    timer: Pin<Box<Sleep>>,
    told: u64,
    definitions: tokio::sync::watch::Receiver<u64>,
    current: Current,
    /// The resource is about to end: its last events are still sent.
    closing: bool,
    over: bool,
}

/// The events of a watch, each a line of JSON or a frame. They are encoded when the client reads them.
pub(super) async fn watch(
    store: &Arc<Store>,
    watched: Watched,
    plan: Plan,
) -> Result<BoxStream<'static, Bytes>, Status> {
    let Watched {
        range,
        chosen,
        view,
        current,
        aside,
    } = watched;
    // Read before the objects, so that no change of a definition is missed.
    let definitions = store.watch_definitions();
    let mut initial = Vec::new();
    let mut synced = None;
    let from = match plan.start {
        Start::After(revision) => revision,
        Start::Now => store.revision(),
        Start::Current | Start::List(_) => {
            if let Start::List(revision) = plan.start {
                list::reach(store, revision).await?;
            }
            let snapshot = store.snapshot(&range);
            initial = snapshot.items;
            initial.retain(|stored| chosen.matches(stored));
            if matches!(plan.start, Start::List(_)) && plan.bookmarks {
                synced = Some(snapshot.revision);
            }
            snapshot.revision
        }
    };
    let filter: Arc<dyn Filter> = chosen;
    let now = Instant::now();
    let telling = Telling {
        initial: initial.into_iter(),
        synced,
        watch: store.watch(range, Some(filter), from),
        view: view.of_watch(),
        aside,
        bookmarks: plan.bookmarks,
        next_bookmark: now + BOOKMARK_EVERY.min(plan.timeout.saturating_sub(FAREWELL)),
        end: now + plan.timeout,
        timer: Box::pin(sleep_until(now + plan.timeout)),
        told: from,
        definitions,
        current,
        closing: false,
        over: false,
    };
    let told = stream::unfold(telling, |mut telling| async move {
        let events = telling.next().await?;
        Some((stream::iter(events), telling))
    });
    Ok(told.flatten().boxed())
}

impl Telling {
    /// The next events; `None` when the watch is over.
    async fn next(&mut self) -> Option<Vec<Bytes>> {
        if self.over {
            return None;
        }
        let initial = self.beginning();
        if !initial.is_empty() {
            return Some(self.tell(initial).await);
        }
        if let Some(revision) = self.synced.take() {
            return Some(match self.view.bookmark(revision, true) {
                Ok(bookmark) => {
                    self.view.heads = Heads::Told;
                    vec![self.view.event("BOOKMARK", &bookmark)]
                }
                Err(status) => self.fail(&status),
            });
        }
        self.change().await
    }

    /// The next part of the initial state.
    fn beginning(&mut self) -> Vec<Event> {
        let mut size = 0;
        let mut batch = Vec::new();
        while batch.len() < BATCH && size < BATCH_SIZE {
            let Some(object) = self.initial.next() else {
                break;
            };
            size += object.size();
            batch.push(Event {
                kind: EventKind::Added,
                revision: self.told,
                object,
            });
        }
        batch
    }

    /// The changes after the initial state.
    async fn change(&mut self) -> Option<Vec<Bytes>> {
        loop {
            if Instant::now() >= self.end {
                return None;
            }
            // Subscribes first, so that changes in the meantime wake the watch again.
            let polled = self.watch.poll(BATCH);
            if self.definitions.has_changed().unwrap_or(false) {
                self.definitions.borrow_and_update();
                match (self.current)() {
                    Standing::Served(resource) => self.view.follow(resource),
                    Standing::Gone => self.closing = true,
                    Standing::Failed => {
                        let status = Status::new(500, "InternalError", CANCELLED).about_nothing();
                        return Some(self.fail(&status));
                    }
                    // The watch stays silent until its end.
                    Standing::Silent => {
                        sleep_until(self.end).await;
                        return None;
                    }
                }
            }
            match polled {
                Err(status) => return Some(self.fail(&status)),
                Ok(events) if !events.is_empty() => return Some(self.tell(events).await),
                Ok(_) if self.closing => return None,
                Ok(_) => {}
            }
            if self.bookmarks && Instant::now() >= self.next_bookmark {
                return Some(match self.bookmark() {
                    Ok(bookmark) => vec![bookmark],
                    Err(status) => self.fail(&status),
                });
            }
            let wake = self.next_bookmark.min(self.end);
            let wake = if self.bookmarks { wake } else { self.end };
            if self.timer.deadline() != wake {
                self.timer.as_mut().reset(wake);
            }
            tokio::select! {
                biased;
                () = self.watch.changed() => {}
                () = self.timer.as_mut() => {}
            }
        }
    }

    /// Events as lines. Large ones are encoded outside of the serving threads.
    async fn tell(&mut self, events: Vec<Event>) -> Vec<Bytes> {
        let size: usize = events.iter().map(|event| event.object.size()).sum();
        if let Some(last) = events.last() {
            self.told = last.revision;
        }
        let view = self.view.clone();
        self.view.heads = Heads::Told;
        let made = if view.is_quick() || size < SMALL {
            Ok(lines(view, &events))
        } else {
            self.aside.run(move || lines(view, &events)).await
        };
        match made {
            Ok((lines, None)) => lines,
            Ok((mut lines, Some(status))) => {
                lines.extend(self.fail(&status));
                lines
            }
            Err(status) => self.fail(&status),
        }
    }

    fn bookmark(&mut self) -> Result<Bytes, Status> {
        let now = Instant::now();
        let farewell = self.end.checked_sub(FAREWELL).unwrap_or(self.end);
        self.next_bookmark = match now + BOOKMARK_EVERY {
            later if later < farewell => later,
            _ if now < farewell => farewell,
            _ => self.end,
        };
        // A watch from a future revision reports nothing about the present.
        let revision = self.watch.position().max(self.told);
        let bookmark = self.view.bookmark(revision, false)?;
        self.view.heads = Heads::Told;
        Ok(self.view.event("BOOKMARK", &bookmark))
    }

    fn fail(&mut self, status: &Status) -> Vec<Bytes> {
        self.over = true;
        vec![self.view.failure(status)]
    }
}

/// The lines of events, up to the first one that cannot be shown.
fn lines(mut view: View, events: &[Event]) -> (Vec<Bytes>, Option<Status>) {
    let mut lines = Vec::with_capacity(events.len());
    for happened in events {
        let object = &happened.object;
        let shown = match happened.kind {
            EventKind::Added => view.body(object).map(|body| ("ADDED", body)),
            EventKind::Modified => view.body(object).map(|body| ("MODIFIED", body)),
            EventKind::Deleted => {
                let body = view.body_at(object, happened.revision);
                body.map(|body| ("DELETED", body))
            }
        };
        match shown {
            Ok((kind, body)) => lines.push(view.event(kind, &body)),
            Err(status) => return (lines, Some(status)),
        }
        view.heads = Heads::Told;
    }
    (lines, None)
}
