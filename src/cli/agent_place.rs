//! Flags of commands that need the place of an agent: its clusters, namespace and name.

use std::time::Duration;

use clap::Args;

use super::hub::duration;
use crate::publish::agent::options::{AgentOptions, FlagErrors, RawAgentArgs};

/// The flags of the agent.
#[derive(Debug, Args)]
#[allow(clippy::doc_markdown)] // These comments are the help.
pub(super) struct AgentPlace {
    /// Kubeconfig of the service cluster [default: $KUBECONFIG, else the Pod's service account, else ~/.kube/config]
    #[arg(long, value_name = "FILE", default_value = "")]
    pub(super) kubeconfig: String,

    /// Kubeconfig of the kcp workspace that has the APIExportEndpointSlice
    #[arg(long, value_name = "FILE")]
    pub(super) kcp_kubeconfig: String,

    /// Namespace of the service cluster with the state Secrets
    #[arg(long, value_name = "NAME")]
    pub(super) namespace: String,

    /// Name of the APIExportEndpointSlice
    #[arg(long, value_name = "NAME")]
    pub(super) apiexportendpointslice_ref: String,

    /// Name of the agent [default: the slice's name with -syncagent]
    #[arg(long, value_name = "NAME", default_value = "")]
    pub(super) agent_name: String,

    /// Selector of the PublishedResources that the agent serves [default: all]
    #[arg(long, value_name = "SELECTOR", default_value = "")]
    pub(super) published_resource_selector: String,

    /// Ignore pauses of consumers that end later than this from now, as the agent does [default: 24h]
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    pub(super) longest_consumer_pause: Option<Duration>,
}

impl AgentPlace {
    /// The options, as the agent takes them. Deletions are not held.
    pub(super) fn options(self) -> Result<AgentOptions, FlagErrors> {
        self.options_with_brake("off".to_owned())
    }

    pub(super) fn options_with_brake(
        self,
        deletion_brake: String,
    ) -> Result<AgentOptions, FlagErrors> {
        let given = RawAgentArgs {
            kubeconfig: self.kubeconfig,
            kcp_kubeconfig: self.kcp_kubeconfig,
            namespace: self.namespace,
            slice: self.apiexportendpointslice_ref,
            agent_name: self.agent_name,
            selector: self.published_resource_selector,
            max_in_flight_kcp: 32,
            max_in_flight_service: 32,
            deletion_brake,
            longest_consumer_pause: self.longest_consumer_pause,
            ..RawAgentArgs::default()
        };
        Ok(given.check()?.options)
    }
}
