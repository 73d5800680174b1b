//! The claims of published objects: a shared object is deleted with its last claim, and an object of one workspace is
//! not taken over by another.
//!
//! Until a published object has had a pass, the records in its memory count as its claims.

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::ops::Bound::{Excluded, Unbounded};
use std::sync::Arc;

use parking_lot::Mutex;

use hawser_sync::Key;
use kube_lang::object::Gvk;

/// A published object, by the name of its memory, and its workspace.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ClaimOwner {
    pub memory: Arc<str>,
    pub cluster: Arc<str>,
}

/// A claim on an object, either as a copy or as an original.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ObjectClaim {
    key: Key,
    /// The finalizer of an original, which may have none.
    original: Option<Arc<str>>,
}

impl ObjectClaim {
    pub fn copy(key: &Key) -> Self {
        Self {
            key: any_version(key),
            original: None,
        }
    }

    /// An original that no finalizer keeps.
    pub fn original(key: &Key) -> Self {
        Self::held(key, "")
    }

    pub fn held(key: &Key, finalizer: &str) -> Self {
        Self {
            key: any_version(key),
            original: Some(finalizer.into()),
        }
    }
}

/// The claims of all published objects. One for all concurrent passes.
#[derive(Debug, Default)]
pub struct ClaimIndex(Mutex<LedgerState>);

#[derive(Debug, Default)]
struct LedgerState {
    claims: HashMap<ClaimOwner, Claims>,
    by_claim: HashMap<ObjectClaim, BTreeSet<ClaimOwner>>,
    /// Owners without claims, the oldest first. Their memories do not count again.
    done: VecDeque<ClaimOwner>,
}

#[derive(Debug, Default)]
struct Claims {
    objects: BTreeSet<ObjectClaim>,
    /// The claims that the memory records as created.
    made: BTreeSet<ObjectClaim>,
    /// By its own pass, not by its memory.
    said: bool,
}

/// The number of owners without claims that are remembered: their last events come within moments.
const DONE: usize = 4096;

impl ClaimIndex {
    /// Claims a copy, unless an object of another workspace has claimed it; returns that object.
    pub fn claim(&self, by: &ClaimOwner, copy: &Key) -> Result<(), ClaimOwner> {
        let claim = ObjectClaim::copy(copy);
        let mut state = self.0.lock();
        if let Some(other) = state.foreign_owner(by, &claim) {
            return Err(other);
        }
        state.add(by, claim);
        Ok(())
    }

    /// The owner in another workspace that has this object as a copy.
    pub fn foreign_owner(&self, by: &ClaimOwner, key: &Key) -> Option<ClaimOwner> {
        self.0.lock().foreign_owner(by, &ObjectClaim::copy(key))
    }

    /// Sets the claims; some of them the memory records as created.
    pub fn wants(
        &self,
        by: &ClaimOwner,
        claims: BTreeSet<ObjectClaim>,
        made: BTreeSet<ObjectClaim>,
    ) {
        let now = Claims {
            objects: claims,
            made,
            said: true,
        };
        self.0.lock().set(by, now);
    }

    /// Sets the claims of a memory, and those that it records as created. They do not count once the owner has had a
    /// pass.
    pub fn remembered(
        &self,
        by: &ClaimOwner,
        claims: BTreeSet<ObjectClaim>,
        made: BTreeSet<ObjectClaim>,
    ) {
        let mut state = self.0.lock();
        if state.claims.get(by).is_none_or(|claims| !claims.said) {
            let now = Claims {
                objects: claims,
                made,
                said: false,
            };
            state.set(by, now);
        }
    }

    /// Sets exactly the claims of a memory, whatever was claimed before: its object is gone, or not wanted. They count
    /// until the memory changes.
    pub fn set_recorded_claims(
        &self,
        by: &ClaimOwner,
        claims: BTreeSet<ObjectClaim>,
        made: BTreeSet<ObjectClaim>,
    ) {
        let mut state = self.0.lock();
        let nothing = claims.is_empty();
        let before = state.claims.get(by);
        if nothing && before.is_none_or(|claims| claims.objects.is_empty()) {
            return;
        }
        let now = Claims {
            objects: claims,
            made,
            said: nothing,
        };
        state.set(by, now);
    }

    /// Whether anybody else claims this.
    pub fn is_shared(&self, by: &ClaimOwner, claim: &ObjectClaim) -> bool {
        let state = self.0.lock();
        let holders = state.by_claim.get(claim);
        holders.is_some_and(|holders| holders.iter().any(|holder| holder != by))
    }

    /// Whether the original of a copy is itself made from what is in the place of the copy. Both would be written from
    /// each other for ever.
    pub fn leads_back(&self, original: &Key, copy: &Key) -> bool {
        let (made, there) = (ObjectClaim::copy(original), ObjectClaim::copy(copy));
        let state = self.0.lock();
        let mut holders = state.by_claim.get(&made).into_iter().flatten();
        holders.any(|holder| {
            let objects = state.claims.get(holder).map(|claims| &claims.objects);
            let after = |all: &BTreeSet<ObjectClaim>| {
                let next = all.range((Excluded(&there), Unbounded)).next();
                next.is_some_and(|claim| claim.key == there.key)
            };
            objects.is_some_and(after)
        })
    }

    /// Whether anybody else created this copy: a claim is no proof of that.
    pub fn was_made(&self, by: &ClaimOwner, copy: &Key) -> bool {
        let claim = ObjectClaim::copy(copy);
        let state = self.0.lock();
        let made = |holder: &ClaimOwner| {
            let claims = state.claims.get(holder);
            holder != by && claims.is_some_and(|claims| claims.made.contains(&claim))
        };
        let mut holders = state.by_claim.get(&claim).into_iter().flatten();
        holders.any(made)
    }
}

impl LedgerState {
    fn foreign_owner(&self, by: &ClaimOwner, claim: &ObjectClaim) -> Option<ClaimOwner> {
        let mut holders = self.by_claim.get(claim)?.iter();
        holders.find(|holder| holder.cluster != by.cluster).cloned()
    }

    fn add(&mut self, by: &ClaimOwner, claim: ObjectClaim) {
        self.by_claim
            .entry(claim.clone())
            .or_default()
            .insert(by.clone());
        let claims = self.claims.entry(by.clone()).or_default();
        claims.objects.insert(claim);
    }

    fn set(&mut self, by: &ClaimOwner, now: Claims) {
        let Claims {
            objects,
            made,
            said,
        } = now;
        let before = self.claims.remove(by);
        if before.is_none() && objects.is_empty() {
            return;
        }
        for claim in before.unwrap_or_default().objects {
            if let Some(holders) = self.by_claim.get_mut(&claim) {
                holders.remove(by);
                if holders.is_empty() {
                    self.by_claim.remove(&claim);
                }
            }
        }
        if objects.is_empty() {
            self.done.push_back(by.clone());
        }
        let entry = self.claims.entry(by.clone()).or_default();
        (entry.made, entry.said) = (made, said);
        for claim in objects {
            self.add(by, claim);
        }
        while self.done.len() > DONE {
            let Some(oldest) = self.done.pop_front() else {
                break;
            };
            if self
                .claims
                .get(&oldest)
                .is_some_and(|c| c.objects.is_empty())
            {
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
    use hawser_sync::{Scope, Side};

    fn who(cluster: &str, name: &str) -> ClaimOwner {
        ClaimOwner {
            memory: name.into(),
            cluster: cluster.into(),
        }
    }

    fn key(version: &str, name: &str) -> Key {
        let kind = Arc::new(Gvk::new("", version, "Secret"));
        Scope::new(&Side::new("service"), &kind, "").key(Some("ns"), name)
    }

    fn claims(keys: &[Key]) -> BTreeSet<ObjectClaim> {
        keys.iter().map(ObjectClaim::copy).collect()
    }

    #[test]
    fn what_two_want_is_shared_until_one_of_them_leaves() {
        let ledger = ClaimIndex::default();
        let (one, two) = (who("a", "1"), who("a", "2"));
        ledger.wants(&one, claims(&[key("v1", "s")]), claims(&[]));
        assert!(!ledger.is_shared(&one, &ObjectClaim::copy(&key("v1", "s"))));
        ledger.claim(&two, &key("v2", "s")).unwrap();
        assert!(ledger.is_shared(&one, &ObjectClaim::copy(&key("v1", "s"))));
        ledger.wants(&one, claims(&[]), claims(&[]));
        ledger.remembered(&one, claims(&[key("v1", "s")]), claims(&[key("v1", "s")]));
        assert!(!ledger.is_shared(&two, &ObjectClaim::copy(&key("v1", "s"))));
    }

    #[test]
    fn a_memory_counts_until_its_owner_was_looked_at() {
        let ledger = ClaimIndex::default();
        let (one, two) = (who("a", "1"), who("a", "2"));
        ledger.remembered(&one, claims(&[key("v1", "s")]), claims(&[key("v1", "s")]));
        assert!(ledger.is_shared(&two, &ObjectClaim::copy(&key("v1", "s"))));
        ledger.wants(&one, claims(&[key("v1", "t")]), claims(&[]));
        ledger.remembered(&one, claims(&[key("v1", "s")]), claims(&[key("v1", "s")]));
        assert!(!ledger.is_shared(&two, &ObjectClaim::copy(&key("v1", "s"))));
        assert!(ledger.is_shared(&two, &ObjectClaim::copy(&key("v1", "t"))));
    }

    #[test]
    fn another_workspace_does_not_get_what_is_claimed() {
        let ledger = ClaimIndex::default();
        ledger
            .claim(&who("a", "1"), &key("v1", "s"))
            .expect("it is free");
        let refused = ledger.claim(&who("b", "2"), &key("v1", "s"));
        assert_eq!(refused, Err(who("a", "1")));
    }

    #[test]
    fn what_is_held_by_one_finalizer_is_not_held_by_another() {
        let ledger = ClaimIndex::default();
        let (one, two) = (who("a", "1"), who("a", "2"));
        let held = |finalizer| ObjectClaim::held(&key("v1", "s"), finalizer);
        ledger.wants(&one, [held("x")].into(), BTreeSet::new());
        assert!(ledger.is_shared(&two, &held("x")));
        assert!(!ledger.is_shared(&two, &held("y")));
        assert!(!ledger.is_shared(&two, &ObjectClaim::copy(&key("v1", "s"))));
    }

    #[test]
    fn an_original_that_is_made_from_its_own_copy_is_found_out() {
        let ledger = ClaimIndex::default();
        let (ours, theirs) = (key("v1", "a"), key("v1", "b"));
        let pair =
            |original: ObjectClaim, copy: &Key| BTreeSet::from([original, ObjectClaim::copy(copy)]);
        for original in [ObjectClaim::original(&ours), ObjectClaim::held(&ours, "f")] {
            ledger.wants(&who("a", "1"), pair(original, &theirs), BTreeSet::new());
            assert!(ledger.leads_back(&theirs, &key("v2", "a")));
            assert!(!ledger.leads_back(&ours, &theirs));
            assert!(!ledger.leads_back(&theirs, &key("v1", "c")));
        }
        ledger.wants(&who("a", "1"), BTreeSet::new(), BTreeSet::new());
        assert!(!ledger.leads_back(&theirs, &ours));
    }

    #[test]
    fn wanting_an_object_is_no_proof_of_having_made_it() {
        let ledger = ClaimIndex::default();
        let (one, two) = (who("a", "1"), who("a", "2"));
        let secret = key("v1", "s");
        ledger.wants(&one, claims(std::slice::from_ref(&secret)), claims(&[]));
        ledger.wants(&two, claims(std::slice::from_ref(&secret)), claims(&[]));
        assert!(!ledger.was_made(&one, &secret));
        ledger.wants(
            &two,
            claims(std::slice::from_ref(&secret)),
            claims(std::slice::from_ref(&secret)),
        );
        assert!(ledger.was_made(&one, &secret));
        assert!(!ledger.was_made(&two, &secret));
        ledger.wants(&two, claims(&[]), claims(&[]));
        assert!(!ledger.was_made(&one, &secret));
        let own = claims(std::slice::from_ref(&secret));
        ledger.remembered(&who("a", "3"), own.clone(), own);
        assert!(ledger.was_made(&one, &secret));
    }

    #[test]
    fn those_who_left_are_not_remembered_for_ever() {
        let ledger = ClaimIndex::default();
        for n in 0..2 * DONE {
            let one = who("a", &n.to_string());
            ledger.wants(&one, claims(&[key("v1", "s")]), claims(&[]));
            ledger.wants(&one, claims(&[]), claims(&[]));
        }
        let state = ledger.0.lock();
        assert!(state.claims.len() <= DONE);
        assert!(state.by_claim.is_empty());
    }
}
