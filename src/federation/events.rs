//! Events on federated objects and members. They are sent aside, in order; one that was sent before is counted up.
//! Whatever goes wrong drops them.

use std::collections::HashMap;

use serde_json::{Value, json};
use tokio::sync::mpsc;
use tracing::debug;
use uuid::Uuid;

use hawser_federation::events::Severity;
use hawser_runtime::cluster::connection::{Call, CallClass, Connection};
use hawser_runtime::cluster::wire::collection;
use kube_lang::object::{Gvk, Object};

use super::host::now;

/// Events that wait to be sent; more are dropped.
const WAITING: usize = 4096;
/// Events that are counted up rather than sent anew.
const REMEMBERED: usize = 4096;
/// Events on cluster-scoped objects are in this namespace.
const CLUSTER_WIDE: &str = "default";

/// What is to be told of an object.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct EventNote {
    /// The object.
    api_version: String,
    kind: String,
    namespace: Option<String>,
    name: String,
    uid: String,
    severity: &'static str,
    reason: String,
    message: String,
}

/// Takes events. Clones are handles to one line.
#[derive(Clone, Debug)]
pub struct EventRecorder(mpsc::Sender<EventNote>);

/// Sends what the recorder takes.
pub struct EventSender {
    notes: mpsc::Receiver<EventNote>,
    host: Connection,
    sent: HashMap<EventNote, Sent>,
}

/// An event that was sent.
#[derive(Clone, Debug)]
struct Sent {
    name: String,
    count: u64,
}

pub fn line(host: &Connection) -> (EventRecorder, EventSender) {
    let (sender, notes) = mpsc::channel(WAITING);
    let sender_of = EventSender {
        notes,
        host: host.clone(),
        sent: HashMap::new(),
    };
    (EventRecorder(sender), sender_of)
}

impl EventRecorder {
    pub fn record(&self, about: &Object, severity: Severity, reason: &str, message: &str) {
        let note = EventNote {
            api_version: about.api_version().to_owned(),
            kind: about.kind().to_owned(),
            namespace: about.namespace().map(str::to_owned),
            name: about.name().to_owned(),
            uid: about.uid().unwrap_or_default().to_owned(),
            severity: match severity {
                Severity::Normal => "Normal",
                Severity::Warning => "Warning",
            },
            reason: reason.to_owned(),
            message: message.to_owned(),
        };
        // Nobody waits for an event.
        let _ = self.0.try_send(note);
    }
}

impl EventSender {
    /// Sends until nobody is left to tell anything.
    pub async fn run(mut self) {
        while let Some(note) = self.notes.recv().await {
            if self.sent.len() >= REMEMBERED {
                self.sent.clear();
            }
            let before = self.sent.get(&note).cloned();
            let repeated = match before {
                Some(sent) => self.repeat(&note, sent).await,
                None => false,
            };
            if !repeated {
                self.send(note).await;
            }
        }
    }

    async fn send(&mut self, note: EventNote) {
        let name = format!("{}.{}", note.name, Uuid::new_v4().simple());
        let call = Call::post(path(&note), &object(&note, &name)).class(CallClass::Event);
        match self.host.ask(call).await {
            Ok(_) => {
                self.sent.insert(note, Sent { name, count: 1 });
            }
            Err(error) => debug!(reason = note.reason, %error, "an event was not sent"),
        }
    }

    /// Counts an event up; false where it is not there any more.
    async fn repeat(&mut self, note: &EventNote, sent: Sent) -> bool {
        let count = sent.count + 1;
        let patch = json!({"count": count, "lastTimestamp": now()});
        let one = format!("{}/{}", path(note), sent.name);
        let call = Call::merge_patch(one, &patch).class(CallClass::Event);
        match self.host.ask(call).await {
            Ok(_) => {
                self.sent.insert(note.clone(), Sent { count, ..sent });
                true
            }
            Err(error) => error.code() != Some(404),
        }
    }
}

fn namespace(note: &EventNote) -> &str {
    note.namespace.as_deref().unwrap_or(CLUSTER_WIDE)
}

fn path(note: &EventNote) -> String {
    collection(
        &Gvk::new("", "v1", "Event"),
        Some(namespace(note)),
        "events",
    )
}

fn object(note: &EventNote, name: &str) -> Value {
    let component = format!("{}-controller", note.kind.to_lowercase());
    let mut involved = json!({
        "apiVersion": note.api_version, "kind": note.kind, "name": note.name, "uid": note.uid,
    });
    if let Some(namespace) = &note.namespace {
        involved["namespace"] = namespace.as_str().into();
    }
    json!({
        "apiVersion": "v1", "kind": "Event",
        "metadata": {"name": name, "namespace": namespace(note)},
        "involvedObject": involved,
        "reason": note.reason, "message": note.message, "type": note.severity,
        "source": {"component": component}, "reportingComponent": component, "reportingInstance": "",
        "firstTimestamp": now(), "lastTimestamp": now(), "count": 1,
    })
}
