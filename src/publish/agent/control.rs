//! What feeds tell that is about no single object: slices, bindings, published resources, types.

use std::collections::HashSet;
use std::sync::Arc;

use tokio::sync::{Notify, mpsc, watch};

use super::dispatch::{Dispatch, News};
use super::export::Seen;
use super::publishing::{Publishing, crd_kind, published_resource_kind};
use super::startup::Located;
use super::workspaces::{Moved, Workspaces, binding_kind};
use hawser_runtime::cluster::cache::{Change, Coverage, SourceId, What};
use hawser_runtime::cluster::connection::Connection;
use hawser_runtime::cluster::feed::{Clusters, Content, Selection};
use hawser_sync::Side;
use kube_lang::object::Gvk;

use super::feeds::Wanted;

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

/// The kinds whose events come here.
pub fn control_kinds() -> Vec<Arc<Gvk>> {
    vec![
        slice_kind(),
        export_kind(),
        binding_kind(),
        published_resource_kind(),
        crd_kind(),
    ]
}

/// A feed of the one object of a workspace that has this name, by the only selector that its rights
/// allow.
pub fn named(side: &Side, kind: Arc<Gvk>, resource: &str, at: &Connection, name: &str) -> Wanted {
    Wanted {
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

/// Hears of everything that decides about who takes part in what.
pub struct Control {
    pub located: Located,
    pub dispatch: Arc<Dispatch>,
    pub workspaces: Arc<Workspaces>,
    pub publishing: Arc<Publishing>,
    pub export: watch::Sender<Seen>,
    /// Kinds of which a first list has come and been heard of whole.
    pub listed: watch::Sender<HashSet<Arc<Gvk>>>,
    /// Told when more is known than before, or a workspace has come or left.
    pub complete: Arc<Notify>,
}

impl Control {
    /// Listens until nobody can tell anything any more.
    pub async fn listen(self, mut news: mpsc::UnboundedReceiver<News>) {
        while let Some(news) = news.recv().await {
            match news {
                News::Changed(source, change) => self.changed(&source, &change),
                News::Completed(source, kind) => self.completed(&source, &kind),
            }
        }
    }

    fn changed(&self, source: &SourceId, change: &Change) {
        let kind = &change.key.kind;
        if *kind == slice_kind() {
            if *change.key.name == *self.located.slice {
                let slice = (change.what != What::Gone).then_some(&*change.object);
                self.moved(self.workspaces.slice(slice));
            }
        } else if *kind == binding_kind() {
            self.workspaces.expect(Some(source));
            self.moved(self.workspaces.binding(source, change));
        } else if *kind == export_kind() {
            self.workspaces.expect(None);
            let seen = match change.what {
                What::Gone => Seen::Absent,
                _ => Seen::Present(Arc::new(change.object.as_value().clone())),
            };
            // Nobody keeps the export where that part is left out.
            let _ = self.export.send(seen);
        } else {
            self.publishing.heard(change);
        }
    }

    fn completed(&self, source: &SourceId, kind: &Arc<Gvk>) {
        if *kind == published_resource_kind() {
            self.publishing.listed();
        } else if *kind == export_kind() {
            let _ = self.export.send_if_modified(|seen| {
                let missing = *seen == Seen::Unknown;
                if missing {
                    *seen = Seen::Absent;
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

    fn moved(&self, moved: Moved) {
        if moved.endpoints {
            for publication in self.dispatch.running().all() {
                self.publishing.attach(publication);
            }
        }
        if moved != Moved::default() {
            self.publishing.report_all();
        }
        for cluster in moved.disengaged {
            self.dispatch.disengaged(&cluster);
            // What is left of it is counted.
            self.complete.notify_one();
        }
        if !moved.engaged.is_empty() {
            self.complete.notify_one();
        }
        for cluster in moved.engaged.into_iter().chain(moved.leaving) {
            self.dispatch.engaged(&cluster);
        }
    }
}
