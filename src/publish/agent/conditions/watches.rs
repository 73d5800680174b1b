//! The watches of the service cluster, asked for what conditions need.

use std::sync::Arc;

use serde_json::Value;

use super::Known;
use crate::cluster::cache::Cache;
use crate::object::Object;
use crate::publish::agent::feeds::Watched;
use crate::publish::agent::schemas::CrdPrint;
use crate::sync::{Seen, Store as _};

/// The name of the type of published resources.
const DEFINITION: &str = "publishedresources.syncagent.kcp.io";

/// The watches that matter.
pub struct Watches {
    pub cache: Arc<Cache>,
    /// Of published resources.
    pub published: Arc<Watched>,
    /// Of custom resource definitions; their metadata is enough.
    pub definitions: Arc<Watched>,
}

impl Watches {
    fn see(&self, watch: &Watched, name: &str) -> Option<Arc<Object>> {
        match self.cache.get(&watch.table().scope("").key(None, name)) {
            Seen::Present(object) => Some(object),
            Seen::Absent | Seen::Unknown => None,
        }
    }
}

impl Known for Watches {
    fn published(&self, name: &str) -> Option<Arc<Value>> {
        let object = self.see(&self.published, name)?;
        Some(Arc::new(object.as_value().clone()))
    }

    fn definition(&self) -> Option<CrdPrint> {
        let definition = self.see(&self.definitions, DEFINITION)?;
        let metadata = &definition.as_value()["metadata"];
        Some(CrdPrint {
            uid: definition.uid().unwrap_or_default().to_owned(),
            generation: metadata["generation"].as_i64().unwrap_or_default(),
        })
    }
}
