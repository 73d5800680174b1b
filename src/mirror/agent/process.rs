//! The process of the mirror, from start to end.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use http::StatusCode;
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;
use tracing::info;

use super::credentials::{Renewal, TokenError, TokenFormat};
use super::following::CrdController;
use super::health::CloudHealth;
use super::numbers::MirrorMetrics;
use super::planes::{MirrorConnections, PlaneConfig};
use super::syncer::{SyncerConfig, WORKERS};
use super::way::{Proxies, RouteError};
use crate::mirror::options::{Cloud, MirrorOptions, Tokens};
use hawser_runtime::cluster::brake::BrakeOptions;
use hawser_runtime::cluster::config::{ConfigError, Environment, Lookup, Source, Watched};
use hawser_runtime::cluster::connection::{ConnectError, WriteGuard, without_user};
use hawser_runtime::cluster::feed::Pace;
use hawser_runtime::controller::lifecycle;
use hawser_runtime::overview::site::{OverviewSite, bind_page};
use hawser_runtime::process::metrics;
use hawser_runtime::process::serve::{self, Health, Pages, ServeError, Site, SitePage};

/// The errors that end a mirror.
#[derive(Debug, thiserror::Error)]
pub enum MirrorError {
    #[error(transparent)]
    Config(#[from] ConfigError),
    #[error("{0:?} is not an https address of the cloud")]
    Address(String),
    #[error("reading the certificate authority of the cloud from {path}")]
    Authority {
        path: PathBuf,
        source: std::io::Error,
    },
    #[error("{0} contains no PEM certificate")]
    NoAuthority(PathBuf),
    #[error(transparent)]
    CloudRoute(#[from] RouteError),
    #[error(transparent)]
    Connect(#[from] ConnectError),
    #[error(transparent)]
    Token(#[from] TokenError),
    #[error(transparent)]
    Serve(#[from] ServeError),
}

/// The default interval of the resync, as in cr-syncer.
const RESYNC: Duration = Duration::from_mins(5);

/// Runs until stopped, or until the mirror cannot go on.
pub async fn run(options: MirrorOptions, stop: CancellationToken) -> Result<(), MirrorError> {
    let numbers = MirrorMetrics::new();
    let gates = ["robot", "credentials"];
    let health = Arc::new(Health::missing(gates));
    let connected = Connected::new(&options, &numbers, None)?;
    let planes = connected.planes.clone();
    let following = CrdController::new(
        &planes,
        &numbers,
        options.settings.clone(),
        syncer_config(&options),
        stop.clone(),
    );
    let site = Arc::new(StatusPage {
        numbers: Arc::clone(&numbers),
        health: Arc::clone(&health),
        cloud: CloudHealth::new(&planes),
        following: Arc::clone(&following),
    });
    match stop.run_until_cancelled(connected.find_tokens()).await {
        Some(found) => found?,
        None => return Ok(()),
    }
    let _pages = match &options.listen_address {
        None => None,
        Some(address) => {
            let bound = serve::bind("--listen-address", address).await?;
            info!(address = %bound.address(), "serving pages");
            let serving = bound.serve(Pages::Site(site), stop.clone());
            Some(AbortOnDropHandle::new(tokio::spawn(serving)))
        }
    };
    let _page = match &options.page_address {
        None => None,
        Some(address) => bind_page(address).await?.map(|bound| {
            let pages = Pages::Private(Arc::new(OverviewSite::new(&following)));
            AbortOnDropHandle::new(tokio::spawn(bound.serve(pages, stop.clone())))
        }),
    };
    let _renewed = connected.renew(&health);
    let counted = Arc::clone(&following);
    let _beats = lifecycle::beat(&health, move || counted.count());
    info!(
        version = env!("CARGO_PKG_VERSION"),
        robot = options.settings.robot_name,
        cloud = planes.cloud.url(),
        "starting the mirror"
    );
    following.run(|| health.found("robot")).await;
    info!("Shutting down");
    Ok(())
}

/// The connections to both clusters, and the sources of their credentials.
pub(super) struct Connected {
    pub(super) planes: MirrorConnections,
    robot: Watched,
    cloud: Option<Watched>,
    renewal: Option<Renewal>,
    /// The metadata server of a cloud machine may not exist.
    is_sought: bool,
}

impl Connected {
    /// Without a token for the cloud yet. The guard is asked before each write.
    pub(super) fn new(
        options: &MirrorOptions,
        numbers: &Arc<MirrorMetrics>,
        guard: Option<Arc<WriteGuard>>,
    ) -> Result<Self, MirrorError> {
        let lookup = kubeconfig(options.kubeconfig.as_ref());
        let (robot_watched, robot) =
            Watched::start(Source::find(&lookup, &Environment::of_process())?)?;
        let (cloud, cloud_watched) = match &options.cloud {
            Cloud::Server { url, ca_file, .. } => (server(url, ca_file.as_ref())?, None),
            Cloud::Kubeconfig(path) => {
                let (watched, config) = Watched::start(Source::find(
                    &kubeconfig(Some(path)),
                    &Environment::default(),
                )?)?;
                if config.cluster_url.scheme_str() != Some("https") {
                    return Err(MirrorError::Address(without_user(
                        &config.cluster_url.to_string(),
                    )));
                }
                (config, Some(watched))
            }
        };
        let ends = PlaneConfig {
            cloud: cloud.clone(),
            robot,
            in_flight: options.in_flight,
            per_second: options.per_second,
            traces: options.trace_context,
            guard,
        };
        Ok(Self {
            planes: MirrorConnections::connect(ends, numbers)?,
            robot: robot_watched,
            cloud: cloud_watched,
            renewal: renewal(options, cloud)?,
            is_sought: matches!(
                &options.cloud,
                Cloud::Server {
                    tokens: Tokens::Machine(_),
                    ..
                }
            ),
        })
    }

    /// Looks for the metadata server, if tokens come from one that may not exist.
    pub(super) async fn find_tokens(&self) -> Result<(), TokenError> {
        match &self.renewal {
            Some(renewal) if self.is_sought => renewal.find().await,
            _ => Ok(()),
        }
    }

    /// Renews the credentials as long as the tasks live.
    pub(super) fn renew(self, health: &Arc<Health>) -> Vec<AbortOnDropHandle<()>> {
        let planes = &self.planes;
        let robot = lifecycle::renew(self.robot, &planes.robot);
        let cloud = self
            .cloud
            .map(|watched| lifecycle::renew(watched, &planes.cloud));
        let tokens = tokens(self.renewal, planes, health);
        [Some(robot), cloud, tokens].into_iter().flatten().collect()
    }
}

pub(super) fn syncer_config(options: &MirrorOptions) -> SyncerConfig {
    SyncerConfig {
        pace: Pace {
            retry: (Duration::from_millis(800), Duration::from_secs(30)),
            lasts: (options.watch_seconds, options.watch_seconds),
            ..Pace::default()
        },
        resync: RESYNC,
        conflict_limit: options.conflict_limit,
        brake: options.brake.map(|share| BrakeOptions {
            share,
            few: 0,
            ..BrakeOptions::default()
        }),
        workers: WORKERS,
    }
}

fn kubeconfig(path: Option<&PathBuf>) -> Lookup {
    Lookup {
        kubeconfig: path.cloned(),
        ..Lookup::default()
    }
}

/// The configuration of the cloud by its address, without a token yet.
fn server(url: &str, ca_file: Option<&PathBuf>) -> Result<kube::Config, MirrorError> {
    let wrong = |_| MirrorError::Address(without_user(url));
    let mut config = kube::Config::new(url.parse().map_err(wrong)?);
    config.proxy_url = Proxies::of_process().to(&config.cluster_url)?;
    if let Some(path) = ca_file {
        let read = std::fs::read(path).map_err(|source| MirrorError::Authority {
            path: path.clone(),
            source,
        })?;
        let authorities = certificates(&read);
        if authorities.is_empty() {
            return Err(MirrorError::NoAuthority(path.clone()));
        }
        config.root_cert = Some(authorities);
    }
    Ok(config)
}

/// The certificates of a PEM file.
fn certificates(pem: &[u8]) -> Vec<Vec<u8>> {
    use rustls::pki_types::CertificateDer;
    use rustls::pki_types::pem::PemObject as _;
    let found = CertificateDer::pem_slice_iter(pem).filter_map(Result::ok);
    found.map(|certificate| certificate.to_vec()).collect()
}

fn renewal(options: &MirrorOptions, cloud: kube::Config) -> Result<Option<Renewal>, TokenError> {
    Ok(match &options.cloud {
        Cloud::Server { tokens, .. } => match tokens {
            Tokens::RobotJwt(url) => Some(Renewal::new(url, TokenFormat::Jwt, cloud)?),
            Tokens::AccessToken(url) | Tokens::Machine(url) => {
                Some(Renewal::new(url, TokenFormat::AccessToken, cloud)?)
            }
            Tokens::Account(file) => {
                let proxies = Proxies::of_process();
                Some(Renewal::account(file.clone(), cloud, proxies)?)
            }
            Tokens::File(file) => Some(Renewal::file(file.clone(), cloud)),
        },
        Cloud::Kubeconfig(_) => None,
    })
}

fn tokens(
    renewal: Option<Renewal>,
    planes: &MirrorConnections,
    health: &Arc<Health>,
) -> Option<AbortOnDropHandle<()>> {
    let Some(renewal) = renewal else {
        planes.link.admit();
        health.found("credentials");
        return None;
    };
    let (health, link) = (Arc::clone(health), Arc::clone(&planes.link));
    let told = move |result: Result<(), String>| match result {
        Ok(()) => {
            link.admit();
            health.found("credentials");
        }
        Err(problem) => health.lost("credentials", &problem),
    };
    let running = renewal.run(planes.cloud.clone(), told);
    Some(AbortOnDropHandle::new(tokio::spawn(running)))
}

/// The pages of the process.
struct StatusPage {
    numbers: Arc<MirrorMetrics>,
    health: Arc<Health>,
    cloud: CloudHealth,
    following: Arc<CrdController>,
}

impl Site for StatusPage {
    fn page<'a>(&'a self, path: &'a str) -> BoxFuture<'a, Option<SitePage>> {
        self.said(path).boxed()
    }
}

impl StatusPage {
    async fn said(&self, path: &str) -> Option<SitePage> {
        let plain = "text/plain; charset=utf-8";
        let check = |problems: Vec<String>| {
            if problems.is_empty() {
                (StatusCode::OK, plain, "ok\n".to_owned())
            } else {
                let status = StatusCode::SERVICE_UNAVAILABLE;
                (status, plain, problems.join("\n") + "\n")
            }
        };
        Some(match path {
            "/metrics" => {
                // As it is now, not as it was some seconds ago.
                self.following.count();
                (StatusCode::OK, metrics::CONTENT_TYPE, self.numbers.render())
            }
            "/debug" => {
                let html = "text/html; charset=utf-8";
                (StatusCode::OK, html, self.numbers.traces.page())
            }
            // Only credentials that the cloud does not take are a reason to begin anew.
            "/health" if self.cloud.is_well().await => (StatusCode::OK, plain, String::new()),
            "/health" => {
                let status = StatusCode::INTERNAL_SERVER_ERROR;
                (status, plain, "unhealthy".to_owned())
            }
            "/healthz" => check(self.health.not_alive().into_iter().collect()),
            "/readyz" => check(self.health.not_ready()),
            _ => return None,
        })
    }
}
