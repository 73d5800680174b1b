//! A service cluster: a real etcd and a real kube-apiserver, with TLS and RBAC, on loopback ports.
//! Its servers can be stopped, killed and started again, on the same ports with the same data.
//! One that a test has left as it was, except for its objects, is emptied for another test.

use std::fmt;
use std::fs;
use std::io::{self, Write as _};
use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::thread;

use anyhow::Result;
use tokio::sync::OnceCell;

use crate::eventually::SOON;
use crate::pool::{self, FreshState};
use crate::process::Exit;
use crate::servers::ETCD_DATA;
pub use crate::servers::{Component, Controllers, Options, Servers};

/// A running cluster. Dropping it keeps it for another test, unless it was disturbed or its test failed: then its
/// servers end and its data is removed. The logs of a failed test stay.
///
/// What disturbs the servers takes `&mut self`, so that nothing disturbs the shared cluster.
pub struct ServiceCluster {
    /// `None` only while it is dropped.
    servers: Option<Servers>,
    /// The state to which it can be reset; `None` if it was disturbed.
    fresh: Option<FreshState>,
}

impl ServiceCluster {
    /// A cluster of the caller's own.
    pub async fn start() -> Result<Self> {
        Self::start_with(Options::default()).await
    }

    /// A cluster of the caller's own, one that another test has left if there is one.
    pub async fn start_with(options: Options) -> Result<Self> {
        while let Some((servers, fresh)) = pool::take(&options) {
            // What cannot be reset ends here.
            if let Ok(fresh) = Box::pin(fresh.reset(&servers)).await {
                return Ok(Self {
                    servers: Some(servers),
                    fresh: Some(fresh),
                });
            }
        }
        let mut servers = Servers::prepare(options)?;
        servers.restart(Component::Etcd).await?;
        servers.restart(Component::ApiServer).await?;
        if servers.options().controllers == Controllers::All {
            servers.restart(Component::ControllerManager).await?;
        }
        let fresh = Box::pin(FreshState::of(&servers)).await?;
        Ok(Self {
            servers: Some(servers),
            fresh: Some(fresh),
        })
    }

    /// The cluster, which no other user gets: for measurements, which begin with new servers.
    #[must_use]
    pub fn single_use(mut self) -> Self {
        self.fresh = None;
        self
    }

    /// The cluster that all tests of this process share; it ends with the process. Tests keep apart
    /// by namespaces and API groups of their own, see [`unique`](crate::names::unique).
    pub async fn shared() -> Result<&'static Self> {
        static SHARED: OnceCell<ServiceCluster> = OnceCell::const_new();
        SHARED
            .get_or_try_init(async || {
                let cluster = Self::start().await?;
                // Nobody drops it, so nobody else says this; a line that isn't captured is there
                // whichever test fails.
                let logs = cluster.logs().display();
                let _ = writeln!(io::stderr(), "testbed: the shared cluster logs to {logs}");
                Ok(cluster)
            })
            .await
    }

    /// Ends a server by SIGTERM.
    pub async fn stop(&mut self, component: Component) -> Result<Exit> {
        let process = self.disturb().take(component)?;
        process.stop(SOON).await
    }

    /// Ends a server by SIGKILL.
    pub async fn kill(&mut self, component: Component) -> Result<Exit> {
        let process = self.disturb().take(component)?;
        process.kill().await
    }

    /// Starts a server that was stopped, killed or never ran, and awaits that it is ready; one that
    /// runs is killed before.
    pub async fn restart(&mut self, component: Component) -> Result<()> {
        self.disturb().restart(component).await
    }

    /// Copies what etcd has. etcd is down meanwhile.
    pub async fn back_up(&mut self) -> Result<PathBuf> {
        self.stop(Component::Etcd).await?;
        let backup = self.directory().join("backup");
        copy_directory(&self.directory().join(ETCD_DATA), &backup)?;
        self.restart(Component::Etcd).await?;
        Ok(backup)
    }

    /// Sets the cluster back to a backup. Its versions count on from there.
    pub async fn restore(&mut self, backup: &Path) -> Result<()> {
        self.kill(Component::ApiServer).await?;
        self.stop(Component::Etcd).await?;
        let data = self.directory().join(ETCD_DATA);
        fs::remove_dir_all(&data)?;
        copy_directory(backup, &data)?;
        self.restart(Component::Etcd).await?;
        self.restart(Component::ApiServer).await
    }

    fn disturb(&mut self) -> &mut Servers {
        self.fresh = None;
        self.servers.as_mut().expect(PRESENT)
    }
}

fn copy_directory(from: &Path, to: &Path) -> Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let target = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            copy_directory(&entry.path(), &target)?;
        } else {
            fs::copy(entry.path(), target)?;
        }
    }
    Ok(())
}

/// Why a cluster has servers.
const PRESENT: &str = "only dropping takes the servers";

impl Deref for ServiceCluster {
    type Target = Servers;

    fn deref(&self) -> &Servers {
        self.servers.as_ref().expect(PRESENT)
    }
}

impl Drop for ServiceCluster {
    fn drop(&mut self) {
        let (servers, fresh) = (self.servers.take(), self.fresh.take());
        if let (Some(servers), Some(fresh), false) = (servers, fresh, thread::panicking()) {
            pool::put(servers, fresh);
        }
    }
}

impl fmt::Debug for ServiceCluster {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServiceCluster")
            .field("url", &self.url())
            .field("logs", &self.logs())
            .finish_non_exhaustive()
    }
}
