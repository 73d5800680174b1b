//! What the engine asks about a related object. Its copy carries nothing of ours: that it is ours is
//! remembered on the agent's side only.

use std::sync::Arc;

use serde_json::Value;

use super::entry::Entry;
use crate::mutation::MutationError;
use crate::mutation::Pipeline;
use crate::publish::marks;
use crate::publish::types::Origin;
use hawser_sync::{Code, Key, Made, Marks, Owner, Reason, Rules};
use kube_lang::object::{Gvk, Object, numbers};

/// The rules of one pair.
#[derive(Clone, Debug)]
pub(super) struct PairRules {
    pub(super) entry: Arc<Entry>,
    pub(super) target: Key,
    /// Whether copies serve a status apart.
    pub(super) status_apart: bool,
}

impl PairRules {
    fn mutate(
        &self,
        pipeline: &Pipeline,
        object: &Object,
        other: &Object,
    ) -> Result<Object, Reason> {
        if pipeline.is_empty() {
            return Ok(object.clone());
        }
        let value = pipeline.apply(object.as_value(), Some(other.as_value()));
        let value = value.map_err(|error| self.failed(&error))?;
        Object::new(value).map_err(|_| Reason::new(Code::MutationFailed, "the result is no object"))
    }

    /// What went wrong, without anything of what is in the object: it may be a Secret.
    fn failed(&self, error: &MutationError) -> Reason {
        let step = match error {
            MutationError::Step { step, .. } => format!("step {step}"),
            MutationError::DocumentTooLarge => error.to_string(),
        };
        let said = format!("entry {:?}: {step}", self.entry.identifier);
        Reason::new(Code::MutationFailed, said)
    }

    /// The copy as it would be made without mutations.
    fn imagined(&self, source: &Object) -> Object {
        let mut copy = source.clone();
        marks::strip(&mut copy);
        copy.set_gvk(&self.target.kind);
        let metadata = copy.metadata_mut();
        metadata.insert("name".into(), Value::from(&*self.target.name));
        match &self.target.namespace {
            Some(namespace) => metadata.insert("namespace".into(), Value::from(&**namespace)),
            None => metadata.remove("namespace"),
        };
        copy
    }
}

impl Rules for PairRules {
    fn place(&self, _source: &Object) -> Result<Key, Reason> {
        Ok(self.target.clone())
    }

    fn desired(&self, source: &Object, live: Option<&Object>) -> Result<Object, Reason> {
        let imagined;
        let other = if let Some(live) = live {
            live
        } else {
            imagined = self.imagined(source);
            &imagined
        };
        let mut desired = self.mutate(&self.entry.spec, source, other)?;
        marks::strip(&mut desired);
        desired.set_gvk(&source.gvk());
        let metadata = desired.metadata_mut();
        metadata.remove("generateName");
        metadata.insert("name".into(), source.name().into());
        match source.namespace() {
            Some(namespace) => metadata.insert("namespace".into(), namespace.into()),
            None => metadata.remove("namespace"),
        };
        if self.status_apart || self.entry.choices.sync_status {
            desired.root_mut().remove("status");
        }
        desired.root_mut().values_mut().for_each(numbers::unify);
        Ok(desired)
    }

    fn marks(&self, _source: &Object, _made: Made) -> Marks {
        Marks::default()
    }

    fn owner(&self, live: &Object) -> Owner {
        // In its own workspace a consumer writes what labels it likes.
        if self.entry.origin == Origin::Service {
            return Owner::Nobody;
        }
        if live.label(marks::OBJECT_STATE).is_some() {
            return Owner::Other("the state of an agent".to_owned());
        }
        if let Some(cluster) = live.label(marks::CLUSTER) {
            return Owner::Other(format!("an object of the workspace {cluster}"));
        }
        Owner::Nobody
    }

    fn is_final(&self, live: &Object, field: &str) -> bool {
        let Gvk { group, kind, .. } = &*self.target.kind;
        let sealed = live.root().get("immutable") == Some(&Value::Bool(true));
        match (group.as_str(), kind.as_str(), field) {
            ("", "Secret", "type") => true,
            ("", "Secret" | "ConfigMap", "data" | "binaryData" | "stringData" | "immutable") => {
                sealed
            }
            _ => false,
        }
    }

    fn status(&self, from: &Object, to: &Object) -> Result<Option<Value>, Reason> {
        let mutated = self.mutate(&self.entry.status, from, to)?;
        let mut status = mutated.root().get("status").cloned();
        status.iter_mut().for_each(numbers::unify);
        Ok(status)
    }
}

/// The rules of what is not wanted any more: nothing is made by them.
#[derive(Clone, Debug)]
pub(super) struct LeftRules {
    pub(super) target: Key,
}

impl Rules for LeftRules {
    fn place(&self, _source: &Object) -> Result<Key, Reason> {
        Ok(self.target.clone())
    }

    fn desired(&self, _source: &Object, _live: Option<&Object>) -> Result<Object, Reason> {
        Err(Code::Kept.into())
    }

    fn marks(&self, _source: &Object, _made: Made) -> Marks {
        Marks::default()
    }

    fn owner(&self, _live: &Object) -> Owner {
        Owner::Nobody
    }

    fn status(&self, _from: &Object, _to: &Object) -> Result<Option<Value>, Reason> {
        Ok(None)
    }
}
