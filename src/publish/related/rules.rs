//! The rules of a related object. Its copy has no marks: only the memory records that it is Hawser's.

use std::sync::Arc;

use serde_json::Value;

use super::entry::Entry;
use crate::mutation::MutationError;
use crate::mutation::Pipeline;
use crate::publish::marks;
use crate::publish::rules::{check_credential, renamed};
use crate::publish::types::Origin;
use hawser_sync::{Code, CopyOrigin, Key, Marks, Owner, Reason, Rules};
use kube_lang::object::{Gvk, Object, numbers};

/// The rules of one pair.
#[derive(Clone, Debug)]
pub(super) struct PairRules {
    pub(super) entry: Arc<Entry>,
    pub(super) target: Key,
    /// Whether copies have a status subresource.
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
        Object::new(value)
            .map_err(|_| Reason::new(Code::MutationFailed, "the result is not an object"))
    }

    /// The error without contents of the object, which may be a Secret.
    fn failed(&self, error: &MutationError) -> Reason {
        let step = match error {
            MutationError::Step { step, .. } => format!("step {step}"),
            MutationError::DocumentTooLarge => error.to_string(),
        };
        let said = format!("entry {:?}: {step}", self.entry.identifier);
        Reason::new(Code::MutationFailed, said)
    }

    /// The copy as it would be made without mutations.
    fn unmutated_copy(&self, source: &Object) -> Object {
        let target = &self.target;
        renamed(
            source,
            &target.kind,
            target.namespace.as_deref(),
            &target.name,
        )
    }
}

impl Rules for PairRules {
    fn place(&self, _source: &Object) -> Result<Key, Reason> {
        Ok(self.target.clone())
    }

    fn mutated(&self, source: &Object, copy: Option<&Object>) -> Result<Option<Object>, Reason> {
        if self.entry.spec.is_empty() {
            return Ok(None);
        }
        let mutated = match copy {
            Some(copy) => self.mutate(&self.entry.spec, source, copy),
            None => self.mutate(&self.entry.spec, source, &self.unmutated_copy(source)),
        };
        mutated.map(Some)
    }

    fn desired(
        &self,
        source: &Object,
        mutated: &Object,
        _: Option<&Object>,
    ) -> Result<Object, Reason> {
        let mut desired = renamed(mutated, &source.gvk(), source.namespace(), source.name());
        desired.metadata_mut().remove("generateName");
        if self.entry.origin == Origin::Kcp {
            check_credential(&self.target.kind, source, &desired)?;
        }
        if self.status_apart || self.entry.choices.sync_status {
            desired.root_mut().remove("status");
        }
        desired.root_mut().values_mut().for_each(numbers::unify);
        Ok(desired)
    }

    fn marks(&self, _source: &Object, _made: CopyOrigin) -> Marks {
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

    fn status(&self, from: &Object, to: &Object, _: &Object) -> Result<Option<Value>, Reason> {
        let mutated = self.mutate(&self.entry.status, from, to)?;
        let mut status = mutated.root().get("status").cloned();
        status.iter_mut().for_each(numbers::unify);
        Ok(status)
    }
}

/// The rules of an unwanted object: they create nothing.
#[derive(Clone, Debug)]
pub(super) struct LeftoverRules {
    pub(super) target: Key,
}

impl Rules for LeftoverRules {
    fn place(&self, _source: &Object) -> Result<Key, Reason> {
        Ok(self.target.clone())
    }

    fn desired(&self, _: &Object, _: &Object, _: Option<&Object>) -> Result<Object, Reason> {
        Err(Code::Kept.into())
    }

    fn marks(&self, _source: &Object, _made: CopyOrigin) -> Marks {
        Marks::default()
    }

    fn owner(&self, _live: &Object) -> Owner {
        Owner::Nobody
    }

    fn status(&self, _: &Object, _: &Object, _: &Object) -> Result<Option<Value>, Reason> {
        Ok(None)
    }
}
