//! Queries such as `#(name=="a")`, matched against one value.

use super::{
    component::Query,
    found::{Found, number},
    limits::{Budget, PathError},
    scan::Kind,
    wildcard,
};

pub(super) fn holds(
    query: &Query<'_>,
    value: &Found<'_>,
    budget: &Budget,
) -> Result<bool, PathError> {
    if let [b'~', sort @ ..] = &*query.value {
        let is = match sort {
            b"*" => value.exists(),
            b"null" => value.kind == Kind::Null,
            b"true" => value.truth() == Some(true),
            b"false" => value.kind == Kind::Null || value.truth() == Some(false),
            _ => return Ok(false),
        };
        return Ok(holds_bool(query.operator, is, b"true"));
    }
    if !value.exists() {
        return Ok(false);
    }
    if query.operator.is_empty() {
        return Ok(true);
    }
    Ok(match value.kind {
        Kind::String => {
            let text = value.text();
            match query.operator {
                b"%" | b"!%" => {
                    budget.spend(text.len() * query.value.len())?;
                    wildcard::matches(&text, &query.value) == (query.operator == b"%")
                }
                operator => compares(operator, &*text, &*query.value),
            }
        }
        Kind::Number => compares(query.operator, &value.number(), &number(&query.value)),
        Kind::True => holds_bool(query.operator, true, &query.value),
        Kind::False => holds_bool(query.operator, false, &query.value),
        Kind::Null | Kind::Json => false,
    })
}

fn compares<T: PartialOrd + ?Sized>(operator: &[u8], left: &T, right: &T) -> bool {
    match operator {
        b"=" => left == right,
        b"!=" => left != right,
        b"<" => left < right,
        b"<=" => left <= right,
        b">" => left > right,
        b">=" => left >= right,
        _ => false,
    }
}

fn holds_bool(operator: &[u8], left: bool, right: &[u8]) -> bool {
    let own: &[u8] = if left { b"true" } else { b"false" };
    match operator {
        // Asked with `~` and no operator, only whether there is something to ask of counts.
        b"" => true,
        b"=" => right == own,
        b"!=" => right != own,
        b">" => left && right == b"false",
        b">=" => left,
        b"<" => !left && right == b"true",
        b"<=" => !left,
        _ => false,
    }
}
