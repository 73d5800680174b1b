//! Lists: a consistent state, in pages on request.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};

use super::aside::{Aside, SMALL};
use super::paging::{self, Token};
use super::query::{Age, Query};
use super::select::Chosen;
use super::view::View;
use crate::pieces::Pieces;
use crate::status::Status;
use crate::store::{Filter as _, Range, Snapshot, Store, Stored};

/// The time that a list waits for a revision in the future.
const PATIENCE: Duration = Duration::from_secs(3);

const TOO_OLD: &str = "The resourceVersion for the provided list is too old.";

/// The target of a list.
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
    // `resourceVersion=0` ignores the limit, as the cache of kube-apiserver does.
    let limit = query
        .number("limit")?
        .filter(|limit| *limit > 0 && !any_age);
    let limit = limit.map_or(usize::MAX, |limit| {
        usize::try_from(limit).unwrap_or(usize::MAX)
    });
    let age = query.age()?;
    let token = query.get("continue");
    let token = token.map(|text| Token::decode(text, range)).transpose()?;
    if token.is_some() && age != Age::Newest {
        return Err(Status::bad_request(
            "specifying resource version is not allowed when using continue",
        ));
    }
    let Snapshot { revision, items } = match &token {
        Some(Token {
            revision: Some(revision),
            from,
        }) => store
            .snapshot_at(range, *revision)
            .map_err(|_| paging::expired(range, from))?,
        Some(_) => store.snapshot(range),
        None => snapshot(store, range, age).await?,
    };
    let from = token.as_ref().map(|token| &token.from);
    let mut all = items
        .iter()
        .filter(|stored| from.is_none_or(|from| stored.key.place >= *from));
    let wanted = all.by_ref().filter(|stored| chosen.matches(stored));
    let page: Vec<&Arc<Stored>> = wanted.take(limit).collect();
    let mut meta = json!({"resourceVersion": revision.to_string()});
    // The remaining objects may not match the selectors. The next page shows.
    let left = if chosen.is_one(range) { 0 } else { all.count() };
    if let (Some(last), true) = (page.last(), left > 0) {
        meta["continue"] = paging::next_page(revision, range, &last.key.place).into();
        if chosen.is_everything() && !view.is_claimed() {
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
    let untold = view.untold();
    let items = page
        .into_iter()
        .map(|stored| view.item(stored, untold.as_ref()))
        .collect::<Result<_, Status>>()?;
    view.list(meta, items)
}

/// A state that is at least as new as requested.
async fn snapshot(store: &Store, range: &Range, age: Age) -> Result<Snapshot, Status> {
    match age {
        Age::Newest => Ok(store.snapshot(range)),
        Age::NotOlderThan(revision) => {
            reach(store, revision).await?;
            Ok(store.snapshot(range))
        }
        Age::Exact(revision) => {
            reach(store, revision).await?;
            store
                .snapshot_at(range, revision)
                .map_err(|status| match status.code {
                    410 => Status::expired(TOO_OLD),
                    _ => status,
                })
        }
    }
}

/// Waits for a revision in the future, for a limited time.
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
