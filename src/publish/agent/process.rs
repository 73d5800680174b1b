//! All of the agent together, from start to end.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;
use tracing::info;

use super::atlas::Places;
use super::control::{Control, control_kinds, export_kind, named, slice_kind};
use super::dispatch::Dispatch;
use super::export::{Exporter, Members, Pace as ExportPace, Seen, Standing, Wires};
use super::feeds::{Feeds, Wanted};
use super::options::{AgentOptions, Controller};
use super::passes::Passes;
use super::publication::{SERVICE, local_feed};
use super::publishing::{Publishing, crd_kind, published_resource_kind};
use super::schemas::Schemas;
use super::startup::{Located, StartError, locate};
use super::workspaces::Workspaces;
use crate::cluster::cache::{Cache, Coverage};
use crate::cluster::config::{ConfigError, Environment, Source, Watched};
use crate::cluster::connection::{ConnectError, Connection, Limits};
use crate::cluster::discovery::Discovery;
use crate::cluster::feed::{Content, Pace};
use crate::cluster::queue::Queue;
use crate::cluster::wire::Wire;
use crate::process::metrics::Metrics;
use crate::process::serve::{self, Health, Pages, ServeError};
use crate::process::shutdown;
use crate::publish::rules::Sides;

/// What ends an agent for good.
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
    #[error("the leadership was lost: another agent of this name may be at work now")]
    LeadershipLost,
}

/// Passes that may be under way at the same time. Most of them wait for an answer.
const WORKERS: usize = 64;

/// What has to be known before the agent counts as ready.
const GATES: [&str; 3] = ["kcp", "caches", "publishedresources"];

/// Runs until told to stop, or until nothing can go on.
pub async fn run(options: AgentOptions, stop: CancellationToken) -> Result<(), AgentError> {
    let options = Arc::new(options);
    let metrics = Arc::new(Metrics::new());
    let health = Arc::new(Health::missing(GATES));
    let _pages = pages(&options, &metrics, &health, &stop).await?;
    let planes = Planes::connect(&options, &metrics)?;
    let located = tokio::select! {
        () = stop.cancelled() => return Ok(()),
        located = locate(&planes.kcp, &options.slice) => located?,
    };
    health.found("kcp");
    let agent = Agent::assemble(options, &planes, located, &metrics);
    agent.run(&health, stop).await
}

async fn pages(
    options: &AgentOptions,
    metrics: &Arc<Metrics>,
    health: &Arc<Health>,
    stop: &CancellationToken,
) -> Result<Vec<AbortOnDropHandle<()>>, ServeError> {
    let mut served = Vec::new();
    let wanted = [
        (
            "--metrics-address",
            &options.metrics_address,
            Pages::Metrics(Arc::clone(metrics)),
        ),
        (
            "--health-address",
            &options.health_address,
            Pages::Probes(Arc::clone(health)),
        ),
    ];
    for (flag, address, pages) in wanted {
        if let Some(address) = address {
            let bound = serve::bind(flag, address).await?;
            let serving = bound.serve(pages, stop.clone());
            served.push(AbortOnDropHandle::new(tokio::spawn(serving)));
        }
    }
    Ok(served)
}

/// Both control planes, with credentials that are read again when their files change.
struct Planes {
    kcp: Connection,
    service: Connection,
    _followed: [AbortOnDropHandle<()>; 2],
}

impl Planes {
    fn connect(options: &AgentOptions, metrics: &Arc<Metrics>) -> Result<Self, AgentError> {
        let service = Source::find(&options.service_cluster, &Environment::of_process())?;
        let connect = |source, side, in_flight| -> Result<_, AgentError> {
            let (watched, config) = Watched::start(source)?;
            let host = config.cluster_url.authority().map(ToString::to_string);
            let observer = metrics.requests(side, &host.unwrap_or_default());
            let limits = Limits {
                in_flight,
                observer: Some(Arc::new(observer)),
            };
            let connection = Connection::new(config, limits)?;
            let renewed = connection.clone();
            let following = watched.follow(move |config| renewed.renew(config));
            let following = AbortOnDropHandle::new(tokio::spawn(following));
            Ok((connection, following))
        };
        let in_flight = options.in_flight;
        let (service, first) = connect(service, "service", in_flight.service.get())?;
        let kcp = Source::workspace(&options.kcp_kubeconfig);
        let (kcp, second) = connect(kcp, "kcp", in_flight.kcp.get())?;
        Ok(Self {
            kcp,
            service,
            _followed: [first, second],
        })
    }
}

/// Every part of the agent, not yet at work.
struct Agent {
    options: Arc<AgentOptions>,
    publishing: Arc<Publishing>,
    passes: Arc<Passes>,
    exporter: Option<(Exporter, Wires)>,
    /// Watches of control kinds, and the task that hears them.
    _feeds: Vec<Arc<super::feeds::Watched>>,
    _control: AbortOnDropHandle<()>,
    stopped: CancellationToken,
}

impl Agent {
    fn assemble(
        options: Arc<AgentOptions>,
        planes: &Planes,
        located: Located,
        metrics: &Arc<Metrics>,
    ) -> Self {
        let sides = Sides::default();
        let cache = Cache::new();
        cache.route(&sides.service, "", &SERVICE.into());
        let (dispatch, news) = Dispatch::new(&sides, &cache, Queue::new(WORKERS), control_kinds());
        let feeds = Feeds::new(&cache, pace(), Arc::clone(&dispatch) as _);
        let slices = &located.slice_workspace.connection;
        let workspaces = Arc::new(Workspaces::new(&sides, &cache, &feeds, slices.clone()));
        let places = Arc::new(Places::new(&sides, &planes.service, &workspaces));
        let export_workspace = located.export_workspace.connection.clone();
        let all = |kind, resource, content| {
            let wanted = local_feed(
                &planes.service,
                &sides.service,
                &kind,
                resource,
                Coverage::default(),
            );
            let selection = crate::cluster::feed::Selection {
                content,
                ..wanted.selection
            };
            feeds.watch(Wanted {
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
        let (members, heard_members) = watch::channel(Members::None);
        let publishing = Arc::new(Publishing {
            options: Arc::clone(&options),
            sides: sides.clone(),
            service: planes.service.clone(),
            cache: Arc::clone(&cache),
            feeds: Arc::clone(&feeds),
            dispatch: Arc::clone(&dispatch),
            workspaces: Arc::clone(&workspaces),
            places: Arc::clone(&places),
            schemas: Schemas::new(
                planes.service.clone(),
                export_workspace.clone(),
                Arc::new(Discovery::new(planes.service.clone())),
                options.agent_name.clone(),
            ),
            members,
            queue: Queue::new(usize::MAX),
            published: Arc::clone(&published),
            definitions: Arc::clone(&definitions),
            known: Mutex::default(),
        });
        let slice = named(
            &sides.kcp,
            slice_kind(),
            "apiexportendpointslices",
            slices,
            &located.slice,
        );
        let export = named(
            &sides.kcp,
            export_kind(),
            "apiexports",
            &export_workspace,
            &located.export,
        );
        let watched = vec![
            published,
            definitions,
            feeds.watch(slice),
            feeds.watch(export),
        ];
        let (export_seen, seen) = watch::channel(Seen::Unknown);
        let (standing, _) = watch::channel(Standing::default());
        let stopped = CancellationToken::new();
        let counted = Arc::clone(metrics);
        let exporter = Exporter {
            workspace: export_workspace,
            export: located.export.clone(),
            agent: options.agent_name.clone(),
            pace: ExportPace::default(),
            count: Box::new(move |count| counted.published(count)),
        };
        let wires = Wires {
            members: heard_members,
            export: seen,
            standing,
            stop: stopped.clone(),
        };
        let passes = Passes {
            sides,
            cache,
            dispatch: Arc::clone(&dispatch),
            wire: Wire::new(places),
            finished: Vec::new(),
        };
        let control = Control {
            located,
            dispatch,
            workspaces,
            publishing: Arc::clone(&publishing),
            export: export_seen,
        };
        let control = tokio::spawn(control.listen(news, || {}));
        Self {
            exporter: (!options.disabled.contains(&Controller::ApiExport))
                .then_some((exporter, wires)),
            options,
            publishing,
            passes: Arc::new(passes),
            _feeds: watched,
            _control: AbortOnDropHandle::new(control),
            stopped,
        }
    }

    async fn run(self, health: &Health, stop: CancellationToken) -> Result<(), AgentError> {
        for feed in &self._feeds {
            tokio::select! {
                () = feed.completed() => {}
                () = stop.cancelled() => return Ok(()),
            }
        }
        health.found("caches");
        health.found("publishedresources");
        info!(name = self.options.agent_name, "at work");
        let exporter = self
            .exporter
            .map(|(exporter, wires)| tokio::spawn(exporter.run(wires)));
        let publishing = tokio::spawn(Arc::clone(&self.publishing).work());
        let passes = tokio::spawn(Arc::clone(&self.passes).work(WORKERS));
        let mut beats = tokio::time::interval(Duration::from_secs(5));
        loop {
            tokio::select! {
                () = stop.cancelled() => break,
                _ = beats.tick() => health.beat(),
            }
        }
        info!("told to stop: what is under way is finished first");
        self.publishing.queue.close();
        self.passes.dispatch.queue.close();
        self.stopped.cancel();
        let work = async {
            let _ = tokio::join!(publishing, passes);
            if let Some(exporter) = exporter {
                let _ = exporter.await;
            }
        };
        shutdown::within(shutdown::DRAIN, "finishing what is under way", work).await;
        Ok(())
    }
}

fn pace() -> Pace {
    Pace {
        retry: (Duration::from_millis(100), Duration::from_secs(2)),
        ..Pace::default()
    }
}
