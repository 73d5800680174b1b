//! Writes the conditions of published resources, once their state has been quiet for a while.
//!
//! One patch writes everything, and only if something changed. On a service cluster with api-syncagent's CRD, the
//! server drops conditions: the agent notices that in the response, and does not write them again until the CRD is
//! replaced.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt as _;
use futures::stream;
use jiff::Timestamp;
use parking_lot::Mutex;
use serde_json::Value;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;

use super::schemas::{CrdPrint, PUBLISHED_RESOURCES};
use crate::publish::ready::{self, Facts, PlanFact, READY, Verdict};
use hawser_runtime::cluster::connection::{Call, CallError, Connection, RequestError};
use kube_lang::object::Object;

/// The number of concurrent writes: they must not crowd out the passes.
const AT_ONCE: usize = 4;
const LONGEST_PAUSE: Duration = Duration::from_mins(1);

/// The conditions of a published resource that are not true, each with its message.
pub(super) fn untrue(object: &Object) -> impl Iterator<Item = (&str, &str)> {
    let conditions = object.as_value()["status"]["conditions"].as_array();
    let untrue = |condition: &&Value| condition["status"] != *"True";
    conditions
        .into_iter()
        .flatten()
        .filter(untrue)
        .map(|condition| {
            let text = |field: &str| condition[field].as_str().unwrap_or_default();
            (text("type"), text("message"))
        })
}

/// The delays of writes.
#[derive(Clone, Copy, Debug)]
pub struct QuietPeriod {
    /// After the last change, so that a burst of changes is one patch and the owner's own edits are over.
    pub after: Duration,
    /// The longest delay, if changes never stop.
    pub most: Duration,
}

impl Default for QuietPeriod {
    fn default() -> Self {
        Self {
            after: Duration::from_secs(2),
            most: Duration::from_secs(15),
        }
    }
}

/// The objects that the watches of the service cluster know. Never waits.
pub trait ConditionSource: Send + Sync {
    /// A published resource by its name, as last seen; `None` if it is gone or not for this agent.
    fn published(&self, name: &str) -> Option<Arc<Value>>;

    /// The CRD of published resources; `None` if it is not watched.
    fn definition(&self) -> Option<CrdPrint>;
}

/// The conditions of all published resources.
pub struct Conditions {
    service: Connection,
    known: Arc<dyn ConditionSource>,
    quiet: QuietPeriod,
    state: Mutex<WriterState>,
    changed: Notify,
}

#[derive(Default)]
struct WriterState {
    /// By uid.
    open: HashMap<String, Pending>,
    /// The newest responses to the agent's own patches, by uid: the watch may be behind them.
    answered: HashMap<String, WriteAnswer>,
    drops: SchemaPruning,
}

/// Whether the server drops conditions.
#[derive(Default, PartialEq)]
enum SchemaPruning {
    /// The server keeps them, as far as is known.
    #[default]
    Nobody,
    /// This CRD, which may be one that is not watched, has no conditions.
    By(Option<CrdPrint>),
}

#[derive(Clone)]
struct Pending {
    name: String,
    verdicts: Vec<Verdict>,
    plan: PlanFact,
    /// The time of the write.
    due: Instant,
    /// Further changes do not delay the write beyond this time.
    latest: Instant,
    failures: u32,
}

struct WriteAnswer {
    version: Option<u64>,
    status: Value,
}

impl Conditions {
    pub fn new(service: Connection, known: Arc<dyn ConditionSource>, quiet: QuietPeriod) -> Self {
        Self {
            service,
            known,
            quiet,
            state: Mutex::default(),
            changed: Notify::new(),
        }
    }

    /// Notes the verdict about a published resource. It is written later, if it differs.
    pub fn report(&self, uid: &str, name: &str, facts: &Facts) {
        let verdicts = ready::verdicts(facts);
        let current = self.known.published(name);
        let definition = self.known.definition();
        let mut state = self.state.lock();
        if state.drops == SchemaPruning::By(definition) {
            state.open.remove(uid);
            return;
        }
        let is_news = current.is_none_or(|current| {
            let status = state.newest(uid, &current);
            // The time does not matter here: a patch exists only if something else changes.
            ready::patch(status, &verdicts, &facts.plan, "").is_some()
        });
        let now = Instant::now();
        match state.open.entry(uid.to_owned()) {
            Entry::Occupied(open) if !is_news => {
                open.remove();
            }
            Entry::Occupied(mut open) => {
                let open = open.get_mut();
                if (&open.verdicts, &open.plan) != (&verdicts, &facts.plan) {
                    open.verdicts = verdicts;
                    open.plan = facts.plan.clone();
                    open.failures = 0;
                    open.due = (now + self.quiet.after).min(open.latest);
                }
            }
            Entry::Vacant(_) if !is_news => {}
            Entry::Vacant(vacant) => {
                vacant.insert(Pending {
                    name: name.to_owned(),
                    verdicts,
                    plan: facts.plan.clone(),
                    due: now + self.quiet.after,
                    latest: now + self.quiet.most,
                    failures: 0,
                });
            }
        }
        drop(state);
        self.changed.notify_one();
    }

    /// Forgets a published resource that is gone.
    pub fn forget(&self, uid: &str) {
        let mut state = self.state.lock();
        state.open.remove(uid);
        state.answered.remove(uid);
    }

    /// Writes due conditions until stopped.
    pub async fn run(&self, stop: CancellationToken) {
        tokio::select! {
            () = stop.cancelled() => {}
            () = self.keep() => {}
        }
    }

    async fn keep(&self) {
        loop {
            let next = self.state.lock().open.values().map(|one| one.due).min();
            let due = async {
                match next {
                    Some(due) => sleep_until(due).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                () = self.changed.notified() => continue,
                () = due => {}
            }
            let write = |(uid, pending): (String, Pending)| async move {
                self.write(&uid, pending).await;
            };
            stream::iter(self.take_due())
                .for_each_concurrent(AT_ONCE, write)
                .await;
        }
    }

    fn take_due(&self) -> Vec<(String, Pending)> {
        let now = Instant::now();
        let due = |_: &String, one: &mut Pending| one.due <= now;
        self.state.lock().open.extract_if(due).collect()
    }

    async fn write(&self, uid: &str, pending: Pending) {
        let Some(current) = wanted(&*self.known, &pending.name, uid) else {
            return;
        };
        let definition = self.known.definition();
        let patch = {
            let state = self.state.lock();
            if state.drops == SchemaPruning::By(definition.clone()) {
                return;
            }
            let now = Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
            let status = state.newest(uid, &current);
            ready::patch(status, &pending.verdicts, &pending.plan, &now)
        };
        let Some(patch) = patch else { return };
        let path = format!("{PUBLISHED_RESOURCES}/{}/status", pending.name);
        let (known, name, owner) = (
            Arc::clone(&self.known),
            pending.name.clone(),
            uid.to_owned(),
        );
        let still = move || match wanted(&*known, &name, &owner) {
            Some(_) => Ok(()),
            None => Err("the PublishedResource is no longer for this agent".to_owned()),
        };
        let service = self.service.guarded_by(Arc::new(still));
        match service.ask(Call::merge_patch(path, &patch)).await {
            Ok(answer) => self.wrote(uid, &pending.name, answer, definition),
            Err(error) if error.code() == Some(404) => {}
            Err(error) => self.again(uid, pending, &error),
        }
    }

    fn wrote(&self, uid: &str, name: &str, mut answer: Value, definition: Option<CrdPrint>) {
        let conditions = answer["status"]["conditions"].as_array();
        let kept = conditions.is_some_and(|all| all.iter().any(|one| one["type"] == READY));
        let mut state = self.state.lock();
        if !kept {
            if state.drops == SchemaPruning::Nobody {
                tracing::info!(
                    publishedresource = name,
                    "the installed CRD of PublishedResources has no conditions: not writing any"
                );
            }
            state.drops = SchemaPruning::By(definition);
            state.open.clear();
            return;
        }
        let answered = WriteAnswer {
            version: version(&answer),
            status: answer["status"].take(),
        };
        state.answered.insert(uid.to_owned(), answered);
    }

    fn again(&self, uid: &str, pending: Pending, error: &RequestError) {
        tracing::debug!(publishedresource = pending.name, %error, "condition not written");
        let factor = 2_u32.saturating_pow(pending.failures);
        let mut pause = self.quiet.after.saturating_mul(factor).min(LONGEST_PAUSE);
        if let RequestError::Call(CallError::Held(held)) = error {
            pause = pause.max(*held);
        }
        let now = Instant::now();
        let later = Pending {
            due: now + pause,
            latest: now + pause + self.quiet.most,
            failures: pending.failures.saturating_add(1),
            ..pending
        };
        // A verdict reported meanwhile is newer and has its own due time.
        self.state
            .lock()
            .open
            .entry(uid.to_owned())
            .or_insert(later);
    }
}

/// The published resource, if it is still the same and not in deletion.
fn wanted(known: &dyn ConditionSource, name: &str, uid: &str) -> Option<Arc<Value>> {
    let current = known.published(name)?;
    let metadata = &current["metadata"];
    let is_wanted = metadata["uid"] == uid && metadata["deletionTimestamp"].is_null();
    is_wanted.then_some(current)
}

impl WriterState {
    /// The newest known status.
    fn newest<'s>(&'s self, uid: &str, seen: &'s Value) -> &'s Value {
        match self.answered.get(uid) {
            Some(answered) if answered.version > version(seen) => &answered.status,
            _ => &seen["status"],
        }
    }
}

fn version(object: &Value) -> Option<u64> {
    object["metadata"]["resourceVersion"].as_str()?.parse().ok()
}

#[cfg(test)]
mod tests;
