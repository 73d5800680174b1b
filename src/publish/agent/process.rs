//! The process of the agent, from start to end.

use std::collections::{BTreeMap, HashSet};
use std::io;
use std::num::NonZeroUsize;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use parking_lot::Mutex;
use serde_json::Value;
use tokio::sync::{Notify, mpsc, watch};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;
use tracing::info;

use super::approvals;
use super::binding_reader::BindingReader;
use super::conditions::{ConditionSource, Conditions, QuietPeriod};
use super::control::{ControlLoop, control_kinds, export_kind, named, slice_kind};
use super::dispatch::Dispatch;
use super::events::Announcer;
use super::export::{self, ExportChannels, ExportStatus, Exporter, Member, Members};
use super::feeds::{SERVICE, crd_kind, local_feed, published_resource_kind};
use super::holds::OtherHolds;
use super::numbers::AgentMetrics;
use super::options::{AgentOptions, Controller, LeaderElection};
use super::overview::AgentOverview;
use super::passes::Passes;
use super::publishing::Publishing;
use super::review::Reviewers;
use super::router::{PublishRouter, ResourceNames};
use super::schemas::{CrdPrint, SchemaMode, Schemas};
use super::share::Share;
use super::startup::{Located, StartError, locate};
use super::switch::Switch;
use super::workspaces::Workspaces;
use crate::publish::rules::Sides;
use hawser_runtime::cluster::cache::{Cache, Coverage};
use hawser_runtime::cluster::config::{ConfigError, Environment, RequiredUrl, Source, Watched};
use hawser_runtime::cluster::connection::{ConnectError, Connection, Limits, WriteGuard, host};
use hawser_runtime::cluster::discovery::Discovery;
use hawser_runtime::cluster::events::Recorder;
use hawser_runtime::cluster::feed::{Content, Pace, Selection};
use hawser_runtime::cluster::queue::Queue;
use hawser_runtime::controller::{BrakeRegistry, SharedWatch, WatchRegistry, WatchSpec, lifecycle};
use hawser_runtime::overview::site::{OverviewSite, bind_page};
use hawser_runtime::process::dedicated_thread::DedicatedThread;
use hawser_runtime::process::lease::{self, Fence, Leadership, LeaseOptions, Marks, Terms, elect};
use hawser_runtime::process::metrics::Metrics;
use hawser_runtime::process::serve::{self, Health, MetricsPage, Pages, ServeError};
use hawser_runtime::process::shards::{self, ShardChange, ShardKeeper, ShardOptions, Shards};
use hawser_sync::{Scope, Seen, Store as _};
use kube_lang::object::Gvk;

/// The errors that end an agent.
#[derive(Debug, thiserror::Error)]
pub enum AgentError {
    #[error(transparent)]
    Config(#[from] ConfigError),
    #[error(transparent)]
    Connect(#[from] ConnectError),
    #[error(transparent)]
    Start(#[from] StartError),
    #[error(transparent)]
    Serve(#[from] ServeError),
    #[error("cannot start a thread")]
    DedicatedThread(#[source] io::Error),
    #[error("lost the leadership: another agent of this name may lead now")]
    LeadershipLost,
    #[error("the task that takes and releases shards has ended")]
    ShardsEnded,
}

/// The server of kcp's kubeconfig is a workspace.
const WORKSPACE: RequiredUrl = RequiredUrl {
    part: "/clusters/",
    complaint: "which is not a kcp workspace: the URL of its current context needs /clusters/<workspace>",
};

/// The conditions of readiness.
const GATES: [&str; 2] = ["kcp", "caches"];

/// Runs until stopped, or until the agent cannot go on.
pub async fn run(options: AgentOptions, stop: CancellationToken) -> Result<(), AgentError> {
    let options = Arc::new(options);
    let metrics = AgentMetrics::new();
    metrics.published(0);
    let health = Arc::new(Health::missing(GATES));
    let dedicated = DedicatedThread::start("apart").map_err(AgentError::DedicatedThread)?;
    let overview = AgentOverview::new(&options, &metrics.metrics);
    let _pages = pages(&options, &metrics, &health, &overview, &stop, &dedicated).await?;
    let _beats = lifecycle::beat(&health, || {});
    let fence = match options.leader_election {
        LeaderElection::Off => Fence::always_open(),
        LeaderElection::On => Fence::closed(),
    };
    let (share, shards) = share(&options);
    let guard = share.guard(&fence);
    let planes = Connections::connect(&options, &metrics.metrics, &guard, &dedicated)?;
    let located = tokio::select! {
        () = stop.cancelled() => return Ok(()),
        located = locate(&planes.kcp, &options.slice) => located?,
    };
    health.found("kcp");
    let agent = Agent::assemble(options, &planes, located, &metrics, share);
    overview.begin(&agent.publishing);
    let context = ProcessContext {
        identity: lease::identity(),
        fence,
        health,
        dedicated,
        stop,
    };
    match shards {
        None => agent.run(context).await,
        Some(shards) => agent.run_shared(context, shards).await,
    }
}

/// The shards of this replica, and their changes.
type ChangingShards = (Arc<Shards>, mpsc::UnboundedReceiver<ShardChange>);

/// The workspaces of this replica, and its shards if there are any.
fn share(options: &AgentOptions) -> (Share, Option<ChangingShards>) {
    if options.shards == NonZeroUsize::MIN {
        return (Share::All, None);
    }
    let (shards, changes) = Shards::new(options.shards.get());
    let share = Share::Shards(Arc::clone(&shards));
    (share, Some((shards, changes)))
}

/// The process that runs the agent.
struct ProcessContext {
    identity: String,
    /// Open while this process leads.
    fence: Fence,
    health: Arc<Health>,
    dedicated: DedicatedThread,
    stop: CancellationToken,
}

async fn pages(
    options: &AgentOptions,
    metrics: &Arc<AgentMetrics>,
    health: &Arc<Health>,
    overview: &Arc<AgentOverview>,
    stop: &CancellationToken,
    dedicated: &DedicatedThread,
) -> Result<Vec<AbortOnDropHandle<()>>, ServeError> {
    let mut served = Vec::new();
    let metrics = Arc::clone(metrics);
    let wanted = [
        (
            "--metrics-address",
            &options.metrics_address,
            Pages::Site(Arc::new(MetricsPage(move || metrics.render()))),
        ),
        (
            "--health-address",
            &options.health_address,
            Pages::Probes(Arc::clone(health)),
        ),
    ];
    for (flag, address, pages) in wanted {
        if let Some(address) = address.clone() {
            // Probes and metrics are served on a separate thread, so that they are answered even if the process is
            // busy.
            let bound = dedicated.run(async move { serve::bind(flag, &address).await });
            served.push(dedicated.spawn(bound.await?.serve(pages, stop.clone())));
        }
    }
    if let Some(address) = options.page_address.clone()
        && let Some(bound) = dedicated
            .run(async move { bind_page(&address).await })
            .await?
    {
        let pages = Pages::Private(Arc::new(OverviewSite::new(overview)));
        served.push(dedicated.spawn(bound.serve(pages, stop.clone())));
    }
    Ok(served)
}

/// The connections to both control planes; their credentials are read again when the files change.
pub struct Connections {
    pub kcp: Connection,
    pub service: Connection,
    /// To the service cluster, with sockets that serve the lease only.
    lease: Connection,
    _followed: [AbortOnDropHandle<()>; 2],
}

impl Connections {
    /// Those of a command beside the agent, which starts a thread of its own for them.
    pub fn of_command(
        options: &AgentOptions,
        metrics: &Arc<Metrics>,
        fence: &Fence,
    ) -> Result<Self, AgentError> {
        let dedicated = DedicatedThread::start("apart").map_err(AgentError::DedicatedThread)?;
        Self::connect(options, metrics, &fence.guard(), &dedicated)
    }

    fn connect(
        options: &AgentOptions,
        metrics: &Arc<Metrics>,
        guard: &Arc<WriteGuard>,
        dedicated: &DedicatedThread,
    ) -> Result<Self, AgentError> {
        let service = Source::find(&options.service_cluster, &Environment::of_process())?;
        let connect = |source, side, in_flight| -> Result<_, AgentError> {
            let (watched, config) = Watched::start(source)?;
            let observer = metrics.requests(side, host(&config.cluster_url));
            let limits = Limits {
                in_flight,
                observer: Some(Arc::new(observer)),
                guard: Some(Arc::clone(guard)),
                traces: options.trace_context,
                ..Limits::default()
            };
            Ok((Connection::new(config, limits)?, watched))
        };
        let in_flight = options.in_flight;
        let (service, watched) = connect(service, "service", in_flight.service.get())?;
        // The lease's client runs its background tasks on the thread that creates it.
        let lease = dedicated.within(|| service.another())?;
        let renewed = (service.clone(), lease.clone(), dedicated.clone());
        let first = watched.follow(move |config| {
            let (service, lease, dedicated) = &renewed;
            dedicated.within(|| lease.renew(config.clone()))?;
            service.renew(config)
        });
        let kcp = Source::file(&options.kcp_kubeconfig, WORKSPACE);
        let (kcp, watched) = connect(kcp, "kcp", in_flight.kcp.get())?;
        let second = lifecycle::renew(watched, &kcp);
        Ok(Self {
            kcp,
            service,
            lease,
            _followed: [AbortOnDropHandle::new(tokio::spawn(first)), second],
        })
    }
}

/// Every part of the agent, before it starts.
pub(super) struct Agent {
    pub(super) options: Arc<AgentOptions>,
    lease: Connection,
    pub(super) sides: Sides,
    pub(super) reviewers: Reviewers,
    pub(super) cache: Arc<Cache>,
    pub(super) dispatch: Arc<Dispatch>,
    pub(super) router: Arc<PublishRouter>,
    pub(super) workspaces: Arc<Workspaces>,
    pub(super) publishing: Arc<Publishing>,
    pub(super) exporter: Option<(Exporter, ExportChannels)>,
    pub(super) conditions: Arc<Conditions>,
    pub(super) brakes: Arc<BrakeRegistry>,
    pub(super) owners: watch::Sender<()>,
    pub(super) complete: Arc<Notify>,
    pub(super) metrics: Arc<AgentMetrics>,
    /// Kinds whose first list has been handled.
    listed: watch::Receiver<HashSet<Arc<Gvk>>>,
    /// Watches of control kinds, and the task that handles their events.
    pub(super) watches: Vec<Arc<SharedWatch>>,
    pub(super) control: AbortOnDropHandle<()>,
    pub(super) stopped: CancellationToken,
}

impl ProcessContext {
    /// Waits until the process is stopped, or the leadership is lost.
    async fn ended(&self, lost: &CancellationToken) -> Result<(), AgentError> {
        tokio::select! {
            () = self.stop.cancelled() => {
                info!("stopping: finishing active requests first");
                Ok(())
            }
            () = lost.cancelled() => Err(AgentError::LeadershipLost),
        }
    }
}

impl Agent {
    pub(super) fn assemble(
        options: Arc<AgentOptions>,
        planes: &Connections,
        located: Located,
        metrics: &Arc<AgentMetrics>,
        share: Share,
    ) -> Self {
        let sides = Sides::default();
        let cache = match options.workspace_cache {
            Some(most) => Cache::limited(&sides.kcp, most),
            None => Cache::new(),
        };
        cache.route(&sides.service, "", &SERVICE.into());
        let names = ResourceNames::new(&sides);
        let control = control_kinds();
        let (dispatch, events) =
            Dispatch::new(&sides, &cache, &names, control, &options.namespace, share);
        let watches = WatchRegistry::new(&cache, pace(), Arc::clone(&dispatch) as _);
        let slices = &located.slice_workspace.connection;
        let workspaces = Arc::new(Workspaces::new(&sides, &cache, &watches, slices.clone()));
        let router = Arc::new(PublishRouter {
            names: Arc::clone(&names),
            service: planes.service.clone(),
            workspaces: Arc::clone(&workspaces),
        });
        let export_workspace = located.export_workspace.connection.clone();
        let reviewers = Reviewers {
            service: planes.service.clone(),
            provider: export_workspace.clone(),
            slices: slices.clone(),
        };
        let all = |kind, resource, content| {
            let coverage = Coverage::default();
            let wanted = local_feed(&planes.service, &sides.service, &kind, resource, coverage);
            let selection = Selection {
                content,
                ..wanted.selection
            };
            watches.watch(WatchSpec {
                selection,
                ..wanted
            })
        };
        let published = all(
            published_resource_kind(),
            "publishedresources",
            Content::Whole,
        );
        let definitions = all(crd_kind(), "customresourcedefinitions", Content::Metadata);
        let switch = Arc::new(Switch {
            cache: Arc::clone(&cache),
            published: published.table().scope(""),
            options: Arc::clone(&options),
        });
        let conditions = Arc::new(Conditions::new(
            planes.service.clone(),
            Arc::new(ConditionTables::new(&switch, &definitions)),
            QuietPeriod::default(),
        ));
        let owners = watch::Sender::new(());
        let told = owners.clone();
        let brake = approvals::options(options.deletion_brake);
        let brakes = BrakeRegistry::new(brake, move |_| {
            told.send_replace(());
        });
        let (members, heard_members) = watch::channel(Members::None);
        let (standing, heard_standing) = watch::channel(ExportStatus::default());
        let publishing = Arc::new(Publishing {
            options: Arc::clone(&options),
            sides: sides.clone(),
            service: planes.service.clone(),
            cache: Arc::clone(&cache),
            watches: Arc::clone(&watches),
            dispatch: Arc::clone(&dispatch),
            workspaces: Arc::clone(&workspaces),
            names,
            schemas: Schemas::new(
                planes.service.clone(),
                export_workspace.clone(),
                Arc::new(Discovery::new(planes.service.clone())),
                options.agent_name.clone(),
                // Set to `Writes` when this agent starts working.
                SchemaMode::Reads,
                switch.wanted(Switch::check_unchanged),
            ),
            switch: Arc::clone(&switch),
            conditions: Arc::clone(&conditions),
            brakes: Arc::clone(&brakes),
            others: OtherHolds::default(),
            owners: owners.clone(),
            metrics: Arc::clone(&metrics.metrics),
            export: located.export.clone(),
            standing: heard_standing,
            members,
            queue: Queue::with_share(usize::MAX),
            published: Arc::clone(&published),
            definitions: Arc::clone(&definitions),
            known: Mutex::default(),
            planned: OnceLock::new(),
            leading: AtomicBool::new(false),
        });
        let kcp = &sides.kcp;
        let slice = named(
            kcp,
            slice_kind(),
            "apiexportendpointslices",
            slices,
            &located.slice,
        );
        let export = named(
            kcp,
            export_kind(),
            "apiexports",
            &export_workspace,
            &located.export,
        );
        let watched = vec![
            published,
            definitions,
            watches.watch(slice),
            watches.watch(export),
        ];
        let (export_seen, seen) = watch::channel(export::WatchedExport::Unknown);
        let (listed, heard_of_lists) = watch::channel(HashSet::new());
        let (stopped, complete) = (CancellationToken::new(), Arc::new(Notify::new()));
        let counted = Arc::clone(metrics);
        let exporter = Exporter {
            workspace: export_workspace,
            export: located.export.clone(),
            agent: options.agent_name.clone(),
            pace: export::Pace::default(),
            wanted: switch
                .wanted(|switch, member: &Member| switch.check_written(&member.name, &member.uid)),
            count: Box::new(move |count| counted.published(count)),
        };
        let channels = ExportChannels {
            members: heard_members,
            export: seen,
            standing,
            stop: stopped.clone(),
        };
        let control = ControlLoop {
            located,
            dispatch: Arc::clone(&dispatch),
            workspaces: Arc::clone(&workspaces),
            publishing: Arc::clone(&publishing),
            export: export_seen,
            listed,
            complete: Arc::clone(&complete),
        };
        let disabled = options.disabled.contains(&Controller::ApiExport);
        Self {
            options,
            lease: planes.lease.clone(),
            sides,
            reviewers,
            cache,
            dispatch,
            router,
            workspaces,
            publishing,
            exporter: (!disabled).then_some((exporter, channels)),
            conditions,
            brakes,
            owners,
            complete,
            metrics: Arc::clone(metrics),
            listed: heard_of_lists,
            watches: watched,
            control: AbortOnDropHandle::new(tokio::spawn(control.listen(events))),
            stopped,
        }
    }

    async fn run(self, process: ProcessContext) -> Result<(), AgentError> {
        let stop = process.stop.clone();
        let Some((drained, _filled)) = self.begin(&process).await else {
            return Ok(());
        };
        let leadership = tokio::select! {
            leadership = self.lead(&process) => leadership,
            () = stop.cancelled() => return Ok(()),
        };
        let lost = leadership
            .as_ref()
            .map_or_else(CancellationToken::new, |l| l.lost().clone());
        if leadership.is_some() {
            let options = self.shard_options(&process);
            let ended = tokio::select! {
                () = shards::await_no_shards(&self.lease, &options) => None,
                ended = process.ended(&lost) => Some(ended),
            };
            if let Some(ended) = ended {
                lifecycle::release(leadership).await;
                return ended;
            }
            self.take_over();
        }
        info!(name = self.options.agent_name, "running");
        let (mut work, leader) = self.work(drained);
        leader.start(&mut work);
        let ended = process.ended(&lost).await;
        work.end().await;
        lifecycle::release(leadership).await;
        ended
    }

    /// Runs an agent that shares the workspaces with others of its name.
    async fn run_shared(
        self,
        process: ProcessContext,
        (shards, changes): ChangingShards,
    ) -> Result<(), AgentError> {
        let Some((drained, filled)) = self.begin(&process).await else {
            return Ok(());
        };
        let options = self.shard_options(&process);
        let (note, told) = watch::channel(String::new());
        let (heard, notes) = watch::channel(BTreeMap::new());
        // Others keep their shards until this replica has read everything that passes need.
        let ready = filled.complete.clone();
        let keeper = ShardKeeper::new(self.lease.clone(), options, &shards, told, heard, ready);
        let released = CancellationToken::new();
        // Cancelled when the keeper ends, also by a panic.
        let unkept = CancellationToken::new();
        // Like the lease, shards are kept on the separate thread.
        let keeper = {
            let (stop, ended) = (released.clone(), unkept.clone().drop_guard());
            process.dedicated.spawn(async move {
                let _ended = ended;
                keeper.run(stop).await;
            })
        };
        self.publishing.begin_passes();
        info!(name = self.options.agent_name, "running");
        let electing = self.election(&process);
        let publishing = Arc::clone(&self.publishing);
        let (mut work, leader) = self.work(drained);
        work.follow(changes);
        work.share_holds(note, notes);
        let elected = tokio::select! {
            leadership = process.dedicated.run(electing) => Ok(Some(leadership)),
            () = process.stop.cancelled() => Ok(None),
            () = unkept.cancelled() => Err(AgentError::ShardsEnded),
        };
        let (leadership, ended) = match elected {
            Err(error) => (None, Err(error)),
            Ok(None) => (None, Ok(())),
            Ok(Some(leadership)) => {
                publishing.lead();
                leader.start(&mut work);
                let ended = tokio::select! {
                    ended = process.ended(leadership.lost()) => ended,
                    () = unkept.cancelled() => Err(AgentError::ShardsEnded),
                };
                (Some(leadership), ended)
            }
        };
        work.end().await;
        released.cancel();
        tokio::join!(
            lifecycle::release_shards(keeper),
            lifecycle::release(leadership)
        );
        ended
    }

    /// Starts what a standby does too. `None` if the process is stopped before everything is listed.
    async fn begin(&self, process: &ProcessContext) -> Option<(JoinSet<()>, Filling)> {
        tokio::select! {
            () = self.control_listed() => {}
            () = process.stop.cancelled() => return None,
        }
        if self.options.leader_election == LeaderElection::Off {
            self.take_over();
        }
        // A standby reads everything that the leader reads, and writes nothing.
        let mut drained = JoinSet::new();
        drained.spawn(Arc::clone(&self.publishing).work());
        Some((drained, Filling::start(&self.publishing, &process.health)))
    }

    /// Starts to write about everything.
    fn take_over(&self) {
        self.publishing.lead();
        self.publishing.begin_passes();
    }

    /// Waits until all published resources, types, slices and exports are listed.
    pub(super) async fn control_listed(&self) {
        let mut listed = self.listed.clone();
        let whole = |listed: &HashSet<Arc<Gvk>>| {
            let mut kinds = self.watches.iter().map(|watch| watch.table().kind());
            kinds.all(|kind| listed.contains(kind))
        };
        if listed.wait_for(whole).await.is_err() {
            // The senders are gone: the process is about to end.
            std::future::pending::<()>().await;
        }
    }

    /// Waits until this agent leads; `None` without leader election.
    async fn lead(&self, process: &ProcessContext) -> Option<Leadership> {
        if self.options.leader_election == LeaderElection::Off {
            return None;
        }
        // The lease is renewed on the separate thread, so that neither a busy process nor busy sockets cost it.
        Some(process.dedicated.run(self.election(process)).await)
    }

    fn election(&self, process: &ProcessContext) -> impl Future<Output = Leadership> + use<> {
        let (name, identity) = (self.lease_name(), process.identity.clone());
        let count = self.options.shards.get();
        // An agent without shards writes the Lease as agents that know none.
        let marks = if count > 1 {
            shards::view::marks(&name, count, &identity)
        } else {
            Marks::default()
        };
        let metrics = &self.metrics.metrics;
        let options = LeaseOptions {
            identity,
            marks,
            ..LeaseOptions::usual(&self.options.namespace, name, &process.fence, metrics)
        };
        elect(self.lease.clone(), options)
    }

    fn lease_name(&self) -> String {
        format!("syncagent.{}", self.options.agent_name)
    }

    fn shard_options(&self, process: &ProcessContext) -> ShardOptions {
        ShardOptions {
            namespace: self.options.namespace.clone(),
            name: self.lease_name(),
            identity: process.identity.clone(),
            terms: Terms::USUAL,
            leader: process.fence.clone(),
            metrics: Arc::clone(&self.metrics.metrics),
        }
    }

    /// The state that passes share.
    pub(super) fn passes(&self, recorder: &Recorder) -> Arc<Passes> {
        Arc::new(Passes {
            sides: self.sides.clone(),
            cache: Arc::clone(&self.cache),
            dispatch: Arc::clone(&self.dispatch),
            related: Arc::clone(&self.dispatch.related),
            bindings: Arc::new(BindingReader::new(&self.workspaces)),
            workspaces: Arc::clone(&self.workspaces),
            metrics: Arc::clone(&self.metrics.metrics),
            numbers: Arc::clone(&self.metrics),
            announcer: Announcer {
                recorder: recorder.clone(),
                service: self.router.service.clone(),
                workspaces: Arc::clone(&self.workspaces),
                cache: Arc::clone(&self.cache),
            },
            longest_pause: self.options.longest_pause,
            owners: self.owners.clone(),
        })
    }
}

/// The interval of the check whether the caches are complete.
pub(super) const LOOK_ROUND: Duration = Duration::from_millis(100);

/// Marks the caches as complete, once they are.
struct Filling {
    /// Cancelled when they are.
    complete: CancellationToken,
    _task: AbortOnDropHandle<()>,
}

impl Filling {
    fn start(publishing: &Arc<Publishing>, health: &Arc<Health>) -> Self {
        let (publishing, health) = (Arc::clone(publishing), Arc::clone(health));
        let complete = CancellationToken::new();
        let told = complete.clone();
        let task = tokio::spawn(async move {
            while !publishing.is_complete() {
                tokio::time::sleep(LOOK_ROUND).await;
            }
            health.found("caches");
            told.cancel();
        });
        Self {
            complete,
            _task: AbortOnDropHandle::new(task),
        }
    }
}

fn pace() -> Pace {
    Pace {
        retry: (Duration::from_millis(100), Duration::from_secs(2)),
        ..Pace::default()
    }
}

/// The tables of control kinds, for the conditions.
struct ConditionTables {
    switch: Arc<Switch>,
    definitions: Scope,
}

impl ConditionTables {
    fn new(switch: &Arc<Switch>, definitions: &SharedWatch) -> Self {
        Self {
            switch: Arc::clone(switch),
            definitions: definitions.table().scope(""),
        }
    }
}

impl ConditionSource for ConditionTables {
    fn published(&self, name: &str) -> Option<Arc<Value>> {
        let object = self.switch.selected(name)?;
        Some(Arc::new(object.as_value().clone()))
    }

    fn definition(&self) -> Option<CrdPrint> {
        let name = "publishedresources.syncagent.kcp.io";
        match self.switch.cache.get(&self.definitions.key(None, name)) {
            Seen::Present(crd) => Some(CrdPrint::of(&crd)),
            Seen::Absent | Seen::Unknown => None,
        }
    }
}
