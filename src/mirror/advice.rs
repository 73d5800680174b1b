//! What the owner of a robot can do about each reason.

use hawser_sync::Code;

/// The next step; `None` if no action is needed, or if the mirror never has this reason.
pub fn advice(code: Code) -> Option<&'static str> {
    Some(match code {
        Code::InStep
        | Code::Gone
        | Code::Kept
        | Code::NoSource
        | Code::Paused
        | Code::WaitingForOthers
        | Code::NameConflict
        | Code::AdoptionRefused
        | Code::NameInvalid
        | Code::NamingFailed
        | Code::CacheLimitExceeded
        | Code::StateTooLarge
        | Code::StateNotKept
        | Code::MutationFailed
        | Code::NotLinked
        | Code::NamespaceClosed
        | Code::ReferenceInvalid
        | Code::TooManyRelated
        | Code::KindNotServed => return None,
        Code::Working | Code::NeedsToSee => {
            "wait a moment. If nothing changes, check that the mirror runs on the robot"
        }
        Code::SourceNotQuiet => "wait until the object has not been changed for half a second",
        Code::WaitingForDeletion => {
            "wait for the controllers whose finalizers are on the copy, or remove these finalizers"
        }
        Code::Held => {
            "wait a few seconds. If the deletions are still held, approve them on the CRD on the robot: the mirror's page shows the command"
        }
        Code::NotSeen => {
            "check that both clusters are reachable from the robot and serve the CRD, and that the mirror may list and watch its objects in both"
        }
        Code::NoAnswer => {
            "check that the cluster is reachable from the robot, and that it serves the CRD"
        }
        Code::StoredOtherwise => {
            "make the schemas of the CRD the same in both clusters, or find the admission webhook that changes the written fields"
        }
        Code::StatusNotServed => {
            "declare the status subresource in the CRD of both clusters, or of none"
        }
        Code::TooManyChanges | Code::Contested => {
            "find the other writer in metadata.managedFields and stop it. Labels, annotations and spec may be changed only in the owner's cluster, the status only in the other"
        }
        Code::NamespaceMissing => {
            "create the namespace in the cluster of the copy, or remove it from --namespaces"
        }
        Code::WaitingForNamespace => {
            "wait until the namespace is deleted, and create it again in the cluster of the copy, or remove it from --namespaces"
        }
        Code::Invalid => {
            "make the schemas of the CRD the same in both clusters, or correct the object as the server says"
        }
        Code::Forbidden => {
            "grant the right that the message names, in the cluster that refused the request, or change the quota or policy that it names"
        }
        Code::TooLarge => "make the object smaller",
        Code::TooDeep => "nest the object less deeply: 127 levels are read",
        Code::RulesInvalid => {
            "correct the annotations of the CRD on the robot, or the flags of the mirror"
        }
    })
}
