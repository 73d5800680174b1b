//! Shared parts of the commands that run until they are stopped: the runtime, signals, the exit code.

use std::error::Error;
use std::io;
use std::process::ExitCode;

use tokio_util::sync::CancellationToken;

use hawser_runtime::process::{logging, shutdown};

/// The reason why a command ended.
#[derive(Debug, thiserror::Error)]
enum Ended<E: Error + 'static> {
    #[error("starting the runtime")]
    Runtime(#[source] io::Error),
    #[error(transparent)]
    Service(E),
}

/// Runs until a signal or an error stops it; then it logs the reason.
pub(super) fn run<F, E>(what_ended: &str, service: impl FnOnce(CancellationToken) -> F) -> ExitCode
where
    F: Future<Output = Result<(), E>>,
    E: Error + 'static,
{
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build();
    let ended = runtime.map_err(Ended::Runtime).and_then(|runtime| {
        let ended = runtime.block_on(async {
            let stop = shutdown::on_signal().map_err(Ended::Runtime)?;
            service(stop).await.map_err(Ended::Service)
        });
        // What is still waiting for a server that is out of reach is not waited for.
        runtime.shutdown_background();
        ended
    });
    match ended {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            logging::fatal(what_ended, &error);
            ExitCode::FAILURE
        }
    }
}
