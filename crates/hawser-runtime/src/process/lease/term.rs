//! Acquiring and renewing a Lease: the requests, and their results.

use std::sync::Arc;

use jiff::Timestamp;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep_until, timeout, timeout_at};
use tokio_util::sync::CancellationToken;

use super::fence::Fence;
use super::options::{LeaseOptions, Marks};
use super::record::{Candidate, Record, Step};
use super::server::LeaseServer;
use crate::cluster::connection::{Call, CallClass, Reply};

/// A candidate with its access to the Lease.
pub(super) struct Term<S> {
    server: S,
    options: Arc<LeaseOptions>,
    candidate: Candidate,
    marks: Marks,
    /// The Lease as this process last wrote it.
    held: Option<Value>,
}

/// The result of trying to acquire the Lease.
#[derive(Debug)]
pub(super) enum AcquireResult {
    /// This process holds it since it sent the request.
    Held { sent: Instant },
    /// Another process holds it.
    Theirs { holder: String },
    /// The result is unknown.
    Failed { problem: String },
}

/// The reason for the end of a term.
#[derive(Debug)]
pub(super) enum End {
    /// The process was asked to end.
    Stopped,
    /// Another process holds the Lease.
    Taken { holder: String },
    /// The Lease could not be renewed in time.
    Expired,
}

// === impl Term ===

impl<S: LeaseServer> Term<S> {
    pub(super) fn new(server: S, options: Arc<LeaseOptions>) -> Self {
        Self {
            server,
            candidate: Candidate::new(options.identity.clone(), options.terms.duration),
            marks: options.marks.clone(),
            options,
            held: None,
        }
    }

    /// Writes an annotation with the Lease from now on.
    pub(super) fn annotate(&mut self, name: &'static str, text: &str) {
        self.marks.annotations.insert(name, text.to_owned());
    }

    /// Tries once to acquire the Lease, for at most half the renew deadline.
    pub(super) async fn ask(&mut self) -> AcquireResult {
        let limit = self.options.terms.renew_deadline / 2;
        let asked = match timeout(limit, self.write_or_look()).await {
            Ok(asked) => asked,
            Err(_) => AcquireResult::Failed {
                problem: format!("no answer within {limit:?}"),
            },
        };
        if !matches!(asked, AcquireResult::Held { .. }) {
            // Whatever was written last, it has to be looked at before it is written again.
            self.held = None;
        }
        asked
    }

    /// Takes a Lease that the caller has seen to be free; `None` if it has changed since. Takes at most half the renew
    /// deadline.
    pub(super) async fn take(&mut self, seen: Option<Value>) -> Result<Option<Instant>, String> {
        let record = seen.as_ref().map(|lease| self.options.lock.read(lease));
        let record = self.candidate.taken(record.as_ref(), &clock());
        let limit = self.options.terms.renew_deadline / 2;
        let taking = async {
            match seen {
                Some(lease) => self.write(lease, &record).await,
                None => self.create(&record).await,
            }
        };
        let taken = timeout(limit, taking).await;
        match taken.map_err(|_| format!("no answer within {limit:?}"))?? {
            Some(AcquireResult::Held { sent }) => Ok(Some(sent)),
            Some(AcquireResult::Theirs { .. } | AcquireResult::Failed { .. }) | None => Ok(None),
        }
    }

    /// Deletes the Lease that this process wrote last.
    pub(super) async fn delete(&self) -> Result<(), String> {
        let uid = self.held.as_ref().map(|lease| &lease["metadata"]["uid"]);
        let options = json!({"preconditions": {"uid": uid}});
        let reply = self.call(Call::delete(self.path(), &options)).await?;
        match reply.status {
            404 | 409 => Ok(()),
            _ => reply.ok().map(drop).map_err(|refusal| refusal.to_string()),
        }
    }

    /// Renews the Lease, held since `sent`, until that fails.
    pub(super) async fn keep(
        &mut self,
        mut sent: Instant,
        fence: &Fence,
        stop: &CancellationToken,
    ) -> End {
        let terms = self.options.terms;
        let mut next = sent + terms.retry;
        loop {
            let deadline = sent + terms.renew_deadline;
            tokio::select! {
                biased;
                () = stop.cancelled() => return End::Stopped,
                () = sleep_until(next.min(deadline)) => {}
            }
            if Instant::now() >= deadline {
                // This process stood still.
                return End::Expired;
            }
            // A request that is given up in the middle may still be carried out: whoever releases looks again.
            let asked = tokio::select! {
                biased;
                () = stop.cancelled() => return End::Stopped,
                asked = timeout_at(deadline, self.ask()) => asked,
            };
            let Ok(asked) = asked else {
                return End::Expired;
            };
            match asked {
                AcquireResult::Held { sent: renewed } => {
                    sent = renewed;
                    fence.extend(terms.safe_until(sent));
                }
                AcquireResult::Theirs { holder } => return End::Taken { holder },
                AcquireResult::Failed { problem } => {
                    tracing::warn!(
                        lease = self.options.name,
                        problem,
                        "the lease could not be renewed"
                    );
                }
            }
            if Instant::now() >= sent + terms.renew_deadline {
                return End::Expired;
            }
            next = Instant::now() + terms.retry;
        }
    }

    /// Releases the Lease if this process still holds it, within a short time.
    pub(super) async fn give_up_in_time(&mut self) -> Result<(), String> {
        let limit = self.options.terms.renew_deadline / 5;
        let given_up = timeout(limit, self.give_up()).await;
        given_up.unwrap_or_else(|_| Err(format!("no answer within {limit:?}")))
    }

    async fn give_up(&mut self) -> Result<(), String> {
        // Where a Lease was changed by somebody else it is looked at once more.
        for _ in 0..2 {
            let Some(mut lease) = self.look().await? else {
                return Ok(());
            };
            let record = self.options.lock.read(&lease);
            if record.holder != self.options.identity {
                return Ok(());
            }
            let given_up = Candidate::given_up(&record, &clock());
            self.options.lock.write(&given_up, &mut lease);
            let reply = self.call(Call::put(self.path(), &lease)).await?;
            match reply.status {
                409 => {}
                _ if reply.is_success() => return Ok(()),
                _ => return Err(reply.refusal().to_string()),
            }
        }
        Err("another process changed it during each attempt".to_owned())
    }

    async fn write_or_look(&mut self) -> AcquireResult {
        if let Some(held) = self.held.take() {
            let record = self.options.lock.read(&held);
            let step = self.candidate.look(Some(record), Instant::now(), &clock());
            if let Step::Write(record) = step {
                match self.write(held, &record).await {
                    // Changed or gone: look.
                    Ok(None) => {}
                    Ok(Some(asked)) => return asked,
                    Err(problem) => return AcquireResult::Failed { problem },
                }
            }
        }
        self.look_and_write()
            .await
            .unwrap_or_else(|problem| AcquireResult::Failed { problem })
    }

    async fn look_and_write(&mut self) -> Result<AcquireResult, String> {
        let lease = self.look().await?;
        let record = lease.as_ref().map(|lease| self.options.lock.read(lease));
        match (self.candidate.look(record, Instant::now(), &clock()), lease) {
            (Step::Wait { holder }, _) => Ok(AcquireResult::Theirs { holder }),
            (Step::Write(record), Some(lease)) => {
                let written = self.write(lease, &record).await?;
                written.ok_or_else(|| "another process wrote it at the same time".to_owned())
            }
            (Step::Write(record), None) => {
                let created = self.create(&record).await?;
                created.ok_or_else(|| "another process created it at the same time".to_owned())
            }
        }
    }

    /// The current Lease.
    async fn look(&self) -> Result<Option<Value>, String> {
        let reply = self.call(Call::get(self.path())).await?;
        match reply.status {
            404 => Ok(None),
            _ => reply.ok().map(Some).map_err(|refusal| refusal.to_string()),
        }
    }

    /// Writes a Lease that has not changed since it was read; `None` if it has.
    async fn write(
        &mut self,
        mut lease: Value,
        record: &Record,
    ) -> Result<Option<AcquireResult>, String> {
        self.options.lock.write(record, &mut lease);
        self.marks.write(&mut lease);
        let sent = Instant::now();
        let reply = self.call(Call::put(self.path(), &lease)).await?;
        match reply.status {
            404 | 409 => Ok(None),
            _ => self.written(&reply, sent).map(Some),
        }
    }

    /// Creates the Lease; `None` if there is one.
    async fn create(&mut self, record: &Record) -> Result<Option<AcquireResult>, String> {
        let LeaseOptions {
            lock,
            namespace,
            name,
            ..
        } = &*self.options;
        let mut lease = json!({
            "apiVersion": lock.api_version(),
            "kind": lock.kind(),
            "metadata": {"namespace": namespace, "name": name},
        });
        self.options.lock.write(record, &mut lease);
        self.marks.write(&mut lease);
        let sent = Instant::now();
        let reply = self.call(Call::post(lock.all(namespace), &lease)).await?;
        match reply.status {
            409 => Ok(None),
            _ => self.written(&reply, sent).map(Some),
        }
    }

    fn written(&mut self, reply: &Reply, sent: Instant) -> Result<AcquireResult, String> {
        self.held = Some(reply.ok().map_err(|refusal| refusal.to_string())?);
        Ok(AcquireResult::Held { sent })
    }

    async fn call(&self, call: Call) -> Result<Reply, String> {
        let answered = self.server.call(call.class(CallClass::Lease)).await;
        answered.map_err(|error| error.to_string())
    }

    fn path(&self) -> String {
        let LeaseOptions {
            lock,
            namespace,
            name,
            ..
        } = &*self.options;
        format!("{}/{name}", lock.all(namespace))
    }
}

/// Publishes an event on the Lease, within a short time.
pub(super) async fn announce(server: &impl LeaseServer, options: &LeaseOptions, what: &str) {
    let LeaseOptions {
        lock,
        namespace,
        name,
        identity,
        terms,
        ..
    } = options;
    let now = Timestamp::now();
    let seconds = format!("{now:.0}");
    let event = json!({
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {
            "namespace": namespace,
            "name": format!("{name}.{:x}", now.as_nanosecond()),
        },
        "involvedObject": {
            "apiVersion": lock.api_version(),
            "kind": lock.kind(),
            "namespace": namespace,
            "name": name,
        },
        "type": "Normal",
        "reason": "LeaderElection",
        "message": format!("{identity} {what}"),
        "source": {"component": identity},
        "firstTimestamp": seconds,
        "lastTimestamp": seconds,
        "count": 1,
    });
    let path = format!("/api/v1/namespaces/{namespace}/events");
    // Also told by who may no longer write.
    let call = Call::post(path, &event).class(CallClass::Lease);
    let sent = timeout(terms.renew_deadline / 10, server.call(call)).await;
    match sent {
        Ok(Ok(reply)) if reply.is_success() => {}
        Ok(Ok(reply)) => {
            let refusal = reply.refusal();
            tracing::debug!(%refusal, "cannot send the event about the new leader");
        }
        Ok(Err(error)) => tracing::debug!(%error, "cannot send the event about the new leader"),
        Err(_) => tracing::debug!("cannot send the event about the new leader in time"),
    }
}

/// The time in the format of Leases.
fn clock() -> String {
    format!("{:.6}", now())
}

#[cfg(not(test))]
fn now() -> Timestamp {
    Timestamp::now()
}

#[cfg(test)]
fn now() -> Timestamp {
    crate::simulation::wall_clock().unwrap_or_else(Timestamp::now)
}
