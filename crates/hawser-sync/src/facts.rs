//! The facts of a pass, derived from the objects that it read: the memory, and the results of the rules for a source.
//!
//! Each fact is a pure function of objects and is computed once for each state of them, however many rounds the pass
//! takes. The rules of a link and the codec of a memory do not change during a pass.

use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::Arc;

use serde_json::Value;

use kube_lang::object::Object;

use super::key::{Key, LinkId};
use super::link::{Link, Source, StatusFlow};
use super::memory::{Memory, MemoryPlace};
use super::reason::Reason;

/// The state of an object. A server gives each state of an object another version.
#[derive(Clone, Debug, PartialEq, Eq)]
struct State(Box<str>, Box<str>);

impl State {
    /// `None` if the object has no version.
    fn of(object: &Object) -> Option<Self> {
        Some(Self(
            object.uid()?.into(),
            object.resource_version()?.into(),
        ))
    }
}

/// The last result of a function of a source and, if there is one, its copy; for each link.
#[derive(Debug)]
struct MemoizedByLink<T>(RefCell<HashMap<LinkWithCopy, (Vec<State>, T)>>);

/// The link, and whether there was a copy.
type LinkWithCopy = (LinkId, bool);

impl<T> Default for MemoizedByLink<T> {
    fn default() -> Self {
        Self(RefCell::default())
    }
}

impl<T: Clone> MemoizedByLink<T> {
    fn get(&self, of: (&Link, &Object, Option<&Object>), work: impl FnOnce() -> T) -> T {
        let (link, source, copy) = of;
        let objects = [Some(source), copy].into_iter().flatten();
        let states: Option<Vec<State>> = objects.map(State::of).collect();
        let at = (link.id.clone(), copy.is_some());
        if let (Some((of, answer)), Some(states)) = (self.0.borrow().get(&at), &states)
            && of == states
        {
            return answer.clone();
        }
        let answer = work();
        if let Some(states) = states {
            self.0.borrow_mut().insert(at, (states, answer.clone()));
        }
        answer
    }
}

/// A decoded memory, with its state and its links.
type ReadMemory = (State, Vec<(LinkId, Source)>, Arc<Memory>);

/// The facts that one pass has computed.
#[derive(Debug, Default)]
pub struct Facts {
    memories: RefCell<Vec<ReadMemory>>,
    mutated: MemoizedByLink<Result<Option<Arc<Object>>, Reason>>,
    places: MemoizedByLink<Result<Key, Reason>>,
    desired: MemoizedByLink<Result<Arc<Object>, Reason>>,
    statuses: MemoizedByLink<Result<Option<Arc<Value>>, Reason>>,
}

impl Facts {
    /// The entries of a stored memory.
    pub fn memory(&self, place: &MemoryPlace, stored: &Object, links: &[Link]) -> Arc<Memory> {
        let read = || Arc::new(place.codec.read(stored, links));
        let Some(state) = State::of(stored) else {
            return read();
        };
        let links: Vec<_> = links
            .iter()
            .map(|link| (link.id.clone(), link.source.clone()))
            .collect();
        let mut memories = self.memories.borrow_mut();
        let known = memories
            .iter()
            .find(|known| (&known.0, &known.1) == (&state, &links));
        if let Some((.., memory)) = known {
            return Arc::clone(memory);
        }
        let memory = read();
        memories.push((state, links, Arc::clone(&memory)));
        memory
    }

    /// The mutated source; `None` without mutations.
    fn mutated(
        &self,
        link: &Link,
        source: &Object,
        copy: Option<&Object>,
    ) -> Result<Option<Arc<Object>>, Reason> {
        self.mutated.get((link, source, copy), || {
            Ok(link.rules.mutated(source, copy)?.map(Arc::new))
        })
    }

    /// See [`Rules::place`](super::Rules::place).
    pub fn place(&self, link: &Link, source: &Object) -> Result<Key, Reason> {
        self.places.get((link, source, None), || {
            let mutated = self.mutated(link, source, None)?;
            link.rules.place(mutated.as_deref().unwrap_or(source))
        })
    }

    /// See [`Rules::desired`](super::Rules::desired).
    pub fn desired(
        &self,
        link: &Link,
        source: &Object,
        copy: Option<&Object>,
    ) -> Result<Arc<Object>, Reason> {
        self.desired.get((link, source, copy), || {
            let mutated = self.mutated(link, source, copy)?;
            let mutated = mutated.as_deref().unwrap_or(source);
            link.rules.desired(source, mutated, copy).map(Arc::new)
        })
    }

    /// See [`Rules::status`](super::Rules::status). `None` for no status and for a null one.
    pub fn status(
        &self,
        link: &Link,
        source: &Object,
        copy: &Object,
    ) -> Result<Option<Arc<Value>>, Reason> {
        self.statuses.get((link, source, Some(copy)), || {
            let mutated = self.mutated(link, source, Some(copy))?;
            let mutated = mutated.as_deref().unwrap_or(source);
            let status = match link.policy.status {
                StatusFlow::Forward => link.rules.status(source, copy, mutated),
                _ => link.rules.status(copy, source, mutated),
            };
            Ok(status?.filter(|status| !status.is_null()).map(Arc::new))
        })
    }
}

#[cfg(test)]
mod tests;
