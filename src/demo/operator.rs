//! A simple operator of the example's type: it runs no database, and only writes the status.
//!
//! It is an ordinary controller of the service cluster, and has no access to kcp.

use std::time::Duration;

use futures::{TryStreamExt as _, pin_mut};
use kube::api::{
    Api, ApiResource, DynamicObject, GroupVersionKind, ListParams, Patch, PatchParams, WatchEvent,
    WatchParams,
};
use kube::{Client, ResourceExt as _};
use serde_json::{Value, json};
use tokio::time::sleep;
use tracing::debug;

use super::example::{GROUP, KIND, PLURAL, VERSION};

/// The pause before the next list.
const AGAIN: Duration = Duration::from_millis(200);

/// Writes the status of every object, until it is dropped.
pub(super) async fn run(client: Client) {
    let kind = GroupVersionKind::gvk(GROUP, VERSION, KIND);
    let resource = ApiResource::from_gvk_with_plural(&kind, PLURAL);
    loop {
        if let Err(error) = follow(&client, &resource).await {
            debug!(%error, "the operator lists its objects again");
        }
        sleep(AGAIN).await;
    }
}

/// One list, and the events after it.
async fn follow(client: &Client, resource: &ApiResource) -> kube::Result<()> {
    let objects: Api<DynamicObject> = Api::all_with(client.clone(), resource);
    let list = objects.list(&ListParams::default()).await?;
    let since = list.metadata.resource_version.unwrap_or_default();
    for object in list.items {
        write_status(client, resource, &object).await?;
    }
    let events = objects.watch(&WatchParams::default(), &since).await?;
    pin_mut!(events);
    while let Some(event) = events.try_next().await? {
        match event {
            WatchEvent::Added(object) | WatchEvent::Modified(object) => {
                write_status(client, resource, &object).await?;
            }
            WatchEvent::Deleted(_) | WatchEvent::Bookmark(_) => {}
            WatchEvent::Error(refusal) => return Err(kube::Error::Api(refusal)),
        }
    }
    Ok(())
}

async fn write_status(
    client: &Client,
    resource: &ApiResource,
    object: &DynamicObject,
) -> kube::Result<()> {
    let name = object.name_any();
    let status = status(&name);
    let (Some(namespace), false) = (object.namespace(), object.data["status"] == status) else {
        return Ok(());
    };
    let objects: Api<DynamicObject> = Api::namespaced_with(client.clone(), &namespace, resource);
    let patch = Patch::Merge(json!({ "status": status }));
    let options = PatchParams::default();
    match objects.patch_status(&name, &options, &patch).await {
        // It went in the meantime.
        Err(kube::Error::Api(refusal)) if refusal.is_not_found() => Ok(()),
        patched => patched.map(drop),
    }
}

/// The status of a database with this name.
fn status(name: &str) -> Value {
    json!({
        "phase": "Ready",
        "host": format!("{name}.db.internal"),
        "port": 5432,
        "nodes": ["node-a"],
    })
}
