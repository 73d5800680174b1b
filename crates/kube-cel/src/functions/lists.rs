//! Functions over lists, and over lists as sets.

use std::cmp::Ordering;

use super::arithmetic;
use crate::{
    fault::{Fault, Meter, no_overload},
    value::{Answer, Val, contains},
};

pub(super) fn call<'a>(name: &str, arguments: &[Val<'a>], meter: &Meter) -> Option<Answer<'a>> {
    if name == "lists.range"
        && let [Val::Int(count)] = arguments
    {
        return Some(range(*count, meter));
    }
    let items = match arguments.first()?.items(meter)? {
        Ok(items) => items,
        Err(fault) => return Some(Err(fault)),
    };
    let rest = &arguments[1..];
    Some(match (name, rest) {
        ("isSorted", []) => is_sorted(&items, meter),
        ("sum", []) => sum(&items, meter),
        ("min", []) => extreme("min", items, Ordering::Less, meter),
        ("max", []) => extreme("max", items, Ordering::Greater, meter),
        ("indexOf", [wanted]) => position(items.iter().enumerate(), wanted, meter),
        ("lastIndexOf", [wanted]) => position(items.iter().enumerate().rev(), wanted, meter),
        ("slice", [Val::Int(from), Val::Int(to)]) => slice(&items, *from, *to),
        ("flatten", []) => flatten(items, 1, meter),
        ("flatten", [Val::Int(depth)]) if *depth < 0 => {
            Err(Fault::new("level must be non-negative"))
        }
        ("flatten", [Val::Int(depth)]) => flatten(items, *depth, meter),
        ("sort", []) => sorted(items.iter().cloned().zip(items.clone()).collect(), meter),
        ("distinct", []) => distinct(items, meter),
        ("reverse", []) => Ok(Val::list(items.into_iter().rev().collect())),
        ("first", []) => Ok(optional(items.into_iter().next())),
        ("last", []) => Ok(optional(items.into_iter().next_back())),
        ("sets.contains", [other]) => subset(other, &items, meter).map(Val::Bool),
        ("sets.equivalent", [other]) => equivalent(arguments, other, &items, meter),
        ("sets.intersects", [other]) => intersects(other, &items, meter),
        _ => return None,
    })
}

fn optional(value: Option<Val<'_>>) -> Val<'_> {
    match value {
        Some(value) => Val::some(value),
        None => Val::Optional(None),
    }
}

fn range<'a>(count: i64, meter: &Meter) -> Answer<'a> {
    let size = u64::try_from(count).unwrap_or(0);
    meter.charge(size)?;
    Ok(Val::list((0..count).map(Val::Int).collect()))
}

fn is_sorted<'a>(items: &[Val<'a>], meter: &Meter) -> Answer<'a> {
    for pair in items.windows(2) {
        if pair[0].order(&pair[1], meter)?.is_gt() {
            return Ok(Val::Bool(false));
        }
    }
    Ok(Val::Bool(true))
}

fn sum<'a>(items: &[Val<'a>], meter: &Meter) -> Answer<'a> {
    let Some((first, rest)) = items.split_first() else {
        // Of nothing there is no telling of which kind its zero is.
        return Ok(Val::Int(0));
    };
    rest.iter().try_fold(first.clone(), |total, item| {
        arithmetic::binary("_+_", &total, item, meter)
    })
}

fn extreme<'a>(name: &str, items: Vec<Val<'a>>, wanted: Ordering, meter: &Meter) -> Answer<'a> {
    let mut items = items.into_iter();
    let Some(mut best) = items.next() else {
        return Err(Fault::Error(format!("{name} called on empty list")));
    };
    for item in items {
        if item.order(&best, meter)? == wanted {
            best = item;
        }
    }
    Ok(best)
}

fn position<'a, 'v>(
    items: impl Iterator<Item = (usize, &'v Val<'a>)>,
    wanted: &Val<'a>,
    meter: &Meter,
) -> Answer<'a>
where
    'a: 'v,
{
    for (nth, item) in items {
        if item.equals(wanted, meter)? {
            return Ok(Val::Int(i64::try_from(nth).unwrap_or(i64::MAX)));
        }
    }
    Ok(Val::Int(-1))
}

fn slice<'a>(items: &[Val<'a>], from: i64, to: i64) -> Answer<'a> {
    let (Ok(start), Ok(end)) = (usize::try_from(from), usize::try_from(to)) else {
        return Err(Fault::Error(format!(
            "cannot slice({from}, {to}), negative indexes not supported"
        )));
    };
    if start > end {
        return Err(Fault::Error(format!(
            "cannot slice({from}, {to}), start index must be less than or equal to end index"
        )));
    }
    match items.get(start..end) {
        Some(slice) => Ok(Val::list(slice.to_vec())),
        None => Err(Fault::Error(format!(
            "cannot slice({from}, {to}), list is length {}",
            items.len()
        ))),
    }
}

fn flatten<'a>(items: Vec<Val<'a>>, depth: i64, meter: &Meter) -> Answer<'a> {
    let mut level = items;
    for _ in 0..depth {
        if !level.iter().any(Val::is_list) {
            break;
        }
        let mut next = Vec::with_capacity(level.len());
        for item in level {
            match item.items(meter) {
                Some(inner) => next.extend(inner?),
                None => next.push(item),
            }
        }
        level = next;
    }
    Ok(Val::list(level))
}

/// The second of each pair in the order of the first.
pub(crate) fn sorted<'a>(mut keyed: Vec<(Val<'a>, Val<'a>)>, meter: &Meter) -> Answer<'a> {
    let rounds = u64::from(keyed.len().max(2).ilog2()) + 1;
    meter.charge(keyed.len() as u64 * rounds)?;
    for (key, _) in &keyed {
        meter.bytes(key.as_text().map_or(0, str::len) * usize::try_from(rounds).unwrap_or(1))?;
        if matches!(key, Val::Double(number) if number.is_nan()) {
            return Err(Fault::new("NaN values cannot be ordered"));
        }
    }
    // It is paid for: an order that is given up halfway is none.
    let paid = Meter::new(u64::MAX);
    let mut fault = None;
    if let Some((first, _)) = keyed.first() {
        let kind = first.type_name().to_owned();
        if keyed.iter().any(|(key, _)| key.type_name() != kind) {
            return Err(Fault::new("list elements must have the same type"));
        }
    }
    keyed.sort_by(|(a, _), (b, _)| {
        a.order(b, &paid).unwrap_or_else(|why| {
            fault = Some(why);
            Ordering::Equal
        })
    });
    match fault {
        Some(fault) => Err(fault),
        None => Ok(Val::list(keyed.into_iter().map(|(_, item)| item).collect())),
    }
}

fn distinct<'a>(items: Vec<Val<'a>>, meter: &Meter) -> Answer<'a> {
    let mut kept: Vec<Val<'a>> = Vec::new();
    for item in items {
        if !contains(&kept, &item, meter)? {
            kept.push(item);
        }
    }
    Ok(Val::list(kept))
}

/// True if all elements of one list are in another.
fn subset(part: &Val<'_>, whole: &[Val<'_>], meter: &Meter) -> Result<bool, Fault> {
    for item in part.items(meter).unwrap_or_else(|| Err(no_overload()))? {
        if !contains(whole, &item, meter)? {
            return Ok(false);
        }
    }
    Ok(true)
}

fn equivalent<'a>(
    arguments: &[Val<'a>],
    other: &Val<'a>,
    items: &[Val<'a>],
    meter: &Meter,
) -> Answer<'a> {
    let theirs = other.items(meter).unwrap_or_else(|| Err(no_overload()))?;
    Ok(Val::Bool(
        subset(other, items, meter)? && subset(&arguments[0], &theirs, meter)?,
    ))
}

fn intersects<'a>(other: &Val<'a>, items: &[Val<'a>], meter: &Meter) -> Answer<'a> {
    for item in other.items(meter).unwrap_or_else(|| Err(no_overload()))? {
        if contains(items, &item, meter)? {
            return Ok(Val::Bool(true));
        }
    }
    Ok(Val::Bool(false))
}
