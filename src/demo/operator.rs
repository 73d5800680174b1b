//! A toy operator of the example's type: it runs no database, and only writes the status.
//!
//! An ordinary controller of the service cluster; it knows nothing of consumers and of kcp.

use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt as _;
use kube::api::{Api, ApiResource, DynamicObject, GroupVersionKind, Patch, PatchParams};
use kube::runtime::controller::{Action, Controller};
use kube::runtime::watcher;
use kube::{Client, ResourceExt as _};
use serde_json::{Value, json};

use super::example::{GROUP, KIND, PLURAL, VERSION};

/// The pause before a retry.
const AGAIN: Duration = Duration::from_millis(200);

/// Writes the status of every object, until it is dropped.
pub(super) async fn run(client: Client) {
    let kind = GroupVersionKind::gvk(GROUP, VERSION, KIND);
    let resource = ApiResource::from_gvk_with_plural(&kind, PLURAL);
    let objects: Api<DynamicObject> = Api::all_with(client.clone(), &resource);
    let context = Arc::new((client, resource.clone()));
    Controller::new_with(objects, watcher::Config::default(), resource)
        .run(reconcile, |_, _, _| Action::requeue(AGAIN), context)
        .for_each(async |_| {})
        .await;
}

async fn reconcile(
    object: Arc<DynamicObject>,
    context: Arc<(Client, ApiResource)>,
) -> Result<Action, kube::Error> {
    let status = status(&object.name_any());
    let namespace = object.namespace();
    let (Some(namespace), false) = (namespace, object.data["status"] == status) else {
        return Ok(Action::await_change());
    };
    let (client, resource) = &*context;
    let objects: Api<DynamicObject> = Api::namespaced_with(client.clone(), &namespace, resource);
    let patch = Patch::Merge(json!({ "status": status }));
    let name = object.name_any();
    let how = PatchParams::default();
    match objects.patch_status(&name, &how, &patch).await {
        // It went in the meantime.
        Err(kube::Error::Api(refusal)) if refusal.is_not_found() => {}
        patched => drop(patched?),
    }
    Ok(Action::await_change())
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
