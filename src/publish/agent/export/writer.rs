//! Reads and writes an export: its known state, failures, and retries.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use futures::stream::FuturesUnordered;
use futures::{FutureExt as _, StreamExt as _};
use serde_json::Value;
use tokio::sync::watch;
use tokio::time::{Instant, sleep, sleep_until, timeout};

use super::{
    ExportChannels, ExportState, ExportStatus, Exporter, Member, Members, Progress, WatchedExport,
};
use crate::publish::agent::notices::{self, Notice};
use crate::publish::claims::{self, ClaimProblem, Needs};
use crate::publish::export::{ExportedResource, Merge, merge};
use hawser_runtime::cluster::connection::{Call, CallError, Guard, Refusal, RequestError};

pub(super) const EXPORTS: &str = "/apis/apis.kcp.io/v1alpha1/apiexports";
/// The source of events on the export, as in api-syncagent.
const COMPONENT: &str = "syncagent-apiexport";
/// The number of attempts after conflicts before it counts as a failure.
const ATTEMPTS: usize = 5;
const LONGEST_PAUSE: Duration = Duration::from_mins(1);
/// After this time without a write, reverting counts from the beginning.
const RESET_REVERTS_AFTER: Duration = Duration::from_mins(5);

/// The end of an attempt.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Outcome {
    InStep,
    /// There is no export; it is read again after this time, unless the watch reports it.
    Missing(Option<Duration>),
    /// Another writer reverted the write: it is repeated after this time.
    Undone(Duration),
    Failed(Duration),
}

impl Outcome {
    /// The time of the next attempt, if nothing changes.
    pub(super) fn again(&self) -> Option<Duration> {
        match self {
            Self::InStep => None,
            Self::Missing(pause) => *pause,
            Self::Undone(pause) | Self::Failed(pause) => Some(*pause),
        }
    }
}

pub(super) struct Writer<'e> {
    exporter: &'e Exporter,
    /// The newest state from a response.
    held: Option<Arc<Value>>,
    written: Option<Written>,
    failures: u32,
    notices: Vec<BoxFuture<'static, ()>>,
}

/// The inputs of an export.
type Content = Vec<(Option<String>, Arc<Needs>)>;

/// The last write.
struct Written {
    content: Content,
    at: Instant,
    undone: u32,
}

/// The reason why nothing can be written.
enum ExportBlocker {
    Missing,
    Ask(&'static str, RequestError),
    Words(String),
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

impl<'e> Writer<'e> {
    pub(super) fn new(exporter: &'e Exporter) -> Self {
        Self {
            exporter,
            held: None,
            written: None,
            failures: 0,
            notices: Vec::new(),
        }
    }

    /// Brings the export up to date with the published resources.
    pub(super) async fn write(
        &mut self,
        members: &[Member],
        seen: WatchedExport,
    ) -> (Outcome, ExportStatus) {
        let is_told = matches!(seen, WatchedExport::Absent);
        match self.attempt(members, seen).await {
            Ok((outcome, standing)) => {
                self.failures = 0;
                (outcome, standing)
            }
            Err(ExportBlocker::Missing) => {
                self.held = None;
                self.failures = 0;
                // A server that is starting also answers 404, while the watch still shows the export.
                let pause = (!is_told).then_some(self.exporter.pace.missing);
                let standing = ExportStatus {
                    state: ExportState::Missing,
                    ..ExportStatus::default()
                };
                (Outcome::Missing(pause), standing)
            }
            Err(obstacle) => self.failed(&obstacle),
        }
    }

    /// Whether this differs from the last write.
    pub(super) fn is_news(&self, members: &[Member]) -> bool {
        let content = content(members);
        self.written
            .as_ref()
            .is_none_or(|written| written.content != content)
    }

    pub(super) fn take_notices(&mut self) -> Vec<BoxFuture<'static, ()>> {
        std::mem::take(&mut self.notices)
    }

    async fn attempt(
        &mut self,
        members: &[Member],
        seen: WatchedExport,
    ) -> Result<(Outcome, ExportStatus), ExportBlocker> {
        let published: Vec<ExportedResource<'_>> = members
            .iter()
            .filter_map(|member| {
                let schema = member.schema.as_deref()?;
                Some(ExportedResource {
                    schema,
                    needs: &member.needs,
                })
            })
            .collect();
        let mut export = self.newest(seen).await?;
        // A published resource with claims that kcp refuses must not keep the others out.
        let mut refused = Vec::new();
        for _ in 0..ATTEMPTS {
            let merged = merge(&export, &self.exporter.agent, &published, &refused)
                .map_err(|error| ExportBlocker::Words(error.to_string()))?;
            let written = if refused.is_empty() {
                Outcome::InStep
            } else {
                Outcome::Failed(LONGEST_PAUSE)
            };
            let Some(object) = &merged.object else {
                return Ok((written, standing(&export, &merged)));
            };
            if let Some(pause) = self.pause_if_undone(members) {
                return Ok((Outcome::Undone(pause), standing(&export, &merged)));
            }
            let call = Call::put(self.path(), object);
            let still = self.still_wanted(members);
            match self.exporter.workspace.guarded_by(still).ask(call).await {
                Ok(answer) => {
                    let answer = Arc::new(answer);
                    self.held = Some(Arc::clone(&answer));
                    self.wrote(members, &answer, &merged);
                    return Ok((written, standing(&answer, &merged)));
                }
                Err(RequestError::Refused(refusal)) if is_about_content(&refusal) => {
                    let more = not_taken(&merged, object, &refusal.message);
                    if more.is_empty() {
                        return Err(ExportBlocker::Ask("update", RequestError::Refused(refusal)));
                    }
                    refused.extend(more);
                }
                Err(error) if error.code() == Some(409) => export = self.read().await?,
                Err(error) if error.code() == Some(404) => return Err(ExportBlocker::Missing),
                Err(error) => {
                    // It is unknown whether the write took effect.
                    self.held = None;
                    return Err(ExportBlocker::Ask("update", error));
                }
            }
        }
        Err(ExportBlocker::Words(format!(
            "the APIExport {} changes faster than it can be written",
            self.exporter.export
        )))
    }

    /// Refuses a write once a published resource is not wanted whose schema is in it.
    fn still_wanted(&self, members: &[Member]) -> Arc<Guard<'static>> {
        let wanted = Arc::clone(&self.exporter.wanted);
        let members = members.iter().filter(|member| member.schema.is_some());
        let members: Vec<Member> = members.cloned().collect();
        Arc::new(move || members.iter().try_for_each(|member| wanted(member)))
    }

    fn path(&self) -> String {
        format!("{EXPORTS}/{}", self.exporter.export)
    }

    /// The newest known state; read if there is none.
    async fn newest(&mut self, seen: WatchedExport) -> Result<Arc<Value>, ExportBlocker> {
        let seen = match seen {
            WatchedExport::Absent => return Err(ExportBlocker::Missing),
            WatchedExport::Unknown => None,
            WatchedExport::Present(seen) => Some(seen),
        };
        match (&self.held, seen) {
            (Some(held), Some(seen)) if is_newer(held, &seen) => Ok(Arc::clone(held)),
            (_, Some(seen)) => Ok(seen),
            (Some(held), None) => Ok(Arc::clone(held)),
            (None, None) => self.read().await,
        }
    }

    async fn read(&mut self) -> Result<Arc<Value>, ExportBlocker> {
        match self.exporter.workspace.ask(Call::get(self.path())).await {
            Ok(export) => {
                let export = Arc::new(export);
                self.held = Some(Arc::clone(&export));
                Ok(export)
            }
            Err(error) if error.code() == Some(404) => Err(ExportBlocker::Missing),
            Err(error) => Err(ExportBlocker::Ask("get", error)),
        }
    }

    /// The wait before the same write is repeated, so that two conflicting writers do not alternate without a pause.
    fn pause_if_undone(&mut self, members: &[Member]) -> Option<Duration> {
        let pause = self.exporter.pace.pause;
        if self.is_news(members) {
            return None;
        }
        let written = self.written.as_mut()?;
        if written.at.elapsed() > RESET_REVERTS_AFTER {
            written.undone = 0;
        }
        // The first repetition is sent at once.
        let doublings = written.undone.checked_sub(1)?;
        let pause = doubled(pause, doublings);
        let left = (written.at + pause).saturating_duration_since(Instant::now());
        (!left.is_zero()).then_some(left)
    }

    fn wrote(&mut self, members: &[Member], answer: &Arc<Value>, merged: &Merge) {
        let again = !self.is_news(members);
        let undone = self.written.as_ref().map_or(0, |written| written.undone);
        self.written = Some(Written {
            content: content(members),
            at: Instant::now(),
            undone: if again { undone.saturating_add(1) } else { 0 },
        });
        tracing::info!(
            export = self.exporter.export,
            schemas = ?merged.added_schemas,
            replaced = ?merged.replaced_schemas,
            claims = ?merged.added_claims.iter().map(ToString::to_string).collect::<Vec<_>>(),
            "export written"
        );
        for (kind, reason, message) in merged.notices() {
            let workspace = self.exporter.workspace.clone();
            let about = Arc::clone(answer);
            let sent = async move {
                let notice = Notice {
                    about: &about,
                    component: COMPONENT,
                    kind,
                    reason,
                    message: &message,
                };
                notices::send(&workspace, notice).await;
            };
            self.notices.push(sent.boxed());
        }
    }

    fn failed(&mut self, obstacle: &ExportBlocker) -> (Outcome, ExportStatus) {
        let why = in_words(obstacle, &self.exporter.export);
        let mut pause = doubled(self.exporter.pace.pause, self.failures);
        self.failures = self.failures.saturating_add(1);
        if let ExportBlocker::Ask(_, RequestError::Call(CallError::Held(held))) = obstacle {
            pause = pause.max(*held);
        }
        tracing::warn!(export = self.exporter.export, why, "export not written");
        let standing = ExportStatus {
            state: ExportState::Failed(why),
            ..ExportStatus::default()
        };
        (Outcome::Failed(pause), standing)
    }
}

fn content(members: &[Member]) -> Content {
    let one = |member: &Member| (member.schema.clone(), Arc::clone(&member.needs));
    members.iter().map(one).collect()
}

fn doubled(pause: Duration, times: u32) -> Duration {
    pause
        .saturating_mul(2_u32.saturating_pow(times))
        .min(LONGEST_PAUSE)
}

fn is_newer(held: &Value, seen: &Value) -> bool {
    let version = |export: &Value| -> Option<u64> {
        export["metadata"]["resourceVersion"].as_str()?.parse().ok()
    };
    held["metadata"]["uid"] == seen["metadata"]["uid"] && version(held) > version(seen)
}

fn standing(export: &Value, merged: &Merge) -> ExportStatus {
    let listed = export["spec"]["latestResourceSchemas"].as_array();
    let names = listed.into_iter().flatten().filter_map(Value::as_str);
    ExportStatus {
        state: ExportState::InStep,
        listed: Arc::new(names.map(str::to_owned).collect::<BTreeSet<_>>()),
        problems: merged.problems.clone().into(),
    }
}

/// Whether a refusal concerns the content of the export, not its writer. kcp returns Forbidden for some of the former,
/// too, and names the field.
fn is_about_content(refusal: &Refusal) -> bool {
    refusal.code == 422 || refusal.code == 403 && refusal.message.contains(": spec.")
}

/// The claims for which an export was refused.
fn not_taken(merged: &Merge, object: &Value, words: &str) -> Vec<ClaimProblem> {
    let list = object["spec"]["permissionClaims"].as_array();
    let list = list.map(Vec::as_slice).unwrap_or_default();
    let claims = claims::refused(&merged.added_claims, list, words).into_iter();
    let problem = |claim| ClaimProblem::NotTaken {
        claim,
        why: words.to_owned(),
    };
    claims.map(problem).collect()
}

fn in_words(obstacle: &ExportBlocker, export: &str) -> String {
    match obstacle {
        ExportBlocker::Missing => super::missing(export),
        ExportBlocker::Words(words) => words.clone(),
        ExportBlocker::Ask(verb, RequestError::Refused(refusal)) if is_about_content(refusal) => {
            format!(
                "kcp refused to {verb} the APIExport {export}: {}",
                refusal.message
            )
        }
        ExportBlocker::Ask(verb, RequestError::Refused(refusal)) if refusal.code == 403 => format!(
            "the agent may not {verb} the APIExport {export} in kcp: grant it this right ({})",
            refusal.message
        ),
        ExportBlocker::Ask(verb, error) => format!("{verb} the APIExport {export}: {error}"),
    }
}
