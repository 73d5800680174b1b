//! Types of expressions, and their assignability.

use std::{collections::HashMap, fmt, sync::Arc};

use super::shape::{Content, Format, Shape};

#[derive(Clone, Debug)]
pub enum Type {
    /// The type of an expression that was reported already; it is compatible with every type.
    Error,
    Dyn,
    Null,
    Bool,
    Int,
    Uint,
    Double,
    Text,
    Bytes,
    Duration,
    Time,
    List(Arc<Self>),
    Map(Arc<(Self, Self)>),
    /// The type of a type.
    Kind(Arc<Self>),
    Optional(Arc<Self>),
    /// An object of the schema.
    Object(Arc<Shape>),
    /// A value of one of the libraries.
    Opaque(&'static str),
    /// Not known yet.
    Free(u32),
}

impl Shape {
    /// The type of its values, `None` for what expressions cannot name.
    pub fn type_of(self: &Arc<Self>) -> Option<Type> {
        Some(match &self.is {
            Content::Any(_) | Content::IntOrString => Type::Dyn,
            Content::Object(_) => Type::Object(Arc::clone(self)),
            Content::Map(values) => Type::map(Type::Text, values.type_of()?),
            Content::List(items, _) => Type::list(items.type_of()?),
            Content::Text(Format::Plain) => Type::Text,
            Content::Text(Format::Bytes) => Type::Bytes,
            Content::Text(Format::Duration) => Type::Duration,
            Content::Text(Format::Date | Format::DateTime) => Type::Time,
            Content::Number => Type::Double,
            Content::Integer => Type::Int,
            Content::Boolean => Type::Bool,
            Content::Unknown => return None,
        })
    }
}

impl Type {
    pub fn list(element: Self) -> Self {
        Self::List(Arc::new(element))
    }

    pub fn map(key: Self, value: Self) -> Self {
        Self::Map(Arc::new((key, value)))
    }

    pub fn optional(inner: Self) -> Self {
        Self::Optional(Arc::new(inner))
    }

    pub(super) fn is_dyn_or_error(&self) -> bool {
        matches!(self, Self::Dyn | Self::Error)
    }

    pub(super) fn is(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::List(a), Self::List(b))
            | (Self::Kind(a), Self::Kind(b))
            | (Self::Optional(a), Self::Optional(b)) => a.is(b),
            (Self::Map(a), Self::Map(b)) => a.0.is(&b.0) && a.1.is(&b.1),
            (Self::Object(a), Self::Object(b)) => a.name == b.name,
            (Self::Opaque(a), Self::Opaque(b)) => a == b,
            (Self::Free(a), Self::Free(b)) => a == b,
            _ => std::mem::discriminant(self) == std::mem::discriminant(other) && self.is_simple(),
        }
    }

    fn is_simple(&self) -> bool {
        !matches!(
            self,
            Self::List(_)
                | Self::Map(_)
                | Self::Kind(_)
                | Self::Optional(_)
                | Self::Object(_)
                | Self::Opaque(_)
                | Self::Free(_)
        )
    }

    fn takes_null(&self) -> bool {
        matches!(
            self,
            Self::Null
                | Self::Duration
                | Self::Time
                | Self::Object(_)
                | Self::Opaque(_)
                | Self::Optional(_)
        )
    }

    /// With each type inside replaced by what `with` says of it.
    fn mapped(&self, with: &impl Fn(u32) -> Self) -> Self {
        match self {
            Self::List(inner) => Self::list(inner.mapped(with)),
            Self::Map(both) => Self::map(both.0.mapped(with), both.1.mapped(with)),
            Self::Kind(inner) => Self::Kind(Arc::new(inner.mapped(with))),
            Self::Optional(inner) => Self::optional(inner.mapped(with)),
            Self::Free(nth) => with(*nth),
            other => other.clone(),
        }
    }

    /// The same with other free types: those of a declaration made those of one use of it.
    pub(super) fn fresh(&self, from: u32) -> Self {
        self.mapped(&|nth| Self::Free(from + nth))
    }

    fn mentions(&self, nth: u32) -> bool {
        match self {
            Self::List(inner) | Self::Kind(inner) | Self::Optional(inner) => inner.mentions(nth),
            Self::Map(both) => both.0.mentions(nth) || both.1.mentions(nth),
            Self::Free(found) => *found == nth,
            _ => false,
        }
    }

    fn size(&self) -> usize {
        match self {
            Self::List(inner) | Self::Kind(inner) | Self::Optional(inner) => 1 + inner.size(),
            Self::Map(both) => 1 + both.0.size() + both.1.size(),
            _ => 1,
        }
    }
}

impl fmt::Display for Type {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Error => f.write_str("!error!"),
            Self::Dyn => f.write_str("dyn"),
            Self::Null => f.write_str("null"),
            Self::Bool => f.write_str("bool"),
            Self::Int => f.write_str("int"),
            Self::Uint => f.write_str("uint"),
            Self::Double => f.write_str("double"),
            Self::Text => f.write_str("string"),
            Self::Bytes => f.write_str("bytes"),
            Self::Duration => f.write_str("duration"),
            Self::Time => f.write_str("timestamp"),
            Self::List(inner) => write!(f, "list({inner})"),
            Self::Map(both) => write!(f, "map({}, {})", both.0, both.1),
            Self::Kind(inner) => write!(f, "type({inner})"),
            Self::Optional(inner) => write!(f, "optional_type({inner})"),
            Self::Object(shape) => f.write_str(&shape.name),
            Self::Opaque(name) => f.write_str(name),
            Self::Free(nth) => write!(f, "_var{nth}"),
        }
    }
}

/// Types may grow by being put into each other; what is larger is as good as unknown.
const LARGEST: usize = 200;

/// Types that were found for free type parameters.
#[derive(Clone, Debug, Default)]
pub(super) struct Known(HashMap<u32, Type>);

impl Known {
    /// A type with what is known put in.
    pub(super) fn resolve(&self, kind: &Type) -> Type {
        kind.mapped(&|nth| match self.0.get(&nth) {
            Some(known) => self.resolve(known),
            None => Type::Free(nth),
        })
    }

    /// The same for messages: what is not known may be anything.
    pub(super) fn shown(&self, kind: &Type) -> Type {
        self.resolve(kind).mapped(&|_| Type::Dyn)
    }

    /// Checks that each value is assignable to its type; if so, the types found for free parameters are kept.
    pub(super) fn fit_all(&mut self, values: &[Type], places: &[Type]) -> bool {
        if values.len() != places.len() {
            return false;
        }
        let mut tried = self.clone();
        let fits = values
            .iter()
            .zip(places)
            .all(|(value, place)| tried.assignable(value, place));
        if fits {
            *self = tried;
        }
        fits
    }

    pub(super) fn fits(&mut self, value: &Type, place: &Type) -> bool {
        self.fit_all(std::slice::from_ref(value), std::slice::from_ref(place))
    }

    fn assignable(&mut self, a: &Type, b: &Type) -> bool {
        if let Type::Free(free) = b {
            let (valid, known) = self.substitutes(a, *free);
            if valid || known {
                return valid;
            }
        }
        if let Type::Free(free) = a {
            return self.substitutes(b, *free).0;
        }
        match (a, b) {
            _ if a.is_dyn_or_error() || b.is_dyn_or_error() => true,
            (Type::Null, other) | (other, Type::Null) => other.takes_null(),
            (Type::Kind(_), Type::Kind(_)) => true,
            (Type::List(a), Type::List(b)) | (Type::Optional(a), Type::Optional(b)) => {
                self.assignable(a, b)
            }
            (Type::Map(a), Type::Map(b)) => {
                self.assignable(&a.0, &b.0) && self.assignable(&a.1, &b.1)
            }
            _ => a.is(b),
        }
    }

    /// Checks that a type fits a free parameter, and tells whether that was known already.
    fn substitutes(&mut self, kind: &Type, free: u32) -> (bool, bool) {
        if matches!(kind, Type::Free(same) if *same == free) {
            return (true, true);
        }
        if let Some(known) = self.0.get(&free).cloned() {
            if kind.is(&known) {
                return (true, true);
            }
            if !self.assignable(kind, &known) {
                return (false, true);
            }
            let general = most_general(kind, &known);
            self.learn(free, &general);
            return (true, true);
        }
        (self.learn(free, kind), false)
    }

    fn learn(&mut self, free: u32, kind: &Type) -> bool {
        let resolved = self.resolve(kind);
        if resolved.mentions(free) {
            return false;
        }
        let kept = if resolved.size() > LARGEST {
            Type::Dyn
        } else {
            resolved
        };
        self.0.insert(free, kept);
        true
    }
}

/// Of two types that fit each other the one that says less.
pub(super) fn most_general(a: &Type, b: &Type) -> Type {
    if is_equal_or_less_specific(a, b) {
        a.clone()
    } else {
        b.clone()
    }
}

fn is_equal_or_less_specific(a: &Type, b: &Type) -> bool {
    match (a, b) {
        (Type::Dyn | Type::Free(_), _) | (Type::Kind(_), Type::Kind(_)) => true,
        (_, Type::Dyn | Type::Free(_)) => false,
        (Type::List(a), Type::List(b)) | (Type::Optional(a), Type::Optional(b)) => {
            is_equal_or_less_specific(a, b)
        }
        (Type::Map(a), Type::Map(b)) => {
            is_equal_or_less_specific(&a.0, &b.0) && is_equal_or_less_specific(&a.1, &b.1)
        }
        _ => a.is(b),
    }
}
