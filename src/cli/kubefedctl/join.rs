//! `kubefedctl join`: an account in the member, and the `KubeFedCluster` in the host.

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use clap::Args;
use serde_json::{Value, json};

use hawser_federation::kubefedctl::join::{Join, JoinError, host_name};
use hawser_federation::placement::Scope;
use hawser_federation::types::type_config::plural_of;
use hawser_runtime::cluster::wire::collection;
use kube_lang::go_text::parse_duration;
use kube_lang::object::Gvk;

use super::console::{CtlError, tell, trying};
use super::flags::{ControlFlags, given};
use super::server::{Server, core, exists};
use crate::cli::agent::parse_bool;

/// The time in which a member has to create a token.
const TOKEN_WITHIN: Duration = Duration::from_secs(30);
const TOKEN_EVERY: Duration = Duration::from_millis(200);

/// Join a cluster to a federation.
#[derive(Debug, Args)]
#[command(args_override_self = true)]
pub(super) struct JoinArgs {
    #[command(flatten)]
    cluster: ClusterFlags,

    /// Address at which the control plane reaches the cluster [default: the kubeconfig's]
    #[arg(
        long,
        value_name = "URL",
        default_value = "",
        hide_default_value = true
    )]
    cluster_endpoint: String,

    /// Name of the Secret with the token, in the host [default: generated]
    #[arg(
        long,
        value_name = "NAME",
        default_value = "",
        hide_default_value = true
    )]
    secret_name: String,

    /// Lifetime of the token; joining again renews it [default: unlimited]
    #[arg(long, value_name = "DURATION", value_parser = token_seconds)]
    token_duration: Option<i64>,

    /// Fail if objects of the cluster already exist; false updates them
    #[arg(long, value_name = "BOOL", value_parser = parse_bool, default_value = "true")]
    #[arg(num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    error_on_existing: bool,
}

/// The cluster that joins or leaves.
#[derive(Debug, Args)]
pub(super) struct ClusterFlags {
    /// Name of the cluster
    #[arg(value_name = "CLUSTER")]
    pub(super) names: Vec<String>,

    #[command(flatten)]
    pub(super) control: ControlFlags,

    /// Context of the cluster [default: its name]
    #[arg(
        long,
        value_name = "NAME",
        default_value = "",
        hide_default_value = true
    )]
    pub(super) cluster_context: String,

    /// Name of the host cluster in names of accounts, the same for join and unjoin [default: its context]
    #[arg(
        long,
        value_name = "NAME",
        default_value = "",
        hide_default_value = true
    )]
    pub(super) host_cluster_name: String,
}

impl ClusterFlags {
    /// Checks the names. Returns the host and the join; its scope is for commands that create objects.
    pub(super) fn begin(&self) -> Result<(Server, Join), CtlError> {
        let name = self.names.first().map(String::as_str);
        let flag = given(&self.host_cluster_name);
        host_name(name, flag, "")?;
        let host = Server::host(&self.control.host)?;
        let join = Join {
            cluster: self.name().to_owned(),
            host: host_name(name, flag, &host.context)?.to_owned(),
            namespace: self.control.kubefed_namespace.clone(),
            scope: Scope::Cluster,
        };
        Ok((host, join))
    }

    pub(super) fn member(&self) -> Result<Server, CtlError> {
        let context = given(&self.cluster_context).unwrap_or(self.name());
        Server::of(&self.control.host, Some(context))
    }

    pub(super) fn name(&self) -> &str {
        self.names.first().map_or("", String::as_str)
    }
}

/// The kind, namespace and name of an object as its path.
pub(super) fn path_of(kind: &str, namespace: Option<&str>, name: &str) -> String {
    let group = match kind {
        "Role" | "RoleBinding" | "ClusterRole" | "ClusterRoleBinding" => {
            "rbac.authorization.k8s.io"
        }
        _ => "",
    };
    let all = collection(&Gvk::new(group, "v1", kind), namespace, &plural_of(kind));
    format!("{all}/{name}")
}

/// Reads the scope of the control plane.
pub(super) async fn scope(host: &Server, namespace: &str) -> Result<Scope, CtlError> {
    let config = host.find(core(namespace, "kubefedconfigs/kubefed")).await?;
    let config = config.ok_or_else(|| JoinError::NoControlPlane(namespace.to_owned()))?;
    Ok(match config["spec"]["scope"].as_str() {
        Some("Namespaced") => Scope::Namespaced,
        _ => Scope::Cluster,
    })
}

pub(super) async fn run(args: JoinArgs) -> Result<(), CtlError> {
    let (host, mut join) = args.cluster.begin()?;
    join.scope = scope(&host, &join.namespace).await?;
    let name = &join.cluster;
    let mut member = args.cluster.member()?;
    if let Some(endpoint) = given(&args.cluster_endpoint) {
        endpoint.clone_into(&mut member.endpoint.server);
    }
    let account = path_of("ServiceAccount", Some(&join.namespace), &join.account());
    if args.error_on_existing && member.find(account).await?.is_some() {
        return Err(JoinError::Exists {
            account: join.account(),
            cluster: name.clone(),
        }
        .into());
    }
    if is_loopback(&member.endpoint.server) {
        tell(&format!(
            "Warning: {} is an address of this machine. If the control plane runs elsewhere, give its own with --cluster-endpoint",
            member.endpoint.server
        ));
    }
    if args.cluster.control.dry_run {
        return Ok(());
    }
    for object in join.member_objects() {
        // A Secret in the member holds the token without an end.
        if args.token_duration.is_none() || object["kind"] != "Secret" {
            make(&member, &object, args.error_on_existing).await?;
        }
    }
    let credentials = match args.token_duration {
        Some(seconds) => bound_token(&member, &join, seconds).await?,
        None => token(&member, &join).await?,
    };
    register(&host, &member, &join, &args, &credentials).await
}

fn is_loopback(server: &str) -> bool {
    let host = server.split_once("://").map_or(server, |(_, host)| host);
    ["127.", "localhost", "[::1]"]
        .iter()
        .any(|own| host.starts_with(own))
}

/// Creates an object in the member. One that exists is an error, or is updated.
async fn make(member: &Server, object: &Value, is_error: bool) -> Result<(), CtlError> {
    let text = |field: &str| object["metadata"][field].as_str();
    let kind = object["kind"].as_str().unwrap_or_default();
    let name = text("name").unwrap_or_default();
    let path = path_of(kind, text("namespace"), name);
    let all = path.strip_suffix(&format!("/{name}")).unwrap_or(&path);
    let what = |doing: &str| trying(format!("{doing} {kind} {name:?} in the joining cluster"));
    match member.create(all, object).await {
        Ok(_) => return Ok(()),
        Err(error) if exists(&error) && (kind == "Namespace" || !is_error) => {}
        Err(error) => return Err(what("creating")(error)),
    }
    let wanted = match kind {
        "Role" | "ClusterRole" => json!({"rules": object["rules"]}),
        "RoleBinding" | "ClusterRoleBinding" => {
            let found = member.get(&path).await.map_err(what("reading"))?;
            if found["roleRef"] != object["roleRef"] {
                // It cannot be changed.
                member.delete(&path).await.map_err(what("deleting"))?;
                member.create(all, object).await.map_err(what("creating"))?;
                return Ok(());
            }
            json!({"subjects": object["subjects"]})
        }
        _ => return Ok(()),
    };
    member
        .patch(&path, &wanted)
        .await
        .map_err(what("updating"))?;
    Ok(())
}

/// The data of the account's Secret, once the member has filled it in.
async fn token(member: &Server, join: &Join) -> Result<Value, CtlError> {
    let path = path_of("Secret", Some(&join.namespace), &join.account());
    let filled = async {
        loop {
            let secret = member.get(&path).await?;
            if secret["data"]["token"].is_string() {
                return Ok(secret["data"].clone());
            }
            tokio::time::sleep(TOKEN_EVERY).await;
        }
    };
    let waited = tokio::time::timeout(TOKEN_WITHIN, filled).await;
    waited.unwrap_or_else(|_| {
        let (cluster, account) = (&join.cluster, join.account());
        Err(CtlError::Waited(format!(
            "timed out waiting for the token of service account {account} in joining cluster {cluster}: its kube-controller-manager makes it"
        )))
    })
}

/// A token that ends, and the authorities of the member, as the Secret of an account has them.
async fn bound_token(member: &Server, join: &Join, seconds: i64) -> Result<Value, CtlError> {
    let account = path_of("ServiceAccount", Some(&join.namespace), &join.account());
    let request = json!({
        "apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"expirationSeconds": seconds},
    });
    let granted = member.create(&format!("{account}/token"), &request).await;
    let granted = granted.map_err(trying("requesting a token in the joining cluster"))?;
    let token = granted["status"]["token"].as_str().unwrap_or_default();
    let mut data = json!({"token": STANDARD.encode(token)});
    if member.endpoint.ca_bundle.is_none() {
        let published = path_of("ConfigMap", Some("kube-system"), "kube-root-ca.crt");
        if let Some(text) = member.find(published).await?.as_ref().and_then(authorities) {
            data["ca.crt"] = STANDARD.encode(text).into();
        }
    }
    Ok(data)
}

fn authorities(published: &Value) -> Option<String> {
    published["data"]["ca.crt"].as_str().map(str::to_owned)
}

/// API servers grant no token for less than ten minutes.
fn token_seconds(text: &str) -> Result<i64, String> {
    let nanos = parse_duration(text).ok_or("expected a duration such as 24h")?;
    let seconds = nanos / 1_000_000_000;
    if seconds < 600 {
        return Err("must be at least 10m".to_owned());
    }
    Ok(seconds)
}

/// Writes the Secret and the `KubeFedCluster` in the host.
async fn register(
    host: &Server,
    member: &Server,
    join: &Join,
    args: &JoinArgs,
    credentials: &Value,
) -> Result<(), CtlError> {
    let cluster = core(&join.namespace, "kubefedclusters");
    let path = format!("{cluster}/{}", join.cluster);
    let known = host.find(&path).await?;
    let known = known.filter(|_| !args.error_on_existing);
    // The Secret of a cluster that joins again is used again.
    let own = known
        .as_ref()
        .and_then(|known| known["spec"]["secretRef"]["name"].as_str());
    let name = given(&args.secret_name).or(own);
    let token = credentials["token"].as_str().unwrap_or_default();
    let secret = join.host_secret(name, token);
    let secrets = format!("/api/v1/namespaces/{}/secrets", join.namespace);
    let secret = match (host.create(&secrets, &secret).await, name) {
        (Err(error), Some(name)) if exists(&error) && !args.error_on_existing => {
            let data = json!({"data": {"token": token}});
            host.patch(&format!("{secrets}/{name}"), &data).await
        }
        (created, _) => created,
    };
    let secret = secret.map_err(trying("creating the Secret in the host cluster"))?;
    let secret = secret["metadata"]["name"].as_str().unwrap_or_default();
    let authority = credentials["ca.crt"].as_str();
    let object = join.cluster_object(&member.endpoint, secret, authority);
    let written = if known.is_some() {
        host.patch(&path, &json!({"spec": object["spec"]})).await
    } else {
        host.create(&cluster, &object).await
    };
    written.map_err(trying("writing the KubeFedCluster"))?;
    Ok(())
}
