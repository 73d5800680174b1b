//! Keeping a table up: one list, then a watch for as long as it is wanted.
//!
//! Lists are streamed where the server can, else they come in pages. A watch that ends is opened
//! again where it was; one that falls silent is replaced; one that is too far behind is begun anew
//! by a list. Whatever fails is tried again with back-off, and what was known stays known.

use std::borrow::Cow;
use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;
use tokio::sync::watch;
use tokio::time::{Instant, sleep, timeout};
use tokio_util::sync::{CancellationToken, DropGuard};
use tracing::{debug, warn};

use super::cache::{Change, Listed, Table, version};
use super::connection::{
    AskError, Call, CallError, Connection, PageEnd, REQUEST_TIMEOUT, Refusal, Streamed,
};
use super::document;
use super::wire::collection;
use hawser_sync::Key;
use kube_lang::object::{Gvk, Object};

mod names;
mod pace;

use names::Names;
pub use pace::Pace;
use pace::{Backoff, PageSize};

/// What a feed asks for.
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

/// How much of each object is wanted.
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

    /// What is wanted of an object, whether or not the server left the rest out.
    fn cut(self, object: Object, kind: &Gvk) -> Object {
        if self == Self::Whole {
            return object;
        }
        let mut cut = Object::empty(kind, None, "");
        *cut.metadata_mut() = object.into_metadata();
        cut
    }
}

/// Objects and lists of them without anything but their metadata, where the server has these forms.
const METADATA: &str = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,\
    application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json";

/// How it is known which cluster an object is of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Clusters {
    /// All are of this one.
    One(Arc<str>),
    /// An annotation says so.
    Annotation(&'static str),
}

/// Who is told of what changed. Called from the task that reads the watch: it must not take long.
pub trait Listener: Send + Sync {
    fn changed(&self, change: Change);
    /// The first list is complete, and everything in it was told.
    fn completed(&self, _table: &Arc<Table>) {}
    /// A list came back empty where so many objects were known. Their going is told next.
    fn emptied(&self, _table: &Arc<Table>, _of: usize) {}
    /// The server answered a list or a watch with this status.
    fn refused(&self, _table: &Arc<Table>, _code: u16) {}
    /// What was wrong with the feed is over.
    fn well(&self, _table: &Arc<Table>) {}
}

/// Where a feed stands.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Health {
    pub complete: bool,
    /// What is wrong now, for the owner.
    pub problem: Option<String>,
    /// The server does not allow it.
    pub forbidden: bool,
}

/// A running feed. It ends when this is dropped.
pub struct Feed {
    table: Arc<Table>,
    health: watch::Receiver<Health>,
    expected: watch::Sender<Option<Instant>>,
    _running: DropGuard,
}

impl Feed {
    pub fn start(
        selection: Selection,
        table: Arc<Table>,
        listener: Arc<dyn Listener>,
        pace: Pace,
    ) -> Self {
        let (health, known) = watch::channel(Health::default());
        let (expected, expects) = watch::channel(None);
        let token = CancellationToken::new();
        let reader = Reader {
            path: collection(
                table.kind(),
                selection.namespace.as_deref(),
                &selection.resource,
            ),
            selection,
            table: Arc::clone(&table),
            listener,
            health,
            backoff: Backoff::new(pace.retry),
            reopening: Backoff::new(pace.retry),
            pace,
            expects,
            paged: false,
            page: PageSize::default(),
            blind: false,
            unheard: false,
            names: Names::default(),
            highest: 0,
            behind: 0,
        };
        let stopped = token.clone();
        tokio::spawn(async move { stopped.run_until_cancelled(reader.run()).await });
        Self {
            table,
            health: known,
            expected,
            _running: token.drop_guard(),
        }
    }

    pub fn table(&self) -> &Arc<Table> {
        &self.table
    }

    pub fn health(&self) -> Health {
        self.health.borrow().clone()
    }

    /// What is not served now may be served any moment: for a while it is looked for often.
    pub fn expect(&self) {
        self.expected.send_replace(Some(Instant::now() + EXPECTED));
    }

    /// Resolves once the first list is complete; never where the feed ended before.
    pub async fn completed(&self) {
        let mut health = self.health.clone();
        if health.wait_for(|health| health.complete).await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}

struct Reader {
    selection: Selection,
    path: String,
    table: Arc<Table>,
    listener: Arc<dyn Listener>,
    health: watch::Sender<Health>,
    pace: Pace,
    backoff: Backoff,
    /// The same for watches that end as soon as they were opened, with nothing wrong about them.
    reopening: Backoff,
    /// Until when a kind that is not served is looked for often.
    expects: watch::Receiver<Option<Instant>>,
    /// The server does not stream lists.
    paged: bool,
    page: PageSize,
    /// It allows lists and no watch: what is known is as old as the last list.
    blind: bool,
    /// The last trouble was that nothing was heard of it.
    unheard: bool,
    /// Names of clusters and namespaces.
    names: Names,
    /// The highest version that a list or a watch came to.
    highest: u64,
    /// How many lists in a row were older than that.
    behind: u32,
}

/// How long a kind is expected to be served any moment, and how often it is looked for meanwhile.
const EXPECTED: Duration = Duration::from_secs(30);
const OFTEN: Duration = Duration::from_millis(400);
/// A source whose lists stay older than what it showed before was restored, and counts anew.
const RESTORED_AFTER: u32 = 5;
/// A watch that ends sooner than this was none: the next one waits.
const SHORT: Duration = Duration::from_secs(1);

#[derive(Debug, thiserror::Error)]
enum Trouble {
    #[error(transparent)]
    Call(#[from] CallError),
    #[error("refused with {0}")]
    Refused(Refusal),
    #[error("the watch said {0}")]
    Broken(String),
    #[error("the server does not stream lists")]
    NotStreamed,
    #[error("the list is older than what was seen before")]
    Behind,
    #[error("what happened since is no longer known")]
    TooOld,
    #[error("nothing was heard for {} seconds", .0.as_secs())]
    Silent(Duration),
}

impl From<AskError> for Trouble {
    fn from(error: AskError) -> Self {
        match error {
            AskError::Call(error) => Self::Call(error),
            AskError::Refused(refusal) => Self::Refused(refusal),
        }
    }
}

impl Trouble {
    /// Whether a smaller page might have come through.
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

impl Reader {
    async fn run(mut self) {
        loop {
            let listed = match self.list().await {
                Err(Trouble::NotStreamed) => {
                    self.paged = true;
                    continue;
                }
                listed => listed,
            };
            match listed {
                Ok((stream, since)) => {
                    // Lists do not make up for a watch: they are made less and less often.
                    if !self.blind {
                        self.well();
                    }
                    self.follow(stream, since).await;
                }
                Err(trouble) => self.wait(&trouble).await,
            }
        }
    }

    fn well(&mut self) {
        self.backoff.reset();
        self.tell_well();
    }

    fn tell_well(&self) {
        let was_ill = self.health.send_if_modified(|health| {
            health.forbidden = false;
            health.problem.take().is_some()
        });
        if was_ill {
            self.listener.well(&self.table);
        }
    }

    async fn wait(&mut self, trouble: &Trouble) {
        if let Trouble::Refused(refusal) = trouble {
            self.listener.refused(&self.table, refusal.code);
        }
        let pause = self.backoff.next();
        let (side, kind) = (self.table.side(), self.table.kind());
        let (at, said) = (self.selection.connection.url(), trouble.to_string());
        let first = self.health.send_if_modified(|health| {
            let new = health.problem.as_ref() != Some(&said);
            health.forbidden = matches!(trouble, Trouble::Refused(refusal) if refusal.code == 403);
            health.problem = Some(said.clone());
            new
        });
        if first {
            warn!(%side, %kind, at, problem = said, "objects cannot be watched, trying again");
        } else {
            debug!(%side, %kind, at, problem = said, "still not watched");
        }
        if matches!(trouble, Trouble::Refused(refusal) if refusal.code == 404) {
            self.await_served(pause).await;
        } else {
            sleep(pause).await;
        }
    }

    /// Waits until it is worth while to look again for a kind that is not served.
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

    /// A whole list, and the watch that goes on after it where it came from one.
    async fn list(&mut self) -> Result<(Option<Streamed>, u64), Trouble> {
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
            return Err(Trouble::NotStreamed);
        }
        if stream.status != 200 {
            return Err(Trouble::Refused(stream.refusal().await));
        }
        let mut listed = HashSet::new();
        loop {
            // A server that knows nothing of streamed lists never says that one has ended.
            let line = match timeout(self.pace.silence, stream.line()).await {
                Ok(line) => line?,
                Err(_) => return Err(Trouble::NotStreamed),
            };
            let Some(line) = line else {
                return Err(Trouble::Broken(
                    "nothing more before the list ended".to_owned(),
                ));
            };
            let Event { kind, object } = read(&line)?;
            match &*kind {
                "ADDED" | "MODIFIED" => self.listed(object.get(), &mut listed),
                "DELETED" => self.deleted(object.get()),
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

    async fn pages(&mut self) -> Result<u64, Trouble> {
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
                self.page.relax();
                return Ok(since);
            }
            next = format!("&continue={}", encoded(&end.next));
        }
    }

    async fn one_page(
        &mut self,
        next: &str,
        listed: &mut HashSet<Key>,
    ) -> Result<PageEnd, Trouble> {
        let path = self.query(&format!("limit={}{next}", self.page.now()));
        let call = self.selection.content.of(Call::get(path));
        let patience = self.pace.silence.min(REQUEST_TIMEOUT);
        let mut page = self.selection.connection.page(call, patience).await?;
        while let Some(item) = page.item().await? {
            self.listed(&String::from_utf8_lossy(&item), listed);
        }
        Ok(page.end()?)
    }

    fn listed(&mut self, object: &str, listed: &mut HashSet<Key>) {
        let Some(object) = self.object(object).filter(|o| self.was_wanted(o)) else {
            return;
        };
        let change = self.table.upsert(&object);
        listed.insert(object.key);
        // Of a first list all is told when it is whole.
        if let (true, Some(change)) = (self.table.is_complete(), change) {
            self.listener.changed(change);
        }
    }

    fn deleted(&mut self, object: &str) {
        let change = self
            .object(object)
            .and_then(|object| self.table.delete(&object));
        if let (true, Some(change)) = (self.table.is_complete(), change) {
            self.listener.changed(change);
        }
    }

    fn finish(&mut self, listed: &HashSet<Key>, since: u64) -> Result<(), Trouble> {
        if since < self.highest {
            self.behind += 1;
            if self.behind < RESTORED_AFTER {
                return Err(Trouble::Behind);
            }
            let kind = self.table.kind();
            warn!(%kind, "the server shows an older state than before, which now counts");
            self.highest = since;
            self.table.distrust_versions();
            // What the list showed was taken for old news until now.
            return Err(Trouble::Behind);
        }
        self.behind = 0;
        self.highest = since;
        let finished = self.table.finish(listed, since);
        if listed.is_empty() && !finished.gone.is_empty() {
            self.listener.emptied(&self.table, finished.gone.len());
        }
        for change in finished.gone {
            self.listener.changed(change);
        }
        if finished.first {
            self.table.tell_all(|change| self.listener.changed(change));
        }
        // Before anybody is told: who hears of it asks whether it is so, and may ask at once.
        self.health
            .send_if_modified(|health| !std::mem::replace(&mut health.complete, true));
        if finished.first {
            self.listener.completed(&self.table);
        }
        Ok(())
    }

    /// Follows what happens after a list, until a list is needed again.
    async fn follow(&mut self, stream: Option<Streamed>, mut since: u64) {
        let mut stream = stream;
        loop {
            let opened = Instant::now();
            let followed = match stream.take() {
                Some(stream) => self.read(stream, &mut since).await,
                None => self.open(&mut since).await,
            };
            self.highest = self.highest.max(since);
            match followed {
                Ok(()) | Err(Trouble::Silent(_)) => self.breathe(opened).await,
                Err(Trouble::TooOld) => return self.breathe(opened).await,
                Err(trouble) => {
                    self.blind |= matches!(trouble, Trouble::Refused(_));
                    self.wait(&trouble).await;
                    self.unheard = matches!(trouble, Trouble::Call(_));
                    // A watch that is refused time after time may be wanted from elsewhere. Whom nobody
                    // hears is not helped by a list: it goes on where it was.
                    if self.backoff.is_long() && !self.unheard {
                        return;
                    }
                }
            }
        }
    }

    /// Keeps a server that ends every watch at once from being asked without end.
    async fn breathe(&mut self, opened: Instant) {
        if opened.elapsed() < SHORT {
            sleep(self.reopening.next()).await;
        } else {
            self.reopening.reset();
        }
    }

    async fn open(&mut self, since: &mut u64) -> Result<(), Trouble> {
        let seconds = self.pace.watch_seconds();
        let path = self.query(&format!(
            "watch=1&allowWatchBookmarks=true&resourceVersion={since}&timeoutSeconds={seconds}"
        ));
        let call = self.selection.content.of(Call::get(path));
        let stream = self.selection.connection.stream(call).await?;
        match stream.status {
            200 => {
                if std::mem::take(&mut self.blind) {
                    self.well();
                }
                // The server is heard again, whenever it will have something to say.
                if std::mem::take(&mut self.unheard) {
                    self.tell_well();
                }
                self.read(stream, since).await
            }
            410 => Err(Trouble::TooOld),
            _ => Err(Trouble::Refused(stream.refusal().await)),
        }
    }

    async fn read(&mut self, mut stream: Streamed, since: &mut u64) -> Result<(), Trouble> {
        loop {
            let silent = Trouble::Silent(self.pace.silence);
            let line = timeout(self.pace.silence, stream.line()).await;
            let Some(line) = line.map_err(|_| silent)?? else {
                return Ok(());
            };
            let Event { kind, object } = read(&line)?;
            match &*kind {
                "ADDED" | "MODIFIED" | "DELETED" => {
                    let Some(listed) = self.object(object.get()) else {
                        continue;
                    };
                    *since = (*since).max(listed.version);
                    let change = match &*kind {
                        // What left the selection may be shown as it is now.
                        "DELETED" => self.table.delete(&listed),
                        _ if !self.was_wanted(&listed) => continue,
                        _ => self.table.upsert(&listed),
                    };
                    if let Some(change) = change {
                        self.listener.changed(change);
                    }
                }
                "BOOKMARK" => *since = (*since).max(bookmark(object).0),
                _ => return Err(said(object)),
            }
            self.well();
        }
    }

    /// An object as tables take it; what is none, or of no cluster, is left out.
    fn object(&mut self, text: &str) -> Option<Listed> {
        let kind = self.table.kind();
        let object = document::object(text, kind)
            .inspect_err(|problem| debug!(%kind, problem, "what the server shows is no object"))
            .ok()?;
        let version = version(&object)?;
        let cluster = match &self.selection.clusters {
            Clusters::One(cluster) => Arc::clone(cluster),
            Clusters::Annotation(name) => self.names.get(object.annotation(name)?),
        };
        let namespace = object.namespace().map(|name| self.names.get(name));
        let key = Key {
            side: self.table.side().clone(),
            kind: Arc::clone(self.table.kind()),
            cluster,
            namespace,
            name: object.name().into(),
        };
        let object = self.selection.content.cut(object, self.table.kind());
        Some(Listed {
            key,
            version,
            object,
        })
    }

    /// Something on the way may leave out what was asked for.
    fn was_wanted(&self, listed: &Listed) -> bool {
        let wanted = self.table.accepts(listed);
        if !wanted {
            let (kind, name) = (self.table.kind(), &*listed.key.name);
            debug!(%kind, name, "the server shows an object that was not asked for");
        }
        wanted
    }
}

fn read(line: &[u8]) -> Result<Event<'_>, Trouble> {
    serde_json::from_slice(line).map_err(|error| Trouble::Broken(format!("no event: {error}")))
}

/// The version a bookmark stands for, and whether it ends the initial events.
fn bookmark(object: &RawValue) -> (u64, bool) {
    let object: Value = serde_json::from_str(object.get()).unwrap_or_default();
    let metadata = &object["metadata"];
    let ends = metadata["annotations"]["k8s.io/initial-events-end"] == *"true";
    let version = metadata["resourceVersion"].as_str();
    let version = version.and_then(|version| version.parse().ok());
    (version.unwrap_or_default(), ends)
}

fn said(status: &RawValue) -> Trouble {
    let status: Value = serde_json::from_str(status.get()).unwrap_or_default();
    if status["code"].as_u64() == Some(410) {
        return Trouble::TooOld;
    }
    let message = status["message"].as_str();
    Trouble::Broken(message.unwrap_or("an error without words").to_owned())
}

fn encoded(token: &str) -> String {
    form_urlencoded::byte_serialize(token.as_bytes()).collect()
}

#[cfg(test)]
mod tests;
