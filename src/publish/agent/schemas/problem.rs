//! Why a published resource has no schema, in words for its owner.

use std::time::Duration;

use crate::publish::crd::CrdError;
use crate::publish::openapi::OpenApiError;
use crate::publish::projection::ProjectionError;
use hawser_runtime::cluster::connection::{AskError, CallError, Refusal};
use hawser_runtime::cluster::discovery::{DiscoveryError, NEGATIVE_FOR};

/// What is in the way of a schema.
#[derive(Debug, thiserror::Error)]
pub enum SchemaError {
    #[error(
        "the service cluster serves no {kind} in {}: install its CustomResourceDefinition, or \
         correct spec.resource", group_in_words(.group)
    )]
    NoSuchKind { group: String, kind: String },
    #[error(
        "the CustomResourceDefinition {0} is gone while its kind is still listed: looking again"
    )]
    DefinitionGone(String),
    #[error("looking for the kind on the service cluster: {0}")]
    Discovery(#[source] Box<DiscoveryError>),
    #[error(
        "some versions of {} do not answer ({versions}), so that the type cannot be told in full: \
         mend their server", group_in_words(.group)
    )]
    Incomplete { group: String, versions: String },
    #[error("the CustomResourceDefinition {name} cannot be published: {source}")]
    Definition {
        name: String,
        #[source]
        source: Box<CrdError>,
    },
    #[error("{kind} is no custom resource, and cannot be published from its model: {source}")]
    Model {
        kind: String,
        #[source]
        source: Box<OpenApiError>,
    },
    #[error("{0}")]
    Projection(#[from] ProjectionError),
    #[error(
        "the schema would be called {0:?}, which is no valid name: correct spec.projection (group and \
         plural must be in lower case)"
    )]
    Name(String),
    /// The one who asks lacks a right.
    #[error("the agent may not {verb} {what}: grant it this right ({message})")]
    Forbidden {
        verb: &'static str,
        what: String,
        message: String,
    },
    /// The server takes the request for invalid.
    #[error("{what} was refused: {message}")]
    Refused { what: String, message: String },
    #[error("{what}: {source}")]
    Call {
        what: String,
        #[source]
        source: Box<AskError>,
    },
}

/// What would have to happen for another attempt to end differently.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hope {
    /// A change of the published resource or of its definition, both of which are watched.
    Change,
    /// Something that nobody tells of: look again after this time.
    Later(Duration),
    /// A server answering again: try with the usual back-off.
    Retry,
}

/// How often is looked whether a right was granted.
const RIGHTS_AGAIN: Duration = Duration::from_secs(30);

impl SchemaError {
    pub(super) fn of_call(verb: &'static str, what: impl Into<String>, error: AskError) -> Self {
        let what = what.into();
        match error {
            AskError::Refused(Refusal {
                code: 403, message, ..
            }) => Self::Forbidden {
                verb,
                what,
                message,
            },
            AskError::Refused(Refusal {
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

    /// One word for programs, as the reason of a condition.
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

    pub fn hope(&self) -> Hope {
        match self {
            Self::NoSuchKind { .. } | Self::DefinitionGone(_) => Hope::Later(NEGATIVE_FOR),
            Self::Definition { .. } | Self::Projection(_) | Self::Name(_) => Hope::Change,
            Self::Forbidden { .. } | Self::Refused { .. } | Self::Model { .. } => {
                Hope::Later(RIGHTS_AGAIN)
            }
            Self::Call { source, .. } => match &**source {
                // The server named the time itself.
                AskError::Call(CallError::Held(pause)) => Hope::Later(*pause),
                _ => Hope::Retry,
            },
            Self::Discovery(_) | Self::Incomplete { .. } => Hope::Retry,
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
