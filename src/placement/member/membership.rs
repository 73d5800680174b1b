//! `InternalMemberCluster`: joining, heartbeats, leaving.

use std::hash::{BuildHasher as _, RandomState};
use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use tokio::time::{Instant, timeout, timeout_at};
use tracing::{info, warn};

use hawser_placement::names::WORK_FINALIZER;
use hawser_placement::types::cluster::{
    AgentStatus, AgentType, InternalMemberCluster, MemberClusterStatus, MemberState,
};
use hawser_placement::types::{Condition, ConditionStatus, condition};
use hawser_runtime::cluster::events::{EventText, InvolvedObject, Note};
use hawser_sync::{Answer, Failure, Request, Seen, Store as _};
use kube_lang::object::Object;

use super::applier::{Applier, Phase};
use super::{properties, sides};

/// The seconds between heartbeats if the hub does not set them.
const PERIOD: i32 = 60;
const JOINED: &str = "InternalMemberClusterJoined";
const LEFT: &str = "InternalMemberClusterLeft";
/// The reasons of events about a hub that refuses to note that the member has joined or left.
const FAILED_TO_JOIN: &str = "InternalMemberClusterFailedToJoin";
const FAILED_TO_LEAVE: &str = "InternalMemberClusterFailedToLeave";
/// The reason of a member whose API server does not answer.
const UNHEALTHY: &str = "InternalMemberClusterUnhealthy";
/// The time that a heartbeat waits for the properties of the member.
const COLLECTING: Duration = Duration::from_secs(10);
/// The delay after which a failed heartbeat is repeated.
const RETRY: Duration = Duration::from_secs(1);

/// Joins, sends heartbeats and leaves.
pub struct Membership {
    applier: Arc<Applier>,
    random: RandomState,
    /// Why the properties of the member cannot be read.
    unread: LoggedProblem,
}

/// A problem that is logged once, until it changes or ends.
#[derive(Default)]
struct LoggedProblem(Option<String>);

impl LoggedProblem {
    /// Whether to log what there is now.
    fn is_news(&mut self, now: Option<String>) -> bool {
        let is_news = now.is_some() && now != self.0;
        self.0 = now;
        is_news
    }
}

impl Membership {
    pub fn new(applier: &Arc<Applier>) -> Self {
        Self {
            applier: Arc::clone(applier),
            random: RandomState::new(),
            unread: LoggedProblem::default(),
        }
    }

    /// Follows the hub until dropped.
    pub async fn run(mut self) {
        let mut heard: Option<(i64, MemberState)> = None;
        let mut next = Instant::now();
        loop {
            let wait = match self.read() {
                None => {
                    self.applier.enter(Phase::Idle);
                    heard = None;
                    None
                }
                Some((object, internal)) => {
                    let state = internal.spec.state;
                    let now = (internal.metadata.generation, state);
                    if heard.is_none_or(|(_, before)| before != state) {
                        info!(?state, "the hub set the state of this member");
                    }
                    let is_news = heard.replace(now) != Some(now);
                    match state {
                        MemberState::Join => {
                            self.applier.enter(Phase::Joined);
                            if is_news || next <= Instant::now() {
                                next =
                                    Instant::now() + self.send_heartbeat(&object, internal).await;
                            }
                            Some(next)
                        }
                        MemberState::Leave => {
                            self.applier.enter(Phase::Leaving);
                            let is_done =
                                self.is_released() && self.report_left(&object, internal).await;
                            (!is_done).then(|| Instant::now() + RETRY)
                        }
                    }
                }
            };
            let changed = self.applier.events.membership.notified();
            match wait {
                // Whichever comes first.
                Some(until) => drop(timeout_at(until, changed).await),
                None => changed.await,
            }
        }
    }

    fn read(&self) -> Option<(Arc<Object>, InternalMemberCluster)> {
        let Seen::Present(object) = self.applier.cache.get(&self.applier.sides.internal()) else {
            return None;
        };
        match serde_json::from_value(object.as_value().clone()) {
            Ok(internal) => Some((object, internal)),
            Err(error) => {
                warn!(%error, "the InternalMemberCluster cannot be read");
                None
            }
        }
    }

    /// Writes a heartbeat; returns the time until the next one.
    async fn send_heartbeat(
        &mut self,
        object: &Object,
        mut internal: InternalMemberCluster,
    ) -> Duration {
        let now = sides::now();
        let is_healthy = self.applier.sides.is_ready().await;
        if is_healthy {
            let access = &self.applier.sides.access;
            let reports = self.applier.rules.reports_namespaces;
            let refresh = properties::refresh(access, reports, &mut internal, &now);
            let problem = match timeout(COLLECTING, refresh).await {
                Ok(Ok(())) => None,
                Ok(Err(error)) => Some(error.to_string()),
                Err(_) => Some(format!("no answer within {COLLECTING:?}")),
            };
            if self.unread.is_news(problem.clone()) {
                let member = &*self.applier.sides.name;
                warn!(
                    member,
                    problem, "the properties of the member cannot be read"
                );
            }
        }
        let mut status = internal.status;
        let generation = internal.metadata.generation;
        let health = if is_healthy {
            (
                ConditionStatus::True,
                "InternalMemberClusterHealthy",
                "the API server is ready",
            )
        } else {
            (
                ConditionStatus::False,
                UNHEALTHY,
                "the API server is not ready",
            )
        };
        let joined = (ConditionStatus::True, JOINED, "the member has joined");
        let said = [("Joined", joined), ("Healthy", health)];
        let news = set_agent(&mut status, &said, generation, &now);
        let is_new = news.iter().any(|(_, reason, _)| *reason == JOINED);
        let failing = is_new.then_some(FAILED_TO_JOIN);
        if !self.write(object, &status, failing).await {
            return RETRY;
        }
        self.record(object, &news);
        let period = internal.spec.heartbeat_period_seconds.unwrap_or(PERIOD);
        let period = Duration::from_secs(u64::try_from(period).unwrap_or(1).max(1));
        // A twentieth either way: members do not beat in step.
        let spread = u32::try_from(self.random.hash_one(&now) % 101).unwrap_or_default();
        period * (950 + spread) / 1000
    }

    /// Whether no Work waits for this agent any more.
    fn is_released(&self) -> bool {
        let is_held = |name: &Arc<str>| {
            let work = self.applier.cache.get(&self.applier.sides.work(name));
            matches!(work, Seen::Present(work) if work.has_finalizer(WORK_FINALIZER))
        };
        self.applier.is_listed() && !self.applier.names().iter().any(is_held)
    }

    /// Says that the member has left. True once the hub knows it.
    async fn report_left(&self, object: &Object, internal: InternalMemberCluster) -> bool {
        let mut status = internal.status;
        let generation = internal.metadata.generation;
        let agent = status.member_agent();
        let joined = agent.and_then(|agent| condition(&agent.conditions, "Joined"));
        if joined.is_some_and(|joined| {
            joined.status == ConditionStatus::False && joined.is_fresh(generation)
        }) {
            return true;
        }
        let left = (ConditionStatus::False, LEFT, "the member has left");
        let news = set_agent(&mut status, &[("Joined", left)], generation, &sides::now());
        let is_written = self.write(object, &status, Some(FAILED_TO_LEAVE)).await;
        if is_written {
            self.record(object, &news);
            info!("the member has left; the placed objects stay");
        }
        is_written
    }

    /// Events about what has changed.
    fn record(&self, object: &Object, news: &[ConditionContent]) {
        let applier = &self.applier;
        for (truth, reason, message) in news {
            let is_problem = *reason != LEFT && *truth == ConditionStatus::False;
            let note = Note {
                trouble: None,
                connection: applier.sides.hub.clone(),
                tenant: applier.sides.name.as_str().into(),
                about: InvolvedObject {
                    key: applier.sides.internal(),
                    uid: object.uid().map(Arc::from),
                },
                text: EventText {
                    component: "internalmembercluster-controller".into(),
                    kind: if is_problem { "Warning" } else { "Normal" },
                    reason: (*reason).into(),
                    message: (*message).to_owned(),
                },
            };
            applier.recorder.record(note);
        }
    }

    /// Writes the status. If the hub refuses it, there is an event with the reason `failing`.
    async fn write(
        &self,
        object: &Object,
        status: &MemberClusterStatus,
        failing: Option<&'static str>,
    ) -> bool {
        let applier = &self.applier;
        let key = applier.sides.internal();
        let mut next = object.clone();
        next.root_mut().insert("status".into(), json!(status));
        let request = Request::ReplaceStatus {
            key: key.clone(),
            object: next,
        };
        let sent = applier
            .client
            .send(&*applier.sides, None, &|| Ok(()), &request);
        match sent.await {
            Ok((Answer::Failed(Failure::Conflict), _)) => {
                // The answer enters the table; the next attempt starts from it.
                let read = Request::Read { key };
                let _ = applier
                    .client
                    .send(&*applier.sides, None, &|| Ok(()), &read)
                    .await;
                false
            }
            Ok((Answer::Failed(failure), _)) => {
                warn!(%failure, "the heartbeat cannot be written");
                let message = "the hub refuses the status of the member";
                let news = failing.map(|reason| (ConditionStatus::False, reason, message));
                self.record(object, news.as_slice());
                false
            }
            Ok(_) => true,
            Err(_) => false,
        }
    }
}

/// The content of a condition: status, reason, message.
type ConditionContent = (ConditionStatus, &'static str, &'static str);

/// Writes the state of this agent, beside those of others. Returns the changes.
fn set_agent(
    status: &mut MemberClusterStatus,
    said: &[(&str, ConditionContent)],
    generation: i64,
    now: &str,
) -> Vec<ConditionContent> {
    let mut news = Vec::new();
    let is_ours = |agent: &AgentStatus| agent.type_ == AgentType::MemberAgent;
    if !status.agent_status.iter().any(is_ours) {
        status.agent_status.push(AgentStatus::default());
    }
    for agent in status
        .agent_status
        .iter_mut()
        .filter(|agent| is_ours(agent))
    {
        for (type_, (truth, reason, message)) in said {
            let same = condition(&agent.conditions, type_).filter(|old| old.status == *truth);
            if same.is_none() {
                news.push((*truth, *reason, *message));
            }
            let since = same.map_or(now, |old| &old.last_transition_time).to_owned();
            agent.conditions.retain(|old| old.type_ != *type_);
            agent.conditions.push(Condition {
                type_: (*type_).to_owned(),
                status: *truth,
                observed_generation: generation,
                last_transition_time: since,
                reason: (*reason).to_owned(),
                message: (*message).to_owned(),
            });
        }
        agent.last_received_heartbeat = Some(now.to_owned());
    }
    news
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_problem_is_logged_once_until_it_changes_or_ends() {
        let mut logged = LoggedProblem::default();
        let problems = [None, Some("a"), Some("a"), Some("b"), None, Some("b")];
        let news = problems.map(|problem| logged.is_news(problem.map(str::to_owned)));
        assert_eq!(news, [false, true, false, true, false, true]);
    }

    #[test]
    fn other_agents_keep_their_state_and_a_condition_its_time() {
        let mut status = MemberClusterStatus::default();
        status.agent_status.push(AgentStatus {
            type_: AgentType::MultiClusterServiceAgent,
            ..AgentStatus::default()
        });
        let other = status.agent_status[0].clone();
        let joined = [(
            "Joined",
            (ConditionStatus::True, "InternalMemberClusterJoined", ""),
        )];
        assert_eq!(set_agent(&mut status, &joined, 1, "t1"), [joined[0].1]);
        assert_eq!(set_agent(&mut status, &joined, 2, "t2"), []);
        assert_eq!(status.agent_status[0], other);
        let agent = status.member_agent().unwrap();
        assert_eq!(agent.last_received_heartbeat.as_deref(), Some("t2"));
        assert_eq!(agent.conditions.len(), 1);
        assert_eq!(agent.conditions[0].last_transition_time, "t1");
        assert_eq!(agent.conditions[0].observed_generation, 2);
    }
}
