//! The reasons why a published resource has no schema, as text for its owner.

use std::time::Duration;

use crate::publish::crd::CrdError;
use crate::publish::openapi::OpenApiError;
use crate::publish::projection::ProjectionError;
use hawser_runtime::cluster::connection::{CallError, Refusal, RequestError};
use hawser_runtime::cluster::discovery::{DiscoveryError, NEGATIVE_FOR};

/// An obstacle to a schema.
#[derive(Debug, thiserror::Error)]
pub enum SchemaError {
    #[error(
        "the service cluster does not serve {kind} in {}: install its CustomResourceDefinition, or correct spec.resource", group_in_words(.group)
    )]
    NoSuchKind { group: String, kind: String },
    #[error("the CustomResourceDefinition {0} is gone, but its kind is still listed: retrying")]
    DefinitionGone(String),
    #[error("looking for the kind on the service cluster: {0}")]
    Discovery(#[source] Box<DiscoveryError>),
    #[error(
        "some versions of {} do not answer ({versions}), so the schema is incomplete: repair their server", group_in_words(.group)
    )]
    Incomplete { group: String, versions: String },
    #[error("the CustomResourceDefinition {name} cannot be published: {source}")]
    Definition {
        name: String,
        #[source]
        source: Box<CrdError>,
    },
    #[error(
        "{kind} is not a custom resource, and cannot be published from its OpenAPI model: {source}"
    )]
    Model {
        kind: String,
        #[source]
        source: Box<OpenApiError>,
    },
    #[error("{0}")]
    Projection(#[from] ProjectionError),
    #[error(
        "the schema name {0:?} is invalid: correct spec.projection (group and plural must be in lower case)"
    )]
    Name(String),
    /// The agent lacks a right.
    #[error("the agent may not {verb} {what}: grant it this right ({message})")]
    Forbidden {
        verb: &'static str,
        what: String,
        message: String,
    },
    /// The server rejects the request as invalid.
    #[error("{what} was refused: {message}")]
    Refused { what: String, message: String },
    #[error("{what}: {source}")]
    Call {
        what: String,
        #[source]
        source: Box<RequestError>,
    },
}

/// The event after which another attempt may succeed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RetryPolicy {
    /// A change of the published resource or of its definition, both of which are watched.
    Change,
    /// Something without an event: retried after this time.
    Later(Duration),
    /// The server responding again: retried with the usual back-off.
    Retry,
}

/// The interval of checks whether a right was granted.
const RIGHTS_AGAIN: Duration = Duration::from_secs(30);

impl SchemaError {
    pub(super) fn of_call(
        verb: &'static str,
        what: impl Into<String>,
        error: RequestError,
    ) -> Self {
        let what = what.into();
        match error {
            RequestError::Refused(Refusal {
                code: 403, message, ..
            }) => Self::Forbidden {
                verb,
                what,
                message,
            },
            RequestError::Refused(Refusal {
                code: 400 | 413 | 422,
                message,
                ..
            }) => Self::Refused { what, message },
            source => Self::Call {
                what: format!("{verb} {what}"),
                source: Box::new(source),
            },
        }
    }

    pub(super) fn of_discovery(error: DiscoveryError) -> Self {
        match error {
            DiscoveryError::Ask { path, source } if source.code() == Some(403) => {
                Self::of_call("get", path, *source)
            }
            other => Self::Discovery(Box::new(other)),
        }
    }

    /// Whether a guard refused to send the request.
    pub fn is_withheld(&self) -> bool {
        let Self::Call { source, .. } = self else {
            return false;
        };
        matches!(**source, RequestError::Call(CallError::Withheld(_)))
    }

    /// The reason of the condition.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::NoSuchKind { .. } | Self::DefinitionGone(_) => "KindNotFound",
            Self::Discovery(_) | Self::Incomplete { .. } => "DiscoveryFailed",
            Self::Definition { .. } | Self::Model { .. } => "DefinitionNotUsable",
            Self::Projection(_) | Self::Name(_) => "ProjectionInvalid",
            Self::Forbidden { .. } => "Forbidden",
            Self::Refused { .. } => "SchemaRefused",
            Self::Call { .. } => "NoAnswer",
        }
    }

    pub fn retry_policy(&self) -> RetryPolicy {
        match self {
            Self::NoSuchKind { .. } | Self::DefinitionGone(_) => RetryPolicy::Later(NEGATIVE_FOR),
            Self::Definition { .. } | Self::Projection(_) | Self::Name(_) => RetryPolicy::Change,
            Self::Forbidden { .. } | Self::Refused { .. } | Self::Model { .. } => {
                RetryPolicy::Later(RIGHTS_AGAIN)
            }
            Self::Call { source, .. } => match &**source {
                // The server set this time.
                RequestError::Call(CallError::Held(pause)) => RetryPolicy::Later(*pause),
                _ => RetryPolicy::Retry,
            },
            Self::Discovery(_) | Self::Incomplete { .. } => RetryPolicy::Retry,
        }
    }
}

fn group_in_words(group: &str) -> String {
    if group.is_empty() {
        "the core group".to_owned()
    } else {
        format!("group {group}")
    }
}
