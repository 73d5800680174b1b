//! The objects of a table parsed into a Rust type, once for each version.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use serde::de::DeserializeOwned;

use hawser_sync::{Fingerprint, Key};

use super::Table;

/// An object that cannot be read as its type.
#[derive(Debug, thiserror::Error)]
#[error("{key} cannot be read")]
pub struct FormError {
    key: Key,
    #[source]
    source: serde_json::Error,
}

/// All objects of a table as `T`, in a collection that is rebuilt after a change of the table.
pub struct Forms<T, All> {
    table: Arc<Table>,
    state: Mutex<FormsState<T, All>>,
}

struct FormsState<T, All> {
    forms: HashMap<Key, Form<T>>,
    /// The collection, and the revision of the table that it was built from.
    all: Option<(u64, All)>,
}

/// An object as `T`, and the mark of the text that it was parsed from.
type Form<T> = ((u64, Fingerprint), Arc<T>);

impl<T: DeserializeOwned, All: FromIterator<Arc<T>> + Clone> Forms<T, All> {
    pub fn of(table: &Arc<Table>) -> Self {
        let state = FormsState {
            forms: HashMap::new(),
            all: None,
        };
        Self {
            table: Arc::clone(table),
            state: Mutex::new(state),
        }
    }

    /// All objects as they are now.
    pub fn all(&self) -> Result<All, FormError> {
        let mut state = self.state.lock();
        if let Some((revision, all)) = &state.all
            && *revision == self.table.revision()
        {
            return Ok(all.clone());
        }
        let mut before = std::mem::take(&mut state.forms);
        let mut failed = None;
        let mut forms = HashMap::with_capacity(before.len());
        let revision = self.table.show(|key, mark, body| {
            let known = before.remove(key).filter(|(known, _)| *known == mark);
            let form = match known {
                Some((_, form)) => Ok(form),
                None => serde_json::from_slice(&body.text()).map(Arc::new),
            };
            match form {
                Ok(form) => {
                    forms.insert(key.clone(), (mark, form));
                }
                Err(source) => {
                    let key = key.clone();
                    failed = Some(FormError { key, source });
                }
            }
        });
        state.forms = forms;
        if let Some(failed) = failed {
            return Err(failed);
        }
        let all: All = state
            .forms
            .values()
            .map(|(_, form)| Arc::clone(form))
            .collect();
        state.all = Some((revision, all.clone()));
        Ok(all)
    }
}

#[cfg(test)]
mod tests {
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
    fn an_object_is_parsed_once_for_a_version_and_one_that_cannot_be_read_is_named() {
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
            let all = forms.all().unwrap();
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
        let problem = forms.all().unwrap_err().to_string();
        assert!(problem.contains('c'), "{problem}");
        assert!(
            forms.all().is_err(),
            "it does not pass for read the next time"
        );
        put("c", 6, "six".into());
        assert_eq!(all(), ["six", "two"]);
    }
}
