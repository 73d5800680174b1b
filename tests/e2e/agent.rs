//! The agent between a kcp and a service cluster, as its users meet it: the built binary is started
//! with the contract's flags, and what it does is looked at from outside.
//!
//! Behaviour is tested on a real kube-apiserver as the service cluster, with the original's ground
//! (its CRD, its rights) and with ours; counts of requests and faults on the playground's own.

#![expect(
    clippy::needless_pass_by_value,
    reason = "documents are written down where they are passed"
)]

use serde_json::{Value, json};
use sha1::{Digest as _, Sha1};
use sha3::Sha3_256;
use testbed::SOON;

/// Runs each of these tests on both grounds.
macro_rules! on_both_grounds {
    ($($name:ident),* $(,)?) => {
        mod with_the_originals_crd_and_rights {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $name() {
                crate::agent::world::run(crate::agent::service::Ground::Original, super::$name).await;
            })*
        }
        mod with_our_crd_and_rights {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $name() {
                crate::agent::world::run(crate::agent::service::Ground::Ours, super::$name).await;
            })*
        }
    };
}

/// Runs each of these tests on a real kube-apiserver with our CRD: they need what the original's lacks.
macro_rules! on_our_ground {
    ($($name:ident),* $(,)?) => {
        mod with_our_crd_only {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $name() {
                crate::agent::world::run(crate::agent::service::Ground::Ours, super::$name).await;
            })*
        }
    };
}

/// Runs each of these tests with the playground as both control planes.
macro_rules! on_the_playground {
    ($($name:ident),* $(,)?) => {
        mod with_the_playground_on_both_sides {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $name() {
                crate::agent::world::run(crate::agent::service::Ground::Playground, super::$name).await;
            })*
        }
    };
}

/// Runs each of these tests with the playground as both control planes, and a kcp that takes its time.
macro_rules! on_a_slow_kcp {
    ($($name:ident),* $(,)?) => {
        mod with_a_kcp_that_takes_its_time {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $name() {
                crate::agent::world::run_slowly(super::$name).await;
            })*
        }
    };
}

/// Runs each of these tests with the playground as both control planes, and a kcp of three shards.
macro_rules! on_three_shards {
    ($($name:ident),* $(,)?) => {
        mod with_three_shards_of_kcp {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $name() {
                crate::agent::world::run_on_three_shards(super::$name).await;
            })*
        }
    };
}

mod adopt;
mod budgets;
mod canary;
mod chaos;
mod consumer;
mod contests;
mod crash;
mod deep;
mod drift;
mod events;
mod explain;
mod fairness;
mod faults;
mod filters;
mod heavy;
mod hostile;
mod lifecycle;
mod masses;
mod mending;
mod objects;
mod overview;
mod ownership;
mod pause;
mod plan;
pub(crate) mod plane;
mod planning;
mod process;
mod publishing;
mod races;
mod rbac;
mod real_kcp;
mod reasons;
mod related;
mod release;
pub(crate) mod service;
mod shapes;
mod shards;
mod stage;
mod state;
mod synced;
mod takeover;
mod variants;
mod workspaces;
mod world;

fn sha1_hex(text: &str) -> String {
    hex(&Sha1::digest(text))
}

/// The function `sha3short` of naming templates.
fn sha3_short(text: &str) -> String {
    hex(&Sha3_256::digest(text))[..20].to_owned()
}

fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write as _;
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// A definition of `Gadget`s, free in what they hold, with a status.
fn gadgets(group: &str) -> Value {
    let mut crd = definition(group, "gadgets", "Gadget");
    crd["spec"]["versions"][0]["subresources"] = json!({"status": {}});
    crd
}

/// A definition of a namespaced kind without subresources.
fn definition(group: &str, plural: &str, kind: &str) -> Value {
    let free = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("{plural}.{group}")},
        "spec": {
            "group": group, "scope": "Namespaced",
            "names": {"kind": kind, "plural": plural, "singular": kind.to_lowercase(), "listKind": format!("{kind}List")},
            "versions": [{
                "name": "v1", "served": true, "storage": true,
                "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": free, "status": free}}},
            }],
        },
    })
}

/// The CRD that the contract's names of schemas are computed from.
fn crontabs() -> Value {
    let mut crd = definition("example.com", "crontabs", "CronTab");
    crd["spec"]["names"]["shortNames"] = json!(["ct"]);
    crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"] = json!({
        "spec": {"type": "object", "properties": {
            "cronSpec": {"type": "string"}, "image": {"type": "string"}, "replicas": {"type": "integer"},
        }},
    });
    crd
}
