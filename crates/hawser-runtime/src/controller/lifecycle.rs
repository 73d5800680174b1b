//! Tasks of every process beside its passes, from start to end.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use tokio_util::task::AbortOnDropHandle;

use crate::cluster::config::Watched;
use crate::cluster::connection::Connection;
use crate::process::lease::Leadership;
use crate::process::serve::Health;
use crate::process::shutdown;

/// The interval of the heartbeat.
const BEAT: Duration = Duration::from_secs(5);
/// The time limit for active work when the process stops.
const DRAIN: Duration = Duration::from_secs(3);

/// The time limit for releasing the lease.
const RELEASE: Duration = Duration::from_millis(1500);

/// Marks the process alive while its main loop runs, and calls `each` every time.
pub fn beat(health: &Arc<Health>, each: impl Fn() + Send + 'static) -> AbortOnDropHandle<()> {
    let health = Arc::clone(health);
    AbortOnDropHandle::new(tokio::spawn(async move {
        let mut beats = tokio::time::interval(BEAT);
        loop {
            beats.tick().await;
            health.beat();
            each();
        }
    }))
}

/// Renews a connection whenever the files of its credentials change.
pub fn renew(watched: Watched, connection: &Connection) -> AbortOnDropHandle<()> {
    let connection = connection.clone();
    let renewing = watched.follow(move |config| connection.renew(config));
    AbortOnDropHandle::new(tokio::spawn(renewing))
}

/// Waits for the work that is under way, within the time limit. Nothing new may begin by then.
pub async fn drain(work: impl Future) {
    shutdown::within(DRAIN, "finishing active requests", work).await;
}

/// Waits until all shards are released, within the time limit.
pub async fn release_shards(keeper: impl Future) {
    shutdown::within(RELEASE, "releasing the shards", keeper).await;
}

/// Releases the lease, within the time limit, if this process leads.
pub async fn release(leadership: Option<Leadership>) {
    if let Some(leadership) = leadership {
        shutdown::within(RELEASE, "releasing the lease", leadership.release()).await;
    }
}
