//! Who sees what when, and how it is printed.

use std::collections::HashMap;
use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result};
use futures::StreamExt as _;
use kube::runtime::WatchStreamExt as _;
use kube::runtime::watcher::{Config, watcher};
use kube::{Api, Resource, ResourceExt as _};
use parking_lot::Mutex;
use serde::de::DeserializeOwned;
use tokio::sync::Notify;
use tokio::time::{Instant, timeout};
use tokio_util::task::AbortOnDropHandle;

pub(crate) const LATE: Duration = Duration::from_mins(20);

pub(crate) fn millis(time: Duration) -> String {
    format!("{:.1}", time.as_secs_f64() * 1000.0)
}

pub(crate) fn print_times(what: &str, mut times: Vec<Duration>) {
    times.sort();
    let at = |part: usize| millis(times[(times.len() - 1) * part / 100]);
    println!(
        "  {what:<28} p50 {} ms, p90 {} ms, most {} ms",
        at(50),
        at(90),
        at(100)
    );
}

/// When the value of each object was last seen. Names differ, whatever namespace they are in.
pub(crate) struct Sightings {
    seen: Arc<Seen>,
    _watching: AbortOnDropHandle<()>,
}

#[derive(Default)]
struct Seen {
    times: Mutex<HashMap<String, (String, Instant)>>,
    changed: Notify,
}

impl Sightings {
    pub(crate) fn start<K>(of: Api<K>, value: impl Fn(&K) -> String + Send + 'static) -> Self
    where
        K: Resource + Clone + DeserializeOwned + Debug + Send + 'static,
    {
        let seen = Arc::<Seen>::default();
        let noted = Arc::clone(&seen);
        let mut events = watcher(of, Config::default())
            .default_backoff()
            .applied_objects()
            .boxed();
        let watching = tokio::spawn(async move {
            while let Some(event) = events.next().await {
                let Ok(object) = event else { continue };
                let sighting = (value(&object), Instant::now());
                noted.times.lock().insert(object.name_any(), sighting);
                noted.changed.notify_waiters();
            }
        });
        Self {
            seen,
            _watching: AbortOnDropHandle::new(watching),
        }
    }

    /// When an object has a value; a sighting after a time, where one is given.
    pub(crate) async fn until(
        &self,
        name: &str,
        value: &str,
        since: Option<Instant>,
    ) -> Result<Instant> {
        let looking = async {
            loop {
                let changed = self.seen.changed.notified();
                let mut changed = std::pin::pin!(changed);
                changed.as_mut().enable();
                if let Some((found, at)) = self.seen.times.lock().get(name)
                    && found == value
                    && since.is_none_or(|since| *at > since)
                {
                    return *at;
                }
                changed.await;
            }
        };
        let found = timeout(LATE, looking).await;
        found.with_context(|| format!("{name} never had {value}"))
    }
}
