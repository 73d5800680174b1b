//! Directories of a cluster's own below `target/`: data that goes with the cluster, logs that stay
//! when something failed. What a killed process left behind is swept up by the next one.

use std::fs::{self, File, TryLockError};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};

use crate::binaries::repository;
use crate::names::unique;

/// Logs of that many earlier clusters are kept for reading.
const LOGS_KEPT: usize = 20;

/// The directories of one cluster. The lock says that its owner lives.
pub(crate) struct Place {
    data: PathBuf,
    logs: PathBuf,
    _lock: File,
}

impl Place {
    pub(crate) fn new(name: &str) -> Result<Self> {
        let target = repository().join("target");
        let (all_data, all_logs) = (target.join("testbed"), target.join("testbed-logs"));
        let name = unique(name);
        let (data, logs) = (all_data.join(&name), all_logs.join(&name));
        fs::create_dir_all(&all_data)
            .with_context(|| format!("creating {}", all_data.display()))?;
        let lock = lock_file(&data);
        let lock = File::create(&lock).with_context(|| format!("creating {}", lock.display()))?;
        lock.lock().context("locking the cluster's directory")?;
        fs::create_dir_all(&data).with_context(|| format!("creating {}", data.display()))?;
        sweep_data(&all_data);
        sweep_logs(&all_logs, &all_data);
        fs::create_dir_all(&logs).with_context(|| format!("creating {}", logs.display()))?;
        Ok(Self {
            data,
            logs,
            _lock: lock,
        })
    }

    /// Gone with the cluster.
    pub(crate) fn data(&self) -> &Path {
        &self.data
    }

    /// Kept when something failed.
    pub(crate) fn logs(&self) -> &Path {
        &self.logs
    }

    pub(crate) fn forget_logs(&self) {
        let _ = fs::remove_dir_all(&self.logs);
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.data);
        let _ = fs::remove_file(lock_file(&self.data));
    }
}

fn lock_file(data: &Path) -> PathBuf {
    data.with_extension("lock")
}

/// Removes the data of owners that are gone; best effort, the next sweep tries again.
fn sweep_data(all: &Path) {
    for entry in fs::read_dir(all).into_iter().flatten().flatten() {
        let data = entry.path();
        if data.extension().is_some() {
            continue;
        }
        // A directory without its lock file is one that is being removed by its owner.
        let Ok(lock) = File::open(lock_file(&data)) else {
            continue;
        };
        match lock.try_lock() {
            Ok(()) => {
                let _ = fs::remove_dir_all(&data);
                let _ = fs::remove_file(lock_file(&data));
            }
            Err(TryLockError::WouldBlock | TryLockError::Error(_)) => {}
        }
    }
}

/// Removes old logs, except those of clusters that run: a server that is restarted opens its log anew.
fn sweep_logs(all: &Path, all_data: &Path) {
    let mut dirs: Vec<_> = fs::read_dir(all)
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|entry| Some((entry.metadata().ok()?.modified().ok()?, entry.path())))
        .collect();
    dirs.sort_by(|a, b| b.cmp(a));
    for (_, dir) in dirs.into_iter().skip(LOGS_KEPT) {
        let runs = |name| lock_file(&all_data.join(name)).exists();
        if !dir.file_name().is_some_and(runs) {
            let _ = fs::remove_dir_all(dir);
        }
    }
}
