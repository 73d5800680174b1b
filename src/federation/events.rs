//! Events on federated objects and members.

use std::sync::Arc;

use hawser_federation::events::{Severity, shortened};
use hawser_runtime::cluster::connection::Connection;
use hawser_runtime::cluster::events::{EventText, InvolvedObject, Note, Recorder};
use kube_lang::object::Object;

use super::host;

/// Records events on objects of the host.
#[derive(Clone, Debug)]
pub struct EventRecorder {
    pub host: Connection,
    pub recorder: Recorder,
}

impl EventRecorder {
    pub fn record(&self, about: &Object, severity: Severity, reason: &str, message: &str) {
        let kind = Arc::new(about.gvk());
        let key = host::scope(&kind).key(about.namespace(), about.name());
        self.recorder.record(Note {
            trouble: None,
            connection: self.host.clone(),
            // As in KubeFed, each object has a rate of its own.
            tenant: key.to_string().into(),
            about: InvolvedObject {
                key,
                uid: about.uid().map(Arc::from),
            },
            text: EventText {
                component: format!("{}-controller", kind.kind.to_lowercase()).into(),
                kind: severity.as_str(),
                reason: reason.to_owned().into(),
                message: shortened(message),
            },
        });
    }
}
