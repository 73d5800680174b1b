//! `hawser kubefed-webhook`: the admission webhook of KubeFed as a separate process.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;

use crate::federation::webhook::FederationReviewer;
use crate::webhook::given;
use hawser_runtime::process::logging::{self, LogFormat, LogOptions, Verbosity};

use super::service;

/// Validate objects of KubeFed for API servers, with a given certificate.
///
/// Accepts the flags of KubeFed's webhook. `hawser federate --webhook-addr` serves the same webhook and creates its
/// certificate.
#[derive(Debug, Args)]
#[allow(clippy::doc_markdown)] // These comments are the help.
#[command(args_override_self = true, version)]
pub(super) struct WebhookProgramArgs {
    /// Port on all interfaces, or address, to listen on
    #[arg(
        long,
        value_name = "PORT",
        default_value = "8443",
        allow_hyphen_values = true
    )]
    secure_port: String,

    /// Directory with tls.crt and tls.key
    #[arg(long, value_name = "DIRECTORY", default_value = "/var/serving-cert")]
    #[arg(allow_hyphen_values = true)]
    cert_dir: PathBuf,

    /// Log level: 5 and above log debug messages
    #[arg(short, long, value_name = "LEVEL", default_value_t = 0)]
    v: i32,

    /// Flags of KubeFed's log library that were removed from the command line
    #[arg(long, hide = true)]
    ignored_flag: Vec<String>,
}

pub(super) fn run(args: WebhookProgramArgs) -> ExitCode {
    let log = LogOptions {
        format: LogFormat::Json,
        verbosity: if args.v >= 5 {
            Verbosity::Debug
        } else {
            Verbosity::Info
        },
    };
    if let Err(error) = logging::start(log) {
        return super::output::fail(&error);
    }
    let address = if args.secure_port.contains(':') {
        args.secure_port
    } else {
        format!(":{}", args.secure_port)
    };
    service::run("the webhook stopped", |stop| {
        given::run(address, args.cert_dir, FederationReviewer, stop)
    })
}
