//! The model of the server that keeps Leases, and the way of a process to it.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use http::Method;
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::sync::oneshot;

use crate::cluster::connection::{Call, CallError, Reply};
use crate::process::lease::LeaseServer;
use crate::process::shards::view::LABEL;

/// A call that a process has sent, and the place for its answer.
pub(super) type SentCall = (Call, oneshot::Sender<Result<Reply, CallError>>);

/// The server of Leases as one process sees it.
#[derive(Clone, Default)]
pub(super) struct Wire(pub(super) Arc<Mutex<Vec<SentCall>>>);

impl LeaseServer for Wire {
    async fn call(&self, call: Call) -> Result<Reply, CallError> {
        let (answer, answered) = oneshot::channel();
        self.0.lock().push((call, answer));
        let gone = |_| {
            Err(CallError::Unreachable(
                "the connection was closed".to_owned(),
            ))
        };
        answered.await.unwrap_or_else(gone)
    }
}

/// All Leases, by name.
#[derive(Default)]
pub(super) struct Leases {
    all: BTreeMap<String, Value>,
    version: u64,
}

impl Leases {
    /// The process that a Lease names.
    pub(super) fn holder(&self, name: &str) -> Option<&str> {
        let holder = self.all.get(name)?["spec"]["holderIdentity"].as_str();
        holder.filter(|holder| !holder.is_empty())
    }

    pub(super) fn names(&self) -> impl Iterator<Item = &String> {
        self.all.keys()
    }

    /// Somebody deletes a Lease.
    pub(super) fn delete(&mut self, name: &str) {
        self.all.remove(name);
    }

    pub(super) fn serve(&mut self, call: &Call) -> Reply {
        let path = call.path.split('?').next().unwrap_or_default();
        let Some((_, name)) = path.split_once("/leases") else {
            // An event about the election.
            return reply(201, &json!({}));
        };
        let name = name.trim_start_matches('/');
        let body: Value = serde_json::from_slice(&call.body).unwrap_or_default();
        match call.method {
            Method::GET if name.is_empty() => {
                let is_listed = |lease: &&Value| !lease["metadata"]["labels"][LABEL].is_null();
                let all: Vec<_> = self.all.values().filter(is_listed).collect();
                reply(200, &json!({"items": all}))
            }
            Method::GET => match self.all.get(name) {
                Some(lease) => reply(200, lease),
                None => refusal(404, "NotFound"),
            },
            Method::POST => {
                let name = body["metadata"]["name"].as_str().unwrap_or_default();
                if self.all.contains_key(name) {
                    return refusal(409, "AlreadyExists");
                }
                let mut lease = body.clone();
                lease["metadata"]["uid"] = format!("l{}", self.version).into();
                self.store(name, lease)
            }
            Method::PUT => match self.all.get(name) {
                None => refusal(404, "NotFound"),
                Some(known) if !is_same(known, &body["metadata"]) => refusal(409, "Conflict"),
                Some(_) => self.store(name, body),
            },
            Method::DELETE => match self.all.get(name) {
                None => refusal(404, "NotFound"),
                Some(known) if !is_same(known, &body["preconditions"]) => refusal(409, "Conflict"),
                Some(_) => {
                    self.all.remove(name);
                    reply(200, &json!({"kind": "Status", "status": "Success"}))
                }
            },
            _ => refusal(405, "MethodNotAllowed"),
        }
    }

    fn store(&mut self, name: &str, mut lease: Value) -> Reply {
        self.version += 1;
        lease["metadata"]["resourceVersion"] = self.version.to_string().into();
        let stored = reply(200, &lease);
        self.all.insert(name.to_owned(), lease);
        stored
    }
}

/// Whether a Lease has the uid and the version that are stated, if any.
fn is_same(known: &Value, stated: &Value) -> bool {
    let fits = |field: &str| stated[field].is_null() || stated[field] == known["metadata"][field];
    fits("uid") && fits("resourceVersion")
}

fn reply(status: u16, body: &Value) -> Reply {
    let text = serde_json::to_vec(body).expect("a JSON value has no keys but strings");
    Reply {
        status,
        body: Bytes::from(text),
        retry_after: None,
        date: None,
    }
}

fn refusal(code: u16, reason: &str) -> Reply {
    let status = json!({
        "kind": "Status", "status": "Failure", "code": code, "reason": reason, "message": reason,
    });
    reply(code, &status)
}
