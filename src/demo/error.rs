//! Why a demonstration fails.

use std::error::Error;

use super::files::WriteError;
use hawser_runtime::cluster::connection::ConnectError;

#[derive(Debug, thiserror::Error)]
pub enum DemoError {
    #[error("reading a manifest of the example")]
    Manifest(#[source] Box<serde_saphyr::Error>),
    #[error("reading a kubeconfig of the playground")]
    Kubeconfig(#[source] serde_json::Error),
    #[error("using a kubeconfig of the playground")]
    Config(#[from] Box<kube::config::KubeconfigError>),
    #[error("connecting to the playground")]
    Connect(#[from] ConnectError),
    #[error("connecting the operator to the playground")]
    Client(#[source] Box<kube::Error>),
    #[error(transparent)]
    Write(#[from] WriteError),
    #[error("{what} took too long: {said}")]
    Stuck { what: String, said: String },
    #[error("{0} ended")]
    Ended(&'static str, #[source] Box<dyn Error + Send + Sync>),
    #[error("{0} ended unexpectedly")]
    Gone(&'static str),
}
