//! What a control plane serves: names, scope, versions and subresources of a kind.
//!
//! Only the group that is asked for is looked at, so that an extension server of another group that
//! does not answer is never in the way. What is there is remembered until it is declared outdated;
//! what is not there is asked for again a few seconds later.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use futures::future::join_all;
use parking_lot::Mutex;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::Value;
use tokio::sync::Semaphore;
use tokio::time::Instant;

use super::connection::{AskError, Call, Connection};

mod group;

use group::Group;
pub use group::{Kind, KindVersion};

/// How long a negative answer holds.
pub const NEGATIVE_FOR: Duration = Duration::from_secs(5);
/// What may stand in a segment of a path as it is. Groups are what somebody wrote into a manifest.
const SEGMENT: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.');
/// How long those who waited for the same question share a failure, so that they do not all wait for
/// a server that is out of reach one after the other.
const FAILURE_FOR: Duration = Duration::from_secs(1);

/// Why it is not known what is served.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DiscoveryError {
    #[error("asking what {path} serves: {source}")]
    Ask { path: String, source: Box<AskError> },
    #[error("the answer of {path} cannot be read: {problem}")]
    Unreadable { path: String, problem: String },
    /// The kind may be one of the versions that did not answer.
    #[error("{kind} is not in the versions of group {group:?} that answered; {failures}")]
    Incomplete {
        group: String,
        kind: String,
        failures: String,
    },
}

/// What one control plane serves, as far as it was asked for. Shared by all who ask.
pub struct Discovery {
    connection: Connection,
    groups: Mutex<HashMap<String, Arc<Slot>>>,
    /// The document of models takes tens of megabytes while it is read: one at a time.
    models: Semaphore,
    negative_for: Duration,
}

/// A tokio lock, because it is held while the group is asked for: everybody else who needs the same
/// group waits for that one answer.
type Slot = tokio::sync::Mutex<Option<Known>>;

struct Known {
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

    /// The kind of this name, if it is served.
    pub async fn kind(&self, group: &str, kind: &str) -> Result<Option<Kind>, DiscoveryError> {
        self.find(group, kind, |group| group.kind(kind)).await
    }

    /// The kind whose objects are found below this plural in this version, if it is served.
    pub async fn resource(
        &self,
        group: &str,
        version: &str,
        plural: &str,
    ) -> Result<Option<Kind>, DiscoveryError> {
        self.find(group, plural, |group| group.resource(version, plural))
            .await
    }

    /// Forgets what is known of a group: something in it has changed.
    pub fn invalidate(&self, group: &str) {
        self.groups.lock().remove(group);
    }

    /// The document with the models of all types. Large: read it, then drop it.
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
        if let Some(Known { answer, since }) = &*known {
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
        *known = Some(Known {
            answer: answer.clone(),
            since: Instant::now(),
        });
        drop(known);
        let group = answer?;
        settle(find(&group), &group, name, what)
    }

    /// Asks for a group: one request for its versions, and one a version.
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
    /// The status of the answer, where there was one.
    pub fn code(&self) -> Option<u16> {
        match self {
            Self::Ask { source, .. } => source.code(),
            Self::Unreadable { .. } | Self::Incomplete { .. } => None,
        }
    }
}

/// Not found is an answer only if every version answered.
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
