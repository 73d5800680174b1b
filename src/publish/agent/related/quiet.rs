//! Finds the objects that have not changed for a moment.

use std::collections::HashMap;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use parking_lot::Mutex;
use tokio::time::Instant;

use crate::publish::related::Quiet;
use hawser_sync::Key;
use kube_lang::object::Object;

/// The time that the creator of an object is given to write its status.
pub(in crate::publish::agent) const MOMENT: Duration = Duration::from_secs(1);
/// An object that no pass asked about for this time is forgotten, at the latest after twice the time.
const KEPT: Duration = Duration::from_mins(1);

/// The time of the last change of each object that a pass asked about recently.
#[derive(Debug)]
pub(super) struct QuietTracker(Mutex<Generations>);

/// By object: its version or uid, and the time when that was first seen.
type LastChange = HashMap<(Key, Observed), (String, Instant)>;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Observed {
    Version,
    Uid,
}

/// The objects that passes asked about since the last turn, and before it. Older ones are dropped together.
#[derive(Debug)]
struct Generations {
    new: LastChange,
    old: LastChange,
    turned: Instant,
}

impl Default for QuietTracker {
    fn default() -> Self {
        Self(Mutex::new(Generations {
            new: LastChange::new(),
            old: LastChange::new(),
            turned: Instant::now(),
        }))
    }
}

impl Quiet for QuietTracker {
    fn is_quiet(&self, key: &Key, object: &Object) -> bool {
        let version = object.resource_version().unwrap_or_default();
        self.is_old((key.clone(), Observed::Version), version)
    }

    fn is_settled(&self, key: &Key, object: &Object) -> bool {
        let uid = object.uid().unwrap_or_default();
        is_long_ago(object) || self.is_old((key.clone(), Observed::Uid), uid)
    }
}

impl QuietTracker {
    fn is_old(&self, key: (Key, Observed), version: &str) -> bool {
        let mut generations = self.0.lock();
        if generations.turned.elapsed() >= KEPT {
            generations.old = std::mem::take(&mut generations.new);
            generations.turned = Instant::now();
        }
        if let Some(known) = generations.old.remove(&key) {
            generations.new.entry(key.clone()).or_insert(known);
        }
        // The entry is kept until it expires: the same pass asks again.
        if let Some((known, since)) = generations.new.get(&key)
            && known == version
        {
            return since.elapsed() >= MOMENT;
        }
        let now = (version.to_owned(), Instant::now());
        generations.new.insert(key, now);
        false
    }
}

/// Whether an object was created so long ago that differences between clocks do not matter.
fn is_long_ago(object: &Object) -> bool {
    let created = object.as_value().pointer("/metadata/creationTimestamp");
    let created: Option<Timestamp> = created.and_then(|time| time.as_str()?.parse().ok());
    created.is_some_and(|created| {
        Timestamp::now().duration_since(created) > SignedDuration::from_hours(1)
    })
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::json;

    use super::*;
    use hawser_sync::{Scope, Side};
    use kube_lang::object::Gvk;

    #[tokio::test(start_paused = true)]
    async fn an_object_is_quiet_a_second_after_its_last_change() {
        let kind = Arc::new(Gvk::new("g", "v1", "Gadget"));
        let key = Scope::new(&Side::new("kcp"), &kind, "c").key(None, "a");
        let object = |version: &str| {
            Object::new(json!({"metadata": {"name": "a", "resourceVersion": version}})).unwrap()
        };
        let quiet = QuietTracker::default();
        assert!(!quiet.is_quiet(&key, &object("1")));
        tokio::time::advance(MOMENT / 2).await;
        assert!(!quiet.is_quiet(&key, &object("2")));
        tokio::time::advance(MOMENT / 2).await;
        assert!(!quiet.is_quiet(&key, &object("2")));
        tokio::time::advance(MOMENT / 2).await;
        assert!(quiet.is_quiet(&key, &object("2")));
    }

    #[tokio::test(start_paused = true)]
    async fn an_object_is_settled_a_second_after_it_was_first_seen_though_it_changes() {
        let kind = Arc::new(Gvk::new("g", "v1", "Gadget"));
        let key = Scope::new(&Side::new("kcp"), &kind, "c").key(None, "a");
        let object = |uid: &str, version: &str, created: &str| {
            let metadata = json!({"name": "a", "uid": uid, "resourceVersion": version,
                "creationTimestamp": created});
            Object::new(json!({ "metadata": metadata })).unwrap()
        };
        let quiet = QuietTracker::default();
        let now = Timestamp::now().to_string();
        assert!(!quiet.is_settled(&key, &object("one", "1", &now)));
        tokio::time::advance(MOMENT).await;
        let changed = object("one", "2", &now);
        assert!(!quiet.is_quiet(&key, &changed));
        assert!(quiet.is_settled(&key, &changed));
        assert!(!quiet.is_settled(&key, &object("another", "3", &now)));
        assert!(quiet.is_settled(&key, &object("old", "4", "2020-01-01T00:00:00Z")));
    }

    #[tokio::test(start_paused = true)]
    async fn of_many_fresh_objects_each_becomes_quiet_and_is_forgotten() {
        let kind = Arc::new(Gvk::new("g", "v1", "Gadget"));
        let scope = Scope::new(&Side::new("kcp"), &kind, "c");
        let object = json!({"metadata": {"name": "a", "resourceVersion": "1"}});
        let object = Object::new(object).unwrap();
        let quiet = QuietTracker::default();
        let ask_all = |wanted: bool| {
            for i in 0..30_000 {
                let key = scope.key(None, &i.to_string());
                assert_eq!(quiet.is_quiet(&key, &object), wanted, "{i}");
            }
        };
        ask_all(false);
        tokio::time::advance(MOMENT).await;
        ask_all(true);
        tokio::time::advance(KEPT).await;
        ask_all(true);
        for _ in 0..2 {
            tokio::time::advance(KEPT).await;
            quiet.is_quiet(&scope.key(None, "other"), &object);
        }
        let generations = quiet.0.lock();
        assert_eq!((generations.new.len(), generations.old.len()), (1, 0));
    }
}
