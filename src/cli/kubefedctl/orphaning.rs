//! `kubefedctl orphaning-deletion`: whether copies outlive their federated object.

use clap::{Args, Subcommand};
use kube_lang::object::Object;

use hawser_federation::kubefedctl::orphaning::{Orphaning, check, patch, status, warning};

use super::console::{CtlError, print, trying};
use super::flags::{HostFlags, given};
use super::server::{Server, all_of};
use crate::cli::agent::parse_bool;

/// Keep copies when their federated object is deleted, or delete them with it.
#[derive(Debug, Args)]
pub(super) struct OrphaningArgs {
    #[command(subcommand)]
    action: OrphaningAction,
}

#[derive(Debug, Subcommand)]
enum OrphaningAction {
    /// Keep the copies
    Enable(OrphaningObject),
    /// Delete the copies with the object
    Disable(OrphaningObject),
    /// Print Enabled if the copies are kept, else Disabled
    Status(OrphaningObject),
}

#[derive(Debug, Args)]
#[allow(clippy::doc_markdown)] // These comments are the help.
#[command(args_override_self = true)]
struct OrphaningObject {
    /// Federated type, and name of the object
    #[arg(value_name = "TYPE NAME")]
    names: Vec<String>,

    #[command(flatten)]
    host: HostFlags,

    /// Namespace of the object [default: the context's]
    #[arg(
        short,
        long,
        value_name = "NAME",
        default_value = "",
        hide_default_value = true
    )]
    namespace: String,

    #[arg(long, hide = true)]
    kubefed_namespace: Option<String>,

    #[arg(long, hide = true, value_parser = parse_bool, default_value = "false")]
    #[arg(num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    dry_run: bool,
}

pub(super) async fn run(args: OrphaningArgs) -> Result<(), CtlError> {
    let (wanted, args) = match args.action {
        OrphaningAction::Enable(args) => (Some(Orphaning::Enable), args),
        OrphaningAction::Disable(args) => (Some(Orphaning::Disable), args),
        OrphaningAction::Status(args) => (None, args),
    };
    check(&args.names)?;
    let (kind, name) = (&args.names[0], &args.names[1]);
    let host = Server::host(&args.host)?;
    let api = host.lookup(kind, None).await?.api;
    if let Some(line) = warning(&api) {
        print(&format!("{line}\n"));
    }
    let namespace = given(&args.namespace).or(host.namespace.as_deref());
    let namespace = namespace.unwrap_or("default");
    let path = format!("{}/{name}", all_of(&api, Some(namespace)));
    let full = if api.is_namespaced() {
        format!("{namespace}/{name}")
    } else {
        name.clone()
    };
    let what = format!("Failed to retrieve resource: {full:?}");
    let found = host.get(&path).await.map_err(trying(what))?;
    let found = Object::new(found).map_err(|error| CtlError::Document {
        file: full.clone(),
        problem: error.to_string(),
    })?;
    let Some(wanted) = wanted else {
        print(&format!("{}\n", status(&found)));
        return Ok(());
    };
    if let Some(patch) = patch(&found, wanted).filter(|_| !args.dry_run) {
        let what = format!("Failed to update resource: {full:?}");
        host.patch(&path, &patch).await.map_err(trying(what))?;
    }
    Ok(())
}
