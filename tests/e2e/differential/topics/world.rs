//! What happens by itself: events in two views, garbage collection, options of deletion.

use super::super::step::{Script, Topic, get, script};

pub(super) fn topic() -> Topic {
    Topic::new("world", all())
}

fn all() -> Script {
    script![get("/api/v1/namespaces/$ns/events/missing")]
}
