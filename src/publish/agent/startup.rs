//! Finds the slice and the export of the agent in kcp.
//!
//! The agent waits for everything that does not exist or is not allowed yet, logs that, and retries. Only an invalid
//! address ends the agent.

use std::time::Duration;

use serde_json::Value;
use tokio::time::sleep;
use tracing::{info, warn};

use hawser_runtime::cluster::connection::{Call, ConnectError, Connection, RequestError};

pub(super) const SLICES: &str = "/apis/apis.kcp.io/v1alpha1/apiexportendpointslices";
const EXPORTS: &str = "/apis/apis.kcp.io/v1alpha1/apiexports";
const LOGICAL_CLUSTER: &str = "/apis/core.kcp.io/v1alpha1/logicalclusters/cluster";

/// The first and the longest wait before a retry.
const PAUSES: (Duration, Duration) = (Duration::from_millis(250), Duration::from_secs(5));

/// A workspace, with its names in kcp.
#[derive(Clone, Debug)]
pub struct Workspace {
    pub connection: Connection,
    pub cluster: String,
    pub path: String,
}

/// The endpoint slice and the export that were found.
#[derive(Clone, Debug)]
pub struct Located {
    pub slice: String,
    pub slice_workspace: Workspace,
    pub export: String,
    pub export_workspace: Workspace,
}

#[derive(Debug, thiserror::Error)]
pub enum StartError {
    #[error(
        "{url:?} is not the URL of one workspace: the server of the kcp kubeconfig needs exactly one /clusters/<workspace> in its URL"
    )]
    NoWorkspace { url: String },
    #[error(transparent)]
    Address(#[from] ConnectError),
}

/// Finds slice and export; fails only if an address is invalid.
pub async fn locate(kcp: &Connection, slice: &str) -> Result<Located, StartError> {
    let found = persistently(
        kcp,
        &format!("{SLICES}/{slice}"),
        "APIExportEndpointSlice",
        slice,
    )
    .await;
    let slice_workspace = identify(kcp.clone()).await;
    let export = &found["spec"]["export"];
    let name = export["name"].as_str().unwrap_or_default().to_owned();
    let at = match export["path"].as_str().filter(|path| !path.is_empty()) {
        None => kcp.clone(),
        Some(path) => kcp.at(&elsewhere(&kcp.url(), path)?)?,
    };
    persistently(&at, &format!("{EXPORTS}/{name}"), "APIExport", &name).await;
    let export_workspace = identify(at).await;
    for (kind, name, workspace) in [
        ("APIExport", &*name, &export_workspace),
        ("APIExportEndpointSlice", slice, &slice_workspace),
    ] {
        let Workspace { cluster, path, .. } = workspace;
        info!(kind, name, workspace = %path, logicalcluster = %cluster, "found in kcp");
    }
    Ok(Located {
        slice: slice.to_owned(),
        slice_workspace,
        export: name,
        export_workspace,
    })
}

/// The logical cluster of a workspace, by its path.
pub(super) async fn in_workspace(
    kcp: &Connection,
    path: &str,
) -> Result<Result<String, RequestError>, StartError> {
    let at = kcp.at(&elsewhere(&kcp.url(), path)?)?;
    let found = at.ask(Call::get(LOGICAL_CLUSTER)).await;
    let cluster = |found: &Value| {
        let cluster = &found["metadata"]["annotations"]["kcp.io/cluster"];
        cluster.as_str().unwrap_or_default().to_owned()
    };
    Ok(found.as_ref().map(cluster).map_err(Clone::clone))
}

async fn identify(connection: Connection) -> Workspace {
    let found = persistently(&connection, LOGICAL_CLUSTER, "LogicalCluster", "cluster").await;
    let annotation = |name: &str| {
        let value = &found["metadata"]["annotations"][name];
        value.as_str().unwrap_or_default().to_owned()
    };
    Workspace {
        cluster: annotation("kcp.io/cluster"),
        path: annotation("kcp.io/path"),
        connection,
    }
}

/// Reads until it succeeds, and logs the obstacle whenever that changes.
async fn persistently(at: &Connection, path: &str, kind: &str, name: &str) -> Value {
    let mut pause = PAUSES.0;
    let mut said = String::new();
    loop {
        match at.ask(Call::get(path)).await {
            Ok(found) => return found,
            Err(error) => {
                let problem = explain(&error, kind, name);
                if problem != said {
                    warn!(kcp = at.url(), kind, name, problem, "waiting for kcp");
                    said = problem;
                }
            }
        }
        sleep(pause).await;
        pause = (pause * 2).min(PAUSES.1);
    }
}

fn explain(error: &RequestError, kind: &str, name: &str) -> String {
    match error.code() {
        Some(401) => "the credentials are not accepted: check the kcp kubeconfig".to_owned(),
        Some(403) => {
            format!("the agent may not read the {kind} {name}: grant it this right ({error})")
        }
        Some(404) => {
            format!(
                "{kind} {name} does not exist in this workspace: create it, or correct the flags"
            )
        }
        _ => error.to_string(),
    }
}

/// The same server, at another workspace.
fn elsewhere(url: &str, path: &str) -> Result<String, StartError> {
    const MARK: &str = "/clusters/";
    let wrong = || StartError::NoWorkspace {
        url: url.to_owned(),
    };
    let (before, after) = url.split_once(MARK).ok_or_else(wrong)?;
    let (workspace, rest) = after.split_at(after.find('/').unwrap_or(after.len()));
    if workspace.is_empty() || rest.contains(MARK) {
        return Err(wrong());
    }
    Ok(format!("{before}{MARK}{path}{rest}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_workspace_in_an_address_is_replaced_where_there_is_exactly_one() {
        let at = |url| elsewhere(url, "root:org").ok();
        assert_eq!(
            at("https://kcp:6443/clusters/abc").as_deref(),
            Some("https://kcp:6443/clusters/root:org")
        );
        assert_eq!(
            at("https://kcp/prefix/clusters/abc/more").as_deref(),
            Some("https://kcp/prefix/clusters/root:org/more")
        );
        for wrong in [
            "https://kcp",
            "https://kcp/clusters/",
            "https://kcp/clusters/a/clusters/b",
        ] {
            assert!(at(wrong).is_none(), "{wrong}");
        }
    }
}
