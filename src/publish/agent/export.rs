//! One task for each export: it keeps the agent's schemas and claims in it.
//!
//! The first write waits a moment until every published resource has its schema or has failed, so that workspaces see
//! all of it at once. Later writes wait until changes stop. A published resource without a schema is left out and does
//! not delay others.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::switch::Wanted;
use crate::publish::claims::Needs;
use crate::publish::export::{ExportProblem, ExportedResource};
use hawser_runtime::cluster::connection::Connection;

mod writer;

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

#[cfg(test)]
mod tests;
