//! Feeds. A feed keeps a table current: it lists once, then watches until it is dropped.
//!
//! Lists are streamed if the server can do that, else paged. A watch that ends is opened again at the same version; a
//! watch that falls silent is replaced; a version that is too old leads to a new list. Failures are retried with
//! back-off, and the table keeps what it has.

use std::borrow::Cow;
use std::collections::{BTreeSet, HashMap, HashSet};
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;
use tokio::sync::watch;
use tokio::time::{Instant, sleep, timeout};
use tokio_util::sync::{CancellationToken, DropGuard};
use tracing::{debug, warn};

use super::cache::{Change, Listed, Table, WantedParts, version, wanted_changed};
use super::connection::{
    Call, CallError, Connection, PageEnd, REQUEST_TIMEOUT, Refusal, RequestError, Streamed,
};
use super::document;
use super::wire::collection;
use hawser_sync::Key;
use kube_lang::object::{Gvk, Object};

mod pace;
mod parts;

pub use pace::Pace;
use pace::{Backoff, PageSize};

/// The objects that a feed requests.
#[derive(Clone)]
pub struct Selection {
    /// At the cluster, or at all clusters of an endpoint.
    pub connection: Connection,
    pub resource: Arc<str>,
    pub namespace: Option<Arc<str>>,
    /// `labelSelector=…` and `fieldSelector=…`, encoded.
    pub query: Option<String>,
    pub clusters: Clusters,
    pub content: Content,
}

/// The part of each object that is requested.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Content {
    Whole,
    Metadata,
}

impl Content {
    fn of(self, call: Call) -> Call {
        match self {
            Self::Whole => call,
            Self::Metadata => call.accept(METADATA),
        }
    }

    /// Reduces an object to the requested part, in case the server sent more.
    fn cut(self, object: Object, kind: &Gvk) -> Object {
        if self == Self::Whole {
            return object;
        }
        let mut cut = Object::empty(kind, None, "");
        *cut.metadata_mut() = object.into_metadata();
        cut
    }
}

/// `Accept` for objects and lists of them as metadata only, if the server supports that.
const METADATA: &str = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,\
    application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json";

/// The source of an object's cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Clusters {
    /// All objects are of this one.
    One(Arc<str>),
    /// An annotation of the object names it.
    Annotation(&'static str),
}

/// Handles what feeds report about their tables. Called from the task that reads the watch: it must return quickly.
pub trait EventHandler: Send + Sync {
    fn changed(&self, table: &Arc<Table>, change: Change);
    /// The first list is complete, or one that shows more parts of the source, and all its objects were reported.
    fn completed(&self, _table: &Arc<Table>) {}
    /// A list came back empty although this many objects were known. Their removal is reported next.
    fn emptied(&self, _table: &Arc<Table>, _of: usize) {}
    /// The server answered a list or a watch with this status.
    fn refused(&self, _table: &Arc<Table>, _code: u16) {}
    /// The feed works again after a problem.
    fn recovered(&self, _table: &Arc<Table>) {}
}

/// The condition of a feed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FeedHealth {
    pub complete: bool,
    /// The current problem, as text for owners.
    pub problem: Option<String>,
    /// The time since which there is a problem.
    pub since: Option<Instant>,
    /// The server forbids the list or the watch.
    pub forbidden: bool,
}

/// A running feed. It ends when this is dropped.
pub struct Feed {
    table: Arc<Table>,
    health: watch::Receiver<FeedHealth>,
    expected: watch::Sender<Option<Instant>>,
    doubted: watch::Sender<()>,
    _running: DropGuard,
}

impl Feed {
    pub fn start(
        selection: Selection,
        table: Arc<Table>,
        handler: Arc<dyn EventHandler>,
        pace: Pace,
    ) -> Self {
        let (health, known) = watch::channel(FeedHealth::default());
        let (expected, expects) = watch::channel(None);
        let (doubted, doubts) = watch::channel(());
        let wanted = table.coverage().partition.as_ref();
        let wanted = wanted.map(|partition| partition.wanted.clone());
        let token = CancellationToken::new();
        let reader = Reader {
            path: collection(
                table.kind(),
                selection.namespace.as_deref(),
                &selection.resource,
            ),
            selection,
            table: Arc::clone(&table),
            handler,
            health,
            backoff: Backoff::new(pace.retry),
            reopening: Backoff::new(pace.retry),
            pace,
            expects,
            wanted,
            listing: None,
            doubts,
            paged: false,
            page: PageSize::default(),
            blind: false,
            is_unreachable: false,
            highest: 0,
            overruled: HashMap::new(),
            behind: 0,
        };
        let stopped = token.clone();
        tokio::spawn(async move { stopped.run_until_cancelled(reader.run()).await });
        Self {
            table,
            health: known,
            expected,
            doubted,
            _running: token.drop_guard(),
        }
    }

    pub fn table(&self) -> &Arc<Table> {
        &self.table
    }

    pub fn health(&self) -> FeedHealth {
        self.health.borrow().clone()
    }

    /// Looks often, for a while, for a kind that may be served any moment.
    pub fn expect(&self) {
        self.expected.send_replace(Some(Instant::now() + EXPECTED));
    }

    /// Replaces the open watch, because it may have stopped sending events without ending.
    pub fn doubt(&self) {
        self.doubted.send_replace(());
    }

    /// Resolves once the first list is complete; never if the feed ends before.
    pub async fn completed(&self) {
        let mut health = self.health.clone();
        if health.wait_for(|health| health.complete).await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}

#[derive(Clone)]
struct Reader {
    selection: Selection,
    path: String,
    table: Arc<Table>,
    handler: Arc<dyn EventHandler>,
    health: watch::Sender<FeedHealth>,
    pace: Pace,
    backoff: Backoff,
    /// The back-off for watches that end as soon as they were opened, without an error.
    reopening: Backoff,
    /// Until this time, the feed checks often whether a kind is served.
    expects: watch::Receiver<Option<Instant>>,
    /// The parts of the source that are wanted, if it has parts.
    wanted: Option<WantedParts>,
    /// Those that the list under way shows.
    listing: Option<BTreeSet<usize>>,
    /// Notified when the open watch has to be replaced.
    doubts: watch::Receiver<()>,
    /// The server does not stream lists.
    paged: bool,
    page: PageSize,
    /// The server allows lists but no watch: the table is as old as the last list.
    blind: bool,
    /// The last problem was silence.
    is_unreachable: bool,
    /// The highest version of a list or a watch.
    highest: u64,
    /// The number of consecutive lists that were older than that.
    behind: u32,
    /// Objects of which the list under way shows an older state, with the known version.
    overruled: HashMap<Key, u64>,
}

/// The time for which a kind is expected to be served at any moment, and the interval of the checks.
const EXPECTED: Duration = Duration::from_secs(30);
const OFTEN: Duration = Duration::from_millis(400);
/// A source whose lists stay older than before was restored from a backup: its versions are accepted.
const RESTORED_AFTER: u32 = 5;
/// A watch that ends sooner counts as failed: the next one waits.
const SHORT: Duration = Duration::from_secs(1);

#[derive(Debug, thiserror::Error)]
enum WatchError {
    #[error(transparent)]
    Call(#[from] CallError),
    #[error("refused with {0}")]
    Refused(Refusal),
    #[error("the watch reported {0}")]
    Broken(String),
    #[error("the server does not stream lists")]
    NotStreamed,
    #[error("the list is older than the known state")]
    Behind,
    #[error("the watch's resourceVersion is too old")]
    TooOld,
    #[error("no event or bookmark for {} seconds", .0.as_secs())]
    Silent(Duration),
    #[error("the list of more parts of the source failed")]
    MoreWanted,
}

impl From<RequestError> for WatchError {
    fn from(error: RequestError) -> Self {
        match error {
            RequestError::Call(error) => Self::Call(error),
            RequestError::Refused(refusal) => Self::Refused(refusal),
        }
    }
}

impl WatchError {
    /// Whether a smaller page might succeed.
    fn is_for_size(&self) -> bool {
        match self {
            Self::Call(CallError::Timeout(_) | CallError::Broken(_)) => true,
            Self::Refused(refusal) => matches!(refusal.code, 500 | 502 | 504),
            _ => false,
        }
    }
}

#[derive(Deserialize)]
struct Event<'l> {
    #[serde(rename = "type", borrow)]
    kind: Cow<'l, str>,
    #[serde(borrow)]
    object: &'l RawValue,
}

/// A list beside a watch; the version that it is of.
type ListBeside = Pin<Box<dyn Future<Output = Result<u64, WatchError>> + Send>>;

/// The position of a watch.
struct WatchPosition {
    /// The version of the last event.
    since: u64,
    /// The list of more parts that is under way beside the watch.
    beside: Option<ListBeside>,
}

impl WatchPosition {
    /// Resolves when the list beside the watch ends. After a failure, the feed has to list everything.
    async fn listed(&mut self) -> Result<(), WatchError> {
        let Some(beside) = &mut self.beside else {
            return std::future::pending().await;
        };
        let listed = beside.await;
        self.beside = None;
        listed.map(drop).map_err(|trouble| {
            debug!(%trouble, "the list beside a watch failed");
            WatchError::MoreWanted
        })
    }
}

impl Reader {
    async fn run(mut self) {
        loop {
            self.await_wanted().await;
            let listed = match self.list().await {
                Err(WatchError::NotStreamed) => {
                    self.paged = true;
                    continue;
                }
                listed => listed,
            };
            match listed {
                Ok((stream, since)) => {
                    // Lists do not make up for a watch: they are made less and less often.
                    if !self.blind {
                        self.recovered();
                    }
                    self.follow(stream, since).await;
                }
                Err(trouble) => self.wait(&trouble).await,
            }
        }
    }

    fn recovered(&mut self) {
        self.backoff.reset();
        self.report_recovery();
    }

    fn report_recovery(&self) {
        let was_ill = self.health.send_if_modified(|health| {
            health.forbidden = false;
            health.since = None;
            health.problem.take().is_some()
        });
        if was_ill {
            self.handler.recovered(&self.table);
        }
    }

    async fn wait(&mut self, trouble: &WatchError) {
        if let WatchError::Refused(refusal) = trouble {
            self.handler.refused(&self.table, refusal.code);
        }
        let pause = self.backoff.next();
        let (side, kind) = (self.table.side(), self.table.kind());
        let (at, said) = (self.selection.connection.url(), trouble.to_string());
        let first = self.health.send_if_modified(|health| {
            let new = health.problem.as_ref() != Some(&said);
            health.forbidden =
                matches!(trouble, WatchError::Refused(refusal) if refusal.code == 403);
            health.problem = Some(said.clone());
            health.since.get_or_insert_with(Instant::now);
            new
        });
        if first {
            warn!(%side, %kind, at, problem = said, "cannot watch objects; retrying");
        } else {
            debug!(%side, %kind, at, problem = said, "still cannot watch objects");
        }
        if matches!(trouble, WatchError::Refused(_)) {
            self.await_served(pause).await;
        } else {
            sleep(pause).await;
        }
    }

    /// Waits until it is time to look again for a kind that is not served.
    async fn await_served(&mut self, pause: Duration) {
        let until = *self.expects.borrow_and_update();
        if until.is_some_and(|until| until > Instant::now()) {
            return sleep(pause.min(OFTEN)).await;
        }
        tokio::select! {
            () = sleep(pause) => {}
            Ok(()) = self.expects.changed() => sleep(pause.min(OFTEN)).await,
        }
    }

    fn query(&self, more: &str) -> String {
        match &self.selection.query {
            Some(query) => format!("{}?{query}&{more}", self.path),
            None => format!("{}?{more}", self.path),
        }
    }

    /// Reads a whole list; returns the watch that continues it, if the list came from one.
    async fn list(&mut self) -> Result<(Option<Streamed>, u64), WatchError> {
        self.overruled.clear();
        if self.paged {
            return Ok((None, self.pages().await?));
        }
        let seconds = self.pace.watch_seconds();
        let path = self.query(&format!(
            "watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan\
             &allowWatchBookmarks=true&timeoutSeconds={seconds}"
        ));
        let call = self.selection.content.of(Call::get(path));
        let mut stream = self.selection.connection.stream(call).await?;
        // Who may not watch may list all the same.
        self.blind |= stream.status == 403;
        if [400, 403, 422].contains(&stream.status) {
            return Err(WatchError::NotStreamed);
        }
        if stream.status != 200 {
            return Err(WatchError::Refused(stream.refusal().await));
        }
        let mut listed = HashSet::new();
        loop {
            // A server that knows nothing of streamed lists never says that one has ended.
            let line = match timeout(self.pace.silence, stream.line()).await {
                Ok(line) => line?,
                Err(_) => return Err(WatchError::NotStreamed),
            };
            self.table.note_activity();
            let Some(line) = line else {
                return Err(WatchError::Broken(
                    "the connection closed before the list was complete".to_owned(),
                ));
            };
            let Event { kind, object } = read(&line)?;
            match &*kind {
                "ADDED" | "MODIFIED" | "DELETED" => {
                    let taken = self.take(&kind, object.get(), Table::upsert);
                    self.note_listed(&mut listed, taken);
                }
                "BOOKMARK" => {
                    let (since, ends) = bookmark(object);
                    if ends {
                        self.finish(&listed, since)?;
                        return Ok((Some(stream), since));
                    }
                }
                _ => return Err(said(object)),
            }
        }
    }

    async fn pages(&mut self) -> Result<u64, WatchError> {
        let mut listed = HashSet::new();
        let mut next = String::new();
        loop {
            let end = match self.one_page(&next, &mut listed).await {
                Ok(end) => end,
                // What was read of the page is read again: nothing is lost, and nothing told twice.
                Err(trouble) if trouble.is_for_size() && self.page.shrink() => {
                    self.wait(&trouble).await;
                    continue;
                }
                Err(trouble) => return Err(trouble),
            };
            self.page.grow();
            if end.next.is_empty() {
                let since = end.resource_version.parse().unwrap_or_default();
                self.finish(&listed, since)?;
                self.page.list_succeeded();
                return Ok(since);
            }
            next = format!("&continue={}", encoded(&end.next));
        }
    }

    async fn one_page(
        &mut self,
        next: &str,
        listed: &mut HashSet<Key>,
    ) -> Result<PageEnd, WatchError> {
        let path = self.query(&format!("limit={}{next}", self.page.now()));
        let call = self.selection.content.of(Call::get(path));
        let patience = self.pace.silence.min(REQUEST_TIMEOUT);
        let mut page = self.selection.connection.page(call, patience).await?;
        while let Some(item) = page.item().await? {
            self.table.note_activity();
            let taken = self.take("ADDED", &String::from_utf8_lossy(&item), Table::upsert);
            self.note_listed(listed, taken);
        }
        self.table.note_activity();
        Ok(page.end()?)
    }

    /// Stores an object from a list or an event, and reports it if it changed. Returns its version, and its key if it
    /// exists and matches the request; `None` for other documents and for objects without a cluster.
    /// `store` is for objects that exist.
    fn take(
        &mut self,
        event: &str,
        text: &str,
        store: fn(&Table, &Listed) -> Option<Change>,
    ) -> Option<(u64, Option<Key>)> {
        if let Some(version) = self.version_of_unwanted(text) {
            return Some((version, None));
        }
        let kind = Arc::clone(self.table.kind());
        let object = document::object(text, &kind)
            .inspect_err(|problem| debug!(%kind, problem, "the server returned something that is not an object"))
            .ok()?;
        let version = version(&object)?;
        let cluster = match &self.selection.clusters {
            Clusters::One(cluster) => cluster,
            Clusters::Annotation(name) => object.annotation(name)?,
        };
        let scope = self.table.scope(cluster);
        let key = scope.key(object.namespace(), object.name());
        if !self.table.takes_in(&key, &object) {
            return Some((version, None));
        }
        let object: Arc<Object> = self.selection.content.cut(object, &key.kind).into();
        let is_deleted = event == "DELETED";
        let is_wanted = !is_deleted && self.table.coverage().accepts(&key, &object);
        let shown = Listed {
            key,
            version,
            object,
        };
        let change = if is_deleted {
            // What left the selection may be shown as it is now.
            self.table.delete(&shown)
        } else if is_wanted {
            if event == "ADDED" {
                self.table.show_anew(&shown.key);
            }
            store(&self.table, &shown)
        } else {
            // Something on the way left out what was asked for.
            let name = &shown.key.name;
            debug!(%kind, %name, "the server returned an object that does not match the request");
            None
        };
        // Of a first list all is told when it is whole.
        if let Some(change) = change.filter(|_| self.table.is_complete()) {
            self.handler.changed(&self.table, change);
        }
        Some((version, is_wanted.then_some(shown.key)))
    }

    fn note_listed(&mut self, listed: &mut HashSet<Key>, taken: Option<(u64, Option<Key>)>) {
        let Some((version, Some(key))) = taken else {
            return;
        };
        // Whole lists of keys are kept: those of the table take no memory.
        let known = self.table.known(&key);
        let (key, known) = known.unwrap_or((key, version));
        if known > version {
            self.overruled.insert(key.clone(), known);
        } else {
            self.overruled.remove(&key);
        }
        listed.insert(key);
    }

    fn finish(&mut self, listed: &HashSet<Key>, since: u64) -> Result<(), WatchError> {
        // The server has passed the version of a state that it does not have.
        let is_other_history = self.overruled.drain().any(|(_, known)| known <= since);
        if since < self.highest || is_other_history {
            self.behind += 1;
            if self.behind < RESTORED_AFTER && !is_other_history {
                return Err(WatchError::Behind);
            }
            let kind = self.table.kind();
            warn!(%kind, "the server went back to an older state (restored from a backup?); accepting it");
            self.highest = since;
            self.table.reset_version_order();
            // What the list showed was taken for old news until now.
            return Err(WatchError::Behind);
        }
        self.behind = 0;
        self.highest = since;
        self.complete(listed, since);
        Ok(())
    }

    /// The table has everything that is wanted.
    fn complete(&mut self, listed: &HashSet<Key>, since: u64) {
        let finished = self.table.finish(listed, since);
        if listed.is_empty() && !finished.gone.is_empty() {
            self.handler.emptied(&self.table, finished.gone.len());
        }
        for change in finished.gone {
            self.handler.changed(&self.table, change);
        }
        if finished.first {
            self.table
                .replay(|change| self.handler.changed(&self.table, change));
        }
        let loaded = self.listing.take();
        let is_more = loaded.is_some_and(|parts| self.table.note_loaded(&parts));
        // Before anybody is told: who hears of it asks whether it is so, and may ask at once.
        self.health
            .send_if_modified(|health| !std::mem::replace(&mut health.complete, true));
        if finished.first || is_more {
            self.handler.completed(&self.table);
        }
    }

    /// Follows the events after a list, until a list is needed again.
    async fn follow(&mut self, stream: Option<Streamed>, since: u64) {
        let mut stream = stream;
        let mut at = WatchPosition {
            since,
            beside: None,
        };
        // Whether the server may have gone back to an older state.
        let mut is_doubtful = false;
        loop {
            if is_doubtful {
                match self.is_other_history(at.since).await {
                    Some(true) => return,
                    Some(false) => is_doubtful = false,
                    None => {}
                }
            }
            let opened = Instant::now();
            let followed = match stream.take() {
                Some(stream) => self.read(stream, &mut at).await,
                None => self.open(&mut at).await,
            };
            self.highest = self.highest.max(at.since);
            match followed {
                Ok(()) => self.pause_if_short(opened).await,
                Err(WatchError::Silent(_)) => {
                    is_doubtful = true;
                    self.pause_if_short(opened).await;
                }
                Err(WatchError::MoreWanted) => return,
                Err(WatchError::TooOld) => return self.pause_if_short(opened).await,
                Err(trouble) => {
                    self.blind |= matches!(trouble, WatchError::Refused(_));
                    self.wait(&trouble).await;
                    self.is_unreachable = matches!(trouble, WatchError::Call(_));
                    is_doubtful |= self.is_unreachable;
                    // A watch that is refused time after time may be wanted from elsewhere. Whom nobody
                    // hears is not helped by a list: it goes on where it was.
                    if self.backoff.is_long() && !self.is_unreachable {
                        return;
                    }
                }
            }
        }
    }

    /// Whether the server may have another history than the one up to this version, as after a restore from a backup; `None`
    /// if it does not say. A watch from a version that is still to come is silent until then, and a watch from a later one
    /// never tells what comes before: so the newest known object is asked for, with the version.
    async fn is_other_history(&mut self, since: u64) -> Option<bool> {
        let newest = self.newest();
        let mut question = "limit=1".to_owned();
        if let Some((key, _)) = &newest {
            let namespace = key.namespace.as_ref();
            let namespace =
                namespace.map_or(String::new(), |it| format!(",metadata.namespace={it}"));
            let field = encoded(&format!("metadata.name={}{namespace}", key.name));
            question.insert_str(0, &format!("fieldSelector={field}&"));
        }
        let call = self.selection.content.of(Call::get(self.query(&question)));
        let patience = self.pace.silence.min(REQUEST_TIMEOUT);
        let mut page = self.selection.connection.page(call, patience).await.ok()?;
        let mut found = None;
        while let Some(item) = page.item().await.ok()? {
            let text = String::from_utf8_lossy(&item);
            let object = document::object(&text, self.table.kind()).ok();
            found = object.and_then(|object| version(&object));
        }
        let now: u64 = page.end().ok()?.resource_version.parse().ok()?;
        // One that was deleted meanwhile costs a list.
        let is_missing = newest.is_some_and(|(_, known)| found.is_none_or(|found| found < known));
        Some(now < since || is_missing)
    }

    /// The newest object of a source with one cluster, whose objects can be asked for by name.
    fn newest(&self) -> Option<(Key, u64)> {
        let query = self.selection.query.as_deref().unwrap_or_default();
        let asks_for_fields = query.contains("fieldSelector=");
        let is_one = matches!(self.selection.clusters, Clusters::One(_));
        let newest = (is_one && !asks_for_fields).then(|| self.table.newest());
        newest.flatten()
    }

    /// Delays the next watch if a server ends every watch at once.
    async fn pause_if_short(&mut self, opened: Instant) {
        if opened.elapsed() < SHORT {
            sleep(self.reopening.next()).await;
        } else {
            self.reopening.reset();
        }
    }

    async fn open(&mut self, at: &mut WatchPosition) -> Result<(), WatchError> {
        let (since, seconds) = (at.since, self.pace.watch_seconds());
        let path = self.query(&format!(
            "watch=1&allowWatchBookmarks=true&resourceVersion={since}&timeoutSeconds={seconds}"
        ));
        let call = self.selection.content.of(Call::get(path));
        let stream = self.selection.connection.stream(call).await?;
        match stream.status {
            200 => {
                self.table.note_activity();
                if std::mem::take(&mut self.blind) {
                    self.recovered();
                }
                // The server is heard again, whenever it will have something to say.
                if std::mem::take(&mut self.is_unreachable) {
                    self.report_recovery();
                }
                self.read(stream, at).await
            }
            410 => Err(WatchError::TooOld),
            _ => Err(WatchError::Refused(stream.refusal().await)),
        }
    }

    async fn read(
        &mut self,
        mut stream: Streamed,
        at: &mut WatchPosition,
    ) -> Result<(), WatchError> {
        loop {
            let silent = WatchError::Silent(self.pace.silence);
            let line = tokio::select! {
                line = timeout(self.pace.silence, stream.line()) => line,
                Ok(()) = self.doubts.changed() => return Ok(()),
                () = wanted_changed(&mut self.wanted) => {
                    self.heed_wanted(at);
                    continue;
                }
                listed = at.listed() => {
                    listed?;
                    self.heed_wanted(at);
                    continue;
                }
            };
            let Some(line) = line.map_err(|_| silent)?? else {
                return Ok(());
            };
            self.table.note_activity();
            let Event { kind, object } = read(&line)?;
            match &*kind {
                "ADDED" | "MODIFIED" | "DELETED" => {
                    let taken = self.take(&kind, object.get(), Table::observe);
                    let Some((version, _)) = taken else {
                        continue;
                    };
                    at.since = at.since.max(version);
                }
                "BOOKMARK" => at.since = at.since.max(bookmark(object).0),
                _ => return Err(said(object)),
            }
            self.recovered();
        }
    }
}

fn read(line: &[u8]) -> Result<Event<'_>, WatchError> {
    serde_json::from_slice(line)
        .map_err(|error| WatchError::Broken(format!("not a watch event: {error}")))
}

/// The version of a bookmark, and whether it ends the initial events.
fn bookmark(object: &RawValue) -> (u64, bool) {
    let object: Value = serde_json::from_str(object.get()).unwrap_or_default();
    let metadata = &object["metadata"];
    let ends = metadata["annotations"]["k8s.io/initial-events-end"] == *"true";
    let version = metadata["resourceVersion"].as_str();
    let version = version.and_then(|version| version.parse().ok());
    (version.unwrap_or_default(), ends)
}

fn said(status: &RawValue) -> WatchError {
    let status: Value = serde_json::from_str(status.get()).unwrap_or_default();
    if status["code"].as_u64() == Some(410) {
        return WatchError::TooOld;
    }
    let message = status["message"].as_str();
    WatchError::Broken(
        message
            .unwrap_or("error event without a message")
            .to_owned(),
    )
}

fn encoded(token: &str) -> String {
    form_urlencoded::byte_serialize(token.as_bytes()).collect()
}

#[cfg(test)]
mod tests;
