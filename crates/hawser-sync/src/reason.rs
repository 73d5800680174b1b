//! Why a link is where it is: stable codes, each with a sentence for people.

use std::fmt;

/// A code with what it is about. The code and its sentence may be shown to anybody; the detail may
/// name things of the service cluster and is for its owner.
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

            pub fn sentence(self) -> &'static str {
                match self { $(Self::$name => $sentence,)* }
            }

            pub fn class(self) -> Class {
                match self { $(Self::$name => Class::$class,)* }
            }
        }
    };
}

/// What follows from a code.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Class {
    /// Nothing is to be done.
    Settled,
    /// Requests are on their way.
    Working,
    /// Something else has to happen first; it will be noticed.
    Waiting,
    /// Something did not answer; tried again with back-off.
    Retry,
    /// Somebody has to change something.
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
    InStep: Settled, "the object and its copy agree";
    Gone: Settled, "nothing is left to clean up";
    Kept: Settled, "the copy stays on purpose";
    NoSource: Settled, "there is nothing to copy";
    Working: Working, "changes are being carried over";
    NeedsToSee: Working, "something has to be looked at first";
    WaitingForDeletion: Waiting, "the copy is being deleted";
    WaitingForNamespace: Waiting, "the namespace of the copy is being deleted";
    Held: Waiting, "the deletion waits for somebody to allow it";
    WaitingForOthers: Waiting, "other objects of the same subject come first";
    SourceNotQuiet: Waiting, "the object was changed a moment ago";
    NotSeen: Retry, "the current state could not be read";
    NoAnswer: Retry, "a server did not answer";
    TooManyChanges: Retry, "the objects change faster than they can be compared";
    NameConflict: Refused, "an object of this name belongs to somebody else";
    AdoptionRefused: Refused, "an object of this name exists already and may not be taken over";
    NameInvalid: Refused, "the name made for the copy is not a valid name";
    NamespaceMissing: Refused, "the namespace of the copy does not exist";
    Invalid: Refused, "the server refused the object as invalid";
    Forbidden: Refused, "the request is not allowed";
    TooLarge: Refused, "the object is too large";
    TooDeep: Refused, "the object is nested too deeply to be read";
    StateTooLarge: Refused, "the last known state is too large to be remembered";
    StateNotKept: Refused, "the last known state cannot be stored so that it is read back as it was";
    MutationFailed: Refused, "a mutation could not be applied";
    NamingFailed: Refused, "no name could be made for the copy";
    StatusNotServed: Settled, "the object has no status to be written";
    NotLinked: Refused, "the object does not show that it belongs here";
    NamespaceClosed: Refused, "the namespace is not open to what consumers name";
    ReferenceInvalid: Refused, "what the object refers to cannot be made out";
    TooManyRelated: Refused, "the object refers to too many others";
    KindNotServed: Refused, "the kind of a related object is not served";
    Contested: Refused, "somebody else takes back what is written, so that it is written ever less often";
    RulesInvalid: Refused, "the rules of this resource are not valid";
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
