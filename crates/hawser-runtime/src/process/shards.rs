//! Shards: processes that share work, each on a part of the keys.
//!
//! Each shard has a Lease with a fence of its own. A process takes, keeps and releases shards by what it sees of the
//! Leases of all others; only the Lease of a shard and its fence decide who may write.
//!
//! Processes that know different numbers of shards never work at the same time. The leader writes its number on its own
//! Lease. Whoever takes a shard lists all Leases afterwards, and works only if the leader has the same number and no
//! shard of another number may be held. Either the new leader sees the shard, or the one with the shard sees the leader.
//!
//! | module | content |
//! |---|---|
//! | [`assignment`] | which shard belongs to which key, and which shards a process takes and releases |
//! | [`slots`] | the shards of this process, each behind its fence |
//! | [`view`] | what this process has seen of the others |

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use futures::future::join_all;
use futures::stream::{self, StreamExt as _};
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::time::{Instant, sleep, timeout};
use tokio_util::sync::CancellationToken;

use crate::cluster::connection::{Call, CallClass, Connection};
use crate::cluster::wire::segment;
use crate::process::lease::{
    Fence, Leadership, LeaseObserver, LeaseOptions, LeaseServer, Presence, Terms, shortened, take,
};
use crate::process::metrics::Metrics;

pub mod assignment;
pub mod slots;
pub mod view;

pub use assignment::shard_of;
use assignment::{Moves, moves};
pub use slots::{ShardChange, ShardWork, Shards};
use view::{Declaration, LABEL, NOTE, View, marks, member_name, shard_name};

/// The largest number of shards. Each has a Lease, which its holder renews every two seconds.
pub const MOST: usize = 64;

/// The number of shards that are taken concurrently.
const AT_ONCE: usize = 16;

/// The objects of a shard that was given up are needed for this long: it often comes back.
const KEPT: Duration = Duration::from_mins(1);

/// Processes that start together count each other for this long, although they have not read their objects yet.
const STARTING: Duration = Duration::from_mins(1);

/// The time limit for work on a shard that is released.
const DRAIN: Duration = Duration::from_secs(3);

/// The options of a process that shares work.
#[derive(Clone)]
pub struct ShardOptions {
    pub namespace: String,
    /// The name of the leader's Lease.
    pub name: String,
    /// The same as in the leader's Lease.
    pub identity: String,
    pub terms: Terms,
    /// Open while this process leads.
    pub leader: Fence,
    pub metrics: Arc<Metrics>,
}

impl ShardOptions {
    /// The options of one of the Leases, with a fence of its own.
    fn lease(&self, name: String, count: usize) -> LeaseOptions {
        LeaseOptions {
            identity: self.identity.clone(),
            terms: self.terms,
            marks: marks(&self.name, count, &self.identity),
            ..LeaseOptions::usual(&self.namespace, name, &Fence::closed(), &self.metrics)
        }
    }

    fn leases(&self) -> String {
        let namespace = segment(&self.namespace);
        format!("/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases")
    }
}

/// Takes and releases the shards of a process.
pub struct ShardKeeper<S = Connection> {
    server: S,
    options: ShardOptions,
    shards: Arc<Shards>,
    presence: Presence<S>,
    view: View,
    held: BTreeMap<usize, HeldShard<S>>,
    /// When each shard was last held.
    needed: BTreeMap<usize, Instant>,
    began: Instant,
    /// Others that start can see this process.
    has_shown: bool,
    /// Cancelled when everything that the work needs has been read.
    ready: CancellationToken,
    /// Shards whose Lease exists and is not listed: it lacks the label.
    unlisted: BTreeSet<usize>,
    /// When the Leases were last listed.
    listed: Instant,
    note: watch::Receiver<String>,
    others: watch::Sender<BTreeMap<String, String>>,
    /// The problems of the last look. Each is logged once.
    problems: BTreeSet<String>,
}

struct HeldShard<S> {
    leadership: Leadership<S>,
    taken: Instant,
    is_open: bool,
}

// === impl ShardKeeper ===

impl<S: LeaseServer> ShardKeeper<S> {
    /// Others see the note of this process, which sees theirs by identity. Others keep their shards until it is ready.
    pub fn new(
        server: S,
        options: ShardOptions,
        shards: &Arc<Shards>,
        note: watch::Receiver<String>,
        others: watch::Sender<BTreeMap<String, String>>,
        ready: CancellationToken,
    ) -> Self {
        let count = shards.count();
        let member = member_name(&options.name, &options.identity);
        Self {
            presence: Presence::new(&server, options.lease(member, count)),
            view: View {
                name: options.name.clone(),
                count,
                leases: LeaseObserver::default(),
            },
            server,
            options,
            shards: Arc::clone(shards),
            held: BTreeMap::new(),
            needed: BTreeMap::new(),
            began: Instant::now(),
            has_shown: false,
            ready,
            unlisted: BTreeSet::new(),
            listed: Instant::now(),
            note,
            others,
            problems: BTreeSet::new(),
        }
    }

    /// Keeps shards until it is stopped, and releases them.
    pub async fn run(mut self, stop: CancellationToken) {
        loop {
            let is_ready = self.ready.is_cancelled();
            let mut problems = BTreeSet::new();
            let again = tokio::select! {
                biased;
                () = stop.cancelled() => break,
                again = self.round(&mut problems) => again,
            };
            for problem in problems.difference(&self.problems) {
                tracing::warn!(problem, "cannot share the work with other processes");
            }
            self.problems = problems;
            // Whatever was taken is opened by the next list.
            if again {
                continue;
            }
            tokio::select! {
                biased;
                () = stop.cancelled() => break,
                () = sleep(shortened(self.options.terms.retry)) => {}
                () = lost(&self.held) => {}
                () = self.ready.cancelled(), if !is_ready => {}
            }
        }
        self.release_all().await;
        if let Err(problem) = self.presence.leave().await {
            tracing::warn!(
                problem,
                "cannot delete the lease of this process; it expires"
            );
        }
    }

    /// Looks once; returns whether a shard was taken.
    async fn round(&mut self, problems: &mut BTreeSet<String>) -> bool {
        self.drop_lost();
        let asked = Instant::now();
        let now = match self.look(problems).await {
            Ok(now) => now,
            Err(problem) => {
                problems.insert(problem);
                self.release_unseen().await;
                self.want(&BTreeSet::new());
                return false;
            }
        };
        let Moves {
            take,
            release,
            part,
        } = self.moves(now);
        if !self.ready.is_cancelled() {
            // Where nobody works yet, processes show that they are there before they read their part.
            let is_cold = self.view.holders(now).iter().all(Option::is_none);
            let is_shown = std::mem::replace(&mut self.has_shown, true);
            if is_cold && self.began.elapsed() < STARTING {
                problems.extend(self.presence.show(NOTE, "").await.err());
            }
            if is_shown || !is_cold {
                self.want(&part);
            }
            return false;
        }
        self.want(&part);
        let notes = self.view.notes(&self.options.identity, now);
        self.others.send_if_modified(|others| {
            let differs = *others != notes;
            *others = notes;
            differs
        });
        let declaration = self.view.declaration();
        if declaration == Declaration::Other {
            if !self.held.is_empty() {
                tracing::warn!("releasing all shards: the leader has another number of shards");
            }
            self.release_all().await;
        } else if declaration == Declaration::Same && !self.view.others_hold(now) {
            self.open(asked);
        }
        // Others leave shards to a process that is there. One that does not see the Leases takes none.
        let note = self.note.borrow().clone();
        problems.extend(self.presence.show(NOTE, &note).await.err());
        if declaration == Declaration::Other {
            return false;
        }
        self.release(release).await;
        if declaration != Declaration::Same {
            return false;
        }
        let is_news = self.take(take, problems).await;
        problems.extend(self.clean(now).await.err());
        is_news
    }

    /// Sees all Leases; returns when they were received.
    async fn look(&mut self, problems: &mut BTreeSet<String>) -> Result<Instant, String> {
        let mut leases = list(&self.server, &self.options).await?.ok_or_else(|| {
            let namespace = &self.options.namespace;
            format!("may not list leases in namespace {namespace}: grant list and delete on them")
        })?;
        let name = &self.options.name;
        self.unlisted.retain(|shard| {
            let wanted = shard_name(name, *shard);
            !leases
                .iter()
                .any(|lease| lease["metadata"]["name"] == *wanted)
        });
        for read in read_each(&self.server, &self.options, self.unlisted.clone()).await {
            match read {
                Ok(lease) => leases.extend(lease),
                Err(problem) => {
                    problems.insert(problem);
                }
            }
        }
        self.listed = Instant::now();
        self.view.observe(leases, self.listed);
        Ok(self.listed)
    }

    /// Releases all shards when the Leases could not be listed for as long as a Lease lasts: the leader may have another
    /// number by now, and waits for them.
    async fn release_unseen(&mut self) {
        let duration = self.options.terms.duration;
        if self.listed.elapsed() >= duration && !self.held.is_empty() {
            tracing::warn!("releasing all shards: no list of the leases for {duration:?}");
            self.release_all().await;
        }
    }

    /// Needs the objects of these shards, of those that are held, and for a while of those that were.
    fn want(&mut self, part: &BTreeSet<usize>) {
        let now = Instant::now();
        self.needed
            .extend(self.held.keys().map(|shard| (*shard, now)));
        self.needed.retain(|_, at| now.duration_since(*at) < KEPT);
        self.shards
            .want(self.needed.keys().chain(part).copied().collect());
    }

    fn moves(&self, now: Instant) -> Moves {
        let me = &self.options.identity;
        let mut members = self.view.members(now);
        members.insert(me.clone());
        let mut holders = self.view.holders(now);
        for (shard, holder) in holders.iter_mut().enumerate() {
            let is_mine = self.held.contains_key(&shard);
            if is_mine || holder.as_ref() == Some(me) {
                // A Lease in this name that is not held is left of an answer that was lost.
                *holder = is_mine.then(|| me.clone());
            }
        }
        moves(&members, &holders, me)
    }

    /// Opens the shards that were taken before the last list was asked for.
    fn open(&mut self, asked: Instant) {
        for (shard, held) in &mut self.held {
            if !held.is_open && held.taken <= asked {
                held.is_open = true;
                self.shards.open(*shard, held.leadership.fence());
                tracing::info!(shard, "took a shard");
            }
        }
    }

    /// Takes shards, each by itself: one that cannot be taken keeps no other. Returns whether one was taken.
    async fn take(&mut self, shards: BTreeSet<usize>, problems: &mut BTreeSet<String>) -> bool {
        let attempts: Vec<_> = shards
            .into_iter()
            .map(|shard| {
                let name = shard_name(&self.options.name, shard);
                let seen = self.view.leases.object(&name).cloned();
                let options = self.options.lease(name, self.shards.count());
                let server = self.server.clone();
                async move { (shard, take(&server, options, seen).await) }
            })
            .collect();
        let mut taking = stream::iter(attempts).buffer_unordered(AT_ONCE);
        let mut is_news = false;
        while let Some((shard, taken)) = taking.next().await {
            match taken {
                Ok(Some(leadership)) => {
                    let held = HeldShard {
                        leadership,
                        taken: Instant::now(),
                        is_open: false,
                    };
                    self.held.insert(shard, held);
                    is_news = true;
                }
                Ok(None) => {
                    // Where another process was faster, the next list has its Lease.
                    self.unlisted.insert(shard);
                }
                Err(problem) => {
                    problems.insert(format!("shard {shard}: {problem}"));
                }
            }
        }
        is_news
    }

    async fn release_all(&mut self) {
        let all: Vec<usize> = self.held.keys().copied().collect();
        self.release(all).await;
    }

    /// Releases shards after their work has ended. Where it does not end in time, the Lease is left to expire.
    async fn release(&mut self, shards: impl IntoIterator<Item = usize>) {
        let held: Vec<_> = shards
            .into_iter()
            .filter_map(|shard| Some((shard, self.held.remove(&shard)?)))
            .collect();
        let slots = &self.shards;
        let released = held.into_iter().map(|(shard, held)| async move {
            let is_idle = slots.drain(shard, DRAIN).await;
            slots.close(shard);
            if is_idle {
                held.leadership.release().await;
            }
            tracing::info!(shard, "released a shard");
        });
        join_all(released).await;
    }

    fn drop_lost(&mut self) {
        let is_lost = |held: &HeldShard<S>| held.leadership.lost().is_cancelled();
        let shards = &self.shards;
        self.held.retain(|shard, held| {
            let is_lost = is_lost(held);
            if is_lost {
                shards.close(*shard);
            }
            !is_lost
        });
    }

    /// Deletes a Lease that nobody needs, if this process leads.
    async fn clean(&self, now: Instant) -> Result<(), String> {
        let Some(lease) = self
            .view
            .useless(now, self.options.terms.duration)
            .filter(|_| self.options.leader.check().is_ok())
        else {
            return Ok(());
        };
        let metadata = &lease["metadata"];
        let name = metadata["name"].as_str().unwrap_or_default();
        let path = format!("{}/{}", self.options.leases(), segment(name));
        // Only as it was seen.
        let only = json!({"preconditions": {
            "uid": metadata["uid"], "resourceVersion": metadata["resourceVersion"],
        }});
        let deleted = self
            .server
            .call(Call::delete(path, &only).class(CallClass::Lease));
        let reply = within(self.options.terms, deleted).await?;
        match reply.status {
            404 | 409 => Ok(()),
            _ => reply.ok().map(drop).map_err(|refusal| refusal.to_string()),
        }
    }
}

/// Resolves when one of these shards is lost.
async fn lost<S: LeaseServer>(held: &BTreeMap<usize, HeldShard<S>>) {
    if held.is_empty() {
        return std::future::pending().await;
    }
    let lost = held
        .values()
        .map(|held| Box::pin(held.leadership.lost().cancelled()));
    futures::future::select_all(lost).await;
}

/// Waits until no shard can be held, before a process without shards works in place of processes with shards.
pub async fn await_no_shards(server: &impl LeaseServer, options: &ShardOptions) {
    let mut view = View {
        name: options.name.clone(),
        // No shard is of this number.
        count: 0,
        leases: LeaseObserver::default(),
    };
    let mut told = false;
    loop {
        let seen = match list(server, options).await {
            Ok(Some(leases)) => Ok(leases),
            // Roles of installations without shards have no right to list Leases, but others of this name may have it.
            Ok(None) => {
                let all = read_each(server, options, (0..MOST).collect()).await;
                let all: Result<Vec<_>, _> = all.into_iter().collect();
                all.map(|leases| leases.into_iter().flatten().collect())
            }
            Err(problem) => Err(problem),
        };
        match seen {
            Ok(leases) => {
                view.observe(leases, Instant::now());
                if !view.others_hold(Instant::now()) {
                    return;
                }
                if !told {
                    tracing::info!("waiting until other processes have released their shards");
                    told = true;
                }
            }
            Err(problem) => tracing::warn!(problem, "cannot look for shards of other processes"),
        }
        sleep(shortened(options.terms.retry)).await;
    }
}

/// All Leases of the group; `None` if this process may not list them.
async fn list(
    server: &impl LeaseServer,
    options: &ShardOptions,
) -> Result<Option<Vec<Value>>, String> {
    let selector = segment(&format!("{LABEL}={}", view::group(&options.name))).to_string();
    let path = format!("{}?labelSelector={selector}", options.leases());
    let call = Call::get(path).class(CallClass::Lease);
    let reply = within(options.terms, server.call(call)).await?;
    if reply.status == 403 {
        return Ok(None);
    }
    let mut list = reply.ok().map_err(|refusal| refusal.to_string())?;
    match list["items"].take() {
        Value::Array(items) => Ok(Some(items)),
        _ => Err("the list of leases has no items".to_owned()),
    }
}

/// The Leases of these shards, each by its name.
async fn read_each(
    server: &impl LeaseServer,
    options: &ShardOptions,
    shards: BTreeSet<usize>,
) -> Vec<Result<Option<Value>, String>> {
    let reads = shards.into_iter().map(|shard| async move {
        let read = read(server, options, shard).await;
        read.map_err(|problem| format!("shard {shard}: {problem}"))
    });
    let reads: Vec<_> = reads.collect();
    stream::iter(reads).buffered(AT_ONCE).collect().await
}

/// The Lease of a shard. `None` if there is none, or if this process may not read it: then no process of this account
/// can hold it.
async fn read(
    server: &impl LeaseServer,
    options: &ShardOptions,
    shard: usize,
) -> Result<Option<Value>, String> {
    let name = shard_name(&options.name, shard);
    let path = format!("{}/{}", options.leases(), segment(&name));
    let call = Call::get(path).class(CallClass::Lease);
    let reply = within(options.terms, server.call(call)).await?;
    match reply.status {
        403 | 404 => Ok(None),
        _ => reply.ok().map(Some).map_err(|refusal| refusal.to_string()),
    }
}

/// The answer, within half of the time that there is to renew.
async fn within<T, E: ToString>(
    terms: Terms,
    call: impl Future<Output = Result<T, E>>,
) -> Result<T, String> {
    let limit = terms.renew_deadline / 2;
    let answered = timeout(limit, call).await;
    answered
        .map_err(|_| format!("no answer within {limit:?}"))?
        .map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests;
