//! `kubefedctl disable`: stops propagation of a type, and deletes its `FederatedTypeConfig`.

use std::time::Duration;

use clap::Args;
use serde_json::{Value, json};

use hawser_federation::kubefedctl::disable::{DisableError, Flags, Line, check};
use hawser_federation::kubefedctl::federate::default_type;
use hawser_federation::types::type_config::{ApiResource, FederatedTypeConfigSpec};

use super::console::{CtlError, print, trying};
use super::enable::has_instances;
use super::flags::{ControlFlags, given};
use super::server::{Server, core, definition};
use crate::cli::agent::parse_bool;

/// The time in which the control plane has to stop propagation.
const STOPPED_WITHIN: Duration = Duration::from_secs(10);
const STOPPED_EVERY: Duration = Duration::from_millis(100);

/// Disable a type: its objects are no longer propagated.
#[derive(Debug, Args)]
#[allow(clippy::doc_markdown)] // These comments are the help.
#[command(args_override_self = true)]
pub(super) struct DisableArgs {
    /// Name of the FederatedTypeConfig, or of the type
    #[arg(value_name = "NAME")]
    names: Vec<String>,

    #[command(flatten)]
    control: ControlFlags,

    /// Delete the definition of the federated type as well
    #[arg(long, value_name = "BOOL", value_parser = parse_bool, default_value = "false")]
    #[arg(num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    delete_crd: bool,

    /// Group of the federated type [default: types.kubefed.io]
    #[arg(long, value_name = "GROUP")]
    federated_group: Option<String>,

    /// Version of the type
    #[arg(long, value_name = "VERSION")]
    version: Option<String>,
}

pub(super) async fn run(args: DisableArgs) -> Result<(), CtlError> {
    let name = args.names.first().map(String::as_str);
    let flags = Flags {
        delete_crd: args.delete_crd,
        version: args.version.is_some(),
        federated_group: args.federated_group.is_some(),
    };
    check(name, flags)?;
    let name = name.unwrap_or_default();
    let host = Server::host(&args.control.host)?;
    // With a dot it is the name, also of a type that is not served any more.
    let target = if name.contains('.') {
        None
    } else {
        let version = args.version.as_deref().and_then(given);
        Some(host.lookup(name, version).await?.api)
    };
    let name = target
        .as_ref()
        .map_or_else(|| name.to_owned(), ApiResource::qualified_name);
    let namespace = &args.control.kubefed_namespace;
    let path = format!("{}/{name}", core(namespace, "federatedtypeconfigs"));
    let full = format!("{namespace}/{name}");
    let found = host.find(&path).await;
    let found = found.map_err(trying(format!(
        "Error retrieving FederatedTypeConfig {full:?}"
    )))?;
    let federated = federated_type(found.as_ref(), target.as_ref(), &name, &args);
    let crd = federated.qualified_name();
    if args.delete_crd && has_instances(&host, &federated).await? {
        return Err(DisableError::Instances(crd).into());
    }
    if args.control.dry_run {
        if found.is_none() {
            say(Line::ConfigMissing(&full));
        }
        return Ok(());
    }
    if let Some(found) = &found {
        stop(&host, &path, &full, found).await?;
    }
    if args.delete_crd {
        let deleted = host.delete(&definition(&crd)).await;
        if deleted.map_err(trying(format!("Error deleting CRD {crd:?}")))? {
            say(Line::DefinitionDeleted(&crd));
        }
    }
    if found.is_none() {
        say(Line::ConfigMissing(&full));
        return Ok(());
    }
    let deleted = host.delete(&path).await;
    deleted.map_err(trying(format!(
        "Error deleting FederatedTypeConfig {full:?}"
    )))?;
    say(Line::ConfigDeleted(&full));
    Ok(())
}

/// The federated type of the `FederatedTypeConfig`, else the default.
fn federated_type(
    found: Option<&Value>,
    target: Option<&ApiResource>,
    name: &str,
    args: &DisableArgs,
) -> ApiResource {
    let spec = found.and_then(|found| {
        let spec: Option<FederatedTypeConfigSpec> =
            serde_json::from_value(found["spec"].clone()).ok();
        let mut spec = spec?;
        spec.complete(name);
        Some(spec.federated_type)
    });
    spec.unwrap_or_else(|| {
        let plural = name.split('.').next().unwrap_or_default();
        let named = ApiResource {
            plural_name: plural.to_owned(),
            ..ApiResource::default()
        };
        let mut federated = default_type(target.unwrap_or(&named));
        if let Some(group) = args.federated_group.as_deref().and_then(given) {
            group.clone_into(&mut federated.group);
        }
        federated
    })
}

/// Disables propagation, and waits until the control plane has stopped it.
async fn stop(host: &Server, path: &str, full: &str, found: &Value) -> Result<(), CtlError> {
    if found["spec"]["propagation"] == "Disabled" {
        say(Line::AlreadyDisabled(full));
    } else {
        let patch = json!({"spec": {"propagation": "Disabled"}});
        let patched = host.patch(path, &patch).await;
        let what = format!("Error disabling propagation for FederatedTypeConfig {full:?}");
        patched.map_err(trying(what))?;
        say(Line::Disabled(full));
    }
    say(Line::Verifying(full));
    let stopped = async {
        loop {
            let found = host.get(path).await?;
            let status = &found["status"];
            let is_current = status["observedGeneration"] == found["metadata"]["generation"];
            if is_current && status["propagationController"] == "NotRunning" {
                return Ok(());
            }
            tokio::time::sleep(STOPPED_EVERY).await;
        }
    };
    let waited = tokio::time::timeout(STOPPED_WITHIN, stopped).await;
    waited.unwrap_or_else(|_| {
        Err(CtlError::Waited(format!(
            "Unable to verify propagation controller for FederatedTypeConfig {full:?} is stopped: timed out waiting for the condition"
        )))
    })?;
    say(Line::Stopped(full));
    Ok(())
}

fn say(line: Line<'_>) {
    print(&format!("{line}\n"));
}
