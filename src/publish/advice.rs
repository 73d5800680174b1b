//! What the owner of a published resource can do about each reason.

use hawser_sync::Code;

/// The next step; `None` if no action is needed.
pub fn advice(code: Code) -> Option<&'static str> {
    Some(match code {
        Code::InStep | Code::Gone | Code::Kept | Code::NoSource | Code::StatusNotServed => {
            return None;
        }
        Code::Working | Code::NeedsToSee => {
            "wait a moment. If nothing changes, check that an agent leads"
        }
        Code::WaitingForDeletion => {
            "wait for the controllers whose finalizers are on the copy, or remove these finalizers"
        }
        Code::WaitingForNamespace => "wait until the namespace of the copy is deleted",
        Code::Held => "approve the deletions: the condition of the PublishedResource says how",
        Code::Paused => {
            "wait until the pause ends, or remove its annotations syncagent.kcp.io/pause-…"
        }
        Code::WaitingForOthers => "solve the problems of the object that this one waits for",
        Code::SourceNotQuiet => "wait until the object has not been changed for a moment",
        Code::NotSeen => {
            "check that the server is reachable, and that the agent may read the object"
        }
        Code::NoAnswer => "check that the server is reachable",
        Code::StoredOtherwise => {
            "find what changes the written fields: an admission webhook, or a schema that lacks them"
        }
        Code::TooManyChanges | Code::Contested => {
            "find the other writer in metadata.managedFields, and stop it or leave the field to it"
        }
        Code::NameConflict => "rename one of the two objects, or change spec.naming",
        Code::AdoptionRefused => {
            "delete or rename the existing object, or allow adoption in spec.safety"
        }
        Code::NameInvalid | Code::NamingFailed => {
            "correct spec.naming, and try it with hawser render"
        }
        Code::NamespaceMissing => "create the namespace, or let the agent create namespaces",
        Code::Invalid => "correct the object as the server says, or correct spec.mutation",
        Code::Forbidden => {
            "grant the agent this right. In a workspace, accept the permission claim in the APIBinding"
        }
        Code::TooLarge | Code::StateTooLarge => "make the object smaller",
        Code::TooDeep => "nest the object less deeply: 127 levels are read",
        Code::CacheLimitExceeded => {
            "delete objects of the workspace, refer to smaller ones, or raise --workspace-cache-mib of the agent"
        }
        Code::StateNotKept => "change the value that the message names",
        Code::MutationFailed => "correct spec.mutation, and try it with hawser render",
        Code::NotLinked => "add what the related entry requires to the object, or change the entry",
        Code::NamespaceClosed => "use another namespace in spec.naming or in the related entry",
        Code::ReferenceInvalid => "correct the reference in the object, or the related entry",
        Code::TooManyRelated => "refer to fewer objects, or raise maxObjects of the related entry",
        Code::KindNotServed => "install the CRD of the kind, or correct the related entry",
        Code::RulesInvalid => "correct the PublishedResource: hawser check says what is wrong",
    })
}
