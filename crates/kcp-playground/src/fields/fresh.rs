//! The fields that the writer of a new object owns. This is faster than comparing with an empty object, and has the
//! same result.

use serde_json::{Map as Object, Value};

use super::check::{self, TypeError};
use super::element::Element;
use super::set::{Branch, Set};
use super::types::{Relation, Type, TypeShape};

/// The fields of an object that no manager owns.
#[derive(Clone, Copy)]
pub(super) struct Unowned<'a> {
    /// These paths, without the fields below them.
    pub(super) alone: Option<&'a Set>,
    /// These paths and all fields below them.
    pub(super) whole: Option<&'a Set>,
}

/// The part of a value that the writer owns.
enum OwnShare {
    Nothing,
    Itself,
    /// The fields below it, and the value itself if `itself` is set.
    Below {
        itself: bool,
        fields: Object<String, Value>,
    },
}

/// The owned fields in the form of an entry; empty if there are none.
pub(super) fn fields(
    object: &Value,
    kind: &Type,
    left: Unowned<'_>,
) -> Result<Object<String, Value>, TypeError> {
    match walk(object, kind, left)? {
        OwnShare::Below { fields, .. } => Ok(fields),
        OwnShare::Nothing | OwnShare::Itself => Ok(Object::new()),
    }
}

impl<'a> Unowned<'a> {
    /// The rest of a member; `None` if all of it is excluded.
    fn below(self, element: &Element) -> Option<(bool, Self)> {
        self.of(|set| set.get(element))
    }

    fn below_field(self, name: &str) -> Option<(bool, Self)> {
        self.of(|set| set.field(name))
    }

    fn of(self, branch: impl Fn(&'a Set) -> Option<&'a Branch>) -> Option<(bool, Self)> {
        let (alone, whole) = (self.alone.and_then(&branch), self.whole.and_then(&branch));
        if whole.is_some_and(|branch| branch.member) {
            return None;
        }
        let left = Self {
            alone: alone.map(|branch| &branch.below),
            whole: whole.map(|branch| &branch.below),
        };
        Some((alone.is_some_and(|branch| branch.member), left))
    }

    fn nothing(self) -> bool {
        self.alone.is_none() && self.whole.is_none()
    }
}

fn walk(value: &Value, kind: &Type, left: Unowned<'_>) -> Result<OwnShare, TypeError> {
    let mut fields = Object::new();
    match (kind.shape(Some(value)), value) {
        (None, _) => return Err(TypeError::new("schema error: invalid atom: inlined")),
        (Some(TypeShape::Map(map)), Value::Object(members))
            if !map.atomic && !members.is_empty() =>
        {
            for (name, member) in members {
                let Some(kind) = map.member(name) else {
                    let error = TypeError::new("field not declared in schema");
                    return Err(error.below(&Element::field(name)));
                };
                let found = if left.nothing() {
                    walk(member, kind, left)?
                } else {
                    one(left.below_field(name), member, kind)?
                };
                put(&mut fields, ["f:", name].concat(), found);
            }
        }
        (Some(TypeShape::List(list)), Value::Array(items))
            if list.relation != Relation::Atomic && !items.is_empty() =>
        {
            let mut seen = std::collections::BTreeMap::<Element, Vec<&Value>>::new();
            for (index, item) in items.iter().enumerate() {
                let element = check::element(list, item)
                    .map_err(|why| TypeError::new(format!("element {index}: {why}")))?;
                seen.entry(element).or_default().push(item);
            }
            for (element, items) in &seen {
                let found = match items.as_slice() {
                    [item] => one(left.below(element), item, &list.items)?,
                    // Items with the same key are owned as a whole.
                    _ => one(left.below(element), &Value::Null, &Type::Untyped)?,
                };
                put(&mut fields, element.to_key(), found);
            }
        }
        _ => return Ok(OwnShare::Itself),
    }
    Ok(OwnShare::Below {
        itself: true,
        fields,
    })
}

/// The owned part of a member.
fn one(
    left: Option<(bool, Unowned<'_>)>,
    value: &Value,
    kind: &Type,
) -> Result<OwnShare, TypeError> {
    let Some((alone, left)) = left else {
        // Its type is checked all the same.
        let nothing = Unowned {
            alone: None,
            whole: None,
        };
        walk(value, kind, nothing)?;
        return Ok(OwnShare::Nothing);
    };
    Ok(match walk(value, kind, left)? {
        OwnShare::Itself if alone => OwnShare::Nothing,
        OwnShare::Below { fields, .. } if alone => OwnShare::Below {
            itself: false,
            fields,
        },
        found => found,
    })
}

fn put(fields: &mut Object<String, Value>, key: String, found: OwnShare) {
    let below = match found {
        OwnShare::Nothing => return,
        OwnShare::Itself => Object::new(),
        OwnShare::Below {
            itself,
            fields: mut below,
        } => {
            if below.is_empty() && !itself {
                return;
            }
            if itself && !below.is_empty() {
                below.insert(".".to_owned(), Value::Object(Object::new()));
            }
            below
        }
    };
    fields.insert(key, Value::Object(below));
}
