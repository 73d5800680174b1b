//! The engine's rules for one object of a workspace, by the compiled rules; and the subject of such an object.

use std::sync::{Arc, LazyLock};

use serde_json::Value;

use super::compiled::Compiled;
use super::marks::{self, Remote};
use super::memory::codec::StateSecret;
use super::naming::{Named, NamingError};
use super::related::guard::reserved;
use super::synced::SyncedContext;
use super::types::{AdoptedOnDelete, Adoption};
use crate::mutation::MutationError;
use crate::mutation::Pipeline;
use hawser_runtime::cluster::connection::FIELD_MANAGER;
use hawser_sync::link::{self, DriftPolicy, StatusFlow};
use hawser_sync::{Intent, Side};
use kube_lang::object::{Gvk, Object, numbers};

use hawser_sync::{
    Code, CopyOrigin, Finalizer, Key, Labels, Link, LinkId, Marks, MemoryPlace, Owner, Policy,
    Reason, Rules, Scope, Source, Subject, Target,
};

/// One for all subjects.
pub static SECRET: LazyLock<Arc<Gvk>> = LazyLock::new(|| Gvk::new("", "v1", "Secret").into());

/// The link of the object itself.
pub const PRIMARY: &str = "primary";

/// The two control planes, by their names in caches and requests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sides {
    pub kcp: Side,
    pub service: Side,
}

impl Default for Sides {
    fn default() -> Self {
        Self {
            kcp: Side::new("kcp"),
            service: Side::new("service"),
        }
    }
}

/// The rules of one object.
#[derive(Clone, Debug)]
pub struct ObjectRules {
    compiled: Arc<Compiled>,
    sides: Sides,
    remote: Remote,
    /// The labels by which its copy is found.
    labels: Labels,
    /// The path of its workspace; empty if paths are disabled or unknown.
    cluster_path: String,
    /// What else decides about the report to the consumer; `None` if there is none.
    synced: Option<SyncedContext>,
}

impl ObjectRules {
    pub fn new(
        compiled: &Arc<Compiled>,
        sides: &Sides,
        remote: Remote,
        cluster_path: Option<&str>,
    ) -> Self {
        let wanted = cluster_path.filter(|_| compiled.workspace_paths);
        Self {
            compiled: Arc::clone(compiled),
            sides: sides.clone(),
            labels: remote.marked(),
            remote,
            cluster_path: wanted.unwrap_or_default().to_owned(),
            synced: None,
        }
    }

    /// The rules with a report to the consumer, if the owner wants one.
    #[must_use]
    pub fn reporting(self, context: SyncedContext) -> Self {
        let synced = self.compiled.synced().map(|_| context);
        Self { synced, ..self }
    }

    pub fn compiled(&self) -> &Arc<Compiled> {
        &self.compiled
    }

    pub fn sides(&self) -> &Sides {
        &self.sides
    }

    pub fn remote(&self) -> &Remote {
        &self.remote
    }

    pub fn labels(&self) -> &Labels {
        &self.labels
    }

    pub fn cluster_path(&self) -> &str {
        &self.cluster_path
    }

    /// The object of the workspace.
    pub fn anchor(&self) -> Key {
        let kind = &self.compiled.types.remote;
        Scope::new(&self.sides.kcp, kind, &self.remote.cluster)
            .key(self.remote.namespace.as_deref(), &self.remote.name)
    }

    pub fn local_scope(&self) -> Scope {
        Scope::new(&self.sides.service, &self.compiled.types.local, "")
    }

    /// Namespace and name of the copy of an object, before or after mutations.
    fn named(&self, object: &Object) -> Result<(Option<String>, String), Reason> {
        let compiled = &self.compiled;
        if compiled.needs_path() && compiled.naming.reads_path() && self.cluster_path.is_empty() {
            let why = "the path of the workspace is not known";
            return Err(Reason::new(Code::NamingFailed, why));
        }
        let named = Named {
            remote: &self.remote,
            object,
            cluster_path: &self.cluster_path,
        };
        self.compiled.naming.place(named).map_err(|error| {
            let code = match &error {
                NamingError::Compile { .. } | NamingError::Render { .. } => Code::NamingFailed,
                NamingError::Name(_) | NamingError::Namespace(_) => Code::NameInvalid,
            };
            Reason::new(code, error.to_string())
        })
    }

    /// The copy without mutations: the input of mutations while there is no copy.
    fn unmutated_copy(&self, source: &Object) -> Result<Object, Reason> {
        let (namespace, name) = self.named(source)?;
        let kind = &self.compiled.types.local;
        let mut copy = renamed(source, kind, namespace.as_deref(), &name);
        let marks = self.marks(source, CopyOrigin::Created);
        for (key, value) in marks.labels() {
            copy.set_label(key, value);
        }
        for (key, value) in marks.annotations() {
            copy.set_annotation(key, value);
        }
        Ok(copy)
    }
}

/// Mutates an object by the steps of this field.
fn mutate(
    field: &str,
    pipeline: &Pipeline,
    object: &Object,
    other: &Object,
) -> Result<Object, Reason> {
    let failed = |detail: String| Reason::new(Code::MutationFailed, detail);
    let value = pipeline
        .apply(object.as_value(), Some(other.as_value()))
        .map_err(|error| failed(explain(field, &error)))?;
    Object::new(value).map_err(|error| failed(format!("the result is not an object: {error}")))
}

/// An object with another identity, and without marks.
pub(super) fn renamed(object: &Object, kind: &Gvk, namespace: Option<&str>, name: &str) -> Object {
    let mut object = object.clone();
    marks::strip(&mut object);
    object.set_gvk(kind);
    let metadata = object.metadata_mut();
    metadata.insert("name".into(), name.into());
    match namespace {
        Some(namespace) => metadata.insert("namespace".into(), namespace.into()),
        None => metadata.remove("namespace"),
    };
    object
}

/// The type of Secrets that a server fills with a token of the `ServiceAccount` that an annotation names.
const ACCOUNT_TOKEN: &str = "kubernetes.io/service-account-token";

/// Refuses a copy on the service cluster that a consumer makes a request for a credential of that cluster.
pub(super) fn check_credential(
    copy: &Gvk,
    source: &Object,
    desired: &Object,
) -> Result<(), Reason> {
    let asks = |object: &Object| {
        object
            .root()
            .get("type")
            .is_some_and(|one| one == ACCOUNT_TOKEN)
    };
    if copy.group.is_empty() && copy.kind == "Secret" && asks(source) && asks(desired) {
        let why =
            format!("the service cluster puts a token into a Secret of the type {ACCOUNT_TOKEN}");
        return Err(Reason::new(Code::Forbidden, why));
    }
    Ok(())
}

fn explain(field: &str, error: &MutationError) -> String {
    match error {
        MutationError::Step { step, path, source } => {
            format!("{field}[{step}] at {path}: {source}")
        }
        MutationError::DocumentTooLarge => error.to_string(),
    }
}

impl Rules for ObjectRules {
    fn mutated(&self, source: &Object, copy: Option<&Object>) -> Result<Option<Object>, Reason> {
        if self.compiled.spec.is_empty() {
            return Ok(None);
        }
        let mutated = match copy {
            Some(copy) => mutate("spec.mutation.spec", &self.compiled.spec, source, copy),
            None => mutate(
                "spec.mutation.spec",
                &self.compiled.spec,
                source,
                &self.unmutated_copy(source)?,
            ),
        };
        mutated.map(Some)
    }

    fn place(&self, mutated: &Object) -> Result<Key, Reason> {
        let (namespace, name) = self.named(mutated)?;
        Ok(self.local_scope().key(namespace.as_deref(), &name))
    }

    fn allows(&self, copy: &Key) -> Result<(), Reason> {
        let compiled = &self.compiled;
        let (local, naming) = (&compiled.types.local, &compiled.naming);
        // A copy that is a namespace is where its name says.
        let (namespace, is_chosen) = if local.group.is_empty() && local.kind == "Namespace" {
            (Some(&*copy.name), naming.name_is_chosen())
        } else {
            (copy.namespace.as_deref(), !naming.namespace_is_owners())
        };
        let Some(namespace) = namespace.filter(|_| is_chosen) else {
            return Ok(());
        };
        let closed = namespace == "default" && compiled.safety.guards_names();
        let why = reserved(namespace, &compiled.agent.namespace)
            .or(closed.then_some("spec.safety.consumerNames forbids it"));
        why.map_or(Ok(()), |why| {
            let said = format!("{namespace}: consumers influence it, and {why}");
            Err(Reason::new(Code::NamespaceClosed, said))
        })
    }

    fn desired(
        &self,
        source: &Object,
        mutated: &Object,
        _: Option<&Object>,
    ) -> Result<Object, Reason> {
        // The identity does not travel, and no mutation changes it.
        let mut desired = renamed(mutated, &source.gvk(), source.namespace(), source.name());
        for subresource in &self.compiled.types.subresources {
            desired.root_mut().remove(*subresource);
        }
        check_credential(&self.compiled.types.local, source, &desired)?;
        // As every server and the memory answer them: another spelling would be a change for ever.
        desired.root_mut().values_mut().for_each(numbers::unify);
        Ok(desired)
    }

    fn marks(&self, _source: &Object, made: CopyOrigin) -> Marks {
        let path = Some(self.cluster_path.as_str());
        let (remote, agent) = (&self.remote, &self.compiled.agent.name);
        marks::marks(remote, &self.labels, agent, path, made)
    }

    fn owner(&self, live: &Object) -> Owner {
        marks::owner(live, &self.remote, &self.labels, &self.compiled.agent.name)
    }

    fn status(&self, from: &Object, _: &Object, mutated: &Object) -> Result<Option<Value>, Reason> {
        let mut status = if self.compiled.status.is_empty() {
            from.root().get("status").cloned()
        } else {
            let made = mutate("spec.mutation.status", &self.compiled.status, from, mutated)?;
            made.root().get("status").cloned()
        };
        status.iter_mut().for_each(numbers::unify);
        Ok(status)
    }

    fn reported(
        &self,
        status: Option<Arc<Value>>,
        copy: &Object,
        source: &Object,
        current: bool,
    ) -> Option<Arc<Value>> {
        match (self.compiled.synced(), &self.synced) {
            (Some(synced), Some(context)) => {
                synced.in_status(status, (source, copy), current, context)
            }
            _ => status,
        }
    }
}

/// The subject of an object of a workspace: its finalizer, its copy, its memory.
pub fn subject_of(rules: ObjectRules) -> Subject {
    let compiled = Arc::clone(&rules.compiled);
    let types = &compiled.types;
    let anchor = rules.anchor();
    let codec = StateSecret {
        namespace: compiled.agent.namespace.clone(),
        remote: rules.remote.clone(),
        labels: rules.labels.clone(),
        kind: Arc::clone(&types.remote),
        agent: compiled.agent.name.clone(),
    };
    let memory =
        Scope::new(&rules.sides.service, &SECRET, "").key(Some(&codec.namespace), &codec.name());
    let target = Target::Marked {
        scope: rules.local_scope(),
        labels: rules.labels.clone(),
    };
    let policy = policy(&compiled);
    Subject {
        anchor: anchor.clone(),
        finalizer: Some(Finalizer::new(marks::FINALIZER)),
        memory: Some(MemoryPlace {
            key: memory,
            codec: Arc::new(codec),
        }),
        intent: Intent::Sync,
        links: vec![Link {
            id: LinkId::new(PRIMARY),
            wave: 0,
            source: Source::Live(anchor),
            target,
            rules: Arc::new(rules),
            policy,
        }],
    }
}

/// The treatment of drift by the rules of a published resource.
pub fn drift_policy(compiled: &Compiled) -> DriftPolicy {
    DriftPolicy {
        rules: Arc::clone(&compiled.drift),
        finds_kept: false,
        manager: FIELD_MANAGER,
        known: None,
    }
}

fn policy(compiled: &Compiled) -> Policy {
    let safety = &compiled.safety;
    let naming = &compiled.naming;
    let chosen = !naming.namespace_is_owners() || naming.name_is_chosen();
    Policy {
        adoption: match safety.adoption.unwrap_or_default() {
            Adoption::Unowned if !(chosen && safety.guards_names()) => link::Adoption::Keep,
            Adoption::Unowned | Adoption::Never => link::Adoption::Never,
        },
        adopted_on_delete: match safety.adopted_on_delete.unwrap_or_default() {
            AdoptedOnDelete::Delete => link::AdoptedOnDelete::Delete,
            AdoptedOnDelete::Release => link::AdoptedOnDelete::Release,
        },
        drift: (!compiled.drift.keeps_all()).then(|| drift_policy(compiled)),
        status: if compiled.types.remote_status {
            StatusFlow::Back
        } else {
            StatusFlow::None
        },
        ..Policy::primary()
    }
}

#[cfg(test)]
mod histories;
#[cfg(test)]
mod properties;
#[cfg(test)]
mod tests;
