//! Leader election: the process that holds the Lease works.
//!
//! Acquires, renews, releases and loses a Lease. All waiting is measured on a monotonic clock; wall-clock times are
//! written and never read. A [`Fence`] tells every write whether it may still begin. Does not know what the work is.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use crate::cluster::connection::Connection;

mod fence;
mod lock;
mod observer;
mod options;
mod presence;
mod record;
mod server;
mod term;

pub use fence::{Fence, Fenced};
pub use lock::Lock;
pub use observer::LeaseObserver;
pub use options::{LeaseOptions, Marks, Terms, identity};
pub use presence::Presence;
pub use server::LeaseServer;
use term::{AcquireResult, End, Term, announce};

/// The right to work, while it lasts. Dropping it releases nothing: others have to wait until the Lease expires.
pub struct Leadership<S = Connection> {
    fence: Fence,
    lost: CancellationToken,
    stop: CancellationToken,
    keeper: Option<JoinHandle<Term<S>>>,
    server: S,
    options: Arc<LeaseOptions>,
}

/// Waits until this process holds the Lease. Cancel-safe.
pub async fn elect<S: LeaseServer>(server: S, options: LeaseOptions) -> Leadership<S> {
    let options = Arc::new(options);
    options.metrics.set_standby(&options.name);
    let mut term = Term::new(server.clone(), Arc::clone(&options));
    let mut told = String::new();
    loop {
        match term.ask().await {
            AcquireResult::Held { sent } => {
                tracing::info!(lease = options.name, identity = options.identity, "leading");
                options.metrics.leads(&options.name);
                return Leadership::start(term, server, options, sent);
            }
            AcquireResult::Theirs { holder } => {
                if holder != told {
                    tracing::info!(lease = options.name, holder, "standing by");
                    told = holder;
                }
            }
            AcquireResult::Failed { problem } => {
                tracing::warn!(lease = options.name, problem, "cannot acquire the lease");
            }
        }
        sleep(shortened(options.terms.retry)).await;
    }
}

/// Takes a Lease that the caller has seen to be free, as it was then. `None` if it has changed since.
pub async fn take<S: LeaseServer>(
    server: &S,
    options: LeaseOptions,
    seen: Option<Value>,
) -> Result<Option<Leadership<S>>, String> {
    let options = Arc::new(options);
    let mut term = Term::new(server.clone(), Arc::clone(&options));
    let Some(sent) = term.take(seen).await? else {
        return Ok(None);
    };
    options.metrics.leads(&options.name);
    Ok(Some(Leadership::start(term, server.clone(), options, sent)))
}

// === impl Leadership ===

impl<S: LeaseServer> Leadership<S> {
    fn start(mut term: Term<S>, server: S, options: Arc<LeaseOptions>, sent: Instant) -> Self {
        let fence = options.fence.clone();
        fence.extend(options.terms.safe_until(sent));
        let lost = CancellationToken::new();
        let stop = CancellationToken::new();
        let keeper = {
            let (fence, lost, stop) = (fence.clone(), lost.clone(), stop.clone());
            let (options, server) = (Arc::clone(&options), server.clone());
            tokio::spawn(async move {
                let end = {
                    let announced = announce(&server, &options, "became leader");
                    let kept = term.keep(sent, &fence, &stop);
                    tokio::pin!(announced, kept);
                    tokio::select! {
                        biased;
                        end = &mut kept => end,
                        () = announced => kept.await,
                    }
                };
                fence.close();
                options.metrics.set_standby(&options.name);
                match end {
                    End::Stopped => return term,
                    End::Taken { holder } => {
                        tracing::error!(
                            lease = options.name,
                            holder,
                            "lost leadership to another process"
                        );
                    }
                    End::Expired => {
                        tracing::error!(
                            lease = options.name,
                            "lost leadership: the lease could not be renewed"
                        );
                    }
                }
                lost.cancel();
                announce(&server, &options, "stopped leading").await;
                term
            })
        };
        Self {
            fence,
            lost,
            stop,
            keeper: Some(keeper),
            server,
            options,
        }
    }

    /// Every write has to ask it before it begins.
    pub fn fence(&self) -> &Fence {
        &self.fence
    }

    /// Cancelled when another process may lead. Final.
    pub fn lost(&self) -> &CancellationToken {
        &self.lost
    }

    /// Lets the next process lead at once. The caller must have stopped writing; takes no longer than the renew
    /// deadline.
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
                tracing::info!("released the lease");
                announce(&self.server, &self.options, "stopped leading").await;
            }
            Err(problem) => {
                tracing::warn!(
                    problem,
                    "cannot release the lease; others wait until it expires"
                );
            }
        }
    }
}

impl<S> Drop for Leadership<S> {
    fn drop(&mut self) {
        self.fence.close();
        if let Some(keeper) = &self.keeper {
            keeper.abort();
        }
    }
}

impl<S> fmt::Debug for Leadership<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Leadership")
            .field("fence", &self.fence)
            .finish_non_exhaustive()
    }
}

/// A random duration a little shorter than this, so that processes that started together do not ask together.
pub(crate) fn shortened(period: Duration) -> Duration {
    period * (1024 - u32::from(chance())) / 1024
}

#[cfg(not(test))]
fn chance() -> u8 {
    Uuid::new_v4().as_bytes()[0]
}

#[cfg(test)]
fn chance() -> u8 {
    let random = || Uuid::new_v4().as_bytes()[0];
    crate::simulation::chance().unwrap_or_else(random)
}

#[cfg(test)]
mod tests;
