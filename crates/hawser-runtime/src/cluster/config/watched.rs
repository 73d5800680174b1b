//! Configurations that change while they are in use, because tokens and certificates are short-lived.
//!
//! Files are polled, not watched: the kubelet swaps mounted Secrets by symbolic links, and reading them every few
//! seconds is cheap. The contents are compared, so a file that is rewritten with the same content causes no reload.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::time::Duration;

use sha2::{Digest as _, Sha256};
use tokio::time::{Instant, MissedTickBehavior, interval_at};

use super::{ConfigError, Source, named_files};
use crate::errors::chain;

/// The polling interval.
pub const INTERVAL: Duration = Duration::from_secs(10);

/// The number of attempts to read a set of files that keeps changing.
const MOST_ROUNDS: usize = 3;

/// A hash of each file; `None` if there was nothing to read.
type FileHashes = BTreeMap<PathBuf, Option<[u8; 32]>>;

/// A configuration and the files that it was read from.
#[derive(Debug)]
pub struct Watched {
    source: Source,
    /// The kubeconfigs, and the files that the last valid one names.
    files: BTreeSet<PathBuf>,
    /// The hashes of the configuration in use.
    used: FileHashes,
    /// The hashes of an invalid configuration that has been logged.
    told: Option<FileHashes>,
}

// === impl Watched ===

impl Watched {
    /// Reads the configuration for the first time.
    pub fn start(source: Source) -> Result<(Self, kube::Config), ConfigError> {
        let mut watched = Self {
            files: source.files().collect(),
            source,
            used: FileHashes::new(),
            told: None,
        };
        let (used, config) = watched.read()?;
        watched.used = used;
        Ok((watched, config))
    }

    /// Passes each new configuration on, until dropped. If a configuration cannot be read or is refused, that is
    /// logged, the current one stays in use, and the new one is tried again at the next poll.
    pub async fn follow<E: std::error::Error>(
        mut self,
        mut renew: impl FnMut(kube::Config) -> Result<(), E>,
    ) {
        let mut looks = interval_at(Instant::now() + INTERVAL, INTERVAL);
        looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            looks.tick().await;
            self.look(&mut renew);
        }
    }

    fn look<E: std::error::Error>(
        &mut self,
        renew: &mut impl FnMut(kube::Config) -> Result<(), E>,
    ) {
        let found = self.prints();
        if found == self.used {
            self.told = None;
            return;
        }
        let origin = self.source.describe();
        let renewed = match self.read() {
            Ok((read, config)) => renew(config).map(|()| read).map_err(|error| chain(&error)),
            Err(error) => Err(chain(&error)),
        };
        match renewed {
            Ok(read) => {
                tracing::info!(origin, "reloaded credentials");
                self.used = read;
                self.told = None;
            }
            Err(error) if self.told.as_ref() != Some(&found) => {
                tracing::error!(
                    origin,
                    error,
                    "cannot use the new credentials; keeping the old ones"
                );
                self.told = Some(found);
            }
            Err(_) => {}
        }
    }

    /// Reads the configuration and the hashes of its files from just before. A write in between counts as a change at
    /// the next poll.
    fn read(&mut self) -> Result<(FileHashes, kube::Config), ConfigError> {
        let mut rounds = 0;
        loop {
            rounds += 1;
            let found = self.prints();
            let mut kubeconfig = self.source.kubeconfig()?;
            let named = named_files(&mut kubeconfig);
            let config = self.source.configured(kubeconfig)?;
            self.files = self.source.files().collect();
            self.files.extend(named);
            // Where it names other files than before, those have to be looked at first.
            if rounds == MOST_ROUNDS || self.files.iter().eq(found.keys()) {
                return Ok((found, config));
            }
        }
    }

    fn prints(&self) -> FileHashes {
        self.files
            .iter()
            .map(|path| {
                let content = std::fs::read(path).ok();
                (
                    path.clone(),
                    content.map(|bytes| Sha256::digest(bytes).into()),
                )
            })
            .collect()
    }
}

#[cfg(test)]
mod tests;
