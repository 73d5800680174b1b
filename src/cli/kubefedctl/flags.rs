//! Flags that several commands have.

use clap::Args;

use crate::cli::agent::parse_bool;

/// Access to the host cluster.
#[derive(Debug, Args)]
#[allow(clippy::doc_markdown)] // These comments are the help.
pub(super) struct HostFlags {
    /// Kubeconfig with the contexts [default: $KUBECONFIG, else ~/.kube/config]
    #[arg(
        long,
        value_name = "FILE",
        default_value = "",
        hide_default_value = true
    )]
    pub(super) kubeconfig: String,

    /// Context of the host cluster [default: the current one]
    #[arg(
        long,
        value_name = "NAME",
        default_value = "",
        hide_default_value = true
    )]
    pub(super) host_cluster_context: String,
}

/// The control plane, and dry run.
#[derive(Debug, Args)]
pub(super) struct ControlFlags {
    #[command(flatten)]
    pub(super) host: HostFlags,

    /// Namespace of the control plane
    #[arg(long, value_name = "NAME", default_value = "kube-federation-system")]
    pub(super) kubefed_namespace: String,

    /// Write nothing
    #[arg(long, value_name = "BOOL", value_parser = parse_bool, default_value = "false")]
    #[arg(num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    pub(super) dry_run: bool,
}

/// The flag, unless it is empty.
pub(super) fn given(flag: &str) -> Option<&str> {
    Some(flag).filter(|text| !text.is_empty())
}
