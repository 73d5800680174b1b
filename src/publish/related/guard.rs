//! The guard of the service cluster: the objects that related entries may reach, and those that consumers can never
//! name.
//!
//! It concerns the service cluster only: in its own workspace a consumer may name any object.

use super::entry::{Author, Entry, Values};
use crate::publish::marks::{self, Remote};
use crate::publish::types::Origin;
use hawser_sync::{Code, Key, Reason};
use kube_lang::object::Object;

/// The inputs of the guard.
pub(super) struct Guard<'a> {
    pub(super) entry: &'a Entry,
    pub(super) remote: &'a Remote,
    pub(super) path: &'a str,
    /// The copy of the published object.
    pub(super) local: &'a Object,
    /// Whether copies have a status subresource, so that consumers have no influence on the status.
    pub(super) status_is_providers: bool,
    /// Whether consumers have no influence on the namespace of the copy.
    pub(super) mapping_is_owners: bool,
    /// Whether that namespace is open to entries all the same.
    pub(super) mapping_is_open: bool,
    /// The namespace of the agent.
    pub(super) agent: &'a str,
}

impl Guard<'_> {
    /// Whether an object of the service cluster may be read or written, by its name.
    pub(super) fn place(&self, key: &Key) -> Result<(), Reason> {
        let Some(namespace) = key.namespace.as_deref() else {
            return self.cluster_scoped(key);
        };
        let closed = |why: &str| {
            let said = format!("{namespace}: {why}");
            Err(Reason::new(Code::NamespaceClosed, said))
        };
        let is_mapped = self.local.namespace() == Some(namespace);
        // Whoever may name the namespace of a copy does not get at what the system keeps in it.
        let is_owners = is_mapped && self.mapping_is_owners && namespace != self.agent;
        if let Some(why) = reserved(namespace, self.agent)
            && !is_owners
        {
            return closed(why);
        }
        if namespace == "default" && !is_mapped {
            return closed("it is never allowed");
        }
        // It is where the owner puts what belongs to this very object.
        if is_mapped && self.mapping_is_open {
            return Ok(());
        }
        let own = self.entry.namespaces.as_ref();
        let own = own.is_some_and(|values| self.is_own(values));
        let is_workspace = namespace == self.remote.cluster || namespace == self.path;
        if own || is_workspace || self.entry.allowed_namespaces.contains(namespace) {
            return Ok(());
        }
        closed("consumers influence it, and allowedNamespaces does not list it")
    }

    /// Whether consumers have no influence on a value on the service cluster.
    fn is_own(&self, values: &Values) -> bool {
        match values.authors(self.entry.origin).service {
            Author::Owner => true,
            Author::Status => self.status_is_providers,
            Author::Consumer => false,
        }
    }

    /// A cluster-scoped object differs from another tenant's by its name only.
    fn cluster_scoped(&self, key: &Key) -> Result<(), Reason> {
        let own = self.is_own(&self.entry.names);
        let proves = self.entry.choices.require_link && self.entry.origin == Origin::Service;
        if own || proves {
            return Ok(());
        }
        let said = format!(
            "{}: consumers influence its name, and it is cluster-scoped",
            key.name
        );
        Err(Reason::new(Code::NamespaceClosed, said))
    }

    /// Whether an original on the service cluster may be copied to this workspace.
    pub(super) fn original(&self, object: &Object) -> Result<(), Reason> {
        let refused = |said: &str| Err(Reason::new(Code::NotLinked, said));
        if object.label(marks::OBJECT_STATE).is_some() {
            return refused("it is the state Secret of an agent");
        }
        if let Some(cluster) = object.label(marks::CLUSTER)
            && cluster != self.remote.cluster
        {
            return refused("it belongs to another workspace");
        }
        if self.entry.choices.require_link && !self.is_linked(object) {
            return refused("requireLink needs an owner reference or the agent's labels");
        }
        Ok(())
    }

    fn is_linked(&self, object: &Object) -> bool {
        let owners = object.as_value().pointer("/metadata/ownerReferences");
        let owners = owners.and_then(|owners| owners.as_array());
        let owned = self.local.uid().is_some_and(|uid| {
            let mut owners = owners.into_iter().flatten();
            owners.any(|owner| owner["uid"].as_str() == Some(uid))
        });
        owned || self.remote.marked().fit(object)
    }
}

/// The reason why consumers can never choose a namespace.
pub fn reserved(namespace: &str, agent: &str) -> Option<&'static str> {
    if namespace == agent {
        Some("it is the agent's own")
    } else if namespace.starts_with("kube-") {
        Some("it is never allowed")
    } else {
        None
    }
}
