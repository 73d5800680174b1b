//! Who of several processes works: the one that holds a Lease.
//!
//! Knows how a Lease is asked for, kept, given up and lost. All waiting is measured on a clock that only goes
//! forward; what clocks on walls show is written and never read. A [`Fence`] tells every write whether it may
//! still begin. Does not know what the work is.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use super::metrics::Metrics;
use crate::cluster::connection::Connection;

mod fence;
mod record;
mod term;

pub use fence::{Fence, Fenced};
use term::{Asked, End, Term, announce};

/// How long things take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Terms {
    /// Others wait this long for a holder that says nothing.
    pub duration: Duration,
    /// A holder that could not renew for this long gives up.
    pub renew_deadline: Duration,
    /// Between two attempts, at most.
    pub retry: Duration,
}

/// What is elected by.
#[derive(Clone)]
pub struct LeaseOptions {
    pub namespace: String,
    pub name: String,
    /// Nobody else's, ever.
    pub identity: String,
    pub terms: Terms,
    /// Opened when the Lease is held, for as long as nobody else can hold it.
    pub fence: Fence,
    pub metrics: Arc<Metrics>,
}

/// The right to work, for as long as it lasts. Dropping it is giving in without a word: others have to wait
/// until the Lease runs out.
pub struct Leadership {
    fence: Fence,
    lost: CancellationToken,
    stop: CancellationToken,
    keeper: Option<JoinHandle<Term>>,
    connection: Connection,
    options: Arc<LeaseOptions>,
}

/// Waits until this process holds the Lease. Can be dropped at any time.
pub async fn elect(connection: Connection, options: LeaseOptions) -> Leadership {
    let options = Arc::new(options);
    options.metrics.stands_by(&options.name);
    let mut term = Term::new(connection.clone(), Arc::clone(&options));
    let mut told = String::new();
    loop {
        match term.ask().await {
            Asked::Held { sent } => {
                tracing::info!(lease = options.name, identity = options.identity, "leading");
                options.metrics.leads(&options.name);
                return Leadership::start(term, connection, options, sent);
            }
            Asked::Theirs { holder } => {
                if holder != told {
                    tracing::info!(lease = options.name, holder, "standing by");
                    told = holder;
                }
            }
            Asked::Failed { problem } => {
                tracing::warn!(
                    lease = options.name,
                    problem,
                    "the lease could not be taken"
                );
            }
        }
        sleep(shortened(options.terms.retry)).await;
    }
}

/// Who this process is among others: where it runs, and that it is no other one there.
pub fn identity() -> String {
    let host = ["/proc/sys/kernel/hostname", "/etc/hostname"]
        .iter()
        .find_map(|path| std::fs::read_to_string(path).ok())
        .unwrap_or_default();
    let host = match host.trim() {
        "" => "localhost",
        host => host,
    };
    format!("{host}_{}", Uuid::new_v4())
}

// === impl Terms ===

impl Terms {
    /// Those that agents of all kinds share.
    pub const USUAL: Self = Self {
        duration: Duration::from_secs(15),
        renew_deadline: Duration::from_secs(10),
        retry: Duration::from_secs(2),
    };

    /// Until when nobody else can have taken a Lease over that we asked for at this time, with a fifth of its
    /// duration for clocks that run at different speeds and writes that are on their way.
    fn safe_until(&self, sent: Instant) -> Instant {
        sent + self.duration - self.duration / 5
    }
}

// === impl Leadership ===

impl Leadership {
    fn start(
        mut term: Term,
        connection: Connection,
        options: Arc<LeaseOptions>,
        sent: Instant,
    ) -> Self {
        let fence = options.fence.clone();
        fence.extend(options.terms.safe_until(sent));
        let lost = CancellationToken::new();
        let stop = CancellationToken::new();
        let keeper = {
            let (fence, lost, stop) = (fence.clone(), lost.clone(), stop.clone());
            let (options, connection) = (Arc::clone(&options), connection.clone());
            tokio::spawn(async move {
                let end = {
                    let announced = announce(&connection, &options, "became leader");
                    let kept = term.keep(sent, &fence, &stop);
                    tokio::pin!(announced, kept);
                    tokio::select! {
                        end = &mut kept => end,
                        () = announced => kept.await,
                    }
                };
                fence.close();
                options.metrics.stands_by(&options.name);
                match end {
                    End::Stopped => return term,
                    End::Taken { holder } => {
                        tracing::error!(
                            lease = options.name,
                            holder,
                            "leadership is lost to another"
                        );
                    }
                    End::Expired => {
                        tracing::error!(
                            lease = options.name,
                            "leadership is lost: it could not be renewed"
                        );
                    }
                }
                lost.cancel();
                announce(&connection, &options, "stopped leading").await;
                term
            })
        };
        Self {
            fence,
            lost,
            stop,
            keeper: Some(keeper),
            connection,
            options,
        }
    }

    /// What every write has to ask before it begins.
    pub fn fence(&self) -> &Fence {
        &self.fence
    }

    /// Is cancelled when another one may lead. There is no way back.
    pub fn lost(&self) -> &CancellationToken {
        &self.lost
    }

    /// Lets the next one work at once. To be called when nothing is written any more; takes no longer than the
    /// time that there is to renew.
    pub async fn release(mut self) {
        self.fence.close();
        self.stop.cancel();
        let Some(keeper) = self.keeper.take() else {
            return;
        };
        let Ok(mut term) = keeper.await else {
            return;
        };
        if self.lost.is_cancelled() {
            return;
        }
        match term.give_up_in_time().await {
            Ok(()) => {
                tracing::info!("the lease is released");
                announce(&self.connection, &self.options, "stopped leading").await;
            }
            Err(problem) => {
                tracing::warn!(
                    problem,
                    "the lease could not be released, others wait until it runs out"
                );
            }
        }
    }
}

impl Drop for Leadership {
    fn drop(&mut self) {
        self.fence.close();
        if let Some(keeper) = &self.keeper {
            keeper.abort();
        }
    }
}

impl fmt::Debug for Leadership {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Leadership")
            .field("fence", &self.fence)
            .finish_non_exhaustive()
    }
}

/// A little less than this, so that those who started together do not ask together.
fn shortened(period: Duration) -> Duration {
    let chance = u32::from(Uuid::new_v4().as_bytes()[0]);
    period * (1024 - chance) / 1024
}

#[cfg(test)]
mod tests;
