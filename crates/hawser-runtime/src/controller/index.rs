//! Finds the subjects of a changed object: those whose passes read it or would find it now, and the one whose copy it is.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet};
use std::hash::Hash;
use std::sync::Arc;

use crate::cluster::queue::QueueKey;
use hawser_sync::{Key, Scope, Side};
use hawser_sync::{Labels, Question};
use kube_lang::object::{Gvk, Object};

/// A list that was read, by the first of its labels, which all its objects carry.
type ListKey = (Scope, Option<(String, String)>);

/// The questions of each subject's last pass.
#[derive(Debug)]
pub struct ReverseIndex<Id> {
    asked: HashMap<Id, Vec<Question>>,
    objects: HashMap<Key, HashSet<Id>>,
    lists: HashMap<ListKey, HashMap<Id, Vec<Labels>>>,
}

impl<Id> Default for ReverseIndex<Id> {
    fn default() -> Self {
        Self {
            asked: HashMap::new(),
            objects: HashMap::new(),
            lists: HashMap::new(),
        }
    }
}

impl<Id: Clone + Eq + Hash> ReverseIndex<Id> {
    /// Sets the questions of a subject's last pass; empty if the subject is gone. Returns the questions that are new:
    /// their changes were not reported to the subject until now.
    pub fn set(&mut self, id: &Id, questions: Vec<Question>) -> Vec<Question> {
        if self.asked.get(id) == Some(&questions) {
            return Vec::new();
        }
        let before = self.asked.remove(id).unwrap_or_default();
        for question in &before {
            self.drop(id, question);
        }
        let new = questions
            .iter()
            .filter(|question| !before.contains(question));
        let new = new.cloned().collect();
        for question in &questions {
            match question {
                Question::Object(key) => {
                    let holders = self.objects.entry(key.clone()).or_default();
                    holders.insert(id.clone());
                }
                Question::Marked(scope, labels) => {
                    let list = self.lists.entry(list_key(scope, labels)).or_default();
                    list.entry(id.clone()).or_default().push(labels.clone());
                }
            }
        }
        if !questions.is_empty() {
            self.asked.insert(id.clone(), questions);
        }
        new
    }

    fn drop(&mut self, id: &Id, question: &Question) {
        match question {
            Question::Object(key) => {
                if let Some(holders) = self.objects.get_mut(key) {
                    holders.remove(id);
                    if holders.is_empty() {
                        self.objects.remove(key);
                    }
                }
            }
            Question::Marked(scope, labels) => {
                let list = list_key(scope, labels);
                if let Some(holders) = self.lists.get_mut(&list) {
                    holders.remove(id);
                    if holders.is_empty() {
                        self.lists.remove(&list);
                    }
                }
            }
        }
    }

    /// The subjects that read anything of a kind on a side.
    pub fn dependents_on_kind(&self, side: &Side, kind: &Gvk) -> HashSet<Id> {
        let objects = self.objects.iter();
        let objects = objects.filter(|(key, _)| key.side == *side && *key.kind == *kind);
        let mut found: HashSet<Id> = objects.flat_map(|(_, ids)| ids).cloned().collect();
        let lists = self.lists.iter();
        let lists = lists.filter(|((scope, _), _)| scope.side == *side && *scope.kind == *kind);
        found.extend(lists.flat_map(|(_, ids)| ids.keys()).cloned());
        found
    }

    /// The subjects whose answers include this object.
    pub fn dependents(&self, key: &Key, object: &Object) -> HashSet<Id> {
        let mut found = self.objects.get(key).cloned().unwrap_or_default();
        if self.lists.is_empty() {
            return found;
        }
        let first = object
            .labels()
            .map(|(k, v)| Some((k.to_owned(), v.to_owned())));
        for label in first.chain([None]) {
            let Some(holders) = self.lists.get(&(key.scope(), label)) else {
                continue;
            };
            let fits = |labels: &Labels| labels.fit(object);
            let holders = holders.iter().filter(|(_, lists)| lists.iter().any(fits));
            found.extend(holders.map(|(id, _)| id.clone()));
        }
        found
    }
}

/// The subjects of copies, as learned from passes; a copy's own annotations may be wrong.
#[derive(Debug)]
pub struct CopyIndex<Id> {
    subjects: HashMap<Key, Id>,
    /// By tenant.
    copies: HashMap<Arc<str>, HashSet<Key>>,
}

impl<Id> Default for CopyIndex<Id> {
    fn default() -> Self {
        Self {
            subjects: HashMap::new(),
            copies: HashMap::new(),
        }
    }
}

impl<Id: QueueKey> CopyIndex<Id> {
    pub fn get(&self, copy: &Key) -> Option<&Id> {
        self.subjects.get(copy)
    }

    pub fn insert(&mut self, copy: &Key, id: &Id) {
        if self.subjects.get(copy) == Some(id) {
            return;
        }
        self.remove(copy);
        self.subjects.insert(copy.clone(), id.clone());
        let of_tenant = self.copies.entry(Arc::clone(id.tenant())).or_default();
        of_tenant.insert(copy.clone());
    }

    pub fn remove(&mut self, copy: &Key) -> Option<Id> {
        let id = self.subjects.remove(copy)?;
        if let Entry::Occupied(mut copies) = self.copies.entry(Arc::clone(id.tenant())) {
            copies.get_mut().remove(copy);
            if copies.get().is_empty() {
                copies.remove();
            }
        }
        Some(id)
    }

    pub fn forget_tenant(&mut self, tenant: &str) {
        for copy in self.copies.remove(tenant).unwrap_or_default() {
            self.subjects.remove(&copy);
        }
    }
}

fn list_key(scope: &Scope, labels: &Labels) -> ListKey {
    let first = labels.iter().next();
    (
        scope.clone(),
        first.map(|(k, v)| (k.to_owned(), v.to_owned())),
    )
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::json;

    use super::*;

    fn scope() -> Scope {
        let kind = Arc::new(Gvk::new("", "v1", "Secret"));
        Scope::new(&Side::new("service"), &kind, "")
    }

    fn dependents(
        index: &ReverseIndex<&'static str>,
        name: &str,
        labels: &serde_json::Value,
    ) -> Vec<String> {
        let object = json!({"metadata": {"name": name, "labels": labels}});
        let key = scope().key(Some("ns"), name);
        let found = index.dependents(&key, &Object::new(object).unwrap());
        let mut found: Vec<_> = found.iter().map(ToString::to_string).collect();
        found.sort();
        found
    }

    #[test]
    fn whoever_asked_for_an_object_or_its_labels_is_found_until_it_asks_for_something_else() {
        let mut index = ReverseIndex::default();
        let labels = |pairs: &[(&str, &str)]| {
            let pairs = pairs.iter().map(|(k, v)| ((*k).to_owned(), (*v).into()));
            Question::Marked(scope(), pairs.collect())
        };
        let object = Question::Object(scope().key(Some("ns"), "x"));
        index.set(&"object", vec![object.clone()]);
        index.set(&"one", vec![labels(&[("a", "1")])]);
        index.set(&"two", vec![labels(&[("a", "1"), ("b", "2")])]);
        index.set(&"all", vec![labels(&[]), object]);
        assert_eq!(dependents(&index, "x", &json!({})), ["all", "object"]);
        assert_eq!(dependents(&index, "y", &json!({"a": "1"})), ["all", "one"]);
        let both = json!({"a": "1", "b": "2"});
        assert_eq!(dependents(&index, "y", &both), ["all", "one", "two"]);
        index.set(&"all", vec![]);
        index.set(&"one", vec![labels(&[("b", "2")])]);
        assert_eq!(dependents(&index, "y", &json!({"a": "1"})), [""; 0]);
        assert_eq!(dependents(&index, "y", &both), ["one", "two"]);
        for name in ["object", "one", "two"] {
            index.set(&name, vec![]);
        }
        assert!(index.asked.is_empty() && index.objects.is_empty() && index.lists.is_empty());
    }
}
