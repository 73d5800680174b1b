//! The types of an object's values: its schema by the names that expressions use, without what no expression
//! can reach, or nothing.

use std::{collections::BTreeMap, sync::Arc};

use super::escape::{escape, is_reserved};

/// One level of what is visible.
#[derive(Debug)]
pub struct Shape {
    /// The name of an object type in messages, such as `selfType.spec`.
    pub name: String,
    pub is: Content,
    pub nullable: bool,
}

#[derive(Debug)]
pub enum Content {
    /// Whatever stands there, and below it.
    Any(Numbers),
    IntOrString,
    /// By escaped name: the written one, and what it is.
    Object(BTreeMap<String, Member>),
    Map(Arc<Shape>),
    List(Arc<Shape>, Listing),
    Text(Format),
    Number,
    Integer,
    Boolean,
    /// Fields that are kept without being known; expressions cannot name them.
    Unknown,
}

/// The type of numbers in a value without a schema.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Numbers {
    /// Whole ones are integers, as in objects of a cluster.
    Exact,
    Doubles,
}

#[derive(Debug)]
pub struct Member {
    pub written: String,
    pub shape: Arc<Shape>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Listing {
    Plain,
    Set,
    Keyed(Arc<[String]>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    Plain,
    Bytes,
    Duration,
    Date,
    DateTime,
}

/// An object of which nothing is known.
pub(super) static ANY: Shape = Shape::any(Numbers::Exact);
/// A value of which nothing is known, with the numbers of plain JSON.
pub(super) static ANY_DOUBLES: Shape = Shape::any(Numbers::Doubles);

impl Shape {
    const fn any(numbers: Numbers) -> Self {
        Self {
            name: String::new(),
            is: Content::Any(numbers),
            nullable: true,
        }
    }

    pub(super) fn member(&self, field: &str) -> Option<&Member> {
        match &self.is {
            Content::Object(members) => member(members, field),
            _ => None,
        }
    }
}

/// A member by the name that an expression uses. Words that the language keeps for later are names, too,
/// where it can read them as such.
pub(super) fn member<'m>(members: &'m BTreeMap<String, Member>, name: &str) -> Option<&'m Member> {
    let found = members.get(name);
    found.or_else(|| members.get(&escape(name).filter(|_| is_reserved(name))?))
}
