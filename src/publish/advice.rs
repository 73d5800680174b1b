//! What the owner of a published resource, and a consumer, can do about each reason.

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
        Code::NameInvalid => {
            "correct spec.naming, or the names in the related entry or the object, and try it with hawser render"
        }
        Code::NamingFailed => "correct spec.naming, and try it with hawser render",
        Code::NamespaceMissing => {
            "create the namespace, or grant the agent the rights to list and create namespaces"
        }
        Code::Invalid => "correct the object as the server says, or correct spec.mutation",
        Code::Forbidden => {
            "grant the agent this right, or change the quota or policy that the message names. In a workspace, accept the permission claim in the APIBinding"
        }
        Code::TooLarge => "make the object smaller",
        Code::StateTooLarge => "make the object, or those that belong to it, smaller or fewer",
        Code::TooDeep => "nest the object less deeply: 127 levels are read",
        Code::CacheLimitExceeded => {
            "delete objects of the workspace, refer to smaller ones, or raise --workspace-cache-mib of the agent"
        }
        Code::StateNotKept => {
            "nest the object less deeply, or correct spec.mutation: 127 levels are kept"
        }
        Code::MutationFailed => {
            "correct spec.mutation. hawser render tries it, and hawser plan -f shows what the correction changes"
        }
        Code::NotLinked => "add what the related entry requires to the object, or change the entry",
        Code::NamespaceClosed => "use another namespace in spec.naming or in the related entry",
        Code::ReferenceInvalid => "correct the reference in the object, or the related entry",
        Code::TooManyRelated => "refer to fewer objects, or raise maxObjects of the related entry",
        Code::KindNotServed => "install the CRD of the kind, or correct the related entry",
        Code::RulesInvalid => "correct the PublishedResource: hawser check says what is wrong",
    })
}

/// The next steps about an object, by who can take them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ConsumerAdvice {
    /// With the rights of a consumer in the workspace.
    pub consumer: Option<&'static str>,
    /// Only the provider can do it.
    pub provider: Option<&'static str>,
}

/// What a consumer can do about an object, and what only the provider can.
pub fn for_consumer(code: Code) -> ConsumerAdvice {
    let (consumer, provider) = match code {
        Code::InStep | Code::Gone | Code::Kept | Code::NoSource | Code::StatusNotServed => ("", ""),
        Code::Working | Code::NeedsToSee | Code::NotSeen | Code::NoAnswer => (
            "wait a moment",
            "check that an agent runs and reaches both servers",
        ),
        Code::WaitingForDeletion => (
            "wait until the service has deleted its copy",
            "find what holds the copy: finalizers, held deletions, a stopped agent",
        ),
        Code::WaitingForNamespace => ("wait a moment", "find what holds the namespace of the copy"),
        Code::Held => ("wait for the provider", "approve the deletions"),
        Code::Paused => (
            "wait until the pause ends: the service then takes the latest change. To end it now, remove its annotations syncagent.kcp.io/pause-…",
            "end the pause",
        ),
        Code::WaitingForOthers => (
            "solve the problems of the objects that belong to this one",
            "",
        ),
        Code::SourceNotQuiet => (
            "wait until the object has not been changed for a moment",
            "",
        ),
        Code::TooManyChanges | Code::Contested => (
            "find the other writer in metadata.managedFields, and stop it",
            "find the other writer of the copy, or leave the field to it",
        ),
        Code::StoredOtherwise => ("", "find what changes the written fields"),
        Code::NameConflict => (
            "create the object under another name",
            "delete or rename the other object, or change the naming",
        ),
        Code::AdoptionRefused => (
            "create the object under another name",
            "delete or rename the other object, change the naming, or allow adoption in spec.safety",
        ),
        Code::NameInvalid => (
            "create the object under a shorter name of lowercase letters, digits and hyphens, or correct the names in its fields",
            "correct the naming",
        ),
        Code::NamingFailed => (
            "choose a shorter or simpler name, or correct the fields that name others",
            "correct the naming",
        ),
        Code::NamespaceMissing => (
            "if an object that belongs to this one is missing its namespace in your workspace, create that namespace",
            "create the namespace on the service cluster",
        ),
        Code::Invalid => (
            "correct the object as the message says",
            "correct the mutation",
        ),
        Code::Forbidden => ("", "grant the agent the right, or raise the quota"),
        Code::TooLarge | Code::StateTooLarge => ("make the object smaller", ""),
        Code::TooDeep => ("nest the object less deeply: 127 levels are read", ""),
        Code::CacheLimitExceeded => (
            "delete objects, or make them smaller",
            "raise the limit of the cache for each workspace",
        ),
        Code::StateNotKept => ("nest the object less deeply", "correct the mutation"),
        Code::MutationFailed => (
            "tell the provider, whose rule may be wrong. If the provider says so, correct the values of the object",
            "correct the mutation: hawser explain says why it fails",
        ),
        Code::NotLinked | Code::NamespaceClosed => (
            "use another namespace or another reference",
            "correct the related entry or the naming",
        ),
        Code::ReferenceInvalid => (
            "correct the reference in the object",
            "correct the related entry",
        ),
        Code::TooManyRelated => (
            "refer to fewer objects",
            "raise the maximum of the related entry",
        ),
        Code::KindNotServed => ("", "install the kind"),
        Code::RulesInvalid => ("", "correct the PublishedResource"),
    };
    let given = |text: &'static str| Some(text).filter(|text| !text.is_empty());
    ConsumerAdvice {
        consumer: given(consumer),
        provider: given(provider),
    }
}
