//! The engine's rules for one object, by its definition; and its subject.

use std::sync::Arc;

use serde_json::Value;

use super::definition::{Definition, Plane, REMOTE_RESOURCE_VERSION, Status};
use super::status::{self, LinkedUids};
use hawser_sync::Intent;
use hawser_sync::link::StatusFlow;
use hawser_sync::{
    CopyOrigin, Finalizer, Key, Link, LinkId, Marks, Metadata, Owner, Policy, Reason, Rules, Scope,
    Side, Source, Subject, Target,
};
use kube_lang::object::Object;

/// The one link of a subject.
pub const COPY: &str = "copy";

/// The rules of one object.
#[derive(Clone, Debug)]
pub struct CopyRules {
    definition: Arc<Definition>,
    copy: Key,
    /// The incarnations that were last seen together.
    seen: Option<LinkedUids>,
}

/// An object by its name, on either side.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Id {
    pub namespace: Option<Arc<str>>,
    pub name: Arc<str>,
}

impl Id {
    pub fn of(key: &Key) -> Self {
        Self {
            namespace: key.namespace.clone(),
            name: Arc::clone(&key.name),
        }
    }

    /// The object of this name in one of the clusters.
    pub fn at(&self, definition: &Definition, plane: Plane) -> Key {
        scope(definition, plane).key(self.namespace.as_deref(), &self.name)
    }
}

pub fn side(plane: Plane) -> Side {
    Side::new(plane.as_str())
}

pub fn scope(definition: &Definition, plane: Plane) -> Scope {
    Scope::new(&side(plane), &definition.kind, "")
}

/// The subject of a name: the owner's object and its copy on the other side.
pub fn subject_of(definition: &Arc<Definition>, id: &Id, seen: Option<LinkedUids>) -> Subject {
    let anchor = id.at(definition, definition.owner);
    let copy = id.at(definition, definition.owner.other());
    let rules = CopyRules {
        definition: Arc::clone(definition),
        copy: copy.clone(),
        seen,
    };
    let policy = Policy {
        status: match definition.status {
            Status::Subresource => StatusFlow::Back,
            Status::InObject => StatusFlow::BackWhole,
        },
        foreign_finalizers: vec![Finalizer::new(&definition.legacy_finalizer())],
        ..Policy::mirrored()
    };
    Subject {
        anchor: anchor.clone(),
        finalizer: None,
        memory: None,
        intent: Intent::Sync,
        links: vec![Link {
            id: LinkId::new(COPY),
            wave: 0,
            source: Source::Live(anchor),
            target: Target::Named(copy),
            rules: Arc::new(rules),
            policy,
        }],
    }
}

impl Rules for CopyRules {
    fn place(&self, _: &Object) -> Result<Key, Reason> {
        Ok(self.copy.clone())
    }

    fn desired(
        &self,
        source: &Object,
        _: &Object,
        live: Option<&Object>,
    ) -> Result<Object, Reason> {
        let mut desired = Object::empty(&source.gvk(), source.namespace(), source.name());
        for (name, value) in source.labels() {
            desired.set_label(name, value);
        }
        // The owner's alone: what it says changes with every write to the copy.
        for (name, value) in source
            .annotations()
            .filter(|(n, _)| *n != REMOTE_RESOURCE_VERSION)
        {
            desired.set_annotation(name, value);
        }
        let field = |name: &str| {
            source
                .root()
                .get(name)
                .filter(|value| !value.is_null())
                .cloned()
        };
        match (field("spec"), live) {
            (Some(spec), _) => {
                desired.root_mut().insert("spec".into(), spec);
            }
            // Not to be there.
            (None, Some(_)) => {
                desired.root_mut().insert("spec".into(), Value::Null);
            }
            (None, None) => {}
        }
        // A copy begins with the owner's status where a server takes it.
        if let (None, Status::InObject, Some(status)) =
            (live, self.definition.status, field("status"))
        {
            desired.root_mut().insert("status".into(), status);
        }
        Ok(desired)
    }

    fn marks(&self, _: &Object, _: CopyOrigin) -> Marks {
        Marks::default()
    }

    fn owner(&self, _: &Object) -> Owner {
        Owner::Nobody
    }

    fn was_made_for(&self, source: &Object, copy: &Object) -> bool {
        !status::is_of_earlier_life(copy, source, self.seen.as_ref())
    }

    fn status(&self, from: &Object, to: &Object, _: &Object) -> Result<Option<Value>, Reason> {
        let settings = &self.definition.settings;
        if !status::counts(settings, from, to, self.seen.as_ref()) {
            return Ok(to.root().get("status").cloned());
        }
        match &self.definition.subtree {
            Some(key) => status::subtree(key, from, to),
            None => Ok(status::whole(settings, from, to)),
        }
    }

    fn status_marks(&self, from: &Object, _: &Object) -> Metadata {
        let version = from.resource_version().map(|version| {
            let name = REMOTE_RESOURCE_VERSION.to_owned();
            (name, version.to_owned())
        });
        Metadata {
            annotations: version.into_iter().collect(),
            ..Metadata::default()
        }
    }
}

#[cfg(test)]
mod tests;
