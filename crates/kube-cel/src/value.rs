//! Values of expressions: parts of the object, typed by its schema, and the values that expressions compute.

use std::{cmp::Ordering, rc::Rc};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde_json::{Map, Value};

use super::{
    fault::{Fault, Meter, no_overload},
    libraries::Opaque,
    shape::{ANY, ANY_DOUBLES, Content, Format, Listing, Numbers, Shape},
    time::{self, Time},
};

#[derive(Clone, Debug)]
pub enum Val<'a> {
    Null,
    Bool(bool),
    Int(i64),
    Uint(u64),
    Double(f64),
    Text(Text<'a>),
    Bytes(Rc<[u8]>),
    /// Nanoseconds.
    Duration(i64),
    Time(Time),
    /// A list of the object.
    Items(&'a [Value], &'a Shape, &'a Listing),
    List(Rc<Vec<Self>>, Kept<'a>),
    /// An object or a map of the object.
    Members(&'a Map<String, Value>, &'a Shape),
    Map(Rc<Vec<(Self, Self)>>),
    Kind(Rc<str>),
    Optional(Option<Rc<Self>>),
    Opaque(Rc<Opaque>),
}

/// The result of an evaluation.
pub type Answer<'a> = Result<Val<'a>, Fault>;

/// Text of the object or the expression, or made.
#[derive(Clone, Debug)]
pub enum Text<'a> {
    There(&'a str),
    Made(Rc<str>),
}

/// The identity of a list's elements, if it was made of other lists.
#[derive(Clone, Debug)]
pub enum Kept<'a> {
    Plain,
    As(&'a Listing),
}

impl Text<'_> {
    pub fn as_str(&self) -> &str {
        match self {
            Self::There(text) => text,
            Self::Made(text) => text,
        }
    }
}

impl<'a> Val<'a> {
    pub(super) fn text(text: impl Into<Rc<str>>) -> Self {
        Self::Text(Text::Made(text.into()))
    }

    pub(super) fn list(items: Vec<Self>) -> Self {
        Self::List(Rc::new(items), Kept::Plain)
    }

    pub fn some(value: Self) -> Self {
        Self::Optional(Some(Rc::new(value)))
    }

    /// An object of which nothing is known.
    pub fn any(value: &'a Value) -> Self {
        Self::unknown(value, &ANY, Numbers::Exact)
    }

    /// The same with the numbers of plain JSON, which are doubles.
    pub fn any_with_doubles(value: &'a Value) -> Self {
        Self::unknown(value, &ANY_DOUBLES, Numbers::Doubles)
    }

    fn unknown(value: &'a Value, shape: &'a Shape, numbers: Numbers) -> Self {
        match value {
            Value::Null => Self::Null,
            Value::Bool(value) => Self::Bool(*value),
            Value::Number(number) => match number.as_i64() {
                Some(whole) if numbers == Numbers::Exact => Self::Int(whole),
                _ => Self::Double(number.as_f64().unwrap_or(f64::NAN)),
            },
            Value::String(text) => Self::Text(Text::There(text)),
            Value::Array(items) => Self::Items(items, shape, &Listing::Plain),
            Value::Object(members) => Self::Members(members, shape),
        }
    }

    /// A part of the object as its schema shows it.
    pub fn of(value: &'a Value, shape: &'a Shape) -> Answer<'a> {
        let wrong = |expected: &str| {
            Err(Fault::Error(format!(
                "invalid data, expected {expected}, got {}",
                go_type(value)
            )))
        };
        if let Content::Any(numbers) = shape.is {
            return Ok(Self::unknown(value, shape, numbers));
        }
        if value.is_null() {
            if shape.nullable {
                return Ok(Self::Null);
            }
            return Err(Fault::new(
                "invalid data, got null for schema with nullable=false",
            ));
        }
        match &shape.is {
            Content::Any(_) => Err(no_overload()),
            Content::IntOrString => match value {
                Value::String(text) => Ok(Self::Text(Text::There(text))),
                Value::Number(number) if number.is_i64() => {
                    Ok(Self::Int(number.as_i64().unwrap_or_default()))
                }
                _ => Err(Fault::new(
                    "invalid data, expected XIntOrString value to be either a string or integer",
                )),
            },
            Content::Object(_) | Content::Map(_) => match value {
                Value::Object(members) => Ok(Self::Members(members, shape)),
                _ => Err(Fault::new(
                    "invalid data, expected a map for the provided schema with type=object",
                )),
            },
            Content::List(items, listing) => match value {
                Value::Array(list) => Ok(Self::Items(list, items, listing)),
                _ => Err(Fault::new(
                    "invalid data, expected an array for the provided schema with type=array",
                )),
            },
            Content::Text(format) => match value {
                Value::String(text) => formatted(text, *format),
                _ => wrong("string"),
            },
            Content::Number => match value.as_f64() {
                Some(number) => Ok(Self::Double(number)),
                None => wrong("float"),
            },
            Content::Integer => match value {
                Value::Number(number) => match number.as_i64() {
                    Some(number) => Ok(Self::Int(number)),
                    None => wrong("int"),
                },
                _ => wrong("int"),
            },
            Content::Boolean => match value {
                Value::Bool(value) => Ok(Self::Bool(*value)),
                _ => wrong("bool"),
            },
            Content::Unknown => Err(Fault::new("invalid type, got a value without a schema")),
        }
    }

    /// The name of the type in messages.
    pub(super) fn type_name(&self) -> &str {
        match self {
            Self::Null => "null_type",
            Self::Bool(_) => "bool",
            Self::Int(_) => "int",
            Self::Uint(_) => "uint",
            Self::Double(_) => "double",
            Self::Text(_) => "string",
            Self::Bytes(_) => "bytes",
            Self::Duration(_) => "google.protobuf.Duration",
            Self::Time(_) => "google.protobuf.Timestamp",
            Self::Items(..) | Self::List(..) => "list",
            Self::Members(..) | Self::Map(_) => "map",
            Self::Kind(_) => "type",
            Self::Optional(_) => "optional_type",
            Self::Opaque(opaque) => opaque.type_name(),
        }
    }

    /// The server's name for a type that cannot be iterated over.
    pub(super) fn implementation_name(&self) -> &'static str {
        match self {
            Self::Null => "types.Null",
            Self::Bool(_) => "types.Bool",
            Self::Int(_) => "types.Int",
            Self::Uint(_) => "types.Uint",
            Self::Double(_) => "types.Double",
            Self::Text(_) => "types.String",
            Self::Bytes(_) => "types.Bytes",
            Self::Duration(_) => "types.Duration",
            Self::Time(_) => "types.Timestamp",
            _ => "types.Unknown",
        }
    }

    /// True for maps, lists and objects.
    pub(super) fn has_parts(&self) -> bool {
        self.is_list() || matches!(self, Self::Members(..) | Self::Map(_))
    }

    pub fn as_text(&self) -> Option<&str> {
        match self {
            Self::Text(text) => Some(text.as_str()),
            _ => None,
        }
    }

    pub(super) fn is_list(&self) -> bool {
        matches!(self, Self::Items(..) | Self::List(..))
    }

    /// The number of elements of a list or a map.
    pub(super) fn len(&self) -> Option<usize> {
        match self {
            Self::Items(items, ..) => Some(items.len()),
            Self::List(items, _) => Some(items.len()),
            Self::Map(entries) => Some(entries.len()),
            Self::Members(members, shape) => Some(match &shape.is {
                Content::Object(known) => known
                    .values()
                    .filter(|m| members.get(&m.written).is_some_and(|v| !v.is_null()))
                    .count(),
                _ => members.len(),
            }),
            _ => None,
        }
    }

    /// An element of a list.
    pub(super) fn at(&self, nth: usize) -> Option<Answer<'a>> {
        match self {
            Self::Items(items, shape, _) => Some(Self::of(items.get(nth)?, shape)),
            Self::List(items, _) => Some(Ok(items.get(nth)?.clone())),
            _ => None,
        }
    }

    /// The elements of a list, one after the other.
    pub(super) fn each(&self) -> impl Iterator<Item = Answer<'a>> {
        (0..).map_while(|nth| self.at(nth))
    }

    /// All elements of a list.
    pub(super) fn items(&self, meter: &Meter) -> Option<Result<Vec<Self>, Fault>> {
        if !self.is_list() {
            return None;
        }
        let paid = meter.charge(self.len().unwrap_or(0) as u64);
        Some(paid.and_then(|()| self.each().collect()))
    }

    /// All keys of a map, in their order.
    pub(super) fn keys(&self, meter: &Meter) -> Option<Result<Vec<Self>, Fault>> {
        let count = match self {
            Self::Map(entries) => entries.len(),
            Self::Members(members, _) => members.len(),
            _ => return None,
        };
        if let Err(fault) = meter.charge(count as u64) {
            return Some(Err(fault));
        }
        let mut keys: Vec<Self> = match self {
            Self::Map(entries) => entries.iter().map(|(key, _)| key.clone()).collect(),
            Self::Members(members, shape) => match &shape.is {
                Content::Object(known) => known
                    .iter()
                    .filter(|(_, m)| members.get(&m.written).is_some_and(|v| !v.is_null()))
                    .map(|(name, _)| Self::text(name.as_str()))
                    .collect(),
                _ => members
                    .keys()
                    .map(|key| Self::Text(Text::There(key)))
                    .collect(),
            },
            _ => Vec::new(),
        };
        keys.sort_by(Self::compared_as_keys);
        Some(Ok(keys))
    }

    /// True for a value that can be the key of a map in JSON.
    pub(super) fn can_be_key(&self) -> bool {
        matches!(
            self,
            Self::Int(_) | Self::Uint(_) | Self::Double(_) | Self::Bool(_) | Self::Text(_)
        )
    }

    /// An order of all that can be keys.
    fn compared_as_keys(&self, other: &Self) -> Ordering {
        let rank = |val: &Self| match val {
            Self::Int(_) | Self::Uint(_) => 0,
            Self::Double(_) => 1,
            Self::Bool(_) => 2,
            Self::Text(_) => 3,
            _ => 4,
        };
        match (self, other) {
            (Self::Text(a), Self::Text(b)) => a.as_str().cmp(b.as_str()),
            (Self::Bool(a), Self::Bool(b)) => a.cmp(b),
            (Self::Double(a), Self::Double(b)) => a.total_cmp(b),
            (a, b) if rank(a) == 0 && rank(b) == 0 => a
                .compared_as_numbers(b)
                .flatten()
                .unwrap_or(Ordering::Equal),
            (a, b) => rank(a).cmp(&rank(b)),
        }
    }

    /// A member of an object or a map, if it is there.
    pub(super) fn member(&self, key: &Self, meter: &Meter) -> Result<Option<Self>, Fault> {
        match self {
            Self::Map(entries) => {
                for (known, value) in entries.iter() {
                    if known.equals(key, meter)? {
                        return Ok(Some(value.clone()));
                    }
                }
                Ok(None)
            }
            Self::Members(members, shape) => {
                let Some(name) = key.as_text() else {
                    return match shape.is {
                        Content::Any(_) => Ok(None),
                        _ => Err(no_overload()),
                    };
                };
                match &shape.is {
                    Content::Any(_) => members
                        .get(name)
                        .map(|value| Self::of(value, shape))
                        .transpose(),
                    Content::Object(known) => super::shape::member(known, name)
                        .and_then(|m| Some((members.get(&m.written)?, &m.shape)))
                        .filter(|(value, _)| !value.is_null())
                        .map(|(value, shape)| Self::of(value, shape))
                        .transpose(),
                    Content::Map(values) => members
                        .get(name)
                        .map(|value| Self::of(value, values))
                        .transpose(),
                    _ => Ok(None),
                }
            }
            _ => Err(no_overload()),
        }
    }

    /// The entries of a map.
    pub(super) fn entries(&self, meter: &Meter) -> Option<Result<Vec<(Self, Self)>, Fault>> {
        if let Self::Map(entries) = self {
            let paid = meter.charge(entries.len() as u64);
            return Some(paid.map(|()| entries.as_ref().clone()));
        }
        let found = |keys: Vec<Self>| {
            let entry = |key| {
                let value = self.member(&key, meter).transpose()?;
                Some(value.map(|value| (key, value)))
            };
            keys.into_iter().filter_map(entry).collect()
        };
        Some(self.keys(meter)?.and_then(found))
    }

    fn listing(&self) -> &Listing {
        match self {
            Self::Items(_, _, listing) | Self::List(_, Kept::As(listing)) => listing,
            _ => &Listing::Plain,
        }
    }

    /// Equality as of the server: numbers by value, lists by their type, all else by what it is.
    pub(super) fn equals(&self, other: &Self, meter: &Meter) -> Result<bool, Fault> {
        meter.charge(1)?;
        Ok(match (self, other) {
            (Self::Null, other) | (other, Self::Null) => {
                matches!((self, other), (Self::Null, Self::Null))
            }
            (Self::Bool(a), Self::Bool(b)) => a == b,
            (Self::Text(a), Self::Text(b)) => {
                meter.bytes(a.as_str().len().min(b.as_str().len()))?;
                a.as_str() == b.as_str()
            }
            (Self::Bytes(a), Self::Bytes(b)) => {
                meter.bytes(a.len().min(b.len()))?;
                a == b
            }
            (Self::Duration(a), Self::Duration(b)) => a == b,
            (Self::Time(a), Self::Time(b)) => a.at == b.at,
            (Self::Kind(a), Self::Kind(b)) => a == b,
            (Self::Opaque(a), Self::Opaque(b)) => a.equals(b),
            (Self::Optional(a), Self::Optional(b)) => match (a, b) {
                (Some(a), Some(b)) => a.equals(b, meter)?,
                (None, None) => true,
                _ => false,
            },
            (a, b) if a.is_list() && b.is_list() => lists_equal(a, b, meter)?,
            (Self::Map(_) | Self::Members(..), Self::Map(_) | Self::Members(..)) => {
                self.maps_equal(other, meter)?
            }
            // What is of the object refuses to be compared with what it is not.
            (Self::Items(_, shape, _) | Self::Members(_, shape), _)
                if !matches!(shape.is, Content::Any(_)) =>
            {
                return Err(no_overload());
            }
            (a, b) => match a.compared_as_numbers(b) {
                Some(order) => order == Some(Ordering::Equal),
                None => false,
            },
        })
    }

    fn maps_equal(&self, other: &Self, meter: &Meter) -> Result<bool, Fault> {
        if self.len() != other.len() {
            return Ok(false);
        }
        for (key, value) in self.entries(meter).unwrap_or(Ok(Vec::new()))? {
            match other.member(&key, meter)? {
                Some(found) if value.equals(&found, meter)? => {}
                _ => return Ok(false),
            }
        }
        Ok(true)
    }

    /// The order of two numbers of any kind; the outer `None` if one is no number.
    #[expect(
        clippy::option_option,
        reason = "no numbers, and numbers without an order"
    )]
    pub(super) fn compared_as_numbers(&self, other: &Self) -> Option<Option<Ordering>> {
        let whole = |val: &Self| match val {
            Self::Int(a) => Some(i128::from(*a)),
            Self::Uint(a) => Some(i128::from(*a)),
            _ => None,
        };
        if let (Some(a), Some(b)) = (whole(self), whole(other)) {
            return Some(Some(a.cmp(&b)));
        }
        #[expect(
            clippy::cast_precision_loss,
            reason = "numbers are compared as doubles are"
        )]
        let float = |val: &Self| match val {
            Self::Int(a) => Some(*a as f64),
            Self::Uint(a) => Some(*a as f64),
            Self::Double(a) => Some(*a),
            _ => None,
        };
        Some(float(self)?.partial_cmp(&float(other)?))
    }

    /// The order of two values; an error where there is none.
    pub(super) fn order(&self, other: &Self, meter: &Meter) -> Result<Ordering, Fault> {
        Ok(match (self, other) {
            (Self::Bool(a), Self::Bool(b)) => a.cmp(b),
            (Self::Text(a), Self::Text(b)) => {
                meter.bytes(a.as_str().len().min(b.as_str().len()))?;
                a.as_str().cmp(b.as_str())
            }
            (Self::Bytes(a), Self::Bytes(b)) => {
                meter.bytes(a.len().min(b.len()))?;
                a.cmp(b)
            }
            (Self::Duration(a), Self::Duration(b)) => a.cmp(b),
            (Self::Time(a), Self::Time(b)) => a.at.cmp(&b.at),
            _ => match self.compared_as_numbers(other) {
                Some(Some(order)) => order,
                Some(None) => return Err(Fault::new("NaN values cannot be ordered")),
                None => return Err(no_overload()),
            },
        })
    }

    /// Lists put together; a list of the schema keeps what it is.
    pub(super) fn joined(self, other: &Self, meter: &Meter) -> Answer<'a> {
        let (Some(mine), Some(theirs)) = (self.items(meter), other.items(meter)) else {
            return Err(no_overload());
        };
        let (mut mine, theirs) = (mine?, theirs?);
        let kept = match &self {
            Self::Items(_, _, listing) | Self::List(_, Kept::As(listing)) => Kept::As(listing),
            _ => Kept::Plain,
        };
        match self.listing() {
            Listing::Plain => mine.extend(theirs),
            Listing::Set => {
                let known = mine.len();
                for item in theirs {
                    if !contains(&mine[..known], &item, meter)? {
                        mine.push(item);
                    }
                }
            }
            Listing::Keyed(keys) => {
                let known = mine.len();
                for item in theirs {
                    match keyed(&mine[..known], &item, keys, meter)? {
                        Some(nth) => mine[nth] = item,
                        None => mine.push(item),
                    }
                }
            }
        }
        Ok(Self::List(Rc::new(mine), kept))
    }
}

pub(super) fn contains(items: &[Val<'_>], wanted: &Val<'_>, meter: &Meter) -> Result<bool, Fault> {
    for item in items {
        if item.equals(wanted, meter)? {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Finds the item with the same values of the keys.
fn keyed(
    items: &[Val<'_>],
    wanted: &Val<'_>,
    keys: &[String],
    meter: &Meter,
) -> Result<Option<usize>, Fault> {
    for (nth, item) in items.iter().enumerate() {
        let mut same = true;
        for key in keys {
            let key = super::escape::escape(key).map_or(Val::Null, Val::text);
            same = same
                && match (item.member(&key, meter)?, wanted.member(&key, meter)?) {
                    (Some(a), Some(b)) => a.equals(&b, meter)?,
                    (None, None) => true,
                    _ => false,
                };
        }
        if same {
            return Ok(Some(nth));
        }
    }
    Ok(None)
}

fn lists_equal(a: &Val<'_>, b: &Val<'_>, meter: &Meter) -> Result<bool, Fault> {
    if a.len() != b.len() {
        return Ok(false);
    }
    if *a.listing() == Listing::Plain {
        for (a, b) in a.each().zip(b.each()) {
            if !a?.equals(&b?, meter)? {
                return Ok(false);
            }
        }
        return Ok(true);
    }
    let (Some(mine), Some(theirs)) = (a.items(meter), b.items(meter)) else {
        return Ok(false);
    };
    let (mine, theirs) = (mine?, theirs?);
    match a.listing() {
        Listing::Plain => {}
        Listing::Set => {
            for item in &theirs {
                if !contains(&mine, item, meter)? {
                    return Ok(false);
                }
            }
        }
        Listing::Keyed(keys) => {
            for item in &theirs {
                match keyed(&mine, item, keys, meter)? {
                    Some(nth) if mine[nth].equals(item, meter)? => {}
                    _ => return Ok(false),
                }
            }
        }
    }
    Ok(true)
}

fn formatted(text: &str, format: Format) -> Answer<'_> {
    Ok(match format {
        Format::Plain => Val::Text(Text::There(text)),
        Format::Bytes => match decode(text) {
            Some(bytes) => Val::Bytes(bytes.into()),
            None => {
                return Err(Fault::Error(format!(
                    "Invalid byte formatted string {text}"
                )));
            }
        },
        Format::Duration => match time::parse_worded_duration(text) {
            Some(nanos) => Val::Duration(nanos),
            None => return Err(Fault::Error(format!("Invalid duration {text}"))),
        },
        Format::Date => match time::parse_date(text) {
            Some(time) => Val::Time(time),
            None => {
                return Err(Fault::Error(format!(
                    "Invalid date formatted string {text}"
                )));
            }
        },
        Format::DateTime => match time::parse_date_time(text) {
            Some(time) => Val::Time(time),
            None => {
                return Err(Fault::Error(format!(
                    "Invalid date-time formatted string {text}"
                )));
            }
        },
    })
}

/// Bytes as JSON carries them.
fn decode(text: &str) -> Option<Vec<u8>> {
    STANDARD.decode(text).ok()
}

/// The server's names for the types of decoded JSON.
fn go_type(value: &Value) -> &'static str {
    match value {
        Value::Null => "<nil>",
        Value::Bool(_) => "bool",
        Value::Number(number) if number.is_f64() => "float64",
        Value::Number(_) => "int64",
        Value::String(_) => "string",
        Value::Array(_) => "[]interface {}",
        Value::Object(_) => "map[string]interface {}",
    }
}
