//! When the APIs of exports are established: at once or, with delays, a while after a binding first needs a schema. An
//! established API stays so, even without a binding.

use parking_lot::Mutex;
use std::time::Duration;

use serde_json::json;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until};

use super::{objects, tree};
use crate::status::Status;
use crate::store::{Key, Name, Range, Read, Table, Tx};
use kube_lang::object::{Gvk, Object};

/// The cluster that records the established schemas. It has no endpoint.
const CLUSTER: &str = "system:bound-crds";

/// Delayed work.
pub(super) enum Later {
    Establish(Key),
    /// Claim labels are set on existing objects.
    Label(Name),
}

/// The simulated delays of kcp's controllers, and their pending work.
#[derive(Default)]
pub(super) struct Delays {
    /// The delay until a new API is established.
    whole: Duration,
    due: Mutex<Vec<(Instant, Later)>>,
    more: Notify,
}

impl Delays {
    pub(super) fn new(whole: Duration) -> Self {
        Self {
            whole,
            ..Self::default()
        }
    }

    pub(super) fn are_none(&self) -> bool {
        self.whole.is_zero()
    }

    /// The delay of claims and workspaces.
    pub(super) fn short(&self) -> Duration {
        self.whole / 5
    }

    pub(super) fn later(&self, what: Later) {
        let delay = match what {
            Later::Establish(_) => self.whole,
            Later::Label(_) => self.short(),
        };
        self.due.lock().push((Instant::now() + delay, what));
        self.more.notify_one();
    }

    /// Waits for the next due work. For a single caller.
    pub(super) async fn next(&self) -> Later {
        loop {
            let first = self.due.lock().iter().map(|(at, _)| *at).min();
            match first {
                None => self.more.notified().await,
                Some(at) => tokio::select! {
                    () = sleep_until(at) => {
                        let mut due = self.due.lock();
                        if let Some(place) = due.iter().position(|(then, _)| *then == at) {
                            return due.swap_remove(place).1;
                        }
                    }
                    () = self.more.notified() => {}
                },
            }
        }
    }
}

/// An API of an export that a binding needs: its resource, and the uid of its schema.
pub(super) struct Needed<'a> {
    pub(super) table: Table,
    pub(super) schema: &'a str,
    /// A built-in API of the server.
    pub(super) own: bool,
}

/// Whether an API is established. If no binding needed it before, the delay begins now.
pub(super) fn establish(
    tx: &mut Tx<'_>,
    delays: &Delays,
    needed: &Needed<'_>,
) -> Result<bool, Status> {
    let table = &needed.table;
    let name = format!("{}.{}", needed.schema, table.identity);
    let key = tree::ESTABLISHED.key(CLUSTER, "", &name);
    if let Some(stored) = tx.get(&key) {
        return Ok(is_established(stored.cached()));
    }
    let at_once = needed.own || delays.are_none();
    let gvk = Gvk::new(&tree::ESTABLISHED.group, "v1", "EstablishedSchema");
    let mut object = objects::new(tx, &gvk, &key);
    let of = json!([&*table.group, &*table.resource, &*table.identity]);
    object.root_mut().insert("of".into(), of);
    object
        .root_mut()
        .insert("established".into(), at_once.into());
    tx.put(&key, object)?;
    if !at_once {
        delays.later(Later::Establish(key));
    }
    Ok(at_once)
}

/// Ends the wait for an API.
pub(super) fn finish(tx: &mut Tx<'_>, key: &Key) -> Result<(), Status> {
    let Some(stored) = tx.get(key) else {
        return Ok(());
    };
    let mut object = stored.object();
    object.root_mut().insert("established".into(), true.into());
    tx.put(key, object)
}

/// Whether a resource was ever established, in any version of its schema.
pub(super) fn is_served(read: &dyn Read, table: &Table) -> bool {
    let of = json!([&*table.group, &*table.resource, &*table.identity]);
    let records = read.list(&Range::in_cluster(&tree::ESTABLISHED, CLUSTER));
    records.iter().any(|stored| {
        let record = stored.cached();
        record.root().get("of") == Some(&of) && is_established(record)
    })
}

fn is_established(record: &Object) -> bool {
    record.root().get("established") == Some(&true.into())
}
