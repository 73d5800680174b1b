//! Events of control objects: slices, bindings, published resources, types.

use std::collections::HashSet;
use std::sync::Arc;

use tokio::sync::{Notify, mpsc, watch};

use super::dispatch::{ControlEvent, Dispatch};
use super::export::WatchedExport;
use super::feeds::{crd_kind, published_resource_kind};
use super::publishing::Publishing;
use super::startup::Located;
use super::workspaces::{WorkspaceChange, Workspaces};
use crate::publish::related::binding_kind;
use hawser_runtime::cluster::cache::{Change, ChangeType, Coverage, SourceId};
use hawser_runtime::cluster::connection::Connection;
use hawser_runtime::cluster::feed::{Clusters, Content, Selection};
use hawser_runtime::controller::WatchSpec;
use hawser_sync::Side;
use kube_lang::object::Gvk;

pub fn slice_kind() -> Arc<Gvk> {
    Arc::new(Gvk::new(
        "apis.kcp.io",
        "v1alpha1",
        "APIExportEndpointSlice",
    ))
}

pub fn export_kind() -> Arc<Gvk> {
    Arc::new(Gvk::new("apis.kcp.io", "v1alpha1", "APIExport"))
}

/// The kinds of the control objects.
pub fn control_kinds() -> Vec<Arc<Gvk>> {
    vec![
        slice_kind(),
        export_kind(),
        binding_kind(),
        published_resource_kind(),
        crd_kind(),
    ]
}

/// A feed of the one object with this name in a workspace, by the only selector that its rights allow.
pub fn named(
    side: &Side,
    kind: Arc<Gvk>,
    resource: &str,
    at: &Connection,
    name: &str,
) -> WatchSpec {
    WatchSpec {
        side: side.clone(),
        kind,
        source: at.url().into(),
        coverage: Coverage::default(),
        selection: Selection {
            connection: at.clone(),
            resource: resource.into(),
            namespace: None,
            query: Some(format!("fieldSelector=metadata.name%3D{name}")),
            clusters: Clusters::One("".into()),
            content: Content::Whole,
        },
    }
}

fn uid_of(export: &WatchedExport) -> Option<&str> {
    match export {
        WatchedExport::Present(export) => export["metadata"]["uid"].as_str(),
        WatchedExport::Unknown | WatchedExport::Absent => None,
    }
}

/// Handles the events that decide which workspaces and resources take part.
pub struct ControlLoop {
    pub located: Located,
    pub dispatch: Arc<Dispatch>,
    pub workspaces: Arc<Workspaces>,
    pub publishing: Arc<Publishing>,
    pub export: watch::Sender<WatchedExport>,
    /// Kinds whose first list has been handled completely.
    pub listed: watch::Sender<HashSet<Arc<Gvk>>>,
    /// Notified when more is known than before, or when a workspace has come or left.
    pub complete: Arc<Notify>,
}

impl ControlLoop {
    /// Handles events until all senders are gone.
    pub async fn listen(self, mut events: mpsc::UnboundedReceiver<ControlEvent>) {
        while let Some(event) = events.recv().await {
            match event {
                ControlEvent::Changed(source, change) => self.changed(&source, &change),
                ControlEvent::Completed(source, kind) => self.completed(&source, &kind),
            }
        }
    }

    fn changed(&self, source: &SourceId, change: &Change) {
        let kind = &change.key.kind;
        if *kind == slice_kind() {
            if *change.key.name == *self.located.slice {
                let slice = (change.what != ChangeType::Gone).then_some(&*change.object);
                self.moved(self.workspaces.slice(slice));
            }
        } else if *kind == binding_kind() {
            self.workspaces.expect(Some(source));
            self.moved(self.workspaces.binding(source, change));
        } else if *kind == export_kind() {
            let seen = match change.what {
                ChangeType::Gone => WatchedExport::Absent,
                _ => WatchedExport::Present(Arc::new(change.object.as_value().clone())),
            };
            if uid_of(&self.export.borrow()).is_some_and(|known| uid_of(&seen) != Some(known)) {
                self.workspaces.doubt();
            }
            self.workspaces.expect(None);
            // Stored even without a receiver, because the next version is compared with it.
            self.export.send_replace(seen);
        } else {
            self.publishing.handle(change);
        }
    }

    fn completed(&self, source: &SourceId, kind: &Arc<Gvk>) {
        if *kind == published_resource_kind() {
            self.publishing.listed();
        } else if *kind == export_kind() {
            let _ = self.export.send_if_modified(|seen| {
                let missing = *seen == WatchedExport::Unknown;
                if missing {
                    *seen = WatchedExport::Absent;
                }
                missing
            });
        } else {
            self.dispatch.completed(source, kind);
            self.complete.notify_one();
        }
        self.listed
            .send_if_modified(|listed| listed.insert(Arc::clone(kind)));
    }

    fn moved(&self, mut moved: WorkspaceChange) {
        for cluster in std::mem::take(&mut moved.rebound) {
            self.dispatch.subjects.queue.retry_tenant(&cluster);
        }
        if moved.endpoints {
            for publication in self.dispatch.running().values() {
                self.publishing.attach(publication);
            }
        }
        if moved != WorkspaceChange::default() {
            self.publishing.report_all();
        }
        for cluster in moved.disengaged {
            self.dispatch.disengaged(&cluster);
            // The orphans of this workspace are counted now.
            self.complete.notify_one();
        }
        if !moved.engaged.is_empty() {
            self.complete.notify_one();
        }
        for cluster in moved.paused {
            self.dispatch.paused(&cluster);
        }
        for cluster in moved.engaged.into_iter().chain(moved.leaving) {
            self.dispatch.engaged(&cluster);
        }
    }
}
