//! The release of an object: the writes that remove every mark and leave the copy where it is.
//!
//! The order survives a kill after each write, and the next run finds what is left:
//!
//! 1. the finalizers of related originals, because only the state leads to them
//! 2. the state: from here on, nothing but its labels leads to the copy
//! 3. the labels and annotations of the copy: it is released, and no deletion of its object reaches it
//! 4. the finalizer and annotations of the object

use std::sync::Arc;

use serde_json::Value;

use super::marks;
use hawser_sync::Key;
use kube_lang::object::Object;

/// An object, as a live read found it.
#[derive(Clone, Debug)]
pub struct LiveObject {
    pub key: Key,
    /// The plural of its kind.
    pub resource: String,
    pub object: Object,
}

/// Everything that may have marks because of one object of a workspace.
#[derive(Clone, Debug, Default)]
pub struct Marked {
    /// The related originals that no other state records, each with the agent's finalizer.
    pub originals: Vec<(LiveObject, String)>,
    pub state: Option<LiveObject>,
    pub copies: Vec<LiveObject>,
    pub object: Option<LiveObject>,
}

/// A write to exactly the version of the object that was read.
#[derive(Clone, Debug, PartialEq)]
pub struct ReleaseWrite {
    pub key: Key,
    pub resource: String,
    /// The merge patch; `None` deletes the object.
    pub patch: Option<Value>,
    pub uid: Option<String>,
    pub version: Option<String>,
}

impl Marked {
    /// The writes that are left, in the order in which they have to be made.
    pub fn writes(&self) -> Vec<ReleaseWrite> {
        let originals = self.originals.iter().filter_map(|(original, finalizer)| {
            let patch = marks::without_finalizer(&original.object, finalizer)?;
            Some(original.write(Some(patch)))
        });
        let state = self.state.iter().map(|state| state.write(None));
        let copies = self.copies.iter().filter_map(|copy| {
            let patch = marks::unmark_copy(&copy.object)?;
            Some(copy.write(Some(patch)))
        });
        let object = self.object.iter().filter_map(|live| {
            let patch = marks::unmark_object(&live.object)?;
            Some(live.write(Some(patch)))
        });
        originals.chain(state).chain(copies).chain(object).collect()
    }
}

impl LiveObject {
    fn write(&self, patch: Option<Value>) -> ReleaseWrite {
        ReleaseWrite {
            key: self.key.clone(),
            resource: self.resource.clone(),
            patch,
            uid: self.object.uid().map(str::to_owned),
            version: self.object.resource_version().map(str::to_owned),
        }
    }
}

impl ReleaseWrite {
    pub fn verb(&self) -> &'static str {
        if self.patch.is_some() {
            "patch"
        } else {
            "delete"
        }
    }

    /// The name, if the write deletes a state.
    pub fn deleted_state(&self) -> Option<&Arc<str>> {
        self.patch.is_none().then_some(&self.key.name)
    }
}

#[cfg(test)]
mod tests;
