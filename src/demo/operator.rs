//! The operator of the example's type, as a toy: it runs no database, it only says that it does.
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

/// How soon it tries again what failed.
const AGAIN: Duration = Duration::from_millis(200);

/// Fills in the status of every object, as long as it is not dropped.
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

/// What a database of this name comes to.
fn status(name: &str) -> Value {
    json!({
        "phase": "Ready",
        "host": format!("{name}.db.internal"),
        "port": 5432,
        "nodes": ["node-a"],
    })
}
