//! Configurations that change while they are in use: tokens and certificates are short-lived.
//!
//! Files are looked at, not watched: mounted Secrets are swapped by links, and a look every few seconds costs
//! nothing. Their contents are compared, so that one that is written again as it was changes nothing.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::time::Duration;

use sha2::{Digest as _, Sha256};
use tokio::time::{Instant, MissedTickBehavior, interval_at};

use super::{ConfigError, Source, named_files};
use crate::process::logging::chain;

/// How often files are looked at.
pub const INTERVAL: Duration = Duration::from_secs(10);

/// A file that names other files each time it is read is not waited for.
const MOST_ROUNDS: usize = 3;

/// What the files held, a hash each; none where there was nothing to read.
type Prints = BTreeMap<PathBuf, Option<[u8; 32]>>;

/// A configuration and the files that it was read from.
#[derive(Debug)]
pub struct Watched {
    source: Source,
    /// The kubeconfigs, and what the last good one names.
    files: BTreeSet<PathBuf>,
    /// What is in use.
    used: Prints,
    /// What was found wanting, and has been told.
    told: Option<Prints>,
}

// === impl Watched ===

impl Watched {
    /// Reads the configuration for the first time.
    pub fn start(source: Source) -> Result<(Self, kube::Config), ConfigError> {
        let mut watched = Self {
            files: source.files().collect(),
            source,
            used: Prints::new(),
            told: None,
        };
        let (used, config) = watched.read()?;
        watched.used = used;
        Ok((watched, config))
    }

    /// Hands over each new configuration, until it is dropped. One that cannot be read or is refused is told in
    /// the log, the one in use stays, and the new one is tried again at the next look.
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
                tracing::info!(origin, "credentials were read again");
                self.used = read;
                self.told = None;
            }
            Err(error) if self.told.as_ref() != Some(&found) => {
                tracing::error!(
                    origin,
                    error,
                    "new credentials cannot be used, the old ones stay"
                );
                self.told = Some(found);
            }
            Err(_) => {}
        }
    }

    /// Reads the configuration, with what its files held just before: what is written meanwhile is a change the
    /// next time.
    fn read(&mut self) -> Result<(Prints, kube::Config), ConfigError> {
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

    fn prints(&self) -> Prints {
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
