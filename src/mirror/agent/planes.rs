//! The connections to both clusters.

use std::num::NonZeroU32;
use std::sync::Arc;

use super::link::Link;
use super::numbers::MirrorMetrics;
use super::traces::Location;
use crate::mirror::definition::Plane;
use hawser_runtime::cluster::connection::{ConnectError, Connection, Limits, Observer, WriteGuard};

/// The `User-Agent`, under which API servers record the owner of a field.
const AGENT: &str = concat!("cr-syncer/v", env!("CARGO_PKG_VERSION"), " (hawser)");

/// Both clusters. Cheap to clone.
#[derive(Clone)]
pub struct MirrorConnections {
    pub cloud: Connection,
    pub robot: Connection,
    pub link: Arc<Link>,
}

/// The configurations of both clusters, and the limits of requests.
pub struct PlaneConfig {
    pub cloud: kube::Config,
    pub robot: kube::Config,
    pub in_flight: usize,
    pub per_second: Option<NonZeroU32>,
    pub traces: bool,
    /// Asked before each write.
    pub guard: Option<Arc<WriteGuard>>,
}

impl MirrorConnections {
    pub fn connect(ends: PlaneConfig, numbers: &Arc<MirrorMetrics>) -> Result<Self, ConnectError> {
        let link = Arc::new(Link::default());
        let connect = |config: kube::Config, observer| {
            let limits = Limits {
                in_flight: ends.in_flight,
                per_second: ends.per_second,
                observer: Some(observer),
                agent: AGENT,
                traces: ends.traces,
                guard: ends.guard.clone(),
                ..Limits::default()
            };
            Connection::new(config, limits)
        };
        let observer = |location, config: &kube::Config, link| -> Arc<dyn Observer> {
            Arc::new(SideMap {
                link,
                calls: numbers.calls(location, &config.cluster_url),
            })
        };
        let to_cloud = observer(Location::Remote, &ends.cloud, Some(Arc::clone(&link)));
        let to_robot = observer(Location::Local, &ends.robot, None);
        Ok(Self {
            cloud: connect(ends.cloud, to_cloud)?,
            robot: connect(ends.robot, to_robot)?,
            link,
        })
    }

    pub fn at(&self, plane: Plane) -> &Connection {
        match plane {
            Plane::Cloud => &self.cloud,
            Plane::Robot => &self.robot,
        }
    }
}

struct SideMap {
    link: Option<Arc<Link>>,
    calls: super::numbers::Calls,
}

impl Observer for SideMap {
    fn answered(&self, call: &http::Method, code: Option<u16>) {
        if let Some(link) = &self.link {
            link.answered(call, code);
        }
    }

    fn measured(
        &self,
        call: &http::Method,
        code: Option<u16>,
        took: std::time::Duration,
        sent: usize,
    ) {
        self.calls.measured(call, code, took, sent);
    }
}
