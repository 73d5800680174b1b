//! What the commands read and print, and their errors.

use std::io::{self, Write as _};

use hawser_federation::kubefedctl::LookupError;
use hawser_federation::kubefedctl::disable::DisableError;
use hawser_federation::kubefedctl::enable::EnableError;
use hawser_federation::kubefedctl::federate::{ArgumentError, FederateError};
use hawser_federation::kubefedctl::join::JoinError;
use hawser_federation::kubefedctl::orphaning::OrphaningError;
use hawser_federation::kubefedctl::yaml::YamlError;
use hawser_runtime::cluster::config::ConfigError;
use hawser_runtime::cluster::connection::{ConnectError, RequestError};

#[derive(Debug, thiserror::Error)]
pub(super) enum CtlError {
    #[error(transparent)]
    Join(#[from] JoinError),
    #[error(transparent)]
    Enable(#[from] EnableError),
    #[error(transparent)]
    Disable(#[from] DisableError),
    #[error(transparent)]
    Argument(#[from] ArgumentError),
    #[error(transparent)]
    Federate(#[from] FederateError),
    #[error(transparent)]
    Orphaning(#[from] OrphaningError),
    #[error(transparent)]
    Lookup(#[from] LookupError),
    #[error(transparent)]
    Config(#[from] ConfigError),
    #[error(transparent)]
    Connect(#[from] ConnectError),
    #[error("starting the runtime")]
    Runtime(#[source] io::Error),
    #[error("{}", said(.0))]
    Ask(#[from] RequestError),
    #[error("{what}: {}", said(.error))]
    Act {
        what: String,
        error: Box<RequestError>,
    },
    #[error("reading {file}: {source}")]
    Read { file: String, source: io::Error },
    #[error("{file}: {source}")]
    Yaml { file: String, source: YamlError },
    #[error("{file}: {problem}")]
    Document { file: String, problem: String },
    #[error("{0}")]
    Waited(String),
}

/// The message of a server, or why there is none.
pub(super) fn said(error: &RequestError) -> String {
    match error {
        RequestError::Refused(refusal) if !refusal.message.is_empty() => refusal.message.clone(),
        RequestError::Refused(_) | RequestError::Call(_) => error.to_string(),
    }
}

/// Adds the attempted action to a failure.
pub(super) fn trying(what: impl Into<String>) -> impl FnOnce(RequestError) -> CtlError {
    let what = what.into();
    |error| CtlError::Act {
        what,
        error: Box::new(error),
    }
}

/// Writes to stdout.
pub(super) fn print(text: &str) {
    // Nobody reads what cannot be written.
    let _ = io::stdout().write_all(text.as_bytes());
}

/// Writes a line to stderr.
pub(super) fn tell(line: &str) {
    // Nobody reads what cannot be written.
    let _ = writeln!(io::stderr(), "{line}");
}

/// The text of a file; `-` is stdin.
pub(super) fn read(file: &str) -> Result<String, CtlError> {
    let text = if file == "-" {
        io::read_to_string(io::stdin())
    } else {
        std::fs::read_to_string(file)
    };
    text.map_err(|source| CtlError::Read {
        file: file.to_owned(),
        source,
    })
}
