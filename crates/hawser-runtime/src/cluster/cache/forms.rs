//! The objects of a table parsed into a Rust type, once for each version. The log names an object that
//! cannot be read; others are not affected.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use serde::de::DeserializeOwned;
use tracing::warn;

use hawser_sync::{Fingerprint, Key, Labels};

use super::Table;
use super::table::Body;

/// A mark that changes with the text of an object.
type ContentHash = (u64, Fingerprint);

/// All objects of a table as `T`, in a collection that is rebuilt after a change of the table.
pub struct Forms<T, All> {
    table: Arc<Table>,
    /// The substitute for an object that cannot be read.
    instead: fn(&[u8]) -> Option<T>,
    state: Mutex<FormsState<T, All>>,
}

struct FormsState<T, All> {
    /// `None` is an object that cannot be read.
    forms: HashMap<Key, (ContentHash, Option<Arc<T>>)>,
    /// The collection, and the revision of the table that it was built from.
    all: Option<(u64, All)>,
}

impl<T: DeserializeOwned, All: FromIterator<Arc<T>> + Clone> Forms<T, All> {
    pub fn of(table: &Arc<Table>) -> Self {
        let state = FormsState {
            forms: HashMap::new(),
            all: None,
        };
        Self {
            table: Arc::clone(table),
            instead: |_| None,
            state: Mutex::new(state),
        }
    }

    /// Takes something else for an object that cannot be read, where leaving it out would say too much.
    #[must_use]
    pub fn or(self, instead: fn(&[u8]) -> Option<T>) -> Self {
        Self { instead, ..self }
    }

    /// All current objects.
    pub fn all(&self) -> All {
        let mut state = self.state.lock();
        if let Some((revision, all)) = &state.all
            && *revision == self.table.revision()
        {
            return all.clone();
        }
        let mut before = std::mem::take(&mut state.forms);
        let mut forms = HashMap::with_capacity(before.len());
        let revision = self.table.show(|key, mark, body| {
            let known = before.remove(key).filter(|(known, _)| *known == mark);
            let form = known.map_or_else(
                || {
                    let read = read(key, body);
                    read.or_else(|| (self.instead)(&body.text())).map(Arc::new)
                },
                |(_, form)| form,
            );
            forms.insert(key.clone(), (mark, form));
        });
        state.forms = forms;
        let forms = state.forms.values();
        let all: All = forms.filter_map(|(_, form)| form.clone()).collect();
        state.all = Some((revision, all.clone()));
        all
    }
}

fn read<T: DeserializeOwned>(key: &Key, body: &Body) -> Option<T> {
    let read = serde_json::from_slice(&body.text());
    read.inspect_err(|error| warn!(%key, %error, "an object cannot be read; it is left out"))
        .ok()
}

/// The objects of a table with some labels as `T`, in the order of their keys.
pub struct LabelledForms<T> {
    /// The objects with these labels, and whether each is among `all`.
    marks: Vec<(Key, ContentHash, bool)>,
    all: Vec<T>,
    bytes: usize,
}

impl<T> Default for LabelledForms<T> {
    fn default() -> Self {
        Self {
            marks: Vec::new(),
            all: Vec::new(),
            bytes: 0,
        }
    }
}

impl<T: DeserializeOwned> LabelledForms<T> {
    /// Parses the changed objects with these labels. Returns false if the table does not know all of them.
    pub fn refresh(
        &mut self,
        table: &Table,
        labels: &Labels,
        is_its: impl Fn(&Key, &T) -> bool,
    ) -> bool {
        let mut is_same = true;
        let mut count = 0;
        let is_known = table.show_labelled("", labels, |key, mark, _| {
            let known = self.marks.binary_search_by(|(known, ..)| known.cmp(key));
            is_same &= known.is_ok_and(|at| self.marks[at].1 == mark);
            count += 1;
        });
        if !is_known || (is_same && count == self.marks.len()) {
            return is_known;
        }
        let mut all = std::mem::take(&mut self.all).into_iter();
        let before = std::mem::take(&mut self.marks).into_iter();
        let before = before.map(|(key, mark, is_its)| {
            let form = if is_its { all.next() } else { None };
            (key, (mark, form))
        });
        let mut before: HashMap<Key, (ContentHash, Option<T>)> = before.collect();
        let mut now = Vec::with_capacity(count);
        self.bytes = 0;
        let is_known = table.show_labelled("", labels, |key, mark, body| {
            self.bytes += body.text_len();
            let known = before.remove(key).filter(|(known, _)| *known == mark);
            let form = known.map_or_else(|| read(key, body), |(_, form)| form);
            now.push((key.clone(), mark, form.filter(|form| is_its(key, form))));
        });
        now.sort_by(|(a, ..), (b, ..)| a.cmp(b));
        for (key, mark, form) in now {
            self.marks.push((key, mark, form.is_some()));
            self.all.extend(form);
        }
        is_known
    }

    pub fn all(&self) -> &[T] {
        &self.all
    }

    /// The bytes of the JSON of all of them.
    pub fn bytes(&self) -> usize {
        self.bytes
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use serde::{Deserialize, Deserializer};
    use serde_json::json;

    use hawser_sync::Side;
    use kube_lang::object::{Gvk, Object};

    use super::super::{Cache, Coverage, Listed};
    use super::*;

    static PARSED: AtomicUsize = AtomicUsize::new(0);

    #[derive(Debug)]
    struct Counted(String);

    impl<'de> Deserialize<'de> for Counted {
        fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
            PARSED.fetch_add(1, Ordering::Relaxed);
            let value = serde_json::Value::deserialize(from)?;
            let data = value["data"].as_str();
            let data = data.ok_or_else(|| serde::de::Error::missing_field("data"))?;
            Ok(Self(data.to_owned()))
        }
    }

    #[test]
    fn an_object_is_parsed_once_for_a_version_and_one_that_cannot_be_read_is_left_out() {
        let cache = Cache::new();
        let side = Side::new("s");
        let kind = Arc::new(Gvk::new("", "v1", "Thing"));
        let table = cache.add(&side, &kind, &"s".into(), Coverage::default());
        let put = |name: &str, version: u64, data: serde_json::Value| {
            let object = json!({"apiVersion": "v1", "kind": "Thing", "data": data,
                "metadata": {"name": name, "uid": name, "resourceVersion": version.to_string()}});
            let object = Arc::new(Object::new(object).unwrap());
            let key = table.scope("").key(None, name);
            let listed = Listed {
                key,
                version,
                object,
            };
            table.upsert(&listed);
            listed
        };
        let forms: Forms<Counted, Vec<Arc<Counted>>> = Forms::of(&table);
        let all = || -> Vec<String> {
            let all = forms.all();
            let mut all: Vec<String> = all.iter().map(|one| one.0.clone()).collect();
            all.sort();
            all
        };
        let parsed = || PARSED.load(Ordering::Relaxed);
        assert!(all().is_empty());
        let first = put("a", 1, "one".into());
        put("b", 2, "two".into());
        assert_eq!(all(), ["one", "two"]);
        assert_eq!((all().len(), parsed()), (2, 2));
        put("a", 3, "three".into());
        assert_eq!(all(), ["three", "two"]);
        assert_eq!(parsed(), 3, "the other one is known");
        let gone = Listed {
            version: 4,
            ..first
        };
        table.delete(&gone);
        assert_eq!(all(), ["two"]);
        put("c", 5, json!(1));
        assert_eq!(all(), ["two"]);
        assert_eq!((all().len(), parsed()), (1, 4), "it is tried once");
        put("c", 6, "six".into());
        assert_eq!(all(), ["six", "two"]);
    }

    #[derive(Debug, Deserialize)]
    struct Plain {
        data: String,
    }

    #[test]
    fn objects_with_a_label_are_kept_while_they_do_not_change() {
        let cache = Cache::new();
        let side = Side::new("s");
        let kind = Arc::new(Gvk::new("", "v1", "Thing"));
        let table = cache.add(&side, &kind, &"s".into(), Coverage::default());
        let put = |name: &str, version: u64, of: &str, data: serde_json::Value| {
            let object = json!({"apiVersion": "v1", "kind": "Thing", "data": data, "metadata": {
                "name": name, "uid": name, "resourceVersion": version.to_string(), "labels": {"of": of}}});
            let object = Arc::new(Object::new(object).unwrap());
            let key = table.scope("").key(None, name);
            let listed = Listed {
                key,
                version,
                object,
            };
            table.upsert(&listed);
            listed
        };
        let labels = Labels::from([("of".to_owned(), "a".to_owned())]);
        let mut forms: LabelledForms<Plain> = LabelledForms::default();
        let mut read = || {
            let is_known = forms.refresh(&table, &labels, |_, one| one.data != "other");
            let all: Vec<String> = forms.all().iter().map(|one| one.data.clone()).collect();
            (is_known, all)
        };
        let (is_known, _) = read();
        assert!(!is_known, "the table is not complete");
        table.finish(&HashSet::new(), 1);
        put("2", 2, "a", "two".into());
        put("1", 3, "a", "one".into());
        put("3", 4, "b", "three".into());
        let broken = put("4", 5, "a", json!(4));
        put("5", 6, "a", "other".into());
        assert_eq!(read(), (true, vec!["one".to_owned(), "two".to_owned()]));
        put("2", 7, "a", "second".into());
        table.delete(&Listed {
            version: 8,
            ..broken
        });
        put("3", 9, "a", "third".into());
        let all = vec!["one".to_owned(), "second".to_owned(), "third".to_owned()];
        assert_eq!(read(), (true, all.clone()));
        assert_eq!(read(), (true, all));
    }
}
