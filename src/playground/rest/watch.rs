//! Watches: the state first where it was asked for, then changes as they come, bookmarks in between.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::StreamExt as _;
use futures::stream::{self, BoxStream};
use serde_json::{Value, json};
use tokio::time::Instant;

use super::list;
use super::query::{MATCH, Query, list_options};
use super::select::Chosen;
use super::view::{Heads, View};
use crate::playground::catalog::Resource;
use crate::playground::field::FieldError;
use crate::playground::status::Status;
use crate::playground::store::{Event, EventKind, Filter, Range, Store, Watch};

/// Between two bookmarks of a quiet watch.
const BOOKMARK_EVERY: Duration = Duration::from_mins(1);
/// So long a watch lasts where its client names no time.
const LASTS: Duration = Duration::from_mins(45);
/// The last bookmark comes so long before the end.
const FAREWELL: Duration = Duration::from_secs(2);
/// Changes looked at between two turns of the runtime.
const BATCH: usize = 256;

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

/// What is watched, as it is served now; nothing if it is served no longer, or as something else.
pub(super) type Current = Arc<dyn Fn() -> Option<Arc<Resource>> + Send + Sync>;

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

/// A watch that is being told.
struct Telling {
    watch: Watch,
    view: View,
    bookmarks: bool,
    next_bookmark: Instant,
    end: Instant,
    told: u64,
    definitions: tokio::sync::watch::Receiver<u64>,
    current: Current,
    /// What is watched is going: its last events are still to be told.
    closing: bool,
    over: bool,
}

/// The events of a watch, each a line of JSON.
pub(super) async fn watch(
    store: &Arc<Store>,
    range: Range,
    chosen: Arc<Chosen>,
    view: View,
    plan: Plan,
    current: Current,
) -> Result<BoxStream<'static, Bytes>, Status> {
    let mut view = view.of_watch();
    // Before anything is read, so that no change of a definition slips through.
    let definitions = store.watch_definitions();
    let mut first = Vec::new();
    let from = match plan.start {
        Start::After(revision) => revision,
        Start::Now => store.revision(),
        Start::Current | Start::List(_) => {
            if let Start::List(revision) = plan.start {
                list::reach(store, revision).await?;
            }
            let snapshot = store.snapshot(&range);
            for stored in snapshot
                .items
                .iter()
                .filter(|stored| chosen.matches(stored))
            {
                first.push(event("ADDED", &view.body(stored)?));
                view.heads = Heads::Told;
            }
            if matches!(plan.start, Start::List(_)) && plan.bookmarks {
                let bookmark = view.bookmark(snapshot.revision, true)?;
                first.push(line("BOOKMARK", &bookmark));
                view.heads = Heads::Told;
            }
            snapshot.revision
        }
    };
    let filter: Arc<dyn Filter> = chosen;
    let now = Instant::now();
    let telling = Telling {
        watch: store.watch(range, Some(filter), from),
        view,
        bookmarks: plan.bookmarks,
        next_bookmark: now + BOOKMARK_EVERY.min(plan.timeout.saturating_sub(FAREWELL)),
        end: now + plan.timeout,
        told: from,
        definitions,
        current,
        closing: false,
        over: false,
    };
    let live = stream::unfold(telling, |mut telling| async move {
        let events = telling.next().await?;
        Some((stream::iter(events), telling))
    });
    Ok(stream::iter(first).chain(live.flatten()).boxed())
}

impl Telling {
    /// What happened next; `None` when the watch is over.
    async fn next(&mut self) -> Option<Vec<Bytes>> {
        loop {
            if self.over || Instant::now() >= self.end {
                return None;
            }
            if self.definitions.has_changed().unwrap_or(false) {
                self.definitions.borrow_and_update();
                match (self.current)() {
                    Some(resource) => self.view.resource = resource,
                    None => self.closing = true,
                }
            }
            match self.watch.poll(BATCH) {
                Err(status) => return Some(self.fail(&status)),
                Ok(events) if !events.is_empty() => return Some(self.tell(&events)),
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
            tokio::select! {
                () = self.watch.changed() => {}
                () = tokio::time::sleep_until(wake) => {}
                () = changed_definitions(&mut self.definitions) => {}
            }
        }
    }

    fn tell(&mut self, events: &[Event]) -> Vec<Bytes> {
        let mut lines = Vec::with_capacity(events.len());
        for happened in events {
            match self.line(happened) {
                Ok(line) => lines.push(line),
                Err(status) => {
                    lines.extend(self.fail(&status));
                    break;
                }
            }
            self.view.heads = Heads::Told;
            self.told = happened.revision;
        }
        lines
    }

    fn line(&self, happened: &Event) -> Result<Bytes, Status> {
        let object = &happened.object;
        Ok(match happened.kind {
            EventKind::Added => event("ADDED", &self.view.body(object)?),
            EventKind::Modified => event("MODIFIED", &self.view.body(object)?),
            EventKind::Deleted => event("DELETED", &self.view.body_at(object, happened.revision)?),
        })
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
        Ok(line("BOOKMARK", &bookmark))
    }

    fn fail(&mut self, status: &Status) -> Vec<Bytes> {
        self.over = true;
        vec![line("ERROR", &status.to_json())]
    }
}

/// Waits for a change of a definition and leaves it to be seen.
async fn changed_definitions(definitions: &mut tokio::sync::watch::Receiver<u64>) {
    // The store, which sends, is kept alive by the watch.
    if definitions.changed().await.is_ok() {
        definitions.mark_changed();
    } else {
        std::future::pending::<()>().await;
    }
}

fn line(kind: &str, object: &Value) -> Bytes {
    let mut text = json!({"type": kind, "object": object}).to_string();
    text.push('\n');
    text.into()
}

/// An event around an object that is JSON text already.
fn event(kind: &str, object: &Bytes) -> Bytes {
    let mut text = Vec::with_capacity(object.len() + kind.len() + 24);
    text.extend_from_slice(b"{\"type\":\"");
    text.extend_from_slice(kind.as_bytes());
    text.extend_from_slice(b"\",\"object\":");
    text.extend_from_slice(object);
    text.extend_from_slice(b"}\n");
    text.into()
}
