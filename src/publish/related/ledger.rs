//! Who wants which object now: what several published objects share goes with the last of them, and
//! what belongs to one workspace is not taken by another.
//!
//! Until a published object was looked at, what its memory says counts.

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::sync::Arc;

use parking_lot::Mutex;

use crate::object::Gvk;
use crate::sync::Key;

/// A published object, by the name of its memory, and its workspace.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Claimant {
    pub memory: Arc<str>,
    pub cluster: Arc<str>,
}

/// See the module. One for all who work side by side.
#[derive(Debug, Default)]
pub struct Ledger(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    claims: HashMap<Claimant, Claims>,
    by_key: HashMap<Key, BTreeSet<Claimant>>,
    /// Those who want nothing any more, oldest first. What their memory said does not count again.
    done: VecDeque<Claimant>,
}

#[derive(Debug, Default)]
struct Claims {
    keys: BTreeSet<Key>,
    /// By itself, and not by its memory.
    said: bool,
}

/// How many are remembered that want nothing any more: their last events come within moments.
const DONE: usize = 4096;

impl Ledger {
    /// Claims a copy, unless somebody of another workspace has it: then that one is answered.
    pub fn claim(&self, by: &Claimant, copy: &Key) -> Result<(), Claimant> {
        let key = any_version(copy);
        let mut state = self.0.lock();
        if let Some(other) = state.stranger(by, &key) {
            return Err(other);
        }
        state.add(by, key);
        Ok(())
    }

    /// Who of another workspace has this object.
    pub fn stranger(&self, by: &Claimant, key: &Key) -> Option<Claimant> {
        self.0.lock().stranger(by, &any_version(key))
    }

    /// From now on exactly these objects are wanted.
    pub fn wants<'k>(&self, by: &Claimant, keys: impl IntoIterator<Item = &'k Key>) {
        let keys = keys.into_iter().map(any_version).collect();
        self.0.lock().set(by, keys, true);
    }

    /// What a memory says. It does not count once its owner was looked at.
    pub fn remembered(&self, by: &Claimant, keys: &BTreeSet<Key>) {
        let mut state = self.0.lock();
        if state.claims.get(by).is_none_or(|claims| !claims.said) {
            let keys = keys.iter().map(any_version).collect();
            state.set(by, keys, false);
        }
    }

    /// Whether anybody else wants this object.
    pub fn is_shared(&self, by: &Claimant, key: &Key) -> bool {
        let state = self.0.lock();
        let holders = state.by_key.get(&any_version(key));
        holders.is_some_and(|holders| holders.iter().any(|holder| holder != by))
    }
}

impl State {
    fn stranger(&self, by: &Claimant, key: &Key) -> Option<Claimant> {
        let mut holders = self.by_key.get(key)?.iter();
        holders.find(|holder| holder.cluster != by.cluster).cloned()
    }

    fn add(&mut self, by: &Claimant, key: Key) {
        self.by_key
            .entry(key.clone())
            .or_default()
            .insert(by.clone());
        self.claims.entry(by.clone()).or_default().keys.insert(key);
    }

    fn set(&mut self, by: &Claimant, keys: BTreeSet<Key>, said: bool) {
        let before = self.claims.remove(by);
        if before.is_none() && keys.is_empty() {
            return;
        }
        for key in before.unwrap_or_default().keys {
            if let Some(holders) = self.by_key.get_mut(&key) {
                holders.remove(by);
                if holders.is_empty() {
                    self.by_key.remove(&key);
                }
            }
        }
        if keys.is_empty() {
            self.done.push_back(by.clone());
        }
        self.claims.entry(by.clone()).or_default().said = said;
        for key in keys {
            self.add(by, key);
        }
        while self.done.len() > DONE {
            let Some(oldest) = self.done.pop_front() else {
                break;
            };
            if self.claims.get(&oldest).is_some_and(|c| c.keys.is_empty()) {
                self.claims.remove(&oldest);
            }
        }
    }
}

fn any_version(key: &Key) -> Key {
    let kind = Gvk::new(&key.kind.group, "", &key.kind.kind);
    Key {
        kind: kind.into(),
        ..key.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sync::{Scope, Side};

    fn who(cluster: &str, name: &str) -> Claimant {
        Claimant {
            memory: name.into(),
            cluster: cluster.into(),
        }
    }

    fn key(version: &str, name: &str) -> Key {
        let kind = Arc::new(Gvk::new("", version, "Secret"));
        Scope::new(&Side::new("service"), &kind, "").key(Some("ns"), name)
    }

    #[test]
    fn what_two_want_is_shared_until_one_of_them_leaves() {
        let ledger = Ledger::default();
        let (one, two) = (who("a", "1"), who("a", "2"));
        ledger.wants(&one, [&key("v1", "s")]);
        assert!(!ledger.is_shared(&one, &key("v1", "s")));
        ledger.claim(&two, &key("v2", "s")).unwrap();
        assert!(ledger.is_shared(&one, &key("v1", "s")));
        ledger.wants(&one, []);
        ledger.remembered(&one, &[key("v1", "s")].into());
        assert!(!ledger.is_shared(&two, &key("v1", "s")));
    }

    #[test]
    fn a_memory_counts_until_its_owner_was_looked_at() {
        let ledger = Ledger::default();
        let (one, two) = (who("a", "1"), who("a", "2"));
        ledger.remembered(&one, &[key("v1", "s")].into());
        assert!(ledger.is_shared(&two, &key("v1", "s")));
        ledger.wants(&one, [&key("v1", "t")]);
        ledger.remembered(&one, &[key("v1", "s")].into());
        assert!(!ledger.is_shared(&two, &key("v1", "s")));
        assert!(ledger.is_shared(&two, &key("v1", "t")));
    }

    #[test]
    fn another_workspace_does_not_get_what_is_claimed() {
        let ledger = Ledger::default();
        ledger
            .claim(&who("a", "1"), &key("v1", "s"))
            .expect("it is free");
        let refused = ledger.claim(&who("b", "2"), &key("v1", "s"));
        assert_eq!(refused, Err(who("a", "1")));
    }

    #[test]
    fn those_who_left_are_not_remembered_for_ever() {
        let ledger = Ledger::default();
        for n in 0..2 * DONE {
            let one = who("a", &n.to_string());
            ledger.wants(&one, [&key("v1", "s")]);
            ledger.wants(&one, []);
        }
        let state = ledger.0.lock();
        assert!(state.claims.len() <= DONE);
        assert!(state.by_key.is_empty());
    }
}
