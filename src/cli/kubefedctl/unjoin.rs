//! `kubefedctl unjoin`: removes what join made.

use clap::Args;
use serde_json::Value;

use hawser_federation::kubefedctl::join::{Join, JoinError};

use super::join::path_of;
use super::server::{Server, core};
use super::{ClusterFlags, CtlError, said, tell, trying};
use crate::cli::agent::parse_bool;

/// Remove a cluster from a federation.
#[derive(Debug, Args)]
#[command(args_override_self = true)]
pub(super) struct UnjoinArgs {
    #[command(flatten)]
    cluster: ClusterFlags,

    /// Keep the namespace of the control plane in the cluster
    #[arg(long, value_name = "BOOL", value_parser = parse_bool, default_value = "false")]
    #[arg(num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    keep_namespace: bool,

    /// Go on after failures, such as a cluster that cannot be reached
    #[arg(long, value_name = "BOOL", value_parser = parse_bool, default_value = "false")]
    #[arg(num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    force: bool,
}

pub(super) async fn run(args: UnjoinArgs) -> Result<(), CtlError> {
    let (host, join) = args.cluster.begin()?;
    let (name, namespace) = (&join.cluster, &join.namespace);
    let path = format!("{}/{name}", core(namespace, "kubefedclusters"));
    let cluster = host.get(&path).await.map_err(|error| {
        let cluster = format!("{namespace}/{name}");
        CtlError::from(JoinError::NoCluster(cluster, said(&error)))
    });
    let cluster = unless(args.force, cluster)?;
    let member = unless(args.force, args.cluster.member())?;
    if args.cluster.control.dry_run {
        return Ok(());
    }
    if let Some(member) = member {
        leave(&host, &member, &join, &args).await?;
    }
    let secret = cluster
        .as_ref()
        .and_then(|found| found["spec"]["secretRef"]["name"].as_str());
    if let Some(secret) = secret {
        let deleted = host
            .delete(&path_of("Secret", Some(namespace), secret))
            .await;
        let what = trying(format!("deleting Secret {secret:?} in the host cluster"));
        unless(args.force, deleted.map_err(what))?;
    }
    let deleted = host.delete(&path).await;
    let what = trying(format!("deleting KubeFedCluster \"{namespace}/{name}\""));
    unless(args.force, deleted.map_err(what))?;
    Ok(())
}

/// Deletes what join made in the member. The namespace stays if it is the host's own.
async fn leave(
    host: &Server,
    member: &Server,
    join: &Join,
    args: &UnjoinArgs,
) -> Result<(), CtlError> {
    let own = path_of("Namespace", None, &join.namespace);
    let uid = |found: Option<Value>| found.map(|found| found["metadata"]["uid"].clone());
    let is_host = async {
        let (here, there) = (host.find(&own).await?, member.find(&own).await?);
        Ok::<_, CtlError>(uid(here) == uid(there))
    };
    let is_host = unless(args.force, is_host.await)?.unwrap_or(true);
    for (kind, namespace, name) in join.member_objects_to_delete() {
        if kind == "Namespace" && (is_host || args.keep_namespace) {
            continue;
        }
        let path = path_of(kind, namespace.as_deref(), &name);
        let what = trying(format!("deleting {kind} {name:?} in the unjoining cluster"));
        unless(args.force, member.delete(&path).await.map_err(what))?;
    }
    Ok(())
}

/// The result; a failure is told and passed over if `forced`.
fn unless<T>(forced: bool, result: Result<T, CtlError>) -> Result<Option<T>, CtlError> {
    match result {
        Err(error) if forced => {
            tell(&format!("Warning: {error}"));
            Ok(None)
        }
        result => result.map(Some),
    }
}
