//! `kubefedctl unjoin`: removes the objects that join created.

use clap::Args;
use serde_json::{Value, json};

use hawser_federation::kubefedctl::join::{Join, JoinError};
use hawser_federation::placement::Scope;
use hawser_federation::types::MANAGED;
use hawser_federation::types::type_config::{ApiResource, FederatedTypeConfigSpec, NAMESPACES};
use hawser_runtime::cluster::wire::collection;

use super::console::{CtlError, said, tell, trying};
use super::join::{ClusterFlags, path_of, scope};
use super::server::{Server, all_of, core, is_absent};
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

    /// Delete the objects that the control plane propagated to the cluster
    #[arg(long, value_name = "BOOL", value_parser = parse_bool, default_value = "false")]
    #[arg(num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    delete_copies: bool,

    /// Continue after failures, such as an unreachable cluster
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
    let cluster = ignore_if(args.force, cluster)?;
    let member = ignore_if(args.force, args.cluster.member())?;
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
        ignore_if(args.force, deleted.map_err(what))?;
    }
    let deleted = host.delete(&path).await;
    let what = trying(format!("deleting KubeFedCluster \"{namespace}/{name}\""));
    ignore_if(args.force, deleted.map_err(what))?;
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
    let is_host = ignore_if(args.force, is_host.await)?.unwrap_or(true);
    for (kind, namespace, name) in join.member_objects_to_delete() {
        // The control plane can no longer write to the cluster, and no longer undoes a deletion.
        if kind == "Namespace" && args.delete_copies {
            ignore_if(args.force, delete_copies(host, member, join, is_host).await)?;
        }
        if kind == "Namespace" && (is_host || args.keep_namespace) {
            continue;
        }
        let path = path_of(kind, namespace.as_deref(), &name);
        let what = trying(format!("deleting {kind} {name:?} in the unjoining cluster"));
        ignore_if(args.force, member.delete(&path).await.map_err(what))?;
    }
    Ok(())
}

/// Deletes the copies of all federated types, namespaces last. Namespaces of the host itself lose their label only.
async fn delete_copies(
    host: &Server,
    member: &Server,
    join: &Join,
    is_host: bool,
) -> Result<(), CtlError> {
    let limit = match scope(host, &join.namespace).await? {
        Scope::Namespaced => Some(&*join.namespace),
        Scope::Cluster => None,
    };
    let configs = host.items(core(&join.namespace, "federatedtypeconfigs"));
    let mut types = Vec::new();
    for config in configs.await? {
        let name = config["metadata"]["name"].as_str().unwrap_or_default();
        let spec = serde_json::from_value(config["spec"].clone());
        let mut spec: FederatedTypeConfigSpec = spec.map_err(|error| CtlError::Document {
            file: format!("FederatedTypeConfig {name:?}"),
            problem: error.to_string(),
        })?;
        spec.complete(name);
        // A control plane that is limited to a namespace propagates nothing else.
        if limit.is_none() || spec.target_type.is_namespaced() {
            types.push((name == NAMESPACES, spec.target_type));
        }
    }
    types.sort_by_key(|(is_of_namespaces, _)| *is_of_namespaces);
    for (is_of_namespaces, target) in types {
        let what = |doing| {
            let plural = &target.plural_name;
            trying(format!("{doing} {plural} in the unjoining cluster"))
        };
        let all = format!("{}?labelSelector={MANAGED}%3Dtrue", all_of(&target, limit));
        let copies = match member.items(all).await {
            // It does not serve the type.
            Err(error) if is_absent(&error) => continue,
            copies => copies.map_err(what("listing"))?,
        };
        for copy in copies {
            let path = path_of_copy(&target, &copy);
            if is_host && is_of_namespaces {
                let unlabelled = json!({"metadata": {"labels": {MANAGED: null}}});
                let patched = member.patch(&path, &unlabelled).await;
                patched.map_err(what("releasing"))?;
            } else {
                member.delete(&path).await.map_err(what("deleting"))?;
            }
        }
    }
    Ok(())
}

fn path_of_copy(target: &ApiResource, copy: &Value) -> String {
    let text = |field: &str| copy["metadata"][field].as_str();
    let all = collection(&target.gvk(), text("namespace"), &target.plural_name);
    format!("{all}/{}", text("name").unwrap_or_default())
}

/// The result; a failure is printed and ignored if `forced`.
fn ignore_if<T>(forced: bool, result: Result<T, CtlError>) -> Result<Option<T>, CtlError> {
    match result {
        Err(error) if forced => {
            tell(&format!("Warning: {error}"));
            Ok(None)
        }
        result => result.map(Some),
    }
}
