//! Pruning: removes unknown fields, and returns their paths.

use serde_json::Value;

use super::node::{Additional, SchemaNode};
use crate::field::Path;

/// Fields that every object has, whatever its schema says.
pub(super) const META: [&str; 3] = ["apiVersion", "kind", "metadata"];

/// Prunes a whole object, whose own `apiVersion`, `kind` and `metadata` are not defined by the schema.
pub(super) fn object(root: &SchemaNode, object: &mut Value) -> Vec<String> {
    let mut pruner = Pruner { paths: Vec::new() };
    pruner.walk(object, At::Node(root, true), &Path::Root);
    pruner.paths.sort();
    pruner.paths
}

/// Prunes a value inside of an object, such as a default.
pub(super) fn value(node: &SchemaNode, value: &mut Value) -> bool {
    let mut pruner = Pruner { paths: Vec::new() };
    pruner.walk(value, At::Node(node, node.embedded), &Path::Root);
    !pruner.paths.is_empty()
}

#[derive(Clone, Copy)]
enum At<'a> {
    /// The flag tells whether this is an object with its own metadata.
    Node(&'a SchemaNode, bool),
    /// The schema does not know this part, and keeps nothing of it.
    Unknown,
}

struct Pruner {
    paths: Vec<String>,
}

impl Pruner {
    fn walk(&mut self, value: &mut Value, at: At<'_>, path: &Path<'_>) {
        match (value, at) {
            (Value::Object(map), At::Unknown) => {
                for name in map.keys() {
                    self.paths.push(path.field(name).to_string());
                }
                map.clear();
            }
            (Value::Object(map), At::Node(node, embedded)) => {
                // `retain` visits each member once and can change it on the way.
                map.retain(|name, value| {
                    if embedded && META.contains(&name.as_str()) {
                        return true;
                    }
                    self.member(name, value, node, path)
                });
            }
            (Value::Array(list), At::Unknown) => {
                for (nth, value) in list.iter_mut().enumerate() {
                    self.walk(value, At::Unknown, &path.index(nth));
                }
            }
            (Value::Array(list), At::Node(node, _)) => {
                let items = match &node.items {
                    Some(items) => At::Node(items, items.embedded),
                    // Preserved values without a schema stay as they are.
                    None if node.preserve => return,
                    None => At::Unknown,
                };
                for (nth, value) in list.iter_mut().enumerate() {
                    self.walk(value, items, &path.index(nth));
                }
            }
            _ => {}
        }
    }

    /// Prunes a member; false if it is to be removed.
    fn member(
        &mut self,
        name: &str,
        value: &mut Value,
        node: &SchemaNode,
        path: &Path<'_>,
    ) -> bool {
        let at = match (node.member(name), &node.additional) {
            (Some(member), _) => At::Node(member, member.embedded),
            (None, Some(Additional::Anything | Additional::Nothing)) => At::Unknown,
            (None, _) if node.preserve => return true,
            (None, _) => {
                let top_meta = matches!(path, Path::Root) && META.contains(&name);
                if !top_meta {
                    self.paths.push(path.field(name).to_string());
                }
                return false;
            }
        };
        self.walk(value, at, &path.field(name));
        true
    }
}
