//! Static types of expressions, and which of them go together.

use std::fmt;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Type {
    /// Only known when the expression is evaluated.
    Dyn,
    /// What an empty list or map holds: as yet anything.
    Free,
    Bool,
    Int,
    Uint,
    Double,
    String,
    Bytes,
    Null,
    Time,
    Duration,
    /// A type itself, as `type(x)` gives it.
    Kind,
    List(Box<Self>),
    Map(Box<Self>, Box<Self>),
}

impl Type {
    pub(super) fn list(element: Self) -> Self {
        Self::List(Box::new(element))
    }

    pub(super) fn map(key: Self, value: Self) -> Self {
        Self::Map(Box::new(key), Box::new(value))
    }

    /// Whether a value of one type may stand where the other is asked for.
    pub(super) fn fits(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Dyn | Self::Free, _)
            | (_, Self::Dyn | Self::Free)
            | (Self::Null, Self::Time | Self::Duration)
            | (Self::Time | Self::Duration, Self::Null) => true,
            (Self::List(a), Self::List(b)) => a.fits(b),
            (Self::Map(a, x), Self::Map(b, y)) => a.fits(b) && x.fits(y),
            (a, b) => a == b,
        }
    }

    /// The type of what may be either of two that fit.
    pub(super) fn either(&self, other: &Self) -> Self {
        match (self, other) {
            (Self::Free | Self::Null, known) | (known, Self::Free | Self::Null) => known.clone(),
            (Self::List(a), Self::List(b)) => Self::list(a.either(b)),
            (Self::Map(a, x), Self::Map(b, y)) => Self::map(a.either(b), x.either(y)),
            (a, b) if a == b => a.clone(),
            _ => Self::Dyn,
        }
    }

    /// The type of the members of a literal, after one more was seen.
    pub(super) fn joined(&self, other: &Self) -> Self {
        if self.fits(other) {
            self.either(other)
        } else {
            Self::Dyn
        }
    }
}

impl fmt::Display for Type {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = match self {
            Self::Dyn | Self::Free => "dyn",
            Self::Bool => "bool",
            Self::Int => "int",
            Self::Uint => "uint",
            Self::Double => "double",
            Self::String => "string",
            Self::Bytes => "bytes",
            Self::Null => "null",
            Self::Time => "timestamp",
            Self::Duration => "duration",
            Self::Kind => "type",
            Self::List(element) => return write!(f, "list({element})"),
            Self::Map(key, value) => return write!(f, "map({key}, {value})"),
        };
        f.write_str(name)
    }
}
