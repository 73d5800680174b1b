//! The claims of published objects: a shared object is deleted with its last claim, and an object of one workspace is
//! not taken over by another.
//!
//! Until a published object has had a pass, the records in its memory count as its claims.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet, VecDeque};
use std::hash::Hash;
use std::ops::Bound::{Excluded, Unbounded};
use std::sync::Arc;

use parking_lot::Mutex;

use hawser_sync::{CopyRecord, Key};
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
    /// The original of a copy.
    source: Option<Key>,
}

impl ObjectClaim {
    pub fn copy(key: &Key) -> Self {
        Self {
            key: any_version(key),
            original: None,
            source: None,
        }
    }

    /// That this copy is made from this original. It says nothing of who may delete it.
    pub fn made_from(copy: &Key, original: &Key) -> Self {
        Self {
            source: Some(any_version(original)),
            ..Self::copy(copy)
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
            source: None,
        }
    }
}

/// The copies that a memory records as created, or as about to be created.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MadeCopies(BTreeMap<Key, MadeCopy>);

#[derive(Clone, Debug, PartialEq, Eq)]
struct MadeCopy {
    /// Not every record has one.
    uid: Option<Arc<str>>,
    /// Another one may have been created under this name since.
    is_intended: bool,
}

/// Whether an object is a copy that was created for another published object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MadeByOther {
    No,
    /// These owners were about to create a copy under its name.
    Perhaps(Vec<ClaimOwner>),
    Yes,
}

/// The claims of all published objects. One for all concurrent passes.
#[derive(Debug, Default)]
pub struct ClaimIndex(Mutex<LedgerState>);

#[derive(Debug, Default)]
struct LedgerState {
    claims: HashMap<ClaimOwner, Claims>,
    by_claim: HashMap<ObjectClaim, BTreeSet<ClaimOwner>>,
    /// The memories that record a copy, also those of owners that no longer claim it.
    recorded_by: HashMap<Key, BTreeSet<ClaimOwner>>,
    /// Owners without claims, the oldest first. Their memories do not count again.
    done: VecDeque<ClaimOwner>,
}

#[derive(Debug, Default)]
struct Claims {
    objects: BTreeSet<ObjectClaim>,
    made: MadeCopies,
    /// By its own pass, not by its memory.
    said: bool,
}

/// The objects that a search for a circle looks at: the originals of an original, theirs, and so on.
const CIRCLE: usize = 64;

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

    /// Sets the claims.
    pub fn wants(&self, by: &ClaimOwner, claims: BTreeSet<ObjectClaim>, made: MadeCopies) {
        let now = Claims {
            objects: claims,
            made,
            said: true,
        };
        self.0.lock().set(by, now);
    }

    /// Sets the claims of a memory, which do not count once the owner has had a pass, and the copies that it records.
    pub fn remembered(&self, by: &ClaimOwner, claims: BTreeSet<ObjectClaim>, made: MadeCopies) {
        let mut state = self.0.lock();
        if state.claims.get(by).is_some_and(|claims| claims.said) {
            state.record(by, made);
        } else {
            let now = Claims {
                objects: claims,
                made,
                said: false,
            };
            state.set(by, now);
        }
    }

    /// Other processes have passes over the objects of these workspaces from now on, so that their memories count again;
    /// returns the owners. Their claims stay until they are remembered.
    pub fn leave_to_memories(&self, is_meant: impl Fn(&str) -> bool) -> Vec<ClaimOwner> {
        let mut state = self.0.lock();
        let mut owners = Vec::new();
        for (owner, claims) in &mut state.claims {
            if claims.said && is_meant(&owner.cluster) {
                claims.said = false;
                owners.push(owner.clone());
            }
        }
        owners
    }

    /// The memory of an owner records nothing any more. What its passes claim stays.
    pub fn recorded_nothing(&self, by: &ClaimOwner) {
        let mut state = self.0.lock();
        if state.claims.contains_key(by) {
            state.record(by, MadeCopies::default());
        }
    }

    /// An owner has no memory, and so no claims.
    pub fn remembered_nothing(&self, by: &ClaimOwner) {
        self.remembered(by, BTreeSet::new(), MadeCopies::default());
    }

    /// Sets exactly the claims of a memory, whatever was claimed before: its object is gone, or not wanted. They count
    /// until the memory changes.
    pub fn set_recorded_claims(
        &self,
        by: &ClaimOwner,
        claims: BTreeSet<ObjectClaim>,
        made: MadeCopies,
    ) {
        let mut state = self.0.lock();
        let nothing = claims.is_empty();
        let before = state.claims.get(by);
        if nothing && before.is_none_or(|claims| claims.objects.is_empty()) {
            if before.is_some() {
                state.record(by, made);
            }
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

    /// Whether the original of a copy is itself made from what is in the place of the copy, perhaps over other copies.
    /// All of them would be written from each other for ever.
    pub fn leads_back(&self, original: &Key, copy: &Key) -> bool {
        let there = any_version(copy);
        let state = self.0.lock();
        let mut seen = HashSet::from([any_version(original)]);
        let mut next: Vec<Key> = seen.iter().cloned().collect();
        while let Some(made) = next.pop() {
            for source in state.sources(&made) {
                if *source == there {
                    return true;
                }
                if seen.len() < CIRCLE && seen.insert(source.clone()) {
                    next.push(source.clone());
                }
            }
        }
        false
    }

    /// Whether the object with this uid was created as a copy for another object of the workspace: a claim is no proof
    /// of that.
    pub fn made_by_other(&self, by: &ClaimOwner, copy: &Key, uid: Option<&str>) -> MadeByOther {
        let state = self.0.lock();
        let mut intending = Vec::new();
        for (owner, made) in state.records(by, &any_version(copy)) {
            if made.is_of(uid) {
                return MadeByOther::Yes;
            }
            if made.is_intended {
                intending.push(owner.clone());
            }
        }
        if intending.is_empty() {
            MadeByOther::No
        } else {
            MadeByOther::Perhaps(intending)
        }
    }

    /// Whether another object that wants this copy records it as created.
    pub fn is_recorded_by_heir(&self, by: &ClaimOwner, copy: &Key, uid: Option<&str>) -> bool {
        let claim = ObjectClaim::copy(copy);
        let state = self.0.lock();
        let heirs = state.by_claim.get(&claim);
        let is_heir = |owner: &ClaimOwner| heirs.is_some_and(|heirs| heirs.contains(owner));
        let mut records = state.records(by, &claim.key);
        records.any(|(owner, made)| is_heir(owner) && made.is_of(uid))
    }
}

impl MadeCopy {
    /// Whether this is the object with this uid.
    fn is_of(&self, uid: Option<&str>) -> bool {
        match &self.uid {
            Some(made) => uid == Some(&**made),
            None => !self.is_intended,
        }
    }
}

impl MadeCopies {
    /// Of several records of one copy, one that names its uid counts.
    pub fn add(&mut self, copy: &Key, record: &CopyRecord) {
        if !record.is_made() {
            return;
        }
        let made = match record {
            CopyRecord::Unrecorded | CopyRecord::Adopted { .. } => MadeCopy {
                uid: None,
                is_intended: false,
            },
            CopyRecord::Created { uid, .. } => MadeCopy {
                uid: Some(Arc::clone(uid)),
                is_intended: false,
            },
            CopyRecord::Intended { lost, .. } => MadeCopy {
                uid: lost.as_ref().map(|lost| Arc::clone(&lost.uid)),
                is_intended: true,
            },
        };
        let known = self
            .0
            .entry(any_version(copy))
            .or_insert_with(|| made.clone());
        if known.uid.is_none() {
            *known = made;
        }
    }
}

impl LedgerState {
    /// The originals that an object is made from.
    fn sources(&self, made: &Key) -> impl Iterator<Item = &Key> {
        let copy = ObjectClaim::copy(made);
        let holders = self.by_claim.get(&copy).into_iter().flatten();
        let all = holders.filter_map(|holder| self.claims.get(holder));
        all.flat_map(move |claims| {
            let after = claims.objects.range((Excluded(copy.clone()), Unbounded));
            let key = copy.key.clone();
            after.map_while(move |claim| claim.source.as_ref().filter(|_| claim.key == key))
        })
    }

    /// What other objects of the workspace record of a copy.
    fn records(
        &self,
        by: &ClaimOwner,
        copy: &Key,
    ) -> impl Iterator<Item = (&ClaimOwner, &MadeCopy)> {
        let owners = self.recorded_by.get(copy).into_iter().flatten();
        let others = owners.filter(move |owner| *owner != by && owner.cluster == by.cluster);
        others.filter_map(move |owner| {
            let made = self.claims.get(owner)?.made.0.get(copy)?;
            Some((owner, made))
        })
    }

    fn foreign_owner(&self, by: &ClaimOwner, claim: &ObjectClaim) -> Option<ClaimOwner> {
        let mut holders = self.by_claim.get(claim)?.iter();
        holders.find(|holder| holder.cluster != by.cluster).cloned()
    }

    fn add(&mut self, by: &ClaimOwner, claim: ObjectClaim) {
        if claim.source.is_none() {
            self.by_claim
                .entry(claim.clone())
                .or_default()
                .insert(by.clone());
        }
        let claims = self.claims.entry(by.clone()).or_default();
        claims.objects.insert(claim);
    }

    /// Sets the copies that a memory records.
    fn record(&mut self, by: &ClaimOwner, made: MadeCopies) {
        let claims = self.claims.entry(by.clone()).or_default();
        if claims.made == made {
            return;
        }
        for copy in made.0.keys() {
            let owners = self.recorded_by.entry(copy.clone()).or_default();
            owners.insert(by.clone());
        }
        let before = std::mem::replace(&mut claims.made, made);
        for copy in before.0.keys() {
            if !claims.made.0.contains_key(copy) {
                remove_owner(&mut self.recorded_by, copy, by);
            }
        }
        if claims.objects.is_empty() && claims.made.0.is_empty() {
            self.done.push_back(by.clone());
        }
    }

    fn set(&mut self, by: &ClaimOwner, now: Claims) {
        let Claims {
            objects,
            made,
            said,
        } = now;
        if !self.claims.contains_key(by) && objects.is_empty() && made.0.is_empty() {
            return;
        }
        self.record(by, made);
        let before = self
            .claims
            .get_mut(by)
            .map(|claims| std::mem::take(&mut claims.objects));
        for claim in before.unwrap_or_default() {
            remove_owner(&mut self.by_claim, &claim, by);
        }
        let recorded = self.claims.get(by).map(|claims| &claims.made);
        if objects.is_empty() && recorded.is_none_or(|made| made.0.is_empty()) {
            self.done.push_back(by.clone());
        }
        self.claims.entry(by.clone()).or_default().said = said;
        for claim in objects {
            self.add(by, claim);
        }
        while self.done.len() > DONE {
            let Some(oldest) = self.done.pop_front() else {
                break;
            };
            let is_over = |claims: &Claims| claims.objects.is_empty() && claims.made.0.is_empty();
            if self.claims.get(&oldest).is_some_and(is_over) {
                self.claims.remove(&oldest);
            }
        }
    }
}

fn remove_owner<K: Eq + Hash>(
    owners: &mut HashMap<K, BTreeSet<ClaimOwner>>,
    of: &K,
    owner: &ClaimOwner,
) {
    if let Some(left) = owners.get_mut(of) {
        left.remove(owner);
        if left.is_empty() {
            owners.remove(of);
        }
    }
}

fn any_version(key: &Key) -> Key {
    key.of_kind(&Gvk::new(&key.kind.group, "", &key.kind.kind).into())
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
    fn claims_of_objects_that_another_process_works_on_are_those_of_their_memories() {
        let ledger = ClaimIndex::default();
        let (one, two) = (who("a", "1"), who("b", "2"));
        ledger.wants(&one, claims(&[key("v1", "s")]), MadeCopies::default());
        ledger.remembered(&one, claims(&[key("v1", "t")]), MadeCopies::default());
        assert!(ledger.claim(&two, &key("v1", "t")).is_ok());
        assert_eq!(
            ledger.leave_to_memories(|cluster| cluster == "a"),
            std::slice::from_ref(&one)
        );
        // Until the memory is read, nobody takes what was claimed.
        assert!(ledger.claim(&two, &key("v1", "s")).is_err());
        ledger.remembered(&one, claims(&[key("v1", "u")]), MadeCopies::default());
        assert!(ledger.claim(&two, &key("v1", "s")).is_ok());
        assert!(ledger.claim(&two, &key("v1", "u")).is_err());
        ledger.remembered_nothing(&one);
        assert!(ledger.claim(&two, &key("v1", "u")).is_ok());
    }

    #[test]
    fn what_two_want_is_shared_until_one_of_them_leaves() {
        let ledger = ClaimIndex::default();
        let (one, two) = (who("a", "1"), who("a", "2"));
        ledger.wants(&one, claims(&[key("v1", "s")]), MadeCopies::default());
        assert!(!ledger.is_shared(&one, &ObjectClaim::copy(&key("v1", "s"))));
        ledger.claim(&two, &key("v2", "s")).unwrap();
        assert!(ledger.is_shared(&one, &ObjectClaim::copy(&key("v1", "s"))));
        ledger.wants(&one, claims(&[]), MadeCopies::default());
        ledger.remembered(&one, claims(&[key("v1", "s")]), MadeCopies::default());
        assert!(!ledger.is_shared(&two, &ObjectClaim::copy(&key("v1", "s"))));
    }

    #[test]
    fn a_memory_counts_until_its_owner_was_looked_at() {
        let ledger = ClaimIndex::default();
        let (one, two) = (who("a", "1"), who("a", "2"));
        ledger.remembered(&one, claims(&[key("v1", "s")]), MadeCopies::default());
        assert!(ledger.is_shared(&two, &ObjectClaim::copy(&key("v1", "s"))));
        ledger.wants(&one, claims(&[key("v1", "t")]), MadeCopies::default());
        ledger.remembered(&one, claims(&[key("v1", "s")]), MadeCopies::default());
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
        ledger.wants(&one, [held("x")].into(), MadeCopies::default());
        assert!(ledger.is_shared(&two, &held("x")));
        assert!(!ledger.is_shared(&two, &held("y")));
        assert!(!ledger.is_shared(&two, &ObjectClaim::copy(&key("v1", "s"))));
    }

    #[test]
    fn an_original_that_is_made_from_its_own_copy_is_found_out() {
        let ledger = ClaimIndex::default();
        let (ours, theirs) = (key("v1", "a"), key("v1", "b"));
        ledger.wants(&who("a", "1"), made(&[("a", "b")]), MadeCopies::default());
        assert!(ledger.leads_back(&theirs, &key("v2", "a")));
        assert!(!ledger.leads_back(&ours, &theirs));
        assert!(!ledger.leads_back(&theirs, &key("v1", "c")));
        ledger.wants(&who("a", "1"), BTreeSet::new(), MadeCopies::default());
        assert!(!ledger.leads_back(&theirs, &ours));
    }

    /// The claims of these originals and copies.
    fn made(pairs: &[(&str, &str)]) -> BTreeSet<ObjectClaim> {
        let of = |(original, copy): &(&str, &str)| {
            let (original, copy) = (key("v1", original), key("v1", copy));
            let pair = ObjectClaim::made_from(&copy, &original);
            [
                ObjectClaim::held(&original, "f"),
                ObjectClaim::copy(&copy),
                pair,
            ]
        };
        pairs.iter().flat_map(of).collect()
    }

    #[test]
    fn a_circle_over_several_copies_is_found_out_whoever_makes_them() {
        let pairs = [("a", "b"), ("b", "c"), ("c", "d")];
        let together = [&pairs[..]];
        let apart = [&pairs[..1], &pairs[1..2], &pairs[2..]];
        for owners in [&together[..], &apart[..]] {
            let ledger = ClaimIndex::default();
            for (number, pairs) in owners.iter().enumerate() {
                let by = who("a", &number.to_string());
                ledger.wants(&by, made(pairs), MadeCopies::default());
            }
            assert!(ledger.leads_back(&key("v1", "d"), &key("v1", "a")));
            assert!(ledger.leads_back(&key("v1", "d"), &key("v1", "b")));
            assert!(!ledger.leads_back(&key("v1", "d"), &key("v1", "e")));
            assert!(!ledger.leads_back(&key("v1", "a"), &key("v1", "d")));
        }
    }

    #[test]
    fn copies_of_one_object_do_not_lead_to_each_others_originals() {
        let ledger = ClaimIndex::default();
        let pairs = made(&[("a", "b"), ("c", "d")]);
        ledger.wants(&who("a", "1"), pairs, MadeCopies::default());
        assert!(!ledger.leads_back(&key("v1", "b"), &key("v1", "c")));
    }

    #[test]
    fn a_search_for_a_circle_ends() {
        let ledger = ClaimIndex::default();
        let names: Vec<String> = (0..10 * CIRCLE).map(|n| n.to_string()).collect();
        let round = names.iter().zip(names.iter().cycle().skip(1));
        let round: Vec<_> = round.map(|(a, b)| (a.as_str(), b.as_str())).collect();
        ledger.wants(&who("a", "1"), made(&round), MadeCopies::default());
        assert!(!ledger.leads_back(&key("v1", "0"), &key("v1", "elsewhere")));
    }

    #[test]
    fn wanting_an_object_is_no_proof_of_having_made_it() {
        let ledger = ClaimIndex::default();
        let (one, two) = (who("a", "1"), who("a", "2"));
        let secret = key("v1", "s");
        ledger.wants(
            &one,
            claims(std::slice::from_ref(&secret)),
            MadeCopies::default(),
        );
        ledger.wants(
            &two,
            claims(std::slice::from_ref(&secret)),
            MadeCopies::default(),
        );
        let by_other = |by: &ClaimOwner, uid| ledger.made_by_other(by, &secret, Some(uid));
        let record = |record: CopyRecord| {
            let mut made = MadeCopies::default();
            made.add(&secret, &record);
            made
        };
        assert_eq!(by_other(&one, "u"), MadeByOther::No);
        let created = || CopyRecord::Created {
            key: secret.clone(),
            uid: "u".into(),
        };
        let own = claims(std::slice::from_ref(&secret));
        ledger.wants(&two, own.clone(), record(created()));
        assert_eq!(by_other(&one, "u"), MadeByOther::Yes);
        assert_eq!(by_other(&one, "another"), MadeByOther::No);
        assert_eq!(by_other(&who("b", "1"), "u"), MadeByOther::No);
        let has_heir = || ledger.is_recorded_by_heir(&one, &secret, Some("u"));
        assert!(has_heir());
        // Who leaves has made it, and does not take it over.
        ledger.wants(&two, claims(&[]), record(created()));
        assert_eq!(by_other(&one, "u"), MadeByOther::Yes);
        assert!(!has_heir());
        assert_eq!(by_other(&two, "u"), MadeByOther::No);
        ledger.wants(&two, claims(&[]), MadeCopies::default());
        assert_eq!(by_other(&one, "u"), MadeByOther::No);
        let intended = CopyRecord::Intended {
            key: secret.clone(),
            lost: None,
            taken: false,
        };
        let third = who("a", "3");
        ledger.remembered(&third, own.clone(), record(intended));
        assert_eq!(
            by_other(&one, "u"),
            MadeByOther::Perhaps(vec![third.clone()])
        );
        // What a memory records is known before its owner decides again.
        ledger.wants(&third, own.clone(), MadeCopies::default());
        ledger.remembered(&third, claims(&[]), record(created()));
        assert_eq!(by_other(&one, "u"), MadeByOther::Yes);
    }

    #[test]
    fn those_who_left_are_not_remembered_for_ever() {
        let ledger = ClaimIndex::default();
        for n in 0..2 * DONE {
            let one = who("a", &n.to_string());
            ledger.wants(&one, claims(&[key("v1", "s")]), MadeCopies::default());
            ledger.wants(&one, claims(&[]), MadeCopies::default());
        }
        let state = ledger.0.lock();
        assert!(state.claims.len() <= DONE);
        assert!(state.by_claim.is_empty());
    }
}
