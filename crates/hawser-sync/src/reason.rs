//! The reasons for the state of a link: stable codes, each with a sentence for people.

use std::fmt;

/// A code and its detail. The code and its sentence may be shown to anybody; the detail may name things of the service
/// cluster and is for its owner.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reason {
    pub code: Code,
    pub detail: String,
}

impl Reason {
    pub fn new(code: Code, detail: impl Into<String>) -> Self {
        Self {
            code,
            detail: detail.into(),
        }
    }
}

impl From<Code> for Reason {
    fn from(code: Code) -> Self {
        Self {
            code,
            detail: String::new(),
        }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.code.sentence())?;
        if !self.detail.is_empty() {
            write!(f, " ({})", self.detail)?;
        }
        Ok(())
    }
}

macro_rules! codes {
    ($($(#[$doc:meta])* $name:ident: $class:ident, $sentence:literal;)*) => {
        /// The closed list of codes. They are part of the interface: names never change.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum Code { $(#[doc = $sentence] $name,)* }

        impl Code {
            /// Every code, in the order of the documentation.
            pub const ALL: &'static [Self] = &[$(Self::$name,)*];

            pub fn as_str(self) -> &'static str {
                match self { $(Self::$name => stringify!($name),)* }
            }

            /// The code of this name.
            pub fn named(name: &str) -> Option<Self> {
                Self::ALL.iter().copied().find(|code| code.as_str() == name)
            }

            pub fn sentence(self) -> &'static str {
                match self { $(Self::$name => $sentence,)* }
            }

            pub fn class(self) -> Class {
                match self { $(Self::$name => Class::$class,)* }
            }
        }
    };
}

/// The class of a code: what follows from it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Class {
    /// No action is needed.
    Settled,
    /// Requests are on their way.
    Working,
    /// Something else has to happen first; an event will report it.
    Waiting,
    /// Something did not answer; retried with back-off.
    Retry,
    /// A person has to change something.
    Refused,
}

impl Class {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Settled => "settled",
            Self::Working => "working",
            Self::Waiting => "waiting",
            Self::Retry => "retry",
            Self::Refused => "refused",
        }
    }
}

codes! {
    InStep: Settled, "the object and its copy are in sync";
    Gone: Settled, "nothing is left to clean up";
    Kept: Settled, "the copy is kept intentionally";
    NoSource: Settled, "there is nothing to copy";
    Working: Working, "changes are being written to the other side";
    NeedsToSee: Working, "an object has to be read first";
    WaitingForDeletion: Waiting, "the copy is being deleted";
    WaitingForNamespace: Waiting, "the namespace of the copy is being deleted";
    Held: Waiting, "the deletion waits for approval";
    Paused: Waiting, "a pause holds the changes";
    WaitingForOthers: Waiting, "the object that it belongs to, or a related object, has to be processed first";
    SourceNotQuiet: Waiting, "the object was changed a moment ago";
    NotSeen: Retry, "the current state could not be read";
    NoAnswer: Retry, "a server did not answer";
    TooManyChanges: Retry, "the objects change faster than they can be compared";
    StoredOtherwise: Retry, "the server stored values that differ from those written";
    NameConflict: Refused, "the existing object of this name belongs to another object";
    AdoptionRefused: Refused, "an object of this name already exists and may not be adopted";
    NameInvalid: Refused, "the name derived for the copy is invalid";
    NamespaceMissing: Refused, "the namespace of the copy does not exist";
    Invalid: Refused, "the server rejected the object as invalid";
    Forbidden: Refused, "the request is not allowed";
    TooLarge: Refused, "the object is too large";
    TooDeep: Refused, "the object is nested too deeply to be read";
    CacheLimitExceeded: Refused, "the objects of the workspace exceed the cache limit";
    StateTooLarge: Refused, "the last known state is too large to be stored";
    StateNotKept: Refused, "the last known state cannot be stored without loss";
    MutationFailed: Refused, "a mutation could not be applied";
    NamingFailed: Refused, "no name could be derived for the copy";
    StatusNotServed: Settled, "the kind has no status subresource";
    NotLinked: Refused, "the object carries no proof of ownership";
    NamespaceClosed: Refused, "consumers may not choose this namespace";
    ReferenceInvalid: Refused, "the reference could not be resolved";
    TooManyRelated: Refused, "the object refers to too many others";
    KindNotServed: Refused, "the kind of a related object is not served";
    Contested: Refused, "another writer undoes each change, so it is written less and less often";
    RulesInvalid: Refused, "the rules of this resource are invalid";
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
