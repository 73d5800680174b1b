//! What the engine asks about one object of a workspace, answered by the compiled rules; and the
//! subject that such an object is.

use std::sync::{Arc, LazyLock};

use parking_lot::Mutex;
use serde_json::Value;

use super::compiled::Compiled;
use super::marks::{self, Remote};
use super::memory::codec::StateSecret;
use super::naming::{LocalScope, Named, NamingError};
use super::related::reserved;
use super::types::{AdoptedOnDelete, Adoption, ConsumerNames, Safety};
use crate::mutation::MutationError;
use crate::mutation::Pipeline;
use hawser_sync::subject::{self, Intent, Side, StatusFlow};
use kube_lang::object::{Gvk, Object, numbers};

use hawser_sync::{
    Code, Finalizer, Key, Link, LinkId, Made, Marks, MemoryPlace, Owner, Policy, Reason, Rules,
    Scope, Source, Subject, Target,
};

/// One for all subjects, each of which is remembered with the key of its memory.
pub static SECRET: LazyLock<Arc<Gvk>> = LazyLock::new(|| Gvk::new("", "v1", "Secret").into());

/// The link of the object itself.
pub const PRIMARY: &str = "primary";

/// The two control planes, by the names under which caches and requests know them.
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
    /// Of its workspace; empty where paths are not wanted or not known.
    cluster_path: String,
    /// What was worked out of the object, which these rules are asked for again in each round of a pass.
    worked: Arc<Worked>,
}

/// What mutations made of the last states of the objects that they were given.
#[derive(Debug, Default)]
struct Worked {
    /// Of the source, where there is a copy, and where there is none.
    spec: Mutex<Option<Mutated>>,
    imagined: Mutex<Option<Mutated>>,
    /// Of the copy.
    status: Mutex<Option<Mutated>>,
    #[cfg(test)]
    times: std::sync::atomic::AtomicUsize,
}

type Mutated = (States, Result<Arc<Object>, Reason>);

/// Which state of an object, and of the one on the other side. A server gives no two states of an object one
/// version.
#[derive(Clone, Debug, PartialEq, Eq)]
struct States(Box<str>, Box<str>, Option<(Box<str>, Box<str>)>);

impl States {
    /// None where one of them does not say which state it is.
    fn of(object: &Object, other: Option<&Object>) -> Option<Self> {
        let state = |object: &Object| {
            let version = object
                .resource_version()
                .filter(|version| !version.is_empty());
            Some((object.uid()?.into(), version?.into()))
        };
        let (uid, version) = state(object)?;
        let other = match other {
            Some(other) => Some(state(other)?),
            None => None,
        };
        Some(Self(uid, version, other))
    }
}

impl Worked {
    #[cfg_attr(
        not(test),
        expect(clippy::unused_self, reason = "tests count what is worked out")
    )]
    fn out(
        &self,
        known: &Mutex<Option<Mutated>>,
        states: Option<States>,
        work: impl FnOnce() -> Result<Object, Reason>,
    ) -> Result<Arc<Object>, Reason> {
        if let (Some((of, made)), Some(states)) = (&*known.lock(), &states)
            && of == states
        {
            return made.clone();
        }
        #[cfg(test)]
        self.times
            .fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let made = work().map(Arc::new);
        *known.lock() = states.map(|states| (states, made.clone()));
        made
    }
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
            remote,
            cluster_path: wanted.unwrap_or_default().to_owned(),
            worked: Arc::default(),
        }
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

    /// Whether these would be the rules with that path of the workspace.
    pub fn is_at(&self, cluster_path: Option<&str>) -> bool {
        let wanted = cluster_path.filter(|_| self.compiled.workspace_paths);
        self.cluster_path == wanted.unwrap_or_default()
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

    /// Namespace and name of the copy of an object as it is, or as the mutations left it.
    fn named(&self, object: &Object) -> Result<(Option<String>, String), Reason> {
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

    /// The copy as it would be made without mutations: what these see where there is none yet.
    fn hypothetical(&self, source: &Object) -> Result<Object, Reason> {
        let (namespace, name) = self.named(source)?;
        let mut copy = source.clone();
        marks::strip(&mut copy);
        copy.set_gvk(&self.compiled.types.local);
        let metadata = copy.metadata_mut();
        metadata.insert("name".into(), name.into());
        match namespace {
            Some(namespace) => metadata.insert("namespace".into(), namespace.into()),
            None => metadata.remove("namespace"),
        };
        let marks = self.marks(source, Made::Created);
        for (key, value) in marks.labels() {
            copy.set_label(key, value);
        }
        for (key, value) in marks.annotations() {
            copy.set_annotation(key, value);
        }
        Ok(copy)
    }

    /// The source as the mutations want it on the service cluster.
    fn mutated(&self, source: &Object, live: Option<&Object>) -> Result<Arc<Object>, Reason> {
        let known = match live {
            Some(_) => &self.worked.spec,
            None => &self.worked.imagined,
        };
        self.worked.out(known, States::of(source, live), || {
            let imagined;
            let other = if let Some(live) = live {
                live
            } else {
                imagined = self.hypothetical(source)?;
                &imagined
            };
            mutate(&self.compiled.spec, source, other)
        })
    }
}

fn mutate(pipeline: &Pipeline, object: &Object, other: &Object) -> Result<Object, Reason> {
    let failed = |detail: String| Reason::new(Code::MutationFailed, detail);
    let value = pipeline
        .apply(object.as_value(), Some(other.as_value()))
        .map_err(|error| failed(explain(&error)))?;
    Object::new(value).map_err(|error| failed(format!("the result is no object: {error}")))
}

fn explain(error: &MutationError) -> String {
    match error {
        MutationError::Step { source, .. } => format!("{error}: {source}"),
        MutationError::DocumentTooLarge => error.to_string(),
    }
}

impl Rules for ObjectRules {
    fn place(&self, source: &Object) -> Result<Key, Reason> {
        let (namespace, name) = if self.compiled.spec.is_empty() {
            self.named(source)?
        } else {
            let mutated = self.mutated(source, None)?;
            self.named(&mutated)?
        };
        Ok(self.local_scope().key(namespace.as_deref(), &name))
    }

    fn allows(&self, copy: &Key) -> Result<(), Reason> {
        let compiled = &self.compiled;
        let namespace = copy.namespace.as_deref();
        let Some(namespace) = namespace.filter(|_| !compiled.naming.namespace_is_owners()) else {
            return Ok(());
        };
        let closed = namespace == "default" && guards_names(&compiled.safety);
        let why = reserved(namespace, &compiled.agent.namespace)
            .or(closed.then_some("spec.safety.consumerNames closes it"));
        why.map_or(Ok(()), |why| {
            let said = format!("{namespace}: consumers have a say in it, and {why}");
            Err(Reason::new(Code::NamespaceClosed, said))
        })
    }

    fn desired(&self, source: &Object, live: Option<&Object>) -> Result<Object, Reason> {
        let mut desired = if self.compiled.spec.is_empty() {
            source.clone()
        } else {
            Arc::unwrap_or_clone(self.mutated(source, live)?)
        };
        marks::strip(&mut desired);
        // What tells which object this is does not travel and must not change by a mutation.
        desired.set_gvk(&source.gvk());
        let metadata = desired.metadata_mut();
        metadata.insert("name".into(), source.name().into());
        match source.namespace() {
            Some(namespace) => metadata.insert("namespace".into(), namespace.into()),
            None => metadata.remove("namespace"),
        };
        for subresource in &self.compiled.types.subresources {
            desired.root_mut().remove(*subresource);
        }
        // As every server and the memory answer them: another spelling would be a change for ever.
        desired.root_mut().values_mut().for_each(numbers::unify);
        Ok(desired)
    }

    fn marks(&self, _source: &Object, made: Made) -> Marks {
        let path = Some(self.cluster_path.as_str());
        marks::marks(&self.remote, &self.compiled.agent.name, path, made)
    }

    fn owner(&self, live: &Object) -> Owner {
        marks::owner(live, &self.remote, &self.compiled.agent.name)
    }

    fn status(&self, from: &Object, to: &Object) -> Result<Option<Value>, Reason> {
        let mut status = if self.compiled.status.is_empty() {
            from.root().get("status").cloned()
        } else {
            let states = States::of(from, Some(to));
            let mutated = self.worked.out(&self.worked.status, states, || {
                if self.compiled.spec.is_empty() {
                    return mutate(&self.compiled.status, from, to);
                }
                let source = self.mutated(to, Some(from))?;
                mutate(&self.compiled.status, from, &source)
            })?;
            mutated.root().get("status").cloned()
        };
        status.iter_mut().for_each(numbers::unify);
        Ok(status)
    }
}

/// An object of a workspace as the engine takes it: the finalizer on it, its copy, what is remembered.
pub fn subject_of(rules: ObjectRules) -> Subject {
    let compiled = Arc::clone(&rules.compiled);
    let remote = rules.remote.clone();
    let types = &compiled.types;
    let anchor = rules.anchor();
    let codec = StateSecret {
        namespace: compiled.agent.namespace.clone(),
        remote: remote.clone(),
        kind: Arc::clone(&types.remote),
        agent: compiled.agent.name.clone(),
    };
    let memory =
        Scope::new(&rules.sides.service, &SECRET, "").key(Some(&codec.namespace), &codec.name());
    let target = Target::Marked {
        scope: rules.local_scope(),
        labels: remote.marked(),
    };
    let policy = policy(&compiled);
    Subject {
        anchor: anchor.clone(),
        finalizer: Some(Finalizer::new(marks::FINALIZER)),
        memory: Some(MemoryPlace {
            key: memory,
            codec: Arc::new(codec),
            rested: None,
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

fn policy(compiled: &Compiled) -> Policy {
    let safety = &compiled.safety;
    let naming = &compiled.naming;
    let chosen = !naming.namespace_is_owners() || naming.name_is_chosen();
    Policy {
        adoption: match safety.adoption.unwrap_or_default() {
            Adoption::Unowned if !(chosen && guards_names(safety)) => subject::Adoption::Keep,
            Adoption::Unowned | Adoption::Never => subject::Adoption::Never,
        },
        adopted_on_delete: match safety.adopted_on_delete.unwrap_or_default() {
            AdoptedOnDelete::Delete => subject::AdoptedOnDelete::Delete,
            AdoptedOnDelete::Release => subject::AdoptedOnDelete::Release,
        },
        status: if compiled.types.remote_status {
            StatusFlow::Back
        } else {
            StatusFlow::None
        },
        ..Policy::primary()
    }
}

fn guards_names(safety: &Safety) -> bool {
    safety.consumer_names.unwrap_or_default() == ConsumerNames::Guarded
}

/// Whether copies live in namespaces.
pub fn is_namespaced(compiled: &Compiled) -> bool {
    compiled.types.local_scope == LocalScope::Namespaced
}

#[cfg(test)]
mod histories;
#[cfg(test)]
mod properties;
#[cfg(test)]
mod tests;
