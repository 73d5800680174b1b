//! The client of a pass that changes nothing, and what it would have written.

use std::collections::BTreeSet;

use parking_lot::Mutex;
use serde_json::{Map, Value};

use super::{DueWrite, Explainer, REDACTED};
use crate::publish::agent::passes::ObjectPass;
use crate::publish::rehearsal::Rehearsal;
use crate::publish::rules::SECRET;
use hawser_runtime::cluster::wire::dry_run;
use hawser_runtime::controller::{PassDialect as _, Withheld};
use hawser_sync::{Answer, Cluster, Failure, Key, Request};
use kube_lang::object::{Object, merge_patch};

/// The client of a pass that sends writes as dry runs only.
pub(super) struct DryRunClient<'a> {
    explainer: &'a Explainer,
    pass: &'a ObjectPass,
    /// The objects that were written, as the servers would store them.
    overlay: Rehearsal,
    state: Mutex<DryRunState>,
}

#[derive(Default)]
struct DryRunState {
    written: BTreeSet<Key>,
    due: Vec<DueWrite>,
}

impl<'a> DryRunClient<'a> {
    pub(super) fn new(explainer: &'a Explainer, pass: &'a ObjectPass) -> Self {
        Self {
            explainer,
            pass,
            overlay: Rehearsal::default(),
            state: Mutex::default(),
        }
    }

    /// The writes that are due.
    pub(super) fn into_due(self) -> Vec<DueWrite> {
        self.state.into_inner().due
    }

    fn is_written(&self, key: &Key) -> bool {
        self.state.lock().written.contains(key)
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
        let answer = dry_run(&*self.explainer.agent.router, request).await;
        match answer {
            Answer::Object(object) => {
                self.overlay.put(key, &object);
                let stored = self.overlay.object(key);
                Answer::Object(stored.unwrap_or(object))
            }
            answer => answer,
        }
    }
}

impl Cluster for DryRunClient<'_> {
    async fn send(&self, request: &Request) -> Answer {
        let Some(key) = request.key().filter(|_| request.writes()) else {
            return match request.key() {
                Some(key) if self.is_written(key) => self.overlay.send(request).await,
                _ => dry_run(&*self.explainer.agent.router, request).await,
            };
        };
        let answer = match self.pass.allows(request).await {
            // Writes that a pause holds are shown.
            Ok(())
            | Err(Withheld {
                failure: Failure::Paused(_),
                ..
            }) => self.try_write(request, key).await,
            Err(Withheld { failure, .. }) => Answer::Failed(failure),
        };
        let refusal = match &answer {
            Answer::Failed(failure) => Some(failure.to_string()),
            _ => None,
        };
        let live = self.explainer.present(key);
        let due = DueWrite {
            verb: request.verb(),
            object: key.clone(),
            change: change(request, live.as_deref()),
            refusal,
        };
        let mut state = self.state.lock();
        if due.refusal.is_none() {
            state.written.insert(key.clone());
        }
        state.due.push(due);
        answer
    }
}

/// The change that a write makes, without the data of Secrets.
fn change(request: &Request, live: Option<&Object>) -> Option<Value> {
    let mut change = match request {
        Request::Create { object, .. } => object.as_value().clone(),
        Request::Patch { patch, .. } => patch.clone(),
        Request::Replace { object, .. } | Request::ReplaceStatus { object, .. } => {
            let before = live.map(|live| live.root().clone()).unwrap_or_default();
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
    let is_secret = request.key().is_some_and(|key| key.kind == *SECRET);
    for field in ["data", "stringData"] {
        if let Some(Value::Object(data)) = change.get_mut(field).filter(|_| is_secret) {
            data.values_mut().for_each(|value| *value = REDACTED.into());
        }
    }
    Some(change)
}
