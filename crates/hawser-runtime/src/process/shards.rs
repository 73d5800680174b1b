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

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures::future::join_all;
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::time::{Instant, sleep, timeout};
use tokio_util::sync::CancellationToken;

use crate::cluster::connection::{Call, CallClass, Connection};
use crate::cluster::wire::segment;
use crate::process::lease::{
    Fence, Leadership, LeaseObserver, LeaseOptions, Presence, Terms, shortened, take,
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
pub struct ShardKeeper {
    connection: Connection,
    options: ShardOptions,
    shards: Arc<Shards>,
    presence: Presence,
    view: View,
    held: BTreeMap<usize, HeldShard>,
    note: watch::Receiver<String>,
    others: watch::Sender<BTreeMap<String, String>>,
    /// The last problem, which is logged once.
    problem: String,
}

struct HeldShard {
    leadership: Leadership,
    taken: Instant,
    is_open: bool,
}

// === impl ShardKeeper ===

impl ShardKeeper {
    /// Others see the note of this process, which sees theirs by identity.
    pub fn new(
        connection: Connection,
        options: ShardOptions,
        shards: &Arc<Shards>,
        note: watch::Receiver<String>,
        others: watch::Sender<BTreeMap<String, String>>,
    ) -> Self {
        let count = shards.count();
        let member = member_name(&options.name, &options.identity);
        Self {
            presence: Presence::new(&connection, options.lease(member, count)),
            view: View {
                name: options.name.clone(),
                count,
                leases: LeaseObserver::default(),
            },
            connection,
            options,
            shards: Arc::clone(shards),
            held: BTreeMap::new(),
            note,
            others,
            problem: String::new(),
        }
    }

    /// Keeps shards until it is stopped, and releases them.
    pub async fn run(mut self, stop: CancellationToken) {
        loop {
            let again = tokio::select! {
                () = stop.cancelled() => break,
                again = self.round() => again,
            };
            let again = again.unwrap_or_else(|problem| {
                if self.problem != problem {
                    tracing::warn!(problem, "cannot share the work with other processes");
                }
                self.problem = problem;
                false
            });
            // Whatever was taken is opened by the next list.
            if again {
                continue;
            }
            tokio::select! {
                () = stop.cancelled() => break,
                () = sleep(shortened(self.options.terms.retry)) => {}
                () = lost(&self.held) => {}
            }
        }
        let all: Vec<usize> = self.held.keys().copied().collect();
        self.release(all).await;
        if let Err(problem) = self.presence.leave().await {
            tracing::warn!(
                problem,
                "cannot delete the lease of this process; it expires"
            );
        }
    }

    /// Looks once; returns whether a shard was taken.
    async fn round(&mut self) -> Result<bool, String> {
        self.drop_lost();
        let note = self.note.borrow().clone();
        self.presence.show(NOTE, &note).await?;
        let asked = Instant::now();
        let leases = list(&self.connection, &self.options).await?;
        let leases = leases.ok_or_else(|| {
            let namespace = &self.options.namespace;
            format!("may not list leases in namespace {namespace}: grant list and delete on them")
        })?;
        let now = Instant::now();
        self.view.observe(leases, now);
        self.problem.clear();
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
            let all: Vec<usize> = self.held.keys().copied().collect();
            self.release(all).await;
            return Ok(false);
        }
        if declaration == Declaration::Same && !self.view.others_hold(now) {
            self.open(asked);
        }
        let Moves { take, release } = self.moves(now);
        self.release(release).await;
        let mut is_news = false;
        if declaration == Declaration::Same {
            for shard in take {
                is_news |= self.take(shard).await?;
            }
            self.clean(now).await?;
        }
        Ok(is_news)
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

    async fn take(&mut self, shard: usize) -> Result<bool, String> {
        let name = shard_name(&self.options.name, shard);
        let seen = self.view.leases.object(&name).cloned();
        let options = self.options.lease(name, self.shards.count());
        let Some(leadership) = take(&self.connection, options, seen).await? else {
            return Ok(false);
        };
        let held = HeldShard {
            leadership,
            taken: Instant::now(),
            is_open: false,
        };
        self.held.insert(shard, held);
        Ok(true)
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
        let is_lost = |held: &HeldShard| held.leadership.lost().is_cancelled();
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
            .connection
            .call(Call::delete(path, &only).class(CallClass::Lease));
        let reply = within(self.options.terms, deleted).await?;
        match reply.status {
            404 | 409 => Ok(()),
            _ => reply.ok().map(drop).map_err(|refusal| refusal.to_string()),
        }
    }
}

/// Resolves when one of these shards is lost.
async fn lost(held: &BTreeMap<usize, HeldShard>) {
    if held.is_empty() {
        return std::future::pending().await;
    }
    let lost = held
        .values()
        .map(|held| Box::pin(held.leadership.lost().cancelled()));
    futures::future::select_all(lost).await;
}

/// Waits until no shard can be held, before a process without shards works in place of processes with shards.
pub async fn await_no_shards(connection: &Connection, options: &ShardOptions) {
    let mut view = View {
        name: options.name.clone(),
        // No shard is of this number.
        count: 0,
        leases: LeaseObserver::default(),
    };
    let mut told = false;
    loop {
        match list(connection, options).await {
            // Roles of installations without shards have no right to list Leases.
            Ok(None) => return,
            Ok(Some(leases)) => {
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
    connection: &Connection,
    options: &ShardOptions,
) -> Result<Option<Vec<Value>>, String> {
    let selector = segment(&format!("{LABEL}={}", view::group(&options.name))).to_string();
    let path = format!("{}?labelSelector={selector}", options.leases());
    let call = Call::get(path).class(CallClass::Lease);
    let reply = within(options.terms, connection.call(call)).await?;
    if reply.status == 403 {
        return Ok(None);
    }
    let mut list = reply.ok().map_err(|refusal| refusal.to_string())?;
    match list["items"].take() {
        Value::Array(items) => Ok(Some(items)),
        _ => Err("the list of leases has no items".to_owned()),
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
