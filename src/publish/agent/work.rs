//! The tasks of a running agent: passes over objects, and what the leader does beside them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use jiff::Timestamp;
use tokio::sync::{Notify, mpsc, watch};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;

use super::conditions::Conditions;
use super::dispatch::Dispatch;
use super::dispatch::WORKERS;
use super::export::{ExportChannels, Exporter};
use super::numbers::AgentMetrics;
use super::observing::watch_numbers;
use super::planning::Planner;
use super::process::Agent;
use super::publishing::Publishing;
use super::review::{self, Reviewers};
use super::sweep::Sweep;
use hawser_runtime::cluster::events;
use hawser_runtime::cluster::wire::GuardedClient;
use hawser_runtime::controller::{Controller as PassController, SharedWatch, lifecycle};
use hawser_runtime::process::shards::{MOST, ShardChange};

/// A running agent.
pub(super) struct Work {
    publishing: Arc<Publishing>,
    dispatch: Arc<Dispatch>,
    metrics: Arc<AgentMetrics>,
    /// A reason to clean up.
    complete: Arc<Notify>,
    stopped: CancellationToken,
    drained: JoinSet<()>,
    aside: Vec<AbortOnDropHandle<()>>,
    _numbers: AbortOnDropHandle<()>,
    _watches: Vec<Arc<SharedWatch>>,
    _control: AbortOnDropHandle<()>,
}

/// What the leader does beside passes, before it is started.
pub(super) struct LeaderWork {
    exporter: Option<(Exporter, ExportChannels)>,
    planner: Planner,
    conditions: Arc<Conditions>,
    reviewers: Reviewers,
}

impl Agent {
    /// Starts passes.
    pub(super) fn work(self, mut drained: JoinSet<()>) -> (Work, LeaderWork) {
        let client = GuardedClient::new(&self.cache);
        let (recorder, sender) = events::line(Timestamp::now);
        let sweep = Sweep {
            agent: self.options.agent_name.clone(),
            sides: self.sides.clone(),
            cache: Arc::clone(&self.cache),
            client: Arc::clone(&client),
            dispatch: Arc::clone(&self.dispatch),
            publishing: Arc::clone(&self.publishing),
            router: Arc::clone(&self.router),
            workspaces: Arc::clone(&self.workspaces),
            metrics: Arc::clone(&self.metrics),
            owners: self.owners.clone(),
            reason: Arc::clone(&self.complete),
            forbidden: AtomicBool::new(false),
        };
        let passes = self.passes(&recorder);
        let channels = self.exporter.as_ref().map(|(_, channels)| channels);
        let leader = LeaderWork {
            planner: Planner {
                publishing: Arc::clone(&self.publishing),
                passes: Arc::clone(&passes),
                router: Arc::clone(&self.router),
                export: channels.map(|channels| channels.export.clone()),
            },
            exporter: self.exporter,
            conditions: self.conditions,
            reviewers: self.reviewers,
        };
        let controller = PassController::new(
            &passes,
            &self.dispatch.subjects,
            &client,
            self.router,
            &self.brakes,
            &Arc::default(),
        );
        let metrics = Arc::clone(&self.metrics);
        let numbers = watch_numbers(Arc::clone(&self.publishing), metrics, recorder);
        drained.spawn(controller.run(WORKERS));
        let aside = [tokio::spawn(sender.run()), tokio::spawn(sweep.run())];
        let work = Work {
            publishing: self.publishing,
            dispatch: self.dispatch,
            metrics: self.metrics,
            complete: self.complete,
            stopped: self.stopped,
            drained,
            aside: aside.map(AbortOnDropHandle::new).into(),
            _numbers: numbers,
            _watches: self.watches,
            _control: self.control,
        };
        (work, leader)
    }
}

impl LeaderWork {
    pub(super) fn start(self, work: &mut Work) {
        if let Some((exporter, channels)) = self.exporter {
            work.drained.spawn(exporter.run(channels));
        }
        let (publishing, stopped) = (&work.publishing, work.stopped.clone());
        let conditions = self.conditions;
        let aside = [
            tokio::spawn(self.planner.run()),
            tokio::spawn(async move { conditions.run(stopped).await }),
            tokio::spawn(Arc::clone(publishing).watch_export_status()),
            tokio::spawn(review::keep(Arc::clone(publishing), self.reviewers)),
        ];
        work.aside.extend(aside.map(AbortOnDropHandle::new));
    }
}

impl Work {
    /// Queues the objects of shards that are opened, and drops those of shards that are closed.
    pub(super) fn follow(&mut self, mut changes: mpsc::UnboundedReceiver<ShardChange>) {
        self.metrics.shards_held(0);
        let (dispatch, publishing) = (Arc::clone(&self.dispatch), Arc::clone(&self.publishing));
        let (metrics, complete) = (Arc::clone(&self.metrics), Arc::clone(&self.complete));
        let following = async move {
            let mut heard = Vec::new();
            while changes.recv_many(&mut heard, MOST).await > 0 {
                // Shards that are opened together need one look at all objects.
                let mut opened = BTreeSet::new();
                for change in heard.drain(..) {
                    match change {
                        ShardChange::Opened(shard) => {
                            publishing.resume_holds(shard);
                            opened.insert(shard);
                        }
                        ShardChange::Closed(shard) => {
                            opened.remove(&shard);
                            dispatch.closed(shard);
                            publishing.leave_holds(shard);
                        }
                    }
                }
                if !opened.is_empty() {
                    dispatch.opened(&opened);
                    complete.notify_one();
                }
                metrics.shards_held(dispatch.share.held().len());
            }
        };
        let following = tokio::spawn(following);
        self.aside.push(AbortOnDropHandle::new(following));
    }

    /// Tells other replicas of held deletions, and hears of theirs.
    pub(super) fn share_holds(
        &mut self,
        told: watch::Sender<String>,
        heard: watch::Receiver<BTreeMap<String, String>>,
    ) {
        let sharing = Arc::clone(&self.publishing).exchange_holds(told, heard);
        self.aside
            .push(AbortOnDropHandle::new(tokio::spawn(sharing)));
    }

    /// Starts nothing more, and finishes running work within the time limit.
    pub(super) async fn end(mut self) {
        self.publishing.queue.close();
        self.dispatch.subjects.queue.close();
        self.stopped.cancel();
        lifecycle::drain(async { while self.drained.join_next().await.is_some() {} }).await;
    }
}
