//! All of the agent together, from start to end.

use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;
use tracing::info;

use hawser_placement::availability::Jobs;
use hawser_runtime::cluster::config::{ConfigError, Environment, Lookup, Source, Watched};
use hawser_runtime::cluster::connection::{ConnectError, Connection, Limits};
use hawser_runtime::controller::lifecycle;
use hawser_runtime::process::lease::{self, Fence, Leadership, LeaseOptions, Lock, Terms, elect};
use hawser_runtime::process::metrics::Metrics;
use hawser_runtime::process::serve::{self, Health, MetricsPage, Pages, ServeError};
use hawser_runtime::process::shutdown;

use super::applier::Applier;
use super::membership::Membership;
use super::options::{HubConfigError, MemberOptions};
use super::sides::MemberSides;

/// What ends an agent for good.
#[derive(Debug, thiserror::Error)]
pub enum MemberError {
    #[error(transparent)]
    Config(#[from] ConfigError),
    #[error(transparent)]
    Hub(#[from] HubConfigError),
    #[error(transparent)]
    Connect(#[from] ConnectError),
    #[error(transparent)]
    Serve(#[from] ServeError),
    #[error("lost the leadership: another member agent may lead now")]
    LeadershipLost,
}

/// The name of the lock.
const LOCK: &str = "136224848560.member.fleet.azure.com";
/// How long it may take to let the next one lead.
const RELEASE: Duration = Duration::from_millis(1500);

/// Runs until told to stop, or until nothing can go on.
pub async fn run(options: MemberOptions, stop: CancellationToken) -> Result<(), MemberError> {
    let metrics = Arc::new(Metrics::new());
    let health = Arc::new(Health::missing([]));
    let _pages = pages(&options, &metrics, &health, &stop).await?;
    let fence = options.lease_namespace.as_ref().map(|_| Fence::closed());
    let limits = |side: &'static str, config: &kube::Config| Limits {
        guard: fence.as_ref().map(Fence::guard),
        observer: Some(Arc::new(
            metrics.requests(
                side,
                config
                    .cluster_url
                    .authority()
                    .map_or("", |authority| authority.as_str()),
            ),
        )),
        ..Limits::default()
    };
    let lookup = Lookup {
        kubeconfig: options.kubeconfig.clone(),
        ..Lookup::default()
    };
    let source = Source::find(&lookup, &Environment::of_process())?;
    let (watched, config) = Watched::start(source)?;
    let of_member = limits("member", &config);
    let member = Connection::new(config, of_member)?;
    let _member = lifecycle::renew(watched, &member);
    let (watched, config) = options.hub.config()?;
    let of_hub = limits("hub", &config);
    let hub = Connection::new(config, of_hub)?;
    let _hub = watched.map(|watched| lifecycle::renew(watched, &hub));
    info!(
        version = env!("CARGO_PKG_VERSION"),
        name = options.name,
        hub = hub.url(),
        member = member.url(),
        "member agent"
    );
    let leadership = match (&options.lease_namespace, &fence) {
        (Some(namespace), Some(fence)) => {
            let lease = LeaseOptions {
                lock: Lock::Lease,
                namespace: namespace.clone(),
                name: LOCK.to_owned(),
                identity: lease::identity(),
                terms: Terms::USUAL,
                fence: fence.clone(),
                metrics: Arc::clone(&metrics),
            };
            tokio::select! {
                () = stop.cancelled() => return Ok(()),
                leadership = elect(member.clone(), lease) => Some(leadership),
            }
        }
        _ => None,
    };
    let lost = leadership
        .as_ref()
        .map(|leadership| leadership.lost().clone());
    let lost = lost.unwrap_or_default();
    let sides = MemberSides::new(&options.name, hub, member);
    let jobs = if options.tracks_jobs {
        Jobs::Tracked
    } else {
        Jobs::NotTracked
    };
    let applier = Applier::new(&sides, jobs, &metrics);
    let counted = Arc::clone(&applier);
    let _beats = lifecycle::beat(&health, move || counted.count());
    let mut working = JoinSet::new();
    working.spawn(Arc::clone(&applier).run());
    let membership = AbortOnDropHandle::new(tokio::spawn(Membership::new(&applier).run()));
    let ended = tokio::select! {
        () = stop.cancelled() => Ok(()),
        () = lost.cancelled() => Err(MemberError::LeadershipLost),
    };
    drop(membership);
    applier.close();
    lifecycle::drain(async { while working.join_next().await.is_some() {} }).await;
    if let Some(leadership) = leadership {
        let release = Leadership::release(leadership);
        shutdown::within(RELEASE, "releasing the lease", release).await;
    }
    ended
}

async fn pages(
    options: &MemberOptions,
    metrics: &Arc<Metrics>,
    health: &Arc<Health>,
    stop: &CancellationToken,
) -> Result<Vec<AbortOnDropHandle<()>>, ServeError> {
    let metrics = Arc::clone(metrics);
    let wanted = [
        (
            "--metrics-bind-address",
            &options.metrics_address,
            Pages::Site(Arc::new(MetricsPage(move || metrics.render()))),
        ),
        (
            "--health-probe-bind-address",
            &options.health_address,
            Pages::Probes(Arc::clone(health)),
        ),
    ];
    serve::serve_at(wanted, stop).await
}
