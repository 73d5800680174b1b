//! One task for each export: it keeps the agent's schemas and claims in it.
//!
//! The first write waits a moment until every published resource has its schema or has failed, so that workspaces see
//! all of it at once. Later writes wait until changes stop. A published resource without a schema is left out and does
//! not delay others.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt as _;
use futures::stream::FuturesUnordered;
use serde_json::Value;
use tokio::sync::watch;
use tokio::time::{Instant, sleep, sleep_until, timeout};
use tokio_util::sync::CancellationToken;

use super::switch::Wanted;
use crate::publish::claims::Needs;
use crate::publish::export::{ExportProblem, ExportedResource};
use hawser_runtime::cluster::connection::Connection;

mod writer;

use writer::{Outcome, Writer};

/// A selected published resource, as the export needs it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    pub name: String,
    pub uid: Arc<str>,
    /// Its schema; an earlier one while the new one is pending or has failed.
    pub schema: Option<String>,
    pub progress: Progress,
    pub needs: Arc<Needs>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    Pending,
    Failed,
    Settled,
}

/// All selected published resources. `None` until they have been listed.
pub type Members = Option<Arc<[Member]>>;

/// The content of the watch of the export.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum WatchedExport {
    /// The watch has not listed yet, or there is none: the export is read.
    #[default]
    Unknown,
    Absent,
    Present(Arc<Value>),
}

/// The state of the export and its problems.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ExportStatus {
    pub state: ExportState,
    /// The schemas that are in it.
    pub listed: Arc<BTreeSet<String>>,
    pub problems: Arc<[ExportProblem]>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum ExportState {
    /// Not known yet.
    #[default]
    Pending,
    InStep,
    /// There is no export of this name; the agent waits for it.
    Missing,
    /// It could not be read or written, with the message; retried.
    Failed(String),
}

impl ExportStatus {
    /// The problems that keep a published resource from being exported as requested.
    pub fn against(&self, schema: &str, needs: &Needs, export: &str) -> Vec<String> {
        let mut against = Vec::new();
        match &self.state {
            ExportState::InStep => {}
            ExportState::Pending => {
                against.push("the APIExport has not been written yet".to_owned());
            }
            ExportState::Missing => against.push(missing(export)),
            ExportState::Failed(why) => against.push(why.clone()),
        }
        let published = ExportedResource { schema, needs };
        let problems = self.problems.iter().filter(|p| p.concerns(published));
        against.extend(problems.map(ToString::to_string));
        if against.is_empty() && !self.listed.contains(schema) {
            against.push(format!(
                "the schema {schema} is not in the APIExport {export} yet"
            ));
        }
        against
    }
}

fn missing(export: &str) -> String {
    format!("the APIExport {export} does not exist in kcp: create it; the agent waits for it")
}

/// The delays of the export.
#[derive(Clone, Copy, Debug)]
pub struct Pace {
    /// The delay of the first write, for published resources that are still pending.
    pub first: Duration,
    /// The delay of later writes, for more changes.
    pub quiet: Duration,
    /// The delay of later writes, for published resources that are still pending.
    pub rest: Duration,
    /// Until a missing export is read again, if no watch reports it.
    pub missing: Duration,
    /// The first pause after a failure, and after another writer reverted a write; doubled each time.
    pub pause: Duration,
}

impl Default for Pace {
    fn default() -> Self {
        Self {
            first: Duration::from_secs(3),
            quiet: Duration::from_millis(100),
            rest: Duration::from_secs(1),
            missing: Duration::from_secs(5),
            pause: Duration::from_millis(500),
        }
    }
}

/// The export, and the agent that writes it.
pub struct Exporter {
    /// The workspace of the export.
    pub workspace: Connection,
    pub export: String,
    pub agent: String,
    pub pace: Pace,
    /// Asked right before each write, for each published resource with a schema.
    pub wanted: Wanted<Member>,
    /// Called with the number of selected published resources, whenever it changes.
    pub count: Box<dyn Fn(usize) + Send + Sync>,
}

/// The inputs and outputs of the task. It ends when it is stopped, or when all senders are gone.
pub struct ExportChannels {
    pub members: watch::Receiver<Members>,
    pub export: watch::Receiver<WatchedExport>,
    pub standing: watch::Sender<ExportStatus>,
    pub stop: CancellationToken,
}

impl Exporter {
    pub async fn run(self, channels: ExportChannels) {
        let stop = channels.stop.clone();
        tokio::select! {
            () = stop.cancelled() => {}
            () = self.keep(channels) => {}
        }
    }

    async fn keep(self, mut channels: ExportChannels) {
        if self.gather(&mut channels.members).await.is_err() {
            return;
        }
        let mut writer = Writer::new(&self);
        let mut notices = FuturesUnordered::new();
        loop {
            let members = channels
                .members
                .borrow_and_update()
                .clone()
                .unwrap_or_default();
            (self.count)(members.len());
            let seen = channels.export.borrow_and_update().clone();
            let (outcome, standing) = writer.write(&members, seen).await;
            channels.standing.send_if_modified(|told| {
                let differs = *told != standing;
                *told = standing;
                differs
            });
            notices.extend(writer.take_notices());
            let again = outcome.again().map(|pause| Instant::now() + pause);
            let later = async {
                match again {
                    Some(at) => sleep_until(at).await,
                    None => std::future::pending().await,
                }
            };
            tokio::pin!(later);
            loop {
                tokio::select! {
                    changed = channels.members.changed() => if changed.is_err() { return },
                    changed = channels.export.changed() => if changed.is_err() { return },
                    () = &mut later => break,
                    Some(()) = notices.next() => continue,
                }
                if !matches!(outcome, Outcome::Undone(_)) {
                    sleep(self.pace.quiet).await;
                    if self
                        .settle(&mut channels.members, self.pace.rest)
                        .await
                        .is_err()
                    {
                        return;
                    }
                    break;
                }
                // A write that another writer reverted is not repeated sooner because it is reverted once more.
                let members = channels.members.borrow().clone().unwrap_or_default();
                if writer.is_news(&members) {
                    break;
                }
            }
        }
    }

    /// Waits until all published resources are known.
    async fn gather(
        &self,
        members: &mut watch::Receiver<Members>,
    ) -> Result<(), watch::error::RecvError> {
        members.wait_for(Option::is_some).await?;
        self.settle(members, self.pace.first).await
    }

    /// Waits until none is pending any more, but no longer than this.
    async fn settle(
        &self,
        members: &mut watch::Receiver<Members>,
        most: Duration,
    ) -> Result<(), watch::error::RecvError> {
        let settled = |members: &Members| {
            let pending = |member: &Member| member.progress == Progress::Pending;
            members.as_ref().is_some_and(|all| !all.iter().any(pending))
        };
        match timeout(most, members.wait_for(settled)).await {
            Ok(Err(closed)) => Err(closed),
            Ok(Ok(_)) | Err(_) => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests;
