//! The pages of a process about its overview.
//!
//! | path | content |
//! |---|---|
//! | `/` | the overview as HTML |
//! | `/reasons/CODE` | the objects of one reason as HTML |
//! | `/overview.json` | the overview as JSON |
//! | `/objects/CONFIG/TENANT/NAMESPACE/NAME` | the attempts of one object as JSON; `-` stands for no namespace |

use std::fmt;
use std::io::ErrorKind;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use http::StatusCode;
use parking_lot::Mutex;
use percent_encoding::{NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};
use serde::Serialize;
use tokio::time::Instant;
use tracing::{info, warn};

use super::{AttemptsOverview, ObjectAnswer, Overview, Role, page};
use crate::process::serve::{self, Bound, ServeError, Site, SitePage};

/// An overview is made at most once in this time, however many clients want it.
const FRESH: Duration = Duration::from_secs(1);

const HTML: &str = "text/html; charset=utf-8";
const JSON: &str = "application/json";

/// The default listen address of a page.
pub const PAGE_ADDRESS: &str = "127.0.0.1:8090";

/// Listens on the address of `--page-address`. If the default address is in use, there is no page: command lines of
/// the programs that Hawser replaces do not name another one.
pub async fn bind_page(address: &str) -> Result<Option<Bound>, ServeError> {
    match serve::bind("--page-address", address).await {
        Ok(bound) => {
            info!(address = %bound.address(), "serving the page");
            Ok(Some(bound))
        }
        Err(ServeError::Listen { source, .. })
            if address == PAGE_ADDRESS && source.kind() == ErrorKind::AddrInUse =>
        {
            warn!(
                address,
                "running without the page: the address is in use; set --page-address"
            );
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

/// Where overviews come from.
pub trait OverviewSource: Send + Sync {
    /// The name of the process.
    fn name(&self) -> &str;

    fn role(&self) -> Role;

    fn overview(&self) -> Overview;

    /// Whether another process works on an object.
    fn is_elsewhere(&self, _object: &ObjectPath<'_>) -> bool {
        false
    }

    /// What the process knows of an object; `None` if it has nothing to do about it.
    fn attempts(&self, object: &ObjectPath<'_>) -> Option<AttemptsOverview>;
}

/// An object in the path of a page, which its `Display` writes.
#[derive(Clone, Copy, Debug)]
pub struct ObjectPath<'p> {
    pub config: &'p str,
    pub tenant: &'p str,
    pub namespace: Option<&'p str>,
    pub name: &'p str,
}

impl fmt::Display for ObjectPath<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            config,
            tenant,
            namespace,
            name,
        } = self;
        let encoded = |part| utf8_percent_encode(part, NON_ALPHANUMERIC);
        write!(f, "/objects/{}/{}/", encoded(config), encoded(tenant))?;
        match namespace {
            Some(namespace) => write!(f, "{}", encoded(namespace))?,
            None => f.write_str("-")?,
        }
        write!(f, "/{}", encoded(name))
    }
}

/// Serves the overviews of a source. They are made on other threads, because probes and the lease must not wait for
/// them.
pub struct OverviewSite<S>(Arc<Overviews<S>>);

/// The overviews of a source.
struct Overviews<S> {
    source: Arc<S>,
    last: Mutex<Option<(Instant, Arc<Overview>)>>,
}

impl<S: OverviewSource> OverviewSite<S> {
    pub fn new(source: &Arc<S>) -> Self {
        Self(Arc::new(Overviews {
            source: Arc::clone(source),
            last: Mutex::default(),
        }))
    }
}

impl<S: OverviewSource> Overviews<S> {
    fn overview(&self) -> Arc<Overview> {
        let mut last = self.last.lock();
        let fresh = last.as_ref().filter(|(made, _)| made.elapsed() < FRESH);
        if let Some((_, overview)) = fresh {
            return Arc::clone(overview);
        }
        let overview = Arc::new(self.source.overview());
        *last = Some((Instant::now(), Arc::clone(&overview)));
        overview
    }

    fn said(&self, path: &str) -> Option<SitePage> {
        if let Some(path) = path.strip_prefix("/objects/") {
            let decoded = |part: &str| percent_decode_str(part).decode_utf8_lossy().into_owned();
            let parts: Vec<String> = path.split('/').map(decoded).collect();
            let [config, tenant, namespace, name] = parts.as_slice() else {
                return None;
            };
            let object = ObjectPath {
                config,
                tenant,
                namespace: (namespace != "-").then_some(namespace),
                name,
            };
            return json(&ObjectAnswer {
                agent: self.source.name().to_owned(),
                role: self.source.role(),
                elsewhere: self.source.is_elsewhere(&object),
                attempts: self.source.attempts(&object),
            });
        }
        let overview = self.overview();
        match path {
            "" => Some((StatusCode::OK, HTML, page::overview(&overview))),
            "/overview.json" => json(&*overview),
            _ => {
                let code = path.strip_prefix("/reasons/")?;
                Some((StatusCode::OK, HTML, page::reason(&overview, code)?))
            }
        }
    }
}

impl<S: OverviewSource + 'static> Site for OverviewSite<S> {
    fn page<'a>(&'a self, path: &'a str) -> BoxFuture<'a, Option<SitePage>> {
        let (overviews, path) = (Arc::clone(&self.0), path.to_owned());
        let said = tokio::task::spawn_blocking(move || overviews.said(&path));
        // It fails only if it panics; then there is no page.
        said.map(|said| said.ok().flatten()).boxed()
    }
}

fn json(value: &impl Serialize) -> Option<SitePage> {
    let text = serde_json::to_string(value).ok()?;
    Some((StatusCode::OK, JSON, text))
}
