//! Which objects have not been changed for a moment.

use std::collections::HashMap;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

use crate::publish::related::Quiet;
use hawser_sync::Key;
use kube_lang::object::Object;

/// How long whoever made an object is given to write its status.
const MOMENT: Duration = Duration::from_secs(1);
/// How many objects are watched at a time; they are looked at again within seconds.
const WATCHED: usize = 10_000;

/// Since when each object is what it is, for those that were asked about lately.
#[derive(Debug, Default)]
pub(super) struct Quieting(Mutex<HashMap<Key, (String, Instant)>>);

impl Quiet for Quieting {
    fn is_quiet(&self, key: &Key, object: &Object) -> bool {
        let version = object.resource_version().unwrap_or_default();
        let mut seen = self.0.lock();
        if let Some((known, since)) = seen.get(key)
            && known == version
        {
            // It stays until it is forgotten: the same pass asks again.
            return since.elapsed() >= MOMENT;
        }
        if seen.len() >= WATCHED {
            seen.retain(|_, (_, since)| since.elapsed() < 10 * MOMENT);
        }
        seen.insert(key.clone(), (version.to_owned(), Instant::now()));
        false
    }
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
        let quieting = Quieting::default();
        assert!(!quieting.is_quiet(&key, &object("1")));
        tokio::time::advance(MOMENT / 2).await;
        assert!(!quieting.is_quiet(&key, &object("2")));
        tokio::time::advance(MOMENT / 2).await;
        assert!(!quieting.is_quiet(&key, &object("2")));
        tokio::time::advance(MOMENT / 2).await;
        assert!(quieting.is_quiet(&key, &object("2")));
    }
}
