//! The release of an object: the writes that remove every mark and leave the copy where it is.
//!
//! The order survives a kill after each write, and the next run finds what is left:
//!
//! 1. a witness on the object, or on its copies if it does not exist: it proves to the next run that the marks that are
//!    left are those of this agent, and leads from the name of a copy to the object
//! 2. the finalizers of related originals, because only the state leads to them
//! 3. the state: from here on, nothing but its labels leads to the copy
//! 4. the labels and annotations of the copy: it is released, and no deletion of its object reaches it
//! 5. the finalizer and annotations of the object, with the witness

use std::sync::Arc;

use serde_json::{Value, json};

use super::compiled::AgentIdentity;
use super::hashes::sha1_hex;
use super::marks;
use hawser_sync::Key;
use kube_lang::object::{Object, merge_patch};

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
    /// The states of this agent, one for each version that is published.
    pub states: Vec<LiveObject>,
    /// The copies with the marks of this agent.
    pub copies: Vec<LiveObject>,
    pub object: Option<LiveObject>,
    /// Whether something else needs the finalizer of the object.
    pub is_held: bool,
}

/// A write to exactly the version of the object that was read.
#[derive(Clone, Debug, PartialEq)]
pub struct ReleaseWrite {
    pub key: Key,
    pub resource: String,
    /// The merge patch, without the version that it is made to; `None` deletes the object.
    pub patch: Option<Value>,
    pub uid: Option<String>,
    pub version: Option<String>,
}

impl Marked {
    /// Whether the marks on the object are proven to be those of this agent.
    pub fn is_ours(&self, agent: &AgentIdentity) -> bool {
        !self.states.is_empty() || !self.copies.is_empty() || self.is_begun(agent)
    }

    /// A copy whose state this agent never had, unless an earlier release deleted it: the states may be elsewhere.
    pub fn copy_without_state(&self, agent: &AgentIdentity) -> Option<&Key> {
        let is_known = !self.states.is_empty() || self.is_begun(agent);
        self.copies
            .first()
            .filter(|_| !is_known)
            .map(|one| &one.key)
    }

    /// Whether a release has begun: the object has the witness, or each copy of one that does not exist.
    fn is_begun(&self, agent: &AgentIdentity) -> bool {
        let has_witness = |live: &LiveObject| Witness::read(&live.object, agent).is_some();
        match &self.object {
            Some(object) => has_witness(object),
            None => !self.copies.is_empty() && self.copies.iter().all(has_witness),
        }
    }

    /// The writes that are left, in the order in which they have to be made.
    pub fn writes(&self, agent: &AgentIdentity) -> Vec<ReleaseWrite> {
        if !self.is_ours(agent) {
            return Vec::new();
        }
        let mut writes = Vec::new();
        let mut witnessed = self.clone();
        // Without a state and copies, the last write is the only one.
        if !self.is_begun(agent) {
            let witness = Witness::text(agent, self.copies.iter().map(|copy| &copy.key));
            let patch = json!({"metadata": {"annotations": {marks::RELEASING: witness}}});
            let places = match &mut witnessed.object {
                Some(object) => std::slice::from_mut(object),
                None => &mut witnessed.copies,
            };
            for live in places {
                writes.push(live.write(Some(patch.clone())));
                live.object.set_annotation(marks::RELEASING, &witness);
            }
        }
        writes.extend(self.originals.iter().filter_map(|(original, finalizer)| {
            let patch = marks::without_finalizer(&original.object, finalizer)?;
            Some(original.write(Some(patch)))
        }));
        writes.extend(self.states.iter().map(|state| state.write(None)));
        writes.extend(witnessed.copies.iter().filter_map(|copy| {
            let patch = marks::unmark_copy(&copy.object)?;
            Some(copy.write(Some(patch)))
        }));
        let finalizer = Some(marks::FINALIZER).filter(|_| !self.is_held);
        writes.extend(witnessed.object.iter().filter_map(|live| {
            let patch = marks::unmark_object(&live.object, finalizer)?;
            Some(live.write(Some(patch)))
        }));
        writes
    }
}

/// The witness of a release. Consumers can read it, so it consists of hashes only.
pub struct Witness<'o> {
    copies: Vec<&'o str>,
}

impl<'o> Witness<'o> {
    /// The witness on an object, if it is one of this agent with this namespace of states.
    pub fn read(object: &'o Object, agent: &AgentIdentity) -> Option<Self> {
        let mut words = object.annotation(marks::RELEASING)?.split(' ');
        let is_own = words.next() == Some(&*Self::author(agent));
        is_own.then(|| Self {
            copies: words.collect(),
        })
    }

    fn text<'k>(agent: &AgentIdentity, copies: impl Iterator<Item = &'k Key>) -> String {
        let mut words = vec![Self::author(agent)];
        for copy in copies {
            let name = &copy.name;
            words.push(Self::copy(None, name));
            let namespace = copy.namespace.iter();
            words.extend(namespace.map(|namespace| Self::copy(Some(namespace), name)));
        }
        words.join(" ")
    }

    /// Whether a copy of this name is released, in any namespace without one.
    pub fn names(&self, namespace: Option<&str>, name: &str) -> bool {
        self.copies.contains(&&*Self::copy(namespace, name))
    }

    fn author(agent: &AgentIdentity) -> String {
        // No name of an agent or a namespace contains a slash.
        sha1_hex(&format!("{}/{}", agent.name, agent.namespace))
    }

    fn copy(namespace: Option<&str>, name: &str) -> String {
        sha1_hex(&format!("{}/{name}", namespace.unwrap_or_default()))
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

    /// The body of the request: the patch or the options of the deletion. `version` is that of the object after an earlier
    /// write.
    pub fn body(&self, version: Option<&str>) -> Value {
        let version = version.or(self.version.as_deref());
        let precondition = json!({"uid": self.uid, "resourceVersion": version});
        if let Some(patch) = &self.patch {
            let mut body = patch.clone();
            merge_patch::apply(&mut body, &json!({"metadata": precondition}));
            return body;
        }
        json!({"apiVersion": "v1", "kind": "DeleteOptions", "preconditions": precondition})
    }

    /// The name, if the write deletes a state.
    pub fn deleted_state(&self) -> Option<&Arc<str>> {
        self.patch.is_none().then_some(&self.key.name)
    }
}

#[cfg(test)]
mod tests;
