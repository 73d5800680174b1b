//! Discovery: the names, scope, versions and subresources of the kinds that a control plane serves.
//!
//! Only the requested group is discovered, so an extension server of another group that does not respond is never in
//! the way. Positive answers are kept until they are invalidated; negative answers expire after a few seconds.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use futures::future::join_all;
use parking_lot::Mutex;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::Value;
use tokio::sync::Semaphore;
use tokio::time::Instant;

use super::connection::{Call, Connection, RequestError};

mod group;

use group::Group;
pub use group::{Kind, KindVersion};

/// The lifetime of a negative answer.
pub const NEGATIVE_FOR: Duration = Duration::from_secs(5);
/// The characters that need no escaping in a path segment. Groups come from manifests.
const SEGMENT: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.');
/// The time for which waiters of one question share a failure, so that they do not wait one after the other for a
/// server that is out of reach.
const FAILURE_FOR: Duration = Duration::from_secs(1);

/// The reason why discovery failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DiscoveryError {
    #[error("discovering {path}: {source}")]
    Ask {
        path: String,
        source: Box<RequestError>,
    },
    #[error("the response of {path} cannot be read: {problem}")]
    Unreadable { path: String, problem: String },
    /// The kind may be in one of the versions that did not respond.
    #[error("{kind} is not in the versions of group {group:?} that answered; {failures}")]
    Incomplete {
        group: String,
        kind: String,
        failures: String,
    },
}

/// The discovered groups of one control plane. Shared by all callers.
pub struct Discovery {
    connection: Connection,
    groups: Mutex<HashMap<String, Arc<GroupSlot>>>,
    /// The document of models takes tens of megabytes while it is read: one at a time.
    models: Semaphore,
    negative_for: Duration,
}

/// A tokio lock, because it is held during the request for the group: other callers wait for that one answer.
type GroupSlot = tokio::sync::Mutex<Option<CachedGroup>>;

struct CachedGroup {
    answer: Result<Arc<Group>, DiscoveryError>,
    since: Instant,
}

impl Discovery {
    pub fn new(connection: Connection) -> Self {
        Self {
            connection,
            groups: Mutex::default(),
            models: Semaphore::new(1),
            negative_for: NEGATIVE_FOR,
        }
    }

    /// Finds a kind by its name, if it is served.
    pub async fn kind(&self, group: &str, kind: &str) -> Result<Option<Kind>, DiscoveryError> {
        self.find(group, kind, |group| group.kind(kind)).await
    }

    /// Finds the kind of a plural in a version, if it is served.
    pub async fn resource(
        &self,
        group: &str,
        version: &str,
        plural: &str,
    ) -> Result<Option<Kind>, DiscoveryError> {
        self.find(group, plural, |group| group.resource(version, plural))
            .await
    }

    /// Forgets a group, because something in it has changed.
    pub fn invalidate(&self, group: &str) {
        self.groups.lock().remove(group);
    }

    /// The OpenAPI document with the models of all types. Large: read it, then drop it.
    pub async fn models(&self) -> Result<Value, DiscoveryError> {
        let _turn = self.models.acquire().await;
        self.ask("/openapi/v2").await
    }

    async fn find<T>(
        &self,
        name: &str,
        what: &str,
        find: impl Fn(&Group) -> Option<T>,
    ) -> Result<Option<T>, DiscoveryError> {
        let slot = Arc::clone(self.groups.lock().entry(name.to_owned()).or_default());
        let mut known = slot.lock().await;
        if let Some(CachedGroup { answer, since }) = &*known {
            match answer {
                Ok(group) => {
                    let fresh = since.elapsed() < self.negative_for;
                    let found = find(group);
                    if fresh || found.is_some() && group.failures.is_empty() {
                        return settle(found, group, name, what);
                    }
                }
                Err(error) if since.elapsed() < FAILURE_FOR => return Err(error.clone()),
                Err(_) => {}
            }
        }
        let answer = self.group(name).await.map(Arc::new);
        *known = Some(CachedGroup {
            answer: answer.clone(),
            since: Instant::now(),
        });
        drop(known);
        let group = answer?;
        settle(find(&group), &group, name, what)
    }

    /// Discovers a group: one request for its versions, and one for each version.
    async fn group(&self, name: &str) -> Result<Group, DiscoveryError> {
        let below = utf8_percent_encode(name, SEGMENT);
        let (versions, preferred) = if name.is_empty() {
            (vec!["v1".to_owned()], "v1".to_owned())
        } else {
            match self.ask(&format!("/apis/{below}")).await {
                Ok(document) => group::versions(&document),
                Err(error) if error.code() == Some(404) => return Ok(Group::default()),
                Err(error) => return Err(error),
            }
        };
        let mut group = Group::new(name, preferred);
        let asked = versions.into_iter().map(async |version| {
            let path = match name {
                "" => format!("/api/{version}"),
                _ => format!("/apis/{below}/{version}"),
            };
            let answer = self.ask(&path).await;
            (version, path, answer)
        });
        for (version, path, answer) in join_all(asked).await {
            match answer {
                Ok(document) => group
                    .add(version, &document)
                    .map_err(|problem| DiscoveryError::Unreadable { path, problem })?,
                // It went while we asked.
                Err(error) if error.code() == Some(404) => {}
                Err(error) => group.failures.push((version, error.to_string())),
            }
        }
        Ok(group)
    }

    async fn ask(&self, path: &str) -> Result<Value, DiscoveryError> {
        let answer = self.connection.ask(Call::get(path)).await;
        answer.map_err(|source| DiscoveryError::Ask {
            path: path.to_owned(),
            source: Box::new(source),
        })
    }
}

impl DiscoveryError {
    /// The status of the response, if there was one.
    pub fn code(&self) -> Option<u16> {
        match self {
            Self::Ask { source, .. } => source.code(),
            Self::Unreadable { .. } | Self::Incomplete { .. } => None,
        }
    }
}

/// Not found is an answer only if every version responded.
fn settle<T>(
    found: Option<T>,
    group: &Group,
    name: &str,
    what: &str,
) -> Result<Option<T>, DiscoveryError> {
    if found.is_some() || group.failures.is_empty() {
        return Ok(found);
    }
    let failures = group.failures.iter().map(|(_, error)| error.as_str());
    Err(DiscoveryError::Incomplete {
        group: name.to_owned(),
        kind: what.to_owned(),
        failures: failures.collect::<Vec<_>>().join("; "),
    })
}

#[cfg(test)]
mod tests;
