//! Passes with dry runs in place of writes: what would be sent now, and what the servers say to it. Shared by the
//! dialects that explain their objects.

use std::collections::BTreeSet;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::thread;

use parking_lot::Mutex;
use serde_json::{Map, Value};

use crate::rehearsal::Rehearsal;
use hawser_runtime::cluster::cache::Cache;
use hawser_runtime::cluster::wire::{Router, dry_run, withheld};
use hawser_runtime::controller::{
    self, BrakeRegistry, Evaluation, PassDialect, PassReading, Reading, Withheld,
};
use hawser_sync::{
    Answer, Cluster, Dialect, Failure, Key, Outcome, Report, Request, Seen, Step, Store as _,
    Subject, View, run,
};
use kube_lang::object::{Gvk, Object, merge_patch};

pub mod differences;
pub mod progress;
pub mod secrets;

use differences::{Differences, made_by};
use secrets::SecretLinks;

/// A write that is due.
#[derive(Debug)]
pub struct DueWrite {
    pub verb: &'static str,
    pub object: Key,
    /// The change, without the contents of Secrets; `None` for deletions.
    pub change: Option<Value>,
    /// The fields that differ after the write; `None` for deletions, and if the object is not known. Of a creation, the
    /// fields that the server changes.
    pub differences: Option<Differences>,
    /// The answer of the server to the dry run, if it refuses, or why it would not be sent.
    pub refusal: Option<String>,
    /// Whether the brake would hold this deletion. Only plans say so.
    pub held: bool,
}

/// Whether something is left to write. What a server refuses, although the object is settled, is not: a status that it
/// does not serve.
pub fn is_left(due: &[DueWrite]) -> bool {
    due.iter().any(|write| write.refusal.is_none())
}

/// The limits of passes that are only tried, which are those of real ones: the objects that they read at a time, and the
/// threads on which they compute.
pub struct TrialLimits {
    reading: Reading,
    evaluation: Evaluation,
}

/// A pass to be tried.
pub struct Tried<'a, P, F> {
    pub pass: &'a P,
    /// Decides: the pass itself, or one that finds more.
    pub front: &'a F,
    pub tenant: &'a Arc<str>,
    pub router: &'a dyn Router,
    pub cache: &'a Cache,
    /// Hold deletions, if there are any.
    pub brakes: Option<&'a BrakeRegistry>,
    /// Whether the fields that a write changes are shown to anybody.
    pub compares: bool,
}

/// What a pass would do.
pub struct TriedWrites {
    /// As after the writes.
    pub report: Report,
    /// In the order in which they would be sent.
    pub due: Vec<DueWrite>,
    /// Whether contents of Secrets are copied.
    pub has_secrets: bool,
}

impl TrialLimits {
    pub fn new() -> Self {
        let processors = thread::available_parallelism().map_or(1, NonZeroUsize::get);
        Self {
            reading: Reading::default(),
            evaluation: Evaluation::new(processors),
        }
    }

    /// Runs a pass with dry runs.
    pub async fn run<P: PassDialect, F: Dialect>(&self, tried: Tried<'_, P, F>) -> TriedWrites {
        let (tenant, cache) = (tried.tenant, tried.cache);
        let reading = loop {
            if let Some(reading) = self
                .reading
                .begin(tenant, cache, tried.pass.tree_bytes())
                .await
            {
                break reading;
            }
        };
        let secrets = Mutex::default();
        let front = NotedFront {
            front: tried.front,
            secrets: &secrets,
        };
        let client = DryRunClient {
            tried,
            reading: &reading,
            evaluation: &self.evaluation,
            overlay: Rehearsal::default(),
            secrets: &secrets,
            state: Mutex::default(),
        };
        let mut report = run(&front, None, &reading, &client).await;
        let secrets = secrets.lock();
        for outcome in &mut report.outcomes {
            if let Some(source) = secrets.source(&outcome.link) {
                let keys = [Some(source), outcome.copy.as_ref()];
                let keys = keys.into_iter().flatten().cloned();
                controller::clean(cache, keys, &mut outcome.reason);
            }
        }
        TriedWrites {
            report,
            due: client.state.into_inner().due,
            has_secrets: secrets.has_links(),
        }
    }
}

/// Whether a kind is selected by its kind or plural, and perhaps its group.
pub fn is_of_kind(selected: &str, kind: &Gvk, plural: &str) -> bool {
    let (name, group) = match selected.split_once('.') {
        Some((name, group)) => (name, Some(group)),
        None => (selected, None),
    };
    // Like kubectl, with or without the version.
    let version = format!("{}.{}", kind.version, kind.group);
    let is_of_group = group.is_none_or(|group| group == kind.group || group == version);
    is_of_group
        && [&*kind.kind, plural]
            .iter()
            .any(|one| name.eq_ignore_ascii_case(one))
}

/// The front of a pass whose links are noted.
struct NotedFront<'a, F> {
    front: &'a F,
    secrets: &'a Mutex<SecretLinks>,
}

impl<F: Dialect> Dialect for NotedFront<'_, F> {
    fn subject(&self, view: &dyn View) -> Result<Subject, Vec<Request>> {
        let subject = self.front.subject(view)?;
        self.secrets.lock().note(&subject);
        Ok(subject)
    }

    fn report(&self, subject: &Subject, outcomes: &[Outcome], view: &dyn View) -> Vec<Step> {
        self.front.report(subject, outcomes, view)
    }
}

/// The client of a pass that sends writes as dry runs only.
struct DryRunClient<'a, P, F> {
    tried: Tried<'a, P, F>,
    reading: &'a PassReading<'a>,
    evaluation: &'a Evaluation,
    /// The objects that were written, as the servers would store them.
    overlay: Rehearsal,
    secrets: &'a Mutex<SecretLinks>,
    state: Mutex<DryRunState>,
}

#[derive(Default)]
struct DryRunState {
    written: BTreeSet<Key>,
    due: Vec<DueWrite>,
    /// The pass has read more than there is room for.
    is_crowded: bool,
}

impl<P: PassDialect, F: Dialect> DryRunClient<'_, P, F> {
    fn is_written(&self, key: &Key) -> bool {
        self.state.lock().written.contains(key)
    }

    /// The object as this pass has left it.
    fn now(&self, key: &Key) -> Option<Arc<Object>> {
        if self.is_written(key) {
            return self.overlay.object(key);
        }
        match self.tried.cache.get(key) {
            Seen::Present(live) => Some(live),
            Seen::Absent | Seen::Unknown => None,
        }
    }

    async fn send_dry(&self, request: &Request) -> Answer {
        let Tried { pass, tenant, .. } = self.tried;
        let tenant = pass.takes_turns().then_some(tenant);
        dry_run(self.tried.router, tenant, request).await
    }

    /// The answer of the server, or of the overlay for objects that exist only there.
    async fn try_write(&self, request: &Request, key: &Key) -> Answer {
        let is_in_overlay = self.is_written(key)
            || key
                .namespace_key()
                .is_some_and(|namespace| self.is_written(&namespace));
        if is_in_overlay {
            return self.overlay.send(request).await;
        }
        let answer = self.send_dry(request).await;
        match answer {
            Answer::Object(object) => {
                self.overlay.put(key, &object);
                let stored = self.overlay.object(key);
                Answer::Object(stored.unwrap_or(object))
            }
            answer => answer,
        }
    }

    /// Whether the request would be sent. Writes that only wait are shown.
    async fn check(&self, request: &Request) -> Result<(), Failure> {
        if self.state.lock().is_crowded {
            let why = "other large objects are processed first".to_owned();
            return Err(Failure::NotSent(why));
        }
        match self.tried.pass.allows(request).await {
            Ok(())
            | Err(Withheld {
                failure: Failure::Paused(_) | Failure::Early,
                ..
            }) => {}
            Err(Withheld { failure, .. }) => return Err(failure),
        }
        match self.tried.brakes.zip(self.tried.pass.deletion(request)) {
            Some((brakes, deletion)) => brakes.ask(&deletion),
            None => Ok(()),
        }
    }
}

impl<P: PassDialect, F: Dialect> Cluster for DryRunClient<'_, P, F> {
    async fn compute(&self, work: &mut (dyn FnMut() + Send)) {
        if self.tried.pass.is_heavy() {
            self.evaluation.run(self.tried.tenant, work).await;
        } else {
            work();
        }
        if !self.reading.fits() {
            self.state.lock().is_crowded = true;
        }
    }

    async fn send(&self, request: &Request) -> Answer {
        let Some(key) = request.key().filter(|_| request.writes()) else {
            return match request.key() {
                Some(key) if self.is_written(key) => self.overlay.send(request).await,
                _ => self.send_dry(request).await,
            };
        };
        let now = self.now(key);
        let allowed = self.check(request).await;
        let held = self.tried.brakes.is_some() && matches!(allowed, Err(Failure::Held(_)));
        let answer = match allowed {
            Ok(()) => self.try_write(request, key).await,
            Err(failure) => Answer::Failed(failure),
        };
        let answer = match answer {
            Answer::Failed(failure) if self.secrets.lock().has(&key.kind) => {
                Answer::Failed(withheld(self.tried.cache, failure, request))
            }
            answer => answer,
        };
        let refusal = match &answer {
            Answer::Failed(_) if held => {
                Some("the agent would hold this deletion until it is approved".to_owned())
            }
            Answer::Failed(failure) => Some(failure.to_string()),
            _ => None,
        };
        let now = now.as_deref();
        let change = change(request, now);
        let secrets = self.secrets.lock();
        let made = |change| made_by(request, change, now, &answer, &secrets);
        let due = DueWrite {
            verb: request.verb(),
            object: key.clone(),
            differences: change
                .as_ref()
                .filter(|_| self.tried.compares)
                .and_then(made),
            change: change.map(|change| secrets.redacted(&key.kind, change)),
            refusal,
            held,
        };
        drop(secrets);
        let mut state = self.state.lock();
        if due.refusal.is_none() {
            state.written.insert(key.clone());
        }
        state.due.push(due);
        answer
    }
}

/// The change that a write makes, as a merge patch or, of a creation, as the object.
fn change(request: &Request, now: Option<&Object>) -> Option<Value> {
    let mut change = match request {
        Request::Create { object, .. } => object.as_value().clone(),
        Request::Patch { patch, .. } => patch.clone(),
        Request::Replace { object, .. } | Request::ReplaceStatus { object, .. } => {
            let before = now.map(|now| now.root().clone()).unwrap_or_default();
            let is_status = matches!(request, Request::ReplaceStatus { .. });
            let part = |root: &Map<String, Value>| {
                let mut part = root.clone();
                part.retain(|field, _| !is_status || field == "status");
                part
            };
            merge_patch::diff(&part(&before), &part(object.root())).into()
        }
        Request::Read { .. } | Request::Find { .. } | Request::Delete { .. } => return None,
    };
    if let Some(change) = change.as_object_mut()
        && let Some(Value::Object(metadata)) = change.get_mut("metadata")
    {
        metadata.retain(|field, _| field != "uid" && field != "resourceVersion");
        if metadata.is_empty() {
            change.remove("metadata");
        }
    }
    Some(change)
}
