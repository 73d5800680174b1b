//! Watches: the state first where it was asked for, then changes as they come, bookmarks in between.

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

/// Between two bookmarks of a quiet watch.
const BOOKMARK_EVERY: Duration = Duration::from_mins(1);
/// So long a watch lasts where its client names no time.
const LASTS: Duration = Duration::from_mins(45);
/// The last bookmark comes so long before the end.
const FAREWELL: Duration = Duration::from_secs(2);
/// Changes looked at between two turns of the runtime.
const BATCH: usize = 256;
/// Bytes of objects that are shown between two of them.
const BATCH_SIZE: usize = 1 << 20;

/// What a watch begins with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Start {
    /// Everything there is, as additions.
    Current,
    /// The same, at least as new as a revision, ended by a bookmark.
    List(u64),
    /// What comes after a revision.
    After(u64),
    /// What comes from here on.
    Now,
}

/// How long, how often, from where.
pub(super) struct Plan {
    start: Start,
    bookmarks: bool,
    timeout: Duration,
}

/// How what is watched is served now.
pub(super) enum Standing {
    Served(Arc<Resource>),
    /// No longer, or as something else.
    Gone,
    /// The same, and the watch says that it has failed.
    Failed,
    /// Nobody tells any more what happens.
    Silent,
}

pub(super) type Current = Arc<dyn Fn() -> Standing + Send + Sync>;

/// What watches in the view of an export say when the export has become another.
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

/// Refuses options that make no sense together.
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

/// What is watched, and how it is shown.
pub(super) struct Watched {
    pub(super) range: Range,
    pub(super) chosen: Arc<Chosen>,
    pub(super) view: View,
    pub(super) current: Current,
    pub(super) aside: Aside,
}

/// A watch that is being told.
struct Telling {
    /// What is there at the beginning, until it has been told.
    initial: std::vec::IntoIter<Arc<Stored>>,
    /// The revision of the bookmark that ends the beginning.
    synced: Option<u64>,
    watch: Watch,
    view: View,
    aside: Aside,
    bookmarks: bool,
    next_bookmark: Instant,
    end: Instant,
    /// Kept from event to event: to make one takes longer than to tell what has happened.
    timer: Pin<Box<Sleep>>,
    told: u64,
    definitions: tokio::sync::watch::Receiver<u64>,
    current: Current,
    /// What is watched is going: its last events are still to be told.
    closing: bool,
    over: bool,
}

/// The events of a watch, each a line of JSON or a frame. They are made when the client comes to read them.
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
    // Before anything is read, so that no change of a definition slips through.
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
    /// What happened next; `None` when the watch is over.
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

    /// More of what is there at the beginning.
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

    /// What happened after the beginning.
    async fn change(&mut self) -> Option<Vec<Bytes>> {
        loop {
            if Instant::now() >= self.end {
                return None;
            }
            // First, so that what comes in between wakes the watch again.
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
                    // Nothing is told until the time is over.
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

    /// Events as lines. Where that takes long, it is done beside what serves others.
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
        // A watch of the future has nothing to say about the present.
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

/// The lines of events, up to one that cannot be shown.
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
