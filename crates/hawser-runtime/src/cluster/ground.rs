//! The environment of tests that send requests: a playground in process, and connections to both of its sides.

#![allow(clippy::unwrap_used, reason = "tests stand on it")]

use kube::config::{KubeConfigOptions, Kubeconfig};
use serde_json::Value;

use super::connection::{Connection, Limits};
use kcp_playground::Playground;
use kcp_playground::server::{Action, Fault, Matcher};

pub struct Ground {
    pub playground: Playground,
    /// At the root workspace.
    pub kcp: Connection,
    pub service: Connection,
}

async fn config(kubeconfig: Value) -> kube::Config {
    let kubeconfig: Kubeconfig = serde_json::from_value(kubeconfig).unwrap();
    let options = KubeConfigOptions::default();
    kube::Config::from_custom_kubeconfig(kubeconfig, &options)
        .await
        .unwrap()
}

impl Ground {
    pub async fn start() -> Self {
        let playground = Playground::start().await.unwrap();
        let connect = |config| Connection::new(config, Limits::default()).unwrap();
        Self {
            kcp: connect(config(playground.kcp_kubeconfig()).await),
            service: connect(config(playground.service_kubeconfig()).await),
            playground,
        }
    }

    pub async fn kcp_config(&self) -> kube::Config {
        config(self.playground.kcp_kubeconfig()).await
    }

    pub async fn service_config(&self) -> kube::Config {
        config(self.playground.service_kubeconfig()).await
    }
}

/// The longest wait of a test for something that comes, however slow the machine is.
#[cfg(test)]
pub(crate) const MAX_WAIT: std::time::Duration = std::time::Duration::from_secs(100);

/// The result of work, which comes in time.
#[cfg(test)]
pub(crate) async fn in_time<T>(work: impl Future<Output = T>) -> T {
    let ended = tokio::time::timeout(MAX_WAIT, work).await;
    ended.expect("takes too long")
}

/// A fault that always affects this verb on this resource.
pub fn fault(verb: &str, resource: &str, action: Action) -> Fault {
    let matcher = Matcher {
        verb: Some(verb.to_owned()),
        resource: Some(resource.to_owned()),
        ..Matcher::default()
    };
    Fault::new(matcher, action)
}
