//! The process of the agent, from start to end.

use std::collections::HashSet;
use std::io;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use jiff::Timestamp;
use parking_lot::Mutex;
use serde_json::Value;
use tokio::sync::{Notify, watch};
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
use super::numbers::AgentMetrics;
use super::observing::watch_numbers;
use super::options::{AgentOptions, Controller, LeaderElection};
use super::overview::AgentOverview;
use super::passes::{Passes, WORKERS};
use super::planning::Planner;
use super::publication::{SERVICE, local_feed};
use super::publishing::{Publishing, crd_kind, published_resource_kind};
use super::review::{self, Reviewers};
use super::router::{PublishRouter, ResourceNames};
use super::schemas::{CrdPrint, SchemaMode, Schemas};
use super::startup::{Located, StartError, locate};
use super::sweep::Sweep;
use super::switch::Switch;
use super::workspaces::Workspaces;
use crate::publish::rules::Sides;
use hawser_runtime::cluster::cache::{Cache, Coverage};
use hawser_runtime::cluster::config::{ConfigError, Environment, RequiredUrl, Source, Watched};
use hawser_runtime::cluster::connection::{ConnectError, Connection, Limits};
use hawser_runtime::cluster::discovery::Discovery;
use hawser_runtime::cluster::events::{self, Recorder};
use hawser_runtime::cluster::feed::{Content, Pace, Selection};
use hawser_runtime::cluster::queue::Queue;
use hawser_runtime::cluster::wire::GuardedClient;
use hawser_runtime::controller::{
    BrakeRegistry, Controller as PassController, SharedWatch, WatchRegistry, WatchSpec, lifecycle,
};
use hawser_runtime::overview::site::{OverviewSite, bind_page};
use hawser_runtime::process::dedicated_thread::DedicatedThread;
use hawser_runtime::process::lease::{Fence, Leadership, LeaseOptions, elect};
use hawser_runtime::process::metrics::Metrics;
use hawser_runtime::process::serve::{self, Health, MetricsPage, Pages, ServeError};
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
    let planes = Connections::connect(&options, &metrics.metrics, &fence, &dedicated)?;
    let located = tokio::select! {
        () = stop.cancelled() => return Ok(()),
        located = locate(&planes.kcp, &options.slice) => located?,
    };
    health.found("kcp");
    let agent = Agent::assemble(options, &planes, located, &metrics);
    overview.begin(&agent.publishing);
    agent.run(fence, &health, &dedicated, stop).await
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
    pub fn connect(
        options: &AgentOptions,
        metrics: &Arc<Metrics>,
        fence: &Fence,
        dedicated: &DedicatedThread,
    ) -> Result<Self, AgentError> {
        let service = Source::find(&options.service_cluster, &Environment::of_process())?;
        let connect = |source, side, in_flight| -> Result<_, AgentError> {
            let (watched, config) = Watched::start(source)?;
            let host = config.cluster_url.authority().map(ToString::to_string);
            let observer = metrics.requests(side, &host.unwrap_or_default());
            let limits = Limits {
                in_flight,
                observer: Some(Arc::new(observer)),
                guard: Some(fence.guard()),
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
    reviewers: Reviewers,
    pub(super) cache: Arc<Cache>,
    pub(super) dispatch: Arc<Dispatch>,
    pub(super) router: Arc<PublishRouter>,
    pub(super) workspaces: Arc<Workspaces>,
    pub(super) publishing: Arc<Publishing>,
    pub(super) exporter: Option<(Exporter, ExportChannels)>,
    conditions: Arc<Conditions>,
    brakes: Arc<BrakeRegistry>,
    owners: watch::Sender<()>,
    complete: Arc<Notify>,
    metrics: Arc<AgentMetrics>,
    /// Kinds whose first list has been handled.
    listed: watch::Receiver<HashSet<Arc<Gvk>>>,
    /// Watches of control kinds, and the task that handles their events.
    watches: Vec<Arc<SharedWatch>>,
    control: AbortOnDropHandle<()>,
    stopped: CancellationToken,
}

impl Agent {
    pub(super) fn assemble(
        options: Arc<AgentOptions>,
        planes: &Connections,
        located: Located,
        metrics: &Arc<AgentMetrics>,
    ) -> Self {
        let sides = Sides::default();
        let cache = match options.workspace_cache {
            Some(most) => Cache::limited(&sides.kcp, most),
            None => Cache::new(),
        };
        cache.route(&sides.service, "", &SERVICE.into());
        let names = ResourceNames::new(&sides);
        let (dispatch, events) =
            Dispatch::new(&sides, &cache, &names, control_kinds(), &options.namespace);
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

    async fn run(
        self,
        fence: Fence,
        health: &Arc<Health>,
        dedicated: &DedicatedThread,
        stop: CancellationToken,
    ) -> Result<(), AgentError> {
        tokio::select! {
            () = self.control_listed() => {}
            () = stop.cancelled() => return Ok(()),
        }
        if self.options.leader_election == LeaderElection::Off {
            self.publishing.take_over();
        }
        // A standby reads everything that the leader reads, and writes nothing.
        let mut drained = JoinSet::new();
        drained.spawn(Arc::clone(&self.publishing).work());
        let filling = filling(Arc::clone(&self.publishing), Arc::clone(health));
        let _filling = AbortOnDropHandle::new(tokio::spawn(filling));
        let leadership = tokio::select! {
            leadership = self.lead(fence, dedicated) => leadership,
            () = stop.cancelled() => return Ok(()),
        };
        if leadership.is_some() {
            self.publishing.take_over();
        }
        let lost = leadership
            .as_ref()
            .map_or_else(CancellationToken::new, |l| l.lost().clone());
        info!(name = self.options.agent_name, "running");
        let work = self.work(drained);
        let ended = tokio::select! {
            () = stop.cancelled() => Ok(()),
            () = lost.cancelled() => Err(AgentError::LeadershipLost),
        };
        if ended.is_ok() {
            info!("stopping: finishing active requests first");
        }
        work.end().await;
        lifecycle::release(leadership).await;
        ended
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
    async fn lead(&self, fence: Fence, dedicated: &DedicatedThread) -> Option<Leadership> {
        if self.options.leader_election == LeaderElection::Off {
            return None;
        }
        let options = LeaseOptions::usual(
            &self.options.namespace,
            format!("syncagent.{}", self.options.agent_name),
            &fence,
            &self.metrics.metrics,
        );
        // The lease is renewed on the separate thread, so that neither a busy process nor busy sockets cost it.
        Some(dedicated.run(elect(self.lease.clone(), options)).await)
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

    fn work(self, mut drained: JoinSet<()>) -> Work {
        let client = GuardedClient::new(&self.cache);
        let (recorder, sender) = events::line(Timestamp::now);
        let sweep = Sweep {
            agent: self.options.agent_name.clone(),
            sides: self.sides.clone(),
            cache: Arc::clone(&self.cache),
            client: Arc::clone(&client),
            dispatch: Arc::clone(&self.dispatch),
            router: Arc::clone(&self.router),
            workspaces: Arc::clone(&self.workspaces),
            metrics: Arc::clone(&self.metrics),
            owners: self.owners.clone(),
            reason: Arc::clone(&self.complete),
            forbidden: AtomicBool::new(false),
        };
        let passes = self.passes(&recorder);
        let channels = self.exporter.as_ref().map(|(_, channels)| channels);
        let planner = Planner {
            publishing: Arc::clone(&self.publishing),
            passes: Arc::clone(&passes),
            router: Arc::clone(&self.router),
            export: channels.map(|channels| channels.export.clone()),
        };
        let controller = PassController::new(
            &passes,
            &self.dispatch.subjects,
            &client,
            self.router,
            &self.brakes,
            &Arc::default(),
        );
        let dispatch = Arc::clone(&self.dispatch);
        let numbers = watch_numbers(Arc::clone(&self.publishing), self.metrics, recorder);
        drained.spawn(controller.run(WORKERS));
        if let Some((exporter, channels)) = self.exporter {
            drained.spawn(exporter.run(channels));
        }
        let conditions = self.conditions;
        let stopped = self.stopped.clone();
        let aside = [
            tokio::spawn(sender.run()),
            tokio::spawn(sweep.run()),
            tokio::spawn(planner.run()),
            tokio::spawn(async move { conditions.run(stopped).await }),
            tokio::spawn(Arc::clone(&self.publishing).watch_export_status()),
            tokio::spawn(review::keep(Arc::clone(&self.publishing), self.reviewers)),
        ];
        Work {
            publishing: self.publishing,
            dispatch,
            stopped: self.stopped,
            drained,
            _aside: aside.map(AbortOnDropHandle::new).into(),
            _numbers: numbers,
            _watches: self.watches,
            _control: self.control,
        }
    }
}

/// A running agent.
struct Work {
    publishing: Arc<Publishing>,
    dispatch: Arc<Dispatch>,
    stopped: CancellationToken,
    drained: JoinSet<()>,
    _aside: Vec<AbortOnDropHandle<()>>,
    _numbers: AbortOnDropHandle<()>,
    _watches: Vec<Arc<SharedWatch>>,
    _control: AbortOnDropHandle<()>,
}

impl Work {
    /// Starts nothing more, and finishes running work within the time limit.
    async fn end(mut self) {
        self.publishing.queue.close();
        self.dispatch.subjects.queue.close();
        self.stopped.cancel();
        lifecycle::drain(async { while self.drained.join_next().await.is_some() {} }).await;
    }
}

/// The interval of the check whether the caches are complete.
pub(super) const LOOK_ROUND: Duration = Duration::from_millis(100);

/// Marks the caches as complete, once they are.
async fn filling(publishing: Arc<Publishing>, health: Arc<Health>) {
    while !publishing.is_complete() {
        tokio::time::sleep(LOOK_ROUND).await;
    }
    health.found("caches");
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
