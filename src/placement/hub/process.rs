//! The hub from start to end.

use std::num::NonZeroU32;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use parking_lot::Mutex;
use tokio::task::JoinSet;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;
use tracing::{info, warn};

use hawser_placement::types::definitions::PATH;
use hawser_runtime::cluster::cache::Cache;
use hawser_runtime::cluster::config::{ConfigError, Environment, Lookup, Source, Watched};
#[cfg(feature = "webhook")]
use hawser_runtime::cluster::connection::RequestError;
use hawser_runtime::cluster::connection::{ConnectError, Connection, Limits, host};
use hawser_runtime::cluster::events as recorded;
use hawser_runtime::cluster::feed::{Content, Pace};
use hawser_runtime::cluster::queue::Urgency;
use hawser_runtime::cluster::wire::GuardedClient;
use hawser_runtime::controller::{WatchRegistry, lifecycle, work};
use hawser_runtime::errors::chain;
use hawser_runtime::process::lease::{Fence, LeaseOptions, elect};
use hawser_runtime::process::serve::{self, Health, MetricsPage, Pages, ServeError};

use super::catalog::{Catalog, CatalogError};
use super::events::HubEvents;
use super::forms::HubForms;
use super::numbers::HubMetrics;
use super::objects::{self, DEFINITIONS, HUB, HubFeatures, HubRouter};
use super::passes::{self, HubController, HubSettings};
use super::selectable::{Selectable, SelectionRules};
#[cfg(feature = "webhook")]
use super::webhook::{HubReviewer, HubWebhook};
#[cfg(feature = "webhook")]
use crate::webhook::{WebhookError, WebhookServer};

/// The options of the hub.
#[derive(Clone, Debug)]
pub struct HubOptions {
    pub kubeconfig: Option<PathBuf>,
    pub metrics_address: Option<String>,
    pub health_address: Option<String>,
    /// The namespace of the lock; none without leader election.
    pub election: Option<String>,
    /// Requests a second to the hub.
    pub per_second: Option<NonZeroU32>,
    pub features: HubFeatures,
    pub selection: SelectionRules,
    pub rules: HubSettings,
    /// The source of events about placements.
    pub event_source: Arc<str>,
    #[cfg(feature = "webhook")]
    pub webhook: Option<HubWebhook>,
}

/// An error that ends the hub.
#[derive(Debug, thiserror::Error)]
pub enum HubError {
    #[error(transparent)]
    Config(#[from] ConfigError),
    #[error(transparent)]
    Connect(#[from] ConnectError),
    #[error(transparent)]
    Serve(#[from] ServeError),
    #[error(transparent)]
    Catalog(#[from] CatalogError),
    #[cfg(feature = "webhook")]
    #[error(transparent)]
    Webhook(#[from] WebhookError),
    #[cfg(feature = "webhook")]
    #[error("asking who the hub is, for its guard rail")]
    Identity(#[source] Box<RequestError>),
    #[error("the hub does not serve {0}: install the CRDs in {PATH}")]
    Definitions(String),
    #[error("lost the leadership: another hub may lead now")]
    LeadershipLost,
}

/// The name of the lock, which is the original's: the two never work at the same time.
const LOCK: &str = "136224848560.hub.fleet.azure.com";
/// Passes that may run at the same time.
const WORKERS: usize = 64;
/// The interval of discovery if no definition changes.
const DISCOVERY: Duration = Duration::from_secs(30);
/// The delays of discovery after a change, because the server serves a new kind with a delay.
const DISCOVERY_AFTER_CHANGE: [Duration; 6] = [
    Duration::from_millis(50),
    Duration::from_millis(150),
    Duration::from_millis(300),
    Duration::from_millis(700),
    Duration::from_millis(1500),
    Duration::from_secs(3),
];

/// Runs until a signal or an error stops it.
pub async fn run(options: HubOptions, stop: CancellationToken) -> Result<(), HubError> {
    let numbers = HubMetrics::new();
    let health = Arc::new(Health::missing(["hub"]));
    let _pages = pages(&options, &numbers, &health, &stop).await?;
    let lookup = Lookup {
        kubeconfig: options.kubeconfig.clone(),
        ..Lookup::default()
    };
    let source = Source::find(&lookup, &Environment::of_process())?;
    let (watched, config) = Watched::start(source)?;
    let fence = Fence::closed();
    let observer = numbers.metrics.requests("hub", host(&config.cluster_url));
    let limits = Limits {
        guard: options.election.is_some().then(|| fence.guard()),
        per_second: options.per_second,
        observer: Some(Arc::new(observer)),
        ..Limits::default()
    };
    let hub = Connection::new(config.clone(), limits)?;
    let aside = Connection::new(config, Limits::default())?;
    let renewed = (hub.clone(), aside.clone());
    let following = watched.follow(move |config| {
        renewed.1.renew(config.clone())?;
        renewed.0.renew(config)
    });
    let _watched = AbortOnDropHandle::new(tokio::spawn(following));
    let catalog = tokio::select! {
        () = stop.cancelled() => return Ok(()),
        catalog = served(&hub, options.features) => catalog?,
    };
    #[cfg(feature = "webhook")]
    let _webhook = webhook(&options, &aside, &stop).await?;
    health.found("hub");
    info!(
        version = env!("CARGO_PKG_VERSION"),
        hub = hub.url(),
        "starting"
    );
    let leadership = match &options.election {
        None => None,
        Some(namespace) => {
            let lease = LeaseOptions::usual(namespace, LOCK.to_owned(), &fence, &numbers.metrics);
            tokio::select! {
                () = stop.cancelled() => return Ok(()),
                leadership = elect(aside, lease) => Some(leadership),
            }
        }
    };
    let lost = leadership.as_ref().map(|one| one.lost().clone());
    let lost = lost.unwrap_or_default();
    let working = Working::start(&hub, &options, catalog, &numbers, &health);
    let ended = tokio::select! {
        () = stop.cancelled() => Ok(()),
        () = lost.cancelled() => Err(HubError::LeadershipLost),
    };
    working.end().await;
    lifecycle::release(leadership).await;
    ended
}

/// Serves the webhook and registers it with API servers, on every replica.
#[cfg(feature = "webhook")]
async fn webhook(
    options: &HubOptions,
    hub: &Connection,
    stop: &CancellationToken,
) -> Result<Option<AbortOnDropHandle<()>>, HubError> {
    let Some(mut given) = options.webhook.clone() else {
        return Ok(None);
    };
    let known = given.exempt_hub(hub).await;
    known.map_err(|error| HubError::Identity(Box::new(error)))?;
    let reviewer = HubReviewer::new(hub.clone(), given.guards.clone());
    let site = given.site();
    let server =
        WebhookServer::start(&given.listens, hub.clone(), site, reviewer, stop.clone()).await?;
    let keeping = server.keep(given.configured());
    Ok(Some(AbortOnDropHandle::new(tokio::spawn(keeping))))
}

/// The kinds of the hub, once it can be asked; those of the fleet have to be among them.
async fn served(hub: &Connection, features: HubFeatures) -> Result<Catalog, HubError> {
    let mut told = false;
    let catalog = loop {
        match Catalog::read(hub).await {
            Ok(catalog) => break catalog,
            Err(error @ CatalogError::Unreadable(..)) => return Err(error.into()),
            Err(error) => {
                if !std::mem::replace(&mut told, true) {
                    warn!(problem = chain(&error), "waiting for the hub");
                }
                tokio::time::sleep(Duration::from_millis(500)).await;
            }
        }
    };
    let missing = features
        .kinds()
        .map(objects::gvk)
        .filter(|kind| catalog.get(kind).is_none());
    let missing: Vec<String> = missing.map(|kind| kind.to_string()).collect();
    if missing.is_empty() {
        Ok(catalog)
    } else {
        Err(HubError::Definitions(missing.join(", ")))
    }
}

/// The running hub.
struct Working {
    events: Arc<HubEvents>,
    passes: JoinSet<()>,
    _following: [AbortOnDropHandle<()>; 2],
    _sending: AbortOnDropHandle<()>,
    _beats: AbortOnDropHandle<()>,
}

impl Working {
    fn start(
        hub: &Connection,
        options: &HubOptions,
        catalog: Catalog,
        numbers: &Arc<HubMetrics>,
        health: &Arc<Health>,
    ) -> Self {
        let cache = Cache::new();
        passes::route(&cache);
        let (recorder, sender) = recorded::line(Timestamp::now);
        let events = HubEvents::new(WORKERS, options.rules.policy.windows);
        let watches = WatchRegistry::new(&cache, pace(), Arc::clone(&events) as _);
        let watch = |kind: &str| {
            let resource = objects::resource(kind);
            let (kind, content) = (objects::gvk(kind), Content::Whole);
            watches.watch(objects::watch(hub, &HUB, kind, &resource, content))
        };
        let fleet = options.features.kinds().map(watch).collect();
        let selectable = Selectable::new(hub, &cache, &watches, options.selection.clone());
        selectable.learn(catalog);
        let world = Arc::new(HubController {
            hub: hub.clone(),
            client: GuardedClient::hiding_contents(&cache),
            cache,
            router: HubRouter(hub.clone()),
            events: Arc::clone(&events),
            selectable,
            recorder,
            numbers: Arc::clone(numbers),
            rules: options.rules,
            event_source: Arc::clone(&options.event_source),
            fleet,
            forms: HubForms::new(watch),
            recent: Mutex::default(),
            recent_runs: Mutex::default(),
            placing: Arc::default(),
            founded: Mutex::default(),
        });
        let mut passes = JoinSet::new();
        let queue = events.queue.clone();
        let working = Arc::clone(&world);
        passes.spawn(async move { work(working, &queue, WORKERS).await });
        let counted = Arc::clone(&world);
        Self {
            events,
            passes,
            _following: [
                AbortOnDropHandle::new(tokio::spawn(follow_selectors(Arc::clone(&world)))),
                AbortOnDropHandle::new(tokio::spawn(follow_kinds(world, watches))),
            ],
            _sending: AbortOnDropHandle::new(tokio::spawn(sender.run())),
            _beats: lifecycle::beat(health, move || counted.count(WORKERS)),
        }
    }

    /// Starts nothing more, and finishes active work within the time limit.
    async fn end(mut self) {
        self.events.queue.close();
        lifecycle::drain(async { while self.passes.join_next().await.is_some() {} }).await;
    }
}

/// Watches the selected objects.
async fn follow_selectors(world: Arc<HubController>) {
    loop {
        world.events.selected.notified().await;
        world.selectable.follow(&world.events.selectors());
    }
}

/// Keeps the kinds that the hub serves up to date: soon after a definition changes, and from time to time.
async fn follow_kinds(world: Arc<HubController>, watches: Arc<WatchRegistry>) {
    let watched = [
        ("CustomResourceDefinition", "customresourcedefinitions"),
        ("APIService", "apiservices"),
    ];
    let _definitions = watched.map(|(kind, resource)| {
        let (kind, content) = (objects::gvk(kind), Content::Metadata);
        watches.watch(objects::watch(
            &world.hub,
            &DEFINITIONS,
            kind,
            resource,
            content,
        ))
    });
    let mut soon = DISCOVERY_AFTER_CHANGE.iter();
    loop {
        let pause = soon.next().copied().unwrap_or(DISCOVERY);
        if timeout(pause, world.events.defined.notified())
            .await
            .is_ok()
        {
            soon = DISCOVERY_AFTER_CHANGE.iter();
            continue;
        }
        match Catalog::read(&world.hub).await {
            Ok(catalog) => {
                if world.selectable.learn(catalog) {
                    world.selectable.follow(&world.events.selectors());
                    world.events.add_all(Urgency::Live);
                }
            }
            Err(error) => warn!(
                problem = chain(&error),
                "cannot discover the kinds of the hub"
            ),
        }
    }
}

async fn pages(
    options: &HubOptions,
    numbers: &Arc<HubMetrics>,
    health: &Arc<Health>,
    stop: &CancellationToken,
) -> Result<Vec<AbortOnDropHandle<()>>, ServeError> {
    let numbers = Arc::clone(numbers);
    let metrics = Pages::Site(Arc::new(MetricsPage(move || numbers.render())));
    let probes = Pages::Probes(Arc::clone(health));
    let wanted = [
        ("--metrics-bind-address", &options.metrics_address, metrics),
        (
            "--health-probe-bind-address",
            &options.health_address,
            probes,
        ),
    ];
    serve::serve_at(wanted, stop).await
}

fn pace() -> Pace {
    Pace {
        retry: (Duration::from_millis(100), Duration::from_secs(5)),
        ..Pace::default()
    }
}

/// The duration of a flag, as decisions take it.
pub fn signed(duration: Duration) -> SignedDuration {
    SignedDuration::try_from(duration).unwrap_or(SignedDuration::MAX)
}
