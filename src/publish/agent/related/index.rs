//! Who asked for what: from a changed object to the published ones whose related entries led there,
//! or would lead there now.

use std::collections::{HashMap, HashSet};

use crate::publish::agent::publication::SubjectId;
use hawser_sync::decide::Question;
use hawser_sync::subject::Labels;
use hawser_sync::{Key, Scope};
use kube_lang::object::Object;

/// A list that was asked for, under the first of its labels: whatever it holds carries that.
type Shelf = (Scope, Option<(String, String)>);

/// The reverse index of one published resource. What a subject asked in its last pass replaces what
/// it asked before, and an object leads to so many others at most that this is bounded by them.
#[derive(Debug, Default)]
pub(super) struct Index {
    asked: HashMap<SubjectId, Vec<Question>>,
    objects: HashMap<Key, HashSet<SubjectId>>,
    lists: HashMap<Shelf, HashMap<SubjectId, Vec<Labels>>>,
}

impl Index {
    /// What a subject asked in its last pass; nothing where it is gone. What it had not asked before
    /// is answered: changes of that were not told to it until now.
    pub(super) fn set(&mut self, id: &SubjectId, questions: Vec<Question>) -> Vec<Question> {
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
                    let shelf = self.lists.entry(shelf(scope, labels)).or_default();
                    shelf.entry(id.clone()).or_default().push(labels.clone());
                }
            }
        }
        if !questions.is_empty() {
            self.asked.insert(id.clone(), questions);
        }
        new
    }

    fn drop(&mut self, id: &SubjectId, question: &Question) {
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
                let shelf = shelf(scope, labels);
                if let Some(holders) = self.lists.get_mut(&shelf) {
                    holders.remove(id);
                    if holders.is_empty() {
                        self.lists.remove(&shelf);
                    }
                }
            }
        }
    }

    /// Whose answers this object is among.
    pub(super) fn asking(&self, key: &Key, object: &Object) -> HashSet<SubjectId> {
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

fn shelf(scope: &Scope, labels: &Labels) -> Shelf {
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
    use hawser_sync::Side;
    use kube_lang::object::Gvk;

    fn id(name: &str) -> SubjectId {
        SubjectId {
            publication: "p".into(),
            cluster: "c".into(),
            namespace: None,
            name: name.into(),
        }
    }

    fn scope() -> Scope {
        let kind = Arc::new(Gvk::new("", "v1", "Secret"));
        Scope::new(&Side::new("service"), &kind, "")
    }

    fn asking(index: &Index, name: &str, labels: &serde_json::Value) -> Vec<String> {
        let object = json!({"metadata": {"name": name, "labels": labels}});
        let key = scope().key(Some("ns"), name);
        let found = index.asking(&key, &Object::new(object).unwrap());
        let mut found: Vec<_> = found.iter().map(|id| id.name.to_string()).collect();
        found.sort();
        found
    }

    #[test]
    fn whoever_asked_for_an_object_or_its_labels_is_found_until_it_asks_for_something_else() {
        let mut index = Index::default();
        let labels = |pairs: &[(&str, &str)]| {
            let pairs = pairs.iter().map(|(k, v)| ((*k).into(), (*v).into()));
            Question::Marked(scope(), pairs.collect())
        };
        let object = Question::Object(scope().key(Some("ns"), "x"));
        index.set(&id("object"), vec![object.clone()]);
        index.set(&id("one"), vec![labels(&[("a", "1")])]);
        index.set(&id("two"), vec![labels(&[("a", "1"), ("b", "2")])]);
        index.set(&id("all"), vec![labels(&[]), object]);
        assert_eq!(asking(&index, "x", &json!({})), ["all", "object"]);
        assert_eq!(asking(&index, "y", &json!({"a": "1"})), ["all", "one"]);
        let both = json!({"a": "1", "b": "2"});
        assert_eq!(asking(&index, "y", &both), ["all", "one", "two"]);
        index.set(&id("all"), vec![]);
        index.set(&id("one"), vec![labels(&[("b", "2")])]);
        assert_eq!(asking(&index, "y", &json!({"a": "1"})), [""; 0]);
        assert_eq!(asking(&index, "y", &both), ["one", "two"]);
        for name in ["object", "one", "two"] {
            index.set(&id(name), vec![]);
        }
        assert!(index.asked.is_empty() && index.objects.is_empty() && index.lists.is_empty());
    }
}
