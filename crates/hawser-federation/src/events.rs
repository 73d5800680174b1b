//! Events on federated objects, with the reasons and messages of KubeFed.

use std::fmt;

use kube_lang::object::Object;

use crate::status::CopyStatus;
use crate::types::DELETE_OPTIONS;

/// The maximum length of a message in bytes, as Kubernetes limits it in new events.
const LONGEST_MESSAGE: usize = 1024;

/// An event about a federated object or one of its copies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event<'a> {
    /// A request is about to be sent to a member.
    Started(Operation, CopyName<'a>),
    /// A request was refused, or its object cannot be computed.
    Failed(Operation, CopyName<'a>, &'a str),
    /// Requests were not answered in time: how many, and the limit in seconds.
    TimedOut(usize, u64),
    /// A member that is selected is not ready.
    ClusterNotReady,
    /// The table of a member is not complete.
    CachedRetrievalFailed(&'a str),
    /// Copies in these members are still there.
    WaitForRemoval(&'a [&'a str]),
    /// Copies in these members stay, because the members have not been ready for too long.
    GivenUp(&'a [&'a str]),
    ComputePlacementFailed(&'a str),
    /// There is no `FederatedNamespace` in this namespace.
    NamespaceNotFederated(&'a str),
    /// The placement names clusters that are not registered.
    UnknownClusters(&'a [&'a str]),
    EnsureFinalizerFailed(&'a str),
    /// The annotation with options for the deletion of copies cannot be read.
    InvalidDeleteOptions(&'a str),
    /// A `FederatedNamespace` is not named like its namespace.
    InvalidName,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    Create,
    Update,
    Delete,
    RemoveManagedLabel,
}

/// A message without its end if it is very long. Users' words in it, such as paths of overrides, may have any length.
pub fn shortened(message: &str) -> String {
    if message.len() <= LONGEST_MESSAGE {
        return message.to_owned();
    }
    let end = message.floor_char_boundary(LONGEST_MESSAGE - 3);
    format!("{}...", &message[..end])
}

/// The error of an event, with the status of the copy that it explains: the event is found by both.
pub fn with_status(error: impl fmt::Display, status: CopyStatus) -> String {
    format!("{error} ({})", status.as_str())
}

/// A copy, as messages name it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CopyName<'a> {
    pub kind: &'a str,
    /// `namespace/name`, or the name alone.
    pub name: String,
    pub member: &'a str,
}

/// The `type` of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Severity {
    Normal,
    Warning,
}

impl Severity {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Normal => "Normal",
            Self::Warning => "Warning",
        }
    }
}

impl Operation {
    fn as_str(self) -> &'static str {
        match self {
            Self::Create => "Create",
            Self::Update => "Update",
            Self::Delete => "Delete",
            Self::RemoveManagedLabel => "RemoveManagedLabelFrom",
        }
    }

    /// The word that begins the message of a start, and the one within the message of a failure.
    fn words(self) -> (&'static str, &'static str) {
        match self {
            Self::Create => ("Creating", "create"),
            Self::Update => ("Updating", "update"),
            Self::Delete => ("Deleting", "delete"),
            Self::RemoveManagedLabel => {
                ("Removing managed label from", "remove managed label from")
            }
        }
    }

    /// The status of a copy whose request failed.
    pub fn failed(self) -> CopyStatus {
        match self {
            Self::Create => CopyStatus::CreationFailed,
            Self::Update => CopyStatus::UpdateFailed,
            Self::Delete => CopyStatus::DeletionFailed,
            Self::RemoveManagedLabel => CopyStatus::LabelRemovalFailed,
        }
    }

    /// The status of a copy whose request was not answered in time.
    pub fn timed_out(self) -> CopyStatus {
        match self {
            Self::Create => CopyStatus::CreationTimedOut,
            Self::Update => CopyStatus::UpdateTimedOut,
            Self::Delete => CopyStatus::DeletionTimedOut,
            Self::RemoveManagedLabel => CopyStatus::LabelRemovalTimedOut,
        }
    }
}

impl<'a> CopyName<'a> {
    /// The copy of a federated object in a member. `kind` is the target's.
    pub fn of(federated: &Object, kind: &'a str, member: &'a str) -> Self {
        let name = match federated.namespace().filter(|_| kind != "Namespace") {
            Some(namespace) => format!("{namespace}/{}", federated.name()),
            None => federated.name().to_owned(),
        };
        Self { kind, name, member }
    }
}

impl fmt::Display for CopyName<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { kind, name, member } = self;
        write!(f, "{kind} {name:?} in cluster {member:?}")
    }
}

impl Event<'_> {
    pub fn severity(&self) -> Severity {
        match self {
            Self::Started(..) | Self::WaitForRemoval(_) => Severity::Normal,
            _ => Severity::Warning,
        }
    }

    pub fn reason(&self) -> String {
        match self {
            Self::Started(operation, _) => format!("{}InCluster", operation.as_str()),
            Self::Failed(operation, ..) => format!("{}InClusterFailed", operation.as_str()),
            Self::TimedOut(..) => "OperationTimeoutError".to_owned(),
            Self::ClusterNotReady => CopyStatus::ClusterNotReady.as_str().to_owned(),
            Self::CachedRetrievalFailed(_) => CopyStatus::CachedRetrievalFailed.as_str().to_owned(),
            Self::WaitForRemoval(_) => "WaitForRemovalInCluster".to_owned(),
            Self::GivenUp(_) => "RemovalGivenUp".to_owned(),
            Self::ComputePlacementFailed(_) => "ComputePlacementFailed".to_owned(),
            Self::NamespaceNotFederated(_) => "NamespaceNotFederated".to_owned(),
            Self::UnknownClusters(_) => "UnknownClusters".to_owned(),
            Self::EnsureFinalizerFailed(_) => "EnsureFinalizerError".to_owned(),
            Self::InvalidDeleteOptions(_) => "InvalidDeleteOptions".to_owned(),
            Self::InvalidName => "InvalidName".to_owned(),
        }
    }
}

/// The message.
impl fmt::Display for Event<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Started(operation, copy) => write!(f, "{} {copy}", operation.words().0),
            Self::Failed(operation, copy, error) => {
                write!(f, "Failed to {} {copy}: {error}", operation.words().1)
            }
            Self::TimedOut(count, seconds) => {
                write!(f, "Failed to finish {count} operations in {seconds}s")
            }
            Self::ClusterNotReady => f.write_str("Cluster not ready"),
            Self::CachedRetrievalFailed(error) => {
                write!(f, "Failed to retrieve cached cluster object: {error}")
            }
            Self::WaitForRemoval(members) => write!(
                f,
                "Waiting for managed resources to be removed from the following clusters: {}",
                members.join(", ")
            ),
            Self::GivenUp(members) => write!(
                f,
                "Managed resources are left in the following clusters, which have not been ready for too long: {}",
                members.join(", ")
            ),
            Self::ComputePlacementFailed(error) => {
                write!(f, "Failed to compute placement: {error}")
            }
            Self::NamespaceNotFederated(namespace) => write!(
                f,
                "Namespace {namespace:?} is not federated: run kubefedctl federate namespace {namespace}"
            ),
            Self::UnknownClusters(names) => write!(
                f,
                "spec.placement.clusters names clusters that are not registered: {}; join them or remove their names",
                names.join(", ")
            ),
            Self::EnsureFinalizerFailed(error) => write!(f, "Failed to ensure finalizer: {error}"),
            Self::InvalidDeleteOptions(error) => write!(
                f,
                "annotation {DELETE_OPTIONS} is not a JSON object of DeleteOptions: {error}; correct or remove it"
            ),
            Self::InvalidName => f.write_str(
                "The name of a federated namespace must match the name of its containing namespace.",
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn reasons_and_messages_are_those_of_the_original() {
        let federated = Object::new(json!({"metadata": {"name": "a", "namespace": "ns"}})).unwrap();
        let copy = || CopyName::of(&federated, "ConfigMap", "c");
        let rows = [
            (
                Event::Started(Operation::Create, copy()),
                "CreateInCluster: Creating ConfigMap \"ns/a\" in cluster \"c\"",
            ),
            (
                Event::Failed(Operation::Delete, copy(), "forbidden"),
                "DeleteInClusterFailed: Failed to delete ConfigMap \"ns/a\" in cluster \"c\": forbidden",
            ),
            (
                Event::Started(
                    Operation::RemoveManagedLabel,
                    CopyName::of(&federated, "Namespace", "c"),
                ),
                "RemoveManagedLabelFromInCluster: Removing managed label from Namespace \"a\" in cluster \"c\"",
            ),
            (
                Event::TimedOut(2, 30),
                "OperationTimeoutError: Failed to finish 2 operations in 30s",
            ),
            (
                Event::WaitForRemoval(&["a", "b"]),
                "WaitForRemovalInCluster: Waiting for managed resources to be removed from the following clusters: a, b",
            ),
            (Event::ClusterNotReady, "ClusterNotReady: Cluster not ready"),
            (
                Event::CachedRetrievalFailed("x"),
                "CachedRetrievalFailed: Failed to retrieve cached cluster object: x",
            ),
            (
                Event::ComputePlacementFailed("\"Bogus\" is not a valid pod selector operator"),
                "ComputePlacementFailed: Failed to compute placement: \"Bogus\" is not a valid pod selector operator",
            ),
            (
                Event::NamespaceNotFederated("ns"),
                "NamespaceNotFederated: Namespace \"ns\" is not federated: run kubefedctl federate namespace ns",
            ),
            (
                Event::UnknownClusters(&["a", "b"]),
                "UnknownClusters: spec.placement.clusters names clusters that are not registered: a, b; join them or remove their names",
            ),
            (
                Event::EnsureFinalizerFailed("x"),
                "EnsureFinalizerError: Failed to ensure finalizer: x",
            ),
            (
                Event::InvalidName,
                "InvalidName: The name of a federated namespace must match the name of its containing namespace.",
            ),
        ];
        for (event, wanted) in rows {
            assert_eq!(format!("{}: {event}", event.reason()), wanted);
        }
    }

    #[test]
    fn long_messages_are_cut_between_characters() {
        let long = "ß".repeat(1000);
        let cut = shortened(&long);
        assert!(cut.len() <= 1024 && cut.ends_with("ß..."), "{cut}");
        assert_eq!(shortened("short"), "short");
    }

    #[test]
    fn only_progress_is_normal() {
        let federated = Object::new(json!({"metadata": {"name": "a"}})).unwrap();
        let started = Event::Started(Operation::Update, CopyName::of(&federated, "K", "c"));
        assert_eq!(started.severity(), Severity::Normal);
        assert_eq!(Event::WaitForRemoval(&[]).severity(), Severity::Normal);
        assert_eq!(Event::ClusterNotReady.severity(), Severity::Warning);
    }

    #[test]
    fn every_operation_has_its_statuses() {
        for operation in [
            Operation::Create,
            Operation::Update,
            Operation::Delete,
            Operation::RemoveManagedLabel,
        ] {
            assert!(operation.failed().as_str().ends_with("Failed"));
            assert!(operation.timed_out().as_str().ends_with("TimedOut"));
        }
    }
}
