//! Flags of commands that need the place of an agent: its clusters, namespace and name.

use std::time::Duration;

use clap::Args;

use super::hub::duration;
use crate::publish::agent::options::{AgentOptions, FlagErrors, RawAgentArgs};

/// The modules of the agent whose warnings the answers of commands contain: rules, schemas, and what cannot be listed.
pub(super) const ANSWERED: &[&str] = &[
    "hawser::publish::agent::publishing",
    "hawser::publish::agent::related",
    "hawser_runtime::cluster::feed",
];

/// A name that no object has.
#[derive(Debug, thiserror::Error)]
#[error(
    "{name:?} is no name, because it has a slash: give the namespace with -n, and the object as KIND NAME or KIND/NAME"
)]
pub(super) struct SlashInName {
    name: String,
}

/// Kind and name of an object, which may be one argument, as for kubectl.
pub(super) fn kind_and_name(
    kind: Option<String>,
    name: Option<String>,
) -> Result<(Option<String>, Option<String>), SlashInName> {
    let (kind, name) = match (kind, name) {
        (Some(both), None) => match both.split_once('/') {
            Some((kind, name)) => (Some(kind.to_owned()), Some(name.to_owned())),
            None => (Some(both), None),
        },
        given => given,
    };
    match name {
        Some(name) if name.contains('/') => Err(SlashInName { name }),
        name => Ok((kind, name)),
    }
}

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kind_and_name_may_be_one_argument_and_a_name_has_no_slash() {
        let read = |kind: &str, name: Option<&str>| {
            kind_and_name(Some(kind.to_owned()), name.map(str::to_owned)).ok()
        };
        let pair = |kind: &str, name: &str| Some((Some(kind.to_owned()), Some(name.to_owned())));
        assert_eq!(read("database/shop", None), pair("database", "shop"));
        assert_eq!(read("database", Some("shop")), pair("database", "shop"));
        assert_eq!(
            read("database", None),
            Some((Some("database".to_owned()), None))
        );
        assert_eq!(read("database", Some("default/shop")), None);
        assert_eq!(read("database/default/shop", None), None);
    }
}
