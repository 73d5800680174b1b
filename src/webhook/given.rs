//! The webhook as a separate process, with the certificate in a directory, as in KubeFed's chart.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use rustls::ServerConfig;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use hawser_runtime::errors::chain;
use hawser_runtime::process::serve::{self, ServeError, TlsProblem, server_config};

use super::{Reviewer, Reviews};

/// The interval for checking the files.
const EVERY: Duration = Duration::from_secs(10);

#[derive(Debug, thiserror::Error)]
pub enum GivenWebhookError {
    #[error(transparent)]
    Serve(#[from] ServeError),
    #[error("cannot read {}", .0.display())]
    File(PathBuf, #[source] io::Error),
    #[error("{} and tls.key are not a usable certificate", .0.join("tls.crt").display())]
    Tls(PathBuf, #[source] TlsProblem),
}

/// The files of a certificate.
#[derive(Clone, PartialEq, Eq)]
struct CertificateFiles {
    chain: Vec<u8>,
    key: Vec<u8>,
}

impl CertificateFiles {
    fn read(directory: &Path) -> Result<Self, GivenWebhookError> {
        let read = |name: &str| {
            let path = directory.join(name);
            std::fs::read(&path).map_err(|error| GivenWebhookError::File(path, error))
        };
        Ok(Self {
            chain: read("tls.crt")?,
            key: read("tls.key")?,
        })
    }

    fn config(&self, directory: &Path) -> Result<Arc<ServerConfig>, GivenWebhookError> {
        let config = server_config(&self.chain, &self.key);
        let wrong = |error| GivenWebhookError::Tls(directory.to_owned(), error);
        config.map(Arc::new).map_err(wrong)
    }
}

/// Answers reviews at a port until it is stopped, with the current certificate in a directory.
pub async fn run(
    address: String,
    directory: PathBuf,
    reviewer: impl Reviewer,
    stop: CancellationToken,
) -> Result<(), GivenWebhookError> {
    let bound = serve::bind("--secure-port", &address).await?;
    let mut served = CertificateFiles::read(&directory)?;
    let (config, configs) = watch::channel(served.config(&directory)?);
    info!(address = %bound.address(), "serving the webhook");
    let following = async {
        loop {
            tokio::time::sleep(EVERY).await;
            let renewed = CertificateFiles::read(&directory).and_then(|found| {
                if found != served {
                    config.send_replace(found.config(&directory)?);
                    info!("serving the webhook with a new certificate");
                    served = found;
                }
                Ok(())
            });
            // Whoever writes one file after the other is waited for.
            if let Err(error) = renewed {
                warn!(
                    error = chain(&error),
                    "cannot load the new certificate; keeping the old one"
                );
            }
        }
    };
    tokio::select! {
        () = bound.serve_tls(configs, Arc::new(Reviews(reviewer)), stop) => {}
        () = following => {}
    }
    Ok(())
}
