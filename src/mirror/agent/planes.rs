//! The connections to both clusters.

use std::num::NonZeroU32;
use std::sync::Arc;

use super::link::Link;
use super::numbers::{Location, Numbers};
use crate::mirror::definition::{Definition, Plane};
use crate::mirror::rules::side;
use hawser_runtime::cluster::connection::{ConnectError, Connection, Limits, Observer};
use hawser_runtime::cluster::wire::{Atlas, Place};
use hawser_sync::Scope;

/// Under this name API servers note who wrote a field.
const AGENT: &str = concat!("cr-syncer/v", env!("CARGO_PKG_VERSION"), " (hawser)");

/// Both clusters. Cheap to clone.
#[derive(Clone)]
pub struct Planes {
    pub cloud: Connection,
    pub robot: Connection,
    pub link: Arc<Link>,
}

/// Where to, and how much at a time.
pub struct Ends {
    pub cloud: kube::Config,
    pub robot: kube::Config,
    pub in_flight: usize,
    pub per_second: Option<NonZeroU32>,
}

impl Planes {
    pub fn connect(ends: Ends, numbers: &Arc<Numbers>) -> Result<Self, ConnectError> {
        let link = Arc::new(Link::default());
        let connect = |config: kube::Config, observer| {
            let limits = Limits {
                in_flight: ends.in_flight,
                per_second: ends.per_second,
                observer: Some(observer),
                agent: AGENT,
                ..Limits::default()
            };
            Connection::new(config, limits)
        };
        let observer = |location, config: &kube::Config, link| -> Arc<dyn Observer> {
            Arc::new(Both {
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

/// Where the objects of one definition are.
pub struct Map {
    pub planes: Planes,
    pub definition: Arc<Definition>,
}

impl Atlas for Map {
    fn place(&self, scope: &Scope) -> Option<Place> {
        let planes = [Plane::Cloud, Plane::Robot];
        let plane = planes
            .into_iter()
            .find(|plane| side(*plane) == scope.side)?;
        (scope.kind == self.definition.kind).then(|| Place {
            connection: self.planes.at(plane).clone(),
            resource: Arc::clone(&self.definition.plural),
        })
    }
}

struct Both {
    link: Option<Arc<Link>>,
    calls: super::numbers::Calls,
}

impl Observer for Both {
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
