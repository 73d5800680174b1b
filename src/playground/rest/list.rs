//! Lists: a consistent state, in pages if asked.

use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::aside::{Aside, SMALL};
use super::query::{Age, Query};
use super::select::Chosen;
use super::view::View;
use crate::playground::pieces::Pieces;
use crate::playground::status::Status;
use crate::playground::store::{Filter as _, Place, Range, Snapshot, Store, Stored};

/// How long a list waits for a revision that is still to come.
const PATIENCE: Duration = Duration::from_secs(3);

const EXPIRED: &str = "The provided continue parameter is too old to display a consistent list result. You must start a new list without the continue parameter.";

/// Where the next page begins.
#[derive(Debug, Serialize, Deserialize)]
struct Token {
    revision: u64,
    /// The last object of the page before: cluster, namespace, name.
    after: (String, String, String),
}

/// What a list is of.
pub(super) struct Listing<'a> {
    pub(super) range: &'a Range,
    pub(super) chosen: &'a Chosen,
    pub(super) view: &'a View,
    pub(super) query: &'a Query<'a>,
}

/// Answers a list.
pub(super) async fn list(
    store: &Store,
    asked: &Listing<'_>,
    aside: &Aside,
) -> Result<Pieces, Status> {
    let Listing {
        range,
        chosen,
        view,
        query,
    } = asked;
    let any_age = query.get("resourceVersion") == Some("0");
    // What may be of any age comes out of a cache, which gives all of it.
    let limit = query
        .number("limit")?
        .filter(|limit| *limit > 0 && !any_age);
    let limit = limit.map_or(usize::MAX, |limit| {
        usize::try_from(limit).unwrap_or(usize::MAX)
    });
    let age = query.age()?;
    let token = query.get("continue").map(Token::decode).transpose()?;
    if token.is_some() && age != Age::Newest {
        return Err(Status::bad_request(
            "specifying resource version is not allowed when using continue",
        ));
    }
    let Snapshot { revision, items } = match &token {
        Some(token) => store
            .snapshot_at(range, token.revision)
            .map_err(|_| Status::expired(EXPIRED))?,
        None => snapshot(store, range, age).await?,
    };
    let after = token.as_ref().map(Token::place);
    let mut wanted = items
        .iter()
        .filter(|stored| after.as_ref().is_none_or(|after| stored.key.place > *after))
        .filter(|stored| chosen.matches(stored));
    let page: Vec<&Arc<Stored>> = wanted.by_ref().take(limit).collect();
    let mut meta = json!({"resourceVersion": revision.to_string()});
    let left = wanted.count();
    if let (Some(last), true) = (page.last(), left > 0) {
        meta["continue"] = next_page(revision, &last.key.place).into();
        if chosen.is_everything() {
            meta["remainingItemCount"] = left.into();
        }
    }
    view.complete(&mut meta);
    let size: usize = page.iter().map(|stored| stored.size()).sum();
    if view.is_quick() || size < SMALL {
        return document(view, &meta, page);
    }
    let (view, page) = (
        View::clone(view),
        page.into_iter().cloned().collect::<Vec<_>>(),
    );
    aside
        .run(move || document(&view, &meta, &page))
        .await
        .flatten()
}

fn document<'a>(
    view: &View,
    meta: &Value,
    page: impl IntoIterator<Item = &'a Arc<Stored>>,
) -> Result<Pieces, Status> {
    let bodies = page
        .into_iter()
        .map(|stored| view.item(stored))
        .collect::<Result<_, Status>>()?;
    view.list(meta, bodies)
}

/// What leads to the page after an object.
pub(super) fn next_page(revision: u64, last: &Place) -> String {
    Token::after(revision, last).encode()
}

/// A state of the age that was asked for.
async fn snapshot(store: &Store, range: &Range, age: Age) -> Result<Snapshot, Status> {
    match age {
        Age::Newest => Ok(store.snapshot(range)),
        Age::NotOlderThan(revision) => {
            reach(store, revision).await?;
            Ok(store.snapshot(range))
        }
        Age::Exact(revision) => {
            reach(store, revision).await?;
            store.snapshot_at(range, revision)
        }
    }
}

/// Waits a little for a revision that has not come yet.
pub(super) async fn reach(store: &Store, revision: u64) -> Result<(), Status> {
    if store.revision() >= revision {
        return Ok(());
    }
    let mut seen = store.watch_revision();
    let reached = seen.wait_for(|current| *current >= revision);
    match tokio::time::timeout(PATIENCE, reached).await {
        Ok(Ok(_)) => Ok(()),
        _ => Err(Status::too_new(revision, store.revision())),
    }
}

impl Token {
    fn after(revision: u64, place: &Place) -> Self {
        let text = |name: &str| name.to_owned();
        Self {
            revision,
            after: (
                text(&place.cluster),
                text(&place.namespace),
                text(&place.name),
            ),
        }
    }

    fn place(&self) -> Place {
        let (cluster, namespace, name) = &self.after;
        Place {
            cluster: cluster.as_str().into(),
            namespace: namespace.as_str().into(),
            name: name.as_str().into(),
        }
    }

    fn encode(&self) -> String {
        let json = json!({"revision": self.revision, "after": self.after});
        URL_SAFE_NO_PAD.encode(json.to_string())
    }

    fn decode(text: &str) -> Result<Self, Status> {
        let decoded = URL_SAFE_NO_PAD.decode(text).ok();
        decoded
            .and_then(|json| serde_json::from_slice(&json).ok())
            .ok_or_else(|| {
                Status::bad_request("continue key is not valid: it is none that this server gave")
            })
    }
}
