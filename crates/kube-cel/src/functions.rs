//! Functions and operators. Each is found by its name; the types of the arguments select the overload.

use std::rc::Rc;

use super::{
    expr::Call,
    fault::{Fault, Meter, no_overload},
    value::{Answer, Val},
};

mod arithmetic;
mod convert;
mod libraries;
mod lists;
mod printing;
mod text;
mod times;

pub(super) use lists::sorted;
pub(super) use printing::shown;

/// Calls a function with its target, if it has one, as first argument.
pub(super) fn call<'a>(call: &Call, arguments: &[Val<'a>], meter: &Meter) -> Answer<'a> {
    let name = call.name.as_str();
    if let Some(answer) = operator(name, arguments, meter) {
        return answer;
    }
    let tried = [
        convert::call,
        lists::call,
        times::call,
        libraries::call,
        optional,
    ];
    if let Some(answer) = text::call(call, arguments, meter) {
        return answer;
    }
    for library in tried {
        if let Some(answer) = library(name, arguments, meter) {
            return answer;
        }
    }
    Err(no_overload())
}

fn operator<'a>(name: &str, arguments: &[Val<'a>], meter: &Meter) -> Option<Answer<'a>> {
    Some(match (name, arguments) {
        ("_==_", [a, b]) => a.equals(b, meter).map(Val::Bool),
        ("_!=_", [a, b]) => a.equals(b, meter).map(|same| Val::Bool(!same)),
        ("_<_", [a, b]) => a.order(b, meter).map(|order| Val::Bool(order.is_lt())),
        ("_<=_", [a, b]) => a.order(b, meter).map(|order| Val::Bool(order.is_le())),
        ("_>_", [a, b]) => a.order(b, meter).map(|order| Val::Bool(order.is_gt())),
        ("_>=_", [a, b]) => a.order(b, meter).map(|order| Val::Bool(order.is_ge())),
        ("!_", [Val::Bool(value)]) => Ok(Val::Bool(!value)),
        ("_[_]", [of, key]) => index(of, key, meter),
        ("_[?_]", [of, key]) => optional_index(of, key, meter),
        ("_?._", [of, key]) => optional_member(of, key, meter),
        ("size", [of]) if of.has_parts() => {
            Ok(Val::Int(of.len().and_then(|len| i64::try_from(len).ok())?))
        }
        ("@in", [wanted, of]) => within(wanted, of, meter),
        ("_+_", [a, b]) if a.is_list() && b.is_list() => a.clone().joined(b, meter),
        ("@mapInsert", [Val::Map(entries), rest @ ..]) => {
            let mut entries = entries.as_ref().clone();
            insert_all(&mut entries, rest.to_vec(), meter).map(|()| Val::Map(Rc::new(entries)))
        }
        ("_+_" | "_-_" | "_*_" | "_/_" | "_%_", [a, b]) => arithmetic::binary(name, a, b, meter),
        ("-_", [a]) => arithmetic::negated(a),
        ("!_", [_]) => Err(no_overload()),
        _ => return None,
    })
}

fn position(key: &Val<'_>) -> Result<Option<usize>, Fault> {
    match key {
        Val::Int(nth) => Ok(usize::try_from(*nth).ok()),
        Val::Uint(nth) => Ok(usize::try_from(*nth).ok()),
        Val::Double(nth) if nth.fract() == 0.0 && *nth >= 0.0 => {
            #[expect(
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                reason = "a whole number that is not negative; saturates"
            )]
            let nth = *nth as usize;
            Ok(Some(nth))
        }
        _ => Err(Fault::Error(format!(
            "unsupported index type '{}' in list",
            key.type_name()
        ))),
    }
}

/// An element or a member, if it is there.
fn found<'a>(of: &Val<'a>, key: &Val<'a>, meter: &Meter) -> Result<Option<Val<'a>>, Fault> {
    if of.is_list() {
        return match position(key)? {
            Some(nth) => of.at(nth).transpose(),
            None => Ok(None),
        };
    }
    of.member(key, meter)
}

fn index<'a>(of: &Val<'a>, key: &Val<'a>, meter: &Meter) -> Answer<'a> {
    if let Val::Optional(inner) = of {
        return match inner {
            Some(inner) => Ok(Val::Optional(found(inner, key, meter)?.map(Rc::new))),
            None => Ok(Val::Optional(None)),
        };
    }
    if !of.has_parts() {
        return Err(Fault::Error(format!(
            "no such key: {}",
            printing::shown(key)
        )));
    }
    found(of, key, meter)?.ok_or_else(|| {
        let key = printing::shown(key);
        Fault::Error(if of.is_list() {
            format!("index out of bounds: {key}")
        } else {
            format!("no such key: {key}")
        })
    })
}

fn optional_index<'a>(of: &Val<'a>, key: &Val<'a>, meter: &Meter) -> Answer<'a> {
    let of = match of {
        Val::Optional(None) => return Ok(Val::Optional(None)),
        Val::Optional(Some(inner)) => inner,
        of => of,
    };
    Ok(Val::Optional(found(of, key, meter)?.map(Rc::new)))
}

fn optional_member<'a>(of: &Val<'a>, key: &Val<'a>, meter: &Meter) -> Answer<'a> {
    optional_index(of, key, meter)
}

fn within<'a>(wanted: &Val<'a>, of: &Val<'a>, meter: &Meter) -> Answer<'a> {
    if of.is_list() {
        for item in of.each() {
            if item?.equals(wanted, meter)? {
                return Ok(Val::Bool(true));
            }
        }
        return Ok(Val::Bool(false));
    }
    match of {
        Val::Map(_) | Val::Members(..) => Ok(Val::Bool(of.member(wanted, meter)?.is_some())),
        _ => Err(no_overload()),
    }
}

/// Puts an entry into a map, in the place of one with the same key.
pub(super) fn put<'a>(
    entries: &mut Vec<(Val<'a>, Val<'a>)>,
    key: Val<'a>,
    value: Val<'a>,
    meter: &Meter,
) -> Result<(), Fault> {
    for (known, old) in entries.iter_mut() {
        if known.equals(&key, meter)? {
            *old = value;
            return Ok(());
        }
    }
    entries.push((key, value));
    Ok(())
}

/// Puts an entry into a map that does not have it yet.
pub(super) fn insert<'a>(
    entries: &mut Vec<(Val<'a>, Val<'a>)>,
    key: Val<'a>,
    value: Val<'a>,
    meter: &Meter,
) -> Result<(), Fault> {
    for (known, _) in entries.iter() {
        if known.equals(&key, meter)? {
            return Err(Fault::Error(format!(
                "insert failed: key {} already exists",
                printing::shown(&key)
            )));
        }
    }
    entries.push((key, value));
    Ok(())
}

/// The rest of `@mapInsert`: a key and a value, or a map.
pub(super) fn insert_all<'a>(
    entries: &mut Vec<(Val<'a>, Val<'a>)>,
    rest: Vec<Val<'a>>,
    meter: &Meter,
) -> Result<(), Fault> {
    let mut rest = rest.into_iter();
    match (rest.next(), rest.next()) {
        (Some(key), Some(value)) => insert(entries, key, value, meter),
        (Some(map), None) => {
            for (key, value) in map.entries(meter).unwrap_or_else(|| Err(no_overload()))? {
                insert(entries, key, value, meter)?;
            }
            Ok(())
        }
        _ => Err(no_overload()),
    }
}

fn optional<'a>(name: &str, arguments: &[Val<'a>], meter: &Meter) -> Option<Answer<'a>> {
    Some(match (name, arguments) {
        ("optional.of", [value]) => Ok(Val::some(value.clone())),
        ("optional.ofNonZeroValue", [value]) => Ok(if is_zero(value) {
            Val::Optional(None)
        } else {
            Val::some(value.clone())
        }),
        ("optional.none", []) => Ok(Val::Optional(None)),
        ("hasValue", [Val::Optional(inner)]) => Ok(Val::Bool(inner.is_some())),
        ("value", [Val::Optional(inner)]) => inner
            .as_ref()
            .map(|inner| inner.as_ref().clone())
            .ok_or_else(|| Fault::new("optional.none() dereference")),
        ("or", [Val::Optional(Some(_)), _]) => Ok(arguments[0].clone()),
        ("or", [Val::Optional(None), other]) => Ok(other.clone()),
        ("orValue", [Val::Optional(inner), other]) => Ok(match inner {
            Some(inner) => inner.as_ref().clone(),
            None => other.clone(),
        }),
        ("optional.unwrap" | "unwrapOpt", [list]) => {
            let items = list.items(meter)?;
            items.map(|items| {
                let there = items.into_iter().filter_map(|item| match item {
                    Val::Optional(inner) => inner.map(|inner| inner.as_ref().clone()),
                    other => Some(other),
                });
                Val::list(there.collect())
            })
        }
        _ => return None,
    })
}

fn is_zero(value: &Val<'_>) -> bool {
    match value {
        Val::Null => true,
        Val::Bool(value) => !value,
        Val::Int(value) => *value == 0,
        Val::Uint(value) => *value == 0,
        Val::Double(value) => *value == 0.0,
        Val::Text(text) => text.as_str().is_empty(),
        Val::Bytes(bytes) => bytes.is_empty(),
        Val::Duration(nanos) => *nanos == 0,
        Val::Optional(inner) => inner.is_none(),
        other => other.len() == Some(0),
    }
}
