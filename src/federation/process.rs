//! The process of the control plane, from start to end.

use std::sync::Arc;

use jiff::Timestamp;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;
use tracing::info;

#[cfg(feature = "webhook")]
use hawser_federation::admission::webhooks::Webhook;
use hawser_federation::check::CheckSettings;
use hawser_federation::placement::Scope as ControlScope;
use hawser_runtime::cluster::cache::Cache;
use hawser_runtime::cluster::config::{ConfigError, Environment, Lookup, Source, Watched};
use hawser_runtime::cluster::connection::{self, ConnectError, Connection, Limits};
use hawser_runtime::cluster::events;
use hawser_runtime::controller::lifecycle;
use hawser_runtime::process::lease::{self, Fence, LeaseOptions, elect};
use hawser_runtime::process::serve::{self, Health, MetricsPage, Pages, ServeError};

use super::config::SettingsError;
use super::events::EventRecorder;
use super::host::FederationSettings;
use super::members::MemberController;
use super::numbers::FederationMetrics;
use super::options::FederationOptions;
use super::pages::ProcessPages;
use super::propagation::{Propagation, route_host};
use super::queues::Checks;
use super::scheduling::Scheduler;
use super::types::TypeController;
#[cfg(feature = "webhook")]
use super::webhook::{FederationReviewer, site};
#[cfg(feature = "webhook")]
use crate::webhook::{Configured, WebhookError, WebhookServer};

/// An error that ends the control plane.
#[derive(Debug, thiserror::Error)]
pub enum FederationError {
    #[error(transparent)]
    Config(#[from] ConfigError),
    #[error(transparent)]
    Connect(#[from] ConnectError),
    #[error(transparent)]
    Settings(#[from] SettingsError),
    #[error(transparent)]
    Serve(#[from] ServeError),
    #[cfg(feature = "webhook")]
    #[error(transparent)]
    Webhook(#[from] WebhookError),
    #[error("lost lease: another control plane may lead now")]
    LeadershipLost,
}

/// The name of the lock.
const LOCK: &str = "kubefed-controller-manager";
/// Runs until a signal or an error stops it.
pub async fn run(
    options: FederationOptions,
    stop: CancellationToken,
) -> Result<(), FederationError> {
    let numbers = FederationMetrics::new();
    let health = Arc::new(Health::missing(["host"]));
    let _pages = pages(&options, &numbers, &health, &stop).await?;
    let lookup = Lookup {
        kubeconfig: options.kubeconfig.clone(),
        host_override: options.master.clone(),
        ..Lookup::default()
    };
    let source = Source::find(&lookup, &Environment::of_process())?;
    let (watched, config) = Watched::start(source)?;
    let fence = Fence::closed();
    let to = connection::host(&config.cluster_url);
    let limits = Limits {
        guard: Some(fence.guard()),
        observer: Some(Arc::new(numbers.requests("host", to))),
        per_second: options.per_second,
        ..Limits::default()
    };
    let host = Connection::new(config.clone(), limits)?;
    // The configuration may have to be written before anybody leads.
    let aside = Connection::new(config, Limits::default())?;
    let renewed = (host.clone(), aside.clone());
    let following = watched.follow(move |config| {
        renewed.1.renew(config.clone())?;
        renewed.0.renew(config)
    });
    let _watched = AbortOnDropHandle::new(tokio::spawn(following));
    // Before the configuration is written: an API server may know the webhook already.
    #[cfg(feature = "webhook")]
    let webhook = match &options.webhook {
        Some(given) => {
            let of = Webhook {
                namespace: options.namespace.clone(),
                scope: ControlScope::Cluster,
                address: given.address.clone(),
            };
            let (host, reviewer) = (aside.clone(), FederationReviewer);
            let start =
                WebhookServer::start(&given.listens, host, site(&of), reviewer, stop.clone());
            Some((start.await?, of))
        }
        None => None,
    };
    let settings = if let Some(file) = &options.config_file {
        FederationSettings::read_file(&options.namespace, file)?
    } else {
        tokio::select! {
            () = stop.cancelled() => return Ok(()),
            settings = FederationSettings::read(&aside, &options.namespace, options.scope) => settings?,
        }
    };
    let settings = Arc::new(FederationSettings {
        give_up_after: options.give_up_after,
        overrides_all: options.overrides_all,
        federates_annotations: options.federates_annotations,
        ..settings
    });
    health.found("host");
    #[cfg(feature = "webhook")]
    let _webhook = webhook.map(|(server, of)| {
        let scope = settings.scope;
        let of = Webhook { scope, ..of };
        let keeping = server.keep(Configured {
            owner: of.owner(),
            make: move |bundle: &str| of.configurations(bundle).into(),
        });
        AbortOnDropHandle::new(tokio::spawn(keeping))
    });
    info!(
        version = env!("CARGO_PKG_VERSION"),
        host = host.url(),
        "{}",
        match settings.scope {
            ControlScope::Cluster => "KubeFed will target all namespaces".to_owned(),
            ControlScope::Namespaced => {
                let namespace = &settings.namespace;
                format!("KubeFed will be limited to the {namespace:?} namespace")
            }
        }
    );
    let lease = LeaseOptions {
        lock: settings.lock,
        namespace: settings.namespace.clone(),
        name: LOCK.to_owned(),
        identity: lease::identity(),
        terms: settings.terms,
        fence: fence.clone(),
        marks: lease::Marks::default(),
        metrics: Arc::clone(&numbers.metrics),
    };
    let leadership = tokio::select! {
        () = stop.cancelled() => return Ok(()),
        leadership = elect(aside, lease) => leadership,
    };
    info!("promoted as leader");
    let lost = leadership.lost().clone();
    let scheduling = settings.schedules.then_some(options.scheduling);
    let work = ControlPlane::start(&host, &settings, scheduling, &fence, &numbers, &health);
    let ended = tokio::select! {
        () = stop.cancelled() => Ok(()),
        () = lost.cancelled() => Err(FederationError::LeadershipLost),
    };
    work.end().await;
    lifecycle::release(Some(leadership)).await;
    ended
}

/// A running control plane.
struct ControlPlane {
    members: Arc<MemberController>,
    types: Arc<TypeController>,
    propagation: Arc<Propagation>,
    checks: Option<Checks>,
    working: JoinSet<()>,
    _sending: AbortOnDropHandle<()>,
    _beats: AbortOnDropHandle<()>,
}

impl ControlPlane {
    fn start(
        host: &Connection,
        settings: &Arc<FederationSettings>,
        scheduling: Option<CheckSettings>,
        fence: &Fence,
        numbers: &Arc<FederationMetrics>,
        health: &Arc<Health>,
    ) -> Self {
        let cache = Cache::new();
        route_host(&cache);
        let (recorder, sender) = events::line(Timestamp::now);
        let host = host.clone();
        let recorder = EventRecorder { host, recorder };
        let host = &recorder.host;
        let members = MemberController::new(host, settings, fence, &cache, &recorder, numbers);
        let known = members.members();
        let checks = scheduling.map(Checks::new);
        let propagation = Propagation::new(
            host,
            settings,
            &cache,
            known,
            &recorder,
            numbers,
            checks.clone(),
        );
        let types = TypeController::new(host, settings, &cache, &propagation);
        info!("Starting cluster controller");
        let mut working = JoinSet::new();
        working.spawn(Arc::clone(&members).run());
        if settings.propagates {
            working.spawn(Arc::clone(&propagation).run());
            working.spawn(Arc::clone(&types).run());
            if let Some(checks) = &checks {
                working.spawn(Scheduler::new(&propagation, checks).run());
            }
        }
        let counted = Arc::clone(&propagation);
        Self {
            members,
            types,
            propagation,
            checks,
            working,
            _sending: AbortOnDropHandle::new(tokio::spawn(sender.run())),
            _beats: lifecycle::beat(health, move || counted.count()),
        }
    }

    /// Starts nothing more, and finishes active work within the time limit.
    async fn end(mut self) {
        self.members.close();
        self.types.close();
        self.propagation.close();
        if let Some(checks) = &self.checks {
            checks.close();
        }
        lifecycle::drain(async { while self.working.join_next().await.is_some() {} }).await;
    }
}

async fn pages(
    options: &FederationOptions,
    numbers: &Arc<FederationMetrics>,
    health: &Arc<Health>,
    stop: &CancellationToken,
) -> Result<Vec<AbortOnDropHandle<()>>, ServeError> {
    let probes = ProcessPages {
        health: Arc::clone(health),
        numbers: Arc::clone(numbers),
    };
    let probes = Pages::Site(Arc::new(probes));
    let numbers = Arc::clone(numbers);
    let metrics = Pages::Site(Arc::new(MetricsPage(move || numbers.render())));
    let wanted = [
        ("--metrics-addr", &options.metrics_address, metrics),
        ("--healthz-addr", &options.healthz_address, probes),
    ];
    serve::serve_at(wanted, stop).await
}
