//! The parsed objects that somebody holds. All who read an object at the same time share one tree.

use std::collections::HashMap;
use std::sync::{Arc, Weak};

use parking_lot::Mutex;

use hawser_sync::Key;
use kube_lang::object::Object;

/// Room for this many trees is kept.
const LEAST: usize = 16;

/// Parsed objects by key. It holds none of them, so its size follows the passes that run, not the objects of the table.
#[derive(Default)]
pub(super) struct Trees(Mutex<HashMap<Key, Weak<Object>>>);

impl Trees {
    pub(super) fn get(&self, key: &Key) -> Option<Arc<Object>> {
        self.0.lock().get(key)?.upgrade()
    }

    /// Notes the parsed form of what the table keeps of an object.
    pub(super) fn note(&self, key: &Key, object: &Arc<Object>) {
        let mut trees = self.0.lock();
        if trees.len() == trees.capacity() {
            trees.retain(|_, tree| tree.strong_count() > 0);
            // Twice the room, so that the next search for those that nobody holds is as far away.
            let held = trees.len();
            trees.shrink_to(held + held.max(LEAST));
            trees.reserve(held.max(LEAST));
        }
        trees.insert(key.clone(), Arc::downgrade(object));
    }

    /// The table keeps something else of this object from now on.
    pub(super) fn forget(&mut self, key: &Key) {
        self.0.get_mut().remove(key);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use hawser_sync::{Scope, Side};
    use kube_lang::object::Gvk;

    #[test]
    fn only_what_is_held_takes_room() {
        let scope = Scope::new(&Side::new("s"), &Arc::new(Gvk::new("", "v1", "Thing")), "");
        let make = |name: usize| {
            let value = json!({"metadata": {"name": name.to_string()}});
            let object = Arc::new(Object::new(value).unwrap());
            (scope.key(None, &name.to_string()), object)
        };
        let mut trees = Trees::default();
        let mut held: Vec<_> = (0..1_000).map(make).collect();
        for (key, object) in &held {
            trees.note(key, object);
        }
        let known = |trees: &Trees, held: &[(Key, _)]| {
            let known = held.iter().filter(|(key, _)| trees.get(key).is_some());
            known.count()
        };
        assert_eq!(known(&trees, &held), 1_000);
        trees.forget(&held[0].0);
        assert_eq!(known(&trees, &held), 999);
        held.truncate(10);
        for (key, object) in (1_000..10_000).map(make) {
            trees.note(&key, &object);
        }
        assert_eq!(known(&trees, &held), 9);
        assert!(trees.0.lock().capacity() <= 8 * LEAST);
    }
}
