//! A compiled schema, level by level.

use std::collections::BTreeMap;

use kube_lang::go_regex::GoRegex;
use serde_json::Value;

use super::formats::Format;
use super::keywords::Type;
use super::numbers::Bounds;

/// One level of a schema.
#[derive(Clone, Debug, Default)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a keyword of its own"
)]
pub(super) struct SchemaNode {
    /// Empty for any type; two types for an int-or-string.
    pub(super) types: Vec<Type>,
    pub(super) format: Option<Format>,
    pub(super) nullable: bool,
    pub(super) preserve: bool,
    pub(super) embedded: bool,
    pub(super) default: Option<Value>,
    pub(super) properties: BTreeMap<String, Self>,
    pub(super) additional: Option<Additional>,
    pub(super) items: Option<Box<Self>>,
    pub(super) list: ListType,
    pub(super) required: Vec<String>,
    pub(super) allowed: Vec<Value>,
    pub(super) min_length: Option<i64>,
    pub(super) max_length: Option<i64>,
    pub(super) pattern: Option<GoRegex>,
    pub(super) min_items: Option<i64>,
    pub(super) max_items: Option<i64>,
    pub(super) unique_items: bool,
    pub(super) min_properties: Option<i64>,
    pub(super) max_properties: Option<i64>,
    pub(super) numbers: Bounds,
    pub(super) all_of: Vec<Self>,
    pub(super) any_of: Vec<Self>,
    pub(super) one_of: Vec<Self>,
    pub(super) not: Option<Box<Self>>,
    /// Whether it, or a part of it, is embedded.
    pub(super) has_embedded: bool,
    /// Whether it is a list that is not atomic, or contains one.
    pub(super) has_lists: bool,
}

impl SchemaNode {
    /// The schemas of members and items.
    pub(super) fn members(&self) -> impl Iterator<Item = &Self> {
        let additional = match &self.additional {
            Some(Additional::Schema(node)) => Some(&**node),
            _ => None,
        };
        let items = self.items.as_deref();
        self.properties.values().chain(additional).chain(items)
    }

    /// The schema of a member of an object.
    pub(super) fn member(&self, name: &str) -> Option<&Self> {
        match (self.properties.get(name), &self.additional) {
            (Some(node), _) => Some(node),
            (None, Some(Additional::Schema(node))) => Some(node),
            (None, _) => None,
        }
    }
}

#[derive(Clone, Debug)]
pub(super) enum Additional {
    Anything,
    Nothing,
    Schema(Box<SchemaNode>),
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) enum ListType {
    #[default]
    Atomic,
    Set,
    Map(Vec<String>),
}
