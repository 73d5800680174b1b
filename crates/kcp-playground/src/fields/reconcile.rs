//! Adapts sets that were written with an earlier schema: a value that has become atomic is owned as a whole.

use super::element::Element;
use super::set::{Branch, Set};
use super::types::{Map, Relation, Type, TypeShape};

/// The set adapted to the current type; the value of the object does not matter.
pub(super) fn reconcile(set: &Set, kind: &Type) -> Set {
    below(set, kind)
}

fn below(set: &Set, kind: &Type) -> Set {
    match kind.shape(None) {
        Some(TypeShape::Map(map)) if !is_deduced(map) => {
            let mut result = Set::default();
            for (element, branch) in set.iter() {
                let member = match element {
                    Element::Field(name) => map.member(name),
                    _ => map.members.as_ref(),
                };
                result.add(element.clone(), one(branch, member));
            }
            result
        }
        Some(TypeShape::List(list)) => {
            let mut result = Set::default();
            for (element, branch) in set.iter() {
                result.add(element.clone(), one(branch, Some(&list.items)));
            }
            result
        }
        _ => set.clone(),
    }
}

fn one(branch: &Branch, kind: Option<&Type>) -> Branch {
    let Some(kind) = kind else {
        return branch.clone();
    };
    let was_piece = branch.member && branch.below.is_empty();
    let is_piece = match kind.shape(None) {
        Some(TypeShape::Map(map)) => !is_deduced(map) && map.atomic && !branch.below.is_empty(),
        Some(TypeShape::List(list)) => list.relation == Relation::Atomic,
        _ => false,
    };
    if is_piece && !was_piece {
        return Branch::leaf();
    }
    Branch {
        member: branch.member,
        below: below(&branch.below, kind),
    }
}

/// A map without a declared type is never adapted.
fn is_deduced(map: &Map) -> bool {
    map.fields.is_empty() && matches!(map.members, Some(Type::Deduced | Type::Untyped))
}
