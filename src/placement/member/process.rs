//! The process of the agent, from start to end.

use std::sync::Arc;

use jiff::Timestamp;
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;
use tracing::info;

use hawser_runtime::cluster::config::{ConfigError, Environment, Lookup, Source, Watched};
use hawser_runtime::cluster::connection::{ConnectError, Connection, Limits, host};
use hawser_runtime::cluster::events as recorded;
use hawser_runtime::controller::lifecycle;
use hawser_runtime::errors::chain;
use hawser_runtime::process::lease::{Fence, LeaseOptions, elect};
use hawser_runtime::process::serve::{self, Health, MetricsPage, Pages, ServeError};

use super::acting::RunningMembers;
use super::applier::Shared;
use super::numbers::MemberMetrics;
use super::options::{HubConfigError, MemberOptions, MemberSelection};
use super::pushed;
use super::sides::MemberAccess;

/// The `User-Agent` header, and with it the field manager of writes that are no apply (`apply::UPDATER`).
const AGENT: &str = concat!("hawser-member/", env!("CARGO_PKG_VERSION"));

/// An error that ends an agent.
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
/// Runs until a signal or an error stops it.
pub async fn run(options: MemberOptions, stop: CancellationToken) -> Result<(), MemberError> {
    let numbers = MemberMetrics::new();
    let metrics = &numbers.metrics;
    let health = Arc::new(Health::missing([]));
    let _pages = pages(&options, &numbers, &health, &stop).await?;
    let fence = options.lease_namespace.as_ref().map(|_| Fence::closed());
    let connect = |side: &'static str, config: kube::Config| {
        let host = host(&config.cluster_url);
        let limits = Limits {
            guard: fence.as_ref().map(Fence::guard),
            observer: Some(Arc::new(metrics.requests(side, host))),
            agent: AGENT,
            ..Limits::default()
        };
        Connection::new(config, limits)
    };
    let (watched, config) = options.hub.config()?;
    let hub = connect("hub", config)?;
    let _hub = watched.map(|watched| lifecycle::renew(watched, &hub));
    let own = match &options.acts_for {
        MemberSelection::Secrets { .. } => None,
        MemberSelection::One { kubeconfig, .. } => {
            let lookup = Lookup {
                kubeconfig: kubeconfig.clone(),
                ..Lookup::default()
            };
            let source = Source::find(&lookup, &Environment::of_process())?;
            let (watched, config) = Watched::start(source)?;
            let member = MemberAccess::new(connect("member", config.clone())?, &config);
            let renewed = lifecycle::renew(watched, &member.connection);
            Some((member, renewed))
        }
    };
    let own = own.as_ref().map(|(member, _)| member);
    info!(
        version = env!("CARGO_PKG_VERSION"),
        acts_for = ?options.acts_for,
        hub = hub.url(),
        member = own.map(|own| own.connection.url()),
        "member agent"
    );
    let leadership = match (&options.lease_namespace, &fence) {
        (Some(namespace), Some(fence)) => {
            let lease = LeaseOptions::usual(namespace, LOCK.to_owned(), fence, metrics);
            let at = own.map_or(&hub, |own| &own.connection).clone();
            tokio::select! {
                () = stop.cancelled() => return Ok(()),
                leadership = elect(at, lease) => Some(leadership),
            }
        }
        _ => None,
    };
    let lost = leadership
        .as_ref()
        .map(|leadership| leadership.lost().clone());
    let lost = lost.unwrap_or_default();
    let (recorder, sender) = recorded::line(Timestamp::now);
    let _sending = AbortOnDropHandle::new(tokio::spawn(sender.run()));
    let at_work = RunningMembers::default();
    let counted = (at_work.clone(), Arc::clone(&numbers));
    let _beats = lifecycle::beat(&health, move || counted.0.count(&counted.1));
    let shared = Shared {
        hub,
        rules: options.rules,
        numbers: Arc::clone(&numbers),
        recorder,
    };
    let acting = async {
        match (&options.acts_for, own) {
            (MemberSelection::One { name, .. }, Some(member)) => {
                at_work.start(name, member.clone(), &shared);
            }
            (MemberSelection::Secrets { namespace }, _) => {
                let connect = |config| connect("member", config);
                pushed::follow(&at_work, &shared, namespace, connect).await;
            }
            (MemberSelection::One { .. }, None) => {}
        }
        std::future::pending::<()>().await;
    };
    let ended = tokio::select! {
        () = stop.cancelled() => Ok(()),
        () = lost.cancelled() => Err(MemberError::LeadershipLost),
        () = acting => Ok(()),
    };
    at_work.end_all().await;
    lifecycle::release(leadership).await;
    ended
}

async fn pages(
    options: &MemberOptions,
    numbers: &Arc<MemberMetrics>,
    health: &Arc<Health>,
    stop: &CancellationToken,
) -> Result<Vec<AbortOnDropHandle<()>>, ServeError> {
    let metrics = || {
        let numbers = Arc::clone(numbers);
        Pages::Site(Arc::new(MetricsPage(move || numbers.render())))
    };
    let probes = || Pages::Probes(Arc::clone(health));
    let wanted = [
        (
            "--metrics-bind-address",
            &options.metrics_address,
            metrics(),
        ),
        (
            "--health-probe-bind-address",
            &options.health_address,
            probes(),
        ),
    ];
    let mut served = serve::serve_at(wanted, stop).await?;
    let second = [
        (
            "--hub-metrics-bind-address",
            &options.hub_metrics_address,
            metrics(),
        ),
        (
            "--hub-health-probe-bind-address",
            &options.hub_health_address,
            probes(),
        ),
    ];
    for (flag, at, pages) in second {
        let Some(at) = at else { continue };
        match serve::bind(flag, &at.address).await {
            Err(error) if at.is_default => {
                info!(problem = chain(&error), "not serving pages of {flag}");
            }
            bound => {
                let bound = bound?;
                info!(address = %bound.address(), "serving pages of {flag}");
                let serving = bound.serve(pages, stop.clone());
                served.push(AbortOnDropHandle::new(tokio::spawn(serving)));
            }
        }
    }
    Ok(served)
}

#[cfg(test)]
mod tests {
    use super::AGENT;
    use hawser_placement::apply::UPDATER;

    #[test]
    fn servers_take_the_manager_of_members_from_their_agent() {
        assert_eq!(AGENT.split('/').next(), Some(UPDATER));
    }
}
